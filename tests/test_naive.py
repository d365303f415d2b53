"""The oracle against cases computed by hand, and the generator against its promises."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone

import generate
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import NaiveError, NaiveFilter, distance, parse

T, F, U = True, False, None
NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
INF = math.inf

# condition, message, context, truth
CASES = [
    # comparisons, both ways round
    ("n = 1", {"n": 1}, {}, T),
    ("1 = n", {"n": 2}, {}, F),
    ("n <> 1", {"n": 2}, {}, T),
    ("n != 1", {"n": 1}, {}, F),
    ("2 <= n", {"n": 2}, {}, T),
    ("2 < n", {"n": 2}, {}, F),
    ("n = 0.0", {"n": -0.0}, {}, T),
    ("n < 0", {"n": -0.0}, {}, F),
    ("n > 1e308", {"n": INF}, {}, T),
    ("n = .5", {"n": 0.5}, {}, T),
    # NULL: missing, None, NaN; a comparison with it is UNKNOWN
    ("n = 1", {}, {}, U),
    ("n <> 1", {"n": None}, {}, U),
    ("n = n", {"n": math.nan}, {}, U),
    ("n IS NULL", {"n": math.nan}, {}, T),
    ("n IS NULL", {}, {}, T),
    ("n IS NOT NULL", {"n": 0}, {}, T),
    ("NOT n IS NULL", {}, {}, F),
    ("context.n < 3", {"n": 1}, {}, U),
    ("context.n IS NULL", {"n": 1}, {}, T),
    # three-valued logic
    ("n = 1 AND m = 1", {"n": 2}, {}, F),
    ("n = 1 AND m = 1", {"n": 1}, {}, U),
    ("n = 1 OR m = 1", {"n": 1}, {}, T),
    ("n = 1 OR m = 1", {"n": 2}, {}, U),
    ("NOT m = 1", {}, {}, U),
    ("NOT (n = 1 AND m = 1)", {"n": 2}, {}, T),
    ("(m = 1) IS NULL", {}, {}, T),
    ("(n = 1 AND m = 1) IS NULL", {"n": 2}, {}, F),
    ("(n > 1) = TRUE", {"n": 2}, {}, T),
    ("(n > 1) = TRUE", {}, {}, U),
    ("(n > 1) = FALSE", {"n": 1}, {}, T),
    ("(n > 1) < (m > 1)", {"n": 1, "m": 2}, {}, T),
    ("n = 1 OR n <> 1", {}, {}, U),
    # precedence
    ("n = 1 OR n = 2 AND m = 3", {"n": 1, "m": 0}, {}, T),
    ("(n = 1 OR n = 2) AND m = 3", {"n": 1, "m": 0}, {}, F),
    ("NOT n = 1 OR n = 1", {"n": 1}, {}, T),
    ("NOT (n = 1 OR n = 1)", {"n": 1}, {}, F),
    ("n + 2 * 3 = 7", {"n": 1}, {}, T),
    ("(n + 2) * 3 = 9", {"n": 1}, {}, T),
    ("n - 2 - 3 = 5", {"n": 10}, {}, T),
    ("n / 2 / 2 = 1", {"n": 4}, {}, T),
    ("-n + 1 = 0", {"n": 1}, {}, T),
    ("n * -1 = 2", {"n": -2}, {}, T),
    ("n BETWEEN 1 AND 3 AND m = 0", {"n": 2, "m": 0}, {}, T),
    ("NOT n BETWEEN 1 AND 3", {"n": 4}, {}, T),
    # BETWEEN is >= and <=
    ("n BETWEEN 1 AND 3", {"n": 3}, {}, T),
    ("n BETWEEN 3 AND 1", {"n": 2}, {}, F),
    ("n NOT BETWEEN 3 AND 1", {"n": 2}, {}, T),
    ("n BETWEEN context.n - 1 AND context.n + 1", {"n": 2}, {"n": 1}, T),
    ("n BETWEEN context.n - 1 AND context.n + 1", {"n": 2.5}, {"n": 1}, F),
    ("n BETWEEN 5 AND context.n", {"n": 2}, {}, F),
    ("n NOT BETWEEN 5 AND context.n", {"n": 2}, {}, T),
    ("n BETWEEN 1 AND context.n", {"n": 2}, {}, U),
    ("s BETWEEN 'a' AND 'b'", {"s": "ab"}, {}, T),
    ("f BETWEEN FALSE AND TRUE", {"f": False}, {}, T),
    # IN is an OR of equalities
    ("n IN (1, 2)", {"n": 2}, {}, T),
    ("n IN (1, 2)", {"n": 3}, {}, F),
    ("n IN (-1, 2 + 1)", {"n": 3}, {}, T),
    ("n IN (1, context.n)", {"n": 1}, {}, T),
    ("n IN (1, context.n)", {"n": 3}, {}, U),
    ("n NOT IN (1, context.n)", {"n": 3}, {}, U),
    ("n NOT IN (1, context.n)", {"n": 1}, {}, F),
    ("n NOT IN (1, 2)", {"n": 3}, {}, T),
    ("n NOT IN (1, 2)", {}, {}, U),
    ("s IN ('it''s')", {"s": "it's"}, {}, T),
    # LIKE
    ("s LIKE 'Main %'", {"s": "Main 1"}, {}, T),
    ("s LIKE 'main %'", {"s": "Main 1"}, {}, F),
    ("s LIKE 'a'", {"s": "ab"}, {}, F),
    ("s LIKE '%'", {"s": ""}, {}, T),
    ("s LIKE '_'", {"s": ""}, {}, F),
    ("s LIKE '_'", {"s": "\U0001f600"}, {}, T),
    ("s LIKE 'a_b'", {"s": "a\nb"}, {}, T),
    ("s LIKE 'a%b'", {"s": "a\n\nb"}, {}, T),
    ("s LIKE 'a.'", {"s": "ab"}, {}, F),
    ("s LIKE 'a!%' ESCAPE '!'", {"s": "a%"}, {}, T),
    ("s LIKE 'a!%' ESCAPE '!'", {"s": "ab"}, {}, F),
    ("s LIKE 'a!!' ESCAPE '!'", {"s": "a!"}, {}, T),
    ("s LIKE 'a\\%'", {"s": "a\\b"}, {}, T),
    ("s NOT LIKE 'a%'", {}, {}, U),
    # strings: by code point, case-sensitive
    ("s < 'a'", {"s": "B"}, {}, T),
    ("s > 'z'", {"s": "é"}, {}, T),
    ("s > '\uff5e'", {"s": "\U0001f600"}, {}, T),
    ("s = 'a'", {"s": "a\x00"}, {}, F),
    ("s < context.s", {"s": ""}, {"s": "a"}, T),
    # booleans
    ("f", {"f": True}, {}, T),
    ("f", {}, {}, U),
    ("NOT f", {"f": False}, {}, T),
    ("f < TRUE", {"f": False}, {}, T),
    ("f = context.f", {"f": False}, {"f": False}, T),
    ("f = (n > 1)", {"f": False, "n": 1}, {}, T),
    ("context.f AND n = 1", {"n": 1}, {"f": True}, T),
    ("TRUE", {}, {}, T),
    ("n = 1 OR false", {"n": 1}, {}, T),
    # arithmetic: float64, NaN and x/0 are NULL, infinities stay
    ("n / 0 IS NULL", {"n": 1}, {}, T),
    ("n / -0.0 IS NULL", {"n": 1}, {}, T),
    ("n / m > 0", {"n": 1, "m": 0}, {}, U),
    ("n - n IS NULL", {"n": INF}, {}, T),
    ("n * 0 = 0", {"n": INF}, {}, U),
    ("n / n IS NULL", {"n": -INF}, {}, T),
    ("n * 10 > 1e308", {"n": 1e308}, {}, T),
    ("n * 10 - 1e308 = n * 10", {"n": 1e308}, {}, T),
    ("n / m = 0", {"n": 1, "m": INF}, {}, T),
    ("ABS(n) = 2", {"n": -2}, {}, T),
    ("abs(n - m) <= 1", {"n": 1}, {}, U),
    ("n + 0.2 = 0.3", {"n": 0.1}, {}, F),
    ("n + 1 - 1e16 = 0", {"n": 1e16}, {}, T),
    ("n < context.n * 2 + 1", {"n": 4}, {"n": 2}, T),
    ("n < 5 - context.n", {"n": 3}, {"n": 2}, F),
    # timestamps: microseconds, UTC
    ("t = TIMESTAMP '2026-11-15T12:00:00Z'", {"t": NOON}, {}, T),
    ("t = TIMESTAMP '2026-11-15T12:00:00Z'", {"t": NOON.replace(tzinfo=None)}, {}, T),
    ("t = TIMESTAMP '2026-11-15T13:00:00+01:00'", {"t": NOON}, {}, T),
    ("t > TIMESTAMP '2026-11-15T12:00:00Z'", {"t": NOON + timedelta(microseconds=1)}, {}, T),
    ("t < timestamp '1970-01-01T00:00:00Z'", {"t": datetime(1969, 12, 31)}, {}, T),
    (
        "t = context.t",
        {"t": NOON.astimezone(timezone(timedelta(hours=-8)))},
        {"t": NOON},
        T,
    ),
    # names
    ('"odd name" = 1', {"odd name": 1}, {}, T),
    ('context."odd name" = 1', {}, {"odd name": 1}, T),
    ("N = 1 AND n = 2", {"N": 1, "n": 2}, {}, T),
    ('"and" = 1 and "say ""hi""" = 2', {"and": 1, 'say "hi"': 2}, {}, T),
    ("n = 1 AnD m = 2", {"n": 1, "m": 2}, {}, T),
    ("n=1AND(m<2)", {"n": 1, "m": 1}, {}, T),
    # locations
    ("DISTANCE(p, context.p) <= 111200", {"p": (0, 0)}, {"p": (0, 1)}, T),
    ("DISTANCE(p, context.p) <= 111190", {"p": (0, 0)}, {"p": (0, 1)}, F),
    ("DISTANCE(p, context.p) <= 5000", {"p": (0, 0)}, {}, U),
    ("DISTANCE(p, context.p) = 0", {"p": (48.1, 11.5)}, {"p": (48.1, 11.5)}, T),
]


