"""``Agent``: one person's user agent. Feedback and contexts in, subscriptions and reasons out.

A device has a context. The agent turns what was learned into subscriptions, conditions of germane's
language, for the context each device is in and the ones it was in lately. Every condition begins
with a guard, ``context.situation = '…'``, and ``situation`` is set by the same update that changes
the context: the filter itself changes from one set of subscriptions to the other, between two
messages, and no message meets those of another context.

    move(context, device)     -> ``Changes``: subscribe, then update, then unsubscribe
    feedback(message, kind)   -> ``Changes``; ``take_back(message)``
    choose, score, explain    for an inbox
    pin, mute, release, undo  the person decides
    export, erase             the person's own; ``state`` is plain JSON, for the constructor

Nothing is stored or sent here. ``Changes.apply(filter)`` does it for a filter in this process.
"""

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from germane.agent.changes import Changes, Subscription
from germane.agent.choices import Choices
from germane.agent.interests import DOUBTED, Interests
from germane.agent.journal import Journal
from germane.agent.pieces import Cell, facets_of, piece_in, piece_of
from germane.agent.plain import as_plain, from_plain
from germane.agent.words import SITUATION, condition, in_words, reason, situation
from germane.category import ContentGraph
from germane.model import InvalidValue

__all__ = ["Agent"]

