"""The store's write-ahead log is carried into its file by a thread, not by whoever commits.

SQLite would do it within a commit, every thousand pages: with deliveries for many people that is
nearly every commit, and each waits for the disk. Here a thread of the matcher does it twice a
second, beside the rounds (it holds no lock of Python's meanwhile). Under load pages come faster
than they are carried, and the log would only grow; where it has ``MOST_BYTES``, writers wait for
the last of them once, and it begins anew. What is not carried is in the log, which a reader and a
next start know: nothing depends on this thread but the size of a file.
"""

import sqlite3
import threading
from pathlib import Path

import structlog

EVERY_S = 0.5
MOST_BYTES = 64 << 20

journal = structlog.get_logger("matcher")


class Checkpoints:
    """A thread that works on one SQLite file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._wal = path.with_name(path.name + "-wal")
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
        """Bring pages into the file; begin the log anew if it has grown long."""
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        if self._wal.exists() and self._wal.stat().st_size > MOST_BYTES:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """End with what is being carried."""
        self._ended.set()
        self._thread.join()
