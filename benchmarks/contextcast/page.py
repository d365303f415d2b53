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
from .claims import ABOUT, CHECKS, Run, fp_of_saved, load, measured, traffic_of
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
    parts += by_threshold(run, judged) + over_time(run, judged) + beyond(run)
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
        f"seeds {', '.join(map(str, seeds))}{missing(run)}: {where}\n\n"
        f"{verdict} *u* are the link messages that would flood every change; *u_a* are those with "
        "aggregation, where all changes of groups "
        "that one incoming message causes travel together; *m_fp* are the hops of addressed "
        "messages beyond those that exact knowledge of all contexts would take. A user who moves "
        "to another access node leaves one and joins another: two floods in *u* as in *u_a*."
        + (
            ""
            if first["routers"] == run.parameters["routers"]
            else " At less than the paper's size, service areas overlap less, and less is saved."
        )
    )


def missing(run: Run) -> str:
    """Which of the wanted runs are not there."""
    wanted = run.parameters["seeds"] * len(run.parameters["scenarios"])
    wanted *= len(run.parameters["thresholds"])
    there = len(run.runs)
    return "" if there == wanted else f" (**{there} of {wanted} runs; the others are to be done**)"


def said(judged: list[Remark], section: str) -> str:
    return said_of(judged, tuple(check.__name__ for check in ABOUT[section]))


def by_threshold(run: Run, judged: list[Remark]) -> list[str]:
    """Figure 4, and the figures behind it."""
    rows = []
    for scenario in run.scenarios:
        for threshold in run.thresholds_of(scenario):
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


def beyond(run: Run) -> list[str]:
    """Thresholds that tune themselves, beside fixed ones."""
    rows = []
    for scenario in run.scenarios:
        names = run.by_name(scenario)
        tuned = names.get("self-tuning", [])
        seeds = {line["seed"] for line in tuned}  # the same for all that are compared
        for name, lines in names.items():
            same = [line for line in lines if line["seed"] in seeds]
            if not same:
                continue
            counted = [
                number(sum(measured(line, what) for line in same) / len(same))
                for what in ("u_a", "m_fp", "feedback")
            ]
            decided = [line["decided"] for line in same if "coarsened" in line["decided"]]
            said = [
                number(sum(d[what] for d in decided) / len(decided)) if decided else "–"
                for what in ("coarsened", "repaired", "turns")
            ]
            share = traffic_of(same)
            rows.append(
                [scenario, name, f"{share:.2%}", str(len(same)), *counted, *said]
                + [f"{share / traffic_of(tuned):.2f}"]
            )
    if not rows:
        return []
    head = ["scenario", "thresholds", "traffic", "seeds", "u_a", "m_fp", "feedback", "coarsened"]
    head += ["repaired", "turns", "traffic / self-tuning"]
    return [
        "## Beyond the paper: thresholds that tune themselves",
        read_toml(HERE / "differences.toml")["beyond"].strip(),
        table(head, rows),
    ]


def closing(run: Run) -> str:
    runs = [*run.runs, *run.beyond]
    slowest = max(run.runs, key=lambda line: line["processor_seconds"])
    minutes = sum(line["processor_seconds"] for line in runs) / 60
    return (
        f"## Again\n\n{len(runs)} runs took {minutes:,.0f} minutes of processor time together, one "
        f"of the paper's at most {slowest['processor_seconds']:,.0f} s ({slowest['scenario']}, "
        f"{slowest['threshold']:g}); by the clock, beside other work, at most "
        f"{max(line['seconds'] for line in runs):,.0f} s.\n\n"
        + read_toml(HERE / "differences.toml")["again"].strip()
    )
