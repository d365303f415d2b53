"""`germane serve`: the whole service on one machine, with one command."""

from typing import Annotated

import typer
from rich.console import Console

from germane.cli.ports import check_port
from germane.model import GermaneError

EXAMPLE = "germane serve --port 8000 --data ./germane-data"


def serve(
    data: Annotated[str, typer.Option(help="Where everything is kept.")] = "germane-data",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = 8000,
    log: Annotated[str, typer.Option(help="nats://host:port; by default SQLite.")] = "",
    store: Annotated[
        str, typer.Option(help="postgresql+psycopg://user@host/name; by default SQLite.")
    ] = "",
    matcher: Annotated[
        str, typer.Option(help="embedded, or spark: profiles spread over shards.")
    ] = "embedded",
    shards: Annotated[
        int, typer.Option(min=0, help="Shards of the matcher on Spark; 0 is one a core.")
    ] = 0,
    retention: Annotated[
        float, typer.Option(help="Days that the log is kept; 0 keeps everything.")
    ] = 0.0,
    allow_sink: Annotated[
        list[str] | None,
        typer.Option(help="A network that webhooks may reach though it is not public."),
    ] = None,
) -> None:
    """Run the notification service: HTTP API, matcher and webhooks, until Ctrl-C."""
    console = Console(stderr=True, highlight=False, markup=False)
    try:
        from germane.service.journal import configure
        from germane.service.settings import SPARK, Settings
        from germane.service.supervisor import Supervisor, prepare
    except ModuleNotFoundError as error:
        typer.echo(
            f"germane: the service needs {error.name!r}. Install it with: "
            "pip install 'germane[cli,service]'   (in a clone: python3 dev.py run serve)",
            err=True,
        )
        raise typer.Exit(2) from error
    try:
        settings = Settings(
            data=data, host=host, port=port, log=log, store=store, matcher=matcher, shards=shards,
            retention_days=retention, allow_sinks=tuple(allow_sink or ()),
        )  # fmt: skip
        if settings.matcher == SPARK:
            from germane.spark.java import ensure_java

            ensure_java()  # says at once what is missing
        check_port(host, port)  # before anything is made
        configure("supervisor")
        with console.status("Starting …"):
            token = prepare(settings)
    except (GermaneError, OSError) as error:
        typer.echo(f"germane: {error}", err=True)
        raise typer.Exit(2) from error
    status = console.status("Starting …")
    status.start()

    def ready() -> None:
        status.stop()
        _welcome(console, settings.host, settings.port, token)

    said = [""]

    def waiting(why: str) -> None:
        status.update(f"Starting: {why} …")
        if "compiling" in why and why != said[0]:
            console.print(f"{why[0].upper()}{why[1:]}; that takes a few seconds.")
            said[0] = why

    try:
        Supervisor(settings).run(ready, waiting)
    finally:
        status.stop()


def _welcome(console: Console, host: str, port: int, token: str | None) -> None:
    url = f"http://{host}:{port}"
    auth = '-H "Authorization: Bearer $TOKEN"'
    data = '"data": {"start": 16}'
    kind = "-H 'Content-Type: application"
    console.print(f"germane is up: {url}/docs")
    if token is None:
        return
    console.print(
        f"""
The first token (shown once; it opens everything):

  export TOKEN={token}

Subscribe, publish, receive:

  curl {auth} {url}/subscriptions {kind}/json' \\
    -d '{{"subscriber": "ann", "condition": "type = '\\''talk'\\'' AND start < 17"}}'
  curl {auth} {url}/events {kind}/cloudevents+json' \\
    -d '{{"specversion": "1.0", "id": "1", "source": "/me", "type": "talk", {data}}}'
  curl {auth} '{url}/deliveries?subscriber=ann&wait=10'
""",
        soft_wrap=True,
    )
