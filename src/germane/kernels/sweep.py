"""The sweep: test all rows that no index holds (NOINDEX), column by column.

Rows lie in *runs*: rows in a row of one shape whose constants lie in a row too. ``runs[i]`` is
where run i stops, ``run_at[word]`` the run of a word's first row. The sharpest predicate of a
run's shape is one loop over memory read forward; what it lets through goes through the other
predicates, one after the other, and what survives all of them through the shape's program.
"""

from typing import Any

import numpy as np

from germane.kernels.compile import inlined, kernel
from germane.kernels.conjunctions import (
    FREE,
    HIGH_CONTEXT,
    HIGH_OPEN,
    LOW_CONTEXT,
    LOW_OPEN,
    ONLY_NULL,
    UNSEEN,
    run,
)
from germane.kernels.lanes import LANES, count_bits, lowest_bit

ONE, ZERO = np.uint64(1), np.uint64(0)
STRETCH = 4096
"""Rows looked at in one go: what is noted of them stays in the first-level cache."""


@kernel
def sweep(
    outside: Any,
    runs: Any,
    run_at: Any,
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
    mask: Any,
    every: Any,
    countdown: Any,
    passed: Any,
    left: Any,
    sample: Any,
) -> Any:
    """Test all rows of a bitmap in order.

    Rows that wait for a text stay in ``left``. In about every ``every`` rows (0: none) one is put
    into ``sample`` while there is room.
    Returns (passed, waiting, swept, sampled, what is left of ``countdown``).
    """
    n_passed = n_swept = n_sampled = word = 0
    row = n_waiting = np.int64(0)  # not a literal: columns would be compiled for that type, too
    for i in range(outside.shape[0]):
        n_swept += count_bits(outside[i])
    n_rows = runs[-1] if runs.shape[0] else 0
    while row < n_rows:
        if outside[word] == ZERO:
            word += 1
            row = word * LANES
            continue
        lane = run_at[word]
        while runs[lane] <= row:
            lane += 1
        end = min(runs[lane], row + STRETCH)
        stop = row
        while stop < end and outside[stop // LANES] != ZERO:
            stop = (stop // LANES + 1) * LANES
        stop = min(stop, end)
        shape = shape_for_life(rows[row])
        n_left = first_column(
            row,
            stop,
            shape,
            outside,
            message,
            rows,
            owner,
            shapes,
            forms,
            pool,
            values,
            mask,
            left,
            n_waiting,
        )
        n_left = other_columns(
            row,
            shape,
            n_waiting,
            n_left,
            left,
            message,
            rows,
            owner,
            shapes,
            forms,
            pool,
            values,
        )
        countdown -= stop - row
        if every > 0 and countdown <= 0:
            countdown = every
            if n_sampled < sample.shape[0]:
                sample[n_sampled] = word * LANES + lowest_bit(outside[word])
                n_sampled += 1
        begin = shapes[shape].program
        end = shapes[shape].program_end
        for i in range(n_waiting, n_left):
            candidate = left[i]
            outcome = 1.0
            if begin < end:
                outcome = run(
                    begin,
                    end,
                    candidate,
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
            if outcome == 1.0:
                passed[n_passed] = candidate
                n_passed += 1
            elif outcome == UNSEEN:
                left[n_waiting] = candidate
                n_waiting += 1
        row = stop
        word = row // LANES
    return n_passed, n_waiting, n_swept, n_sampled, countdown


@inlined
def first_column(
    row: Any,
    stop: Any,
    shape: Any,
    outside: Any,
    message: Any,
    rows: Any,
    owner: Any,
    shapes: Any,
    forms: Any,
    pool: Any,
    values: Any,
    mask: Any,
    left: Any,
    n_left: Any,
) -> Any:
    """Append to ``left`` those rows of a stretch that their sharpest predicate lets through.

    Returns the new end of ``left``.
    """
    size = stop - row
    first = shapes[shape].first
    form = forms[first].turn if first < shapes[shape].last else -1
    flags = forms[form].flags if form >= 0 else 0
    if form < 0:
        mask[:size] = 1
    elif flags & ONLY_NULL:
        value = message[forms[form].attribute]
        mask[:size] = value != value
    else:
        most, least = reach(message[forms[form].attribute], flags)
        at = rows[row].at + (form - first) * rows[row].step
        bounds = pool[at : at + 2 * size]
        contexts = owner[row : row + size]
        low_column = values[forms[form].low_context]
        high_column = values[forms[form].high_context]
        low_factor = forms[form].low_factor
        high_factor = forms[form].high_factor
        if flags & LOW_CONTEXT and flags & HIGH_CONTEXT:
            for i in range(size):
                context = np.uint32(contexts[i])
                low = low_factor * low_column[context] + bounds[2 * i]
                high = high_factor * high_column[context] + bounds[2 * i + 1]
                mask[i] = (low <= most) & (least <= high)
        elif flags & LOW_CONTEXT:
            for i in range(size):
                low = low_factor * low_column[np.uint32(contexts[i])] + bounds[2 * i]
                mask[i] = (low <= most) & (least <= bounds[2 * i + 1])
        elif flags & HIGH_CONTEXT:
            for i in range(size):
                high = high_factor * high_column[np.uint32(contexts[i])] + bounds[2 * i + 1]
                mask[i] = (bounds[2 * i] <= most) & (least <= high)
        else:
            for i in range(size):
                mask[i] = (bounds[2 * i] <= most) & (least <= bounds[2 * i + 1])
    mask[size : size + 8] = 0
    n_passed = 0
    words = mask.view(np.uint64)
    for word in range((size + 7) // 8):
        eight = words[word]
        while eight != ZERO:
            here = row + 8 * word + lowest_bit(eight) // 8
            eight &= eight - ONE
            n_passed += 1
            left[n_left] = here
            n_left += np.int64((outside[here // LANES] >> np.uint64(here % LANES)) & ONE)
    if form >= 0:
        forms[form].seen += size
        forms[form].passed += n_passed
    return n_left


@inlined
def other_columns(
    row: Any,
    shape: Any,
    begin: Any,
    end: Any,
    left: Any,
    message: Any,
    rows: Any,
    owner: Any,
    shapes: Any,
    forms: Any,
    pool: Any,
    values: Any,
) -> Any:
    """Keep of the rows ``left[begin:end]`` of one run those that its other predicates let through.

    Returns the new end. One predicate after the other and without branches, so that many rows
    wait for memory at once; where their constants stand follows from one row of the run.
    """
    first = shapes[shape].first
    step = rows[row].step
    start = rows[row].at - 2 * row
    for turn in range(first + 1, shapes[shape].last):
        if begin == end:
            break
        form = forms[turn].turn
        flags = forms[form].flags
        value = message[forms[form].attribute]
        if flags & ONLY_NULL:
            end = end if value != value else begin
            continue
        most, least = reach(value, flags)
        low_factor = forms[form].low_factor
        high_factor = forms[form].high_factor
        low_column = values[forms[form].low_context]
        high_column = values[forms[form].high_context]
        at = start + (form - first) * step
        kept = begin
        for i in range(begin, end):
            candidate = left[i]
            low = pool[at + 2 * candidate]
            high = pool[at + 2 * candidate + 1]
            if flags & LOW_CONTEXT:
                low = low_factor * low_column[owner[candidate]] + low
            if flags & HIGH_CONTEXT:
                high = high_factor * high_column[owner[candidate]] + high
            left[kept] = candidate
            kept += (low <= most) & (least <= high)
        forms[form].seen += end - begin
        forms[form].passed += kept - begin
        end = kept
    return end


@inlined
def reach(value: Any, flags: Any) -> Any:
    """(most, least) such that bounds hold a value when low <= most and least <= high.

    Open bounds are so tested like closed ones. NaN, which no bound holds, for NULL.
    """
    most = value
    least = value
    if flags & LOW_OPEN:
        most = np.nextafter(value, -np.inf) if value > -np.inf else np.nan
    if flags & HIGH_OPEN:
        least = np.nextafter(value, np.inf) if value < np.inf else np.nan
    return most, least


@kernel
def find_runs(begin: Any, end: Any, rows: Any, runs: Any, n_runs: Any, run_at: Any) -> Any:
    """Note the runs of new rows ``begin .. end``; returns how many there are in all.

    A row keeps its shape and its place for life (a free one waits for another of its shape).
    """
    for row in range(begin, end):
        if (
            row > 0
            and shape_for_life(rows[row]) == shape_for_life(rows[row - 1])
            and rows[row].at == rows[row - 1].at + 2
            and rows[row].step == rows[row - 1].step
        ):
            runs[n_runs - 1] = row + 1
        else:
            runs[n_runs] = row + 1
            n_runs += 1
        if row % LANES == 0:
            run_at[row // LANES] = n_runs - 1
    return n_runs


@inlined
def shape_for_life(row: Any) -> Any:
    """The shape of a row, also of a free one (``FREE``)."""
    return row.shape if row.shape >= 0 else FREE - row.shape


@kernel
def sharpen(shapes: Any, n_shapes: Any, forms: Any) -> None:
    """Put each shape's predicates in the order of what they let through, sharpest first."""
    for shape in range(n_shapes):
        first = shapes[shape].first
        for turn in range(first + 1, shapes[shape].last):
            form = forms[turn].turn
            rate = (forms[form].passed + 1.0) / (forms[form].seen + 1.0)
            place = turn
            while place > first:
                other = forms[place - 1].turn
                if (forms[other].passed + 1.0) / (forms[other].seen + 1.0) <= rate:
                    break
                forms[place].turn = other
                place -= 1
            forms[place].turn = form
        for form in range(first, shapes[shape].last):
            forms[form].seen >>= 1
            forms[form].passed >>= 1
