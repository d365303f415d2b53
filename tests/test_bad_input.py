"""Bad input: every public call refuses it in words that name it, and the filter stays as it was."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Hashable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import germane
from germane import (
    BatchError,
    ConditionError,
    DuplicateProfile,
    Filter,
    GermaneError,
    InvalidValue,
    TypeMismatch,
    UnknownAttribute,
    UnknownProfile,
)
from germane.model.errors import shown

SCHEMA = {"n": "number", "s": "string", "b": "boolean", "t": "timestamp", "here": "location"}
PROBES = [
    {"n": 3, "s": "w3", "b": True, "t": "2026-06-01T00:00:00Z", "here": (48.1, 11.5)},
    {"n": 7, "s": "w0"},
    {"n": -1, "s": "unheard of", "b": False},
    {"n": None, "s": "w5", "here": None},
    {},
]
HUGE = 10**400
ENDLESS = 10**5_000  # too long for Python to write out
EXACT = 2**53  # microseconds: some moment in 2255


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    """Indexes from the first few rows on."""
    monkeypatch.setattr("germane.filter.table.SETTLE_ROWS", 8)


def populated(schema: dict[str, str] | None, ids: list[Any]) -> Filter:
    f = Filter(schema=schema)
    forms = [
        "n < context.n + {i} AND s = context.s",
        "s > 'w{i}' OR n = {i}",
        "context.n < 5 AND n > {i}",
        "b = TRUE AND t > TIMESTAMP '2026-01-01'",
        "DISTANCE(here, context.here) < 100000",
        "s LIKE '%{i}' AND context.s LIKE 'w%'",
    ]
    conditions = [forms[i % 6].replace("{i}", str(i // 6)) for i in range(len(ids))]
    f.subscribe_many(ids, conditions, [f"c{i % 7}" for i in range(len(ids))])
    for i in range(7):
        f.update(f"c{i}", {"n": i, "s": f"w{i}", "here": (48.0, 11.0 + i / 10)})
    for probe in PROBES:
        f.match(probe)
    return f


@pytest.fixture
def closed() -> Filter:
    return populated(SCHEMA, [f"p{i:02}" for i in range(48)])


@pytest.fixture
def free() -> Filter:
    """No schema, integers as ids."""
    return populated(None, list(range(48)))


def picture(f: Filter) -> tuple[Any, ...]:
    """What must not change when a call is refused."""
    answers = [f.match(probe) for probe in PROBES]
    stats = f.stats()
    held = {name: stats[name] for name in ("profiles", "contexts", "conjunctions")}
    f._check()
    return answers, held, len(f), f.attributes, f._schema.state()


def refused(
    f: Filter,
    call: Callable[[Filter], Any],
    naming: str = "",
    kind: type = GermaneError,
    before: tuple[Any, ...] | None = None,
) -> GermaneError:
    """The error of a call that must be refused without a trace."""
    before = before or picture(f)
    assert any(before[0])
    with pytest.raises(GermaneError) as caught:
        call(f)
    error = caught.value
    assert isinstance(error, ValueError | KeyError | TypeError)
    assert isinstance(error, kind), repr(error)
    assert naming in str(error)
    assert picture(f) == before
    return error


def first_error(matches: Any) -> None:
    """Raise the error of a batch's first message: a batch itself goes on."""
    assert matches.counts[0] == 0
    raise matches.errors[0]


def alone(f: Filter, messages: Any) -> None:
    """Raise the error of a batch of one message."""
    first_error(f.match_many(messages))


def each(*cases: tuple[str, Callable[[Filter], Any], str, type]) -> Any:
    """Parametrise by (name, call, what the error names, its kind)."""
    return pytest.mark.parametrize(
        ("call", "naming", "kind"), [case[1:] for case in cases], ids=[case[0] for case in cases]
    )


# attributes --------------------------------------------------------------------------------------


@each(
    ("match", lambda f: f.match({"n": 1, "prize": 2}), "'prize'", UnknownAttribute),
    ("match null", lambda f: f.match({"prize": None}), "'prize'", UnknownAttribute),
    (
        "match_many",
        lambda f: first_error(f.match_many([{"prize": 2}])),
        "'prize'",
        UnknownAttribute,
    ),
    ("table", lambda f: f.match_many(pa.table({"prize": [2]})), "'prize'", UnknownAttribute),
    ("explain", lambda f: f.explain("p00", {"prize": 2}), "'prize'", UnknownAttribute),
    ("update", lambda f: f.update("new", {"n": 1, "prize": 2}), "'prize'", UnknownAttribute),
    ("update null", lambda f: f.update("new", {"prize": None}), "'prize'", UnknownAttribute),
    ("update_many", lambda f: f.update_many(["new"], "prize", [2]), "'prize'", UnknownAttribute),
    ("subscribe", lambda f: f.subscribe("q", "prize < 2"), "prize", UnknownAttribute),
    ("context.x", lambda f: f.subscribe("q", "n < context.prize", "c0"), "prize", UnknownAttribute),
    ("case", lambda f: f.subscribe("q", "N < 2"), "N", UnknownAttribute),
    ("case hint", lambda f: f.match({"N": 2}), "'N'", UnknownAttribute),
)
def test_unknown_attributes(closed, call, naming, kind):
    refused(closed, call, naming, kind)


