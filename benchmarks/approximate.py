"""Approximate XML: germane against a loop of compiled XPaths, which answer only exact matches.

    python -m benchmarks.approximate --profiles 25000 --documents 200 --rounds 5

Profiles and documents of a digital library (`library.py`), the paper's costs, one core. Exact
answers are compared before anything is timed: matches of cost 0 with those of XPath. XPath gets
parsed documents, germane flattened ones (*match*) or text (*parse and match*). Every threshold is a
filter of its own; bars are those of threshold 5, where no value can be skipped. Then the same
with more profiles: does the time grow faster than the candidates?
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np
from rich.table import Table

from germane import Filter
from germane.approx.documents import Arrays, Documents

from . import record
from .library import Library, XPaths, subscribe
from .reproduction import number
from .rounds import Bar, Contestant, compete, console, ratio, show_bars

XPATH, SMALL_XPATH = "XPath", "XPath, texts in small letters"
PARSE = "parse and flatten"
THRESHOLD = 5.0
"""The bars' own."""


def matching(n: int, threshold: float) -> str:
    return f"match {n:,}, cost < {threshold:g}"


def with_parsing(n: int, threshold: float) -> str:
    return f"parse and {matching(n, threshold)}"


def flat(documents: list[str]) -> Arrays:
    """Documents, parsed and flattened."""
    batch = Documents()
    for document in documents:
        batch.add(document)
    return batch.arrays()


class Work:
    """Documents, and everybody who answers them."""

    def __init__(self, chosen: Any) -> None:
        library = Library(chosen.seed)
        self.chosen = chosen
        self.sizes = sorted({chosen.profiles, chosen.more or chosen.profiles})
        self.profiles = library.profiles(self.sizes[-1])
        self.documents = library.documents(chosen.documents)
        self.arrays = flat(self.documents)
        self.entries: list[Contestant] = []
        self.n_documents: dict[str, int] = {}  # of a unit of each
        self.filters: dict[tuple[int, float], Filter] = {}
        self.seen: list[dict[str, Any]] = []
        for n in self.sizes:
            for threshold in chosen.thresholds:
                self._build(n, threshold, library)

    def _build(self, n: int, threshold: float, library: Library) -> None:
        console.print(f"subscribing {n:,} profiles, cost < {threshold:g}")
        start = time.perf_counter()
        f = Filter(transformations=library.transformations)
        subscribe(f, self.profiles[:n], threshold)
        took = time.perf_counter() - start
        self.filters[n, threshold] = f
        found = f._documents.patterns.match(self.arrays, np.arange(len(self.documents)))
        self.seen.append(
            {
                "profiles": n,
                "threshold": threshold,
                "candidates": found.n_candidates / len(self.documents),
                "matches": len(found.patterns) / len(self.documents),
                "exact": int((found.costs == 0).sum()) / len(self.documents),
                "index_bytes": f._documents.patterns.nbytes / n,
                "filter_bytes": f.nbytes / n,
                "subscribe_s": took,
            }
        )

    def add(self, name: str, work: Any, n_documents: int, units: int = 0) -> None:
        self.entries.append(Contestant(name, work, units=units))
        self.n_documents[name] = n_documents

    def agree(self, xpaths: list[XPaths]) -> bool:
        """Whether matches of cost 0 are those of XPath; enters everybody into the contest."""
        sample = self.documents[: self.chosen.sample]
        n = self.chosen.profiles
        answers = []
        for name, paths in zip((XPATH, SMALL_XPATH), xpaths, strict=True):
            trees = [paths.parse(document) for document in sample]
            answers.append([paths.find(tree) for tree in trees])
            self.add(name, loop(paths, trees), len(sample), units=1)
        for threshold in self.chosen.thresholds:
            answers.append(exact(self.filters[n, threshold], sample))
        return all(answer == answers[0] for answer in answers)

    def enter(self) -> None:
        """Let germane take part."""
        documents, arrays = self.documents, self.arrays
        messages = [{"document": document} for document in documents]
        wanted = np.arange(len(documents))
        self.add(PARSE, times(lambda: flat(documents)), len(documents))
        for (n, threshold), f in self.filters.items():
            match = f._documents.patterns.match
            self.add(
                matching(n, threshold),
                times(lambda match=match: match(arrays, wanted)),
                len(documents),
            )
            self.add(
                with_parsing(n, threshold),
                times(lambda match=match: match(flat(documents), wanted)),
                len(documents),
            )
            self.add(
                f"Filter.{matching(n, threshold)}",
                times(lambda f=f: f.match_many(messages)),
                len(documents),
            )

    def race(self) -> dict[str, list[float]]:
        """Seconds of a document, for everybody and every round."""
        compete(self.entries, self.chosen.rounds, self.chosen.turn)
        return {
            entry.name: [s / entry.units / self.n_documents[entry.name] for s in entry.seconds]
            for entry in self.entries
        }


