"""Kernels are there before the first who come: what a rehearsal has called, they call."""

import subprocess
import sys
from types import SimpleNamespace

import msgspec
import pytest

pytest.importorskip("sqlalchemy")

FIRST_STEPS = """
import sys
from germane.filter.warming import compile_sweep, is_compiled
from germane.kernels.sweep import sweep
compile_sweep()
assert is_compiled()
from germane.service.tenant import Tenant
from germane.service.log import Stored
from germane.service.warming import begin
import msgspec

def forms():
    kernels = [m for n, m in list(sys.modules.items()) if n.startswith("germane.kernels.")]
    return {
        f"{k.__name__}.{n}": len(f.signatures)
        for k in kernels for n, f in vars(k).items() if hasattr(f, "signatures")
    }

begin()
assert len(sweep.signatures) == 1, "the helper compiles another sweep than the matcher calls"
before = forms()
tenant = Tenant(1, "agile", lambda number, numbers: {})
seq = 0
for kind, body in msgspec.json.decode(sys.stdin.buffer.read()):
    seq += 1
    step = tenant.play([Stored(seq, 0, 1, kind, msgspec.json.encode(body), 1)])
    assert not step.dead, step.dead
print(sum(len(m.seqs) for m in step.matched), {
    name: n for name, n in forms().items() if n != before.get(name, 0)
})
"""


def test_first_steps_call_what_was_rehearsed(compiled):
    """The README's first page, an update and a condition on a context: no other kernel."""
    subscribe = {"id": "s", "subscriber": "ann", "context": "ann"}
    talk = {"id": "1", "type": "talk", "source": "/me", "data": {"start": 16}}
    update = {"id": "2", "type": "germane.context.patch", "subject": "ann", "data": {"last": 17}}
    steps = [
        ("subscribe", {**subscribe, "condition": "type = 'talk' AND start < 17"}),
        ("events", [talk]),
        ("events", [update]),
        ("subscribe", {**subscribe, "id": "t", "condition": "start < context.last"}),
        ("events", [talk]),
    ]
    done = subprocess.run(
        [sys.executable, "-c", FIRST_STEPS], input=msgspec.json.encode(steps), capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().split(maxsplit=1) == ["2", "{}\n"]


@pytest.mark.parametrize("part", ["graphs", "places", "documents", "addresses"])
def test_parts_are_right(part):
    """A rehearsal that is refused, or delivers nothing, warms nothing."""
    from germane.service.warming import rehearse

    assert rehearse(part)


@pytest.mark.parametrize("installed", [True, False])
def test_a_part_without_its_package_is_passed_over(installed, monkeypatch):
    """A newcomer, whose demo needs no lxml, was warned of documents."""
    from germane.service import warming

    told = []
    journal = SimpleNamespace(warning=lambda *_, part, error: told.append(part))
    monkeypatch.setattr(warming, "journal", journal)
    monkeypatch.setattr("germane.service.processes.follow", lambda parent: None)
    monkeypatch.setattr(warming, "rehearse", lambda part: 1 / 0)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if installed else None)
    warming.main("documents")
    assert told == (["documents"] if installed else [])


def test_readiness_tells_what_is_waited_for(tmp_path):
    """Not "busy", and at once, while kernels are compiled; a question of another kind waits."""
    from germane.service.questions import Questions

    questions = Questions(tmp_path / "socket")
    questions.starting = "compiling kernels, the first time only"
    try:
        said = questions._ask({"ask": "ready", "tenant": 1})
        assert said["status"] == 503
        assert "compiling kernels" in said["error"]
    finally:
        questions.close()


def test_indexes_can_wait(early_indexes):
    """While they are postponed everything is swept, with the same answers; then they are built."""
    import germane

    eager, later = germane.Filter(), germane.Filter()
    later.postpone_indexes()
    messages = [{"x": float(i % 60)} for i in range(100)]
    for f in (eager, later):
        f.subscribe_many(list(range(64)), ["x < context.low"] * 64, list(range(64)))
        f.update_many(list(range(64)), "low", [float(i) for i in range(64)])
    inside = []
    for postponed in (True, False):
        later.postpone_indexes(postponed)
        for f in (eager, later):
            f.update(5, {"low": 30.0 if postponed else 3.0})
        expected = [
            [p for p in range(64) if m["x"] < (p if p != 5 else 30 - 27 * (not postponed))]
            for m in messages
        ]
        assert later.match_many(messages).by_message() == expected
        assert [later.match(m) for m in messages] == expected
        assert [eager.match(m) for m in messages] == expected
        inside.append(sum(table.n_inside for table in later._tables.tables))
    assert inside == [0, 64]


def test_an_answer_that_comes_too_late_is_nobody_elses(tmp_path, monkeypatch):
    """Who has waited too long is told so, and the next one gets the answer to its own question."""
    import asyncio

    from germane.service.api import state
    from germane.service.settings import Settings

    monkeypatch.setattr(state, "ANSWER_S", 0.2)
    settings = Settings(data=str(tmp_path))

    async def matcher(reader, writer):
        while line := await reader.readline():
            asked = msgspec.json.decode(line)
            await asyncio.sleep(asked["takes"])
            writer.write(msgspec.json.encode({"answer": asked["takes"]}) + b"\n")

    async def ask():
        async with await asyncio.start_unix_server(matcher, settings.socket):
            line = state.Line(settings)
            late = asyncio.create_task(line.ask({"takes": 0.4}))
            behind = asyncio.create_task(line.ask({"takes": 0.3}))
            said = [await late, await behind]
            monkeypatch.setattr(state, "ANSWER_S", 60.0)
            said.append(await line.ask({"takes": 0.0}))
            line.close()
            return said

    busy = {"error": "the matcher is busy", "status": 503}
    assert asyncio.run(ask()) == [busy, busy, {"answer": 0.0}]