ODD_NAMES = [5, None, "", b"n", ("n",), 1.5, True]


@pytest.mark.parametrize("name", ODD_NAMES, ids=repr)
def test_names_that_are_none(closed, free, name):
    for f in (closed, free):
        refused(f, lambda f: f.match({"n": 1, name: 1}), repr(name))
        refused(f, lambda f: first_error(f.match_many([{name: 1}])), repr(name))
        refused(f, lambda f: f.update("new", {"n": 1, name: 1}), repr(name))
        refused(f, lambda f: f.update("new", {name: None}), repr(name))
        refused(f, lambda f: f.update_many(["new"], name, [1]), repr(name))


@pytest.mark.parametrize("name", [[], {}, ["n"]], ids=repr)
def test_names_that_cannot_be_hashed(closed, free, name):
    for f in (closed, free):
        refused(f, lambda f: f.update_many(["new"], name, [1]), repr(name))


# values ------------------------------------------------------------------------------------------

WRONG = [
    ("n", "text"),
    ("n", True),
    ("n", np.bool_(False)),
    ("n", datetime(2026, 1, 1)),
    ("n", (48.0, 11.0)),
    ("n", b"5"),
    ("n", 1j),
    ("n", object),
    ("n", {1}),
    ("n", [1, 2, 3]),
    ("n", [[1, 2], [3, 4]]),
    ("n", HUGE),
    ("n", -HUGE),
    ("n", ENDLESS),
    ("n", [ENDLESS]),
    ("n", Decimal("sNaN")),
    ("s", 5),
    ("s", ENDLESS),
    ("s", b"text"),
    ("s", True),
    ("s", ["a", "b"]),
    ("s", "x" * 1_000_001),
    ("b", 1),
    ("b", 0.0),
    ("b", "true"),
    ("t", 5),
    ("t", 1.7e9),
    ("t", "yesterday"),
    ("t", ""),
    ("t", "2026-13-01"),
    ("t", "2026-01-01T00:00:00.0000001Z"),
    ("t", "2300-01-01T00:00:00.000001Z"),
    ("t", datetime(2300, 1, 1, 0, 0, 0, 1)),
    ("t", np.datetime64("2300-01-01T00:00:00.000001")),
    ("t", np.datetime64("2026-01-01T00:00:00.000000001")),
    ("t", pd.Timestamp("2026-01-01T00:00:00.000000001")),
    ("t", True),
    ("here", 5),
    ("here", "12"),
    ("here", "Munich"),
    ("here", ()),
    ("here", (1,)),
    ("here", (1, 2, 3)),
    ("here", (91, 0)),
    ("here", (0, 180.5)),
    ("here", (math.nan, 0)),
    ("here", (None, 0)),
    ("here", (math.inf, 0)),
    ("here", ("1", "2")),
    ("here", (True, False)),
    ("here", (HUGE, 0)),
    ("here", (ENDLESS, 0)),
    ("here", ((1, 2), (3, 4))),
    ("here", {"lat": 1}),
    ("here", {"latitude": 1, "longitude": 2}),
    ("here", {"lat": "north", "lon": 2}),
    ("here", b"ab"),
    ("here", bytearray(b"\x01\x02")),
    ("here", {1, 2}),
]


@pytest.mark.parametrize(
    ("name", "value"), WRONG, ids=[f"{name}-{shown(value, 40)}" for name, value in WRONG]
)
@pytest.mark.parametrize("fixture", ["closed", "free"])
def test_wrong_values(request, fixture, name, value):
    f = request.getfixturevalue(fixture)
    profile = "p00" if fixture == "closed" else 0
    good = {"n": 1, "s": "a new string", "b": True}
    good.pop(name, None)
    calls = [
        lambda f: f.match({name: value}),
        lambda f: f.match({**good, name: value}),
        lambda f: first_error(f.match_many([{name: value}])),
        lambda f: f.explain(profile, {name: value}),
        lambda f: f.update("c0", {name: value}),
        lambda f: f.update("new", {**good, name: value}),
        lambda f: f.update_many(["c0"], name, [value]),
        lambda f: f.update_many(["c0", "new"], name, [None, value]),
    ]
    if fixture == "free":
        calls.append(lambda f: f.match({"fresh": 1, name: value}))
    before = picture(f)
    for call in calls:
        refused(f, call, name, before=before)


NO_TYPE = [b"5", 1j, object, {1}, [1, 2, 3], [[1, 2], [3, 4]], [], HUGE, (91, 0)]
NO_TYPE += [bytearray(b"\1\2"), Decimal("sNaN")]


