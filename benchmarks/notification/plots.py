"""The figures: time of an event by users and by topics, a curve for every contestant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from ..figures import dress, finish, panels
from .claims import Run

LOOK: dict[str, dict[str, Any]] = {
    "unoptimised, Python": {"color": "#777777", "marker": "s", "linestyle": ":"},
    "unoptimised, compiled": {"color": "#777777", "marker": "s", "linestyle": "-"},
    "content lists, Python": {"color": "#0072b2", "marker": "^", "linestyle": ":"},
    "content lists, compiled": {"color": "#0072b2", "marker": "^", "linestyle": "-"},
    "optimised, one at a time": {"color": "#e69f00", "marker": "D", "linestyle": ":"},
    "optimised, in batches": {"color": "#e69f00", "marker": "D", "linestyle": "-"},
    "adaptive, one at a time": {"color": "#d55e00", "marker": "o", "linestyle": ":"},
    "adaptive, in batches": {"color": "#d55e00", "marker": "o", "linestyle": "-"},
}
PANELS = {
    "one event at a time, from Python": ("Python", "one at a time"),
    "compiled, germane in batches": ("compiled", "in batches"),
}
TIME = "time of an event, median [µs]"


def times(axes: Axes, run: Run, figure: str, endings: tuple[str, ...]) -> None:
    """Median times by the size that a figure varies."""
    for name, look in LOOK.items():
        curve = run.curve(figure, name)
        if curve and name.endswith(endings):
            axes.plot(curve.keys(), curve.values(), label=name.split(",")[0], **look)
    axes.set_xscale("log")
    axes.set_yscale("log")
    sizes = [run.model(size)[figure] for size in run.sizes(figure)]
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
    axes.set_xticks([], minor=True)


def draw(run: Run, out: Path) -> None:
    """Both figures, as far as they were observed."""
    for figure, file in (("users", "figure6"), ("topics", "figure7")):
        if not run.sizes(figure):
            continue
        drawn, axes = panels()
        for place, (title, endings) in zip(axes.flat, PANELS.items(), strict=True):
            times(place, run, figure, endings)
            dress(place, title, figure, TIME)
        low = min(place.get_ylim()[0] for place in axes.flat)
        high = max(place.get_ylim()[1] for place in axes.flat)
        for place in axes.flat:
            place.set_ylim(low, high)
        finish(drawn, out, file)
