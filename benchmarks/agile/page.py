"""`index.md` from raw observations alone: the paper's tables and figures beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..reproduction import (
    Remark,
    agreement,
    folded,
    number,
    read_toml,
    said,
    setting,
    summary,
    table,
    write_page,
)
from .claims import HONEST, Run, remarks
from .experiments import HERE, load_parameters
from .observations import STRATEGIES, Cell, Observations, load, phase_rate

ABOUT = {
    "vary_up": ("low_rate", "winner", "best_case", "order_of_magnitude", "noindex_slow")
    + ("noindex_high", "eager_high", "gbu_order", "index_updates", "postfilter"),
    "vary_upd_att": ("upd_att_noindex", "upd_att_agile", "upd_att_eager"),
    "vary_delta_u": ("delta_u_noindex", "delta_u_eager", "delta_u_gbu", "delta_u_agile"),
    "burst": ("burst_during", "burst_outside", "burst_overall", "burst_policy"),
}


def load_paper() -> dict[str, Any]:
    """The paper's printed numbers and sentences."""
    return read_toml(HERE / "paper.toml")


def page(out: Path, parameters: dict[str, Any] | None = None) -> Path:
    """Draw the figures and write `index.md`; needs only `out/raw/`."""
    from .plots import draw

    out = Path(out)
    parameters = parameters or load_parameters()
    paper = load_paper()
    seen = load(out)
    draw(seen, parameters, paper, out)
    judged = remarks(Run(seen, parameters), paper["claims"])
    return write_page(out, sections(seen, parameters, paper, judged))


def sections(
    seen: Observations, parameters: dict[str, Any], paper: dict[str, Any], judged: list[Remark]
) -> list[str]:
    """The page, section by section."""
    parts = ["# AGILE's experiments, repeated", opening(seen, parameters, paper), summary(judged)]
    if seen.steady:
        parts += experiment1(seen, parameters, paper, judged)
        parts += completion(seen, parameters, judged, "vary_upd_att", "Figure 12", "UpdAtt [%]")
        parts += completion(seen, parameters, judged, "vary_delta_u", "Figure 13", "ΔU")
    if seen.burst:
        parts += experiment4(seen, parameters, judged)
    if seen.skiplist:
        parts += own_structure(seen, parameters, paper)
    return [*parts, closing()]


def opening(seen: Observations, parameters: dict[str, Any], paper: dict[str, Any]) -> str:
    line = seen.first
    structure = f"`{line['structure']}`"
    return (
        "Workload of Table 2 with "
        f"{setting(line, parameters['profiles'], structure, paper['machine'])}\n\n"
        f"{agreement(len(seen.disagreements()))} Updates arrive through `update_many`, grouped by "
        "attribute between two messages; making them is not on the clock. A cell ends after "
        "10,000 messages or when its time budget is spent; completion times for 10,000 messages "
        "are extrapolated from the throughput in the latter case. The paper's text gives Tables 3 "
        "to 5 as numbers and describes Figures 12 to 15 and Table 6 in words; their curves are "
        "not in the text at hand."
    )


def beside(
    cells: dict[str, list[Cell | None]],
    printed: dict[str, list[float]],
    what: Any,
    ups: list[float],
) -> str:
    """The paper's table and ours: `paper → ours` in every field."""
    rows = []
    for strategy in STRATEGIES:
        row = [strategy]
        for cell, theirs in zip(cells[strategy], printed[strategy], strict=True):
            row.append(f"{number(theirs)} → **{number(what(cell) if cell else None)}**")
        rows.append(row)
    return table(["UP (paper → **ours**)", *[f"{up:,g}" for up in ups]], rows)


def messages_run(cells: dict[str, list[Cell | None]], values: list[float]) -> str:
    """How many messages stand behind every cell."""
    rows = [
        [name, *[f"{cell.n_messages:,}" if cell else "–" for cell in cells[name]]]
        for name in STRATEGIES
    ]
    body = table(["messages timed", *[f"{value:,g}" for value in values]], rows)
    return folded("Messages behind each cell", body)


