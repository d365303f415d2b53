"""The block index: rows in blocks of 64, a zone per block, compared 64 lanes at a time.

Rows are packed so that rows of one block are alike in the few slots that exclude most: a probe
looks at zones first, 64 blocks a comparison, and opens only blocks that can hold a match. Bounds
are 16-bit codes (``kernels.codes``), 4 bytes an interval, so half a million rows of eight
intervals are 16 MB: what a probe touches stays in the cache.

Slots are ordered by selectivity; the first ``n_zoned`` of them have zones. How many pay: with
selectivities s and n_i cuts along slot i, a probe opens about prod(s_i + 1 / n_i) of the blocks,
least when s_i * n_i is the same for all i. How rows are packed: ``kernels.packing``.

Cost: a probe is O(zones + opened blocks * slots); an insertion descends to the block that grows
least; a full block splits. ``build`` is O(n log n).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.index.rowindex import Flags, Keys, Rest, RowIndex, Rows
from germane.kernels import blocks as kernels
from germane.kernels import codes as coding
from germane.kernels.briefs import BRIEF
from germane.kernels.bundle import Bundle
from germane.kernels.grouping import encode_batch
from germane.kernels.lanes import LANES
from germane.kernels.layout import require_alike
from germane.kernels.match import bundle_of, match_message
from germane.kernels.packing import pack

MAX_ZONED = 4
REVISION_NS, CANDIDATE_NS = 1500.0, 150.0
"""What carrying one interval into the index, and testing one candidate, cost: only their ratio
matters, and not much (the margin goes with its cube root)."""
LEAST_STEPS = 3.0
HOT = 16
"""Disturbances of a row, of late, from which on it is given slack."""
COOL_EVERY = 16
"""A row's heat is halved after so many tellings of rates, about a thousand messages."""
LEAST_RATE = 1e-3
"""Updates of an entry per message that a hot row is taken to have at least."""
OUTSIDE_SHARE = 0.04
"""A row whose K admits more than this share of messages is cheaper swept than indexed: testing a
candidate out of order costs about 25 times what sweeping over it in order does."""


