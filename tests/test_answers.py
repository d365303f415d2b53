"""Answers by small examples: `match_many` and what it returns, and explanations."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from examples import MUNICH, numbers

import germane

pytestmark = pytest.mark.usefixtures("early_indexes")


# match_many and Matches --------------------------------------------------------------------------


def batch_filter() -> germane.Filter:
    f = germane.Filter()
    f.subscribe("cheap", "price < 5")
    f.subscribe("talk", "type = 'talk'")
    f.subscribe("new", "at >= TIMESTAMP '2026-01-01'")
    return f


MESSAGES = [
    {"price": 1.0, "type": "talk", "at": datetime(2026, 1, 1, tzinfo=UTC)},
    {"price": 9.0, "type": None, "at": None},
    {"price": None, "type": "talk", "at": datetime(2025, 1, 1, tzinfo=UTC)},
    {"price": 4.0, "type": "mail", "at": datetime(2027, 1, 1, tzinfo=UTC)},
]
BY_MESSAGE = [["cheap", "new", "talk"], [], ["talk"], ["cheap", "new"]]


@pytest.mark.parametrize(
    "shape",
    [
        lambda rows: rows,
        tuple,
        iter,
        pa.Table.from_pylist,
        pa.RecordBatch.from_pylist,
        lambda rows: pa.concat_tables(
            [pa.Table.from_pylist(rows[:2]), pa.Table.from_pylist(rows[2:])]
        ),
    ],
    ids=["list", "tuple", "iterator", "table", "record batch", "chunks"],
)
def test_match_many(shape):
    f = batch_filter()
    schema_first = f.match_many(MESSAGES[:1])
    assert schema_first.by_message() == BY_MESSAGE[:1]
    matches = f.match_many(shape(MESSAGES) if shape is iter else _shaped(shape))
    assert isinstance(matches, germane.Matches)
    assert matches.by_message() == BY_MESSAGE
    assert matches.by_profile() == {"cheap": [0, 3], "new": [0, 3], "talk": [0, 2]}
    assert matches.n_messages == 4
    assert len(matches) == 6
    assert "6 deliveries of 4 messages" in repr(matches)
    assert [f.match(message) for message in MESSAGES] == BY_MESSAGE


def _shaped(shape):
    try:
        return shape(MESSAGES)
    except pa.ArrowInvalid:  # chunks whose first rows leave a column without a type
        return pa.Table.from_pylist(MESSAGES)


def test_match_many_with_arrow_types(f):
    f.subscribe("p", "a < 5 AND b = TRUE AND s = 'x' AND d = TIMESTAMP '2026-01-02'")
    table = pa.table(
        {
            "a": pa.array([1, None, 3], pa.int8()),
            "b": pa.array([True, True, True]),
            "s": pa.array(["x", "x", "x"]).dictionary_encode(),
            "d": pa.array([date(2026, 1, 2)] * 3, pa.date32()),
            "f": pa.array([1.5, 2.5, None], pa.float32()),
            "k": pa.array([Decimal("1.50")] * 3, pa.decimal128(5, 2)),
            "large": pa.array(["u", "v", None], pa.large_string()),
            "nothing": pa.nulls(3),
        }
    )
    assert f.match_many(table).by_message() == [["p"], [], ["p"]]
    assert f.match_many(table.slice(1)).by_message() == [[], ["p"]]
    assert f.match_many(table.to_batches()[0]).by_profile() == {"p": [0, 2]}
    assert f.match_many(table.slice(0, 0)).by_message() == []


@pytest.mark.parametrize(("ids", "type_"), [([3, 1], pa.int64()), (["b", "a"], pa.string())])
def test_to_arrow(f, ids, type_):
    f.subscribe_many(ids, ["x < 5", "x < 9"])
    table = f.match_many([{"x": 1}, {"x": 20}, {"x": 7}]).to_arrow()
    assert table.column_names == ["message", "profile", "cost"]
    assert table.schema.types == [pa.int64(), type_, pa.float64()]
    assert table.to_pydict() == {
        "message": [0, 0, 2],
        "profile": [*sorted(ids), ids[1]],
        "cost": [0.0, 0.0, 0.0],
    }


def test_arrow_tables_of_batches_can_be_joined(f):
    f.subscribe("a", "x < 5")
    some = f.match_many([{"x": 1}]).to_arrow()
    none = f.match_many([{"x": 9}]).to_arrow()
    assert none.num_rows == 0
    assert none.schema == some.schema
    assert pa.concat_tables([some, none]).num_rows == 1


@pytest.mark.parametrize("ids", [[1, "a"], [1, 10**30]], ids=["mixed", "huge"])
def test_to_arrow_of_ids_that_no_arrow_type_holds(f, ids):
    """A table (of strings, say), or an error that says so; not Arrow's own words."""
    f.subscribe_many(ids, ["x < 5"] * 2)
    matches = f.match_many([{"x": 1}])
    try:
        table = matches.to_arrow()
    except germane.GermaneError:
        return
    assert table.num_rows == 2
    assert table["profile"].null_count == 0


def test_matches_keep_their_ids_when_profiles_go(f):
    f.subscribe_many(["a", "b"], ["x < 5"] * 2)
    matches = f.match_many([{"x": 1}])
    f.unsubscribe("a")
    f.subscribe("c", "x < 5")
    assert matches.by_message() == [["a", "b"]]
    assert matches.by_profile() == {"a": [0], "b": [0]}


def test_match_many_equals_match():
    f = numbers(50)
    messages = [{"x": i % 60} for i in range(200)]
    assert f.match_many(messages).by_message() == [f.match(message) for message in messages]


