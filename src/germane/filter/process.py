"""The one path of a sequence: mixed events in ``seq`` order, in runs of one kind.

In: Arrow record batches or dicts of events. Out: ``Deliveries``. A run is as many events of one
kind as follow one another. Messages of a run are matched as a batch; updates of a run are
coalesced by (context, attribute), since only the last can be seen, and carried into the indexes
in bulk. So each message meets exactly the state before it, however the sequence is cut.

What is malformed is rejected by itself and changes nothing; a ``seq`` that is not above all before
it is a duplicate, and ignored.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from germane.context import as_id
from germane.context.values import is_null
from germane.filter.columns import Columns
from germane.filter.deliveries import Deliveries, Rejected
from germane.filter.matches import Matches
from germane.model import GermaneError, InvalidValue
from germane.model.errors import BatchError

if TYPE_CHECKING:
    from germane.filter.filter import Filter

MESSAGE, UPDATE, SUBSCRIBE, UNSUBSCRIBE = KINDS = ("message", "update", "subscribe", "unsubscribe")
FIELDS = ("seq", "kind", "id", "removed", "context", "condition", "address")
"""Columns of events that are not attributes."""
RUN = 1 << 16
"""Events that are put into one run at most, where they come as dicts."""


def process(f: "Filter", events: Any) -> Deliveries:
    """Take events in order; see ``Filter.process``."""
    out = Deliveries()
    position = 0
    for part in _parts(events):
        if isinstance(part, list):
            _Dicts(f, out, position).play(part)
            position += len(part)
        else:
            _Arrow(f, out, position, part).play()
            position += part.num_rows
    out.rejected.sort(key=lambda rejected: rejected.position)
    return out


def _parts(events: Any) -> Iterator[Any]:
    """Arrow tables, and lists of dicts, in order."""
    import pyarrow as pa

    if isinstance(events, pa.Table):
        yield events
        return
    if isinstance(events, pa.RecordBatch):
        yield pa.Table.from_batches([events])
        return
    if isinstance(events, Mapping | str | bytes) or not isinstance(events, Iterable):
        raise InvalidValue(
            "process takes Arrow record batches or a sequence of events as dicts, not "
            f"{events!r:.200}"
        )
    listed: list[Any] = []
    for event in events:
        if isinstance(event, pa.Table | pa.RecordBatch):
            if listed:
                yield listed
                listed = []
            yield from _parts(event)
            continue
        listed.append(event)
        if len(listed) >= RUN:
            yield listed
            listed = []
    if listed:
        yield listed


class _Dicts:
    """Events as dicts."""

    def __init__(self, f: "Filter", out: Deliveries, position: int) -> None:
        self.f = f
        self.out = out
        self.first = position
        self.events: list[Any] = []

    def play(self, events: list[Any]) -> None:
        """Take events run by run."""
        self.events = events
        run: list[int] = []
        kind = ""
        for i, event in enumerate(events):
            try:
                new = self._admit(event)
            except GermaneError as error:
                self._reject(i, error)
                continue
            if new is None:
                continue
            if new != kind:
                self._play_run(kind, run)
                run, kind = [], new
            run.append(i)
        self._play_run(kind, run)

    def _admit(self, event: Any) -> str | None:
        """The kind of an event; None for a duplicate."""
        if not isinstance(event, Mapping):
            raise InvalidValue(f"an event is a mapping with seq, kind and id, not {event!r:.200}")
        if not self.f._next_seq(event.get("seq")):
            return None
        kind = event.get("kind")
        if kind not in KINDS:
            raise InvalidValue(f"kind is one of {', '.join(KINDS)}, not {kind!r:.200}")
        as_id(event.get("id"), f"the id of a {kind} event")
        if event.get("address") is not None:
            raise InvalidValue("addresses are not supported yet")
        return str(kind)

    def _reject(self, i: int, error: GermaneError) -> None:
        event = self.events[i]
        seq = event.get("seq") if isinstance(event, Mapping) else None
        number = int(seq) if isinstance(seq, int | np.integer) else None
        self.out.rejected.append(Rejected(self.first + i, number, error, event))

    def _play_run(self, kind: str, run: list[int]) -> None:
        if not run:
            return
        events = [self.events[i] for i in run]
        if kind == MESSAGE:
            self._messages(run, events)
        elif kind == UPDATE:
            self._updates(run, events)
        elif kind == SUBSCRIBE:
            errors = subscribe(
                self.f,
                [event["id"] for event in events],
                [event.get("condition") for event in events],
                [event.get("context") for event in events],
            )
            for k, error in errors:
                self._reject(run[k], error)
        else:
            for k, error in unsubscribe(self.f, [event["id"] for event in events]):
                self._reject(run[k], error)

    def _messages(self, run: list[int], events: list[Any]) -> None:
        f = self.f
        batch = f._messages.read_batch([attributes(event) for event in events])
        for k, error in batch.errors.items():
            self._reject(run[k], error)
        good = [k for k in range(len(run)) if k not in batch.errors]
        found = f._batches.match(batch.vectors[good], lambda k: batch.raw_of(good[k]))
        seqs = np.array([events[k]["seq"] for k in good], np.int64)
        f._delivered(found)
        ids = [as_id(events[k]["id"], "a message's id") for k in good]
        self.out.add(Matches(found, f._profiles.ids), seqs, ids)

    def _updates(self, run: list[int], events: list[Any]) -> None:
        columns: dict[str, tuple[list[Any], list[Any]]] = {}
        for k, event in enumerate(events):
            try:
                values = {n: v for n, v in attributes(event).items() if not is_null(v)}
                removed = names_of(event.get("removed"))
                self.f._check_update(event["id"], values, removed)
            except GermaneError as error:
                self._reject(run[k], error)
                continue
            context = as_id(event["id"], "a context's id")
            if not values and not removed:
                self.f._contexts.ensure([context])
            for name, value in (*values.items(), *((name, None) for name in removed)):
                contexts, listed = columns.setdefault(name, ([], []))
                contexts.append(context)
                listed.append(value)
        for name, (contexts, listed) in columns.items():
            self.f.update_many(contexts, name, listed)


class _Arrow:
    """Events as an Arrow table."""

    def __init__(self, f: "Filter", out: Deliveries, position: int, table: Any) -> None:
        self.f = f
        self.out = out
        self.first = position
        self.table = table.combine_chunks()
        self.n = table.num_rows
        self.columns = Columns(self.table, f._schema, f._strings, FIELDS)
        self._vectors: tuple[Any, NDArray[np.float64]] | None = None
        self._settled: set[str] = set()
        self._removed: list[Any] | None = None
        self._context_rows: NDArray[np.int32] | None = None

    def play(self) -> None:
        """Take events run by run."""
        if not self.n:
            return
        self.seqs = self._read_seqs()
        self.ids = self._column("id")
        self.kinds = self._read_kinds()
        self.everyone = {
            kind: np.flatnonzero(self.kinds == number) for number, kind in enumerate(KINDS)
        }
        self._refuse_unknown_columns()
        self._remember_removed()
        taken = np.flatnonzero(self.kinds >= 0)
        bounds = np.flatnonzero(np.diff(self.kinds[taken])) + 1
        for run in np.split(taken, bounds) if len(taken) else ():
            kind = KINDS[self.kinds[run[0]]]
            if kind == MESSAGE:
                self._messages(run)
            elif kind == UPDATE:
                self._updates(run)
            else:
                self._subscriptions(kind, run)

    # reading ---------------------------------------------------------------------------------

    def _column(self, name: str) -> list[Any] | NDArray[np.int64]:
        """A column of ids or texts: an array of integers, or a list."""
        import pyarrow.types as t

        if name not in self.table.column_names:
            return [None] * self.n
        column = self.table.column(name)
        if t.is_integer(column.type) and column.null_count == 0:
            return np.asarray(column.to_numpy(), np.int64)
        if t.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        listed: list[Any] = column.to_pylist()
        return listed

    def _read_seqs(self) -> NDArray[np.int64]:
        """The seq of each event; those that have none are rejected, duplicates ignored."""
        import pyarrow.types as t

        self.taken = np.zeros(self.n, np.bool_)
        seqs = np.zeros(self.n, np.int64)
        column = self.table.column("seq") if "seq" in self.table.column_names else None
        if column is None or not t.is_integer(column.type):
            for i in range(self.n):
                self._reject(i, InvalidValue("the event has no seq, an integer"))
            return seqs
        valid = np.asarray(column.is_valid())
        seqs = np.asarray(column.fill_null(0).to_numpy(), np.int64)
        for i in np.flatnonzero(~valid).tolist():
            self._reject(i, InvalidValue("the event has no seq, an integer"), None)
        least = np.iinfo(np.int64).min
        ordered = np.where(valid, seqs, least)
        last = self.f._last_seq
        before = np.maximum.accumulate(ordered)
        earlier = np.concatenate(([least], before[:-1]))
        if last is not None:
            earlier = np.maximum(earlier, last)
            self.taken = valid & (seqs > earlier)
        else:
            seen = np.concatenate(([False], np.logical_or.accumulate(valid)[:-1]))
            self.taken = valid & ((seqs > earlier) | ~seen)
        if self.taken.any():
            self.f._last_seq = int(seqs[self.taken][-1])
        return seqs

    def _read_kinds(self) -> NDArray[np.int64]:
        """The kind of each event that is taken, as a number; -1 for the others."""
        kinds: NDArray[np.int64] = np.full(self.n, -1, np.int64)
        if not self.taken.any():
            return kinds
        listed = self._kind_numbers()
        kinds[self.taken] = listed[self.taken]
        for i in np.flatnonzero(self.taken & (kinds < 0)).tolist():
            found = self.table.column("kind")[i].as_py() if "kind" in self._names else None
            self._reject(i, InvalidValue(f"kind is one of {', '.join(KINDS)}, not {found!r:.200}"))
        if isinstance(self.ids, list):
            for i in np.flatnonzero(kinds >= 0).tolist():
                try:
                    as_id(self.ids[i], "the id of an event")
                except GermaneError as error:
                    self._reject(i, error)
                    kinds[i] = -1
        if "address" in self._names and self.table.column("address").null_count < self.n:
            present = np.asarray(self.table.column("address").is_valid()) & (kinds == 0)
            for i in np.flatnonzero(present).tolist():
                self._reject(i, InvalidValue("addresses are not supported yet"))
                kinds[i] = -1
        return kinds

    @property
    def _names(self) -> list[str]:
        names: list[str] = self.table.column_names
        return names

    def _kind_numbers(self) -> NDArray[np.int64]:
        import pyarrow.types as t

        unknown: NDArray[np.int64] = np.full(self.n, -1, np.int64)
        if "kind" not in self._names:
            return unknown
        column = self.table.column("kind").combine_chunks()
        if not t.is_dictionary(column.type):
            column = column.dictionary_encode()
        if hasattr(column, "chunks"):
            column = column.chunks[0]
        texts = column.dictionary.to_pylist()
        numbers = np.array([KINDS.index(k) if k in KINDS else -1 for k in texts] + [-1], np.int64)
        places = np.asarray(column.indices.fill_null(len(texts)), np.int64)
        return numbers[places]

    def _refuse_unknown_columns(self) -> None:
        """With a closed schema, a value of an attribute that is not in it refuses its event."""
        for name in list(self.columns.names):
            try:
                self.f._schema.require(name)
            except GermaneError as error:
                for i in np.flatnonzero(self.columns.present(name)).tolist():
                    self.columns.errors.setdefault(i, error)
                self.columns.names.remove(name)

    def _remember_removed(self) -> None:
        if "removed" in self._names and self.table.column("removed").null_count < self.n:
            self._removed = self.table.column("removed").to_pylist()

    def _reject(self, i: int, error: GermaneError, seq: Any = ...) -> None:
        event = {n: v for n, v in self.table.slice(i, 1).to_pylist()[0].items() if v is not None}
        number = event.get("seq") if seq is ... else seq
        self.out.rejected.append(Rejected(self.first + i, number, error, event))

    # playing ---------------------------------------------------------------------------------

    def _settle(self, run: NDArray[np.int64], keep: bool) -> NDArray[np.int64]:
        """Read what attributes a run has; those of its events that are well-formed."""
        columns, schema = self.columns, self.f._schema
        for name in columns.names:
            if name not in self._settled and schema.type_of(name) is not None:
                self._settled.add(name)
            if name in self._settled and name not in columns.read:
                columns.keys(name, self.everyone[UPDATE], keep)
        if len(self._settled) < len(columns.names):
            columns.settle(run, "an event")
            for name in columns.names:
                if name not in self._settled and schema.type_of(name) is not None:
                    self._settled.add(name)
                    columns.keys(name, self.everyone[UPDATE], keep)
        self.f._follow_strings()
        if not columns.errors:
            return run
        wrong = np.array([i in columns.errors for i in run.tolist()], np.bool_)
        for i in run[wrong].tolist():
            self._reject(i, columns.errors[i])
        return run[~wrong]

    def _messages(self, run: NDArray[np.int64]) -> None:
        f = self.f
        run = self._settle(run, False)
        if not len(run):
            return
        key = (f._messages.n_slots, f._strings.version, len(self._settled))
        if self._vectors is None or self._vectors[0] != key:
            all_messages = self.everyone[MESSAGE]
            vectors = f._messages.vectors(self.columns, all_messages)
            self._vectors = ((f._messages.n_slots, *key[1:]), vectors)
        places = np.searchsorted(self.everyone[MESSAGE], run)
        found = f._batches.match(self._vectors[1][places], lambda k: self.columns.row(int(run[k])))
        f._delivered(found)
        ids = (
            self.ids[run].tolist()
            if isinstance(self.ids, np.ndarray)
            else ([as_id(self.ids[i], "a message's id") for i in run.tolist()])
        )
        self.out.add(Matches(found, f._profiles.ids), self.seqs[run], ids)

    def _updates(self, run: NDArray[np.int64]) -> None:
        f = self.f
        run = self._settle(run, True)
        if self._removed is not None:
            run = self._check_removed(run)
        if not len(run):
            return
        contexts = f._contexts.ensure(
            self.ids[run] if isinstance(self.ids, np.ndarray) else [self.ids[i] for i in run]
        )
        removed = self._removals(run)
        for name in (*self.columns.names, *(n for n in removed if n not in self.columns.names)):
            self._update(name, run, contexts, removed.get(name))

    def _update(
        self,
        name: str,
        run: NDArray[np.int64],
        contexts: NDArray[np.int32],
        removed: NDArray[np.int64] | None,
    ) -> None:
        """Store one attribute of a run of updates: the last value of each context."""
        f = self.f
        given = name in self.columns.names
        used = self.columns.present(name)[run] if given else np.zeros(len(run), np.bool_)
        if removed is not None:
            used = used.copy()
            used[removed] = True
        if not used.any():
            return
        type_ = f._schema.type_of(name)
        if given:
            parts = self.columns.keys(name, self.everyone[UPDATE], True)
            keys = [part[run] for part in parts]
        else:
            keys = [np.full(len(run), np.nan) for _ in range(2 if type_ == "location" else 1)]
        if removed is not None:
            for part in keys:
                part[removed] = np.nan
        f._follow_strings()
        whole = bool(used.all())
        rows = contexts if whole else contexts[used]
        for slot, part in zip(f._contexts.slots_of(name, type_), keys, strict=False):
            f._store(rows, slot, part if whole else part[used])

    def _check_removed(self, run: NDArray[np.int64]) -> NDArray[np.int64]:
        """Reject updates that remove what is no attribute's name."""
        assert self._removed is not None
        wrong = np.zeros(len(run), np.bool_)
        for k, i in enumerate(run.tolist()):
            if self._removed[i]:
                try:
                    for name in names_of(self._removed[i]):
                        self.f._schema.require(name)
                except GermaneError as error:
                    self._reject(i, error)
                    wrong[k] = True
        return run[~wrong]

    def _removals(self, run: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """Name -> which updates of a run remove it."""
        found: dict[str, list[int]] = {}
        if self._removed is not None:
            for k, i in enumerate(run.tolist()):
                for name in self._removed[i] or ():
                    found.setdefault(name, []).append(k)
        return {name: np.array(places, np.int64) for name, places in found.items()}

    def _subscriptions(self, kind: str, run: NDArray[np.int64]) -> None:
        ids = [_plain(self.ids[i]) for i in run.tolist()]
        if kind == SUBSCRIBE:
            conditions, contexts = self._column("condition"), self._column("context")
            errors = subscribe(
                self.f,
                ids,
                [conditions[i] for i in run.tolist()],
                [_plain(contexts[i]) for i in run.tolist()],
            )
        else:
            errors = unsubscribe(self.f, ids)
        for k, error in errors:
            self._reject(int(run[k]), error)


def subscribe(
    f: "Filter", ids: list[Any], conditions: list[Any], contexts: list[Any]
) -> list[tuple[int, GermaneError]]:
    """Subscribe a run of profiles; which were refused, and why."""
    try:
        f.subscribe_many(ids, conditions, contexts)
    except BatchError as errors:
        return [(k, error) for k, _, error in errors.errors]
    except GermaneError as error:
        return [(0, error)]
    return []


def unsubscribe(f: "Filter", ids: list[Any]) -> list[tuple[int, GermaneError]]:
    """Unsubscribe a run of profiles; which were refused, and why."""
    refused = []
    for k, profile_id in enumerate(ids):
        try:
            f.unsubscribe(profile_id)
        except GermaneError as error:
            refused.append((k, error))
    return refused


def attributes(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event's own attributes."""
    return {name: value for name, value in event.items() if name not in FIELDS}


def names_of(removed: Any) -> list[str]:
    """The names that an update removes, checked."""
    if removed is None:
        return []
    if isinstance(removed, str | bytes | Mapping) or not isinstance(removed, Iterable):
        raise InvalidValue(f"removed is a list of attribute names, not {removed!r:.200}")
    names = list(removed)
    for name in names:
        if not isinstance(name, str):
            raise InvalidValue(f"removed is a list of attribute names; {name!r:.200} is none")
    return names


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, np.integer) else value
