"""The interval skip list on flat arrays: nodes, edges, and the rows marked on them.

Node x has a key, a height h and h + 1 neighbouring slots. Slot l < h is the edge to the next node
taller than l, with the set of rows marked on it; slot h is the set of rows whose K ends at x. Node
HEAD (-inf) and node TAIL (+inf) are the only ones of full height, so the topmost edge is the whole
domain. A node lives while a K has it as an end (REFS).

Invariant. Row r with K = [a, b] is marked on exactly the edges within [a, b] that lie in no higher
edge within [a, b]. They form one path from a to b, found by taking, at each node, the highest
edge that does not pass b; so a row's marks are a function of the nodes and K, and are never stored
a second time. A key strictly inside one of these edges is found on that edge, and a key that is a
node of the path on the one marked edge that leaves it, or, at b, in the set of rows that end there.

Cost. The path climbs and descends: O(log n) edges expected. Inserting or deleting a node of height
h touches only rows marked on the h edges that it splits or joins, O(log n) expected.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.kernels.compile import kernel
from germane.kernels.rowsets import CLASS, LINK, SIZE, add, discard, mark, no_blocks, read, reserve

FULL = 28  # height of the sentinels; other nodes are lower
HEAD, TAIL = 0, 1
HEIGHT, SLOT, REFS = 0, 1, 2  # columns of nodes
LOW, HIGH, LOW_LEVEL, HIGH_LEVEL = 0, 1, 2, 3  # columns of rows
EMPTY, UNKNOWN = -1, -2  # values of rows[:, LOW] that are not nodes
AT_KEY = -3  # a target that is the node of k's own end, which may have to be made
UPDATE, UPDATE_LOCAL, ESCALATE, DEESCALATE, REMOVE = 0, 1, 2, 3, 4  # operations
N_ROWS, N_NODES, N_SLOTS, RANDOM, TOP, FREE_NODES = 0, 1, 2, 3, 4, 5  # cells of meta


class Arrays(NamedTuple):
    """All of the list but the pool of its sets, which kernels pass and return beside it."""

    keys: NDArray[np.float64]
    nodes: NDArray[np.int32]
    slots: NDArray[np.int32]
    rows: NDArray[np.int32]
    meta: NDArray[np.int64]
    free: NDArray[np.int64]


def empty_arrays(seed: int) -> Arrays:
    """A list without rows: the two sentinels and the edges between them."""
    keys = np.zeros(16, np.float64)
    nodes = np.zeros((16, 3), np.int32)
    slots = np.zeros((4 * (FULL + 1), 4), np.int32)
    slots[:, CLASS] = -1
    keys[HEAD], keys[TAIL] = -np.inf, np.inf
    nodes[HEAD], nodes[TAIL] = (FULL, 0, 1), (FULL, FULL + 1, 1)
    slots[:FULL, LINK] = TAIL
    slots[FULL : 2 * FULL + 2, LINK] = -1
    meta = np.full(FREE_NODES + FULL, -1, np.int64)
    meta[:FREE_NODES] = 0, 2, 2 * (FULL + 1), (seed * 2654435769 + 1) % 0xFFFFFFFF + 1, 1
    rows = np.full((0, 4), UNKNOWN, np.int32)
    return Arrays(keys, nodes, slots, rows, meta, no_blocks())


@kernel
def has_room(s: Arrays) -> bool:
    """Whether one more operation on one row finds its nodes (at most two) and slots."""
    return bool(
        s.meta[N_NODES] + 2 <= len(s.nodes) and s.meta[N_SLOTS] + 2 * (FULL + 1) <= len(s.slots)
    )


@kernel
def after(s: Arrays, x: int, level: int) -> int:
    """The node at the far end of an edge."""
    return int(s.slots[s.nodes[x, SLOT] + level, LINK])


@kernel
def last_below(s: Arrays, key: float, out: NDArray[np.int64]) -> None:
    """out[l] = the last node taller than l whose key is < key, else HEAD."""
    x = HEAD
    top = int(s.meta[TOP])
    for level in range(top, FULL):
        out[level] = HEAD
    for level in range(top - 1, -1, -1):
        y = after(s, x, level)
        while s.keys[y] < key:
            x = y
            y = after(s, x, level)
        out[level] = x


@kernel
def last_upto(s: Arrays, key: float, out: NDArray[np.int64]) -> None:
    """out[l] = the last node taller than l, but TAIL, whose key is <= key."""
    x = HEAD
    top = int(s.meta[TOP])
    for level in range(top, FULL):
        out[level] = HEAD
    for level in range(top - 1, -1, -1):
        y = after(s, x, level)
        while y != TAIL and s.keys[y] <= key:
            x = y
            y = after(s, x, level)
        out[level] = x


@kernel
def highest_edge(s: Arrays, x: int, b: float) -> int:
    """The slot of the highest edge that leaves x and does not pass b."""
    e = int(s.nodes[x, SLOT] + s.nodes[x, HEIGHT] - 1)
    while s.keys[s.slots[e, LINK]] > b:
        e -= 1
    return e


@kernel
def ends(s: Arrays, x: int) -> int:
    """The slot of the rows whose K ends at x."""
    return int(s.nodes[x, SLOT] + s.nodes[x, HEIGHT])


@kernel
def draw_height(s: Arrays) -> int:
    """1 + the leading zeros of a scrambled xorshift: height h with probability 2**-h."""
    x = int(s.meta[RANDOM])
    x ^= (x << 13) & 0xFFFFFFFF
    x ^= x >> 17
    x ^= (x << 5) & 0xFFFFFFFF
    s.meta[RANDOM] = x
    bits = ((x & 0x7FFFFFFF) * 2654435769) & 0xFFFFFFFF
    h = 1
    while h < FULL - 1 and bits < 0x80000000:
        bits <<= 1
        h += 1
    return h


@kernel
def new_node(s: Arrays, key: float) -> int:
    """A node of random height with its slots; a freed one of that height if there is one."""
    h = draw_height(s)
    x = int(s.meta[FREE_NODES + h])
    if x >= 0:
        s.meta[FREE_NODES + h] = after(s, x, 0)
    else:
        x = int(s.meta[N_NODES])
        s.meta[N_NODES] = x + 1
        first = int(s.meta[N_SLOTS])
        s.meta[N_SLOTS] = first + h + 1
        s.nodes[x, HEIGHT] = h
        s.nodes[x, SLOT] = first
        for e in range(first, first + h + 1):
            s.slots[e, SIZE] = 0
            s.slots[e, CLASS] = -1
    s.nodes[x, REFS] = 0
    s.keys[x] = key
    s.meta[TOP] = max(int(s.meta[TOP]), h)
    return x


@kernel
def level_in(s: Arrays, row: int, before: NDArray[np.int64], h: int) -> int:
    """The highest edge into a node of height h that is within the row's K."""
    a = s.keys[s.rows[row, LOW]]
    level = h - 1
    while s.keys[before[level]] < a:
        level -= 1
    return level


