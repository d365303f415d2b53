"""A step's rows into the tables, within the transaction of its position."""

from typing import Any

import msgspec
import sqlalchemy as sa

from germane.service import tables
from germane.service.delivering import Counters, Rows
from germane.service.regraph import edges_of
from germane.service.tenant import Step, Tenant

ACTIVE, REFUSED, ENDED = "active", "refused", "ended"


def write_step(
    connection: sa.Connection, tenant: Tenant, counters: Counters, step: Step, rows: Rows, now: int
) -> None:
    """Write all that a step did, and the tenant's position after it."""
    tables.insert_rows(connection, tables.deliveries, rows.deliveries)
    tables.insert_rows(connection, tables.held, rows.held)
    tables.insert_rows(connection, tables.outbox, rows.outbox)
    _write_people(connection, tenant.number, step)
    _write_subscriptions(connection, tenant.number, step)
    _write_dead(connection, tenant.number, counters, step, now)
    _write_feedback(connection, tenant.number, step)
    for attribute in sorted(step.graphs):
        _write_graph(connection, tenant, attribute)
    if step.reheld:
        t = tables.held
        connection.execute(
            sa.update(t)
            .where(t.c.tenant == tenant.number, t.c.subscriber == sa.bindparam("s"))
            .values(due=now),
            [{"s": subscriber} for subscriber in step.reheld],
        )
    _write_position(connection, tenant)


def write_release(connection: sa.Connection, rows: Rows) -> None:
    """Write deliveries that were held."""
    tables.insert_rows(connection, tables.deliveries, rows.deliveries)
    tables.insert_rows(connection, tables.outbox, rows.outbox)


def forget(connection: sa.Connection, tenant: int, last: int, horizon: int) -> None:
    """Remove deliveries that became visible before a time, but for the last one, and what was sent
    of them; what still waits to be sent keeps them."""
    d, o = tables.deliveries, tables.outbox
    connection.execute(
        sa.delete(o).where(
            o.c.tenant == tenant, o.c.state.in_(["sent", "gone"]), o.c.changed < horizon
        )
    )
    waiting = sa.select(o.c.delivery).where(o.c.tenant == tenant)
    connection.execute(
        sa.delete(d).where(
            d.c.tenant == tenant, d.c.released < horizon, d.c.id < last, d.c.id.not_in(waiting)
        )
    )


def write_books(connection: sa.Connection, tenant: Tenant) -> None:
    """Put the tables of a tenant's subscriptions, people, sinks and graphs to its books."""
    books, mine = tenant.books, tenant.number
    s, p, k, g = tables.subscriptions, tables.subscribers, tables.sinks, tables.graphs
    for table, column, n in (
        (s, s.c.number, books.next_number),
        (p, p.c.number, len(books.subscribers)),
        (k, k.c.id, len(books.sinks)),
    ):
        connection.execute(sa.delete(table).where(table.c.tenant == mine, column >= n))
    rows = connection.execute(sa.select(s.c.number, s.c.state).where(s.c.tenant == mine)).all()
    active, refused = set(books.active), set(books.refused.values())
    for number, state in rows:
        wanted = ACTIVE if number in active else REFUSED if number in refused else ENDED
        found = books.subscription(number)
        values = {"muted": found.muted, "snoozed_until": found.snoozed_until}
        if state != wanted or number in active:
            connection.execute(
                sa.update(s)
                .where(s.c.tenant == mine, s.c.number == number)
                .values(state=wanted, **values)
            )
    connection.execute(sa.update(p).where(p.c.tenant == mine).values(preferences=None))
    for number, text in books.wishes_as_text.items():
        connection.execute(
            sa.update(p).where(p.c.tenant == mine, p.c.number == number).values(preferences=text)
        )
    connection.execute(sa.delete(g).where(g.c.tenant == mine))
    for attribute in books.main_graphs:
        _write_graph(connection, tenant, attribute)
    _write_position(connection, tenant)


def _write_people(connection: sa.Connection, tenant: int, step: Step) -> None:
    tables.insert_rows(
        connection,
        tables.subscribers,
        [(tenant, number, name, None) for number, name in step.subscribers],
    )
    tables.insert_rows(
        connection,
        tables.sinks,
        [(tenant, number, url, "ok", 0, None, None, None) for number, url in step.sinks],
    )
    t = tables.subscribers
    for number, text in step.wishes.items():
        connection.execute(
            sa.update(t).where(t.c.tenant == tenant, t.c.number == number).values(preferences=text)
        )


def _write_subscriptions(connection: sa.Connection, tenant: int, step: Step) -> None:
    t = tables.subscriptions
    tables.insert_rows(
        connection,
        t,
        [
            (
                tenant, s.number, s.id, s.subscriber, s.sink, seq,
                ACTIVE if reason is None else REFUSED, _words(reason), body, s.muted,
                s.snoozed_until,
            )
            for s, seq, reason, body in step.registered
        ],
    )  # fmt: skip
    if step.ended:
        connection.execute(
            sa.update(t)
            .where(t.c.tenant == tenant, t.c.number == sa.bindparam("n"))
            .values(state=ENDED),
            [{"n": number} for number in step.ended],
        )
    for s in step.changed:
        connection.execute(
            sa.update(t)
            .where(t.c.tenant == tenant, t.c.number == s.number)
            .values(muted=s.muted, snoozed_until=s.snoozed_until)
        )


def _write_dead(
    connection: sa.Connection, tenant: int, counters: Counters, step: Step, now: int
) -> None:
    rows: list[tuple[Any, ...]] = []
    for seq, kind, reason in sorted(step.dead):
        counters.deadletter += 1
        rows.append((tenant, counters.deadletter, seq, now, kind, _words(reason), None))
    tables.insert_rows(connection, tables.deadletters, rows)


def _words(reason: str | None) -> str | None:
    """A reason as any store takes it: it may quote a text with a NUL, which PostgreSQL refuses."""
    return reason.replace("\0", "\N{REPLACEMENT CHARACTER}") if reason else reason


def _write_feedback(connection: sa.Connection, tenant: int, step: Step) -> None:
    t = tables.feedback
    for delivery, seq, relevant, at in step.feedback:
        connection.execute(sa.delete(t).where(t.c.tenant == tenant, t.c.delivery == delivery))
        if relevant is None:
            continue
        connection.execute(
            sa.insert(t).values(tenant=tenant, delivery=delivery, seq=seq, relevant=relevant, at=at)
        )


def _write_graph(connection: sa.Connection, tenant: Tenant, attribute: str) -> None:
    t = tables.graphs
    connection.execute(sa.delete(t).where(t.c.tenant == tenant.number, t.c.attribute == attribute))
    if attribute not in tenant.books.main_graphs:
        return
    edges = msgspec.json.encode(edges_of(tenant.filter, attribute)).decode()
    others = sorted(tenant.books.graph_names(attribute) - {attribute})
    connection.execute(
        sa.insert(t).values(
            tenant=tenant.number, attribute=attribute, edges=edges,
            attributes=msgspec.json.encode(others).decode(),
        )
    )  # fmt: skip


def _write_position(connection: sa.Connection, tenant: Tenant) -> None:
    t = tables.positions
    moved = connection.execute(
        sa.update(t).where(t.c.tenant == tenant.number).values(seq=tenant.seq)
    )
    if not moved.rowcount:
        connection.execute(sa.insert(t).values(tenant=tenant.number, seq=tenant.seq))
