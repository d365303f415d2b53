"""`germane demo`: real flights through the pipeline on Spark, or a small story without it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from germane.cli.demo import story as small
from germane.cli.demo.flights import show


def demo(
    days: Annotated[
        int, typer.Option(min=1, max=364, help="Days of 2013, around a blizzard.")
    ] = 10,
    travellers: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="People with three profiles each, or four.")
    ] = 10_000,
    output: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path(
        "germane-demo.png"
    ),
    story: Annotated[
        bool, typer.Option("--story", help="A small story instead, event by event, without Spark.")
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="The story without colours and drawing.")
    ] = False,
    fast: Annotated[bool, typer.Option("--fast", help="The story with a smaller crowd.")] = False,
) -> None:
    """See the filter at work: flights of New York, travellers whose plans change, a blizzard.

    Ten days take about a minute on two free cores, more on the very first run.
    """
    if not (story or plain or fast):
        console = Console(highlight=False)
        if output.suffix.lower() not in (".png", ".pdf", ".svg"):
            raise typer.BadParameter("a picture is a .png, .pdf or .svg", param_hint="--output")
        try:
            show.play(console, days, travellers, output)
            return
        except show.NotHere as error:
            instead = "Here is the small story instead, which needs no Spark."
            console.print(f"{error}\n{instead}\n", markup=False)
        except show.Failed as error:
            typer.echo(error, err=True)
            raise typer.Exit(1) from error
    small.tell(plain, fast)
