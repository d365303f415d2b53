"""Which table takes the rows of which shape, and which tables merge when there are too many.

In: the shapes of conjunctions, as they appear. Out: each shape's table, and what that means for
its rows: whether the table's index decides them by itself, whether contexts bound them.

A table is an index over one set of message attributes. A shape belongs to the table of its own
attributes; from ``MAX_TABLES`` on to one whose attributes are among them, and tables that have a
pair in common merge. A merge gives all tables other numbers: a ``Merge`` tells who keeps them.
Cost: a shape is assigned once, in time that goes with the number of tables; a row, never.
"""

from collections import Counter
from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.filter.table import Table
from germane.index.blocks import BlockIndex
from germane.index.conjunctions import Conjunctions, Form
from germane.index.lists import ListIndex
from germane.index.policy import Strategy
from germane.index.rowindex import RowIndex, Rows
from germane.kernels.conjunctions import (
    CONTEXT,
    CONTEXT_TEXT,
    HIGH_CONTEXT,
    LOW_CONTEXT,
    ONLY_NULL,
)

MAX_SLOTS = 8
MAX_TABLES = 32


class Merge(NamedTuple):
    """Tables have become one."""

    table: Table
    into: int
    """Its number, at that moment."""
    numbers: NDArray[np.int16]
    """Number of a table before -> after; its last entry, -1, stands for no table."""


