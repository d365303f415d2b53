"""What of a row stands beside its lane although no slot holds it: one more predicate, in brief.

A row with predicates beyond the slots of its index is found by a probe and then tested, and a test
goes to the row, its shape, its bounds: three or four places in memory, for a row that mostly
fails. So a block keeps, for each of its lanes, the first such predicate that is constant: the
attribute and its bounds, in the order of lanes, read one after the other. What fails there is
never looked up. A brief only excludes: an open bound counts as closed, and what passes is tested.

A block's briefs are made with its cores, when they are first wanted (``heads.cored``): a row's
constants never change while it lives in a lane.
"""

from typing import Any

import numpy as np

from germane.kernels.blocks import ONE, ZERO
from germane.kernels.compile import inlined, kernel
from germane.kernels.conjunctions import HIGH_CONTEXT, LOW_CONTEXT, ONLY_NULL
from germane.kernels.lanes import LANES, lowest_bit

BRIEF = np.dtype([("low", np.float64), ("high", np.float64), ("attribute", np.int64)])
"""Bounds of a predicate on a message attribute; attribute -1: nothing is known."""


@kernel
def find_briefs(
    block: Any,
    column_of: Any,
    heads: Any,
    tenants: Any,
    rows: Any,
    shapes: Any,
    forms: Any,
    pool: Any,
    briefs: Any,
) -> None:
    """The briefs of a block's lanes; ``column_of`` an attribute is its slot, or -1."""
    lanes = heads[block].occupied
    while lanes != ZERO:
        place = block * LANES + lowest_bit(lanes)
        lanes &= lanes - ONE
        briefs[place].attribute = -1
        row = tenants[place]
        shape = rows[row].shape
        first = shapes[shape].first
        for turn in range(first, shapes[shape].last):
            form = forms[turn].turn
            attribute = forms[form].attribute
            inside = attribute < column_of.shape[0] and column_of[attribute] >= 0
            if inside or forms[form].flags & (LOW_CONTEXT | HIGH_CONTEXT | ONLY_NULL):
                continue
            at = rows[row].at + (form - first) * rows[row].step
            briefs[place].low, briefs[place].high = pool[at], pool[at + 1]
            briefs[place].attribute = attribute
            break


@inlined
def excludes(brief: Any, message: Any) -> Any:
    """Whether a row cannot match a message, by its brief."""
    if brief.attribute < 0:
        return False
    value = message[brief.attribute]
    return not (value >= brief.low and value <= brief.high)
