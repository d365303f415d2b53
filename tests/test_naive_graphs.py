"""The oracle's content graphs against cases computed by hand, and covers() against a closure."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import NaiveError, NaiveFilter
from naive_graphs import NaiveGraph, clean, depths

T, F, U = True, False, None

TOPICS = [
    ("Top", "Sports"), ("Top", "Weather"), ("Top", "News"), ("Sports", "Baseball"),
    ("Sports", "Tennis"), ("Baseball", "Red Sox"), ("News", "Boston News"),
    ("Boston News", "Red Sox"), ("News", "it's"),
]  # fmt: skip
PLACES = [
    ("World", "USA"), ("USA", "Massachusetts"), ("Massachusetts", "Boston"),
    ("Massachusetts", "Cambridge"), ("Cambridge", "MIT"), ("World", "France"),
]  # fmt: skip
RING = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "tail"), ("head", "a")]


def filter_(schema: dict[str, str] | None = None) -> NaiveFilter:
    graphs = {"topic": NaiveGraph(TOPICS), "place": NaiveGraph(PLACES), "ring": NaiveGraph(RING)}
    return NaiveFilter(schema, graphs=graphs)


# ------------------------------------------------------------------------------------ graphs

EDGES = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")), max_size=12)


def closure(nodes: set[str], edges: list[tuple[str, str]]) -> set[tuple[str, str]]:
    """Floyd and Warshall's: all pairs with a path."""
    pairs = {(node, node) for node in nodes} | set(edges)
    for via, a, b in product(sorted(nodes), repeat=3):
        if (a, via) in pairs and (via, b) in pairs:
            pairs.add((a, b))
    return pairs


@given(EDGES, EDGES, st.data())
def test_covers_is_the_closure(first, second, data) -> None:
    graph = NaiveGraph(first, nodes="xy")
    graph.add(second)
    gone = [edge for edge in first + second if data.draw(st.booleans())]
    graph.remove(gone)
    nodes = {node for edge in first + second for node in edge} | set("xy")
    assert graph.nodes == nodes
    expected = closure(nodes, [edge for edge in first + second if edge not in gone])
    assert {pair for pair in product(nodes, repeat=2) if graph.covers(*pair)} == expected


def test_edges_go_and_nodes_stay() -> None:
    graph = NaiveGraph([("a", "b"), ("a", "b"), ("b", "c")], nodes=["z"])
    graph.remove([("a", "b"), ("c", "a")])
    assert graph.nodes == {"a", "b", "c", "z"}
    assert graph.covers("a", "a")
    assert not graph.covers("a", "c")
    assert graph.covers("b", "c")
    assert graph.covers("z", "z")


def test_a_cycle_covers_itself() -> None:
    graph = NaiveGraph(RING)
    assert all(graph.covers(a, b) for a, b in product("abc", repeat=2))
    assert graph.covers("head", "tail")
    assert not graph.covers("tail", "a")
    graph.remove([("c", "a")])
    assert not graph.covers("b", "a")


# ---------------------------------------------------------------------------------- cleaning


def test_cleaning_drops_the_back_link() -> None:
    back = [("Red Sox", "Sports"), ("Tennis", "Tennis"), ("Sports", "Tennis")]
    assert clean(back[:2] + TOPICS + back[2:]) == (TOPICS, back)


@pytest.mark.parametrize(
    ("edges", "dropped"),
    [
        ("", ""),
        ("ab bc", ""),
        ("aa", "aa"),
        ("ab ba", "ba"),  # no root: the first-named
        ("ba ab", "ab"),
        ("rx ry xy yx", "yx"),  # one depth: the first stays
        ("rx ry yx xy", "xy"),
        ("rx ry rz xy yz zx", "zx"),  # an ancestor through two
        ("ra ab bc rc cd da", "bc da"),  # no cycle at bc, but c is shallower than b
        ("ra ab rc cd bd", ""),  # a second way that is no longer stays
        ("ra bc cb ba", "cb"),  # below no root: b is one, too
        ("xa cx cd dc", "dc"),  # x, then c
    ],
)
def test_cleaning(edges: str, dropped: str) -> None:
    given_, bad = ([(a, b) for a, b in text.split()] for text in (edges, dropped))
    assert clean(given_) == ([edge for edge in given_ if edge not in bad], bad)


