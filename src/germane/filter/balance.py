"""Which intervals an index should follow as contexts change: costs, compared as time.

A table has three ways with the intervals that contexts bound, and mixes the first two by slot:

- *followed*: every update is carried into the index; a message finds few candidates;
- *loose* (AGILE's escalation, of a whole slot): the index holds all keys, so updates cost
  nothing, and every row that the other slots find is tested;
- *swept*: the rows are in no index, and a message looks at all of them.

Whatever is in force, the time it wastes against the best of them is summed up, and when the sum has
reached the price of changing over, it is time to: so the total is never much worse than that of
the best in hindsight.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CHANGE_NS = 2e6
"""The least price of changing over."""
WEIGH_EVERY = 64
"""Messages between two looks at the costs (sooner where updates cost much)."""
BLOCK_NS = 60.0
"""What opening a block costs."""
TEST_NS = 700.0
"""What testing a row that is found out of order costs."""
CLEARLY = 0.9
"""A change must bring the cost below this share of what it is now."""

Costs = NDArray[np.float64]


class Plan(NamedTuple):
    """What to do with the intervals that contexts bound."""

    swept: bool = False
    loose: frozenset[int] = frozenset()  # slots that are not followed


class Observed(NamedTuple):
    """What a table has seen lately, per message."""

    updates: Costs  # of the context values that bound a slot
    zoned: NDArray[np.bool_]  # slots by which the index is packed
    candidates: float
    opened: float  # blocks
    sweep_ns: float


class Balance:
    """The plan in force for a table, and what speaks against it."""

    def __init__(self, n_slots: int) -> None:
        self.plan = Plan()
        self.changes = 0
        self.spent_ns = 0.0  # on carrying intervals in, since the last look
        self._n_followed = 0  # updates of followed context values, since the last look
        self._updates: dict[int, int] = {}  # of context slots, since the last look
        self.n_messages = 0  # since the last look
        self.selectivity: Costs = np.ones(n_slots)  # of each slot when it is followed
        self._revision_ns = 1500.0  # of one update, lately
        self._candidates = 0.0  # a message would find, and blocks it would open, with no slot loose
        self._blocks = 0.0
        self._regret_ns = 0.0

    @property
    def swept(self) -> bool:
        """Whether the rows are in no index."""
        return self.plan.swept

    def is_due(self, build_ns: float) -> bool:
        """Whether to look at the costs again: a look is not free either."""
        if self.n_messages >= WEIGH_EVERY:
            return True
        return self.spent_ns > max(build_ns / 16, CHANGE_NS)

    def count(self, context_slot: int, n: int, followed: bool) -> None:
        """Some values of a context slot were updated."""
        self._updates[context_slot] = self._updates.get(context_slot, 0) + n
        if followed:
            self._n_followed += n

    def rates(self, bounds: list[list[int]]) -> Costs:
        """Updates a message since the last look, of the context slots that bound each slot."""
        n = max(self.n_messages, 1)
        return np.array([sum(self._updates.get(s, 0) for s in slots) / n for slots in bounds])

    def exceeds(self, price_ns: float) -> bool:
        """Whether updates alone, without a message, have cost more than not following them."""
        return not self.swept and self.spent_ns > max(price_ns, CHANGE_NS)

    def learn_selectivity(self, measured: Costs) -> None:
        """Take over what an index has measured; it cannot say of loose slots."""
        for slot in range(len(measured)):
            if slot not in self.plan.loose:
                self.selectivity[slot] = measured[slot]

    def better_plan(self, seen: Observed, build_ns: float) -> Plan | None:
        """Look back at the messages since the last look; a plan that it has come to pay to take."""
        n = max(self.n_messages, 1)
        if self._n_followed and not self.swept:
            self._revision_ns += 0.3 * (self.spent_ns / self._n_followed - self._revision_ns)
        self.forget()
        if not self.swept:
            share, zoned_share = self._shares(self.plan.loose, seen.zoned)
            self._candidates, self._blocks = seen.candidates * share, seen.opened * zoned_share
        now = seen.sweep_ns if self.swept else self._cost(self.plan.loose, seen)
        best, cost = self._best_loose(seen)
        if seen.sweep_ns < cost:
            best, cost = Plan(swept=True), seen.sweep_ns
        if best == self.plan or cost > CLEARLY * now:
            self._regret_ns *= 0.5
            return None
        self._regret_ns += (now - cost) * n
        price = build_ns / 2 if best.swept else build_ns
        return best if self._regret_ns > max(price, CHANGE_NS) else None

    def change(self, plan: Plan) -> None:
        """A plan is in force from now on."""
        self.changes += plan != self.plan
        self.plan = plan
        self._regret_ns = 0.0
        self.forget()

    def forget(self) -> None:
        """Start a new look: what was counted before says nothing about what is to come."""
        self.spent_ns, self.n_messages, self._n_followed = 0.0, 0, 0
        self._updates.clear()

    def _best_loose(self, seen: Observed) -> tuple[Plan, float]:
        """Let slots loose one by one, the one that saves most first, as long as it pays."""
        loose: frozenset[int] = frozenset()
        cost = self._cost(loose, seen)
        slots = np.flatnonzero(seen.updates).tolist()
        while True:
            tries = [(self._cost(loose | {s}, seen), s) for s in slots if s not in loose]
            least, slot = min(tries, default=(np.inf, 0))
            if least >= cost:
                return Plan(False, loose), cost
            loose, cost = loose | {slot}, least

    def _cost(self, loose: frozenset[int], seen: Observed) -> float:
        """Nanoseconds a message, in an index with some slots loose."""
        followed = [float(n) for slot, n in enumerate(seen.updates) if slot not in loose]
        share, zoned_share = self._shares(loose, seen.zoned)
        tests = self._candidates / share if loose else 0.0
        blocks = self._blocks / zoned_share
        return sum(followed) * self._revision_ns + blocks * BLOCK_NS + tests * TEST_NS

    def _shares(self, loose: frozenset[int], zoned: NDArray[np.bool_]) -> tuple[float, float]:
        """What some slots, and those of them that have zones, would let through if followed."""
        share = zoned_share = 1.0
        for slot in loose:
            share *= float(self.selectivity[slot])
            zoned_share *= float(self.selectivity[slot]) if zoned[slot] else 1.0
        return share, zoned_share
