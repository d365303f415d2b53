"""Seeded input: the static workload RQ, and the workload of AGILE's Table 2 with its updates.

Profiles come out twice, as arrays of bounds (for the peers and for checking) and as condition
texts (for germane); both describe the same float64 numbers exactly. Columns are (attribute, row),
messages are (message, attribute). Which attribute is the most selective is drawn from the seed,
and the predicates of a text stand in shuffled order, so an engine has to find out for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit

N_ATTRIBUTES = 8
ATTRIBUTES = tuple(f"a{i + 1}" for i in range(N_ATTRIBUTES))
SELECTIVITIES = (0.03, 0.25, 0.40, 0.65, 0.80, 0.92, 0.98, 0.999)
DOMAIN = 10_000.0
MESSAGES_PER_RUN = 10_000  # "updates per profile" (UP) counts the updates that fall in one run
N_TEXT_ORDERS = 64
N_EPSILON_CLASSES = 16

Update = tuple[str, np.ndarray, np.ndarray]  # attribute, contexts, values
Step = tuple[list[Update], np.ndarray]  # the updates before a message, and the message


def jitter(selectivities: Sequence[float], n: int, rng: np.random.Generator) -> np.ndarray:
    """Selectivities (attribute, row) that vary by up to half around the given means.

    Above one half it is the distance to 1 that varies, so 0.999 stays a probability.
    """
    factor = rng.uniform(0.5, 1.5, size=(len(selectivities), n))
    means = np.asarray(selectivities)[:, None]
    return np.where(means < 0.5, means * factor, 1.0 - (1.0 - means) * factor)


@dataclass(frozen=True)
class Ranges:
    """RQ: profiles of eight range predicates, bounds in hundredths so that texts are exact."""

    low_cents: np.ndarray  # (attribute, row) int64
    high_cents: np.ndarray
    order: tuple[int, ...]  # columns, the most selective first
    seed: int

    @property
    def n_profiles(self) -> int:
        return self.low_cents.shape[1]

    @cached_property
    def lows(self) -> np.ndarray:
        return self.low_cents / 100.0

    @cached_property
    def highs(self) -> np.ndarray:
        return self.high_cents / 100.0

    def conditions(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Texts of the profiles, each `a3 BETWEEN 12.5 AND 310.25 AND …` in a shuffled order."""
        stop = self.n_profiles if stop is None else stop
        texts = [""] * (stop - start)
        rng = np.random.default_rng([self.seed, 7])
        for k in range(N_TEXT_ORDERS):
            columns = rng.permutation(N_ATTRIBUTES)
            form = " AND ".join(f"{ATTRIBUTES[c]} BETWEEN %r AND %r" for c in columns)
            rows = slice(start + (k - start) % N_TEXT_ORDERS, stop, N_TEXT_ORDERS)
            bounds = np.empty((len(range(*rows.indices(stop))), 2 * N_ATTRIBUTES))
            bounds[:, 0::2] = self.lows[columns, rows].T
            bounds[:, 1::2] = self.highs[columns, rows].T
            texts[rows.start - start :: N_TEXT_ORDERS] = [form % tuple(b) for b in bounds.tolist()]
        return texts

    def messages(self, n: int, seed: int | None = None) -> np.ndarray:
        """Uniform messages (message, attribute)."""
        rng = np.random.default_rng([self.seed if seed is None else seed, 11])
        return rng.uniform(0.0, DOMAIN, size=(n, N_ATTRIBUTES))


def as_dicts(messages: np.ndarray) -> list[dict[str, float]]:
    """Messages as a caller holds them: attribute → value."""
    return [dict(zip(ATTRIBUTES, row, strict=True)) for row in messages.tolist()]


