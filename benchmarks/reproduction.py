"""What the reproductions of all papers share: a journal, progress, claims, and text of a page.

An experiment observes and writes lines to a `Journal`; nothing that measures interprets. A claim
is a sentence of the paper with a check: a function of the run that returns whether we see the
same, and the figures that say so. The page is made from the journal's files alone.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import record

Verdict = tuple[bool, str]


# Observing ---------------------------------------------------------------------------------------


def read_toml(path: Path) -> dict[str, Any]:
    """Parameters of a run, or the figures that a paper printed."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def as_scale(scale: float | None, parameters: dict[str, Any]) -> float:
    """The share of the paper's size to run at; None is the default of the parameters."""
    scale = parameters["default_scale"] if scale is None else scale
    if not 0 < scale <= 10:
        whole = parameters["profiles"]
        raise ValueError(f"scale {scale} is outside (0, 10]; 1 is the paper's {whole:,} profiles")
    return scale


class Journal:
    """Appends lines to `raw/<name>.jsonl`, each with commit, machine and scale of the run.

    Lines of an earlier run are deleted, unless it is to be continued.
    """

    def __init__(self, out: Path, scale: float, keep: bool = False) -> None:
        self._folder = Path(out) / "raw"
        self._run = {k: v for k, v in record.stamp({}).items() if k != "parameters"}
        self._run["scale"] = scale
        self._folder.mkdir(parents=True, exist_ok=True)
        for old in () if keep else self._folder.glob("*.jsonl"):
            old.unlink()

    def write(self, name: str, line: dict[str, Any]) -> None:
        with (self._folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(self._run | line, separators=(",", ":")) + "\n")


def read_lines(out: Path, name: str) -> list[dict[str, Any]]:
    """The lines of `raw/<name>.jsonl`; none where the experiment was not run."""
    path = Path(out) / "raw" / f"{name}.jsonl"
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Steps:
    """A bar of a rich `Progress`, or nothing."""

    def __init__(self, progress: Any, title: str, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=total) if progress is not None else None

    def say(self, text: str) -> None:
        if self._progress is not None:
            self._progress.update(self._task, description=text)

    def done(self) -> None:
        if self._progress is not None:
            self._progress.advance(self._task)


def command(
    paper: str,
    run: Callable[..., None],
    page: Callable[..., Path],
    part: str = "skiplist",
    without: str = "leave out the skip lists",
) -> None:
    """`python -m benchmarks.<paper>`: the experiments with a progress bar, or only the page.

    `part` is an option of `run` that `--no-<part>` turns off.
    """
    parser = argparse.ArgumentParser(description=f"The experiments of the {paper} paper")
    out = Path("out") / paper.lower()
    parser.add_argument("--scale", type=float, default=None, help="1 is the paper's size")
    parser.add_argument("--out", type=Path, default=out)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page-only", action="store_true", help="draw from raw results")
    parser.add_argument(f"--no-{part}", dest=part, action="store_false", help=without)
    chosen = parser.parse_args()
    if chosen.page_only:
        print(page(chosen.out))
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn()) as progress:
        run(chosen.scale, chosen.out, chosen.seed, progress, **{part: getattr(chosen, part)})
    print(chosen.out / "index.md")


# Judging -----------------------------------------------------------------------------------------


class NoData(Exception):
    """The observations do not hold what a claim speaks about."""


@dataclass(frozen=True)
class Remark:
    """A sentence of the paper and what we saw."""

    claim: str
    text: str
    word: str  # agrees, differs, not shown, no data
    evidence: str


def judge(
    run: Any, checks: Mapping[str, Callable[[Any], Verdict]], claims: Mapping[str, str]
) -> list[Remark]:
    """Every claim with the verdict of its check."""
    judged = []
    for name, text in claims.items():
        try:
            agrees, evidence = checks[name](run)
            judged.append(Remark(name, text, "agrees" if agrees else "differs", evidence))
        except NoData:
            judged.append(Remark(name, text, "no data", "not observed in this run"))
    return judged


# Telling -----------------------------------------------------------------------------------------


def number(value: float | None) -> str:
    """Three digits, or all digits before the point; a dash for what was not observed."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table of Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def folded(summary: str, body: str) -> str:
    """Text that a reader opens by a click."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def said(judged: list[Remark], claims: tuple[str, ...]) -> str:
    """Some of the paper's sentences, with our verdicts."""
    rows = [
        [remark.text, f"**{remark.word}**", remark.evidence]
        for remark in judged
        if remark.claim in claims
    ]
    return table(["the paper says", "here", "evidence"], rows)


def summary(judged: list[Remark], reasons: Mapping[str, str] | None = None) -> str:
    """How many sentences hold, and those that do not, with our reasons by claim."""
    words = ("agrees", "differs", "not shown", "no data")
    count = {word: sum(r.word == word for r in judged) for word in words}
    differing = [
        f"- {remark.text} *{remark.evidence}* {(reasons or {}).get(remark.claim, '')}".rstrip()
        for remark in judged
        if remark.word == "differs"
    ]
    head = (
        f"Of the paper's {len(judged)} statements, {count['agrees']} hold here, "
        f"{count['differs']} do not"
        + (f", {count['not shown']} cannot be shown" if count["not shown"] else "")
        + (f", {count['no data']} were not observed." if count["no data"] else ".")
    )
    if differing:
        head += " Where we differ:\n\n" + "\n".join(differing)
    return "## In short\n\n" + head


def setting(line: dict[str, Any], whole: int, structure: str, theirs: str) -> str:
    """Size, seed, structure, commit and machine of a run, beside the paper's machine."""
    machine = line["machine"]
    size = "the paper's size" if line["profiles"] == whole else f"the paper has {whole:,}"
    return (
        f"{line['profiles']:,} profiles ({size}), seed {line['seed']}, "
        f"structure {structure}, commit `{line['commit'][:12]}`, {line['at'][:10]}. "
        f"Machine: {machine['processor']}, {machine['cores']} cores, Python {machine['python']}, "
        f"numba {machine['numba']}; the paper's: {theirs}. Absolute numbers are not "
        "comparable across twenty years; shapes are."
    )


def agreement(n_wrong: int) -> str:
    """Whether the strategies gave the same answers."""
    if n_wrong:
        return f"**In {n_wrong} cells the answers of the strategies differed: do not trust them.**"
    return "All strategies gave the same answers to every message that they share."


def write_page(out: Path, sections: list[str]) -> Path:
    """Write the sections of a page to `index.md`."""
    path = Path(out) / "index.md"
    path.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    return path
