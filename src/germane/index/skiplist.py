"""An interval skip list (Hanson) with AGILE's escalation; see docs/design/interval-skip-list.md.

In: rows with closed intervals of float64 keys. Out: the rows whose K holds a key. K is always one
closed interval between two nodes of the list; each of its ends has a level, 0 where it was put
exactly or at a bottom edge, l where escalation put it at the end of an edge of level l. Probing
costs O(log n + m) for m rows, any change of a row O(log n) marks expected.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from germane.index.contract import (
    AttributeIndex,
    Entries,
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
from germane.kernels import skiplist as kernels
from germane.kernels.layout import require_alike
from germane.kernels.rowsets import BLOCK, CLASS, LINK, LIST_CLASS, SIZE, read
from germane.kernels.skiplist import (
    DEESCALATE,
    EMPTY,
    ESCALATE,
    FREE_NODES,
    FULL,
    HEAD,
    HEIGHT,
    HIGH,
    HIGH_LEVEL,
    LOW,
    LOW_LEVEL,
    N_NODES,
    N_ROWS,
    N_SLOTS,
    REFS,
    REMOVE,
    SLOT,
    TAIL,
    UNKNOWN,
    UPDATE,
    UPDATE_LOCAL,
    Arrays,
)

NOWHERE: Rows = np.empty(0, np.int32)
BULK = 64  # from so many rows on, an insertion makes its nodes first, in order


class IntervalSkipList(AttributeIndex):
    """Intervals of float64 keys; ``seed`` fixes the heights of the nodes."""

    def __init__(self, seed: int = 0) -> None:
        self._arrays: Arrays = kernels.empty_arrays(seed)
        self._pool: Rows = np.empty(64, np.int32)

    def insert(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> None:
        """Add new rows with K = k."""
        numbers, a, b = as_intervals(rows, lows, highs)
        require_new(numbers, self._known(numbers))
        require_distinct(numbers)
        if not len(numbers):
            return
        self._reserve_rows(int(numbers.max()) + 1)
        self._arrays.rows[numbers] = (EMPTY, EMPTY, 0, 0)
        self._arrays.meta[N_ROWS] += len(numbers)
        if len(numbers) < BULK:
            self._change(UPDATE, numbers, a, b)
        else:
            self._insert_bulk(numbers, a, b)

    def remove(self, rows: ArrayLike) -> None:
        """Forget rows, their marks and the nodes that were only theirs."""
        numbers = as_rows(rows)
        require_known(numbers, self._known(numbers))
        require_distinct(numbers)
        none = np.zeros(len(numbers))
        self._change(REMOVE, numbers, none, none)
        self._arrays.rows[numbers, LOW] = UNKNOWN
        self._arrays.meta[N_ROWS] -= len(numbers)

    def update(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> int:
        """K = k; return how many K changed."""
        return self._change(UPDATE, *self._entries(rows, lows, highs))

    def update_local(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> int:
        """K = k, unless each end stays within, or next to, the bottom edge where K ends."""
        return self._change(UPDATE_LOCAL, *self._entries(rows, lows, highs))

    def escalate(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> int:
        """AGILE Fig. 10: an end of K that k passes goes to the lowest higher edge that reaches."""
        return self._change(ESCALATE, *self._entries(rows, lows, highs))

    def deescalate(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> int:
        """One level down; from the bottom level, K = k. A k outside K is put exactly."""
        return self._change(DEESCALATE, *self._entries(rows, lows, highs))

    def covers(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> NDArray[np.bool_]:
        """Whether k is within K."""
        numbers, a, b = self._entries(rows, lows, highs)
        low, high = self._hull(numbers)
        return (a > b) | ((low <= a) & (b <= high))

    def extent(self, rows: ArrayLike) -> tuple[Keys, Keys]:
        """K itself, which is an interval."""
        numbers = as_rows(rows)
        require_known(numbers, self._known(numbers))
        return self._hull(numbers)

    def levels(self, rows: ArrayLike) -> tuple[Rows, Rows]:
        """The level of each end of K: 0 exact or at the bottom, l at the end of a level-l edge."""
        numbers = as_rows(rows)
        require_known(numbers, self._known(numbers))
        entries = self._arrays.rows[numbers]
        return entries[:, LOW_LEVEL].copy(), entries[:, HIGH_LEVEL].copy()

    def probe(self, value: float) -> Rows:
        """The rows whose K holds the value."""
        if value != value:
            return np.empty(0, np.int32)
        return kernels.probe(self._arrays, self._pool, float(value), NOWHERE)[0]

    def probe_into(self, value: float, out: Rows) -> int:
        """Write the rows whose K holds the value to out."""
        if value != value:
            return 0
        _, n = kernels.probe(self._arrays, self._pool, float(value), out)
        return room_for(n, out)

    def probe_union(self, values: Keys, bits: NDArray[np.uint64]) -> None:
        """As ``probe_union`` of the contract: each search goes on where the last one ended."""
        kernels.probe_union(self._arrays, self._pool, values, bits)

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return self._pool.nbytes + sum(array.nbytes for array in self._arrays)

    def __len__(self) -> int:
        return int(self._arrays.meta[N_ROWS])

    def __contains__(self, row: object) -> bool:
        if not isinstance(row, int | np.integer) or not 0 <= row < len(self._arrays.rows):
            return False
        return bool(self._arrays.rows[row, LOW] != UNKNOWN)

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays, cut to what is in use."""
        s = self._arrays
        n_nodes, n_slots = int(s.meta[N_NODES]), int(s.meta[N_SLOTS])
        used = Arrays(
            s.keys[:n_nodes], s.nodes[:n_nodes], s.slots[:n_slots], s.rows, s.meta, s.free
        )
        arrays = {name: array.copy() for name, array in used._asdict().items()}
        return {**arrays, "pool": self._pool[: int(s.free[0])].copy()}

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        """The list that ``state`` described, with the same heights to come."""
        index = cls()
        require_alike(state, index.state())
        index._arrays = Arrays(*(np.array(state[name]) for name in Arrays._fields))
        index._pool = np.array(state["pool"], np.int32)
        return index

    def _known(self, rows: Rows) -> NDArray[np.bool_]:
        table = self._arrays.rows
        known = rows < len(table)
        known[known] = table[rows[known], LOW] != UNKNOWN
        return known

    def _entries(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> Entries:
        return known_entries(self._arrays.rows, rows, lows, highs)

    def _hull(self, rows: Rows) -> tuple[Keys, Keys]:
        keys, entries = self._arrays.keys, self._arrays.rows[rows]
        some = entries[:, LOW] >= 0
        low = np.where(some, keys[entries[:, LOW]], np.inf)
        return low, np.where(some, keys[entries[:, HIGH]], -np.inf)

    def _change(self, operation: int, rows: Rows, lows: Keys, highs: Keys) -> int:
        """Run an operation over a batch; it stops where it wants room for nodes, and goes on."""
        start = changed = 0
        while start < len(rows):
            self._pool, start, n = kernels.change(
                self._arrays, self._pool, operation, rows, lows, highs, start
            )
            changed += n
            if start < len(rows):
                self._reserve_nodes()
        return changed

    def _insert_bulk(self, rows: Rows, lows: Keys, highs: Keys) -> None:
        """Nodes first, in ascending order, then marks in order of the lower ends: no splits."""
        some = lows <= highs
        order = np.argsort(lows[some], kind="stable")
        rows, lows, highs = rows[some][order], lows[some][order], highs[some][order]
        keys, inverse, refs = np.unique(
            np.concatenate([lows, highs]), return_inverse=True, return_counts=True
        )
        nodes = np.empty(len(keys), np.int32)
        start = 0
        while start < len(keys):
            self._pool, start = kernels.acquire_sorted(
                self._arrays, self._pool, keys, refs.astype(np.int64), nodes, start
            )
            if start < len(keys):
                self._reserve_nodes()
        ends = nodes[inverse.reshape(-1)]
        a, b = ends[: len(rows)], ends[len(rows) :]
        counts = kernels.count_marks(self._arrays, a, b)
        self._pool = kernels.insert_between(self._arrays, self._pool, rows, a, b, counts)

    def _reserve_rows(self, n: int) -> None:
        table = self._arrays.rows
        if n > len(table):
            grown = np.full((max(n, len(table) * 3 // 2), 4), UNKNOWN, np.int32)
            grown[: len(table)] = table
            self._arrays = self._arrays._replace(rows=grown)

    def _reserve_nodes(self) -> None:
        s = self._arrays
        if s.meta[N_NODES] + 2 > len(s.nodes):
            by = len(s.nodes) // 2 + 2
            self._arrays = s._replace(keys=_longer(s.keys, by), nodes=_longer(s.nodes, by))
        if s.meta[N_SLOTS] + 2 * (FULL + 1) > len(s.slots):
            slots = _longer(s.slots, len(s.slots) // 2 + 2 * (FULL + 1))
            self._arrays = self._arrays._replace(slots=slots)

    def _check(self) -> None:
        s = self._arrays
        live = self._check_levels()
        known = np.flatnonzero(s.rows[:, LOW] != UNKNOWN)
        assert len(known) == len(self)
        marks: dict[int, set[int]] = {}
        refs = dict.fromkeys(live, 0)
        for row in known.tolist():
            x, stop, low_level, high_level = s.rows[row].tolist()
            if x == EMPTY:
                continue
            assert x in refs
            assert stop in refs
            assert s.keys[x] <= s.keys[stop]
            assert s.nodes[x, HEIGHT] > low_level >= 0
            assert s.nodes[stop, HEIGHT] > high_level >= 0
            refs[x] += 1
            refs[stop] += 1
            marks.setdefault(int(s.nodes[stop, SLOT] + s.nodes[stop, HEIGHT]), set()).add(row)
            while x != stop:
                e = int(kernels.highest_edge(s, x, s.keys[stop]))
                marks.setdefault(e, set()).add(row)
                x = int(s.slots[e, LINK])
        for x in live:
            assert s.nodes[x, REFS] == refs[x] + (x in (HEAD, TAIL))
            assert s.nodes[x, REFS] > 0
        self._check_sets(marks)

    def _check_levels(self) -> list[int]:
        """Each level is sorted and has exactly the nodes that are tall enough; the live nodes."""
        s = self._arrays
        live: list[int] = []
        for level in range(FULL):
            chain = [HEAD]
            while chain[-1] != TAIL:
                chain.append(int(s.slots[s.nodes[chain[-1], SLOT] + level, LINK]))
            assert (np.diff(s.keys[chain]) > 0).all()
            live = live or chain
            assert chain == [x for x in live if s.nodes[x, HEIGHT] > level]
        freed = 0
        for h in range(1, FULL):
            x = int(s.meta[FREE_NODES + h])
            while x >= 0:
                assert s.nodes[x, HEIGHT] == h
                assert s.nodes[x, REFS] == -1
                freed += 1
                x = int(s.slots[s.nodes[x, SLOT], LINK])
        assert len(live) + freed == s.meta[N_NODES]
        return live

    def _check_sets(self, marks: dict[int, set[int]]) -> None:
        """Every set holds exactly the rows it should; blocks and free blocks fill the pool."""
        s, pool = self._arrays, self._pool
        cells = 0
        for e in range(int(s.meta[N_SLOTS])):
            size, c = int(s.slots[e, SIZE]), int(s.slots[e, CLASS])
            out = np.empty(size, np.int32)
            assert read(s.slots, pool, e, out, 0) == size
            assert len(set(out.tolist())) == size
            assert set(out.tolist()) == marks.get(e, set())
            assert (c < 0) == (size == 0)
            if c > LIST_CLASS:
                start = int(s.slots[e, BLOCK])
                assert (pool[start : start + (1 << c)] >= 0).sum() == size <= 3 << (c - 2)
            cells += 1 << c if c >= 0 else 0
        for c, head in enumerate(s.free[1:].tolist()):
            while head >= 0:
                cells += 1 << c
                head = int(pool[head])
        assert cells == s.free[0] <= len(pool)


def _longer(array: NDArray[Any], by: int) -> NDArray[Any]:
    grown = np.zeros((len(array) + by, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown
