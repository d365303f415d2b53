"""Contextcast for the oracle: dicts and sets, one clear line for each rule, no arrays.

A context is a dict of attributes. An aggregate is a dict, too; its values are ("number", lo, hi),
("choice", set), ("location", (lo, hi), (lo, hi)) or ("class", node, whether all below is meant). A
scan over all contexts says who is meant by an address.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class NaiveSpace:
    """``types``: name -> ("number", length), ("choice",), ("location", y, x) or ("class", parents).

    Lengths are those of domains; ``parents`` is a dict of node -> parent, None for the root.
    """

    def __init__(self, types: dict[str, tuple[Any, ...]]) -> None:
        self.types = types

    # aggregates ------------------------------------------------------------------------------

    def encode(self, context: dict[str, Any]) -> dict[str, Any]:
        return {
            name: self._value(self.types[name][0], value)
            for name, value in context.items()
            if value is not None
        }

    def _value(self, kind: str, value: Any) -> tuple[Any, ...]:
        if kind == "number":
            return (kind, value, value)
        if kind == "choice":
            return (kind, {value})
        if kind == "class":
            return (kind, value, False)
        south, west, north, east = value if len(value) == 4 else (*value, *value)
        return (kind, (south, north), (west, east))

    def merge(self, a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
        both = {name: self._merged(name, a[name], b[name]) for name in a if name in b}
        return a | b | both

    def _merged(self, name: str, a: Any, b: Any) -> Any:
        kind = a[0]
        if kind == "number":
            return (kind, *hull(a[1:], b[1:]))
        if kind == "choice":
            return (kind, a[1] | b[1])
        if kind == "location":
            return (kind, hull(a[1], b[1]), hull(a[2], b[2]))
        return a if a == b else (kind, self.common(name, a[1], b[1]), True)

    def path(self, name: str, node: Any) -> list[Any]:
        """A node and all above it, up to the root."""
        parents = self.types[name][1]
        found = []
        while node is not None:
            found.append(node)
            node = parents[node]
        return found

    def common(self, name: str, a: Any, b: Any) -> Any:
        return next(node for node in self.path(name, a) if node in self.path(name, b))

    def similarity(self, a: dict[str, Any], b: dict[str, Any]) -> float:
        if not a and not b:
            return 1.0
        shared = [self._alike(name, a[name], b[name]) for name in a if name in b]
        return sum(shared) / len(a.keys() | b.keys())

    def _alike(self, name: str, a: Any, b: Any) -> float:
        kind = a[0]
        if kind == "number":
            return alike(a[1:], b[1:], self.types[name][1])
        if kind == "location":
            _, y, x = self.types[name]
            return (alike(a[1], b[1], y) + alike(a[2], b[2], x)) / 2
        if kind == "choice":
            either, both = a[1] | b[1], a[1] & b[1]
            return ((len(a[1]) + len(b[1])) / (2 * len(either)) + len(both) / len(either)) / 2
        height = max(len(self.path(name, node)) for node in self.types[name][1]) - 1
        if height == 0:
            return 1.0
        level = {node: len(self.path(name, node)) - 1 for node in self.types[name][1]}
        top = self.common(name, a[1], b[1])
        return 1 - (level[a[1]] + level[b[1]] - 2 * level[top]) / (2 * height)

    # addresses -------------------------------------------------------------------------------

    def may_match(self, aggregate: dict[str, Any], wheres: Iterable[Any]) -> bool:
        return all(self._may(aggregate, *where) for where in wheres)

    def _may(self, aggregate: dict[str, Any], name: str, operator: str, value: Any) -> bool:
        if operator in ("is null", "test"):
            return True
        if name not in aggregate:
            return False
        if operator == "is not null":
            return True
        kind, *held = aggregate[name]
        values = value if operator in ("in", "not in") else [value]
        if kind == "number":
            lo, hi = held
            return {
                "=": lambda: lo <= value <= hi, "<>": lambda: not lo == hi == value,
                "<": lambda: lo < value, "<=": lambda: lo <= value,
                ">": lambda: hi > value, ">=": lambda: hi >= value,
                "in": lambda: any(lo <= v <= hi for v in values),
                "not in": lambda: lo != hi or lo not in values,
            }[operator]()  # fmt: skip
        if kind == "choice":
            if operator in ("=", "in"):
                return bool(held[0] & set(values))
            return bool(held[0] - set(values))
        if kind == "location":
            (south, west, north, east), ((y_lo, y_hi), (x_lo, x_hi)) = value, held
            if west > east:
                halves = [(south, west, north, 180), (south, -180, north, east)]
                return any(self._may(aggregate, name, operator, half) for half in halves)
            return y_lo <= north and y_hi >= south and x_lo <= east and x_hi >= west
        node, flagged = held
        if operator == "within":
            return value in self.path(name, node) or (flagged and node in self.path(name, value))
        if operator in ("=", "in"):
            return any(v == node or (flagged and node in self.path(name, v)) for v in values)
        return flagged or node not in values

    def matches(self, context: dict[str, Any], wheres: Iterable[Any]) -> bool:
        """Whether a context itself, not an aggregate, matches."""
        wheres = list(wheres)
        nulls = [name for name, operator, _ in wheres if operator == "is null"]
        tests = [(name, value) for name, operator, value in wheres if operator == "test"]
        return (
            all(context.get(name) is None for name in nulls)
            and all(test(context.get(name)) is True for name, test in tests)
            and self.may_match(self.encode(context), wheres)
        )

    def scan(self, contexts: dict[Any, dict[str, Any]], wheres: Iterable[Any]) -> set[Any]:
        """Everybody who is meant."""
        wheres = list(wheres)
        return {who for who, context in contexts.items() if self.matches(context, wheres)}


def hull(a: Any, b: Any) -> tuple[float, float]:
    return min(a[0], b[0]), max(a[1], b[1])


def alike(a: Any, b: Any, length: float) -> float:
    """Position and span of two intervals."""
    lo, hi = hull(a, b)
    position = max(0, 1 - abs(a[0] - b[0]) / length) if length else 1
    span = ((a[1] - a[0]) + (b[1] - b[0])) / (2 * (hi - lo)) if hi > lo else 1
    return (position + span) / 2
