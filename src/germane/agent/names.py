"""Names in text -> nodes: the words of a graph's nodes, found all at once, the longest first.

In: (name, node) pairs, then texts. Out: for each name found its nodes, in the order of the text.
A name is a sequence of words; words are compared without case, accents and the plural's s. Marks
of scripts that write vowels with them, as Devanagari, are letters, and none ends a word. A word
that begins a longer name is tried with it first, and what a longer name took is not looked at
again: "New York Yankees" is neither New York nor a Yankee. Cost: a look-up or two a word, however
many names there are.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Found", "Names"]

MOST_WORDS = 8  # of a name
LEAST_LETTERS = 3  # of a name of one word
_MARKS = "".join(  # of the first plane: a set with those of others, too, takes twice as long
    c for c in map(chr, range(0x300, 0x10000)) if unicodedata.category(c)[0] == "M"
)
_WORD = re.compile(rf"\w[\w{_MARKS}]*(?:['’]\w[\w{_MARKS}]*)?")
_ACCENTS = "\u0700"  # below are those of Latin, Greek, Cyrillic, Hebrew and Arabic
STOP = frozenset(
    "a about above after again all also am an and any are as at back be because been before below "
    "best between big both but by can come could day did do does down each entity even event every "
    "few first for from full get give go good great group had has have he her here high him his "
    "home how i if in into is it item its just keep know last less let life like little long look "
    "made make man many may me men mobile more most much must my name new next nice no none not "
    "now of off old on one only open or other our out over own page part past people place post "
    "read reading right said same say see set she should show side since so some still such take "
    "than that the their them then there these they thing this those time to too top two under "
    "up us use very want was way we well were what when where which while who why will with word "
    "work world would year yes yet you young your".split()
)
"""Words that name nothing by themselves, whatever a graph says."""


class Found(NamedTuple):
    """A name in a text, and the nodes that are called so."""

    nodes: tuple[str, ...]
    begin: int
    end: int


class Names:
    """Many names, looked for in one pass.

    >>> names = Names([("Red Sox", "Red Sox"), ("Baseball", "Baseball")])
    >>> [found.nodes for found in names.find("The red sox play baseball.")]
    [('Red Sox',), ('Baseball',)]
    """

    def __init__(self, pairs: Iterable[tuple[str, str]], proper: bool = False) -> None:
        """``proper``: names are found only where every word of three letters is capitalised."""
        self._proper = proper
        self._nodes: dict[str, tuple[str, ...]] = {}
        self._longest: dict[str, int] = {}  # words of the longest name that begins with a word
        for name, node in pairs:
            self._add(name, node)

    def __len__(self) -> int:
        return len(self._nodes)

    def _add(self, name: str, node: str) -> None:
        words = [_fold(word) for word in _WORD.findall(name)]
        if not words or len(words) > MOST_WORDS:
            return
        if len(words) == 1 and (words[0] in STOP or len(words[0]) < LEAST_LETTERS):
            return
        key = " ".join(words)
        nodes = self._nodes.get(key, ())
        if node not in nodes:
            self._nodes[key] = (*nodes, node)
            self._longest[words[0]] = max(self._longest.get(words[0], 0), len(words))

    def find(self, text: str) -> list[Found]:
        """The names in a text, from left to right; none overlaps another."""
        spans = [match.span() for match in _WORD.finditer(text)]
        words = [_fold(text[a:b]) for a, b in spans]
        found = []
        at = 0
        while at < len(words):
            n = self._length(text, words, spans, at)
            if n:
                nodes = self._nodes[" ".join(words[at : at + n])]
                found.append(Found(nodes, spans[at][0], spans[at + n - 1][1]))
            at += n or 1
        return found

    def _length(self, text: str, words: list[str], spans: list[tuple[int, int]], at: int) -> int:
        """How many words the longest name has that begins here; 0: none does."""
        for n in range(min(self._longest.get(words[at], 0), len(words) - at), 0, -1):
            if " ".join(words[at : at + n]) in self._nodes and (
                not self._proper or _capitalised(text, spans[at : at + n])
            ):
                return n
        return 0


def _capitalised(text: str, spans: list[tuple[int, int]]) -> bool:
    """Whether words look like a proper name; of one that starts with no letter nothing is asked."""
    return all(not text[a].islower() or b - a < LEAST_LETTERS for a, b in spans) and not (
        text[spans[0][0]].islower()
    )


@lru_cache(maxsize=50_000)
def _fold(word: str) -> str:
    """A word as it is compared."""
    if not word.isascii():
        plain = unicodedata.normalize("NFKD", word)
        word = "".join(c for c in plain if c >= _ACCENTS or not unicodedata.combining(c))
    word = word.casefold()
    if word.endswith(("'s", "’s")):
        word = word[:-2]
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        return word if word[:-1] in STOP else word[:-1]  # "news" is more than "new"
    return word
