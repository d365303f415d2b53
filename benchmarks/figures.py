"""How every figure of a reproduction looks, and how it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def panels(n: int = 2, rows: int = 1) -> tuple[Figure, Any]:
    """A figure of panels side by side."""
    return plt.subplots(rows, n, figsize=(5.4 * n, 4.0 * rows), layout="constrained")


def finish(figure: Figure, out: Path, name: str) -> None:
    """Write PNG and SVG without a date, so that equal data give equal files."""
    figure.savefig(out / f"{name}.png", dpi=150)
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(out / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def dress(axes: Axes, title: str, x: str, y: str) -> None:
    """Title, labels, a grid, and a legend if there is something to tell apart."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)
