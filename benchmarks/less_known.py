"""How much does recovery owe to knowing where to look? `oracle`'s learner, told ever less.

    python -m benchmarks.less_known --people 12 --seeds 101 102 104

One taste changes, measured everywhere (`one_taste`). This learner knows the nine that stayed, which
one ended, and when. Of the new one it knows only that it is a topic of a set and holds in a cell of
a set: the topics an interest can have, or all but the rarest and the broadest; the cell of the one
that ended, or any of those that the person's habits make. It keeps the exact posterior over all
pairs, and spends all feedback on finding out. Printed is its precision, divided by that of who
knows all tastes.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np
from rich.table import Table

from .days import AFTER, Days, precision
from .interests import lives
from .one_taste import ONE, everywhere, knower
from .oracle import likelihood
from .rounds import console
from .tastes import FACETS, Context, Interest, Person, Reaction, World

Where = tuple[tuple[str, str], ...]
MANY_TOPICS = (0.002, 0.5)  # shares of the messages


class KnowsLess:
    """Learns a topic and where it holds."""

    def __init__(self, person: Person, any_topic: bool, any_cell: bool) -> None:
        pairs = zip(person.interests, person.changed(ONE).interests, strict=True)
        ended = next(old for old, new in pairs if old.topic != new.topic)
        self.person, self.world = person, person.world
        self.stayed = [interest for interest in person.interests if interest != ended]
        topics = many_topics(person.world) if any_topic else person.world.candidates
        self.topics = sorted(set(topics) - {interest.topic for interest in person.interests})
        weights = cells_of(person) if any_cell else {ended.where: 1.0}
        self.cells = list(weights)
        shares = np.array(list(weights.values()))
        self.chances = np.outer(shares / shares.sum(), np.full(len(self.topics), 1.0))
        self.chances /= len(self.topics)

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
        covered = np.outer(self._holding(context), self._covers(message))
        self.chances *= 1.0 + (ratio - 1.0) * covered
        self.chances /= self.chances.sum()

    def _relevant(self, context: Context, messages: list[dict[str, Any]]) -> np.ndarray:
        """The probability of each message."""
        here = self._holding(context) @ self.chances
        known = np.array([self._is_known(context, m) for m in messages])
        return np.where(known, 1.0, [here @ self._covers(m) for m in messages])

    def _holding(self, context: Context) -> np.ndarray:
        holds = [self.person._holds(Interest("", cell), context) for cell in self.cells]
        return np.array(holds, float)

    def _is_known(self, context: Context, message: dict[str, Any]) -> bool:
        covering = self.world.covering(message)
        return any(i.topic in covering and self.person._holds(i, context) for i in self.stayed)

    def _covers(self, message: dict[str, Any]) -> np.ndarray:
        covering = self.world.covering(message)
        return np.array([topic in covering for topic in self.topics], float)


def many_topics(world: World) -> list[str]:
    """All topics but the rarest and the broadest."""
    found = np.concatenate([sorted(world.covering(message)) for message in world.messages])
    names, times = np.unique(found, return_counts=True)
    low, high = (share * len(world.messages) for share in MANY_TOPICS)
    return [str(name) for name in names[(times >= low) & (times <= high)]]


def cells_of(person: Person) -> dict[Where, float]:
    """One or two facets of a habit, a place also as its region; by how frequent they are."""
    found: dict[Where, float] = {}
    for habit, share in zip(person.habits, person.shares, strict=True):
        levels = [
            [(facet, value), *([(facet, value.rsplit("/", 1)[0])] if facet == "place" else [])]
            for facet, value in zip(FACETS, habit, strict=True)
        ]
        cells: list[Where] = [(one,) for level in levels for one in level]
        cells += [pair for a, b in combinations(levels, 2) for pair in product(a, b)]
        for cell in cells:
            found[cell] = found.get(cell, 0.0) + share
    return found


def recover(person: Person, any_topic: bool, any_cell: bool) -> list[float]:
    """How many topics and cells; what who knows has; and a learner's precision."""
    days, after = Days(person), person.changed(ONE)
    days.held = everywhere(person, len(days.held))
    learner = KnowsLess(person, any_topic, any_cell)
    knows = precision(after, days.held, knower(after))
    found = days.spend(after, learner, AFTER)
    return [len(learner.topics), len(learner.cells), knows, *found]


def main(arguments: list[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--people", type=int, default=12, help="in each world")
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102, 104])
    chosen = parser.parse_args(arguments)
    worlds = [World(seed) for seed in chosen.seeds]
    people = [Person.draw(world, number) for world in worlds for number in range(chosen.people)]
    curves: dict[str, list[float]] = {}
    for any_topic, any_cell in product((False, True), repeat=2):
        lived = lives(people, partial(recover, any_topic=any_topic, any_cell=any_cell))
        topics, cells, knows, *after = np.mean(lived, axis=0)
        curves[f"{topics:.0f} topics × {cells:.0f} cells"] = [value / knows for value in after]
    table = Table("pieces", *curves, title="share of who knows")
    for at, pieces in enumerate(AFTER):
        table.add_row(f"{pieces}", *(f"{curve[at]:.3f}" for curve in curves.values()))
    console.print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
