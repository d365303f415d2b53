"""The filter against the oracle, through long random lives, in every combination of parts.

Three drivers, each run once per combination of index, policy and structure, so that a failure
names its combination:

- `test_machine`: Hypothesis chooses and shrinks calls of every kind, bulk phases included;
- `test_sequences`: seeded event sequences over rich schemas and conditions;
- `test_environments`: 2,000 profiles with environments around context values and 3,000 events,
  judged by a vectorised oracle.

GERMANE_CAMPAIGN=1 runs all of them fifty times longer. GERMANE_SHRINK=1 lets Hypothesis look for
a smallest failing life, which takes up to five minutes for each failing combination; without it,
a failure shows the life as it was, and a blob to replay it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import generate
import numpy as np
import pytest
from generate import CONTEXTS, Choices
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from naive import NaiveFilter

CAMPAIGN = bool(os.environ.get("GERMANE_CAMPAIGN"))
LONGER = 50 if CAMPAIGN else 1

PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
if os.environ.get("GERMANE_SHRINK"):
    PHASES.append(Phase.shrink)

settings.register_profile(
    "ci",
    phases=PHASES,
    max_examples=12,
    stateful_step_count=30,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
settings.register_profile(
    "campaign", settings.get_profile("ci"), max_examples=12 * 50, stateful_step_count=30
)
PROFILE = settings.get_profile("campaign" if CAMPAIGN else "ci")

STRUCTURES = ["blocks", "skiplist"]
POLICIES = ["always", "fixed", "auto"]
COMBINATIONS = [
    *((index, "auto", s) for index in ["scan", "eager", "partial", "gbu"] for s in STRUCTURES),
    *((index, p, s) for index in ["agile", "auto"] for p in POLICIES for s in STRUCTURES),
]
every_combination = pytest.mark.parametrize(
    ("index", "policy", "structure"), COMBINATIONS, ids=["-".join(c) for c in COMBINATIONS]
)


@pytest.fixture(autouse=True)
def eager_adaptation(request, monkeypatch, small_tables):
    """Small tables, and what adapts does so soon.

    One combination changes over between index and sweep at every chance, one lets slots loose at
    every chance, the others never do either; and one leaves slack around every escalated interval.
    """
    name = request.node.name
    changes = "agile-auto" in name or "auto-fixed" in name
    loosens = "agile-fixed" in name or "auto-always" in name
    if changes or loosens:
        monkeypatch.setattr("germane.filter.balance.CHANGE_NS", 0.0)
    if loosens:
        monkeypatch.setattr("germane.filter.balance.TEST_NS", 1.0)
        monkeypatch.setattr("germane.filter.balance.BLOCK_NS", 0.0)
        monkeypatch.setattr("germane.filter.tables.SWEEP_NS", 1e12)
        monkeypatch.setattr("germane.filter.balance.Balance.exceeds", lambda *_: False)
    if "always" in name:
        monkeypatch.setattr("germane.index.blocks.CANDIDATE_NS", 1e-3)
        monkeypatch.setattr("germane.index.blocks.LEAST_STEPS", 0.0)
        monkeypatch.setattr("germane.index.blocks.HOT", 2)
    monkeypatch.setattr("germane.filter.table.BLOCK_NS", 1e12)


def make(index: str, policy: str, structure: str, schema: dict[str, str] | None = None):
    import germane

    policy = germane.Fixed(3) if policy == "fixed" else policy
    return germane.Filter(index=index, policy=policy, structure=structure, schema=schema)


def saved_and_loaded(f):
    import germane

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "filter"
        f.save(path)
        return germane.Filter.load(path)


# ------------------------------------------------------------------------------- the machine

SEEDS = st.integers(0, 2**20)


class FilterMachine(RuleBasedStateMachine):
    """The same calls on the filter and on the oracle; every match must be the same.

    Small steps draw their conditions and values from Hypothesis; bulk phases draw one seed, as
    hundreds of profiles would exhaust its buffer.
    """

    combination: tuple[str, str, str]

    def __init__(self) -> None:
        super().__init__()
        self.live: list[str] = []
        self.gone: list[str] = []
        self.n_ids = 0
        self.contexts = list(CONTEXTS)
        self.seen: list[dict] = []

    @initialize(schema=generate.schemas(), declared=st.booleans(), seed=SEEDS, n=st.integers(0, 30))
    def start(self, schema, declared, seed, n):
        self.schema = schema
        self.filter = make(*self.combination, schema=schema if declared else None)
        self.naive = NaiveFilter(schema if declared else None)
        if not declared:
            self._update("types", generate.one_of_each(schema))
        c = Choices.from_seed(seed)
        for context in CONTEXTS:
            self._update(context, generate.record(c, schema))
        self._subscribe_many(
            [(self._new_id(), generate.condition(c, schema), c.pick(CONTEXTS)) for _ in range(n)]
        )

    # Profiles.

    @rule(data=st.data())
    def subscribe(self, data):
        id, context = data.draw(self._ids()), data.draw(self._contexts(nobody=True))
        condition = data.draw(generate.conditions(self.schema, contextual=context is not None))
        self.filter.subscribe(id, condition, context=context)
        self._subscribed(id, condition, context)
        self._recall(data)

    @rule(data=st.data(), n=st.integers(1, 6), anonymous=st.booleans())
    def subscribe_many(self, data, n, anonymous):
        ids = [self._new_id() for _ in range(n)]
        contexts = [None if anonymous else data.draw(self._contexts(nobody=True)) for _ in ids]
        conditions = [
            data.draw(generate.conditions(self.schema, contextual=context is not None))
            for context in contexts
        ]
        if anonymous:
            self.filter.subscribe_many(ids, conditions)
            for id, condition in zip(ids, conditions, strict=True):
                self._subscribed(id, condition, None)
        else:
            self._subscribe_many(list(zip(ids, conditions, contexts, strict=True)))
        self._recall(data)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def unsubscribe(self, data):
        self._unsubscribe(data.draw(st.sampled_from(self.live)))
        self._recall(data)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def resubscribe(self, data):
        """The same id at once with another condition: no trace of the old one may answer."""
        id, context = data.draw(st.sampled_from(self.live)), data.draw(self._contexts())
        self._unsubscribe(id)
        condition = data.draw(generate.conditions(self.schema))
        self.filter.subscribe(id, condition, context=context)
        self._subscribed(id, condition, context)
        self._recall(data)

    # Contexts.

    @rule(data=st.data())
    def update(self, data):
        self._update(data.draw(self._contexts()), data.draw(generate.updates(self.schema)))
        self._recall(data)

    @rule(data=st.data(), n=st.integers(1, 8))
    def update_many(self, data, n):
        attribute = data.draw(st.sampled_from(list(self.schema)))
        pool = st.sampled_from(generate.EVERYTHING.pools[self.schema[attribute]])
        contexts = [data.draw(self._contexts()) for _ in range(n)]  # the last of equals wins
        values = [data.draw(st.one_of(pool, st.none())) for _ in range(n)]
        if self.schema[attribute] == "number" and data.draw(st.booleans()):
            values = np.array(values, dtype=float)  # None becomes NaN, which is NULL as well
        self._update_many(contexts, attribute, values)
        self._recall(data)

    # Messages.

    @rule(data=st.data())
    def match(self, data):
        self._match(data.draw(generate.messages(self.schema)))

    @rule(data=st.data())
    def match_many(self, data):
        messages = data.draw(st.lists(generate.messages(self.schema), max_size=6))
        self._match_many(messages)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def match_after_update(self, data):
        """One context, one attribute, one message, as close together as they come."""
        message = data.draw(generate.messages(self.schema))
        self._match(message)
        self._update(data.draw(self._contexts()), data.draw(generate.updates(self.schema)))
        self._match(message)

    # Bulk.

    @rule(seed=SEEDS, n=st.integers(150, 400))
    def crowd(self, seed, n):
        """More profiles than one block of an index holds, and contexts with spread values."""
        if len(self.live) > 600:
            return
        c = Choices.from_seed(seed)
        self.contexts = CONTEXTS + [f"c{i}" for i in range(1 + c.below(60))]
        for context in self.contexts:
            self._update(context, {"n": c.below(40) / 2, "m": c.below(40) / 2})
        templates = generate.templates(c)[: 1 + c.below(7)]
        self._subscribe_many(
            [(self._new_id(), c.pick(templates), c.pick(self.contexts)) for _ in range(n)]
        )
        self._match_many([self._spread(c) for _ in range(3)])

    @rule(seed=SEEDS, n_contexts=st.integers(1, 4), n_rounds=st.integers(1, 12))
    def churn(self, seed, n_contexts, n_rounds):
        """Many updates of few contexts, and few messages: entries escalate, then deescalate."""
        c = Choices.from_seed(seed)
        few = [c.pick(self.contexts) for _ in range(n_contexts)]
        for _ in range(n_rounds):
            for context in few:
                value = None if c.chance(5) else c.below(40) / 2
                self._update(context, {c.pick(["n", "m"]): value})
            if c.chance(50):
                self._match(self._spread(c))
        self._match_many([self._spread(c) for _ in range(4)])

    @precondition(lambda self: len(self.live) > 100)
    @rule(seed=SEEDS, n=st.integers(1, 300))
    def exodus(self, seed, n):
        """Blocks run empty, and rows are used again."""
        c = Choices.from_seed(seed)
        for _ in range(min(n, len(self.live))):
            self._unsubscribe(c.pick(self.live))
        self._match(self._spread(c))

    # What must be refused, must change nothing.

    @rule(context=st.sampled_from(CONTEXTS))
    def refuse(self, context):
        import germane

        with pytest.raises(germane.GermaneError):
            self.filter.subscribe("refused", "n = 'a'", context=context)
        with pytest.raises(germane.GermaneError):
            self.filter.subscribe("refused", "n < AND", context=context)
        with pytest.raises(germane.GermaneError):
            self.filter.subscribe("refused", "n < context.n")
        with pytest.raises(germane.GermaneError):
            self.filter.update(context, {"n": "a"})
        with pytest.raises(germane.GermaneError):
            self.filter.match({"n": "a"})
        with pytest.raises(germane.GermaneError):
            self.filter.unsubscribe("never subscribed")

    @rule()
    def check(self):
        self.filter._check()

    @rule()
    def save_and_load(self):
        self.filter = saved_and_loaded(self.filter)

    def teardown(self):
        if hasattr(self, "filter"):
            self.filter._check()

    # Both sides at once.

    def _update(self, context, values):
        self.filter.update(context, values)
        self.naive.update(context, values)

    def _update_many(self, contexts, attribute, values):
        self.filter.update_many(contexts, attribute, values)
        for context, value in zip(contexts, values, strict=True):
            self.naive.update(context, {attribute: value})

    def _subscribe_many(self, profiles):
        ids, conditions, contexts = map(list, zip(*profiles, strict=True)) if profiles else [[]] * 3
        self.filter.subscribe_many(ids, conditions, contexts)
        for profile in profiles:
            self._subscribed(*profile)

    def _subscribed(self, id, condition, context):
        self.naive.subscribe(id, condition, context)
        self.live.append(id)
        if id in self.gone:
            self.gone.remove(id)

    def _unsubscribe(self, id):
        self.filter.unsubscribe(id)
        self.naive.unsubscribe(id)
        self.live.remove(id)
        self.gone.append(id)

    def _match(self, message):
        assert self.filter.match(message) == self.naive.match(message), message
        self.seen = [message, *self.seen[:4]]

    def _match_many(self, messages):
        found = self.filter.match_many(messages).by_message()
        assert found == [self.naive.match(message) for message in messages], messages

    def _recall(self, data):
        """Often, an old message again: a change shows in the difference."""
        if self.seen and data.draw(st.booleans()):
            self._match(data.draw(st.sampled_from(self.seen)))

    # Choices.

    def _new_id(self):
        self.n_ids += 1
        return f"p{self.n_ids}"

    def _ids(self):
        fresh = st.builds(self._new_id)
        return st.one_of(fresh, st.sampled_from(self.gone)) if self.gone else fresh

    def _contexts(self, nobody=False):
        known = st.sampled_from([*CONTEXTS, *self.contexts[-2:], "never updated"])
        return st.one_of(known, st.none()) if nobody else known

    def _spread(self, c):
        message = {"n": c.below(80) / 4, "m": c.below(80) / 4, "s": c.pick(["a", "b"])}
        return generate.record(c, self.schema) | (message if c.chance(80) else {})


@every_combination
def test_machine(index, policy, structure):
    name = f"{index}_{policy}_{structure}"
    machine = type(name, (FilterMachine,), {"combination": (index, policy, structure)})
    run_state_machine_as_test(machine, settings=PROFILE)


# -------------------------------------------------------------------------- seeded sequences


@every_combination
@pytest.mark.parametrize("locations", [False, True], ids=["plain", "locations"])
def test_sequences(index, policy, structure, locations):
    for seed in range(20 * LONGER):
        c = Choices.from_seed(seed)
        schema = generate.schema(c, locations)
        f, naive = make(index, policy, structure, schema), NaiveFilter(schema)
        for at, (kind, *arguments) in enumerate(generate.events(c, schema, 60)):
            if kind == "message":
                where = (seed, at, *arguments)
                assert f.match(*arguments) == naive.match(*arguments), where
            else:
                getattr(f, kind)(*arguments)
                getattr(naive, kind)(*arguments)
        f._check()


# ------------------------------------------------------------------------------ environments

N_PROFILES = 2_000
N_EVENTS = 3_000
N_CONTEXTS = 300
N_ATTRIBUTES = 8
ATTRIBUTES = [f"a{j}" for j in range(N_ATTRIBUTES)]
COLOURS = ["red", "green", "blue", "grey"]


class Environments:
    """A vectorised oracle for conjunctions of environments and one equality.

    Profile i asks, for some attributes j, that the message's value lies in [context - eps,
    context + eps], and, unless colour[i] is -1, that the message has a certain colour or that of
    the context. A NaN is a NULL, and a comparison with it is never true.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.values = np.full((N_CONTEXTS, N_ATTRIBUTES), np.nan)
        self.colours = np.full(N_CONTEXTS, -1)  # -1 is NULL
        self.live = np.zeros(N_PROFILES, bool)
        self.context = np.zeros(N_PROFILES, int)
        self.eps = np.full((N_PROFILES, N_ATTRIBUTES), np.nan)  # NaN: does not ask
        self.colour = np.full(N_PROFILES, -1)  # -1: does not ask; len(COLOURS): the context's
        self.order = np.argsort(ids(np.arange(N_PROFILES)))

    def new_profile(self, row: int) -> str:
        """Draw what profile `row` asks, and write it as a condition."""
        rng = self.rng
        self.live[row] = True
        self.context[row] = rng.integers(N_CONTEXTS)
        self.eps[row] = np.nan
        asked = rng.choice(N_ATTRIBUTES, rng.integers(1, 4), replace=False)
        self.eps[row, asked] = rng.choice([5.0, 20.0, 35.5], len(asked))
        self.colour[row] = rng.choice([-1, -1, 0, 1, len(COLOURS)])
        clauses = [
            f"a{j} BETWEEN context.a{j} - {self.eps[row, j]} AND context.a{j} + {self.eps[row, j]}"
            for j in asked
        ]
        if self.colour[row] == len(COLOURS):
            clauses.append("colour = context.colour")
        elif self.colour[row] >= 0:
            clauses.append(f"colour = '{COLOURS[self.colour[row]]}'")
        return " AND ".join(clauses)

    def new_numbers(self, n: int) -> np.ndarray:
        """Whole numbers, so that bounds are hit, and some NULLs."""
        numbers = self.rng.integers(0, 101, n).astype(float)
        numbers[self.rng.random(n) < 0.03] = np.nan
        return numbers

    def matches(self, numbers: np.ndarray, colour: int) -> list[str]:
        centre = self.values[self.context]
        inside = (numbers >= centre - self.eps) & (numbers <= centre + self.eps)
        own = self.colours[self.context]
        wanted = np.where(self.colour == len(COLOURS), own, self.colour)
        painted = (self.colour == -1) | ((wanted == colour) & (colour >= 0))
        hits = self.live & painted & (inside | np.isnan(self.eps)).all(axis=1)
        return ids(self.order[hits[self.order]]).tolist()


