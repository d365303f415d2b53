"""Category predicates in the filter: every index, plan and policy against the oracle."""

import numpy as np
import pyarrow as pa
import pytest
from batchings import LONGER
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import NaiveError, NaiveFilter
from naive_graphs import NaiveGraph

import germane
from germane import ContentGraph, Filter, Fixed
from germane.category.postings import BATCH, READS, STALE

NODES = [f"n{i}" for i in range(7)]
PLACES = [f"p{i}" for i in range(6)]
TREE = [("p0", "p1"), ("p0", "p2"), ("p1", "p3"), ("p1", "p4"), ("p2", "p5")]
FILTERS = [
    {"index": "scan"},
    {"index": "eager"},
    {"index": "agile", "policy": "always"},
    {"index": "agile", "policy": Fixed(3)},
    {"index": "auto"},
]

LISTS = pa.list_(pa.string())
node = st.sampled_from(NODES)
place = st.sampled_from(PLACES)
links = st.lists(st.tuples(node, node), max_size=10)
some_nodes = st.one_of(node, st.lists(node, max_size=3))
some_places = st.one_of(place, st.lists(place, max_size=3))
contexts = st.sampled_from(["ann", "bob", "cyd"])


def quoted(names):
    return f"({', '.join(repr(name) for name in names)})" if len(names) != 1 else repr(names[0])


topics = st.lists(node, min_size=1, max_size=3).map(quoted)
places = st.lists(place, min_size=1, max_size=2).map(quoted)
predicates = st.one_of(
    topics.map("topic WITHIN {}".format),
    topics.map("topic CONTAINS {}".format),
    places.map("place CONTAINS {}".format),
    places.map("place WITHIN {}".format),
    st.sampled_from(
        [
            "place CONTAINS context.place", "place WITHIN context.place",
            "topic WITHIN context.interests", "topic CONTAINS context.interests",
            "context.place WITHIN 'p1'", "context.interests CONTAINS 'n1'",
            "price < context.limit", "price >= 2", "room LIKE '%a%'", "topic IS NULL",
            "topic NOT WITHIN 'n1'", "place NOT CONTAINS context.place", "topic WITHIN topic",
        ]
    ),
)  # fmt: skip
conditions = st.one_of(
    st.lists(predicates, min_size=1, max_size=3).map(" AND ".join),
    st.tuples(predicates, predicates).map(" OR ".join),
)
messages = st.fixed_dictionaries(
    {},
    optional={
        "topic": some_nodes,
        "place": some_places,
        "price": st.integers(0, 4),
        "room": st.sampled_from(["a", "ba", "c"]),
    },
)
values = st.fixed_dictionaries(
    {},
    optional={
        "place": st.one_of(some_places, st.none()),
        "interests": some_nodes,
        "limit": st.integers(0, 4),
    },
)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("subscribe"), st.integers(0, 7), conditions, contexts),
        st.tuples(st.just("unsubscribe"), st.integers(0, 7)),
        st.tuples(st.just("update"), contexts, values),
        st.tuples(st.just("update"), contexts, values),
        st.tuples(st.just("match"), st.lists(messages, min_size=1, max_size=4)),
        st.tuples(st.just("link"), node, node),
        st.tuples(st.just("unlink"), node, node),
        st.tuples(st.just("settle")),
    ),
    min_size=1,
    max_size=30,
)


