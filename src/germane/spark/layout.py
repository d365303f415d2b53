"""The columns that travel between Spark and shards, and what all shards agree on."""

from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import types

from germane.approx.transformations import Transformations
from germane.filter import Filter
from germane.spark.graphs import rebuilt

DOCUMENT = "document"
"""The attribute of messages that is XML."""
VALUES = "values"
"""The kind of what contexts held before everything; the other kinds are the filter's."""
SHARD, HOME = PLACING = ("_shard", "_home")
"""Where an event must be seen (null: its kind says it), and who answers for it."""
EVENT = "_event"
"""A message as a struct."""
FIELDS = (*PLACING, "seq", "kind", "id", "context", "condition", "dialect", "removed", "address")
"""Columns of events that are not attributes."""
FOUND = (
    ("seq", "bigint"),
    ("message", "{ids}"),
    ("profiles", "array<{ids}>"),
    ("contexts", "array<{ids}>"),
    ("costs", "array<double>"),
    ("kind", "string"),
    ("reason", "string"),
    ("event", "string"),
)
"""What shards return: a row a message with its profiles, or a row a dead letter."""
LETTER = ("seq", "kind", "reason", "event")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
"""What names of columns that travel are made of: Spark does not tell capitals from small letters,
and its look-up of a column by its name reads dots, stars and backticks as more than a name."""
_ARROW = {"bigint": pa.int64(), "string": pa.string(), "double": pa.float64()}


def carried(name: str) -> str:
    """The name of an attribute's column while events travel through Spark."""
    return "".join(c if c in _PLAIN else "".join(f"%{b:02x}" for b in c.encode()) for c in name)


def as_named(table: pa.Table) -> pa.Table:
    """Events from Spark, their columns called as attributes are."""
    if "%" not in "".join(table.column_names):
        return table
    return table.rename_columns([unquote(name) for name in table.column_names])


class Layout(NamedTuple):
    """What all shards agree on, and what callers get back."""

    schema: dict[str, str]  # attribute -> type
    ids: str  # the SQL type that ids are carried as
    message: str  # the caller's types of ids
    profile: str
    context: str
    owned: bool = True  # whether profiles may have contexts
    addressed: bool = False  # whether messages may have an address
    document: str = ""  # the SQL type in which documents travel; "": there are none
    transformations: dict[str, Any] | None = None  # of documents, as plain data
    graphs: list[dict[str, Any]] = []  # noqa: RUF012  # content graphs, as ``graphs`` describes them
    dialects: bool = False  # whether profiles say what their conditions are written in
    near: list[str] = []  # noqa: RUF012  # attributes by which contexts are placed; none: by hash

    def filter(self) -> Filter:
        """An empty filter for a shard."""
        tables = self.transformations
        return Filter(
            schema=self.schema,
            graphs=rebuilt(self.graphs) or None,
            transformations=None if tables is None else Transformations.from_dict(tables),
        )

    def found_in_spark(self) -> types.StructType:
        """The columns of ``FOUND`` for Spark."""
        ids = types.LongType() if self.ids == "bigint" else types.StringType()
        kinds: dict[str, types.DataType] = {
            "bigint": types.LongType(),
            "string": types.StringType(),
            "{ids}": ids,
            "array<{ids}>": types.ArrayType(ids),
            "array<double>": types.ArrayType(types.DoubleType()),
        }
        fields = [types.StructField(name, kinds[kind]) for name, kind in FOUND]
        # Who reads a list need not look whether each of its ids is there.
        fields[2] = types.StructField("profiles", types.ArrayType(ids, containsNull=False))
        return types.StructType(fields)

    def found(self) -> pa.Schema:
        """The columns of ``FOUND`` for Arrow."""
        fields = []
        for name, form in FOUND:
            kind = form.format(ids=self.ids)
            of_lists = kind.startswith("array")
            inner = _ARROW[kind.removeprefix("array<").removesuffix(">")]
            fields.append((name, pa.list_(inner) if of_lists else inner))
        return pa.schema(fields)
