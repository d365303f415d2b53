"""Types of attributes: what a value looks like in columns, and which operators read it.

Each type is one class: ``kind`` names its branch in ``kernels.aggregates``, ``width`` its columns;
``encode`` turns a person's value into columns, ``decode`` turns columns into words, ``operands``
turns the right side of a filter into numbers. A new type is a class here and a branch there.

What is refused: NaN and infinities as values, NaN in filters, boxes whose north is below their
south, latitudes and longitudes off the globe. A box in an *address* whose west is above its east
crosses 180 degrees; a context's own box may not. Poles are ordinary latitudes.
"""

from collections.abc import Iterable, Sequence
from math import isfinite, isnan
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from germane.kernels import addressed, aggregates
from germane.model import InvalidValue, TypeMismatch, UnknownNode

Columns = list[float]
COMPARISONS = {
    "<": addressed.BELOW, "<=": addressed.AT_MOST, ">": addressed.ABOVE, ">=": addressed.AT_LEAST,
}  # fmt: skip
LISTS = {"=": addressed.IN, "in": addressed.IN, "<>": addressed.NOT_IN, "not in": addressed.NOT_IN}


class Type(Protocol):
    """What ``Space`` asks of a type."""

    kind: ClassVar[int]
    operators: ClassVar[dict[str, int]]

    @property
    def width(self) -> int: ...
    @property
    def lengths(self) -> tuple[float, float]: ...
    def encode(self, value: Any) -> Columns: ...
    def decode(self, columns: Columns) -> Any: ...
    def operands(self, operator: str, value: Any) -> Columns: ...


def _number(value: Any, what: str, finite: bool = True) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        raise TypeMismatch(f"{what} is a number, not {value!r:.200}")
    try:
        number = float(value)
    except (OverflowError, TypeError) as error:
        raise InvalidValue(f"{what} is out of range: {value!r:.200}") from error
    if isnan(number) or (finite and not isfinite(number)):
        raise InvalidValue(f"{what} is {number}; leave it out if it is not known")
    return number


def _listed(operator: str, value: Any) -> list[Any]:
    """The values of a list operator; a string is one value."""
    if operator not in ("in", "not in", "within") or isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable):
        return [value]
    return list(value)


class Number:
    """A number within a domain; its length is what distances are measured by.

    Values outside the domain are taken; they are as far from others as can be.
    """

    kind: ClassVar[int] = aggregates.NUMBER
    operators: ClassVar[dict[str, int]] = COMPARISONS | LISTS
    width = 2

    def __init__(self, low: float = 0.0, high: float = 1.0) -> None:
        self.low, self.high = _number(low, "the low end"), _number(high, "the high end")
        if self.low > self.high or not isfinite(self.high - self.low):
            raise InvalidValue(f"a domain from {low} to {high} has no length; exchange its ends?")

    @property
    def lengths(self) -> tuple[float, float]:
        return self.high - self.low, 0.0

    def encode(self, value: Any) -> Columns:
        number = _number(value, "a value") + 0.0  # no negative zero
        return [number, number]

    def decode(self, columns: Columns) -> Any:
        return columns[0] if columns[0] == columns[1] else (columns[0], columns[1])

    def operands(self, operator: str, value: Any) -> Columns:
        return [_number(v, "a bound", finite=False) for v in _listed(operator, value)]


