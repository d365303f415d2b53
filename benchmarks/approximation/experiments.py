"""Run the cells and write raw observations; nothing here interprets them.

One filter for each threshold grows from the fewest profiles to the most, and beside it the paper's
match DAGs and XPaths. All contestants of a cell answer the same documents, in turns. Making
documents is not on the clock; reading them is where a filter gets them as text.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from germane import Filter, Transformations
from germane.approx.documents import Documents
from germane.approx.patterns import Patterns
from germane.approx.transformations import NONE, Prices
from germane.language.patterns import Structure, parse_pattern

from ..library import Library, XPaths, subscribe
from ..reproduction import Journal, Steps, as_scale, read_toml
from ..rounds import quiet

HERE = Path(__file__).parent
WARM_UP = 3  # steps before the clock runs
Costs = list[dict[int, float]]


def load_parameters(path: Path | None = None) -> dict[str, Any]:
    """The parameter file, as a dict."""
    return read_toml(path or HERE / "parameters.toml")


@dataclass
class Entry:
    """A contestant at work: answers step i, a document or a batch of them."""

    name: str
    threshold: float | None
    answer: Callable[[int], Any]
    n_steps: int
    batch: int = 1
    times_ns: list[int] = field(default_factory=list)

    def turn(self, seconds: float, least: int) -> None:
        """Go on for so long and until so many documents are done, or to their end."""
        begin = time.perf_counter_ns()
        while len(self.times_ns) < self.n_steps:
            start = time.perf_counter_ns()
            self.answer(len(self.times_ns))
            end = time.perf_counter_ns()
            self.times_ns.append(end - start)
            if end - begin > seconds * 1e9 and len(self.times_ns) * self.batch >= least:
                return


class Cells:
    """Filters, match DAGs and XPaths, which hold the same profiles, more and more."""

    def __init__(self, library: Library, parameters: dict[str, Any]) -> None:
        self.parameters = parameters
        self.budget = parameters["budget"]
        self.prices = Prices(NONE, library.transformations)
        self.filters = {
            threshold: Filter(transformations=library.transformations)
            for threshold in parameters["thresholds"]
        }
        self.xpaths = XPaths([])
        self.dags = {
            (contestant["dag"], threshold): Patterns(contestant["dag"])
            for contestant in parameters["contestants"]
            if "dag" in contestant
            for threshold in parameters["thresholds"]
        }
        self.n_structures = 0
        self.subscribe_s = 0.0
        self.documents = library.documents(self.budget["documents"])
        self.messages = [{"document": document} for document in self.documents]
        self.arrays = [flat(document) for document in self.documents]
        self.trees = [self.xpaths.parse(document) for document in self.documents]

    @property
    def judged(self) -> Filter:
        return self.filters[self.parameters["judged"]]

    def grow(self, profiles: list[str]) -> None:
        """Let everybody have what is new among the profiles, up to as many as they hold."""
        new = profiles[len(self.judged) :]
        self.n_structures += sum(n_structures(parse_pattern(p)) for p in new)
        for threshold, f in self.filters.items():
            start = time.perf_counter()
            subscribe(f, new, threshold)
            if f is self.judged:
                self.subscribe_s += time.perf_counter() - start
        for contestant in self.parameters["contestants"]:
            some = profiles[: contestant.get("up_to")]
            if contestant["by"] == "xpath":
                self.xpaths.add(some[len(self.xpaths.paths) :])
            for (form, threshold), dag in self.dags.items():
                if form == contestant.get("dag"):
                    parsed = [parse_pattern(pattern) for pattern in some[len(dag) :]]
                    dag.hold([dag.define(p, threshold, self.prices) for p in parsed])

    def entries(self, contestant: dict[str, Any]) -> list[Entry]:
        """A contestant, once for each threshold that it knows of."""
        name, by = contestant["name"], contestant["by"]
        if by == "xpath":
            trees, find = self.trees, self.xpaths.find
            return [Entry(name, None, lambda i: find(trees[i]), len(trees))]
        if "dag" in contestant:
            dags = ((t, dag) for (form, t), dag in self.dags.items() if form == contestant["dag"])
            return [self._alone(name, threshold, dag) for threshold, dag in dags]
        return [self._germane(name, by, *pair) for pair in self.filters.items()]

    def _alone(self, name: str, threshold: float, patterns: Patterns) -> Entry:
        arrays, match, first = self.arrays, patterns.match, np.zeros(1, np.int64)
        return Entry(name, threshold, lambda i: match(arrays[i], first), len(arrays))

    def _germane(self, name: str, by: str, threshold: float, f: Filter) -> Entry:
        if by == "flat":
            return self._alone(name, threshold, f._documents.patterns)
        if by == "one":
            messages = self.messages
            return Entry(name, threshold, lambda i: f.match(messages[i]), len(messages))
        size = self.budget["batch"]
        batches = [self.messages[at : at + size] for at in range(0, len(self.messages), size)]
        return Entry(name, threshold, lambda i: f.match_many(batches[i]), len(batches), size)

    def observe(self) -> Iterator[dict[str, Any]]:
        """A line for every contestant and threshold; those who are left out have no times."""
        n = len(self.judged)
        entries: list[Entry] = []
        for contestant in self.parameters["contestants"]:
            if n > contestant.get("up_to", n):
                head = {"contestant": contestant["name"], "threshold": None, "times_ns": []}
                yield head | {"skipped": f"not run with more than {contestant['up_to']:,}"}
            else:
                entries += self.entries(contestant)
        for entry in entries:
            for i in range(min(WARM_UP, entry.n_steps)):
                entry.answer(i)
        draw, rounds = random.Random(1), self.budget["rounds"]
        with quiet():
            for k in range(1, rounds + 1):
                least = k * self.budget["least_documents"] // rounds
                for entry in draw.sample(entries, len(entries)):
                    entry.turn(self.budget["cell_seconds"] / rounds, least)
        agree = self.agree()
        for entry in entries:
            yield {
                "contestant": entry.name,
                "threshold": entry.threshold,
                "batch": entry.batch,
                "times_ns": entry.times_ns,
                "compared_documents": self.budget["checked_documents"],
                "answers_agree": agree,
            }

    def agree(self) -> bool:
        """Whether all ways to ask give the same costs, and those of 0 are what XPath finds."""
        n, first = self.budget["checked_documents"], np.zeros(1, np.int64)
        messages, same = self.messages[:n], True
        exact = [self.xpaths.find(tree) for tree in self.trees[:n]]
        for threshold, f in self.filters.items():
            found = costs_of(f, messages)
            same &= found == [f.costs(message) for message in messages]
            same &= [sorted(costs) for costs in found] == [f.match(m) for m in messages]
            same &= exact == [strict(costs, len(self.xpaths.paths)) for costs in found]
            for dag in (dag for (_, t), dag in self.dags.items() if t == threshold):
                for costs, arrays in zip(found, self.arrays, strict=False):
                    seen = dag.match(arrays, first)
                    theirs = dict(zip(seen.patterns.tolist(), seen.costs.tolist(), strict=True))
                    same &= theirs == {p: cost for p, cost in costs.items() if p < len(dag)}
        return same

    def model(self) -> dict[str, Any]:
        """What there is, and how much an average document meets."""
        found, first = {}, np.zeros(1, np.int64)
        for threshold, f in self.filters.items():
            match = f._documents.patterns.match
            seen = [match(arrays, first) for arrays in self.arrays[: self.budget["batch"]]]
            found[f"{threshold:g}"] = {
                "candidates": float(np.mean([s.n_candidates for s in seen])),
                "matches": float(np.mean([len(s.patterns) for s in seen])),
            }
        dags = {
            form: dag.dag.nbytes if dag.dag else 0
            for (form, threshold), dag in self.dags.items()
            if threshold == self.parameters["judged"] and len(dag) == len(self.judged)
        }
        return {
            "structures": self.n_structures,
            "index_bytes": self.judged._documents.patterns.nbytes,
            "filter_bytes": self.judged.nbytes,
            "dag_bytes": dags,
            "subscribe_s": self.subscribe_s,
            "found": found,
        }


def flat(document: str) -> Any:
    """A document as arrays."""
    documents = Documents()
    documents.add(document)
    return documents.arrays()


def n_structures(pattern: Structure) -> int:
    """Structural vertices of a pattern."""
    return 1 + sum(n_structures(part) for part in pattern.parts if type(part) is Structure)


def costs_of(f: Filter, messages: list[dict[str, str]]) -> Costs:
    """Profiles and costs of messages, matched as a batch."""
    found = f.match_many(messages).to_arrow()
    costs: Costs = [{} for _ in messages]
    columns = (found[name].to_pylist() for name in ("message", "profile", "cost"))
    for message, profile, cost in zip(*columns, strict=True):
        costs[message][profile] = cost
    return costs


def strict(costs: dict[int, float], known: int) -> list[int]:
    """Profiles without a cost, among the first so many."""
    return sorted(profile for profile, cost in costs.items() if cost == 0 and profile < known)


def matches(library: Library, n: int, parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Figure 8: how many of n profiles each document matches, without and with transformations."""
    profiles = library.profiles(n)
    documents = library.documents(parameters["matches"]["documents"])
    messages = [{"document": document} for document in documents]
    thresholds = parameters["thresholds"]
    found = {}
    for threshold in (None, *thresholds):
        f = Filter(transformations=library.transformations if threshold else Transformations())
        subscribe(f, profiles, threshold or thresholds[0])
        found[threshold] = costs_of(f, messages)
    for i in range(len(documents)):
        exact = sorted(found[None][i])
        yield {
            "document": i + 1,
            "size": n,
            "without": len(exact),
            "with": {f"{threshold:g}": len(found[threshold][i]) for threshold in thresholds},
            "answers_agree": all(strict(found[t][i], n) == exact for t in thresholds),
        }