class Both:
    """A filter and the oracle, side by side."""

    def __init__(self, about, edges, plan=None, matcher="closure"):
        self.topic, self.place = (
            ContentGraph.from_edges(edges, NODES),
            ContentGraph.from_edges(TREE),
        )
        graphs = {"topic": self.topic, "place": self.place, "interests": self.topic}
        self.filter = Filter(graphs=graphs, **about)
        self.filter._tables.postings.plan = plan
        self.filter._tables.postings.matcher = matcher
        topic = NaiveGraph(edges, NODES)
        self.oracle = NaiveFilter(
            graphs={"topic": topic, "place": NaiveGraph(TREE), "interests": topic}
        )
        self.known = set()

    def do(self, action):
        getattr(self, action[0])(*action[1:])

    def both(self, name, *arguments):
        """Call both; they must agree on whether that is an error."""
        outcomes = []
        for one in (self.filter, self.oracle):
            try:
                getattr(one, name)(*arguments)
                outcomes.append(True)
            except (germane.GermaneError, NaiveError):
                outcomes.append(False)
        assert outcomes[0] == outcomes[1], (name, arguments)

    def subscribe(self, profile, condition, context):
        self.both("subscribe", profile, condition, context)

    def unsubscribe(self, profile):
        self.both("unsubscribe", profile)

    def update(self, context, given):
        self.both("update", context, given)

    def settle(self):
        """Lay lists anew, as much reading would: slices of a forest, wide lists among them."""
        postings = self.filter._tables.postings
        for group in postings.groups:
            postings._build(group)

    def match(self, listed):
        expected = [self.oracle.match(message) for message in listed]
        assert [self.filter.match(message) for message in listed] == expected
        assert self.filter.match_many(listed).by_message() == expected
        kinds = {"topic": LISTS, "place": LISTS, "price": pa.float64(), "room": pa.string()}
        rows = [
            {
                name: [value] if isinstance(value, str) and kinds[name] is LISTS else value
                for name, value in message.items()
            }
            for message in listed
        ]
        table = pa.Table.from_pylist(rows, pa.schema(kinds.items()))
        assert self.filter.match_many(table).by_message() == expected

    def link(self, a, b):
        self.topic.add_edges([(a, b)])
        self.oracle.change("topic", add=[(a, b)])

    def unlink(self, a, b):
        if (a, b) in self.topic.edges():
            self.filter.change_graph("topic", unlinks=[(a, b)])
            self.oracle.change("topic", remove=[(a, b)])


@pytest.mark.parametrize("plan", [None, "under", "over"])
@pytest.mark.parametrize("about", FILTERS, ids=repr)
@given(data=st.data())
@settings(max_examples=30 * LONGER, deadline=None)
def test_sequences(about, plan, data):
    both = Both(about, data.draw(links), plan)
    for action in data.draw(actions):
        both.do(action)
    both.match([{"topic": name, "place": p} for name in NODES[:3] for p in PLACES])
    both.filter._check()


@pytest.mark.parametrize("plan", [None, "under", "over"])
@pytest.mark.parametrize("matcher", ["search", "lists"])
@given(data=st.data())
@settings(max_examples=30 * LONGER, deadline=None)
def test_other_matchers(matcher, plan, data):
    """The paper's other two give the same answers, whatever moves and changes."""
    both = Both({"index": "agile", "policy": "always"}, data.draw(links), plan, matcher)
    for action in data.draw(actions):
        both.do(action)
    both.match([{"topic": name, "place": p} for name in NODES[:3] for p in PLACES])
    both.filter._check()


@pytest.mark.parametrize("matcher", ["closure", "search", "lists"])
@pytest.mark.parametrize("plan", [None, "under", "over"])
def test_messages_that_reach_everybody(matcher, plan):
    """Room for candidates grows with the messages, one at a time and in batches."""
    graph = ContentGraph.from_edges([("all", f"n{i}") for i in range(50)])
    tree = ContentGraph.from_edges(TREE)
    f = Filter(graphs={"topic": graph, "place": tree})
    f._tables.postings.plan, f._tables.postings.matcher = plan, matcher
    ids = np.arange(6_000)
    f.update_many(ids, "place", [PLACES[i % 6] for i in ids])
    f.subscribe_many(
        ids, [f"topic WITHIN ('all', 'n{i % 50}') AND place CONTAINS context.place" for i in ids],
        ids,
    )  # fmt: skip
    assert f.match({"topic": "n7", "place": "p3"}) == [i for i in range(6_000) if i % 6 == 3]
    for n in (1, 2, 3, 9):
        found = f.match_many([{"topic": ["n1", "n2"], "place": "p0"}] * n)
        assert found.by_message() == [ids.tolist()] * n