def rq(n_profiles: int, seed: int = 1, n_matches: float | None = None) -> Ranges:
    """RQ: about 0.14 % of the profiles match a message (711 of 500,000).

    With `n_matches`, the three most selective attributes are scaled alike so that about this
    many profiles match whatever their number: the workload of `benchmarks.growth`.
    """
    rng = np.random.default_rng([seed, 1])
    selectivities = np.array(SELECTIVITIES)
    if n_matches is not None:
        wanted = n_matches / n_profiles / float(np.prod(selectivities))
        selectivities[:3] *= wanted ** (1 / 3)
        if selectivities.max() > 1.0 or selectivities[:3].max() > 0.95:
            raise ValueError(f"{n_matches} matches of {n_profiles} profiles is no selective load")
    order = rng.permutation(N_ATTRIBUTES)
    widths = np.empty((N_ATTRIBUTES, n_profiles))
    widths[order] = jitter(selectivities.tolist(), n_profiles, rng)
    width_cents = np.rint(np.clip(widths, 0.0, 1.0) * DOMAIN * 100).astype(np.int64)
    room = int(DOMAIN * 100) - width_cents
    low_cents = np.floor(rng.random(room.shape) * (room + 1)).astype(np.int64)
    return Ranges(low_cents, low_cents + width_cents, tuple(int(c) for c in order), seed)


def epsilon(selectivity: np.ndarray) -> np.ndarray:
    """Half-width with which a uniform value falls around a uniform centre this often.

    With x = ε / domain, P(|v − c| ≤ ε) = 2x − x², edges of the domain included.
    """
    return DOMAIN * (1.0 - np.sqrt(1.0 - np.asarray(selectivity)))


def quantise(values: np.ndarray) -> np.ndarray:
    """Three relevant digits, as in AGILE §6.2; values below 1 keep three decimals."""
    flat = np.ascontiguousarray(values, dtype=np.float64).ravel()
    out = np.empty_like(flat)
    _quantise_into(flat, out)
    return out.reshape(np.shape(values))


@njit(cache=True)
def _three_digits(x):  # type: ignore[no-untyped-def]
    if x >= 1000.0:
        return np.rint(x / 10.0) * 10.0
    if x >= 100.0:
        return np.rint(x)
    if x >= 10.0:
        return np.rint(x * 10.0) / 10.0
    if x >= 1.0:
        return np.rint(x * 100.0) / 100.0
    return np.rint(x * 1000.0) / 1000.0


@njit(cache=True)
def _quantise_into(values, out):  # type: ignore[no-untyped-def]
    for i in range(values.size):
        out[i] = _three_digits(values[i])


@dataclass(frozen=True)
class Contextual:
    """Table 2: one context a profile, 90 % of the profiles follow theirs, 10 % are constant.

    A predicate is an epsilon environment `|message − centre| ≤ ε` around the context's current
    value or, for the constant profiles, around the value the context had at first. Epsilons come
    in a few classes, each with the same order of selectivity.
    """

    centres: np.ndarray  # (attribute, row): the first values of the contexts
    context_bound: np.ndarray  # (row,) bool
    epsilon_class: np.ndarray  # (row,)
    epsilons: np.ndarray  # (class, attribute)
    order: tuple[int, ...]
    seed: int

    @property
    def n_profiles(self) -> int:
        return self.centres.shape[1]

    @property
    def ids(self) -> np.ndarray:
        """Profile ids, which are also the ids of their contexts."""
        return np.arange(self.n_profiles, dtype=np.int64)

    def conditions(self) -> list[str]:
        """Texts: `a1 BETWEEN context.a1 - 151 AND context.a1 + 151 AND …`, or constants."""
        rng = np.random.default_rng([self.seed, 7])
        columns = [rng.permutation(N_ATTRIBUTES) for _ in range(N_EPSILON_CLASSES)]
        forms = [
            " AND ".join(
                f"{ATTRIBUTES[c]} BETWEEN context.{ATTRIBUTES[c]} - {self.epsilons[k, c]:g}"
                f" AND context.{ATTRIBUTES[c]} + {self.epsilons[k, c]:g}"
                for c in columns[k]
            )
            for k in range(N_EPSILON_CLASSES)
        ]
        texts = [forms[k] for k in self.epsilon_class.tolist()]
        for row in np.flatnonzero(~self.context_bound).tolist():
            k = self.epsilon_class[row]
            texts[row] = " AND ".join(
                f"{ATTRIBUTES[c]} BETWEEN {float(self.centres[c, row] - self.epsilons[k, c])!r}"
                f" AND {float(self.centres[c, row] + self.epsilons[k, c])!r}"
                for c in columns[k]
            )
        return texts

    def matches(self, values: np.ndarray, message: np.ndarray) -> np.ndarray:
        """Rows that match, by definition: the yardstick of the tests, not a contestant."""
        centres = np.where(self.context_bound, values, self.centres)
        around = self.epsilons[self.epsilon_class].T
        column = message[:, None]
        inside = (centres - around <= column) & (column <= centres + around)
        return np.flatnonzero(inside.all(axis=0))

    def messages(self, n: int, seed: int | None = None) -> np.ndarray:
        """Uniform, quantised messages (message, attribute)."""
        rng = np.random.default_rng([self.seed if seed is None else seed, 11])
        return quantise(rng.uniform(0.0, DOMAIN, size=(n, N_ATTRIBUTES)))


