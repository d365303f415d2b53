"""Batches against the oracle: every strategy, every grouping, any cut of one sequence of events.

Three parts. `process`: random interleaved events, malformed ones among them, cut at random and
given as dicts and as Arrow, deliver what the oracle delivers, in order, and reject what it
rejects. `match_many`: batches of every shape give the oracle's answers under every strategy and
grouping, while contexts move and profiles come and go between them. `match_chunks`: the same
answers in pieces.

GERMANE_CAMPAIGN=1 runs the random parts fifty times longer; GERMANE_SHRINK=1 lets Hypothesis look
for a smallest failing sequence.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise, product

import generate
import numpy as np
import pyarrow as pa
import pytest
from generate import CONTEXTS, Choices
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from naive import NaiveFilter

import germane

LONGER = 50 if os.environ.get("GERMANE_CAMPAIGN") else 1
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
if os.environ.get("GERMANE_SHRINK"):
    PHASES.append(Phase.shrink)
HYPOTHESIS = settings(
    phases=PHASES,
    max_examples=10 * LONGER,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)

STRATEGIES = ["auto", "unbatched/pix", "full/pix", "full/mix", "minib/pix", "minib/pix/mix"]
GROUPINGS: dict[str, Callable[[], object]] = {
    "tuned": lambda: None,
    "size 1": lambda: germane.FixedSize(1),
    "size 3": lambda: germane.FixedSize(3),
    "size 100": lambda: germane.FixedSize(100),
    "number 2": lambda: germane.FixedNumber(2),
    "number 4, 3 to 8": lambda: germane.FixedNumber(4, least=3, most=8),
    "value 5": lambda: germane.ByValue(5.0),
    "value 5 5": lambda: germane.ByValue(5.0, 5.0),
    "value 2 50": lambda: germane.ByValue(2.0, 50.0),
    "value 5, 4 or more": lambda: germane.ByValue(5.0, least=4),
    "value 30, up to 3": lambda: germane.ByValue(30.0, most=3),
    "value 5 20, 2 to 7": lambda: germane.ByValue(5.0, 20.0, least=2, most=7),
}
BATCHINGS = [(strategy, grouping) for grouping in GROUPINGS for strategy in STRATEGIES]
INDEXES = ["scan", "eager", "gbu", "agile", "auto"]
STRUCTURES = ["blocks", "skiplist"]
VARIANTS = [(index, structure) for index in INDEXES for structure in STRUCTURES]

every_variant = pytest.mark.parametrize(
    ("index", "structure"), VARIANTS, ids=["-".join(variant) for variant in VARIANTS]
)
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


pytestmark = pytest.mark.usefixtures("auto_changes")


def batching(strategy: str, grouping: str = "tuned", **options):
    return germane.Batching(strategy, GROUPINGS[grouping](), **options)


def make(index="agile", structure="blocks", schema=None, turn=0, **options):
    """A filter; whichever number `turn` is, it settles what else may vary."""
    policy = ["auto", "always", germane.Fixed(3)][(turn + turn // 6) % 3]
    options.setdefault("batching", batching(*BATCHINGS[turn % len(BATCHINGS)]))
    return germane.Filter(index=index, structure=structure, policy=policy, schema=schema, **options)


# ---------------------------------------------------------------------------- random events

BAD_CONDITIONS = ["n < AND", "n = 's'", "", "n", "s LIKE n", "context.n < 'a'", None]
SPREAD = [f"c{i}" for i in range(12)]  # contexts with values from 0 to 20
NEW = ["new", "newer"]  # contexts without values at first


class Stream:
    """Draws events one after the other, most of them good.

    With `arrow`, every value has the type of its attribute, so that it fits in a column.
    """

    def __init__(self, c: Choices, schema: dict[str, str], arrow: bool) -> None:
        self.c, self.schema, self.arrow = c, schema, arrow
        self.seq = c.pick([0, -5, 10**12])
        self.events: list[dict] = []
        self.last = {"n": 1.0}
        self.live: list[str] = []
        self.gone: list[str] = ["p"]
        self.templates = generate.templates(c)

    def prelude(self, n_profiles: int) -> None:
        """The type of every attribute, values for every context, and profiles."""
        self._add("update", "types", generate.one_of_each(self.schema))
        for context in [*CONTEXTS, *SPREAD]:
            self._add("update", context, self._context())
        for _ in range(n_profiles):
            self._subscribe(f"p{len(self.live)}", rich=20)

    def draw(self, c: Choices, n_events: int) -> None:
        self.c = c
        for _ in range(n_events):
            c.weighted(
                (30, self._message),
                (8, self._repeat),
                (22, self._update),
                (8, self._burst),
                (10, self._subscribe),
                (8, self._unsubscribe),
                (4, self._again),
                (10, self._malformed),
            )()

    def _add(self, kind: str, id: str, values: dict | None = None, **fields) -> None:
        self.events.append(self._new(kind, id, values, **fields))

    def _new(self, kind: str, id: str, values: dict | None = None, **fields) -> dict:
        self.seq += 1 + self.c.below(3)
        return {"seq": self.seq, "kind": kind, "id": id} | (values or {}) | fields

    # Good events.

    def _message(self) -> None:
        near = {"n": self.c.below(80) / 4, "m": self.c.below(80) / 4, "s": self.c.pick("ab")}
        self.last = generate.record(self.c, self.schema) | (near if self.c.chance(60) else {})
        self._repeat()

    def _repeat(self) -> None:
        """The last message, with another id."""
        self._add("message", f"m{len(self.events)}", self.last)

    def _update(self) -> None:
        c = self.c
        changed = {k: c.below(40) / 2 for k in "nm"} if c.chance(50) else {}
        changed |= generate.update(c, self.schema) if c.chance(60) else {}
        self._change(c.pick([*SPREAD, *CONTEXTS, *NEW, f"u{len(self.events)}"]), changed)

    def _burst(self) -> None:
        """One attribute of one context over and over; only the last is seen."""
        context, name = self.c.pick(SPREAD), self.c.pick("nm")
        for _ in range(2 + self.c.below(5)):
            self._change(context, {name: None if self.c.chance(25) else self.c.below(40) / 2})
        self._repeat()

    def _change(self, context: str, changed: dict) -> None:
        """None in `changed` removes; None in the event leaves what is there."""
        values = {name: value for name, value in changed.items() if value is not None}
        removed = [name for name in changed if name not in values]
        if self.c.chance(20):
            values |= {name: None for name in self.schema if name not in changed}
        if removed or self.c.chance(20):
            self._add("update", context, values, removed=removed or self.c.pick([[], None]))
        else:
            self._add("update", context, values)

    def _subscribe(self, id: str | None = None, rich: int = 50) -> None:
        id = id or self.c.pick([f"q{len(self.events)}", *self.gone[-3:]])
        context = None if self.c.chance(10) else self.c.pick([*SPREAD, *CONTEXTS, NEW[0]])
        if context is None or self.c.chance(rich):
            condition = generate.condition(self.c, self.schema, contextual=context is not None)
        else:
            condition = self.c.pick(self.templates)
        self._add("subscribe", id, context=context, condition=condition)
        self.live.append(id)
        self.gone = [other for other in self.gone if other != id]

    def _unsubscribe(self) -> None:
        if self.live:
            self.gone.append(self.live.pop(self.c.below(len(self.live))))
            self._add("unsubscribe", self.gone[-1])

    # Events without effect.

    def _again(self) -> None:
        """A seq that has been: the same event, or another that would change something."""
        old = [event for event in self.events[-20:] if event.get("seq") is not None]
        if old:
            event = self.c.pick(old)
            other = {"kind": self.c.pick(["unsubscribe", "message", "nonsense"])}
            self.events.append(event | (other if self.c.chance(30) else {}))

    def _malformed(self) -> None:
        ways = [self._without_seq, self._without_kind, self._without_id, self._bad_profile]
        self.events.append(self.c.pick(ways if self.arrow else [self._bad_value, *ways])())

    def _without_seq(self) -> dict:
        event = self._harmful()
        return self._spoilt(event, "seq", None, *([] if self.arrow else ["7"]))

    def _without_kind(self) -> dict:
        return self._spoilt(self._harmful(), "kind", "massage", None, "")

    def _without_id(self) -> dict:
        return self._spoilt(self._harmful(), "id", None)

    def _bad_profile(self) -> dict:
        ways = [
            self._new("subscribe", "bad", condition=self.c.pick(BAD_CONDITIONS), context="c0"),
            self._new("subscribe", "bad", condition="n < context.n"),
            self._new("unsubscribe", "never subscribed"),
        ]
        for id in self.live[:1]:
            ways.append(self._new("subscribe", id, condition="TRUE", context="c1"))
        return self.c.pick(ways)

    def _bad_value(self) -> dict:
        """One value of the wrong type, good ones beside it: none of them may take effect."""
        event, name = self._harmful(), self.c.pick(list(self.schema))
        wrong = {"number": "text", "string": 5, "boolean": 1, "timestamp": True}
        return event | {name: wrong[self.schema[name]]}

    def _harmful(self) -> dict:
        """A good message or update that shows if it takes effect."""
        if self.c.chance(50):
            return self._new("message", f"m{len(self.events)}", self.last)
        return self._new("update", self.c.pick(SPREAD), {"n": self.c.below(40) / 2})

    def _spoilt(self, event: dict, field: str, *values: object) -> dict:
        if self.c.chance(30):
            return {name: value for name, value in event.items() if name != field}
        return event | {field: self.c.pick(values)}

    def _context(self) -> dict:
        values = generate.record(self.c, self.schema)
        values |= {"n": self.c.below(40) / 2, "m": self.c.below(40) / 2}
        return {name: value for name, value in values.items() if value is not None}


# ------------------------------------------------------------------- one sequence, many cuts

Batches = list[list[dict]]

ARROW_TYPES = {
    "number": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
}
ARROW_FIELDS = {
    "seq": pa.int64(),
    "kind": pa.string(),
    "id": pa.string(),
    "removed": pa.list_(pa.string()),
    "context": pa.string(),
    "condition": pa.string(),
}


def cut(c: Choices, events: list[dict]) -> list[Batches]:
    """The batches of each call: of any size, empty ones and empty calls included."""
    calls, at = [], 0
    while at < len(events):
        sizes = [c.pick([1, 30, 0, 2, 7, 100]) for _ in range(1 + c.below(3))]
        ends = [at, *(min(at + sum(sizes[: i + 1]), len(events)) for i in range(len(sizes)))]
        calls.append([events[start:end] for start, end in pairwise(ends)])
        at = ends[-1]
        if c.chance(10):
            calls.append([])
    return calls


def as_dicts(c: Choices, batches: Batches) -> object:
    events = [event for batch in batches for event in batch]
    return c.pick([list, iter, tuple])(events)


def as_arrow(c: Choices, batches: Batches, schema: dict[str, str]) -> object:
    found = [record_batch(batch, schema, all_columns=c.chance(50)) for batch in batches]
    if len(found) == 1 and c.chance(70):
        return found[0] if c.chance(50) else pa.Table.from_batches(found)
    return c.pick([list, iter])(found)


def record_batch(events: list[dict], schema: dict[str, str], all_columns: bool) -> pa.RecordBatch:
    """One column for each field and attribute, or only for those that hold anything."""
    types = ARROW_FIELDS | {name: ARROW_TYPES[type_] for name, type_ in schema.items()}
    columns = {}
    for name, type_ in types.items():
        values = [in_utc(event.get(name)) for event in events]
        if all_columns or name in ("seq", "kind", "id") or any(v is not None for v in values):
            columns[name] = pa.array(values, type_)
    return pa.RecordBatch.from_pydict(columns)


def in_utc(value: object) -> object:
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


def deliveries(matches) -> list[tuple]:
    table = matches.to_arrow()
    assert table.column_names == ["seq", "message", "profile", "cost"]
    seqs, messages, profiles, costs = (column.to_pylist() for column in table.columns)
    assert set(costs) <= {0.0}
    assert len(matches) == len(seqs)
    return list(zip(seqs, messages, profiles, strict=True))


def played(f, calls: list[Batches], shape: Callable[[Batches], object]) -> tuple[list, list]:
    """What all calls together deliver and reject, with positions in the whole sequence."""
    delivered, rejected, start = [], [], 0
    for batches in calls:
        events = [event for batch in batches for event in batch]
        found = f.process(shape(batches))
        delivered += deliveries(found)
        for refusal in found.rejected:
            seq = events[refusal.position].get("seq")
            assert refusal.seq == seq or isinstance(seq, str)
            assert str(refusal.reason)
            rejected.append(start + refusal.position)
        start += len(events)
    return delivered, rejected


@dataclass(frozen=True)
class Story:
    """A sequence of events, with what the oracle makes of it."""

    schema: dict[str, str]
    declared: bool
    events: list[dict]
    deliveries: list[tuple]
    rejected: list[int]
    probe: dict
    answer: list[str]

    @classmethod
    def of(cls, stream: Stream, declared: bool) -> Story:
        oracle = NaiveFilter(stream.schema if declared else None)
        found, rejected = oracle.process(stream.events)
        probe = stream.last
        positions = [position for position, _ in rejected]
        events, answer = stream.events, oracle.match(probe)
        return cls(stream.schema, declared, events, found, positions, probe, answer)

    def told_to(self, f, c: Choices, arrow: bool) -> None:
        """The filter delivers and rejects the same, and is left in the same state."""
        calls = cut(c, self.events)
        if arrow:
            found, rejected = played(f, calls, lambda b: as_arrow(c, b, self.schema))
        else:
            found, rejected = played(f, calls, lambda b: as_dicts(c, b))
        assert rejected == self.rejected
        assert found == self.deliveries
        assert f.match(self.probe) == self.answer
        f._check()


@lru_cache(maxsize=200)
def story(seed: int, arrow: bool) -> Story:
    c = Choices.from_seed(seed)
    stream = Stream(c, generate.schema(c), arrow)
    stream.prelude(c.pick([100, 8, 40, 100]))
    stream.draw(c, 80)
    return Story.of(stream, declared=c.chance(50))


SEEDS = range(4 * LONGER)


@every_variant
@pytest.mark.parametrize("arrow", [False, True], ids=["dicts", "arrow"])
def test_sequences(index, structure, arrow):
    for seed in SEEDS:
        told, turn = story(seed, arrow), 7 * VARIANTS.index((index, structure)) + 11 * seed + arrow
        f = make(index, structure, told.schema if told.declared else None, turn)
        told.told_to(f, Choices.from_seed(turn), arrow)


def test_the_stories_say_something():
    """Otherwise the tests with them have lost their point."""
    for arrow in (False, True):
        told = [story(seed, arrow) for seed in SEEDS]
        assert sum(len(one.deliveries) for one in told) > 100 * len(told)
        assert sum(len(one.rejected) for one in told) > 3 * len(told)


@every_variant
def test_dicts_and_arrow_agree(index, structure):
    """The same events in both forms, cut differently, by two strategies."""
    turn = VARIANTS.index((index, structure))
    told = story(100 + turn, arrow=True)
    for step, arrow in enumerate([False, True]):
        f = make(index, structure, told.schema if told.declared else None, 5 * turn + step)
        told.told_to(f, Choices.from_seed(step), arrow)


@every_variant
@HYPOTHESIS
@given(data=st.data())
def test_any_sequence(index, structure, data):
    arrow, declared = data.draw(st.booleans()), data.draw(st.booleans())
    c = Choices.from_seed(data.draw(st.integers(0, 2**20)))
    stream = Stream(c, generate.schema(c), arrow)
    stream.prelude(data.draw(st.sampled_from([0, 8, 40])))
    drawn = Choices.from_draw(data.draw)
    stream.draw(drawn, data.draw(st.integers(1, 25)))
    told = Story.of(stream, declared)
    turn = data.draw(st.integers(0, 3 * len(BATCHINGS) - 1))
    f = make(index, structure, told.schema if declared else None, turn)
    note("\n".join(map(repr, told.events)))
    told.told_to(f, drawn, arrow)


@lru_cache
def restless() -> Story:
    """Many updates of few contexts, few messages among them, one batch."""
    c = Choices.from_seed(7)
    stream = Stream(c, {"n": "number", "m": "number", "s": "string"}, arrow=True)
    stream.prelude(150)
    for _ in range(30):
        for _ in range(c.below(40)):
            stream._change(
                c.pick(SPREAD),
                {c.pick("nm"): None if c.chance(10) else c.below(40) / 2},
            )
        stream._message()
    return Story.of(stream, declared=True)


@every_variant
def test_many_updates_among_few_messages(index, structure):
    told = restless()
    f = make(index, structure, told.schema, turn=17 * VARIANTS.index((index, structure)))
    batch = record_batch(told.events, told.schema, all_columns=True)
    assert deliveries(f.process(batch)) == told.deliveries
    f._check()


# -------------------------------------------------------------------------- events by example


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


# ------------------------------------------------------------------------------- workloads

N_ROUNDS = len(GROUPINGS)
NUMBERS = [f"a{j}" for j in range(8)]
EXTREMES = [math.inf, -math.inf, 1e308, -1e308, 1e18, -0.0, 5e-324]


@dataclass(frozen=True)
class Round:
    """Calls that change something, then a batch, and the oracle's answer to each message."""

    changes: list[tuple]
    messages: list[dict]
    expected: list[list[str]]


