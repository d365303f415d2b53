"""Every document of feedparser's own tests goes through the reader: messages, or a dead letter.

    pip download --no-binary :all: --no-deps feedparser
    python -m benchmarks.feeds --suite feedparser-6.0.14.tar.gz

The suite is an archive or a folder. A document counts as `messages`, as `dead letter` (with its
reason), as `empty` (a feed without entries), or as `crash` (any exception); every message must be
taken by a filter with a topic graph, its document must parse. Headers that a test wants beside its
document are given to the reader.
"""

from __future__ import annotations

import argparse
import os
import re
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.table import Table

import germane
from germane import ContentGraph
from germane.agent import Feed, Gazetteer, Place, Reader, Seen

from . import record
from .rounds import console

TOPICS = (
    ("Top", "Science"), ("Top", "Sports"), ("Top", "Technology"), ("Technology", "Atom"),
    ("Technology", "RSS"), ("Technology", "Example"), ("Technology", "Feed"),
)  # fmt: skip
PLACES = (Place("Boston", "Boston", (42.36, -71.06)), Place("Massachusetts", "Massachusetts"))
_HEADER = re.compile(rb"^Header:\s*([\w-]+):\s*(.+?)\s*$", re.MULTILINE)


def documents(suite: Path) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every .xml below `tests`."""
    if suite.is_dir():
        for path in sorted(suite.rglob("*.xml")):
            yield str(path.relative_to(suite)), path.read_bytes()
        return
    with tarfile.open(suite) as archive:
        for member in archive:
            if member.isfile() and member.name.endswith(".xml"):
                file = archive.extractfile(member)
                assert file is not None
                yield member.name, file.read()


def _outcome(feed: Feed) -> str:
    if feed.messages:
        return "messages"
    return "dead letter" if feed.dead_letters else "empty" if feed.empty else "?"


def play(suite: Path) -> dict[str, Any]:
    """Read every document by itself, and match what comes out."""
    topics = ContentGraph.from_edges(TOPICS)
    places = ContentGraph.from_edges([("World", "Massachusetts"), ("Massachusetts", "Boston")])
    reader = Reader(topics, Gazetteer(places, PLACES))
    filter_ = germane.Filter(graphs={"topic": topics, "place": places})
    filter_.subscribe("all", "title IS NOT NULL AND document MATCHES 'entry' COST < 1")
    outcomes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    crashes: list[str] = []
    n_messages = n_letters = 0
    for name, content in documents(suite):
        headers = {k.decode().lower(): v.decode() for k, v in _HEADER.findall(content[:2_000])}
        reader.seen = Seen()
        try:
            feed = reader.read(content, name, headers)
            for message in feed.messages:
                row = {k: v for k, v in message.items() if k not in ("id", "published")}
                assert filter_.match(row) == ["all"], f"{name}: {row}"
        except Exception as error:
            crashes.append(f"{name}: {type(error).__name__}: {error}")
            outcomes["crash"] += 1
            continue
        n_messages += len(feed.messages)
        n_letters += len(feed.dead_letters)
        outcomes[_outcome(feed)] += 1
        reasons.update(re.sub(r"\d[\d,]*", "N", letter.reason)[:60] for letter in feed.dead_letters)
    return {
        "documents": sum(outcomes.values()), "outcomes": dict(outcomes), "messages": n_messages,
        "dead_letters": n_letters, "reasons": dict(reasons.most_common(20)), "crashes": crashes,
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--suite", type=Path, required=True, help="the archive, or its folder")
    chosen = parser.parse_args(arguments)
    start = time.perf_counter()
    observed = play(chosen.suite)
    observed["seconds"] = round(time.perf_counter() - start, 1)
    table = Table("what became of them", "documents")
    for name, n in sorted(observed["outcomes"].items()):
        table.add_row(name, f"{n:,}")
    table.add_row("all", f"{observed['documents']:,}")
    console.print(table)
    reasons = Table("dead letters", "times")
    for reason, n in observed["reasons"].items():
        reasons.add_row(reason, f"{n:,}")
    console.print(reasons)
    for crash in observed["crashes"][:20]:
        console.print(crash, markup=False)
    path = record.write("feeds", {"suite": chosen.suite.name}, observed)
    console.print(f"record: {os.path.relpath(path)}")
    return 1 if observed["crashes"] or observed["outcomes"].get("?") else 0


if __name__ == "__main__":
    raise SystemExit(main())
