"""Content graphs against plain reachability."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_graphs import NaiveGraph, depths

import germane
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


@pytest.mark.long
def test_two_million_links():
    """Leaves with ten parents each; some links come twice."""
    rng = np.random.default_rng(1)
    leaves = np.repeat(np.arange(200_000), 10)
    parents = rng.integers(0, 1000, len(leaves))
    names = pa.array([f"r{i}" for i in range(1000)]), pa.array([f"x{i}" for i in range(200_000)])
    table = pa.table({"parent": names[0].take(pa.array(parents)),
                      "child": names[1].take(pa.array(leaves))})  # fmt: skip
    graph = ContentGraph.from_edges(table)
    report = graph.report()
    assert report.edges + report.duplicates == 2_000_000
    mine = {f"r{p}" for p in parents[leaves == 77]}
    assert set(graph.ancestors("x77")) == mine | {"x77"}
    assert len(graph.descendants("r5")) == len(np.unique(leaves[parents == 5])) + 1


def test_an_empty_graph_in_a_filter():
    f = germane.Filter(graphs={"topic": ContentGraph()})
    f.subscribe("p", "topic IS NULL")
    with pytest.raises(germane.GermaneError, match="unknown node 'x'"):
        f.subscribe("q", "topic WITHIN 'x'")
    with pytest.raises(UnknownNode, match="graph is empty"):
        f.match({"topic": "x"})
    found = f.match_many(pa.table({"topic": ["x", None]}))
    assert found.by_message() == [[], ["p"]]
    assert sorted(found.errors) == [0]
