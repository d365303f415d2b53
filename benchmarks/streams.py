"""The streams of paper Batching (Table 1): RQ-Z, RQ-G and RQ-U, and PQ, made from seeds.

A stream is a set of profiles and a distribution of messages. The range streams are RQ
(`workloads.rq`) with other messages; their widths are scaled, on a pilot, so that about as many
profiles match a message as in §6.2. Messages come as float64 arrays (message, attribute); the
seed of the profiles also fixes what all messages share, such as the values of RQ-Z.

PQ is Table 1 to the letter: 32 attributes, four equalities a profile, values 1 to 35, uniform in
profiles, Zipf in messages. Differs: the paper counted 1.3 matches a message. Where the values of
profiles are uniform and independent, a predicate holds for one profile in 35 whatever the message
says, so 500,000 / 35⁴ = 0.33 match a message and no exponent changes that; 25 values
(`pq(n_values=25)`) would give 1.28.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .peers import ColumnScan
from .workloads import ATTRIBUTES, DOMAIN, SELECTIVITIES, Ranges, rq

N_PROFILES = 500_000
# Shares of the profiles that match a message, §6.2: 650, 750 and 735 of 500,000.
SHARES = {"RQ-Z": 0.0013, "RQ-G": 0.0015, "RQ-U": 0.00147}
STREAMS = (*SHARES, "PQ")
N_ZIPF_ATTRIBUTES, N_ZIPF_VALUES = 4, 50
EXPONENT = 1.0
GAUSS_MEAN, GAUSS_DEVIATIONS = 5_000.0, (250.0, 350.0)
N_POINT_ATTRIBUTES, N_POINT_VALUES = 32, 35
PILOT_PROFILES, PILOT_MESSAGES = 20_000, 4_000


def zipf_ranks(n_ranks: int, shape: int | tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Ranks from 0, drawn with weights 1, 1/2, 1/3, …"""
    weights = np.arange(1, n_ranks + 1) ** -EXPONENT
    edges = np.cumsum(weights) / weights.sum()
    return np.searchsorted(edges[:-1], rng.random(shape), side="right")


@dataclass(frozen=True)
class RangeStream(Ranges):
    """RQ profiles and messages of one of three distributions."""

    name: str
    attributes: ClassVar[tuple[str, ...]] = ATTRIBUTES

    def messages(self, n: int, seed: int | None = None) -> np.ndarray:
        """Messages (message, attribute): uniform but for the most selective attributes."""
        messages = super().messages(n, seed)
        rng = np.random.default_rng([self.seed if seed is None else seed, 17])
        SKEWS[self.name](self, messages, rng)
        return messages

    def matches(self, message: np.ndarray) -> np.ndarray:
        """Rows that match, by definition: the yardstick of the tests, not a contestant."""
        column = message[:, None]
        return np.flatnonzero(((self.lows <= column) & (column <= self.highs)).all(axis=0))


def _zipf(work: RangeStream, messages: np.ndarray, rng: np.random.Generator) -> None:
    """RQ-Z: the first four attributes take 50 values each, the first far more often."""
    for column in work.order[:N_ZIPF_ATTRIBUTES]:
        values = np.random.default_rng([work.seed, 19, column]).uniform(0, DOMAIN, N_ZIPF_VALUES)
        messages[:, column] = values[zipf_ranks(N_ZIPF_VALUES, len(messages), rng)]


def _gauss(work: RangeStream, messages: np.ndarray, rng: np.random.Generator) -> None:
    """RQ-G: the first two attributes crowd around the middle of the domain."""
    for column, deviation in zip(work.order, GAUSS_DEVIATIONS, strict=False):
        drawn = rng.normal(GAUSS_MEAN, deviation, len(messages))
        messages[:, column] = np.clip(drawn, 0.0, DOMAIN)


def _uniform(work: RangeStream, messages: np.ndarray, rng: np.random.Generator) -> None:
    """RQ-U: as RQ draws them."""


