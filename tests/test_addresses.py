"""Addressed messages: the sender's side, against the oracle's word on contexts."""

import re

import numpy as np
import pyarrow as pa
import pytest
from batchings import LONGER
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import NaiveFilter
from naive_graphs import NaiveGraph

import germane
from germane import Filter

LINKS = [("person", "student"), ("student", "phd"), ("person", "staff")]
CLASSES = ["person", "student", "phd", "staff"]
NAMES = ("class", "age", "name", "location", "fare", "unknown", "nobody")
contexts = st.sampled_from(["ann", "bob", "cyd", "dan"])
degrees = st.sampled_from([-90, -40, 0, 40, 90])
longitudes = st.sampled_from([-180, -170, 0, 10, 170, 180])
values = st.fixed_dictionaries(
    {},
    optional={
        "class": st.one_of(st.none(), st.lists(st.sampled_from(CLASSES), max_size=2)),
        "age": st.one_of(st.none(), st.integers(0, 5)),
        "name": st.sampled_from(["ann", "Anna", "bob", ""]),
        "location": st.one_of(st.none(), st.tuples(degrees, longitudes)),
        "fare": st.floats(0, 3, width=16),
    },
)
boxes = st.builds(
    lambda a, b, west, east: f"location IN BOX({min(a, b)}, {west}, {max(a, b)}, {east})",
    degrees, degrees, longitudes, longitudes,
)  # fmt: skip
parts = st.one_of(
    boxes,
    st.builds("class WITHIN '{}'".format, st.sampled_from(CLASSES)),
    st.builds("class CONTAINS ('{}', 'phd')".format, st.sampled_from(CLASSES)),
    st.builds("age {} {}".format, st.sampled_from(["<", "<=", "=", "<>", ">"]), st.integers(0, 5)),
    st.sampled_from(
        [
            "age BETWEEN 1 AND 3", "age + 1 > fare * 2", "name = 'ann'", "name > 'b'",
            "name LIKE '%nn%'", "name LIKE 'A%'", "location IS NULL", "age IS NOT NULL",
            "unknown = 3", "nobody LIKE 'x'", "unknown IS NULL", "TRUE", "age IN (1, 2)",
            "DISTANCE(location, location) < 1",
        ]
    ),
)  # fmt: skip
addresses = st.recursive(
    parts,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=4,
)
messages = st.fixed_dictionaries({"price": st.integers(0, 3)})


def as_condition(address):
    """The address as a condition of a profile: its names are of the context."""
    pieces = re.split(r"('[^']*')", address)
    names = "|".join(NAMES)
    return "".join(
        piece if i % 2 else re.sub(rf"\b({names})\b", r"context.\1", piece)
        for i, piece in enumerate(pieces)
    )


def expected_recipients(known, address):
    oracle = NaiveFilter(graphs={"class": NaiveGraph(LINKS)})
    for name, held in known.items():
        oracle.update(name, held)
        oracle.subscribe(name, as_condition(address), name)
    return sorted(oracle.match({}))


@pytest.mark.parametrize("indexed", [False, True])
@given(
    updates=st.lists(st.tuples(contexts, values), max_size=8),
    asked=st.lists(st.tuples(addresses, messages), min_size=1, max_size=4),
)
@settings(max_examples=60 * LONGER, deadline=None)
def test_addresses(indexed, updates, asked):
    with pytest.MonkeyPatch.context() as patch:
        if indexed:  # even so few contexts, in the smallest buckets
            patch.setattr("germane.filter.addresses.FEW_CONTEXTS", 0)
            patch.setattr("germane.filter.addresses.WORTH", 0.01)
            patch.setattr("germane.index.points.PER_BUCKET", 1)
        check_addresses(updates, asked)


def check_addresses(updates, asked):
    graph = germane.ContentGraph.from_edges(LINKS)
    f = Filter(graphs={"class": graph})
    known = {}
    for name in ("ann", "bob", "cyd"):
        f.subscribe(f"{name} 1", "price > 0", name)
        f.subscribe(f"{name} 2", "price < context.age OR price = 2", name)
    f.subscribe("nobody's", "price >= 0")
    for name, held in updates:
        f.update(name, held)
        known.setdefault(name, {}).update(held)
        f.recipients("age < 2 AND location IN BOX(-40, -170, 40, 10)")  # so there are indexes
    for name in ("ann", "bob", "cyd"):
        known.setdefault(name, {})
    events, wanted = [], []
    for seq, (address, message) in enumerate(asked):
        reached = expected_recipients(known, address)
        assert f.recipients(address) == reached
        found = [name for name in f.match(message) if name.split()[0] in reached]
        assert f.match(message, address=address) == found
        events.append({"seq": seq, "kind": "message", "id": seq, **message, "address": address})
        wanted.append(found)
    assert f.process(events).by_message() == wanted
    f.rewind()
    table = pa.Table.from_pylist(events)
    assert f.process(table).by_message() == wanted
    f._check()


