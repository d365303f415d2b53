"""The block index's loops: 64-ary zones over blocks of 64 rows, all compared 64 lanes at a time.

Layout (``Blocks``; k slots, z of them zoned, codes as in ``kernels.codes``):

- ``codes``   int16, flat [block][slot][low, high][lane]: K of each row, as codes;
- ``zones``   int16, flat [group][zoned slot][low, high][block of the group]: hull of a block;
- ``hulls``   int16, flat [supergroup][zoned slot][low, high][group]: hull of a group;
- ``occupied``, ``awake``, ``exact``  uint64, a bit a lane;
- ``rows`` [block][lane] -> row or -1; ``place`` row -> block * 64 + lane, or < 0.

Invariants: a lane's K lies within its block's zone, a zone within its group's hull; a lane
that is not occupied holds the empty interval; ``exact`` only where K is the row's interval k
and nothing but the slots decides the row. ``awake`` is off for rows that a context-only
predicate keeps asleep: they cost a probe nothing.
"""

from typing import Any, NamedTuple

import numpy as np

from germane.kernels.codes import (
    ANY_HIGH,
    ANY_LOW,
    FIRST_GAP,
    LAST_CODE,
    NULL,
    SPAN,
    encode,
    high_code,
    highest_key,
    low_code,
    lowest_key,
)
from germane.kernels.compile import kernel
from germane.kernels.lanes import LANES, count_bits, lowest_bit, within

ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
ONE = np.uint64(1)
ZERO = np.uint64(0)
PAIR = 2 * LANES

EAGER = 0
LOCAL = 1
ESCALATE = 2

# counters
VISITED, ESCALATED, MOVED, REWRITTEN, SPLIT = 0, 1, 2, 3, 4
N_COUNTERS = 8


class Blocks(NamedTuple):
    """The arrays of one block index, as kernels see them."""

    codes: Any
    zones: Any
    hulls: Any
    occupied: Any
    awake: Any
    exact: Any
    rows: Any
    place: Any
    size: Any  # [n_blocks, n_slots, n_zoned]
    counters: Any
    moves: Any  # float64[slot]: number and sum of squares of escalating moves, in codes


@kernel
def probe(point: Any, blocks: Any, out: Any) -> Any:
    """Rows whose K holds the point: certain ones from the front of ``out``, others from its end.

    Returns (number certain, start of the others). Visits only blocks whose zones hold the
    point; a block costs one 64-wide comparison a slot until no lane is left.
    """
    codes, zones, hulls = blocks.codes, blocks.zones, blocks.hulls
    n_blocks, n_slots, n_zoned = blocks.size[0], blocks.size[1], blocks.size[2]
    below = np.empty(n_slots, np.int16)
    above = np.empty(n_slots, np.int16)
    for slot in range(n_slots):
        odd = point[slot] & 1
        below[slot] = point[slot] - odd
        above[slot] = point[slot] + odd
    n_certain = 0
    top = out.shape[0]
    visited = 0
    n_groups = (n_blocks + LANES - 1) // LANES
    n_supers = (n_groups + LANES - 1) // LANES
    for supergroup in range(n_supers):
        groups = ALL
        for slot in range(n_zoned):
            at = (supergroup * n_zoned + slot) * PAIR
            groups &= within(hulls, at, point[slot], point[slot])
        while groups != ZERO:
            group = supergroup * LANES + lowest_bit(groups)
            groups &= groups - ONE
            members = ALL
            for slot in range(n_zoned):
                at = (group * n_zoned + slot) * PAIR
                members &= within(zones, at, point[slot], point[slot])
            while members != ZERO:
                block = group * LANES + lowest_bit(members)
                members &= members - ONE
                visited += 1
                found = blocks.occupied[block] & blocks.awake[block]
                base = block * n_slots * PAIR
                for slot in range(n_slots):
                    if found == ZERO:
                        break
                    found &= within(codes, base + slot * PAIR, point[slot], point[slot])
                if found == ZERO:
                    continue
                certain = found & blocks.exact[block]
                for slot in range(n_slots):
                    certain &= within(codes, base + slot * PAIR, below[slot], above[slot])
                found &= ~certain
                lanes = block * LANES
                while certain != ZERO:
                    out[n_certain] = blocks.rows[lanes + lowest_bit(certain)]
                    n_certain += 1
                    certain &= certain - ONE
                while found != ZERO:
                    top -= 1
                    out[top] = blocks.rows[lanes + lowest_bit(found)]
                    found &= found - ONE
    blocks.counters[VISITED] += visited
    return n_certain, top


