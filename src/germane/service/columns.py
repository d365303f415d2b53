"""Events of the log -> one Arrow table for ``Filter.process``.

In: CloudEvents as dicts with their seqs. Out: a table with ``seq``, ``kind``, ``id``, a column an
attribute, and where they are needed ``removed`` and ``address``; or, where the values of one name
do not fit one column, the same as dicts. Cost: a few microseconds an event.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from germane.model import GermaneError
from germane.service.clock import of_datetime
from germane.service.cloudevents import (
    PATCH,
    PUT,
    context_values,
    message_attributes,
)

PLAIN = frozenset((float, int, str, bool))
WIDEST = 64
"""Columns of a table at most: events that have more names between them go as dicts."""


class Refused(NamedTuple):
    """An event that is no message and no context change, though its envelope was good."""

    seq: int
    reason: str


class Gathered:
    """Events of one tenant, in order, on their way into its filter."""

    def __init__(
        self,
        graphs: Iterable[str],
        context_names: Iterable[str],
        unread: Iterable[str] = (),
    ) -> None:
        """``unread`` are attributes of messages that no profile reads, and that may be left out."""
        self._unread = frozenset(unread)
        self._graphs = frozenset(graphs)
        self._names_of_contexts = set(context_names)  # what a replacement removes
        self._set_before: set[str] = set()  # names that contexts have a column of
        self.seqs: list[int] = []
        self.kinds: list[int] = []  # 0 message, 1 update
        self.ids: list[str] = []
        self.columns: dict[str, tuple[list[int], list[Any]]] = {}
        self.removed: dict[int, list[str]] = {}
        self.addresses: dict[int, str] = {}
        self.urgent: set[int] = set()  # seqs
        self.expires: dict[int, int] = {}  # seq -> microseconds
        self.refused: list[Refused] = []
        self.n_messages = 0

    def __len__(self) -> int:
        return len(self.seqs)

    def add(self, first: int, events: list[dict[str, Any]]) -> None:
        """Take the events of an entry, the first of which has this seq."""
        for seq, event in enumerate(events, first):
            kind = event["type"]
            try:
                if kind == PATCH and self._usual(event["data"]):
                    self._set(seq, event["subject"], event["data"])
                elif kind in (PATCH, PUT):
                    self._change(seq, event, kind == PUT)
                else:
                    self._message(seq, event)
            except (GermaneError, msgspec.ValidationError) as error:
                self.refused.append(Refused(seq, str(error)))

    def _usual(self, data: dict[str, Any]) -> bool:
        """Whether a change only sets plain values of attributes that contexts are known to have."""
        known = self._set_before
        return all(name in known and type(value) in PLAIN for name, value in data.items())

    def _set(self, seq: int, id_: str, data: dict[str, Any]) -> None:
        row = len(self.seqs)
        self.seqs.append(seq)
        self.kinds.append(1)
        self.ids.append(id_)
        for name, value in data.items():
            rows, values = self.columns[name]
            rows.append(row)
            values.append(value)

    def _change(self, seq: int, event: dict[str, Any], replaces: bool) -> None:
        values = context_values(event, self._graphs)
        row = len(self.seqs)
        self.seqs.append(seq)
        self.kinds.append(1)
        self.ids.append(event["subject"])
        removed = None
        columns = self.columns
        for name, value in values.items():
            if value is None:
                removed = [*(removed or ()), name]
                continue
            column = columns.get(name)
            if column is None:
                column = columns[name] = ([], [])
                self._names_of_contexts.add(name)
            column[0].append(row)
            column[1].append(value)
            self._set_before.add(name)
        self._names_of_contexts.update(values)
        if replaces:
            removed = sorted(
                self._names_of_contexts - {n for n, v in values.items() if v is not None}
            )
        if removed:
            self.removed[row] = removed

    def _message(self, seq: int, event: dict[str, Any]) -> None:
        attributes = message_attributes(event, self._graphs)
        expiry = event.get("expirytime")
        if expiry is not None:
            self.expires[seq] = of_datetime(msgspec.convert(expiry, datetime))
        if event.get("urgent"):
            self.urgent.add(seq)
        row = len(self.seqs)
        self.seqs.append(seq)
        self.kinds.append(0)
        self.ids.append(event["id"])
        self.n_messages += 1
        address = event.get("address")
        if address is not None:
            self.addresses[row] = address
        columns, unread = self.columns, self._unread
        for name, value in attributes.items():
            if name in unread:
                continue
            column = columns.get(name)
            if column is None:
                column = columns[name] = ([], [])
            column[0].append(row)
            column[1].append(value)

    # as the filter takes them ------------------------------------------------------------------

    def table(self) -> Any:
        """All of it as an Arrow table, or else as dicts."""
        if len(self.columns) > WIDEST:
            return self.as_dicts()
        try:
            return self._as_arrow()
        except (pa.ArrowException, LookupError, TypeError, ValueError, OverflowError):
            return self.as_dicts()

    def _as_arrow(self) -> Any:
        n = len(self.seqs)
        kinds = pa.DictionaryArray.from_arrays(
            pa.array(np.array(self.kinds, np.int8)), pa.array(["message", "update"])
        )
        columns: dict[str, Any] = {
            "seq": pa.array(np.array(self.seqs, np.int64)),
            "kind": kinds,
            "id": pa.array(self.ids, pa.string()),
        }
        for name, (rows, values) in self.columns.items():
            columns[name] = _spread(_array(values), rows, n)
        if self.removed:
            columns["removed"] = pa.array(
                [self.removed.get(i) for i in range(n)], pa.list_(pa.string())
            )
        if self.addresses:
            columns["address"] = pa.array([self.addresses.get(i) for i in range(n)], pa.string())
        return pa.table(columns)

    def as_dicts(self) -> list[dict[str, Any]]:
        """All of it, one dict an event."""
        events: list[dict[str, Any]] = [
            {"seq": seq, "kind": ("message", "update")[kind], "id": id_}
            for seq, kind, id_ in zip(self.seqs, self.kinds, self.ids, strict=True)
        ]
        for name, (rows, values) in self.columns.items():
            for row, value in zip(rows, values, strict=True):
                events[row][name] = value
        for row, names in self.removed.items():
            events[row]["removed"] = names
        for row, address in self.addresses.items():
            events[row]["address"] = address
        return events


def _array(values: list[Any]) -> Any:
    """Values as an Arrow array of one type; raises where they are of several."""
    first = type(values[0])
    if first is float or first is int:
        if not all(type(v) is float or type(v) is int for v in values):
            raise TypeError
        return pa.array(np.array(values, np.float64))
    if first is datetime:
        if not all(type(v) is datetime for v in values):  # a context's may be a number, say
            raise TypeError
        return pa.array(np.array([of_datetime(v) for v in values], np.int64)).cast(
            pa.timestamp("us", "UTC")
        )
    if first is dict:
        return pa.array(
            [(float(v["lat"]), float(v["lon"])) for v in values], pa.list_(pa.float64(), 2)
        )
    if first is list and values[0] and type(values[0][0]) is not str:
        return pa.array(values, pa.list_(pa.float64(), 2))
    if first is list:  # nodes: one may come without its list, and a string is no list of letters
        nodes = [value if type(value) is list else [value] for value in values]
        return pa.array(nodes, pa.list_(pa.string()))
    return pa.array(values, pa.string() if first is str else pa.bool_())


def _spread(array: Any, rows: list[int], n: int) -> Any:
    """An array's values at their rows, null elsewhere."""
    if len(rows) == n:
        return array
    places = np.full(n, -1, np.int64)
    places[rows] = np.arange(len(rows))
    return array.take(pa.array(places, mask=places < 0))