def test_each_message_meets_the_contexts_before_it():
    f = Filter()
    f.subscribe("p", "price > 0", context="ann")
    f.update("ann", {"age": 20})
    told = f.process(
        [
            {"seq": 1, "kind": "message", "id": "a", "price": 1, "address": "age < 30"},
            {"seq": 2, "kind": "update", "id": "ann", "age": 31},
            {"seq": 3, "kind": "message", "id": "b", "price": 1, "address": "age < 30"},
            {"seq": 4, "kind": "message", "id": "c", "price": 1, "address": "age <"},
            {"seq": 5, "kind": "message", "id": "d", "price": 1, "address": 7},
            {"seq": 6, "kind": "update", "id": "ann", "age": 1, "address": "age < 30"},
            {"seq": 7, "kind": "message", "id": "e", "price": 1},
        ]
    )
    assert told.by_message() == [["p"], [], ["p"]]
    assert [rejected.seq for rejected in told.rejected] == [4, 5, 6]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("age >", "found the end"),
        ("context.age > 3", "drop the prefix"),
        ("age = 'x'", "cannot be compared"),
        ("class WITHIN 'nobody'", "unknown node"),
        ("location IN BOX(5, 1, 2, 3)", "upside down"),
        ("location IN BOX(-91, 1, 2, 3)", "between -90 and 90"),
        ("location IN BOX(1, 1, 2, 181)", "between -180 and 180"),
        ("location IN BOX(1, 2, 3)", "the next edge"),
        ("age IN BOX(1, 2, 3, 4)", "must be a location"),
        ("document MATCHES 'a' COST < 3", "an attribute of the message"),
        (None, "as a str"),
    ],
)
def test_addresses_that_are_refused(address, message):
    f = Filter(graphs={"class": germane.ContentGraph.from_edges(LINKS)})
    f.update("ann", {"age": 3, "class": "phd", "location": (1, 2)})
    with pytest.raises(germane.GermaneError, match=message):
        f.recipients(address)


def test_an_address_teaches_nothing():
    f = Filter()
    f.update("ann", {"age": 3})
    assert f.recipients("colour = 'red' OR size < 3") == []
    f.update("ann", {"colour": 7, "size": "large"})
    assert f.recipients("colour = 7 AND size = 'large'") == ["ann"]
    closed = Filter(schema={"age": "number"})
    closed.update("ann", {"age": 3})
    with pytest.raises(germane.UnknownAttribute):
        closed.recipients("agee = 3")


@pytest.mark.parametrize("first", [1, 2, 31, 33, 64, 70])
def test_contexts_that_become_more(first):
    """Whatever was made for the first address is large enough for the last, or made anew."""
    f = Filter()
    f.update_many([f"c{i}" for i in range(first)], "x", [1.0] * first)
    assert len(f.recipients("x > 0")) == first
    for n in range(first, 260):
        f.update(f"c{n}", {"x": n % 7})
        expected = [f"c{i}" for i in range(n + 1) if i < first or i % 7]
        assert f.recipients("x > 0") == sorted(expected)


def told(seq, **values):
    return {"seq": seq, "kind": "message", "id": f"m{seq}", **values}


JUDGED = [
    ([told(1, address="u = 3 OR TRUE"), told(2, u="x")], [], "u"),
    ([told(1, u="x"), told(2, address="u = 3 OR TRUE")], [2], "u"),
    ([told(1, address="u = 3 OR TRUE"), told(2, u="x", address="u = 3 OR TRUE")], [2], ""),
    ([told(1, n=1, address="n <"), told(2, s="s", address="TRUE")], [1], "s"),
    ([told(1, n=1, s="s", address="s = 3 OR TRUE"), told(2, s="s")], [1], "s"),
    ([told(1, n=1, address="n = 1 OR s = 'x'"), told(2, n=2, address="s = 3 OR TRUE")], [], "n"),
    ([told(1, d="<a/>", address="e = 'x'"), told(2, d="<a/>", address="d = 3")], [2], "d"),
    ([told(1, document="<a/>", address="document = 'x' OR TRUE")], [1], ""),
    ([told(1, document="a", address="document = 'x' OR TRUE")], [], "document"),
    ([told(1, d=b"<a/>", address="d = 'x' OR TRUE"), told(2, d=b"<")], [1, 2], ""),
    ([told(k, n=1, address="n <" if k < 5 else "n < 5") for k in range(9)], [*range(5)], "n"),
    ([told(k, n=1, address="n < 's'") for k in range(3)], [*range(3)], ""),
]


