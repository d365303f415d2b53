"""Lists of rows by node: how many rows a message would find by a form, and which.

``lists`` are the arrays of all forms, ``N_LISTS`` of each (``kernels.bundle``), ``forms`` what is
said of them, ``N_ABOUT`` words each. Lists that were laid in the order of a tour through a forest,
and not touched since, are *sliced*: what a node covers is listed in one stretch, from the beginning
of its own list to ``UNTIL``. Elsewhere OVER goes from node to node, down the links.
"""

from typing import Any

import numpy as np

from germane.kernels.bundle import array_at
from germane.kernels.categories import (
    BELOW,
    DOWN,
    DOWN_AT,
    N_ARRAYS,
    closure_of,
    member,
    span,
    values_of,
)
from germane.kernels.compile import inlined, kernel
from germane.kernels.entries import FOLD, OVER, PER_ROW, STEP, UNDER
from germane.kernels.lanes import prefetch

(
    AT,
    COUNT,
    POOL,
    UNTIL,
    POSTED_BELOW,
    WIDE_AT,
    WIDE_COUNT,
    WIDE_POOL,
    WIDE_UNTIL,
    MARKS,
    SIEVE,
    NAMED,
    N_LISTS,
) = range(13)
ATTRIBUTE, GRAPH, SIDE, SOURCE, SIEVED_BY, SLICED, N_ABOUT = range(7)
"""What is said of a form; its source is a context slot that all rows read, or one of these.

Its entries have sketches of what another form names, or, where that is -1, none."""
CONSTANTS, MIXED = -1, -2
DEEP = 8
"""Nodes on the way to an entry, at most, as an estimate."""
LINE, MOST_AHEAD = 16, 128
"""Words of a cache line, and of a list that are fetched before its message's turn."""
EVERY = (1 << 31) - 1
"""All bits of a node."""


@kernel
def named_by(key: Any, form: Any, forms: Any, lists: Any, graphs: Any, most: Any) -> Any:
    """How many entries a look-up by one form would go over; no matter how many beyond ``most``.

    Reading the lists of so many nodes costs more than so many entries.
    """
    graph = forms[form, GRAPH] * N_ARRAYS
    component, sets_at, sets, given_at, given = values_of(graphs, forms[form, GRAPH])
    above_at, above_n, above = closure_of(graphs, forms[form, GRAPH])
    below = array_at(graphs, graph + BELOW, np.int32)
    count = array_at(lists, form * N_LISTS + COUNT, np.int32)
    posted = array_at(lists, form * N_LISTS + POSTED_BELOW, np.int64)
    wide_count = array_at(lists, form * N_LISTS + WIDE_COUNT, np.int32)
    some_wide = lists[form * N_LISTS + WIDE_POOL, 1] > 0
    total = np.int64(0)
    kind, begin, end = span(key, sets_at, given_at)
    if forms[form, SIDE] == UNDER:
        n_lists = np.int64(0)
        for m in range(begin, end):
            n_lists += above_n[member(kind, m, key, component, sets, given)]
        if n_lists >= most:
            return most
    for m in range(begin, end):
        node = member(kind, m, key, component, sets, given)
        if forms[form, SIDE] == OVER:
            if posted[node]:
                total += posted[node]
                if not forms[form, SLICED]:
                    total += min(posted[node] * DEEP, below[node])
            for k in range(above_at[node], above_at[node] + above_n[node] * some_wide):
                total += wide_count[above[k]]
        else:
            for k in range(above_at[node], above_at[node] + above_n[node]):
                total += count[above[k]]
        if total >= most:
            return most
    return total


