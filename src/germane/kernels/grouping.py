"""Messages of a batch -> minibatches of messages that are alike (Batching section 3.2).

``keys[n, column]`` are the codes of a batch under one index, its zoned columns first; ``order``
says which message stands where, ``ends`` where each minibatch ends. Minibatches by halving are
what the tuned default uses: a minibatch is the leaf of a k-d tree over the batch. The others are
the paper's: they cut a batch that is sorted lexicographically.
"""

from typing import Any

import numpy as np

from germane.kernels.codes import N_BUCKETS, encode_in
from germane.kernels.compile import inlined, kernel
from germane.kernels.packing import select

PACKED = 4
"""Columns whose codes fit the 64-bit word that messages are sorted by."""
OFFSET = 32768


@kernel
def encode_batch(
    vectors: Any,
    attributes: Any,
    column: Any,
    cuts: Any,
    grid: Any,
    ladder: Any,
    keys: Any,
) -> None:
    """Codes of messages [n, column], from their vectors and the cuts of an index."""
    for slot in range(attributes.shape[0]):
        first = slot * (N_BUCKETS + 1)
        most = 0
        for b in range(first, first + N_BUCKETS):
            most = max(most, ladder[b + 1] - ladder[b])
        steps = 0
        while most >> steps:
            steps += 1
        for i in range(vectors.shape[0]):
            value = vectors[i, attributes[slot]]
            keys[i, column[slot]] = encode_in(value, cuts, grid, ladder, slot, steps)


@kernel
def pack_keys(keys: Any, packed: Any) -> None:
    """The first columns of each message as one word that sorts as they do, lexicographically."""
    n_columns = min(keys.shape[1], PACKED)
    for i in range(keys.shape[0]):
        word = np.uint64(0)
        for column in range(n_columns):
            part = np.uint64(np.int64(keys[i, column]) + OFFSET)
            word |= part << np.uint64(16 * (PACKED - 1 - column))
        packed[i] = word


@kernel
def halve(keys: Any, units: Any, most: Any, order: Any, ends: Any) -> Any:
    """Halve a batch along the column of largest spread, until a part has at most ``most``.

    ``units`` weigh the spreads of the columns that count. A part whose messages are equal in all
    of them stays whole. Returns the number of minibatches. O(n log n).
    """
    n = order.shape[0]
    for i in range(n):
        order[i] = i
    begins = np.empty(128, np.int64)
    stops = np.empty(128, np.int64)
    begins[0], stops[0], depth = 0, n, 1
    n_groups = 0
    while depth > 0:
        depth -= 1
        begin, end = begins[depth], stops[depth]
        widest = 0
        spread = 0.0
        if end - begin > most:
            for column in range(units.shape[0]):
                low = np.int64(keys[order[begin], column])
                high = low
                for i in range(begin + 1, end):
                    key = np.int64(keys[order[i], column])
                    low = min(low, key)
                    high = max(high, key)
                if (high - low) * units[column] > spread:
                    spread = (high - low) * units[column]
                    widest = column
        if spread == 0.0:
            ends[n_groups] = end
            n_groups += 1
            continue
        middle = (begin + end) // 2
        select(keys[:, widest], order, begin, end, middle)
        begins[depth], stops[depth] = middle, end
        begins[depth + 1], stops[depth + 1] = begin, middle
        depth += 2
    return n_groups


@kernel
def sort_groups(packed: Any, order: Any, ends: Any, n_groups: Any) -> None:
    """Sort each minibatch lexicographically."""
    begin = 0
    for group in range(n_groups):
        end = ends[group]
        if end - begin <= 64:
            for i in range(begin + 1, end):
                message = order[i]
                word = packed[message]
                place = i
                while place > begin and packed[order[place - 1]] > word:
                    order[place] = order[place - 1]
                    place -= 1
                order[place] = message
        else:
            part = order[begin:end].copy()
            ranked = np.argsort(packed[part])
            for i in range(end - begin):
                order[begin + i] = part[ranked[i]]
        begin = end


@kernel
def cut_by_value(
    firsts: Any, seconds: Any, first_width: Any, second_width: Any, least: Any, most: Any, ends: Any
) -> Any:
    """Cut a sorted batch where a value leaves the range of its minibatch; returns how many.

    Ranges are cells of a fixed grid of ``first_width`` and ``second_width`` (infinite: any value).
    NULLs are a cell of their own. A minibatch smaller than ``least`` is joined to the next one.
    """
    n = firsts.shape[0]
    n_groups = 0
    begin = 0
    for i in range(1, n + 1):
        if i < n:
            same = cell(firsts[i], first_width) == cell(firsts[i - 1], first_width) and cell(
                seconds[i], second_width
            ) == cell(seconds[i - 1], second_width)
            if (same and i - begin < most) or i - begin < least:
                continue
        ends[n_groups] = i
        n_groups += 1
        begin = i
    return n_groups


@inlined
def cell(value: Any, width: Any) -> Any:
    """The cell of a grid in which a value lies; -inf for NULL."""
    if value != value:
        return -np.inf
    if width == np.inf:
        return 0.0
    return np.floor(value / width)
