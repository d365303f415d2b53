"""Messages that are addressed to contexts: who is reached.

In: an address, a condition whose names are attributes of the recipient's context. Out: the contexts
for which it is TRUE now. It is compiled as conditions are and run by the same machine, so it means
what it would mean in a profile. An address teaches the filter nothing: it fixes no type, and makes
no attribute and no string known.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.context import Contexts
from germane.filter.batches import Found
from germane.filter.compile import FLIPPED, Names, compile_row
from germane.index.points import PointIndex
from germane.kernels import addresses as kernels
from germane.kernels.conjunctions import ROW
from germane.language import compile_condition, tree
from germane.model import InvalidValue

if TYPE_CHECKING:
    from germane.filter.filter import Filter


WORTH = 4
"""Where an index names more than one in so many contexts, they are tested one by one."""
FEW_CONTEXTS = 4096
"""So many are tested one by one."""
Interval = tuple[float, float]


class Address(NamedTuple):
    """A compiled address; it holds until strings or graphs are numbered anew."""

    code: NDArray[np.int32]
    constants: NDArray[np.float64]
    intervals: list[dict[int, Interval]] | None
    """What each of its alternatives says of slots, as far as it can be looked up; None: nothing."""


def compile_address(f: "Filter", text: Any) -> Address:
    """An address, checked against the filter's schema."""
    if not isinstance(text, str):
        raise InvalidValue(f"an address is a condition on contexts, as a str, not {text!r:.200}")
    draft = f._schema.draft("this address")
    condition = compile_condition(text, draft, names="address")

    def slots_of(name: str) -> tuple[int, ...]:
        """The slots of a context attribute; none while nobody has a value."""
        slots = f._contexts.slots.get(name, ())
        return () if draft.type_of(name) == "location" and len(slots) < 2 else slots

    names = Names(
        message=lambda name: (),  # an address names none
        context=slots_of,
        type_of=draft.type_of,
        label=f._strings.label,
        category=f._categories.constant,
        graph=f._categories.graph_of,
        pattern=lambda text, threshold: 0.0,
        texts=f._texts,
    )
    shape, constants, _ = compile_row((condition.nnf,), names)
    code = np.array(shape.wakes or shape.program, np.int32).reshape(-1, 3)
    intervals: list[dict[int, Interval]] | None = None
    if condition.conjunctions is not None:
        intervals = []
    for literals in condition.conjunctions or ():
        said = _intervals(literals, names)
        if said is None or intervals is None:
            intervals = None
            break
        intervals.append(said)
    return Address(code, np.array([*constants, 0.0]), intervals)


def _intervals(literals: Iterable[tree.Node], names: Names) -> dict[int, Interval] | None:
    """Closed intervals of slots that a conjunction implies; None if it implies none."""
    found: dict[int, Interval] = {}

    def within(slot: int, low: float, high: float) -> None:
        known = found.get(slot, (-np.inf, np.inf))
        found[slot] = max(low, known[0]), min(high, known[1])

    for literal in literals:
        if isinstance(literal, tree.Compare):
            operation, left, right = literal.op, literal.left, literal.right
            if isinstance(left, tree.Const):
                left, right = right, left
                operation = FLIPPED.get(operation, operation)
            if not isinstance(left, tree.Context) or not isinstance(right, tree.Const):
                continue
            slots = names.context(left.name)
            if operation == "<>" or not slots:
                continue
            text = right.type == "string"
            key = names.label(str(right.value)) if text else float(right.value)
            low = key if operation in ("=", ">", ">=") else -np.inf
            within(slots[0], low, key if operation in ("=", "<", "<=") else np.inf)
        elif isinstance(literal, tree.InBox) and isinstance(literal.operand, tree.Context):
            slots = names.context(literal.operand.name)
            if len(slots) == 2 and not literal.negated:
                within(slots[0], literal.south, literal.north)
                if literal.west <= literal.east:
                    within(slots[1], literal.west, literal.east)
    return found or None


