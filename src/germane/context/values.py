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
from germane.model.errors import shown
from germane.model.timestamps import microseconds_of, parse_timestamp
from germane.model.types import XML

NUMBERS = (int, float, np.integer, np.floating, Decimal)
BYTES = (bytes, bytearray, memoryview)
MOMENTS = (datetime, date, np.datetime64)
UNORDERED = (float, np.floating, datetime)  # pandas' NaT is a datetime
BOOLEANS = (bool, np.bool_)
MAX_TEXT = 1_000_000
DOCUMENT = "document"
DOCUMENTS_OF_CONTEXTS = "attribute {name!r} holds documents, which contexts have not"


def type_of_value(name: str, value: Any) -> str | None:
    """The type that a value shows by itself; None for NULL."""
    if is_null(value):
        return None
    if isinstance(value, BOOLEANS):
        return "boolean"
    if isinstance(value, NUMBERS):
        return "number"
    if isinstance(value, str):
        return XML if name == DOCUMENT and value.lstrip()[:1] == "<" else "string"
    if isinstance(value, BYTES):
        return XML
    if isinstance(value, MOMENTS):
        return "timestamp"
    if isinstance(value, Mapping) or (
        isinstance(value, Sequence) and len(value) == 2 and not isinstance(value, BYTES)
    ):
        return "location"
    raise InvalidValue(
        f"attribute {name!r} has the value {shown(value)} of {type(value).__name__}; values are "
        "numbers, strings, booleans, datetimes and (latitude, longitude) pairs"
    )


def is_null(value: Any) -> bool:
    """Whether a value is NULL: None, or a NaN or NaT of any library."""
    if value is None:
        return True
    if isinstance(value, UNORDERED):
        return bool(value != value)
    if isinstance(value, Decimal):
        return value.is_qnan()
    return isinstance(value, np.datetime64) and bool(np.isnat(value))


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
                    f"attribute {name!r}: {shown(value, 100)} does not fit a 64-bit float"
                ) from None
    elif type_ == "string":
        if isinstance(value, str):
            _check_text(name, value)
            return strings.add(str(value)) if keep else strings.label(value)
    elif type_ == "boolean":
        if isinstance(value, BOOLEANS):
            return float(value)
    elif type_ == "timestamp":
        micros = _microseconds(name, value)
        if micros is not None:
            return micros
    raise _mismatch(name, type_, value)


def _mismatch(name: str, type_: str, value: Any) -> TypeMismatch:
    found = type_of_value(name, value)
    return TypeMismatch(f"attribute {name!r} is a {type_}, not a {found} as in {shown(value)}")


def _check_text(name: str, value: str) -> None:
    if len(value) > MAX_TEXT:
        raise InvalidValue(
            f"attribute {name!r} has a string of {len(value):,} characters; "
            f"the limit is {MAX_TEXT:,}"
        )


def _microseconds(name: str, value: Any) -> float | None:
    if isinstance(value, datetime):
        return float(microseconds_of(value))
    if isinstance(value, date):
        return float(microseconds_of(datetime(value.year, value.month, value.day)))
    if isinstance(value, np.datetime64):
        return float(_datetimes(name, np.array([value]))[0])
    if isinstance(value, str):
        return float(parse_timestamp(value))
    return None


def _datetimes(name: str, values: NDArray[Any]) -> NDArray[np.float64]:
    """Microseconds of an array of datetimes; what they cannot hold exactly is refused."""
    keys, exact = datetimes(values)
    if not exact.all():
        raise inexact(name, values[~exact][0])
    return keys


def datetimes(values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Microseconds of an array of datetimes, and which of them these are exactly."""
    micros = values.astype("datetime64[us]")
    whole = micros.astype(np.int64)
    keys = whole.astype(np.float64)
    null = np.isnat(values)
    with np.errstate(invalid="ignore"):
        exact = (micros.astype(values.dtype) == values) & (keys.astype(np.int64) == whole)
    exact |= null
    keys[null] = np.nan
    return keys, exact


def inexact(name: str, value: Any) -> InvalidValue:
    """The error of a datetime that has no exact key."""
    return InvalidValue(
        f"attribute {name!r}: {value!s} has no exact float64 in microseconds; "
        "use fewer decimals or a nearer year"
    )


def location(name: str, value: Any) -> tuple[float, float]:
    """Latitude and longitude of a location, in degrees, checked."""
    if is_null(value):
        return math.nan, math.nan
    try:
        if isinstance(value, Mapping):
            parts = (value["lat"], value["lon"])
        elif isinstance(value, (str, *BYTES)) or len(value) != 2:
            raise ValueError
        else:
            parts = (value[0], value[1])
        if not all(isinstance(p, NUMBERS) and not isinstance(p, bool) for p in parts):
            raise ValueError
        pair = (float(parts[0]), float(parts[1]))
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        raise TypeMismatch(
            f"attribute {name!r} is a location, (latitude, longitude) or "
            f"{{'lat': …, 'lon': …}}, not {shown(value)}"
        ) from None
    if not (abs(pair[0]) <= 90.0 and abs(pair[1]) <= 180.0):
        raise InvalidValue(
            f"attribute {name!r}: {value!r} is not on the globe; latitudes are within ±90, "
            "longitudes within ±180"
        )
    return pair


def locations(name: str, values: Any) -> NDArray[np.float64]:
    """Latitudes and longitudes of many locations, [n, 2]."""
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.dtype.kind in "fiu":
        pairs = np.ascontiguousarray(values, np.float64)
        if pairs.shape[1] == 2 and (np.abs(pairs) <= (90.0, 180.0)).all():
            return pairs
    return np.array([location(name, value) for value in values])


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
            return _datetimes(name, values)
        values = list(values) if values.dtype.kind == "M" else values.tolist()
    if type_ == "string" and keep:
        for value in values:  # all are checked before the first becomes a member
            if isinstance(value, str):
                _check_text(name, value)
            elif not is_null(value):
                raise _mismatch(name, type_, value)
        strings.add_many(str(value) for value in values if isinstance(value, str))
    return np.fromiter(
        (key(name, type_, value, strings, keep) for value in values), np.float64, len(values)
    )
