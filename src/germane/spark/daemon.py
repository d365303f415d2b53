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


def worker(sock: Any, authenticated: bool) -> int:
    """As Spark's, but no complaint when the JVM lets go of a worker that was idle for a minute."""
    try:
        code: int = _worker(sock, authenticated)
    except BrokenPipeError:
        return 1
    return code


if __name__ == "__main__":
    daemon.worker = worker
    gc.freeze()  # what is there by now is never collected, so its pages stay shared
    daemon.manager()
