"""Events <-> a few rows of bytes for each shard, so that Spark moves columns, not rows.

``packer`` runs before events fan out, once for each of them: a table of messages is encoded once
and goes to every shard, a context's updates to its own. Of a subscription, shards other than its
home get the id alone, and whether its condition is well-formed. Each row also says how far each
input has come (``marks``), in the metadata of its table.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from germane.filter import Filter
from germane.filter.events import MESSAGE, SUBSCRIBE, UPDATE
from germane.model import GermaneError
from germane.spark.documents import parsed
from germane.spark.layout import DOCUMENT, HOME, SHARD, Layout, as_named

PACKED = "shard int, events binary"
TRUE = "TRUE"
"""Stands for a well-formed condition where another shard has it."""
_MARKS = b"germane.marks"
_LEAST = -(1 << 63)

Batches = Iterator[Any]


def encode(table: pa.Table, compressed: bool = False) -> bytes:
    """A table as bytes."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd" if compressed else None)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def decode(data: bytes) -> pa.Table:
    """A table from its bytes."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def marks_of(table: pa.Table) -> dict[str, int]:
    """How far each input had come when a table was packed: its highest ``seq`` there."""
    said = (table.schema.metadata or {}).get(_MARKS)
    marks: dict[str, int] = json.loads(said) if said else {}
    return marks


def labelled(table: pa.Table, marks: dict[str, int], about: dict[bytes, Any] | None = None) -> Any:
    """A table that says how far each input had come, and what else is to be said of it."""
    return table.replace_schema_metadata({_MARKS: json.dumps(marks), **(about or {})})


def in_columns(table: pa.Table, agreed: Layout) -> tuple[pa.Table, dict[str, int]]:
    """Events as they travel, and how far each input had come."""
    return plain(_parsed(table, agreed)), _marks(table)


def packer(agreed: Layout, keys: list[int]) -> Callable[[Batches], Batches]:
    """What a task does with events: batches of them in, batches of ``PACKED`` out.

    ``keys[k]`` is the value by which Spark knows shard k.
    """

    def pack(batches: Batches) -> Batches:
        judge = agreed.filter()
        for batch in batches:
            if batch.num_rows:
                yield _packed(
                    _parsed(as_named(pa.Table.from_batches([batch])), agreed), keys, judge
                )

    return pack


def unpacker(column: str) -> Callable[[Batches], Batches]:
    """What a task does with rows that hold encoded tables in a column: the tables' batches."""

    def unpack(batches: Batches) -> Batches:
        for batch in batches:
            for data in batch.column(column):
                if data.is_valid:
                    yield from decode(data.as_buffer()).to_batches()

    return unpack


def _parsed(table: pa.Table, agreed: Layout) -> pa.Table:
    """With documents that are parsed."""
    if not agreed.document:
        return table
    at = table.column_names.index(DOCUMENT)
    return table.set_column(at, DOCUMENT, parsed(table.column(at), agreed.document))


def _packed(table: pa.Table, keys: list[int], judge: Filter) -> pa.RecordBatch:
    table = labelled(plain(table), _marks(table))
    kinds = table.column("kind")
    is_message = pc.fill_null(pc.equal(kinds, MESSAGE), False)
    placed = pc.and_(pc.is_valid(table.column(SHARD)), pc.invert(is_message))
    to_all = pc.invert(pc.or_(is_message, placed))
    messages = table.filter(is_message)
    with_place, profiles = table.filter(placed), table.filter(to_all)
    told = told_elsewhere(profiles, judge) if len(keys) > 1 else profiles
    for_all = encode(messages) if messages.num_rows else None
    shards: list[int] = []
    blobs: list[bytes] = []
    places, homes = with_place.column(SHARD).to_numpy(), profiles.column(HOME).to_numpy()
    for number, key in enumerate(keys):
        if for_all is not None:
            shards.append(key)
            blobs.append(for_all)
        mine, here = places == number, homes == number
        parts = [
            with_place.filter(pa.array(mine)),
            profiles.filter(pa.array(here)),
            told.filter(pa.array(~here)),
        ]
        own = pa.concat_tables(parts)
        if own.num_rows or for_all is None:
            shards.append(key)
            blobs.append(encode(own))
    return pa.RecordBatch.from_arrays(
        [pa.array(shards, pa.int32()), pa.array(blobs, pa.binary())], ["shard", "events"]
    )


def _marks(table: pa.Table) -> dict[str, int]:
    """The highest ``seq`` of each input; what is neither message nor update is of profiles.

    An input that brings nothing but events without one has brought something all the same.
    """
    kinds = table.column("kind")
    of_messages, of_updates = (
        pc.fill_null(pc.equal(kinds, kind), False) for kind in (MESSAGE, UPDATE)
    )
    of_profiles = pc.invert(pc.or_(of_messages, of_updates))
    marks: dict[str, int] = {}
    for name, chosen in (
        ("messages", of_messages),
        ("updates", of_updates),
        ("profiles", of_profiles),
    ):
        seqs = table.column("seq").filter(chosen)
        if len(seqs):
            marks[name] = pc.max(seqs.fill_null(_LEAST)).as_py()
    return marks


def plain(table: pa.Table) -> pa.Table:
    """A table any of whose columns may hold nulls: what Spark knows better tells tables apart."""
    return pa.table(table.columns, names=table.column_names)


def told_elsewhere(profiles: pa.Table, judge: Filter) -> pa.Table:
    """Events of profiles as shards other than their home see them."""
    verdicts = []
    nothing = {"dialect": pa.nulls(profiles.num_rows, pa.string())}
    names = ("kind", "condition", "context", "dialect")
    columns = (
        (profiles.column(name) if name in profiles.column_names else nothing[name]).to_pylist()
        for name in names
    )
    for kind, condition, context, dialect in zip(*columns, strict=True):
        fits = kind == SUBSCRIBE and _fits(judge, condition, context, dialect)
        verdicts.append(TRUE if fits else None)
    told = nothing | {
        "condition": pa.array(verdicts, pa.string()),
        "context": pa.nulls(profiles.num_rows, profiles.schema.field("context").type),
    }
    for name, column in told.items():
        if name not in profiles.column_names:
            continue
        at = profiles.column_names.index(name)
        profiles = profiles.set_column(at, profiles.schema.field(name), column)
    return profiles


def _fits(judge: Filter, condition: Any, context: Any, dialect: Any) -> bool:
    try:
        judge.check(condition, context, dialect)
    except GermaneError:
        return False
    return True


def spread(n: int) -> list[int]:
    """Values that Spark's hash puts into the partitions 0 .. n-1 out of n, one each."""
    keys: dict[int, int] = {}
    value = 0
    while len(keys) < n:
        keys.setdefault(murmur3(value) % n, value)
        value += 1
    return [keys[place] for place in range(n)]


def murmur3(value: int, seed: int = 42) -> int:
    """Spark's hash of an int (32-bit Murmur3), as a signed number."""
    mask = 0xFFFFFFFF

    def rotated(x: int, r: int) -> int:
        return ((x << r) | (x >> (32 - r))) & mask

    k = rotated(value * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    h = (rotated(seed ^ k, 13) * 5 + 0xE6546B64) & mask
    h ^= 4
    h = (h ^ (h >> 16)) * 0x85EBCA6B & mask
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return int(np.int32(np.uint32(h)))
