"""What tests by small examples share."""

from __future__ import annotations

import pytest

import germane

MUNICH, BERLIN, PARIS = (48.137, 11.575), (52.520, 13.405), (48.857, 2.352)
INDEXES = ["scan", "eager", "partial", "gbu", "agile", "auto"]
STRUCTURES = ["blocks", "skiplist"]

every_index = pytest.mark.parametrize("index", INDEXES)
every_structure = pytest.mark.parametrize("structure", STRUCTURES)


def numbers(n: int, **options: object) -> germane.Filter:
    """Profiles 0 to n - 1; profile i wants x <= i."""
    f = germane.Filter(**options)
    f.subscribe_many(range(n), [f"x <= {i}" for i in range(n)])
    return f
