"""A scene on its way: its files, its driver, its stream, and the comparison at the end."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults import checkpoint
from tests.faults.inputs import Publisher
from tests.faults.process import Driver, Failed
from tests.faults.scenes import Scene
from tests.faults.sinks import Row, dead_letters, delivered

MOST_STARTS = 6
"""A stream that fails more often in a row does not only suffer from what was done to it."""


OF_LOST_PROCESSES = (
    "Python worker exited unexpectedly",
    "EOFException",
    "SocketException",
    "Connection reset",
    "Broken pipe",
    "Python daemon failed",
)
"""How Spark says that a worker or their daemon is gone; all attempts at a task may be hit."""


class Wrong(AssertionError):
    """The sink does not hold what the oracle says."""


class Play:
    """A scene, played on a driver; ``begin`` brings another driver where one was killed."""

    def __init__(self, scene: Scene, root: Path, begin: Callable[..., Driver]) -> None:
        self.scene, self.root, self.begin = scene, root, begin
        self.drivers: list[dict[str, Any]] = []
        self.counts: Counter[str] = Counter()
        self.said: list[str] = []  # errors that had to be, in a line each
        self._driver: Driver | None = None
        self._settled: dict[str, Any] = {}
        self._left = scene.parts()
        self._publisher = Publisher(root, scene.together, scene.form)
        self._deliveries, self._letters = scene.expected()
        self.publish()

    @property
    def driver(self) -> Driver:
        """The driver that the stream runs on."""
        if self._driver is None:
            self.change_driver()
            assert self._driver is not None
        return self._driver

    def change_driver(self) -> None:
        """Go on with another driver."""
        self._driver = self.begin()
        self.drivers.append(self._driver.about)

    # the stream ------------------------------------------------------------------------------

    @property
    def n_left(self) -> int:
        """Parts that are not published."""
        return len(self._left)

    def publish(self) -> None:
        """One more part, if there is one."""
        if self._left:
            self._publisher.publish(self._left.pop(0))

    def start(self, **settings: str) -> None:
        """Start the stream, or start it again; the settings are for this time only."""
        self.counts["starts"] += 1
        scene = self.scene.as_dict()
        self.driver.tell("start", root=str(self.root), scene=scene, settings=settings)

    def settle(self) -> None:
        """Wait until all that is published has been taken; ``Failed`` if the stream fails."""
        self._settled = self.driver.tell("settle")

    def stop(self) -> None:
        """Stop the stream in peace, once it has settled."""
        self.counts.update(self._settled)
        self._settled = {}
        self.driver.tell("stop")

    def settle_somehow(self) -> None:
        """As ``settle``; a stream that fails since processes were lost is started again."""
        for _ in range(MOST_STARTS):
            try:
                self.settle()
            except Failed as error:
                self.forgive(error)
            else:
                return
        self.settle()

    def forgive(self, error: Failed) -> None:
        """Start again after a failure, if it came of a lost process; anything else is not right."""
        if not any(words in str(error) for words in OF_LOST_PROCESSES):
            raise error
        self.counts["failures"] += 1
        self.note(error)
        self.start()

    def note(self, error: Failed) -> None:
        """Keep the words of an error that had to be."""
        said = str(error).replace(str(self.root), "…")
        self.said.append(" ".join(said.split())[:300])

    # the answers -----------------------------------------------------------------------------

    def check(self) -> None:
        """Nothing that does not belong there, nothing twice."""
        for name, found, expected in self._found():
            wrong = Counter(found) - Counter(expected)
            if wrong:
                raise Wrong(f"{name} that should not be there: {sorted(wrong.items(), key=str)}")

    def finish(self) -> None:
        """Publish what is left; then everything is there, once."""
        self.settle_somehow()
        while self._left:
            self.publish()
            self.settle_somehow()
        self.stop()
        self.check()
        for name, found, expected in self._found():
            lost = Counter(expected) - Counter(found)
            if lost:
                raise Wrong(f"{name} lost: {sorted(lost.items(), key=str)}")
        self.counts["deliveries"] = len(self._deliveries)
        self.counts["dead letters"] = len(self._letters)
        self.counts["batches"] = checkpoint.committed(self.root) + 1
        shutil.rmtree(self.root, ignore_errors=True)  # Spark may still be tidying up

    def _found(self) -> list[tuple[str, list[Row], list[Row]]]:
        return [
            ("deliveries", delivered(self.root, self.scene.sink), self._deliveries),
            ("dead letters", dead_letters(self.root), self._letters),
        ]
