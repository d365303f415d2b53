"""Shares of a tenant, put together, are the whole: the same deliveries, letters and books."""

from __future__ import annotations

import random

import numpy as np
import pytest
import service_oracle
from service_kit import Kit, change, message, random_step

from germane.service import shares, tables
from germane.service.log import read_up_to
from germane.service.tenant import NOTHING, Share, Tenant

PEOPLE = ["ann", "bob", "cid"]
TREE = [["Sports", "Chess"], ["Science", "Chess"], ["Science", "Physics"]]


@pytest.fixture
def kit(tmp_path):
    made = Kit(tmp_path)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def forgotten():
    """No copies of other tests."""
    yield
    shares.COPIES.clear()
    for log in shares._LOGS.values():
        log.close()
    shares._LOGS.clear()


def long(*values):
    return pytest.param(*values, marks=pytest.mark.long)


def asked(kit, n, after, up_to):
    """What n shares answer to the entries after a seq, put together."""
    entries = read_up_to(kit.log, after, up_to, 1, 1 << 30)
    found: set[tuple[int, int]] = set()
    for k in range(n):
        answer = shares.play(kit.settings, Share(k, n), 1, after, entries, frozenset())
        assert answer.fault is None
        assert answer.last == entries[-1].last
        pairs = list(zip(*(np.frombuffer(b, np.int64).tolist() for b in answer[4:6]), strict=True))
        assert all(profile % n == k for _, profile in pairs)
        assert found.isdisjoint(pairs)
        found.update(pairs)
    return found


def whole(kit):
    """Matches of the whole, of each entry: (last seq, pairs), and the tenant after it."""
    tenant = Tenant(1, "agile", kit.matcher._texts)
    entries = kit.log.read(0, 1 << 30, 1)
    out = []
    for entry in entries:
        step = tenant.play([entry])
        pairs = {
            pair
            for m in step.matched
            for pair in zip(m.seqs.tolist(), m.profiles.tolist(), strict=True)
        }
        out.append((entry.last, pairs, step))
    return tenant, out


def random_life(kit, choose, steps):
    """Like `random_step`, with graphs that come, change, and are refused."""
    ids: list[str] = []
    for _ in range(steps):
        draw = choose.random()
        if draw < 0.04:
            edges = choose.choice([TREE, TREE[:2], [["Sports", "Chess"], ["All", "Sports"]]])
            names = choose.choice([[], ["interests"]])
            kit.append(1, "graph", {"attribute": "topic", "set": edges, "attributes": names})
        elif draw < 0.08:
            pair = choose.choice([*TREE, ["Science", "Maths"]])
            kind = choose.choice(["links", "unlinks"])
            kit.append(1, "graph", {"attribute": "topic", kind: [pair]})
        elif draw < 0.16:
            node = choose.choice(["Sports", "Science", "Chess", "Unheard"])
            where = choose.choice([f"topic WITHIN '{node}'", "topic WITHIN context.interests"])
            id_ = f"t{choose.randrange(6)}"
            ids.append(id_)
            kit.subscribe(id_, where, choose.choice(PEOPLE))
        elif draw < 0.24:
            node = choose.choice(["Chess", "Physics", "Maths"])
            kit.publish(message(topic=choose.choice([node, [node]])), change("ann", interests=node))
        else:
            kit.append(1, *random_step(choose, PEOPLE, ids))


@pytest.mark.parametrize("seed", [0, 3, 6, 7, *(long(seed) for seed in range(8, 40))])
def test_shares_are_the_whole(kit, seed):
    """Random lives, cut at random, with copies that are lost, behind, and ahead."""
    choose = random.Random(seed)
    random_life(kit, choose, 90)
    kit.work()  # bodies of subscriptions are in the store
    n = choose.randint(1, 4)
    tenant, expected = whole(kit)
    light = Tenant(1, "agile", kit.matcher._texts, NOTHING)
    n_pairs, at, i = 0, 0, 0
    while i < len(expected):
        j = min(i + choose.choice([1, 3, 20]), len(expected))
        end = expected[j - 1][0]
        if choose.random() < 0.2:
            asked(kit, n, at, expected[-1][0])  # an attempt that goes further, and is lost
        if choose.random() < 0.2:
            shares.COPIES.clear()
        pairs = set().union(*(found for _, found, _ in expected[i:j]))
        assert asked(kit, n, at, end) == pairs
        n_pairs += len(pairs)
        step = light.play(read_up_to(kit.log, at, end, 1, 1 << 30))
        assert not step.matched
        played = [s for _, _, s in expected[i:j]]
        letters = [d[:2] for s in played for d in s.dead]  # their words depend on where it is cut
        assert sorted(d[:2] for d in step.dead) == sorted(letters)
        taken = [(r.subscription, r.seq, r.reason is None) for r in step.registered]
        registered = [r for s in played for r in s.registered]
        assert taken == [(r.subscription, r.seq, r.reason is None) for r in registered]
        at, i = end, j
    assert n_pairs
    assert (
        light.filter._schema.state()["types"].keys()
        == tenant.filter._schema.state()["types"].keys()
    )
    assert light.filter.contexts().equals(tenant.filter.contexts())
    light.books.matches = tenant.books.matches
    assert light.books.to_json() == tenant.books.to_json()
    assert len(light.filter) == 0
    light.filter._check()


