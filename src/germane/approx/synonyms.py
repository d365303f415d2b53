"""WordNet -> what a value may be renamed to, at a cost by distance.

In: WordNet's data files. Out: pairs (from, to) with costs, as `Transformations` takes them for
``rename_value``. Words are in the form in which values are compared: casefolded, and a space for
whatever is between words. Every word walks from its senses over hypernyms and hyponyms, the nearest
first, until it has enough; so the cost is in proportion to what is found, not to what there is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from germane.approx.transformations import MAX_ENTRIES
from germane.language.patterns import words_of
from germane.model import InvalidValue
from germane.model.wordnet import read_senses, read_synsets

__all__ = ["as_yaml", "normal", "synonyms"]

MAX_READ = 10_000_000
MAX_STEPS = 100_000_000
MAX_DISTANCE = 10
MAX_TARGETS = 1_000


def synonyms(
    files: Iterable[str | Path],
    words: Iterable[str] | None = None,
    cost: float = 1.0,
    step: float = 1.0,
    distance: int = 1,
    limit: int = 8,
) -> dict[tuple[str, str], float]:
    """What words may be renamed to: (from, to) with the cost.

    Words of the same synset cost ``cost``; words of a synset n hypernyms or hyponyms away, up to
    ``distance``, cost ``cost + step * n``. Of several senses, the least cost counts. A word has at
    most ``limit`` targets: the cheapest, and among equals those of its usual senses if WordNet's
    index is beside the file, else in the order of the file. ``words`` are those to find targets
    for; otherwise all.

    >>> synonyms(["data.noun"], words=["couch"], limit=2)  # doctest: +SKIP
    {('couch', 'sofa'): 1.0, ('couch', 'lounge'): 1.0}
    """
    _number("cost", cost, math.inf)
    _number("step", step, math.inf)
    _number("distance", distance, MAX_DISTANCE)
    _number("limit", limit, MAX_TARGETS)
    net = _Net(None if words is None else _wanted(words))
    for file in [files] if isinstance(files, str | Path) else files:
        net.read(Path(file))
    pairs: dict[tuple[str, str], float] = {}
    for word in net.senses:
        for target, n in net.targets(word, distance, limit):
            pairs[word, target] = float(cost + step * n)
        if len(pairs) > MAX_ENTRIES:
            raise InvalidValue(
                f"there are more than {MAX_ENTRIES:,} pairs, which no table holds; name the words "
                f"that you need, or ask for fewer than {limit} targets a word"
            )
    return pairs


def normal(text: str) -> str:
    """A word or several in the form in which values are compared.

    >>> normal("Well-being")
    'well being'
    """
    return " ".join(words_of(text.replace("_", " ")))


def as_yaml(pairs: Mapping[tuple[str, str], float]) -> Iterator[str]:
    """The lines of a file for `Transformations.read`."""
    yield "# Made from WordNet; its licence is at the beginning of WordNet's files.\n"
    yield "rename_value:\n"
    for pair, cost in pairs.items():
        source, target = (json.dumps(word, ensure_ascii=False) for word in pair)
        price = repr(float(cost))
        price = price if "." in price else price.replace("e", ".0e")  # for YAML, 1e-07 is a text
        yield f"  - [{source}, {target}, {price}]\n"


class _Net:
    """Synsets by number: their words, what is one link away, and the senses of the words wanted."""

    def __init__(self, wanted: set[str] | None) -> None:
        self.wanted = wanted
        self.words: list[list[str]] = []
        self.near: list[list[int]] = []
        self.senses: dict[str, dict[int, None]] = {}
        self.n_read = self.n_steps = 0

    def read(self, path: Path) -> None:
        """Add a data file."""
        first = len(self.words)
        known: dict[str, int] = {}
        above: list[list[str]] = []
        for offset, words, parents in read_synsets(path):
            self._count(path, len(words) + len(parents))
            if offset in known:
                raise InvalidValue(f"{path.name} has synset {offset:.20} twice")
            known[offset] = len(self.words)
            self.words.append([word for word in map(normal, words) if word])
            above.append(parents)
        if not known:
            raise InvalidValue(f"{path} has no synset; is it data.noun or the like of WordNet?")
        try:
            self.near += [[known[parent] for parent in parents] for parents in above]
        except KeyError as error:
            missing = f"{error.args[0]:.20}"
            raise InvalidValue(f"{path.name} has no synset {missing}, which others name") from None
        for synset, parents in enumerate(above, first):
            for parent in parents:
                self.near[known[parent]].append(synset)
        self._order(path, known)
        for synset in range(first, len(self.words)):
            for word in self.words[synset]:
                self._sense(word, synset)

    def _order(self, path: Path, known: Mapping[str, int]) -> None:
        """Take senses in the order of the index, if there is one; it adds none."""
        index = path.with_name(path.name.replace("data.", "index.", 1))
        if index == path or not index.is_file():
            return
        for text, offsets in read_senses(index):
            self._count(index, len(offsets))
            word = normal(text)
            for synset in map(known.get, offsets):
                if synset is not None and word in self.words[synset]:
                    self._sense(word, synset)

    def _count(self, path: Path, n: int) -> None:
        self.n_read += 1 + n
        if self.n_read > MAX_READ:
            raise InvalidValue(f"{path.name} has too much: more than {MAX_READ:,} words and links")

    def _sense(self, word: str, synset: int) -> None:
        if self.wanted is None or word in self.wanted:
            self.senses.setdefault(word, {})[synset] = None

    def targets(self, word: str, distance: int, limit: int) -> Iterable[tuple[str, int]]:
        """Some other words, the nearest first, and how many links they are away."""
        found: dict[str, int] = {}
        for synset, n in self._walk(self.senses[word], distance):
            for target in self.words[synset]:
                if target != word and len(found) < limit:
                    found.setdefault(target, n)
            if len(found) >= limit:
                break
        return found.items()

    def _walk(self, senses: Iterable[int], distance: int) -> Iterator[tuple[int, int]]:
        """Synsets and how many links they are away, the nearest first, then by sense."""
        seen = set(senses)
        level = list(senses)
        yield from ((synset, 0) for synset in level)
        for n in range(1, distance + 1):
            after: list[int] = []
            for synset in level:
                self.n_steps += len(self.near[synset])
                if self.n_steps > MAX_STEPS:
                    raise InvalidValue(
                        f"there are too many links to follow at distance {distance}; name the "
                        "words that you need, or ask for a smaller distance"
                    )
                for other in self.near[synset]:
                    if other not in seen:
                        seen.add(other)
                        after.append(other)
                        yield other, n
            level = after


def _wanted(words: Iterable[str]) -> set[str]:
    if isinstance(words, str):
        raise InvalidValue(f"words are a list of words, not the text {words!r:.200}")
    wanted = set()
    for word in words:
        form = normal(word) if isinstance(word, str) else ""
        if not form:
            raise InvalidValue(f"there is no word in {word!r:.200}")
        wanted.add(form)
    return wanted


def _number(name: str, value: Any, most: float) -> None:
    """Refuse what is no cost or, where there is a greatest, no count."""
    whole = most != math.inf
    least = 1 if name == "limit" else 0
    kinds: Any = int if whole else int | float
    fits = isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or not least <= value <= most:
        said = f"a whole number from {least} to {most:,}" if whole else "a number of 0 or more"
        raise InvalidValue(f"{name} is {said}, not {value!r:.200}")
