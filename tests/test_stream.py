"""Streams on a real Spark: restarts, sinks, shapes of deliveries, and what is refused."""

import json
import random
import shutil
import sqlite3

import pytest
from test_spark import draw, embedded, frames

import germane

spark = pytest.importorskip("germane.spark")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]
STREAMS = ("messages", "updates", "profiles")
NOW = {"availableNow": True}
DELIVERY = ("seq", "message", "profile", "context")


class Folder:
    """Inputs as directories of Parquet files, to which a test adds."""

    def __init__(self, session, root):
        self.session, self.root = session, root
        for name in STREAMS:
            (root / name).mkdir()
        empty = frames(session, {"contexts": [], "profiles": []}, [])
        self.schemas = {name: empty[name].schema for name in STREAMS}

    def add(self, before, events):
        made = frames(self.session, before, events)
        for name in STREAMS:
            frame = made[name] if name != "profiles" else made[name].where("seq IS NOT NULL")
            frame.coalesce(1).write.mode("append").parquet(str(self.root / name))
        return made

    def read(self, name):
        return self.session.readStream.schema(self.schemas[name]).parquet(str(self.root / name))

    def inputs(self):
        return {name: self.read(name) for name in STREAMS}


def subscribed(before):
    """Profiles from before everything as the first events."""
    return [
        {"seq": i - 100, "kind": "subscribe", "id": p, "condition": condition, "context": c}
        for i, (p, condition, c) in enumerate(before["profiles"])
    ]


@pytest.mark.parametrize(
    ("seed", "shards", "together"),
    [
        (1, 3, False),
        *[
            pytest.param(seed, seed % 5 + 1, seed % 2 == 0, marks=pytest.mark.long)
            for seed in range(2, 8)
        ],
    ],
)
def test_restarts(session, tmp_path, seed, shards, together):
    """Started three times from one checkpoint: together, what one filter delivers and refuses."""
    before, events = draw(seed)
    expected, refused = embedded(before, events)
    folder = Folder(session, tmp_path)
    nothing = {"contexts": [], "profiles": []}
    contexts = frames(session, before, [])["contexts"]
    pick = random.Random(seed)
    a, b = sorted(pick.sample(range(1, len(events)), 2))
    for part in (subscribed(before) + events[:a], events[a:b], events[b:]):
        folder.add(nothing, part)
        query = spark.stream(
            **folder.inputs(),
            contexts=contexts,
            checkpoint=tmp_path / "checkpoint",
            sink=tmp_path / "out",
            shards=shards,
            together=together,
            trigger=NOW,
        )
        query.awaitTermination()
    columns = ("seq", "message", "profile", "context")
    found = session.read.parquet(str(tmp_path / "out")).select(*columns).collect()
    assert sorted(map(tuple, found), key=str) == expected
    letters = query.dead_letters().collect()
    told = [(None if r.seq < 0 else r.seq, json.loads(r.event)["id"]) for r in letters]
    assert sorted(told, key=str) == refused
    told = query.metrics().collect()
    assert {row.shard for row in told} == set(range(shards))
    for row in told:
        stages = (row.read_ns, row.match_ns, row.write_ns)
        assert min(stages) > 0
        assert sum(stages) == row.nanoseconds


def test_resharded(session, tmp_path):
    """Half of the events on two shards, the state dealt out to three, the rest there."""
    before, events = draw(3)
    expected, refused = embedded(before, events)
    folder = Folder(session, tmp_path)
    nothing = {"contexts": [], "profiles": []}
    contexts = frames(session, before, [])["contexts"]
    places = (tmp_path / "two", tmp_path / "three")
    half = len(events) // 2
    told = []
    for place, part in zip(
        places, (subscribed(before) + events[:half], events[half:]), strict=True
    ):
        folder.add(nothing, part)
        if place is places[1]:
            dealt = spark.reshard(session, *places, shards=3)
            assert dealt.resumed_at == events[half - 1]["seq"]
            assert dealt.shards == 3
        query = spark.stream(
            **folder.inputs(),
            contexts=contexts,
            checkpoint=place,
            sink=tmp_path / "out",
            shards=2 if place is places[0] else None,
            trigger=NOW,
        )
        query.awaitTermination()
        told += query.dead_letters().collect()
    columns = ("seq", "message", "profile", "context")
    found = session.read.parquet(str(tmp_path / "out")).select(*columns).collect()
    assert sorted(map(tuple, found), key=str) == expected
    names = [(None if r.seq < 0 else r.seq, json.loads(r.event)["id"]) for r in told]
    assert sorted(names, key=str) == refused
    with pytest.raises(germane.GermaneError, match="is no checkpoint"):
        spark.reshard(session, tmp_path / "nowhere", tmp_path / "else", shards=3)