@kernel
def level_out(s: Arrays, row: int, beyond: NDArray[np.int64], h: int) -> int:
    """The highest edge out of a node of height h that is within the row's K."""
    b = s.keys[s.rows[row, HIGH]]
    level = h - 1
    while s.keys[beyond[level]] > b:
        level -= 1
    return level


@kernel
def move_marks(
    s: Arrays, pool: NDArray[np.int32], row: int, x: int, x_stop: int, y: int, y_stop: int
) -> NDArray[np.int32]:
    """From the marks of the path x..x_stop to those of y..y_stop, touching only the difference.

    A path without edges, from a node to itself, has no marks.
    """
    while x != x_stop or y != y_stop:
        if y == y_stop or (x != x_stop and s.keys[x] < s.keys[y]):
            e = highest_edge(s, x, s.keys[x_stop])
            discard(s.slots, pool, s.free, e, row)
            x = int(s.slots[e, LINK])
        elif x == x_stop or s.keys[y] < s.keys[x]:
            e = highest_edge(s, y, s.keys[y_stop])
            pool = add(s.slots, pool, s.free, e, row)
            y = int(s.slots[e, LINK])
        else:
            e = highest_edge(s, x, s.keys[x_stop])
            new = highest_edge(s, y, s.keys[y_stop])
            if e != new:
                discard(s.slots, pool, s.free, e, row)
                pool = add(s.slots, pool, s.free, new, row)
            x, y = int(s.slots[e, LINK]), int(s.slots[new, LINK])
    return pool


