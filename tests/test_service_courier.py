"""The courier by hand, with a clock to turn: what is sent when, in which order."""

import asyncio
import json
from dataclasses import replace

import httpx
import pytest
from service_kit import Kit, message

from germane.service import tables
from germane.service.courier import Courier
from germane.service.reader import Reader

pytestmark = pytest.mark.xdist_group("service")


class Sink:
    """A sink that answers as it is told, and its courier."""

    def __init__(self, kit: Kit, *answers: int) -> None:
        self.asked: list[int] = []
        self.answers = list(answers)
        settings = replace(kit.settings, allow_sinks=("127.0.0.1/32",))
        reader, transport = Reader(kit.log, kit.engine), httpx.MockTransport(self._answer)
        self.courier = Courier(settings, kit.engine, reader, kit.clock, transport)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(json.loads(request.content)["data"]["id"])
        return httpx.Response(self.answers.pop(0) if self.answers else 204)

    def work(self) -> None:
        """Send what is due."""

        async def send():
            for key in self.courier.due_sinks():
                await self.courier._work(*key)

        asyncio.run(send())


@pytest.fixture
def kit(tmp_path):
    made = Kit(tmp_path)
    made.subscribe("a", "n > 0", sink="http://127.0.0.1/hook")
    yield made
    made.close()


def test_what_comes_behind_a_failure_waits_with_it(kit):
    """A sink gets its deliveries in their order, and is left in peace while it fails."""
    sink = Sink(kit, 500)
    for _ in range(3):
        kit.publish(message(n=1))
        kit.work()
        sink.work()
        assert sink.asked == [1]
        assert sink.courier.due_sinks() == []
    kit.clock.turn(2)
    sink.work()
    assert sink.asked == [1, 1, 2, 3]


@pytest.mark.parametrize("wishes", [{}, {"digest": {"count": 2}}])
def test_what_the_log_has_forgotten_is_dead_and_not_sent(kit, wishes):
    """A sink that was away for longer than the retention is told nothing instead of nothings."""
    kit.prefer("ann", **wishes)
    seq = kit.publish(message(n=1), message(n=1))
    kit.work()
    kit.log.trim(seq + 2)  # all but the last entry
    kit.publish(message(n=0))
    kit.log.trim(seq + 2)
    sink = Sink(kit)
    sink.work()
    assert sink.asked == []
    rows = kit.rows(tables.outbox)
    assert {(row.state, row.failure) for row in rows} == {
        ("dead", "the log does not have its message any more")
    }
    assert len(rows) == (1 if wishes else 2)
