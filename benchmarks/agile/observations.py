"""Raw lines in, figures of the paper out: throughput, completion time, counts per 10,000."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..reproduction import read_lines

STRATEGIES = ("NOINDEX", "EAGER", "GBU", "AGILE")


@dataclass(frozen=True)
class Cell:
    """One observed line, with the numbers that the paper reports."""

    line: dict[str, Any]

    @property
    def n_messages(self) -> int:
        return int(sum(chunk[0] for chunk in self.line["chunks"]))

    @property
    def seconds(self) -> float:
        return float(sum(chunk[2] for chunk in self.line["chunks"]))

    @property
    def throughput(self) -> float:
        """Messages a second over everything timed."""
        return self.n_messages / self.seconds

    @property
    def completion_s(self) -> float:
        """Seconds for 10,000 messages, extrapolated where fewer were run."""
        return 10_000 / self.throughput

    @property
    def postfiltered(self) -> float:
        """Profiles tested one by one for 10,000 messages, in millions: candidates of an index
        and rows that no index holds."""
        counters = self.line["counters"]
        tested = counters["postfiltered"] + counters.get("swept", 0)
        return float(tested) / self.n_messages * 10_000 / 1e6

    def millions(self, counter: str) -> float:
        """A counter for 10,000 messages, in millions."""
        return float(self.line["counters"][counter]) / self.n_messages * 10_000 / 1e6


@dataclass(frozen=True)
class Observations:
    """All cells of a run."""

    steady: list[Cell]
    burst: list[Cell]
    skiplist: list[Cell]

    @property
    def first(self) -> dict[str, Any]:
        """A line to take the run's own description from."""
        return (self.steady + self.burst + self.skiplist)[0].line

    def series(
        self, experiment: dict[str, Any], name: str, source: str = "steady"
    ) -> dict[str, list[Cell | None]]:
        """Cells of an experiment by strategy, in the order of its values."""
        found: dict[str, list[Cell | None]] = {}
        for strategy in (*STRATEGIES, "PLAIN SCAN"):
            by_value = {
                cell.line[experiment["vary"]]: cell
                for cell in getattr(self, source)
                if name in cell.line["shown_in"] and cell.line["strategy"] == strategy
            }
            found[strategy] = [by_value.get(value) for value in experiment["values"]]
        return found

    def burst_of(self, strategy: str, policy: Any = None) -> Cell | None:
        """The run of a strategy through the burst, unless its warm-up used up the budget."""
        for cell in self.burst:
            if (
                cell.n_messages
                and cell.line["strategy"] == strategy
                and cell.line["policy"] == policy
            ):
                return cell
        return None

    def disagreements(self) -> list[Cell]:
        """Cells whose answers differed from those of their rivals: there must be none."""
        cells = self.steady + self.burst + self.skiplist
        return [cell for cell in cells if not cell.line["answers_agree"]]


def load(out: Path) -> Observations:
    """Read `out/raw/*.jsonl`; a file that is missing is an experiment that was not run."""

    def lines(name: str) -> list[Cell]:
        return [Cell(line) for line in read_lines(out, name)]

    found = Observations(lines("steady"), lines("burst"), lines("skiplist"))
    if not (found.steady or found.burst or found.skiplist):
        raise FileNotFoundError(f"no observations under {out / 'raw'}; run the experiments first")
    return found


def batch_rates(cell: Cell) -> tuple[np.ndarray, np.ndarray]:
    """Throughput at different moments: message number at the end of a batch, messages/s."""
    chunks = np.array(cell.line["chunks"])
    return np.cumsum(chunks[:, 0]), chunks[:, 0] / chunks[:, 2]


def phase_rate(cell: Cell, phase: int) -> float | None:
    """Throughput inside one phase of the burst."""
    starts = np.cumsum([0] + [length for length, _ in cell.line["phases"]])
    ends, _ = batch_rates(cell)
    chunks = np.array(cell.line["chunks"])
    inside = (ends > starts[phase]) & (ends <= starts[phase + 1])
    if not inside.any():
        return None
    return float(chunks[inside, 0].sum() / chunks[inside, 2].sum())
