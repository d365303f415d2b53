"""A stream on Spark with ten context updates a message: what a micro-batch costs, and a restart.

    python -m benchmarks.spark_streams --profiles 500000

Table 2, local Spark with two cores, one log of mixed events as Parquet files, a file a micro-batch.
Four parts: the steady state (does anybody build an index again?), many micro-batches of one message
(does the state stay bounded?), empty ones (a single update: nothing is delivered), and a restart
from the checkpoint by workers that know nothing. All deliveries are compared with those of an
embedded filter that plays the same events.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.table import Table

import germane
from germane import spark

from . import record
from .mixed import Replay
from .rounds import Bar, console, show_bars
from .workloads import ATTRIBUTES, table2

EMPTY_MS, RECOVERY_S = 500.0, 15.0
UPDATES = 10  # a message


class Log:
    """A directory of files of events, and what an embedded filter says to them."""

    def __init__(self, root: Path, work: Any, seed: int) -> None:
        self.root, self.work = root, work
        self.path = root / "log"
        self.path.mkdir()
        self.replay = Replay(work, UPDATES, seed)
        self.n_files = 0
        self.expected: list[tuple[int, int, int]] = []
        self._filter: Any = None

    def add(self, n_messages: int) -> None:
        """One more file, which makes one more micro-batch; without messages, of one update."""
        table = pa.Table.from_batches([self.replay.take(max(n_messages, 1)).to_arrow()])
        if not n_messages:
            table = table.filter(pc.equal(table["kind"], "update")).slice(0, 1)
        part = self.path / f".{self.n_files}"
        pq.write_table(table, part)
        part.rename(self.path / f"{self.n_files:06}.parquet")
        self.n_files += 1
        found = self.filter.process(table)
        lists = found.to_arrow()
        self.expected.append(digest(lists["seq"].to_numpy(), lists["profile"].to_numpy()))

    @property
    def filter(self) -> Any:
        if self._filter is None:
            f = self._filter = germane.Filter(schema=dict.fromkeys(ATTRIBUTES, "number"))
            for name, values in zip(ATTRIBUTES, self.work.centres, strict=True):
                f.update_many(self.work.ids, name, values)
            f.subscribe_many(self.work.ids, self.work.conditions(), self.work.ids)
        return self._filter

    def frames(self, session: Any) -> dict[str, Any]:
        columns = ", ".join(f"{name} double" for name in ATTRIBUTES)
        schema = f"seq long, kind string, id long, {columns}"
        reader = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        log = reader.parquet(str(self.path))
        before = self.root / "before"
        if not before.exists():
            before.mkdir()
            ids = pa.array(self.work.ids)
            profiles = {"id": ids, "context": ids, "condition": self.work.conditions()}
            pq.write_table(pa.table(profiles), before / "profiles.parquet", row_group_size=1 << 15)
            values = {"id": ids, **dict(zip(ATTRIBUTES, self.work.centres, strict=True))}
            pq.write_table(pa.table(values), before / "contexts.parquet", row_group_size=1 << 15)
        return {
            "messages": log.where("kind = 'message'").select("seq", "id", *ATTRIBUTES),
            "updates": log.where("kind = 'update'").selectExpr("seq", "id context", *ATTRIBUTES),
            "profiles": session.read.parquet(str(before / "profiles.parquet")),
            "contexts": session.read.parquet(str(before / "contexts.parquet")),
        }


def digest(seqs: np.ndarray, profiles: np.ndarray) -> tuple[int, int, int]:
    """Deliveries as three sums."""
    return len(seqs), int(profiles.sum()), int((seqs * (profiles % 1_000_003)).sum())


class Sums:
    """A sink that keeps the digest of every micro-batch."""

    def __init__(self) -> None:
        self.found: dict[int, tuple[int, int, int]] = {}

    def __call__(self, deliveries: Any, batch: int) -> None:
        sums = ("count(*)", "sum(profile)", "sum(seq * (profile % 1000003))")
        self.found[batch] = tuple(deliveries.selectExpr(*sums).first())


def run(log: Log, sums: Sums, session: Any, chosen: Any) -> tuple[Any, float]:
    """Play what is in the log; the query, and the seconds from start to end."""
    start = time.perf_counter()
    query = spark.stream(
        **log.frames(session),
        checkpoint=log.root / "checkpoint",
        sink=sums,
        shards=chosen.shards,
        together=True,
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    return query, time.perf_counter() - start


def durations(query: Any) -> list[dict[str, Any]]:
    """Of each micro-batch: what Spark measured."""
    return [
        {"batch": p["batchId"], "rows": p["numInputRows"], **p["durationMs"]}
        for p in query.recentProgress
    ]


def told(query: Any) -> list[dict[str, Any]]:
    """Of each shard and micro-batch: what it counted."""
    return [row.asDict() for row in query.metrics().collect()]


def a_session(chosen: Any) -> Any:
    manager = "org.apache.spark.sql.execution.streaming.checkpointing"
    return spark.session(
        master="local[2,4]",
        settings={
            "spark.driver.memory": chosen.driver_memory,
            "spark.sql.streaming.numRecentProgressUpdates": 2000,
            "spark.sql.streaming.checkpointFileManagerClass": (
                f"{manager}.FileSystemBasedCheckpointFileManager"
            ),
        },
    )


def main(arguments: list[str] | None = None) -> int:
    """Run, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--profiles", type=int, default=500_000)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--steady", type=int, default=20, help="micro-batches")
    parser.add_argument("--messages", type=int, default=1_000, help="in each of them")
    parser.add_argument("--small", type=int, default=200, help="micro-batches of one message")
    parser.add_argument("--empty", type=int, default=50, help="micro-batches of one update")
    parser.add_argument("--driver-memory", default="6g")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)

    root = Path(tempfile.mkdtemp(prefix="germane-streams-"))
    try:
        observed, bars = measure(root, chosen)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    show_bars(bars)
    path = record.write("spark_streams", vars(chosen), observed)
    console.print(f"record: {os.path.relpath(path)}")
    return 0 if observed["answers_agree"] else 1


