"""Events and messages as Arrow columns, and deliveries back as tuples."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

ARROW_TYPES = {
    "number": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
}
ARROW_FIELDS = {
    "seq": pa.int64(),
    "kind": pa.string(),
    "id": pa.string(),
    "removed": pa.list_(pa.string()),
    "context": pa.string(),
    "condition": pa.string(),
    "links": pa.list_(pa.list_(pa.string())),
    "unlinks": pa.list_(pa.list_(pa.string())),
}


def record_batch(events: list[dict], schema: dict[str, str], all_columns: bool) -> pa.RecordBatch:
    """One column for each field and attribute, or only for those that hold anything."""
    types = ARROW_FIELDS | {name: ARROW_TYPES[type_] for name, type_ in schema.items()}
    columns = {}
    for name, type_ in types.items():
        values = [in_utc(event.get(name)) for event in events]
        if all_columns or name in ("seq", "kind", "id") or any(v is not None for v in values):
            columns[name] = pa.array(values, type_)
    return pa.RecordBatch.from_pydict(columns)


def in_utc(value: object) -> object:
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


def deliveries(matches) -> list[tuple]:
    table = matches.to_arrow()
    assert table.column_names == ["seq", "message", "profile", "cost"]
    seqs, messages, profiles, costs = (column.to_pylist() for column in table.columns)
    assert set(costs) <= {0.0}
    assert len(matches) == len(seqs)
    return list(zip(seqs, messages, profiles, strict=True))