@kernel
def insert_node(
    s: Arrays, pool: NDArray[np.int32], key: float, before: NDArray[np.int64]
) -> tuple[NDArray[np.int32], int]:
    """Split the edges over a new key. Rows marked on them get the highest edges in and out of it.

    Differs from Hanson's adjustMarkersOnInsert: a row's K is known, so the stretch of its path
    that the new edges replace is unmarked and the two new marks placed, without promotion sets.
    """
    x = new_node(s, key)
    h, first = int(s.nodes[x, HEIGHT]), int(s.nodes[x, SLOT])
    beyond = np.empty(h, np.int64)
    n = 0
    for level in range(h):
        beyond[level] = after(s, before[level], level)
        n += int(s.slots[s.nodes[before[level], SLOT] + level, SIZE])
    split = np.empty(n, np.int32)
    n = 0
    if len(split) > 0:
        for level in range(h):
            n = read(s.slots, pool, int(s.nodes[before[level], SLOT]) + level, split, n)
        for i in range(n):
            row = int(split[i])
            start = before[level_in(s, row, before, h)]
            stop = beyond[level_out(s, row, beyond, h)]
            pool = move_marks(s, pool, row, start, stop, stop, stop)
    for level in range(h):
        s.slots[first + level, LINK] = beyond[level]
        s.slots[s.nodes[before[level], SLOT] + level, LINK] = x
    for i in range(n):
        row = int(split[i])
        level = level_in(s, row, before, h)
        e = int(s.nodes[before[level], SLOT]) + level
        pool = add(s.slots, pool, s.free, e, row)
        pool = add(s.slots, pool, s.free, first + level_out(s, row, beyond, h), row)
    return pool, x


@kernel
def delete_node(s: Arrays, pool: NDArray[np.int32], x: int) -> NDArray[np.int32]:
    """Join the edges on both sides of a node where no K ends; the inverse of insert_node."""
    h, first = int(s.nodes[x, HEIGHT]), int(s.nodes[x, SLOT])
    before = np.empty(FULL, np.int64)
    last_below(s, s.keys[x], before)
    beyond = np.empty(h, np.int64)
    n = 0
    for level in range(h):
        beyond[level] = after(s, x, level)
        n += int(s.slots[first + level, SIZE])
    joined = np.empty(n, np.int32)
    n = 0
    if len(joined) > 0:
        for level in range(h):
            n = read(s.slots, pool, first + level, joined, n)
        for i in range(n):
            row = int(joined[i])
            level = level_in(s, row, before, h)
            discard(s.slots, pool, s.free, int(s.nodes[before[level], SLOT]) + level, row)
            discard(s.slots, pool, s.free, first + level_out(s, row, beyond, h), row)
    for level in range(h):
        s.slots[s.nodes[before[level], SLOT] + level, LINK] = beyond[level]
    for i in range(n):
        row = int(joined[i])
        start = before[level_in(s, row, before, h)]
        stop = beyond[level_out(s, row, beyond, h)]
        pool = move_marks(s, pool, row, start, start, start, stop)
    s.nodes[x, REFS] = -1
    s.slots[first, LINK] = s.meta[FREE_NODES + h]
    s.meta[FREE_NODES + h] = x
    return pool


@kernel
def acquire(
    s: Arrays, pool: NDArray[np.int32], key: float, before: NDArray[np.int64]
) -> tuple[NDArray[np.int32], int]:
    """The node of a key, made if absent, with one more reference. ``before`` is scratch."""
    if key == -np.inf:
        x = HEAD
    elif key == np.inf:
        x = TAIL
    else:
        last_below(s, key, before)
        x = after(s, before[0], 0)
        if s.keys[x] != key:
            pool, x = insert_node(s, pool, key, before)
    s.nodes[x, REFS] += 1
    return pool, x


