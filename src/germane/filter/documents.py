"""Documents of messages against patterns of conditions, and what matches cost.

In: messages with documents, conditions with `MATCHES … COST < t`. Out: for each document the set of
patterns that it matches, which kernels then treat as a set of categories; and the costs of
deliveries: of a conjunction, the sum of its patterns' costs; of a profile, the least of its
conjunctions that are TRUE.
"""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from germane.approx.documents import Documents, parse
from germane.approx.embedding import Event, embeddings
from germane.approx.feedback import adjusted
from germane.approx.patterns import Patterns
from germane.approx.transformations import NONE, Prices, Transformations
from germane.category.covers import nodes_named
from germane.category.sets import Categories, Given
from germane.context.values import is_null
from germane.language.patterns import parse_pattern
from germane.model import InvalidValue

if TYPE_CHECKING:
    from germane.filter.filter import Filter

MAX_EVENTS = 10
"""Events of a document that an explanation shows."""


class MatchesEverything(UserWarning):
    """A pattern whose values may all be skipped below its threshold: words decide nothing."""


class DocumentPatterns:
    """The patterns of a filter's conditions."""

    def __init__(self, categories: Categories, general: Transformations) -> None:
        self.categories = categories
        self.general = general
        self.patterns = Patterns()
        self.own = NONE  # of the subscriber whose condition is being compiled
        self._prices = Prices(NONE, general)
        self._own_of: dict[int, Transformations] = {}  # patterns with prices of their own

    def key(self, text: str, threshold: float) -> float:
        """The key of a condition's pattern."""
        number = self._define(text, threshold, self.own)
        if self.patterns.matches_without_values(number) and self.patterns.has_values(number):
            warnings.warn(
                f"{text!r:.200} with COST < {threshold:g} matches whatever the words are: all "
                "its values can be skipped for less",
                MatchesEverything,
                stacklevel=2,
            )
        return float(number)

    def _define(self, text: str, threshold: float, own: Transformations) -> int:
        prices = self._prices if own == NONE else Prices(own, self.general)
        number = self.patterns.define(parse_pattern(text), threshold, prices)
        if own != NONE:
            self._own_of[number] = own
        self.categories.patterns.reserve(self.patterns.capacity)
        return number

    def add(self, name: str, value: Any, given: Given) -> float:
        """The key of a message's document."""
        if is_null(value):
            return float("nan")
        try:
            if given is self.categories.nobody:  # no condition has a pattern
                parse(value)
                return float("nan")
            if given.documents is None:
                given.documents = Documents()
            return -1.0 - int(given.documents.add(value))
        except InvalidValue as error:
            raise InvalidValue(f"attribute {name!r}: {error}") from None

    def hold(self, keys: NDArray[np.float64]) -> None:
        """Conditions have these patterns from now on."""
        numbers = keys.astype(np.int64).tolist()
        if not self.patterns.defined(numbers):
            raise InvalidValue("a condition has a pattern that is not defined")
        self.patterns.hold(numbers)

    def release(self, keys: NDArray[np.float64]) -> None:
        """Conditions have these patterns no more."""
        self.patterns.release(keys.astype(np.int64).tolist())

    def sweep(self) -> None:
        """Forget patterns that no condition has, if there are many."""
        if self.patterns.crowded:
            self.patterns.sweep()
            self._own_of = {n: own for n, own in self._own_of.items() if self.patterns.is_held(n)}
            self.categories.times_kept += 1

    def resolve(self, given: Given, keys: NDArray[np.float64]) -> None:
        """Find the patterns of documents with some keys; the others match nothing for now."""
        documents: Documents = given.documents
        wanted = np.unique(-keys[keys < 0]).astype(np.int64) - 1
        found = self.patterns.match(documents.arrays(), wanted)
        at = np.zeros(len(documents) + 1, np.int64)
        at[wanted + 1] = np.diff(found.ends, prepend=0)
        given.arrays[self.categories.flat] = np.cumsum(at), found.patterns
        given.costs = found.costs

    def explain(self, number: int, document: Any) -> tuple[float | None, str]:
        """The least cost of a document under a pattern, and how each event comes by its own."""
        if is_null(document):
            return None, ""
        events = self.events(number, document)
        if not events:
            return None, "its root is nowhere, or something that cannot be skipped is missing"
        return events[0].cost, "\n".join(map(str, events[:MAX_EVENTS]))

    def events(self, number: int, document: Any) -> list[Event]:
        """The elements that can be a pattern's root, the cheapest first."""
        insertions, usual = self.patterns.insertions(number)
        return embeddings(self.patterns.vertex(number), parse(document), insertions, usual)

    def heard(
        self,
        keys: NDArray[np.float64],
        own: Transformations,
        first: Transformations,
        documents: list[Any],
        relevant: bool,
    ) -> Transformations:
        """A subscriber's tables after a remark on documents that match some patterns."""
        roots = []
        for number in keys.astype(np.int64).tolist():
            for document in documents:
                events = self.events(number, document)
                if events and events[0].cost < self.patterns.threshold(number):
                    roots.append(events[0].root)
        return adjusted(own, Prices(first, self.general), roots, relevant)

    def priced_anew(self, key: float, own: Transformations) -> float:
        """The key of the same pattern with other prices."""
        number = int(key)
        text, threshold = self.patterns.vertex(number).text, self.patterns.threshold(number)
        return float(self._define(text, threshold, own))

    def state(self) -> dict[str, Any]:
        """Plain data: the patterns by number."""
        tables = {own: i for i, own in enumerate(dict.fromkeys(self._own_of.values()))}
        return {
            "general": self.general.as_dict(),
            "tables": [own.as_dict() for own in tables],
            "patterns": [
                [
                    number,
                    self.patterns.vertex(number).text,
                    self.patterns.threshold(number),
                    tables[self._own_of[number]] if number in self._own_of else -1,
                ]
                for number in self.patterns.numbers()
            ],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """What ``state`` described; ``general`` was there before."""
        tables = [Transformations.from_dict(table) for table in state["tables"]]
        for number, text, threshold, own in state["patterns"]:
            self.patterns.skip_to(int(number))
            prices = tables[own] if own >= 0 else NONE
            if self._define(str(text), float(threshold), prices) != number:
                raise InvalidValue(f"a saved pattern is there twice: {text!r:.200}")

    def costs_of(
        self, given: Given, documents: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """What some documents cost under some patterns; 0 where they do not match."""
        at, found = given.of(self.categories.flat)
        whose = np.repeat(np.arange(len(at) - 1), np.diff(at))
        keys = (whose << 32) | found
        order = np.argsort(keys)
        wanted = (documents << 32) | numbers
        places = np.searchsorted(keys, wanted, sorter=order)
        there = np.minimum(places, max(len(keys) - 1, 0))
        if not len(keys):
            return np.zeros(len(wanted))
        same = (places < len(keys)) & (keys[order[there]] == wanted)
        return np.where(same, given.costs[order[there]], 0.0)


def delivery_costs(
    f: "Filter",
    given: Given,
    vectors: NDArray[np.float64],
    messages: NDArray[np.int64],
    profiles: NDArray[np.int64],
    raw_of: Any,
) -> NDArray[np.float64]:
    """The cost of each delivery, as (message, profile row); 0 for profiles without a pattern."""
    costs = np.zeros(len(messages))
    if given.documents is None or not len(messages):
        return costs
    deliveries, rows = _rows_of(f, profiles)
    patterns = nodes_named(f._conjunctions, f._categories.flat, rows.astype(np.int32))
    if not len(patterns.keys):
        return costs
    has = np.zeros(len(messages), np.bool_)
    has[deliveries[np.unique(patterns.which)]] = True
    several = np.bincount(deliveries, minlength=len(messages)) > 1
    passed = np.ones(len(rows), np.bool_)
    doubtful = np.flatnonzero((several & has)[deliveries])
    if len(doubtful):  # which of a profile's conjunctions are TRUE?
        pairs = np.stack([messages[deliveries[doubtful]], rows[doubtful]], axis=1).astype(np.int32)
        true = f._tables.test_pairs(pairs, vectors, raw_of)
        wanted = (pairs[:, 0].astype(np.int64) << 32) | pairs[:, 1]
        passed[doubtful] = np.isin(wanted, (true[:, 0].astype(np.int64) << 32) | true[:, 1])
    sums = np.zeros(len(rows))
    slots = f._messages.documents()
    of_row = messages[deliveries]
    for slot in slots:
        document = vectors[of_row[patterns.which], slot]
        there = document < 0
        found = f._documents.costs_of(
            given, (-document[there]).astype(np.int64) - 1, patterns.keys[there].astype(np.int64)
        )
        np.add.at(sums, patterns.which[there], found)
    sums[~passed] = np.inf
    least = np.full(len(messages), np.inf)
    np.minimum.at(least, deliveries, sums)
    return np.where(has & np.isfinite(least), least, 0.0)


def _rows_of(
    f: "Filter", profiles: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of deliveries' profiles: (which delivery, row)."""
    sibling = f._conjunctions.sibling
    deliveries, found = [], []
    which = np.arange(len(profiles))
    rows = f._profiles.head[profiles].astype(np.int64)
    while len(which):
        there = rows >= 0
        which, rows = which[there], rows[there]
        deliveries.append(which)
        found.append(rows)
        rows = sibling[rows].astype(np.int64)
    return np.concatenate(deliveries), np.concatenate(found)
