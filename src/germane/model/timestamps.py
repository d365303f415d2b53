"""Timestamps: ISO 8601 text to whole microseconds since 1970 in UTC.

In: text, as in a condition or a message. Out: an int that float64 holds exactly, since columns of
timestamps share the indexes of numbers. What cannot be held exactly is refused, never rounded.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from germane.model.errors import InvalidValue

__all__ = ["microseconds_of", "parse_timestamp"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TOO_FINE = re.compile(r"[.,][0-9]{6}[0-9]*[1-9]")


def parse_timestamp(text: str) -> int:
    """Microseconds since 1970 of ISO 8601 `text`; without an offset it is UTC.

    >>> parse_timestamp("1970-01-02")
    86400000000
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidValue(
            f"{text!r} is not an ISO 8601 timestamp such as '2026-11-15T16:00:00Z'"
        ) from None
    if _TOO_FINE.search(text):
        raise InvalidValue(f"{text!r} is finer than a microsecond")
    return microseconds_of(moment)


def microseconds_of(moment: datetime) -> int:
    """Microseconds since 1970 of a datetime; a naive one is UTC."""
    if getattr(moment, "nanosecond", 0):  # pandas'
        raise InvalidValue(f"{moment.isoformat()} is finer than a microsecond")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    micros = (moment - _EPOCH) // _MICROSECOND
    if int(float(micros)) != micros:
        raise InvalidValue(
            f"{moment.isoformat()} in microseconds has no exact float64; use fewer decimals"
        )
    return micros
