"""Spark's own words, kept off the terminal: they go to a file that can be asked for.

Spark's Java writes to the standard error that it was started with, and so do its workers. While a
session is made, that is a file; what this process itself has to say still reaches the terminal.
In this process, Spark would log each mistake in a query that it raises anyway.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def into_file() -> Iterator[Path]:
    """Start programs in here whose standard error goes to the file that is given."""
    handle, name = tempfile.mkstemp(prefix="germane-spark-", suffix=".log")
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(handle, 2)
    try:
        yield Path(name)
        _hush()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(handle)


def _hush() -> None:
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
