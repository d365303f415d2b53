"""Messages that are equal in the attributes of the zones: rows are packed once for all of them."""

import numpy as np
import pytest

import germane
from germane.kernels.doubts import N_PACKED, N_TESTED

N_ATTRIBUTES = 6
WIDTHS = np.array([8, 10, 12, 60, 70, 80]) / 2


class Ranges:
    """Profiles `a0 BETWEEN … AND a5 BETWEEN …`, and which of them a message matches."""

    def __init__(self):
        self.lows, self.highs = np.empty((0, N_ATTRIBUTES)), np.empty((0, N_ATTRIBUTES))
        self.odd, self.there = np.empty(0, bool), np.empty(0, bool)

    def add(self, n, step, odd, rng):
        """Texts of n more profiles, bounds multiples of a step; some say `a0 <> a1` as well."""
        centres = rng.uniform(0, 100, (n, N_ATTRIBUTES))
        lows = np.round((centres - WIDTHS) / step) * step
        highs = np.round((centres + WIDTHS) / step) * step
        first = len(self.lows)
        self.lows, self.highs = np.vstack([self.lows, lows]), np.vstack([self.highs, highs])
        self.odd = np.append(self.odd, rng.random(n) < odd)
        self.there = np.append(self.there, np.ones(n, bool))
        return [self.text(i) for i in range(first, first + n)]

    def text(self, i):
        bounds = zip(self.lows[i], self.highs[i], strict=True)
        parts = [f"a{a} BETWEEN {low} AND {high}" for a, (low, high) in enumerate(bounds)]
        return " AND ".join(parts + ["a0 <> a1"] * bool(self.odd[i]))

    def matches(self, message):
        inside = ((self.lows <= message) & (message <= self.highs)).all(axis=1)
        return np.flatnonzero(inside & self.there & (~self.odd | (message[0] != message[1])))


def crowds(n, rng):
    """Messages of which most share the first three values with many, all multiples of 1/8."""
    messages = np.round(rng.uniform(0, 100, (n, N_ATTRIBUTES)) * 8) / 8
    few = np.round(rng.uniform(0, 100, (N_ATTRIBUTES, 6)) * 8) / 8
    few[1, 0] = few[0, 0]
    for a in range(3):
        some = rng.random(n) < 0.9
        messages[some, a] = few[a, np.minimum(rng.geometric(0.5, n), 6)[some] - 1]
    return messages


def check(f, ranges, batch):
    names = [int(name[1:]) for name in f.attributes]
    found = f.match_many(batch[:, names])
    packed, tested = f._batches.scratch.state[[N_PACKED, N_TESTED]]
    for i, profiles in enumerate(found.by_message()):
        assert profiles == ranges.matches(batch[i]).tolist()
    return packed, tested


@pytest.mark.parametrize("size", [8, 100])
@pytest.mark.parametrize("odd", [0.0, 0.02])
def test_answers(odd, size, monkeypatch):
    """Rows that come later have bounds between the cuts, which leaves them in doubt."""
    rng = np.random.default_rng(size)
    f, ranges = germane.Filter(index="eager"), Ranges()
    f.subscribe_many(range(6000), ranges.add(6000, 1.0, odd, rng))
    monkeypatch.setattr(f._batches.tuner, "size", lambda n: (size, False))
    packed, _ = check(f, ranges, crowds(900, rng))
    assert packed
    f.subscribe_many(range(6000, 6600), ranges.add(600, 0.25, odd, rng))
    gone = rng.choice(6600, 500, replace=False)
    for profile in gone.tolist():
        f.unsubscribe(profile)
    ranges.there[gone] = False
    batch = crowds(900, rng)
    batch[:300, :3] = batch[0, :3]  # a run of several words of messages
    packed, tested = check(f, ranges, batch)
    assert packed
    assert tested


def test_no_room(monkeypatch):
    """Buffers that are too short at first grow; nothing is lost, nothing found twice."""
    rng = np.random.default_rng(5)
    f, ranges = germane.Filter(index="eager"), Ranges()
    f.subscribe_many(range(6000), ranges.add(6000, 1.0, 0.02, rng))
    scratch = f._batches.scratch
    for name in ("hits", "finds", "packed"):
        monkeypatch.setattr(scratch, name, getattr(scratch, name)[:1])
    monkeypatch.setattr(f._batches.tuner, "size", lambda n: (32, False))
    packed, _ = check(f, ranges, crowds(700, rng))
    assert packed
