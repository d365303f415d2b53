"""Calls whose arguments the JVM has already do what the calls of PySpark do."""

import random
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyspark.sql import types

pytest.importorskip("germane.spark")
from germane.spark import calls

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]

NUMBERS = types.StructType([types.StructField("n", types.LongType())])


def adding(much):
    def add(batches):
        for batch in batches:
            values = [value + much for value in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"n": pa.array(values, pa.int64())})

    return add


@pytest.fixture
def numbers(session, monkeypatch):
    """0 to 9, and nothing kept yet."""
    monkeypatch.setattr(calls, "KEPT", type(calls.KEPT)())
    return session.range(10).selectExpr("id AS n")


def kept(session):
    return calls.KEPT.get(session.sparkContext, {})


def values(frame):
    return sorted(row[0] for row in frame.collect())


def test_columns_are_made_once(session, numbers):
    texts = ("n + 1 AS m", "explode(array(n, 2 * n)) AS k")
    ours = calls.select(numbers, *texts)
    assert ours.schema == numbers.selectExpr(*texts).schema
    assert ours.collect() == numbers.selectExpr(*texts).collect()
    (made,) = kept(session).values()
    other = session.range(3).selectExpr("id * 10 AS n")  # the same words about another frame
    assert calls.select(other, *texts).collect() == other.selectExpr(*texts).collect()
    assert list(kept(session).values()) == [made]


def test_what_is_kept_may_be_used_twice_in_one_plan(numbers):
    def doubled(frame):
        once = calls.map_in_arrow(frame, "n", adding(1), NUMBERS, says="one more")
        return calls.select(once, "n AS key", "n * 2 AS twice")

    left, right = doubled(numbers), doubled(numbers.where("n < 3")).withColumnRenamed("twice", "t")
    assert values(left.join(right, "key").selectExpr("key")) == [1, 2, 3]
    assert values(left.union(doubled(numbers)).selectExpr("key")) == sorted([*range(1, 11)] * 2)


def test_rows_of_a_key_are_brought_together(numbers):
    spread = calls.repartition(numbers.union(numbers), 3, "n")
    parts = spread.rdd.glom().collect()
    assert len(parts) == 3
    assert sorted(row.n for part in parts for row in part) == sorted([*range(10)] * 2)
    assert all(sum(row in part for part in parts) == 1 for row in numbers.collect())


def test_functions_that_say_something_else_are_others(session, numbers):
    for much in (1, 5, 1):
        made = calls.map_in_arrow(numbers, "n", adding(much), NUMBERS, says=("add", much))
        assert values(made) == [n + much for n in range(10)]
    assert len(kept(session)) == 2


def test_modules_that_were_added_since_travel(session, numbers, tmp_path):
    package = tmp_path / "package.zip"
    with zipfile.ZipFile(package, "w") as made:
        made.writestr("said_of_late.py", "WORD = 7")

    def told(batches):
        try:
            from said_of_late import WORD
        except ImportError:
            WORD = -1
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"n": pa.array([WORD] * batch.num_rows, pa.int64())})

    before = calls.map_in_arrow(numbers, "n", told, NUMBERS, says="told")
    assert set(values(before)) == {-1}
    session.sparkContext.addPyFile(str(package))
    assert set(values(calls.map_in_arrow(numbers, "n", told, NUMBERS, says="told"))) == {7}


def test_no_more_are_kept_than_agreed(session, numbers, monkeypatch):
    monkeypatch.setattr(calls, "MOST_KEPT", 3)
    for n in (0, 1, 2, 0, 3):
        assert values(calls.select(numbers, f"n + {n} AS m")) == [*range(n, n + 10)]
    assert [texts for (texts,) in kept(session)] == ["n + 2 AS m", "n + 0 AS m", "n + 3 AS m"]


def test_threads_keep_their_words_together():
    """A schema's hash is made in Python: without a lock, others come between."""
    context = type("Context", (), {})()
    frame = type("Frame", (), {"sparkSession": type("Session", (), {"sparkContext": context})})

    def ask(seed):
        draw = random.Random(seed)
        for _ in range(3000):
            said = draw.randrange(8)
            schema = types.StructType([types.StructField("seq", types.LongType())])
            assert calls._kept(frame, (said, schema), lambda said=said: said) == said
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(8)))
