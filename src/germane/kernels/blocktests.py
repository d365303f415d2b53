"""A minibatch's messages against the blocks of its union set, slot by slot, word by word.

Sixty-four messages at a time: which of them a block's zone holds is one comparison a slot; how deep
each lies in the block's intervals (``kernels.lanes``) is found slot by slot for all of them. What
codes decide becomes *hits*, a word of lanes for a message; the rest are *doubts*
(``kernels.doubts``).

Almost every (message, block) pair that is tested has hits, but not quite: a hit is written
whether there is one or not, and counted if there is, because a branch would be guessed wrong.
"""

from typing import Any, NamedTuple

import numpy as np

from germane.kernels.blocks import ALL, N_SLOTS, N_ZONED, ONE, PAIR, ZERO, find_cores
from germane.kernels.briefs import find_briefs
from germane.kernels.compile import inlined, kernel
from germane.kernels.conjunctions import ask_for_row
from germane.kernels.doubts import (
    DOUBT,
    MAX_DOUBTS,
    N_CANDIDATES,
    N_FINDS,
    N_HITS,
    N_OPENED,
    look_up,
    settle,
    slot_bit,
)
from germane.kernels.lanes import (
    LANES,
    between,
    copy_lanes,
    count_bits,
    depth_in,
    inside,
    lanes_at,
    least,
    lowest_bit,
    prefetch,
    put_lanes,
    steps,
    touched,
)
from germane.kernels.lending import lent

HIT = np.dtype([("lanes", np.uint64), ("block", np.int32), ("message", np.int32)])
"""Lanes of a block that a message matches; block -1 - i is the i-th packed one."""
SPARE_HITS, SPARE_FINDS = 1, 2 * LANES
"""Room that a block needs beyond one hit and one find a message."""
DEEPEST = 32767


class Batch(NamedTuple):
    """The messages of a batch, in the order of its minibatches."""

    vectors: Any  # [n, message slot]
    order: Any  # place -> message
    columns: Any  # int16, flat [column][place], padded: codes in the order of places
    reaches: Any  # int16, flat [place][column][above, below]: see ``kernels.codes.reach``


