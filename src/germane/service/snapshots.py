"""A tenant in files: its filter and its books at one seq.

The books are written first and the filter last, each renamed into place, so that a filter's file is
there only when all of it is. What cannot be read is passed over: an older one, or the log alone,
gives the same tenant.
"""

import os
from contextlib import suppress
from pathlib import Path

from germane import Filter
from germane.model import GermaneError
from germane.service.books import Books
from germane.service.tenant import Tenant

KEPT = 2
"""Snapshots of a tenant that are kept."""


def save(folder: Path, tenant: Tenant, again: bool = False) -> Path:
    """Write a tenant's snapshot, and remove old ones; ``again`` makes a second one of the same seq,
    so that a tenant to which nothing happens does not need the log back to an older one."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{tenant.number}-{tenant.seq:020d}" + ("-again" if again else "")
    books = folder / f"{name}.json"
    part = books.with_suffix(f".{os.getpid()}.part")
    with part.open("wb") as file:
        file.write(tenant.books.to_json())
        file.flush()
        os.fsync(file.fileno())
    part.rename(books)
    path = folder / f"{name}.germane"
    tenant.filter.save(path)
    for old in _all(folder, tenant.number)[KEPT:]:
        with suppress(OSError):
            old.unlink()
            old.with_suffix(".json").unlink()
    return path


def load(folder: Path, tenant: Tenant, up_to: int) -> bool:
    """Fill a tenant from its newest readable snapshot that is not after a seq; whether it was."""
    for path in _all(folder, tenant.number):
        seq = _seq(path)
        if seq > up_to:
            continue
        with suppress(GermaneError, OSError, ValueError, LookupError, TypeError):
            books = Books.from_json(path.with_suffix(".json").read_bytes())
            tenant.filter = Filter.load(path)
            tenant.books = books
            tenant.seq = seq
            return True
    return False


def newest(folder: Path, tenant: int, up_to: int) -> int:
    """The seq of the newest snapshot of a tenant that is not after a seq; -1 if it has none."""
    return max((s for s in map(_seq, _all(folder, tenant)) if s <= up_to), default=-1)


def oldest(folder: Path, tenant: int) -> int:
    """The seq of the oldest snapshot of a tenant; 0 if it has none."""
    return min((_seq(path) for path in _all(folder, tenant)), default=0)


def forget_after(folder: Path, tenant: int, seq: int) -> None:
    """Remove a tenant's snapshots after a seq."""
    for path in _all(folder, tenant):
        if _seq(path) > seq:
            path.unlink()


def _seq(path: Path) -> int:
    return int(path.stem.split("-")[1])


def _all(folder: Path, tenant: int) -> list[Path]:
    """Snapshots of a tenant, newest first."""
    return sorted(folder.glob(f"{tenant}-*.germane"), key=_seq, reverse=True)
