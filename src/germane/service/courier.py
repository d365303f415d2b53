"""The courier: sends what is in the outbox to webhooks, each sink on its own.

In: rows of ``outbox`` that wait and are due. Out: POSTs, one CloudEvent each; rows that are sent,
wait longer, or are dead. Every sink has one line, worked off in order; a sink that fails waits with
all that is behind it, and delays nobody else: an attempt has an end, however slowly a sink answers,
and there are lines that one tenant's sinks cannot take. A row is marked after the answer, so that a
crash in between sends it once more, under the same id: at least once, never lost.
"""

import asyncio
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

import httpx
import msgspec
import sqlalchemy as sa
import structlog

from germane.service import tables
from germane.service.clock import SECOND, Clock, now
from germane.service.delivering import DEAD, GONE, SENT, WAITING
from germane.service.gauges import _replace
from germane.service.settings import Settings
from germane.service.sinks import Forbidden, resolve
from germane.service.webhooks import event_of, is_hollow

EVERY_S = 0.05
IDLE_S = 0.25
TIMEOUT_S = 10.0
"""What connecting, and each read, may take."""
TOTAL_S = 20.0
"""What an attempt may take: a sink that sends a line now and then is in time with every read."""
FIRST_S, LONGEST_S = 1.0, 3600.0
PAGE = 50
LINES = 64
"""Sinks that are sent to at the same time."""
LINES_OF_TENANT = 32

journal = structlog.get_logger("courier")


class Row(NamedTuple):
    """A row of the outbox."""

    tenant: int
    delivery: int
    sink: int
    attempts: int


