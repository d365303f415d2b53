"""The log in one SQLite file: the default, which needs no other process.

WAL, so that readers never wait for the writer; ``synchronous=FULL``, so that an append is on disk
when it returns. Any number of threads and processes may append: a write transaction is taken before
the next seq is read. A row is an entry, keyed by the seq of its first event.
"""

import sqlite3
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from germane.service.clock import Clock, now
from germane.service.log import Entry, GroupCommit, LogError, LogFull, Stored

SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, tenant INTEGER NOT NULL, kind TEXT NOT NULL,
    n INTEGER NOT NULL, body BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS entries_of_tenants ON entries (tenant, seq);
"""
COLUMNS = "seq, at, tenant, kind, body, n"
FULL = frozenset((sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC))
BUSY_S = 30.0
LEAST_NAP_S, LONGEST_NAP_S = 0.0005, 0.010


class SqliteLog(GroupCommit):
    """A log in a file."""

    def __init__(self, path: str | Path, clock: Clock = now) -> None:
        super().__init__()
        self.path = str(path)
        self._clock = clock
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        connection = self._connection()
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(SCHEMA)
        except sqlite3.Error as error:
            raise _translated(error, self.path) from error

    def _connection(self) -> sqlite3.Connection:
        """This thread's connection."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            try:
                found = sqlite3.connect(
                    self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
                )
            except sqlite3.Error as error:
                raise _translated(error, self.path) from error
            found.execute("PRAGMA synchronous=FULL")
            found.execute("PRAGMA cache_size=-16000")
            self._local.connection = found
            self._connections.append(found)
        return found

    def _write(self, entries: list[Entry]) -> list[int]:
        connection = self._connection()
        try:
            connection.execute("BEGIN IMMEDIATE")
            seq = self._next(connection)
            at = self._clock()
            rows, seqs = [], []
            for entry in entries:
                rows.append((seq, at, entry.tenant, entry.kind, entry.body, entry.n))
                seqs.append(seq)
                seq += entry.n
            connection.executemany(f"INSERT INTO entries ({COLUMNS}) VALUES (?,?,?,?,?,?)", rows)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise _translated(error, self.path) from error
        return seqs

    @staticmethod
    def _next(connection: sqlite3.Connection) -> int:
        last = connection.execute(
            "SELECT seq + n FROM entries ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        return int(last[0]) if last else 1

    def read(self, after: int, limit: int, tenant: int | None = None) -> list[Stored]:
        """Entries that end after a seq, in order, until ``limit`` events."""
        of_tenant, given = ("", ()) if tenant is None else ("tenant = ? AND", (tenant,))
        return self._take(
            f"SELECT {COLUMNS} FROM entries WHERE {of_tenant} seq >= coalesce((SELECT max(seq) "
            f"FROM entries WHERE {of_tenant} seq <= ?), 0) AND seq + n > ? ORDER BY seq",
            (*given, *given, after + 1, after + 1),
            limit,
        )

    def read_back(self, before: int, limit: int, tenant: int) -> list[Stored]:
        """Entries of a tenant that begin before a seq, newest first, until ``limit`` events."""
        return self._take(
            f"SELECT {COLUMNS} FROM entries WHERE tenant = ? AND seq < ? ORDER BY seq DESC",
            (tenant, before),
            limit,
        )

    def _take(self, statement: str, values: tuple[Any, ...], limit: int) -> list[Stored]:
        taken: list[Stored] = []
        n = 0
        rows = self._rows(statement, values)
        for row in rows:
            taken.append(Stored(*row))
            n += row[5]
            if n >= limit:
                break
        rows.close()
        return taken

    def _rows(self, statement: str, values: tuple[Any, ...]) -> "Generator[Any, None, None]":
        try:
            cursor = self._connection().execute(statement, values)
            try:
                yield from cursor
            finally:
                cursor.close()
        except sqlite3.Error as error:
            raise _translated(error, self.path) from error

    def tenants(self, after: int) -> dict[int, int]:
        """Tenants that have something after a seq, with the seq of their last event."""
        return dict(
            self._rows(
                "SELECT tenant, max(seq + n - 1) FROM entries NOT INDEXED WHERE seq >= "
                "coalesce((SELECT max(seq) FROM entries WHERE seq <= ?), 0) "
                "AND seq + n > ? GROUP BY tenant",
                (after + 1, after + 1),
            )
        )

    def wait(self, after: int, seconds: float) -> bool:
        """Whether there is something after a seq, waiting for it at most so long."""
        end, nap = time.monotonic() + seconds, LEAST_NAP_S
        while self.bounds()[1] <= after:
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(nap, left))
            nap = min(nap * 1.5, LONGEST_NAP_S)
        return True

    def bounds(self) -> tuple[int, int]:
        """The first seq that is kept, and the last one; (1, 0) of an empty log."""
        found = next(
            iter(
                self._rows(
                    "SELECT (SELECT min(seq) FROM entries), "
                    "(SELECT seq + n - 1 FROM entries ORDER BY seq DESC LIMIT 1)",
                    (),
                )
            )
        )
        return (1, 0) if found[0] is None else (int(found[0]), int(found[1]))

    def trim(self, before: int) -> None:
        """Forget entries that end before a seq, but for the last one of all."""
        try:
            self._connection().execute(
                "DELETE FROM entries WHERE seq + n <= ? AND seq < (SELECT max(seq) FROM entries)",
                (before,),
            )
        except sqlite3.Error as error:
            raise _translated(error, self.path) from error

    def close(self) -> None:
        """Write what is waiting, and let go."""
        self._stop()
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        self._local = threading.local()


def _translated(error: sqlite3.Error, path: str) -> LogError:
    code = getattr(error, "sqlite_errorcode", None)
    if code in FULL:
        return LogFull(f"the disk of {path} is full; make room, and send it again ({error})")
    return LogError(f"the log {path}: {error}")
