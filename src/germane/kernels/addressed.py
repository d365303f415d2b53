"""Addresses on aggregates: whether a row may hold a context that is meant.

An address is filters, each an attribute, an operation and given values; a row and a mask are an
aggregate (``kernels.aggregates``). What an aggregate cannot decide, may be. Cost: a test a filter.
"""

from typing import Any

import numpy as np

from germane.kernels.aggregates import (
    AT,
    KIND,
    LOCATION,
    NUMBER,
    TAXONOMY,
    WIDTH,
    WORD,
    above,
)
from germane.kernels.compile import inlined, kernel

IN, NOT_IN, BELOW, AT_MOST, ABOVE, AT_LEAST, BOX, WITHIN, IS_NULL, NOT_NULL, MAYBE = range(11)
ATTRIBUTE, OPERATION, FIRST, COUNT = range(4)  # columns of filters


@inlined
def _number_meets(lo: Any, hi: Any, operation: Any, given: Any, first: Any, end: Any) -> Any:
    if operation == BELOW:
        return lo < given[first]
    if operation == AT_MOST:
        return lo <= given[first]
    if operation == ABOVE:
        return hi > given[first]
    if operation == AT_LEAST:
        return hi >= given[first]
    if operation == IN:
        for i in range(first, end):
            if lo <= given[i] <= hi:
                return True
        return False
    # NOT_IN: some value of the interval is not in the list.
    if lo != hi:
        return True
    for i in range(first, end):
        if given[i] == lo:
            return False
    return True


@inlined
def _place_meets(rows: Any, at: Any, c: Any, given: Any, first: Any) -> Any:
    """Rectangles intersect, edges included; a box whose west is above its east wraps around."""
    south, west = given[first], given[first + 1]
    north, east = given[first + 2], given[first + 3]
    if rows[at, c] > north or rows[at, c + 1] < south:
        return False
    if west <= east:
        return rows[at, c + 2] <= east and rows[at, c + 3] >= west
    return rows[at, c + 3] >= west or rows[at, c + 2] <= east


@inlined
def _class_meets(
    trees: Any, node: Any, below: Any, operation: Any, given: Any, first: Any, end: Any
) -> Any:
    if operation == NOT_IN:
        if below:
            return True
        for i in range(first, end):
            if np.int64(given[i]) == node:
                return False
        return True
    for i in range(first, end):
        asked = np.int64(given[i])
        if asked == node or (below and above(trees, node, asked)):
            return True
        if operation == WITHIN and above(trees, asked, node):
            return True
    return False


@inlined
def _choice_meets(
    rows: Any, at: Any, c: Any, width: Any, operation: Any, given: Any, first: Any, end: Any
) -> Any:
    if operation == IN:
        for i in range(first, end):
            code = np.int64(given[i])
            if code >= 0 and (np.int64(rows[at, c + code // WORD]) >> (code % WORD)) & 1:
                return True
        return False
    for w in range(width):
        word = np.int64(rows[at, c + w])
        for i in range(first, end):
            code = np.int64(given[i])
            if code >= 0 and code // WORD == w:
                word &= ~(np.int64(1) << (code % WORD))
        if word:
            return True
    return False


@kernel
def meets(kinds: Any, rows: Any, at: Any, mask: Any, filters: Any, given: Any, exact: Any) -> Any:
    """Whether row `at` may hold a context that meets all filters; `exact`: it is one itself.

    What an aggregate cannot decide, may be.
    """
    forms, trees = kinds.forms, kinds.trees
    for f in range(filters.shape[0]):
        a, operation = filters[f, ATTRIBUTE], filters[f, OPERATION]
        if operation == MAYBE:
            continue
        there = (mask >> a) & 1
        if operation == IS_NULL:
            if exact and there:
                return False
            continue
        if not there:
            return False
        if operation == NOT_NULL:
            continue
        c, kind = forms[a, AT], forms[a, KIND]
        first = filters[f, FIRST]
        end = first + filters[f, COUNT]
        if kind == NUMBER:
            met = _number_meets(rows[at, c], rows[at, c + 1], operation, given, first, end)
        elif kind == LOCATION:
            met = _place_meets(rows, at, c, given, first)
        elif kind == TAXONOMY:
            node, below = np.int64(rows[at, c]), rows[at, c + 1] != 0.0
            met = _class_meets(trees, node, below, operation, given, first, end)
        else:
            met = _choice_meets(rows, at, c, forms[a, WIDTH], operation, given, first, end)
        if not met:
            return False
    return True
