"""A minibatch against a block index: each block is tested with all messages while it is in cache.

Stages, for a run of minibatches (Batching section 3.1; ``kernels.grouping`` has made them):

- ``find_blocks``: the *union set* of a minibatch: blocks whose zones meet the hull of its messages;
- ``test_blocks``: each block of a union set with those messages of the minibatch that its zone
  holds, sixty-four messages at a time. Rows that codes decide become *hits*: a word of lanes of a
  block for a message. The others are tested row by row, each with all its messages at once,
  so that its bounds are looked up once; they become *finds*: a word of messages for a row;
- ``count`` and ``deliver``: hits and finds -> profile rows by message, in one pass over words.

Almost every (message, block) pair that is tested has hits, but not quite: a hit is written
whether there is one or not, and counted if there is, because a branch would be guessed wrong.
"""

from typing import Any, NamedTuple

import numpy as np

from germane.kernels.blocks import ALL, N_SLOTS, N_ZONED, ONE, PAIR, ZERO, find_cores
from germane.kernels.blocks import N_BLOCKS as BLOCKS
from germane.kernels.briefs import find_briefs
from germane.kernels.codes import reach
from germane.kernels.compile import inlined, kernel
from germane.kernels.conjunctions import (
    HIGH_CONTEXT,
    HIGH_OPEN,
    LOW_CONTEXT,
    LOW_OPEN,
    ONLY_NULL,
    UNSEEN,
    ask_for_bounds,
    ask_for_row,
    high_bound,
    low_bound,
    run,
)
from germane.kernels.lanes import (
    LANES,
    between,
    copy_lanes,
    count_bits,
    deepen,
    gather,
    inside,
    keys_between,
    lanes_at,
    lowest_bit,
    narrow,
    prefetch,
    steps,
    touched,
)

HIT = np.dtype([("lanes", np.uint64), ("block", np.int32), ("message", np.int32)])
FIND = np.dtype([("messages", np.uint64), ("row", np.int32), ("begin", np.int32)])
"""A row that the messages at places ``begin + bit`` of the order match."""

# entries of ``state``: what a stage has done so far
(N_HITS, N_FINDS, N_FAILED, N_WAITING, N_OPENED, N_TESTED, N_CANDIDATES, N_STATE) = range(8)

SPARE_HITS, SPARE_FINDS = 1, 2 * LANES
"""Room that a block needs beyond one hit and one find a message."""
SOON = 32
"""Elements ahead that memory is asked for while rows are written."""
FEW = 2
"""Messages from which on the index of messages beats looking at each."""
DEEPEST = 32767


class Batch(NamedTuple):
    """The messages of a batch, in the order of its minibatches."""

    vectors: Any  # [n, message slot]
    order: Any  # place -> message
    columns: Any  # int16, flat [column][place], padded: codes in the order of places
    reaches: Any  # int16, flat [place][column][above, below]: see ``kernels.codes.reach``


class MessageIndex(NamedTuple):
    """Sixty-four messages by attribute, each laid out when it is first asked for (section 3.3).

    Differs: sixty-four values are compared at once, in the time of two binary searches, so that
    they need not be sorted, nor hashed for points.
    """

    chunk: Any  # [message slot] -> the chunk it is laid out for (place * 128 + size), or -1
    values: Any  # [message slot, message of the chunk]; NaN where there is none


@kernel
def arrange(keys: Any, order: Any, columns: Any, reaches: Any) -> None:
    """Codes of a batch in the order of its places."""
    n, n_columns = keys.shape
    stride = columns.shape[0] // max(n_columns, 1)
    for place in range(n):
        message = order[place]
        for column in range(n_columns):
            key = np.int64(keys[message, column])
            columns[column * stride + place] = key
            at = 2 * (place * n_columns + column)
            reaches[at], reaches[at + 1] = reach(key)


