"""A sequence of events as dicts: admitted one by one, played in runs of one kind.

In: a list of mappings. Out: what they deliver and which are rejected, into ``Deliveries``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from germane.context import as_id
from germane.context.values import is_null, type_of_value
from germane.filter.addresses import Addressed
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
    attributes,
    change_graphs,
    check_own_types,
    holds_links,
    names_of,
    subscribe,
    unsubscribe,
)
from germane.filter.matches import Matches
from germane.language.cesql.evaluate import OWN_ID
from germane.model import GermaneError, InvalidValue
from germane.model.errors import shown

if TYPE_CHECKING:
    from germane.filter.filter import Filter

RESERVED = frozenset(FIELDS)


class DictEvents:
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
            raise InvalidValue(f"an event is a mapping with seq, kind and id, not {shown(event)}")
        if not self.f._next_seq(event.get("seq")):
            return None
        kind = event.get("kind")
        if kind not in KINDS:
            raise InvalidValue(f"kind is one of {', '.join(KINDS)}, not {shown(kind)}")
        as_id(event.get("id"), f"the id of the {kind} event")
        if event.get("address") is not None and kind != MESSAGE:
            raise InvalidValue(f"messages have addresses; a {kind} event has not")
        if kind != GRAPH and any(holds_links(event.get(name)) for name in LINKS):
            raise InvalidValue(LINKS_OF_GRAPHS.format(kind=kind))
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
                [event.get("dialect") for event in events],
            )
            for k, error in errors:
                self._reject(run[k], error)
        elif kind == GRAPH:
            for k, error in change_graphs(self.f, events):
                self._reject(run[k], error)
        else:
            for k, error in unsubscribe(self.f, [event["id"] for event in events]):
                self._reject(run[k], error)

    def _messages(self, run: list[int], events: list[Any]) -> None:
        texts = [event.get("address") for event in events]
        if all(text is None for text in texts):
            self._match(run, events, None)
            return
        begin = 0  # an address is judged by what stands before it: what may fix a type is alone
        for k, event in enumerate(events):
            types = self._types_fixed(event)
            if types:
                self._match(run[begin:k], events[begin:k], texts[begin:k])
                if self._understood(run[k], texts[k], types):
                    self._match(run[k : k + 1], events[k : k + 1], texts[k : k + 1])
                begin = k + 1
        self._match(run[begin:], events[begin:], texts[begin:])

    def _types_fixed(self, event: Mapping[str, Any]) -> dict[str, str | None]:
        """The types that a message gives to attributes that have none; if malformed, perhaps."""
        types: dict[str, str | None] = {}
        schema = self.f._schema
        try:
            for name, value in event.items():
                if name in schema.known or name in RESERVED or is_null(value):
                    continue
                if schema.type_of(name) is None:
                    types[name] = type_of_value(name, value)
        except GermaneError:
            pass  # it will be refused when it is read
        return types

    def _understood(self, i: int, address: Any, types: Mapping[str, str | None]) -> bool:
        """Whether an address, if any, can be understood by its message; else it is rejected."""
        try:
            if address is not None:
                Addressed(self.f).check(address)
                check_own_types(self.f._schema, address, types)
        except GermaneError as error:
            self._reject(i, error)
            return False
        return True

    def _match(self, run: list[int], events: list[Any], texts: list[Any] | None) -> None:
        if not run:
            return
        f = self.f
        batch = f._messages.read_batch([attributes(event) for event in events])
        for k, error in batch.errors.items():
            self._reject(run[k], error)
        own = [event["id"] if event.get(OWN_ID) is None else None for event in events]
        f._messages.cast_own_ids(batch.vectors, own)
        addressed = Addressed(f)
        refused = set(batch.errors)
        for k, text in enumerate(texts or ()):
            if text is not None and k not in refused:
                try:
                    addressed.check(text)
                except GermaneError as error:
                    self._reject(run[k], error)
                    refused.add(k)
        good = [k for k in range(len(run)) if k not in refused]
        vectors = batch.vectors[good]
        if f._categories:
            f._use(batch.given, vectors)
        raw_of = lambda k: _with_id(batch.raw_of(good[k]), events[good[k]]["id"])  # noqa: E731
        found = f._batches.match(vectors, raw_of)
        if texts is not None:
            found = addressed.filter(found, [texts[k] for k in good])
        seqs = np.array([events[k]["seq"] for k in good], np.int64)
        f._delivered(found)
        ids = [as_id(events[k]["id"], "a message's id") for k in good]
        matches = Matches(found, f._profiles.ids)
        f._price(matches, batch.given, vectors, raw_of)
        self.out.add(matches, seqs, ids)

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


def _with_id(message: Mapping[str, Any], own: Any) -> Mapping[str, Any]:
    """A message's attributes, and its id under the name that only CESQL reads."""
    return message if message.get(OWN_ID) is not None else {**message, OWN_ID: own}
