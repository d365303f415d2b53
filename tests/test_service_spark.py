"""The matcher on Spark writes what the other one writes: against it, and against the oracle.

Most of this drives it by hand, without Spark: micro-batches are cut by the source's own offsets,
shards are asked in this process, and the driver takes what they say.
"""

from __future__ import annotations

import random

import pytest
import sqlalchemy as sa
from service_kit import Kit, change, message, nats_server, random_step
from test_service_matcher import PEOPLE, Killed, check
from test_service_rules import FOLLOWED, followed

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from germane.service import shares, tables
from germane.service import source as sources
from germane.service.log_sqlite import SqliteLog
from germane.service.on_spark import SparkMatcher, answers_of
from germane.service.source import ENTRIES, EVENTS, LogReader
from germane.service.tenant import Tenant


class ByHand(SparkMatcher):
    """The driver, and a stream without Spark."""

    share_of_batch = 20_000

    def start(self) -> None:
        self._look()
        options = {"path": self.settings.data, "log": self.settings.log, "copies": str(self.shards)}
        self.reader = LogReader(options, ENTRIES)
        self.offset = {"0": self.seen} | {str(n): t.seq for n, t in self.tenants.items()}
        self.poison = {n: sorted(t.poison) for n, t in self.tenants.items()}
        self._renew = False

    def round(self) -> bool:
        self._look()
        if self._renew:
            self.start()
        end = self.reader.latestOffset(self.offset, ReadMaxRows(self.share_of_batch))
        answers = []
        for part in self.reader.partitions(self.offset, end):
            rows = [row for batch in self.reader.read(part) for row in batch.to_pylist()]
            answers += answers_of(rows, self.settings, self.shards, self.poison)
        if answers:
            self.take(answers)
        self.offset = end
        return bool(answers)


class SparkKit(Kit):
    """A kit with the matcher on Spark."""

    shards = 3

    def new_matcher(self):
        from dataclasses import replace

        self.settings = replace(self.settings, matcher="spark", shards=self.shards)
        shares.COPIES.clear()  # workers end with the driver
        self.matcher = ByHand(self.settings, self.log, self.engine, self.clock)
        self.matcher.open()
        self.matcher.start()
        return self.matcher


@pytest.fixture
def kit(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "LEAST_SHARE", 1)
    made = SparkKit(tmp_path, tenants=2)
    yield made
    made.close()
    shares.COPIES.clear()
    for log in shares._LOGS.values():
        log.close()
    shares._LOGS.clear()


def live(kit, choose, steps, killed):
    ids = {1: [], 2: []}
    for _ in range(steps):
        tenant = choose.choice([1, 1, 2])
        kit.append(tenant, *random_step(choose, PEOPLE, ids[tenant]))
        if choose.random() < 0.4:
            kit.matcher.share_of_batch = choose.choice([1, 30, 4000])
            kit.matcher.round()
        if choose.random() < 0.1:
            lost = choose.choice([*shares.COPIES, None])
            shares.COPIES.pop(lost, None)
        if choose.random() < 0.05:
            kit.matcher.save_all()
        if choose.random() < killed:
            kit.new_matcher()


def long(*values):
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.mark.parametrize("seed", [1, 2, *(long(seed) for seed in range(3, 20))])
def test_lives(kit, seed):
    kit.shards = seed % 4 + 1
    kit.new_matcher()
    live(kit, random.Random(seed), 100, killed=0.05)
    kit.work()
    check(kit)
    assert kit.pairs(1)


@pytest.mark.parametrize("seed", [0, 1, *(long(seed) for seed in range(2, 20))])
def test_killed_anywhere(kit, seed, monkeypatch):
    """The driver dies at random points of a micro-batch; what it began is done once."""
    import germane.service.matcher as matching

    choose = random.Random(seed)
    armed, deaths = [False], 0

    def dies(real):
        def call(*arguments):
            if armed[0] and choose.random() < 0.3:
                raise Killed
            found = real(*arguments)
            if armed[0] and choose.random() < 0.3:
                raise Killed
            return found

        return call

    for name in ("write_step", "deliver"):
        monkeypatch.setattr(matching, name, dies(getattr(matching, name)))
    ids = {1: [], 2: []}
    for _ in range(60):
        tenant = choose.choice([1, 1, 2])
        kit.append(tenant, *random_step(choose, PEOPLE, ids[tenant]))
        if choose.random() < 0.5:
            armed[0] = choose.random() < 0.6
            try:
                kit.matcher.round()
            except Killed:
                deaths += 1
                armed[0] = False
                if choose.random() < 0.5:
                    kit.new_matcher()
                else:
                    kit.matcher.start()  # the stream failed, the process did not
    armed[0] = False
    kit.work()
    assert deaths
    check(kit)