def test_sets_that_nobody_holds_are_let_go_of(monkeypatch):
    monkeypatch.setattr("germane.category.sets.FEW_SETS", 20)
    graph = ContentGraph.from_edges([("all", f"n{i}") for i in range(60)])
    f = Filter(graphs={"topic": graph, "interests": graph})
    f.subscribe("fixed", "topic WITHIN ('n58', 'n59')")
    f.subscribe("mine", "topic WITHIN context.interests", context="ann")
    f.subscribe("asleep", "topic WITHIN 'n1' AND context.interests WITHIN ('n2', 'n3')", "bob")
    for i in range(400):
        two = [f"n{i % 50}", f"n{(i + 1 + i // 50) % 50}"]
        f.update("ann", {"interests": two})
        assert f.match({"topic": two[0]}) == ["mine"]
        assert f.match({"topic": "n59"}) == ["fixed"]
    sets = f._categories.sets[0]
    assert len(sets.number) < 100
    f.update("bob", {"interests": ["n2", "n40"]})
    f.subscribe("again", "topic WITHIN ('n58', 'n59')")
    assert f.match({"topic": "n1"}) == ["asleep"]
    assert f.match({"topic": "n58"}) == ["again", "fixed"]
    f._check()


def test_sets_are_let_go_of_and_saved(monkeypatch, tmp_path):
    monkeypatch.setattr("germane.category.sets.FEW_SETS", 5)
    graph = ContentGraph.from_edges([("all", f"n{i}") for i in range(60)])
    f = Filter(graphs={"topic": graph, "interests": graph})
    f.subscribe("mine", "topic WITHIN context.interests", context="ann")
    events = [
        {"seq": i, "kind": "update", "id": "ann", "interests": [f"n{i % 50}", f"n{i % 50 + 1}"]}
        for i in range(40)
    ]
    for event in events:
        f.process([event])
    f.save(tmp_path / "f")
    again = Filter.load(tmp_path / "f")
    assert again.match({"topic": "n40"}) == f.match({"topic": "n40"}) == ["mine"]
    assert again.match({"topic": "n20"}) == f.match({"topic": "n20"}) == []
    again.update("ann", {"interests": ["n1", "n2", "n3"]})
    assert again.match({"topic": "n3"}) == ["mine"]
    again._check()


SPORTS = [("Root", "Sports"), ("Sports", "Baseball"), ("Baseball", "Red Sox"), ("Root", "Weather")]
WORLD = [("World", "Boston"), ("Boston", "MIT"), ("World", "Tokyo")]


@pytest.fixture
def paper():
    """The paper's two graphs."""
    topic, place = ContentGraph.from_edges(SPORTS), ContentGraph.from_edges(WORLD)
    return Filter(graphs={"topic": topic, "place": place})


def test_the_papers_examples(paper):
    """Section 2: ({Baseball, Weather}, {MIT, Boston}); section 5: the event's place is wider."""
    paper.subscribe(
        "ann", "topic WITHIN ('Baseball', 'Weather') AND place WITHIN ('MIT', 'Boston')"
    )
    paper.subscribe("bob", "topic WITHIN 'Sports' AND place CONTAINS context.place", "bob")
    paper.update("bob", {"place": "MIT"})
    assert paper.match({"topic": "Red Sox", "place": "MIT"}) == ["ann", "bob"]
    assert paper.match({"topic": "Red Sox", "place": "Boston"}) == ["ann", "bob"]
    assert paper.match({"topic": "Weather", "place": "Boston"}) == ["ann"]
    assert paper.match({"topic": "Sports", "place": "Boston"}) == ["bob"]
    assert paper.match({"topic": "Red Sox", "place": "Tokyo"}) == []
    paper.update("bob", {"place": "Tokyo"})
    assert paper.match({"topic": "Red Sox", "place": ["Tokyo", "Boston"]}) == ["ann", "bob"]


