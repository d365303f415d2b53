"""Is an installation well? Looks at everything that can be looked at, and changes nothing."""

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import sqlalchemy as sa

from germane.model import GermaneError
from germane.service import snapshots, tables
from germane.service.clock import SECOND, now
from germane.service.delivering import DEAD, WAITING
from germane.service.settings import Settings, open_log
from germane.service.tenant import Tenant

LITTLE_BYTES = 1 << 30
STALE_S = 15


class Finding(NamedTuple):
    """One thing that was looked at."""

    well: bool
    what: str
    remedy: str = ""


def examine(settings: Settings) -> Iterator[Finding]:
    """Look at an installation, one thing after the other."""
    if not settings.folder.is_dir():
        yield Finding(False, f"there is no {settings.data}", "germane serve makes it; or --data")
        return
    yield from _disk(settings)
    try:
        log = open_log(settings)
    except GermaneError as error:
        yield Finding(False, f"the log cannot be opened: {error}", "is the broker up?")
        return
    with closing(log):
        first, last = log.bounds()
        yield Finding(True, f"log: events {first:,} to {last:,}")
        try:
            engine = tables.open_store(settings.store_url)
        except sa.exc.DBAPIError as error:
            yield Finding(False, f"the store cannot be opened: {error.orig}", "is it up?")
            return
        try:
            yield from _store(settings, engine, first, last)
        finally:
            engine.dispose()


def _disk(settings: Settings) -> Iterator[Finding]:
    writable = os.access(settings.folder, os.W_OK)
    yield Finding(writable, f"{settings.data} can be written to", "check its owner")
    free = shutil.disk_usage(settings.folder).free
    yield Finding(free > LITTLE_BYTES, f"{free / 2**30:.1f} GiB free", "make room, or --retention")
    mode = settings.folder.stat().st_mode & 0o077
    yield Finding(not mode, "nobody else can read it", f"chmod 700 {settings.data}")
    for name in ("log.db", "service.db"):
        path = settings.folder / name
        if path.exists():
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                answer = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            yield Finding(answer == "ok", f"{name} is sound", f"restore it; SQLite says: {answer}")


def _store(settings: Settings, engine: sa.Engine, first: int, last: int) -> Iterator[Finding]:
    p, g, o, t = tables.positions, tables.gauges, tables.outbox, tables.tokens
    with engine.connect() as connection:
        positions = {row[0]: row[1] for row in connection.execute(sa.select(p.c.tenant, p.c.seq))}
        beat = connection.execute(sa.select(g.c.at).where(g.c.process == "matcher")).scalar()
        counts = sa.select(o.c.state, sa.func.count()).group_by(o.c.state)
        states = {row[0]: row[1] for row in connection.execute(counts)}
        letters = connection.execute(
            sa.select(sa.func.count())
            .select_from(tables.deadletters)
            .where(tables.deadletters.c.redriven.is_(None))
        ).scalar()
        n_tokens = connection.execute(
            sa.select(sa.func.count()).select_from(t).where(t.c.revoked.is_(None))
        ).scalar()
        failing = connection.execute(
            sa.select(tables.sinks.c.url, tables.sinks.c.last_failure).where(
                tables.sinks.c.state != "ok"
            )
        ).all()
    age = (now() - beat) / SECOND if beat else None
    running = age is not None and age < STALE_S
    yield Finding(
        running, "the matcher is running" if running else "the matcher is not running",
        "germane serve",
    )  # fmt: skip
    for tenant, seq in sorted(positions.items()):
        yield Finding(
            seq <= last, f"tenant {tenant}: matched up to {seq:,}",
            "the tables are ahead of the log: this is another log, or it was lost",
        )  # fmt: skip
        yield from _snapshot(settings, tenant, seq, first)
    yield Finding(bool(n_tokens), f"{n_tokens} tokens", "all are revoked: nobody can get in")
    yield Finding(not letters, f"{letters} dead events", "germane deadletters")
    dead = states.get(DEAD, 0)
    yield Finding(not dead, f"{dead} dead webhooks, {states.get(WAITING, 0)} waiting",
                  "germane deadletters --redrive all")  # fmt: skip
    for url, failure in failing:
        yield Finding(False, f"sink {url} fails: {failure}", "repair it; it is tried again")


def _snapshot(settings: Settings, tenant: int, position: int, first: int) -> Iterator[Finding]:
    started = time.monotonic()
    made = Tenant(tenant, settings.index, lambda *_: {})
    found = snapshots.load(settings.snapshots, made, position)
    took = time.monotonic() - started
    if found:
        yield Finding(True, f"  snapshot at {made.seq:,}, read in {took:.1f} s")
    yield Finding(
        made.seq + 1 >= first, f"  a start plays {position - made.seq:,} events again",
        "the log does not reach back to the snapshot: restore one of them",
    )  # fmt: skip
