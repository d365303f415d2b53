"""The public face: each call does what its documentation says, by small examples."""

from __future__ import annotations

import itertools
import random
from collections import OrderedDict
from decimal import Decimal
from types import MappingProxyType

import numpy as np
import pytest
from examples import every_index, every_structure, numbers

import germane

pytestmark = pytest.mark.usefixtures("early_indexes")


# the first page ----------------------------------------------------------------------------------


@every_index
@every_structure
def test_first_page(index, structure):
    f = germane.Filter(index=index, structure=structure)
    condition = "type = 'talk' AND context.unread < 100 AND time < context.last"
    assert f.subscribe("p1", condition, context="ann") is None
    assert f.match({"type": "talk", "time": 16}) == []
    assert f.update("ann", {"unread": 50, "last": 17}) is None
    assert f.match({"type": "talk", "time": 16}) == ["p1"]
    assert f.match({"type": "talk", "time": 17}) == []
    assert f.match({"type": "mail", "time": 16}) == []
    assert f.match({"type": "talk"}) == []
    assert f.match({}) == []
    f.update("ann", {"last": 15})
    assert f.match({"type": "talk", "time": 16}) == []
    f.update("ann", {"last": None})
    assert f.match({"type": "talk", "time": 1}) == []
    f.unsubscribe("p1")
    f.update("ann", {"last": 99})
    assert f.match({"type": "talk", "time": 1}) == []
    assert len(f) == 0
    f._check()


@pytest.mark.parametrize("policy", ["always", "auto", germane.Fixed(3), germane.Always()])
def test_policies_answer_alike(policy):
    f = germane.Filter(policy=policy)
    f.subscribe_many(range(40), ["n BETWEEN context.n - 1 AND context.n + 1"] * 40, range(40))
    pick = random.Random(1)
    values = dict.fromkeys(range(40))
    for _ in range(200):
        who, what = pick.randrange(40), pick.randrange(20)
        f.update(who, {"n": what})
        values[who] = what
        n = pick.randrange(20)
        assert f.match({"n": n}) == [
            i for i, v in values.items() if v is not None and abs(v - n) <= 1
        ]
    f._check()


def test_len_contains_and_repr(f):
    f.subscribe_many(["a", "b"], ["x < 1", "x < 2"])
    assert len(f) == 2
    assert "a" in f
    assert "c" not in f
    assert 1 not in f
    assert "2 profiles" in repr(f)


def test_mappings_of_any_kind(f):
    f.subscribe("p", "x = context.x", context="c")
    f.update("c", MappingProxyType({"x": 1}))
    assert f.match(OrderedDict(x=1)) == ["p"]
    assert f.match(MappingProxyType({"x": 2})) == []


def test_values_of_any_number_type(f):
    f.subscribe("p", "x = context.x", context="c")
    ones = [1, 1.0, np.int8(1), np.uint64(1), np.float32(1), Decimal("1.0")]
    for mine, theirs in itertools.product(ones, ones):
        f.update("c", {"x": None})
        assert f.match({"x": theirs}) == []
        f.update("c", {"x": mine})
        assert f.match({"x": theirs}) == ["p"]


def test_empty_filter(f):
    assert f.match({"anything": 1}) == []
    assert f.match_many([]).by_message() == []
    assert f.match_many([{}, {"x": 1}]).by_message() == [[], []]
    f.subscribe_many([], [])
    f.update_many([], "x", [])
    f.update("c", {})
    assert f.stats()["contexts"] == 1
    f._check()


def test_constant_conditions(f):
    f.subscribe("always", "TRUE")
    f.subscribe("never", "FALSE")
    f.subscribe("tautology", "x = 1 OR NOT x = 1")
    assert f.match({}) == ["always"]
    assert f.match({"x": 2}) == ["always", "tautology"]
    f.unsubscribe("never")
    f.unsubscribe("always")
    assert f.match({}) == []
    f._check()


# ids ---------------------------------------------------------------------------------------------


def test_ids_of_mixed_kinds_are_sorted_integers_first(f):
    ids = ["b", 10, "a", 2, -5, "10", 10**30, "", "Ω", "\x00", 0]
    f.subscribe_many(ids, ["x > 0"] * len(ids))
    expected = [-5, 0, 2, 10, 10**30, "", "\x00", "10", "a", "b", "Ω"]
    for _ in range(20):  # sorted directly at first, through ranks later
        assert f.match({"x": 1}) == expected
    assert f.match_many([{"x": 1}] * 2).by_message() == [expected] * 2
    f.unsubscribe("")
    assert f.match({"x": 1}) == [i for i in expected if i != ""]


