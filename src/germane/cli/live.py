"""A running stream, for people: Spark's progress in, a line that lives and a table at the end out.

A message goes to every shard, and Spark adds up what shards tell; here it counts once.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

POLL_S = 0.2
SEPARATOR = " · "
_SUMMED = ("events", "messages", "deliveries", "rejected", "rebuilt")


class Beat(NamedTuple):
    """A micro-batch that was done."""

    batch: int
    events: int
    messages: int
    deliveries: int
    rejected: int
    rebuilt: int
    held: int
    seconds: float
    waiting: int  # files, or offsets, that are known but not yet read

    @classmethod
    def of(cls, progress: Any) -> "Beat":
        """From Spark's report of a micro-batch."""
        counts = (progress["observedMetrics"] or {}).get("germane")
        told = {} if counts is None else counts.asDict()
        n_shards = max([o["numShufflePartitions"] for o in progress["stateOperators"]] or [1])
        in_all = told.get("messages") or 0
        messages = in_all // n_shards
        return cls(
            batch=progress["batchId"],
            events=(told.get("events") or 0) - in_all + messages,
            messages=messages,
            **{n: told.get(n) or 0 for n in ("deliveries", "rejected", "rebuilt", "held")},
            seconds=progress["durationMs"].get("triggerExecution", 0) / 1000,
            waiting=sum(_waiting(source["metrics"] or {}) for source in progress["sources"]),
        )

    def line(self) -> str:
        """What a person wants to see while it runs."""
        lag = f"lag {self.seconds:.1f} s"
        if self.waiting:
            lag += f" and {self.waiting:,} to read"
        parts = [
            f"batch {self.batch}",
            f"{self.events / max(self.seconds, 1e-3):,.0f} events/s",
            _some(self.messages, "message"),
            _some(self.deliveries, "delivery", "deliveries"),
            f"{self.rejected:,} rejected",
            f"{_some(self.rebuilt, 'shard')} rebuilt",
            f"{self.held:,} held",
            lag,
        ]
        return SEPARATOR.join(parts)


@dataclass
class Totals:
    """All micro-batches together."""

    n_batches: int = 0
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SUMMED, 0))

    def add(self, beat: Beat) -> None:
        """Count a micro-batch in."""
        self.n_batches += 1
        self.seconds += beat.seconds
        for name in _SUMMED:
            self.counts[name] += getattr(beat, name)

    def table(self, **more: str) -> Table:
        """A summary, with more rows if there is more to say."""
        seconds = max(self.seconds, 1e-3)
        rows = {
            "micro-batches": f"{self.n_batches:,}, {self.seconds:,.1f} s in all",
            "events": f"{self.counts['events']:,}, {self.counts['events'] / seconds:,.0f}/s",
            "messages": f"{self.counts['messages']:,}, {self.counts['messages'] / seconds:,.0f}/s",
            "deliveries": f"{self.counts['deliveries']:,}",
            "rejected": f"{self.counts['rejected']:,}",
            "shards rebuilt": f"{self.counts['rebuilt']:,}",
        }
        return summary(rows | more)


def summary(rows: dict[str, str]) -> Table:
    """Names and values, one below the other."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(style="bold", overflow="fold")
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def follow(query: Any, show: Callable[[Beat], object], stop: "Stop | None" = None) -> Totals:
    """Show each micro-batch until the stream ends, or is stopped; a failure is raised."""
    totals, last = Totals(), -1
    while True:
        ended = query.awaitTermination(POLL_S)
        for beat in _new(query, last):
            totals.add(beat)
            show(beat)
            last = beat.batch
        if ended:
            return totals
        if stop is not None and stop.wanted and stop.may(query, last):
            query.stop()


@dataclass
class Stop:
    """A wish to end: after the micro-batch that runs, or at once if it is said twice."""

    wanted: int = 0
    _batch: int | None = None

    def may(self, query: Any, last: int) -> bool:
        """Whether this is the moment."""
        if self._batch is None:
            self._batch = last
        idle = not query.status["isTriggerActive"]
        return self.wanted > 1 or idle or last > self._batch


@contextmanager
def stopping(console: Console) -> Iterator[Stop]:
    """Ctrl-C, or a polite kill, becomes a wish to stop.

    Spark's own handler would cancel the micro-batch in its midst.
    """
    stop = Stop()

    def note(number: int, frame: object) -> None:
        stop.wanted += 1
        if stop.wanted == 1:
            console.print("Stopping after this micro-batch (Ctrl-C again: at once).")

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _new(query: Any, last: int) -> list[Beat]:
    """The micro-batches after one, in order; while nothing comes, Spark reports that as well."""
    newest = query.lastProgress
    if newest is None or newest["batchId"] <= last:
        return []
    found = [newest] if newest["batchId"] == last + 1 else query.recentProgress
    done = {p["batchId"]: p for p in found if "addBatch" in p["durationMs"]}
    return [Beat.of(done[number]) for number in sorted(done) if number > last]


def _some(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _waiting(metrics: dict[str, str]) -> int:
    """How much a source knows of that was not read, in its own unit."""
    for name in ("numFilesOutstanding", "maxOffsetsBehindLatest"):
        if name in metrics:
            return int(float(metrics[name]))
    return 0
