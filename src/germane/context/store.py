"""The context store: columns of current values by (attribute, context).

In: values of contexts, one or in columns. Out: ``values[slot, row]`` for the kernels, and the
contexts whose guards did not admit the new value, for the indexes. Contexts and attributes are
created on first sight; setting NULL removes a value. ``version`` counts changes.

A slot is a column: one per attribute that is not a location, two for a location. ``head`` links
a context to its conjunctions (``kernels.contexts``). Cost of storing n values: n writes and n
guard checks, nothing else while no index entry must move.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.context.ids import Ids, Rows
from germane.kernels import contexts as kernels

Column = NDArray[np.float64]


class Contexts:
    """All contexts' current values, and the guards of their index entries."""

    def __init__(self) -> None:
        self.ids = Ids("context")
        self.version = 0
        self.slots: dict[str, tuple[int, ...]] = {}
        self.n_slots = 0
        self.values: NDArray[np.float64] = np.full((4, 16), np.nan)
        self.guards: NDArray[np.int16] = _open_guards(4, 16)
        self.origin = np.zeros(4)
        self.scale = np.ones(4)
        self.watched = np.zeros(4, np.bool_)
        self.head: NDArray[np.int32] = np.full(16, -1, np.int32)

    def __len__(self) -> int:
        return len(self.ids)

    def slots_of(self, name: str, type_: str | None) -> tuple[int, ...]:
        """The slots of an attribute, made on first sight."""
        known = self.slots.get(name, ())
        wanted = 2 if type_ == "location" else 1
        if len(known) < wanted:
            new = range(self.n_slots, self.n_slots + wanted - len(known))
            known = self.slots[name] = (*known, *new)
            self.n_slots += len(new)
            self._reserve(self.n_slots, self.values.shape[1])
        return known

    def ensure(self, ids: Any) -> Rows:
        """Rows of contexts, made on first sight."""
        rows, n_unknown = self.ids.rows(ids)
        if n_unknown:
            listed = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
            new = list(dict.fromkeys(listed[i] for i in np.flatnonzero(rows < 0).tolist()))
            if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
                self.ids.add_many(np.array(new, np.int64))  # type: ignore[arg-type]
            else:
                self.ids.add_many(new)
            self._reserve(self.values.shape[0], self.ids.n_rows)
            rows, _ = self.ids.rows(ids)
        return rows

    def set(self, rows: Rows, slot: int, values: Column) -> Rows:
        """Store a column of values; the contexts whose index entries must be looked at.

        A context given twice may be returned twice.
        """
        self.version += len(rows)
        if not self.watched[slot]:
            kernels.store_plain(rows, values, self.values[slot])
            return np.empty(0, np.int32)
        disturbed = np.empty(len(rows), np.int32)
        n = kernels.store(
            rows,
            values,
            self.values[slot],
            self.guards[slot],
            self.origin[slot],
            self.scale[slot],
            disturbed,
        )
        return disturbed[:n]

    def fit_grid(self, slot: int) -> None:
        """Lay a slot's guard grid over the values it holds now; all guards become open."""
        column = self.values[slot, : self.ids.n_rows]
        finite = column[np.isfinite(column)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
        width = high - low  # of Python's floats, which overflow without a warning
        if not (math.isfinite(width) and width > 0.0):
            width = max(abs(low), 1.0)
            width = width if math.isfinite(width) else 1.0
        self.origin[slot] = low + (high - low) / 2.0 if math.isfinite(high - low) else 0.0
        self.scale[slot] = 30000.0 / width
        self.guards[slot, :, 0] = kernels.MINIMUM
        self.guards[slot, :, 1] = kernels.MAXIMUM

    def _reserve(self, n_slots: int, n_contexts: int) -> None:
        slots, room = self.values.shape
        if n_slots <= slots and n_contexts <= room:
            return
        if n_slots > slots:
            slots = n_slots if n_slots > slots else slots
        if n_contexts > room:
            room = n_contexts if n_contexts > 2 * room else n_contexts + n_contexts // 8
        old_slots, old = self.values.shape
        values = np.full((slots, room), np.nan)
        values[:old_slots, :old] = self.values
        guards = _open_guards(slots, room)
        guards[:old_slots, :old] = self.guards
        self.values, self.guards = values, guards
        self.origin = _longer(self.origin, slots, 0.0)
        self.scale = _longer(self.scale, slots, 1.0)
        self.watched = _longer(self.watched, slots, False)
        self.head = _longer(self.head, room, -1)

    @property
    def nbytes(self) -> int:
        """Bytes of arrays."""
        return self.values.nbytes + self.guards.nbytes + self.head.nbytes + self.ids.nbytes


def _open_guards(slots: int, room: int) -> NDArray[np.int16]:
    guards = np.empty((slots, room, 2), np.int16)
    guards[:, :, 0] = kernels.MINIMUM
    guards[:, :, 1] = kernels.MAXIMUM
    return guards


def _longer(array: NDArray[Any], size: int, fill: Any) -> NDArray[Any]:
    if size <= len(array):
        return array
    longer = np.full(size, fill, array.dtype)
    longer[: len(array)] = array
    return longer
