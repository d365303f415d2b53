"""The paper's two other matchers, in place of postings: as exact, and there to be compared.

In: the rows of a group with the nodes they name now. Out: candidates of messages, tested. *search*
(its section 4.1) follows the graph's links for every message; *lists* (4.2) list rows at all that
covers their nodes and let messages bring all that covers theirs. Neither is kept up to date: what
changes makes the next message wait until the lists are there anew. Kernels: ``kernels.searches``.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.category.graph import ContentGraph
from germane.index.rowindex import Rest, Rows
from germane.kernels import searches as kernels
from germane.kernels.entries import OVER
from germane.kernels.graphs import compress

WAYS = {"search": kernels.SEARCH, "lists": kernels.LISTS}


class Searches:
    """The rows of one group, by node and by row."""

    def __init__(
        self,
        way: str,
        forms: NDArray[np.int32],
        graphs: list[ContentGraph],
        named: list[tuple[Rows, Rows]],
        n_rows: int,
    ) -> None:
        """``named``: the (rows, nodes) of each form."""
        self.way = WAYS[way]
        self.forms = forms
        n_nodes = max(len(graph) for graph in graphs)
        self.reached = np.empty((len(forms), n_nodes), np.int32)
        self.marks = np.zeros((len(forms), n_nodes), np.bool_)
        self._arrays: list[NDArray[Any]] = []
        for form, graph, (rows, nodes) in zip(forms, graphs, named, strict=True):
            if way == "lists" and form[2] == OVER:
                rows, nodes = _all_above(graph, rows, nodes)
            by_node, by_row = np.argsort(nodes, kind="stable"), np.argsort(rows, kind="stable")
            at, row_at = np.zeros(len(graph) + 1, np.int64), np.zeros(n_rows + 1, np.int64)
            compress(nodes[by_node], len(graph), at)
            compress(rows[by_row], n_rows, row_at)
            self._arrays += [at, rows[by_node], row_at, nodes[by_row], *graph.up]
        self.parts = np.array([(a.ctypes.data, len(a), len(a)) for a in self._arrays], np.int64)

    def match(
        self, order: Rows, done: int, vectors: NDArray[np.float64], plan: int,
        pure: NDArray[np.bool_], seen: NDArray[np.uint64], candidates: Rows, rest: Rest,
        pairs: NDArray[np.int32], waiting: NDArray[np.int32], state: NDArray[np.int64],
    ) -> int:  # fmt: skip
        """Match messages from ``order[done]`` on; how far it came."""
        came: int = kernels.match_searching(
            order, done, vectors, self.forms, self.parts, self.way, plan, pure, seen, candidates,
            self.reached, self.marks, rest, pairs, waiting, state,
        )  # fmt: skip
        return came


def _all_above(graph: ContentGraph, rows: Rows, nodes: Rows) -> tuple[Rows, Rows]:
    """Rows at all that covers their nodes, each once."""
    view = graph.view
    lengths = view.above_n[nodes].astype(np.int64)
    starts = np.repeat(view.above_at[nodes] - (np.cumsum(lengths) - lengths), lengths)
    above = view.above[starts + np.arange(len(starts))]
    pairs = np.unique((np.repeat(rows, lengths).astype(np.int64) << 32) | above)
    return (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32)
