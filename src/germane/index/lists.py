"""The paper's own arrangement: one index per attribute, on the most selective, and a merge.

In: boxes of keys per row. Out: candidates, the intersection of what the attribute indexes
return. Each of the (at most two) indexed attributes has an interval skip list, or a hash table
where nearly all its predicates are equalities. Nothing is certain: every candidate is tested.

The merge stamps rows: each index's answer is passed over once, and a row that every index
returned is a candidate. O(answers); measured faster than intersecting compressed bitmaps at
the answer sizes of selective attributes.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.index.contract import AttributeIndex
from germane.index.hashed import HashIndex
from germane.index.rowindex import EAGER, ESCALATE, Flags, Keys, Rest, RowIndex, Rows
from germane.index.skiplist import IntervalSkipList
from germane.kernels.conjunctions import postfilter
from germane.kernels.layout import require_alike
from germane.kernels.merge import merge_stamps
from germane.kernels.rowsets import mark

MAX_INDEXED = 2
MOSTLY_EQUAL = 0.9


class ListIndex(RowIndex):
    """Attribute indexes and their merge."""

    def __init__(self, attributes: NDArray[np.int32], n_rows: int = 0) -> None:
        self.attributes = attributes
        self._lists: dict[int, AttributeIndex] = {}  # by slot
        self._free: dict[int, Rows] = {}  # rows whose predicate on a slot is IS NULL
        self._stamps: NDArray[np.uint8] = np.zeros(max(n_rows, 1), np.uint8)
        self._awake: Flags = np.zeros(max(n_rows, 1), np.bool_)
        self._answer: Rows = np.empty(max(n_rows, 1), np.int32)
        self._mode = ESCALATE
        self._recent: Keys | None = None
        self._counts = {"escalations": 0, "index_updates": 0}

    def observe(self, points: Keys) -> None:
        """Estimate selectivities on recent messages at the next ``build``."""
        self._recent = points

    def build(self, rows: Rows, lows: Keys, highs: Keys, whole: Flags, awake: Flags) -> None:
        self._lists, self._free = {}, {}
        for slot in self._most_selective(lows, highs):
            low, high = lows[:, slot], highs[:, slot]
            equal = np.mean(low == high) if len(low) else 0.0
            self._lists[slot] = HashIndex() if equal >= MOSTLY_EQUAL else IntervalSkipList()
            self._free[slot] = np.empty(0, np.int32)
        self.insert(rows, lows, highs, whole, awake)

    def _most_selective(self, lows: Keys, highs: Keys) -> list[int]:
        shares = []
        for slot in range(len(self.attributes)):
            low, high = lows[::97, slot], highs[::97, slot]
            if self._recent is not None and len(self._recent):
                values = self._recent[:, slot]
            else:
                ends = np.concatenate((low, high))
                ends = ends[np.isfinite(ends)]
                values = np.quantile(ends, np.linspace(0, 1, 65)) if len(ends) else np.zeros(1)
            shares.append(((low[:, None] <= values) & (values <= high[:, None])).mean())
        chosen: list[int] = np.argsort(shares, kind="stable")[:MAX_INDEXED].tolist()
        return chosen

    def insert(self, rows: Rows, lows: Keys, highs: Keys, whole: Flags, awake: Flags) -> None:
        self._reserve(int(rows.max(initial=0)) + 1)
        self._awake[rows] = awake
        for slot, index in self._lists.items():
            null = np.isnan(lows[:, slot])
            self._free[slot] = np.concatenate((self._free[slot], rows[null]))
            index.insert(rows[~null], lows[~null, slot], highs[~null, slot])

    def remove(self, rows: Rows) -> None:
        for slot, index in self._lists.items():
            free = np.isin(rows, self._free[slot])
            self._free[slot] = np.setdiff1d(self._free[slot], rows[free])
            index.remove(rows[~free])

    def expect(self, rates: Keys) -> None:
        """The levels of a skip list are its own measure of how far to escalate."""

    def revise(self, rows: Rows, slots: Rows, lows: Keys, highs: Keys, mode: int) -> Rows:
        self._mode = mode
        for slot, index in self._lists.items():
            mine = slots == slot
            entries = (rows[mine], lows[mine], highs[mine])
            if mode == ESCALATE:
                moved = index.escalate(*entries)
                self._counts["escalations"] += moved
            else:
                moved = index.update(*entries) if mode == EAGER else index.update_local(*entries)
            self._counts["index_updates"] += moved
        self._leave_room(rows, slots, lows, highs)
        return np.empty(0, np.int32)

    def deescalate(self, rows: Rows, lows: Keys, highs: Keys, whole: Flags) -> None:
        for slot, index in self._lists.items():
            bound = ~np.isin(rows, self._free[slot])
            index.deescalate(rows[bound], lows[bound, slot], highs[bound, slot])

    def set_awake(self, rows: Rows, awake: Flags) -> None:
        self._awake[rows] = awake

    def match(
        self, message: Keys, rest: Rest, out: Rows, failed: Rows
    ) -> tuple[int, int, int, int, int]:
        begin = self._probe(message, out)
        n_open = len(out) - begin
        n_found, n_failed, n_waiting = postfilter(out[begin:], 0, message, *rest, out, failed)
        return n_found, n_failed, n_waiting, begin, n_open

    def _probe(self, message: Keys, out: Rows) -> int:
        """Put the candidates at the end of ``out``; where they begin."""
        needed = len(self._lists)
        stamped: Rows = np.empty(0, np.int32)
        n = 0
        for turn, (slot, index) in enumerate(self._lists.items(), 1):
            n = index.probe_into(float(message[self.attributes[slot]]), self._answer)
            free = self._free[slot]
            self._answer[n : n + len(free)] = free
            n += len(free)
            if turn == needed:
                break
            stamped = self._answer[:n].copy()
            self._stamps[stamped] += 1
        found = merge_stamps(self._answer[:n], self._stamps, needed - 1, self._awake, out)
        if needed > 1:
            self._stamps[stamped] = 0
        return len(out) - int(found)

    @property
    def indexed(self) -> NDArray[np.int32]:
        """The message slots that have an index, most selective first."""
        slots: NDArray[np.int32] = self.attributes[list(self._lists)]
        return slots

    def union(self, messages: Keys, n_words: int) -> NDArray[np.uint64]:
        """Bits of the rows that may match one of several messages [n, message slot]."""
        union = np.zeros(n_words, np.uint64)
        if not self._lists:
            return union
        mark(np.flatnonzero(self._awake).astype(np.int32), union)
        for slot, index in self._lists.items():
            values = np.unique(messages[:, self.attributes[slot]])
            bits = np.zeros(n_words, np.uint64)
            index.probe_union(values[~np.isnan(values)], bits)
            mark(self._free[slot], bits)
            union &= bits
        return union

    def _leave_room(self, rows: Rows, slots: Rows, lows: Keys, highs: Keys) -> None:
        """K under AGILE; for the other strategies every change must be carried in."""
        lows[:], highs[:] = -np.inf, np.inf
        for slot, index in self._lists.items():
            mine = slots == slot
            if self._mode == ESCALATE:
                lows[mine], highs[mine] = index.extent(rows[mine])
            else:
                lows[mine], highs[mine] = np.inf, -np.inf

    def counters(self) -> Mapping[str, int]:
        return dict(self._counts)

    @property
    def nbytes(self) -> int:
        own = self._stamps.nbytes + self._awake.nbytes + self._answer.nbytes
        return own + sum(index.nbytes for index in self._lists.values())

    def describe(self, names: list[str]) -> dict[str, Any]:
        return {
            "structure": "skiplist",
            "indexed": {
                names[self.attributes[slot]]: type(index).__name__
                for slot, index in self._lists.items()
            },
        }

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = {"attributes": self.attributes, "awake": self._awake}
        for slot, index in self._lists.items():
            kind = "hash" if isinstance(index, HashIndex) else "skiplist"
            state |= {f"{kind}_{slot}_{name}": a for name, a in index.state().items()}
            state[f"free_{slot}_"] = self._free[slot]
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "ListIndex":
        self = cls(state["attributes"])
        require_alike(state, self.state())
        self._reserve(len(state["awake"]))
        self._awake[: len(state["awake"])] = state["awake"]
        parts: dict[tuple[str, int], dict[str, Any]] = {}
        for name, array in state.items():
            if name.count("_") >= 2:
                kind, number, rest = name.split("_", 2)
                parts.setdefault((kind, int(number)), {})[rest] = array
        for (kind, slot), arrays in parts.items():
            if kind == "free":
                require_alike(arrays, {"": self._answer})
                self._free[slot] = arrays[""]
            else:
                index: type[AttributeIndex] = HashIndex if kind == "hash" else IntervalSkipList
                self._lists[slot] = index.from_state(arrays)
        return self

    def _reserve(self, n: int) -> None:
        if n > len(self._awake):
            n += n // 4
            self._stamps = np.zeros(n, np.uint8)
            awake = np.zeros(n, np.bool_)
            awake[: len(self._awake)] = self._awake
            self._awake = awake
            self._answer = np.empty(n, np.int32)

    def _check(self, rows: Rows, lows: Keys, highs: Keys) -> None:
        assert not self._stamps.any()
        for slot, index in self._lists.items():
            index._check()
            bound = ~np.isin(rows, self._free[slot])
            assert len(index) == int(bound.sum())
            covered = index.covers(rows[bound], lows[bound, slot], highs[bound, slot])
            assert covered.all(), "k is not within K"
