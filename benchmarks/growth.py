"""Cost of a match from 100,000 to 1,000,000 profiles while the number of matches stays fixed.

    python -m benchmarks.growth --profiles 100000 200000 500000 1000000

The sizes take turns in one run. Sub-linear growth means an exponent (the slope of log cost over
log profiles) below 1.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
from rich.table import Table

from . import engine, record
from .rounds import Bar, Contestant, compete, console, show_bars
from .speed import one_by_one
from .workloads import rq


def main(arguments: list[str] | None = None) -> int:
    """Run, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    sizes = [100_000, 200_000, 500_000, 1_000_000]
    parser.add_argument("--profiles", type=int, nargs="*", default=sizes)
    parser.add_argument("--matches", type=float, default=None, help="default 700 at 100,000")
    parser.add_argument("--index", default="agile")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--turn", type=float, default=0.5)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    if chosen.matches is None:
        chosen.matches = 700 * min(1.0, min(chosen.profiles) / 100_000)

    entries, n_matches = [], []
    for n in chosen.profiles:
        console.print(f"building {n:,} profiles")
        work = rq(n, chosen.seed, n_matches=chosen.matches)
        f = engine.static_filter(work, **engine.options(chosen.index))
        vectors = list(engine.arrange(f, work.messages(chosen.messages)))
        n_matches.append(float(np.mean([len(f.match_rows(v)) for v in vectors[:500]])))
        entries.append(Contestant(f"{n}", one_by_one(f.match_rows, vectors)))
    compete(entries, chosen.rounds, chosen.turn)

    cost_us = [1e6 / entry.rate() for entry in entries]
    exponent = float(np.polyfit(np.log(chosen.profiles), np.log(cost_us), 1)[0])
    table = Table("profiles", "matches a message", "µs a message", "messages/s", title="Growth")
    for n, found, cost in zip(chosen.profiles, n_matches, cost_us, strict=True):
        table.add_row(f"{n:,}", f"{found:,.0f}", f"{cost:,.1f}", f"{1e6 / cost:,.0f}")
    console.print(table)
    bars = [Bar("exponent of the cost of a match", exponent, 0.999, at_least=False, unit="")]
    show_bars(bars)
    observed = {
        "matches": n_matches,
        "cost_us": cost_us,
        "exponent": exponent,
        "rounds_s": {e.name: {"units": e.units, "seconds": e.seconds} for e in entries},
        "bars": [bar.as_dict() for bar in bars],
    }
    path = record.write("growth", vars(chosen), observed)
    console.print(f"record: {os.path.relpath(path)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