@dataclass(frozen=True)
class Workload:
    schema: dict[str, str]
    profiles: list[tuple[str, str, str]]
    contexts: list[tuple[str, dict]]
    rounds: list[Round]

    def filter(self, index: str, structure: str, turn: int = 0, **options):
        f = make(index, structure, self.schema, turn, **options)
        for context, values in self.contexts:
            f.update(context, values)
        f.subscribe_many(*map(list, zip(*self.profiles, strict=True)))
        return f

    def shaped(self, f, messages: list[dict], form: str) -> object:
        """The messages as a list of dicts, an Arrow table or batch, or an array of numbers."""
        if form == "array" and set(self.schema.values()) == {"number"}:
            rows = [[message.get(name) for name in f.attributes] for message in messages]
            return np.array(rows, dtype=float).reshape(len(rows), len(f.attributes))
        if form in ("table", "batch"):
            columns = {
                name: pa.array([in_utc(m.get(name)) for m in messages], ARROW_TYPES[type_])
                for name, type_ in self.schema.items()
            }
            return (pa.table if form == "table" else pa.RecordBatch.from_pydict)(columns)
        return messages


FORMS = ["dicts", "table", "array", "batch"]


class Drawn:
    """What a workload is made of. Here: ranges over two to eight of eight numbers, with constant
    bounds and bounds around the context's values; attributes in `few` take six values, the others
    any."""

    schema = dict.fromkeys(NUMBERS, "number")

    def __init__(self, c: Choices, few: tuple[str, ...]) -> None:
        self.c, self.few = c, few

    def number(self, name: str) -> float:
        if name in self.few:
            return 20.0 * self.c.below(6)
        return self.c.below(10**6) / 10**4

    def message(self) -> dict:
        return {name: self.number(name) for name in NUMBERS}

    def context(self) -> dict:
        return {name: self.number(name) for name in NUMBERS}

    def change(self) -> dict:
        name = self.c.pick(NUMBERS)
        return {name: None if self.c.chance(10) else self.number(name)}

    def condition(self) -> str:
        names = list(NUMBERS)
        asked = [names.pop(self.c.below(len(names))) for _ in range(2 + self.c.below(7))]
        width = round(100 * 0.3 ** (1 / len(asked)))
        return " AND ".join(self.range(name, width) for name in asked)

    def range(self, name: str, width: int) -> str:
        low, half = self.c.below(2 * (100 - width) + 1) / 2, width / 2
        return self.c.weighted(
            (2, f"{name} BETWEEN {low} AND {low + width}"),
            (2, f"{name} BETWEEN context.{name} - {half} AND context.{name} + {half}"),
            (1, f"{name} >= context.{name} - {half}"),
            (1, f"{name} > {low} AND {name} <= context.{name} + {half}"),
            (1, f"{name} < {low + width}"),
        )


