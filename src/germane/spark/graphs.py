"""Content graphs on their way to shards, as plain data; workers keep the graphs they have built."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from germane.category import ContentGraph
from germane.model import InvalidValue

MOST_KEPT = 16
BUILT: dict[str, ContentGraph] = {}
"""Graphs of this process, by digest."""


def described(graphs: Mapping[str, ContentGraph] | None) -> list[dict[str, Any]]:
    """Each graph once, with the attributes that hold its nodes."""
    found: dict[int, dict[str, Any]] = {}
    for attribute, graph in (graphs or {}).items():
        if not isinstance(graph, ContentGraph):
            raise InvalidValue(f"graphs[{attribute!r}] is a ContentGraph, not {graph!r:.200}")
        about = found.get(id(graph))
        if about is None:
            names, links = graph.kept_names(), graph.links.tolist()
            digest = hashlib.sha256(repr((names, links)).encode()).hexdigest()
            about = {"digest": digest, "attributes": [], "names": names, "links": links}
            found[id(graph)] = about
        about["attributes"].append(attribute)
    return list(found.values())


def rebuilt(described: list[dict[str, Any]]) -> dict[str, ContentGraph]:
    """The graphs by attribute."""
    graphs = {}
    for about in described:
        graph = BUILT.get(about["digest"])
        if graph is None:
            links = np.array(about["links"], np.int64)
            graph = BUILT[about["digest"]] = ContentGraph.from_links(about["names"], links)
            while len(BUILT) > MOST_KEPT:
                del BUILT[next(iter(BUILT))]
        graphs.update(dict.fromkeys(about["attributes"], graph))
    return graphs


def attributes(described: list[dict[str, Any]]) -> set[str]:
    """The attributes that hold nodes."""
    return {name for about in described for name in about["attributes"]}
