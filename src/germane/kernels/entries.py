"""Entries of postings: rows into the lists of their nodes, and after contexts that move.

An entry is the number of a row and, where lists have a *sieve*, a sketch of what the row names
under another form: up to ``SKETCHED`` nodes, folded to 16 bits, the last one repeated where there
are fewer. Where they do not fit, or may change, the sketch is ``ANYTHING``. So entries have 1 word,
or ``STEP``, and a list is read from one end to the other. ``kernels.postings`` reads them.
"""

from typing import Any

import numpy as np

from germane.kernels.bundle import array_at
from germane.kernels.categories import (
    BELOW,
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
from germane.kernels.graphs import covers

UNDER, OVER = 0, 1
FROM_CONSTANT, FROM_CONTEXT = 0, 1
NOWHERE, MANY, SOON = -1, -2, -3
"""Where a row is posted, if not at one node; the last, while it is being moved."""
PER_ROW = 8
"""Of nodes that a condition names, a row's record has their number and the first few."""
STEP, SKETCHED = 4, 6
"""Words of an entry with a sketch, and nodes in it, two in a word."""
FOLD = (1 << 16) - 1
ANYTHING = -1
"""A word of a sketch that passes every sieve: the bit of its nodes, ``FOLD``, is always there."""


@kernel
def post(
    rows: Any, sketches: Any, nodes: Any, begin: Any, at: Any, count: Any, room: Any, pool: Any,
    used: Any,
) -> Any:  # fmt: skip
    """Append rows to the lists of nodes; a list that is full moves to twice the room.

    Stops where the pool may be too short; (how far it came, entries used).
    """
    step = 1 + sketches.shape[1]
    for i in range(begin, rows.shape[0]):
        node = nodes[i]
        n = count[node]
        if n == room[node]:
            wanted = max(2, 2 * n)
            if (used + wanted) * step > pool.shape[0]:
                return i, used
            for k in range(n * step):
                pool[used * step + k] = pool[at[node] * step + k]
            at[node] = used
            room[node] = wanted
            used += wanted
        write(pool, (at[node] + n) * step, rows[i], sketches, i)
        count[node] = n + 1
    return rows.shape[0], used


@inlined
def write(pool: Any, place: Any, row: Any, sketches: Any, i: Any) -> None:
    """One entry."""
    pool[place] = row
    for k in range(sketches.shape[1]):
        pool[place + 1 + k] = sketches[i, k]


@kernel
def lay(
    rows: Any, sketches: Any, nodes: Any, order: Any, at: Any, count: Any, room: Any, pool: Any
) -> None:
    """All lists at once, one after the other in some order of nodes."""
    count[:] = 0
    for i in range(nodes.shape[0]):
        count[nodes[i]] += 1
    used = np.int64(0)
    for i in range(order.shape[0]):
        n = order[i]
        at[n] = used
        room[n] = count[n]
        used += count[n]
    count[:] = 0
    step = 1 + sketches.shape[1]
    for i in range(nodes.shape[0]):
        write(pool, (at[nodes[i]] + count[nodes[i]]) * step, rows[i], sketches, i)
        count[nodes[i]] += 1


@kernel
def sketch(wanted: Any, form: Any, rows: Any, source_kind: Any, named: Any, sketches: Any) -> None:
    """Sketches of what rows name under a form."""
    for i in range(wanted.shape[0]):
        row = wanted[i]
        at = np.int64(row) * PER_ROW
        n = named[at]
        fits = 0 < n and n <= SKETCHED and source_kind[rows[row].shape, form] == FROM_CONSTANT
        for k in range(STEP - 1):
            sketches[i, k] = ANYTHING
            if fits:
                low = named[at + 1 + min(2 * k, n - 1)] & FOLD
                high = named[at + 1 + min(2 * k + 1, n - 1)] & FOLD
                sketches[i, k] = np.int32(low | high << 16)


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


@kernel
def name(rows: Any, keys: Any, graph: Any, graphs: Any, named: Any) -> None:
    """Note the nodes of rows; where they are too many for a record, the number of their set."""
    component, sets_at, sets, given_at, given = values_of(graphs, graph)
    for i in range(rows.shape[0]):
        at = np.int64(rows[i]) * PER_ROW
        named[at] = 0
        if keys[i] != keys[i]:
            continue
        kind, begin, end = span(keys[i], sets_at, given_at)
        if end - begin < PER_ROW:
            named[at] = end - begin
            for k in range(begin, end):
                named[at + 1 + k - begin] = member(kind, k, keys[i], component, sets, given)
        else:
            named[at] = MANY
            named[at + 1] = np.int64(keys[i]) - SET


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
    the row anew, exactly. That is what happens where no one node covers both, and, OVER, where the
    graph is no forest: what is over a row's place may then be neither above nor below its home, and
    a message there would not find it. Returns how many rows moved, and how many are posted
    somewhere although there is nothing any more.
    """
    first = graph * N_ARRAYS
    component, sets_at, sets, given_at, given = values_of(graphs, graph)
    above_at, above_n, above = closure_of(graphs, graph)
    below = array_at(graphs, first + BELOW, np.int32)
    enter = array_at(graphs, first + ENTER, np.int32)
    leave = array_at(graphs, first + LEAVE, np.int32)
    forest = enter.shape[0] > 0
    widens = escalates and (forest or side == UNDER)
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
                    if widens and at >= 0 and kind == 0:
                        node = component[np.int32(key)]
                        target[n] = nearest_common(at, node, above_at, above_n, above, below)
                        if target[n] != NOWHERE:
                            home[row] = target[n]
                            wide[row] = True
                    n += 1
            row = next_row
    return n, n_null
