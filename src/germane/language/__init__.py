"""Conditions: text to tree to normal form.

A text is in one of three dialects: germane's own, CESQL (`cesql`), or the filters of the
CloudEvents Subscriptions API as JSON (`subscriptions`). All become the same trees.

`lexer` and `parser` (with `predicates`, and `complain` for the errors) read the text into the nodes
of `tree`; `check` types it against a draft of the schema; `normal` and `dnf` rewrite it into the
conjunctions that the indexes store. `compile_condition` does all of it.

In: the text of a profile's condition or of a message's address. Out: a `Condition`. The caller
commits the draft, so that a refused profile teaches the schema nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from germane.language import cesql
from germane.language.check import check, read_condition
from germane.language.dnf import CAP, Conjunctions, to_dnf
from germane.language.normal import to_nnf
from germane.language.parser import MAX_DEPTH, MAX_LENGTH, parse
from germane.language.subscriptions import read_filters
from germane.language.tree import Node
from germane.model.draft import Draft
from germane.model.errors import ConditionError, InvalidValue

__all__ = [
    "CAP",
    "DIALECTS",
    "GERMANE",
    "MAX_DEPTH",
    "MAX_LENGTH",
    "Condition",
    "as_dialect",
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


GERMANE, CESQL, FILTERS = DIALECTS = ("germane", "cesql", "filters")


def as_dialect(dialect: object) -> str:
    """The name of a dialect, checked; None is our own."""
    if dialect is None:
        return GERMANE
    if dialect not in DIALECTS:
        raise InvalidValue(f"a dialect is one of {', '.join(DIALECTS)}, not {dialect!r:.200}")
    return str(dialect)


def compile_condition(
    text: str, draft: Draft, names: str = "message", dialect: str = GERMANE
) -> Condition:
    """Parse, check and normalise a condition, or an address with `names="address"`."""
    try:
        if dialect == CESQL:
            read = cesql.to_condition(text, draft)
        elif dialect == FILTERS:
            read = read_filters(text, draft)
        else:
            read = read_condition(text, draft, names)
        nnf = to_nnf(read.tree)
        conjunctions = to_dnf(nnf)
    except RecursionError:  # the caller's own stack was nearly full
        message = "the condition is nested too deeply for what is left of the stack"
        raise ConditionError(message, text) from None
    message_names, context_names = frozenset(read.message_names), frozenset(read.context_names)
    return Condition(
        read.tree, nnf, conjunctions, bool(context_names), message_names, context_names
    )