def test_one_profile_of_all_kinds(paper):
    """Category, range, string, context-bound and context-only, by one call, explained."""
    paper.subscribe(
        "p",
        "topic WITHIN context.interests AND place CONTAINS context.place AND price < 5 "
        "AND title LIKE '%final%' AND price >= context.least AND context.unread < 100",
        "ann",
    )
    values = {"interests": ["Baseball"], "place": "MIT", "least": 2, "unread": 3}
    paper.update("ann", values)
    message = {"topic": "Red Sox", "place": "Boston", "price": 3, "title": "the final game"}
    assert paper.match(message) == ["p"]
    for change in (
        {"topic": "Weather"}, {"place": "Tokyo"}, {"price": 7}, {"price": 1}, {"title": "x"},
    ):  # fmt: skip
        assert paper.match({**message, **change}) == []
    paper.update("ann", {"unread": 200})
    assert paper.match(message) == []
    paper.update("ann", {"unread": 0, "place": "Tokyo"})
    told = str(paper.explain("p", message))
    assert "✓ topic WITHIN context.interests" in told
    assert "✗ place CONTAINS context.place" in told
    assert "'context.place': 'Tokyo'" in told
    assert paper.stats()["categories"][0]["forms"] == ["topic WITHIN", "place CONTAINS"]


@pytest.mark.parametrize(
    ("condition", "error", "words"),
    [
        ("topic WITHIN 'Basebal'", "ConditionNameError", "did you mean Baseball"),
        ("topic WITHIN ('Sports', 'x')", "ConditionNameError", "unknown node 'x'"),
        ("price < 5 AND price WITHIN 'x'", "ConditionTypeError", "'price' is a number"),
        ("topic = 'Sports'", "ConditionTypeError", "categories go into WITHIN and CONTAINS"),
        ("topic WITHIN context.place", "ConditionTypeError", "category:place"),
        ("color WITHIN context.tint", "ConditionTypeError", "pass graphs={'color': …}"),
    ],
)
def test_conditions_that_are_refused(paper, condition, error, words):
    with pytest.raises(germane.GermaneError, match=words) as caught:
        paper.subscribe("p", condition, "ann")
    assert type(caught.value).__name__ == error


@pytest.mark.parametrize("value", ["Basebal", ["Sports", "x"], 3, [1], {"a": 1}, b"Sports", [None]])
def test_values_that_are_refused(paper, value):
    paper.subscribe("p", "topic WITHIN 'Sports'")
    with pytest.raises(germane.GermaneError, match="topic"):
        paper.match({"topic": value})
    with pytest.raises(germane.GermaneError, match="topic"):
        paper.update("ann", {"topic": value})
    done = paper.process(
        [{"seq": 1, "kind": "message", "id": 1, "topic": value},
         {"seq": 2, "kind": "message", "id": 2, "topic": "Baseball"}]
    )  # fmt: skip
    assert [rejected.seq for rejected in done.rejected] == [1]
    assert done.by_message() == [["p"]]


def test_null_and_empty_sets(paper):
    paper.subscribe("p", "topic WITHIN 'Sports' OR topic IS NULL")
    for nothing in (None, [], ()):
        assert paper.match({"topic": nothing}) == ["p"]
    assert paper.match({}) == ["p"]
    assert paper.match({"topic": "Weather"}) == []


