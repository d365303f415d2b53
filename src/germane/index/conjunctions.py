"""Conjunctions in columns: shapes shared by many rows, and each row's own constants.

In: compiled conjunctions (a ``Shape`` and its constants). Out: ``Rows`` and ``Shapes``, the views
that kernels read. A row's constants stand in an extent of its shape, a column a constant, so that
a sweep over one shape reads memory in order; extents double in size, so that a shape used once
costs little. Rows that were removed are used again by the next row of the same shape.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.kernels.conjunctions import FORM, FREE, ROW, SHAPE
from germane.kernels.lanes import LANES
from germane.kernels.layout import require_alike
from germane.kernels.sweep import find_runs

Array = NDArray[Any]
MAX_EXTENT = 1 << 12


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


class View(NamedTuple):
    """What kernels read, in the order in which they take it; all records of rows, room included."""

    rows: Array
    owner: Array
    shapes: Array
    forms: Array
    code: Array
    pool: Array


class Conjunctions:
    """The table of rows."""

    def __init__(self) -> None:
        self.n_rows = 0
        self.n_live = 0
        self.n_siblings = 0  # rows beyond the first of their profiles
        self.shape_of: dict[Shape, int] = {}
        self.shapes: list[Shape] = []
        self._free: list[list[int]] = []
        self._extent: list[tuple[int, int, int]] = []  # start in pool, rows used, rows in all
        self._used = 0
        self.view = View(
            rows=np.zeros(16, ROW),
            owner=np.full(16, -1, np.int32),
            shapes=np.zeros(8, SHAPE),
            forms=np.zeros(8, FORM),
            code=np.zeros((8, 3), np.int32),
            pool=np.zeros(64),
        )
        self._runs: NDArray[np.int32] = np.zeros(16, np.int32)
        self._run_at: NDArray[np.int32] = np.zeros(1, np.int32)
        self._n_runs = 0
        self._profile: NDArray[np.int32] = np.full(16, -1, np.int32)
        self.rows_are_profiles = True  # row r is profile row r, as long as that holds for all
        self.n_forms = 0
        self._n_code = 0

    # views -----------------------------------------------------------------------------------

    @property
    def rows(self) -> NDArray[Any]:
        """The records of all rows; see ``kernels.conjunctions.ROW``."""
        return self.view.rows

    @property
    def owner(self) -> NDArray[np.int32]:
        """Row -> its context's row, or -1."""
        return self.view.owner

    @property
    def runs(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Rows that lie in a row; see ``kernels.sweep``."""
        return self._runs[: self._n_runs], self._run_at

    @property
    def forms(self) -> NDArray[Any]:
        """The records of all forms."""
        return self.view.forms

    @property
    def profile(self) -> NDArray[np.int32]:
        """Row -> profile row."""
        return self._profile

    @property
    def awake(self) -> NDArray[np.int8]:
        """Row -> whether its context-only predicates hold."""
        return self.rows["awake"]

    @property
    def sibling(self) -> NDArray[np.int32]:
        """Row -> next row of the same profile, or -1."""
        return self.rows["sibling"]

    @property
    def shape(self) -> NDArray[np.int32]:
        """Row -> shape, negative where the row is free."""
        return self.rows["shape"]

    def live(self) -> NDArray[np.int32]:
        """All rows in use."""
        return np.flatnonzero(self.rows["shape"][: self.n_rows] >= 0).astype(np.int32)

    def _replace(self, **arrays: Array) -> None:
        """Larger arrays; whoever keeps ``view`` sees by its identity that it is another."""
        self.view = self.view._replace(**arrays)

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
        first, last = self.n_forms, self.n_forms + len(shape.forms)
        self._replace(forms=longer(self.view.forms, last))
        for at, form in enumerate(shape.forms, first):
            for name, value in form._asdict().items():
                self.forms[name][at] = value
            self.forms["turn"][at] = at
        self.n_forms = last
        self._replace(shapes=longer(self.view.shapes, number + 1))
        self.view.shapes[number] = (
            first,
            last,
            *self._append_code(shape.program),
            *self._append_code(shape.wakes),
        )
        return number

    def share(self, shape: Shape) -> Shape:
        """The shape as it is kept here, if it is: one object for all who hold on to it."""
        number = self.shape_of.get(shape)
        return shape if number is None else self.shapes[number]

    def _append_code(self, code: tuple[tuple[int, int, int], ...]) -> tuple[int, int]:
        start = self._n_code
        if code:
            self._replace(code=longer(self.view.code, start + len(code)))
            self.view.code[start : start + len(code)] = code
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
        self._reserve(self.n_rows + n - n_reused)
        self._place(shape, rows[n_reused:], width)
        self.n_rows += n - n_reused
        self.n_live += n
        row = self.rows
        row["shape"][rows] = shape
        self._note_runs(self.n_rows - (n - n_reused), self.n_rows)
        self._profile[rows] = profiles
        self.rows_are_profiles &= bool((rows == profiles).all())
        self.owner[rows] = contexts
        row["next"][rows] = -1
        row["sibling"][rows] = -1
        row["awake"][rows] = 1
        at, step = row["at"][rows], row["step"][rows]
        for c in range(constants.shape[1]):
            self.pool[at + (c // 2) * step + c % 2] = constants[:, c]
        return rows

    def reserve(self, n: int) -> None:
        """Make room for n more rows at once."""
        self._reserve(self.n_rows + n)

    def _reserve(self, size: int) -> None:
        if size > len(self.rows):
            room = size if size > 2 * len(self.rows) else size + size // 8
            self._profile = longer(self._profile, room, -1)
            self._replace(rows=longer(self.rows, room), owner=longer(self.owner, room, -1))

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
                self._replace(pool=longer(self.view.pool, self._used))
            n = min(size - used, len(rows) - done)
            part = rows[done : done + n]
            self.rows["at"][part] = start + 2 * np.arange(used, used + n)
            self.rows["step"][part] = 2 * size
            self._extent[shape] = (start, used + n, size)
            done += n

    def _note_runs(self, begin: int, end: int) -> None:
        """Note how new rows that have their place lie."""
        if begin < end:
            self._runs = longer(self._runs, self._n_runs + end - begin)
            self._run_at = longer(self._run_at, -(-end // LANES))
            self._n_runs = find_runs(begin, end, self.rows, self._runs, self._n_runs, self._run_at)

    def remove(self, rows: NDArray[np.int32]) -> None:
        """Free rows (already unlinked from contexts and indexes)."""
        for row in rows.tolist():
            self._free[int(self.rows["shape"][row])].append(row)
        self.rows["shape"][rows] = FREE - self.rows["shape"][rows]
        self._profile[rows] = -1
        self.rows["awake"][rows] = 0
        self.n_live -= len(rows)

    def constant(self, row: int, number: int) -> float:
        """One constant of a row."""
        at, step = int(self.rows["at"][row]), int(self.rows["step"][row])
        return float(self.pool[at + (number // 2) * step + number % 2])

    def text_constants(self) -> NDArray[np.int64]:
        """Places in the pool of all string labels of live rows, for renumbering."""
        places = [np.empty(0, np.int64)]
        live = self.live()
        shape_of_row = self.rows["shape"][live]
        for number, shape in enumerate(self.shapes):
            marked = [c for c, text in enumerate(shape.texts) if text]
            if marked:
                rows = live[shape_of_row == number]
                at = self.rows["at"][rows].astype(np.int64)
                step = self.rows["step"][rows].astype(np.int64)
                places += [at + (c // 2) * step + c % 2 for c in marked]
        return np.concatenate(places)

    @property
    def pool(self) -> NDArray[np.float64]:
        """All constants."""
        return self.view.pool

    @property
    def nbytes(self) -> int:
        """Bytes of arrays."""
        return sum(int(array.nbytes) for array in (*self.view, *self.runs, self._profile))

    def state(self) -> dict[str, Any]:
        """Arrays for saving; shapes as plain lists under ``meta``."""
        state: dict[str, Any] = {
            "rows": self.rows[: self.n_rows],
            "owner": self.owner[: self.n_rows],
            "profile": self._profile[: self.n_rows],
        }
        state["pool"] = self.pool[: self._used]
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
        models = self.state()
        del models["meta"]
        require_alike(state, models)
        for forms, program, wakes, texts in state["meta"]["shapes"]:
            shape = Shape(
                tuple(Form(*form) for form in forms),
                tuple((int(a), int(b), int(c)) for a, b, c in program),
                tuple((int(a), int(b), int(c)) for a, b, c in wakes),
                tuple(bool(text) for text in texts),
            )
            self.intern(shape)
        self._extent = [(int(a), int(b), int(c)) for a, b, c in state["meta"]["extents"]]
        self._replace(rows=state["rows"], pool=state["pool"], owner=state["owner"])
        self._profile = state["profile"]
        live = np.flatnonzero(self._profile >= 0)
        self.rows_are_profiles = bool((self._profile[live] == live).all())
        self._used = int(state["meta"]["used"])
        self.n_rows = len(self.rows["shape"])
        self._note_runs(0, self.n_rows)
        self.n_live = int((self.rows["shape"] >= 0).sum())
        self.n_siblings = self._count_siblings()
        for row in np.flatnonzero(self.rows["shape"] < 0).tolist():
            self._free[FREE - int(self.rows["shape"][row])].append(row)
        return self

    def _count_siblings(self) -> int:
        return int((self.rows["sibling"][self.live()] >= 0).sum())

    def _check(self) -> None:
        live = self.live()
        assert len(live) == self.n_live
        assert self.n_siblings == self._count_siblings()
        assert (self._profile[live] >= 0).all()
        assert not self.rows_are_profiles or (self._profile[live] == live).all()
        runs = np.zeros(self.n_rows + 1, np.int32)
        run_at = np.zeros_like(self._run_at)
        assert find_runs(0, self.n_rows, self.rows, runs, 0, run_at) == self._n_runs
        assert (runs[: self._n_runs] == self.runs[0]).all()
        assert (run_at == self._run_at).all()
        has_constants = np.array([bool(shape.texts) for shape in self.shapes], np.bool_)
        placed = live[has_constants[self.rows["shape"][live]]]
        assert (self.rows["at"][placed] < self._used).all()
        assert len(np.unique(self.rows["at"][placed])) == len(placed)


def longer(array: NDArray[Any], size: int, fill: Any = 0) -> NDArray[Any]:
    """The array with room for ``size`` entries: exactly that after a leap, more after a step."""
    if size <= len(array):
        return array
    room = size if size > 2 * len(array) else size + size // 8
    shape = (room, *array.shape[1:])
    # Zeros are not in memory before they are touched: room that is not used costs nothing.
    result = np.full(shape, fill, array.dtype) if fill else np.zeros(shape, array.dtype)
    result[: len(array)] = array
    return result
