"""The second part of the demo: many profiles with a price band around a limit that moves.

Rounds of context updates and messages stream through the filter. The last messages are matched
once more by a plain scan over every profile, which has to give the same answer.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import germane

_N_SYMBOLS = 20
_TOP_PRICE = 1000.0
_CHUNK = 2_500
_CONDITION = "symbol = '{}' AND price BETWEEN context.limit - 2 AND context.limit + 2"


@dataclass(frozen=True)
class Size:
    n_profiles: int = 50_000
    n_rounds: int = 50
    n_updates: int = 500  # in a round
    n_messages: int = 200  # in a round


@dataclass
class Crowd:
    """The generated profiles, and the limits as they are now."""

    ids: list[str]
    contexts: list[str]
    conditions: list[str]
    limits: NDArray[np.float64]

    @classmethod
    def generate(cls, n_profiles: int, random: np.random.Generator) -> "Crowd":
        symbols = random.integers(_N_SYMBOLS, size=n_profiles)
        return cls(
            ids=[f"band-{number}" for number in range(n_profiles)],
            contexts=[f"trader-{number}" for number in range(n_profiles)],
            conditions=[_CONDITION.format(_symbol(symbol)) for symbol in symbols],
            limits=random.uniform(0, _TOP_PRICE, n_profiles),
        )

    def fill(self, index: str, advance: Callable[[int], object] = lambda n: None) -> germane.Filter:
        """A filter with all profiles and the limits of now; `advance` hears of the progress."""
        filter_ = germane.Filter(index=index)
        filter_.update_many(self.contexts, "limit", self.limits)
        for start in range(0, len(self.ids), _CHUNK):
            part = slice(start, start + _CHUNK)
            filter_.subscribe_many(self.ids[part], self.conditions[part], self.contexts[part])
            advance(len(self.ids[part]))
        return filter_

    def move(self, n_updates: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Move the limits of some traders; return who."""
        moved = random.integers(len(self.ids), size=n_updates)
        self.limits[moved] += random.normal(0, 3, n_updates)
        return moved


@dataclass
class Tally:
    """Seconds and matches of the rounds so far, and the messages of the last one."""

    messages: pa.Table = None
    update_s: float = 0.0
    match_s: float = 0.0
    n_matches: int = 0

    def round(
        self, filter_: germane.Filter, crowd: Crowd, size: Size, random: np.random.Generator
    ) -> None:
        """Updates, then messages."""
        moved = crowd.move(size.n_updates, random)
        contexts = [crowd.contexts[number] for number in moved]
        self.messages = _messages(size.n_messages, random)
        started = time.perf_counter()
        filter_.update_many(contexts, "limit", crowd.limits[moved])
        updated = time.perf_counter()
        self.n_matches += filter_.match_many(self.messages).to_arrow().num_rows
        self.update_s += updated - started
        self.match_s += time.perf_counter() - updated


def run(console: Console, size: Size, seed: int = 1) -> None:
    """Fill a filter, stream updates and messages through it, and report its statistics."""
    random = np.random.default_rng(seed)
    crowd = Crowd.generate(size.n_profiles, random)
    console.print(
        f"{size.n_profiles:,} traders, each with a limit that moves. A typical profile:\n"
        f"  {crowd.conditions[0]}\n",
        markup=False,
    )
    filter_ = _fill(console, crowd, "agile", "registering profiles")
    before = dict(filter_.stats())
    tally = _stream(console, filter_, crowd, size, random)
    console.print(_report(before, filter_.stats(), tally))
    console.print(_compared_with_scan(console, filter_, crowd, tally.messages))


def warm_up(seed: int = 0) -> None:
    """Use everything that is timed later, so that no compilation is timed."""
    random = np.random.default_rng(seed)
    size = Size(n_profiles=2_000, n_rounds=20, n_updates=200, n_messages=100)
    for index in ("agile", "scan"):
        small = Crowd.generate(size.n_profiles, random)
        filter_ = small.fill(index)
        for strategy in ("unbatched/pix", "minib/pix/mix"):
            filter_.batching = germane.Batching(strategy)
            for _ in range(size.n_rounds):
                Tally().round(filter_, small, size, random)


def _fill(console: Console, crowd: Crowd, index: str, text: str) -> germane.Filter:
    with Progress(TextColumn(text), BarColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=len(crowd.ids))
        return crowd.fill(index, lambda n: progress.advance(task, n))


def _stream(
    console: Console,
    filter_: germane.Filter,
    crowd: Crowd,
    size: Size,
    random: np.random.Generator,
) -> Tally:
    tally = Tally()
    columns = (TextColumn("streaming"), BarColumn(), TextColumn("{task.fields[matches]:,} matches"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=size.n_rounds, matches=0)
        for _ in range(size.n_rounds):
            tally.round(filter_, crowd, size, random)
            progress.update(task, advance=1, matches=tally.n_matches)
    return tally


def _report(before: dict[str, Any], after: dict[str, Any], tally: Tally) -> Table:
    """What happened while streaming: the difference of two `stats()`."""
    done = {key: after[key] - before.get(key, 0) for key in _MEANINGS}
    table = Table(title="What the filter did", title_justify="left", box=None, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", style="bold")
    table.add_column(style="dim")
    table.add_row(
        "messages/s", f"{done['messages'] / tally.match_s:,.0f}", "on this machine, just now"
    )
    table.add_row("updates/s", f"{done['updates'] / tally.update_s:,.0f}", "")
    for key, meaning in _MEANINGS.items():
        table.add_row(key.replace("_", " "), f"{done[key]:,}", meaning)
    return table


_MEANINGS = {
    "messages": "",
    "updates": "changes of a limit",
    "index_updates": "changes that had to touch an index",
    "escalations": "profiles widened so that later updates are free",
    "deescalations": "profiles made exact again, because they cost false positives",
    "candidates": "profiles that the indexes proposed",
    "false_positives": "candidates that the exact check refused",
    "matches": "deliveries",
}


def _compared_with_scan(
    console: Console, filter_: germane.Filter, crowd: Crowd, messages: pa.Table
) -> str:
    """Match the last messages again, with and without indexes."""
    scan = _fill(console, crowd, "scan", "registering them for a plain scan")
    started = time.perf_counter()
    expected = scan.match_many(messages).by_message()
    scanned = time.perf_counter()
    found = filter_.match_many(messages).by_message()
    ratio = (scanned - started) / (time.perf_counter() - scanned)
    same = "the same answers" if found == expected else "DIFFERENT ANSWERS (please report this)"
    return (
        f"\nThe last {messages.num_rows} messages by a plain scan of every profile: {same}, "
        f"in {ratio:.1f} times the time."
    )


def _messages(n_messages: int, random: np.random.Generator) -> pa.Table:
    symbols = [_symbol(symbol) for symbol in random.integers(_N_SYMBOLS, size=n_messages)]
    return pa.table({"symbol": symbols, "price": random.uniform(0, _TOP_PRICE, n_messages)})


def _symbol(number: int) -> str:
    return f"S{number:02}"
