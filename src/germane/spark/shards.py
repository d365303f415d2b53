"""One shard's events through one ``Filter``: what runs inside a Spark task.

In: Arrow record batches of events (``spark.events``) in the order of ``seq``, those without one
first. Out: Arrow record batches of ``FOUND``: a row a message with the profiles it reaches, and a
row a dead letter. No Spark in here, so that it can be tested by itself.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from germane.filter import Filter
from germane.filter.deliveries import Deliveries, Rejected
from germane.model import GermaneError
from germane.model.errors import BatchError
from germane.spark.events import FIELDS, PLACING, SUBSCRIBE, VALUES

FOUND = (
    "seq bigint, message {ids}, profiles array<{ids}>, contexts array<{ids}>, "
    "reason string, kind string, event string"
)
"""What a shard returns, given the type of ids."""


class Shard:
    """A filter, and the profiles that it knows but another shard delivers."""

    def __init__(self, number: int, schema: dict[str, str], ids: str) -> None:
        self.number = number
        self.filter = Filter(schema=schema)
        self.attributes = list(schema)
        self._ids = pa.int64() if ids == "bigint" else pa.string()
        self._foreign: set[Any] = set()
        self._layout = pa.schema(
            [
                ("seq", pa.int64()),
                ("message", self._ids),
                ("profiles", pa.list_(self._ids)),
                ("contexts", pa.list_(self._ids)),
                ("reason", pa.string()),
                ("kind", pa.string()),
                ("event", pa.string()),
            ]
        )

    def play(self, events: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take events in order; those without ``seq`` are from before everything."""
        table = pa.Table.from_batches([events])
        n_before = table.column("seq").null_count
        if n_before:
            yield from self._begin(table.slice(0, n_before))
            table = table.slice(n_before)
        for part in self._stretches(table):
            yield from self._process(part)

    # before everything -----------------------------------------------------------------------

    def _begin(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Values and profiles from before everything; events that lack their ``seq``."""
        kinds = table.column("kind")
        letters = []
        values = table.filter(pc.equal(kinds, VALUES))
        if values.num_rows:
            letters += self._values(values)
        profiles = table.filter(pc.equal(kinds, SUBSCRIBE))
        if profiles.num_rows:
            letters += self._profiles(profiles)
        others = table.filter(pc.invert(pc.is_in(kinds, pa.array([VALUES, SUBSCRIBE]))))
        for event in others.to_pylist():
            reason = GermaneError(f"the {event['kind']} event has no seq, an integer")
            letters.append(Rejected(0, None, reason, event))
        yield from self._dead(letters)

    def _values(self, table: pa.Table) -> list[Rejected]:
        letters = []
        for name in self.attributes:
            there = table.filter(pc.is_valid(table.column(name)))
            if not there.num_rows:
                continue
            contexts, values = there.column("id").to_pylist(), there.column(name)
            try:
                if pa.types.is_timestamp(values.type):
                    self.filter.update_many(contexts, name, values.to_pylist())
                else:
                    self.filter.update_many(contexts, name, values.to_numpy())
            except GermaneError:  # one of them: which, and why
                for i, value in enumerate(values.to_pylist()):
                    try:
                        self.filter.update(contexts[i], {name: value})
                    except GermaneError as error:
                        letters.append(Rejected(0, None, error, there.slice(i, 1).to_pylist()[0]))
        return letters

    def _profiles(self, table: pa.Table) -> list[Rejected]:
        events = table.select(["id", "condition", "context"])
        ids, conditions, contexts = (column.to_pylist() for column in events.columns)
        errors: list[tuple[int, Any, GermaneError]] = []
        try:
            self.filter.subscribe_many(ids, conditions, contexts)
        except BatchError as error:
            errors = list(error.errors)
        except GermaneError as error:
            errors = [(0, ids[0], error)]
        refused = {i for i, _, _ in errors}
        homes = table.column("home").to_numpy()
        for i in np.flatnonzero(homes != self.number).tolist():
            if i not in refused:
                self._foreign.add(ids[i])
        return [Rejected(0, None, why, table.slice(i, 1).to_pylist()[0]) for i, _, why in errors]

    # the sequence ----------------------------------------------------------------------------

    def _stretches(self, table: pa.Table) -> Iterator[pa.Table]:
        """Parts in which it does not change who delivers a profile; nearly always one.

        Every event of an id that wanders is a part of its own, also those that have their home
        here: they may end what made the profile another shard's.
        """
        changes = table.column("wanders")
        begin = 0
        for at in np.flatnonzero(changes.to_numpy(zero_copy_only=False)).tolist():
            if at > begin:
                yield table.slice(begin, at - begin)
            yield table.slice(at, 1)
            begin = at + 1
        if begin < table.num_rows:
            yield table.slice(begin)

    def _process(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        fields = [name for name in FIELDS if name not in PLACING]
        done = self.filter.process(table.select([*fields, *self.attributes]))
        if table.num_rows == 1 and table.column("wanders")[0].as_py():
            self._note_foreign(table, done)
        yield from self._found(done)
        events = table.column("home").to_numpy()
        yield from self._dead([r for r in done.rejected if events[r.position] == self.number])

    def _note_foreign(self, table: pa.Table, done: Deliveries) -> None:
        """Whose deliveries a subscription, alone in its stretch, makes another shard's matter."""
        event = table.slice(0, 1).to_pylist()[0]
        if done.rejected:
            return
        self._foreign.discard(event["id"])
        if event["kind"] == SUBSCRIBE and event["home"] != self.number:
            self._foreign.add(event["id"])

    # results ---------------------------------------------------------------------------------

    def _found(self, done: Deliveries) -> Iterator[pa.RecordBatch]:
        if not len(done):
            return
        found = done.to_lists()
        if self._foreign:
            found = self._without_foreign(found)
        columns = [found.column(name).cast(self._layout.field(name).type) for name in
                   ("seq", "message", "profiles", "contexts")]  # fmt: skip
        nothing = [pa.nulls(found.num_rows, pa.string())] * 3
        yield from pa.Table.from_arrays([*columns, *nothing], schema=self._layout).to_batches()

    def _without_foreign(self, found: pa.Table) -> pa.Table:
        """Without the deliveries of profiles that another shard delivers."""
        profiles, contexts = (
            found.column(name).combine_chunks() for name in ("profiles", "contexts")
        )
        named = profiles.flatten()
        foreign = pa.array(list(self._foreign), named.type)
        kept = pc.invert(pc.is_in(named, value_set=foreign))
        before = np.concatenate(([0], np.cumsum(kept.to_numpy(zero_copy_only=False))))
        offsets = before[profiles.offsets.to_numpy() - profiles.offsets[0].as_py()]
        ends = pa.array(offsets, pa.int32())
        lists = [
            pa.ListArray.from_arrays(ends, part.filter(kept))
            for part in (named, contexts.flatten())
        ]
        table = pa.table([found.column("seq"), found.column("message"), *lists], found.column_names)
        return table.filter(pa.array(np.diff(offsets) > 0))

    def _dead(self, letters: list[Rejected]) -> Iterator[pa.RecordBatch]:
        rows = [
            {
                "seq": letter.seq,
                "reason": str(letter.reason),
                "kind": letter.event.get("kind"),
                "event": _as_json(letter.event),
            }
            for letter in letters
            if letter.event.get("home", self.number) == self.number
        ]
        if rows:
            yield from pa.Table.from_pylist(rows, schema=self._layout).to_batches()


def _as_json(event: dict[str, Any]) -> str:
    import json

    shown = {n: v for n, v in event.items() if v is not None and n not in PLACING}
    return json.dumps(shown, default=str, ensure_ascii=False)
