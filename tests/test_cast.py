"""Aggregates, groups, routers and overlays against plain dicts and a scan of all contexts."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_cast import NaiveSpace

from germane.cast import (
    USERS,
    Addressed,
    Change,
    Choice,
    Delivery,
    Feedback,
    Groups,
    Location,
    Network,
    Number,
    Overlay,
    Router,
    Space,
    Taxonomy,
    Tuning,
    Updates,
    Where,
)
from germane.model import InvalidValue, TypeMismatch, UnknownAttribute, UnknownNode

CLASSES = {"person": None, "student": "person", "staff": "person", "freshman": "student",
           "senior": "student", "professor": "staff"}  # fmt: skip
PLACES = {"world": None}
WORDS = [f"w{i}" for i in range(40)]  # more than a column holds


def make_space():
    return Space(
        {
            "age": Number(0, 10),
            "location": Location(),
            "class": Taxonomy(CLASSES),
            "word": Choice(WORDS),
            "place": Taxonomy(PLACES),
            "height": Number(-1, 1),
        }
    )


SPACE = make_space()
NAIVE = NaiveSpace(
    {
        "age": ("number", 10),
        "location": ("location", 180, 360),
        "class": ("class", CLASSES),
        "word": ("choice",),
        "place": ("class", PLACES),
        "height": ("number", 2),
    }
)

# values from small grids, so that they meet
ages = st.integers(-2, 12).map(float)
heights = st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0])
latitudes = st.sampled_from([-90.0, -1.0, 0.0, 1.0, 90.0])
longitudes = st.sampled_from([-180.0, -179.0, -1.0, 0.0, 1.0, 179.0, 180.0])
points = st.tuples(latitudes, longitudes)
boxes = st.tuples(points, points).map(
    lambda p: (min(p[0][0], p[1][0]), p[0][1], max(p[0][0], p[1][0]), p[1][1])
)
plain_boxes = boxes.map(lambda b: (b[0], min(b[1], b[3]), b[2], max(b[1], b[3])))
classes = st.sampled_from(list(CLASSES))
words = st.sampled_from([*WORDS[:3], *WORDS[-2:]])
contexts = st.fixed_dictionaries(
    {},
    optional={
        "age": ages,
        "location": points | plain_boxes,
        "class": classes,
        "word": words,
        "place": st.just("world"),
        "height": heights,
    },
)
compare = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
either = st.sampled_from(["in", "not in"])
equals = st.sampled_from(["=", "<>"])


def is_small(value):
    return None if value is None else value < 5


wheres = st.lists(
    st.one_of(
        st.tuples(st.just("age"), compare, ages),
        st.tuples(st.just("height"), compare, heights),
        st.tuples(st.just("age"), either, st.lists(ages, max_size=3)),
        st.tuples(st.just("location"), st.just("box"), boxes),
        st.tuples(st.just("class"), st.just("within") | equals, classes),
        st.tuples(st.just("class"), either, st.lists(classes, max_size=3)),
        st.tuples(st.just("word"), equals, words | st.just("never heard of")),
        st.tuples(st.just("word"), either, st.lists(words, max_size=3)),
        st.tuples(st.sampled_from(list(SPACE.types)), st.just("is null"), st.none()),
        st.tuples(st.sampled_from(list(SPACE.types)), st.just("is not null"), st.none()),
        st.tuples(st.just("age"), st.just("test"), st.just(is_small)),
    ),
    max_size=3,
)
QUICK = settings(max_examples=150, deadline=None)


def address_of(filters):
    return SPACE.address([Where(*f) for f in filters])


def merged(some):
    """Both aggregates of some contexts."""
    ours, naive = SPACE.encode({}), {}
    for context in some:
        ours = SPACE.merge(ours, SPACE.encode(context))
        naive = NAIVE.merge(naive, NAIVE.encode(context))
    return ours, naive


def in_words(naive):
    """The oracle's aggregate as ``decode`` tells it."""
    said = {}
    for name, (kind, *held) in naive.items():
        if kind == "number":
            said[name] = held[0] if held[0] == held[1] else tuple(held)
        elif kind == "choice":
            said[name] = next(iter(held[0])) if len(held[0]) == 1 else held[0]
        elif kind == "class":
            said[name] = ("below", held[0]) if held[1] else held[0]
        else:
            (south, north), (west, east) = held
            is_point = south == north and west == east
            said[name] = (south, west) if is_point else (south, west, north, east)
    return said


