"""`germane replay`: play the service's log again, to check the tables or to make them anew."""

from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from germane.model import GermaneError


def replay(
    begin: Annotated[int, typer.Option("--from", min=1, help="The first seq to play again.")] = 1,
    data: Annotated[str, typer.Option(help="The data directory of the service.")] = "germane-data",
    log: Annotated[str, typer.Option(help="As for serve.")] = "",
    store: Annotated[str, typer.Option(help="As for serve.")] = "",
    rebuild: Annotated[
        bool, typer.Option(help="Take deliveries back, and let the service make them again.")
    ] = False,
) -> None:
    """Play the log of a service again from SEQ on.

    Without more, deliveries are compared with what the log says, and nothing is changed; that also
    works while the service runs. With --rebuild (the service must be stopped) everything from SEQ
    on is taken back; when the service starts, it matches and delivers that again.
    """
    console = Console(stderr=True, highlight=False, markup=False)
    try:
        from germane.service import installation, replaying

        with installation.opened(data, log, store) as place:
            if rebuild:
                with place.alone("matcher"):
                    for tenant in replaying.numbers_of_tenants(place.engine):
                        n = replaying.rebuild(*place, tenant, begin)
                        console.print(f"tenant {tenant}: {n:,} deliveries taken back")
                console.print("Start the service: it goes on from there.")
                return
            wrong = 0
            with Progress(console=console, transient=True) as bar:
                task = bar.add_task("events", total=None)
                for tenant in replaying.numbers_of_tenants(place.engine):
                    found = replaying.check(*place, tenant, begin, lambda n: bar.advance(task, n))
                    wrong += _show(console, found)
    except GermaneError as error:
        typer.echo(f"germane: {error}", err=True)
        raise typer.Exit(2) from error
    raise typer.Exit(1 if wrong else 0)


def _show(console: Console, found: object) -> int:
    from germane.service.replaying import Compared

    assert isinstance(found, Compared)
    console.print(
        f"tenant {found.tenant}: {found.n_messages:,} messages, {found.n_deliveries:,} deliveries"
    )
    for what, pairs in (("missing", found.missing), ("surplus", found.surplus)):
        for seq, subscriber in pairs[:10]:
            console.print(f"  {what}: message {seq} for subscriber {subscriber}")
        if len(pairs) > 10:
            console.print(f"  … and {len(pairs) - 10:,} more {what}")
    if not found.missing and not found.surplus:
        console.print("  as recorded")
    return len(found.missing) + len(found.surplus)