LIKED = 0.5  # topics of this probability are subscribed to
MOST_TOPICS = 30  # that were learned, of a subscription
MOST_DEVICES = 20
RECENT = 4  # situations a device keeps subscriptions of
EXPLORED = 2  # topics subscribed to, to find out
BROAD = 0.1  # of the graph, at most, below a topic that is explored
DRAWN = 200  # topics among which those are chosen
TAKEN = "taken back"  # a step of the journal
FIND_OUT, STIRRED = 3, 2  # one in so many is shown to find out: always; after a taste ended


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
        pieces = [piece_in(row) for row in state.get("pieces", ())]
        self.interests = Interests(topics, trees, pieces)
        self._pinned = Choices("pin", state.get("pinned", ()))
        self._muted = Choices("mute", state.get("muted", ()))
        self._journal = Journal(state.get("journal", ()))
        self._devices: dict[str, list[dict[str, Any]]] = {
            device: [from_plain(dict(row)) for row in rows]
            for device, rows in state.get("devices", {}).items()
        }  # contexts, the latest last
        self._standing: dict[str, str] = dict(state.get("standing", {}))

    # contexts --------------------------------------------------------------------------------

    def move(self, context: Mapping[str, Any], device: str = "") -> Changes:
        """A device's whole context is now this."""
        if device not in self._devices and len(self._devices) >= MOST_DEVICES:
            raise InvalidValue(f"{self.user!r} has {MOST_DEVICES} devices; leave() one first")
        as_plain(context)  # or it is refused
        rows = self._devices.setdefault(device, [])
        before = rows[-1] if rows else {}
        facets = facets_of(context)
        rows[:] = [row for row in rows if facets_of(row) != facets][-RECENT + 1 :] + [dict(context)]
        values: dict[str, Any] = {name: None for name in before if name not in context}
        values |= {**context, SITUATION: situation(facets)}
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
        forgotten = self.interests.add(piece)
        with self.one_action():
            self._journal.note("feedback", piece.row())
            for each in forgotten:
                self._journal.note("forgotten", each.row())
        return self._changes({})

    def was_told(
        self,
        message: Mapping[str, Any],
        kind: str,
        seconds: float | None = None,
        context: Mapping[str, Any] | None = None,
        at: float | None = None,
    ) -> bool:
        """Whether this very feedback is known: an answer was lost, and it was sent again.

        That is the same of the same message, at the same time or in the same context; without a
        context, in any.
        """
        said = (str(message.get("id", "")), kind, seconds)
        facets = None if context is None else facets_of(context)
        return any(
            said == (piece.message, piece.kind, piece.seconds)
            and (facets is None or facets == piece.context or at == piece.at)
            for piece in self.interests.pieces
        )

    def take_back(self, message: Mapping[str, Any], at: float = 0.0) -> Changes:
        """Unlearn what was said of a message last, unless it is only that it was opened.

        The same at the same time is done once: it may be sent again.
        """
        name = str(message.get("id", ""))
        said = [p for p in self.interests.pieces if p.message == name and p.kind != "opened"]
        done = any(what == TAKEN and b[0][0] == name and b[1] == at for what, b in self._journal)
        if said and not done:
            self._journal.note(TAKEN, [said[-1].row(), at])
            self.interests.remove(said[-1])
        return self._changes({})

    # the person decides ----------------------------------------------------------------------

    def pin(self, topic: str, where: Mapping[str, Any] | None = None) -> Changes:
        """Always have a topic, or in contexts like this, too: ``{"task": "work"}``."""
        return self._choose(self._pinned, topic, where)

    def mute(self, topic: str, where: Mapping[str, Any] | None = None) -> Changes:
        """Never have a topic, or not in contexts like this, either; it wins over everything."""
        return self._choose(self._muted, topic, where)

    def release(self, topic: str) -> Changes:
        """Neither pinned nor muted any more, in no context."""
        with self.one_action():
            for choices in (self._pinned, self._muted):
                if before := choices.of(topic):
                    self._journal.note(choices.name, [topic, before])
                    choices.put(topic, ())
        return self._changes({})

    def _choose(self, choices: Choices, topic: str, where: Mapping[str, Any] | None) -> Changes:
        self.interests.topics.node(topic)
        cell, before = facets_of(where or {}), choices.of(topic)
        if where and not cell:
            raise InvalidValue(
                f"nothing of {dict(where)!r:.200} can be used: words, and yes or no, are; "
                f"without a context, {choices.name}() counts everywhere"
            )
        if choices.add(topic, cell):
            self._journal.note(choices.name, [topic, before])
        return self._changes({})

    def undo(self) -> Changes:
        """Take back the last of what was said or chosen; with none left, nothing happens.

        What was done within ``one_action`` is taken back at once.
        """
        for what, before in self._journal.pop():
            if what == "feedback":
                piece = piece_in(before)
                if piece in self.interests.pieces:
                    self.interests.remove(piece)
            elif what == "forgotten":
                self.interests.recall(piece_in(before))
            elif what == TAKEN:
                self.interests.add(piece_in(before[0]))
            else:
                topic, cells = before
                choices = self._pinned if what == "pin" else self._muted
                choices.put(topic, cells)
        return self._changes({})

    def one_action(self) -> AbstractContextManager[None]:
        """What is done within is one action to ``undo``: feedback on a digest, say."""
        return self._journal.one_action()

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
        reader, named = self.context_id(device), situation(facets)
        liked = self._wanted(context)
        muted = list(self._held(self._muted, facets))
        if liked:
            because = "; ".join(self.explain([topic], context=context) for topic in liked[:3])
            text = condition(named, liked, muted, self._nearby)
            yield Subscription(f"{reader}?{named}", text, reader, because)
        explored = self._explored(context, {*liked, *muted})
        if explored:
            why = f"to find out whether you like {' or '.join(explored)}"
            text = condition(named, explored, [*muted, *liked], self._nearby)
            yield Subscription(f"{reader}?{named}?new", text, reader, why)

    def _wanted(self, context: Mapping[str, Any]) -> list[str]:
        """Topics to subscribe to: all that are pinned, then those that are liked most."""
        pinned = self._unmuted(self._held(self._pinned, facets_of(context)), context)
        liked = [topic for topic in self.liked_topics(context) if topic not in pinned]
        return pinned + liked[:MOST_TOPICS]

    def liked_topics(self, context: Mapping[str, Any]) -> list[str]:
        """Topics that are liked in a context, the most first; none that a muted one covers."""
        return self._unmuted(self.interests.liked_topics(context, LIKED), context)

    def _unmuted(self, topics: Iterable[str], context: Mapping[str, Any]) -> list[str]:
        """Topics that no muted one covers."""
        number = self.interests.topics.number
        muted = {number[topic] for topic in self._held(self._muted, facets_of(context))}
        return [t for t in topics if muted.isdisjoint(self.interests.covering([t]))]

    def _held(self, choices: Choices, facets: Cell) -> dict[str, Cell]:
        """Topics that were chosen for contexts like this, and that the graph still has.

        With the first cell of each that holds here.
        """
        known = self.interests.topics.number
        held = choices.held(self.interests.cells(facets))
        return {topic: cell for topic, cell in held.items() if topic in known}

    def _explored(self, context: Mapping[str, Any], known: set[str]) -> list[str]:
        """Topics that were met least, lately and in contexts like this, by the person's own draw.

        The same until feedback comes. After a taste ended, twice as many.
        """
        graph, pieces = self.interests.topics, len(self.interests.pieces)
        draw = random.Random(f"{self.user} {situation(facets_of(context))} {pieces // 5}")
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
        lately, which is quick to see a new taste and knows what was never met. Muted ones are last.
        """
        return self._ranked(messages, self.context(device) if context is None else context)[0]

    def _ranked(
        self, messages: Sequence[Mapping[str, Any]], where: Mapping[str, Any]
    ) -> tuple[list[int], int]:
        """Positions of messages, and how many of them, from the first, are not muted."""
        score, believed = self._scorer(where), self.interests.believed(where)
        keys = []
        for message in messages:
            topics = _topics(message)
            lately = float(believed[self.interests.nodes(topics)].sum())
            keys.append(-score(self.interests.covering(topics)) - lately)
        order = sorted(range(len(messages)), key=keys.__getitem__)
        return order, sum(key < math.inf for key in keys)

    def choose(
        self,
        messages: Sequence[Mapping[str, Any]],
        n: int,
        device: str = "",
        context: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Positions of n messages to show: the best, and one in three to find out; none muted.

        After a taste ended, one in two. To find out, those are shown that would tell most if they
        were liked: for each of their topics, how many of the messages there are it covers, times
        how likely it is that it is liked here.
        """
        where = self.context(device) if context is None else context
        order, unmuted = self._ranked(messages, where)
        del order[unmuted:]
        one_in = STIRRED if self.interests.stirred() else FIND_OUT
        n_new = n // one_in if len(order) > n else 0
        chosen, rest = order[: n - n_new], order[n - n_new :]
        nodes = [self.interests.nodes(_topics(message)) for message in messages]
        tells = self.interests.untold(where, nodes)
        left = set(rest)
        while left and len(chosen) < n:
            best = max(sorted(left), key=lambda at: float(tells[nodes[at]].sum()))
            left.discard(best)
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
            for topic, cell in self._held(choices, facets).items():
                if number[topic] in above:
                    return f"because you {word} {topic}{in_words(cell)}"
        rule = next((r for r in self.interests.rules(where, topics) if r.liked), None)
        return f"because you {reason(rule)}" if rule else "to find out whether you like it"

    # the person's own ------------------------------------------------------------------------

    def export(self) -> dict[str, Any]:
        """All that is known of the person, in words and as data."""
        learned = [
            {"topic": r.topic, "when": dict(r.cell), "probability": round(r.probability, 3),
             "because": "you " + reason(r)}
            for r in self.interests.table() if r.liked
        ]  # fmt: skip
        return {"learned": learned, **self.state()}

    def state(self) -> dict[str, Any]:
        """Everything, as plain JSON, for the constructor."""
        return {
            "user": self.user,
            "pieces": [piece.row() for piece in self.interests.pieces],
            "pinned": self._pinned.rows(),
            "muted": self._muted.rows(),
            "journal": self._journal.rows(),
            "devices": {d: as_plain(rows) for d, rows in self._devices.items()},
            "standing": dict(self._standing),
        }

    def erase(self) -> Changes:
        """Forget everything about the person; what is left is where the devices are."""
        self.interests = Interests(self.interests.topics, self.interests._trees)
        self._pinned, self._muted, self._journal = Choices("pin"), Choices("mute"), Journal()
        for rows in self._devices.values():
            del rows[:-1]
        return self._changes({})


def _topics(message: Mapping[str, Any]) -> list[str]:
    topics = message.get("topic")
    if topics is None or isinstance(topics, str):
        return [topics] if topics else []
    if not isinstance(topics, list | tuple | set | frozenset):
        raise InvalidValue(f"a message's topic is a name or a list of names, not {topics!r:.100}")
    return [str(topic) for topic in topics]
