"""An index of contexts by one attribute: the dual of the indexes of profiles.

In: a column of the context store (of a location, two), and which of its values changed. Out: for
kernels, where its arrays are. Values are cut into buckets of equal size; a change within a bucket
costs a look, one across takes the context out of one list and appends it to another. Changes are
only noted until the index is used: where addresses are not selective, nobody pays for it. Kernels:
``kernels.buckets``.
"""

import numpy as np
from numpy.typing import NDArray

from germane.kernels import buckets as kernels
from germane.kernels.bundle import Bundle

PER_BUCKET = 64
"""Contexts of a bucket, about."""
MOST_BUCKETS = 1 << 14
SAMPLE = 1 << 18
MOST_NOTES = 4096
REBUILD = 2
"""Where more than one in so many contexts have changed, everything is built anew."""
Column = NDArray[np.float64]


class PointIndex:
    """The contexts by their values in one slot, or in the two of a location."""

    def __init__(self, slots: tuple[int, ...], values: Column) -> None:
        self.slots = slots
        self.builds = 0
        self.behind: list[NDArray[np.int32]] = []  # contexts whose values changed since
        self.n_behind = 0
        self.build(values)

    def _columns(self, values: Column) -> tuple[Column, Column]:
        return values[self.slots[0]], values[self.slots[-1]]

    def build(self, values: Column) -> None:
        """Cut the values that are there now into buckets."""
        ones, twos = self._columns(values)
        n = len(ones)
        known = np.flatnonzero(~(np.isnan(ones) | np.isnan(twos)))
        if len(known) > SAMPLE:
            known = known[:: -(-len(known) // SAMPLE)]
        one, two = ones[known], twos[known]
        n_buckets = max(1, min(MOST_BUCKETS, n // PER_BUCKET))
        n_strips = 1 if len(self.slots) == 1 else max(1, round(n_buckets**0.5))
        strips = _cuts(one, n_strips)
        strip = np.maximum(np.searchsorted(strips, one, side="right") - 1, 0)
        parts = [_cuts(two[strip == s], n_buckets // n_strips) for s in range(len(strips))]
        bounds = np.concatenate(parts)
        firsts = np.array([0, *np.cumsum([len(part) for part in parts])], np.int64)
        lists = np.zeros((len(bounds), kernels.N_OF_LIST), np.int64)
        where, pool = np.empty((n, 2), np.int32), np.empty(3 * n + 8 * len(bounds), np.int32)
        arrays = (strips, firsts, bounds, lists, where, pool, np.zeros(1, np.int64))
        kernels.place(ones, twos, *arrays)
        self.bundle = Bundle(kernels.LAYOUT, arrays)
        self.builds += 1
        self.behind, self.n_behind = [], 0

    def note(self, contexts: NDArray[np.int32]) -> None:
        """Some contexts have other values, which is seen to when the index is used."""
        self.n_behind += len(contexts)
        if self.n_behind <= len(self.bundle.arrays[kernels.WHERE]) // REBUILD:
            self.behind.append(contexts)
            if len(self.behind) > MOST_NOTES:
                self.behind = [np.concatenate(self.behind)]
        else:
            self.behind = []

    def catch_up(self, values: Column) -> bool:
        """Follow what was noted; whether everything was built anew."""
        if not self.n_behind:
            return False
        columns, arrays = self._columns(values), self.bundle.arrays
        n = len(arrays[kernels.WHERE])
        if len(columns[0]) <= n and self.n_behind <= n // REBUILD:
            noted = self.behind[0] if len(self.behind) == 1 else np.concatenate(self.behind)
            if kernels.move(noted, *columns, *arrays):
                self.behind, self.n_behind = [], 0
                return False
        self.build(values)
        return True

    @property
    def nbytes(self) -> int:
        """Bytes of arrays."""
        return sum(array.nbytes for array in self.bundle.arrays)

    def _check(self, values: Column) -> None:
        self.catch_up(values)
        strips, firsts, bounds, lists, where, pool, used = self.bundle.arrays
        ones, twos = (column[: len(where)] for column in self._columns(values))
        pairs = zip(ones, twos, strict=True)
        buckets = [kernels.bucket_of(a, b, strips, firsts, bounds) for a, b in pairs]
        assert where[:, kernels.BUCKET].tolist() == buckets
        for b, (at, count, limit, _) in enumerate(lists):
            listed = pool[at : at + count]
            assert sorted(listed) == [i for i, bucket in enumerate(buckets) if bucket == b]
            assert where[listed, kernels.PLACE].tolist() == list(range(count))
            assert count <= limit
            assert at + limit <= used[0]


def _cuts(values: Column, n: int) -> Column:
    """Lower ends of n parts of about equal size, each once."""
    if not len(values):
        return np.zeros(1)
    ordered = np.sort(values)
    return np.unique(ordered[np.arange(n) * len(ordered) // n])