@given(EDGES)
def test_what_is_kept_has_no_cycle_and_loses_nobody(edges) -> None:
    kept, dropped = clean(edges)
    assert sorted(kept + dropped) == sorted(edges)
    assert len(set(kept)) == len(kept)
    depth = depths(edges)
    graph = NaiveGraph(kept, nodes=depth)
    for a, b in product(depth, repeat=2):
        assert a == b or not (graph.covers(a, b) and graph.covers(b, a))
    roots = [node for node in depth if depth[node] == 0]
    assert all(any(graph.covers(root, node) for root in roots) for node in depth)


# -------------------------------------------------------------------------------- conditions

# condition, message, context, truth
CASES = [
    # Notification, Figure 4: what matches the topic Red Sox
    ("topic WITHIN 'Red Sox'", {"topic": "Red Sox"}, {}, T),
    ("topic WITHIN 'Baseball'", {"topic": "Red Sox"}, {}, T),
    ("topic WITHIN 'Sports'", {"topic": ["Red Sox"]}, {}, T),
    ("topic WITHIN 'Boston News'", {"topic": "Red Sox"}, {}, T),
    ("topic WITHIN 'Tennis'", {"topic": "Red Sox"}, {}, F),
    ("topic WITHIN 'Red Sox'", {"topic": "Baseball"}, {}, F),
    ("topic CONTAINS 'Red Sox'", {"topic": "Baseball"}, {}, T),
    ("topic CONTAINS 'Baseball'", {"topic": "Red Sox"}, {}, F),
    ("topic WITHIN 'it''s'", {"topic": "it's"}, {}, T),
    # sets on the left, on the right, on both
    ("topic WITHIN 'Sports'", {"topic": ("Weather", "Tennis")}, {}, T),
    ("topic WITHIN 'Sports'", {"topic": {"Weather", "News"}}, {}, F),
    ("topic WITHIN ('Tennis', 'News')", {"topic": "Red Sox"}, {}, T),
    ("topic WITHIN ('Tennis')", {"topic": ["Red Sox", "Weather"]}, {}, F),
    ("topic CONTAINS ('Weather', 'Red Sox')", {"topic": ["Tennis", "Boston News"]}, {}, T),
    ("topic CONTAINS ('Weather', 'Red Sox')", {"topic": ["Tennis", "it's"]}, {}, F),
    # attributes on either side; those of no graph take that of the other side
    ("topic WITHIN context.likes", {"topic": "Red Sox"}, {"likes": ["News", "Tennis"]}, T),
    ("context.likes CONTAINS topic", {"topic": "Red Sox"}, {"likes": ["News", "Tennis"]}, T),
    ("context.likes WITHIN topic", {"topic": "Red Sox"}, {"likes": "Sports"}, F),
    ("topic WITHIN other", {"topic": "Tennis", "other": "Sports"}, {}, T),
    ("topic CONTAINS topic", {"topic": "Tennis"}, {}, T),
    ('topic within "odd one"', {"topic": "Tennis", "odd one": "News"}, {}, F),
    ("place CONTAINS context.place", {"place": "Cambridge"}, {"place": "MIT"}, T),
    ("place CONTAINS context.place", {"place": "Boston"}, {"place": "MIT"}, F),
    ("context.place WITHIN 'USA'", {}, {"place": "MIT"}, T),
    # NULL: missing, None, an empty set
    ("topic WITHIN 'Top'", {}, {}, U),
    ("topic WITHIN 'Top'", {"topic": None}, {}, U),
    ("topic WITHIN 'Top'", {"topic": []}, {}, U),
    ("topic NOT WITHIN 'Top'", {"topic": set()}, {}, U),
    ("place CONTAINS context.place", {"place": "World"}, {}, U),
    ("place CONTAINS context.place", {"place": "World"}, {"place": ()}, U),
    ("topic WITHIN context.likes", {"topic": "Top"}, {"likes": []}, U),
    ("topic IS NULL", {}, {}, T),
    ("topic IS NULL", {"topic": []}, {}, T),
    ("topic IS NOT NULL", {"topic": "Top"}, {}, T),
    ("context.place IS NULL", {}, {"place": ["MIT"]}, F),
    ("(topic WITHIN 'Top') IS NULL", {}, {}, T),
    # NOT, and precedence
    ("topic NOT WITHIN 'Sports'", {"topic": "Red Sox"}, {}, F),
    ("topic NOT WITHIN 'Sports'", {"topic": "News"}, {}, T),
    ("topic NOT WITHIN 'Sports'", {"topic": ["News", "Tennis"]}, {}, F),
    ("place NOT CONTAINS 'MIT'", {"place": "Boston"}, {}, T),
    ("NOT place CONTAINS 'MIT'", {"place": "USA"}, {}, F),
    ("NOT topic WITHIN 'News' OR n = 1", {"topic": "News", "n": 1}, {}, T),
    ("topic WITHIN 'News' AND n = 1 OR n = 2", {"topic": "Top", "n": 2}, {}, T),
    ("(topic WITHIN 'News') = (n = 1)", {"topic": "it's", "n": 1}, {}, T),
    # a cycle
    ("ring WITHIN 'b'", {"ring": "a"}, {}, T),
    ("ring CONTAINS 'b'", {"ring": "a"}, {}, T),
    ("ring WITHIN 'tail'", {"ring": "a"}, {}, F),
    ("ring CONTAINS 'head'", {"ring": ["a", "tail"]}, {}, F),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "message", "context", "truth"), CASES)
