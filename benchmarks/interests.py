"""Does an agent that knows the context bring what is germane now? Simulated people (`tastes`).

    python -m benchmarks.interests --people 30 --seeds 1 103 105

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

After 300 pieces three tastes change. Recovered is who is back at 95 % of the precision before. How
far one can come is shown by someone who knows everything but the three new topics (`oracle`). In a
second life only one taste changes (`one_taste`).
Learners are measured by what they would rank first, so that showing things only to find out costs
them nothing there; therefore the share of what was shown that was relevant is reported, too.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from germane.agent import Agent

from . import one_taste, record
from .days import AFTER, BEFORE, Days, Make, precision
from .oracle import KnowsTheRest
from .rounds import Bar, console, show_bars
from .tastes import Context, Person, Reaction, World

RECOVERED = 0.95
WITH, WITHOUT, RIVER = "with context", "without context", "river"
KEYWORDS, TOPICS, KNOWS, NEWEST = "keywords", "topics", "knows the tastes", "newest"
CEILING = "knows all but the new"
ONE = "one taste"


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


class Lived(NamedTuple):
    """Precision at the checkpoints before and after a change of taste; of what was shown, too."""

    before: list[float]
    after: list[float]
    shown: list[float]  # before, after


def live(person: Person, make: Make) -> Lived:
    """A person's life with a learner."""
    days, learner = Days(person), make(person.world, person)
    before = days.spend(person, learner, BEFORE)
    shown, days.shown = days.shown, []
    after = days.spend(person.changed(), learner, AFTER)
    return Lived(before, after, [float(np.mean(shown)), float(np.mean(days.shown))])


def recover(person: Person) -> Lived:
    """The same with who knows all but what is new."""
    days, changed = Days(person), person.changed()
    before = others(person)[KNOWS]
    after = days.spend(changed, KnowsTheRest(person, changed), AFTER)
    return Lived([before] * len(BEFORE), after, [before, float(np.mean(days.shown))])


def lives(people: list[Person], life: Callable[[Person], Any]) -> list[Any]:
    """Everybody's life, on all cores; people do not meet."""
    _TASK[:] = [people, life]
    with get_context("fork").Pool() as pool:
        return pool.map(_one, range(len(people)), chunksize=1)


_TASK: list[Any] = []  # what forked processes work on


def _one(number: int) -> Any:
    people, life = _TASK
    return life(people[number])


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
    before = means[WITH]["before"][-1]
    return [
        Bar("with context / without", before / means[WITHOUT]["before"][-1], 1.5),
        Bar("with context / keyword subscription", before / means[KEYWORDS], 3.0),
        Bar("pieces to recover: three tastes", recovery(means[WITH]), 50, False, ""),
        *(
            one_taste.judge(way, curves[WITH], AFTER, RECOVERED)
            for way, curves in means[ONE].items()
        ),
    ]


def recovery(curves: dict[str, list[float]]) -> float:
    """After how many pieces of feedback somebody is back at what it was."""
    back = RECOVERED * curves["before"][-1]
    return min(
        (n for n, v in zip(AFTER, curves["after"], strict=True) if v >= back), default=np.inf
    )


def measure(n_people: int, seeds: list[int], makes: dict[str, Make | None]) -> dict[str, Any]:
    """Curves and figures, means over people; and of each world by itself."""
    worlds = [World(seed) for seed in seeds]
    people = [Person.draw(world, number) for world in worlds for number in range(n_people)]
    plain = [others(person) for person in people]
    curves: dict[str, list[Lived]] = {}
    moved: dict[str, dict[str, list[one_taste.Moved]]] = {w: {} for w in one_taste.MEASURED}
    for name, make in makes.items():
        console.print(f"{len(people)} people, {name}")
        curves[name] = lives(people, partial(live, make=make) if make else recover)
        if name in (WITH, CEILING):
            for way, curve in moved.items():
                curve[name] = lives(people, partial(one_taste.move, make=make, way=way))

    def means(which: slice) -> dict[str, Any]:
        found: dict[str, Any] = {
            name: float(np.mean([p[name] for p in plain[which]])) for name in plain[0]
        }
        for name, lived in curves.items():
            columns = zip(*lived[which], strict=True)
            found[name] = {
                part: np.mean(rows, axis=0).tolist()
                for part, rows in zip(Lived._fields, columns, strict=True)
            }
        found[ONE] = {
            way: {name: one_taste.summed(rows[which]) for name, rows in curves.items()}
            for way, curves in moved.items()
        }
        return found

    by_seed = {
        str(seed): means(slice(i * n_people, (i + 1) * n_people)) for i, seed in enumerate(seeds)
    }
    return {"means": means(slice(None)), "by seed": by_seed}


