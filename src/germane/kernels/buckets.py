"""Contexts by value, in buckets: where each one is listed, and what a change of values moves.

An index is over one slot, or over two that are a location. The first slot is cut into strips (one
strip, where there is one slot), a strip along the second into buckets. A bucket's list has all
contexts that are in it, each once: a context knows its bucket and its place in the list, so that it
leaves by the last one's taking its place. Lists lie in a pool, each with room; one that is full
moves to the end.
"""

from typing import Any

import numpy as np

from germane.kernels.compile import inlined, kernel
from germane.kernels.layout import Field

NOWHERE = -1
AT_ONCE = 256
"""Contexts whose buckets are searched together."""
STRIPS, FIRSTS, BOUNDS, LISTS, WHERE, POOL, USED, N_ARRAYS = range(8)
LAYOUT = tuple(
    Field(name, np.dtype(dtype), n)
    for name, dtype, n in (
        ("strips", np.float64, 1), ("firsts", np.int64, 1), ("bounds", np.float64, 1),
        ("lists", np.int64, 2), ("where", np.int32, 2), ("pool", np.int32, 1),
        ("used", np.int64, 1),
    )
)  # fmt: skip
"""The arrays of an index: strips' lower ends, where each one's buckets begin, buckets' lower ends
(the first bucket of a strip and the first strip take everything below, too), each bucket's list,
each context's bucket and place in the list, the pool, how much of it is used."""
AT, COUNT, LIMIT, N_OF_LIST = 0, 1, 2, 4
"""Of a list: where it is in the pool, how long, how long it may be; four, so that one cache line
has all of it."""
BUCKET, PLACE = 0, 1


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


@inlined
def _search(keys: Any, n_keys: Any, bounds: Any, at: Any, sizes: Any, most: Any) -> None:
    """``place_among`` for many keys, each among `sizes` bounds from `at` on; `at` is the answer.

    Step by step for all of them: their reads are on the way together, none waits for another's.
    """
    while most > 1:
        for i in range(n_keys):
            half = sizes[i] >> 1
            at[i] += half if bounds[at[i] + half] <= keys[i] else 0
            sizes[i] -= half
        most -= most >> 1


@inlined
def _buckets_of(
    contexts: Any, begin: Any, n: Any, ones: Any, twos: Any, strips: Any, firsts: Any, bounds: Any,
    keys: Any, at: Any, sizes: Any,
) -> None:  # fmt: skip
    """The buckets of n contexts from `begin` on, in `at`."""
    n_strips = strips.shape[0]
    at[:n] = 0
    most = bounds.shape[0]
    if n_strips > 1:
        for i in range(n):
            keys[i] = ones[contexts[begin + i]]
        sizes[:n] = n_strips
        _search(keys, n, strips, at, sizes, n_strips)
        most = 0
    for i in range(n):
        strip = at[i]
        at[i], sizes[i] = firsts[strip], firsts[strip + 1] - firsts[strip]
        most = max(most, sizes[i])
        keys[i] = twos[contexts[begin + i]]
    _search(keys, n, bounds, at, sizes, most)
    for i in range(n):
        one = ones[contexts[begin + i]]
        if one != one or keys[i] != keys[i]:
            at[i] = NOWHERE


@kernel
def place(
    ones: Any, twos: Any, strips: Any, firsts: Any, bounds: Any, lists: Any, where: Any, pool: Any,
    used: Any,
) -> None:  # fmt: skip
    """Build all lists, with some room in each; the pool has room for all that."""
    n = ones.shape[0]
    lists[:] = 0
    for i in range(n):
        b = bucket_of(ones[i], twos[i], strips, firsts, bounds)
        where[i, BUCKET] = b
        if b != NOWHERE:
            lists[b, COUNT] += 1
    used[0] = 0
    for b in range(lists.shape[0]):
        lists[b, AT] = used[0]
        lists[b, LIMIT] = lists[b, COUNT] + (lists[b, COUNT] >> 1) + 4
        lists[b, COUNT] = 0
        used[0] += lists[b, LIMIT]
    for i in range(n):
        b = where[i, BUCKET]
        if b != NOWHERE:
            where[i, PLACE] = lists[b, COUNT]
            pool[lists[b, AT] + lists[b, COUNT]] = i
            lists[b, COUNT] += 1


@inlined
def _leave(context: Any, b: Any, lists: Any, where: Any, pool: Any) -> None:
    """Take a context out of its list: the last of it takes its place."""
    at, last = lists[b, AT], lists[b, COUNT] - 1
    other, here = pool[at + last], where[context, PLACE]
    pool[at + here] = other
    where[other, PLACE] = here
    lists[b, COUNT] = last


@inlined
def _enlarge(b: Any, lists: Any, pool: Any, used: Any) -> Any:
    """Move a list to the end of the pool, with as much room again; False if that is full."""
    at, count = lists[b, AT], lists[b, COUNT]
    wanted = 2 * count + 4
    if used[0] + wanted > pool.shape[0]:
        return False
    for k in range(count):
        pool[used[0] + k] = pool[at + k]
    lists[b, AT], lists[b, LIMIT] = used[0], wanted
    used[0] += wanted
    return True


@kernel
def move(
    contexts: Any, ones: Any, twos: Any, strips: Any, firsts: Any, bounds: Any, lists: Any,
    where: Any, pool: Any, used: Any,
) -> Any:  # fmt: skip
    """Contexts have other values; False where the pool is full, and all is to be built anew."""
    keys = np.empty(AT_ONCE, np.float64)
    buckets, sizes = np.empty(AT_ONCE, np.int64), np.empty(AT_ONCE, np.int64)
    for begin in range(0, contexts.shape[0], AT_ONCE):
        n = min(AT_ONCE, contexts.shape[0] - begin)
        _buckets_of(
            contexts, begin, n, ones, twos, strips, firsts, bounds, keys, buckets, sizes
        )  # fmt: skip
        for i in range(n):
            context, b = contexts[begin + i], buckets[i]
            before = where[context, BUCKET]
            if b == before:
                continue
            if before != NOWHERE:
                _leave(context, before, lists, where, pool)
            where[context, BUCKET] = b
            if b == NOWHERE:
                continue
            if lists[b, COUNT] == lists[b, LIMIT] and not _enlarge(b, lists, pool, used):
                return False
            where[context, PLACE] = lists[b, COUNT]
            pool[lists[b, AT] + lists[b, COUNT]] = context
            lists[b, COUNT] += 1
    return True