@pytest.mark.parametrize(("condition", "message", "context", "truth"), CASES)
def test_case(condition, message, context, truth):
    f = NaiveFilter()
    f.update("ann", context)
    f.subscribe("p", condition, context="ann")
    assert f.truth("p", message) is truth
    assert f.match(message) == (["p"] if truth is True else [])


@pytest.mark.parametrize(
    "condition",
    [
        "", "n", "n + 1", "n = ", "n = 1 AND", "n = 'a' AND n = 1", "1 = 'a'", "n < 1 < 2",
        "(n = 1", "n = 1)", "n IN ()", "n IN (1, 'a')", "n LIKE 'a'", "s LIKE t",
        "s LIKE 'a!' ESCAPE '!'", "s LIKE 'a' ESCAPE 'no'", "s = 'a", "n NOT 1", "n IS 1",
        "flag AND n", "ABS(flag)", "s + 1 = 2", "t = TIMESTAMP 'soon'",
        "t = '2026-11-15T12:00:00Z'", "place = context.place", "DISTANCE(place) < 1",
        "DISTANCE(place, n) < 1", "n BETWEEN 1", "n = 1 n = 2", "n ! 1", "flag = 1",
        "(n = 1) = 1", "-s = 's'",
    ],
)  # fmt: skip
def test_refused(condition):
    schema = {"n": "number", "s": "string", "flag": "boolean", "t": "timestamp"}
    f = NaiveFilter({**schema, "place": "location"})
    with pytest.raises(ValueError):
        f.subscribe("p", condition, context="ann")
    assert f.match({"n": 1, "s": "a", "flag": True}) == []