@kernel
def test_minibatch(
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
    state: Any,
) -> Any:
    """A minibatch, the messages at places ``begin .. end``, against the blocks of a union set.

    With ``by_range`` (the minibatch is sorted by its first column) each block looks up where its
    messages are. Returns how many blocks of the union set were done; fewer for want of room.
    """
    union, batch, index, rest = lent(union), lent(batch), lent(index), lent(rest)
    codes, zones, heads, tenants = lent(codes), lent(zones), lent(heads), lent(tenants)
    cores, briefs, column_of, size = lent(cores), lent(briefs), lent(column_of), lent(size)
    hits, finds, state = lent(hits), lent(finds), lent(state)
    n_slots, n_zoned = size[N_SLOTS], size[N_ZONED]
    vectors, order, columns, reaches = batch
    stride = columns.shape[0] // max(n_slots, 1)
    lane_messages = np.zeros(LANES, np.uint64)
    depths = np.full(LANES * LANES, DEEPEST, np.int16)
    doubts = np.empty(MAX_DOUBTS, DOUBT)
    n_doubts = 0
    n_hits = state[N_HITS]
    n_candidates = 0
    for u in range(union.shape[0]):
        block = union[u]
        if (
            n_hits + (end - begin) + SPARE_HITS > hits.shape[0]
            or state[N_FINDS] + n_doubts + (end - begin) + SPARE_FINDS > finds.shape[0]
        ):
            settle(doubts, n_doubts, batch, index, column_of, rest, finds, failed, waiting, state)
            state[N_HITS] = n_hits
            state[N_CANDIDATES] += n_candidates
            return u
        zone = (block // LANES) * n_zoned * PAIR + block % LANES
        awake = heads[block].awake
        exact = heads[block].exact
        if awake == ZERO:
            continue
        if u + 1 < union.shape[0]:
            after = union[u + 1] * n_slots * PAIR
            for line in range(0, n_slots * PAIR, 32):
                prefetch(codes, after + line)
        start, stop = begin, end
        if by_range and n_zoned > 0 and end - begin > LANES:
            start = first_at_least(columns, begin, end, zones[zone])
            stop = first_at_least(columns, start, end, np.int64(zones[zone + LANES]) + 1)
        for chunk in range(start, stop, LANES):
            n = min(stop - chunk, LANES)
            messages = ALL if n == LANES else (ONE << np.uint64(n)) - ONE
            for slot in range(n_zoned):
                at = zone + slot * PAIR
                messages &= between(columns, slot * stride + chunk, zones[at], zones[at + LANES])
            if messages == ZERO:
                continue
            state[N_OPENED] += count_bits(messages)
            if heads[block].cored == 0:
                find_cores(block, n_slots, codes, heads, cores)
                if briefs.shape[0] > 0:
                    find_briefs(
                        block, column_of, heads, tenants, rest[0], rest[2], rest[3], rest[5],
                        briefs,
                    )  # fmt: skip
            sound(
                block, messages, chunk, n_slots, n_zoned, columns, stride, reaches, codes, cores,
                depths,
            )  # fmt: skip
            open_lanes = same_lanes = same_messages = ZERO
            last = min(n_zoned, n_slots - 1)  # where all are zoned, one is looked at twice
            at = (block * n_slots + last) * PAIR
            lows, highs = lanes_at(codes, at), lanes_at(codes, at + LANES)
            while messages != ZERO:
                bit = lowest_bit(messages)
                messages &= messages - ONE
                place = chunk + bit
                depth = least(
                    lanes_at(depths, bit * LANES),
                    depth_in(lows, highs, reaches, 2 * (place * n_slots + last)),
                )
                found = touched(depth) & awake
                certain = inside(depth) & found & exact
                hits[n_hits].lanes = certain
                hits[n_hits].block = block
                hits[n_hits].message = order[place]
                n_hits += certain != ZERO
                n_candidates += count_bits(certain)
                found &= ~certain
                if found != same_lanes:  # messages that are alike leave the same lanes open
                    note(same_lanes, same_messages, lane_messages)
                    open_lanes |= found
                    same_lanes, same_messages = found, ZERO
                same_messages |= ONE << np.uint64(bit)
            note(same_lanes, same_messages, lane_messages)
            if briefs.shape[0] > 0 and index.chunk.shape[0] > 0:
                asked = open_lanes
                while asked != ZERO:
                    lane = lowest_bit(asked)
                    asked &= asked - ONE
                    brief = briefs[block * LANES + lane]
                    if brief.attribute >= 0:
                        lane_messages[lane] &= look_up(
                            brief.low, brief.high, 0, brief.attribute, chunk, n, vectors, order,
                            index,
                        )  # fmt: skip
                        if lane_messages[lane] == ZERO:
                            open_lanes &= ~(ONE << np.uint64(lane))
            if n_doubts + LANES > MAX_DOUBTS:
                settle(
                    doubts, n_doubts, batch, index, column_of, rest, finds, failed, waiting, state
                )
                n_doubts = 0
            while open_lanes != ZERO:
                lane = lowest_bit(open_lanes)
                open_lanes &= open_lanes - ONE
                row = np.int64(tenants[block * LANES + lane])
                ask_for_row(row, rest[0], rest[1], rest[6])
                doubt = doubts[n_doubts]
                doubt.messages = lane_messages[lane]
                doubt.slots = ZERO
                doubt.row = row
                doubt.chunk = chunk
                doubt.n = n
                if exact & (ONE << np.uint64(lane)) != ZERO:
                    at = block * n_slots * PAIR + lane
                    doubt.slots = open_slots(
                        lane_messages[lane], chunk, 0, n_slots, codes, at, PAIR, LANES, n_slots,
                        reaches,
                    )  # fmt: skip
                n_doubts += 1
                lane_messages[lane] = ZERO
    settle(doubts, n_doubts, batch, index, column_of, rest, finds, failed, waiting, state)
    state[N_HITS] = n_hits
    state[N_CANDIDATES] += n_candidates
    return union.shape[0]


@inlined
def sound(
    block: Any,
    messages: Any,
    chunk: Any,
    n_slots: Any,
    n_zoned: Any,
    columns: Any,
    stride: Any,
    reaches: Any,
    codes: Any,
    cores: Any,
    depths: Any,
) -> None:
    """How deep each of some messages lies in a block's intervals: 64 depths a message.

    In all slots (one at least is zoned) but the first that is not zoned, slot by slot, so that a
    slot's bounds stay in registers; a message whose code lies in the core of a slot is in all its
    intervals and is passed over. Messages that are alike in the zoned slots stand next to each
    other, and a zone holds all of them or none: the first of them looks at those slots for all.
    """
    alike = ZERO
    for slot in range(n_zoned):
        alike |= steps(columns, slot * stride + chunk)
    firsts = messages & (alike << ONE | ONE)
    together = 0
    if n_zoned >= 3:  # mostly so, and three pairs of bounds fit the registers
        sound_three(block, firsts, chunk, n_slots, reaches, codes, depths)
        together = 3
    for slot in range(together, n_slots):
        if slot == n_zoned:  # whoever takes the answer looks at this one
            continue
        core = 2 * (block * n_slots + slot)
        left = messages if slot > n_zoned else firsts
        if slot > 0:
            left &= ~between(columns, slot * stride + chunk, cores[core], cores[core + 1])
        if slot == n_zoned + 1:
            repeat(messages, firsts, depths)
        if left == ZERO:
            continue
        at = (block * n_slots + slot) * PAIR
        lows, highs = lanes_at(codes, at), lanes_at(codes, at + LANES)
        while left != ZERO:
            bit = lowest_bit(left)
            left &= left - ONE
            depth = depth_in(lows, highs, reaches, 2 * ((chunk + bit) * n_slots + slot))
            if slot > 0:
                depth = least(depth, lanes_at(depths, bit * LANES))
            put_lanes(depths, bit * LANES, depth)
    if n_zoned + 1 >= n_slots:
        repeat(messages, firsts, depths)


@inlined
def sound_three(
    block: Any, messages: Any, chunk: Any, n_slots: Any, reaches: Any, codes: Any, depths: Any
) -> None:
    """How deep messages lie in a block's first three slots."""
    at = block * n_slots * PAIR
    low_0, high_0 = lanes_at(codes, at), lanes_at(codes, at + LANES)
    low_1, high_1 = lanes_at(codes, at + PAIR), lanes_at(codes, at + PAIR + LANES)
    low_2, high_2 = lanes_at(codes, at + 2 * PAIR), lanes_at(codes, at + 2 * PAIR + LANES)
    while messages != ZERO:
        bit = lowest_bit(messages)
        messages &= messages - ONE
        reach_at = 2 * (chunk + bit) * n_slots
        depth = depth_in(low_0, high_0, reaches, reach_at)
        depth = least(depth, depth_in(low_1, high_1, reaches, reach_at + 2))
        depth = least(depth, depth_in(low_2, high_2, reaches, reach_at + 4))
        put_lanes(depths, bit * LANES, depth)


@inlined
def note(lanes: Any, messages: Any, lane_messages: Any) -> None:
    """Add messages to those that some lanes are to be tested with."""
    while lanes != ZERO:
        lane_messages[lowest_bit(lanes)] |= messages
        lanes &= lanes - ONE


@inlined
def repeat(messages: Any, firsts: Any, depths: Any) -> None:
    """Give the messages after each first one its depths."""
    left = messages & ~firsts
    while left != ZERO:
        bit = lowest_bit(left)
        left &= left - ONE
        copy_lanes(depths, bit * LANES, (bit - 1) * LANES)


@inlined
def first_at_least(columns: Any, begin: Any, end: Any, key: Any) -> Any:
    """The first place in ``begin .. end``, sorted by the first column, whose code is not less."""
    while begin < end:
        middle = (begin + end) >> 1
        if columns[middle] < key:
            begin = middle + 1
        else:
            end = middle
    return begin


@inlined
def open_slots(
    messages: Any,
    chunk: Any,
    first: Any,
    last: Any,
    codes: Any,
    at: Any,
    step: Any,
    gap: Any,
    n_slots: Any,
    reaches: Any,
) -> Any:
    """Those of the slots ``first .. last`` in which a lane's bound shares a gap with a message.

    The lane's bounds in the first of them are ``codes[at]`` and ``codes[at + gap]``, in the next
    ``step`` further on.
    """
    slots = ZERO
    for slot in range(first, last):
        low = codes[at + (slot - first) * step]
        high = codes[at + (slot - first) * step + gap]
        left = messages
        while left != ZERO:
            reach_at = 2 * ((chunk + lowest_bit(left)) * n_slots + slot)
            left &= left - ONE
            if low == reaches[reach_at] or high == reaches[reach_at + 1]:
                slots |= slot_bit(slot)
    return slots
