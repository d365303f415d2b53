"""Dead letters: events that no filter took, deliveries that no webhook took; read and driven again.

Their ids are ``e12`` for the twelfth event of a tenant, ``d5-3`` for delivery 5 to sink 3.
"""

from typing import Any

import msgspec
import sqlalchemy as sa

from germane.model import InvalidValue
from germane.service import cloudevents, tables
from germane.service.clock import Clock, as_text, now
from germane.service.delivering import DEAD, WAITING
from germane.service.log import EVENTS, Entry
from germane.service.reader import Reader

d, o, s = tables.deadletters, tables.outbox, tables.sinks
LAST = 999_999_999
"""No sink has a greater number."""


def events(reader: Reader, tenant: int, after: int, limit: int) -> list[dict[str, Any]]:
    """Events that were not taken, and not driven again since."""
    with reader.engine.connect() as connection:
        rows = connection.execute(
            sa.select(d)
            .where(d.c.tenant == tenant, d.c.id > after, d.c.redriven.is_(None))
            .order_by(d.c.id)
            .limit(limit)
        ).all()
    return [_event(reader, tenant, row) for row in rows]


def _event(reader: Reader, tenant: int, row: Any) -> dict[str, Any]:
    found = reader.event(tenant, row.seq)
    return {
        "id": f"e{row.id}", "kind": "event", "what": row.kind, "seq": row.seq,
        "at": as_text(row.at), "reason": row.reason, "redriven": row.redriven,
        "event": found[0] if found else None,
    }  # fmt: skip


def deliveries(
    reader: Reader, tenant: int, after: tuple[int, int], limit: int
) -> list[dict[str, Any]]:
    """Deliveries that no webhook took, after one to a sink."""
    delivery, sink = after
    later = sa.or_(o.c.delivery > delivery, sa.and_(o.c.delivery == delivery, o.c.sink > sink))
    with reader.engine.connect() as connection:
        rows = connection.execute(_dead(tenant).where(later).limit(limit)).all()
    return [_delivery(row) for row in rows]


def parts(id_: str) -> tuple[int, int]:
    """The delivery and the sink of a dead letter's id."""
    delivery, sink = map(int, id_[1:].split("-"))
    return delivery, sink


def _dead(tenant: int) -> Any:
    return (
        sa.select(o, s.c.url)
        .join(s, sa.and_(s.c.tenant == o.c.tenant, s.c.id == o.c.sink))
        .where(o.c.tenant == tenant, o.c.state == DEAD)
        .order_by(o.c.delivery, o.c.sink)
    )


def _delivery(row: Any) -> dict[str, Any]:
    return {
        "id": f"d{row.delivery}-{row.sink}", "kind": "delivery", "delivery": row.delivery,
        "sink": row.url, "attempts": row.attempts, "at": as_text(row.changed),
        "reason": row.failure,
    }  # fmt: skip


def letter(reader: Reader, tenant: int, id_: str) -> dict[str, Any] | None:
    """One dead letter."""
    with reader.engine.connect() as connection:
        if id_[0] == "e":
            query = sa.select(d).where(d.c.tenant == tenant, d.c.id == int(id_[1:]))
            row = connection.execute(query).first()
            return None if row is None else _event(reader, tenant, row)
        delivery, sink = parts(id_)
        query = _dead(tenant).where(o.c.delivery == delivery, o.c.sink == sink)
        row = connection.execute(query).first()
        return None if row is None else _delivery(row)


def entry_of(tenant: int, event: dict[str, Any] | None) -> Entry:
    """An event on its way into the log again."""
    if event is None:
        raise InvalidValue("the log does not have this event any more; give it as 'event'")
    try:
        body = msgspec.json.encode(event)
    except (OverflowError, RecursionError, TypeError, ValueError) as error:
        raise InvalidValue(f"an event is JSON in Unicode: {error}") from None
    return Entry(tenant, EVENTS, cloudevents.admit(body, False).body)


def driven(engine: sa.Engine, tenant: int, id_: str, seq: int) -> None:
    """Note that an event was appended again; 0 says that it was let go of."""
    with tables.writing(engine) as connection:
        connection.execute(
            sa.update(d)
            .where(d.c.tenant == tenant, d.c.id == int(id_[1:]), d.c.redriven.is_(None))
            .values(redriven=seq)
        )


def change_delivery(
    engine: sa.Engine, tenant: int, id_: str, state: str = WAITING, clock: Clock = now
) -> int:
    """Send a delivery to its webhook again, or let go of it; the delivery's id."""
    delivery, sink = parts(id_)
    with tables.writing(engine) as connection:
        connection.execute(
            sa.update(o)
            .where(o.c.tenant == tenant, o.c.delivery == delivery, o.c.sink == sink)
            .values(state=state, attempts=0, due=clock(), changed=clock())
        )
    return delivery
