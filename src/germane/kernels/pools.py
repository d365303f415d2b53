"""``Pool``: members and groups of links in flat arrays, and how they are kept in order.

A link's received contexts are its members, each in one group. The aggregates of a link's groups of
one shape (a distinct mask) stand in one block, side by side, because they are searched together.
Members are found by link and id in a hash table; what a group was before a message is noted in
``touched``. Nothing in here decides which group a member belongs to: ``kernels.links`` does.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.kernels.aggregates import NONE
from germane.kernels.compile import inlined, kernel

M_ID, M_LINK, M_GROUP, M_NEXT, M_PREV, M_MASK = range(6)
G_SHAPE, G_N, G_HEAD, G_NEXT, G_POSITION, G_MASK, G_MARK, G_LOOSE, G_VAIN = range(9)
B_FIRST, B_ROOM, B_COUNT = range(3)
FREE_MEMBER, FREE_GROUP, N_MEMBERS, N_GROUPS, N_SHAPES, N_TOUCHED, USED, LARGEST = range(8)
PUT, DROP = range(2)
LINK_SHIFT = 40
"""A key of the table is link << 40 | id."""


class Pool(NamedTuple):
    """Members and groups of links."""

    members: NDArray[np.int64]
    member_rows: NDArray[np.float64]
    groups: NDArray[np.int64]
    group_rows: NDArray[np.float64]  # by position
    owners: NDArray[np.int32]  # by position: the group
    blocks: NDArray[np.int32]  # by link and shape: first position, room, count
    shapes: NDArray[np.int64]  # masks
    table: NDArray[np.int64]  # key, member
    counts: NDArray[np.int64]
    thresholds: NDArray[np.float64]  # by link
    touched: NDArray[np.int64]  # group, whether it was there, its mask then
    touched_rows: NDArray[np.float64]
    spare: NDArray[np.float64]  # rows
    shared: NDArray[np.int64]  # attributes


# table: (link, id) -> member -------------------------------------------------------------------


@inlined
def slot_of(table: Any, key: Any) -> Any:
    """Where a key is, or would be."""
    last = table.shape[0] - 1
    x = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    at = np.int64((x >> np.uint64(20)) & np.uint64(last))
    while table[at, 0] != NONE and table[at, 0] != key:
        at = (at + 1) & last
    return at


@kernel
def find(pool: Any, link: Any, identity: Any) -> Any:
    """The member of a link with an id, or NONE."""
    at = slot_of(pool.table, (link << LINK_SHIFT) | identity)
    return pool.table[at, 1] if pool.table[at, 0] != NONE else NONE


@kernel
def forget(pool: Any, link: Any, identity: Any) -> None:
    """Take a key out; those behind it close up."""
    table = pool.table
    last = table.shape[0] - 1
    hole = slot_of(table, (link << LINK_SHIFT) | identity)
    table[hole, 0] = NONE
    at = (hole + 1) & last
    while table[at, 0] != NONE:
        key, member = table[at, 0], table[at, 1]
        table[at, 0] = NONE
        to = slot_of(table, key)
        table[to, 0], table[to, 1] = key, member
        at = (at + 1) & last


@kernel
def rehash(pool: Any) -> None:
    """Fill an empty table from the members of all groups."""
    for i in range(pool.members.shape[0]):
        if pool.members[i, M_GROUP] != NONE:
            key = (pool.members[i, M_LINK] << LINK_SHIFT) | pool.members[i, M_ID]
            at = slot_of(pool.table, key)
            pool.table[at, 0], pool.table[at, 1] = key, i


# groups ----------------------------------------------------------------------------------------


@inlined
def _shape(pool: Any, mask: Any) -> Any:
    """The number of a mask, new or known."""
    n = pool.counts[N_SHAPES]
    for s in range(n):
        if pool.shapes[s] == mask:
            return s
    pool.shapes[n] = mask
    pool.counts[N_SHAPES] = n + 1
    return n


@kernel
def list_group(pool: Any, link: Any, g: Any, row: Any, mask: Any) -> None:
    """To the end of the block of its link and shape, which may have to move."""
    shape = _shape(pool, mask)
    block = pool.blocks[link, shape]
    if block[B_COUNT] == block[B_ROOM]:
        first, room = pool.counts[USED], max(2, 2 * block[B_ROOM])
        for i in range(block[B_COUNT]):
            pool.group_rows[first + i] = pool.group_rows[block[B_FIRST] + i]
            owner = pool.owners[block[B_FIRST] + i]
            pool.owners[first + i] = owner
            pool.groups[owner, G_POSITION] = first + i
        block[B_FIRST], block[B_ROOM] = first, room
        pool.counts[USED] += room
        pool.counts[LARGEST] = max(pool.counts[LARGEST], room)
    at = block[B_FIRST] + block[B_COUNT]
    block[B_COUNT] += 1
    pool.owners[at] = g
    pool.group_rows[at] = row
    groups = pool.groups
    groups[g, G_MASK], groups[g, G_SHAPE], groups[g, G_POSITION] = mask, shape, at


@kernel
def unlist_group(pool: Any, link: Any, g: Any) -> None:
    """Out of its block; the last one there takes its place."""
    block = pool.blocks[link, pool.groups[g, G_SHAPE]]
    block[B_COUNT] -= 1
    at, last = pool.groups[g, G_POSITION], block[B_FIRST] + block[B_COUNT]
    if at != last:
        owner = pool.owners[last]
        pool.owners[at] = owner
        pool.group_rows[at] = pool.group_rows[last]
        pool.groups[owner, G_POSITION] = at


@kernel
def compact(pool: Any, group_rows: Any, owners: Any) -> None:
    """Move all blocks to new arrays, one behind the other."""
    used = 0
    for link in range(pool.blocks.shape[0]):
        for shape in range(pool.counts[N_SHAPES]):
            block = pool.blocks[link, shape]
            if block[B_COUNT] == 0:
                block[B_ROOM] = 0
                continue
            for i in range(block[B_COUNT]):
                owner = pool.owners[block[B_FIRST] + i]
                group_rows[used + i] = pool.group_rows[block[B_FIRST] + i]
                owners[used + i] = owner
                pool.groups[owner, G_POSITION] = used + i
            block[B_FIRST] = used
            used += block[B_ROOM]
    pool.counts[USED] = used


@kernel
def touch(pool: Any, g: Any, was_there: Any) -> None:
    """Remember what a group is before this message changes it."""
    if pool.groups[g, G_MARK] != NONE:
        return
    n = pool.counts[N_TOUCHED]
    pool.counts[N_TOUCHED] = n + 1
    pool.groups[g, G_MARK] = n
    pool.touched[n, 0], pool.touched[n, 1] = g, was_there
    pool.touched[n, 2] = pool.groups[g, G_MASK]
    if was_there:
        pool.touched_rows[n] = pool.group_rows[pool.groups[g, G_POSITION]]


@kernel
def reshape(pool: Any, link: Any, g: Any, row: Any, mask: Any) -> None:
    """Give a group another aggregate."""
    touch(pool, g, 1)
    if mask == pool.groups[g, G_MASK]:
        pool.group_rows[pool.groups[g, G_POSITION]] = row
    else:
        unlist_group(pool, link, g)
        list_group(pool, link, g, row, mask)


@inlined
def join(pool: Any, m: Any, g: Any) -> None:
    """A member into a group's list."""
    members, groups = pool.members, pool.groups
    first = groups[g, G_HEAD]
    members[m, M_GROUP], members[m, M_NEXT], members[m, M_PREV] = g, first, NONE
    if first != NONE:
        members[first, M_PREV] = m
    groups[g, G_HEAD] = m
    groups[g, G_N] += 1


@inlined
def part(pool: Any, m: Any) -> None:
    """A member out of its group's list."""
    members, groups = pool.members, pool.groups
    g, before, after = members[m, M_GROUP], members[m, M_PREV], members[m, M_NEXT]
    if before == NONE:
        groups[g, G_HEAD] = after
    else:
        members[before, M_NEXT] = after
    if after != NONE:
        members[after, M_PREV] = before
    groups[g, G_N] -= 1
