"""`index.md` from raw observations alone: the paper's figures, repeated, and what it states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..reproduction import (
    Remark,
    judge,
    number,
    read_toml,
    setting,
    summary,
    table,
    write_page,
)
from ..reproduction import said as said_of
from .claims import ABOUT, CHECKS, Run, fp_of_saved, load
from .experiments import HERE, load_parameters


def load_paper() -> dict[str, Any]:
    """The paper's statements."""
    return read_toml(HERE / "paper.toml")


def page(out: Path, parameters: dict[str, Any] | None = None) -> Path:
    """Draw the figures and write `index.md`; needs only `out/raw/`."""
    from .plots import draw

    out = Path(out)
    run = load(out, parameters or load_parameters(), load_paper())
    draw(run, out)
    judged = judge(run, CHECKS, run.paper["claims"])
    reasons = read_toml(HERE / "differences.toml")
    parts = ["# The simulation of paper Contextcast, repeated", opening(run)]
    parts.append(f"{summary(judged, reasons['claims'])}\n\n{reasons['closing'].strip()}")
    parts += by_threshold(run, judged) + over_time(run, judged)
    return write_page(out, [*parts, closing(run)])


def opening(run: Run) -> str:
    first = run.runs[0]
    seeds = sorted({line["seed"] for line in run.runs})
    where = setting(
        first, run.parameters["profiles"], "groups in one pool", run.paper["machine"]
    ).replace("profiles", "contexts", 1)
    missed = run.false_negatives()
    verdict = (
        "Nobody who was meant missed a message: every message was compared with a scan of all "
        "contexts."
        if not missed
        else f"**{missed} deliveries were missed: something is wrong.**"
    )
    return (
        f"{first['routers']:,} routers in a tree (HOT, α = √n), 60 % of them with users, "
        f"{first['cycles']:,} cycles of which the first {first['unmeasured']:,} are not measured, "
        f"seeds {', '.join(map(str, seeds))}: {where}\n\n{verdict} *u* are the link messages that "
        "would flood every change; *u_a* are those with aggregation, where all changes of groups "
        "that one incoming message causes travel together; *m_fp* are the hops of addressed "
        "messages beyond those that exact knowledge of all contexts would take. A user who moves "
        "to another access node leaves one and joins another: two floods in *u* as in *u_a*."
        + (
            ""
            if first["routers"] == run.parameters["routers"]
            else " At less than the paper's size, service areas overlap less, and less is saved."
        )
    )


def said(judged: list[Remark], section: str) -> str:
    return said_of(judged, tuple(check.__name__ for check in ABOUT[section]))


def by_threshold(run: Run, judged: list[Remark]) -> list[str]:
    """Figure 4, and the figures behind it."""
    rows = []
    for scenario in run.scenarios:
        for threshold in run.thresholds:
            each = run.saved_each(scenario, threshold)
            names = ("u", "u_a", "operations", "hops", "m_fp")
            counted = [number(run.mean(scenario, threshold, name)) for name in names]
            share = fp_of_saved(run, scenario, threshold)
            groups = [line["groups"] for line in run.lines(scenario, threshold)]
            rows.append(
                [scenario, f"{threshold:g}", f"{each.mean():.1%}"]
                + [f"{each.min():.1%} to {each.max():.1%}", *counted]
                + [
                    f"{share:.2%}" if share < float("inf") else "–",
                    number(sum(groups) / len(groups)),
                ]
            )
    head = ["scenario", "threshold", "updates saved", "by seed", "u", "u_a", "operations", "hops"]
    head += ["m_fp", "m_fp of saved", "groups, in the end"]
    return [
        "## Figure 4: thresholds and scenarios",
        "![Figure 4: updates saved and false positives by threshold](figure4.png)",
        "*Means over seeds, sums over the measured cycles.*",
        table(head, rows),
        said(judged, "updates"),
        said(judged, "positives"),
    ]


def over_time(run: Run, judged: list[Remark]) -> list[str]:
    return [
        "## Figure 5: false positives over time",
        "![Figure 5: false positives over time](figure5.png)",
        f"*Averages of windows of {run.runs[0]['window']} cycles. No messages are sent until all "
        "contexts are there.*",
        said(judged, "time"),
    ]


def closing(run: Run) -> str:
    slowest = max(run.runs, key=lambda line: line["seconds"])
    return (
        "## Again\n\n"
        f"{len(run.runs)} runs took {sum(line['seconds'] for line in run.runs) / 60:,.0f} minutes "
        f"together, one at most {slowest['seconds']:,.0f} s ({slowest['scenario']}, "
        f"{slowest['threshold']:g}).\n\n`python -m benchmarks.contextcast --scale 1 --out …` "
        "simulates, two runs at a time (`--no-parallel`: one), `--page-only` draws this page from "
        "`raw/` again. `raw/runs.jsonl` has one line per run: setting, sizes, commit, machine, and "
        "counters of every window."
    )