@pytest.mark.parametrize("ids", [range(60), [f"p{i:02}" for i in range(60)]], ids=["int", "str"])
def test_answers_are_sorted_in_any_order_of_subscription(ids):
    f = germane.Filter()
    shuffled = list(ids)
    random.Random(3).shuffle(shuffled)
    for i in shuffled:
        f.subscribe(i, "x > 0")
    assert f.match({"x": 1}) == list(ids)
    for i in shuffled[:20]:
        f.unsubscribe(i)
    assert f.match({"x": 1}) == sorted(shuffled[20:])
    for i in shuffled[:20]:
        f.subscribe(i, "x > 0")
    assert f.match({"x": 1}) == list(ids)
    f._check()


@pytest.mark.parametrize("kind", [np.int64, np.int16, np.uint8])
def test_numpy_integers_are_integers(kind, tmp_path):
    f = germane.Filter()
    f.subscribe(5, "x < context.x", context=7)
    with pytest.raises(germane.DuplicateProfile):
        f.subscribe(kind(5), "x > 0")
    f.update(kind(7), {"x": 10})
    assert f.stats()["contexts"] == 1
    f.subscribe(kind(6), "x < context.x", context=kind(7))
    assert f.match({"x": 1}) == [5, 6]
    assert [type(i) for i in f.match({"x": 1})] == [int, int]
    assert kind(6) in f
    assert f.explain(kind(6), {"x": 1}).matched
    f.save(tmp_path / "filter")
    assert germane.Filter.load(tmp_path / "filter").match({"x": 1}) == [5, 6]
    f.unsubscribe(kind(5))
    assert f.match({"x": 1}) == [6]
    f._check()


def test_numpy_ids_in_bulk(tmp_path):
    f = germane.Filter()
    conditions = np.array(["x < context.x"] * 4)
    f.subscribe_many(np.arange(4), conditions, contexts=np.array([0, 1, 0, 1]))
    f.subscribe_many(
        np.array(["a", "b"]), ["x < context.x"] * 2, np.array(["k", None], object)[[0, 0]]
    )
    f.update_many(np.array([0, 1]), "x", np.array([5, 1]))
    f.update_many(np.array(["k"]), "x", [5])
    assert f.match({"x": 3}) == [0, 2, "a", "b"]
    assert {type(i) for i in f.match({"x": 3})} <= {int, str}
    f.subscribe_many(list(np.array([10, 11])), ["x < 9"] * 2)
    assert f.match({"x": 3}) == [0, 2, 10, 11, "a", "b"]
    f.save(tmp_path / "filter")
    assert germane.Filter.load(tmp_path / "filter").match({"x": 3}) == f.match({"x": 3})
    f._check()


def test_none_in_an_array_of_contexts_is_no_context(f):
    f.subscribe_many(["a", "b"], ["x < 1", "x < 2"], np.array(["k", None], object))
    assert f.stats()["contexts"] == 1
    assert f.explain("b", {"x": 0}).context is None


def test_huge_and_negative_ids(f):
    ids = np.array([-1, 2**62, 5])
    f.subscribe_many(ids, ["x = context.x"] * 3, ids)
    f.update_many(ids, "x", [1, 1, 2])
    assert f.match({"x": 1}) == [-1, 2**62]
    f.update(2**62, {"x": 2})
    assert f.match({"x": 2}) == [5, 2**62]
    unsigned = np.array([2**63 + 1], np.uint64)
    f.update_many(unsigned, "x", [3])
    f.subscribe("u", "x = context.x", context=2**63 + 1)
    assert f.match({"x": 3}) == ["u"]


def test_resubscribe_after_unsubscribe(f):
    for round_ in range(5):
        for i in range(30):
            f.subscribe(i, f"x = {i + round_} OR y = {i}", context="c")
        assert f.match({"x": 7}) == [7 - round_]
        assert f.match({"y": 7}) == [7]
        for i in range(30):
            f.unsubscribe(i)
            assert i not in f
        assert f.match({"x": 7, "y": 7}) == []
        assert f.stats()["conjunctions"] == 0
        f._check()
    f.subscribe(3, "z = 'new'")
    assert f.match({"x": 3, "z": "new"}) == [3]


# in bulk -----------------------------------------------------------------------------------------


def test_a_batch_takes_what_is_good(f):
    conditions = ["x < 5", "x <", "x < 7", "x < 'no'", "x < context.x"]
    with pytest.raises(germane.BatchError) as caught:
        f.subscribe_many(["a", "b", "c", "d", "e"], conditions)
    assert [(at, who) for at, who, _ in caught.value.errors] == [(1, "b"), (3, "d"), (4, "e")]
    assert caught.value.accepted == 2
    assert "'b'" in str(caught.value)
    assert f.match({"x": 1}) == ["a", "c"]
    f._check()


