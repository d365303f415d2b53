"""Documents against all patterns: who may match, and at which exact cost.

Terms are what vertices of patterns have in common: what they may be in a document, each at a cost
(``alternatives``), and the cost of doing without. A structure's alternatives are labels, a value's
are phrases. A phrase is words one after the other, known by its first.

For each document:

1. phrases that occur in it, and where; with them, the least cost of each *leaf*: a value term
   below some structure terms that cannot be skipped;
2. patterns that have such leaves gain what that saves against skipping; a pattern whose cost
   without any value, less its savings, plus the least cost of its structures, is below its
   threshold may match (no cost is below that bound);
3. for those, the recurrence of the specification, from the document's last element to its first.

Costs are capped at thresholds where they are compared: what costs as much is as good as impossible.
"""

from typing import Any

import numpy as np

from germane.kernels.compile import inlined, kernel

NONE = -1
EITHER, ALL = -1, -2
"""Vertices that are no terms: the least, and the sum, of what is below."""
VERTEX = np.dtype([("term", np.int32), ("parent", np.int16)])
PATTERN = np.dtype(
    [
        ("at", np.int64),  # of its vertices, children first, the root last
        ("n", np.int32),
        ("skeleton", np.int32),
        ("insertions", np.int32),
        ("threshold", np.float64),
        ("base", np.float64),  # the cost of its values if none is there, capped
    ]
)
TERM = np.dtype([("at", np.int64), ("n", np.int32), ("number", np.int32), ("skip", np.float64)])
"""``number`` is a structure's among structures; of a value, its first leaf."""
CHAIN = 3
LEAF = np.dtype([("above", np.int32, CHAIN), ("next", np.int32)])
"""Numbers of structures, some of them the same; the next leaf of the same value."""
ALTERNATIVE = np.dtype(
    [
        ("what", np.int32),  # a label or a phrase
        ("term", np.int32),  # of a value; NONE of a structure
        ("what_of", np.int32),  # the term, of either
        ("next", np.int32),
        ("cost", np.float64),
    ]
)
"""``next`` is the next alternative, of another term, that is the same phrase or label."""
PHRASE = np.dtype(
    [("at", np.int32), ("n", np.int32), ("next", np.int32), ("alternative", np.int32)]
)
"""``next`` is the next phrase with the same first word; then the first alternative that is it."""
HIT = np.dtype([("element", np.int32), ("next", np.int32)])
GAIN = np.dtype([("epoch", np.int32), ("gain", np.float32), ("need", np.float32)])
"""What a pattern has gained, and what it has to gain more than: base less threshold."""
PLACED = np.dtype([("element", np.int32), ("cost", np.float64)])
TOO_MANY = -1.0
SLACK = 1e-5
"""Bounds may be wrong by that much, relative to a threshold: they are sums of float32. Where all
prices are short binary fractions, they are exact, and there is no slack."""


@inlined
def phrase_is_at(
    phrase: Any, place: Any, end: Any, phrases: Any, phrase_words: Any, word: Any
) -> Any:
    """Whether a phrase begins at a word of a text that ends at ``end``."""
    n = phrases[phrase].n
    if place + n > end:
        return False
    for k in range(1, n):
        if word[place + k] != phrase_words[phrases[phrase].at + k]:
            return False
    return True


@kernel
def find_phrases(
    begin: Any, end: Any, word_at: Any, word: Any, first_phrase: Any, phrases: Any,
    phrase_words: Any, epoch: Any, phrase_epoch: Any, first_hit: Any, hits: Any, touched: Any,
) -> Any:  # fmt: skip
    """Note which phrases stand in which elements; (phrases touched, hits)."""
    n_touched = 0
    n_hits = 0
    for element in range(begin, end):
        for place in range(word_at[element], word_at[element + 1]):
            if word[place] < 0:
                continue
            phrase = first_phrase[word[place]]
            while phrase != NONE:
                if phrases[phrase].n == 1 or phrase_is_at(
                    phrase, place, word_at[element + 1], phrases, phrase_words, word
                ):
                    if phrase_epoch[phrase] != epoch:
                        phrase_epoch[phrase] = epoch
                        first_hit[phrase] = NONE
                        touched[n_touched] = phrase
                        n_touched += 1
                    last = first_hit[phrase]
                    if last == NONE or hits[last].element != element - begin:
                        hits[n_hits].element = element - begin
                        hits[n_hits].next = last
                        first_hit[phrase] = n_hits
                        n_hits += 1
                phrase = phrases[phrase].next
    return n_touched, n_hits


