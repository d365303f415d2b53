"""JSON lines in, for commands: each line is acted on; bad ones are reported and counted."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import germane


class Lines:
    """Calls a function for every line's object, and goes on when a line or the call is bad.

    `n_bad` counts the lines that were reported on stderr.
    """

    def __init__(self) -> None:
        self.n_bad = 0

    def each(self, path: Path | None, act: Callable[[int, dict[str, Any]], None]) -> None:
        """Call `act(line number, object)` for the lines of a file; None or `-` is stdin."""
        if path is None or str(path) == "-":
            self._each("stdin", sys.stdin, act)
        else:
            with path.open(encoding="utf-8") as file:
                self._each(str(path), file, act)

    def _each(self, name: str, file: Any, act: Callable[[int, dict[str, Any]], None]) -> None:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                act(number, _object(line))
            except (germane.GermaneError, _BadLine) as error:
                self.n_bad += 1
                print(f"{name}:{number}: {error}", file=sys.stderr, flush=True)


def take(row: dict[str, Any], name: str) -> Any:
    """Remove and return what a line must have."""
    if name not in row:
        raise _BadLine(f"{name!r} is missing")
    return row.pop(name)


class _BadLine(Exception):
    pass


def _object(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise _BadLine(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _BadLine(f"expected a JSON object, got {line.strip()[:40]}")
    return value
