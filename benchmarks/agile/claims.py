"""The paper's sentences, tested on our observations: agrees or differs, with the numbers.

A claim is a function of the run that returns whether we see the same, and the figures that say
so. Thresholds are ours, stated in the evidence; none was chosen to make a claim hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..reproduction import NoData, Remark, Verdict, judge
from .observations import Cell, Observations, phase_rate

RIVALS = ("NOINDEX", "EAGER", "GBU")
# What these say follows from a slow NOINDEX as much as from a fast AGILE.
LEANS_ON_NOINDEX = frozenset(
    "winner best_case order_of_magnitude noindex_slow noindex_high upd_att_noindex "
    "delta_u_noindex delta_u_agile burst_during burst_overall".split()
)
HONEST = 0.5  # NOINDEX reaches at least half of a plain numba scan of the same data


@dataclass(frozen=True)
class Run:
    """Observations with the parameters they were made with."""

    seen: Observations
    parameters: dict[str, Any]

    def cell(self, name: str, strategy: str, value: float) -> Cell:
        experiment = self.parameters["experiments"][name]
        cells = self.seen.series(experiment, name)[strategy]
        found = dict(zip(experiment["values"], cells, strict=True)).get(value)
        if found is None:
            raise NoData
        return found

    def rate(self, name: str, strategy: str, value: float) -> float:
        return self.cell(name, strategy, value).throughput

    def values(self, name: str) -> list[float]:
        return list(self.parameters["experiments"][name]["values"])

    def times(self, name: str, strategy: str) -> list[float]:
        return [self.cell(name, strategy, v).completion_s for v in self.values(name)]

    def spread(self, name: str, strategy: str) -> float:
        times = self.times(name, strategy)
        return max(times) / min(times)

    def burst(self, strategy: str) -> Cell:
        policy = self.parameters["burst"]["figure_policy"] if strategy == "AGILE" else None
        cell = self.seen.burst_of(strategy, policy)
        if cell is None:
            raise NoData
        return cell

    def whole_burst(self, strategy: str) -> float:
        """Throughput over all phases; a run that was stopped has none to compare."""
        cell = self.burst(strategy)
        if not cell.line["complete"]:
            raise NoData
        return cell.throughput

    def baseline(self) -> float | None:
        """The least of NOINDEX / plain scan over Experiment 1; None where it was not observed."""
        experiment = self.parameters["experiments"]["vary_up"]
        series = self.seen.series(experiment, "vary_up")
        pairs = zip(series["NOINDEX"], series["PLAIN SCAN"], strict=True)
        ratios = [ours.throughput / plain.throughput for ours, plain in pairs if ours and plain]
        return min(ratios) if ratios else None

    def phase(self, strategy: str, phase: int) -> float:
        rate = phase_rate(self.burst(strategy), phase)
        if rate is None:
            raise NoData
        return rate


def low_rate(run: Run) -> Verdict:
    low = run.values("vary_up")[0]
    ratio = run.rate("vary_up", "AGILE", low) / run.rate("vary_up", "EAGER", low)
    return 0.95 <= ratio <= 1.05, f"AGILE / EAGER at UP={low:g}: {ratio:.3f} (agrees if within 5 %)"


def lead(run: Run, up: float) -> float:
    best = max(run.rate("vary_up", rival, up) for rival in RIVALS)
    return run.rate("vary_up", "AGILE", up) / best


def winner(run: Run) -> Verdict:
    leads = {up: lead(run, up) for up in run.values("vary_up")[1:]}
    text = ", ".join(f"UP={up:,g}: {ratio:.2f}" for up, ratio in leads.items())
    return min(leads.values()) > 1.05, f"AGILE / best other: {text} (agrees if all above 1.05)"


def best_case(run: Run) -> Verdict:
    up = max(run.values("vary_up"), key=lambda value: lead(run, value))
    return lead(
        run, up
    ) >= 2.0, f"largest lead: {lead(run, up):.2f} × at UP={up:,g} (agrees if 2 or more)"


def order_of_magnitude(run: Run) -> Verdict:
    most = {
        rival: max(
            run.rate("vary_up", "AGILE", up) / run.rate("vary_up", rival, up)
            for up in run.values("vary_up")
        )
        for rival in RIVALS
    }
    text = ", ".join(f"{rival} {ratio:.1f} ×" for rival, ratio in most.items())
    return min(most.values()) >= 7.0, f"most ahead of {text} (agrees if 7 or more, as in Table 3)"


def noindex_slow(run: Run) -> Verdict:
    low = run.values("vary_up")[0]
    ratio = run.rate("vary_up", "EAGER", low) / run.rate("vary_up", "NOINDEX", low)
    return ratio >= 10, f"EAGER / NOINDEX at UP={low:g}: {ratio:.1f} × (agrees if 10 or more)"


def noindex_high(run: Run) -> Verdict:
    high = run.values("vary_up")[-1]
    ratio = run.rate("vary_up", "AGILE", high) / run.rate("vary_up", "NOINDEX", high)
    return ratio > 1.0, f"AGILE / NOINDEX at UP={high:,g}: {ratio:.2f}"


def eager_high(run: Run) -> Verdict:
    high = run.values("vary_up")[-1]
    ratio = run.rate("vary_up", "AGILE", high) / run.rate("vary_up", "EAGER", high)
    return ratio >= 7.0, f"AGILE / EAGER at UP={high:,g}: {ratio:.1f} × (agrees if 7 or more)"


def gbu_order(run: Run) -> Verdict:
    ratios = {
        up: run.rate("vary_up", "GBU", up) / run.rate("vary_up", "EAGER", up)
        for up in run.values("vary_up")
    }
    text = ", ".join(f"UP={up:,g}: {ratio:.2f}" for up, ratio in ratios.items())
    first, *_, last = ratios.values()
    return first <= 1.02 and last > 1.02, f"GBU / EAGER: {text}"


def index_updates(run: Run) -> Verdict:
    high = run.values("vary_up")[-1]
    made = {
        strategy: run.cell("vary_up", strategy, high).millions("index_updates")
        for strategy in ("EAGER", "GBU", "AGILE")
    }
    text = ", ".join(f"{strategy} {count:,.4g}" for strategy, count in made.items())
    fewer = made["AGILE"] < 0.5 * min(made["EAGER"], made["GBU"])
    return fewer, f"at UP={high:,g}, millions: {text} (agrees if fewer than half)"


def postfilter(run: Run) -> Verdict:
    values = run.values("vary_up")
    counts = [run.cell("vary_up", "AGILE", up).postfiltered for up in values]
    eager = run.cell("vary_up", "EAGER", values[-1]).postfiltered
    grows = counts[-1] > 1.5 * counts[0]
    text = " → ".join(f"{count:,.4g}" for count in counts)
    return grows and counts[
        -1
    ] > 1.5 * eager, f"AGILE, millions: {text}; EAGER at the end {eager:,.4g}"


def upd_att_noindex(run: Run) -> Verdict:
    spread = run.spread("vary_upd_att", "NOINDEX")
    return spread < 1.25, f"slowest / fastest of NOINDEX: {spread:.2f} (agrees if below 1.25)"


def upd_att_agile(run: Run) -> Verdict:
    ours, eager = (run.spread("vary_upd_att", name) for name in ("AGILE", "EAGER"))
    text = f"slowest / fastest: AGILE {ours:.2f}, EAGER {eager:.2f}"
    return ours < 2.0 and ours < eager, text + " (agrees if below 2 and below EAGER's)"


def upd_att_eager(run: Run) -> Verdict:
    grew = {name: run.times("vary_upd_att", name) for name in ("EAGER", "GBU")}
    text = ", ".join(f"{name} {t[0]:,.3g} s → {t[-1]:,.3g} s" for name, t in grew.items())
    return all(
        t[-1] > 2 * t[0] for t in grew.values()
    ), f"UpdAtt 0 → 100: {text} (agrees if 2 × or more)"


def delta_u_noindex(run: Run) -> Verdict:
    spread = run.spread("vary_delta_u", "NOINDEX")
    return spread < 1.25, f"slowest / fastest of NOINDEX: {spread:.2f} (agrees if below 1.25)"


def delta_u_eager(run: Run) -> Verdict:
    spread = run.spread("vary_delta_u", "EAGER")
    return spread < 1.5, f"slowest / fastest of EAGER: {spread:.2f} (agrees if below 1.5)"


def delta_u_gbu(run: Run) -> Verdict:
    far = run.values("vary_delta_u")[-1]
    ratio = run.rate("vary_delta_u", "GBU", far) / run.rate("vary_delta_u", "EAGER", far)
    text = f"GBU / EAGER at ΔU={far:,g}: {ratio:.2f}"
    return 0.75 <= ratio <= 1.33, f"{text} (agrees if 0.75 to 1.33)"


def delta_u_agile(run: Run) -> Verdict:
    values = run.values("vary_delta_u")
    agile, noindex = (run.times("vary_delta_u", name) for name in ("AGILE", "NOINDEX"))
    text = " → ".join(f"{seconds:,.3g}" for seconds in agile)
    ratio = noindex[-1] / agile[-1]
    end = f"NOINDEX / AGILE time at ΔU={values[-1]:,g}: {ratio:.2f}"
    slower = agile[-1] > 1.1 * agile[0]
    return slower and ratio > 0.8, f"AGILE [s]: {text}; {end} (agrees if slower, yet at least 0.8)"


def burst_during(run: Run) -> Verdict:
    ratio = run.phase("AGILE", 1) / run.phase("NOINDEX", 1)
    return ratio >= 0.9, f"AGILE / NOINDEX in the burst: {ratio:.2f} (agrees if 0.9 or more)"


def burst_outside(run: Run) -> Verdict:
    before = run.phase("AGILE", 0) / max(run.phase("EAGER", 0), run.phase("GBU", 0))
    text = f"AGILE / best of EAGER and GBU before the burst: {before:.2f}"
    after = run.phase("AGILE", 2) / max(run.phase("EAGER", 2), run.phase("GBU", 2))
    return min(before, after) >= 0.8, f"{text}, after it: {after:.2f} (agrees if 0.8 or more)"


def burst_overall(run: Run) -> Verdict:
    rates = {name: run.whole_burst(name) for name in (*RIVALS, "AGILE")}
    text = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
    return rates["AGILE"] >= max(rates.values()) * 0.999, f"messages/s over the whole: {text}"


def whole(cell: Cell | None) -> bool:
    return cell is not None and bool(cell.line["complete"])


def burst_policy(run: Run) -> Verdict:
    policies = run.parameters["burst"]["policies"]
    cells = {policy: run.seen.burst_of("AGILE", policy) for policy in policies}
    rates = {policy: cell.throughput for policy, cell in cells.items() if whole(cell)}
    if "auto" not in rates or len(rates) < 2:
        raise NoData
    text = ", ".join(f"{policy} {rate:,.0f}" for policy, rate in rates.items())
    spread = max(rates.values()) / min(rates.values())
    wins = rates["auto"] >= 0.97 * max(rates.values())
    return (
        wins and spread < 2,
        f"messages/s: {text} (agrees if auto first or within 3 %, spread below 2)",
    )


CHECKS: dict[str, Callable[[Run], Verdict]] = {
    check.__name__: check
    for check in (
        low_rate,
        winner,
        best_case,
        order_of_magnitude,
        noindex_slow,
        noindex_high,
        eager_high,
        gbu_order,
        index_updates,
        postfilter,
        upd_att_noindex,
        upd_att_agile,
        upd_att_eager,
        delta_u_noindex,
        delta_u_eager,
        delta_u_gbu,
        delta_u_agile,
        burst_during,
        burst_outside,
        burst_overall,
        burst_policy,
    )
}


def remarks(run: Run, claims: dict[str, str]) -> list[Remark]:
    """Every claim, judged; what leans on a weak baseline is not shown by a lead over it."""
    baseline = run.baseline()
    weak = baseline is not None and baseline < HONEST
    judged = judge(run, CHECKS, claims)
    for i, remark in enumerate(judged):
        if weak and remark.word == "agrees" and remark.claim in LEANS_ON_NOINDEX:
            evidence = f"{remark.evidence}; but NOINDEX has only {baseline:.2g} of a plain scan's"
            judged[i] = replace(remark, word="not shown", evidence=f"{evidence} throughput")
    return judged
