"""The figures: matches of documents, and time and space by profiles."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..figures import dress, finish, panels
from ..reproduction import NoData
from .claims import ALONE, BATCH, ONE, SPACE, TIME, XPATH, Run

LOOK: dict[str, dict[str, Any]] = {
    XPATH: {"color": "#777777", "marker": "s"},
    SPACE: {"color": "#009e73", "marker": "v"},
    TIME: {"color": "#cc79a7", "marker": "x"},
    ONE: {"color": "#0072b2", "marker": "^"},
    BATCH: {"color": "#e69f00", "marker": "D"},
    ALONE: {"color": "#d55e00", "marker": "o"},
}


def documents(axes: Axes, run: Run, threshold: float) -> None:
    """Of every document, the share of profiles that match, and what transformations add."""
    exact, close = 100 * run.shares(None), 100 * run.shares(threshold)
    x = np.arange(1, len(exact) + 1)
    axes.bar(x, exact, color="#0072b2", label="without transformations")
    added = close - exact
    axes.bar(x, added, bottom=exact, color="#ffffff", edgecolor="#d55e00", hatch="////",
             linewidth=0.5, label="added by transformations")  # fmt: skip
    axes.set_ylim(top=1.2 * max(close.max(), exact.max(), 1e-3))  # room for the legend


def times(axes: Axes, run: Run, threshold: float) -> None:
    """Mean times by profiles; of some, the least and the most."""
    for name, look in LOOK.items():
        points = {}
        for model in run.sizes():
            with suppress(NoData):
                limit = None if name == XPATH else threshold
                points[model["size"]] = run.times(model["point"], name, limit)
        means = np.array([own.mean() for own in points.values()])
        axes.plot(list(points), means, label=name, markersize=4, **look)
        if name in (XPATH, SPACE, ALONE) and points:
            low = means - [own.min() for own in points.values()]
            high = [own.max() for own in points.values()] - means
            axes.errorbar(list(points), means, (low, high), fmt="none", lw=0.8, capsize=3,
                          color=look["color"])  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")


def space(axes: Axes, run: Run) -> None:
    """Megabytes by profiles."""
    drawn: dict[str, dict[int, float]] = {}
    for model in run.sizes():
        values = {ALONE: model["index_bytes"], ONE: model["filter_bytes"]}
        values |= {f"match DAG for {form}": n for form, n in model["dag_bytes"].items()}
        for name, value in values.items():
            drawn.setdefault(name, {})[model["size"]] = value / 1e6
    labels = {ALONE: "germane, patterns", ONE: "germane, the whole filter"}
    for name, curve in drawn.items():
        axes.plot(list(curve), list(curve.values()), label=labels.get(name, name), **LOOK[name])
    axes.set_ylim(bottom=0)


def draw(run: Run, out: Path) -> None:
    """Both figures, as far as they were observed."""
    if run.documents:
        drawn, axes = panels(len(run.thresholds))
        for place, threshold in zip(np.atleast_1d(axes).flat, run.thresholds, strict=True):
            documents(place, run, threshold)
            dress(place, f"cost < {threshold:g}", "document", "profiles matched [%]")
        finish(drawn, out, "figure8")
    if run.models:
        drawn, axes = panels(len(run.thresholds) + 1)
        for place, threshold in zip(axes, run.thresholds, strict=False):
            times(place, run, threshold)
            title = f"cost < {threshold:g}: mean, bars from least to most"
            dress(place, title, "profiles", "time of a document [ms]")
        space(axes[-1], run)
        dress(axes[-1], f"space, cost < {run.judged:g}", "profiles", "space [MB]")
        finish(drawn, out, "figure9")
