"""Conditions: text to tree to normal form.

`lexer` and `parser` (with `predicates`, and `complain` for the errors) read the text into the nodes
of `tree`; `check` types it against a draft of the schema; `normal` and `dnf` rewrite it into the
conjunctions that the indexes store. `compile_condition` does all of it.

In: the text of a profile's condition or of a message's address. Out: a `Condition`. The caller
commits the draft, so that a refused profile teaches the schema nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from germane.language.check import Checker, check
from germane.language.dnf import CAP, Conjunctions, to_dnf
from germane.language.normal import to_nnf
from germane.language.parser import MAX_DEPTH, MAX_LENGTH, parse
from germane.language.tree import Node
from germane.model.draft import Draft
from germane.model.errors import ConditionError

__all__ = [
    "CAP",
    "MAX_DEPTH",
    "MAX_LENGTH",
    "Condition",
    "check",
    "compile_condition",
    "parse",
    "to_dnf",
    "to_nnf",
]


class Condition(NamedTuple):
    """A condition that parses and types, in the forms that the stages need."""

    tree: Node
    nnf: Node
    conjunctions: Conjunctions | None
    """None beyond the cap: evaluate `nnf` (or `tree`) as it is."""
    reads_context: bool
    message_names: frozenset[str]
    context_names: frozenset[str]


def compile_condition(text: str, draft: Draft, names: str = "message") -> Condition:
    """Parse, check and normalise a condition, or an address with `names="address"`."""
    tree = parse(text, names)
    checker = Checker(draft, text)
    try:
        checker.condition(tree)
        nnf = to_nnf(tree)
        conjunctions = to_dnf(nnf)
    except RecursionError:  # the caller's own stack was nearly full
        raise ConditionError(
            "the condition is nested too deeply for what is left of the stack", text, tree.at
        ) from None
    context_names = frozenset(checker.context_names)
    return Condition(
        tree,
        nnf,
        conjunctions,
        bool(context_names),
        frozenset(checker.message_names),
        context_names,
    )
