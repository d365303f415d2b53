"""Contexts by columns, by bits and by buckets, against plain loops."""

import numpy as np
import pytest

from germane.filter.addresses import _in_arrays
from germane.index import points
from germane.index.points import PointIndex
from germane.kernels import buckets, scans

SIZES = [0, 1, 63, 64, 65, 4095, 4096, 4097, 4160, 9000]
VALUES = [np.nan, -np.inf, -1.0, 0.0, 1.0, 2.0, np.inf]


def says(part, value):
    (_, (low,), (high,), outside) = part
    return value < low or value > high if outside else low <= value <= high


@pytest.mark.parametrize("n", SIZES)
def test_scan(n):
    rng = np.random.default_rng(n)
    values = rng.choice(VALUES, (3, n))  # no room behind the last of them
    for n_alternatives in (1, 1, 2, 3):
        alternatives = []
        for _ in range(n_alternatives):
            cuts = [np.sort(rng.choice(VALUES[1:], 2)) for _ in range(rng.integers(1, 4))]
            alternatives.append(
                [
                    ((int(rng.integers(3)),), (low,), (high,), bool(rng.random() < 0.4))
                    for low, high in cuts
                ]
            )
        expected = [
            row
            for row in range(n)
            if any(all(says(p, values[p[0][0], row]) for p in parts) for parts in alternatives)
        ]
        out = np.empty(n + scans.ROOM, np.int32)
        found = scans.scan(n, _in_arrays(alternatives).bundle.places, values, out)
        assert out[:found].tolist() == expected


@pytest.mark.parametrize("n", SIZES[1:])
def test_order(n):
    rng = np.random.default_rng(n)
    words = np.zeros(n // 64 + 1, np.uint64)
    for share in (0.0, 0.01, 0.3, 1.0, 2.0):
        rows = rng.integers(0, n, int(share * n)).astype(np.int32)
        out = np.empty(len(rows) + n + scans.ROOM, np.int32)
        out[: len(rows)] = rows  # in place, as addresses have it
        found = scans.order(out[: len(rows)], n, words, out)
        assert out[:found].tolist() == sorted(set(rows.tolist()))
        assert not words.any()
    everybody = np.arange(n, dtype=np.int32)[::-1].copy()
    out = np.empty(n + scans.ROOM, np.int32)
    assert out[: scans.order(everybody, n, words, out)].tolist() == list(range(n))


@pytest.mark.parametrize("slots", [(0,), (0, 1)])
def test_lists_follow_values(slots, monkeypatch):
    monkeypatch.setattr(points, "PER_BUCKET", 4)
    rng = np.random.default_rng(3)
    values = rng.normal(0, 1, (2, 600))
    index = PointIndex(slots, values)
    for step in range(60):
        n = int(rng.integers(1, 290))  # more than are searched together, fewer than a new build
        rows = rng.integers(0, 600, n).astype(np.int32)
        values[:, rows] = rng.normal(step % 7, 0.5, (2, n))
        values[0, rows[: n // 9]] = np.nan
        index.note(rows)
        index._check(values)
    known = ~np.isnan(values[list(slots)]).any(axis=0)
    assert index.bundle.arrays[buckets.LISTS][:, buckets.COUNT].sum() == known.sum()
