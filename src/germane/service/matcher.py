"""The matcher: reads the log, matches, and writes deliveries with its position in one transaction.

In: the log. Out: the tables. A round takes a share of events of every tenant that has something to
do, plays them through its filter, and commits all of it at once; so whatever is killed when, a
delivery is there iff its message's seq is not after the tenant's position. A share is bounded by
time, not only by number, so that one tenant's hard conditions do not delay another's easy ones.
"""

import time
from collections.abc import Callable
from contextlib import suppress

import msgspec
import sqlalchemy as sa
import structlog

from germane.service import log as logs
from germane.service import shares, snapshots, tables
from germane.service.clock import Clock, now
from germane.service.cloudevents import events_of
from germane.service.delivering import Counters, deliver, due_subscribers, release
from germane.service.gauges import Gauges
from germane.service.log import Log, LogError, Stored
from germane.service.questions import Questions
from germane.service.retention import Retention
from germane.service.settings import Settings
from germane.service.tenant import WHOLE, Dead, Share, Step, Tenant
from germane.service.writing import write_release, write_step

SLICE_S = 0.030
"""What a tenant's share of a round should take."""
LEAST_SHARE, MOST_SHARE = 256, 20_000
IDLE_S = 0.25
TICK_S = 0.05
RETRY_S = (0.1, 5.0)

journal = structlog.get_logger("matcher")


