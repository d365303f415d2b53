"""A share of a tenant's profiles, played wherever it is asked for.

In: a stretch of a tenant's entries, and the seq that it follows on. Out: an ``Answer``: what the
share matches there. A share's state is a function of the log up to a seq, so nothing has to be
handed from process to process: whoever is asked has it, catches up from the log, or builds it from
a snapshot and the log. A copy that is ahead (an attempt that was not written) is thrown away.
No Spark in here, so that it can be tested by itself.
"""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import sqlalchemy as sa

from germane.service import snapshots, tables
from germane.service.log import Log, Stored, read_up_to
from germane.service.settings import Settings, open_log
from germane.service.tenant import WHOLE, Share, Tenant

PART = 20_000
MOST_COPIES = 64
FIGURES = (
    "conjunctions", "candidates", "false_positives", "index_updates", "local_updates",
    "escalations", "deescalations", "blocks_opened", "postfiltered", "swept", "bytes",
)  # fmt: skip


class Answer(NamedTuple):
    """What a share has to say of some entries of a tenant."""

    share: int
    tenant: int
    after: int
    last: int
    seqs: bytes  # int64, of messages, with
    profiles: bytes  # the profiles that they match
    dead: bytes  # JSON: (seq, kind, reason)
    figures: bytes = b"{}"  # JSON: what its filter has done so far
    fault: str | None = None  # the filter broke: the other fields say nothing


class Copy(NamedTuple):
    """A share as this process has it."""

    tenant: Tenant
    saved: tuple[int, float]  # seq and time of its snapshot


COPIES: dict[tuple[str, int, Share], Copy] = {}
"""This process's copies, the last used last."""
_LOGS: dict[tuple[str, str], Log] = {}


def log_of(settings: Settings) -> Log:
    """The log of an installation, opened once in a process."""
    key = (settings.data, settings.log)
    if key not in _LOGS:
        _LOGS[key] = open_log(settings)
    return _LOGS[key]


def play(
    settings: Settings,
    share: Share,
    number: int,
    after: int,
    entries: list[Stored],
    poison: frozenset[int],
) -> Answer:
    """Take a tenant's entries, which follow on a seq."""
    try:
        copy = caught_up(settings, share, number, after, poison)
        step = copy.tenant.play(entries)
    except (OSError, sa.exc.DBAPIError):  # the log or the store is away: somebody tries again
        raise
    except Exception as error:
        nothing = Answer(share.number, number, after, entries[-1].last, b"", b"", b"[]")
        return nothing._replace(fault=repr(error))
    _keep(settings, copy)
    return Answer(
        share.number, number, after, entries[-1].last,
        b"".join(m.seqs.astype(np.int64).tobytes() for m in step.matched),
        b"".join(m.profiles.astype(np.int64).tobytes() for m in step.matched),
        msgspec.json.encode(step.dead), msgspec.json.encode(figures_of(copy.tenant)),
    )  # fmt: skip


def figures_of(tenant: Tenant) -> dict[str, int]:
    """What a share's filter has done, as far as it can be added up."""
    stats = tenant.filter.stats()
    return {name: int(stats[name]) for name in FIGURES}


def caught_up(
    settings: Settings, share: Share, number: int, at: int, poison: frozenset[int]
) -> Copy:
    """A share at a seq; it is taken out until it is kept again."""
    copy = COPIES.pop((settings.data, number, share), None)
    if copy is None or copy.tenant.seq > at or copy.tenant.poison != poison:
        tenant = Tenant(number, settings.index, _texts(settings), share)
        tenant.poison = set(poison)
        load(settings, tenant, at)
        copy = Copy(tenant, (tenant.seq, time.monotonic()))
    log, tenant = log_of(settings), copy.tenant
    while tenant.seq < at:
        entries = read_up_to(log, tenant.seq, at, number, PART)
        if not entries:
            break
        tenant.play(entries)
    tenant.seq = max(tenant.seq, at)
    return copy


def load(settings: Settings, tenant: Tenant, up_to: int) -> bool:
    """Fill a share from its newest snapshot, or a newer one of the whole; whether it was."""
    own, whole = folder_of(settings, tenant.share), settings.snapshots
    newest = sorted({own, whole}, key=lambda p: -snapshots.newest(p, tenant.number, up_to))
    if not any(snapshots.load(place, tenant, up_to) for place in newest):
        return False
    for profile in list(tenant.filter._profiles.ids) if tenant.share != WHOLE else ():
        if not tenant.share.keeps(profile):
            tenant.filter.unsubscribe(profile)
    return True


def folder_of(settings: Settings, share: Share) -> Path:
    """Where the snapshots of a share are; nobody mistakes them for those of the whole."""
    if share == WHOLE:
        return settings.snapshots
    return settings.snapshots / f"share-{share.number}-of-{share.of}"


def _keep(settings: Settings, copy: Copy) -> None:
    """Have a copy for the next time, on disk too if that was long ago."""
    tenant, (seq, at) = copy
    grown, moment = tenant.seq - seq, time.monotonic()
    if grown >= settings.snapshot_events or moment - at >= settings.snapshot_seconds:
        with suppress(OSError):  # the log has it all
            snapshots.save(folder_of(settings, tenant.share), tenant)
        copy = Copy(tenant, (tenant.seq, moment))
    COPIES[settings.data, tenant.number, tenant.share] = copy
    while len(COPIES) > MOST_COPIES:
        del COPIES[next(iter(COPIES))]


def _texts(settings: Settings) -> Any:
    """Bodies of subscriptions that were written before; asked for when a graph comes."""

    def texts(tenant: int, numbers: list[int]) -> dict[int, str]:
        engine = tables.open_store(settings.store_url)
        try:
            return tables.bodies(engine, tenant, numbers)
        finally:
            engine.dispose()

    return texts
