"""The one way kernels are compiled: cached on disk, without the GIL, with numpy's division.

What is compiled holds constants and functions of other modules. Numba would take it from the disk
for as long as the kernel's own file is the same; here all that its module imports has to be.

``kernel`` is typed as an identity decorator, so that callers of a kernel are checked against the
signature that its author wrote.
"""

import functools
import hashlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a module-level function of arrays on its first call."""
    return _cached(numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: F) -> F:
    """Compile a small function that takes part in kernels' inner loops, always in line there.

    A call that passes a tuple of arrays copies all their descriptors; in line it costs nothing.
    """
    return _cached(
        numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=True)(function)
    )


def is_on_disk(function: Callable[..., Any]) -> bool:
    """Whether some compiled form of a kernel, as its source is now, is in the cache on disk.

    True also where numba does not tell: who asks then compiles when it is needed.
    """
    file = _file_of(function)
    return file is None or bool(file._load_index())


def _cached(function: Any) -> Any:
    """The same kernel, whose compiled forms on disk are valid for the sources as they are now."""
    file = _file_of(function)
    if file is not None:
        file._source_stamp = _digest_of(function.__module__)
    return function


def _file_of(function: Any) -> Any:
    return getattr(getattr(function, "_cache", None), "_cache_file", None)


@functools.cache
def _digest_of(module: str) -> str:
    """Of the source of a module and of all modules of ours that it imports."""
    name = getattr(sys.modules[module], "__file__", None)
    source = Path(name).read_bytes() if name else b""
    imported = re.findall(rb"^from (germane\.[\w.]+) import", source, re.MULTILINE)
    parts = [source, *(_digest_of(other.decode()).encode() for other in imported)]
    return hashlib.sha256(b"".join(parts)).hexdigest()
