"""Starting a driver, talking to it, and killing it or its workers: only processes of its own."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults import TESTS

START_S = 600
ANSWER_S = 600
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Quick to start: a driver does not live long here."""


class Failed(Exception):
    """The stream stopped with an error."""


class Driver:
    """A process with a Spark of its own, in a process group of its own."""

    def __init__(
        self,
        scratch: Path,
        cores: int = 2,
        small_state: bool = True,
        **settings: Any,
    ) -> None:
        self.about = {"cores": cores, "small_state": small_state, **settings}
        scratch.mkdir(parents=True, exist_ok=True)
        self.log = scratch / "driver.log"
        self._order = scratch / "stand-still"
        root = TESTS.parent
        told = {
            "master": f"local[{cores},4]",
            "settings": {
                "spark.default.parallelism": 2,
                "spark.local.dir": str(scratch),
                "spark.driver.extraJavaOptions": f"{JAVA} -Djava.io.tmpdir={scratch}",
                "spark.python.daemon.module": "tests.faults.daemon",
                # Spark's own snapshots, and the end of old files, within seconds.
                "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
                "spark.sql.streaming.stateStore.minDeltasForSnapshot": 3,
                "spark.sql.streaming.minBatchesToRetain": 4,
                **settings,
            },
        }
        paths = [str(path) for path in (root / "src", TESTS, root)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.driver", json.dumps(told)],
                cwd=root,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(paths),
                    "GERMANE_SMALL_STATE": "1" if small_state else "",
                    "GERMANE_STAND_STILL": str(self._order),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._asked = True
        self.answer(START_S)

    # orders ----------------------------------------------------------------------------------

    def ask(self, do: str, **order: Any) -> None:
        """Give an order; ``answer`` waits for what came of it."""
        assert not self._asked
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self._process.stdin.flush()
        self._asked = True

    def answer(self, seconds: float = ANSWER_S) -> dict[str, Any]:
        """What came of the last order."""
        out = self._process.stdout
        assert out is not None
        if not select.select([out], [], [], seconds)[0]:
            raise TimeoutError(f"no answer from the driver in {seconds} s; its log is {self.log}")
        line = out.readline()
        if not line:
            raise Failed(f"the driver has ended; its last words: {self.log.read_text()[-2000:]}")
        self._asked = False
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def tell(self, do: str, **order: Any) -> dict[str, Any]:
        """Give an order, and wait."""
        self.ask(do, **order)
        return self.answer()

    # processes -------------------------------------------------------------------------------

    def workers(self) -> list[int]:
        """The Python workers of this driver."""
        return [worker for daemon in self.daemons() for worker in children(daemon)]

    def daemons(self) -> list[int]:
        """The processes that fork workers."""
        javas = [pid for pid in children(self._process.pid) if "java" in command(pid)]
        return [p for java in javas for p in children(java) if "faults.daemon" in command(p)]

    def at_work(self, seconds: float, go_on: Callable[[], bool]) -> list[int]:
        """The workers that are on a processor, as soon as there are any; none if it takes long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and go_on():
            daemons = self.daemons()  # looked for seldom: it takes a while
            for _ in range(50):
                busy = [worker for d in daemons for worker in children(d) if on_cpu(worker)]
                if busy:
                    return busy
                time.sleep(0.002)
        return []

    def order_still(self, where: str) -> None:
        """Ask a worker to stand still in its next task: "before" it plays events, or "after"."""
        written = self._order.with_suffix(".part")
        written.write_text(where)
        written.rename(self._order)

    def standing_still(self, seconds: float, go_on: Callable[[], bool]) -> list[int]:
        """The worker that follows the order, as soon as one does; none if it takes long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and go_on():
            for taken in self._order.parent.glob(f"{self._order.name}.[0-9]*"):
                return [int(taken.suffix[1:])]
            time.sleep(0.002)
        return []

    def end_order(self) -> None:
        """Nobody need stand still any longer."""
        for order in self._order.parent.glob(f"{self._order.name}*"):
            order.unlink(missing_ok=True)

    def n_lost_tasks(self) -> int:
        """How many attempts at tasks have failed so far."""
        return self.log.read_text(errors="replace").count("ERROR Executor: Exception in task")

    def kill(self) -> None:
        """The whole process, Spark and Python, at once and without warning."""
        mine = self._descendants()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        end = time.monotonic() + 5
        while any(alive(*one) for one in mine) and time.monotonic() < end:
            time.sleep(0.01)
        for pid, born in mine:  # daemons have groups of their own
            if alive(pid, born):
                kill(pid)

    def close(self) -> None:
        """End in peace, or else."""
        if self._process.poll() is None and not self._asked:
            assert self._process.stdin is not None
            mine = self._descendants()
            self._process.stdin.close()
            try:
                self._process.wait(30)
                for pid, born in mine:
                    if alive(pid, born):
                        kill(pid)
                return
            except subprocess.TimeoutExpired:
                pass
        if self._process.poll() is None:
            self.kill()

    def _descendants(self) -> list[tuple[int, str]]:
        found, left = [], [self._process.pid]
        while left:
            pid = left.pop()
            left += children(pid)
            found.append((pid, born(pid)))
        return found


def children(pid: int) -> list[int]:
    """The living children of a process."""
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    except OSError:  # it has ended
        pass
    return found


def command(pid: int) -> str:
    """The command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def on_cpu(pid: int) -> bool:
    """Whether a process is running right now, rather than waiting for something."""
    return _stat(pid)[:1] == ["R"]


def born(pid: int) -> str:
    """When a process began: with its number, this tells it from any other."""
    return "".join(_stat(pid)[19:20])


def alive(pid: int, since: str) -> bool:
    """Whether this very process is there, and not merely waiting to be buried."""
    state = _stat(pid)
    return bool(state) and state[0] != "Z" and state[19] == since


def kill(pid: int) -> bool:
    """Whether there was something to kill."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _stat(pid: int) -> list[str]:
    """The fields of /proc/pid/stat after the name: state first, time of birth at 19."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
