"""Category predicates in the filter: every index, plan and policy against the oracle."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import NaiveError, NaiveFilter
from naive_graphs import NaiveGraph

import germane
from germane import ContentGraph, Filter, Fixed

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
    ),
    min_size=1,
    max_size=30,
)


class Both:
    """A filter and the oracle, side by side."""

    def __init__(self, about, edges, plan=None):
        self.topic, self.place = (
            ContentGraph.from_edges(edges, NODES),
            ContentGraph.from_edges(TREE),
        )
        graphs = {"topic": self.topic, "place": self.place, "interests": self.topic}
        self.filter = Filter(graphs=graphs, **about)
        self.filter._tables.postings.plan = plan
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

    def match(self, listed):
        expected = [self.oracle.match(message) for message in listed]
        assert [self.filter.match(message) for message in listed] == expected
        assert self.filter.match_many(listed).by_message() == expected

    def link(self, a, b):
        self.topic.add_edges([(a, b)])
        self.oracle.change("topic", add=[(a, b)])

    def unlink(self, a, b):
        if (a, b) in self.topic.edges():
            self.topic.remove_edges([(a, b)])
            self.oracle.change("topic", remove=[(a, b)])


@pytest.mark.parametrize("plan", [None, "under", "over"])
@pytest.mark.parametrize("about", FILTERS, ids=repr)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_sequences(about, plan, data):
    both = Both(about, data.draw(links), plan)
    for action in data.draw(actions):
        both.do(action)
    both.match([{"topic": name, "place": p} for name in NODES[:3] for p in PLACES])
    both.filter._check()
