"""Conjunctions as rows of columns: exact bounds, exact tests, and the residual machine.

A row has a *shape* (which predicates on which attributes, where constants stand) shared by all
rows of that shape, and its own constants, columns of the shape: constant ``c`` of row ``r``
stands at ``pool[at[r] + (c >> 1) * step[r] + (c & 1)]``. Form ``f`` of a shape, an interval
predicate on one message attribute, owns the constants 2f (low) and 2f + 1 (high): a bound is
that constant, or factor * context value + constant.

What is not an interval is a program for a small stack machine. Truth values are 1.0, 0.0 and
NaN for UNKNOWN; NaN is NULL as a number. Results of a test: ``PASSED``, the failing form, or
``RESIDUAL`` when the program failed, ``MISSING`` when a text predicate of the message has not
been evaluated yet (its number is then appended to ``wanted``).

Rows, shapes and forms are arrays of records: what one test reads of a row is one cache line.
"""

from typing import Any

import numpy as np

from germane.kernels.categories import within
from germane.kernels.compile import inlined, kernel
from germane.kernels.lanes import LANES, prefetch

LOW_CONTEXT, HIGH_CONTEXT, LOW_OPEN, HIGH_OPEN, ONLY_NULL = 1, 2, 4, 8, 16

PASSED, RESIDUAL, MISSING, ASLEEP = -1, -2, -3, -4

(
    CONSTANT,
    MESSAGE,
    CONTEXT,
    ADD,
    SUBTRACT,
    MULTIPLY,
    DIVIDE,
    NEGATE,
    ABSOLUTE,
    EQUAL,
    UNEQUAL,
    LESS,
    LESS_EQUAL,
    GREATER,
    GREATER_EQUAL,
    AND,
    OR,
    NOT,
    IS_NULL,
    TRUTH,
    MESSAGE_TEXT,
    CONTEXT_TEXT,
    DISTANCE,
    WITHIN,
) = range(24)

FREE = -2
"""A free row of shape s, whose place the next row of that shape takes, has the shape FREE - s."""
STACK = 512
AHEAD = 16
"""Candidates whose memory is asked for at once."""
EARTH_M = 6371008.8
UNSEEN = 2.0


ROW = np.dtype(
    [
        ("shape", np.int32),  # negative: the row is free
        ("at", np.int32),
        ("step", np.int32),
        ("next", np.int32),  # next row of the same context, or -1
        ("sibling", np.int32),  # next row of the same profile, or -1
        ("awake", np.int8),
    ]
)
SHAPE = np.dtype(
    [
        ("first", np.int32),  # its forms: first .. last
        ("last", np.int32),
        ("program", np.int32),  # its residual program: program .. program_end
        ("program_end", np.int32),
        ("wakes", np.int32),  # its context-only program
        ("wakes_end", np.int32),
    ]
)
FORM = np.dtype(
    [
        ("low_factor", np.float64),
        ("high_factor", np.float64),
        ("attribute", np.int32),
        ("flags", np.int32),
        ("low_context", np.int32),
        ("high_context", np.int32),
        ("turn", np.int32),  # the form to test at this place in the shape's order
        ("seen", np.int32),  # rows it was tested on in sweeps, and how many it let through
        ("passed", np.int32),
        ("loose", np.int32),  # its index holds all keys: updates are not carried in
    ]
)
VERDICT = np.dtype([("label", np.float64), ("pattern", np.int32), ("truth", np.int32)])
"""Cached truth of a pattern for a context's string; open addressing."""
WANTED = np.dtype([("label", np.float64), ("number", np.int64)])
"""Requests for the truth of texts; entry 0 holds their number."""


@inlined
def text_place(pattern: Any, label: Any, cache: Any) -> Any:
    """Slot of (pattern, label) in the cache of context texts, or of the hole to put it in."""
    mask = cache.shape[0] - 1
    place = (np.int64(label) * 7919 + np.int64(pattern) * 104729) & mask
    while cache[place].pattern >= 0:
        if cache[place].pattern == pattern and cache[place].label == label:
            return place
        place = (place + 1) & mask
    return place


@inlined
def want(wanted: Any, number: Any, label: Any) -> None:
    """Ask for the truth of a text predicate that is not known yet."""
    n = wanted[0].number + 1
    if n < wanted.shape[0]:
        wanted[n].number = number
        wanted[n].label = label
        wanted[0].number = n


