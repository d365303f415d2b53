"""Packing rows into blocks: halve them again and again so that the halves' zones are small.

A block is opened when a message falls into its zone, so a good packing has little volume of
zones. Half of the rows go to each side, by the end (lower or upper) of the slot that leaves the
least volume on both sides together, as seen on a sample. O(n log n) with small constants.
"""

from typing import Any

import numpy as np

from germane.kernels.codes import ANY_HIGH, FIRST_GAP, NULL
from germane.kernels.compile import inlined, kernel
from germane.kernels.lanes import LANES

SAMPLE = 128


@kernel
def pack(entries: Any, n_zoned: Any, spans: Any, order: Any) -> None:
    """Order rows, whose codes are entries[n, slot, end], for blocks of 64 in a row.

    Zones are on the first ``n_zoned`` slots; ``spans`` is how many codes are in use of each.
    """
    n = order.shape[0]
    for i in range(n):
        order[i] = i
    begins = np.empty(128, np.int64)
    ends = np.empty(128, np.int64)
    keys = np.empty(SAMPLE, np.int16)
    begins[0], ends[0], depth = 0, n, 1
    while depth > 0:
        depth -= 1
        begin, end = begins[depth], ends[depth]
        n_blocks = (end - begin + LANES - 1) // LANES
        if n_blocks <= 1:
            continue
        middle = begin + (n_blocks // 2) * LANES
        step = max((end - begin) // SAMPLE, 1)
        size = min((end - begin) // step, SAMPLE)
        best = np.inf
        chosen = 0
        for side in range(2 * n_zoned):
            slot, which = side // 2, side % 2
            for i in range(size):
                keys[i] = entries[order[begin + i * step], slot, which]
            ranked = np.sort(keys[:size])
            limit = ranked[min(size * (middle - begin) // (end - begin), size - 1)]
            cost = volume(entries, order, begin, step, keys[:size], limit, True, n_zoned, spans)
            cost += volume(entries, order, begin, step, keys[:size], limit, False, n_zoned, spans)
            if cost < best:
                best, chosen = cost, side
        select(entries[:, chosen // 2, chosen % 2], order, begin, end, middle)
        begins[depth], ends[depth] = begin, middle
        begins[depth + 1], ends[depth + 1] = middle, end
        depth += 2


@inlined
def volume(
    entries: Any,
    order: Any,
    begin: Any,
    step: Any,
    keys: Any,
    limit: Any,
    lower: Any,
    n_zoned: Any,
    spans: Any,
) -> Any:
    """Volume of the zone of those sampled rows whose key is below a limit, or not; times them."""
    total = 1.0
    n = 0
    for slot in range(n_zoned):
        low = np.int64(ANY_HIGH)
        high = np.int64(NULL)
        n = 0
        for i in range(keys.shape[0]):
            if (keys[i] < limit) == lower:
                row = order[begin + i * step]
                low = min(low, np.int64(entries[row, slot, 0]))
                high = max(high, np.int64(entries[row, slot, 1]))
                n += 1
        low = max(low, FIRST_GAP)
        high = min(high, FIRST_GAP + spans[slot] - 1)
        total *= max(high - low + 1, 0) / spans[slot]
    return total * n


@inlined
def select(keys: Any, order: Any, begin: Any, end: Any, middle: Any) -> None:
    """Put those of ``order[begin:end]`` with the lowest keys before ``middle`` (quickselect)."""
    first, last = begin, end - 1
    while first < last:
        a = keys[order[first]]
        b = keys[order[(first + last) // 2]]
        c = keys[order[last]]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = first, last
        while i <= j:
            while keys[order[i]] < pivot:
                i += 1
            while keys[order[j]] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            last = j
        elif middle >= i:
            first = i
        else:
            return