@pytest.mark.parametrize(("messages", "refused", "fixed"), JUDGED)
@pytest.mark.parametrize("arrow", [False, True])
def test_addresses_are_judged_by_what_stands_before_them(messages, refused, fixed, arrow):
    """And a message whose address is refused fixes no type."""
    names = {name: None for message in messages for name in message}
    both = Filter(), Filter()
    for f in both:
        f.subscribe("p", "TRUE", "ann")
        f.update("ann", {"known": 1})
    table = pa.table({name: [message.get(name) for message in messages] for name in names})
    found = both[0].process(table if arrow else messages)
    assert [rejected.seq for rejected in found.rejected] == refused
    alone = [both[1].process([message]) for message in messages]
    assert [one.rejected[0].seq for one in alone if one.rejected] == refused
    assert found.by_message() == [matched for one in alone for matched in one.by_message()]
    assert both[0].types == both[1].types
    assert both[0].types.keys() - {"known"} == set(filter(None, [fixed]))


def test_many_contexts_that_change():
    """The index follows, in lists that fill up and are built anew."""
    rng = np.random.default_rng(1)
    f = Filter()
    ids = np.arange(20_000)
    ages, fares = rng.normal(40, 20, len(ids)), rng.integers(0, 1000, len(ids)).astype(float)
    f.update_many(ids, "fare", fares)
    f.update_many(ids, "age", ages)
    for turn in range(12):
        low = 20 + turn
        wanted = (ages >= low) & (ages <= low + 1) | (fares == turn)
        address = f"age BETWEEN {low} AND {low + 1} OR fare = {turn}"
        assert f.recipients(address) == ids[wanted].tolist()
        assert f.recipients("age > 1000") == []
        some = rng.choice(len(ids), 5_000, replace=False)
        ages[some] = rng.normal(40 + 5 * turn, 2, len(some))  # they gather
        f.update_many(some, "age", ages[some])
    index = f._points.indexes[f._contexts.slots["age"]]
    assert index.builds > 1
    f.update_many(ids[:100], "age", [None] * 100)
    assert f.recipients("age < 1000") == ids[100:].tolist()
    f.update_many(np.arange(20_000, 50_000), "age", np.full(30_000, 33.0))
    assert len(f.recipients("age = 33")) == 30_000
    f._check()


def test_boxes_in_profiles():
    f = Filter()
    f.subscribe("here", "location IN BOX(48.0, 9.0, 48.4, 9.2)")
    f.subscribe("pacific", "location IN BOX(-10, 170, 10, -170)")
    f.subscribe("elsewhere", "location NOT IN BOX(48, 9, 48.4, 9.2)")
    f.subscribe("pole", "location IN BOX(90, -180, 90, 180)")
    assert f.match({"location": (48.1, 9.1)}) == ["here"]
    assert f.match({"location": (0, 175)}) == ["elsewhere", "pacific"]
    assert f.match({"location": (0, -170)}) == ["elsewhere", "pacific"]
    assert f.match({"location": (90, 33)}) == ["elsewhere", "pole"]
    assert f.match({"location": None}) == []


def test_compiled_addresses_are_kept_while_they_hold():
    f = Filter(graphs={"class": germane.ContentGraph.from_edges(LINKS)})
    f.update("ann", {"name": "ann", "class": "phd"})
    asked = ("name > 'bob'", "name LIKE '%nn%'", "class WITHIN 'student'", "size = 3", "age < 3")
    assert [f.recipients(address) for address in asked] == [[], ["ann"], ["ann"], [], []]
    kept = dict(f._addresses._known)
    assert [f.recipients(address) for address in asked] == [[], ["ann"], ["ann"], [], []]
    assert all(f._addresses._known[address] is kept[address] for address in asked)
    f.update("cyd", {"name": "cyd", "size": 3})  # a word, and an attribute, that were not known
    assert [f.recipients(address) for address in asked] == [["cyd"], ["ann"], ["ann"], ["cyd"], []]
    f.change_graph("class", unlinks=[("student", "phd")], links=[("staff", "phd")])
    assert f.recipients("class WITHIN 'student'") == []
    assert f.recipients("class WITHIN 'staff'") == ["ann"]
    f.update("dan", {"class": ["student", "staff"]})
    assert f.recipients("class WITHIN 'student'") == ["dan"]
    with pytest.raises(germane.GermaneError):
        f.recipients("name = 3")
    assert "name = 3" not in f._addresses._known


