"""Random schemas, conditions, messages, updates and event sequences.

One grammar, two sources of choices: Hypothesis (which shrinks) and `random.Random` (which is
fast). Every generator takes a `Choices` first; the strategies at the end wrap them. Value pools
are small, so that collisions, boundary hits and NULLs are common, and conditions are weighted so
that TRUE, FALSE and UNKNOWN all happen often. Conditions are well-typed for their schema, and
use only what the semantics page promises.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import strategies as st

Schema = dict[str, str]

# ------------------------------------------------------------------------------------ pools

FINITE_NUMBERS = [0, 1, 2, 3.0, 4, 5.0, 6, -1, -2.0, 0.5, -0.0]
NUMBERS = [*FINITE_NUMBERS, 1e308, math.inf, -math.inf, math.nan]
NUMBER_LITERALS = ["0", "1", "2", "3", "4", "5", "6", "-1", "-2", "0.5", ".5", "2.0", "1E0", "-0.0"]
HUGE_LITERAL = "1e308"

PLAIN_STRINGS = ["", "a", "ab", "b", "A", "Main 1", "Main 2", "é", "it's", "a%", "a_b", "a\nb"]
STRINGS = [*PLAIN_STRINGS, "a\\b", "\uff5e", "\U0001f600", "a\x00"]  # code points, not UTF-16

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
TIMESTAMPS = [
    NOON,
    NOON.replace(tzinfo=None),
    NOON.astimezone(timezone(timedelta(hours=5, minutes=30))),
    NOON + timedelta(microseconds=1),
    NOON - timedelta(days=1),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
]
TIMESTAMP_LITERALS = [
    "TIMESTAMP '2026-11-15T12:00:00Z'",
    "TIMESTAMP '2026-11-15T13:00:00+01:00'",
    "TIMESTAMP '2026-11-15T12:00:00.000001Z'",
    "TIMESTAMP '2026-11-14T12:00:00Z'",
    "TIMESTAMP '1970-01-01T00:00:00Z'",
]

LOCATIONS = [(0.0, 0.0), (0.0, 1.0), (48.137, 11.575), (52.52, 13.405), (-33.87, 151.21)]
METRES = ["1", "5000", "120000", "600000", "1e7"]

PATTERNS = [
    "LIKE 'a%'", "LIKE '%'", "LIKE '_'", "LIKE 'Main _'", "LIKE '%b'", "LIKE 'a_b'", "LIKE ''",
    "LIKE '%i%1'", "LIKE 'it''s'", "LIKE 'a!%' ESCAPE '!'", "LIKE '%!_%' ESCAPE '!'",
    "LIKE 'a\\%' ESCAPE '\\'", "LIKE '%\\b'", "LIKE '__%'",
]  # fmt: skip

FIXED_ATTRIBUTES = {"n": "number", "m": "number", "s": "string"}
OTHER_ATTRIBUTES = {
    "ok": "boolean", "at": "timestamp", "N": "number", "flag": "boolean", "room": "string",
    "odd name": "number", "due": "timestamp", "Select": "string",
}  # fmt: skip
CONTEXTS = ["ann", "bob", "cy"]


class Values:
    """What the attributes of each type may hold, and how literals of it are written."""

    def __init__(self, finite: bool = False, null_share: int = 15) -> None:
        self.null_share = null_share
        self.pools = {
            "number": FINITE_NUMBERS if finite else NUMBERS,
            "string": PLAIN_STRINGS if finite else STRINGS,
            "boolean": [False, True],
            "timestamp": TIMESTAMPS,
            "location": LOCATIONS,
        }
        self.literals = {
            "number": NUMBER_LITERALS if finite else [*NUMBER_LITERALS, HUGE_LITERAL],
            "string": [quote(text) for text in self.pools["string"]],
            "boolean": ["FALSE", "TRUE"],
            "timestamp": TIMESTAMP_LITERALS,
        }


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


EVERYTHING = Values()
FINITE = Values(finite=True)


class Choices:
    """A source of decisions; the first alternative is the simplest, towards which it shrinks."""

    def __init__(self, integer: Callable[[int], int]) -> None:
        self._integer = integer  # n -> one of 0..n-1

    @classmethod
    def from_seed(cls, seed: int) -> Choices:
        return cls(random.Random(seed).randrange)

    @classmethod
    def from_draw(cls, draw: Callable) -> Choices:
        return cls(lambda n: draw(st.integers(0, n - 1)))

    def below(self, n: int) -> int:
        return self._integer(n) if n > 1 else 0

    def pick(self, items: list | tuple):
        return items[self.below(len(items))]

    def chance(self, percent: int) -> bool:
        return self.below(100) >= 100 - percent

    def weighted(self, *pairs: tuple[int, object]):
        at = self.below(sum(weight for weight, _ in pairs))
        for weight, item in pairs:
            if at < weight:
                return item
            at -= weight
        raise AssertionError("weights are positive")


# --------------------------------------------------------------------------- schemas, values


def schema(c: Choices, locations: bool = False) -> Schema:
    """Four to six attributes, one namespace for messages and contexts."""
    names = dict(FIXED_ATTRIBUTES)
    others = list(OTHER_ATTRIBUTES)
    for _ in range(1 + c.below(3)):
        name = others.pop(c.below(len(others)))
        names[name] = OTHER_ATTRIBUTES[name]
    if locations:
        names["place"] = "location"
    return names


def record(c: Choices, schema: Schema, values: Values = EVERYTHING) -> dict[str, object]:
    """A message, or a whole context: missing attributes and None are both NULL."""
    out: dict[str, object] = {}
    for name, type_ in schema.items():
        if not c.chance(values.null_share):
            out[name] = c.pick(values.pools[type_])
        elif c.chance(50):
            out[name] = None
    return out


def update(c: Choices, schema: Schema, values: Values = EVERYTHING) -> dict[str, object]:
    """New values for one to three attributes; None removes."""
    out = {}
    for _ in range(1 + c.below(3)):
        name = c.pick(list(schema))
        removes = c.chance(values.null_share)
        out[name] = None if removes else c.pick(values.pools[schema[name]])
    return out


def one_of_each(schema: Schema) -> dict[str, object]:
    """A record that fixes the type of every attribute."""
    return {name: EVERYTHING.pools[type_][0] for name, type_ in schema.items()}


# -------------------------------------------------------------------------------- conditions


class Conditions:
    """Writes conditions for one schema. Without a context, bounds are constants."""

    def __init__(
        self, c: Choices, schema: Schema, contextual: bool = True, values: Values = EVERYTHING
    ) -> None:
        self._c, self._contextual, self._values = c, contextual, values
        self._names: dict[str, list[str]] = {}
        for name, type_ in schema.items():
            self._names.setdefault(type_, []).append(name)

    def condition(self, depth: int = 3) -> str:
        if self._c.chance(4):
            return self._blow_up()
        return self._expression(depth)[0]

    # A boolean expression comes with its precedence: 1 OR, 2 AND, 3 NOT, 4 predicate.

    def _expression(self, depth: int) -> tuple[str, int]:
        kind = "predicate"
        if depth > 0:
            kind = self._c.weighted((30, "predicate"), (35, "AND"), (25, "OR"), (10, "NOT"))
        if kind == "predicate":
            return self._predicate(depth), 4
        if kind == "NOT":
            return f"{self._keyword('NOT')} {self._at_least(3, depth - 1)}", 3
        level = 2 if kind == "AND" else 1
        parts = [self._at_least(level, depth - 1) for _ in range(2 + self._c.below(2))]
        return f" {self._keyword(kind)} ".join(parts), level

    def _at_least(self, level: int, depth: int) -> str:
        text, own = self._expression(depth)
        return f"({text})" if own < level or self._c.chance(8) else text

    def _blow_up(self) -> str:
        """More than 64 conjunctions in DNF."""
        pairs = [f"({self._predicate(0)} OR {self._predicate(0)})" for _ in range(7)]
        return " AND ".join(pairs)

    def _keyword(self, word: str) -> str:
        return word.lower() if self._c.chance(5) else word

    def _predicate(self, depth: int) -> str:
        if depth > 0 and self._c.chance(8):
            return self._about_a_condition(depth)
        type_ = self._c.pick([t for t, names in self._names.items() for _ in names])
        return {
            "number": self._about_numbers,
            "string": self._about_strings,
            "boolean": self._about_booleans,
            "timestamp": self._about_timestamps,
            "location": self._about_locations,
        }[type_]()

    def _about_a_condition(self, depth: int) -> str:
        inner = f"({self._expression(depth - 1)[0]})"
        return self._c.weighted(
            (2, f"{inner} IS NULL"),
            (2, f"{inner} IS NOT NULL"),
            (2, f"{inner} = {self._c.pick(['TRUE', 'FALSE'])}"),
            (1, f"{inner} {self._comparison()} ({self._predicate(0)})"),
        )

    def _about_numbers(self) -> str:
        return self._c.weighted(
            (8, self._simple),
            (8, self._between),
            (8, lambda: self._compared(self._message("number"), self._bound())),
            (3, lambda: self._compared(self._bound(), self._message("number"))),
            (3, self._in),
            (3, self._null),
            (3, lambda: self._compared(self._message("number"), self._message("number"))),
            (3, lambda: self._compared(self._context("number"), self._literal("number"))),
            (2, lambda: self._compared(self._number(2), self._number(1))),
            (1, lambda: f"{self._number(2)} IS {self._maybe_not()}NULL"),
            (1, lambda: f"ABS({self._number(1)}) {self._comparison()} {self._bound()}"),
        )()

    def _about_strings(self) -> str:
        return self._c.weighted(
            (6, lambda: self._simple("string")),
            (5, self._like),
            (4, lambda: self._in("string")),
            (3, lambda: self._compared(self._message("string"), self._context("string"))),
            (2, lambda: self._compared(self._context("string"), self._literal("string"))),
            (2, lambda: self._between("string")),
            (2, lambda: self._null("string")),
            (1, lambda: self._compared(self._message("string"), self._message("string"))),
        )()

    def _about_booleans(self) -> str:
        return self._c.weighted(
            (5, lambda: self._either("boolean")),
            (3, lambda: f"NOT {self._either('boolean')}"),
            (3, lambda: self._simple("boolean")),
            (2, lambda: self._compared(self._message("boolean"), self._context("boolean"))),
            (2, lambda: self._null("boolean")),
            (1, lambda: self._in("boolean")),
            (1, lambda: self._between("boolean")),
            (1, lambda: f"{self._either('boolean')} {self._comparison()} ({self._predicate(0)})"),
            (1, lambda: self._c.pick(["TRUE", "FALSE"])),
        )()

    def _about_timestamps(self) -> str:
        return self._c.weighted(
            (5, lambda: self._simple("timestamp")),
            (4, lambda: self._compared(self._message("timestamp"), self._context("timestamp"))),
            (2, lambda: self._between("timestamp")),
            (2, lambda: self._in("timestamp")),
            (2, lambda: self._null("timestamp")),
            (1, lambda: self._compared(self._context("timestamp"), self._literal("timestamp"))),
        )()

    def _about_locations(self) -> str:
        reach = f"DISTANCE({self._message('location')}, {self._either('location')})"
        comparison = self._c.pick(["<=", "<", ">", ">="])
        return self._c.weighted(
            (5, f"{reach} {comparison} {self._c.pick(METRES)}"), (1, self._null("location"))
        )

    # Predicates that every ordered type has.

    def _simple(self, type_: str = "number") -> str:
        name, literal = self._message(type_), self._literal(type_)
        flipped = self._c.chance(25)
        return self._compared(literal, name) if flipped else self._compared(name, literal)

    def _compared(self, left: str, right: str) -> str:
        return f"{left} {self._comparison()} {right}"

    def _comparison(self) -> str:
        return self._c.pick(["<=", ">=", "=", "<", ">", "<>", "!="])

    def _between(self, type_: str = "number") -> str:
        if type_ == "number":
            low, high = self._environment()
            operand = self._number(1) if self._c.chance(15) else self._message(type_)
        else:
            low, high = (self._c.pick([self._literal, self._context])(type_) for _ in "lh")
            operand = self._either(type_)
        word = self._keyword("BETWEEN")
        return f"{operand} {self._maybe_not()}{word} {low} AND {high}"

    def _environment(self) -> tuple[str, str]:
        if self._c.chance(40):
            return self._bound(), self._bound()
        centre, width = self._context("number"), self._c.pick(["1", "2", "0.5", "0"])
        return f"{centre} - {width}", f"{centre} + {width}"

    def _in(self, type_: str = "number") -> str:
        items = [
            self._context(type_) if self._c.chance(10) else self._literal(type_)
            for _ in range(1 + self._c.below(4))
        ]
        return f"{self._either(type_)} {self._maybe_not()}IN ({', '.join(items)})"

    def _like(self) -> str:
        return f"{self._either('string')} {self._maybe_not()}{self._c.pick(PATTERNS)}"

    def _null(self, type_: str = "number") -> str:
        return f"{self._either(type_)} IS {self._maybe_not()}NULL"

    def _maybe_not(self) -> str:
        return "NOT " if self._c.chance(33) else ""

    # Operands.

    def _message(self, type_: str) -> str:
        name = self._c.pick(self._names[type_])
        return name if name.isidentifier() and name != "Select" else f'"{name}"'

    def _context(self, type_: str) -> str:
        if self._contextual:
            return f"context.{self._message(type_)}"
        return self._message(type_) if type_ == "location" else self._literal(type_)

    def _either(self, type_: str) -> str:
        """Mostly the message's attribute, at times the context's."""
        if self._contextual and self._c.chance(20):
            return self._context(type_)
        return self._message(type_)

    def _literal(self, type_: str) -> str:
        return self._c.pick(self._values.literals[type_])

    def _bound(self) -> str:
        """Mostly linear in one attribute of the context."""
        return self._c.weighted(
            (4, lambda: self._context("number")),
            (3, lambda: f"{self._context('number')} - {self._factor()}"),
            (3, lambda: f"{self._context('number')} + {self._factor()}"),
            (2, lambda: f"{self._context('number')} * {self._factor()} + {self._factor()}"),
            (2, lambda: f"{self._factor()} - {self._context('number')}"),
            (2, lambda: f"-{self._parenthesised(self._context('number'))}"),
            (2, lambda: f"{self._context('number')} / {self._factor()}"),
            (1, lambda: f"({self._context('number')} + 1) * {self._factor()}"),
            (1, lambda: f"{self._context('number')} + {self._context('number')}"),
            (1, lambda: f"ABS({self._context('number')})"),
        )()

    def _factor(self) -> str:
        return self._parenthesised(self._literal("number"))

    @staticmethod
    def _parenthesised(text: str) -> str:
        return f"({text})" if text.startswith("-") else text  # `--` reads like a comment

    def _number(self, depth: int) -> str:
        """Any arithmetic; operators associate to the left, and parentheses regroup them."""
        if depth == 0 or self._c.chance(20):
            return self._c.pick([self._message, self._either, self._context, self._literal])(
                "number"
            )
        left = self._parenthesised(self._number(depth - 1))
        right = self._parenthesised(self._number(depth - 1))
        return self._c.weighted(
            (3, f"{left} - {right}"),
            (3, f"{left} + {right}"),
            (2, f"{left} * {right}"),
            (2, f"{left} / {right}"),
            (2, f"{left} - ({right})"),
            (1, f"{left} / ({right})"),
            (1, f"({left}) * ({right})"),
            (1, f"-({left})"),
            (1, f"ABS({left} - {right})"),
        )


def condition(
    c: Choices, schema: Schema, contextual: bool = True, values: Values = EVERYTHING
) -> str:
    return Conditions(c, schema, contextual, values).condition()


def templates(c: Choices) -> list[str]:
    """Environments around the context's values, as indexes like them; over n, m and s."""
    half, width, level = c.pick(["0.5", "0.25"]), c.pick(["1", "2"]), c.pick(["3", "5"])
    return [
        f"n BETWEEN context.n - {width} AND context.n + {width}",
        f"n BETWEEN context.n - {width} AND context.n + {width} AND m < {level}",
        f"m >= context.m - {half} AND m < context.m + {half}",
        f"n = context.n AND m BETWEEN context.m - {width} AND context.m + {width}",
        f"s = context.s AND n > context.n * 2 - {width}",
        f"s = 'a' AND n <= context.n AND context.m < {level}",
        f"n < {half} - context.m OR s = context.s AND m = {level}",
    ]


