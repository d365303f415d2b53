"""Aggregates of contexts: merge, similarity, may-match; groups of links; floods of an overlay.

An aggregate is a row of numbers and a mask: bit a says that attribute a is there, in the columns
from ``forms[a, AT]``. A number is lo, hi; a location y lo, y hi, x lo, x hi; a class its node and
whether all below is meant; a choice a set of bits, ``WORD`` to a column. A context is an aggregate
of one. Columns of attributes that are not there mean nothing.

A link's received contexts are its members, each in one group. The aggregates of a link's groups of
one shape (a distinct mask) stand in one block, side by side, because they are searched together.
``Pool`` holds everything. One message to a link is `put` and `drop` for each operation, then
`changes`: what became of the groups, in the end, is what others must hear.

Cost: a search for the most similar group compares one mask per shape, and rows only where the
masks allow the threshold (paper Contextcast, III-D, once per shape instead of once per context). A
removal merges the other members of one group.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.kernels.compile import inlined, kernel

NUMBER, CHOICE, LOCATION, TAXONOMY = range(4)
KIND, AT, WIDTH, HEIGHT = range(4)  # columns of `forms`
PARENT, LEVEL, ENTER, LEAVE = range(4)  # rows of `trees`
WORD = 32
"""Bits in a column: all integers below 2 ** 53 are floats."""

IN, NOT_IN, BELOW, AT_MOST, ABOVE, AT_LEAST, BOX, WITHIN, IS_NULL, NOT_NULL, MAYBE = range(11)
ATTRIBUTE, OPERATION, FIRST, COUNT = range(4)  # columns of filters

M_ID, M_LINK, M_GROUP, M_NEXT, M_PREV, M_MASK = range(6)
G_SHAPE, G_N, G_HEAD, G_NEXT, G_POSITION, G_MASK, G_MARK, G_LOOSE, G_VAIN = range(9)
B_FIRST, B_ROOM, B_COUNT = range(3)
FREE_MEMBER, FREE_GROUP, N_MEMBERS, N_GROUPS, N_SHAPES, N_TOUCHED, USED, LARGEST = range(8)
PUT, DROP = range(2)
NONE = -1
LINK_SHIFT = 40
"""A key of the table is link << 40 | id."""


class Forms(NamedTuple):
    """What kernels know of attributes."""

    forms: NDArray[np.int64]  # by attribute: kind, first column, columns, height of the tree
    lengths: NDArray[np.float64]  # by attribute: of the domain, along y and x
    trees: NDArray[np.int32]  # parent, level, enter, leave, by node of all trees
    order: NDArray[np.int64]  # attributes as they are compared: the cheapest first


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


# aggregates ------------------------------------------------------------------------------------


@inlined
def ones(bits: Any) -> Any:
    """How many bits are set."""
    x = np.uint64(bits)
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inlined
def above(trees: Any, upper: Any, lower: Any) -> Any:
    """Whether a node is another, or above it."""
    return trees[ENTER, upper] <= trees[ENTER, lower] < trees[LEAVE, upper]


@kernel
def common(trees: Any, a: Any, b: Any) -> Any:
    """The lowest common ancestor."""
    while a != b:
        if trees[LEVEL, a] < trees[LEVEL, b]:
            a, b = b, a
        a = trees[PARENT, a]
    return a


@kernel
def merge(kinds: Any, row: Any, mask: Any, other: Any, other_mask: Any) -> Any:
    """Algorithm 1: widen a row so that it covers another; its mask then."""
    forms, trees = kinds.forms, kinds.trees
    bits = other_mask
    a = 0
    while bits:
        if bits & 1:
            at, width = forms[a, AT], forms[a, WIDTH]
            if not (mask >> a) & 1:
                for c in range(at, at + width):
                    row[c] = other[c]
            elif forms[a, KIND] == TAXONOMY:
                if row[at] != other[at] or row[at + 1] != other[at + 1]:
                    row[at] = common(trees, np.int64(row[at]), np.int64(other[at]))
                    row[at + 1] = 1.0
            elif forms[a, KIND] == CHOICE:
                for c in range(at, at + width):
                    row[c] = np.float64(np.int64(row[c]) | np.int64(other[c]))
            else:
                for c in range(at, at + width, 2):
                    row[c] = min(row[c], other[c])
                    row[c + 1] = max(row[c + 1], other[c + 1])
        bits >>= 1
        a += 1
    return mask | other_mask


@kernel
def same(kinds: Any, row: Any, mask: Any, other: Any, other_mask: Any) -> Any:
    """Whether two aggregates are equal."""
    if mask != other_mask:
        return False
    forms = kinds.forms
    for a in range(forms.shape[0]):
        if (mask >> a) & 1:
            for c in range(forms[a, AT], forms[a, AT] + forms[a, WIDTH]):
                if row[c] != other[c]:
                    return False
    return True


@kernel
def covers(kinds: Any, row: Any, mask: Any, other: Any, other_mask: Any) -> Any:
    """Whether merging the other into the row would leave it as it is."""
    if other_mask & ~mask:
        return False
    forms, trees = kinds.forms, kinds.trees
    for a in range(forms.shape[0]):
        if not (other_mask >> a) & 1:
            continue
        at, width = forms[a, AT], forms[a, WIDTH]
        if forms[a, KIND] == TAXONOMY:
            if row[at + 1] == 0.0:
                if row[at] != other[at] or other[at + 1] != 0.0:
                    return False
            elif not above(trees, np.int64(row[at]), np.int64(other[at])):
                return False
        elif forms[a, KIND] == CHOICE:
            for c in range(at, at + width):
                if np.int64(other[c]) & ~np.int64(row[c]):
                    return False
        else:
            for c in range(at, at + width, 2):
                if other[c] < row[c] or other[c + 1] > row[c + 1]:
                    return False
    return True


@inlined
def _span(a_lo: Any, a_hi: Any, b_lo: Any, b_hi: Any, length: Any) -> Any:
    """Position and span of two intervals, each half of the similarity."""
    position = max(0.0, 1.0 - abs(a_lo - b_lo) / length) if length > 0.0 else 1.0
    hull = max(a_hi, b_hi) - min(a_lo, b_lo)
    span = ((a_hi - a_lo) + (b_hi - b_lo)) / (2.0 * hull) if hull > 0.0 else 1.0
    return (position + span) / 2.0


@kernel
def closest(
    kinds: Any, row: Any, mask: Any, others: Any, first: Any, count: Any, shape: Any, shared: Any,
    best: Any, but: Any,
) -> Any:  # fmt: skip
    """The most similar of some rows with one mask, if above `best`: its similarity and place.

    Equation (3). A row is left as soon as it cannot exceed `best` any more; row `but` is no
    candidate. One function, because numba counts references to arrays at every call, which takes
    longer than the arithmetic.
    """
    forms, lengths, trees, order = kinds
    found = NONE
    n_all = ones(mask | shape)
    if n_all == 0:  # contexts without attributes are alike
        at = first + 1 if first == but else first
        return (1.0, at) if best < 1.0 and at < first + count else (best, found)
    n_shared = 0
    for o in range(order.shape[0]):
        if ((mask & shape) >> order[o]) & 1:
            shared[n_shared] = order[o]
            n_shared += 1
    for at in range(first, first + count):
        if at == but:
            continue
        total, left = 0.0, n_shared
        least = best * n_all - 1e-9  # with a margin for rounding
        while left and total + left > least:
            a = shared[n_shared - left]
            c, kind = forms[a, AT], forms[a, KIND]
            if kind == NUMBER:
                lo, hi, other_lo, other_hi = row[c], row[c + 1], others[at, c], others[at, c + 1]
                if lo != hi or other_lo != other_hi:
                    total += _span(lo, hi, other_lo, other_hi, lengths[a, 0])
                elif lo == other_lo:
                    total += 1.0
                elif lengths[a, 0] > 0.0:  # two points have no span in common
                    total += max(0.0, 1.0 - abs(lo - other_lo) / lengths[a, 0]) / 2.0
                else:
                    total += 0.5
            elif kind == LOCATION:
                y = _span(row[c], row[c + 1], others[at, c], others[at, c + 1], lengths[a, 0])
                c += 2
                x = _span(row[c], row[c + 1], others[at, c], others[at, c + 1], lengths[a, 1])
                total += (y + x) / 2.0
            elif kind == TAXONOMY:
                one, two = np.int64(row[c]), np.int64(others[at, c])
                total += 1.0
                if one != two:
                    top = common(trees, one, two)
                    steps = trees[LEVEL, one] + trees[LEVEL, two] - 2 * trees[LEVEL, top]
                    total -= steps / (2.0 * forms[a, HEIGHT])
            else:
                n_one = n_two = n_both = 0
                for i in range(c, c + forms[a, WIDTH]):
                    n_one += ones(np.int64(row[i]))
                    n_two += ones(np.int64(others[at, i]))
                    n_both += ones(np.int64(row[i]) & np.int64(others[at, i]))
                n_either = n_one + n_two - n_both
                total += ((n_one + n_two) / (2.0 * n_either) + n_both / n_either) / 2.0
            left -= 1
        if left == 0 and total / n_all > best:
            best, found = total / n_all, at
    return best, found


@kernel
def similarity(kinds: Any, row: Any, mask: Any, other: Any, other_mask: Any) -> Any:
    """Equation (3) for two aggregates."""
    others = other.reshape((1, other.shape[0]))
    shared = np.empty(kinds.forms.shape[0], np.int64)
    return closest(kinds, row, mask, others, 0, 1, other_mask, shared, -1.0, NONE)[0]


# addresses -------------------------------------------------------------------------------------


@inlined
def _number_meets(lo: Any, hi: Any, operation: Any, given: Any, first: Any, end: Any) -> Any:
    if operation == BELOW:
        return lo < given[first]
    if operation == AT_MOST:
        return lo <= given[first]
    if operation == ABOVE:
        return hi > given[first]
    if operation == AT_LEAST:
        return hi >= given[first]
    if operation == IN:
        for i in range(first, end):
            if lo <= given[i] <= hi:
                return True
        return False
    # NOT_IN: some value of the interval is not in the list.
    if lo != hi:
        return True
    for i in range(first, end):
        if given[i] == lo:
            return False
    return True


@inlined
def _place_meets(rows: Any, at: Any, c: Any, given: Any, first: Any) -> Any:
    """Rectangles intersect, edges included; a box whose west is above its east wraps around."""
    south, west = given[first], given[first + 1]
    north, east = given[first + 2], given[first + 3]
    if rows[at, c] > north or rows[at, c + 1] < south:
        return False
    if west <= east:
        return rows[at, c + 2] <= east and rows[at, c + 3] >= west
    return rows[at, c + 3] >= west or rows[at, c + 2] <= east


@inlined
def _class_meets(
    trees: Any, node: Any, below: Any, operation: Any, given: Any, first: Any, end: Any
) -> Any:
    if operation == NOT_IN:
        if below:
            return True
        for i in range(first, end):
            if np.int64(given[i]) == node:
                return False
        return True
    for i in range(first, end):
        asked = np.int64(given[i])
        if asked == node or (below and above(trees, node, asked)):
            return True
        if operation == WITHIN and above(trees, asked, node):
            return True
    return False


@inlined
def _choice_meets(
    rows: Any, at: Any, c: Any, width: Any, operation: Any, given: Any, first: Any, end: Any
) -> Any:
    if operation == IN:
        for i in range(first, end):
            code = np.int64(given[i])
            if code >= 0 and (np.int64(rows[at, c + code // WORD]) >> (code % WORD)) & 1:
                return True
        return False
    for w in range(width):
        word = np.int64(rows[at, c + w])
        for i in range(first, end):
            code = np.int64(given[i])
            if code >= 0 and code // WORD == w:
                word &= ~(np.int64(1) << (code % WORD))
        if word:
            return True
    return False


@kernel
def meets(kinds: Any, rows: Any, at: Any, mask: Any, filters: Any, given: Any, exact: Any) -> Any:
    """Whether row `at` may hold a context that meets all filters; `exact`: it is one itself.

    What an aggregate cannot decide, may be.
    """
    forms, trees = kinds.forms, kinds.trees
    for f in range(filters.shape[0]):
        a, operation = filters[f, ATTRIBUTE], filters[f, OPERATION]
        if operation == MAYBE:
            continue
        there = (mask >> a) & 1
        if operation == IS_NULL:
            if exact and there:
                return False
            continue
        if not there:
            return False
        if operation == NOT_NULL:
            continue
        c, kind = forms[a, AT], forms[a, KIND]
        first = filters[f, FIRST]
        end = first + filters[f, COUNT]
        if kind == NUMBER:
            met = _number_meets(rows[at, c], rows[at, c + 1], operation, given, first, end)
        elif kind == LOCATION:
            met = _place_meets(rows, at, c, given, first)
        elif kind == TAXONOMY:
            node, below = np.int64(rows[at, c]), rows[at, c + 1] != 0.0
            met = _class_meets(trees, node, below, operation, given, first, end)
        else:
            met = _choice_meets(rows, at, c, forms[a, WIDTH], operation, given, first, end)
        if not met:
            return False
    return True


# table: (link, id) -> member -------------------------------------------------------------------


@inlined
def _slot(table: Any, key: Any) -> Any:
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
    at = _slot(pool.table, (link << LINK_SHIFT) | identity)
    return pool.table[at, 1] if pool.table[at, 0] != NONE else NONE


@kernel
def _forget(pool: Any, link: Any, identity: Any) -> None:
    """Take a key out; those behind it close up."""
    table = pool.table
    last = table.shape[0] - 1
    hole = _slot(table, (link << LINK_SHIFT) | identity)
    table[hole, 0] = NONE
    at = (hole + 1) & last
    while table[at, 0] != NONE:
        key, member = table[at, 0], table[at, 1]
        table[at, 0] = NONE
        to = _slot(table, key)
        table[to, 0], table[to, 1] = key, member
        at = (at + 1) & last


@kernel
def rehash(pool: Any) -> None:
    """Fill an empty table from the members of all groups."""
    for i in range(pool.members.shape[0]):
        if pool.members[i, M_GROUP] != NONE:
            key = (pool.members[i, M_LINK] << LINK_SHIFT) | pool.members[i, M_ID]
            at = _slot(pool.table, key)
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
def _list_group(pool: Any, link: Any, g: Any, row: Any, mask: Any) -> None:
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
def _unlist_group(pool: Any, link: Any, g: Any) -> None:
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
def _touch(pool: Any, g: Any, was_there: Any) -> None:
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
def _reshape(pool: Any, link: Any, g: Any, row: Any, mask: Any) -> None:
    """Give a group another aggregate."""
    _touch(pool, g, 1)
    if mask == pool.groups[g, G_MASK]:
        pool.group_rows[pool.groups[g, G_POSITION]] = row
    else:
        _unlist_group(pool, link, g)
        _list_group(pool, link, g, row, mask)


@inlined
def _join(pool: Any, m: Any, g: Any) -> None:
    """A member into a group's list."""
    members, groups = pool.members, pool.groups
    first = groups[g, G_HEAD]
    members[m, M_GROUP], members[m, M_NEXT], members[m, M_PREV] = g, first, NONE
    if first != NONE:
        members[first, M_PREV] = m
    groups[g, G_HEAD] = m
    groups[g, G_N] += 1


