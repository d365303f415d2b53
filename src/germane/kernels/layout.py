"""What arrays must be before compiled code may read them: their type, dimensions and order.

Checked where arrays come from outside (a file), and where they are handed over in a way that the
compiler does not check (``kernels.bundle``).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Field(NamedTuple):
    """One array, items one after the other (C order)."""

    name: str
    dtype: np.dtype[Any]
    n_dimensions: int = 1

    def require(self, array: NDArray[Any]) -> None:
        """Raise TypeError unless an array is what the field says."""
        if (
            array.dtype != self.dtype
            or array.ndim != self.n_dimensions
            or not array.flags.c_contiguous
        ):
            order = "in C order" if array.flags.c_contiguous else "not in C order"
            raise TypeError(
                f"{self.name!r} must be an array of {self.dtype}, {self.n_dimensions}-dimensional, "
                f"in C order; it is of {array.dtype}, {array.ndim}-dimensional, {order}"
            )


def require_alike(arrays: Mapping[str, NDArray[Any]], models: Mapping[str, NDArray[Any]]) -> None:
    """Raise TypeError unless each array has the type and the dimensions of its model."""
    for name, model in models.items():
        Field(name, model.dtype, model.ndim).require(arrays[name])
