"""Candidates are verified: those stay whose nodes stand to a message's as a form wants it.

In: rows that lists named, and a message. Out: fewer rows, in place. A row costs what the way
through memory to its nodes costs, so everybody takes each step before anybody takes the next.
"""

from typing import Any

import numpy as np

from germane.kernels.bundle import array_at
from germane.kernels.categories import (
    ENTER,
    LEAVE,
    N_ARRAYS,
    SET,
    closure_of,
    member,
    span,
    values_of,
)
from germane.kernels.compile import inlined, kernel
from germane.kernels.entries import FOLD, FROM_CONTEXT, MANY, PER_ROW, UNDER
from germane.kernels.graphs import covers
from germane.kernels.lanes import prefetch
from germane.kernels.lookups import (
    CONSTANTS,
    GRAPH,
    MARKS,
    N_LISTS,
    NAMED,
    SIDE,
    SIEVE,
    SOURCE,
    marked,
)

N_OUT, N_FAILED, N_WAITING, N_CANDIDATES, N_STATE = range(5)
SPAN = np.dtype([("key", np.float64), ("begin", np.int64), ("end", np.int64)])
"""A candidate's key, and where its nodes are; of one node, it is the key itself."""
OF_ROW = -1.0
"""The key of a candidate whose nodes are in its row's record."""


@kernel
def verify(
    asked: Any,
    form: Any,
    is_best: Any,
    forms: Any,
    lists: Any,
    graphs: Any,
    state: Any,
    source_kind: Any,
    source_at: Any,
    rows: Any,
    owner: Any,
    values: Any,
    candidates: Any,
    n: Any,
    spans: Any,
    failed: Any,
) -> Any:
    """Keep the candidates whose nodes stand to the message's as a form wants it; how many.

    From a row to its nodes are several steps through memory. Each is taken for all candidates
    before the next, so that they wait for memory together. Nodes of conditions are one step away.
    """
    graph = forms[form, GRAPH] * N_ARRAYS
    component, sets_at, sets, given_at, given = values_of(graphs, forms[form, GRAPH])
    above_at, above_n, above = closure_of(graphs, forms[form, GRAPH])
    enter = array_at(graphs, graph + ENTER, np.int32)
    leave = array_at(graphs, graph + LEAVE, np.int32)
    marks = array_at(lists, form * N_LISTS + MARKS, np.uint64)
    named = array_at(lists, form * N_LISTS + NAMED, np.int32)
    under = forms[form, SIDE] == UNDER
    forest = enter.shape[0] > 0
    of_message, first, last = span(asked, sets_at, given_at)
    source = forms[form, SOURCE]
    kept = 0
    if source == CONSTANTS and under:
        for c in range(n):
            row = candidates[c]
            at = np.int64(row) * PER_ROW + 1
            n_nodes = named[at - 1]
            found = np.uint64(0)
            if n_nodes == MANY:
                for k in range(sets_at[named[at]], sets_at[named[at] + 1]):
                    found |= marked(marks, sets[k])
            else:
                for k in range(at, at + n_nodes):
                    found |= marked(marks, named[k])
            candidates[kept] = row
            kept += np.int64(found)
        return kept
    for c in range(n):
        prefetch(owner, candidates[c])
        if source < 0:
            prefetch(rows, candidates[c])
            prefetch(named, np.int64(candidates[c]) * PER_ROW)
    for c in range(n):
        row = candidates[c]
        place = source if source >= 0 else source_at[rows[row].shape, form]
        if source >= 0 or source_kind[rows[row].shape, form] == FROM_CONTEXT:
            prefetch(values, np.int64(place) * values.shape[1] + owner[row])
    for c in range(n):
        row = candidates[c]
        key = np.float64(0.0)
        if source >= 0:
            key = values[source, owner[row]]
        elif source_kind[rows[row].shape, form] == FROM_CONTEXT:
            key = values[source_at[rows[row].shape, form], owner[row]]
        else:
            at = np.int64(row) * PER_ROW
            key = np.float64(named[at + 1])
            if named[at] == 0:
                key = np.nan
            elif named[at] == MANY:
                key += SET
            elif named[at] > 1:
                spans[c].key = OF_ROW
                spans[c].begin, spans[c].end = at + 1, at + 1 + named[at]
                continue
        spans[c].key = key
        spans[c].begin = spans[c].end = 0
        if key >= SET:
            prefetch(sets_at, np.int64(key) - SET)
    for c in range(n):
        key = spans[c].key
        if key >= SET:
            number = np.int64(key) - SET
            spans[c].begin, spans[c].end = sets_at[number], sets_at[number + 1]
            prefetch(sets, sets_at[number])
        elif key >= 0:
            spans[c].end = 1
            prefetch(component, np.int64(key))
    for c in range(n):
        key = spans[c].key
        for k in range(spans[c].begin, spans[c].end):
            node = node_at(key, k, sets, named, component)
            if under:
                prefetch(marks, node >> 6)
            elif forest:
                prefetch(enter, node)
            else:
                prefetch(above_at, node)
    for c in range(n):
        row = candidates[c]
        key = spans[c].key
        passes = False
        for k in range(spans[c].begin, spans[c].end):
            node = node_at(key, k, sets, named, component)
            if under:
                passes = marked(marks, node) != 0
            else:
                for m in range(first, last):
                    over = member(of_message, m, asked, component, sets, given)
                    if forest:
                        passes |= enter[over] <= enter[node] and enter[node] < leave[over]
                    else:
                        passes |= covers(over, node, above_at, above_n, above)
            if passes:
                break
        if passes:
            candidates[kept] = row
            kept += 1
        elif (
            is_best
            and source_kind[rows[row].shape, form] == FROM_CONTEXT
            and state[N_FAILED] < failed.shape[0]
        ):
            failed[state[N_FAILED]] = row
            state[N_FAILED] += 1
    return kept


