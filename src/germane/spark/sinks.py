"""Where deliveries go: Parquet, a SQL table, the console, or a function of yours.

A micro-batch may be written again after a crash. Each sink makes the second time harmless, so that
a reader sees every delivery exactly once: Parquet is written beside its place and renamed, a batch
a directory; SQL rows have the key (seq, profile). A function gets the number of the batch with its
deliveries, and must do the same.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from germane.model import GermaneError, InvalidValue
from germane.spark.checkpoints import Files

Write = Callable[[DataFrame, int], None]
SHOWN = 20


@dataclass(frozen=True)
class Parquet:
    """A Parquet table, a directory for each micro-batch that delivered something.

    Several streams may write to one table: ``stream`` tells their micro-batches apart.
    """

    path: str
    stream: str = "0"

    def __call__(self, deliveries: DataFrame, batch: int) -> None:
        """Write a micro-batch, unless it is there."""
        place = f"{self.path}/stream={self.stream}/batch={batch}"
        files = Files(deliveries.sparkSession, self.path)
        if files.exists(place):
            return
        beside = f"{self.path}/_writing/{self.stream}/{batch}"
        deliveries.write.mode("overwrite").parquet(beside)
        files.rename(beside, place)


@dataclass(frozen=True)
class Sql:
    """A table of a database that SQLAlchemy knows, made on first use; key (seq, profile)."""

    url: str
    table: str = "deliveries"

    def __post_init__(self) -> None:
        try:
            import sqlalchemy  # noqa: F401
        except ImportError as error:
            raise GermaneError(
                "a SQL sink needs SQLAlchemy: install germane with its extra, "
                "pip install 'germane[sql]'"
            ) from error
        if database_of(self.url) not in SUPPORTED:
            raise InvalidValue(
                f"deliveries go, each once, into {', '.join(SUPPORTED)}; for "
                f"{database_of(self.url)!r:.50}, give a function of (deliveries, batch) as the sink"
            )
        if not self.table.isidentifier():
            raise InvalidValue(f"a table's name is a plain word, not {self.table!r:.200}")

    def __call__(self, deliveries: DataFrame, batch: int) -> None:
        """Write a micro-batch; rows that are there stay as they are."""
        if deliveries.columns[:4] != ["seq", "message", "profile", "context"]:
            raise InvalidValue("a SQL table holds one row a delivery: leave out per=…")
        kinds = dict(deliveries.dtypes)
        url, name = self.url, self.table
        table, engine = _sql_table(url, name, kinds)
        table.metadata.create_all(engine)
        engine.dispose()

        def write(rows: Iterator[Any]) -> None:
            table, engine = _sql_table(url, name, kinds)
            with engine.begin() as connection:
                for part in _chunks(rows, 1000):
                    connection.execute(_insert(engine, table), [row.asDict() for row in part])
            engine.dispose()

        # One writer at a time where the database is a file.
        writers = 1 if url.startswith("sqlite") else deliveries.rdd.getNumPartitions()
        deliveries.coalesce(writers).foreachPartition(write)


def console(deliveries: DataFrame, batch: int) -> None:
    """Print the first deliveries of each micro-batch."""
    print(f"batch {batch}: {deliveries.count():,} deliveries")
    deliveries.orderBy(*deliveries.columns[:1]).show(SHOWN, truncate=False)


def as_sink(sink: Any) -> Write:
    """A path is Parquet, "console" the console, a database's URL a table; a function is itself."""
    if callable(sink):
        write: Write = sink
        return write
    if sink == "console":
        return console
    if isinstance(sink, Path) or (isinstance(sink, str) and sink):
        text = str(sink)
        return Sql(text) if database_of(text) in (*SUPPORTED, *UNSUPPORTED) else Parquet(text)
    raise InvalidValue(
        "sink is a path for Parquet files, the URL of a database, 'console', or a function of "
        f"(deliveries, batch), not {sink!r:.200}"
    )


SUPPORTED = ("sqlite", "postgresql", "mysql", "mariadb")
UNSUPPORTED = ("oracle", "mssql")
MOST_KEY = 255
"""Characters of an id where a database needs a bound for its keys."""
_EXACT = {"mysql": "utf8mb4_0900_bin", "mariadb": "utf8mb4_nopad_bin"}
"""By default, these take ids for one that differ in capitals, accents or spaces at their end."""


def database_of(url: str) -> str:
    """What a URL says before its driver."""
    return url.split("://")[0].split("+")[0]


def _sql_table(url: str, name: str, kinds: dict[str, str]) -> tuple[Any, Any]:
    import sqlalchemy as sql

    of_kind: dict[str, Any] = {"double": sql.Double()}
    of_kind |= {kind: sql.BigInteger() for kind in ("bigint", "int", "smallint", "tinyint")}
    keys = ("seq", "profile")
    text = sql.Text()
    key = text
    for database, collation in _EXACT.items():
        key = key.with_variant(sql.String(MOST_KEY, collation), database)
    types = {
        column: of_kind.get(kind, key if column in keys else text) for column, kind in kinds.items()
    }
    columns = [
        sql.Column(column, kind, primary_key=column in keys, autoincrement=False)
        for column, kind in types.items()
    ]
    return sql.Table(name, sql.MetaData(), *columns), sql.create_engine(url)


def _insert(engine: Any, table: Any) -> Any:
    """Insert what is not there."""
    from sqlalchemy.dialects import mysql, postgresql, sqlite

    if engine.dialect.name in ("mysql", "mariadb"):
        return mysql.insert(table).on_duplicate_key_update(seq=table.c.seq)  # IGNORE cuts off
    dialect = sqlite if engine.dialect.name == "sqlite" else postgresql
    return dialect.insert(table).on_conflict_do_nothing()


def _chunks(rows: Iterator[Any], n: int) -> Iterator[list[Any]]:
    part: list[Any] = []
    for row in rows:
        part.append(row)
        if len(part) == n:
            yield part
            part = []
    if part:
        yield part
