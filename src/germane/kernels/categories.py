"""Sets of nodes as keys, and the one predicate on them: is some of these within some of those?

A key is a float64 like any other: below ``SET`` it is a node; from ``SET`` on, a set that
conditions and contexts hold; below zero, a set that came with a message; NaN is NULL. ``places``
are the arrays of all graphs, ``N_ARRAYS`` of each, as ``kernels.bundle`` puts them.
"""

from typing import Any

import numpy as np

from germane.kernels.bundle import array_at
from germane.kernels.compile import inlined, kernel
from germane.kernels.graphs import covers

SET = 1 << 31
(
    COMPONENT,
    ABOVE_AT,
    ABOVE_N,
    ABOVE,
    BELOW,
    ENTER,
    LEAVE,
    DOWN_AT,
    DOWN,
    SETS_AT,
    SETS,
    GIVEN_AT,
    GIVEN,
    N_ARRAYS,
) = range(14)
"""The arrays of a graph; the first are those of ``ContentGraph.view``."""


@inlined
def values_of(graphs: Any, graph: Any) -> Any:
    """What tells the components of keys: component, sets_at, sets, given_at, given."""
    first = graph * N_ARRAYS
    return (
        array_at(graphs, first + COMPONENT, np.int32),
        array_at(graphs, first + SETS_AT, np.int64),
        array_at(graphs, first + SETS, np.int32),
        array_at(graphs, first + GIVEN_AT, np.int64),
        array_at(graphs, first + GIVEN, np.int32),
    )


@inlined
def closure_of(graphs: Any, graph: Any) -> Any:
    """What tells who covers whom: above_at, above_n, above."""
    first = graph * N_ARRAYS
    return (
        array_at(graphs, first + ABOVE_AT, np.int64),
        array_at(graphs, first + ABOVE_N, np.int32),
        array_at(graphs, first + ABOVE, np.int32),
    )


@inlined
def span(key: Any, sets_at: Any, given_at: Any) -> Any:
    """Where the nodes of a key are: (0: the key itself, 1: sets, 2: given; first, end)."""
    if key >= SET:
        number = np.int64(key) - SET
        return 1, sets_at[number], sets_at[number + 1]
    if key >= 0:
        return 0, np.int64(0), np.int64(1)
    number = np.int64(-key) - 1
    return 2, given_at[number], given_at[number + 1]


@inlined
def member(which: Any, place: Any, key: Any, component: Any, sets: Any, given: Any) -> Any:
    """The component of a node of a key; sets hold components, not nodes."""
    if which == 0:
        return component[np.int32(key)]
    return sets[place] if which == 1 else given[place]


@inlined
def within(a: Any, b: Any, graph: Any, places: Any) -> Any:
    """Whether some node of a is one of b, or below it; three-valued."""
    if a != a or b != b:
        return np.nan
    component, sets_at, sets, given_at, given = values_of(places, graph)
    above_at, above_n, above = closure_of(places, graph)
    kind_a, begin_a, end_a = span(a, sets_at, given_at)
    kind_b, begin_b, end_b = span(b, sets_at, given_at)
    for i in range(begin_a, end_a):
        below = member(kind_a, i, a, component, sets, given)
        for k in range(begin_b, end_b):
            over = member(kind_b, k, b, component, sets, given)
            if covers(over, below, above_at, above_n, above):
                return 1.0
    return 0.0


@kernel
def collect(
    starts: Any, ends: Any, nodes: Any, first: Any, keys: Any, out: Any, out_ends: Any
) -> Any:
    """Keys of rows that are lists of nodes: NaN, the node itself, or a set that came with messages.

    ``nodes`` are sorted in place, list by list; distinct ones of lists with several go to ``out``,
    whose sets are numbered from ``first`` on. Returns (sets, nodes in them).
    """
    n_sets = 0
    used = 0
    for i in range(starts.shape[0]):
        begin, end = starts[i], ends[i]
        for a in range(begin + 1, end):
            node = nodes[a]
            b = a
            while b > begin and nodes[b - 1] > node:
                nodes[b] = nodes[b - 1]
                b -= 1
            nodes[b] = node
        mark = used
        for a in range(begin, end):
            if a == begin or nodes[a] != nodes[a - 1]:
                out[used] = nodes[a]
                used += 1
        if used - mark > 1:
            keys[i] = -np.float64(first + n_sets + 1)
            out_ends[n_sets] = used
            n_sets += 1
        else:
            keys[i] = np.float64(out[mark]) if used > mark else np.nan
            used = mark
    return n_sets, used