def ids(rows: np.ndarray) -> np.ndarray:
    return np.array([f"p{row}" for row in rows], dtype=object)


def as_record(numbers: np.ndarray, colour: int) -> dict[str, object]:
    record = {
        name: None if np.isnan(number) else float(number)
        for name, number in zip(ATTRIBUTES, numbers, strict=True)
    }
    return record | {"colour": COLOURS[colour] if colour >= 0 else None}


@every_combination
@pytest.mark.parametrize("seed", range(LONGER))
def test_environments(index, policy, structure, seed):
    f = make(index, policy, structure)
    oracle = Environments(np.random.default_rng(seed))
    n_delivered = 0
    for expected, found in live(f, oracle):
        assert found == expected
        n_delivered += len(expected)
    assert n_delivered > N_EVENTS  # otherwise the test has lost its point
    f._check()


def live(f, oracle: Environments) -> Iterator[tuple[list[str], list[str]]]:
    """Play the events, and yield what the oracle and the filter deliver for every message."""
    rng = oracle.rng
    for context in range(N_CONTEXTS):
        oracle.values[context] = oracle.new_numbers(N_ATTRIBUTES)
        oracle.colours[context] = rng.integers(-1, len(COLOURS))
        f.update(f"c{context}", as_record(oracle.values[context], oracle.colours[context]))
    conditions = [oracle.new_profile(row) for row in range(N_PROFILES)]
    contexts = [f"c{context}" for context in oracle.context]
    f.subscribe_many([f"p{row}" for row in range(N_PROFILES)], conditions, contexts)

    steps = {"update": 0.5, "update_many": 0.05, "message": 0.25, "messages": 0.05, "profile": 0.15}
    for step in rng.choice(list(steps), N_EVENTS, p=list(steps.values())):
        busy = int(rng.integers(N_CONTEXTS if rng.random() < 0.3 else 10))
        if step == "update":
            j = rng.integers(N_ATTRIBUTES)
            oracle.values[busy, j] = moved(oracle, busy, j)
            oracle.colours[busy] = rng.integers(-1, len(COLOURS))
            changed = as_record(oracle.values[busy], oracle.colours[busy])
            f.update(f"c{busy}", {name: changed[name] for name in (f"a{j}", "colour")})
        elif step == "update_many":
            j, many = rng.integers(N_ATTRIBUTES), rng.permutation(N_CONTEXTS)[:20]
            oracle.values[many, j] = oracle.new_numbers(20)
            f.update_many([f"c{context}" for context in many], f"a{j}", oracle.values[many, j])
        elif step == "profile":
            row = int(rng.integers(N_PROFILES))
            if oracle.live[row]:
                f.unsubscribe(f"p{row}")
                oracle.live[row] = False
            if rng.random() < 0.8:
                condition = oracle.new_profile(row)
                f.subscribe(f"p{row}", condition, context=f"c{oracle.context[row]}")
        else:
            batch = [
                (oracle.new_numbers(N_ATTRIBUTES), int(rng.integers(-1, len(COLOURS))))
                for _ in range(1 if step == "message" else 8)
            ]
            expected = [oracle.matches(*message) for message in batch]
            records = [as_record(*message) for message in batch]
            if step == "message":
                yield expected[0], f.match(records[0])
            else:
                yield from zip(expected, f.match_many(records).by_message(), strict=True)


def moved(oracle: Environments, context: int, j: int) -> float:
    """Mostly a small step from the old value, as contexts move; at times a jump, or NULL."""
    old = oracle.values[context, j]
    if np.isnan(old) or oracle.rng.random() < 0.3:
        return oracle.new_numbers(1)[0]
    return float(np.clip(old + oracle.rng.integers(-2, 3), 0, 100))