class BlockIndex(RowIndex):
    """Blocks, zones and hulls; see the module's docstring and docs/design/block-index.md."""

    def __init__(self, attributes: NDArray[np.int32], n_rows: int = 0) -> None:
        self.attributes = attributes
        self._points = np.empty(3 * len(attributes), np.int16)
        self._counters = np.zeros(kernels.N_COUNTERS, np.int64)
        self._moves = np.zeros((len(attributes), 2))
        self._heat = np.zeros(max(n_rows, 1), np.uint8)  # disturbances of each row, lately
        self._tellings = 0
        self._set_order(np.arange(len(attributes)))
        self.selectivity = np.ones(len(attributes))
        self._slack = np.zeros(len(attributes), np.int64)
        self._spans = np.ones(len(attributes), np.int64)  # codes in use, per column
        self._set_cuts(np.empty(0), np.zeros(len(attributes) + 1, np.int64))
        self._places: Rows = np.full(max(n_rows, 1), -1, np.int32)
        self._brief = False  # whether some row has predicates that no slot holds
        self._allocate(1, min(1, len(attributes)))

    # building --------------------------------------------------------------------------------

    def build(self, rows: Rows, lows: Keys, highs: Keys, whole: Flags, awake: Flags) -> None:
        self._brief = not whole.all()
        entries = self._fit_codes(lows, highs)
        self._choose_order(entries)
        n_blocks = -(-len(rows) // LANES)
        n_zoned, _ = _best_zoned(self.selectivity[self._order], n_blocks)
        entries = np.ascontiguousarray(entries[:, self._order])
        self._reserve_rows(int(rows.max(initial=0)) + 1)
        self._places[:] = -1
        self._allocate(n_blocks + max(3, n_blocks // 64), n_zoned)
        self._blocks.size[0] = n_blocks
        order = np.empty(len(rows), np.int64)
        pack(entries, n_zoned, self._spans, order)
        self._moves[:] = 0.0
        kernels.fill(entries, whole, awake, order, rows, *self._blocks)

    def _fit_codes(self, lows: Keys, highs: Keys) -> NDArray[np.int16]:
        """Choose cuts among the bounds, per slot, and encode all intervals."""
        cuts = []
        starts = [0]
        for slot in range(len(self.attributes)):
            bounds = np.concatenate((lows[:, slot], highs[:, slot]))
            bounds = np.unique(bounds[np.isfinite(bounds)])
            if len(bounds) > coding.MAX_CUTS:
                picks = np.linspace(0, len(bounds) - 1, coding.MAX_CUTS).astype(np.int64)
                bounds = bounds[picks]
            cuts.append(bounds)
            starts.append(starts[-1] + len(bounds))
        self._set_cuts(np.concatenate(cuts) if cuts else np.empty(0), np.array(starts, np.int64))
        return self._encode(lows, highs)

    def _set_cuts(self, cuts: Keys, starts: NDArray[np.int64]) -> None:
        """Cuts of all slots, and the ladders by which messages find theirs."""
        self._cuts, self._starts = cuts, starts
        n_slots = len(starts) - 1
        self._grid = np.zeros(2 * n_slots)
        self._ladder = np.zeros(n_slots * (coding.N_BUCKETS + 1), np.int32)
        coding.lay_ladder(cuts, starts, self._grid, self._ladder)

    def _encode(self, lows: Keys, highs: Keys) -> NDArray[np.int16]:
        out = np.empty((*lows.shape, 2), np.int16)
        coding.encode_intervals(lows, highs, self._cuts, self._starts, out)
        return out

    def observe(self, points: Keys) -> None:
        """Estimate each slot's selectivity on recent messages, for the next ``build``."""
        self._recent = points

    _recent: Keys | None = None

    def _choose_order(self, entries: NDArray[np.int16]) -> None:
        """Order the slots by selectivity: on recent messages, or over the code space."""
        sample = entries[:: max(1, len(entries) // 1024)]
        self.selectivity = self._measure(sample)
        self._set_order(np.argsort(self.selectivity, kind="stable"))
        self._spans = (2 * np.diff(self._starts) + 1)[self._order]

    def _set_order(self, order: NDArray[np.int64]) -> None:
        """Order the columns of codes: column -> slot, slot -> column, attribute -> column."""
        self._order = order
        self._column = np.argsort(order).astype(np.int32)
        self.column_of = np.full(int(self.attributes.max(initial=0)) + 1, -1, np.int32)
        self.column_of[self.attributes] = self._column

    def _measure(self, sample: NDArray[np.int16]) -> NDArray[np.float64]:
        """Per slot, the share of messages that a sample of intervals [n, slot, 2] lets through."""
        selectivity = np.ones(len(self.attributes))
        for slot in range(len(self.attributes)):
            start, stop = self._starts[slot], self._starts[slot + 1]
            low, high = sample[:, slot, :1], sample[:, slot, 1:]
            if self._recent is not None and len(self._recent):
                codes = np.empty(len(self._recent), np.int16)
                coding.encode_column(self._recent[:, slot], self._cuts, start, stop, codes)
            else:
                codes = self._likely(sample[::4, slot], start, stop)
            if len(codes) and len(sample):
                selectivity[slot] = ((low <= codes) & (codes <= high)).mean()
        return np.maximum(selectivity, 1e-6)

    def _likely(
        self, sample: NDArray[np.int16], start: np.int64, stop: np.int64
    ) -> NDArray[np.int16]:
        """Codes of messages to expect before any came: the middles of what profiles look for."""
        lows, highs = np.empty(len(sample)), np.empty(len(sample))
        coding.decode_intervals(sample, self._cuts, start, stop, lows, highs)
        middles = np.where(np.isfinite(lows), lows, highs)
        both = np.isfinite(lows) & np.isfinite(highs)
        middles[both] = lows[both] / 2 + highs[both] / 2
        middles = middles[np.isfinite(middles)]
        codes = np.empty(len(middles), np.int16)
        coding.encode_column(middles, self._cuts, start, stop, codes)
        return codes

    def gain_of_packing(self, points: Keys) -> float:
        """The share of opened blocks that packing by other slots would save on recent messages."""
        self._recent = points
        n_blocks, n_slots, n_zoned = (int(x) for x in self._blocks.size[:3])
        blocks = np.arange(0, n_blocks, max(1, n_blocks // 512))
        lanes = np.arange(len(blocks)) * 7 % LANES  # one row a block: those of a block are alike
        taken = self._blocks.tenants[blocks * LANES + lanes] >= 0
        codes = self._blocks.codes.reshape(-1, n_slots, 2, LANES)
        sample = codes[blocks[taken], :, :, lanes[taken]][:, self._column]
        now = self.selectivity = self._measure(sample)
        ranked = now[np.argsort(now, kind="stable")]
        kept = now[self._order[:n_zoned]]
        return 1.0 - _best_zoned(ranked, n_blocks)[1] / _cost(kept, n_blocks)

    def _allocate(self, n_blocks: int, n_zoned: int) -> None:
        n_slots = len(self.attributes)
        opened = self.opened if hasattr(self, "_blocks") else 0
        self._units = None
        self.cores = np.empty(2 * n_blocks * n_slots, np.int16)  # see ``kernels.find_cores``
        self.briefs = np.empty(n_blocks * LANES if self._brief else 0, BRIEF)
        n_groups = -(-n_blocks // LANES)
        n_supers = -(-n_groups // LANES)
        self._blocks = kernels.Blocks(
            codes=_empty_lanes(n_blocks * n_slots),
            zones=_empty_lanes(n_groups * n_zoned),
            hulls=_empty_lanes(n_supers * n_zoned),
            heads=np.zeros(n_blocks, kernels.HEAD),
            tenants=np.full(n_blocks * LANES, -1, np.int32),
            places=self._places,
            size=np.array([0, n_slots, n_zoned, opened], np.int64),
        )

    def _grow(self) -> None:
        """Room for more blocks."""
        old = self._blocks
        n_blocks, n_zoned = int(old.size[0]), int(old.size[2])
        self._allocate(n_blocks + max(8, n_blocks // 8), n_zoned)
        new = self._blocks
        for source, target in zip(old, new, strict=True):
            if source is not target:
                target[: len(source)] = source
        new.heads["cored"] = 0

    def _reserve_rows(self, n_rows: int) -> None:
        if n_rows > len(self._places):
            room = n_rows if n_rows > 2 * len(self._places) else n_rows + n_rows // 4
            places = np.full(room, -1, np.int32)
            places[: len(self._places)] = self._places
            self._places = places
            self._blocks = self._blocks._replace(places=places)
            heat = np.zeros(room, np.uint8)
            heat[: len(self._heat)] = self._heat
            self._heat = heat

    # changing --------------------------------------------------------------------------------

    def insert(self, rows: Rows, lows: Keys, highs: Keys, whole: Flags, awake: Flags) -> None:
        self._reserve_rows(int(rows.max(initial=0)) + 1)
        if not whole.all() and not self._brief:
            self._brief = True
            self._grow()
        entries = np.ascontiguousarray(self._encode(lows, highs)[:, self._order])
        done = 0
        while done < len(rows):
            done = kernels.insert(rows, entries, whole, awake, done, *self._blocks)
            if done < len(rows):
                self._grow()

    def remove(self, rows: Rows) -> None:
        kernels.remove(rows, *self._blocks)

    def revise(self, rows: Rows, slots: Rows, lows: Keys, highs: Keys, mode: int) -> Rows:
        outside: Rows = np.empty(len(rows), np.int32)
        done, n_outside = 0, 0
        while True:
            done, n = kernels.revise(
                rows, slots, lows, highs, mode, self._slack, self._heat, HOT, self._spans,
                OUTSIDE_SHARE, done,
                self._cuts, self._starts, self._column, *self._blocks,
                self._counters, self._moves, outside[n_outside:],
            )  # fmt: skip
            n_outside += n
            if done >= len(rows):
                return outside[:n_outside]
            self._grow()

    def expect(self, rates: Keys) -> None:
        """Choose how many codes of room to leave around an escalated interval, per column.

        An entry updated r times a message, by steps of mean square m, leaves a margin w about
        r * m / w**2 times a message; the margin lets through 2 * w / span of the messages that
        all other slots let through. The sum of both costs is least at the cube root below.
        A margin of few steps saves little and widens its block's zone for all its rows, so there
        is none. Only hot rows get it: a row with a margin is no longer exact, and is tested
        whenever it is found.
        """
        self._tellings += 1
        if not self._tellings % COOL_EVERY:
            self._heat >>= 1
        rates = np.maximum(rates, LEAST_RATE)
        moves = self._moves
        steps = moves[:, 1] / np.maximum(moves[:, 0], 1.0)
        ranked = self.selectivity[self._order]
        others = np.prod(ranked) / ranked
        wasted_ns = others * 2.0 / self._spans * CANDIDATE_NS
        slack = np.cbrt(2.0 * rates[self._order] * steps * REVISION_NS / wasted_ns)
        slack[~(slack >= LEAST_STEPS * np.sqrt(steps))] = 0.0  # nor where nothing is known
        self._slack = np.minimum(slack, self._spans).astype(np.int64)

    def deescalate(self, rows: Rows, lows: Keys, highs: Keys, whole: Flags) -> None:
        entries = np.ascontiguousarray(self._encode(lows, highs)[:, self._order])
        done = 0
        while done < len(rows):
            done = kernels.tighten(rows, entries, whole, done, *self._blocks)
            if done < len(rows):
                self._grow()

    def set_awake(self, rows: Rows, awake: Flags) -> None:
        kernels.set_awake(rows, awake, *self._blocks)

    # reading ---------------------------------------------------------------------------------

    def match(
        self, message: Keys, rest: Rest, out: Rows, failed: Rows
    ) -> tuple[int, int, int, int, int]:
        blocks, others, bundle = self._bundle
        if rest is not others or blocks is not self._blocks:
            bundle = self._bind(rest)
        return match_message(message, bundle.places, out, failed)  # type: ignore[no-any-return]

    def _bind(self, rest: Rest) -> Bundle:
        """Put together what a message is matched against, until an array is replaced.

        Cuts and the order of columns are replaced together with blocks, never alone.
        """
        bundle = bundle_of(
            self.attributes, self.column_of, self._cuts, self._grid, self._ladder, self._points,
            self._blocks, self.cores, self.briefs, rest,
        )  # fmt: skip
        self._bundle = (self._blocks, rest, bundle)
        return bundle

    _bundle: tuple[Any, Any, Bundle] = (None, None, Bundle((), ()))

    def encode_messages(self, vectors: Keys) -> NDArray[np.int16]:
        """Codes of many messages, by column of codes: the zoned ones first."""
        keys = np.empty((len(vectors), len(self.attributes)), np.int16)
        encode_batch(
            vectors, self.attributes, self._column, self._cuts, self._grid, self._ladder, keys,
        )  # fmt: skip
        return keys

    @property
    def blocks(self) -> kernels.Blocks:
        """The arrays."""
        return self._blocks

    @property
    def n_blocks(self) -> int:
        """Blocks in use."""
        return int(self._blocks.size[kernels.N_BLOCKS])

    @property
    def packed_by(self) -> NDArray[np.int32]:
        """The message slots that have zones, most selective first."""
        slots: NDArray[np.int32] = self.attributes[self._order[: self._blocks.size[2]]]
        return slots

    @property
    def units(self) -> NDArray[np.float64]:
        """What a step of codes is worth in each zoned column: as much as zones are narrow."""
        if self._units is None:
            n_zoned = int(self._blocks.size[kernels.N_ZONED])
            zones = self._blocks.zones.reshape(-1, n_zoned, 2, LANES).astype(np.int64)
            widths = (zones[:, :, 1] - zones[:, :, 0]).transpose(1, 0, 2).reshape(n_zoned, -1)
            used = widths >= 0
            self._units = np.array(
                [
                    1.0 / (w[u].mean() + 1.0) if u.any() else 1.0
                    for w, u in zip(widths, used, strict=True)
                ]
            )
        return self._units

    _units: NDArray[np.float64] | None = None

    @property
    def zoned(self) -> NDArray[np.bool_]:
        """Which slots have zones."""
        zoned: NDArray[np.bool_] = self._column < self._blocks.size[kernels.N_ZONED]
        return zoned

    @property
    def opened(self) -> int:
        """Blocks opened by messages so far."""
        return int(self._blocks.size[kernels.OPENED])

    def count_opened(self, n: int) -> None:
        """A batch has opened blocks, counted once for each of its messages."""
        self._blocks.size[kernels.OPENED] += n

    def counters(self) -> Mapping[str, int]:
        c = self._counters
        return {
            "blocks_opened": self.opened,
            "escalations": int(c[kernels.ESCALATED]),
            "index_updates": int(c[[kernels.ESCALATED, kernels.MOVED, kernels.REWRITTEN]].sum()),
            "local_updates": int(c[kernels.LOCAL_WRITE]),
        }

    @property
    def nbytes(self) -> int:
        return sum(int(array.nbytes) for array in (*self._blocks, self._cuts, self._heat))

    def describe(self, names: list[str]) -> dict[str, Any]:
        ranked = [names[self.attributes[slot]] for slot in self._order.tolist()]
        shares = self.selectivity[self._order].round(4).tolist()
        return {
            "structure": "blocks",
            "blocks": int(self._blocks.size[0]),
            "packed_by": ranked[: int(self._blocks.size[2])],
            "selectivity": dict(zip(ranked, shares, strict=True)),
        }

    def state(self) -> dict[str, Any]:
        state = {f"blocks_{name}": array for name, array in self._blocks._asdict().items()}
        return state | {
            "attributes": self.attributes,
            "order": self._order,
            "selectivity": self.selectivity,
            "counters": self._counters,
            "moves": self._moves,
            "slack": self._slack,
            "heat": self._heat,
            "brief": np.array([self._brief]),
            "cuts": self._cuts,
            "starts": self._starts,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "BlockIndex":
        self = cls(state["attributes"])
        require_alike(state, self.state())
        self._blocks = kernels.Blocks(*(state[f"blocks_{name}"] for name in kernels.Blocks._fields))
        self._places = self._blocks.places
        self._brief = bool(state["brief"][0])
        self.cores = np.empty(2 * len(self._blocks.codes) // kernels.PAIR, np.int16)
        self.briefs = np.empty(len(self._blocks.tenants) if self._brief else 0, BRIEF)
        self._blocks.heads["cored"] = 0
        self._counters, self._moves = state["counters"], state["moves"]
        self._slack, self._heat = state["slack"], state["heat"]
        self._set_order(state["order"])
        self.selectivity = state["selectivity"]
        self._set_cuts(state["cuts"], state["starts"])
        self._spans = (2 * np.diff(self._starts) + 1)[self._order]
        return self

    def __contains__(self, row: int) -> bool:
        return row < len(self._places) and self._places[row] >= 0

    def _check(self, rows: Rows, lows: Keys, highs: Keys) -> None:
        b = self._blocks
        n_blocks, n_slots, n_zoned = (int(x) for x in b.size[:3])
        assert kernels.count_occupied(*b) == len(rows)
        placed = np.flatnonzero(self._places >= 0)
        assert sorted(placed.tolist()) == sorted(rows.tolist())
        assert (b.tenants[self._places[rows]] == rows).all()
        codes = b.codes.reshape(-1, n_slots, 2, LANES)
        entries = self._encode(lows, highs)[:, self._order]
        at = self._places[rows]
        held = codes[at // LANES, :, :, at % LANES]
        empty = entries[:, :, 0] > entries[:, :, 1]
        # An unbounded end and the outermost gap admit the same messages.
        top = (coding.FIRST_GAP + 2 * np.diff(self._starts))[self._order]
        low_covered = held[:, :, 0] <= np.where(
            entries[:, :, 0] == coding.ANY_LOW, coding.FIRST_GAP, entries[:, :, 0]
        )
        high_covered = np.minimum(entries[:, :, 1], top) <= held[:, :, 1]
        covered = low_covered & high_covered
        assert (covered | empty).all(), "k is not within K"
        exact = (b.heads["exact"][at // LANES] >> (at % LANES).astype(np.uint64)) & np.uint64(1)
        tight = (held == entries).all(axis=(1, 2))
        assert tight[exact == 1].all(), "a row is marked exact but K is not k"
        zones = b.zones.reshape(-1, n_zoned, 2, LANES)
        hulls = b.hulls.reshape(-1, n_zoned, 2, LANES)
        for block in range(n_blocks):
            low = codes[block, :n_zoned, 0].min(axis=1)
            high = codes[block, :n_zoned, 1].max(axis=1)
            group, member = divmod(block, LANES)
            assert (zones[group, :, 0, member] <= low).all()
            assert (zones[group, :, 1, member] >= high).all()
            over, part = divmod(group, LANES)
            assert (hulls[over, :, 0, part] <= zones[group, :, 0, member]).all()
            assert (hulls[over, :, 1, part] >= zones[group, :, 1, member]).all()
            if b.heads["cored"][block]:
                self._check_cores(block, codes[block].astype(np.int64))

    def _check_cores(self, block: int, codes: NDArray[np.int64]) -> None:
        """A code within a core surely lies in the intervals of all lanes that somebody lives in."""
        n_slots = len(self.attributes)
        cores = self.cores[2 * block * n_slots : 2 * (block + 1) * n_slots].reshape(n_slots, 2)
        lived = self._blocks.tenants[block * LANES : (block + 1) * LANES] >= 0
        lows, highs = codes[:, 0, lived], codes[:, 1, lived]
        assert (cores[:, :1] >= np.minimum(lows + (lows & 1), coding.ANY_HIGH)).all()
        assert (cores[:, 1:] <= highs - (highs & 1)).all()


def _cost(selectivity: NDArray[np.float64], n_blocks: int) -> float:
    """Share of blocks that a probe opens, about, when packed by slots like these."""
    scale = (max(n_blocks, 1) * np.prod(selectivity)) ** (1 / len(selectivity))
    cuts = np.maximum(scale / selectivity, 1.0)
    return float(np.prod(np.minimum(selectivity + 1 / cuts, 1.0)))


def _best_zoned(ranked: NDArray[np.float64], n_blocks: int) -> tuple[int, float]:
    """By how many of ranked slots to pack, as many as pay, and the cost."""
    best, best_cost = min(1, len(ranked)), np.inf
    for n_zoned in range(1, min(MAX_ZONED, len(ranked)) + 1):
        cost = _cost(ranked[:n_zoned], n_blocks)
        if cost < 0.95 * best_cost:
            best, best_cost = n_zoned, cost
    return best, best_cost


def _empty_lanes(n: int) -> NDArray[np.int16]:
    """n pairs of 64 lanes that hold the empty interval."""
    lanes = np.empty((n, 2, LANES), np.int16)
    lanes[:, 0] = coding.ANY_HIGH
    lanes[:, 1] = coding.NULL
    return lanes.reshape(-1)
