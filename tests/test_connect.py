"""Spark Connect: what works against a server that was started for real, and what says why not."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytest.importorskip("pyspark")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(
        find_spec("grpc") is None or find_spec("grpc_status") is None,
        reason="Spark Connect's client needs grpcio and grpcio-status",
    ),
]

JOB = """
from pyspark.sql import SparkSession

import germane
from germane import spark
from germane.spark.sessions import is_remote

session = SparkSession.builder.remote("local[2]").getOrCreate()  # starts a server
assert is_remote(session)
messages = session.createDataFrame(
    [(2, "m1", 101.5), (4, "m2", 99.0)], "seq long, id string, price double"
)
profiles = session.createDataFrame(
    [("near", "ann", "price BETWEEN context.limit - 2 AND context.limit + 2")],
    "id string, context string, condition string",
)
contexts = session.createDataFrame([("ann", 100.0)], "id string, limit double")
updates = session.createDataFrame([(3, "ann", 95.0)], "seq long, context string, limit double")


def refused(call, *said):
    try:
        call()
    except germane.GermaneError as error:
        assert all(text in str(error) for text in said), error
    else:
        raise AssertionError("not refused")


found = spark.match(messages, profiles, contexts, updates, shards=2)
print("match", [tuple(row) for row in found.collect()])
letters = spark.play(spark.Inputs(messages.selectExpr("CAST(NULL AS long) seq", "id", "price"),
                                  profiles, contexts), shards=2).rejected
print("rejected", letters.count())
ready = spark.prepare(messages, profiles, contexts, updates, shards=2)
print("prepared", sorted(row.message for row in ready.match(messages).collect()))
refused(lambda: spark.match(messages, profiles, contexts), "shards=")
refused(
    lambda: spark.stream(messages, profiles, checkpoint="c", sink="s", shards=2),
    "Spark Connect", "docs/cluster.md",
)
refused(lambda: spark.reshard(session, "a", "b", 2), "Spark Connect")
session.stop()
"""


def test_against_a_server(tmp_path):
    from germane.spark.java import ensure_java

    ensure_java()
    job = tmp_path / "job.py"
    job.write_text(JOB)
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, str(job)], env=environment, cwd=tmp_path, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [line for line in done.stdout.splitlines() if line]
    assert lines == [
        "match [(2, 'm1', 'near', 'ann')]", "rejected 2", "prepared ['m1', 'm2']",
    ]  # fmt: skip
