"""Which ``seq`` a task has met: a duplicate is ignored, in whatever order messages come.

Sorted runs, each more than twice as long as the next, as a binary counter has digits: a ``seq`` is
merged O(log n) times, and looked up in O(log n) runs, most of which their bounds exclude.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_LEAST = int(np.iinfo(np.int64).min)


class Seen:
    """Every ``seq`` so far."""

    def __init__(self) -> None:
        self._runs: list[NDArray[np.int64]] = []

    def take(self, table: pa.Table) -> pa.Table:
        """The rows of a table that are new, in the order of ``seq``; those without one first."""
        column = table.column("seq")
        n_without = column.null_count
        seqs = column.fill_null(_LEAST).to_numpy()
        if n_without or not (seqs[1:] > seqs[:-1]).all():
            valid = column.is_valid().to_numpy()
            order = np.lexsort((seqs, valid))
            table, seqs = table.take(pa.array(order)), seqs[order]
        seqs = seqs[n_without:]
        new = np.ones(len(seqs), np.bool_)
        new[1:] = seqs[1:] != seqs[:-1]
        for run in self._beside(seqs):
            at = np.minimum(np.searchsorted(run, seqs), len(run) - 1)
            new &= run[at] != seqs
        self._add(seqs[new])
        if new.all():
            return table
        return table.filter(pa.array(np.concatenate((np.ones(n_without, np.bool_), new))))

    def _beside(self, seqs: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """The runs that may have some of them."""
        for run in self._runs:
            if len(seqs) and run[0] <= seqs[-1] and seqs[0] <= run[-1]:
                yield run

    def _add(self, run: NDArray[np.int64]) -> None:
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate((self._runs.pop(), run)), kind="stable")
        if len(run):
            self._runs.append(run)

    def _check(self) -> None:
        for run, shorter in zip(self._runs, self._runs[1:], strict=False):
            assert len(run) > 2 * len(shorter)
        everything = np.concatenate([np.empty(0, np.int64), *self._runs])
        assert all((run[1:] > run[:-1]).all() for run in self._runs)
        assert len(np.unique(everything)) == len(everything)
