"""One tenant in the matcher: its filter and its books, played from the log.

In: entries of the log, in order. Out: a ``Step``: matches (seq, profile) in columns, what was not
taken, and what changed in the books. All of a tenant's state follows from its entries, so that
playing them again, from the beginning or from a snapshot, gives the same. A profile is known to the
filter by its number, counted up with every subscription that is logged.

A tenant may have a ``Share`` of its profiles in the filter. It takes every entry all the same:
types, contexts, graphs and books are those of the whole, and so is what it refuses; only what it
matches is its share.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from germane import ContentGraph
from germane.filter.deliveries import Deliveries
from germane.model import GermaneError
from germane.model.errors import BatchError
from germane.service import holding
from germane.service import log as logs
from germane.service.books import NOBODY, Books, Subscription, Whose
from germane.service.cloudevents import TYPES, events_of, message_attributes
from germane.service.columns import Gathered
from germane.service.log import Stored
from germane.service.regraph import edges_of, new_filter, with_graphs
from germane.service.subscriptions import OWN, Condition, condition_of


class Share(NamedTuple):
    """Some of a tenant's profiles: those whose number leaves a remainder."""

    number: int
    of: int

    def keeps(self, profile: int) -> bool:
        """Whether a profile is in it."""
        return profile % self.of == self.number


WHOLE, NOTHING = Share(0, 1), Share(-1, 1)