def test_match_rows_takes_vectors():
    f = numbers(20)
    assert f.attributes == ["x"]
    assert len(f.match_rows(np.array([12.0]))) == 8
    assert len(f.match_rows({"x": 12})) == 8
    assert len(f.match_rows(np.array([np.nan]))) == 0


# explain -----------------------------------------------------------------------------------------


def test_explain_a_match(f):
    condition = "type = 'talk' AND time BETWEEN context.first + 1 AND context.last"
    f.subscribe("p", condition, context="ann")
    f.update("ann", {"first": 8, "last": 17})
    why = f.explain("p", {"type": "talk", "time": 16})
    assert why.matched
    assert (why.profile, why.context) == ("p", "ann")
    assert all(step.truth is True for step in why.steps)
    steps = {step.text: step for step in why.steps}
    assert steps["type = 'talk'"].left == "talk"
    (time,) = [step for step in why.steps if step.text.startswith("time")]
    assert time.left == 16
    assert time.right == (9, 17)
    assert "context.first" in time.text
    assert "context.last" in time.text
    assert "matches" in str(why)
    assert "16" in str(why)
    assert "'p'" in str(why)


def test_explain_what_failed(f):
    f.subscribe("p", "type = 'talk' AND time < context.last", context="ann")
    f.update("ann", {"last": 17})
    why = f.explain("p", {"type": "talk", "time": 18})
    assert not why.matched
    (failed,) = [step for step in why.steps if step.truth is not True]
    assert failed.text == "time < context.last"
    assert failed.truth is False
    assert (failed.left, failed.right) == (18, 17)
    assert "does not match" in why.text
    assert "time < context.last: FALSE" in why.text
    f.update("ann", {"last": None})
    (failed,) = [s for s in f.explain("p", {"type": "talk", "time": 18}).steps if not s.truth]
    assert failed.truth is None
    assert "UNKNOWN" in str(failed)
    (failed,) = [s for s in f.explain("p", {"type": "mail"}).conjunctions[0] if s.truth is False]
    assert (failed.left, failed.right) == ("mail", "talk")


def test_explain_alternatives(f):
    f.subscribe("p", "(a = 1 AND b = 1) OR (c = 1 AND d = 1)")
    why = f.explain("p", {"a": 1, "b": 2, "c": 3, "d": 4})
    assert len(why.conjunctions) == 2
    assert [step.text for step in why.steps] == ["a = 1", "b = 1"]
    assert "alternative 2 of 2" in str(why)
    why = f.explain("p", {"a": 2, "b": 2, "c": 1, "d": 1})
    assert why.matched
    assert [step.text for step in why.steps] == ["c = 1", "d = 1"]


def test_explain_names_one_of_several_residual_predicates(f):
    f.subscribe("p", "a <> 1 AND b <> 2")
    (failed,) = [step for step in f.explain("p", {"a": 1, "b": 3}).steps if not step.truth]
    assert "a <> 1" in failed.text
    assert "b" not in failed.text


@pytest.mark.parametrize(
    ("condition", "message", "shown"),
    [
        ("s <> 'x' AND n = 2", {"s": "unheard of", "n": 1}, "unheard of"),
        ("s LIKE '%x'", {"s": "unheard of"}, "unheard of"),
        ("s = r", {"s": "unheard of", "r": "y"}, "unheard of"),
        ("ABS(n - context.n) < 2", {"n": 1234}, "1234"),
        ("n <> context.n", {"n": 5}, "5"),
        ("t <> TIMESTAMP '2026-01-02'", {"t": "2026-01-02T00:00:00Z"}, "TIMESTAMP '2026-01-02"),
        ("b <> TRUE", {"b": True}, "<> TRUE"),
        ("DISTANCE(here, context.here) < 5", {"here": (12.5, 77.25)}, "12.5"),
        ("context.s LIKE 'z%'", {}, "in a context"),
        ("context.n > 1000", {}, "5"),
    ],
)
def test_explain_shows_the_values(f, condition, message, shown):
    f.subscribe("p", condition, context="c")
    f.update("c", {"n": 5, "s": "in a context", "here": MUNICH})
    assert shown in str(f.explain("p", message))


def test_explain_infinities(f):
    f.subscribe("p", "context.a < 5 AND n < context.a AND n <> context.a", context="c")
    f.update("c", {"a": math.inf})
    why = f.explain("p", {"n": math.inf})
    assert not why.matched
    assert "inf" in str(why)


def test_explain_constants(f):
    f.subscribe("always", "TRUE")
    f.subscribe("never", "FALSE", context="c")
    assert f.explain("always", {}).matched
    assert str(f.explain("always", {}))
    assert not f.explain("never", {}).matched
    assert "FALSE" in str(f.explain("never", {}))


def test_explain_agrees_with_match(f):
    conditions = [
        "a < context.a AND NOT b = 'x'",
        "a IS NULL OR b LIKE 'y%'",
        "a NOT BETWEEN 2 AND 4 AND context.a IS NOT NULL",
        "context.b = b OR a / context.a > 1",
        "NOT (a = 1 OR b IN ('x', 'y'))",
    ]
    f.subscribe_many(range(5), conditions, ["c"] * 5)
    for a, b, ca, cb in itertools.product(
        [None, 1, 3], [None, "x", "yy"], [None, 0, 2], [None, "x"]
    ):
        f.update("c", {"a": ca, "b": cb})
        message = {"a": a, "b": b}
        matched = f.match(message)
        assert [i for i in range(5) if f.explain(i, message).matched] == matched
