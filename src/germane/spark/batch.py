"""``spark.match``: a batch job. Events are merged, put on shards, and played there in order."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from germane.spark.events import Inputs, check_shards, layout, merge
from germane.spark.layout import LETTER, SHARD, Layout
from germane.spark.shards import Shard


class Results:
    """What one job finds; it runs for each DataFrame that is used, unless you cache ``found``."""

    def __init__(self, found: DataFrame, agreed: Layout) -> None:
        self.found = found
        """A row a message with its profiles, or a row a dead letter."""
        self._agreed = agreed

    @cached_property
    def deliveries(self) -> DataFrame:
        """A row a delivery: ``seq``, ``message``, ``profile``, ``context``."""
        return deliveries(self.found, self._agreed)

    @cached_property
    def rejected(self) -> DataFrame:
        """A row a dead letter: ``seq``, ``kind``, ``reason``, ``event`` as JSON."""
        return self.found.where("reason IS NOT NULL").select(*LETTER)


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
    return Results(ordered.mapInArrow(_shard_function(agreed), agreed.found_in_sql()), agreed)


def in_order(events: DataFrame, n_shards: int) -> DataFrame:
    """Shard k's events in partition k, in the order of ``seq``.

    All shards must agree on the order of what has no ``seq``: an id may be there twice.
    """
    ordered = events.repartitionById(n_shards, SHARD)
    return ordered.sortWithinPartitions("seq", "id", "context", "condition")  # nulls first


def deliveries(found: DataFrame, agreed: Layout) -> DataFrame:
    """One row a delivery."""
    each = found.where("reason IS NULL").selectExpr(
        "seq", "message", "contexts", "posexplode(profiles) AS (_at, profile)"
    )
    return each.selectExpr(
        "seq",
        f"CAST(message AS {agreed.message}) AS message",
        f"CAST(profile AS {agreed.profile}) AS profile",
        f"CAST(get(contexts, _at) AS {agreed.context}) AS context",
    )


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
