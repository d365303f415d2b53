"""`germane run`: starts the pipeline of a file, and shows how it gets on."""

import re
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner

from germane.cli import live, quiet
from germane.model import GermaneError

EXAMPLE = """
[bold]A pipeline[/bold] is a file such as this one:

  \\[pipeline]
  checkpoint = "out/checkpoint"

  \\[messages]
  format = "json"
  path = "messages"
  schema = "seq long, id string, price double"

  \\[profiles]
  format = "csv"
  path = "profiles.csv"
  schema = "id string, context string, condition string"
  static = true

  \\[sink]
  kind = "parquet"
  path = "out/deliveries"

docs/examples/pipeline.toml has all keys, with comments and data to try:

  germane run docs/examples/pipeline.toml --once
"""


def run(
    file: Annotated[Path, typer.Argument(help="The pipeline, a TOML file.")],
    once: Annotated[
        bool, typer.Option("--once", help="Take what is there, then end; for cron and for trying.")
    ] = False,
) -> None:
    """Run a pipeline on Spark: messages in, deliveries out, exactly once over restarts.

    While a stream runs, a line shows how it gets on.

    Ctrl-C ends it after its micro-batch; started again, it goes on from there.

    The exit code is 2 if the file is wrong, and 1 if the stream failed.
    """
    console = Console(stderr=True, highlight=False, markup=False)
    try:
        from germane.spark import pipelines

        pipeline = pipelines.read(file)
        session, log = _start(console, pipeline)
        if pipeline.mode == "batch":
            _batch(console, pipeline, session)
        else:
            _follow(console, pipelines.start(pipeline, session, once), pipeline, log)
    except GermaneError as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from error
    log.unlink(missing_ok=True)


def _start(console: Console, pipeline: Any) -> tuple[Any, Path]:
    """A session, and the file that Spark writes its own words to."""
    from germane.spark import pipelines

    with console.status("Starting Spark …"), quiet.into_file() as log:
        try:
            return pipelines.open_session(pipeline), log
        except GermaneError as error:
            raise GermaneError(f"{error} (Spark's own words are in {log})") from error


def _batch(console: Console, pipeline: Any, session: Any) -> None:
    """Run a batch job."""
    from germane.spark import pipelines

    started = time.perf_counter()
    with console.status("Matching …"):
        counts = pipelines.play_once(pipeline, session)
    rows = {name: f"{count:,}" for name, count in counts._asdict().items()}
    rows["took"] = f"{time.perf_counter() - started:,.1f} s"
    console.print(live.summary(rows | _places(pipeline)))


def _follow(console: Console, query: Any, pipeline: Any, log: Path) -> None:
    """Show a stream until it ends."""
    from germane.spark import pipelines

    waiting = Spinner("dots", "waiting for the first micro-batch")
    drawn = Live(waiting, console=console, transient=True, redirect_stdout=sys.stdout.isatty())

    def show(beat: live.Beat) -> None:
        if console.is_terminal:
            waiting.update(text=beat.line())
        else:
            console.print(beat.line(), soft_wrap=True)

    try:
        with live.stopping(console) as stop, drawn:
            totals = live.follow(query, show, stop)
    except Exception as error:
        if not type(error).__module__.startswith("pyspark"):
            raise
        typer.echo(f"The stream failed: {pipelines.in_one_line(error)}", err=True)
        typer.echo(f"What Spark said of it is in {log}.", err=True)
        raise typer.Exit(1) from error
    console.print(totals.table(**_places(pipeline)))


def _places(pipeline: Any) -> dict[str, str]:
    """Where to look for what came out."""
    url = re.sub(r"(://[^/@:]*):[^/]*@", r"\1:***@", pipeline.sink.get("url") or "")
    places = {"deliveries are in": pipeline.sink.get("path") or url}
    places["dead letters are in"] = pipeline.dead_letters
    if pipeline.checkpoint and not pipeline.dead_letters:
        places["dead letters are in"] = f"{pipeline.checkpoint}/germane/dead_letters"
    return {name: place for name, place in places.items() if place}