@inlined
def _part(pool: Any, m: Any) -> None:
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
    _join(pool, m, g)
    old = pool.groups[g, G_MASK]
    whole = pool.group_rows[pool.groups[g, G_POSITION]]
    if not covers(kinds, whole, old, row, mask):
        wide = pool.spare[0]
        wide[:] = whole
        _reshape(pool, link, g, wide, merge(kinds, wide, old, row, mask))


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
    _touch(pool, g, 0)
    pool.groups[g, G_N], pool.groups[g, G_HEAD], pool.groups[g, G_LOOSE] = 0, NONE, 0
    pool.groups[g, G_VAIN] = 0
    _list_group(pool, link, g, row, mask)
    _join(pool, m, g)


@kernel
def _leave(kinds: Any, pool: Any, link: Any, m: Any) -> None:
    """Algorithm 3: out of its group, which shrinks if the member was defining."""
    g = pool.members[m, M_GROUP]
    if pool.groups[g, G_N] == 1:
        _touch(pool, g, 1)
        _part(pool, m)
        _unlist_group(pool, link, g)
        pool.groups[g, G_NEXT] = pool.counts[FREE_GROUP]
        pool.counts[FREE_GROUP] = g
        pool.counts[N_GROUPS] -= 1
        return
    rest = pool.spare[1]
    mask = _rest(kinds, pool, m, rest)
    _part(pool, m)
    pool.groups[g, G_LOOSE] = 0
    whole = pool.group_rows[pool.groups[g, G_POSITION]]
    if not same(kinds, rest, mask, whole, pool.groups[g, G_MASK]):
        _reshape(pool, link, g, rest, mask)


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
        at = _slot(pool.table, key)
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
                _reshape(pool, link, g, rest, merge(kinds, rest, rest_mask, row, mask))
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
            _reshape(pool, link, g, row, mask)
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
    _forget(pool, link, identity)
    pool.members[m, M_GROUP] = NONE
    pool.members[m, M_NEXT] = pool.counts[FREE_MEMBER]
    pool.counts[FREE_MEMBER] = m
    pool.counts[N_MEMBERS] -= 1


