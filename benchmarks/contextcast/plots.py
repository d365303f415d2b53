"""Figure 4: updates and false positives by threshold; Figure 5: false positives over time."""

from __future__ import annotations

from pathlib import Path

from ..figures import dress, finish, panels
from .claims import Run

LOOK = {
    "update-dominated": {"color": "#0072b2", "marker": "s"},
    "balanced": {"color": "#e69f00", "marker": "D"},
    "message-dominated": {"color": "#d55e00", "marker": "o"},
}


def draw(run: Run, out: Path) -> None:
    """Both figures, as far as they were observed."""
    by_threshold(run, out)
    over_time(run, out)


def by_threshold(run: Run, out: Path) -> None:
    figure, axes = panels()
    for scenario in run.scenarios:
        xs = run.thresholds_of(scenario)
        saved = [run.mean(scenario, t, "u") - run.mean(scenario, t, "u_a") for t in xs]
        axes[0].plot(xs, saved, label=scenario, **LOOK[scenario])
        axes[1].plot(
            xs, [run.mean(scenario, t, "m_fp") for t in xs], label=scenario, **LOOK[scenario]
        )
    for place in axes:
        place.set_xticks(run.thresholds)
        place.invert_xaxis()
    dress(axes[0], "updates saved", "similarity threshold", "link messages saved, u - u_a")
    dress(axes[1], "false positives", "similarity threshold", "hops in vain, m_fp")
    finish(figure, out, "figure4")


def over_time(run: Run, out: Path) -> None:
    threshold = run.thresholds[0]
    figure, axes = panels(1)
    for scenario in run.scenarios:
        if threshold not in run.thresholds_of(scenario):
            continue
        look = LOOK[scenario] | {"markersize": 3}
        axes.plot(*run.over_time(scenario, threshold), label=scenario, **look)
    dress(axes, f"threshold {threshold:g}", "cycle", "false positives a cycle")
    finish(figure, out, "figure5")
