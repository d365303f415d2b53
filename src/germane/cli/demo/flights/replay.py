"""The same sequence in one embedded filter: are the deliveries the same, and why were they made?

In: a ``World``, the deliveries of the pipeline. Out: a ``Replay``. The filter stands at every place
of the sequence once, and can be asked there: about some deliveries, and about somebody who might
have got a message, but did not.
"""

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import germane
from germane.cli.demo.flights.source import NEW_YORK
from germane.cli.demo.flights.world import OF_CONTEXTS, SCHEMA, World
from germane.filter.explain import Explanation

CHUNK = 2_000
"""Events at a time."""
ASKED = ("delay", "way out", "gusts", "guest")
"""The kinds of profiles of which one delivery each is explained."""


class Told(NamedTuple):
    """A delivery, or the lack of one, and the reason."""

    message: str
    at: datetime
    profile: str
    explanation: Explanation


class Replay(NamedTuple):
    """What the embedded filter says."""

    same: bool
    n_deliveries: int
    seconds: float
    told: list[Told]


def kind_of(profile: str) -> str:
    """What a profile asks for: the word that ends its id."""
    return profile.rpartition(": ")[2]


def warm_up(world: World) -> None:
    """Use what is needed later, so that it is compiled."""
    n = min(world.messages.num_rows, 200)
    last = world.messages["seq"][n - 1].as_py()
    _play(_filled(world), _events(world).filter(pc.field("seq") <= last))


def replay(world: World, deliveries: pa.Table) -> Replay:
    """Play all events, compare, and ask for reasons on the way."""
    events = _events(world)
    filter_ = _filled(world)
    started = time.perf_counter()
    asked = dict(_picks(deliveries))
    found: list[pa.Table] = []
    told: list[Told] = []
    begin = 0
    for seq in [*sorted(asked), None]:
        end = events.num_rows if seq is None else _place(events, seq)
        found += _play(filter_, events.slice(begin, end - begin))
        begin = end
        if seq is not None:
            told += _ask(filter_, world, seq, asked[seq])
    ours = pa.concat_tables(found)
    return Replay(
        _pairs(ours) == _pairs(deliveries),
        ours.num_rows,
        time.perf_counter() - started,
        told,
    )


# the filter ------------------------------------------------------------------------------------


def _filled(world: World) -> germane.Filter:
    """What is there before the first event."""
    filter_ = germane.Filter(schema=SCHEMA)
    for name in OF_CONTEXTS:
        there = world.contexts.filter(pc.is_valid(world.contexts[name]))
        if there.num_rows:
            filter_.update_many(there["id"].to_pylist(), name, there[name].to_pylist())
    columns = (world.profiles[name].to_pylist() for name in ("id", "condition", "context"))
    filter_.subscribe_many(*columns)
    return filter_


def _events(world: World) -> pa.Table:
    """Messages and updates in one table, in order."""
    updates = world.updates.rename_columns({"context": "id"})
    parts = [
        table.drop_columns(["at"]).append_column("kind", pa.array([kind] * table.num_rows))
        for kind, table in (("message", world.messages), ("update", updates))
    ]
    return pa.concat_tables(parts, promote_options="default").sort_by("seq").combine_chunks()


def _play(filter_: germane.Filter, events: pa.Table) -> list[pa.Table]:
    return [
        filter_.process(events.slice(begin, CHUNK)).to_arrow().select(["seq", "profile"])
        for begin in range(0, events.num_rows, CHUNK)
    ]


def _place(events: pa.Table, seq: int) -> int:
    return int(np.searchsorted(events["seq"].to_numpy(), seq))


def _pairs(deliveries: pa.Table) -> set[tuple[int, str]]:
    return set(zip(deliveries["seq"].to_pylist(), deliveries["profile"].to_pylist(), strict=True))


# questions -------------------------------------------------------------------------------------


def _picks(deliveries: pa.Table) -> Iterator[tuple[int, str]]:
    """A delivery of each kind to ask about: the one in the middle of them."""
    profiles = deliveries["profile"].to_pylist()
    seqs = deliveries["seq"].to_pylist()
    for kind in ASKED:
        places = [i for i, profile in enumerate(profiles) if kind_of(profile) == kind]
        if places:
            middle = places[len(places) // 2]
            yield seqs[middle], profiles[middle]


def _ask(filter_: germane.Filter, world: World, seq: int, profile: str) -> list[Told]:
    """Why a profile got a message; and if somebody was more patient, why they did not."""
    row = world.messages.filter(pc.field("seq") == seq).to_pylist()[0]
    message = {name: row[name] for name in SCHEMA if row.get(name) is not None}
    asked = [profile]
    if kind_of(profile) == "delay":
        asked += _patient(filter_, message)
    at = row["at"].astimezone(NEW_YORK)
    return [Told(row["id"], at, name, filter_.explain(name, message)) for name in asked]


def _patient(filter_: germane.Filter, message: dict[str, Any]) -> list[str]:
    """Somebody who waits for the same flight, and is told nothing yet."""
    there = filter_.contexts().filter(
        (pc.field("airport") == message["origin"])
        & (pc.field("place") == message["dest"])
        & (pc.field("earliest") <= message["scheduled"])
        & (pc.field("latest") >= message["scheduled"])
        & (pc.field("patience") >= message["delay"])
    )
    return [f"{name}: delay" for name in there["id"].to_pylist()[:1]]
