"""`germane approx check`: how a pattern is found in a document, and at which cost."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from germane.approx.documents import MAX_BYTES, parse
from germane.approx.embedding import embeddings
from germane.approx.patterns import Patterns
from germane.approx.transformations import NONE, Prices, Transformations
from germane.language.patterns import parse_pattern
from germane.model import GermaneError, InvalidValue

app = typer.Typer(help="Approximate XML patterns.", no_args_is_help=True)
EXAMPLE = "Example: germane approx check pattern.txt document.xml --transformations prices.yaml"


@app.callback()
def _group() -> None:
    """Approximate XML patterns."""


@app.command("check", epilog=EXAMPLE)
def check(
    pattern: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="A file with one pattern.")
    ],
    document: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An XML document.")],
    transformations: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Tables of costs, in YAML."),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Show only events that cost less.")
    ] = None,
    most: Annotated[int, typer.Option(help="Show so many events at most.")] = 20,
) -> None:
    """Print the cheapest way to find a pattern in a document, for every element it can be.

    Without --transformations, the paper's costs: 15 to skip a label, 5 to skip a value.
    """
    out = Console(highlight=False, markup=False, soft_wrap=True)
    try:
        prices = Transformations(defaults="paper")
        if transformations is not None:
            prices = Transformations.read(transformations)
        if document.stat().st_size > MAX_BYTES:
            raise InvalidValue(f"{document} has more than {MAX_BYTES:,} bytes")
        text = pattern.read_text(encoding="utf-8").strip()
        patterns = Patterns()
        number = patterns.define(parse_pattern(text), threshold or 1.0, Prices(NONE, prices))
        flat = parse(document.read_bytes())
        events = embeddings(patterns.vertex(number), flat, *patterns.insertions(number))
    except (GermaneError, OSError, UnicodeDecodeError) as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from error
    shown = [event for event in events if threshold is None or event.cost < threshold]
    for event in shown[:most]:
        out.print(str(event))
        out.print()
    if len(shown) > most:
        out.print(f"and {len(shown) - most:,} more")
    if not shown:
        below = f" for less than {threshold:g}" if events and threshold is not None else ""
        out.print(f"the pattern is nowhere in the document{below}")
        raise typer.Exit(1)
