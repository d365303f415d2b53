"""When a person wants to hear: quiet hours, digests, snoozes, rates. Pure functions of a time.

In: a person's preferences, and what is known of the delivery. Out: now, or until when it is held
and why. Nothing is ever dropped here: whatever is held has a time at which it is looked at again.
"""

from datetime import UTC, datetime, time, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from germane.model import InvalidValue
from germane.service.clock import EPOCH, SECOND, of_datetime

SNOOZED, QUIET, DIGEST, RATE = "snoozed", "quiet", "digest", "rate"
LONGEST_S = 366 * 24 * 3600.0


class Quiet(NamedTuple):
    """Hours of the day, in somebody's time zone, that may span midnight."""

    begin: time
    end: time
    zone: ZoneInfo

    def until(self, now: int) -> int | None:
        """The end of the quiet hours that it is in; None outside of them."""
        moment = (EPOCH + timedelta(microseconds=now)).astimezone(self.zone)
        clock = moment.time()
        if self.begin <= self.end:
            quiet, later = self.begin <= clock < self.end, False
        else:
            quiet, later = clock >= self.begin or clock < self.end, clock >= self.begin
        if not quiet:
            return None
        day = moment.date() + timedelta(days=1) if later else moment.date()
        end = datetime.combine(day, self.end, self.zone)
        # An hour that the clock skips in spring does not exist: a moment later then.
        return max(of_datetime(end.astimezone(UTC)), now + 1)


class Preferences(NamedTuple):
    """How somebody wants deliveries."""

    quiet: Quiet | None = None
    digest_seconds: float | None = None
    digest_count: int | None = None
    rate_limit: int | None = None
    rate_seconds: float = 60.0
    snoozed_until: int | None = None

    @property
    def digests(self) -> bool:
        """Whether deliveries are gathered."""
        return self.digest_seconds is not None or self.digest_count is not None


NONE = Preferences()


class _Quiet(msgspec.Struct, forbid_unknown_fields=True, rename={"begin": "from"}):
    begin: str
    to: str
    zone: str = "UTC"


class _Digest(msgspec.Struct, forbid_unknown_fields=True):
    seconds: float | None = None
    count: int | None = None


class _Rate(msgspec.Struct, forbid_unknown_fields=True):
    limit: int
    seconds: float = 60.0


class _Preferences(msgspec.Struct, forbid_unknown_fields=True):
    quiet: _Quiet | None = None
    digest: _Digest | None = None
    rate: _Rate | None = None
    snoozed_until: datetime | None = None


def preferences(values: Any) -> Preferences:
    """Preferences as JSON has them, checked."""
    try:
        given = msgspec.convert(values or {}, _Preferences)
    except msgspec.ValidationError as error:
        raise InvalidValue(f"preferences: {error}") from None
    digest, rate = given.digest or _Digest(), given.rate
    for what, number in (
        ("digest.seconds", digest.seconds), ("digest.count", digest.count),
        ("rate.limit", rate.limit if rate else None),
        ("rate.seconds", rate.seconds if rate else None),
    ):  # fmt: skip
        if number is not None and not 1 <= number <= LONGEST_S:
            raise InvalidValue(f"preferences: {what} is between 1 and {LONGEST_S:.0f}")
    return Preferences(
        _quiet(given.quiet),
        digest.seconds,
        digest.count,
        rate.limit if rate else None,
        rate.seconds if rate else 60.0,
        of_datetime(given.snoozed_until) if given.snoozed_until else None,
    )


def _quiet(given: _Quiet | None) -> Quiet | None:
    if given is None:
        return None
    try:
        begin, end = time.fromisoformat(given.begin), time.fromisoformat(given.to)
        zone = ZoneInfo(given.zone)
    except (ValueError, ZoneInfoNotFoundError, OSError) as error:
        raise InvalidValue(
            "preferences: quiet hours are {'from': '22:00', 'to': '07:00', 'zone': "
            f"'Europe/Berlin'}}: {error}"
        ) from None
    if begin == end or begin.tzinfo or end.tzinfo:
        raise InvalidValue("preferences: quiet hours begin and end at two times of the day")
    return Quiet(begin, end, zone)


def moment(text: str | None) -> int | None:
    """Microseconds of a time in RFC 3339."""
    if text is None:
        return None
    try:
        return of_datetime(msgspec.convert(text, datetime))
    except msgspec.ValidationError:
        raise InvalidValue(f"a time is written 2026-11-18T08:00:00Z, not {text!r:.200}") from None


class Hold(NamedTuple):
    """Until when a delivery waits, and for what."""

    due: int
    why: str


def hold(
    wishes: Preferences,
    now: int,
    snoozed_until: int | None = None,
    gathered: tuple[int, int] | None = None,
    recent: list[int] | None = None,
) -> Hold | None:
    """Whether a delivery has to wait now; asked again when its time has come.

    ``gathered`` is how many deliveries a digest would have, this one included, and when the oldest
    of them was due to be heard of; ``recent`` are the times of the last deliveries, ascending.
    """
    snooze = max(wishes.snoozed_until or 0, snoozed_until or 0)
    if snooze > now:
        return Hold(snooze, SNOOZED)
    if wishes.quiet is not None:
        end = wishes.quiet.until(now)
        if end is not None:
            return Hold(end, QUIET)
    if wishes.digests and gathered is not None:
        n, oldest = gathered
        if wishes.digest_count is None or n < wishes.digest_count:
            wait = wishes.digest_seconds if wishes.digest_seconds is not None else LONGEST_S
            due = oldest + int(wait * SECOND)
            if due > now:
                return Hold(due, DIGEST)
    if wishes.rate_limit is not None and recent:
        window = int(wishes.rate_seconds * SECOND)
        within = [t for t in recent if now - window < t <= now]
        if len(within) >= wishes.rate_limit:
            return Hold(within[-wishes.rate_limit] + window, RATE)
    return None