@kernel
def find_blocks(
    begin: Any, end: Any, columns: Any, stride: Any, hull: Any, zones: Any, hulls: Any, size: Any,
    union: Any,
) -> Any:  # fmt: skip
    """The blocks whose zones meet the hull of the messages at places ``begin .. end``."""
    n_blocks, n_zoned = size[BLOCKS], size[N_ZONED]
    for slot in range(n_zoned):
        low = columns[slot * stride + begin]
        high = low
        for place in range(begin + 1, end):
            low = min(low, columns[slot * stride + place])
            high = max(high, columns[slot * stride + place])
        hull[slot, 0] = low
        hull[slot, 1] = high
    n = 0
    n_groups = (n_blocks + LANES - 1) // LANES
    for supergroup in range((n_groups + LANES - 1) // LANES):
        groups = ALL
        for slot in range(n_zoned):
            at = (supergroup * n_zoned + slot) * PAIR
            groups &= meets(hulls, at, hull[slot, 0], hull[slot, 1])
        while groups != ZERO:
            group = supergroup * LANES + lowest_bit(groups)
            groups &= groups - ONE
            members = ALL
            for slot in range(n_zoned):
                at = (group * n_zoned + slot) * PAIR
                members &= meets(zones, at, hull[slot, 0], hull[slot, 1])
            while members != ZERO:
                union[n] = group * LANES + lowest_bit(members)
                members &= members - ONE
                n += 1
    return n


@inlined
def meets(codes: Any, at: Any, low: Any, high: Any) -> Any:
    """Bits of the intervals at ``codes[at:]`` that have a value in common with [low, high]."""
    return between(codes, at, np.int16(-32768), high) & between(
        codes, at + LANES, low, np.int16(32767)
    )


@kernel
def find_all(
    first: Any, last: Any, ends: Any, batch: Any, zones: Any, hulls: Any, size: Any,
    union: Any, union_ends: Any,
) -> Any:  # fmt: skip
    """Union sets of the minibatches ``first .. last``; stops early for want of room."""
    stride = batch.columns.shape[0] // max(size[N_SLOTS], 1)
    hull = np.empty((max(size[N_ZONED], 1), 2), np.int16)
    at = 0
    for group in range(first, last):
        if at + size[BLOCKS] > union.shape[0]:
            return group
        begin = ends[group - 1] if group > 0 else 0
        at += find_blocks(
            begin, ends[group], batch.columns, stride, hull, zones, hulls, size, union[at:]
        )
        union_ends[group] = at
    return last


@kernel
def test_blocks(
    group: Any,
    last: Any,
    done: Any,
    ends: Any,
    union: Any,
    union_ends: Any,
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
    """The minibatches ``group .. last`` with their union sets, one after the other.

    Starts after the first ``done`` entries of ``union``; returns (minibatch, entries done) where it
    stopped for want of room.
    """
    while group < last:
        begin = ends[group - 1] if group > 0 else 0
        done += test_minibatch(
            begin, ends[group], union[done : union_ends[group]], by_range, batch, index,
            codes, zones, heads, tenants, cores, briefs, column_of, size, rest, hits, finds,
            failed, waiting, state,
        )  # fmt: skip
        if done < union_ends[group]:
            return group, done
        group += 1
    return group, done


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
    n_slots, n_zoned = size[N_SLOTS], size[N_ZONED]
    vectors, order, columns, reaches = batch
    stride = columns.shape[0] // max(n_slots, 1)
    lane_messages = np.zeros(LANES, np.uint64)
    depths = np.full(LANES * LANES, DEEPEST, np.int16)
    n_hits = state[N_HITS]
    n_candidates = 0
    for u in range(union.shape[0]):
        block = union[u]
        if (
            n_hits + (end - begin) + SPARE_HITS > hits.shape[0]
            or state[N_FINDS] + (end - begin) + SPARE_FINDS > finds.shape[0]
        ):
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
            while messages != ZERO:
                bit = lowest_bit(messages)
                messages &= messages - ONE
                place = chunk + bit
                depth = lanes_at(depths, bit * LANES)
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
            asked = open_lanes
            while asked != ZERO:
                row = tenants[block * LANES + lowest_bit(asked)]
                ask_for_row(row, rest[0], rest[1], rest[6])
                asked &= asked - ONE
            asked = open_lanes
            while asked != ZERO:
                row = tenants[block * LANES + lowest_bit(asked)]
                ask_for_bounds(row, rest[0], rest[1], rest[2], rest[3], rest[5], rest[6])
                asked &= asked - ONE
            while open_lanes != ZERO:
                lane = lowest_bit(open_lanes)
                open_lanes &= open_lanes - ONE
                test_row(
                    tenants[block * LANES + lane], lane_messages[lane], chunk, n, vectors, order,
                    index, rest, finds, failed, waiting, state,
                )  # fmt: skip
                lane_messages[lane] = ZERO
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

    Slot by slot, so that a slot's bounds stay in registers; a message whose code lies in the core
    of a slot is in all its intervals and is passed over. Messages that are alike in the zoned
    slots stand next to each other, and a zone holds all of them or none: the first of them looks
    at those slots for all.
    """
    alike = ZERO
    for slot in range(n_zoned):
        alike |= steps(columns, slot * stride + chunk)
    firsts = messages & (alike << ONE | ONE)
    for slot in range(n_slots):
        core = 2 * (block * n_slots + slot)
        left = messages if slot >= n_zoned else firsts
        if slot > 0:
            left &= ~between(columns, slot * stride + chunk, cores[core], cores[core + 1])
        if slot == n_zoned:
            repeat(messages, firsts, depths)
        if left == ZERO:
            continue
        at = (block * n_slots + slot) * PAIR
        lows = lanes_at(codes, at)
        highs = lanes_at(codes, at + LANES)
        while left != ZERO:
            bit = lowest_bit(left)
            left &= left - ONE
            reach_at = 2 * ((chunk + bit) * n_slots + slot)
            above, below = reaches[reach_at], reaches[reach_at + 1]
            if slot == 0:
                deepen(depths, bit * LANES, lows, highs, above, below)
            else:
                narrow(depths, bit * LANES, lows, highs, above, below)
    if n_zoned == n_slots:
        repeat(messages, firsts, depths)


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
def test_row(
    row: Any,
    messages: Any,
    chunk: Any,
    n: Any,
    vectors: Any,
    order: Any,
    index: Any,
    rest: Any,
    finds: Any,
    failed: Any,
    waiting: Any,
    state: Any,
) -> None:
    """Test a row exactly with some of the messages at places ``chunk ..``, as a word of bits.

    False positives of predicates that follow a context go to ``failed``, messages that wait for a
    text to ``waiting`` as (message, row).
    """
    rows, owner, shapes, forms, code, pool, values, truth, cache, wanted, stack, graphs = rest
    if not rows[row].awake:
        return
    state[N_TESTED] += 1
    state[N_CANDIDATES] += count_bits(messages)
    shape = rows[row].shape
    first = shapes[shape].first
    for turn in range(first, shapes[shape].last):
        form = forms[turn].turn
        attribute = forms[form].attribute
        flags = forms[form].flags
        left = ZERO
        if flags & ONLY_NULL:
            todo = messages
            while todo != ZERO:
                bit = lowest_bit(todo)
                todo &= todo - ONE
                if vectors[order[chunk + bit], attribute] != vectors[order[chunk + bit], attribute]:
                    left |= ONE << np.uint64(bit)
        else:
            low = low_bound(row, form, first, rows, owner, forms, pool, values)
            high = high_bound(row, form, first, rows, owner, forms, pool, values)
            if count_bits(messages) >= FEW and index.chunk.shape[0] > 0:
                left = messages & look_up(
                    low, high, flags, attribute, chunk, n, vectors, order, index
                )
            else:
                todo = messages
                while todo != ZERO:
                    bit = lowest_bit(todo)
                    todo &= todo - ONE
                    value = vectors[order[chunk + bit], attribute]
                    if (
                        value >= low
                        and value <= high
                        and not (flags & LOW_OPEN and value == low)
                        and not (flags & HIGH_OPEN and value == high)
                    ):
                        left |= ONE << np.uint64(bit)
        forms[form].seen += count_bits(messages)
        forms[form].passed += count_bits(left)
        if flags & (LOW_CONTEXT | HIGH_CONTEXT):
            for _ in range(count_bits(messages & ~left)):
                if state[N_FAILED] < failed.shape[0]:
                    failed[state[N_FAILED]] = row
                    state[N_FAILED] += 1
        messages = left
        if messages == ZERO:
            return
    if shapes[shape].program < shapes[shape].program_end:
        todo = messages
        while todo != ZERO:
            bit = lowest_bit(todo)
            todo &= todo - ONE
            message = order[chunk + bit]
            outcome = run(
                shapes[shape].program, shapes[shape].program_end, row, vectors[message], rows,
                owner, code, pool, values, truth, cache, wanted, stack, graphs,
            )  # fmt: skip
            if outcome != 1.0:
                messages &= ~(ONE << np.uint64(bit))
            if outcome == UNSEEN:
                if state[N_WAITING] < waiting.shape[0]:
                    waiting[state[N_WAITING], 0] = message
                    waiting[state[N_WAITING], 1] = row
                state[N_WAITING] += 1
    if messages != ZERO:
        find = state[N_FINDS]
        finds[find].messages = messages
        finds[find].row = row
        finds[find].begin = chunk
        state[N_FINDS] = find + 1


@inlined
def look_up(
    low: Any, high: Any, flags: Any, attribute: Any, chunk: Any, n: Any, vectors: Any, order: Any,
    index: Any,
) -> Any:  # fmt: skip
    """The messages of a chunk whose value of an attribute lies within bounds, as a word."""
    if index.chunk[attribute] != chunk * PAIR + n:
        lay_column(attribute, chunk, n, vectors, order, index)
    at = attribute * LANES
    found = keys_between(index.values, at, low, high)
    if flags & LOW_OPEN:
        found &= ~keys_between(index.values, at, low, low)
    if flags & HIGH_OPEN:
        found &= ~keys_between(index.values, at, high, high)
    return found


@kernel
def lay_column(attribute: Any, chunk: Any, n: Any, vectors: Any, order: Any, index: Any) -> None:
    """Put the values that up to sixty-four messages have of an attribute next to each other."""
    index.chunk[attribute] = chunk * PAIR + n
    for bit in range(n):
        index.values[attribute, bit] = vectors[order[chunk + bit], attribute]
    for bit in range(n, LANES):
        index.values[attribute, bit] = np.nan


@kernel
def sweep_chunks(
    begin: Any,
    outside: Any,
    batch: Any,
    index: Any,
    rest: Any,
    finds: Any,
    failed: Any,
    waiting: Any,
    state: Any,
) -> Any:
    """All rows that no index holds (bits of ``outside``) with all messages, chunk by chunk.

    The index of messages stands in for one of profiles (Full/MIx). Starts at a place; returns
    where it stopped for want of room.
    """
    vectors, order = batch.vectors, batch.order
    for chunk in range(begin, order.shape[0], LANES):
        n = min(order.shape[0] - chunk, LANES)
        messages = ALL if n == LANES else (ONE << np.uint64(n)) - ONE
        n_finds, n_waiting = state[N_FINDS], state[N_WAITING]
        for word in range(outside.shape[0]):
            bits = outside[word]
            while bits != ZERO:
                row = word * LANES + lowest_bit(bits)
                bits &= bits - ONE
                if state[N_FINDS] >= finds.shape[0]:
                    state[N_FINDS] = n_finds
                    state[N_WAITING] = n_waiting
                    return chunk
                test_row(
                    row, messages, chunk, n, vectors, order, index, rest, finds, failed, waiting,
                    state,
                )  # fmt: skip
    return order.shape[0]


@kernel
def count(hits: Any, finds: Any, order: Any, pairs: Any, counts: Any) -> None:
    """Add to each message's count what hits, finds and pairs hold for it."""
    for i in range(hits.shape[0]):
        counts[hits[i].message] += count_bits(hits[i].lanes)
    for i in range(finds.shape[0]):
        messages = finds[i].messages
        while messages != ZERO:
            counts[order[finds[i].begin + lowest_bit(messages)]] += 1
            messages &= messages - ONE
    for i in range(pairs.shape[0]):
        counts[pairs[i, 0]] += 1


@kernel
def deliver(
    hits: Any, finds: Any, order: Any, pairs: Any, tenants: Any, cursor: Any, out: Any
) -> None:
    """Write the rows of hits, finds and pairs to where each message's go; cursors move on.

    Behind each message's rows, ``SPARE`` elements are free.
    """
    for i in range(hits.shape[0]):
        base = np.int64(hits[i].block) * LANES
        message = hits[i].message
        end = gather(tenants, base, hits[i].lanes, out, cursor[message])
        cursor[message] = end
        prefetch(out, end + SOON)  # too many messages take turns for the processor to foresee it
    for i in range(finds.shape[0]):
        messages = finds[i].messages
        while messages != ZERO:
            message = order[finds[i].begin + lowest_bit(messages)]
            out[cursor[message]] = finds[i].row
            cursor[message] += 1
            messages &= messages - ONE
    for i in range(pairs.shape[0]):
        out[cursor[pairs[i, 0]]] = pairs[i, 1]
        cursor[pairs[i, 0]] += 1


@kernel
def lay_out(rows: Any, members: Any, starts: Any, counts: Any, places: Any, out: Any) -> None:
    """Copy some messages' rows to where each message has its place in ``out``."""
    for i in range(members.shape[0]):
        message = members[i]
        begin = starts[message]
        place = places[message]
        for k in range(counts[message]):
            out[place + k] = rows[begin + k]


@kernel
def translate(rows: Any, members: Any, starts: Any, counts: Any, profile: Any) -> None:
    """Rows of conjunctions -> rows of profiles, in place; what lies between is left alone."""
    for i in range(members.shape[0]):
        begin = starts[members[i]]
        for k in range(begin, begin + counts[members[i]]):
            rows[k] = profile[rows[k]]


@kernel
def once_each(rows: Any, members: Any, starts: Any, counts: Any) -> None:
    """Make each message's rows distinct, in place; counts shrink."""
    for i in range(members.shape[0]):
        message = members[i]
        begin = starts[message]
        part = np.sort(rows[begin : begin + counts[message]])
        n = 0
        for k in range(part.shape[0]):
            if k == 0 or part[k] != part[k - 1]:
                rows[begin + n] = part[k]
                n += 1
        counts[message] = n