@kernel
def clear_block(block: Any, blocks: Any) -> None:
    """Make a block empty: no lane, empty zone."""
    n_slots, n_zoned = blocks.size[1], blocks.size[2]
    blocks.occupied[block] = ZERO
    blocks.awake[block] = ZERO
    blocks.exact[block] = ZERO
    for lane in range(LANES):
        blocks.rows[block * LANES + lane] = -1
    for slot in range(n_slots):
        at = (block * n_slots + slot) * PAIR
        for lane in range(LANES):
            blocks.codes[at + lane] = ANY_HIGH
            blocks.codes[at + LANES + lane] = NULL
    for slot in range(n_zoned):
        at = ((block // LANES) * n_zoned + slot) * PAIR + block % LANES
        blocks.zones[at] = ANY_HIGH
        blocks.zones[at + LANES] = NULL


@kernel
def shrink_zone(block: Any, blocks: Any) -> None:
    """Recompute a block's zone and its group's hull from what they hold."""
    n_slots, n_zoned = blocks.size[1], blocks.size[2]
    group = block // LANES
    for slot in range(n_zoned):
        at = (block * n_slots + slot) * PAIR
        low = ANY_HIGH
        high = NULL
        for lane in range(LANES):
            low = min(low, blocks.codes[at + lane])
            high = max(high, blocks.codes[at + LANES + lane])
        zone = (group * n_zoned + slot) * PAIR
        blocks.zones[zone + block % LANES] = low
        blocks.zones[zone + LANES + block % LANES] = high
        low = ANY_HIGH
        high = NULL
        for member in range(LANES):
            low = min(low, blocks.zones[zone + member])
            high = max(high, blocks.zones[zone + LANES + member])
        hull = ((group // LANES) * n_zoned + slot) * PAIR + group % LANES
        blocks.hulls[hull] = low
        blocks.hulls[hull + LANES] = high


@kernel
def widen_zone(block: Any, slot: Any, low: Any, high: Any, blocks: Any) -> None:
    """Make a block's zone and its group's hull hold [low, high] in a zoned slot."""
    n_zoned = blocks.size[2]
    if low > high:
        return
    group = block // LANES
    zone = (group * n_zoned + slot) * PAIR + block % LANES
    hull = ((group // LANES) * n_zoned + slot) * PAIR + group % LANES
    if low < blocks.zones[zone]:
        blocks.zones[zone] = low
        if low < blocks.hulls[hull]:
            blocks.hulls[hull] = low
    if high > blocks.zones[zone + LANES]:
        blocks.zones[zone + LANES] = high
        if high > blocks.hulls[hull + LANES]:
            blocks.hulls[hull + LANES] = high


@kernel
def growth(zones: Any, at: Any, n_zoned: Any, entry: Any) -> Any:
    """(volume an entry adds to a zone, the zone's volume after): what a later probe pays."""
    before = 1.0
    after = 1.0
    for slot in range(n_zoned):
        low = np.int64(zones[at + slot * PAIR])
        high = np.int64(zones[at + slot * PAIR + LANES])
        if low > high:
            before = 0.0
            low = np.int64(entry[slot, 0])
            high = np.int64(entry[slot, 1])
        else:
            before *= high - low + 1
            low = min(low, np.int64(entry[slot, 0]))
            high = max(high, np.int64(entry[slot, 1]))
        after *= max(high - low + 1, 1)
    return after - before, after


@kernel
def choose_block(entry: Any, blocks: Any) -> Any:
    """The block whose zone grows least: the best group first, then the best block in it."""
    n_blocks, n_zoned = blocks.size[0], blocks.size[2]
    n_groups = (n_blocks + LANES - 1) // LANES
    best_group = 0
    best = np.inf
    best_volume = np.inf
    for group in range(n_groups):
        at = (group // LANES) * n_zoned * PAIR + group % LANES
        added, volume = growth(blocks.hulls, at, n_zoned, entry)
        if added < best or (added == best and volume < best_volume):
            best, best_volume, best_group = added, volume, group
    best_block = best_group * LANES
    best = np.inf
    best_volume = np.inf
    for block in range(best_group * LANES, min(n_blocks, (best_group + 1) * LANES)):
        at = best_group * n_zoned * PAIR + block % LANES
        added, volume = growth(blocks.zones, at, n_zoned, entry)
        if added < best or (added == best and volume < best_volume):
            best, best_volume, best_block = added, volume, block
    return best_block


@kernel
def put(block: Any, row: Any, entry: Any, exact: Any, awake: Any, blocks: Any) -> None:
    """Write a row into a free lane of a block that has one."""
    n_slots, n_zoned = blocks.size[1], blocks.size[2]
    lane = lowest_bit(~blocks.occupied[block])
    bit = ONE << np.uint64(lane)
    blocks.occupied[block] |= bit
    blocks.exact[block] = (blocks.exact[block] & ~bit) | (bit if exact else ZERO)
    blocks.awake[block] = (blocks.awake[block] & ~bit) | (bit if awake else ZERO)
    blocks.rows[block * LANES + lane] = row
    blocks.place[row] = block * LANES + lane
    for slot in range(n_slots):
        at = (block * n_slots + slot) * PAIR + lane
        blocks.codes[at] = entry[slot, 0]
        blocks.codes[at + LANES] = entry[slot, 1]
        if slot < n_zoned:
            widen_zone(block, slot, entry[slot, 0], entry[slot, 1], blocks)


@kernel
def take(row: Any, entry: Any, blocks: Any) -> Any:
    """Take a row out of its lane, its codes into ``entry``; returns (block, exact, awake)."""
    n_slots = blocks.size[1]
    place = blocks.place[row]
    block = place // LANES
    lane = place % LANES
    bit = ONE << np.uint64(lane)
    exact = (blocks.exact[block] & bit) != ZERO
    awake = (blocks.awake[block] & bit) != ZERO
    blocks.occupied[block] &= ~bit
    blocks.exact[block] &= ~bit
    blocks.awake[block] &= ~bit
    blocks.rows[place] = -1
    blocks.place[row] = -1
    for slot in range(n_slots):
        at = (block * n_slots + slot) * PAIR + lane
        entry[slot, 0] = blocks.codes[at]
        entry[slot, 1] = blocks.codes[at + LANES]
        blocks.codes[at] = ANY_HIGH
        blocks.codes[at + LANES] = NULL
    return block, exact, awake


@kernel
def split(block: Any, blocks: Any) -> None:
    """Move the upper half of a full block, along its relatively widest slot, to a new block."""
    n_slots, n_zoned = blocks.size[1], blocks.size[2]
    widest = 0
    best = -1.0
    for slot in range(n_zoned):
        at = (block * n_slots + slot) * PAIR
        low, high, total = ANY_HIGH, NULL, 1.0
        for lane in range(LANES):
            lane_low = np.int64(blocks.codes[at + lane])
            lane_high = np.int64(blocks.codes[at + LANES + lane])
            low, high = min(low, lane_low), max(high, lane_high)
            total += max(lane_high - lane_low, 0)
        if (high - low) / total > best:
            best = (high - low) / total
            widest = slot
    centres = np.empty(LANES, np.int64)
    at = (block * n_slots + widest) * PAIR
    for lane in range(LANES):
        centres[lane] = np.int64(blocks.codes[at + lane]) + np.int64(
            blocks.codes[at + LANES + lane]
        )
    order = np.argsort(centres)
    new = blocks.size[0]
    blocks.size[0] += 1
    clear_block(new, blocks)
    entry = np.empty((n_slots, 2), np.int16)
    for i in range(LANES // 2, LANES):
        row = blocks.rows[block * LANES + order[i]]
        _, exact, awake = take(row, entry, blocks)
        put(new, row, entry, exact, awake, blocks)
    shrink_zone(block, blocks)
    blocks.counters[SPLIT] += 1


@kernel
def has_room(blocks: Any) -> Any:
    """Whether one more block, and so one more split, fits the arrays."""
    return blocks.size[0] < blocks.occupied.shape[0]


@kernel
def add(row: Any, entry: Any, exact: Any, awake: Any, blocks: Any) -> None:
    """Insert a row where it widens the zones least; splits a full block. Needs room."""
    if blocks.size[0] == 0:
        clear_block(0, blocks)
        blocks.size[0] = 1
    block = choose_block(entry, blocks)
    if blocks.occupied[block] == ALL:
        split(block, blocks)
        block = choose_block(entry, blocks)
        if blocks.occupied[block] == ALL:
            split(block, blocks)
            block = blocks.size[0] - 1
    put(block, row, entry, exact, awake, blocks)


@kernel
def insert(
    rows: Any, entries: Any, exact: Any, awake: Any, begin: Any, blocks: Any
) -> Any:
    """Insert rows from ``begin`` on; returns where it stopped for want of room."""
    for i in range(begin, rows.shape[0]):
        if blocks.size[0] + 2 >= blocks.occupied.shape[0]:
            return i
        add(rows[i], entries[i], exact[i], awake[i], blocks)
    return rows.shape[0]


@kernel
def remove(rows: Any, blocks: Any) -> None:
    """Take rows out; a block left empty has an empty zone."""
    entry = np.empty((blocks.size[1], 2), np.int16)
    for i in range(rows.shape[0]):
        block, _, _ = take(rows[i], entry, blocks)
        if blocks.occupied[block] == ZERO:
            shrink_zone(block, blocks)


@kernel
def tighten(
    rows: Any, entries: Any, exact: Any, begin: Any, blocks: Any
) -> Any:
    """Deescalate: K becomes k in every slot, and the row moves where it widens zones least."""
    old = np.empty((blocks.size[1], 2), np.int16)
    for i in range(begin, rows.shape[0]):
        if blocks.size[0] + 2 >= blocks.occupied.shape[0]:
            return i
        block, _, awake = take(rows[i], old, blocks)
        shrink_zone(block, blocks)
        add(rows[i], entries[i], exact[i], awake, blocks)
    return rows.shape[0]


@kernel
def set_awake(rows: Any, awake: Any, blocks: Any) -> None:
    """Wake rows or put them to sleep: one bit each."""
    for i in range(rows.shape[0]):
        place = blocks.place[rows[i]]
        if place < 0:
            continue
        bit = ONE << np.uint64(place % LANES)
        if awake[i]:
            blocks.awake[place // LANES] |= bit
        else:
            blocks.awake[place // LANES] &= ~bit


@kernel
def reach(row: Any, blocks: Any) -> Any:
    """Share of the code space that a row's K admits: how often it will be a candidate."""
    n_slots = blocks.size[1]
    place = blocks.place[row]
    share = 1.0
    for slot in range(n_slots):
        at = ((place // LANES) * n_slots + slot) * PAIR + place % LANES
        low = max(np.int64(blocks.codes[at]), FIRST_GAP)
        high = min(np.int64(blocks.codes[at + LANES]), LAST_CODE)
        share *= max(high - low + 1, 0) / (SPAN + 1)
    return share


@kernel
def revise(
    rows: Any,
    slots: Any,
    entries: Any,
    mode: Any,
    slack: Any,
    limit: Any,
    begin: Any,
    blocks: Any,
    outside: Any,
) -> Any:
    """Carry new intervals k of (row, slot) pairs into the index, by strategy.

    EAGER moves a row to its best block when a zoned slot changes; LOCAL (GBU) only when the
    block's zone does not hold the new interval; ESCALATE (AGILE, Fig. 8) does nothing when k
    lies in K, else takes K = k with ``slack`` codes on both sides, in place. A row whose K would admit more than
    ``limit`` of all messages is taken out of the index and reported in ``outside``. A row that
    had no interval at all (its context's value was NULL) is placed afresh under any strategy.
    Returns (entries done, rows reported).
    """
    n_slots, n_zoned = blocks.size[1], blocks.size[2]
    entry = np.empty((n_slots, 2), np.int16)
    n_outside = 0
    for i in range(begin, rows.shape[0]):
        row = rows[i]
        place = blocks.place[row]
        if place < 0:
            continue
        slot = slots[i]
        block = place // LANES
        lane = place % LANES
        bit = ONE << np.uint64(lane)
        at = (block * n_slots + slot) * PAIR + lane
        low = np.int64(entries[i, 0])
        high = np.int64(entries[i, 1])
        old_low = np.int64(blocks.codes[at])
        old_high = np.int64(blocks.codes[at + LANES])
        if low == old_low and high == old_high:
            continue
        if mode == ESCALATE and old_low <= old_high:
            exact = (blocks.exact[block] & bit) != ZERO
            room = slack[slot]
            if not exact and (low > high or (old_low <= low and high <= old_high)):
                continue
            blocks.counters[ESCALATED] += 1
            moved = np.float64(max(abs(low - old_low), abs(high - old_high)))
            blocks.moves[slot, 0] += 1.0
            blocks.moves[slot, 1] += moved * moved
            if room > 0 and low <= high:
                blocks.exact[block] &= ~bit
                low = max(low - room, ANY_LOW) if low > FIRST_GAP else low
                high = high + room
                if high > LAST_CODE:
                    high = ANY_HIGH
                if low < FIRST_GAP:
                    low = ANY_LOW
            blocks.codes[at] = low
            blocks.codes[at + LANES] = high
            if slot < n_zoned:
                widen_zone(block, slot, low, high, blocks)
            if room > 0 and reach(row, blocks) > limit:
                take(row, entry, blocks)
                outside[n_outside] = row
                n_outside += 1
            continue
        stays = slot >= n_zoned
        if mode == LOCAL and not stays:
            zone = ((block // LANES) * n_zoned + slot) * PAIR + block % LANES
            stays = low > high or (
                blocks.zones[zone] <= low and high <= blocks.zones[zone + LANES]
            )
        if stays:
            blocks.codes[at] = low
            blocks.codes[at + LANES] = high
            blocks.counters[REWRITTEN] += 1
            continue
        if blocks.size[0] + 2 >= blocks.occupied.shape[0]:
            return i, n_outside
        _, exact, awake = take(row, entry, blocks)
        entry[slot, 0] = low
        entry[slot, 1] = high
        add(row, entry, exact, awake, blocks)
        blocks.counters[MOVED] += 1
    return rows.shape[0], n_outside


@kernel
def fill(entries: Any, exact: Any, awake: Any, order: Any, rows: Any, blocks: Any) -> None:
    """Write rows into blocks in the given packing order; zones and hulls follow."""
    n_slots = blocks.size[1]
    n = order.shape[0]
    n_blocks = (n + LANES - 1) // LANES
    for block in range(n_blocks):
        clear_block(block, blocks)
        for lane in range(LANES):
            position = block * LANES + lane
            if position >= n:
                break
            i = order[position]
            bit = ONE << np.uint64(lane)
            blocks.occupied[block] |= bit
            if exact[i]:
                blocks.exact[block] |= bit
            if awake[i]:
                blocks.awake[block] |= bit
            blocks.rows[position] = rows[i]
            blocks.place[rows[i]] = position
            for slot in range(n_slots):
                at = (block * n_slots + slot) * PAIR + lane
                blocks.codes[at] = entries[i, slot, 0]
                blocks.codes[at + LANES] = entries[i, slot, 1]
        shrink_zone(block, blocks)


@kernel
def count_occupied(blocks: Any) -> Any:
    """Rows in the index, for invariants."""
    total = 0
    for block in range(blocks.size[0]):
        total += count_bits(blocks.occupied[block])
    return total


@kernel
def probe_point(
    point: Any, cuts: Any, starts: Any, column: Any, codes: Any, blocks: Any, out: Any
) -> Any:
    """``probe`` for a message's keys: encode them, then look."""
    for slot in range(point.shape[0]):
        codes[column[slot]] = encode(point[slot], cuts, starts[slot], starts[slot + 1])
    return probe(codes, blocks, out)


@kernel
def encode_entries(slots: Any, lows: Any, highs: Any, cuts: Any, starts: Any, out: Any) -> None:
    """Codes of (slot, interval) pairs."""
    for i in range(slots.shape[0]):
        start = starts[slots[i]]
        stop = starts[slots[i] + 1]
        out[i, 0] = low_code(lows[i], highs[i], cuts, start, stop)
        out[i, 1] = high_code(lows[i], highs[i], cuts, start, stop)


@kernel
def extent_keys(
    rows: Any,
    slots: Any,
    column: Any,
    cuts: Any,
    starts: Any,
    blocks: Any,
    lows: Any,
    highs: Any,
) -> None:
    """Where k may move unseen, of (row, slot) pairs: K; nowhere when the row is exact.

    Everything for rows outside the index: no entry of theirs can be wrong.
    """
    n_slots = blocks.size[1]
    for i in range(rows.shape[0]):
        place = blocks.place[rows[i]]
        if place < 0:
            lows[i] = -np.inf
            highs[i] = np.inf
            continue
        if blocks.exact[place // LANES] & (ONE << np.uint64(place % LANES)) != ZERO:
            lows[i] = np.inf
            highs[i] = -np.inf
            continue
        slot = slots[i]
        at = ((place // LANES) * n_slots + column[slot]) * PAIR + place % LANES
        low = np.int64(blocks.codes[at])
        high = np.int64(blocks.codes[at + LANES])
        if low > high:
            lows[i] = np.inf
            highs[i] = -np.inf
        else:
            lows[i] = lowest_key(low, cuts, starts[slot])
            highs[i] = highest_key(high, cuts, starts[slot], starts[slot + 1])
