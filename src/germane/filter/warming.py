"""Kernels that a filter needs first, compiled before anybody waits for them.

Numba compiles a kernel when it is first called and keeps it on disk; in a fresh installation that
takes seconds, in one process. The two largest, the test of rows that no index holds and the one of
what contexts alone decide, need nothing of each other: whoever has two processors lets one process
call ``compile_sweep`` while another subscribes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from germane.filter.filter import Filter
from germane.kernels import batches
from germane.kernels.compile import is_on_disk
from germane.kernels.match import match_message
from germane.kernels.sweep import sweep


def is_compiled() -> bool:
    """Whether the kernels of the first subscription and message are on disk, as far as it shows."""
    return is_on_disk(sweep)


def has_indexes() -> bool:
    """Whether the kernels of indexes and of batches are on disk, as far as it shows."""
    kernels: list[Callable[..., Any]] = [match_message, batches.test_blocks, batches.deliver]
    return all(is_on_disk(kernel) for kernel in kernels)


def compile_sweep() -> None:
    """Test no rows: the kernel for it is compiled, or read from disk."""
    Filter()._tables._sweep(np.empty(0), {}, 0)
