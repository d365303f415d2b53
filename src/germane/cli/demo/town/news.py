"""What is said in town: the bundled feeds, read as any feeds, as CloudEvents without end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

import germane
from germane.agent.feeds import Reader
from germane.agent.gazetteer import Gazetteer, Place
from germane.cli.demo.town.places import PLACE_EDGES, TOPIC_EDGES, VENUES, at

FEEDS = Path(__file__).parent / "feeds"


def read_feeds(folder: Path = FEEDS) -> list[dict[str, Any]]:
    """Every entry of the feeds in a folder, as the data of an event."""
    tree = germane.ContentGraph.from_edges(PLACE_EDGES)
    nodes = sorted({node for edge in PLACE_EDGES for node in edge})
    places = [Place(n, n, at(*VENUES[n]) if n in VENUES else None) for n in nodes]
    reader = Reader(germane.ContentGraph.from_edges(TOPIC_EDGES), Gazetteer(tree, places))
    found = []
    for path in sorted(folder.glob("*.xml")):
        feed = reader.read(path.read_bytes(), path.stem)
        found += [_data(message, feed.title) for message in feed.messages]
    return found


def events(entries: list[dict[str, Any]], rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Entries in random order, again and again, each time as a new event."""
    number = 0
    while True:
        for k in rng.permutation(len(entries)):
            number += 1
            yield {
                "specversion": "1.0",
                "id": f"news-{number}",
                "source": "/town",
                "type": "news",
                "data": entries[k],
            }


def _data(message: dict[str, Any], feed: str) -> dict[str, Any]:
    kept = ("title", "topic", "place", "position", "link")
    data = {name: message[name] for name in kept if message.get(name)}
    document = ElementTree.fromstring(message["document"])  # the reader wrote it: well-formed
    text = document.findtext("text")
    return {**data, "feed": feed, **({"summary": text} if text else {})}
