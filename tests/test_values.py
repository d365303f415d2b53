"""Values of contexts and of messages, by small examples: updates, strings, types."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
from examples import BERLIN, MUNICH, PARIS, STRUCTURES, every_index, every_structure

import germane

pytestmark = pytest.mark.usefixtures("early_indexes")


# contexts ----------------------------------------------------------------------------------------


@every_structure
def test_profiles_share_a_context(structure):
    f = germane.Filter(structure=structure)
    f.subscribe_many(range(30), [f"x < context.limit + {i}" for i in range(30)], ["shared"] * 30)
    f.update("shared", {"limit": 0})
    assert f.match({"x": 20}) == list(range(21, 30))
    f.update("shared", {"limit": 10})
    assert f.match({"x": 20}) == list(range(11, 30))
    for i in range(0, 30, 2):
        f.unsubscribe(i)
    f.update("shared", {"limit": 20})
    assert f.match({"x": 20}) == list(range(1, 30, 2))
    assert f.stats()["contexts"] == 1
    f._check()


def test_profiles_and_contexts_have_ids_of_their_own(f):
    f.subscribe("x", "n < context.n", context="x")
    f.unsubscribe("x")
    f.update("x", {"n": 5})
    f.subscribe("x", "n < context.n", context="x")
    assert f.match({"n": 4}) == ["x"]


def test_values_set_before_a_profile_reads_them(f):
    f.update("c", {"n": 5, "s": "five"})
    f.subscribe("p", "n = context.n AND s = context.s", context="c")
    assert f.match({"n": 5, "s": "five"}) == ["p"]


def test_an_update_leaves_other_attributes(f):
    f.subscribe("p", "a = context.a AND b = context.b", context="c")
    f.update("c", {"a": 1, "b": 2})
    f.update("c", {"a": 3})
    assert f.match({"a": 3, "b": 2}) == ["p"]
    f.update("c", {"b": math.nan})
    assert f.match({"a": 3, "b": 2}) == []


def test_infinities_are_bounds(f):
    f.subscribe_many(["lo", "hi"], ["x > context.lo", "x < context.hi"], ["c", "c"])
    f.update("c", {"lo": -math.inf, "hi": math.inf})
    assert f.match({"x": 1e308}) == ["hi", "lo"]
    assert f.match({"x": math.inf}) == ["lo"]
    assert f.match({"x": -math.inf}) == ["hi"]
    assert f.match({"x": math.nan}) == []


@every_index
@every_structure
def test_context_only_predicates_sleep_and_wake(index, structure):
    f = germane.Filter(index=index, structure=structure)
    conditions = ["x >= 0 AND context.unread < 100"] * 20
    f.subscribe_many(range(20), conditions, range(20))
    f.subscribe("only", "context.unread < 100", context=0)
    f.subscribe("null", "context.unread IS NULL", context=0)
    assert f.match({"x": 1}) == ["null"]
    f.update_many(range(20), "unread", [50] * 20)
    assert f.match({"x": 1}) == [*range(20), "only"]
    f.update(0, {"unread": 100})
    assert f.match({"x": 1}) == list(range(1, 20))
    f.update_many([0, 3, 4], "unread", [99, 500, None])
    assert f.match({"x": 1}) == [0, 1, 2, *range(5, 20), "only"]
    f.unsubscribe(3)
    f.update(3, {"unread": 1})
    assert f.match({"x": 1}) == [0, 1, 2, *range(5, 20), "only"]
    f.update(0, {"unread": None})
    assert f.match({}) == ["null"]
    f._check()


def test_like_on_contexts(f):
    f.subscribe("p", "context.room LIKE 'Main %' AND x > 0", context="c")
    f.subscribe("n", "context.room NOT LIKE '%1_' AND x > 0", context="c")
    f.subscribe("e", "context.room LIKE '100!%' ESCAPE '!'", context="c")
    assert f.match({"x": 1}) == []
    for room in ["Main 12", "Side 12", "Main 20", "100%", "", "Main ", "main 20", "100", "日本"]:
        f.update("c", {"room": room})
        expected = ["e"] if room == "100%" else []
        expected += ["n"] if not (len(room) >= 2 and room[-2] == "1") else []
        expected += ["p"] if room.startswith("Main ") else []
        assert f.match({"x": 1}) == expected, room
    f.update("c", {"room": None})
    assert f.match({"x": 1}) == []


def test_like_on_messages(f):
    patterns = ["ab%", "%ab", "a_b", "%a%b%", "ab", "%", "_", ""]
    f.subscribe_many(patterns, [f"s LIKE '{pattern}'" for pattern in patterns])
    assert f.match({"s": "ab"}) == sorted(["ab%", "%ab", "%a%b%", "ab", "%"])
    assert f.match({"s": "axb"}) == sorted(["a_b", "%a%b%", "%"])
    assert f.match({"s": ""}) == ["", "%"]
    assert f.match({"s": "x"}) == ["%", "_"]
    assert f.match({"s": None}) == []


# update_many -------------------------------------------------------------------------------------


def equals(values_of: dict[object, object]) -> germane.Filter:
    f = germane.Filter()
    n = len(values_of)
    f.subscribe_many(list(values_of), ["v = context.v"] * n, list(values_of))
    return f


def test_update_many_strings():
    f = equals(dict.fromkeys(range(6)))
    f.update_many(range(6), "v", ["a", "b", None, "a", "", "ß"])
    assert f.match({"v": "a"}) == [0, 3]
    assert f.match({"v": ""}) == [4]
    assert f.match({"v": "ß"}) == [5]
    f.update_many(np.array([0, 2]), "v", np.array(["b", "a"]))
    assert f.match({"v": "a"}) == [2, 3]
    assert f.match({"v": "b"}) == [0, 1]
    f.update_many([1], "v", np.array([None], object))
    assert f.match({"v": "b"}) == [0]


def test_update_many_numbers_none_and_nan():
    f = equals(dict.fromkeys(range(5)))
    f.update_many(list(range(5)), "v", [1, None, math.nan, 1.0, math.inf])
    assert f.match({"v": 1}) == [0, 3]
    assert f.match({"v": math.inf}) == [4]
    assert f.match({"v": math.nan}) == []
    f.update_many(np.arange(5), "v", np.array([np.nan, 1, 1, 2, 1], np.float32))
    assert f.match({"v": 1}) == [1, 2, 4]
    f.update_many(np.arange(5, dtype=np.uint8), "v", np.ones(5, np.int16))
    assert f.match({"v": 1}) == list(range(5))


def test_update_many_only_nulls_fix_no_type():
    f = equals(dict.fromkeys(range(2)))
    f.update_many([0, 1], "v", [None, None])
    f.update_many([0, 1], "v", ["s", None])
    assert f.match({"v": "s"}) == [0]


def test_update_many_later_ones_win():
    f = equals(dict.fromkeys(range(2)))
    f.update_many([0, 1, 0], "v", [1, 1, 2])
    assert f.match({"v": 1}) == [1]
    assert f.match({"v": 2}) == [0]


def test_update_many_booleans():
    f = equals(dict.fromkeys("abcd"))
    f.update_many(list("abcd"), "v", [True, False, None, True])
    assert f.match({"v": True}) == ["a", "d"]
    f.update_many(list("abcd"), "v", np.array([False, True, True, False]))
    assert f.match({"v": np.bool_(False)}) == ["a", "d"]


def test_update_many_datetimes():
    f = equals(dict.fromkeys(range(5)))
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    east = noon.astimezone(timezone(timedelta(hours=2)))
    f.update_many(range(5), "v", [noon, east, noon.replace(tzinfo=None), None, date(2026, 11, 15)])
    assert f.match({"v": noon}) == [0, 1, 2]
    assert f.match({"v": "2026-11-15T12:00:00Z"}) == [0, 1, 2]
    assert f.match({"v": np.datetime64("2026-11-15T12:00:00")}) == [0, 1, 2]
    assert f.match({"v": datetime(2026, 11, 15)}) == [4]
    f.update_many(range(2), "v", np.array(["2026-11-15", "NaT"], "M8[D]"))
    assert f.match({"v": date(2026, 11, 15)}) == [0, 4]
    assert f.match({"v": noon}) == [2]
    f.update_many([0], "v", ["2026-11-15T14:00:00+02:00"])
    assert f.match({"v": noon}) == [0, 2]


@pytest.mark.parametrize("schema", [None, {"here": "location"}], ids=["open", "closed"])
def test_update_many_locations(schema):
    f = germane.Filter(schema=schema)
    f.subscribe_many(range(4), ["DISTANCE(here, context.here) < 100000"] * 4, range(4))
    f.update_many(range(4), "here", [MUNICH, list(BERLIN), None, {"lat": 48.2, "lon": 11.6}])
    assert f.match({"here": MUNICH}) == [0, 3]
    assert f.match({"here": BERLIN}) == [1]
    assert f.match({"here": None}) == []
    f.update_many([0, 2], "here", [None, MUNICH])
    assert f.match({"here": {"lat": 48.1, "lon": 11.5}}) == [2, 3]


def test_contexts_made_on_first_sight_by_update_many(f):
    f.update_many(["a", "b", "a"], "n", [1, 2, 3])
    assert f.stats()["contexts"] == 2
    f.subscribe("p", "n = context.n", context="a")
    assert f.match({"n": 3}) == ["p"]


# strings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("structure", STRUCTURES)
def test_labels_survive_thousands_of_ordered_inserts(structure):
    """Every new string falls between 'a' and the last one: numbers run out again and again."""
    f = germane.Filter(structure=structure)
    words = [f"a{i:05}" for i in range(2000)]
    f.subscribe_many(range(len(words)), ["s >= context.s"] * len(words), range(len(words)))
    f.subscribe("b", "s < 'b'")
    f.subscribe("like", "context.s LIKE 'a%9' AND s > 'a'", context=1999)
    f.update("other", {"s": "b"})
    for i, word in reversed(list(enumerate(words))):
        f.update(i, {"s": word})
    assert f._strings.epoch > 50
    for probe in ["a00000", "a00777", "a00777x", "a01999", "a", "b", "c", ""]:
        expected: list[object] = [i for i, word in enumerate(words) if probe >= word]
        expected += ["b"] * (probe < "b") + ["like"] * (probe > "a")
        assert f.match({"s": probe}) == expected, probe
    f._check()


def test_labels_survive_inserts_by_conditions_and_columns(f):
    words = [f"m{i:04}" for i in reversed(range(600))]
    f.subscribe("z", "s = 'z'")
    f.subscribe("a", "s = 'a'")
    for i in range(0, 600, 3):
        f.subscribe(i, f"s = '{words[i]}'")
        f.update_many([i + 1], "s", [words[i + 1]])
        f.subscribe(i + 1, "s = context.s", context=i + 1)
        f.subscribe_many([i + 2], ["s BETWEEN context.s AND context.s"], [i + 2])
        f.update(i + 2, {"s": words[i + 2]})
    for i in [0, 1, 2, 299, 300, 301, 599]:
        assert f.match({"s": words[i]}) == [i]
    assert f.match({"s": "m0100x"}) == []
    assert f.match({"s": "a"}) == ["a"]
    f._check()


def test_odd_strings(f):
    odd = [
        "",
        " ",
        "'",
        "''",
        '"',
        "%",
        "\\",
        "\x00",
        "\U0010ffff",
        "\ud800",
        "é",
        "e\u0301",
        "a\nb",
    ]
    odd.append("x" * 10_000)
    quoted = ["s = '" + text.replace("'", "''") + "'" for text in odd]
    f.subscribe_many(range(len(odd)), quoted)
    for i, text in enumerate(odd):
        assert f.match({"s": text}) == [i]


def test_odd_names(f):
    names = [
        "größe",
        "日本",
        "a b",
        "a.b",
        "select",
        "AND",
        'say "hi"',
        "\x00",
        "😀",
        "Name",
        "name",
    ]
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    f.subscribe_many(names, [f"{q} = context.{q}" for q in quoted], ["c"] * len(names))
    for i, name in enumerate(names):
        f.update("c", {name: i})
    for i, name in enumerate(names):
        assert f.match({name: i}) == [name]
        assert f.match({name: i + 1}) == []


# types -------------------------------------------------------------------------------------------


def test_types_are_fixed_by_first_use(f):
    f.subscribe("p", "n < 5")
    f.update("c", {"s": "text"})
    f.match({"b": True, "t": datetime(2026, 1, 1)})
    f.update("c", {"later": None})
    f.match({"later": None})
    with pytest.raises(germane.TypeMismatch, match=r"'n'.*number.*string"):
        f.update("c", {"n": "x"})
    with pytest.raises(germane.TypeMismatch, match=r"'s'.*string.*number"):
        f.match({"s": 5})
    with pytest.raises(germane.TypeMismatch, match="'b'"):
        f.update_many(["c"], "b", [5])
    with pytest.raises(germane.TypeMismatch, match="'t'"):
        f.match({"t": 5})
    with pytest.raises(germane.ConditionError):
        f.subscribe("q", "n = 'x'")
    f.update("c", {"later": "now a string"})
    with pytest.raises(germane.TypeMismatch, match="later"):
        f.match({"later": 1})


def test_types_unify_across_a_comparison(f):
    f.subscribe("p", "a < context.b", context="c")
    f.subscribe("q", "a = d", context="c")
    assert f.match({"a": None}) == []
    f.update("c", {"b": "m"})
    for name in ("a", "b", "d"):
        with pytest.raises(germane.TypeMismatch, match=f"'{name}'.*string"):
            f.match({name: 5})
    assert f.match({"a": "l"}) == ["p"]
    assert f.match({"a": "n", "d": "n"}) == ["q"]
    assert f.match({"a": "l", "d": "l"}) == ["p", "q"]


def test_types_unify_by_a_message(f):
    f.subscribe("p", "a >= context.b AND a IS NOT NULL", context="c")
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert f.match({"a": moment}) == []
    with pytest.raises(germane.TypeMismatch, match=r"'b'.*timestamp"):
        f.update("c", {"b": 5})
    f.update("c", {"b": moment})
    assert f.match({"a": moment}) == ["p"]
    assert f.match({"a": moment - timedelta(microseconds=1)}) == []


def test_a_location_after_null_tests(f):
    f.subscribe("null", "here IS NULL AND context.here IS NULL", context="c")
    f.subscribe("x", "x > 0")
    assert f.match({"x": 1}) == ["null", "x"]
    assert f.match({"here": MUNICH, "x": 1}) == ["x"]
    f.update("c", {"here": None})
    assert f.match({}) == ["null"]
    f.update("c", {"here": PARIS})
    assert f.match({}) == []
    f.subscribe("near", "DISTANCE(here, context.here) < 1000", context="c")
    assert f.match({"here": PARIS}) == ["near"]
    f._check()


def test_closed_schema():
    f = germane.Filter(schema={"price": "number", "at": "timestamp", "ok": "boolean"})
    f.subscribe("p", "price < 5 AND ok = TRUE AND at > context.at", context="c")
    f.update("c", {"at": "2026-01-01"})
    assert f.match({"price": 1, "ok": True, "at": "2026-01-02T00:00:00Z"}) == ["p"]
    assert f.match({"price": 1, "ok": False, "at": "2026-01-02T00:00:00Z"}) == []
    with pytest.raises(germane.UnknownAttribute, match=r"'prize'.*did you mean 'price'"):
        f.match({"prize": 1})


def test_contexts_as_a_table():
    """What was set last, in the types of the attributes; null where nothing is."""
    f = germane.Filter()
    noon = datetime(2026, 11, 16, 12, tzinfo=UTC)
    f.update("ann", {"n": 1.5, "s": "x", "b": True, "t": noon, "place": (48.0, 11.5)})
    f.update("bob", {"n": 2.0, "s": "y"})
    f.update("bob", {"n": None, "s": "z"})
    first, second = f.contexts().to_pylist()
    assert first == {"id": "ann", "n": 1.5, "s": "x", "b": True, "t": noon, "place": [48.0, 11.5]}
    assert second == {"id": "bob", "n": None, "s": "z", "b": None, "t": None, "place": None}


def test_check_says_what_subscribing_would():
    f = germane.Filter(schema={"x": "number"})
    f.check("x > context.x", context="c")
    for condition, context in (("x >", None), ("x > context.x", None), ("y > 1", None), (7, None)):
        with pytest.raises(germane.GermaneError) as checked:
            f.check(condition, context)
        with pytest.raises(type(checked.value)):
            f.subscribe("p", condition, context)
    assert len(f) == 0


def test_the_same_text_for_many_contexts():
    """Compiled once, each with its own context, also after strings were numbered anew."""
    f = germane.Filter()
    text = "s = 'b' AND x > context.x"
    f.subscribe_many(range(5), [text] * 5, list("abcde"))
    for k, name in enumerate("abcde"):
        f.update(name, {"x": float(k)})
    for k in range(3000):
        f.subscribe(f"other{k}", f"s = '{k % 7}{k}'")
    f.subscribe_many(range(5, 10), [text] * 5, list("abcde"))
    assert f.match({"s": "b", "x": 2.5}) == [0, 1, 2, 5, 6, 7]