def test_case(condition, message, context, truth) -> None:
    f = filter_()
    f.subscribe("p", condition, context="ann")
    f.update("ann", context)
    assert f.truth("p", message) is truth
    assert f.match(message) == (["p"] if truth is True else [])


def test_the_papers_subscription() -> None:
    """({Baseball, Weather}, {MIT, Boston}): a topic below, and a place above the user's."""
    f = filter_()
    f.subscribe("p", "topic WITHIN ('Baseball','Weather') AND place CONTAINS context.place", "ann")
    f.update("ann", {"place": ["MIT", "Boston"]})
    for topic, place in product(["Baseball", "Weather", "Red Sox"], ["MIT", "Boston", "USA"]):
        assert f.match({"topic": topic, "place": place}) == ["p"]
        assert f.match({"topic": ["Tennis", topic], "place": ["France", place]}) == ["p"]
    for topic, place in [("Sports", "MIT"), ("Tennis", "Boston"), ("Baseball", "France")]:
        assert f.match({"topic": topic, "place": place}) == []
    f.update("ann", {"place": "Boston"})
    assert f.match({"topic": "Baseball", "place": "Cambridge"}) == []


@pytest.mark.parametrize(
    "condition",
    [
        "topic WITHIN 'Handball'", "topic WITHIN ('News', 'Handball')", "place CONTAINS 'News'",
        "topic WITHIN place", "topic WITHIN context.place", "n WITHIN 'News'", "topic WITHIN n",
        "fresh WITHIN 'News'", "fresh WITHIN context.other", "'News' WITHIN topic",
        "topic WITHIN 5", "topic WITHIN", "topic WITHIN ()", "topic WITHIN ('News',)",
        "topic WITHIN ('News', context.likes)", "topic WITHIN NULL", "topic WITHIN ABS(n)",
        "n + 1 WITHIN 'News'", "topic WITHIN 'News' WITHIN 'Top'", "topic NOT 'News'",
        "topic WITHIN 'News' 'Top'", "topic", "NOT topic", "topic = 'News'", "'News' = topic",
        "topic = context.topic", "topic < 'News'", "topic IN ('News')", "topic LIKE 'N%'",
        "topic BETWEEN 'A' AND 'Z'", "topic + 1 > 0", "-topic = 1", "ABS(topic) = 1",
        "DISTANCE(topic, place) < 1", "within = 1", "contains = 1",
        "topic WITHIN context.likes AND place CONTAINS context.likes",
        "topic WITHIN context.likes AND context.likes = 'News'",
        "fresh = context.likes AND topic WITHIN context.likes",
    ],
)  # fmt: skip
def test_refused(condition: str) -> None:
    f = filter_({"n": "number"})
    with pytest.raises(NaiveError):
        f.subscribe("p", condition, context="ann")
    f.update("ann", {"likes": 5})  # a refused profile fixes nothing
    f.subscribe("p", "topic WITHIN 'Top'")


def test_types() -> None:
    f = filter_({"topic": "category", "liked": "category"})
    f.update("ann", {"likes": "News"})
    with pytest.raises(NaiveError):
        f.subscribe("p", "topic WITHIN context.likes", "ann")  # likes is a string by its first use
    with pytest.raises(NaiveError):
        f.update("ann", {"liked": "News"})  # of which graph?
    f.subscribe("p", "topic WITHIN context.liked", "ann")
    f.update("ann", {"liked": "News"})
    assert f.match({"topic": "Red Sox"}) == ["p"]
    with pytest.raises(NaiveError):
        filter_({"topic": "string"})


def test_attributes_may_share_a_graph() -> None:
    topics = NaiveGraph(TOPICS)
    f = NaiveFilter(graphs={"topic": topics, "likes": topics, "twin": NaiveGraph(TOPICS)})
    f.subscribe("p", "topic WITHIN context.likes", "ann")
    f.update("ann", {"likes": "Weather"})
    f.change("likes", add=[("Weather", "Snow")])
    assert f.match({"topic": "Snow"}) == ["p"]
    assert "Snow" not in topics.nodes
    with pytest.raises(NaiveError):
        f.subscribe("q", "topic WITHIN context.twin", "ann")


