"""A run, messages that are equal in all zoned slots, against the rows that can match any of them.

The zoned slots decide once for the whole run. Of the lanes of a block they leave few, one in four
where most messages are sent to the same people; those are *packed*: their codes in the other
slots, and their rows, move together from block after block until there are sixty-four, and only
then are the messages compared with them. So a message of a run meets a quarter of the blocks, and
its rows are delivered from a quarter as many words.
"""

from typing import Any

import numpy as np

from germane.kernels.blocks import ALL, N_SLOTS, N_ZONED, ONE, PAIR, ZERO
from germane.kernels.blocktests import (
    DEEPEST,
    SPARE_FINDS,
    SPARE_HITS,
    note,
    open_slots,
    test_minibatch,
)
from germane.kernels.compile import inlined, kernel
from germane.kernels.conjunctions import ask_for_row
from germane.kernels.doubts import (
    DOUBT,
    MAX_DOUBTS,
    N_CANDIDATES,
    N_FINDS,
    N_HITS,
    N_OPENED,
    N_PACKED,
    settle,
    slot_bit,
)
from germane.kernels.lanes import (
    LANES,
    between,
    copy_lanes,
    count_bits,
    deepest,
    depth_in,
    gather,
    highest,
    inside,
    lanes_at,
    least,
    lowest,
    lowest_bit,
    narrowed,
    prefetch,
    put_lanes,
    squeeze,
    touched,
)
from germane.kernels.lending import lent

RUN = 8
"""Messages from which on packing pays."""
WIDTH = 3 * LANES
"""Lanes of a column of packed codes: what is left of the last blocks, one more, and room."""


@inlined
def is_run(begin: Any, end: Any, batch: Any, size: Any) -> Any:
    """Whether a minibatch, which is sorted, is a run worth packing rows for."""
    n_slots, n_zoned = size[N_SLOTS], size[N_ZONED]
    if end - begin < RUN or n_zoned == 0 or n_slots == n_zoned:
        return False
    stride = batch.columns.shape[0] // n_slots
    for slot in range(n_zoned):
        if batch.columns[slot * stride + begin] != batch.columns[slot * stride + end - 1]:
            return False
    return True