# aggregates ------------------------------------------------------------------------------------


@given(st.lists(contexts, max_size=4), st.lists(contexts, max_size=4))
@QUICK
def test_merge_and_similarity(first, second):
    (a, naive_a), (b, naive_b) = merged(first), merged(second)
    both = SPACE.merge(a, b)
    assert SPACE.decode(both) == in_words(NAIVE.merge(naive_a, naive_b))
    assert SPACE.equal(both, SPACE.merge(b, a))
    assert SPACE.equal(both, SPACE.merge(both, a))
    assert SPACE.covers(both, a)
    assert SPACE.covers(both, b)
    assert SPACE.covers(a, b) == SPACE.equal(both, a)
    like = SPACE.similarity(a, b)
    assert like == pytest.approx(NAIVE.similarity(naive_a, naive_b), abs=1e-12)
    assert like == SPACE.similarity(b, a)
    assert 0 <= like <= 1
    assert SPACE.similarity(a, a) == 1


@given(st.lists(contexts, max_size=4), wheres)
@QUICK
def test_no_aggregate_says_no_where_a_member_says_yes(some, filters):
    address = address_of(filters)
    whole, naive = merged(some)
    may = SPACE.may_match(whole, address)
    assert may == NAIVE.may_match(naive, filters)
    for context in some:
        matches = SPACE.matches(SPACE.encode(context), address)
        assert matches == NAIVE.matches(context, filters)
        assert may or not matches


def test_every_operator_at_every_edge():
    """Numbers, classes and words, all pairs of values: what random draws seldom meet."""
    numbers = [0.0, 1.0, 2.0]
    asked = {
        "age": (numbers, ["=", "<>", "<", "<=", ">", ">="], [-1.0, *numbers, 3.0]),
        "class": (list(CLASSES), ["=", "<>", "within"], list(CLASSES)),
        "word": (WORDS[30:35], ["=", "<>"], [*WORDS[30:35], "never heard of"]),
    }
    for name, (values, operators, bounds) in asked.items():
        for a, b in product(values, values):
            whole, naive = merged([{name: a}, {name: b}])
            for operator, bound in product(operators, bounds):
                address = address_of([(name, operator, bound)])
                expected = NAIVE.may_match(naive, [(name, operator, bound)])
                assert SPACE.may_match(whole, address) == expected, (name, a, b, operator, bound)


def test_a_merged_class_means_all_below():
    """Without the flag, an inner node would look like a plain value, and this would be lost."""
    both = SPACE.merge(SPACE.encode({"class": "freshman"}), SPACE.encode({"class": "senior"}))
    assert SPACE.decode(both) == {"class": ("below", "student")}
    assert SPACE.may_match(both, SPACE.address([Where("class", "=", "senior")]))
    assert SPACE.may_match(both, SPACE.address([Where("class", "within", "freshman")]))
    assert not SPACE.may_match(both, SPACE.address([Where("class", "within", "staff")]))
    plain = SPACE.encode({"class": "student"})
    assert not SPACE.may_match(plain, SPACE.address([Where("class", "=", "senior")]))


def test_similarity_by_hand():
    space = Space({"age": Number(0, 100)})
    twenty, thirty = space.encode({"age": 20}), space.encode({"age": 30})
    assert space.similarity(twenty, thirty) == pytest.approx((0.9 + 0) / 2)
    both = space.merge(twenty, thirty)
    assert space.similarity(both, thirty) == pytest.approx((0.9 + 10 / 20) / 2)


# bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("context", "error"),
    [
        ({"age": math.nan}, InvalidValue),
        ({"age": math.inf}, InvalidValue),
        ({"age": "old"}, TypeMismatch),
        ({"age": True}, TypeMismatch),
        ({"size": 1}, UnknownAttribute),
        ({"class": "nobody"}, UnknownNode),
        ({"word": set()}, InvalidValue),
        ({"location": (math.nan, 0)}, InvalidValue),
        ({"location": (91, 0)}, InvalidValue),
        ({"location": (0, 181)}, InvalidValue),
        ({"location": (1, 0, 0, 1)}, InvalidValue),  # upside down
        ({"location": (0, 170, 1, -170)}, InvalidValue),  # a context does not cross 180 degrees
        ({"location": (0, 0, 1)}, InvalidValue),
        ({"location": 7}, TypeMismatch),
    ],
)
def test_bad_contexts(context, error):
    with pytest.raises(error):
        SPACE.encode(context)


@pytest.mark.parametrize(
    ("where", "error"),
    [
        (("age", "<", math.nan), InvalidValue),
        (("age", "box", (0, 0, 1, 1)), TypeMismatch),
        (("age", "like", "1%"), TypeMismatch),
        (("size", "=", 1), UnknownAttribute),
        (("class", "within", "nobody"), UnknownNode),
        (("location", "box", (1, 0, 0, 1)), InvalidValue),
        (("location", "box", (0, math.nan, 1, 1)), InvalidValue),
        (("location", "box", (0, 0)), InvalidValue),
    ],
)
def test_bad_addresses(where, error):
    with pytest.raises(error):
        SPACE.address([Where(*where)])


def test_boxes_across_the_antimeridian():
    fiji, samoa = SPACE.encode({"location": (-18, 178)}), SPACE.encode({"location": (-14, -172)})
    pacific = SPACE.address([Where("location", "box", (-20, 170, -10, -170))])
    assert SPACE.matches(fiji, pacific)
    assert SPACE.matches(samoa, pacific)
    assert not SPACE.matches(SPACE.encode({"location": (-15, 0)}), pacific)
    around = SPACE.merge(fiji, samoa)  # the long way round: coarse, but nobody is lost
    assert SPACE.decode(around)["location"] == (-18, -172, -14, 178)
    plane = Space({"location": Location((0, 0, 1, 1))})
    with pytest.raises(InvalidValue):
        plane.address([Where("location", "box", (0, 1, 1, 0))])


def test_bad_trees_and_domains():
    for parents in ({}, {"a": None, "b": None}, {"a": None, "b": "c", "c": "b"}):
        with pytest.raises(InvalidValue):
            Taxonomy(parents)
    with pytest.raises(UnknownNode):
        Taxonomy({"a": "b"})
    with pytest.raises(InvalidValue):
        Number(1, 0)
    with pytest.raises(InvalidValue):
        Choice(capacity=1).encode({1, 2})


# groups ----------------------------------------------------------------------------------------

thresholds = st.sampled_from([0.0, 0.3, 0.5, 0.6, 0.7, 1.0])


@given(
    thresholds,
    st.lists(st.lists(st.tuples(st.integers(0, 6), st.none() | contexts), max_size=4), max_size=15),
)
@QUICK
def test_groups(threshold, messages):
    """What a link has been told, and what it told of that, is always so."""
    groups = Groups(SPACE)
    groups.add_link(0.5)
    link = groups.add_link(threshold)
    held, told = {}, {}
    for message in messages:
        operations = []
        for who, context in message:
            operations.append(Change(who, None if context is None else SPACE.encode(context)))
            held.pop(who, None)
            if context is not None:
                held[who] = context
        for group, aggregate, is_new in groups.apply(link, operations):
            assert is_new == (group not in told)
            if aggregate is None:
                del told[group]
            else:
                assert is_new or not SPACE.equal(told[group], aggregate)
                told[group] = aggregate
        groups._check()
        assert {i: SPACE.decode(v) for i, v in groups.contexts(link)} == {
            who: in_words(NAIVE.encode(context)) for who, context in held.items()
        }
        now = dict(groups.groups(link))
        assert now.keys() == told.keys()
        assert all(SPACE.equal(now[group], told[group]) for group in now)


