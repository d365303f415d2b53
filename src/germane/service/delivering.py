"""Matches -> deliveries: one a person and message, now or later.

In: what a step of a tenant matched. Out: rows of ``deliveries``, ``held`` and ``outbox``, which the
matcher writes in the transaction of its position. Subscribers without wishes are handled in
columns; the others one by one, with the rules of ``holding``. What is held is looked at again when
its time has come, by ``release``; a delivery gets its id when it becomes visible, so ids are the
order of the feed.
"""

from collections import Counter, defaultdict
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np
import sqlalchemy as sa

from germane.service import holding, tables
from germane.service.books import Subscription
from germane.service.tenant import Matched, Step, Tenant

MOST_RELEASED = 2_000
"""Held rows that are looked at in one transaction."""
WAITING, SENT, DEAD, GONE = "waiting", "sent", "dead", "gone"


class Counters:
    """The last numbers given out in a tenant's tables."""

    def __init__(self, delivery: int = 0, deadletter: int = 0) -> None:
        self.delivery = delivery
        self.deadletter = deadletter

    def deliveries(self, n: int) -> range:
        """Ids of the next deliveries."""
        self.delivery += n
        return range(self.delivery - n + 1, self.delivery + 1)


class Rows(NamedTuple):
    """Rows to be written."""

    deliveries: list[tuple[Any, ...]]
    held: list[tuple[Any, ...]]
    outbox: list[tuple[Any, ...]]


class Held(NamedTuple):
    """A delivery that waits, as the table has it."""

    subscriber: int
    seq: int
    at: int
    due: int
    why: str
    expires: int | None
    profiles: str  # JSON


Ready = tuple[Held, list[Subscription]]
"""Something held, and the subscriptions that it is for."""


def deliver(
    connection: sa.Connection, tenant: Tenant, counters: Counters, step: Step, now: int
) -> Rows:
    """Turn the matches of a step into rows; deliveries get their ids."""
    desk = Desk(connection, tenant, counters, now, Rows([], [], []))
    for matched in step.matched:
        _deliver(desk, matched, step)
    return desk.rows


def _deliver(desk: "Desk", matched: Matched, step: Step) -> None:
    now = desk.now
    seqs, profiles, whose = matched.seqs, matched.profiles, matched.whose
    people, special = whose.people, whose.special
    expired = [seq for seq, expires in matched.expires.items() if expires <= now]
    if expired:
        kept = ~np.isin(seqs, expired)
        seqs, profiles, people, special = seqs[kept], profiles[kept], people[kept], special[kept]
    if not len(seqs):
        return
    order = np.lexsort((people, seqs))
    seqs, profiles, people = seqs[order], profiles[order], people[order]
    new = np.concatenate(([True], (np.diff(seqs) != 0) | (np.diff(people) != 0)))
    begins = np.flatnonzero(new)
    special = np.logical_or.reduceat(special[order], begins)
    ats = _accepted(step, seqs[begins])
    texts = _texts(profiles, begins)
    plain = np.flatnonzero(~special)
    ids = desk.counters.deliveries(len(plain))
    number = desk.tenant.number
    desk.rows.deliveries.extend(
        zip(
            [number] * len(plain), ids, people[begins[plain]].tolist(),
            seqs[begins[plain]].tolist(), ats[plain].tolist(), [now] * len(plain),
            [None] * len(plain), [texts[i] for i in plain.tolist()], strict=True,
        )
    )  # fmt: skip
    if not special.any():
        return
    ends = np.append(begins[1:], len(seqs))
    for i in np.flatnonzero(special).tolist():
        seq, who = int(seqs[begins[i]]), int(people[begins[i]])
        given = [
            whose.subscriptions.get(number) or Subscription(number, "", who)
            for number in profiles[begins[i] : ends[i]].tolist()
        ]
        desk.take(
            who, seq, int(ats[i]), given, whose.wishes.get(who, holding.NONE),
            seq in matched.urgent, matched.expires.get(seq),
        )  # fmt: skip


def _texts(profiles: Any, begins: Any) -> list[str]:
    """The profiles of each group as JSON."""
    if len(begins) == len(profiles):
        return [f"[{p}]" for p in profiles.tolist()]
    return [str(part.tolist()) for part in np.split(profiles, begins[1:])]


def _accepted(step: Step, seqs: Any) -> Any:
    """When the messages with these seqs were accepted."""
    firsts = np.array([first for first, _ in step.ats], np.int64)
    ats = np.array([at for _, at in step.ats], np.int64)
    return ats[np.searchsorted(firsts, seqs, side="right") - 1]


