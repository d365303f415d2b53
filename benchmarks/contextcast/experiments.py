"""Run the simulation and write raw observations; nothing here interprets them.

A run is a pure function of its setting, so each is a Spark job of one task, two of them at a time,
and in the order in which they end they are written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from germane.cast import Network, Tuning

from ..reproduction import Journal, Steps, as_scale, read_lines, read_toml
from .world import Life, World

HERE = Path(__file__).parent
FILES = ("runs", "beyond")
"""Runs of the paper, and of what goes beyond it."""
COUNTED = ("u", "u_a", "operations", "sent", "hops", "m_fp", "false_negatives", "delivered",
           "feedback")  # fmt: skip


def load_parameters(path: Path | None = None) -> dict[str, Any]:
    """The parameter file, as a dict."""
    return read_toml(path or HERE / "parameters.toml")


def settings(parameters: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """Scenario, threshold or tuning, and seed of every run; a figure's cells fill up evenly."""
    fixed = [{"threshold": threshold} for threshold in parameters["thresholds"]]
    return [
        {"scenario": scenario, "seed": seed + i} | kind
        for i in range(parameters["seeds"])
        for scenario in parameters["scenarios"]
        for kind in [*fixed, *parameters["beyond"]]
    ]


def is_done(setting: dict[str, Any], scale: float, done: list[dict[str, Any]]) -> bool:
    """Whether there is a line of a run."""
    wanted = setting | {"scale": scale}
    return any(
        wanted.items() <= line.items() and ("name" in wanted) == ("name" in line) for line in done
    )


def simulate(parameters: dict[str, Any], scale: float, setting: dict[str, Any]) -> dict[str, Any]:
    """One run; counters by window of cycles, from the first cycle on."""
    begin, begin_cpu = time.perf_counter(), time.process_time()
    seed, rates = setting["seed"], parameters["scenarios"][setting["scenario"]]
    world = World(parameters, max(4, round(parameters["routers"] * scale)), seed)
    stream = [seed, 1, rates["messages"], rates["updates"]]
    n_contexts = parameters["world"]["contexts_per_access"] * len(world.access)
    space = world.space(entering(world, stream, n_contexts).seen())
    life = Life(world, stream)
    access = [router in world.area for router in range(len(world.parents))]
    tuning = Tuning(**setting["tuning"]) if "tuning" in setting else None
    network = Network(space, world.parents.tolist(), access, setting["threshold"], tuning)

    def tell(user: int) -> None:
        found = life.context(user)
        if found is None:
            network.update(user, None)
        else:
            network.update(user, space.encode(found[1]), found[0])

    cycles, at_once = parameters["cycles"], parameters["cycles"]["entering"]
    window = max(1, round(cycles["window"] * scale))
    windows: dict[str, list[int]] = {name: [] for name in COUNTED}
    before = dict.fromkeys(COUNTED, 0)
    entered_at = None
    for cycle in range(max(10, round(cycles["all"] * scale))):
        if len(life.users) < n_contexts and entered_at is None:
            for _ in range(min(at_once, n_contexts - len(life.users))):
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
        "decided": network.stats() if tuning is not None else {},
        "seconds": time.perf_counter() - begin,
        "processor_seconds": time.process_time() - begin_cpu,
    }


def entering(world: World, stream: list[int], n_contexts: int) -> Life:
    """The users of a run once all have entered, drawn beforehand: distances need their range."""
    life = Life(world, stream)
    for _ in range(n_contexts):
        life.join()
    return life


def run(
    scale: float | None = None,
    out: Path = Path("out/contextcast"),
    seed: int = 1,
    progress: Any = None,
    *,
    parameters: dict[str, Any] | None = None,
    parallel: bool = True,
    resume: bool = False,
) -> None:
    """Run all settings at a scale, then draw the page.

    `progress` is a rich `Progress` or None; `parallel` runs on Spark, on all cores; `resume` goes
    on where an earlier run was broken off.
    """
    from .page import page

    parameters = parameters or load_parameters()
    scale = as_scale(scale, parameters)
    done = [line for name in FILES for line in read_lines(out, name)] if resume else []
    journal = Journal(out, scale, keep=resume)
    chosen = [s for s in settings(parameters, seed) if not is_done(s, scale, done)]
    steps = Steps(progress, "Contextcast", len(chosen) + 1)
    for line in (on_spark if parallel else one_by_one)(parameters, scale, chosen):
        journal.write(FILES["name" in line], line)
        steps.say(f"{line['scenario']}, {line['threshold']}, seed {line['seed']}")
        steps.done()
    steps.say("page")
    page(Path(out), parameters=parameters)
    steps.done()


Lines = Iterator[dict[str, Any]]


def one_by_one(parameters: dict[str, Any], scale: float, chosen: list[dict[str, Any]]) -> Lines:
    for setting in chosen:
        yield simulate(parameters, scale, setting)


def on_spark(parameters: dict[str, Any], scale: float, chosen: list[dict[str, Any]]) -> Lines:
    """As many runs at a time as Spark has cores, each a job of one task."""
    from germane.spark import session

    source_tree = str(HERE.parents[1])
    path = os.pathsep.join(filter(None, (source_tree, os.environ.get("PYTHONPATH"))))
    spark = session(settings={"spark.executorEnv.PYTHONPATH": path}).sparkContext

    def job(setting: dict[str, Any]) -> dict[str, Any]:
        lines = spark.parallelize([setting], 1).map(lambda s: simulate(parameters, scale, s))
        return lines.collect()[0]

    with ThreadPoolExecutor(spark.defaultParallelism) as waiting:
        jobs = [waiting.submit(job, setting) for setting in chosen]
        for done in as_completed(jobs):
            yield done.result()