def lonely(*ages, threshold=0.4):
    """A link with people of these ages."""
    space = Space({"age": Number(0, 100)})
    groups = Groups(space)
    link = groups.add_link(threshold)
    for i, age in enumerate(ages):
        groups.apply(link, [Change(i, space.encode({"age": age}))])
    return space, groups, link


def ages_of(groups, link):
    return sorted((groups.space.decode(a)["age"] for _, a in groups.groups(link)), key=str)


def test_the_most_similar_group_is_joined():
    _, groups, link = lonely(10, 60, 15)
    assert ages_of(groups, link) == [(10, 15), 60]


def test_a_context_within_a_group_changes_nothing():
    space, groups, link = lonely(10, 20)
    assert groups.apply(link, [Change(2, space.encode({"age": 12}))]) == []
    assert groups.apply(link, [Change(2, space.encode({"age": 18}))]) == []
    assert groups.apply(link, [Change(2, None)]) == []


def test_a_defining_context_is_computed_not_remembered():
    """The first 20 is joined by another: it defines nothing any more."""
    space, groups, link = lonely(10, 20, 20)
    assert groups.apply(link, [Change(1, None)]) == []
    (change,) = groups.apply(link, [Change(2, None)])
    assert space.decode(change.aggregate) == {"age": 10}


def test_a_silent_change_leaves_the_aggregate_until_somebody_goes():
    space, groups, link = lonely(10, 15, 20)
    assert groups.apply(link, [Change(2, space.encode({"age": 16}))]) == []
    assert ages_of(groups, link) == [(10, 20)]
    groups._check()
    (change,) = groups.apply(link, [Change(1, None)])
    assert space.decode(change.aggregate) == {"age": (10, 16)}


def test_a_change_out_of_the_group():
    space, groups, link = lonely(10, 20)
    (change,) = groups.apply(link, [Change(1, space.encode({"age": 25}))])  # still similar
    assert space.decode(change.aggregate) == {"age": (10, 25)}
    changes = groups.apply(link, [Change(1, space.encode({"age": 90}))])
    assert sorted(space.decode(c.aggregate)["age"] for c in changes) == [10, 90]
    assert sorted(c.is_new for c in changes) == [False, True]


def test_who_is_alone_keeps_the_group():
    space, groups, link = lonely(10)
    (change,) = groups.apply(link, [Change(0, space.encode({"age": 90}))])
    assert change.group == next(groups.groups(link))[0]
    assert not change.is_new


def test_a_threshold_is_exceeded_not_reached():
    space = Space({"age": Number(0, 100)})
    like = space.similarity(space.encode({"age": 20}), space.encode({"age": 30}))
    assert ages_of(*lonely(20, 30, threshold=like)[1:]) == [20, 30]
    assert ages_of(*lonely(20, 30, threshold=like - 1e-6)[1:]) == [(20, 30)]


def test_masks_prefilter_exactly():
    """Far fewer shared attributes than the threshold asks for, however equal the values."""
    space = Space({name: Number(0, 1) for name in "abcd"})
    groups = Groups(space)
    link = groups.add_link(0.5)
    groups.apply(link, [Change(0, space.encode({"a": 0.5, "b": 0.5}))])
    groups.apply(link, [Change(1, space.encode(dict.fromkeys("abcd", 0.5)))])
    assert len(list(groups.groups(link))) == 2  # 2 of 4 are not more than half
    groups.apply(link, [Change(2, space.encode(dict.fromkeys("abc", 0.5)))])
    assert len(list(groups.groups(link))) == 2  # 3 of 4 are


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_the_search_finds_the_most_similar(data):
    """The block search, with its early ends, and a search of all groups by the oracle."""
    some = data.draw(st.lists(contexts, min_size=1, max_size=12))
    threshold = data.draw(thresholds)
    groups = Groups(SPACE)
    link = groups.add_link(2.0)  # nobody is joined
    for i, context in enumerate(some[1:]):
        groups.apply(link, [Change(i, SPACE.encode(context))])
    likes = [NAIVE.similarity(NAIVE.encode(some[0]), NAIVE.encode(c)) for c in some[1:]]
    groups.set_threshold(link, threshold)
    groups.apply(link, [Change(100, SPACE.encode(some[0]))])
    fellows = next(m for g, _ in groups.groups(link) if 100 in (m := dict(groups.members(g))))
    if max(likes, default=0) > threshold + 1e-9:
        (fellow,) = fellows.keys() - {100}
        assert likes[fellow] == pytest.approx(max(likes), abs=1e-9)
    elif max(likes, default=0) < threshold - 1e-9:
        assert len(fellows) == 1


