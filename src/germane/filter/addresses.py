"""Messages that are addressed to contexts: who is reached.

In: an address, a condition whose names are attributes of the recipient's context. Out: the contexts
for which it is TRUE now. It is compiled as conditions are and run by the same machine, so it means
what it would mean in a profile. An address teaches the filter nothing: it fixes no type, and makes
no attribute and no string known. The last compiled addresses are kept, with what they remember of
texts, and forgotten together.

An address is alternatives, each a conjunction: intervals of slots, tested in columns, and tests
that are programs. Cost: few contexts named by an index are looked at one by one; where the most
selective index names more than one in ``WORTH``, everybody is looked at, in columns.
"""

from collections import OrderedDict
from collections.abc import Iterable
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.context import Contexts
from germane.filter.batches import Found
from germane.filter.compile import FLIPPED, Names, compile_row
from germane.filter.texts import Texts
from germane.index.points import PointIndex
from germane.kernels import conjunctions as op
from germane.kernels import points, scans
from germane.kernels.bundle import Bundle
from germane.language import compile_condition, tree
from germane.language.like import Pattern, successor
from germane.model import InvalidValue

if TYPE_CHECKING:
    from germane.filter.filter import Filter


WORTH = 64
"""Where an index names more than one in so many contexts, everybody is looked at."""
MANY = 256
"""Where more than one in so many rows are reached, bits put them in order faster than a sort."""
FEW_CONTEXTS = 4096
"""So many are looked at without an index."""
KEPT = 256
"""Addresses that are kept."""
MAX_PATTERNS = 256
"""LIKE patterns that addresses share before others begin anew."""
MAX_ALTERNATIVES = 64
TRIED_FIRST = 1024
"""Contexts whose texts are asked for before the others are looked at."""


class Test(NamedTuple):
    """A program that must be TRUE; where it reads one slot only, verdicts are remembered."""

    code: NDArray[np.int32]
    constants: NDArray[np.float64]
    slot: int  # or -1
    keys: NDArray[np.float64]  # of remembered verdicts
    verdicts: NDArray[np.bool_]


class Alternatives(NamedTuple):
    """Conjunctions of intervals, and boxes to look them up by; arrays as ``points.ASKED``."""

    bundle: Bundle
    box_slots: list[tuple[int, ...]]
    known_by: list[Any]  # whose numbers of indexes are in the arrays, and which these are
    has_boxes: bool  # each of them has one
    is_one: bool


class Address(NamedTuple):
    """A compiled address; it holds until strings or graphs are numbered anew."""

    plain: Alternatives | None
    tested: list[tuple[Alternatives, list[Test]]]
    texts: Texts
    holds: tuple[Any, ...]


class Kept:
    """The addresses that were compiled last, by their texts."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Address] = OrderedDict()
        self._texts: Texts | None = None

    def __len__(self) -> int:
        return len(self._known)

    def address(self, f: "Filter", text: Any) -> Address:
        """An address, compiled now or before."""
        known = self._known.get(text) if isinstance(text, str) else None
        if known is not None and _holds(f, known):
            self._known.move_to_end(text)
            return known
        if self._texts is None or len(self._texts.keys) > MAX_PATTERNS:
            self._texts = Texts(f._strings)
        address = self._known[text] = compile_address(f, text, self._texts)
        self._known.move_to_end(text)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return address

    def forget(self) -> None:
        """Labels are others."""
        self._known.clear()
        self._texts = None


def _holds(f: "Filter", address: Address) -> bool:
    """Whether all that an address was compiled against is as it was."""
    strings, graphs, n_slots, schema = address.holds
    return (
        n_slots == f._contexts.n_slots
        and schema == f._schema.version
        and (strings is None or strings == f._strings.version)
        and (graphs is None or graphs == f._categories.versions)
    )


def compile_address(f: "Filter", text: Any, texts: Texts | None = None) -> Address:
    """An address, checked against the filter's schema."""
    if not isinstance(text, str):
        raise InvalidValue(f"an address is a condition on contexts, as a str, not {text!r:.200}")
    draft = f._schema.draft("this address")
    condition = compile_condition(text, draft, names="address")
    texts = texts or Texts(f._strings)
    uses: dict[str, Any] = {}

    def slots_of(name: str) -> tuple[int, ...]:
        """The slots of a context attribute; none while nobody has a value."""
        slots = f._contexts.slots.get(name, ())
        return () if draft.type_of(name) == "location" and len(slots) < 2 else slots

    def label(word: str) -> float:
        uses["strings"] = f._strings.version
        return f._strings.label(word)

    def category(type_: str, nodes: list[str]) -> float:
        found = f._categories.constant(type_, nodes)
        uses["graphs"] = f._categories.versions
        return found

    names = Names(
        message=lambda name: (),  # an address names none
        cast=lambda name, type_: (),
        context=slots_of,
        type_of=draft.type_of,
        label=label,
        category=category,
        graph=f._categories.graph_of,
        pattern=lambda text, threshold: 0.0,
        texts=texts,
    )
    found = condition.conjunctions
    plain: list[list[Said]] = []
    tested: list[tuple[Alternatives, list[Test]]] = []
    for literals in [(condition.nnf,)] if found is None else found:
        tests, alternatives = _alternatives(literals, names, MAX_ALTERNATIVES - len(plain))
        if tests:
            tested += [(_in_arrays([said]), tests) for said in alternatives]
        else:
            plain += alternatives
    holds = (uses.get("strings"), uses.get("graphs"), f._contexts.n_slots, f._schema.version)
    return Address(_in_arrays(plain) if plain else None, tested, texts, holds)


