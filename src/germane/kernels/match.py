"""Probe and postfilter in one call: what a message costs when nothing else has to be done.

Only the call is fused, not the stages: ``kernels.blocks.probe`` finds candidates; those that
are not certain are decided by ``kernels.conjunctions.test``, or, where only the coarseness of
codes leaves a doubt, by the one predicate in doubt.
"""

from typing import Any

import numpy as np

from germane.kernels.blocks import (
    HEAD,
    N_SLOTS,
    ONE,
    OPENED,
    PAIR,
    ZERO,
    Blocks,
    find_cores,
    probe,
)
from germane.kernels.briefs import BRIEF, excludes, find_briefs
from germane.kernels.bundle import Bundle, array_at, matrix_at
from germane.kernels.codes import encode_at, reach
from germane.kernels.compile import inlined, kernel
from germane.kernels.conjunctions import (
    AHEAD,
    FORM,
    MISSING,
    PASSED,
    ROW,
    SHAPE,
    VERDICT,
    WANTED,
    ask_for_bounds,
    ask_for_row,
    follows_context,
    holds,
    test,
)
from germane.kernels.lanes import LANES
from germane.kernels.layout import Field


def bundle_of(
    attributes: Any,
    column_of: Any,
    cuts: Any,
    grid: Any,
    ladder: Any,
    points: Any,
    blocks: Blocks,
    cores: Any,
    briefs: Any,
    rest: tuple[Any, ...],
) -> Bundle:
    """What ``match_message`` reads besides the message.

    ``attributes`` are the message attributes of the index's slots, ``column_of`` the column of
    codes of an attribute, ``rest`` what the postfilter reads.
    """
    b = blocks
    index = (b.codes, b.zones, b.hulls, b.heads, b.tenants, b.size, cores, briefs)
    return Bundle(LAYOUT, (attributes, column_of, cuts, grid, ladder, points, *index, *rest))


_INT16, _INT32, _INT64 = np.dtype(np.int16), np.dtype(np.int32), np.dtype(np.int64)
_FLOAT = np.dtype(np.float64)
LAYOUT = (
    Field("attributes", _INT32),
    Field("column_of", _INT32),
    Field("cuts", _FLOAT),
    Field("grid", _FLOAT),
    Field("ladder", _INT32),
    Field("points", _INT16),
    Field("codes", _INT16),
    Field("zones", _INT16),
    Field("hulls", _INT16),
    Field("heads", HEAD),
    Field("tenants", _INT32),
    Field("size", _INT64),
    Field("cores", _INT16),
    Field("briefs", BRIEF),
    Field("rows", ROW),
    Field("owner", _INT32),
    Field("shapes", SHAPE),
    Field("forms", FORM),
    Field("code", _INT32, 2),
    Field("pool", _FLOAT),
    Field("values", _FLOAT, 2),
    Field("truth", _FLOAT),
    Field("cache", VERDICT),
    Field("wanted", WANTED),
    Field("stack", _FLOAT),
    Field("graphs", _INT64, 2),
)
"""The arrays of a bundle, as ``match_message`` reads them."""


@kernel
def match_message(message: Any, places: Any, out: Any, failed: Any) -> Any:
    """Rows that match, from the front of ``out``; see ``RowIndex.match``.

    What fails for the coarseness of codes alone is no false positive: an update cannot mend it.

    ``places`` are those of a bundle of what ``bundle_of`` takes.
    """
    attributes = array_at(places, 0, np.int32)
    column_of = array_at(places, 1, np.int32)
    cuts = array_at(places, 2, np.float64)
    grid = array_at(places, 3, np.float64)
    ladder = array_at(places, 4, np.int32)
    points = array_at(places, 5, np.int16)
    codes = array_at(places, 6, np.int16)
    zones = array_at(places, 7, np.int16)
    hulls = array_at(places, 8, np.int16)
    heads = array_at(places, 9, HEAD)
    tenants = array_at(places, 10, np.int32)
    size = array_at(places, 11, np.int64)
    cores = array_at(places, 12, np.int16)
    briefs = array_at(places, 13, BRIEF)
    rows = array_at(places, 14, ROW)
    owner = array_at(places, 15, np.int32)
    shapes = array_at(places, 16, SHAPE)
    forms = array_at(places, 17, FORM)
    code = matrix_at(places, 18, np.int32)
    pool = array_at(places, 19, np.float64)
    values = matrix_at(places, 20, np.float64)
    truth = array_at(places, 21, np.float64)
    cache = array_at(places, 22, VERDICT)
    wanted = array_at(places, 23, WANTED)
    stack = array_at(places, 24, np.float64)
    graphs = matrix_at(places, 25, np.int64)
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
    if briefs.shape[0] > 0:
        begin = sift(
            begin, message, out, column_of, codes, heads, tenants, size, cores, briefs, rows,
            shapes, forms, pool,
        )  # fmt: skip
    n_candidates = n_found + out.shape[0] - begin
    n_failed = 0
    n_waiting = 0
    for i in range(begin, out.shape[0]):
        if (i - begin) % AHEAD == 0:
            stop = min(i + AHEAD, out.shape[0])
            for k in range(i, stop):
                ask_for_row(tenants[out[k]], rows, owner, values)
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
    size[OPENED] += opened
    return n_found, n_failed, n_waiting, begin, n_candidates


@inlined
def sift(
    begin: Any,
    message: Any,
    out: Any,
    column_of: Any,
    codes: Any,
    heads: Any,
    tenants: Any,
    size: Any,
    cores: Any,
    briefs: Any,
    rows: Any,
    shapes: Any,
    forms: Any,
    pool: Any,
) -> Any:
    """Drop the places in ``out[begin:]`` that their briefs exclude; where the others begin."""
    left = out.shape[0]
    for i in range(out.shape[0] - 1, begin - 1, -1):
        place = out[i]
        block = place // LANES
        if heads[block].cored == 0:
            find_cores(block, size[N_SLOTS], codes, heads, cores)
            find_briefs(block, column_of, heads, tenants, rows, shapes, forms, pool, briefs)
        out[left - 1] = place
        left -= not excludes(briefs[place], message)
    return left


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
