"""Conjunctions as rows of columns: exact bounds, exact tests, and the residual machine.

A row has a *shape* (which predicates on which attributes, where constants stand) shared by all
rows of that shape, and its own constants, columns of the shape: constant ``c`` of row ``r``
stands at ``pool[at[r] + (c >> 1) * step[r] + (c & 1)]``. Form ``f`` of a shape, an interval
predicate on one message attribute, owns the constants 2f (low) and 2f + 1 (high): a bound is
that constant, or factor * context value + constant.

What is not an interval is a program for a small stack machine. Truth values are 1.0, 0.0 and
NaN for UNKNOWN; NaN is NULL as a number. Results of a test: ``PASSED``, the failing form, or
``RESIDUAL`` when the program failed, ``MISSING`` when a text predicate of the message has not
been evaluated yet (its number is then appended to ``Texts.wanted``).
"""

from typing import Any, NamedTuple

import numpy as np

from germane.kernels.compile import kernel
from germane.kernels.lanes import LANES, count_bits, lowest_bit

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
) = range(23)

STACK = 512
EARTH_M = 6371008.8
UNSEEN = 2.0
ALL_LANES = np.uint64(0xFFFFFFFFFFFFFFFF)


class Rows(NamedTuple):
    """Columns by row."""

    shape: Any
    at: Any
    step: Any
    context: Any
    next: Any  # next row of the same context, or -1
    awake: Any  # 0 asleep, 1 awake
    pool: Any


class Shapes(NamedTuple):
    """Columns by shape (``first`` and program offsets) and by form."""

    first: Any  # forms of shape s: first[s] .. first[s + 1]
    attribute: Any
    flags: Any
    low_context: Any
    high_context: Any
    low_factor: Any
    high_factor: Any
    program: Any  # residual program of s: program[s, 0] .. program[s, 1]
    wakes: Any  # context-only program of s
    code: Any  # int32[n, 3]: operation and two arguments


class Texts(NamedTuple):
    """Truth of text predicates: per message for message texts, cached for context texts."""

    truth: Any  # float64 by message text predicate; UNSEEN when not evaluated
    pattern: Any  # cache of context texts: open addressing over (pattern, label)
    label: Any
    verdict: Any
    wanted: Any  # int64[n, 2] requests: (text, -1) or (pattern, place in wanted_label)
    wanted_label: Any
    n_wanted: Any  # [count]


@kernel
def text_place(pattern: Any, label: Any, texts: Any) -> Any:
    """Slot of (pattern, label) in the cache of context texts, or of the hole to put it in."""
    mask = texts.pattern.shape[0] - 1
    place = (np.int64(label) * 7919 + np.int64(pattern) * 104729) & mask
    while texts.pattern[place] >= 0:
        if texts.pattern[place] == pattern and texts.label[place] == label:
            return place
        place = (place + 1) & mask
    return place


@kernel
def want(texts: Any, number: Any, label: Any) -> None:
    """Ask for the truth of a text predicate that is not known yet."""
    n = texts.n_wanted[0]
    if n < texts.wanted.shape[0]:
        texts.wanted[n] = number
        texts.wanted_label[n] = label
        texts.n_wanted[0] = n + 1


@kernel
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


@kernel
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
    shapes: Any,
    values: Any,
    texts: Any,
    stack: Any,
) -> Any:
    """Run a program for one row; returns its truth, or UNSEEN when a text is missing."""
    context = rows.context[row]
    at = rows.at[row]
    step = rows.step[row]
    top = -1
    missing = False
    for i in range(begin, end):
        operation = shapes.code[i, 0]
        argument = shapes.code[i, 1]
        if operation == CONSTANT:
            top += 1
            stack[top] = rows.pool[at + (argument >> 1) * step + (argument & 1)]
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
            text = np.int64(rows.pool[at + (argument >> 1) * step + (argument & 1)])
            stack[top] = texts.truth[text]
            if texts.truth[text] == UNSEEN:
                want(texts, text, np.nan)
                missing = True
        elif operation == CONTEXT_TEXT:
            top += 1
            pattern = np.int64(rows.pool[at + (argument >> 1) * step + (argument & 1)])
            label = values[shapes.code[i, 2], context]
            if label != label:
                stack[top] = np.nan
            else:
                place = text_place(pattern, label, texts)
                if texts.pattern[place] < 0:
                    want(texts, pattern, label)
                    missing = True
                    stack[top] = np.nan
                else:
                    stack[top] = np.float64(texts.verdict[place])
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
            if operation == ADD:
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


@kernel
def low_bound(row: Any, form: Any, first: Any, rows: Any, shapes: Any, values: Any) -> Any:
    """The lower bound as it stands now; NaN when the context's value is NULL."""
    bound = rows.pool[rows.at[row] + (form - first) * rows.step[row]]
    if shapes.flags[form] & LOW_CONTEXT:
        value = values[shapes.low_context[form], rows.context[row]]
        bound = shapes.low_factor[form] * value + bound
    return bound


