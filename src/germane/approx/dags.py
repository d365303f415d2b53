"""The paper's match DAG, in its two forms: for the same patterns, with the same answers.

In: patterns as they are kept. Out: as ``Patterns.match``. Vertices that say the same, with all
below them, are one vertex of the DAG, whichever patterns they are of. *Space* keeps each pattern
once; what may be skipped is found out for each document. *Time* keeps each pattern in all forms
that skipping may give it below its threshold, so a vertex is there or not (where these are too
many, it keeps the pattern once). They are for comparison: ``Patterns`` does better.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from germane.index.conjunctions import longer
from germane.kernels import dags as kernels
from germane.kernels.patterns import ALL, EITHER, NONE

if TYPE_CHECKING:
    from germane.approx.documents import Arrays
    from germane.approx.patterns import Patterns

MAX_FORMS = 1024
"""Forms of one pattern."""
Tree = tuple[int, tuple["Tree", ...]]  # term, children
Form = tuple[float, tuple[Tree, ...]]  # what was skipped for it, what is left


class Dag:
    """Vertices that patterns share."""

    def __init__(self, patterns: Patterns, expands: bool) -> None:
        self.patterns = patterns
        self.expands = expands
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._nodes: NDArray[Any] = np.zeros(64, kernels.NODE)
        self._children: NDArray[np.int32] = np.zeros(64, np.int32)
        self._n_children = 0
        self._roots: NDArray[Any] = np.zeros(64, kernels.ROOT)
        self._n_roots = 0
        self._roots_of: dict[int, list[int]] = {}
        self._free: list[int] = []
        self._slot: NDArray[np.int32] = np.zeros(0, np.int32)
        self._least: NDArray[np.float64] = np.zeros(0)
        self._cost: NDArray[np.float64] = np.zeros((0, 0))
        self._below: NDArray[np.float64] = np.zeros(0)
        self._best: NDArray[np.float64] = np.zeros(0)

    # patterns come and go --------------------------------------------------------------------

    def add(self, number: int) -> None:
        """Take a pattern."""
        tree = self.patterns.tree(number)
        table = int(self.patterns.arrays()[0][number]["insertions"])
        forms = self._forms(tree, self.patterns.threshold(number)) if self.expands else None
        places = []
        if forms is None:
            places.append(self._add_root(number, self._node(tree, table, True), 0.0))
        else:
            least: dict[Tree, float] = {}
            for cost, (form,) in forms:
                least[form] = min(cost, least.get(form, math.inf))
            for form, cost in least.items():
                places.append(self._add_root(number, self._node(form, table, False), cost))
        self._roots_of[number] = places

    def remove(self, number: int) -> None:
        """Let a pattern go; its vertices stay for others."""
        for place in self._roots_of.pop(number):
            self._roots[place]["pattern"] = NONE
            self._free.append(place)

    def _add_root(self, number: int, node: int, cost: float) -> int:
        if self._free:
            place = self._free.pop()
        else:
            place = self._n_roots
            self._n_roots += 1
            self._roots = longer(self._roots, max(self._n_roots, 2 * (self._n_roots - 1)))
        self._roots[place] = (number, node, cost)
        return place

    def _node(self, tree: Tree, table: int, skips: bool) -> int:
        """The vertex of a tree, new or known."""
        term, parts = tree
        children = tuple(sorted(self._node(part, table, skips) for part in parts))
        key = (term, children, table, skips)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            if number == len(self._nodes):
                self._nodes = longer(self._nodes, 2 * number)
            at = self._n_children
            self._n_children += len(children)
            self._children = longer(self._children, max(self._n_children, 2 * at))
            self._children[at : at + len(children)] = children
            skip = self.patterns.skip(term) if skips and term >= 0 else math.inf
            self._nodes[number] = (term, table, at, len(children), skip)
        return number

    def _forms(self, root: Tree, threshold: float) -> list[Form] | None:
        """What a pattern may be after skipping; None where that is too much."""
        below = self._joined([self._forms_of(part, threshold) for part in root[1]], threshold)
        if below is None:
            return None
        return [(cost, ((root[0], tuple(sorted(parts))),)) for cost, parts in below]

    def _forms_of(self, tree: Tree, threshold: float) -> list[Form] | None:
        term, parts = tree
        forms = [self._forms_of(part, threshold) for part in parts]
        if term == EITHER:
            return None if None in forms else [f for some in forms for f in some or ()]
        below = self._joined(forms, threshold)
        if below is None or term == ALL:
            return below
        kept: list[Form] = [(cost, ((term, tuple(sorted(left))),)) for cost, left in below]
        skip = self.patterns.skip(term)
        kept += [(skip + cost, left) for cost, left in below if skip + cost < threshold]
        return kept

    @staticmethod
    def _joined(forms: list[list[Form] | None], threshold: float) -> list[Form] | None:
        """One form of each part, in all ways."""
        if any(some is None for some in forms):
            return None
        if math.prod(len(some or ()) for some in forms) > MAX_FORMS:
            return None
        joined = []
        for chosen in product(*(some or [] for some in forms)):
            cost = sum(form[0] for form in chosen)
            if cost < threshold:
                joined.append((cost, tuple(tree for form in chosen for tree in form[1])))
        return joined

    # documents -------------------------------------------------------------------------------

    def match(
        self,
        documents: Arrays,
        wanted: NDArray[np.int64],
        label: NDArray[np.int32],
        word: NDArray[np.int32],
        scratch: Any,
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Ends, patterns and costs, as ``Patterns.match``."""
        (patterns, _, terms, alternatives, first_phrase, phrases, phrase_words, *_) = (
            everything := self.patterns.arrays()
        )
        insertions = everything[-4:]
        n_nodes = len(self._numbers)
        self._slot = longer(self._slot, n_nodes)
        known = len(self._best)
        self._best = longer(self._best, len(patterns))
        self._best[known:] = np.inf
        out = np.empty(len(patterns), np.int32)
        ends = np.zeros(len(wanted), np.int64)
        found, costs = [np.empty(0, np.int32)], [np.empty(0)]
        total = 0
        for i, document in enumerate(wanted.tolist()):
            begin, end = int(documents.at[document]), int(documents.at[document + 1])
            scratch.state[0] += 1
            epoch = int(scratch.state[0])
            shared = scratch.phrase_epoch, scratch.first_hit, scratch.hits
            n_possible = kernels.count_possible(
                begin, end, label, documents.word_at, word, first_phrase, phrases, phrase_words,
                epoch, *shared, scratch.touched, scratch.label_epoch, self._nodes, n_nodes,
                self._children, terms, alternatives, self._slot,
            )  # fmt: skip
            self._make_room(n_possible, end - begin)
            arguments = (
                begin, end, label, documents.parent, self._nodes, n_nodes, self._children,
                self._slot, terms, alternatives, *shared, epoch, *insertions, scratch.insertion,
                self._below, self._cost, self._least, self._roots, self._n_roots, patterns,
                self._best, out,
            )  # fmt: skip
            n = kernels.match_dag(*arguments)
            found.append(out[:n].copy())
            costs.append(self._best[out[:n]])
            self._best[out[:n]] = np.inf
            total += n
            ends[i] = total
        return ends, np.concatenate(found), np.concatenate(costs)

    def _make_room(self, n_possible: int, n_elements: int) -> None:
        self._least = longer(self._least, n_possible)
        self._below = longer(self._below, n_elements)
        rows, columns = self._cost.shape
        if rows < n_possible or columns < n_elements:
            self._cost = np.empty((max(rows, n_possible), max(columns, n_elements)))

    @property
    def nbytes(self) -> int:
        """Bytes of arrays, and about those of dictionaries."""
        own = (self._nodes, self._children, self._roots)
        return sum(array.nbytes for array in own) + 250 * len(self._numbers)
