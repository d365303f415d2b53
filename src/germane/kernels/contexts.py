"""The context store's loops: store columns of new values, and find what they disturb.

``values[attribute, context]`` is the current value (NaN is NULL). ``guards[attribute, context]``
is a pair of int16: while a new value's grid code stays between them, no index entry that was
made from the old value has to move (AGILE: k' in K), so storing it is the whole update. A
guard is conservative: outside it, the entries are looked at one by one. ``OPEN`` guards admit
everything but NULL, ``SHUT`` guards nothing.
"""

from typing import Any

import numpy as np

from germane.kernels.compile import kernel
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
def reads(form: Any, attribute: Any, shapes: Any) -> Any:
    """Whether an interval predicate has a bound on a context attribute."""
    flags = shapes.flags[form]
    return (flags & LOW_CONTEXT and shapes.low_context[form] == attribute) or (
        flags & HIGH_CONTEXT and shapes.high_context[form] == attribute
    )


@kernel
def count_entries(contexts: Any, attribute: Any, head: Any, rows: Any, shapes: Any) -> Any:
    """(predicates that read an attribute of some contexts, rows of those contexts)."""
    n = 0
    n_rows = 0
    for i in range(contexts.shape[0]):
        row = head[contexts[i]]
        while row >= 0:
            n_rows += 1
            shape = rows.shape[row]
            for form in range(shapes.first[shape], shapes.first[shape + 1]):
                if reads(form, attribute, shapes):
                    n += 1
            row = rows.next[row]
    return n, n_rows


@kernel
def entries_of(
    contexts: Any,
    attribute: Any,
    head: Any,
    rows: Any,
    shapes: Any,
    values: Any,
    out_rows: Any,
    out_forms: Any,
    out_lows: Any,
    out_highs: Any,
    out_sleepers: Any,
) -> Any:
    """The predicates that read a context attribute, with their k now, and rows to re-wake.

    Buffers are as long as ``count_entries`` says. Returns the rows with a context-only program.
    """
    n = 0
    n_sleepers = 0
    for i in range(contexts.shape[0]):
        row = head[contexts[i]]
        while row >= 0:
            shape = rows.shape[row]
            first = shapes.first[shape]
            for form in range(first, shapes.first[shape + 1]):
                if reads(form, attribute, shapes):
                    low, high = interval(row, form, first, rows, shapes, values)
                    out_rows[n] = row
                    out_forms[n] = form
                    out_lows[n] = low
                    out_highs[n] = high
                    n += 1
            if shapes.wakes[shape, 0] < shapes.wakes[shape, 1]:
                out_sleepers[n_sleepers] = row
                n_sleepers += 1
            row = rows.next[row]
    return n_sleepers


@kernel
def grid(value: Any, origin: Any, scale: Any) -> Any:
    """A value's place on an attribute's guard grid, cut to what an int16 holds."""
    return min(max((value - origin) * scale, -EDGE), EDGE)


@kernel
def narrow_guards(
    out_rows: Any,
    out_forms: Any,
    extent_lows: Any,
    extent_highs: Any,
    attribute: Any,
    rows: Any,
    shapes: Any,
    guards: Any,
    origin: Any,
    scale: Any,
) -> None:
    """Intersect guards with what each entry's K [low, high] allows its context's value to be.

    A bound is factor * x + constant; solved for x with a margin of one grid cell and of the
    rounding of the arithmetic.
    """
    for i in range(out_rows.shape[0]):
        row = out_rows[i]
        form = out_forms[i]
        context = rows.context[row]
        flags = shapes.flags[form]
        first = shapes.first[rows.shape[row]]
        at = rows.at[row] + (form - first) * rows.step[row]
        low = extent_lows[i]
        high = extent_highs[i]
        if low > high:
            guards[context, 0] = SHUT[0]
            guards[context, 1] = SHUT[1]
            continue
        for side in range(2):
            if side == 0:
                bound = flags & LOW_CONTEXT and shapes.low_context[form] == attribute
                factor = shapes.low_factor[form]
            else:
                bound = flags & HIGH_CONTEXT and shapes.high_context[form] == attribute
                factor = shapes.high_factor[form]
            if not bound:
                continue
            constant = rows.pool[at + side]
            if not (abs(constant) < 1e300 and abs(factor) > 1e-6 and abs(factor) < 1e6):
                guards[context, 0] = SHUT[0]
                guards[context, 1] = SHUT[1]
                continue
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
                at_least = (end == 0) == (factor > 0.0)
                if at_least:
                    code = np.int64(np.ceil(grid(x + margin, origin, scale))) + 1
                    if guards[context, 0] == MINIMUM or code > guards[context, 0]:
                        guards[context, 0] = code
                else:
                    code = np.int64(np.floor(grid(x - margin, origin, scale))) - 1
                    if guards[context, 1] == MAXIMUM or code < guards[context, 1]:
                        guards[context, 1] = code


@kernel
def set_guards(contexts: Any, guards: Any, low: Any, high: Any) -> None:
    """Set the guards of some contexts to one pair."""
    for i in range(contexts.shape[0]):
        guards[contexts[i], 0] = low
        guards[contexts[i], 1] = high


@kernel
def link(rows_new: Any, head: Any, rows: Any) -> None:
    """Put rows at the front of their contexts' lists."""
    for i in range(rows_new.shape[0]):
        row = rows_new[i]
        context = rows.context[row]
        if context >= 0:
            rows.next[row] = head[context]
            head[context] = row


@kernel
def unlink(rows_old: Any, head: Any, rows: Any) -> None:
    """Take rows out of their contexts' lists."""
    for i in range(rows_old.shape[0]):
        row = rows_old[i]
        context = rows.context[row]
        if context < 0:
            continue
        if head[context] == row:
            head[context] = rows.next[row]
        else:
            before = head[context]
            while rows.next[before] != row:
                before = rows.next[before]
            rows.next[before] = rows.next[row]
        rows.next[row] = -1


@kernel
def shut_guards(wanted: Any, rows: Any, shapes: Any, guards: Any) -> None:
    """Shut the guards of all context values that some rows read: their entries are exact."""
    for i in range(wanted.shape[0]):
        row = wanted[i]
        context = rows.context[row]
        if context < 0:
            continue
        shape = rows.shape[row]
        for form in range(shapes.first[shape], shapes.first[shape + 1]):
            flags = shapes.flags[form]
            if flags & LOW_CONTEXT:
                guards[shapes.low_context[form], context, 0] = SHUT[0]
                guards[shapes.low_context[form], context, 1] = SHUT[1]
            if flags & HIGH_CONTEXT:
                guards[shapes.high_context[form], context, 0] = SHUT[0]
                guards[shapes.high_context[form], context, 1] = SHUT[1]
        for i_code in range(shapes.wakes[shape, 0], shapes.wakes[shape, 1]):
            slot = -1
            if shapes.code[i_code, 0] == CONTEXT:
                slot = shapes.code[i_code, 1]
            elif shapes.code[i_code, 0] == CONTEXT_TEXT:
                slot = shapes.code[i_code, 2]
            if slot >= 0:
                guards[slot, context, 0] = SHUT[0]
                guards[slot, context, 1] = SHUT[1]
