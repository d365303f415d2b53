"""``spark.stream``: the filter on Structured Streaming, exactly once.

Inputs are merged and packed (``events``, ``packing``), played on shards whose state is Spark's
(``replicas``), and written by sinks (``sinks``). Everything that a restart needs is under the
checkpoint: Spark's own files, and ``germane/pipeline.json``, which says what was agreed on.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from germane.approx.transformations import Transformations
from germane.category import ContentGraph
from germane.model import InvalidValue
from germane.spark.batch import deliveries as one_a_row
from germane.spark.checkpoints import (
    Pipeline,
    agree,
    forget_pipeline,
    near_of,
    read_pipeline,
    start_of,
    starts,
    write_pipeline,
)
from germane.spark.events import (
    Inputs,
    check_shards,
    layout,
    merge_before,
    merge_resumed,
    merge_stream,
)
from germane.spark.graphs import described
from germane.spark.layout import LETTER, Layout
from germane.spark.packing import PACKED, packer, spread, unpacker
from germane.spark.places import Near, check_near, followed_and_asked
from germane.spark.replicas import COUNTS, MOST_ROWS, RESULT, Replica
from germane.spark.routing import router
from germane.spark.sessions import require_classic
from germane.spark.sinks import Parquet, Sql, Write, as_sink

KEPT = 1000
"""Micro-batches whose metrics are kept."""
PER = ("delivery", "message", "profile")
SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(MOST_ROWS),
}


def stream(
    messages: DataFrame,
    profiles: DataFrame,
    contexts: DataFrame | None = None,
    updates: DataFrame | None = None,
    *,
    checkpoint: str | Path,
    sink: Any,
    shards: int | None = None,
    per: str = "delivery",
    together: bool = False,
    dead_letters: str | Path | None = None,
    trigger: dict[str, Any] | None = None,
    name: str | None = None,
    transformations: Transformations | None = None,
    graphs: Mapping[str, ContentGraph] | None = None,
    near: str | Sequence[str] = (),
) -> "Query":
    """Deliver messages as they stream in; the columns are those of ``match``.

    ``messages`` and ``updates`` are streaming DataFrames. ``profiles`` may be one, then it brings
    subscriptions and their ends at their place in the sequence; if it is not, it is what is
    subscribed before everything, as ``contexts`` are the values before everything: both are read
    once, when the stream first starts.

    ``checkpoint`` is a directory that outlives this process; a stream that is started again with
    it goes on where it was. ``sink`` is a path (Parquet), the URL of a database, "console", or a
    function of (deliveries, number of the micro-batch). ``per`` says what a row is: a "delivery",
    a "message" with the list of its profiles, or a "profile" with the list of its messages.

    An event waits until every input has come as far, or has been asked once more and has nothing.
    ``together=True`` leaves that out, for inputs that are made of one DataFrame, a log's:
    everything up to the highest ``seq`` of a micro-batch is in it. What comes too late all the same
    is a dead letter. ``dead_letters`` is where they go, Parquet, by default under the checkpoint.
    ``trigger`` goes to Spark, for example ``{"availableNow": True}``.

    ``near`` names numbers of ``contexts``: those that are alike in them share a shard, and a
    message goes only to shards where it may be for somebody. It needs ``together=True``, unless
    messages are the only stream. Deliveries are the same; ``metrics()`` tells what it saved.
    """
    inputs = Inputs(messages, profiles, contexts, updates)
    require_classic(inputs.session, "a stream")
    agreed = layout(inputs, transformations, described(graphs))
    for needed in ("messages", "updates"):
        frame = inputs.there().get(needed)
        if frame is not None and not frame.isStreaming:
            raise InvalidValue(f"{needed} must be a streaming DataFrame; for a batch, use match")
    if contexts is not None and contexts.isStreaming:
        raise InvalidValue("contexts are values before everything; a stream of them is updates")
    if not profiles.isStreaming and "seq" in profiles.columns:
        raise InvalidValue(
            "profiles have a seq, so they belong into the sequence: give them as a streaming "
            "DataFrame, or drop the column if they were there before everything"
        )
    if per not in PER:
        raise InvalidValue(f"per is one of {', '.join(PER)}, not {per!r:.200}")
    if profiles.isStreaming and "seq" not in profiles.columns:
        raise InvalidValue("profiles that stream in need a seq, their place in the sequence")
    write = as_sink(sink)
    if isinstance(write, Sql) and per != "delivery":
        raise InvalidValue(f"a database has a row a delivery: per={per!r} needs another sink")
    session = inputs.session
    place = str(checkpoint)
    names = ["messages"]
    names += ["updates"] if updates is not None else []
    names += ["profiles"] if profiles.isStreaming else []
    waits = not together and len(names) > 1
    if near:
        if waits:
            raise InvalidValue("near needs inputs that are cut from one log: say together=True")
        agreed = agreed._replace(near=check_near(near, agreed, contexts))
    streams = ", ".join(names) + (" (together)" if together and len(names) > 1 else "")
    now = Pipeline(check_shards(shards, session), agreed, uuid4().hex[:12], inputs=streams)
    then = read_pipeline(session, place)
    pipeline = agree(then, now, place, any_shards=shards is None)
    n_shards = pipeline.shards
    keys = spread(n_shards)
    guide: Near | None = None
    places: DataFrame | None = None
    packed = merge_stream(inputs, agreed, n_shards, starts(session, place) if waits else None)
    if near:
        folder = near_of(place, pipeline.stream)
        guide = Near(folder, n_shards, **followed_and_asked(agreed, inputs.there()))
        places = guide.placed(session, agreed, contexts)
        packed = packed.coalesce(1).mapInArrow(router(agreed, keys, guide), PACKED)
    else:
        packed = packed.mapInArrow(packer(agreed, keys), PACKED)
    if waits:  # so that a micro-batch without events follows one that left some waiting
        at = packed.withColumn("at", fn.current_timestamp()).withWatermark("at", "0 seconds")
        packed = at.select("shard", "events")  # without "at", no clock can make Spark drop a row
    if pipeline.resumed_at is None:
        before = merge_before(inputs, agreed, n_shards, places)
    else:
        start = session.read.parquet(start_of(place))
        before = merge_resumed(
            start, agreed, n_shards, tell_all=profiles.isStreaming, places=places
        )
    if before is not None:
        before = before.mapInArrow(packer(agreed, keys), PACKED)
    images = f"{place}/germane/images"
    # By the stream's word: workers remember shards, also if a checkpoint is deleted.
    known_as = f"{place} {pipeline.stream}"
    results = packed.groupBy("shard").transformWithState(
        Replica(known_as, agreed, keys, names, together, pipeline.resumed_at, images, near=guide),
        RESULT,
        "Append",
        "EventTime" if waits else "None",
        initialState=None if before is None else before.groupBy("shard"),
    )
    results = results.observe("germane", *[fn.sum(count).alias(count) for count in COUNTS])
    rejected = str(dead_letters or f"{place}/germane/dead_letters")
    if isinstance(write, Parquet):
        write = replace(write, stream=pipeline.stream)
    out = _Output(write, Parquet(rejected, pipeline.stream), per, agreed)
    writer = results.writeStream.foreachBatch(out.write).option("checkpointLocation", place)
    if trigger:
        writer = writer.trigger(**trigger)
    if name:
        writer = writer.queryName(name)
    if then is None:
        write_pipeline(session, place, pipeline)
    try:
        with _settings(session, {**SETTINGS, "spark.sql.shuffle.partitions": str(n_shards)}):
            started = writer.outputMode("append").start()
    except Exception:
        if then is None:  # who corrects the call may start it at this place
            forget_pipeline(session, place)
        raise
    return Query(started, out, session, rejected)


@dataclass
class Query:
    """A running stream: Spark's ``StreamingQuery``, and what germane knows beside."""

    query: Any
    _out: "_Output"
    _session: SparkSession
    _rejected: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.query, name)

    def metrics(self) -> DataFrame:
        """A row a shard and micro-batch, of the last thousand micro-batches."""
        kinds = ", ".join(f"{name} bigint" for name in ("batch", "shard", *COUNTS))
        rows = [row for of_batch in list(self._out.metrics) for row in of_batch]
        return self._session.createDataFrame(rows, kinds)

    def shards(self) -> dict[str, float]:
        """How many there are, and of the last thousand micro-batches: messages that were sent to
        a shard, those of them that it delivered, and the share of sendings that were spared.
        """
        at = {name: i for i, name in enumerate(("batch", "shard", *COUNTS))}
        rows = [row for of_batch in list(self._out.metrics) for row in of_batch]
        sums = {n: sum(row[at[n]] for row in rows) for n in ("messages", "reached", "passed")}
        return {
            "count": len({row[at["shard"]] for row in rows}),
            "contacted": sums["messages"],
            "needed": sums["reached"],
            "pruned": sums["passed"] / max(1, sums["passed"] + sums["messages"]),
        }

    def dead_letters(self) -> DataFrame:
        """What was rejected, and why: ``seq``, ``kind``, ``reason``, ``event`` as JSON."""
        try:
            found = self._session.read.parquet(self._rejected)
        except Exception as error:
            if "PATH_NOT_FOUND" not in str(error) and "UNABLE_TO_INFER" not in str(error):
                raise
            columns = "seq bigint, kind string, reason string, event string"
            return self._session.createDataFrame([], columns)
        return found.select(*LETTER)


