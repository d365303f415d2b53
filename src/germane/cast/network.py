"""``Network``: a fixed tree of routers in one pool of arrays, drained by a kernel.

The same routers as ``Overlay``'s, for simulations: an update's whole flood is one call, and so is
an addressed message. In: the parent of every router (parents come first), which of them have users.
Out: counters, and who got a message. A link message costs some microseconds, most of it the search
for a similar group. Differs from ``Overlay`` only in which of two equally similar groups is taken.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.cast.groups import THRESHOLD, Groups
from germane.cast.overlay import Counters
from germane.cast.space import Address, Aggregate, Space
from germane.cast.tuning import Tuner, Tuning
from germane.kernels import floods, links, pools
from germane.kernels.aggregates import NONE
from germane.model import InvalidValue

FIRST_ROOM = 1024


class Outcome(NamedTuple):
    """What became of an addressed message."""

    users: NDArray[np.int64]  # ascending
    hops: int
    needed: int  # hops with exact knowledge
    missed: int


class Network:
    """Routers 0, 1, …; users are numbers, each at one router."""

    def __init__(
        self,
        space: Space,
        parents: Sequence[int],
        access: Sequence[bool] | None = None,
        threshold: float = THRESHOLD,
        tuning: Tuning | None = None,
    ) -> None:
        self.parents = np.array(parents, np.int64)
        n = len(self.parents)
        if n == 0 or (self.parents[1:] >= np.arange(1, n)).any() or (self.parents[1:] < 0).any():
            raise InvalidValue("router 0 is the root, and parents come before children")
        self.space, self.groups = space, Groups(space)
        self.counters = Counters()
        self.users = np.full(n, NONE, np.int64)  # the link of users, by router
        self.router_of: dict[int, int] = {}
        self._wire(np.ones(n, bool) if access is None else np.asarray(access, bool), threshold)
        n_links = len(self.wires.back)
        self.tuner: Tuner | None = None
        sent = np.zeros(n_links, np.int64)
        if tuning is not None:
            self.tuner = Tuner(self.groups, tuning)
            for link in range(n_links):
                self.tuner.add_link(link)
            sent = self.tuner.sent
        coarser = np.array([0.0 if tuning is None else tuning.distance])
        self._observed = floods.Observed(sent, np.zeros((n, 2), np.int64), coarser)
        routers = self.wires.router
        ends = np.diff(self.wires.at)[routers]  # links of a link's router
        self._n_others = ends - 1 - ((self.users[routers] != NONE) & (self.wires.back != NONE))
        self._queue = np.zeros((FIRST_ROOM, 4), np.int64)
        self._operations = np.zeros((FIRST_ROOM, 4), np.int64)
        self._rows = np.zeros((FIRST_ROOM, space.n_columns))
        self._state, self._tally = np.zeros(4, np.int64), np.zeros(2, np.int64)
        self._stack = np.zeros((n, 3), np.int64)

    def _wire(self, access: NDArray[np.bool_], threshold: float) -> None:
        """Number the links router by router: to the parent, to children, to users."""
        n = len(self.parents)
        neighbours: list[list[int]] = [[] for _ in range(n)]
        for child, parent in enumerate(self.parents[1:].tolist(), 1):
            neighbours[child].append(parent)
            neighbours[parent].append(child)
        number, router, at = {}, [], [0]
        for r in range(n):
            for other in neighbours[r]:
                number[r, other] = self.groups.add_link(threshold)
                router.append(r)
            if access[r]:
                self.users[r] = number[r, NONE] = self.groups.add_link(threshold)
                router.append(r)
            at.append(len(router))
        back = np.full(len(router), NONE, np.int32)
        for (r, other), link in number.items():
            if other != NONE:
                back[link] = number[other, r]
        self.wires = floods.Wires(back, np.array(router, np.int32), np.array(at, np.int32))

    def __len__(self) -> int:
        return len(self.parents)

    def update(self, user: int, value: Aggregate | None, at: int | None = None) -> int:
        """A user's context is now this, at this router, or gone; link messages that it caused."""
        here = self.router_of.get(user)
        caused = 0
        if here is not None and (value is None or at not in (None, here)):
            caused += self._flood(here, user, None)
            del self.router_of[user]
            here = None
        if value is None:
            return caused
        at = here if at is None else at
        if at is None or self.users[at] == NONE:
            raise InvalidValue(f"user {user} is at {at}, which is no router with users")
        self.router_of[user] = at
        return caused + self._flood(at, user, value)

    def _flood(self, at: int, user: int, value: Aggregate | None) -> int:
        link = int(self.users[at])
        if value is None:
            self._operations[0, :2] = pools.DROP, user
        else:
            if self._is_known(link, user, value):
                return 0
            self._operations[0, :3] = pools.PUT, user, value.mask
            self._rows[0] = value.row
        self.counters.u += len(self) - 1
        self._queue[0] = link, 0, 1, 0
        self._state[:] = 0, 1, 1, 0
        caused = self._drain()
        if self.tuner is not None:
            self._economise(self.tuner)
        return caused

    def _drain(self) -> int:
        """Deliver what is in the queue, and what that causes; link messages."""
        self._tally[:] = 0
        while not floods.flood(
            self.space.forms, self.groups.pool, self.wires, self._queue, self._operations,
            self._rows, self._state, self._tally, self._observed,
        ):  # fmt: skip
            self._make_room()
        messages, operations = self._tally.tolist()
        self.counters.u_a += messages
        self.counters.operations += operations
        return int(messages)

    # tuning ----------------------------------------------------------------------------------

    def _economise(self, tuner: Tuner) -> None:
        """Links whose changes have cost too much become coarser."""
        n = len(self._n_others)
        dear = tuner.sent[:n] >= tuner.price[:n] * self._n_others
        dear &= (self._n_others > 0) & (self.groups.pool.thresholds[: len(dear)] > 0.0)
        for link in np.flatnonzero(dear).tolist():
            tuner.coarsen(link)
            self._tell(link)

    def _tell(self, link: int) -> None:
        """All other neighbours hear what became of a link's groups."""
        n = int(self.groups.pool.counts[pools.N_TOUCHED])
        self._need_operations(n)
        end = links.changes(self.space.forms, self.groups.pool, self._operations, self._rows, 0)
        router = self.wires.router[link]
        others = [
            int(self.wires.back[other])
            for other in range(self.wires.at[router], self.wires.at[router + 1])
            if other != link and self.wires.back[other] != NONE
        ]
        if not end or not others:
            return
        if len(others) > len(self._queue):
            self._queue = np.resize(self._queue, (2 * len(others), 4))
        for i, back in enumerate(others):
            self._queue[i] = back, 0, end, 1
        self._state[:] = 0, len(others), end, 0
        self.counters.u_a += len(others)
        self.counters.operations += end * len(others)
        self._drain()

    def _learn(self, tuner: Tuner, address: Address, n_vain: int) -> None:
        """Groups that caused hops in vain are blamed, and repaired if that pays."""
        for link, hops in self._observed.vain[:n_vain].tolist():
            self.counters.feedback += int(self.wires.back[link] != NONE)
            if tuner.blame(link, address, hops, int(self._n_others[link])):
                self._tell(link)

    def _is_known(self, link: int, user: int, value: Aggregate) -> bool:
        if pools.find(self.groups.pool, link, user) == NONE:
            return False
        return self.space.equal(self.groups.context(link, user), value)

    def _make_room(self) -> None:
        """For the message that comes next."""
        head, tail, n_operations, _ = self._state.tolist()
        link, first, end, _ = self._queue[head].tolist()
        self.groups.reserve()
        router = self.wires.router[link]
        n_links = int(self.wires.at[router + 1] - self.wires.at[router])
        if tail + n_links > len(self._queue):
            self._queue = np.resize(self._queue, (2 * (tail + n_links), 4))
        self._need_operations(n_operations + 2 * (end - first))

    def _need_operations(self, n: int) -> None:
        if n > len(self._operations):
            self._operations = np.resize(self._operations, (2 * n, 4))
            self._rows = np.resize(self._rows, (2 * n, self.space.n_columns))

    def send(self, source: int, address: Address) -> Outcome:
        """A message from a router, compared with exact knowledge."""
        if address.tests:
            raise InvalidValue("a network takes no tests in addresses; use an Overlay")
        forms, pool = self.space.forms, self.groups.pool
        asked = address.needed, address.filters, address.given
        out = np.empty(len(self.router_of), np.int64)
        hops, n_out, n_vain = floods.route(
            forms, pool, self.wires, source, *asked, self._stack, out, self._observed
        )
        users = np.sort(out[:n_out])
        meant = np.empty(len(self.router_of), np.int64)
        marks = np.zeros(len(self), np.int64)
        marks[source] = 1
        n = floods.meant(forms, pool, self.users, *asked, marks, meant)
        needed = floods.spanning(self.parents, marks)
        missed = len(np.setdiff1d(meant[:n], users, assume_unique=True))
        counters = self.counters
        counters.sent += 1
        counters.hops += hops
        counters.m_fp += hops - needed
        counters.false_negatives += missed
        counters.delivered += n_out
        if self.tuner is not None:
            self._learn(self.tuner, address, n_vain)
        return Outcome(users, hops, needed, missed)

    def stats(self) -> dict[str, Any]:
        """Counters, and what was decided."""
        thresholds = self.groups.pool.thresholds[: len(self.wires.back)]
        found: dict[str, Any] = asdict(self.counters)
        found["thresholds"] = {
            f"{value:.2f}": int(n) for value, n in zip(*np.unique(thresholds, return_counts=True),
                                                       strict=True)
        }  # fmt: skip
        return found | (self.tuner.stats() if self.tuner is not None else {})

    def _check(self) -> None:
        """Groups are sound, and a link knows exactly what its other end has told."""
        self.groups._check()
        for link, back in enumerate(self.wires.back.tolist()):
            if back == NONE:
                continue
            r = self.wires.router[back]
            told = {
                group: aggregate
                for other in range(self.wires.at[r], self.wires.at[r + 1])
                if other != back
                for group, aggregate in self.groups.groups(other)
            }
            known = dict(self.groups.contexts(link))
            assert told.keys() == known.keys()
            assert all(self.space.equal(told[group], known[group]) for group in told)