def times(once: Any) -> Any:
    def work(n: int) -> None:
        for _ in range(n):
            once()

    return work


def loop(paths: XPaths, trees: list[Any]) -> Any:
    def find_all() -> None:
        for tree in trees:
            paths.find(tree)

    return times(find_all)


def exact(f: Filter, documents: list[str]) -> list[list[int]]:
    """The profiles that documents match without a cost."""
    found = f.match_many([{"document": document} for document in documents]).to_arrow()
    answers: list[list[int]] = [[] for _ in documents]
    columns = (found[name].to_pylist() for name in ("message", "profile", "cost"))
    for message, profile, cost in zip(*columns, strict=True):
        if cost == 0:
            answers[message].append(profile)
    return [sorted(answer) for answer in answers]


def main(arguments: list[str] | None = None) -> int:
    """Run, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--profiles", type=int, default=25_000)
    parser.add_argument("--more", type=int, default=100_000, help="0: leave growth out")
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--sample", type=int, default=20, help="documents for XPath")
    parser.add_argument("--thresholds", type=float, nargs="+", default=[5.0, 10.0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turn", type=float, default=1.0, help="seconds a turn")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    if THRESHOLD not in chosen.thresholds:
        parser.error(f"bars are those of threshold {THRESHOLD:g}")

    work = Work(chosen)
    console.print(f"compiling {2 * chosen.profiles:,} XPaths")
    profiles = work.profiles[: chosen.profiles]
    agrees = work.agree([XPaths(profiles), XPaths(profiles, folded=True)])
    console.print(f"exact answers agree: {agrees}")
    work.enter()
    seconds = work.race()
    observed: dict[str, Any] = {
        "document_bytes": float(np.mean([len(document) for document in work.documents])),
        "document_elements": float(np.mean([d.count("</") for d in work.documents])),
        "answers_agree": agrees,
        "sizes": work.seen,
        "seconds": seconds,
    }
    show(observed)
    bars = judge(observed, chosen)
    show_bars(bars)
    observed["bars"] = [bar.as_dict() for bar in bars]
    path = record.write("approximate", vars(chosen), observed)
    console.print(f"record: {os.path.relpath(path)}")
    return 0 if agrees else 1


def show(observed: dict[str, Any]) -> None:
    size, elements = observed["document_bytes"], observed["document_elements"]
    table = Table(
        "who", "µs a document", "XPath / this", title=f"{size:,.0f} B, {elements:.1f} el."
    )
    for name, values in observed["seconds"].items():
        rate = ratio(observed["seconds"][XPATH], values)
        table.add_row(name, f"{1e6 * np.median(values):,.1f}", f"{rate:,.3g}")
    console.print(table)
    fields = list(observed["sizes"][0])
    table = Table(*[name.replace("_", " ") for name in fields], title="A document, a profile")
    for line in observed["sizes"]:
        table.add_row(*[number(line[name]) for name in fields])
    console.print(table)


def judge(observed: dict[str, Any], chosen: Any) -> list[Bar]:
    """The goals, at threshold 5."""
    seconds, few = observed["seconds"], chosen.profiles
    lines = {(line["profiles"], line["threshold"]): line for line in observed["sizes"]}
    match, whole = seconds[matching(few, THRESHOLD)], seconds[with_parsing(few, THRESHOLD)]
    index = lines[few, THRESHOLD]["index_bytes"]
    bars = [
        Bar("the faster XPath / matching", ratio(seconds[SMALL_XPATH], match), 500.0),
        Bar("the faster XPath / parsing and matching", ratio(seconds[SMALL_XPATH], whole), 200.0),
        Bar("XPath / matching", ratio(seconds[XPATH], match), 500.0),
        Bar("XPath / parsing and matching", ratio(seconds[XPATH], whole), 200.0),
        Bar("bytes a profile", index, 600.0, at_least=False, unit="B"),
        Bar("parsing and flattening / matching", ratio(seconds[PARSE], match), 1.0, False),
    ]
    if chosen.more > few:
        more = chosen.more
        slower = ratio(seconds[matching(more, THRESHOLD)], match)
        grown = lines[more, THRESHOLD]["candidates"] / lines[few, THRESHOLD]["candidates"]
        text = f"growth of time / of candidates, to {more:,} profiles"
        bars.append(Bar(text, slower / grown, 1.0, at_least=False))
    return bars


if __name__ == "__main__":
    raise SystemExit(main())
