"""One sequence of events out of flights, people and stations, as Arrow tables.

In: the days, the number of travellers, a seed. Out: a ``World``: the inputs of a pipeline as
``spark.stream`` wants them, with ``seq`` in the order of time, and where each day ends.
"""

from datetime import date, timedelta
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from germane.cli.demo.flights import people, source, stations
from germane.cli.demo.flights.people import Change, Profile
from germane.cli.demo.flights.source import MINUTE, Flights, Weather

TIME = pa.timestamp("us", "UTC")
SCHEMA = {
    "status": "string", "origin": "string", "dest": "string", "airline": "string",
    "flight": "number", "scheduled": "timestamp", "delay": "number", "distance": "number",
    "airport": "string", "place": "string", "earliest": "timestamp", "latest": "timestamp",
    "patience": "number", "stranded": "boolean", "gust": "number", "gust_limit": "number",
    "temp": "number", "precip": "number", "visibility": "number", "visibility_limit": "number",
}  # fmt: skip
"""The attributes of messages and contexts."""
_ARROW = {"string": pa.string(), "number": pa.float64(), "boolean": pa.bool_(), "timestamp": TIME}
OF_MESSAGES = ("status", "origin", "dest", "airline", "flight", "scheduled", "delay", "distance")
OF_CONTEXTS = tuple(
    name for name in SCHEMA if name not in OF_MESSAGES or name in ("airline", "flight", "scheduled")
)
LATE = 15
"""Minutes from which on a flight is said to be delayed."""
BOARDING = 30 * MINUTE
REPORTS = 5 * MINUTE
"""How often people's phones, and stations, tell what has changed."""


class World(NamedTuple):
    """Everything that the pipeline is given."""

    days: list[date]
    messages: pa.Table  # seq, at, id, attributes
    updates: pa.Table  # seq, at, context, attributes, removed
    contexts: pa.Table  # id, attributes
    profiles: pa.Table  # id, context, condition
    flights: Flights
    weather: Weather

    def ends(self) -> list[int]:
        """The time at which each day ends; the last one takes what comes later."""
        return [source.midnight(day + timedelta(days=1)) for day in self.days[:-1]] + [2**62]


def build(n_days: int = 10, n_travellers: int = 10_000, seed: int = 1) -> World:
    """Read what happened, and make up who watched it."""
    days = source.period(n_days)
    random = Random(seed)
    flights, weather = source.read_flights(days), source.read_weather(days)
    travellers = people.gather(flights, n_travellers, random)
    crews = stations.staff(flights, weather, random)
    begin = source.midnight(days[0])
    changes = sorted(travellers.changes + crews.changes, key=lambda change: change.at // REPORTS)
    n_before = sum(change.at // REPORTS * REPORTS < begin for change in changes)
    updates = _updates(changes[n_before:])
    messages = _messages(flights, begin)
    times = np.concatenate([_times(messages), _times(updates)])
    seqs = np.empty(len(times), np.int64)
    seqs[np.argsort(times, kind="stable")] = np.arange(1, len(times) + 1)
    return World(
        days,
        _numbered(messages, seqs[: messages.num_rows]),
        _numbered(updates, seqs[messages.num_rows :]),
        _contexts(changes[:n_before]),
        _profiles(travellers.profiles + crews.profiles),
        flights,
        weather,
    )


# messages --------------------------------------------------------------------------------------


def _messages(flights: Flights, begin: int) -> pa.Table:
    """What is said of flights: cancelled, delayed, boarding, landed."""
    rows = np.arange(len(flights.scheduled))
    left = rows[~flights.cancelled]
    late = left[flights.delay[left] >= LATE]
    down = left[~np.isnan(flights.landed[left])]
    gone = rows[flights.cancelled]
    leaves = flights.scheduled + np.nan_to_num(flights.delay) * MINUTE
    parts = [
        _said(flights, "cancelled", gone, people.told_at(flights)[gone], None),
        _said(flights, "delayed", late, flights.scheduled[late], flights.delay),
        _said(flights, "boarding", left, leaves[left] - BOARDING, flights.delay),
        _said(flights, "landed", down, flights.landed[down], flights.landed_delay),
    ]
    table = pa.concat_tables(parts).sort_by("at")
    return table.filter(pa.compute.greater_equal(table["at"].cast(pa.int64()), begin))


def _said(
    flights: Flights,
    status: str,
    rows: NDArray[np.int64],
    at: Any,
    delay: NDArray[np.float64] | None,
) -> pa.Table:
    """A message for each of some flights."""
    ids = [
        f"{flights.airline[row]} {flights.number[row]} {flights.origin[row]}-{flights.dest[row]} "
        f"{status}"
        for row in rows.tolist()
    ]
    columns = {
        "at": pa.array(np.asarray(at, np.int64)).cast(TIME),
        "id": ids,
        "status": [status] * len(rows),
        "origin": pa.array(flights.origin[rows], pa.string()),
        "dest": pa.array(flights.dest[rows], pa.string()),
        "airline": pa.array(flights.airline[rows], pa.string()),
        "flight": flights.number[rows].astype(np.float64),
        "scheduled": pa.array(flights.scheduled[rows]).cast(TIME),
        "delay": pa.array(
            np.full(len(rows), np.nan) if delay is None else delay[rows], from_pandas=True
        ),
        "distance": flights.distance[rows],
    }
    return pa.table(columns)


# contexts --------------------------------------------------------------------------------------


def _updates(changes: list[Change]) -> pa.Table:
    columns = {
        "at": pa.array([c.at // REPORTS * REPORTS for c in changes], pa.int64()).cast(TIME),
        "context": [change.context for change in changes],
        **{name: _column([c.values.get(name) for c in changes], name) for name in OF_CONTEXTS},
        "removed": pa.array([list(c.removed) or None for c in changes], pa.list_(pa.string())),
    }
    return pa.table(columns)


def _contexts(changes: list[Change]) -> pa.Table:
    """What is left of all changes before the first day."""
    held: dict[str, dict[str, Any]] = {}
    for change in changes:
        values = held.setdefault(change.context, {})
        values |= change.values
        for name in change.removed:
            values.pop(name, None)
    columns = {
        "id": pa.array(list(held), pa.string()),
        **{name: _column([v.get(name) for v in held.values()], name) for name in OF_CONTEXTS},
    }
    return pa.table(columns)


def _profiles(profiles: list[Profile]) -> pa.Table:
    return pa.table({name: [getattr(p, name) for p in profiles] for name in Profile._fields})


def _column(values: list[Any], name: str) -> pa.Array:
    kind = _ARROW[SCHEMA[name]]
    return pa.array(values, pa.int64()).cast(kind) if kind == TIME else pa.array(values, kind)


def _times(table: pa.Table) -> NDArray[np.int64]:
    times: NDArray[np.int64] = table["at"].cast(pa.int64()).to_numpy()
    return times


def _numbered(table: pa.Table, seqs: NDArray[np.int64]) -> pa.Table:
    return table.add_column(0, "seq", pa.array(seqs))
