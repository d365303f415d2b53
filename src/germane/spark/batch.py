"""``spark.match``: a batch job. Events are merged, put on shards, and played there in order."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from germane.approx.transformations import Transformations
from germane.category import ContentGraph
from germane.filter.events import MESSAGE
from germane.spark.calls import select
from germane.spark.events import (
    Inputs,
    check_shards,
    layout,
    merge,
    merge_messages,
    with_parsed,
)
from germane.spark.graphs import described
from germane.spark.layout import HOME, LETTER, SHARD, Layout, as_named
from germane.spark.seen import Seen
from germane.spark.shards import Played, Shard

BATCH_BYTES = 1 << 21
"""Bytes of a record batch on its way to Spark, about: more leave the processor's caches."""


class Results:
    """What one job finds; it runs for each DataFrame that is used, unless you cache ``found``."""

    def __init__(self, found: DataFrame, agreed: Layout) -> None:
        self.found = found
        """A row a message with its profiles, or a row a dead letter."""
        self._agreed = agreed

    @cached_property
    def deliveries(self) -> DataFrame:
        """A row a delivery: ``seq``, ``message``, ``profile``, ``context``, if need be ``cost``."""
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
    transformations: Transformations | None = None,
    graphs: Mapping[str, ContentGraph] | None = None,
) -> DataFrame:
    """Who gets which message: one row a delivery, ``seq``, ``message``, ``profile``, ``context``.

    ``messages``: ``seq``, ``id``, one column an attribute. ``profiles``: ``id``, ``condition``,
    and if you like ``context``, ``seq`` and ``op`` ("subscribe" or "unsubscribe"). ``contexts``:
    ``id`` and the values before everything. ``updates``: ``seq``, ``context``, the new values, and
    ``removed``, an array of names. Every message meets exactly the state before it in the order of
    ``seq``. ``shards`` is by default the parallelism of the session. Malformed events are left
    out; ``play`` tells which, and why.

    A message's ``address`` is a condition on the recipient's context; its ``document`` is XML, and
    ``transformations`` say what patterns of documents may be turned into: then there is a ``cost``.
    ``graphs`` are the content graphs of attributes that hold their nodes, a string or an array.
    """
    inputs = Inputs(messages, profiles, contexts, updates)
    return play(inputs, shards, transformations, graphs).deliveries


def play(
    inputs: Inputs,
    shards: int | None = None,
    transformations: Transformations | None = None,
    graphs: Mapping[str, ContentGraph] | None = None,
) -> Results:
    """As ``match``, with the dead letters beside the deliveries."""
    agreed = layout(inputs, transformations, described(graphs))
    n_shards = check_shards(shards, inputs.session)
    messages, agreed = with_parsed(inputs.messages, agreed)
    inputs = inputs._replace(messages=messages)
    ordered = in_order(merge(inputs, agreed, n_shards), n_shards)
    return Results(ordered.mapInArrow(_shard_function(agreed), agreed.found_in_spark()), agreed)


def messages_in_order(messages: DataFrame, agreed: Layout, n_shards: int) -> DataFrame:
    """As ``in_order``, where all events are messages."""
    everywhere = merge_messages(messages, agreed, n_shards).repartitionById(n_shards, SHARD)
    return everywhere.sortWithinPartitions("seq", "id")


def in_order(events: DataFrame, n_shards: int) -> DataFrame:
    """Shard k's events in partition k, in the order of ``seq``.

    All shards must agree on the order of what has no ``seq``: an id may be there twice. Of several
    events with one ``seq`` the first counts, which is the message, if there is one: all have it.
    """
    ordered = events.repartitionById(n_shards, SHARD)
    return ordered.sortWithinPartitions("seq", "kind", "id", "context", "condition")  # nulls first


def deliveries(found: DataFrame, agreed: Layout) -> DataFrame:
    """One row a delivery; dead letters have no profiles, and so no rows.

    What is never null is said to be so: the JVM then has no nulls to look for, or to note, in each
    of millions of rows. That goes for an empty list, too: ``array()`` cast to a list of ids might
    have nulls in it for all that Spark knows, and with it every list.
    """
    seq = "coalesce(seq, 0L) AS seq"
    profiles = f"coalesce(profiles, slice(array(CAST(0 AS {agreed.ids})), 1, 0))"
    message = f"CAST(message AS {agreed.message}) AS message"
    nobody = f"CAST(NULL AS {agreed.context}) AS context"
    if agreed.owned or agreed.document:
        each = select(
            found, seq, message, "contexts", "costs", f"posexplode({profiles}) AS (_at, profile)"
        )
        context = f"CAST(get(contexts, _at) AS {agreed.context}) AS context"
        cost = ["coalesce(get(costs, _at), 0D) AS cost"] if agreed.document else []
        return select(
            each, "seq", "message", f"CAST(profile AS {agreed.profile}) AS profile", context, *cost
        )
    each = select(found, seq, message, f"explode({profiles}) AS profile", nobody)
    if agreed.profile == agreed.ids:
        return each
    return select(
        each, "seq", "message", f"CAST(profile AS {agreed.profile}) AS profile", "context"
    )


def _shard_function(agreed: Layout) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What a task does with the events of its shard."""

    def play_all(batches: Iterator[Any]) -> Iterator[Any]:
        return play_shards(batches, agreed, lambda number: Shard(number, agreed))

    return play_all


def play_shards(
    batches: Iterator[Any], agreed: Layout, shard_of: Callable[[int], Shard]
) -> Iterator[Any]:
    """Record batches of one shard's events in, record batches of ``FOUND`` out.

    What comes twice counts once, before anybody judges it: a shard goes by what it was told of.
    """
    shard, seen = None, Seen()
    for batch in batches:
        if not batch.num_rows:
            continue
        if shard is None:
            shard = shard_of(batch.column(SHARD)[0].as_py())
        events = seen.take(completed(pa.Table.from_batches([batch])))
        yield from found_batches(shard.play(events), agreed)


def found_batches(played: Played, agreed: Layout) -> Iterator[Any]:
    """What a shard found, as record batches of ``FOUND``."""
    for table in played.found:
        n = max(1, table.num_rows * BATCH_BYTES // max(table.nbytes, 1))
        yield from table.to_batches(max_chunksize=n)
    if played.letters:
        yield from pa.Table.from_pylist(played.letters, schema=agreed.found()).to_batches()


def completed(table: pa.Table) -> pa.Table:
    """Named as attributes are, and with the columns that messages alone travel without."""
    table = as_named(table)
    if "kind" in table.column_names:
        return table
    table = table.append_column("kind", pa.repeat(MESSAGE, table.num_rows))
    return table.append_column(HOME, pa.array(np.zeros(table.num_rows, np.int32)))
