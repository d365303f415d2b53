"""One shard's events through one ``Filter``: what runs inside a Spark task.

In: Arrow tables of events (``spark.events``) in the order of ``seq``, those without one first.
Out: ``Played``: a row a message with the profiles it reaches, dead letters, and what has changed.
No Spark in here, so that it can be tested by itself.

Some profiles live on other shards. A shard knows the ids of those that it is told of, so that it
judges a subscription, or its end, as one filter for all would.
"""

import json
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from germane.filter import Filter
from germane.filter.columns import row_of, rows_of
from germane.filter.deliveries import Deliveries, Rejected
from germane.filter.events import MESSAGE, SUBSCRIBE, UNSUBSCRIBE
from germane.model import DuplicateProfile, GermaneError
from germane.model.errors import BatchError
from germane.spark.documents import as_it_came
from germane.spark.layout import FIELDS, HOME, PLACING, VALUES, Layout

MINE, THEIRS, NOBODYS = range(3)
"""Whose an event is: this filter's, another shard's whose profile it makes known, nobody's."""


class Played(NamedTuple):
    """What came of some events."""

    found: list[pa.Table]  # of ``Layout.found``
    letters: list[dict[str, Any]]
    changes: list[pa.Table]  # the events that changed the state, in order


class Shard:
    """A filter, and the ids of profiles that live elsewhere."""

    def __init__(self, number: int, agreed: Layout) -> None:
        self.number = number
        self.filter = agreed.filter()
        self.attributes = list(agreed.schema)
        self.elsewhere: set[Any] = set()
        self.watch: Any = None  # ``watching.Watch``, where messages are routed
        self._columns = agreed.found()

    def play(self, table: pa.Table) -> Played:
        """Take events in order; those without ``seq`` are from before everything."""
        played = Played([], [], [])
        n_before = table.column("seq").null_count
        if n_before:
            self._begin(table.slice(0, n_before), played)
        if n_before < table.num_rows:
            self._go_on(table.slice(n_before), played)
        return played

    def replay(self, changes: pa.Table) -> None:
        """Take what changed the state of another copy of this shard."""
        self.filter.rewind()  # moves are numbered by themselves
        self.play(changes)

    def take_over(self, image: Filter, snapshot: pa.Table) -> None:
        """Take the filter of a snapshot as it is; profiles elsewhere are in the snapshot."""
        self.filter = image
        there = snapshot.filter(pc.equal(snapshot.column("kind"), SUBSCRIBE))
        away = pc.not_equal(there.column(HOME), self.number)
        self.elsewhere = set(there.filter(away).column("id").to_pylist())

    def refuse(self, event: dict[str, Any], reason: str, played: Played) -> None:
        """Make an event that cannot be taken a dead letter, if it is this shard's to answer for."""
        self._letter(Rejected(0, event["seq"], GermaneError(reason), event), played)

    # before everything -----------------------------------------------------------------------

    def _begin(self, table: pa.Table, played: Played) -> None:
        """Values and profiles from before everything; events that lack their ``seq``."""
        kinds = table.column("kind")
        known = pc.is_in(kinds, pa.array([VALUES, SUBSCRIBE]))
        for event in rows_of(table.filter(pc.invert(known))):
            reason = GermaneError(f"the {event['kind']} event has no seq, an integer")
            self._letter(Rejected(0, None, reason, event), played)
        values = table.filter(pc.equal(kinds, VALUES))
        if values.num_rows:
            self._values(values, played)
        profiles = table.filter(pc.equal(kinds, SUBSCRIBE))
        if profiles.num_rows:
            self._profiles(profiles, played)

    def _values(self, table: pa.Table, played: Played) -> None:
        played.changes.append(table)
        for name in self.attributes:
            there = table.filter(pc.is_valid(table.column(name)))
            if not there.num_rows:
                continue
            contexts, column = there.column("id").to_pylist(), there.column(name)
            of_lists = pa.types.is_list(column.type)
            values = column.to_pylist() if of_lists else column.to_numpy()
            try:
                self.filter.update_many(contexts, name, values)
            except GermaneError:  # one of them: which, and why
                for i, context in enumerate(contexts):
                    try:
                        self.filter.update_many([context], name, values[i : i + 1])
                    except GermaneError as error:
                        self._letter(Rejected(0, None, error, row_of(there, i)), played)

    def _profiles(self, table: pa.Table, played: Played) -> None:
        whose = self._sort_out(table, played)
        ours = table.filter(pa.array(whose == MINE))
        events = ours.select(["id", "condition", "context"])
        ids, conditions, contexts = (column.to_pylist() for column in events.columns)
        dialects = ours.column("dialect").to_pylist() if "dialect" in ours.column_names else None
        errors: list[tuple[int, Any, GermaneError]] = []
        try:
            self.filter.subscribe_many(ids, conditions, contexts, dialects)
        except BatchError as error:
            errors = list(error.errors)
        except GermaneError as error:
            errors = [(0, ids[0], error)]
        for i, _, why in errors:
            self._letter(Rejected(0, None, why, row_of(ours, i)), played)
        accepted = np.ones(len(ids), np.bool_)
        accepted[[i for i, _, _ in errors]] = False
        self._note(table, whose, accepted, played)

    # the sequence ----------------------------------------------------------------------------

    def _go_on(self, table: pa.Table, played: Played) -> None:
        whose = self._sort_out(table, played)
        ours = table.filter(pa.array(whose == MINE)) if whose.any() else table
        wanted = [*(name for name in FIELDS if name not in PLACING), *self.attributes]
        done = self.filter.process(ours.select([n for n in wanted if n in ours.column_names]))
        homes = ours.column(HOME).to_numpy()
        accepted = np.ones(ours.num_rows, np.bool_)
        for rejected in done.rejected:
            accepted[rejected.position] = False
            if homes[rejected.position] == self.number:
                self._letter(rejected, played)
        self._found(done, played)
        self._note(table, whose, accepted, played)

    def _sort_out(self, table: pa.Table, played: Played) -> NDArray[np.int8]:
        """Whose each event is; the ids of profiles elsewhere follow."""
        whose = np.full(table.num_rows, MINE, np.int8)
        profiles = pc.is_in(table.column("kind"), pa.array([SUBSCRIBE, UNSUBSCRIBE]))
        concerned = profiles.to_numpy(zero_copy_only=False)
        here = table.column(HOME).to_numpy() == self.number
        if not self.elsewhere and here[concerned].all():
            return whose
        judge = _Judge(self)
        for i in np.flatnonzero(concerned).tolist():
            event = row_of(table, i)
            if event["id"] is None:  # the filter refuses it
                whose[i] = MINE if here[i] else NOBODYS
            elif event["kind"] == SUBSCRIBE:
                whose[i] = self._subscribes(event, bool(here[i]), judge, played)
            else:
                whose[i] = self._unsubscribes(event, bool(here[i]), judge)
        return whose

    def _subscribes(
        self, event: dict[str, Any], here: bool, judge: "_Judge", played: Played
    ) -> int:
        """Whose a subscription is; the id of one elsewhere is kept."""
        name = event["id"]
        if name in self.elsewhere:
            if here:
                error = DuplicateProfile(
                    f"profile {name!r} is already subscribed; unsubscribe it first"
                )
                self._letter(Rejected(0, event["seq"], error, event), played)
            return NOBODYS
        if here:
            judge.subscribed(event)
            return MINE
        if judge.lives_here(name) or not judge.accepts(event):
            return NOBODYS
        self.elsewhere.add(name)
        return THEIRS

    def _unsubscribes(self, event: dict[str, Any], here: bool, judge: "_Judge") -> int:
        name = event["id"]
        if name in self.elsewhere:
            self.elsewhere.remove(name)
            return THEIRS
        if judge.lives_here(name):
            judge.unsubscribed(event)
            return MINE
        return MINE if here else NOBODYS  # nobody has it: one of us must say so

    def _note(
        self,
        table: pa.Table,
        whose: NDArray[np.int8],
        accepted: NDArray[np.bool_],
        played: Played,
    ) -> None:
        """Keep the events that changed the state, those of profiles elsewhere among them."""
        kept = whose == THEIRS
        kept[np.flatnonzero(whose == MINE)[accepted]] = True
        kept &= pc.not_equal(table.column("kind"), MESSAGE).to_numpy(zero_copy_only=False)
        if kept.any():
            played.changes.append(table.filter(pa.array(kept)))

    # results ---------------------------------------------------------------------------------

    def _found(self, done: Deliveries, played: Played) -> None:
        if not len(done):
            return
        lists = done.to_lists()
        columns = [
            lists.column(field.name).cast(field.type)
            if field.name in lists.column_names
            else pa.nulls(lists.num_rows, field.type)
            for field in self._columns
        ]
        played.found.append(pa.Table.from_arrays(columns, schema=self._columns))

    def _letter(self, letter: Rejected, played: Played) -> None:
        if letter.event.get(HOME, self.number) != self.number:
            return
        there = {n: v for n, v in letter.event.items() if v is not None and v != []}
        shown = {n: as_it_came(v) for n, v in there.items() if n not in PLACING}
        played.letters.append(
            {
                "seq": letter.seq,
                "kind": letter.event.get("kind"),
                "reason": str(letter.reason),
                "event": json.dumps(shown, default=str, ensure_ascii=False),
            }
        )


class _Judge:
    """Which profiles live here, in the midst of events that the filter has yet to see."""

    def __init__(self, shard: Shard) -> None:
        self._filter = shard.filter
        self._last: dict[Any, list[dict[str, Any]]] = {}

    def subscribed(self, event: dict[str, Any]) -> None:
        self._last.setdefault(event["id"], []).append(event)

    def unsubscribed(self, event: dict[str, Any]) -> None:
        self._last[event["id"]] = [event]

    def lives_here(self, name: Any) -> bool:
        events = self._last.get(name, [])
        if events and events[0]["kind"] == UNSUBSCRIBE:
            return any(self.accepts(event) for event in events[1:])
        return name in self._filter or any(self.accepts(event) for event in events)

    def accepts(self, event: dict[str, Any]) -> bool:
        """Whether a subscription is well-formed."""
        try:
            self._filter.check(event["condition"], event["context"], event.get("dialect"))
        except GermaneError:
            return False
        return True
