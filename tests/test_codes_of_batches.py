"""Codes of a whole batch, looked up sixteen cuts at once, against a search in sorted cuts."""

import numpy as np
import pytest

from germane.kernels import codes
from germane.kernels.grouping import encode_batch


def expected(values, cuts):
    """Even codes for cuts, odd ones for the gaps between them."""
    place = np.searchsorted(cuts, values)
    equal = np.isin(values, cuts)
    code = np.where(equal, codes.FIRST_CUT, codes.FIRST_GAP) + 2 * place
    return np.where(np.isnan(values), codes.NULL, code)


@pytest.mark.parametrize("n_cuts", [(0,), (1, 0, 3), (4000, 16, 17), (300, 9000), (15, 0)])
def test_codes(n_cuts):
    rng = np.random.default_rng(sum(n_cuts))
    spread = [rng.normal(0, 50, n) ** 3 for n in n_cuts]  # crowded in the middle
    cuts = [np.unique(np.round(s, 1)) for s in spread]
    starts = np.cumsum([0, *map(len, cuts)]).astype(np.int64)
    n_slots = len(cuts)
    grid = np.zeros(2 * n_slots)
    ladder = np.zeros(n_slots * (codes.N_BUCKETS + 1), np.int32)
    codes.lay_ladder(np.concatenate(cuts), starts, grid, ladder)
    values = np.round(rng.normal(0, 60, (700, n_slots)) ** 3, 1) + rng.choice([0, 0.03], (700, 1))
    for slot, own in enumerate(cuts):
        if len(own):
            values[:300, slot] = rng.choice(own, 300)
    values[rng.random(values.shape) < 0.05] = np.nan
    values[:3] = np.array([[np.inf], [-np.inf], [1e308]])
    column = rng.permutation(n_slots).astype(np.int32)
    found = np.empty(values.shape, np.int16)
    attributes = np.arange(n_slots, dtype=np.int32)
    encode_batch(values, attributes, column, np.concatenate(cuts), grid, ladder, found)
    for slot, own in enumerate(cuts):
        assert (found[:, column[slot]] == expected(values[:, slot], own)).all()
