"""The matcher against the oracle on the logged sequence: random lives, deaths at any point."""

import random
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import service_oracle
from service_kit import CONDITIONS, Kit, change, message, nats_server, postgres_server, random_step

from germane.model import GermaneError
from germane.service import matcher as matching
from germane.service import tables
from germane.service.clock import SECOND
from germane.service.gauges import SAMPLE, Tally
from germane.service.log import Entry
from germane.service.reader import Reader

pytestmark = pytest.mark.xdist_group("service")
PEOPLE = ["ann", "bob", "eve"]


class Killed(BaseException):
    """As by kill -9: nothing is caught, nothing is cleaned up."""


@pytest.fixture
def kit(tmp_path):
    made = Kit(tmp_path, tenants=2)
    yield made
    made.close()


def check(kit, tenants=(1, 2)):
    """What the tables have is what the oracle says of the log."""
    played = service_oracle.play(kit.log)
    for number in tenants:
        expected = played.get(number, service_oracle.Tenant())
        assert kit.pairs(number) == expected.deliveries
        assert {row.seq for row in kit.rows(tables.deadletters, number)} == expected.dead
        refused = {r.id for r in kit.rows(tables.subscriptions, number) if r.state == "refused"}
        ended = {r.id for r in kit.rows(tables.subscriptions, number) if r.state == "active"}
        assert refused - ended >= expected.refused
        assert ended == expected.subscriptions.keys()


def live(kit, choose, steps, killed=0.0):
    ids = {1: [], 2: []}
    for _ in range(steps):
        tenant = choose.choice([1, 1, 2])
        kit.append(tenant, *random_step(choose, PEOPLE, ids[tenant]))
        if choose.random() < 0.4:
            kit.matcher.settings = matching_settings(kit, choose)
            kit.matcher.round()
        if choose.random() < 0.05:
            kit.matcher.save_all()
        if choose.random() < killed:
            kit.new_matcher()
    kit.work()


def matching_settings(kit, choose):
    from dataclasses import replace

    return replace(kit.settings, round_events=choose.choice([1, 30, 4000]))


@pytest.mark.parametrize("seed", range(6))
def test_lives(kit, seed):
    live(kit, random.Random(seed), 120, killed=0.05)
    check(kit)


def test_something_is_delivered(kit):
    """The random lives above are not empty: most kinds of outcome happen in them."""
    live(kit, random.Random(0), 120)
    assert len(kit.pairs(1)) > 30
    assert kit.rows(tables.deadletters, 1)
    assert any(len(ids) > 1 for ids in kit.pairs(1).values())


@pytest.mark.parametrize("seed", range(8))
def test_killed_anywhere(kit, seed, monkeypatch):
    """The matcher dies at random points of a round, and goes on where it was."""
    choose = random.Random(seed)
    real = {name: getattr(matching, name) for name in ("write_step", "deliver")}
    armed = [False]

    def dies(name):
        def call(*arguments):
            if armed[0] and choose.random() < 0.3:
                raise Killed
            found = real[name](*arguments)
            if armed[0] and choose.random() < 0.3:
                raise Killed
            return found

        return call

    for name in real:
        monkeypatch.setattr(matching, name, dies(name))
    ids = {1: [], 2: []}
    deaths = 0
    for _ in range(60):
        tenant = choose.choice([1, 1, 2])
        kit.append(tenant, *random_step(choose, PEOPLE, ids[tenant]))
        if choose.random() < 0.5:
            armed[0] = choose.random() < 0.6
            try:
                kit.matcher.round()
                if choose.random() < 0.2:
                    kit.matcher.save_all()
            except Killed:
                deaths += 1
                armed[0] = False
                kit.new_matcher()
    armed[0] = False
    kit.work()
    assert deaths
    check(kit)


