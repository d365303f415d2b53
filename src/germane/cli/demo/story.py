"""`germane demo`: a small story that shows every kind of event, then a crowd that shows speed."""

from typing import Annotated

import typer
from rich.console import Console

from germane.cli.demo import crowd, timeline
from germane.cli.demo.marks import DRAWN, PLAIN

_COMPILING = "Compiling the kernels: about a minute on the first run, seconds later on."


def demo(
    plain: Annotated[bool, typer.Option("--plain", help="No colours, no drawing.")] = False,
    fast: Annotated[bool, typer.Option("--fast", help="A smaller crowd.")] = False,
) -> None:
    """See the filter at work: who gets what, who does not, and why."""
    console = Console(no_color=plain, force_terminal=False if plain else None, highlight=False)
    marks = PLAIN if plain else DRAWN
    with console.status(_COMPILING):
        if not console.is_terminal:
            console.print(_COMPILING)
        timeline.play(Console(quiet=True), marks)
        crowd.warm_up()
    console.rule("1. An afternoon, event by event", align="left", characters=marks.line)
    timeline.play(console, marks)
    console.print()
    console.rule("2. A crowd on the move", align="left", characters=marks.line)
    size = crowd.Size(n_profiles=5_000, n_rounds=20) if fast else crowd.Size()
    crowd.run(console, size)