def test_arrow(paper):
    """Columns of nodes, and of lists of nodes."""
    paper.subscribe("p", "topic WITHIN 'Sports' AND place CONTAINS 'MIT'")
    table = pa.table(
        {"topic": [["Red Sox", "Weather"], ["Weather"], None], "place": ["Boston", "Boston", "MIT"]}
    )
    assert paper.match_many(table).by_message() == [["p"], [], []]
    sliced = pa.table({"topic": [["Root"], ["Red Sox", "x"], [], ["Baseball", "Baseball"], [None]],
                       "place": ["MIT"] * 5}).slice(1)  # fmt: skip
    found = paper.match_many(sliced)
    assert found.by_message() == [[], [], ["p"], []]
    assert sorted(found.errors) == [0, 3]
    assert "unknown node 'x'" in str(found.errors[0])


def test_save_and_load(paper, tmp_path):
    paper.subscribe("p", "topic WITHIN ('Baseball', 'Weather') AND place CONTAINS context.place", 1)
    paper.update(1, {"place": ["MIT", "Tokyo"]})
    paper.save(tmp_path / "f")
    loaded = Filter.load(tmp_path / "f")
    loaded._check()
    message = {"topic": "Red Sox", "place": "Boston"}
    assert loaded.match(message) == paper.match(message) == ["p"]
    loaded.update(1, {"place": "Tokyo"})
    assert loaded.match(message) == []
    assert loaded.contexts().to_pylist() == [{"id": 1, "place": ["Tokyo"]}]


def test_moves_below_a_wide_place_change_nothing():
    """AGILE: inside its indexed subtree nothing happens, outside it escalates."""
    places = ContentGraph.from_edges(
        [("World", "A"), ("World", "B")] + [(c, f"{c}{i}") for c in "AB" for i in range(9)]
    )
    f = Filter(graphs={"place": places}, policy=Fixed(1000))
    f.subscribe("p", "place CONTAINS context.place", "ann")
    f.update("ann", {"place": "A1"})
    postings = f._tables.postings
    f.update("ann", {"place": "A2"})
    assert (postings.escalations, postings.moves) == (1, 1)
    for i in range(9):
        f.update("ann", {"place": f"A{i}"})
    assert (postings.escalations, postings.moves) == (1, 1)
    assert f.match({"place": "A8"}) == ["p"]
    assert f.match({"place": "A7"}) == []
    assert f.stats()["deescalations"] == 1
    f.update("ann", {"place": "B1"})
    assert postings.escalations == 2
    assert f.match({"place": "B"}) == ["p"]
    f._check()


def test_a_graph_that_grows_under_contexts(paper):
    """Context-only predicates follow the graph, too."""
    paper.subscribe("p", "context.place WITHIN 'Boston' AND topic WITHIN 'Sports'", "ann")
    paper.update("ann", {"place": "Tokyo"})
    assert paper.match({"topic": "Red Sox"}) == []
    paper._categories.graphs[1].add_edges([("Boston", "Tokyo")])
    assert paper.match({"topic": "Red Sox"}) == ["p"]
    paper._categories.graphs[1].remove_edges([("Boston", "Tokyo")])
    assert paper.match({"topic": "Red Sox"}) == []


def test_many_rows_and_moves():
    """At a size where lists grow, move and are built anew."""
    rng = np.random.default_rng(5)
    names = [f"x{i}" for i in range(400)]
    edges = [(names[int(rng.integers(0, i))], names[i]) for i in range(1, 400) for _ in range(2)]
    topic, place = ContentGraph.from_edges(edges), ContentGraph.from_edges(edges[::2])
    f = Filter(graphs={"topic": topic, "place": place})
    scan = Filter(index="scan", graphs={"topic": topic, "place": place})
    drawn = [sorted({names[k] for k in rng.integers(0, 400, 3)}) for _ in range(3000)]
    conditions = [f"topic WITHIN {quoted(d)} AND place CONTAINS context.place" for d in drawn]
    for one in (f, scan):
        one.subscribe_many(range(3000), conditions, range(3000))
    for _ in range(6):
        who = rng.integers(0, 3000, 2000)
        where = [names[k] for k in rng.integers(0, 400, 2000)]
        messages = [
            {"topic": [names[k] for k in rng.integers(0, 400, 2)], "place": names[int(p)]}
            for p in rng.integers(0, 400, 40)
        ]
        gone = rng.integers(0, 3000, 20)
        for one in (f, scan):
            one.update_many(who, "place", where)
            for profile in {int(g) for g in gone} & set(range(3000)):
                if profile in one:
                    one.unsubscribe(profile)
        assert f.match_many(messages).by_message() == scan.match_many(messages).by_message()
        assert [f.match(m) for m in messages[:5]] == [scan.match(m) for m in messages[:5]]
        f._check()