@kernel
def _absorb(kinds: Any, pool: Any, link: Any, g: Any, h: Any) -> None:
    """All members of group g into group h."""
    groups, members = pool.groups, pool.members
    _touch(pool, g, 1)
    _touch(pool, h, 1)
    part, mask = pool.spare[1], groups[g, G_MASK]
    part[:] = pool.group_rows[groups[g, G_POSITION]]
    _unlist_group(pool, link, g)
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
        _reshape(pool, link, h, wide, merge(kinds, wide, old, part, mask))


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


# overlays in one pool --------------------------------------------------------------------------


class Wires(NamedTuple):
    """A tree of routers: a link is one end of a wire, and knows the other."""

    back: NDArray[np.int32]  # the other end; NONE for users
    router: NDArray[np.int32]  # by link
    at: NDArray[np.int32]  # links of router r are at[r] : at[r + 1]


class Observed(NamedTuple):
    """What links cost, and by how much thresholds sink with each hop of an update."""

    sent: NDArray[np.int64]  # by link: messages to others, since its threshold changed
    vain: NDArray[np.int64]  # by dead end of the last message: link to blame, hops
    coarser: NDArray[np.float64]  # one


QUEUE_HEAD, QUEUE_TAIL, N_OPERATIONS, N_DONE = range(4)
MESSAGES, OPERATIONS = range(2)


