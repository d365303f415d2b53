"""The paper's two other ways to match categories: graph search, and content lists.

Both reach nodes from a message's and take the rows that are listed there. *Search* follows links,
up where rows are to cover the message's nodes, down where the message covers theirs. *Lists* follow
none: a message brings all that covers its nodes, and a row is listed at all that covers its own.
"""

from typing import Any

import numpy as np

from germane.kernels.bundle import array_at
from germane.kernels.categories import DOWN, DOWN_AT, N_ARRAYS, closure_of, member, span, values_of
from germane.kernels.compile import kernel
from germane.kernels.entries import UNDER
from germane.kernels.lookups import ATTRIBUTE, GRAPH, SIDE
from germane.kernels.postings import fits, settle
from germane.kernels.verifications import distinct

SEARCH, LISTS = 0, 1
AT, ENTRIES, ROW_AT, ROW_NODES, UP_AT, UP, N_PARTS = range(7)
"""Of each form: rows by node, nodes by row, and the graph's links upwards."""


@kernel
def reach(
    key: Any, form: Any, forms: Any, parts: Any, graphs: Any, way: Any, out: Any, marks: Any
) -> Any:
    """The nodes where rows for a message are listed, each once, and marked; how many."""
    graph = forms[form, GRAPH]
    component, sets_at, sets, given_at, given = values_of(graphs, graph)
    above_at, above_n, above = closure_of(graphs, graph)
    under = forms[form, SIDE] == UNDER
    if under:
        link_at = array_at(parts, form * N_PARTS + UP_AT, np.int64)
        links = array_at(parts, form * N_PARTS + UP, np.int32)
    else:
        link_at = array_at(graphs, graph * N_ARRAYS + DOWN_AT, np.int64)
        links = array_at(graphs, graph * N_ARRAYS + DOWN, np.int32)
    kind, begin, end = span(key, sets_at, given_at)
    n = 0
    for m in range(begin, end):
        start = member(kind, m, key, component, sets, given)
        if not marks[start]:
            marks[start] = True
            out[n] = start
            n += 1
        if under and way == LISTS:
            for k in range(above_at[start], above_at[start] + above_n[start]):
                if not marks[above[k]]:
                    marks[above[k]] = True
                    out[n] = above[k]
                    n += 1
    done = 0
    while way == SEARCH and done < n:
        node = out[done]
        done += 1
        for k in range(link_at[node], link_at[node + 1]):
            if not marks[links[k]]:
                marks[links[k]] = True
                out[n] = links[k]
                n += 1
    return n


@kernel
def match_searching(
    order: Any,
    begin: Any,
    vectors: Any,
    forms: Any,
    parts: Any,
    way: Any,
    plan: Any,
    pure: Any,
    seen: Any,
    candidates: Any,
    reached: Any,
    marks: Any,
    rest: Any,
    pairs: Any,
    waiting: Any,
    state: Any,
) -> Any:
    """What ``postings.match_postings`` does, without a closure of the graphs or without a graph."""
    rows, graphs = rest[0], rest[-1]
    n_forms = forms.shape[0]
    n_reached = np.zeros(n_forms, np.int64)
    for i in range(begin, order.shape[0]):
        message = order[i]
        complete = True
        for j in range(n_forms):
            key = vectors[message, forms[j, ATTRIBUTE]]
            complete &= key == key
        if not complete:
            continue
        best = -1
        least = np.int64(0)
        for j in range(n_forms):
            key = vectors[message, forms[j, ATTRIBUTE]]
            n_reached[j] = reach(key, j, forms, parts, graphs, way, reached[j], marks[j])
            at = array_at(parts, j * N_PARTS + AT, np.int64)
            named = np.int64(0)
            for k in range(n_reached[j]):
                named += at[reached[j, k] + 1] - at[reached[j, k]]
            if j == plan or (plan < 0 and (best < 0 or named < least)):
                best = j
                least = named
        room = fits(least, candidates, pairs, waiting, state)
        n = 0
        if room:
            at = array_at(parts, best * N_PARTS + AT, np.int64)
            entries = array_at(parts, best * N_PARTS + ENTRIES, np.int32)
            for k in range(n_reached[best]):
                node = reached[best, k]
                for e in range(at[node], at[node + 1]):
                    candidates[n] = entries[e]
                    n += 1
            n = distinct(candidates, n, seen)
            kept = 0
            for c in range(n):
                row = candidates[c]
                passes = rows[row].awake != 0
                for j in range(n_forms):
                    row_at = array_at(parts, j * N_PARTS + ROW_AT, np.int64)
                    nodes = array_at(parts, j * N_PARTS + ROW_NODES, np.int32)
                    found = False
                    for k in range(row_at[row], row_at[row + 1]):
                        found |= marks[j, nodes[k]]
                    passes &= found
                if passes:
                    candidates[kept] = row
                    kept += 1
            settle(message, vectors, candidates, kept, pure, False, rest, pairs, waiting, state)
        for j in range(n_forms):
            for k in range(n_reached[j]):
                marks[j, reached[j, k]] = False
        if not room:
            return i
    return order.shape[0]
