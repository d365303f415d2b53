"""Conjunctions across attribute indexes: which rows did every index return?"""

from typing import Any

from germane.kernels.compile import kernel


@kernel
def merge_stamps(answer: Any, stamps: Any, needed: Any, awake: Any, out: Any) -> Any:
    """Rows of the last answer that have all earlier stamps and are awake, to the end of out."""
    found = 0
    top = out.shape[0]
    for i in range(answer.shape[0]):
        row = answer[i]
        if stamps[row] == needed and awake[row]:
            found += 1
            out[top - found] = row
    return found