@pytest.fixture
def small(session, tmp_path):
    """Two profiles, a context that moves, three messages."""
    columns = {
        "messages": "seq long, id string, x double",
        "updates": "seq long, context string, limit double",
    }
    rows = {
        "messages": [(2, "m2", 5.0), (4, "m4", 5.0), (5, "m5", 9.0)],
        "updates": [(1, "c", 4.0), (3, "c", 8.0)],
    }
    made = {}
    for name, schema in columns.items():
        path = str(tmp_path / name)
        session.createDataFrame(rows[name], schema).coalesce(1).write.parquet(path)
        made[name] = session.readStream.schema(schema).parquet(path)
    made["profiles"] = session.createDataFrame(
        [("follows", "c", "x > context.limit"), ("fixed", None, "x > 8")],
        "id string, context string, condition string",
    )
    return made


def run(inputs, tmp_path, **more):
    query = spark.stream(**inputs, checkpoint=tmp_path / "checkpoint", trigger=NOW, **more)
    query.awaitTermination()
    return query


def test_into_a_database_and_again(session, tmp_path, small):
    """A batch that is written twice is there once; the second start has nothing to do."""
    url = f"sqlite:///{tmp_path}/deliveries.db"
    twice = spark.Sql(url)
    run(small, tmp_path, sink=lambda found, batch: (twice(found, batch), twice(found, batch)))
    run(small, tmp_path, sink=url)
    with sqlite3.connect(f"{tmp_path}/deliveries.db") as connection:
        rows = connection.execute("SELECT * FROM deliveries ORDER BY seq, profile").fetchall()
    assert rows == [
        (2, "m2", "follows", "c"),
        (5, "m5", "fixed", None),
        (5, "m5", "follows", "c"),
    ]


@pytest.mark.parametrize(
    ("per", "expected"),
    [
        ("message", [(2, "m2", ["follows"], ["c"]), (5, "m5", ["fixed", "follows"], [None, "c"])]),
        ("profile", [("fixed", None, [5], ["m5"]), ("follows", "c", [2, 5], ["m2", "m5"])]),
    ],
)
def test_a_row_per_message_or_profile(tmp_path, small, per, expected):
    rows = []

    def sink(found, batch):
        rows.extend(found.collect())

    run(small, tmp_path, per=per, together=True, sink=sink)
    if per == "message":
        found = [
            (r.seq, r.message, *map(list, zip(*sorted(zip(r.profiles, r.contexts, strict=True)),
             strict=True))) for r in rows
        ]  # fmt: skip
    else:
        found = [tuple(row) for row in rows]
    assert sorted(found, key=str) == expected


def test_what_is_wrong_is_said_at_once(session, tmp_path, small):
    def refused(said, **changed):
        arguments = {**small, "checkpoint": tmp_path / "never", "sink": "console", **changed}
        with pytest.raises(germane.GermaneError, match=said):
            spark.stream(**arguments)

    static = session.createDataFrame([(1, "m", 1.0)], "seq long, id string, x double")
    refused("messages must be a streaming DataFrame", messages=static)
    refused("sink is a path", sink=7)
    refused("per is one of delivery, message, profile", per="day")
    refused("shards is a number", shards=0)
    with_seq = session.createDataFrame([(1, "p", "x > 1")], "seq long, id string, condition string")
    refused("they belong into the sequence", profiles=with_seq)
    nowhere = session.readStream.schema("id string, op string, condition string").json(
        str(tmp_path / "messages")
    )
    refused("need a seq, their place in the sequence", profiles=nowhere)
    refused("a database has a row a delivery", sink="sqlite:///a.db", per="message")
    assert not (tmp_path / "never").exists()


def test_a_checkpoint_remembers(session, tmp_path, small):
    run(small, tmp_path, sink=tmp_path / "out", shards=2)
    with pytest.raises(
        germane.GermaneError, match="was started with shards = 2, now it is 3; see germane reshard"
    ):
        run(small, tmp_path, sink=tmp_path / "out", shards=3)
    said = r"with the streams messages, updates; now they are messages, updates \(together\)"
    with pytest.raises(germane.GermaneError, match=said):
        run(small, tmp_path, sink=tmp_path / "out", together=True)
    commits = tmp_path / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()  # as if it had died between its sink and its end
    with pytest.raises(germane.GermaneError, match=f"in the midst of micro-batch {last}: start it"):
        spark.reshard(session, tmp_path / "checkpoint", tmp_path / "new", shards=3)


