"""`germane reshard`: a stopped stream's checkpoint for another number of shards."""

from typing import Annotated

import typer
from rich.console import Console

from germane.cli import quiet
from germane.model import GermaneError


def reshard(
    old: Annotated[str, typer.Argument(help="The checkpoint of a stream that is stopped.")],
    new: Annotated[str, typer.Argument(help="Where the new checkpoint goes.")],
    shards: Annotated[int, typer.Option("--shards", "-n", help="How many shards it has.")],
) -> None:
    """Deal out a stream's profiles and contexts to another number of shards.

    The old checkpoint stays as it is. A stream that is started with the new one reads its sources
    from their beginning and passes over what was taken, so let a source that forgets start no later
    than the seq that is printed.
    """
    console = Console(stderr=True, highlight=False, markup=False)
    try:
        from germane import spark

        with console.status("Starting Spark …"), quiet.into_file():
            session = spark.session()
        with console.status("Reading the state store …"):
            dealt = spark.reshard(session, old, new, shards)
    except GermaneError as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from error
    console.print(
        f"{dealt.profiles:,} profiles and {dealt.contexts:,} contexts on {dealt.shards} shards in "
        f"{new}, taken up to seq {dealt.resumed_at}"
    )
