"""The context store's loops: store columns of new values, and find what they disturb.

``values[attribute, context]`` is the current value (NaN is NULL). ``guards[attribute, context]``
is a pair of int16: while a new value's grid code stays between them, no index entry that was
made from the old value has to move (AGILE: k' in K), so storing it is the whole update. A
guard is conservative: outside it, the entries are looked at one by one. ``OPEN`` guards admit
everything but NULL, ``SHUT`` guards nothing.
"""

from typing import Any

import numpy as np

from germane.kernels.compile import inlined, kernel
from germane.kernels.conjunctions import (
    CONTEXT,
    CONTEXT_TEXT,
    HIGH_CONTEXT,
    LOW_CONTEXT,
    interval,
)

MINIMUM, MAXIMUM = -32768, 32767
EDGE = 32000.0
"""Grid codes are cut here; a value beyond is admitted by no guard but an open one."""
SHUT = (1, 0)


@kernel
def store(
    contexts: Any,
    values: Any,
    column: Any,
    guards: Any,
    origin: Any,
    scale: Any,
    disturbed: Any,
) -> Any:
    """Write values into a column; contexts whose guard does not admit theirs -> ``disturbed``."""
    n = 0
    for i in range(contexts.shape[0]):
        context = contexts[i]
        value = values[i]
        column[context] = value
        code = (value - origin) * scale
        low = guards[context, 0]
        high = guards[context, 1]
        inside = (low == MINIMUM or (code >= low and code <= EDGE)) and (
            high == MAXIMUM or (code <= high and code >= -EDGE)
        )
        if not inside or value != value:
            disturbed[n] = context
            n += 1
    return n


@kernel
def store_plain(contexts: Any, values: Any, column: Any) -> None:
    """Write values into a column that nothing watches."""
    for i in range(contexts.shape[0]):
        column[contexts[i]] = values[i]


@kernel
def look_up(ids: Any, dense: Any, rows: Any) -> Any:
    """Rows of integer ids, -1 where unknown; how many are unknown."""
    unknown = 0
    for i in range(ids.shape[0]):
        key = ids[i]
        row = dense[key] if 0 <= key < dense.shape[0] else -1
        rows[i] = row
        unknown += row < 0
    return unknown


@inlined
def reads(form: Any, attribute: Any, forms: Any) -> Any:
    """Whether an interval predicate has a bound on a context attribute, and an index follows it."""
    flags = forms[form].flags
    return not forms[form].loose and (
        (flags & LOW_CONTEXT and forms[form].low_context == attribute)
        or (flags & HIGH_CONTEXT and forms[form].high_context == attribute)
    )


@kernel
def entries_of(
    contexts: Any,
    attribute: Any,
    head: Any,
    rows: Any,
    owner: Any,
    shapes: Any,
    forms: Any,
    code: Any,
    pool: Any,
    values: Any,
    out_rows: Any,
    out_forms: Any,
    out_lows: Any,
    out_highs: Any,
    out_sleepers: Any,
) -> Any:
    """The predicates that read a context attribute, with their k now, and rows to re-wake.

    Returns (entries, rows with a context-only program); writes only what fits the buffers, so
    a caller that sees more than fits comes again with larger ones.
    """
    n = 0
    n_sleepers = 0
    room = out_rows.shape[0]
    for i in range(contexts.shape[0]):
        row = head[contexts[i]]
        while row >= 0:
            shape = rows[row].shape
            first = shapes[shape].first
            for form in range(first, shapes[shape].last):
                if reads(form, attribute, forms):
                    if n < room:
                        low, high = interval(row, form, first, rows, owner, forms, pool, values)
                        out_rows[n] = row
                        out_forms[n] = form
                        out_lows[n] = low
                        out_highs[n] = high
                    n += 1
            if shapes[shape].wakes < shapes[shape].wakes_end:
                if n_sleepers < out_sleepers.shape[0]:
                    out_sleepers[n_sleepers] = row
                n_sleepers += 1
            row = rows[row].next
    return n, n_sleepers


@inlined
def grid(value: Any, origin: Any, scale: Any) -> Any:
    """A value's place on an attribute's guard grid, cut to what an int16 holds."""
    return min(max((value - origin) * scale, -EDGE), EDGE)


