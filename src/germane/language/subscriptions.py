"""Filters of the CloudEvents Subscriptions API, as JSON, to conditions.

In: a JSON array of filters, all of which have to hold: `exact`, `prefix` and `suffix` (attributes
and strings), `all` and `any` (arrays of filters), `not` (a filter), `sql` (CESQL), and, beyond that
API, `condition` (our own language). Out: one condition. A subscription that has several of `types`,
`source`, `filters` and `condition` is put together by `as_condition`.

A filter is TRUE or FALSE and nothing else: one whose attribute is missing, or whose expression
errs, is FALSE, and its `not` is TRUE. So both sides are written out, and our UNKNOWN never shows.
Attributes are compared by their text, as CESQL casts them: `{"exact": {"n": "5"}}` holds for the
integer 5.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from germane.language.cesql.conditions import text_column, to_condition
from germane.language.check import Read, read_condition
from germane.language.parser import MAX_LENGTH
from germane.language.tree import And, Compare, Const, IsNull, Like, Node, Not, Or
from germane.model.draft import Draft
from germane.model.errors import InvalidValue

__all__ = ["as_condition", "read_filters"]

MAX_DEPTH = 50
ESCAPE = "\\"


def as_condition(
    filters: Sequence[Any] | None = None,
    types: Sequence[str] | None = None,
    source: str | None = None,
    condition: str | None = None,
) -> tuple[str, str]:
    """The text and the dialect that say what a subscription does.

    >>> as_condition([{"sql": "EXISTS room"}])
    ('EXISTS room', 'cesql')
    >>> as_condition(types=["talk"], condition="time < context.last")[1]
    'filters'
    """
    whole = list(filters or ())
    if types:
        whole.insert(0, {"any": [{"exact": {"type": each}} for each in types]})
    if source:
        whole.insert(0, {"exact": {"source": source}})
    if condition is not None:
        whole.append({"condition": condition})
    if len(whole) == 1 and isinstance(whole[0], Mapping) and len(whole[0]) == 1:
        for word, dialect in (("condition", "germane"), ("sql", "cesql")):
            if isinstance(whole[0].get(word), str):
                return whole[0][word], dialect
    return json.dumps(whole), "filters"


class Sides(NamedTuple):
    """When a filter is TRUE, and when it is FALSE."""

    true: Node
    false: Node


def read_filters(text: str, draft: Draft) -> Read:
    """The condition of a JSON array of filters."""
    if not isinstance(text, str):
        raise InvalidValue(f"filters are JSON in a str, not {type(text).__name__}")
    if len(text) > MAX_LENGTH:
        raise InvalidValue(f"filters have at most {MAX_LENGTH:,} characters, not {len(text):,}")
    try:
        filters = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"filters are a JSON array: {error}") from None
    reader = _Reader(draft, text)
    sides = reader.many(filters, "filters", 0, _every, empty=True)
    return Read(sides.true, reader.message_names, reader.context_names)


class _Reader:
    """One run over the filters of one subscription."""

    def __init__(self, draft: Draft, text: str) -> None:
        self.draft = draft
        self.text = text
        self.message_names: set[str] = set()
        self.context_names: set[str] = set()

    def filter(self, given: Any, depth: int) -> Sides:
        """One filter: an object of one member, its dialect."""
        if depth > MAX_DEPTH:
            raise InvalidValue(f"filters are nested deeper than {MAX_DEPTH} levels")
        if not isinstance(given, dict) or len(given) != 1:
            raise InvalidValue(
                f"a filter is an object of one member, one of {', '.join(DIALECTS)}, "
                f"not {given!r:.200}"
            )
        ((dialect, body),) = given.items()
        if dialect not in DIALECTS:
            raise InvalidValue(f"a filter is one of {', '.join(DIALECTS)}, not {dialect!r:.200}")
        if dialect in ("all", "any"):
            return self.many(body, dialect, depth, _every if dialect == "all" else _some)
        if dialect == "not":
            true, false = self.filter(body, depth + 1)
            return Sides(false, true)
        if dialect in ("sql", "condition"):
            return self.expression(dialect, body)
        return self.attributes(dialect, body)

    def many(
        self,
        given: Any,
        what: str,
        depth: int,
        join: Callable[[list[Sides]], Sides],
        empty: bool = False,
    ) -> Sides:
        if not isinstance(given, list) or not (given or empty):
            raise InvalidValue(f"{what!r} is an array of one or more filters, not {given!r:.200}")
        return join([self.filter(each, depth + 1) for each in given])

    def attributes(self, dialect: str, body: Any) -> Sides:
        """`exact`, `prefix`, `suffix`: every attribute has to fit."""
        if not isinstance(body, dict) or not body:
            raise InvalidValue(f"{dialect!r} is an object of attributes, not {body!r:.200}")
        sides = []
        for name, value in body.items():
            if not name or not isinstance(value, str) or not value:
                raise InvalidValue(
                    f"{dialect!r} has attributes and strings, neither of them empty, "
                    f"not {name!r:.100}: {value!r:.100}"
                )
            self.message_names.add(name)
            column = text_column(name, self.draft, self.text)
            test: Node = Compare("=", column, Const(value, "string", 0), 0)
            if dialect != "exact":
                plain = value.replace(ESCAPE, ESCAPE * 2)
                plain = plain.replace("%", f"{ESCAPE}%").replace("_", f"{ESCAPE}_")
                pattern = f"{plain}%" if dialect == "prefix" else f"%{plain}"
                test = Like(column, pattern, ESCAPE, False, 0)
            sides.append(Sides(test, Or((IsNull(column, False, 0), Not(test, 0)), 0)))
        return _every(sides)

    def expression(self, dialect: str, text: Any) -> Sides:
        """`sql` and `condition`: FALSE wherever it is not TRUE."""
        if not isinstance(text, str):
            raise InvalidValue(f"{dialect!r} is a string, not {text!r:.200}")
        read = (to_condition if dialect == "sql" else read_condition)(text, self.draft)
        self.message_names |= read.message_names
        self.context_names |= read.context_names
        tree = read.tree
        return Sides(tree, Or((Not(tree, 0), IsNull(tree, False, 0)), 0))


def _every(sides: list[Sides]) -> Sides:
    if len(sides) == 1:
        return sides[0]
    return Sides(And(tuple(s.true for s in sides), 0), Or(tuple(s.false for s in sides), 0))


def _some(sides: list[Sides]) -> Sides:
    true, false = _every([Sides(side.false, side.true) for side in sides])
    return Sides(false, true)


DIALECTS = ("exact", "prefix", "suffix", "all", "any", "not", "sql", "condition")
