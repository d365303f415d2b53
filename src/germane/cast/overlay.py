"""``Overlay``: a tree of routers in one process; messages travel in order until none is left.

For tests, small simulations and for looking at. It knows everything, so it counts what no router
can: hops beyond those of exact knowledge, and users who were missed (never any).
"""

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from germane.cast.groups import THRESHOLD
from germane.cast.router import USERS, Addressed, Delivery, Link, Router, Sent, Updates
from germane.cast.space import Address, Aggregate, Space, Where
from germane.cast.tuning import Tuning
from germane.model import InvalidValue, UnknownContext

Name = Hashable


@dataclass
class Counters:
    """What an overlay has seen."""

    u: int = 0  # link messages of updates without aggregation: each floods every wire
    u_a: int = 0  # with it; all changes that one message causes count once a link
    operations: int = 0  # changes of groups in those
    sent: int = 0  # addressed messages
    hops: int = 0  # of addressed messages
    m_fp: int = 0  # hops beyond those of exact knowledge
    false_negatives: int = 0
    delivered: int = 0
    feedback: int = 0  # dead ends that were told to the router before


class Overlay:
    """Routers, wires between them, users at routers.

    >>> from germane.cast import Number
    >>> overlay = Overlay(Space({"age": Number(0, 100)}))
    >>> overlay.add("a"), overlay.add("b"), overlay.connect("a", "b")
    (None, None, None)
    >>> overlay.update("ann", {"age": 30}, at="b")
    >>> overlay.send("a", [Where("age", ">", 18)])
    ['ann']
    """

    def __init__(
        self, space: Space, threshold: float = THRESHOLD, tuning: Tuning | None = None
    ) -> None:
        self.space, self.threshold, self.tuning = space, threshold, tuning
        self.routers: dict[Name, Router] = {}
        self.counters = Counters()
        self._at: dict[Hashable, Name] = {}
        self._contexts: dict[Hashable, Aggregate] = {}
        self._on_the_way: deque[tuple[Name, Link, Any]] = deque()
        self._delivered: list[Hashable] = []

    # the tree --------------------------------------------------------------------------------

    def add(self, name: Name) -> None:
        """A router without wires."""
        if name in self.routers:
            raise InvalidValue(f"there is a router {name!r} already")
        self.routers[name] = Router(self.space, self.threshold, self.tuning)

    def connect(self, a: Name, b: Name) -> None:
        """A wire appears; it may not close a ring."""
        if b in self._reach(a):
            raise InvalidValue(f"a wire from {a!r} to {b!r} would close a ring")
        told = [(a, self._router(a).connect(b)), (b, self._router(b).connect(a))]
        for name, sent in told:
            self._dispatch(name, sent)
        self._drain()

    def disconnect(self, a: Name, b: Name) -> None:
        """A wire vanishes."""
        told = [(a, self._router(a).disconnect(b)), (b, self._router(b).disconnect(a))]
        for name, sent in told:
            self._dispatch(name, sent)
        self._drain()

    def remove(self, name: Name) -> None:
        """A router vanishes with its wires and users."""
        for other in self._router(name).links:
            self.disconnect(name, other)
        for user in [user for user, at in self._at.items() if at == name]:
            del self._at[user], self._contexts[user]
        del self.routers[name]

    def _router(self, name: Name) -> Router:
        if name not in self.routers:
            raise InvalidValue(f"there is no router {name!r:.200}")
        return self.routers[name]

    def _reach(self, start: Name) -> dict[Name, Name]:
        """Everybody whom wires connect with a router, and by whom they were reached."""
        via = {start: start}
        queue = [start]
        for name in queue:
            for other in self._router(name).links:
                if other not in via:
                    via[other] = name
                    queue.append(other)
        return via

    # contexts --------------------------------------------------------------------------------

    def update(
        self, user: Hashable, context: dict[str, Any] | None, at: Name | None = None
    ) -> None:
        """A user's context is now this, at this router; None: the user is gone."""
        here = self._at.get(user)
        if at is None:
            at = here
        if at is None:
            raise UnknownContext(f"{user!r:.200} is nowhere; say at which router")
        router = self._router(at)
        if context is None:
            self._move(here, user, None)
            self._at.pop(user, None)
            self._contexts.pop(user, None)
            return
        value = self.space.encode(context)
        if here is not None and here != at:
            self._move(here, user, None)
        if at != here or not self.space.equal(self._contexts[user], value):
            self.counters.u += len(self._reach(at)) - 1
        self._at[user], self._contexts[user] = at, value
        self._dispatch(at, router.update(user, context))
        self._drain()

    def _move(self, here: Name | None, user: Hashable, context: None) -> None:
        if here is None:
            return
        self.counters.u += len(self._reach(here)) - 1
        self._dispatch(here, self.routers[here].update(user, context))
        self._drain()

    # messages --------------------------------------------------------------------------------

    def send(
        self, source: Name, address: Address | Iterable[Where], payload: Any = None
    ) -> list[Hashable]:
        """Who gets a message that is injected at a router."""
        if not isinstance(address, Address):
            address = self.space.address(address)
        before = self.counters.hops
        self._delivered = []
        self.counters.sent += 1
        self._dispatch(source, self._router(source).send(address, payload))
        self._drain()
        self._judge(source, address, self.counters.hops - before)
        return self._delivered

    def _judge(self, source: Name, address: Address, hops: int) -> None:
        """Compare with exact knowledge."""
        via = self._reach(source)
        meant = {
            user
            for user, value in self._contexts.items()
            if self._at[user] in via and self.space.matches(value, address)
        }
        needed: set[Name] = set()
        for user in meant:
            name = self._at[user]
            while name != source and name not in needed:
                needed.add(name)
                name = via[name]
        self.counters.m_fp += hops - len(needed)
        self.counters.false_negatives += len(meant - set(self._delivered))
        self.counters.delivered += len(self._delivered)

    def _dispatch(self, name: Name, sent: Sent) -> None:
        for link, message in sent:
            if link == USERS:
                assert isinstance(message, Delivery)
                self._delivered += message.users
                continue
            if isinstance(message, Updates):
                self.counters.u_a += 1
                self.counters.operations += len(message.changes)
            elif isinstance(message, Addressed):
                self.counters.hops += 1
            else:
                self.counters.feedback += 1
            self._on_the_way.append((link, name, message))

    def _drain(self) -> None:
        while self._on_the_way:
            name, link, message = self._on_the_way.popleft()
            self._dispatch(name, self.routers[name].receive(link, message))

    def stats(self) -> dict[str, int]:
        """Counters, and what routers have decided."""
        tuners = [router.tuner for router in self.routers.values() if router.tuner is not None]
        decided = {
            name: sum(tuner.stats()[name] for tuner in tuners)
            for name in (tuners[0].stats() if tuners else ())
        }
        return asdict(self.counters) | decided

    def _check(self) -> None:
        for name, router in self.routers.items():
            router._check()
            for link in router.links:
                other = self.routers[link]
                told = {
                    group: aggregate
                    for number in (n for to, n in other._links.items() if to != name)
                    for group, aggregate in other.groups.groups(number)
                }
                known = dict(router.groups.contexts(router._links[link]))
                assert told.keys() == known.keys()
                assert all(self.space.equal(told[group], known[group]) for group in told)
