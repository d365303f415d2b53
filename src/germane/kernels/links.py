"""Groups of links: which group a context joins, and what others must hear (Algorithms 2 and 3).

One message to a link is `put` and `drop` for each operation, then `changes`: what became of the
groups, in the end, is what others must hear. Arrays: ``kernels.pools``.

Cost: a search for the most similar group compares one mask per shape, and rows only where the
masks allow the threshold (paper Contextcast, III-D, once per shape instead of once per context). A
removal merges the other members of one group.
"""

from typing import Any

import numpy as np

from germane.kernels.addressed import meets
from germane.kernels.aggregates import NONE, closest, covers, merge, ones, same, similarity
from germane.kernels.compile import inlined, kernel
from germane.kernels.pools import (
    B_COUNT,
    B_FIRST,
    DROP,
    FREE_GROUP,
    FREE_MEMBER,
    G_HEAD,
    G_LOOSE,
    G_MARK,
    G_MASK,
    G_N,
    G_NEXT,
    G_POSITION,
    G_VAIN,
    LARGEST,
    LINK_SHIFT,
    M_GROUP,
    M_ID,
    M_LINK,
    M_MASK,
    M_NEXT,
    M_PREV,
    N_GROUPS,
    N_MEMBERS,
    N_SHAPES,
    N_TOUCHED,
    PUT,
    USED,
    find,
    forget,
    join,
    list_group,
    part,
    reshape,
    slot_of,
    touch,
    unlist_group,
)


@kernel
def nearest(kinds: Any, pool: Any, link: Any, row: Any, mask: Any, but: Any) -> Any:
    """The group of a link most similar to a context, above the threshold; or NONE.

    The group at position `but` is no candidate.
    """
    blocks, shapes = pool.blocks, pool.shapes
    best, found = pool.thresholds[link], NONE
    n_mask = ones(mask)
    for s in range(pool.counts[N_SHAPES]):
        count = blocks[link, s, B_COUNT]
        if count == 0:
            continue
        n_both = ones(mask & shapes[s])
        n_either = n_mask + ones(shapes[s]) - n_both
        if n_either and n_both <= best * n_either:  # more than that it cannot be
            continue
        best, at = closest(
            kinds, row, mask, pool.group_rows, blocks[link, s, B_FIRST], count, shapes[s],
            pool.shared, best, but,
        )  # fmt: skip
        if at != NONE:
            found = np.int64(pool.owners[at])
    return found


@kernel
def _rest(kinds: Any, pool: Any, m: Any, into: Any) -> Any:
    """The merge of a member's fellows; its mask."""
    members = pool.members
    mask = np.int64(0)
    other = pool.groups[members[m, M_GROUP], G_HEAD]
    while other != NONE:
        if other != m:
            mask = merge(kinds, into, mask, pool.member_rows[other], members[other, M_MASK])
        other = members[other, M_NEXT]
    return mask


@kernel
def _enter(kinds: Any, pool: Any, link: Any, m: Any, g: Any) -> None:
    """A member that is in no group joins one, which widens if it must."""
    row, mask = pool.member_rows[m], pool.members[m, M_MASK]
    join(pool, m, g)
    old = pool.groups[g, G_MASK]
    whole = pool.group_rows[pool.groups[g, G_POSITION]]
    if not covers(kinds, whole, old, row, mask):
        wide = pool.spare[0]
        wide[:] = whole
        reshape(pool, link, g, wide, merge(kinds, wide, old, row, mask))


@kernel
def _place(kinds: Any, pool: Any, link: Any, m: Any) -> None:
    """Algorithm 2: a member that is in no group joins the most similar, or begins one."""
    row, mask = pool.member_rows[m], pool.members[m, M_MASK]
    g = nearest(kinds, pool, link, row, mask, NONE)
    if g != NONE:
        _enter(kinds, pool, link, m, g)
        return
    g = pool.counts[FREE_GROUP]
    pool.counts[FREE_GROUP] = pool.groups[g, G_NEXT]
    pool.counts[N_GROUPS] += 1
    touch(pool, g, 0)
    pool.groups[g, G_N], pool.groups[g, G_HEAD], pool.groups[g, G_LOOSE] = 0, NONE, 0
    pool.groups[g, G_VAIN] = 0
    list_group(pool, link, g, row, mask)
    join(pool, m, g)


@kernel
def _leave(kinds: Any, pool: Any, link: Any, m: Any) -> None:
    """Algorithm 3: out of its group, which shrinks if the member was defining."""
    g = pool.members[m, M_GROUP]
    if pool.groups[g, G_N] == 1:
        touch(pool, g, 1)
        part(pool, m)
        unlist_group(pool, link, g)
        pool.groups[g, G_NEXT] = pool.counts[FREE_GROUP]
        pool.counts[FREE_GROUP] = g
        pool.counts[N_GROUPS] -= 1
        return
    rest = pool.spare[1]
    mask = _rest(kinds, pool, m, rest)
    part(pool, m)
    pool.groups[g, G_LOOSE] = 0
    whole = pool.group_rows[pool.groups[g, G_POSITION]]
    if not same(kinds, rest, mask, whole, pool.groups[g, G_MASK]):
        reshape(pool, link, g, rest, mask)


