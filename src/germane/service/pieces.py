"""The pieces of feedback that a service's agents have, as the tables that ``germane learn`` takes.

In: the address of the service's database, and a tenant. Out: ``deliveries`` and ``feedback``, and
the tenant's graphs of topics and places. Nothing is written.

A person's pieces stand in the order in which they arrived, which is the order they were learned in.
One may be older than its predecessor, if a device was offline: its time is then told as that of the
predecessor, so that whoever sorts by time has that order, too.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import sqlalchemy as sa

from germane import ContentGraph
from germane.model import GermaneError, InvalidValue
from germane.service import tables

__all__ = ["Told", "read_told"]

STRINGS = pa.map_(pa.string(), pa.string())
DELIVERIES = pa.schema(
    [("delivery", pa.int64()), ("user", pa.string()), ("message", pa.string()),
     ("topic", pa.list_(pa.string())), ("context", STRINGS)]
)  # fmt: skip
FEEDBACK = pa.schema(
    [("delivery", pa.int64()), ("kind", pa.string()), ("seconds", pa.float64()),
     ("at", pa.float64())]
)  # fmt: skip


class Told(NamedTuple):
    """What people said about which messages."""

    deliveries: pa.Table
    feedback: pa.Table
    topics: ContentGraph
    places: ContentGraph | None


def read_told(address: str, tenant: str) -> Told:
    """Everything that a tenant's agents learned from."""
    try:
        url = sa.make_url(address)
        if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
            raise InvalidValue(f"there is no file {url.database!r}")  # it would be made
        return _read(sa.create_engine(url), tenant)
    except sa.exc.SQLAlchemyError as error:
        raise GermaneError(f"cannot read a service's tables in {address!r}: {error}") from error


def _read(engine: sa.Engine, tenant: str) -> Told:
    with engine.connect() as connection:
        names = dict(
            connection.execute(sa.select(tables.tenants.c.name, tables.tenants.c.id)).all()
        )
        if tenant not in names:
            raise InvalidValue(f"there is no tenant {tenant!r}; there are {sorted(names)}")
        t = tables.agents
        chosen = sa.select(t.c.subscriber, t.c.state).where(t.c.tenant == names[tenant])
        agents = connection.execute(chosen.order_by(t.c.subscriber)).all()
    edges = tables.edges(engine, names[tenant])
    if "topic" not in edges:
        raise InvalidValue(f"tenant {tenant!r} has no graph of topics, so nothing was learned")
    topics, places = (
        ContentGraph.from_edges([(a, b) for a, b in edges[name]]) if name in edges else None
        for name in ("topic", "place")
    )
    assert topics is not None
    delivered: list[tuple[Any, ...]] = []
    said: list[tuple[Any, ...]] = []
    for user, state in agents:
        latest = 0.0
        for message, about, context, kind, seconds, at in json.loads(state)["pieces"]:
            latest = max(latest, at)
            number = len(said)
            delivered.append((number, user, message, about, [tuple(pair) for pair in context]))
            said.append((number, kind, seconds, latest))
    return Told(_table(delivered, DELIVERIES), _table(said, FEEDBACK), topics, places)


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
