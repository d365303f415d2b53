"""Messages -> minibatches under one index: grouped on the attributes that it is packed by.

In: vectors of messages and the index they will be matched with. Out: ``Minibatches``, the messages'
codes in an order in which those of a minibatch stand together, and where each one ends. The keys
come from the index at the time of the call, so they follow when it chooses other attributes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.batch.settings import ByValue, FixedSize, Grouping
from germane.index.blocks import BlockIndex
from germane.index.lists import ListIndex
from germane.index.rowindex import RowIndex
from germane.kernels import grouping as kernels
from germane.kernels.batches import arrange
from germane.kernels.blocktests import Batch
from germane.kernels.lanes import LANES

LEAST_FOR_RUNS = 512
"""Messages of a batch from which on runs are looked for."""
MOST_BITS = 18

Vectors = NDArray[np.float64]
Places = NDArray[np.int32]


class Minibatches:
    """Messages in the order of their minibatches."""

    def __init__(self, batch: Batch, ends: Places) -> None:
        self.batch = batch
        self.ends = ends

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def order(self) -> Places:
        """Place -> message."""
        order: Places = self.batch.order
        return order


def group(
    index: RowIndex, vectors: Vectors, members: Places, how: Grouping | int | None
) -> Minibatches:
    """Group the messages ``members`` by a grouping; an int is the most that halving leaves.

    None is one minibatch, sorted.
    """
    if isinstance(index, BlockIndex):
        return _group_blocks(index, vectors, members, how)
    assert isinstance(index, ListIndex)
    slots = index.indexed
    n = len(members)
    order = np.lexsort([vectors[members, slot] for slot in slots[::-1]]) if len(slots) else slice(n)
    members = members[order]
    ends: Places = np.empty(max(n, 1), np.int32)
    cuts = FixedSize(how) if isinstance(how, int) else how
    n_groups = _cut(cuts, slots, vectors, members, ends)
    return Minibatches(plain(vectors, members), ends[:n_groups])


def _group_blocks(
    index: BlockIndex, vectors: Vectors, members: Places, how: Grouping | int | None
) -> Minibatches:
    keys = index.encode_messages(vectors if _is_all(members, vectors) else vectors[members])
    n = len(members)
    packed: NDArray[np.uint64] = np.empty(n, np.uint64)
    kernels.pack_keys(keys, packed)
    order: Places = np.empty(n, np.int32)
    ends: Places = np.empty(max(n, 1), np.int32)
    n_runs = 0
    if isinstance(how, int):
        n_runs, n_apart = _set_apart(index, packed, order, ends)
        n_groups = kernels.halve(keys, index.units, how, order, n_apart, ends, n_runs)
    else:
        order[:] = np.argsort(packed, kind="stable")
        n_groups = _cut(how, index.packed_by, vectors, members[order], ends)
    kernels.sort_groups(packed, order, ends, n_runs, n_groups)
    n_columns = keys.shape[1]
    columns = np.empty(n_columns * (n + LANES), np.int16)
    reaches = np.empty(2 * n * n_columns, np.int16)
    arrange(keys, order, columns, reaches)
    return Minibatches(Batch(vectors, members[order], columns, reaches), ends[:n_groups])


def _set_apart(
    index: BlockIndex, packed: NDArray[np.uint64], order: Places, ends: Places
) -> tuple[int, int]:
    """Order a batch: runs first, each a minibatch; (number of runs, messages in them)."""
    n = len(packed)
    n_zoned, n_columns = len(index.units), len(index.attributes)
    if n < LEAST_FOR_RUNS or not 0 < n_zoned < n_columns:
        order[:] = np.arange(n)
        return 0, 0
    shift = np.uint64(16 * (kernels.PACKED - n_zoned))
    counts = np.zeros(1 << min(n.bit_length() + 1, MOST_BITS), np.int32)
    crowded, loose = np.empty(n, np.int32), np.empty(n, np.int32)
    n_crowded = kernels.find_crowds(packed, shift, counts, crowded, loose)
    crowded, loose = crowded[:n_crowded], loose[: n - n_crowded]
    crowded = crowded[np.argsort(packed[crowded])]
    n_runs, n_apart = kernels.set_apart(packed, shift, crowded, loose, order, ends)
    return n_runs, n_apart


def _cut(
    how: Grouping | None,
    slots: NDArray[np.int32],
    vectors: Vectors,
    sorted_: Places,
    ends: Places,
) -> int:
    """Cut a sorted batch into the paper's minibatches; how many."""
    n = len(sorted_)
    if n == 0:
        return 0
    if how is None:
        ends[0] = n
        return 1
    most = n if how.most is None else how.most
    if isinstance(how, ByValue):
        first, second = slots[:1], slots[1:2]
        nothing = np.zeros(n)
        return int(
            kernels.cut_by_value(
                vectors[sorted_, first[0]] if len(first) else nothing,
                vectors[sorted_, second[0]] if len(second) else nothing,
                how.first,
                np.inf if how.second is None else how.second,
                how.least,
                most,
                ends,
            )
        )
    size = how.n if isinstance(how, FixedSize) else -(-n // how.n)
    size = min(max(size, how.least), most)
    n_groups = -(-n // size)
    ends[:n_groups] = np.minimum(np.arange(1, n_groups + 1) * size, n)
    return n_groups


def plain(vectors: Vectors, members: Places) -> Batch:
    """Messages in the given order, without codes: for rows that no block index holds."""
    empty: Any = np.empty(0, np.int16)
    return Batch(vectors, members, empty, empty)


def _is_all(members: Places, vectors: Vectors) -> bool:
    return len(members) == len(vectors) and bool((members == np.arange(len(members))).all())
