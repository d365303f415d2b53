"""Documents against all patterns: who may match, and at which exact cost.

Terms are what vertices of patterns have in common: what they may be in a document, each at a cost
(``alternatives``), and the cost of doing without. A structure's alternatives are labels, a value's
are phrases. A phrase is words one after the other, known by its first.

For each document:

1. phrases that occur in it, and where; with them, the least cost of each value term;
2. patterns that have such terms gain what that saves against skipping; a pattern whose cost
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
TERM = np.dtype([("at", np.int64), ("n", np.int32), ("skip", np.float64)])
ALTERNATIVE = np.dtype(
    [("what", np.int32), ("term", np.int32), ("next", np.int32), ("cost", np.float64)]
)
"""``next`` is the next alternative, of another term, that is the same phrase."""
PHRASE = np.dtype(
    [("at", np.int32), ("n", np.int32), ("next", np.int32), ("alternative", np.int32)]
)
"""``next`` is the next phrase with the same first word; then the first alternative that is it."""
HIT = np.dtype([("element", np.int32), ("next", np.int32)])
GAIN = np.dtype([("gain", np.float64), ("epoch", np.int64)])
SLACK = 1e-9
"""Sums in another order may differ by that much, relative to a threshold."""


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
def find_terms(
    n_touched: Any, touched: Any, phrases: Any, alternatives: Any, epoch: Any, term_epoch: Any,
    least: Any, terms: Any,
) -> Any:  # fmt: skip
    """The value terms that are there in some form, and the least cost of that; how many."""
    n = 0
    for i in range(n_touched):
        alternative = phrases[touched[i]].alternative
        while alternative != NONE:
            term = alternatives[alternative].term
            cost = alternatives[alternative].cost
            if term_epoch[term] != epoch:
                term_epoch[term] = epoch
                least[term] = cost
                terms[n] = term
                n += 1
            elif cost < least[term]:
                least[term] = cost
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
    insertion: Any, below: Any, sums: Any, events: Any,
) -> Any:  # fmt: skip
    """The least cost of a pattern in a document; of each element as its root, in ``events``.

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
                events[d] = placed
                best = min(best, placed)
            else:
                upper = vertices[at + v].parent
                if vertices[at + upper].term == EITHER:
                    sums[upper] = min(sums[upper], cost)
                else:
                    sums[upper] += cost
    return best


@kernel
def match_documents(
    wanted: Any, begin: Any, at: Any, label: Any, parent: Any, word_at: Any, word: Any,
    patterns: Any, vertices: Any, terms: Any, alternatives: Any, first_phrase: Any, phrases: Any,
    phrase_words: Any, list_at: Any, list_count: Any, lists: Any, weights: Any, always: Any,
    n_always: Any, skeleton_at: Any, skeletons: Any, insert_at: Any, inserts: Any,
    insert_costs: Any, usual: Any, label_epoch: Any, phrase_epoch: Any, first_hit: Any, hits: Any,
    touched: Any, term_epoch: Any, least: Any, touched_terms: Any, gains: Any,
    touched_patterns: Any, skeleton_epoch: Any, skeleton_cost: Any, insertion: Any, below: Any,
    sums: Any, events: Any, state: Any, out: Any, costs: Any, ends: Any,
) -> Any:  # fmt: skip
    """Patterns and costs of documents, from ``wanted[begin]`` on; how far it came.

    ``state``: epoch, entries in ``out``, candidates. It stops where ``out`` may be too short.
    """
    for i in range(begin, wanted.shape[0]):
        document = wanted[i]
        first, last = at[document], at[document + 1]
        state[0] += 1
        epoch = state[0]
        for element in range(first, last):
            if label[element] >= 0:
                label_epoch[label[element]] = epoch
        n_touched, _ = find_phrases(
            first, last, word_at, word, first_phrase, phrases, phrase_words, epoch, phrase_epoch,
            first_hit, hits, touched,
        )  # fmt: skip
        n_terms = find_terms(
            n_touched, touched, phrases, alternatives, epoch, term_epoch, least, touched_terms
        )
        n_patterns = 0
        for k in range(n_always):
            gains[always[k]].epoch = epoch
            gains[always[k]].gain = 0.0
            touched_patterns[n_patterns] = always[k]
            n_patterns += 1
        for k in range(n_terms):
            term = touched_terms[k]
            cost = least[term]
            for e in range(list_at[term], list_at[term] + list_count[term]):
                pattern = lists[e]
                gain = max(weights[e] - cost, 0.0)
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
            threshold = patterns[pattern].threshold
            limit = threshold * (1.0 + SLACK)
            bound = patterns[pattern].base - gains[pattern].gain
            if bound >= limit:
                continue
            skeleton = patterns[pattern].skeleton
            if skeleton_epoch[skeleton] != epoch:
                skeleton_epoch[skeleton] = epoch
                skeleton_cost[skeleton] = least_structures(
                    skeleton, skeleton_at, skeletons, terms, alternatives, label_epoch, epoch
                )
            if bound + skeleton_cost[skeleton] >= limit:
                continue
            state[2] += 1
            if patterns[pattern].insertions != table:
                table = patterns[pattern].insertions
                price_insertions(
                    table, first, last, label, insert_at, inserts, insert_costs, usual, insertion
                )
            cost = exact(
                pattern, first, last - first, label, parent, patterns, vertices, terms,
                alternatives, phrase_epoch, first_hit, hits, epoch, insertion, below, sums, events,
            )  # fmt: skip
            if cost < threshold:
                out[state[1]] = pattern
                costs[state[1]] = cost
                state[1] += 1
        ends[i] = state[1]
    return wanted.shape[0]
