"""Rows that codes do not decide, each tested exactly with all messages of a chunk at once.

In: *doubts*, a row and a word of messages, collected over the blocks of a minibatch. Memory is
asked for when a doubt is noted and again, for the bounds, before the first is settled: what one
row waits for, all wait for together. Out: *finds*, a word of messages for a row.

A row that nothing but its slots decides is in doubt only where one of its bounds shares a gap of
the codes with the message: the other predicates are not looked at again.
"""

from typing import Any, NamedTuple

import numpy as np

from germane.kernels.blocks import ONE, PAIR, ZERO
from germane.kernels.compile import inlined, kernel
from germane.kernels.conjunctions import (
    HIGH_CONTEXT,
    HIGH_OPEN,
    LOW_CONTEXT,
    LOW_OPEN,
    ONLY_NULL,
    UNSEEN,
    ask_for_bounds,
    high_bound,
    holds,
    low_bound,
    run,
)
from germane.kernels.lanes import LANES, count_bits, keys_between, lowest_bit, prefetch
from germane.kernels.lending import lent

FIND = np.dtype([("messages", np.uint64), ("row", np.int32), ("begin", np.int32)])
"""A row that the messages at places ``begin + bit`` of the order match."""
DOUBT = np.dtype(
    [
        ("messages", np.uint64),  # at places chunk + bit
        ("slots", np.uint64),  # those that codes leave open; 0: the whole row is to be tested
        ("row", np.int64),
        ("chunk", np.int32),
        ("n", np.int32),  # messages of the chunk
    ]
)
MAX_DOUBTS = 512
LAST_BIT = 63
"""The bit of ``slots`` that stands for all slots from here on."""

# entries of ``state``: what a stage has done so far
(N_HITS, N_FINDS, N_FAILED, N_WAITING, N_OPENED, N_TESTED, N_CANDIDATES, N_PACKED, N_STATE) = range(
    9
)

FEW, MANY = 2, 16
"""Messages from which on the index of messages beats looking at each, if it is laid out; if not."""


class MessageIndex(NamedTuple):
    """Sixty-four messages by attribute, each laid out when it is first asked for (section 3.3).

    Differs: sixty-four values are compared at once, in the time of two binary searches, so that
    they need not be sorted, nor hashed for points.
    """

    chunk: Any  # [message slot] -> the chunk it is laid out for (place * 128 + size), or -1
    values: Any  # [message slot, message of the chunk]; NaN where there is none


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
            if is_worth_it(count_bits(messages), attribute, chunk, n, index):
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
def is_worth_it(n_messages: Any, attribute: Any, chunk: Any, n: Any, index: Any) -> Any:
    """Whether to ask the index of messages about so many of them."""
    if index.chunk.shape[0] == 0:
        return False
    least = FEW if index.chunk[attribute] == chunk * PAIR + n else MANY
    return n_messages >= least


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


@inlined
def slot_bit(slot: Any) -> Any:
    """The bit of a doubt's ``slots`` for a slot."""
    return ONE << np.uint64(min(slot, LAST_BIT))


@kernel
def settle(
    doubts: Any,
    n_doubts: Any,
    batch: Any,
    index: Any,
    column_of: Any,
    rest: Any,
    finds: Any,
    failed: Any,
    waiting: Any,
    state: Any,
) -> None:
    """Test the first doubts; there is room for a find each."""
    doubts, batch, index, column_of = lent(doubts), lent(batch), lent(index), lent(column_of)
    rest, finds, failed, waiting = lent(rest), lent(finds), lent(failed), lent(waiting)
    state = lent(state)
    rows, owner, shapes, forms, _, pool, values, _, _, _, _, _ = rest
    for i in range(n_doubts):
        row = doubts[i].row
        if doubts[i].slots == ZERO:
            ask_for_bounds(row, rows, owner, shapes, forms, pool, values)
            continue
        first = shapes[rows[row].shape].first
        for form in range(first, shapes[rows[row].shape].last):
            if doubts[i].slots & slot_bit(column_of[forms[form].attribute]) != ZERO:
                prefetch(pool, rows[row].at + (form - first) * rows[row].step)
    for i in range(n_doubts):
        row, messages = doubts[i].row, doubts[i].messages
        chunk, n = np.int64(doubts[i].chunk), np.int64(doubts[i].n)
        if doubts[i].slots == ZERO:
            test_row(
                row, messages, chunk, n, batch.vectors, batch.order, index, rest, finds, failed,
                waiting, state,
            )  # fmt: skip
            continue
        state[N_TESTED] += 1
        state[N_CANDIDATES] += count_bits(messages)
        first = shapes[rows[row].shape].first
        for form in range(first, shapes[rows[row].shape].last):
            attribute = forms[form].attribute
            if doubts[i].slots & slot_bit(column_of[attribute]) == ZERO:
                continue
            todo = messages
            while todo != ZERO:
                bit = lowest_bit(todo)
                todo &= todo - ONE
                value = batch.vectors[batch.order[chunk + bit], attribute]
                if not holds(value, row, form, first, rows, owner, forms, pool, values):
                    messages &= ~(ONE << np.uint64(bit))
        if messages != ZERO:
            find = state[N_FINDS]
            finds[find].messages = messages
            finds[find].row = row
            finds[find].begin = chunk
            state[N_FINDS] = find + 1
