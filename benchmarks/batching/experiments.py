"""Run the cells and write raw observations; nothing here interprets them.

Contestants at one batch size of one stream take turns (`contest`). Every strategy has a filter of
its own, which goes on learning from one batch size to the next; the many settings of groupings
share one, and set its batching before their turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import engine
from ..reproduction import Journal, Steps, as_scale, read_toml
from ..streams import stream
from .contest import Contestant, Player, agreement, contest, contestants

HERE = Path(__file__).parent
LEAST_PROFILES = 1_000
UNBATCHED = "Unbatched/PIx"


def load_parameters(path: Path | None = None) -> dict[str, Any]:
    """The parameter file, as a dict."""
    return read_toml(path or HERE / "parameters.toml")


class Budget:
    """Seconds and counts at a scale."""

    def __init__(self, parameters: dict[str, Any], scale: float) -> None:
        budget = parameters["budget"]
        scaled = {
            name: max(least, seconds * scale)
            for name, (least, seconds) in budget["seconds"].items()
        }
        self.cell_s: float = scaled["cell"]
        self.warm_up_s: float = scaled["warm_up"]
        self.longest_warm_up_s: float = scaled["longest_warm_up"]
        self.longest_s: float = scaled["longest_batch"]
        self.least_batches: int = budget["least_warm_up_batches"]
        self.warm_up_batches: int = budget["warm_up_batches"]
        self.warm_up_messages: int = budget["warm_up_messages"]
        self.rounds: int = budget["rounds"]
        self.unbatched_call: int = budget["unbatched_call"]
        self.stream_from: int = budget["stream_from"]
        self.n_checked: int = budget["checked_messages"]


class Bench:
    """One stream on one structure: its messages and its filters."""

    def __init__(
        self, parameters: dict[str, Any], scale: float, seed: int, name: str, structure: str
    ) -> None:
        self.budget = Budget(parameters, scale)
        self.seed = seed
        self.structure = structure
        self.work = stream(name, max(LEAST_PROFILES, round(parameters["profiles"] * scale)), seed)
        self.messages = self.work.messages(parameters["messages"], seed)
        self._stable = engine.Stable()
        self._filters: dict[str, Any] = {}
        self._arranged: dict[tuple[str, ...], np.ndarray] = {}
        self._rates: dict[str, float] = {}

    def filter_of(self, contestant: Contestant) -> Any:
        """The filter of a contestant: its own, but for settings of groupings."""
        key = "shared" if contestant.grouping else contestant.key
        if key not in self._filters:
            f = self._stable.fresh("built", self._build)
            f.batching = contestant.batching()
            self._filters[key] = f
        return self._filters[key]

    def _build(self) -> Any:
        f = engine.static_filter(self.work, index="agile", structure=self.structure)
        f.match_rows(self.arranged(f)[0])  # the first message builds the index, once for all copies
        return f

    def arranged(self, f: Any) -> np.ndarray:
        """The messages in the order of a filter's attributes."""
        order = tuple(f.attributes)
        if order not in self._arranged:
            self._arranged[order] = engine.arrange(f, self.messages, self.work.attributes)
        return self._arranged[order]

    def player(self, contestant: Contestant, batch_size: int) -> Player:
        """A contestant at a batch size, at the first message."""
        n = batch_size
        if contestant.strategy == "unbatched/pix":
            n = min(n, self.budget.unbatched_call)
        f = self.filter_of(contestant)
        messages = self.arranged(f)
        n = min(n, len(messages))
        streamed = n >= self.budget.stream_from
        # Who is new is expected to be as fast as messages one by one.
        singly = n / self._rates.get(UNBATCHED, float("inf"))
        warm = (self.expected_s(contestant, n) or singly) < self.budget.cell_s
        return Player(contestant, f, messages, n, self.budget.n_checked, streamed, warm)

    def expected_s(self, contestant: Contestant, n_batch: int) -> float:
        """Seconds of one batch, from the rate at the batch size before; 0 at the first."""
        rate = self._rates.get(contestant.key)
        return n_batch / rate if rate else 0.0

    def warm_up(self, player: Player) -> None:
        """Let a contestant that tunes itself do so at this batch size."""
        budget = self.budget
        if player.contestant.tuned:
            most = max(budget.warm_up_batches, budget.warm_up_messages // player.n_batch)
            player.play(budget.warm_up_s, budget.least_batches, most, budget.longest_warm_up_s)
            player.forget()

    def remember(self, player: Player) -> None:
        n = sum(turn.n_messages for turn in player.turns)
        self._rates[player.contestant.key] = n / player.spent

    def head(self) -> dict[str, Any]:
        """What every line of this bench says about itself."""
        return {
            "stream": self.work.name,
            "profiles": self.work.n_profiles,
            "structure": self.structure,
            "seed": self.seed,
        }

    def close(self) -> None:
        self._filters.clear()
        self._stable.close()


def observe(
    bench: Bench, entrants: list[Contestant], batch_size: int, experiment: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """One batch size: warm-ups, then turns; a line for every contestant."""
    players, too_slow = [], []
    for contestant in entrants:
        player = bench.player(contestant, batch_size)
        slow = bench.expected_s(contestant, player.n_batch) > bench.budget.longest_s
        (too_slow if slow else players).append(player)
    for player in players:
        bench.warm_up(player)
    cell_s = experiment.get("cell_share", 1.0) * bench.budget.cell_s
    contest(players, cell_s, experiment.get("rounds", bench.budget.rounds))
    n_compared, word, agree = agreement(players)
    for player in players:
        bench.remember(player)
        yield describe(player, batch_size) | {
            "turns": [turn.as_row() for turn in player.turns],
            "stage_ns": player.stage_ns,
            "counters": player.counters,
            "decided": player.decided,
            "compared_messages": n_compared,
            "digest": f"{word:016x}",
            "answers_agree": agree,
        }
    for player in too_slow:
        expected = round(bench.expected_s(player.contestant, player.n_batch), 1)
        yield describe(player, batch_size) | {"turns": [], "expected_batch_s": expected}


def describe(player: Player, batch_size: int) -> dict[str, Any]:
    contestant = player.contestant
    return {
        "contestant": contestant.name,
        "strategy": contestant.strategy,
        "grouping": contestant.grouping,
        "batch_size": batch_size,
        "call": player.n_batch,
    }


def rehearse(parameters: dict[str, Any], seed: int, name: str, structure: str) -> None:
    """Compile (or load from the cache) what a run will need, on throw-away filters."""
    bench = Bench(parameters | {"messages": 500}, 1e-9, seed, name, structure)
    try:
        for entries in parameters["contestants"].values():
            for contestant in contestants(entries):
                for batch_size in (1, 150):
                    bench.player(contestant, batch_size).play(0.0)
    finally:
        bench.close()


def run(
    scale: float | None = None,
    out: Path = Path("out/batching"),
    seed: int = 1,
    progress: Any = None,
    *,
    parameters: dict[str, Any] | None = None,
    skiplist: bool = True,
) -> None:
    """Run all experiments at a scale (default: about ten minutes), then draw the page.

    `progress` is a rich `Progress` or None.
    """
    from .page import page

    parameters = parameters or load_parameters()
    scale = as_scale(scale, parameters)
    chosen = [e for e in parameters["experiments"] if skiplist or e["structure"] != "skiplist"]
    benches = list(
        dict.fromkeys((e["structure"], name) for e in chosen for name in e["batch_sizes"])
    )
    n_points = sum(len(sizes) for e in chosen for sizes in e["batch_sizes"].values())
    steps = Steps(progress, "Batching", n_points + len(benches) + 1)
    journal = Journal(out, scale)
    for structure, name in benches:
        steps.say(f"{structure} {name}: build")
        rehearse(parameters, seed, name, structure)
        bench = Bench(parameters, scale, seed, name, structure)
        steps.done()
        try:
            for experiment in chosen:
                if experiment["structure"] == structure and name in experiment["batch_sizes"]:
                    _experiment(journal, parameters, bench, experiment, steps)
        finally:
            bench.close()
    steps.say("page")
    page(Path(out), parameters=parameters)
    steps.done()


def _experiment(
    journal: Journal,
    parameters: dict[str, Any],
    bench: Bench,
    experiment: dict[str, Any],
    steps: Steps,
) -> None:
    """All batch sizes of an experiment on one bench."""
    entrants = contestants(parameters["contestants"][experiment["name"]])
    for batch_size in experiment["batch_sizes"][bench.work.name]:
        steps.say(
            f"{bench.structure} {bench.work.name} {experiment['name']}: batches of {batch_size:,}"
        )
        present = [c for c in entrants if c.enters(batch_size)]
        for line in observe(bench, present, batch_size, experiment):
            journal.write(experiment["name"], bench.head() | line)
        steps.done()
