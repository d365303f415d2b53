"""What all requests share: the log, the tables, the matcher's ear, limits and counters."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from starlette.concurrency import run_in_threadpool

from germane.service import tables
from germane.service.api.bell import Bell
from germane.service.api.problems import Problem
from germane.service.clock import Clock, now
from germane.service.log import Entry, Log, LogError, LogFull
from germane.service.metrics import Metrics
from germane.service.questions import LONGEST
from germane.service.reader import Reader
from germane.service.settings import Settings
from germane.service.tokens import Holder, Tokens

APPLIED_S = 2.0
ANSWER_S = 65.0
"""So long an answer of the matcher is waited for: longer than it lets questions wait."""


class Bucket:
    """So many a second, and twice that at once."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.left = 2 * rate
        self.at = time.monotonic()

    def take(self, n: float) -> float:
        """Take so many; 0, or the seconds until there will be as many."""
        moment = time.monotonic()
        self.left = min(self.left + (moment - self.at) * self.rate, 2 * self.rate)
        self.at = moment
        if self.left < min(n, self.rate):
            return (min(n, self.rate) - self.left) / self.rate
        self.left -= n
        return 0.0


class Api(Reader):
    """One api process."""

    def __init__(self, settings: Settings, log: Log, engine: sa.Engine, clock: Clock = now) -> None:
        super().__init__(log, engine)
        self.settings = settings
        self.clock = clock
        self.tokens = Tokens(engine)
        self.metrics = Metrics()
        self.line = Line(settings)
        self.pulse = Line(settings)  # for `/ready`, which waits for no other question
        self.bell = Bell(engine)
        self.closing = False
        self.redriving = asyncio.Lock()
        self.patience_s = APPLIED_S
        self._buckets: dict[tuple[str, str], Bucket] = {}

    # writing -------------------------------------------------------------------------------------

    async def append(self, entries: Sequence[Entry]) -> list[int]:
        """Append to the log; the first seq of each entry."""
        try:
            return await asyncio.wrap_future(self.log.submit(entries))
        except LogFull as error:
            raise Problem(507, str(error), {"Retry-After": "5"}) from None
        except LogError as error:
            raise Problem(503, str(error), {"Retry-After": "1"}) from None

    async def append_one(self, holder: Holder, kind: str, body: Any) -> int:
        """Append one event."""
        [seq] = await self.append([Entry(holder.tenant, kind, msgspec.json.encode(body))])
        return seq

    async def applied(self, tenant: int, seq: int, seconds: float | None = None) -> bool:
        """Whether the matcher has taken a seq, waiting for it a moment."""
        end, nap = time.monotonic() + (seconds or self.patience_s), 0.003
        while True:
            if await run_in_threadpool(self.position, tenant) >= seq:
                return True
            if time.monotonic() > end:
                return False
            await asyncio.sleep(nap)
            nap = min(nap * 1.5, 0.05)

    def position(self, tenant: int) -> int:
        """How far the matcher has come."""
        t = tables.positions
        with self.engine.connect() as connection:
            found = connection.execute(sa.select(t.c.seq).where(t.c.tenant == tenant)).scalar()
        return int(found or 0)

    def allow(self, holder: Holder, what: str, n: float = 1.0) -> None:
        """Refuse what is above a token's rate."""
        limits = self.settings.limits
        rate = limits.events_per_second if what == "events" else limits.requests_per_second
        bucket = self._buckets.get((holder.token, what))
        if bucket is None:
            if len(self._buckets) > 20_000:
                self._buckets.clear()
            bucket = self._buckets[holder.token, what] = Bucket(rate)
        wait = bucket.take(n)
        if wait:
            raise Problem(
                429, f"more than {rate:g} {what} a second; try again in {wait:.1f} s",
                {"Retry-After": str(int(wait) + 1)},
            )  # fmt: skip

    # reading -------------------------------------------------------------------------------------

    async def ask(self, holder: Holder, what: str, **more: Any) -> tuple[Any, int]:
        """Ask the matcher; its answer, and the seq that it belongs to."""
        reply = await self.line.ask({"ask": what, "tenant": holder.tenant, **more})
        if "error" in reply:
            more = {"position": reply["position"]} if "position" in reply else {}
            raise Problem(reply["status"], reply["error"], **more)
        return reply["answer"], reply["at_seq"]

    def subscriber_number(self, tenant: int, name: str) -> int | None:
        """A subscriber's number; None of one that never subscribed."""
        t = tables.subscribers
        with self.engine.connect() as connection:
            found = connection.execute(
                sa.select(t.c.number).where(t.c.tenant == tenant, t.c.name == name)
            ).scalar()
        return None if found is None else int(found)


class Line:
    """A line to the matcher's socket, opened again when it breaks."""

    def __init__(self, settings: Settings) -> None:
        self._path = str(settings.socket)
        self._lock = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """One question, one answer; a matcher that never answers holds nobody for longer."""
        line = msgspec.json.encode(question) + b"\n"
        if len(line) > LONGEST:  # the matcher would hang up
            words = f"this asks {len(line):,} bytes of the matcher; {LONGEST:,} are the most"
            return {"error": words, "status": 413}
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._ask(line)
        except TimeoutError:
            return {"error": "the matcher is busy", "status": 503}

    async def _ask(self, question: bytes) -> dict[str, Any]:
        async with self._lock:
            for _ in range(2):  # the matcher may have been started again since the last one
                try:
                    if self._streams is None:
                        self._streams = await asyncio.open_unix_connection(
                            self._path, limit=1 << 26
                        )
                    reader, writer = self._streams
                    writer.write(question)
                    await writer.drain()
                    line = await reader.readline()
                    if line:
                        reply: dict[str, Any] = msgspec.json.decode(line)
                        return reply
                except (OSError, msgspec.MsgspecError):
                    pass
                except asyncio.CancelledError:  # or the next one would get this one's answer
                    self.close()
                    raise
                self.close()
        return {"error": "the matcher is away; try again in a moment", "status": 503}

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