class Assignment:
    """Shapes to tables."""

    def __init__(self, conjunctions: Conjunctions, strategy: Strategy, structure: str) -> None:
        self.conjunctions = conjunctions
        self.tables: list[Table] = []  # always the same list
        self.table_of_shape: list[int] = []
        self.whole_shape: list[bool] = []  # its table's index decides its rows, if nothing is loose
        self.bound_shape: list[bool] = []  # contexts bound its intervals
        self.wake_slots: set[int] = set()  # context slots that context-only predicates read
        self._strategy = strategy
        self._kind = BlockIndex if structure == "blocks" else ListIndex
        self._by_attributes: dict[tuple[int, ...], int] = {}
        self._whole: NDArray[np.bool_] | None = None

    def assign(self, shape: int) -> list[Merge]:
        """Choose the table of the next shape; the merges on the way, in order."""
        forms = self.conjunctions.shapes[shape].forms
        for operation, first, second in self.conjunctions.shapes[shape].wakes:
            if operation == CONTEXT:
                self.wake_slots.add(first)
            elif operation == CONTEXT_TEXT:
                self.wake_slots.add(second)
        attributes = _attributes_of(forms)
        merges: list[Merge] = []
        number = self._by_attributes.get(attributes)
        if number is None:
            number = self._by_attributes[attributes] = self._table_for(attributes, merges)
        table = self.tables[number]
        self._widen(table, forms)
        reads_context = any(form.flags & (LOW_CONTEXT | HIGH_CONTEXT) for form in forms)
        whole = len(table.attributes) == len(forms) and not self.conjunctions.shapes[shape].program
        self._whole = None
        self.bound_shape.append(reads_context)
        self.table_of_shape.append(number)
        self.whole_shape.append(whole and not (self._strategy.partial and reads_context))
        if table.balance.plan.loose:
            self.loosen(table, shape)
        return merges

    def add_table(self, attributes: tuple[int, ...]) -> Table:
        """A new table, the last one."""
        table = Table(len(self.tables), attributes, self._index_maker(attributes))
        self._by_attributes[attributes] = table.number
        self.tables.append(table)
        return table

    def loosen(self, table: Table, since: int = 0) -> None:
        """Mark the forms of a table that are loose by its plan, from some shape on."""
        self._whole = None
        forms = self.conjunctions.forms
        loose = {int(table.attributes[slot]) for slot in table.balance.plan.loose}
        for shape in range(since, len(self.table_of_shape)):
            if self.table_of_shape[shape] == table.number:
                first = int(self.conjunctions.view.shapes[shape]["first"])
                for form in range(first, first + len(self.conjunctions.shapes[shape].forms)):
                    bound = forms["flags"][form] & (LOW_CONTEXT | HIGH_CONTEXT)
                    forms["loose"][form] = bool(bound) and int(forms["attribute"][form]) in loose

    def whole(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows are decided by their table's index alone."""
        if self._whole is None:
            loose = self.conjunctions.forms["loose"]
            shapes = self.conjunctions.view.shapes[: len(self.whole_shape)]
            spans = zip(shapes["first"].tolist(), shapes["last"].tolist(), strict=True)
            tight = [not loose[first:last].any() for first, last in spans]
            self._whole = np.array(self.whole_shape, np.bool_) & np.array(tight, np.bool_)
        whole: NDArray[np.bool_] = self._whole[self.conjunctions.shape[rows]]
        return whole

    def _table_for(self, attributes: tuple[int, ...], merges: list[Merge]) -> int:
        """The table of a new set of attributes: its own, or, of too many, one that fits it."""
        is_full = len(self.tables) >= MAX_TABLES
        fitting = self._fitting(attributes, is_full)
        if fitting is not None:
            return fitting
        if is_full:
            merge = self._merge()
            if merge is not None:
                merges.append(merge)
                return self._table_for(attributes, merges)
            attributes = attributes[:1]
            if attributes in self._by_attributes:
                return self._by_attributes[attributes]
        return self.add_table(attributes).number

    def _fitting(self, attributes: tuple[int, ...], is_full: bool) -> int | None:
        """The table with most attributes, all of them among the given ones: a merged one, or any
        where there is no room for another."""
        wanted = set(attributes)
        fits = [
            table
            for table in self.tables
            if (is_full or table.is_merged)
            and len(table.attributes)
            and wanted.issuperset(table.attributes.tolist())
        ]
        return max(fits, key=lambda table: len(table.attributes)).number if fits else None

    def _merge(self) -> Merge | None:
        """Make one table of those that share the pair of attributes common to most of them.

        Its index covers what they all have in common; the postfilter tests the rest.
        """
        pairs = Counter(
            pair for table in self.tables for pair in combinations(table.attributes.tolist(), 2)
        )
        pair, shared = max(pairs.items(), key=lambda item: item[1], default=((), 0))
        if shared < 2:
            return None
        merged = [t for t in self.tables if set(pair) <= set(t.attributes.tolist())]
        kept = [t for t in self.tables if t not in merged]
        into = len(kept)
        numbers = np.full(len(self.tables) + 1, into, np.int16)
        numbers[-1] = -1
        for new, other in enumerate(kept):
            numbers[other.number] = new
            other.number = new
        self.table_of_shape = [int(numbers[t]) for t in self.table_of_shape]
        self._by_attributes = {a: int(numbers[t]) for a, t in self._by_attributes.items()}
        self.tables[:] = kept
        common = set.intersection(*(set(t.attributes.tolist()) for t in merged))
        table = self.add_table(tuple(sorted(common)))
        table.is_merged = True
        required = set.intersection(*(set(t.required.tolist()) for t in merged)) & common
        table.required = np.array(sorted(required), np.int32)
        table.context_slots = set.union(*(t.context_slots for t in merged))
        for shape, number in enumerate(self.table_of_shape):
            if number == into:
                n_forms = len(self.conjunctions.shapes[shape].forms)
                self.whole_shape[shape] &= n_forms == len(table.attributes)
        self.loosen(table)
        return Merge(table, into, numbers)

    def _widen(self, table: Table, forms: tuple[Form, ...]) -> None:
        """Let a table take rows of a shape: what it requires of messages, and which contexts."""
        nullable = {form.attribute for form in forms if form.flags & ONLY_NULL}
        required = set(table.required.tolist()) - nullable
        table.required = np.array(sorted(required), np.int32)
        for form in forms:
            if form.flags & LOW_CONTEXT:
                table.context_slots.add(form.low_context)
            if form.flags & HIGH_CONTEXT:
                table.context_slots.add(form.high_context)

    def _index_maker(self, attributes: tuple[int, ...]) -> Callable[[], RowIndex]:
        """What makes an empty index over some message slots."""
        return lambda: self._kind(np.array(attributes, np.int32), self.conjunctions.n_rows)


def _attributes_of(forms: tuple[Form, ...]) -> tuple[int, ...]:
    """The message slots that a shape's table is about: all, or the narrowest of too many."""
    if len(forms) > MAX_SLOTS:
        forms = tuple(sorted(forms, key=_narrowness)[:MAX_SLOTS])
    return tuple(sorted(form.attribute for form in forms))


def _narrowness(form: Any) -> tuple[bool, bool]:
    """Sort key that puts predicates with two bounds first."""
    return (bool(form.flags & ONLY_NULL), form.flags == 0)
