"""Messages as callers give them -> vectors of keys, one slot per attribute that a profile reads.

Every attribute is checked against the schema, also those that no profile reads; the first value
of an attribute fixes its type. A message that is refused changes nothing.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.category.sets import Categories, Given
from germane.context import Strings
from germane.context.values import MAX_TEXT, is_null, key, location, type_of_value
from germane.filter.columns import Columns, cast_key
from germane.language.cesql.evaluate import raw
from germane.model import Draft, GermaneError, InvalidValue, Schema
from germane.model.errors import shown
from germane.model.types import CATEGORY, XML

OTHER, NUMBER, STRING, LOCATION = 0, 1, 2, 3
KINDS = {"number": NUMBER, "string": STRING, "location": LOCATION}


CASTS = {"string": "STRING", "number": "INT", "boolean": "BOOL"}
FLOAT64 = np.dtype(np.float64)


class Messages:
    """Reads messages; numbers the attributes that profiles read."""

    def __init__(
        self,
        schema: Schema,
        strings: Strings,
        categories: Categories,
        add_document: Callable[[str, Any, Given], float],
    ) -> None:
        self.schema = schema
        self.strings = strings
        self.categories = categories
        self.add_document = add_document
        self.given = categories.nobody  # the sets of the messages that are being read
        self.slots: dict[str, tuple[int, ...]] = {}
        self.n_slots = 0
        self.casts: dict[tuple[str, str], int] = {}  # (name, type) -> slot: as CESQL casts it
        self._readers: dict[str, tuple[int, int]] = {}  # name -> (first slot or -1, kind)

    def slots_of(self, name: str, type_: str | None) -> tuple[int, ...]:
        """The slots of an attribute that a profile reads, made on first sight."""
        known = self.slots.get(name, ())
        wanted = 2 if type_ == "location" else 1
        if len(known) < wanted:
            new = range(self.n_slots, self.n_slots + wanted - len(known))
            known = self.slots[name] = (*known, *new)
            self.n_slots += len(new)
            self._readers.pop(name, None)
        return known

    def slot_of_cast(self, name: str, type_: str) -> tuple[int, ...]:
        """The slot of an attribute as CESQL casts it to a type, made on first sight."""
        slot = self.casts.setdefault((name, type_), self.n_slots)
        self.n_slots += slot == self.n_slots
        return (slot,)

    def documents(self) -> list[int]:
        """The slots of documents."""
        return [slots[0] for name, slots in self.slots.items() if self.schema.type_of(name) == XML]

    def documents_of(self, message: Mapping[str, Any]) -> list[Any]:
        """The documents of a message that profiles read."""
        found = [message.get(name) for name in self.slots if self.schema.type_of(name) == XML]
        return [document for document in found if not is_null(document)]

    def read(self, message: Any) -> NDArray[np.float64]:
        """The vector of a message; ``given`` has its sets, if anybody looks at some."""
        self.given = self.categories.given() if self.categories else self.categories.nobody
        return self._vector_of(message)

    def _vector_of(self, message: Any) -> NDArray[np.float64]:
        vector = [math.nan] * self.n_slots
        if not self._read(message, vector):
            fresh = _Fresh(self.schema.draft("a message"))
            self._read_unknown(message, vector, fresh)
            self._settle(fresh)
        for (name, type_), slot in self.casts.items():
            vector[slot] = cast_key(raw(message, name), type_, self.strings)
        return np.array(vector)

    def read_batch(self, messages: Any) -> "Batch":
        """The vectors of a batch; a malformed message becomes an error of its row."""
        if isinstance(messages, np.ndarray) and messages.ndim == 2 and messages.dtype.kind in "fiu":
            if messages.shape[1] != self.n_slots:
                raise InvalidValue(
                    f"vectors of messages have {self.n_slots} columns, one for each of "
                    f"Filter.attributes, not {messages.shape[1]}"
                )
            vectors = np.ascontiguousarray(messages, np.float64)
            return Batch(vectors, lambda _: NO_TEXTS, {}, self.categories.nobody)
        if hasattr(messages, "schema") and hasattr(messages, "to_pylist"):
            return self._read_arrow(messages)
        if isinstance(messages, Mapping | str | bytes) or not isinstance(messages, Iterable):
            raise InvalidValue("match_many takes a sequence of messages; use match for one")
        if isinstance(messages, np.ndarray) and not messages.ndim:
            raise InvalidValue(f"match_many takes a sequence of messages, not {messages!r:.200}")
        listed = list(messages)
        self.given = self.categories.given()
        vectors = np.full((len(listed), self.n_slots), np.nan)
        errors: dict[int, GermaneError] = {}
        for i, message in enumerate(listed):
            try:
                vector = (
                    self.vector(message)
                    if isinstance(message, np.ndarray)
                    else self._vector_of(message)
                )
            except GermaneError as error:
                errors[i] = error
                continue
            if len(vector) > vectors.shape[1]:
                wider = np.full((len(listed), len(vector)), np.nan)
                wider[:, : vectors.shape[1]] = vectors
                vectors = wider
            vectors[i] = vector
        return Batch(vectors, lambda i: _raw(listed[i]), errors, self.given)

    def _read_arrow(self, table: Any) -> "Batch":
        """The vectors of an Arrow table's rows, column by column."""
        import pyarrow as pa

        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        columns = Columns(table, self.schema, self.strings, self.categories, self.add_document)
        for name in columns.names:
            self.schema.require(name)
        everyone = np.arange(table.num_rows)
        for name in columns.names:
            columns.keys(name, everyone, False)  # finds the malformed ones
        columns.settle(everyone, "a message")
        vectors = self.vectors(columns, everyone)
        return Batch(vectors, columns.row, columns.errors, columns.given)

    def vectors(self, columns: Columns, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The vectors of some rows of a table; malformed ones are among ``columns.errors``."""
        keys = {name: columns.keys(name, rows, False) for name in columns.names}
        for name in columns.names:
            if name in self.slots:
                self.slots_of(name, self.schema.type_of(name))
        vectors = np.full((len(rows), self.n_slots), np.nan)
        for name, parts in keys.items():
            for slot, part in zip(self.slots.get(name, ()), parts, strict=False):
                vectors[:, slot] = part[rows]
        for (name, type_), slot in self.casts.items():
            vectors[:, slot] = columns.cast(name, type_)[rows]
        return vectors

    def cast_own_ids(self, vectors: NDArray[np.float64], ids: Sequence[Any]) -> None:
        """Read the ids of messages that have them beside their attributes."""
        for (name, type_), slot in self.casts.items():
            if name == "id":
                for vector, own in zip(vectors, ids, strict=True):
                    if own is not None:
                        vector[slot] = cast_key(own, type_, self.strings)

    def vector(self, message: NDArray[Any]) -> NDArray[np.float64]:
        """A message that came as a vector, checked."""
        if message.dtype is not FLOAT64 or message.shape != (self.n_slots,):
            if message.dtype != FLOAT64 or message.shape != (self.n_slots,):
                raise InvalidValue(
                    f"a message vector has dtype float64 and shape ({self.n_slots},), "
                    f"not {message.dtype} and {message.shape}"
                )
            return message.astype(np.float64)
        return message if message.flags.c_contiguous else message.copy()

    def _read(self, message: Any, vector: list[float]) -> bool:
        """Fill the vector; False when there are attributes without a reader yet."""
        if type(message) is not dict and not isinstance(message, Mapping):
            raise InvalidValue(
                f"a message is a mapping of attribute names to values, not {shown(message)}"
            )
        readers = self._readers
        known = True
        for name, value in message.items():
            reader = readers.get(name)
            if reader is None:
                known = False
                continue
            slot, kind = reader
            if kind == NUMBER and type(value) is float:
                if slot >= 0:
                    vector[slot] = value
            elif kind == NUMBER and type(value) is int:
                try:
                    number = float(value)
                except OverflowError:
                    number = key(name, "number", value, self.strings, False)  # says why not
                if slot >= 0:
                    vector[slot] = number
            elif kind == STRING and type(value) is str and slot >= 0 and len(value) <= MAX_TEXT:
                vector[slot] = self.strings.label(value)
            else:
                type_ = self.schema.type_of(name)
                assert type_ is not None
                self._place(name, type_, value, vector)
        return known

    def _place(self, name: str, type_: str, value: Any, vector: list[float]) -> None:
        """Check a value of an attribute with a known type, and put its keys into the vector."""
        slots = self.slots.get(name, ())
        if type_ == "location":
            for slot, part in zip(slots, location(name, value), strict=False):
                vector[slot] = part
        elif type_.startswith(CATEGORY):
            number = self.categories.key(name, type_, value, self.given)
            if slots:
                vector[slots[0]] = number
        elif type_ == XML:
            number = self.add_document(name, value, self.given)
            if slots:
                vector[slots[0]] = number
        else:
            number = key(name, type_, value, self.strings, False)
            if slots:
                vector[slots[0]] = number

    def _read_unknown(
        self, message: Mapping[str, Any], vector: list[float], fresh: "_Fresh"
    ) -> None:
        """Place attributes without a reader; what they teach is kept in ``fresh``."""
        draft = fresh.draft
        for name, value in message.items():
            if name in self._readers:
                continue
            self.schema.require(name)
            type_ = draft.type_of(name)
            if type_ is None and not is_null(value):
                type_ = type_of_value(name, value)
                if type_ is not None:
                    draft.fix(name, type_)
            if type_ is not None:
                self._place(name, type_, value, vector)
                fresh.types[name] = type_
                if type_ == "location" and len(self.slots.get(name, ())) == 1:
                    fresh.longitudes.append((vector, name, location(name, value)[1]))

    def _settle(self, fresh: "_Fresh") -> None:
        """Nothing was refused: keep the new types, and read their attributes the fast way."""
        fresh.draft.commit()
        for name, type_ in fresh.types.items():
            if name in self.slots:
                self.slots_of(name, type_)
            slots = self.slots.get(name, (-1,))
            self._readers[name] = (slots[0], KINDS.get(type_, OTHER))
        for vector, name, longitude in fresh.longitudes:
            vector.extend([math.nan] * (self.n_slots - len(vector)))
            vector[self.slots[name][1]] = longitude

    @property
    def attributes(self) -> list[str]:
        """The attributes that profiles read, by slot."""
        names = [""] * self.n_slots
        for name, slots in self.slots.items():
            for slot in slots:
                names[slot] = name
        for (name, type_), slot in self.casts.items():
            names[slot] = f"{CASTS[type_]}({name})"
        return names

    @property
    def sources(self) -> list[tuple[str, str | None]]:
        """For each slot, the attribute it is read from, and the type of its keys."""
        found: list[tuple[str, str | None]] = [("", None)] * self.n_slots
        for name, slots in self.slots.items():
            for slot in slots:
                found[slot] = (name, self.schema.type_of(name))
        for (name, type_), slot in self.casts.items():
            found[slot] = (name, type_)
        return found


class Batch(NamedTuple):
    """Messages that were read."""

    vectors: NDArray[np.float64]  # [n, slot]
    raw_of: Callable[[int], Mapping[str, Any]]
    errors: dict[int, GermaneError]
    given: Given  # sets of nodes


class _NoTexts(dict[str, Any]):
    """A message that came as a vector has no texts to look at."""

    def get(self, name: str, default: Any = None) -> Any:
        raise InvalidValue(
            f"a profile looks at the text of {name!r}; pass the message as a mapping"
        )


NO_TEXTS = _NoTexts()


def _raw(message: Any) -> Mapping[str, Any]:
    return NO_TEXTS if isinstance(message, np.ndarray) else message


class _Fresh:
    """What messages teach about attributes, until nothing can be refused any more."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.types: dict[str, str] = {}
        self.longitudes: list[tuple[list[float], str, float]] = []  # that have no slot yet
