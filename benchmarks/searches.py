"""Peers on content graphs: the paper's two other matchers, graph libraries, a closure table.

Each answers which users an event reaches, one event at a time, from node numbers. The paper's
matchers are written as it describes them: notification-oriented on topics, subscription-oriented on
places. Each has two forms: plain Python, as its authors would write it today, and compiled, so that
the language is not what is measured. Graph libraries expand the event's nodes and look users up in
inverted lists; NumPy unites and intersects them.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import numpy as np
from numba import njit

from .topics import Work


def inverted(nodes: np.ndarray, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Users by node: where each node's users begin, and the users."""
    order = np.argsort(nodes.ravel(), kind="stable")
    users = (order // nodes.shape[1]).astype(np.int32)
    at = np.zeros(n_nodes + 1, np.int64)
    np.cumsum(np.bincount(nodes.ravel(), minlength=n_nodes), out=at[1:])
    return at, users


def parents_of(graph: Any) -> tuple[np.ndarray, np.ndarray]:
    """Parents by node."""
    return graph._up_at, graph._up


class Peer:
    """Finds the users of an event."""

    name = ""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.topic_at, self.topic_users = inverted(work.topics, len(work.topic))
        self.place_at, self.place_users = inverted(work.places, len(work.place))

    def find(self, topics: list[int], places: list[int]) -> np.ndarray:
        raise NotImplementedError

    def by_topics(self, nodes: Any) -> np.ndarray:
        parts = [self.topic_users[self.topic_at[n] : self.topic_at[n + 1]] for n in nodes]
        return np.unique(np.concatenate(parts))

    def by_places(self, nodes: Any) -> np.ndarray:
        parts = [self.place_users[self.place_at[n] : self.place_at[n + 1]] for n in nodes]
        return np.unique(np.concatenate(parts))


class Unoptimised(Peer):
    """The paper's 4.1 in Python: search the topic graph upwards, and climb from every place."""

    name = "unoptimised search"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        for which, graph in (("topic", work.topic), ("place", work.place)):
            at, up = parents_of(graph)
            lists = [up[at[n] : at[n + 1]].tolist() for n in range(len(graph))]
            setattr(self, f"{which}_parents", lists)
        self.users_of_topic: dict[int, list[int]] = {}
        self.users_of_place: dict[int, list[int]] = {}
        for user, (topics, places) in enumerate(
            zip(work.topics.tolist(), work.places.tolist(), strict=True)
        ):
            for node in set(topics):
                self.users_of_topic.setdefault(node, []).append(user)
            for node in set(places):
                self.users_of_place.setdefault(node, []).append(user)

    def find(self, topics: list[int], places: list[int]) -> np.ndarray:
        seen = set(topics)
        stack = list(seen)
        parents: list[list[int]] = self.topic_parents  # type: ignore[attr-defined]
        while stack:
            for parent in parents[stack.pop()]:
                if parent not in seen:
                    seen.add(parent)
                    stack.append(parent)
        found = {u for node in seen for u in self.users_of_topic.get(node, ())}
        wanted = set(places)
        above: list[list[int]] = self.place_parents  # type: ignore[attr-defined]
        there = set()
        for place, users in self.users_of_place.items():
            node = place
            while node not in wanted and above[node]:
                node = above[node][0]
            if node in wanted:
                there.update(users)
        return np.array(sorted(found & there))


class ContentLists(Peer):
    """The paper's 4.2 in Python: events bring all topics above, users all places above."""

    name = "content lists"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.users_of_topic: dict[int, list[int]] = {}
        for user, topics in enumerate(work.topics.tolist()):
            for node in set(topics):
                self.users_of_topic.setdefault(node, []).append(user)
        view = work.place.view
        rows = [view.above[a : a + n].tolist() for a, n in
                zip(view.above_at.tolist(), view.above_n.tolist(), strict=True)]  # fmt: skip
        self.places_of = [
            frozenset(x for place in row for x in rows[place]) for row in work.places.tolist()
        ]
        view = work.topic.view
        self.above = view

    def expand(self, topics: list[int]) -> set[int]:
        """The list that an event would bring along; not timed by the paper, nor here."""
        view = self.above
        listed: set[int] = set()
        for node in topics:
            at = view.above_at[node]
            listed.update(view.above[at : at + view.above_n[node]].tolist())
        return listed

    def find(self, topics: list[int], places: list[int]) -> np.ndarray:
        return self.find_listed(self.expand(topics), places)

    def find_listed(self, listed: set[int], places: list[int]) -> np.ndarray:
        found = set()
        wanted = set(places)
        lists, places_of = self.users_of_topic, self.places_of
        for node in listed:
            for user in lists.get(node, ()):
                if not wanted.isdisjoint(places_of[user]):
                    found.add(user)
        return np.array(sorted(found))


@njit(cache=True)
def _search(topics, places, up_at, up, t_at, t_users, p_up_at, p_up, p_at, p_users, marks, out):  # type: ignore[no-untyped-def]
    seen = np.zeros(up_at.shape[0], np.bool_)
    stack = np.empty(up_at.shape[0], np.int32)
    n_stack = 0
    for t in topics:
        if not seen[t]:
            seen[t] = True
            stack[n_stack] = t
            n_stack += 1
    marks[:] = 0
    while n_stack:
        n_stack -= 1
        node = stack[n_stack]
        for e in range(t_at[node], t_at[node + 1]):
            marks[t_users[e]] = 1
        for k in range(up_at[node], up_at[node + 1]):
            if not seen[up[k]]:
                seen[up[k]] = True
                stack[n_stack] = up[k]
                n_stack += 1
    n = 0
    for place in range(p_at.shape[0] - 1):
        if p_at[place] == p_at[place + 1]:
            continue
        node = place
        while True:
            hit = False
            for p in places:
                hit |= p == node
            if hit or p_up_at[node] == p_up_at[node + 1]:
                break
            node = p_up[p_up_at[node]]
        if hit:
            for e in range(p_at[place], p_at[place + 1]):
                if marks[p_users[e]] == 1:
                    marks[p_users[e]] = 2
                    out[n] = p_users[e]
                    n += 1
    return n


class UnoptimisedCompiled(Peer):
    """The paper's 4.1, compiled."""

    name = "unoptimised search, compiled"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.marks = np.zeros(work.n_users, np.int8)
        self.out = np.empty(work.n_users, np.int32)

    def find(self, topics: list[int], places: list[int]) -> np.ndarray:
        n = _search(
            np.array(topics), np.array(places), *parents_of(self.work.topic), self.topic_at,
            self.topic_users, *parents_of(self.work.place), self.place_at, self.place_users,
            self.marks, self.out,
        )  # fmt: skip
        return np.sort(self.out[:n])


@njit(cache=True)
def _lists(listed, places, t_at, t_users, l_at, l_places, marks, epoch, out):  # type: ignore[no-untyped-def]
    n = 0
    for node in listed:
        for e in range(t_at[node], t_at[node + 1]):
            user = t_users[e]
            if marks[user] == epoch:
                continue
            marks[user] = epoch
            hit = False
            for k in range(l_at[user], l_at[user + 1]):
                for p in places:
                    hit |= l_places[k] == p
            if hit:
                out[n] = user
                n += 1
    return n


class ContentListsCompiled(ContentLists):
    """The paper's 4.2, compiled."""

    name = "content lists, compiled"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        sizes = [len(places) for places in self.places_of]
        self.listed_at = np.concatenate(([0], np.cumsum(sizes)))
        self.listed = np.array([x for places in self.places_of for x in places], np.int32)
        self.marks = np.zeros(work.n_users, np.int64)
        self.out = np.empty(work.n_users, np.int32)
        self.epoch = 0

    def find_listed(self, listed: Any, places: list[int]) -> np.ndarray:
        self.epoch += 1
        nodes = listed if isinstance(listed, np.ndarray) else np.array(list(listed))
        n = _lists(
            nodes, np.array(places), self.topic_at, self.topic_users,
            self.listed_at, self.listed, self.marks, self.epoch, self.out,
        )  # fmt: skip
        return np.sort(self.out[:n])


class Rustworkx(Peer):
    """rustworkx: ancestors of topics, descendants of places, inverted lists."""

    name = "rustworkx"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        import rustworkx as rx

        self.rx = rx
        self.graphs = []
        for graph in (work.topic, work.place):
            made = rx.PyDiGraph()
            made.add_nodes_from(range(len(graph)))
            links = graph.links
            made.extend_from_edge_list(
                list(zip((links >> 32).tolist(), (links & 0xFFFFFFFF).tolist(), strict=True))
            )
            self.graphs.append(made)

    def find(self, topics: list[int], places: list[int]) -> np.ndarray:
        above = set(topics).union(*(self.rx.ancestors(self.graphs[0], t) for t in topics))
        below = set(places).union(*(self.rx.descendants(self.graphs[1], p) for p in places))
        return np.intersect1d(self.by_topics(above), self.by_places(below), assume_unique=True)


class Igraph(Peer):
    """igraph: neighbourhoods of unbounded order, inverted lists."""

    name = "igraph"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        import igraph

        self.graphs = []
        for graph in (work.topic, work.place):
            links = graph.links
            pairs = np.stack([links >> 32, links & 0xFFFFFFFF], axis=1)
            self.graphs.append(igraph.Graph(n=len(graph), edges=pairs, directed=True))

    def find(self, topics: list[int], places: list[int]) -> np.ndarray:
        topic, place = self.graphs
        above = {n for t in topics for n in topic.subcomponent(t, mode="in")}
        below = {n for p in places for n in place.subcomponent(p, mode="out")}
        return np.intersect1d(self.by_topics(above), self.by_places(below), assume_unique=True)


class Networkx(Peer):
    """networkx: ancestors of topics, descendants of places, inverted lists."""

    name = "networkx"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        import networkx as nx

        self.nx = nx
        self.graphs = []
        for graph in (work.topic, work.place):
            made = nx.DiGraph()
            made.add_nodes_from(range(len(graph)))
            links = graph.links
            made.add_edges_from(
                zip((links >> 32).tolist(), (links & 0xFFFFFFFF).tolist(), strict=True)
            )
            self.graphs.append(made)

    def find(self, topics: list[int], places: list[int]) -> np.ndarray:
        above = set(topics).union(*(self.nx.ancestors(self.graphs[0], t) for t in topics))
        below = set(places).union(*(self.nx.descendants(self.graphs[1], p) for p in places))
        return np.intersect1d(self.by_topics(above), self.by_places(below), assume_unique=True)


class Sqlite(Peer):
    """SQLite with closure tables, places first."""

    name = "SQLite closure table"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        db = self.db = sqlite3.connect(":memory:")
        for name, graph, nodes in (
            ("topic", work.topic, work.topics), ("place", work.place, work.places),
        ):  # fmt: skip
            view = graph.view
            below = np.repeat(np.arange(len(graph)), view.above_n)
            order = np.argsort(view.above_at, kind="stable")
            below = np.repeat(order, view.above_n[order])
            db.execute(f"CREATE TABLE {name}_above (below INT, above INT)")
            db.executemany(
                f"INSERT INTO {name}_above VALUES (?, ?)",
                zip(below.tolist(), view.above.tolist(), strict=True),
            )
            db.execute(f"CREATE TABLE {name}_of (user INT, node INT)")
            users = np.repeat(np.arange(work.n_users), nodes.shape[1])
            db.executemany(
                f"INSERT INTO {name}_of VALUES (?, ?)",
                zip(users.tolist(), nodes.ravel().tolist(), strict=True),
            )
        db.execute("CREATE INDEX a ON topic_above (below, above)")
        db.execute("CREATE INDEX b ON place_above (above, below)")
        db.execute("CREATE INDEX c ON topic_of (user, node)")
        db.execute("CREATE INDEX d ON place_of (node, user)")
        db.execute("ANALYZE")
        self.query = (
            "SELECT DISTINCT p.user FROM place_above a JOIN place_of p ON p.node = a.below "
            "WHERE a.above IN (?, ?) AND EXISTS (SELECT 1 FROM topic_of t JOIN topic_above u "
            "ON u.above = t.node WHERE t.user = p.user AND u.below IN (?, ?, ?))"
        )

    def find(self, topics: list[int], places: list[int]) -> np.ndarray:
        rows = self.db.execute(self.query, (*places, *topics)).fetchall()
        return np.array(sorted(row[0] for row in rows))


PAPER = (Unoptimised, UnoptimisedCompiled, ContentLists, ContentListsCompiled)
LIBRARIES = (Rustworkx, Igraph, Networkx, Sqlite)
