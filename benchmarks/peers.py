"""Peers on RQ: what a user could build today without germane, each as well as we know how.

A peer is built from `workloads.Ranges` and answers one message at a time with the rows of the
profiles that match, one thread each. `find` is what is timed, rows in any order, as germane's
`match_rows`; `match` sorts them. `find_batch` is there for peers that are better in batches. All
see the attributes in selectivity order, which is given to them. Every peer must give the same
answers; `tests/test_benchmarks.py` compares them.

`ContextScan` is the peer for Table 2: NOINDEX written plainly. A claim that an index beats a scan
is worth as much as the scan, so `updates` and `agile` hold germane's own scan against it.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

import numpy as np
from numba import njit

from .workloads import ATTRIBUTES, DOMAIN, N_ATTRIBUTES, Contextual, Ranges

BLOCK_ROWS = 32_768  # the mask of a block stays in the first-level cache


class Peer:
    """The contract: built once, then asked."""

    name: ClassVar[str]
    batched: ClassVar[bool] = False

    def __init__(self, work: Ranges) -> None:
        self._order = np.array(work.order)
        start = time.perf_counter()
        self._build(work)
        self.build_s = time.perf_counter() - start

    def _build(self, work: Ranges) -> None:
        raise NotImplementedError

    def find(self, message: np.ndarray) -> np.ndarray:
        """Rows of the profiles that match, in any order."""
        raise NotImplementedError

    def match(self, message: np.ndarray) -> np.ndarray:
        """Rows of the profiles that match, sorted."""
        return np.sort(self.find(message))

    def find_batch(self, messages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Answers to many messages: message numbers and rows, in any order."""
        found = [self.find(message) for message in messages]
        numbers = np.repeat(np.arange(len(found)), [len(rows) for rows in found])
        return numbers, np.concatenate(found)

    def match_batch(self, messages: np.ndarray) -> list[np.ndarray]:
        """Answers to many messages, in their order, sorted."""
        numbers, rows = self.find_batch(messages)
        rows = rows[np.lexsort((rows, numbers))]
        ends = np.cumsum(np.bincount(numbers, minlength=len(messages)))
        return np.split(rows, ends[:-1])

    def close(self) -> None:
        """Let go of what the peer holds."""


@njit(cache=True)
def _scan_columns(message, lows, highs, pairs, n_masked, mask, chosen, out):  # type: ignore[no-untyped-def]
    """Test a block of rows on the first columns with vector code, the survivors one by one."""
    n = lows.shape[1]
    block = mask.size
    words = mask.view(np.uint64)
    n_out = 0
    for start in range(0, n, block):
        size = min(block, n - start)
        value = message[0]
        low = lows[0, start : start + size]
        high = highs[0, start : start + size]
        for i in range(size):
            mask[i] = (low[i] <= value) & (value <= high[i])
        for i in range(size, block):
            mask[i] = 0
        for a in range(1, n_masked):
            value = message[a]
            low = lows[a, start : start + size]
            high = highs[a, start : start + size]
            for i in range(size):
                mask[i] = mask[i] & ((low[i] <= value) & (value <= high[i]))
        n_chosen = 0
        for word in range(words.size):
            if words[word] != 0:
                for i in range(8 * word, 8 * word + 8):
                    chosen[n_chosen] = start + i
                    n_chosen += mask[i]
        for a in range(n_masked, message.size):
            value = message[a]
            pair = pairs[a]
            n_left = 0
            for j in range(n_chosen):
                row = chosen[j]
                chosen[n_left] = row
                n_left += (pair[row, 0] <= value) & (value <= pair[row, 1])
            n_chosen = n_left
        for j in range(n_chosen):
            out[n_out] = chosen[j]
            n_out += 1
    return n_out


