"""Contexts that have wandered: who offers them, who takes them, and in which order.

At the end of a micro-batch, a shard that tells of its groups also offers contexts which stand far
outside of their group and belong elsewhere by now (``Watch.leaving``): all that is needed to take
them over is in its notice. Whoever routes the next micro-batch gives them their new groups, sends
the receiving shard what *arrives* and the offering shard what *leaves*, ahead of all events. So
in one micro-batch they leave the one and are with the other; if it is repeated, so is the move.
An offer stands in the last notice of a shard until it is taken, and a shard whose offer was taken
tells anew. Moves are ordinary events (subscriptions and their ends, updates), numbered by
themselves, and a delta of their own.

Where everybody has moved to is a file (``moves``) that says all of it; shards know its number, so
that a lost one is noticed.
"""

import json
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from germane.filter.events import SUBSCRIBE, UNSUBSCRIBE, UPDATE
from germane.spark.layout import HOME, SHARD
from germane.spark.notices import Arrays, Notice
from germane.spark.packing import TRUE, decode, encode
from germane.spark.places import GROUPS

MOVES = "moves"
"""The name of those notices, and of their folder."""


class Offer(NamedTuple):
    """Contexts and the groups they belong to now; what leaves the one, what arrives at others."""

    groups: dict[Any, int]
    leaving: pa.Table
    arriving: pa.Table  # ``SHARD`` is where
    values: pa.Table  # of all of them


def offer(
    groups: dict[Any, int], number: int, values: pa.Table, profiles: pa.Table, names: list[str]
) -> Offer:
    """Of a shard's contexts, some; ``values`` and ``profiles`` are theirs, as events."""
    homes = {name: group // GROUPS for name, group in groups.items()}
    values, profiles = (
        _sent(table, [homes[name] for name in table.column(key).to_pylist()])
        for table, key in ((values, "id"), (profiles, "context"))
    )
    held = _with(values, kind=UPDATE, **{HOME: values.column(SHARD)})
    values, profiles = (
        table.filter(pc.not_equal(table.column(SHARD), number)) for table in (values, profiles)
    )
    nobody = pa.nulls(profiles.num_rows, profiles.schema.field("context").type)
    ends = _with(profiles, kind=UNSUBSCRIBE, condition=None, context=nobody, **{HOME: number})
    known = _with(profiles, condition=TRUE, context=nobody, **{HOME: profiles.column(SHARD)})
    here = _with(profiles, kind=SUBSCRIBE, **{HOME: profiles.column(SHARD)})
    all_names = pa.array([names] * values.num_rows, pa.list_(pa.string()))
    emptied = _with(values, kind=UPDATE, removed=all_names, **{HOME: number})
    for name in names:
        emptied = _with(emptied, **{name: None})
    filled = _with(values, kind=UPDATE, **{HOME: values.column(SHARD)})
    return Offer(
        groups,
        pa.concat_tables([ends, known, emptied]),
        pa.concat_tables([ends, here, filled]),
        held,
    )


def offered(made: Offer) -> Arrays:
    """An offer as part of a notice."""
    tables = {"leaving": made.leaving, "arriving": made.arriving, "values": made.values}
    found = {name: np.frombuffer(encode(table), np.uint8) for name, table in tables.items()}
    return found | {"offered": as_bytes(made.groups)}


def offer_in(notice: Notice) -> Offer | None:
    """The offer that a notice makes, if it does."""
    if "offered" not in notice.arrays:
        return None
    tables = (decode(notice.arrays[name].tobytes()) for name in ("leaving", "arriving", "values"))
    return Offer(groups_in(notice.arrays["offered"]), *tables)


def in_turn(tables: list[pa.Table]) -> pa.Table:
    """Moves of a shard, numbered."""
    table = pa.concat_tables(tables)
    return _with(table, seq=pa.array(np.arange(1, table.num_rows + 1)))


def as_bytes(groups: dict[Any, int]) -> Any:
    """Groups of contexts as an array."""
    return np.frombuffer(json.dumps(list(groups.items())).encode(), np.uint8)


def groups_in(array: Any) -> dict[Any, int]:
    """What ``as_bytes`` made."""
    return dict(json.loads(array.tobytes()))


def _sent(table: pa.Table, shards: list[int]) -> pa.Table:
    return _with(table, **{SHARD: pa.array(shards, pa.int32())})


def _with(table: pa.Table, **columns: Any) -> pa.Table:
    """With some columns replaced, by others or by one value."""
    for name, column in columns.items():
        at = table.column_names.index(name)
        kind = table.schema.field(name).type
        if not isinstance(column, (pa.Array, pa.ChunkedArray)):
            column = pa.array([column] * table.num_rows, kind)
        table = table.set_column(at, name, column.cast(kind))
    return table
