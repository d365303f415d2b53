"""``spark.match``: a batch job. Events are merged, put on shards, and played there in order."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from germane.spark.events import Inputs, check_shards, layout, merge
from germane.spark.layout import LETTER, SHARD, Layout
from germane.spark.shards import Shard


class Results(NamedTuple):
    """Two DataFrames of one job; the job runs for each that is used, unless you cache ``found``."""

    deliveries: DataFrame  # seq, message, profile, context
    rejected: DataFrame  # seq, kind, reason, event (as JSON): the dead letters
    found: DataFrame  # what both are made of


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
    out; ``play`` tells which, and why.
    """
    return play(Inputs(messages, profiles, contexts, updates), shards).deliveries


def play(inputs: Inputs, shards: int | None = None) -> Results:
    """As ``match``, with the dead letters beside the deliveries."""
    agreed = layout(inputs)
    n_shards = check_shards(shards, inputs.session)
    ordered = in_order(merge(inputs, agreed, n_shards), n_shards)
    return results(ordered.mapInArrow(_shard_function(agreed), agreed.found_in_sql()), agreed)


def in_order(events: DataFrame, n_shards: int) -> DataFrame:
    """Shard k's events in partition k, in the order of ``seq``.

    All shards must agree on the order of what has no ``seq``: an id may be there twice.
    """
    return events.repartitionById(n_shards, SHARD).sortWithinPartitions(
        fn.col("seq").asc_nulls_first(), "id", "context", "condition"
    )


def results(found: DataFrame, agreed: Layout) -> Results:
    """What shards found, as callers want it."""
    return Results(deliveries(found, agreed), letters(found), found)


def deliveries(found: DataFrame, agreed: Layout) -> DataFrame:
    """One row a delivery."""
    to = fn.explode(fn.arrays_zip("profiles", "contexts")).alias("to")
    return (
        found.where("reason IS NULL")
        .select("seq", "message", to)
        .select(
            "seq",
            fn.col("message").cast(agreed.message),
            fn.col("to.profiles").cast(agreed.profile).alias("profile"),
            fn.col("to.contexts").cast(agreed.context).alias("context"),
        )
    )


def letters(found: DataFrame) -> DataFrame:
    """One row a dead letter."""
    return found.where("reason IS NOT NULL").select(*LETTER)


def _shard_function(agreed: Layout) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What a task does with the events of its shard."""

    def play_all(batches: Iterator[Any]) -> Iterator[Any]:
        return play_shards(batches, agreed, lambda number: Shard(number, agreed))

    return play_all


def play_shards(
    batches: Iterator[Any], agreed: Layout, shard_of: Callable[[int], Shard]
) -> Iterator[Any]:
    """Record batches of one shard's events in, record batches of ``FOUND`` out."""
    shard = None
    for batch in batches:
        if not batch.num_rows:
            continue
        if shard is None:
            shard = shard_of(batch.column(SHARD)[0].as_py())
        played = shard.play(pa.Table.from_batches([batch]))
        for table in played.found:
            yield from table.to_batches()
        if played.letters:
            yield from pa.Table.from_pylist(played.letters, schema=agreed.found()).to_batches()
