"""Scopes of partial indexing (AGILE section 4.3): the range of keys that an index covers.

An interval outside its slot's scope is not indexed there: it becomes the whole domain, a
candidate of every probe, and updates outside the scope cost the index nothing. By default a
scope is the range that holds the least updated half of the entries: entries are divided into
quantiles, updates are counted per quantile, and the window of half of them with the fewest
updates is chosen whenever about as many updates have been seen as there are entries.
"""

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.float64]
BINS = 64


class Scopes:
    """The scopes of all (table, slot) pairs."""

    def __init__(self) -> None:
        self._edges: dict[tuple[int, int], Keys] = {}
        self._counts: dict[tuple[int, int], NDArray[np.int64]] = {}
        self.scope: dict[tuple[int, int], tuple[float, float]] = {}
        self._seen: dict[int, int] = {}

    def due(self, table: int, n_rows: int) -> bool:
        """Whether a table's scopes should be chosen again."""
        return self._seen.get(table, 0) >= max(n_rows, BINS)

    def choose(self, table: int, lows: Keys, highs: Keys) -> None:
        """Choose scopes from the updates seen, for entries as they stand now."""
        self._seen[table] = 0
        for slot in range(lows.shape[1]):
            key = (table, slot)
            counts = self._counts.get(key)
            if counts is not None and counts.sum():
                self.scope[key] = _calmest(self._edges[key], counts)
            finite = lows[np.isfinite(lows[:, slot]), slot]
            if len(finite):
                self._edges[key] = np.quantile(finite, np.linspace(0, 1, BINS + 1)[1:-1])
                self._counts[key] = np.zeros(BINS, np.int64)

    def count(self, table: int, slots: NDArray[np.int32], lows: Keys) -> None:
        """Count updates, by where they put the lower bound."""
        self._seen[table] = self._seen.get(table, 0) + len(lows)
        for slot in np.unique(slots).tolist():
            key = (table, int(slot))
            if key in self._edges:
                bins = np.searchsorted(self._edges[key], lows[slots == slot])
                self._counts[key] += np.bincount(bins, minlength=BINS)

    def clip(
        self, table: int, slots: NDArray[np.int32], lows: Keys, highs: Keys
    ) -> tuple[Keys, Keys]:
        """Intervals as the index should hold them."""
        lows, highs = lows.copy(), highs.copy()
        for slot in np.unique(slots).tolist():
            mine = slots == slot
            key = (table, int(slot))
            low, high = self.scope.get(key, (-np.inf, np.inf))
            out = mine & ~((lows >= low) & (highs <= high)) & (lows <= highs)
            lows[out], highs[out] = -np.inf, np.inf
        return lows, highs


def _calmest(edges: Keys, counts: NDArray[np.int64]) -> tuple[float, float]:
    """The window of half the quantiles with the fewest updates."""
    half = len(counts) // 2
    sums = np.convolve(counts, np.ones(half, np.int64), "valid")
    start = int(np.argmin(sums))
    low = -np.inf if start == 0 else float(edges[start - 1])
    high = np.inf if start + half > len(edges) else float(edges[start + half - 1])
    return low, high