@pytest.mark.parametrize("value", NO_TYPE, ids=lambda value: f"{value!r:.30}")
def test_values_without_a_type(free, value):
    refused(free, lambda f: f.match({"fresh": value}), "'fresh'")
    refused(free, lambda f: f.update("new", {"fresh": value}), "'fresh'")
    refused(free, lambda f: f.update_many(["new"], "fresh", [value]), "'fresh'")
    assert free.match({"fresh": "any type will do"}) == []


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("n", np.array(["a"])),
        ("n", np.array([True])),
        ("n", np.array([1j])),
        ("n", np.array(["2026-01-01"], "M8[D]")),
        ("n", np.array([[1.0, 2.0]])),
        ("s", np.array([5])),
        ("s", np.array([b"bytes"])),
        ("b", np.array([1])),
        ("t", np.array([5])),
        ("t", np.array(["2300-01-01T00:00:00.000001"], "M8[us]")),
        ("t", np.array(["2026-01-01T00:00:00.000000001"], "M8[ns]")),
        ("here", np.array([5.0])),
        ("here", np.array([[1.0, 2.0, 3.0]])),
    ],
    ids=lambda value: f"{value!r:.50}",
)
def test_wrong_arrays(closed, free, name, values):
    refused(closed, lambda f: f.update_many(["c0"], name, values))
    refused(free, lambda f: f.update_many(["new"], name, values))


def test_nan_is_null_and_infinity_is_a_number(closed):
    before = picture(closed)
    nulls = [None, math.nan, np.float64("nan"), np.float32("nan")]
    for name in SCHEMA:
        for null in nulls:
            assert closed.match({name: null}) == closed.match({})
            closed.update("spare", {name: null})
            closed.update_many(["spare"], name, [null])
    assert closed.match({"n": math.inf, "s": ""}) == closed.match({"n": 1e308, "s": ""})
    closed.update("spare", {"n": -math.inf})
    closed.update_many(["spare"], "n", np.array([math.inf]))
    assert picture(closed)[0] == before[0]


@pytest.mark.parametrize("null", [Decimal("NaN"), np.datetime64("NaT")], ids=repr)
def test_nulls_of_other_libraries(closed, null):
    for name in SCHEMA:
        assert closed.match({name: null}) == closed.match({})
        closed.update("spare", {name: null})


def test_timestamps_in_exact_range_are_fine(closed):
    exact = np.datetime64(EXACT, "us")
    closed.subscribe("q", "t = context.t", context="q")
    closed.update("q", {"t": exact})
    assert "q" in closed.match({"t": exact})
    assert "q" not in closed.match({"t": exact - np.timedelta64(1, "us")})
    closed.update("q", {"t": datetime.min})
    assert "q" in closed.match({"t": "0001-01-01"})


# a refused call leaves no trace ------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 30, 300])
def test_new_strings_of_a_refused_column(closed, n):
    """New strings may number all strings anew; a bad value after them must not lose the others."""
    words = [f"w0{i:04}" for i in range(n)]
    refused(closed, lambda f: f.update_many(["c0"] * (n + 1), "s", [*words, 5]), "5", TypeMismatch)


@pytest.mark.parametrize("n", [1, 30])
def test_new_strings_of_refused_updates(closed, n):
    """Each of these falls between the last and its neighbour, until no number is left there."""
    for i in range(n):
        text = f"w0{i:04}"
        refused(closed, lambda f, text=text: f.update("c0", {"s": text, "n": "bad"}), "'bad'")


def test_a_refused_message_fixes_no_type(free):
    free.subscribe("late", "late < 5")
    refused(free, lambda f: f.match({"fresh": "text", "late": "bad"}), "'late'")
    refused(free, lambda f: f.match({"fresh": "text", "fresher": b"bad"}), "'fresher'")
    refused(free, lambda f: f.match({"fresh": "text", "n": "bad"}), "'n'")
    assert free.match({"fresh": 5, "late": 7}) == []


def test_a_refused_update_fixes_no_type(free):
    refused(free, lambda f: f.update("new", {"fresh": "text", "n": "bad"}), "'n'")
    refused(free, lambda f: f.update_many(["new"] * 2, "fresh", ["text", 5]), "'fresh'")
    refused(free, lambda f: f.update("new", {"fresh": (1, 2), "other": (91, 0)}), "91")
    free.update("new", {"fresh": 5})


def test_a_refused_condition_fixes_no_type(free):
    refused(free, lambda f: f.subscribe("q", "fresh = 'text' AND fresh < 5"), "fresh")
    refused(free, lambda f: f.subscribe("q", "fresh = 'text' AND"), "end", ConditionError)
    refused(free, lambda f: f.subscribe("q", "fresh = 'text' AND n < context.n"), "context.n")
    refused(free, lambda f: f.subscribe(0, "fresh = 'text'"), "0", DuplicateProfile)
    free.subscribe("q", "fresh < 5")
    assert "q" in free.match({"fresh": 1})


def test_a_bad_message_in_a_batch(free):
    """It becomes an error of its row, is not counted and fixes no type; the others are matched."""
    batch = [{"n": 1}, {"n": "bad", "fresh": 1}, {"n": 2}]
    before = free.stats()["messages"]
    matches = free.match_many(batch)
    assert list(matches.errors) == [1]
    assert isinstance(matches.errors[1], TypeMismatch)
    assert "'bad'" in str(matches.errors[1])
    assert free.stats()["messages"] == before + 2
    assert matches.by_message() == [free.match(batch[0]), [], free.match(batch[2])]
    assert isinstance(free.match({"fresh": "text"}), list)