@kernel
def confirm(
    asked: Any, form: Any, forms: Any, lists: Any, graphs: Any, candidates: Any, n: Any
) -> Any:  # fmt: skip
    """As ``verify`` of nodes that stand in conditions, where the sieve has them folded; how many.

    Few nodes of candidates have their bit there: those are searched for above the message's.
    """
    component, sets_at, sets, given_at, given = values_of(graphs, forms[form, GRAPH])
    above_at, above_n, above = closure_of(graphs, forms[form, GRAPH])
    sieve = array_at(lists, form * N_LISTS + SIEVE, np.uint64)
    named = array_at(lists, form * N_LISTS + NAMED, np.int32)
    of_message, first, last = span(asked, sets_at, given_at)
    for c in range(n):
        prefetch(named, np.int64(candidates[c]) * PER_ROW)
    kept = 0
    for c in range(n):
        row = candidates[c]
        at = np.int64(row) * PER_ROW + 1
        many = named[at - 1] == MANY
        begin, end = at, at + named[at - 1]
        if many:
            begin, end = sets_at[named[at]], sets_at[named[at] + 1]
        passes = False
        for k in range(begin, end):
            node = sets[k] if many else named[k]
            if marked(sieve, node & FOLD):
                for m in range(first, last):
                    below = member(of_message, m, asked, component, sets, given)
                    passes |= covers(node, below, above_at, above_n, above)
            if passes:
                break
        candidates[kept] = row
        kept += passes
    return kept


@inlined
def node_at(key: Any, place: Any, sets: Any, named: Any, component: Any) -> Any:
    """A node of a candidate: of a set, of its row's record, or the key itself."""
    if key >= SET:
        return sets[place]
    return named[place] if key == OF_ROW else component[np.int32(key)]


@inlined
def living(candidates: Any, n: Any, rows: Any, group_of_shape: Any, group: Any) -> Any:
    """Keep the candidates that are still there, and awake; how many."""
    for c in range(n):
        prefetch(rows, candidates[c])
    kept = 0
    for c in range(n):
        row = candidates[c]
        shape = rows[row].shape
        if shape >= 0 and group_of_shape[shape] == group and rows[row].awake:
            candidates[kept] = row
            kept += 1
    return kept


@inlined
def distinct(candidates: Any, n: Any, seen: Any) -> Any:
    """Keep each once; how many. ``seen`` is clear before and afterwards."""
    kept = 0
    for c in range(n):
        row = candidates[c]
        bit = np.uint64(1) << np.uint64(row & 63)
        fresh = (seen[row >> 6] & bit) == 0
        seen[row >> 6] |= bit
        candidates[kept] = row
        kept += fresh
    for c in range(kept):
        seen[candidates[c] >> 6] = 0
    return kept
