"""Who is reached by an address, of a million contexts: germane against a vectorised scan.

    python -m benchmarks.recipients

Both get the same addresses in turn and return the same sorted list of ids; NumPy's scan is written
by hand for each address, on columns of float64 (classes as small integers, their verdicts looked up
in a table). In the second half, both also take a million updates a second: whenever a thousand are
due by the clock, they are stored before the next address is answered, in either's own time. The
clock is the processor's: both compute and never wait. Every address is kept compiled in germane, as
repeated ones are; what a first sight costs is told beside.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
from rich.table import Table

import germane

from . import record
from .rounds import Bar, Contestant, compete, console, ratio, show_bars

LINKS = [("person", "student"), ("student", "phd"), ("student", "freshman"), ("person", "staff"),
         ("staff", "professor"), ("person", "guest")]  # fmt: skip
CLASSES = ["person", "student", "phd", "freshman", "staff", "professor", "guest"]
STUDENTS = np.isin(CLASSES, ["student", "phd", "freshman"])
DUE = 1000  # updates that are stored together
RATE = 1_000_000  # updates a second

# By name: whether it is selective, the address, and NumPy's scan of the same.
CASES: dict[str, tuple[bool, str, Any]] = {
    "the paper's": (
        True,
        "class WITHIN 'student' AND age BETWEEN 15 AND 35 "
        "AND location IN BOX(48.0, 9.0, 48.4, 9.2)",
        lambda c: STUDENTS[c.kinds] & (c.age >= 15) & (c.age <= 35) & c.box(48.0, 9.0, 48.4, 9.2),
    ),
    "a box": (
        True,
        "location IN BOX(48.0, 9.0, 49.0, 10.0)",
        lambda c: c.box(48.0, 9.0, 49.0, 10.0),
    ),
    "antimeridian": (
        True,
        "location IN BOX(-20, 179.9, -10, -179.9) AND fare < 500",
        lambda c: (c.box(-20, 179.9, -10, 180) | c.box(-20, -180, -10, -179.9)) & (c.fare < 500),
    ),
    "two intervals": (
        True,
        "fare BETWEEN 500 AND 500.1 AND age > 40",
        lambda c: (c.fare >= 500) & (c.fare <= 500.1) & (c.age > 40),
    ),
    "one interval": (
        True,
        "fare BETWEEN 500 AND 500.05",
        lambda c: (c.fare >= 500) & (c.fare <= 500.05),
    ),
    "1 in 100": (False, "fare < 10", lambda c: c.fare < 10),
    "1 in 30": (False, "fare < 33 AND age > 0", lambda c: (c.fare < 33) & (c.age > 0)),
    "1 in 10": (False, "fare < 100", lambda c: c.fare < 100),
    "half": (False, "fare < 500", lambda c: c.fare < 500),
    "most": (False, "age > 20 AND fare < 900", lambda c: (c.age > 20) & (c.fare < 900)),
    "students": (
        False,
        "class WITHIN 'student' AND age > 20",
        lambda c: STUDENTS[c.kinds] & (c.age > 20),
    ),
    "either": (
        False,
        "fare < 100 OR fare > 900 OR age <> 40",
        lambda c: (c.fare < 100) | (c.fare > 900) | (c.age != 40),
    ),
    "half the world": (
        False,
        "age < 30 AND fare > 300 AND location IN BOX(-60, -180, 70, 0)",
        lambda c: (c.age < 30) & (c.fare > 300) & c.box(-60, -180, 70, 0),
    ),
}


class Columns:
    """The contexts as a user of NumPy would keep them."""

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self.ids = np.arange(n)
        self.latitude, self.longitude = rng.uniform(-60, 70, n), rng.uniform(-180, 180, n)
        self.age = rng.normal(40, 15, n).round().clip(0, 100)
        self.fare = rng.uniform(0, 1000, n)
        self.kinds = rng.integers(0, len(CLASSES), n).astype(np.int32)

    def box(self, south: float, west: float, north: float, east: float) -> np.ndarray:
        return (
            (self.latitude >= south)
            & (self.latitude <= north)
            & (self.longitude >= west)
            & (self.longitude <= east)
        )

    def update(self, rows: np.ndarray, attribute: str, values: np.ndarray) -> None:
        if attribute == "location":
            self.latitude[rows], self.longitude[rows] = values[:, 0], values[:, 1]
        else:
            getattr(self, attribute)[rows] = values


class Stream:
    """The same updates for everybody, each at its own place in them."""

    def __init__(self, n: int) -> None:
        rng = np.random.default_rng(7)
        self.rows = [rng.integers(0, n, DUE) for _ in range(300)]
        draw = (
            ("fare", lambda: rng.uniform(0, 1000, DUE)),
            ("age", lambda: rng.normal(40, 15, DUE).round().clip(0, 100)),
            ("location", lambda: rng.uniform((-60, -180), (70, 180), (DUE, 2))),
        )
        self.what = [(draw[i % 3][0], draw[i % 3][1]()) for i in range(300)]

    def batch(self, number: int) -> tuple[np.ndarray, str, np.ndarray]:
        return (self.rows[number % 300], *self.what[number % 300])


class Rival:
    """Answers addresses, and keeps up with updates by the clock where asked to."""

    def __init__(self, stream: Stream, answer: Any, update: Any) -> None:
        self.stream, self.answer, self.update = stream, answer, update
        self.done = 0  # batches of updates

    def work(self, case: str, paced: bool) -> Any:
        def run(n: int) -> None:
            begin, before = time.process_time(), self.done
            for _ in range(n):
                self.answer(case)
                if paced:
                    due = (time.process_time() - begin) * RATE
                    for _ in range(int(due // DUE) - (self.done - before)):
                        self.advance()

        return run

    def advance(self) -> None:
        self.update(*self.stream.batch(self.done))
        self.done += 1


def rivals(n: int) -> tuple[germane.Filter, Rival, Rival]:
    columns = Columns(n, np.random.default_rng(1))
    f = germane.Filter(graphs={"class": germane.ContentGraph.from_edges(LINKS)})
    places = np.stack([columns.latitude, columns.longitude], 1)
    f.update_many(columns.ids, "location", places)
    f.update_many(columns.ids, "age", columns.age)
    f.update_many(columns.ids, "fare", columns.fare)
    f.update_many(columns.ids, "class", [CLASSES[kind] for kind in columns.kinds.tolist()])
    stream = Stream(n)
    ours = Rival(stream, lambda case: f.recipients(CASES[case][1]), f.update_many)
    theirs = Rival(
        stream, lambda case: columns.ids[CASES[case][2](columns)].tolist(), columns.update
    )
    return f, ours, theirs


def agree(ours: Rival, theirs: Rival) -> bool:
    """Whether all answers are equal once both have seen the same updates."""
    last = max(ours.done, theirs.done)
    for rival in (ours, theirs):
        while rival.done < last:
            rival.advance()
    return all(ours.answer(case) == theirs.answer(case) for case in CASES)


def first_sight(f: germane.Filter) -> float:
    """Microseconds for a selective address that was never seen before."""
    took = []
    for i in range(200):
        address = CASES["the paper's"][1].replace("9.2)", f"9.{2000 + i})")
        begin = time.process_time()
        f.recipients(address)
        took.append(time.process_time() - begin)
    return statistics.median(took) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--turn", type=float, default=0.15, help="seconds of a turn")
    chosen = parser.parse_args()
    f, ours, theirs = rivals(chosen.contexts)
    alike = agree(ours, theirs)
    observed: dict[str, Any] = {"cases": {}}
    table = Table("address", "reached", "µs", "NumPy, µs", "×", "µs, updates", "NumPy", "×")
    for case, (selective, *_) in CASES.items():
        line: dict[str, Any] = {"selective": selective, "reached": len(ours.answer(case))}
        for name, paced in (("still", False), ("updated", True)):
            pair = [
                Contestant("germane", ours.work(case, paced)),
                Contestant("numpy", theirs.work(case, paced)),
            ]
            compete(pair, chosen.rounds, chosen.turn, time.process_time)
            alike &= agree(ours, theirs)
            line[name] = {c.name: c.rates() for c in pair}
            line[f"{name}_ratio"] = ratio(pair[0].rates(), pair[1].rates())
        observed["cases"][case] = line
        cells = [
            cell
            for name in ("still", "updated")
            for cell in (
                *(f"{1e6 / statistics.median(r):,.0f}" for r in line[name].values()),
                f"{line[f'{name}_ratio']:,.2f}",
            )
        ]
        table.add_row(case, f"{line['reached']:,}", *cells)
    console.print(table)
    observed |= {"answers_agree": alike, "first_sight_us": first_sight(f)}
    observed["plans"] = f.stats()["addresses"]
    console.print(f"answers agree: {alike}; never seen before: {observed['first_sight_us']:.0f} µs")
    lines = observed["cases"].values()
    bars = [
        Bar(
            f"{text} addresses, least of {n}, {when}",
            min(line[f"{name}_ratio"] for line in lines if line["selective"] == selective),
            wanted,
        )
        for text, selective, wanted in (("selective", True, 50.0), ("unselective", False, 1.0))
        for n in [sum(line["selective"] == selective for line in lines)]
        for name, when in (("still", "no updates"), ("updated", "1,000,000 updates/s"))
    ]
    show_bars(bars)
    observed["bars"] = [bar.as_dict() for bar in bars]
    console.print(str(record.write("recipients", vars(chosen), observed)))


if __name__ == "__main__":
    main()
