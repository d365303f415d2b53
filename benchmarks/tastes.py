"""People with hidden tastes that depend on their context: who likes which message, when.

A world has a graph of topics (`topics.directory`), a tree of places and 5,000 messages: 4,000 come
by while people give feedback, 1,000 are held out. A text names its topics, more rarely those above
them, and as many other topics in passing. A person has ten interests. Each is a topic (of 2 to 6 %
of the messages, counted with all below it) and the context in which it holds: a task, a place or a
time of day, or two of these. A message is relevant to a person in a context iff one of its topics
lies below an interest that holds there. Learners are never told: they see reactions, one in four
of which does not come, and one in ten of which is the opposite of what it should be.

Every one of a person's seven tasks has its habitual place and time, and some are more frequent than
others; one context in seven is none of these: the task is done somewhere else, at another time. A
change of taste puts other topics into the places of three of the ten interests, those that hold
most often.

This was written before there was a learner, and is not to be changed to suit one. A first draft
(five habits, texts that name hardly anything in passing, one interest in ten that always holds, 100
messages in a held-out window) was given up, also before there was a learner, because in it one who
knows all tastes would have had 2.5 times the precision of a keyword subscription, so that no
learner could have reached three times; here it is 4.1 times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from germane import ContentGraph

from .topics import directory

N_TOPICS, N_MESSAGES, N_HELD_OUT = 1_000, 5_000, 1_000
WINDOW, HELD_OUT_WINDOW, SHOWN = 80, 200, 10
N_INTERESTS, N_HABITS, N_CHANGED = 10, 7, 3
SHARE = (0.02, 0.06)  # of the messages, below an interest
ELSEWHERE = 0.15  # contexts that are no habit
WRONG = 0.10  # reactions that are the opposite
FACETS = ("task", "place", "time")
TASKS = ("commute", "work", "lunch", "errands", "sport", "leisure", "family")
TIMES = ("morning", "noon", "afternoon", "evening", "night")
N_FACETS_P = (0.0, 0.5, 0.5)  # of an interest: none, one, two
NAMED, NAMED_ABOVE, STRAY = 0.8, 0.5, 1.0  # a text names its topic, each step up, some in passing
LIKED = (("kept", 0.30, 0.0), ("opened", 0.45, 60.0), ("", 0.25, 0.0))  # kind, share, seconds read
DISLIKED = (("dismissed", 0.50, 0.0), ("less", 0.10, 0.0), ("opened", 0.15, 6.0), ("", 0.25, 0.0))

Context = dict[str, str]


class Reaction(NamedTuple):
    """A piece of feedback: opened, kept, dismissed or less; and for how long it was read."""

    kind: str
    seconds: float


class Interest(NamedTuple):
    """A topic, and where it holds: values of facets, of which a place covers those below it."""

    topic: str
    where: tuple[tuple[str, str], ...]


class World:
    """Topics, places and messages."""

    def __init__(self, seed: int, n_topics: int = N_TOPICS, n_messages: int = N_MESSAGES) -> None:
        rng = np.random.default_rng([seed, 1])
        self.seed = seed
        self.topics = ContentGraph.from_edges(directory(n_topics, seed))
        self.places = ContentGraph.from_edges(place_tree())
        self.cities = sorted(p for p in self.places.names if p.count("/") == 2)
        self.above = {name: frozenset(self.topics.ancestors(name)) for name in self.topics.names}
        self.parents: dict[str, list[str]] = {name: [] for name in self.topics.names}
        self.children: dict[str, list[str]] = {name: [] for name in self.topics.names}
        for parent, child in sorted(self.topics.edges()):
            self.parents[child].append(parent)
            self.children[parent].append(child)
        self._popular = [n for n in sorted(self.topics.names) if n != "t0"]
        rng.shuffle(self._popular)
        weights = 1.0 / np.arange(1, len(self._popular) + 1) ** 0.8
        self._weights = weights / weights.sum()
        self.messages = [self._message(rng, i) for i in range(n_messages)]

    def _message(self, rng: np.random.Generator, number: int) -> dict[str, Any]:
        topics = [self._topic(rng)]
        if rng.random() < 0.4:
            parent = pick(rng, self.parents[topics[0]])
            topics.append(pick(rng, self.children[parent]))
        if rng.random() < 0.2:
            topics.append(self._topic(rng))
        passing = [self._topic(rng) for _ in range(rng.poisson(STRAY))]
        words = [word for topic in topics + passing for word in self._names(rng, topic)]
        return {"id": number, "topic": sorted(set(topics)), "text": " ".join(words)}

    def _topic(self, rng: np.random.Generator) -> str:
        return self._popular[int(rng.choice(len(self._popular), p=self._weights))]

    def _names(self, rng: np.random.Generator, topic: str) -> Iterator[str]:
        """What a text calls its topic: by its name, and by those above it, ever more rarely."""
        chance = NAMED
        while topic != "t0":
            if rng.random() < chance:
                yield topic
            topic, chance = pick(rng, self.parents[topic]), chance * NAMED_ABOVE

    @cached_property
    def candidates(self) -> list[str]:
        """Topics that an interest may have."""
        times: dict[str, int] = {}
        for message in self.messages:
            for name in self.covering(message):
                times[name] = times.get(name, 0) + 1
        low, high = (share * len(self.messages) for share in SHARE)
        return sorted(name for name, n in times.items() if low <= n <= high)

    def covering(self, message: dict[str, Any]) -> frozenset[str]:
        """The topics of a message and all above them."""
        return frozenset().union(*(self.above[topic] for topic in message["topic"]))

    @cached_property
    def windows(self) -> list[list[dict[str, Any]]]:
        """Messages that come by between one look at the inbox and the next."""
        n = len(self.messages) - len(self.messages) * N_HELD_OUT // N_MESSAGES
        return [self.messages[i : i + WINDOW] for i in range(0, n - WINDOW + 1, WINDOW)]

    @cached_property
    def held_out(self) -> list[list[dict[str, Any]]]:
        n = len(self.messages) - len(self.messages) * N_HELD_OUT // N_MESSAGES
        rest = self.messages[n:]
        return [rest[i : i + HELD_OUT_WINDOW] for i in range(0, len(rest), HELD_OUT_WINDOW)]


@dataclass(frozen=True)
class Person:
    """Hidden interests, and habits."""

    world: World
    number: int
    interests: tuple[Interest, ...]
    habits: tuple[tuple[str, str, str], ...]
    shares: tuple[float, ...]
    home: str

    @classmethod
    def draw(cls, world: World, number: int) -> Person:
        rng = np.random.default_rng([world.seed, 2, number])
        home, office, third = (pick(rng, world.cities) for _ in range(3))
        tasks = [str(task) for task in rng.choice(TASKS, N_HABITS, replace=False)]
        habits = tuple(
            (task, str(rng.choice((home, office, third), p=(0.5, 0.3, 0.2))), pick(rng, TIMES))
            for task in tasks
        )
        shares = tuple(rng.dirichlet(np.full(N_HABITS, 2.0)).tolist())
        chosen = rng.choice(world.candidates, N_INTERESTS, replace=False)
        interests = tuple(
            Interest(str(topic), _where(rng, habits[int(rng.choice(N_HABITS, p=shares))]))
            for topic in chosen
        )
        return cls(world, number, interests, habits, shares, home)

    def contexts(self, n: int, salt: int) -> list[Context]:
        """Where a person is, n times."""
        rng = np.random.default_rng([self.world.seed, 3, self.number, salt])
        return [self._context(rng) for _ in range(n)]

    def _context(self, rng: np.random.Generator) -> Context:
        habit = self.habits[int(rng.choice(N_HABITS, p=self.shares))]
        if rng.random() < ELSEWHERE:
            region = self.home.rsplit("/", 1)[0]
            near = [city for city in self.world.cities if city.startswith(region + "/")]
            cities = near if rng.random() < 0.5 else self.world.cities
            habit = habit[0], pick(rng, cities), pick(rng, TIMES)
        return dict(zip(FACETS, habit, strict=True))

    def active(self, context: Context) -> frozenset[str]:
        """Topics of the interests that hold in a context."""
        return frozenset(i.topic for i in self.interests if self._holds(i, context))

    def _holds(self, interest: Interest, context: Context) -> bool:
        return all(
            context[facet] == value or context[facet].startswith(value + "/")
            for facet, value in interest.where
        )

    def relevant(self, message: dict[str, Any], context: Context) -> bool:
        return not self.active(context).isdisjoint(self.world.covering(message))

    def react(
        self, message: dict[str, Any], context: Context, rng: np.random.Generator
    ) -> Reaction | None:
        """What the person does; None is nothing."""
        liked = self.relevant(message, context) != (rng.random() < WRONG)
        table = LIKED if liked else DISLIKED
        kind, _, seconds = table[int(rng.choice(len(table), p=[row[1] for row in table]))]
        if not kind:
            return None
        return Reaction(kind, seconds and round(float(rng.lognormal(np.log(seconds), 0.7)), 1))

    def changed(self, count: int = N_CHANGED) -> Person:
        """The same person, whose strongest tastes, so many of them, are others now."""
        rng = np.random.default_rng([self.world.seed, 4, self.number])
        often = self.contexts(200, salt=4)
        times = [-sum(self._holds(i, context) for context in often) for i in self.interests]
        had = {interest.topic for interest in self.interests}
        fresh = rng.choice(sorted(set(self.world.candidates) - had), count, replace=False)
        interests = list(self.interests)
        for at, topic in zip(np.argsort(times, kind="stable")[:count], fresh, strict=True):
            interests[at] = interests[at]._replace(topic=str(topic))
        return replace(self, interests=tuple(interests))


def _where(rng: np.random.Generator, habit: tuple[str, str, str]) -> tuple[tuple[str, str], ...]:
    """When an interest holds: some facets of a habit; a place may be the city or its region."""
    n = int(rng.choice(3, p=N_FACETS_P))
    chosen = sorted(rng.choice(3, n, replace=False).tolist())
    where = [(FACETS[i], habit[i]) for i in chosen]
    return tuple(
        (facet, value.rsplit("/", 1)[0])
        if facet == "place" and rng.random() < 0.3
        else (facet, value)
        for facet, value in where
    )


def place_tree() -> list[tuple[str, str]]:
    """Three countries of four regions of six cities."""
    links = []
    for country in range(3):
        links.append(("World", f"c{country}"))
        for region in range(4):
            links.append((f"c{country}", f"c{country}/r{region}"))
            for city in range(6):
                links.append((f"c{country}/r{region}", f"c{country}/r{region}/p{city}"))
    return links


def pick(rng: np.random.Generator, values: Sequence[str]) -> str:
    return values[int(rng.integers(len(values)))]