def test_on_nats(tmp_path):
    """The log is a broker's: the source, the driver and the shards read it there."""
    from dataclasses import replace

    from germane.service.log_nats import NatsLog

    process, url = nats_server(tmp_path)
    try:
        made = SparkKit(tmp_path, tenants=2, log=NatsLog(url))
        made.settings = replace(made.settings, log=url)
        made.new_matcher()
        live(made, random.Random(5), 40, killed=0.1)
        made.work()
        check(made)
        assert made.pairs(1)
        made.close()
        for log in shares._LOGS.values():
            log.close()
        shares._LOGS.clear()
    finally:
        shares.COPIES.clear()
        process.kill()
        process.wait()


def full_life(choose, ids):
    """Something to append, of every kind."""
    draw, who = choose.random(), choose.choice(PEOPLE)
    if draw < 0.05:
        wishes = choose.choice(
            [{"digest": {"count": 3}}, {"digest": {"seconds": 60}}, {}, {"quiet": QUIET},
             {"rate": {"limit": 2, "seconds": 60}}]
        )  # fmt: skip
        return "settings", {"subscriber": who, "preferences": wishes}
    if draw < 0.1 and ids:
        until = choose.choice([None, "2026-11-18T11:30:00Z"])
        muted = choose.random() < 0.3
        return "settings", {"subscription": choose.choice(ids), "muted": muted,
                            "snoozed_until": until}  # fmt: skip
    if draw < 0.15:
        body = {"attribute": "topic", "set": choose.choice(TREES), "attributes": ["interests"]}
        return "graph", body
    if draw < 0.2:
        kind = choose.choice(["links", "unlinks"])
        return "graph", {"attribute": "topic", kind: [choose.choice(TREES[0])]}
    if draw < 0.3:
        id_ = f"t{choose.randrange(5)}"
        ids.append(id_)
        condition = choose.choice(["topic WITHIN 'Sports'", "topic WITHIN context.interests",
                                   "document MATCHES 'book[title]' COST < 2"])  # fmt: skip
        sink = choose.choice([None, "https://example.org/a", "https://example.org/b"])
        return "subscribe", {"id": id_, "subscriber": who, "context": who, "condition": condition,
                             "sink": sink, "urgent": choose.random() < 0.2}  # fmt: skip
    if draw < 0.35:
        id_ = f"f{choose.randrange(3)}"
        ids.append(id_)
        filters = choose.choice([[{"sql": "EXISTS room AND n > 2"}], [{"prefix": {"source": "/"}}]])
        return "subscribe", {"id": id_, "subscriber": who, "context": who, "filters": filters}
    if draw < 0.45:
        extra = choose.choice([{}, {"urgent": True}, {"expirytime": "2026-11-18T11:07:00Z"},
                               {"address": "unread < 3"}, {"address": "unread <"}])  # fmt: skip
        data = choose.choice([{"topic": "Chess"}, {"topic": ["Chess", "Physics"]},
                              {"document": "<book><title>x</title></book>"},
                              {"document": "<book>"}])  # fmt: skip
        return "events", [message(**data) | extra, change(who, interests="Sports")]
    if draw < 0.5 and ids:
        book = message(document="<book><title>x</title></book>")
        body = {"delivery": choose.randrange(1, 9), "relevant": choose.random() < 0.5,
                "matched": [[choose.choice(ids), book]]}  # fmt: skip
        return "feedback", body
    return random_step(choose, PEOPLE, ids)


QUIET = {"from": "10:00", "to": "11:30", "zone": "UTC"}
TREES = [
    [["Sports", "Chess"], ["Science", "Chess"], ["Science", "Physics"]],
    [["Sports", "Chess"], ["All", "Physics"]],
]
COMPARED = (
    tables.deliveries, tables.held, tables.outbox, tables.subscriptions, tables.subscribers,
    tables.sinks, tables.graphs, tables.feedback, tables.positions,
)  # fmt: skip


def whole_of(kit, table):
    """All rows of a table; reasons without their words, which depend on how a log is cut."""
    columns = [c if c.name != "reason" else c.is_(None) for c in table.columns]
    with kit.engine.connect() as connection:
        return sorted(map(repr, connection.execute(sa.select(*columns))))


