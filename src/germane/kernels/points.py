"""Contexts by value, in buckets: which of them may be within an interval.

Bucket b has the contexts whose key is in [bounds[b], bounds[b + 1]), or had been: a list may name
contexts that have left it, which ``bucket`` tells, and never lacks one that is there.
"""

from typing import Any

import numpy as np

from germane.kernels.compile import inlined, kernel

NOWHERE = -1
STRETCH = 4096


@inlined
def bucket_of(key: Any, bounds: Any) -> Any:
    """The bucket of a key; NOWHERE for NULL."""
    if key != key:
        return NOWHERE
    low, high = 0, bounds.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if bounds[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return max(low - 1, 0)


@kernel
def place(values: Any, bounds: Any, bucket: Any, at: Any, count: Any, room: Any, pool: Any) -> None:
    """Build all lists, with some room in each."""
    n = values.shape[0]
    count[:] = 0
    for i in range(n):
        bucket[i] = bucket_of(values[i], bounds)
        if bucket[i] != NOWHERE:
            count[bucket[i]] += 1
    used = np.int64(0)
    for b in range(count.shape[0]):
        at[b] = used
        room[b] = count[b] + (count[b] >> 2) + 4
        used += room[b]
    count[:] = 0
    for i in range(n):
        b = bucket[i]
        if b != NOWHERE:
            pool[at[b] + count[b]] = i
            count[b] += 1


@kernel
def move(
    contexts: Any, values: Any, bounds: Any, bucket: Any, at: Any, count: Any, room: Any, pool: Any
) -> Any:
    """Contexts have other values; False where a list is full, and all is to be built anew."""
    for i in range(contexts.shape[0]):
        context = contexts[i]
        b = bucket_of(values[context], bounds)
        if b == bucket[context]:
            continue
        bucket[context] = b
        if b != NOWHERE:
            if count[b] == room[b]:
                # Those that have left make room.
                kept = 0
                for k in range(at[b], at[b] + count[b]):
                    if bucket[pool[k]] == b and pool[k] != context:
                        pool[at[b] + kept] = pool[k]
                        kept += 1
                count[b] = kept
                if 4 * kept > 3 * room[b]:
                    return False
            pool[at[b] + count[b]] = context
            count[b] += 1
    return True


@kernel
def named(low: Any, high: Any, bounds: Any, count: Any) -> Any:
    """How many entries the lists of an interval have."""
    total = np.int64(0)
    for b in range(bucket_of(low, bounds), bucket_of(high, bounds) + 1):
        total += count[b]
    return total


@inlined
def passes(context: Any, slots: Any, lows: Any, highs: Any, values: Any) -> Any:
    """Whether a context's values are within intervals; NULL never is."""
    for k in range(slots.shape[0]):
        value = values[slots[k], context]
        if not (lows[k] <= value and value <= highs[k]):
            return False
    return True


@kernel
def collect(
    low: Any, high: Any, bounds: Any, at: Any, count: Any, pool: Any, slots: Any, lows: Any,
    highs: Any, values: Any, seen: Any, out: Any, n: Any,
) -> Any:  # fmt: skip
    """Append contexts within intervals, looked up by one of them; how many there are then.

    Those that are ``seen`` are left out.
    """
    for b in range(bucket_of(low, bounds), bucket_of(high, bounds) + 1):
        for k in range(at[b], at[b] + count[b]):
            context = pool[k]
            if not seen[context] and passes(context, slots, lows, highs, values):
                seen[context] = True
                out[n] = context
                n += 1
    return n


@kernel
def scan(
    n_contexts: Any, slots: Any, lows: Any, highs: Any, values: Any, seen: Any, out: Any, n: Any
) -> Any:
    """As ``collect``, by a look at everybody: a stretch of each column after the other."""
    mask = np.empty(STRETCH, np.uint8)
    for begin in range(0, n_contexts, STRETCH):
        size = min(STRETCH, n_contexts - begin)
        for i in range(size):
            mask[i] = not seen[begin + i]
        for k in range(slots.shape[0]):
            column = values[slots[k]]
            low, high = lows[k], highs[k]
            for i in range(size):
                value = column[begin + i]
                mask[i] &= (low <= value) & (value <= high)
        for i in range(size):
            out[n] = begin + i
            n += mask[i]
    for i in range(n):
        seen[out[i]] = True
    return n