Said = tuple[tuple[int, ...], tuple[float, ...], tuple[float, ...], bool]
"""Slots (two for a location), lows, highs, whether outside is meant."""


def _alternatives(
    literals: Iterable[tree.Node], names: Names, room: int
) -> tuple[list[Test], list[list[Said]]]:
    """A conjunction in columns; several, where one of its literals is several intervals."""
    choices: list[list[list[Said]]] = []
    tests: list[Test] = []
    n = 1
    for literal in literals:
        said, rest = _said(literal, names)
        if said is not None and n * len(said) <= max(room, 1):
            choices.append(said)
            n *= len(said)
        else:
            rest = True
        if rest:
            tests.append(_test(literal, names))
    return tests, [[part for parts in chosen for part in parts] for chosen in product(*choices)]


def _in_arrays(alternatives: list[list[Said]]) -> Alternatives:
    rows: list[Said] = []
    boxes: list[tuple[float, float, float, float]] = []
    box_slots: list[tuple[int, ...]] = []
    starts, box_starts = [0], [0]
    for said in alternatives:
        within: dict[tuple[int, ...], list[Said]] = {}
        for slots, *bounds, outside in said:
            if not outside:
                within.setdefault(slots, []).append((slots, *bounds, outside))  # type: ignore[arg-type]
        for slots, parts in within.items():
            lows = np.max([part[1] for part in parts], axis=0)
            highs = np.min([part[2] for part in parts], axis=0)
            rows += [
                ((slot,), (low,), (high,), False)
                for slot, low, high in zip(slots, lows, highs, strict=True)
            ]
            boxes.append((lows[0], highs[0], lows[-1], highs[-1]))
            box_slots.append(slots)
        rows += [part for part in said if part[3]]
        starts.append(len(rows))
        box_starts.append(len(boxes))
    arrays = (
        np.array(starts, np.int32),
        np.array([row[0][0] for row in rows], np.int32),
        np.array([row[1][0] for row in rows], np.float64),
        np.array([row[2][0] for row in rows], np.float64),
        np.array([row[3] for row in rows], np.bool_),
        np.array(box_starts, np.int32),
        np.zeros(len(boxes), np.int32),
        np.array(boxes, np.float64).reshape(-1, 4),
    )
    has_boxes = all(b > a for a, b in pairwise(box_starts))
    bundle = Bundle(points.ASKED, arrays)
    return Alternatives(bundle, box_slots, [None, []], has_boxes, len(alternatives) == 1)


def _said(literal: tree.Node, names: Names) -> tuple[list[list[Said]] | None, bool]:
    """What a literal says of slots, as alternatives; whether it says more than that."""
    if isinstance(literal, tree.Compare):
        operation, left, right = literal.op, literal.left, literal.right
        if isinstance(left, tree.Const):
            left, right = right, left
            operation = FLIPPED.get(operation, operation)
        if isinstance(left, tree.Context) and isinstance(right, tree.Const):
            slots = names.context(left.name)
            return ([[_compared(slots[0], operation, _key(right, names))]], False) if slots else _NO
    elif isinstance(literal, tree.In) and isinstance(literal.operand, tree.Context):
        slots = names.context(literal.operand.name)
        if slots and all(isinstance(item, tree.Const) for item in literal.items):
            keys = [_key(item, names) for item in literal.items]
            if literal.negated:
                return [[_compared(slots[0], "<>", key) for key in keys]], False
            return [[_compared(slots[0], "=", key)] for key in dict.fromkeys(keys)], False
    elif isinstance(literal, tree.IsNull) and isinstance(literal.operand, tree.Context):
        slots = names.context(literal.operand.name)
        if slots and literal.negated:
            return [[((slots[0],), (-np.inf,), (np.inf,), False)]], False
    elif isinstance(literal, tree.Like) and isinstance(literal.operand, tree.Context):
        slots = names.context(literal.operand.name)
        if slots and not literal.negated:
            return _liked(slots[0], Pattern.parse(literal.pattern, literal.escape), names)
    elif isinstance(literal, tree.InBox) and isinstance(literal.operand, tree.Context):
        slots = names.context(literal.operand.name)
        if len(slots) == 2 and not literal.negated:
            south, west, north, east = literal[1:5]
            sides = [(west, east)] if west <= east else [(west, np.inf), (-np.inf, east)]
            return [[(slots, (south, w), (north, e), False)] for w, e in sides], False
    return _NO


