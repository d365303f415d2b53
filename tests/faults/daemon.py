"""Spark's daemon of Python workers, with everything imported before it forks.

A worker that is killed is then replaced in milliseconds. With ``GERMANE_SMALL_STATE`` snapshots of
shards are written every few micro-batches, so that faults also meet those.
"""

import os

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


if __name__ == "__main__":
    if os.environ.get("GERMANE_SMALL_STATE"):
        replicas.LEAST_DELTAS = 0
        replicas.MOST_DELTAS = 3
        replicas.SPARE_DELTAS = 1
    warm()
    manager()
