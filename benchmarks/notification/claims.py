"""Raw lines in, times of events out; and the paper's statements, tested on them.

Thresholds are ours, stated in the evidence; none was chosen to make a claim hold. Verdicts are on
medians of compiled code: the compiled forms of the paper's matchers against germane in batches. The
same for one event at a time, where Python is most of the time, is told beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..reproduction import NoData, Verdict, read_lines

COMPILED = {
    "unoptimised": "unoptimised, compiled",
    "content lists": "content lists, compiled",
    "optimised": "optimised, in batches",
}
SLOWLY = {
    "unoptimised": "unoptimised, Python",
    "content lists": "content lists, Python",
    "optimised": "optimised, one at a time",
}
ADAPTIVE = "adaptive, in batches"
CONSTANT = 1.5  # what we take for relatively constant, over Figure 7
RAPID = 2.0  # what we take for fairly rapid growth


@dataclass(frozen=True)
class Run:
    """All lines of a run, with the parameters and what the paper states."""

    cells: list[dict[str, Any]]
    models: list[dict[str, Any]]
    absent: list[dict[str, Any]]
    notes: list[dict[str, Any]]  # what who ran it wants to say
    parameters: dict[str, Any]
    paper: dict[str, Any]

    def sizes(self, figure: str) -> list[tuple[int, int]]:
        """Users and topics of a figure as in the parameters, in ascending order."""
        return sorted({tuple(m["point"]) for m in self.models if figure in m["shown_in"]})

    def model(self, size: tuple[int, int]) -> dict[str, Any]:
        for model in self.models:
            if model.get("point") == list(size):
                return model
        raise NoData

    def line(self, size: tuple[int, int], name: str) -> dict[str, Any]:
        for line in self.cells:
            if line.get("point") == list(size) and line["contestant"] == name:
                return line
        raise NoData

    def time(self, size: tuple[int, int], name: str) -> float:
        """The median time of an event, in microseconds."""
        times = times_us(self.line(size, name))
        if not len(times):
            raise NoData
        return float(np.median(times))

    def curve(self, figure: str, name: str) -> dict[int, float]:
        """Median times by the size that a figure varies, where a contestant ran."""
        found = {}
        for size in self.sizes(figure):
            with suppress(NoData):
                found[self.model(size)[figure]] = self.time(size, name)
        return found

    def disagreements(self) -> int:
        return sum(not line.get("answers_agree", True) for line in self.cells)

    def ratios(self, slow: str, fast: str, names: dict[str, str]) -> list[float]:
        """How many times as long one takes as the other, for all numbers of users."""
        slower, faster = (self.curve("users", names[name]) for name in (slow, fast))
        if not slower.keys() & faster.keys():
            raise NoData
        return [slower[n] / faster[n] for n in slower if n in faster]

    def growth(self, name: str) -> float:
        """Time with the most topics over time with the fewest."""
        sizes = self.sizes("topics")
        if len(sizes) < 2:
            raise NoData
        return self.time(sizes[-1], name) / self.time(sizes[0], name)


def load(out: Path, parameters: dict[str, Any], paper: dict[str, Any]) -> Run:
    """Read `out/raw/*.jsonl`."""
    names = ("cells", "models", "absent", "notes")
    cells, models, absent, notes = (read_lines(out, name) for name in names)
    if not cells:
        raise FileNotFoundError(f"no observations under {out / 'raw'}; run the experiments first")
    return Run(cells, models, absent, notes, parameters, paper)


def times_us(line: dict[str, Any]) -> np.ndarray:
    """Microseconds of every event; of batches, the mean of each."""
    return np.array(line["times_ns"]) / 1e3 / line.get("batch", 1)


def _times(values: list[float]) -> str:
    """How many times, from the fewest users to the most."""
    return ", ".join(f"{v:,.0f}" if v >= 10 else f"{v:.2g}" for v in values) + " times"


def _faster(run: Run, slow: str, fast: str, low: float, high: float) -> Verdict:
    compiled = run.ratios(slow, fast, COMPILED)
    text = (
        f"{COMPILED[slow]} / {COMPILED[fast]}: {_times(compiled)}, from the fewest users to the "
        f"most (agrees if {low:g} to {high:g} in the middle); {SLOWLY[slow]} / {SLOWLY[fast]}: "
        f"{_times(run.ratios(slow, fast, SLOWLY))}"
    )
    return low <= float(np.median(compiled)) <= high, text


def optimised_faster(run: Run) -> Verdict:
    agrees, text = _faster(run, "unoptimised", "optimised", 20, 30)
    adaptive = COMPILED | {"optimised": ADAPTIVE}
    ratios = run.ratios("unoptimised", "optimised", adaptive)
    return agrees, f"{text}; {COMPILED['unoptimised']} / {ADAPTIVE}: {_times(ratios)}"


def search_slowest(run: Run) -> Verdict:
    return _faster(run, "unoptimised", "content lists", 500, 2_000)


def lists_fastest(run: Run) -> Verdict:
    return _faster(run, "optimised", "content lists", 15, 60)


def unoptimised_100k(run: Run) -> Verdict:
    size = run.sizes("users")[-1]
    line = run.line(size, SLOWLY["unoptimised"])
    users = run.model(size)["users"]
    if not line["times_ns"]:
        return True, f"{SLOWLY['unoptimised']}: {line['skipped']}, with {users:,} users"
    time = run.time(size, SLOWLY["unoptimised"])
    return False, f"{SLOWLY['unoptimised']}: {time / 1e3:,.3g} ms with {users:,} users"


def _longer(run: Run, which: str, theirs: float) -> Verdict:
    medium = run.paper["medium"]
    model = next((run.model(s) for s in run.sizes("topics") if s[1] == medium), None)
    if model is None:
        raise NoData
    ours = model[which]
    text = f"{ours:.1f} times with {model['topics']:,} topics and {model['places']:,} places"
    return theirs / 1.5 <= ours <= theirs * 1.5, f"{text} (agrees within a factor of 1.5)"


def locations_grow(run: Run) -> Verdict:
    return _longer(run, "place_factor", run.paper["location_factor"])


def topics_grow(run: Run) -> Verdict:
    return _longer(run, "topic_factor", run.paper["topic_factor"])


def _grown(run: Run, which: str) -> tuple[float, str]:
    """How many times as long the most topics take as the fewest, compiled; and both in words."""
    sizes = [run.model(size)["topics"] for size in run.sizes("topics")]
    compiled = run.growth(COMPILED[which])
    text = (
        f"from {sizes[0]:,} to {sizes[-1]:,} topics: {COMPILED[which]} {compiled:.2f} times, "
        f"{SLOWLY[which]} {run.growth(SLOWLY[which]):.2f} times"
    )
    return compiled, text


def unoptimised_topics(run: Run) -> Verdict:
    grown, text = _grown(run, "unoptimised")
    return grown >= RAPID, f"{text} (agrees if the former is {RAPID:g} or more)"


def lists_topics(run: Run) -> Verdict:
    grown, text = _grown(run, "content lists")
    return grown >= RAPID, f"{text} (agrees if the former is {RAPID:g} or more)"


def optimised_topics(run: Run) -> Verdict:
    grown, text = _grown(run, "optimised")
    text = f"{text} (agrees if the former is {1 / CONSTANT:.2g} to {CONSTANT:g})"
    return 1 / CONSTANT <= grown <= CONSTANT, text


ABOUT: dict[str, tuple[Callable[[Run], Verdict], ...]] = {
    "users": (optimised_faster, search_slowest, lists_fastest, unoptimised_100k),
    "sizes": (locations_grow, topics_grow),
    "topics": (unoptimised_topics, lists_topics, optimised_topics),
}
CHECKS = {check.__name__: check for checks in ABOUT.values() for check in checks}
