"""A local Spark session that suits the pipeline; on a cluster, bring your own."""

import os
import sys
from typing import Any

from pyspark.sql import SparkSession

from germane.spark.java import ensure_java

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",  # it would merge the partitions of shards
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.driver.extraJavaOptions": "-Xss4m",  # a stop inside foreachBatch needs the depth
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def session(
    master: str | None = None, app: str = "germane", settings: dict[str, Any] | None = None
) -> SparkSession:
    """The running session, or a local one with as many cores as there are.

    ``settings`` go over the defaults, which ask for a Java 17 or newer, workers with this very
    Python, tasks that are tried again, and UTC.
    """
    running = SparkSession.getActiveSession()
    if running is not None and master is None:
        return running
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Plain local[n] gives a task one attempt only: a lost worker would fail the job.
    cores = os.cpu_count() or 1
    builder = SparkSession.builder.master(master or f"local[{cores},4]").appName(app)
    shuffles = {"spark.sql.shuffle.partitions": 2 * cores}  # Spark's 200 are for clusters
    for name, value in {**SETTINGS, **shuffles, **(settings or {})}.items():
        builder = builder.config(name, str(value))
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made
