"""Who may do what: tokens with a tenant, a role and, for subscribers, a name.

A token is 256 random bits, shown once; the table has its SHA-256. Random as it is, it needs no salt
and no slow hash. Look-ups are kept for a few seconds, so that revoking takes effect soon.
"""

import hashlib
import secrets
import threading
import time
from typing import NamedTuple

import sqlalchemy as sa

from germane.model import InvalidValue
from germane.service import tables
from germane.service.clock import Clock, now

PUBLISHER, SUBSCRIBER, OPERATOR, ROOT = ROLES = ("publisher", "subscriber", "operator", "root")
KEPT_S = 2.0
MOST_KEPT = 10_000
PREFIX = "gm_"


class Holder(NamedTuple):
    """Who is asking."""

    token: str  # its id
    tenant: int
    role: str
    subject: str | None

    @property
    def operates(self) -> bool:
        """Whether everything in the tenant is open."""
        return self.role in (OPERATOR, ROOT)


def digest(secret: str) -> str:
    """What the table has of a token."""
    return hashlib.sha256(secret.encode()).hexdigest()


def issue(
    connection: sa.Connection, tenant: int, role: str, subject: str | None, clock: Clock = now
) -> tuple[str, str]:
    """Make a token; its id, and the secret that is shown once."""
    if role not in ROLES:
        raise InvalidValue(f"a role is one of {', '.join(ROLES)}, not {role!r}")
    if (role == SUBSCRIBER) != (subject is not None):
        raise InvalidValue("a subscriber's token has a subject, the subscriber's name; others none")
    id_, secret = f"t_{secrets.token_hex(8)}", PREFIX + secrets.token_urlsafe(32)
    connection.execute(
        sa.insert(tables.tokens).values(
            id=id_, hash=digest(secret), tenant=tenant, role=role, subject=subject, created=clock()
        )
    )
    return id_, secret


def make_tenant(connection: sa.Connection, name: str, clock: Clock = now) -> int:
    """Make a tenant; its number."""
    if not name or len(name) > 200:
        raise InvalidValue(f"a tenant's name has 1 to 200 characters, not {name!r:.250}")
    t = tables.tenants
    if connection.execute(sa.select(t.c.id).where(t.c.name == name)).first():
        raise InvalidValue(f"there is a tenant {name!r} already")
    number = int(connection.execute(sa.select(sa.func.max(t.c.id))).scalar() or 0) + 1
    connection.execute(sa.insert(t).values(id=number, name=name, created=clock()))
    return number


class Tokens:
    """Tokens, looked up."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._kept: dict[str, tuple[float, Holder | None]] = {}
        self._lock = threading.Lock()

    def known(self, secret: str) -> tuple[bool, Holder | None]:
        """Whether a token was looked up lately, and whose it is."""
        found = self._kept.get(digest(secret))
        if found is None or found[0] < time.monotonic():
            return False, None
        return True, found[1]

    def holder(self, secret: str) -> Holder | None:
        """Whose a token is; None if it is nobody's."""
        known, holder = self.known(secret)
        if known:
            return holder
        hashed = digest(secret)
        t = tables.tokens
        with self._engine.connect() as connection:
            row = connection.execute(
                sa.select(t.c.id, t.c.tenant, t.c.role, t.c.subject).where(
                    t.c.hash == hashed, t.c.revoked.is_(None)
                )
            ).first()
        holder = Holder(*row) if row else None
        with self._lock:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[hashed] = (time.monotonic() + KEPT_S, holder)
        return holder

    def forget(self) -> None:
        """Look everything up again."""
        with self._lock:
            self._kept.clear()
