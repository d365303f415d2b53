"""Rows by node: the lists of a form, the forms of a group.

Rows with the same category predicates (attributes and sides) are one group; each predicate is one
of its forms, and has lists of rows by node: *exact* ones, and *wide* ones of rows that are posted
above where they are. Kernels: ``kernels.entries`` writes them, ``kernels.lookups`` reads them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.category.graph import View
from germane.category.searches import Searches
from germane.index.rowindex import Rows
from germane.kernels import entries
from germane.kernels.entries import FOLD, NOWHERE, OVER, UNDER
from germane.kernels.lookups import CONSTANTS, MIXED, N_LISTS, SLICED

NO_SIEVE = -1
FIRST_ROOM = 1024
Sketches = NDArray[np.int32]
"""A line an entry; without columns where there is no sieve."""


class Lists:
    """Rows by node, each with what a sieve wants of it."""

    def __init__(self, n_nodes: int) -> None:
        self.at: NDArray[np.int64] = np.zeros(n_nodes, np.int64)
        self.count: NDArray[np.int32] = np.zeros(n_nodes, np.int32)
        self.room: NDArray[np.int32] = np.zeros(n_nodes, np.int32)
        self.pool: NDArray[np.int32] = np.zeros(0, np.int32)
        self.until: NDArray[np.int64] = np.zeros(n_nodes, np.int64)
        self.used = 0  # entries
        self.laid = True  # nothing was posted since

    def lay(self, rows: Rows, sketches: Sketches, nodes: Rows, view: View) -> None:
        """Start anew: lists in the order of a tour through a forest, else in that of nodes."""
        order: Rows = np.arange(len(self.at), dtype=np.int32)
        if len(view.enter):
            order = np.argsort(view.enter, kind="stable").astype(np.int32)
            passed = np.cumsum(np.bincount(view.enter[nodes], minlength=len(order)))
            self.until = np.concatenate([[0], passed])[view.leave]
        self.pool = on_lines(self.pool[:0], len(rows) * (1 + sketches.shape[1]))
        self.used = len(rows)
        entries.lay(rows, sketches, nodes, order, self.at, self.count, self.room, self.pool)
        self.laid = True

    def post(self, rows: Rows, sketches: Sketches, nodes: Rows) -> None:
        """Append rows."""
        done, step = 0, 1 + sketches.shape[1]
        self.laid &= not len(rows)
        while True:
            done, self.used = entries.post(
                rows, sketches, nodes, done, self.at, self.count, self.room, self.pool, self.used
            )
            if done == len(rows):
                return
            wanted = (self.used + max(2, 2 * int(self.count[nodes[done]]))) * step
            self.pool = on_lines(self.pool, max(wanted, FIRST_ROOM, len(self.pool) * 5 // 4))

    def as_sets(self, step: int) -> dict[int, set[tuple[int, ...]]]:
        """The entries of nodes."""
        found: dict[int, set[tuple[int, ...]]] = {}
        for node in np.flatnonzero(self.count).tolist():
            begin, n = int(self.at[node]) * step, int(self.count[node]) * step
            words = self.pool[begin : begin + n].reshape(-1, step)
            found[node] = {tuple(entry) for entry in words.tolist()}
        return found

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self.at, self.count, self.room, self.pool, self.until))


class Form:
    """One way to look rows of a group up."""

    def __init__(self, attribute: int, graph: int, side: int) -> None:
        self.attribute, self.graph, self.side = attribute, graph, side
        self.context_slots: set[int] = set()
        self.from_constants = False  # some rows
        self.named: NDArray[np.int32] = np.zeros(0, np.int32)  # by row: nodes of its condition
        self.sieved_by = NO_SIEVE  # the form whose nodes entries have sketches of
        self.sketched = True  # all entries since lists were laid: none is ANYTHING
        self.in_forest = False  # its graph was one when lists were laid
        self.empty(0)

    @property
    def source(self) -> int:
        """Where all rows have their nodes: a context slot, or one word for all of them."""
        if not self.context_slots:
            return CONSTANTS
        return (
            MIXED if self.from_constants or len(self.context_slots) > 1 else min(self.context_slots)
        )

    def empty(self, n_nodes: int) -> None:
        """Forget all rows."""
        self.exact, self.wide = Lists(n_nodes), Lists(n_nodes)
        self.posted: NDArray[np.int64] = np.zeros(n_nodes, np.int64)
        # Both are clear at rest, but for the bit of what is not sketched.
        self.sieve: NDArray[np.uint64] = np.zeros((FOLD + 1) // 64, np.uint64)
        self.marks = self.sieve if n_nodes <= FOLD else np.zeros(n_nodes // 64 + 1, np.uint64)
        self.n_entries = 0

    def arrays(self) -> tuple[Any, ...]:
        """In the order of ``kernels.postings``."""
        exact, wide = self.exact, self.wide
        return (
            exact.at, exact.count, exact.pool, exact.until, self.posted,
            wide.at, wide.count, wide.pool, wide.until, self.marks, self.sieve, self.named,
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        own = (self.posted, self.marks, self.sieve, self.named)
        return self.exact.nbytes + self.wide.nbytes + sum(array.nbytes for array in own)


class Group:
    """Rows with the same category predicates."""

    def __init__(self, number: int, forms: tuple[tuple[int, int, int], ...]) -> None:
        self.number = number
        self.forms = [Form(*form) for form in forms]
        self.about = np.array([(*form, CONSTANTS, NO_SIEVE, False) for form in forms], np.int32)
        self.sleeps = False  # some rows may
        self.all_pure = True  # conditions have nothing else
        self.source_kind: NDArray[np.int32] = np.zeros((0, len(forms)), np.int32)
        self.source_at: NDArray[np.int32] = np.zeros((0, len(forms)), np.int32)
        self.pure: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.home: NDArray[np.int32] = np.full((len(forms), 0), NOWHERE, np.int32)
        self.wide: NDArray[np.bool_] = np.zeros((len(forms), 0), np.bool_)
        self.lists: NDArray[np.int64] = np.zeros((len(forms) * N_LISTS, 3), np.int64)
        self.held: list[Any] = []
        self.n_rows = 0
        self.n_stale = 0
        self.n_added = 0  # rows, since lists were laid
        self.n_read = 0  # messages, since lists were laid and touched
        self.builds = 0
        self.chosen = np.zeros(len(forms), np.int64)
        self.searches: Searches | None = None  # until something changes

    def certain(self) -> NDArray[np.bool_]:
        """Which forms name no row in vain: nothing was left behind, nothing is posted wider."""
        sure = [
            not form.context_slots or (form.side == OVER and not form.wide.used)
            for form in self.forms
        ]
        return np.array(sure, np.bool_) & (self.n_stale == 0)

    def proven(self) -> NDArray[np.bool_]:
        """Which forms a sieve decides: it has a bit for each node, and all rows have sketches."""
        sure = [form.marks is form.sieve for form in self.forms]
        for form in self.forms:
            if form.sieved_by != NO_SIEVE:
                sure[form.sieved_by] &= form.sketched
        return np.array(sure, np.bool_) & (self.n_stale == 0)

    def sieves(self) -> list[int]:
        """For each form, another whose nodes stand in conditions and are marked in messages."""
        useful = [j for j, f in enumerate(self.forms) if f.side == UNDER and f.from_constants]
        return [next((j for j in useful if j != own), NO_SIEVE) for own in range(len(self.forms))]

    @property
    def settled(self) -> bool:
        """Whether lists are as they were laid, and name no row in vain."""
        return self.n_stale == 0 and all(f.exact.laid and f.wide.laid for f in self.forms)

    def point(self) -> None:
        """Let kernels find the lists."""
        for form, about in zip(self.forms, self.about, strict=True):
            about[SLICED] = form.in_forest and form.exact.laid and form.wide.laid
        arrays = [array for form in self.forms for array in form.arrays()]
        if len(arrays) == len(self.held) and all(
            a is b for a, b in zip(arrays, self.held, strict=True)
        ):
            return
        self.held = arrays
        for place, array in enumerate(arrays):
            self.lists[place] = (array.ctypes.data, len(array), len(array))


def on_lines(old: NDArray[np.int32], room: int) -> NDArray[np.int32]:
    """More room, beginning where a cache line does: no record is on two of them."""
    line = 16
    whole = np.zeros(room + line, np.int32)
    begin = -(whole.ctypes.data // whole.itemsize) % line
    new = whole[begin : begin + room]
    new[: len(old)] = old
    return new