def test_inputs_that_are_limited_wait_for_each_other(session, tmp_path):
    """One is dense, one is sparse; a micro-batch brings a file of each."""
    kinds = {
        "messages": "seq long, id string, x double",
        "updates": "seq long, context string, y double",
    }
    ticks = range(0, 40, 10)
    for first in ticks:
        rows = [(first + i, f"m{first + i}", 1.0) for i in range(1, 10)]
        made = session.createDataFrame(rows, kinds["messages"]).coalesce(1)
        made.write.mode("append").parquet(str(tmp_path / "messages"))
    rows = [(first, "c", float(first)) for first in ticks]
    made = session.createDataFrame(rows, kinds["updates"]).coalesce(1)
    made.write.parquet(str(tmp_path / "updates"))
    inputs = {
        name: session.readStream.schema(kind).option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / name))
        for name, kind in kinds.items()
    }  # fmt: skip
    profiles = session.createDataFrame(
        [("p", "c", "x < context.y")], "id string, context string, condition string"
    )
    query = run({**inputs, "profiles": profiles}, tmp_path, sink=tmp_path / "out", shards=2)
    assert query.dead_letters().count() == 0
    found = session.read.parquet(str(tmp_path / "out")).select("seq").collect()
    assert sorted(row.seq for row in found) == [s for s in range(11, 40) if s % 10]


def test_a_place_that_was_cleared_is_another_stream_s(session, tmp_path):
    """Workers remember nothing of the one before, whose columns and shards were others."""
    made = session.createDataFrame([(1, "m", 1.0, 2.0)], "seq long, id string, x double, y double")
    made.write.parquet(str(tmp_path / "messages"))
    profiles = session.createDataFrame([("p", "y > 1")], "id string, condition string")

    def delivered(kind, shards):
        messages = session.readStream.schema(kind).parquet(str(tmp_path / "messages"))
        rows = []
        run(
            {"messages": messages, "profiles": profiles}, tmp_path, shards=shards,
            sink=lambda found, batch: rows.extend(found.collect()),
        )  # fmt: skip
        shutil.rmtree(tmp_path / "checkpoint")
        return len(rows)

    assert delivered("seq long, id string, x double", 1) == 0
    for shards in (1, 2):
        assert delivered(made.schema, shards) == 1


@pytest.mark.parametrize("together", [False, True])
def test_a_micro_batch_is_one_in_however_many_rows_it_comes(session, tmp_path, together):
    """Spark's Arrow batches may be as small as they like, and a micro-batch many of them."""
    before, events = draw(3, 120)
    events = sorted(subscribed(before) + events, key=lambda event: event["seq"])
    contexts = frames(session, before, [])["contexts"]
    folder = Folder(session, tmp_path)
    shuffled = random.Random(1).sample(events, len(events))
    folder.add({"contexts": [], "profiles": []}, shuffled)
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "3")
    try:
        query = spark.stream(
            **folder.inputs(), contexts=contexts, shards=2, together=together, trigger=NOW,
            checkpoint=tmp_path / "check", sink=str(tmp_path / "out"),
        )  # fmt: skip
        query.awaitTermination()
    finally:
        session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
    found = session.read.parquet(str(tmp_path / "out")).select(*DELIVERY).collect()
    wanted, refused = embedded({"contexts": before["contexts"], "profiles": []}, events)
    assert sorted(map(tuple, found), key=str) == wanted
    assert len(query.dead_letters().collect()) == len(refused)


def test_more_rows_than_come_at_once_are_refused(monkeypatch):
    """A micro-batch that may be cut in two is an error, not two micro-batches."""
    import pyarrow as pa

    from germane.spark import packing, replicas

    monkeypatch.setattr(replicas, "MOST_ROWS", 3)
    replica = replicas.Replica("name", None, [7], ["messages"], together=True)
    row = type("Row", (), {"events": packing.encode(pa.table({"seq": [1]}))})
    with pytest.raises(germane.GermaneError, match=r"shard 0 3 rows .*maxFilesPerTrigger"):
        list(replica.handleInputRows((7,), iter([row] * 3), None))
