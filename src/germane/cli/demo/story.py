"""The demo without Spark: a small story with every kind of event, then a crowd that shows speed."""

from rich.console import Console

from germane.cli.demo import crowd, timeline
from germane.cli.demo.marks import DRAWN, PLAIN

_COMPILING = "Compiling the kernels: about a minute on the first run, seconds later on."


def tell(plain: bool, fast: bool) -> None:
    """Tell the story; ``plain`` is without colours and drawing, ``fast`` with a smaller crowd."""
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
