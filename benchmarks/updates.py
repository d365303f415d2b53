"""AGILE's claim: at every update rate, agile keeps up with the best strategy (Table 2).

    python -m benchmarks.updates --profiles 500000 --up 0 1 10 100 1000 10000

For every UP, the strategies process the same sequence of updates (columns, `update_many`) and
messages (`match_rows`) in alternating turns after a warm-up. A plain numba scan that is not
germane's (`peers.ContextScan`) runs along: it shows what a scan can do, and so whether a lead over
`scan` means anything. Then the raw rate of `update_many` where no index entry has to move.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np
from rich.table import Table

from . import engine, record
from .lanes import Lane, common_digest, race
from .peers import ContextScan
from .rounds import Bar, console, quiet, ratio, show_bars
from .workloads import ATTRIBUTES, Contextual, Events, quantise, table2

PLAIN = "plain scan"
HONEST = 0.5  # germane's scan reaches at least half of the plain one
AHEAD = 1.15  # "clearly ahead": 15 %, well above the noise of a median of rounds


def run_rate(stable: engine.Stable, work: Contextual, up: float, chosen: Any) -> dict[str, Any]:
    """One UP: every strategy from a fresh filter, alternating turns; rates for every round."""
    lanes = [
        Lane(index, fresh(stable, work, index, chosen), Events(work, [(0, up)], seed=chosen.seed))
        for index in chosen.indices
    ]
    plain = Events(work, [(0, up)], seed=chosen.seed)
    lanes.append(Lane(PLAIN, ContextScan(work), plain))
    warm = {lane.name: lane.warm_up(chosen.warm_seconds, chosen.warm_messages) for lane in lanes}
    rates = race(lanes, chosen.cell_seconds, chosen.max_messages, chosen.rounds)
    n_common, word, agree = common_digest(lanes)
    return {
        "up": up,
        "warm_up_messages": warm,
        "messages": {lane.name: sum(c.n_messages for c in lane.chunks) for lane in lanes},
        "rates": rates,
        "counters": {lane.name: lane.observed() for lane in lanes},
        "chunks": {
            lane.name: [(c.n_messages, c.n_updates, c.seconds) for c in lane.chunks]
            for lane in lanes
        },
        "compared_messages": n_common,
        "digest": f"{word:016x}",
        "answers_agree": agree,
    }


def fresh(stable: engine.Stable, work: Contextual, index: str, chosen: Any) -> Any:
    wanted = engine.options(index, chosen.policy if index == "agile" else None, chosen.structure)

    def build() -> Any:
        console.print(f"building {index}")
        engine.rehearse(work, **wanted)
        return engine.contextual_filter(work, **wanted)

    return stable.fresh(index, build)


def raw_update_rate(
    stable: engine.Stable, work: Contextual, index: str, chosen: Any
) -> dict[str, list[float]]:
    """Updates a second through `update_many` where no index entry has to move.

    "Hot" contexts go back and forth between two values close by, with messages between, until the
    index of `agile` gives them room for both; then they go on alone, and nothing has to move. "All"
    contexts: so many that the index does not follow them. "Unread": no profile reads the attribute.
    """
    rng = np.random.default_rng([chosen.seed, 5])
    order = rng.permutation(work.n_profiles).astype(np.int64)
    rates: dict[str, list[float]] = {}
    cases = (("hot", min(2_000, work.n_profiles)), ("all", work.n_profiles), ("unread", 200_000))
    for label, n in cases:
        f = fresh(stable, work, index, chosen)
        messages = engine.arrange(f, work.messages(60))
        contexts = order[:n]
        column = work.order[0]
        near = work.centres[column, contexts]
        far = quantise(np.minimum(near + 20.0, 10_000.0))
        name = "unread" if label == "unread" else ATTRIBUTES[column]
        for turn, message in enumerate(messages):
            f.update_many(contexts, name, (far, near)[turn % 2])
            f.match_rows(message)
        moved = f.stats()["index_updates"] + f.stats()["local_updates"]
        rates[label] = []
        n_passes = max(2, 2_000_000 // n)
        with quiet():
            for _ in range(chosen.rounds):
                start = time.perf_counter()
                for turn in range(n_passes):
                    f.update_many(contexts, name, (far, near)[turn % 2])
                rates[label].append(n_passes * n / (time.perf_counter() - start))
        stats = f.stats()
        moved = stats["index_updates"] + stats["local_updates"] - moved
        by = stats["tables"][0]["follows_contexts_by"] if stats["tables"] else "-"
        console.print(f"{index}, {label}: contexts followed by {by}, {moved:,} entries moved")
    return rates


def judge(cells: list[dict[str, Any]]) -> list[Bar]:
    """Never more than 5 % behind the best; clearly ahead of each rival somewhere."""
    bars = []
    rivals = [name for name in cells[0]["rates"] if name not in ("agile", PLAIN)]
    for cell in cells:
        rates = cell["rates"]
        best = max(rivals, key=lambda name: float(np.median(rates[name])))
        bars.append(
            Bar(f"UP={cell['up']:g}: agile / {best}", ratio(rates["agile"], rates[best]), 0.95)
        )
    for cell in cells:
        rates = cell["rates"]
        text = f"UP={cell['up']:g}: agile / plain numba scan"
        bars.append(Bar(text, ratio(rates["agile"], rates[PLAIN]), 0.95))
        if "scan" in rates:
            text = f"UP={cell['up']:g}: scan / plain numba scan (is the baseline honest?)"
            bars.append(Bar(text, ratio(rates["scan"], rates[PLAIN]), HONEST))
    for rival in [*rivals, PLAIN]:
        most = max(ratio(cell["rates"]["agile"], cell["rates"][rival]) for cell in cells)
        bars.append(Bar(f"agile / {rival}, where it is most ahead", most, AHEAD))
    return bars


def show(cells: list[dict[str, Any]], profiles: int) -> None:
    names = list(cells[0]["rates"])
    title = f"Messages/s on Table 2, {profiles:,} profiles"
    table = Table("UP", *names, "messages", "answers", title=title)
    for cell in cells:
        table.add_row(
            f"{cell['up']:g}",
            *[f"{np.median(cell['rates'][name]):,.1f}" for name in names],
            " / ".join(str(cell["messages"][name]) for name in names),
            "agree" if cell["answers_agree"] else "[red]differ[/red]",
        )
    console.print(table)


def main(arguments: list[str] | None = None) -> int:
    """Run, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--profiles", type=int, default=500_000)
    parser.add_argument("--up", type=float, nargs="*", default=[0, 1, 10, 100, 1_000, 10_000])
    parser.add_argument("--indices", nargs="*", default=["scan", "eager", "gbu", "agile"])
    parser.add_argument("--policy", default="auto", help="of agile: always, auto, or FP")
    parser.add_argument("--structure", default=None)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cell-seconds", type=float, default=14.0, help="timed, a strategy")
    parser.add_argument("--warm-messages", type=int, default=500)
    parser.add_argument("--warm-seconds", type=float, default=15.0)
    parser.add_argument("--max-messages", type=int, default=10_000, help="a round")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    chosen.policy = int(chosen.policy) if chosen.policy.isdigit() else chosen.policy

    work = table2(chosen.profiles, chosen.seed)
    stable = engine.Stable()
    try:
        cells = []
        for up in chosen.up:
            cells.append(run_rate(stable, work, up, chosen))
            show(cells[-1:], chosen.profiles)
        raw = {
            index: raw_update_rate(stable, work, index, chosen)
            for index in ("scan", "agile")
            if index in chosen.indices
        }
    finally:
        stable.close()
    show(cells, chosen.profiles)
    bars = judge(cells) if "agile" in chosen.indices else []
    for index, rates in raw.items():
        for label, values in rates.items():
            text = f"update_many, {index}, {label}"
            bars.append(Bar(text, float(np.median(values)) / 1e6, 10, unit="M/s"))
    show_bars(bars)
    observed = {
        "cells": cells,
        "update_many_per_s": raw,
        "build_s": stable.build_s,
        "bars": [bar.as_dict() for bar in bars],
    }
    path = record.write("updates", vars(chosen), observed)
    console.print(f"record: {os.path.relpath(path)}")
    return 0 if all(cell["answers_agree"] for cell in cells) else 1


if __name__ == "__main__":
    raise SystemExit(main())
