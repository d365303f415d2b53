"""The tables of the service: what can be read without playing the log.

SQLAlchemy Core, on SQLite by default and PostgreSQL. All but ``tenants``, ``tokens`` and ``agents``
follow from the log. The matcher writes deliveries, what is held, the outbox, dead letters,
subscriptions and its position in one transaction a round; bulk rows go through the driver itself
(``insert_rows``).
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, String, Table, Text

META = sa.MetaData()
BUSY_S = 30.0
LONG = BigInteger().with_variant(Integer, "sqlite")


def _table(name: str, *columns: Any) -> Table:
    return Table(name, META, *columns)


tenants = _table(
    "tenants",
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", String(200), nullable=False, unique=True),
    Column("created", LONG, nullable=False),
)
tokens = _table(
    "tokens",
    Column("id", String(40), primary_key=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("tenant", Integer, nullable=False),
    Column("role", String(20), nullable=False),
    Column("subject", String(500)),
    Column("created", LONG, nullable=False),
    Column("revoked", LONG),
)
positions = _table(
    "positions",
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("seq", LONG, nullable=False),
)
subscriptions = _table(
    "subscriptions",
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),  # the profile in the filter
    Column("id", String(200), nullable=False),
    Column("subscriber", Integer, nullable=False),
    Column("sink", Integer),
    Column("seq", LONG, nullable=False),
    Column("state", String(10), nullable=False),  # active, refused, ended
    Column("reason", Text),
    Column("body", Text, nullable=False),
    Column("muted", Boolean, nullable=False),
    Column("snoozed_until", LONG),
    Index("subscriptions_by_id", "tenant", "id"),
    Index("subscriptions_by_subscriber", "tenant", "subscriber"),
)
subscribers = _table(
    "subscribers",
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("name", String(500), nullable=False),
    Column("preferences", Text),
    Index("subscribers_by_name", "tenant", "name", unique=True),
)
deliveries = _table(
    "deliveries",
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("id", LONG, primary_key=True, autoincrement=False),
    Column("subscriber", Integer, nullable=False),
    Column("seq", LONG, nullable=False),
    Column("at", LONG, nullable=False),
    Column("released", LONG, nullable=False),
    Column("why", String(20)),
    Column("profiles", Text, nullable=False),
    Index("deliveries_of_subscribers", "tenant", "subscriber", "id"),
)
taken_back = _table(  # the last delivery that a rebuild took back: its id is not given out again
    "taken_back",
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("delivery", LONG, nullable=False),
)
held = _table(
    "held",
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("subscriber", Integer, primary_key=True, autoincrement=False),
    Column("seq", LONG, primary_key=True, autoincrement=False),
    Column("at", LONG, nullable=False),
    Column("due", LONG, nullable=False),
    Column("why", String(20), nullable=False),
    Column("expires", LONG),
    Column("profiles", Text, nullable=False),
    Index("held_by_due", "due"),
)
outbox = _table(
    "outbox",
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("delivery", LONG, primary_key=True, autoincrement=False),
    Column("sink", Integer, primary_key=True, autoincrement=False),
    Column("state", String(10), nullable=False),  # waiting, sent, dead, gone
    Column("attempts", Integer, nullable=False),
    Column("due", LONG, nullable=False),
    Column("failure", Text),
    Column("changed", LONG, nullable=False),
    Index("outbox_by_due", "state", "due"),
    Index("outbox_of_sinks", "tenant", "sink", "state"),
)
sinks = _table(
    "sinks",
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("url", Text, nullable=False),
    Column("state", String(10), nullable=False),  # ok, failing, gone
    Column("failures", Integer, nullable=False),  # one after the other
    Column("last_failure", Text),
    Column("failed", LONG),
    Column("succeeded", LONG),
)
deadletters = _table(
    "deadletters",
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("id", LONG, primary_key=True, autoincrement=False),
    Column("seq", LONG, nullable=False),
    Column("at", LONG, nullable=False),
    Column("kind", String(20), nullable=False),
    Column("reason", Text, nullable=False),
    Column("redriven", LONG),  # the seq it was appended again with
)
feedback = _table(
    "feedback",
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("delivery", LONG, primary_key=True, autoincrement=False),
    Column("seq", LONG, nullable=False),
    Column("relevant", Boolean, nullable=False),
    Column("at", LONG, nullable=False),
)
graphs = _table(
    "graphs",
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("attribute", String(200), primary_key=True),
    Column("attributes", Text, nullable=False),  # others that hold nodes of it
    Column("edges", Text, nullable=False),
)
agents = _table(  # what was learned of a person: not in the log, so that it can be erased
    "agents",
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("subscriber", String(500), primary_key=True),
    Column("active", Boolean, nullable=False),
    Column("state", Text, nullable=False),
)
gauges = _table(
    "gauges",
    Column("process", String(40), primary_key=True),
    Column("at", LONG, nullable=False),
    Column("body", Text, nullable=False),
)
history = _table(
    "history",
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("at", LONG, primary_key=True, autoincrement=False),
    Column("events", Integer, nullable=False),
    Column("messages", Integer, nullable=False),
    Column("deliveries", Integer, nullable=False),
    Column("lag", Integer, nullable=False),
    Column("p50_ms", Float, nullable=False),
    Column("p99_ms", Float, nullable=False),
)


def open_store(url: str, durable: bool = True) -> sa.Engine:
    """The engine of a store, its tables made if they are not there.

    Not ``durable`` is for what follows from the log: on SQLite a commit does not wait for the disk,
    so that a failure of power (not of a process) may undo the last ones; they are done again. Nor
    does it carry pages into the file: who opens it so lets ``Checkpoints`` do that.
    """
    sqlite = url.startswith("sqlite")
    engine = sa.create_engine(
        url, connect_args={"timeout": BUSY_S} if sqlite else {}, pool_size=20, max_overflow=40
    )
    if sqlite:
        sa.event.listen(engine, "connect", _on_sqlite if durable else _on_sqlite_soon)
        sa.event.listen(engine, "begin", _begin)
    with engine.begin() as connection:
        if not sqlite:  # two processes may come at once
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(734211)"))
        META.create_all(connection)
    return engine


def _on_sqlite(connection: Any, record: Any, synchronous: str = "FULL") -> None:
    connection.isolation_level = None  # SQLAlchemy's "begin" says how, below
    for pragma in (
        "journal_mode=WAL", f"synchronous={synchronous}", "cache_size=-64000", "secure_delete=ON"
    ):  # fmt: skip
        connection.execute(f"PRAGMA {pragma}")


def _on_sqlite_soon(connection: Any, record: Any) -> None:
    _on_sqlite(connection, record, "NORMAL")
    connection.execute("PRAGMA wal_autocheckpoint=0")  # that is the work of ``Checkpoints``


def _begin(connection: sa.Connection) -> None:
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def writing(engine: sa.Engine) -> Any:
    """A transaction that writes: it waits for other writers at its beginning, not in its midst."""
    return engine.execution_options(writing=True).begin()


def begin_log_anew(engine: sa.Engine) -> None:
    """Empty SQLite's write-ahead log, which has pages as they were; not while somebody reads it."""
    if engine.dialect.name != "sqlite":
        return
    connection = engine.raw_connection()
    driver: Any = connection.driver_connection
    try:
        for pragma in ("busy_timeout=2000", "wal_checkpoint(TRUNCATE)"):
            driver.execute(f"PRAGMA {pragma}").fetchall()
    except sqlite3.Error:
        pass  # a full disk, say: commits tell of it
    finally:
        driver.execute(f"PRAGMA busy_timeout={BUSY_S * 1000:.0f}")
        connection.close()