@inlined
def narrow(
    low: Any,
    high: Any,
    constant: Any,
    factor: Any,
    context: Any,
    guards: Any,
    origin: Any,
    scale: Any,
) -> None:
    """Intersect a guard with the x for which factor * x + constant lies in [low, high]."""
    if not (abs(constant) < 1e300 and abs(factor) > 1e-6 and abs(factor) < 1e6):
        guards[context, 0] = SHUT[0]
        guards[context, 1] = SHUT[1]
        return
    for end in range(2):
        limit = low if end == 0 else high
        if limit == (-np.inf if end == 0 else np.inf):
            continue
        if abs(limit) == np.inf:
            guards[context, 0] = SHUT[0]
            guards[context, 1] = SHUT[1]
            continue
        margin = 8.0 * 2.3e-16 * (abs(limit) + abs(constant)) / abs(factor)
        x = (limit - constant) / factor
        if (end == 0) == (factor > 0.0):
            least = np.int64(np.ceil(grid(x + margin, origin, scale))) + 1
            if guards[context, 0] == MINIMUM or least > guards[context, 0]:
                guards[context, 0] = least
        else:
            most = np.int64(np.floor(grid(x - margin, origin, scale))) - 1
            if guards[context, 1] == MAXIMUM or most < guards[context, 1]:
                guards[context, 1] = most


@kernel
def lay_guards(
    contexts: Any,
    out_rows: Any,
    out_forms: Any,
    room_lows: Any,
    room_highs: Any,
    sleepers: Any,
    attribute: Any,
    rows: Any,
    owner: Any,
    shapes: Any,
    forms: Any,
    code: Any,
    pool: Any,
    guards: Any,
    origin: Any,
    scale: Any,
) -> None:
    """New guards for some contexts, from how far each of their entries may move.

    A bound is factor * x + constant; solved for x with a margin of one grid cell and of the
    rounding of the arithmetic. Contexts of sleepers get no guard: any change may wake them.
    """
    for i in range(contexts.shape[0]):
        guards[contexts[i], 0] = MINIMUM
        guards[contexts[i], 1] = MAXIMUM
    for i in range(out_rows.shape[0]):
        row = out_rows[i]
        form = out_forms[i]
        context = owner[row]
        flags = forms[form].flags
        at = rows[row].at + (form - shapes[rows[row].shape].first) * rows[row].step
        low = room_lows[i]
        high = room_highs[i]
        if low > high:
            guards[context, 0] = SHUT[0]
            guards[context, 1] = SHUT[1]
            continue
        if flags & LOW_CONTEXT and forms[form].low_context == attribute:
            factor = forms[form].low_factor
            narrow(low, high, pool[at], factor, context, guards, origin, scale)
        if flags & HIGH_CONTEXT and forms[form].high_context == attribute:
            factor = forms[form].high_factor
            narrow(low, high, pool[at + 1], factor, context, guards, origin, scale)
    for i in range(sleepers.shape[0]):
        context = owner[sleepers[i]]
        guards[context, 0] = SHUT[0]
        guards[context, 1] = SHUT[1]


@kernel
def link(rows_new: Any, head: Any, rows: Any, owner: Any) -> None:
    """Put rows at the front of their contexts' lists."""
    for i in range(rows_new.shape[0]):
        row = rows_new[i]
        context = owner[row]
        if context >= 0:
            rows[row].next = head[context]
            head[context] = row


@kernel
def unlink(rows_old: Any, head: Any, rows: Any, owner: Any) -> None:
    """Take rows out of their contexts' lists."""
    for i in range(rows_old.shape[0]):
        row = rows_old[i]
        context = owner[row]
        if context < 0:
            continue
        if head[context] == row:
            head[context] = rows[row].next
        else:
            before = head[context]
            while rows[before].next != row:
                before = rows[before].next
            rows[before].next = rows[row].next
        rows[row].next = -1


@kernel
def shut_guards(
    wanted: Any, rows: Any, owner: Any, shapes: Any, forms: Any, code: Any, pool: Any, guards: Any
) -> None:
    """Shut the guards of all context values that some rows read: their entries are exact."""
    for i in range(wanted.shape[0]):
        row = wanted[i]
        context = owner[row]
        if context < 0:
            continue
        shape = rows[row].shape
        for form in range(shapes[shape].first, shapes[shape].last):
            flags = forms[form].flags
            if flags & LOW_CONTEXT:
                guards[forms[form].low_context, context, 0] = SHUT[0]
                guards[forms[form].low_context, context, 1] = SHUT[1]
            if flags & HIGH_CONTEXT:
                guards[forms[form].high_context, context, 0] = SHUT[0]
                guards[forms[form].high_context, context, 1] = SHUT[1]
        for at in range(shapes[shape].wakes, shapes[shape].wakes_end):
            slot = -1
            if code[at, 0] == CONTEXT:
                slot = code[at, 1]
            elif code[at, 0] == CONTEXT_TEXT:
                slot = code[at, 2]
            if slot >= 0:
                guards[slot, context, 0] = SHUT[0]
                guards[slot, context, 1] = SHUT[1]