def test_damaged_snapshots_are_passed_over(kit):
    choose = random.Random(5)
    live(kit, choose, 60)
    kit.matcher.save_all()
    for path in kit.settings.snapshots.glob("1-*.germane"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    kit.new_matcher()
    live(kit, choose, 30)
    check(kit)


def test_one_delivery_a_person_and_message(kit):
    for id_, condition in (("a", "n > 1"), ("b", "n > 2"), ("c", "n > 100")):
        kit.subscribe(id_, condition)
    kit.subscribe("d", "n > 2", "bob")
    seq = kit.publish(message(n=5))
    kit.work()
    assert kit.pairs() == {(seq, "ann"): ["a", "b"], (seq, "bob"): ["d"]}


def test_a_poisonous_event_is_a_dead_letter(kit, monkeypatch):
    """An event that breaks the filter itself is found, kept apart, and passed over ever after."""
    kit.subscribe("a", "n > 1")
    kit.work()
    from germane import Filter

    process = Filter.process

    def breaks(self, events):
        ids = (
            events["id"].to_pylist()
            if hasattr(events, "column_names")
            else [e["id"] for e in events]
        )
        if "poison" in ids:
            raise RuntimeError("a fault of the engine")
        return process(self, events)

    monkeypatch.setattr(Filter, "process", breaks)
    first = kit.publish(message("m1", n=5), message("poison", n=5), message("m2", n=5))
    kit.work()
    assert kit.pairs() == {(first, "ann"): ["a"], (first + 2, "ann"): ["a"]}
    [letter] = kit.rows(tables.deadletters)
    assert letter.seq == first + 1
    assert "a fault of the engine" in letter.reason
    seqs = [first + 1]
    for _ in range(3):  # one after the other, and with another tenant's events between them
        seqs.append(kit.publish(message("poison", n=5)))
        kit.publish(message("elsewhere", n=5), tenant=2)
        kit.work()
    seqs.append(kit.publish(message("poison", n=5)))
    kit.publish(message("elsewhere", n=5), tenant=2)
    seqs.append(kit.publish(message("poison", n=5)))
    kit.work()
    assert [each.seq for each in kit.rows(tables.deadletters)] == seqs
    kit.new_matcher()  # plays the log again, without them
    last = kit.publish(message("m3", n=5))
    kit.work()
    assert (last, "ann") in kit.pairs()


def test_a_batch_that_only_breaks_together(kit, monkeypatch):
    """Events of which each is well by itself are played one by one, also after a start."""
    kit.subscribe("a", "n > context.limit")
    kit.work()
    from germane import Filter

    process = Filter.process

    def breaks(self, events):
        if len(events) > 1:
            raise RuntimeError("a fault of the engine")
        return process(self, events)

    monkeypatch.setattr(Filter, "process", breaks)
    first = kit.publish(change("ann", limit=1), message(n=5), message(n=0), message(n=6))
    kit.subscribe("b", "n > 1", "bob")
    last = kit.publish(message(n=7), message(n=8))
    kit.work()
    expected = {(seq, "ann"): ["a"] for seq in (first + 1, first + 3, last, last + 1)}
    expected |= {(seq, "bob"): ["b"] for seq in (last, last + 1)}
    assert kit.pairs() == expected
    kit.new_matcher()
    after = kit.publish(message(n=1), message(n=9))
    kit.work()
    assert kit.pairs() == expected | {
        (after + 1, who): [id_] for who, id_ in (("ann", "a"), ("bob", "b"))
    }
    assert not kit.rows(tables.deadletters)


def test_tenants_do_not_share_types_ids_or_contexts(kit):
    kit.subscribe("same", "n < context.limit", tenant=1)
    kit.subscribe("same", "n = 'text'", tenant=2)
    kit.publish(change("ann", limit=5), tenant=1)
    kit.publish(change("ann", limit="none"), tenant=2)
    one = kit.publish(message(n=3), tenant=1)
    two = kit.publish(message(n="text"), tenant=2)
    kit.work()
    assert kit.pairs(1) == {(one, "ann"): ["same"]}
    assert kit.pairs(2) == {(two, "ann"): ["same"]}
    assert not kit.rows(tables.deadletters, 1)
    assert not kit.rows(tables.deadletters, 2)


def test_a_flood_of_one_tenant_does_not_delay_another(kit):
    """With a long queue before it in the log, a message is delivered in the first round."""
    kit.subscribe("a", "n > 1", tenant=2)
    kit.work()
    flood = [message(str(i), n=i) for i in range(500)]
    for _ in range(20):
        kit.publish(*flood, tenant=1)
    seq = kit.publish(message(n=5), tenant=2)
    kit.matcher.round()
    assert (seq, "ann") in kit.pairs(2)
    assert kit.matcher.tenants[1].seq < seq - 1


def test_graphs_come_and_change_in_the_sequence(kit):
    edges = [["Sports", "Ball"], ["Ball", "Baseball"]]
    kit.publish(change("ann", limit=3))
    kit.subscribe("before", "n < context.limit")
    kit.append(1, "graph", {"attribute": "topic", "set": edges})
    kit.subscribe("a", "topic WITHIN 'Ball'")
    first = kit.publish(message(topic="Baseball", n=1), message(topic=["Sports"], n=9))
    kit.append(1, "graph", {"attribute": "topic", "links": [["Ball", "Cricket"]], "unlinks": []})
    second = kit.publish(message(topic="Cricket", n=9), message(topic="Chess", n=9))
    kit.work()
    expected = {(first, "ann"): ["a", "before"], (second, "ann"): ["a"]}
    assert kit.pairs() == expected
    [letter] = kit.rows(tables.deadletters)
    assert letter.seq == second + 1
    assert "Chess" in letter.reason
    for saved in (False, True):  # a start replays graphs, too
        if saved:
            kit.matcher.save_all()
        kit.new_matcher()
        seq = kit.publish(message(topic="Cricket", n=9))
        kit.work()
        expected[seq, "ann"] = ["a"]
        assert kit.pairs() == expected


def test_a_name_that_a_graph_is_not_given_again_has_none(kit):
    """The filter and the books agree; while a subscription reads it, the graph stays as it was."""
    edges = [["Sports", "Ball"]]
    kit.append(1, "graph", {"attribute": "topic", "attributes": ["likes"], "set": edges})
    kit.subscribe("a", "likes WITHIN 'Sports'")
    refused = kit.append(1, "graph", {"attribute": "topic", "attributes": None, "set": edges})
    seq = kit.publish(message(likes=["Ball"]))
    kit.append(1, "graph", {"attribute": "place", "attributes": None, "set": [["World", "Here"]]})
    kit.work()
    assert kit.pairs() == {(seq, "ann"): ["a"]}
    [letter] = kit.rows(tables.deadletters)
    assert letter.seq == refused
    assert "likes" in letter.reason
    kit.append(1, "unsubscribe", {"id": "a"})
    kit.append(1, "graph", {"attribute": "topic", "attributes": None, "set": edges})
    kit.work()
    assert [row.attribute for row in kit.rows(tables.graphs)] == ["place", "topic"]
    tenant = kit.matcher.tenants[1]
    assert tenant.books.graphs.keys() == {"place", "topic"}
    with pytest.raises(GermaneError):
        tenant.filter.graph("likes")


def test_names_are_read_while_others_forget_them(kit):
    """What a reader keeps is shared by threads: one may clear it while another looks up names."""
    kit.subscribe("a", "n > 1")
    kit.subscribe("b", "n > 1", "bob")
    kit.work()
    reader, s = Reader(kit.log, kit.engine), tables.subscribers
    looked_up = reader.engine.connect
    assert reader.names(s, "name", 1, {0}) == {0: "ann"}

    class Cleared:
        def connect(self):
            reader._names.clear()
            return looked_up()

    reader.engine = Cleared()
    assert reader.names(s, "name", 1, {0, 1}) == {0: "ann", 1: "bob"}


def test_put_replaces_and_null_removes(kit):
    kit.subscribe("a", "context.room IS NULL AND n < context.limit")
    seqs = [
        kit.publish(change("ann", room="A", limit=5), message(n=1)) + 1,
        kit.publish(change("ann", room=None), message(n=1)) + 1,
        kit.publish(change("ann", room="A"), message(n=1)) + 1,
        kit.publish(change("ann", replaces=True, limit=2), message(n=1)) + 1,
    ]
    kit.work()
    assert sorted(kit.pairs()) == [(seqs[1], "ann"), (seqs[3], "ann")]


def test_what_a_store_never_takes_is_a_dead_letter(kit, monkeypatch):
    """What is beside it in the round is written, once, and no later start meets it again."""
    import sqlalchemy as sa

    real = matching.write_step

    def refuses(connection, tenant, counters, step, rows, now):
        real(connection, tenant, counters, step, rows, now)
        expires = {at for matched in step.matched for at in matched.expires.values()}
        if "strange" in "".join(step.wishes.values()) or 17 in expires:
            raise sa.exc.DataError("INSERT", {}, Exception("it has a NUL"))

    monkeypatch.setattr(matching, "write_step", refuses)
    monkeypatch.setattr("germane.service.holding.preferences", lambda values: _some_wishes())
    for tenant in (1, 2):
        kit.subscribe("a", "n > 1", tenant=tenant)
    first = kit.publish(message(n=5), message(n=0), message(n=6))
    bad = kit.append(1, "settings", {"subscriber": "eve", "preferences": {"strange": True}})
    last = kit.publish(message(n=7))
    late = {**message(n=8), "expirytime": "1970-01-01T00:00:00.000017Z"}
    two = kit.publish(message(n=9), late, message(n=9), tenant=2)
    kit.work()
    for _ in range(2):
        assert kit.pairs(1).keys() == {(seq, "ann") for seq in (first, first + 2, last)}
        assert kit.pairs(2).keys() == {(two, "ann"), (two + 2, "ann")}
        [letter] = kit.rows(tables.deadletters, 1)
        assert (letter.seq, letter.reason) == (bad, "the store: it has a NUL")
        [letter] = kit.rows(tables.deadletters, 2)
        assert letter.seq == two + 1
        kit.new_matcher()
        kit.work()
    last = kit.publish(message(n=7))
    kit.work()
    assert (last, "ann") in kit.pairs(1)


def _some_wishes():
    from germane.service import holding

    return holding.Preferences(rate_limit=1000)


def test_postgresql_takes_no_nul(tmp_path):
    """Of what is in a log already: a settings entry, a graph, and what comes after them."""
    folder = Path(tempfile.mkdtemp(prefix="germane-server-"))  # others may come here, too
    process, url = postgres_server(folder)
    kit = Kit(tmp_path, store=url)
    try:
        kit.subscribe("a", "n > 1")
        first = kit.publish(message(n=5))
        kit.prefer("a\0b", digest={"seconds": 60})
        graph = {"attribute": "g\0", "attributes": None, "set": [["a", "b"]]}
        kit.append(1, "graph", graph)
        last = kit.publish(message(n=6))
        kit.work()
        assert kit.pairs().keys() == {(first, "ann"), (last, "ann")}
        assert [row.seq for row in kit.rows(tables.deadletters)] == [first + 1, first + 2]
    finally:
        kit.close()
        process.terminate()
        process.wait(120)
        shutil.rmtree(folder)


def test_store_that_refuses_is_tried_again(kit, monkeypatch):
    """Rows that could not be written are written later, once, with the same ids."""
    import sqlalchemy as sa

    kit.subscribe("a", "n > 1")
    seq = kit.publish(message(n=5))
    real, calls = matching.write_step, []

    def refuses(*arguments):
        calls.append(1)
        real(*arguments)
        if len(calls) < 3:
            raise sa.exc.OperationalError("INSERT", {}, Exception("disk full"))

    monkeypatch.setattr(matching, "write_step", refuses)
    monkeypatch.setattr(matching.time, "sleep", lambda s: None)
    kit.work()
    assert kit.pairs() == {(seq, "ann"): ["a"]}
    assert len(calls) == 3


def test_conditions_of_lives_are_some_good_some_bad(kit):
    for number, condition in enumerate(CONDITIONS):
        kit.subscribe(f"s{number}", condition)
    kit.work()
    states = [row.state for row in kit.rows(tables.subscriptions)]
    assert states.count("refused") == 2
    assert states.count("active") == len(CONDITIONS) - 2


@pytest.mark.parametrize("where", ["postgres", "nats"])
def test_lives_on_servers(where, tmp_path):
    """The same on a real PostgreSQL, and with the log in a real JetStream."""
    from germane.service.log_nats import NatsLog

    folder = Path(tempfile.mkdtemp(prefix="germane-server-"))  # others may come here, too
    if where == "nats":
        process, url = nats_server(folder)
        kit = Kit(tmp_path, log=NatsLog(url), tenants=2)
    else:
        process, url = postgres_server(folder)
        kit = Kit(tmp_path, store=url, tenants=2)
    try:
        kit.subscribe("nul", "n = '\0' AND")  # PostgreSQL has no text with a NUL
        live(kit, random.Random(1), 80, killed=0.05)
        check(kit)
        assert len(kit.pairs(1)) > 10
    finally:
        kit.close()
        process.terminate()
        process.wait(120)
        shutil.rmtree(folder)


def test_entries_are_taken_whole_or_from_their_middle(kit):
    """A position within an entry, as another program may leave it, is gone on from."""
    kit.subscribe("a", "n > 1")
    kit.work()
    body = (
        b"["
        + b",".join(
            b'{"specversion":"1.0","id":"%d","source":"/","type":"t","data":{"n":%d}}' % (i, i)
            for i in range(5)
        )
        + b"]"
    )
    [seq] = kit.log.append([Entry(1, "events", body, 5)])
    kit.matcher.tenants[1].seq = seq + 1
    kit.matcher.round()
    assert sorted(kit.pairs()) == [(seq + i, "ann") for i in (2, 3, 4)]


def test_retention_forgets_what_is_old_and_saved(kit):
    """Old entries go with old deliveries; what a start needs stays, and the numbers go on."""
    from dataclasses import replace

    kit.settings = kit.matcher.settings = replace(kit.settings, retention_days=1.0)
    kit.subscribe("a", "n > 1")
    for _ in range(3):
        kit.publish(*[message(n=5)] * 4)
        kit.work()
        kit.clock.turn(0.8 * 86_400)
    kit.matcher.save_all()
    assert kit.log.bounds()[0] > 1
    assert len(kit.rows(tables.deliveries)) < 12
    kit.clock.turn(10 * 86_400)
    kit.new_matcher()
    seq = kit.publish(message(n=5))
    kit.work()
    kit.matcher.save_all()
    [*_, last] = kit.rows(tables.deliveries)
    assert (last.id, last.seq) == (13, seq)


@pytest.fixture
def forgetful(kit):
    """It keeps a day; ``tick`` does what is done by time, as if that had passed."""
    from dataclasses import replace

    def tick(n=1, busy=False):
        for _ in range(n):
            kit.matcher._next_tick = kit.matcher.retention._next = 0.0
            kit.matcher.tick(busy)

    kit.settings = kit.matcher.settings = replace(kit.settings, retention_days=1.0)
    kit.tick = tick
    return kit


def days(kit, n):
    """Days go by, with an event and a snapshot each."""
    for _ in range(n):
        kit.clock.turn(86_400)
        kit.publish(message(type_="note"))
        kit.work()
        kit.matcher.save_all()
        kit.tick()


def test_retention_keeps_up_by_time_alone(forgetful, monkeypatch):
    monkeypatch.setattr("germane.service.retention.PART", 100)
    for _ in range(20):
        forgetful.publish(*[message(n=5)] * 50)
    last = forgetful.publish(message(n=5))
    forgetful.work()
    forgetful.matcher.save_all()
    forgetful.tick(3)
    assert forgetful.log.bounds() == (1, last)
    forgetful.clock.turn(2 * 86_400)
    forgetful.tick()
    assert forgetful.log.bounds() == (101, last)
    forgetful.tick(10)
    assert forgetful.log.bounds() == (last, last)


def test_a_quiet_tenant_does_not_keep_the_log_of_a_busy_one(forgetful):
    forgetful.publish(message(n=5), tenant=2)
    forgetful.subscribe("a", "n > 1", tenant=2)
    days(forgetful, 4)
    seq = forgetful.publish(message(n=5), tenant=2)
    for _ in range(4):
        forgetful.clock.turn(86_400)
        forgetful.publish(message(n=5))
        while forgetful.matcher.round():
            pass
        forgetful.tick(4, busy=True)
    assert forgetful.log.bounds()[0] > seq
    folder = forgetful.settings.snapshots
    newest, spare = sorted(folder.glob("2-*.germane"))
    for path in (newest, spare):  # either is enough for a start
        kept = path.read_bytes()
        path.write_bytes(b"damaged")
        forgetful.new_matcher()
        assert list(forgetful.matcher.tenants[2].books.by_id) == ["a"]
        path.write_bytes(kept)


@pytest.mark.parametrize("held", [True, False])
def test_retention_keeps_what_is_held_or_waits_to_be_sent(forgetful, held):
    forgetful.subscribe("a", "type = 'talk'", sink="https://example.org/h")
    if held:
        forgetful.prefer("ann", digest={"seconds": 5 * 86_400})
    first = forgetful.publish(message(n=1))
    forgetful.publish(message(n=2))
    days(forgetful, 4)
    assert forgetful.log.bounds()[0] == first
    days(forgetful, 2)
    reader = Reader(forgetful.log, forgetful.engine)
    shown = reader.deliveries(1, forgetful.rows(tables.deliveries))
    items = shown[0]["items"] if held else shown
    assert [item["event"]["data"]["n"] for item in items] == [1, 2]
    with tables.writing(forgetful.engine) as connection:
        connection.execute(tables.outbox.update().values(state="sent", changed=forgetful.clock()))
    if held:  # it is visible for a day from its release on
        forgetful.tick(3)
        assert reader.event(1, first)
    days(forgetful, 3)
    assert forgetful.log.bounds()[0] > first


def test_checkpoints_keep_the_write_ahead_log_short(tmp_path, monkeypatch):
    """Commits do not carry pages into the file; the thread does, and the log begins anew."""
    import sqlite3

    from germane.service import checkpoints, tables

    monkeypatch.setattr(checkpoints, "EVERY_S", 1000.0)  # it is called here instead
    monkeypatch.setattr(checkpoints, "MOST_PAGES", 1_500)
    path = tmp_path / "service.db"
    log = path.with_name("service.db-wal")
    engine = tables.open_store(f"sqlite:///{path}", durable=False)

    def write(first, n):
        rows = [(1, first + i, i % 97, i, 0, 0, None, "[0]" * 50) for i in range(n)]
        with tables.writing(engine) as connection:
            tables.insert_rows(connection, tables.deliveries, rows)

    for i in range(12):
        write(i * 2_500, 2_500)
    grown = log.stat().st_size
    assert grown > 1_500 * 4096, "SQLite has carried pages within a commit"
    thread = checkpoints.Checkpoints(path)
    said = []
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.set_trace_callback(said.append)
        thread.carry(connection)
        assert "RESTART" in said[-1]  # under load it would not begin anew by itself
        write(30_000, 10)
        assert log.stat().st_size == grown  # written from its beginning, not after its end
        thread.carry(connection)
        assert "PASSIVE" in said[-1]
        write(30_010, 4_000)
        thread.carry(connection)
        assert log.stat().st_size == grown
        thread.carry(connection)
        assert log.stat().st_size == 0  # nobody has written since
    thread.close()
    with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as alone:  # without its log
        assert alone.execute("SELECT count(*) FROM deliveries").fetchone() == (34_010,)
    engine.dispose()


def test_what_was_slow_once_is_soon_forgotten():
    """Percentiles are of the last seconds: the first messages wait until the filter is ready."""
    tally, start = Tally(), 1_000_000_000
    assert tally.percentiles(start) == (0.0, 0.0)
    tally.add_latencies(np.full(50, 9_843_000), start)
    tally.add_latencies(np.full(10, 12_000), start + 5 * SECOND)
    assert tally.percentiles(start + 9 * SECOND) == (9843.0, 9843.0)
    assert tally.percentiles(start + 11 * SECOND) == (12.0, 12.0)
    assert tally.percentiles(start + 60 * SECOND) == (12.0, 12.0)  # nothing since
    for second in range(3):
        tally.add_latencies(np.full(SAMPLE, 1_000 * (second + 1)), start + second * SECOND)
    assert tally.percentiles(start + 3 * SECOND) == (3.0, 3.0)  # and no more than a sample


def test_nobody_changes_what_became_somebody_elses(kit):
    """Who asks is looked up before it is the entry's turn; by then another may have the id."""
    kit.subscribe("s", "n > 0", who="ann")
    kit.subscribe("s", "n > 1", who="bob")  # an operator's: it replaces anybody's
    mute = {"subscription": "s", "muted": True, "snoozed_until": None, "of": "ann"}
    late = [kit.append(1, "settings", mute), kit.append(1, "unsubscribe", {"id": "s", "of": "ann"})]
    seq = kit.publish(message(n=5))
    kit.append(1, "unsubscribe", {"id": "s", "of": "bob"})
    kit.publish(message(n=6))
    kit.work()
    assert kit.pairs() == {(seq, "bob"): ["s"]}
    assert [(row.seq, row.reason) for row in kit.rows(tables.deadletters)] == [
        (each, "there is no subscription 's'") for each in late
    ]