class Holes(Drawn):
    """With NULLs and extremes everywhere, strings, and conditions that are no plain range."""

    schema = Drawn.schema | {"kind": "string"}

    def number(self, name: str) -> float:
        return self.c.pick(EXTREMES) if self.c.chance(4) else super().number(name)

    def message(self) -> dict:
        message = super().message() | {"kind": self.c.pick("abc")}
        for name in self.schema:
            if self.c.chance(20):
                null = self.c.pick([None, math.nan]) if name != "kind" else None
                message[name] = null
                if self.c.chance(30):
                    del message[name]
        return message

    def context(self) -> dict:
        return super().context() | {"kind": self.c.pick("abc")}

    def condition(self) -> str:
        one, other = (self.range(self.c.pick(NUMBERS), 60) for _ in range(2))
        return self.c.weighted(
            (3, f"{one} AND {other}"),
            (2, f"{one} AND kind = '{self.c.pick('abc')}'"),
            (1, f"{one} AND kind = context.kind"),
            (1, f"kind = 'a' AND {one} OR kind = 'b' AND {other}"),
            (1, f"a0 IS NULL AND {one}"),
            (1, f"a0 + a1 < context.a0 + context.a2 AND {one}"),
            (1, f"a0 = {20 * self.c.below(6)}"),
        )


