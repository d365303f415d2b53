"""`germane fetch`: feeds of the web or of a folder in, messages as JSON lines out."""

import json
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from germane.category import ContentGraph
from germane.model import GermaneError

EXAMPLE = "Example: germane fetch https://example.org/feed.xml folder/ --topics topics.csv"


def fetch(
    addresses: Annotated[
        list[str] | None, typer.Argument(help="http or https addresses, files, folders.")
    ] = None,
    opml: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A list of feeds, from another reader."),
    ] = None,
    topics: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="The graph of topics: parent, child."),
    ] = None,
    places: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="CSV: lat, lon, name, admin1, admin2, cc."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="A file that remembers what was seen, and when to ask again."),
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="Allow addresses of your own network.")
    ] = False,
) -> None:
    """Fetch feeds once, and print what is new.

    What is no feed is reported on stderr; the exit code is then 1.
    """
    try:
        from germane.agent import Fetcher, Gazetteer, Reader, Seen, read_opml

        graph = ContentGraph.read(topics) if topics else None
        world = Gazetteer.read(places) if places else None
        known = json.loads(state.read_text(encoding="utf-8")) if state and state.exists() else {}
        reader = Reader(graph, world, Seen(keys=known.get("seen", ())))
        fetcher = Fetcher(reader, known.get("sources", ()), private=private)
        wanted = list(addresses or ())
        wanted += [feed.address for feed in read_opml(opml.read_bytes())] if opml else []
        if not wanted:
            raise GermaneError("nothing to fetch: give addresses, folders or --opml")
        bad = sum([_print(fetcher.fetch(address)) for address in wanted])
        fetcher.close()
    except (GermaneError, OSError, ValueError) as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from error
    if state:
        kept = {"seen": reader.seen.state(), "sources": fetcher.state()}
        state.write_text(json.dumps(kept), encoding="utf-8")
    if bad:
        raise typer.Exit(1)


def _print(feed: Any) -> int:
    """Print messages; return how many dead letters there are."""
    for message in feed.messages:
        typer.echo(json.dumps(message, ensure_ascii=False, default=_iso))
    for letter in feed.dead_letters:
        typer.echo(f"{letter.source}: {letter.reason}", err=True)
    return len(feed.dead_letters)


def _iso(value: Any) -> str:
    assert isinstance(value, datetime)
    return value.isoformat().replace("+00:00", "Z")