def test_the_lives_have_graphs(kit):
    """Among the random lives above, graphs are taken and refused, and topics are delivered."""
    random_life(kit, random.Random(1), 90)
    kit.work()
    assert kit.rows(tables.graphs)
    assert {row.kind for row in kit.rows(tables.deadletters)} >= {"event", "graph"}


def test_a_share_begins_with_a_snapshot_of_its_own_or_of_the_whole(kit):
    for i in range(9):
        kit.subscribe(f"s{i}", f"n > {i} AND room = context.room", PEOPLE[i % 3])
    kit.publish(*[change(who, room="A1") for who in PEOPLE])
    kit.work()
    kit.matcher.save_all()
    at = kit.matcher.tenants[1].seq
    kit.log.trim(at)  # the log alone is not enough
    seq = kit.publish(*[message(n=n, room="A1") for n in range(9)])
    pairs = asked(kit, 3, at, seq + 8)
    for k in range(3):
        copy = shares.COPIES[kit.settings.data, 1, Share(k, 3)]
        shares.snapshots.save(shares.folder_of(kit.settings, Share(k, 3)), copy.tenant)
        copy.tenant.filter._check()
    assert pairs
    shares.COPIES.clear()
    for path in kit.settings.snapshots.glob("1-*.germane"):
        path.unlink()
    last = kit.publish(message(n=8, room="A1"))
    again = {profile for _, profile in asked(kit, 3, seq + 8, last)}
    assert again == {profile for s, profile in pairs if s == seq + 8}


def test_a_newer_snapshot_of_the_whole_is_taken(kit):
    """The matchers took turns, and the log was trimmed up to the snapshot of the last one."""
    for i in range(6):
        kit.subscribe(f"s{i}", f"n > {i}")
    first = kit.publish(message(n=4))
    kit.work()
    assert len(asked(kit, 2, 0, first)) == 4
    for k in range(2):
        copy = shares.COPIES[kit.settings.data, 1, Share(k, 2)]
        shares.snapshots.save(shares.folder_of(kit.settings, Share(k, 2)), copy.tenant)
    shares.COPIES.clear()
    kit.subscribe("s7", "n > 7")
    kit.work()
    kit.matcher.save_all()
    at = kit.matcher.tenants[1].seq
    seq = kit.publish(message(n=9))
    kit.log.trim(seq)
    assert len(asked(kit, 2, at, seq)) == 7


def test_a_fault_is_told(kit, monkeypatch):
    kit.subscribe("a", "n > 1")
    seq = kit.publish(message(n=5))

    def breaks(self, entries):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(Tenant, "play", breaks)
    entries = kit.log.read(0, 100, 1)
    answer = shares.play(kit.settings, Share(0, 2), 1, 0, entries, frozenset())
    assert "oh" in answer.fault
    assert answer.last == seq
    assert not shares.COPIES


def test_deliveries_of_shares_are_the_oracle_s(kit):
    choose = random.Random(11)
    ids: list[str] = []
    for _ in range(80):
        kit.append(1, *random_step(choose, PEOPLE, ids))
    kit.work()
    expected = service_oracle.play(kit.log)[1]
    light = Tenant(1, "agile", kit.matcher._texts, NOTHING)
    end = kit.log.bounds()[1]
    light.play(kit.log.read(0, 1 << 30, 1))
    subscriptions = {r.number: (r.id, r.subscriber) for r in kit.rows(tables.subscriptions)}
    names = {r.number: r.name for r in kit.rows(tables.subscribers)}
    found: dict[tuple[int, str], list[str]] = {}
    for seq, profile in asked(kit, 3, 0, end):
        id_, subscriber = subscriptions[profile]
        found.setdefault((seq, names[subscriber]), []).append(id_)
    assert {key: sorted(ids) for key, ids in found.items()} == expected.deliveries
    assert expected.deliveries