@pytest.mark.parametrize("where", ["seq", "id", "kind", "removed", "x", "unread"])
def test_endless_integers_in_a_stream_are_dead_letters(free, where):
    event = {"seq": 1, "kind": "update", "id": "c0", where: ENDLESS}
    after = {"seq": 2, "kind": "message", "id": 7, "unread": 1}
    found = free.process([event, after])
    assert [rejected.position for rejected in found.rejected] == [0]
    assert len(str(found.rejected[0].reason)) < 1_000
    assert len(found) == len(free.match({"unread": 1}))


def test_unread_attributes_are_checked_each_time(free):
    """Not only at first sight: the second message goes a faster way."""
    refused(free, lambda f: f.match({"unread": HUGE}), "'unread'")
    free.match({"unread": 1})
    refused(free, lambda f: f.match({"unread": HUGE}), "'unread'")
    refused(free, lambda f: f.match({"unread": "text"}), "'unread'")


# conditions --------------------------------------------------------------------------------------

BAD_CONDITIONS = {
    "empty": ("", "empty"),
    "blank": (" \t\n ", "empty"),
    "a value": ("5", ""),
    "a string": ("'text'", ""),
    "unfinished": ("n <", "expected a value"),
    "two operators": ("n < < 5", ""),
    "stray": ("n < 5;", "semicolon"),
    "open": ("(n < 5", ""),
    "close": ("n < 5)", ""),
    "quote": ("s = 'x", "never closed"),
    "double quote": ('s = "x', "never closed"),
    "equals null": ("n = NULL", "IS NULL"),
    "chain": ("1 < n < 5", "chain"),
    "types": ("n < 'text'", ""),
    "types of two": ("n = s", ""),
    "types in list": ("n IN (1, 'x')", ""),
    "like a number": ("n LIKE 'x%'", ""),
    "add strings": ("s + 1 < 5", ""),
    "order of locations": ("here < context.here", ""),
    "distance of numbers": ("DISTANCE(n, context.n) < 5", ""),
    "no function": ("SQRT(n) < 5", "SQRT"),
    "no timestamp": ("t > TIMESTAMP 'soon'", "soon"),
    "fine timestamp": ("t > TIMESTAMP '2300-01-01T00:00:00.000001Z'", "2300"),
    "escape": ("s LIKE 'x' ESCAPE 'xy'", ""),
    "bad escape": ("s LIKE 'x!' ESCAPE '!'", ""),
    "no graph": ("s WITHIN 'x'", "WITHIN"),
    "no context": ("n < context.", ""),
    "dotted": ("a.b < 5", "context"),
    "nul": ("n < \x00", ""),
    "surrogate": ("\ud800 < 5", ""),
    "curly quotes": ("s = ‘x’", "quote"),
    "1 MB": ("n < 5 OR " * 110_000 + "n < 5", ""),
    "1 MB of blanks": (" " * 1_000_000, ""),
    "1 MB of quotes": ("'" * 1_000_001, ""),
    "1 MB of one name": ("x" * 1_000_000 + " < 5", ""),
    "deep": ("(" * 10_000 + "n < 5" + ")" * 10_000, "nested"),
    "deep open": ("(" * 10_000, "nested"),
    "deep not": ("NOT " * 10_000 + "n < 5", "nested"),
    "deep minus": ("n < " + "- " * 10_000 + "5", "nested"),
    "deep sum": ("n < " + "(1 + " * 10_000 + "n" + ")" * 10_000, "nested"),
    "deep abs": ("n < " + "ABS(" * 10_000 + "n" + ")" * 10_000, "nested"),
}


@pytest.mark.parametrize(
    ("text", "naming"), list(BAD_CONDITIONS.values()), ids=list(BAD_CONDITIONS)
)
def test_bad_conditions(closed, free, text, naming):
    for f in (closed, free):
        error = refused(f, lambda f: f.subscribe("q", text, context="new"), naming, ConditionError)
        assert 0 <= error.position <= len(text)
        assert len(str(error)) < 2000
    with pytest.raises(BatchError) as caught:
        closed.subscribe_many(["q", "r", "s"], ["n < 1", text, "n < 2"], ["c0"] * 3)
    ((position, profile_id, error),) = caught.value.errors
    assert (position, profile_id) == (1, "r")
    assert isinstance(error, ConditionError)
    assert {"q", "s"} <= set(closed.match({"n": 0}))
    assert "r" not in closed
    closed._check()


@pytest.mark.parametrize("text", [None, 5, b"n < 5", ["n < 5"], True, {"n": 5}], ids=repr)
def test_conditions_that_are_no_text(free, text):
    refused(free, lambda f: f.subscribe("q", text), type(text).__name__)
    with pytest.raises(BatchError) as caught:
        free.subscribe_many(["q", "r"], [text, "n < 5"])
    assert [who for _, who, _ in caught.value.errors] == ["q"]
    assert "r" in free


