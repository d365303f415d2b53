"""A shard in Spark's state store, and its copies in Python workers.

The state store is the truth. Per shard it holds a *snapshot* (profiles and values of contexts, in
parts), *deltas* (the events that changed something, one entry a micro-batch), and a head that says
which version that is. A worker keeps the filter it has built, with the version it stands for:

- the version of the head: it is used as it is;
- an older one: the deltas that it missed are played;
- anything else (a failed attempt went ahead, another attempt took its place, a new worker): it is
  built again from snapshot and deltas, by way of the snapshot's image where there is one.

A version is a number and a random word. The number orders deltas; the word tells attempts apart,
and each delta names the word of the version before it. When deltas outgrow the snapshot, the next
snapshot is written; a few old deltas stay for workers that lag behind.
"""

import json
import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from germane.filter import Filter
from germane.filter.events import SUBSCRIBE, UNSUBSCRIBE
from germane.model import GermaneError
from germane.model.types import XML
from germane.spark.gate import Gate
from germane.spark.images import Images
from germane.spark.layout import FIELDS, HOME, PLACING, VALUES, Layout
from germane.spark.moving import MOVES, Offer, offer, offered
from germane.spark.notices import Notices, name_of
from germane.spark.packing import decode, encode, marks_of, plain
from germane.spark.places import Near
from germane.spark.routing import Route, moves_before, route_of
from germane.spark.shards import Played, Shard
from germane.spark.watching import Watch

COUNTS = (
    "events", "messages", "deliveries", "rejected", "held", "candidates", "escalations",
    "profiles", "contexts", "rebuilt", "caught_up", "snapshots", "state_bytes", "nanoseconds",
    "read_ns", "match_ns", "write_ns", "reached", "passed", "notices",
)  # fmt: skip
"""What a shard tells of a micro-batch: ``messages`` were sent here, ``reached`` are those of them
that somebody here gets, ``passed`` were not sent here, and ``notices`` are what it told of its
groups to whoever routes. Of its nanoseconds, ``read_ns`` went by until the filter was as the state
store has it, ``match_ns`` while events were played, ``write_ns`` until the store had it all."""
RESULT = f"shard int, found binary, letters binary, {', '.join(f'{c} bigint' for c in COUNTS)}"
# Schemas as objects: as text, each would go to the JVM to be read, in every task.
_LONG, _TEXT, _BYTES = LongType(), StringType(), BinaryType()
HEAD = StructType(
    [
        StructField(name, kind)
        for name, kind in (
            ("version", _LONG), ("word", _TEXT), ("snapshot", _LONG), ("parts", _LONG),
            ("snapshot_bytes", _LONG), ("delta_bytes", _LONG), ("gate", _TEXT),
            ("recent", _BYTES), ("held", _BYTES), ("letters", _BYTES),
        )
    ]
)  # fmt: skip
VERSION, PART_NUMBER = (StructType([StructField(n, _LONG)]) for n in ("version", "part"))
DELTA = StructType([StructField("before", _TEXT), StructField("changes", _BYTES)])
PART = StructType([StructField("part", _BYTES)])
PART_BYTES = 1 << 24
"""Bytes of a part of a snapshot, or of a row of results, about."""
LEAST_DELTAS = 1 << 22
"""Bytes of deltas below which no snapshot is written."""
MOST_DELTAS = 256
SPARE_DELTAS = 16
"""Deltas older than the snapshot that are kept for workers that lag behind."""
MOST_COPIES = 64
NOTHING = pa.table({"seq": pa.array([], pa.int64()), "kind": pa.array([], pa.string())})
MOST_ROWS = 1_000_000
"""Packed rows that a micro-batch may bring a shard.

Beside an initial state, Spark hands over a key's rows by as many as go into one Arrow batch, and
each time it looks like the whole micro-batch. So a stream sets that limit to this, and its Arrow
batches are bounded by their bytes."""


class Copy(NamedTuple):
    """A shard as a worker has it."""

    shard: Shard
    ledger: list[pa.Table]  # accepted events of profiles, in order
    version: int
    word: str


class Head(NamedTuple):
    """What the state store says of a shard."""

    version: int = 0
    word: str = ""
    snapshot: int = 0  # the version it is of
    parts: int = 0
    snapshot_bytes: int = 0
    delta_bytes: int = 0  # since the snapshot
    gate: str = ""
    recent: bytes = b""
    held: bytes | None = None
    letters: bytes | None = None  # of what was there before everything


