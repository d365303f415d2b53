"""The categories of a filter: which attribute is of which graph, and its values as keys.

In: nodes by name, one or many. Out: keys (``kernels.categories``), and ``places``, where kernels
find the arrays of all graphs: one array that stays, whatever it points to. Sets of several nodes
that conditions or contexts hold are numbered, until nobody holds them and there are many such
(``keep``). Sets of messages live as long as their batch (``Given``).
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from germane.category.flat import FlatGraph
from germane.category.graph import ContentGraph
from germane.context.values import is_null
from germane.kernels import categories as kernels
from germane.kernels.categories import N_ARRAYS, SET
from germane.model import GermaneError, InvalidValue, Schema, UnknownNode
from germane.model.errors import shown
from germane.model.types import CATEGORY, XML

MAX_NODES = 10_000
"""Nodes of one value."""
FEW_NODES = 64
"""Nodes of messages that are copied rather than pointed to."""
FEW_SETS = 10_000
"""So many sets more than were in use are no reason to look which still are."""


class Given:
    """Sets that came with messages, by graph."""

    def __init__(self, n_graphs: int) -> None:
        self._nodes: list[list[int]] = [[] for _ in range(n_graphs)]
        self._ends: list[list[int]] = [[0] for _ in range(n_graphs)]
        self.documents: Any = None  # whose patterns are sets of the last graph
        self.costs: NDArray[np.float64] = np.empty(0)  # of those patterns
        self.arrays: list[tuple[NDArray[np.int64], NDArray[np.int32]] | None] = [None] * n_graphs
        """Ends and nodes of all sets, where those are up to date, or there is nothing else."""

    def add(self, graph: int, nodes: list[int]) -> float:
        """The key of a set."""
        if not self._ends[graph]:
            ends, flat = self.of(graph)
            self._ends[graph], self._nodes[graph] = ends.tolist(), flat.tolist()
        self._nodes[graph] += nodes
        self._ends[graph].append(len(self._nodes[graph]))
        self.arrays[graph] = None
        return float(1 - len(self._ends[graph]))

    def add_many(self, graph: int, ends: NDArray[np.int64], nodes: NDArray[np.int32]) -> None:
        """Sets one after the other; the next number was ``count``."""
        before, flat = self.of(graph)
        self.arrays[graph] = (
            np.concatenate([before, ends + len(flat)]),
            np.concatenate([flat, nodes]),
        )
        self._ends[graph], self._nodes[graph] = [], []  # until one more is added

    def count(self, graph: int) -> int:
        """How many sets there are."""
        known = self.arrays[graph]
        return len(self._ends[graph] if known is None else known[0]) - 1

    def of(self, graph: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Ends and nodes of a graph's sets."""
        known = self.arrays[graph]
        if known is None:
            ends, nodes = self._ends[graph], self._nodes[graph]
            known = self.arrays[graph] = (np.array(ends, np.int64), np.array(nodes, np.int32))
        return known