def test_a_condition_on_a_context_without_one(closed):
    error = refused(closed, lambda f: f.subscribe("q", "n < context.n"), "'q'", InvalidValue)
    assert "context.n" in str(error)
    closed.subscribe("r", "n < context.n", context="c0")  # known now; still refused without one
    refused(closed, lambda f: f.subscribe("q", "n < context.n"), "context.n", InvalidValue)


def test_long_conditions_within_the_limit(free):
    text = "n = 1 OR " * 20_000 + "n = 2"
    free.subscribe("long", text)
    assert "long" in free.match({"n": 2})
    assert "long" not in free.match({"n": 3})
    free.subscribe("deep", "(" * 150 + "n = 2" + ")" * 150)
    assert "deep" in free.match({"n": 2})
    free.subscribe("right", "n = " + "(1 + " * 150 + "n" + ")" * 150 + " - 150")
    assert "right" in free.match({"n": 2})
    free._check()


# ids ---------------------------------------------------------------------------------------------

BAD_IDS = [None, True, False, 1.0, 1.5, math.nan, b"p", (1,), np.bool_(True), np.float64(1), object]
UNHASHABLE = [[], [1], {}, {1}, np.arange(3), np.array(1)]


@pytest.mark.parametrize("bad", BAD_IDS + UNHASHABLE, ids=lambda value: f"{value!r:.40}")
def test_bad_ids(closed, free, bad):
    """Of profiles and contexts; 1.0 and True are no other words for 1."""
    free.subscribe("mixed kinds", "n < 5")
    ints = populated(None, list(range(48)))
    for f in (closed, free, ints):
        refused(f, lambda f: f.subscribe(bad, "n < 5"), repr(bad))
        refused(f, lambda f: f.unsubscribe(bad), repr(bad))
        refused(f, lambda f: f.explain(bad, {}), repr(bad))
        refused(f, lambda f: f.update(bad, {"n": 1}), repr(bad))
        refused(f, lambda f: f.update_many([bad], "n", [1]), repr(bad))
        refused(f, lambda f: f.update_many(["c0", bad], "n", [1, 2]), repr(bad))
        if bad is not None:
            refused(f, lambda f: f.subscribe("q", "n < 5", context=bad), repr(bad))
        assert not isinstance(bad, Hashable) or bad not in f
        with pytest.raises(BatchError) as caught:
            f.subscribe_many(["q", bad], ["n < 5"] * 2)
        assert [position for position, _, _ in caught.value.errors] == [1]
        assert "q" in f
        f._check()


@pytest.mark.parametrize("unknown", ["", "nobody", 99, -1, 10**30, 2**31, "0", "\ud800"], ids=repr)
def test_unknown_profiles(closed, free, unknown):
    for f in (closed, free):
        refused(f, lambda f: f.unsubscribe(unknown), repr(unknown), UnknownProfile)
        refused(f, lambda f: f.explain(unknown, {"n": 1}), repr(unknown), UnknownProfile)
        assert unknown not in f


def test_unsubscribing_twice(closed, free):
    closed.unsubscribe("p03")
    refused(closed, lambda f: f.unsubscribe("p03"), "'p03'", UnknownProfile)
    free.unsubscribe(3)
    refused(free, lambda f: f.unsubscribe(3), "3", UnknownProfile)


def test_duplicate_profiles(closed, free):
    refused(closed, lambda f: f.subscribe("p03", "n < 5"), "'p03'", DuplicateProfile)
    refused(free, lambda f: f.subscribe(3, "n < 5"), "3", DuplicateProfile)
    refused(free, lambda f: f.subscribe(np.int64(3), "n < 5"), "3", DuplicateProfile)
    refused(free, lambda f: f.subscribe_many(np.array([3]), ["n < 5"]), "3", DuplicateProfile)


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_duplicate_profiles_in_a_batch(free, kind):
    with pytest.raises(BatchError) as caught:
        free.subscribe_many(kind([100, 3, 100, 101, 101]), [f"fresh = {i}" for i in range(5)])
    assert [(at, who) for at, who, _ in caught.value.errors] == [(1, 3), (2, 100), (4, 101)]
    assert all(isinstance(error, DuplicateProfile) for _, _, error in caught.value.errors)
    assert caught.value.accepted == 2
    assert len(free) == 50
    assert [free.match({"fresh": i}) for i in range(5)] == [[100], [], [], [101], []]
    free._check()


def test_duplicates_across_chunks_of_a_batch():
    f = Filter()
    n = 5000
    with pytest.raises(BatchError) as caught:
        f.subscribe_many([*range(n), 0], ["n = 1"] * (n + 1))
    assert [(at, who) for at, who, _ in caught.value.errors] == [(n, 0)]
    assert len(f) == n
    f._check()


def test_a_refused_id_may_come_again_in_its_batch(free):
    with pytest.raises(BatchError) as caught:
        free.subscribe_many(["q", "q"], ["n <", "n < 5"])
    assert [position for position, _, _ in caught.value.errors] == [0]
    assert "q" in free.match({"n": 1})


# shapes of arguments -----------------------------------------------------------------------------


