"""The columns that travel between Spark and shards, and what all shards agree on."""

from typing import NamedTuple

import pyarrow as pa

VALUES = "values"
"""The kind of what contexts held before everything; the other kinds are the filter's."""
SHARD, HOME = PLACING = ("_shard", "_home")
"""Where an event must be seen (null: its kind says it), and who answers for it."""
FIELDS = (*PLACING, "seq", "kind", "id", "context", "condition", "removed")
"""Columns of events that are not attributes."""
FOUND = (
    ("seq", "bigint"),
    ("message", "{ids}"),
    ("profiles", "array<{ids}>"),
    ("contexts", "array<{ids}>"),
    ("kind", "string"),
    ("reason", "string"),
    ("event", "string"),
)
"""What shards return: a row a message with its profiles, or a row a dead letter."""
LETTER = ("seq", "kind", "reason", "event")
_ARROW = {"bigint": pa.int64(), "string": pa.string()}


class Layout(NamedTuple):
    """What all shards agree on, and what callers get back."""

    schema: dict[str, str]  # attribute -> type
    ids: str  # the SQL type that ids are carried as
    message: str  # the caller's types of ids
    profile: str
    context: str

    def found_in_sql(self) -> str:
        """The columns of ``FOUND`` for Spark."""
        return ", ".join(f"{name} {kind.format(ids=self.ids)}" for name, kind in FOUND)

    def found(self) -> pa.Schema:
        """The columns of ``FOUND`` for Arrow."""
        fields = []
        for name, form in FOUND:
            kind = form.format(ids=self.ids)
            of_lists = kind.startswith("array")
            inner = _ARROW[kind.removeprefix("array<").removesuffix(">")]
            fields.append((name, pa.list_(inner) if of_lists else inner))
        return pa.schema(fields)
