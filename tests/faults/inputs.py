"""A scene's parts as files, and the streams that read them.

A part becomes visible at once, by the renaming of a directory: inputs that are asked one after the
other then differ by one asking at most, which is what streams that wait allow. With ``together``
all inputs are cut from one log, whose files Spark takes a few at a time.
"""

import json
import os
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from test_spark import SCHEMA, TYPES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Event = dict[str, Any]
PROFILES = ("subscribe", "unsubscribe", "resubscribe")
COLUMNS = {
    "messages": f"seq long, id string, {TYPES}",
    "updates": f"seq long, context string, {TYPES}, removed array<string>",
    "profiles": "seq long, op string, id string, condition string, context string",
    "log": "seq long, kind string, id string, condition string, context string, "
    f"removed array<string>, {TYPES}",
}
ARROW = {
    "long": pa.int64(), "string": pa.string(), "double": pa.float64(), "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"), "array<string>": pa.list_(pa.string()),
}  # fmt: skip
AT_ONCE = 2
"""Files of a log that a micro-batch takes at most."""


class Publisher:
    """Puts parts where streams see them."""

    def __init__(self, root: Path, together: bool, form: str) -> None:
        self.root, self.together, self.form = root, together, form
        self.n_published = 0
        self._past = int(time.time()) - 100_000
        (root / "in").mkdir(parents=True, exist_ok=True)

    def publish(self, events: list[Event]) -> None:
        """One more part."""
        number = self.n_published
        beside = self.root / f"writing-{number}"
        beside.mkdir()
        for name in ["log"] if self.together else ["messages", "updates", "profiles"]:
            path = beside / f"{name}.{self.form}"
            _write(path, rows_of(name, events), COLUMNS[name])
            os.utime(path, (self._past + number,) * 2)  # Spark takes files by their time
        beside.rename(self.root / "in" / f"{number:04d}")
        self.n_published += 1


def streams(session: "SparkSession", root: Path, together: bool, form: str) -> dict[str, Any]:
    """The streaming inputs of ``germane.spark.stream``."""

    def read(name: str, **options: Any) -> "DataFrame":
        reader = session.readStream.schema(COLUMNS[name]).options(**options)
        return reader.format(form).load(f"{root}/in/*/{name}.{form}")

    if not together:
        return {name: read(name) for name in ("messages", "updates", "profiles")}
    log = read("log", maxFilesPerTrigger=AT_ONCE)
    renamed = log.withColumnRenamed("kind", "op").where("op NOT IN ('message', 'update')")
    return {
        "messages": log.where("kind = 'message'").select("seq", "id", *SCHEMA),
        "updates": log.where("kind = 'update'")
        .withColumn("context", log.id)
        .select("seq", "context", *SCHEMA, "removed"),
        "profiles": renamed.select("seq", "op", "id", "condition", "context"),
    }


def rows_of(name: str, events: list[Event]) -> list[Event]:
    """The rows of one input."""
    if name == "log":
        return events
    if name == "messages":
        return [e for e in events if e["kind"] == "message"]
    if name == "updates":
        return [{**e, "context": e["id"]} for e in events if e["kind"] == "update"]
    return [{**e, "op": e["kind"]} for e in events if e["kind"] in PROFILES]


def _write(path: Path, rows: list[Event], columns: str) -> None:
    kinds = dict(column.split() for column in columns.split(", "))
    if path.suffix == ".parquet":
        schema = pa.schema([(name, ARROW[kind]) for name, kind in kinds.items()])
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
        return
    with path.open("w") as file:
        for row in rows:
            there = {name: row[name] for name in kinds if row.get(name) is not None}
            file.write(json.dumps(there, default=_as_text) + "\n")


def _as_text(value: Any) -> str:
    assert isinstance(value, datetime)
    return value.isoformat()