@kernel
def high_bound(row: Any, form: Any, first: Any, rows: Any, shapes: Any, values: Any) -> Any:
    """The upper bound as it stands now; NaN when the context's value is NULL."""
    bound = rows.pool[rows.at[row] + (form - first) * rows.step[row] + 1]
    if shapes.flags[form] & HIGH_CONTEXT:
        value = values[shapes.high_context[form], rows.context[row]]
        bound = shapes.high_factor[form] * value + bound
    return bound


@kernel
def holds(
    value: Any, row: Any, form: Any, first: Any, rows: Any, shapes: Any, values: Any
) -> Any:
    """Whether an interval predicate is TRUE for a value. A NaN bound is never met."""
    flags = shapes.flags[form]
    if flags & ONLY_NULL:
        return value != value
    low = low_bound(row, form, first, rows, shapes, values)
    if flags & LOW_OPEN:
        if not value > low:
            return False
    elif not value >= low:
        return False
    high = high_bound(row, form, first, rows, shapes, values)
    if flags & HIGH_OPEN:
        return value < high
    return value <= high


@kernel
def interval(row: Any, form: Any, first: Any, rows: Any, shapes: Any, values: Any) -> Any:
    """k of an interval predicate, closed, as it stands now (see ``kernels.codes``)."""
    flags = shapes.flags[form]
    if flags & ONLY_NULL:
        return np.nan, -np.inf
    low = low_bound(row, form, first, rows, shapes, values)
    high = high_bound(row, form, first, rows, shapes, values)
    if low != low or high != high:
        return np.inf, -np.inf
    if flags & LOW_OPEN:
        if low == np.inf:
            return np.inf, -np.inf
        low = np.nextafter(low, np.inf)
    if flags & HIGH_OPEN:
        if high == -np.inf:
            return np.inf, -np.inf
        high = np.nextafter(high, -np.inf)
    if low > high:
        return np.inf, -np.inf
    return low, high


@kernel
def test(
    row: Any, message: Any, rows: Any, shapes: Any, values: Any, texts: Any, stack: Any
) -> Any:
    """AGILE Fig. 8, ``test``: which predicate fails, in the shape's order; see the module."""
    if not rows.awake[row]:
        return ASLEEP
    shape = rows.shape[row]
    first = shapes.first[shape]
    for form in range(first, shapes.first[shape + 1]):
        value = message[shapes.attribute[form]]
        if not holds(value, row, form, first, rows, shapes, values):
            return form - first
    begin = shapes.program[shape, 0]
    end = shapes.program[shape, 1]
    if begin < end:
        truth = run(begin, end, row, message, rows, shapes, values, texts, stack)
        if truth == UNSEEN:
            return MISSING
        if truth != 1.0:
            return RESIDUAL
    return PASSED


@kernel
def postfilter(
    candidates: Any,
    message: Any,
    rows: Any,
    shapes: Any,
    values: Any,
    texts: Any,
    passed: Any,
    failed: Any,
    reasons: Any,
) -> Any:
    """Test candidates against the current context; no candidate is read twice.

    ``passed`` takes the rows that match, ``failed`` and ``reasons`` the false positives with
    what failed. Rows that wait for a text are compacted to the front of ``candidates``.
    Returns (passed, failed, waiting).
    """
    stack = np.empty(STACK, np.float64)
    n_passed = 0
    n_failed = 0
    n_waiting = 0
    for i in range(candidates.shape[0]):
        row = candidates[i]
        reason = test(row, message, rows, shapes, values, texts, stack)
        if reason == PASSED:
            passed[n_passed] = row
            n_passed += 1
        elif reason == MISSING:
            candidates[n_waiting] = row
            n_waiting += 1
        else:
            failed[n_failed] = row
            reasons[n_failed] = reason
            n_failed += 1
    return n_passed, n_failed, n_waiting


@kernel
def intervals(
    rows_wanted: Any, slot_of: Any, rows: Any, shapes: Any, values: Any, lows: Any, highs: Any
) -> None:
    """k of rows in every slot of an index; unconstrained where a row has no predicate."""
    lows[:] = np.nan
    highs[:] = np.nan
    for i in range(rows_wanted.shape[0]):
        row = rows_wanted[i]
        shape = rows.shape[row]
        first = shapes.first[shape]
        for form in range(first, shapes.first[shape + 1]):
            slot = slot_of[shapes.attribute[form]]
            if slot >= 0:
                low, high = interval(row, form, first, rows, shapes, values)
                lows[i, slot] = low
                highs[i, slot] = high