@kernel
def find_structures(
    begin: Any, end: Any, label: Any, parent: Any, first_of_label: Any, terms: Any,
    alternatives: Any, n_words: Any, around: Any,
) -> None:  # fmt: skip
    """Of each element, which structures it or something above it may be, as bits."""
    for element in range(end - begin):
        above = parent[begin + element]
        for w in range(n_words):
            around[element, w] = around[above, w] if above >= 0 else np.uint64(0)
        if label[begin + element] < 0:
            continue
        alternative = first_of_label[label[begin + element]]
        while alternative != NONE:
            number = terms[alternatives[alternative].what_of].number
            around[element, number >> 6] |= np.uint64(1) << np.uint64(number & 63)
            alternative = alternatives[alternative].next


@inlined
def is_around(leaf: Any, element: Any, leaves: Any, around: Any) -> Any:
    """Whether all structures of a leaf may be around an element."""
    all_there = np.uint64(1)
    for k in range(CHAIN):
        number = leaves[leaf].above[k]
        all_there &= around[element, number >> 6] >> np.uint64(number & 63)
    return all_there != 0


@kernel
def find_leaves(
    n_touched: Any, touched: Any, phrases: Any, alternatives: Any, terms: Any, leaves: Any,
    first_hit: Any, hits: Any, around: Any, epoch: Any, leaf_epoch: Any, least: Any, out: Any,
) -> Any:  # fmt: skip
    """The leaves that are there in some form, and the least cost of that; how many."""
    n = 0
    for i in range(n_touched):
        phrase = touched[i]
        alternative = phrases[phrase].alternative
        while alternative != NONE:
            cost = alternatives[alternative].cost
            leaf = terms[alternatives[alternative].what_of].number
            while leaf != NONE:
                hit = first_hit[phrase]
                while hit != NONE and not is_around(leaf, hits[hit].element, leaves, around):
                    hit = hits[hit].next
                if hit != NONE:
                    if leaf_epoch[leaf] != epoch:
                        leaf_epoch[leaf] = epoch
                        least[leaf] = cost
                        out[n] = leaf
                        n += 1
                    elif cost < least[leaf]:
                        least[leaf] = cost
                leaf = leaves[leaf].next
            alternative = alternatives[alternative].next
    return n


@inlined
def least_label(term: Any, terms: Any, alternatives: Any, label_epoch: Any, epoch: Any) -> Any:
    """The least cost of a structure term, wherever it may be placed."""
    best = np.inf
    for a in range(terms[term].at, terms[term].at + terms[term].n):
        if label_epoch[alternatives[a].what] == epoch and alternatives[a].cost < best:
            best = alternatives[a].cost
    return best


@inlined
def least_structures(
    skeleton: Any, skeleton_at: Any, skeletons: Any, terms: Any, alternatives: Any,
    label_epoch: Any, epoch: Any,
) -> Any:  # fmt: skip
    """The least cost of a skeleton's structures; its first, the root, cannot be skipped."""
    total = 0.0
    for k in range(skeleton_at[skeleton], skeleton_at[skeleton + 1]):
        cost = least_label(skeletons[k], terms, alternatives, label_epoch, epoch)
        if k > skeleton_at[skeleton]:
            cost = min(cost, terms[skeletons[k]].skip)
        total += cost
        if total == np.inf:
            break
    return total


