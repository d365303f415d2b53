"""A hash table from keys to lists of rows, on flat arrays.

The table is open-addressed: a cell holds the bucket of its key, or -1; keys are compared as the
bits of float64 with one zero. A bucket is a packed list of rows in a block of the pool; each row
knows its bucket and its place, so it leaves by swapping with the last. Bucket EVERYWHERE has no key
and is part of every probe. A bucket without rows leaves the table and is kept for another key.

Invariant: a row is in at most one bucket. Cost: O(1) expected per change, O(m) per probe.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.kernels.compile import kernel
from germane.kernels.rowsets import BLOCK, CLASS, LINK, SIZE, give_block, no_blocks, take_block

EVERYWHERE, EMPTY, UNKNOWN = 0, -1, -2  # values of rows[:, BUCKET] that have no key
BUCKET, PLACE = 0, 1  # columns of rows
N_ROWS, N_KEYS, N_BUCKETS, FREE_BUCKET = 0, 1, 2, 3  # cells of meta
UPDATE, ESCALATE, DEESCALATE, REMOVE = 0, 1, 2, 3  # operations


class Arrays(NamedTuple):
    """All of the index but the pool of its lists, which kernels pass and return beside it."""

    cells: NDArray[np.int32]
    keys: NDArray[np.int64]
    buckets: NDArray[np.int32]
    rows: NDArray[np.int32]
    meta: NDArray[np.int64]
    free: NDArray[np.int64]


def empty_arrays() -> Arrays:
    """An index without rows: only the bucket EVERYWHERE."""
    buckets = np.zeros((8, 4), np.int32)
    buckets[:, CLASS] = -1
    meta = np.array([0, 0, 1, -1], np.int64)
    rows = np.full((0, 2), UNKNOWN, np.int32)
    return Arrays(
        np.full(16, -1, np.int32), np.zeros(8, np.int64), buckets, rows, meta, no_blocks()
    )


@kernel
def has_room(s: Arrays) -> bool:
    """Whether the table, at most half full, and the buckets have room for one more key."""
    return bool(2 * s.meta[N_KEYS] + 2 <= len(s.cells) and s.meta[N_BUCKETS] < len(s.buckets))


@kernel
def home(key: int, mask: int) -> int:
    """The cell where a key belongs."""
    folded = (key ^ (key >> 32)) & 0xFFFFFFFF
    folded = (folded * 0x45D9F3B) & 0xFFFFFFFF
    folded = ((folded ^ (folded >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return (folded ^ (folded >> 16)) & mask


@kernel
def find(s: Arrays, key: int) -> int:
    """The cell of a key, or the vacant one where it would go."""
    mask = len(s.cells) - 1
    at = home(key, mask)
    while s.cells[at] >= 0 and s.keys[s.cells[at]] != key:
        at = (at + 1) & mask
    return at


@kernel
def rehash(s: Arrays, old: NDArray[np.int32]) -> None:
    """Enter every bucket of an old table into the vacant one of s."""
    for bucket in old:
        if bucket >= 0:
            s.cells[find(s, int(s.keys[bucket]))] = bucket


@kernel
def new_bucket(s: Arrays, key: int) -> int:
    """An empty bucket for a key that the table does not have."""
    bucket = int(s.meta[FREE_BUCKET])
    if bucket >= 0:
        s.meta[FREE_BUCKET] = s.buckets[bucket, LINK]
    else:
        bucket = int(s.meta[N_BUCKETS])
        s.meta[N_BUCKETS] = bucket + 1
    s.buckets[bucket, SIZE] = 0
    s.buckets[bucket, CLASS] = -1
    s.keys[bucket] = key
    s.meta[N_KEYS] += 1
    return bucket


@kernel
def drop_key(s: Arrays, bucket: int) -> None:
    """Take a bucket out of the table, moving later ones of its run back (no tombstones)."""
    mask = len(s.cells) - 1
    gap = find(s, int(s.keys[bucket]))
    at = gap
    while True:
        at = (at + 1) & mask
        other = s.cells[at]
        if other < 0:
            break
        if ((at - home(int(s.keys[other]), mask)) & mask) >= ((at - gap) & mask):
            s.cells[gap] = other
            gap = at
    s.cells[gap] = -1
    s.buckets[bucket, LINK] = s.meta[FREE_BUCKET]
    s.meta[FREE_BUCKET] = bucket
    s.meta[N_KEYS] -= 1


@kernel
def resize(s: Arrays, pool: NDArray[np.int32], bucket: int, c: int) -> NDArray[np.int32]:
    """Move a bucket to a block of class c."""
    old, old_c = int(s.buckets[bucket, BLOCK]), int(s.buckets[bucket, CLASS])
    pool, new = take_block(pool, s.free, c)
    if old_c >= 0:
        for i in range(s.buckets[bucket, SIZE]):
            pool[new + i] = pool[old + i]
        give_block(pool, s.free, old_c, old)
    s.buckets[bucket, BLOCK] = new
    s.buckets[bucket, CLASS] = c
    return pool


@kernel
def push(s: Arrays, pool: NDArray[np.int32], bucket: int, row: int) -> NDArray[np.int32]:
    """Append a row to a bucket."""
    size, c = int(s.buckets[bucket, SIZE]), int(s.buckets[bucket, CLASS])
    if c < 0 or size == 1 << c:
        pool = resize(s, pool, bucket, c + 1)
    pool[s.buckets[bucket, BLOCK] + size] = row
    s.buckets[bucket, SIZE] = size + 1
    s.rows[row, BUCKET] = bucket
    s.rows[row, PLACE] = size
    return pool


@kernel
def pull(s: Arrays, pool: NDArray[np.int32], row: int) -> NDArray[np.int32]:
    """Take a row out of its bucket by swapping with the last; drop the key of an empty bucket."""
    bucket, at = int(s.rows[row, BUCKET]), int(s.rows[row, PLACE])
    s.rows[row, BUCKET] = EMPTY
    if bucket < 0:
        return pool
    start, c = int(s.buckets[bucket, BLOCK]), int(s.buckets[bucket, CLASS])
    size = int(s.buckets[bucket, SIZE]) - 1
    last = int(pool[start + size])
    if last != row:
        pool[start + at] = last
        s.rows[last, PLACE] = at
    s.buckets[bucket, SIZE] = size
    if size == 0:
        give_block(pool, s.free, c, start)
        s.buckets[bucket, CLASS] = -1
        if bucket != EVERYWHERE:
            drop_key(s, bucket)
    elif c > 0 and 4 * size <= 1 << c:
        pool = resize(s, pool, bucket, c - 1)
    return pool


@kernel
def change(
    s: Arrays,
    pool: NDArray[np.int32],
    operation: int,
    rows: NDArray[np.int32],
    lows: NDArray[np.float64],
    highs: NDArray[np.float64],
    bits: NDArray[np.int64],
    start: int,
) -> tuple[NDArray[np.int32], int, int]:
    """Move rows to the list that an operation wants; bits are those of lows, with one zero.

    Returns where it stopped for want of room, and how many rows moved.
    """
    moved = 0
    for i in range(start, len(rows)):
        if not has_room(s):
            return pool, i, moved
        row = int(rows[i])
        old = int(s.rows[row, BUCKET])
        point = lows[i] == highs[i]
        at_key = old > 0 and point and s.keys[old] == bits[i]
        if operation == REMOVE or lows[i] > highs[i]:
            if old != EMPTY and operation != ESCALATE:
                pool = pull(s, pool, row)
                moved += 1
            if operation == REMOVE:
                s.rows[row, BUCKET] = UNKNOWN
        elif at_key or (old == EVERYWHERE and (operation == ESCALATE or not point)):
            continue
        else:
            pool = pull(s, pool, row)
            bucket = EVERYWHERE
            if point and operation != ESCALATE:
                at = find(s, int(bits[i]))
                if s.cells[at] < 0:
                    s.cells[at] = new_bucket(s, int(bits[i]))
                bucket = int(s.cells[at])
            pool = push(s, pool, bucket, row)
            moved += 1
    return pool, len(rows), moved


@kernel
def probe(
    s: Arrays, pool: NDArray[np.int32], key: int, out: NDArray[np.int32]
) -> tuple[NDArray[np.int32], int]:
    """The rows of a key's bucket and of EVERYWHERE, in out if it is large enough; how many."""
    bucket = int(s.cells[find(s, key)])
    total = int(s.buckets[EVERYWHERE, SIZE])
    n = int(s.buckets[bucket, SIZE]) if bucket >= 0 else 0
    if total + n > len(out):
        out = np.empty(total + n, np.int32)
    first = int(s.buckets[EVERYWHERE, BLOCK])
    for i in range(total):
        out[i] = pool[first + i]
    if bucket >= 0:
        first = int(s.buckets[bucket, BLOCK])
        for i in range(n):
            out[total + i] = pool[first + i]
    return out, total + n
