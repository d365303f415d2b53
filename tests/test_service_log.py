"""The contract of the log, on both implementations, against a list."""

import random
import threading

import pytest
from service_kit import nats_server

from germane.service.log import Entry, LogError, LogFull
from germane.service.log_sqlite import SqliteLog

pytestmark = pytest.mark.xdist_group("service")


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    process, url = nats_server(tmp_path_factory.mktemp("nats"))
    yield url
    process.kill()
    process.wait()


@pytest.fixture(params=["sqlite", "nats"])
def make(request, tmp_path):
    """Opens the same log again and again."""
    if request.param == "sqlite":
        opened = lambda: SqliteLog(tmp_path / "log.db")  # noqa: E731
    else:
        from germane.service.log_nats import NatsLog

        url = request.getfixturevalue("broker")
        name = f"t{random.getrandbits(60)}"
        opened = lambda: NatsLog(url, name)  # noqa: E731
    logs = []

    def new():
        logs.append(opened())
        return logs[-1]

    yield new
    for log in logs:
        log.close()


def entry(choose, tenant):
    n = choose.choice([1, 1, 2, 5, 40])
    kind = "events" if n > 1 else choose.choice(["events", "subscribe"])
    return Entry(tenant, kind, bytes(choose.randbytes(choose.randrange(200))), n)


def flat(stored):
    return [(s.seq, s.tenant, s.kind, s.body, s.n) for s in stored]


@pytest.mark.parametrize("seed", range(3))
def test_against_a_list(make, seed):
    choose = random.Random(seed)
    log, known, seq = make(), [], 1
    assert log.bounds() == (1, 0)
    assert log.read(0, 10) == []
    assert log.tenants(0) == {}
    assert not log.wait(0, 0.01)
    for _ in range(60):
        tenant = choose.randint(1, 3)
        entries = [entry(choose, tenant) for _ in range(choose.choice([1, 1, 3]))]
        expected = []
        for each in entries:
            expected.append(seq)
            known.append((seq, each.tenant, each.kind, each.body, each.n))
            seq += each.n
        assert log.append(entries) == expected
        if choose.random() < 0.1:
            log = make()  # as another process
    assert log.bounds() == (1, seq - 1)
    assert log.wait(seq - 2, 0.0)
    for _ in range(40):
        after, limit = choose.randrange(seq), choose.choice([1, 7, 1000])
        tenant = choose.choice([None, 1, 2, 3])
        wanted = [k for k in known if k[0] + k[4] - 1 > after and tenant in (None, k[1])]
        assert flat(log.read(after, limit, tenant)) == until(wanted, limit)
        before, tenant = choose.randrange(1, seq + 2), choose.randint(1, 3)
        wanted = [k for k in reversed(known) if k[0] < before and k[1] == tenant]
        assert flat(log.read_back(before, limit, tenant)) == until(wanted, limit)
        last = {k[1]: k[0] + k[4] - 1 for k in known if k[0] + k[4] - 1 > after}
        assert log.tenants(after) == last
    ats = [stored.at for stored in log.read(0, 10**9)]
    assert ats == sorted(ats)


def until(entries, limit):
    taken, n = [], 0
    for each in entries:
        if n >= limit:
            break
        taken.append(each)
        n += each[4]
    return taken


def test_trim(make):
    log = make()
    log.append([Entry(1, "events", b"[]", 10)])
    log.append([Entry(2, "events", b"[]", 10)])
    log.append([Entry(1, "events", b"last", 10)])
    log.trim(15)  # the second entry is needed from its middle on
    assert log.bounds() == (11, 30)
    log.trim(10**9)  # the last one stays, so that the next seq is known
    assert log.bounds() == (21, 30)
    assert make().append([Entry(1, "events", b"[]", 1)]) == [31]
    assert [stored.body for stored in log.read(0, 100)] == [b"last", b"[]"]


def test_many_writers(make):
    """Appends of many threads and connections: every seq once, bodies with their seqs."""
    logs, results, lock = [make() for _ in range(3)], {}, threading.Lock()

    def write(number):
        for i in range(15):
            body = f"{number} {i}".encode()
            [seq] = logs[number % 3].append([Entry(1 + number % 2, "events", body, 1 + i % 3)])
            with lock:
                results[seq] = (body, 1 + i % 3)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = logs[0].read(0, 10**9)
    assert {s.seq: (s.body, s.n) for s in stored} == results
    ends = [s.seq + s.n for s in stored]
    assert [s.seq for s in stored] == [1, *ends[:-1]]


def test_wait_is_woken(make):
    log, other = make(), make()
    woken = []
    thread = threading.Thread(target=lambda: woken.append(log.wait(0, 120.0)))
    thread.start()
    other.append([Entry(1, "events", b"[]", 1)])
    thread.join(60)
    assert woken == [True]


def test_full_disk_refuses_and_recovers(tmp_path):
    log = SqliteLog(tmp_path / "log.db")
    log.append([Entry(1, "events", b"x", 1)])
    writer = log.submit([Entry(1, "events", b"x", 1)])  # makes the writer's own connection
    assert writer.result() == [2]
    for connection in log._connections:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages + 1}")
    with pytest.raises(LogFull, match="full"):
        log.append([Entry(1, "events", b"y" * 100_000, 1)])
    assert log.bounds() == (1, 2)
    for connection in log._connections:
        connection.execute("PRAGMA max_page_count=1000000")
    assert log.append([Entry(1, "events", b"y" * 100_000, 1)]) == [3]
    log.close()


def test_one_bad_append_refuses_no_other(tmp_path):
    log = SqliteLog(tmp_path / "log.db")
    good = [log.submit([Entry(1, "events", b"a", 1)]) for _ in range(5)]
    bad = log.submit([Entry(1, "events", None, 1)])
    good += [log.submit([Entry(1, "events", b"b", 1)]) for _ in range(5)]
    with pytest.raises(LogError):
        bad.result()
    assert sorted(f.result()[0] for f in good) == list(range(1, 11))
    log.close()