# ------------------------------------------------------------------------------------ events


def message(seq: int, **values: object) -> dict:
    return {"seq": seq, "kind": "message", "id": f"m{seq}", **values}


def update(seq: int, **values: object) -> dict:
    return {"seq": seq, "kind": "update", "id": "ann", **values}


def subscribe(seq: int, id: str, condition: str, context: str | None = None) -> dict:
    return {"seq": seq, "kind": "subscribe", "id": id, "condition": condition, "context": context}


def change(seq: int, graph: object, **links: object) -> dict:
    return {"seq": seq, "kind": "graph", "graph": graph, **links}


NEWS = subscribe(1, "news", "topic WITHIN context.likes", "ann")


def test_graphs_change_in_the_sequence() -> None:
    events = [
        NEWS,
        update(2, likes=["News", "Weather"]),
        message(3, topic="Tennis"),
        change(4, "topic", add=[("News", "Tennis")]),
        message(5, topic=["Tennis"]),
        message(6, topic="Golf"),  # unknown
        change(7, "topic", add=[["Tennis", "Golf"]], remove=[("News", "Tennis")]),
        message(8, topic=["Golf"]),
        subscribe(9, "golf", "topic CONTAINS 'Golf'"),
        message(10, topic="Sports"),
        change(11, "topic", remove=[("Tennis", "Golf")], add=None),
        message(12, topic={"Golf", "Weather"}),  # the node stays
        update(13, likes=[]),  # NULL, which only `removed` sets
        message(14, topic="Weather"),
        update(15, removed=["likes"]),
        message(16, topic="Weather"),
        change(17, "topic", add=[("Golf", "Top")], remove=[("Golf", "Top")]),
        message(18, topic="Golf"),
        change(19, "topic", add=[("Golf", "Sports"), ("Tennis", "Golf")]),
        subscribe(20, "like golf", "topic WITHIN 'Golf'"),
        message(21, topic="Sports"),  # in a cycle with Golf
        message(22, topic="Baseball"),  # only below it
    ]
    deliveries = [
        (5, "m5", "news"),
        (10, "m10", "golf"),
        (12, "m12", "golf"),
        (12, "m12", "news"),
        (14, "m14", "news"),
        (18, "m18", "golf"),
        (21, "m21", "golf"),
        (21, "m21", "like golf"),
        (22, "m22", "like golf"),
    ]
    assert filter_().process(events) == (deliveries, [(5, "value")])
    for cut in range(len(events) + 1):
        f = filter_()
        assert f.process(events[:cut])[0] + f.process(events[cut:])[0] == deliveries


@pytest.mark.parametrize(
    ("reason", "event"),
    [
        ("value", message(7, topic="Handball")),
        ("value", message(7, topic=["News", "Handball"])),
        ("value", message(7, topic=["News", None])),
        ("value", message(7, topic=5)),
        ("value", message(7, topic="MIT")),
        ("value", update(7, likes=["Handball"])),
        ("value", update(7, likes="News", place="Nowhere")),
        ("value", message(7, fresh=["News"])),
        ("condition", subscribe(7, "q", "topic WITHIN 'Handball'")),
        ("condition", subscribe(7, "q", "topic = 'News'")),
        ("graph", change(7, "likes", add=[("News", "Handball")])),
        ("graph", change(7, None, add=[("News", "Handball")])),
        ("graph", change(7, ["topic"])),
        ("links", change(7, "topic", add=[("Sports", "Weather"), ("News",)])),
        ("links", change(7, "topic", add=["ab"])),
        ("links", change(7, "topic", add=[("Sports", "Weather"), ("News", None)])),
        ("links", change(7, "topic", add="News")),
        ("links", change(7, "topic", add=[("Sports", "Weather")], remove=[("News", "Handball")])),
        ("seq", change(None, "topic", add=[("Sports", "Weather")])),
    ],
)
def test_malformed_events_change_nothing(reason: str, event: dict) -> None:
    f = filter_()
    weather = [message(8, topic="Weather"), message(9, topic="it's")]
    events = [NEWS, update(2, likes=["Sports", "it's"]), event, *weather]
    assert f.process(events) == ([(9, "m9", "news")], [(2, reason)])
    with pytest.raises(NaiveError):
        f.match({"topic": "Handball"})
