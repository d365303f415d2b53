"""The log in NATS JetStream: one stream, whose own sequence is the total order.

An append is one message on the tenant's subject, with all its entries: it is taken whole. It
is published with the stream sequence that it expects to follow; so the ``seq`` of its first event
follows from the message before it, whoever else writes, and is kept in its headers. A message that
is sent again because its answer was lost is known by its id, and taken once.

Cost: one round trip for the appends that wait together, one for each message that is read.
"""

import asyncio
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeVar

import msgspec
import nats
from nats.errors import Error as NatsError
from nats.js import api
from nats.js.errors import APIError, NotFoundError

from germane.service.clock import Clock, now
from germane.service.log import GroupCommit, LogError, LogFull, Stored

T = TypeVar("T")
NOT_NEXT = frozenset((10070, 10071))  # another message, another sequence was the last
NO_ROOM = frozenset((10023, 10047, 10077))  # resources, store failed, maximum bytes
PATIENCE_S = 10.0
KEPT_BYTES = 32 << 20
ATTEMPTS = 20


class Message(NamedTuple):
    """A message of the stream: the entries of one append."""

    place: int  # the stream's sequence
    tenant: int
    entries: tuple[Stored, ...]
    n_bytes: int

    @property
    def first(self) -> int:
        """The seq of its first event."""
        return self.entries[0].seq

    @property
    def last(self) -> int:
        """The seq of its last event."""
        return self.entries[-1].last


