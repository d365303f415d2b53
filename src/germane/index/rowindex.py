"""The contract of an index over conjunctions: a box of keys per row in, candidate rows out.

An index has *slots*, one per message attribute it covers. A row's entry in a slot is its
interval k, and the set K of keys that the index associates with it (AGILE section 5.2):
k lies within K at all times. Intervals travel as two float64, see ``kernels.codes``.

``match`` finds every row whose K holds the message in all slots; *certain* ones match without
further test, the rest go through the postfilter. A strategy says how new intervals are carried in.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.kernels.blocks import EAGER, ESCALATE, LOCAL

Rows = NDArray[np.int32]
Keys = NDArray[np.float64]
Flags = NDArray[np.bool_]
Array = NDArray[Any]
Rest = tuple[Array, Array, Array, Array, Array, Array, Array, Array, Array, Array, Array, Array]
"""What the postfilter reads: a table of conjunctions (6), context values, texts (4)."""

__all__ = ["EAGER", "ESCALATE", "LOCAL", "Flags", "Keys", "Rest", "RowIndex", "Rows"]


class RowIndex(ABC):
    """Boxes of keys -> rows."""

    attributes: NDArray[np.int32]
    """The message slot of each of the index's slots."""

    @abstractmethod
    def build(self, rows: Rows, lows: Keys, highs: Keys, whole: Flags, awake: Flags) -> None:
        """Start anew with rows and their intervals [n, slots]; K = k.

        ``whole`` rows are decided by their slots alone; rows that are not ``awake`` match
        nothing until they are woken.
        """

    @abstractmethod
    def insert(self, rows: Rows, lows: Keys, highs: Keys, whole: Flags, awake: Flags) -> None:
        """Add rows; K = k."""

    @abstractmethod
    def remove(self, rows: Rows) -> None:
        """Forget rows that are in the index."""

    @abstractmethod
    def expect(self, rates: Keys) -> None:
        """Hear how often, lately, an entry of each slot was updated per message."""

    @abstractmethod
    def revise(self, rows: Rows, slots: Rows, lows: Keys, highs: Keys, mode: int) -> Rows:
        """Carry new intervals of (row, slot) pairs in, as EAGER, LOCAL (GBU) or ESCALATE says.

        On return ``lows`` and ``highs`` say where k may move without any change to the index.
        Returns rows that were put out of the index because it no longer helps to find them.
        """

    @abstractmethod
    def deescalate(self, rows: Rows, lows: Keys, highs: Keys, whole: Flags) -> None:
        """Make K smaller, towards k [n, slots], for rows that were false positives."""

    @abstractmethod
    def set_awake(self, rows: Rows, awake: Flags) -> None:
        """Wake rows or put them to sleep."""

    @abstractmethod
    def match(
        self, message: Keys, rest: Rest, out: Rows, failed: Rows
    ) -> tuple[int, int, int, int, int]:
        """Find the rows whose K holds a message, and test those that are not certain.

        ``rest`` is what the postfilter reads. Rows that match are put to the front of ``out``,
        false positives of predicates that follow a context to the front of ``failed``, rows that
        wait for a text to its end; ``out[begin:]`` were tested one by one. Returns (found, failed,
        waiting, begin, candidates).
        """

    @abstractmethod
    def counters(self) -> Mapping[str, int]:
        """What happened so far: escalations, index_updates, …"""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of arrays."""

    @abstractmethod
    def _check(self, rows: Rows, lows: Keys, highs: Keys) -> None:
        """Assert all invariants, given the rows that should be inside and their k."""

    @abstractmethod
    def describe(self, names: list[str]) -> dict[str, Any]:
        """What a person would want to know; ``names`` are those of message slots."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Arrays and plain data for saving."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: Mapping[str, Any]) -> "RowIndex":
        """The index that ``state`` described."""
