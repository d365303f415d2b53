"""Contexts by value, in buckets: which of them may be within an interval, or within a box.

An index is over one slot, or over two that are a location. The first slot is cut into strips (one
strip, where there is one slot), a strip along the second into buckets. A context's bucket is
``bucket[context]``; a bucket's list has all contexts that are in it, and may name some that have
left it, or some twice. Lists lie in a pool, each with room; one that is full moves to the end.
"""

from typing import Any

import numpy as np

from germane.kernels.bundle import array_at, matrix_at
from germane.kernels.compile import inlined, kernel
from germane.kernels.conjunctions import UNSEEN, run
from germane.kernels.layout import Field

NOWHERE = -1
STRETCH = 4096
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
STRIPS, FIRSTS, BOUNDS, AT, COUNT, ROOM, BUCKET, POOL, USED, N_ARRAYS = range(10)
LAYOUT = tuple(
    Field(name, np.dtype(dtype))
    for name, dtype in (
        ("strips", np.float64), ("firsts", np.int64), ("bounds", np.float64), ("at", np.int64),
        ("count", np.int64), ("room", np.int64), ("bucket", np.int32), ("pool", np.int32),
        ("used", np.int64),
    )
)  # fmt: skip
"""The arrays of an index: strips' lower ends, where each one's buckets begin, buckets' lower ends
(the first bucket of a strip and the first strip take everything below, too), then of each bucket
where its list is, how long, and how long it may be; each context's bucket; lists; how much of the
pool is used."""


@inlined
def place_among(key: Any, bounds: Any, first: Any, end: Any) -> Any:
    """The last of some bounds that is not above a key; the first if all are.

    Without branches, which nobody could predict.
    """
    at, n = first, end - first
    while n > 1:
        half = n >> 1
        at += half if bounds[at + half] <= key else 0
        n -= half
    return at


@inlined
def bucket_of(one: Any, two: Any, strips: Any, firsts: Any, bounds: Any) -> Any:
    """The bucket of two keys; NOWHERE for NULL."""
    if one != one or two != two:
        return NOWHERE
    strip = 0
    if strips.shape[0] > 1:
        strip = place_among(one, strips, 0, strips.shape[0])
    return place_among(two, bounds, firsts[strip], firsts[strip + 1])


@kernel
def place(
    ones: Any, twos: Any, strips: Any, firsts: Any, bounds: Any, at: Any, count: Any, room: Any,
    bucket: Any, pool: Any, used: Any,
) -> None:  # fmt: skip
    """Build all lists, with some room in each; the pool has room for all that."""
    n = ones.shape[0]
    count[:] = 0
    for i in range(n):
        bucket[i] = bucket_of(ones[i], twos[i], strips, firsts, bounds)
        if bucket[i] != NOWHERE:
            count[bucket[i]] += 1
    used[0] = 0
    for b in range(count.shape[0]):
        at[b] = used[0]
        room[b] = count[b] + (count[b] >> 1) + 4
        used[0] += room[b]
    count[:] = 0
    for i in range(n):
        b = bucket[i]
        if b != NOWHERE:
            pool[at[b] + count[b]] = i
            count[b] += 1


@kernel
def move(
    contexts: Any, ones: Any, twos: Any, strips: Any, firsts: Any, bounds: Any, at: Any,
    count: Any, room: Any, bucket: Any, pool: Any, used: Any,
) -> Any:  # fmt: skip
    """Contexts have other values; False where the pool is full, and all is to be built anew."""
    for i in range(contexts.shape[0]):
        context = contexts[i]
        b = bucket_of(ones[context], twos[context], strips, firsts, bounds)
        if b == bucket[context]:
            continue
        bucket[context] = b
        if b == NOWHERE:
            continue
        if count[b] == room[b]:
            # Those that have left make room, and so do those who are named twice.
            kept = 0
            for k in range(at[b], at[b] + count[b]):
                other = pool[k]
                if bucket[other] == b and other != context:
                    bucket[other] = ~b
                    pool[at[b] + kept] = other
                    kept += 1
            for k in range(at[b], at[b] + kept):
                bucket[pool[k]] = b
            count[b] = kept
            if 4 * kept > 3 * room[b]:
                wanted = 2 * kept + 4
                if used[0] + wanted > pool.shape[0]:
                    return False
                for k in range(kept):
                    pool[used[0] + k] = pool[at[b] + k]
                at[b], room[b] = used[0], wanted
                used[0] += wanted
        pool[at[b] + count[b]] = context
        count[b] += 1
    return True


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
    """How many entries the lists have that a box meets; not counted further than a limit."""
    strips = array_at(indexes, index * N_ARRAYS + STRIPS, np.float64)
    firsts = array_at(indexes, index * N_ARRAYS + FIRSTS, np.int64)
    bounds = array_at(indexes, index * N_ARRAYS + BOUNDS, np.float64)
    count = array_at(indexes, index * N_ARRAYS + COUNT, np.int64)
    total = np.int64(0)
    first, last = _strips(box, strips)
    for strip in range(first, last + 1):
        begin, end = _buckets(box, strip, firsts, bounds)
        for b in range(begin, end + 1):
            total += count[b]
        if total > limit:
            break
    return total