class Choice:
    """One of some values, such as words; an aggregate is a set of them.

    Values are known when they first come, up to ``capacity``.
    """

    kind: ClassVar[int] = aggregates.CHOICE
    operators: ClassVar[dict[str, int]] = LISTS

    def __init__(self, values: Iterable[Any] = (), capacity: int = 64) -> None:
        self.values: list[Any] = list(dict.fromkeys(values))
        self.number = {value: i for i, value in enumerate(self.values)}
        self.capacity = max(capacity, len(self.values))
        self.width = -(-max(self.capacity, 1) // aggregates.WORD)

    @property
    def lengths(self) -> tuple[float, float]:
        return 0.0, 0.0

    def encode(self, value: Any) -> Columns:
        columns = [0.0] * self.width
        many = value if isinstance(value, set | frozenset) else (value,)
        if not many:
            raise InvalidValue("an empty set is no value; leave the attribute out")
        for one in many:
            at, bit = divmod(self._name(one), aggregates.WORD)
            columns[at] = float(int(columns[at]) | 1 << bit)
        return columns

    def _name(self, value: Any) -> int:
        number = self.number.get(value)
        if number is None:
            number = len(self.values)
            if number == self.capacity:
                raise InvalidValue(f"{value!r:.200} is one value too many: capacity is {number}")
            self.number[value] = number
            self.values.append(value)
        return number

    def decode(self, columns: Columns) -> Any:
        found = [
            value
            for i, value in enumerate(self.values)
            if int(columns[i // aggregates.WORD]) >> (i % aggregates.WORD) & 1
        ]
        return found[0] if len(found) == 1 else set(found)

    def operands(self, operator: str, value: Any) -> Columns:
        return [float(self.number.get(v, aggregates.NONE)) for v in _listed(operator, value)]


class Location:
    """A point (y, x) or a box (south, west, north, east) in a domain, by default the globe."""

    kind: ClassVar[int] = aggregates.LOCATION
    operators: ClassVar[dict[str, int]] = {"box": addressed.BOX}
    width = 4

    def __init__(
        self, box: Sequence[float] = (-90.0, -180.0, 90.0, 180.0), wraps: bool | None = None
    ) -> None:
        south, west, north, east = (_number(v, "an edge of the domain") for v in box)
        if south > north or west > east:
            raise InvalidValue(f"the domain {tuple(box)} is not (south, west, north, east)")
        self.box = (south, west, north, east)
        self.wraps = self.box == (-90.0, -180.0, 90.0, 180.0) if wraps is None else wraps

    @property
    def lengths(self) -> tuple[float, float]:
        south, west, north, east = self.box
        return north - south, east - west

    def encode(self, value: Any) -> Columns:
        edges = self._edges(value, "a location")
        if len(edges) == 2:
            edges = edges * 2
        south, west, north, east = edges
        if south > north:
            raise InvalidValue(f"the box {value!r} is upside down: (south, west, north, east)")
        if west > east:
            raise InvalidValue(f"the box {value!r} has its west above its east; give two contexts")
        self._require_inside(edges, value)
        return [south, north, west, east]

    def decode(self, columns: Columns) -> Any:
        south, north, west, east = columns
        return (south, west) if south == north and west == east else (south, west, north, east)

    def operands(self, operator: str, value: Any) -> Columns:
        edges = self._edges(value, "a box", (4,))
        south, west, north, east = edges
        if south > north:
            raise InvalidValue(f"the box {value!r} is upside down: (south, west, north, east)")
        if west > east and not self.wraps:
            raise InvalidValue(f"the box {value!r} has its west above its east, in the plane")
        if self.wraps:
            self._require_inside(edges, value)
        return edges

    def _require_inside(self, edges: Columns, value: Any) -> None:
        south, west, north, east = self.box
        inside = south <= edges[0] and edges[2] <= north
        if not (inside and all(west <= x <= east for x in edges[1::2])):
            raise InvalidValue(f"{value!r} is not within the domain {self.box}")

    def _edges(self, value: Any, what: str, lengths: tuple[int, ...] = (2, 4)) -> Columns:
        try:
            edges = [_number(v, f"an edge of {what}") + 0.0 for v in value]
        except TypeError as error:
            raise TypeMismatch(f"{what} has numbers, (south, west, …), not {value!r}") from error
        if len(edges) not in lengths:
            raise InvalidValue(f"{what} has {lengths} numbers, not {len(edges)}: {value!r}")
        return edges


class Taxonomy:
    """A class in a tree, given as a parent for each name (None for the root).

    >>> Taxonomy({"person": None, "student": "person"}).height
    1
    """

    kind: ClassVar[int] = aggregates.TAXONOMY
    operators: ClassVar[dict[str, int]] = {"within": addressed.WITHIN} | LISTS
    width = 2

    def __init__(self, parents: dict[Any, Any]) -> None:
        self.names = list(parents)
        self.number = {name: i for i, name in enumerate(self.names)}
        unknown = [p for p in parents.values() if p is not None and p not in self.number]
        if unknown:
            raise UnknownNode(f"the parent {unknown[0]!r:.200} is not among the classes")
        self.parent = np.array(
            [aggregates.NONE if p is None else self.number[p] for p in parents.values()], np.int32
        )
        roots = np.flatnonzero(self.parent == aggregates.NONE)
        if len(roots) != 1:
            raise InvalidValue(f"a tree of classes has one root, this has {len(roots)}")
        self.level, self.enter, self.leave = _tour(self.parent, int(roots[0]))
        self.height = int(self.level.max())
        self.offset = 0  # of its nodes among those of a space

    @property
    def lengths(self) -> tuple[float, float]:
        return 0.0, 0.0

    def encode(self, value: Any) -> Columns:
        return [float(self._node(value)), 0.0]

    def decode(self, columns: Columns) -> Any:
        name = self.names[int(columns[0]) - self.offset]
        return ("below", name) if columns[1] else name

    def operands(self, operator: str, value: Any) -> Columns:
        return [float(self._node(v)) for v in _listed(operator, value)]

    def _node(self, name: Any) -> int:
        try:
            return self.number[name] + self.offset
        except (KeyError, TypeError):
            raise UnknownNode(f"{name!r:.200} is no class of this tree") from None


Levels = NDArray[np.int32]


def _tour(parent: Levels, root: int) -> tuple[Levels, Levels, Levels]:
    """Level, first and last visit of every node; a node that the root does not reach is a cycle."""
    children: list[list[int]] = [[] for _ in parent]
    for node, above in enumerate(parent.tolist()):
        if above != aggregates.NONE:
            children[above].append(node)
    level, enter, leave = (np.full(len(parent), aggregates.NONE, np.int32) for _ in range(3))
    level[root] = clock = 0
    stack = [root]
    while stack:
        node = stack.pop()
        if node < 0:
            leave[~node] = clock
            continue
        enter[node] = clock
        clock += 1
        stack.append(~node)
        for child in children[node]:
            level[child] = level[node] + 1
            stack.append(child)
    if clock < len(parent):
        raise InvalidValue("a tree of classes has no cycles, this has one")
    return level, enter, leave
