"""Conjunctions in columns: shapes shared by many rows, and each row's own constants.

In: compiled conjunctions (a ``Shape`` and its constants). Out: ``Rows`` and ``Shapes``, the views
that kernels read. A row's constants stand in an extent of its shape, a column a constant, so that
a sweep over one shape reads memory in order; extents double in size, so that a shape used once
costs little. Rows that were removed are used again by the next row of the same shape.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.kernels.conjunctions import Rows, Shapes

MAX_EXTENT = 1 << 16
FREE = -2
"""A free row of shape s, whose place the next row of that shape takes, has the shape FREE - s."""


class Form(NamedTuple):
    """An interval predicate without its constants; see ``kernels.conjunctions``."""

    attribute: int
    flags: int
    low_context: int = 0
    high_context: int = 0
    low_factor: float = 1.0
    high_factor: float = 1.0


class Shape(NamedTuple):
    """What rows share: forms, residual program, context-only program, kinds of constants."""

    forms: tuple[Form, ...]
    program: tuple[tuple[int, int, int], ...]
    wakes: tuple[tuple[int, int, int], ...]
    texts: tuple[bool, ...]  # which constants are string labels


class Conjunctions:
    """The table of rows."""

    def __init__(self) -> None:
        self.n_rows = 0
        self.n_live = 0
        self.shape_of: dict[Shape, int] = {}
        self.shapes: list[Shape] = []
        self._free: list[list[int]] = []
        self._extent: list[tuple[int, int, int]] = []  # start in pool, rows used, rows in all
        self._used = 0
        self._row = {
            "shape": np.full(16, -1, np.int32),
            "at": np.zeros(16, np.int32),
            "step": np.zeros(16, np.int32),
            "context": np.full(16, -1, np.int32),
            "next": np.full(16, -1, np.int32),
            "awake": np.zeros(16, np.uint8),
            "profile": np.full(16, -1, np.int32),
            "sibling": np.full(16, -1, np.int32),
        }
        self._pool: NDArray[np.float64] = np.zeros(64)
        self._n_forms = 0
        self._form = {
            "attribute": np.zeros(8, np.int32),
            "flags": np.zeros(8, np.int32),
            "low_context": np.zeros(8, np.int32),
            "high_context": np.zeros(8, np.int32),
            "low_factor": np.zeros(8),
            "high_factor": np.zeros(8),
        }
        self._first: NDArray[np.int32] = np.zeros(9, np.int32)
        self._program: NDArray[np.int32] = np.zeros((8, 2), np.int32)
        self._wakes: NDArray[np.int32] = np.zeros((8, 2), np.int32)
        self._n_code = 0
        self._code: NDArray[np.int32] = np.zeros((8, 3), np.int32)

    # views -----------------------------------------------------------------------------------

    @property
    def rows(self) -> Rows:
        """The columns by row."""
        row = self._row
        return Rows(
            row["shape"], row["at"], row["step"], row["context"], row["next"], row["awake"],
            self._pool,
        )  # fmt: skip

    @property
    def columns(self) -> Shapes:
        """The columns by shape and form."""
        form = self._form
        return Shapes(
            self._first, form["attribute"], form["flags"], form["low_context"],
            form["high_context"], form["low_factor"], form["high_factor"], self._program,
            self._wakes, self._code,
        )  # fmt: skip

    @property
    def profile(self) -> NDArray[np.int32]:
        """Row -> profile row."""
        return self._row["profile"]

    @property
    def awake(self) -> NDArray[np.uint8]:
        """Row -> whether its context-only predicates hold."""
        return self._row["awake"]

    @property
    def sibling(self) -> NDArray[np.int32]:
        """Row -> next row of the same profile, or -1."""
        return self._row["sibling"]

    @property
    def shape(self) -> NDArray[np.int32]:
        """Row -> shape, negative where the row is free."""
        return self._row["shape"]

    def live(self) -> NDArray[np.int32]:
        """All rows in use."""
        return np.flatnonzero(self._row["shape"][: self.n_rows] >= 0).astype(np.int32)

    # shapes ----------------------------------------------------------------------------------

    def intern(self, shape: Shape) -> int:
        """The number of a shape, new or known."""
        number = self.shape_of.get(shape)
        if number is not None:
            return number
        number = len(self.shapes)
        self.shape_of[shape] = number
        self.shapes.append(shape)
        self._free.append([])
        self._extent.append((0, 0, 0))
        n = len(shape.forms)
        for name in self._form:
            self._form[name] = longer(self._form[name], self._n_forms + n)
        for i, form in enumerate(shape.forms):
            at = self._n_forms + i
            for name in self._form:
                self._form[name][at] = getattr(form, name)
        self._n_forms += n
        self._first = longer(self._first, number + 2)
        self._first[number + 1] = self._n_forms
        self._program = longer(self._program, number + 1)
        self._wakes = longer(self._wakes, number + 1)
        self._program[number] = self._append_code(shape.program)
        self._wakes[number] = self._append_code(shape.wakes)
        return number

    def _append_code(self, code: tuple[tuple[int, int, int], ...]) -> tuple[int, int]:
        start = self._n_code
        if code:
            self._code = longer(self._code, start + len(code))
            self._code[start : start + len(code)] = code
            self._n_code += len(code)
        return start, self._n_code

    # rows ------------------------------------------------------------------------------------

    def add_many(
        self,
        shape: int,
        constants: NDArray[np.float64],
        profiles: NDArray[np.int32],
        contexts: NDArray[np.int32],
    ) -> NDArray[np.int32]:
        """Rows of one shape: constants[n, c], their profiles and contexts (-1: none)."""
        n = len(profiles)
        width = (constants.shape[1] + 1) // 2
        rows = np.empty(n, np.int32)
        free = self._free[shape]
        n_reused = min(n, len(free))
        for i in range(n_reused):
            rows[i] = free.pop()
        rows[n_reused:] = np.arange(self.n_rows, self.n_rows + n - n_reused)
        for name in self._row:
            fill = 0 if name == "awake" else -1
            self._row[name] = longer(self._row[name], self.n_rows + n - n_reused, fill)
        self._place(shape, rows[n_reused:], width)
        self.n_rows += n - n_reused
        self.n_live += n
        row = self._row
        row["shape"][rows] = shape
        row["profile"][rows] = profiles
        row["context"][rows] = contexts
        row["next"][rows] = -1
        row["sibling"][rows] = -1
        row["awake"][rows] = 1
        at, step = row["at"][rows], row["step"][rows]
        for c in range(constants.shape[1]):
            self._pool[at + (c // 2) * step + c % 2] = constants[:, c]
        return rows

    def _place(self, shape: int, rows: NDArray[np.int32], width: int) -> None:
        """Give new rows their place in extents of the shape."""
        done = 0
        while done < len(rows):
            start, used, size = self._extent[shape]
            if used == size:
                wanted = max(2 * size, 1, min(len(rows) - done, MAX_EXTENT))
                size, used, start = min(wanted, MAX_EXTENT), 0, self._used
                self._used += 2 * size * width
                if self._used >= 2**31:
                    raise MemoryError("constants of all conjunctions exceed 2**31 numbers")
                self._pool = longer(self._pool, self._used)
            n = min(size - used, len(rows) - done)
            part = rows[done : done + n]
            self._row["at"][part] = start + 2 * np.arange(used, used + n)
            self._row["step"][part] = 2 * size
            self._extent[shape] = (start, used + n, size)
            done += n

    def remove(self, rows: NDArray[np.int32]) -> None:
        """Free rows (already unlinked from contexts and indexes)."""
        for row in rows.tolist():
            self._free[int(self._row["shape"][row])].append(row)
        self._row["shape"][rows] = FREE - self._row["shape"][rows]
        self._row["profile"][rows] = -1
        self._row["awake"][rows] = 0
        self.n_live -= len(rows)

    def constant(self, row: int, number: int) -> float:
        """One constant of a row."""
        at, step = int(self._row["at"][row]), int(self._row["step"][row])
        return float(self._pool[at + (number // 2) * step + number % 2])

    def text_constants(self) -> NDArray[np.int64]:
        """Places in the pool of all string labels of live rows, for renumbering."""
        places = [np.empty(0, np.int64)]
        live = self.live()
        shape_of_row = self._row["shape"][live]
        for number, shape in enumerate(self.shapes):
            marked = [c for c, text in enumerate(shape.texts) if text]
            if marked:
                rows = live[shape_of_row == number]
                at = self._row["at"][rows].astype(np.int64)
                step = self._row["step"][rows].astype(np.int64)
                places += [at + (c // 2) * step + c % 2 for c in marked]
        return np.concatenate(places)

    @property
    def pool(self) -> NDArray[np.float64]:
        """All constants."""
        return self._pool

    @property
    def nbytes(self) -> int:
        """Bytes of arrays."""
        arrays = [*self._row.values(), *self._form.values(), self._pool, self._first,
                  self._program, self._wakes, self._code]  # fmt: skip
        return sum(array.nbytes for array in arrays)

    def state(self) -> dict[str, Any]:
        """Arrays for saving; shapes as plain lists under ``meta``."""
        state: dict[str, Any] = {
            f"row_{name}": array[: self.n_rows] for name, array in self._row.items()
        }
        state["pool"] = self._pool[: self._used]
        state["meta"] = {
            "shapes": [list(shape) for shape in self.shapes],
            "extents": [list(extent) for extent in self._extent],
            "used": self._used,
        }
        return state

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Conjunctions":
        """Restore what ``state`` gave."""
        self = cls()
        for forms, program, wakes, texts in state["meta"]["shapes"]:
            shape = Shape(
                tuple(Form(*form) for form in forms),
                tuple((int(a), int(b), int(c)) for a, b, c in program),
                tuple((int(a), int(b), int(c)) for a, b, c in wakes),
                tuple(bool(text) for text in texts),
            )
            self.intern(shape)
        self._extent = [(int(a), int(b), int(c)) for a, b, c in state["meta"]["extents"]]
        for name in self._row:
            self._row[name] = np.array(state[f"row_{name}"])
        self._pool = np.array(state["pool"])
        self._used = int(state["meta"]["used"])
        self.n_rows = len(self._row["shape"])
        self.n_live = int((self._row["shape"] >= 0).sum())
        for row in np.flatnonzero(self._row["shape"] < 0).tolist():
            self._free[FREE - int(self._row["shape"][row])].append(row)
        return self

    def _check(self) -> None:
        live = self.live()
        assert len(live) == self.n_live
        assert (self._row["profile"][live] >= 0).all()
        has_constants = np.array([bool(shape.texts) for shape in self.shapes], np.bool_)
        placed = live[has_constants[self._row["shape"][live]]]
        assert (self._row["at"][placed] < self._used).all()
        assert len(np.unique(self._row["at"][placed])) == len(placed)


def longer(array: NDArray[Any], size: int, fill: Any = 0) -> NDArray[Any]:
    """The array with room for ``size`` entries: exactly that after a leap, more after a step."""
    if size <= len(array):
        return array
    room = size if size > 2 * len(array) else size + size // 4
    result = np.full((room, *array.shape[1:]), fill, array.dtype)
    result[: len(array)] = array
    return result
