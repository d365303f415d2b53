"""Whose a profile is, and how its matches are delivered: a tenant's books.

Arrays by profile number, so that the deliveries of a batch are put together in columns; dicts only
of what is special. All of it follows from the log; a snapshot keeps it as JSON.
"""

from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from germane.service import holding

NOBODY = -1


class Subscription(NamedTuple):
    """A subscription as the matcher needs it."""

    number: int
    id: str
    subscriber: int
    sink: int | None = None
    urgent: bool = False
    expires: int | None = None
    muted: bool = False
    snoozed_until: int | None = None

    @property
    def plain(self) -> bool:
        """Whether its matches are delivered at once, and by nothing but the feed."""
        return self[3:] == (None, False, None, False, None)


class Whose(NamedTuple):
    """Whose some profiles are at a moment, and how their matches are delivered: parallel arrays,
    and what is special among them."""

    people: NDArray[np.int32]
    special: NDArray[np.bool_]
    subscriptions: dict[int, Subscription]  # those that are not plain, by number
    wishes: dict[int, holding.Preferences]  # subscriber -> preferences


class Books:
    """Subscribers, sinks and subscriptions of a tenant."""

    def __init__(self) -> None:
        self.next_number = 0
        self.by_id: dict[str, int] = {}  # active subscriptions: id -> number
        self.refused: dict[str, int] = {}  # those that the filter did not take: id -> number
        self.special: dict[int, Subscription] = {}  # those that are not plain, by number
        self.owner: NDArray[np.int32] = np.full(64, NOBODY, np.int32)  # number -> subscriber
        self.is_special: NDArray[np.bool_] = np.zeros(64, np.bool_)  # or its subscriber has wishes
        self.matches: NDArray[np.int64] = np.zeros(64, np.int64)
        self.subscribers: dict[str, int] = {}
        self.wishes: dict[int, holding.Preferences] = {}
        self.wishes_as_text: dict[int, str] = {}
        self.sinks: dict[str, int] = {}
        self.graphs: dict[str, str] = {}  # attribute -> the one that its graph is named after

    # subscriptions -------------------------------------------------------------------------------

    def new_numbers(self, n: int) -> range:
        """Numbers for some new profiles."""
        first = self.next_number
        self.next_number += n
        while self.next_number > len(self.owner):
            self.owner = np.concatenate([self.owner, np.full_like(self.owner, NOBODY)])
            self.is_special = np.concatenate([self.is_special, np.zeros_like(self.is_special)])
            self.matches = np.concatenate([self.matches, np.zeros_like(self.matches)])
        return range(first, self.next_number)

    def own(self, subscription: Subscription) -> None:
        """Remember an active subscription."""
        self.by_id[subscription.id] = subscription.number
        self.owner[subscription.number] = subscription.subscriber
        self._mark(subscription)

    def _mark(self, subscription: Subscription) -> None:
        number = subscription.number
        if subscription.plain:
            self.special.pop(number, None)
        else:
            self.special[number] = subscription
        self.is_special[number] = not subscription.plain or subscription.subscriber in self.wishes

    def refuse(self, subscription: Subscription) -> None:
        """Remember a subscription that the filter did not take, until it is replaced or ended."""
        self.refused[subscription.id] = subscription.number
        self.owner[subscription.number] = subscription.subscriber

    def owner_of(self, id_: str) -> int:
        """Whose a subscription is, active or refused; nobody's if there is none."""
        number = self.by_id.get(id_, self.refused.get(id_))
        return NOBODY if number is None else int(self.owner[number])

    def end(self, id_: str) -> int | None:
        """Forget a subscription; its number, if there was one."""
        number = self.by_id.pop(id_, None)
        if number is not None:
            self.special.pop(number, None)
            self.is_special[number] = False
        return number

    def known(self, id_: str) -> Subscription | None:
        """An active subscription by its id, if there is one."""
        number = self.by_id.get(id_)
        return None if number is None else self.subscription(number)

    def change(self, id_: str, muted: bool, snoozed_until: int | None) -> Subscription:
        """Mute or snooze a subscription, or neither."""
        found = self.known(id_)
        if found is None:
            raise LookupError(f"there is no subscription {id_!r}")
        changed = found._replace(id=id_, muted=muted, snoozed_until=snoozed_until)
        self._mark(changed)
        return changed

    def subscription(self, number: int) -> Subscription:
        """A subscription by its number; a plain one without its id."""
        found = self.special.get(number)
        return found or Subscription(number, "", int(self.owner[number]))

    def whose(self, profiles: NDArray[np.int64]) -> Whose:
        """Whose profiles are now: it stays so, whatever becomes of the books."""
        people, special = self.owner[profiles], self.is_special[profiles]
        if not special.any():
            return Whose(people, special, {}, {})
        numbers = np.unique(profiles[special]).tolist()
        who = np.unique(people[special]).tolist()
        return Whose(
            people,
            special,
            {n: self.special[n] for n in numbers if n in self.special},
            {p: self.wishes[p] for p in who if p in self.wishes},
        )

    @property
    def active(self) -> list[int]:
        """The numbers of the active subscriptions, ascending."""
        return sorted(self.by_id.values())

    def count(self, profiles: NDArray[np.int64]) -> None:
        """Count matches."""
        counts = np.bincount(profiles)
        self.matches[: len(counts)] += counts

    # people and sinks ----------------------------------------------------------------------------

    def subscriber(self, name: str) -> tuple[int, bool]:
        """A subscriber's number, and whether it is new."""
        return _number(self.subscribers, name)

    def sink(self, url: str) -> tuple[int, bool]:
        """A sink's number, and whether it is new."""
        return _number(self.sinks, url)

    def set_wishes(self, subscriber: int, wishes: holding.Preferences, text: str) -> None:
        """How a subscriber wants deliveries from now on."""
        if wishes == holding.NONE:
            self.wishes.pop(subscriber, None)
            self.wishes_as_text.pop(subscriber, None)
        else:
            self.wishes[subscriber] = wishes
            self.wishes_as_text[subscriber] = text
        for number in np.flatnonzero(self.owner[: self.next_number] == subscriber).tolist():
            self.is_special[number] = number in self.special or subscriber in self.wishes

    # graphs --------------------------------------------------------------------------------------

    @property
    def main_graphs(self) -> list[str]:
        """The attributes that graphs are named after."""
        return sorted(set(self.graphs.values()))

    def graph_names(self, attribute: str) -> frozenset[str]:
        """The attributes that share a graph, which is named after one of them."""
        return frozenset(name for name, main in self.graphs.items() if main == attribute)

    def set_graph(self, attribute: str, names: frozenset[str]) -> None:
        """Some attributes have a graph now."""
        rest = {n: m for n, m in self.graphs.items() if m != attribute and n not in names}
        heirs = {m: n for n, m in sorted(rest.items(), reverse=True)}  # of names that go elsewhere
        self.graphs = {n: m if m in rest else heirs[m] for n, m in rest.items()}
        self.graphs |= dict.fromkeys(sorted(names), attribute)

    # snapshots -----------------------------------------------------------------------------------

    def to_json(self) -> bytes:
        """All of it."""
        n = self.next_number
        return msgspec.json.encode(
            {
                "next_number": n,
                "by_id": self.by_id,
                "refused": self.refused,
                "special": list(self.special.values()),
                "owner": self.owner[:n].tolist(),
                "matches": self.matches[:n].tolist(),
                "subscribers": list(self.subscribers),
                "wishes": list(self.wishes_as_text.items()),
                "sinks": list(self.sinks),
                "graphs": self.graphs,
            }
        )

    @classmethod
    def from_json(cls, text: bytes) -> "Books":
        """What ``to_json`` gave."""
        state: dict[str, Any] = msgspec.json.decode(text)
        books = cls()
        books.new_numbers(state["next_number"])
        books.by_id = state["by_id"]
        books.refused = state.get("refused", {})
        books.subscribers = {name: i for i, name in enumerate(state["subscribers"])}
        books.sinks = {url: i for i, url in enumerate(state["sinks"])}
        books.graphs = state["graphs"]
        n = books.next_number
        books.owner[:n] = state["owner"]
        books.matches[:n] = state["matches"]
        for values in state["special"]:
            books._mark(Subscription(*values))
        for subscriber, wishes in state["wishes"]:
            books.set_wishes(subscriber, holding.preferences(msgspec.json.decode(wishes)), wishes)
        return books


def _number(numbers: dict[str, int], name: str) -> tuple[int, bool]:
    number = numbers.get(name)
    if number is not None:
        return number, False
    numbers[name] = len(numbers)
    return numbers[name], True
