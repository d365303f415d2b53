"""Messages of a batch -> minibatches of messages that are alike (Batching section 3.2).

``keys[n, column]`` are the codes of a batch under one index, its zoned columns first; ``order``
says which message stands where, ``ends`` where each minibatch ends. The tuned default sets runs
apart, messages that are equal in all zoned columns, each a minibatch of its own, and halves the
rest: a minibatch is the leaf of a k-d tree. The others are the paper's: they cut a batch that is
sorted lexicographically.
"""

from typing import Any

import numpy as np

from germane.kernels.blocks import ONE
from germane.kernels.codes import FIRST_CUT, FIRST_GAP, N_BUCKETS, NULL, bucket
from germane.kernels.compile import inlined, kernel
from germane.kernels.lanes import KEYS_AT_ONCE, count_bits, keys_below, prefetch
from germane.kernels.lending import lent
from germane.kernels.runs import RUN

PACKED = 4
"""Columns whose codes fit the 64-bit word that messages are sorted by."""
OFFSET = 32768
SAMPLE = 64
"""Messages by which the spread of a part is judged."""
AHEAD = 128
"""Messages whose cuts are asked for before the first of them is compared."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""Odd, and its multiples are spread evenly: a hash."""


@kernel
def encode_batch(
    vectors: Any,
    attributes: Any,
    column: Any,
    cuts: Any,
    grid: Any,
    ladder: Any,
    keys: Any,
) -> None:
    """Codes of messages [n, column], from their vectors and the cuts of an index.

    As ``kernels.codes.encode_at``, but thirty-two cuts are compared at once instead of one after
    the other, so that nothing is guessed wrong, and asked for many messages ahead.
    """
    cuts, grid, ladder = lent(cuts), lent(grid), lent(ladder)
    vectors, keys = lent(vectors), lent(keys)
    lows = np.empty(AHEAD, np.int64)
    ends = np.empty(AHEAD, np.int64)
    for begin in range(0, vectors.shape[0], AHEAD):
        stop = min(begin + AHEAD, vectors.shape[0])
        for slot in range(attributes.shape[0]):
            first = slot * (N_BUCKETS + 1)
            first_cut, last_cut = np.int64(ladder[first]), np.int64(ladder[first + N_BUCKETS])
            for i in range(begin, stop):
                at = first + bucket(vectors[i, attributes[slot]], grid, slot)
                lows[i - begin], ends[i - begin] = ladder[at], ladder[at + 1]
                prefetch(cuts, np.int64(ladder[at]))
                prefetch(cuts, np.int64(ladder[at]) + 8)
            for i in range(begin, stop):
                value = vectors[i, attributes[slot]]
                low, end = lows[i - begin], ends[i - begin]
                while end - low > KEYS_AT_ONCE:
                    middle = (low + end) >> 1
                    less = cuts[middle] < value
                    low, end = (middle + 1, end) if less else (low, middle)
                if low + KEYS_AT_ONCE <= cuts.shape[0]:
                    of_bucket = (ONE << np.uint64(end - low)) - ONE
                    low += count_bits(keys_below(cuts, low, value) & of_bucket)
                else:
                    while low < end and cuts[low] < value:
                        low += 1
                exact = low < last_cut and cuts[low] == value
                code = (FIRST_CUT if exact else FIRST_GAP) + 2 * (low - first_cut)
                keys[i, column[slot]] = NULL if value != value else code


@kernel
def pack_keys(keys: Any, packed: Any) -> None:
    """The first columns of each message as one word that sorts as they do, lexicographically."""
    n_columns = min(keys.shape[1], PACKED)
    for i in range(keys.shape[0]):
        word = np.uint64(0)
        for column in range(n_columns):
            part = np.uint64(np.int64(keys[i, column]) + OFFSET)
            word |= part << np.uint64(16 * (PACKED - 1 - column))
        packed[i] = word


@kernel
def find_crowds(packed: Any, shift: Any, counts: Any, crowded: Any, loose: Any) -> Any:
    """Tell messages that may be in a run from those that are not; how many may.

    The zoned columns are ``packed >> shift``. ``counts``, zeros, as many as a power of two, are of
    messages whose zoned columns have the same hash.
    """
    bits = 0
    while 1 << bits < counts.shape[0]:
        bits += 1
    down = np.uint64(64 - bits)
    for i in range(packed.shape[0]):
        counts[((packed[i] >> shift) * GOLDEN) >> down] += 1
    n_crowded = n_loose = 0
    for i in range(packed.shape[0]):
        crowded[n_crowded] = i
        loose[n_loose] = i
        one_of_many = counts[((packed[i] >> shift) * GOLDEN) >> down] >= RUN
        n_crowded += one_of_many
        n_loose += not one_of_many
    return n_crowded


@kernel
def set_apart(packed: Any, shift: Any, crowded: Any, loose: Any, order: Any, ends: Any) -> Any:
    """Make each run a minibatch, from messages sorted by ``packed``; then those that are loose.

    Returns (number of runs, where the loose ones begin).
    """
    n_runs = n_apart = 0
    at = order.shape[0] - loose.shape[0]
    for i in range(loose.shape[0]):
        order[at + i] = loose[i]
    begin = 0
    for i in range(1, crowded.shape[0] + 1):
        if i < crowded.shape[0] and (
            packed[crowded[i]] >> shift == packed[crowded[begin]] >> shift
        ):
            continue
        if i - begin >= RUN:
            for k in range(begin, i):
                order[n_apart] = crowded[k]
                n_apart += 1
            ends[n_runs] = n_apart
            n_runs += 1
        else:
            for k in range(begin, i):
                at -= 1
                order[at] = crowded[k]
        begin = i
    return n_runs, n_apart