class NatsLog(GroupCommit):
    """A log in a stream of a NATS server."""

    def __init__(self, url: str, stream: str = "germane", clock: Clock = now) -> None:
        super().__init__()
        self.url = url
        self._stream = stream
        self._clock = clock
        self._kept: OrderedDict[int, Message] = OrderedDict()
        self._kept_bytes = 0
        self._lock_kept = threading.Lock()
        self._heads: tuple[int, dict[int, int]] = (0, {})  # place, tenant -> last seq
        self._news = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nats", daemon=True)
        self._thread.start()
        try:
            self._do(self._open(), 30.0)
        except LogError:
            self.close()
            raise

    def _do(self, work: Coroutine[Any, Any, T], seconds: float = PATIENCE_S) -> T:
        """Run something on the connection's own loop."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds)
        except APIError as error:
            if error.err_code in NO_ROOM:
                raise LogFull(f"the stream of {self.url} has no room: {error}") from error
            raise LogError(f"the log at {self.url}: {error}") from error
        except (NatsError, OSError, TimeoutError) as error:
            future.cancel()
            raise LogError(f"the log at {self.url}: {error!r}") from error

    async def _open(self) -> None:
        self._nats = await nats.connect(
            self.url, max_reconnect_attempts=-1, reconnect_time_wait=0.2, connect_timeout=5,
            error_cb=_quietly, pending_size=64 << 20,
        )  # fmt: skip
        self._js = self._nats.jetstream(timeout=5.0)
        try:
            await self._js.stream_info(self._stream)
        except NotFoundError:
            await self._js.add_stream(
                api.StreamConfig(
                    name=self._stream, subjects=[f"{self._stream}.*"], allow_direct=True,
                    storage=api.StorageType.FILE, discard=api.DiscardPolicy.NEW,
                    duplicate_window=120.0,
                )
            )  # fmt: skip
        await self._nats.subscribe(f"{self._stream}.*", cb=self._heard)

    async def _heard(self, message: Any) -> None:
        self._news.set()

    # writing -------------------------------------------------------------------------------------

    def _write_calls(self, calls: Any) -> None:
        """Each call is a message of its own; they are sent together, and answered in order."""
        waiting = [(entries, future, secrets.token_hex(12)) for entries, future in calls]
        for attempt in range(ATTEMPTS):
            try:
                waiting = self._do(self._publish(waiting))
            except Exception as error:
                waiting = [call for call in waiting if not call[1].done()]
                if isinstance(error, LogFull) or attempt == ATTEMPTS - 1:
                    if not isinstance(error, LogError):
                        error = LogError(f"the log at {self.url}: {error!r}")
                    self._refuse(waiting, error)
                    return
                time.sleep(min(0.05 * 2**attempt, 1.0))
                continue
            if not waiting:
                return
        self._refuse(waiting, LogError(f"the log at {self.url} did not take the append"))

    @staticmethod
    def _refuse(waiting: Any, error: Exception) -> None:
        for _, future, _ in waiting:
            if not future.done():
                future.set_exception(error)

    async def _publish(self, waiting: Any) -> Any:
        """Send what waits; what was not taken, because others wrote in between."""
        place, seq = await self._end()
        sent, at, before = [], self._clock(), None
        for entries, future, id_ in waiting:
            tenant = entries[0].tenant
            if any(entry.tenant != tenant for entry in entries):
                future.set_exception(LogError("an append is of one tenant"))
                continue
            body = msgspec.msgpack.encode([(e.kind, e.n, e.body) for e in entries])
            if len(body) > self._nats.max_payload:
                words = f"{len(body):,} bytes; the broker takes {self._nats.max_payload:,}"
                future.set_exception(LogError(f"an append is too large: {words}"))
                continue
            headers = {
                "seq": str(seq), "at": str(at), "Nats-Msg-Id": id_,
                "Nats-Expected-Last-Sequence": str(place),
            }  # fmt: skip
            if before is not None:  # or else somebody's message has just this place
                headers["Nats-Expected-Last-Msg-Id"] = before
            before = id_
            work = self._js.publish(f"{self._stream}.{tenant}", body, headers=headers)
            sent.append((entries, future, id_, asyncio.create_task(work)))
            place += 1
            seq += sum(entry.n for entry in entries)
        answers = await asyncio.gather(*(task for *_, task in sent), return_exceptions=True)
        left, refusal = [], None
        for (entries, future, id_, _), answer in zip(sent, answers, strict=True):
            if isinstance(answer, api.PubAck):
                message = await self._message(answer.seq)
                future.set_result([entry.seq for entry in message.entries])
            else:
                left.append((entries, future, id_))
                wrong = isinstance(answer, APIError) and answer.err_code in NOT_NEXT
                refusal = refusal if wrong else refusal or answer
        if refusal is not None:
            waiting[:] = left
            raise refusal
        return left

    async def _end(self) -> tuple[int, int]:
        """The stream's last place, and the next seq."""
        state = (await self._js.stream_info(self._stream)).state
        if not state.last_seq:
            return 0, 1
        return state.last_seq, (await self._message(state.last_seq)).last + 1

    # reading -------------------------------------------------------------------------------------

    async def _message(self, place: int) -> Message:
        """The message at a place of the stream."""
        with self._lock_kept:
            kept = self._kept.get(place)
        if kept is not None:
            return kept
        return self._parsed(await self._js.get_msg(self._stream, seq=place, direct=True))

    def _parsed(self, raw: Any) -> Message:
        headers = raw.headers or {}
        tenant, seq, at = int(raw.subject.split(".")[1]), int(headers["seq"]), int(headers["at"])
        entries, n_bytes = [], len(raw.data or b"")
        for kind, n, body in msgspec.msgpack.decode(raw.data):
            entries.append(Stored(seq, at, tenant, kind, body, n))
            seq += n
        message = Message(int(raw.seq), tenant, tuple(entries), n_bytes)
        with self._lock_kept:
            if message.place not in self._kept:
                self._kept[message.place] = message
                self._kept_bytes += n_bytes
            while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
                self._kept_bytes -= self._kept.popitem(last=False)[1].n_bytes
        return message

    async def _next(self, place: int, tenant: int | None) -> Message | None:
        """The first message from a place on, of a tenant if one is given."""
        with self._lock_kept:
            kept = self._kept.get(place)
        if kept is not None and tenant in (None, kept.tenant):
            return kept
        subject = f"{self._stream}.{'*' if tenant is None else tenant}"
        try:
            raw = await self._js.get_msg(
                self._stream, seq=place, subject=subject, direct=True, next=True
            )
        except NotFoundError:
            return None
        return self._parsed(raw)

    async def _find(self, seq: int) -> int:
        """The place of the message that has a seq, or would have it."""
        state = (await self._js.stream_info(self._stream)).state
        low, high = max(int(state.first_seq), 1), int(state.last_seq) + 1
        with self._lock_kept:  # most often it is one that was just read, or follows one
            for place in reversed(self._kept):
                kept = self._kept[place]
                if kept.first <= seq <= kept.last + 1 and low <= place < high:
                    return place + (seq > kept.last)
        while low < high:
            middle = (low + high) // 2
            if (await self._message(middle)).last < seq:
                low = middle + 1
            else:
                high = middle
        return low

    def read(self, after: int, limit: int, tenant: int | None = None) -> list[Stored]:
        """Entries that end after a seq, in order, until ``limit`` events."""
        return self._do(self._read(after, limit, tenant))

    async def _read(self, after: int, limit: int, tenant: int | None) -> list[Stored]:
        place, n = await self._find(after + 1), 0
        taken: list[Stored] = []
        while n < limit:
            message = await self._next(place, tenant)
            if message is None:
                break
            for entry in message.entries:
                if entry.last > after and n < limit:
                    taken.append(entry)
                    n += entry.n
            place = message.place + 1
        return taken

    def read_back(self, before: int, limit: int, tenant: int) -> list[Stored]:
        """Entries of a tenant that begin before a seq, newest first, until ``limit`` events."""
        return self._do(self._read_back(before, limit, tenant), 60.0)

    async def _read_back(self, before: int, limit: int, tenant: int) -> list[Stored]:
        state = (await self._js.stream_info(self._stream)).state
        place, n = min(await self._find(before), state.last_seq), 0
        taken: list[Stored] = []
        while n < limit and place >= max(state.first_seq, 1):
            message = await self._message(place)
            if message.tenant == tenant:
                for entry in reversed(message.entries):
                    if entry.seq < before and n < limit:
                        taken.append(entry)
                        n += entry.n
            place -= 1
        return taken

    def tenants(self, after: int) -> dict[int, int]:
        """Tenants that have something after a seq, with the seq of their last event."""
        return self._do(self._tenants(after), 60.0)

    async def _tenants(self, after: int) -> dict[int, int]:
        place = await self._find(after + 1)
        found: dict[int, int] = {}
        while (message := await self._next(place, None)) is not None:
            found[message.tenant] = message.last
            place = message.place + 1
        return found

    def wait(self, after: int, seconds: float) -> bool:
        """Whether there is something after a seq, waiting for it at most so long."""
        end = time.monotonic() + seconds
        while True:
            self._news.clear()
            if self.bounds()[1] > after:
                return True
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._news.wait(min(left, 0.25))

    def bounds(self) -> tuple[int, int]:
        """The first seq that is kept, and the last one; (1, 0) of an empty log."""
        return self._do(self._bounds())

    async def _bounds(self) -> tuple[int, int]:
        state = (await self._js.stream_info(self._stream)).state
        if not state.last_seq:
            return 1, 0
        first = await self._message(max(state.first_seq, 1))
        return first.first, (await self._message(state.last_seq)).last

    def trim(self, before: int) -> None:
        """Forget entries that end before a seq, but for the last one of all."""
        self._do(self._trim(before))

    async def _trim(self, before: int) -> None:
        state = (await self._js.stream_info(self._stream)).state
        place = min(await self._find(before), state.last_seq)
        if place > state.first_seq:
            await self._js.purge_stream(self._stream, seq=place)

    def close(self) -> None:
        """Write what is waiting, and let go."""
        self._stop()
        if getattr(self, "_nats", None) is not None and self._loop.is_running():
            asyncio.run_coroutine_threadsafe(self._nats.close(), self._loop).result(5.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)


async def _quietly(error: Exception) -> None:
    """Broken connections are tried again; whoever calls hears of it."""
