"""One installation of the service on this machine: started, asked, and killed in parts.

In: a folder, and which log. Out: answers of its HTTP API, its log as it is on disk, and dead
processes. Everything that is killed was started here: the supervisor's children, or the broker.
"""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from service_kit import free_port

from tests.faults import TESTS
from tests.faults.process import born, children, command, kill

UP_S = 300.0
CAUGHT_UP_S = 300.0
ANSWER_S = 120.0
"""So long a request may take: longer than the matcher lets a question wait."""
BATCH = {"Content-Type": "application/cloudevents-batch+json"}
JSON = {"Content-Type": "application/json"}


def nats_server() -> str | None:
    """The broker's program, if its package is installed."""
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


class Broker:
    """A NATS server with JetStream, whose data outlives it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, on what it had."""
        program = nats_server()
        assert program is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self.folder / "nats.conf"
        settings.write_text(
            f'listen: "127.0.0.1:{self.port}"\n'
            f'jetstream {{ store_dir: "{self.folder / "data"}", sync_interval: always }}\n'
        )
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [program, "-c", str(settings)], stdout=log, stderr=log, start_new_session=True
            )
        end = time.monotonic() + UP_S
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.02)
        raise TimeoutError("the broker does not listen")

    def kill(self) -> None:
        """End it without warning."""
        self.process.kill()
        self.process.wait()


def patiently(ask: Callable[[], Any], read: Callable[[Any], tuple[int, bytes]]) -> Any:
    """An answer that is not "the matcher is busy", a 503 that says: try again.

    The first time that it needs a kernel, the matcher compiles it, and does not answer meanwhile.
    Who is busy for ever is not forgiven.
    """
    end = time.monotonic() + CAUGHT_UP_S
    while True:
        answer = ask()
        status, said = read(answer)
        if status != 503 or b"the matcher is busy" not in said or time.monotonic() > end:
            return answer
        time.sleep(0.5)


class Refused(Exception):
    """The API answered, with an error."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"{status}: {body[:500]!r}")
        self.status = status


class Installation:
    """A running service."""

    def __init__(self, folder: Path, log: str = "sqlite", options: tuple[str, ...] = ()) -> None:
        from germane.service.settings import Settings
        from germane.service.supervisor import prepare

        self.folder, self.options = folder, options
        folder.mkdir(parents=True, exist_ok=True)
        self.broker = Broker(folder / "nats") if log == "nats" else None
        self.settings = Settings(
            data=str(folder / "data"),
            port=free_port(),
            log=self.broker.url if self.broker else "",
        )
        self.token = prepare(self.settings)
        self.output = folder / "output"
        self.start()

    def start(self) -> None:
        """Start the supervisor, and wait until it is ready."""
        root = TESTS.parent
        paths = os.environ.get("PYTHONPATH", os.pathsep.join((str(root / "src"), str(root))))
        s = self.settings
        order = ["serve", "--data", s.data, "--port", str(s.port), "--log", s.log, *self.options]
        with self.output.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "germane.cli", *order],
                env={**os.environ, "PYTHONPATH": paths}, cwd=root,
                stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until it takes events and matches them."""
        end = time.monotonic() + UP_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            with contextlib.suppress(OSError, http.client.HTTPException, Refused):
                if self.get("/ready").get("ready", True):
                    return
            time.sleep(0.05)
        said = self.output.read_text(errors="replace")[-3000:]
        raise TimeoutError(f"the service is not ready; it said {said}")

    def close(self) -> None:
        """End it in order."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(60)
        if self.process.poll() is None:
            for child in children(self.process.pid):
                kill(child)
            self.process.kill()
            self.process.wait()
        if self.broker is not None:
            self.broker.kill()

    # processes -----------------------------------------------------------------------------------

    def pid_of(self, role: str) -> int | None:
        """The process of a role, if it lives."""
        words = f"germane.service.processes {role}"
        found = [pid for pid in children(self.process.pid) if words in command(pid)]
        return found[0] if found else None

    def worker(self) -> int | None:
        """A worker of the matcher on Spark, if there is one."""
        matcher = self.pid_of("matcher")
        javas = [pid for pid in children(matcher) if "java" in command(pid)] if matcher else []
        daemons = [p for java in javas for p in children(java) if "spark.daemon" in command(p)]
        workers = [worker for daemon in daemons for worker in children(daemon)]
        return max(workers, default=None)

    def kill(self, role: str) -> bool:
        """Kill a part of it; the broker comes back by itself no more than a machine does."""
        if role == "broker":
            assert self.broker is not None
            self.broker.kill()
            return True
        pid = self.worker() if role == "shard" else self.pid_of(role)
        if pid is None:
            return False
        since = born(pid)
        return bool(since) and kill(pid)

    # HTTP ----------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: Any = None, kind: dict[str, str] = JSON) -> Any:
        """One request, again while the matcher has no time for questions; its answer."""
        status, said = patiently(lambda: self._ask(method, path, body, kind), lambda answer: answer)
        if status >= 400:
            raise Refused(status, said)
        return json.loads(said) if said else {}

    def _ask(self, method: str, path: str, body: Any, kind: dict[str, str]) -> tuple[int, bytes]:
        """One request over a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.settings.port, timeout=ANSWER_S)
        try:
            headers = {
                "Authorization": f"Bearer {self.token}",
                **(kind if body is not None else {}),
            }
            given = None if body is None else json.dumps(body).encode()
            connection.request(method, path, given, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """What is there."""
        return self.ask("GET", path)

    def catch_up(self) -> int:
        """Wait until everything in the log is matched; its last seq."""
        self.wait_until_ready()
        end = time.monotonic() + CAUGHT_UP_S
        stats: Any = None
        while time.monotonic() < end:
            with contextlib.suppress(OSError, http.client.HTTPException, Refused):
                stats = self.get("/stats")
                if stats["log"]["last"] <= stats["position"]:
                    return int(stats["position"])
            time.sleep(0.03)
        raise TimeoutError(f"the matcher does not catch up: {stats}")

    def logged(self, after: int) -> list[Any]:
        """Entries of the log after a seq, read as the matcher reads them."""
        from germane.service.settings import open_log

        log = open_log(self.settings)
        try:
            entries: list[Any] = []
            while part := log.read(after, 5000):
                entries += part
                after = part[-1].seq + part[-1].n - 1
            return entries
        finally:
            log.close()

    def deliveries(self, after: int) -> list[dict[str, Any]]:
        """Deliveries of everybody after an id, by polling."""
        found: list[dict[str, Any]] = []
        while True:
            page = self.get(f"/deliveries?after={after}&limit=1000")
            if not page["deliveries"]:
                return found
            found += page["deliveries"]
            after = page["next"]
