"""Batches of messages through all tables: grouped, probed, tested, delivered, round by round.

In: vectors of messages. Out: ``Found``, the profile rows of each message. The batch is grouped
once, under its largest index, and cut into rounds of whole minibatches, so that what a round writes
stays in the cache; smaller tables group a round's messages anew, and rows that are in no index are
tested against an index of the messages instead. Every message sees the same state: nothing changes
while a batch is matched.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.batch.minibatches import Minibatches, Places, Vectors, group, plain
from germane.batch.probing import Scratch, Slabs, match_blocks, match_rows
from germane.batch.settings import (
    AUTO,
    FULL_MESSAGES,
    MINI,
    MINI_MESSAGES,
    UNBATCHED,
    Batching,
    Grouping,
)
from germane.batch.tuning import Tuner
from germane.filter.table import Table
from germane.filter.tables import FEW_TABLES, Tables
from germane.index.blocks import BlockIndex
from germane.index.lists import ListIndex
from germane.index.rowindex import Rows
from germane.kernels import batches as kernels
from germane.kernels import doubts
from germane.kernels.blocktests import Batch
from germane.kernels.rowsets import mark

FEW = 16
"""Messages whose rows may as well stay in an array each, where they are matched one by one."""
PART = 1 << 16
"""Rows for which room is made at once where messages are matched one by one."""
ROUND = 2048
"""Messages whose matches are delivered at once."""

MatchOne = Callable[[NDArray[np.float64], Any], Rows]
RawOf = Callable[[int], Mapping[str, Any]]


class Found(NamedTuple):
    """Profile rows of each message: ``parts[part[m]][starts[m] : starts[m] + counts[m]]``."""

    parts: list[Rows]
    part: NDArray[np.int32]
    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    total: int

    def spread(self, numbers: NDArray[np.int64], n: int) -> "Found":
        """The same as messages with these numbers out of n; the others reach nobody."""
        part, starts, counts = np.zeros(n, np.int32), np.zeros(n, np.int64), np.zeros(n, np.int64)
        part[numbers], starts[numbers], counts[numbers] = self.part, self.starts, self.counts
        return Found(self.parts or [_NO_ROWS], part, starts, counts, self.total)


class Source(NamedTuple):
    """What one index, or the rows outside all, found in a round."""

    hits: NDArray[Any]
    finds: NDArray[Any]
    order: Places
    tenants: Rows
    packed: Rows  # of runs, 64 a block: see ``kernels.runs``
    pairs: NDArray[np.int32]  # (message, row) that texts decided


class Lesson(NamedTuple):
    """What a source teaches its table (None: rows in no index) once all is delivered."""

    table: Table | None
    failed: Rows
    n_tested: int  # rows, each with all its messages at once
    n_candidates: int  # (message, row) pairs


class Batches:
    """Matches batches; remembers what they cost."""

    def __init__(self, tables: Tables, match_one: MatchOne, settings: Batching) -> None:
        self.tables = tables
        self.match_one = match_one
        self.settings = settings
        self.tuner = Tuner(unbatched=settings.strategy == AUTO)
        self.scratch = Scratch()
        self.slabs = Slabs()
        self.n_batches = 0
        self.n_messages = 0
        self.n_minibatches = 0
        self.n_tested = 0
        self.n_found = 0
        self.last = ""  # strategy
        # What a batch teaches moves rows within the indexes, so it waits until all is delivered.
        self._lessons: list[Lesson] = []
        self._posted: list[Rows] = []  # rows that were named in vain by their categories
        self._swept = (0, 0)  # messages, nanoseconds
        self._alone = False  # one source a round: it need not be copied out of the scratch

    def match(self, vectors: Vectors, raw_of: RawOf) -> Found:
        """The profile rows of each message of a batch."""
        n = len(vectors)
        strategy, how, measured = self._choose(n)
        start = time.perf_counter_ns() if measured else 0
        if strategy == UNBATCHED:
            found = self._one_by_one(vectors, raw_of)
        else:
            found = self._by_groups(vectors, raw_of, strategy, how)
        if measured:
            size = how if isinstance(how, int) else 1
            self.tuner.learn(n, size, (time.perf_counter_ns() - start) / n)
        self.last = strategy
        self.n_batches += 1
        self.n_messages += n
        self.n_found += found.total
        return found

    def _choose(self, n: int) -> tuple[str, Grouping | int | None, bool]:
        """The strategy for a batch, how to group it (None: not at all), whether to measure it."""
        wanted, grouping = self.settings.strategy, self.settings.grouping
        if self.tables.postponed:
            return UNBATCHED, None, False
        if wanted not in (AUTO, MINI, MINI_MESSAGES):
            return wanted, None, False
        grouped = MINI_MESSAGES if wanted == AUTO else wanted
        if grouping is not None:
            alone = wanted == AUTO and n == 1
            return (UNBATCHED, None, False) if alone else (grouped, grouping, False)
        size, measured = self.tuner.size(n)
        return (UNBATCHED, None, measured) if size == 1 else (grouped, size, measured)

    def _one_by_one(self, vectors: Vectors, raw_of: RawOf) -> Found:
        n = len(vectors)
        if n <= FEW:
            each = [self.match_one(vectors[i], raw_of(i)) for i in range(n)]
            sizes = [len(rows) for rows in each]
            starts = np.zeros(n, np.int64)
            return Found(each, _NUMBERS[:n], starts, np.array(sizes, np.int64), sum(sizes))
        self.slabs.start(self.settings.max_bytes)
        parts, room, used = [_NO_ROWS], 0, 0
        part, starts, counts = np.zeros(n, np.int32), np.zeros(n, np.int64), np.zeros(n, np.int64)
        for i in range(n):
            rows = self.match_one(vectors[i], raw_of(i))
            if used + len(rows) > room:
                room, used = max(len(rows), PART), 0
                parts.append(self.slabs.take(room))
            parts[-1][used : used + len(rows)] = rows
            part[i], starts[i], counts[i] = len(parts) - 1, used, len(rows)
            used += len(rows)
        self.slabs.finish()
        return Found(parts, part, starts, counts, int(counts.sum()))

    # rounds ----------------------------------------------------------------------------------

    def _by_groups(
        self, vectors: Vectors, raw_of: RawOf, strategy: str, how: Grouping | int | None
    ) -> Found:
        n = len(vectors)
        counts = np.zeros(n, np.int64)
        found = Found([], np.zeros(n, np.int32), np.zeros(n, np.int64), counts, 0)
        if not n:
            return found
        tables = self.tables
        tables.begin_batch(vectors)
        self.slabs.start(self.settings.max_bytes)
        used = [t for t in tables.tables if t.n_inside] if tables.strategy.indexed else []
        first = max(used, key=lambda t: t.n_inside, default=None)
        blocked = first is not None and isinstance(first.index, BlockIndex)
        self._alone = blocked and len(used) == 1 and not tables.n_outside and not tables.n_posted
        everyone: Places = np.arange(n, dtype=np.int32)
        grouped = None if first is None else self._group(first, vectors, everyone, how)
        order = everyone if grouped is None else grouped.order
        group_at = begin = 0
        while begin < n:
            if grouped is None:
                end, next_group = min(begin + ROUND, n), 0
            else:
                next_group = int(np.searchsorted(grouped.ends, min(begin + ROUND, n))) + 1
                end = int(grouped.ends[next_group - 1])
            members = order[begin:end]
            sources = []
            if first is not None and grouped is not None:
                span = (group_at, next_group)
                sources += self._match_grouped(first, grouped, span, strategy, raw_of)
            for table in used:
                if table is not first:
                    sources += self._match_table(table, vectors, members, strategy, how, raw_of)
            if tables.n_posted:
                sources.append(self._look_up(vectors, members, raw_of))
            if tables.n_outside:
                sources.append(self._sweep(vectors, members, strategy, raw_of))
            self._deliver(sources, members, found)
            begin, group_at = end, next_group
        self.slabs.finish()
        for lesson in self._lessons:
            self.n_tested += lesson.n_tested
            tables.learn_batch(*lesson)
        self._lessons.clear()
        if self._posted:
            tables.learn_posted(np.concatenate(self._posted))
            self._posted.clear()
        if self._swept[0]:
            tables.swept_batch(*self._swept)
            self._swept = (0, 0)
        return found._replace(total=int(counts.sum()))

    def _group(
        self, table: Table, vectors: Vectors, members: Places, how: Grouping | int | None
    ) -> Minibatches:
        start = time.perf_counter_ns()
        assert table.index is not None
        minibatches = group(table.index, vectors, members, how)
        self.n_minibatches += len(minibatches)
        self.scratch.timed("group", start)
        return minibatches

    def _match_table(
        self,
        table: Table,
        vectors: Vectors,
        members: Places,
        strategy: str,
        how: Grouping | int | None,
        raw_of: RawOf,
    ) -> list[Source]:
        """A table that the batch was not grouped by."""
        if len(self.tables.tables) > FEW_TABLES and len(table.required):
            members = members[~np.isnan(vectors[np.ix_(members, table.required)]).any(axis=1)]
        if not len(members):
            return []
        grouped = self._group(table, vectors, members, how)
        return self._match_grouped(table, grouped, (0, len(grouped)), strategy, raw_of)

    def _match_grouped(
        self,
        table: Table,
        grouped: Minibatches,
        span: tuple[int, int],
        strategy: str,
        raw_of: RawOf,
    ) -> list[Source]:
        """Some minibatches with the index that they were grouped for."""
        if isinstance(table.index, BlockIndex):
            return [self._match_blocks(table, grouped, span, strategy, raw_of)]
        sources = []
        vectors, ends = grouped.batch.vectors, grouped.ends.tolist()
        for number in range(*span):
            members = grouped.order[ends[number - 1] if number else 0 : ends[number]]
            bits = self._union(table, vectors[members], strategy)
            sources.append(self._match_rows(bits, vectors, members, strategy, raw_of, table))
        return sources

    def _union(self, table: Table, messages: Vectors, strategy: str) -> NDArray[np.uint64]:
        """The union set of a minibatch, as bits; all rows where profiles are not indexed."""
        start = time.perf_counter_ns()
        assert isinstance(table.index, ListIndex)
        if strategy == FULL_MESSAGES:
            bits = np.zeros(len(self.tables.outside), np.uint64)
            mark(self.tables.rows_inside(table), bits)
        else:
            bits = table.index.union(messages, len(self.tables.outside))
        self.scratch.n_union += int(np.bitwise_count(bits).sum())
        self.scratch.timed("probe", start)
        return bits

    def _match_blocks(
        self,
        table: Table,
        grouped: Minibatches,
        span: tuple[int, int],
        strategy: str,
        raw_of: RawOf,
    ) -> Source:
        index, scratch = table.index, self.scratch
        assert isinstance(index, BlockIndex)
        vectors = grouped.batch.vectors
        rest = self.tables.rest()
        scratch.until_it_fits(
            lambda: match_blocks(index, grouped, *span, strategy, rest, scratch), vectors.shape[1]
        )
        index.count_opened(int(scratch.state[doubts.N_OPENED]))
        return self._source(grouped.batch, index.blocks.tenants, raw_of, table)

    def _look_up(self, vectors: Vectors, members: Places, raw_of: RawOf) -> Source:
        """Rows that are found by their categories."""
        start = time.perf_counter_ns()
        tables = self.tables
        found = tables.postings.match(vectors, members, tables.rest())
        self._posted.append(found.failed.copy())
        tables.n_candidates += found.n_candidates
        pairs = found.pairs.copy()
        if len(found.waiting):
            passed = tables.test_pairs(found.waiting.copy(), vectors, raw_of)
            pairs = np.concatenate([pairs, passed])
        self.scratch.timed("probe", start)
        scratch = self.scratch
        return Source(scratch.hits[:0], scratch.finds[:0], members, _NO_ROWS, _NO_ROWS, pairs)

    def _sweep(self, vectors: Vectors, members: Places, strategy: str, raw_of: RawOf) -> Source:
        """Rows that no index holds."""
        start = time.perf_counter_ns()
        bits = self.tables.outside
        source = self._match_rows(bits, vectors, members, strategy, raw_of, None)
        n, took = self._swept
        self._swept = (n + len(members), took + time.perf_counter_ns() - start)
        return source

    def _match_rows(
        self,
        bits: NDArray[np.uint64],
        vectors: Vectors,
        members: Places,
        strategy: str,
        raw_of: RawOf,
        table: Table | None,
    ) -> Source:
        scratch = self.scratch
        batch = plain(vectors, members)
        rest = self.tables.rest()
        indexed = strategy in (FULL_MESSAGES, MINI_MESSAGES)
        scratch.until_it_fits(
            lambda: match_rows(bits, batch, indexed, rest, scratch), vectors.shape[1]
        )
        return self._source(batch, _NO_ROWS, raw_of, table)

    def _source(self, batch: Batch, tenants: Rows, raw_of: RawOf, table: Table | None) -> Source:
        """Take what stages have found out of the scratch; what it teaches is learnt at the end."""
        state = self.scratch.state
        n_failed = int(state[doubts.N_FAILED])
        hits, finds, packed = self.scratch.found
        if not self._alone:
            hits, finds, packed = hits.copy(), finds.copy(), packed.copy()
        pairs = self.tables.test_pairs(self.scratch.pairs_waiting().copy(), batch.vectors, raw_of)
        n_tested, n_candidates = int(state[doubts.N_TESTED]), int(state[doubts.N_CANDIDATES])
        failed = self.scratch.failed[:n_failed].copy()
        self._lessons.append(Lesson(table, failed, n_tested, n_candidates))
        return Source(hits, finds, batch.order, tenants, packed, pairs)

    # delivery --------------------------------------------------------------------------------

    def _deliver(self, sources: list[Source], members: Places, found: Found) -> None:
        """Write the profiles of a round's messages, and where they are."""
        start = time.perf_counter_ns()
        counts = found.counts
        for source in sources:
            kernels.count(source.hits, source.finds, source.order, source.pairs, counts)
        rows = self.slabs.take(int(kernels.allot(members, counts, found.starts)))
        for source in sources:
            kernels.deliver(
                source.hits,
                source.finds,
                source.order,
                source.pairs,
                source.tenants,
                source.packed,
                found.starts,
                rows,
            )
        kernels.go_back(members, counts, found.starts, found.part, len(found.parts))
        self._as_profiles(rows, members, found)
        found.parts.append(rows)
        self.scratch.timed("deliver", start)

    def _as_profiles(self, rows: Rows, members: Places, found: Found) -> None:
        """Rows of conjunctions -> rows of profiles, each once a message."""
        conjunctions = self.tables.conjunctions
        if conjunctions.rows_are_profiles:
            return
        kernels.translate(rows, members, found.starts, found.counts, conjunctions.profile)
        if conjunctions.n_siblings:
            kernels.once_each(rows, members, found.starts, found.counts)

    # for people ------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """What was decided and done."""
        return {
            "strategy": self.settings.strategy,
            "grouping": repr(self.settings.grouping or "tuned"),
            "last": self.last,
            "batches": self.n_batches,
            "messages": self.n_messages,
            "minibatches": self.n_minibatches,
            "minibatch": self.n_messages / self.n_minibatches if self.n_minibatches else 1.0,
            "union_rows": self.scratch.n_union,
            "tested": self.n_tested,
            "matches": self.n_found,
            "stage_ns": dict(self.scratch.stage_ns),
            "sizes": self.tuner.describe(),
        }


_NO_ROWS: Rows = np.empty(0, np.int32)
_NUMBERS: NDArray[np.int32] = np.arange(FEW, dtype=np.int32)
