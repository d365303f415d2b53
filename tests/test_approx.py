"""Approximate XML: every form of the engine against both oracles, on random cases."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_approx import cases, cost_by_enumeration, cost_by_recurrence, matches

from germane import Transformations
from germane.approx.documents import Documents, parse
from germane.approx.embedding import embeddings
from germane.approx.patterns import Patterns
from germane.approx.transformations import NONE, Prices
from germane.filter.documents import MatchesEverything
from germane.language.patterns import parse_pattern

warnings.simplefilter("ignore", MatchesEverything)


def tables(layer):
    return NONE if layer is None else Transformations(**layer)


def costs_of(patterns, numbers, documents):
    """{pattern: cost} of each document."""
    arena = Documents()
    for document in documents:
        arena.add(document)
    patterns.hold(numbers)
    found = patterns.match(arena.arrays(), np.arange(len(documents)))
    ends = [0, *found.ends.tolist()]
    return [
        dict(zip(found.patterns[a:b].tolist(), found.costs[a:b].tolist(), strict=True))
        for a, b in zip(ends[:-1], ends[1:], strict=True)
    ]


@pytest.mark.parametrize("form", ["savings", "time", "space"])
@given(listed=st.lists(cases(), min_size=1, max_size=6))
@settings(max_examples=400, deadline=None)
def test_patterns_and_documents(form, listed):
    """All patterns of some cases against all their documents, at once."""
    patterns = Patterns(form)
    numbers = [
        patterns.define(parse_pattern(pattern), threshold, Prices(tables(own), tables(admin)))
        for pattern, _, threshold, own, admin in listed
    ]
    documents = [case[1] for case in listed]
    for document, found in zip(documents, costs_of(patterns, numbers, documents), strict=True):
        for (pattern, _, threshold, own, admin), number in zip(listed, numbers, strict=True):
            assert found.get(number) == matches(pattern, document, threshold, own, admin)
    patterns._check()


@given(cases())
@settings(max_examples=300, deadline=None)
def test_embeddings(case):
    """Each event has its own cost, which is the sum of its steps."""
    pattern, document, threshold, own, admin = case
    patterns = Patterns()
    number = patterns.define(parse_pattern(pattern), threshold, Prices(tables(own), tables(admin)))
    events = embeddings(patterns.vertex(number), parse(document), *patterns.insertions(number))
    expected = cost_by_recurrence(pattern, document, own, admin)
    assert sorted((event.element, event.cost) for event in events) == expected
    assert expected == cost_by_enumeration(pattern, document, own, admin)
    assert all(event.root.total == event.cost for event in events)
