"""A context's values as plain JSON, and back.

In: what a filter takes as a value. Out: the same as JSON has it; a timestamp is ISO text under a
name of its own, so that it comes back as one, and so are infinities. A set of names, as of nodes
of a graph, is a list in a fixed order. Anything else is refused.
"""

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np

from germane.model import InvalidValue

__all__ = ["as_plain", "from_plain"]

TIMESTAMP, DATE, NUMBER = "$timestamp", "$date", "$number"
BACK: dict[str, Callable[[str], Any]] = {
    TIMESTAMP: datetime.fromisoformat,
    DATE: date.fromisoformat,
    NUMBER: float,
}


def as_plain(value: Any) -> Any:
    """A value as JSON has it.

    >>> as_plain({"since": datetime(2026, 11, 18, 9), "position": (1.5, 2)})
    {'since': {'$timestamp': '2026-11-18T09:00:00'}, 'position': [1.5, 2]}
    """
    if value is None or isinstance(value, str | bool):
        return str(value) if isinstance(value, np.str_) else value
    if isinstance(value, np.bool_ | np.datetime64):
        return as_plain(value.astype("datetime64[us]" if value.dtype.kind == "M" else bool).item())
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real | Decimal):
        number = float(value)
        if math.isinf(number):
            return {NUMBER: str(number)}
        return None if math.isnan(number) else number
    if isinstance(value, datetime):
        return {TIMESTAMP: value.isoformat()} if value == value else None  # pandas' NaT
    if isinstance(value, date):
        return {DATE: value.isoformat()}
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim):
        return [as_plain(each) for each in value]
    if isinstance(value, set | frozenset) and all(isinstance(each, str) for each in value):
        return sorted(map(as_plain, value))
    if isinstance(value, Mapping) and all(_is_name(name) for name in value):
        return {as_plain(name): as_plain(each) for name, each in value.items()}
    raise InvalidValue(
        "a context keeps words, numbers, yes and no, timestamps, lists of them, and sets of words, "
        f"not {value!r:.200}"
    )


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and name not in BACK


def from_plain(value: Any) -> Any:
    """A value as it was before ``as_plain``; of tuples, sets and arrays, lists."""
    if isinstance(value, list):
        return [from_plain(each) for each in value]
    if isinstance(value, dict):
        for name, read in BACK.items():
            if value.keys() == {name}:
                return read(value[name])
        return {name: from_plain(each) for name, each in value.items()}
    return value
