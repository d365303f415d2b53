"""Latency and tuning on a simulated clock: the bound holds, bursts pass, sizes are found."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np
import pytest

import germane
from germane.batch import latency
from germane.batch.tuning import Tuner

SINGLE_S = 2e-3


def cost_s(n: int) -> float:
    """A batch of n: cheaper a message as it grows, down to a tenth."""
    return n * SINGLE_S * max(n**-0.35, 0.1)


def play(
    control: germane.BatchControl,
    arrivals: np.ndarray,
    cost: Callable[[int], float] = cost_s,
) -> tuple[np.ndarray, list[tuple[float, int]]]:
    """Latencies of messages that arrive at given times, and the batches that were made.

    One server: events are arrivals, ends of batches and alarms, in the order of their times.
    """
    events: list[tuple[float, int, str]] = [(t, i, "arrive") for i, t in enumerate(arrivals)]
    heapq.heapify(events)
    latencies, batches = np.full(len(arrivals), np.nan), []
    first, busy, alarm = 0, False, np.inf
    running: tuple[int, int, float] = (0, 0, 0.0)
    while events:
        now, _, kind = heapq.heappop(events)
        if kind == "arrive":
            control.arrive(now)
        elif kind == "done":
            first, n, started = running
            latencies[first : first + n] = now - arrivals[first : first + n]
            control.done(now, n, now - started)
            first, busy = first + n, False
        else:
            alarm = np.inf
        if busy:
            continue
        n = control.take(now)
        if n:
            batches.append((now, n))
            running, busy = (first, n, now), True
            heapq.heappush(events, (now + cost(n), -1, "done"))
            continue
        due = now + control.wait_s(now)
        if due < alarm:
            alarm = due
            heapq.heappush(events, (due, len(arrivals), "alarm"))
    assert control.n_waiting == 0
    assert not np.isnan(latencies).any()  # nothing is forgotten
    return latencies, batches


def poisson(rate: float, n: int, seed: int = 1) -> np.ndarray:
    return np.cumsum(np.random.default_rng(seed).exponential(1.0 / rate, n))


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("limit_ms", [20, 100, 1000])
@pytest.mark.parametrize("rate", [20, 200, 1000])
def test_the_bound_holds(rate, limit_ms, adaptive):
    """Below what can be matched in the allowed time, no message is later than it."""
    largest = max(n for n in range(1, 5000) if 1.25 * cost_s(n) <= limit_ms / 2000)
    if rate > 0.6 * largest / cost_s(largest):
        pytest.skip("an overload: no bound is promised")
    settings = germane.Batching(max_latency_ms=limit_ms, adaptive=adaptive)
    control = germane.BatchControl(settings)
    play(control, np.arange(200) * 0.5)  # learns what a message costs
    latencies, batches = play(control, 1000 + poisson(rate, 4000))
    assert latencies.max() <= limit_ms / 1000 * (1 + 1e-9)
    if not adaptive and rate * limit_ms / 1000 > 20:
        assert np.mean([n for _, n in batches]) > 5  # the time is used


def test_without_a_limit_nothing_waits():
    control = germane.BatchControl(germane.Batching())
    latencies, batches = play(control, np.arange(50) * 1.0)
    assert [n for _, n in batches] == [1] * 50
    assert np.allclose(latencies, cost_s(1))


def test_a_burst_is_levelled_and_then_forgotten():
    """Unbatched while traffic is low, batched when a queue builds up, back again (Table 6)."""
    quiet = np.arange(100) * 0.02
    burst = 2.0 + np.arange(3000) / 3000.0
    after = 10.0 + np.arange(100) * 0.02
    arrivals = np.concatenate((quiet, burst, after))
    control = germane.BatchControl(germane.Batching(max_latency_ms=10_000))
    latencies, batches = play(control, arrivals)
    alone = germane.BatchControl(germane.Batching(max_latency_ms=10_000))
    unbatched, _ = play(alone, arrivals, lambda n: n * SINGLE_S)
    sizes = dict(batches)
    assert all(n == 1 for start, n in sizes.items() if start < 2.0)
    assert max(n for start, n in sizes.items() if 2.0 <= start < 4.0) > 50
    assert all(n == 1 for start, n in sizes.items() if start > 10.0)
    in_burst = slice(100, 3100)
    assert latencies[in_burst].mean() < 0.3 * unbatched[in_burst].mean()


def test_the_model():
    """The formulae of section 7.1 agree with each other, and with a steady stream."""
    rate, single, speedup = 400.0, 1e-3, 4.0
    n = latency.batch_size(0.5, rate, single, speedup)
    assert latency.maximum_latency_s(n, rate, single, speedup) <= 0.5
    assert latency.maximum_latency_s(n + 1, rate, single, speedup) > 0.5
    queuing = np.mean([(n - i - 0.5) / rate for i in range(n)])
    assert latency.average_queuing_s(n, rate) == pytest.approx(queuing)
    assert latency.batch_size(1e-9, rate, single) == 1


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), "5", True])
def test_a_latency_is_a_time(wrong):
    with pytest.raises(germane.InvalidValue, match="max_latency_ms"):
        germane.Batching(max_latency_ms=wrong)


# tuning --------------------------------------------------------------------------------------


def throughput(size: int, best: int, rng: np.random.Generator) -> float:
    """Cost of a message with a single minimum over the size, and noise that adds."""
    away = abs(np.log2(size / best))
    return 1000.0 * (1.0 + 0.15 * away**1.5) * (1.0 + rng.exponential(0.03))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("bests", [(64, 8), (4, 256), (512, 2)])
def test_the_size_is_found_and_followed(bests, seed):
    """From a bad size to 90 % of the best within 50 batches, and again when the best changes."""
    rng = np.random.default_rng(seed)
    tuner = Tuner()
    for best in bests:
        costs = []
        for _ in range(150):
            size, _ = tuner.size(10_000)
            cost = throughput(size, best, rng)
            tuner.learn(10_000, size, cost)
            costs.append(cost)
        within = 50 if best == bests[0] else 100
        assert 1000.0 / np.mean(costs[within:]) > 0.9
    assert tuner.describe()[8192]["size"] in (bests[1] // 2, bests[1], bests[1] * 2)


def test_trials_cost_little():
    """Where one message at a time is best, trying minibatches wastes at most a few percent."""
    tuner = Tuner()
    rng = np.random.default_rng(1)
    costs = []
    sizes = set()
    for _ in range(3000):
        size, measured = tuner.size(10)
        cost = 1e5 * (1.0 if size == 1 else 2.5) * (1.0 + rng.exponential(0.03))
        assert measured
        tuner.learn(10, size, cost)
        costs.append(cost)
        sizes.add(size)
    assert sizes == {1, 8}
    assert np.mean(costs) < 1.05 * 103_000.0
    assert tuner.size(1) == (1, False)


def test_small_work_is_not_tried():
    """A batch that takes less one by one than grouping does is seldom even measured."""
    tuner = Tuner()
    n_measured = 0
    for _ in range(1600):
        size, measured = tuner.size(10)
        assert size == 1
        if measured:
            tuner.learn(10, size, 20_000.0)
            n_measured += 1
    assert n_measured == 100
    while not tuner.size(10)[1]:
        pass
    for _ in range(40):
        tuner.learn(10, 1, 100_000.0)
        tuner.size(10)
    assert any(tuner.size(10)[0] == 8 for _ in range(60)), "it has become worth a trial"
