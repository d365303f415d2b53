"""Overlays in one pool: an update's whole flood, and the way of an addressed message.

A tree of routers is ``Wires``; groups of all its links are in one ``Pool``. Cost: a link message is
some `put` and `drop` (``kernels.links``); an addressed message asks the groups of each link it
passes.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.kernels.aggregates import NONE
from germane.kernels.compile import kernel
from germane.kernels.links import any_group, apply, changes, members_meeting


class Wires(NamedTuple):
    """A tree of routers: a link is one end of a wire, and knows the other."""

    back: NDArray[np.int32]  # the other end; NONE for users
    router: NDArray[np.int32]  # by link
    at: NDArray[np.int32]  # links of router r are at[r] : at[r + 1]


class Observed(NamedTuple):
    """What links cost, and by how much thresholds sink with each hop of an update."""

    sent: NDArray[np.int64]  # by link: messages to others, since its threshold changed
    vain: NDArray[np.int64]  # by dead end of the last message: link to blame, hops
    coarser: NDArray[np.float64]  # one


QUEUE_HEAD, QUEUE_TAIL, N_OPERATIONS, N_DONE = range(4)
MESSAGES, OPERATIONS = range(2)


@kernel
def flood(
    kinds: Any,
    pool: Any,
    wires: Any,
    queue: Any,
    operations: Any,
    rows: Any,
    state: Any,
    tally: Any,
    observed: Any,
) -> Any:
    """Deliver messages in order until none is left; False if room is lacking, then go on later.

    A message is a link, operations first : end, and how many hops they come from.
    """
    while state[QUEUE_HEAD] < state[QUEUE_TAIL]:
        head = state[QUEUE_HEAD]
        link, first, end = queue[head, 0], queue[head, 1], queue[head, 2]
        before = state[N_OPERATIONS]
        router = wires.router[link]
        n_links = wires.at[router + 1] - wires.at[router]
        if before + 2 * (end - first) > operations.shape[0]:
            return False  # each operation may change two groups
        if state[QUEUE_TAIL] + n_links > queue.shape[0]:
            return False
        threshold = pool.thresholds[link]
        pool.thresholds[link] = max(0.0, threshold - observed.coarser[0] * queue[head, 3])
        done = apply(kinds, pool, link, operations, rows, first + state[N_DONE], end)
        pool.thresholds[link] = threshold
        if done < end:
            state[N_DONE] = done - first
            return False
        state[QUEUE_HEAD], state[N_DONE] = head + 1, 0
        after = changes(kinds, pool, operations, rows, before)
        state[N_OPERATIONS] = after
        if after == before:
            continue
        for other in range(wires.at[router], wires.at[router + 1]):
            if other != link and wires.back[other] != NONE:
                tail = state[QUEUE_TAIL]
                queue[tail, 0], queue[tail, 1], queue[tail, 2] = wires.back[other], before, after
                queue[tail, 3] = queue[head, 3] + 1
                state[QUEUE_TAIL] = tail + 1
                observed.sent[link] += 1
                tally[MESSAGES] += 1
                tally[OPERATIONS] += after - before
    state[:] = 0
    return True


@kernel
def route(
    kinds: Any, pool: Any, wires: Any, source: Any, needed: Any, filters: Any, given: Any,
    stack: Any, out: Any, observed: Any,
) -> Any:  # fmt: skip
    """An addressed message from a router: hops, users it reaches (in `out`), and dead ends.

    At a dead end nobody is meant: either its users' groups are too wide, or those of the router
    before, which is told. What was in vain are the hops since the way forked or somebody was
    reached.
    """
    hops = n_out = n_vain = 0
    stack[0, 0], stack[0, 1], stack[0, 2] = source, NONE, 0
    n_stack = 1
    while n_stack:
        n_stack -= 1
        router, via, alone = stack[n_stack, 0], stack[n_stack, 1], stack[n_stack, 2]
        first, n_before = n_stack, n_out
        users = NONE
        for link in range(wires.at[router], wires.at[router + 1]):
            if link == via:
                continue
            back = wires.back[link]
            if back == NONE:
                users = link
                n_out = members_meeting(kinds, pool, link, needed, filters, given, out, n_out)
            elif any_group(kinds, pool, link, needed, filters, given):
                hops += 1
                stack[n_stack, 0], stack[n_stack, 1] = wires.router[back], back
                n_stack += 1
        is_way = n_stack == first + 1 and n_out == n_before
        for i in range(first, n_stack):
            stack[i, 2] = alone + 1 if is_way else 1
        if n_stack == first and n_out == n_before and via != NONE:
            blamed = np.int64(wires.back[via])
            if users != NONE and any_group(kinds, pool, users, needed, filters, given):
                blamed = np.int64(users)
            observed.vain[n_vain, 0], observed.vain[n_vain, 1] = blamed, alone
            n_vain += 1
    return hops, n_out, n_vain


@kernel
def meant(
    kinds: Any, pool: Any, users: Any, needed: Any, filters: Any, given: Any, marks: Any, out: Any
) -> Any:
    """All users who meet the filters, wherever they are, and marks on their routers; how many."""
    n = 0
    for router in range(users.shape[0]):
        if users[router] != NONE:
            before = n
            n = members_meeting(kinds, pool, users[router], needed, filters, given, out, n)
            if n > before:
                marks[router] = 1
    return n


@kernel
def spanning(parents: Any, marks: Any) -> Any:
    """Edges of the smallest subtree with all marked nodes; parents come before children.

    `marks` is used up.
    """
    n_marked = 0
    for node in range(parents.shape[0]):
        n_marked += marks[node]
    edges = 0
    for node in range(parents.shape[0] - 1, 0, -1):
        if 0 < marks[node] < n_marked:
            edges += 1
        marks[parents[node]] += marks[node]
    return edges