@kernel
def look_up(
    key: Any,
    form: Any,
    after: Any,
    forms: Any,
    lists: Any,
    graphs: Any,
    candidates: Any,
    path: Any,
) -> Any:
    """The rows that one form names for a message, some of them repeatedly; how many.

    What the form ``after`` will read of the rows is fetched by the way.
    UNDER, all that covers the message's nodes is marked afterwards; OVER, nothing is.
    """
    graph = forms[form, GRAPH] * N_ARRAYS
    component, sets_at, sets, given_at, given = values_of(graphs, forms[form, GRAPH])
    above_at, above_n, above = closure_of(graphs, forms[form, GRAPH])
    down_at = array_at(graphs, graph + DOWN_AT, np.int64)
    down = array_at(graphs, graph + DOWN, np.int32)
    first = form * N_LISTS
    at = array_at(lists, first + AT, np.int64)
    count = array_at(lists, first + COUNT, np.int32)
    entries = array_at(lists, first + POOL, np.int32)
    posted = array_at(lists, first + POSTED_BELOW, np.int64)
    wide_at = array_at(lists, first + WIDE_AT, np.int64)
    wide_count = array_at(lists, first + WIDE_COUNT, np.int32)
    wide_entries = array_at(lists, first + WIDE_POOL, np.int32)
    marks = array_at(lists, first + MARKS, np.uint64)
    ahead = array_at(lists, after * N_LISTS + NAMED, np.int32)
    sieve = array_at(lists, max(forms[form, SIEVED_BY], 0) * N_LISTS + SIEVE, np.uint64)
    until = array_at(lists, first + UNTIL, np.int64)
    wide_until = array_at(lists, first + WIDE_UNTIL, np.int64)
    sliced = forms[form, SLICED]
    sieved = forms[form, SIEVED_BY] >= 0
    kind, begin, end = span(key, sets_at, given_at)
    n = 0
    n_path = 0
    some_wide = wide_entries.shape[0] > 0
    for m in range(begin, end):
        start = member(kind, m, key, component, sets, given)
        if forms[form, SIDE] == UNDER:
            for k in range(above_at[start], above_at[start] + above_n[start]):
                node = above[k]
                if not marked(marks, node):
                    mark(marks, node)
                    n = take(at[node], count[node], entries, sieved, sieve, candidates, n, ahead)
            continue
        for k in range(above_at[start], above_at[start] + above_n[start] * some_wide):
            node = above[k]
            if wide_count[node]:
                n = take(
                    wide_at[node],
                    wide_count[node],
                    wide_entries,
                    sieved,
                    sieve,
                    candidates,
                    n,
                    ahead,
                )
        if sliced:
            n = take(
                at[start], until[start] - at[start], entries, sieved, sieve, candidates, n, ahead
            )
            if some_wide:
                n = take(
                    wide_at[start], wide_until[start] - wide_at[start], wide_entries, sieved,
                    sieve, candidates, n, ahead,
                )  # fmt: skip
        elif posted[start] and not marked(marks, start):
            mark(marks, start)
            path[n_path] = start
            n_path += 1
    done = 0
    while done < n_path:  # only OVER: from nodes to all that they cover, each once
        node = path[done]
        done += 1
        n = take(at[node], count[node], entries, sieved, sieve, candidates, n, ahead)
        n = take(
                    wide_at[node], wide_count[node], wide_entries, sieved, sieve, candidates, n,
                    ahead,
                )  # fmt: skip
        for c in range(down_at[node], down_at[node + 1]):
            child = down[c]
            if posted[child] and not marked(marks, child):
                mark(marks, child)
                path[n_path] = child
                n_path += 1
    for c in range(n_path):
        marks[path[c] >> 6] = 0
    return n


@inlined
def take(
    begin: Any, n_rows: Any, entries: Any, sieved: Any, sieve: Any, candidates: Any, n: Any,
    ahead: Any,
) -> Any:  # fmt: skip
    """Append the rows of a list that pass the sieve, if there is one; how many there are then."""
    if sieved:
        for e in range(begin, begin + n_rows):
            place = np.uint64(e) * np.uint64(STEP)
            found = np.uint64(0)
            for k in range(1, STEP):
                two = np.uint64(np.uint32(entries[place + np.uint64(k)]))
                found |= marked(sieve, two >> np.uint64(16)) | marked(sieve, two & FOLD)
            candidates[n] = entries[place]
            n += np.int64(found)
        return n
    for e in range(begin, begin + n_rows):
        candidates[n] = entries[e]
        if ahead.shape[0]:
            prefetch(ahead, np.int64(entries[e]) * PER_ROW)
        n += 1
    return n


