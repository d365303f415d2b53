"""Batches of messages against the oracle: every strategy, every grouping.

`match_many`: batches of every shape give the oracle's answers under every strategy and grouping,
while contexts move and profiles come and go between them. `match_chunks`: the same answers in
pieces.

GERMANE_CAMPAIGN=1 tests every combination of index, workload and strategy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import generate
import numpy as np
import pyarrow as pa
import pytest
from arrow_forms import ARROW_TYPES, in_utc
from batchings import (
    BATCHINGS,
    GROUPINGS,
    INDEXES,
    LONGER,
    STRATEGIES,
    STRUCTURES,
    VARIANTS,
    batching,
    every_strategy,
    every_variant,
    make,
)
from generate import Choices
from naive import NaiveFilter

import germane

pytestmark = pytest.mark.usefixtures("auto_changes")

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
