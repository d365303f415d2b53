"""One taste of ten changes: how soon is that made up for?

`interests` changes three tastes at once. Here exactly one changes, with the same noise, after the
same 300 pieces of feedback. It is measured in three ways:

- *any one*: a taste that is drawn among the ten, in the contexts of every day: what somebody can
  expect whose taste changes;
- *the strongest*: the one that holds most often, which hurts most, in the contexts of every day;
- *the strongest, where it holds*: the same, only in contexts in which that taste holds (they are
  drawn anew; its successor holds in the same ones), where nothing is untouched by the change.

The held-out windows are those of `interests`.

The successor may be rarer or more frequent than what it succeeds, and then a precision of before is
out of reach, or is reached too easily. So a learner is compared with who knows the tastes of the
moment, in the same windows: its *share* is its precision divided by that. Recovered is who has
95 % of the share that it had before the change. All pieces of feedback count, also those given in
contexts in which the change cannot be noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from .days import AFTER, LEARNED, Days, Make, precision
from .oracle import KnowsTheRest
from .rounds import Bar, console
from .tastes import Context, Person

ONE, MANY = 1, 400  # tastes that change; contexts of which some are chosen


class Way(NamedTuple):
    """Whose place another taste takes; and the contexts in which precision is measured."""

    change: Callable[[Person], Person]
    contexts: Callable[[Person, int], list[Context]]


class Moved(NamedTuple):
    """Precision of a learner and of who knows, before and after."""

    before: float
    after: list[float]
    knew: float
    knows: float


def strongest(person: Person) -> Person:
    """The same person, whose strongest taste is another now."""
    return person.changed(ONE)


def any_one(person: Person) -> Person:
    """The same person, one of whose tastes is another now; both are drawn."""
    rng = np.random.default_rng([person.world.seed, 7, person.number])
    had = {interest.topic for interest in person.interests}
    fresh = str(rng.choice(sorted(set(person.world.candidates) - had)))
    interests = list(person.interests)
    at = int(rng.integers(len(interests)))
    interests[at] = interests[at]._replace(topic=fresh)
    return replace(person, interests=tuple(interests))


def everywhere(person: Person, n: int) -> list[Context]:
    """So many contexts of every day."""
    return person.contexts(n, salt=2)


def where_it_holds(person: Person, n: int) -> list[Context]:
    """So many contexts, in which the strongest taste holds."""
    changed = strongest(person)
    pairs = zip(person.interests, changed.interests, strict=True)
    old = next(a for a, b in pairs if a.topic != b.topic)
    holding = [c for c in person.contexts(MANY, salt=6) if person._holds(old, c)]
    return [holding[at % len(holding)] for at in range(n)]


ANY, STRONGEST, WHERE = "any one", "the strongest", "the strongest, where it holds"
MEASURED = {
    ANY: Way(any_one, everywhere),
    STRONGEST: Way(strongest, everywhere),
    WHERE: Way(strongest, where_it_holds),
}


def knower(person: Person) -> Any:
    """Ranks by the tastes of a person."""

    def rank(context: Context, window: list[dict[str, Any]]) -> list[int]:
        return sorted(range(len(window)), key=lambda at: not person.relevant(window[at], context))

    return rank


def move(person: Person, make: Make | None, way: str) -> Moved:
    """A person's life with a learner, or, without one, with who knows all but the new topic."""
    change, contexts = MEASURED[way]
    days, after = Days(person), change(person)
    held = contexts(person, len(days.held))
    knew, knows = (precision(taste, held, knower(taste)) for taste in (person, after))
    if make is None:
        learner: Any = KnowsTheRest(person, after)
        before = knew
    else:
        learner = make(person.world, person)
        days.spend(person, learner, (0, LEARNED))
        before = precision(person, held, learner.rank)
    days.held = held
    return Moved(before, days.spend(after, learner, AFTER), knew, knows)


def summed(moved: list[Moved]) -> dict[str, Any]:
    """Means over people, and shares of what who knows has."""
    before, after, knew, knows = (np.mean(column, axis=0) for column in zip(*moved, strict=True))
    return {
        "before": float(before),
        "after": after.tolist(),
        "knew": float(knew),
        "knows": float(knows),
        "share before": float(before / knew),
        "shares after": (after / knows).tolist(),
    }


def recovery(curve: dict[str, Any], checkpoints: tuple[int, ...], least: float) -> float:
    """After how many pieces of feedback the share is back at what it was."""
    back = least * curve["share before"]
    pairs = zip(checkpoints, curve["shares after"], strict=True)
    return min((n for n, share in pairs if share >= back), default=np.inf)


def judge(way: str, curve: dict[str, Any], checkpoints: tuple[int, ...], least: float) -> Bar:
    text = f"pieces to recover: {way}"
    return Bar(text, recovery(curve, checkpoints, least), 50, False, "")


def show(
    way: str, curves: dict[str, dict[str, Any]], checkpoints: tuple[int, ...], least: float
) -> None:
    table = Table(f"one taste changed, {way}", *curves)
    rows = [("before", [f"{c['before']:.3f}" for c in curves.values()])]
    for at, pieces in enumerate(checkpoints):
        values = [
            (c["after"][at], c["shares after"][at] / c["share before"]) for c in curves.values()
        ]
        rows.append((f"changed, {pieces}", [f"{v:.3f} ({share:.0%})" for v, share in values]))
    rows.append(("who knows, before", [f"{c['knew']:.3f}" for c in curves.values()]))
    rows.append(("who knows, after", [f"{c['knows']:.3f}" for c in curves.values()]))
    found = [recovery(curve, checkpoints, least) for curve in curves.values()]
    rows.append(("pieces to recover", [f"{n:.0f}" for n in found]))
    for name, cells in rows:
        table.add_row(name, *cells)
    console.print(table)