def test_texts_of_addresses_are_forgotten_with_them(monkeypatch):
    monkeypatch.setattr("germane.filter.addresses.KEPT", 5)
    monkeypatch.setattr("germane.filter.addresses.MAX_PATTERNS", 3)
    f = Filter()
    f.update_many(range(50), "name", [f"x{i}y" for i in range(50)])
    for i in range(50):
        assert f.recipients(f"name LIKE '%{i}y' AND name <> 'x'") == [
            k for k in range(50) if f"x{k}y".endswith(f"{i}y")
        ]
    assert len(f._addresses) == 5
    texts = {id(known.texts): known.texts for known in f._addresses._known.values()}
    assert all(len(known.keys) <= 4 for known in texts.values())
    assert len(f._texts.keys) == 0
    f.update_many(range(50, 5000), "name", [f"a{i}" for i in range(4950)])  # numbered anew
    assert len(f.recipients("name LIKE '%9y'")) == 5


def test_how_an_address_was_answered():
    f = Filter()
    f.update_many(range(40_000), "age", np.arange(40_000.0))
    assert f.recipients("age IN (3, 5, 3) OR age = 5") == [3, 5]
    assert len(f.recipients("age <> 7")) == 39_999
    assert f.recipients("age NOT IN (7, 8) AND age BETWEEN 5 AND 9") == [5, 6, 9]
    assert f.stats()["addresses"] == {"looked_up": 2, "looked_at_everybody": 1, "kept": 3}


def test_lists_of_the_index_move_when_they_are_full():
    rng = np.random.default_rng(2)
    f = Filter()
    places = rng.uniform((-90, -180), (90, 180), (20_000, 2))
    f.update_many(range(20_000), "location", places)
    for turn in range(30):
        south, west = -90 + 5 * turn, -180 + 10 * turn
        wanted = (places >= (south, west)).all(1) & (places <= (south + 9, west + 9)).all(1)
        address = f"location IN BOX({south}, {west}, {south + 9}, {west + 9})"
        assert f.recipients(address) == np.flatnonzero(wanted).tolist()
        some = rng.integers(0, 20_000, 3_000)
        here = rng.uniform((-90, -180), (90, 180), (3_000, 2))
        here[:1500] = (10 + turn / 10, 20)  # half of them gather
        f.update_many(some, "location", here)
        places[some] = here  # the last of equal ones counts, in both
    assert f._points.indexes[f._contexts.slots["location"]].builds < 6
    f._check()


def test_answers_of_nearly_everybody():
    f = Filter()
    f.update_many(range(100_000), "age", np.arange(100_000.0))
    for address, wanted in (("age >= 3", range(3, 100_000)), ("age < 70000", range(70_000))):
        found = f.recipients(address)
        assert found == list(wanted)
        assert {type(found[0]), type(found[-1])} == {int}
    f.update_many(range(100_000, 150_000), "age", np.zeros(50_000))
    assert f.recipients("age >= 0") == list(range(150_000))
    f.subscribe("p", "price > 0", context="a word")  # ids are of any kind from now on
    assert len(f.recipients("age IS NOT NULL")) == 150_000


def test_bad_input_line_by_line():
    """The list of bad input for addressed messages; routers have theirs in test_cast."""
    f = Filter(schema={"age": "number", "location": "location", "price": "number"})
    g = Filter()
    for h in (f, g):
        h.subscribe("p", "price > 0", context="ann")
        h.update("ann", {"location": (90, 33)})
        h.update("nobody", {})  # a context without attributes
    # unknown attributes: an error with a schema, NULL without one
    with pytest.raises(germane.GermaneError, match="colour"):
        f.recipients("colour = 3")
    assert g.recipients("colour = 3") == []
    assert g.recipients("colour IS NULL") == ["ann", "nobody"]
    # inverted boxes, and boxes off the globe
    for box in ("BOX(1, 0, 0, 1)", "BOX(0, 0, 91, 1)", "BOX(0, -181, 1, 1)"):
        with pytest.raises(germane.GermaneError):
            f.recipients(f"location IN {box}")
    # across the antimeridian, and the pole, where every longitude is the same place in name only
    f.update("bob", {"location": (0, -179.5)})
    assert f.recipients("location IN BOX(-1, 179, 1, -179)") == ["bob"]
    assert f.recipients("location IN BOX(89, 30, 90, 40)") == ["ann"]
    assert f.recipients("location IN BOX(89, 179, 90, -179)") == []
    # NaN coordinates
    for place in ((float("nan"), 0), (0, float("nan")), (float("inf"), 0)):
        with pytest.raises(germane.GermaneError):
            f.update("ann", {"location": place})
    assert f.recipients("location IN BOX(89, 30, 90, 40)") == ["ann"]
    assert f.recipients("age IS NULL") == ["ann", "bob", "nobody"]
    assert f.match({"price": 1}, address="location IN BOX(89, 30, 90, 40)") == ["p"]
    # an address that is none changes nothing
    for address in ("age <", "", 7, None):
        with pytest.raises(germane.GermaneError):
            f.recipients(address)
    f._check()
