"""`germane learn`: the interests that Spark finds in tables are those that were learned online."""

import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import germane
from germane.agent import Agent
from germane.agent.learning import TOLERANCE, interests_of, learn

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]
TOPICS = [
    ("Top", "Sports"),
    ("Sports", "Baseball"),
    ("Sports", "Tennis"),
    ("Top", "Music"),
    ("Music", "Jazz"),
    ("Music", "Opera"),
    ("Top", "News"),
    ("News", "Tax"),
]
PLACES = [("World", "US"), ("US", "US/Boston"), ("World", "JP")]


def history(seed, n=400):
    """What three people did, as rows in the order of time."""
    draw = random.Random(seed)
    likes = {"ann": {"Jazz", "Tennis"}, "bob": {"Tax"}, "eve": set()}
    rows = []
    for i in range(n):
        user = draw.choice(sorted(likes))
        topics = draw.sample([child for _, child in TOPICS], draw.randint(1, 2))
        context = {
            "task": draw.choice(["work", "lunch"]),
            "place": draw.choice(["US/Boston", "JP"]),
        }
        good = bool(likes[user] & set(topics)) and context["task"] == "lunch"
        kind = draw.choice(["kept", "opened"]) if good else draw.choice(["dismissed", "less"])
        seconds = draw.choice([None, draw.uniform(0, 60)]) if kind == "opened" else None
        rows.append(
            {
                "delivery": i,
                "user": user,
                "message": f"m{i}",
                "topic": topics,
                "context": context,
                "kind": kind,
                "seconds": seconds,
                "at": 1e9 + i,
            }
        )
    return rows


def online(rows):
    """Rules of agents that saw the rows one by one."""
    topics = germane.ContentGraph.from_edges(TOPICS)
    places = germane.ContentGraph.from_edges(PLACES)
    agents = {}
    for row in rows:
        agent = agents.setdefault(row["user"], Agent(row["user"], topics, places))
        message = {"id": row["message"], "topic": row["topic"]}
        agent.feedback(message, row["kind"], row["seconds"], context=row["context"], at=row["at"])
    return {
        (user, rule.topic, rule.cell): rule
        for user, agent in agents.items()
        for rule in agent.interests.table()
    }


def tables(rows):
    """Deliveries and feedback, in an order of their own."""
    deliveries = [
        {k: r[k] for k in ("delivery", "user", "message", "topic")}
        | {"context": list(r["context"].items())}
        for r in rows
    ]
    said = [{k: r[k] for k in ("delivery", "kind", "seconds", "at")} for r in rows]
    random.Random(2).shuffle(deliveries)
    random.Random(3).shuffle(said)
    strings = pa.map_(pa.string(), pa.string())
    schema = pa.schema(
        [
            ("delivery", pa.int64()),
            ("user", pa.string()),
            ("message", pa.string()),
            ("topic", pa.list_(pa.string())),
            ("context", strings),
        ]
    )
    return pa.Table.from_pylist(deliveries, schema), pa.Table.from_pylist(said)


def same(found, wanted):
    assert found.keys() == wanted.keys()
    for key, row in found.items():
        rule = wanted[key]
        assert row["probability"] == pytest.approx(rule.probability, abs=TOLERANCE)
        assert (row["liked"], row["seen"], row["kept"]) == (rule.liked, rule.seen, rule.kept)


def keyed(rows):
    return {(r["user"], r["topic"], tuple(sorted(dict(r["context"]).items()))): r for r in rows}


def test_spark_learns_what_was_learned_online(session):
    rows = history(5)
    deliveries, said = (session.createDataFrame(table) for table in tables(rows))
    junk = session.createDataFrame(
        [(3, "shrugged", 1.0, 0.0), (10**6, "kept", 1.0, 0.0)],
        "delivery long, kind string, seconds double, at double",
    )
    found = learn(
        deliveries,
        said.unionByName(junk),
        germane.ContentGraph.from_edges(TOPICS),
        germane.ContentGraph.from_edges(PLACES),
    )
    wanted = online(rows)
    assert any(user == "ann" and rule.probability > 0.4 for (user, *_), rule in wanted.items())
    same(keyed([row.asDict() for row in found.collect()]), wanted)


def test_missing_columns_are_named(session):
    frame = session.createDataFrame([(1,)], "delivery long")
    with pytest.raises(germane.InvalidValue, match="user, message, topic, context"):
        learn(frame, frame, germane.ContentGraph.from_edges(TOPICS))


def test_contexts_and_topics_as_json_are_the_same():
    rows = history(6, 60)
    mine = [r for r in rows if r["user"] == "ann"]
    texts = [
        r | {"topic": json.dumps(r["topic"]), "context": json.dumps(r["context"])} for r in mine
    ]
    graph = germane.ContentGraph.from_edges(TOPICS)
    plain = [r | {"context": list(r["context"].items())} for r in mine]

    class Rows(list):
        def to_pylist(self):
            return list(self)

    assert (
        interests_of(Rows(texts), graph, {}).table() == interests_of(Rows(plain), graph, {}).table()
    )


def test_the_command_reads_parquet_and_sql(session, tmp_path):
    typer_testing = pytest.importorskip("typer.testing")
    sqlalchemy = pytest.importorskip("sqlalchemy")
    from germane.cli.app import app

    rows = history(7, 120)
    deliveries, said = tables(rows)
    (tmp_path / "deliveries").mkdir()
    pq.write_table(deliveries, tmp_path / "deliveries" / "a.parquet")
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/service.db")
    with engine.begin() as connection:
        connection.execute(
            sqlalchemy.text(
                "CREATE TABLE feedback (delivery INTEGER, kind TEXT, seconds REAL, at REAL)"
            )
        )
        connection.execute(
            sqlalchemy.text("INSERT INTO feedback VALUES (:delivery, :kind, :seconds, :at)"),
            said.to_pylist(),
        )
    for name, links in (("topics", TOPICS), ("places", PLACES)):
        text = "parent,child\n" + "".join(f"{a},{b}\n" for a, b in links)
        (tmp_path / f"{name}.csv").write_text(text)
    out = tmp_path / "learned"
    arguments = [
        "learn",
        str(tmp_path / "deliveries"),
        f"sqlite:///{tmp_path}/service.db#feedback",
        "--topics",
        str(tmp_path / "topics.csv"),
        "--places",
        str(tmp_path / "places.csv"),
        "--out",
        str(out),
    ]
    runner = typer_testing.CliRunner()
    done = runner.invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "of 3 people" in done.output or "of 2 people" in done.output
    same(keyed(pq.read_table(out).to_pylist()), online(rows))
    again = runner.invoke(app, arguments)
    assert again.exit_code == 2
    assert "there already" in again.output
