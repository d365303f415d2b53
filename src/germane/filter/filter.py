"""``Filter``: profiles, contexts and messages in; who gets what, out. The only composer.

    profiles -> language -> rows -> tables of indexes
    updates  -> context store -> disturbed entries -> escalate
    message  -> probe -> merge -> postfilter -> profiles; false positives -> deescalate

Every call is validated at the door, and a call that is refused leaves the filter as it was. One
call at a time: a filter is not safe to change from two threads at once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.approx.transformations import NONE, Transformations
from germane.batch.settings import Batching, as_batching
from germane.category import ContentGraph
from germane.category.covers import nodes_named
from germane.category.sets import Categories, Given
from germane.context import Contexts, Strings, as_id
from germane.context.ids import as_ids
from germane.context.values import (
    DOCUMENTS_OF_CONTEXTS,
    column,
    key,
    location,
    locations,
    type_of_value,
)
from germane.filter.addresses import Addressed, Kept, Points, reached
from germane.filter.batches import Batches, Found
from germane.filter.deliveries import Deliveries
from germane.filter.documents import DocumentPatterns, delivery_costs
from germane.filter.explain import Explanation, explain_row
from germane.filter.matches import Matches
from germane.filter.messages import NO_TEXTS, Batch, Messages
from germane.filter.process import process
from germane.filter.registry import Registry
from germane.filter.tables import Tables
from germane.filter.texts import Texts
from germane.filter.values_out import contexts_table
from germane.index.conjunctions import Conjunctions
from germane.index.policy import as_policy, as_strategy
from germane.language import as_dialect
from germane.language.cesql.evaluate import OWN_ID
from germane.model import InvalidValue, UnknownAttribute
from germane.model.errors import shown
from germane.model.types import CATEGORY, XML

STRUCTURES = ("blocks", "skiplist")
FIRST_PART, LAST_PART = 256, 65_536
"""Messages matched at once in ``match_chunks``: at first, and at most."""


class Filter:
    """A context-aware information filter.

    >>> f = Filter()
    >>> f.subscribe("p1", "type = 'talk' AND time < context.last", context="ann")
    >>> f.update("ann", {"last": 17})
    >>> f.match({"type": "talk", "time": 16})
    ['p1']
    """

    def __init__(
        self,
        index: str = "agile",
        policy: Any = "auto",
        schema: Mapping[str, str] | None = None,
        structure: str = "blocks",
        batching: Batching | None = None,
        graphs: Mapping[str, ContentGraph] | None = None,
        transformations: Transformations | None = None,
    ) -> None:
        """Make an empty filter.

        ``index`` is a strategy: "scan", "eager", "partial", "gbu", "agile" or "auto"; ``policy``
        says when to deescalate: "always", ``Fixed(n)`` or "auto"; ``schema`` declares attribute
        types and closes the set of names; ``structure`` is "blocks", or "skiplist" for the
        paper's interval skip lists and hash tables; ``batching`` says how batches are matched, by
        default tuned while running; ``graphs`` are the content graphs of the attributes that hold
        their nodes; ``transformations`` say what patterns of documents may be turned into.
        """
        if structure not in STRUCTURES:
            raise InvalidValue(f"structure is 'blocks' or 'skiplist', not {structure!r}")
        if schema is not None and not isinstance(schema, Mapping):
            raise InvalidValue(f"schema is a mapping of names to types, not {schema!r:.200}")
        self._index = as_strategy(index)
        self._policy = as_policy(policy)
        self._structure = structure
        self._batching = as_batching(batching)
        self._categories = Categories(graphs)
        self._schema = self._categories.schema(schema)
        if transformations is not None and not isinstance(transformations, Transformations):
            raise InvalidValue(
                f"transformations is a germane.Transformations, not {transformations!r:.200}"
            )
        if transformations is not None and schema is None:
            self._schema.declare("document", XML)
        self._transformations = NONE if transformations is None else transformations
        self._strings = Strings()
        self._wire()

    def _wire(self) -> None:
        """Put the stages together around the schema and the strings."""
        self._documents = DocumentPatterns(self._categories, self._transformations)
        self._own: dict[Any, Transformations] = {}  # of profiles that have their own
        self._first_own: dict[Any, Transformations] = {}  # before any feedback
        self._messages = Messages(
            self._schema, self._strings, self._categories, self._documents.add
        )
        self._contexts = Contexts()
        self._conjunctions = Conjunctions()
        self._texts = Texts(self._strings)
        self._tables = Tables(
            self._conjunctions,
            self._contexts,
            self._texts,
            self._categories,
            self._index,
            self._policy,
            self._structure,
        )
        self._profiles = Registry(
            self._schema,
            self._strings,
            self._messages,
            self._contexts,
            self._conjunctions,
            self._texts,
            self._categories,
            self._documents,
            self._tables,
            self._follow_strings,
        )
        self._points = Points(self._contexts)
        self._addresses = Kept()
        self._categories.uses = self._uses_of_nodes
        self._epoch = self._strings.epoch
        self._n_updates = 0
        self._n_matches = 0
        self._last_seq: int | None = None
        self._batches = self._new_batches()

    def _new_batches(self) -> Batches:
        return Batches(self._tables, self._match, self._batching)

    @property
    def batching(self) -> Batching:
        """How batches are matched. Setting it forgets what was tuned."""
        return self._batching

    @batching.setter
    def batching(self, settings: Batching) -> None:
        self._batching = as_batching(settings)
        self._batches = self._new_batches()

    # profiles --------------------------------------------------------------------------------

    def subscribe(
        self,
        profile_id: Any,
        condition: str,
        context: Any = None,
        transformations: Transformations | None = None,
        dialect: str | None = None,
    ) -> None:
        """Register a profile; from the next message on it is matched.

        ``transformations`` are the subscriber's own, and count before the filter's. ``dialect``
        is what the condition is written in: "germane" (the default), "cesql" (CESQL 1.0), or
        "filters" (those of the CloudEvents Subscriptions API, a JSON array).
        """
        own = NONE if transformations is None else transformations
        if not isinstance(own, Transformations):
            raise InvalidValue(f"transformations is a germane.Transformations, not {own!r:.200}")
        self._documents.own = own
        try:
            self.subscribe_many([profile_id], [condition], [context], [dialect])
        finally:
            self._documents.own = NONE
        if own != NONE:
            self._own[profile_id] = own

    def subscribe_many(
        self,
        ids: Sequence[Any],
        conditions: Sequence[str],
        contexts: Sequence[Any] | None = None,
        dialect: str | Sequence[str | None] | None = None,
    ) -> None:
        """Register many profiles; bad ones are reported by ``BatchError`` after the rest.

        ``dialect`` is one for all conditions, or one for each.
        """
        ids = _sequence(ids, "ids")
        conditions = _sequence(conditions, "conditions")
        contexts = [None] * len(ids) if contexts is None else _sequence(contexts, "contexts")
        if dialect is None or isinstance(dialect, str):
            dialect = [as_dialect(dialect)] * len(ids)
        dialects = _sequence(dialect, "dialects")
        if not len(ids) == len(conditions) == len(contexts) == len(dialects):
            raise InvalidValue(
                f"subscribe_many got {len(ids)} ids, {len(conditions)} conditions, "
                f"{len(contexts)} contexts and {len(dialects)} dialects; they must be as many"
            )
        self._profiles.add(ids, conditions, contexts, dialects)

    def feedback(self, profile_id: Any, message: Mapping[str, Any], relevant: bool) -> bool:
        """Take a subscriber's word on a delivery: what its patterns were turned into costs less
        from now on if it was relevant, more if not, within bounds; whether anything changed.
        """
        profile_id = as_id(profile_id, "a profile's id")
        rows = np.array(self._profiles.rows_of(profile_id), np.int32)
        own = self._own.get(profile_id, NONE)
        first = self._first_own.get(profile_id, own)
        new = self._documents.heard(
            nodes_named(self._conjunctions, self._categories.flat, rows).keys,
            own, first, self._messages.documents_of(message), relevant,
        )  # fmt: skip
        if new == own:
            return False
        self._first_own.setdefault(profile_id, own)
        self._own[profile_id] = new
        self._profiles.price_anew(rows, new)
        return True

    def check(self, condition: str, context: Any = None, dialect: str | None = None) -> None:
        """Raise what ``subscribe`` would raise for a condition; register nothing."""
        self._profiles.check(condition, context, dialect)

    def unsubscribe(self, profile_id: Any) -> None:
        """Remove a profile."""
        self._profiles.remove(profile_id)
        self._own.pop(profile_id, None)
        self._first_own.pop(profile_id, None)

    def __len__(self) -> int:
        """How many profiles are subscribed."""
        return len(self._profiles.ids)

    def __contains__(self, profile_id: Any) -> bool:
        """Whether a profile is subscribed."""
        try:
            return as_id(profile_id, "a profile's id") in self._profiles.ids
        except InvalidValue:
            return False

    # contexts --------------------------------------------------------------------------------

    def update(self, context: Any, values: Mapping[str, Any]) -> None:
        """Set attributes of a context, made on first sight; None removes an attribute."""
        context = as_id(context, "a context's id")
        if not isinstance(values, Mapping):
            raise InvalidValue(f"update takes a mapping of attributes, not {shown(values)}")
        self._keep_sets()
        types, keys = self._check_update(context, values)
        row = self._contexts.ensure([context])
        self._follow_strings()
        for name, parts in keys.items():
            slots = self._contexts.slots_of(name, types[name])
            for slot, part in zip(slots, parts, strict=False):
                self._store(row, slot, np.array([part]))

    def check_update(self, context: Any, values: Mapping[str, Any]) -> None:
        """Raise what ``update`` would raise for these values; set nothing."""
        context = as_id(context, "a context's id")
        draft = self._schema.draft(f"context {context!r}")
        for name, value in values.items():
            self._schema.require(name)
            type_ = draft.type_of(name) or type_of_value(name, value)
            if type_ is None:
                continue
            draft.fix(name, type_)
            if type_.startswith(CATEGORY):
                self._categories.nodes(name, type_, value)
            else:
                self._keys({name: value}, {name: type_}, keep=False)

    def _check_update(
        self, context: Any, values: Mapping[str, Any], removed: Sequence[str] = ()
    ) -> tuple[dict[str, str | None], dict[str, tuple[float, ...]]]:
        """Types and keys of what an update sets; nothing is stored yet."""
        draft = self._schema.draft(f"context {context!r}")
        types: dict[str, str | None] = {}
        for name, value in values.items():
            self._schema.require(name)
            type_ = types[name] = draft.type_of(name) or type_of_value(name, value)
            if type_ is not None:
                draft.fix(name, type_)
        for name in removed:
            self._schema.require(name)
        keys = self._keys(values, types)
        draft.commit()
        return types, keys

    def _keys(
        self, values: Mapping[str, Any], types: Mapping[str, str | None], keep: bool = True
    ) -> dict[str, tuple[float, ...]]:
        """Keys of a context's values, under labels that hold together; ``keep`` makes members."""
        keys: dict[str, tuple[float, ...]] = {}
        for name, value in values.items():
            type_ = types[name]
            if type_ == "location":
                keys[name] = location(name, value)
            elif type_ is not None and type_.startswith(CATEGORY):
                keys[name] = (self._categories.key(name, type_, value),)
            elif type_ == XML:
                raise InvalidValue(DOCUMENTS_OF_CONTEXTS.format(name=name))
            else:
                keys[name] = (key(name, type_ or "number", value, self._strings, False),)
        # Nothing is refused from here on: strings may become members.
        texts = [name for name, type_ in types.items() if type_ == "string" and keep]
        epoch = None
        while texts and epoch != self._strings.epoch:
            epoch = self._strings.epoch
            for name in texts:
                keys[name] = (key(name, "string", values[name], self._strings, True),)
        return keys

    def update_many(self, contexts: Any, attribute: str, values: Any) -> None:
        """Set one attribute of many contexts: parallel sequences or arrays, later ones win."""
        contexts = _sequence(contexts, "contexts")
        values = _sequence(values, "values", 2)
        if len(contexts) != len(values):
            raise InvalidValue(
                f"update_many got {len(contexts)} contexts and {len(values)} values for "
                f"{attribute!r}; they must be as many"
            )
        if not isinstance(attribute, str):
            self._schema.require(attribute)  # says why not
        if not len(contexts):
            return
        contexts = as_ids(contexts, "a context's id")
        draft = None
        type_ = self._schema.known.get(attribute)
        if type_ is None:
            self._schema.require(attribute)
            draft = self._schema.draft(f"an update of {attribute!r}")
            type_ = draft.type_of(attribute) or _type_of_column(attribute, values)
            if type_ is not None:
                draft.fix(attribute, type_)
        if type_ == "location":
            pairs = locations(attribute, values)
            columns = [np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])]
        elif type_ is not None and type_.startswith(CATEGORY):
            self._keep_sets()
            columns = [self._categories.column(attribute, type_, values)]
        else:
            while True:
                epoch = self._strings.epoch
                columns = [column(attribute, type_ or "number", values, self._strings, True)]
                if self._strings.epoch == epoch:
                    break
        if draft is not None:
            draft.commit()
        rows = self._contexts.ensure(contexts)
        self._follow_strings()
        for slot, keys in zip(self._contexts.slots_of(attribute, type_), columns, strict=False):
            self._store(rows, slot, keys)

    def contexts(self) -> Any:
        """The current values of all contexts: an Arrow table, ``id`` and a column an attribute."""
        return contexts_table(self)

    def _store(self, rows: NDArray[np.int32], slot: int, keys: NDArray[np.float64]) -> None:
        if self._categories:
            self._tables.follow_graphs()
            self._categories.refresh()
        disturbed = self._contexts.set(rows, slot, keys)
        self._points.follow(rows, slot)
        self._n_updates += len(rows)
        self._tables.count_updates(slot, len(rows))
        if slot in self._tables.posted_slots:
            self._tables.postings.follow(rows, slot)
        if len(disturbed):
            self._tables.disturb(disturbed, slot)

    def _use(self, given: Given, vectors: NDArray[np.float64]) -> None:
        """Let kernels see graphs as they are, and the sets of some messages.

        Those are the patterns, too, that their documents match.
        """
        self._tables.follow_graphs()
        if given.documents is not None:
            slots = self._messages.documents()
            self._documents.resolve(given, vectors[..., slots].ravel())
        self._categories.use(given)

    def _follow_strings(self) -> None:
        """Strings were numbered anew: translate every label that is held anywhere."""
        if self._epoch == self._strings.epoch:
            return
        self._epoch = self._strings.epoch
        moved = self._strings.moved
        for name, slots in self._contexts.slots.items():
            if self._schema.type_of(name) == "string":
                self._contexts.values[slots[0]] = moved(self._contexts.values[slots[0]])
        places = self._conjunctions.text_constants()
        pool = self._conjunctions.pool
        pool[places] = moved(pool[places])
        self._strings.settle()
        self._points.clear()
        self._addresses.forget()
        self._texts.renumbered()
        self._tables.rebuild()

    def change_graph(
        self, attribute: str, links: Iterable[Any] = (), unlinks: Iterable[Any] = ()
    ) -> None:
        """Add links (parent, child) to the graph of an attribute, then remove some; or neither.

        The graph may as well be changed itself: the filter notices.
        """
        self._categories.change(attribute, links, unlinks)

    # messages --------------------------------------------------------------------------------

    @property
    def attributes(self) -> list[str]:
        """The message attributes that profiles read, in the order of ``match_rows`` vectors."""
        return self._messages.attributes

    @property
    def context_attributes(self) -> list[str]:
        """The attributes that contexts have had so far."""
        return list(self._contexts.slots)

    @property
    def n_contexts(self) -> int:
        """Contexts that were heard of."""
        return len(self._contexts)

    @property
    def types(self) -> dict[str, str]:
        """The attributes that have a type, by name."""
        found = {name: self._schema.type_of(name) for name in self._schema.names}
        return {name: type_ for name, type_ in found.items() if type_ is not None}

    def declare(self, name: str, type_: str) -> None:
        """Give an attribute its type before its first use; other names stay open."""
        self._schema.declare(name, type_)

    def graph(self, attribute: str) -> ContentGraph:
        """The content graph whose nodes an attribute holds."""
        categories = self._categories
        if attribute not in categories.types:
            raise UnknownAttribute(
                f"{attribute!r} holds no nodes of a graph; those that do: "
                f"{', '.join(sorted(categories.types)) or 'none'}"
            )
        found: ContentGraph = categories.graphs[categories.graph_of(categories.types[attribute])]
        return found

    def postpone_indexes(self, postponed: bool = True) -> None:
        """Leave new profiles outside the indexes and match messages one by one, until told else.

        Answers are the same. For the time in which the kernels of indexes and batches are not
        compiled yet: the sweep needs few.
        """
        self._tables.postponed = postponed

    @property
    def reads(self) -> set[str]:
        """The names of all attributes of messages that profiles have read so far.

        Others may be left out of messages: it changes no match.
        """
        names = set(self._messages.slots) | self._texts.names
        names.update(name for name, _ in self._messages.casts)
        return names | {OWN_ID} if "id" in names else names

    def match(self, message: Mapping[str, Any], address: str | None = None) -> list[Any]:
        """The ids of the profiles that a message reaches now, sorted.

        ``address`` is the sender's side, a condition on the recipient's context: with it, only
        profiles are reached for whose context it is TRUE.
        """
        if address is None:
            return self._profiles.ids.in_order(self.match_rows(message))
        addressed = Addressed(self)
        addressed.check(address)
        rows = addressed.keep(address, self.match_rows(message))
        return self._profiles.ids.in_order(rows)

    def recipients(self, address: str) -> list[Any]:
        """The ids of the contexts that an address reaches now, sorted."""
        return self._contexts.ids.in_order(reached(self, self._addresses.address(self, address)))

    def match_rows(self, message: Any) -> NDArray[np.int32]:
        """As ``match``, but the profiles' rows, each once, in no order.

        A float64 vector in the order of ``attributes`` (NaN is NULL) is taken as it is.
        """
        if type(message) is np.ndarray:
            given, raw = self._categories.nobody, NO_TEXTS
            vector = self._messages.vector(message)
        else:
            vector, raw = self._messages.read(message), message
            given = self._messages.given
        if self._categories:
            self._use(given, vector)
        rows = self._match(vector, raw)
        self._n_matches += len(rows)
        return rows

    def _match(self, vector: NDArray[np.float64], raw: Mapping[str, Any]) -> NDArray[np.int32]:
        """The rows of the profiles that a message reaches, given its vector and its texts."""
        rows = self._tables.probe(vector, raw)
        conjunctions = self._conjunctions
        if conjunctions.rows_are_profiles:
            profiles = rows.copy()
        else:
            profiles = conjunctions.profile[rows]
            if conjunctions.n_siblings:
                profiles = np.unique(profiles)
        return profiles

    def match_many(self, messages: Any) -> Matches:
        """Match a batch: dicts, a pyarrow Table or RecordBatch, or vectors [n, attributes].

        A malformed message matches nothing and is reported in ``Matches.errors``.
        """
        batch = self._messages.read_batch(messages)
        return self._match_batch(batch, 0, len(batch.vectors))

    def match_chunks(self, messages: Any) -> Iterator[Matches]:
        """As ``match_many``, in parts of at most ``batching.max_bytes`` of matches each.

        Message numbers run on. Subscriptions and updates between two parts take effect.
        """
        batch = self._messages.read_batch(messages)
        begin, n, expected = 0, len(batch.vectors), FIRST_PART
        while begin < n:
            found = self._match_batch(batch, begin, min(begin + expected, n))
            yield from found.split(self._batching.max_bytes)
            begin += expected
            each = max(found.nbytes / max(found.n_messages, 1), 1.0)
            expected = max(min(int(self._batching.max_bytes / 2 / each), LAST_PART), 1)

    def _match_batch(self, batch: Batch, begin: int, end: int) -> Matches:
        """Match the messages ``begin .. end`` of a batch that was read."""
        errors = batch.errors
        raw_of = batch.raw_of
        if self._categories:
            self._use(batch.given, batch.vectors[begin:end])
        if errors:
            errors = {i: error for i, error in errors.items() if begin <= i < end}
            good = np.array([i for i in range(begin, end) if i not in errors], np.int64)
            found = self._batches.match(batch.vectors[good], lambda i: raw_of(int(good[i])))
            found = found.spread(good - begin, end - begin)
        else:
            found = self._batches.match(batch.vectors[begin:end], lambda i: raw_of(begin + i))
        self._delivered(found)
        matches = Matches(found, self._profiles.ids, begin, errors)
        self._price(matches, batch.given, batch.vectors[begin:end], lambda i: raw_of(begin + i))
        return matches

    def _price(
        self, matches: Matches, given: Given, vectors: NDArray[np.float64], raw_of: Any
    ) -> None:
        """Note what deliveries cost, while documents and contexts are as they were."""
        if given.documents is None or not len(matches):
            return
        messages = np.repeat(np.arange(matches.n_messages), matches.counts)
        profiles = matches.laid_out().astype(np.int64)
        costs = delivery_costs(self, given, vectors, messages, profiles, raw_of)
        matches.priced(messages, profiles, costs)

    def costs(self, message: Mapping[str, Any]) -> dict[Any, float]:
        """What a message costs the profiles that it reaches; 0.0 for those without a pattern."""
        table = self.match_many([message])
        if table.errors:
            raise table.errors[0]
        return dict(zip(table.by_message()[0], table.costs().tolist(), strict=True))

    def _delivered(self, found: Found) -> None:
        """Count what a batch has found."""
        self._n_matches += found.total

    # the sequence ----------------------------------------------------------------------------

    def process(self, events: Any) -> Deliveries:
        """Take a stretch of the one sequence of events: messages, updates, (un)subscriptions.

        Events are Arrow record batches (or dicts) in the order of ``seq``, with columns ``seq``,
        ``kind``, ``id`` and one for each attribute; updates also have ``removed``, subscriptions
        ``context``, ``condition`` and ``dialect``; kind "graph" has an attribute as its ``id``, and
        lists of (parent, child) in ``links`` and ``unlinks``. Each message meets exactly the state
        before it. Malformed events are kept in ``Deliveries.rejected``; a ``seq`` that was
        processed is ignored.
        """
        return process(self, events)

    def rewind(self) -> None:
        """Forget how far the sequence has come: the next event may have any ``seq``.

        For callers that know themselves what was taken.
        """
        self._last_seq = None

    def _next_seq(self, seq: Any) -> bool:
        """Whether an event is new; its place in the sequence is used up."""
        if not isinstance(seq, int | np.integer) or isinstance(seq, bool):
            raise InvalidValue(f"the event has no seq, an integer, but {shown(seq)}")
        if not -(2**63) <= seq < 2**63:
            raise InvalidValue(f"seq is a 64-bit integer, not {shown(seq)}")
        if self._last_seq is not None and seq <= self._last_seq:
            return False
        self._last_seq = int(seq)
        return True

    # for people ------------------------------------------------------------------------------

    def explain(self, profile_id: Any, message: Mapping[str, Any]) -> Explanation:
        """Why a message reaches a profile now, or which predicate keeps it away."""
        profile_id = as_id(profile_id, "a profile's id")
        rows = self._profiles.rows_of(profile_id)
        vector = self._messages.read(message)
        self._use(self._messages.given, vector)
        context = None
        parts = []
        for row in rows:
            parts.append(
                explain_row(
                    row,
                    vector,
                    message,
                    self._conjunctions,
                    self._contexts,
                    self._messages,
                    self._schema,
                    self._strings,
                    self._texts,
                    self._categories,
                    self._documents,
                )
            )
            owner = int(self._conjunctions.owner[row])
            context = self._contexts.ids.id_of(owner) if owner >= 0 else None
        return Explanation(profile_id, context, tuple(parts))

    def stats(self) -> dict[str, Any]:
        """What the filter holds and has done, and the decisions it has taken."""
        tables = self._tables
        indexes = [table.index for table in tables.tables if table.index is not None]
        counters = [index.counters() for index in indexes]
        total = {
            name: sum(counter.get(name, 0) for counter in counters)
            for name in ("index_updates", "local_updates", "escalations", "blocks_opened")
        }
        return {
            "profiles": len(self),
            "conjunctions": self._conjunctions.n_live,
            "contexts": len(self._contexts),
            "messages": tables.recent.n_messages,
            "updates": self._n_updates,
            "probes": sum(table.n_probes for table in tables.tables),
            "candidates": tables.n_candidates,
            "false_positives": tables.n_false,
            "matches": self._n_matches,
            **total,
            "index_updates": total["index_updates"] + tables.deescalations,
            "deescalations": tables.deescalations,
            "postfiltered": tables.n_postfiltered,
            "swept": tables.n_swept,
            "index": self._index.name,
            "policy": repr(self._policy),
            "batching": self._batches.describe(),
            "tables": [table.describe(self._messages.attributes) for table in tables.tables],
            "categories": tables.postings.describe(self._messages.attributes),
            "patterns": self._documents.patterns.describe(),
            "addresses": self._points.describe() | {"kept": len(self._addresses)},
            "bytes": self.nbytes,
        }

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays (Python's own ids and strings are not counted)."""
        parts = (
            self._contexts, self._conjunctions, self._tables, self._profiles,
            self._documents.patterns, self._points,
        )  # fmt: skip
        return sum(part.nbytes for part in parts)

    def save(self, path: str | Path) -> None:
        """Write everything, indexes included, to one file."""
        from germane.filter.snapshot import save

        save(self, _path(path))

    @classmethod
    def load(cls, path: str | Path) -> "Filter":
        """The filter that ``save`` wrote."""
        from germane.filter.snapshot import load

        return load(cls, _path(path))

    def _uses_of_nodes(self, graph: int, nodes: set[int]) -> tuple[int, int]:
        """How many profiles and how many contexts name some nodes of a graph."""
        keys = self._categories.keys_with(graph, nodes)
        named = nodes_named(self._conjunctions, graph)
        profiles = set(self._conjunctions.profile[named.rows[np.isin(named.keys, keys)]].tolist())
        contexts = np.zeros(self._contexts.ids.n_rows, np.bool_)
        for values in self._nodes_of_contexts(graph):
            contexts |= np.isin(values, keys)
        return len(profiles), int(contexts.sum())

    def _nodes_of_contexts(self, graph: int) -> list[NDArray[np.float64]]:
        """The keys that contexts have in the attributes of a graph."""
        n = self._contexts.ids.n_rows
        return [
            self._contexts.values[slots[0], :n]
            for name, slots in self._contexts.slots.items()
            if (type_ := self._schema.type_of(name) or "").startswith(CATEGORY)
            and self._categories.graph_of(type_) == graph
        ]

    def _keep_sets(self) -> None:
        """Let go of sets of nodes that nobody holds any more, if there are many.

        Called where no key of a set is on its way into contexts or conditions.
        """
        self._documents.sweep()
        for graph, sets in enumerate(self._categories.sets):
            if sets.crowded:
                named = nodes_named(self._conjunctions, graph).keys
                held = np.concatenate([named, *self._nodes_of_contexts(graph)])
                self._categories.keep(graph, held)

    def __repr__(self) -> str:
        return (
            f"Filter({len(self)} profiles, {len(self._contexts)} contexts, "
            f"index={self._index.name!r})"
        )

    def _check(self) -> None:
        """Assert all invariants of all parts."""
        self._tables.follow_graphs()  # they may have changed since the last message
        self._strings._check()
        self._categories._check()
        assert self._epoch == self._strings.epoch
        self._schema._check()
        self._conjunctions._check()
        self._profiles._check()
        self._tables._check()
        self._points._check()


def _sequence(values: Any, what: str, dimensions: int = 1) -> Any:
    """An argument that is many values: an array, or something with a length and positions."""
    if isinstance(values, list | tuple | range):
        return values
    if type(values) is np.ndarray and values.ndim == 1:
        return values
    if hasattr(values, "to_pylist"):
        return values.to_pylist()
    if hasattr(values, "__array__"):
        array = np.asarray(values)
        if 1 <= array.ndim <= dimensions:
            return array
    elif isinstance(values, Iterable) and not isinstance(values, _NO_SEQUENCES):
        return list(values)
    raise InvalidValue(f"{what} must be a sequence such as a list, not {shown(values)}")


_NO_SEQUENCES = (str, bytes, bytearray, memoryview, Mapping, Set)


def _path(path: Any) -> Path:
    try:
        if Path(path).name and "\0" not in str(path):
            return Path(path)
    except TypeError:
        pass
    raise InvalidValue(f"a path to a file is a str or a Path, not {path!r:.200}")


def _type_of_column(name: str, values: Any) -> str | None:
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf" and values.ndim == 2:
        return "location"
    if isinstance(values, np.ndarray) and values.dtype.kind in "iufbM":
        return {"b": "boolean", "M": "timestamp"}.get(values.dtype.kind, "number")
    for value in values:
        type_ = type_of_value(name, value)
        if type_ is not None:
            return type_
    return None
