"""The world through ``spark.stream``: a day's events a micro-batch.

In: a ``World``, a session, an empty folder. Out: an ``Outcome``. Events lie in files, one a day for
messages and one for updates, and Spark takes one of each at a time; so both inputs are always cut
at the same place of the sequence (``together``).
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from germane.cli import live
from germane.cli.demo.flights.world import World

SETTINGS = {
    # A minute is too short for Java's second compiler, and for a collector that works aside.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # Quicker on a local disk, where a rename is all that is needed.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}


class Outcome(NamedTuple):
    """What came of it."""

    deliveries: pa.Table  # seq, message, profile, context; in the order of seq
    totals: live.Totals
    shards: list[dict[str, int]]  # deliveries, profiles, nanoseconds of each
    n_rejected: int


def run(world: World, session: Any, folder: Path, show: Callable[[live.Beat], object]) -> Outcome:
    """Stream it all; ``show`` is told of each day."""
    from germane import spark

    _write(world, folder)
    query = spark.stream(
        messages=_follow(session, folder / "messages"),
        profiles=session.read.parquet(str(folder / "profiles.parquet")),
        contexts=session.read.parquet(str(folder / "contexts.parquet")),
        updates=_follow(session, folder / "updates"),
        checkpoint=folder / "checkpoint",
        sink=folder / "deliveries",
        together=True,
        trigger={"availableNow": True},
    )
    totals = live.follow(query, show)
    found = pa.dataset.dataset(folder / "deliveries", format="parquet").to_table()
    return Outcome(
        found.select(["seq", "message", "profile", "context"]).sort_by("seq"),
        totals,
        _by_shard(query.metrics().collect()),
        query.dead_letters().count(),
    )


def _write(world: World, folder: Path) -> None:
    """Files for Spark; it takes them in the order of their dates."""
    ends = world.ends()
    for name, table in (("messages", world.messages), ("updates", world.updates)):
        (folder / name).mkdir(parents=True)
        times = table["at"].cast(pa.int64()).to_numpy()
        cuts = [0, *np.searchsorted(times, ends).tolist()]
        events = table.drop_columns(["at"])
        for number, (begin, end) in enumerate(zip(cuts, cuts[1:], strict=False)):
            path = folder / name / f"{world.days[number]}.parquet"
            pq.write_table(events.slice(begin, end - begin), path)
            os.utime(path, (1_000_000_000 + number,) * 2)
    pq.write_table(world.profiles, folder / "profiles.parquet")
    pq.write_table(world.contexts, folder / "contexts.parquet")


def _follow(session: Any, folder: Path) -> Any:
    schema = session.read.parquet(str(folder)).schema
    reader = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def _by_shard(metrics: list[Any]) -> list[dict[str, int]]:
    """What each shard did in all, and the profiles that it has in the end."""
    shards: dict[int, dict[str, int]] = {}
    for row in sorted(metrics, key=lambda row: (row.shard, row.batch)):
        mine = shards.setdefault(row.shard, dict.fromkeys(("deliveries", "nanoseconds"), 0))
        mine["deliveries"] += row.deliveries
        mine["nanoseconds"] += row.nanoseconds
        mine["profiles"] = row.profiles
    return list(shards.values())