@pytest.mark.parametrize("seed", [0, 3, 4, *(long(seed) for seed in range(5, 30))])
def test_every_table_is_that_of_the_other_matcher(kit, seed, tmp_path):
    """The same sequence, cut the same way: wishes, digests, webhooks, graphs, feedback, letters."""
    choose = random.Random(seed)
    (tmp_path / "other").mkdir()
    other = Kit(tmp_path / "other", log=SqliteLog(tmp_path / "log.db", kit.clock), tenants=2)
    other.clock = kit.clock
    other.new_matcher()
    ids: list[str] = []
    for _ in range(100):
        kit.append(1, *full_life(choose, ids))
        if choose.random() < 0.5:
            kit.work()
            other.work()
            kit.clock.turn(choose.choice([0, 1, 40, 4000]))
        if choose.random() < 0.05:
            kit.new_matcher()
    kit.work()
    other.work()
    for table in (*COMPARED, tables.deadletters):
        assert whole_of(kit, table) == whole_of(other, table), table.name
    books = [k.matcher.tenants[1].books for k in (kit, other)]
    books[0].matches = books[1].matches  # counted since the driver's snapshot
    assert books[0].to_json() == books[1].to_json()
    other.close()


def test_those_lives_are_full(kit):
    """The random lives above reach what they are about."""
    choose, ids = random.Random(1), []
    for _ in range(200):
        kit.append(1, *full_life(choose, ids))
        kit.matcher.round()
        kit.clock.turn(1)
    kit.work()
    for table in (*COMPARED, tables.deadletters):
        assert kit.rows(table), table.name
    assert any(row.why == "digest" for row in kit.rows(tables.deliveries))


def test_a_poisonous_event_is_a_dead_letter(kit, monkeypatch):
    """What breaks a shard's filter, or the driver's, is found by the whole one, and passed over."""
    real = Tenant._healthy

    def breaks(self, first, events):
        for seq, part in real(self, first, events):
            for event in part:
                if event.get("data", {}).get("n") == 666 and self.share.number >= 0:
                    raise ZeroDivisionError("it is evil")
            yield seq, part

    monkeypatch.setattr(Tenant, "_healthy", breaks)
    kit.subscribe("a", "n > 1")
    first = kit.publish(message(n=5), message(n=666), message(n=6))
    kit.work()
    last = kit.publish(message(n=7))
    kit.work()
    kit.new_matcher()
    again = kit.publish(message(n=8))
    kit.work()
    assert sorted(kit.pairs()) == [(s, "ann") for s in (first, first + 2, last, again)]
    [letter] = kit.rows(tables.deadletters)
    assert (letter.seq, letter.kind) == (first + 1, "poison")


@pytest.mark.parametrize(("before", "after", "rows"), FOLLOWED)
def test_what_follows_a_message_in_its_batch_does_not_reach_it(kit, before, after, rows):
    assert followed(kit, before, after) == rows


def test_a_tenant_that_comes_later(kit):
    """It has nothing before it came: no stream has to be started again for it."""
    from germane.service import tokens

    kit.subscribe("a", "n > 1")
    kit.work()
    kit.new_matcher()
    with tables.writing(kit.engine) as connection:
        tokens.make_tenant(connection, "late", kit.clock)
    kit.subscribe("a", "n > 2", tenant=3)
    seq = kit.publish(message(n=3), tenant=3)
    kit.work()
    assert kit.pairs(3) == {(seq, "ann"): ["a"]}
    assert kit.pairs(1) == {}


def test_matchers_take_turns(kit, tmp_path):
    """An installation may change its matcher at any time."""
    from germane.service.matcher import Matcher

    choose = random.Random(4)
    for turn in range(6):
        live(kit, choose, 25, killed=0.0)
        kit.matcher.save_all()
        if turn % 2:
            kit.new_matcher()
        else:
            kit.matcher = Matcher(kit.settings, kit.log, kit.engine, kit.clock)
            kit.matcher.open()
    kit.work()
    check(kit)


# questions ---------------------------------------------------------------------------------------


