"""`germane demo`: a town on the whole service; or flights on Spark, or a small story."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from germane.cli.demo import story as small


def demo(
    seconds: Annotated[
        float | None, typer.Option(min=0, help="End after so long; by default on Ctrl-C.")
    ] = None,
    people: Annotated[
        int, typer.Option(min=0, max=10_000, help="People in the town besides six with names.")
    ] = 400,
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65_535, help="Where the page is served; by default 8010, or any free one."
        ),
    ] = None,
    flights: Annotated[
        bool, typer.Option("--flights", help="Real flights and a blizzard, on Spark, instead.")
    ] = False,
    days: Annotated[
        int, typer.Option(min=1, max=364, help="Flights: days of 2013, around a blizzard.")
    ] = 10,
    travellers: Annotated[
        int,
        typer.Option(min=1, max=1_000_000, help="Flights: people with three profiles, or four."),
    ] = 10_000,
    output: Annotated[Path, typer.Option(help="Flights: where the picture goes.")] = Path(
        "germane-demo.png"
    ),
    story: Annotated[
        bool,
        typer.Option("--story", help="A small story instead, event by event, on the terminal."),
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="The story without colours and drawing.")
    ] = False,
    fast: Annotated[bool, typer.Option("--fast", help="The story with a smaller crowd.")] = False,
) -> None:
    """See the filter at work: a town whose people move, and messages that find the right ones.

    Starts the whole service and prints the address of a page; opens it where there is a display.
    """
    if story or plain or fast:
        small.tell(plain, fast)
    elif flights:
        _flights(days, travellers, output)
    else:
        _town(people, port, seconds)


def _town(size: int, port: int | None, seconds: float | None) -> None:
    console = Console(highlight=False)
    try:
        from germane.cli.demo.town import show
    except ModuleNotFoundError as error:
        typer.echo(
            f"germane: the demo needs {error.name!r}. Install it with: pip install 'germane[demo]'"
            "   (in a clone: python3 dev.py demo)",
            err=True,
        )
        raise typer.Exit(2) from error
    try:
        show.play(console, size, port, seconds)
    except (show.Failed, OSError) as error:
        typer.echo(f"germane: {error}", err=True)
        raise typer.Exit(1) from error


def _flights(days: int, travellers: int, output: Path) -> None:
    from germane.cli.demo.flights import show

    console = Console(highlight=False)
    if output.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise typer.BadParameter("a picture is a .png, .pdf or .svg", param_hint="--output")
    try:
        show.play(console, days, travellers, output)
    except show.NotHere as error:
        instead = "Here is the small story instead, which needs no Spark."
        console.print(f"{error}\n{instead}\n", markup=False)
        small.tell(False, False)
    except show.Failed as error:
        typer.echo(error, err=True)
        raise typer.Exit(1) from error
