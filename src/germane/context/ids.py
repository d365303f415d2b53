"""Callers' ids <-> dense rows, with answers in id order.

Ids are strings or integers. Small non-negative integers live in arrays (a few bytes an id, bulk
look-up in C); anything else in a dict. Rows of removed ids are used again.

Sorting answers: the ids of a result are put in order through precomputed ranks; after a change
they are sorted directly until that has cost about as much as ranking anew.
"""

from collections.abc import Hashable, Iterator, Sequence
from copy import copy
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from germane.kernels.contexts import look_up
from germane.model import InvalidValue
from germane.model.errors import shown

Rows = NDArray[np.int32]
DENSE_FACTOR = 8
BOX_FROM = 1 << 16
LARGEST = 1 << 1024  # of integers; Python would not write out those of some thousand digits
LOOK_FROM = 1024
"""So many rows are looked at before they are sorted: if they are in order, that is far cheaper."""


def as_id(value: Any, what: str) -> Hashable:
    """A caller's id, checked: a string or an integer."""
    if type(value) is str or (type(value) is int and -LARGEST < value < LARGEST):
        return value
    if isinstance(value, int) and not -LARGEST < value < LARGEST:
        raise InvalidValue(f"{what} has at most {LARGEST.bit_length() - 1:,} bits as an integer")
    if isinstance(value, np.integer) or (isinstance(value, int) and not isinstance(value, bool)):
        return int(value)
    if isinstance(value, str):
        return str(value)
    raise InvalidValue(f"{what} must be a string or an integer, not {shown(value)}")


def as_ids(values: Any, what: str) -> Any:
    """A sequence of callers' ids, checked: an array of int64, or a list of str and int."""
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "i":
            return values.astype(np.int64, copy=False)
        if values.dtype.kind == "u" and values.max(initial=0) < 2**63:
            return values.astype(np.int64)
        values = values.tolist()
    if _PLAIN.issuperset(map(type, values)):
        return values
    return [as_id(value, what) for value in values]


_PLAIN = frozenset((str, int))


def column_of(names: Sequence[Any], are_integers: bool, what: str, remedy: str) -> Any:
    """Ids, None among them, as an Arrow array of int64 or of strings, where they fit one."""
    import pyarrow as pa

    try:
        return pa.array(names, pa.int64() if are_integers else pa.string())
    except (pa.ArrowException, TypeError, OverflowError, UnicodeError) as error:
        raise InvalidValue(
            f"ids of these {what}s do not fit an Arrow column of int64 or of strings "
            f"({error}); {remedy}"
        ) from error


def _order(value: Any) -> tuple[bool, Any]:
    return (isinstance(value, str), value)


class Watcher(Protocol):
    """Holds rows beyond a call."""

    def freeze(self, ids: "Ids") -> None:
        """Use these ids from now on: a row is about to be given up."""