class Courier:
    """One process's work."""

    def __init__(
        self,
        settings: Settings,
        engine: sa.Engine,
        api: Any,
        clock: Clock = now,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """``api`` shows deliveries with their events; ``transport`` is for tests."""
        self.settings = settings
        self.engine = engine
        self.api = api
        self.clock = clock
        self.transport = transport
        self.attempts: Counter[str] = Counter()
        self.stopping = False
        self._lines: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._random = random.Random()
        # Names are resolved apart: a name server that does not answer must not keep the store's
        # threads, and the resolution cannot be cancelled.
        self._resolving = ThreadPoolExecutor(LINES, "resolve")

    async def run(self) -> None:
        """Work until somebody says stop; what is on its way is finished."""
        written = 0
        while not self.stopping:
            try:
                started = await asyncio.to_thread(self.due_sinks)
                for key in started:
                    if key not in self._lines and self._has_room(key[0]):
                        task = asyncio.create_task(self._work(*key))
                        self._lines[key] = task
                        task.add_done_callback(partial(self._ended, key))
                if self.clock() - written > 2 * SECOND:
                    written = self.clock()
                    await asyncio.to_thread(self._write_gauges)
            except sa.exc.DBAPIError as error:
                journal.error("store_refused", error=str(error.orig))
                await asyncio.sleep(1.0)
            await asyncio.sleep(EVERY_S if self._lines else IDLE_S)
        if self._lines:
            await asyncio.wait(self._lines.values(), timeout=TIMEOUT_S)
        self._resolving.shutdown(wait=False, cancel_futures=True)

    def _ended(self, key: tuple[int, int], task: "asyncio.Task[None]") -> None:
        self._lines.pop(key, None)
        if not task.cancelled() and task.exception() is not None:
            journal.error("line_broke", sink=key, error=repr(task.exception()))

    def _has_room(self, tenant: int) -> bool:
        """Whether one more of a tenant's sinks may be sent to."""
        return len(self._lines) < LINES and tenant not in self._full()

    def _full(self) -> list[int]:
        """Tenants that have as many lines as one may have."""
        taken = Counter(tenant for tenant, _ in list(self._lines))
        return [tenant for tenant, n in taken.items() if n >= LINES_OF_TENANT]

    def due_sinks(self) -> list[tuple[int, int]]:
        """Sinks (tenant, number) for which something is due, of tenants that have lines left."""
        o = tables.outbox
        with self.engine.connect() as connection:
            found = connection.execute(
                sa.select(o.c.tenant, o.c.sink)
                .where(
                    o.c.state == WAITING, o.c.due <= self.clock(), o.c.tenant.not_in(self._full())
                )
                .distinct()
                .limit(10 * LINES)
            )
            return [(tenant, sink) for tenant, sink in found]

    async def _work(self, tenant: int, sink: int) -> None:
        """Work off a sink's line, until it is empty, not due or failing."""
        try:
            async with httpx.AsyncClient(
                timeout=TIMEOUT_S, follow_redirects=False, trust_env=False,
                transport=self.transport,
            ) as client:  # fmt: skip
                while not self.stopping:
                    url, rows = await asyncio.to_thread(self._page, tenant, sink)
                    if not rows:
                        return
                    for row in rows:
                        if self.stopping or not await self.send(client, url, row):
                            return
        except sa.exc.DBAPIError as error:
            journal.error("store_refused", error=str(error.orig))
            await asyncio.sleep(1.0)

    def _page(self, tenant: int, sink: int) -> tuple[str, list[Row]]:
        """The next rows of a sink; none if it is gone, and then all of them are dead, nor while the
        first of them waits to be tried again."""
        o, s = tables.outbox, tables.sinks
        moment = self.clock()
        with self.engine.connect() as connection:
            known = connection.execute(
                sa.select(s.c.url, s.c.state).where(s.c.tenant == tenant, s.c.id == sink)
            ).first()
            found = connection.execute(
                sa.select(o.c.tenant, o.c.delivery, o.c.sink, o.c.attempts, o.c.due)
                .where(o.c.tenant == tenant, o.c.sink == sink, o.c.state == WAITING)
                .order_by(o.c.delivery)
                .limit(PAGE)
            ).all()
        if known is None or known.state == GONE:
            with tables.writing(self.engine) as connection:
                self._bury(connection, tenant, sink, "the sink is gone; resume it first")
            return "", []
        due = list(takewhile(lambda row: row.due <= moment, found))
        if found and not due:
            self._line_up(tenant, sink)
        return known.url, [Row(*row[:4]) for row in due]

    def _line_up(self, tenant: int, sink: int) -> None:
        """What came behind a row that is to be tried again waits as long as that."""
        o = tables.outbox
        mine = (o.c.tenant == tenant, o.c.sink == sink, o.c.state == WAITING)
        first = sa.select(o.c.due).where(*mine).order_by(o.c.delivery).limit(1)
        with tables.writing(self.engine) as connection:
            due = connection.execute(first).scalar()
            connection.execute(sa.update(o).where(*mine, o.c.due < due).values(due=due))

    async def send(self, client: httpx.AsyncClient, url: str, row: Row) -> bool:
        """Try one row; whether the next one may be tried."""
        event = await asyncio.to_thread(event_of, self.api, row.tenant, row.delivery, row.sink)
        if event is None:
            await asyncio.to_thread(self._done, row, "the delivery is not there any more", GONE)
            return True
        if is_hollow(event):
            words = "the log does not have its message any more"
            await asyncio.to_thread(self._done, row, words, DEAD)
            return True
        try:
            async with asyncio.timeout(TOTAL_S):
                status = await self._post(client, url, event)
        except Forbidden as error:
            await asyncio.to_thread(self._done, row, str(error), DEAD)
            return True
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            late = isinstance(error, TimeoutError)
            words = f"no answer in {TOTAL_S:g} s" if late else f"{type(error).__name__}: {error}"
            await asyncio.to_thread(self._failed, row, words, None)
            return False
        if 200 <= status < 300:
            await asyncio.to_thread(self._done, row, None, SENT)
            return True
        if status == 410:
            await asyncio.to_thread(self._gone, row)
            return False
        words = f"the sink answered {status}"
        await asyncio.to_thread(self._failed, row, words, status)
        return False

    async def _post(self, client: httpx.AsyncClient, url: str, event: dict[str, Any]) -> int:
        """POST to the address that was checked; the name stays in Host and in TLS."""
        loop, allowed = asyncio.get_running_loop(), self.settings.allow_sinks
        target = await loop.run_in_executor(self._resolving, resolve, url, allowed)
        asked = httpx.URL(url)
        pinned = asked.copy_with(host=target.address)
        body = msgspec.json.encode(event)
        headers = {
            "Content-Type": "application/cloudevents+json", "Host": asked.netloc.decode(),
            "User-Agent": "germane", "Idempotency-Key": str(event["id"]),
        }  # fmt: skip
        async with client.stream(
            "POST", pinned, content=body, headers=headers,
            extensions={"sni_hostname": target.host},
        ) as response:  # fmt: skip
            return response.status_code  # the body is not read: it may have no end

    # what became of it ---------------------------------------------------------------------------

    def _done(self, row: Row, failure: str | None, state: str) -> None:
        self.attempts[state] += 1
        moment = self.clock()
        s = tables.sinks
        with tables.writing(self.engine) as connection:
            self._mark(connection, row, state=state, failure=failure, attempts=row.attempts + 1)
            if state == SENT:
                values = {"state": "ok", "failures": 0, "succeeded": moment}
            else:
                values = {"last_failure": failure, "failed": moment}
            connection.execute(
                sa.update(s).where(s.c.tenant == row.tenant, s.c.id == row.sink).values(**values)
            )
        if state != SENT:
            journal.warning("webhook_dead", tenant=row.tenant, sink=row.sink, reason=failure)

    def _failed(self, row: Row, words: str, status: int | None) -> None:
        """Try again later, the longer the more often it failed; in the end it is dead."""
        self.attempts["failed"] += 1
        moment, attempts = self.clock(), row.attempts + 1
        dead = attempts >= self.settings.attempts
        delay = min(FIRST_S * 2 ** min(attempts - 1, 30), LONGEST_S)
        delay *= 0.5 + self._random.random()
        due = moment + int(delay * SECOND)
        s, o = tables.sinks, tables.outbox
        with tables.writing(self.engine) as connection:
            self._mark(
                connection, row, state=DEAD if dead else WAITING, failure=words[:1000],
                attempts=attempts, due=due,
            )  # fmt: skip
            # What is behind it waits, too: the order is kept, and the sink is left in peace.
            connection.execute(
                sa.update(o)
                .where(
                    o.c.tenant == row.tenant, o.c.sink == row.sink, o.c.state == WAITING,
                    o.c.due < due,
                )
                .values(due=due)
            )  # fmt: skip
            connection.execute(
                sa.update(s)
                .where(s.c.tenant == row.tenant, s.c.id == row.sink)
                .values(
                    state="failing", failures=s.c.failures + 1, last_failure=words[:1000],
                    failed=moment,
                )
            )  # fmt: skip
        journal.warning(
            "webhook_failed", tenant=row.tenant, sink=row.sink, attempts=attempts, dead=dead,
            status=status,
        )  # fmt: skip

    def _gone(self, row: Row) -> None:
        """The sink wants nothing any more: what waits for it is dead."""
        self.attempts["gone"] += 1
        s = tables.sinks
        with tables.writing(self.engine) as connection:
            self._bury(connection, row.tenant, row.sink, "the sink answered 410: gone")
            connection.execute(
                sa.update(s)
                .where(s.c.tenant == row.tenant, s.c.id == row.sink)
                .values(state=GONE, last_failure="410: gone", failed=self.clock())
            )

    def _bury(self, connection: sa.Connection, tenant: int, sink: int, failure: str) -> None:
        """What waits for a sink is dead."""
        o = tables.outbox
        connection.execute(
            sa.update(o)
            .where(o.c.tenant == tenant, o.c.sink == sink, o.c.state == WAITING)
            .values(state=DEAD, failure=failure, changed=self.clock())
        )

    def _mark(self, connection: sa.Connection, row: Row, **values: Any) -> None:
        o = tables.outbox
        connection.execute(
            sa.update(o)
            .where(
                o.c.tenant == row.tenant, o.c.delivery == row.delivery, o.c.sink == row.sink
            )
            .values(changed=self.clock(), **values)
        )  # fmt: skip

    def _write_gauges(self) -> None:
        body = msgspec.json.encode({"attempts": dict(self.attempts), "lines": len(self._lines)})
        with tables.writing(self.engine) as connection:
            _replace(connection, "courier", self.clock(), body.decode())
