"""The contract of single-attribute indexes, checked on every implementation against a dict."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from germane.index.contract import AttributeIndex
from germane.index.hashed import HashIndex
from germane.index.skiplist import IntervalSkipList

INF = float("inf")
Interval = tuple[float, float]
INDEXES: list[type[AttributeIndex]] = [IntervalSkipList, HashIndex]

every_index = pytest.mark.parametrize("Index", INDEXES)


def holds(interval: Interval, value: float) -> bool:
    return interval[0] <= value <= interval[1]


def draw_intervals(random: np.random.Generator, n: int) -> list[Interval]:
    """Many shared ends, some points, empty intervals and infinities, some fresh keys."""
    lows = random.integers(-5, 30, n) + np.where(random.random(n) < 0.2, random.random(n), 0)
    highs = lows + random.choice([0, 0, 0, -1, 1, 2, 7, 25], n)
    lows = np.where(random.random(n) < 0.06, -INF, lows)
    highs = np.where(random.random(n) < 0.06, INF, highs)
    infinite = random.random(n) < 0.04
    lows = np.where(infinite, highs, lows)
    return list(zip(lows.tolist(), highs.tolist(), strict=True))


def probes_for(exact: dict[int, Interval]) -> list[float]:
    ends = {end for interval in exact.values() for end in interval}
    finite = sorted(end for end in ends if abs(end) < INF)
    return [-INF, INF, -1e300, 1e300, *finite, *(end + 0.01 for end in finite)]


def columns(entries: dict[int, Interval]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = np.array(list(entries), np.int32)
    lows = np.array([low for low, _ in entries.values()], np.float64)
    return rows, lows, np.array([high for _, high in entries.values()], np.float64)


def assert_agrees(index: AttributeIndex, exact: dict[int, Interval]) -> None:
    """k in K; probe returns exactly the rows whose K holds the value, each once."""
    rows, lows, highs = columns(exact)
    assert len(index) == len(exact)
    assert index.covers(rows, lows, highs).all()
    starts, stops = index.extent(rows)
    buffer = np.empty(len(exact), np.int32)
    for value in probes_for(exact):
        found = index.probe(value).tolist()
        assert len(found) == len(set(found))
        assert set(found) == set(rows[(starts <= value) & (value <= stops)].tolist())
        assert set(found) >= {row for row, k in exact.items() if holds(k, value)}
        assert sorted(buffer[: index.probe_into(value, buffer)].tolist()) == sorted(found)
    assert index.probe(float("nan")).tolist() == []


def is_tight(index: AttributeIndex, interval: Interval) -> bool:
    return isinstance(index, IntervalSkipList) or interval[0] >= interval[1]


def assert_exact(index: AttributeIndex, exact: dict[int, Interval]) -> None:
    starts, stops = index.extent(list(exact))
    for i, (low, high) in enumerate(exact.values()):
        if is_tight(index, (low, high)):
            assert (starts[i], stops[i]) == ((low, high) if low <= high else (INF, -INF))


@every_index
@pytest.mark.parametrize("n", [0, 1, 5, 300])
def test_probe_is_exact_after_insertion(Index: type[AttributeIndex], n: int) -> None:
    exact = dict(enumerate(draw_intervals(np.random.default_rng(n), n)))
    index = Index()
    index.insert(*columns(exact))
    index._check()
    assert_agrees(index, exact)
    assert_exact(index, exact)


@every_index
@pytest.mark.parametrize("seed", range(6))
def test_random_changes_keep_the_contract(Index: type[AttributeIndex], seed: int) -> None:
    random = np.random.default_rng(seed)
    index, exact = Index(), dict[int, Interval]()
    for step in range(120):
        change_once(index, exact, random)
        if step % 10 == 0:
            index._check()
            assert_agrees(index, exact)
    index._check()
    index.remove(np.array(list(exact), np.int32))
    assert_nothing_is_left(index)


def change_once(
    index: AttributeIndex, exact: dict[int, Interval], random: np.random.Generator
) -> None:
    """One batch of one operation on the index and on the dict, with what it promises of K."""
    operation = random.choice(["insert", "remove", "update", "update_local", "move", "sharpen"])
    n = int(random.integers(1, 12))
    if operation == "insert" or len(exact) < n:
        n = n if random.random() < 0.9 else 100
        new = random.permutation([row for row in range(400) if row not in exact])[:n].tolist()
        entries = dict(zip(new, draw_intervals(random, len(new)), strict=True))
        index.insert(*columns(entries))
        exact.update(entries)
        assert_exact(index, entries)
        return
    chosen = random.permutation(list(exact))[:n].tolist()
    if operation == "remove":
        index.remove(np.array(chosen, np.int32))
        for row in chosen:
            del exact[row]
            assert row not in index
        return
    if operation != "sharpen":
        exact.update(zip(chosen, draw_intervals(random, n), strict=True))
    entries = {row: exact[row] for row in chosen}
    rows, lows, highs = columns(entries)
    if operation == "update":
        index.update(rows, lows, highs)
        assert_exact(index, entries)
    elif operation == "update_local":
        index.update_local(rows, lows, highs)
    elif operation == "move":
        covered = index.covers(rows, lows, highs)
        starts, stops = index.extent(rows)
        assert index.escalate(rows, lows, highs) == n - covered.sum()
        later = index.extent(rows)
        assert (later[0] <= starts).all()
        assert (later[1] >= stops).all()
        assert index.escalate(rows, lows, highs) == 0
    else:
        starts, stops = index.extent(rows)
        changed = index.deescalate(rows, lows, highs)
        later = index.extent(rows)
        assert (later[0] >= starts).all()
        assert (later[1] <= stops).all()
        assert changed == ((later[0] != starts) | (later[1] != stops)).sum()


def assert_nothing_is_left(index: AttributeIndex) -> None:
    index._check()
    assert len(index) == 0
    for value in (-INF, -1.0, 0.0, 3.5, INF):
        assert index.probe(value).tolist() == []


@every_index
def test_deescalation_ends_at_the_exact_interval(Index: type[AttributeIndex]) -> None:
    random = np.random.default_rng(5)
    exact = dict(enumerate(draw_intervals(random, 200)))
    index = Index()
    index.insert(*columns(exact))
    for _ in range(3):
        exact = dict(zip(exact, draw_intervals(random, 200), strict=True))
        index.escalate(*columns(exact))
        assert_agrees(index, exact)
    steps = 0
    while index.deescalate(*columns(exact)):
        steps += 1
        assert steps < 40
        index._check()
        assert_agrees(index, exact)
    assert_exact(index, exact)


@every_index
@pytest.mark.parametrize("name", ["update", "update_local", "escalate", "deescalate"])
def test_batch_equals_singles(Index: type[AttributeIndex], name: str) -> None:
    random = np.random.default_rng(11)
    first = dict(enumerate(draw_intervals(random, 50)))
    batch, singles = Index(), Index()
    for index in (batch, singles):
        index.insert(*columns(first))
    for _ in range(3):
        entries = columns(dict(enumerate(draw_intervals(random, 50))))
        if name == "deescalate":
            assert batch.escalate(*entries) == singles.escalate(*entries)
        counts = [getattr(singles, name)(*([c[i]] for c in entries)) for i in range(50)]
        assert getattr(batch, name)(*entries) == sum(counts)
        assert np.array_equal(batch.extent(entries[0]), singles.extent(entries[0]))
    for index in (batch, singles):
        index._check()


@every_index
def test_singles_equal_bulk_insertion(Index: type[AttributeIndex]) -> None:
    exact = dict(enumerate(draw_intervals(np.random.default_rng(2), 150)))
    bulk, singles = Index(), Index()
    bulk.insert(*columns(exact))
    for row, (low, high) in exact.items():
        singles.insert([row], [low], [high])
    for value in probes_for(exact):
        assert set(bulk.probe(value).tolist()) == set(singles.probe(value).tolist())


@every_index
def test_state_makes_the_same_index(Index: type[AttributeIndex]) -> None:
    random = np.random.default_rng(3)
    index, exact = Index(), dict[int, Interval]()
    for _ in range(40):
        change_once(index, exact, random)
    twin = Index.from_state(index.state())
    twin._check()
    assert_agrees(twin, exact)
    for each, same in ((index, np.random.default_rng(4)), (twin, np.random.default_rng(4))):
        copy = dict(exact)
        for _ in range(20):
            change_once(each, copy, same)
        assert_agrees(each, copy)
    ours, theirs = index.state(), twin.state()
    assert ours.keys() == theirs.keys()
    for name in ours.keys() - {"pool"}:  # its unused cells are arbitrary
        assert np.array_equal(ours[name], theirs[name])


@every_index
@pytest.mark.parametrize("move", ["update", "escalate", "reinsert"])
def test_memory_is_bounded_under_churn(Index: type[AttributeIndex], move: str) -> None:
    random = np.random.default_rng(9)
    rows = np.arange(300, dtype=np.int32)
    index = Index()
    index.insert(rows, rows * 1.0, rows * 1.0)
    sizes = []
    for _ in range(150):
        lows = random.random(300) * 100
        highs = lows + np.where(random.random(300) < 0.5, 0, random.random(300) * 30)
        if move == "update":
            index.update(rows, lows, highs)
        elif move == "escalate":
            index.escalate(rows, lows, highs)
            index.deescalate(rows, lows, highs)
        else:
            index.remove(rows)
            index.insert(rows, lows, highs)
        sizes.append(index.nbytes)
    index._check()
    assert sizes[-1] <= 2 * sizes[30]
    assert sizes[-1] < 600_000


@every_index
@settings(max_examples=60, deadline=None)
@given(
    intervals=st.lists(
        st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)), min_size=1, max_size=30
    ),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_floats_are_keys(
    Index: type[AttributeIndex], intervals: list[Interval], seed: int
) -> None:
    exact = dict(enumerate(intervals))
    index = Index()
    index.insert(*columns(exact))
    assert_exact(index, exact)
    shuffled = np.random.default_rng(seed).permutation(len(intervals))
    exact = {row: intervals[i] for row, i in enumerate(shuffled.tolist())}
    index.escalate(*columns(exact))
    assert_agrees(index, exact)
    index.update_local(*columns(dict(enumerate(intervals))))
    index._check()
    assert_agrees(index, dict(enumerate(intervals)))
    index.remove(list(exact))
    assert_nothing_is_left(index)


@every_index
def test_both_zeros_are_one_key(Index: type[AttributeIndex]) -> None:
    index = Index()
    index.insert([0, 1], [0.0, -0.0], [-0.0, 0.0])
    assert set(index.probe(-0.0).tolist()) == set(index.probe(0.0).tolist()) == {0, 1}
    assert index.update([0], [-0.0], [-0.0]) == 0


@every_index
@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ValueError, lambda index: index.insert([1], [0.0], [0.0])),
        (ValueError, lambda index: index.insert([5, 5], [0.0, 1.0], [0.0, 1.0])),
        (ValueError, lambda index: index.insert([5], [float("nan")], [0.0])),
        (ValueError, lambda index: index.insert([-1], [0.0], [0.0])),
        (ValueError, lambda index: index.update([1], [0.0], [float("nan")])),
        (ValueError, lambda index: index.update([1], [0.0, 1.0], [0.0])),
        (ValueError, lambda index: index.probe_into(1.0, np.empty(0, np.int32))),
        (TypeError, lambda index: index.remove([1.5])),
        (KeyError, lambda index: index.remove([7])),
        (KeyError, lambda index: index.escalate([1, 7], [0.0, 0.0], [9.0, 9.0])),
        (KeyError, lambda index: index.covers(np.array([-1], np.int32), [0.0], [0.0])),
    ],
)
def test_faults_are_named_and_change_nothing(
    Index: type[AttributeIndex], error: type[Exception], call: Callable[[AttributeIndex], object]
) -> None:
    index = Index()
    index.insert([1], [1.0], [1.0])
    with pytest.raises(error):
        call(index)
    index._check()
    assert_agrees(index, {1: (1.0, 1.0)})


def test_escalation_takes_the_lowest_higher_edge() -> None:
    """AGILE Fig. 10, on whatever heights this list has: one end moves, to an edge that reaches."""
    index = IntervalSkipList(seed=1)
    keys = np.arange(64.0)
    index.insert(np.arange(64), keys, keys)
    index.insert([100], [21.0], [33.0])
    assert index.escalate([100], [21.0], [36.5]) == 1
    (low,), (high,) = index.extent([100])
    (low_level,), (level,) = index.levels([100])
    assert (low, low_level) == (21.0, 0)
    assert high >= 37.0
    assert level >= 1
    taller = [key for key in keys if _height(index, key) > level]
    assert high == min([key for key in taller if key >= 33.0], default=INF)
    for lower in range(1, level):
        nodes = [key for key in keys if _height(index, key) > lower]
        assert min(key for key in nodes if key >= 33.0) < 36.5
    assert index.escalate([100], [21.0], [min(high, 36.9)]) == 0


def _height(index: IntervalSkipList, key: float) -> int:
    arrays = index._arrays
    return int(arrays.nodes[np.flatnonzero(arrays.keys[: arrays.meta[1]] == key)[0], 0])


def test_local_update_stays_in_the_bottom_edge() -> None:
    index = IntervalSkipList()
    index.insert(np.arange(10), np.arange(10.0) * 10, np.arange(10.0) * 10)
    index.insert([50], [20.0], [40.0])
    assert index.update_local([50], [20.0], [38.0]) == 0
    assert index.update_local([50], [20.0], [43.0]) == 1
    assert [end[0] for end in index.extent([50])] == [20.0, 50.0]
    assert index.update_local([50], [20.0], [47.0]) == 0
    assert index.update_local([50], [20.0], [81.0]) == 1
    assert [end[0] for end in index.extent([50])] == [20.0, 81.0]
    index._check()
