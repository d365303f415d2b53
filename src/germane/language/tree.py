"""The tree of a condition: small named tuples, each with the position it had in the text.

In: nothing. Out: the node classes that the parser builds, `check` types and `normal` rewrites.
Values are constants, attributes and arithmetic; conditions are the nodes that are TRUE, FALSE or
UNKNOWN. A boolean attribute is both.

Tuples of different classes compare equal (`Message("a", 0) == Context("a", 0)`): tell nodes apart
by `type(node)`, never by `==`.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

__all__ = [
    "Abs",
    "And",
    "Arith",
    "Cast",
    "Cesql",
    "Compare",
    "CONDITIONS",
    "Const",
    "Context",
    "Distance",
    "In",
    "InBox",
    "IsNull",
    "Like",
    "Matches",
    "Message",
    "Negate",
    "Node",
    "Not",
    "Or",
    "Truth",
    "Within",
    "children",
]


class Const(NamedTuple):
    """A literal: float, str, bool, or int microseconds for a timestamp."""

    value: float | str | bool | int
    type: str
    at: int


class Message(NamedTuple):
    """An attribute of the message."""

    name: str
    at: int


class Cast(NamedTuple):
    """An attribute of the message as CESQL casts it to a type; NULL where that is an error."""

    name: str
    type: str
    at: int


class Context(NamedTuple):
    """An attribute of the profile's context; in an address, of the recipient's."""

    name: str
    at: int


class Arith(NamedTuple):
    """`left op right`, op one of `+ - * /`."""

    op: str
    left: Node
    right: Node
    at: int


class Negate(NamedTuple):
    """`-operand`."""

    operand: Node
    at: int


class Abs(NamedTuple):
    """`ABS(operand)`."""

    operand: Node
    at: int


class Distance(NamedTuple):
    """`DISTANCE(left, right)`: great-circle metres between two locations."""

    left: Node
    right: Node
    at: int


class Compare(NamedTuple):
    """`left op right`, op one of `= <> < <= > >=`."""

    op: str
    left: Node
    right: Node
    at: int


class In(NamedTuple):
    """`operand [NOT] IN (items)`."""

    operand: Node
    items: tuple[Node, ...]
    negated: bool
    at: int


class Like(NamedTuple):
    """`operand [NOT] LIKE 'pattern' [ESCAPE 'escape']`; without ESCAPE, `escape` is None."""

    operand: Node
    pattern: str
    escape: str | None
    negated: bool
    at: int


class IsNull(NamedTuple):
    """`operand IS [NOT] NULL`."""

    operand: Node
    negated: bool
    at: int


class Within(NamedTuple):
    """Some node of `lower` is, or is below, some node of `upper`: `x WITHIN y`, `y CONTAINS x`.

    A side is an attribute, or string constants. `word` is as it was written, for people.
    """

    lower: tuple[Node, ...]
    upper: tuple[Node, ...]
    word: str
    negated: bool
    at: int


class InBox(NamedTuple):
    """`operand [NOT] IN BOX(south, west, north, east)`; west above east crosses 180 degrees."""

    operand: Node
    south: float
    west: float
    north: float
    east: float
    negated: bool
    at: int


class Matches(NamedTuple):
    """`operand [NOT] MATCHES 'pattern' COST < threshold`."""

    operand: Message
    pattern: str
    threshold: float
    negated: bool
    at: int
    pattern_at: int
    threshold_at: int


class Cesql(NamedTuple):
    """A CESQL expression that is evaluated as it is, on the message; UNKNOWN where it errs.

    A strict one is UNKNOWN also where its value is no boolean; others have it cast.
    """

    text: str
    strict: bool
    negated: bool
    at: int


class Truth(NamedTuple):
    """TRUE or FALSE as a condition; None is UNKNOWN, which no text can spell."""

    value: bool | None
    at: int


class And(NamedTuple):
    """All of `parts`, of which there are two or more."""

    parts: tuple[Node, ...]
    at: int


class Or(NamedTuple):
    """Some of `parts`, of which there are two or more."""

    parts: tuple[Node, ...]
    at: int


class Not(NamedTuple):
    """`NOT operand`."""

    operand: Node
    at: int


Node: TypeAlias = (
    Const
    | Message
    | Cast
    | Context
    | Arith
    | Negate
    | Abs
    | Distance
    | Compare
    | In
    | Like
    | IsNull
    | Within
    | InBox
    | Matches
    | Cesql
    | Truth
    | And
    | Or
    | Not
)

CONDITIONS = frozenset(
    (Compare, In, Like, IsNull, Within, InBox, Matches, Cesql, Truth, And, Or, Not)
)
"""Node classes that are conditions whatever their operands are."""


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below a node, in the order of the text."""
    if isinstance(node, Const | Message | Cast | Context | Cesql | Truth):
        return ()
    if isinstance(node, Arith | Compare | Distance):
        return (node.left, node.right)
    if isinstance(node, And | Or):
        return node.parts
    if isinstance(node, In):
        return (node.operand, *node.items)
    if isinstance(node, Within):
        return (*node.lower, *node.upper)
    return (node.operand,)
