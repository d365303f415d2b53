"""CESQL 1.0, the CloudEvents SQL expression language: text to expression to condition.

`grammar` reads a text into the nodes of `expressions`; `evaluate` computes what an expression is
for one event, errors included; `conditions` rewrites it into the tree of germane's own language, so
that both dialects run on the same indexes. What that tree cannot say stays an expression, and is
evaluated for candidates alone.
"""

from germane.language.cesql.conditions import to_condition
from germane.language.cesql.evaluate import evaluate
from germane.language.cesql.grammar import parse

__all__ = ["evaluate", "parse", "to_condition"]
