"""`germane check`: how a condition is understood, or where it is not."""

from typing import Annotated

import typer
from rich.console import Console

import germane
from germane.language import as_dialect, compile_condition
from germane.model import Schema


def check(
    condition: Annotated[str, typer.Argument(help="A condition, in quotes of your shell.")],
    dialect: Annotated[str, typer.Option(help="germane, cesql or filters.")] = "germane",
) -> None:
    """Parse a condition and print how it is understood, or what is wrong with it."""
    out = Console(highlight=False, markup=False, soft_wrap=True)
    try:
        draft = Schema().draft("this condition")
        compiled = compile_condition(condition, draft, dialect=as_dialect(dialect))
        filter_ = germane.Filter()
        filter_.subscribe("it", condition, context="someone", dialect=dialect)
    except germane.GermaneError as error:
        typer.echo(error, err=True)
        raise typer.Exit(1) from error
    for place, prefix, names in (
        ("message", "", compiled.message_names),
        ("context", "context.", compiled.context_names),
    ):
        types = {name: draft.type_of(name) or "any type" for name in sorted(names)}
        read = [f"{prefix}{name} ({type_})" for name, type_ in types.items()]
        out.print(f"reads of the {place}: {', '.join(read) or 'nothing'}")
    alternatives = filter_.explain("it", {}).conjunctions
    out.print(_HEADINGS.get(len(alternatives), "delivers if one of these is TRUE:"))
    for number, steps in enumerate(alternatives, start=1):
        label = f"  {number}. " if len(alternatives) > 1 else "  "
        out.print(label + (" AND ".join(step.text for step in steps) or "TRUE"))


_HEADINGS = {0: "never delivers: no message makes it TRUE", 1: "delivers if this is TRUE:"}