@kernel
def evaluate_awake(
    wanted: Any, rows: Any, shapes: Any, values: Any, texts: Any, waiting: Any
) -> Any:
    """Re-evaluate context-only programs; rows that wait for a text go to ``waiting``."""
    stack = np.empty(STACK, np.float64)
    message = np.empty(0, np.float64)
    n_waiting = 0
    for i in range(wanted.shape[0]):
        row = wanted[i]
        shape = rows.shape[row]
        begin = shapes.wakes[shape, 0]
        end = shapes.wakes[shape, 1]
        if begin >= end:
            rows.awake[row] = 1
            continue
        truth = run(begin, end, row, message, rows, shapes, values, texts, stack)
        if truth == UNSEEN:
            waiting[n_waiting] = row
            n_waiting += 1
        else:
            rows.awake[row] = 1 if truth == 1.0 else 0
    return n_waiting


@kernel
def sweep(
    outside: Any,
    message: Any,
    rows: Any,
    shapes: Any,
    values: Any,
    texts: Any,
    every: Any,
    passed: Any,
    waiting: Any,
    sample: Any,
) -> Any:
    """Test all rows of a bitmap in order (NOINDEX, and what no index holds).

    Rows lie in memory in the order of their shape's columns, so this reads memory forward. A
    word of 64 rows of one shape has its first predicate tested in one simple loop. Every
    ``every``-th row that fails (0: none) is put into ``sample`` while there is room.
    Returns (passed, waiting, failed, sampled).
    """
    stack = np.empty(STACK, np.float64)
    n_passed = n_waiting = n_failed = n_sampled = 0
    countdown = every
    for word in range(outside.shape[0]):
        bits = outside[word]
        if bits == np.uint64(0):
            continue
        base = word * LANES
        if bits == ALL_LANES and base + LANES <= rows.shape.shape[0]:
            bits = first_predicate(base, message, rows, shapes, values)
            failed = LANES - count_bits(bits)
            n_failed += failed
            countdown -= failed
        while bits != np.uint64(0):
            row = base + lowest_bit(bits)
            bits &= bits - np.uint64(1)
            reason = test(row, message, rows, shapes, values, texts, stack)
            if reason == PASSED:
                passed[n_passed] = row
                n_passed += 1
            elif reason == MISSING:
                waiting[n_waiting] = row
                n_waiting += 1
            else:
                n_failed += 1
                countdown -= 1
        if every > 0 and countdown <= 0:
            countdown = every
            if n_sampled < sample.shape[0]:
                sample[n_sampled] = base + lowest_bit(outside[word])
                n_sampled += 1
    return n_passed, n_waiting, n_failed, n_sampled


@kernel
def first_predicate(base: Any, message: Any, rows: Any, shapes: Any, values: Any) -> Any:
    """Bits of the 64 rows from ``base`` that their first interval predicate lets through.

    All bits where the rows are not alike (one shape, one extent) or it does not apply.
    """
    shape = rows.shape[base]
    at = rows.at[base]
    last = base + LANES - 1
    first = shapes.first[shape]
    if (
        rows.shape[last] != shape
        or rows.at[last] - at != 2 * (LANES - 1)
        or first == shapes.first[shape + 1]
    ):
        return ALL_LANES
    flags = shapes.flags[first]
    if flags & ONLY_NULL:
        return ALL_LANES
    for lane in range(LANES):
        if rows.shape[base + lane] != shape or rows.at[base + lane] != at + 2 * lane:
            return ALL_LANES
    value = message[shapes.attribute[first]]
    bits = np.uint64(0)
    low_factor = shapes.low_factor[first]
    high_factor = shapes.high_factor[first]
    low_row = values[shapes.low_context[first]]
    high_row = values[shapes.high_context[first]]
    low_bound_is_context = flags & LOW_CONTEXT
    high_bound_is_context = flags & HIGH_CONTEXT
    for lane in range(LANES):
        low = rows.pool[at + 2 * lane]
        high = rows.pool[at + 2 * lane + 1]
        if low_bound_is_context:
            low = low_factor * low_row[rows.context[base + lane]] + low
        if high_bound_is_context:
            high = high_factor * high_row[rows.context[base + lane]] + high
        if (low <= value) & (value <= high):
            bits |= np.uint64(1) << np.uint64(lane)
    return bits


@kernel
def set_bits(wanted: Any, on: Any, bitmap: Any) -> None:
    """Set or clear the bits of rows in a bitmap."""
    for i in range(wanted.shape[0]):
        bit = np.uint64(1) << np.uint64(wanted[i] % LANES)
        if on[i]:
            bitmap[wanted[i] // LANES] |= bit
        else:
            bitmap[wanted[i] // LANES] &= ~bit


@kernel
def keep_escalated(failed: Any, reasons: Any, rows: Any, shapes: Any) -> Any:
    """Compact to the false positives whose failing predicate follows a context; how many."""
    kept = 0
    for i in range(failed.shape[0]):
        if reasons[i] < 0:
            continue
        form = shapes.first[rows.shape[failed[i]]] + reasons[i]
        if shapes.flags[form] & (LOW_CONTEXT | HIGH_CONTEXT):
            failed[kept] = failed[i]
            kept += 1
    return kept
