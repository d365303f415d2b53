"""Content graphs for the oracle: a dict of sets, and a search for every question.

In: edges as pairs (parent, child) of names. Out: whether one node covers another, that is, is it
or stands above it. Nothing is condensed or remembered: a cycle is only a search that comes back.
"""

from __future__ import annotations

from collections.abc import Iterable

Edge = tuple[str, str]


class NaiveGraph:
    """Nodes and edges. A node stays once it was named; only edges go."""

    def __init__(self, edges: Iterable[Edge] = (), nodes: Iterable[str] = ()) -> None:
        self._children: dict[str, set[str]] = {node: set() for node in nodes}
        self.add(edges)

    @property
    def nodes(self) -> set[str]:
        return set(self._children)

    def add(self, edges: Iterable[Edge]) -> None:
        for parent, child in edges:
            self._children.setdefault(parent, set()).add(child)
            self._children.setdefault(child, set())

    def remove(self, edges: Iterable[Edge]) -> None:
        """An edge between known nodes that is not there is no error."""
        for parent, child in edges:
            self._children[parent] -= {child}

    def covers(self, a: str, b: str) -> bool:
        """Is there a path of no, one or more edges from a to b?"""
        seen, open_ = {a}, [a]
        while open_:
            new = self._children[open_.pop()] - seen
            seen |= new
            open_ += new
        return b in seen


def clean(edges: Iterable[Edge]) -> tuple[list[Edge], list[Edge]]:
    """The links that are kept and those that are dropped, both in the given order.

    Depth is the breadth-first distance from the nearest root in the graph as given, self loops
    aside (see `depths`). Then, link by link in the given order, one is dropped if it is a self
    loop, if it was kept already, if its target is strictly shallower than its source, or if its
    target covers its source through links kept so far. So links to a deeper node always stay, and
    with them the shortest ways from the roots; nothing kept has a cycle; the order decides only
    among links between nodes of one depth. A second, longer way to a node may be cut even where
    there was no cycle.
    """
    edges = list(edges)
    depth = depths(edges)
    kept, dropped, graph = [], [], NaiveGraph(nodes=depth)
    for parent, child in edges:
        bad = depth[child] < depth[parent] or graph.covers(child, parent)
        (dropped if bad or (parent, child) in kept else kept).append((parent, child))
        graph.add(kept[-1:])
    return kept, dropped


def depths(edges: list[Edge]) -> dict[str, int]:
    """Node -> distance from the nearest root.

    Roots are the nodes without a parent other than themselves; then, as long as some node is
    below no root, the first-named such node is a root too.
    """
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    graph = NaiveGraph(edges)
    below = {child for parent, child in edges if parent != child}
    roots = [name for name in names if name not in below]
    for name in names:
        if not any(graph.covers(root, name) for root in roots):
            roots.append(name)
    depth = dict.fromkeys(roots, 0)
    level = 0
    while level in depth.values():
        for parent, child in edges:
            if depth.get(parent) == level:
                depth.setdefault(child, level + 1)
        level += 1
    return depth
