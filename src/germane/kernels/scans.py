"""Everybody looked at: contexts within intervals, sixty-four at a time, and rows put in order.

Contexts are columns of values; a word has a bit for each of 64 of them. What an address says is
turned into words, a stretch of a column after the other while the words stay in the nearest cache,
and words into rows without a branch: nobody could predict which contexts are reached.
"""

from typing import Any

import numpy as np

from germane.kernels.bundle import array_at
from germane.kernels.compile import inlined, kernel
from germane.kernels.lanes import LANES, SPARE, count_bits, gather, keys_between, lowest_bit
from germane.kernels.points import HIGHS, LOWS, OUTSIDE, SLOTS, STARTS, passes

WORDS = 64
"""Words of a stretch: 4,096 contexts."""
ROOM = SPARE
"""Elements beyond the answer that are overwritten."""
FEW_BITS = 4
"""Rows of a word that are written whether there are so many or not: that spares a branch."""
TOP = np.uint64(1 << 63)


@inlined
def _narrow(
    words: Any, n_words: Any, begin: Any, slot: Any, low: Any, high: Any, outside: Any, values: Any
) -> None:
    """Keep the bits of the contexts from `begin` on whose values are within, or outside."""
    at = slot * values.shape[1] + begin
    if outside:
        for w in range(n_words):
            known = keys_between(values, at + LANES * w, -np.inf, np.inf)
            words[w] &= known & ~keys_between(values, at + LANES * w, low, high)
    else:
        for w in range(n_words):
            words[w] &= keys_between(values, at + LANES * w, low, high)


@kernel
def scan(n_contexts: Any, asked: Any, values: Any, out: Any) -> Any:
    """The contexts within all intervals of one alternative at least, ascending; how many.

    Cost: what reading the columns costs. `out` has ``ROOM`` beyond the number of contexts.
    """
    starts = array_at(asked, STARTS, np.int32)
    slots = array_at(asked, SLOTS, np.int32)
    lows = array_at(asked, LOWS, np.float64)
    highs = array_at(asked, HIGHS, np.float64)
    outside = array_at(asked, OUTSIDE, np.bool_)
    mine, either = np.empty(WORDS, np.uint64), np.empty(WORDS, np.uint64)
    numbers = np.empty(WORDS * LANES, np.int32)
    n = 0
    whole = n_contexts // LANES
    for first in range(0, whole, WORDS):
        n_words = min(WORDS, whole - first)
        begin = first * LANES
        either[:] = np.uint64(0)
        for a in range(starts.shape[0] - 1):
            mine[:] = ~np.uint64(0)
            for k in range(starts[a], starts[a + 1]):
                _narrow(mine, n_words, begin, slots[k], lows[k], highs[k], outside[k], values)
            for w in range(n_words):
                either[w] |= mine[w]
        for i in range(n_words * LANES):
            numbers[i] = begin + i
        for w in range(n_words):
            n = gather(numbers, LANES * w, either[w], out, n)
    for context in range(whole * LANES, n_contexts):
        for a in range(starts.shape[0] - 1):
            if passes(context, starts[a], starts[a + 1], slots, lows, highs, outside, values):
                out[n] = context
                n += 1
                break
    return n


@kernel
def order(rows: Any, n_contexts: Any, words: Any, out: Any) -> Any:
    """Rows in ascending order, each once; how many. `words`, a bit a context, are clear again.

    Cost: a few operations for each row and for each 64 contexts, which is less than to sort where
    rows are many. `rows` may be the beginning of `out`, which has ``ROOM`` beyond.
    """
    for i in range(rows.shape[0]):
        row = rows[i]
        words[row >> 6] |= np.uint64(1) << np.uint64(row & 63)
    n = 0
    for w in range((n_contexts + LANES - 1) // LANES):
        left, base = words[w], LANES * w
        words[w] = np.uint64(0)
        end = n + count_bits(left)
        for i in range(FEW_BITS):
            out[n + i] = base + lowest_bit(left | TOP)
            left &= left - np.uint64(1)
        n += FEW_BITS
        while n < end:
            out[n] = base + lowest_bit(left)
            left &= left - np.uint64(1)
            n += 1
        n = end
    return n