# routers and overlays --------------------------------------------------------------------------

events = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 7), contexts, st.integers(0, 5)),
        st.tuples(st.just("put"), st.integers(0, 7), contexts, st.integers(0, 5)),
        st.tuples(st.just("drop"), st.integers(0, 7)),
        st.tuples(st.just("send"), st.integers(0, 5), wheres),
        st.tuples(st.just("rewire"), st.integers(1, 5), st.integers(0, 5)),
        st.tuples(st.just("vanish"), st.integers(1, 5)),
    ),
    max_size=25,
)


def reachable(overlay, name):
    return set(overlay._reach(name))


tunings = st.none() | st.builds(
    Tuning, st.sampled_from([0.1, 0.3, 1.0]), st.integers(1, 3), st.sampled_from([0.0, 0.1, 0.5])
)


@given(st.lists(st.integers(0, 4), min_size=5, max_size=5), thresholds, tunings, events)
@settings(max_examples=150, deadline=None)
def test_an_overlay_delivers_what_a_scan_delivers(parents, threshold, tuning, happens):
    """On any tree, whatever changes, links and routers included; the source too may be alone."""
    overlay = Overlay(SPACE, threshold, tuning)
    for name in range(6):
        overlay.add(name)
        if name:
            overlay.connect(name, parents[name - 1] % name)
    held, where = {}, {}
    for kind, *rest in happens:
        if kind == "put":
            who, context, at = rest
            overlay.update(who, context, at)
            held[who], where[who] = context, at
        elif kind == "drop" and rest[0] in held:
            overlay.update(rest[0], None)
            del held[rest[0]], where[rest[0]]
        elif kind == "rewire":
            child, parent = rest
            if parent in overlay.routers[child].links:
                overlay.disconnect(child, parent)
            elif parent not in reachable(overlay, child):
                overlay.connect(child, parent)
        elif kind == "vanish":
            overlay.remove(rest[0])
            gone = [who for who, at in where.items() if at == rest[0]]
            for who in gone:
                del held[who], where[who]
            overlay.add(rest[0])
        elif kind == "send":
            source, filters = rest
            near = reachable(overlay, source)
            meant = NAIVE.scan({w: c for w, c in held.items() if where[w] in near}, filters)
            got = overlay.send(source, [Where(*f) for f in filters])
            assert len(got) == len(set(got))
            assert set(got) == meant
        overlay._check()
    counters = overlay.counters
    assert counters.false_negatives == 0
    assert counters.m_fp >= 0
    assert counters.hops >= counters.m_fp


@given(st.lists(st.integers(0, 4), min_size=5, max_size=5), thresholds, tunings, events)
@settings(max_examples=80, deadline=None)
def test_a_network_delivers_what_a_scan_delivers(parents, threshold, tuning, happens):
    space = make_space()
    tree = [0] + [p % (i + 1) for i, p in enumerate(parents)]
    network = Network(space, tree, [i != 2 for i in range(6)], threshold, tuning)
    held = {}
    for kind, *rest in happens:
        if kind == "put":
            who, context, at = rest
            if at != 2:
                network.update(who, space.encode(context), at)
                held[who] = context
        elif kind == "drop" and rest[0] in held:
            network.update(rest[0], None)
            del held[rest[0]]
        elif kind == "send":
            source, filters = rest
            filters = [f for f in filters if f[1] != "test"]
            outcome = network.send(source, space.address([Where(*f) for f in filters]))
            assert set(outcome.users.tolist()) == NAIVE.scan(held, filters)
            assert outcome.missed == 0
            assert outcome.hops >= outcome.needed
        network._check()


