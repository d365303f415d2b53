"""`germane match`: profiles and messages as JSON lines in, deliveries as JSON lines out."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import germane
from germane.cli.lines import Lines, take


def match(
    profiles: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help='JSON lines: {"id": …, "condition": …, "context": …, "dialect": …}, '
            "the last two optional.",
        ),
    ],
    messages: Annotated[
        Path | None,
        typer.Argument(
            exists=True,
            dir_okay=False,
            allow_dash=True,
            help='JSON lines: attributes, and an "id" if you like. Default: standard input.',
        ),
    ] = None,
    contexts: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help='JSON lines: {"id": …, attribute: value, …}.'
        ),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say why, in each delivery.")] = False,
    index: Annotated[str, typer.Option(help="scan, eager, partial, gbu, agile or auto.")] = "agile",
) -> None:
    """Match messages against profiles, and print who gets what.

    A bad line is reported on stderr with its number and the reason, and the rest goes on;
    the exit code is then 1.
    """
    lines = Lines()
    try:
        filter_ = germane.Filter(index=index)
    except germane.GermaneError as error:
        raise typer.BadParameter(str(error), param_hint="--index") from error

    def update(_: int, row: dict[str, Any]) -> None:
        filter_.update(take(row, "id"), row)

    def subscribe(_: int, row: dict[str, Any]) -> None:
        context, dialect = row.get("context"), row.get("dialect")
        filter_.subscribe(take(row, "id"), take(row, "condition"), context, dialect=dialect)

    def deliver(number: int, row: dict[str, Any]) -> None:
        message_id = row.pop("id", number)
        for profile_id in filter_.match(row):
            delivery = {"message": message_id, "profile": profile_id}
            if explain:
                delivery["why"] = str(filter_.explain(profile_id, row))
            print(json.dumps(delivery, ensure_ascii=False), flush=True)

    if contexts is not None:
        lines.each(contexts, update)
    lines.each(profiles, subscribe)
    lines.each(messages, deliver)
    if lines.n_bad:
        raise typer.Exit(1)
