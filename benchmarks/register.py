"""Registration: 100,000 conditions of about 70 characters parsed, normalised, registered.

python -m benchmarks.register --profiles 100000
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import numpy as np

import germane

from . import record
from .rounds import Bar, console, quiet, show_bars
from .workloads import short_conditions


def main(arguments: list[str] | None = None) -> int:
    """Run, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--profiles", type=int, default=100_000)
    parser.add_argument("--index", default="agile")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)

    texts = short_conditions(chosen.profiles, chosen.seed)
    ids = np.arange(chosen.profiles, dtype=np.int64)
    germane.Filter(index=chosen.index).subscribe_many(ids[:500], texts[:500], contexts=ids[:500])
    seconds, first_match = [], []
    message = {"type": "talk", "price": 50.0, "size": 3.0, "weight": 9.0, "topic": "news"}
    for _ in range(chosen.rounds):
        f = germane.Filter(index=chosen.index)
        with quiet():
            start = time.perf_counter()
            f.subscribe_many(ids, texts, contexts=ids)
            seconds.append(time.perf_counter() - start)
            start = time.perf_counter()
            f.match(message)
            first_match.append(time.perf_counter() - start)
    whole = [a + b for a, b in zip(seconds, first_match, strict=True)]
    length = statistics.mean(map(len, texts))
    console.print(
        f"{chosen.profiles:,} conditions of {length:.0f} characters: "
        f"{statistics.median(seconds):.2f} s, first match {statistics.median(first_match):.2f} s"
    )
    wanted = 10 * chosen.profiles / 100_000
    text = "register, with the first match"
    bars = [Bar(text, statistics.median(whole), wanted, at_least=False, unit="s")]
    show_bars(bars)
    observed = {
        "mean_characters": length,
        "seconds": seconds,
        "first_match_s": first_match,
        "bars": [bar.as_dict() for bar in bars],
    }
    path = record.write("register", vars(chosen), observed)
    console.print(f"record: {os.path.relpath(path)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
