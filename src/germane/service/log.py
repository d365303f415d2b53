"""The contract of the log: one durable, total order of everything that happens.

In: entries, each one or more events of one tenant. Out: the ``seq`` of each event, dense from 1;
and the entries again, in that order, as often as somebody asks. An append is atomic and on disk
when it returns; appends that wait for the disk at the same time share one write.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import NamedTuple, Protocol

import msgspec

from germane.model import GermaneError

EVENTS, SUBSCRIBE, UNSUBSCRIBE, GRAPH, SETTINGS, FEEDBACK = KINDS = (
    "events", "subscribe", "unsubscribe", "graph", "settings", "feedback",
)  # fmt: skip


class LogError(GermaneError, OSError):
    """The log cannot take or give entries now."""


class LogFull(LogError):
    """There is no room on the log's disk; nothing of the append was taken."""


class Entry(NamedTuple):
    """Something that happens: ``n`` events of one tenant."""

    tenant: int
    kind: str
    body: bytes  # JSON; of kind "events" an array with n members
    n: int = 1


class Stored(NamedTuple):
    """An entry in the log."""

    seq: int  # of its first event
    at: int  # microseconds: when it was accepted
    tenant: int
    kind: str
    body: bytes
    n: int

    @property
    def last(self) -> int:
        """The seq of its last event."""
        return self.seq + self.n - 1


class Log(Protocol):
    """One total order of events over all tenants."""

    def submit(self, entries: Sequence[Entry]) -> "Future[list[int]]":
        """Append soon; the future has the seq of each entry's first event."""

    def append(self, entries: Sequence[Entry]) -> list[int]:
        """Append all of them or none, durably; the seq of each entry's first event."""

    def read(self, after: int, limit: int, tenant: int | None = None) -> list[Stored]:
        """Entries that end after a seq, in order: at least one, and none once ``limit`` events
        are reached; of one tenant, if it is given."""

    def read_back(self, before: int, limit: int, tenant: int) -> list[Stored]:
        """Entries of a tenant that begin before a seq, newest first, until ``limit`` events."""

    def tenants(self, after: int) -> dict[int, int]:
        """Tenants that have something after a seq, with the seq of their last event."""

    def wait(self, after: int, seconds: float) -> bool:
        """Whether there is something after a seq, waiting for it at most so long."""

    def bounds(self) -> tuple[int, int]:
        """The first seq that is kept, and the last one; (1, 0) of an empty log."""

    def trim(self, before: int) -> None:
        """Forget entries that end before a seq, but for the last one of all."""

    def close(self) -> None:
        """Write what is waiting, and let go."""


class GroupCommit:
    """Appends of many callers, written together by one thread while the disk is busy."""

    MOST = 512  # calls in one write

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[list[Entry], Future[list[int]]] | None] = SimpleQueue()
        self._writer: threading.Thread | None = None
        self._lock = threading.Lock()

    def _write(self, entries: list[Entry]) -> list[int]:
        raise NotImplementedError

    def submit(self, entries: Sequence[Entry]) -> "Future[list[int]]":
        """Append soon; the future has the seq of each entry's first event."""
        future: Future[list[int]] = Future()
        with self._lock:
            if self._writer is None:
                self._writer = threading.Thread(target=self._run, name="log", daemon=True)
                self._writer.start()
        self._queue.put((list(entries), future))
        return future

    def append(self, entries: Sequence[Entry]) -> list[int]:
        """Append all of them or none, durably; the seq of each entry's first event."""
        return self.submit(entries).result()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            calls = [first]
            while len(calls) < self.MOST and not self._queue.empty():
                call = self._queue.get()
                if call is None:
                    self._queue.put(None)
                    break
                calls.append(call)
            self._write_calls(calls)

    def _write_calls(self, calls: list[tuple[list[Entry], "Future[list[int]]"]]) -> None:
        try:
            seqs = self._write([entry for entries, _ in calls for entry in entries])
        except Exception as error:
            if len(calls) == 1:
                calls[0][1].set_exception(error)
                return
            for call in calls:  # one that cannot be taken must not refuse the others
                self._write_calls([call])
            return
        begin = 0
        for entries, future in calls:
            future.set_result(seqs[begin : begin + len(entries)])
            begin += len(entries)

    def _stop(self) -> None:
        """Write what is waiting."""
        if self._writer is not None:
            self._queue.put(None)
            self._writer.join()
            self._writer = None


def read_up_to(log: Log, after: int, up_to: int, tenant: int, limit: int) -> list[Stored]:
    """As ``Log.read``, but nothing after a seq; of an entry that it falls into, the beginning."""
    entries = [e for e in log.read(after, limit, tenant) if e.seq <= up_to]
    if entries and entries[-1].last > up_to:
        whole = entries.pop()
        events = msgspec.json.decode(whole.body, type=list[msgspec.Raw])[: up_to - whole.seq + 1]
        entries.append(whole._replace(body=msgspec.json.encode(events), n=len(events)))
    return entries


def take(entries: "Sequence[Stored]", limit: int) -> list[Stored]:
    """The first of some entries: at least one, and none once ``limit`` events are reached."""
    taken: list[Stored] = []
    n = 0
    for entry in entries:
        if n >= limit:
            break
        taken.append(entry)
        n += entry.n
    return taken