events = st.lists(
    st.one_of(
        st.builds(
            lambda profile, condition, context: {
                "kind": "subscribe", "id": profile, "condition": condition, "context": context,
            },
            st.sampled_from("uvwxyz"), conditions, contexts,
        ),
        st.builds(lambda p: {"kind": "unsubscribe", "id": p}, st.sampled_from("uvwxyz")),
        st.builds(lambda c, v: {"kind": "update", "id": c, **v}, contexts, values),
        st.builds(lambda m, v: {"kind": "message", "id": m, **v}, st.sampled_from("mno"), messages),
        st.builds(lambda m, v: {"kind": "message", "id": m, **v}, st.sampled_from("mno"), messages),
        st.builds(lambda a, b: {"kind": "graph", "id": "topic", "links": [(a, b)]}, node, node),
        st.just({"kind": "message", "id": "bad", "topic": "nowhere"}),
        st.just({"kind": "update", "id": "ann", "place": ["nowhere"]}),
    ),
    max_size=30,
)  # fmt: skip


@pytest.mark.parametrize("about", FILTERS[1:4], ids=repr)
@given(edges=links, listed=events, cuts=st.lists(st.integers(0, 30)))
@settings(max_examples=30 * LONGER, deadline=None)
def test_events(about, edges, listed, cuts):
    """One sequence of events, cut anywhere, links that change in the midst of it."""
    both = Both(about, edges)
    listed = [{"seq": i, **event} for i, event in enumerate(listed)]
    asked = [
        {**e, "graph": e["id"], "add": e["links"], "remove": []} if e["kind"] == "graph" else e
        for e in listed
    ]
    for event in asked:
        event.pop("links", None)
    expected, malformed = both.oracle.process(asked)
    found, rejected = [], []
    bounds = sorted({0, len(listed), *(c for c in cuts if c < len(listed))})
    for begin, end in zip(bounds, bounds[1:], strict=False):
        done = both.filter.process(listed[begin:end])
        for seq, message, names in zip(
            done.seqs.tolist(), done.message_ids, done.by_message(), strict=True
        ):
            found += [(seq, message, name) for name in names]
        rejected += [r.seq for r in done.rejected]
    assert sorted(found) == sorted(expected)
    assert sorted(rejected) == sorted(asked[position]["seq"] for position, _ in malformed)
    both.filter._check()


def test_nodes_that_are_named_stay(paper):
    topic, place = paper._categories.content
    paper.subscribe("p", "topic WITHIN ('Baseball', 'Weather')")
    paper.subscribe("q", "topic WITHIN 'Weather' AND place CONTAINS context.place", "ann")
    paper.update("ann", {"place": "MIT"})
    with pytest.raises(germane.InvalidValue, match="2 profiles and 0 contexts"):
        topic.remove_nodes(["Weather"])
    with pytest.raises(germane.InvalidValue, match="0 profiles and 1 contexts"):
        place.remove_nodes(["Tokyo", "MIT"])
    topic.remove_nodes(["Red Sox"])
    assert "Red Sox" not in topic
    with pytest.raises(germane.UnknownNode):
        paper.match({"topic": "Red Sox"})
    assert paper.match({"topic": "Baseball"}) == ["p"]
    paper.unsubscribe("p")
    paper.unsubscribe("q")
    topic.remove_nodes(["Weather"])
    topic.add_edges([("Sports", "Weather")])
    assert topic.ancestors("Weather") == ["Root", "Sports", "Weather"]
    assert topic.report().nodes == 4
    paper._check()


