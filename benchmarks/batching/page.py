"""`index.md` from raw observations alone: the paper's tables and figures beside ours."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

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
from .claims import ABOUT, CHECKS
from .contest import STAGES
from .experiments import HERE, load_parameters
from .latency import Speeds, burst, within
from .observations import STRUCTURES, UNBATCHED, Cell, Observations, Run, load

Judged = dict[str, list[Remark]]  # by structure
NAMES = {"blocks": "block index", "skiplist": "the paper's structures"}


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
    runs = {structure: Run(seen, parameters, structure) for structure in STRUCTURES}
    draw(seen, runs, paper, out)
    judged = {name: judge(run, CHECKS, paper["claims"]) for name, run in runs.items()}
    return write_page(out, sections(seen, runs, paper, judged))


def sections(
    seen: Observations, runs: dict[str, Run], paper: dict[str, Any], judged: Judged
) -> list[str]:
    """The page, section by section."""
    ours, theirs = (runs[structure] for structure in STRUCTURES)
    parts = ["# The experiments of paper Batching, repeated", opening(seen, ours, paper)]
    parts.append(in_short(judged))
    parts += strategies(ours, judged) + own_structures(theirs) + breakdown(runs, paper, judged)
    parts += scaleup(runs, paper, judged) + grouping(runs, judged) + sensitivity(runs, judged)
    parts += latency(runs, paper, judged) + bursts(runs, paper, judged)
    return [part for part in [*parts, closing()] if part]


def opening(seen: Observations, run: Run, paper: dict[str, Any]) -> str:
    line = seen.first
    whole = run.parameters["profiles"]
    structure = "`blocks` and, where it says so, `skiplist`"
    (_, seconds), (_, most) = (
        run.parameters["budget"]["seconds"][name] for name in ("cell", "longest_batch")
    )
    where = setting(line, whole, structure, paper["machine"])
    return (
        f"RQ-Z, RQ-G, RQ-U and PQ of Table 1 with {where}"
        f"\n\n{agreement(len(seen.disagreements()))} A cell is a strategy at a batch size; it has "
        f"at least one batch and about {seconds:g} s (at full scale). Rivals take turns; a rate is "
        "the median of the turns, a speed-up the median of the ratios to *unbatched* in the same "
        "round and at the same batch size. A dash is a cell where one batch would take longer "
        f"than {most:g} s (at full scale), or a full batch beyond the paper's 10,000. MiniB/PIx "
        "and MiniB/PIx/MIx leave the grouping to the filter; *tuned default* is what `Filter()` "
        "does when it is told nothing, and is not in the paper. The paper's text gives Tables 2 "
        "to 6 as numbers and describes Figures 6 to 9 in words; their curves are not in the text "
        "at hand."
    )


def in_short(judged: Judged) -> str:
    """What holds and what does not, and why."""
    reasons = read_toml(HERE / "differences.toml")
    text = f"{summary(judged['blocks'], reasons['claims'])}\n\n{reasons['closing'].strip()}"
    theirs = [remark for remark in judged["skiplist"] if remark.word != "no data"]
    if not theirs:
        return text
    agree = sum(remark.word == "agrees" for remark in theirs)
    return (
        f"{text}\n\nThat is on our block index. On the paper's own structures, interval skip lists "
        f"and hash tables, {agree} of the {len(theirs)} statements that were tried hold."
    )


def said(judged: Judged, section: str) -> str:
    """The paper's sentences on a section, with our verdicts on both structures."""
    names = [check.__name__ for check in ABOUT[section]]
    rows = []
    for ours, theirs in zip(*judged.values(), strict=True):
        if ours.claim in names:
            evidence = ours.evidence
            if theirs.word != "no data":
                evidence += f"<br>*{NAMES['skiplist']}:* {theirs.evidence}"
            words = [f"**{r.word}**" if r.word != "no data" else "–" for r in (ours, theirs)]
            rows.append([ours.text, *words, evidence])
    return table(["the paper says", *NAMES.values(), "evidence"], rows)