@each(
    ("fewer conditions", lambda f: f.subscribe_many(["q", "r"], ["n < 5"]), "2", InvalidValue),
    ("more conditions", lambda f: f.subscribe_many(["q"], ["n < 5"] * 2), "2", InvalidValue),
    ("fewer contexts", lambda f: f.subscribe_many(["q"], ["n < 5"], []), "0", InvalidValue),
    ("more contexts", lambda f: f.subscribe_many(["q"], ["n < 5"], ["c", "d"]), "2", InvalidValue),
    ("str as ids", lambda f: f.subscribe_many("q", ["n < 5"]), "", InvalidValue),
    ("str as conditions", lambda f: f.subscribe_many(["q"], "n"), "", InvalidValue),
    ("str contexts", lambda f: f.subscribe_many([70, 71], ["n < 5"] * 2, "cd"), "", InvalidValue),
    ("bytes as ids", lambda f: f.subscribe_many(b"qr", ["n < 5"] * 2), "", GermaneError),
    ("no ids", lambda f: f.subscribe_many(None, ["n < 5"]), "None", GermaneError),
    ("number as ids", lambda f: f.subscribe_many(5, ["n < 5"]), "5", GermaneError),
    ("no conditions", lambda f: f.subscribe_many(["q"], None), "None", GermaneError),
    ("number as contexts", lambda f: f.subscribe_many(["q"], ["n < 5"], 5), "5", GermaneError),
    ("set of ids", lambda f: f.subscribe_many({"q"}, ["n < 5"]), "q", GermaneError),
    ("2-d ids", lambda f: f.subscribe_many(np.zeros((1, 2), int), ["n < 5"]), "", GermaneError),
    ("0-d ids", lambda f: f.subscribe_many(np.array(70), ["n < 5"]), "", GermaneError),
    ("fewer values", lambda f: f.update_many(["c0", "new"], "n", [1]), "2", InvalidValue),
    ("more values", lambda f: f.update_many(["new"], "n", [1, 2]), "2", InvalidValue),
    ("fewer in arrays", lambda f: f.update_many(np.arange(3), "n", np.ones(2)), "3", InvalidValue),
    ("str as contexts of update", lambda f: f.update_many("cd", "n", [1, 2]), "", InvalidValue),
    ("str as values", lambda f: f.update_many(["c0", "new"], "s", "xy"), "", InvalidValue),
    ("bytes as values", lambda f: f.update_many(["c0", "new"], "n", b"xy"), "", GermaneError),
    ("one context", lambda f: f.update_many(5, "n", [1]), "5", GermaneError),
    ("one value", lambda f: f.update_many(["c0"], "n", 5), "5", GermaneError),
    ("no contexts", lambda f: f.update_many(None, "n", [1]), "None", GermaneError),
    ("no values", lambda f: f.update_many(["c0"], "n", None), "None", GermaneError),
    ("str and one value", lambda f: f.update_many("c0", "n", 5), "", GermaneError),
    ("2-d contexts", lambda f: f.update_many(np.zeros((2, 2), int), "n", [1, 2]), "", GermaneError),
    ("0-d values", lambda f: f.update_many(["c0"], "n", np.array(5)), "", GermaneError),
    ("values by name", lambda f: f.update_many(["c0"], "n", {"c0": 5}), "", GermaneError),
    ("update with pairs", lambda f: f.update("c0", [("n", 1)]), "('n', 1)", InvalidValue),
    ("update with None", lambda f: f.update("c0", None), "None", InvalidValue),
    ("update with str", lambda f: f.update("c0", "n"), "'n'", InvalidValue),
    ("match None", lambda f: f.match(None), "None", InvalidValue),
    ("match str", lambda f: f.match("n"), "'n'", InvalidValue),
    ("match list", lambda f: f.match([{"n": 1}]), "{'n': 1}", InvalidValue),
    ("match pairs", lambda f: f.match([("n", 1)]), "('n', 1)", InvalidValue),
    ("match vector", lambda f: f.match(np.zeros(99)), "99", InvalidValue),
    ("match integers", lambda f: f.match_rows(np.zeros(7, int)), "int64", InvalidValue),
    ("match_many None", lambda f: f.match_many(None), "", InvalidValue),
    ("match_many dict", lambda f: f.match_many({"n": 1}), "match", InvalidValue),
    ("match_many str", lambda f: f.match_many("n"), "", InvalidValue),
    ("match_many number", lambda f: f.match_many(5), "", InvalidValue),
    ("match_many bytes", lambda f: f.match_many(b"n"), "", InvalidValue),
    ("match_many of None", lambda f: first_error(f.match_many([None])), "None", InvalidValue),
    ("match_many of strings", lambda f: first_error(f.match_many(["n"])), "'n'", InvalidValue),
    ("match_many of numbers", lambda f: alone(f, pa.array([5])), "5", InvalidValue),
    ("table of bytes", lambda f: alone(f, pa.table({"n": [b"x"]})), "b'x'", GermaneError),
    ("lists", lambda f: alone(f, pa.table({"n": [[1, 2, 3]]})), "[1, 2, 3]", ValueError),
    ("explain None", lambda f: f.explain(0, None), "None", InvalidValue),
    ("explain str", lambda f: f.explain(0, "n"), "'n'", InvalidValue),
    ("explain list", lambda f: f.explain(0, [1]), "[1]", InvalidValue),
)  # fmt: skip
def test_shapes(free, call, naming, kind):
    refused(free, call, naming, kind)


