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
SETTLES = 3  # micro-batches of each part that count only in its sums
STEP_NS, DAY_NS = 10_000_000, 86_400_000_000_000
"""Spark reads files by their time of change in milliseconds, so two must not have the same."""
QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)
SUMS = ("events", "messages", "deliveries", "rebuilt", "caught_up", "snapshots", "escalations")


class Log:
    """A directory of files of events, and what an embedded filter says to them."""

    def __init__(self, root: Path, work: Any, seed: int) -> None:
        self.root, self.work = root, work
        self.path = root / "log"
        self.path.mkdir()
        self.replay = Replay(work, UPDATES, seed)
        self.n_files = 0
        self.begun_ns = time.time_ns() - DAY_NS
        self.expected: list[tuple[int, int, int]] = []
        self._filter: Any = None

    def add(self, n_messages: int) -> None:
        """One more file, which makes one more micro-batch; without messages, of one update."""
        table = pa.Table.from_batches([self.replay.take(max(n_messages, 1)).to_arrow()])
        if not n_messages:
            table = table.filter(pc.equal(table["kind"], "update")).slice(0, 1)
        part = self.path / f".{self.n_files}"
        pq.write_table(table, part)
        os.utime(part, ns=(self.begun_ns + self.n_files * STEP_NS,) * 2)
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


def part(query: Any) -> dict[str, Any]:
    """What Spark measured, and what shards counted: sums, quantiles, some of the sizes."""
    spent = [p["durationMs"] for p in query.recentProgress]
    settled = spent[SETTLES:] if len(spent) > SETTLES else spent
    stages = sorted({name for ms in settled for name in ms})
    rows = [row.asDict() for row in query.metrics().collect()]
    late = [row for row in rows if row["batch"] >= rows[0]["batch"] + SETTLES]
    sizes = [row["state_bytes"] for row in rows if row["shard"] == rows[0]["shard"]]
    return {
        "batches": len(spent),
        "ms": {
            name: [float(np.quantile([ms.get(name, 0) for ms in settled], q)) for q in QUANTILES]
            for name in stages
        },
        "shard_ms": [
            float(np.quantile([row["nanoseconds"] / 1e6 for row in late or rows], q))
            for q in QUANTILES
        ],
        "state_bytes": sizes[:: max(1, len(sizes) // 50)],
        "state_bytes_most": max(row["state_bytes"] for row in rows),
        "rebuilt_late": sum(row["rebuilt"] for row in late),
        **{name: sum(row[name] for row in rows) for name in SUMS},
    }


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
    if observed["answers_agree"]:
        show_bars(bars)
    else:
        console.print("[red]deliveries differ from the embedded filter's: no bars[/red]")
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
    observed: dict[str, Any] = {"first_s": first_s}

    console.print(f"steady state: {chosen.steady} micro-batches of {chosen.messages:,} messages")
    for _ in range(chosen.steady):
        log.add(chosen.messages)
    query, _ = run(log, sums, session, chosen)
    observed["steady"] = part(query)

    console.print(f"small: {chosen.small} micro-batches of one message")
    for _ in range(chosen.small):
        log.add(1)
    query, _ = run(log, sums, session, chosen)
    observed["small"] = part(query)

    console.print(f"empty: {chosen.empty} micro-batches of one update")
    for _ in range(chosen.empty):
        log.add(0)
    query, _ = run(log, sums, session, chosen)
    observed["empty"] = part(query)

    console.print("restart by workers that know nothing")
    session.stop()
    session = a_session(chosen)
    log.add(1)
    query, restart_s = run(log, sums, session, chosen)
    rows = query.metrics().collect()
    observed["restart"] = {
        "whole_s": restart_s,
        "shards_s": [row.nanoseconds / 1e9 for row in rows],
        "profiles": [row.profiles for row in rows],
        "rebuilt": sum(row.rebuilt for row in rows),
    }
    observed["answers_agree"] = [sums.found.get(i, (0, 0, 0)) for i in range(log.n_files)] == [
        found if found[0] else (0, 0, 0) for found in log.expected
    ]
    session.stop()
    show(observed)
    return observed, judge(observed)


def show(observed: dict[str, Any]) -> None:
    table = Table("part", "micro-batches", "median ms", "90 % ms", "in a shard", "built again",
                  "caught up", "snapshots", "state MB, most", title="Micro-batches")  # fmt: skip
    for name in ("steady", "small", "empty"):
        seen = observed[name]
        ms = seen["ms"]["triggerExecution"]
        table.add_row(
            name, str(seen["batches"]), f"{ms[2]:,.0f}", f"{ms[3]:,.0f}",
            f"{seen['shard_ms'][2]:,.0f}",
            *[str(seen[n]) for n in ("rebuilt", "caught_up", "snapshots")],
            f"{seen['state_bytes_most'] / 1e6:,.1f}",
        )  # fmt: skip
    console.print(table)
    again = observed["restart"]
    console.print(f"restart: {again['whole_s']:.1f} s in all, shards {again['shards_s']} s")


def judge(observed: dict[str, Any]) -> list[Bar]:
    """The whole restart counts: from the call of ``stream`` to the end of the first micro-batch,
    all shards at once, on as many cores.
    """
    empty = observed["empty"]["ms"]["triggerExecution"][2]
    steady, small = observed["steady"], observed["small"]
    after = small["state_bytes"][len(small["state_bytes"]) // 2 :]
    return [
        Bar("500 ms / an empty micro-batch", EMPTY_MS / empty, 1.0),
        Bar("15 s / restart, all shards at once", RECOVERY_S / observed["restart"]["whole_s"], 1.0),
        Bar("1 / (1 + shards built again in steady state)", 1 / (1 + steady["rebuilt_late"]), 1.0),
        Bar("2 / (most state in the second half / at its start)", 2 * after[0] / max(after), 1.0),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
