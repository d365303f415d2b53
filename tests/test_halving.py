"""Minibatches by halving: every message once, parts no larger than asked, halves apart."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from germane.kernels.grouping import halve

KEYS = st.lists(st.tuples(*[st.integers(-5, 5)] * 2), min_size=1, max_size=300)


def halved(keys, most):
    """(order, ends) of messages with these keys."""
    n = len(keys)
    order, ends = np.arange(n, dtype=np.int32), np.empty(n, np.int32)
    n_groups = halve(np.array(keys, np.int16), np.ones(2), most, order, 0, ends, 0)
    return order, ends[:n_groups].tolist()


@given(KEYS, st.integers(1, 40))
def test_parts(keys, most):
    order, ends = halved(keys, most)
    assert sorted(order.tolist()) == list(range(len(keys)))
    assert ends == sorted(set(ends))
    assert ends[-1] == len(keys)
    for begin, end in zip([0, *ends], ends, strict=False):
        assert end - begin <= most or len({keys[i] for i in order[begin:end]}) == 1


@given(st.lists(st.integers(-30000, 30000), min_size=2, max_size=400))
def test_halves_are_apart(values):
    """Of two parts by one column, none of the first is above any of the second."""
    most = -(-len(values) // 2)
    order, ends = halved([(value, 0) for value in values], most)
    if len(set(values)) > 1:
        assert len(ends) == 2
        first, second = order[: ends[0]], order[ends[0] :]
        assert max(values[i] for i in first) <= min(values[i] for i in second)
