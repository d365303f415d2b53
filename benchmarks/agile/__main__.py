"""`python -m benchmarks.agile`: the experiments with a progress bar, or only the page."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import page, run


def main() -> None:
    """Measure and draw, or only draw."""
    parser = argparse.ArgumentParser(description="The experiments of the AGILE paper")
    parser.add_argument("--scale", type=float, default=None, help="1 is 500,000 profiles")
    parser.add_argument("--out", type=Path, default=Path("out/agile"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page-only", action="store_true", help="draw from raw results")
    parser.add_argument("--no-skiplist", action="store_true", help="leave out the skip lists")
    chosen = parser.parse_args()
    if chosen.page_only:
        print(page(chosen.out))
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn()) as progress:
        run(chosen.scale, chosen.out, chosen.seed, progress, skiplist=not chosen.no_skiplist)
    print(chosen.out / "index.md")


if __name__ == "__main__":
    main()
