"""Disjunctive normal form within a bound.

In: a condition in negation normal form. Out: a tuple of conjunctions, each a tuple of literals, or
None when there would be more than the cap; the caller then keeps the condition as a residual.

The conjunctions are counted before any is built, with a count that saturates just above the cap,
so neither time nor memory blows up: the cost is linear in the tree, plus the size of the answer.
"""

from __future__ import annotations

from itertools import product

from germane.language.tree import And, Compare, In, IsNull, Like, Node, Or, Truth

__all__ = ["CAP", "to_dnf"]

CAP = 64
Conjunctions = tuple[tuple[Node, ...], ...]
_SINGLE = frozenset((Compare, Like, IsNull))


def to_dnf(nnf: Node, cap: int = CAP) -> Conjunctions | None:
    """The conjunctions of a condition in negation normal form, or None beyond `cap`.

    FALSE is `()`, no conjunction; TRUE is `((),)`, an empty one. `x IN (…)` becomes one conjunction
    per item where the whole stays within the cap; else it stays one literal.
    """
    kind = type(nnf)
    if kind is And:
        for part in nnf[0]:  # type: ignore[union-attr]
            if type(part) not in _SINGLE:
                break
        else:
            return (nnf[0],)  # type: ignore[return-value]
    elif kind in _SINGLE:
        return ((nnf,),)
    for expand in (True, False):
        if _count(nnf, expand, cap) <= cap:
            return tuple(_build(nnf, expand))
    return None


def _count(node: Node, expand: bool, cap: int) -> int:
    """How many conjunctions a node makes; any number above `cap` is `cap + 1`."""
    if isinstance(node, And):
        total = 1
        for part in node.parts:
            total = min(total * _count(part, expand, cap), cap + 1)
        return total
    if isinstance(node, Or):
        total = 0
        for part in node.parts:
            total = min(total + _count(part, expand, cap), cap + 1)
        return total
    if isinstance(node, In) and not node.negated and expand:
        return min(len(node.items), cap + 1)
    if isinstance(node, Truth):
        return 1 if node.value else 0
    return 1


def _build(node: Node, expand: bool) -> list[tuple[Node, ...]]:
    if isinstance(node, And):
        return _conjoin([_build(part, expand) for part in node.parts])
    if isinstance(node, Or):
        alternatives: list[tuple[Node, ...]] = []
        for part in node.parts:
            alternatives.extend(_build(part, expand))
        return alternatives
    if isinstance(node, In) and not node.negated and expand:
        return [(Compare("=", node.operand, item, node.at),) for item in node.items]
    if isinstance(node, Truth):
        return [()] if node.value else []
    return [(node,)]


def _conjoin(choices: list[list[tuple[Node, ...]]]) -> list[tuple[Node, ...]]:
    """Every way to take one alternative of each choice, literals in the order of the text."""
    return [
        tuple([literal for alternative in picked for literal in alternative])
        for picked in product(*choices)
    ]
