"""Content graphs on Spark: nodes in messages, contexts and updates, over shards and restarts."""

import random

import pytest
from naive import NaiveFilter
from naive_graphs import NaiveGraph
from test_stream import NOW

import germane

spark = pytest.importorskip("germane.spark")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]

LINKS = [
    ("All", "Sports"), ("All", "Science"), ("Sports", "Baseball"), ("Sports", "Chess"),
    ("Science", "Maths"), ("Science", "Chess"), ("Maths", "Logic"), ("Logic", "Maths"),
]  # fmt: skip
NODES = sorted({name for link in LINKS for name in link})
SCHEMA = {"topic": "category", "x": "number"}
CONDITIONS = [
    "topic WITHIN 'Sports'", "topic WITHIN context.topic", "topic CONTAINS context.topic AND x > 2",
    "topic WITHIN ('Maths', 'Baseball') OR x > context.x", "topic WITHIN 'Nowhere'",
]  # fmt: skip


def nodes(pick):
    return pick.sample(NODES, pick.randrange(1, 3)) if pick.random() < 0.8 else None


def draw(seed, n=120):
    pick = random.Random(seed)
    contexts = [(f"c{i}", nodes(pick), float(pick.randrange(5))) for i in range(5)]
    profiles = [(f"p{i}", f"c{i % 6}", pick.choice(CONDITIONS)) for i in range(15)]
    messages, updates = [], []
    for seq in range(n):
        if pick.random() < 0.5:
            wrong = ["Nothing"] if pick.random() < 0.1 else None
            messages.append((seq, f"m{seq}", wrong or nodes(pick), float(pick.randrange(5))))
        else:
            updates.append((seq, f"c{pick.randrange(6)}", nodes(pick), None))
    return contexts, profiles, messages, updates


def played(contexts, profiles, messages, updates):
    """What one filter and the oracle deliver; what is rejected."""
    f = germane.Filter(schema=SCHEMA, graphs={"topic": germane.ContentGraph.from_edges(LINKS)})
    oracle = NaiveFilter(schema={"x": "number"}, graphs={"topic": NaiveGraph(LINKS)})
    for made in (f, oracle):
        for name, topic, x in contexts:
            made.update(name, {"topic": topic, "x": x})
        for name, context, condition in profiles:
            if "Nowhere" not in condition:
                made.subscribe(name, condition, context)
    events = [
        {"seq": row[0], "kind": kind, "id": row[1], "topic": row[2], "x": row[3]}
        for kind, rows in (("message", messages), ("update", updates))
        for row in rows
    ]
    events = [
        {n: v for n, v in e.items() if v is not None}
        for e in sorted(events, key=lambda e: e["seq"])
    ]
    done = f.process(events)
    found = [(r["seq"], r["message"], r["profile"]) for r in done.to_arrow().to_pylist()]
    expected, malformed = oracle.process(events)
    assert sorted(found) == sorted(expected)
    rejected = sorted(r.seq for r in done.rejected)
    assert rejected == sorted(events[position]["seq"] for position, _ in malformed)
    owners = {name: context for name, context, _ in profiles}
    return sorted((*row, owners[row[2]]) for row in found), rejected


def frames(session, contexts, profiles, messages, updates):
    topics = "topic array<string>, x double"
    return {
        "messages": session.createDataFrame(messages, f"seq long, id string, {topics}"),
        "profiles": session.createDataFrame(
            profiles, "id string, context string, condition string"
        ),
        "contexts": session.createDataFrame(contexts, f"id string, {topics}"),
        "updates": session.createDataFrame(updates, f"seq long, context string, {topics}"),
    }


@pytest.fixture(scope="module")
def graphs():
    return {"topic": germane.ContentGraph.from_edges(LINKS)}


@pytest.mark.parametrize(("seed", "shards"), [(1, 1), (2, 3)])
def test_batch(session, graphs, seed, shards):
    work = draw(seed)
    expected, rejected = played(*work)
    assert len(expected) > 40
    assert rejected
    inputs = frames(session, *work)
    found = spark.match(**inputs, shards=shards, graphs=graphs)
    assert sorted(map(tuple, found.collect())) == expected
    letters = spark.play(spark.Inputs(**inputs), shards, graphs=graphs).rejected.collect()
    assert sorted(r.seq for r in letters if r.seq is not None) == rejected
    refused = [p for p, _, condition in work[1] if "Nowhere" in condition]
    assert len([r for r in letters if r.seq is None]) == len(refused)
    ready = spark.prepare(**inputs, shards=shards, graphs=graphs)
    found = ready.match(inputs["messages"], inputs["updates"])
    assert sorted(map(tuple, found.collect())) == expected


def test_one_node_may_be_a_string(session, graphs):
    messages = session.createDataFrame(
        [(1, "a", "Chess"), (2, "b", None), (3, "c", "Logic")], "seq long, id string, topic string"
    )
    profiles = session.createDataFrame(
        [("p", "topic WITHIN 'Sports'"), ("q", "topic WITHIN 'Maths'")],
        "id string, condition string",
    )
    found = spark.match(messages, profiles, shards=2, graphs=graphs).collect()
    assert sorted((r.message, r.profile) for r in found) == [("a", "p"), ("c", "q")]
    with pytest.raises(germane.GermaneError, match="nodes of a graph are"):
        spark.match(messages.withColumn("topic", messages.seq), profiles, graphs=graphs)


def test_restarts(session, graphs, tmp_path):
    """Snapshots hold nodes; another graph is another stream."""
    work = draw(4)
    expected, _ = played(*work)
    inputs = frames(session, *work)
    made = {name: inputs[name] for name in ("messages", "updates")}
    for first, last in ((0, 50), (50, 120)):
        for name, frame in made.items():
            part = frame.where(f"seq >= {first} AND seq < {last}").coalesce(1)
            part.write.mode("append").parquet(str(tmp_path / name))
            reader = session.readStream.schema(frame.schema)
            inputs[name] = reader.parquet(str(tmp_path / name))
        query = spark.stream(
            **inputs, checkpoint=tmp_path / "checkpoint", sink=tmp_path / "out", shards=2,
            trigger=NOW, graphs=graphs,
        )  # fmt: skip
        query.awaitTermination()
    columns = ("seq", "message", "profile", "context")
    found = session.read.parquet(str(tmp_path / "out")).select(*columns).collect()
    assert sorted(map(tuple, found)) == expected
    other = {"topic": germane.ContentGraph.from_edges([*LINKS, ("Science", "Physics")])}
    with pytest.raises(germane.GermaneError, match="was started with graphs"):
        spark.stream(
            **inputs, checkpoint=tmp_path / "checkpoint", sink=tmp_path / "out", graphs=other
        )
