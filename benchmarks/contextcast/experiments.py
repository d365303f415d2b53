"""Run the simulation and write raw observations; nothing here interprets them.

A run is a pure function of its setting, so runs go to as many processes as there are cores to
spare, and in the order in which they end they are written.
"""

from __future__ import annotations

import time
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from germane.cast import Network

from ..reproduction import Journal, Steps, as_scale, read_toml
from .world import Life, World

HERE = Path(__file__).parent
COUNTED = ("u", "u_a", "operations", "sent", "hops", "m_fp", "false_negatives", "delivered")


def load_parameters(path: Path | None = None) -> dict[str, Any]:
    """The parameter file, as a dict."""
    return read_toml(path or HERE / "parameters.toml")


def settings(parameters: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """Scenario, threshold and seed of every run; a figure's cells fill up evenly."""
    return [
        {"scenario": scenario, "threshold": threshold, "seed": seed + i}
        for i in range(parameters["seeds"])
        for scenario in parameters["scenarios"]
        for threshold in parameters["thresholds"]
    ]


def simulate(parameters: dict[str, Any], scale: float, setting: dict[str, Any]) -> dict[str, Any]:
    """One run; counters by window of cycles, from the first cycle on."""
    begin = time.perf_counter()
    seed, rates = setting["seed"], parameters["scenarios"][setting["scenario"]]
    world = World(parameters, max(4, round(parameters["routers"] * scale)), seed)
    life = Life(world, [seed, 1, rates["messages"], rates["updates"]])
    space = world.space()
    access = [router in world.area for router in range(len(world.parents))]
    network = Network(space, world.parents.tolist(), access, setting["threshold"])
    n_contexts = parameters["world"]["contexts_per_access"] * len(world.access)

    def tell(user: int) -> None:
        found = life.context(user)
        if found is None:
            network.update(user, None)
        else:
            network.update(user, space.encode(found[1]), found[0])

    cycles, entering = parameters["cycles"], parameters["cycles"]["entering"]
    window = max(1, round(cycles["window"] * scale))
    windows: dict[str, list[int]] = {name: [] for name in COUNTED}
    before = dict.fromkeys(COUNTED, 0)
    entered_at = None
    for cycle in range(max(10, round(cycles["all"] * scale))):
        if len(life.users) < n_contexts and entered_at is None:
            for _ in range(min(entering, n_contexts - len(life.users))):
                tell(life.join())
        else:
            entered_at = cycle if entered_at is None else entered_at
            for _ in range(rates["updates"]):
                for user in life.update():
                    tell(user)
            for _ in range(rates["messages"]):
                network.send(*life.message(space))
        if (cycle + 1) % window == 0:
            now = {name: getattr(network.counters, name) for name in COUNTED}
            for name in COUNTED:
                windows[name].append(now[name] - before[name])
            before = now
    n_links = int((network.wires.back >= 0).sum())
    return setting | {
        "profiles": len(life.users),
        "routers": len(network),
        "cycles": cycle + 1,
        "window": window,
        "unmeasured": round(cycles["unmeasured"] * scale),
        "entered_at": entered_at,
        "links": n_links,
        "groups": int(network.groups.pool.counts[3]),
        "members": int(network.groups.pool.counts[2]),
        "windows": windows,
        "seconds": time.perf_counter() - begin,
    }


def run(
    scale: float | None = None,
    out: Path = Path("out/contextcast"),
    seed: int = 1,
    progress: Any = None,
    *,
    parameters: dict[str, Any] | None = None,
    parallel: bool = True,
) -> None:
    """Run all settings at a scale, then draw the page.

    `progress` is a rich `Progress` or None; `parallel` uses two processes.
    """
    from .page import page

    parameters = parameters or load_parameters()
    scale = as_scale(scale, parameters)
    journal = Journal(out, scale)
    chosen = settings(parameters, seed)
    steps = Steps(progress, "Contextcast", len(chosen) + 1)
    pool = ProcessPoolExecutor(2, mp_context=get_context("spawn")) if parallel else nullcontext()
    with pool as executor:
        for line in _lines(executor, parameters, scale, chosen):
            journal.write("runs", line)
            steps.say(f"{line['scenario']}, {line['threshold']}, seed {line['seed']}")
            steps.done()
    steps.say("page")
    page(Path(out), parameters=parameters)
    steps.done()


def _lines(
    executor: Executor | None,
    parameters: dict[str, Any],
    scale: float,
    chosen: list[dict[str, Any]],
) -> Any:
    if executor is None:
        for setting in chosen:
            yield simulate(parameters, scale, setting)
        return
    futures = [executor.submit(simulate, parameters, scale, setting) for setting in chosen]
    for future in as_completed(futures):
        yield future.result()
