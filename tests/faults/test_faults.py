"""A few rounds of faults; ``python -m tests.faults`` plays as many as you like."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
if not Path("/proc/self/task").exists():
    pytest.skip("processes are found by /proc", allow_module_level=True)

from tests.faults import checkpoint
from tests.faults.play import Play
from tests.faults.rounds import QUICK, Drivers, suffer
from tests.faults.scenes import Scene

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]
TURNS = 4
ROUNDS = {
    "lost processes": (
        ["workers", "shards", "driver"],
        Scene(1, shards=3, together=False, form="json", sink="parquet", n_parts=6),
    ),
    "lost batches": (
        ["sink", "repeat", "state"],
        Scene(2, shards=2, together=True, form="parquet", sink="function", n_parts=5),
    ),
}
STRUCK = {
    "lost processes": ("tasks lost", "idle workers killed", "kills of the driver", "rebuilt"),
    "lost batches": ("sinks broken", "batches repeated", "damage refused"),
}


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    """One Spark for all rounds, apart from those that lose it."""
    made = Drivers(tmp_path_factory.mktemp("drivers"), options=[QUICK])
    yield made
    made.close()


@pytest.mark.parametrize("name", ROUNDS)
def test_a_round(drivers: Drivers, tmp_path: Path, name: str) -> None:
    """All faults have struck in the end: a kill may come between two tasks, and is tried again."""
    faults, scene = ROUNDS[name]
    counts: Counter[str] = Counter()
    for turn in range(TURNS):
        again = replace(scene, seed=scene.seed + 100 * turn)
        play = Play(again, tmp_path / f"play{turn}", drivers.for_a_round(again.seed))
        suffer(play, faults, again.seed)
        counts.update(play.counts)
        if all(counts[what] for what in STRUCK[name]):
            return
    raise AssertionError(counts)


def test_what_waited_goes_on_after_a_restart(drivers: Drivers, tmp_path: Path) -> None:
    """The stream ends when events wait for other inputs; started again, nothing new comes."""
    scene = Scene(4, shards=2, together=False, form="parquet", sink="parquet", n_parts=2)
    play = Play(scene, tmp_path / "play", drivers.for_a_round(scene.seed))
    play.publish()
    play.start(**{"spark.sql.streaming.noDataMicroBatches.enabled": "false"})  # as if it had died
    play.settle()
    play.stop()
    assert checkpoint.committed(play.root) == 0
    play.start()
    play.finish()
