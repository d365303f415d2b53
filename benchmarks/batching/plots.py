"""The figures: the points that the paper's text gives on the left, ours beside them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from ..figures import dress, finish, panels
from ..reproduction import NoData
from .observations import STRUCTURES, UNBATCHED, Observations, Run

LOOK: dict[str, dict[str, Any]] = {
    UNBATCHED: {"color": "#777777", "marker": "s", "linestyle": ":"},
    "Full/PIx": {"color": "#0072b2", "marker": "^", "linestyle": "--"},
    "Full/MIx": {"color": "#56b4e9", "marker": "v", "linestyle": "--"},
    "MiniB/PIx": {"color": "#e69f00", "marker": "D", "linestyle": "-"},
    "MiniB/PIx/MIx": {"color": "#cc79a7", "marker": "P", "linestyle": "-."},
    "tuned default": {"color": "#d55e00", "marker": "o", "linestyle": "-", "linewidth": 2.2},
}
METHODS: dict[str, dict[str, Any]] = {
    "Fix No": {"color": "#0072b2", "marker": "s", "linestyle": "-"},
    "Val Att 1": {"color": "#009e73", "marker": "^", "linestyle": "--"},
    "Val Att 2": {"color": "#777777", "marker": "v", "linestyle": ":"},
    "Val Att 2+": {"color": "#d55e00", "marker": "o", "linestyle": "-"},
}
TITLES = {"blocks": "germane, block index", "skiplist": "germane, the paper's structures"}
BATCH, RATE = "batch size [messages]", "messages a second"


def printed(axes: Axes, paper: dict[str, Any], stream: str) -> None:
    """What the paper's text tells of a curve."""
    for name, points in paper["points"][stream].items():
        axes.plot(*zip(*points, strict=True), label=name, **LOOK[name])
    logarithmic(axes)
    dress(axes, f"paper, {stream} (the points that its text gives)", BATCH, RATE)


def throughputs(axes: Axes, run: Run, stream: str) -> None:
    """Throughput by batch size, a curve for every strategy."""
    for name, look in LOOK.items():
        curve = sorted(run.curve(stream, name).items())
        if curve:
            rates = [cell.throughput for _, cell in curve]
            axes.plot([n for n, _ in curve], rates, label=name, **look | {"markersize": 4})
    logarithmic(axes)
    dress(axes, f"{TITLES[run.structure]}, {stream}", BATCH, RATE)


def logarithmic(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")


def figure6(run: Run, paper: dict[str, Any], out: Path) -> None:
    """Strategies by batch size on the range streams."""
    figure, axes = panels(2, rows=2)
    printed(axes[0, 0], paper, "RQ-Z")
    for place, stream in zip(axes.flat[1:], ("RQ-Z", "RQ-G", "RQ-U"), strict=True):
        throughputs(place, run, stream)
    finish(figure, out, "figure6")


def figure7(run: Run, paper: dict[str, Any], out: Path) -> None:
    """Strategies by batch size on PQ."""
    figure, (left, right) = panels()
    printed(left, paper, "PQ")
    throughputs(right, run, "PQ")
    finish(figure, out, "figure7")


def own_structures(run: Run, out: Path) -> None:
    """Figures 6a and 7 on skip lists and hash tables."""
    figure, (left, right) = panels()
    throughputs(left, run, "RQ-Z")
    throughputs(right, run, "PQ")
    finish(figure, out, "figure6_skiplist")


def figure8(runs: list[Run], out: Path) -> None:
    """Groupings by batch size, each with its best setting."""
    figure, axes = panels(len(runs))
    for place, run in zip(_several(axes), runs, strict=True):
        sizes = run.grouped_sizes("grouping")
        for method, look in METHODS.items():
            rates = [run.best(method, n).throughput for n in sizes]
            place.plot(sizes, rates, label=method, **look)
        place.set_xscale("log")
        place.set_ylim(bottom=0)
        dress(place, TITLES[run.structure], BATCH, RATE)
    finish(figure, out, "figure8")


def figure9(runs: list[Run], out: Path) -> None:
    """Throughput by the size of minibatches."""
    figure, axes = panels(len(runs))
    for place, run in zip(_several(axes), runs, strict=True):
        (batch_size,) = run.grouped_sizes("sensitivity")
        for method in ("Fix No", "Val Att 2+"):
            cells = run.settings("sensitivity", method, batch_size)
            rates = [cell.throughput for cell in cells]
            place.plot([c.minibatch for c in cells], rates, label=method, **METHODS[method])
        place.set_xscale("log")
        place.set_ylim(bottom=0)
        title = f"{TITLES[run.structure]}, batches of {batch_size:,}"
        dress(place, title, "messages in a minibatch, mean", RATE)
    finish(figure, out, "figure9")


def _several(axes: Any) -> list[Axes]:
    return [axes] if isinstance(axes, Axes) else list(axes.flat)


def observed(runs: dict[str, Run], experiment: str) -> list[Run]:
    """The structures on which an experiment of groupings was run."""
    found = []
    for run in runs.values():
        with suppress(NoData):
            run.grouped_sizes(experiment)
            found.append(run)
    return found


def draw(seen: Observations, runs: dict[str, Run], paper: dict[str, Any], out: Path) -> None:
    """All figures that the observations allow."""
    structures = {cell.line["structure"] for cell in seen.cells["strategies"]}
    ours, theirs = STRUCTURES
    if ours in structures:
        figure6(runs[ours], paper, out)
        figure7(runs[ours], paper, out)
    if theirs in structures:
        own_structures(runs[theirs], out)
    for experiment, figure in (("grouping", figure8), ("sensitivity", figure9)):
        chosen = observed(runs, experiment)
        if chosen:
            figure(chosen, out)
