"""Content graphs against plain reachability."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_graphs import NaiveGraph, depths

from germane import ContentGraph, InvalidValue, UnknownNode

NODES = [f"n{i}" for i in range(9)]
node = st.sampled_from(NODES)
links = st.lists(st.tuples(node, node), max_size=16)
trees = st.lists(st.integers(0, 7), max_size=8).map(
    lambda parents: [(f"n{p % (i + 1)}", f"n{i + 1}") for i, p in enumerate(parents)]
)


def agree(graph, oracle):
    for a in oracle.nodes:
        above = sorted(b for b in oracle.nodes if oracle.covers(b, a))
        below = sorted(b for b in oracle.nodes if oracle.covers(a, b))
        assert graph.ancestors(a) == above
        assert graph.descendants(a) == below
        for b in oracle.nodes:
            assert graph.covers(a, b) == oracle.covers(a, b)
    graph._check()


@given(st.one_of(links, trees))
@settings(max_examples=200, deadline=None)
def test_covers(edges):
    agree(ContentGraph.from_edges(edges), NaiveGraph(edges))


@given(links, st.lists(st.tuples(st.booleans(), st.lists(st.tuples(node, node), max_size=3))))
@settings(max_examples=200, deadline=None)
def test_changes(edges, changes):
    graph, oracle = ContentGraph.from_edges(edges), NaiveGraph(edges)
    for adds, some in changes:
        if adds:
            graph.add_edges(some)
            oracle.add(some)
        else:
            there = [edge for edge in some if edge in graph.edges()]
            if there:
                graph.remove_edges(there)
                oracle.remove(there)
        agree(graph, oracle)


@given(links)
@settings(max_examples=200, deadline=None)
def test_cleaning(edges):
    """What is left has no cycle and leads nowhere shallower; what went, had to go."""
    graph = ContentGraph.from_edges(edges, cycles="drop")
    report = graph.report()
    kept, wanted = set(graph.edges()), {(a, b) for a, b in edges if a != b}
    depth = depths(edges)
    assert kept <= wanted
    assert report.dropped == len(wanted - kept)
    assert report.cycles == 0
    naive = NaiveGraph(kept, NODES)
    for a, b in kept:
        assert depth[b] >= depth[a]
        assert not naive.covers(b, a)
    for a, b in wanted - kept:
        assert depth[b] < depth[a] or naive.covers(b, a)
    for a, b in wanted:
        if depth[b] > depth[a]:
            assert (a, b) in kept


def test_report():
    graph = ContentGraph.from_edges(
        [("a", "b"), ("b", "c"), ("c", "b"), ("a", "a"), ("a", "b"), ("c", "d")], nodes=["e"]
    )
    report = graph.report()
    assert (report.nodes, report.edges, report.self_loops, report.duplicates) == (5, 4, 1, 1)
    assert (report.cycles, report.largest_cycle, report.cycle_sample) == (1, 2, ("b", "c"))
    assert (report.roots, report.depth) == (2, 3)
    assert "the largest has 2: 'b', 'c'" in str(report)
    assert graph.covers("c", "b")
    cleaned = ContentGraph.from_edges([("a", "b"), ("b", "c"), ("c", "b")], cycles="drop")
    assert cleaned.report().dropped_sample == (("c", "b"),)
    assert not cleaned.covers("c", "b")


def test_unknown_nodes():
    graph = ContentGraph.from_edges([("Sports", "Baseball")])
    with pytest.raises(UnknownNode, match="unknown node 'Basebal'; did you mean 'Baseball'"):
        graph.covers("Sports", "Basebal")
    with pytest.raises(UnknownNode, match="the graph is empty"):
        ContentGraph().ancestors("x")


@pytest.mark.parametrize(
    "edges", ["ab", [("a",)], [("a", "b", "c")], [1], [("a", None)], [("", "a")], 3, {"a": "b"}]
)
def test_what_is_no_link(edges):
    with pytest.raises(InvalidValue):
        ContentGraph.from_edges(edges)


def test_a_long_chain_and_a_wide_one():
    """No recursion anywhere."""
    n = 200_000
    graph = ContentGraph.from_edges([("root", f"x{i}") for i in range(n)])
    assert graph.is_forest
    assert len(graph.descendants("root")) == n + 1
    deep = ContentGraph.from_edges([(f"y{i}", f"y{i + 1}") for i in range(3000)])
    assert len(deep.ancestors("y3000")) == 3001


def test_garbage_is_swept_up():
    graph = ContentGraph.from_edges([("a", f"n{i}") for i in range(50)])
    builds = graph.builds
    for i in range(40):
        graph.add_edges([(f"n{i}", f"n{i + 1}")])
        graph.remove_edges([(f"n{i}", f"n{i + 1}")])
    graph._check()
    assert builds < graph.builds < builds + 40
