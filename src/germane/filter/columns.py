"""Arrow columns -> keys: one conversion a column where Arrow's type fits, one a value elsewhere.

In: a table whose columns are attributes. Out: float64 keys by column (``context.values``), and an
error for each row that has a malformed value. The type of an attribute that nothing has used yet
is fixed by its first value in a row that is not malformed.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.category.sets import Categories, Given
from germane.context import Strings
from germane.context.values import (
    DOCUMENT,
    DOCUMENTS_OF_CONTEXTS,
    MAX_TEXT,
    datetimes,
    inexact,
    is_null,
    key,
    location,
    type_of_value,
)
from germane.language.cesql.evaluate import OWN_ID, cast, value_of
from germane.model import GermaneError, InvalidValue, Schema
from germane.model.types import CATEGORY, XML

TYPES: dict[str, type] = {"string": str, "number": int, "boolean": bool}
"""Our types, and those of Python that stand for CESQL's."""
Keys = tuple[NDArray[np.float64], ...]


class Columns:
    """The attributes of a table's rows, read when they are asked for."""

    def __init__(
        self,
        table: Any,
        schema: Schema,
        strings: Strings,
        categories: Categories,
        add_document: Callable[[str, Any, Given], float],
        reserved: Collection[str] = (),
    ) -> None:
        self._table = table.combine_chunks()
        self._schema = schema
        self._strings = strings
        self._categories = categories
        self._add_document = add_document
        self._reserved = reserved
        self.given = categories.given()  # sets of nodes in these rows
        self.names = [name for name in table.column_names if name not in reserved]
        if len(set(self.names)) < len(self.names):
            raise InvalidValue("a table of messages has two columns of one name")
        self.errors: dict[int, GermaneError] = {}
        self._known: dict[str, tuple[Keys, Any]] = {}  # keys, and the version of their strings
        self._present: dict[str, NDArray[np.bool_]] = {}
        self._kept: set[str] = set()  # names of columns whose strings are members

    @property
    def read(self) -> Set[str]:
        """Names of the columns whose keys are known."""
        return self._known.keys()

    def row(self, i: int) -> Mapping[str, Any]:
        """The raw values of a row, looked up one by one."""
        return _Row(self._table, i, self._reserved)

    def present(self, name: str) -> NDArray[np.bool_]:
        """Which rows have a value (a NaN is none)."""
        known = self._present.get(name)
        if known is None:
            column = self._column(name)
            known = np.asarray(column.is_valid())
            if str(column.type) in ("float", "double", "halffloat"):
                known = known & ~np.isnan(_numbers(column))
            self._present[name] = known
        return known

    def settle(self, rows: NDArray[np.int64], where: str, of_contexts: bool = False) -> None:
        """Fix the types of attributes that have none yet, by the first good value of each."""
        types = {
            name: self._type_shown(name, rows, where)  # of all, before any of them is fixed
            for name in self.names
            if self._schema.type_of(name) is None and self.present(name)[rows].any()
        }
        for name, type_ in types.items():
            if type_ is not None and self._schema.type_of(name) is None:
                used = self._used(name, rows)
                if type_ == XML or (name == DOCUMENT and type_ == "string"):
                    type_ = self._type_of_documents(name, used, where, of_contexts)
                if type_ is not None and len(used):
                    self._schema.fix(name, type_, where)

    def open(self) -> list[str]:
        """Names of the columns whose attributes have no type yet."""
        return [name for name in self.names if self._schema.type_of(name) is None]

    def types_fixed(self, i: int) -> dict[str, str | None]:
        """The types that a row gives to attributes that have none; if malformed, perhaps."""
        types: dict[str, str | None] = {}
        try:
            for name in self.open():
                if self.present(name)[i]:
                    types[name] = type_of_column(self._column(name).type)
                    if name == DOCUMENT and types[name] == "string":
                        types[name] = type_of_value(name, self._column(name)[i].as_py())
        except GermaneError:
            pass  # it will be refused when it is read
        return types

    def _used(self, name: str, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of some rows that have a value, and are not malformed."""
        used = rows[self.present(name)[rows]]
        return used[[i not in self.errors for i in used.tolist()]] if self.errors else used

    def _type_shown(self, name: str, rows: NDArray[np.int64], where: str) -> str | None:
        """The type that a column shows by itself; where it can have none, its rows are errors."""
        try:
            type_ = type_of_column(self._column(name).type)
            if type_ is not None:
                self._schema.draft(where).fix(name, type_)
        except GermaneError as error:
            self._refuse(self._used(name, rows), error)
            return None
        return type_

    def _refuse(self, rows: NDArray[np.int64], error: GermaneError) -> None:
        for i in rows.tolist():
            self.errors.setdefault(i, error)

    def _type_of_documents(
        self, name: str, rows: NDArray[np.int64], where: str, of_contexts: bool
    ) -> str | None:
        """The type that the first good one of some texts shows: a text may be XML, or not."""
        column = self._column(name)
        for i in rows.tolist():
            value = column[i].as_py()
            type_ = type_of_value(name, value)
            try:
                if type_ == XML and of_contexts:
                    raise InvalidValue(DOCUMENTS_OF_CONTEXTS.format(name=name))
                if type_ == XML:
                    self._schema.draft(where).fix(name, type_)
                    self._add_document(name, value, self._categories.nobody)
                return type_
            except GermaneError as error:
                self.errors.setdefault(i, error)
        return None

    def keys(self, name: str, rows: NDArray[np.int64], keep: bool) -> Keys:
        """Keys of a column, whole; strings of ``rows``, always the same, are kept as members."""
        type_ = self._schema.type_of(name)
        if type_ is None:
            return (np.full(self._table.num_rows, np.nan),)
        if type_ == "string" and keep and name not in self._kept:
            self._keep_strings(name, rows)
            self._kept.add(name)
        known = self._known.get(name)
        if known is None or (type_ == "string" and known[1] != self._strings.version):
            known = self._known[name] = (self._read(name, type_), self._strings.version)
        return known[0]

    def cast(self, name: str, type_: str) -> NDArray[np.float64]:
        """Keys of a column as CESQL casts its values; an event's own id is called `id`."""
        if name == "id":
            own, other = self._cast(OWN_ID, type_), self._cast("id", type_)
            return np.where(self._there(OWN_ID), own, other)
        return self._cast(name, type_)

    def _there(self, name: str) -> NDArray[np.bool_]:
        return self.present(name) if name in self._table.column_names else np.zeros(1, np.bool_)

    def _cast(self, name: str, type_: str) -> NDArray[np.float64]:
        """Keys of one column, cast once for each distinct value where Arrow can tell them."""
        import pyarrow as pa
        import pyarrow.types as t

        if name not in self._table.column_names:
            return np.full(self._table.num_rows, np.nan)
        column = self._column(name)
        if t.is_nested(column.type) or t.is_null(column.type):
            values = column.to_pylist()
            return np.array([cast_key(value, type_, self._strings) for value in values], np.float64)
        coded = column if t.is_dictionary(column.type) else column.dictionary_encode()
        values = coded.dictionary.to_pylist()
        keys = np.array([*(cast_key(v, type_, self._strings) for v in values), np.nan], np.float64)
        indices = coded.indices.cast(pa.int64()).fill_null(len(values))
        cast: NDArray[np.float64] = keys[np.asarray(indices)]
        return cast

    def _column(self, name: str) -> Any:
        import pyarrow as pa

        column = self._table.column(name)
        chunks = column.chunks
        return chunks[0] if len(chunks) == 1 else pa.array([], column.type)

    def _keep_strings(self, name: str, rows: NDArray[np.int64]) -> None:
        column = self._column(name)
        if is_text(column.type):
            texts = column.take(rows).unique().to_pylist()
            self._strings.add_many(
                text for text in texts if text is not None and len(text) <= MAX_TEXT
            )

    def _read(self, name: str, type_: str) -> Keys:
        """Keys of a column; what cannot be read is an error of its row."""
        column = self._column(name)
        kind = str(column.type)
        if type_ == "number" and is_number(column.type):
            return (_numbers(column),)
        if type_ == "boolean" and kind == "bool":
            return (_numbers(column),)
        if type_ == "timestamp" and is_moment(column.type):
            values = column.to_numpy(zero_copy_only=False)
            keys, exact = datetimes(values)
            for i in np.flatnonzero(~exact).tolist():
                self.errors.setdefault(i, inexact(name, values[i]))
            return (keys,)
        if type_ == "string" and is_text(column.type):
            return (self._labels(name, column),)
        if type_ == "location" and (pairs := _pairs(column)) is not None:
            return pairs
        if type_.startswith(CATEGORY) and holds_texts(column.type):
            keys, errors = self._categories.arrow_keys(name, type_, column, self.given)
            for i, error in errors.items():
                self.errors.setdefault(i, error)
            return (keys,)
        n = len(column)
        parts = np.full((2 if type_ == "location" else 1, n), np.nan)
        for i in np.flatnonzero(self.present(name)).tolist():
            try:
                value = column[i].as_py()
                if type_ == "location":
                    parts[:, i] = location(name, value)
                elif type_.startswith(CATEGORY):
                    parts[0, i] = self._categories.key(name, type_, value, self.given)
                elif type_ == XML:
                    parts[0, i] = self._add_document(name, value, self.given)
                else:
                    parts[0, i] = key(name, type_, value, self._strings, False)
            except GermaneError as error:
                self.errors.setdefault(i, error)
            except (ValueError, OverflowError) as error:
                value = in_python(column, i)
                self.errors.setdefault(
                    i, InvalidValue(f"attribute {name!r}: {value!s:.100}: {error}")
                )
        return tuple(parts)

    def _labels(self, name: str, column: Any) -> NDArray[np.float64]:
        """Labels of strings, looked up once for each distinct one."""
        coded = column if str(column.type).startswith("dictionary") else column.dictionary_encode()
        texts = coded.dictionary.to_pylist()
        labels = np.full(len(texts) + 1, np.nan)
        long = np.zeros(len(texts) + 1, np.bool_)
        for i, text in enumerate(texts):
            if text is not None and len(text) <= MAX_TEXT:
                labels[i] = self._strings.label(text)
            long[i] = text is not None and len(text) > MAX_TEXT
        places = np.asarray(coded.indices.fill_null(len(texts)), np.int64)
        for i in np.flatnonzero(long[places]).tolist():
            self.errors.setdefault(
                i, InvalidValue(f"attribute {name!r} has a string above {MAX_TEXT:,} characters")
            )
        return labels[places]


def cast_key(value: Any, type_: str, strings: Strings) -> float:
    """The key of a message's value as CESQL casts it; NaN where it is missing or that fails."""
    plain = None if is_null(value) else value_of(value)
    if plain is None:
        return math.nan
    found, error = cast(plain, TYPES[type_])
    if error:
        return math.nan
    return strings.label(str(found)) if type_ == "string" else float(found)


class _Row(Mapping[str, Any]):
    """One row of a table as a mapping, without the columns that are not attributes.

    Of those, an id is known under the name that only CESQL reads.
    """

    def __init__(self, table: Any, row: int, reserved: Collection[str]) -> None:
        self._table = table
        self._row = row
        self._reserved = reserved

    def __getitem__(self, name: str) -> Any:
        if name in self._table.column_names and name not in self._reserved:
            value = in_python(self._table.column(name), self._row)
            if value is not None or name != OWN_ID:
                return value
        if name == OWN_ID and "id" in self._reserved and "id" in self._table.column_names:
            return self._table.column("id")[self._row].as_py()
        raise KeyError(name)

    def __iter__(self) -> Any:
        return (name for name in self._table.column_names if name not in self._reserved)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def row_of(table: Any, i: int) -> dict[str, Any]:
    """A row of a table, for people to read: what Python cannot hold is a text."""
    return {name: in_python(table.column(name), i) for name in table.column_names}


def rows_of(table: Any) -> Iterator[dict[str, Any]]:
    """All rows of a table."""
    return (row_of(table, i) for i in range(table.num_rows))


def in_python(column: Any, i: int) -> Any:
    """A value of a column, or a text that says it: Python's datetimes end before Arrow's."""
    import pyarrow as pa

    try:
        return column[i].as_py()
    except (ValueError, OverflowError):
        pass
    try:
        return str(column.slice(i, 1).cast(pa.string())[0])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return f"a {column.type}"


def is_moment(type_: Any) -> bool:
    """Whether an Arrow type holds timestamps or dates."""
    import pyarrow.types as t

    return bool(t.is_timestamp(type_) or t.is_date(type_))


def is_number(type_: Any) -> bool:
    """Whether an Arrow type holds numbers that fit float64 as they are."""
    import pyarrow.types as t

    return bool(t.is_integer(type_) or t.is_floating(type_))


def is_text(type_: Any) -> bool:
    """Whether an Arrow type holds strings."""
    import pyarrow.types as t

    if t.is_dictionary(type_):
        return is_text(type_.value_type)
    return bool(t.is_string(type_) or t.is_large_string(type_))


def is_bytes(type_: Any) -> bool:
    """Whether an Arrow type holds bytes, which are documents."""
    import pyarrow.types as t

    if t.is_dictionary(type_):
        return is_bytes(type_.value_type)
    return bool(t.is_binary(type_) or t.is_large_binary(type_) or t.is_fixed_size_binary(type_))


def holds_texts(type_: Any) -> bool:
    """Whether an Arrow type holds strings, or lists of strings."""
    import pyarrow.types as t

    return is_text(type_.value_type if t.is_list(type_) or t.is_large_list(type_) else type_)


def type_of_column(type_: Any) -> str | None:
    """The attribute type that an Arrow type shows by itself; None for NULLs."""
    import pyarrow.types as t

    if t.is_null(type_):
        return None
    if is_number(type_) or t.is_decimal(type_):
        return "number"
    if is_text(type_):
        return "string"
    if is_bytes(type_):
        return XML
    if t.is_boolean(type_):
        return "boolean"
    if is_moment(type_):
        return "timestamp"
    if t.is_struct(type_) or t.is_list(type_) or t.is_fixed_size_list(type_):
        return "location"
    raise InvalidValue(
        f"a column of {type_} holds no values of an attribute; use numbers, strings, booleans, "
        "timestamps, (latitude, longitude) pairs or documents as bytes"
    )


def _pairs(column: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Latitudes and longitudes of a column, if all that are there are fine; NULL as NaN."""
    import pyarrow.compute as pc
    import pyarrow.types as t

    type_ = column.type
    there = np.asarray(column.is_valid())
    if t.is_struct(type_) and {"lat", "lon"} <= {field.name for field in type_}:
        parts = [column.field(name).filter(column.is_valid()) for name in ("lat", "lon")]
    elif t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        if not pc.all(pc.equal(pc.list_value_length(column), 2)).as_py():
            return None
        flat = pc.list_flatten(column)
        parts = [flat.take(np.arange(i, len(flat), 2)) for i in range(2)]
    else:
        return None
    if not all(is_number(part.type) for part in parts):
        return None
    lat, lon = (np.full(len(there), np.nan) for _ in parts)
    lat[there], lon[there] = (_numbers(part) for part in parts)
    fine = (np.abs(lat[there]) <= 90.0) & (np.abs(lon[there]) <= 180.0)
    return (lat, lon) if fine.all() else None


def _numbers(column: Any) -> NDArray[np.float64]:
    """A column of numbers or booleans as float64, NULL as NaN."""
    import pyarrow as pa

    floats = column.cast(pa.float64(), safe=False) if str(column.type) != "bool" else column
    if str(column.type) == "bool":
        floats = column.cast(pa.int8()).cast(pa.float64())
    return np.ascontiguousarray(floats.to_numpy(zero_copy_only=False), np.float64)
