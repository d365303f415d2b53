"""`germane replay`, `deadletters`, `doctor` on an installation that has lived."""

import random
import re

import pytest
import service_oracle
from service_kit import Kit, message, random_step
from typer.testing import CliRunner

from germane.cli.app import app
from germane.service import tables

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.usefixtures("compiled")]
PEOPLE = ["ann", "bob"]


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture
def kit(tmp_path):
    made = Kit(tmp_path)
    tmp_path.chmod(0o700)
    choose, ids = random.Random(3), []
    for _ in range(80):
        made.append(1, *random_step(choose, PEOPLE, ids))
        if choose.random() < 0.2:
            made.work()
    made.work()
    yield made
    made.close()


def test_replay_finds_everything_as_recorded(kit, tmp_path):
    for begin in (1, 100):
        answer = run("replay", "--data", tmp_path, "--from", begin)
        assert answer.exit_code == 0, answer.output
        assert "as recorded" in answer.output


def test_replay_finds_what_is_missing_and_what_is_too_many(kit, tmp_path):
    d = tables.deliveries
    [first, *_] = kit.rows(d)
    with tables.writing(kit.engine) as connection:
        connection.execute(d.delete().where(d.c.id == first.id))
        row = (1, 10_000, first.subscriber, first.seq - 1, 0, 0, None, "[0]")
        tables.insert_rows(connection, d, [row])
    answer = run("replay", "--data", tmp_path)
    assert answer.exit_code == 1
    assert f"missing: message {first.seq} " in answer.output
    assert f"surplus: message {first.seq - 1} " in answer.output


@pytest.mark.parametrize("begin", [1, 77, 150])
@pytest.mark.parametrize("saved", [False, True])
def test_rebuild_delivers_again_what_the_log_says(kit, tmp_path, begin, saved):
    if saved:
        kit.matcher.save_all()
    expected = service_oracle.play(kit.log)[1]
    before = {row.id for row in kit.rows(tables.deliveries)}
    answer = run("replay", "--data", tmp_path, "--from", begin, "--rebuild")
    assert answer.exit_code == 0, answer.output
    assert all(seq < begin for seq, _ in kit.pairs())
    left = {row.id for row in kit.rows(tables.deliveries)}
    kit.new_matcher()
    kit.work()
    assert kit.pairs() == expected.deliveries
    assert {row.seq for row in kit.rows(tables.deadletters)} == expected.dead
    again = {row.id for row in kit.rows(tables.deliveries)} - left
    assert again.isdisjoint(before)  # or who has read so far would not hear of them
    active = {row.id for row in kit.rows(tables.subscriptions) if row.state == "active"}
    assert active == expected.subscriptions.keys()


def test_rebuild_is_refused_while_the_matcher_runs(kit, tmp_path):
    from germane.service.processes import alone

    lock = alone(kit.settings, "matcher")
    answer = run("replay", "--data", tmp_path, "--rebuild")
    assert answer.exit_code == 2
    assert "stop it first" in answer.output
    lock.close()


def test_deadletters(kit, tmp_path):
    answer = run("deadletters", "--data", tmp_path)
    assert answer.exit_code == 0
    ids = re.findall(r"^ ?(e\d+)", answer.output, re.MULTILINE)
    assert len(ids) == min(len(kit.rows(tables.deadletters)), 50) > 0
    kit.publish(message("dead", n="a word"))
    kit.work()
    last = kit.rows(tables.deadletters)[-1]
    answer = run("deadletters", "--data", tmp_path, "--redrive", f"e{last.id}")
    assert answer.exit_code == 0, answer.output
    kit.work()
    again = kit.rows(tables.deadletters)
    assert again[-2].redriven == again[-1].seq
    assert run("deadletters", "--data", tmp_path, "--redrive", "e9999").exit_code == 1


def test_doctor(kit, tmp_path):
    answer = run("doctor", "--data", tmp_path)
    assert answer.exit_code == 1  # nothing runs, and there are dead letters
    assert "✗ the matcher is not running → germane serve" in answer.output
    assert "✓ log.db is sound" in answer.output
    assert "tenant 1: matched up to" in answer.output
    assert "there is no" in run("doctor", "--data", tmp_path / "nowhere").output


@pytest.mark.parametrize(
    "arguments",
    [
        ["--port", "99999999"],
        ["--allow-sink", "everywhere"],
        ["--log", "kafka://x"],
        ["--matcher", "flink"],
        ["--retention", "3", "--matcher", "spark"],
    ],
)
def test_serve_says_what_is_wrong(tmp_path, arguments):
    answer = run("serve", "--data", tmp_path, *arguments)
    assert answer.exit_code == 2
    assert arguments[0] in answer.output
