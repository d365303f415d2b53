"""A stream whose messages go only where they may be needed, against one that sends them everywhere.

    python -m benchmarks.pruned_streams

100,000 contexts around towns, each with a profile that asks for what is near it, on eight shards of
a local Spark with two cores: the world of `benchmarks.pruning`. One log of mixed events, a file a
micro-batch: contexts walk a little, messages are for somewhere, a fifth of them addressed. The same
files are played by two streams: with `near=["x", "y"]`, and without. Both take the first half, then
both the second, so that neither has the machine at a better time; the first micro-batches of each
start do not count. Deliveries are compared by micro-batch.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.table import Table

from germane import spark

from . import record
from .pruning import CONDITION, World, as_events
from .rounds import Bar, console, ratio, show_bars
from .spark_streams import Sums, a_session

SETTLES = 2  # micro-batches of each start that do not count
COLUMNS = "seq long, kind string, id long, x double, y double, price double, address string"


class Stream:
    """One checkpoint, and what was seen of it."""

    def __init__(self, root: Path, name: str, near: list[str]) -> None:
        self.root, self.name, self.near = root, name, near
        self.sums = Sums()
        self.ms: list[float] = []
        self.counts = dict.fromkeys(("messages", "reached", "notices", "deliveries"), 0)

    def run(self, session: Any, shards: int) -> None:
        """Take what is in the log."""
        reader = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
        log = reader.parquet(str(self.root / "log"))
        query = spark.stream(
            log.where("kind = 'message'").select("seq", "id", "x", "y", "price", "address"),
            session.read.parquet(str(self.root / "profiles.parquet")),
            session.read.parquet(str(self.root / "contexts.parquet")),
            log.where("kind = 'update'").selectExpr("seq", "id context", "x", "y"),
            checkpoint=self.root / self.name,
            sink=self.sums,
            shards=shards,
            together=True,
            trigger={"availableNow": True},
            near=self.near,
        )
        query.awaitTermination()
        taken = [p for p in query.recentProgress if p["numInputRows"]]
        self.ms += [p["durationMs"]["triggerExecution"] for p in taken[SETTLES:]]
        settled = {p["batchId"] for p in taken[SETTLES:]}
        for row in query.metrics().collect():
            if row.batch in settled:
                for name in self.counts:
                    self.counts[name] += row[name]


def write_before(root: Path, world: World) -> None:
    ids = pa.array(np.arange(world.n))
    profiles = {"id": ids, "context": ids, "condition": [CONDITION] * world.n}
    pq.write_table(pa.table(profiles), root / "profiles.parquet", row_group_size=1 << 14)
    contexts = {"id": ids, **{name: pa.array(v) for name, v in world.values.items()}}
    pq.write_table(pa.table(contexts), root / "contexts.parquet", row_group_size=1 << 14)
    (root / "log").mkdir()


def add(root: Path, world: World, chosen: Any, number: int) -> int:
    """One more file; how many messages it has."""
    batch = world.batch(chosen.updates, chosen.messages, number * 10**7)
    table = as_events(batch, number * 10**7)
    part = root / "log" / f".{number}"
    pq.write_table(table, part)
    part.rename(root / "log" / f"{number:06}.parquet")
    return int(pc.sum(pc.equal(table["kind"], "message")).as_py())


def main() -> int:
    """Run, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--contexts", type=int, default=100_000)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--messages", type=int, default=20_000, help="of a micro-batch")
    parser.add_argument("--updates", type=int, default=2_000)
    parser.add_argument("--driver-memory", default="4g")
    chosen = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="germane-pruned-"))
    try:
        observed, bars = measure(root, chosen)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    show_bars(bars)
    console.print(str(record.write("pruned_streams", vars(chosen), observed)))
    return 0 if observed["answers_agree"] else 1


def measure(root: Path, chosen: Any) -> tuple[dict[str, Any], list[Bar]]:
    session = a_session(chosen)
    world = World(chosen.contexts, 1)
    write_before(root, world)
    streams = [Stream(root, "pruned", ["x", "y"]), Stream(root, "everywhere", [])]
    half = chosen.batches // 2 + SETTLES
    for turn in range(2):
        for number in range(turn * half, (turn + 1) * half):
            add(root, world, chosen, number)
        for stream in streams if turn else streams[::-1]:
            stream.run(session, chosen.shards)
            console.print(f"{stream.name}: ms {[round(v) for v in stream.ms]}")
    session.stop()
    pruned, everywhere = streams
    alike = pruned.sums.found == everywhere.sums.found and len(pruned.sums.found) == 2 * half
    n = chosen.messages * len(pruned.ms)
    table = Table("", "pruned", "everything everywhere")
    table.add_row("messages/s", *(f"{1e3 * chosen.messages * len(s.ms) / sum(s.ms):,.0f}" for s in streams))  # noqa: E501  # fmt: skip
    table.add_row("micro-batch, median ms", *(f"{np.median(s.ms):,.0f}" for s in streams))
    table.add_row("shards a message is sent to", *(f"{s.counts['messages'] / n:.2f}" for s in streams))  # noqa: E501  # fmt: skip
    table.add_row("shards that deliver it", *(f"{s.counts['reached'] / n:.2f}" for s in streams))
    table.add_row("notices a micro-batch", *(f"{s.counts['notices'] / len(s.ms):.1f}" for s in streams))  # noqa: E501  # fmt: skip
    console.print(table)
    console.print(f"deliveries agree: {alike}")
    counts = pruned.counts
    bars = [
        Bar("shards contacted / needed", counts["messages"] / max(counts["reached"], 1), 2.0,
            at_least=False),
        Bar("throughput, pruned / everything everywhere",
            ratio([1 / s for s in pruned.ms], [1 / s for s in everywhere.ms]), 2.0),
    ]  # fmt: skip
    observed = {
        "ms": {s.name: s.ms for s in streams}, "counts": {s.name: s.counts for s in streams},
        "answers_agree": alike, "bars": [bar.as_dict() for bar in bars],
    }  # fmt: skip
    return observed, bars


if __name__ == "__main__":
    raise SystemExit(main())
