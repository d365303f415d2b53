"""The schema: types fixed by declaration or first use, and drafts that leave no trace."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane.model import (
    ORDERED,
    TYPES,
    ConditionError,
    ConditionNameError,
    ConditionTypeError,
    GermaneError,
    InvalidValue,
    Schema,
    TypeMismatch,
    UnknownAttribute,
    UnknownProfile,
)
from germane.model.timestamps import parse_timestamp


def test_closed_schema_knows_its_names() -> None:
    schema = Schema({"price": "number", "place": "location"})
    assert schema.names == ("price", "place")
    assert schema.type_of("price") == "number"
    assert [schema.id_of(name) for name in schema.names] == [0, 1]
    with pytest.raises(UnknownAttribute, match="did you mean 'price'"):
        schema.type_of("prize")
    with pytest.raises(UnknownAttribute, match="'place', 'price'"):
        schema.id_of("zzz")
    schema.declare("topic", "category")
    assert schema.id_of("topic") == 2
    schema._check()


def test_empty_mapping_is_closed() -> None:
    with pytest.raises(UnknownAttribute):
        Schema({}).type_of("a")


@pytest.mark.parametrize(("name", "type_"), [("a", "integer"), ("", "number"), (5, "number")])
def test_bad_declarations(name: str, type_: str) -> None:
    with pytest.raises(InvalidValue):
        Schema({name: type_})


def test_unknown_type_lists_the_types() -> None:
    with pytest.raises(InvalidValue, match="number, string, boolean"):
        Schema({"a": "int"})


def test_first_use_fixes_the_type() -> None:
    schema = Schema()
    assert schema.type_of("price") is None
    schema.fix("price", "number", "a message")
    schema.fix("price", "number", "context 'ann'")
    with pytest.raises(TypeMismatch, match=r"number since a message.*context 'bob'.*string"):
        schema.fix("price", "string", "context 'bob'")
    assert schema.type_of("price") == "number"
    assert schema.where_of("price") == "a message"


def test_redeclaring_with_another_type_is_an_error() -> None:
    schema = Schema({"price": "number"})
    schema.declare("price", "number")
    with pytest.raises(TypeMismatch):
        schema.declare("price", "string")
    assert schema.closed


def test_abandoned_draft_leaves_no_trace() -> None:
    schema = Schema()
    before = schema.state()
    draft = schema.draft("profile 'p'")
    draft.fix("a", "number")
    draft.unify("b", "c")
    draft.unify("c", "a")
    assert [draft.type_of(name) for name in "abc"] == ["number"] * 3
    assert schema.state() == before
    draft.commit()
    assert [schema.type_of(name) for name in "abc"] == ["number"] * 3
    schema._check()


def test_unified_names_are_fixed_together() -> None:
    schema = Schema()
    for a, b in ("ab", "cd", "bc"):
        draft = schema.draft(f"profile {a + b!r}")
        draft.unify(a, b)
        draft.commit()
    assert [schema.type_of(name) for name in "abcd"] == [None] * 4
    schema.fix("d", "timestamp", "a message")
    assert [schema.type_of(name) for name in "abcd"] == ["timestamp"] * 4
    with pytest.raises(TypeMismatch, match="since a message"):
        schema.fix("a", "number", "context 'ann'")


def test_unifying_known_types() -> None:
    schema = Schema({"n": "number", "m": "number", "s": "string", "p": "location"})
    schema.draft("x").unify("n", "m")
    for a, b in (("n", "s"), ("p", "p"), ("n", "p")):
        with pytest.raises(TypeMismatch):
            schema.draft("x").unify(a, b)


def test_compared_names_never_become_locations() -> None:
    schema = Schema()
    draft = schema.draft("profile 'p'")
    draft.unify("a", "a")
    draft.commit()
    with pytest.raises(TypeMismatch, match="compared in profile 'p'"):
        schema.fix("a", "location", "a message")
    schema.fix("a", "string", "a message")


def test_two_drafts_that_disagree() -> None:
    schema = Schema()
    first, second, third = (schema.draft(f"profile {i}") for i in range(3))
    first.unify("a", "b")
    second.fix("a", "number")
    third.fix("b", "string")
    first.commit()
    second.commit()
    before = schema.state()
    with pytest.raises(TypeMismatch):
        third.commit()
    assert schema.state() == before
    assert schema.type_of("b") == "number"
    schema._check()


names = st.sampled_from("abcdefgh")
calls = st.one_of(
    st.tuples(st.just("fix"), names, st.sampled_from(TYPES)),
    st.tuples(st.just("unify"), names, names),
    st.tuples(st.just("read"), names, names),
)


@given(st.lists(st.tuples(st.lists(calls, max_size=4), st.booleans()), max_size=12))
def test_schema_equals_a_naive_one(drafts: list[tuple[list[tuple[str, str, str]], bool]]) -> None:
    """The naive schema re-reads the whole list of accepted calls on every question."""
    schema = Schema()
    accepted: list[tuple[str, str, str]] = []
    for calls, keep in drafts:
        draft = schema.draft("a draft")
        mine: list[tuple[str, str, str]] = []
        for call in calls:
            verb, a, b = call
            if verb == "read":
                assert draft.type_of(a) == naive_types(accepted + mine)[a]
                continue
            expected = naive_types([*accepted, *mine, call])
            try:
                getattr(draft, verb)(a, b)
            except TypeMismatch:
                assert expected is None
            else:
                assert expected is not None
                mine.append(call)
        if keep:
            draft.commit()
            accepted += mine
        schema._check()
        truth = naive_types(accepted)
        assert {name: schema.type_of(name) for name in "abcdefgh"} == truth
        schema = Schema.from_state(json.loads(json.dumps(schema.state())))
        assert {name: schema.type_of(name) for name in "abcdefgh"} == truth


def naive_types(calls: list[tuple[str, str, str]]) -> dict[str, str | None] | None:
    """The type of each name after all calls, or None when they contradict each other."""
    group = {name: {name} for name in "abcdefgh"}
    compared = set()
    for verb, a, b in calls:
        if verb == "unify":
            compared |= {a, b}
            merged = group[a] | group[b]
            for name in merged:
                group[name] = merged
    types: dict[str, str | None] = dict.fromkeys("abcdefgh")
    for name in types:
        fixed = {t for verb, a, t in calls if verb == "fix" and a in group[name]}
        if len(fixed) > 1 or (group[name] & compared and fixed - ORDERED):
            return None
        types[name] = fixed.pop() if fixed else None
    return types


def test_many_drafts_in_a_chain_stay_fast() -> None:
    schema = Schema()
    for i in range(20_000):
        draft = schema.draft("profile")
        draft.unify(f"x{i}", f"x{i + 1}")
        draft.commit()
    schema.fix("x0", "number", "a message")
    assert schema.type_of("x20000") == "number"


def test_errors_print_plainly_and_pickle() -> None:
    assert str(UnknownProfile("no profile 'p'")) == "no profile 'p'"
    for kind in (ConditionError, ConditionTypeError, ConditionNameError):
        error = kind("wrong", "a = 1", 2, "x", "y")
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind
        assert str(again) == str(error)
        assert (again.position, again.expected, again.suggestion) == (2, "x", "y")
    assert issubclass(ConditionTypeError, TypeError)
    assert issubclass(ConditionTypeError, ValueError)
    assert issubclass(ConditionNameError, KeyError)
    assert issubclass(ConditionNameError, GermaneError)


def test_long_conditions_are_shown_in_a_window() -> None:
    text = "a = 1 AND\n" + "b = 2 AND " * 50 + "\nc = 3"
    for position in range(0, len(text) + 1, 7):
        _, line, caret = str(ConditionError("wrong", text, position)).split("\n")
        assert len(line) <= 64
        if position < len(text) and text[position] != "\n":
            assert line[caret.index("^")] == text[position]


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01 01:00:00+01:00", 0),
        ("1969-12-31T23:59:59", -1_000_000),
        ("9999-12-31T23:59:59Z", 253_402_300_799_000_000),
    ],
)
def test_timestamps(text: str, micros: int) -> None:
    assert parse_timestamp(text) == micros


@pytest.mark.parametrize(
    "text", ["", "now", "2026-13-01", "2300-01-01T00:00:00.000001", "2026-01-01T00:00:00.0000001"]
)
def test_timestamps_that_cannot_be_held(text: str) -> None:
    with pytest.raises(InvalidValue):
        parse_timestamp(text)