def table2(n_profiles: int, seed: int = 1, context_bound: float = 0.9) -> Contextual:
    """AGILE's Table 2: eight attributes, values in [0, 10,000] quantised to three digits."""
    rng = np.random.default_rng([seed, 2])
    order = rng.permutation(N_ATTRIBUTES)
    epsilons = np.empty((N_EPSILON_CLASSES, N_ATTRIBUTES))
    epsilons[:, order] = quantise(epsilon(jitter(SELECTIVITIES, N_EPSILON_CLASSES, rng).T))
    return Contextual(
        centres=quantise(rng.uniform(0.0, DOMAIN, size=(N_ATTRIBUTES, n_profiles))),
        context_bound=rng.random(n_profiles) < context_bound,
        epsilon_class=rng.integers(0, N_EPSILON_CLASSES, n_profiles),
        epsilons=epsilons,
        order=tuple(int(c) for c in order),
        seed=seed,
    )


class Events:
    """One sequence of updates and messages over a Table 2 workload, the same at every replay.

    `phases` is a list of (number of messages, UP); the last phase goes on for ever. An update
    picks a random context and an attribute (`upd_att` percent of them one of the two most
    selective) and moves its value by up to ±`delta_u`, reflected at the edges and quantised.
    Between two messages the updates are grouped by attribute, in order within an attribute.
    """

    def __init__(
        self,
        work: Contextual,
        phases: Sequence[tuple[int, float]],
        upd_att: float = 25.0,
        delta_u: float = 150.0,
        seed: int = 1,
    ) -> None:
        self.values = work.centres.copy()
        self.n_messages = 0
        self._work = work
        self._phases = tuple(phases)
        self._shares = np.empty(N_ATTRIBUTES)
        self._shares[list(work.order[:2])] = upd_att / 200.0
        self._shares[list(work.order[2:])] = (1.0 - upd_att / 100.0) / (N_ATTRIBUTES - 2)
        self._delta = float(delta_u)
        self._seed = seed
        self._block = np.empty((0, N_ATTRIBUTES))
        self._due = 0.0

    def updates_before_next(self) -> int:
        """How many updates precede the next message (fractions carry over)."""
        seen = self.n_messages
        up = self._phases[-1][1]
        for length, phase_up in self._phases[:-1]:
            if seen < length:
                up = phase_up
                break
            seen -= length
        self._due += up * self._work.n_profiles / MESSAGES_PER_RUN
        whole = int(self._due)
        self._due -= whole
        return whole

    def take(self, n_messages: int, max_updates: int = 2_000_000) -> list[Step]:
        """The next steps: at least one, at most `n_messages`, about `max_updates` in all."""
        steps: list[Step] = []
        n_updates = 0
        while len(steps) < n_messages and (not steps or n_updates < max_updates):
            step = self._next()
            n_updates += sum(len(contexts) for _, contexts, _ in step[0])
            steps.append(step)
        return steps

    def __iter__(self) -> Iterator[Step]:
        while True:
            yield self._next()

    def _next(self) -> Step:
        at = self.n_messages % 1024
        if at == 0:
            block = self.n_messages // 1024
            self._block = self._work.messages(1024, seed=self._seed * 1_000_003 + block)
        updates = self._updates(self.updates_before_next())
        self.n_messages += 1
        return updates, self._block[at]

    def _updates(self, n: int) -> list[Update]:
        if n == 0:
            return []
        contexts = np.empty(n, dtype=np.int64)
        values = np.empty(n)
        rng = np.random.default_rng([self._seed, 13, self.n_messages])
        counts = rng.multinomial(n, self._shares)
        ends = np.cumsum(counts)
        seed = np.uint64(rng.integers(1 << 62))
        _walk(self.values, self._delta, seed, contexts, values, ends)
        starts = [0, *ends.tolist()]
        return [
            (ATTRIBUTES[a], contexts[starts[a] : starts[a + 1]], values[starts[a] : starts[a + 1]])
            for a in range(N_ATTRIBUTES)
            if starts[a] < starts[a + 1]
        ]