@kernel
def put(kinds: Any, pool: Any, link: Any, identity: Any, row: Any, mask: Any) -> None:
    """ADD or REPLACE: a link's context with this id is now this."""
    members, counts = pool.members, pool.counts
    m = find(pool, link, identity)
    if m == NONE:
        m = counts[FREE_MEMBER]
        counts[FREE_MEMBER] = members[m, M_NEXT]
        counts[N_MEMBERS] += 1
        key = (link << LINK_SHIFT) | identity
        at = slot_of(pool.table, key)
        pool.table[at, 0], pool.table[at, 1] = key, m
        members[m, M_ID], members[m, M_LINK], members[m, M_MASK] = identity, link, mask
        pool.member_rows[m] = row
        _place(kinds, pool, link, m)
        return
    if same(kinds, pool.member_rows[m], members[m, M_MASK], row, mask):
        return
    g = members[m, M_GROUP]
    if pool.groups[g, G_N] > 1:
        whole = pool.group_rows[pool.groups[g, G_POSITION]]
        stays = covers(kinds, whole, pool.groups[g, G_MASK], row, mask)
        if stays:
            pool.groups[g, G_LOOSE] = 1
        else:
            rest = pool.spare[2]
            rest_mask = _rest(kinds, pool, m, rest)
            least = pool.thresholds[link]
            stays = similarity(kinds, row, mask, rest, rest_mask) > least
            if stays:
                pool.groups[g, G_LOOSE] = 0
                reshape(pool, link, g, rest, merge(kinds, rest, rest_mask, row, mask))
        if stays:
            members[m, M_MASK] = mask
            pool.member_rows[m] = row
            return
    else:
        # Who stays alone keeps the group.
        joined = nearest(kinds, pool, link, row, mask, pool.groups[g, G_POSITION])
        if joined != NONE:
            _leave(kinds, pool, link, m)
        members[m, M_MASK] = mask
        pool.member_rows[m] = row
        if joined != NONE:
            _enter(kinds, pool, link, m, joined)
        else:
            reshape(pool, link, g, row, mask)
        return
    _leave(kinds, pool, link, m)
    members[m, M_MASK] = mask
    pool.member_rows[m] = row
    _place(kinds, pool, link, m)


@kernel
def drop(kinds: Any, pool: Any, link: Any, identity: Any) -> None:
    """REMOVE: a link has no context with this id any more, if it had one."""
    m = find(pool, link, identity)
    if m == NONE:
        return
    _leave(kinds, pool, link, m)
    forget(pool, link, identity)
    pool.members[m, M_GROUP] = NONE
    pool.members[m, M_NEXT] = pool.counts[FREE_MEMBER]
    pool.counts[FREE_MEMBER] = m
    pool.counts[N_MEMBERS] -= 1


@kernel
def _absorb(kinds: Any, pool: Any, link: Any, g: Any, h: Any) -> None:
    """All members of group g into group h."""
    groups, members = pool.groups, pool.members
    touch(pool, g, 1)
    touch(pool, h, 1)
    part, mask = pool.spare[1], groups[g, G_MASK]
    part[:] = pool.group_rows[groups[g, G_POSITION]]
    unlist_group(pool, link, g)
    m = last = groups[g, G_HEAD]
    while m != NONE:
        members[m, M_GROUP] = h
        last, m = m, members[m, M_NEXT]
    members[last, M_NEXT] = groups[h, G_HEAD]
    members[groups[h, G_HEAD], M_PREV] = last
    groups[h, G_HEAD] = groups[g, G_HEAD]
    groups[h, G_N] += groups[g, G_N]
    groups[h, G_LOOSE] |= groups[g, G_LOOSE]
    groups[h, G_VAIN] += groups[g, G_VAIN]
    groups[g, G_N], groups[g, G_HEAD], groups[g, G_NEXT] = 0, NONE, pool.counts[FREE_GROUP]
    pool.counts[FREE_GROUP] = g
    pool.counts[N_GROUPS] -= 1
    wide, old = pool.spare[0], groups[h, G_MASK]
    wide[:] = pool.group_rows[groups[h, G_POSITION]]
    if not covers(kinds, wide, old, part, mask):
        reshape(pool, link, h, wide, merge(kinds, wide, old, part, mask))


@kernel
def coarsen(kinds: Any, pool: Any, link: Any) -> Any:
    """Groups of a link join others that are similar enough by now; False if room is lacking."""
    n = 0
    for s in range(pool.counts[N_SHAPES]):
        n += pool.blocks[link, s, B_COUNT]
    found = np.empty(n, np.int64)
    n = 0
    for s in range(pool.counts[N_SHAPES]):
        first = pool.blocks[link, s, B_FIRST]
        for at in range(first, first + pool.blocks[link, s, B_COUNT]):
            found[n] = pool.owners[at]
            n += 1
    for i in range(n):
        g = found[i]
        if not roomy(pool):
            return False
        at = pool.groups[g, G_POSITION]
        row, mask = pool.spare[2], pool.groups[g, G_MASK]
        row[:] = pool.group_rows[at]
        h = nearest(kinds, pool, link, row, mask, at)
        if h != NONE:
            _absorb(kinds, pool, link, g, h)
    return True