def test_a_network_counts_as_an_overlay_does():
    """Random floats: no two groups are equally similar."""
    space = Space({"at": Location((0, 0, 1, 1)), "a": Number(), "b": Number()})
    draw = np.random.default_rng(5)
    n = 9
    parents = [0] + [int(draw.integers(i)) for i in range(1, n)]
    network, overlay = Network(space, parents, threshold=0.4), Overlay(space, 0.4)
    for i in range(n):
        overlay.add(i)
        if i:
            overlay.connect(i, parents[i])
    for _ in range(150):
        who, at, source = (int(draw.integers(k)) for k in (25, n, n))
        context = {"at": tuple(draw.random(2)), "a": draw.random()}
        if draw.random() < 0.5:
            context["b"] = draw.random()
        gone = who in network.router_of and draw.random() < 0.3
        network.update(who, None if gone else space.encode(context), None if gone else at)
        overlay.update(who, None if gone else context, None if gone else at)
        corner = draw.random(2) * 0.7
        address = space.address(
            [Where("at", "box", (*corner, *(corner + 0.3))), Where("a", "<", draw.random())]
        )
        outcome = network.send(source, address)
        assert outcome.users.tolist() == sorted(overlay.send(source, address))
    network._check()
    overlay._check()
    assert network.counters == overlay.counters
    assert 0 < network.counters.u_a < network.counters.u
    assert network.counters.m_fp > 0


# tuning ----------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 9), st.none() | contexts), min_size=3, max_size=25),
    st.lists(st.sampled_from([0.0, 0.3, 0.6, 0.9]), min_size=1, max_size=4),
    st.integers(0, 9),
)
@QUICK
def test_groups_that_join_and_dissolve(put, chosen, which):
    """Nobody is lost, aggregates cover, and others hear of it."""
    groups = Groups(SPACE)
    link = groups.add_link(0.7)
    told, held = {}, {}

    def hear(changes):
        for group, aggregate, _ in changes:
            told.pop(group, None)
            if aggregate is not None:
                told[group] = aggregate

    for who, context in put:
        value = None if context is None else SPACE.encode(context)
        held.pop(who, None)
        if context is not None:
            held[who] = context
        hear(groups.apply(link, [Change(who, value)]))
    for i, threshold in enumerate(chosen):
        if i % 2 == 0:
            groups.coarsen(link, threshold)
        elif held:
            groups.dissolve(link, sorted(dict(groups.groups(link)))[which % len(told)], threshold)
        hear(groups.changes())
        groups._check()
        assert groups.threshold(link) == (threshold if i % 2 == 0 or held else chosen[i - 1])
        now = dict(groups.groups(link))
        assert now.keys() == told.keys()
        assert all(SPACE.equal(now[group], told[group]) for group in now)
        assert {i for i, _ in groups.contexts(link)} == held.keys()


def test_similar_groups_join_at_a_lower_threshold():
    space, groups, link = lonely(10, 12, 60, 62, threshold=0.6)
    assert len(list(groups.groups(link))) == 4
    groups.coarsen(link, 0.45)
    assert ages_of(groups, link) == [(10, 12), (60, 62)]
    assert len(groups.changes()) == 4  # two are wider, two are gone
    (group,) = (g for g, a in groups.groups(link) if space.decode(a)["age"] == (60, 62))
    groups.dissolve(link, group, 0.6)
    assert ages_of(groups, link) == [(10, 12), 60, 62]
    assert sorted(change.is_new for change in groups.changes()) == [False, True]
    groups._check()


