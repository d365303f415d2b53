"""The one way kernels are compiled: cached on disk, without the GIL, with numpy's division.

``kernel`` is typed as an identity decorator, so that callers of a kernel are checked against the
signature that its author wrote.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a module-level function of arrays on its first call."""
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: F) -> F:
    """Compile a small function that takes part in kernels' inner loops, always in line there.

    A call that passes a tuple of arrays copies all their descriptors; in line it costs nothing.
    """
    return cast(
        F,
        numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=True)(function),
    )


def is_on_disk(function: Callable[..., Any]) -> bool:
    """Whether some compiled form of a kernel, as its source is now, is in the cache on disk.

    True also where numba does not tell: who asks then compiles when it is needed.
    """
    file = getattr(getattr(function, "_cache", None), "_cache_file", None)
    return file is None or bool(file._load_index())
