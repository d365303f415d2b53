"""Raw lines in, sums over the measured cycles out; and the paper's statements, tested on them.

All figures are means over seeds, as in the paper. Limits are the paper's own, stated in the
evidence; none was chosen to make a claim hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..reproduction import NoData, Verdict, read_lines

CONSTANT = 0.25  # what we take for relatively constant, between halves of the measured time


@dataclass(frozen=True)
class Run:
    """All lines of a run, with the parameters and what the paper states."""

    runs: list[dict[str, Any]]
    beyond: list[dict[str, Any]]  # what the paper does not do
    parameters: dict[str, Any]
    paper: dict[str, Any]

    @property
    def scenarios(self) -> list[str]:
        """Those that were run, from many updates to many messages."""
        return [
            s for s in self.parameters["scenarios"] if any(r["scenario"] == s for r in self.runs)
        ]

    @property
    def thresholds(self) -> list[float]:
        return sorted({line["threshold"] for line in self.runs})

    def thresholds_of(self, scenario: str) -> list[float]:
        """Those that a scenario was run with."""
        return sorted({line["threshold"] for line in self.runs if line["scenario"] == scenario})

    def lines(self, scenario: str, threshold: float) -> list[dict[str, Any]]:
        found = [
            line
            for line in self.runs
            if line["scenario"] == scenario and line["threshold"] == threshold
        ]
        if not found:
            raise NoData
        return sorted(found, key=lambda line: line["seed"])

    def each(self, scenario: str, threshold: float, name: str) -> np.ndarray:
        """A counter over the measured cycles, by seed."""
        return np.array([measured(line, name) for line in self.lines(scenario, threshold)])

    def mean(self, scenario: str, threshold: float, name: str) -> float:
        return float(self.each(scenario, threshold, name).mean())

    def saved_each(self, scenario: str, threshold: float) -> np.ndarray:
        """The share of updates that aggregation saves, by seed."""
        u, u_a = (self.each(scenario, threshold, name) for name in ("u", "u_a"))
        return 1 - u_a / u

    def saved(self, scenario: str, threshold: float) -> float:
        return float(self.saved_each(scenario, threshold).mean())

    def by_scenario(self, what: Callable[[str], float]) -> list[float]:
        if not self.scenarios:
            raise NoData
        return [what(scenario) for scenario in self.scenarios]

    def over_time(self, scenario: str, threshold: float) -> tuple[np.ndarray, np.ndarray]:
        """Ends of windows, and false positives a cycle in them."""
        lines = self.lines(scenario, threshold)
        fp = np.mean([line["windows"]["m_fp"] for line in lines], axis=0) / lines[0]["window"]
        return np.arange(1, len(fp) + 1) * lines[0]["window"], fp

    def false_negatives(self) -> int:
        lines = [*self.runs, *self.beyond]
        return sum(sum(line["windows"]["false_negatives"]) for line in lines)

    def by_name(self, scenario: str) -> dict[str, list[dict[str, Any]]]:
        """Runs of a scenario: those of the paper by threshold, then the others by name."""
        found: dict[str, list[dict[str, Any]]] = {}
        for line in [*self.runs, *self.beyond]:
            if line["scenario"] == scenario:
                found.setdefault(line.get("name", f"{line['threshold']:g}"), []).append(line)
        return dict(sorted(found.items()))


def traffic(line: dict[str, Any]) -> float:
    """Link messages of updates and hops in vain, for each link message without aggregation."""
    return (measured(line, "u_a") + measured(line, "m_fp")) / measured(line, "u")


def traffic_of(lines: list[dict[str, Any]], seeds: set[int] | None = None) -> float:
    """Its mean over seeds."""
    chosen = [traffic(line) for line in lines if seeds is None or line["seed"] in seeds]
    return float(np.mean(chosen)) if chosen else float("nan")


def measured(line: dict[str, Any], name: str) -> int:
    """A counter, without the windows before measuring begins."""
    return sum(line["windows"][name][-(-line["unmeasured"] // line["window"]) :])


def load(out: Path, parameters: dict[str, Any], paper: dict[str, Any]) -> Run:
    """Read `out/raw/*.jsonl`."""
    runs = read_lines(out, "runs")
    if not runs:
        raise FileNotFoundError(f"no observations under {out / 'raw'}; run the simulation first")
    return Run(runs, read_lines(out, "beyond"), parameters, paper)


def _percents(values: list[float]) -> str:
    return ", ".join(f"{v:.1%}" for v in values)


def _named(run: Run, values: list[float], form: str) -> str:
    pairs = zip(run.scenarios, values, strict=True)
    return ", ".join(f"{scenario} {value:{form}}" for scenario, value in pairs)


def fewer_updates(run: Run) -> Verdict:
    saved = run.by_scenario(lambda s: run.saved(s, 0.6))
    low, high = run.paper["saved"]
    agrees = all(low <= v <= high for v in saved)
    return agrees, f"{_named(run, saved, '.1%')} (agrees if all are {low:.0%} to {high:.0%})"


def up_to_30(run: Run) -> Verdict:
    most = max(float(run.saved_each(s, 0.6).max()) for s in run.scenarios)
    return 0.25 <= most <= 0.35, f"at most {most:.1%} in a run (agrees if 25 % to 35 %)"


def times_of_07(run: Run) -> Verdict:
    low, high = run.paper["times_saved"]
    pairs = [(run.saved(s, 0.6), run.saved(s, 0.7)) for s in run.scenarios]
    if not all(fine > 0 for _, fine in pairs):
        return (
            False,
            f"0.7 saves {_percents([fine for _, fine in pairs])}: nothing in some scenario",
        )
    times = [coarse / fine for coarse, fine in pairs]
    text = f"{_named(run, times, '.3g')} times (agrees if all are {low:g} to {high:g})"
    return all(low <= v <= high for v in times), text


def reversal(run: Run) -> Verdict:
    five, six = (run.by_scenario(lambda s, t=t: run.saved(s, t)) for t in (0.5, 0.6))
    text = f"0.5 saves {_percents(five)}, 0.6 saves {_percents(six)}"
    return all(a < b for a, b in zip(five, six, strict=True)), text


def _growth(run: Run, fine: float, coarse: float, limits: list[float]) -> Verdict:
    before, after = (run.by_scenario(lambda s, t=t: run.mean(s, t, "m_fp")) for t in (fine, coarse))
    if not all(before):
        return False, f"no false positives at {fine:g} in some scenario, {after} at {coarse:g}"
    grown = [b / a - 1 for a, b in zip(before, after, strict=True)]
    low, high = limits
    text = f"{_named(run, grown, '.0%')} (agrees if all are {low:.0%} to {high:.0%})"
    return all(low <= v <= high for v in grown), text


def fp_07_to_06(run: Run) -> Verdict:
    return _growth(run, 0.7, 0.6, [run.paper["more_fp"][0], run.paper["more_fp"][1] + 0.1])


def fp_06_to_05(run: Run) -> Verdict:
    return _growth(run, 0.6, 0.5, run.paper["still_more_fp"])


def fp_of_saved(run: Run, scenario: str, threshold: float) -> float:
    """Hops in vain for each link message saved."""
    saved = run.mean(scenario, threshold, "u") - run.mean(scenario, threshold, "u_a")
    return run.mean(scenario, threshold, "m_fp") / saved if saved > 0 else float("inf")


def fp_negligible(run: Run) -> Verdict:
    shares = run.by_scenario(lambda s: fp_of_saved(run, s, 0.6))
    return all(v < run.paper["fp_of_saved"] for v in shares), f"{_named(run, shares, '.2%')} at 0.6"


def no_false_negatives(run: Run) -> Verdict:
    missed, sent = run.false_negatives(), sum(sum(r["windows"]["sent"]) for r in run.runs)
    return missed == 0, f"{missed} missed deliveries in {sent:,} messages"


def constant_over_time(run: Run) -> Verdict:
    changes = []
    for scenario in run.scenarios:
        line = run.lines(scenario, 0.5)[0]
        _, fp = run.over_time(scenario, 0.5)
        fp = fp[-(-line["unmeasured"] // line["window"]) :]
        if len(fp) < 2 or not fp[: len(fp) // 2].sum():
            raise NoData
        changes.append(float(fp[len(fp) // 2 :].mean() / fp[: len(fp) // 2].mean()) - 1)
    text = f"second half of the time over the first: {_named(run, changes, '+.0%')}"
    return all(abs(v) <= CONSTANT for v in changes), f"{text} (agrees within {CONSTANT:.0%})"


ABOUT: dict[str, tuple[Callable[[Run], Verdict], ...]] = {
    "updates": (fewer_updates, up_to_30, times_of_07, reversal),
    "positives": (fp_07_to_06, fp_06_to_05, fp_negligible, no_false_negatives),
    "time": (constant_over_time,),
}
CHECKS = {check.__name__: check for checks in ABOUT.values() for check in checks}
