"""Probe and postfilter in one call: what a message costs when nothing else has to be done.

Only the call is fused, not the stages: ``kernels.blocks.probe`` finds candidates,
``kernels.conjunctions.test`` decides those that are not certain.
"""

from typing import Any

from germane.kernels.blocks import probe
from germane.kernels.codes import encode
from germane.kernels.compile import kernel
from germane.kernels.conjunctions import MISSING, PASSED, test


@kernel
def match_point(
    point: Any,
    message: Any,
    cuts: Any,
    starts: Any,
    column: Any,
    scratch: Any,
    codes: Any,
    zones: Any,
    hulls: Any,
    heads: Any,
    tenants: Any,
    places: Any,
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
    reasons: Any,
) -> Any:
    """Rows that match, from the front of ``out``; see ``RowIndex.match``."""
    for slot in range(starts.shape[0] - 1):
        place = encode(point[slot], cuts, starts[slot], starts[slot + 1])
        odd = place & 1
        scratch[0, column[slot]] = place
        scratch[1, column[slot]] = place - odd
        scratch[2, column[slot]] = place + odd
    n_found, begin, opened = probe(
        scratch[0],
        scratch[1],
        scratch[2],
        codes,
        zones,
        hulls,
        heads,
        tenants,
        places,
        size,
        out,
    )
    n_candidates = n_found + out.shape[0] - begin
    n_failed = 0
    n_waiting = 0
    for i in range(begin, out.shape[0]):
        row = out[i]
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
            out[begin + n_waiting] = row
            n_waiting += 1
        else:
            failed[n_failed] = row
            reasons[n_failed] = reason
            n_failed += 1
    return n_found, n_failed, n_waiting, begin, n_candidates, opened