def by_size(run: Run, stream: str, what: str, field: Callable[[Cell], str]) -> str:
    """A table of strategies by batch size."""
    entries = run.parameters["contestants"]["strategies"]
    names = [entry["name"] for entry in entries if "only" not in entry]
    curves = {name: run.curve(stream, name) for name in names}
    sizes = sorted({n for curve in curves.values() for n in curve})
    rows = [
        [name, *[field(curve[n]) if n in curve else "–" for n in sizes]]
        for name, curve in curves.items()
    ]
    return table([f"{stream}: {what}, batches of", *[f"{n:,}" for n in sizes]], rows)


def throughputs(run: Run, stream: str) -> str:
    return by_size(run, stream, "messages a second", lambda cell: number(cell.throughput))


def messages_run(run: Run, streams: list[str]) -> str:
    """How many messages stand behind every cell."""
    bodies = [
        by_size(run, stream, "messages timed", lambda cell: f"{cell.n_messages:,}")
        for stream in streams
    ]
    return folded("Messages behind each cell", "\n\n".join(bodies))


def streams_of(run: Run) -> list[str]:
    return [s for s in ("RQ-Z", "RQ-G", "RQ-U", "PQ") if run.curve(s, UNBATCHED)]


def strategies(run: Run, judged: Judged) -> list[str]:
    streams = streams_of(run)
    if not streams:
        return []
    return [
        "## Figures 6 and 7: strategies by batch size",
        "![Figure 6: range profiles](figure6.png)",
        "*Figure 6: throughput on RQ-Z (the paper's points, then ours), RQ-G and RQ-U.*",
        "![Figure 7: point queries](figure7.png)",
        "*Figure 7: the same on PQ.*",
        *[throughputs(run, stream) for stream in streams],
        said(judged, "strategies"),
        messages_run(run, streams),
    ]


def own_structures(run: Run) -> list[str]:
    streams = streams_of(run)
    if not streams:
        return []
    return [
        "### On the paper's structures: interval skip lists, and hash tables for PQ",
        "![Figures 6a and 7 on the paper's structures](figure6_skiplist.png)",
        *[throughputs(run, stream) for stream in streams],
        messages_run(run, streams),
    ]


def stages(cell: Cell | None, printed: dict[str, float] | None, n_messages: int) -> list[str]:
    """Seconds by stage: the paper's, then ours, and what is in no stage."""
    row = []
    for stage in STAGES:
        ours = number(cell.stage_s(stage, n_messages)) if cell else "–"
        theirs = number((printed or {}).get(stage))
        row.append(f"{theirs} → **{ours}**")
    rest = number(cell.rest_s(n_messages)) if cell else "–"
    total = number(n_messages / cell.throughput) if cell else "–"
    theirs = number(sum(printed.values())) if printed else "–"
    return [*row, f"– → **{rest}**", f"{theirs} → **{total}**"]


def breakdown(runs: dict[str, Run], paper: dict[str, Any], judged: Judged) -> list[str]:
    parts = []
    for structure, run in runs.items():
        n_messages = run.parameters["breakdown"]["messages"]
        for number_, batch_size in run.parameters["breakdown"]["tables"].items():
            rows = []
            for entry in run.parameters["contestants"]["strategies"]:
                name = entry["name"]
                cell = run.curve("RQ-Z", name).get(batch_size)
                if cell:
                    printed = paper[f"table{number_}"].get(name)
                    rows.append([name, *stages(cell, printed, n_messages)])
            if rows:
                title = f"### Table {number_}: batches of {batch_size:,}, {NAMES[structure]}"
                head = [f"seconds for {n_messages:,} messages (paper → **ours**)"]
                head += ["group", "probe", "message index", "postfilter", "deliver", "rest", "all"]
                parts.append(f"{title}\n\n{table(head, rows)}")
    if not parts:
        return []
    note = (
        "Group is the paper's SortMB and SortPIx, message index its SortMIx and MIx. Tables 2 and "
        "3 do not say for how many messages they are; their sums are what 10,000 messages take "
        "at the throughputs of Figure 6a. The paper does not count delivery. Unbatched does "
        "everything for a message in one piece and knows no stages: *minibatches of one* is the "
        "same work stage by stage. The message index is made and asked while rows are tested, so "
        "its time may be in the postfilter's."
    )
    head = "## Tables 2 and 3: where the time goes (RQ-Z)"
    return [head, note, *parts, said(judged, "breakdown")]


