"""What a subscriber says about deliveries moves the prices of what was done to get there.

In: the cheapest embeddings of a document, and whether it was relevant. Out: the subscriber's own
tables, changed: each renaming or skip that was used becomes cheaper if it was, dearer if not, by a
share, and never below or above a share of what it cost at first. So what keeps leading astray comes
to cost more than the threshold, and one remark never decides alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from germane.approx.embedding import Place
from germane.approx.transformations import Prices, Transformations
from germane.language.patterns import words_of

__all__ = ["adjusted"]

RATE = 0.25
"""A remark moves a price by this share."""
LEAST, MOST = 0.25, 4.0
"""Bounds, as shares of the price at first."""


def adjusted(
    own: Transformations, first: Prices, roots: Iterable[Place], relevant: bool
) -> Transformations:
    """A subscriber's tables after a remark; ``first`` are the prices before any."""
    now = Prices(own, first.general)
    rename, rename_value = dict(own.rename), dict(own.rename_value)
    skip, skip_value = dict(own.skip), dict(own.skip_value)
    for place in {(p.vertex, p.how, p.found): p for root in roots for p in _all(root)}.values():
        if place.how == "found" or not place.cost:
            continue
        is_value = place.vertex.startswith('"')
        words = words_of(place.vertex)
        if place.how == "skipped" and is_value:
            skip_value[words] = _moved(now.skip_value(words), first.skip_value(words), relevant)
        elif place.how == "skipped":
            label = place.vertex
            skip[label] = _moved(now.skip(label), first.skip(label), relevant)
        elif is_value:
            target = words_of(place.found)
            price, base = now.phrases(words)[target], first.phrases(words)[target]
            rename_value[words, target] = _moved(price, base, relevant)
        else:
            pair = place.vertex, place.found
            price, base = now.labels(pair[0])[pair[1]], first.labels(pair[0])[pair[1]]
            rename[pair] = _moved(price, base, relevant)
    return own.replaced(rename, rename_value, skip, skip_value)


def _moved(price: float, base: float, relevant: bool) -> float:
    moved = price * (1.0 - RATE if relevant else 1.0 + RATE)
    return min(max(moved, base * LEAST), base * MOST)


def _all(place: Place) -> Iterator[Place]:
    yield place
    for part in place.below:
        yield from _all(part)