class Points:
    """Indexes of contexts, by the slots that addresses ask for."""

    def __init__(self, contexts: Contexts) -> None:
        self.contexts = contexts
        self.indexes: dict[int, PointIndex] = {}

    def follow(self, rows: NDArray[np.int32], slot: int) -> None:
        """Contexts have other values in a slot."""
        index = self.indexes.get(slot)
        if index is not None:
            index.update(rows, self.contexts.values[slot])

    def candidates(self, address: Address) -> NDArray[np.int32] | None:
        """The contexts that an address may reach; None: look at all of them."""
        n = self.contexts.ids.n_rows
        if address.intervals is None or n < FEW_CONTEXTS:
            return None
        chosen = []
        total = 0
        for said in address.intervals:
            costs = {slot: self._index(slot).named(*said[slot]) for slot in said}
            slot = min(costs, key=lambda slot: costs[slot])
            total += costs[slot]
            chosen.append((slot, said[slot]))
        if total > n // WORTH:
            return None
        out: NDArray[np.int32] = np.empty(total, np.int32)
        seen = np.zeros(n, np.bool_)
        n_found = 0
        for slot, (low, high) in chosen:
            values = self.contexts.values[slot]
            n_found = self._index(slot).collect(low, high, values, seen, out, n_found)
        return out[:n_found]

    def _index(self, slot: int) -> PointIndex:
        """The index of a slot, made when it is first asked for."""
        index = self.indexes.get(slot)
        if index is None:
            index = self.indexes[slot] = PointIndex(self.contexts.values[slot])
        return index

    def clear(self) -> None:
        """Values were numbered anew."""
        self.indexes.clear()

    @property
    def nbytes(self) -> int:
        """Bytes of arrays."""
        return sum(index.nbytes for index in self.indexes.values())

    def _check(self) -> None:
        for slot, index in self.indexes.items():
            index._check(self.contexts.values[slot])


def reached(f: "Filter", address: Address) -> NDArray[np.bool_]:
    """Of each context's row, whether an address reaches it now."""
    f._tables.follow_graphs()
    f._categories.refresh()
    n = f._contexts.ids.n_rows
    found = np.zeros(n, np.bool_)
    row = np.zeros(1, ROW)
    row["step"] = 2  # constants lie one after the other
    owner = np.zeros(1, np.int32)
    wanted = f._points.candidates(address)
    if wanted is None:
        wanted = np.arange(n, dtype=np.int32)
    waiting = np.empty(len(wanted), np.int32)
    while len(wanted):
        n_waiting = kernels.test_contexts(
            wanted, len(address.code), row, owner, address.code, address.constants,
            f._contexts.values, *f._texts.view, f._tables.graphs, found, waiting,
        )  # fmt: skip
        wanted = waiting[:n_waiting].copy()
        if n_waiting:
            f._texts.answer({})
    return found


class Addressed:
    """Addresses of the messages of a run: compiled before, applied after they are matched."""

    def __init__(self, f: "Filter") -> None:
        self.f = f
        self._known: dict[str, Address] = {}
        self._reached: dict[str, NDArray[np.bool_]] = {}

    def check(self, text: Any) -> None:
        """Raise what is wrong with an address."""
        if not isinstance(text, str) or text not in self._known:
            address = compile_address(self.f, text)
            self._known[text] = address

    def keep(self, text: str, profiles: NDArray[np.int32]) -> NDArray[np.int32]:
        """The profiles, by row, whose contexts an address reaches; never those without one."""
        if text not in self._reached:
            self.check(text)
            self._reached[text] = reached(self.f, self._known[text])
        owners = self.f._profiles.ids._owners_of(profiles)
        there = self._reached[text]
        if not len(there):
            return profiles[:0]
        return profiles[(owners >= 0) & there[np.maximum(owners, 0)]]

    def filter(self, found: Found, texts: list[Any]) -> Found:
        """What was found for messages, less those whom their addresses do not reach."""
        for i, text in enumerate(texts):
            if text is not None and found.counts[i]:
                part, start = found.parts[found.part[i]], int(found.starts[i])
                kept = self.keep(text, part[start : start + int(found.counts[i])])
                part[start : start + len(kept)] = kept
                found.counts[i] = len(kept)
        return found._replace(total=int(found.counts.sum()))
