"""A digital library for experiments with approximate XML: catalogue entries, profiles, synonyms.

Paper ApproXFilter does not show its documents. `Library` makes some like those it describes:
several providers say the same in formats of their own, and what a subscriber writes is in the
format of one. A document has about 1.4 kB and 22 elements; its texts are about one topic, in words
whose frequencies fall as in Zipf's law. A profile has a root, 1 to 4 structures and 1 to 4 values
about one topic; some are nested, some values have two words. Subscribers name rare words as often
as common ones. Words come in threes that mean the same.

`to_xpath` says in XPath 1.0 what a pattern says without transformations. Everything is drawn from
seeds; of a seed, fewer documents or profiles are the first of more.
"""

from __future__ import annotations

import random
import string
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, islice, permutations
from typing import Any

from lxml import etree

from germane import Filter, Transformations
from germane.language.patterns import Either, PatternNode, Structure, Value, parse_pattern

# Labels of each provider: the entry, then its fields. The last sells discs; no profile is about it.
FIELDS = ("title", "person", "year", "press", "term", "gist", "chapter")
PROVIDERS = (
    ("book", "title", "author", "year", "publisher", "keyword", "abstract", "chapter"),
    ("article", "heading", "creator", "date", "press", "subject", "summary", "section"),
    ("tutorial", "title", "editor", "year", "publisher", "topic", "abstract", "part"),
    ("book", "heading", "author", "date", "imprint", "keyword", "note", "section"),
    ("cd", "name", "artist", "released", "label", "genre", "review", "track"),
)
TURNS = (0, 1, 2, 0, 3, 1, 0, 2, 1, 4, 0, 1, 2, 3, 0, 1, 0, 2, 3, 4)
"""Whose document comes next, over and over: 20 documents in a row are a fair sample."""
SHARES = (6, 5, 4, 3)
"""How many profiles are in the formats of the providers of print."""
ASKED = {"title": 8, "person": 5, "gist": 3, "term": 3, "chapter": 3, "year": 2, "press": 1}
"""How often a value of a profile is about a field."""
N_VALUES = (15, 40, 30, 15)
"""How many of a hundred profiles have 1, 2, 3 and 4 values."""
LANGUAGES = ("en", "de", "fr", "es")
YEARS = tuple(str(year) for year in range(1986, 2006))

N_WORDS, N_TOPICS, N_TOPIC_WORDS = 1_500, 40, 60
N_NAMES, N_TOPIC_NAMES = 400, 40
PHRASES = 0.15  # of the values of profiles have two words


