"""Travellers, and the hosts who wait for them: what they ask for, and how their contexts change.

In: the flights that there were. Out: profiles, and changes of contexts with their times; those
before the first day are what the contexts hold at the beginning.

A traveller books a flight and has, from then on, an airport, a place, a window of time and some
patience. A cancellation leaves them stranded until a later flight takes them; when they board, the
context is empty again, and so are their conditions: UNKNOWN. A host's context follows the guest's
bookings. Nobody but the contexts knows that a journey has changed: the profiles stay as they are.
"""

from bisect import bisect_left
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.cli.demo.flights.source import DAY, HOUR, MINUTE, Flights

ROUTE = (
    "origin = context.airport AND dest = context.place "
    "AND scheduled BETWEEN context.earliest AND context.latest"
)
CONDITIONS = {
    "delay": f"status = 'delayed' AND {ROUTE} AND delay > context.patience",
    "cancellation": f"status = 'cancelled' AND {ROUTE}",
    "way out": "status = 'boarding' AND dest = context.place AND context.stranded",
    "guest": (
        "status = 'landed' AND airline = context.airline AND flight = context.flight "
        "AND scheduled = context.scheduled"
    ),
}
"""What people ask for, by a word that ends the ids of their profiles."""
JOURNEY = ("airport", "place", "earliest", "latest", "patience", "stranded")
BEFORE, AFTER = 1 * HOUR, 3 * HOUR
"""The window around a booked flight."""
REBOOKING = 45 * MINUTE
"""What it takes at least to get from one flight to another."""
_NAMES = """
    Ada Amir Anna Bela Ben Carla Chen Clara Dora Elif Emil Fay Femi Greta Hana Hugo Ines Ivan Jana
    Jonas Kofi Lea Lina Luis Maja Mei Milo Nora Omar Pia Quinn Rosa Sam Sara Tariq Tess Uma Vera
    Wim Yara Zoe
""".split()


class Profile(NamedTuple):
    """Who asks for what."""

    id: str
    context: str
    condition: str


class Change(NamedTuple):
    """New values of a context, and names of values that go, at a time."""

    at: int
    context: str
    values: dict[str, Any]
    removed: tuple[str, ...] = ()


class People(NamedTuple):
    """All of them."""

    profiles: list[Profile]
    changes: list[Change]


def gather(flights: Flights, n_travellers: int, random: Random) -> People:
    """Make up travellers, every third of them with a host, and play their journeys."""
    profiles, changes = [], []
    journeys = _Journeys(flights, random)
    for number in range(n_travellers):
        name = f"{_NAMES[number % len(_NAMES)]}-{number // len(_NAMES) + 1}"
        host = f"{name}'s host" if number % 3 == 0 else None
        for kind in ("delay", "cancellation", "way out"):
            profiles.append(Profile(f"{name}: {kind}", name, CONDITIONS[kind]))
        if host:
            profiles.append(Profile(f"{host}: guest", host, CONDITIONS["guest"]))
        changes += journeys.of(name, host)
    return People(profiles, changes)


class _Journeys:
    """Bookings, cancellations and departures of one traveller after the other."""

    def __init__(self, flights: Flights, random: Random) -> None:
        self._random = random
        self._scheduled: list[int] = flights.scheduled.tolist()
        self._delay: list[float] = flights.delay.tolist()
        self._cancelled: list[bool] = flights.cancelled.tolist()
        self._told: list[int] = told_at(flights).tolist()
        self._flown_as = list(zip(flights.airline, flights.number.tolist(), strict=True))
        self._routes = list(zip(flights.origin, flights.dest, strict=True))
        self._on_route: dict[tuple[str, str], list[int]] = {}
        for row, route in enumerate(self._routes):
            self._on_route.setdefault(route, []).append(row)

    def of(self, name: str, host: str | None) -> list[Change]:
        """All that changes for a traveller, in order."""
        random, scheduled = self._random, self._scheduled
        changes: list[Change] = []
        now = scheduled[0] - int(random.uniform(0, 5) * DAY)
        while now < scheduled[-1]:
            day = now + int(random.uniform(1, 3) * DAY)
            first, last = (bisect_left(scheduled, day + half) for half in (-DAY // 2, DAY // 2))
            if scheduled[0] <= day and first < last:
                changes += self._travel(name, host, now, random.randrange(first, last))
                day = changes[-1].at
            now = day + int(random.expovariate(0.25) * DAY)
        return changes

    def _travel(self, name: str, host: str | None, now: int, row: int) -> list[Change]:
        """From a booking to the departure; there may be cancellations in between."""
        random = self._random
        airport, place = self._routes[row]
        patience = random.choice([20.0, 30.0, 45.0, 60.0, 90.0, 120.0])
        trip = {"airport": airport, "place": place, "patience": patience}
        changes = [Change(now, name, {**trip, **self._window(row)})]
        changes += self._expects(host, now, row)
        nervous = self._scheduled[row] - int(random.uniform(4, 20) * HOUR)
        if nervous > now and random.random() < 0.5:  # an appointment, a connection, a birthday
            changes.append(Change(nervous, name, {"patience": patience / 2}))
            now = nervous
        while self._cancelled[row]:
            now = max(now, self._told[row]) + int(random.uniform(5, 90) * MINUTE)
            following = self._next(row, now + REBOOKING)
            if following is None:
                changes.append(Change(now, name, {}, JOURNEY))
                return changes
            row = following
            changes.append(Change(now, name, {"stranded": True, **self._window(row)}))
            changes += self._expects(host, now, row)
        leaves = max(now, self._scheduled[row] + int(self._delay[row]) * MINUTE) + MINUTE
        changes.append(Change(leaves, name, {}, JOURNEY))
        return changes

    def _window(self, row: int) -> dict[str, Any]:
        scheduled = self._scheduled[row]
        return {"earliest": scheduled - BEFORE, "latest": scheduled + AFTER}

    def _expects(self, host: str | None, now: int, row: int) -> list[Change]:
        if host is None:
            return []
        airline, number = self._flown_as[row]
        guest = {"airline": airline, "flight": number, "scheduled": self._scheduled[row]}
        return [Change(now, host, guest)]

    def _next(self, row: int, after: int) -> int | None:
        """The next flight on a route that is not full; who knows whether it will leave."""
        rows = self._on_route[self._routes[row]]
        at = bisect_left(rows, after, key=self._scheduled.__getitem__)
        while self._random.random() > 0.4:  # full
            at += 1
        return rows[at] if at < len(rows) else None


def told_at(flights: Flights) -> NDArray[np.int64]:
    """When cancellations become known; the data does not say, so: two hours before."""
    return flights.scheduled - 2 * HOUR
