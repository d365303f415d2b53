"""What one installation of the service is told at its start: paths, limits, what is allowed.

The supervisor hands it to its processes as JSON; nothing in it is secret but a store's URL.
"""

import hashlib
import tempfile
from dataclasses import asdict, dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import msgspec

from germane.model import InvalidValue

LONGEST_SOCKET = 100
EMBEDDED, SPARK = MATCHERS = ("embedded", "spark")


@dataclass(frozen=True)
class Limits:
    """What one request and one token may ask for."""

    body_bytes: int = 8 << 20
    events: int = 10_000  # in a batch
    event_bytes: int = 1 << 20
    condition: int = 64 << 10
    events_per_second: float = 200_000.0  # of a token
    requests_per_second: float = 500.0


@dataclass(frozen=True)
class Settings:
    """An installation."""

    data: str = "germane-data"
    host: str = "127.0.0.1"
    port: int = 8000
    log: str = ""  # "" is SQLite in the data directory; or nats://…
    store: str = ""  # "" is SQLite in the data directory; or postgresql+psycopg://…
    matcher: str = EMBEDDED
    shards: int = 0  # of the matcher on Spark; 0 is one a core
    index: str = "agile"
    round_events: int = 4_000  # in a round of the matcher, over all tenants
    snapshot_events: int = 2_000_000  # at most between two snapshots of a tenant
    snapshot_seconds: float = 120.0
    retention_days: float = 0.0  # of the log; 0 keeps everything
    allow_sinks: tuple[str, ...] = ()  # networks that webhooks may reach though they are not public
    attempts: int = 12  # of a webhook, before it is a dead letter
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for network in self.allow_sinks:
            try:
                ip_network(network)
            except ValueError as error:
                raise InvalidValue(
                    f"--allow-sink takes a network such as 10.0.0.0/8, not {network!r}"
                ) from error
        if self.log and not self.log.startswith("nats://"):
            raise InvalidValue(f"--log is nats://host:port, or not given for SQLite: {self.log!r}")
        if self.matcher not in MATCHERS:
            raise InvalidValue(f"--matcher is {' or '.join(MATCHERS)}, not {self.matcher!r}")
        if self.matcher == SPARK and self.retention_days:
            raise InvalidValue(
                "--retention goes with --matcher embedded: on Spark, a shard that is lost may have "
                "to be built from the log's first entry"
            )

    @property
    def folder(self) -> Path:
        """Where everything of this installation is."""
        return Path(self.data)

    @property
    def snapshots(self) -> Path:
        """Where filters are saved."""
        return self.folder / "snapshots"

    @property
    def socket(self) -> Path:
        """Where the matcher answers; a socket's path is short, so a long one is replaced."""
        path = self.folder / "matcher.sock"
        if len(str(path).encode()) < LONGEST_SOCKET:
            return path
        name = hashlib.sha256(str(self.folder.resolve()).encode()).hexdigest()[:24]
        return Path(tempfile.gettempdir()) / f"germane-{name}.sock"

    @property
    def store_url(self) -> str:
        """Where the tables are, as SQLAlchemy says it."""
        return self.store or f"sqlite:///{self.folder / 'service.db'}"

    def to_json(self) -> str:
        """For another process."""
        return msgspec.json.encode(asdict(self)).decode()

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        """As another process has sent it."""
        values: dict[str, Any] = msgspec.json.decode(text)
        values["limits"] = Limits(**values["limits"])
        values["allow_sinks"] = tuple(values["allow_sinks"])
        return cls(**values)


def open_log(settings: Settings) -> Any:
    """The log of an installation."""
    if settings.log:
        from germane.service.log_nats import NatsLog

        return NatsLog(settings.log)
    from germane.service.log_sqlite import SqliteLog

    return SqliteLog(settings.folder / "log.db")