def test_types_are_fixed_by_first_use():
    f = NaiveFilter()
    f.subscribe("p", "a = context.b AND b < 3", context="ann")  # b is a number, and so is a
    with pytest.raises(NaiveError):
        f.match({"a": "x"})
    with pytest.raises(NaiveError):
        f.update("ann", {"b": True})
    with pytest.raises(NaiveError):
        f.subscribe("q", "b = 'x'")
    with pytest.raises(NaiveError):
        f.subscribe("r", "fresh = 1 AND b = 'x'")
    f.match({"fresh": "a refused profile fixes nothing"})


def test_profiles_need_a_context_to_read_one():
    f = NaiveFilter()
    with pytest.raises(NaiveError):
        f.subscribe("p", "n = 1 OR context.n = 1")
    f.subscribe("p", "n = 1 OR context.n = 1", context="never seen")
    assert f.match({"n": 1}) == ["p"]
    assert f.match({"n": 2}) == []


def test_a_message_sees_what_stands_before_it():
    f = NaiveFilter()
    f.subscribe("p1", "type = 'talk' AND context.unread < 100 AND time < context.last", "ann")
    f.subscribe("p0", "time <= 16")
    talk = {"type": "talk", "time": 16}
    assert f.match(talk) == ["p0"]
    f.update("ann", {"unread": 50, "last": 17})
    assert f.match(talk) == ["p0", "p1"]
    f.update("ann", {"unread": None})
    assert f.match(talk) == ["p0"]
    f.update("ann", {"unread": 99})
    f.unsubscribe("p0")
    assert f.match(talk) == ["p1"]
    assert [truth for _, truth in f.why("p1", talk | {"time": 17})] == [False, True, True, False]
    with pytest.raises(NaiveError):
        f.unsubscribe("p0")
    with pytest.raises(NaiveError):
        f.subscribe("p1", "time = 1")


