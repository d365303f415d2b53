"""``Interests``: what a person likes in which context, learned from pieces of feedback.

In: pieces of feedback (a message's topics, the context, what the person did). Out: for a context,
the probability that a message is liked; the topics behind it; the pieces they rest on.

The model. A *rule* is a topic and a cell: some facets of a context (at most two of task, place,
time, …; a place also stands for those above it), or none. A rule covers a piece if its topic is
one of the piece's or above it, and the cell holds in the piece's context. A message is liked if
one of the rules that cover it fires, or by chance; a rule fires with its own probability p:

    P(liked) = 1 - (1 - CHANCE) · Π over covering rules (1 - p)

The p are those that explain the feedback best (expectation maximisation for this noisy OR), where
each rule starts with DOUBT pieces against it. So rules compete for what was liked, and what many
pieces support wins over what few do: the most general rule that is not contradicted. That is the
back-off, up the graph of topics and across contexts: what is rarely seen is judged by what it is
below. How they are found, and what happens when a taste changes, is in ``causes``.

The pieces are the state. All else is a function of them, in any order of calls: learning online,
from tables, and after an undo give the same. Cost: a fit is ROUNDS passes over pieces × rules that
cover one (some 20 topics × 13 cells); a context's topics are gathered once a fit.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.agent.beliefs import FIRES, PRIOR, Beliefs, believe
from germane.agent.causes import explain_likes
from germane.agent.pieces import Cell, Piece, facets_of
from germane.category import ContentGraph

__all__ = ["Interests", "Rule"]

MOST_PIECES = 600
LATELY = 50  # pieces
AGING = 0.99  # of what was met, with each piece
DOUBTED = 0.4  # what is left of a hope after it was chosen once
HOPED = 8.0  # times the prior that a hope counts at most
ALIKE = 0.2  # what a context has in common with any
BROAD = 12  # how fast hope fades with the share of messages that a topic covers
SPECIAL = 0.15  # topics that cover nearly everything say nothing: log(n / covered) / log(n)
LEAST = 1e-3  # weights below are none


class Rule(NamedTuple):
    """A topic that is liked in a cell, and what that rests on: counts are of messages."""

    topic: str
    cell: Cell
    probability: float
    liked: int
    seen: int
    kept: int


class Interests:
    """Learns from pieces of feedback.

    >>> from germane.agent.pieces import piece_of
    >>> graph = ContentGraph.from_edges([("Top", "Baseball"), ("Top", "Jazz")])
    >>> interests = Interests(graph)
    >>> for i in range(6):
    ...     _ = interests.add(piece_of(f"a{i}", ["Baseball"], {"task": "lunch"}, "kept"))
    ...     _ = interests.add(piece_of(f"b{i}", ["Baseball"], {"task": "work"}, "dismissed"))
    >>> interests.score({"task": "lunch"}, ["Baseball"]) > 0.6
    True
    >>> interests.score({"task": "work"}, ["Baseball"]) < 0.3
    True
    """

    def __init__(
        self,
        topics: ContentGraph,
        trees: Mapping[str, ContentGraph] | None = None,
        pieces: Iterable[Piece] = (),
    ) -> None:
        """``trees``: facets whose values are nodes, as places are."""
        self.topics = topics
        self._trees = dict(trees or {})
        self.pieces: list[Piece] = []
        self._fitted: tuple[Any, ...] | None = None  # what the weights are of
        self._weights: dict[Cell, dict[int, float]] = {}
        self._gathered: dict[Cell, dict[int, float]] = {}
        self._ended = np.empty(0, np.int64)  # numbers of pieces
        self._cells: dict[Cell, int] = {}
        self._beliefs: Beliefs | None = None  # made when asked for
        self._covered: list[tuple[Piece, frozenset[int], frozenset[Cell]]] = []
        for piece in pieces:
            self.add(piece)

    def add(self, piece: Piece) -> list[Piece]:
        """Learn from a piece; beyond MOST_PIECES the oldest are forgotten, and returned."""
        self.pieces.append(piece)
        forgotten = self.pieces[:-MOST_PIECES]
        del self.pieces[:-MOST_PIECES]
        self._fitted = None
        return forgotten

    def recall(self, piece: Piece) -> None:
        """Learn again from a piece that was forgotten last: it is the oldest."""
        self.pieces.insert(0, piece)
        self._fitted = None

    def remove(self, piece: Piece) -> None:
        """Unlearn the last piece that is equal."""
        at = len(self.pieces) - 1 - self.pieces[::-1].index(piece)
        del self.pieces[at]
        self._fitted = None

    # answers ---------------------------------------------------------------------------------

    def score(self, context: Mapping[str, Any], topics: Iterable[str]) -> float:
        """The probability that a message of these topics is liked in a context."""
        weights = self.weights(context)
        total = sum(weights.get(node, 0.0) for node in self.covering(topics))
        return 1.0 - float(np.exp(-total))

    def weights(self, context: Mapping[str, Any]) -> dict[int, float]:
        """Nodes with what each adds to -log(1 - P) of the messages below it."""
        self._fit()
        facets = facets_of(context)
        if facets not in self._gathered:
            total: dict[int, float] = {}
            for cell in self.cells(facets):
                for node, weight in self._weights.get(cell, {}).items():
                    total[node] = total.get(node, 0.0) + weight
            if len(self._gathered) > 64:
                self._gathered.clear()
            self._gathered[facets] = total
        return self._gathered[facets]

    def liked_topics(self, context: Mapping[str, Any], least: float) -> dict[str, float]:
        """Topics that are liked with this probability at least, without those below others."""
        weights = self.weights(context)
        found: dict[int, float] = {}
        for node in weights:
            total = sum(weights.get(above, 0.0) for above in self._above(node))
            if 1.0 - np.exp(-total) >= least:
                found[node] = 1.0 - float(np.exp(-total))
        highest = [n for n in found if not any(a in found and a != n for a in self._above(n))]
        return {self.topics.names[n]: found[n] for n in sorted(highest, key=lambda n: -found[n])}

    def rules(self, context: Mapping[str, Any], topics: Iterable[str]) -> Iterator[Rule]:
        """The rules that say that a message is liked, the strongest first."""
        self._fit()
        covering = self.covering(topics)
        found = [
            (weight, node, cell)
            for cell in self.cells(facets_of(context))
            for node, weight in self._weights.get(cell, {}).items()
            if node in covering
        ]
        for weight, node, cell in sorted(found)[::-1]:
            yield self._rule(weight, node, cell)

    def table(self) -> list[Rule]:
        """All rules, in a fixed order: all that was learned."""
        self._fit()
        return sorted(
            self._rule(weight, node, cell)
            for cell, weights in self._weights.items()
            for node, weight in weights.items()
        )

    def _rule(self, weight: float, node: int, cell: Cell) -> Rule:
        about = [p for p, nodes, cells in self._covered if node in nodes and cell in cells]
        liked = [p for p in about if p.liked >= 0.5]
        kept = [p for p in liked if p.kind == "kept"]
        probability = 1.0 - float(np.exp(-weight))
        counts = (_messages(pieces) for pieces in (liked, about, kept))
        return Rule(self.topics.names[node], cell, probability, *counts)

    def met(self, context: Mapping[str, Any] | None = None) -> NDArray[np.float64]:
        """How many pieces there are about each node, or what is below it.

        With a context, a piece counts by the share of its facets that the piece has, too, and the
        older, the less.
        """
        weights = np.ones(len(self.pieces))
        if context is not None:
            facets = set(facets_of(context))
            shared = np.array([len(facets.intersection(p.context)) for p in self.pieces], float)
            ages = np.arange(len(self.pieces))[::-1]
            weights = (ALIKE + shared) / (ALIKE + len(facets)) * AGING**ages
        nodes = [self.nodes(piece.topics) for piece in self.pieces]
        each = np.repeat(weights, [len(found) for found in nodes])
        return np.bincount(_joined(nodes), each, len(self.topics.names)).astype(np.float64)

    def believed(self, context: Mapping[str, Any]) -> NDArray[np.float64]:
        """For each node, what it adds to -log(1 - P) of the messages below it, by ``beliefs``."""
        return self._gather(context, lambda held: -np.log1p(-FIRES * held))

    def untold(
        self, context: Mapping[str, Any], messages: list[NDArray[np.int64]]
    ) -> NDArray[np.float64]:
        """For each node, how much of some messages one would know who knew whether it is liked.

        That is the share of them that it covers, less if that is much (nobody likes everything),
        times how likely it is that it is liked.
        """
        cells = len(self.cells(facets_of(context)))
        hope = self._gather(context, lambda held: np.minimum(held / PRIOR, HOPED) / cells)
        share = np.bincount(_joined(messages), minlength=len(hope)) / max(len(messages), 1)
        return np.asarray(share * (1.0 - share) ** BROAD * hope)

    def _gather(self, context: Mapping[str, Any], of: Any) -> NDArray[np.float64]:
        """For each node, the sum over the cells of a context of a function of the beliefs."""
        self._fit()
        if self._beliefs is None:
            self._cells, rows = self._rows()
            self._beliefs = believe(rows, *self._told(), len(self.topics.names))
        numbers = (self._cells.get(cell) for cell in self.cells(facets_of(context)))
        return np.where(_special(self.topics), self._beliefs.gathered(numbers, of), 0.0)

    def stirred(self) -> bool:
        """Whether a taste ended a short while ago."""
        self._fit()
        return bool((self._ended >= len(self.pieces) - LATELY).any())

    # topics and cells ------------------------------------------------------------------------

    def covering(self, topics: Iterable[str]) -> frozenset[int]:
        """Nodes that cover one of the topics; names that the graph does not have cover nothing."""
        numbers = self.topics.number
        known = tuple(sorted(numbers[topic] for topic in topics if topic in numbers))
        return _covering(self.topics, self.topics.version, known)

    def nodes(self, topics: Iterable[str]) -> NDArray[np.int64]:
        """The same, sorted, as an array."""
        return _sorted(self.covering(topics))

    def _above(self, node: int) -> list[int]:
        view = self.topics.view
        at = view.above_at[node]
        return list(view.above[at : at + view.above_n[node]].tolist())

    def cells(self, facets: Cell) -> list[Cell]:
        """What a context is an example of: nothing, one facet, two facets."""
        values = [[(name, value) for value in self._levels(name, value)] for name, value in facets]
        found: list[Cell] = [()]
        for choices in values:
            found += [(choice,) for choice in choices]
        for first, second in combinations(values, 2):
            found += [(a, b) for a in first for b in second]
        return found

    def _levels(self, name: str, value: str) -> list[str]:
        """A value and those above it, without roots."""
        tree = self._trees.get(name)
        if tree is None or value not in tree.number:
            return [value]
        return _levels(tree, tree.version, value)

    # learning --------------------------------------------------------------------------------

    def _fit(self) -> None:
        """Weights of all rules, if something changed."""
        versions = (self.topics.version, *(tree.version for tree in self._trees.values()))
        if self._fitted == versions:
            return
        self._weights, self._gathered, self._fitted = {}, {}, versions
        self._beliefs = None
        cells, rows = self._rows()
        holding = {p.context: frozenset(self.cells(p.context)) for p in self.pieces}
        self._covered = [(p, self.covering(p.topics), holding[p.context]) for p in self.pieces]
        causes = explain_likes(rows, *self._told())
        self._ended = causes.ended
        weights = -np.log1p(-causes.p)
        named, n = list(cells), len(self.topics.names)
        counts = weights >= LEAST
        keys = causes.keys[counts].tolist()
        for key, weight in zip(keys, weights[counts].tolist(), strict=True):
            self._weights.setdefault(named[key // n], {})[key % n] = weight

    def _told(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How much each piece was liked, and how often it counts."""
        liked, times = ([getattr(p, of) for p in self.pieces] for of in ("liked", "times"))
        return np.array(liked, float), np.array(times, float)

    def _rows(self) -> tuple[dict[Cell, int], list[NDArray[np.int64]]]:
        """Numbers of cells; the rules that cover each piece, each a cell × nodes + a node."""
        cells: dict[Cell, int] = {}
        n, special = len(self.topics.names), _special(self.topics)
        numbers: dict[Cell, NDArray[np.int64]] = {}
        nodes: dict[tuple[str, ...], NDArray[np.int64]] = {}
        for piece in self.pieces:
            if piece.context not in numbers:
                found = [cells.setdefault(c, len(cells)) for c in self.cells(piece.context)]
                numbers[piece.context] = np.array(found)[:, None] * n
            if piece.topics not in nodes:
                covering = self.nodes(piece.topics)
                nodes[piece.topics] = covering[special[covering]]
        rows = [(numbers[piece.context] + nodes[piece.topics]).ravel() for piece in self.pieces]
        return cells, rows


