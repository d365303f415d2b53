"""A micro-batch on its way to shards that may need it, and no others.

In: all events of a micro-batch, what shards have told of their groups (``notices``), and where
contexts live (``places``). Out: rows of ``PACKED``, one for every shard: its own events, and the
messages that may be for somebody there. First the intervals of groups take in all updates of the
micro-batch, then messages are routed: whatever value a context has at a message's place in the
sequence, an interval covers it. A shard that gets subscriptions, or has told nothing, gets
everything. So one task must see the whole micro-batch; it holds it as columns.

A message is answered for, should it be malformed, by the first shard that sees it. One that goes
nowhere is looked at here, and if it is malformed goes to shard 0. What comes late or twice goes to
shard 0, too, which is told of every ``seq`` that passes it by.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from germane.filter import Filter
from germane.filter.events import MESSAGE, SUBSCRIBE, UPDATE
from germane.model import GermaneError
from germane.spark.layout import FIELDS, HOME, PLACING, SHARD, VALUES, Layout, as_named
from germane.spark.moving import MOVES, Offer, as_bytes, groups_in, in_turn, offer_in
from germane.spark.notices import Notices, name_of
from germane.spark.packing import Batches, decode, encode, in_columns, labelled, told_elsewhere
from germane.spark.places import GROUPS, Near, as_floats
from germane.spark.pruning import Column

PACKER = "packer"
_ROUTE, _PASSED, _MOVES = b"germane.route", b"germane.passed", b"germane.moves"
LOOKED_AT = 64
"""Addresses that are looked at before it is asked whether that pays."""
Bools = NDArray[np.bool_]


class Route(NamedTuple):
    """What a shard hears beside its events."""

    batch: int
    heard: int | None  # the micro-batch of the notice that its messages were chosen by
    was: int | None  # when contexts had moved last, before
    moved: int | None  # and now
    n_passed: int  # messages of the micro-batch that it was not sent
    passed: NDArray[np.int64]  # their seqs, for shard 0
    moves: pa.Table | None  # events of contexts that come or go, ahead of all others


def route_of(table: pa.Table) -> Route | None:
    """How a table was routed, if it was."""
    about = table.schema.metadata or {}
    if _ROUTE not in about:
        return None
    moves = decode(about[_MOVES]) if _MOVES in about else None
    batch, heard, was, moved, n_passed = json.loads(about[_ROUTE])
    passed = np.frombuffer(about[_PASSED], np.int64)
    return Route(batch, heard, was, moved, n_passed, passed, moves)


def router(agreed: Layout, keys: list[int], near: Near) -> Callable[[Batches], Batches]:
    """What the one task does that sees a micro-batch: batches of events in, of ``PACKED`` out."""

    def route(batches: Batches) -> Iterator[Any]:
        from pyspark import TaskContext

        from germane.spark.routing import Router

        tables = [as_named(pa.Table.from_batches([batch])) for batch in batches if batch.num_rows]
        if tables:
            context = TaskContext.get()
            assert context is not None
            batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
            yield Router(agreed, near, batch).packed(pa.concat_tables(tables), keys)

    return route


class Router:
    """Routes one micro-batch."""

    def __init__(self, agreed: Layout, near: Near, batch: int) -> None:
        self.agreed, self.near, self.batch = agreed, near, batch
        self.notices = Notices(near.folder)
        self.sieve = near.sieve()
        self.heard: list[int | None] = []
        self._files = Notices(near.folder, MOVES)
        self.was, moved = moves_before(self._files, batch)
        self.moved = self.was
        self.groups = GroupsOf(near, moved)
        self.moves: dict[int, list[pa.Table]] = {}
        offers: list[tuple[int, Offer]] = []
        for shard in range(near.n_shards):
            told = self.notices.latest(name_of(shard), batch)
            is_heard = told is not None and self.sieve.hear(shard, told.arrays)
            self.heard.append(told.batch if told is not None and is_heard else None)
            made = offer_in(told) if told is not None and is_heard else None
            if made is not None:
                offers.append((shard, made))
        self.opened = np.array([heard is None for heard in self.heard])
        for shard, made in offers:
            self._take(shard, made)
        if offers:
            self._files.write(MOVES, batch, {"groups": as_bytes(self.groups.moved)})
        self.judge = judge_of(agreed, near)

    def _take(self, shard: int, made: Offer) -> None:
        """Contexts of a shard get other groups, and perhaps other shards."""
        for name, group in made.groups.items():
            old = self.groups.of(name)
            self.sieve.adopt(self.near.stranger(shard) if old is None else old, group)
        self.groups.moved.update(made.groups)
        self.follow(made.values)
        self.moved = self.batch
        self.moves.setdefault(shard, []).insert(0, made.leaving)
        for other in pc.unique(made.arriving.column(SHARD)).to_pylist():
            mine = made.arriving.filter(pc.equal(made.arriving.column(SHARD), other))
            self.moves.setdefault(other, []).append(mine)

    def packed(self, table: pa.Table, keys: list[int]) -> pa.RecordBatch:
        """All events of the micro-batch, as rows of ``PACKED``."""
        table, marks = in_columns(table, self.agreed)
        table = self.rehomed(table)
        kinds = table.column("kind")
        is_message = pc.fill_null(pc.equal(kinds, MESSAGE), False)
        messages = _once(table.filter(is_message))
        placed = pc.and_(pc.is_valid(table.column(SHARD)), pc.invert(is_message))
        owned = table.filter(placed)
        profiles = table.filter(pc.invert(pc.or_(is_message, placed)))
        self.follow(owned)
        self.opened[profiles.filter(pc.equal(profiles.column("kind"), SUBSCRIBE))
                    .column(HOME).to_numpy()] = True  # fmt: skip
        late = self._late(messages, marks)
        wanted = self.wanted(messages)
        wanted[late] = False
        wanted[late, 0] = True
        home = np.argmax(wanted, axis=1).astype(np.int32)  # 0, where nobody wants it
        messages = _with(messages, HOME, pa.array(home))
        self._check_unsent(messages, wanted)
        told = told_elsewhere(profiles, self.judge) if len(keys) > 1 else profiles
        places, homes = owned.column(SHARD).to_numpy(), profiles.column(HOME).to_numpy()
        blobs = []
        for shard in range(len(keys)):
            mine, here = places == shard, homes == shard
            parts = [
                messages.filter(pa.array(wanted[:, shard])), owned.filter(pa.array(mine)),
                profiles.filter(pa.array(here)), told.filter(pa.array(~here)),
            ]  # fmt: skip
            passed = self._passed(messages, wanted[:, 0] | late) if shard == 0 else b""
            n_passed = len(wanted) - int(wanted[:, shard].sum())
            told_by = [self.batch, self.heard[shard], self.was, self.moved, n_passed]
            about: dict[bytes, Any] = {_ROUTE: json.dumps(told_by), _PASSED: passed}
            if shard in self.moves:
                about[_MOVES] = encode(in_turn(self.moves[shard]))
            blobs.append(encode(labelled(pa.concat_tables(parts), marks, about)))
        return pa.RecordBatch.from_arrays(
            [pa.array(keys, pa.int32()), pa.array(blobs, pa.binary())], ["shard", "events"]
        )

    # contexts --------------------------------------------------------------------------------

    def rehomed(self, table: pa.Table) -> pa.Table:
        """Events of contexts, and subscriptions, at home where their context was placed."""
        home = table.column(HOME).to_numpy().copy()
        has_place = np.zeros(len(home), np.bool_)
        others = pc.fill_null(pc.not_equal(table.column("kind"), MESSAGE), True)
        rows = np.flatnonzero(others.to_numpy(zero_copy_only=False))
        chosen = table.select(["kind", "id", "context"]).take(pa.array(rows))
        columns = (column.to_pylist() for column in chosen.columns)
        for i, kind, name, owner in zip(rows.tolist(), *columns, strict=True):
            of_context = kind in (UPDATE, VALUES)
            group = self.groups.of(name if of_context else owner if kind == SUBSCRIBE else None)
            if group is not None:
                home[i] = group // GROUPS
            has_place[i] = of_context
        table = _with(table, HOME, pa.array(home, pa.int32()))
        return _with(table, SHARD, pa.array(home, pa.int32(), mask=~has_place))

    def follow(self, updates: pa.Table) -> int:
        """Intervals take in the values of updates; how many widened one."""
        groups = self.groups.of_events(updates)
        return sum(
            self.sieve.follow(groups[known], name, values[known])
            for name in self.near.followed
            for values in [as_floats(updates.column(name))]
            for known in [~np.isnan(values)]
        )

    # messages --------------------------------------------------------------------------------

    def wanted(self, messages: pa.Table) -> Bools:
        """``[message, shard]``: where a message may be for somebody, or must be judged."""
        n = messages.num_rows
        values = np.empty((n, len(self.near.asked)))
        for i, name in enumerate(self.near.asked):
            values[:, i] = as_floats(messages.column(name))
        wanted = self.sieve.shards_of(values)
        wanted[:, self.opened] = True
        refused = pc.is_null(messages.column("seq")).to_numpy(zero_copy_only=False).copy()
        if self.agreed.addressed:
            self._spare(messages.column("address"), values, wanted, refused)
        wanted[refused, 0] = True
        return wanted

    def _spare(self, addresses: Any, values: Column, wanted: Bools, refused: Bools) -> None:
        """Leave out shards where an address reaches nobody; refused are addresses that say nothing.

        To understand an address costs as much as a shard that sees it. So those whose messages go
        to most shards come first, some at a time, and the rest is left where that did not pay: a
        shard that need not see a message is only work. Messages are in the order of ``seq``, so
        that a repeated micro-batch is routed as it was.
        """
        n_wanted = wanted.sum(axis=1)
        n_wanted[pc.is_null(addresses).to_numpy(zero_copy_only=False)] = 0
        rows = np.argsort(-n_wanted, kind="stable")
        rows = rows[: int((n_wanted > 1).sum())]
        for begin in range(0, len(rows), LOOKED_AT):
            some = rows[begin : begin + LOOKED_AT]
            self._look(some, addresses, values, wanted, refused)
            if int(n_wanted[some].sum() - wanted[some].sum()) < len(some):
                break

    def _look(
        self, rows: NDArray[np.int64], addresses: Any, values: Column, wanted: Bools, refused: Bools
    ) -> None:
        """Understand the addresses of some messages."""
        compiled: dict[str, Bools | None] = {}
        known, reached = [], []
        for i, text in zip(rows.tolist(), addresses.take(pa.array(rows)).to_pylist(), strict=True):
            if text not in compiled:
                compiled[text] = self._reach(text)
            reach = compiled[text]
            if reach is None:
                wanted[i], refused[i] = False, True
            else:
                known.append(i)
                reached.append(reach)
        if known:
            wanted[known] = self.sieve.shards_of(values[known], reached) | self.opened

    def _reach(self, address: str) -> Bools | None:
        try:
            return self.sieve.addressed(self.judge, address)
        except GermaneError:
            return None

    def _late(self, messages: pa.Table, marks: dict[str, int]) -> Bools:
        """Messages before the end of the micro-batches before this one."""
        told = self.notices.latest(PACKER, self.batch)
        before = None if told is None else int(told.arrays["frontier"])
        highest = [*marks.values(), *([] if before is None else [before])]
        if highest:
            self.notices.write(PACKER, self.batch, {"frontier": np.array(max(highest))})
        if before is None:
            return np.zeros(messages.num_rows, np.bool_)
        late = pc.less_equal(messages.column("seq"), before)
        return np.asarray(pc.fill_null(late, False).to_numpy(zero_copy_only=False))

    def _check_unsent(self, messages: pa.Table, wanted: Bools) -> None:
        """Of messages that go nowhere, those that a filter refuses go to shard 0 all the same."""
        unsent = np.flatnonzero(~wanted.any(axis=1))
        if not len(unsent):
            return
        columns = [n for n in (*FIELDS, *self.agreed.schema) if n not in PLACING]
        table = messages.select([n for n in columns if n in messages.column_names])
        done = self.judge.process(table.take(pa.array(unsent)))
        for rejected in done.rejected:
            wanted[unsent[rejected.position], 0] = True

    def _passed(self, messages: pa.Table, seen: Bools) -> bytes:
        passed = messages.column("seq").filter(pa.array(~seen)).drop_null()  # who has none is seen
        return bytes(passed.to_numpy().astype(np.int64).tobytes())


def judge_of(agreed: Layout, near: Near) -> Filter:
    """A filter that knows all attributes, and nobody who would want anything."""
    judge = agreed.filter()
    if near.followed:
        judge.update(0 if agreed.ids == "bigint" else "", dict.fromkeys(near.followed, 0.0))
    return judge


class GroupsOf:
    """The groups of contexts: where they were placed, or have moved to since."""

    def __init__(self, near: Near, moved: dict[Any, int]) -> None:
        self.near, self.moved = near, moved
        self._placed = near.places()

    def of(self, name: Any) -> int | None:
        """The group of a context; None if it was never placed."""
        found = self.moved.get(name)
        return self._placed.get(name) if found is None else found

    def of_events(self, events: pa.Table) -> NDArray[np.int64]:
        """Groups of the contexts of events that are at home where these are."""
        columns = (events.column(name).to_pylist() for name in ("id", HOME))
        found = [
            self.near.stranger(home) if group is None else group
            for group, home in ((self.of(name), home) for name, home in zip(*columns, strict=True))
        ]
        return np.array(found, np.int64)


def moves_before(files: Notices, batch: int) -> tuple[int | None, dict[Any, int]]:
    """When contexts had moved last before a micro-batch, and to where."""
    told = files.latest(MOVES, batch)
    return (None, {}) if told is None else (told.batch, groups_in(told.arrays["groups"]))


def _once(messages: pa.Table) -> pa.Table:
    """In the order of ``seq``, each once; those without come last."""
    seqs = messages.column("seq")
    if seqs.null_count:
        rest = messages.filter(pc.is_null(seqs))
        return pa.concat_tables([_once(messages.filter(pc.is_valid(seqs))), rest])
    numbers = seqs.to_numpy()
    if len(numbers) > 1 and not (np.diff(numbers) > 0).all():
        _, first = np.unique(numbers, return_index=True)
        return messages.take(pa.array(first))
    return messages


def _with(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)