Texts = Callable[[int, list[int]], dict[int, str]]
"""(tenant, numbers of subscriptions) -> their bodies, as the store has them."""


Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Seqs of messages and profiles that they match, ascending."""


class Matched(NamedTuple):
    """What some messages match: parallel arrays, ascending by seq, then by profile.

    Whose the profiles are is told of the moment of the messages: entries after them, of the same
    step, may end or change a subscription before anything is delivered.
    """

    seqs: NDArray[np.int64]
    profiles: NDArray[np.int64]
    whose: Whose
    urgent: frozenset[int]  # seqs
    expires: dict[int, int]  # seq -> microseconds


class Dead(NamedTuple):
    """An event that was not taken."""

    seq: int
    kind: str
    reason: str


class Registered(NamedTuple):
    """A subscription that was logged, and why the filter refused it, if it did."""

    subscription: Subscription
    seq: int
    reason: str | None
    body: str


class Step:
    """What some entries of a tenant did, until it is written."""

    def __init__(self) -> None:
        self.matched: list[Matched] = []
        self.dead: list[Dead] = []
        self.registered: list[Registered] = []
        self.ended: list[int] = []  # numbers
        self.changed: list[Subscription] = []
        self.subscribers: list[tuple[int, str]] = []  # new ones
        self.sinks: list[tuple[int, str]] = []  # new ones
        self.wishes: dict[int, str] = {}  # subscriber -> preferences as JSON
        self.reheld: set[int] = set()  # subscribers whose held deliveries are looked at again
        self.feedback: list[tuple[int, int, bool | None, int]] = []  # delivery, seq, relevant, at
        self.graphs: set[str] = set()  # attributes whose graph changed
        self.ats: list[tuple[int, int]] = []  # first seq of entries -> when they were accepted
        self.n_events = 0
        self.n_messages = 0


class Tenant:
    """A tenant's filter and books, at some seq."""

    def __init__(self, number: int, index: str, texts: Texts, share: Share = WHOLE) -> None:
        self.number = number
        self.share = share
        self.seq = 0  # everything up to it is in the filter and in the books
        self.filter = new_filter(index)
        self.books = Books()
        self.texts = texts
        self.figures: list[dict[str, int]] = []  # of shares elsewhere, as they told last
        self.poison: set[int] = set()  # seqs of events that broke the filter: passed over

    def play(
        self, entries: list[Stored], told: Pairs | None = None, step: Step | None = None
    ) -> Step:
        """Take entries that follow on ``seq``; ``told`` is what shares elsewhere match in them, and
        ``step`` what entries before them did that is not written yet."""
        step = Step() if step is None else step
        run: list[Stored] = []
        for entry in entries:
            if entry.n == 1 and entry.seq in self.poison:
                continue
            if run and entry.kind != run[0].kind:
                self._play_run(run, step, told)
                run = []
            run.append(entry)
            step.ats.append((entry.seq, entry.at))
        if run:
            self._play_run(run, step, told)
        self.seq = max(self.seq, entries[-1].last)  # the last ones may be passed over
        return step

    def _play_run(self, run: list[Stored], step: Step, told: Pairs | None) -> None:
        kind = run[0].kind
        if kind == logs.EVENTS:
            self._events(run, step, told)
        elif kind == logs.SUBSCRIBE:
            self._subscribe(run, step)
        else:
            for entry in run:
                try:
                    self._single(entry, msgspec.json.decode(entry.body), step)
                except (GermaneError, LookupError, TypeError, ValueError) as error:
                    step.dead.append(Dead(entry.seq, kind, _words(error)))
        step.n_events += sum(entry.n for entry in run)
        self.seq = run[-1].last

    def _events(self, run: list[Stored], step: Step, told: Pairs | None) -> None:
        unread = TYPES.keys() - self.filter.reads
        gathered = Gathered(self.books.graphs, self.filter.context_attributes, unread)
        for entry in run:
            events = events_of(entry.body)
            skip = max(self.seq + 1 - entry.seq, 0)  # taken before, with a part of the entry
            for first, part in self._healthy(entry.seq + skip, events[skip:] if skip else events):
                gathered.add(first, part)
        found = self.filter.process(gathered.table()) if len(gathered) else Deliveries()
        step.n_messages += gathered.n_messages
        step.dead += [Dead(r.seq, "event", r.reason) for r in gathered.refused]
        step.dead += [Dead(int(r.seq or 0), "event", _words(r.reason)) for r in found.rejected]
        seqs, profiles = _pairs(found) if told is None else _within(told, run[0].seq, run[-1].last)
        if not len(seqs):
            return
        self.books.count(profiles)
        whose = self.books.whose(profiles)
        step.matched.append(
            Matched(seqs, profiles, whose, frozenset(gathered.urgent), gathered.expires)
        )

    def _healthy(self, first: int, events: list[Any]) -> list[tuple[int, list[Any]]]:
        """Events in parts, each with its first seq, without those that break the filter."""
        if not self.poison:
            return [(first, events)]
        return [(s, [e]) for s, e in enumerate(events, first) if s not in self.poison]

    # subscriptions -------------------------------------------------------------------------------

    def _subscribe(self, run: list[Stored], step: Step) -> None:
        """A run of subscriptions, registered together where no id comes twice."""
        batch: list[tuple[Stored, dict[str, Any]]] = []
        seen: set[str] = set()
        for entry in run:
            body = msgspec.json.decode(entry.body)
            if body["id"] in seen:
                self._register(batch, step)
                batch, seen = [], set()
            seen.add(body["id"])
            batch.append((entry, body))
        self._register(batch, step)

    def _register(self, batch: list[tuple[Stored, dict[str, Any]]], step: Step) -> None:
        batch = [(entry, body) for entry, body in batch if self._may_replace(entry, body, step)]
        replaced = [self.books.known(body["id"]) for _, body in batch]
        for _, body in batch:
            self._end(body["id"], step)
        numbers = self.books.new_numbers(len(batch))
        reasons = self._add(numbers, [body for _, body in batch])
        for number, (entry, body), old in zip(numbers, batch, replaced, strict=True):
            subscriber = self._subscriber(body["subscriber"], step)
            sink = self._sink(body["sink"], step) if body.get("sink") else None
            subscription = Subscription(
                number, body["id"], subscriber, sink, bool(body.get("urgent")),
                holding.moment(body.get("expires")),
            )  # fmt: skip
            if old is not None and old.subscriber == subscriber:
                subscription = subscription._replace(
                    muted=old.muted, snoozed_until=old.snoozed_until
                )
            if number in reasons:
                self.books.refuse(subscription)
            else:
                self.books.own(subscription)
            step.registered.append(
                Registered(subscription, entry.seq, reasons.get(number), entry.body.decode())
            )

    def _may_replace(self, entry: Stored, body: dict[str, Any], step: Step) -> bool:
        """Whether an id is free for whoever asked; two may have asked for it at once."""
        owner = self.books.owner_of(body["id"])
        mine = self.books.subscribers.get(body["subscriber"])
        if body.get("replaces") != OWN or owner in (NOBODY, mine):
            return True
        step.dead.append(Dead(entry.seq, logs.SUBSCRIBE, f"the id {body['id']!r} is taken"))
        return False

    def _may_change(self, id_: str, body: dict[str, Any]) -> None:
        """Refuse to end or mute what became somebody else's since they asked who may do that."""
        owner = self.books.owner_of(id_)
        if body.get("of") is not None and owner != self.books.subscribers.get(body["of"], NOBODY):
            raise LookupError(f"there is no subscription {id_!r}")

    def _add(self, numbers: range, bodies: list[dict[str, Any]]) -> dict[int, str]:
        """Register profiles; number -> why it was refused."""
        reasons: dict[int, str] = {}
        fine: list[tuple[int, Condition, Any]] = []
        for number, body in zip(numbers, bodies, strict=True):
            try:
                fine.append((number, condition_of(body), body.get("context")))
            except GermaneError as error:
                reasons[number] = str(error)
        if fine:
            keeps = self.share.keeps
            try:
                self.filter._profiles.add(
                    [n for n, _, _ in fine],
                    [condition.text for _, condition, _ in fine],
                    [context for _, _, context in fine],
                    [condition.dialect for _, condition, _ in fine],
                    None if self.share == WHOLE else [keeps(n) for n, _, _ in fine],
                )
            except BatchError as errors:
                for k, _, why in errors.errors:
                    reasons[fine[k][0]] = str(why)
            except GermaneError as error:
                reasons[fine[0][0]] = str(error)
        return reasons

    def _end(self, id_: str, step: Step) -> bool:
        """End a subscription; whether there was one."""
        number = self.books.refused.pop(id_, None)
        if number is not None:  # the filter does not have it
            step.ended.append(number)
            return True
        number = self.books.end(id_)
        if number is None:
            return False
        if self.share.keeps(number):
            self.filter.unsubscribe(number)
        step.ended.append(number)
        return True

    def _subscriber(self, name: str, step: Step) -> int:
        number, new = self.books.subscriber(name)
        if new:
            step.subscribers.append((number, name))
        return number

    def _sink(self, url: str, step: Step) -> int:
        number, new = self.books.sink(url)
        if new:
            step.sinks.append((number, url))
        return number

    # everything else -----------------------------------------------------------------------------

    def _single(self, entry: Stored, body: dict[str, Any], step: Step) -> None:
        if entry.kind == logs.UNSUBSCRIBE:
            self._may_change(body["id"], body)
            if not self._end(body["id"], step):
                raise LookupError(f"there is no subscription {body['id']!r}")
        elif entry.kind == logs.GRAPH:
            self._graph(body, step)
        elif entry.kind == logs.SETTINGS:
            self._settings(body, step)
        elif entry.kind == logs.FEEDBACK:
            self._feedback(entry, body, step)
        else:
            raise ValueError(f"unknown kind {entry.kind!r}")

    def _graph(self, body: dict[str, Any], step: Step) -> None:
        attribute = body["attribute"]
        if "set" not in body:
            if attribute not in self.books.graphs:
                raise LookupError(f"there is no graph {attribute!r}; PUT it first")
            attribute = self.books.graphs[attribute]
            links, unlinks = (
                [(a, b) for a, b in body.get(name) or ()] for name in ("links", "unlinks")
            )
            self.filter.change_graph(attribute, links, unlinks)
        else:
            names = frozenset((attribute, *(body.get("attributes") or ())))
            self._set_graph(attribute, names, [(a, b) for a, b in body["set"]], step)
        step.graphs.add(attribute)

    def _set_graph(
        self, attribute: str, names: frozenset[str], edges: list[tuple[str, str]], step: Step
    ) -> None:
        """Give attributes a graph: as a difference if they have one, else by building anew."""
        if self.books.graph_names(attribute) == names:
            old, new = set(edges_of(self.filter, attribute)), set(edges)
            self.filter.change_graph(attribute, sorted(new - old), sorted(old - new))
            return
        graphs: dict[str, ContentGraph] = {}
        for main in self.books.main_graphs:
            if main != attribute:  # a name of its own that is not named again has none any more
                graph = ContentGraph.from_edges(edges_of(self.filter, main))
                graphs |= dict.fromkeys(self.books.graph_names(main), graph)
        graphs |= dict.fromkeys(names, ContentGraph.from_edges(edges))
        numbers = self.books.active
        bodies = self.texts(self.number, numbers)
        bodies |= {r.subscription.number: r.body for r in step.registered}
        wanted = {n: bodies[n] for n in numbers}
        self.filter = with_graphs(self.filter, graphs, wanted, self.share.keeps)
        step.graphs.update(self.books.main_graphs)  # they may have lost attributes to this one
        self.books.set_graph(attribute, names)
        step.graphs.update(self.books.main_graphs)

    def _settings(self, body: dict[str, Any], step: Step) -> None:
        if "subscription" in body:
            self._may_change(body["subscription"], body)
            changed = self.books.change(
                body["subscription"], bool(body["muted"]), holding.moment(body["snoozed_until"])
            )
            step.changed.append(changed)
            step.reheld.add(changed.subscriber)
            return
        wishes = holding.preferences(body["preferences"])
        subscriber = self._subscriber(body["subscriber"], step)
        text = msgspec.json.encode(body["preferences"]).decode()
        self.books.set_wishes(subscriber, wishes, text)
        step.wishes[subscriber] = text
        step.reheld.add(subscriber)

    def _feedback(self, entry: Stored, body: dict[str, Any], step: Step) -> None:
        relevant = body["relevant"]
        step.feedback.append((body["delivery"], entry.seq, relevant, entry.at))
        if relevant is None:  # it was taken back
            return
        for id_, event in body["matched"]:
            number = self.books.by_id.get(id_)
            if number is not None and event is not None and self.share.keeps(number):
                message = message_attributes(event, self.books.graphs)
                if "document" in message:
                    self.filter.feedback(number, message, relevant)


def _pairs(found: Deliveries) -> Pairs:
    if not len(found):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    pairs = found.to_arrow()
    return pairs["seq"].to_numpy(), pairs["profile"].to_numpy()


def _within(pairs: Pairs, first: int, last: int) -> Pairs:
    """The pairs of some seqs."""
    seqs, profiles = pairs
    begin, end = np.searchsorted(seqs, [first, last + 1])
    return seqs[begin:end], profiles[begin:end]


def _words(error: Exception) -> str:
    return str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
