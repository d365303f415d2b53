"""Records: what was measured, on which machine, at which commit, and what was answered.

`digest` folds an answer (rows in any order) into one word, so that rivals can be compared on
thousands of messages without keeping the answers.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

RESULTS = Path(__file__).parent / "results"


@njit(cache=True)
def _fold(rows):  # type: ignore[no-untyped-def]
    total = np.uint64(rows.size) * np.uint64(0x9E3779B97F4A7C15)
    for row in rows:
        x = np.uint64(row) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        total += x ^ (x >> np.uint64(31))
    return total


def digest(rows: Any) -> int:
    """One word for a set of rows; the order does not matter."""
    return int(_fold(np.ascontiguousarray(rows, dtype=np.int64)))


def chain(before: int, word: int) -> int:
    """One word for a sequence of answers: the digest so far and the next one."""
    return (before * 0x100000001B3 ^ word) & 0xFFFFFFFFFFFFFFFF


def commit() -> str:
    """The git commit of this checkout, `+dirty` where files differ, or `unknown`."""
    here = Path(__file__).parent
    try:
        head = _git(here, "rev-parse", "HEAD")
        return head + ("+dirty" if _git(here, "status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(where: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(where), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    """Processor, cores, memory and versions: what a figure depends on."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": metadata.version("numpy"),
        "numba": metadata.version("numba"),
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def stamp(parameters: dict[str, Any]) -> dict[str, Any]:
    """The head of every record."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "parameters": parameters,
    }


def write(name: str, parameters: dict[str, Any], observed: dict[str, Any]) -> Path:
    """Write one record to `benchmarks/results/<name>-<time>.json` and return its path."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    body = stamp(parameters) | observed
    path.write_text(json.dumps(body, indent=1, default=_plain) + "\n", encoding="utf-8")
    return path


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no place in a record")
