"""The size of minibatches, found while running: descent on measured cost (Batching section 6.5).

Batches of about the same size (a factor of two) share a *class*. In a class the candidates are
1 (one message at a time; only in small batches), 2, 4, 8, … messages a minibatch. The paper finds
cost to have a single minimum over the size, so looking at the neighbours of the best one is
enough: most batches use the size that costs least, now and then one tries a neighbour. How often
follows from what the trial would waste: trials may cost a few percent of the time. When the best
size has come to cost clearly more than it did, the messages may have changed, and neighbours that
were not far off are tried at once. Costs are moving averages that forget.

A batch that takes less one message at a time than grouping takes at all is not even measured, but
once in a while.
"""

from typing import Any

MAX_EXPONENT = 10
START = 6
"""Exponent of the first size tried, 64, in a class that nothing is known of."""
LEAST_WAIT, MOST_WAIT = 12, 1000
"""Batches between two trials, at least and at most."""
BUDGET = 0.015
"""The share of time that trials may waste."""
DRIFT, DRIFTED = 1.3, 12
"""The best size has cost so much more than it did, in so many batches in a row: a change."""
SMALL = 8
"""Class up to which, batches of 511 messages, one message at a time is a candidate."""
ENOUGH = 3
"""Batches with a size before it is judged."""
FAR_OFF = 1.5
"""A size that cost so much more than the best is not tried at once when something has changed."""
NOT_WORTH_NS = 300_000
"""Matching minibatches costs about this much before the first message: the work of a batch that
makes it worth a trial."""
REST = 15
"""Batches between two looks at what such a batch costs."""
BLEND = 0.3
CLEARLY = 0.97
"""A neighbour must cost less than this share of the best to take its place."""


class Tuner:
    """Sizes and their costs, by class of batch size."""

    def __init__(self, unbatched: bool = True) -> None:
        self._unbatched = unbatched  # whether one message at a time is a candidate
        self._classes: dict[int, _Class] = {}

    def size(self, n: int) -> tuple[int, bool]:
        """Messages a minibatch should have at most, for a batch of n; whether to measure it."""
        if n <= 1:
            return 1 if self._unbatched else 2, False
        known = self._classes.get(n.bit_length() - 1) or self._class(n)
        if known.rest:
            known.rest -= 1
            return 1, False
        return 1 << known.next(), True

    def learn(self, n: int, size: int, cost_ns: float) -> None:
        """What a message of a batch of n cost with minibatches of a size."""
        self._class(n).learn(size.bit_length() - 1, cost_ns)

    def _class(self, n: int) -> "_Class":
        number = n.bit_length() - 1
        known = self._classes.get(number)
        if known is None:
            nearest = min(self._classes, key=lambda k: abs(k - number), default=None)
            start = START if nearest is None else self._classes[nearest].best
            least = 0 if self._unbatched and number <= SMALL else 1
            known = self._classes[number] = _Class(number, least, start)
        return known

    def describe(self) -> dict[int, dict[str, Any]]:
        """Per class (the least batch size of it): the size in force and measured costs."""
        return {
            1 << number: {
                "size": 1 << known.best,
                "cost_ns": {1 << e: round(cost) for e, cost in sorted(known.costs.items())},
            }
            for number, known in sorted(self._classes.items())
        }


class _Class:
    """Batches of about one size."""

    def __init__(self, number: int, least: int, start: int) -> None:
        self.n_messages = 1 << number  # at least
        self.least = least
        self.most = max(min(number, MAX_EXPONENT), least)
        self.start = min(max(start, 1), self.most)
        self.best = self.start if least else 0
        self.rest = 0  # batches that need not be thought about
        self.costs: dict[int, float] = {}
        self._tried: dict[int, int] = {}  # exponent -> batch at which it was last measured
        self._n_seen: dict[int, int] = {}  # exponent -> how often it was measured
        self._n = 0
        self._wait = 0
        self._usual = 0.0  # what the best size costs, over a longer time
        self._n_dearer = 0  # batches in a row that cost clearly more

    def next(self) -> int:
        """The exponent for the next batch."""
        if self._wait > 0 or self._is_small():
            self._wait = max(self._wait - 1, 0)
            return self.best
        wanted = [self.best, *self._rivals()]
        new = [e for e in wanted if self._n_seen.get(e, 0) < ENOUGH]
        if new:
            return new[0]
        return min(wanted[1:], key=lambda e: self._tried[e], default=self.best)

    def _rivals(self) -> list[int]:
        """The neighbours of the best size, and one message at a time; or where to begin."""
        if not self.best:
            return [self.start]
        near = [self.best + 1, self.best - 1]
        rivals = [e for e in near if self.least <= e <= self.most]
        return rivals if self.least or self.best == 1 else [*rivals, 0]

    def learn(self, exponent: int, cost: float) -> None:
        """What a message of a batch cost with a size."""
        self._n += 1
        self._tried[exponent] = self._n
        known = self.costs.get(exponent)
        # Noise only ever adds: what is cheaper than known is believed at once, and of the first
        # few the cheapest.
        seen = self._n_seen[exponent] = self._n_seen.get(exponent, 0) + 1
        if known is not None and cost > known:
            cost = known if seen <= ENOUGH else known + BLEND * (cost - known)
        self.costs[exponent] = cost
        if exponent == self.best:
            if self._is_small():
                self.rest = REST
            self._watch(cost)
            return
        now = self.costs.get(self.best)
        if now is None or seen < ENOUGH:
            return
        if cost < CLEARLY * now:
            self.best, self._usual, self._wait = exponent, cost, 0
        else:
            self._wait = self._pause(cost / now - 1.0)

    def _is_small(self) -> bool:
        """Whether messages are matched one by one, and that takes less than grouping would."""
        return not self.best and self.costs.get(0, NOT_WORTH_NS) * self.n_messages < NOT_WORTH_NS

    def _watch(self, cost: float) -> None:
        """Look for a lasting change of what the best size costs."""
        self._usual = cost if not self._usual else min(self._usual * 1.002, cost)
        self._n_dearer = self._n_dearer + 1 if cost > DRIFT * self._usual else 0
        if self._n_dearer >= DRIFTED:
            self._usual, self._n_dearer, self._wait = cost, 0, 0
            for exponent in self._rivals():
                if self.costs.get(exponent, 0.0) < FAR_OFF * cost:
                    self.costs.pop(exponent, None)
                    self._n_seen.pop(exponent, None)

    @staticmethod
    def _pause(excess: float) -> int:
        """Batches to wait after a trial that wasted so much of a batch's time."""
        return min(max(int(excess / BUDGET), LEAST_WAIT), MOST_WAIT)