class Rich(Drawn):
    """Any condition over any types."""

    def __init__(self, c: Choices) -> None:
        self.c, self.schema = c, generate.schema(c)
        self.templates = generate.templates(c)

    def message(self) -> dict:
        near = {"n": self.c.below(80) / 4, "m": self.c.below(80) / 4, "s": self.c.pick("ab")}
        return generate.record(self.c, self.schema) | (near if self.c.chance(70) else {})

    def context(self) -> dict:
        values = generate.record(self.c, self.schema)
        return values | {"n": self.c.below(40) / 2, "m": self.c.below(40) / 2}

    def change(self) -> dict:
        return generate.update(self.c, self.schema)

    def condition(self) -> str:
        if self.c.chance(70):
            return self.c.pick(self.templates)
        return generate.condition(self.c, self.schema)


WORKLOADS: dict[str, Callable[[Choices], Drawn]] = {
    "few values": lambda c: Drawn(c, few=tuple(NUMBERS)),
    "continuous": lambda c: Drawn(c, few=()),
    "holes": lambda c: Holes(c, few=tuple(NUMBERS[::2])),
    "rich": Rich,
}


@lru_cache
def workload(name: str, n_profiles: int = 200, n_rounds: int = N_ROUNDS) -> Workload:
    c = Choices.from_seed(len(name))
    drawn = WORKLOADS[name](c)
    oracle = NaiveFilter(drawn.schema)
    who = [f"c{i}" for i in range(30)]
    contexts = [(context, drawn.context()) for context in who]
    profiles = [(f"p{i}", drawn.condition(), c.pick(who)) for i in range(n_profiles)]
    for kind, calls in (("update", contexts), ("subscribe", profiles)):
        for arguments in calls:
            getattr(oracle, kind)(*arguments)
    rounds = []
    for k in range(n_rounds):
        changes = [("update", c.pick(who), drawn.change()) for _ in range(12 * bool(k))]
        if k:
            changes.append(("unsubscribe", f"p{k}"))
            changes.append(("subscribe", f"q{k}", drawn.condition(), c.pick(who)))
        for kind, *arguments in changes:
            getattr(oracle, kind)(*arguments)
        messages = batch_of(drawn, 16)
        rounds.append(Round(changes, messages, [oracle.match(message) for message in messages]))
    return Workload(drawn.schema, profiles, contexts, rounds)