def test_iterators_are_taken_or_refused(free):
    """A generator has no length: either is fine, Python's own complaint is not."""
    for call in (
        lambda: free.update_many((c for c in ["c0"]), "n", [1]),
        lambda: free.update_many(["c0"], "n", (v for v in [1])),
        lambda: free.subscribe_many((c for c in ["q"]), ["n < 5"]),
    ):
        with contextlib.suppress(GermaneError):
            call()
        free._check()


# the constructor ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "naming"),
    [
        ({"index": "btree"}, "'btree'"),
        ({"index": None}, "None"),
        ({"index": 5}, "5"),
        ({"index": []}, "[]"),
        ({"index": "AGILE"}, "'AGILE'"),
        ({"policy": "never"}, "'never'"),
        ({"policy": None}, "None"),
        ({"policy": 1000}, "1000"),
        ({"policy": germane.Fixed}, "Fixed"),
        ({"policy": []}, "[]"),
        ({"structure": "btree"}, "'btree'"),
        ({"structure": None}, "None"),
        ({"structure": []}, "[]"),
        ({"schema": ["n"]}, "['n']"),
        ({"schema": "n"}, "'n'"),
        ({"schema": 5}, "5"),
        ({"schema": {"n": "int"}}, "'int'"),
        ({"schema": {"n": None}}, "None"),
        ({"schema": {"n": float}}, "float"),
        ({"schema": {"n": []}}, "[]"),
        ({"schema": {5: "number"}}, "5"),
        ({"schema": {"": "number"}}, "''"),
    ],
    ids=repr,
)
def test_constructor(options, naming):
    with pytest.raises(InvalidValue) as caught:
        Filter(**options)
    assert isinstance(caught.value, ValueError)
    assert naming in str(caught.value)


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "5", None, math.inf], ids=repr)
def test_fixed(n):
    with pytest.raises(InvalidValue) as caught:
        germane.Fixed(n)
    assert repr(n) in str(caught.value)


def test_a_category_needs_its_graph():
    with pytest.raises(GermaneError, match="'topic' is a category, but of which graph"):
        Filter(schema={"n": "number", "topic": "category"})


@pytest.mark.parametrize("type_", ["xml"])
def test_types_that_are_not_supported_yet(type_):
    f = Filter(schema={"n": "number", "topic": type_})
    f.subscribe("p", "n < 5")
    for call in (
        lambda: f.match({"n": 1, "topic": "x"}),
        lambda: first_error(f.match_many([{"topic": "x"}])),
        lambda: f.update("c", {"topic": "x"}),
        lambda: f.update_many(["c"], "topic", ["x"]),
        lambda: f.subscribe("q", "topic = 'x'"),
    ):
        with pytest.raises(GermaneError, match="topic"):
            call()
    assert f.match({"n": 1}) == ["p"]
    assert f.stats()["contexts"] == 0
    f._check()


# files -------------------------------------------------------------------------------------------


def not_loaded(path: Path) -> None:
    with pytest.raises(GermaneError) as caught:
        Filter.load(path)
    assert isinstance(caught.value, ValueError)
    assert path.name in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00", b"garbage" * 1000, b"PK\x03\x04", b"{}", b"\x93NUMPY", b"\x80\x04N."],
    ids=repr,
)
def test_load_garbage(tmp_path, content):
    path = tmp_path / "garbage.germane"
    path.write_bytes(content)
    not_loaded(path)


def test_load_truncated(tmp_path, free):
    path = tmp_path / "whole.germane"
    free.save(path)
    whole = path.read_bytes()
    cut = tmp_path / "cut.germane"
    for share in (0.001, 0.1, 0.3, 0.5, 0.8, 0.99, 0.999):
        cut.write_bytes(whole[: int(len(whole) * share)])
        not_loaded(cut)
    cut.write_bytes(whole[:-1])
    not_loaded(cut)
    cut.write_bytes(whole[1000:])
    not_loaded(cut)


