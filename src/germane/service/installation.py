"""An installation, opened by a command beside or instead of the service's own processes."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import sqlalchemy as sa

from germane.model import InvalidValue
from germane.service import tables
from germane.service.settings import Settings, open_log


class Place(NamedTuple):
    """Settings, log and store."""

    settings: Settings
    log: Any
    engine: sa.Engine

    @contextmanager
    def alone(self, role: str) -> Iterator[None]:
        """Do something that a process of the service must not do meanwhile."""
        with (self.settings.folder / f"{role}.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InvalidValue(f"the service is running; stop it first ({role}.lock)") from None
            yield


@contextmanager
def opened(data: str, log: str = "", store: str = "") -> Iterator[Place]:
    """Open an installation that is there."""
    settings = Settings(data=data, log=log, store=store)
    if not settings.folder.is_dir():
        raise InvalidValue(f"there is no data directory {data!r}; --data says where it is")
    found = open_log(settings)
    engine = tables.open_store(settings.store_url)
    try:
        yield Place(settings, found, engine)
    finally:
        found.close()
        engine.dispose()
