"""Rounds: rivals take turns inside one run, so that noise of the machine hits all alike.

A contestant is a function that does `n` units of work and is timed as a whole. `compete` finds
how many units fill a turn, unless that is given, then lets everybody have a turn in every round,
in an order drawn anew; figures are medians over rounds, ratios are medians of the ratios within a
round.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

console = Console()
Work = Callable[[int], None]
Clock = Callable[[], float]


@dataclass
class Contestant:
    """A rival: its name, its work, and what every round took."""

    name: str
    work: Work
    max_units: int = 1 << 30
    units: int = 0  # of a turn; 0 is to be found out
    seconds: list[float] = field(default_factory=list)

    def rate(self) -> float:
        """Units a second, median of the rounds."""
        return self.units / statistics.median(self.seconds)

    def rates(self) -> list[float]:
        return [self.units / s for s in self.seconds]


@contextmanager
def quiet() -> Iterator[None]:
    """No collections of garbage inside a timed stretch."""
    was = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def timed(work: Work, units: int, clock: Clock = time.perf_counter) -> float:
    start = clock()
    work(units)
    return clock() - start


def calibrate(contestant: Contestant, turn_s: float, clock: Clock = time.perf_counter) -> None:
    """Choose the units that take about one turn; the first call is a warm-up."""
    contestant.work(1)
    units = 1
    while True:
        took = timed(contestant.work, units, clock)
        if took >= turn_s / 4 or units >= contestant.max_units:
            break
        units = min(contestant.max_units, units * 4)
    ideal = int(units * turn_s / max(took, 1e-9))
    contestant.units = max(1, min(contestant.max_units, ideal))


def compete(
    contestants: list[Contestant], n_rounds: int, turn_s: float, clock: Clock = time.perf_counter
) -> None:
    """Fill in `seconds` of every contestant: one turn in each round, in an order drawn anew.

    In a fixed order everybody would always follow the same rival and find its caches. `clock` may
    be that of the processor, where nobody waits and the machine is shared.
    """
    draw = random.Random(1)
    with quiet():
        for contestant in contestants:
            if not contestant.units:
                calibrate(contestant, turn_s, clock)
        for _ in range(n_rounds):
            for contestant in draw.sample(contestants, len(contestants)):
                contestant.seconds.append(timed(contestant.work, contestant.units, clock))


def ratio(ours: list[float], theirs: list[float]) -> float:
    """How many times ours is theirs: the median of the ratios within a round."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=False))


@dataclass(frozen=True)
class Bar:
    """A line of the goals: a value, what it must reach, and whether it does."""

    text: str
    value: float
    wanted: float
    at_least: bool = True
    unit: str = "×"

    @property
    def passed(self) -> bool:
        return self.value >= self.wanted if self.at_least else self.value <= self.wanted

    def as_dict(self) -> dict[str, Any]:
        sign = ">=" if self.at_least else "<="
        return {
            "bar": self.text,
            "value": self.value,
            "wanted": f"{sign} {self.wanted}{self.unit}",
            "passed": self.passed,
        }


def show_bars(bars: list[Bar]) -> None:
    """Print which bars are met."""
    table = Table("bar", "value", "wanted", "verdict", title="Bars")
    for bar in bars:
        sign = "≥" if bar.at_least else "≤"
        verdict = "[green]pass[/green]" if bar.passed else "[red]fail[/red]"
        table.add_row(
            bar.text, f"{bar.value:,.4g} {bar.unit}", f"{sign} {bar.wanted:g} {bar.unit}", verdict
        )
    console.print(table)
