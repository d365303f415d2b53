"""The figures: the paper's numbers on the left where its text gives them, ours on the right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..figures import dress, finish, panels
from .observations import STRATEGIES, Cell, Observations, batch_rates

LOOK: dict[str, dict[str, Any]] = {
    "NOINDEX": {"color": "#777777", "marker": "s", "linestyle": ":"},
    "EAGER": {"color": "#0072b2", "marker": "^", "linestyle": "--"},
    "GBU": {"color": "#e69f00", "marker": "v", "linestyle": "-."},
    "AGILE": {"color": "#d55e00", "marker": "o", "linestyle": "-", "linewidth": 2.2},
}
POLICY_COLOURS = ("#56b4e9", "#009e73", "#cc79a7", "#0072b2", "#d55e00")


def rates(cells: list[Cell | None]) -> np.ndarray:
    """Throughputs, with gaps where a cell was not run."""
    return np.array([cell.throughput if cell else np.nan for cell in cells])


def figure11(
    seen: Observations, parameters: dict[str, Any], paper: dict[str, Any], out: Path
) -> None:
    """Normalised throughput over UP."""
    experiment = parameters["experiments"]["vary_up"]
    series = seen.series(experiment, "vary_up")
    figure, (left, right) = panels()
    for strategy in STRATEGIES:
        of_agile = np.divide(paper["table3"][strategy], paper["table3"]["AGILE"])
        left.plot(paper["up"]["values"], of_agile, label=strategy, **LOOK[strategy])
        ours = np.divide(rates(series[strategy]), rates(series["AGILE"]))
        right.plot(experiment["values"], ours, label=strategy, **LOOK[strategy])
    for axes, title in ((left, "paper (from its Table 3)"), (right, "germane")):
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        dress(axes, title, "UP", "throughput / AGILE's")
    finish(figure, out, "figure11")


def completion(
    seen: Observations,
    parameters: dict[str, Any],
    paper: dict[str, Any],
    out: Path,
    name: str,
    figure_name: str,
    x: str,
) -> None:
    """Completion time for 10,000 messages over a parameter: Figures 12 and 13."""
    experiment = parameters["experiments"][name]
    series = seen.series(experiment, name)
    figure, (left, right) = panels()
    at = paper["up"]["values"].index(experiment["up"])
    known = experiment[experiment["vary"]]
    for strategy in STRATEGIES:
        look = LOOK[strategy]
        seconds = 10_000 / paper["table3"][strategy][at]
        left.plot([known], [seconds], label=strategy, **look)
        seconds = 10_000 / rates(series[strategy])
        right.plot(experiment["values"], seconds, label=strategy, **look)
    for axes, title in ((left, "paper (the point that Table 3 gives)"), (right, "germane")):
        if experiment["vary"] == "delta_u":
            axes.set_xscale("log")
        low, high = min(experiment["values"]), max(experiment["values"])
        margin = 0.05 * (high - low)
        axes.set_xlim(max(low - margin, 0.8 if experiment["vary"] == "delta_u" else -margin), None)
        axes.set_xlim(right=high + margin)
        axes.set_ylim(bottom=0)
        dress(axes, title, x, "completion time for 10,000 messages [s]")
    finish(figure, out, figure_name)


def figure14(seen: Observations, parameters: dict[str, Any], out: Path) -> None:
    """Throughput through the burst, batch by batch."""
    burst = parameters["burst"]
    figure, axes = panels(1)
    for strategy in STRATEGIES:
        policy = burst["figure_policy"] if strategy == "AGILE" else None
        cell = seen.burst_of(strategy, policy)
        if cell is None:
            continue
        look = LOOK[strategy] | {"markersize": 3}
        axes.plot(*batch_rates(cell), label=strategy + (f" ({policy})" if policy else ""), **look)
    _shade_burst(axes, burst)
    axes.set_yscale("log")
    dress(axes, "germane", "messages", "throughput [messages/s]")
    finish(figure, out, "figure14")


def figure15(seen: Observations, parameters: dict[str, Any], out: Path) -> None:
    """AGILE's deescalation policies through the burst."""
    burst = parameters["burst"]
    figure, axes = panels(1)
    for policy, colour in zip(burst["policies"], POLICY_COLOURS, strict=False):
        cell = seen.burst_of("AGILE", policy)
        if cell is None:
            continue
        label = policy if isinstance(policy, str) else f"FP = {policy:,}"
        axes.plot(*batch_rates(cell), label=label, color=colour, marker=".", linewidth=1.2)
    _shade_burst(axes, burst)
    axes.set_yscale("log")
    dress(axes, "germane, AGILE", "messages", "throughput [messages/s]")
    finish(figure, out, "figure15")


def _shade_burst(axes: Axes, burst: dict[str, Any]) -> None:
    first, second = burst["phases"][0][0], burst["phases"][1][0]
    axes.axvspan(first, first + second, color="#000000", alpha=0.06, label="burst")


def draw(seen: Observations, parameters: dict[str, Any], paper: dict[str, Any], out: Path) -> None:
    """All figures that the observations allow."""
    if seen.steady:
        figure11(seen, parameters, paper, out)
        x = "updates on indexed attributes [%]"
        completion(seen, parameters, paper, out, "vary_upd_att", "figure12", x)
        completion(seen, parameters, paper, out, "vary_delta_u", "figure13", "ΔU")
    if seen.burst:
        figure14(seen, parameters, out)
        figure15(seen, parameters, out)
