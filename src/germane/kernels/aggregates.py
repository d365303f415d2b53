"""Aggregates of contexts: merge, cover, similarity.

An aggregate is a row of numbers and a mask: bit a says that attribute a is there, in the columns
from ``forms[a, AT]``. A number is lo, hi; a location y lo, y hi, x lo, x hi; a class its node and
whether all below is meant; a choice a set of bits, ``WORD`` to a column. A context is an aggregate
of one. Columns of attributes that are not there mean nothing. Cost: linear in the columns.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.kernels.compile import inlined, kernel

NUMBER, CHOICE, LOCATION, TAXONOMY = range(4)
KIND, AT, WIDTH, HEIGHT = range(4)  # columns of `forms`
PARENT, LEVEL, ENTER, LEAVE = range(4)  # rows of `trees`
WORD = 32
"""Bits in a column: all integers below 2 ** 53 are floats."""
NONE = -1


class Forms(NamedTuple):
    """What kernels know of attributes."""

    forms: NDArray[np.int64]  # by attribute: kind, first column, columns, height of the tree
    lengths: NDArray[np.float64]  # by attribute: of the domain, along y and x
    trees: NDArray[np.int32]  # parent, level, enter, leave, by node of all trees
    order: NDArray[np.int64]  # attributes as they are compared: the cheapest first


@inlined
def ones(bits: Any) -> Any:
    """How many bits are set."""
    x = np.uint64(bits)
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inlined
def above(trees: Any, upper: Any, lower: Any) -> Any:
    """Whether a node is another, or above it."""
    return trees[ENTER, upper] <= trees[ENTER, lower] < trees[LEAVE, upper]


@kernel
def common(trees: Any, a: Any, b: Any) -> Any:
    """The lowest common ancestor."""
    while a != b:
        if trees[LEVEL, a] < trees[LEVEL, b]:
            a, b = b, a
        a = trees[PARENT, a]
    return a


@kernel
def merge(kinds: Any, row: Any, mask: Any, other: Any, other_mask: Any) -> Any:
    """Algorithm 1: widen a row so that it covers another; its mask then."""
    forms, trees = kinds.forms, kinds.trees
    bits = other_mask
    a = 0
    while bits:
        if bits & 1:
            at, width = forms[a, AT], forms[a, WIDTH]
            if not (mask >> a) & 1:
                for c in range(at, at + width):
                    row[c] = other[c]
            elif forms[a, KIND] == TAXONOMY:
                if row[at] != other[at] or row[at + 1] != other[at + 1]:
                    row[at] = common(trees, np.int64(row[at]), np.int64(other[at]))
                    row[at + 1] = 1.0
            elif forms[a, KIND] == CHOICE:
                for c in range(at, at + width):
                    row[c] = np.float64(np.int64(row[c]) | np.int64(other[c]))
            else:
                for c in range(at, at + width, 2):
                    row[c] = min(row[c], other[c])
                    row[c + 1] = max(row[c + 1], other[c + 1])
        bits >>= 1
        a += 1
    return mask | other_mask


@kernel
def same(kinds: Any, row: Any, mask: Any, other: Any, other_mask: Any) -> Any:
    """Whether two aggregates are equal."""
    if mask != other_mask:
        return False
    forms = kinds.forms
    for a in range(forms.shape[0]):
        if (mask >> a) & 1:
            for c in range(forms[a, AT], forms[a, AT] + forms[a, WIDTH]):
                if row[c] != other[c]:
                    return False
    return True


@kernel
def covers(kinds: Any, row: Any, mask: Any, other: Any, other_mask: Any) -> Any:
    """Whether merging the other into the row would leave it as it is."""
    if other_mask & ~mask:
        return False
    forms, trees = kinds.forms, kinds.trees
    for a in range(forms.shape[0]):
        if not (other_mask >> a) & 1:
            continue
        at, width = forms[a, AT], forms[a, WIDTH]
        if forms[a, KIND] == TAXONOMY:
            if row[at + 1] == 0.0:
                if row[at] != other[at] or other[at + 1] != 0.0:
                    return False
            elif not above(trees, np.int64(row[at]), np.int64(other[at])):
                return False
        elif forms[a, KIND] == CHOICE:
            for c in range(at, at + width):
                if np.int64(other[c]) & ~np.int64(row[c]):
                    return False
        else:
            for c in range(at, at + width, 2):
                if other[c] < row[c] or other[c + 1] > row[c + 1]:
                    return False
    return True


@inlined
def _span(a_lo: Any, a_hi: Any, b_lo: Any, b_hi: Any, length: Any) -> Any:
    """Position and span of two intervals, each half of the similarity."""
    position = max(0.0, 1.0 - abs(a_lo - b_lo) / length) if length > 0.0 else 1.0
    hull = max(a_hi, b_hi) - min(a_lo, b_lo)
    span = ((a_hi - a_lo) + (b_hi - b_lo)) / (2.0 * hull) if hull > 0.0 else 1.0
    return (position + span) / 2.0


@kernel
def closest(
    kinds: Any, row: Any, mask: Any, others: Any, first: Any, count: Any, shape: Any, shared: Any,
    best: Any, but: Any,
) -> Any:  # fmt: skip
    """The most similar of some rows with one mask, if above `best`: its similarity and place.

    Equation (3). A row is left as soon as it cannot exceed `best` any more; row `but` is no
    candidate. One function, because numba counts references to arrays at every call, which takes
    longer than the arithmetic.
    """
    forms, lengths, trees, order = kinds
    found = NONE
    n_all = ones(mask | shape)
    if n_all == 0:  # contexts without attributes are alike
        at = first + 1 if first == but else first
        return (1.0, at) if best < 1.0 and at < first + count else (best, found)
    n_shared = 0
    for o in range(order.shape[0]):
        if ((mask & shape) >> order[o]) & 1:
            shared[n_shared] = order[o]
            n_shared += 1
    for at in range(first, first + count):
        if at == but:
            continue
        total, left = 0.0, n_shared
        least = best * n_all - 1e-9  # with a margin for rounding
        while left and total + left > least:
            a = shared[n_shared - left]
            c, kind = forms[a, AT], forms[a, KIND]
            if kind == NUMBER:
                lo, hi, other_lo, other_hi = row[c], row[c + 1], others[at, c], others[at, c + 1]
                if lo != hi or other_lo != other_hi:
                    total += _span(lo, hi, other_lo, other_hi, lengths[a, 0])
                elif lo == other_lo:
                    total += 1.0
                elif lengths[a, 0] > 0.0:  # two points have no span in common
                    total += max(0.0, 1.0 - abs(lo - other_lo) / lengths[a, 0]) / 2.0
                else:
                    total += 0.5
            elif kind == LOCATION:
                y = _span(row[c], row[c + 1], others[at, c], others[at, c + 1], lengths[a, 0])
                c += 2
                x = _span(row[c], row[c + 1], others[at, c], others[at, c + 1], lengths[a, 1])
                total += (y + x) / 2.0
            elif kind == TAXONOMY:
                one, two = np.int64(row[c]), np.int64(others[at, c])
                total += 1.0
                if one != two:
                    top = common(trees, one, two)
                    steps = trees[LEVEL, one] + trees[LEVEL, two] - 2 * trees[LEVEL, top]
                    total -= steps / (2.0 * forms[a, HEIGHT])
            else:
                n_one = n_two = n_both = 0
                for i in range(c, c + forms[a, WIDTH]):
                    n_one += ones(np.int64(row[i]))
                    n_two += ones(np.int64(others[at, i]))
                    n_both += ones(np.int64(row[i]) & np.int64(others[at, i]))
                n_either = n_one + n_two - n_both
                total += ((n_one + n_two) / (2.0 * n_either) + n_both / n_either) / 2.0
            left -= 1
        if left == 0 and total / n_all > best:
            best, found = total / n_all, at
    return best, found


@kernel
def similarity(kinds: Any, row: Any, mask: Any, other: Any, other_mask: Any) -> Any:
    """Equation (3) for two aggregates."""
    others = other.reshape((1, other.shape[0]))
    shared = np.empty(kinds.forms.shape[0], np.int64)
    return closest(kinds, row, mask, others, 0, 1, other_mask, shared, -1.0, NONE)[0]
