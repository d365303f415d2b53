"""Sketches beside entries, and names in bulk: shortcuts that must not be seen in an answer."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import NaiveFilter
from naive_graphs import NaiveGraph

from germane import ContentGraph, Filter
from germane.category.names import Names
from germane.kernels.entries import ANYTHING, FOLD, SKETCHED, STEP

N = 24
NAMES = [f"n{i}" for i in range(N)]
PLACES = [f"p{i}" for i in range(8)]
TREE = [(PLACES[(i - 1) // 2], PLACES[i]) for i in range(1, 8)]
FILLERS = [f"-{i}" for i in range(FOLD + 1 - N // 2)]


def links(rng):
    return [(NAMES[int(rng.integers(0, i))], NAMES[i]) for i in range(1, N) for _ in range(2)]


def condition(rng):
    """Few nodes, more than a sketch has, more than a record has; contexts'; something else."""
    n = int(rng.choice([1, 2, 5, 6, 7, 9]))
    topics = ", ".join(repr(NAMES[k]) for k in rng.choice(N, n, replace=False))
    topic = f"topic WITHIN ({topics})"
    kind = int(rng.integers(0, 10))
    if kind == 0:
        topic = "topic WITHIN context.interests"
    place = "place CONTAINS context.place"
    if kind == 1:
        place = f"place CONTAINS '{PLACES[int(rng.integers(0, 8))]}'"
    also = " AND price < 2" if kind == 2 else ""
    return f"{topic} AND {place}{also}"


def message(rng):
    topics = [NAMES[k] for k in rng.integers(0, N, int(rng.integers(1, 4)))]
    places = [PLACES[k] for k in rng.integers(0, 8, int(rng.integers(1, 3)))]
    return {"topic": topics, "place": places, "price": int(rng.integers(0, 4))}


def graph_of(edges, folded):
    """Where it is folded, half of the nodes have the same 16 bits as another half."""
    nodes = [*NAMES[: N // 2], *(FILLERS if folded else ()), *NAMES[N // 2 :]]
    graph = ContentGraph.from_edges(edges, nodes)
    if folded:
        number = graph.number
        assert number[NAMES[N // 2]] & FOLD == number[NAMES[0]] & FOLD
    return graph


@pytest.mark.parametrize("plan", [None, "over", "under"])
@pytest.mark.parametrize("folded", [False, True])
def test_answers(folded, plan):
    """Rows with and without sketches come, go and move; each message reaches whom it should."""
    rng = np.random.default_rng(7 + folded)
    edges = links(rng)
    graph = graph_of(edges, folded)
    f = Filter(graphs={"topic": graph, "interests": graph, "place": ContentGraph.from_edges(TREE)})
    f._tables.postings.plan = plan
    naive = NaiveGraph(edges)
    oracle = NaiveFilter(graphs={"topic": naive, "interests": naive, "place": NaiveGraph(TREE)})
    only_contexts = "topic WITHIN context.interests AND place CONTAINS context.place"
    found = 0
    for step in range(12):
        where = PLACES[int(rng.integers(0, 8))]
        for one in (f, oracle):
            one.update("c0", {"interests": NAMES[step]})
            one.update(f"c{step % 5}", {"place": where})
        for profile in range(5 * step, 5 * step + 5):
            # At first nobody has a sketch; then lists are laid anew, with them.
            text = only_contexts if step < 2 else condition(rng)
            for one in (f, oracle):
                one.subscribe(profile, text, f"c{profile % 5}")
        if step % 3 == 2:
            for one in (f, oracle):
                one.unsubscribe(5 * step - 7)
        messages = [message(rng) for _ in range(12)]
        expected = [oracle.match(m) for m in messages]
        assert f.match_many(messages).by_message() == expected
        assert f.match_many(pa.Table.from_pylist(messages)).by_message() == expected
        assert [f.match(m) for m in messages] == expected
        found += sum(map(len, expected))
        f._check()
    assert found > 100


@pytest.mark.parametrize("folded", [False, True])
def test_sketches_decide_where_they_can(folded):
    """What lists name, and what their sieve leaves of that."""
    graph = graph_of([(NAMES[0], NAMES[1])], folded)
    f = Filter(graphs={"topic": graph, "place": ContentGraph.from_edges(TREE)})
    f._tables.postings.plan = "over"
    f.update("ann", {"place": "p3"})
    for i, name in enumerate(NAMES):
        f.subscribe(i, f"topic WITHIN '{name}' AND place CONTAINS context.place", "ann")
    group = f._tables.postings.groups[0]
    assert [form.sieved_by for form in group.forms] == [-1, 0]
    assert group.proven().tolist() == [not folded, True]
    before = f.stats()["candidates"]
    assert f.match({"topic": "n1", "place": "p1"}) == [0, 1]
    # Folded, the nodes with the same 16 bits pass, too.
    assert f.stats()["candidates"] - before == (4 if folded else 2)
    listed = ", ".join(repr(name) for name in NAMES[: SKETCHED + 1])
    f.subscribe("long", f"topic WITHIN ({listed}) AND place CONTAINS context.place", "ann")
    assert not group.proven()[0]
    assert f.match({"topic": "n9", "place": "p1"}) == [9]
    entries = group.forms[1].exact.as_sets(STEP)[graph_place(f, "p3")]
    assert sum(entry[1] == ANYTHING for entry in entries) == 1


def graph_place(f, name):
    return f._tables.postings.categories.graphs[1].number[name]


texts = st.text(st.characters(codec="utf-8"), max_size=20)


@given(
    st.lists(texts, unique=True, max_size=40), st.data(),
    st.sampled_from([pa.string(), pa.large_string()]),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_names(names, data, kind):
    """Known and unknown names of any length, nulls, slices."""
    gone = data.draw(st.sets(st.integers(0, 39)))
    kept = [None if i in gone else name for i, name in enumerate(names)]
    number = {name: i for i, name in enumerate(kept) if name is not None}
    known = st.sampled_from(names) if names else texts
    asked = data.draw(st.lists(st.one_of(known, texts, st.none()), max_size=30))
    begin = data.draw(st.integers(0, len(asked)))
    expected = [number.get(name, -1) for name in asked]
    table = Names(kept)
    assert table.find(pa.array(asked, kind)).tolist() == expected
    assert table.find(pa.array(asked, kind).slice(begin)).tolist() == expected[begin:]


def test_names_that_arrow_cannot_hold():
    """Half of a surrogate pair names a node, but no column has it."""
    graph = ContentGraph.from_edges([("\ud800", "b"), ("b", "c")])
    f = Filter(graphs={"topic": graph})
    f.subscribe(0, "topic WITHIN 'b'")
    assert f.match_many(pa.table({"topic": ["c", "b", None]})).by_message() == [[0], [0], []]
    assert f.match({"topic": "\ud800"}) == []
