"""Batching's claim: the tuned default against Unbatched/PIx, on the four streams of Table 1.

    python -m benchmarks.batches --profiles 500000

One thread, batches as float64 arrays through `match_many`, answers as `Matches`. Contestants share
one filter, which nothing changes: of two copies, one may be a tenth faster for where its pages lie.
For every batch size each has its own warm-up, in which the default tunes itself. Two more run
along: `match_rows` a message at a time, which shows whether Unbatched is an honest baseline, and a
plain copy of as many int32 as there are matches, which no filter beats: the writing limit. Then, at
one batch size, what a user would pick instead (`joins`). All answers are compared before anything
is timed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.table import Table

import germane

from . import engine, record
from .rounds import Bar, Contestant, compete, console, ratio, show_bars
from .speed import digest_of, one_by_one
from .streams import SHARES, STREAMS, stream

TUNED, UNBATCHED = "auto", "unbatched/pix"
SINGLY, WRITING = "match_rows", "only writing"
BATCH_SIZES = (1, 2, 5, 10, 100, 1_000, 10_000, 100_000)
WANTED = {
    ("RQ-Z", 1_000): 2.0,
    ("RQ-Z", 10_000): 4.0,
    ("RQ-Z", 100_000): 6.0,
    ("RQ-G", 10_000): 3.0,
    ("RQ-U", 10_000): 1.8,
    ("PQ", 10_000): 4.0,
}
NEVER_SLOWER = 0.95  # at every other size, on every stream
HONEST = 0.9  # Unbatched reaches at least this share of plain `match_rows`
WANTED_OF_PEERS = {"DuckDB, bins": 40.0, "DuckDB, range join": 500.0, "Polars, bins": 40.0}
WARM_BATCHES, WARM_MESSAGES = 3, 2_000  # at least
MAX_BATCHES = 20_000  # a pool need not hold more
N_CHECKED = 1_000  # messages whose answers are compared, or one batch if that is more


class Pool:
    """Messages of one stream: as drawn, and as vectors of a filter, cut into batches."""

    def __init__(self, work: Any, f: Any, n: int, seed: int) -> None:
        self.messages = work.messages(n, seed)
        self._vectors = engine.arrange(f, self.messages, work.attributes)

    def batches(self, size: int) -> list[np.ndarray]:
        stops = range(size, len(self._vectors) + 1, size)[:MAX_BATCHES]
        return [self._vectors[stop - size : stop] for stop in stops]


class Strategy:
    """A way of matching batches on a filter that others use too, with what it has learnt."""

    def __init__(self, f: Any, name: str) -> None:
        self._f = f
        f.batching = germane.Batching(strategy=name)
        self._learnt = f._batches  # the filter would begin anew each time its batching is set

    def match_many(self, batch: np.ndarray) -> Any:
        self._f._batches = self._learnt
        return self._f.match_many(batch)

    def decisions(self) -> Any:
        self._f._batches = self._learnt
        return plain(self._f.stats()["batching"])


def answers(found: Any) -> list[np.ndarray]:
    """Rows of every message of a batch; the counts have to say the same."""
    rows = [found.rows(i) for i in range(found.n_messages)]
    if [len(r) for r in rows] != found.counts.tolist():
        raise AssertionError("counts and rows of a batch disagree")
    return rows


def singly(f: Any) -> Callable[[np.ndarray], list[np.ndarray]]:
    match = f.match_rows
    return lambda batch: [match(vector) for vector in batch]


def warm_up(f: Any, batches: list[np.ndarray], n_batches: int, seconds: float) -> int:
    """Batches of this size until so many are done (of few messages, more) or time is up."""
    n_batches = max(n_batches, -(-WARM_MESSAGES // len(batches[0])))
    start = time.perf_counter()
    for done in range(n_batches):
        if time.perf_counter() - start > seconds:
            return done
        f.match_many(batches[done % len(batches)])
    return n_batches


def checked(
    matchers: dict[str, Callable[[np.ndarray], Any]], batches: list[np.ndarray]
) -> tuple[dict[str, int], float]:
    """A digest of everybody's answers to the first batches, and the matches a message."""
    words, n_matches = {}, 0.0
    first = batches[: max(1, N_CHECKED // len(batches[0]))]
    for name, match in matchers.items():
        found = [rows for batch in first for rows in match(batch)]
        words[name] = digest_of(found)
        n_matches = float(np.mean([len(rows) for rows in found]))
    return words, n_matches


def writing(n_matches: float, size: int) -> Callable[[Any], np.ndarray]:
    """Write the answers of a batch and nothing else: a copy of as many int32."""
    source = np.arange(int(n_matches * size), dtype=np.int32)
    return lambda batch: source.copy()


def plain(value: Any) -> Any:
    """Counters and decisions as a record can hold them."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return value if isinstance(value, int | float | str | None) else str(value)


def run_size(f: Any, workload: str, pool: Pool, size: int, chosen: Any) -> dict[str, Any]:
    """One batch size of one stream: warm-up, comparison of answers, rounds."""
    batches = pool.batches(size)
    warm = {}
    names = dict.fromkeys([UNBATCHED, TUNED, *chosen.strategies])
    strategies = {name: Strategy(f, name) for name in names}
    for name, strategy in strategies.items():
        n_batches = chosen.warm_batches if name == TUNED else WARM_BATCHES
        warm[name] = warm_up(strategy, batches, n_batches, chosen.warm_seconds)

    def through_batches(strategy: Strategy) -> Callable[[np.ndarray], Any]:
        return lambda batch: answers(strategy.match_many(batch))

    plainly = singly(f)
    matchers = {name: through_batches(strategy) for name, strategy in strategies.items()}
    digests, n_matches = checked(matchers | {SINGLY: plainly}, batches)
    works = {name: strategy.match_many for name, strategy in strategies.items()}
    works |= {SINGLY: plainly, WRITING: writing(n_matches, size)}
    most = max(1, chosen.max_messages // size)
    entries = [Contestant(name, one_by_one(do, batches), most) for name, do in works.items()]
    compete(entries, chosen.rounds, chosen.turn)
    return {
        "workload": workload,
        "batch": size,
        "matches_a_message": n_matches,
        "warm_up_batches": warm,
        "rates": {e.name: [rate * size for rate in e.rates()] for e in entries},
        "rounds_s": {e.name: {"units": e.units, "seconds": e.seconds} for e in entries},
        "batching": {name: strategy.decisions() for name, strategy in strategies.items()},
        "digests": {name: f"{word:016x}" for name, word in digests.items()},
        "answers_agree": len(set(digests.values())) == 1,
    }


def run_peers(f: Any, work: Any, pool: Pool, chosen: Any) -> dict[str, Any]:
    """The tuned default against joins, all on the same batch; a turn of a join is one batch."""
    from .joins import JOINS

    size = chosen.peer_batch
    batches, messages = pool.batches(size), pool.messages[:size]
    f.batching = germane.Batching(strategy=TUNED)
    warm_up(f, batches, chosen.warm_batches, chosen.warm_seconds)
    digests = {TUNED: digest_of(answers(f.match_many(batches[0])))}
    entries = [Contestant(TUNED, one_by_one(f.match_many, batches[:1]))]
    peers = []
    for kind in JOINS:
        if any(word.lower() in kind.name.lower() for word in chosen.peers):
            console.print(f"building {kind.name}")
            peer = kind(work)
            peers.append(peer)
            digests[peer.name] = digest_of(peer.match_batch(messages))
            join = one_by_one(peer.find_batch, [messages])
            entries.append(Contestant(peer.name, join, units=1))
    compete(entries, chosen.peer_rounds, chosen.turn)
    for peer in peers:
        peer.close()
    return {
        "workload": work.name,
        "batch": size,
        "rates": {e.name: [rate * size for rate in e.rates()] for e in entries},
        "rounds_s": {e.name: {"units": e.units, "seconds": e.seconds} for e in entries},
        "build_s": {peer.name: peer.build_s for peer in peers},
        "threads": {p.name: p.n_threads for p in peers if hasattr(p, "n_threads")},
        "digests": {name: f"{word:016x}" for name, word in digests.items()},
        "answers_agree": len(set(digests.values())) == 1,
    }


def run_workload(name: str, chosen: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """All batch sizes of one stream, and the peers where they are wanted."""
    console.print(f"building {name}")
    work = stream(name, chosen.profiles, chosen.seed)
    wanted = engine.options(chosen.index, structure=chosen.structure)
    f = engine.static_filter(work, **wanted)
    with_peers = bool(chosen.peers) and name in chosen.peer_workloads
    n_messages = 2 * max([*chosen.batch_sizes, 5_000, chosen.peer_batch * with_peers])
    pool = Pool(work, f, n_messages, chosen.seed + 1)
    cells = []
    for size in chosen.batch_sizes:
        cells.append(run_size(f, name, pool, size, chosen))
        console.print(f"batches of {size:,}: {times_unbatched(cells[-1]):.2f} × {UNBATCHED}")
    show(cells)
    against = [run_peers(f, work, pool, chosen)] if with_peers else []
    for cell in against:
        show_peers(cell)
    return cells, against


def times_unbatched(cell: dict[str, Any]) -> float:
    return ratio(cell["rates"][TUNED], cell["rates"][UNBATCHED])


def show(cells: list[dict[str, Any]]) -> None:
    names = [name for name in cells[0]["rates"] if name != WRITING]
    title = f"{cells[0]['workload']}, {cells[0]['matches_a_message']:,.2f} matches a message"
    columns = (*names, "ratio", "of writing", "minibatch", "answers")
    table = Table("batch", *columns, title=f"Messages/s on {title}")
    for cell in cells:
        rates = cell["rates"]
        table.add_row(
            f"{cell['batch']:,}",
            *[f"{np.median(rates[name]):,.0f}" for name in names],
            f"{times_unbatched(cell):.2f} ×",
            f"{ratio(rates[TUNED], rates[WRITING]):.2%}",
            f"{cell['batching'][TUNED]['minibatch']:,.1f}",
            "agree" if cell["answers_agree"] else "[red]differ[/red]",
        )
    console.print(table)


def show_peers(cell: dict[str, Any]) -> None:
    verdict = "answers agree" if cell["answers_agree"] else "[red]answers differ[/red]"
    title = f"{cell['workload']}, batches of {cell['batch']:,}, {verdict}"
    table = Table("engine", "messages/s", f"{TUNED} is", title=title)
    for name, rates in cell["rates"].items():
        times = ratio(cell["rates"][TUNED], rates)
        table.add_row(name, f"{np.median(rates):,.0f}", f"{times:,.1f} ×")
    console.print(table)


def judge(cells: list[dict[str, Any]], against: list[dict[str, Any]]) -> list[Bar]:
    """The lines of the goals: tuned against unbatched at every size, and against the joins."""
    bars = []
    for cell in cells:
        name, size = cell["workload"], cell["batch"]
        wanted = WANTED.get((name, size), NEVER_SLOWER)
        text = f"{name}, batches of {size:,}: {TUNED} / {UNBATCHED}"
        bars.append(Bar(text, times_unbatched(cell), wanted))
    for cell in cells:
        if cell["batch"] == max(c["batch"] for c in cells):
            text = f"{cell['workload']}: {UNBATCHED} / match_rows (is the baseline honest?)"
            bars.append(Bar(text, ratio(cell["rates"][UNBATCHED], cell["rates"][SINGLY]), HONEST))
    for cell in against:
        for name, wanted in WANTED_OF_PEERS.items():
            if name in cell["rates"]:
                text = f"{cell['workload']}, batches of {cell['batch']:,}: {TUNED} / {name}"
                bars.append(Bar(text, ratio(cell["rates"][TUNED], cell["rates"][name]), wanted))
    return bars


def main(arguments: list[str] | None = None) -> int:
    """Run, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--profiles", type=int, default=500_000)
    parser.add_argument("--workloads", nargs="*", choices=STREAMS, default=list(STREAMS))
    parser.add_argument("--batch-sizes", type=int, nargs="*", default=list(BATCH_SIZES))
    parser.add_argument("--strategies", nargs="*", default=[], help="fixed ones, beside the two")
    parser.add_argument("--index", default="agile")
    parser.add_argument("--structure", default=None)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--turn", type=float, default=0.5, help="seconds a turn")
    parser.add_argument("--max-messages", type=int, default=100_000, help="a turn")
    parser.add_argument("--warm-batches", type=int, default=60, help="of the tuned default")
    parser.add_argument("--warm-seconds", type=float, default=120.0)
    parser.add_argument("--peers", nargs="*", default=["DuckDB", "Polars"])
    parser.add_argument("--peer-workloads", nargs="*", choices=SHARES, default=["RQ-Z", "RQ-U"])
    parser.add_argument("--peer-batch", type=int, default=10_000)
    parser.add_argument("--peer-rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)

    cells: list[dict[str, Any]] = []
    against: list[dict[str, Any]] = []
    for name in chosen.workloads:
        of_sizes, of_peers = run_workload(name, chosen)
        cells += of_sizes
        against += of_peers
    bars = judge(cells, against)
    show_bars(bars)
    observed = {"cells": cells, "peers": against, "bars": [bar.as_dict() for bar in bars]}
    path = record.write("batches", vars(chosen), observed)
    console.print(f"record: {os.path.relpath(path)}")
    return 0 if all(cell["answers_agree"] for cell in cells + against) else 1


if __name__ == "__main__":
    raise SystemExit(main())