def experiment1(
    seen: Observations, parameters: dict[str, Any], paper: dict[str, Any], judged: list[Remark]
) -> list[str]:
    experiment = parameters["experiments"]["vary_up"]
    ups = experiment["values"]
    cells = seen.series(experiment, "vary_up")
    if ups != paper["up"]["values"]:
        printed = {
            name: {
                strategy: [
                    dict(zip(paper["up"]["values"], row, strict=True)).get(up, float("nan"))
                    for up in ups
                ]
                for strategy, row in paper[name].items()
            }
            for name in ("table3", "table4", "table5")
        }
    else:
        printed = {name: paper[name] for name in ("table3", "table4", "table5")}
    rate = beside(cells, printed["table3"], lambda c: c.throughput, ups)
    updates = beside(cells, printed["table4"], lambda c: c.millions("index_updates"), ups)
    post = beside(cells, printed["table5"], lambda c: c.postfiltered, ups)
    bound = parameters["context_bound"] * experiment["upd_att"] / 100
    due = parameters["profiles"] * bound / 1e6
    note = (
        f"With {parameters['profiles']:,} profiles, {experiment['upd_att']} % of the updates on "
        f"indexed attributes and {parameters['context_bound']:.0%} of the profiles bound to their "
        f"context, an eager index has to follow {due:.3g} × UP million updates in 10,000 messages "
        f"(here, with {seen.first['profiles']:,} profiles: "
        f"{seen.first['profiles'] * bound / 1e6:.3g} × UP). The paper's Table 4 has 0.024 × UP "
        "and its Table 5 has 400,000 profiles a message for NOINDEX; the text does not say why "
        "they are lower than its workload parameters imply. Compare the growth along a row, not "
        "the level. Table 5 counts profiles tested one by one: candidates of an index, and rows "
        "that no index holds. What `blocks` tests with vector code inside a block is index work "
        "and is not in it, so our levels are lower than a skip list's by construction."
    )
    return [
        f"## {experiment['title']}",
        "![Figure 11: normalised throughput](figure11.png)",
        "*Figure 11: throughput normalised to AGILE's; ΔU=150, UpdAtt=25, FP=1,000.*",
        "### Table 3: messages a second\n\n" + rate,
        "### Table 4: index updates, millions in 10,000 messages\n\n" + updates,
        "### Table 5: profiles to postfilter, millions in 10,000 messages\n\n" + post,
        note,
        followed(cells, ups, seen.first["profiles"] * bound / 1e6),
        baseline(cells, ups),
        said(judged, ABOUT["vary_up"]),
        messages_run(cells, ups),
    ]


def followed(cells: dict[str, list[Cell | None]], ups: list[float], due: float) -> str:
    """Whether the eager index follows the two most selective attributes, or more."""
    made = [
        cell.millions("index_updates") / (due * up)
        for cell, up in zip(cells["EAGER"], ups, strict=True)
        if cell and up
    ]
    if not made:
        return ""
    text = f"Here EAGER made {min(made):.2f} to {max(made):.2f} times the index updates expected"
    if max(made) <= 1.25:
        return f"{text}: the two indexed attributes of the paper."
    return (
        f"{text}: **its index follows more attributes than the paper's two** (all eight would be "
        "4 times), so UpdAtt does not mean here what it means in the paper."
    )


def baseline(cells: dict[str, list[Cell | None]], ups: list[float]) -> str:
    """NOINDEX against a plain scan: how much a lead over NOINDEX is worth."""
    pairs = list(zip(cells["NOINDEX"], cells["PLAIN SCAN"], strict=True))
    if not all(ours and plain for ours, plain in pairs):
        return "No plain scan ran along, so how good NOINDEX is as a baseline is not known."
    ratios = [ours.throughput / plain.throughput for ours, plain in pairs if ours and plain]
    plain = [number(cell.throughput) if cell else "–" for cell in cells["PLAIN SCAN"]]
    body = table(
        ["UP", *[f"{up:,g}" for up in ups]],
        [["plain scan, messages/s", *plain], ["NOINDEX / plain scan", *map(number, ratios)]],
    )
    weak = min(ratios) < HONEST
    words = (
        "**NOINDEX is a weak baseline here**: statements that lean on it are marked *not shown*."
        if weak
        else "NOINDEX is an honest baseline here."
    )
    head = "A plain numba scan of the same data, not germane's, processed the same events. "
    return f"### How good is NOINDEX?\n\n{head}{words}\n\n{body}"


