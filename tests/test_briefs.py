"""Profiles with more predicates than their index has slots: one of them stands beside the lane."""

import numpy as np
import pytest
from naive import NaiveFilter

import germane

ATTRIBUTES = [f"a{i}" for i in range(14)]
FORMS = [
    "{a} = {v}",
    "{a} < {v}",
    "{a} > {v}",
    "{a} <= context.c + {v}",
    "{a} IS NULL",
    "{a} <> {v}",
]


def conditions(n, rng):
    """Two attributes that everybody asks for, two that few share; bounds open, closed, moving."""
    for _ in range(n):
        few = rng.choice(ATTRIBUTES[2:], 2, replace=False)
        forms = rng.choice(FORMS, 2, p=[0.5, 0.15, 0.15, 0.1, 0.05, 0.05])
        parts = [f"{a} = {rng.integers(0, 3)}" for a in ATTRIBUTES[:2]]
        parts += [
            form.format(a=a, v=rng.integers(0, 4)) for a, form in zip(few, forms, strict=True)
        ]
        yield " AND ".join(rng.permutation(parts))


def messages(n, rng):
    """Whole numbers; every seventh attribute is missing."""
    for _ in range(n):
        values = rng.integers(0, 4, len(ATTRIBUTES))
        there = rng.random(len(ATTRIBUTES)) > 1 / 7
        there[:2] |= rng.random() > 0.1
        yield {a: int(v) for a, v, t in zip(ATTRIBUTES, values, there, strict=True) if t}


def has_briefs(f):
    """Whether some index of the filter keeps briefs, and has made some."""
    kept = [t.index for t in f._tables.tables if t.index is not None and len(t.index.briefs)]
    return any(index.blocks.heads["cored"].any() for index in kept)


@pytest.mark.parametrize("seed", [0, 3])  # their sets of attributes share one table
@pytest.mark.parametrize("index", ["eager", "agile"])
def test_answers(index, seed):
    rng = np.random.default_rng(seed)
    f, oracle = germane.Filter(index=index), NaiveFilter()
    texts = list(conditions(700, rng))
    contexts = [f"c{rng.integers(0, 40)}" for _ in texts]
    for c in range(40):
        for one in (f, oracle):
            one.update(f"c{c}", {"c": c % 3})
    f.subscribe_many(range(len(texts)), texts, contexts)
    for i, (text, context) in enumerate(zip(texts, contexts, strict=True)):
        oracle.subscribe(i, text, context)
    brief = False
    for turn in range(3):
        batch = list(messages(150, rng))
        wanted = [sorted(oracle.match(message)) for message in batch]
        assert f.match_many(batch).by_message() == wanted
        assert [f.match(message) for message in batch[:40]] == wanted[:40]
        f._check()
        brief |= has_briefs(f)
        for i in rng.choice(len(texts), 20, replace=False):
            value = int(rng.integers(0, 4))
            for one in (f, oracle):
                one.update(contexts[i], {"c": value})
        for i in range(turn * 100, turn * 100 + 30):  # their lanes go to others
            for one in (f, oracle):
                one.unsubscribe(i)
        for i, text in enumerate(conditions(30, rng)):
            for one in (f, oracle):
                one.subscribe(10_000 + 100 * turn + i, text, contexts[i])
    assert brief
