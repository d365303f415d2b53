"""Negation normal form; `dnf` goes on from there.

In: a checked tree. Out: AND and OR, by turns, over literals, with no NOT and no constants among
them.

Negation moves inwards exactly under three-valued logic: NOT (a < b) and a >= b are UNKNOWN for the
same values, since a NULL on either side (and NaN is NULL) makes both so. AND and OR are monotone,
and a message is delivered only on TRUE, so a literal known to be UNKNOWN is replaced by FALSE. That
holds for literals of the skeleton only: conditions that are operands, as in `(a > 1) IS NULL` or
`(a > 1) = b`, stay as they are.

Constants are folded with float64 arithmetic, operation by operation as written, so no result
changes; division by zero and NaN are NULL. Cost: linear.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from germane.language.dnf import to_dnf
from germane.language.tree import (
    CONDITIONS,
    Abs,
    And,
    Arith,
    Cesql,
    Compare,
    Const,
    Context,
    Distance,
    In,
    InBox,
    IsNull,
    Like,
    Matches,
    Message,
    Negate,
    Node,
    Not,
    Or,
    Truth,
    Within,
)

__all__ = ["to_dnf", "to_nnf"]

OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_TEST: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NAMES = frozenset((Message, Context))
_SIMPLE = frozenset((Message, Context, Const))


def to_nnf(node: Node) -> Node:
    """The condition as AND and OR over literals; or a literal, or `Truth(True | False)`."""
    kind = type(node)
    if kind is And:
        for part in node[0]:  # type: ignore[union-attr]
            if type(part) is not Compare or type(part[1]) not in _NAMES:
                break
            if type(part[2]) not in _SIMPLE:
                break
        else:
            return node  # the common case: already a conjunction of literals
    return _normal(node, False)


def _normal(node: Node, negate: bool) -> Node:
    """`node`, or its negation, in normal form."""
    if isinstance(node, Compare):
        return _compare(node, negate)
    if isinstance(node, And | Or):
        return _join(node, negate)
    if isinstance(node, Not):
        return _normal(node.operand, not negate)
    if isinstance(node, Message | Context):
        return Compare("=", node, Const(not negate, "boolean", node.at), node.at)
    if isinstance(node, In):
        return _in(node, negate)
    if isinstance(node, IsNull):
        return _is_null(node, negate)
    if isinstance(node, Like | Within | InBox | Matches | Cesql):
        return node._replace(negated=not node.negated) if negate else node
    if isinstance(node, Truth | Const):
        return Truth(node.value is not None and bool(node.value) is not negate, node.at)
    raise TypeError(f"{type(node).__name__} is not a condition")


def _join(node: And | Or, negate: bool) -> Node:
    """Flatten, and absorb TRUE and FALSE."""
    kind = And if isinstance(node, And) is not negate else Or
    absorbs = kind is Or  # TRUE decides an OR, FALSE an AND
    parts: list[Node] = []
    for part in node.parts:
        part = _normal(part, negate)
        if isinstance(part, Truth):
            if part.value is absorbs:
                return part
        elif isinstance(part, kind):
            parts.extend(part.parts)
        else:
            parts.append(part)
    if not parts:
        return Truth(not absorbs, node.at)
    return parts[0] if len(parts) == 1 else kind(tuple(parts), node.at)


def _compare(node: Compare, negate: bool) -> Node:
    op, left, right, at = node
    if negate:
        op = OPPOSITE[op]
    if op in ("=", "<>"):  # (condition) = TRUE is the condition
        if type(right) is Const and right.type == "boolean" and type(left) in CONDITIONS:
            return _normal(left, bool(right.value) is not (op == "="))
        if type(left) is Const and left.type == "boolean" and type(right) in CONDITIONS:
            return _normal(right, bool(left.value) is not (op == "="))
    folded_left, folded_right = fold(left), fold(right)
    if folded_left is None or folded_right is None:
        return Truth(False, at)
    if isinstance(folded_left, Const) and isinstance(folded_right, Const):
        if folded_left.type == folded_right.type:
            return Truth(_TEST[op](folded_left.value, folded_right.value), at)
    elif folded_left is left and folded_right is right and not negate:
        return node
    return Compare(op, folded_left, folded_right, at)


def _in(node: In, negate: bool) -> Node:
    """x IN (…) is an OR of `=`; x NOT IN (…) is an AND of `<>`, which one NULL makes UNKNOWN."""
    negated = node.negated is not negate
    operand = fold(node.operand)
    if operand is None:
        return Truth(False, node.at)
    items: list[Node] = []
    seen: set[object] = set()
    for item in node.items:
        folded = fold(item)
        if folded is None:
            if negated:
                return Truth(False, node.at)
        elif not isinstance(folded, Const):
            items.append(folded)
        elif isinstance(operand, Const) and operand.type == folded.type:
            if operand.value == folded.value:
                return Truth(not negated, node.at)
        elif folded.value not in seen:
            seen.add(folded.value)
            items.append(folded)
    if not items:
        return Truth(negated, node.at)
    if len(items) == 1:
        return _compare(Compare("<>" if negated else "=", operand, items[0], node.at), False)
    return In(operand, tuple(items), negated, node.at)


def _is_null(node: IsNull, negate: bool) -> Node:
    negated = node.negated is not negate
    operand = fold(node.operand)
    if operand is None or isinstance(operand, Const):
        return Truth((operand is None) is not negated, node.at)
    return IsNull(operand, negated, node.at)


def fold(node: Node) -> Node | None:
    """A value with its constant parts computed; None is NULL. Conditions stay as they are."""
    if isinstance(node, Arith):
        left, right = fold(node.left), fold(node.right)
        if left is None or right is None:
            return None
        if isinstance(left, Const) and isinstance(right, Const):
            return _number(_arith(node.op, left.value, right.value), node.at)
        same = left is node.left and right is node.right
        return node if same else Arith(node.op, left, right, node.at)
    if isinstance(node, Negate | Abs):
        operand = fold(node.operand)
        if isinstance(operand, Const):
            value = operand.value
            return _number(-value if isinstance(node, Negate) else abs(value), node.at)  # type: ignore[operator, arg-type]
        if operand is None or operand is node.operand:
            return None if operand is None else node
        return node._replace(operand=operand)
    if isinstance(node, Distance):
        return node
    if isinstance(node, Truth):
        return None if node.value is None else Const(node.value, "boolean", node.at)
    return node


def _arith(op: str, left: Any, right: Any) -> float | None:
    """One operation of float64; None is NULL."""
    if op == "+":
        return float(left + right)
    if op == "-":
        return float(left - right)
    if op == "*":
        return float(left * right)
    return float(left / right) if right else None


def _number(value: float | None, at: int) -> Const | None:
    return None if value is None or value != value else Const(value, "number", at)
