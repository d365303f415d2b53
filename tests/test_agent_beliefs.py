"""Beliefs are Bayes' rule: exact for one piece, and step by step as written down."""

import random
from itertools import product

import numpy as np
import pytest

import germane
from germane.agent import Agent, beliefs, causes

TOPICS = [("Top", "Music"), ("Music", "Jazz"), ("Music", "Opera"), ("Top", "News"), ("News", "Tax")]
LUNCH = {"task": "lunch"}


@pytest.fixture
def ann():
    return Agent("ann", germane.ContentGraph.from_edges(TOPICS))


def teach(agent, topic, kind, n):
    for i in range(n):
        agent.feedback({"id": f"{topic}{kind}{i}", "topic": [topic]}, kind, context=LUNCH)


@pytest.mark.parametrize(("liked", "times"), [(1.0, 1.0), (0.0, 1.0), (0.3, 1.0), (0.0, 2.0)])
def test_one_piece_is_bayes_over_all_that_may_be_true(liked, times):
    held = np.array([0.4, 0.01, 0.9])
    weights = np.zeros(3)
    total = 0.0
    for true in product((0, 1), repeat=3):
        prior = np.prod(np.where(true, held, 1 - held))
        no = (1 - causes.CHANCE) * (1 - beliefs.FIRES) ** sum(true)
        total += prior * (liked * (1 - no) + (1 - liked) * no)
        weights += np.array(true) * prior * (liked * (1 - no) + (1 - liked) * no)
    found = beliefs._updated(held, liked, times)
    if times == 1.0:
        assert found == pytest.approx(weights / total)
    else:  # two pieces count more than one
        assert (found < weights / total).all()


@pytest.mark.parametrize("seed", range(4))
def test_the_pass_is_the_definition_rule_by_rule(seed):
    draw = random.Random(seed)
    rows = [np.array(sorted(draw.sample(range(12), draw.randint(1, 5)))) for _ in range(30)]
    liked = np.array([draw.choice([0.0, 0.4, 1.0]) for _ in rows])
    held: dict[int, float] = {}
    last: dict[int, int] = {}

    def drift(value, gap, ends):
        if value >= beliefs.PRIOR:
            return value + ends * (beliefs.PRIOR - value)
        return value + max(1 - np.exp(-beliefs.BEGINS * gap), ends) * (beliefs.PRIOR - value)

    for i, row in enumerate(rows):
        now = [
            drift(held.get(r, beliefs.PRIOR), i - last.get(r, i), beliefs.ENDS)
            for r in row.tolist()
        ]
        after = beliefs._updated(np.array(now), liked[i], 1.0)
        held |= dict(zip(row.tolist(), after.tolist(), strict=True))
        last |= dict.fromkeys(row.tolist(), i)
    found = beliefs.believe(rows, liked, np.ones(30), 12)
    for rule, value in zip(found.keys.tolist(), found.held.tolist(), strict=True):
        assert value == pytest.approx(drift(held[rule], 29 - last[rule], 0.0))
    assert set(found.keys.tolist()) == set(held)


def test_what_was_never_met_has_the_prior_in_every_cell():
    found = beliefs.believe([np.array([1, 5])], np.array([1.0]), np.ones(1), 4)  # cells 0 and 1
    total = found.gathered([0, 1, None], lambda held: held)
    assert total[[0, 2, 3]] == pytest.approx(3 * beliefs.PRIOR)
    assert total[1] == pytest.approx(0.002 + 2 * 0.015947, abs=1e-5), "by hand"
    nothing = beliefs.believe([], np.empty(0), np.empty(0), 4)
    assert nothing.gathered([None], lambda held: held) == pytest.approx(beliefs.PRIOR)


def test_a_like_counts_although_the_topic_was_dismissed_long_ago(ann):
    messages = [{"topic": ["Tax"]}, {"topic": ["Jazz"]}]
    teach(ann, "Jazz", "dismissed", 8)
    assert ann.rank(messages, context=LUNCH) == [0, 1], "what was never met is before that"
    teach(ann, "Tax", "dismissed", 8)
    teach(ann, "Jazz", "kept", 2)
    assert ann.rank(messages, context=LUNCH) == [1, 0]


def test_the_rank_is_a_function_of_the_pieces(ann):
    teach(ann, "Jazz", "kept", 3)
    before = ann.interests.believed(LUNCH)
    ann.feedback({"id": 1, "topic": ["Opera"]}, "kept", context=LUNCH)
    assert (ann.interests.believed(LUNCH) != before).any()
    ann.undo()
    assert (ann.interests.believed(LUNCH) == before).all()
    ann.erase()
    assert len(set(ann.interests.believed(LUNCH).tolist())) <= 2, (
        "nothing but the prior, or nothing"
    )


def test_what_ended_is_no_longer_believed_while_what_rests_is(ann):
    teach(ann, "Jazz", "kept", 10)
    teach(ann, "Tax", "kept", 10)
    jazz, tax = (ann.interests.topics.number[topic] for topic in ("Jazz", "Tax"))
    before = ann.interests.believed(LUNCH)
    teach(ann, "Jazz", "dismissed", 4)
    after = ann.interests.believed(LUNCH)
    assert after[jazz] < 0.2 * before[jazz]
    assert after[tax] == pytest.approx(before[tax], rel=0.1)
