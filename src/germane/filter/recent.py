"""What was counted lately: updates, false positives, messages; old counts fade away.

In: counts, as they come. Out: how often things happen per message, of which the policy makes how
many false positives a deescalation is worth. Cost: fading is one pass over the context slots, and
only where something is counted or asked after a message.
"""

import numpy as np
from numpy.typing import NDArray

from germane.index.conjunctions import longer

__all__ = ["Recent"]

DECAY = 0.98
"""What was counted fades by this factor a message: it speaks of the last fifty or so."""


class Recent:
    """Counts that speak of the last messages."""

    def __init__(self) -> None:
        self.n_messages = 0  # ever
        self.updates: NDArray[np.float64] = np.zeros(4)  # by context slot
        self.total = 0.0  # their sum
        self.false = 0.0  # positives
        self.messages = 0.0
        self._faded_at = 0

    def restore(self, n_messages: int, updates: NDArray[np.float64], false: float, messages: float
    ) -> None:  # fmt: skip
        """As it was when it was saved."""
        self.n_messages = self._faded_at = n_messages
        self.updates, self.total = updates, float(updates.sum())
        self.false, self.messages = false, messages

    def count(self, slot: int, n: int, n_slots: int) -> None:
        """So many updates of a context slot; there are so many slots."""
        self.fade()
        if slot >= len(self.updates):
            self.updates = longer(self.updates, n_slots)
        self.updates[slot] += n
        self.total += n

    def fade(self) -> None:
        """Let what was counted fade with the messages that have passed."""
        passed = self.n_messages - self._faded_at
        if passed:
            factor = DECAY**passed
            self.updates *= factor
            self.total *= factor
            self.false *= factor
            self.messages = self.messages * factor + (1 - factor) / (1 - DECAY)
            self._faded_at = self.n_messages

    def per_message(self) -> NDArray[np.float64]:
        """Updates of each context slot, a message."""
        return self.updates / max(self.messages, 1.0)