@inlined
def marked(marks: Any, node: Any) -> Any:
    bit = np.uint64(node)  # an index without a sign is not looked at for being negative
    return marks[bit >> np.uint64(6)] >> (bit & np.uint64(63)) & np.uint64(1)


@inlined
def mark(marks: Any, node: Any) -> None:
    bit = np.uint64(node)
    marks[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))


@kernel
def mark_above(key: Any, form: Any, where: Any, forms: Any, lists: Any, graphs: Any) -> None:
    """Mark all that covers a node of a message, so that rows can be verified by one look each.

    ``where`` is MARKS or SIEVE.
    """
    component, sets_at, sets, given_at, given = values_of(graphs, forms[form, GRAPH])
    above_at, above_n, above = closure_of(graphs, forms[form, GRAPH])
    marks = array_at(lists, form * N_LISTS + where, np.uint64)
    fold = FOLD if where == SIEVE else EVERY
    kind, begin, end = span(key, sets_at, given_at)
    for m in range(begin, end):
        node = member(kind, m, key, component, sets, given)
        for k in range(above_at[node], above_at[node] + above_n[node]):
            mark(marks, above[k] & fold)
    if where == SIEVE:  # what is not sketched passes
        mark(marks, FOLD)


@kernel
def clear_above(key: Any, form: Any, where: Any, forms: Any, lists: Any, graphs: Any) -> None:
    """Undo ``mark_above``."""
    component, sets_at, sets, given_at, given = values_of(graphs, forms[form, GRAPH])
    above_at, above_n, above = closure_of(graphs, forms[form, GRAPH])
    marks = array_at(lists, form * N_LISTS + where, np.uint64)
    fold = FOLD if where == SIEVE else EVERY
    kind, begin, end = span(key, sets_at, given_at)
    for m in range(begin, end):
        node = member(kind, m, key, component, sets, given)
        for k in range(above_at[node], above_at[node] + above_n[node]):
            marks[np.uint64(above[k] & fold) >> np.uint64(6)] = 0


@inlined
def folded(form: Any, lists: Any) -> Any:
    """Whether a form's sieve is not its marks themselves: its graph has more nodes than bits."""
    return lists[form * N_LISTS + SIEVE, 0] != lists[form * N_LISTS + MARKS, 0]


@kernel
def fetch_ahead(
    vectors: Any, message: Any, first: Any, forms: Any, lists: Any, graphs: Any
) -> None:
    """Ask for what a message to come will read: where its rows are, at first, then those."""
    for j in range(forms.shape[0]):
        key = vectors[message, forms[j, ATTRIBUTE]]
        if key != key:
            return
        component, sets_at, sets, given_at, given = values_of(graphs, forms[j, GRAPH])
        above_at, above_n, above = closure_of(graphs, forms[j, GRAPH])
        at = array_at(lists, j * N_LISTS + AT, np.int64)
        count = array_at(lists, j * N_LISTS + COUNT, np.int32)
        entries = array_at(lists, j * N_LISTS + POOL, np.int32)
        posted = array_at(lists, j * N_LISTS + POSTED_BELOW, np.int64)
        until = array_at(lists, j * N_LISTS + UNTIL, np.int64)
        step = 1 if forms[j, SIEVED_BY] < 0 else STEP
        kind, begin, end = span(key, sets_at, given_at)
        for m in range(begin, min(end, begin + DEEP)):
            node = member(kind, m, key, component, sets, given)
            if first:
                prefetch(above_at, node)
                prefetch(above_n, node)
                if forms[j, SIDE] == OVER:
                    prefetch(at, node)
                    prefetch(posted, node)
                    if forms[j, SLICED]:
                        prefetch(until, node)
                    else:
                        prefetch(count, node)
            elif forms[j, SIDE] == OVER:
                n = posted[node] if forms[j, SLICED] else np.int64(count[node])
                for k in range(0, min(n * step, MOST_AHEAD), LINE):
                    prefetch(entries, at[node] * step + k)
            else:
                for k in range(0, min(above_n[node], 64), 16):
                    prefetch(above, above_at[node] + k)
