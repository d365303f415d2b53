"""The supervisor: starts api, matcher and courier, starts again what dies, ends all in order.

It touches no data but the first token. A process that dies is started again at once, and after
several quick deaths with a pause. On SIGTERM the api ends first, so that nothing new comes; the
matcher finishes its batch and saves; the courier finishes what is on its way.
"""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

import msgspec
import sqlalchemy as sa
import structlog

from germane.service import tables, tokens
from germane.service.processes import VARIABLE
from germane.service.settings import Settings

ROLES = ("matcher", "api", "courier")
ENDING = ("api", "matcher", "courier")
GRACE_S = 30.0
PAUSES_S = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0)
LIVED_S = 5.0
"""Who has lived so long has worked, and is started again at once when it dies."""

journal = structlog.get_logger("supervisor")


def prepare(settings: Settings) -> str | None:
    """Make the data directory and the tables; on the first start, the first token."""
    settings.folder.mkdir(parents=True, exist_ok=True)
    settings.folder.chmod(0o700)
    settings.snapshots.mkdir(exist_ok=True)
    engine = tables.open_store(settings.store_url)
    try:
        with tables.writing(engine) as connection:
            if connection.execute(sa.select(tables.tenants.c.id)).first():
                return None
            tenant = tokens.make_tenant(connection, "default")
            return tokens.issue(connection, tenant, tokens.ROOT, None)[1]
    finally:
        engine.dispose()


@dataclass
class Child:
    """A process, and how often it has died lately."""

    role: str
    process: subprocess.Popen[bytes] | None = None
    deaths: int = 0
    started: float = 0.0
    again: float = 0.0


@dataclass
class Supervisor:
    """The processes of an installation."""

    settings: Settings
    children: dict[str, Child] = field(default_factory=dict)
    stopping: bool = False
    errors: IO[bytes] | None = None  # where the processes log; by default where this one does

    def start(self) -> None:
        """Start all of them."""
        self.children = {role: Child(role) for role in ROLES}
        for child in self.children.values():
            self._spawn(child)

    def _spawn(self, child: Child) -> None:
        environment = {**os.environ, VARIABLE: self.settings.to_json()}
        child.process = subprocess.Popen(
            [sys.executable, "-m", "germane.service.processes", child.role],
            env=environment, stdin=subprocess.DEVNULL, stderr=self.errors, start_new_session=True,
        )  # fmt: skip
        child.started = time.monotonic()

    def watch(self) -> None:
        """Start again what has died."""
        moment = time.monotonic()
        for child in self.children.values():
            if child.process is None:
                if moment >= child.again:
                    self._spawn(child)
                continue
            code = child.process.poll()
            if code is None:
                continue
            child.deaths = 0 if moment - child.started > LIVED_S else child.deaths + 1
            pause = PAUSES_S[min(child.deaths, len(PAUSES_S) - 1)]
            journal.error("process_died", role=child.role, code=code, again_in_s=pause)
            child.process, child.again = None, moment + pause

    def run(
        self,
        ready: Callable[[], None] = lambda: None,
        waiting: Callable[[str], None] = lambda why: None,
    ) -> None:
        """Keep them up until SIGTERM or SIGINT; say when they are ready, and until then why not."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: setattr(self, "stopping", True))
        self.start()
        said = False
        try:
            while not self.stopping:
                self.watch()
                if not said:
                    why = self.why_not()
                    said = why is None
                    ready() if why is None else waiting(why)
                time.sleep(0.1)
        finally:
            self.stop()

    def is_ready(self) -> bool:
        """Whether events are taken and matched."""
        return self.why_not() is None

    def why_not(self) -> str | None:
        """What is waited for until events are taken and matched; None when they are."""
        host = "127.0.0.1" if self.settings.host in ("0.0.0.0", "::") else self.settings.host
        try:
            with urllib.request.urlopen(
                f"http://{host}:{self.settings.port}/ready", timeout=2.0
            ) as answer:
                return None if answer.status == 200 else f"status {answer.status}"
        except urllib.error.HTTPError as error:
            with error:
                return _said(error.read())
        except (OSError, urllib.error.URLError):
            return "the API is starting"

    def stop(self) -> None:
        """End them in order; each finishes what it has begun."""
        for role in ENDING:
            child = self.children.get(role)
            if child is None or child.process is None or child.process.poll() is not None:
                continue
            child.process.terminate()
            try:
                child.process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                journal.error("process_killed", role=role)
                child.process.kill()
                child.process.wait()


def _said(body: bytes) -> str:
    """Why `/ready` says no."""
    try:
        return str(msgspec.json.decode(body)["why"])
    except (msgspec.MsgspecError, LookupError, TypeError):
        return "the API is not well"