def measure(root: Path, chosen: Any) -> tuple[dict[str, Any], list[Bar]]:
    """All parts, one after the other, on one checkpoint."""
    session = a_session(chosen)
    log, sums = Log(root, table2(chosen.profiles, chosen.seed), chosen.seed), Sums()
    console.print(f"first start: {chosen.profiles:,} profiles")
    log.add(1)
    query, first_s = run(log, sums, session, chosen)
    console.print(f"  {first_s:.1f} s")
    observed: dict[str, Any] = {"first_s": first_s, "first": told(query)}

    console.print(f"steady state: {chosen.steady} micro-batches of {chosen.messages:,} messages")
    for _ in range(chosen.steady):
        log.add(chosen.messages)
    query, _ = run(log, sums, session, chosen)
    observed |= {"steady": told(query), "steady_ms": durations(query)}

    console.print(f"small: {chosen.small} micro-batches of one message")
    for _ in range(chosen.small):
        log.add(1)
    query, _ = run(log, sums, session, chosen)
    observed |= {"small": told(query), "small_ms": durations(query)}

    console.print(f"empty: {chosen.empty} micro-batches of one update")
    for _ in range(chosen.empty):
        log.add(0)
    query, _ = run(log, sums, session, chosen)
    observed |= {"empty": told(query), "empty_ms": durations(query)}

    console.print("restart by workers that know nothing")
    session.stop()
    session = a_session(chosen)
    log.add(1)
    query, restart_s = run(log, sums, session, chosen)
    observed |= {"restart_s": restart_s, "restart": told(query)}
    observed["answers_agree"] = [sums.found.get(i, (0, 0, 0)) for i in range(log.n_files)] == [
        found if found[0] else (0, 0, 0) for found in log.expected
    ]
    session.stop()
    show(observed)
    return observed, judge(observed)


def settled(observed: dict[str, Any], part: str) -> list[float]:
    """Milliseconds of the micro-batches of a part, but for its first three."""
    return [d["triggerExecution"] for d in observed[f"{part}_ms"]][3:]


def show(observed: dict[str, Any]) -> None:
    table = Table("part", "micro-batches", "median ms", "90 % ms", "built again", "caught up",
                  "snapshots", "state MB, most", title="Micro-batches")  # fmt: skip
    for part in ("steady", "small", "empty"):
        rows, ms = observed[part], settled(observed, part)
        table.add_row(
            part, str(len(ms)), f"{np.median(ms):,.0f}", f"{np.quantile(ms, 0.9):,.0f}",
            *[str(sum(row[n] for row in rows)) for n in ("rebuilt", "caught_up", "snapshots")],
            f"{max(row['state_bytes'] for row in rows) / 1e6:,.1f}",
        )  # fmt: skip
    console.print(table)
    rebuilt = [row["nanoseconds"] / 1e9 for row in observed["restart"] if row["rebuilt"]]
    console.print(f"restart: {observed['restart_s']:.1f} s in all, shards {rebuilt} s")


def judge(observed: dict[str, Any]) -> list[Bar]:
    rebuilt = max(r["nanoseconds"] / 1e9 for r in observed["restart"])
    late = [row for row in observed["steady"] if row["batch"] > observed["steady"][0]["batch"] + 3]
    empty = float(np.median(settled(observed, "empty")))
    again = sum(row["rebuilt"] for row in late)
    return [
        Bar("500 ms / an empty micro-batch", EMPTY_MS / empty, 1.0),
        Bar("15 s / recovery of the slowest shard", RECOVERY_S / rebuilt, 1.0),
        Bar("1 / (1 + shards built again in steady state)", 1 / (1 + again), 1.0),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