class ColumnScan(Peer):
    """numba, full scan by columns with early-out: the vectorised scan of the bars.

    Blocks of rows, columns in selectivity order, vector code on the first, then only survivors;
    (low, high) of the later columns lie side by side, so a survivor costs one cache line a test.
    Variants tried and slower: no mask but branch-free compaction, groups of 8 or 16 rows with
    a jump, rows as records after the first column, smaller blocks.
    """

    name = "scan, numba columns"
    n_masked = 1

    def _build(self, work: Ranges) -> None:
        self._lows = np.ascontiguousarray(work.lows[self._order])
        self._highs = np.ascontiguousarray(work.highs[self._order])
        self._pairs = np.ascontiguousarray(np.stack([self._lows, self._highs], axis=2))
        block = min(BLOCK_ROWS, -8 * (-work.n_profiles // 8))
        self._mask = np.zeros(block, dtype=np.uint8)
        self._chosen = np.empty(block + 1, dtype=np.int64)
        self._out = np.empty(work.n_profiles, dtype=np.int64)

    def find(self, message: np.ndarray) -> np.ndarray:
        n = _scan_columns(
            message[self._order],
            self._lows,
            self._highs,
            self._pairs,
            self.n_masked,
            self._mask,
            self._chosen,
            self._out,
        )
        return self._out[:n].copy()


class TwoColumnScan(ColumnScan):
    """The same with vector code on the two most selective columns before the early-out."""

    name = "scan, numba two columns"
    n_masked = 2


@njit(cache=True)
def _scan_rows(message, rows, out):  # type: ignore[no-untyped-def]
    n_out = 0
    for row in range(rows.shape[0]):
        inside = True
        for a in range(message.size):
            if message[a] < rows[row, a, 0] or message[a] > rows[row, a, 1]:
                inside = False
                break
        if inside:
            out[n_out] = row
            n_out += 1
    return n_out


class RowScan(Peer):
    """numba, full scan by rows: the loop that everybody writes first."""

    name = "scan, numba rows"

    def _build(self, work: Ranges) -> None:
        bounds = np.stack([work.lows[self._order], work.highs[self._order]], axis=2)
        self._rows = np.ascontiguousarray(bounds.transpose(1, 0, 2))
        self._out = np.empty(work.n_profiles, dtype=np.int64)

    def find(self, message: np.ndarray) -> np.ndarray:
        n = _scan_rows(message[self._order], self._rows, self._out)
        return self._out[:n].copy()


class SortedNumpy(Peer):
    """NumPy: rows sorted by the low bound of the best attribute, then column after column.

    No interval is wider than the widest, so the candidates are one slice of the sorted rows;
    the second attribute is tested on that slice too, the others on what is left.
    """

    name = "NumPy, sorted"

    def _build(self, work: Ranges) -> None:
        first = self._order[0]
        self._rows = np.argsort(work.lows[first], kind="stable")
        self._lows = np.ascontiguousarray(work.lows[self._order][:, self._rows])
        self._highs = np.ascontiguousarray(work.highs[self._order][:, self._rows])
        self._widest = float((self._highs[0] - self._lows[0]).max()) if self._rows.size else 0.0

    def find(self, message: np.ndarray) -> np.ndarray:
        message = message[self._order]
        value = message[0]
        # A low bound exactly at value − widest may round either way: step one float down.
        floor = np.nextafter(value - self._widest, -np.inf)
        start = int(np.searchsorted(self._lows[0], floor, side="left"))
        stop = int(np.searchsorted(self._lows[0], value, side="right"))
        inside = self._highs[0, start:stop] >= value
        inside &= self._lows[1, start:stop] <= message[1]
        inside &= self._highs[1, start:stop] >= message[1]
        at = np.flatnonzero(inside)
        at += start
        for a in range(2, N_ATTRIBUTES):
            low, high = self._lows[a].take(at), self._highs[a].take(at)
            at = at[(low <= message[a]) & (message[a] <= high)]
        return self._rows[at]


class RTree(Peer):
    """`rtree` (libspatialindex): one eight-dimensional box a profile, bulk-loaded."""

    name = "rtree"

    def _build(self, work: Ranges) -> None:
        from rtree import index

        properties = index.Property(
            dimension=N_ATTRIBUTES, leaf_capacity=32, fill_factor=0.9, index_capacity=32
        )
        lows = np.ascontiguousarray(work.lows[self._order].T)
        highs = np.ascontiguousarray(work.highs[self._order].T)
        rows = np.arange(work.n_profiles, dtype=np.int64)
        try:
            self._tree = index.Index((rows, lows, highs), properties=properties, interleaved=True)
        except (NotImplementedError, AttributeError):  # libspatialindex before 2.1
            stream = (
                (row, (*low, *high), None)
                for row, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True))
            )
            self._tree = index.Index(stream, properties=properties, interleaved=True)

    def find(self, message: np.ndarray) -> np.ndarray:
        point = message[self._order][None]
        rows, _ = self._tree.intersection_v(point, point)
        return rows

    def close(self) -> None:
        self._tree.close()


def bound_columns(work: Ranges, order: np.ndarray) -> dict[str, np.ndarray]:
    """Profiles as the columns of a table: `row`, `l0`, `h0`, …, the best attribute first."""
    columns = {"row": np.arange(work.n_profiles, dtype=np.int64)}
    for a, column in enumerate(order):
        columns[f"l{a}"] = work.lows[column]
        columns[f"h{a}"] = work.highs[column]
    return columns


def message_columns(messages: np.ndarray, order: np.ndarray) -> dict[str, np.ndarray]:
    """Messages as the columns of a table: `message`, `v0`, …, the best attribute first."""
    columns = {"message": np.arange(len(messages))}
    for a, column in enumerate(order):
        columns[f"v{a}"] = np.ascontiguousarray(messages[:, column])
    return columns