FEW = 500


def bodies(engine: sa.Engine, tenant: int, numbers: Sequence[int]) -> dict[int, str]:
    """The bodies of some subscriptions, by number, as they were logged."""
    t = subscriptions
    with engine.connect() as connection:
        chosen = sa.select(t.c.number, t.c.body).where(t.c.tenant == tenant)
        if len(numbers) <= FEW:
            chosen = chosen.where(t.c.number.in_(numbers))
        found = connection.execute(chosen).all()
    wanted = set(numbers)
    return {number: body for number, body in found if number in wanted}


def edges(engine: sa.Engine, tenant: int) -> dict[str, list[Any]]:
    """Attribute -> edges of the graphs now; attributes that share a graph share the list."""
    with engine.connect() as connection:
        rows = connection.execute(sa.select(graphs).where(graphs.c.tenant == tenant)).all()
    found: dict[str, list[Any]] = {}
    for row in rows:
        found |= dict.fromkeys(
            [row.attribute, *msgspec.json.decode(row.attributes)], msgspec.json.decode(row.edges)
        )
    return found


def insert_rows(connection: sa.Connection, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert many rows, in the order of the table's columns, as fast as the driver can."""
    if not rows:
        return
    names = ", ".join(column.name for column in table.columns)
    if connection.dialect.name == "postgresql":
        driver: Any = connection.connection.driver_connection
        errors, copy = (
            connection.dialect.loaded_dbapi.Error,
            f"COPY {table.name} ({names}) FROM STDIN",
        )
        try:
            with driver.cursor() as cursor, cursor.copy(copy) as c:
                for row in rows:
                    c.write_row(row)
        except errors as error:  # as SQLAlchemy raises them, which did not see these
            raise sa.exc.DBAPIError.instance(copy, None, error, errors) from error
        return
    marks = ", ".join("?" * len(table.columns))
    connection.exec_driver_sql(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", list(rows))