@dataclass
class _Output:
    """Takes a micro-batch's results apart, and hands them to the sinks."""

    sink: Write
    letters: Write
    per: str
    agreed: Layout
    metrics: deque[list[tuple[int, ...]]] = field(default_factory=lambda: deque(maxlen=KEPT))

    def write(self, results: DataFrame, batch: int) -> None:
        results.persist()
        try:
            rows = results.selectExpr("shard", *COUNTS).collect()
            told = [row for row in rows if row.events is not None]
            self.metrics.append([(batch, *row) for row in told])
            if sum(row.rejected for row in told):
                unpacked = self._unpacked(results, "letters")
                self.letters(unpacked.select(*LETTER), batch)
            if sum(row.deliveries for row in told):
                self.sink(self._arranged(self._unpacked(results, "found")), batch)
        finally:
            results.unpersist()

    def _unpacked(self, results: DataFrame, column: str) -> DataFrame:
        """The tables in a column, by as many tasks as can run at once: each has its own cost."""
        packed = results.selectExpr(column)
        at_once = packed.sparkSession.sparkContext.defaultParallelism
        return packed.coalesce(at_once).mapInArrow(unpacker(column), self.agreed.found_in_spark())

    def _arranged(self, found: DataFrame) -> DataFrame:
        rows = one_a_row(found, self.agreed)
        if self.per == "delivery":
            return rows
        if self.per == "message":
            nobodys = fn.transform("profiles", lambda profile: fn.lit(None).cast(self.agreed.ids))
            nothing = fn.transform("profiles", lambda profile: fn.lit(0.0))
            lists = found.groupBy("seq", "message").agg(
                fn.flatten(fn.collect_list("profiles")).alias("profiles"),
                fn.flatten(fn.collect_list(fn.coalesce("contexts", nobodys))).alias("contexts"),
                fn.flatten(fn.collect_list(fn.coalesce("costs", nothing))).alias("costs"),
            )
            kinds = {"profiles": self.agreed.profile, "contexts": self.agreed.context}
            if self.agreed.document:
                kinds["costs"] = "double"
            return lists.select(
                "seq",
                fn.col("message").cast(self.agreed.message),
                *[fn.col(name).cast(f"array<{kind}>") for name, kind in kinds.items()],
            )
        pairs = fn.array_sort(fn.collect_list(fn.struct("seq", "message"))).alias("messages")
        return (
            rows.groupBy("profile", "context")
            .agg(pairs)
            .select(
                "profile",
                "context",
                fn.col("messages.seq").alias("seqs"),
                fn.col("messages.message").alias("messages"),
            )
        )


@contextmanager
def _settings(session: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    """Settings that a query takes along when it starts; the session's own come back."""
    before = {name: session.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)
