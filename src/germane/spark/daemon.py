"""Spark's worker daemon, with germane already imported: workers are forked from it.

A worker would otherwise import everything by itself: two seconds each, and there are half a dozen.
The threads that NumPy and Arrow start begin anew in a fork, by their own hand.
"""

import gc
from typing import Any

from pyspark import daemon
from pyspark.sql.streaming import stateful_processor_util  # noqa: F401  # with pandas

import germane.spark  # noqa: F401

_worker = daemon.worker
WHOLE = 64
"""Tasks of a worker after which all of its garbage is collected."""


class Tidy:
    """Stands for ``gc`` in Spark's daemon, which has a worker collect all garbage after each task.

    With shards' filters in it, that takes a worker tens of milliseconds, which the next task may
    wait for. What a task leaves behind is young; older garbage can wait for some more tasks.
    """

    def __init__(self) -> None:
        self._tasks = 0

    def collect(self) -> int:
        """Collect what is young, now and then everything; how much that was."""
        self._tasks += 1
        return gc.collect(1 if self._tasks % WHOLE else 2)


def worker(sock: Any, authenticated: bool) -> int:
    """As Spark's, but no complaint when the JVM lets go of a worker that was idle for a minute."""
    try:
        code: int = _worker(sock, authenticated)
    except BrokenPipeError:
        return 1
    return code


if __name__ == "__main__":
    daemon.worker = worker
    daemon.gc = Tidy()  # type: ignore[assignment,attr-defined]
    gc.freeze()  # what is there by now is never collected, so its pages stay shared
    daemon.manager()
