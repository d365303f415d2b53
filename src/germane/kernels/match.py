"""Probe and postfilter in one call: what a message costs when nothing else has to be done.

Only the call is fused, not the stages: ``kernels.blocks.probe`` finds candidates; those that
are not certain are decided by ``kernels.conjunctions.test``, or, where only the coarseness of
codes leaves a doubt, by the one predicate in doubt.
"""

from typing import Any

import numpy as np

from germane.kernels.blocks import N_SLOTS, ONE, OPENED, PAIR, ZERO, probe
from germane.kernels.codes import encode_at, reach
from germane.kernels.compile import inlined, kernel
from germane.kernels.conjunctions import (
    AHEAD,
    MISSING,
    PASSED,
    ask_for_bounds,
    ask_for_row,
    follows_context,
    holds,
    test,
)
from germane.kernels.lanes import LANES


@kernel
def match_message(
    message: Any,
    attributes: Any,
    column_of: Any,
    cuts: Any,
    grid: Any,
    ladder: Any,
    points: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    size: Any,
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
    out: Any,
    failed: Any,
) -> Any:
    """Rows that match, from the front of ``out``; see ``RowIndex.match``.

    What fails for the coarseness of codes alone is no false positive: an update cannot mend it.

    ``attributes`` are the message attributes of the index's slots, ``column_of`` the column of
    codes of an attribute.
    """
    n_slots = attributes.shape[0]
    for slot in range(n_slots):
        column = column_of[attributes[slot]]
        value = message[attributes[slot]]
        key = encode_at(value, cuts, grid, ladder, slot)
        points[column] = key
        at = n_slots + 2 * column
        points[at], points[at + 1] = reach(key)
    n_found, begin, opened = probe(
        points,
        codes,
        zones,
        hulls,
        heads,
        tenants,
        size,
        out,
    )
    n_candidates = n_found + out.shape[0] - begin
    n_failed = 0
    n_waiting = 0
    for i in range(begin, out.shape[0]):
        if (i - begin) % AHEAD == 0:
            stop = min(i + AHEAD, out.shape[0])
            for k in range(i, stop):
                ask_for_row(tenants[out[k]], rows, owner)
            for k in range(i, stop):
                ask_for_bounds(tenants[out[k]], rows, owner, shapes, forms, pool, values)
        place = out[i]
        row = tenants[place]
        if heads[place // LANES].exact & (ONE << np.uint64(place % LANES)) != ZERO:
            if holds_at_borders(
                row,
                place,
                points,
                message,
                column_of,
                codes,
                size,
                rows,
                owner,
                shapes,
                forms,
                pool,
                values,
            ):
                out[n_found] = row
                n_found += 1
            continue
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
    size[OPENED] += opened
    return n_found, n_failed, n_waiting, begin, n_candidates


@inlined
def holds_at_borders(
    row: Any,
    place: Any,
    points: Any,
    message: Any,
    column_of: Any,
    codes: Any,
    size: Any,
    rows: Any,
    owner: Any,
    shapes: Any,
    forms: Any,
    pool: Any,
    values: Any,
) -> Any:
    """Whether a row that its codes decide matches, where a bound shares the message's gap."""
    first = shapes[rows[row].shape].first
    n_slots = size[N_SLOTS]
    base = (place // LANES) * n_slots * PAIR + place % LANES
    for form in range(first, shapes[rows[row].shape].last):
        column = column_of[forms[form].attribute]
        at = base + column * PAIR
        above, below = points[n_slots + 2 * column], points[n_slots + 2 * column + 1]
        if codes[at] == above or codes[at + LANES] == below:
            value = message[forms[form].attribute]
            if not holds(value, row, form, first, rows, owner, forms, pool, values):
                return False
    return True
