"""Which rules are the causes of what was liked, and since when: a noisy OR that may change.

In: for each piece of feedback, the oldest first, the rules that cover it, how much it was liked,
how often it counts. Out: the rules that fire now, with their probabilities p (see ``interests``),
and when others ended.

The p are those that explain the pieces best (expectation maximisation), where each rule starts with
DOUBT pieces against it, and each of the pieces that a rule covers counts FADING times the next one.
Before, each rule is asked whether it changed: of all moments, at which would the likelihood of the
pieces since have grown most if the rule had ended there (they are liked by chance, no more as often
as those before), or had begun there? Where they are e^ENDED (e^BEGAN) times as likely, the rule
falls into two, one for the pieces before, one for those since; and if all pieces that it covers are
e^GAINED times as likely in a trial fit, so that it was not only the context that changed, it stays
so. What was liked before keeps its cause: no other rule has to take the blame. What counts now is
the part since. So a taste that changed is forgotten in a few pieces, another one is remembered.

Invariant: pairs of a rule and a piece are sorted by rule, then by age; a *span* is a run of them,
and the last span of a rule is its present. Cost: 2 GUESSES + ROUNDS passes over the pairs.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Causes", "explain_likes"]

CHANCE, DOUBT, FADING, ROUNDS, FIRST = 0.1, 2.0, 0.95, 40, 0.1
GUESSES = 12  # rounds of a first fit
SURE = 0.97  # no rule is surer
TIDY, LOST = 8, 1e-4  # after so many rounds, rules below have lost
ENDED, BEGAN, GAINED = 4.5, 4.0, 3.0  # log likelihood ratios
FIRED = 0.5  # rules that end together are a taste if they fired with this probability
TESTED = 0.85  # no rule is surer when it is tested, nor does one begin surer

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Causes(NamedTuple):
    """Rules that fire now; and the numbers of the pieces with which a taste ended."""

    keys: Ints
    p: Floats
    ended: Ints


class Pairs(NamedTuple):
    """Rules and the pieces that they cover, by rule, then by age."""

    rule: Ints
    piece: Ints
    liked: Floats
    times: Floats
    n_pieces: int


def explain_likes(rows: list[Ints], liked: Floats, times: Floats) -> Causes:
    """``rows`` are the rules that cover each piece, the oldest piece first."""
    none = np.empty(0, np.int64)
    covering = np.concatenate(rows) if rows else none
    if not len(covering):
        return Causes(none, np.empty(0), none)
    pieces = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    order = np.argsort(covering, kind="stable")
    covering, pieces = covering[order], pieces[order]
    pairs = Pairs(covering, pieces, liked[pieces], times[pieces], len(rows))
    rules = _starts(covering)
    pairs, rules = _hopeful(pairs, rules)
    if not len(pairs.rule):
        return Causes(none, np.empty(0), none)
    ended, spans = changed(pairs, rules)
    p = fit(pairs, spans, ROUNDS)
    last = np.searchsorted(spans, np.append(rules[1:], len(pairs.rule))) - 1
    fired = -np.log1p(-p[np.searchsorted(spans, ended) - 1])  # before they ended
    total = np.bincount(pairs.piece[ended], fired, pairs.n_pieces)
    return Causes(pairs.rule[rules], p[last], np.flatnonzero(total >= -np.log1p(-FIRED)))


def _starts(covering: Ints) -> Ints:
    return np.flatnonzero(np.append(True, covering[1:] != covering[:-1]))


def _hopeful(pairs: Pairs, rules: Ints) -> tuple[Pairs, Ints]:
    """Without rules of which nothing was liked: they never fire."""
    sizes = np.diff(np.append(rules, len(pairs.rule)))
    keep = np.repeat(np.add.reduceat(pairs.liked, rules) > 0.0, sizes)
    rest = pairs._replace(
        rule=pairs.rule[keep], piece=pairs.piece[keep], liked=pairs.liked[keep],
        times=pairs.times[keep],
    )  # fmt: skip
    return rest, _starts(rest.rule) if len(rest.rule) else rules[:0]


def fit(pairs: Pairs, spans: Ints, rounds: int) -> Floats:
    """The p of each span."""
    sizes = np.diff(np.append(spans, len(pairs.rule)))
    newer = np.repeat(spans + sizes, sizes) - 1 - np.arange(len(pairs.rule))
    counts = pairs.times * FADING**newer
    likes = counts * pairs.liked
    against = np.add.reduceat(counts, spans) + DOUBT
    p = FIRST * np.add.reduceat(likes, spans) / against
    alive = np.flatnonzero(p > 0.0)
    keep = np.repeat(p > 0.0, sizes)
    span = np.repeat(np.cumsum(p > 0.0) - 1, sizes)[keep]
    piece, likes, against, p = pairs.piece[keep], likes[keep], against[alive], p[alive]
    for i in range(rounds):
        if i % TIDY == TIDY - 1:  # most have lost by now
            left = p >= LOST
            number, keep = np.cumsum(left) - 1, left[span]
            span, piece, likes = number[span[keep]], piece[keep], likes[keep]
            alive, against, p = alive[left], against[left], p[left]
        total = np.bincount(piece, -np.log1p(-p)[span], pairs.n_pieces)
        chance = 1.0 - (1.0 - CHANCE) * np.exp(-total)
        p = np.minimum(p * np.bincount(span, likes / chance[piece], len(p)) / against, SURE)
    found = np.zeros(len(spans))
    found[alive] = p
    return found


def changed(pairs: Pairs, rules: Ints) -> tuple[Ints, Ints]:
    """Pairs with which rules ended; and all spans, also of rules that began."""
    guess = fit(pairs, rules, GUESSES)
    ended, began = changes(pairs, rules, guess)
    spans = np.union1d(rules, np.union1d(ended, began))
    if len(spans) == len(rules):
        return ended, rules
    trial = fit(pairs, spans, GUESSES)
    gain = _likelihoods(pairs, spans, trial) - _likelihoods(pairs, rules, guess)
    gains = np.add.reduceat(gain[pairs.piece], rules)

    def holds(at: Ints) -> Ints:
        return at[gains[np.searchsorted(rules, at, "right") - 1] >= GAINED]

    ended = holds(ended)
    return ended, np.union1d(rules, np.union1d(ended, holds(began)))


def _likelihoods(pairs: Pairs, spans: Ints, p: Floats) -> Floats:
    """Logarithms of the likelihoods of the pieces."""
    sizes = np.diff(np.append(spans, len(pairs.rule)))
    total = np.bincount(pairs.piece, np.repeat(-np.log1p(-p), sizes), pairs.n_pieces)
    liked, times = np.zeros(pairs.n_pieces), np.zeros(pairs.n_pieces)
    liked[pairs.piece], times[pairs.piece] = pairs.liked, pairs.times
    chance = np.minimum(1.0 - (1.0 - CHANCE) * np.exp(-total), TESTED)
    return times * (liked * np.log(chance) + (1.0 - liked) * np.log1p(-chance))


def changes(pairs: Pairs, rules: Ints, p: Floats) -> tuple[Ints, Ints]:
    """Pairs with which a rule ended, and pairs with which one began."""
    sizes = np.diff(np.append(rules, len(pairs.rule)))
    rule = np.repeat(np.arange(len(rules)), sizes)
    likes = _since(pairs.liked * pairs.times, rules, sizes)
    times = _since(pairs.times, rules, sizes)
    before = (likes[rules][rule] - likes) / (times[rules][rule] - times + 1.0)
    before = np.clip(before, CHANCE, TESTED)
    lost = likes * np.log(CHANCE / before) + (times - likes) * np.log((1 - CHANCE) / (1 - before))
    total = np.bincount(pairs.piece, -np.log1p(-p)[rule], pairs.n_pieces)
    explained = np.minimum(1.0 - (1.0 - CHANCE) * np.exp(-total), TESTED)[pairs.piece]
    gain = pairs.liked * np.log(TESTED / explained)
    gain += (1.0 - pairs.liked) * np.log((1.0 - TESTED) / (1.0 - explained))
    won = _since(gain * pairs.times, rules, sizes)
    return _best(lost, ENDED, rules, rule), _best(won, BEGAN, rules, rule)


def _since(values: Floats, rules: Ints, sizes: Ints) -> Floats:
    """Sums from each pair to the last of its rule."""
    sums = np.cumsum(values[::-1])[::-1]
    found: Floats = sums - np.repeat(np.append(sums[rules[1:]], 0.0), sizes)
    return found


def _best(sums: Floats, least: float, rules: Ints, rule: Ints) -> Ints:
    """Where each rule has its greatest sum, if that is great enough."""
    best = np.maximum.reduceat(sums, rules)
    at = np.flatnonzero((sums == best[rule]) & (best[rule] >= least))
    return at[np.unique(rule[at], return_index=True)[1]]