class Matcher:
    """One process's work."""

    holds: Share = WHOLE  # the profiles that this process matches itself

    def __init__(self, settings: Settings, log: Log, engine: sa.Engine, clock: Clock = now) -> None:
        self.settings = settings
        self.log = log
        self.engine = engine
        self.clock = clock
        self.tenants: dict[int, Tenant] = {}
        self.counters: dict[int, Counters] = {}
        self.pending: dict[int, int] = {}  # tenant -> the last seq that is logged for it
        self.share: dict[int, int] = {}
        self.seen = 0  # entries up to it are in the filters or in pending
        self.gauges = Gauges(clock)
        self.questions: Questions | None = None
        self.stopping = False
        self.opened = False
        self.compiling: Callable[[], bool] | None = None  # kernels of indexes, on the side
        self.retention = Retention(log, engine, clock)
        self._saved: dict[int, tuple[int, float]] = {}  # tenant -> seq and time of its snapshot
        self._next_tick = 0.0

    # starting ------------------------------------------------------------------------------------

    def open(self) -> None:
        """Bring every tenant to its position."""
        self.seen = self.log.bounds()[1]
        with self.engine.connect() as connection:
            numbers = connection.execute(sa.select(tables.tenants.c.id)).scalars().all()
        for number in numbers:
            tenant = self._tenant(number)
            last = self.log.read_back(self.seen + 1, 1, number)
            self.pending[number] = max(last[0].last if last else 0, tenant.seq)
        self.opened = True

    def _tenant(self, number: int) -> Tenant:
        found = self.tenants.get(number)
        if found is None:
            found = self.tenants[number] = self._load(number)
        return found

    def _load(self, number: int) -> Tenant:
        """A tenant as it was at its position: its snapshot, and the log from there."""
        try:
            return self._restore(number, Tenant.play)
        except (LogError, sa.exc.DBAPIError):
            raise
        except Exception as error:  # together they break the filter; by itself each was well
            journal.exception("replay_failed", tenant=number, error=repr(error))
            return self._restore(number, _play_each)

    def _restore(self, number: int, play: Callable[[Tenant, list[Stored]], object]) -> Tenant:
        started = time.monotonic()
        tenant = Tenant(number, self.settings.index, self._texts, self.holds)
        with self.engine.connect() as connection:
            position = self._read_position(connection, number)
            tenant.poison = self._read_poison(connection, number)
            self.counters[number] = self._read_counters(connection, number)
        shares.load(self.settings, tenant, position)
        tenant.filter.postpone_indexes(self.compiling is not None and self.compiling())
        first = self.log.bounds()[0]
        if tenant.seq + 1 < first and tenant.seq < position:
            journal.warning("log_trimmed", tenant=number, snapshot=tenant.seq, first=first)
        from_snapshot = tenant.seq
        while tenant.seq < position:
            entries = logs.read_up_to(self.log, tenant.seq, position, number, MOST_SHARE)
            if not entries:
                break
            play(tenant, entries)
        tenant.seq = max(tenant.seq, position)
        self._saved[number] = (from_snapshot, time.monotonic())
        journal.info(
            "tenant_loaded", tenant=number, snapshot=from_snapshot, position=position,
            seconds=round(time.monotonic() - started, 3),
        )  # fmt: skip
        return tenant

    @staticmethod
    def _read_position(connection: sa.Connection, tenant: int) -> int:
        t = tables.positions
        found = connection.execute(sa.select(t.c.seq).where(t.c.tenant == tenant)).scalar()
        return int(found or 0)

    @staticmethod
    def _read_poison(connection: sa.Connection, tenant: int) -> set[int]:
        t = tables.deadletters
        found = connection.execute(
            sa.select(t.c.seq).where(t.c.tenant == tenant, t.c.kind == POISON)
        )
        return set(found.scalars())

    @staticmethod
    def _read_counters(connection: sa.Connection, tenant: int) -> Counters:
        def last(table: sa.Table, column: str) -> int:
            query = sa.select(sa.func.max(table.c[column])).where(table.c.tenant == tenant)
            return int(connection.execute(query).scalar() or 0)

        before = last(tables.taken_back, "delivery")
        return Counters(max(last(tables.deliveries, "id"), before), last(tables.deadletters, "id"))

    def _texts(self, tenant: int, numbers: list[int]) -> dict[int, str]:
        """Bodies of subscriptions that were written before this round."""
        return tables.bodies(self.engine, tenant, numbers)

    # rounds --------------------------------------------------------------------------------------

    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Work until somebody says stop; what was begun is finished."""
        if not self.opened:
            self.open()
        journal.info("matcher_ready", seen=self.seen, tenants=len(self.tenants))
        while not (self.stopping or stop()):
            try:
                busy = self.round()
            except LogError as error:
                journal.error("log_away", error=str(error))
                time.sleep(RETRY_S[0])
                continue
            self.tick(busy)
            if self.questions is not None:
                self.questions.answer(self)
            if not busy:
                with suppress(LogError):  # the next round says so
                    self.log.wait(self.seen, self._nap())
        self.save_all()

    def _nap(self) -> float:
        return 0.002 if self.questions is not None and self.questions.waiting else 0.010

    def round(self) -> bool:
        """Take a share of every tenant that has something to do; whether any had."""
        for number, last in self.log.tenants(self.seen).items():
            self.pending[number] = last
            self.seen = max(self.seen, last)
        busy = [n for n, last in self.pending.items() if self._tenant(n).seq < last]
        if not busy:
            return False
        most = max(self.settings.round_events // len(busy), LEAST_SHARE)
        steps: list[tuple[Tenant, Step]] = []
        taken: list[tuple[int, list[Stored]]] = []
        for number in busy:
            share = min(self.share.get(number, 1000), most)
            started = time.perf_counter()
            entries = self.log.read(self.tenants[number].seq, share, number)
            step = self._play(number, entries)
            took = time.perf_counter() - started
            self._adapt(number, step.n_events, took)
            self.gauges.played(number, step, took)
            steps.append((self.tenants[number], step))
            taken.append((number, entries))
        try:
            self._write(steps)
        except sa.exc.DataError:
            for number, entries in taken:
                self._write_carefully(number, entries)
        return True

    def _adapt(self, number: int, n: int, took: float) -> None:
        """Let a tenant's next share take about as long as everyone's."""
        if n:
            wanted = int(n * SLICE_S / max(took, 1e-6))
            self.share[number] = min(max(wanted, LEAST_SHARE), MOST_SHARE)

    def _play(self, number: int, entries: list[Stored]) -> Step:
        try:
            return self.tenants[number].play(entries)
        except Exception as error:
            journal.exception("batch_failed", tenant=number, seq=entries[0].seq, error=repr(error))
            return self._play_carefully(number, entries)

    def _play_carefully(self, number: int, entries: list[Stored]) -> Step:
        """Play the events of a batch one by one, without those that break the filter.

        So goes a batch, too, that breaks it though none of its events does by itself.
        """
        poison: dict[int, str] = {}
        while True:
            tenant = self.tenants[number] = self._load(number)
            tenant.poison |= poison.keys()
            step = Step()
            fault = _play_singly(tenant, entries, step)
            if fault is None:
                break
            poison |= fault
        tenant.seq = max(tenant.seq, entries[-1].last)
        step.dead += [Dead(seq, POISON, reason) for seq, reason in poison.items()]
        return step

    def _write(self, steps: list[tuple[Tenant, Step]]) -> None:
        """Commit a round; where the store cannot take it now, again until it does.

        Raises what it will never take: ``DataError``.
        """
        before = {t.number: vars(self.counters[t.number]).copy() for t, _ in steps}
        delay = RETRY_S[0]
        while True:
            moment = self.clock()
            try:
                written = []
                with tables.writing(self.engine) as connection:
                    for tenant, step in steps:
                        counters = self.counters[tenant.number]
                        rows = deliver(connection, tenant, counters, step, moment)
                        write_step(connection, tenant, counters, step, rows, moment)
                        written.append((tenant.number, rows.deliveries))
                self.gauges.delivered(written)
                return
            except sa.exc.DBAPIError as error:
                for number, values in before.items():
                    vars(self.counters[number]).update(values)
                if isinstance(error, sa.exc.DataError):
                    raise
                journal.error("store_refused", error=str(error.orig), again_in_s=delay)
                time.sleep(delay)
                delay = min(delay * 2, RETRY_S[1])

    def _write_carefully(self, number: int, entries: list[Stored]) -> None:
        """Commit event by event, from the last position; what the store refuses is passed over."""
        self.tenants[number] = self._load(number)
        for entry in _singly(entries):
            if entry.last <= self.tenants[number].seq:
                continue
            step = self._play(number, [entry])
            try:
                self._write([(self.tenants[number], step)])
            except sa.exc.DataError as error:
                journal.error("event_refused", tenant=number, seq=entry.seq, error=str(error.orig))
                tenant = self.tenants[number] = self._load(number)
                tenant.poison.add(entry.seq)
                step = tenant.play([entry])
                step.dead.append(Dead(entry.seq, POISON, f"the store: {error.orig!s:.500}"))
                self._write([(tenant, step)])

    # between rounds ------------------------------------------------------------------------------

    def tick(self, busy: bool) -> None:
        """What has to be done now and then: releases, gauges, snapshots, trimming."""
        moment = time.monotonic()
        if moment < self._next_tick:
            return
        self._next_tick = moment + TICK_S
        if self.compiling is not None and not self.compiling():
            self.compiling = None
            for tenant in self.tenants.values():
                tenant.filter.postpone_indexes(False)
        try:
            self.release_due()
            if self.gauges.due():
                lag = {n: last - self.tenants[n].seq for n, last in self.pending.items()}
                self.gauges.write(self.engine, self.tenants, lag)
        except sa.exc.DBAPIError as error:
            journal.error("store_refused", error=str(error.orig))
        for number, tenant in self.tenants.items():
            seq, at = self._saved.get(number, (0, moment))
            grown, aged = tenant.seq - seq, moment - at
            if grown >= self.settings.snapshot_events or (
                grown and not busy and aged >= self.settings.snapshot_seconds
            ):
                self._save(tenant)
        if self.retention.due():
            self._trim()
        self._unblock()

    def release_due(self) -> int:
        """Let go of what is held and due; how many deliveries became visible."""
        moment = self.clock()
        with self.engine.connect() as connection:
            due = due_subscribers(connection, moment)
        n = 0
        for number, people in due.items():
            tenant, counters = self._tenant(number), self.counters[number]
            before = vars(counters).copy()
            try:
                with tables.writing(self.engine) as connection:
                    for subscriber in people:
                        rows = release(connection, tenant, counters, subscriber, moment)
                        write_release(connection, rows)
                        n += len(rows.deliveries)
            except sa.exc.DBAPIError:
                vars(counters).update(before)
                raise
        return n

    def _save(self, tenant: Tenant, again: bool = False) -> None:
        self._saved[tenant.number] = (tenant.seq, time.monotonic())
        try:
            snapshots.save(shares.folder_of(self.settings, self.holds), tenant, again)
        except OSError as error:
            journal.error("snapshot_failed", tenant=tenant.number, error=str(error))

    def _trim(self) -> None:
        """Forget what is older than the retention, and in every tenant's snapshots."""
        if self.settings.retention_days and self.tenants:
            lasts = {number: self.counters[number].delivery for number in self.tenants}
            self.retention.go_on(self.settings, self.seen, lasts)

    def _unblock(self) -> None:
        """Save one of the tenants whose old snapshots keep the log from being trimmed."""
        while self.retention.blocking:
            tenant = self.tenants[self.retention.blocking.pop()]
            newer = tenant.seq > self._saved.get(tenant.number, (0, 0.0))[0]
            if newer or snapshots.oldest(self.settings.snapshots, tenant.number) < tenant.seq:
                self._save(tenant, again=not newer)
                return

    def save_all(self) -> None:
        """Snapshots of all tenants that have changed: the next start is quick."""
        for number, tenant in self.tenants.items():
            if tenant.seq > self._saved.get(number, (0, 0.0))[0]:
                self._save(tenant)
        self._trim()


POISON = "poison"


def _play_singly(tenant: Tenant, entries: list[Stored], step: Step) -> dict[int, str] | None:
    """Play events one by one until one breaks the filter: its seq and the reason, if one does."""
    for entry in _singly(entries):
        if entry.last <= tenant.seq:  # taken before, with a part of its entry
            continue
        try:
            tenant.play([entry], step=step)
        except Exception as error:
            return {entry.seq: f"the filter failed: {error!r:.500}"}
    return None


def _play_each(tenant: Tenant, entries: list[Stored]) -> None:
    """Play events one by one."""
    for entry in _singly(entries):
        if entry.last > tenant.seq:
            tenant.play([entry])


def _singly(entries: list[Stored]) -> list[Stored]:
    """Each event as an entry of its own."""
    out = []
    for entry in entries:
        if entry.kind != logs.EVENTS:
            out.append(entry)
            continue
        for i, event in enumerate(events_of(entry.body)):
            body = msgspec.json.encode([event])
            out.append(entry._replace(seq=entry.seq + i, n=1, body=body))
    return out
