"""Names -> numbers, many at a time: a hash table over the bytes of names.

Names are as Arrow keeps strings: ``ends`` (one more than there are names) into bytes. A slot of the
table is 0, or the upper half of a name's hash and its number plus one; a name is at its hash or
behind it, before the next free slot. At most half of the slots are used.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from germane.kernels.compile import inlined, kernel
from germane.kernels.lanes import prefetch

UNKNOWN = -1
WORD = 8
AHEAD, SOON, NEXT = 24, 16, 8
"""So far ahead a name's slot is asked for, then where the name of that slot is, then its bytes."""
ODD = np.uint64(0x9E3779B97F4A7C15)
NUMBER = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


@intrinsic
def word_at(typing_context: Any, data: Any, offset: Any) -> Any:
    """Eight bytes from anywhere in an array of bytes."""
    signature = types.uint64(data, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        array = context.make_array(sig.args[0])(context, builder, args[0])
        place = builder.gep(array.data, [args[1]])
        word = builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return signature, generate


@inlined
def last_word(data: Any, begin: Any, end: Any) -> Any:
    """The last bytes of a name, eight if it has so many."""
    if end - begin >= WORD:
        return word_at(data, end - WORD)
    word = np.uint64(0)
    for i in range(begin, end):
        word = word << np.uint64(8) | np.uint64(data[i])
    return word


@inlined
def hash_of(data: Any, begin: Any, end: Any) -> Any:
    """A number that names have in common with few others."""
    mixed = np.uint64(end - begin) * ODD
    for i in range(begin, end - WORD, WORD):
        mixed = (mixed ^ word_at(data, i)) * ODD
        mixed ^= mixed >> HALF
    mixed = (mixed ^ last_word(data, begin, end)) * ODD
    return mixed ^ mixed >> HALF


@inlined
def same(data: Any, begin: Any, end: Any, others: Any, at: Any, until: Any) -> Any:
    """Whether two names have the same bytes."""
    if end - begin != until - at:
        return False
    for i in range(0, end - begin - WORD, WORD):
        if word_at(data, begin + i) != word_at(others, at + i):
            return False
    return last_word(data, begin, end) == last_word(others, at, until)


@kernel
def fill(ends: Any, data: Any, kept: Any, table: Any) -> None:
    """Put distinct names into an empty table, those that are kept."""
    mask = np.uint64(table.shape[0] - 1)
    for number in range(ends.shape[0] - 1):
        if kept[number]:
            mixed = hash_of(data, np.int64(ends[number]), np.int64(ends[number + 1]))
            slot = mixed & mask
            while table[slot]:
                slot = slot + np.uint64(1) & mask
            table[slot] = mixed >> HALF << HALF | np.uint64(number + 1)


@inlined
def first_number(table: Any, mixed: Any) -> Any:
    """The number in the slot of a hash, where it may well be; any number if it is free."""
    slot = table[mixed & np.uint64(table.shape[0] - 1)]
    return max(np.int64(slot & NUMBER) - 1, np.int64(0))


@kernel
def find(
    ends: Any, data: Any, names_end: Any, names: Any, table: Any, hashes: Any, numbers: Any
) -> None:
    """The numbers of names, or UNKNOWN; ``hashes`` is scratch."""
    mask = np.uint64(table.shape[0] - 1)
    n = ends.shape[0] - 1
    for i in range(n):
        hashes[i] = hash_of(data, np.int64(ends[i]), np.int64(ends[i + 1]))
    for i in range(n):
        if i + AHEAD < n:
            prefetch(table, np.int64(hashes[i + AHEAD] & mask))
        if i + SOON < n:
            prefetch(names_end, first_number(table, hashes[i + SOON]))
        if i + NEXT < n:
            prefetch(names, np.int64(names_end[first_number(table, hashes[i + NEXT])]))
        numbers[i] = UNKNOWN
        slot = hashes[i] & mask
        while table[slot]:
            if table[slot] >> HALF == hashes[i] >> HALF:
                number = np.int64(table[slot] & NUMBER) - 1
                begin, end = np.int64(names_end[number]), np.int64(names_end[number + 1])
                if same(data, np.int64(ends[i]), np.int64(ends[i + 1]), names, begin, end):
                    numbers[i] = number
                    break
            slot = slot + np.uint64(1) & mask