# ------------------------------------------------------------------------------------ events


def events(
    c: Choices, schema: Schema, n_events: int, values: Values = EVERYTHING
) -> list[tuple[str, ...]]:
    """A sequence: (subscribe, id, condition, context), (unsubscribe, id), (update, context,
    values) and (message, values). Ids are used again after they were unsubscribed."""
    live: set[str] = set()
    sequence: list[tuple] = []
    for _ in range(n_events):
        kind = c.weighted((30, "subscribe"), (30, "message"), (30, "update"), (10, "unsubscribe"))
        if kind == "subscribe":
            id = c.pick([f"p{i}" for i in range(2 * n_events) if f"p{i}" not in live][:8])
            context = None if c.chance(20) else c.pick(CONTEXTS)
            text = condition(c, schema, context is not None, values)
            live.add(id)
            sequence.append((kind, id, text, context))
        elif kind == "message":
            sequence.append((kind, record(c, schema, values)))
        elif kind == "update":
            sequence.append((kind, c.pick(CONTEXTS), update(c, schema, values)))
        elif live:
            id = c.pick(sorted(live))
            live.remove(id)
            sequence.append((kind, id))
    return sequence


# -------------------------------------------------------------------------------- strategies


@st.composite
def schemas(draw, **options) -> Schema:
    return schema(Choices.from_draw(draw), **options)


@st.composite
def conditions(draw, schema: Schema, contextual: bool = True, values=EVERYTHING) -> str:
    return condition(Choices.from_draw(draw), schema, contextual, values)


@st.composite
def messages(draw, schema: Schema, values: Values = EVERYTHING) -> dict[str, object]:
    return record(Choices.from_draw(draw), schema, values)


@st.composite
def updates(draw, schema: Schema, values: Values = EVERYTHING) -> dict[str, object]:
    return update(Choices.from_draw(draw), schema, values)


@st.composite
def sequences(draw, schema: Schema, max_events: int = 40) -> list[tuple]:
    return events(Choices.from_draw(draw), schema, 1 + draw(st.integers(0, max_events - 1)))