class Desk:
    """Deliveries with wishes, one by one, within one transaction."""

    def __init__(
        self, connection: sa.Connection, tenant: Tenant, counters: Counters, now: int, rows: Rows
    ) -> None:
        self.connection = connection
        self.tenant = tenant
        self.counters = counters
        self.now = now
        self.rows = rows
        self._recent: dict[int, list[int]] = {}
        self._made: Counter[int] = Counter()  # of the first so many rows
        self._counted = 0
        self._waiting: dict[int, tuple[int, int | None]] = {}

    def take(
        self,
        subscriber: int,
        seq: int,
        at: int,
        given: list[Subscription],
        wishes: holding.Preferences,
        urgent: bool,
        expires: int | None,
    ) -> None:
        """Deliver a message to somebody with wishes, or hold it."""
        now = self.now
        live = [s for s in given if not s.muted and (s.expires is None or s.expires > now)]
        if not live:
            return
        awake = [s for s in live if (s.snoozed_until or 0) <= now]
        snoozed = None if awake else min(s.snoozed_until or 0 for s in live)
        if urgent or any(s.urgent for s in live):
            self.release_one(subscriber, seq, at, live, None)
            return
        gathered = None
        if wishes.digests:
            n, oldest = self.waiting(subscriber)
            gathered = (n + 1, now if oldest is None else min(oldest, now))
        kept = holding.hold(wishes, now, snoozed, gathered, self.recent(subscriber, wishes))
        if kept is None and not wishes.digests:
            self.release_one(subscriber, seq, at, live, None)
            return
        due, why = kept or (now, holding.DIGEST)  # a digest that is complete leaves at once
        n, oldest = self.waiting(subscriber)
        if why == holding.DIGEST:
            oldest = at if oldest is None else min(oldest, at)
        self._waiting[subscriber] = n + 1, oldest
        row = Held(subscriber, seq, at, due, why, expires, str([s.number for s in live]))
        self.rows.held.append((self.tenant.number, *row))

    def release_one(
        self, subscriber: int, seq: int, at: int, given: list[Subscription], why: str | None
    ) -> None:
        """A delivery becomes visible."""
        self._visible(subscriber, seq, at, why, str([s.number for s in given]), given)

    def release_digest(self, subscriber: int, items: list[Ready]) -> None:
        """Deliveries become visible as one."""
        listed = [(row.seq, row.at, [s.number for s in given]) for row, given in items]
        seq, at, _ = listed[-1]
        text = msgspec.json.encode(listed).decode()
        given = [s for _, some in items for s in some]
        self._visible(subscriber, seq, at, holding.DIGEST, text, given)

    def _visible(
        self,
        subscriber: int,
        seq: int,
        at: int,
        why: str | None,
        text: str,
        given: list[Subscription],
    ) -> None:
        tenant, now = self.tenant, self.now
        [id_] = self.counters.deliveries(1)
        self.rows.deliveries.append((tenant.number, id_, subscriber, seq, at, now, why, text))
        if subscriber in self._recent:
            self._recent[subscriber].append(now)
        sinks = {s.sink for s in given if s.sink is not None}
        self.rows.outbox.extend(
            (tenant.number, id_, sink, WAITING, 0, now, None, now) for sink in sorted(sinks)
        )

    def recent(self, subscriber: int, wishes: holding.Preferences) -> list[int] | None:
        """When the last deliveries of somebody with a rate became visible, ascending."""
        if wishes.rate_limit is None:
            return None
        if subscriber not in self._recent:
            found = self.connection.execute(
                sa.select(tables.deliveries.c.released)
                .where(
                    tables.deliveries.c.tenant == self.tenant.number,
                    tables.deliveries.c.subscriber == subscriber,
                )
                .order_by(tables.deliveries.c.id.desc())
                .limit(wishes.rate_limit)
            ).scalars()
            self._recent[subscriber] = sorted(found) + [self.now] * self._made_for(subscriber)
        return self._recent[subscriber]

    def _made_for(self, subscriber: int) -> int:
        """How many deliveries of somebody are not in the table yet."""
        rows = self.rows.deliveries
        self._made.update(row[2] for row in rows[self._counted :])
        self._counted = len(rows)
        return self._made[subscriber]

    def waiting(self, subscriber: int) -> tuple[int, int | None]:
        """How many are held for somebody, and when the first of a digest was accepted."""
        if subscriber not in self._waiting:
            t = tables.held
            first = sa.func.min(sa.case((t.c.why == holding.DIGEST, t.c.at)))
            n, oldest = self.connection.execute(
                sa.select(sa.func.count(), first).where(
                    t.c.tenant == self.tenant.number, t.c.subscriber == subscriber
                )
            ).one()
            self._waiting[subscriber] = n, oldest
        return self._waiting[subscriber]


def held_of(connection: sa.Connection, tenant: int, subscriber: int) -> list[Held]:
    """What is held for a subscriber, by seq."""
    t = tables.held
    found = connection.execute(
        sa.select(t.c.subscriber, t.c.seq, t.c.at, t.c.due, t.c.why, t.c.expires, t.c.profiles)
        .where(t.c.tenant == tenant, t.c.subscriber == subscriber)
        .order_by(t.c.seq)
    )
    return [Held(*row) for row in found]


