"""The category predicates of a condition, found in its program.

In: the program of a shape (``kernels.conjunctions``). Out: which of its conjuncts can be looked up
by a content graph, and where rows have their nodes.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.index.conjunctions import Conjunctions
from germane.index.rowindex import Rows
from germane.kernels import conjunctions as op
from germane.kernels.entries import FROM_CONSTANT, FROM_CONTEXT, OVER, UNDER

TAKES = {
    op.NEGATE: 1, op.ABSOLUTE: 1, op.NOT: 1, op.IS_NULL: 1, op.DISTANCE: 4, op.TRUTH: 0,
    op.MESSAGE_TEXT: 0, op.CONTEXT_TEXT: 0,
}  # fmt: skip
"""Values that an operation takes off the stack, if not two."""


class Cover(NamedTuple):
    """A category predicate that can be looked up: which form, and where a row has its nodes."""

    attribute: int
    graph: int
    side: int
    source_kind: int
    source_at: int

    @property
    def form(self) -> tuple[int, int, int]:
        """What rows of a group have in common."""
        return self.attribute, self.graph, self.side


def covers_of(program: tuple[tuple[int, int, int], ...]) -> tuple[list[Cover], bool]:
    """The category predicates among a program's conjuncts, and whether there is nothing else."""
    stack: list[Any] = []
    pure = True
    for operation, first, _ in program:
        if operation in (op.MESSAGE, op.CONSTANT, op.CONTEXT):
            stack.append((operation, first))
        elif operation == op.WITHIN:
            upper, lower = stack.pop(), stack.pop()
            stack.append(_cover(lower, upper, first))
        elif operation == op.AND:
            right, left = stack.pop(), stack.pop()
            stack.append(_listed(left) + _listed(right))
            pure &= isinstance(left, list) and isinstance(right, list)
        else:
            pure = False
            takes = TAKES.get(operation, 2)
            del stack[len(stack) - takes :]
            stack.append(None)
    found = _listed(stack[-1]) if stack else []
    return found, pure and bool(found) and isinstance(stack[-1], list)


class Named(NamedTuple):
    """The nodes that conditions name, one by one."""

    rows: Rows
    keys: NDArray[np.float64]
    which: NDArray[np.int64]  # of the rows that were asked for
    places: NDArray[np.int64]  # in the pool


def nodes_named(conjunctions: Conjunctions, graph: int, rows: Rows | None = None) -> Named:
    """The nodes of a graph in the conditions of some rows, or of all."""
    rows = conjunctions.live() if rows is None else rows
    shapes = conjunctions.shape[rows]
    found, at_pool = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number in np.unique(shapes).tolist():
        shape = conjunctions.shapes[number]
        places = _constants_of(shape.program, graph) | _constants_of(shape.wakes, graph)
        mine = np.flatnonzero(shapes == number) if places else np.empty(0, np.int64)
        at, step = (conjunctions.rows[name][rows[mine]] for name in ("at", "step"))
        for c in places:
            found.append(mine)
            at_pool.append(at + (c >> 1) * step + (c & 1))
    which, where = np.concatenate(found), np.concatenate(at_pool)
    return Named(rows[which], conjunctions.pool[where], which, where)


def _constants_of(program: tuple[tuple[int, int, int], ...], graph: int) -> set[int]:
    """The constants of a program that are nodes of a graph."""
    found = set()
    for at, (operation, first, _) in enumerate(program):
        if operation == op.WITHIN and first == graph:
            # Its operands are the two leaves before it.
            found |= {place for kind, place, _ in program[at - 2 : at] if kind == op.CONSTANT}
    return found


def _cover(lower: Any, upper: Any, graph: int) -> list[Cover] | None:
    kinds = {op.CONSTANT: FROM_CONSTANT, op.CONTEXT: FROM_CONTEXT}
    if lower[0] == op.MESSAGE and upper[0] in kinds:
        return [Cover(lower[1], graph, UNDER, kinds[upper[0]], upper[1])]
    if upper[0] == op.MESSAGE and lower[0] in kinds:
        return [Cover(upper[1], graph, OVER, kinds[lower[0]], lower[1])]
    return None


def _listed(item: Any) -> list[Cover]:
    return item if isinstance(item, list) else []
