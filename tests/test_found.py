"""Cases that random tests once found, kept."""

import random

import pyarrow as pa
import pytest

import germane

POOL = [-2, -1, 0, 1, 2, 3, 4, 5, 6, 0.5, 1e300, 1e308, -1e308]
POOL += [float("inf"), float("-inf"), None]


@pytest.mark.parametrize("structure", ["blocks", "skiplist"])
def test_guards_at_the_edge_of_numbers(structure, monkeypatch):
    """A guard admitted values beyond its grid, and took a K that ends at -inf for unbounded."""
    monkeypatch.setattr("germane.filter.table.SETTLE_ROWS", 6)
    condition = "n BETWEEN context.n - 1 AND context.n * 2 + 1 AND m < 3"
    for seed in range(3):
        pick = random.Random(seed)
        f = germane.Filter(policy="always", structure=structure)
        f.subscribe_many(range(40), [condition] * 40, [i % 7 for i in range(40)])
        for _ in range(150):
            f.update(pick.randrange(7), {"n": pick.choice(POOL)})
            if pick.random() < 0.5:
                f.match({"n": pick.choice(POOL), "m": 1})
            f._check()


def test_distance_to_nowhere_is_null():
    """The distance to a missing location was half the earth's circumference."""
    f = germane.Filter(schema={"here": "location"})
    f.subscribe("p", "DISTANCE(here, context.here) > 5", context="c")
    assert f.match({"here": (48.1, 11.5)}) == []
    f.update("c", {"here": (48.2, 11.5)})
    assert f.match({"here": (48.1, 11.5)}) == ["p"]


@pytest.mark.parametrize("ids", [list("abcdefgh"), list(range(8))])
def test_matches_outlive_their_profiles(ids):
    """Ids are looked up late; a row that was given up and used again showed another's id."""
    f = germane.Filter()
    f.subscribe_many(ids, ["x > 0"] * 8)
    matches = f.match_many([{"x": 1}, {"x": 0}])
    for one in ids[:6]:
        f.unsubscribe(one)
    f.subscribe("new", "x > 0")
    assert matches.by_message() == [ids, []]
    assert f.match({"x": 1}) == [*ids[6:], "new"]


def test_a_string_becomes_known_between_two_messages():
    """Keys of an Arrow column were kept although a subscription had made its string a member."""
    events = pa.table(
        {
            "seq": [1, 2, 3],
            "kind": ["message", "subscribe", "message"],
            "id": ["m1", "p", "m2"],
            "s": ["a", None, "a"],
            "condition": [None, "s = 'a'", None],
        }
    )
    found = germane.Filter().process(events)
    assert found.to_arrow().select(["seq", "profile"]).to_pylist() == [{"seq": 3, "profile": "p"}]


@pytest.mark.parametrize("structure", ["blocks", "skiplist"])
def test_rows_that_wait_for_a_text(structure, monkeypatch):
    """Where nearly all rows were candidates, those found overwrote those that wait for a text."""
    monkeypatch.setattr("germane.filter.table.SETTLE_ROWS", 6)
    f = germane.Filter(structure=structure)
    texts = ["n > 0 AND (m > 0 OR s LIKE 'a%b%')", "n > 0 AND m > -1"]
    f.subscribe_many(range(40), [texts[i % 2] for i in range(40)])
    for _ in range(3):
        assert f.match({"n": 1, "m": 0, "s": "axb"}) == list(range(40))
        assert f.match({"n": 1, "m": 0, "s": "c"}) == list(range(1, 40, 2))
        assert f.match_many([{"n": 1, "m": 0, "s": "axb"}] * 3).by_message()[2] == list(range(40))


