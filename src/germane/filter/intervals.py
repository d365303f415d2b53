"""Which slots of messages and contexts rows read, and the intervals they have in a table's index.

In: shapes and rows of conjunctions, as they come; the contexts' values. Out: a table's slot for an
attribute or a form, and bounds of rows, as they are or as a partial index holds them. Cost: what is
known of shapes is kept, so a new shape is read once.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.context import Contexts
from germane.filter.table import Table
from germane.index.conjunctions import Conjunctions
from germane.index.rowindex import Rows
from germane.index.scope import Scopes
from germane.kernels import conjunctions as rowwise
from germane.kernels.conjunctions import HIGH_CONTEXT, LOW_CONTEXT

__all__ = ["Intervals"]


class Intervals:
    """The intervals of rows, by the slots of their tables."""

    def __init__(self, conjunctions: Conjunctions, contexts: Contexts, partial: bool) -> None:
        self.conjunctions = conjunctions
        self.contexts = contexts
        self.scopes = Scopes() if partial else None
        self._reads: dict[int, list[int]] = {}
        self._n_read = 0
        self._n_attributes = 0
        self._slots: dict[int, Rows] = {}
        self._form_slots: dict[int, tuple[Rows, bool]] = {}

    def forget_tables(self) -> None:
        """Tables have other numbers, or other attributes."""
        self._slots.clear()
        self._form_slots.clear()
        if self.scopes is not None:
            self.scopes = Scopes()

    def reads(self) -> dict[int, list[int]]:
        """Message slot -> context slots that bound it."""
        self._read_shapes()
        return self._reads

    def _read_shapes(self) -> None:
        shapes = self.conjunctions.shapes
        while self._n_read < len(shapes):
            for form in shapes[self._n_read].forms:
                self._n_attributes = max(self._n_attributes, form.attribute + 1)
                known = self._reads.setdefault(form.attribute, [])
                for flag, slot in (
                    (LOW_CONTEXT, form.low_context),
                    (HIGH_CONTEXT, form.high_context),
                ):
                    if form.flags & flag and slot not in known:
                        known.append(slot)
            self._n_read += 1

    def slot_of_form(self, table: Table) -> tuple[Rows, bool]:
        """Form -> slot of a table's index, or -1; and whether all have one."""
        known = self._form_slots.get(id(table))
        if known is None or len(known[0]) < self.conjunctions.n_forms:
            forms = self.conjunctions.forms["attribute"][: self.conjunctions.n_forms]
            slots = self._slot_of(table)[forms]
            known = self._form_slots[id(table)] = (slots, bool((slots >= 0).all()))
        return known

    def _slot_of(self, table: Table) -> Rows:
        """Message slot -> slot of a table's index, or -1."""
        self._read_shapes()
        known = self._slots.get(id(table))
        if known is None or len(known) < self._n_attributes:
            known = np.full(self._n_attributes, -1, np.int32)
            known[table.attributes] = np.arange(len(table.attributes))
            self._slots[id(table)] = known
        return known

    def exact(self, table: Table, rows: Rows) -> tuple[Any, Any]:
        """Lower and upper bounds by row and slot, by the contexts' present values."""
        lows = np.empty((len(rows), len(table.attributes)))
        highs = np.empty_like(lows)
        rowwise.intervals(
            rows, self._slot_of(table), *self.conjunctions.view, self.contexts.values, lows, highs
        )
        return lows, highs

    def held(self, table: Table, rows: Rows) -> tuple[Any, Any]:
        """The same as an index should hold them: within scopes, where it is a partial one."""
        lows, highs = self.exact(table, rows)
        for slot in range(lows.shape[1]) if self.scopes is not None else ():
            bound = self._bound_by_context(rows, int(table.attributes[slot]))
            lows[bound, slot], highs[bound, slot] = self.scopes.clip(  # type: ignore[union-attr]
                table.number,
                np.full(int(bound.sum()), slot),
                lows[bound, slot],
                highs[bound, slot],
            )
        return lows, highs

    def _bound_by_context(self, rows: Rows, attribute: int) -> NDArray[np.bool_]:
        """Which rows' predicate on an attribute reads the context."""
        reads = [
            any(
                form.attribute == attribute and form.flags & (LOW_CONTEXT | HIGH_CONTEXT)
                for form in shape.forms
            )
            for shape in self.conjunctions.shapes
        ]
        bound: NDArray[np.bool_] = np.array(reads)[self.conjunctions.shape[rows]]
        return bound