def test_changes_of_graphs_that_are_refused(paper):
    topic = paper._categories.graphs[0]
    before = sorted(topic.edges())
    for name, links, unlinks in (
        ("color", [("a", "b")], []),
        ("topic", [("a",)], []),
        ("topic", [("a", None)], []),
        ("topic", [("Sports", "Tennis")], [("Tennis", "Sports")]),
        ("topic", [("Sports", "Tennis")], [("nowhere", "Sports")]),
    ):
        with pytest.raises(germane.GermaneError):
            paper.change_graph(name, links, unlinks)
    assert sorted(topic.edges()) == before
    paper.change_graph("topic", [("Sports", "Tennis")], [("Root", "Weather")])
    assert topic.covers("Root", "Tennis")
    assert not topic.covers("Root", "Weather")


def test_lists_are_laid_anew_when_they_are_read():
    """After growth by the first batch, after moves by as many messages as that is worth."""
    graphs = {"place": ContentGraph.from_edges(TREE)}
    f = Filter(graphs=graphs, batching=germane.Batching(strategy="minib/pix"))
    oracle = NaiveFilter(graphs={"place": NaiveGraph(TREE)})
    for i in range(40):
        for one in (f, oracle):
            one.update(i, {"place": PLACES[i % 6]})
            one.subscribe(i, "place CONTAINS context.place", i)
    group = f._tables.postings.groups[0]
    builds = group.builds
    assert not group.settled
    few, many = [{"place": p} for p in PLACES], [{"place": PLACES[i % 6]} for i in range(BATCH)]
    expected = [oracle.match(message) for message in few]
    assert f.match_many(few).by_message() == expected
    assert (group.builds, group.settled) == (builds, False)
    assert f.match_many(many).by_message()[:6] == expected
    assert (group.builds, group.settled) == (builds + 1, True)
    f._check()
    for one in (f, oracle):
        one.update(1, {"place": "p5"})
    expected = [oracle.match(message) for message in few]
    assert not group.settled
    n = 0
    while not group.settled:
        assert f.match_many(many).by_message()[:6] == expected
        n += len(many)
        assert n < 10 * READS * (40 + STALE)
    assert n > READS * 40
    assert f.match_many(many).by_message()[:6] == expected
    f._check()


def test_lists_stay_bounded(paper):
    """Rows that come and go, and contexts that move, leave nothing behind for long."""
    for i in range(3000):
        paper.subscribe(i, "topic WITHIN 'Sports' AND place CONTAINS context.place", "ann")
        paper.update("ann", {"place": ("MIT", "Tokyo", None)[i % 3]})
        if i >= 10:
            paper.unsubscribe(i - 10)
    group = paper._tables.postings.groups[0]
    assert group.n_rows == 10
    assert sum(form.n_entries for form in group.forms) < 3 * 1024
    assert paper.match({"topic": "Sports", "place": "World"}) == []
    paper._check()


def test_sets_of_updates_in_columns():
    """Several nodes that a column brings a context are held beyond their table."""
    links = [("n0", "n1"), ("n0", "n2"), ("n2", "n3")]
    f = Filter(graphs={"topic": ContentGraph.from_edges(links)})
    oracle = NaiveFilter(graphs={"topic": NaiveGraph(links)})
    events = [
        ("update", "ann", ["n1", "n2"]), ("message", "m1", ["n3", "n0"]), ("message", "m2", ["n0"]),
        ("update", "ann", ["n0", "n3"]), ("update", "bob", ["n1", "n3"]), ("message", "m3", ["n1"]),
        ("message", "m4", ["n2", "n3"]), ("update", "ann", ["n2"]), ("message", "m5", ["n3"]),
    ]  # fmt: skip
    events = [
        {"seq": i, "kind": kind, "id": name, "topic": topic}
        for i, (kind, name, topic) in enumerate(events)
    ]
    for made in (f, oracle):
        for context in ("ann", "bob"):
            made.subscribe(f"{context} below", "topic WITHIN context.topic", context)
            made.subscribe(f"{context} above", "topic CONTAINS context.topic", context)
    for part in (events[:5], events[5:]):
        found = f.process(pa.Table.from_pylist(part)).to_arrow().to_pylist()
        expected, _ = oracle.process(part)
        assert sorted((r["seq"], r["message"], r["profile"]) for r in found) == sorted(expected)
    assert f.contexts().to_pylist()[0]["topic"] == ["n2"]
    f._check()


