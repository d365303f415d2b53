"""One strategy on one index: minibatches in, matches out, stage by stage (Batching section 3.5).

``Scratch`` holds what stages write between them, used again from one batch to the next: union
sets, hits, finds (``kernels.batches``). Everything grows when it must; nothing is ever lost for
want of room.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.batch.minibatches import Minibatches
from germane.batch.settings import FULL_MESSAGES, MINI_MESSAGES
from germane.index.blocks import BlockIndex
from germane.index.rowindex import Rest, Rows
from germane.kernels import batches as kernels
from germane.kernels import doubts
from germane.kernels.blocktests import HIT, SPARE_FINDS, SPARE_HITS, Batch
from germane.kernels.doubts import FIND, MessageIndex
from germane.kernels.lanes import LANES

STAGES = ("group", "probe", "postfilter", "deliver")
"""What is timed. The message index is built inside the postfilter, where it is first asked for."""
UNION_ROOM = 1 << 18
SLAB = 1 << 23
"""Rows of a slab: 32 MB."""
HELD_HERE = 3
"""References to a slab that only ``Slabs`` holds, as ``sys.getrefcount`` counts them."""
HIT_ROOM = 1 << 16


class Scratch:
    """Buffers of a batch, and what its stages have cost and counted."""

    def __init__(self) -> None:
        self.hits: NDArray[Any] = np.empty(HIT_ROOM, HIT)
        self.finds: NDArray[Any] = np.empty(HIT_ROOM // 4, FIND)
        self.packed: Rows = np.empty(HIT_ROOM, np.int32)
        self.union: Rows = np.empty(UNION_ROOM, np.int32)
        self.failed: Rows = np.empty(1 << 12, np.int32)
        self.waiting: NDArray[np.int32] = np.empty((1 << 10, 2), np.int32)
        self.state: NDArray[np.int64] = np.zeros(doubts.N_STATE, np.int64)
        self.index = message_index(0)
        self.no_index = message_index(0)
        self.stage_ns = dict.fromkeys(STAGES, 0)
        self.n_union = 0

    def start(self, n_attributes: int) -> None:
        """A new round: nothing found yet, no message sorted."""
        self.state[:] = 0
        if len(self.index.chunk) < n_attributes:
            self.index = message_index(n_attributes)
        self.index.chunk[:] = -1

    def timed(self, stage: str, start: int) -> int:
        """Add the time since ``start`` to a stage; what time it is now."""
        now = time.perf_counter_ns()
        self.stage_ns[stage] += now - start
        return now

    @property
    def found(self) -> tuple[NDArray[Any], NDArray[Any], Rows]:
        """Hits, finds and packed rows of the round."""
        n_hits, n_finds, n_packed = self.state[[doubts.N_HITS, doubts.N_FINDS, doubts.N_PACKED]]
        return self.hits[:n_hits], self.finds[:n_finds], self.packed[: n_packed * LANES]

    def pairs_waiting(self) -> NDArray[np.int32]:
        """(message, row) that wait for a text."""
        return self.waiting[: self.state[doubts.N_WAITING]]

    def until_it_fits(self, work: Callable[[], None], n_attributes: int) -> None:
        """Do a round's work on an index; again with more room where pairs did not fit."""
        while True:
            self.start(n_attributes)
            work()
            n_waiting = int(self.state[doubts.N_WAITING])
            if n_waiting <= len(self.waiting):
                return
            self.waiting = np.empty((n_waiting + n_waiting // 2, 2), np.int32)

    def more_hits(self, n: int) -> None:
        """Room for n more hits and finds, and two more packed blocks, at least."""
        n_packed = LANES * (int(self.state[doubts.N_PACKED]) + 2)
        if n_packed > len(self.packed):
            self.packed = _longer(self.packed, 2 * n_packed)
        n_hits, n_finds = int(self.state[doubts.N_HITS]), int(self.state[doubts.N_FINDS])
        if n_hits + n + SPARE_HITS > len(self.hits):
            self.hits = _longer(self.hits, 2 * (n_hits + n + SPARE_HITS))
        if n_finds + n + SPARE_FINDS > len(self.finds):
            self.finds = _longer(self.finds, 2 * (n_finds + n + SPARE_FINDS))


class Slabs:
    """Memory for matches, used again when nobody holds what was written there.

    The first touch of fresh memory costs several times what writing a match does.
    """

    def __init__(self) -> None:
        self._slabs: list[Rows] = []
        self._used = 0  # rows of the last slab
        self._n_free = 0  # slabs at the front that may be used again

    def start(self, n_bytes: int) -> None:
        """A new batch: what is free of the last one's slabs, up to so many bytes, is used again."""
        free = [slab for slab in self._slabs if sys.getrefcount(slab) == HELD_HERE]
        self._slabs = free[: max(n_bytes // (4 * SLAB), 1)]
        self._n_free = len(self._slabs)
        self._used = SLAB

    def take(self, n: int) -> Rows:
        """Room for n rows."""
        if not 0 < n <= SLAB:
            return np.empty(n, np.int32)
        if self._used + n > SLAB:
            if self._n_free:
                self._n_free -= 1
                self._slabs.append(self._slabs.pop(0))
            else:
                self._slabs.append(np.empty(SLAB, np.int32))
            self._used = 0
        room = self._slabs[-1][self._used : self._used + n]
        self._used += n
        return room

    def finish(self) -> None:
        """The batch is done: slabs that it did not need are given up."""
        del self._slabs[: self._n_free]
        self._n_free = 0


def message_index(n_attributes: int) -> MessageIndex:
    """An index of sixty-four messages, not laid out by anything yet."""
    return MessageIndex(
        np.full(n_attributes, -1, np.int64),
        np.empty((n_attributes, LANES)),
    )


def match_blocks(
    index: BlockIndex,
    minibatches: Minibatches,
    first: int,
    last: int,
    strategy: str,
    rest: Rest,
    scratch: Scratch,
) -> None:
    """Match the minibatches ``first .. last`` with a block index."""
    by_range = strategy in (FULL_MESSAGES, MINI_MESSAGES)
    messages = scratch.index if by_range else scratch.no_index
    blocks, batch, ends = index.blocks, minibatches.batch, minibatches.ends
    union_ends: NDArray[np.int64] = np.empty(len(ends), np.int64)
    now = time.perf_counter_ns()
    while first < last:
        if len(scratch.union) < index.n_blocks:
            scratch.union = np.empty(2 * index.n_blocks, np.int32)
        if strategy == FULL_MESSAGES:
            done = first + 1
            scratch.union[: index.n_blocks] = np.arange(index.n_blocks)
            union_ends[first] = index.n_blocks
        else:
            done = kernels.find_all(
                first, last, ends, batch, blocks.zones, blocks.hulls, blocks.size,
                scratch.union, union_ends,
            )  # fmt: skip
        now = scratch.timed("probe", now)
        group, at, end = first, 0, int(union_ends[done - 1])
        while group < done:
            begin = int(ends[group - 1]) if group else 0
            scratch.more_hits(2 * (int(ends[group]) - begin + SPARE_FINDS))
            group, at = kernels.test_blocks(
                group, done, at, ends, scratch.union, union_ends, by_range, batch, messages,
                blocks.codes, blocks.zones, blocks.heads, blocks.tenants, index.cores, index.briefs,
                index.column_of, blocks.size, rest,
                scratch.hits, scratch.finds, scratch.failed, scratch.waiting, scratch.packed,
                scratch.state,
            )  # fmt: skip
        scratch.n_union += end
        now = scratch.timed("postfilter", now)
        first = done


def match_rows(
    rows: NDArray[np.uint64], batch: Batch, indexed: bool, rest: Rest, scratch: Scratch
) -> None:
    """Match all messages of a batch with rows, given as bits, that no block index holds."""
    now = time.perf_counter_ns()
    place, n = 0, len(batch.order)
    messages = scratch.index if indexed else scratch.no_index
    while place < n:
        place = kernels.sweep_chunks(
            place, rows, batch, messages, rest, scratch.finds, scratch.failed, scratch.waiting,
            scratch.state,
        )  # fmt: skip
        if place < n:
            scratch.more_hits(len(scratch.finds))
    scratch.timed("postfilter", now)


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    longer = np.empty(size, array.dtype)
    longer[: len(array)] = array
    return longer
