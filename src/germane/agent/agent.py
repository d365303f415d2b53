"""``Agent``: one person's user agent. Feedback and contexts in, subscriptions and reasons out.

A device has a context. The agent turns what was learned into subscriptions, conditions of germane's
language, for the context each device is in and the ones it was in lately. Every condition begins
with a guard, ``context.situation = '…'``, and ``situation`` is set by the same update that changes
the context: the filter itself changes from one set of subscriptions to the other, between two
messages, and no message meets those of another context.

    move(context, device)     -> ``Changes``: subscribe, then update, then unsubscribe
    feedback(message, kind)   -> ``Changes``
    choose, score, explain    for an inbox
    pin, mute, release, undo  the person decides
    export, erase             the person's own; ``state`` is plain JSON, for the constructor

Nothing is stored or sent here. ``Changes.apply(filter)`` does it for a filter in this process.
"""

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from germane.agent.interests import DOUBTED, Interests, Rule
from germane.agent.pieces import Cell, Piece, facets_of, piece_of
from germane.category import ContentGraph
from germane.model import InvalidValue

__all__ = ["Agent", "Changes", "Subscription"]

LIKED = 0.5  # topics of this probability are subscribed to
MOST_TOPICS = 30  # of a subscription
MOST_DEVICES = 20
RECENT = 4  # situations a device keeps subscriptions of
EXPLORED = 2  # topics subscribed to, to find out
BROAD = 0.1  # of the graph, at most, below a topic that is explored
DRAWN = 200  # topics among which those are chosen
JOURNAL = 100  # actions that can be undone
FIND_OUT, STIRRED = 3, 2  # one in so many is shown to find out: always; after a taste ended
SITUATION = "situation"


class Subscription(NamedTuple):
    """A condition, whose context it reads, and why."""

    id: str
    condition: str
    context: str
    why: str


class Changes(NamedTuple):
    """What is to be done, in this order."""

    subscribe: list[Subscription]
    update: dict[str, dict[str, Any]]  # context -> values; None removes
    unsubscribe: list[str]

    def apply(self, target: Any) -> None:
        """Do it to a ``Filter``, or to whatever has its three methods.

        A subscription that only changes goes before it comes again; no message is between the two,
        unless the caller lets one in.
        """
        gone = set(self.unsubscribe)
        for row in self.subscribe:
            if row.id in gone:
                target.unsubscribe(row.id)
            target.subscribe(row.id, row.condition, context=row.context)
        for context, values in self.update.items():
            target.update(context, values)
        for row_id in gone - {row.id for row in self.subscribe}:
            target.unsubscribe(row_id)


