"""Values of contexts and of messages, by small examples: updates, strings, types."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
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


def test_an_update_can_be_checked_and_sets_nothing(f):
    f.update("ann", {"task": "work"})
    before = f.stats()
    for bad in ({"task": 5}, {"fresh": "x", "task": True}, {"seen": {1, 2}}):
        for ask in (f.check_update, f.update):
            with pytest.raises(germane.GermaneError):
                ask("ann", bad)
    f.check_update("ann", {"task": "leisure", "fresh": 5, "gone": None})
    f.check_update("bob", {"fresh": "a word"})  # its type is still open
    assert f.stats() == before
    f.update("ann", {"fresh": "a word", "task": None})


MOMENTS = {
    pa.timestamp("us", "America/New_York"): [0, -62_135_596_800_000_000, 2**53 + 1, 2**62],
    pa.timestamp("us"): [253_402_300_800_000_000, 2**63 - 1, 1],
    pa.timestamp("ns", "UTC"): [1, 1_000, 1_800_000_000_000_000_000],
    pa.timestamp("s"): [2**62, 1, 2_000_000_000],
    pa.timestamp("ms"): [1_234, -1],
    pa.date32(): [-719_162, 0, 30_000, 2**30],
    pa.date64(): [0, 86_400_000],
}


@pytest.mark.parametrize("kind", MOMENTS, ids=str)
def test_moments_of_arrow_are_what_their_numbers_say(kind):
    """All that float64 holds exactly, in any zone, also where Python's calendar has no year."""
    numbers = MOMENTS[kind]
    n = len(numbers) + 1
    table = pa.table(
        {
            "seq": range(n), "kind": ["message"] * n, "id": [f"m{i}" for i in range(n)],
            "t": pa.array([*numbers, None], pa.int64() if kind.bit_width == 64 else pa.int32())
            .cast(kind),
        }
    )  # fmt: skip
    unit = {"date32[day]": 86_400 * 10**6, "date64[ms]": 1_000}.get(str(kind))
    unit = unit or {"s": 10**6, "ms": 1_000, "us": 1, "ns": Fraction(1, 1_000)}[kind.unit]
    micros = [number * unit for number in numbers]
    fine = [abs(m) < 2**63 and m.denominator == 1 and int(float(m)) == m for m in micros]
    f = germane.Filter(schema={"t": "timestamp"})
    f.subscribe("later", "t > TIMESTAMP '1970-01-01T00:00:00.000500'")
    f.subscribe("none", "t IS NULL")
    done = f.process(table)
    found = {(row["message"], *row["profiles"]) for row in done.to_lists().to_pylist()}
    later = {(f"m{i}", "later") for i in range(n - 1) if fine[i] and micros[i] > 500}
    assert found == later | {(f"m{n - 1}", "none")}
    assert [r.position for r in done.rejected] == [i for i in range(n - 1) if not fine[i]]
    for rejected in done.rejected:
        assert "no exact float64" in str(rejected.reason)
        assert rejected.event["t"]


def test_moments_of_arrow_are_those_of_python():
    """As dicts, which go through Python's datetimes, and as a table."""
    moments = [datetime(2026, 11, 16, 12, 0, s, 7 * s, tzinfo=UTC) for s in range(30)]
    events = [{"seq": s, "kind": "message", "id": s, "t": t} for s, t in enumerate(moments)]
    found = []
    for form in (events, pa.Table.from_pylist(events)):
        f = germane.Filter()
        f.update("c", {"t": moments[11]})
        f.subscribe("p", "t >= context.t", context="c")
        found.append(f.process(form).to_lists().to_pylist())
    assert found[0] == found[1]
    assert len(found[0]) == 19


PLACES = [(48, 11), None, (52, 13), (48, -180), (0, 0), (90, 180), (48, 11)]
FORMS = {
    "lists": pa.list_(pa.float64()),
    "large lists": pa.large_list(pa.float32()),
    "pairs": pa.list_(pa.int64(), 2),
    "structs": pa.struct([("lon", pa.float64()), ("lat", pa.float64())]),
    "more": pa.struct([("lat", pa.float32()), ("name", pa.string()), ("lon", pa.int16())]),
}
BAD = [None, (91, 0), (0, -181), (None, 1)]
ONLY_IN_LISTS = [(form, bad) for form in ("lists", "large lists") for bad in ((1,), (1, 2, 3))]


@pytest.mark.parametrize(("form", "bad"), [*product(FORMS, BAD), *ONLY_IN_LISTS], ids=str)
def test_places_of_arrow_are_those_of_python(form, bad):
    """Whether all are fine, and are read as columns, or one is not, and they are one by one."""
    kind = FORMS[form]
    places = [*PLACES, bad, PLACES[0]]
    if pa.types.is_struct(kind):
        places = [None if p is None else {"lat": p[0], "lon": p[1]} for p in places]
    n = len(places)
    events = [{"seq": i, "kind": "message", "id": i, "at": p} for i, p in enumerate(places)]
    table = pa.table(
        {"seq": range(n), "kind": ["message"] * n, "id": range(n), "at": pa.array(places, kind)}
    )
    found = []
    for given in (events[1:], table.slice(1)):
        f = germane.Filter(schema={"at": "location", "home": "location"})
        f.update("c", {"home": (48, 11)})
        f.subscribe("near", "DISTANCE(at, context.home) < 500000", context="c")
        f.subscribe("none", "at IS NULL")
        done = f.process(given)
        rows = [(row["seq"], row["profiles"]) for row in done.to_lists().to_pylist()]
        found.append((rows, [r.seq for r in done.rejected]))
    assert found[0] == found[1]
    assert found[0][1] == ([] if bad is None else [7])
    assert [seq for seq, names in found[0][0] if names == ["near"]] == [2, 6, 8]


@pytest.mark.parametrize("ids", [[10**6], [-3, 5], [1, 2**40]])
def test_ids_of_arrays_are_python_s_own(tmp_path, ids):
    """They are given back, and written down."""
    f = germane.Filter()
    f.update_many(np.array(ids), "x", [1.0] * len(ids))
    found = f.recipients("x = 1")
    assert found == sorted(ids)
    assert {type(each) for each in found} == {int}
    f.save(tmp_path / "f")
    assert germane.Filter.load(tmp_path / "f").recipients("x = 1") == sorted(ids)


def test_a_filter_without_contexts_explains_after_it_was_saved(tmp_path):
    f = germane.Filter()
    f.subscribe("p", "a + b > 1")
    f.save(tmp_path / "f")
    assert germane.Filter.load(tmp_path / "f").explain("p", {"a": 1, "b": 1}).matched


def test_costs_of_ids_that_fit_no_column():
    f = germane.Filter()
    for name in ("a", 1, 2**70):
        f.subscribe(name, "x = 1")
    assert f.costs({"x": 1}) == {1: 0.0, 2**70: 0.0, "a": 0.0}
