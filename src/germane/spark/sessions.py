"""A local Spark session that suits the pipeline; on a cluster, bring your own."""

import os
import socket
import sys
from typing import Any

from py4j.java_gateway import java_import
from pyspark.sql import SparkSession

from germane.model import GermaneError
from germane.spark.java import ensure_java

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",  # it would merge the partitions of shards
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}
LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",  # nobody else needs to reach the driver
    "spark.driver.host": "127.0.0.1",
    "spark.python.daemon.module": "germane.spark.daemon",
    # Over TCP, each batch on its way to Python waits 40 ms for an acknowledgement.
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
}
JAVA = (
    "-Xss4m",  # a stop inside foreachBatch needs the depth
    "-Darrow.enable_unsafe_memory_access=true",  # no bounds are checked for each id in a list
    "-Darrow.enable_null_check_for_get=false",
)
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
ASKED_FOR = (
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.api.python.SimplePythonFunction",
    "org.apache.spark.sql.functions",
)
"""Classes that PySpark asks the JVM for by their last name, a dozen times for a batch job."""


def session(
    master: str | None = None, app: str = "germane", settings: dict[str, Any] | None = None
) -> SparkSession:
    """The running session, or a local one with as many cores as there are.

    ``settings`` go over the defaults, which ask for a Java 17 or newer, workers with this very
    Python, tasks that are tried again, and UTC; options for Java are added to the defaults.
    """
    running = SparkSession.getActiveSession()
    if running is not None and master is None:
        return running
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Plain local[n] gives a task one attempt only: a lost worker would fail the job.
    cores = os.cpu_count() or 1
    place = master or f"local[{cores},4]"
    builder = SparkSession.builder.master(place).appName(app)
    defaults: dict[str, Any] = dict(SETTINGS)
    if place.startswith("local[") or place == "local":
        defaults |= LOCAL | {"spark.sql.shuffle.partitions": 2 * cores}  # 200 are for clusters
    chosen = {**defaults, **(settings or {})}
    chosen[JAVA_OPTIONS] = " ".join((*JAVA, chosen.get(JAVA_OPTIONS, "")))
    for name, value in chosen.items():
        builder = builder.config(name, str(value))
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    # Else each time half a dozen packages are tried for them: 3 ms of a job in all.
    for name in ASKED_FOR:
        java_import(made.sparkContext._jvm, name)
    return made


def require_classic(session: Any, what: str) -> None:
    """Refuse Spark Connect where the driver's JVM is needed, and say so."""
    if is_remote(session):
        raise GermaneError(
            f"{what} needs a session in the driver's process, and this one is Spark Connect's: it "
            "reaches files and the state store through the driver's JVM, which Connect hides. "
            "Submit the job to the cluster (docs/cluster.md); match with shards=… works here"
        )


def is_remote(session: Any) -> bool:
    """Whether a session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")
