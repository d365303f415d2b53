"""The log played again: to see that the tables are what it says, or to make them anew.

``check`` reads only, also beside a running service. ``rebuild`` puts every tenant back to the state
before a seq and lets the matcher go on from there: what was delivered since is delivered again,
under new ids, since that is what a replay is for.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
import sqlalchemy as sa

from germane.model import GermaneError
from germane.service import holding, snapshots, tables
from germane.service.clock import now
from germane.service.log import Log, read_up_to
from germane.service.matcher import Matcher
from germane.service.settings import Settings
from germane.service.tenant import Tenant
from germane.service.writing import write_books

PART = 5_000
Progress = Callable[[int], None]


class Cannot(GermaneError, ValueError):
    """The log does not reach back so far."""


class Compared(NamedTuple):
    """What a replay found of one tenant."""

    tenant: int
    n_messages: int
    n_deliveries: int  # that the log says, from the seq on
    missing: list[tuple[int, int]]  # (seq, subscriber) that the tables do not have
    surplus: list[tuple[int, int]]  # that the log does not say


def numbers_of_tenants(engine: sa.Engine) -> list[int]:
    """All tenants."""
    with engine.connect() as connection:
        return list(connection.execute(sa.select(tables.tenants.c.id)).scalars())


def at(settings: Settings, log: Log, engine: sa.Engine, tenant: int, seq: int) -> Tenant:
    """A tenant as it was at a seq: its newest snapshot before it, and the log from there."""
    loader = Matcher(settings, log, engine)
    made = Tenant(tenant, settings.index, loader._texts)
    with engine.connect() as connection:
        made.poison = loader._read_poison(connection, tenant)
    snapshots.load(settings.snapshots, made, seq)
    first, _ = log.bounds()
    if made.seq + 1 < first:
        raise Cannot(f"the log begins at {first}; give a snapshot or a later --from")
    for _ in _play(log, made, seq):
        pass
    made.seq = max(made.seq, seq)
    return made


def _play(log: Log, tenant: Tenant, up_to: int) -> Iterator[Any]:
    """Play a tenant's entries up to a seq; what each part did."""
    while tenant.seq < up_to:
        entries = read_up_to(log, tenant.seq, up_to, tenant.number, PART)
        if not entries:
            return
        yield tenant.play(entries)


def check(
    settings: Settings, log: Log, engine: sa.Engine, tenant: int, seq: int, progress: Progress
) -> Compared:
    """Compare the deliveries of messages from a seq on with what the log says."""
    with engine.connect() as connection:
        end = Matcher._read_position(connection, tenant)
    player = at(settings, log, engine, tenant, seq - 1)
    sure: set[tuple[int, int]] = set()  # without wishes: they must be there
    possible: set[tuple[int, int]] = set()
    n_messages = 0
    for step in _play(log, player, end):
        n_messages += step.n_messages
        for matched in step.matched:
            people, special = matched.whose.people, matched.whose.special
            pairs = list(zip(matched.seqs.tolist(), people.tolist(), strict=True))
            possible.update(pairs)
            held = {pair for pair, other in zip(pairs, special.tolist(), strict=True) if other}
            sure.update(p for p in pairs if p not in held and p[0] not in matched.expires)
        progress(step.n_events)
    recorded = _recorded(engine, tenant, seq, end)
    missing, surplus = sorted(sure - recorded), sorted(recorded - possible)
    return Compared(tenant, n_messages, len(possible), missing, surplus)


def _recorded(engine: sa.Engine, tenant: int, begin: int, end: int) -> set[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    with engine.connect() as connection:
        for table in (tables.deliveries, tables.held):
            rows = connection.execute(
                sa.select(table.c.seq, table.c.subscriber, table.c.why, table.c.profiles).where(
                    table.c.tenant == tenant, table.c.seq >= begin, table.c.seq <= end
                )
            )
            for seq, subscriber, why, profiles in rows:
                found.add((seq, subscriber))
                if why == holding.DIGEST and table is tables.deliveries:
                    items = msgspec.json.decode(profiles)
                    found.update((item[0], subscriber) for item in items if item[0] >= begin)
    return found


def rebuild(settings: Settings, log: Log, engine: sa.Engine, tenant: int, seq: int) -> int:
    """Put a tenant back to before a seq, while no matcher runs; how many deliveries that undoes."""
    with engine.connect() as connection:
        seq = min(seq, Matcher._read_position(connection, tenant) + 1)
    before = at(settings, log, engine, tenant, seq - 1)
    snapshots.forget_after(settings.snapshots, tenant, seq - 1)
    with tables.writing(engine) as connection:
        n = _take_back(connection, tenant, seq)
        write_books(connection, before)
    snapshots.save(settings.snapshots, before)
    return n


def _take_back(connection: sa.Connection, tenant: int, seq: int) -> int:
    """Remove what came of events from a seq on; what a digest had from before is held again."""
    d, o, b = tables.deliveries, tables.outbox, tables.taken_back
    last = Matcher._read_counters(connection, tenant).delivery
    connection.execute(sa.delete(b).where(b.c.tenant == tenant))
    connection.execute(sa.insert(b).values(tenant=tenant, delivery=last))
    rows = connection.execute(sa.select(d).where(d.c.tenant == tenant, d.c.seq >= seq)).all()
    held = []
    for row in rows:
        if row.why == holding.DIGEST:
            for item_seq, item_at, numbers in msgspec.json.decode(row.profiles):
                if item_seq < seq:
                    held.append(
                        (tenant, row.subscriber, item_seq, item_at, now(), holding.DIGEST, None,
                         str(numbers))
                    )  # fmt: skip
    for table in (d, tables.held, tables.deadletters, tables.feedback):
        connection.execute(sa.delete(table).where(table.c.tenant == tenant, table.c.seq >= seq))
    ids = np.array([row.id for row in rows], np.int64).tolist()
    for begin in range(0, len(ids), 500):
        connection.execute(
            sa.delete(o).where(o.c.tenant == tenant, o.c.delivery.in_(ids[begin : begin + 500]))
        )
    tables.insert_rows(connection, tables.held, held)
    return len(rows)
