"""Cases that the faults have found, without Spark where that is possible."""

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
from germane.spark.gate import Gate
from germane.spark.layout import HOME, SHARD, Layout
from germane.spark.packing import decode, marks_of, packer, spread
from germane.spark.replicas import rebuilt, snapshot_of
from germane.spark.shards import Shard

Event = dict[str, Any]
LAYOUT = Layout({"x": "number"}, "string", "string", "string", "string")
COLUMNS = pa.schema(
    [
        (SHARD, pa.int32()), (HOME, pa.int32()), ("seq", pa.int64()),
        pa.field("kind", pa.string(), nullable=False),  # as it comes from Spark
        ("id", pa.string()), ("context", pa.string()), ("condition", pa.string()),
        ("removed", pa.list_(pa.string())), ("x", pa.float64()),
    ]
)  # fmt: skip


def events(*rows: Event) -> pa.Table:
    """Events as Spark hands them to a task."""
    return pa.Table.from_pylist([{HOME: 0, **row} for row in rows], schema=COLUMNS)


def subscribe(seq: int, name: str) -> Event:
    return {"seq": seq, "kind": "subscribe", "id": name, "condition": "x > 1"}


def test_a_snapshot_after_a_snapshot() -> None:
    """A shard that was built from a snapshot takes more events, and its next snapshot is due."""
    shard = rebuilt(0, LAYOUT, None, iter([events(subscribe(1, "p"))]))
    snapshot = snapshot_of(shard, LAYOUT)
    shard = rebuilt(0, LAYOUT, snapshot, iter([events(subscribe(2, "q"))]))
    assert snapshot_of(shard, LAYOUT).column("id").to_pylist() == ["p", "q"]


@pytest.mark.parametrize("kind", ["subscribe", "unsubscribe"])
def test_nobody_knows_a_profile_without_id(kind: str) -> None:
    """Its home refuses the event; other shards must not take it for a profile of that shard."""
    nameless = {"kind": "subscribe", "id": None, "condition": "TRUE"}
    shard = Shard(1, LAYOUT)
    played = shard.play(events({"seq": 1, **nameless}))
    assert (played.changes, shard.elsewhere) == ([], set())
    again = shard.play(events({**nameless, "seq": 2, "kind": kind, HOME: 1}))
    assert [letter["seq"] for letter in again.letters] == [2]


@pytest.mark.parametrize("together", [True, False])
def test_an_unknown_kind_is_due_like_any_other(together: bool) -> None:
    """It comes last, and nothing comes after it: it is a dead letter all the same."""
    table = events(subscribe(1, "p"), {"seq": 2, "kind": "resubscribe", "id": "p"})
    (packed,) = packer(LAYOUT, spread(1))(iter(table.to_batches()))
    tables = [decode(data.as_py()) for data in packed.column("events")]
    gate = Gate(["messages", "profiles"], together)
    due = gate.admit(pa.concat_tables(tables), [marks_of(t) for t in tables])
    later = gate.admit(table.slice(0, 0), [])  # every input was asked again
    taken = due.events.column("seq").to_pylist() + later.events.column("seq").to_pylist()
    assert taken == [1, 2]
