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
from germane.kernels import points
from germane.kernels.conjunctions import ROW
from germane.language import compile_condition, tree
from germane.model import InvalidValue

if TYPE_CHECKING:
    from germane.filter.filter import Filter


WORTH = 4
"""Where an index names more than one in so many contexts, everybody is looked at."""
FEW_CONTEXTS = 4096
"""So many are looked at without an index."""


class Alternative(NamedTuple):
    """Closed intervals that a conjunction implies, by slot; ``whole`` if it says nothing else."""

    slots: NDArray[np.int32]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    whole: bool


class Address(NamedTuple):
    """A compiled address; it holds until strings or graphs are numbered anew."""

    code: NDArray[np.int32]
    constants: NDArray[np.float64]
    alternatives: list[Alternative]
    """One of them is TRUE where the address is."""


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
    nothing = [Alternative(_NO_SLOTS, _NO_BOUNDS, _NO_BOUNDS, False)]
    found = condition.conjunctions
    said = nothing if found is None else [_intervals(literals, names) for literals in found]
    return Address(code, np.array([*constants, 0.0]), said)


_NO_SLOTS: NDArray[np.int32] = np.empty(0, np.int32)
_NO_BOUNDS: NDArray[np.float64] = np.empty(0)


def _intervals(literals: Iterable[tree.Node], names: Names) -> Alternative:
    """What a conjunction says of slots."""
    found: dict[int, tuple[float, float]] = {}
    whole = True

    def within(slot: int, low: float, high: float) -> None:
        known = found.get(slot, (-np.inf, np.inf))
        found[slot] = max(low, known[0]), min(high, known[1])

    for literal in literals:
        if isinstance(literal, tree.Compare):
            operation, left, right = literal.op, literal.left, literal.right
            if isinstance(left, tree.Const):
                left, right = right, left
                operation = FLIPPED.get(operation, operation)
            if isinstance(left, tree.Context) and isinstance(right, tree.Const):
                slots = names.context(left.name)
                if slots and operation != "<>":
                    text = right.type == "string"
                    key = names.label(str(right.value)) if text else float(right.value)
                    low, high = -np.inf, np.inf
                    if operation in ("=", ">", ">="):
                        low = np.nextafter(key, np.inf) if operation == ">" else key
                    if operation in ("=", "<", "<="):
                        high = np.nextafter(key, -np.inf) if operation == "<" else key
                    within(slots[0], low, high)
                    continue
        elif isinstance(literal, tree.InBox) and isinstance(literal.operand, tree.Context):
            slots = names.context(literal.operand.name)
            if len(slots) == 2 and not literal.negated:
                within(slots[0], literal.south, literal.north)
                if literal.west <= literal.east:
                    within(slots[1], literal.west, literal.east)
                    continue
        whole = False
    slots_said = np.array(list(found), np.int32)
    bounds = np.array(list(found.values()), np.float64).reshape(-1, 2)
    lows, highs = np.ascontiguousarray(bounds[:, 0]), np.ascontiguousarray(bounds[:, 1])
    return Alternative(slots_said, lows, highs, whole)


class Points:
    """Indexes of contexts, by the slots that addresses ask for."""

    def __init__(self, contexts: Contexts) -> None:
        self.contexts = contexts
        self.indexes: dict[int, PointIndex] = {}
        self.seen: NDArray[np.bool_] = np.zeros(0, np.bool_)  # clear at rest
        self.out: NDArray[np.int32] = np.zeros(0, np.int32)

    def follow(self, rows: NDArray[np.int32], slot: int) -> None:
        """Contexts have other values in a slot."""
        index = self.indexes.get(slot)
        if index is not None:
            index.update(rows, self.contexts.values[slot])

    def collect(self, said: Alternative, seen: NDArray[np.bool_], out: NDArray[np.int32]) -> int:
        """Write the contexts within an alternative's intervals that were not seen; how many."""
        n = self.contexts.ids.n_rows
        values = self.contexts.values
        intervals = list(
            zip(said.slots.tolist(), said.lows.tolist(), said.highs.tolist(), strict=True)
        )
        if n >= FEW_CONTEXTS and intervals:
            costs = [self._index(slot).named(low, high) for slot, low, high in intervals]
            best = int(np.argmin(costs))
            if costs[best] <= n // WORTH:
                slot, low, high = intervals[best]
                return self._index(slot).collect(
                    low, high, said.slots, said.lows, said.highs, values, seen, out, 0
                )
        found: int = points.scan(n, said.slots, said.lows, said.highs, values, seen, out, 0)
        return found

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


def reached(f: "Filter", address: Address) -> NDArray[np.int32]:
    """The rows of the contexts that an address reaches now."""
    f._tables.follow_graphs()
    f._categories.refresh()
    index = f._points
    n = f._contexts.ids.n_rows
    if len(index.seen) < n:
        index.seen, index.out = np.zeros(2 * n, np.bool_), np.empty(2 * n, np.int32)
    found = [np.empty(0, np.int32)]
    for said in address.alternatives:
        rows = index.out[: index.collect(said, index.seen, index.out)].copy()
        if not said.whole:
            passed = _tested(f, address, rows)
            index.seen[rows] = False  # another alternative may be TRUE
            rows = passed
            index.seen[rows] = True
        found.append(rows)
    everybody = np.concatenate(found)
    index.seen[everybody] = False
    return everybody


def _tested(f: "Filter", address: Address, rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Those of some contexts for which an address is TRUE."""
    there = np.zeros(f._contexts.ids.n_rows, np.bool_)
    row = np.zeros(1, ROW)
    row["step"] = 2  # constants lie one after the other
    owner = np.zeros(1, np.int32)
    wanted, waiting = rows, np.empty(len(rows), np.int32)
    while len(wanted):
        n_waiting = kernels.test_contexts(
            wanted, len(address.code), row, owner, address.code, address.constants,
            f._contexts.values, *f._texts.view, f._tables.graphs, there, waiting,
        )  # fmt: skip
        wanted = waiting[:n_waiting].copy()
        if n_waiting:
            f._texts.answer({})
    return rows[there[rows]]


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
            there = np.zeros(self.f._contexts.ids.n_rows, np.bool_)
            there[reached(self.f, self._known[text])] = True
            self._reached[text] = there
        owners = self.f._profiles.ids.owners_of(profiles)
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