def show(means: dict[str, Any]) -> None:
    plain = Table("who does not learn", "precision@10")
    for name, value in means.items():
        if isinstance(value, float):
            plain.add_row(name, f"{value:.3f}")
    console.print(plain)
    learners = [name for name, value in means.items() if "shown" in _parts(value)]
    table = Table("pieces of feedback", *learners)
    for phase, checkpoints in (("before", BEFORE), ("after", AFTER)):
        for at, pieces in enumerate(checkpoints):
            values = [f"{means[name][phase][at]:.3f}" for name in learners]
            table.add_row(f"{pieces}" if phase == "before" else f"changed, {pieces}", *values)
    shown = [" then ".join(f"{v:.2f}" for v in means[name]["shown"]) for name in learners]
    table.add_row("relevant, of what was shown", *shown)
    table.add_row("pieces to recover", *(f"{recovery(means[name]):.0f}" for name in learners))
    console.print(table)
    for way, curve in means[ONE].items():
        one_taste.show(way, curve, AFTER, RECOVERED)


def _parts(value: Any) -> Any:
    """What there is of a learner; nothing of who does not learn."""
    return value if isinstance(value, dict) else ()


def show_seeds(by_seed: dict[str, Any]) -> None:
    """The bars in each world."""
    bars = {seed: judge(means) for seed, means in by_seed.items()}
    table = Table("in each world", *(f"seed {seed}" for seed in bars))
    for row in zip(*bars.values(), strict=True):
        table.add_row(row[0].text, *(f"{bar.value:.2f}" for bar in row))
    curves = [means[WITH] for means in by_seed.values()]
    shares = [c["after"][AFTER.index(50)] / c["before"][-1] for c in curves]
    table.add_row("share after 50: three tastes", *(f"{share:.2f}" for share in shares))
    console.print(table)


def main(arguments: list[str] | None = None) -> int:
    """Run, print, draw, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--people", type=int, default=30, help="in each world")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="one world each")
    parser.add_argument("--river", action="store_true", help="measure river's learner, too")
    parser.add_argument("--out", type=Path, help="a folder for the plot")
    chosen = parser.parse_args(arguments)
    makes: dict[str, Make | None] = {
        WITH: lambda world, person: Learning(world, person, True),
        WITHOUT: lambda world, person: Learning(world, person, False),
    }
    if chosen.river:
        makes[RIVER] = River
    makes[CEILING] = None
    observed = measure(chosen.people, chosen.seeds, makes)
    show(observed["means"])
    show_seeds(observed["by seed"])
    bars = judge(observed["means"])
    show_bars(bars)
    observed["bars"] = [bar.as_dict() for bar in bars]
    parameters = {"people": chosen.people, "seeds": chosen.seeds, "before": BEFORE, "after": AFTER}
    path = record.write("interests", parameters, observed)
    console.print(f"record: {os.path.relpath(path)}")
    if chosen.out is not None:
        draw(observed["means"], chosen.out)
    return 0


def draw(means: dict[str, Any], out: Path) -> None:
    """The curves, before and after the change."""
    from .figures import dress, finish, panels

    out.mkdir(parents=True, exist_ok=True)
    figure, grid = panels(2, rows=3)
    *axes, spare = grid.ravel()
    spare.set_axis_off()
    for panel, phase, pieces in ((axes[0], "before", BEFORE), (axes[1], "after", AFTER)):
        for name, value in means.items():
            if "shown" in _parts(value) and (name != CEILING or phase == "after"):
                style = "--" if name == CEILING else "-"
                panel.plot(pieces, value[phase], style, marker="o", markersize=3, label=name)
            elif phase == "before" and not isinstance(value, dict):
                panel.axhline(value, linestyle="--", linewidth=0.8, color="0.5")
                panel.annotate(name, (pieces[-1], value), ha="right", va="bottom", fontsize=7)
        panel.set_ylim(0, 1)
    for at, name in enumerate((WITH, CEILING)):
        back = RECOVERED * means[name]["before"][-1]
        axes[1].axhline(back, linestyle=":", color=f"C{2 * at}")
        words, below = f"recovered ({name})", "top" if at else "bottom"
        at_x = AFTER[-1] if at else AFTER[-2]
        axes[1].annotate(words, (at_x, back), ha="right", va=below, fontsize=7)
    axes[1].axvline(50, linestyle=":", linewidth=0.8, color="0.5")
    for panel, (way, curves) in zip(axes[2:], means[ONE].items(), strict=True):
        for at, (name, curve) in enumerate(curves.items()):
            style, color = "--" if at else "-", f"C{2 * at}"
            panel.plot(
                AFTER, curve["after"], style, marker="o", markersize=3, color=color, label=name
            )
            back = RECOVERED * curve["share before"] * curve["knows"]
            panel.axhline(back, linestyle=":", color=color)
            words = f"recovered ({name})"
            clear = at or curve["after"][-1] > back + 0.05  # of the curve
            at_x, below = AFTER[-1] if clear else AFTER[-3], "bottom" if at else "top"
            panel.annotate(words, (at_x, back), ha="right", va=below, fontsize=7)
        panel.axvline(50, linestyle=":", linewidth=0.8, color="0.5")
        panel.set_ylim(0, 1)
        dress(panel, f"after one taste changed: {way}", "pieces of feedback since", "precision@10")
    dress(axes[0], "learning", "pieces of feedback", "precision@10")
    dress(axes[1], "after three of ten tastes changed", "pieces of feedback since", "precision@10")
    for at, panel in enumerate(axes):
        panel.legend(loc="lower right" if at > 1 else "upper left", fontsize=7)
    finish(figure, out, "interests")


if __name__ == "__main__":
    raise SystemExit(main())
