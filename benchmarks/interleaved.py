"""Updates among messages: `process` on Arrow batches against one event at a time.

    python -m benchmarks.interleaved --profiles 500000

Table 2, 10,000 messages with 10 million updates among them in one sequence. `process` takes all of
it, as record batches of mixed events. One event at a time, `update` and `match_rows` on a copy of
the same filter, is too slow for that: in every round it takes the next few messages of its own
replay, with all their updates, and the rest is extrapolated by the event. `update_many` by
attribute between two messages runs along in the same way: it shows what columns alone give. Making
events is never on the clock. Answers are compared on the messages that several have seen.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.table import Table

from . import engine, record
from .mixed import Replay, Rows
from .rounds import Bar, console, quiet, ratio, show_bars
from .workloads import table2

PROCESS, SINGLY, COLUMNS = "process", "one event at a time", "update_many between messages"
WANTED = 5.0

Feed = Callable[[Any, list[Rows]], tuple[float, list[np.ndarray]]]


def through_process(f: Any, parts: list[Rows]) -> tuple[float, list[np.ndarray]]:
    """Seconds and answers of one `process` over some record batches."""
    batches = [rows.to_arrow() for rows in parts]
    start = time.perf_counter()
    found = f.process(batches)
    seconds = time.perf_counter() - start
    if found.rejected:
        raise AssertionError(f"process rejected {found.rejected[0]}")
    return seconds, [found.rows(i) for i in range(found.n_messages)]


def through_calls(f: Any, parts: list[Rows]) -> tuple[float, list[np.ndarray]]:
    """Seconds and answers of one call for every event."""
    calls = [call for rows in parts for call in rows.in_calls(f)]
    update, match = f.update, f.match_rows
    answers = []
    start = time.perf_counter()
    for call in calls:
        if len(call) == 2:
            update(*call)
        else:
            answers.append(match(*call))
    return time.perf_counter() - start, answers


def through_columns(f: Any, parts: list[Rows]) -> tuple[float, list[np.ndarray]]:
    """Seconds and answers of `update_many` for every attribute before every message."""
    return engine.play(f, engine.prepared(f, [step for rows in parts for step in rows.steps]))


@dataclass
class Runner:
    """One way through the sequence, with its own filter, replay and clock."""

    name: str
    feed: Feed
    filter: Any
    sequence: Replay
    n_messages: int  # a round
    digests: list[int] = field(default_factory=list)
    chunks: list[tuple[int, int, float]] = field(default_factory=list)

    def advance(self, n_messages: int, part: int) -> tuple[int, int, float]:
        """Messages, events and seconds of the next stretch, handed over in parts."""
        sizes = [min(part, n_messages - done) for done in range(0, n_messages, part)]
        parts = [self.sequence.take(size) for size in sizes]
        with quiet():
            seconds, answers = self.feed(self.filter, parts)
        self.digests += [record.digest(rows) for rows in answers]
        return n_messages, sum(len(rows.ids) for rows in parts), seconds

    def rates(self) -> list[float]:
        """Events a second in every round."""
        return [events / seconds for _, events, seconds in self.chunks]


def race(runners: list[Runner], chosen: Any) -> None:
    """A warm-up, then a turn for everybody in every round, in an order drawn anew."""
    for runner in runners:
        runner.advance(chosen.warm_messages, chosen.part)
    rng = np.random.default_rng(chosen.seed)
    for k in range(chosen.rounds):
        for i in rng.permutation(len(runners)):
            runner = runners[i]
            runner.chunks.append(runner.advance(runner.n_messages, chosen.part))
        rates = ", ".join(f"{runner.name} {runner.rates()[-1]:,.0f}" for runner in runners)
        console.print(f"round {k + 1}, events/s: {rates}")


def agreement(runners: list[Runner]) -> tuple[int, bool]:
    """How many messages the slowest has seen, and whether all agree on what they have seen."""
    longest = max((runner.digests for runner in runners), key=len)
    agree = all(runner.digests == longest[: len(runner.digests)] for runner in runners)
    return min(len(runner.digests) for runner in runners), agree


def show(runners: list[Runner], n_events: int, title: str) -> None:
    table = Table("through", "events/s", "messages run", "the whole sequence", title=title)
    for runner in runners:
        rate = float(np.median(runner.rates()))
        n_run = sum(chunk[0] for chunk in runner.chunks)
        measured = runner.name == PROCESS
        took = sum(chunk[2] for chunk in runner.chunks) if measured else n_events / rate
        word = "measured" if measured else "extrapolated"
        table.add_row(runner.name, f"{rate:,.0f}", f"{n_run:,}", f"{took:,.1f} s, {word}")
    console.print(table)


def main(arguments: list[str] | None = None) -> int:
    """Run, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--profiles", type=int, default=500_000)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--updates", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--part", type=int, default=100, help="messages of a record batch")
    parser.add_argument("--sample", type=int, default=50, help="messages a round, event by event")
    parser.add_argument("--warm-messages", type=int, default=300)
    parser.add_argument("--index", default="agile")
    parser.add_argument("--structure", default=None)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)

    work = table2(chosen.profiles, chosen.seed)
    wanted = engine.options(chosen.index, structure=chosen.structure)
    a_round = -(-chosen.messages // chosen.rounds)
    sample = min(chosen.sample, a_round)
    ways: list[tuple[str, Feed, int]] = [
        (PROCESS, through_process, a_round),
        (SINGLY, through_calls, sample),
        (COLUMNS, through_columns, sample),
    ]
    stable = engine.Stable()
    try:
        console.print(f"building {chosen.index}")
        runners = [
            Runner(
                name,
                feed,
                stable.fresh(chosen.index, lambda: engine.contextual_filter(work, **wanted)),
                Replay(work, chosen.updates / chosen.messages, chosen.seed),
                n_messages,
            )
            for name, feed, n_messages in ways
        ]
    finally:
        stable.close()
    race(runners, chosen)
    n_common, agree = agreement(runners)
    rates = {runner.name: runner.rates() for runner in runners}
    n_events = chosen.messages + chosen.updates
    show(runners, n_events, f"Table 2, {chosen.profiles:,} profiles, {n_events:,} events")
    verdict = "agree" if agree else "[red]differ[/red]"
    console.print(f"answers {verdict}; all have seen {n_common:,} messages")
    text = f"{PROCESS} / {SINGLY}"
    bars = [Bar(text, ratio(rates[PROCESS], rates[SINGLY]), WANTED)]
    show_bars(bars)
    observed = {
        "events_per_s": rates,
        "chunks": {runner.name: runner.chunks for runner in runners},
        "compared_messages": n_common,
        "answers_agree": agree,
        "bars": [bar.as_dict() for bar in bars],
    }
    path = record.write("interleaved", vars(chosen), observed)
    console.print(f"record: {os.path.relpath(path)}")
    return 0 if agree else 1


if __name__ == "__main__":
    raise SystemExit(main())
