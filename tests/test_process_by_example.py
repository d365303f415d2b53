"""`process` by small examples: what a message sees, what is rejected, what counts once."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from arrow_forms import deliveries, record_batch
from batchings import batching, every_strategy
from naive import NaiveFilter

import germane

pytestmark = pytest.mark.usefixtures("auto_changes")


def message(seq, **values):
    return {"seq": seq, "kind": "message", "id": f"m{seq}", **values}


def update(seq, context="ann", **values):
    return {"seq": seq, "kind": "update", "id": context, **values}


def subscribe(seq, id, condition, context=None):
    return {"seq": seq, "kind": "subscribe", "id": id, "condition": condition, "context": context}


def unsubscribe(seq, id):
    return {"seq": seq, "kind": "unsubscribe", "id": id}


NEAR = subscribe(1, "near", "n BETWEEN context.n - 1 AND context.n + 1", "ann")
SCHEMA = {"n": "number", "s": "string"}


def oracle_of(events, schema=None):
    found, rejected = NaiveFilter(schema).process(events)
    return found, [position for position, _ in rejected]


def answer_of(f, events):
    found = f.process(events)
    return deliveries(found), [refusal.position for refusal in found.rejected]


@every_strategy
@pytest.mark.parametrize(
    "form",
    [list, lambda events: record_batch(events, SCHEMA, all_columns=True)],
    ids=["dicts", "arrow"],
)
def test_a_message_sees_what_stands_before_it(strategy, form):
    events = [message(0, n=5.0), NEAR]
    for seq in range(2, 40, 3):
        value = {"removed": ["n"]} if seq % 4 == 0 else {"n": seq % 5 + 3.0}
        events += [message(seq, n=5.0), update(seq + 1, n=50.0), update(seq + 2, **value)]
    events += [
        subscribe(50, "all", "n = 5"),
        message(51, n=5.0),
        unsubscribe(52, "all"),
        message(53, n=5.0),
        subscribe(54, "all", "s = context.s", "bob"),
        message(55, n=5.0, s="x"),
        update(56, "bob", s="x"),
        message(57, n=5.0, s="x"),
        message(58, n=5.0),
    ]
    expected, _ = oracle_of(events)
    assert 3 < len(expected) < 20
    f = germane.Filter(batching=batching(strategy))
    assert answer_of(f, form(events)) == (expected, [])


@every_strategy
@pytest.mark.parametrize(
    "nothing",
    [
        list,
        lambda: iter(()),
        lambda: record_batch([], SCHEMA, all_columns=True),
        lambda: pa.Table.from_batches([record_batch([], SCHEMA, all_columns=True)]),
        lambda: [record_batch([], SCHEMA, all_columns=False)] * 2,
    ],
    ids=["list", "iterator", "record batch", "table", "record batches"],
)
def test_no_events(strategy, nothing):
    f = germane.Filter(schema=SCHEMA, batching=batching(strategy))
    assert answer_of(f, nothing()) == ([], [])
    f.process([NEAR, update(2, n=5)])
    assert answer_of(f, nothing()) == ([], [])
    assert answer_of(f, [message(3, n=5)]) == ([(3, "m3", "near")], [])


MALFORMED = {
    "no seq": message(None, n=5),
    "without seq": {"kind": "update", "id": "ann", "n": 50},
    "unknown kind": message(7, n=5) | {"kind": "massage"},
    "no kind": {"seq": 7, "id": "m7", "n": 5},
    "no message id": message(7, n=5) | {"id": None},
    "no context id": {"seq": 7, "kind": "update", "n": 50},
    "no profile id": subscribe(7, None, "n = 5"),
    "text for a number": message(7, n="5"),
    "boolean for a number": message(7, s="x", n=True),
    "number for text": update(7, n=50, s=5),
    "removal beside it": update(7, removed=["n"], s=5),
    "half a condition": subscribe(7, "q", "n = 5 AND"),
    "mistyped condition": subscribe(7, "q", "n = 5 OR n = 's'"),
    "condition without context": subscribe(7, "q", "n = 5 OR context.n = 5"),
    "no condition": subscribe(7, "q", None),
    "profile there already": subscribe(7, "near", "n = 5"),
    "profile not there": unsubscribe(7, "q"),
    "unknown attribute": message(7, n=5, prize=3),
    "unknown attribute of an update": update(7, n=50, prize=3),
    "unknown attribute of a profile": subscribe(7, "q", "n = 5 OR prize = 3"),
}


@pytest.mark.parametrize("event", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_event_is_rejected_alone(event):
    f = germane.Filter(schema=SCHEMA)
    events = [NEAR, update(2, n=4), message(3, n=5), event, message(8, n=5)]
    found = f.process(events)
    assert deliveries(found) == [(3, "m3", "near"), (8, "m8", "near")]
    (refusal,) = found.rejected
    assert isinstance(refusal, germane.Rejected)
    assert refusal.position == 3
    assert refusal.seq == event.get("seq")
    assert str(refusal.reason)
    assert refusal.event == event
    assert answer_of(f, [message(9, n=5)]) == ([(9, "m9", "near")], [])
    f._check()


def test_what_is_no_event_is_rejected():
    f = germane.Filter(schema=SCHEMA)
    events = [NEAR, update(2, n=4), None, "message", message(8, n=5)]
    assert answer_of(f, events) == ([(8, "m8", "near")], [2, 3])


FORMS = pytest.mark.parametrize(
    "form",
    [list, lambda events: record_batch(events, SCHEMA, all_columns=False)],
    ids=["dicts", "arrow"],
)
OF_NO_GRAPH = [
    message(7, n=5.0), update(7, n=50.0), subscribe(7, "q", "n = 5"), unsubscribe(7, "near"),
]  # fmt: skip


@FORMS
@pytest.mark.parametrize("field", ["links", "unlinks"])
@pytest.mark.parametrize("event", OF_NO_GRAPH, ids=lambda event: event["kind"])
def test_only_graphs_have_links(event, field, form):
    f = germane.Filter(schema=SCHEMA)
    linked = event | {field: [["a", "b"]]}
    found = f.process(form([NEAR, update(2, n=4.0), linked, message(8, n=5.0)]))
    assert deliveries(found) == [(8, "m8", "near")]
    (refusal,) = found.rejected
    assert (refusal.position, refusal.seq) == (2, 7)
    kind = event["kind"]
    assert str(refusal.reason) == (
        f"links and unlinks are those of a graph; what a {kind} event says there needs another name"
    )
    assert refusal.event[field] == [["a", "b"]]
    assert len(f) == 1


@FORMS
@pytest.mark.parametrize("spoilt", [{"id": None}, {"kind": "massage"}, {"seq": None}], ids=repr)
def test_links_are_looked_at_last(spoilt, form):
    good, bad = message(7, n=5.0), message(7, n=5.0, links=[["a", "b"]])
    reasons = [
        [str(refusal.reason) for refusal in germane.Filter().process(form([event])).rejected]
        for event in (good | spoilt, bad | spoilt)
    ]
    assert len(reasons[0]) == 1
    assert reasons[0] == reasons[1]


@pytest.mark.parametrize("nothing", [None, [], (), "", {}, math.nan, np.array([])], ids=repr)
def test_links_may_say_nothing(nothing):
    f = germane.Filter()
    events = [{**event, "links": nothing, "unlinks": nothing} for event in OF_NO_GRAPH[:3]]
    events = [{**event, "seq": seq} for seq, event in enumerate(events)]
    assert answer_of(f, events) == ([], [])
    assert answer_of(f, [message(8, n=5)]) == ([(8, "m8", "q")], [])


@pytest.mark.parametrize(
    "something",
    [5, 0, False, "a", {"a": "b"}, [None], np.array([["a", "b"]]), np.array(5)],
    ids=repr,
)
def test_whatever_is_said_of_links_is_refused(something):
    assert answer_of(germane.Filter(), [message(1, links=something)]) == ([], [0])


LINKS = [
    pa.array([None, [], [["a", "b"]]], pa.list_(pa.list_(pa.string()))),
    pa.array([None, [], [["a", "b"]]], pa.large_list(pa.list_(pa.string()))),
    pa.array([None, [], [None]], pa.list_(pa.string())),
    pa.array([None, None, ["a", "b"]], pa.list_(pa.string(), 2)),
    pa.array([None, [], [("a", "b")]], pa.map_(pa.string(), pa.string())),
    pa.array([None, None, {"a": "b"}], pa.struct({"a": pa.string()})),
    pa.array([None, "", "a"]),
    pa.array([None, "", "a"]).dictionary_encode(),
    pa.array([None, math.nan, 0.0]),
    pa.array([None, None, 0]),
    pa.array([None, None, False]),
]


@pytest.mark.parametrize("links", LINKS, ids=lambda links: str(links.type)[:30])
@pytest.mark.parametrize("field", ["links", "unlinks"])
def test_links_in_columns_of_any_type(links, field):
    table = pa.table(
        {"seq": [1, 2, 3], "kind": ["message"] * 3, "id": ["a", "b", "c"], field: links}
    )
    table = pa.concat_tables([table.slice(1), table.slice(0, 1)])  # its parts are no whole arrays
    table = table.set_column(0, "seq", pa.array([1, 2, 3]))
    found, same = germane.Filter().process(table), germane.Filter().process(table.to_pylist())
    assert found.n_messages == same.n_messages == 2
    assert [refusal.position for refusal in found.rejected] == [1]
    assert [(r.position, r.seq, str(r.reason)) for r in found.rejected] == [
        (r.position, r.seq, str(r.reason)) for r in same.rejected
    ]


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"links": pa.nulls(4), "unlinks": pa.nulls(4, pa.float64())},
        {"links": pa.nulls(4, pa.list_(pa.list_(pa.string()))), "unlinks": pa.nulls(4)},
        {"links": pa.array([[], [["a", "b"]], None, []], pa.list_(pa.list_(pa.string())))},
    ],
    ids=["none", "of no type", "null", "empty"],
)
def test_no_objects_are_made_of_links_of_messages(columns, monkeypatch):
    monkeypatch.setattr("germane.filter.events_as_arrow.holds_links", None)  # not to be called
    f = germane.Filter(graphs={"topic": germane.ContentGraph.from_edges([("a", "c")])})
    table = pa.table(
        {
            "seq": [1, 2, 3, 4],
            "kind": ["message", "graph", "update", "message"],
            "id": ["m1", "topic", "ann", "m4"],
            **columns,
        }
    )
    found = f.process(table)
    assert (found.n_messages, found.rejected) == (2, [])


def test_links_of_graphs_in_any_form():
    graph = germane.ContentGraph.from_edges([("a", "c")])
    f = germane.Filter(graphs={"topic": graph})
    change = {"seq": 1, "kind": "graph", "id": "topic"}
    events = [
        change | {"links": np.array([["a", "b"]]), "unlinks": math.nan},
        change | {"seq": 2, "links": np.array([]), "unlinks": [("a", "c")]},
        change | {"seq": 3, "links": 5},
        change | {"seq": 4, "links": (), "unlinks": None},
    ]
    assert answer_of(f, events) == ([], [2])
    assert graph.covers("a", "b")
    assert not graph.covers("a", "c")


def test_positions_count_from_the_start_of_a_call():
    f = germane.Filter()
    bad = unsubscribe(None, "q")
    assert answer_of(f, [NEAR, bad, bad]) == ([], [1, 2])
    assert answer_of(f, [bad, update(2, n=5)]) == ([], [0])
    batches = [[update(3, n=5)], [], [bad, message(4, n=5)], [bad]]
    shaped = [record_batch(batch, SCHEMA, all_columns=True) for batch in batches]
    assert answer_of(f, shaped) == ([(4, "m4", "near")], [1, 3])


@every_strategy
def test_a_seq_counts_once(strategy):
    events = [
        NEAR,
        update(3, n=4),
        update(3, n=50),
        update(2, n=50),
        unsubscribe(1, "near"),
        message(4, n=5),
        message(4, n=5),
        message(5, n="bad"),
        message(5, n=5),
        message(4, n="bad"),
        message(6, n=5),
    ]
    expected = [(4, "m4", "near"), (6, "m6", "near")]
    for at in range(len(events)):
        f = germane.Filter(batching=batching(strategy))
        first, second = f.process(events[:at]), f.process(events[at:])
        assert deliveries(first) + deliveries(second) == expected
        assert len(first.rejected) + len(second.rejected) == 1
        assert answer_of(f, events) == ([], [])
        assert answer_of(f, [message(7, n=5)]) == ([(7, "m7", "near")], [])


def test_a_seq_counts_once_after_a_restart(tmp_path):
    f = germane.Filter()
    f.process([NEAR, update(2, n=5), message(3, n=5)])
    f.save(tmp_path / "filter")
    f = germane.Filter.load(tmp_path / "filter")
    assert answer_of(f, [update(2, n=50), message(3, n=5)]) == ([], [])
    assert answer_of(f, [message(4, n=5)]) == ([(4, "m4", "near")], [])


def test_a_sequence_may_begin_below_zero():
    f = germane.Filter()
    events = [NEAR | {"seq": -9}, update(-3, n=4), message(-1, n=5), message(0, n=5)]
    assert answer_of(f, events) == ([(-1, "m-1", "near"), (0, "m0", "near")], [])


def test_only_removed_removes():
    """NULL is an attribute that an update does not speak of, and so is NaN."""
    quiet = [update(3, n=None), update(4, n=math.nan), update(5), update(6, removed=[])]
    events = [NEAR, update(2, n=4), *quiet, message(7, n=5)]
    ended = [update(8, removed=["n", "s"]), message(9, n=5), update(10, n=5), message(11, n=5)]
    expected = [(7, "m7", "near"), (11, "m11", "near")]
    assert answer_of(germane.Filter(), [*events, *ended]) == (expected, [])
    batch = record_batch([*events, *ended], SCHEMA, all_columns=True)
    assert answer_of(germane.Filter(), batch) == (expected, [])


def test_an_unknown_context_among_messages():
    """It is created, and a profile that comes later finds its values."""
    f = germane.Filter()
    events = [message(1, n=5), update(2, "bob", n=5), message(3, n=5)]
    events += [subscribe(4, "p", "n = context.n", "bob"), message(5, n=5)]
    assert answer_of(f, events) == ([(5, "m5", "p")], [])


def test_first_use_fixes_a_type_within_a_batch():
    events = [
        message(1, a=1),
        message(2, a="x", b="x"),  # rejected, so b is free still
        message(3, b=1),
        update(4, b="x", c="x"),
        subscribe(5, "p", "c < 1 AND d = 's' OR b = 's'"),
        subscribe(6, "p", "c < 1"),
        update(7, c="x"),
        message(8, d=5, c=0),
        message(9, d="s", c=0),
    ]
    expected = oracle_of(events)
    assert expected == ([(8, "m8", "p")], [1, 3, 4, 6, 8])
    assert answer_of(germane.Filter(), events) == expected
    f = germane.Filter()
    assert [position for e in events for position in answer_of(f, [e])[1]] == [0] * 5


def test_a_column_of_another_type():
    """Each event that has a value in it is rejected, the others are not."""
    f = germane.Filter(schema=SCHEMA)
    f.process([NEAR, update(2, n=5)])
    batch = pa.RecordBatch.from_pydict(
        {
            "seq": [3, 4, 5, 6],
            "kind": ["message", "message", "update", "subscribe"],
            "id": ["m3", "m4", "ann", "p"],
            "n": ["5", None, "5", None],
            "condition": [None, None, None, "n = 5"],
        }
    )
    assert answer_of(f, batch) == ([], [0, 2])
    assert answer_of(f, [message(7, n=5)]) == ([(7, "m7", "near"), (7, "m7", "p")], [])


def test_columns_of_related_types():
    batch = pa.RecordBatch.from_pydict(
        {
            "seq": pa.array([1, 2, 3], pa.int32()),
            "kind": pa.array(["subscribe", "update", "message"]).dictionary_encode(),
            "id": pa.array(["p", "ann", "m"], pa.large_string()),
            "n": pa.array([None, 4, 5], pa.int8()),
            "s": pa.array([None, "x", "x"]).dictionary_encode(),
            "nothing": pa.nulls(3),
            "condition": ["n = context.n + 1 AND s = context.s", None, None],
            "context": ["ann", None, None],
            "removed": pa.nulls(3),
        }
    )
    assert answer_of(germane.Filter(), batch) == ([(3, "m", "p")], [])
    sliced = germane.Filter()
    assert answer_of(sliced, batch.slice(0, 1)) == ([], [])
    assert answer_of(sliced, batch.slice(1)) == ([(3, "m", "p")], [])


NO_VALUES = {
    "duration": pa.array([None, 5, None, None], pa.duration("us")),
    "time": pa.array([None, 5, None, None], pa.time64("us")),
    "map": pa.array([None, [("a", 1)], None, None], pa.map_(pa.string(), pa.int64())),
    "pair where an order is needed": pa.array([None, [1.0, 2.0], None, None]),
}


@pytest.mark.parametrize("column", NO_VALUES.values(), ids=NO_VALUES)
@pytest.mark.parametrize("last", [False, True])
def test_a_column_that_holds_no_values_of_attributes(column, last):
    """It stopped the call, and what stood before it was delivered to nobody."""
    columns = {
        "seq": [1, 2, 3, 4],
        "kind": ["subscribe", "message", "message", "message"],
        "id": ["p", "m2", "m3", "m4"],
        "condition": ["x = 1 OR w < context.w", None, None, None],
        "context": ["ann", None, None, None],
    }
    attributes = {"w": column, "x": [None, 1.0, 1.0, None], "y": [None, "s", None, None]}
    for name in sorted(attributes, reverse=last):
        columns[name] = attributes[name]
    table = pa.table(columns)
    f, g = germane.Filter(), germane.Filter()
    assert answer_of(f, table) == ([(3, "m3", "p")], [1])
    assert answer_of(g, table.to_pylist()) == ([(3, "m3", "p")], [1])
    assert f.types == g.types == {"x": "number"}
    messages = table.select(["w", "x"]).slice(1)
    for one in (f, g):
        one.subscribe("q", "v = 1")
        assert list(one.match_many(messages).errors) == [0]
        assert list(one.match_many(messages.to_pylist()).errors) == [0]


def test_numbers_as_ids():
    f = germane.Filter()
    ids = [11, 2, 30]
    events = [subscribe(seq, id, "n = context.n", 1) for seq, id in enumerate(ids)]
    events += [update(5, 1, n=5), message(6, n=5) | {"id": 600}]
    assert answer_of(f, events) == ([(6, 600, id) for id in sorted(ids)], [])


def test_integers_beyond_64_bits_in_columns():
    """They are what they are, not negative numbers."""
    large = 2**63 + 1
    seqs = {
        "seq": pa.array([large, 5, large, None, 6, 7], pa.uint64()),
        "kind": ["message"] * 6,
        "id": [f"m{i}" for i in range(6)],
        "x": [1] * 6,
    }
    ids = {
        "seq": pa.array([8, 9, 10, 11, 12], pa.uint64()),
        "kind": ["subscribe", "update", "message", "unsubscribe", "message"],
        "id": pa.array([large, large, large, large, 7], pa.uint64()),
        "condition": ["x = context.x", None, None, None, None],
        "context": pa.array([large, None, None, None, None], pa.uint64()),
        "x": [None, 1, 1, None, 1],
    }
    f, g = germane.Filter(), germane.Filter()
    for table in (pa.table(seqs), pa.table(ids)):
        found = [one.process(form) for one, form in ((f, table), (g, table.to_pylist()))]
        assert found[0].seqs.tolist() == found[1].seqs.tolist()
        assert found[0].message_ids == found[1].message_ids
        assert found[0].by_message() == found[1].by_message()
        letters = [[(r.position, r.seq, type(r.reason)) for r in one.rejected] for one in found]
        assert letters[0] == letters[1]
    assert found[0].by_message() == [[large], []]


def test_events_and_calls_mix():
    f = germane.Filter()
    f.subscribe("near", NEAR["condition"], context="ann")
    f.process([update(2, n=5)])
    assert f.match({"n": 5}) == ["near"]
    f.update("ann", {"n": 9})
    assert answer_of(f, [message(3, n=5), message(4, n=9)]) == ([(4, "m4", "near")], [])
    assert answer_of(f, [NEAR | {"seq": 5}]) == ([], [0])
    f.process([unsubscribe(6, "near"), subscribe(7, "p", "n = 1")])
    assert f.match_many([{"n": 9}, {"n": 1}]).by_message() == [[], ["p"]]
    with pytest.raises(germane.GermaneError):
        f.unsubscribe("near")
