"""RQ without updates: germane against scans, NumPy, rtree and DuckDB, in one run.

    python -m benchmarks.speed --profiles 500000

One thread, one message at a time, answers as arrays of profile rows (and, for the public `match`,
a dict in and a list of ids out). All answers are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.table import Table

from . import record
from .rounds import Bar, Contestant, compete, console, ratio, show_bars
from .workloads import as_dicts, rq

BATCH = 1_000
N_CHECKED = 64


def one_by_one(match: Callable[[Any], Any], messages: Any) -> Callable[[int], None]:
    """Work of `n` messages, taken in turn from the list."""
    at = 0

    def work(n: int) -> None:
        nonlocal at
        for _ in range(n):
            match(messages[at])
            at = (at + 1) % len(messages)

    return work


def shared(works: list[Callable[[int], None]]) -> Callable[[int], None]:
    """Work of `n` messages, shared by several."""

    def work(n: int) -> None:
        for i, part in enumerate(works):
            part((n + i) // len(works))

    return work


def in_batches(match_batch: Callable[[np.ndarray], Any], messages: np.ndarray):  # type: ignore[no-untyped-def]
    """Work of `n` batches of messages."""

    def work(n: int) -> None:
        for _ in range(n):
            match_batch(messages)

    return work


def digest_of(answers: list[Any]) -> int:
    word = 0
    for rows in answers:
        word = record.chain(word, record.digest(rows))
    return word


def germane_contestants(
    work: Any, messages: np.ndarray, indices: list[str], structure: str | None
) -> tuple[list[Contestant], dict[str, int]]:
    """germane's entries: every index by `match_rows`, `agile` by `match` too.

    Who is built first gets the better memory, by 5 to 9 %: each index is built twice, in this
    order and then in the reverse, and both builds share its turns.
    """
    from . import engine

    works: dict[str, list[Callable[[int], None]]] = {}
    digests = {}
    dicts = as_dicts(messages)
    for index in (*indices, *reversed(indices)):
        console.print(f"building germane {index}")
        f = engine.static_filter(work, **engine.options(index, structure=structure))
        vectors = list(engine.arrange(f, messages))
        name = f"germane {index}"
        digests[name] = digest_of([f.match_rows(v) for v in vectors[:N_CHECKED]])
        works.setdefault(name, []).append(one_by_one(f.match_rows, vectors))
        if index == "agile":
            name = "germane agile, match()"
            digests[name] = digest_of([f.match(m) for m in dicts[:N_CHECKED]])
            works.setdefault(name, []).append(one_by_one(f.match, dicts))
    return [Contestant(name, shared(parts)) for name, parts in works.items()], digests


def peer_contestants(
    work: Any, messages: np.ndarray, chosen: list[str]
) -> tuple[list[Contestant], dict[str, int]]:
    """The peers whose names contain one of the chosen words."""
    from .peers import PEERS

    entries, digests = [], {}
    for kind in PEERS:
        if not any(word.lower() in kind.name.lower() for word in chosen):
            continue
        console.print(f"building {kind.name}")
        peer = kind(work)
        digests[kind.name] = digest_of([peer.match(m) for m in messages[:N_CHECKED]])
        entries.append(Contestant(kind.name, one_by_one(peer.find, list(messages))))
        if peer.batched:
            name = f"{kind.name}, by {BATCH:,}"
            digests[name] = digest_of(peer.match_batch(messages[:BATCH])[:N_CHECKED])
            entries.append(Contestant(name, in_batches(peer.find_batch, messages[:BATCH])))
    return entries, digests


def message_rates(entry: Contestant) -> list[float]:
    """Messages a second in every round (a batched peer's unit is a batch)."""
    per_unit = BATCH if entry.name.endswith(f"by {BATCH:,}") else 1
    return [rate * per_unit for rate in entry.rates()]


def bars_of(rates: dict[str, list[float]]) -> list[Bar]:
    """The speed bars that this run can judge."""

    def best(*words: str) -> tuple[str, list[float]] | None:
        names = [n for n in rates if n.startswith(words)]
        if not names:
            return None
        name = max(names, key=lambda n: float(np.median(rates[n])))
        return name, rates[name]

    bars = []
    agile = rates.get("germane agile")
    scan, peer = best("scan"), best("NumPy", "rtree", "DuckDB")
    if agile and scan:
        bars.append(Bar(f"agile / best full scan ({scan[0]})", ratio(agile, scan[1]), 25))
        through_match = ratio(rates["germane agile, match()"], scan[1])
        bars.append(Bar(f"agile through match() / {scan[0]}", through_match, 15))
    if agile and peer:
        bars.append(Bar(f"agile / best indexed peer ({peer[0]})", ratio(agile, peer[1]), 8))
    if agile and "germane eager" in rates:
        bars.append(Bar("agile / eager", ratio(agile, rates["germane eager"]), 0.97))
    return bars


def main(arguments: list[str] | None = None) -> int:
    """Run, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--profiles", type=int, default=500_000)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--turn", type=float, default=0.5, help="seconds a turn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peers", nargs="*", default=["scan", "NumPy", "rtree", "DuckDB"])
    parser.add_argument("--indices", nargs="*", default=["eager", "agile"])
    parser.add_argument("--structure", default=None)
    chosen = parser.parse_args(arguments)

    work = rq(chosen.profiles, chosen.seed)
    messages = work.messages(max(BATCH, chosen.messages))
    entries, digests = peer_contestants(work, messages, chosen.peers)
    ours, our_digests = germane_contestants(work, messages, chosen.indices, chosen.structure)
    entries += ours
    digests |= our_digests
    agree = len(set(digests.values())) == 1
    console.print("all answers agree" if agree else f"[red]answers differ[/red]: {digests}")

    compete(entries, chosen.rounds, chosen.turn)
    rates = {entry.name: message_rates(entry) for entry in entries}
    table = Table("engine", "messages/s", "× best scan", title=f"RQ, {chosen.profiles:,} profiles")
    scans = [np.median(r) for name, r in rates.items() if name.startswith("scan")]
    for name, rate in sorted(rates.items(), key=lambda item: float(np.median(item[1]))):
        times = f"{np.median(rate) / max(scans):.1f}" if scans else "–"
        table.add_row(name, f"{np.median(rate):,.0f}", times)
    console.print(table)
    bars = bars_of(rates)
    show_bars(bars)
    observed = {
        "rounds_s": {e.name: {"units": e.units, "seconds": e.seconds} for e in entries},
        "messages_per_s": {name: float(np.median(rate)) for name, rate in rates.items()},
        "bars": [bar.as_dict() for bar in bars],
        "digests": {name: f"{word:016x}" for name, word in digests.items()},
        "answers_agree": agree,
    }
    path = record.write("speed", vars(chosen), observed)
    console.print(f"record: {os.path.relpath(path)}")
    return 0 if agree else 1


if __name__ == "__main__":
    raise SystemExit(main())