@kernel
def flood(
    kinds: Any,
    pool: Any,
    wires: Any,
    queue: Any,
    operations: Any,
    rows: Any,
    state: Any,
    tally: Any,
    observed: Any,
) -> Any:
    """Deliver messages in order until none is left; False if room is lacking, then go on later.

    A message is a link, operations first : end, and how many hops they come from.
    """
    while state[QUEUE_HEAD] < state[QUEUE_TAIL]:
        head = state[QUEUE_HEAD]
        link, first, end = queue[head, 0], queue[head, 1], queue[head, 2]
        before = state[N_OPERATIONS]
        router = wires.router[link]
        n_links = wires.at[router + 1] - wires.at[router]
        if before + 2 * (end - first) > operations.shape[0]:
            return False  # each operation may change two groups
        if state[QUEUE_TAIL] + n_links > queue.shape[0]:
            return False
        threshold = pool.thresholds[link]
        pool.thresholds[link] = max(0.0, threshold - observed.coarser[0] * queue[head, 3])
        done = apply(kinds, pool, link, operations, rows, first + state[N_DONE], end)
        pool.thresholds[link] = threshold
        if done < end:
            state[N_DONE] = done - first
            return False
        state[QUEUE_HEAD], state[N_DONE] = head + 1, 0
        after = changes(kinds, pool, operations, rows, before)
        state[N_OPERATIONS] = after
        if after == before:
            continue
        for other in range(wires.at[router], wires.at[router + 1]):
            if other != link and wires.back[other] != NONE:
                tail = state[QUEUE_TAIL]
                queue[tail, 0], queue[tail, 1], queue[tail, 2] = wires.back[other], before, after
                queue[tail, 3] = queue[head, 3] + 1
                state[QUEUE_TAIL] = tail + 1
                observed.sent[link] += 1
                tally[MESSAGES] += 1
                tally[OPERATIONS] += after - before
    state[:] = 0
    return True


