"""Order-preserving 16-bit codes for keys: what a block holds in place of float64 bounds.

A codec is a sorted run of at most ``MAX_CUTS`` *cuts*. A key equal to a cut has an even code,
a key between two cuts the odd code between theirs. The map is monotone, so comparing codes
never loses a match; it is exact unless the compared key lies strictly between two cuts and the
bound lies in the same gap. Special codes: ``NULL`` (a missing value), ``ANY_LOW`` and
``ANY_HIGH`` (unbounded, but not NULL). An interval that admits NULL starts at ``NULL``; an empty
one is (``ANY_HIGH``, ``NULL``).

Intervals travel as two float64: closed [low, high]; low > high is empty; (NaN, NaN) is
unconstrained, NULL included; (NaN, -inf) is NULL alone.
"""

from typing import Any

import numpy as np

from germane.kernels.compile import inlined, kernel

NULL = -32768
ANY_LOW = -32766
FIRST_GAP = -32765
FIRST_CUT = -32764
ANY_HIGH = 32767
LAST_CODE = 32765
MAX_CUTS = (LAST_CODE - FIRST_CUT + 1) // 2
N_BUCKETS = 2048


@inlined
def encode(key: Any, cuts: Any, start: Any, stop: Any) -> Any:
    """Code of a key under the cuts ``cuts[start:stop]``. O(log cuts)."""
    if key != key:
        return NULL
    low = start
    n = stop - start
    while n > 1:  # without branches on the key: searches of several slots overlap
        half = n >> 1
        low = low + half if cuts[low + half - 1] < key else low
        n -= half
    if n == 1 and cuts[low] < key:
        low += 1
    position = low - start
    if low < stop and cuts[low] == key:
        return FIRST_CUT + 2 * position
    return FIRST_GAP + 2 * position


@inlined
def bucket(key: Any, grid: Any, slot: Any) -> Any:
    """The bucket of a key in a slot's grid of equal steps; monotone in the key."""
    step = (key - grid[2 * slot]) * grid[2 * slot + 1]
    if not step > 0.0:
        return np.int64(0)
    return np.int64(min(step, N_BUCKETS - 1.0))


@inlined
def encode_at(key: Any, cuts: Any, grid: Any, ladder: Any, slot: Any) -> Any:
    """As ``encode``, looking only among the cuts of the key's bucket.

    ``ladder[slot * (N_BUCKETS + 1) + b]`` is the first cut whose bucket is at least b; with b = 0
    the slot's first cut, with b = N_BUCKETS the end of its cuts.
    """
    if key != key:
        return NULL
    first = slot * (N_BUCKETS + 1)
    at = first + bucket(key, grid, slot)
    low = np.int64(ladder[at])
    n = np.int64(ladder[at + 1]) - low
    while n > 0:  # without branches, which would be guessed wrong every other time
        half = n >> 1
        right = np.int64(cuts[low + half] < key)
        low += right * (half + 1)
        n = half - right * (2 * half + 1 - n)
    position = low - ladder[first]
    exact = low < ladder[first + N_BUCKETS] and cuts[low] == key
    return (FIRST_CUT if exact else FIRST_GAP) + 2 * position


@kernel
def lay_ladder(cuts: Any, starts: Any, grid: Any, ladder: Any) -> None:
    """Grid and ladder of all slots, for ``encode_at``."""
    for slot in range(starts.shape[0] - 1):
        start, stop = starts[slot], starts[slot + 1]
        grid[2 * slot] = cuts[start] if start < stop else 0.0
        width = cuts[stop - 1] - cuts[start] if start < stop else 0.0
        steps = N_BUCKETS / width if width > 0.0 else 0.0
        grid[2 * slot + 1] = steps if steps < np.inf else 0.0
        at = slot * (N_BUCKETS + 1)
        cut = start
        for b in range(N_BUCKETS):
            while cut < stop and bucket(cuts[cut], grid, slot) < b:
                cut += 1
            ladder[at + b] = cut
        ladder[at + N_BUCKETS] = stop


@inlined
def reach(code: Any) -> Any:
    """(above, below): a bound's depth is above - low, or high - below.

    Above 0 the bound surely holds the key, at 0 it may (they share a gap, or the key is a cut and
    the bound in the gap beyond it), below 0 it does not.
    """
    even = 1 - (code & 1)
    return code + even, max(code - even, NULL)


@inlined
def low_code(low: Any, high: Any, cuts: Any, start: Any, stop: Any) -> Any:
    """Code of an interval's lower end."""
    if low != low:
        return NULL
    if low > high:
        return ANY_HIGH
    if low == -np.inf:
        return ANY_LOW
    return encode(low, cuts, start, stop)


@inlined
def high_code(low: Any, high: Any, cuts: Any, start: Any, stop: Any) -> Any:
    """Code of an interval's upper end."""
    if low != low:
        return ANY_HIGH if high != high else NULL
    if low > high:
        return NULL
    if high == np.inf:
        return ANY_HIGH
    return encode(high, cuts, start, stop)


@inlined
def lowest_key(code: Any, cuts: Any, start: Any) -> Any:
    """The smallest key whose code is at least ``code`` (for interval ends, never NULL)."""
    if code <= FIRST_GAP:
        return -np.inf
    if code == ANY_HIGH:
        return np.inf
    if code & 1:
        return np.nextafter(cuts[start + (code - FIRST_GAP) // 2 - 1], np.inf)
    return cuts[start + (code - FIRST_CUT) // 2]


@inlined
def highest_key(code: Any, cuts: Any, start: Any, stop: Any) -> Any:
    """The largest key whose code is at most ``code`` (for interval ends, never NULL)."""
    if code == ANY_HIGH or code >= FIRST_GAP + 2 * (stop - start):
        return np.inf
    if code < FIRST_GAP:
        return -np.inf
    if code & 1:
        return np.nextafter(cuts[start + (code - FIRST_GAP) // 2], -np.inf)
    return cuts[start + (code - FIRST_CUT) // 2]


@kernel
def encode_column(keys: Any, cuts: Any, start: Any, stop: Any, out: Any) -> None:
    """Codes of many keys of one slot."""
    for i in range(keys.shape[0]):
        out[i] = encode(keys[i], cuts, start, stop)


@kernel
def encode_intervals(lows: Any, highs: Any, cuts: Any, starts: Any, out: Any) -> None:
    """Codes of many intervals: out[n, slots, 2] int16."""
    for i in range(lows.shape[0]):
        for slot in range(lows.shape[1]):
            low = lows[i, slot]
            high = highs[i, slot]
            out[i, slot, 0] = low_code(low, high, cuts, starts[slot], starts[slot + 1])
            out[i, slot, 1] = high_code(low, high, cuts, starts[slot], starts[slot + 1])


@kernel
def decode_intervals(codes: Any, cuts: Any, start: Any, stop: Any, lows: Any, highs: Any) -> None:
    """Key intervals of code intervals [n, 2] of one slot; an empty one is all NaN."""
    for i in range(codes.shape[0]):
        low = np.int64(codes[i, 0])
        high = np.int64(codes[i, 1])
        if low > high:
            lows[i] = np.nan
            highs[i] = np.nan
        else:
            lows[i] = lowest_key(low, cuts, start)
            highs[i] = highest_key(high, cuts, start, stop)