def batch_of(drawn: Drawn, n: int) -> list[dict]:
    """Every fourth message comes twice, not next to itself."""
    fresh = [drawn.message() for _ in range(n - n // 4)]
    return fresh + fresh[: n // 4]


def change(f, changes: list[tuple]) -> None:
    for kind, *arguments in changes:
        getattr(f, kind)(*arguments)


def agree(matches, expected: list[list[str]], errors: set[int] = frozenset()) -> None:
    """Every view of the matches says the same."""
    assert matches.by_message() == expected
    assert set(matches.errors) == set(errors)
    assert all(isinstance(error, germane.GermaneError) for error in matches.errors.values())

    pairs = [(number, id) for number, ids in enumerate(expected) for id in ids]
    assert matches.n_messages == len(expected)
    assert len(matches) == len(pairs)
    assert list(matches.counts) == [len(ids) for ids in expected]

    by_profile: dict[str, list[int]] = {}
    for number, id in pairs:
        by_profile.setdefault(id, []).append(number)
    assert {id: list(numbers) for id, numbers in matches.by_profile().items()} == by_profile

    by_row: dict[int, list[int]] = {}
    for number in range(len(expected)):
        for row in matches.rows(number):
            by_row.setdefault(int(row), []).append(number)
    assert sorted(by_row.values()) == sorted(by_profile.values())

    table = matches.to_arrow()
    assert table.column_names == ["message", "profile", "cost"]
    numbers, ids, costs = (column.to_pylist() for column in table.columns)
    assert list(zip(numbers, ids, strict=True)) == pairs
    assert costs == [0.0] * len(pairs)


# ------------------------------------------------------------------------------- match_many


def turn_of(index: str, name: str, strategy: str) -> int:
    return INDEXES.index(index) + list(WORKLOADS).index(name) + STRATEGIES.index(strategy)


CASES = [
    case
    for case in product(INDEXES, WORKLOADS, STRATEGIES)
    if LONGER > 1 or "agile" in case or turn_of(*case) % 5 in (0, 2)  # each two of them meet
]


@pytest.mark.parametrize(("index", "name", "strategy"), CASES, ids=map("-".join, CASES))
def test_batches_between_changes(index, name, strategy):
    """One filter, each round by another grouping; contexts and profiles change in between."""
    work, turn = workload(name), turn_of(index, name, strategy)
    f = work.filter(index, STRUCTURES[turn % 2], turn)
    for k, (grouping, round) in enumerate(zip(GROUPINGS, work.rounds, strict=True)):
        change(f, round.changes)
        f.batching = batching(strategy, grouping)
        agree(f.match_many(work.shaped(f, round.messages, FORMS[(k + turn) % 4])), round.expected)
    f._check()


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_workloads_say_something(name):
    answers = [ids for round in workload(name).rounds for ids in round.expected]
    sizes = [len(ids) for ids in answers]
    assert np.mean(sizes) > 5
    assert len(set(sizes)) > 10
    assert np.mean(sizes) < 120


@every_variant
def test_strategies_take_turns(index, structure):
    """Any strategy and grouping after any other, and the default, on batches of any size."""
    turn = VARIANTS.index((index, structure))
    work = workload(list(WORKLOADS)[turn % 4])
    c, f = Choices.from_seed(turn), work.filter(index, structure, turn, batching=germane.Batching())
    for round in work.rounds:
        change(f, round.changes)
        at = 0
        while at < len(round.messages):
            if c.chance(70):
                f.batching = batching(*c.pick(BATCHINGS))
            end = at + c.pick([1, 2, 5, 13])
            messages = work.shaped(f, round.messages[at:end], c.pick(FORMS))
            agree(f.match_many(messages), round.expected[at:end])
            at = end


@every_variant
def test_tuned_through_many_batches(index, structure):
    """The tuner is never told anything, and never changes an answer."""
    turn = VARIANTS.index((index, structure))
    work = workload(list(WORKLOADS)[turn % 4])
    strategy = ["auto", "minib/pix", "minib/pix/mix"][turn % 3]
    f = work.filter(index, structure, batching=batching(strategy))
    for round in work.rounds:
        change(f, round.changes)
        for size in (1, 3, 16):
            for at in range(0, len(round.messages), size):
                found = f.match_many(round.messages[at : at + size])
                assert found.by_message() == round.expected[at : at + size]


WRONG = [{"a0": "text"}, {"a1": 50.0, "kind": 5}, {"a2": True}]


@pytest.mark.parametrize(
    ("strategy", "grouping"), BATCHINGS, ids=[f"{s}-{g}" for s, g in BATCHINGS]
)
def test_odd_batches(strategy, grouping):
    work, turn = workload("holes", 60, 2), BATCHINGS.index((strategy, grouping))
    f = work.filter(*VARIANTS[(turn + turn // 6) % 10], batching=batching(strategy, grouping))
    first, second = work.rounds
    change(f, first.changes)

    agree(f.match_many([]), [])
    agree(f.match_many(work.shaped(f, [], "table")), [])
    agree(f.match_many(first.messages), first.expected)
    for message, answer in zip(first.messages[:3], first.expected[:3], strict=True):
        agree(f.match_many([message]), [answer])
    most = max(range(len(first.expected)), key=lambda i: len(first.expected[i]))
    agree(f.match_many([first.messages[most]] * 40), [first.expected[most]] * 40)
    agree(f.match_many(first.messages * 5), first.expected * 5)

    numberless = [{"kind": message.get("kind")} for message in first.messages]
    nothing = [f.match(message) for message in numberless]
    agree(f.match_many(numberless), nothing)
    mixed = [m for pair in zip(first.messages, numberless, strict=True) for m in pair]
    answers = [a for pair in zip(first.expected, nothing, strict=True) for a in pair]
    agree(f.match_many(mixed), answers)

    for at in (0, 11, len(first.messages)):
        spoilt = first.messages[:at] + WRONG + first.messages[at:]
        expected = first.expected[:at] + [[]] * len(WRONG) + first.expected[at:]
        agree(f.match_many(spoilt), expected, {at, at + 1, at + 2})
    agree(f.match_many(WRONG), [[]] * len(WRONG), {0, 1, 2})

    change(f, second.changes)
    agree(f.match_many(second.messages), second.expected)
    f._check()


@every_strategy
def test_first_use_fixes_a_type_within_a_batch_of_messages(strategy):
    f = germane.Filter(batching=batching(strategy))
    f.subscribe("p", "n = 1")
    messages = [{"n": "x", "new": "x"}, {"n": 1, "new": 5}, {"n": 1, "new": "x"}, {"n": 1}]
    agree(f.match_many(messages), [[], ["p"], [], ["p"]], {0, 2})


@every_strategy
def test_batches_for_nobody(strategy):
    f = germane.Filter(batching=batching(strategy))
    agree(f.match_many([{"n": 1}, {}]), [[], []])
    f.subscribe_many(["p", "q"], ["n = 1", "s = 'x'"])
    agree(f.match_many([{"n": 1}, {}, {"s": "x"}]), [["p"], [], ["q"]])
    f.unsubscribe("p")
    f.unsubscribe("q")
    agree(f.match_many([{"n": 1}, {}]), [[], []])
    agree(f.match_many([]), [])


@every_strategy
def test_matches_outlive_changes(strategy):
    """What was found stays as it was found, whichever view is asked for later."""
    work = workload("few values")
    f = work.filter("agile", "blocks", batching=batching(strategy))
    change(f, work.rounds[0].changes)
    found = f.match_many(work.rounds[0].messages)
    for round in work.rounds[1:]:
        change(f, round.changes)
        f.match_many(round.messages)
    assert found.by_message() == work.rounds[0].expected
    assert found.to_arrow().num_rows == sum(map(len, work.rounds[0].expected))


# ----------------------------------------------------------------------------- match_chunks


def pairs_in(chunks: Iterator) -> list[tuple]:
    """(message, profile) of all chunks; each begins at the message where the last one ended, or
    after it."""
    pairs, last = [], 0
    for chunk in chunks:
        table = chunk.to_arrow()
        numbers = table["message"].to_pylist()
        assert numbers == sorted(numbers)
        assert len(chunk) == len(numbers)
        for number in numbers[:1]:
            assert number >= last
        last = numbers[-1] if numbers else last
        pairs += zip(numbers, table["profile"].to_pylist(), strict=True)
    return sorted(pairs)


@pytest.mark.parametrize("name", WORKLOADS)
@every_strategy
def test_chunks(name, strategy):
    work, turn = workload(name), 3 * STRATEGIES.index(strategy) + list(WORKLOADS).index(name)
    f = work.filter(*VARIANTS[turn % 10], batching=batching(strategy))
    for round, max_bytes, form in zip(work.rounds, [1, 64, 700, 2**28], FORMS, strict=False):
        change(f, round.changes)
        f.batching = batching(strategy)
        whole = f.match_many(round.messages)
        assert whole.by_message() == round.expected
        f.batching = batching(strategy, max_bytes=max_bytes)
        chunks = list(f.match_chunks(work.shaped(f, round.messages, form)))
        table = whole.to_arrow()
        expected = zip(table["message"].to_pylist(), table["profile"].to_pylist(), strict=True)
        assert pairs_in(chunks) == sorted(expected)

        largest = max(len(ids) for ids in round.expected)
        n_rows = max(max_bytes // 4, largest)  # no less than four bytes a match
        assert all(len(chunk) <= n_rows for chunk in chunks)
        assert len(chunks) >= len(whole) / n_rows


@every_strategy
def test_chunks_by_profile(strategy):
    work = workload("continuous")
    f = work.filter("agile", "blocks", batching=batching(strategy, max_bytes=100))
    messages, expected = work.rounds[0].messages, work.rounds[0].expected
    change(f, work.rounds[0].changes)
    found: dict[str, list[int]] = {}
    for chunk in f.match_chunks(messages):
        for id, numbers in chunk.by_profile().items():
            found.setdefault(id, []).extend(numbers)
    ids = {id for ids in expected for id in ids}
    assert found == {id: [i for i, e in enumerate(expected) if id in e] for id in ids}


@every_strategy
def test_chunks_of_odd_batches(strategy):
    work = workload("holes", 60, 2)
    f = work.filter("agile", "blocks", batching=batching(strategy, max_bytes=40))
    change(f, work.rounds[0].changes)
    messages, expected = work.rounds[0].messages, work.rounds[0].expected
    assert pairs_in(f.match_chunks([])) == []
    spoilt = messages[:9] + WRONG + messages[9:]
    chunks = list(f.match_chunks(spoilt))
    answers = expected[:9] + [[]] * len(WRONG) + expected[9:]
    assert pairs_in(chunks) == sorted((i, id) for i, ids in enumerate(answers) for id in ids)
    errors = {row: error for chunk in chunks for row, error in chunk.errors.items()}
    assert sorted(errors) == [9, 10, 11]
    agree(f.match_many(spoilt), answers, {9, 10, 11})


# --------------------------------------------------------------------- settings and decisions


@pytest.mark.parametrize(
    "bad",
    [
        lambda: germane.Batching("half/pix"),
        lambda: germane.Batching("minib/pix", grouping="by value"),
        lambda: germane.Batching(max_latency_ms=-1),
        lambda: germane.Batching(max_latency_ms=math.nan),
        lambda: germane.Batching(max_bytes=0),
        lambda: germane.FixedSize(0),
        lambda: germane.FixedNumber(-1),
        lambda: germane.ByValue(0.0),
        lambda: germane.ByValue(math.nan),
        lambda: germane.ByValue(5.0, -1.0),
        lambda: germane.FixedSize(3, least=0),
        lambda: germane.ByValue(5.0, least=4, most=3),
    ],
)
def test_settings_that_mean_nothing(bad):
    with pytest.raises(germane.GermaneError):
        bad()


def test_groupings_show_and_compare_by_their_own_names():
    assert repr(germane.FixedSize(3)) == "FixedSize(n=3, least=1, most=None)"
    assert repr(germane.FixedNumber(3, most=9)) == "FixedNumber(n=3, least=1, most=9)"
    assert germane.FixedSize(3) != germane.FixedNumber(3)


@every_strategy
def test_stats_tell_what_was_done(strategy):
    work = workload("continuous")
    f = work.filter("agile", "blocks", batching=batching(strategy))
    n_messages = n_matches = 0
    for round in work.rounds[:4]:
        change(f, round.changes)
        n_messages += len(round.messages)
        n_matches += len(f.match_many(round.messages))
    stats = f.stats()["batching"]
    named = {"strategy", "minibatch", "batches", "messages", "grouping", "union_rows", "tested"}
    assert named | {"matches", "stage_ns"} <= set(stats)
    assert stats["batches"] == 4
    assert stats["messages"] == n_messages
    assert stats["matches"] == n_matches
    assert stats["strategy"] in (STRATEGIES if strategy == "auto" else [strategy])
    stages = {"group", "probe", "postfilter", "deliver"}
    assert stages <= set(stats["stage_ns"])
    assert all(spent >= 0 for spent in stats["stage_ns"].values())
