"""Spark's daemon of Python workers, with everything imported before it forks.

A worker that is killed is then replaced in milliseconds. With ``GERMANE_SMALL_STATE`` snapshots of
shards are written every few micro-batches, so that faults also meet those.

Micro-batches are quick, and a kill that comes at random may find no task to hit. So a worker can
be asked to stand still in the midst of one: the file that ``GERMANE_STAND_STILL`` names says where,
and the worker that meets it first renames it to its own number and waits to be killed.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas  # type: ignore[import-untyped]  # noqa: F401
import pyarrow as pa
from pyspark import worker  # noqa: F401
from pyspark.daemon import manager
from pyspark.sql.streaming import stateful_processor_api_client  # noqa: F401

import germane
from germane.spark import replicas


def warm() -> None:
    """Compile, or read from the cache, what shards run."""
    f = germane.Filter(schema={"x": "number", "s": "string"})
    for i in range(8):
        f.subscribe(f"p{i}", "x > context.x OR s = 'a'", f"c{i}")
        f.update(f"c{i}", {"x": float(i)})
    kinds = pa.array(["message", "update"])
    events = {"seq": [1, 2], "kind": kinds, "id": ["m", "c1"], "x": np.ones(2)}
    f.process(pa.table(events))


STILL_S = 240.0
"""Then a worker goes on: nobody came to kill it."""


def stand_still(order: Path, where: str) -> None:
    """Wait here, if that is the order and no other worker has taken it."""
    try:
        if order.read_text() != where:
            return
        taken = order.rename(f"{order}.{os.getpid()}")
    except FileNotFoundError:
        return
    end = time.monotonic() + STILL_S
    while taken.exists() and time.monotonic() < end:
        time.sleep(0.01)


def follow_orders(order: Path) -> None:
    """Let shards look for an order before they take a micro-batch, and when its state is kept."""
    take = replicas.Replica._take

    def _take(self: Any, *given: Any) -> Iterator[Any]:
        stand_still(order, "before")
        rows = list(take(self, *given))
        stand_still(order, "after")
        yield from rows

    replicas.Replica._take = _take  # type: ignore[method-assign]


if __name__ == "__main__":
    if os.environ.get("GERMANE_STAND_STILL"):
        follow_orders(Path(os.environ["GERMANE_STAND_STILL"]))
    if os.environ.get("GERMANE_SMALL_STATE"):
        replicas.LEAST_DELTAS = 0
        replicas.MOST_DELTAS = 3
        replicas.SPARE_DELTAS = 1
    warm()
    manager()
