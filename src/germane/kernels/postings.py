"""Postings: nodes of content graphs -> rows, and messages through them.

A group of rows has some *forms*, each a message attribute, its graph and a side: UNDER, where the
row's nodes are above the message's (`topic WITHIN …`), or OVER, where they are below (`place
CONTAINS …`). Every row of the group is posted under each form, at the components of its nodes, so a
message may be looked up by any of them: by the one that names the fewest rows. The others are
verified.

    UNDER  rows posted at what covers a node of the message
    OVER   rows posted at what a node of the message covers; and, of rows that are posted above
           where they are (``wide``), also those at what covers it

Postings only ever name too many rows: what a row leaves behind when it goes or moves is found out
by the test, and swept up when they are built anew. ``lists`` are the arrays of all forms,
``N_LISTS`` of each (``kernels.bundle``).
"""

from typing import Any

import numpy as np

from germane.kernels.bundle import array_at
from germane.kernels.categories import (
    BELOW,
    DOWN,
    DOWN_AT,
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
from germane.kernels.conjunctions import MISSING, PASSED, test
from germane.kernels.graphs import covers
from germane.kernels.lanes import prefetch

UNDER, OVER = 0, 1
AT, COUNT, POOL, POSTED_BELOW, WIDE_AT, WIDE_COUNT, WIDE_POOL, STAMP, HELD, N_LISTS = range(10)
ATTRIBUTE, GRAPH, SIDE, SOURCE, N_ABOUT = range(5)
"""What is said of a form; its source is a context slot that all rows read, or one of these."""
CONSTANTS, MIXED = -1, -2
EPOCH, N_OUT, N_FAILED, N_WAITING, N_CANDIDATES, N_STATE = range(6)
FROM_CONSTANT, FROM_CONTEXT = 0, 1
SPAN = np.dtype([("key", np.float64), ("begin", np.int64), ("end", np.int64)])
"""A candidate's key, and where its nodes are; of one node, it is the key itself."""
DEEP = 8
"""Nodes on the way to an entry, at most, as an estimate."""
NOWHERE, MANY, SOON = -1, -2, -3
"""Where a row is posted, if not at one node; the last, while it is being moved."""


@kernel
def post(
    rows: Any, nodes: Any, begin: Any, at: Any, count: Any, room: Any, pool: Any, used: Any
) -> Any:
    """Append rows to the lists of nodes; a list that is full moves to twice the room.

    Stops where the pool may be too short; (how far it came, entries used).
    """
    for i in range(begin, rows.shape[0]):
        node = nodes[i]
        n = count[node]
        if n == room[node]:
            wanted = max(2, 2 * n)
            if used + wanted > pool.shape[0]:
                return i, used
            for k in range(n):
                pool[used + k] = pool[at[node] + k]
            at[node] = used
            room[node] = wanted
            used += wanted
        pool[at[node] + n] = rows[i]
        count[node] = n + 1
    return rows.shape[0], used


@kernel
def lay(rows: Any, nodes: Any, at: Any, count: Any, room: Any, pool: Any) -> None:
    """All lists at once, one after the other."""
    count[:] = 0
    for i in range(nodes.shape[0]):
        count[nodes[i]] += 1
    used = np.int64(0)
    for n in range(count.shape[0]):
        at[n] = used
        room[n] = count[n]
        used += count[n]
    count[:] = 0
    for i in range(nodes.shape[0]):
        pool[at[nodes[i]] + count[nodes[i]]] = rows[i]
        count[nodes[i]] += 1


@kernel
def count_posted(nodes: Any, above_at: Any, above_n: Any, above: Any, posted: Any) -> None:
    """Count entries at all that cover their nodes."""
    for i in range(nodes.shape[0]):
        node = nodes[i]
        for k in range(above_at[node], above_at[node] + above_n[node]):
            posted[above[k]] += 1


@kernel
def flatten(keys: Any, owners: Any, graph: Any, graphs: Any, nodes: Any, whose: Any) -> Any:
    """Components of the nodes of keys, and whose they are; how many, or would be."""
    component, sets_at, sets, given_at, given = values_of(graphs, graph)
    n = 0
    for i in range(keys.shape[0]):
        if keys[i] != keys[i]:
            continue
        kind, begin, end = span(keys[i], sets_at, given_at)
        for k in range(begin, end):
            if n < nodes.shape[0]:
                nodes[n] = member(kind, k, keys[i], component, sets, given)
                whose[n] = owners[i]
            n += 1
    return n


@kernel
def keys_of(
    wanted: Any, form: Any, source_kind: Any, source_at: Any, rows: Any, owner: Any, pool: Any,
    values: Any, keys: Any,
) -> None:  # fmt: skip
    """The keys that rows have in a form now."""
    for i in range(wanted.shape[0]):
        row = wanted[i]
        place = source_at[rows[row].shape, form]
        if source_kind[rows[row].shape, form] == FROM_CONTEXT:
            keys[i] = values[place, owner[row]]
        else:
            keys[i] = pool[rows[row].at + (place >> 1) * rows[row].step + (place & 1)]


@inlined
def nearest_common(a: Any, b: Any, above_at: Any, above_n: Any, above: Any, below: Any) -> Any:
    """What covers both and covers the least besides; NOWHERE if nothing does."""
    i, end_i = above_at[a], above_at[a] + above_n[a]
    j, end_j = above_at[b], above_at[b] + above_n[b]
    best = NOWHERE
    while i < end_i and j < end_j:
        if above[i] == above[j]:
            if best == NOWHERE or below[above[i]] < below[best]:
                best = above[i]
            i += 1
            j += 1
        elif above[i] < above[j]:
            i += 1
        else:
            j += 1
    return best


@kernel
def follow(
    contexts: Any,
    slot: Any,
    form: Any,
    graph: Any,
    escalates: Any,
    head: Any,
    rows: Any,
    values: Any,
    group_of_shape: Any,
    group: Any,
    source_kind: Any,
    source_at: Any,
    graphs: Any,
    side: Any,
    home: Any,
    wide: Any,
    moved: Any,
    target: Any,
) -> Any:
    """Rows of contexts whose value in a slot has left what they are posted at, and where to go.

    ``target`` is a node that covers old and new, which is its home from now on, or NOWHERE: post
    the row anew, exactly. Returns
    how many rows moved, and how many are posted somewhere although there is nothing any more.
    """
    first = graph * N_ARRAYS
    component, sets_at, sets, given_at, given = values_of(graphs, graph)
    above_at, above_n, above = closure_of(graphs, graph)
    below = array_at(graphs, first + BELOW, np.int32)
    enter = array_at(graphs, first + ENTER, np.int32)
    leave = array_at(graphs, first + LEAVE, np.int32)
    forest = enter.shape[0] > 0
    n = 0
    n_null = 0
    for i in range(contexts.shape[0]):
        key = values[slot, contexts[i]]
        row = head[contexts[i]]
        while row >= 0:
            shape = rows[row].shape
            next_row = rows[row].next
            if (
                shape >= 0
                and group_of_shape[shape] == group
                and source_kind[shape, form] == FROM_CONTEXT
                and source_at[shape, form] == slot
            ):
                at = home[row]
                if key != key:
                    n_null += at != NOWHERE
                    row = next_row
                    continue
                kind, begin, end = span(key, sets_at, given_at)
                stays = at >= 0
                for k in range(begin, end):
                    if not stays:
                        break
                    node = member(kind, k, key, component, sets, given)
                    if forest:
                        stays = enter[at] <= enter[node] and enter[node] < leave[at]
                    else:
                        stays = covers(at, node, above_at, above_n, above)
                    # What is over a row's place is not found at a place above it, unless wide.
                    stays = stays and (side == UNDER or wide[row] or node == at)
                if not stays and at != SOON:  # a context may be given twice
                    moved[n] = row
                    target[n] = NOWHERE
                    home[row] = SOON
                    if escalates and at >= 0 and kind == 0:
                        node = component[np.int32(key)]
                        target[n] = nearest_common(at, node, above_at, above_n, above, below)
                        if target[n] != NOWHERE:
                            home[row] = target[n]
                            wide[row] = True
                    n += 1
            row = next_row
    return n, n_null


@kernel
def match_postings(
    order: Any,
    begin: Any,
    vectors: Any,
    forms: Any,
    lists: Any,
    group_of_shape: Any,
    group: Any,
    source_kind: Any,
    source_at: Any,
    pure: Any,
    certain: Any,
    all_live: Any,
    plan: Any,
    seen: Any,
    candidates: Any,
    spans: Any,
    path: Any,
    rest: Any,
    pairs: Any,
    failed: Any,
    waiting: Any,
    state: Any,
    chosen: Any,
) -> Any:
    """Match messages, from ``order[begin]`` on, with the rows of a group; how far it came.

    Pairs (message, row) that match go to ``pairs``, rows that are posted too wide to ``failed``,
    pairs that wait for a text to ``waiting``. ``plan`` is the form to look up by, or -1: the one
    that names the fewest rows; ``certain`` says which forms name no row in vain, ``all_live``
    whether all rows that lists name are there and awake. It stops where ``pairs`` may be too short.
    """
    rows, owner, shapes, row_forms, code, pool, values, truth, cache, wanted, stack, graphs = rest
    n_forms = forms.shape[0]
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
        for turn in range(2 * n_forms):  # OVER first: those counts are at hand
            j = turn % n_forms
            if (forms[j, SIDE] == OVER) == (turn < n_forms) and (plan < 0 or j == plan):
                most = least if best >= 0 else np.int64(1 << 62)
                key = vectors[message, forms[j, ATTRIBUTE]]
                cost = named_by(key, j, forms, lists, graphs, most)
                if best < 0 or cost < least:
                    best = j
                    least = cost
        if state[N_OUT] + least > pairs.shape[0] or state[N_WAITING] + least > waiting.shape[0]:
            return i
        chosen[best] += 1
        if least == 0:
            continue
        state[EPOCH] += 2
        for j in range(n_forms):
            if forms[j, SIDE] == UNDER:
                stamp_above(
                    vectors[message, forms[j, ATTRIBUTE]], j, forms, lists, graphs, state[EPOCH]
                )
        key = vectors[message, forms[best, ATTRIBUTE]]
        n_named = look_up(key, best, forms, lists, graphs, state[EPOCH], seen, candidates, path)
        n = n_named
        for c in range(n_named):
            seen[candidates[c] >> 6] = 0
        if not all_live:
            n = 0
            for c in range(n_named):
                prefetch(rows, candidates[c])
            for c in range(n_named):
                row = candidates[c]
                shape = rows[row].shape
                if shape >= 0 and group_of_shape[shape] == group and rows[row].awake:
                    candidates[n] = row
                    n += 1
        state[N_CANDIDATES] += n
        for turn in range(n_forms):
            j = best if turn == 0 else turn - (turn <= best)
            if j == best and certain[j]:
                continue
            n = verify(
                vectors[message, forms[j, ATTRIBUTE]], j, j == best, forms, lists, graphs, state,
                source_kind, source_at, rows, owner, values, candidates, n, spans, failed,
            )  # fmt: skip
        for c in range(n):
            row = candidates[c]
            if not pure[rows[row].shape]:
                reason = test(
                    row, vectors[message], rows, owner, shapes, row_forms, code, pool, values,
                    truth, cache, wanted, stack, graphs,
                )  # fmt: skip
                if reason == MISSING:
                    waiting[state[N_WAITING], 0] = message
                    waiting[state[N_WAITING], 1] = row
                    state[N_WAITING] += 1
                if reason != PASSED:
                    continue
            pairs[state[N_OUT], 0] = message
            pairs[state[N_OUT], 1] = row
            state[N_OUT] += 1
    return order.shape[0]


@kernel
def look_up(
    key: Any,
    form: Any,
    forms: Any,
    lists: Any,
    graphs: Any,
    epoch: Any,
    seen: Any,
    candidates: Any,
    path: Any,
) -> Any:
    """The rows that one form names for a message, each once; how many.

    A node whose list was read has the stamp ``epoch + 1``.
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
    stamp = array_at(lists, first + STAMP, np.int64)
    kind, begin, end = span(key, sets_at, given_at)
    n = 0
    for m in range(begin, end):
        start = member(kind, m, key, component, sets, given)
        if forms[form, SIDE] == UNDER:
            for k in range(above_at[start], above_at[start] + above_n[start]):
                node = above[k]
                if stamp[node] <= epoch:
                    stamp[node] = epoch + 1
                    n = take(at[node], count[node], entries, seen, candidates, n)
            continue
        for k in range(above_at[start], above_at[start] + above_n[start]):
            node = above[k]
            if wide_count[node]:
                n = take(wide_at[node], wide_count[node], wide_entries, seen, candidates, n)
        if stamp[start] > epoch or not posted[start]:
            continue
        stamp[start] = epoch + 1
        path[0] = start
        n_path = 1
        while n_path:
            n_path -= 1
            node = path[n_path]
            n = take(at[node], count[node], entries, seen, candidates, n)
            n = take(wide_at[node], wide_count[node], wide_entries, seen, candidates, n)
            for c in range(down_at[node], down_at[node + 1]):
                child = down[c]
                if stamp[child] <= epoch and posted[child]:
                    stamp[child] = epoch + 1
                    path[n_path] = child
                    n_path += 1
    return n


@inlined
def take(begin: Any, n_rows: Any, entries: Any, seen: Any, candidates: Any, n: Any) -> Any:
    """Append the rows of a list that were not seen yet, as bits; how many there are then."""
    for e in range(begin, begin + n_rows):
        row = entries[e]
        bit = np.uint64(1) << np.uint64(row & 63)
        if not seen[row >> 6] & bit:
            seen[row >> 6] |= bit
            candidates[n] = row
            n += 1
    return n


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
                total += posted[node] + min(posted[node] * DEEP, below[node])
            for k in range(above_at[node], above_at[node] + above_n[node]):
                total += wide_count[above[k]]
        else:
            for k in range(above_at[node], above_at[node] + above_n[node]):
                total += count[above[k]]
    return total


@kernel
def stamp_above(key: Any, form: Any, forms: Any, lists: Any, graphs: Any, epoch: Any) -> None:
    """Mark all that covers a node of a message, so that rows can be verified by one look each."""
    component, sets_at, sets, given_at, given = values_of(graphs, forms[form, GRAPH])
    above_at, above_n, above = closure_of(graphs, forms[form, GRAPH])
    stamp = array_at(lists, form * N_LISTS + STAMP, np.int64)
    kind, begin, end = span(key, sets_at, given_at)
    for m in range(begin, end):
        node = member(kind, m, key, component, sets, given)
        for k in range(above_at[node], above_at[node] + above_n[node]):
            stamp[above[k]] = epoch


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

    From a row to its nodes are four steps through memory. Each is taken for all candidates before
    the next, so that they wait for memory together.
    """
    graph = forms[form, GRAPH] * N_ARRAYS
    component, sets_at, sets, given_at, given = values_of(graphs, forms[form, GRAPH])
    above_at, above_n, above = closure_of(graphs, forms[form, GRAPH])
    enter = array_at(graphs, graph + ENTER, np.int32)
    leave = array_at(graphs, graph + LEAVE, np.int32)
    stamp = array_at(lists, form * N_LISTS + STAMP, np.int64)
    held = array_at(lists, form * N_LISTS + HELD, np.float64)
    under = forms[form, SIDE] == UNDER
    forest = enter.shape[0] > 0
    of_message, first, last = span(asked, sets_at, given_at)
    source = forms[form, SOURCE]
    if source == CONSTANTS:
        for c in range(n):
            prefetch(held, candidates[c])
    else:
        for c in range(n):
            prefetch(owner, candidates[c])
            if source == MIXED:
                prefetch(rows, candidates[c])
        for c in range(n):
            row = candidates[c]
            place = source if source >= 0 else source_at[rows[row].shape, form]
            if source >= 0 or source_kind[rows[row].shape, form] == FROM_CONTEXT:
                prefetch(values, np.int64(place) * values.shape[1] + owner[row])
    for c in range(n):
        row = candidates[c]
        if source >= 0:
            key = values[source, owner[row]]
        elif source == MIXED and source_kind[rows[row].shape, form] == FROM_CONTEXT:
            key = values[source_at[rows[row].shape, form], owner[row]]
        else:
            key = held[row]
        spans[c].key = key
        if key >= SET:
            prefetch(sets_at, np.int64(key) - SET)
    for c in range(n):
        key = spans[c].key
        spans[c].begin = spans[c].end = 0
        if key >= SET:
            number = np.int64(key) - SET
            spans[c].begin, spans[c].end = sets_at[number], sets_at[number + 1]
            prefetch(sets, sets_at[number])
        elif key == key:
            spans[c].end = 1
            prefetch(component, np.int64(key))
    for c in range(n):
        key = spans[c].key
        for k in range(spans[c].begin, spans[c].end):
            node = sets[k] if key >= SET else component[np.int32(key)]
            if under:
                prefetch(stamp, node)
            elif forest:
                prefetch(enter, node)
            else:
                prefetch(above_at, node)
    kept = 0
    for c in range(n):
        row = candidates[c]
        key = spans[c].key
        found = False
        for k in range(spans[c].begin, spans[c].end):
            node = sets[k] if key >= SET else component[np.int32(key)]
            if under:
                found = stamp[node] >= state[EPOCH]
            else:
                for m in range(first, last):
                    over = member(of_message, m, asked, component, sets, given)
                    if forest:
                        found |= enter[over] <= enter[node] and enter[node] < leave[over]
                    else:
                        found |= covers(over, node, above_at, above_n, above)
            if found:
                break
        if found:
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