_NO: tuple[None, bool] = (None, True)


def _key(node: Any, names: Names) -> float:
    return names.label(str(node.value)) if node.type == "string" else float(node.value)


def _compared(slot: int, operation: str, key: float) -> Said:
    low, high = -np.inf, np.inf
    if operation in ("=", "<>", ">", ">="):
        low = float(np.nextafter(key, np.inf)) if operation == ">" else key
    if operation in ("=", "<>", "<", "<="):
        high = float(np.nextafter(key, -np.inf)) if operation == "<" else key
    return (slot,), (low,), (high,), operation == "<>"


def _liked(slot: int, pattern: Pattern, names: Names) -> tuple[list[list[Said]] | None, bool]:
    prefix = pattern.prefix
    if pattern.is_literal:
        return [[_compared(slot, "=", names.label(prefix))]], False
    if not prefix:
        return _NO
    above = successor(prefix)
    high = np.inf if above is None else float(np.nextafter(names.label(above), -np.inf))
    return [[((slot,), (names.label(prefix),), (high,), False)]], not pattern.is_prefix


def _test(literal: tree.Node, names: Names) -> Test:
    shape, constants, _ = compile_row((literal,), names)
    code = np.array(shape.wakes or shape.program, np.int32).reshape(-1, 3)
    read = {int(slot) for what, slot, _ in code.tolist() if what == op.CONTEXT}
    read |= {int(slot) for what, _, slot in code.tolist() if what == op.CONTEXT_TEXT}
    slot = read.pop() if len(read) == 1 else -1
    n = 1 << points.MEMORY_BITS if slot >= 0 else 1
    keys, verdicts = np.full(n, np.nan), np.zeros(n, np.bool_)
    return Test(code, np.array([*constants, 0.0]), slot, keys, verdicts)


