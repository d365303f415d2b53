"""A sequence of events as an Arrow table: columns are read once, then played in runs of one kind.

In: an Arrow table, a row an event. Out: what they deliver and which are rejected, into
``Deliveries``. Values stay in columns, and a column is converted once, when its attribute has a
type; Python objects are made of subscriptions and of what is rejected.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from germane.context import as_id
from germane.context.values import DOCUMENTS_OF_CONTEXTS
from germane.filter.addresses import Addressed
from germane.filter.columns import Columns, row_of
from germane.filter.deliveries import Deliveries, Rejected
from germane.filter.events import (
    FIELDS,
    GRAPH,
    KINDS,
    LINKS,
    LINKS_OF_GRAPHS,
    MESSAGE,
    SUBSCRIBE,
    UPDATE,
    change_graphs,
    check_own_types,
    holds_links,
    names_of,
    subscribe,
    unsubscribe,
)
from germane.filter.matches import Matches
from germane.model import GermaneError, InvalidValue
from germane.model.types import CATEGORY, XML

if TYPE_CHECKING:
    from germane.filter.filter import Filter

NOTHING: Mapping[str, str | None] = {}


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
                events = [row_of(self.table, i) for i in run.tolist()]
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
            numbers = column.to_numpy()
            if numbers.dtype != np.uint64 or numbers.max(initial=0) < 2**63:
                return np.asarray(numbers, np.int64)
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
        valid = np.array(column.is_valid())
        numbers = column.fill_null(0).to_numpy()
        seqs = np.asarray(numbers, np.int64)
        for i in np.flatnonzero(~valid).tolist():
            self._reject(i, InvalidValue("the event has no seq, an integer"), None)
        if numbers.dtype == np.uint64:
            for i in np.flatnonzero(numbers >= 2**63).tolist():
                self._reject(i, InvalidValue(f"seq is a 64-bit integer, not {numbers[i]}"))
                valid[i] = False
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
        for name in LINKS:
            if name in self._names:
                self._refuse_links(_linked(self.table.column(name)), kinds)
        return kinds

    def _refuse_links(self, linked: NDArray[np.bool_], kinds: NDArray[np.int64]) -> None:
        """Reject events that have links, though they are of no graph."""
        others = (kinds >= 0) & (kinds != KINDS.index(GRAPH))
        for i in np.flatnonzero(others & linked).tolist():
            self._reject(i, InvalidValue(LINKS_OF_GRAPHS.format(kind=KINDS[kinds[i]])))
            kinds[i] = -1

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
        event = {n: v for n, v in row_of(self.table, i).items() if v is not None}
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
        if keep:
            self._refuse_documents(run)
        if len(self._settled) < len(columns.names):
            columns.settle(run, "an event", of_contexts=keep)
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

    def _refuse_documents(self, run: NDArray[np.int64]) -> None:
        """Updates that set an attribute that holds documents are wrong."""
        for name in self._updated:
            if self.f._schema.type_of(name) == XML:
                error = InvalidValue(DOCUMENTS_OF_CONTEXTS.format(name=name))
                for i in run[self.columns.present(name)[run]].tolist():
                    self.columns.errors.setdefault(i, error)

    def _messages(self, run: NDArray[np.int64]) -> None:
        if self._addresses is None:
            self._match(run)
            return
        for part in self._parts(run):  # an address is judged by what stands before it
            self._match(part)

    def _parts(self, run: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Messages, cut so that what may fix a type is alone; each part is played before the next.

        Of those that are alone, such that do not understand their address are rejected here.
        """
        columns, texts = self.columns, self._addresses
        while len(run):
            names = columns.open()
            holds = [columns.present(name)[run] for name in names]
            begin = 0
            for k in np.flatnonzero(np.any(holds, axis=0)).tolist() if names else ():
                if columns.open() != names:
                    break
                yield run[begin:k]
                begin = k + 1
                types = columns.types_fixed(int(run[k]))
                text = None if texts is None else texts[run[k]]
                if self._understood(run[k], text, Addressed(self.f), types):
                    yield run[k : k + 1]
            else:
                yield run[begin:]
                return
            run = run[begin:]

    def _match(self, run: NDArray[np.int64]) -> None:
        if not len(run):
            return
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

    def _understood(
        self, i: int, address: Any, addressed: Addressed, types: Mapping[str, str | None] = NOTHING
    ) -> bool:
        """Whether a message's address, if any, can be understood; else it is rejected.

        ``types`` are those that the message is about to fix.
        """
        try:
            if address is not None:
                addressed.check(address)
                if types:
                    check_own_types(self.f._schema, address, types)
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


def _linked(column: Any) -> NDArray[np.bool_]:
    """Rows of a column of links that hold any; of lists, only the lengths are looked at."""
    import pyarrow.compute as pc
    import pyarrow.types as t

    if column.null_count == len(column):
        return np.zeros(len(column), np.bool_)
    if t.is_list(column.type) or t.is_large_list(column.type):
        return np.asarray(pc.fill_null(pc.list_value_length(column), 0)) > 0
    return np.array([holds_links(value) for value in column.to_pylist()], np.bool_)


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, np.integer) else value
