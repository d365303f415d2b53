"""`process` by small examples: what a message sees, what is rejected, what counts once."""

from __future__ import annotations

import math

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


def test_numbers_as_ids():
    f = germane.Filter()
    ids = [11, 2, 30]
    events = [subscribe(seq, id, "n = context.n", 1) for seq, id in enumerate(ids)]
    events += [update(5, 1, n=5), message(6, n=5) | {"id": 600}]
    assert answer_of(f, events) == ([(6, 600, id) for id in sorted(ids)], [])


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