@inlined
def label_cost(term: Any, label: Any, terms: Any, alternatives: Any) -> Any:
    """The cost of placing a structure at an element."""
    if label < 0:
        return np.inf
    for a in range(terms[term].at, terms[term].at + terms[term].n):
        if alternatives[a].what == label:
            return alternatives[a].cost
    return np.inf


@kernel
def price_insertions(
    table: Any, begin: Any, end: Any, label: Any, insert_at: Any, inserts: Any, insert_costs: Any,
    usual: Any, out: Any,
) -> None:  # fmt: skip
    """What passing over each element of a document costs."""
    for element in range(begin, end):
        cost = usual[table]
        for k in range(insert_at[table], insert_at[table + 1]):
            if inserts[k] == label[element]:
                cost = insert_costs[k]
        out[element - begin] = cost


@kernel
def exact(
    pattern: Any, begin: Any, n: Any, label: Any, parent: Any, patterns: Any, vertices: Any,
    terms: Any, alternatives: Any, phrase_epoch: Any, first_hit: Any, hits: Any, epoch: Any,
    insertion: Any, below: Any, sums: Any,
) -> Any:  # fmt: skip
    """The least cost of a pattern in a document.

    ``below[v, d]`` is A of the specification: what it costs to find vertex v below element d.
    """
    at = patterns[pattern].at
    n_vertices = patterns[pattern].n
    for v in range(n_vertices):
        term = vertices[at + v].term
        below[v, :n] = np.inf
        if term < 0 or v == n_vertices - 1:
            continue
        for a in range(terms[term].at, terms[term].at + terms[term].n):
            if alternatives[a].term != NONE:  # a phrase
                phrase = alternatives[a].what
                if phrase_epoch[phrase] == epoch:
                    hit = first_hit[phrase]
                    while hit != NONE:
                        element = hits[hit].element
                        below[v, element] = min(below[v, element], alternatives[a].cost)
                        hit = hits[hit].next
    best = np.inf
    root = n_vertices - 1
    for d in range(n - 1, -1, -1):
        above = parent[begin + d]
        for v in range(n_vertices):
            sums[v] = np.inf if vertices[at + v].term == EITHER else 0.0
        for v in range(n_vertices):
            term = vertices[at + v].term
            placed = np.inf
            cost = sums[v]
            if term >= 0:
                if alternatives[terms[term].at].term == NONE:  # a structure
                    placed = label_cost(term, label[begin + d], terms, alternatives) + sums[v]
                    cost = min(below[v, d], terms[term].skip + sums[v])
                else:
                    cost = min(below[v, d], terms[term].skip)
                if v != root and above >= 0:
                    reached = min(placed, insertion[d] + below[v, d])
                    below[v, above] = min(below[v, above], reached)
            if v == root:
                best = min(best, placed)
            else:
                upper = vertices[at + v].parent
                if vertices[at + upper].term == EITHER:
                    sums[upper] = min(sums[upper], cost)
                else:
                    sums[upper] += cost
    return best


@kernel
def order_elements(
    begin: Any, end: Any, label: Any, parent: Any, epoch: Any, label_epoch: Any, first: Any,
    following: Any, subtree: Any,
) -> None:  # fmt: skip
    """Elements by label, and where the subtree of each ends."""
    for element in range(end - begin - 1, -1, -1):
        subtree[element] = max(subtree[element], element + 1)
        above = parent[begin + element]
        if above >= 0:
            subtree[above] = max(subtree[above], subtree[element])
        number = label[begin + element]
        if number >= 0:
            following[element] = first[number] if label_epoch[number] == epoch else NONE
            label_epoch[number] = epoch
            first[number] = element


