"""Streams on a real Spark whose messages go only where they may be needed."""

import random

import pytest
from test_routing import EVENTS, SCHEMA, draw, embedded

import germane

spark = pytest.importorskip("germane.spark")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]
TYPES = {"number": "double", "string": "string", "boolean": "boolean"}
CONTEXT = ("x", "y", "limit", "name")
MESSAGE = ("x", "y", "price", "flag", "name")


def columns(names):
    return ", ".join(f"{name} {TYPES[SCHEMA[name]]}" for name in names)


class Inputs:
    """Directories of Parquet files, to which a test adds."""

    def __init__(self, session, root):
        self.session, self.root = session, root
        self.schemas = {
            "messages": f"seq long, id string, address string, {columns(MESSAGE)}",
            "updates": f"seq long, context string, removed array<string>, {columns(CONTEXT)}",
            "profiles": "seq long, op string, id string, context string, condition string",
        }
        assert set(SCHEMA) <= set(EVENTS.names)

    def add(self, events):
        picked = {"messages": ["message"], "updates": ["update"],
                  "profiles": ["subscribe", "unsubscribe"]}  # fmt: skip
        for name, kinds in picked.items():
            fields = [field.split()[0] for field in self.schemas[name].split(", ")]
            rows = []
            for event in events:
                if event["kind"] in kinds:
                    known = event | {"op": event["kind"]}
                    if name == "updates":
                        known["context"] = event["id"]
                    rows.append(tuple(known.get(field) for field in fields))
            frame = self.session.createDataFrame(rows, self.schemas[name])
            frame.coalesce(1).write.mode("append").parquet(str(self.root / name))

    def streams(self):
        return {
            name: self.session.readStream.schema(schema).parquet(str(self.root / name))
            for name, schema in self.schemas.items()
        }


def test_restarts_and_new_homes(session, tmp_path):
    """Two starts from one checkpoint, then all contexts are placed anew, by what they hold now."""
    pick = random.Random(5)
    contexts, profiles, events = draw(pick, 240, n_contexts=40)
    expected, _ = embedded(contexts, profiles, events)
    first = [
        {"seq": i - 100, "kind": "subscribe", "id": p, "condition": condition, "context": c}
        for i, (p, condition, c) in enumerate(profiles)
    ]
    rows = [(name, *(values.get(a) for a in CONTEXT)) for name, values in contexts]
    held = session.createDataFrame(rows, f"id string, {columns(CONTEXT)}")
    inputs = Inputs(session, tmp_path)
    cuts = [0, 80, 160, len(events)]
    sent = 0
    for turn in range(3):
        inputs.add([*(first if not turn else []), *events[cuts[turn] : cuts[turn + 1]]])
        place = tmp_path / ("again" if turn == 2 else "checkpoint")
        if turn == 2:
            spark.reshard(session, tmp_path / "checkpoint", place, shards=4)
        query = spark.stream(
            **inputs.streams(), contexts=held, checkpoint=place, sink=tmp_path / "out",
            shards=None if turn else 3, together=True, trigger={"availableNow": True},
            near=["x", "y"],
        )  # fmt: skip
        query.awaitTermination()
        sent += sum(row.messages for row in query.metrics().collect())
    fields = ("seq", "message", "profile", "context")
    found = session.read.parquet(str(tmp_path / "out")).select(*fields).collect()
    assert sorted(map(tuple, found), key=str) == expected
    assert sent > 0
    again = {"contexts": held, "checkpoint": place, "sink": tmp_path / "out", "together": True}
    with pytest.raises(germane.GermaneError, match="near"):
        spark.stream(**inputs.streams(), **again, near=["x"])
    with pytest.raises(germane.GermaneError, match="'name' is no number of contexts"):
        spark.stream(**inputs.streams(), **again, near=["name"])
    with pytest.raises(germane.GermaneError, match="together=True"):
        spark.stream(**inputs.streams(), **again | {"together": False}, near=["x", "y"])