@kernel
def release(s: Arrays, pool: NDArray[np.int32], x: int) -> NDArray[np.int32]:
    """Give up one reference to a node; the last one deletes it."""
    s.nodes[x, REFS] -= 1
    if s.nodes[x, REFS] == 0:
        pool = delete_node(s, pool, x)
    return pool


@kernel
def assign(
    s: Arrays,
    pool: NDArray[np.int32],
    row: int,
    low: int,
    high: int,
    low_level: int,
    high_level: int,
) -> NDArray[np.int32]:
    """Give a row a new K between two nodes that the caller acquired (low = EMPTY: none)."""
    old_low, old_high = int(s.rows[row, LOW]), int(s.rows[row, HIGH])
    pool = move_marks(
        s, pool, row, max(old_low, HEAD), max(old_high, HEAD), max(low, HEAD), max(high, HEAD)
    )
    if old_low < 0 or low < 0 or old_high != high:
        if old_low >= 0:
            discard(s.slots, pool, s.free, ends(s, old_high), row)
        if low >= 0:
            pool = add(s.slots, pool, s.free, ends(s, high), row)
    s.rows[row, LOW] = low
    s.rows[row, HIGH] = high
    s.rows[row, LOW_LEVEL] = low_level
    s.rows[row, HIGH_LEVEL] = high_level
    if old_low >= 0:
        pool = release(s, pool, old_low)
        pool = release(s, pool, old_high)
    return pool


@kernel
def stab(s: Arrays, value: float, out: NDArray[np.int64]) -> tuple[int, int]:
    """The slots whose sets together are the rows with value in K: how many slots, how many rows."""
    n = stab_from(s, value, np.zeros(FULL + 1, np.int64), out)
    total = 0
    for i in range(n):
        total += int(s.slots[out[i], SIZE])
    return n, total


@kernel
def probe(
    s: Arrays, pool: NDArray[np.int32], value: float, out: NDArray[np.int32]
) -> tuple[NDArray[np.int32], int]:
    """The rows with value in K, in out if it is large enough, else in a new array; how many."""
    slots = np.empty(2 * FULL + 2, np.int64)
    n, total = stab(s, value, slots)
    if total > len(out):
        out = np.empty(total, np.int32)
    filled = 0
    for i in range(n):
        filled = read(s.slots, pool, slots[i], out, filled)
    return out, total


@kernel
def probe_union(
    s: Arrays, pool: NDArray[np.int32], values: NDArray[np.float64], bits: NDArray[np.uint64]
) -> None:
    """Set the bits of the rows whose K holds one of some ascending values.

    A search starts, on each level, where the last one left it; a slot that was read for an
    earlier value is not read again (Batching section 4).
    """
    slots = np.empty(2 * FULL + 2, np.int64)
    path = np.full(FULL + 1, HEAD, np.int64)
    seen = np.zeros(int(s.meta[N_SLOTS]), np.bool_)
    rows = np.empty(64, np.int32)
    for i in range(len(values)):
        n = stab_from(s, values[i], path, slots)
        for k in range(n):
            slot = slots[k]
            if seen[slot]:
                continue
            seen[slot] = True
            size = int(s.slots[slot, SIZE])
            if size > len(rows):
                rows = np.empty(2 * size, np.int32)
            read(s.slots, pool, slot, rows, 0)
            mark(rows[:size], bits)


@kernel
def stab_from(s: Arrays, value: float, path: NDArray[np.int64], out: NDArray[np.int64]) -> int:
    """The slots of a value, for values that ascend from call to call; how many.

    ``path`` is where the last search went on each level; at first HEAD everywhere.
    """
    out[0] = FULL - 1  # the whole domain, HEAD to TAIL
    n = 1
    x = HEAD
    found = HEAD if value == -np.inf else -1
    for level in range(int(s.meta[TOP]) - 1, -1, -1):
        if found >= 0:
            break
        if s.keys[path[level]] > s.keys[x] and s.keys[path[level]] < value:
            x = path[level]
        y = after(s, x, level)
        while s.keys[y] < value:
            x = y
            y = after(s, x, level)
        path[level] = x
        if s.keys[y] == value:
            found = y
        else:
            out[n] = s.nodes[x, SLOT] + level
            n += 1
    if found == HEAD or found == TAIL:
        n = 0
    if found >= 0:
        first = int(s.nodes[found, SLOT])
        for e in range(first, first + int(s.nodes[found, HEIGHT]) + 1):
            out[n] = e
            n += 1
    return n


