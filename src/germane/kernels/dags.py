"""Documents against a match DAG: vertices that patterns share, each evaluated once.

Vertices are numbered so that what is below comes first. A vertex that cannot be anywhere in a
document, since a word, a label or something below is missing, costs nothing but that look.
"""

from typing import Any

import numpy as np

from germane.kernels.compile import kernel
from germane.kernels.patterns import EITHER, NONE, find_phrases, label_cost, price_insertions

NODE = np.dtype(
    [
        ("term", np.int32),  # or EITHER, or ALL
        ("insertions", np.int32),
        ("at", np.int64),  # of its children
        ("n", np.int32),
        ("skip", np.float64),
    ]
)
ROOT = np.dtype([("pattern", np.int32), ("node", np.int32), ("cost", np.float64)])
IMPOSSIBLE = -1


@kernel
def is_possible(
    node: Any, nodes: Any, children: Any, slot: Any, terms: Any, alternatives: Any,
    phrase_epoch: Any, label_epoch: Any, epoch: Any,
) -> Any:  # fmt: skip
    """Whether a vertex may be somewhere in a document, or be skipped."""
    first, n = nodes[node].at, nodes[node].n
    term = nodes[node].term
    if term == EITHER:
        for k in range(first, first + n):
            if slot[children[k]] != IMPOSSIBLE:
                return True
        return False
    for k in range(first, first + n):
        if slot[children[k]] == IMPOSSIBLE:
            return False
    if term < 0 or nodes[node].skip < np.inf:
        return True
    for a in range(terms[term].at, terms[term].at + terms[term].n):
        what = alternatives[a].what
        if alternatives[a].term == NONE:
            if label_epoch[what] == epoch:
                return True
        elif phrase_epoch[what] == epoch:
            return True
    return False


@kernel
def evaluate(
    node: Any, n: Any, label: Any, parent: Any, nodes: Any, children: Any, slot: Any, terms: Any,
    alternatives: Any, phrase_epoch: Any, first_hit: Any, hits: Any, epoch: Any, insertion: Any,
    below: Any, cost: Any,
) -> Any:  # fmt: skip
    """B of a vertex under each element, into ``cost``; returns the least M."""
    term = nodes[node].term
    first, n_children = nodes[node].at, nodes[node].n
    is_value = term >= 0 and alternatives[terms[term].at].term != NONE
    below[:n] = np.inf
    if is_value:
        for a in range(terms[term].at, terms[term].at + terms[term].n):
            phrase = alternatives[a].what
            if phrase_epoch[phrase] == epoch:
                hit = first_hit[phrase]
                while hit != NONE:
                    element = hits[hit].element
                    below[element] = min(below[element], alternatives[a].cost)
                    hit = hits[hit].next
    least = np.inf
    mine = slot[node]
    for d in range(n - 1, -1, -1):
        total = np.inf if term == EITHER else 0.0
        for k in range(first, first + n_children):
            other = slot[children[k]]
            part = cost[other, d] if other != IMPOSSIBLE else np.inf
            total = min(total, part) if term == EITHER else total + part
        if term < 0:
            cost[mine, d] = total
            continue
        placed = np.inf
        if not is_value:
            placed = label_cost(term, label[d], terms, alternatives) + total
            least = min(least, placed)
        cost[mine, d] = min(below[d], nodes[node].skip + total)
        if parent[d] >= 0:
            reached = min(placed, insertion[d] + below[d])
            below[parent[d]] = min(below[parent[d]], reached)
    return least


@kernel
def count_possible(
    begin: Any, end: Any, label: Any, word_at: Any, word: Any, first_phrase: Any, phrases: Any,
    phrase_words: Any, epoch: Any, phrase_epoch: Any, first_hit: Any, hits: Any, touched: Any,
    label_epoch: Any, nodes: Any, n_nodes: Any, children: Any, terms: Any, alternatives: Any,
    slot: Any,
) -> Any:  # fmt: skip
    """Look at a document: which vertices are possible, numbered; how many."""
    for element in range(begin, end):
        if label[element] >= 0:
            label_epoch[label[element]] = epoch
    find_phrases(
        begin, end, word_at, word, first_phrase, phrases, phrase_words, epoch, phrase_epoch,
        first_hit, hits, touched,
    )  # fmt: skip
    n = 0
    for node in range(n_nodes):
        slot[node] = IMPOSSIBLE
        if is_possible(
            node, nodes, children, slot, terms, alternatives, phrase_epoch, label_epoch, epoch
        ):
            slot[node] = n
            n += 1
    return n


@kernel
def match_dag(
    begin: Any, end: Any, label: Any, parent: Any, nodes: Any, n_nodes: Any, children: Any,
    slot: Any, terms: Any, alternatives: Any, phrase_epoch: Any, first_hit: Any, hits: Any,
    epoch: Any, insert_at: Any, inserts: Any, insert_costs: Any, usual: Any, insertion: Any,
    below: Any, cost: Any, least: Any, roots: Any, n_roots: Any, patterns: Any, best: Any,
    out: Any,
) -> Any:  # fmt: skip
    """Evaluate the possible vertices, and the patterns whose root is one; how many match.

    ``best`` is infinite before and afterwards but for patterns in ``out``.
    """
    table = NONE
    n = end - begin
    for node in range(n_nodes):
        if slot[node] == IMPOSSIBLE:
            continue
        if nodes[node].insertions != table:
            table = nodes[node].insertions
            price_insertions(
                table, begin, end, label, insert_at, inserts, insert_costs, usual, insertion
            )
        least[slot[node]] = evaluate(
            node, n, label[begin:end], parent[begin:end], nodes, children, slot, terms,
            alternatives, phrase_epoch, first_hit, hits, epoch, insertion, below, cost,
        )  # fmt: skip
    n_out = 0
    for r in range(n_roots):
        node = roots[r].node
        pattern = roots[r].pattern
        if pattern == NONE or slot[node] == IMPOSSIBLE:
            continue
        total = roots[r].cost + least[slot[node]]
        if total < patterns[pattern].threshold:
            if best[pattern] == np.inf:
                out[n_out] = pattern
                n_out += 1
            best[pattern] = min(best[pattern], total)
    return n_out