@kernel
def exact_sparse(
    pattern: Any, patterns: Any, vertices: Any, terms: Any, alternatives: Any, phrase_epoch: Any,
    first_hit: Any, hits: Any, label_epoch: Any, epoch: Any, first_element: Any,
    next_element: Any, subtree: Any, threshold: Any, placed: Any, at: Any, sums: Any,
) -> Any:  # fmt: skip
    """As ``exact``, where passing over elements is free, for costs below a threshold.

    A vertex is at few elements. Those of v, with what they cost, are ``placed[at[v] : at[v + 1]]``;
    where that is too short, the answer is TOO_MANY.
    """
    first_vertex = patterns[pattern].at
    n_vertices = patterns[pattern].n
    n = 0
    best = np.inf
    for v in range(n_vertices):
        at[v] = n
        term = vertices[first_vertex + v].term
        if term < 0:
            continue
        for a in range(terms[term].at, terms[term].at + terms[term].n):
            what = alternatives[a].what
            cost = alternatives[a].cost
            if cost >= threshold:
                continue
            if alternatives[a].term != NONE:
                if phrase_epoch[what] == epoch:
                    hit = first_hit[what]
                    while hit != NONE:
                        if n == placed.shape[0]:
                            return TOO_MANY
                        placed[n].element = hits[hit].element
                        placed[n].cost = cost
                        n += 1
                        hit = hits[hit].next
            elif label_epoch[what] == epoch:
                element = first_element[what]
                while element != NONE:
                    total = cost + below_element(
                        v, element, subtree[element], first_vertex, vertices, terms, alternatives,
                        placed, at, sums,
                    )  # fmt: skip
                    if total < threshold:
                        if n == placed.shape[0]:
                            return TOO_MANY
                        placed[n].element = element
                        placed[n].cost = total
                        n += 1
                        if v == n_vertices - 1 and total < best:
                            best = total
                    element = next_element[element]
    return best


@inlined
def below_element(
    v: Any, element: Any, end: Any, first_vertex: Any, vertices: Any, terms: Any,
    alternatives: Any, placed: Any, at: Any, sums: Any,
) -> Any:  # fmt: skip
    """The sum of B of a vertex's parts below an element."""
    begin = v
    while begin > 0 and is_below(begin - 1, v, first_vertex, vertices):
        begin -= 1
    for u in range(begin, v + 1):
        sums[u] = np.inf if vertices[first_vertex + u].term == EITHER else 0.0
    for u in range(begin, v):
        term = vertices[first_vertex + u].term
        cost = sums[u]
        if term >= 0:
            is_value = alternatives[terms[term].at].term != NONE
            cost = terms[term].skip + (0.0 if is_value else sums[u])
            lowest = element if is_value else element + 1
            for k in range(at[u], at[u + 1]):
                if lowest <= placed[k].element < end and placed[k].cost < cost:
                    cost = placed[k].cost
        upper = vertices[first_vertex + u].parent
        if vertices[first_vertex + upper].term == EITHER:
            sums[upper] = min(sums[upper], cost)
        else:
            sums[upper] += cost
    return sums[v]


@inlined
def is_below(u: Any, v: Any, first_vertex: Any, vertices: Any) -> Any:
    """Whether a vertex is in the subtree of another; parents have higher numbers."""
    while u < v:
        u = vertices[first_vertex + u].parent
    return u == v