@inlined
def distance_m(lat_a: Any, lon_a: Any, lat_b: Any, lon_b: Any) -> Any:
    """Great-circle metres (haversine on the mean radius)."""
    a = np.radians(lat_a)
    b = np.radians(lat_b)
    half_lat = np.sin((b - a) / 2.0)
    half_lon = np.sin(np.radians(lon_b - lon_a) / 2.0)
    h = half_lat * half_lat + np.cos(a) * np.cos(b) * half_lon * half_lon
    if h != h:
        return np.nan
    return 2.0 * EARTH_M * np.arcsin(min(1.0, np.sqrt(h)))


@inlined
def compare(operation: Any, a: Any, b: Any) -> Any:
    """Three-valued comparison of two keys."""
    if a != a or b != b:
        return np.nan
    if operation == EQUAL:
        return 1.0 if a == b else 0.0
    if operation == UNEQUAL:
        return 1.0 if a != b else 0.0
    if operation == LESS:
        return 1.0 if a < b else 0.0
    if operation == LESS_EQUAL:
        return 1.0 if a <= b else 0.0
    if operation == GREATER:
        return 1.0 if a > b else 0.0
    return 1.0 if a >= b else 0.0


@kernel
def run(
    begin: Any,
    end: Any,
    row: Any,
    message: Any,
    rows: Any,
    owner: Any,
    code: Any,
    pool: Any,
    values: Any,
    truth: Any,
    cache: Any,
    wanted: Any,
    stack: Any,
    graphs: Any,
) -> Any:
    """Run a program for one row; returns its truth, or UNSEEN when a text is missing."""
    context = owner[row]
    at = rows[row].at
    step = rows[row].step
    top = -1
    missing = False
    for i in range(begin, end):
        operation = code[i, 0]
        argument = code[i, 1]
        if operation == CONSTANT:
            top += 1
            stack[top] = pool[at + (argument >> 1) * step + (argument & 1)]
        elif operation == MESSAGE:
            top += 1
            stack[top] = message[argument]
        elif operation == CONTEXT:
            top += 1
            stack[top] = values[argument, context]
        elif operation == TRUTH:
            top += 1
            stack[top] = np.nan if argument < 0 else np.float64(argument)
        elif operation == MESSAGE_TEXT:
            top += 1
            text = np.int64(pool[at + (argument >> 1) * step + (argument & 1)])
            stack[top] = truth[text]
            if truth[text] == UNSEEN:
                want(wanted, text, np.nan)
                missing = True
        elif operation == CONTEXT_TEXT:
            top += 1
            pattern = np.int64(pool[at + (argument >> 1) * step + (argument & 1)])
            label = values[code[i, 2], context]
            if label != label:
                stack[top] = np.nan
            else:
                place = text_place(pattern, label, cache)
                if cache[place].pattern < 0:
                    want(wanted, pattern, label)
                    missing = True
                    stack[top] = np.nan
                else:
                    stack[top] = np.float64(cache[place].truth)
        elif operation == NEGATE:
            stack[top] = -stack[top]
        elif operation == ABSOLUTE:
            stack[top] = abs(stack[top])
        elif operation == NOT:
            stack[top] = 1.0 - stack[top]
        elif operation == IS_NULL:
            stack[top] = 1.0 if stack[top] != stack[top] else 0.0
        elif operation == DISTANCE:
            stack[top - 3] = distance_m(stack[top - 3], stack[top - 2], stack[top - 1], stack[top])
            top -= 3
        else:
            a = stack[top - 1]
            b = stack[top]
            top -= 1
            if operation == WITHIN:
                stack[top] = within(a, b, argument, graphs)
            elif operation == ADD:
                stack[top] = a + b
            elif operation == SUBTRACT:
                stack[top] = a - b
            elif operation == MULTIPLY:
                stack[top] = a * b
            elif operation == DIVIDE:
                stack[top] = np.nan if b == 0.0 else a / b
            elif operation == AND:
                if a == 0.0 or b == 0.0:
                    stack[top] = 0.0
                else:
                    stack[top] = 1.0 if a == 1.0 and b == 1.0 else np.nan
            elif operation == OR:
                if a == 1.0 or b == 1.0:
                    stack[top] = 1.0
                else:
                    stack[top] = 0.0 if a == 0.0 and b == 0.0 else np.nan
            else:
                stack[top] = compare(operation, a, b)
    if missing:
        return UNSEEN
    return stack[top]


@inlined
def low_bound(
    row: Any, form: Any, first: Any, rows: Any, owner: Any, forms: Any, pool: Any, values: Any
) -> Any:
    """The lower bound as it stands now; NaN when the context's value is NULL."""
    bound = pool[rows[row].at + (form - first) * rows[row].step]
    if forms[form].flags & LOW_CONTEXT:
        bound = forms[form].low_factor * values[forms[form].low_context, owner[row]] + bound
    return bound


