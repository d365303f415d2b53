"""Postings: nodes of content graphs -> rows, and messages through them.

A group of rows has some *forms*, each a message attribute, its graph and a side: UNDER, where the
row's nodes are above the message's (`topic WITHIN …`), or OVER, where they are below (`place
CONTAINS …`). Every row of the group is posted under each form, at the components of its nodes, so a
message may be looked up by any of them: by the one that names the fewest rows. The others are
verified.

    UNDER  rows posted at what covers a node of the message
    OVER   rows posted at what a node of the message covers; and, of rows that are posted above
           where they are (``wide``, in forests alone), also those at what covers it

Postings only ever name too many rows: what a row leaves behind when it goes or moves is found out
by the test, and swept up when they are built anew. Lists are read by ``kernels.lookups``, rows
verified by ``kernels.verifications``.
"""

from typing import Any

import numpy as np

from germane.kernels.compile import inlined, kernel
from germane.kernels.conjunctions import MISSING, PASSED, test
from germane.kernels.entries import OVER, UNDER
from germane.kernels.lookups import (
    ATTRIBUTE,
    CONSTANTS,
    MARKS,
    SIDE,
    SIEVE,
    SIEVED_BY,
    SOURCE,
    clear_above,
    fetch_ahead,
    folded,
    look_up,
    mark_above,
    named_by,
)
from germane.kernels.verifications import (
    N_CANDIDATES,
    N_OUT,
    N_WAITING,
    confirm,
    distinct,
    living,
    verify,
)

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
        quick = apart and forms[sieve, SOURCE] == CONSTANTS
        both = n > 0 and apart and not quick
        if both:
            key = vectors[message, forms[sieve, ATTRIBUTE]]
            mark_above(key, sieve, MARKS, forms, lists, graphs)
        for turn in range(n_forms):
            j = best if turn == 0 else turn - (turn <= best)
            if n == 0 or (j == best and certain[j]) or (j == sieve and proven[j]):
                continue
            if quick and j == sieve:
                n = confirm(
                    vectors[message, forms[j, ATTRIBUTE]], j, forms, lists, graphs, candidates, n
                )
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
