"""What a filter's profiles ask of messages, summed up by groups of contexts.

A row's bound on a message slot is a constant, or factor * context + constant. Of all rows of a
group, bounds are kept by the context slot that they read (the last column: none): the least and the
greatest factor, and the outermost constant. Whatever value a context of the group has, its bound is
not outside what follows from these (floating-point products and sums keep their order).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.kernels.compile import inlined, kernel
from germane.kernels.conjunctions import HIGH_CONTEXT, LOW_CONTEXT, ONLY_NULL

CONSTANT, LEAST, MOST = range(3)


class Asked(NamedTuple):
    """By group and message slot."""

    lows: NDArray[np.float64]  # and context slot: constant, least and greatest factor
    highs: NDArray[np.float64]
    anything: NDArray[np.bool_]  # some row asks nothing of this slot
    nothing: NDArray[np.bool_]  # some row asks that it is NULL
    n_rows: NDArray[np.int64]  # by group


@kernel
def gather(
    groups: Any, slots: Any, others: Any, rows: Any, n_rows: Any, owner: Any, shapes: Any,
    forms: Any, pool: Any, lows: Any, highs: Any, anything: Any, nothing: Any, counts: Any,
) -> None:  # fmt: skip
    """Sum up all rows; `groups` by context row (the last: of profiles without one).

    `slots` and `others` say which column a message slot and a context slot have, or -1.
    """
    n_slots = anything.shape[1]
    for row in range(n_rows):
        shape = rows[row].shape
        if shape < 0:
            continue
        g = groups[owner[row]] if owner[row] >= 0 else groups[groups.shape[0] - 1]
        counts[g] += 1
        asked = np.zeros(n_slots, np.bool_)
        first = shapes[shape].first
        for form in range(first, shapes[shape].last):
            slot = slots[forms[form].attribute]
            if slot < 0:
                continue
            flags = forms[form].flags
            if flags & ONLY_NULL:
                nothing[g, slot] = asked[slot] = True
                continue
            at = rows[row].at + (form - first) * rows[row].step
            low, factor = lows.shape[2] - 1, 0.0
            if flags & LOW_CONTEXT:
                low, factor = others[forms[form].low_context], forms[form].low_factor
            high, high_factor = highs.shape[2] - 1, 0.0
            if flags & HIGH_CONTEXT:
                high, high_factor = others[forms[form].high_context], forms[form].high_factor
            if low < 0 or high < 0:
                continue  # a context attribute that is not followed: anything
            asked[slot] = True
            widen(lows[g, slot, low], pool[at], factor, True)
            widen(highs[g, slot, high], pool[at + 1], high_factor, False)
        for slot in range(n_slots):
            if not asked[slot]:
                anything[g, slot] = True


@inlined
def widen(term: Any, constant: Any, factor: Any, is_low: Any) -> None:
    """Take another bound in."""
    if is_low:
        term[CONSTANT] = min(term[CONSTANT], constant)
    else:
        term[CONSTANT] = max(term[CONSTANT], constant)
    term[LEAST] = min(term[LEAST], factor)
    term[MOST] = max(term[MOST], factor)


@kernel
def may_match(
    messages: Any, lows: Any, highs: Any, anything: Any, nothing: Any, counts: Any, shards: Any,
    wanted: Any, out: Any,
) -> None:  # fmt: skip
    """Which shards have a group whose rows may match a message, of the groups that it wants.

    `lows` and `highs` are of groups and slots; `shards` is each group's; `out[message, shard]`.
    """
    for i in range(messages.shape[0]):
        for g in range(lows.shape[0]):
            if counts[g] == 0 or not wanted[i, g] or out[i, shards[g]]:
                continue
            may = True
            for slot in range(lows.shape[1]):
                value = messages[i, slot]
                if anything[g, slot]:
                    continue
                if value != value:
                    may = nothing[g, slot]
                else:
                    may = lows[g, slot] <= value <= highs[g, slot]
                if not may:
                    break
            if may:
                out[i, shards[g]] = True
