"""Where a person is: a context by hand, by the device's position, by a schedule, by the clock.

In: a moment, and what is known. Out: a context: task, place, time of day, and whatever else an
application sends. What is set by hand wins over the position, that over the schedule, that over the
clock.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, time
from typing import Any, NamedTuple

from germane.agent.gazetteer import Gazetteer
from germane.model import InvalidValue

__all__ = ["Slot", "context_at", "daypart"]

DAYPARTS = ((5, "night"), (11, "morning"), (14, "noon"), (18, "afternoon"), (22, "evening"))
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def daypart(moment: datetime) -> str:
    """The time of day, as people call it.

    >>> daypart(datetime(2026, 11, 17, 12, 30))
    'noon'
    """
    return next((name for end, name in DAYPARTS if moment.hour < end), "night")


class Slot(NamedTuple):
    """A line of a schedule: on these days, from and to these times, the context is so."""

    days: tuple[str, ...]
    begin: time
    end: time  # not after begin: on the next day
    context: Mapping[str, Any]

    @classmethod
    def of(cls, days: str, begin: str, end: str, **context: Any) -> "Slot":
        """``Slot.of("mon-fri", "09:00", "17:00", task="work")``; an end may be "24:00"."""
        try:
            last = time() if end.strip() == "24:00" else _local(end)
            return cls(_days(days), _local(begin), last, context)
        except ValueError as error:
            raise InvalidValue(f"a slot is as 'mon-fri', '09:00', '17:00': {error}") from None

    def holds(self, moment: datetime) -> bool:
        now, day = moment.time(), DAYS[moment.weekday()]
        if self.begin < self.end:
            return day in self.days and self.begin <= now < self.end
        yesterday = DAYS[moment.weekday() - 1]
        late, early = now >= self.begin, now < self.end
        return (late and day in self.days) or (early and yesterday in self.days)


def _local(text: str) -> time:
    """A time of the day, of the person's own clock."""
    if text.strip().startswith("24"):
        raise ValueError(f"{text!r:.100} is only an end, as '24:00'; a day begins at '00:00'")
    found = time.fromisoformat(text)
    if found.tzinfo is not None:
        raise ValueError(f"times are the person's own, without an offset, not {text!r:.100}")
    return found


def _days(text: str) -> tuple[str, ...]:
    found: list[str] = []
    for part in text.lower().replace(" ", "").split(","):
        first, _, last = part.partition("-")
        a, b = DAYS.index(first), DAYS.index(last or first)
        found += [DAYS[i % 7] for i in range(a, b + 1 if b >= a else b + 8)]
    return tuple(found)


def context_at(
    moment: datetime,
    schedule: Sequence[Slot] = (),
    position: tuple[float, float] | None = None,
    places: Gazetteer | None = None,
    by_hand: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The context at a moment, in the person's own time; later slots win over earlier ones."""
    context: dict[str, Any] = {"time": daypart(moment)}
    for slot in schedule:
        if slot.holds(moment):
            context |= slot.context
    if position is not None and places is not None:
        place = places.near(*position)
        if place is not None:
            context["place"] = place
    return context | dict(by_hand or {})
