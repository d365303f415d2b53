"""`germane …`: one file per command, no logic. Everything is asked of the public API.

The commands need the `cli` extra (typer and rich). The library does not, so this package
imports them only when a command runs.
"""

import sys


def main() -> None:
    """Run the command line; without the `cli` extra, say how to get it."""
    try:
        from germane.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in {"rich", "typer"}:
            raise
        sys.exit(
            f"germane: the commands need {error.name!r}, which is not installed.\n"
            "Install it with: pip install 'germane[cli]'   (in a clone: python3 dev.py run …)"
        )
    app(prog_name="germane")


__all__ = ["main"]