def test_distance_on_known_arcs():
    quarter = math.pi * 6371008.8 / 2
    assert distance((0, 0), (90, 0)) == pytest.approx(quarter)
    assert distance((0, -179.5), (0, 179.5)) == pytest.approx(quarter / 90)
    assert distance((0, 0), (0, 180)) == pytest.approx(2 * quarter)
    assert distance((10, 20), (10, 20)) == 0


def test_generated_conditions_are_true_false_and_unknown():
    outcomes, delivered, shapes = Counter(), 0, Counter()
    for seed in range(200):
        c = generate.Choices.from_seed(seed)
        schema = generate.schema(c)
        f = NaiveFilter(schema)
        f.update("ann", generate.record(c, schema))
        for id in "pqrst":
            condition = generate.condition(c, schema)
            shapes.update(_words(parse(condition)))
            f.subscribe(id, condition, "ann")
        for message in [generate.record(c, schema) for _ in range(4)]:
            outcomes.update(f.truth(id, message) for id in "pqrst")
            delivered += bool(f.match(message))
    total = outcomes.total()
    assert outcomes[True] > total / 4
    assert outcomes[False] > total / 4
    assert outcomes[None] > total / 10
    assert delivered > 400
    for shape in "and or not compare between in like arithmetic minus abs context message".split():
        assert shapes[shape] > 20, shape
    assert shapes["is null"] > 20


def _words(tree):
    if isinstance(tree, tuple):
        if tree and isinstance(tree[0], str):
            yield tree[0]
        for branch in tree:
            yield from _words(branch)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_generated_sequences_are_accepted(data):
    schema = data.draw(generate.schemas(locations=data.draw(st.booleans())))
    f = NaiveFilter(schema)
    for kind, *arguments in data.draw(generate.sequences(schema)):
        call = f.match if kind == "message" else getattr(f, kind)
        call(*arguments)


# ------------------------------------------------------------------------------------ events

SCHEMA = {"n": "number", "s": "string"}


def message(seq, **values):
    return {"seq": seq, "kind": "message", "id": f"m{seq}", **values}


def update(seq, context="ann", removed=None, **values):
    return {"seq": seq, "kind": "update", "id": context, "removed": removed, **values}


def subscribe(seq, id, condition, context=None):
    return {"seq": seq, "kind": "subscribe", "id": id, "condition": condition, "context": context}


def unsubscribe(seq, id):
    return {"seq": seq, "kind": "unsubscribe", "id": id}


NEAR = subscribe(1, "near", "n BETWEEN context.n - 1 AND context.n + 1", "ann")


def test_each_message_sees_the_state_before_it():
    events = [
        message(0, n=5),
        NEAR,
        message(2, n=5),  # ann has no n yet
        update(3, n=4),
        message(4, n=5),
        update(5, n=50),
        update(6, n=6, s="x"),
        message(7, n=5),
        subscribe(8, "all", "n IS NOT NULL"),
        message(9, n=5),
        update(10, removed=["n"]),
        message(11, n=5),
        unsubscribe(12, "all"),
        subscribe(13, "all", "s = context.s", "ann"),
        message(14, n=5, s="x"),
        message(15, n=5),
    ]
    deliveries = [
        (4, "m4", "near"),
        (7, "m7", "near"),
        (9, "m9", "all"),
        (9, "m9", "near"),
        (11, "m11", "all"),
        (14, "m14", "all"),
    ]
    assert NaiveFilter().process(events) == (deliveries, [])
    for cut in range(len(events) + 1):
        f = NaiveFilter()
        before, nothing, after = map(f.process, (events[:cut], [], events[cut:]))
        assert before[0] + nothing[0] + after[0] == deliveries


def test_null_leaves_what_an_update_does_not_remove():
    f = NaiveFilter()
    f.process([NEAR, update(2, n=4), update(3, n=None), update(4, n=math.nan), update(5)])
    assert f.match({"n": 5}) == ["near"]
    f.process([update(6, removed=["n", "s"])])
    assert f.match({"n": 5}) == []
    f.process([update(7, removed=[], n=4)])
    assert f.match({"n": 5}) == ["near"]


