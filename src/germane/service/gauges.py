"""What the matcher is doing, once a second into the tables: for consoles, metrics and people.

Counters since the start and rates of the last second, for each tenant; accept-to-delivery times of
the last seconds as percentiles. The api process shows them; the matcher is never asked for them.
"""

import time
from collections import deque
from typing import Any

import msgspec
import numpy as np
import sqlalchemy as sa

from germane.service import tables
from germane.service.clock import SECOND, Clock
from germane.service.tenant import Step, Tenant

EVERY_S = 1.0
KEPT_S = 3_600
SAMPLE = 20_000
LATELY_S = 10.0
BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Tally:
    """Counters of one tenant."""

    def __init__(self) -> None:
        self.events = self.messages = self.deliveries = self.rejected = 0
        self.seconds = 0.0
        self.latencies: deque[tuple[int, np.ndarray[Any, Any]]] = deque()  # the oldest first
        self.n_sampled = 0
        self.buckets = [0] * (len(BOUNDS_S) + 1)
        self.latency_sum_s = 0.0
        self.before = (0, 0, 0)

    def add_latencies(self, micros: Any, moment: int) -> None:
        """Note how long deliveries of a moment took from the door."""
        self.latencies.append((moment, micros))
        self.n_sampled += len(micros)
        while self.n_sampled > SAMPLE and len(self.latencies) > 1:
            self._forget_oldest()
        places = np.searchsorted(np.array(BOUNDS_S) * SECOND, micros)
        for place, n in enumerate(np.bincount(places, minlength=len(self.buckets)).tolist()):
            self.buckets[place] += n
        self.latency_sum_s += float(micros.sum()) / SECOND

    def percentiles(self, moment: int) -> tuple[float, float]:
        """p50 and p99 of accept to delivery, in milliseconds, of the seconds before a moment.

        Where nothing was delivered in these, of the last that was; 0 where nothing ever was.
        """
        while len(self.latencies) > 1 and self.latencies[0][0] < moment - LATELY_S * SECOND:
            self._forget_oldest()
        if not self.n_sampled:
            return 0.0, 0.0
        taken = np.concatenate([micros for _, micros in self.latencies])
        p50, p99 = np.percentile(taken, (50, 99)) / 1000
        return float(p50), float(p99)

    def _forget_oldest(self) -> None:
        self.n_sampled -= len(self.latencies.popleft()[1])


class Gauges:
    """Counters of the process."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.tallies: dict[int, Tally] = {}
        self._written = time.monotonic()
        self._pruned = 0.0

    def _tally(self, tenant: int) -> Tally:
        return self.tallies.setdefault(tenant, Tally())

    def played(self, tenant: int, step: Step, seconds: float) -> None:
        """Note what a share did."""
        tally = self._tally(tenant)
        tally.events += step.n_events
        tally.messages += step.n_messages
        tally.rejected += len(step.dead)
        tally.seconds += seconds

    def delivered(self, written: list[tuple[int, list[tuple[Any, ...]]]]) -> None:
        """Note deliveries that are visible now."""
        moment = self.clock()
        for tenant, rows in written:
            if rows:
                tally = self._tally(tenant)
                tally.deliveries += len(rows)
                accepted = np.fromiter((row[4] for row in rows), np.int64)
                tally.add_latencies(moment - accepted, moment)

    def due(self) -> bool:
        """Whether it is time to write."""
        return time.monotonic() - self._written >= EVERY_S

    def write(self, engine: sa.Engine, tenants: dict[int, Tenant], lag: dict[int, int]) -> None:
        """Write the current figures, and a point of history where something happened."""
        now, moment = self.clock(), time.monotonic()
        elapsed = max(moment - self._written, 1e-3)
        self._written = moment
        body: dict[int, dict[str, Any]] = {}
        points: list[tuple[Any, ...]] = []
        for number, tenant in tenants.items():
            tally = self._tally(number)
            counts = (tally.events, tally.messages, tally.deliveries)
            rates = [(a - b) / elapsed for a, b in zip(counts, tally.before, strict=True)]
            p50, p99 = tally.percentiles(now)
            if counts != tally.before or not points:
                rounded = [round(rate) for rate in rates]
                points.append((number, now, *rounded, lag.get(number, 0), p50, p99))
            tally.before = counts
            body[number] = _figures(tally, tenant, rates, (p50, p99), lag.get(number, 0))
        text = msgspec.json.encode(body).decode()
        with tables.writing(engine) as connection:
            _replace(connection, "matcher", now, text)
            tables.insert_rows(connection, tables.history, points)
            if moment - self._pruned > 60:
                self._pruned = moment
                t = tables.history
                connection.execute(sa.delete(t).where(t.c.at < now - KEPT_S * SECOND))


def _figures(
    tally: Tally, tenant: Tenant, rates: list[float], percentiles: tuple[float, float], lag: int
) -> dict[str, Any]:
    return {
        "position": tenant.seq,
        "lag": lag,
        "events": tally.events,
        "messages": tally.messages,
        "deliveries": tally.deliveries,
        "rejected": tally.rejected,
        "busy_seconds": tally.seconds,
        "rates": dict(zip(("events", "messages", "deliveries"), rates, strict=True)),
        "latency_ms": dict(zip(("p50", "p99"), percentiles, strict=True)),
        "buckets": tally.buckets,
        "latency_sum_s": tally.latency_sum_s,
        "subscriptions": len(tenant.books.by_id),
        "contexts": tenant.filter.n_contexts,
    }


def _replace(connection: sa.Connection, process: str, now: int, text: str) -> None:
    t = tables.gauges
    changed = connection.execute(
        sa.update(t).where(t.c.process == process).values(at=now, body=text)
    )
    if not changed.rowcount:
        connection.execute(sa.insert(t).values(process=process, at=now, body=text))
