"""The block index's loops: 64-ary zones over blocks of 64 rows, all compared 64 lanes at a time.

Layout (``Blocks``; k slots, z of them zoned, codes as in ``kernels.codes``):

- ``codes``   int16, flat [block][slot][low, high][lane]: K of each row, as codes;
- ``zones``   int16, flat [group][zoned slot][low, high][block of the group]: hull of a block;
- ``hulls``   int16, flat [supergroup][zoned slot][low, high][group]: hull of a group;
- ``heads``   [block], three words of a bit a lane: ``occupied``, ``awake``, ``exact``; and
  ``cored``, whether the block's cores (``find_cores``) are those of its codes;
- ``tenants`` [block][lane] -> row or -1; ``places`` row -> block * 64 + lane, or < 0.

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
    high_code,
    highest_key,
    low_code,
    lowest_key,
)
from germane.kernels.compile import inlined, kernel
from germane.kernels.lanes import (
    LANES,
    count_bits,
    deepest,
    gather,
    inside,
    lowest_bit,
    narrowed,
    touched,
    within,
)

ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
ONE = np.uint64(1)
ZERO = np.uint64(0)
PAIR = 2 * LANES

EAGER = 0
LOCAL = 1
ESCALATE = 2

# counters
ESCALATED, MOVED, REWRITTEN, LOCAL_WRITE, N_COUNTERS = 0, 1, 2, 3, 4


# entries of ``size``
N_BLOCKS, N_SLOTS, N_ZONED, OPENED = range(4)
"""Opened: blocks that probes have opened so far."""

HEAD = np.dtype(
    [("occupied", np.uint64), ("awake", np.uint64), ("exact", np.uint64), ("cored", np.int64)]
)


class Blocks(NamedTuple):
    """The arrays of one block index, in the order in which every kernel here takes them."""

    codes: Any
    zones: Any
    hulls: Any
    heads: Any
    tenants: Any
    places: Any
    size: Any  # see N_BLOCKS and what follows it


@inlined
def probe(
    points: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    size: Any,
    out: Any,
) -> Any:
    """What holds the point in its K: certain rows at the front of ``out``, places at its end.

    Places are block * 64 + lane of rows that are not certain. ``points`` are the point's codes,
    then, in pairs, what lows and highs are compared with (``kernels.codes.reach``).
    ``out`` has ``SPARE`` elements more than there are rows.
    Returns (number certain, start of the others, blocks opened). Visits only blocks whose zones
    hold the point; a block costs one 64-wide comparison a slot until no lane is left.
    """
    n_blocks, n_slots, n_zoned = size[N_BLOCKS], size[N_SLOTS], size[N_ZONED]
    n_certain = 0
    top = out.shape[0]
    visited = 0
    n_groups = (n_blocks + LANES - 1) // LANES
    n_supers = (n_groups + LANES - 1) // LANES
    for supergroup in range(n_supers):
        groups = ALL
        for slot in range(n_zoned):
            at = (supergroup * n_zoned + slot) * PAIR
            groups &= within(hulls, at, points[slot], points[slot])
        while groups != ZERO:
            group = supergroup * LANES + lowest_bit(groups)
            groups &= groups - ONE
            members = ALL
            for slot in range(n_zoned):
                at = (group * n_zoned + slot) * PAIR
                members &= within(zones, at, points[slot], points[slot])
            while members != ZERO:
                block = group * LANES + lowest_bit(members)
                members &= members - ONE
                visited += 1
                base = block * n_slots * PAIR
                depths = deepest()
                for slot in range(n_slots):
                    at = n_slots + 2 * slot
                    depths = narrowed(depths, codes, base + slot * PAIR, points, at)
                found = touched(depths) & heads[block].awake
                if found == ZERO:
                    continue
                certain = inside(depths) & found & heads[block].exact
                found &= ~certain
                n_certain = gather(tenants, block * LANES, certain, out, n_certain)
                while found != ZERO:
                    top -= 1
                    out[top] = block * LANES + lowest_bit(found)
                    found &= found - ONE
    return n_certain, top, visited


@kernel
def clear_block(
    block: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    places: Any,
    size: Any,
) -> None:
    """Make a block empty: no lane, empty zone."""
    n_slots, n_zoned = size[1], size[2]
    heads[block].occupied = ZERO
    heads[block].awake = ZERO
    heads[block].exact = ZERO
    for lane in range(LANES):
        tenants[block * LANES + lane] = -1
    for slot in range(n_slots):
        at = (block * n_slots + slot) * PAIR
        for lane in range(LANES):
            codes[at + lane] = ANY_HIGH
            codes[at + LANES + lane] = NULL
    for slot in range(n_zoned):
        at = ((block // LANES) * n_zoned + slot) * PAIR + block % LANES
        zones[at] = ANY_HIGH
        zones[at + LANES] = NULL


@kernel
def shrink_zone(
    block: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    places: Any,
    size: Any,
) -> None:
    """Recompute a block's zone and its group's hull from what they hold."""
    n_slots, n_zoned = size[1], size[2]
    group = block // LANES
    for slot in range(n_zoned):
        at = (block * n_slots + slot) * PAIR
        low = ANY_HIGH
        high = NULL
        for lane in range(LANES):
            low = min(low, codes[at + lane])
            high = max(high, codes[at + LANES + lane])
        zone = (group * n_zoned + slot) * PAIR
        zones[zone + block % LANES] = low
        zones[zone + LANES + block % LANES] = high
        low = ANY_HIGH
        high = NULL
        for member in range(LANES):
            low = min(low, zones[zone + member])
            high = max(high, zones[zone + LANES + member])
        hull = ((group // LANES) * n_zoned + slot) * PAIR + group % LANES
        hulls[hull] = low
        hulls[hull + LANES] = high


@inlined
def write(
    block: Any, slot: Any, lane: Any, low: Any, high: Any, codes: Any, heads: Any, size: Any
) -> None:
    """Write a lane's codes; the block's cores are no longer known."""
    heads[block].cored = 0
    at = (block * size[N_SLOTS] + slot) * PAIR + lane
    codes[at] = low
    codes[at + LANES] = high


@kernel
def find_cores(block: Any, n_slots: Any, codes: Any, heads: Any, cores: Any) -> None:
    """A block's cores, flat [block][slot][low, high]: codes that surely lie in all its intervals.

    An odd bound shares its gap with a message of the same code, so it is drawn in by one.
    """
    for slot in range(n_slots):
        at = (block * n_slots + slot) * PAIR
        low, high = np.int64(NULL), np.int64(ANY_HIGH)
        lanes = heads[block].occupied
        while lanes != ZERO:
            lane = lowest_bit(lanes)
            lanes &= lanes - ONE
            lane_low, lane_high = np.int64(codes[at + lane]), np.int64(codes[at + LANES + lane])
            low = max(low, lane_low + (lane_low & 1))
            high = min(high, lane_high - (lane_high & 1))
        cores[2 * (block * n_slots + slot)] = min(low, ANY_HIGH)
        cores[2 * (block * n_slots + slot) + 1] = high
    heads[block].cored = 1


@inlined
def widen_zone(
    block: Any,
    slot: Any,
    low: Any,
    high: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    places: Any,
    size: Any,
) -> None:
    """Make a block's zone and its group's hull hold [low, high] in a zoned slot."""
    n_zoned = size[2]
    if low > high:
        return
    group = block // LANES
    zone = (group * n_zoned + slot) * PAIR + block % LANES
    hull = ((group // LANES) * n_zoned + slot) * PAIR + group % LANES
    if low < zones[zone]:
        zones[zone] = low
        if low < hulls[hull]:
            hulls[hull] = low
    if high > zones[zone + LANES]:
        zones[zone + LANES] = high
        if high > hulls[hull + LANES]:
            hulls[hull + LANES] = high


@inlined
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
def choose_block(
    entry: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    places: Any,
    size: Any,
) -> Any:
    """The block whose zone grows least: the best group first, then the best block in it."""
    n_blocks, n_zoned = size[0], size[2]
    n_groups = (n_blocks + LANES - 1) // LANES
    best_group = 0
    best = np.inf
    best_volume = np.inf
    for group in range(n_groups):
        at = (group // LANES) * n_zoned * PAIR + group % LANES
        added, volume = growth(hulls, at, n_zoned, entry)
        if added < best or (added == best and volume < best_volume):
            best, best_volume, best_group = added, volume, group
    best_block = best_group * LANES
    best = np.inf
    best_volume = np.inf
    for block in range(best_group * LANES, min(n_blocks, (best_group + 1) * LANES)):
        at = best_group * n_zoned * PAIR + block % LANES
        added, volume = growth(zones, at, n_zoned, entry)
        if added < best or (added == best and volume < best_volume):
            best, best_volume, best_block = added, volume, block
    return best_block


@kernel
def put(
    block: Any,
    row: Any,
    entry: Any,
    exact: Any,
    awake: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    places: Any,
    size: Any,
) -> None:
    """Write a row into a free lane of a block that has one."""
    n_slots, n_zoned = size[1], size[2]
    lane = lowest_bit(~heads[block].occupied)
    bit = ONE << np.uint64(lane)
    heads[block].occupied |= bit
    heads[block].exact = (heads[block].exact & ~bit) | (bit if exact else ZERO)
    heads[block].awake = (heads[block].awake & ~bit) | (bit if awake else ZERO)
    tenants[block * LANES + lane] = row
    places[row] = block * LANES + lane
    for slot in range(n_slots):
        write(block, slot, lane, entry[slot, 0], entry[slot, 1], codes, heads, size)
        if slot < n_zoned:
            widen_zone(
                block,
                slot,
                entry[slot, 0],
                entry[slot, 1],
                codes,
                zones,
                hulls,
                heads,
                tenants,
                places,
                size,
            )


@kernel
def take(
    row: Any,
    entry: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    places: Any,
    size: Any,
) -> Any:
    """Take a row out of its lane, its codes into ``entry``; returns (block, exact, awake)."""
    n_slots = size[1]
    place = places[row]
    block = place // LANES
    lane = place % LANES
    bit = ONE << np.uint64(lane)
    exact = (heads[block].exact & bit) != ZERO
    awake = (heads[block].awake & bit) != ZERO
    heads[block].occupied &= ~bit
    heads[block].exact &= ~bit
    heads[block].awake &= ~bit
    tenants[place] = -1
    places[row] = -1
    for slot in range(n_slots):
        at = (block * n_slots + slot) * PAIR + lane
        entry[slot, 0] = codes[at]
        entry[slot, 1] = codes[at + LANES]
        codes[at] = ANY_HIGH
        codes[at + LANES] = NULL
    return block, exact, awake


@kernel
def split(
    block: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    places: Any,
    size: Any,
) -> None:
    """Move the upper half of a full block, along its relatively widest slot, to a new block."""
    n_slots, n_zoned = size[1], size[2]
    widest = 0
    best = -1.0
    for slot in range(n_zoned):
        at = (block * n_slots + slot) * PAIR
        low, high, total = ANY_HIGH, NULL, 1.0
        for lane in range(LANES):
            lane_low = np.int64(codes[at + lane])
            lane_high = np.int64(codes[at + LANES + lane])
            low, high = min(low, lane_low), max(high, lane_high)
            total += max(lane_high - lane_low, 0)
        if (high - low) / total > best:
            best = (high - low) / total
            widest = slot
    centres = np.empty(LANES, np.int64)
    at = (block * n_slots + widest) * PAIR
    for lane in range(LANES):
        centres[lane] = np.int64(codes[at + lane]) + np.int64(codes[at + LANES + lane])
    order = np.argsort(centres)
    new = size[0]
    size[0] += 1
    clear_block(new, codes, zones, hulls, heads, tenants, places, size)
    entry = np.empty((n_slots, 2), np.int16)
    for i in range(LANES // 2, LANES):
        row = tenants[block * LANES + order[i]]
        _, exact, awake = take(row, entry, codes, zones, hulls, heads, tenants, places, size)
        put(new, row, entry, exact, awake, codes, zones, hulls, heads, tenants, places, size)
    shrink_zone(block, codes, zones, hulls, heads, tenants, places, size)


@kernel
def add(
    row: Any,
    entry: Any,
    exact: Any,
    awake: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    places: Any,
    size: Any,
) -> None:
    """Insert a row where it widens the zones least; splits a full block. Needs room."""
    if size[0] == 0:
        clear_block(0, codes, zones, hulls, heads, tenants, places, size)
        size[0] = 1
    block = choose_block(entry, codes, zones, hulls, heads, tenants, places, size)
    if heads[block].occupied == ALL:
        split(block, codes, zones, hulls, heads, tenants, places, size)
        block = choose_block(entry, codes, zones, hulls, heads, tenants, places, size)
        if heads[block].occupied == ALL:
            split(block, codes, zones, hulls, heads, tenants, places, size)
            block = size[0] - 1
    put(block, row, entry, exact, awake, codes, zones, hulls, heads, tenants, places, size)


@kernel
def insert(
    rows: Any,
    entries: Any,
    exact: Any,
    awake: Any,
    begin: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    places: Any,
    size: Any,
) -> Any:
    """Insert rows from ``begin`` on; returns where it stopped for want of room."""
    for i in range(begin, rows.shape[0]):
        if size[0] + 2 >= heads.shape[0]:
            return i
        add(
            rows[i],
            entries[i],
            exact[i],
            awake[i],
            codes,
            zones,
            hulls,
            heads,
            tenants,
            places,
            size,
        )
    return rows.shape[0]


@kernel
def remove(
    rows: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    places: Any,
    size: Any,
) -> None:
    """Take rows out; a block left empty has an empty zone."""
    entry = np.empty((size[1], 2), np.int16)
    for i in range(rows.shape[0]):
        block, _, _ = take(rows[i], entry, codes, zones, hulls, heads, tenants, places, size)
        if heads[block].occupied == ZERO:
            shrink_zone(block, codes, zones, hulls, heads, tenants, places, size)


@kernel
def tighten(
    rows: Any,
    entries: Any,
    exact: Any,
    begin: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    places: Any,
    size: Any,
) -> Any:
    """Deescalate: K becomes k in every slot, and the row moves where it widens zones least."""
    old = np.empty((size[1], 2), np.int16)
    for i in range(begin, rows.shape[0]):
        if size[0] + 2 >= heads.shape[0]:
            return i
        block, _, awake = take(rows[i], old, codes, zones, hulls, heads, tenants, places, size)
        shrink_zone(block, codes, zones, hulls, heads, tenants, places, size)
        add(
            rows[i],
            entries[i],
            exact[i],
            awake,
            codes,
            zones,
            hulls,
            heads,
            tenants,
            places,
            size,
        )
    return rows.shape[0]


@kernel
def set_awake(
    rows: Any,
    awake: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    places: Any,
    size: Any,
) -> None:
    """Wake rows or put them to sleep: one bit each."""
    for i in range(rows.shape[0]):
        place = places[rows[i]]
        if place < 0:
            continue
        bit = ONE << np.uint64(place % LANES)
        if awake[i]:
            heads[place // LANES].awake |= bit
        else:
            heads[place // LANES].awake &= ~bit


@inlined
def reach(
    row: Any,
    spans: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    places: Any,
    size: Any,
) -> Any:
    """Share of the code space that a row's K admits: how often it will be a candidate."""
    n_slots = size[1]
    place = places[row]
    share = 1.0
    for slot in range(n_slots):
        at = ((place // LANES) * n_slots + slot) * PAIR + place % LANES
        low = max(np.int64(codes[at]), FIRST_GAP)
        high = min(np.int64(codes[at + LANES]), FIRST_GAP + spans[slot] - 1)
        share *= max(high - low + 1, 0) / spans[slot]
    return share


@inlined
def leave_room(
    row: Any,
    slot: Any,
    mode: Any,
    column: Any,
    cuts: Any,
    starts: Any,
    codes: Any,
    heads: Any,
    places: Any,
    n_slots: Any,
) -> Any:
    """Where k of a (row, slot) pair may move unseen: K; nowhere when K must be k.

    That is under EAGER and LOCAL, and where the row is exact.

    Everything for a row outside the index: no entry of its can be wrong.
    """
    place = places[row]
    if place < 0:
        return -np.inf, np.inf
    exact = heads[place // LANES].exact & (ONE << np.uint64(place % LANES)) != ZERO
    if mode != ESCALATE or exact:
        return np.inf, -np.inf
    at = ((place // LANES) * n_slots + column[slot]) * PAIR + place % LANES
    low = np.int64(codes[at])
    high = np.int64(codes[at + LANES])
    if low > high:
        return np.inf, -np.inf
    start = starts[slot]
    return lowest_key(low, cuts, start), highest_key(high, cuts, start, starts[slot + 1])


@kernel
def revise(
    rows: Any,
    slots: Any,
    lows: Any,
    highs: Any,
    mode: Any,
    slack: Any,
    heat: Any,
    hot: Any,
    spans: Any,
    limit: Any,
    begin: Any,
    cuts: Any,
    starts: Any,
    column: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    places: Any,
    size: Any,
    counters: Any,
    moves: Any,
    outside: Any,
) -> Any:
    """Carry new intervals k of (row, slot) pairs into the index, by strategy.

    EAGER moves a row to its best block when a zoned slot changes; LOCAL (GBU) only when the
    block's zone does not hold the new interval; ESCALATE (AGILE, Fig. 8) does nothing when k
    lies in K, else takes K = k with ``slack`` codes on both sides, in place, if the row has been
    disturbed often of late (its ``heat``), and acts as LOCAL if it has not. A row whose K would
    admit more than ``limit`` of all messages is taken out of the index and reported in
    ``outside``. A row that had no interval at all (its context's value was NULL) is placed
    afresh under any strategy. ``lows`` and ``highs`` become the room that k has from now on.
    Returns (entries done, rows reported).
    """
    n_slots, n_zoned = size[1], size[2]
    entry = np.empty((n_slots, 2), np.int16)
    n_outside = 0
    for i in range(begin, rows.shape[0]):
        row = rows[i]
        slot = column[slots[i]]
        place = places[row]
        start = starts[slots[i]]
        stop = starts[slots[i] + 1]
        low = np.int64(low_code(lows[i], highs[i], cuts, start, stop))
        high = np.int64(high_code(lows[i], highs[i], cuts, start, stop))
        if place < 0:
            continue
        block = place // LANES
        lane = place % LANES
        bit = ONE << np.uint64(lane)
        at = (block * n_slots + slot) * PAIR + lane
        old_low = np.int64(codes[at])
        old_high = np.int64(codes[at + LANES])
        if low == old_low and high == old_high:
            continue
        if mode == ESCALATE and old_low <= old_high:
            exact = (heads[block].exact & bit) != ZERO
            if not exact and (low > high or (old_low <= low and high <= old_high)):
                continue
            moved = np.float64(max(abs(low - old_low), abs(high - old_high)))
            moves[slot, 0] += 1.0
            moves[slot, 1] += moved * moved
            heat[row] = min(heat[row] + 1, 255)
            room = slack[slot] if heat[row] >= hot else 0
            if room > 0 and low <= high:
                counters[ESCALATED] += 1
                heads[block].exact &= ~bit
                low = max(low - room, ANY_LOW) if low > FIRST_GAP else low
                high = high + room
                if high > LAST_CODE:
                    high = ANY_HIGH
                if low < FIRST_GAP:
                    low = ANY_LOW
                write(block, slot, lane, low, high, codes, heads, size)
                if slot < n_zoned:
                    widen_zone(
                        block,
                        slot,
                        low,
                        high,
                        codes,
                        zones,
                        hulls,
                        heads,
                        tenants,
                        places,
                        size,
                    )
                if reach(row, spans, codes, zones, hulls, heads, tenants, places, size) > limit:
                    take(row, entry, codes, zones, hulls, heads, tenants, places, size)
                    outside[n_outside] = row
                    n_outside += 1
                continue
        stays = slot >= n_zoned
        if mode != EAGER and not stays:
            zone = ((block // LANES) * n_zoned + slot) * PAIR + block % LANES
            stays = low > high or (zones[zone] <= low and high <= zones[zone + LANES])
        if stays:
            write(block, slot, lane, low, high, codes, heads, size)
            counters[REWRITTEN if mode == EAGER else LOCAL_WRITE] += 1
            continue
        if size[0] + 2 >= heads.shape[0]:
            return i, n_outside
        _, exact, awake = take(row, entry, codes, zones, hulls, heads, tenants, places, size)
        entry[slot, 0] = low
        entry[slot, 1] = high
        add(row, entry, exact, awake, codes, zones, hulls, heads, tenants, places, size)
        counters[MOVED] += 1
    for i in range(rows.shape[0]):
        lows[i], highs[i] = leave_room(
            rows[i], slots[i], mode, column, cuts, starts, codes, heads, places, n_slots
        )
    return rows.shape[0], n_outside


@kernel
def fill(
    entries: Any,
    exact: Any,
    awake: Any,
    order: Any,
    rows: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    places: Any,
    size: Any,
) -> None:
    """Write rows into blocks in the given packing order; zones and hulls follow."""
    n_slots = size[1]
    n = order.shape[0]
    n_blocks = (n + LANES - 1) // LANES
    for block in range(n_blocks):
        clear_block(block, codes, zones, hulls, heads, tenants, places, size)
        for lane in range(LANES):
            position = block * LANES + lane
            if position >= n:
                break
            i = order[position]
            bit = ONE << np.uint64(lane)
            heads[block].occupied |= bit
            if exact[i]:
                heads[block].exact |= bit
            if awake[i]:
                heads[block].awake |= bit
            tenants[position] = rows[i]
            places[rows[i]] = position
            for slot in range(n_slots):
                low, high = entries[i, slot, 0], entries[i, slot, 1]
                write(block, slot, lane, low, high, codes, heads, size)
        shrink_zone(block, codes, zones, hulls, heads, tenants, places, size)


@kernel
def count_occupied(
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    places: Any,
    size: Any,
) -> Any:
    """Rows in the index, for invariants."""
    total = 0
    for block in range(size[0]):
        total += count_bits(heads[block].occupied)
    return total
