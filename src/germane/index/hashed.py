"""A hash index for equality, with AGILE's escalation (section 5.4.2); docs/design/hash-index.md.

In: rows whose interval is one key, as a rule. Out: the rows of a key, and those of the list that is
part of every probe: intervals that are not points, and escalated rows. K is empty, one key, or the
whole domain. Every change is O(1) expected, a probe that returns m rows O(m).
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from germane.index.contract import (
    AttributeIndex,
    Keys,
    Rows,
    as_intervals,
    as_rows,
    known_entries,
    require_distinct,
    require_known,
    require_new,
    room_for,
)
from germane.kernels import hashed as kernels
from germane.kernels.hashed import (
    BUCKET,
    DEESCALATE,
    EMPTY,
    ESCALATE,
    EVERYWHERE,
    FREE_BUCKET,
    N_BUCKETS,
    N_KEYS,
    N_ROWS,
    REMOVE,
    UNKNOWN,
    UPDATE,
    Arrays,
)
from germane.kernels.layout import require_alike
from germane.kernels.rowsets import BLOCK, CLASS, LINK, SIZE

NOWHERE: Rows = np.empty(0, np.int32)


class HashIndex(AttributeIndex):
    """Keys -> rows by hashing; other intervals are known but not told apart."""

    def __init__(self) -> None:
        self._arrays: Arrays = kernels.empty_arrays()
        self._pool: Rows = np.empty(64, np.int32)

    def insert(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> None:
        """Add new rows: points to the table, other intervals to the list of every probe."""
        numbers, a, b = as_intervals(rows, lows, highs)
        require_new(numbers, self._known(numbers))
        require_distinct(numbers)
        if not len(numbers):
            return
        self._reserve_rows(int(numbers.max()) + 1)
        self._arrays.rows[numbers, BUCKET] = EMPTY
        self._arrays.meta[N_ROWS] += len(numbers)
        self._change(UPDATE, numbers, a, b)

    def remove(self, rows: ArrayLike) -> None:
        """Forget known rows."""
        numbers = as_rows(rows)
        require_known(numbers, self._known(numbers))
        require_distinct(numbers)
        none = np.zeros(len(numbers))
        self._change(REMOVE, numbers, none, none)
        self._arrays.meta[N_ROWS] -= len(numbers)

    def update(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> int:
        """Move rows to where insert would put them; return how many moved."""
        return self._change(UPDATE, *known_entries(self._arrays.rows, rows, lows, highs))

    def update_local(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> int:
        """As update: a hash table has no neighbourhood, its smallest region is one key."""
        return self.update(rows, lows, highs)

    def escalate(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> int:
        """Rows whose k is not within K go to the list of every probe."""
        return self._change(ESCALATE, *known_entries(self._arrays.rows, rows, lows, highs))

    def deescalate(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> int:
        """Points leave the list of every probe for the table."""
        return self._change(DEESCALATE, *known_entries(self._arrays.rows, rows, lows, highs))

    def covers(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> NDArray[np.bool_]:
        """Whether k is within K."""
        numbers, a, b = known_entries(self._arrays.rows, rows, lows, highs)
        low, high = self._hull(numbers)
        return (a > b) | ((low <= a) & (b <= high))

    def extent(self, rows: ArrayLike) -> tuple[Keys, Keys]:
        """The key of each row twice, or the whole domain."""
        numbers = as_rows(rows)
        require_known(numbers, self._known(numbers))
        return self._hull(numbers)

    def probe(self, value: float) -> Rows:
        """The rows of the value and those of every probe."""
        if value != value:
            return np.empty(0, np.int32)
        return kernels.probe(self._arrays, self._pool, _bits_of(value), NOWHERE)[0]

    def probe_into(self, value: float, out: Rows) -> int:
        """Write the rows of the value and those of every probe to out."""
        if value != value:
            return 0
        _, n = kernels.probe(self._arrays, self._pool, _bits_of(value), out)
        return room_for(n, out)

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return self._pool.nbytes + sum(array.nbytes for array in self._arrays)

    def __len__(self) -> int:
        return int(self._arrays.meta[N_ROWS])

    def __contains__(self, row: object) -> bool:
        if not isinstance(row, int | np.integer) or not 0 <= row < len(self._arrays.rows):
            return False
        return bool(self._arrays.rows[row, BUCKET] != UNKNOWN)

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays, with the pool cut to what is in use."""
        arrays = {name: array.copy() for name, array in self._arrays._asdict().items()}
        return {**arrays, "pool": self._pool[: int(self._arrays.free[0])].copy()}

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        """The index that ``state`` described."""
        index = cls()
        require_alike(state, index.state())
        index._arrays = Arrays(*(np.array(state[name]) for name in Arrays._fields))
        index._pool = np.array(state["pool"], np.int32)
        return index

    def _known(self, rows: Rows) -> NDArray[np.bool_]:
        table = self._arrays.rows
        known = rows < len(table)
        known[known] = table[rows[known], BUCKET] != UNKNOWN
        return known

    def _hull(self, rows: Rows) -> tuple[Keys, Keys]:
        buckets = self._arrays.rows[rows, BUCKET]
        keys = self._arrays.keys.view(np.float64)[buckets]
        low = np.where(buckets == EVERYWHERE, -np.inf, np.where(buckets > 0, keys, np.inf))
        return low, np.where(buckets == EVERYWHERE, np.inf, np.where(buckets > 0, keys, -np.inf))

    def _change(self, operation: int, rows: Rows, lows: Keys, highs: Keys) -> int:
        """Run an operation over a batch; it stops where it wants room for keys, and goes on."""
        bits = (lows + 0.0).view(np.int64)
        start = moved = 0
        while start < len(rows):
            self._pool, start, n = kernels.change(
                self._arrays, self._pool, operation, rows, lows, highs, bits, start
            )
            moved += n
            if start < len(rows):
                self._reserve_keys()
        return moved

    def _reserve_rows(self, n: int) -> None:
        table = self._arrays.rows
        if n > len(table):
            grown = np.full((max(n, len(table) * 3 // 2), 2), UNKNOWN, np.int32)
            grown[: len(table)] = table
            self._arrays = self._arrays._replace(rows=grown)

    def _reserve_keys(self) -> None:
        s = self._arrays
        if s.meta[N_BUCKETS] >= len(s.buckets):
            keys = np.concatenate([s.keys, np.zeros_like(s.keys)])
            s = s._replace(keys=keys, buckets=np.concatenate([s.buckets, np.zeros_like(s.buckets)]))
        if 2 * s.meta[N_KEYS] + 2 > len(s.cells):
            old = s.cells
            s = s._replace(cells=np.full(2 * len(old), -1, np.int32))
            kernels.rehash(s, old)
        self._arrays = s

    def _check(self) -> None:
        s, pool = self._arrays, self._pool
        known = np.flatnonzero(s.rows[:, BUCKET] != UNKNOWN)
        assert len(known) == len(self)
        for row in known.tolist():
            bucket, at = s.rows[row].tolist()
            if bucket != EMPTY:
                assert at < s.buckets[bucket, SIZE]
                assert pool[s.buckets[bucket, BLOCK] + at] == row
        in_table = s.cells[s.cells >= 0].tolist()
        assert len(set(in_table)) == len(in_table) == s.meta[N_KEYS]
        for bucket in in_table:
            assert s.cells[kernels.find(s, int(s.keys[bucket]))] == bucket
            assert s.buckets[bucket, SIZE] > 0
        self._check_pool([EVERYWHERE, *in_table], int((s.rows[known, BUCKET] != EMPTY).sum()))

    def _check_pool(self, buckets: list[int], n_rows: int) -> None:
        """Buckets hold each row once; they and the free ones are all; blocks fill the pool."""
        s = self._arrays
        sizes, classes = s.buckets[buckets, SIZE], s.buckets[buckets, CLASS]
        assert sizes.sum() == n_rows
        assert ((classes < 0) == (sizes == 0)).all()
        cells = sum(1 << c for c in classes.tolist() if c >= 0)
        for c, head in enumerate(s.free[1:].tolist()):
            while head >= 0:
                cells += 1 << c
                head = int(self._pool[head])
        assert cells == s.free[0] <= len(self._pool)
        n_buckets, free = len(buckets), int(s.meta[FREE_BUCKET])
        while free >= 0:
            n_buckets += 1
            free = int(s.buckets[free, LINK])
        assert n_buckets == s.meta[N_BUCKETS]


def _bits_of(value: float) -> int:
    return int(np.float64(value + 0.0).view(np.int64))
