"""``spark.match``: a batch job. Events are merged, put on shards, and played there in order."""

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from germane.model import InvalidValue
from germane.spark import events as inputs
from germane.spark.shards import FOUND, Shard


def match(
    messages: DataFrame,
    profiles: DataFrame,
    contexts: DataFrame | None = None,
    updates: DataFrame | None = None,
    shards: int | None = None,
) -> DataFrame:
    """Who gets which message: one row a delivery, ``seq``, ``message``, ``profile``, ``context``.

    ``messages``: ``seq``, ``id``, one column an attribute. ``profiles``: ``id``, ``condition``,
    and if you like ``context``, ``seq`` and ``op`` ("subscribe" or "unsubscribe"). ``contexts``:
    ``id`` and the values before everything. ``updates``: ``seq``, ``context``, the new values, and
    ``removed``, an array of names. Every message meets exactly the state before it in the order of
    ``seq``. ``shards`` is by default the parallelism of the session. Malformed events are left
    out; ``rejected`` tells which, and why.
    """
    found, merged = _play(messages, profiles, contexts, updates, shards)
    return (
        found.where("reason IS NULL")
        .select("seq", "message", fn.explode(fn.arrays_zip("profiles", "contexts")).alias("to"))
        .select(
            "seq",
            fn.col("message").cast(merged.message),
            fn.col("to.profiles").cast(merged.profile).alias("profile"),
            fn.col("to.contexts").cast(merged.context).alias("context"),
        )
    )


def rejected(
    messages: DataFrame,
    profiles: DataFrame,
    contexts: DataFrame | None = None,
    updates: DataFrame | None = None,
    shards: int | None = None,
) -> DataFrame:
    """The dead letters of the same job: ``seq``, ``kind``, ``reason``, ``event`` (as JSON)."""
    found, _ = _play(messages, profiles, contexts, updates, shards)
    return found.where("reason IS NOT NULL").select("seq", "kind", "reason", "event")


def _play(
    messages: DataFrame,
    profiles: DataFrame,
    contexts: DataFrame | None,
    updates: DataFrame | None,
    shards: int | None,
) -> tuple[DataFrame, inputs.Events]:
    if shards is None:
        shards = messages.sparkSession.sparkContext.defaultParallelism
    if not isinstance(shards, int) or isinstance(shards, bool) or not 1 <= shards <= 100_000:
        raise InvalidValue(f"shards is a number from 1 to 100,000, not {shards!r:.200}")
    merged = inputs.merge(messages, profiles, contexts, updates, shards)
    # All shards must agree on the order of what has no seq: an id may be there twice.
    in_order = merged.frame.repartitionById(shards, "shard").sortWithinPartitions(
        fn.col("seq").asc_nulls_first(), "id", "context", "condition"
    )
    function = _shard_function(merged.schema, merged.ids)
    return in_order.mapInArrow(function, FOUND.format(ids=merged.ids)), merged


def _shard_function(schema: dict[str, str], ids: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What a task does with the events of its shard."""

    def play(batches: Iterator[Any]) -> Iterator[Any]:
        shard = None
        for batch in batches:
            if not batch.num_rows:
                continue
            if shard is None:
                shard = Shard(batch.column("shard")[0].as_py(), schema, ids)
            yield from shard.play(batch)

    return play