def completion(
    seen: Observations,
    parameters: dict[str, Any],
    judged: list[Remark],
    name: str,
    figure: str,
    x: str,
) -> list[str]:
    experiment = parameters["experiments"][name]
    cells = seen.series(experiment, name)
    rows = [
        [strategy, *[number(cell.completion_s if cell else None) for cell in cells[strategy]]]
        for strategy in STRATEGIES
    ]
    file = figure.lower().replace(" ", "")
    return [
        f"## {experiment['title']}",
        f"![{figure}: completion time]({file}.png)",
        f"*{figure}: seconds for 10,000 messages over {x}; UP=1,000, FP=1,000.*",
        table([f"{x} (ours, s)", *[f"{value:,g}" for value in experiment["values"]]], rows),
        said(judged, ABOUT[name]),
        messages_run(cells, experiment["values"]),
    ]


def experiment4(seen: Observations, parameters: dict[str, Any], judged: list[Remark]) -> list[str]:
    burst = parameters["burst"]
    rows = []
    for cell in seen.burst:
        policy = cell.line["policy"]
        name = cell.line["strategy"]
        if policy is not None:
            name += f" ({policy})" if isinstance(policy, str) else f" (FP={policy:,})"
        phases: list[float | None] = [None] * len(burst["phases"])
        if cell.n_messages:
            phases = [phase_rate(cell, phase) for phase in range(len(phases))]
        whole = (
            number(cell.throughput) if cell.line["complete"] else f"stopped at {cell.n_messages:,}"
        )
        counters = cell.line["counters"]
        rows.append(
            [name, whole, *[number(rate) for rate in phases]]
            + [f"{counters['escalations']:,}", f"{counters['deescalations']:,}"]
        )
    head = ["strategy", "whole", "before", "in the burst", "after", "escalations", "deescalations"]
    return [
        f"## {burst['title']}",
        "![Figure 14: throughput through a burst](figure14.png)",
        "*Figure 14: throughput of every 100 messages; UP=1, a burst at UP=1,000 (shaded), UP=1.*",
        "![Figure 15: deescalation policies](figure15.png)",
        "*Figure 15: the same for AGILE's deescalation policies.*",
        "### Table 6: messages a second over the whole, and by phase (ours)\n\n"
        + table(head, rows),
        said(judged, ABOUT["burst"]),
    ]


def own_structure(
    seen: Observations, parameters: dict[str, Any], paper: dict[str, Any]
) -> list[str]:
    own = parameters["skiplist"]
    experiment = parameters["experiments"][own["experiment"]]
    cells = seen.series(experiment, own["experiment"], "skiplist")
    line = seen.skiplist[0].line
    names = [name for name in STRATEGIES if any(cells[name])]
    rows = [[n, *[number(c.throughput if c else None) for c in cells[n]]] for n in names]
    return [
        f"## {own['title']}",
        f"Interval skip lists (structure `{line['structure']}`), {line['profiles']:,} profiles; "
        "messages a second, ours. NOINDEX has no structure and is the same engine as above.",
        table(["UP", *[f"{up:,g}" for up in experiment["values"]]], rows),
    ]


def closing() -> str:
    return (
        "## Again\n\n"
        "`python -m benchmarks.agile --scale 1 --out …` measures (at most an hour), "
        "`python -m benchmarks.agile --page-only --out …` draws this page from `raw/` again. "
        "`raw/*.jsonl` has one line per cell: parameters, seed, commit, machine, "
        "[messages, updates, seconds] of every chunk, counters, digest of the answers."
    )
