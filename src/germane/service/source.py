"""The log as a source of Spark: ``spark.readStream.format("germane-log")``.

In: where an installation's log is. Out: a row an event, in the order of ``seq`` within a tenant;
``germane-entries`` gives the entries themselves, all of them to each of several copies, for the
matcher on Spark. An offset says how far each tenant has come. The next one gives every tenant that
has something to say an equal share, so that none keeps the others waiting. The log is the only
state: a range of offsets reads the same whenever, and wherever, it is asked for.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from germane.model import InvalidValue
from germane.service import log as logs
from germane.service.cloudevents import PATCH, PUT
from germane.service.log import Log, Stored
from germane.service.settings import Settings
from germane.service.shares import log_of

PART = 5_000
"""Events that are read at a time."""
LEAST_SHARE = 256
EVENTS = pa.schema(
    [
        ("seq", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("tenant", pa.int32()),
        ("kind", pa.string()), ("id", pa.string()), ("body", pa.string()),
    ]
)  # fmt: skip
ENTRIES = pa.schema(
    [
        ("share", pa.int32()), ("tenant", pa.int32()), ("after", pa.int64()),
        ("seq", pa.int64()), ("at", pa.int64()), ("kind", pa.string()), ("n", pa.int64()),
        ("body", pa.binary()),
    ]
)  # fmt: skip
_OF_SPARK = {
    "int64": types.LongType(), "int32": types.IntegerType(), "string": types.StringType(),
    "binary": types.BinaryType(),
}  # fmt: skip
Offset = dict[str, int]
"""Tenant -> the seq up to which its entries were read."""
OTHERS = "0"
"""Stands for the tenants that an offset does not name."""


class LogSource(DataSource):
    """A row an event.

    Options: ``path``, an installation's data directory, or ``log``, nats://host:port; ``tenant``,
    for one tenant only; ``startingAfter``, a seq, or JSON with one for each tenant;
    ``maxEventsPerTrigger``.
    """

    columns = EVENTS

    @classmethod
    def name(cls) -> str:
        """How Spark calls it."""
        return "germane-log"

    def schema(self) -> types.StructType:
        """The columns."""
        return of_spark(self.columns)

    def streamReader(self, schema: Any) -> "LogReader":
        """As a stream."""
        return LogReader(self.options, self.columns)

    def reader(self, schema: Any) -> "LogToNow":
        """As a batch: what is in the log now."""
        return LogToNow(self.options, self.columns)


class EntrySource(LogSource):
    """A row an entry, for each of ``copies``."""

    columns = ENTRIES

    @classmethod
    def name(cls) -> str:
        """How Spark calls it."""
        return "germane-entries"


class Range(InputPartition):
    """What one task reads: some entries of tenants."""

    def __init__(self, copy: int, ranges: list[tuple[int, int, int]]) -> None:
        self.copy = copy
        self.ranges = ranges  # tenant, after, up to


class LogReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a log as it grows."""

    def __init__(self, options: Mapping[str, str], columns: pa.Schema) -> None:
        if not options.get("path") and not options.get("log"):
            raise InvalidValue(
                "where is the log? .load(path) says the data directory of an installation, "
                ".option('log', 'nats://host:port') a broker"
            )
        self._settings = Settings(data=options.get("path", ""), log=options.get("log", ""))
        self._tenant = int(options["tenant"]) if "tenant" in options else None
        self._start = _starting_after(options.get("startingAfter"))
        self._most = int(options.get("maxEventsPerTrigger", 0))
        self._copies = int(options.get("copies", 1))
        self._of_entries = columns.equals(ENTRIES)
        self._lasts: dict[int, int] = {}  # tenant -> the seq of its last event
        self._seen: int | None = None  # up to here, it is in there
        self._ended = False  # what comes now is for another stream

    @property
    def _log(self) -> Log:
        return log_of(self._settings)

    # offsets ---------------------------------------------------------------------------------

    def initialOffset(self) -> Offset:
        """Where a new stream starts."""
        return self._start

    def prepareForTriggerAvailableNow(self) -> None:
        """From now on, the log is what it is now."""
        self._look(self._start)
        self._ended = True

    def getDefaultReadLimit(self) -> ReadLimit:
        """What ``maxEventsPerTrigger`` says."""
        return ReadMaxRows(self._most) if self._most else ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """How far the next micro-batch goes: an equal share for every tenant with news."""
        self._look(start)
        news = {n: last for n, last in self._lasts.items() if last > _after(start, n)}
        if not isinstance(limit, ReadMaxRows):
            return start | {str(n): last for n, last in news.items()}
        share = max(limit.max_rows // max(len(news), 1), LEAST_SHARE)
        end = dict(start)
        for n, last in news.items():
            entries = logs.read_up_to(self._log, _after(start, n), last, n, share)
            if entries:
                end[str(n)] = entries[-1].last
        return end

    def _look(self, start: Offset) -> None:
        """Find out how far each tenant's entries go; once from the start, then what is new."""
        if self._ended:
            return
        if self._seen is None:
            self._seen = start[OTHERS]
            for n in _tenants(start):
                newest = self._log.read_back(self._log.bounds()[1] + 1, 1, n)
                self._lasts[n] = newest[0].last if newest else 0
        for n, last in self._log.tenants(self._seen).items():
            self._lasts[n] = last
            self._seen = max(self._seen, last)
        if self._tenant is not None:
            self._lasts = {n: last for n, last in self._lasts.items() if n == self._tenant}

    # reading ---------------------------------------------------------------------------------

    def partitions(self, start: Offset, end: Offset) -> list[Range]:
        """A task for each copy."""
        ranges = [
            (n, _after(start, n), end[str(n)])
            for n in _tenants(end)
            if end[str(n)] > _after(start, n)
        ]
        return [Range(copy, ranges) for copy in range(self._copies)] if ranges else []

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a range."""
        for tenant, after, up_to in partition.ranges:
            at = after
            while at < up_to:
                entries = logs.read_up_to(self._log, at, up_to, tenant, PART)
                if not entries:
                    break
                if self._of_entries:
                    yield _entries(partition.copy, tenant, after, entries)
                else:
                    yield _events(entries, at)
                at = entries[-1].last

    def commit(self, end: Offset) -> None:
        """Nothing: the log keeps what it has."""


class LogToNow(DataSourceReader):
    """Reads a log to its end."""

    def __init__(self, options: Mapping[str, str], columns: pa.Schema) -> None:
        self._reader = LogReader(options, columns)

    def partitions(self) -> list[Range]:
        """One task for each tenant."""
        reader = self._reader
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        return [
            Range(0, [each]) for part in reader.partitions(start, end)[:1] for each in part.ranges
        ]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a range."""
        return self._reader.read(partition)


def of_spark(columns: pa.Schema) -> types.StructType:
    """The columns of a table as Spark has them."""
    kinds = {f.name: _OF_SPARK.get(str(f.type), types.TimestampType()) for f in columns}
    return types.StructType([types.StructField(name, kind) for name, kind in kinds.items()])


def register(session: Any) -> None:
    """Let a session know ``germane-log``."""
    session.dataSource.register(LogSource)
    session.dataSource.register(EntrySource)


def _tenants(offset: Offset) -> list[int]:
    return [int(n) for n in offset if n != OTHERS]


def _after(offset: Offset, tenant: int) -> int:
    return offset.get(str(tenant), offset[OTHERS])


def _starting_after(text: str | None) -> Offset:
    """A seq for all tenants, or one for each; those that are not named start at 0."""
    try:
        said = json.loads(text or "0")
        if isinstance(said, dict):
            return {OTHERS: 0} | {str(int(tenant)): int(seq) for tenant, seq in said.items()}
        return {OTHERS: int(said)}
    except (TypeError, ValueError) as error:
        raise InvalidValue(
            f'startingAfter is a seq, or JSON such as {{"1": 500}}, not {text!r:.200}'
        ) from error


def _entries(copy: int, tenant: int, after: int, entries: list[Stored]) -> pa.RecordBatch:
    n = len(entries)
    columns: list[Any] = [
        [copy] * n, [tenant] * n, [after] * n, [e.seq for e in entries], [e.at for e in entries],
        [e.kind for e in entries], [e.n for e in entries], [e.body for e in entries],
    ]  # fmt: skip
    arrays = [pa.array(c, f.type) for c, f in zip(columns, ENTRIES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ENTRIES)


_MANY = msgspec.json.Decoder(list[msgspec.Raw])


class _Told(msgspec.Struct):
    """What a row tells of an event without being parsed."""

    id: str | None = None
    type: str | None = None
    subject: str | None = None


_TOLD = msgspec.json.Decoder(_Told)


def _events(entries: list[Stored], after: int) -> pa.RecordBatch:
    """A row an event, but for those up to a seq."""
    rows: list[tuple[Any, ...]] = []
    for entry in entries:
        bodies = _MANY.decode(entry.body) if entry.kind == logs.EVENTS else [entry.body]
        for seq, raw in enumerate(bodies, entry.seq):
            if seq <= after:
                continue
            text = bytes(raw).decode()
            kind, id_ = entry.kind, None
            if kind == logs.EVENTS:
                told = _TOLD.decode(raw)
                kind = {PATCH: "patch", PUT: "put"}.get(told.type or "", "message")
                id_ = told.id if kind == "message" else told.subject
            elif kind in (logs.SUBSCRIBE, logs.UNSUBSCRIBE):
                id_ = _TOLD.decode(raw).id
            rows.append((seq, entry.at, entry.tenant, kind, id_, text))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(EVENTS)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, EVENTS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENTS)
