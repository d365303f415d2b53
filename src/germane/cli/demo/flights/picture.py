"""What happened, as a picture: deliveries over time, the stranded, and the weather.

In: a ``World`` and the deliveries. Out: a PNG. Times are New York's.
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from germane.cli.demo.flights import source
from germane.cli.demo.flights.replay import kind_of
from germane.cli.demo.flights.source import DAY, HOUR
from germane.cli.demo.flights.world import World

INK, FAINT, RED, BLUE, WATER = "#2b2d33", "#8d9299", "#c8553d", "#3f6c8f", "#5f9fc4"
LAYERS = {
    "guest": ("hosts: the guest has landed", "#b8c4cf"),
    "delay": ("travellers: later than I can bear", "#e9b44c"),
    "cancellation": ("travellers: cancelled", RED),
    "way out": ("stranded: something boards to my place", BLUE),
    "crews": ("ramp crews: beyond a limit", "#4f9d69"),
}
"""Kind -> what the legend says, colour; from the bottom."""


def draw(world: World, deliveries: pa.Table, path: Path) -> None:
    """Draw it all into a file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    bins = _bins(world)
    style: Any = {
        "font.size": 10,
        "axes.edgecolor": FAINT,
        "text.color": INK,
        "axes.labelcolor": INK,
    }
    with plt.rc_context(style):
        figure, (top, middle, bottom) = plt.subplots(
            3, 1, figsize=(12, 8.5), sharex=True, height_ratios=[3.2, 1.2, 1.2]
        )
        _deliveries(top, bins, _by_kind(world, deliveries, bins))
        if not _is_long(world):
            _cancellations(top, world)
        _stranded(middle, bins, _stranded_at(world, bins))
        _weather(bottom, world, bins)
        for axes in (top, middle, bottom):
            _days(axes, world)
        figure.suptitle(
            f"Who heard of {len(world.flights.scheduled):,} flights from New York, "
            f"{_span(world)}",
            x=0.065, y=0.975, ha="left", fontsize=15, weight="bold",
        )  # fmt: skip
        figure.text(
            0.065, 0.932,
            f"{deliveries.num_rows:,} deliveries to {world.profiles.num_rows:,} profiles whose "
            f"contexts changed {world.updates.num_rows:,} times. The profiles never changed.",
            color=FAINT,
        )  # fmt: skip
        figure.subplots_adjust(left=0.065, right=0.935, top=0.905, bottom=0.06, hspace=0.12)
        figure.savefig(path, dpi=150)
        plt.close(figure)


# panels ----------------------------------------------------------------------------------------


def _deliveries(axes: Any, bins: NDArray[np.int64], counts: dict[str, NDArray[np.int64]]) -> None:
    at = _dates(bins[:-1])
    base = np.zeros(len(at))
    for kind, (label, colour) in LAYERS.items():
        axes.bar(
            at,
            counts[kind],
            bottom=base,
            width=_width(bins),
            align="edge",
            color=colour,
            label=label,
        )
        base = base + counts[kind]
    axes.set_ylabel("deliveries an hour" if _width(bins) < 1 else "deliveries a day")
    axes.set_ylim(0, 1.18 * max(1, base.max()))
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(
        handles[::-1], labels[::-1], loc="best", bbox_to_anchor=(0, 0, 0.93, 1),
        edgecolor="none", framealpha=1,
    )  # fmt: skip
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _stranded(axes: Any, bins: NDArray[np.int64], stranded: NDArray[np.int64]) -> None:
    at = _dates(bins[:-1])
    axes.fill_between(at, stranded, color=BLUE, alpha=0.35, linewidth=0)
    axes.plot(at, stranded, color=BLUE, linewidth=1.2)
    axes.set_ylabel("stranded")
    axes.set_ylim(0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    peak = int(stranded.argmax())
    if stranded[peak]:
        axes.annotate(
            f"{stranded[peak]:,} travellers", (at[peak], stranded[peak]),
            xytext=(12, -2), textcoords="offset points", va="top",
        )  # fmt: skip


def _weather(axes: Any, world: World, bins: NDArray[np.int64]) -> None:
    weather, at = world.weather, _dates(bins[:-1])
    rain = np.nan_to_num(_at_worst(weather.at, weather.precip, bins))
    wind, gust = (_at_worst(weather.at, values, bins) for values in (weather.wind, weather.gust))
    axes.plot(at, wind, color=FAINT, linewidth=1.1)
    axes.scatter(at, gust, color=INK, s=5, linewidths=0)
    axes.set_ylabel("mph")
    axes.set_ylim(0, 1.2 * max(20, np.nanmax(np.concatenate([wind, gust]))))
    if not np.isnan(gust).all():
        strongest = int(np.nanargmax(gust))
        where = (at[strongest], gust[strongest])
        axes.annotate("gusts", where, xytext=(0, 5), textcoords="offset points", ha="center")
    above = (at[1], np.nanmax(wind[:12]))
    axes.annotate("wind", above, xytext=(0, 4), textcoords="offset points", color=FAINT)
    other = axes.twinx()
    other.bar(at, rain, width=_width(bins), align="edge", color=WATER)
    other.set_ylabel("rain and snow, inches", color=WATER)
    other.set_ylim(0, max(0.3, 2.2 * float(rain.max())))
    other.tick_params(axis="y", colors=WATER, length=0)
    other.spines[:].set_visible(False)


def _cancellations(axes: Any, world: World) -> None:
    """Say it above days on which many flights were cancelled."""
    flights = world.flights
    bounds = [source.midnight(day) for day in world.days] + [2**62]
    scheduled = np.histogram(flights.scheduled, bounds)[0]
    cancelled = np.histogram(flights.scheduled[flights.cancelled], bounds)[0]
    for day, n, out_of in zip(world.days, cancelled, scheduled, strict=True):
        if n > out_of / 5:
            noon = np.datetime64(day) + np.timedelta64(12, "h")
            axes.text(
                noon, 0.98, f"{n} of {out_of}\ncancelled", ha="center", va="top", color=RED,
                transform=axes.get_xaxis_transform(), weight="bold", fontsize=8,
            )  # fmt: skip


def _days(axes: Any, world: World) -> None:
    """Midnights as lines, names of days between them, weekends shaded."""
    from matplotlib import dates

    begins = [np.datetime64(day) for day in world.days]
    axes.set_xlim(begins[0], begins[-1] + np.timedelta64(1, "D"))
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="y", color="#e6e8ea", linewidth=0.8)
    axes.set_axisbelow(True)
    if _is_long(world):
        locator: Any = dates.AutoDateLocator()  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        return
    for day, begin in zip(world.days, begins, strict=True):
        axes.axvline(begin, color="#e6e8ea", linewidth=0.8, zorder=0)
        if day.weekday() >= 5:
            axes.axvspan(begin, begin + np.timedelta64(1, "D"), color="#f6f3ee", zorder=-1)
    noon = np.timedelta64(12, "h")
    axes.set_xticks([begin.astype("datetime64[h]") + noon for begin in begins])
    axes.set_xticklabels([f"{day:%a} {day.day}" for day in world.days])


