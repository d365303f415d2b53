"""Who is within the intervals of an address: by indexes of contexts, and by programs.

In: what an address asks (``ASKED``), and the indexes of ``kernels.buckets``. Out: rows of contexts.
A box looks at the lists of the buckets that it meets, no further than is worth it.
"""

from typing import Any

import numpy as np

from germane.kernels.buckets import (
    AT,
    BOUNDS,
    COUNT,
    FIRSTS,
    LISTS,
    N_ARRAYS,
    NOWHERE,
    POOL,
    STRIPS,
    place_among,
)
from germane.kernels.bundle import array_at, matrix_at
from germane.kernels.compile import inlined, kernel
from germane.kernels.conjunctions import UNSEEN, run
from germane.kernels.layout import Field

MEMORY_BITS = 12
"""Verdicts on so many bits of values are remembered."""
(STARTS, SLOTS, LOWS, HIGHS, OUTSIDE, BOX_STARTS, BOX_INDEXES, BOXES) = range(8)
ASKED = tuple(
    Field(name, np.dtype(dtype), n)
    for name, dtype, n in (
        ("starts", np.int32, 1), ("slots", np.int32, 1), ("lows", np.float64, 1),
        ("highs", np.float64, 1), ("outside", np.bool_, 1), ("box_starts", np.int32, 1),
        ("box_indexes", np.int32, 1), ("boxes", np.float64, 2),
    )
)  # fmt: skip
"""The arrays of alternatives: a has the intervals starts[a] : starts[a + 1], of slots, with lows,
highs and whether outside is meant, and the boxes box_starts[a] : box_starts[a + 1], each with the
number of an index."""


@inlined
def passes(
    context: Any, first: Any, end: Any, slots: Any, lows: Any, highs: Any, outside: Any, values: Any
) -> Any:
    """Whether a context's values are within intervals, or outside; NULL is neither."""
    for k in range(first, end):
        value = values[slots[k], context]
        if outside[k]:
            if not (value < lows[k] or value > highs[k]):
                return False
        elif not (lows[k] <= value and value <= highs[k]):
            return False
    return True


@inlined
def _buckets(box: Any, strip: Any, firsts: Any, bounds: Any) -> Any:
    """The buckets of a strip that a box meets: first and last."""
    begin, end = firsts[strip], firsts[strip + 1]
    return place_among(box[2], bounds, begin, end), place_among(box[3], bounds, begin, end)


@inlined
def _strips(box: Any, strips: Any) -> Any:
    """The strips that a box meets: first and last."""
    n = strips.shape[0]
    if n == 1:
        return 0, 0
    return place_among(box[0], strips, 0, n), place_among(box[1], strips, 0, n)


@kernel
def named(box: Any, index: Any, indexes: Any, limit: Any) -> Any:
    """How many contexts the lists have that a box meets; not counted further than a limit."""
    strips = array_at(indexes, index * N_ARRAYS + STRIPS, np.float64)
    firsts = array_at(indexes, index * N_ARRAYS + FIRSTS, np.int64)
    bounds = array_at(indexes, index * N_ARRAYS + BOUNDS, np.float64)
    lists = matrix_at(indexes, index * N_ARRAYS + LISTS, np.int64)
    total = np.int64(0)
    first, last = _strips(box, strips)
    for strip in range(first, last + 1):
        begin, end = _buckets(box, strip, firsts, bounds)
        for b in range(begin, end + 1):
            total += lists[b, COUNT]
            if total > limit:
                return total
    return total


@kernel
def collect(
    box: Any, index: Any, indexes: Any, begin_at: Any, end_at: Any, slots: Any, lows: Any,
    highs: Any, outside: Any, values: Any, out: Any, n: Any,
) -> Any:  # fmt: skip
    """Contexts within intervals, looked up by a box, behind the first n of `out`; how many then."""
    strips = array_at(indexes, index * N_ARRAYS + STRIPS, np.float64)
    firsts = array_at(indexes, index * N_ARRAYS + FIRSTS, np.int64)
    bounds = array_at(indexes, index * N_ARRAYS + BOUNDS, np.float64)
    lists = matrix_at(indexes, index * N_ARRAYS + LISTS, np.int64)
    pool = array_at(indexes, index * N_ARRAYS + POOL, np.int32)
    first, last = _strips(box, strips)
    for strip in range(first, last + 1):
        begin, end = _buckets(box, strip, firsts, bounds)
        for b in range(begin, end + 1):
            at = lists[b, AT]
            for k in range(at, at + lists[b, COUNT]):
                context = pool[k]
                out[n] = context
                n += passes(context, begin_at, end_at, slots, lows, highs, outside, values)
    return n