class Library:
    """Providers, their documents, and subscribers."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        draw = random.Random(f"library {seed}")
        made = list(islice(_pseudowords(draw), N_WORDS + N_NAMES + 60))
        self.words, names = made[:N_WORDS], made[N_WORDS:]
        self.names, self.first_names = names[:N_NAMES], names[N_NAMES : N_NAMES + 30]
        self.presses = names[N_NAMES + 30 :]
        self.follower = {word: draw.choice(self.words) for word in self.words}
        self._by_rank = _Zipf(self.words)
        self._topics = [_Zipf(draw.sample(self.words, N_TOPIC_WORDS)) for _ in range(N_TOPICS)]
        self._people = [_Zipf(draw.sample(self.names, N_TOPIC_NAMES)) for _ in range(N_TOPICS)]

    # documents -------------------------------------------------------------------------------

    def documents(self, n: int, seed: int = 1) -> list[str]:
        """Catalogue entries, each in the format of its provider."""
        draw = random.Random(f"documents {self.seed} {seed}")
        return [self._document(draw, TURNS[i % len(TURNS)], i) for i in range(n)]

    def _document(self, draw: random.Random, provider: int, number: int) -> str:
        root, *labels = PROVIDERS[provider]
        title, person, year, press, term, gist, chapter = labels
        topic = draw.randrange(N_TOPICS)

        def words(least: int, most: int) -> str:
            return self._text(draw, topic, draw.randint(least, most))

        people = [_leaf(person, self._person(draw, topic)) for _ in range(draw.randint(1, 3))]
        if provider % 2:
            people = _wrapped(f"{person}s", people)
        lines = [
            _leaf(title, words(4, 8)),
            *people,
            _leaf(year, draw.choice(YEARS)),
            _leaf(press, f"{draw.choice(self.presses).title()} Press"),
            *_wrapped(f"{term}s", [_leaf(term, words(1, 2)) for _ in range(draw.randint(3, 5))]),
            _leaf(gist, words(70, 105)),
        ]
        chapters = []
        for page in range(draw.randint(3, 5)):
            inside = [_leaf(title, words(3, 7))]
            chapters += _wrapped(chapter, inside, f' pages="{12 * page + 1}"')
        lines += _wrapped(f"{chapter}s", chapters)
        attributes = f' id="n{number}" lang="{draw.choice(LANGUAGES)}"'
        return "\n".join(_wrapped(root, lines, attributes))

    def _text(self, draw: random.Random, topic: int, n: int) -> str:
        """Words of a topic and of no topic; some are followed by the one that often follows."""
        found: list[str] = []
        while len(found) < n:
            found.append(self._word(draw, topic))
            if draw.random() < 0.2:
                found.append(self.follower[found[-1]])
        return " ".join(found[:n]).capitalize()

    def _word(self, draw: random.Random, topic: int) -> str:
        return (self._topics[topic] if draw.random() < 0.5 else self._by_rank).draw(draw)

    def _person(self, draw: random.Random, topic: int) -> str:
        return f"{draw.choice(self.first_names)} {self._people[topic].draw(draw)}".title()

    # profiles --------------------------------------------------------------------------------

    def profiles(self, n: int, seed: int = 1) -> list[str]:
        """Patterns of subscribers, no two the same."""
        draw = random.Random(f"profiles {self.seed} {seed}")
        found: dict[str, None] = {}
        while len(found) < n:
            found[self._profile(draw)] = None
        return list(found)

    def _profile(self, draw: random.Random) -> str:
        provider = draw.choices(range(len(SHARES)), SHARES)[0]
        root, *labels = PROVIDERS[provider]
        named = dict(zip(FIELDS, labels, strict=True))
        topic = draw.randrange(N_TOPICS)
        asked: dict[str, dict[str, None]] = {}
        n = draw.choices(range(1, 5), N_VALUES)[0]
        for _ in range(n):
            field = draw.choices(list(ASKED), list(ASKED.values()))[0]
            asked.setdefault(field, {})[self._value(draw, field, topic)] = None
        parts = []
        for field, values in asked.items():
            inside = " and ".join(f'"{value}"' for value in sorted(values))
            if field == "chapter" and len(asked) < 4:
                inside = f"{named['title']}[{inside}]"
            part = f"{named[field]}[{inside}]"
            if field == "term" and len(asked) == 1:
                part = f"{named[field]}s[{part}]"
            parts.append(part)
        if n < 3 and draw.random() < 0.05:
            parts.append(f'@lang["{draw.choice(LANGUAGES)}"]')
        return f"{root}[{' and '.join(sorted(parts))}]"

    def _value(self, draw: random.Random, field: str, topic: int) -> str:
        two = draw.random() < PHRASES
        if field == "year":
            return draw.choice(YEARS)
        if field == "press":
            return draw.choice(self.presses)
        if field == "person":
            name = self._people[topic].draw(draw)
            return f"{draw.choice(self.first_names)} {name}" if two else name
        among = self._topics[topic].words if draw.random() < 0.5 else self.words
        word = draw.choice(among)
        return f"{word} {self.follower[word]}" if two else word

    @cached_property
    def transformations(self) -> Transformations:
        """Labels of the same field and words that mean the same, at the costs of the paper."""
        printed = PROVIDERS[: len(SHARES)]
        labels = {pair for column in zip(*printed, strict=True) for pair in _pairs(set(column))}
        titles = {("title", "abstract"), ("heading", "summary")}
        words = [pair for at in range(0, N_WORDS, 3) for pair in _pairs(self.words[at : at + 3])]
        return Transformations(rename=sorted(labels | titles), rename_value=words, defaults="paper")


def subscribe(f: Filter, patterns: Sequence[str], threshold: float) -> None:
    """Subscribe to patterns at a threshold; ids go on from those that are there."""
    first = len(f)
    conditions = [f"document MATCHES '{pattern}' COST < {threshold:g}" for pattern in patterns]
    with warnings.catch_warnings():  # some have only values that may be skipped
        warnings.simplefilter("ignore", UserWarning)
        f.subscribe_many(range(first, first + len(patterns)), conditions)


class _Zipf:
    """Draws from some words, the k-th in proportion to 1 / k."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.weights = list(accumulate(1 / (rank + 1) for rank in range(len(words))))

    def draw(self, draw: random.Random) -> str:
        return draw.choices(self.words, cum_weights=self.weights)[0]