def test_updates_make_a_link_coarser():
    space = Space({"age": Number(0, 100)})
    router = Router(space, 0.9, Tuning(step=0.9, patience=3, distance=0))
    router.connect("north")
    for who, age in enumerate((10, 50, 30)):
        router.update(who, {"age": age})
    assert router.tuner.stats() == {"coarsened": 1, "repaired": 0, "turns": 0}
    assert [space.decode(a) for a in router.knows(USERS)] == [{"age": (10, 50)}]
    assert router.update("dan", {"age": 20}) == []  # nobody has to know


def test_a_group_that_leads_nowhere_is_repaired():
    """The access node notices itself; a router is told by the one behind."""
    space = Space({"age": Number(0, 100)})
    overlay = Overlay(space, 0.0, Tuning(step=0.9, patience=2, distance=0))
    for name in "abc":
        overlay.add(name)
    overlay.connect("a", "b")
    overlay.connect("b", "c")
    for who, age in enumerate((10, 90)):
        overlay.update(who, {"age": age}, at="c")
    for _ in range(20):
        assert overlay.send("a", [Where("age", "=", 50)]) == []
    assert overlay.stats()["repaired"] == 3  # at c by itself, then at b and a, which are told
    assert overlay.stats()["feedback"] > 0
    hops = overlay.counters.hops
    assert overlay.send("a", [Where("age", "=", 50)]) == []
    assert overlay.counters.hops == hops  # nobody is asked any more
    assert overlay.send("a", [Where("age", "=", 90)]) == [1]
    overlay._check()
    with pytest.raises(InvalidValue):
        overlay.routers["b"].receive("z", Feedback(space.address([]), 1))


def test_feedback_repairs_the_router_before():
    space = Space({"age": Number(0, 100)})
    router = Router(space, 0.0, Tuning(step=0.9, patience=2, distance=0))
    router.connect("north")
    router.connect("south")
    people = [Change(i, space.encode({"age": age})) for i, age in enumerate((10, 90))]
    router.receive("south", Updates(tuple(people)))
    asked = space.address([Where("age", "=", 50)])
    assert router.receive("north", Addressed(asked)) == [("south", Addressed(asked, None, 1))]
    assert router.receive("south", Feedback(asked, 1)) == []
    (told,) = router.receive("south", Feedback(asked, 1))
    assert told[0] == "north"
    assert router.receive("north", Addressed(asked, None, 1)) == [("north", Feedback(asked, 1))]
    router._check()


def test_thresholds_sink_with_distance():
    space = Space({"age": Number(0, 100)})
    router = Router(space, 0.6, Tuning(patience=100, distance=0.1))
    router.connect("north")
    near = Updates((Change(0, space.encode({"age": 10})), Change(1, space.encode({"age": 12}))))
    router.receive("north", near)
    assert len(router.knows("north")) == 2
    router.connect("south")
    (told,) = router.receive("north", Updates((Change(2, space.encode({"age": 14})),), 3))
    assert len(router.knows("north")) == 2  # 0.3 is exceeded
    assert told[1].hops == 4


@pytest.mark.parametrize("wrong", [{"step": 0}, {"patience": 0}, {"distance": -1}, {"step": 2}])
def test_bad_tunings(wrong):
    with pytest.raises(InvalidValue):
        Tuning(**wrong)


