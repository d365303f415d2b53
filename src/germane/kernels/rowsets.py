"""Many small sets of rows in one int32 pool.

A block is a run of 2**c cells of the pool; freed blocks of one class c form a chain through their
first cell, so the cells ever taken for a class are the most that were in use at one time. ``free``
holds the first untouched cell, then the head of each class's chain (-1: none).

A set is one line of an int32 table, in the columns BLOCK, SIZE and CLASS (-1: no block). Up to
2**LIST_CLASS rows it is a packed list; above, an open-addressed hash table, at most three quarters
full and, while a smaller block is to be had, at least one fifth. Adding, finding and removing a
row are O(1) expected without any pointer from the row back to the set, and reading a set of m rows
is one pass over at most 5m neighbouring cells.

Functions that may need more cells return the pool, which may be a new array.
"""

import numpy as np
from numpy.typing import NDArray

from germane.kernels.compile import kernel

LINK, BLOCK, SIZE, CLASS = 0, 1, 2, 3  # columns of a table of sets; LINK is the table owner's
LIST_CLASS = 3
N_CLASSES = 31
VACANT = -1


def no_blocks() -> NDArray[np.int64]:
    """The ``free`` array of an empty pool."""
    free = np.full(1 + N_CLASSES, -1, np.int64)
    free[0] = 0
    return free


@kernel
def take_block(
    pool: NDArray[np.int32], free: NDArray[np.int64], c: int
) -> tuple[NDArray[np.int32], int]:
    """A block of class c: a freed one, else untouched cells, else those of a larger pool."""
    start = int(free[1 + c])
    if start >= 0:
        free[1 + c] = pool[start]
        return pool, start
    start = int(free[0])
    stop = start + (1 << c)
    if stop > len(pool):
        grown = np.empty(stop + (stop >> 1), np.int32)
        for i in range(start):
            grown[i] = pool[i]
        pool = grown
    free[0] = stop
    return pool, start


@kernel
def give_block(pool: NDArray[np.int32], free: NDArray[np.int64], c: int, start: int) -> None:
    """Chain a block that is no longer used."""
    pool[start] = free[1 + c]
    free[1 + c] = start


@kernel
def home(row: int, c: int) -> int:
    """Where a row belongs in a hash table of 2**c cells (Fibonacci hashing)."""
    return ((row * 2654435769) & 0xFFFFFFFF) >> (32 - c)


@kernel
def place(pool: NDArray[np.int32], start: int, c: int, row: int) -> None:
    """Put an absent row into a hash table that has room."""
    mask = (1 << c) - 1
    at = home(row, c)
    while pool[start + at] != VACANT:
        at = (at + 1) & mask
    pool[start + at] = row


@kernel
def refill(pool: NDArray[np.int32], old: int, old_c: int, size: int, new: int, c: int) -> None:
    """Copy a set's rows from its old block into a new one of class c."""
    if c > LIST_CLASS:
        for i in range(new, new + (1 << c)):
            pool[i] = VACANT
    if old_c < 0:
        return
    at = old
    for n in range(size):
        if old_c > LIST_CLASS:
            while pool[at] == VACANT:
                at += 1
        row = int(pool[at])
        at += 1
        if c > LIST_CLASS:
            place(pool, new, c, row)
        else:
            pool[new + n] = row


@kernel
def resize(
    sets: NDArray[np.int32], pool: NDArray[np.int32], free: NDArray[np.int64], e: int, c: int
) -> NDArray[np.int32]:
    """Move set e to a block of class c."""
    old, old_c = int(sets[e, BLOCK]), int(sets[e, CLASS])
    pool, new = take_block(pool, free, c)
    refill(pool, old, old_c, int(sets[e, SIZE]), new, c)
    if old_c >= 0:
        give_block(pool, free, old_c, old)
    sets[e, BLOCK] = new
    sets[e, CLASS] = c
    return pool


