"""Does an agent that knows the context bring what is germane now? Simulated people (`tastes`).

    python -m benchmarks.interests --people 200

A person looks at the inbox; the learner shows ten of the messages that came by since the last
look, and hears reactions. At every checkpoint (pieces of feedback) it ranks held-out windows of
200 messages in contexts of that person, without learning from them: precision@10 is the share of
the first ten that are relevant there and then, by the hidden taste, without noise. Beside it:

- the same learner, which is not told the context;
- logistic regression of river on the same pairs of topic and context (`--river`);
- a keyword subscription: messages whose text names a favourite topic of the person (all topics of
  the hidden interests: nobody knows herself better), newest first, then the others;
- a topic subscription: the same with `topic WITHIN`, so that topics below are found, too;
- someone who knows the hidden tastes, and someone who shows the newest.

After 300 pieces three tastes change. Recovered is who is back at 95 % of the precision before.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from rich.table import Table

from germane.agent import Agent

from . import record
from .oracle import KnowsTheRest
from .rounds import Bar, console, show_bars
from .tastes import SHOWN, Context, Person, Reaction, World

LEARNED = 300
BEFORE = (0, 10, 25, 50, 75, 100, 150, 200, 250, LEARNED)
AFTER = (0, 10, 20, 30, 40, 50, 60, 100, 150, 200)
RECOVERED = 0.95
MOST_LOOKS = 400
WITH, WITHOUT, RIVER = "with context", "without context", "river"
KEYWORDS, TOPICS, KNOWS, NEWEST = "keywords", "topics", "knows the tastes", "newest"


class Learner(Protocol):
    """What is measured."""

    def choose(self, context: Context, messages: list[dict[str, Any]], n: int) -> list[int]:
        """Positions of messages to show; some of them to find out."""

    def learn(self, context: Context, message: dict[str, Any], reaction: Reaction) -> None:
        """Take a piece of feedback."""

    def rank(self, context: Context, messages: list[dict[str, Any]]) -> list[int]:
        """Positions of all messages, best first; nothing is learned or drawn."""


Make = Callable[[World, Person], Learner]


class Learning:
    """germane's agent, with or without the context."""

    def __init__(self, world: World, person: Person, told: bool) -> None:
        self.agent = Agent(str(person.number), world.topics, world.places)
        self.told = told

    def choose(self, context: Context, messages: list[dict[str, Any]], n: int) -> list[int]:
        return self.agent.choose(messages, n, context=context if self.told else {})

    def learn(self, context: Context, message: dict[str, Any], reaction: Reaction) -> None:
        seconds = reaction.seconds if reaction.kind == "opened" else None
        where = context if self.told else {}
        self.agent.feedback(message, reaction.kind, seconds, context=where)

    def rank(self, context: Context, messages: list[dict[str, Any]]) -> list[int]:
        return self.agent.rank(messages, context=context if self.told else {})


