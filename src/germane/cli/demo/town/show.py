"""The town on the terminal: start the service, tell the address, move the people until the end.

The service is the one of ``germane serve``, in a directory that is gone afterwards. ``play`` ends
on Ctrl-C, on SIGTERM, or after some seconds, and leaves nothing behind.
"""

import os
import signal
import socket
import sys
import tempfile
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
from rich.console import Console

from germane.cli.demo.town.stage import STEP_S, Stage
from germane.cli.ports import check_port
from germane.service.settings import Settings
from germane.service.supervisor import Supervisor, prepare

HOST = "127.0.0.1"
PORT = 8010
PATIENCE_S = 300.0  # for the kernels of a first run, on a slow machine
COMPILING = "Compiling the kernels: about a minute on the first run, seconds later on."
WHAT = """
  {url}

Open it: a town whose people move, and messages that find the right ones as they do. On a large
screen a phone stands beside the map: it is yours. Ask for something, walk about, see what comes.

  your inbox    {base}/app/     (the page above signs you in)
  the console   {base}/app/console
  the API       {base}/docs

{end} ends it.
"""


class Failed(Exception):
    """Why the demo cannot go on."""


def play(console: Console, size: int, port: int | None, seconds: float | None) -> None:
    """Run it all, with so many people besides those who have names."""
    with (
        _ending() as ended,
        tempfile.TemporaryDirectory(prefix="germane-", ignore_cleanup_errors=True) as folder,
        (Path(folder) / "journal.jsonl").open("wb") as journal,
    ):
        if port is not None:
            check_port(HOST, port)
        settings = Settings(data=f"{folder}/data", host=HOST, port=port or _free_port(PORT))
        token = prepare(settings)
        supervisor = Supervisor(settings, errors=journal)
        try:
            if not console.is_terminal:  # nobody would see a status
                console.print(f"Starting the service. {COMPILING}")
            with console.status(f"Starting the service. {COMPILING}"):
                supervisor.start()
                _wait(supervisor, ended, supervisor.is_ready)
            if not ended and token is not None:
                _run(console, supervisor, Stage(_base(settings), token, size), seconds, ended)
        finally:
            supervisor.stop()


def _run(
    console: Console, supervisor: Supervisor, stage: Stage, seconds: float | None, ended: list[int]
) -> None:
    with console.status(COMPILING):
        url = stage.set_up()
        _wait(supervisor, ended, stage.is_seen)
    base = _base(supervisor.settings)
    end = "Ctrl-C" if seconds is None else f"Ctrl-C, or waiting {seconds:g} s,"
    console.print(WHAT.format(url=url, base=base, end=end), soft_wrap=True, markup=False)
    if _has_display() and not ended:
        webbrowser.open(url)
    started = next_step = time.monotonic()
    while not ended and (seconds is None or time.monotonic() - started < seconds):
        supervisor.watch()
        with suppress(httpx.TransportError):  # a process that died is started again
            stage.step()
        next_step = max(next_step + STEP_S, time.monotonic() - 5 * STEP_S)
        while not ended and (left := next_step - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
    console.print(stage.summary(), markup=False)
    stage.close()


def _wait(supervisor: Supervisor, ended: list[int], done: Callable[[], bool]) -> None:
    """Until something is so, the demo is ended, or patience is."""
    until = time.monotonic() + PATIENCE_S
    while not ended and not done():
        supervisor.watch()
        if time.monotonic() > until:
            raise Failed(f"the service is not ready after {PATIENCE_S:.0f} s")
        time.sleep(0.2)


@contextmanager
def _ending() -> Iterator[list[int]]:
    """A list that is filled when somebody wants an end."""
    ended: list[int] = []
    before = {
        number: signal.signal(number, lambda n, _: ended.append(n))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _free_port(wanted: int) -> int:
    """A port that is free: the wanted one, or any."""
    for port in (wanted, 0):
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                free.bind((HOST, port))
            except OSError:
                continue
            return int(free.getsockname()[1])
    raise Failed(f"no port of {HOST} is free")


def _base(settings: Settings) -> str:
    return f"http://{settings.host}:{settings.port}"


def _has_display() -> bool:
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
