"""Values as callers give them -> keys: float64 numbers that compare as the values do.

number: itself; boolean: 0 or 1; timestamp: microseconds; string: its label in ``Strings``;
location: two keys, latitude and longitude. NULL (None, NaN) is NaN. What a type cannot hold is
refused with a message that names the attribute, the value and the type.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.context.strings import Strings
from germane.model import InvalidValue, TypeMismatch
from germane.model.timestamps import microseconds_of, parse_timestamp

NUMBERS = (int, float, np.integer, np.floating, Decimal)
MAX_TEXT = 1_000_000


def type_of_value(name: str, value: Any) -> str | None:
    """The type that a value shows by itself; None for NULL."""
    if value is None:
        return None
    if isinstance(value, bool | np.bool_):
        return "boolean"
    if isinstance(value, NUMBERS):
        return None if value != value else "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, datetime | date | np.datetime64):
        return None if isinstance(value, np.datetime64) and np.isnat(value) else "timestamp"
    if isinstance(value, Mapping) or (
        isinstance(value, Sequence) and len(value) == 2 and not isinstance(value, bytes)
    ):
        return "location"
    raise InvalidValue(
        f"attribute {name!r} has the value {value!r} of {type(value).__name__}; values are "
        "numbers, strings, booleans, datetimes and (latitude, longitude) pairs"
    )


def is_null(value: Any) -> bool:
    """Whether a value is NULL."""
    return value is None or (isinstance(value, float | np.floating) and value != value)


def key(name: str, type_: str, value: Any, strings: Strings, keep: bool) -> float:
    """The key of one value; ``keep`` makes a new string a member."""
    if is_null(value):
        return math.nan
    if type_ == "number":
        if isinstance(value, NUMBERS) and not isinstance(value, bool):
            try:
                return float(value) + 0.0
            except (OverflowError, ValueError):
                raise InvalidValue(
                    f"attribute {name!r}: {value!r} does not fit a 64-bit float"
                ) from None
    elif type_ == "string":
        if isinstance(value, str):
            if len(value) > MAX_TEXT:
                raise InvalidValue(
                    f"attribute {name!r} has a string of {len(value):,} characters; "
                    f"the limit is {MAX_TEXT:,}"
                )
            return strings.add(str(value)) if keep else strings.label(value)
    elif type_ == "boolean":
        if isinstance(value, bool | np.bool_):
            return float(value)
    elif type_ == "timestamp":
        micros = _microseconds(value)
        if micros is not None:
            return micros
    shown = type_of_value(name, value)
    raise TypeMismatch(f"attribute {name!r} is a {type_}, not a {shown} as in {value!r}")


def _microseconds(value: Any) -> float | None:
    if isinstance(value, datetime):
        return float(microseconds_of(value))
    if isinstance(value, date):
        return float(microseconds_of(datetime(value.year, value.month, value.day)))
    if isinstance(value, np.datetime64):
        return math.nan if np.isnat(value) else float(value.astype("datetime64[us]").astype(int))
    if isinstance(value, str):
        return float(parse_timestamp(value))
    return None


def location(name: str, value: Any) -> tuple[float, float]:
    """Latitude and longitude of a location, in degrees, checked."""
    if is_null(value):
        return math.nan, math.nan
    try:
        if isinstance(value, Mapping):
            pair = (float(value["lat"]), float(value["lon"]))
        else:
            pair = (float(value[0]), float(value[1]))
            if len(value) != 2:
                raise ValueError
    except (KeyError, TypeError, ValueError, IndexError):
        raise TypeMismatch(
            f"attribute {name!r} is a location, (latitude, longitude) or "
            f"{{'lat': …, 'lon': …}}, not {value!r}"
        ) from None
    if not (abs(pair[0]) <= 90.0 and abs(pair[1]) <= 180.0):
        raise InvalidValue(
            f"attribute {name!r}: {value!r} is not on the globe; latitudes are within ±90, "
            "longitudes within ±180"
        )
    return pair


def column(name: str, type_: str, values: Any, strings: Strings, keep: bool) -> NDArray[np.float64]:
    """The keys of many values (one array in C where the values are an array of numbers)."""
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise InvalidValue(f"attribute {name!r}: values must be one-dimensional")
        if type_ == "number" and values.dtype.kind in "iuf":
            return np.ascontiguousarray(values, np.float64)
        if type_ == "boolean" and values.dtype.kind == "b":
            return values.astype(np.float64)
        if type_ == "timestamp" and values.dtype.kind == "M":
            micros = values.astype("datetime64[us]").astype(np.int64).astype(np.float64)
            micros[np.isnat(values)] = np.nan
            return micros
        values = values.tolist()
    if type_ == "string" and keep:
        strings.add_many(value for value in values if isinstance(value, str))
    return np.fromiter(
        (key(name, type_, value, strings, keep) for value in values), np.float64, len(values)
    )