@kernel
def route(
    kinds: Any, pool: Any, wires: Any, source: Any, needed: Any, filters: Any, given: Any,
    stack: Any, out: Any, observed: Any,
) -> Any:  # fmt: skip
    """An addressed message from a router: hops, users it reaches (in `out`), and dead ends.

    At a dead end nobody is meant: either its users' groups are too wide, or those of the router
    before, which is told. What was in vain are the hops since the way forked or somebody was
    reached.
    """
    hops = n_out = n_vain = 0
    stack[0, 0], stack[0, 1], stack[0, 2] = source, NONE, 0
    n_stack = 1
    while n_stack:
        n_stack -= 1
        router, via, alone = stack[n_stack, 0], stack[n_stack, 1], stack[n_stack, 2]
        first, n_before = n_stack, n_out
        users = NONE
        for link in range(wires.at[router], wires.at[router + 1]):
            if link == via:
                continue
            back = wires.back[link]
            if back == NONE:
                users = link
                n_out = members_meeting(kinds, pool, link, needed, filters, given, out, n_out)
            elif any_group(kinds, pool, link, needed, filters, given):
                hops += 1
                stack[n_stack, 0], stack[n_stack, 1] = wires.router[back], back
                n_stack += 1
        is_way = n_stack == first + 1 and n_out == n_before
        for i in range(first, n_stack):
            stack[i, 2] = alone + 1 if is_way else 1
        if n_stack == first and n_out == n_before and via != NONE:
            blamed = np.int64(wires.back[via])
            if users != NONE and any_group(kinds, pool, users, needed, filters, given):
                blamed = np.int64(users)
            observed.vain[n_vain, 0], observed.vain[n_vain, 1] = blamed, alone
            n_vain += 1
    return hops, n_out, n_vain


@kernel
def meant(
    kinds: Any, pool: Any, users: Any, needed: Any, filters: Any, given: Any, marks: Any, out: Any
) -> Any:
    """All users who meet the filters, wherever they are, and marks on their routers; how many."""
    n = 0
    for router in range(users.shape[0]):
        if users[router] != NONE:
            before = n
            n = members_meeting(kinds, pool, users[router], needed, filters, given, out, n)
            if n > before:
                marks[router] = 1
    return n


@kernel
def spanning(parents: Any, marks: Any) -> Any:
    """Edges of the smallest subtree with all marked nodes; parents come before children.

    `marks` is used up.
    """
    n_marked = 0
    for node in range(parents.shape[0]):
        n_marked += marks[node]
    edges = 0
    for node in range(parents.shape[0] - 1, 0, -1):
        if 0 < marks[node] < n_marked:
            edges += 1
        marks[parents[node]] += marks[node]
    return edges
