"""`germane synonyms`: WordNet in, a table of renamings for XML patterns out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from germane.approx import synonyms as wordnet
from germane.model import GermaneError, InvalidValue

EXAMPLE = "Example: germane synonyms /usr/share/wordnet/data.noun --for couch --for car --limit 4"


def synonyms(
    files: Annotated[
        list[Path],
        typer.Argument(exists=True, dir_okay=False, help="WordNet's data.noun, data.verb, …"),
    ],
    words: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A file of words to rename, one a line."),
    ] = None,
    named: Annotated[
        list[str] | None,
        typer.Option("--for", metavar="WORD", help="A word to rename; may be repeated."),
    ] = None,
    distance: Annotated[
        int, typer.Option(help="How many hypernyms and hyponyms away a word may be.")
    ] = 1,
    cost: Annotated[float, typer.Option(help="What a synonym costs.")] = 1.0,
    step: Annotated[float, typer.Option(help="What each link costs on top.")] = 1.0,
    limit: Annotated[int, typer.Option(help="How many words one may become, at most.")] = 8,
    out: Annotated[Path, typer.Option(dir_okay=False, help="Where the table goes.")] = Path(
        "synonyms.yaml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace a table that is there.")] = False,
) -> None:
    """Make a table of synonyms for XML patterns out of WordNet.

    Without --words or --for, the table has all words of the files, which takes long to load: name
    the words of your patterns. Put WordNet's index.noun beside its data.noun, and the usual senses
    of a word come first. The table is YAML, to be read with Transformations.read and to be edited.
    """
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    try:
        if out.exists() and not force:
            raise InvalidValue(f"{out} exists; replace it with --force, or name another with --out")
        wanted = _words(words, named)
        with console.status("Reading WordNet …") as status:

            def told() -> Iterator[Path]:
                for path in files:
                    status.update(f"Reading {path} …")
                    yield path
                status.update("Following links …")

            pairs = wordnet.synonyms(told(), wanted, cost, step, distance, limit)
            sources = {source for source, _ in pairs}
            if not pairs:
                raise InvalidValue("WordNet has no synonyms for these words; nothing was written")
            status.update(f"Writing {out} …")
            with out.open("w" if force else "x", encoding="utf-8", newline="\n") as file:
                file.writelines(wordnet.as_yaml(pairs))
    except (GermaneError, OSError) as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from error
    console.print(f"{len(pairs):,} pairs of {len(sources):,} words in {out}")
    without = [word for word in wanted or () if wordnet.normal(word) not in sources]
    if without:
        more = f" and {len(without) - 10:,} more" if len(without) > 10 else ""
        console.print(f"without synonyms: {', '.join(without[:10])}{more}")


def _words(path: Path | None, named: list[str] | None) -> list[str] | None:
    """The words that were asked for; None means all."""
    if path is None and not named:
        return None
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None else []
    except UnicodeDecodeError as error:
        raise InvalidValue(f"{path} is no text in UTF-8: {error}") from error
    found = [line.strip() for line in lines if line.strip()] + (named or [])
    if not found:
        raise InvalidValue(f"{path} has no words; it has one a line")
    return list(dict.fromkeys(found))
