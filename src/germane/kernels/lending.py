"""Arrays inside a kernel without a claim on their memory: nobody counts their references.

A kernel's caller holds its arrays for as long as it runs. Functions in line that take arrays, and
loops around them, would still count references up and down, each an atomic instruction of some
five nanoseconds: a test of a row that unpacks a tuple of twelve arrays spent more on counting than
on testing.
"""

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array


@intrinsic
def lent(typing_context: Any, value: Any) -> Any:
    """The same array, or tuple of arrays (tuples nest), without a claim on the memory.

    Only for what outlives the kernel that borrows it: its arguments.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _lend(context, builder, signature.args[0], args[0])

    return value(value), generate


def _lend(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        make = context.make_array(kind)
        source, copy = make(context, builder, value), make(context, builder)
        populate_array(
            copy, source.data, source.shape, source.strides, source.itemsize, meminfo=None
        )
        return copy._getvalue()
    if isinstance(kind, types.BaseTuple):
        parts = cgutils.unpack_tuple(builder, value)
        lent_parts = [
            _lend(context, builder, part_kind, part)
            for part_kind, part in zip(kind.types, parts, strict=True)
        ]
        return context.make_tuple(builder, kind, lent_parts)
    return value
