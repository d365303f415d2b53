"""The contract of an index over one attribute: intervals of keys in, rows out.

Keys are float64 without NaN; -inf and +inf are keys. An entry is a row, a dense number that the
caller chooses, with its exact closed interval k = [low, high]; low > high says that k is empty. The
index associates the row with a set of keys K that holds k (AGILE section 5.2, Table 1), and

    probe(v) = {row | v in K(row)}.

Inserting makes K as small as the structure can, ``escalate`` makes it larger so that later updates
are free, ``deescalate`` makes it smaller again; none of them ever loses a key of k. Batches act as
their entries would one after the other. A call is checked before it changes anything.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from germane.kernels.rowsets import first_fault, mark

Rows = NDArray[np.int32]
Keys = NDArray[np.float64]
Entries = tuple[Rows, Keys, Keys]


class AttributeIndex(ABC):
    """Intervals of one attribute's keys -> rows; probe(v) returns every row whose K holds v."""

    @abstractmethod
    def insert(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> None:
        """Add new rows, each once. An empty interval makes a row known that no probe returns."""

    @abstractmethod
    def remove(self, rows: ArrayLike) -> None:
        """Forget known rows, each once."""

    @abstractmethod
    def update(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> int:
        """EAGER: remove and insert; return how many entries moved."""

    @abstractmethod
    def update_local(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> int:
        """GBU: as update, but stay, or move next door, where that holds k; how many moved."""

    @abstractmethod
    def escalate(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> int:
        """Where k is not within K, take the next K' that holds K and k; how many did."""

    @abstractmethod
    def deescalate(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> int:
        """Given the current k, one step to a smaller K that holds k; how many K changed."""

    @abstractmethod
    def covers(self, rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> NDArray[np.bool_]:
        """Whether k is within K; an empty k always is."""

    @abstractmethod
    def extent(self, rows: ArrayLike) -> tuple[Keys, Keys]:
        """The hull of each K; (+inf, -inf) where it is empty."""

    @abstractmethod
    def probe(self, value: float) -> Rows:
        """The rows whose K holds the value, each once, in no order; none for NaN."""

    @abstractmethod
    def probe_into(self, value: float, out: Rows) -> int:
        """Write what probe returns to the start of out; return how many."""

    def probe_union(self, values: Keys, bits: NDArray[np.uint64]) -> None:
        """Set the bits of all rows whose K holds one of some values, ascending and distinct.

        An index without an order looks each of them up (Batching section 4).
        """
        for value in values.tolist():
            mark(self.probe(value), bits)

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The bytes of all arrays."""

    @abstractmethod
    def __len__(self) -> int:
        """How many rows are known."""

    @abstractmethod
    def __contains__(self, row: object) -> bool:
        """Whether a row is known."""

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """Everything, as arrays for saving."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        """The index that ``state`` described."""

    @abstractmethod
    def _check(self) -> None:
        """Assert all invariants."""


def as_rows(rows: ArrayLike) -> Rows:
    """Row numbers as int32[n], none negative."""
    given = np.asarray(rows)
    if given.size and given.dtype.kind not in "iu":
        raise TypeError(f"rows are integers; got {given.dtype}")
    if given.size and (given.min() < 0 or given.max() >= 2**31 - 1):
        raise ValueError(f"rows are in 0..2**31 - 2; got {given.min()}..{given.max()}")
    return _column(given, np.int32)


def as_intervals(rows: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> Entries:
    """Rows with their intervals, as arrays of one length without NaN."""
    numbers, a, b = _same_length(as_rows(rows), lows, highs)
    missing = np.isnan(a) | np.isnan(b)
    if missing.any():
        raise ValueError(_nan(int(numbers[missing.argmax()])))
    return numbers, a, b


def known_entries(
    table: NDArray[np.int32], rows: ArrayLike, lows: ArrayLike, highs: ArrayLike
) -> Entries:
    """Intervals without NaN of rows that are known; for int32 and float64 arrays, in one pass."""
    fast = type(rows) is np.ndarray and rows.dtype == np.int32
    entries = _same_length(_column(rows, np.int32) if fast else as_rows(rows), lows, highs)
    at, fault = first_fault(table, *entries)
    if fault == 1:
        raise ValueError(_nan(int(entries[0][at])))
    if at >= 0:
        raise KeyError(_unknown(int(entries[0][at])))
    return entries


def room_for(n: int, out: Rows) -> int:
    """n, if out has room for so many rows."""
    if n > len(out):
        raise ValueError(f"the probe returns {n} rows; out has room for {len(out)}")
    return n


def _column(values: ArrayLike, dtype: type[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(values, dtype).reshape(-1)


def _same_length(rows: Rows, lows: ArrayLike, highs: ArrayLike) -> Entries:
    a, b = _column(lows, np.float64), _column(highs, np.float64)
    if not len(rows) == len(a) == len(b):
        raise ValueError(f"{len(rows)} rows, {len(a)} lows and {len(b)} highs")
    return rows, a, b


def _nan(row: int) -> str:
    return f"row {row} has NaN; an empty interval is low > high"


def _unknown(row: int) -> str:
    return f"row {row} is not in the index; insert it first"


def require_known(rows: Rows, known: NDArray[np.bool_]) -> None:
    """Raise unless every row of a call is known."""
    if not known.all():
        raise KeyError(_unknown(int(rows[known.argmin()])))


def require_new(rows: Rows, known: NDArray[np.bool_]) -> None:
    """Raise if a row of an insertion is known already."""
    if known.any():
        raise ValueError(f"row {rows[known.argmax()]} is in the index; update it instead")


def require_distinct(rows: Rows) -> None:
    """Raise if a call names a row twice where that has no meaning."""
    if len(rows) > 1:
        ordered = np.sort(rows)
        twice = ordered[1:] == ordered[:-1]
        if twice.any():
            raise ValueError(f"row {ordered[twice.argmax()]} occurs twice in one call")