@inlined
def high_bound(
    row: Any, form: Any, first: Any, rows: Any, owner: Any, forms: Any, pool: Any, values: Any
) -> Any:
    """The upper bound as it stands now; NaN when the context's value is NULL."""
    bound = pool[rows[row].at + (form - first) * rows[row].step + 1]
    if forms[form].flags & HIGH_CONTEXT:
        bound = forms[form].high_factor * values[forms[form].high_context, owner[row]] + bound
    return bound


@inlined
def holds(
    value: Any,
    row: Any,
    form: Any,
    first: Any,
    rows: Any,
    owner: Any,
    forms: Any,
    pool: Any,
    values: Any,
) -> Any:
    """Whether an interval predicate is TRUE for a value. A NaN bound is never met."""
    flags = forms[form].flags
    if flags & ONLY_NULL:
        return value != value
    low = low_bound(row, form, first, rows, owner, forms, pool, values)
    if not value >= low or (flags & LOW_OPEN and value == low):
        return False
    high = high_bound(row, form, first, rows, owner, forms, pool, values)
    return value <= high and not (flags & HIGH_OPEN and value == high)


@inlined
def interval(
    row: Any, form: Any, first: Any, rows: Any, owner: Any, forms: Any, pool: Any, values: Any
) -> Any:
    """k of an interval predicate, closed, as it stands now (see ``kernels.codes``)."""
    flags = forms[form].flags
    if flags & ONLY_NULL:
        return np.nan, -np.inf
    low = low_bound(row, form, first, rows, owner, forms, pool, values)
    high = high_bound(row, form, first, rows, owner, forms, pool, values)
    if flags & LOW_OPEN and low < np.inf:
        low = np.nextafter(low, np.inf)
    elif flags & LOW_OPEN:
        return np.inf, -np.inf
    if flags & HIGH_OPEN and high > -np.inf:
        high = np.nextafter(high, -np.inf)
    elif flags & HIGH_OPEN:
        return np.inf, -np.inf
    if not low <= high:
        return np.inf, -np.inf
    return low, high


@inlined
def test(
    row: Any,
    message: Any,
    rows: Any,
    owner: Any,
    shapes: Any,
    forms: Any,
    code: Any,
    pool: Any,
    values: Any,
    truth: Any,
    cache: Any,
    wanted: Any,
    stack: Any,
    graphs: Any,
) -> Any:
    """AGILE Fig. 8, ``test``: which predicate fails, in the shape's order; see the module."""
    if not rows[row].awake:
        return ASLEEP
    shape = rows[row].shape
    first = shapes[shape].first
    for turn in range(first, shapes[shape].last):
        form = forms[turn].turn
        value = message[forms[form].attribute]
        if not holds(value, row, form, first, rows, owner, forms, pool, values):
            return form - first
    begin = shapes[shape].program
    end = shapes[shape].program_end
    if begin < end:
        outcome = run(
            begin,
            end,
            row,
            message,
            rows,
            owner,
            code,
            pool,
            values,
            truth,
            cache,
            wanted,
            stack,
            graphs,
        )
        if outcome == UNSEEN:
            return MISSING
        if outcome != 1.0:
            return RESIDUAL
    return PASSED


@inlined
def ask_for_row(row: Any, rows: Any, owner: Any, values: Any) -> None:
    """Ask for what says where a row's bounds stand, ahead of ``ask_for_bounds``."""
    prefetch(rows, row)
    if values.shape[1] > 0:  # somebody has a context
        prefetch(owner, row)


SOON_TESTED = 2
"""Predicates of a row that memory is asked for: most rows fail at the first ones."""


@inlined
def ask_for_bounds(
    row: Any, rows: Any, owner: Any, shapes: Any, forms: Any, pool: Any, values: Any
) -> None:
    """Ask for a row's first bounds ahead of its test: many rows then wait for memory at once."""
    shape = rows[row].shape
    first = shapes[shape].first
    for turn in range(first, min(shapes[shape].last, first + SOON_TESTED)):
        form = forms[turn].turn
        prefetch(pool, rows[row].at + (form - first) * rows[row].step)
        flags = forms[form].flags
        if flags & LOW_CONTEXT:
            prefetch(values, forms[form].low_context * values.shape[1] + owner[row])
        if flags & HIGH_CONTEXT and (
            forms[form].high_context != forms[form].low_context or not flags & LOW_CONTEXT
        ):
            prefetch(values, forms[form].high_context * values.shape[1] + owner[row])


