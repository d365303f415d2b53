"""The second part of the demo: many profiles with a price band around a limit that moves.

Rounds of context updates and messages stream through the filter. The last messages are matched
once more by a plain scan over every profile, which has to give the same answer.
"""

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import germane

_N_SYMBOLS = 20
_TOP_PRICE = 1000.0
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
    limits: np.ndarray

    @classmethod
    def generate(cls, n_profiles: int, random: np.random.Generator) -> "Crowd":
        symbols = random.integers(_N_SYMBOLS, size=n_profiles)
        return cls(
            ids=[f"band-{number}" for number in range(n_profiles)],
            contexts=[f"trader-{number}" for number in range(n_profiles)],
            conditions=[_CONDITION.format(_symbol(symbol)) for symbol in symbols],
            limits=random.uniform(0, _TOP_PRICE, n_profiles),
        )

    def fill(self, index: str) -> germane.Filter:
        filter_ = germane.Filter(index=index)
        filter_.update_many(self.contexts, "limit", self.limits)
        filter_.subscribe_many(self.ids, self.conditions, self.contexts)
        return filter_


def run(console: Console, size: Size, seed: int = 1) -> None:
    """Fill a filter, stream updates and messages through it, and report its statistics."""
    random = np.random.default_rng(seed)
    crowd = Crowd.generate(size.n_profiles, random)
    console.print(
        f"{size.n_profiles:,} traders, each with a limit that moves. A typical profile:\n"
        f"  {crowd.conditions[0]}\n",
        highlight=False,
        markup=False,
    )
    with console.status("compiling the kernels (once on a machine) and registering profiles"):
        _warm_up(random)
        filter_ = crowd.fill("agile")
    before = dict(filter_.stats())
    update_s, match_s, messages = _stream(console, filter_, crowd, size, random)
    console.print(_report(before, filter_.stats(), update_s, match_s))
    _compare_with_scan(console, filter_, crowd, messages)


def _warm_up(random: np.random.Generator) -> None:
    small = Crowd.generate(500, random)
    for index in ("agile", "scan"):
        filter_ = small.fill(index)
        for _ in range(3):
            filter_.match_many(_messages(50, random))
            filter_.update_many(small.contexts[:50], "limit", small.limits[:50] + 5)


def _stream(
    console: Console,
    filter_: germane.Filter,
    crowd: Crowd,
    size: Size,
    random: np.random.Generator,
) -> tuple[float, float, pa.Table]:
    """Alternate updates and messages; return the seconds of each and the last messages."""
    update_s = match_s = 0.0
    messages = _messages(size.n_messages, random)
    columns = (TextColumn("streaming"), BarColumn(), TextColumn("{task.fields[matches]:,} matches"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=size.n_rounds, matches=0)
        n_matches = 0
        for _ in range(size.n_rounds):
            moved = random.integers(size.n_profiles, size=size.n_updates)
            crowd.limits[moved] += random.normal(0, 3, size.n_updates)
            messages = _messages(size.n_messages, random)
            started = time.perf_counter()
            filter_.update_many([crowd.contexts[m] for m in moved], "limit", crowd.limits[moved])
            updated = time.perf_counter()
            n_matches += filter_.match_many(messages).to_arrow().num_rows
            update_s += updated - started
            match_s += time.perf_counter() - updated
            progress.update(task, advance=1, matches=n_matches)
    return update_s, match_s, messages


def _report(
    before: dict[str, int], after: dict[str, int], update_s: float, match_s: float
) -> Table:
    """What happened while streaming: the difference of two `stats()`."""
    done = {key: after[key] - before.get(key, 0) for key in _MEANINGS}
    table = Table(title="What the filter did", title_justify="left", box=None, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", style="bold")
    table.add_column(style="dim")
    table.add_row("messages/s", f"{done['messages'] / match_s:,.0f}", "on this machine, just now")
    table.add_row("updates/s", f"{done['updates'] / update_s:,.0f}", "")
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


def _compare_with_scan(
    console: Console, filter_: germane.Filter, crowd: Crowd, messages: pa.Table
) -> None:
    with console.status("matching the last messages again, by a plain scan"):
        scan = crowd.fill("scan")
        started = time.perf_counter()
        expected = scan.match_many(messages).by_message()
        scan_s = time.perf_counter() - started
        started = time.perf_counter()
        found = filter_.match_many(messages).by_message()
        agile_s = time.perf_counter() - started
    same = "the same answers" if found == expected else "DIFFERENT ANSWERS (please report this)"
    console.print(
        f"The last {messages.num_rows} messages by a plain scan of every profile: {same}, "
        f"{scan_s / agile_s:.1f} times the time."
    )


def _messages(n_messages: int, random: np.random.Generator) -> pa.Table:
    symbols = [_symbol(symbol) for symbol in random.integers(_N_SYMBOLS, size=n_messages)]
    return pa.table({"symbol": symbols, "price": random.uniform(0, _TOP_PRICE, n_messages)})


def _symbol(number: int) -> str:
    return f"S{number:02}"
