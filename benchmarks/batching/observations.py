"""Raw lines in, figures of the paper out: throughput, speed-up, seconds by stage."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..reproduction import NoData, read_lines
from .contest import STAGES
from .latency import Speeds

UNBATCHED = "Unbatched/PIx"
STRUCTURES = ("blocks", "skiplist")
EXPERIMENTS = ("strategies", "grouping", "sensitivity")


@dataclass(frozen=True)
class Cell:
    """One observed line, with the numbers that the paper reports."""

    line: dict[str, Any]

    @property
    def ran(self) -> bool:
        return bool(self.line["turns"])

    @property
    def n_messages(self) -> int:
        return int(sum(turn[0] for turn in self.line["turns"]))

    @property
    def seconds(self) -> float:
        return float(sum(turn[2] for turn in self.line["turns"]))

    @property
    def rates(self) -> list[float]:
        """Messages a second in every turn."""
        return [turn[0] / turn[2] for turn in self.line["turns"]]

    @property
    def throughput(self) -> float:
        """Messages a second, median of the turns."""
        return statistics.median(self.rates)

    @property
    def minibatch(self) -> float:
        """Messages in a minibatch, on the average."""
        counters = self.line["counters"]
        return float(counters["messages"] / max(1, counters["minibatches"]))

    @property
    def setting(self) -> str:
        """The grouping as the parameters write it: a size, or widths."""
        (value,) = (self.line["grouping"] or {"": "tuned"}).values()
        return "; ".join(f"{width:,}" for width in value) if isinstance(value, list) else f"{value}"

    def stage_s(self, stage: str, n_messages: int) -> float:
        """Seconds in a stage for so many messages."""
        return float(self.line["stage_ns"][stage]) / 1e9 / self.n_messages * n_messages

    def rest_s(self, n_messages: int) -> float:
        """Seconds in no stage: reading messages, Python."""
        inside = sum(self.stage_s(stage, n_messages) for stage in STAGES)
        return max(0.0, self.seconds / self.n_messages * n_messages - inside)


@dataclass(frozen=True)
class Observations:
    """All cells of a run, by experiment."""

    cells: dict[str, list[Cell]]

    @property
    def first(self) -> dict[str, Any]:
        """A line to take the run's own description from."""
        return next(cell.line for cells in self.cells.values() for cell in cells)

    def disagreements(self) -> list[Cell]:
        """Cells whose answers differed from those of their rivals: there must be none."""
        everything = [cell for cells in self.cells.values() for cell in cells]
        return [cell for cell in everything if not cell.line.get("answers_agree", True)]

    def of(self, experiment: str, structure: str, stream: str) -> list[Cell]:
        """The cells of an experiment on one structure and stream."""
        return [
            cell
            for cell in self.cells[experiment]
            if (cell.line["structure"], cell.line["stream"]) == (structure, stream)
        ]


def load(out: Path) -> Observations:
    """Read `out/raw/*.jsonl`; a file that is missing is an experiment that was not run."""
    cells = {name: [Cell(line) for line in read_lines(out, name)] for name in EXPERIMENTS}
    if not any(cells.values()):
        raise FileNotFoundError(f"no observations under {out / 'raw'}; run the experiments first")
    return Observations(cells)


@dataclass(frozen=True)
class Run:
    """Observations on one structure, with the parameters they were made with.

    What was not observed raises `NoData`.
    """

    seen: Observations
    parameters: dict[str, Any]
    structure: str

    def curve(self, stream: str, contestant: str) -> dict[int, Cell]:
        """Cells that ran by batch size: a curve of Figures 6 and 7."""
        return {
            cell.line["batch_size"]: cell
            for cell in self.seen.of("strategies", self.structure, stream)
            if cell.line["contestant"] == contestant and cell.ran
        }

    def cell(self, stream: str, contestant: str, batch_size: int) -> Cell:
        return found(self.curve(stream, contestant).get(batch_size))

    def rate(self, stream: str, contestant: str, batch_size: int) -> float:
        return self.cell(stream, contestant, batch_size).throughput

    def sizes(self, stream: str) -> list[int]:
        """Batch sizes at which messages one by one were measured."""
        return found(sorted(self.curve(stream, UNBATCHED)))

    def speedup(self, stream: str, contestant: str, batch_size: int) -> float:
        """Over unbatched at the same batch size: the median of the ratios within a round."""
        ours = self.cell(stream, contestant, batch_size).rates
        theirs = self.cell(stream, UNBATCHED, batch_size).rates
        return statistics.median(a / b for a, b in zip(ours, theirs, strict=False))

    def speedups(self, stream: str, contestant: str) -> dict[int, float]:
        """By batch size, where both were measured."""
        both = self.curve(stream, contestant).keys() & self.curve(stream, UNBATCHED).keys()
        return found({n: self.speedup(stream, contestant, n) for n in sorted(both)})

    def settings(self, experiment: str, method: str, batch_size: int) -> list[Cell]:
        """A grouping with its settings at a batch size of RQ-Z, by size of the minibatches."""
        cells = [
            cell
            for cell in self.seen.of(experiment, self.structure, "RQ-Z")
            if cell.line["contestant"] == method
            and cell.line["batch_size"] == batch_size
            and cell.ran
        ]
        return found(sorted(cells, key=lambda cell: cell.minibatch))

    def best(self, method: str, batch_size: int) -> Cell:
        """The setting with which a grouping is fastest at a batch size: a point of Figure 8."""
        return max(self.settings("grouping", method, batch_size), key=lambda c: c.throughput)

    def grouped_sizes(self, experiment: str) -> list[int]:
        """Batch sizes of Figures 8 or 9."""
        cells = self.seen.of(experiment, self.structure, "RQ-Z")
        return found(sorted({cell.line["batch_size"] for cell in cells}))

    def speeds(self) -> Speeds:
        """RQ-Z by batch size, for §7: messages one by one, then the batched strategy.

        One by one is unbatched without the cost of a call for each message; batches are faster by
        the speed-ups of Table 4, so that what disturbed both in a round cancels out.
        """
        singly = [c.throughput for n, c in self.curve("RQ-Z", UNBATCHED).items() if n > 1]
        single = statistics.median(found(singly))
        batched = self.speedups("RQ-Z", self.parameters["latency"]["batched"])
        rates = {n: single * speedup for n, speedup in batched.items() if n > 1}
        return Speeds((1, *rates), (single, *rates.values()))


def found(value: Any) -> Any:
    """The value, unless there is none."""
    if not value:
        raise NoData
    return value