def scaleup(runs: dict[str, Run], paper: dict[str, Any], judged: Judged) -> list[str]:
    rows = []
    for structure, run in runs.items():
        chosen = run.parameters["scaleup"]
        for name in chosen["contestants"]:
            try:
                ours = run.speedups("RQ-Z", name)
            except NoData:
                continue
            printed = dict(
                zip(paper["table4"]["batch_sizes"], paper["table4"].get(name, []), strict=False)
            )
            sizes = chosen["batch_sizes"]
            row = [f"{number(printed.get(n))} → **{number(ours.get(n))}**" for n in sizes]
            rows.append([f"{name}, {NAMES[structure]}", *row])
    if not rows:
        return []
    head = ["speed-up over unbatched (paper → **ours**)", *[f"{n:,}" for n in sizes]]
    return [
        "## Table 4: larger batches (RQ-Z)",
        table(head, rows),
        said(judged, "scaleup"),
    ]


def grouping(runs: dict[str, Run], judged: Judged) -> list[str]:
    parts = []
    for structure, run in runs.items():
        try:
            sizes = run.grouped_sizes("grouping")
        except NoData:
            continue
        rows = []
        for entry in run.parameters["contestants"]["grouping"]:
            best = [run.best(entry["name"], n) for n in sizes]
            fields = [f"{number(c.throughput)} ({c.setting})" for c in best]
            rows.append([entry["name"], *fields])
        head = [f"{NAMES[structure]}: messages a second", *[f"{n:,}" for n in sizes]]
        parts.append(table(head, rows))
    if not parts:
        return []
    return [
        "## Figure 8: ways of grouping (RQ-Z, MiniB/PIx)",
        "![Figure 8: ways of grouping](figure8.png)",
        "*Figure 8: throughput by batch size, every way with the best of its settings.* The best "
        "setting is in brackets: messages in a minibatch for Fix No, else widths of values.",
        *parts,
        said(judged, "grouping"),
    ]


def sensitivity(runs: dict[str, Run], judged: Judged) -> list[str]:
    parts = []
    for structure, run in runs.items():
        try:
            (batch_size,) = run.grouped_sizes("sensitivity")
        except NoData:
            continue
        for entry in run.parameters["contestants"]["sensitivity"]:
            cells = run.settings("sensitivity", entry["name"], batch_size)
            head = [f"{entry['name']}, {NAMES[structure]}", *[cell.setting for cell in cells]]
            rows = [
                ["messages in a minibatch, mean", *[number(cell.minibatch) for cell in cells]],
                ["messages a second", *[number(cell.throughput) for cell in cells]],
            ]
            parts.append(table(head, rows))
    if not parts:
        return []
    return [
        "## Figure 9: size of minibatches (RQ-Z, MiniB/PIx)",
        "![Figure 9: size of minibatches](figure9.png)",
        "*Figure 9: throughput by the mean size of a minibatch.*",
        folded("The settings", "\n\n".join(parts)),
        said(judged, "sensitivity"),
    ]


def speeds_of(runs: dict[str, Run]) -> dict[str, Speeds]:
    found = {}
    for structure, run in runs.items():
        with suppress(NoData):
            found[structure] = run.speeds()
    return found