class Ids:
    """One namespace of ids."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.n_rows = 0  # rows ever used, free ones included
        self._free: list[int] = []
        self._dense: NDArray[np.int32] | None = np.full(64, -1, np.int32)
        self._keys: NDArray[np.int32] = self._dense
        self._are_rows = True  # every id is its own row, so that keys are the dense array itself
        self._row: dict[Hashable, int] = {}
        self._names: NDArray[np.object_] = np.empty(0, object)
        self._rank: NDArray[np.int32] | None = None
        self._ranked: NDArray[np.object_] = np.empty(0, object)
        self._sorted_since = 0
        self._column: Any = None  # all names as an Arrow array, until they change
        self._boxed: NDArray[np.object_] = np.empty(0, object)
        self._watchers: WeakSet[Watcher] = WeakSet()

    def watch(self, watcher: "Watcher") -> None:
        """Tell a holder of rows before one of them is given up."""
        self._watchers.add(watcher)

    def _as_it_is(self) -> "Ids":
        """A copy that answers for the rows of now; nothing can be added to it or removed."""
        frozen = copy(self)
        frozen._watchers = WeakSet()
        frozen._row, frozen._free = {}, []
        frozen._sorted_since = -(2**62)  # names are sorted directly, never ranked anew
        if self._dense is not None:
            frozen._dense = frozen._keys = self._keys.copy()
        else:
            frozen._names = self._names.copy()
        return frozen

    def __len__(self) -> int:
        return self.n_rows - len(self._free)

    def __contains__(self, value: Any) -> bool:
        return self.row(value) >= 0

    def row(self, value: Any) -> int:
        """The row of an id as ``as_id`` gives it, or -1."""
        if self._dense is not None:
            if type(value) is int and 0 <= value < len(self._dense):
                return int(self._dense[value])
            return -1
        return self._row.get(value, -1)

    def rows(self, values: Any) -> tuple[Rows, int]:
        """Rows of many ids, -1 where unknown, and how many are unknown."""
        dense = self._dense
        if dense is not None:
            array = values if isinstance(values, np.ndarray) else _as_array(values)
            if array is not None and array.dtype.kind in "iu":
                if array.dtype != np.int64:
                    array = array.astype(np.int64)
                found: Rows = np.empty(len(array), np.int32)
                return found, int(look_up(array, dense, found))
            found = np.fromiter((self.row(value) for value in values), np.int32, len(values))
        else:
            if isinstance(values, np.ndarray):
                values = values.tolist()
            get = self._row.get
            found = np.fromiter((get(value, -1) for value in values), np.int32, len(values))
        return found, int((found < 0).sum())

    def add_many(self, values: Sequence[Any]) -> Rows:
        """Rows for new ids (the caller has checked that they are new and distinct)."""
        n = len(values)
        reused = [self._free.pop() for _ in range(min(n, len(self._free)))]
        rows = np.empty(n, np.int32)
        rows[: len(reused)] = reused
        rows[len(reused) :] = np.arange(self.n_rows, self.n_rows + n - len(reused))
        self.n_rows += n - len(reused)
        if self._dense is not None:
            array = self._as_dense(values)
            if array is not None:
                if self._are_rows and not (array == rows).all():
                    self._are_rows = False
                    self._keys = self._dense.copy()
                top = int(array.max(initial=-1)) + 1
                self._dense = _grown(self._dense, top, -1)
                self._dense[array] = rows
                self._keys = self._dense if self._are_rows else _grown(self._keys, self.n_rows, -1)
                self._keys[rows] = array
                return rows
            self._leave_dense()
        if isinstance(values, np.ndarray):
            values = values.tolist()  # ids of people are Python's own
        self._names = _grown(self._names, self.n_rows, None)
        self._column = None
        for value, row in zip(values, rows.tolist(), strict=True):
            self._row[value] = row
            self._names[row] = value
        self._rank = None
        return rows

    def _as_dense(self, values: Sequence[Any]) -> NDArray[np.int64] | None:
        if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
            array = values.astype(np.int64)
        else:
            listed = _as_array(values)
            if listed is None:
                return None
            array = listed
        limit = min(DENSE_FACTOR * (len(self) + len(values)) + 1024, 2**31)
        if len(array) and (array.min() < 0 or array.max() >= limit):
            return None
        return array

    def _leave_dense(self) -> None:
        assert self._dense is not None
        live = self._dense[self._dense >= 0]
        self._names = np.empty(len(self._keys), object)
        for row in live.tolist():
            key = int(self._keys[row])
            self._row[key] = row
            self._names[row] = key
        self._dense = None
        self._keys = np.empty(0, np.int32)

    def remove(self, value: Any) -> int:
        """Forget an id; its row, which will be used again."""
        row = self.row(value)
        if self._watchers:
            frozen = self._as_it_is()
            for watcher in list(self._watchers):
                watcher.freeze(frozen)
            self._watchers.clear()
        if self._dense is not None:
            self._dense[value] = -1
            self._keys[row] = -1
        else:
            del self._row[value]
            self._names[row] = None
            self._rank = self._column = None
        self._free.append(row)
        return row

    @property
    def are_integers(self) -> bool:
        """Whether there is no string among the ids."""
        return self._dense is not None or all(type(name) is int for name in self._row)

    def id_of(self, row: int) -> Any:
        """The id of a row."""
        return int(self._keys[row]) if self._dense is not None else self._names[row]

    def column(self, rows: Rows) -> Any:
        """Ids of rows as an Arrow array: int64, or strings."""
        import pyarrow as pa

        if self._dense is not None:
            return pa.array(self._keys.take(rows).astype(np.int64))
        if self._column is None:
            names = self._names[: self.n_rows].tolist()
            integers = all(type(name) is int for name in names if name is not None)
            self._column = column_of(names, integers, self.what, "use ids of one kind")
        return self._column.take(pa.array(rows))

    def in_order(self, rows: Rows) -> list[Any]:
        """Ids of distinct rows, in id order (integers before strings); may sort the rows too."""
        if self._dense is not None:
            keys = rows if self._are_rows else self._keys.take(rows)
            if len(keys) < LOOK_FROM or not (keys[1:] > keys[:-1]).all():
                keys.sort()
            if len(keys) >= BOX_FROM and 8 * len(keys) >= 3 * len(self._dense):
                return self._boxes().take(keys).tolist()  # type: ignore[no-any-return]
            return keys.tolist()  # type: ignore[no-any-return]
        if self._rank is None:
            self._sorted_since += len(rows) + 1
            if self._sorted_since <= len(self):
                return sorted(self._names[rows].tolist(), key=_order)
            self._rank_anew()
        assert self._rank is not None
        ranks = self._rank.take(rows)
        ranks.sort()
        ordered: list[Any] = self._ranked.take(ranks).tolist()
        return ordered

    def _boxes(self) -> NDArray[np.object_]:
        """Small integers as Python's objects: an answer of most ids is faster if they are there."""
        assert self._dense is not None
        if len(self._boxed) < len(self._dense):
            self._boxed = np.arange(len(self._dense)).astype(object)
        return self._boxed

    def rows_in_order(self, rows: Rows) -> Rows:
        """Distinct rows, in the order of their ids."""
        if self._dense is not None:
            keys = rows if self._are_rows else self._keys.take(rows)
            return rows[np.argsort(keys)]
        names = self._names[rows].tolist()
        order = sorted(range(len(names)), key=lambda i: _order(names[i]))
        return rows[np.array(order, np.int64)]

    @property
    def are_small_integers(self) -> bool:
        """Whether ids live in arrays."""
        return self._dense is not None

    @property
    def are_rows(self) -> bool:
        """Whether every id is its own row, where ``are_small_integers``."""
        return self._are_rows

    @property
    def integers(self) -> NDArray[np.int32]:
        """The ids by row, where ``are_small_integers``."""
        return self._keys

    def _rank_anew(self) -> None:
        names = sorted(self._row, key=_order)
        self._ranked = np.empty(len(names), object)
        self._ranked[:] = names
        self._rank = np.full(self.n_rows, -1, np.int32)
        for i, name in enumerate(names):
            self._rank[self._row[name]] = i
        self._sorted_since = 0

    def __iter__(self) -> Iterator[Any]:
        if self._dense is not None:
            keys = self._keys[: self.n_rows]
            listed: list[Any] = keys[keys >= 0].tolist()
            return iter(listed)
        return iter(self._row)

    def state(self) -> dict[str, Any]:
        """Plain data for saving: arrays for integers, a list otherwise."""
        if self._dense is not None:
            return {"keys": self._keys[: self.n_rows]}
        return {"names": self._names[: self.n_rows].tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take back what ``state`` gave, rows as they were."""
        if "keys" in state:
            keys = self._keys = np.array(state["keys"], np.int32)
            self.n_rows = len(keys)
            self._dense = np.full(max(64, int(keys.max(initial=0)) + 1), -1, np.int32)
            live = np.flatnonzero(keys >= 0)
            self._dense[keys[live]] = live
            self._are_rows = bool((keys[live] == live).all())
            if self._are_rows:
                self._keys = self._dense
            self._free = np.flatnonzero(keys < 0).tolist()
            return
        self._dense = self._column = None
        names = state["names"]
        self.n_rows = len(names)
        self._names = np.empty(len(names), object)
        self._names[:] = names
        self._row = {name: row for row, name in enumerate(names) if name is not None}
        self._free = [row for row, name in enumerate(names) if name is None]

    @property
    def nbytes(self) -> int:
        """Bytes of arrays (the dict of other ids is not counted)."""
        dense = 0 if self._dense is None or self._are_rows else self._dense.nbytes
        boxed = (8 + 32) * len(self._boxed)  # pointers, and the objects
        return dense + self._keys.nbytes + self._names.nbytes + boxed


def _as_array(values: Sequence[Any]) -> NDArray[np.int64] | None:
    """A list of integers as an array, where it fits one."""
    if not all(type(value) is int for value in values):
        return None
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return None


def _grown(array: NDArray[Any], size: int, fill: Any) -> NDArray[Any]:
    """The array, at least ``size`` long: exactly so after a leap, with room after a step."""
    if size <= len(array):
        return array
    room = size if size > 2 * len(array) else size + size // 4
    larger = np.full(room, fill, array.dtype)
    larger[: len(array)] = array
    return larger
