"""The simulated people are as said: tastes hold where they should, noise has its share."""

import numpy as np
import pytest

from benchmarks import interests, one_taste, oracle, tastes
from benchmarks.tastes import FACETS, Person, Reaction, World


@pytest.fixture(scope="module")
def world():
    return World(3)


@pytest.fixture(scope="module")
def people(world):
    return [Person.draw(world, number) for number in range(20)]


def test_messages_have_topics_of_the_graph_and_come_once(world):
    shown = [m["id"] for window in world.windows for m in window]
    held = [m["id"] for window in world.held_out for m in window]
    assert sorted(shown + held) == list(range(5_000))
    assert len(held) == 1_000
    assert all(set(m["topic"]) <= set(world.topics.names) for m in world.messages)


def test_interests_are_a_few_percent_of_the_messages(world, people):
    for interest in people[0].interests:
        share = np.mean([interest.topic in world.covering(m) for m in world.messages])
        assert 0.02 <= share <= 0.06


def test_relevance_is_reached_from_an_interest_that_holds(world, people):
    for person in people[:5]:
        for context in person.contexts(20, salt=7):
            holding = [
                i.topic
                for i in person.interests
                if all(
                    (world.places.covers(v, context[f]) if f == "place" else v == context[f])
                    for f, v in i.where
                )
            ]
            for message in world.messages[:60]:
                reached = any(world.topics.covers(t, u) for t in holding for u in message["topic"])
                assert person.relevant(message, context) == reached


def test_reactions_have_the_stated_noise(world, people):
    rng = np.random.default_rng(1)
    person, wrong, silent, n = people[0], 0, 0, 0
    for context in person.contexts(40, salt=8):
        for message in world.messages[:100]:
            reaction = person.react(message, context, rng)
            n += 1
            if reaction is None:
                silent += 1
            elif reaction.kind in ("dismissed", "less"):
                wrong += person.relevant(message, context)
            elif reaction.kind == "kept":
                wrong += not person.relevant(message, context)
    assert silent / n == pytest.approx(0.25, abs=0.03)
    assert 0.02 < wrong / n < tastes.WRONG


def test_habits_and_what_is_none(people):
    contexts = people[1].contexts(2_000, salt=9)
    strange = np.mean([tuple(c[f] for f in FACETS) not in people[1].habits for c in contexts])
    assert strange == pytest.approx(tastes.ELSEWHERE, abs=0.03)


def test_a_change_touches_three_interests_and_keeps_where_they_hold(people):
    for person in people:
        pairs = list(zip(person.interests, person.changed().interests, strict=True))
        assert sum(a.topic != b.topic for a, b in pairs) == tastes.N_CHANGED
        assert all(a.where == b.where for a, b in pairs)


def test_one_change_touches_the_strongest_interest(people):
    for person in people:
        assert person.changed() == person.changed(tastes.N_CHANGED)
        moved = [
            {at for at, pair in enumerate(zip(person.interests, after, strict=True))
             if pair[0] != pair[1]}
            for after in (person.changed(1).interests, person.changed().interests)
        ]  # fmt: skip
        assert len(moved[0]) == 1
        assert moved[0] < moved[1]


def test_everything_follows_from_the_seed(world, people):
    again = World(3, n_messages=200)
    assert again.messages == world.messages[:200]
    assert Person.draw(world, 4).interests == people[4].interests


class _Knows:
    """A learner that needs no feedback, for the measure's own sake."""

    def __init__(self, world, person):
        self.person, self.heard = person, 0

    def choose(self, context, messages, n):
        return self.rank(context, messages)[:n]

    def learn(self, context, message, reaction):
        assert isinstance(reaction, Reaction)
        self.heard += 1

    def rank(self, context, messages):
        likes = [self.person.relevant(m, context) for m in messages]
        return sorted(range(len(messages)), key=lambda at: not likes[at])


def test_the_measure_gives_full_marks_to_who_knows_until_tastes_change(people):
    before, after, shown = interests.live(people[2], _Knows)
    assert len(before) == len(interests.BEFORE)
    assert len(set(before)) == 1
    assert before[0] == interests.others(people[2])[interests.KNOWS]
    assert after[0] < before[0]
    assert shown[0] > 0.5 > shown[1], "what is shown is judged by the taste of then"


def test_who_knows_all_but_the_new_finds_it_out(people):
    """The posterior is Bayes', by hand for one piece; in the end it is sure of the right ones."""
    person, world = people[3], people[3].world
    taste = person.changed()
    knows, context = oracle.KnowsTheRest(person, taste), person.contexts(1, salt=1)[0]
    window = world.windows[0]
    prior = knows._relevant(context, window)
    unsure = [at for at in range(len(window)) if 0.0 < prior[at] < 1.0]
    at = max(unsure, key=lambda at: prior[at])
    knows.learn(context, window[at], Reaction("kept", 0.0))
    liked, not_liked = 0.9 * 0.30, 0.1 * 0.30  # kept: three in ten of what is liked
    odds = prior[at] / (1 - prior[at]) * liked / not_liked
    assert knows._relevant(context, window)[at] == pytest.approx(odds / (1 + odds))

    days = interests.Days(person)
    knows = oracle.KnowsTheRest(person, taste)
    days.spend(taste, knows, (0, 400))
    fresh = [i.topic for i in taste.interests if i not in person.interests]
    best = np.unravel_index(np.argmax(knows.chances), knows.chances.shape)
    assert sorted(knows.topics[i] for i in best) == sorted(fresh)  # two may hold alike
    assert knows.chances.sum() == pytest.approx(1.0)


def test_keywords_find_some_and_who_knows_finds_most(people):
    plain = [interests.others(person) for person in people]
    mean = {name: np.mean([p[name] for p in plain]) for name in plain[0]}
    ranked = [interests.NEWEST, interests.KEYWORDS, interests.TOPICS, interests.KNOWS]
    assert sorted(ranked, key=mean.get) == ranked


def test_one_taste_is_measured_in_three_ways(people):
    """Who knows the old tastes loses by the change; who knows all but the new comes back."""
    person, new = people[2], people[2].changed(1)
    gone = {i.topic for i in person.interests} - {i.topic for i in new.interests}
    held = one_taste.where_it_holds(person, 5)
    assert len(held) == 5
    assert all(gone <= person.active(context) for context in held)
    lost = {}
    for way in one_taste.MEASURED:
        stuck = one_taste.summed([one_taste.move(person, _Knows, way)])
        assert stuck["share before"] == pytest.approx(1.0)
        assert len(set(stuck["after"])) == 1
        lost[way] = 1.0 - stuck["after"][0] / stuck["before"]
        assert lost[way] > 0.05
        assert one_taste.recovery(stuck, interests.AFTER, 0.95) == np.inf
        back = one_taste.summed([one_taste.move(person, None, way)])
        assert one_taste.recovery(back, interests.AFTER, 0.95) < np.inf
        assert back["after"][-1] > stuck["after"][-1]
    assert lost[one_taste.STRONGEST] < lost[one_taste.WHERE]
    assert one_taste.everywhere(person, 5) == interests.Days(person).held[:5]


def test_any_taste_may_be_the_one_that_changes(people):
    """One interest gets another topic, and which one differs between people."""
    places = []
    for person in people:
        after = one_taste.any_one(person)
        pairs = list(enumerate(zip(person.interests, after.interests, strict=True)))
        [at] = [n for n, (old, new) in pairs if old.topic != new.topic]
        assert person.interests[at].where == after.interests[at].where
        assert after.interests[at].topic not in {i.topic for i in person.interests}
        places.append(at)
    assert len(set(places)) > 4
