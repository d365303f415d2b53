"""`germane doctor`: is the service well?"""

from typing import Annotated

import typer
from rich.console import Console

from germane.model import GermaneError


def doctor(
    data: Annotated[str, typer.Option(help="The data directory of the service.")] = "germane-data",
    log: Annotated[str, typer.Option(help="As for serve.")] = "",
    store: Annotated[str, typer.Option(help="As for serve.")] = "",
) -> None:
    """Look at an installation of the service: disk, log, tables, snapshots, webhooks."""
    console = Console(highlight=False, markup=False)
    try:
        from germane.service.doctor import examine
        from germane.service.settings import Settings

        findings = list(examine(Settings(data=data, log=log, store=store)))
    except GermaneError as error:
        typer.echo(f"germane: {error}", err=True)
        raise typer.Exit(2) from error
    for well, what, remedy in findings:
        console.print(f"✓ {what}" if well else f"✗ {what} → {remedy}")
    raise typer.Exit(0 if all(finding.well for finding in findings) else 1)
