"""`germane fetch`: feeds of the web or of a folder in, messages as JSON lines out."""

import json
import os
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
        known = _known(state)
        reader = Reader(graph, world, Seen(keys=known["seen"]))
        try:
            fetcher = Fetcher(reader, known["sources"], private=private)
        except GermaneError as error:
            raise GermaneError(f"{state}: {error}") from error
        wanted = list(addresses or ())
        wanted += [feed.address for feed in read_opml(opml.read_bytes())] if opml else []
        if not wanted:
            raise GermaneError("nothing to fetch: give addresses, folders or --opml")
        for address in wanted:
            fetcher.check(address)
        bad = 0
        try:
            for address in wanted:
                with fetcher.handed_out(address) as feed:  # known when all of it is out
                    bad += _print(feed)
        finally:  # what was printed is not to be printed again
            if state:
                _keep(state, {"seen": reader.seen.state(), "sources": fetcher.state()})
    except (GermaneError, OSError, ValueError) as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from error
    if bad:
        raise typer.Exit(1)


def _known(state: Path | None) -> dict[str, Any]:
    """What a file of state says: keys that were seen, and sources."""
    none: dict[str, Any] = {"seen": [], "sources": []}
    if state is None:
        return none
    folder = state.resolve().parent
    if not folder.is_dir():
        raise GermaneError(f"{state}: there is no folder {folder}; make it first")
    if not state.exists():
        return none
    remedy = "delete it to begin anew, or give another file"
    try:
        known = json.loads(state.read_text(encoding="utf-8"))
    except ValueError as error:
        raise GermaneError(f"{state} is no state of germane fetch: {error}; {remedy}") from error
    if not isinstance(known, dict):
        raise GermaneError(f"{state} is no state of germane fetch: no object; {remedy}")
    known = none | known
    if not all(isinstance(known[name], list) for name in none):
        raise GermaneError(f"{state}: seen and sources must be lists; {remedy}")
    if not all(isinstance(key, str) for key in known["seen"]):
        raise GermaneError(f"{state}: seen has a key that is no text; {remedy}")
    return known


def _keep(state: Path, known: dict[str, Any]) -> None:
    """Write a file of state as a whole: it is the one of before until then."""
    whole = state.resolve()  # not in the place of a link
    part = whole.with_name(f"{whole.name}.{os.getpid()}.part")
    mode = whole.stat().st_mode & 0o777 if whole.exists() else 0o666
    try:
        part.touch(mode)
        part.write_text(json.dumps(known), encoding="utf-8")
        part.replace(whole)
    finally:
        part.unlink(missing_ok=True)


def _print(feed: Any) -> int:
    """Print messages; return how many dead letters there are."""
    for message in feed.messages:
        typer.echo(json.dumps(message, ensure_ascii=False, default=_iso))  # it flushes
    for letter in feed.dead_letters:
        typer.echo(f"{letter.source}: {letter.reason}", err=True)
    return len(feed.dead_letters)


def _iso(value: Any) -> str:
    assert isinstance(value, datetime)
    return value.isoformat().replace("+00:00", "Z")