def _messages(pieces: Iterable[Piece]) -> int:
    """How many messages some pieces are about; those without an id are each another one."""
    return len({piece.message or number for number, piece in enumerate(pieces)})


@lru_cache(maxsize=20_000)
def _covering(graph: ContentGraph, version: int, numbers: tuple[int, ...]) -> frozenset[int]:
    view = graph.view
    found: set[int] = set()
    for node in view.component[list(numbers)].tolist() if numbers else ():
        at = view.above_at[node]
        found.update(view.above[at : at + view.above_n[node]].tolist())
    return frozenset(found)


def _joined(arrays: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([*arrays, np.empty(0, np.int64)])


@lru_cache(maxsize=20_000)
def _sorted(nodes: frozenset[int]) -> NDArray[np.int64]:
    return np.array(sorted(nodes), np.int64)


def _special(graph: ContentGraph) -> NDArray[np.bool_]:
    """Nodes that say something: those that do not cover nearly everything."""
    n = max(len(graph.names), 2)
    said = np.log(n / np.maximum(graph.view.below, 1))
    return np.asarray(said >= SPECIAL * np.log(n), np.bool_)


@lru_cache(maxsize=5_000)
def _levels(tree: ContentGraph, version: int, value: str) -> list[str]:
    above = [a for a in tree.ancestors(value) if a != value and len(tree.ancestors(a)) > 1]
    return [value, *above]
