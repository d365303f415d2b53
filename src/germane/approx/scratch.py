"""What kernels write while they look at documents; kept from one to the next.

In: how many patterns, words and so on there are, and the documents. Out: arrays with room for the
largest of them. An *epoch* is the number of a document: what was noted under another is nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.approx.documents import Arrays
from germane.index.conjunctions import longer
from germane.kernels import patterns as kernels

LAST_EPOCH = 2_000_000_000
MANY_HITS = 1_000_000
MANY_PLACES = 16_384
"""Elements at which the vertices of a pattern may be, before sparse evaluation is given up."""


class Sizes(NamedTuple):
    """How many there are, of what is looked for."""

    labels: int
    phrases: int
    leaves: int
    patterns: int
    skeletons: int
    structures: int
    vertices: int  # of the largest pattern


def most_hits(documents: Arrays, word: NDArray[np.int32], n_phrases: NDArray[np.int32]) -> int:
    """How many (phrase, element) a document may have; ``n_phrases`` begin with each word."""
    counts = np.where(word >= 0, n_phrases[word], 0)
    before = np.concatenate([[0], np.cumsum(counts)])
    bounds = before[documents.word_at[documents.at]]
    n_hits = int(np.diff(bounds).max())
    if n_hits > MANY_HITS:  # a phrase hits an element once, however often it stands there
        element = np.repeat(np.arange(len(documents.label)), np.diff(documents.word_at))
        known = word >= 0
        pairs = np.unique((element[known] << 32) | word[known])
        before = np.concatenate([[0], np.cumsum(n_phrases[pairs & 0xFFFFFFFF])])
        bounds = before[np.searchsorted(pairs >> 32, documents.at)]
        n_hits = int(np.diff(bounds).max())
    return n_hits


class Scratch:
    """What kernels write while they look at a document."""

    def __init__(self) -> None:
        self.label_epoch: NDArray[np.int64] = np.zeros(0, np.int64)
        self.phrase_epoch: NDArray[np.int64] = np.zeros(0, np.int64)
        self.first_hit: NDArray[np.int32] = np.zeros(0, np.int32)
        self.touched: NDArray[np.int32] = np.zeros(0, np.int32)
        self.hits: NDArray[Any] = np.zeros(0, kernels.HIT)
        self.around: NDArray[np.uint64] = np.zeros((0, 0), np.uint64)
        self.leaf_epoch: NDArray[np.int64] = np.zeros(0, np.int64)
        self.least: NDArray[np.float64] = np.zeros(0)
        self.touched_leaves: NDArray[np.int32] = np.zeros(0, np.int32)
        self.gains: NDArray[Any] = np.zeros(0, kernels.GAIN)
        self.touched_patterns: NDArray[np.int32] = np.zeros(0, np.int32)
        self.skeleton_epoch: NDArray[np.int64] = np.zeros(0, np.int64)
        self.skeleton_cost: NDArray[np.float64] = np.zeros(0)
        self.insertion: NDArray[np.float64] = np.zeros(0)
        self.below: NDArray[np.float64] = np.zeros((0, 0))
        self.sums: NDArray[np.float64] = np.zeros(0)
        self.first_element: NDArray[np.int32] = np.zeros(0, np.int32)
        self.next_element: NDArray[np.int32] = np.zeros(0, np.int32)
        self.subtree: NDArray[np.int32] = np.zeros(0, np.int32)
        self.placed: NDArray[Any] = np.zeros(MANY_PLACES, kernels.PLACED)
        self.placed_at: NDArray[np.int64] = np.zeros(0, np.int64)
        self.state: NDArray[np.int64] = np.zeros(3, np.int64)
        self.out: NDArray[np.int32] = np.zeros(1024, np.int32)
        self.costs: NDArray[np.float64] = np.zeros(1024)

    def fit(self, sizes: Sizes, documents: Arrays, n_hits: int) -> None:
        """Make room for the largest of some documents."""
        if self.state[0] > LAST_EPOCH:  # epochs are 32 bits wide where there are many
            for array in (self.label_epoch, self.phrase_epoch, self.leaf_epoch):
                array[:] = 0
            self.skeleton_epoch[:] = 0
            self.gains["epoch"] = 0
            self.state[0] = 0
        self.label_epoch = longer(self.label_epoch, sizes.labels)
        n_phrases = sizes.phrases
        self.phrase_epoch = longer(self.phrase_epoch, n_phrases)
        self.first_hit = longer(self.first_hit, n_phrases)
        self.touched = longer(self.touched, n_phrases)
        n_leaves = sizes.leaves
        self.leaf_epoch = longer(self.leaf_epoch, n_leaves)
        self.least = longer(self.least, n_leaves)
        self.touched_leaves = longer(self.touched_leaves, n_leaves)
        self.gains = longer(self.gains, sizes.patterns)
        self.touched_patterns = longer(self.touched_patterns, sizes.patterns)
        n_skeletons = sizes.skeletons
        self.skeleton_epoch = longer(self.skeleton_epoch, n_skeletons)
        self.skeleton_cost = longer(self.skeleton_cost, n_skeletons)
        n_elements = int(np.diff(documents.at).max())
        self.insertion = longer(self.insertion, n_elements)
        self.first_element = longer(self.first_element, sizes.labels)
        self.next_element = longer(self.next_element, n_elements)
        self.subtree = longer(self.subtree, n_elements)
        n_words = (sizes.structures + 63) // 64
        if self.around.shape[0] < n_elements or self.around.shape[1] < n_words:
            self.around = np.empty((n_elements, n_words), np.uint64)
        n_vertices = sizes.vertices
        self.sums = longer(self.sums, n_vertices)
        self.placed_at = longer(self.placed_at, n_vertices + 1)
        if self.below.shape[0] < n_vertices or self.below.shape[1] < n_elements:
            shape = max(self.below.shape[0], n_vertices), max(self.below.shape[1], n_elements)
            self.below = np.empty(shape)
        self.hits = longer(self.hits, n_hits)

    def needs(self, patterns: NDArray[Any], slack: float) -> None:
        """Note what each pattern has to gain before it may match."""
        need = patterns["base"] - patterns["threshold"] * (1.0 + slack)
        self.gains["need"][: len(patterns)] = need - np.abs(need) * slack

    def arrays(self) -> tuple[Any, ...]:
        """In the order of ``kernels.patterns.match_documents``."""
        return (
            self.label_epoch, self.phrase_epoch, self.first_hit, self.hits, self.touched,
            self.around, self.leaf_epoch, self.least, self.touched_leaves,
            self.gains, self.touched_patterns,
            self.skeleton_epoch, self.skeleton_cost, self.insertion, self.below, self.sums,
            self.first_element, self.next_element, self.subtree, self.placed, self.placed_at,
            self.state,
        )  # fmt: skip
