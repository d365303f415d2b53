"""`index.md` from raw observations alone: the paper's figures, repeated, and what it states."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..reproduction import (
    NoData,
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
from .claims import ABOUT, CHECKS, XPATH, Line, Run, load, matched
from .experiments import HERE, load_parameters


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
    parts = ["# The experiments of paper ApproXFilter, repeated", opening(run)]
    parts.append(f"{summary(judged, reasons['claims'])}\n\n{reasons['closing'].strip()}")
    parts += by_documents(run, judged) + by_profiles(run, judged)
    return write_page(out, [*parts, closing()])


def opening(run: Run) -> str:
    budget = run.parameters["budget"]
    where = setting(
        run.cells[0],
        run.parameters["profiles"],
        "patterns listed by their values",
        run.paper["system"],
    )
    agree = agreement(run.disagreements()).replace("message that they share", "document compared")
    told = " and ".join(f"{threshold:g}" for threshold in run.thresholds)
    return (
        "Catalogue entries of several providers, each in a format of its own, and profiles in one "
        f"of these formats: up to {where}"
        f"\n\n{agree} The paper does not show its documents and profiles; ours are generated, of "
        "about 1.4 kB and 22 elements, with 1 to 4 values a profile (`benchmarks/library.py`). "
        "Costs are the paper's: skip structure 15, skip value 5, rename 1, insert 0. It does not "
        f"say with which threshold it measured: here are {told}, each as a filter of its own, and "
        f"verdicts are on {run.judged:g}. With {run.judged:g} no value can be skipped; with more "
        "than 5, a profile of one value matches whatever has its structures. *XPath* is a compiled "
        "XPath a profile (lxml) on a parsed document; it finds exact matches only. *Match DAG for "
        "space* and *for time* are the paper's two structures; the prototype that it measured is "
        "a simpler form of the former, with fewer skips. *One at a time* and *in batches* of "
        f"{budget['batch']:,} documents are calls of `Filter` with text; *matching alone*, as the "
        "match DAGs, has documents parsed and flattened before. All take turns. The paper "
        f"filtered {run.paper['documents']:,} documents with every number of profiles; here it is "
        f"up to {budget['documents']:,}, as far as one gets in {budget['cell_seconds']:g} s, but "
        f"at least {budget['least_documents']}. Exact matches were compared with those of XPath on "
        f"{budget['checked_documents']} documents a number of profiles. The paper's curves are "
        "not in the text at hand." + "".join(f"\n\n{note['text']}" for note in run.notes)
    )


def said(judged: list[Remark], section: str) -> str:
    return said_of(judged, tuple(check.__name__ for check in ABOUT[section]))


# Figure 8 ----------------------------------------------------------------------------------------


def by_documents(run: Run, judged: list[Remark]) -> list[str]:
    if not run.documents:
        return []
    columns: list[float | None] = [None, *run.thresholds]
    names = ["without transformations", *[f"cost < {t:g}" for t in run.thresholds]]
    shares = [100 * run.shares(column) for column in columns]
    rows = [
        [name, *[number(float(f(own))) for f in (np.mean, np.min, np.max)], f"{(own == 0).sum()}"]
        for name, own in zip(names, shares, strict=True)
    ]
    head = ["profiles matched, %", "mean", "least", "most", "documents without a match"]
    each = [
        [f"{line['document']}", *[f"{matched(line, column):,}" for column in columns]]
        for line in run.documents
    ]
    return [
        "## Figure 8: matches with and without transformations",
        "![Figure 8: matches with and without transformations](figure8.png)",
        f"*{len(run.documents)} documents, {run.documents[0]['size']:,} profiles. Two of twenty "
        "documents are about discs, and no profile is.*",
        table(head, rows),
        folded("Every document", table(["document", *names], each)),
        said(judged, "matches"),
    ]


# Figure 9 ----------------------------------------------------------------------------------------


def mean(times: np.ndarray) -> str:
    return number(float(times.mean()))


def least_to_most(times: np.ndarray) -> str:
    return f"{number(float(times.min()))} to {number(float(times.max()))}"


def timed(times: np.ndarray) -> str:
    return f"{len(times):,}"


def contestants(run: Run) -> list[tuple[str, float | None, str]]:
    """Name, threshold and title of every row."""
    found: list[tuple[str, float | None, str]] = []
    for name in (contestant["name"] for contestant in run.parameters["contestants"]):
        limits = [None] if name == XPATH else run.thresholds
        found += [(name, t, name if t is None else f"{name}, cost < {t:g}") for t in limits]
    return found


def cells(run: Run, what: str, field: Callable[[np.ndarray], str]) -> str:
    """A table of contestants by the number of profiles."""
    rows = []
    for name, threshold, title in contestants(run):
        row = [title]
        for model in run.sizes():
            try:
                row.append(field(run.times(model["point"], name, threshold)))
            except NoData:
                row.append("–")
        rows.append(row)
    return table([f"{what}, profiles:", *[f"{m['size']:,}" for m in run.sizes()]], rows)


def met(run: Run) -> str:
    """What a document meets, and what profiles take."""
    sizes = run.sizes()
    rows = []
    for threshold in run.thresholds:
        for what in ("candidates", "matches"):
            own = [model["found"][f"{threshold:g}"][what] for model in sizes]
            rows.append([f"{what} of a document, cost < {threshold:g}", *map(number, own)])
    for form in sizes[0]["dag_bytes"]:
        dags = [model["dag_bytes"].get(form) for model in sizes]
        rows.append([f"match DAG for {form}, MB", *[number(n and n / 1e6) for n in dags]])
    rows += [
        ["patterns, MB", *[number(model["index_bytes"] / 1e6) for model in sizes]],
        ["patterns, bytes a profile", *[per(model, "index_bytes") for model in sizes]],
        ["the whole filter, bytes a profile", *[per(m, "filter_bytes") for m in sizes]],
        ["subscribed in, s", *[number(model["subscribe_s"]) for model in sizes]],
    ]
    return table(["profiles:", *[f"{model['size']:,}" for model in sizes]], rows)


def per(model: Line, what: str) -> str:
    return number(model[what] / model["size"])


def against_xpath(run: Run) -> str:
    """How many times as long XPath takes, by means."""
    rows = []
    for name, threshold, title in contestants(run):
        if name == XPATH:
            continue
        row = [title]
        for model in run.sizes():
            try:
                slow = run.times(model["point"], XPATH, None).mean()
                row.append(number(float(slow / run.times(model["point"], name, threshold).mean())))
            except NoData:
                row.append("–")
        rows.append(row)
    return table(["XPath takes so many times as long, profiles:",
                  *[f"{m['size']:,}" for m in run.sizes()]], rows)  # fmt: skip


def by_profiles(run: Run, judged: list[Remark]) -> list[str]:
    if not run.models:
        return []
    paper = run.paper
    return [
        "## Figure 9: time and space by profiles",
        "![Figure 9: time and space by profiles](figure9.png)",
        f"*The axes of the paper's figure reach {paper['time_axis_ms']} ms a document and "
        f"{paper['space_axis_mb']} MB, with 25,000 profiles.*",
        cells(run, "mean, ms a document", mean),
        folded(
            "Least and most, documents or batches behind each cell",
            f"{cells(run, 'ms, least to most', least_to_most)}\n\n{cells(run, 'timed', timed)}",
        ),
        met(run),
        said(judged, "sizes"),
        "## Beside XPath",
        against_xpath(run),
    ]


def closing() -> str:
    return (
        "## Again\n\n"
        "`germane reproduce approx --scale 1 --out …` or `python -m benchmarks.approximation "
        "--scale 1 --out …` measures (some minutes; the latter with `--no-beyond` leaves out what "
        "is larger than the paper), `python -m benchmarks.approximation --page-only --out …` draws "
        "this page from `raw/` again. `raw/matches.jsonl` has one line per document of Figure 8, "
        "`raw/models.jsonl` one per number of profiles, `raw/cells.jsonl` one per cell: sizes, "
        "seed, commit, machine, nanoseconds of every document or batch, and whether the answers "
        "agree."
    )
