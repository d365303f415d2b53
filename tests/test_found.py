"""Cases that random tests once found, kept."""

import random

import pytest

import germane

POOL = [-2, -1, 0, 1, 2, 3, 4, 5, 6, 0.5, 1e300, 1e308, -1e308]
POOL += [float("inf"), float("-inf"), None]


@pytest.mark.parametrize("structure", ["blocks", "skiplist"])
def test_guards_at_the_edge_of_numbers(structure, monkeypatch):
    """A guard admitted values beyond its grid, and took a K that ends at -inf for unbounded."""
    monkeypatch.setattr("germane.filter.table.SETTLE_ROWS", 6)
    condition = "n BETWEEN context.n - 1 AND context.n * 2 + 1 AND m < 3"
    for seed in range(3):
        pick = random.Random(seed)
        f = germane.Filter(policy="always", structure=structure)
        f.subscribe_many(range(40), [condition] * 40, [i % 7 for i in range(40)])
        for _ in range(150):
            f.update(pick.randrange(7), {"n": pick.choice(POOL)})
            if pick.random() < 0.5:
                f.match({"n": pick.choice(POOL), "m": 1})
            f._check()


def test_distance_to_nowhere_is_null():
    """The distance to a missing location was half the earth's circumference."""
    f = germane.Filter(schema={"here": "location"})
    f.subscribe("p", "DISTANCE(here, context.here) > 5", context="c")
    assert f.match({"here": (48.1, 11.5)}) == []
    f.update("c", {"here": (48.2, 11.5)})
    assert f.match({"here": (48.1, 11.5)}) == ["p"]
