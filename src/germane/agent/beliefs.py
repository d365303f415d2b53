"""How far each rule is believed in now: Bayes' rule, one piece of feedback after the other.

In: for each piece of feedback, the oldest first, the rules that cover it, how much it was liked,
how often it counts. Out: ``Beliefs``: for every rule that covers a piece, the probability that it
holds now; for all others it is PRIOR.

The model is that of ``interests``, a noisy OR, but a rule either holds or does not. One that holds
fires with FIRES; it may end (ENDS, with every piece it covers) and begin (BEGINS, with every piece
there is). A piece that is disliked makes each of its rules a few times less likely; one that is
liked is shared: the likelier others are to have caused it, the less it says for a rule. After each
piece, rules are taken to be independent, which they are not: of rules that cover nearly the same
pieces, each keeps its part. ``causes``, which looks at all pieces at once, lets one of them win,
and so knows better what was liked for long; this one needs no proof that something changed,
believes after one or two likes, forgets dislikes that are old, and has an opinion on what was never
met.

Cost: a pass over pieces × rules that cover one.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.agent.causes import CHANCE

__all__ = ["FIRES", "PRIOR", "Beliefs", "believe"]

FIRES = 0.8  # how often a message is liked that a rule covers which holds
PRIOR = 0.002  # of a rule
ENDS, BEGINS = 0.02, 0.01  # hazards

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Beliefs(NamedTuple):
    """Rules, sorted, with the probability that each holds."""

    keys: Ints  # number of a cell × number of nodes + node
    held: Floats
    n_nodes: int

    def gathered(self, cells: Iterable[int | None], of: Callable[[Floats], Floats]) -> Floats:
        """For each node, the sum over cells of a function of its beliefs; None was never met."""
        numbers = list(cells)
        prior = float(of(np.array([PRIOR]))[0])
        total = np.full(self.n_nodes, len(numbers) * prior)
        for cell in numbers:
            if cell is not None:
                first = cell * self.n_nodes
                a, b = np.searchsorted(self.keys, [first, first + self.n_nodes])
                total[self.keys[a:b] - first] += of(self.held[a:b]) - prior
        return total


def believe(rows: list[Ints], liked: Floats, times: Floats, n_nodes: int) -> Beliefs:
    """``rows`` are the rules that cover each piece, the oldest piece first; each rule once."""
    if not sum(map(len, rows)):
        return Beliefs(np.empty(0, np.int64), np.empty(0), n_nodes)
    keys, pairs = np.unique(np.concatenate(rows), return_inverse=True)
    held, last = np.full(len(keys), PRIOR), np.zeros(len(keys))
    splits = np.cumsum([len(row) for row in rows])[:-1]
    for number, at in enumerate(np.split(pairs, splits)):
        drifted = _drifted(held[at], number - last[at], ENDS)
        held[at] = _updated(drifted, float(liked[number]), float(times[number]))
        last[at] = number
    return Beliefs(keys, _drifted(held, len(rows) - 1 - last, 0.0), n_nodes)


def _drifted(held: Floats, gaps: Floats, ends: float) -> Floats:
    """Beliefs after some time: dislikes fade with all pieces, likes only with the rule's own."""
    begins = np.maximum(1.0 - np.exp(-BEGINS * gaps), ends)
    return held + np.where(held < PRIOR, begins, ends) * (PRIOR - held)


def _updated(held: Floats, liked: float, times: float) -> Floats:
    """Bayes' rule for each rule of a piece, given what is believed of its others."""
    misses = 1.0 - FIRES * held
    without = (1.0 - CHANCE) * misses.prod() / misses  # disliked, if the rule does not hold
    within = (1.0 - FIRES) * without  # disliked, if it does
    yes = held * (liked + (1.0 - 2.0 * liked) * within) ** times
    no = (1.0 - held) * (liked + (1.0 - 2.0 * liked) * without) ** times
    return np.asarray(yes / (yes + no))