class River:
    """Online logistic regression of river on the same topics × cells, one feature each."""

    def __init__(self, world: World, person: Person) -> None:
        from river import linear_model, optim

        self.agent = Agent(str(person.number), world.topics, world.places)
        self.model = linear_model.LogisticRegression(optim.AdaGrad(0.1), l2=0.001)

    def _features(self, context: Context, message: dict[str, Any]) -> dict[Any, float]:
        interests = self.agent.interests
        cells = interests.cells(tuple(sorted(context.items())))
        nodes = interests.covering(message["topic"])
        return {(node, cell): 1.0 for node in nodes for cell in cells}

    def learn(self, context: Context, message: dict[str, Any], reaction: Reaction) -> None:
        liked = reaction.kind == "kept" or (reaction.kind == "opened" and reaction.seconds >= 20)
        self.model.learn_one(self._features(context, message), liked)
        self.agent.feedback(message, reaction.kind, context=context)  # to know what is new

    def rank(self, context: Context, messages: list[dict[str, Any]]) -> list[int]:
        scores = [self.model.predict_proba_one(self._features(context, m))[True] for m in messages]
        return sorted(range(len(messages)), key=lambda at: -scores[at])

    def choose(self, context: Context, messages: list[dict[str, Any]], n: int) -> list[int]:
        best = self.rank(context, messages)[: n - n // 5]
        others = self.agent.choose(messages, len(messages), context=context)
        return best + [at for at in reversed(others) if at not in best][: n // 5]


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

    def spend(self, taste: Person, learner: Learner, checkpoints: tuple[int, ...]) -> list[float]:
        """Precision at the checkpoints, while a learner hears what somebody of a taste says."""
        pieces, values = 0, [precision(taste, self.held, learner.rank)]
        while pieces < checkpoints[-1]:
            context = next(self.looks)
            window = self.world.windows[self.number % len(self.world.windows)]
            self.number += 1
            for at in learner.choose(context, window, SHOWN):
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


def live(person: Person, make: Make) -> tuple[list[float], list[float]]:
    """Precision at the checkpoints before and after a change of taste."""
    days, learner = Days(person), make(person.world, person)
    before = days.spend(person, learner, BEFORE)
    return before, days.spend(person.changed(), learner, AFTER)


def recover(person: Person) -> tuple[list[float], list[float]]:
    """The same for who knows all but what is new."""
    before = [others(person)[KNOWS]] * len(BEFORE)
    return before, Days(person).spend(person.changed(), KnowsTheRest(person), AFTER)


def lives(people: list[Person], make: Make | None) -> list[tuple[list[float], list[float]]]:
    """Everybody's curves, on all cores; people do not meet. Without a learner: the ceiling."""
    _TASK[:] = [people, make]
    with get_context("fork").Pool() as pool:
        return pool.map(_one, range(len(people)), chunksize=1)


_TASK: list[Any] = []  # what forked processes work on


def _one(number: int) -> tuple[list[float], list[float]]:
    people, make = _TASK
    return recover(people[number]) if make is None else live(people[number], make)


def others(person: Person) -> dict[str, float]:
    """Precision@10 of those who do not learn."""
    world = person.world
    favourites = {interest.topic for interest in person.interests}
    held = person.contexts(len(world.held_out), salt=2)

    def first(test: Any) -> Any:
        """The newest that pass a test, then the newest of the others."""

        def rank(context: Context, window: list[dict[str, Any]]) -> list[int]:
            newest = range(len(window) - 1, -1, -1)
            return sorted(newest, key=lambda at: not test(context, window[at]))

        return rank

    ranks = {
        KEYWORDS: first(lambda _, m: not favourites.isdisjoint(m["text"].split())),
        TOPICS: first(lambda _, m: not favourites.isdisjoint(world.covering(m))),
        KNOWS: first(lambda context, m: person.relevant(m, context)),
        NEWEST: first(lambda _, m: True),
    }
    return {name: precision(person, held, rank) for name, rank in ranks.items()}


def judge(means: dict[str, Any]) -> list[Bar]:
    before, after = means[WITH]["before"], means[WITH]["after"]
    back = [n for n, value in zip(AFTER, after, strict=True) if value >= RECOVERED * before[-1]]
    return [
        Bar("with context / without", before[-1] / means[WITHOUT]["before"][-1], 1.5),
        Bar("with context / keyword subscription", before[-1] / means[KEYWORDS], 3.0),
        Bar("pieces of feedback to recover", min(back, default=np.inf), 50, False, ""),
    ]


def measure(n_people: int, seed: int, makes: dict[str, Make]) -> dict[str, Any]:
    """Curves and figures, means over people; the people's own figures for error bars."""
    world = World(seed)
    people = [Person.draw(world, number) for number in range(n_people)]
    plain = [others(person) for person in people]
    means: dict[str, Any] = {name: float(np.mean([p[name] for p in plain])) for name in plain[0]}
    final: dict[str, Any] = {}
    for name, make in makes.items():
        console.print(f"{n_people} people, {name}")
        curves = lives(people, make)
        means[name] = {
            "before": np.mean([before for before, _ in curves], axis=0).tolist(),
            "after": np.mean([after for _, after in curves], axis=0).tolist(),
        }
        final[name] = [before[-1] for before, _ in curves]
    return {"means": means, "people": final, "plain": plain}


def show(means: dict[str, Any]) -> None:
    plain = Table("who does not learn", "precision@10")
    for name, value in means.items():
        if isinstance(value, float):
            plain.add_row(name, f"{value:.3f}")
    console.print(plain)
    learners = [name for name, value in means.items() if isinstance(value, dict)]
    table = Table("pieces of feedback", *learners)
    for phase, checkpoints in (("before", BEFORE), ("after", AFTER)):
        for at, pieces in enumerate(checkpoints):
            values = [f"{means[name][phase][at]:.3f}" for name in learners]
            table.add_row(f"{pieces}" if phase == "before" else f"changed, {pieces}", *values)
    console.print(table)


def main(arguments: list[str] | None = None) -> int:
    """Run, print, draw, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--river", action="store_true", help="measure river's learner, too")
    parser.add_argument("--out", type=Path, help="a folder for the plot")
    chosen = parser.parse_args(arguments)
    makes: dict[str, Make] = {
        WITH: lambda world, person: Learning(world, person, True),
        WITHOUT: lambda world, person: Learning(world, person, False),
    }
    if chosen.river:
        makes[RIVER] = River
    observed = measure(chosen.people, chosen.seed, makes)
    show(observed["means"])
    bars = judge(observed["means"])
    show_bars(bars)
    observed["bars"] = [bar.as_dict() for bar in bars]
    parameters = {"people": chosen.people, "seed": chosen.seed, "before": BEFORE, "after": AFTER}
    path = record.write("interests", parameters, observed)
    console.print(f"record: {os.path.relpath(path)}")
    if chosen.out is not None:
        draw(observed["means"], chosen.out)
    return 0


def draw(means: dict[str, Any], out: Path) -> None:
    """The curves, before and after the change."""
    from .figures import dress, finish, panels

    out.mkdir(parents=True, exist_ok=True)
    figure, axes = panels(2)
    for panel, phase, pieces in ((axes[0], "before", BEFORE), (axes[1], "after", AFTER)):
        for name, value in means.items():
            if isinstance(value, dict):
                panel.plot(pieces, value[phase], marker="o", markersize=3, label=name)
            elif phase == "before":
                panel.axhline(value, linestyle="--", linewidth=0.8, color="0.5")
                panel.annotate(name, (pieces[-1], value), ha="right", va="bottom", fontsize=7)
        panel.set_ylim(0, 1)
    back = RECOVERED * means[WITH]["before"][-1]
    axes[1].axhline(back, linestyle=":", color="0.3")
    axes[1].annotate("recovered", (AFTER[-1], back), ha="right", va="bottom", fontsize=7)
    dress(axes[0], "learning", "pieces of feedback", "precision@10")
    dress(axes[1], "after three of ten tastes changed", "pieces of feedback since", "precision@10")
    finish(figure, out, "interests")


if __name__ == "__main__":
    raise SystemExit(main())
