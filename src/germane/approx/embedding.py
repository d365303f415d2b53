"""The cheapest way to find a pattern in a document, step by step, for people.

In: a pattern as it is kept, and a document. Out: for each element that can be its root, the cost
and what became of every vertex: found, renamed, skipped, with what was passed over on the way. This
is the recurrence of the specification again, in plain Python, with its choices kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from germane.approx.documents import Flat
from germane.language.patterns import words_of

__all__ = ["Event", "Place", "Vertex", "embeddings"]

Words = tuple[str, ...]
STRUCTURE, VALUE, EITHER, ALL = "structure", "value", "either", "all"


class Vertex(NamedTuple):
    """A vertex of a pattern, with its prices."""

    kind: str
    name: str
    labels: dict[str, float]  # of a structure
    phrases: dict[Words, float]  # of a value
    skip: float
    below: tuple[Vertex, ...]

    @property
    def text(self) -> str:
        """As in a pattern."""
        if self.kind == STRUCTURE:
            inside = " and ".join(part.text for part in self.below)
            return f"{self.name}[{inside}]" if inside else self.name
        if self.kind == VALUE:
            return f'"{self.name}"'
        joined = (" or " if self.kind == EITHER else " and ").join(p.text for p in self.below)
        return f"({joined})" if self.kind == EITHER else joined


class Place(NamedTuple):
    """What became of a vertex."""

    vertex: str
    how: str  # "found", "renamed" or "skipped"
    found: str  # a label or words of the document
    path: str
    cost: float  # of that alone
    passed: tuple[tuple[str, float], ...]  # labels of elements passed over, and their costs
    below: tuple[Place, ...]

    @property
    def total(self) -> float:
        """With all below."""
        passed = sum(cost for _, cost in self.passed)
        return self.cost + passed + sum(place.total for place in self.below)

    def lines(self) -> Iterator[str]:
        """A tree."""
        where = f" at {self.path}" if self.path else ""
        about = {
            "found": f"{self.vertex} found{where}",
            "renamed": f"{self.vertex} renamed to {self.found}{where}",
            "skipped": f"{self.vertex} skipped",
        }[self.how]
        yield f"{about}: {self.cost:g}"
        entries = [[f"passed over {label}: {cost:g}"] for label, cost in self.passed if cost]
        entries += [list(place.lines()) for place in self.below]
        for number, lines in enumerate(entries):
            last = number == len(entries) - 1
            yield ("└─ " if last else "├─ ") + lines[0]
            yield from (("   " if last else "│  ") + line for line in lines[1:])


class Event(NamedTuple):
    """An element that a pattern's root can be, and the cheapest way."""

    element: int
    cost: float
    root: Place

    def __str__(self) -> str:
        return "\n".join((f"cost {self.cost:g}", *self.root.lines()))


def embeddings(
    pattern: Vertex, document: Flat, insertions: dict[str, float], usual: float
) -> list[Event]:
    """All elements where the pattern's root can be, the cheapest first."""
    search = _Search(document, insertions, usual)
    found = []
    for element in range(len(document.labels)):
        cost, place = search.placed(pattern, element)
        if place is not None:
            found.append(Event(element, cost, place))
    return sorted(found, key=lambda event: (event.cost, event.element))


_Parts = tuple[float, tuple[Place, ...]]
NOWHERE = (math.inf, None)


class _Search:
    def __init__(self, document: Flat, insertions: dict[str, float], usual: float) -> None:
        self.labels = document.labels
        self.words = [words_of(text) for text in document.texts]
        self.children: list[list[int]] = [[] for _ in self.labels]
        self.paths: list[str] = []
        for element, parent in enumerate(document.parents):
            above = self.paths[parent] if parent >= 0 else ""
            self.paths.append(f"{above}/{self.labels[element]}")
            if parent >= 0:
                self.children[parent].append(element)
        self.insertions, self.usual = insertions, usual
        self.known: dict[tuple[str, int, int], tuple[float, Place | None]] = {}

    def placed(self, vertex: Vertex, element: int) -> tuple[float, Place | None]:
        """M: a structure at an element."""
        label = self.labels[element]
        cost = vertex.labels.get(label, math.inf)
        if cost == math.inf:
            return NOWHERE
        total, below = self.parts(vertex.below, element)
        if total == math.inf:
            return NOWHERE
        how = "found" if label == vertex.name else "renamed"
        return cost + total, Place(vertex.name, how, label, self.paths[element], cost, (), below)

    def parts(self, vertices: tuple[Vertex, ...], element: int) -> _Parts:
        """The sum of B of some vertices."""
        total = 0.0
        places: list[Place] = []
        for vertex in vertices:
            cost, found = self.part(vertex, element)
            total += cost
            places += found
        return total, tuple(places)

    def part(self, vertex: Vertex, element: int) -> _Parts:
        """B: a vertex below an element, or skipped."""
        if vertex.kind == EITHER:
            options = [self.part(part, element) for part in vertex.below]
            return min(options, key=lambda option: option[0])
        if vertex.kind == ALL:
            return self.parts(vertex.below, element)
        cost, place = self.below(vertex, element)
        if vertex.skip < math.inf:
            inner, places = self.parts(vertex.below, element)
            if vertex.skip + inner < cost:
                name = vertex.name if vertex.kind == STRUCTURE else f'"{vertex.name}"'
                skipped = Place(name, "skipped", "", "", vertex.skip, (), places)
                return vertex.skip + inner, (skipped,)
        return (cost, (place,)) if place is not None else (math.inf, ())

    def below(self, vertex: Vertex, element: int) -> tuple[float, Place | None]:
        """A: a vertex somewhere below an element, without being skipped."""
        key = (vertex.kind, id(vertex), element)
        known = self.known.get(key)
        if known is not None:
            return known
        best: tuple[float, Place | None] = NOWHERE
        if vertex.kind == VALUE:
            best = self.said(vertex, element)
        for child in self.children[element]:
            if vertex.kind == STRUCTURE:
                option = self.placed(vertex, child)
                best = min(best, option, key=lambda found: found[0])
            cost, place = self.below(vertex, child)
            if place is not None:
                label = self.labels[child]
                price = self.insertions.get(label, self.usual)
                if price + cost < best[0]:
                    best = price + cost, place._replace(passed=((label, price), *place.passed))
        self.known[key] = best
        return best

    def said(self, vertex: Vertex, element: int) -> tuple[float, Place | None]:
        """A value in an element's own text."""
        best: tuple[float, Place | None] = NOWHERE
        words = self.words[element]
        for phrase, cost in vertex.phrases.items():
            n = len(phrase)
            there = any(words[i : i + n] == phrase for i in range(len(words) - n + 1))
            if there and cost < best[0]:
                found = " ".join(phrase)
                how = "found" if found == vertex.name else "renamed"
                name, path = f'"{vertex.name}"', self.paths[element]
                best = cost, Place(name, how, f'"{found}"', path, cost, (), ())
        return best
