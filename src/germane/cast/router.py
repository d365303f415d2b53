"""``Router``: a state machine of links; messages in, messages out, nothing else happens.

In: ``Updates`` (contexts that a neighbour knows behind it) and ``Addressed`` messages, each from a
link. Out: (link, message) pairs. A router keeps the groups of every link and tells all other links
of their net changes, in one message for each that came in; it forwards an addressed message where a
group may match. With a tuner, dead ends are told to the router before (``Feedback``). Users are the
link ``USERS``: their groups are told to neighbours like any other, and deliveries are exact.

Correct on any tree if the messages of a link arrive in order: what a link has been told covers, at
all times, every context behind it whose update has passed.
"""

from collections.abc import Hashable
from typing import Any, NamedTuple

from germane.cast.groups import THRESHOLD, Change, Groups
from germane.cast.space import Address, Aggregate, Space
from germane.cast.tuning import Tuner, Tuning
from germane.model import InvalidValue

USERS = "users"
Link = Hashable


class Updates(NamedTuple):
    """Net changes of groups; ids are the sender's group numbers, or users."""

    changes: tuple[Change, ...]
    hops: int = 0  # that they have come


class Addressed(NamedTuple):
    """A message for all whose context matches."""

    address: Address
    payload: Any = None
    alone: int = 0  # hops since its way forked, or somebody was reached


class Feedback(NamedTuple):
    """Nobody was meant at the end of so many hops: your groups of this link are too wide."""

    address: Address
    hops: int


class Delivery(NamedTuple):
    """A message has reached these users."""

    users: tuple[Hashable, ...]
    payload: Any = None


Message = Updates | Addressed | Feedback | Delivery
Sent = list[tuple[Link, Message]]


