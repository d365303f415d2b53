"""A graph without links, for sets whose members cover only themselves: patterns of documents.

A message's documents match a set of patterns, a condition names one: that is the predicate on
categories, and everything that finds and tests those does for these. Nodes are numbers below
``len``; there is always room for more.
"""

import numpy as np
from numpy.typing import NDArray

from germane.category.graph import View

FIRST_ROOM = 64


class FlatGraph:
    """Numbers that cover themselves."""

    is_forest = True

    def __init__(self) -> None:
        self.version = 0
        self.used = False
        self._make_room(FIRST_ROOM)

    def reserve(self, n: int) -> None:
        """All numbers below n are nodes from now on."""
        self.used |= n > 0
        if n > len(self):
            self._make_room(2 * n)

    def _make_room(self, n: int) -> None:
        everyone = np.arange(n, dtype=np.int32)
        one: NDArray[np.int32] = np.ones(n, np.int32)
        self.view = View(
            everyone, everyone.astype(np.int64), one, everyone, one, everyone, everyone + one,
            np.zeros(n + 1, np.int64), np.empty(0, np.int32),
        )  # fmt: skip
        self.version += 1

    def __len__(self) -> int:
        return len(self.view.component)

    @property
    def up(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """There is nothing above."""
        return self.view.down_at, self.view.down

    def _covers(self, a: NDArray[np.int32], b: NDArray[np.int32]) -> NDArray[np.bool_]:
        same: NDArray[np.bool_] = a == b
        return same

    def _check(self) -> None:
        assert (self.view.component == np.arange(len(self))).all()
