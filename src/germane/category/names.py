"""The names of a graph's nodes, for columns of names: an Arrow array of strings in, numbers out.

One pass over the bytes, without a Python object a name (``kernels.names``). It is made of a graph
as it is, in time linear in the graph, and serves until the graph changes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.kernels import names as kernels


class Names:
    """A hash table of names."""

    def __init__(self, names: list[str | None]) -> None:
        """Names by number; None where there is none."""
        import pyarrow as pa

        try:
            listed = pa.array(names, pa.large_string())
        except UnicodeEncodeError:  # halves of surrogate pairs: no Arrow string has them
            listed = pa.array([n if _is_text(n) else None for n in names], pa.large_string())
        self._ends, self._bytes = _parts(listed)
        slots = 1 << max(4, (2 * len(names)).bit_length())
        self._table: NDArray[np.uint64] = np.zeros(slots, np.uint64)
        kernels.fill(self._ends, self._bytes, np.asarray(listed.is_valid()), self._table)

    def find(self, texts: Any) -> NDArray[np.int32]:
        """The numbers of an Arrow array's strings; -1 for those that are unknown or null."""
        ends, data = _parts(texts)
        numbers: NDArray[np.int32] = np.empty(len(texts), np.int32)
        hashes = np.empty(len(texts), np.uint64)
        kernels.find(ends, data, self._ends, self._bytes, self._table, hashes, numbers)
        if texts.null_count:
            numbers[~np.asarray(texts.is_valid())] = kernels.UNKNOWN
        return numbers


def _parts(texts: Any) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Where strings end, and their bytes."""
    import pyarrow.types as t

    width = np.dtype(np.int64 if t.is_large_string(texts.type) else np.int32)
    _, ends, data = texts.buffers()
    held: NDArray[np.uint8] = np.zeros(0, np.uint8)
    if ends is None or not ends.size:  # no strings at all
        return np.zeros(len(texts) + 1, width), held
    if data is not None and data.size:
        held = np.frombuffer(data, np.uint8)
    return np.frombuffer(ends, width, len(texts) + 1, texts.offset * width.itemsize), held


def _is_text(name: str | None) -> bool:
    """Whether a name can be written as UTF-8."""
    return name is not None and name.encode(errors="ignore").decode() == name