@kernel
def acquire_sorted(
    s: Arrays,
    pool: NDArray[np.int32],
    keys: NDArray[np.float64],
    refs: NDArray[np.int64],
    nodes: NDArray[np.int32],
    start: int,
) -> tuple[NDArray[np.int32], int]:
    """The nodes of ascending keys, with so many references each. Returns where it stopped."""
    scratch = np.empty(FULL, np.int64)
    for i in range(start, len(keys)):
        if not has_room(s):
            return pool, i
        pool, x = acquire(s, pool, keys[i], scratch)
        s.nodes[x, REFS] += refs[i] - 1
        nodes[i] = x
    return pool, len(keys)


@kernel
def count_marks(s: Arrays, lows: NDArray[np.int32], highs: NDArray[np.int32]) -> NDArray[np.int32]:
    """How many marks, of new rows between these nodes, each slot will get."""
    counts = np.zeros(int(s.meta[N_SLOTS]), np.int32)
    for i in range(len(lows)):
        x, stop = int(lows[i]), int(highs[i])
        while x != stop:
            e = highest_edge(s, x, s.keys[stop])
            counts[e] += 1
            x = int(s.slots[e, LINK])
        counts[ends(s, stop)] += 1
    return counts


@kernel
def insert_between(
    s: Arrays,
    pool: NDArray[np.int32],
    rows: NDArray[np.int32],
    lows: NDArray[np.int32],
    highs: NDArray[np.int32],
    counts: NDArray[np.int32],
) -> NDArray[np.int32]:
    """K of new rows between acquired nodes; each set grows once, by its count."""
    for e in range(len(counts)):
        if counts[e] > 0:
            pool = reserve(s.slots, pool, s.free, e, int(counts[e]))
    for i in range(len(rows)):
        row, x, stop = int(rows[i]), int(lows[i]), int(highs[i])
        s.rows[row, LOW] = x
        s.rows[row, HIGH] = stop
        while x != stop:
            e = highest_edge(s, x, s.keys[stop])
            pool = add(s.slots, pool, s.free, e, row)
            x = int(s.slots[e, LINK])
        pool = add(s.slots, pool, s.free, ends(s, stop), row)
    return pool


@kernel
def local_target(
    s: Arrays, a: int, b: int, low: float, high: float, upto: NDArray[np.int64]
) -> tuple[int, int]:
    """GBU (AGILE section 4.4): an end that stays in its bottom edge stays, one that enters the
    neighbouring bottom edge takes in that edge, and one that goes further makes K = k."""
    to_a, to_b = a, b
    if s.keys[a] != low:
        last_upto(s, low, upto)
        if after(s, upto[0], 0) == a:
            to_a = upto[0]
        elif upto[0] != a:
            return AT_KEY, AT_KEY
    if s.keys[b] != high:
        last_below(s, high, upto)
        if upto[0] == b:
            to_b = after(s, b, 0)
        elif after(s, upto[0], 0) != b:
            return AT_KEY, AT_KEY
    return to_a, to_b


@kernel
def escalated_low(
    s: Arrays, a: int, low: float, level: int, found: NDArray[np.int64]
) -> tuple[int, int]:
    """The start of the lowest edge, higher than level, over the lower end of K that reaches low;
    and its level. From an empty K, of the level-1 edge over low."""
    last_upto(s, low, found)
    level += 1
    while a >= 0:
        y = after(s, found[level], level)
        if y == TAIL or s.keys[y] > s.keys[a]:
            break
        level += 1
    return found[level], level


@kernel
def escalated_high(
    s: Arrays, b: int, high: float, level: int, found: NDArray[np.int64]
) -> tuple[int, int]:
    """The mirror image of escalated_low."""
    last_below(s, high, found)
    level += 1
    while b >= 0 and found[level] != HEAD and s.keys[found[level]] >= s.keys[b]:
        level += 1
    return after(s, found[level], level), level


