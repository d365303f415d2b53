"""A ceiling for recovery: somebody who knows everything but the three new topics.

After a change of taste (`tastes`), this learner knows the seven interests that stayed, that three
ended, when, and in which contexts their successors hold; which 35 to 50 topics these can be, all
equally likely; how people react, with its noise. It keeps the exact posterior over the three topics
(a table of all triples), ranks by the probability that a message is relevant, which is the best
there is, and shows what it is least sure about: all feedback is spent on finding out. A learner
that has to find out any of the rest, too, can hardly do better.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from .tastes import DISLIKED, LIKED, WRONG, Context, Person, Reaction

SPREAD = 0.7  # of the logarithm of seconds read, as in `Person.react`


class KnowsTheRest:
    """Learns which topics are new; everything else it knows."""

    def __init__(self, person: Person, after: Person) -> None:
        pairs = list(zip(person.interests, after.interests, strict=True))
        self.person, self.world = person, person.world
        self.ended = [old for old, new in pairs if old.topic != new.topic]
        self.stayed = [old for old, new in pairs if old.topic == new.topic]
        had = {interest.topic for interest in person.interests}
        self.topics = sorted(set(person.world.candidates) - had)
        n, count = len(self.topics), len(self.ended)
        self.chances = np.ones((n,) * count)  # of each triple of topics, if three are new
        same = np.arange(n)
        for a, b in combinations(range(count), 2):  # drawn without replacement
            at: list[Any] = [slice(None)] * count
            at[a] = at[b] = same
            self.chances[tuple(at)] = 0.0
        self.chances /= self.chances.sum()
        self._covered: dict[int, np.ndarray] = {}

    def rank(self, context: Context, messages: list[dict[str, Any]]) -> list[int]:
        return [int(at) for at in np.argsort(-self._relevant(context, messages), kind="stable")]

    def choose(self, context: Context, messages: list[dict[str, Any]], n: int) -> list[int]:
        """What is least sure; and the likelier of two that are equally so."""
        p = self._relevant(context, messages)
        return [int(at) for at in np.lexsort((-p, np.abs(p - 0.5)))[:n]]

    def learn(self, context: Context, message: dict[str, Any], reaction: Reaction) -> None:
        """Bayes' rule."""
        if self._is_known(context, message):
            return
        ratio = likelihood(reaction, True) / likelihood(reaction, False)
        covers = self._covers(message)
        missed = np.ones(())
        for axis, holds in enumerate(self._holding(context)):
            shape = [1] * len(self.ended)
            shape[axis] = len(covers)
            missed = missed * (1.0 - covers * holds).reshape(shape)
        self.chances *= missed + (1.0 - missed) * ratio
        self.chances /= self.chances.sum()

    def _relevant(self, context: Context, messages: list[dict[str, Any]]) -> np.ndarray:
        """The probability of each message."""
        known = np.array([self._is_known(context, m) for m in messages])
        holding = self._holding(context)
        left = self.chances.sum(axis=tuple(a for a, holds in enumerate(holding) if not holds))
        missing = 1.0 - np.array([self._covers(m) for m in messages])
        missed = left[None]
        for _ in range(left.ndim):  # over one topic after the other
            missed = np.einsum("m...t,mt->m...", np.broadcast_to(
                missed, (len(messages), *missed.shape[1:])), missing, optimize=True)  # fmt: skip
        return np.where(known, 1.0, 1.0 - missed)

    def _holding(self, context: Context) -> list[bool]:
        return [self.person._holds(interest, context) for interest in self.ended]

    def _is_known(self, context: Context, message: dict[str, Any]) -> bool:
        covering = self.world.covering(message)
        return any(i.topic in covering and self.person._holds(i, context) for i in self.stayed)

    def _covers(self, message: dict[str, Any]) -> np.ndarray:
        if message["id"] not in self._covered:
            covering = self.world.covering(message)
            self._covered[message["id"]] = np.array([float(t in covering) for t in self.topics])
        return self._covered[message["id"]]


def likelihood(reaction: Reaction, relevant: bool) -> float:
    """Of a reaction, up to a factor, if the message is relevant, or not."""
    liked, disliked = (_density(reaction, table) for table in (LIKED, DISLIKED))
    wrong = 1.0 - WRONG if relevant else WRONG
    return wrong * liked + (1.0 - wrong) * disliked


def _density(reaction: Reaction, table: Any) -> float:
    total = 0.0
    for kind, share, seconds in table:
        if kind == reaction.kind:
            away = np.log(max(reaction.seconds, 0.05) / seconds) / SPREAD if seconds else 0.0
            total += share * float(np.exp(-(away**2) / 2))
    return total