def test_load_damaged(tmp_path, free):
    """One byte in each of several places: refused, or harmless (padding), never anything else."""
    path = tmp_path / "damaged.germane"
    free.save(path)
    whole = path.read_bytes()
    expected = picture(free)
    for at in range(100, len(whole), len(whole) // 40):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            f = Filter.load(path)
        except GermaneError:
            continue
        assert picture(f) == expected


@pytest.mark.parametrize(
    "arrays",
    [
        {"x": np.arange(3)},
        {"meta": np.arange(3)},
        {"meta": np.frombuffer(b"{}", np.uint8)},
        {"meta": np.frombuffer(b"[]", np.uint8)},
        {"meta": np.frombuffer(b"null", np.uint8)},
        {"meta": np.frombuffer(b'{"format": "germane-filter-0"}', np.uint8)},
        {"meta": np.frombuffer(b'{"format": "germane-filter-1"}', np.uint8)},
        {"meta": np.frombuffer(b'{"format": ', np.uint8)},
        {"meta": np.frombuffer(b"\xff\xfe\xfd", np.uint8)},
    ],
    ids=["no meta", "numbers", "empty", "list", "null", "other", "bare", "cut", "no text"],
)
def test_load_other_archives(tmp_path, arrays):
    path = tmp_path / "other.npz"
    np.savez(path, **arrays)
    not_loaded(path)


def test_load_a_file_with_a_part_missing(tmp_path, free):
    path = tmp_path / "part.npz"
    free.save(path)
    with np.load(path) as file:
        arrays = dict(file)
    for name in ("values", "profile_head", "tables_state", "conjunctions_rows"):
        assert name in arrays or name == "conjunctions_rows"
        np.savez(path, **{key: array for key, array in arrays.items() if key != name})
        if name in arrays:
            not_loaded(path)
    meta = json.loads(arrays["meta"].tobytes())
    for name in ("schema", "strings", "tables", "index", "conjunctions"):
        less = json.dumps({key: value for key, value in meta.items() if key != name})
        np.savez(path, **{**arrays, "meta": np.frombuffer(less.encode(), np.uint8)})
        not_loaded(path)


def other_types(array: np.ndarray) -> list[np.ndarray]:
    """The same bytes and the same numbers under other types, as far as there are any."""
    if array.dtype.names:
        return [array.view(np.dtype([("bytes", "V", array.dtype.itemsize)]))]
    with np.errstate(all="ignore"):  # what does not fit is garbage, as it should be
        wider = array.astype(np.float32 if array.dtype == np.float64 else np.float64)
    return [wider, array.view(f"V{array.itemsize}"), array.astype(array.dtype.newbyteorder())]


@pytest.mark.parametrize("structure", ["blocks", "skiplist"])
def test_load_arrays_of_other_types(tmp_path, structure):
    """Kernels read arrays by their addresses: another type would be read as garbage."""
    path = tmp_path / "types.npz"
    f = Filter(structure=structure)
    f.subscribe_many(range(40), ["n < context.n + 1 AND s = 'x' OR m = 1"] * 40, range(40))
    f.update_many(range(40), "n", range(40))
    assert f.match({"n": 3, "s": "x"}) == list(range(3, 40))
    f.save(path)
    with np.load(path) as file:
        arrays = dict(file)
    assert any(name.startswith("table0_index_") for name in arrays)
    for name, array in arrays.items():
        if name == "meta":
            continue
        for other in other_types(array):
            if other.dtype != array.dtype:
                np.savez(path, **{**arrays, name: other})
                not_loaded(path)
        np.savez(path, **{**arrays, name: array[np.newaxis]})
        not_loaded(path)
        if array.ndim > 1 and min(array.shape) > 1:
            np.savez(path, **{**arrays, name: np.asfortranarray(array)})
            not_loaded(path)
    np.savez(path, **arrays)
    assert Filter.load(path).match({"n": 3, "s": "x"}) == list(range(3, 40))


def test_load_one_array(tmp_path):
    path = tmp_path / "array.npy"
    np.save(path, np.arange(3))
    not_loaded(path)
    np.save(path, np.array([{"a": "pickle"}], object), allow_pickle=True)
    not_loaded(path)


def test_load_a_directory(tmp_path):
    (tmp_path / "directory").mkdir()
    not_loaded(tmp_path / "directory")


def test_load_nothing(tmp_path):
    """A missing file may keep Python's own word for it, which names it."""
    with pytest.raises((GermaneError, FileNotFoundError), match=r"missing\.germane"):
        Filter.load(tmp_path / "missing.germane")


@pytest.mark.parametrize("path", [None, 5, [], 1.5], ids=repr)
def test_paths_that_are_none(free, path):
    refused(free, lambda f: f.save(path), repr(path))
    refused(free, lambda f: f.load(path), repr(path))


def test_save_where_nothing_can_be_saved(tmp_path, free):
    """The system's own error is fine; the old file and the filter stay, and no part is left."""
    before = picture(free)
    (tmp_path / "directory").mkdir()
    for path in (tmp_path / "directory", tmp_path / "missing" / "file"):
        with pytest.raises((GermaneError, OSError)):
            free.save(path)
    assert picture(free) == before
    assert [path.name for path in tmp_path.iterdir()] == ["directory"]


@pytest.mark.filterwarnings("error")
def test_contexts_as_far_apart_as_numbers_go():
    """Their distance is no number any more; nobody hears of that."""
    f = germane.Filter(index="agile")
    limits = {"low": -1.7e308, "high": 1.7e308}
    for context, limit in limits.items():
        f.update(context, {"limit": limit})
    for context in limits:
        f.subscribe(context, "price <= context.limit", context)
    assert f.match({"price": 0.0}) == ["high"]
    f.update("low", {"limit": 1.0})
    assert f.match({"price": 0.0}) == ["high", "low"]
    f._check()