def latency(runs: dict[str, Run], paper: dict[str, Any], judged: Judged) -> list[str]:
    chosen = runs["blocks"].parameters["latency"]
    rows = [["paper", number(paper["unbatched"]), *map(str, paper["table5"]["speedup"])]]
    for structure, speeds in speeds_of(runs).items():
        allowed = [within(speeds, ms / 1e3) for ms in chosen["latencies_ms"]]
        fields = [f"{a.speedup:.2f} (batches of {a.batch_size:,})" for a in allowed]
        rows.append([NAMES[structure], number(speeds.single), *fields])
    if len(rows) == 1:
        return []
    head = ["speed-up within", "unbatched, messages/s"]
    head += [f"{ms:,} ms" for ms in chosen["latencies_ms"]]
    note = (
        "The model of §7.1: a batch waits for its last message, then is matched; the largest batch "
        "whose first message is served in time. The paper does not state the arrival rate; its "
        "figures fit one equal to the throughput, which is what the model is given here. The "
        f"batched speeds are those of *{chosen['batched']}* on RQ-Z: unbatched (the median over "
        "batch sizes) times the speed-up in the same rounds, as in Table 4. A faster engine fits "
        "more messages into the same time, so its batches and speed-ups are larger at the same "
        "latency."
    )
    return [
        "## Table 5: speed-up within a latency",
        note,
        table(head, rows),
        said(judged, "latency"),
    ]


def bursts(runs: dict[str, Run], paper: dict[str, Any], judged: Judged) -> list[str]:
    chosen = runs["blocks"].parameters["latency"]
    printed, durations = paper["table6"], chosen["bursts_ms"]
    told = paper["speedups"]
    rates = tuple(paper["unbatched"] * speedup for speedup in told["speedup"])
    known = {"paper's speeds, simulated": Speeds(tuple(told["batch_sizes"]), rates)}
    known |= {NAMES[structure]: speeds for structure, speeds in speeds_of(runs).items()}
    if len(known) == 1:
        return []
    rows = [
        ["paper", f"{kind} {which}", *map(number, printed[f"{kind}_{which}"])]
        for kind in ("unbatched", "batched")
        for which in ("avg", "max")
    ]
    for name, speeds in known.items():
        rate = chosen["overload"] * speeds.single
        for kind in ("unbatched", "batched"):
            seen = [burst(speeds, rate, ms / 1e3, kind == "batched") for ms in durations]
            rows.append([name, f"{kind} avg", *[number(s.average_ms) for s in seen]])
            rows.append([name, f"{kind} max", *[number(s.most_ms) for s in seen]])
        largest = [f"{s.largest_batch:,}" for s in seen]
        rows.append([name, "largest batch", *largest])
    singles = ", ".join(
        f"{NAMES[s]} {number(speeds.single)} messages/s" for s, speeds in speeds_of(runs).items()
    )
    note = (
        "A simulation with the measured speeds, as the paper computed its own: messages arrive "
        f"{chosen['overload']:.2f} times as fast as they can be matched one by one (the paper's "
        f"3,000 on 450; here unbatched: {singles}). Batched, those who wait when the filter is "
        "free make up the next batch. Given the speed-ups that the paper states, the simulation "
        "comes close to the paper's own table."
    )
    head = ["milliseconds", "burst of", *[f"{ms:,} ms" for ms in durations]]
    return ["## Table 6: latency in a burst", note, table(head, rows), said(judged, "burst")]


def closing() -> str:
    return (
        "## Again\n\n"
        "`python -m benchmarks.batching --scale 1 --out …` measures (at most 40 minutes), "
        "`python -m benchmarks.batching --page-only --out …` draws this page from `raw/` again. "
        "`raw/*.jsonl` has one line per cell: parameters, seed, commit, machine, "
        "[messages, batches, seconds] of every turn, nanoseconds by stage, counters, what the "
        "filter had decided, digest of the answers."
    )