@pytest.mark.parametrize("structure", ["blocks", "skiplist"])
@pytest.mark.parametrize("index", ["agile", "partial", "gbu"])
def test_merged_tables(index, structure, monkeypatch, tmp_path):
    """More sets of attributes than there may be tables: those that have a pair in common merge."""
    monkeypatch.setattr("germane.filter.assignment.MAX_TABLES", 4)
    monkeypatch.setattr("germane.filter.table.SETTLE_ROWS", 6)
    pick = random.Random(5)
    f, plain = germane.Filter(index=index, structure=structure), germane.Filter(index="scan")
    for number in range(300):
        names = ["a", "b", *pick.sample("cdefgh", 2)] if number % 7 else pick.sample("cdefgh", 2)
        tests = [f"{name} = {pick.randrange(3)}" for name in names]
        tests[0] = f"{names[0]} BETWEEN context.x AND context.x + 1"
        for one in (f, plain):
            one.subscribe(number, " AND ".join(tests), context=number % 50)
        if number % 3 == 0:
            for one in (f, plain):
                one.update(number % 50, {"x": number % 4})
        if number % 40 == 39:
            messages = [{n: pick.randrange(3) for n in "abcdefgh"} for _ in range(12)]
            expected = [plain.match(message) for message in messages]
            assert [f.match(message) for message in messages] == expected
            assert f.match_many(messages).by_message() == expected
            f._check()
            f.save(tmp_path / "filter")
            f = germane.Filter.load(tmp_path / "filter")
    assert len(f.stats()["tables"]) <= 4 + len("abcdefgh")  # at worst one more an attribute


def test_room_between_matches_is_not_read(monkeypatch):
    """Between two messages' matches lie elements that nobody wrote; they were taken for rows."""
    monkeypatch.setattr("germane.filter.table.SETTLE_ROWS", 6)
    taken = germane.batch.probing.Slabs.take

    def take(self, n):
        room = taken(self, n)
        room[:] = 2**31 - 1
        return room

    monkeypatch.setattr("germane.batch.probing.Slabs.take", take)
    f = germane.Filter(batching=germane.Batching(strategy="minib/pix"))
    f.subscribe_many(range(60), [f"x < {i} AND y > 0 OR x = {i}" for i in range(60)])
    f.unsubscribe(3)
    messages = [{"x": x, "y": 1} for x in range(50)]
    assert f.match_many(messages).by_message() == [f.match(message) for message in messages]


def test_each_profile_once():
    """As many rows as profiles, by chance: one has two, one has none; the first came twice."""
    f = germane.Filter()
    f.subscribe_many(["two", "none"], ["x > 0 OR y > 0", "x > 0 AND FALSE"])
    assert f.match({"x": 1, "y": 1}) == ["two"]
    assert f.match_many([{"x": 1, "y": 1}] * 3).by_message() == [["two"]] * 3
    f.unsubscribe("two")
    f._check()


@pytest.mark.parametrize("room", [16, 32, 33, 64, 65, 97, 128, 129, 1000])
def test_room_for_hits_grows(monkeypatch, room):
    """Whatever room there is at first; where it was full to the last place, no end was found."""
    more_hits, n_calls = germane.batch.probing.Scratch.more_hits, 0

    def bounded(self, n):
        nonlocal n_calls
        n_calls += 1
        assert n_calls < 1000, "room is asked for again and again, and does not suffice"
        more_hits(self, n)

    monkeypatch.setattr("germane.batch.probing.Scratch.more_hits", bounded)
    monkeypatch.setattr("germane.batch.probing.HIT_ROOM", room)
    monkeypatch.setattr("germane.batch.probing.UNION_ROOM", room)
    f = germane.Filter()
    ids = range(2000)
    conditions = [f"x >= {i % 50} AND x < {i % 50 + 30} AND y <> 7" for i in ids]
    f.subscribe_many(ids, conditions)
    messages = [{"x": x / 2, "y": x % 9} for x in range(160)]
    expected = [f.match(message) for message in messages]
    for size in (2, 16, 32):
        f.batching = germane.Batching("minib/pix", grouping=germane.FixedSize(size))
        assert f.match_many(messages).by_message() == expected


@pytest.mark.parametrize("saved", [False, True])
def test_posted_rows_of_new_contexts_wake_up(saved, tmp_path):
    """A context that came after its slot was watched had open guards: it was never looked at."""
    f = germane.Filter()
    f.subscribe("first", "price < 0 AND context.limit > 3", "somebody")
    if saved:
        f.save(tmp_path / "f")
        f = germane.Filter.load(tmp_path / "f")
    ids = list(range(200))
    condition = "document MATCHES 'b' COST < 1 AND context.limit > 0"
    for i in ids:
        f.subscribe(i, condition, i)
        f.update(i, {"limit": 1})
    assert f.match({"document": "<b/>"}) == ids
    f._check()
