"""Conditions of other dialects on Spark: the answers of the embedded filter."""

import random

import pytest

import germane

spark = pytest.importorskip("germane.spark")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]

SCHEMA = {"n": "number", "room": "string"}
CONDITIONS = [
    ("n > 3 AND room LIKE 'A%'", "cesql"),
    ("EXISTS room OR n % 2 = 1", "cesql"),
    ("n > ", "cesql"),
    ('[{"prefix": {"room": "A"}}]', "filters"),
    ("n > 4", None),
    ("n > context.n", "germane"),
    ("n > 3", "esperanto"),
]


def life(seed):
    pick = random.Random(seed)
    events = []
    for seq in range(1, 121):
        kind = pick.choices(["message", "update", "subscribe", "unsubscribe"], [6, 3, 3, 1])[0]
        event = {"seq": seq, "kind": kind, "id": f"{kind[0]}{seq}"}
        if kind in ("subscribe", "unsubscribe"):
            event["id"] = f"p{pick.randrange(9)}"
        if kind == "subscribe":
            condition, dialect = pick.choice(CONDITIONS)
            event |= {
                "condition": condition,
                "dialect": dialect,
                "context": f"c{pick.randrange(4)}",
            }
        elif kind == "update":
            event |= {"id": f"c{pick.randrange(4)}", "n": float(pick.randrange(9))}
        elif kind == "message":
            event |= {"n": float(pick.randrange(9)), "room": pick.choice(["A1", "B1", None])}
        events.append({name: value for name, value in event.items() if value is not None})
    return events


def embedded(events):
    f = germane.Filter(schema=SCHEMA)
    done = f.process(events)
    found = [
        (row["seq"], profile) for row in done.to_lists().to_pylist() for profile in row["profiles"]
    ]
    return sorted(found), sorted(r.seq for r in done.rejected)


def inputs(session, events):
    def rows(kinds, *names):
        return [tuple(e.get(n) for n in names) for e in events if e["kind"] in kinds]

    values = "n double, room string"
    profiles = rows(["subscribe", "unsubscribe"], "seq", "kind", "id", "context", "condition",
                    "dialect")  # fmt: skip
    return {
        "messages": session.createDataFrame(
            rows(["message"], "seq", "id", "n", "room"), f"seq long, id string, {values}"
        ),
        "profiles": session.createDataFrame(
            profiles,
            "seq long, op string, id string, context string, condition string, dialect string",
        ),
        "updates": session.createDataFrame(
            rows(["update"], "seq", "id", "n", "room"), f"seq long, context string, {values}"
        ),
    }


@pytest.mark.parametrize(("seed", "shards"), [(2, 3), pytest.param(1, 1, marks=pytest.mark.long)])
def test_a_batch(session, seed, shards):
    events = life(seed)
    expected, refused = embedded(events)
    assert len(expected) > 20
    assert refused
    done = spark.play(spark.Inputs(**inputs(session, events)), shards)
    assert sorted((r.seq, r.profile) for r in done.deliveries.collect()) == expected
    assert sorted(r.seq for r in done.rejected.collect()) == refused


@pytest.mark.long
def test_a_stream(session, tmp_path):
    """Over a restart: what a shard keeps of a profile has its dialect."""
    events = life(3)
    expected, refused = embedded(events)
    frames = inputs(session, events)
    streams = {}
    for name, frame in frames.items():
        (tmp_path / name).mkdir()
        streams[name] = session.readStream.schema(frame.schema).parquet(str(tmp_path / name))
    for low, high in ((0, 60), (60, 999)):
        for name, frame in frames.items():
            part = frame.where(f"seq > {low} AND seq <= {high}").coalesce(1)
            part.write.mode("append").parquet(str(tmp_path / name))
        query = spark.stream(
            **streams, checkpoint=tmp_path / "checkpoint", sink=tmp_path / "out", shards=2,
            trigger={"availableNow": True},
        )  # fmt: skip
        query.awaitTermination()
    found = session.read.parquet(str(tmp_path / "out")).select("seq", "profile").collect()
    assert sorted(map(tuple, found)) == expected
    assert sorted(r.seq for r in query.dead_letters().collect()) == refused