def _span(world: World) -> str:
    first, last = world.days[0], world.days[-1]
    month = f" {first:%B}" if first.month != last.month else ""
    until = f"{first.day}{month} to " if first != last else ""
    return f"{until}{last.day} {last:%B %Y}"


# numbers ---------------------------------------------------------------------------------------


def _is_long(world: World) -> bool:
    return len(world.days) > 21


def _bins(world: World) -> NDArray[np.int64]:
    """Where hours begin, or days if there are many, and the end of the last one."""
    midnights = [source.midnight(day) for day in world.days]
    end = source.midnight(world.days[-1] + timedelta(days=1))
    if _is_long(world):
        return np.array([*midnights, end])
    return np.arange(midnights[0], end + 1, HOUR)


def _width(bins: NDArray[np.int64]) -> float:
    """Of a bar, in days."""
    return float(bins[1] - bins[0]) / DAY


def _dates(times: NDArray[np.int64]) -> Any:
    """As matplotlib wants them, on New York's clocks."""
    clocks = [datetime.fromtimestamp(t / 1e6, source.NEW_YORK) for t in times.tolist()]
    return np.array([clock.replace(tzinfo=None) for clock in clocks], "datetime64[us]")


def _by_kind(
    world: World, deliveries: pa.Table, bins: NDArray[np.int64]
) -> dict[str, NDArray[np.int64]]:
    """Deliveries of each layer, over time."""
    seqs = world.messages["seq"].to_numpy()
    times = world.messages["at"].cast(pa.int64()).to_numpy()
    at = times[np.searchsorted(seqs, deliveries["seq"].to_numpy())]
    profiles = deliveries["profile"].to_pylist()
    kinds = np.array([kind if (kind := kind_of(p)) in LAYERS else "crews" for p in profiles])
    return {kind: np.histogram(at[kinds == kind], bins)[0] for kind in LAYERS}


def _stranded_at(world: World, bins: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many travellers' contexts say so at the beginning of each bin."""
    at_first = world.contexts.filter(pc.field("stranded"))
    stranded = set(at_first["id"].to_pylist())
    steps, n_first = [], len(stranded)
    columns = (world.updates[name].to_pylist() for name in ("context", "stranded", "removed"))
    times = world.updates["at"].cast(pa.int64()).to_pylist()
    for at, context, now, removed in zip(times, *columns, strict=True):
        if now and context not in stranded:
            stranded.add(context)
            steps.append((at, 1))
        elif removed and "stranded" in removed and context in stranded:
            stranded.remove(context)
            steps.append((at, -1))
    at, step = np.array(steps or [(0, 0)], np.int64).T
    sums: NDArray[np.int64] = n_first + np.concatenate([[0], np.cumsum(step)])
    return sums[np.searchsorted(at, bins[:-1], side="right")]


def _at_worst(
    at: NDArray[np.int64], values: NDArray[np.float64], bins: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The highest reading of the three airports in each bin."""
    worst = np.full(len(bins) - 1, -np.inf)
    there = ~np.isnan(values)
    np.maximum.at(worst, np.searchsorted(bins, at[there], side="right") - 1, values[there])
    worst[np.isinf(worst)] = np.nan
    return worst
