"""Filters that are saved and loaded, by small examples."""

from __future__ import annotations

import random
from datetime import datetime

import pytest
from examples import BERLIN, INDEXES, MUNICH, PARIS, STRUCTURES, numbers

import germane

pytestmark = pytest.mark.usefixtures("early_indexes")


def populated(ids: list[object], **options: object) -> germane.Filter:
    f = germane.Filter(**options)
    forms = [
        "n BETWEEN context.n - 2 AND context.n + 2",
        "s = context.s AND n < {i}",
        "s LIKE 'w1%' OR context.s LIKE '%1'",
        "context.n < 10 AND n >= {i}",
        "DISTANCE(here, context.here) < 500000",
        "at > TIMESTAMP '2026-01-01' AND ok = TRUE",
    ]
    pairs = [forms[i % len(forms)].replace("{i}", str(i % 20)) for i in range(len(ids))]
    owners = [f"c{i % 9}" for i in range(len(ids))]
    f.subscribe_many(ids, pairs, owners)
    return f


def disturb(f: germane.Filter, seed: int) -> list[list[object]]:
    """Updates and messages from a seed; the answers."""
    pick = random.Random(seed)
    answers = []
    for _ in range(30):
        who = f"c{pick.randrange(10)}"
        f.update(who, {"n": pick.choice([None, *range(20)]), "s": f"w{pick.randrange(30)}"})
        f.update_many([who], "here", [pick.choice([MUNICH, BERLIN, PARIS, None])])
        message = {
            "n": pick.randrange(20),
            "s": f"w{pick.randrange(30)}",
            "here": pick.choice([MUNICH, BERLIN, None]),
            "at": datetime(2026, pick.randrange(1, 12), 1),
            "ok": pick.random() < 0.5,
        }
        answers.append(f.match(message))
    return answers


SAVED = [
    *((index, structure, "str") for index in INDEXES for structure in STRUCTURES),
    *(("agile", structure, kind) for structure in STRUCTURES for kind in ("int", "mixed")),
]


@pytest.mark.parametrize(("index", "structure", "kind"), SAVED, ids=map("-".join, SAVED))
def test_save_and_load(index, structure, kind, tmp_path):
    ids: list[object] = list(range(80))
    if kind != "int":
        ids = [f"profile {i}" for i in ids]
    if kind == "mixed":
        ids[::2] = range(0, 160, 4)
    f = populated(ids, index=index, structure=structure, policy=germane.Fixed(5))
    disturb(f, 1)
    for i in ids[5:60:5]:
        f.unsubscribe(i)
    assert f.save(tmp_path / "one") is None
    g = germane.Filter.load(str(tmp_path / "one"))
    g._check()
    assert len(g) == len(f)
    counts = ["profiles", "contexts", "conjunctions", "messages", "updates", "matches", "index"]
    assert [g.stats()[name] for name in counts] == [f.stats()[name] for name in counts]
    assert g.stats()["policy"] == f.stats()["policy"]
    assert g.attributes == f.attributes
    message = {"n": 3, "s": "w1"}
    assert str(g.explain(ids[0], message)) == str(f.explain(ids[0], message))
    for h in (f, g):  # both go on
        h.subscribe_many(["late", ids[5]], ["n > context.n", "s > context.s"], ["c0", "c12"])
        h.update("c12", {"s": "w0"})
        h.unsubscribe(ids[1])
    answers = disturb(f, 2)
    assert disturb(g, 2) == answers
    assert any(answers)
    f._check()
    g._check()
    g.save(tmp_path / "one")  # over the old one
    again = germane.Filter.load(tmp_path / "one")
    assert disturb(again, 3) == disturb(f, 3)


def test_save_and_load_an_empty_filter(tmp_path):
    germane.Filter(schema={"x": "number"}).save(tmp_path / "empty")
    f = germane.Filter.load(tmp_path / "empty")
    f.subscribe("p", "x < context.x", context="c")
    f.update("c", {"x": 5})
    assert f.match({"x": 1}) == ["p"]
    with pytest.raises(germane.UnknownAttribute, match="y"):
        f.match({"y": 1})
    f._check()


def test_save_keeps_types_and_odd_texts(tmp_path):
    f = germane.Filter()
    odd = ["", "'", "\x00", "\ud800", "日本", "\U0010ffff", "a\nb"]
    f.subscribe_many(odd, ['"odd name" = context."odd name"'] * len(odd), odd)
    f.subscribe("u", "a < context.b", context=10**30)
    for text in odd:
        f.update(text, {"odd name": text})
    f.save(tmp_path / "odd name.germane")
    assert [path.name for path in tmp_path.iterdir()] == ["odd name.germane"]
    g = germane.Filter.load(tmp_path / "odd name.germane")
    for text in odd:
        assert g.match({"odd name": text}) == [text]
    with pytest.raises(germane.TypeMismatch):
        g.match({"odd name": 5})
    g.update(10**30, {"b": 7})
    assert g.match({"a": 6}) == ["u"]
    with pytest.raises(germane.TypeMismatch, match="'a'"):
        g.match({"a": "text"})


def test_a_saved_filter_is_a_copy(tmp_path):
    f = numbers(20)
    f.save(tmp_path / "f")
    f.unsubscribe(10)
    g = germane.Filter.load(tmp_path / "f")
    assert g.match({"x": 9}) == list(range(9, 20))
    g.unsubscribe(11)
    assert f.match({"x": 9}) == [9, *range(11, 20)]
