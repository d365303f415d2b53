"""``Gazetteer``: a tree of places with their names and positions; which place is meant, or near.

In: rows (node, name, position), and the tree. Out: nodes, for a text, for what a feed says of its
coverage, and for a position. Many places share a name: one is meant if another place that is named
beside it contains it ("Springfield, Massachusetts"); else the one that is nearest to the root, if
it is alone there; else nobody knows, and no place is better than a wrong one.
"""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from germane.agent.names import Names
from germane.category import ContentGraph
from germane.model import InvalidValue

__all__ = ["Gazetteer", "Place"]

EARTH_M = 6_371_008.8
NEAR_M = 50_000.0
MOST_PLACES = 8  # of a message
ROOT = "World"
_LEVELS = ("cc", "admin1", "admin2", "name")
_COLUMNS = ("lat", "lon", *_LEVELS)


class Place(NamedTuple):
    """A node of the tree, what people call it, and where it is."""

    node: str
    name: str
    position: tuple[float, float] | None = None


class Gazetteer:
    """Places by name and by position.

    >>> world = Gazetteer(
    ...     ContentGraph.from_edges([("World", "Massachusetts"), ("Massachusetts", "Boston")]),
    ...     [Place("Boston", "Boston", (42.36, -71.06)), Place("Massachusetts", "Massachusetts")],
    ... )
    >>> world.find("Snow in Boston"), world.near(42.3, -71.1)
    (['Boston'], 'Boston')
    """

    def __init__(self, graph: ContentGraph, places: Iterable[Place]) -> None:
        self.graph = graph
        places = list(places)
        for place in places:
            graph.node(place.node)  # an unknown one is an error
        self._names = Names([(p.name, p.node) for p in places], proper=True)
        placed = [p for p in places if p.position is not None]
        self._nodes = [p.node for p in placed]
        self._points = _vectors(np.array([p.position for p in placed], float).reshape(-1, 2))

    @classmethod
    def read(cls, path: str | Path) -> "Gazetteer":
        """From CSV with the columns lat, lon, name, admin1, admin2, cc, as GeoNames' tables have.

        A node is called by its path: ``US/Massachusetts/Suffolk County/Boston``.
        """
        links: dict[tuple[str, str], None] = {}
        places: dict[str, Place] = {}
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = set(_COLUMNS) - set(reader.fieldnames or ())
            if missing:
                raise InvalidValue(f"{path} has no column {', '.join(sorted(missing))}")
            for row in reader:
                above = ROOT
                for level in _LEVELS:
                    if not row[level]:
                        continue
                    here = row[level] if above == ROOT else f"{above}/{row[level]}"
                    links[above, here] = None
                    if level == "name":
                        position = _position(row, reader.line_num)
                        places[here] = Place(here, row[level], position)
                    elif level != "cc":
                        places.setdefault(here, Place(here, row[level]))
                    above = here
        return cls(ContentGraph.from_edges(list(links)), places.values())

    def find(self, text: str) -> list[str]:
        """Nodes of the places that a text names, the most special ones only."""
        named = [found.nodes for found in self._names.find(text)]
        sure: list[str] = []
        for nodes in named:
            meant = self._meant(nodes, [other for other in named if other is not nodes])
            if meant is not None and meant not in sure:
                sure.append(meant)
        covers = self.graph.covers
        special = [a for a in sure if not any(a != b and covers(a, b) for b in sure)]
        return special[:MOST_PLACES]

    def _meant(self, nodes: tuple[str, ...], others: list[tuple[str, ...]]) -> str | None:
        """Which of the places of one name is meant."""
        if len(nodes) == 1:
            return nodes[0]
        beside = {node for other in others for node in other} - set(nodes)
        inside = [n for n in nodes if not beside.isdisjoint(self.graph.ancestors(n))]
        if len(inside) == 1:
            return inside[0]
        depths = {n: len(self.graph.ancestors(n)) for n in inside or nodes}
        least = min(depths.values())
        highest = [n for n, depth in depths.items() if depth == least]
        return highest[0] if len(highest) == 1 else None

    def near(self, latitude: float, longitude: float, most_m: float = NEAR_M) -> str | None:
        """The nearest place with a position, unless it is further than so many metres."""
        if not self._nodes or not (abs(latitude) <= 90 and abs(longitude) <= 180):
            return None
        along = self._points @ _vectors(np.array([[latitude, longitude]]))[0]
        at = int(along.argmax())
        if EARTH_M * float(np.arccos(np.clip(along[at], -1, 1))) > most_m:
            return None
        return self._nodes[at]


def _position(row: dict[str, str], line: int) -> tuple[float, float]:
    try:
        latitude, longitude = float(row["lat"]), float(row["lon"])
    except (TypeError, ValueError):
        latitude, longitude = np.nan, np.nan
    if not (abs(latitude) <= 90 and abs(longitude) <= 180):
        raise InvalidValue(f"line {line}: {row['lat']!r:.40}, {row['lon']!r:.40} is no position")
    return latitude, longitude


def _vectors(degrees: np.ndarray) -> np.ndarray:
    """Points of the unit sphere."""
    latitude, longitude = np.radians(degrees).T
    flat = np.cos(latitude)
    return np.stack([flat * np.cos(longitude), flat * np.sin(longitude), np.sin(latitude)], axis=1)
