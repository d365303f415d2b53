"""Many arrays as one argument: a kernel that is called for each message takes their addresses.

Handing an array to a kernel costs as much as reading twenty cache lines; two dozen of them cost
more than some messages. A ``Bundle`` keeps its arrays alive, and must be made anew when one of
them is replaced by another. An address has no type: the layout that the kernel reads by is held
against the arrays when the bundle is made.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from germane.kernels.compile import inlined
from germane.kernels.layout import Field


class Bundle:
    """Arrays that lie one item after the other, and where they are."""

    def __init__(self, layout: tuple[Field, ...], arrays: tuple[NDArray[Any], ...]) -> None:
        for field, array in zip(layout, arrays, strict=True):
            field.require(array)
        self.arrays = arrays
        self.places = np.array([(a.ctypes.data, len(a), a.shape[-1]) for a in arrays], np.int64)


@intrinsic
def _pointer(typing_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@inlined
def array_at(places: Any, number: Any, dtype: Any) -> Any:
    """The array with a number in a bundle."""
    return numba.carray(_pointer(places[number, 0]), (places[number, 1],), dtype)


@inlined
def matrix_at(places: Any, number: Any, dtype: Any) -> Any:
    """As ``array_at``, where it has two dimensions."""
    return numba.carray(_pointer(places[number, 0]), (places[number, 1], places[number, 2]), dtype)
