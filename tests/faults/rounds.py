"""A round: a scene and the faults that it suffers, all drawn from one seed."""

import random
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.faults.faults import AT_ONCE, FAULTS
from tests.faults.play import Play
from tests.faults.process import Driver
from tests.faults.scenes import Scene

QUICK = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming."
    "checkpointing.FileSystemBasedCheckpointFileManager"
}
NO_REUSE = {"spark.python.worker.reuse": "false"}
OPTIONS: tuple[dict[str, Any], ...] = (
    *[{}] * 4,
    QUICK,
    QUICK,
    {"spark.python.factory.idleWorkerMaxPoolSize": 1},
    {"spark.sql.streaming.stateStore.maintenanceInterval": "60s"},
    NO_REUSE,
)
"""Settings that a driver may have: another way of writing checkpoints, few copies of shards, no
snapshots of Spark's, no copies."""


class Drivers:
    """One driver at a time, kept from round to round as long as nothing speaks against it."""

    def __init__(
        self,
        scratch: Path,
        small_state: bool = True,
        options: Sequence[dict[str, Any]] = OPTIONS,
    ) -> None:
        self.scratch, self.small_state = scratch, small_state
        self.options = options
        self.driver: Driver | None = None
        self.n_begun = 0

    def begin(self, pick: random.Random) -> Driver:
        """Another driver, with other cores and settings."""
        self.close()
        self.n_begun += 1
        self.driver = Driver(
            self.scratch / f"driver-{self.n_begun}",
            cores=pick.choice([1, 2, 3]),
            small_state=self.small_state,
            **pick.choice(self.options),
        )
        return self.driver

    def for_a_round(self, seed: int) -> Callable[[], Driver]:
        """The driver that is there when called first, then another for each call."""
        pick, n_calls = random.Random(f"drivers {seed}"), 0

        def begin() -> Driver:
            nonlocal n_calls
            n_calls += 1
            kept = self.driver if n_calls == 1 else None
            if kept is not None and kept.about.items() & NO_REUSE.items():
                kept = None  # slow: one round is enough
            return kept or self.begin(pick)

        return begin

    def close(self) -> None:
        """End it."""
        if self.driver is not None:
            self.driver.close()
        self.driver = None


def draw_round(seed: int, only: list[str] | None = None) -> tuple[Scene, list[str]]:
    """A scene and its faults."""
    pick = random.Random(f"round {seed}")
    names = only or list(FAULTS)
    faults = [pick.choice(names) for _ in range(pick.randint(1, 3))]
    n_parts = 2 + 2 * len(faults) + pick.randint(0, 1)
    chosen = {"sink": "function"} if "sink" in faults else {}
    return Scene.of(seed, n_parts=n_parts, **chosen), faults


def play_round(seed: int, drivers: Drivers, only: list[str] | None = None) -> dict[str, Any]:
    """One round: what was done, and what came of it."""
    scene, faults = draw_round(seed, only)
    start = time.monotonic()
    play = Play(scene, drivers.scratch / f"round-{seed}", drivers.for_a_round(seed))
    error = None
    try:
        suffer(play, faults, seed)
    except Exception:
        error = traceback.format_exc()
        drivers.close()  # whatever state it is in
    return {
        "seed": seed,
        "scene": scene.as_dict(),
        "faults": faults,
        "drivers": play.drivers,
        "counts": dict(sorted(play.counts.items())),
        "said": play.said,
        "seconds": round(time.monotonic() - start, 1),
        "error": error,
    }


def suffer(play: Play, faults: list[str], seed: int) -> None:
    """Play a scene to its end, with faults; raises what went wrong."""
    pick = random.Random(f"faults {seed}")
    play.start()
    if faults[0] not in AT_ONCE or pick.random() < 0.6:
        play.settle()
    for name in faults:
        FAULTS[name](play, pick)
        play.check()
    play.finish()
