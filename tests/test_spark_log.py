"""The service's log on a real Spark: as a source, and under the matcher."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace

import pytest
from service_kit import Kit, change, in_thread, message, random_step
from test_service_matcher import PEOPLE, check

spark = pytest.importorskip("germane.spark")

from germane.service.log_sqlite import SqliteLog
from germane.service.on_spark import SparkMatcher
from germane.service.source import register

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]


@pytest.fixture
def kit(tmp_path):
    made = Kit(tmp_path, tenants=2)
    yield made
    made.close()


def test_a_stream_of_the_log(session, kit, tmp_path):
    """``germane-log`` under ``spark.stream``: what the service delivers of the same log."""
    from pyspark.sql import functions as fn

    kit.subscribe("a", "n < context.limit")
    kit.subscribe("b", "n >= 3", "bob")
    kit.append(1, "subscribe", {"id": "c", "subscriber": "cid", "context": "cid",
                                "filters": [{"sql": "n > 4 OR EXISTS room"}]})  # fmt: skip
    choose = random.Random(1)
    for i in range(12):
        kit.publish(
            *[message(f"m{i}.{j}", n=choose.randrange(9)) for j in range(3)],
            change("ann", limit=choose.randrange(9)),
        )
    kit.append(1, "unsubscribe", {"id": "b"})
    kit.publish(message("last", n=8))
    kit.work()
    register(session)
    log = (
        session.readStream.format("germane-log")
        .option("maxEventsPerTrigger", 40)
        .load(kit.settings.data)
    )
    data = "struct<n: double, room: string, limit: double>"
    events = log.withColumn("e", fn.from_json("body", f"data {data}"))
    own = "id string, subscriber string, condition string, context string, filters string"
    body = fn.from_json("body", own)
    profiles = (
        log.where("kind IN ('subscribe', 'unsubscribe')")
        .withColumn("s", body)
        .selectExpr(
            "seq", "kind AS op", "id", "s.context", "coalesce(s.condition, s.filters) AS condition",
            "CASE WHEN s.filters IS NOT NULL THEN 'filters' END AS dialect",
        )
    )  # fmt: skip
    query = spark.stream(
        events.where("kind = 'message'").selectExpr("seq", "id", "e.data.n", "e.data.room"),
        profiles,
        updates=events.where("kind = 'patch'").selectExpr("seq", "id AS context", "e.data.limit"),
        checkpoint=tmp_path / "checkpoint",
        sink=tmp_path / "out",
        shards=2,
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    found = session.read.parquet(str(tmp_path / "out")).select("seq", "profile").collect()
    expected = [(seq, id_) for (seq, _), ids in kit.pairs().items() for id_ in ids]
    assert sorted(map(tuple, found)) == sorted(expected)
    assert {id_ for _, id_ in expected} == {"a", "b", "c"}
    assert len(query.dead_letters().collect()) == 0
    rows = session.read.format("germane-log").option("tenant", 1).load(kit.settings.data)
    assert rows.count() == kit.log.bounds()[1]
    assert json.loads(rows.where("id = 'last'").first().body)["data"] == {"n": 8}


def test_the_matcher(session, kit):
    """Two tenants' entries come while it runs; it is stopped in the midst, and started again."""
    choose = random.Random(7)
    ids = {1: [], 2: []}
    kit.settings = replace(kit.settings, matcher="spark", shards=2)

    def log():
        return SqliteLog(kit.settings.folder / "log.db", kit.clock)

    for part in range(3):
        driver_log = log()
        matcher = SparkMatcher(kit.settings, driver_log, kit.engine, kit.clock, session)
        thread = in_thread(matcher.run)
        for _ in range(40):
            tenant = choose.choice([1, 1, 2])
            kit.append(tenant, *random_step(choose, PEOPLE, ids[tenant]))
            time.sleep(choose.choice([0, 0, 0.05]))
        while part == 2 and thread.is_alive() and not done(matcher):
            time.sleep(0.05)
        matcher.stopping = True
        thread.join(300)
        assert not thread.is_alive()
        driver_log.close()
    assert len(matcher.tenants[1].filter) == 0
    assert len(kit.pairs(1)) > 20
    kit.matcher = matcher
    check(kit)


def done(matcher):
    with matcher._lock:
        return all(matcher._tenant(n).seq >= last for n, last in matcher.log.tenants(0).items())
