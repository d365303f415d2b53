"""`germane learn`: everybody's interests, from tables of deliveries and feedback, on Spark."""

from pathlib import Path
from typing import Annotated, Any

import typer

from germane.category import ContentGraph
from germane.model import GermaneError, InvalidValue

EXAMPLE = """
[bold]Of a service[/bold], from its database: what its people said, along its own graphs.

  germane learn sqlite:///service/service.db --out learned/

[bold]Tables[/bold] of your own are files or folders of Parquet, JSON lines or CSV, or tables of a
database:

  germane learn deliveries/ sqlite:///mine.db#feedback --topics topics.csv --out learned/

Deliveries have the columns delivery, user, message, topic, context; feedback has delivery, kind
(opened, kept, dismissed, less), at, and if known seconds.
"""
FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".csv": "csv"}


def learn(
    deliveries: Annotated[
        str,
        typer.Argument(
            help="What was delivered to whom, in which context; or a service's database."
        ),
    ],
    out: Annotated[Path, typer.Option(help="A new folder for the interests, as Parquet.")],
    feedback: Annotated[
        str | None, typer.Argument(help="What they did with it; a service's database has it.")
    ] = None,
    topics: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="The graph of topics: parent, child."),
    ] = None,
    places: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="The tree of places: parent, child."),
    ] = None,
    tenant: Annotated[str, typer.Option(help="Of a service: whose people.")] = "default",
) -> None:
    """Learn which topics everybody likes in which context: the same as user agents learn online."""
    try:
        if out.exists():
            raise InvalidValue(f"{out} is there already; name a new folder")
        told = _of_service(deliveries, tenant) if feedback is None else None
        if told is None and topics is None:
            raise InvalidValue("tables need a graph of topics: --topics topics.csv")
        from germane import spark
        from germane.agent.learning import learn as learn_interests
        from germane.cli import quiet

        with quiet.into_file():
            session = spark.session()
        if told is not None:
            delivered, said = map(session.createDataFrame, (told.deliveries, told.feedback))
        else:
            delivered, said = (read_table(session, str(name)) for name in (deliveries, feedback))
        graph = ContentGraph.read(topics) if topics else told and told.topics
        tree = ContentGraph.read(places) if places else told and told.places
        assert graph is not None
        learned = learn_interests(delivered, said, graph, tree)
        learned.write.parquet(str(out))
        found = session.read.parquet(str(out))
        n_users = found.select("user").distinct().count()
        typer.echo(f"{found.count():,} interests of {n_users:,} people are in {out}")
    except GermaneError as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from error


def _of_service(address: str, tenant: str) -> Any:
    """What a service's people said; one argument alone can only be its database."""
    if "://" not in address or "#" in address:
        raise InvalidValue(
            f"{address!r} needs a second table, of feedback; only a service's database, "
            "such as sqlite:///service/service.db, has both"
        )
    try:
        from germane.service.pieces import read_told
    except ImportError as error:
        raise GermaneError("a service's tables need: pip install 'germane[service]'") from error
    return read_told(address, tenant)


def read_table(session: Any, address: str) -> Any:
    """A table as a DataFrame: files by their names, a database's table after a #."""
    if "://" in address:
        return _from_database(session, address)
    path = Path(address)
    if not path.exists():
        raise InvalidValue(f"{address!r} is no file, folder or database")
    names = [path, *path.rglob("*")] if path.is_dir() else [path]
    found = {FORMATS[p.suffix] for p in names if p.suffix in FORMATS}
    if len(found) != 1:
        raise InvalidValue(f"{address!r} has to hold one of {', '.join(FORMATS)}: {sorted(found)}")
    options = {"header": True, "inferSchema": True} if found == {"csv"} else {}
    return session.read.format(found.pop()).options(**options).load(str(path))


def _from_database(session: Any, address: str) -> Any:
    url, _, table = address.partition("#")
    if not table.replace("_", "").isalnum():
        raise InvalidValue(f"{address!r} has to end with # and a table's name")
    try:
        import pyarrow as pa
        import sqlalchemy
    except ImportError as error:
        raise GermaneError("databases need SQLAlchemy: pip install 'germane[sql]'") from error
    try:
        with sqlalchemy.create_engine(url).connect() as connection:
            rows = connection.execute(sqlalchemy.text(f'SELECT * FROM "{table}"')).mappings()
            return session.createDataFrame(pa.Table.from_pylist([dict(row) for row in rows]))
    except (sqlalchemy.exc.SQLAlchemyError, pa.ArrowException) as error:
        raise GermaneError(f"cannot read {table!r}: {error}") from error
