"""Deliveries and events as people see them, read from the tables and the log.

Used by the api and by the courier. Names and decoded entries never change, so they are kept.
"""

from typing import Any

import msgspec
import sqlalchemy as sa

from germane.service import holding, tables
from germane.service.clock import as_text
from germane.service.cloudevents import events_of
from germane.service.log import EVENTS, Log

KEPT_BYTES = 32 << 20  # of entries, as they are in the log
KEPT_NAMES = 200_000


class Reader:
    """The tables and the log, for reading."""

    def __init__(self, log: Log, engine: sa.Engine) -> None:
        self.log = log
        self.engine = engine
        self._entries: dict[int, tuple[int, list[Any]]] = {}
        self._kept = 0  # bytes
        self._names: dict[tuple[str, int, int], str] = {}

    def event(self, tenant: int, seq: int) -> tuple[Any, int] | None:
        """An event of the log and when it was accepted; None if it is not there any more."""
        for entry in self.log.read(seq - 1, 1, tenant):
            if entry.seq <= seq <= entry.last and entry.kind == EVENTS:
                kept = self._entries.get(entry.seq)
                if kept is None:
                    if self._kept + len(entry.body) > KEPT_BYTES:
                        self._entries.clear()
                        self._kept = 0
                    self._kept += len(entry.body)
                    kept = self._entries[entry.seq] = (entry.at, events_of(entry.body))
                return kept[1][seq - entry.seq], kept[0]
        return None

    def names(self, table: sa.Table, column: str, tenant: int, numbers: set[int]) -> dict[int, str]:
        """Ids of subscriptions, or names of subscribers, by their numbers."""
        kind = table.name
        if len(self._names) > KEPT_NAMES:
            self._names.clear()
        kept = ((n, self._names.get((kind, tenant, n))) for n in numbers)
        known = {n: name for n, name in kept if name is not None}  # others may clear what is kept
        missing = [n for n in numbers if n not in known]
        if missing:
            with self.engine.connect() as connection:
                for begin in range(0, len(missing), 500):
                    found = connection.execute(
                        sa.select(table.c.number, table.c[column]).where(
                            table.c.tenant == tenant,
                            table.c.number.in_(missing[begin : begin + 500]),
                        )
                    )
                    known |= dict(found.all())
            self._names |= {(kind, tenant, n): known[n] for n in missing if n in known}
        return {n: known.get(n, "") for n in numbers}

    def deliveries(self, tenant: int, rows: Any) -> list[dict[str, Any]]:
        """Rows of deliveries as people see them, with their events."""
        parsed = [(row, msgspec.json.decode(row.profiles)) for row in rows]
        numbers: set[int] = set()
        for row, profiles in parsed:
            digest = row.why == holding.DIGEST
            numbers.update(*([each[2] for each in profiles] if digest else [profiles]))
        ids = self.names(tables.subscriptions, "id", tenant, numbers)
        people = self.names(tables.subscribers, "name", tenant, {row.subscriber for row in rows})
        heard = self._feedback(tenant, [row.id for row in rows])
        shown = []
        for row, profiles in parsed:
            delivery = self._delivery(tenant, row, profiles, ids)
            delivery["subscriber"] = people[row.subscriber]
            delivery["feedback"] = heard.get(row.id)
            shown.append(delivery)
        return shown

    def _delivery(
        self, tenant: int, row: Any, profiles: Any, ids: dict[int, str]
    ) -> dict[str, Any]:
        delivery: dict[str, Any] = {
            "id": row.id, "seq": row.seq, "at": as_text(row.at),
            "released": as_text(row.released), "why": row.why,
            "digest": row.why == holding.DIGEST,
        }  # fmt: skip
        if not delivery["digest"]:
            found = self.event(tenant, row.seq)
            delivery["subscriptions"] = [ids[n] for n in profiles]
            delivery["event"] = found[0] if found else None
            return delivery
        delivery["subscriptions"] = sorted({ids[n] for _, _, each in profiles for n in each})
        delivery["items"] = items = []
        for seq, at, numbers in profiles:
            found = self.event(tenant, seq)
            items.append(
                {
                    "seq": seq, "at": as_text(at), "subscriptions": [ids[n] for n in numbers],
                    "event": found[0] if found else None,
                }
            )  # fmt: skip
        return delivery

    def _feedback(self, tenant: int, ids: list[int]) -> dict[int, bool]:
        if not ids:
            return {}
        f = tables.feedback
        with self.engine.connect() as connection:
            found = connection.execute(
                sa.select(f.c.delivery, f.c.relevant).where(
                    f.c.tenant == tenant, f.c.delivery.between(min(ids), max(ids))
                )
            )
            return {delivery: bool(relevant) for delivery, relevant in found}
