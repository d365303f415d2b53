"""Ramp crews: an airline's people outside at one of the airports, and the weather they work in.

In: flights and weather. Out: profiles, and changes of contexts with their times. A station's
context holds the weather of its airport, anew every hour, and limits that change with the shift.
Its profiles are sent the flights that board, or wait, while the weather is beyond a limit.
"""

from math import isnan
from random import Random

from germane.cli.demo.flights.people import Change, People, Profile
from germane.cli.demo.flights.source import HOUR, Flights, Weather

SHIFT = 8 * HOUR
CONDITIONS = {
    "gusts": (
        "status = 'boarding' AND origin = '{origin}' AND airline = '{airline}' "
        "AND context.gust > context.gust_limit"
    ),
    "ice": (
        "status = 'boarding' AND origin = '{origin}' AND airline = '{airline}' "
        "AND context.temp < 36 AND context.precip > 0"
    ),
    "fog": (
        "status IN ('boarding', 'delayed') AND origin = '{origin}' AND airline = '{airline}' "
        "AND context.visibility < context.visibility_limit"
    ),
}
"""What crews ask for, by a word that ends the ids of their profiles."""
WEATHER = ("temp", "gust", "precip", "visibility")


def staff(flights: Flights, weather: Weather, random: Random) -> People:
    """A station for each airline and airport, its weather, and its shifts."""
    pairs = sorted(set(zip(flights.origin.tolist(), flights.airline.tolist(), strict=True)))
    profiles, changes = [], []
    for origin, airline in pairs:
        name = f"{airline} at {origin}"
        for kind, condition in CONDITIONS.items():
            text = condition.format(origin=origin, airline=airline)
            profiles.append(Profile(f"{name}: {kind}", name, text))
        changes += _weather(name, origin, weather)
        begin, end = int(weather.at[0]), int(weather.at[-1])
        for at in range(begin - 1, end, SHIFT):
            limits = {
                "gust_limit": random.choice([25.0, 30.0, 35.0, 40.0]),
                "visibility_limit": random.choice([0.5, 1.0, 2.0]),
            }
            changes.append(Change(at, name, limits))
    return People(profiles, changes)


def _weather(name: str, origin: str, weather: Weather) -> list[Change]:
    """The hourly readings of an airport; what was not measured is not known."""
    here = weather.origin == origin
    readings = zip(*[getattr(weather, what)[here].tolist() for what in WEATHER], strict=True)
    changes = []
    for at, reading in zip(weather.at[here].tolist(), readings, strict=True):
        known = {w: value for w, value in zip(WEATHER, reading, strict=True) if not isnan(value)}
        removed = tuple(what for what in WEATHER if what not in known)
        changes.append(Change(at, name, known, removed))
    return changes
