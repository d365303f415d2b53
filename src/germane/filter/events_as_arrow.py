"""A sequence of events as an Arrow table: columns are read once, then played in runs of one kind.

In: an Arrow table, a row an event. Out: what they deliver and which are rejected, into
``Deliveries``. Values stay in columns, and a column is converted once, when its attribute has a
type; Python objects are made of subscriptions and of what is rejected.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from germane.context import as_id
from germane.filter.addresses import Addressed
from germane.filter.columns import Columns
from germane.filter.deliveries import Deliveries, Rejected
from germane.filter.events import (
    FIELDS,
    GRAPH,
    KINDS,
    MESSAGE,
    SUBSCRIBE,
    UPDATE,
    change_graphs,
    names_of,
    subscribe,
    unsubscribe,
)
from germane.filter.matches import Matches
from germane.model import GermaneError, InvalidValue
from germane.model.types import CATEGORY

if TYPE_CHECKING:
    from germane.filter.filter import Filter


class ArrowEvents:
    """Events as an Arrow table."""

    def __init__(self, f: "Filter", out: Deliveries, position: int, table: Any) -> None:
        self.f = f
        self.out = out
        self.first = position
        self.table = table.combine_chunks()
        self.n = table.num_rows
        self.columns = Columns(
            self.table, f._schema, f._strings, f._categories, f._documents.add, FIELDS
        )
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
            elif kind == GRAPH:
                events = [self.table.slice(i, 1).to_pylist()[0] for i in run.tolist()]
                for k, error in change_graphs(self.f, events):
                    self._reject(int(run[k]), error)
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
        return kinds

    def _addresses_of(self, run: NDArray[np.int64]) -> list[Any] | None:
        """The addresses of messages; None if no event of the table has one."""
        texts = self._addresses
        return None if texts is None else [texts[i] for i in run.tolist()]

    @cached_property
    def _addresses(self) -> list[Any] | None:
        """The addresses of all events: runs may be short, and taking from a column is not cheap."""
        if "address" not in self._names:
            return None
        column = self.table.column("address")
        return column.to_pylist() if column.null_count < self.n else None

    @cached_property
    def _names(self) -> list[str]:
        names: list[str] = self.table.column_names
        return names

    @cached_property
    def _updated(self) -> list[str]:
        """The attributes that some update sets."""
        rows, present = self.everyone[UPDATE], self.columns.present
        return [name for name in self.columns.names if present(name)[rows].any()]

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
        if "removed" not in self._names:
            return
        removed = self.table.column("removed")
        of_lists = str(removed.type).startswith(("list", "large_list"))
        empty = of_lists and not any(len(chunk.flatten()) for chunk in removed.chunks)
        if not empty and removed.null_count < self.n:
            self._removed = removed.to_pylist()

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
        addressed, texts = Addressed(f), self._addresses_of(run)
        if texts is not None:
            taken = [self._understood(i, t, addressed) for i, t in zip(run, texts, strict=True)]
            run, texts = run[taken], [t for t, ok in zip(texts, taken, strict=True) if ok]
        if not len(run):
            return
        key = (f._messages.n_slots, f._strings.version, len(self._settled))
        if self._vectors is None or self._vectors[0] != key:
            all_messages = self.everyone[MESSAGE]
            vectors = f._messages.vectors(self.columns, all_messages)
            self._vectors = ((f._messages.n_slots, *key[1:]), vectors)
        places = np.searchsorted(self.everyone[MESSAGE], run)
        vectors = self._vectors[1][places]
        raw_of = lambda k: self.columns.row(int(run[k]))  # noqa: E731
        if f._categories:
            f._use(self.columns.given, vectors)
        found = f._batches.match(vectors, raw_of)
        if texts is not None:
            found = addressed.filter(found, texts)
        f._delivered(found)
        matches = Matches(found, f._profiles.ids)
        f._price(matches, self.columns.given, vectors, raw_of)
        ids = (
            self.ids[run]
            if isinstance(self.ids, np.ndarray)
            else [as_id(self.ids[i], "a message's id") for i in run.tolist()]
        )
        self.out.add(matches, self.seqs[run], ids)

    def _understood(self, i: int, address: Any, addressed: Addressed) -> bool:
        """Whether a message's address, if any, can be understood; else it is rejected."""
        try:
            if address is not None:
                addressed.check(address)
        except GermaneError as error:
            self._reject(int(i), error)
            return False
        return True

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
        for name in (*self._updated, *(n for n in removed if n not in self._updated)):
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
            if type_ is not None and type_.startswith(CATEGORY):
                self._hold_sets(name, type_, run, keys[0])
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

    def _hold_sets(
        self, name: str, type_: str, run: NDArray[np.int64], keys: NDArray[np.float64]
    ) -> None:
        """Number sets of nodes as contexts hold them: those of a table live as long as it does."""
        column = self.table.column(name)
        for k in np.flatnonzero(keys < 0).tolist():
            keys[k] = self.f._categories.key(name, type_, column[int(run[k])].as_py())

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
            dialects = self._column("dialect")
            errors = subscribe(
                self.f,
                ids,
                [conditions[i] for i in run.tolist()],
                [_plain(contexts[i]) for i in run.tolist()],
                [dialects[i] for i in run.tolist()],
            )
        else:
            errors = unsubscribe(self.f, ids)
        for k, error in errors:
            self._reject(int(run[k]), error)


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, np.integer) else value
