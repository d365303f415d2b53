"""Batching §7: latency by batch size, the speed-up that a latency allows, and bursts.

In: messages a second by batch size, as measured. Out: Tables 5 and 6. Nothing here is timed.

§7.1: a batch of n messages is collected for n / arrival rate at most, then matched in
n / throughput(n). Table 5 does not state its arrival rate. Its four figures fit an arrival rate
equal to the throughput, the most that the system can carry: 10,000 ms then allow batches of
20,700 messages at 9.2 × 450 messages a second, and Table 4 has 9.6 × at 25,000.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Speeds:
    """Throughput by batch size; between measured sizes on straight lines of logarithms."""

    sizes: tuple[int, ...]  # ascending, from 1
    rates: tuple[float, ...]

    @property
    def single(self) -> float:
        """Messages a second, one at a time."""
        return self.rates[0]

    def rate(self, n: np.ndarray | int) -> np.ndarray:
        """Messages a second in batches of n; beyond the largest measured size as there."""
        return np.exp(np.interp(np.log(n), np.log(self.sizes), np.log(self.rates)))

    def seconds(self, n: np.ndarray | int) -> np.ndarray:
        """How long a batch of n takes."""
        return n / self.rate(n)


@dataclass(frozen=True)
class Allowed:
    """The best batch size within a latency."""

    batch_size: int
    speedup: float


def within(speeds: Speeds, latency_s: float) -> Allowed:
    """Table 5: the largest speed-up whose maximum latency is acceptable, by the model of §7.1.

    Messages arrive as fast as batches of this size are matched. Where not even single messages
    are fast enough, they are what is left.
    """
    n = np.arange(1, speeds.sizes[-1] + 1)
    rate = speeds.rate(n)
    worst = n / rate + speeds.seconds(n)  # 2 * Avg Queuing + Matching
    speedup = np.where(worst <= latency_s, rate / speeds.single, 0.0)
    best = int(speedup.argmax())
    return Allowed(best + 1, float(speedup[best])) if speedup[best] > 0 else Allowed(1, 1.0)


@dataclass(frozen=True)
class Latencies:
    """What the messages of a burst waited, in milliseconds."""

    average_ms: float
    most_ms: float
    largest_batch: int


def burst(speeds: Speeds, arrival_rate: float, duration_s: float, batched: bool) -> Latencies:
    """Table 6: messages at an even rate for a while, met by an idle system.

    Unbatched, they are matched one after the other. Batched, whoever is waiting when the system
    is free makes up the next batch (§7.3): one message while traffic is low, more as they queue.
    """
    arrived = np.arange(max(1, round(arrival_rate * duration_s))) / arrival_rate
    done, largest = _batched(speeds, arrived) if batched else (_singly(speeds, arrived), 1)
    waited_ms = 1e3 * (done - arrived)
    return Latencies(float(waited_ms.mean()), float(waited_ms.max()), largest)


def _singly(speeds: Speeds, arrived: np.ndarray) -> np.ndarray:
    """When each is done: a moment after it has arrived and its predecessor is done."""
    served = np.arange(len(arrived)) / speeds.single
    return np.maximum.accumulate(arrived - served) + served + 1 / speeds.single


def _batched(speeds: Speeds, arrived: np.ndarray) -> tuple[np.ndarray, int]:
    done = np.empty_like(arrived)
    free, first, largest = 0.0, 0, 1
    while first < len(arrived):
        free = max(free, arrived[first])
        waiting = int(np.searchsorted(arrived, free, side="right")) - first
        n = min(waiting, speeds.sizes[-1])
        free += float(speeds.seconds(n))
        done[first : first + n] = free
        first, largest = first + n, max(largest, n)
    return done, largest
