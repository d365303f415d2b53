"""Fixtures that several test files share."""

import pytest
from hypothesis import HealthCheck, settings

import germane

# A slow machine is no failure: neither of an example, nor of how long it takes to draw some.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture
def small_tables(monkeypatch):
    """Indexes from the first few rows on: otherwise small lives would only ever be swept.

    No table changes over between index and sweep, which takes measured times; a test that wants
    it asks for it.
    """
    monkeypatch.setattr("germane.filter.balance.CHANGE_NS", 1e18)
    monkeypatch.setattr("germane.filter.balance.WEIGH_EVERY", 1)
    monkeypatch.setattr("germane.filter.table.SETTLE_ROWS", 6)
    monkeypatch.setattr("germane.filter.table.SAMPLE", 24)
    monkeypatch.setattr("germane.filter.table.CHECK_EVERY", 40)
    monkeypatch.setattr("germane.filter.tables.RATES_EVERY", 1)
    monkeypatch.setattr("germane.filter.tables.CARE_EVERY", 4)
    monkeypatch.setattr("germane.filter.tables.SMALL", 40)
    monkeypatch.setattr("germane.filter.tables.SWEPT_PER_CANDIDATE", 2)


@pytest.fixture
def auto_changes(request, monkeypatch, small_tables):
    """Small tables, where `auto` changes between index and sweep at any chance."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if parameters.get("index") == "auto":
        monkeypatch.setattr("germane.filter.balance.CHANGE_NS", 0.0)


@pytest.fixture
def early_indexes(monkeypatch):
    """Indexes from the first eight rows on."""
    monkeypatch.setattr("germane.filter.table.SETTLE_ROWS", 8)
    monkeypatch.setattr("germane.filter.tables.SMALL", 8)


@pytest.fixture
def f():
    """An empty filter."""
    return germane.Filter()


@pytest.fixture(scope="session")
def compiled():
    """The matcher's kernels on disk: a process that is killed while it compiles begins again.

    And what waits for a matcher, waits for no compilation.
    """
    from germane.service.warming import rehearse

    for part in ("begin", "mixed", "graphs", "places", "addresses"):
        assert rehearse(part)


@pytest.fixture(scope="session")
def session():
    """One Spark for all tests that need it; they are in the group "spark", so in one process."""
    from germane import spark

    quick = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # to start, not to run for hours
    return spark.session(
        master="local[2,4]",
        settings={
            "spark.default.parallelism": 2,
            "spark.driver.extraJavaOptions": quick,
            "spark.sql.streaming.checkpointFileManagerClass": (
                "org.apache.spark.sql.execution.streaming.checkpointing."
                "FileSystemBasedCheckpointFileManager"
            ),
        },
    )
