"""Contexts against an address: a program that reads nothing but the context."""

from typing import Any

from germane.kernels.compile import kernel
from germane.kernels.conjunctions import UNSEEN, run


@kernel
def test_contexts(
    contexts: Any, n_code: Any, rows: Any, owner: Any, code: Any, pool: Any, values: Any,
    truth: Any, cache: Any, wanted: Any, stack: Any, graphs: Any, reached: Any, waiting: Any,
) -> Any:  # fmt: skip
    """Mark the contexts that an address reaches; how many wait for a text.

    ``rows`` and ``owner`` have one entry, which stands for each context in turn.
    """
    n_waiting = 0
    for i in range(contexts.shape[0]):
        owner[0] = contexts[i]
        outcome = run(
            0, n_code, 0, values[0], rows, owner, code, pool, values, truth, cache, wanted, stack,
            graphs,
        )  # fmt: skip
        if outcome == UNSEEN:
            waiting[n_waiting] = contexts[i]
            n_waiting += 1
        else:
            reached[contexts[i]] = outcome == 1.0
    return n_waiting
