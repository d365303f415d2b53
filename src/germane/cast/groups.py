"""``Groups``: the contexts received over links, in groups with an aggregate each (Algorithms 2, 3).

In: operations on contexts of a link, by id. Out: the net change of the link's groups. Several links
share one pool of arrays; ids are numbers below 2 ** 40. Kernels: ``kernels.pools``, ``.links``.

Invariants: a group's aggregate covers its members. It is their merge, except after a member changed
within it (the aggregate is left as it is, nobody is told) until the next departure from the group.
A member is defining if the merge without it differs: that is computed, never remembered.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from germane.cast.space import Address, Aggregate, Space
from germane.kernels import links, pools
from germane.kernels.aggregates import NONE
from germane.model import InvalidValue

FIRST_ROOM = 16
FIRST_SHAPES = 8
THRESHOLD = 0.6
"""Where the paper saves most."""


T = TypeVar("T", bound=np.generic)


class Change(NamedTuple):
    """A group, or a context, is now this; or is there no more."""

    group: int
    aggregate: Aggregate | None
    is_new: bool = False


def require_threshold(threshold: float) -> float:
    if not threshold >= 0:
        raise InvalidValue(f"a similarity threshold is 0 or more, not {threshold!r}")
    return float(threshold)


class Groups:
    """Groups of links, numbered as they were added; a number is used again once it is free."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._n_links = 0
        self._free_links: list[int] = []
        n, columns = FIRST_ROOM, space.n_columns
        counts = np.zeros(8, np.int64)
        self.pool = pools.Pool(
            members=_free_list(n, 6, pools.M_NEXT),
            member_rows=np.zeros((n, columns)),
            groups=_free_list(n, 9, pools.G_NEXT),
            group_rows=np.zeros((n, columns)),
            owners=np.zeros(n, np.int32),
            blocks=np.zeros((0, FIRST_SHAPES, 3), np.int32),
            shapes=np.zeros(FIRST_SHAPES, np.int64),
            table=np.full((4 * n, 2), NONE, np.int64),
            counts=counts,
            thresholds=np.zeros(0),
            touched=np.zeros((2 * n, 3), np.int64),
            touched_rows=np.zeros((2 * n, columns)),
            spare=np.zeros((3, columns)),
            shared=np.zeros(len(space.types), np.int64),
        )
        self.pool.members[:, pools.M_GROUP] = NONE
        self.pool.groups[:, pools.G_MARK] = NONE

    # links -----------------------------------------------------------------------------------

    def add_link(self, threshold: float = THRESHOLD) -> int:
        """A new link without contexts; contexts are grouped above this similarity."""
        require_threshold(threshold)
        if self._free_links:
            link = self._free_links.pop()
        else:
            link = self._n_links
            self._n_links += 1
            if link == len(self.pool.thresholds):
                room = max(4, 2 * link)
                blocks, thresholds = self.pool.blocks, self.pool.thresholds
                self.pool = self.pool._replace(
                    blocks=_longer(blocks, room), thresholds=_longer(thresholds, room)
                )
        self.pool.thresholds[link] = threshold
        return link

    def remove_link(self, link: int) -> list[Change]:
        """Forget a link and its contexts; its groups are gone."""
        changes = self.apply(link, [Change(i, None) for i, _ in list(self.contexts(link))])
        self._free_links.append(link)
        return changes

    def set_threshold(self, link: int, threshold: float) -> None:
        """From now on; groups that are there stay as they are."""
        self.pool.thresholds[link] = require_threshold(threshold)

    # changing --------------------------------------------------------------------------------

    def apply(
        self, link: int, operations: list[Change], threshold: float | None = None
    ) -> list[Change]:
        """Contexts of a link are now these, or gone; what became of the link's groups.

        A threshold other than the link's holds for these contexts only.
        """
        n = len(operations)
        usual = float(self.pool.thresholds[link])
        self.pool.thresholds[link] = usual if threshold is None else threshold
        numbers = np.zeros((n, 4), np.int64)
        rows = np.zeros((n, self.space.n_columns))
        for i, (identity, aggregate, _) in enumerate(operations):
            if aggregate is None:
                numbers[i, :2] = pools.DROP, identity
            else:
                numbers[i, :3] = pools.PUT, identity, aggregate.mask
                rows[i] = aggregate.row
        at = 0
        while at < n:
            self.reserve()
            at = links.apply(self.space.forms, self.pool, link, numbers, rows, at, n)
        self.pool.thresholds[link] = usual
        return self.changes()

    def changes(self) -> list[Change]:
        """What became of the groups that were touched since this was last asked."""
        n = int(self.pool.counts[pools.N_TOUCHED])
        numbers, rows = np.zeros((n, 4), np.int64), np.zeros((n, self.space.n_columns))
        end = links.changes(self.space.forms, self.pool, numbers, rows, 0)
        return [
            Change(g, None if kind == pools.DROP else Aggregate(mask, rows[i]), not was_there)
            for i, (kind, g, mask, was_there) in enumerate(numbers[:end].tolist())
        ]

    def coarsen(self, link: int, threshold: float) -> None:
        """From now on, this threshold; groups that are similar enough join each other."""
        self.set_threshold(link, threshold)
        while not links.coarsen(self.space.forms, self.pool, link):
            self.reserve()

    def dissolve(self, link: int, group: int, threshold: float) -> None:
        """From now on, this threshold; the members of a group are placed anew."""
        self.set_threshold(link, threshold)
        found, m = [], int(self.pool.groups[group, pools.G_HEAD])
        while m != NONE:
            found.append(m)
            m = int(self.pool.members[m, pools.M_NEXT])
        self.pool.groups[group, pools.G_VAIN] = 0
        members, at = np.array(found, np.int64), 0
        while at < len(members):
            self.reserve()
            at = links.dissolve(self.space.forms, self.pool, link, members, at)

    def blame(self, link: int, address: Address, hops: int) -> tuple[int, int, int]:
        """Hops were in vain because of a link's groups: the worst, its hops, its members."""
        filters, given = address.filters, address.given
        g = int(links.blame(self.space.forms, self.pool, link, filters, given, hops))
        if g == NONE:
            return NONE, 0, 0
        vain, n = self.pool.groups[g, [pools.G_VAIN, pools.G_N]].tolist()
        return g, vain, n

    def threshold(self, link: int) -> float:
        """Above which similarity contexts of a link are grouped."""
        return float(self.pool.thresholds[link])

    def reserve(self) -> None:
        """Room for one more operation, and mostly for many."""
        pool, counts = self.pool, self.pool.counts
        n_members, n_groups, n_shapes, n_touched = counts[pools.N_MEMBERS :][:4].tolist()
        if n_members == len(pool.members):
            room = 2 * n_members
            members = _longer_list(pool.members, room, pools.M_NEXT, counts, pools.FREE_MEMBER)
            members[n_members:, pools.M_GROUP] = NONE
            pool = pool._replace(members=members, member_rows=_longer(pool.member_rows, room))
        if n_groups == len(pool.groups):
            room = 2 * n_groups
            groups = _longer_list(pool.groups, room, pools.G_NEXT, counts, pools.FREE_GROUP)
            groups[n_groups:, pools.G_MARK] = NONE
            pool = pool._replace(groups=groups)
        if n_shapes + 2 > len(pool.shapes):
            room = 2 * n_shapes
            blocks = np.zeros((len(pool.blocks), room, 3), np.int32)
            blocks[:, : len(pool.shapes)] = pool.blocks
            pool = pool._replace(blocks=blocks, shapes=_longer(pool.shapes, room))
        if n_touched + 2 > len(pool.touched):
            room = 2 * len(pool.touched)
            touched, rows = _longer(pool.touched, room), _longer(pool.touched_rows, room)
            pool = pool._replace(touched=touched, touched_rows=rows)
        if 2 * (n_members + 1) > len(pool.table):
            pool = pool._replace(table=np.full((2 * len(pool.table), 2), NONE, np.int64))
            pools.rehash(pool)
        self.pool = pool
        spare = 4 * int(counts[pools.LARGEST]) + 8
        if counts[pools.USED] + spare > len(pool.group_rows):
            self._compact(spare)

    def _compact(self, spare: int) -> None:
        """Blocks that moved have left gaps; close them."""
        pool = self.pool
        held = pool.blocks[:, :, pools.B_COUNT] > 0
        room = 2 * int(pool.blocks[:, :, pools.B_ROOM][held].sum()) + spare
        rows, owners = np.zeros((room, self.space.n_columns)), np.zeros(room, np.int32)
        pools.compact(pool, rows, owners)
        self.pool = pool._replace(group_rows=rows, owners=owners)

    # asking ----------------------------------------------------------------------------------

    def may_match(self, link: int, address: Address) -> bool:
        """Whether a group of the link may hold somebody whom the address means."""
        return bool(
            links.any_group(
                self.space.forms, self.pool, link, address.needed, address.filters, address.given
            )
        )

    def matching(self, link: int, address: Address) -> list[int]:
        """Ids of the link's contexts that match, ascending."""
        out = np.empty(int(self.pool.counts[pools.N_MEMBERS]), np.int64)
        n = links.members_meeting(
            self.space.forms, self.pool, link, address.needed, address.filters, address.given,
            out, 0,
        )  # fmt: skip
        found = sorted(out[:n].tolist())
        if not address.tests:
            return found
        return [i for i in found if self.space.passes(self.context(link, i), address)]

    def context(self, link: int, identity: int) -> Aggregate:
        m = pools.find(self.pool, link, identity)
        return Aggregate(int(self.pool.members[m, pools.M_MASK]), self.pool.member_rows[m].copy())

    def groups(self, link: int) -> Iterator[tuple[int, Aggregate]]:
        """Groups of a link with their aggregates."""
        for first, _, count in self.pool.blocks[link].tolist():
            for at in range(first, first + count):
                g = int(self.pool.owners[at])
                mask = int(self.pool.groups[g, pools.G_MASK])
                yield g, Aggregate(mask, self.pool.group_rows[at].copy())

    def members(self, group: int) -> Iterator[tuple[int, Aggregate]]:
        """Ids and values of the contexts in a group."""
        m = int(self.pool.groups[group, pools.G_HEAD])
        while m != NONE:
            identity, mask = self.pool.members[m, [pools.M_ID, pools.M_MASK]].tolist()
            yield identity, Aggregate(mask, self.pool.member_rows[m].copy())
            m = int(self.pool.members[m, pools.M_NEXT])

    def contexts(self, link: int) -> Iterator[tuple[int, Aggregate]]:
        """Ids and values of all contexts of a link."""
        for group, _ in self.groups(link):
            yield from self.members(group)

    def is_loose(self, group: int) -> bool:
        """Whether a group's aggregate may be wider than its members need."""
        return bool(self.pool.groups[group, pools.G_LOOSE])

    def _check(self) -> None:
        """Lists, table and counts agree; aggregates cover members, and are their merge if tight."""
        n_members = n_groups = 0
        for link in range(self._n_links):
            for g, aggregate in self.groups(link):
                n_groups += 1
                pool_row = self.pool.groups[g]
                assert pool_row[pools.G_MARK] == NONE
                assert self.pool.owners[pool_row[pools.G_POSITION]] == g
                assert self.pool.shapes[pool_row[pools.G_SHAPE]] == aggregate.mask
                whole = Aggregate(0, np.zeros(self.space.n_columns))
                members = list(self.members(g))
                assert len(members) == pool_row[pools.G_N] > 0
                for identity, value in members:
                    n_members += 1
                    m = pools.find(self.pool, link, identity)
                    assert m != NONE
                    assert self.pool.members[m, pools.M_GROUP] == g
                    assert self.pool.members[m, pools.M_LINK] == link
                    assert self.space.covers(aggregate, value)
                    whole = self.space.merge(whole, value)
                if not self.is_loose(g):
                    assert self.space.equal(aggregate, whole)
        assert n_members == self.pool.counts[pools.N_MEMBERS]
        assert n_groups == self.pool.counts[pools.N_GROUPS]
        taken = [
            (first, first + room)
            for link in self.pool.blocks.tolist()
            for first, room, count in link
            if count
        ]
        taken.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(taken))
        assert not taken or taken[-1][1] <= self.pool.counts[pools.USED]
        assert n_members == np.count_nonzero(self.pool.table[:, 0] != NONE)
        masks = self.pool.shapes[: self.pool.counts[pools.N_SHAPES]]
        assert len(set(masks.tolist())) == len(masks)


def _free_list(n: int, width: int, link: int) -> NDArray[np.int64]:
    """Entries that are all free, each naming the next."""
    entries = np.zeros((n, width), np.int64)
    entries[:, link] = np.arange(1, n + 1)
    entries[-1, link] = NONE
    return entries


def _longer_list(
    old: NDArray[np.int64], n: int, link: int, counts: NDArray[np.int64], first: int
) -> NDArray[np.int64]:
    """More entries; the new ones are free, the old free ones come behind them."""
    entries = _longer(old, n)
    entries[len(old) :, link] = np.arange(len(old) + 1, n + 1)
    entries[-1, link] = counts[first]
    counts[first] = len(old)
    return entries


def _longer(old: NDArray[T], n: int) -> NDArray[T]:
    fresh = np.zeros((n, *old.shape[1:]), old.dtype)
    fresh[: len(old)] = old
    return fresh
