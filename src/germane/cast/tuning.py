"""``Tuner``: thresholds that follow what links cost, one for every link.

In: messages that a link's changes caused, and hops in vain that its groups caused. Out: decisions,
carried out on ``Groups``: a coarser threshold, after which similar groups join, or the repair of a
group that has degenerated, whose members are placed anew under a finer one. Whoever decides knows
nothing but its own links and what neighbours tell it.

Both are decided as skiers decide on renting: once what is paid has reached the price of the change.
A link that turns back pays twice as much for its next turn, so it does not swing for ever.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.cast.groups import Groups
from germane.cast.space import Address
from germane.model import InvalidValue

COARSER, FINER = -1, 1
HIGHEST = 0.9


@dataclass(frozen=True)
class Tuning:
    """How routers tune themselves.

    ``step``: by how much a threshold changes; ``patience``: changes that a link tells of before it
    becomes coarser, and the least that a group's hops in vain are weighed against; ``distance``: by
    how much thresholds sink with every hop that an update has come.
    """

    step: float = 0.1
    patience: int = 8
    distance: float = 0.05

    def __post_init__(self) -> None:
        if not (0 < self.step <= 1 and self.patience >= 1 and 0 <= self.distance <= 1):
            raise InvalidValue(
                f"{self} is no tuning: step is in (0, 1], patience from 1, distance in [0, 1]"
            )


class Tuner:
    """Decides for the links of some groups."""

    def __init__(self, groups: Groups, tuning: Tuning) -> None:
        self.groups, self.tuning = groups, tuning
        self.sent: NDArray[np.int64] = np.zeros(0, np.int64)  # by link, since it changed
        self.price: NDArray[np.int64] = np.zeros(0, np.int64)
        self.last: NDArray[np.int64] = np.zeros(0, np.int64)
        self.coarsened = self.repaired = self.turns = 0

    def add_link(self, link: int) -> None:
        """A link is new, or is another one by now."""
        if link >= len(self.sent):
            room = max(8, 2 * link)
            self.sent, self.price, self.last = (
                np.concatenate([old, np.zeros(room - len(old), np.int64)])
                for old in (self.sent, self.price, self.last)
            )
        self.sent[link], self.price[link], self.last[link] = 0, self.tuning.patience, 0

    def threshold(self, link: int, hops: int) -> float:
        """For contexts of an update that has come so many hops."""
        return max(0.0, self.groups.threshold(link) - self.tuning.distance * hops)

    def is_dear(self, link: int, n_others: int) -> bool:
        """Whether a link's changes have cost what it takes to make it coarser."""
        paid = self.sent[link] >= self.price[link] * max(n_others, 1)
        return bool(paid and self.groups.threshold(link) > 0.0)

    def coarsen(self, link: int) -> None:
        """Fewer updates: the groups of a link become coarser."""
        self._turn(link, COARSER)
        threshold = max(0.0, self.groups.threshold(link) - self.tuning.step)
        self.groups.coarsen(link, threshold)
        self.coarsened += 1

    def blame(self, link: int, address: Address, hops: int, n_others: int) -> bool:
        """Hops were in vain because of a link's groups; whether one of them was repaired."""
        group, vain, n = self.groups.blame(link, address, hops)
        price = max(n, int(self.price[link])) * max(n_others, 1)
        if n < 2 or vain < price:
            return False
        self._turn(link, FINER)
        threshold = min(HIGHEST, self.groups.threshold(link) + self.tuning.step)
        self.groups.dissolve(link, group, threshold)
        self.repaired += 1
        return True

    def _turn(self, link: int, direction: int) -> None:
        if self.last[link] == -direction:
            self.price[link] *= 2
            self.turns += 1
        self.last[link] = direction
        self.sent[link] = 0

    def stats(self) -> dict[str, Any]:
        """What was decided, for a person."""
        return {"coarsened": self.coarsened, "repaired": self.repaired, "turns": self.turns}
