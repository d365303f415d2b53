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
from germane.kernels.entries import FOLD, FROM_CONTEXT, MANY, OVER, PER_ROW, STEP, UNDER
from germane.kernels.graphs import covers
from germane.kernels.lanes import prefetch

(
    AT,
    COUNT,
    POOL,
    POSTED_BELOW,
    WIDE_AT,
    WIDE_COUNT,
    WIDE_POOL,
    MARKS,
    SIEVE,
    NAMED,
    N_LISTS,
) = range(11)
ATTRIBUTE, GRAPH, SIDE, SOURCE, SIEVED_BY, N_ABOUT = range(6)
"""What is said of a form; its source is a context slot that all rows read, or one of these.

Its entries have sketches of what another form names, or, where that is -1, none."""
CONSTANTS, MIXED = -1, -2
N_OUT, N_FAILED, N_WAITING, N_CANDIDATES, N_STATE = range(5)
SPAN = np.dtype([("key", np.float64), ("begin", np.int64), ("end", np.int64)])
"""A candidate's key, and where its nodes are; of one node, it is the key itself."""
OF_ROW = -1.0
"""The key of a candidate whose nodes are in its row's record."""
DEEP = 8
"""Nodes on the way to an entry, at most, as an estimate."""
LINE, MOST_AHEAD = 16, 128
"""Words of a cache line, and of a list that are fetched before its message's turn."""
EVERY = (1 << 31) - 1
"""All bits of a node."""
UNSIEVED = 6
"""What a row costs that must be looked at itself, in entries that a sieve decides."""


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
    proven: Any,
    all_live: Any,
    all_pure: Any,
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
    pairs that wait for a text to ``waiting``; rows that are named twice count twice as candidates.
    ``plan`` is the form to look up by, or -1: the one that costs least; ``certain`` says which
    forms name no row in vain, ``proven`` of which ones the sieve lets no row pass in vain,
    ``all_live`` whether all rows that lists name are there and awake, ``all_pure`` whether their
    conditions have nothing else. It stops where an array may be too short.
    """
    rows, owner, values, graphs = rest[0], rest[1], rest[6], rest[11]
    n_forms = forms.shape[0]
    for i in range(begin, order.shape[0]):
        message = order[i]
        if i + 4 < order.shape[0]:
            fetch_ahead(vectors, order[i + 4], True, forms, lists, graphs)
            fetch_ahead(vectors, order[i + 2], False, forms, lists, graphs)
        complete = True
        for j in range(n_forms):
            key = vectors[message, forms[j, ATTRIBUTE]]
            complete &= key == key
        if not complete:
            continue
        best = -1
        least = np.int64(0)
        n_named = np.int64(0)
        for turn in range(2 * n_forms):  # OVER first: those counts are at hand
            j = turn % n_forms
            if (forms[j, SIDE] == OVER) == (turn < n_forms) and (plan < 0 or j == plan):
                each = UNSIEVED if forms[j, SIEVED_BY] < 0 else 1
                most = least // each + 1 if best >= 0 else np.int64(1 << 62)
                key = vectors[message, forms[j, ATTRIBUTE]]
                named = named_by(key, j, forms, lists, graphs, most)
                if best < 0 or named * each < least:
                    best = j
                    n_named = named
                    least = named * each
        if not fits(n_named, candidates, pairs, waiting, state):
            return i
        chosen[best] += 1
        if n_named == 0:
            continue
        sieve = forms[best, SIEVED_BY]
        for j in range(n_forms):
            if forms[j, SIDE] == UNDER and j != best and j != sieve:
                mark_above(vectors[message, forms[j, ATTRIBUTE]], j, MARKS, forms, lists, graphs)
        if sieve >= 0:
            key = vectors[message, forms[sieve, ATTRIBUTE]]
            mark_above(key, sieve, SIEVE, forms, lists, graphs)
        key = vectors[message, forms[best, ATTRIBUTE]]
        after = 1 - best if n_forms == 2 else best
        n = look_up(key, best, after, forms, lists, graphs, candidates, path)
        if not certain[best]:
            n = distinct(candidates, n, seen)
        if not all_live:
            n = living(candidates, n, rows, group_of_shape, group)
        state[N_CANDIDATES] += n
        apart = sieve >= 0 and folded(sieve, lists)
        both = n > 0 and apart
        if both:
            key = vectors[message, forms[sieve, ATTRIBUTE]]
            mark_above(key, sieve, MARKS, forms, lists, graphs)
        for turn in range(n_forms):
            j = best if turn == 0 else turn - (turn <= best)
            if n == 0 or (j == best and certain[j]) or (j == sieve and proven[j]):
                continue
            n = verify(
                vectors[message, forms[j, ATTRIBUTE]], j, j == best, forms, lists, graphs, state,
                source_kind, source_at, rows, owner, values, candidates, n, spans, failed,
            )  # fmt: skip
        for j in range(n_forms):
            if forms[j, SIDE] == UNDER:
                which = SIEVE if apart and j == sieve else MARKS
                clear_above(vectors[message, forms[j, ATTRIBUTE]], j, which, forms, lists, graphs)
        if both:
            key = vectors[message, forms[sieve, ATTRIBUTE]]
            clear_above(key, sieve, MARKS, forms, lists, graphs)
        if certain[best]:  # most are gone by now
            n = distinct(candidates, n, seen)
        if n:
            settle(message, vectors, candidates, n, pure, all_pure, rest, pairs, waiting, state)
    return order.shape[0]


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
        step = 1 if forms[j, SIEVED_BY] < 0 else STEP
        kind, begin, end = span(key, sets_at, given_at)
        for m in range(begin, min(end, begin + DEEP)):
            node = member(kind, m, key, component, sets, given)
            if first:
                prefetch(above_at, node)
                prefetch(above_n, node)
                if forms[j, SIDE] == OVER:
                    prefetch(at, node)
                    prefetch(count, node)
                    prefetch(posted, node)
            elif forms[j, SIDE] == OVER:
                for k in range(0, min(count[node] * step, MOST_AHEAD), LINE):
                    prefetch(entries, at[node] * step + k)
            else:
                for k in range(0, min(above_n[node], 64), 16):
                    prefetch(above, above_at[node] + k)


@inlined
def fits(n: Any, candidates: Any, pairs: Any, waiting: Any, state: Any) -> Any:
    """Whether there is room for a message with n candidates."""
    return (
        n <= candidates.shape[0]
        and state[N_OUT] + n <= pairs.shape[0]
        and state[N_WAITING] + n <= waiting.shape[0]
    )


@kernel
def settle(
    message: Any, vectors: Any, candidates: Any, n: Any, pure: Any, all_pure: Any, rest: Any,
    pairs: Any, waiting: Any, state: Any,
) -> None:  # fmt: skip
    """Test whatever else the conditions of candidates have, and note those that match."""
    rows, owner, shapes, row_forms, code, pool, values, truth, cache, wanted, stack, graphs = rest
    for c in range(n):
        row = candidates[c]
        if not all_pure and not pure[rows[row].shape]:
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


@inlined
def marked(marks: Any, node: Any) -> Any:
    bit = np.uint64(node)  # an index without a sign is not looked at for being negative
    return marks[bit >> np.uint64(6)] >> (bit & np.uint64(63)) & np.uint64(1)


@inlined
def mark(marks: Any, node: Any) -> None:
    bit = np.uint64(node)
    marks[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))


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
        if posted[start] and not marked(marks, start):
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
                total += posted[node] + min(posted[node] * DEEP, below[node])
            for k in range(above_at[node], above_at[node] + above_n[node] * some_wide):
                total += wide_count[above[k]]
        else:
            for k in range(above_at[node], above_at[node] + above_n[node]):
                total += count[above[k]]
        if total >= most:
            return most
    return total


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


@inlined
def node_at(key: Any, place: Any, sets: Any, named: Any, component: Any) -> Any:
    """A node of a candidate: of a set, of its row's record, or the key itself."""
    if key >= SET:
        return sets[place]
    return named[place] if key == OF_ROW else component[np.int32(key)]
