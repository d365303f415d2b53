"""``ContentGraph``: named categories and links parent -> child; who covers whom.

In: links between names. Out: ``ancestors``, ``descendants``, ``covers``, and arrays for kernels
(``View``). Real category data has cycles: the members of one cover each other and are one
component, known by its lowest node. The transitive closure, upwards, is kept in compressed rows;
if every component has one parent at most, Euler's tour is kept beside it, and what a node covers is
a slice.

Links may come and go. A change below which no cycle appears or vanishes computes the rows of the
nodes it concerns anew; the old ones stay behind until they are half of all. Otherwise everything is
built anew: some seconds for a million links.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from germane.category.names import Names
from germane.kernels import graphs as kernels
from germane.model import InvalidValue, UnknownNode

Nodes = NDArray[np.int32]
MAX_NODES = 1 << 30
FIRST_ROOM = 1 << 16
FEW_NAMES = 20_000
"""Up to so many names are all compared with one that is unknown."""
FEW_LINKS = 16
"""Up to so many links are added one by one; for more, everything is built anew."""
SHOWN = 10
CLEAN, KEEP = "drop", "keep"
CYCLES = (CLEAN, KEEP)


class Report(NamedTuple):
    """What loading a graph has found."""

    nodes: int
    edges: int  # kept
    self_loops: int
    duplicates: int
    dropped: int  # links that were cleaned away
    dropped_sample: tuple[tuple[str, str], ...]
    cycles: int  # components of more than one node
    largest_cycle: int
    cycle_sample: tuple[str, ...]  # members of the largest
    roots: int
    depth: int
    is_forest: bool

    def __str__(self) -> str:
        lines = [
            f"{self.nodes:,} nodes, {self.edges:,} links, {self.roots:,} roots, "
            f"{self.depth} deep, {'a forest' if self.is_forest else 'no forest'}"
        ]
        if self.self_loops or self.duplicates:
            lines.append(f"ignored {self.self_loops:,} self loops, {self.duplicates:,} duplicates")
        if self.dropped:
            shown = ", ".join(f"{a!r} -> {b!r}" for a, b in self.dropped_sample)
            lines.append(f"dropped {self.dropped:,} links that lead back up: {shown}")
        if self.cycles:
            shown = ", ".join(repr(name) for name in self.cycle_sample)
            lines.append(
                f"{self.cycles:,} cycles, whose members cover each other; the largest has "
                f"{self.largest_cycle:,}: {shown}"
            )
        return "\n".join(lines)


class View(NamedTuple):
    """What kernels read; all by node, but for the lists of entries."""

    component: Nodes
    above_at: NDArray[np.int64]
    above_n: Nodes
    above: Nodes
    below: Nodes  # how many components a component covers, itself included
    enter: Nodes  # of a forest; else empty
    leave: Nodes
    down_at: NDArray[np.int64]  # children, of components
    down: Nodes


class ContentGraph:
    """Categories and their links.

    >>> graph = ContentGraph.from_edges([("Sports", "Baseball"), ("Baseball", "Red Sox")])
    >>> graph.covers("Sports", "Red Sox")
    True
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.number: dict[str, int] = {}
        self.version = 0  # grows with every change
        self.holders: WeakSet[Any] = WeakSet()  # categories of filters
        self.builds = 0
        self._codes: NDArray[np.int64] = np.empty(0, np.int64)  # parent << 32 | child, ascending
        self._used = 0
        self._garbage = 0
        self._order: Nodes = np.empty(0, np.int32)
        self._ignored = (0, 0)
        self._dropped: list[tuple[str, str]] = []
        self._n_dropped = 0
        self._found_by: tuple[int, int, Names | None] = (-1, 0, None)  # version, names asked for
        self._build()

    # making ----------------------------------------------------------------------------------

    @classmethod
    def from_edges(
        cls, edges: Iterable[Any], nodes: Iterable[str] = (), cycles: str = KEEP
    ) -> "ContentGraph":
        """A graph of links (parent, child), and of nodes that may have none.

        ``edges`` are pairs, or a table (Arrow, pandas, …) whose first two columns are parents and
        children. The members of a cycle cover each other. ``cycles="drop"`` cleans instead: links
        whose target is an ancestor of the source, or nearer to a root than it, are dropped, so that
        no cycle is left. ``report`` tells of both.
        """
        from germane.category.loading import columns_of

        if cycles not in CYCLES:
            raise InvalidValue(f"cycles is 'drop' or 'keep', not {cycles!r:.200}")
        graph = cls()
        parents, children = columns_of(edges)
        for name in nodes:
            graph._name(name)
        graph._load(parents, children, cycles)
        return graph

    @classmethod
    def read(cls, path: str | Path, cycles: str = KEEP, **columns: str) -> "ContentGraph":
        """A graph from a file: ``.csv``, ``.parquet``, ``.arrow``; SKOS (``.ttl``, ``.rdf``, …);
        or WordNet (``data.noun`` and the like).

        ``parent=`` and ``child=`` name the columns of tables; by default, the first two.
        """
        from germane.category.loading import read_file

        pairs, nodes = read_file(Path(path), columns)
        return cls.from_edges(pairs, nodes, cycles)

    def _load(self, parents: list[str], children: list[str], cycles: str) -> None:
        """Take links that were read; nothing was there before but names."""
        codes = self._as_codes(parents, children)
        loops = (codes >> 32) == (codes & 0xFFFFFFFF)
        kept = np.unique(codes[~loops])
        self._ignored = (int(loops.sum()), len(codes) - int(loops.sum()) - len(kept))
        if cycles == CLEAN:
            kept = self._cleaned(kept)
        self._codes = kept
        self._build()

    def _as_codes(self, parents: Iterable[str], children: Iterable[str]) -> NDArray[np.int64]:
        name = self._name
        ends = [name(x) for pair in zip(parents, children, strict=True) for x in pair]
        pairs = np.array(ends, np.int64).reshape(-1, 2)
        return (pairs[:, 0] << 32) | pairs[:, 1]

    def _name(self, name: Any) -> int:
        """The number of a name, new or known."""
        number = self.number.get(name) if isinstance(name, str) else None
        if number is None:
            _require_name(name)
            number = len(self.names)
            if number >= MAX_NODES:
                raise InvalidValue(f"a content graph has at most {MAX_NODES:,} nodes")
            self.number[name] = number
            self.names.append(name)
        return number

    def _cleaned(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Without the links that lead back up."""
        down_at, down, up_at, _ = _adjacency(codes, len(self.names))
        depth = np.empty(len(self.names), np.int32)
        kernels.depths(down_at, down, up_at, depth)
        kept = np.zeros(len(codes), np.bool_)
        kernels.clean(down_at, down, depth, kept)
        gone = codes[~kept]
        self._n_dropped = len(gone)
        self._dropped = [self._ends(code) for code in gone[:SHOWN].tolist()]
        return codes[kept]

    def _ends(self, code: int) -> tuple[str, str]:
        return self.names[code >> 32], self.names[code & 0xFFFFFFFF]

    # building --------------------------------------------------------------------------------

    def _build(self) -> None:
        """Components, closure and tour, from the links."""
        n = len(self.names)
        down_at, down, _, _ = _adjacency(self._codes, n)
        component = np.empty(n, np.int32)
        order = np.empty(n, np.int32)
        n_components = kernels.components(down_at, down, component, order)
        self._order = order[:n_components].copy()
        self._condense(component)
        above_at, above_n = np.zeros(n, np.int64), np.zeros(n, np.int32)
        self._above: Nodes = np.empty(max(FIRST_ROOM, 2 * n), np.int32)
        self._used = self._garbage = 0
        self._close(self._order, above_at, above_n, in_place=True)
        self._above.resize(self._used, refcheck=False)
        self._finish(component, above_at, above_n)
        self.builds += 1

    def _condense(self, component: Nodes) -> None:
        """Links between components."""
        n = len(self.names)
        codes = self._codes
        if (component != np.arange(n, dtype=np.int32)).any():
            ends = component.astype(np.int64)
            codes = (ends[codes >> 32] << 32) | ends[codes & 0xFFFFFFFF]
            codes = np.unique(codes[(codes >> 32) != (codes & 0xFFFFFFFF)])
        self._down_at, self._down, self._up_at, self._up = _adjacency(codes, n)

    def _close(
        self, order: Nodes, above_at: NDArray[np.int64], above_n: Nodes, in_place: bool = False
    ) -> None:
        """Rows of the closure of some nodes, after those that are there.

        ``in_place``: nobody else looks at the rows yet, so they may move.
        """
        spare = np.empty((2, len(self.names)), np.int32)
        done = 0
        while True:
            done, self._used = kernels.close(
                order, done, self._up_at, self._up, above_at, above_n, self._above, self._used,
                spare,
            )  # fmt: skip
            if done == len(order):
                return
            parents = self._up[self._up_at[order[done]] : self._up_at[order[done] + 1]]
            wanted = self._used + 1 + int(above_n[parents].astype(np.int64).sum())
            if in_place:
                self._above.resize(max(wanted, len(self._above) * 3 // 2), refcheck=False)
            else:
                room = np.empty(wanted + self._used // 8, np.int32)
                room[: self._used] = self._above[: self._used]
                self._above = room

    def _finish(self, component: Nodes, above_at: NDArray[np.int64], above_n: Nodes) -> None:
        """What follows from the closure; a new view."""
        n = len(self.names)
        below = np.bincount(self._above[: self._used], minlength=n).astype(np.int32)
        if self._garbage:
            below = np.zeros(n, np.int32)
            kernels.count_below(above_at, above_n, self._above, self._order, 1, below)
        enter = leave = np.empty(0, np.int32)
        if self.is_forest:
            enter, leave = np.zeros(n, np.int32), np.zeros(n, np.int32)
            kernels.tour(self._order, self._up_at, self._down_at, self._down, enter, leave)
        self.view = View(
            component, above_at, above_n, self._above, below, enter, leave,
            self._down_at, self._down,
        )  # fmt: skip
        self.version += 1

    # changing --------------------------------------------------------------------------------

    def add_edges(self, edges: Iterable[Any]) -> None:
        """Add links, and the nodes that they name; those that are there are left as they are."""
        from germane.category.loading import columns_of

        parents, children = columns_of(edges)
        n_before = len(self.names)
        codes = self._as_codes(parents, children)
        codes = np.unique(codes[(codes >> 32) != (codes & 0xFFFFFFFF)])
        fresh = np.setdiff1d(codes, self._codes, assume_unique=True)
        if not len(fresh) and len(self.names) == n_before:
            return
        if len(fresh) > FEW_LINKS:
            self._codes = np.union1d(self._codes, fresh)
            self._build()
            return
        for code in fresh[:, None]:
            self._codes = np.union1d(self._codes, code)
            self._change(code, n_before)
            n_before = len(self.names)
        if not len(fresh):
            self._change(fresh, n_before)

    def remove_edges(self, edges: Iterable[Any]) -> None:
        """Remove links; their nodes stay. A link that is not there is an error."""
        from germane.category.loading import columns_of

        parents, children = columns_of(edges)
        ends = [(self.node(a), self.node(b)) for a, b in zip(parents, children, strict=True)]
        codes = np.unique(np.array([(a << 32) | b for a, b in ends], np.int64))
        unknown = np.setdiff1d(codes, self._codes, assume_unique=True)
        if len(unknown):
            a, b = self._ends(int(unknown[0]))
            raise InvalidValue(f"there is no link {a!r} -> {b!r} to remove")
        self._codes = np.setdiff1d(self._codes, codes, assume_unique=True)
        self._change(codes, len(self.names), removed=True)

    def change(self, links: Iterable[Any], unlinks: Iterable[Any]) -> None:
        """Add links, then remove some; if either is malformed, nothing happens."""
        from germane.category.loading import columns_of

        added, removed = columns_of(links), columns_of(unlinks)
        fresh = set(zip(*added, strict=True))
        for pair in fresh:
            for name in pair:
                _require_name(name)
        for pair in zip(*removed, strict=True):
            if pair not in fresh:
                code = (self.node(pair[0]) << 32) | self.node(pair[1])
                if not self._has(code):
                    raise InvalidValue(f"there is no link {pair[0]!r} -> {pair[1]!r} to remove")
        if fresh:
            self.add_edges(sorted(fresh))
        gone = [pair for pair in zip(*removed, strict=True) if pair[0] != pair[1]]
        if gone:
            self.remove_edges(gone)

    def _has(self, code: int) -> bool:
        at = int(np.searchsorted(self._codes, code))
        return at < len(self._codes) and int(self._codes[at]) == code

    def remove_nodes(self, names: Iterable[str]) -> None:
        """Remove nodes and their links; refused while a filter's profiles or contexts name one."""
        numbers = {self.node(name) for name in names}
        for holder in list(self.holders):
            profiles, contexts = holder.uses_of(self, numbers)
            if profiles or contexts:
                raise InvalidValue(
                    f"{profiles:,} profiles and {contexts:,} contexts name what would be removed"
                )
        gone = np.isin(self._codes >> 32, list(numbers))
        gone |= np.isin(self._codes & 0xFFFFFFFF, list(numbers))
        self._codes = self._codes[~gone]
        for number in numbers:
            del self.number[self.names[number]]
        self._build()

    def _change(self, codes: NDArray[np.int64], n_before: int, removed: bool = False) -> None:
        """Follow links that have come or gone."""
        n = len(self.names)
        component = np.arange(n, dtype=np.int32)
        component[:n_before] = self.view.component
        parents, children = component[codes >> 32], component[codes & 0xFFFFFFFF]
        old = (parents < n_before) & (children < n_before)
        if removed:
            cyclic = bool((parents == children).any())  # a cycle may have come apart
        else:
            cyclic = bool(self._covers(children[old], parents[old]).any())
        if cyclic or 2 * self._garbage > self._used:
            self._build()
            return
        self._condense(component)
        fresh = np.arange(n_before, n, dtype=np.int32)
        self._order = np.concatenate([self._order, fresh])
        starts = np.unique(np.concatenate([children.astype(np.int32), fresh]))
        concerned = np.empty(n, np.int32)
        seen = np.zeros(n, np.bool_)
        n_concerned = kernels.below_of(starts, self._down_at, self._down, seen, concerned)
        above_at, above_n = np.zeros(n, np.int64), np.zeros(n, np.int32)
        above_at[:n_before], above_n[:n_before] = self.view.above_at, self.view.above_n
        self._garbage += int(above_n[concerned[:n_concerned]].astype(np.int64).sum())
        above_n[concerned[:n_concerned]] = 0
        self._close(concerned[:n_concerned], above_at, above_n)
        self._finish(component, above_at, above_n)

    # asking ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.number

    @property
    def n_edges(self) -> int:
        """Links."""
        return len(self._codes)

    @property
    def is_forest(self) -> bool:
        """Whether no component has more than one parent."""
        return bool((np.diff(self._up_at) <= 1).all())

    @property
    def nbytes(self) -> int:
        """Bytes of arrays."""
        return sum(array.nbytes for array in (*self.view, self._codes, self._up_at, self._up))

    def node(self, name: Any) -> int:
        """The number of a name that is known."""
        number = self.number.get(name) if isinstance(name, str) else None
        if number is None:
            raise UnknownNode(self._unknown(name))
        return number

    def _unknown(self, name: Any) -> str:
        if not self.names:
            return f"unknown node {name!r:.200}; the graph is empty"
        near = self.nearest(name) if isinstance(name, str) else []
        hint = f"; did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
        return f"unknown node {name!r:.200}{hint}"

    def nearest(self, name: str) -> list[str]:
        """Known names that look like a name, the most alike first."""
        names: Iterable[str] = self.names
        if len(self.names) > FEW_NAMES:
            initial, n = name[:1].lower(), len(name)
            names = [x for x in self.names if x[:1].lower() == initial and abs(len(x) - n) <= 2]
        return get_close_matches(name, list(names)[:FEW_NAMES], 3)

    def covers(self, a: str, b: str) -> bool:
        """Whether a is b, or above it."""
        component = self.view.component
        pair = component[[self.node(a)]], component[[self.node(b)]]
        return bool(self._covers(*pair)[0])

    def _covers(self, a: Nodes, b: Nodes) -> NDArray[np.bool_]:
        out = np.zeros(len(a), np.bool_)
        view = self.view
        kernels.covers_many(a, b, view.above_at, view.above_n, view.above, out)
        return out

    def ancestors(self, name: str) -> list[str]:
        """All that cover a node, itself among them, sorted."""
        view = self.view
        node = view.component[self.node(name)]
        at = view.above_at[node]
        return self._members(view.above[at : at + view.above_n[node]])

    def descendants(self, name: str) -> list[str]:
        """All that a node covers, itself among them, sorted."""
        n = len(self.names)
        start = self.view.component[[self.node(name)]]
        out, seen = np.empty(n, np.int32), np.zeros(n, np.bool_)
        count = kernels.below_of(start, self._down_at, self._down, seen, out)
        return self._members(out[:count])

    def _members(self, components: Nodes) -> list[str]:
        if len(self._order) == len(self.names):
            return sorted(self.names[i] for i in components.tolist())
        nodes = np.flatnonzero(np.isin(self.view.component, components))
        return sorted(self.names[i] for i in nodes.tolist())

    def edges(self) -> list[tuple[str, str]]:
        """All links, in no particular order."""
        return [self._ends(code) for code in self._codes.tolist()]

    def report(self) -> Report:
        """What is there, and what loading has dropped."""
        n = len(self.names)
        component = self.view.component
        sizes = np.bincount(component, minlength=1)
        largest = int(sizes.argmax()) if n else 0
        members: list[int] = []
        if sizes.max() > 1:
            members = np.flatnonzero(component == largest)[:SHOWN].tolist()
        down_at, down, up_at, _ = _adjacency(self._codes, n)
        depth = np.zeros(n, np.int32)
        kernels.depths(down_at, down, up_at, depth)
        return Report(
            len(self.number), self.n_edges, *self._ignored, self._n_dropped, tuple(self._dropped),
            int((sizes > 1).sum()), int(sizes.max()) if n else 0,
            tuple(self.names[i] for i in members),
            int((np.diff(self._up_at)[self._order] == 0).sum()) - (n - len(self.number)),
            int(depth.max(initial=0)),
            self.is_forest,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"ContentGraph({len(self):,} nodes, {self.n_edges:,} links)"

    # saving ----------------------------------------------------------------------------------

    @property
    def up(self) -> tuple[NDArray[np.int64], Nodes]:
        """What links to each component, in compressed rows."""
        return self._up_at, self._up

    def kept_names(self) -> list[str | None]:
        """The name of each number; None where its node was removed."""
        return [name if self.number.get(name) == i else None for i, name in enumerate(self.names)]

    def names_for(self, n: int) -> Names | None:
        """What finds n names at once; None while too few were asked for to be worth making it."""
        version, n_asked, found_by = self._found_by
        if version != self.version:
            n_asked, found_by = 0, None
        n_asked += n
        if found_by is None and n_asked * 8 > len(self):
            found_by = Names(self.kept_names())
        self._found_by = self.version, n_asked, found_by
        return found_by

    @property
    def links(self) -> NDArray[np.int64]:
        """All links as numbers, parent << 32 | child, ascending; with names, all that is kept."""
        return self._codes

    @classmethod
    def from_links(cls, names: Iterable[str | None], links: NDArray[np.int64]) -> "ContentGraph":
        """The graph of names and ``links``."""
        graph = cls()
        for name in names:
            if name is None:  # it was removed; its number stays
                graph.names.append("")
            else:
                graph._name(name)
        graph._codes = np.unique(np.asarray(links, np.int64))
        ends = np.concatenate([graph._codes >> 32, graph._codes & 0xFFFFFFFF])
        if len(ends) and (ends.min() < 0 or ends.max() >= len(graph.names)):
            raise InvalidValue("a saved content graph has links of nodes that it does not have")
        graph._build()
        return graph

    def _check(self) -> None:
        view, n = self.view, len(self.names)
        assert all(self.names[number] == name for name, number in self.number.items())
        assert (np.diff(self._codes) > 0).all()
        fresh = ContentGraph.from_links(self.kept_names(), self._codes)
        assert (view.component == fresh.view.component).all()
        live = np.flatnonzero(view.component == np.arange(n))
        assert sorted(self._order.tolist()) == live.tolist()
        for node in live.tolist():
            rows = [v.above[v.above_at[node] : v.above_at[node] + v.above_n[node]]
                    for v in (view, fresh.view)]  # fmt: skip
            assert (np.diff(rows[0]) > 0).all()
            assert rows[0].tolist() == rows[1].tolist()
        assert (view.below[live] == fresh.view.below[live]).all()
        if self.is_forest:
            for node in live.tolist():
                inside = (view.enter[live] >= view.enter[node]) & (
                    view.enter[live] < view.leave[node]
                )
                covered = [self._covers(np.array([node], np.int32), np.array([m], np.int32))[0]
                           for m in live.tolist()]  # fmt: skip
                assert inside.tolist() == covered


def _require_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidValue(f"a node's name is a non-empty str, not {name!r:.200}")


def _adjacency(codes: NDArray[np.int64], n: int) -> tuple[Any, Any, Any, Any]:
    """Compressed rows of children and of parents."""
    parents, children = (codes >> 32).astype(np.int32), (codes & 0xFFFFFFFF).astype(np.int32)
    down_at, up_at = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    up = np.empty(len(codes), np.int32)
    kernels.compress(parents, n, down_at)
    kernels.invert(down_at, children, up_at, up)
    return down_at, children, up_at, up