def test_a_move_to_where_another_parent_is():
    """What is over the new place need be neither over nor under what covers both places."""
    links = [("D", "x"), ("D", "K"), ("U", "x")]
    f = Filter(graphs={"place": ContentGraph.from_edges(links)})
    f.subscribe("p", "place CONTAINS context.place", "c")
    f.update("c", {"place": "K"})
    f.update("c", {"place": "x"})
    assert f.match({"place": "U"}) == ["p"]
    assert f.match_many([{"place": "U"}, {"place": "K"}]).by_message() == [["p"], []]
    f._check()


def test_a_forest_that_is_none_any_more():
    """What was posted wider while it was one is posted exactly again."""
    links = [("R", "H"), ("H", "a"), ("H", "b"), ("R", "Z")]
    f = Filter(graphs={"place": ContentGraph.from_edges(links)})
    f.subscribe("p", "place CONTAINS context.place", "c")
    f.update("c", {"place": "a"})
    f.update("c", {"place": "b"})
    f.change_graph("place", [("R", "X"), ("X", "b")])
    assert f.match({"place": "X"}) == ["p"]
    f._check()


def test_saved_right_after_a_graph_has_changed(tmp_path):
    f = Filter(graphs={"topic": ContentGraph.from_edges([("A", "B"), ("C", "D")])})
    f.subscribe("p", "context.topic WITHIN 'A' AND x > 0", "c")
    f.update("c", {"topic": "D"})
    assert f.match({"x": 1}) == []
    f.change_graph("topic", [("B", "D")])
    f.save(tmp_path / "f")
    assert Filter.load(tmp_path / "f").match({"x": 1}) == ["p"]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("filter_", FILTERS, ids=str)
def test_contexts_that_move_where_nodes_have_several_parents(filter_, seed):
    draw = np.random.default_rng(seed)
    names = [f"n{i}" for i in range(12)]
    n_parents = 1 if seed == 0 else 3  # a forest, and graphs that are none
    links = [
        (names[parent], names[child])
        for child in range(1, len(names))
        for parent in set(draw.integers(0, child, n_parents).tolist())
    ]
    f = Filter(graphs={"place": ContentGraph.from_edges(links)}, **filter_)
    oracle = NaiveFilter(graphs={"place": NaiveGraph(links)})
    for i in range(20):
        for one in (f, oracle):
            side = ("CONTAINS", "WITHIN")[i % 2]
            one.subscribe(i, f"place {side} context.place", f"c{i % 7}")
    for turn in range(300):
        if turn % 40 == 39:  # from a forest to none, and on
            child = int(draw.integers(1, len(names)))
            added = [(names[draw.integers(child)], names[child])]
            f.change_graph("place", added)
            oracle.change("place", added)
        context = f"c{draw.integers(7)}"
        several = draw.choice(names, draw.integers(2, 4), replace=False).tolist()
        value = None if draw.random() < 0.1 else several if draw.random() < 0.2 else several[0]
        message = {"place": draw.choice(names, draw.integers(1, 3), replace=False).tolist()}
        for one in (f, oracle):
            one.update(context, {"place": value})
        assert f.match(message) == oracle.match(message)
        if turn % 50 == 0:
            f._check()