@kernel
def deescalated(
    s: Arrays, row: int, low: float, high: float, upto: NDArray[np.int64]
) -> tuple[int, int, int, int]:
    """Both escalated ends one level down, and on while K stays as large; at the bottom, k's end."""
    a, b = int(s.rows[row, LOW]), int(s.rows[row, HIGH])
    a_level, b_level = int(s.rows[row, LOW_LEVEL]), int(s.rows[row, HIGH_LEVEL])
    below = np.empty(FULL, np.int64)
    last_upto(s, low, upto)
    last_below(s, high, below)
    while True:
        a_level, b_level = max(a_level - 1, 0), max(b_level - 1, 0)
        to_a, to_b = AT_KEY, AT_KEY
        if a_level > 0:
            to_a = upto[a_level]
        elif s.keys[a] == low:
            to_a = a
        if b_level > 0:
            to_b = after(s, below[b_level], b_level)
        elif s.keys[b] == high:
            to_b = b
        if to_a != a or to_b != b or (a_level == 0 and b_level == 0):
            return to_a, to_b, a_level, b_level


@kernel
def target(
    s: Arrays, operation: int, row: int, low: float, high: float, scratch: NDArray[np.int64]
) -> tuple[int, int, int, int]:
    """Where an operation wants the ends of K: nodes, AT_KEY or EMPTY; and their levels."""
    a, b = int(s.rows[row, LOW]), int(s.rows[row, HIGH])
    a_level, b_level = int(s.rows[row, LOW_LEVEL]), int(s.rows[row, HIGH_LEVEL])
    covered = a >= 0 and s.keys[a] <= low and high <= s.keys[b]
    if operation == ESCALATE:
        if low > high or covered:
            return a, b, a_level, b_level
        to_a, to_b = a, b
        if a < 0 or low < s.keys[a]:
            to_a, a_level = escalated_low(s, a, low, a_level, scratch)
        if a < 0 or high > s.keys[b]:
            to_b, b_level = escalated_high(s, b, high, b_level, scratch)
        return to_a, to_b, a_level, b_level
    if operation == REMOVE or low > high:
        return EMPTY, EMPTY, 0, 0
    if operation == UPDATE_LOCAL and a >= 0:
        to_a, to_b = local_target(s, a, b, low, high, scratch)
        a_level = a_level if to_a == a else 0
        b_level = b_level if to_b == b else 0
        return to_a, to_b, a_level, b_level
    if operation == DEESCALATE and covered:
        return deescalated(s, row, low, high, scratch)
    return AT_KEY, AT_KEY, 0, 0


@kernel
def change(
    s: Arrays,
    pool: NDArray[np.int32],
    operation: int,
    rows: NDArray[np.int32],
    lows: NDArray[np.float64],
    highs: NDArray[np.float64],
    start: int,
) -> tuple[NDArray[np.int32], int, int]:
    """Give rows the K that an operation wants, one after the other.

    Returns where it stopped for want of room, and how many K changed.
    """
    scratch = np.empty(FULL, np.int64)
    changed = 0
    for i in range(start, len(rows)):
        if not has_room(s):
            return pool, i, changed
        row = int(rows[i])
        a, b, a_level, b_level = target(s, operation, row, lows[i], highs[i], scratch)
        old_a, old_b = int(s.rows[row, LOW]), int(s.rows[row, HIGH])
        same_a = a == old_a or (a == AT_KEY and old_a >= 0 and s.keys[old_a] == lows[i])
        same_b = b == old_b or (b == AT_KEY and old_b >= 0 and s.keys[old_b] == highs[i])
        if same_a and same_b:
            s.rows[row, LOW_LEVEL] = a_level
            s.rows[row, HIGH_LEVEL] = b_level
            continue
        if a >= 0:
            s.nodes[a, REFS] += 1
        elif a == AT_KEY:
            pool, a = acquire(s, pool, lows[i], scratch)
        if b >= 0:
            s.nodes[b, REFS] += 1
        elif b == AT_KEY:
            pool, b = acquire(s, pool, highs[i], scratch)
        pool = assign(s, pool, row, a, b, a_level, b_level)
        changed += 1
    return pool, len(rows), changed
