"""Duplicates among messages that come in any order, against a set."""

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from germane.spark.seen import Seen

SEQS = st.one_of(st.none(), st.integers(-3, 12), st.integers(-(2**63), 2**63 - 1))


@settings(deadline=None)
@given(st.lists(st.lists(SEQS, max_size=12), max_size=12))
@example([[5], [4, 6], [5, 5, None], [1, 2, 3, 4], []])
def test_each_seq_once(batches: list[list[int | None]]) -> None:
    """The first of each ``seq`` comes through, in order; what has none always does, first."""
    seen, met = Seen(), set[int]()
    number = 0
    for batch in batches:
        rows = list(range(number, number + len(batch)))
        number += len(batch)
        table = pa.table({"seq": pa.array(batch, pa.int64()), "row": pa.array(rows, pa.int64())})
        first: dict[int, int] = {}
        for seq, row in zip(batch, rows, strict=True):
            if seq is not None and seq not in met:
                first.setdefault(seq, row)
        met |= set(first)
        without = [(None, row) for seq, row in zip(batch, rows, strict=True) if seq is None]
        taken = seen.take(table).to_pydict()
        assert list(zip(taken["seq"], taken["row"], strict=True)) == without + sorted(first.items())
        seen._check()