def test_without_similar_contexts_every_update_floods():
    space = Space({"age": Number(0, 100)})
    overlay = Overlay(space, 2.0)
    for i in range(5):
        overlay.add(i)
        if i:
            overlay.connect(i, i // 2)
    for i in range(20):
        overlay.update(i % 7, {"age": i}, i % 5)
    counters = overlay.counters
    assert counters.u == counters.u_a == counters.operations
    overlay.send(0, [Where("age", "<", 18)])
    assert counters.m_fp == 0


def test_a_router_is_a_state_machine():
    space = Space({"age": Number(0, 100)})
    router = Router(space, 0.4)
    assert router.connect("north") == router.connect("south") == []
    told = router.receive("north", Updates((Change(7, space.encode({"age": 30}), True),)))
    assert [link for link, _ in told] == ["south"]
    told = router.update("ann", {"age": 30})
    assert [link for link, _ in told] == ["north", "south"]
    assert router.update("ann", {"age": 30}) == []
    message = Addressed(space.address([Where("age", "=", 30)]), "hello")
    assert router.receive("south", message) == [
        (USERS, Delivery(("ann",), "hello")),
        ("north", message._replace(alone=1)),
    ]
    assert router.receive("north", message) == [(USERS, Delivery(("ann",), "hello"))]
    assert router.send(space.address([Where("age", ">", 30)])) == []
    (told,) = router.connect("west")
    assert told[0] == "west"
    assert len(told[1].changes) == 2
    assert {link for link, _ in router.disconnect("north")} == {"south", "west"}
    assert router.receive("west", message) == [(USERS, Delivery(("ann",), "hello"))]
    assert {link for link, _ in router.update("ann", None)} == {"south", "west"}
    assert router.update("ann", None) == []
    router._check()


def test_bad_links():
    router = Router(SPACE)
    router.connect("a")
    for wrong in (
        lambda: router.connect("a"),
        lambda: router.connect(USERS),
        lambda: router.disconnect("b"),
        lambda: router.disconnect(USERS),
        lambda: router.receive("b", Updates(())),
        lambda: router.receive("b", Addressed(SPACE.address([]))),
        lambda: router.receive("a", Delivery(())),
        lambda: Router(SPACE, math.nan),
    ):
        with pytest.raises(InvalidValue):
            wrong()
    overlay = Overlay(SPACE)
    overlay.add("a")
    overlay.add("b")
    overlay.connect("a", "b")
    with pytest.raises(InvalidValue):
        overlay.connect("b", "a")
    with pytest.raises(InvalidValue):
        overlay.send("c", [])
    with pytest.raises(InvalidValue):
        Network(SPACE, [0, 5])


def test_contexts_without_attributes():
    overlay = Overlay(SPACE, 0.5)
    for name in "ab":
        overlay.add(name)
    overlay.connect("a", "b")
    overlay.update("nobody", {}, at="b")
    overlay.update("ann", {"age": 3}, at="b")
    assert set(overlay.send("a", [])) == {"nobody", "ann"}
    assert overlay.send("a", [Where("age", "is null")]) == ["nobody"]
    assert overlay.send("a", [Where("age", "is not null")]) == ["ann"]
    overlay._check()


# the simulation --------------------------------------------------------------------------------


def test_every_statement_of_the_paper_has_a_check():
    pytest.importorskip("rich")
    from benchmarks.contextcast.claims import CHECKS
    from benchmarks.contextcast.experiments import HERE
    from benchmarks.contextcast.page import load_paper
    from benchmarks.reproduction import read_toml

    assert set(load_paper()["claims"]) == set(CHECKS)
    assert set(read_toml(HERE / "differences.toml")["claims"]) <= set(CHECKS)


@pytest.mark.slow
def test_a_tiny_simulation(tmp_path):
    pytest.importorskip("rich")
    pytest.importorskip("matplotlib")
    from benchmarks.contextcast import page, run
    from benchmarks.contextcast.experiments import load_parameters
    from benchmarks.reproduction import read_lines

    parameters = load_parameters() | {"seeds": 1}
    run(0.03, tmp_path, 1, None, parameters=parameters, parallel=False)
    lines = read_lines(tmp_path, "runs")
    assert len(lines) == 9
    assert len(read_lines(tmp_path, "beyond")) == 12
    for line in lines:
        assert sum(line["windows"]["false_negatives"]) == 0
        assert sum(line["windows"]["u_a"]) <= sum(line["windows"]["u"])
    for scenario in parameters["scenarios"]:  # all thresholds see the same events
        same = [line["windows"] for line in lines if line["scenario"] == scenario]
        assert len({(tuple(w["u"]), tuple(w["delivered"])) for w in same}) == 1
    before = (tmp_path / "index.md").read_text(encoding="utf-8")
    page(tmp_path, parameters=parameters)
    assert (tmp_path / "index.md").read_text(encoding="utf-8") == before