@kernel
def collect(
    box: Any, index: Any, indexes: Any, begin_at: Any, end_at: Any, slots: Any, lows: Any,
    highs: Any, outside: Any, values: Any, out: Any, n: Any,
) -> Any:  # fmt: skip
    """Contexts within intervals, looked up by a box, behind the first n of `out`; how many then.

    Where a list names a context twice, the first time counts: it is marked as gone meanwhile.
    """
    strips = array_at(indexes, index * N_ARRAYS + STRIPS, np.float64)
    firsts = array_at(indexes, index * N_ARRAYS + FIRSTS, np.int64)
    bounds = array_at(indexes, index * N_ARRAYS + BOUNDS, np.float64)
    at = array_at(indexes, index * N_ARRAYS + AT, np.int64)
    count = array_at(indexes, index * N_ARRAYS + COUNT, np.int64)
    bucket = array_at(indexes, index * N_ARRAYS + BUCKET, np.int32)
    pool = array_at(indexes, index * N_ARRAYS + POOL, np.int32)
    first, last = _strips(box, strips)
    for strip in range(first, last + 1):
        begin, end = _buckets(box, strip, firsts, bounds)
        for b in range(begin, end + 1):
            before = n
            for k in range(at[b], at[b] + count[b]):
                context = pool[k]
                if bucket[context] == b and passes(
                    context, begin_at, end_at, slots, lows, highs, outside, values
                ):
                    bucket[context] = ~b
                    out[n] = context
                    n += 1
            for i in range(before, n):
                bucket[out[i]] = b
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
def scan(n_contexts: Any, asked: Any, values: Any, out: Any) -> Any:
    """The contexts within all intervals of one alternative at least, ascending; how many.

    Everybody is looked at: a stretch of each column after the other.
    """
    starts = array_at(asked, STARTS, np.int32)
    slots = array_at(asked, SLOTS, np.int32)
    lows = array_at(asked, LOWS, np.float64)
    highs = array_at(asked, HIGHS, np.float64)
    outside = array_at(asked, OUTSIDE, np.bool_)
    mask = np.empty(STRETCH, np.uint8)
    either = np.empty(STRETCH, np.uint8)
    words = either.view(np.uint64)
    n = 0
    for begin in range(0, n_contexts, STRETCH):
        size = min(STRETCH, n_contexts - begin)
        either[:] = 0
        for a in range(starts.shape[0] - 1):
            mask[:size] = 1
            for k in range(starts[a], starts[a + 1]):
                column = values[slots[k], begin : begin + size]
                low, high = lows[k], highs[k]
                if outside[k]:
                    for i in range(size):
                        mask[i] &= (column[i] < low) | (column[i] > high)
                else:
                    for i in range(size):
                        mask[i] &= (low <= column[i]) & (column[i] <= high)
            for i in range(size):
                either[i] |= mask[i]
        for w in range((size + 7) >> 3):
            if words[w]:
                for i in range(8 * w, min(8 * w + 8, size)):
                    out[n] = begin + i
                    n += either[i]
    return n


@kernel
def first_ones(rows: Any, seen: Any) -> Any:
    """Move the first of equal rows to the front; how many they are. `seen` is clear again."""
    n = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        if not seen[row]:
            seen[row] = True
            rows[n] = row
            n += 1
    for i in range(n):
        seen[rows[i]] = False
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
