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

    assert (
        interests_of(Rows(texts), graph, {}).table() == interests_of(Rows(plain), graph, {}).table()
    )


@pytest.mark.parametrize("topic", ["Jazz", "[WIP]", "[", "", None, "[" * 100_000, "[Jazz", "[]"])
@pytest.mark.parametrize("message", ["m", "", None])
def test_odd_topics_and_no_id_are_in_tables_what_they_are_online(topic, message):
    graph = germane.ContentGraph.from_edges([*TOPICS, ("Top", "[WIP]")])
    agent = Agent("ann", graph)
    rows = []
    for i in range(10):
        row = {"delivery": i, "message": message, "topic": topic if i % 2 else "Opera",
               "context": "{}", "kind": "kept", "at": float(i)}  # fmt: skip
        rows.append(row)
        said = {"topic": [] if topic == "[]" and i % 2 else row["topic"]}
        if message is not None:
            said["id"] = message
        agent.feedback(said, "kept", context={}, at=row["at"])
    found = interests_of(Rows(rows), graph, {})
    assert found.table() == agent.interests.table()
    assert found.pieces == agent.interests.pieces
    seen = {rule.seen for rule in found.table() if rule.topic == "Opera"}
    assert seen == {1 if message == "m" else 5}


class Rows(list):
    def to_pylist(self):
        return list(self)


def test_the_order_of_rows_does_not_matter_where_times_tie():
    graph = germane.ContentGraph.from_edges(TOPICS)
    rows = [r | {"at": 5.0 + r["delivery"] // 40} for r in history(8, 120) if r["user"] == "ann"]
    agent = Agent("ann", graph)
    for row in rows:
        message = {"id": row["message"], "topic": row["topic"]}
        agent.feedback(message, row["kind"], row["seconds"], context=row["context"], at=row["at"])
    both = rows + [r | {"kind": "kept", "seconds": None} for r in rows if r["kind"] == "opened"]
    found = []
    for of in (rows, both, [r | {"delivery": str(r["delivery"])} for r in both]):
        tables = [interests_of(Rows(random.Random(i).sample(of, len(of))), graph, {}).table()
                  for i in range(10)]  # fmt: skip
        assert all(table == tables[0] for table in tables)
        found.append(tables[0])
    assert found[0] == agent.interests.table()  # deliveries are numbered as she got them
    assert found[1] == found[2]  # also where the numbers are texts


def test_yes_and_no_are_spelled_alike_in_tables_and_online():
    graph = germane.ContentGraph.from_edges(TOPICS)
    row = {"delivery": 1, "message": "m", "topic": "Jazz", "kind": "kept", "at": 1.0}
    spelled = [[("muted", "true")], '{"muted": true}', {"muted": True}, {"muted": "True"}]
    tables = [
        interests_of(Rows([row | {"context": context}] * 6), graph, {}).table()
        for context in spelled
    ]
    assert any(rule.cell == (("muted", "True"),) for rule in tables[0])
    assert all(table == tables[0] for table in tables)
    old = {"user": "ann", "pieces": [["m", ["Jazz"], [["muted", "true"]], "kept", None, 0.0]]}
    assert Agent("ann", graph, state=old).interests.pieces[0].context == (("muted", "True"),)


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


def service_of(rows, tmp_path):
    """The address of a service's database whose agents saw the rows."""
    pytest.importorskip("sqlalchemy")
    from germane.service import tables as stored

    topics, places = (germane.ContentGraph.from_edges(links) for links in (TOPICS, PLACES))
    agents = {}
    for row in rows:
        agent = agents.setdefault(row["user"], Agent(row["user"], topics, places))
        message = {"id": row["message"], "topic": row["topic"]}
        agent.feedback(message, row["kind"], row["seconds"], context=row["context"], at=row["at"])
    address = f"sqlite:///{tmp_path}/service.db"
    engine = stored.open_store(address)
    with stored.writing(engine) as connection:
        for number, name in ((1, "default"), (2, "other")):
            connection.execute(stored.tenants.insert().values(id=number, name=name, created=0))
        for name, links in (("topic", TOPICS), ("place", PLACES)):
            connection.execute(
                stored.graphs.insert().values(
                    tenant=1, attribute=name, attributes="[]", edges=json.dumps(links)
                )
            )
        for user, agent in agents.items():
            state = json.dumps(agent.state())
            connection.execute(
                stored.agents.insert().values(tenant=1, subscriber=user, active=True, state=state)
            )
    engine.dispose()
    return address


def test_the_command_reads_a_services_database(session, tmp_path):
    """Also where some of it was said offline, and arrived later than it was said."""
    typer_testing = pytest.importorskip("typer.testing")
    from germane.cli.app import app

    rows = history(8, 120)
    for row in rows[40:60]:
        row["at"] -= 1000.0
    address = service_of(rows, tmp_path)
    out = tmp_path / "learned"
    runner = typer_testing.CliRunner()
    done = runner.invoke(app, ["learn", address, "--out", str(out)])
    assert done.exit_code == 0, done.output
    same(keyed(pq.read_table(out).to_pylist()), online(rows))
    for wrong, said in (
        ([address, "--tenant", "nobody"], "['default', 'other']"),
        ([address, "--tenant", "other"], "no graph of topics"),
        ([f"sqlite:///{tmp_path}/none.db"], "there is no file"),
        (["deliveries/"], "needs a second table"),
        (["deliveries/", "feedback/"], "--topics"),
        (["nonsense://here"], "nonsense"),
    ):
        done = runner.invoke(app, ["learn", *wrong, "--out", str(tmp_path / "other")])
        assert done.exit_code == 2
        assert said in " ".join(done.output.split())
    assert not (tmp_path / "none.db").exists()
