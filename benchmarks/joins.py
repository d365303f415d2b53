"""Peers in batches: what a user of a database or of data frames would write to match a stream.

A batch of messages is joined with the profiles, one thread each: `DuckDB` of `peers` with bins
made by hand and an equi-join, DuckDB's plain range join, and Polars with bins. A plain join does
not know which attribute is the best, and its speed hangs on the first two inequalities that it is
given: it is shown both in the order of the names, as a user writes it, and the best first.
"""

from __future__ import annotations

import os

import numpy as np

from .peers import DuckDB, Peer, bin_of, bound_columns, message_columns
from .workloads import DOMAIN, N_ATTRIBUTES, Ranges


class DuckDBBestFirst(DuckDB):
    """DuckDB, a plain range join whose author knows how selective the attributes are."""

    name = "DuckDB, range join, best first"

    def _store(self) -> None:
        self._db.execute("CREATE TABLE stored AS SELECT * FROM profiles")
        self._source = "SELECT message, row FROM messages JOIN stored ON "

    def find(self, message: np.ndarray) -> np.ndarray:
        return self.find_batch(message[None])[1]


class DuckDBRange(DuckDBBestFirst):
    """DuckDB, the join as a user writes it: eight times `low <= value AND high >= value`."""

    name = "DuckDB, range join"

    def _build(self, work: Ranges) -> None:
        self._order = np.arange(N_ATTRIBUTES)
        super()._build(work)


class PolarsBins(Peer):
    """Polars: profiles exploded into bins of the best attribute, an equi-join and a filter.

    The streaming engine filters what it joins piece by piece; in memory, the joined rows of a
    batch of 10,000 would not fit. Of 100 to 800 bins, 400 were the fastest or nearly.
    """

    name = "Polars, bins"
    batched = True
    n_bins = 400

    def _build(self, work: Ranges) -> None:
        os.environ.setdefault("POLARS_MAX_THREADS", "1")  # counts only before the first import
        import polars as pl

        width = DOMAIN / self.n_bins
        first, last = (pl.col(name).floordiv(width).cast(pl.Int64) for name in ("l0", "h0"))
        self._binned = (
            pl.DataFrame(bound_columns(work, self._order))
            .with_columns(bin=pl.int_ranges(first, last + 1))
            .explode("bin")
            .filter(pl.col("bin") < self.n_bins)
            .sort("bin", "l0")
        )
        self._inside = pl.all_horizontal(
            pl.col(f"v{a}").is_between(pl.col(f"l{a}"), pl.col(f"h{a}"))
            for a in range(N_ATTRIBUTES)
        )
        self.n_threads = pl.thread_pool_size()

    def find(self, message: np.ndarray) -> np.ndarray:
        return self.find_batch(message[None])[1]

    def find_batch(self, messages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        import polars as pl

        columns = message_columns(messages, self._order)
        columns["bin"] = bin_of(columns["v0"], self.n_bins)
        joined = pl.LazyFrame(columns).join(self._binned.lazy(), on="bin")
        wanted = joined.filter(self._inside).select("message", "row")
        found = wanted.collect(engine="streaming")
        return found["message"].to_numpy(), found["row"].to_numpy()


JOINS: tuple[type[Peer], ...] = (DuckDB, DuckDBRange, DuckDBBestFirst, PolarsBins)