class Sets:
    """Sets of nodes of one graph that conditions and contexts hold."""

    def __init__(self) -> None:
        self.number: dict[tuple[int, ...], int] = {}
        self.at: NDArray[np.int64] = np.zeros(1, np.int64)
        self.nodes: NDArray[np.int32] = np.zeros(0, np.int32)
        self._members: list[tuple[int, ...]] = []  # by number; nothing where one is free
        self._free: list[int] = []
        self._in_use = 0  # when last counted
        self.behind = False  # the arrays

    def add(self, nodes: tuple[int, ...]) -> int:
        """The number of a set, new or known."""
        number = self.number.get(nodes)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._members[number] = nodes
            else:
                number = len(self._members)
                self._members.append(nodes)
            self.number[nodes] = number
            self.behind = True
        return number

    def leave_out(self) -> None:
        """The next number is free."""
        self._free.append(len(self._members))
        self._members.append(())
        self.behind = True

    def members(self, number: int) -> tuple[int, ...]:
        """The nodes of a set."""
        return self._members[number]

    @property
    def crowded(self) -> bool:
        """Whether it is time to ask which sets are in use."""
        return len(self.number) > FEW_SETS + 2 * self._in_use

    def keep(self, used: NDArray[np.int64]) -> None:
        """Let go of all sets but some."""
        kept = np.zeros(len(self._members), np.bool_)
        kept[used] = True
        for nodes, number in list(self.number.items()):
            if not kept[number]:
                del self.number[nodes]
                self._members[number] = ()
                self._free.append(number)
        self._in_use = len(self.number)
        self.behind = True

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Ends and nodes of all sets."""
        if self.behind:
            done = len(self.at) - 1
            fresh = self._members[done:]
            if self._free or not fresh:  # numbers may have been given again
                self.at, self.nodes = np.zeros(1, np.int64), np.zeros(0, np.int32)
                fresh = self._members
            sizes = np.fromiter(map(len, fresh), np.int64, len(fresh))
            self.at = np.concatenate([self.at, self.at[-1] + np.cumsum(sizes)])
            flat = [node for nodes in fresh for node in nodes]
            self.nodes = np.concatenate([self.nodes, np.array(flat, np.int32)])
            self.behind = False
        return self.at, self.nodes


class Categories:
    """Attributes, graphs, sets; their arrays for kernels."""

    def __init__(self, graphs: Mapping[str, ContentGraph] | None = None) -> None:
        self.graphs: list[Any] = []  # content graphs, and last the patterns
        self.types: dict[str, str] = {}  # attribute -> type
        self._graph_of: dict[str, int] = {}  # type -> graph
        if graphs is not None and not isinstance(graphs, Mapping):
            raise InvalidValue(f"graphs is a mapping of attributes to graphs, not {graphs!r:.200}")
        for name, graph in (graphs or {}).items():
            if not isinstance(graph, ContentGraph):
                raise InvalidValue(f"graphs[{name!r}] is a ContentGraph, not {graph!r:.200}")
            number = next((i for i, g in enumerate(self.graphs) if g is graph), len(self.graphs))
            if number == len(self.graphs):
                self.graphs.append(graph)
                self._graph_of[f"{CATEGORY}:{name}"] = number
            type_ = next(t for t, n in self._graph_of.items() if n == number)
            self.types[name] = type_
        self.flat = len(self.graphs)
        self.patterns = FlatGraph()
        self.graphs.append(self.patterns)
        self._graph_of[XML] = self.flat
        self.sets = [Sets() for _ in self.graphs]
        self._versions = [-1] * len(self.graphs)
        self._arrays: list[Any] = [None] * (len(self.graphs) * N_ARRAYS)
        self.places: NDArray[np.int64] = np.zeros((len(self.graphs) * N_ARRAYS, 3), np.int64)
        self._copies: dict[int, tuple[NDArray[Any], int]] = {}  # and where they are
        self.nobody = Given(len(self.graphs))
        self.times_kept = 0
        self.uses: Callable[[int, set[int]], tuple[int, int]] | None = None
        """(graph, nodes) -> how many profiles and contexts name one of them."""
        for graph in self.graphs[: self.flat]:
            graph.holders.add(self)
        self.use(self.nobody)

    def schema(self, declared: Mapping[str, str] | None) -> Schema:
        """The schema of a filter: what was declared, and the attributes that have a graph."""
        types = dict(declared or {})
        for name, type_ in types.items():
            if type_ == CATEGORY and name not in self.types:
                if self.flat != 1:
                    raise InvalidValue(
                        f"{name!r} is a category, but of which graph? graphs={{{name!r}: …}} says"
                    )
                self.types[name] = next(iter(self._graph_of))
        for name, type_ in self.types.items():
            if types.get(name, CATEGORY) != CATEGORY:
                raise InvalidValue(f"{name!r} has a graph, so it is a category, not {types[name]}")
            types[name] = type_
        schema = Schema(declared if declared is None else types)
        if declared is None:
            for name, type_ in types.items():
                schema.declare(name, type_)
        self.teach(schema)
        return schema

    def teach(self, schema: Schema) -> None:
        """Let a schema know the nodes of the graphs."""
        content = {type_: self.graphs[n] for type_, n in self._graph_of.items() if n < self.flat}
        schema.graphs = content

    def __bool__(self) -> bool:
        return self.flat > 0 or self.patterns.used

    def given(self) -> Given:
        """Room for the sets of some messages."""
        return Given(len(self.graphs))

    @property
    def versions(self) -> list[int]:
        """What keys of constants depend on: the graphs, and whether sets were let go of."""
        return [*(graph.version for graph in self.graphs), self.times_kept]

    @property
    def content(self) -> list[ContentGraph]:
        """The content graphs."""
        return self.graphs[: self.flat]

    def graph_of(self, type_: str) -> int:
        """The number of the graph of a type."""
        number = self._graph_of.get(type_)
        if number is None:
            raise InvalidValue("a category needs its graph: Filter(graphs={attribute: graph})")
        return number

    def change(self, attribute: Any, links: Iterable[Any], unlinks: Iterable[Any]) -> None:
        """Add links to the graph of an attribute, then remove some; or neither."""
        type_ = self.types.get(attribute) if isinstance(attribute, str) else None
        if type_ is None:
            known = ", ".join(repr(name) for name in self.types) or "none"
            raise InvalidValue(f"{attribute!r:.200} has no graph; attributes with one: {known}")
        self.graphs[self.graph_of(type_)].change(links, unlinks)

    def keys_with(self, graph: int, nodes: set[int]) -> NDArray[np.float64]:
        """The keys of conditions and contexts that name one of some nodes."""
        members = self.sets[graph].number
        many = [SET + number for held, number in members.items() if not nodes.isdisjoint(held)]
        return np.array([*nodes, *many], np.float64)

    def keep(self, graph: int, keys: NDArray[np.float64]) -> None:
        """Let go of all sets of a graph but those with some of these keys."""
        self.sets[graph].keep(np.unique(keys[keys >= SET]).astype(np.int64) - SET)
        self.times_kept += 1

    # keys ------------------------------------------------------------------------------------

    def nodes(self, name: str, type_: str, value: Any) -> list[int]:
        """The nodes of a value, distinct and ascending; none for NULL."""
        if is_null(value):
            return []
        graph = self.graphs[self.graph_of(type_)]
        names = [value] if isinstance(value, str) else value
        if isinstance(names, bytes | Mapping) or not isinstance(names, Iterable):
            raise InvalidValue(
                f"attribute {name!r} holds a node of its graph or a list of them, not "
                f"{shown(value)}"
            )
        listed = list(names)
        if len(listed) > MAX_NODES:
            raise InvalidValue(
                f"attribute {name!r} holds {len(listed):,} nodes; the limit is {MAX_NODES:,}"
            )
        try:
            found = {graph.node(node) for node in listed}
        except UnknownNode as error:
            raise UnknownNode(f"attribute {name!r}: {error}") from None
        return sorted(found)

    def key(self, name: str, type_: str, value: Any, given: Given | None = None) -> float:
        """The key of a value; of a message's, with where its sets are kept."""
        if given is not None and type(value) is str:
            node = self.graphs[self._graph_of[type_]].number.get(value)
            if node is not None:
                return float(node)
        elif given is not None and type(value) is list and len(value) <= MAX_NODES:
            known = self.graphs[self._graph_of[type_]].number
            try:
                return self.key_of(type_, sorted({known[node] for node in value}), given)
            except (KeyError, TypeError):
                pass  # it is refused below, with the reason
        return self.key_of(type_, self.nodes(name, type_, value), given)

    def key_of(self, type_: str, nodes: list[int], given: Given | None = None) -> float:
        """The key of some distinct nodes, ascending."""
        if not nodes:
            return math.nan
        if len(nodes) == 1:
            return float(nodes[0])
        graph = self.graph_of(type_)
        if given is not None:
            return given.add(graph, nodes)
        return float(SET + self.sets[graph].add(tuple(nodes)))

    def constant(self, type_: str, names: list[str]) -> float:
        """The key of nodes that a condition names."""
        graph = self._graph_of[type_]
        number = self.graphs[graph].number
        try:
            nodes = sorted({number[name] for name in names})
        except KeyError as error:
            raise UnknownNode(f"unknown node {shown(error.args[0])}") from None
        if len(nodes) == 1:
            return float(nodes[0])
        return float(SET + self.sets[graph].add(tuple(nodes)))

    def column(self, name: str, type_: str, values: Any) -> NDArray[np.float64]:
        """Keys of many values of contexts."""
        number = self.graphs[self.graph_of(type_)].number
        if isinstance(values, np.ndarray):
            values = values.tolist()
        try:
            keys = list(map(number.get, values))  # lists of nodes cannot be looked up
        except TypeError:
            keys = [number.get(value) if type(value) is str else None for value in values]
        column = np.array(keys, np.float64)
        for i in np.flatnonzero(np.isnan(column)).tolist():
            column[i] = self.key(name, type_, values[i])
        return column

    def arrow_keys(
        self, name: str, type_: str, column: Any, given: Given
    ) -> tuple[NDArray[np.float64], dict[int, GermaneError]]:
        """Keys of an Arrow column of nodes or of lists of nodes; errors by row."""
        import pyarrow as pa

        number = self.graph_of(type_)
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            # A slice of a table has all values of the table.
            offsets = np.asarray(column.offsets, np.int64)
            first = int(offsets[0]) if len(offsets) else 0
            flat = column.values.slice(first, int(offsets[-1]) - first if len(offsets) else 0)
            starts, ends = offsets[:-1] - first, offsets[1:] - first
        else:
            flat, starts, ends = column, None, None
        nodes = self._numbers(number, flat)
        errors: dict[int, GermaneError] = {}
        if starts is None or ends is None:
            keys = np.where(nodes >= 0, nodes, np.nan).astype(np.float64)
            wrong = np.flatnonzero((nodes < 0) & np.asarray(column.is_valid())).tolist()
        else:
            there = np.asarray(column.is_valid())
            starts, ends = np.where(there, starts, 0), np.where(there, ends, 0)
            bad = np.concatenate(([0], np.cumsum(nodes < 0)))
            wrong = np.flatnonzero((bad[ends] > bad[starts]) | (ends - starts > MAX_NODES)).tolist()
            starts[wrong] = ends[wrong]
            keys = np.empty(len(column))
            out, out_ends = np.empty(len(nodes), np.int32), np.empty(len(column), np.int64)
            n_sets, used = kernels.collect(
                starts, ends, nodes, given.count(number), keys, out, out_ends
            )
            given.add_many(number, out_ends[:n_sets], out[:used])
        for row in wrong:
            try:
                self.nodes(name, type_, column[row].as_py())
            except GermaneError as error:
                errors[row] = error
        return keys, errors

    def _numbers(self, graph: int, flat: Any) -> NDArray[np.int32]:
        """Numbers of names; -1 for those that are unknown or null."""
        if hasattr(flat, "combine_chunks"):
            flat = flat.combine_chunks()
        found_by = self.graphs[graph].names_for(len(flat))
        if found_by is not None and not str(flat.type).startswith("dictionary"):
            numbers: NDArray[np.int32] = found_by.find(flat)
            return numbers
        coded = flat if str(flat.type).startswith("dictionary") else flat.dictionary_encode()
        names = coded.dictionary
        if found_by is not None:
            numbers = np.append(found_by.find(names), np.int32(-1))
        else:
            known = self.graphs[graph].number
            numbers = np.array([*(known.get(n, -1) for n in names.to_pylist()), -1], np.int32)
        places = np.asarray(coded.indices.fill_null(len(names)), np.int64)
        nodes: NDArray[np.int32] = numbers[places]
        return nodes

    def uses_of(self, graph: ContentGraph, nodes: set[int]) -> tuple[int, int]:
        """How many profiles and how many contexts name some nodes of a graph."""
        return self.uses(self.graphs.index(graph), nodes) if self.uses else (0, 0)

    def names(self, type_: str, key: float, given: Given | None = None) -> list[str]:
        """The names of a key's nodes; none for NULL."""
        if key != key:
            return []
        number = self.graph_of(type_)
        if key >= SET:
            nodes: Iterable[int] = self.sets[number].members(int(key) - SET)
        elif key >= 0:
            nodes = (int(key),)
        else:
            ends, flat = (given or self.nobody).of(number)
            nodes = flat[ends[int(-key) - 1] : ends[int(-key)]].tolist()
        names = self.graphs[number].names
        return sorted(names[node] for node in nodes)

    # arrays ----------------------------------------------------------------------------------

    def use(self, given: Given) -> None:
        """Point to what is current: graphs, sets, and the sets of the messages to come."""
        self.refresh()
        for number, graph in enumerate(self.graphs):
            if not (given.documents if number == self.flat else given.count(number)):
                continue  # nobody will look
            ends, nodes = given.of(number)
            components = graph.view.component[nodes]
            if max(len(ends), len(nodes)) <= FEW_NODES:
                self._copy(number, kernels.GIVEN_AT, ends)
                self._copy(number, kernels.GIVEN, components)
            else:
                self._point(number, kernels.GIVEN_AT, ends)
                self._point(number, kernels.GIVEN, components)

    def refresh(self) -> None:
        """Point to the graphs and sets that are current; messages stay those that were."""
        for number, graph in enumerate(self.graphs):
            changed = graph.version != self._versions[number]
            if changed:
                self._versions[number] = graph.version
                for place, part in enumerate(graph.view):
                    self._point(number, place, cast(NDArray[Any], part))
            sets = self.sets[number]
            if changed or sets.behind:
                at, nodes = sets.arrays()
                self._point(number, kernels.SETS_AT, at)
                self._point(number, kernels.SETS, graph.view.component[nodes])

    def _point(self, graph: int, which: int, array: NDArray[Any]) -> None:
        place = graph * N_ARRAYS + which
        if self._arrays[place] is not array:
            self._arrays[place] = array
            self.places[place] = (array.__array_interface__["data"][0], len(array), len(array))

    def _copy(self, graph: int, which: int, array: NDArray[Any]) -> None:
        """As ``_point``, to a copy whose address is known: asking for one takes longer."""
        place = graph * N_ARRAYS + which
        known = self._copies.get(place)
        if known is None:
            room: NDArray[Any] = np.zeros(FEW_NODES, array.dtype)
            known = self._copies[place] = room, room.ctypes.data
        room, address = known
        room[: len(array)] = array
        self._arrays[place] = room
        self.places[place] = (address, len(array), len(array))

    # saving ----------------------------------------------------------------------------------

    def state(self, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
        """Plain data; what is large goes to ``arrays``."""
        for number, (graph, sets) in enumerate(zip(self.content, self.sets, strict=False)):
            arrays[f"graph{number}_links"] = graph.links
            arrays[f"graph{number}_sets_at"], arrays[f"graph{number}_sets"] = sets.arrays()
        return {
            "types": dict(self.types),
            "names": [graph.kept_names() for graph in self.content],
            "graph_of": {type_: n for type_, n in self._graph_of.items() if n < self.flat},
        }

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> "Categories":
        """What ``state`` described."""
        graphs = [
            ContentGraph.from_links(names, arrays[f"graph{number}_links"])
            for number, names in enumerate(meta["names"])
        ]
        of_type = {str(type_): int(number) for type_, number in meta["graph_of"].items()}
        types = {str(name): str(type_) for name, type_ in meta["types"].items()}
        self = cls({type_.partition(":")[2]: graphs[n] for type_, n in of_type.items()})
        self.types = types
        for number, graph in enumerate(graphs):
            at, nodes = arrays[f"graph{number}_sets_at"], arrays[f"graph{number}_sets"]
            for begin, end in zip(at[:-1].tolist(), at[1:].tolist(), strict=True):
                members = tuple(nodes[begin:end].tolist())
                if begin == end:
                    self.sets[number].leave_out()
                    continue
                if len(members) < 2 or members[0] < 0 or members[-1] >= len(graph):
                    raise InvalidValue("a saved set has nodes that its graph does not have")
                self.sets[number].add(members)
        self.use(self.nobody)
        return self

    def _check(self) -> None:
        for graph, sets in zip(self.graphs, self.sets, strict=True):
            graph._check()
            for nodes, number in sets.number.items():
                assert sets.members(number) == nodes
                assert list(nodes) == sorted(set(nodes))
                assert nodes[-1] < len(graph)
