"""A minibatch against a block index: each block is tested with all messages while it is in cache.

Stages, for a run of minibatches (Batching section 3.1; ``kernels.grouping`` has made them):

- ``find_blocks``: the *union set* of a minibatch: blocks whose zones meet the hull of its messages;
- ``test_blocks``: each block of a union set with those messages of the minibatch that its zone
  holds, sixty-four messages at a time. Rows that codes decide become *hits*: a word of lanes of a
  block for a message. The others are tested row by row, each with all its messages at once,
  so that its bounds are looked up once; they become *finds*: a word of messages for a row;
- ``count`` and ``deliver``: hits and finds -> profile rows by message, in one pass over words.
"""

from typing import Any

import numpy as np

from germane.kernels.blocks import ALL, N_SLOTS, N_ZONED, ONE, PAIR, ZERO
from germane.kernels.blocks import N_BLOCKS as BLOCKS
from germane.kernels.blocktests import test_minibatch
from germane.kernels.codes import reach
from germane.kernels.compile import inlined, kernel
from germane.kernels.doubts import N_FINDS, N_WAITING, test_row
from germane.kernels.lanes import LANES, SPARE, between, count_bits, gather, lowest_bit, prefetch
from germane.kernels.lending import lent
from germane.kernels.runs import is_run, test_run

SOON, A_LINE, LINES = 32, 16, 3
"""Memory is asked for while rows are written: so far ahead, elements of a line, so many lines."""


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
    packed: Any,
    state: Any,
) -> Any:
    """The minibatches ``group .. last`` with their union sets, one after the other.

    Starts after the first ``done`` entries of ``union``; returns (minibatch, entries done) where it
    stopped for want of room.
    """
    while group < last:
        begin = ends[group - 1] if group > 0 else 0
        blocks = union[done : union_ends[group]]
        if is_run(begin, ends[group], batch, size):
            done += test_run(
                begin, ends[group], blocks, by_range, batch, index, codes, zones, heads, tenants,
                cores, briefs, column_of, size, rest, hits, finds, failed, waiting, packed, state,
            )  # fmt: skip
        else:
            done += test_minibatch(
                begin, ends[group], blocks, by_range, batch, index, codes, zones, heads, tenants,
                cores, briefs, column_of, size, rest, hits, finds, failed, waiting, state,
            )  # fmt: skip
        if done < union_ends[group]:
            return group, done
        group += 1
    return group, done


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
    batch, index, rest, finds = lent(batch), lent(index), lent(rest), lent(finds)
    failed, waiting, state = lent(failed), lent(waiting), lent(state)
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
def allot(members: Any, counts: Any, starts: Any) -> Any:
    """Where each message's rows go, ``SPARE`` elements between them; how many there are in all."""
    at = 0
    for i in range(members.shape[0]):
        starts[members[i]] = at
        at += counts[members[i]] + SPARE
    return at


@kernel
def go_back(members: Any, counts: Any, starts: Any, part: Any, number: Any) -> None:
    """After rows were written: each message's start again, and the part that they are in."""
    for i in range(members.shape[0]):
        starts[members[i]] -= counts[members[i]]
        part[members[i]] = number


@kernel
def deliver(
    hits: Any,
    finds: Any,
    order: Any,
    pairs: Any,
    tenants: Any,
    packed: Any,
    cursor: Any,
    out: Any,
) -> None:
    """Write the rows of hits, finds and pairs to where each message's go; cursors move on.

    Rows of a hit stand in ``tenants``, or ``packed`` if its block is one that a run has packed.
    Behind each message's rows, ``SPARE`` elements are free.
    """
    hits, tenants, packed = lent(hits), lent(tenants), lent(packed)
    cursor, out = lent(cursor), lent(out)
    for i in range(hits.shape[0]):
        block = np.int64(hits[i].block)
        message = hits[i].message
        if block >= 0:
            end = gather(tenants, block * LANES, hits[i].lanes, out, cursor[message])
        else:
            end = gather(packed, (-1 - block) * LANES, hits[i].lanes, out, cursor[message])
        cursor[message] = end
        for line in range(LINES):  # too many messages take turns for the processor to foresee it
            prefetch(out, end + SOON + line * A_LINE)
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
        mine = rows[starts[message] : starts[message] + counts[message]]
        out[places[message] : places[message] + counts[message]] = mine


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