COPIES: "OrderedDict[tuple[str, int], Copy]" = OrderedDict()
"""This worker's copies, the last used last."""


class Replica(StatefulProcessor):
    """What Spark calls with the events of a shard."""

    def __init__(
        self,
        name: str,
        agreed: Layout,
        keys: list[int],
        inputs: list[str],
        together: bool,
        resumed_at: int | None = None,
        images: str | None = None,
        near: Near | None = None,
    ) -> None:
        self._name = name
        self._agreed = agreed
        self._keys = keys
        self._inputs = inputs
        self._together = together
        self._resumed_at = resumed_at
        self._images = Images(images)
        self._near = near

    def init(self, handle: Any) -> None:
        """Ask for the state."""
        self._handle = handle
        self._head = handle.getValueState("head", HEAD)
        self._deltas = handle.getMapState("deltas", VERSION, DELTA)
        self._parts = handle.getMapState("snapshot", PART_NUMBER, PART)

    def close(self) -> None:
        """Nothing to do: copies stay."""

    # Spark's calls ---------------------------------------------------------------------------

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """What was there before everything: one row of packed events."""
        head = self._read_head()
        copy, _ = self._copy_of(key, head)
        played = copy.shard.play(decode(initialState.events))
        letters = played.letters
        if head.letters:
            letters = decode(head.letters).to_pylist() + letters
        kept = encode(pa.Table.from_pylist(letters)) if letters else None
        copy, head = self._delta(copy, head._replace(letters=kept), played.changes)
        self._keep(key, copy, head)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        """A micro-batch's events."""
        tables = [decode(row.events) for row in rows]
        if len(tables) >= MOST_ROWS:
            raise GermaneError(
                f"a micro-batch brought shard {self._keys.index(key[0])} {len(tables):,} rows of "
                "packed events, and there may be more; bound micro-batches where they are read "
                "(maxFilesPerTrigger, maxOffsetsPerTrigger)"
            )
        marks = [marks_of(table) for table in tables]
        events = pa.concat_tables([t.replace_schema_metadata(None) for t in tables])
        yield from self._take(key, events, marks, timerValues, route_of(tables[0]))

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        """A micro-batch without events: what was held, here or elsewhere, is due."""
        yield from self._take(key, NOTHING, [], timerValues)

    # a micro-batch ---------------------------------------------------------------------------

    def _take(
        self, key: Any, events: pa.Table, marks: list[dict[str, int]], timers: Any,
        route: Route | None = None,
    ) -> Iterator[Row]:  # fmt: skip
        start = time.perf_counter_ns()
        head = self._read_head()
        copy, how = self._copy_of(key, head)
        copy.shard.filter.rewind()  # a failed attempt may have gone ahead; the gate knows better
        gate = Gate(self._inputs, self._together, self._resumed_at)
        told, was = (json.loads(head.gate or "{}").get(name) for name in ("told", "moved"))
        if head.gate:
            gate.restore(
                {**json.loads(head.gate), "recent": head.recent},
                None if head.held is None else decode(head.held),
            )
        if route is not None and route.moves is not None:
            copy, head = self._move(copy, head, route.moves)
        read = time.perf_counter_ns()
        due = gate.admit(events, marks, None if route is None else route.passed)
        shard = copy.shard
        before = shard.filter.stats()
        played = shard.play(due.events) if due.events.num_rows else Played([], [], [])
        for event, reason in due.refused:
            shard.refuse(event, reason, played)
        letters = played.letters
        if head.letters:
            letters = decode(head.letters).to_pylist() + letters
        after = shard.filter.stats()
        matched = time.perf_counter_ns()
        about, held = gate.state()
        copy, head = self._delta(copy, head, played.changes)
        about["told"] = now = self._tell(copy, played, told, was, route)
        about["moved"] = was if route is None else route.moved
        recent = about.pop("recent")
        head = head._replace(
            gate=json.dumps(about),
            recent=recent,
            held=None if held is None else encode(held, compressed=True),
            letters=None,
        )
        self._set_timer(gate.waits, timers)
        head, n_snapshots = self._keep(key, copy, head)
        written = time.perf_counter_ns()
        counts = {
            "events": due.events.num_rows,
            "messages": after["messages"] - before["messages"],
            "deliveries": after["matches"] - before["matches"],
            "rejected": len(letters),
            "held": 0 if held is None else held.num_rows,
            "candidates": after["candidates"] - before["candidates"],
            "escalations": after["escalations"] - before["escalations"],
            "profiles": len(shard.filter),
            "contexts": after["contexts"],
            "rebuilt": how == "rebuilt",
            "caught_up": how == "caught up",
            "snapshots": n_snapshots,
            "state_bytes": head.snapshot_bytes + head.delta_bytes,
            "nanoseconds": written - start,
            "read_ns": read - start,
            "match_ns": matched - read,
            "write_ns": written - matched,
            "reached": sum(table.num_rows for table in played.found),
            "passed": 0 if route is None else route.n_passed,
            "notices": now != told,
        }
        number = self._keys.index(key[0])
        yield Row(
            shard=number,
            found=None,
            letters=encode(pa.Table.from_pylist(letters, self._agreed.found()))
            if letters
            else None,
            **{name: int(value) for name, value in counts.items()},
        )
        nothing = dict.fromkeys(COUNTS)
        for table in played.found:
            for part in _parts(table):
                yield Row(shard=number, found=encode(part), letters=None, **nothing)

    def _move(self, copy: Copy, head: Head, moves: pa.Table) -> tuple[Copy, Head]:
        """Contexts come or go, ahead of all events, in a delta of their own."""
        shard = copy.shard
        played = shard.play(moves)
        shard.filter.rewind()
        return self._delta(copy, head, played.changes)

    def _tell(
        self, copy: Copy, played: Played, told: int | None, was: int | None, route: Route | None
    ) -> int | None:
        """What whoever routes must know of this shard's groups; when that was told last."""
        if self._near is None or route is None:
            return told
        shard = copy.shard
        if route.was != was:
            raise GermaneError(
                f"shard {shard.number} knows of moves in micro-batch {was}, but was sent events by "
                f"those of {route.was}: {self._near.folder} has lost a file; see germane reshard"
            )
        if route.heard not in (None, told):
            raise GermaneError(
                f"messages for shard {shard.number} were chosen by what it told in micro-batch "
                f"{route.heard}, but it told more in {told}: {self._near.folder} has lost a file; "
                "stop the stream, delete the folder 'notices' in there, and start it again"
            )
        notices = Notices(self._near.folder)
        if shard.watch is None:
            shard.watch = Watch(self._near, shard.number)
        if shard.watch.moved != route.moved:
            files = Notices(self._near.folder, MOVES)
            shard.watch.regroup(*moves_before(files, route.batch + 1))
        if shard.watch.told != told or told is None:
            known = notices.latest(name_of(shard.number), route.batch)
            shard.watch.recall(known if known is not None and known.batch == told else None)
        if route.moved == route.batch or route.heard is None:
            shard.watch.told = None  # groups are others now, or an offer was not heard
        news = shard.watch.look(shard.filter, played.changes)
        if news is None:
            return told
        leaving = shard.watch.leaving(shard.filter)
        if leaving:
            news |= offered(self._offer(copy, leaving))
        notices.write(name_of(shard.number), route.batch, news)
        shard.watch.told = route.batch
        return route.batch

    def _offer(self, copy: Copy, leaving: dict[Any, int]) -> Offer:
        """What others need to take some contexts over, and what this shard then forgets."""
        agreed, number = self._agreed, copy.shard.number
        chosen = pa.array(list(leaving), pa.int64() if agreed.ids == "bigint" else pa.string())
        values = copy.shard.filter.contexts()
        values = values.filter(pc.is_in(values.column("id"), chosen))
        profiles = _live(copy.ledger)
        if profiles is not None:
            copy.ledger[:] = [profiles]
            profiles = profiles.filter(
                pc.and_(
                    pc.is_in(profiles.column("context"), chosen),
                    pc.equal(profiles.column(HOME), number),
                )
            )
        else:
            profiles = values.select(["id"]).slice(0, 0)
        values, profiles = (_as_events(part, agreed) for part in (values, profiles))
        names = [name for name, type_ in agreed.schema.items() if type_ != XML]
        return offer(leaving, number, values, profiles, names)

    def _set_timer(self, wanted: bool, timers: Any) -> None:
        """Come back in the next micro-batch, also if it brings nothing."""
        if self._together or len(self._inputs) == 1:
            return
        for at in list(self._handle.listTimers()):
            self._handle.deleteTimer(at)
        if wanted:
            self._handle.registerTimer(timers.getCurrentWatermarkInMs() + 1)

    # versions --------------------------------------------------------------------------------

    def _read_head(self) -> Head:
        if not self._head.exists():
            return Head()
        values: list[Any] = [bytes(v) if isinstance(v, bytearray) else v for v in self._head.get()]
        return Head(*values)

    def _copy_of(self, key: Any, head: Head) -> tuple[Copy, str]:
        """This worker's copy of a shard, as the head has it; taken out until it is kept."""
        copy = COPIES.pop((self._name, key[0]), None)
        if copy is not None and (copy.version, copy.word) == (head.version, head.word):
            return copy, "used"
        if copy is not None and copy.version < head.version:
            missed = self._deltas_after(copy.version, copy.word, head)
            if missed is not None:
                return self._replay(copy, missed, head), "caught up"
        number = self._keys.index(key[0])
        if not head.version:
            return rebuilt(number, self._agreed, None, iter(())), "new"
        snapshot = None
        if head.snapshot:
            parts = [bytes(self._parts.getValue((part,))[0]) for part in range(head.parts)]
            snapshot = decode(b"".join(parts))
        missed = self._deltas_after(head.snapshot, None, head)
        if missed is None:
            raise GermaneError(f"the state store has lost a delta of shard {number}")
        image = None
        if head.snapshot:
            word = head.word
            if head.version > head.snapshot:
                word = self._deltas.getValue((head.snapshot + 1,))[0]
            image = self._images.find(number, head.snapshot, word)
        copy = rebuilt(number, self._agreed, snapshot, map(decode, missed), image)
        return copy._replace(version=head.version, word=head.word), "rebuilt"

    def _deltas_after(self, version: int, word: str | None, head: Head) -> list[bytes] | None:
        """The deltas after a version, if they follow on it."""
        found = []
        for number in range(version + 1, head.version + 1):
            if not self._deltas.containsKey((number,)):
                return None
            before, changes = self._deltas.getValue((number,))
            if number == version + 1 and word is not None and before != word:
                return None
            found.append(bytes(changes))
        return found

    def _replay(self, copy: Copy, deltas: list[bytes], head: Head) -> Copy:
        for delta in deltas:
            _replay(copy, decode(delta))
        return copy._replace(version=head.version, word=head.word)

    def _keep(self, key: Any, copy: Copy, head: Head) -> tuple[Head, int]:
        """Write the head, if need be a snapshot, and keep the copy for the next micro-batch."""
        n_snapshots = 0
        n_deltas = head.version - head.snapshot
        much = head.delta_bytes > max(LEAST_DELTAS, head.snapshot_bytes)
        if n_deltas >= MOST_DELTAS or much:
            head = self._compact(copy, head)
            n_snapshots = 1
        self._head.update(tuple(head))
        COPIES[self._name, key[0]] = copy
        while len(COPIES) > MOST_COPIES:
            COPIES.popitem(last=False)
        return head, n_snapshots

    def _delta(self, copy: Copy, head: Head, changes: list[pa.Table]) -> tuple[Copy, Head]:
        """Write what has changed, if anything has, as the next version."""
        if not changes:
            return copy, head
        # Lack of a sequence number says "before everything": these come first, again.
        table = pa.concat_tables([t.replace_schema_metadata(None) for t in changes])
        delta = encode(table, compressed=True)
        version, word = head.version + 1, uuid4().hex
        self._deltas.updateValue((version,), (head.word, delta))
        head = head._replace(version=version, word=word, delta_bytes=head.delta_bytes + len(delta))
        _enter(copy.ledger, table)
        return copy._replace(version=version, word=word), head

    def _compact(self, copy: Copy, head: Head) -> Head:
        """Write a snapshot; deltas that nobody needs go."""
        data = encode(snapshot_of(copy, self._agreed), compressed=True)
        n_parts = -(-len(data) // PART_BYTES)
        for part in range(n_parts):
            piece = data[part * PART_BYTES : (part + 1) * PART_BYTES]
            self._parts.updateValue((part,), (piece,))
        for part in range(n_parts, head.parts):
            self._parts.removeKey((part,))
        self._images.keep(copy.shard.filter, copy.shard.number, copy.version, copy.word)
        for version in range(head.snapshot - SPARE_DELTAS + 1, head.version - SPARE_DELTAS + 1):
            if version > 0 and self._deltas.containsKey((version,)):
                self._deltas.removeKey((version,))
        return head._replace(
            snapshot=head.version, parts=n_parts, snapshot_bytes=len(data), delta_bytes=0
        )


# snapshots -------------------------------------------------------------------------------------


def rebuilt(
    number: int,
    agreed: Layout,
    snapshot: pa.Table | None,
    deltas: Iterator[pa.Table],
    image: Filter | None = None,
) -> Copy:
    """A shard out of what the state store has of it; ``image``: the filter of the snapshot."""
    copy = Copy(Shard(number, agreed), [], 0, "")
    if snapshot is not None and image is not None:
        copy.shard.take_over(image, snapshot)
        _enter(copy.ledger, snapshot)
    elif snapshot is not None:
        _replay(copy, snapshot)
    for changes in deltas:
        _replay(copy, changes)
    return copy


def _replay(copy: Copy, changes: pa.Table) -> None:
    copy.shard.replay(changes)
    _enter(copy.ledger, changes)


def _enter(ledger: list[pa.Table], changes: pa.Table) -> None:
    """Remember accepted events of profiles."""
    chosen = changes.filter(pc.is_in(changes.column("kind"), pa.array([SUBSCRIBE, UNSUBSCRIBE])))
    if chosen.num_rows:
        wanted = ("kind", "id", "context", "condition", "dialect", HOME)
        ledger.append(plain(chosen.select([n for n in wanted if n in chosen.column_names])))


def snapshot_of(copy: Copy, agreed: Layout) -> pa.Table:
    """A shard's state as events from before everything: profiles, ids elsewhere, values."""
    profiles = _live(copy.ledger)
    copy.ledger[:] = [] if profiles is None else [profiles]
    parts = [] if profiles is None else [profiles]
    values = copy.shard.filter.contexts()
    values = values.append_column("kind", pa.array([VALUES] * len(values), pa.string()))
    home = pa.array(np.full(len(values), copy.shard.number, np.int32))
    parts.append(values.append_column(HOME, home))
    return pa.concat_tables([_as_events(part, agreed) for part in parts])


def _live(ledger: list[pa.Table]) -> pa.Table | None:
    """The profiles that are subscribed now, after all events of a ledger."""
    if not ledger:
        return None
    events = pa.concat_tables(ledger).combine_chunks()
    names = events.column("id").combine_chunks().dictionary_encode()
    numbers = names.indices.to_numpy()[::-1]
    _, last = np.unique(numbers, return_index=True)
    last = np.sort(len(numbers) - 1 - last)
    events = events.take(pa.array(last))
    return events.filter(pc.equal(events.column("kind"), SUBSCRIBE))


def _as_events(part: pa.Table, agreed: Layout) -> pa.Table:
    """With all the columns of events."""
    ids = pa.int64() if agreed.ids == "bigint" else pa.string()
    kinds: dict[str, pa.DataType] = dict.fromkeys(FIELDS, pa.string())
    kinds |= {
        **dict.fromkeys(PLACING, pa.int32()), "seq": pa.int64(), "id": ids, "context": ids,
        "removed": pa.list_(pa.string()),
    }  # fmt: skip
    if not agreed.addressed:
        del kinds["address"]
    if not agreed.dialects:
        del kinds["dialect"]
    arrow = {
        "category": pa.list_(pa.string()),
        "xml": pa.binary() if agreed.document == "binary" else pa.string(),
        "number": pa.float64(), "string": pa.string(), "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", "UTC"),
    }  # fmt: skip
    kinds |= {name: arrow[type_] for name, type_ in agreed.schema.items()}
    columns = [
        part.column(name).cast(kind) if name in part.column_names else pa.nulls(len(part), kind)
        for name, kind in kinds.items()
    ]
    return pa.table(columns, names=list(kinds))


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    """A table in parts of about ``PART_BYTES``."""
    n = max(1, table.num_rows * PART_BYTES // max(table.nbytes, 1))
    for begin in range(0, table.num_rows, n):
        yield table.slice(begin, n)
