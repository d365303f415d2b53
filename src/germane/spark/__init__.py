"""The filter on Spark: DataFrames in, DataFrames out, the same answers as ``germane.Filter``.

    ``session``   a local Spark, with the Java it needs
    ``match``     a batch job: backtests, replays, bulk matching; ``play`` has its dead letters too
    ``prepare``   profiles compiled once, for many batch jobs
    ``stream``    the same on Structured Streaming, exactly once, over restarts

Only data moves here: every shard calls ``Filter``, and nothing else matches.
"""

from germane.model import GermaneError

try:
    import pyspark as _pyspark  # noqa: F401
except ImportError as error:
    raise GermaneError(
        "germane.spark needs PySpark: install germane with its extra, pip install 'germane[spark]'"
    ) from error

from germane.spark.batch import match, play
from germane.spark.events import Inputs
from germane.spark.prepared import Prepared, prepare
from germane.spark.resharding import reshard
from germane.spark.sessions import session
from germane.spark.sinks import Parquet, Sql
from germane.spark.streams import Query, stream

__all__ = [
    "Inputs", "Parquet", "Prepared", "Query", "Sql", "match", "play", "prepare", "reshard",
    "session", "stream",
]  # fmt: skip