Skew = Callable[[RangeStream, np.ndarray, np.random.Generator], None]
SKEWS: dict[str, Skew] = {"RQ-Z": _zipf, "RQ-G": _gauss, "RQ-U": _uniform}


def ranges(name: str, n_profiles: int = N_PROFILES, seed: int = 1) -> RangeStream:
    """RQ-Z, RQ-G or RQ-U with about the paper's share of matches.

    Ranges keep inside the domain and so lie more often over its middle: unscaled, 1.4 times as
    many would match a message of RQ-G as one of RQ-U. RQ-Z follows the draw of its values.
    """
    pilot = _stream(name, rq(PILOT_PROFILES, seed))
    scan = ColumnScan(pilot)
    found = np.mean([len(scan.find(message)) for message in pilot.messages(PILOT_MESSAGES)])
    factor = SHARES[name] * PILOT_PROFILES / found
    wanted = factor * float(np.prod(SELECTIVITIES)) * n_profiles
    return _stream(name, rq(n_profiles, seed, n_matches=wanted))


def _stream(name: str, work: Ranges) -> RangeStream:
    return RangeStream(work.low_cents, work.high_cents, work.order, work.seed, name)


@dataclass(frozen=True)
class Points:
    """PQ: profiles of four equalities; two attributes are in all of them, two in few."""

    columns: np.ndarray  # (predicate, row): which attributes
    values: np.ndarray  # (predicate, row): which values, whole numbers from 1
    n_values: int
    seed: int
    name: ClassVar[str] = "PQ"
    attributes: ClassVar[tuple[str, ...]] = tuple(f"a{i + 1}" for i in range(N_POINT_ATTRIBUTES))

    @property
    def n_profiles(self) -> int:
        return self.columns.shape[1]

    def conditions(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Texts of the profiles, each `a7 = 12 AND a30 = 3 AND …` in a shuffled order."""
        columns, values = self.columns[:, start:stop].T + 1, self.values[:, start:stop].T
        form = " AND ".join(["a%d = %d"] * len(self.columns))
        parts = np.stack([columns, values], axis=2).reshape(len(columns), -1)
        return [form % tuple(part) for part in parts.tolist()]

    def messages(self, n: int, seed: int | None = None) -> np.ndarray:
        """Messages (message, attribute) with all attributes, value 1 the most frequent."""
        rng = np.random.default_rng([self.seed if seed is None else seed, 11])
        return zipf_ranks(self.n_values, (n, N_POINT_ATTRIBUTES), rng) + 1.0

    def matches(self, message: np.ndarray) -> np.ndarray:
        """Rows that match, by definition: the yardstick of the tests, not a contestant."""
        return np.flatnonzero((message[self.columns] == self.values).all(axis=0))


def pq(n_profiles: int = N_PROFILES, seed: int = 1, n_values: int = N_POINT_VALUES) -> Points:
    """PQ: which two attributes all profiles have is drawn from the seed, as is their order."""
    rng = np.random.default_rng([seed, 5])
    order = rng.permutation(N_POINT_ATTRIBUTES)
    n_others = N_POINT_ATTRIBUTES - 2
    third = rng.integers(0, n_others, n_profiles)
    fourth = rng.integers(0, n_others - 1, n_profiles)
    fourth += fourth >= third
    columns = np.empty((4, n_profiles), dtype=np.int64)
    columns[:2] = order[:2, None]
    columns[2], columns[3] = order[2 + third], order[2 + fourth]
    columns = rng.permuted(columns, axis=0)
    return Points(columns, rng.integers(1, n_values + 1, columns.shape), n_values, seed)


def stream(name: str, n_profiles: int = N_PROFILES, seed: int = 1) -> RangeStream | Points:
    """A stream of Table 1 by its name: RQ-Z, RQ-G, RQ-U or PQ."""
    return pq(n_profiles, seed) if name == "PQ" else ranges(name, n_profiles, seed)