@kernel
def halve(
    keys: Any, units: Any, most: Any, order: Any, first: Any, ends: Any, n_groups: Any
) -> Any:
    """Halve ``order[first:]`` along the column of largest spread, to parts of at most ``most``.

    ``units`` weigh the spreads of the columns that count. A part whose messages are equal in all
    of them stays whole. Minibatches are added to the ``n_groups`` in ``ends``; returns how many
    there are then. O(n log n).
    """
    keys, order = lent(keys), lent(order)
    n = order.shape[0]
    pairs = np.empty(n, np.int64)
    begins = np.empty(128, np.int64)
    stops = np.empty(128, np.int64)
    begins[0], stops[0], depth = first, n, 1 if first < n else 0
    while depth > 0:
        depth -= 1
        begin, end = begins[depth], stops[depth]
        widest = 0
        spread = 0.0
        if end - begin > most:
            widest, spread = find_widest(keys, units, order, begin, end, (end - begin) // SAMPLE)
            if spread == 0.0:  # of a sample
                widest, spread = find_widest(keys, units, order, begin, end, 1)
        if spread == 0.0:
            ends[n_groups] = end
            n_groups += 1
            continue
        middle = (begin + end) // 2
        for i in range(begin, end):
            pairs[i] = (np.int64(keys[order[i], widest]) << 32) | order[i]
        select_pairs(pairs, begin, end, middle)
        for i in range(begin, end):
            order[i] = np.int32(pairs[i] & 0xFFFFFFFF)
        begins[depth], stops[depth] = middle, end
        begins[depth + 1], stops[depth + 1] = begin, middle
        depth += 2
    return n_groups


@inlined
def select_pairs(pairs: Any, begin: Any, end: Any, middle: Any) -> None:
    """Put the lowest of ``pairs[begin:end]``, which are distinct, before ``middle`` (quickselect).

    Each is moved whether it is below the pivot or not: nothing is guessed wrong.
    """
    first, last = begin, end - 1
    while first < last:
        a, b, c = pairs[first], pairs[(first + last) // 2], pairs[last]
        pivot = max(min(a, b), min(max(a, b), c))
        at = last
        if pivot == a:
            at = first
        elif pivot == b:
            at = (first + last) // 2
        pairs[at] = c
        place = first
        for i in range(first, last):
            pair = pairs[i]
            pairs[i] = pairs[place]
            pairs[place] = pair
            place += pair < pivot
        pairs[last] = pairs[place]
        pairs[place] = pivot
        if middle < place:
            last = place - 1
        elif middle > place + 1:
            first = place + 1
        else:
            return


@inlined
def find_widest(keys: Any, units: Any, order: Any, begin: Any, end: Any, step: Any) -> Any:
    """(column of largest spread, spread) of every ``step``-th message of ``order[begin:end]``."""
    widest = 0
    spread = 0.0
    for column in range(units.shape[0]):
        low = np.int64(keys[order[begin], column])
        high = low
        for i in range(begin, end, max(step, 1)):
            key = np.int64(keys[order[i], column])
            low = min(low, key)
            high = max(high, key)
        if (high - low) * units[column] > spread:
            spread = (high - low) * units[column]
            widest = column
    return widest, spread


@kernel
def sort_groups(packed: Any, order: Any, ends: Any, first: Any, n_groups: Any) -> None:
    """Sort each minibatch from the first on lexicographically."""
    begin = ends[first - 1] if first > 0 else 0
    for group in range(first, n_groups):
        end = ends[group]
        if end - begin <= 64:
            for i in range(begin + 1, end):
                message = order[i]
                word = packed[message]
                place = i
                while place > begin and packed[order[place - 1]] > word:
                    order[place] = order[place - 1]
                    place -= 1
                order[place] = message
        else:
            part = order[begin:end].copy()
            ranked = np.argsort(packed[part])
            for i in range(end - begin):
                order[begin + i] = part[ranked[i]]
        begin = end


@kernel
def cut_by_value(
    firsts: Any, seconds: Any, first_width: Any, second_width: Any, least: Any, most: Any, ends: Any
) -> Any:
    """Cut a sorted batch where a value leaves the range of its minibatch; returns how many.

    Ranges are cells of a fixed grid of ``first_width`` and ``second_width`` (infinite: any value).
    NULLs are a cell of their own. A minibatch smaller than ``least`` is joined to the next one.
    """
    n = firsts.shape[0]
    n_groups = 0
    begin = 0
    for i in range(1, n + 1):
        if i < n:
            same = cell(firsts[i], first_width) == cell(firsts[i - 1], first_width) and cell(
                seconds[i], second_width
            ) == cell(seconds[i - 1], second_width)
            if (same and i - begin < most) or i - begin < least:
                continue
        ends[n_groups] = i
        n_groups += 1
        begin = i
    return n_groups


@inlined
def cell(value: Any, width: Any) -> Any:
    """The cell of a grid in which a value lies; -inf for NULL."""
    if value != value:
        return -np.inf
    if width == np.inf:
        return 0.0
    return np.floor(value / width)