def _pseudowords(draw: random.Random) -> Iterator[str]:
    """Words of two to four syllables, no two the same, in small letters."""
    seen = set()
    while True:
        n = draw.randint(2, 4)
        word = "".join(draw.choice("bdfgklmnprstvz") + draw.choice("aeiou") for _ in range(n))
        if word not in seen:
            seen.add(word)
            yield word


def _pairs(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    return permutations(words, 2)


def _leaf(label: str, text: str) -> str:
    return f"<{label}>{text}</{label}>"


def _wrapped(label: str, lines: list[str], attributes: str = "") -> list[str]:
    return [f"<{label}{attributes}>", *[f" {line}" for line in lines], f"</{label}>"]


# XPath -------------------------------------------------------------------------------------------

SMALL = f"translate(., '{string.ascii_uppercase}', '{string.ascii_lowercase}')"


def to_xpath(pattern: str, folded: bool = False) -> str:
    """What a pattern says without transformations, in XPath 1.0.

    Elements may lie between, as insertions are free. Words are those of ASCII text that has spaces
    between them and no element within it, in small letters already if ``folded``.

    >>> print(to_xpath("book[title]"))
    boolean(//book[descendant::title])
    """
    root = parse_pattern(pattern)
    text = "." if folded else SMALL
    return f"boolean(//{root.label}{_predicates(root, text)})"


def _predicates(node: Structure, text: str) -> str:
    inside = _tests(node.parts, text, node.label[0] == "@")
    return f"[{inside}]" if inside else ""


def _tests(parts: Iterable[PatternNode], text: str, in_attribute: bool) -> str:
    return " and ".join(_test(part, text, in_attribute) for part in parts)


def _test(node: PatternNode, text: str, in_attribute: bool) -> str:
    """What must hold at an element or at an attribute."""
    if type(node) is Value:
        wanted = " ".join(node.words)
        words = f"contains(concat(' ', normalize-space({text}), ' '), ' {wanted} ')"
        if in_attribute:
            return words
        return f"(descendant::text()[{words}] or descendant-or-self::*/@*[{words}])"
    if type(node) is Structure:
        if in_attribute:
            return "false()"
        axis = "descendant-or-self::*/" if node.label[0] == "@" else "descendant::"
        return f"{axis}{node.label}{_predicates(node, text)}"
    assert type(node) is Either
    sides = [_tests(parts, text, in_attribute) for parts in node.alternatives]
    return f"({' or '.join(sides)})"


class XPaths:
    """A compiled XPath for each of some patterns; they answer exactly, one after the other.

    If ``folded``, documents are put into small letters when they are parsed.
    """

    def __init__(self, patterns: Iterable[str], folded: bool = False) -> None:
        self.folded = folded
        self.paths: list[Any] = []
        self.add(patterns)

    def add(self, patterns: Iterable[str]) -> None:
        """Compile more."""
        for pattern in patterns:
            path = to_xpath(pattern, self.folded)
            self.paths.append(etree.XPath(path, regexp=False, smart_strings=False))

    def parse(self, document: str) -> Any:
        """The tree of a document."""
        return etree.fromstring(document.lower() if self.folded else document)

    def find(self, tree: Any) -> list[int]:
        """Which patterns a document matches, by their place."""
        return [i for i, path in enumerate(self.paths) if path(tree)]
