"""An index of contexts by one attribute: the dual of the indexes of profiles.

In: a column of the context store, and which of its values changed. Out: the contexts whose value is
within an interval. Values are cut into buckets of equal size; a change within a bucket costs a
look, one across appends to another list, and what is left behind is recognised. Kernels:
``kernels.points``.
"""

import numpy as np
from numpy.typing import NDArray

from germane.kernels import points as kernels

PER_BUCKET = 256
"""Contexts of a bucket, about."""
MOST_BUCKETS = 1 << 14
SAMPLE = 1 << 16


class PointIndex:
    """The contexts by their values in one slot."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        self.builds = 0
        self.build(values)

    def build(self, values: NDArray[np.float64]) -> None:
        """Cut the values that are there now into buckets."""
        known = values[~np.isnan(values)]
        if len(known) > SAMPLE:
            known = known[:: -(-len(known) // SAMPLE)]
        n_buckets = max(1, min(MOST_BUCKETS, len(values) // PER_BUCKET))
        cuts = np.quantile(known, np.linspace(0, 1, n_buckets + 1)[:-1]) if len(known) else [0.0]
        self.bounds = np.unique(np.asarray(cuts, np.float64))
        n = len(self.bounds)
        self.at, self.count = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.room = np.zeros(n, np.int64)
        self.bucket: NDArray[np.int32] = np.empty(len(values), np.int32)
        self.pool: NDArray[np.int32] = np.empty(len(values) * 5 // 4 + 4 * n, np.int32)
        kernels.place(values, self.bounds, self.bucket, self.at, self.count, self.room, self.pool)
        self.builds += 1

    def update(self, contexts: NDArray[np.int32], values: NDArray[np.float64]) -> None:
        """Some contexts have other values."""
        if len(values) > len(self.bucket) or not kernels.move(
            contexts, values, self.bounds, self.bucket, self.at, self.count, self.room, self.pool
        ):
            self.build(values)

    def named(self, low: float, high: float) -> int:
        """How many contexts are to be looked at for an interval; some of them twice."""
        return int(kernels.named(low, high, self.bounds, self.count))

    def collect(
        self,
        low: float,
        high: float,
        slots: NDArray[np.int32],
        lows: NDArray[np.float64],
        highs: NDArray[np.float64],
        values: NDArray[np.float64],
        seen: NDArray[np.bool_],
        out: NDArray[np.int32],
        n: int,
    ) -> int:
        """Append the contexts within intervals that were not seen yet; how many there are."""
        found: int = kernels.collect(
            low, high, self.bounds, self.at, self.count, self.pool, slots, lows, highs, values,
            seen, out, n,
        )  # fmt: skip
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of arrays."""
        own = (self.bounds, self.at, self.count, self.room, self.bucket, self.pool)
        return sum(array.nbytes for array in own)

    def _check(self, values: NDArray[np.float64]) -> None:
        for b in range(len(self.bounds)):
            named = self.pool[self.at[b] : self.at[b] + self.count[b]]
            assert np.isin(np.flatnonzero(self.bucket == b), named).all()
        assert ((self.bucket == kernels.NOWHERE) == np.isnan(values[: len(self.bucket)])).all()
