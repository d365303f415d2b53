"""`germane deadletters`: what was not taken, why, and once more."""

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from germane.model import GermaneError


def deadletters(
    data: Annotated[str, typer.Option(help="The data directory of the service.")] = "germane-data",
    log: Annotated[str, typer.Option(help="As for serve.")] = "",
    store: Annotated[str, typer.Option(help="As for serve.")] = "",
    tenant: Annotated[int, typer.Option(help="The tenant's number.")] = 1,
    redrive: Annotated[
        list[str] | None,
        typer.Option(help="The id of a letter to drive again; 'all' for all of them."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many of each kind.")] = 50,
) -> None:
    """List events that no filter took and deliveries that no webhook took; drive them again."""
    console = Console(highlight=False, markup=False)
    try:
        from germane.service import installation, letters
        from germane.service.reader import Reader

        with installation.opened(data, log, store) as place:
            reader = Reader(place.log, place.engine)
            found = letters.events(reader, tenant, 0, limit)
            found += letters.deliveries(reader, tenant, (0, letters.LAST), limit)
            if not redrive:
                _show(console, found)
                return
            chosen = [each for each in found if "all" in redrive or each["id"] in redrive]
            for each in chosen:
                if each["kind"] == "delivery":
                    letters.change_delivery(place.engine, tenant, each["id"])
                    console.print(f"{each['id']}: waits to be sent again")
                else:
                    [seq] = place.log.append([letters.entry_of(tenant, each["event"])])
                    letters.driven(place.engine, tenant, each["id"], seq)
                    console.print(f"{each['id']}: appended again as event {seq}")
            unknown = set(redrive) - {"all"} - {each["id"] for each in chosen}
            if unknown:
                console.print(f"no such dead letter: {', '.join(sorted(unknown))}")
                raise typer.Exit(1)
    except GermaneError as error:
        typer.echo(f"germane: {error}", err=True)
        raise typer.Exit(2) from error


def _show(console: Console, found: list[dict[str, Any]]) -> None:
    if not found:
        console.print("No dead letters.")
        return
    table = Table("id", "at", "what", "reason", box=None, header_style="bold")
    for each in found:
        what = f"event {each['seq']}" if each["kind"] == "event" else str(each["sink"])
        table.add_row(each["id"], each["at"][:19], what, str(each["reason"]).splitlines()[0])
    console.print(table)
