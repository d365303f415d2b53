"""Run the cells and write raw observations; nothing here interprets them.

Cells with equal parameters but different strategies race side by side on one event sequence
(`benchmarks.lanes`). Every cell starts from a fresh, fully deescalated filter, as in AGILE §6.1:
filters are built once per strategy, saved, and loaded for each cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .. import engine
from ..lanes import Chunk, Lane, common_digest, race
from ..peers import ContextScan
from ..reproduction import Journal, Steps, as_scale, read_toml
from ..rounds import quiet
from ..workloads import Contextual, Events, table2

PLAIN = "PLAIN SCAN"  # not germane: what NOINDEX could be
HERE = Path(__file__).parent
VARIED = ("up", "upd_att", "delta_u", "policy")


def load_parameters(path: Path | None = None) -> dict[str, Any]:
    """The parameter file, as a dict."""
    return read_toml(path or HERE / "parameters.toml")


@dataclass(frozen=True)
class Point:
    """Parameters of a steady state, and the experiments that show it."""

    up: float
    upd_att: float
    delta_u: float
    policy: Any
    shown_in: tuple[str, ...]


def points(parameters: dict[str, Any]) -> list[Point]:
    """The steady states of Experiments 1 to 3, each once."""
    shown: dict[tuple[Any, ...], list[str]] = {}
    for name, experiment in parameters["experiments"].items():
        for value in experiment["values"]:
            at = experiment | {experiment["vary"]: value}
            shown.setdefault(tuple(at[key] for key in VARIED), []).append(name)
    return [Point(*key, shown_in=tuple(names)) for key, names in shown.items()]


class Bench:
    """One scale and structure: the workload, its budgets, and fresh filters."""

    def __init__(
        self, parameters: dict[str, Any], scale: float, seed: int, structure: str, share: float = 1
    ) -> None:
        budget = parameters["budget"]
        n_profiles = max(1_000, round(parameters["profiles"] * scale))
        self.parameters = parameters
        self.seed = seed
        self.structure = structure
        self.work: Contextual = table2(n_profiles, seed, parameters["context_bound"])
        self.cell_s = share * max(budget["least_seconds"], budget["cell_seconds"] * scale)
        self.warm_s = share * max(budget["least_seconds"], budget["warm_up_seconds"] * scale)
        self.burst_s = max(budget["least_burst_seconds"], budget["burst_seconds"] * scale)
        self.stable = engine.Stable()

    def fresh(self, index: str, policy: Any) -> Any:
        """A filter as after registration; only agile has a policy."""
        chosen = engine.options(
            index,
            policy if index == "agile" else None,
            self.structure if index != "scan" else None,
        )

        def build() -> Any:
            engine.rehearse(self.work, **chosen)
            return engine.contextual_filter(self.work, **chosen)

        return self.stable.fresh(f"{index} {policy if index == 'agile' else ''}", build)

    def head(self) -> dict[str, Any]:
        """What every line of this bench says about itself."""
        return {
            "profiles": self.work.n_profiles,
            "context_bound": self.parameters["context_bound"],
            "structure": self.structure,
            "seed": self.seed,
        }


def as_row(chunk: Chunk) -> list[float]:
    return [chunk.n_messages, chunk.n_updates, round(chunk.seconds, 6)]


def observe_point(bench: Bench, point: Point) -> Iterator[dict[str, Any]]:
    """All strategies at one steady state: warm-up, then alternating chunks; a line for each."""
    budget = bench.parameters["budget"]
    strategies = bench.parameters["strategies"]
    lanes = []
    for name, index in strategies.items():
        events = Events(bench.work, [(0, point.up)], point.upd_att, point.delta_u, bench.seed)
        lanes.append(Lane(name, bench.fresh(index, point.policy), events))
    events = Events(bench.work, [(0, point.up)], point.upd_att, point.delta_u, bench.seed)
    lanes.append(Lane(PLAIN, ContextScan(bench.work), events))
    warm = {lane.name: lane.warm_up(bench.warm_s, budget["warm_up_messages"]) for lane in lanes}
    most = -(-bench.parameters["messages_per_run"] // budget["rounds"])
    rates = race(lanes, bench.cell_s, most, budget["rounds"])
    n_common, word, agree = common_digest(lanes)
    for lane in lanes:
        yield {
            "strategy": lane.name,
            "index": strategies.get(lane.name),
            **asdict(point),
            "warm_up_messages": warm[lane.name],
            "chunks": [as_row(chunk) for chunk in lane.chunks],
            "round_rates": rates[lane.name],
            "counters": lane.observed(),
            "compared_messages": n_common,
            "digest": f"{word:016x}",
            "answers_agree": agree,
        }


def observe_burst(bench: Bench) -> Iterator[dict[str, Any]]:
    """Experiment 4: every strategy and policy through the burst, batch after batch in turn."""
    burst = bench.parameters["burst"]
    warm_up = bench.parameters["budget"]["warm_up_messages"]
    phases = [(warm_up, burst["warm_up_up"]), *(tuple(phase) for phase in burst["phases"])]
    entries: list[tuple[str, str, Any]] = []
    for name, index in bench.parameters["strategies"].items():
        policies = burst["policies"] if index == "agile" else [None]
        entries += [(name, index, policy) for policy in policies]
    lanes = []
    for name, index, policy in entries:
        events = Events(bench.work, phases, burst["upd_att"], burst["delta_u"], bench.seed)
        lanes.append(Lane(f"{name} {policy}", bench.fresh(index, policy), events))
    n_messages = sum(length for length, _ in burst["phases"])
    with quiet():
        warm = {lane.name: lane.warm_up(bench.burst_s, warm_up) for lane in lanes}
        for _ in range(n_messages // burst["batch"]):
            for lane in lanes:
                spent = sum(chunk.seconds for chunk in lane.chunks)
                if warm[lane.name] == warm_up and spent < bench.burst_s:
                    lane.chunks.append(exactly(lane, burst["batch"]))
    n_common, word, agree = common_digest(lanes)
    for (name, index, policy), lane in zip(entries, lanes, strict=True):
        yield {
            "strategy": name,
            "index": index,
            "policy": policy,
            "phases": burst["phases"],
            "upd_att": burst["upd_att"],
            "delta_u": burst["delta_u"],
            "warm_up_messages": warm[lane.name],
            "complete": sum(chunk.n_messages for chunk in lane.chunks) >= n_messages,
            "chunks": [as_row(chunk) for chunk in lane.chunks],
            "counters": lane.observed(),
            "compared_messages": n_common,
            "digest": f"{word:016x}",
            "answers_agree": agree,
        }


def exactly(lane: Lane, n_messages: int) -> Chunk:
    """One batch of exactly so many messages, however many updates lie between them."""
    whole = Chunk(0, 0, 0.0)
    while whole.n_messages < n_messages:
        part = lane.advance(n_messages - whole.n_messages)
        whole = Chunk(
            whole.n_messages + part.n_messages,
            whole.n_updates + part.n_updates,
            whole.seconds + part.seconds,
        )
    return whole


def run(
    scale: float | None = None,
    out: Path = Path("out/agile"),
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
    journal = Journal(out, scale)
    steady = points(parameters)
    small = [p for p in steady if parameters["skiplist"]["experiment"] in p.shown_in]
    steps = Steps(progress, "AGILE", len(steady) + 1 + (len(small) if skiplist else 0) + 1)

    bench = Bench(parameters, scale, seed, parameters["structure"])
    try:
        _steady(journal, "steady", bench, steady, steps)
        steps.say("update burst")
        for line in observe_burst(bench):
            journal.write("burst", bench.head() | line)
        steps.done()
    finally:
        bench.stable.close()
    if skiplist:
        _skiplist(journal, parameters, scale, seed, small, steps)
    steps.say("page")
    page(Path(out), parameters=parameters)
    steps.done()


def _steady(journal: Journal, name: str, bench: Bench, chosen: list[Point], steps: Steps) -> None:
    for point in chosen:
        steps.say(f"{name}: UP {point.up:,}, UpdAtt {point.upd_att}, ΔU {point.delta_u:,}")
        for line in observe_point(bench, point):
            journal.write(name, bench.head() | line)
        steps.done()


def _skiplist(
    journal: Journal,
    parameters: dict[str, Any],
    scale: float,
    seed: int,
    chosen: list[Point],
    steps: Steps,
) -> None:
    own = parameters["skiplist"]
    smaller = max(scale * own["scale"], own["least_profiles"] / parameters["profiles"])
    bench = Bench(parameters, smaller, seed, own["structure"], own["budget_share"])
    try:
        _steady(journal, "skiplist", bench, chosen, steps)
    finally:
        bench.stable.close()