MALFORMED = [
    ("seq", message(None, n=5)),
    ("seq", {"kind": "update", "id": "ann", "n": 9}),
    ("seq", update("7", n=9)),
    ("seq", update(7.0, n=9)),
    ("seq", update(True, n=9)),
    ("seq", update(2**63, n=9)),
    ("kind", message(7, n=5) | {"kind": "massage"}),
    ("kind", update(7, n=9) | {"kind": None}),
    ("kind", {"seq": 7, "id": "m7"}),
    ("id", message(7, n=5) | {"id": None}),
    ("id", {"seq": 7, "kind": "update", "n": 9}),
    ("id", subscribe(7, None, "n = 5")),
    ("id", unsubscribe(7, None)),
    ("value", message(7, n="5")),
    ("value", message(7, s="x", n=True)),
    ("value", update(7, n=9, s=5)),
    ("value", update(7, removed=["n"], s=5)),
    ("value", message(7, n=5, fresh=b"no type")),
    ("condition", subscribe(7, "q", "n <")),
    ("condition", subscribe(7, "q", "n = 's'")),
    ("condition", subscribe(7, "q", "n = context.n")),
    ("condition", subscribe(7, "q", None)),
    ("condition", subscribe(7, "q", 5)),
    ("condition", {"seq": 7, "kind": "subscribe", "id": "q"}),
    ("duplicate profile", subscribe(7, "near", "n = 5")),
    ("unknown profile", unsubscribe(7, "q")),
    ("no event", None),
    ("no event", "message"),
]


@pytest.mark.parametrize(("reason", "event"), MALFORMED)
def test_malformed_events_are_rejected_and_change_nothing(reason, event):
    f = NaiveFilter(SCHEMA)
    events = [NEAR, update(2, n=4), message(3, n=5), event, message(8, n=5)]
    deliveries = [(3, "m3", "near"), (8, "m8", "near")]
    assert f.process(events) == (deliveries, [(3, reason)])


def test_a_rejected_event_fixes_no_type():
    f = NaiveFilter()
    events = [
        message(1, n=5),
        message(2, fresh="x", n="bad"),
        message(3, fresh=1),
        message(4, fresh="x"),
    ]
    assert f.process(events) == ([], [(1, "value"), (3, "value")])


def test_a_seq_counts_once():
    f = NaiveFilter(SCHEMA)
    events = [
        NEAR,
        update(3, n=4),
        update(3, n=50),
        update(2, n=50),
        unsubscribe(1, "near"),
        message(4, n=5),
        message(4, n=5),
        message(5, n="bad"),
        message(5, n=5),  # its seq is used up
        message(4, n="bad"),
        message(6, n=5),
    ]
    assert f.process(events) == ([(4, "m4", "near"), (6, "m6", "near")], [(7, "value")])
    assert f.process(events) == ([], [])
    assert f.process([message(7, n=5)]) == ([(7, "m7", "near")], [])


def test_a_sequence_may_begin_below_zero():
    events = [NEAR | {"seq": -9}, update(-3, n=4), message(-1, n=5), message(0, n=5)]
    expected = [(-1, "m-1", "near"), (0, "m0", "near")]
    assert NaiveFilter().process(events) == (expected, [])


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_events_and_calls_do_the_same(data):
    schema = data.draw(generate.schemas())
    called, processed = NaiveFilter(schema), NaiveFilter(schema)
    expected, events = [], []
    for seq, (kind, *arguments) in enumerate(data.draw(generate.sequences(schema, 25))):
        if kind == "message":
            expected += [(seq, f"m{seq}", id) for id in called.match(*arguments)]
            event = message(seq, **arguments[0])
        elif kind == "update":
            called.update(*arguments)
            values = {k: v for k, v in arguments[1].items() if v is not None and v == v}
            removed = [name for name in arguments[1] if name not in values]
            event = update(seq, arguments[0], removed, **values)
        else:
            getattr(called, kind)(*arguments)
            event = (subscribe if kind == "subscribe" else unsubscribe)(seq, *arguments)
        events.append(event)
    assert processed.process(events) == (expected, [])
    assert nonnull(called._contexts) == nonnull(processed._contexts)


def nonnull(contexts):
    return {id: {k: v for k, v in held.items() if v is not None} for id, held in contexts.items()}