class Router:
    """Groups of links, and what to tell whom.

    >>> from germane.cast import Number, Where
    >>> router = Router(Space({"age": Number(0, 100)}))
    >>> router.connect("north")
    []
    >>> told = router.update("ann", {"age": 30})
    >>> [(link, len(message.changes)) for link, message in told]
    [('north', 1)]
    >>> router.receive("north", Addressed(router.space.address([Where("age", "<", 40)]), "hello"))
    [('users', Delivery(users=('ann',), payload='hello'))]
    """

    def __init__(
        self, space: Space, threshold: float = THRESHOLD, tuning: Tuning | None = None
    ) -> None:
        self.space = space
        self.threshold = threshold
        self.groups = Groups(space)
        self.tuner = None if tuning is None else Tuner(self.groups, tuning)
        self._links: dict[Link, int] = {}
        self._add(USERS, threshold)
        self._users: dict[Hashable, int] = {}
        self._names: dict[int, Hashable] = {}
        self._next_user = 0

    # links -----------------------------------------------------------------------------------

    @property
    def links(self) -> list[Link]:
        """Links to other routers."""
        return [link for link in self._links if link != USERS]

    def connect(self, link: Link, threshold: float | None = None) -> Sent:
        """A link appears; it is told of all groups of the others."""
        if link in self._links:
            raise InvalidValue(f"the link {link!r} is there already")
        known = [
            Change(group, aggregate, True)
            for other in self._links.values()
            for group, aggregate in self.groups.groups(other)
        ]
        self._add(link, self.threshold if threshold is None else threshold)
        return [(link, Updates(tuple(known)))] if known else []

    def _add(self, link: Link, threshold: float) -> None:
        self._links[link] = self.groups.add_link(threshold)
        if self.tuner is not None:
            self.tuner.add_link(self._links[link])

    def disconnect(self, link: Link) -> Sent:
        """A link vanishes, and with it everybody behind it."""
        if link == USERS:
            raise InvalidValue("the link of users does not vanish; remove the users")
        changes = self.groups.remove_link(self._number(link))
        del self._links[link]
        return self._tell(link, changes)

    def set_threshold(self, link: Link, threshold: float) -> None:
        """For contexts that come from now on."""
        self.groups.set_threshold(self._number(link), threshold)

    def _number(self, link: Link) -> int:
        number = self._links.get(link)
        if number is None:
            raise InvalidValue(f"there is no link {link!r:.200}; there are {list(self._links)}")
        return number

    # messages --------------------------------------------------------------------------------

    def update(self, user: Hashable, context: dict[str, Any] | None) -> Sent:
        """A user's context is now this; None: the user is gone."""
        value = None if context is None else self.space.encode(context)
        return self.receive(USERS, Updates((Change(user, value),)))  # type: ignore[arg-type]

    def send(self, address: Address, payload: Any = None) -> Sent:
        """A message of one of our users, or of whoever is here."""
        return self._forward(None, Addressed(address, payload))

    def receive(self, link: Link, message: Message) -> Sent:
        """A message from a link; those to send now. An error changes nothing."""
        if isinstance(message, Updates):
            return self._update(link, message)
        if isinstance(message, Addressed):
            self._number(link)
            return self._forward(link, message)
        if isinstance(message, Feedback):
            return self._learn(link, message.address, message.hops)
        raise InvalidValue(f"a router takes Updates and Addressed, not {type(message).__name__}")

    def _update(self, link: Link, message: Updates) -> Sent:
        number = self._number(link)
        changes = list(message.changes)
        if link == USERS:
            changes = self._numbered(changes)
        if self.tuner is None:
            return self._tell(link, self.groups.apply(number, changes), message.hops + 1)
        threshold = self.tuner.threshold(number, message.hops)
        sent = self._tell(link, self.groups.apply(number, changes, threshold), message.hops + 1)
        self.tuner.sent[number] += len(sent)
        if self.tuner.is_dear(number, self._n_others(link)):
            self.tuner.coarsen(number)
            sent += self._tell(link, self.groups.changes())
        return sent

    def _learn(self, link: Link, address: Address, hops: int) -> Sent:
        """A link's groups have caused hops in vain."""
        number = self._number(link)
        if self.tuner is None or not self.tuner.blame(number, address, hops, self._n_others(link)):
            return []
        return self._tell(link, self.groups.changes())

    def _n_others(self, link: Link) -> int:
        """Neighbours that hear of a link's changes."""
        return len(self._links) - 1 - (link != USERS)

    def _numbered(self, changes: list[Change]) -> list[Change]:
        """Changes of users, by number."""
        found = []
        for user, value, is_new in changes:
            number = self._users.get(user)
            if value is None:
                if number is not None:
                    del self._users[user], self._names[number]
                    found.append(Change(number, None))
                continue
            if number is None:
                number = self._users[user] = self._next_user
                self._names[number] = user
                self._next_user += 1
            found.append(Change(number, value, is_new))
        return found

    def _tell(self, link: Link, changes: list[Change], hops: int = 1) -> Sent:
        if not changes:
            return []
        message = Updates(tuple(changes), hops)
        return [(other, message) for other in self._links if other not in (link, USERS)]

    def _forward(self, link: Link | None, message: Addressed) -> Sent:
        sent: Sent = []
        address, payload, alone = message
        users = self.groups.matching(self._links[USERS], address)
        ways = [
            other
            for other, number in self._links.items()
            if other not in (USERS, link) and self.groups.may_match(number, address)
        ]
        if users:
            sent.append((USERS, Delivery(tuple(self._names[i] for i in users), payload)))
        onward = Addressed(address, payload, alone + 1 if len(ways) == 1 and not users else 1)
        sent += [(other, onward) for other in ways]
        if sent or link is None or self.tuner is None:
            return sent
        # A dead end: our users' groups are too wide, or those of the router before.
        if self.groups.may_match(self._links[USERS], address):
            return self._learn(USERS, address, alone)
        return [(link, Feedback(address, alone))]

    # asking ----------------------------------------------------------------------------------

    def knows(self, link: Link) -> list[Aggregate]:
        """The aggregates of a link's groups."""
        return [aggregate for _, aggregate in self.groups.groups(self._number(link))]

    def __contains__(self, user: Hashable) -> bool:
        return user in self._users

    def _check(self) -> None:
        self.groups._check()
        contexts = {i for i, _ in self.groups.contexts(self._links[USERS])}
        assert contexts == set(self._names) == set(self._users.values())
