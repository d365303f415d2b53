"""``spark.reshard``: a stopped stream's state, dealt out anew to another number of shards.

Spark's state store is read by Spark's own reader; each old shard's snapshot and deltas are played,
and its profiles and values written as events from before everything. A stream that is started with
the new checkpoint begins with them. It reads its sources from their beginning (or from where they
are told to start) and passes over what the old stream has taken.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from germane.model import GermaneError, InvalidValue
from germane.spark.checkpoints import (
    Pipeline,
    begun,
    near_of,
    read_pipeline,
    start_of,
    write_pipeline,
)
from germane.spark.events import check_shards, event_columns, quoted
from germane.spark.layout import HOME, VALUES, Layout, carried
from germane.spark.packing import decode, spread
from germane.spark.places import Near, write_places
from germane.spark.replicas import rebuilt, snapshot_of

STATE = "shard int, what string, number bigint, data binary"


class Resharded(NamedTuple):
    """What was dealt out."""

    shards: int
    profiles: int
    contexts: int
    resumed_at: int | None  # the last seq that was taken


def reshard(
    session: SparkSession, old: str | Path, new: str | Path, shards: int | None = None
) -> Resharded:
    """Make a checkpoint ``new`` out of ``old``, whose stream is stopped, with so many shards."""
    source, target = str(old), str(new)
    pipeline = read_pipeline(session, source)
    if pipeline is None:
        raise InvalidValue(f"{source!r} is no checkpoint of a germane stream")
    if read_pipeline(session, target) is not None:
        raise InvalidValue(f"{target!r} is the checkpoint of a stream; choose another place")
    n_shards = check_shards(shards, session)
    at = begun(session, source)
    if at is not None:  # the sinks may have its deliveries already
        raise GermaneError(
            f"the stream of {source!r} was stopped in the midst of micro-batch {at}: start it once "
            "more, with trigger={'availableNow': True}, so that it ends that one; then reshard"
        )
    heads = _read(session, source, "head").select("key.shard", "value.*").collect()
    if not heads:
        raise GermaneError(f"the stream of {source!r} has not taken anything yet")
    own = {"told": None, "n_latest": None}  # what shards need not agree on
    gates = {json.dumps({**json.loads(row.gate or "{}"), **own}) for row in heads}
    if len(gates) != 1:
        raise GermaneError(f"the shards of {source!r} do not agree how far they are")
    resumed_at = _frontier(gates.pop())

    parts = _read(session, source, "snapshot").selectExpr(
        "key.shard", "'part' what", "user_map_key.part number", "user_map_value.part data"
    )
    deltas = _read(session, source, "deltas").selectExpr(
        "key.shard", "'delta' what", "user_map_key.version number", "user_map_value.changes data"
    )
    versions = session.createDataFrame(
        [(row.shard, "snapshot", row.snapshot, None) for row in heads]
        + [(row.shard, "parts", row.parts, None) for row in heads],
        STATE,
    )
    state = parts.unionByName(deltas).unionByName(versions)
    agreed, keys = pipeline.agreed, spread(pipeline.shards)

    def play(table: pa.Table) -> pa.Table:
        events = _live_events(table, agreed, keys)
        return events.rename_columns([carried(name) for name in events.column_names])

    kinds = event_columns(agreed)
    columns = ", ".join(f"{quoted(carried(name))} {kind}" for name, kind in kinds.items())
    events = state.groupBy("shard").applyInArrow(play, columns)
    events.write.mode("overwrite").parquet(start_of(target))
    written = session.read.parquet(start_of(target))
    dealt = Pipeline(n_shards, agreed, uuid4().hex[:12], resumed_at)
    if agreed.near:
        near = Near(near_of(target, dealt.stream), n_shards, (), ())
        placed_by = [f"{quoted(carried(name))} AS {quoted(name)}" for name in agreed.near]
        somewhere = f"coalesce({', '.join(quoted(carried(n)) for n in agreed.near)}) IS NOT NULL"
        held = written.where(f"kind = '{VALUES}' AND {somewhere}").selectExpr("id", *placed_by)
        write_places(near, agreed.near, held, agreed.ids)
    counts = {
        row.kind: row.n for row in written.groupBy("kind").agg(fn.count("*").alias("n")).collect()
    }
    write_pipeline(session, target, dealt)
    return Resharded(n_shards, counts.get("subscribe", 0), counts.get("values", 0), resumed_at)


def _live_events(table: pa.Table, agreed: Layout, keys: list[int]) -> pa.Table:
    """All that the store has of a shard -> its own profiles and values, as events."""
    rows = table.to_pylist()
    number = keys.index(rows[0]["shard"])
    about = {row["what"]: row["number"] for row in rows if row["what"] in ("snapshot", "parts")}
    parts = {row["number"]: row["data"] for row in rows if row["what"] == "part"}
    deltas = {row["number"]: row["data"] for row in rows if row["what"] == "delta"}
    snapshot = b"".join(parts[part] for part in range(about["parts"]))
    later = [deltas[version] for version in sorted(deltas) if version > about["snapshot"]]
    copy = rebuilt(number, agreed, decode(snapshot) if snapshot else None, map(decode, later))
    events = snapshot_of(copy, agreed)
    return events.filter(pc.equal(events.column(HOME), number))


def _frontier(gate: str | None) -> int | None:
    frontier: int | None = json.loads(gate).get("frontier") if gate else None
    return frontier


def _read(session: SparkSession, checkpoint: str, variable: str) -> Any:
    reader = session.read.format("statestore").option("stateVarName", variable)
    return reader.option("path", checkpoint).load()
