"""Raw lines in, times of documents out; and the paper's statements, tested on them.

Bounds of verdicts are ours, stated in the evidence; none was chosen to make a claim hold. Verdicts
are on the judged threshold of costs; others are told beside it. Those on time and space are on
the match DAG for space, which is next to the paper's prototype; what germane takes is told beside
it. Times are those of matching alone, as in the paper's Figure 9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..reproduction import NoData, Verdict, read_lines

Line = dict[str, Any]
XPATH = "XPath"
SPACE, TIME = "match DAG for space", "match DAG for time"
ONE, BATCH, ALONE = "germane, one at a time", "germane, in batches", "germane, matching alone"
PROPORTIONAL = 1.5  # what we take for direct, over Figure 9
SQUARE = (1.5, 2.5)  # exponents that we take for a square


@dataclass(frozen=True)
class Run:
    """All lines of a run, with the parameters and what the paper states."""

    cells: list[Line]
    models: list[Line]
    documents: list[Line]  # Figure 8
    notes: list[Line]  # what who ran it wants to say
    parameters: dict[str, Any]
    paper: dict[str, Any]

    @property
    def judged(self) -> float:
        return float(self.parameters["judged"])

    @property
    def thresholds(self) -> list[float]:
        return [float(threshold) for threshold in self.parameters["thresholds"]]

    def sizes(self, beyond: bool = True) -> list[Line]:
        """Numbers of profiles in ascending order, the paper's or all."""
        own = [model for model in self.models if beyond or not model["beyond"]]
        return sorted(own, key=lambda model: int(model["point"]))

    def line(self, point: int, name: str, threshold: float | None) -> Line:
        for line in self.cells:
            if line["point"] == point and line["contestant"] == name:
                if line["threshold"] == threshold and line["times_ns"]:
                    return line
        raise NoData

    def times(self, point: int, name: str, threshold: float | None) -> np.ndarray:
        """Milliseconds of every document; of batches, the mean of each."""
        line = self.line(point, name, threshold)
        times: np.ndarray = np.array(line["times_ns"]) / 1e6 / line["batch"]
        return times

    def ends(self) -> tuple[Line, Line]:
        """The paper's fewest profiles and its most."""
        sizes = self.sizes(beyond=False)
        if len(sizes) < 2:
            raise NoData
        return sizes[0], sizes[-1]

    def shares(self, threshold: float | None) -> np.ndarray:
        """Of every document the share of profiles that it matches; None: exactly."""
        if not self.documents:
            raise NoData
        return np.array([matched(line, threshold) / line["size"] for line in self.documents])

    def disagreements(self) -> int:
        lines = self.cells + self.documents
        return sum(not line.get("answers_agree", True) for line in lines)


def matched(line: Line, threshold: float | None) -> int:
    """How many profiles a document matches."""
    return int(line["without"] if threshold is None else line["with"][f"{threshold:g}"])


def load(out: Path, parameters: dict[str, Any], paper: dict[str, Any]) -> Run:
    """Read `out/raw/*.jsonl`."""
    names = ("cells", "models", "matches", "notes")
    cells, models, documents, notes = (read_lines(out, name) for name in names)
    if not cells:
        raise FileNotFoundError(f"no observations under {out / 'raw'}; run the experiments first")
    return Run(cells, models, documents, notes, parameters, paper)


# Figure 8 ----------------------------------------------------------------------------------------


def _documents(run: Run, what: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> tuple[int, str]:
    """Documents of which something holds, at the judged threshold; and at all, in words."""
    exact = run.shares(None)
    counts = {t: int(what(exact, run.shares(t)).sum()) for t in run.thresholds}
    told = ", ".join(f"{n} of {len(exact)} with cost < {t:g}" for t, n in counts.items())
    return counts[run.judged], told


def most_find_more(run: Run) -> Verdict:
    n, text = _documents(run, lambda exact, close: close > exact)
    return n > len(run.documents) / 2, f"{text} (agrees if more than half)"


def some_only_transformed(run: Run) -> Verdict:
    n, text = _documents(run, lambda exact, close: (exact == 0) & (close > 0))
    return n > 0, text


def some_unaffected(run: Run) -> Verdict:
    n, text = _documents(run, lambda exact, close: (exact > 0) & (close == exact))
    return n > 0, text


def some_unmatched(run: Run) -> Verdict:
    n, text = _documents(run, lambda exact, close: close == 0)
    return n > 0, text


# Figure 9 ----------------------------------------------------------------------------------------


def _dag_bytes(model: Line) -> float:
    if "space" not in model["dag_bytes"]:
        raise NoData
    return float(model["dag_bytes"]["space"])


def _index_bytes(model: Line) -> float:
    return float(model["index_bytes"])


def space_follows_profiles(run: Run) -> Verdict:
    told, growths = [], []
    for name, size in ((SPACE, _dag_bytes), (ALONE, _index_bytes)):
        few, most = (size(model) / model["size"] for model in run.ends())
        told.append(f"{name}: {few:,.0f}, then {most:,.0f} bytes a profile")
        growths.append(most / few)
    sizes = " to ".join(f"{model['size']:,}" for model in run.ends())
    text = f"from {sizes} profiles, {'; '.join(told)} (agrees within a factor of {PROPORTIONAL:g})"
    return 1 / PROPORTIONAL <= growths[0] <= PROPORTIONAL, text


def variation_falls(run: Run) -> Verdict:
    told, spreads = [], {}
    for name in (SPACE, ALONE):
        of_name = []
        for model in run.ends():
            times = run.times(model["point"], name, run.judged)
            apart = np.percentile(times, 95) - np.percentile(times, 5), np.ptp(times)
            of_name.append(tuple(float(x / times.mean()) for x in apart))
        told.append(f"{name} " + ", then ".join(f"{a:.2g} ({b:.2g})" for a, b in of_name))
        spreads[name] = [a for a, _ in of_name]
    sizes = " to ".join(f"{model['size']:,}" for model in run.ends())
    text = (
        "the times of nine tenths of the documents (of all) lie apart so many times the mean, "
        f"from {sizes} profiles: {'; '.join(told)} (agrees if the first falls)"
    )
    return spreads[SPACE][1] < spreads[SPACE][0], text


def time_is_square(run: Run) -> Verdict:
    sizes = run.sizes(beyond=False)
    if len(sizes) < 2:
        raise NoData
    vertices = np.log([model["structures"] for model in sizes])
    told, powers = [], []
    for name in (SPACE, TIME, ALONE):
        of_name = []
        for threshold in run.thresholds:
            times = [run.times(model["point"], name, threshold).mean() for model in sizes]
            of_name.append(float(np.polyfit(vertices, np.log(times), 1)[0]))
        powers.append(of_name[run.thresholds.index(run.judged)])
        told.append(f"{name} {', '.join(f'{power:.2f}' for power in of_name)}")
    low, high = SQUARE
    limits = " and ".join(f"{threshold:g}" for threshold in run.thresholds)
    text = (
        f"exponents of the time in the structural vertices of all profiles, with thresholds "
        f"{limits}: {'; '.join(told)} (agrees if the first is {low:g} to {high:g})"
    )
    return low <= powers[0] <= high, text


ABOUT: dict[str, tuple[Callable[[Run], Verdict], ...]] = {
    "matches": (most_find_more, some_only_transformed, some_unaffected, some_unmatched),
    "sizes": (space_follows_profiles, variation_falls, time_is_square),
}
CHECKS = {check.__name__: check for checks in ABOUT.values() for check in checks}