def test_thousands_in_one_batch():
    n = 9000
    f = germane.Filter()
    conditions = [f"n BETWEEN {i} AND {i + 1} AND s = 'k{i % 7}'" for i in range(n)]
    f.subscribe_many([f"p{i}" for i in range(n)], conditions)
    assert len(f) == n
    assert f.match({"n": 8001, "s": "k0"}) == ["p8001"]
    assert f.match({"n": 8001, "s": "k6"}) == ["p8000"]


def test_one_template_many_literals(f):
    """Conditions that differ in their literals only are compiled once; each keeps its own."""
    f.subscribe_many(range(9), [f"x >= {i} AND x < {i + 3} AND s <> 'k{i}'" for i in range(9)])
    f.subscribe("negative", "x >= -4 AND x < -1 AND s <> 'it''s'")
    assert f.match({"x": 4, "s": "k3"}) == [2, 4]
    assert f.match({"x": -2, "s": "its"}) == ["negative"]
    assert f.match({"x": -2, "s": "it's"}) == []


# conditions past the cap -------------------------------------------------------------------------


@pytest.mark.parametrize(("pairs", "rows"), [(6, 64), (7, 1)])
def test_conditions_around_the_cap(f, pairs, rows):
    condition = " AND ".join(f"(a{i} = context.a{i} OR b{i} < 3)" for i in range(pairs))
    f.subscribe("p", condition, context="c")
    assert f.stats()["conjunctions"] == rows
    f.update("c", {f"a{i}": i for i in range(pairs)})
    pick = random.Random(5)
    found = 0
    for _ in range(120):
        message = {f"a{i}": pick.choice([i, i, 9, None]) for i in range(pairs)}
        message |= {f"b{i}": pick.choice([1, 2, 3, None]) for i in range(pairs)}
        a = [message[f"a{i}"] == i for i in range(pairs)]
        b = [(message[f"b{i}"] or 9) < 3 for i in range(pairs)]
        expected = all(x or y for x, y in zip(a, b, strict=True))
        found += expected
        assert f.match(message) == ["p"] * expected
        assert f.explain("p", message).matched == expected
    assert 0 < found < 120
    f.update("c", {"a0": None})
    assert f.match({f"a{i}": i for i in range(pairs)}) == []
    f.unsubscribe("p")
    assert f.stats()["conjunctions"] == 0
    f._check()


def test_long_lists(f):
    f.subscribe("in", f"n IN ({', '.join(map(str, range(5000)))})")
    f.subscribe("out", f"n NOT IN ({', '.join(map(str, range(5000)))})")
    f.subscribe("words", f"s IN ({', '.join(repr(f'w{i}') for i in range(500))})")
    assert f.match({"n": 4999}) == ["in"]
    assert f.match({"n": 5000}) == ["out"]
    assert f.match({"s": "w499"}) == ["words"]
    assert f.match({"s": "w500"}) == []


# stats -------------------------------------------------------------------------------------------


def test_stats():
    f = numbers(40)
    f.subscribe("p", "y = 1 OR z = 1", context="c")
    f.update("c", {"n": 1})
    f.update_many(["c", "d"], "n", [1, 2])
    f.match({"x": 30})
    f.match_many([{"x": 39}, {"y": 1, "z": 1}])
    stats = f.stats()
    expected = {
        "profiles": 41,
        "conjunctions": 42,
        "contexts": 2,
        "messages": 3,
        "updates": 3,
        "matches": 12,
        "index": "agile",
    }
    assert {name: stats[name] for name in expected} == expected
    counters = {
        "candidates", "false_positives", "index_updates", "escalations", "deescalations",
        "blocks_opened", "postfiltered", "swept", "bytes",
    }  # fmt: skip
    assert counters <= set(stats)
    assert all(isinstance(stats[name], int) and stats[name] >= 0 for name in counters)
    assert stats["bytes"] == f.nbytes > 0
    assert "Auto" in stats["policy"]
    assert ["x"] in [table["attributes"] for table in stats["tables"]]
    f.unsubscribe("p")
    assert f.stats()["conjunctions"] == 40


def test_a_profile_is_delivered_once(f):
    f.subscribe("p", "a = 1 OR b = 1 OR c = 1")
    assert f.match({"a": 1, "b": 1, "c": 1}) == ["p"]
    assert f.stats()["matches"] == 1
