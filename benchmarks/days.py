"""What comes by while somebody learns a person's tastes, and how well relevance is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .tastes import SHOWN, Context, Person, Reaction, World

LEARNED = 300
BEFORE = (0, 10, 25, 50, 75, 100, 150, 200, 250, LEARNED)
AFTER = (0, 10, 20, 30, 40, 50, 60, 100, 150, 200)
MOST_LOOKS = 400


class Learner(Protocol):
    """What is measured."""

    def choose(self, context: Context, messages: list[dict[str, Any]], n: int) -> list[int]:
        """Positions of messages to show; some of them to find out."""

    def learn(self, context: Context, message: dict[str, Any], reaction: Reaction) -> None:
        """Take a piece of feedback."""

    def rank(self, context: Context, messages: list[dict[str, Any]]) -> list[int]:
        """Positions of all messages, best first; nothing is learned or drawn."""


Make = Callable[[World, Person], Learner]


def precision(person: Person, held: list[Context], rank: Any) -> float:
    """Precision@10 over the held-out windows."""
    hits = 0
    for context, window in zip(held, person.world.held_out, strict=True):
        active = person.active(context)
        for at in rank(context, window)[:SHOWN]:
            hits += not active.isdisjoint(person.world.covering(window[at]))
    return hits / (SHOWN * len(held))


class Days:
    """What comes by: contexts and windows of messages, one look at the inbox after the other."""

    def __init__(self, person: Person) -> None:
        self.world = person.world
        self.held = person.contexts(len(self.world.held_out), salt=2)
        self.rng = np.random.default_rng([self.world.seed, 5, person.number])
        self.looks = iter(person.contexts(MOST_LOOKS, salt=1))
        self.number = 0
        self.shown: list[bool] = []  # whether what was shown was relevant

    def spend(self, taste: Person, learner: Learner, checkpoints: tuple[int, ...]) -> list[float]:
        """Precision at the checkpoints, while a learner hears what somebody of a taste says."""
        pieces, values = 0, [precision(taste, self.held, learner.rank)]
        while pieces < checkpoints[-1]:
            context = next(self.looks)
            window = self.world.windows[self.number % len(self.world.windows)]
            self.number += 1
            for at in learner.choose(context, window, SHOWN):
                self.shown.append(taste.relevant(window[at], context))
                reaction = taste.react(window[at], context, self.rng)
                if reaction is None:
                    continue
                learner.learn(context, window[at], reaction)
                pieces += 1
                if pieces in checkpoints:
                    values.append(precision(taste, self.held, learner.rank))
                if pieces == checkpoints[-1]:
                    break
        return values
