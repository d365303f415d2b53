"""The store's write-ahead log is carried into its file by a thread, not by whoever commits.

SQLite would do it within a commit, every thousand pages: with deliveries for many people that is
nearly every commit, and each waits for the disk. Here a thread of the matcher does it twice a
second, beside the rounds (it holds no lock of Python's meanwhile). Under load pages come faster
than they are carried, and the log would only grow; where it has ``MOST_PAGES``, writers wait for
the last of them once (some tens of milliseconds), and it begins anew. When nobody has written since
the last time, its room is given back. What is not carried is in the log, which a reader and a next
start know: nothing depends on this thread but the size of a file.
"""

import sqlite3
import threading
from pathlib import Path

import structlog

EVERY_S = 0.5
MOST_PAGES = 40_000
LITTLE_BYTES = 4 << 20

journal = structlog.get_logger("matcher")


class Checkpoints:
    """A thread that works on one SQLite file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log = path.with_name(path.name + "-wal")
        self._before = 0  # pages in the log, the last time
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        connection = sqlite3.connect(self.path, timeout=5.0, isolation_level=None)
        connection.execute("PRAGMA synchronous=NORMAL")
        while not self._ended.wait(EVERY_S):
            try:
                self.carry(connection)
            except (sqlite3.Error, OSError) as error:  # a full disk: commits say so
                journal.warning("checkpoint_failed", error=str(error))
        connection.close()

    def carry(self, connection: sqlite3.Connection) -> None:
        """Bring pages into the file; begin the log anew if it is long, or nobody needs it."""
        [(_, n, _)] = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        if n == self._before and self._log.stat().st_size > LITTLE_BYTES:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        elif n > MOST_PAGES:
            connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        self._before = n

    def close(self) -> None:
        """End with what is being carried."""
        self._ended.set()
        self._thread.join()
