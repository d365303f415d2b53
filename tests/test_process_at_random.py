"""`process` against the oracle: random sequences of events, in any cut, as dicts and as Arrow.

Interleaved events, malformed ones among them, cut at random, deliver what the oracle delivers, in
order, and reject what it rejects, under every strategy and grouping.

GERMANE_CAMPAIGN=1 runs this fifty times longer; GERMANE_SHRINK=1 lets Hypothesis look for a
smallest failing sequence.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import generate
import pyarrow as pa
import pytest
from arrow_forms import deliveries, record_batch
from batchings import BATCHINGS, LONGER, VARIANTS, every_variant, make
from generate import CONTEXTS, Choices
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from naive import NaiveFilter

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

pytestmark = pytest.mark.usefixtures("auto_changes")

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
        ways = [*ways, self._with_links]
        self.events.append(self.c.pick(ways if self.arrow else [self._bad_value, *ways])())

    def _without_seq(self) -> dict:
        event = self._harmful()
        return self._spoilt(event, "seq", None, *([] if self.arrow else ["7"]))

    def _without_kind(self) -> dict:
        return self._spoilt(self._harmful(), "kind", "massage", None, "")

    def _without_id(self) -> dict:
        return self._spoilt(self._harmful(), "id", None)

    def _with_links(self) -> dict:
        field = self.c.pick(["links", "unlinks"])
        return self._harmful() | {field: self.c.pick([[["a", "b"]], [[]]])}

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
