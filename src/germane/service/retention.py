"""What is older than the retention is forgotten: by time, and of the log a part at a time.

In: a log, a store, and how far every tenant's snapshots are. Out: both without what is old. A pass
begins every few minutes, with or without new events, and goes on at every tick until it is through,
so that nobody waits for it for long. An entry stays as long as a start needs it, and as long as a
delivery shows it that is held, that became visible late, or that waits for its webhook.
"""

import time

import msgspec
import sqlalchemy as sa
import structlog

from germane.service import holding, snapshots, tables
from germane.service.clock import SECOND, Clock
from germane.service.delivering import WAITING
from germane.service.log import Log, LogError
from germane.service.settings import Settings
from germane.service.writing import forget

EVERY_S = 600.0
PART = 5_000
"""Events of the log that are forgotten at a time."""

journal = structlog.get_logger("matcher")


class Retention:
    """The passes over a log and a store."""

    def __init__(self, log: Log, engine: sa.Engine, clock: Clock) -> None:
        self.log = log
        self.engine = engine
        self.clock = clock
        self.blocking: set[int] = set()  # tenants whose snapshots are too old to go on
        self._horizon = 0
        self._needed: dict[int, int] = {}  # tenant -> up to where a start needs nothing
        self._safe = 0  # up to where nobody needs anything
        self._within = False  # a pass
        self._next = 0.0

    def due(self) -> bool:
        """Whether there is something to do now."""
        return time.monotonic() >= self._next

    def go_on(self, settings: Settings, seen: int, lasts: dict[int, int]) -> None:
        """Begin a pass, or do the next part of it; ``lasts`` are the last deliveries of tenants."""
        try:
            if not self._within:
                self._begin(settings, seen, lasts)
            self._within = self._forget_part()
        except (LogError, sa.exc.DBAPIError) as error:
            journal.error("retention_failed", error=str(error))
            self._within = False
        self._next = 0.0 if self._within else time.monotonic() + EVERY_S

    def _begin(self, settings: Settings, seen: int, lasts: dict[int, int]) -> None:
        """Forget old deliveries, and find out how much of the log has to stay."""
        self._horizon = self.clock() - int(settings.retention_days * 86_400 * SECOND)
        self._needed = {
            number: self._needed_after(settings, number) or seen + 1 for number in lasts
        }
        self.blocking = set()
        with tables.writing(self.engine) as connection:
            for number, last in lasts.items():
                forget(connection, number, last, self._horizon)
        with self.engine.connect() as connection:
            shown = oldest_shown(connection, self._horizon)
        self._safe = min([*self._needed.values(), seen + 1 if shown is None else shown]) - 1

    def _needed_after(self, settings: Settings, number: int) -> int | None:
        """The first seq that is needed to start a tenant from its oldest snapshot."""
        needed = self.log.read(snapshots.oldest(settings.snapshots, number), 1, number)
        return needed[0].seq if needed else None

    def _forget_part(self) -> bool:
        """Forget old entries; whether there may be more."""
        first, last = self.log.bounds()
        after, through = first - 1, False
        for entry in self.log.read(after, PART):
            if entry.at >= self._horizon or entry.last > self._safe:
                through = True
                if entry.at < self._horizon:
                    self.blocking = {n for n, seq in self._needed.items() if seq <= entry.last}
                break
            after = entry.last
        if after >= first:
            self.log.trim(after + 1)
        return not through and after < last


def oldest_shown(connection: sa.Connection, horizon: int) -> int | None:
    """The seq of the oldest message that a delivery still has to show: one that is held; and of
    messages before a time, one that became visible since, or that waits to be sent."""
    d, o, h = tables.deliveries, tables.outbox, tables.held
    sent = sa.exists().where(
        o.c.tenant == d.c.tenant, o.c.delivery == d.c.id, o.c.state == WAITING
    )  # fmt: skip
    shown = sa.or_(d.c.released >= horizon, sent)
    digest = sa.func.coalesce(d.c.why, "") == holding.DIGEST
    found = [
        connection.execute(sa.select(sa.func.min(h.c.seq))).scalar(),
        connection.execute(
            sa.select(sa.func.min(d.c.seq)).where(d.c.at < horizon, ~digest, shown)
        ).scalar(),
    ]
    for profiles in connection.execute(sa.select(d.c.profiles).where(digest, shown)).scalars():
        found.append(msgspec.json.decode(profiles)[0][0])  # its items are ascending
    return min((seq for seq in found if seq is not None), default=None)
