"""A delivery as the CloudEvent that a webhook gets."""

from typing import Any

import sqlalchemy as sa

from germane.service import tables


def event_of(reader: Any, tenant: int, delivery: int, sink: int) -> dict[str, Any] | None:
    """The event of a delivery, or of a digest; None if it is not there any more."""
    t = tables.deliveries
    with reader.engine.connect() as connection:
        row = connection.execute(
            sa.select(t).where(t.c.tenant == tenant, t.c.id == delivery)
        ).first()
    if row is None:
        return None
    [shown] = reader.deliveries(tenant, [row])
    digest = shown["digest"]
    return {
        "specversion": "1.0",
        "id": f"{tenant}-{delivery}-{sink}",
        "source": "/germane",
        "type": "germane.digest" if digest else "germane.delivery",
        "subject": shown["subscriber"],
        "time": shown["released"],
        "datacontenttype": "application/json",
        "data": shown,
    }


def is_hollow(event: dict[str, Any]) -> bool:
    """Whether the log has none of the messages of a delivery any more."""
    shown = event["data"]
    return all(each["event"] is None for each in shown.get("items", [shown]))