@njit(cache=True)
def _mix(x):  # type: ignore[no-untyped-def]
    """splitmix64's finaliser: a counter in, a random word out."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True)
def _walk(current, delta, seed, contexts, values, ends):  # type: ignore[no-untyped-def]
    """Draw the updates before one message, attribute by attribute; `current` moves along."""
    n_contexts = np.uint64(current.shape[1])
    state = np.uint64(seed)
    start = 0
    for a in range(current.shape[0]):
        column = current[a]
        for i in range(start, ends[a]):
            state += np.uint64(0x9E3779B97F4A7C15)
            word = _mix(state)
            c = ((word >> np.uint64(32)) * n_contexts) >> np.uint64(32)
            unit = np.float64(word & np.uint64(0xFFFFFFFF)) * (1.0 / 4294967296.0)
            v = column[c] + delta * (2.0 * unit - 1.0)
            if v < 0.0:
                v = -v
            if v > 10000.0:
                v = 20000.0 - v
            v = _three_digits(v)
            column[c] = v
            contexts[i] = c
            values[i] = v
        start = ends[a]


WORDS = ("talk", "order", "alert", "offer", "paper", "match", "storm", "quote")


def short_conditions(n: int, seed: int = 1) -> list[str]:
    """Mixed conditions of about 70 characters, as people write them: `benchmarks.register`."""
    rng = np.random.default_rng([seed, 3])
    words = [WORDS[i] for i in rng.integers(0, len(WORDS), n)]
    numbers = rng.integers(1, 1_000_000, size=(n, 2))
    texts = []
    for i, (word, (a, b)) in enumerate(zip(words, numbers.tolist(), strict=True)):
        low, high = min(a, b) / 100, max(a, b) / 100
        between = f"price BETWEEN {low} AND {high}"
        forms = (
            f"type = '{word}' AND {between} AND context.unread < {a % 200}",
            f"type = '{word}' AND price BETWEEN context.limit - {a % 99} AND context.limit",
            f"(type = '{word}' OR topic = 'news') AND price <= {high} AND size > {low}",
            f"type = '{word}' AND NOT (price > {high} OR size < {low}) AND weight < {a}",
            f"room IN ('A{a % 90}', 'B{b % 90}') AND time < context.last AND price < {high}",
        )
        texts.append(forms[i % len(forms)])
    return texts