class Points:
    """Indexes of contexts, by the slots that addresses ask for."""

    def __init__(self, contexts: Contexts) -> None:
        self.contexts = contexts
        self.indexes: dict[tuple[int, ...], PointIndex] = {}
        self.by_slot: dict[int, PointIndex] = {}  # by the last slot
        self.places: NDArray[np.int64] = np.zeros((0, 3), np.int64)  # of all indexes' arrays
        self.words: NDArray[np.uint64] = np.zeros(0, np.uint64)  # a bit a row, clear at rest
        self.out: NDArray[np.int32] = np.zeros(0, np.int32)
        self.looked_up = self.looked_at = 0  # addresses, by an index and at everybody

    def follow(self, rows: NDArray[np.int32], slot: int) -> None:
        """Contexts have other values in a slot (and in the one before, of a location)."""
        index = self.by_slot.get(slot)
        if index is not None:
            index.note(rows)

    def _point(self) -> None:
        """Tell kernels where arrays are now."""
        places = [index.bundle.places for index in self.indexes.values()]
        self.places = np.concatenate(places) if places else np.zeros((0, 3), np.int64)

    def within(self, said: Alternatives) -> NDArray[np.int32]:
        """The contexts within the intervals of one of some alternatives, each once; until the next.

        The answer is in ``out``.
        """
        n = self.contexts.ids.n_rows
        limit = int(n // WORTH)
        if len(self.words) * 64 < n:
            self.words = np.zeros(2 * n // 64 + 1, np.uint64)
            self.out = np.empty(64 * len(self.words) + scans.ROOM, np.int32)  # for as many rows
        asked, values, out = said.bundle.places, self.contexts.values, self.out
        if n >= FEW_CONTEXTS and said.has_boxes:
            indexes = self._indexes(said)
            is_behind = False
            for index in indexes:
                is_behind |= index.n_behind > 0
            found = points.look_up(limit, asked, self.places, values, out, not is_behind)
            if found >= 0 and is_behind:  # it is worth it, as far as one could see
                built = [index.catch_up(values) for index in indexes]  # all of them
                if any(built):
                    self._point()
                found = points.look_up(limit, asked, self.places, values, out, True)
            if found >= 0:
                self.looked_up += 1
                if found * MANY >= n:
                    return out[: scans.order(out[:found], n, self.words, out)]
                return out[:found] if said.is_one else self.distinct([out[:found]])
        self.looked_at += 1
        return out[: scans.scan(n, asked, values, out)]

    def distinct(self, found: list[NDArray[np.int32]]) -> NDArray[np.int32]:
        """Rows that are in some lists, each once."""
        rows = found[0] if len(found) == 1 else np.concatenate(found)
        n = self.contexts.ids.n_rows
        if len(rows) * MANY >= n:
            return self.out[: scans.order(rows, n, self.words, self.out)]
        return rows[: points.first_ones(rows, self.words)]

    def _indexes(self, said: Alternatives) -> list[PointIndex]:
        """The indexes that boxes are looked up in, made when first asked for."""
        if said.known_by[0] is not self.indexes:
            for slots in said.box_slots:
                if slots not in self.indexes:
                    index = PointIndex(slots, self.contexts.values)
                    self.indexes[slots] = self.by_slot[slots[-1]] = index
            self._point()
            numbers = {slots: i for i, slots in enumerate(self.indexes)}
            said.bundle.arrays[points.BOX_INDEXES][:] = [numbers[s] for s in said.box_slots]
            said.known_by[:] = self.indexes, [self.indexes[s] for s in set(said.box_slots)]
        found: list[PointIndex] = said.known_by[1]
        return found

    def clear(self) -> None:
        """Values were numbered anew."""
        self.indexes, self.by_slot = {}, {}
        self._point()

    def describe(self) -> dict[str, int]:
        """How addresses were answered, for a person."""
        return {"looked_up": self.looked_up, "looked_at_everybody": self.looked_at}

    @property
    def nbytes(self) -> int:
        """Bytes of arrays."""
        return sum(index.nbytes for index in self.indexes.values())

    def _check(self) -> None:
        for index in self.indexes.values():
            index._check(self.contexts.values)


def reached(f: "Filter", address: Address) -> NDArray[np.int32]:
    """The rows of the contexts that an address reaches now."""
    if not f._contexts.ids.n_rows:
        return np.empty(0, np.int32)
    if not address.tested:  # intervals ask no graph
        return np.empty(0, np.int32) if address.plain is None else f._points.within(address.plain)
    if f._categories:
        f._tables.follow_graphs()
        f._categories.refresh()
    found = [] if address.plain is None else [f._points.within(address.plain).copy()]
    for said, tests in address.tested:
        rows = f._points.within(said)
        for test in tests:
            rows = _sifted(f, address, test, rows)
        found.append(rows)
    return found[0] if len(found) == 1 else f._points.distinct(found)


_ONE = np.zeros(1, op.ROW)
_ONE["step"] = 2  # constants lie one after the other


def _sifted(
    f: "Filter", address: Address, test: Test, rows: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Those of some contexts for which a test is TRUE."""
    owner = np.zeros(1, np.int32)
    out, waiting = np.empty(len(rows) + 1, np.int32), np.empty(len(rows), np.int32)
    n = 0
    for wanted in (rows[:TRIED_FIRST], rows[TRIED_FIRST:]):
        while len(wanted):
            n, n_waiting = points.sift(
                wanted, test.slot, test.keys, test.verdicts, len(test.code), _ONE, owner,
                test.code, test.constants, f._contexts.values, *address.texts.view,
                f._tables.graphs, out, n, waiting,
            )  # fmt: skip
            wanted = waiting[:n_waiting].copy()
            if n_waiting:
                address.texts.answer({})
    return out[:n]


class Addressed:
    """Addresses of the messages of a run: compiled before, applied after they are matched."""

    def __init__(self, f: "Filter") -> None:
        self.f = f
        self._reached: dict[str, NDArray[np.bool_]] = {}

    def check(self, text: Any) -> None:
        """Raise what is wrong with an address."""
        self.f._addresses.address(self.f, text)

    def keep(self, text: str, profiles: NDArray[np.int32]) -> NDArray[np.int32]:
        """The profiles, by row, whose contexts an address reaches; never those without one."""
        if text not in self._reached:
            there = np.zeros(self.f._contexts.ids.n_rows, np.bool_)
            there[reached(self.f, self.f._addresses.address(self.f, text))] = True
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