def test_questions_are_answered_as_by_the_other(kit, tmp_path):
    from germane.service.questions import reply

    (tmp_path / "other").mkdir()
    other = Kit(tmp_path / "other", log=SqliteLog(tmp_path / "log.db", kit.clock), tenants=2)
    kit.subscribe("a", "n > 1 AND room = context.room")
    kit.subscribe("b", "n * n > context.limit", "bob")
    kit.publish(change("ann", room="A1"), message(n=5, room="A1"))
    for each in (kit, other):
        each.work()
    for question in (
        {"ask": "context", "id": "ann"}, {"ask": "context", "id": "bob"},
        {"ask": "context", "id": "nobody"}, {"ask": "ready"},
        {"ask": "check", "condition": ["n < 'three'", "germane"], "context": "ann"},
        {"ask": "check", "condition": ["n < 3", "germane"], "context": "ann"},
    ):  # fmt: skip
        asked = question | {"tenant": 1}
        assert reply(kit.matcher, asked) == reply(other.matcher, asked)
    mine, theirs = (
        reply(each.matcher, {"ask": "costs", "tenant": 1, "limit": 9})["answer"]
        for each in (kit, other)
    )
    for name in ("number", "matches", "conjunctions", "indexed", "residual"):
        assert [each[name] for each in mine] == [each[name] for each in theirs]
    stats = reply(kit.matcher, {"ask": "stats", "tenant": 1})["answer"]
    assert (stats["profiles"], stats["contexts"], stats["matches"]) == (2, 2, 1)
    assert (stats["shards"], stats["conjunctions"]) == (3, 2)
    assert len(kit.matcher.tenants[1].filter) == 0
    other.close()


# the source, without Spark -----------------------------------------------------------------------


def rows_of(reader, start, end):
    return [
        row
        for part in reader.partitions(start, end)
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]


def test_events_are_rows(kit):
    kit.subscribe("a", "n > 1")
    seq = kit.publish(message("m1", n=5), change("ann", room="A1"), change("bob", True, room="B"))
    kit.append(1, "unsubscribe", {"id": "a"})
    reader = LogReader({"path": kit.settings.data}, EVENTS)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    rows = rows_of(reader, start, end)
    assert [(row["seq"], row["kind"], row["id"]) for row in rows] == [
        (1, "subscribe", "a"), (seq, "message", "m1"), (seq + 1, "patch", "ann"),
        (seq + 2, "put", "bob"), (seq + 3, "unsubscribe", "a"),
    ]  # fmt: skip
    assert rows_of(reader, end, reader.latestOffset(end, ReadAllAvailable())) == []


def test_offsets_are_fair_and_lose_nothing(kit):
    """However a log is cut, each event is a row once; a flood of one tenant delays no other."""
    choose = random.Random(2)
    expected = []
    for _ in range(40):
        tenant, n = choose.choice([1, 1, 1, 2]), choose.randint(1, 9)
        seq = kit.publish(*[message(n=n)] * n, tenant=tenant)
        expected += [(s, tenant) for s in range(seq, seq + n)]
    reader = LogReader({"path": kit.settings.data}, EVENTS)
    at, found = reader.initialOffset(), []
    first = reader.latestOffset(at, ReadMaxRows(20))
    assert first.keys() >= {"1", "2"}
    while (end := reader.latestOffset(at, ReadMaxRows(choose.choice([1, 5, 30])))) != at:
        found += [(row["seq"], row["tenant"]) for row in rows_of(reader, at, end)]
        if choose.random() < 0.2:
            reader = LogReader({"path": kit.settings.data}, EVENTS)  # started again
        if choose.random() < 0.3:
            seq = kit.publish(message(n=1), tenant=2)
            expected.append((seq, 2))
        at = end
    assert sorted(found) == sorted(expected)
    one = LogReader({"path": kit.settings.data, "tenant": "2", "startingAfter": "10"}, EVENTS)
    start = one.initialOffset()
    rows = rows_of(one, start, one.latestOffset(start, ReadAllAvailable()))
    assert {row["seq"] for row in rows} == {s for s, t in expected if t == 2 and s > 10}


def test_what_a_source_needs_is_said():
    from germane.model import InvalidValue

    with pytest.raises(InvalidValue, match="where is the log"):
        LogReader({}, EVENTS)
    with pytest.raises(InvalidValue, match="startingAfter"):
        LogReader({"path": "x", "startingAfter": "now"}, EVENTS)


def test_spark_and_retention_do_not_go_together(tmp_path):
    from germane.model import InvalidValue
    from germane.service.settings import Settings

    with pytest.raises(InvalidValue, match="retention"):
        Settings(matcher="spark", retention_days=3)
    with pytest.raises(InvalidValue, match="embedded or spark"):
        Settings(matcher="flink")


def test_what_is_there_now_is_all_there_is(kit):
    kit.publish(message(n=1))
    reader = LogReader({"path": kit.settings.data}, EVENTS)
    reader.prepareForTriggerAvailableNow()
    kit.publish(message(n=2))
    at = reader.initialOffset()
    end = reader.latestOffset(at, ReadMaxRows(100))
    assert len(rows_of(reader, at, end)) == 1
    assert reader.latestOffset(end, ReadMaxRows(100)) == end
