"""A bell that rings when there are new deliveries: one poll for everybody who waits.

While somebody listens, the last delivery of each tenant concerned is looked up every few
milliseconds; where there are new ones, those are woken whose deliveries are among them.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import sqlalchemy as sa
from starlette.concurrency import run_in_threadpool

from germane.service import tables

EVERY_S = 0.015
SOON_S, BUSY_S = 0.004, 1.0
"""How soon to look again for so long after something came: more is to be expected."""
MANY = 20_000
"""New deliveries above which everybody is woken: looking who has some would take longer."""


class Bell:
    """Who waits for which tenant."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._waiting: defaultdict[int, dict[asyncio.Event, int | None]] = defaultdict(dict)
        self._last: dict[int, int] = {}
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def watch(
        self, tenant: int, subscriber: int | None = None
    ) -> AsyncIterator[Callable[[float], Awaitable[bool]]]:
        """Listen for a subscriber's number, or (None) for anybody's; what is given waits for the
        next ring, and says whether there was one."""
        event = asyncio.Event()
        self._waiting[tenant][event] = subscriber
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll())

        async def rung(seconds: float) -> bool:
            try:
                await asyncio.wait_for(event.wait(), seconds)
            except TimeoutError:
                return False
            event.clear()
            return True

        try:
            yield rung
        finally:
            self._waiting[tenant].pop(event, None)
            if not self._waiting[tenant]:
                del self._waiting[tenant]
                self._last.pop(tenant, None)

    async def _poll(self) -> None:
        busy_until = 0.0
        while self._waiting:
            try:
                news = await run_in_threadpool(self._look, list(self._waiting))
            except sa.exc.DBAPIError:
                await asyncio.sleep(0.5)
                continue
            for tenant, (id_, people) in news.items():
                self._last[tenant] = id_
                for event, subscriber in list(self._waiting.get(tenant, {}).items()):
                    if people is None or subscriber is None or subscriber in people:
                        event.set()
            moment = time.monotonic()
            if news:
                busy_until = moment + BUSY_S
            await asyncio.sleep(SOON_S if moment < busy_until else EVERY_S)

    def _look(self, tenants: list[int]) -> dict[int, tuple[int, set[int] | None]]:
        """Tenants with news: their last delivery, and who has some (None: all may have)."""
        t, news = tables.deliveries, {}
        with self._engine.connect() as connection:
            for tenant in tenants:
                mine = t.c.tenant == tenant
                last = connection.execute(sa.select(sa.func.max(t.c.id)).where(mine)).scalar() or 0
                before = self._last.get(tenant)
                if last == before:
                    continue
                people = None
                if before is not None and last - before < MANY:
                    new = sa.select(t.c.subscriber).where(mine, t.c.id > before, t.c.id <= last)
                    people = set(connection.execute(new.distinct()).scalars())
                news[tenant] = (last, people)
        return news

    def ring_all(self) -> None:
        """Wake everybody: the process ends."""
        for events in self._waiting.values():
            for event in list(events):
                event.set()