@kernel
def dissolve(kinds: Any, pool: Any, link: Any, found: Any, first: Any) -> Any:
    """Place members anew, one after the other; where to go on, before the end if room is lacking.

    A member that is alone by now stays.
    """
    for i in range(first, found.shape[0]):
        if not roomy(pool):
            return i
        m = found[i]
        if pool.groups[pool.members[m, M_GROUP], G_N] > 1:
            _leave(kinds, pool, link, m)
            _place(kinds, pool, link, m)
    return found.shape[0]


@kernel
def blame(kinds: Any, pool: Any, link: Any, filters: Any, given: Any, hops: Any) -> Any:
    """Hops in vain are counted for the groups of a link that meet filters; the worst of them."""
    worst = NONE
    for s in range(pool.counts[N_SHAPES]):
        first, count = pool.blocks[link, s, B_FIRST], pool.blocks[link, s, B_COUNT]
        for at in range(first, first + count):
            if meets(kinds, pool.group_rows, at, pool.shapes[s], filters, given, False):
                g = np.int64(pool.owners[at])
                pool.groups[g, G_VAIN] += hops
                if worst == NONE or pool.groups[g, G_VAIN] > pool.groups[worst, G_VAIN]:
                    worst = g
    return worst


@kernel
def changes(kinds: Any, pool: Any, operations: Any, rows: Any, n: Any) -> Any:
    """What became of the groups that were touched: operations behind the first n; how many then.

    An operation is PUT or DROP, the group, its mask, and whether it was there before.
    """
    for t in range(pool.counts[N_TOUCHED]):
        g, was_there = pool.touched[t, 0], pool.touched[t, 1]
        pool.groups[g, G_MARK] = NONE
        mask = pool.groups[g, G_MASK]
        if pool.groups[g, G_N] == 0:
            if not was_there:
                continue
            operations[n, 0] = DROP
        else:
            row = pool.group_rows[pool.groups[g, G_POSITION]]
            if was_there and same(kinds, pool.touched_rows[t], pool.touched[t, 2], row, mask):
                continue
            operations[n, 0] = PUT
            rows[n] = row
        operations[n, 1], operations[n, 2], operations[n, 3] = g, mask, was_there
        n += 1
    pool.counts[N_TOUCHED] = 0
    return n


@inlined
def roomy(pool: Any) -> Any:
    """Whether an operation finds room; it may touch two groups and begin two shapes."""
    counts = pool.counts
    return (
        counts[N_MEMBERS] < pool.members.shape[0]
        and counts[N_GROUPS] < pool.groups.shape[0]
        and counts[N_SHAPES] + 2 <= pool.shapes.shape[0]
        and 2 * (counts[N_MEMBERS] + 1) <= pool.table.shape[0]
        and counts[N_TOUCHED] + 2 <= pool.touched.shape[0]
        and counts[USED] + 4 * counts[LARGEST] + 8 <= pool.group_rows.shape[0]
    )


@kernel
def apply(
    kinds: Any, pool: Any, link: Any, operations: Any, rows: Any, first: Any, end: Any
) -> Any:
    """Operations of one message to a link; where to go on, before the end if room is lacking."""
    for i in range(first, end):
        if not roomy(pool):
            return i
        if operations[i, 0] == PUT:
            put(kinds, pool, link, operations[i, 1], rows[i], operations[i, 2])
        else:
            drop(kinds, pool, link, operations[i, 1])
    return end


@kernel
def any_group(kinds: Any, pool: Any, link: Any, needed: Any, filters: Any, given: Any) -> Any:
    """Whether some group of a link may meet the filters; `needed` are attributes they ask for."""
    for s in range(pool.counts[N_SHAPES]):
        first, count = pool.blocks[link, s, B_FIRST], pool.blocks[link, s, B_COUNT]
        if count == 0 or needed & ~pool.shapes[s]:
            continue
        for at in range(first, first + count):
            if meets(kinds, pool.group_rows, at, pool.shapes[s], filters, given, False):
                return True
    return False


@kernel
def members_meeting(
    kinds: Any, pool: Any, link: Any, needed: Any, filters: Any, given: Any, out: Any, n: Any
) -> Any:
    """Ids of a link's members that meet the filters, behind the first n; how many then."""
    for s in range(pool.counts[N_SHAPES]):
        first, count = pool.blocks[link, s, B_FIRST], pool.blocks[link, s, B_COUNT]
        if count == 0 or needed & ~pool.shapes[s]:
            continue
        for at in range(first, first + count):
            m = pool.groups[pool.owners[at], G_HEAD]
            while m != NONE:
                mask = pool.members[m, M_MASK]
                if meets(kinds, pool.member_rows, m, mask, filters, given, True):
                    out[n] = pool.members[m, M_ID]
                    n += 1
                m = pool.members[m, M_NEXT]
    return n
