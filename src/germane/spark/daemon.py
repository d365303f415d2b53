"""Spark's worker daemon, with germane already imported: workers are forked from it.

A worker would otherwise import everything by itself: two seconds each, and there are half a dozen.
"""

import gc

from pyspark import daemon
from pyspark.sql.streaming import stateful_processor_util  # noqa: F401  # with pandas

import germane.spark  # noqa: F401

if __name__ == "__main__":
    gc.freeze()  # what is there by now is never collected, so its pages stay shared
    daemon.manager()
