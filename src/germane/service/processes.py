"""The processes: what each does when it is started, and how it ends.

    python -m germane.service.processes api|matcher|courier

Settings come as JSON in ``GERMANE_SETTINGS``. SIGTERM and SIGINT finish what was begun. A lock in
the data directory keeps a second matcher or courier out; the system lets go of it with the process,
however that ends.
"""

import asyncio
import fcntl
import gc
import os
import signal
import sys
import threading
import time
from typing import Any

import structlog

from germane.service import tables
from germane.service.journal import configure
from germane.service.settings import SPARK, Settings, open_log

VARIABLE = "GERMANE_SETTINGS"


def main(role: str) -> None:
    """Be one of the processes."""
    settings = Settings.from_json(os.environ[VARIABLE])
    configure(role)
    threading.Thread(target=follow, args=(os.getppid(),), daemon=True).start()
    {"api": run_api, "matcher": run_matcher, "courier": run_courier}[role](settings)


def follow(parent: int) -> None:
    """End when the supervisor has died: nobody would start this process again, or stop it."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)


def alone(settings: Settings, role: str) -> Any:
    """Wait until no other process of this role works on the data; keep what is returned."""
    file = (settings.folder / f"{role}.lock").open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def settle() -> None:
    """What there is now stays: garbage is looked for among what comes, and more rarely.

    Decoded events are many small objects that die with their round; and threads that wait for the
    interpreter get it soon.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    sys.setswitchinterval(0.001)


def run_api(settings: Settings) -> None:
    """Serve HTTP."""
    import uvicorn

    from germane.service.api.app import create_app
    from germane.service.api.state import Api

    log = open_log(settings)
    engine = tables.open_store(settings.store_url)
    app = create_app(Api(settings, log, engine))
    settle()
    config = uvicorn.Config(
        app, settings.host, settings.port, log_config=None, access_log=False, server_header=False,
        timeout_graceful_shutdown=5, timeout_keep_alive=60, h11_max_incomplete_event_size=65_536,
    )  # fmt: skip
    uvicorn.Server(config).run()
    log.close()
    engine.dispose()


def run_matcher(settings: Settings) -> None:
    """Match."""
    from germane.service import warming
    from germane.service.checkpoints import Checkpoints
    from germane.service.questions import Questions

    lock = alone(settings, "matcher")
    log = open_log(settings)
    engine = tables.open_store(settings.store_url, durable=False)
    matcher = _matcher(settings)(settings, log, engine)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: setattr(matcher, "stopping", True))
    questions = matcher.questions = Questions(settings.socket)
    questions.starting = "reading its state"
    warming.begin(lambda words: setattr(questions, "starting", words))
    rest = warming.Rest()
    matcher.compiling = rest.wants_indexes
    matcher.open()
    checkpoints = None if settings.store else Checkpoints(settings.folder / "service.db")
    settle()
    questions.starting = None
    matcher.run()
    rest.close()
    if checkpoints is not None:
        checkpoints.close()
    questions.close()
    log.close()
    engine.dispose()
    lock.close()


def _matcher(settings: Settings) -> Any:
    if settings.matcher == SPARK:
        from germane.service.on_spark import SparkMatcher

        return SparkMatcher
    from germane.service.matcher import Matcher

    return Matcher


def run_courier(settings: Settings) -> None:
    """Send webhooks."""
    from germane.service.courier import Courier
    from germane.service.reader import Reader

    lock = alone(settings, "courier")
    log = open_log(settings)
    # A commit that waited for the disk would wait for all that the matcher has written before it,
    # and the matcher for this one. Webhooks are sent at least once, so that none needs to.
    engine = tables.open_store(settings.store_url, durable=False)
    courier = Courier(settings, engine, Reader(log, engine))

    async def work() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, lambda: setattr(courier, "stopping", True))
        await courier.run()

    asyncio.run(work())
    structlog.get_logger("courier").info("stopped")
    log.close()
    engine.dispose()
    lock.close()


if __name__ == "__main__":
    main(sys.argv[1])
