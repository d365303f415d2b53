"""Every way of batching, and filters that use it, for the tests of batches and of sequences.

GERMANE_CAMPAIGN=1 runs the random parts of those tests fifty times longer.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

import germane

LONGER = 50 if os.environ.get("GERMANE_CAMPAIGN") else 1

STRATEGIES = ["auto", "unbatched/pix", "full/pix", "full/mix", "minib/pix", "minib/pix/mix"]
GROUPINGS: dict[str, Callable[[], object]] = {
    "tuned": lambda: None,
    "size 1": lambda: germane.FixedSize(1),
    "size 3": lambda: germane.FixedSize(3),
    "size 100": lambda: germane.FixedSize(100),
    "number 2": lambda: germane.FixedNumber(2),
    "number 4, 3 to 8": lambda: germane.FixedNumber(4, least=3, most=8),
    "value 5": lambda: germane.ByValue(5.0),
    "value 5 5": lambda: germane.ByValue(5.0, 5.0),
    "value 2 50": lambda: germane.ByValue(2.0, 50.0),
    "value 5, 4 or more": lambda: germane.ByValue(5.0, least=4),
    "value 30, up to 3": lambda: germane.ByValue(30.0, most=3),
    "value 5 20, 2 to 7": lambda: germane.ByValue(5.0, 20.0, least=2, most=7),
}
BATCHINGS = [(strategy, grouping) for grouping in GROUPINGS for strategy in STRATEGIES]
INDEXES = ["scan", "eager", "gbu", "agile", "auto"]
STRUCTURES = ["blocks", "skiplist"]
VARIANTS = [(index, structure) for index in INDEXES for structure in STRUCTURES]

every_variant = pytest.mark.parametrize(
    ("index", "structure"), VARIANTS, ids=["-".join(variant) for variant in VARIANTS]
)
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def batching(strategy: str, grouping: str = "tuned", **options):
    return germane.Batching(strategy, GROUPINGS[grouping](), **options)


def make(index="agile", structure="blocks", schema=None, turn=0, **options):
    """A filter; whichever number `turn` is, it settles what else may vary."""
    policy = ["auto", "always", germane.Fixed(3)][(turn + turn // 6) % 3]
    options.setdefault("batching", batching(*BATCHINGS[turn % len(BATCHINGS)]))
    return germane.Filter(index=index, structure=structure, policy=policy, schema=schema, **options)