def run(
    scale: float | None = None,
    out: Path = Path("out/approx"),
    seed: int = 1,
    progress: Any = None,
    *,
    parameters: dict[str, Any] | None = None,
    beyond: bool = True,
) -> None:
    """Run all experiments at a scale, then draw the page.

    `progress` is a rich `Progress` or None; `beyond` adds what is larger than the paper.
    """
    from .page import page

    parameters = parameters or load_parameters()
    scale = as_scale(scale, parameters)
    journal = Journal(out, scale)
    sizes = [(n, False) for n in parameters["sizes"]["profiles"]]
    sizes += [(n, True) for n in parameters["sizes"]["beyond"] if beyond]
    steps = Steps(progress, "ApproXFilter", len(sizes) + 2)
    library = Library(seed)

    def scaled(n: int) -> int:
        return max(parameters["least_profiles"], round(n * scale))

    head: dict[str, Any] = {"profiles": scaled(parameters["profiles"]), "seed": seed}
    steps.say("Figure 8")
    for line in matches(library, scaled(parameters["matches"]["profiles"]), parameters):
        journal.write("matches", head | line)
    steps.done()
    cells = Cells(library, parameters)
    profiles = library.profiles(max(scaled(n) for n, _ in sizes))
    for n, is_beyond in sizes:
        steps.say(f"{scaled(n):,} profiles")
        cells.grow(profiles[: scaled(n)])
        about = head | {"point": n, "beyond": is_beyond, "size": scaled(n)}
        journal.write("models", about | cells.model())
        for line in cells.observe():
            journal.write("cells", about | line)
        steps.done()
    steps.say("page")
    page(Path(out), parameters=parameters)
    steps.done()