@kernel
def match_documents(
    wanted: Any, begin: Any, at: Any, label: Any, parent: Any, word_at: Any, word: Any,
    patterns: Any, vertices: Any, terms: Any, alternatives: Any, first_phrase: Any, phrases: Any,
    phrase_words: Any, first_of_label: Any, leaves: Any, n_structures: Any, list_at: Any,
    list_count: Any, lists: Any, weights: Any, always: Any, n_always: Any, slack: Any,
    skeleton_at: Any, skeletons: Any, insert_at: Any, inserts: Any, insert_costs: Any,
    usual: Any, label_epoch: Any, phrase_epoch: Any, first_hit: Any, hits: Any,
    touched: Any, around: Any, leaf_epoch: Any, least: Any, touched_leaves: Any,
    gains: Any,
    touched_patterns: Any, skeleton_epoch: Any, skeleton_cost: Any, insertion: Any, below: Any,
    sums: Any, first_element: Any, next_element: Any, subtree: Any, placed: Any, placed_at: Any,
    state: Any, out: Any, costs: Any, ends: Any,
) -> Any:  # fmt: skip
    """Patterns and costs of documents, from ``wanted[begin]`` on; how far it came.

    ``state``: epoch, entries in ``out``, candidates. It stops where ``out`` may be too short.
    """
    n_words = (n_structures + 63) >> 6
    for i in range(begin, wanted.shape[0]):
        document = wanted[i]
        first, last = at[document], at[document + 1]
        state[0] += 1
        epoch = state[0]
        subtree[: last - first] = 0
        order_elements(
            first, last, label, parent, epoch, label_epoch, first_element, next_element, subtree
        )
        n_touched, _ = find_phrases(
            first, last, word_at, word, first_phrase, phrases, phrase_words, epoch, phrase_epoch,
            first_hit, hits, touched,
        )  # fmt: skip
        find_structures(
            first, last, label, parent, first_of_label, terms, alternatives, n_words, around
        )
        n_leaves = find_leaves(
            n_touched, touched, phrases, alternatives, terms, leaves, first_hit, hits, around,
            epoch, leaf_epoch, least, touched_leaves,
        )  # fmt: skip
        n_patterns = 0
        for k in range(n_always):
            gains[always[k]].epoch = epoch
            gains[always[k]].gain = 0.0
            touched_patterns[n_patterns] = always[k]
            n_patterns += 1
        for k in range(n_leaves):
            leaf = touched_leaves[k]
            cost = least[leaf]
            for e in range(list_at[leaf], list_at[leaf] + list_count[leaf]):
                pattern = lists[e]
                gain = np.float32(max(weights[e] - cost, 0.0))
                if gains[pattern].epoch != epoch:
                    gains[pattern].epoch = epoch
                    gains[pattern].gain = gain
                    touched_patterns[n_patterns] = pattern
                    n_patterns += 1
                else:
                    gains[pattern].gain += gain
        if state[1] + n_patterns > out.shape[0]:
            return i
        table = NONE
        for k in range(n_patterns):
            pattern = touched_patterns[k]
            if gains[pattern].gain <= gains[pattern].need:
                continue
            threshold = patterns[pattern].threshold
            limit = threshold * (1.0 + slack)
            bound = patterns[pattern].base - gains[pattern].gain
            skeleton = patterns[pattern].skeleton
            if skeleton_epoch[skeleton] != epoch:
                skeleton_epoch[skeleton] = epoch
                skeleton_cost[skeleton] = least_structures(
                    skeleton, skeleton_at, skeletons, terms, alternatives, label_epoch, epoch
                )
            if bound + skeleton_cost[skeleton] >= limit:
                continue
            state[2] += 1
            wanted_table = patterns[pattern].insertions
            cost = TOO_MANY
            if usual[wanted_table] == 0.0 and (
                insert_at[wanted_table] == insert_at[wanted_table + 1]
            ):
                cost = exact_sparse(
                    pattern, patterns, vertices, terms, alternatives, phrase_epoch, first_hit, hits,
                    label_epoch, epoch, first_element, next_element, subtree, threshold, placed,
                    placed_at, sums,
                )  # fmt: skip
            if cost == TOO_MANY:
                if wanted_table != table:
                    table = wanted_table
                    price_insertions(
                        table, first, last, label, insert_at, inserts, insert_costs, usual,
                        insertion,
                    )  # fmt: skip
                cost = exact(
                    pattern, first, last - first, label, parent, patterns, vertices, terms,
                    alternatives, phrase_epoch, first_hit, hits, epoch, insertion, below, sums,
                )  # fmt: skip
            if cost < threshold:
                out[state[1]] = pattern
                costs[state[1]] = cost
                state[1] += 1
        ends[i] = state[1]
    return wanted.shape[0]
