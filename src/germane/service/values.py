"""A filter's values for people: one context, what one profile is made of, figures as JSON."""

from datetime import datetime
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from germane import Filter
from germane.filter.tables import EXPELLED, INSIDE, POSTED, WAITING
from germane.filter.values_out import _column
from germane.service.clock import as_text, of_datetime
from germane.service.subscriptions import condition_of


def context_of(f: Filter, id_: str) -> dict[str, Any] | None:
    """The values that a context has now; None if it was never heard of.

    >>> f = Filter()
    >>> f.update("ann", {"unread": 50, "room": "A1"})
    >>> context_of(f, "ann")
    {'unread': 50.0, 'room': 'A1'}
    """
    f._follow_strings()
    store = f._contexts
    row = store.ids.row(id_)
    if row < 0:
        return None
    found: dict[str, Any] = {}
    for name, slots in store.slots.items():
        keys = [store.values[slot, row : row + 1] for slot in slots]
        if np.isnan(keys[0][0]):
            continue
        value = _column(f, f._schema.type_of(name), keys)[0]
        timestamp = isinstance(value, pa.TimestampScalar)
        found[name] = _time(value.value) if timestamp else plain(value.as_py())
    return found


def cost_of(f: Filter, number: int) -> dict[str, Any]:
    """What a profile is made of: how many conjunctions, which attributes find them, what is left
    to test, and whether it has to be tested at every message."""
    rows = f._profiles.rows_of(number)
    names = f._messages.attributes
    indexed: set[str] = set()
    residual = False
    for row in rows:
        shape = f._conjunctions.shapes[int(f._conjunctions.shape[row])]
        indexed |= {names[form.attribute] for form in shape.forms if form.attribute < len(names)}
        residual |= bool(shape.program)
    states = f._tables.state[rows]
    always = int(((states != INSIDE) & (states != POSTED)).sum())
    return {
        "conjunctions": len(rows),
        "indexed": sorted(indexed),
        "residual": residual,
        "always_tested": always,
        "cost": float(len(rows) + 9 * always),
    }


def cost_of_text(f: Filter, number: int, text: str) -> dict[str, Any]:
    """As ``cost_of``, of a profile that lives in another filter, given as its subscription: what no
    index can hold has to be tested at every message."""
    body = msgspec.json.decode(text)
    condition = condition_of(body)
    f.subscribe(number, condition.text, body.get("context"), dialect=condition.dialect)
    try:
        cost = cost_of(f, number)
        shapes = [
            f._conjunctions.shapes[int(s)]
            for s in f._conjunctions.shape[f._profiles.rows_of(number)]
        ]
    finally:
        f.unsubscribe(number)
    always = sum(not shape.forms for shape in shapes)
    return cost | {"always_tested": always, "cost": float(len(shapes) + 9 * always)}


def always_tested(f: Filter) -> list[int]:
    """Profiles that no index finds."""
    states = f._tables.state
    rows = np.flatnonzero((states == WAITING) | (states == EXPELLED))
    profiles = np.unique(f._conjunctions.profile[rows])
    return [int(f._profiles.ids.id_of(int(row))) for row in profiles]


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, datetime):
        return _time(of_datetime(value))
    return value if isinstance(value, str | int | float | bool | type(None)) else repr(value)


def _time(micros: int) -> str:
    """A time as text, also where an offset takes it out of the years 1 to 9999 in UTC."""
    try:
        return as_text(micros)
    except OverflowError:
        return f"{np.datetime64(micros, 'us')}Z"
