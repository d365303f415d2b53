"""Time, as everything in the service asks for it: microseconds since 1970 UTC.

Rules of delivery take a clock instead of the machine's, so that tests can let hours pass, and jump.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], int]
SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now() -> int:
    """The machine's time."""
    return time.time_ns() // 1000


def as_text(micros: int) -> str:
    """RFC 3339 in UTC.

    >>> as_text(1_763_400_000_000_000)
    '2025-11-17T17:20:00Z'
    """
    return (EPOCH + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")


def of_datetime(moment: datetime) -> int:
    """Microseconds of a datetime; without a zone it is taken as UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(microseconds=1)