def _given(connection: sa.Connection, tenant: int, waiting: list[Held]) -> dict[int, Subscription]:
    """The subscriptions of what is held, by number; also those that have ended since: the books
    have forgotten their sinks and snoozes, the table has not."""
    t = tables.subscriptions
    numbers = {number for row in waiting for number in msgspec.json.decode(row.profiles)}
    wanted, given = sorted(numbers), {}
    for begin in range(0, len(wanted), tables.FEW):
        found = connection.execute(
            sa.select(t.c.number, t.c.id, t.c.subscriber, t.c.sink, t.c.snoozed_until).where(
                t.c.tenant == tenant, t.c.number.in_(wanted[begin : begin + tables.FEW])
            )
        )
        for number, id_, subscriber, sink, until in found:
            given[number] = Subscription(number, id_, subscriber, sink, snoozed_until=until)
    return given


def release(
    connection: sa.Connection, tenant: Tenant, counters: Counters, subscriber: int, now: int
) -> Rows:
    """Look at what is held for somebody again; what may go becomes visible."""
    rows = Rows([], [], [])
    desk = Desk(connection, tenant, counters, now, rows)
    wishes = tenant.books.wishes.get(subscriber, holding.NONE)
    waiting = held_of(connection, tenant.number, subscriber)
    given = _given(connection, tenant.number, waiting)
    gone: list[int] = []
    ready: list[Ready] = []
    for row in waiting:
        if row.expires is not None and row.expires <= now:
            gone.append(row.seq)
        else:
            ready.append((row, [given[n] for n in msgspec.json.decode(row.profiles)]))
    later: list[tuple[int, holding.Hold]] = []
    if wishes.digests:
        _release_digest(desk, wishes, subscriber, ready, gone, later)
    else:
        for row, some in ready:
            recent = desk.recent(subscriber, wishes)
            kept = holding.hold(wishes, now, _snoozed(some, now), None, recent)
            if kept is None:
                why = None if row.why == holding.DIGEST else row.why  # it is none any more
                desk.release_one(subscriber, row.seq, row.at, some, why)
                gone.append(row.seq)
            else:
                later.append((row.seq, kept))
    _write_back(connection, tenant.number, subscriber, gone, later)
    return rows


def _release_digest(
    desk: Desk,
    wishes: holding.Preferences,
    subscriber: int,
    ready: list[Ready],
    gone: list[int],
    later: list[tuple[int, holding.Hold]],
) -> None:
    now = desk.now
    awake: list[Ready] = []
    for row, some in ready:
        until = _snoozed(some, now)
        if until is None:
            awake.append((row, some))
        else:
            later.append((row.seq, holding.Hold(until, holding.SNOOZED)))
    most = wishes.digest_count or len(awake)
    while awake:
        items = awake[:most]  # more than the count may have come at once
        gathered = (len(items), min(row.at for row, _ in items))
        kept = holding.hold(wishes, now, None, gathered, desk.recent(subscriber, wishes))
        if kept is not None:
            later.extend((row.seq, kept) for row, _ in awake)
            return
        desk.release_digest(subscriber, items)
        gone.extend(row.seq for row, _ in items)
        awake = awake[most:]


def _snoozed(given: list[Subscription], now: int) -> int | None:
    """Until when all of some subscriptions are snoozed; None if one is awake."""
    until = min(s.snoozed_until or 0 for s in given)
    return until if until > now else None


def _write_back(
    connection: sa.Connection,
    tenant: int,
    subscriber: int,
    gone: list[int],
    later: list[tuple[int, holding.Hold]],
) -> None:
    t = tables.held
    mine = sa.and_(t.c.tenant == tenant, t.c.subscriber == subscriber)
    if gone:
        connection.execute(
            sa.delete(t).where(mine, t.c.seq == sa.bindparam("s")), [{"s": seq} for seq in gone]
        )
    if later:  # what waits for the same is written in one go: often all that is held
        ranges = []
        for kept, group in groupby(sorted(later), key=itemgetter(1)):
            seqs = [seq for seq, _ in group]
            ranges.append({"a": seqs[0], "b": seqs[-1], "d": kept.due, "w": kept.why})
        connection.execute(
            sa.update(t)
            .where(mine, t.c.seq.between(sa.bindparam("a"), sa.bindparam("b")))
            .values(due=sa.bindparam("d"), why=sa.bindparam("w")),
            ranges,
        )


def due_subscribers(connection: sa.Connection, now: int) -> dict[int, list[int]]:
    """Tenant -> subscribers for whom something held is due."""
    t = tables.held
    found = connection.execute(
        sa.select(t.c.tenant, t.c.subscriber)
        .where(t.c.due <= now)
        .order_by(t.c.due)
        .limit(MOST_RELEASED)
    )
    by_tenant: defaultdict[int, dict[int, None]] = defaultdict(dict)
    for tenant, subscriber in found:
        by_tenant[tenant][subscriber] = None
    return {tenant: list(people) for tenant, people in by_tenant.items()}
