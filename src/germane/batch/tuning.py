"""The size of minibatches, found while running: descent on measured cost (Batching section 6.5).

Batches of about the same size (a factor of two) share a *class*. In a class the candidates are
1 (one message at a time; only in small batches), 2, 4, 8, … messages a minibatch. The paper finds cost to have a single
minimum over the size, so looking at the neighbours of the best one is enough: most batches use
the size that costs least, the others try the neighbour that was measured longest ago. Costs are
remembered as a moving average that forgets, so that the best size follows the messages.
"""

from typing import Any

MAX_EXPONENT = 10
START = 6
"""Exponent of the first size tried, 64, in a class that nothing is known of."""
TRY_EVERY = 8
"""One batch in so many tries a neighbour once the best is known; the first few go faster."""
SMALL = 8
"""Class up to which, batches of 511 messages, one message at a time is a candidate."""
BLEND = 0.3
CLEARLY = 0.97
"""A neighbour must cost less than this share of the best to take its place."""


class Tuner:
    """Sizes and their costs, by class of batch size."""

    def __init__(self, unbatched: bool = True) -> None:
        self._unbatched = unbatched  # whether one message at a time is a candidate
        self._classes: dict[int, _Class] = {}

    def size(self, n: int) -> int:
        """Messages a minibatch should have at most, for a batch of n."""
        if n <= 1:
            return 1 if self._unbatched else 2
        return 1 << self._class(n).next()

    def learn(self, n: int, size: Any, cost_ns: float) -> None:
        """What a message of a batch of n cost with minibatches of a size."""
        if n > 1 and isinstance(size, int):
            self._class(n).learn(size.bit_length() - 1, cost_ns)

    def _class(self, n: int) -> "_Class":
        number = n.bit_length() - 1
        known = self._classes.get(number)
        if known is None:
            nearest = min(self._classes, key=lambda k: abs(k - number), default=None)
            start = START if nearest is None else self._classes[nearest].best
            least = 0 if self._unbatched and number <= SMALL else 1
            known = self._classes[number] = _Class(least, min(number, MAX_EXPONENT), start)
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

    def __init__(self, least: int, most: int, start: int) -> None:
        self.least = least
        self.most = max(most, least)
        self.best = min(max(start, least), self.most)
        self.costs: dict[int, float] = {}
        self._tried: dict[int, int] = {}  # exponent -> batch at which it was last measured
        self._n = 0
        self._wait = 0

    def next(self) -> int:
        """The exponent for the next batch."""
        if self.best not in self.costs:
            return self.best
        rivals = self._rivals()
        new = [e for e in rivals if e not in self.costs]
        if new:
            return new[0]
        if self._wait > 0:
            self._wait -= 1
            return self.best
        self._wait = TRY_EVERY
        return min(rivals, key=lambda e: self._tried[e], default=self.best)

    def _rivals(self) -> list[int]:
        """The neighbours of the best size, and one message at a time."""
        near = [self.best + 1, self.best - 1]
        rivals = [e for e in near if self.least <= e <= self.most]
        return rivals if self.least or self.best <= 1 else [*rivals, 0]

    def learn(self, exponent: int, cost: float) -> None:
        self._n += 1
        self._tried[exponent] = self._n
        known = self.costs.get(exponent)
        if known is None:
            self.costs[exponent] = cost
        else:
            # Noise only ever adds: what is cheaper than known is believed at once.
            self.costs[exponent] = cost if cost < known else known + BLEND * (cost - known)
        best_cost = self.costs.get(self.best)
        if best_cost is None:
            return
        least = min(self.costs, key=lambda e: self.costs[e])
        if self.costs[least] < CLEARLY * best_cost:
            self.best = least
            self._wait = 0
