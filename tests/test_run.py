"""`germane run`: the example does what it says, and mistakes are told without a trace."""

import json
import shutil
from pathlib import Path

import pytest

import germane

pytest.importorskip("germane.spark")
pytest.importorskip("typer")

from typer.testing import CliRunner

from germane.cli.app import app

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]  # one session, one process
EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"


@pytest.fixture
def example(tmp_path):
    shutil.copytree(EXAMPLES, tmp_path / "e")
    return tmp_path / "e"


def rows(path):
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def embedded(talks):
    """What one filter delivers of the example's files."""
    schema = {"building": "string", "topic": "string", "title": "string"}
    schema |= {"hour": "number", "unread": "number", "last": "number"}
    f = germane.Filter(schema=schema)
    for row in rows(talks / "contexts.jsonl"):
        f.update(row.pop("id"), row)
    for row in rows(talks / "profiles.jsonl"):
        try:
            f.subscribe(row["id"], row["condition"], row.get("context"))
        except germane.GermaneError:
            assert row["id"] == "typo"
    events = [{"kind": "message", **row} for row in rows(talks / "messages") if "seq" in row]
    for row in rows(talks / "updates"):
        events.append({"kind": "update", "id": row.pop("context"), **row})
    done = f.process(sorted(events, key=lambda event: event["seq"]))
    found = done.to_arrow().select(["seq", "message", "profile"]).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def delivered(session, path):
    frame = session.read.parquet(str(path)).select("seq", "message", "profile")
    return sorted(map(tuple, frame.collect()))


def run(*arguments):
    done = CliRunner().invoke(app, ["run", *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_the_example_runs_and_goes_on(session, example):
    done = run(example / "pipeline.toml", "--once")
    assert done.exit_code == 0, done.stderr
    assert delivered(session, example / "out" / "deliveries") == embedded(example / "talks")
    reasons = [
        row.reason for row in session.read.parquet(str(example / "out/dead_letters")).collect()
    ]
    assert len(reasons) == 2
    for words in ("batch 0", "deliveries", "8", "rejected", "2", "out/deliveries"):
        assert words in done.stderr
    late = {"seq": 8, "id": "talk-6", "topic": "databases", "building": "Mars", "hour": 9}
    (example / "talks" / "messages" / "wednesday.jsonl").write_text(json.dumps(late) + "\n")
    assert run(example / "pipeline.toml", "--once").exit_code == 0
    found = delivered(session, example / "out" / "deliveries")
    assert found == [*embedded(example / "talks")]
    assert found[-1] == (8, "talk-6", "cleo-topics")


def test_the_same_as_a_batch_once(session, example):
    text = (example / "pipeline.toml").read_text()
    lines = [line for line in text.splitlines() if not line.startswith(("checkpoint", "trigger"))]
    text = "\n".join(lines).replace('mode = "stream"', 'mode = "batch"').replace("static", "# ")
    (example / "batch.toml").write_text(text)
    done = run(example / "batch.toml")
    assert done.exit_code == 0, done.stderr
    assert delivered(session, example / "out" / "deliveries") == embedded(example / "talks")
    assert session.read.parquet(str(example / "out" / "dead_letters")).count() == 2
    again = run(example / "batch.toml")
    assert again.exit_code == 2
    assert "already exists" in again.stderr
    assert again.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("seq long, id string, title", "seq lng, id string, title", "[messages]: Unsupported"),
        ("seq long, id string, title", "sq long, id string, title", "messages need the columns"),
        ('format = "json"', 'format = "jason"', "[messages]: Failed to find the data"),
        ("options = {", 'columns = { seq = "nope" }\noptions = {', "[messages]: A column"),
        ("options = {", 'where = "1 +"\noptions = {', "[messages]: Syntax error"),
    ],
)  # fmt: skip
def test_what_only_spark_can_tell(session, example, old, new, said):
    text = (example / "pipeline.toml").read_text().replace(old, new, 1)
    (example / "p.toml").write_text(text)
    done = run(example / "p.toml", "--once")
    assert done.exit_code == 2
    assert f"p.toml: {said}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_sink_that_fails_is_told(session, example):
    pytest.importorskip("sqlalchemy")
    text = (example / "pipeline.toml").read_text()
    text = text.replace('kind = "parquet"', 'kind = "sql"')
    text = text.replace('path = "out/deliveries"', 'url = "sqlite:////no/such/folder/a.db"')
    (example / "p.toml").write_text(text)
    done = run(example / "p.toml", "--once")
    assert done.exit_code == 1
    assert "The stream failed: " in done.stderr
    assert "unable to open database file" in done.stderr
    assert "Traceback" not in done.stderr


def test_deliveries_into_a_database(session, example):
    sql = pytest.importorskip("sqlalchemy")
    text = (example / "pipeline.toml").read_text()
    text = text.replace('kind = "parquet"', 'kind = "sql"\ntable = "told"')
    text = text.replace('path = "out/deliveries"', 'url = "sqlite:///told.db"')
    (example / "p.toml").write_text(text)
    assert run(example / "p.toml", "--once").exit_code == 0
    engine = sql.create_engine(f"sqlite:///{example / 'told.db'}")
    with engine.connect() as connection:
        found = connection.execute(sql.text("SELECT seq, message, profile FROM told")).all()
    engine.dispose()
    assert sorted(map(tuple, found)) == embedded(example / "talks")


def test_the_command_says_it_without_a_trace(tmp_path):
    (tmp_path / "p.toml").write_text("[pipeline]\nshard = 2\n")
    done = CliRunner().invoke(app, ["run", str(tmp_path / "p.toml")])
    assert done.exit_code == 2
    assert "section [messages] is missing" in done.stderr
    assert done.stderr.count("\n") == 1


def test_inputs_of_one_source_are_read_by_one(session, example, monkeypatch):
    """Two would be asked one after the other how far the log has come."""
    from germane.spark import pipelines

    file = example / "pipeline.toml"
    text = file.read_text().replace('path = "talks/updates"', 'path = "talks/messages"')
    said = 'schema = "seq long, context string, building string, unread double, last double"'
    same = (
        'schema = "seq long, id string, title string, topic string, building string, hour double"'
    )
    assert said in text
    file.write_text(text.replace(said, f'{same}\ncolumns = {{ seq = "seq", context = "id" }}'))
    opened = []
    real = pipelines._open
    monkeypatch.setattr(pipelines, "_open", lambda *a: opened.append(a[0]) or real(*a))
    inputs = pipelines.open_inputs(pipelines.read(file), session)
    assert len(opened) == 3  # messages and updates, profiles, contexts
    assert inputs.updates.columns == ["seq", "context"]
    assert "title" in inputs.messages.columns


def test_a_password_is_not_printed():
    from types import SimpleNamespace

    from germane.cli.run import _places

    pipeline = SimpleNamespace(
        sink={"url": "postgresql+psycopg://me:se:cr@t@db/x"}, dead_letters=None, checkpoint=None
    )
    assert _places(pipeline) == {"deliveries are in": "postgresql+psycopg://me:***@db/x"}