def bin_of(values: np.ndarray, n_bins: int) -> np.ndarray:
    """Which of so many equal parts of the domain a value lies in."""
    return np.minimum(values // (DOMAIN / n_bins), n_bins - 1).astype(np.int64)


class DuckDB(Peer):
    """DuckDB: profiles exploded into bins of the best attribute, sorted by bin, and an equi-join.

    One message at a time it is a prepared query on one bin (the sorted table's zone maps do the
    rest); in batches, a hash join of the messages with the bins.
    """

    name = "DuckDB, bins"
    batched = True
    n_bins = 200

    def _build(self, work: Ranges) -> None:
        import duckdb
        import pyarrow as pa

        self._db = duckdb.connect(config={"threads": 1})
        self._db.register("profiles", pa.table(bound_columns(work, self._order)))
        self._store()
        self._db.unregister("profiles")
        self._join = self._source + " AND ".join(
            f"l{a} <= v{a} AND h{a} >= v{a}" for a in range(N_ATTRIBUTES)
        )

    def _store(self) -> None:
        """Make a table of the registered profiles, and say how messages are joined with it."""
        width = DOMAIN / self.n_bins
        self._db.execute(
            f"CREATE TABLE binned AS SELECT bin, profiles.* FROM profiles, "
            f"range(0, {self.n_bins}) AS bins(bin) WHERE bin >= floor(l0 / {width}) "
            f"AND bin <= floor(h0 / {width}) ORDER BY bin, l0"
        )
        tests = [f"l{a} <= ${a + 2} AND h{a} >= ${a + 2}" for a in range(N_ATTRIBUTES)]
        self._db.execute(
            "PREPARE probe AS SELECT row FROM binned WHERE bin = $1 AND " + " AND ".join(tests)
        )
        self._source = "SELECT message, row FROM messages m JOIN binned b ON m.bin = b.bin AND "

    def find(self, message: np.ndarray) -> np.ndarray:
        message = message[self._order]
        values = ", ".join(f"{value!r}::DOUBLE" for value in message.tolist())
        bin_ = bin_of(message[:1], self.n_bins)[0]
        found = self._db.execute(f"EXECUTE probe({bin_}, {values})")
        return np.asarray(found.fetchnumpy()["row"])

    def find_batch(self, messages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        import pyarrow as pa

        columns = message_columns(messages, self._order)
        columns["bin"] = bin_of(columns["v0"], self.n_bins)
        self._db.register("messages", pa.table(columns))
        found = self._db.execute(self._join).fetchnumpy()
        self._db.unregister("messages")
        return np.asarray(found["message"]), np.asarray(found["row"])

    def close(self) -> None:
        self._db.close()


@njit(cache=True)
def _move(contexts, values, epsilons, bound, lows, highs, pairs):  # type: ignore[no-untyped-def]
    """Write new centres through to the bounds that a scan reads."""
    for i in range(contexts.size):
        row = contexts[i]
        if bound[row]:
            low = values[i] - epsilons[row]
            high = values[i] + epsilons[row]
            if lows.size:
                lows[row] = low
                highs[row] = high
            else:
                pairs[row, 0] = low
                pairs[row, 1] = high


class ContextScan:
    """NOINDEX on Table 2 in plain numba: `ColumnScan` over bounds that updates write in place.

    Speaks as much of germane's face as a lane needs.
    """

    attributes = ATTRIBUTES

    def __init__(self, work: Contextual) -> None:
        self._order = np.array(work.order)
        self._rank = {ATTRIBUTES[column]: rank for rank, column in enumerate(work.order)}
        self._bound = work.context_bound
        self._epsilons = np.ascontiguousarray(work.epsilons[work.epsilon_class].T[self._order])
        lows = work.centres[self._order] - self._epsilons
        highs = work.centres[self._order] + self._epsilons
        self._lows, self._highs = lows[:1].copy(), highs[:1].copy()
        self._pairs = np.ascontiguousarray(np.stack([lows, highs], axis=2))
        block = min(BLOCK_ROWS, -8 * (-work.n_profiles // 8))
        self._mask = np.zeros(block, dtype=np.uint8)
        self._chosen = np.empty(block + 1, dtype=np.int64)
        self._out = np.empty(work.n_profiles, dtype=np.int64)
        self._counts = {"messages": 0, "updates": 0, "postfiltered": 0, "matches": 0}

    def update_many(self, contexts: np.ndarray, attribute: str, values: np.ndarray) -> None:
        rank = self._rank[attribute]
        low, high = (self._lows[0], self._highs[0]) if rank == 0 else (_NONE, _NONE)
        _move(contexts, values, self._epsilons[rank], self._bound, low, high, self._pairs[rank])
        self._counts["updates"] += len(contexts)

    def match_rows(self, message: np.ndarray) -> np.ndarray:
        n = _scan_columns(
            message[self._order],
            self._lows,
            self._highs,
            self._pairs,
            1,
            self._mask,
            self._chosen,
            self._out,
        )
        self._counts["messages"] += 1
        self._counts["postfiltered"] += self._bound.size
        self._counts["matches"] += n
        return self._out[:n].copy()

    def stats(self) -> dict[str, Any]:
        return dict(self._counts)


_NONE = np.empty(0)

SCANS: tuple[type[Peer], ...] = (ColumnScan, TwoColumnScan, RowScan)
INDEXED: tuple[type[Peer], ...] = (SortedNumpy, RTree, DuckDB)
PEERS: tuple[type[Peer], ...] = (*SCANS, *INDEXED)