@kernel
def postfilter(
    candidates: Any,
    n_found: Any,
    message: Any,
    rows: Any,
    owner: Any,
    shapes: Any,
    forms: Any,
    code: Any,
    pool: Any,
    values: Any,
    truth: Any,
    cache: Any,
    wanted: Any,
    stack: Any,
    graphs: Any,
    out: Any,
    failed: Any,
) -> Any:
    """Test candidates against the current context.

    Those that match go to ``out[n_found:]``, those that fail a predicate that follows a context to
    the front of ``failed``, those that wait for a text to its end. ``candidates`` may be the end
    of ``out``. Returns (number found in all, failed, waiting).
    """
    n_failed = 0
    n_waiting = 0
    for i in range(candidates.shape[0]):
        if i % AHEAD == 0:
            stop = min(i + AHEAD, candidates.shape[0])
            for k in range(i, stop):
                ask_for_row(candidates[k], rows, owner, values)
            for k in range(i, stop):
                ask_for_bounds(candidates[k], rows, owner, shapes, forms, pool, values)
        row = candidates[i]
        reason = test(
            row,
            message,
            rows,
            owner,
            shapes,
            forms,
            code,
            pool,
            values,
            truth,
            cache,
            wanted,
            stack,
            graphs,
        )
        if reason == PASSED:
            out[n_found] = row
            n_found += 1
        elif reason == MISSING:
            n_waiting += 1
            failed[failed.shape[0] - n_waiting] = row
        elif follows_context(row, reason, rows, shapes, forms):
            failed[n_failed] = row
            n_failed += 1
    return n_found, n_failed, n_waiting


@inlined
def follows_context(row: Any, reason: Any, rows: Any, shapes: Any, forms: Any) -> Any:
    """Whether what failed is an interval that the index follows: its K may be too large by now."""
    if reason < 0:
        return False
    form = shapes[rows[row].shape].first + reason
    return forms[form].flags & (LOW_CONTEXT | HIGH_CONTEXT) != 0 and not forms[form].loose


@kernel
def intervals(
    rows_wanted: Any,
    slot_of: Any,
    rows: Any,
    owner: Any,
    shapes: Any,
    forms: Any,
    code: Any,
    pool: Any,
    values: Any,
    lows: Any,
    highs: Any,
) -> None:
    """k of rows in every slot of an index; unconstrained where a row has no predicate."""
    lows[:] = np.nan
    highs[:] = np.nan
    for i in range(rows_wanted.shape[0]):
        row = rows_wanted[i]
        first = shapes[rows[row].shape].first
        for form in range(first, shapes[rows[row].shape].last):
            slot = slot_of[forms[form].attribute]
            if slot >= 0 and forms[form].loose:
                lows[i, slot] = -np.inf
                highs[i, slot] = np.inf
            elif slot >= 0:
                low, high = interval(row, form, first, rows, owner, forms, pool, values)
                lows[i, slot] = low
                highs[i, slot] = high


@kernel
def evaluate_awake(
    candidates: Any,
    rows: Any,
    owner: Any,
    shapes: Any,
    forms: Any,
    code: Any,
    pool: Any,
    values: Any,
    truth: Any,
    cache: Any,
    wanted: Any,
    stack: Any,
    graphs: Any,
    waiting: Any,
) -> Any:
    """Re-evaluate context-only programs; rows that wait for a text go to ``waiting``."""
    n_waiting = 0
    for i in range(candidates.shape[0]):
        row = candidates[i]
        begin = shapes[rows[row].shape].wakes
        end = shapes[rows[row].shape].wakes_end
        if begin >= end:
            rows[row].awake = 1
            continue
        outcome = run(begin, end, row, values[0], rows, owner, code, pool, values, truth, cache,
                      wanted, stack, graphs)  # fmt: skip
        if outcome == UNSEEN:
            waiting[n_waiting] = row
            n_waiting += 1
        else:
            rows[row].awake = 1 if outcome == 1.0 else 0
    return n_waiting


@kernel
def set_bits(wanted: Any, on: Any, bitmap: Any) -> None:
    """Set or clear the bits of rows in a bitmap."""
    for i in range(wanted.shape[0]):
        bit = np.uint64(1) << np.uint64(wanted[i] % LANES)
        if on[i]:
            bitmap[wanted[i] // LANES] |= bit
        else:
            bitmap[wanted[i] // LANES] &= ~bit
