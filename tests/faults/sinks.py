"""A sink function that breaks off when told to, and what a reader finds in every kind of sink.

The function writes a file for each attempt at a micro-batch, row by row, and gives it its name at
the end. So an attempt that broke off is seen too, and must be a part of the one that went through.
"""

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = tuple[Any, ...]
DELIVERY = ("seq", "message", "profile", "context")
ORDER = "break"
"""The file that tells a recorder to break off, and after which part of the rows."""


class Broken(Exception):
    """The sink broke off, as it was told."""


class Recorder:
    """A sink function."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "out").mkdir(parents=True, exist_ok=True)

    def __call__(self, deliveries: "DataFrame", batch: int) -> None:
        """Write a micro-batch; break off if an order to do so is there, once."""
        rows = deliveries.collect()
        order = self.root / ORDER
        share = float(order.read_text()) if order.exists() else None
        attempt = self.root / "out" / f"{batch}-{uuid4().hex}.part"
        n_written = len(rows) if share is None else int(share * len(rows))
        with attempt.open("w") as file:
            for row in rows[:n_written]:
                file.write(json.dumps([row[name] for name in DELIVERY]) + "\n")
        if share is not None:
            order.unlink()
            raise Broken(f"after {n_written} of {len(rows)} rows of batch {batch}")
        attempt.rename(attempt.with_suffix(".whole"))


def target(root: Path, kind: str) -> Any:
    """What to give ``germane.spark.stream`` as its sink."""
    if kind == "function":
        return Recorder(root)
    return f"sqlite:///{root}/out.db" if kind == "sql" else root / "out"


def delivered(root: Path, kind: str) -> list[Row]:
    """All deliveries that a reader of the sink finds, sorted."""
    if kind == "function":
        rows = _recorded(root / "out")
    elif kind == "sql":
        rows = _in_table(root / "out.db")
    else:
        rows = _in_parquet(root / "out", DELIVERY)
    return sorted(rows, key=str)


def dead_letters(root: Path) -> list[Row]:
    """All dead letters, (seq, id), sorted."""
    rows = _in_parquet(root / "checkpoint" / "germane" / "dead_letters", ("seq", "event", "reason"))
    assert all(reason for _, _, reason in rows)
    return sorted(((seq, json.loads(event).get("id")) for seq, event, _ in rows), key=str)


def _in_parquet(path: Path, columns: tuple[str, ...]) -> list[Row]:
    """What is in whole batches; as for Spark, what begins with an underscore is not there."""
    rows: list[Row] = []
    for file in sorted(path.rglob("*.parquet")):
        if any(name.startswith(("_", ".")) for name in file.relative_to(path).parts):
            continue
        table = pq.ParquetFile(file).read(columns=list(columns))
        rows += zip(*(table.column(name).to_pylist() for name in columns), strict=True)
    return rows


def _in_table(path: Path) -> list[Row]:
    if not path.exists():
        return []
    connection = sqlite3.connect(path)
    try:
        if not connection.execute("SELECT * FROM sqlite_master").fetchall():
            return []
        names = ", ".join(DELIVERY)
        return [tuple(row) for row in connection.execute(f"SELECT {names} FROM deliveries")]
    finally:
        connection.close()


def _recorded(path: Path) -> list[Row]:
    """The attempts that went through, once each; all attempts at a batch must agree."""
    whole: dict[int, list[Row]] = {}
    for file in sorted(path.glob("*.whole")):
        rows, batch = _lines(file), int(file.name.split("-")[0])
        assert Counter(rows) == Counter(whole.setdefault(batch, rows)), f"batch {batch} differs"
    for file in path.glob("*.part"):
        batch = int(file.name.split("-")[0])
        if batch in whole:
            stale = Counter(_lines(file)) - Counter(whole[batch])
            assert not stale, f"an attempt at batch {batch} wrote what the last one did not"
    return [row for rows in whole.values() for row in rows]


def _lines(file: Path) -> list[Row]:
    """The rows of an attempt; a killed process may have left half a line."""
    lines = file.read_text().split("\n")
    return [tuple(json.loads(line)) for line in lines[:-1]]