@kernel
def look_up(limit: Any, asked: Any, indexes: Any, values: Any, out: Any, use: Any) -> Any:
    """The contexts of all alternatives, one behind the other, by their best indexes; how many.

    NOWHERE if the lists that would have to be looked at have more than `limit` entries. Without
    `use`, it is only told whether they have.
    """
    starts = array_at(asked, STARTS, np.int32)
    slots = array_at(asked, SLOTS, np.int32)
    lows = array_at(asked, LOWS, np.float64)
    highs = array_at(asked, HIGHS, np.float64)
    outside = array_at(asked, OUTSIDE, np.bool_)
    box_starts = array_at(asked, BOX_STARTS, np.int32)
    box_indexes = array_at(asked, BOX_INDEXES, np.int32)
    boxes = matrix_at(asked, BOXES, np.float64)
    n_alternatives = starts.shape[0] - 1
    chosen = np.empty(n_alternatives, np.int64)
    left = limit
    for a in range(n_alternatives):
        best = left + 1
        for k in range(box_starts[a], box_starts[a + 1]):
            cost = named(boxes[k], box_indexes[k], indexes, best)
            if cost < best:
                best, chosen[a] = cost, k
        left -= best
        if left < 0:
            return NOWHERE
    n = 0
    for a in range(n_alternatives if use else 0):
        k = chosen[a]
        n = collect(
            boxes[k], box_indexes[k], indexes, starts[a], starts[a + 1], slots, lows, highs,
            outside, values, out, n,
        )  # fmt: skip
    return n


@kernel
def first_ones(rows: Any, words: Any) -> Any:
    """Move the first of equal rows to the front; how many they are.

    `words`, a bit a context, are clear again.
    """
    n = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        bit = np.uint64(1) << np.uint64(row & 63)
        if not words[row >> 6] & bit:
            words[row >> 6] |= bit
            rows[n] = row
            n += 1
    for i in range(n):
        words[rows[i] >> 6] = np.uint64(0)
    return n


@inlined
def _remembered_at(key: Any) -> Any:
    """Where a key's verdict is remembered, if it is."""
    x = np.uint64(np.int64(key)) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(x >> np.uint64(64 - MEMORY_BITS))


@kernel
def sift(
    contexts: Any, slot: Any, keys: Any, verdicts: Any, n_code: Any, rows: Any, owner: Any,
    code: Any, pool: Any, values: Any, truth: Any, cache: Any, wanted: Any, stack: Any,
    graphs: Any, out: Any, n: Any, waiting: Any,
) -> Any:  # fmt: skip
    """Contexts for which a program is TRUE, behind the first n of `out`; how many then, and wait.

    Where it reads one slot only, verdicts on its values are remembered in `keys` and `verdicts`:
    words and categories are few. `rows` and `owner` have one entry, which stands for each context
    in turn.
    """
    n_waiting = 0
    for i in range(contexts.shape[0]):
        context = contexts[i]
        key = values[slot, context] if slot >= 0 else np.nan
        place = 0
        if key == key:
            place = _remembered_at(key)
            if keys[place] == key:
                out[n] = context
                n += verdicts[place]
                continue
        owner[0] = context
        outcome = run(
            0, n_code, 0, values[0], rows, owner, code, pool, values, truth, cache, wanted, stack,
            graphs,
        )  # fmt: skip
        if outcome == UNSEEN:
            waiting[n_waiting] = context
            n_waiting += 1
            continue
        out[n] = context
        n += outcome == 1.0
        if key == key:
            keys[place], verdicts[place] = key, outcome == 1.0
    return n, n_waiting
