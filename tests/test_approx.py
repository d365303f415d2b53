"""Approximate XML: every form of the engine against both oracles, on random cases."""

import numpy as np
import pytest
from batchings import LONGER
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_approx import cases, cost_by_enumeration, cost_by_recurrence, matches

from germane import Filter, Transformations
from germane.approx.documents import Documents, parse
from germane.approx.embedding import embeddings
from germane.approx.patterns import Patterns
from germane.approx.transformations import NONE, Prices
from germane.language.patterns import parse_pattern

pytestmark = pytest.mark.filterwarnings("ignore::germane.filter.documents.MatchesEverything")


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


@pytest.mark.parametrize("form", ["savings", "time", "space", "savings, cramped"])
@given(listed=st.lists(cases(), min_size=1, max_size=6))
@settings(max_examples=120 * LONGER, deadline=None)
def test_patterns_and_documents(form, listed):
    """All patterns of some cases against all their documents, at once."""
    with pytest.MonkeyPatch.context() as patch:
        if "cramped" in form:  # hits are counted with care, places given up at once
            patch.setattr("germane.approx.scratch.MANY_HITS", -1)
            patch.setattr("germane.approx.scratch.MANY_PLACES", 2)
            patch.setattr("germane.approx.scratch.LAST_EPOCH", 3)
        check_patterns_and_documents(form.partition(",")[0], listed)


def check_patterns_and_documents(form, listed):
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
@settings(max_examples=150 * LONGER, deadline=None)
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


class Oracle:
    """Profiles as lists of alternatives, each a list of parts, decided one by one."""

    def __init__(self, admin):
        self.admin = admin
        self.profiles = {}
        self.limits = {}

    def costs(self, message):
        found = {}
        for name, (alternatives, own, context) in self.profiles.items():
            sums = [self.cost(parts, own, context, message) for parts in alternatives]
            sums = [cost for cost in sums if cost is not None]
            if sums:
                found[name] = min(sums)
        return found

    def cost(self, parts, own, context, message):
        total = 0.0
        for part in parts:
            if part[0] == "price":
                if not message.get("price", 99) < part[1]:
                    return None
            elif part[0] == "limit":
                if not self.limits.get(context, -99) > part[1]:
                    return None
            else:
                _, pattern, threshold, negated = part
                if "document" not in message:
                    return None
                cost = matches(pattern, message["document"], threshold, own, self.admin)
                if (cost is None) is not negated:
                    return None
                total += cost or 0.0
        return total


def text_of(alternatives):
    def of(part):
        if part[0] == "price":
            return f"price < {part[1]}"
        if part[0] == "limit":
            return f"context.limit > {part[1]}"
        word = "NOT MATCHES" if part[3] else "MATCHES"
        quoted = part[1].replace("'", "''")
        return f"document {word} '{quoted}' COST < {part[2]:g}"

    return " OR ".join(" AND ".join(map(of, parts)) for parts in alternatives)


patterns_of = st.builds(
    lambda case, negated: ("matches", case[0], case[2], negated),
    cases(), st.sampled_from([False, False, False, True]),
)  # fmt: skip
parts_of = st.one_of(
    patterns_of,
    patterns_of,
    st.tuples(st.just("price"), st.integers(0, 3)),
    st.tuples(st.just("limit"), st.integers(0, 3)),
)
actions_of = st.one_of(
    st.tuples(
        st.just("subscribe"),
        st.integers(0, 5),
        st.lists(st.lists(parts_of, min_size=1, max_size=2), min_size=1, max_size=2),
        cases(),
        st.booleans(),
    ),
    st.tuples(st.just("unsubscribe"), st.integers(0, 5)),
    st.tuples(st.just("update"), st.sampled_from("ab"), st.integers(0, 4)),
    st.tuples(st.just("save")),
    st.tuples(st.just("match"), st.lists(st.tuples(cases(), st.integers(0, 3)), max_size=3)),
)


@given(general=cases(), actions=st.lists(actions_of, min_size=2, max_size=14))
@settings(max_examples=50 * LONGER, deadline=None)
def test_filters(tmp_path_factory, general, actions):
    """Patterns with other predicates, while profiles, contexts and documents come and go."""
    admin = general[4]
    f, oracle = Filter(transformations=tables(admin)), Oracle(admin)
    seq = 0
    for action in actions:
        if action[0] == "subscribe":
            _, name, alternatives, case, has_own = action
            if name in oracle.profiles:
                continue
            own = case[3] if has_own else None
            context = "ab"[name % 2]
            f.subscribe(name, text_of(alternatives), context, transformations=tables(own))
            oracle.profiles[name] = alternatives, own, context
        elif action[0] == "unsubscribe" and action[1] in oracle.profiles:
            f.unsubscribe(action[1])
            del oracle.profiles[action[1]]
        elif action[0] == "update":
            f.update(action[1], {"limit": action[2]})
            oracle.limits[action[1]] = action[2]
        elif action[0] == "save":
            path = tmp_path_factory.mktemp("saved") / "f"
            f.save(path)
            f = Filter.load(path)
        elif action[0] == "match":
            listed = [{"document": case[1], "price": price} for case, price in action[1]]
            listed.append({"price": 1})
            expected = [oracle.costs(message) for message in listed]
            assert [f.costs(message) for message in listed] == expected
            assert [f.match(message) for message in listed] == [sorted(e) for e in expected]
            found = f.match_many(listed).to_arrow().to_pylist()
            rows = [(i, p, c) for i, e in enumerate(expected) for p, c in sorted(e.items())]
            assert [(r["message"], r["profile"], r["cost"]) for r in found] == rows
            events = [
                {"seq": seq + i, "kind": "message", "id": i, **message}
                for i, message in enumerate(listed)
            ]
            seq += len(events)
            done = f.process(events)
            assert not done.rejected
            assert done.to_arrow()["cost"].to_pylist() == [cost for _, _, cost in rows]
            for message, costs in zip(listed, expected, strict=True):
                for name in oracle.profiles:
                    assert f.explain(name, message).matched is (name in costs)
    f._check()
    f._documents.patterns._check()
