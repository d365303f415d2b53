"""The nodes of a CESQL expression, each with the part of the text it was read from.

In: nothing. Out: node classes, and what can be said of them without an event: the attributes they
read, and their type. CESQL has three types, and Python's own stand for them: str, int, bool.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

__all__ = [
    "Attribute",
    "Binary",
    "Call",
    "Exists",
    "Expression",
    "In",
    "Like",
    "Literal",
    "Logic",
    "Unary",
    "Value",
    "attributes",
    "type_of",
    "walk",
]

Value: TypeAlias = str | int | bool
Span: TypeAlias = tuple[int, int]


class Literal(NamedTuple):
    """A string, an integer, TRUE or FALSE."""

    value: Value
    span: Span


class Attribute(NamedTuple):
    """An attribute of the event, in lower case."""

    name: str
    span: Span


class Unary(NamedTuple):
    """`-operand` or `NOT operand`."""

    op: str
    operand: Expression
    span: Span


class Binary(NamedTuple):
    """`left op right`, op one of `= != < <= > >= + - * / %` or XOR."""

    op: str
    left: Expression
    right: Expression
    span: Span


class Logic(NamedTuple):
    """AND or OR of two or more parts, left to right, only as far as needed."""

    op: str
    parts: tuple[Expression, ...]
    span: Span


class Like(NamedTuple):
    r"""`operand [NOT] LIKE 'pattern'`; `\%` and `\_` stand for themselves."""

    operand: Expression
    pattern: str
    negated: bool
    span: Span


class Exists(NamedTuple):
    """`EXISTS name`."""

    name: str
    span: Span


class In(NamedTuple):
    """`operand [NOT] IN (items)`."""

    operand: Expression
    items: tuple[Expression, ...]
    negated: bool
    span: Span


class Call(NamedTuple):
    """A function of so many arguments that exists; its name in upper case."""

    name: str
    arguments: tuple[Expression, ...]
    span: Span


Expression: TypeAlias = Literal | Attribute | Unary | Binary | Logic | Like | Exists | In | Call

ARITHMETIC = frozenset("+-*/%")
RETURNS: dict[tuple[str, int], type] = {
    ("LENGTH", 1): int,
    ("LOWER", 1): str,
    ("UPPER", 1): str,
    ("TRIM", 1): str,
    ("LEFT", 2): str,
    ("RIGHT", 2): str,
    ("SUBSTRING", 2): str,
    ("SUBSTRING", 3): str,
    ("ABS", 1): int,
    ("INT", 1): int,
    ("BOOL", 1): bool,
    ("STRING", 1): str,
}
"""Functions of fixed arity, and the types they return."""
VARIADIC = {"CONCAT": 0, "CONCAT_WS": 1}
"""Functions of many strings, and how many they need."""


def exists(name: str, arity: int) -> bool:
    """Whether there is a function of that name that takes so many arguments."""
    return (name, arity) in RETURNS or arity >= VARIADIC.get(name, arity + 1)


def children(node: Expression) -> tuple[Expression, ...]:
    """The expressions directly below an expression."""
    if isinstance(node, Unary | Like):
        return (node.operand,)
    if isinstance(node, Binary):
        return (node.left, node.right)
    if isinstance(node, Logic):
        return node.parts
    if isinstance(node, In):
        return (node.operand, *node.items)
    return node.arguments if isinstance(node, Call) else ()


def walk(root: Expression) -> Iterator[Expression]:
    """All expressions of a tree."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(children(node))


def attributes(root: Expression) -> frozenset[str]:
    """The names that an expression reads."""
    return frozenset(n.name for n in walk(root) if isinstance(n, Attribute | Exists))


def type_of(node: Expression) -> type | None:
    """The type of what an expression returns; None for an attribute, whose events decide."""
    if isinstance(node, Literal):
        return type(node.value)
    if isinstance(node, Attribute):
        return None
    if isinstance(node, Call):
        return RETURNS.get((node.name, len(node.arguments)), str)
    if isinstance(node, Unary):
        return bool if node.op == "NOT" else int
    return int if isinstance(node, Binary) and node.op in ARITHMETIC else bool
