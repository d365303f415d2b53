"""Messages as callers give them -> vectors of keys, one slot per attribute that a profile reads.

Every attribute is checked against the schema, also those that no profile reads; the first value
of an attribute fixes its type. A message that is refused changes nothing.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.context import Strings
from germane.context.values import is_null, key, location, type_of_value
from germane.model import InvalidValue, Schema

OTHER, NUMBER, STRING, LOCATION = 0, 1, 2, 3
KINDS = {"number": NUMBER, "string": STRING, "location": LOCATION}


class Messages:
    """Reads messages; numbers the attributes that profiles read."""

    def __init__(self, schema: Schema, strings: Strings) -> None:
        self.schema = schema
        self.strings = strings
        self.slots: dict[str, tuple[int, ...]] = {}
        self.n_slots = 0
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

    def read(self, message: Any) -> NDArray[np.float64]:
        """The vector of a message."""
        if not isinstance(message, Mapping):
            raise InvalidValue(
                f"a message is a mapping of attribute names to values, not {message!r:.200}"
            )
        vector = [math.nan] * self.n_slots
        readers = self._readers
        unknown = None
        for name, value in message.items():
            reader = readers.get(name)
            if reader is None:
                unknown = True
                continue
            slot, kind = reader
            if kind == NUMBER and (type(value) is float or type(value) is int):
                if slot >= 0:
                    try:
                        vector[slot] = float(value)
                    except OverflowError:
                        key(name, "number", value, self.strings, False)
            elif kind == STRING and type(value) is str and slot >= 0:
                vector[slot] = self.strings.label(value)
            else:
                self._place(name, value, vector)
        if unknown:
            self._read_unknown(message, vector)
        return np.array(vector)

    def _place(self, name: str, value: Any, vector: list[float]) -> None:
        """Check a value of an attribute with a known type, and put its keys into the vector."""
        type_ = self.schema.type_of(name)
        assert type_ is not None
        slots = self.slots.get(name, ())
        if type_ == "location":
            for slot, part in zip(slots, location(name, value), strict=False):
                vector[slot] = part
        elif type_ in ("category", "xml"):
            raise InvalidValue(f"attribute {name!r} is of type {type_}, which is not supported yet")
        else:
            number = key(name, type_, value, self.strings, False)
            if slots:
                vector[slots[0]] = number

    def _read_unknown(self, message: Mapping[str, Any], vector: list[float]) -> None:
        """Attributes seen for the first time: fix their types, all or none."""
        draft = self.schema.draft("a message")
        fresh = []
        for name, value in message.items():
            if name in self._readers:
                continue
            self.schema.require(name)
            type_ = self.schema.type_of(name)
            if type_ is None and not is_null(value):
                type_ = type_of_value(name, value)
                if type_ is not None:
                    draft.fix(name, type_)
                    if type_ == "location":
                        location(name, value)
                    else:
                        key(name, type_, value, self.strings, False)
            if type_ is not None:
                fresh.append(name)
        draft.commit()
        for name in fresh:
            type_ = self.schema.type_of(name)
            assert type_ is not None
            if type_ == "location" and name in self.slots:
                self.slots_of(name, type_)
                vector.extend([math.nan] * (self.n_slots - len(vector)))
            self._place(name, message[name], vector)
            slots = self.slots.get(name, (-1,))
            self._readers[name] = (slots[0], KINDS.get(type_, OTHER))

    @property
    def attributes(self) -> list[str]:
        """The attributes that profiles read, by slot."""
        names = [""] * self.n_slots
        for name, slots in self.slots.items():
            for slot in slots:
                names[slot] = name
        return names