@kernel
def test_run(
    begin: Any,
    end: Any,
    union: Any,
    by_range: Any,
    batch: Any,
    index: Any,
    codes: Any,
    zones: Any,
    heads: Any,
    tenants: Any,
    cores: Any,
    briefs: Any,
    column_of: Any,
    size: Any,
    rest: Any,
    hits: Any,
    finds: Any,
    failed: Any,
    waiting: Any,
    packed: Any,
    state: Any,
) -> Any:
    """A run, the messages at places ``begin .. end``, against the blocks of a union set.

    Blocks with rows that their slots do not decide are tested as for any minibatch. Rows that are
    packed go to ``packed``, 64 a block of hits. Returns how many blocks of the union set were
    done; fewer for want of room.
    """
    union, batch, index, rest = lent(union), lent(batch), lent(index), lent(rest)
    codes, zones, heads, tenants = lent(codes), lent(zones), lent(heads), lent(tenants)
    column_of, size, packed = lent(column_of), lent(size), lent(packed)
    hits, finds, state = lent(hits), lent(finds), lent(state)
    n_slots, n_zoned = size[N_SLOTS], size[N_ZONED]
    n_columns = 2 * (n_slots - n_zoned)
    columns, reaches = batch.columns, batch.reaches
    stride = columns.shape[0] // n_slots
    dense = np.empty(n_columns * WIDTH, np.int16)  # flat [slot][low, high][lane]
    rows = np.empty(WIDTH, np.int32)
    unsure = np.zeros(2, np.uint64)  # lanes that the zoned slots leave in doubt
    core = np.empty(n_columns, np.int16)
    lane_messages = np.zeros(LANES, np.uint64)
    depths = np.full(LANES * LANES, DEEPEST, np.int16)
    doubts = np.empty(MAX_DOUBTS, DOUBT)
    n_doubts = n_candidates = fill = u = 0
    goes_on = True
    while goes_on:
        # What is packed already, and one more block, must find room.
        goes_on = (
            u < union.shape[0]
            and state[N_HITS] + 2 * (end - begin) + SPARE_HITS <= hits.shape[0]
            and state[N_FINDS] + n_doubts + 2 * (end - begin + SPARE_FINDS) <= finds.shape[0]
            and (state[N_PACKED] + 2) * LANES <= packed.shape[0]
        )
        if goes_on:
            block = union[u]
            awake = heads[block].awake
            if awake & ~heads[block].exact != ZERO:
                alone = union[u : u + 1]
                if 0 == test_minibatch(
                    begin, end, alone, by_range, batch, index, codes, zones, heads, tenants, cores,
                    briefs, column_of, size, rest, hits, finds, failed, waiting, state,
                ):  # fmt: skip
                    goes_on = False
                else:
                    u += 1
            else:
                u += 1
                if awake != ZERO and is_in_zone(block, begin, n_zoned, columns, stride, zones):
                    if u < union.shape[0]:
                        after = union[u] * n_slots * PAIR
                        for line in range(0, n_slots * PAIR, 32):
                            prefetch(codes, after + line)
                    state[N_OPENED] += end - begin
                    base = block * n_slots * PAIR
                    depth = deepest()
                    for slot in range(n_zoned):
                        at = 2 * (begin * n_slots + slot)
                        depth = narrowed(depth, codes, base + slot * PAIR, reaches, at)
                    lanes = touched(depth) & awake
                    open_lanes = lanes & ~inside(depth)
                    base += n_zoned * PAIR
                    for column in range(n_columns):
                        squeeze(codes, base + column * LANES, lanes, dense, column * WIDTH + fill)
                    gather(tenants, block * LANES, lanes, rows, fill)
                    while open_lanes != ZERO:
                        below = (open_lanes & (ZERO - open_lanes)) - ONE
                        open_lanes &= open_lanes - ONE
                        place = fill + count_bits(lanes & below)
                        unsure[place // LANES] |= ONE << np.uint64(place % LANES)
                    fill += count_bits(lanes)
        if fill == 0 or (goes_on and fill < LANES):
            continue
        number = state[N_PACKED]
        state[N_PACKED] += 1
        n_lanes = min(fill, LANES)
        lived = ALL if n_lanes == LANES else (ONE << np.uint64(n_lanes)) - ONE
        for lane in range(LANES):
            packed[number * LANES + lane] = rows[lane]
        for slot in range(n_slots - n_zoned):
            low, high = np.int64(DEEPEST), np.int64(-DEEPEST)
            if n_lanes == LANES:  # else there are lanes without a row
                low = np.int64(highest(dense, 2 * slot * WIDTH))
                high = np.int64(lowest(dense, (2 * slot + 1) * WIDTH))
                low, high = min(low + (low & 1), DEEPEST), high - (high & 1)
            core[2 * slot] = low
            core[2 * slot + 1] = high
        for chunk in range(begin, end, LANES):
            n = min(end - chunk, LANES)
            messages = ALL if n == LANES else (ONE << np.uint64(n)) - ONE
            for slot in range(n_slots - n_zoned):
                left = messages
                at = n_zoned + slot
                if slot > 0:
                    left &= ~between(
                        columns, at * stride + chunk, core[2 * slot], core[2 * slot + 1]
                    )
                lows = lanes_at(dense, 2 * slot * WIDTH)
                highs = lanes_at(dense, (2 * slot + 1) * WIDTH)
                while left != ZERO:
                    bit = lowest_bit(left)
                    left &= left - ONE
                    depth = depth_in(lows, highs, reaches, 2 * ((chunk + bit) * n_slots + at))
                    if slot > 0:
                        depth = least(depth, lanes_at(depths, bit * LANES))
                    put_lanes(depths, bit * LANES, depth)
            n_hits = state[N_HITS]
            surely = lived & ~unsure[0]
            open_lanes = same_lanes = same_messages = ZERO
            while messages != ZERO:
                bit = lowest_bit(messages)
                messages &= messages - ONE
                depth = lanes_at(depths, bit * LANES)
                found = touched(depth) & lived
                certain = inside(depth) & surely
                hits[n_hits].lanes = certain
                hits[n_hits].block = -1 - number
                hits[n_hits].message = batch.order[chunk + bit]
                n_hits += certain != ZERO
                n_candidates += count_bits(certain)
                found &= ~certain
                if found != same_lanes:
                    note(same_lanes, same_messages, lane_messages)
                    open_lanes |= found
                    same_lanes, same_messages = found, ZERO
                same_messages |= ONE << np.uint64(bit)
            note(same_lanes, same_messages, lane_messages)
            state[N_HITS] = n_hits
            if n_doubts + LANES > MAX_DOUBTS:
                settle(
                    doubts, n_doubts, batch, index, column_of, rest, finds, failed, waiting, state
                )
                n_doubts = 0
            while open_lanes != ZERO:
                lane = lowest_bit(open_lanes)
                open_lanes &= open_lanes - ONE
                row = np.int64(rows[lane])
                ask_for_row(row, rest[0], rest[1], rest[6])
                doubt = doubts[n_doubts]
                doubt.messages = lane_messages[lane]
                doubt.row = row
                doubt.chunk = chunk
                doubt.n = n
                slots = open_slots(
                    lane_messages[lane], chunk, n_zoned, n_slots, dense, lane, 2 * WIDTH, WIDTH,
                    n_slots, reaches,
                )  # fmt: skip
                if unsure[0] & (ONE << np.uint64(lane)) != ZERO:
                    for slot in range(n_zoned):
                        slots |= slot_bit(slot)
                doubt.slots = slots
                n_doubts += 1
                lane_messages[lane] = ZERO
        for column in range(n_columns):
            copy_lanes(dense, column * WIDTH, column * WIDTH + LANES)
        for lane in range(LANES):
            rows[lane] = rows[LANES + lane]
        unsure[0], unsure[1] = unsure[1], ZERO
        fill -= n_lanes
    settle(doubts, n_doubts, batch, index, column_of, rest, finds, failed, waiting, state)
    state[N_CANDIDATES] += n_candidates
    return u


@inlined
def is_in_zone(block: Any, place: Any, n_zoned: Any, columns: Any, stride: Any, zones: Any) -> Any:
    """Whether a block's zone holds the message at a place."""
    zone = (block // LANES) * n_zoned * PAIR + block % LANES
    for slot in range(n_zoned):
        key = columns[slot * stride + place]
        if key < zones[zone + slot * PAIR] or key > zones[zone + slot * PAIR + LANES]:
            return False
    return True