class Agent:
    """A person's agent.

    >>> topics = ContentGraph.from_edges([("Top", "Baseball"), ("Top", "Jazz"), ("Top", "Tax")])
    >>> ann = Agent("ann", topics)
    >>> _ = ann.move({"task": "lunch"})
    >>> for i in range(4):
    ...     changes = ann.feedback({"id": i, "topic": ["Baseball"]}, "kept")
    >>> ann.explain(["Baseball"])
    'because you kept 4 of 4 Baseball items at lunch'
    """

    def __init__(
        self,
        user: str,
        topics: ContentGraph,
        places: ContentGraph | None = None,
        state: Mapping[str, Any] | None = None,
        nearby: bool = False,
    ) -> None:
        """``nearby``: of messages that have a place, only those whose place holds the person's."""
        state = state or {}
        if state and state.get("user") != user:
            raise InvalidValue(f"this is the state of {state.get('user')!r:.100}, not of {user!r}")
        self.user = user
        self._nearby = nearby
        trees = {"place": places} if places is not None else {}
        pieces = [_piece(row) for row in state.get("pieces", ())]
        self.interests = Interests(topics, trees, pieces)
        self._pinned: dict[str, Cell] = _choices(state.get("pinned", ()))
        self._muted: dict[str, Cell] = _choices(state.get("muted", ()))
        self._journal: list[list[Any]] = [list(row) for row in state.get("journal", ())]
        self._devices: dict[str, list[dict[str, Any]]] = {
            device: [dict(row) for row in rows] for device, rows in state.get("devices", {}).items()
        }  # contexts, the latest last
        self._standing: dict[str, str] = dict(state.get("standing", {}))

    # contexts --------------------------------------------------------------------------------

    def move(self, context: Mapping[str, Any], device: str = "") -> Changes:
        """A device's whole context is now this."""
        if device not in self._devices and len(self._devices) >= MOST_DEVICES:
            raise InvalidValue(f"{self.user!r} has {MOST_DEVICES} devices; leave() one first")
        rows = self._devices.setdefault(device, [])
        before = rows[-1] if rows else {}
        facets = facets_of(context)
        rows[:] = [row for row in rows if facets_of(row) != facets][-RECENT + 1 :] + [dict(context)]
        values: dict[str, Any] = {name: None for name in before if name not in context}
        values |= {**context, SITUATION: _situation(facets)}
        return self._changes({self.context_id(device): values})

    def leave(self, device: str = "") -> Changes:
        """A device is no more."""
        rows = self._devices.pop(device, None)
        if rows is None:
            raise InvalidValue(f"{self.user!r} has no device {device!r:.100}")
        gone: dict[str, Any] = dict.fromkeys(rows[-1])
        return self._changes({self.context_id(device): gone | {SITUATION: None}})

    def context(self, device: str = "") -> dict[str, Any]:
        """What a device's context is; empty for one that was never moved."""
        rows = self._devices.get(device)
        return dict(rows[-1]) if rows else {}

    def devices(self) -> list[str]:
        """Devices that were moved."""
        return list(self._devices)

    def context_id(self, device: str = "") -> str:
        return f"{self.user}/{device}" if device else self.user

    # feedback --------------------------------------------------------------------------------

    def feedback(
        self,
        message: Mapping[str, Any],
        kind: str,
        seconds: float | None = None,
        device: str = "",
        context: Mapping[str, Any] | None = None,
        at: float = 0.0,
    ) -> Changes:
        """Learn from what the person did with a message: opened, kept, dismissed, less.

        ``context`` is the one it was shown in, if that is not the device's any more.
        """
        where = self.context(device) if context is None else context
        topics = _topics(message)
        piece = piece_of(str(message.get("id", "")), topics, where, kind, seconds, at)
        self.interests.add(piece)
        self._note("feedback", _row(piece))
        return self._changes({})

    # the person decides ----------------------------------------------------------------------

    def pin(self, topic: str, where: Mapping[str, Any] | None = None) -> Changes:
        """Always have a topic, or in contexts like this: ``{"task": "work"}``."""
        return self._choose(self._pinned, "pin", topic, where)

    def mute(self, topic: str, where: Mapping[str, Any] | None = None) -> Changes:
        """Never have a topic, or not in contexts like this; it wins over everything."""
        return self._choose(self._muted, "mute", topic, where)

    def release(self, topic: str) -> Changes:
        """Neither pinned nor muted any more."""
        for name, choices in (("pin", self._pinned), ("mute", self._muted)):
            if topic in choices:
                self._note(name, [topic, choices.pop(topic)])
        return self._changes({})

    def _choose(
        self, choices: dict[str, Cell], name: str, topic: str, where: Mapping[str, Any] | None
    ) -> Changes:
        self.interests.topics.node(topic)
        self._note(name, [topic, choices.get(topic)])
        choices[topic] = facets_of(where or {})
        return self._changes({})

    def undo(self) -> Changes:
        """Take back the last feedback, pin, mute or release; with none left, nothing happens."""
        if self._journal:
            name, before = self._journal.pop()
            if name == "feedback":
                piece = _piece(before)
                if piece in self.interests.pieces:
                    self.interests.remove(piece)
            else:
                choices = self._pinned if name == "pin" else self._muted
                choices.pop(before[0], None)
                if before[1] is not None:
                    choices[before[0]] = _cell(before[1])
        return self._changes({})

    def _note(self, name: str, before: list[Any]) -> None:
        self._journal.append([name, before])
        del self._journal[:-JOURNAL]

    # subscriptions ---------------------------------------------------------------------------

    def subscriptions(self) -> list[Subscription]:
        """All there should be: of each device, for its context and the ones before."""
        return [
            row
            for device, contexts in self._devices.items()
            for context in contexts
            for row in self._of_context(device, context)
        ]

    def _of_context(self, device: str, context: dict[str, Any]) -> Iterable[Subscription]:
        facets = facets_of(context)
        reader, situation = self.context_id(device), _situation(facets)
        liked = self._wanted(context)
        muted = self._held(self._muted, facets)
        if liked:
            because = "; ".join(self.explain([topic], context=context) for topic in liked[:3])
            condition = self._condition(situation, liked, muted)
            yield Subscription(f"{reader}?{situation}", condition, reader, because)
        explored = self._explored(context, {*liked, *muted})
        if explored:
            why = f"to find out whether you like {' or '.join(explored)}"
            condition = self._condition(situation, explored, [*muted, *liked])
            yield Subscription(f"{reader}?{situation}?new", condition, reader, why)

    def _wanted(self, context: Mapping[str, Any]) -> list[str]:
        """Topics to subscribe to: pinned ones, then what is liked most."""
        facets = facets_of(context)
        muted = set(self._held(self._muted, facets))
        pinned = self._held(self._pinned, facets)
        liked = self.interests.liked_topics(context, LIKED)
        topics = dict.fromkeys([*pinned, *liked])
        return [topic for topic in topics if topic not in muted][:MOST_TOPICS]

    def _held(self, choices: dict[str, Cell], facets: Cell) -> list[str]:
        """Topics that were chosen for contexts like this, and that the graph still has."""
        holding = {pair for cell in self.interests.cells(facets) for pair in cell}
        known = self.interests.topics.number
        return [t for t, cell in choices.items() if t in known and holding.issuperset(cell)]

    def _explored(self, context: Mapping[str, Any], known: set[str]) -> list[str]:
        """Topics that were met least, lately and in contexts like this, by the person's own draw.

        The same until feedback comes. After a taste ended, twice as many.
        """
        graph, pieces = self.interests.topics, len(self.interests.pieces)
        draw = random.Random(f"{self.user} {_situation(facets_of(context))} {pieces // 5}")
        n = len(graph.names)
        below = graph.view.below[graph.view.component]
        kept = {graph.number[topic] for topic in known if topic in graph.number}
        met = self.interests.met(context)
        times: dict[str, float] = {}
        for i in draw.sample(range(n), min(n, DRAWN)):
            name = graph.names[i]
            if graph.number.get(name) != i or below[i] > max(1, BROAD * n):
                continue
            if kept.isdisjoint(self.interests.covering([name])):
                times[name] = float(met[i])
        most = EXPLORED * 2 if self.interests.stirred() else EXPLORED
        return sorted(times, key=lambda name: (times[name], -below[graph.number[name]]))[:most]

    def _condition(self, situation: str, topics: Sequence[str], without: Sequence[str]) -> str:
        parts = [f"context.{SITUATION} = {_quoted(situation)}", f"topic WITHIN {_listed(topics)}"]
        if without:
            parts.append(f"NOT topic WITHIN {_listed(without)}")
        if self._nearby:
            parts.append("(place IS NULL OR place CONTAINS context.place)")
        return " AND ".join(parts)

    def _changes(self, update: dict[str, dict[str, Any]]) -> Changes:
        """What became different since the last changes."""
        wanted = {row.id: row for row in self.subscriptions()}
        fresh = [row for row in wanted.values() if self._standing.get(row.id) != row.condition]
        gone = [i for i, text in self._standing.items() if i not in wanted]
        changed = [row.id for row in fresh if row.id in self._standing]
        self._standing = {row.id: row.condition for row in wanted.values()}
        return Changes(fresh, update, gone + changed)

    # an inbox --------------------------------------------------------------------------------

    def score(self, message: Mapping[str, Any], device: str = "") -> float:
        """The probability that the person likes a message now; pins are 1, mutes 0."""
        total = self._scorer(self.context(device))(self.interests.covering(_topics(message)))
        return 0.0 if total < 0 else 1.0 - math.exp(-total)

    def _scorer(self, context: Mapping[str, Any]) -> Callable[[frozenset[int]], float]:
        """Nodes that cover a message -> -log(1 - P) in a context; -inf is muted, inf is pinned."""
        facets, number = facets_of(context), self.interests.topics.number
        muted, pinned = (
            {number[topic] for topic in self._held(choices, facets)}
            for choices in (self._muted, self._pinned)
        )
        weights = self.interests.weights(context)

        def score(covering: frozenset[int]) -> float:
            if not muted.isdisjoint(covering):
                return -math.inf
            if not pinned.isdisjoint(covering):
                return math.inf
            return sum(weights.get(node, 0.0) for node in covering)

        return score

    def rank(
        self,
        messages: Sequence[Mapping[str, Any]],
        device: str = "",
        context: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Positions of messages, the most germane first.

        The mean of two opinions: what the rules say that explain all feedback, and what is believed
        lately, which is quick to see a new taste and knows what was never met.
        """
        where = self.context(device) if context is None else context
        score, believed = self._scorer(where), self.interests.believed(where)
        keys = []
        for message in messages:
            topics = _topics(message)
            lately = float(believed[self.interests.nodes(topics)].sum())
            keys.append(-score(self.interests.covering(topics)) - lately)
        return sorted(range(len(messages)), key=keys.__getitem__)

    def choose(
        self,
        messages: Sequence[Mapping[str, Any]],
        n: int,
        device: str = "",
        context: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Positions of n messages to show: the best, and one in three to find out.

        After a taste ended, one in two. To find out, those are shown that would tell most if they
        were liked: for each of their topics, how many of the messages there are it covers, times
        how likely it is that it is liked here.
        """
        where = self.context(device) if context is None else context
        order = self.rank(messages, device, context)
        one_in = STIRRED if self.interests.stirred() else FIND_OUT
        n_new = n // one_in if len(order) > n else 0
        chosen, rest = order[: n - n_new], order[n - n_new :]
        muted = self._held(self._muted, facets_of(where))
        unwanted = [self.interests.topics.number[topic] for topic in muted]
        nodes = [self.interests.nodes(_topics(message)) for message in messages]
        tells = self.interests.untold(where, nodes)
        tells[unwanted] = -math.inf
        left = set(rest)
        while left and len(chosen) < n:
            best = max(sorted(left), key=lambda at: float(tells[nodes[at]].sum()))
            left.discard(best)
            if tells[nodes[best]].min(initial=0.0) == -math.inf:
                break
            tells[nodes[best]] *= DOUBTED
            chosen.append(best)
        return chosen

    def explain(
        self,
        topics: Iterable[str],
        device: str = "",
        context: Mapping[str, Any] | None = None,
    ) -> str:
        """Why messages of these topics come, in a sentence."""
        where = self.context(device) if context is None else context
        topics = list(topics)
        facets = facets_of(where)
        above = self.interests.covering(topics)
        number = self.interests.topics.number
        for choices, word in ((self._muted, "muted"), (self._pinned, "pinned")):
            for topic in self._held(choices, facets):
                if number[topic] in above:
                    return f"because you {word} {topic}{_at(choices[topic])}"
        rule = next((r for r in self.interests.rules(where, topics) if r.liked), None)
        return f"because you {_reason(rule)}" if rule else "to find out whether you like it"

    # the person's own ------------------------------------------------------------------------

    def export(self) -> dict[str, Any]:
        """All that is known of the person, in words and as data."""
        learned = [
            {"topic": r.topic, "when": dict(r.cell), "probability": round(r.probability, 3),
             "because": "you " + _reason(r)}
            for r in self.interests.table() if r.liked
        ]  # fmt: skip
        return {"learned": learned, **self.state()}

    def state(self) -> dict[str, Any]:
        """Everything, as plain JSON, for the constructor."""
        return {
            "user": self.user,
            "pieces": [_row(piece) for piece in self.interests.pieces],
            "pinned": [[topic, [list(p) for p in cell]] for topic, cell in self._pinned.items()],
            "muted": [[topic, [list(p) for p in cell]] for topic, cell in self._muted.items()],
            "journal": [_plain(row) for row in self._journal],
            "devices": {d: [dict(row) for row in rows] for d, rows in self._devices.items()},
            "standing": dict(self._standing),
        }

    def erase(self) -> Changes:
        """Forget everything about the person; what is left is where the devices are."""
        self.interests = Interests(self.interests.topics, self.interests._trees)
        self._pinned, self._muted, self._journal = {}, {}, []
        for rows in self._devices.values():
            del rows[:-1]
        return self._changes({})


def _topics(message: Mapping[str, Any]) -> list[str]:
    topics = message.get("topic") or ()
    return [topics] if isinstance(topics, str) else [str(topic) for topic in topics]


def _situation(facets: Cell) -> str:
    """A context in a word: what guards its subscriptions."""
    return ", ".join(f"{name} {value}" for name, value in facets) or "anywhere"


def _reason(rule: Rule) -> str:
    did = "kept" if rule.kept == rule.liked else "kept or read" if rule.kept else "read"
    return f"{did} {rule.liked} of {rule.seen} {rule.topic} items{_at(rule.cell)}"


def _at(cell: Cell) -> str:
    """A cell in words."""
    words = []
    for name, value in cell:
        if name == "task":
            words.append(f"at {value}")
        elif name == "time":
            words.append(f"at {value}" if value in ("noon", "night") else f"in the {value}")
        elif name == "place":
            words.append(f"in {value.rsplit('/', 1)[-1]}")
        else:
            words.append(f"when {name} is {value}")
    return "".join(f" {word}" for word in words)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _listed(topics: Sequence[str]) -> str:
    names = ", ".join(_quoted(topic) for topic in topics)
    return names if len(topics) == 1 else f"({names})"


def _row(piece: Piece) -> list[Any]:
    return [piece.message, list(piece.topics), [list(p) for p in piece.context], piece.kind,
            piece.seconds, piece.at]  # fmt: skip


def _piece(row: Sequence[Any]) -> Piece:
    if len(row) != 6:
        raise InvalidValue(f"a piece of feedback has six parts, not {row!r:.200}")
    message, topics, context, kind, seconds, at = row
    return piece_of(message, topics, dict(_cell(context)), kind, seconds, at)


def _cell(pairs: Iterable[Sequence[str]]) -> Cell:
    return tuple((str(name), str(value)) for name, value in pairs)


def _choices(rows: Iterable[Sequence[Any]]) -> dict[str, Cell]:
    return {str(topic): _cell(cell) for topic, cell in rows}


def _plain(value: Any) -> Any:
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value