@kernel
def add(
    sets: NDArray[np.int32], pool: NDArray[np.int32], free: NDArray[np.int64], e: int, row: int
) -> NDArray[np.int32]:
    """Add an absent row to set e."""
    c, size = int(sets[e, CLASS]), int(sets[e, SIZE])
    if c <= LIST_CLASS:
        if c < 0 or size == 1 << c:
            pool = resize(sets, pool, free, e, c + 1)
    elif 4 * (size + 1) > 3 << c:
        pool = resize(sets, pool, free, e, c + 1)
    c = int(sets[e, CLASS])
    if c <= LIST_CLASS:
        pool[sets[e, BLOCK] + size] = row
    else:
        place(pool, int(sets[e, BLOCK]), c, row)
    sets[e, SIZE] = size + 1
    return pool


@kernel
def reserve(
    sets: NDArray[np.int32], pool: NDArray[np.int32], free: NDArray[np.int64], e: int, n: int
) -> NDArray[np.int32]:
    """Make room in set e for n more rows."""
    size, c = int(sets[e, SIZE]) + n, 0
    while size > 1 << c or (c > LIST_CLASS and 4 * size > 3 << c):
        c += 1
    if c > sets[e, CLASS]:
        pool = resize(sets, pool, free, e, c)
    return pool


@kernel
def first_fault(
    table: NDArray[np.int32],
    rows: NDArray[np.int32],
    lows: NDArray[np.float64],
    highs: NDArray[np.float64],
) -> tuple[int, int]:
    """The first entry that a table of rows rejects and why: row UNKNOWN (-2), or NaN (1)."""
    for i in range(len(rows)):
        if rows[i] < 0 or rows[i] >= len(table) or table[rows[i], 0] == -2:
            return i, -2
        if not (lows[i] <= highs[i] or lows[i] > highs[i]):
            return i, 1
    return -1, 0


@kernel
def close_gap(pool: NDArray[np.int32], start: int, c: int, gap: int) -> None:
    """Vacate one cell of a hash table, moving later rows of its run back (no tombstones)."""
    mask = (1 << c) - 1
    at = gap
    while True:
        at = (at + 1) & mask
        row = int(pool[start + at])
        if row == VACANT:
            break
        if ((at - home(row, c)) & mask) >= ((at - gap) & mask):
            pool[start + gap] = row
            gap = at
    pool[start + gap] = VACANT


@kernel
def discard(
    sets: NDArray[np.int32], pool: NDArray[np.int32], free: NDArray[np.int64], e: int, row: int
) -> None:
    """Remove a present row from set e; take a smaller block if that needs no larger pool."""
    c, start, size = int(sets[e, CLASS]), int(sets[e, BLOCK]), int(sets[e, SIZE]) - 1
    if c <= LIST_CLASS:
        at = start
        while pool[at] != row:
            at += 1
        pool[at] = pool[start + size]
    else:
        at = home(row, c)
        while pool[start + at] != row:
            at = (at + 1) & ((1 << c) - 1)
        close_gap(pool, start, c, at)
    sets[e, SIZE] = size
    if size == 0:
        give_block(pool, free, c, start)
        sets[e, CLASS] = -1
    elif 5 * size < 1 << c and (free[c] >= 0 or free[0] + (1 << (c - 1)) <= len(pool)):
        resize(sets, pool, free, e, c - 1)


@kernel
def read(
    sets: NDArray[np.int32], pool: NDArray[np.int32], e: int, out: NDArray[np.int32], n: int
) -> int:
    """Write the rows of set e to out[n:]; return the new n. Touches no cell of out beyond it."""
    size = int(sets[e, SIZE])
    start = int(sets[e, BLOCK])
    stop = n + size
    if sets[e, CLASS] <= LIST_CLASS:
        for i in range(size):
            out[n + i] = pool[start + i]
        return stop
    at = start
    while n < stop:
        row = pool[at]
        out[n] = row
        n += int(row >= 0)
        at += 1
    return n


@kernel
def mark(rows: NDArray[np.int32], bits: NDArray[np.uint64]) -> None:
    """Set the bits of rows."""
    for i in range(len(rows)):
        bits[rows[i] >> 6] |= np.uint64(1) << np.uint64(rows[i] & 63)
