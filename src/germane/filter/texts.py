"""Predicates that need the text of strings: LIKE, and message strings compared with each other.

Everything else about strings is a comparison of labels. A text predicate on the message is
evaluated at most once a message, and only when a candidate's residual asks for it; one on a
context is evaluated once per (pattern, string) and cached.
"""

import math
import operator
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.context import Strings
from germane.context.values import is_null
from germane.index.conjunctions import Array, longer
from germane.kernels import conjunctions as kernels
from germane.model.timestamps import microseconds_of

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Pattern(NamedTuple):
    """A LIKE pattern cut at its %: parts of literal characters and None for _."""

    parts: tuple[tuple[str | None, ...], ...]

    @classmethod
    def parse(cls, pattern: str, escape: str | None) -> "Pattern":
        """Cut a pattern (which the language has checked)."""
        parts: list[tuple[str | None, ...]] = []
        part: list[str | None] = []
        characters = iter(pattern)
        for character in characters:
            if character == escape:
                part.append(next(characters))
            elif character == "%":
                parts.append(tuple(part))
                part = []
            else:
                part.append(None if character == "_" else character)
        return cls((*parts, tuple(part)))

    @property
    def prefix(self) -> str:
        """The literal characters that every match starts with."""
        prefix = ""
        for character in self.parts[0]:
            if character is None:
                break
            prefix += character
        return prefix

    @property
    def is_literal(self) -> bool:
        """Whether the pattern matches one string only."""
        return len(self.parts) == 1 and None not in self.parts[0]

    @property
    def is_prefix(self) -> bool:
        """Whether the pattern is literal characters and a final %."""
        return len(self.parts) == 2 and not self.parts[1] and None not in self.parts[0]

    def matches(self, text: str) -> bool:
        """Whether a whole string matches: each part at its leftmost place. O(text * pattern)."""
        first, last = self.parts[0], self.parts[-1]
        if len(self.parts) == 1:
            return len(text) == len(first) and _fits(text, 0, first)
        if len(text) < len(first) + len(last) or not _fits(text, 0, first):
            return False
        at, end = len(first), len(text) - len(last)
        if not _fits(text, end, last):
            return False
        for part in self.parts[1:-1]:
            at = _find(text, at, end, part)
            if at < 0:
                return False
            at += len(part)
        return True


def _fits(text: str, at: int, part: tuple[str | None, ...]) -> bool:
    return all(want is None or text[at + i] == want for i, want in enumerate(part))


def _find(text: str, start: int, end: int, part: tuple[str | None, ...]) -> int:
    if None not in part:
        return text.find("".join(c for c in part if c is not None), start, end)
    for at in range(start, end - len(part) + 1):
        if _fits(text, at, part):
            return at
    return -1


def successor(prefix: str) -> str | None:
    """The least string above all strings with a prefix; None when there is none."""
    while prefix and prefix[-1] == "\U0010ffff":
        prefix = prefix[:-1]
    return prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else None


class View(NamedTuple):
    """What kernels read, in the order in which they take it."""

    truth: Array
    cache: Array
    wanted: Array
    stack: Array


class Texts:
    """All text predicates of a filter, and the arrays that kernels read their truth from."""

    def __init__(self, strings: Strings) -> None:
        self.strings = strings
        self.keys: list[tuple[Any, ...]] = []  # ("like", name, pattern, escape) | (op, a, b)
        self._number: dict[tuple[Any, ...], int] = {}
        self._patterns: list[Pattern | None] = []
        self._seen: list[int] = []
        self._n_cached = 0
        self.view = View(
            truth=np.full(8, kernels.UNSEEN),
            cache=_empty_cache(64),
            wanted=np.zeros(4096, kernels.WANTED),
            stack=np.empty(kernels.STACK),
        )

    def _replace(self, **arrays: Array) -> None:
        """Other arrays; whoever keeps ``view`` sees by its identity that it is another."""
        self.view = self.view._replace(**arrays)

    def number(self, key: tuple[Any, ...]) -> int:
        """The number of a text predicate, new or known."""
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self.keys)
            self.keys.append(key)
            self._patterns.append(Pattern.parse(key[2], key[3]) if key[0] == "like" else None)
            self._replace(truth=longer(self.view.truth, len(self.keys), kernels.UNSEEN))
        return number

    def forget(self) -> None:
        """Start a new message."""
        if self._seen:
            self.view.truth[self._seen] = kernels.UNSEEN
            self._seen.clear()

    def clear_wanted(self) -> None:
        """Take back what kernels asked for: it will be asked again, message by message."""
        self.view.wanted[0]["number"] = 0

    def answer(self, message: Mapping[str, Any]) -> None:
        """Evaluate what kernels asked for."""
        n = int(self.view.wanted[0]["number"])
        for label, number in self.view.wanted[1 : n + 1].tolist():
            if label == label:
                self._cache_verdict(number, label)
            elif self.view.truth[number] == kernels.UNSEEN:
                self.view.truth[number] = self.evaluate(number, message)
                self._seen.append(number)
        self.view.wanted[0]["number"] = 0

    def evaluate(self, number: int, message: Mapping[str, Any]) -> float:
        """Truth of a text predicate for a message's raw values."""
        key = self.keys[number]
        if key[0] == "like":
            value = message.get(key[1])
            pattern = self._patterns[number]
            assert pattern is not None
            return math.nan if is_null(value) else float(pattern.matches(str(value)))
        left, right = _plain(message.get(key[1])), _plain(message.get(key[2]))
        if left is None or right is None:
            return math.nan
        return float(COMPARE[key[0]](left, right))

    def _cache_verdict(self, number: int, label: float) -> None:
        if self._n_cached * 2 >= len(self.view.cache):
            self._rehash()
        place = kernels.text_place(number, label, self.view.cache)
        if self.view.cache[place]["pattern"] < 0:
            pattern = self._patterns[number]
            assert pattern is not None
            self.view.cache[place] = (label, number, pattern.matches(self.strings.text(label)))
            self._n_cached += 1

    def _rehash(self) -> None:
        """A larger cache; an empty one when it would become too large."""
        old = self.view.cache[self.view.cache["pattern"] >= 0]
        self._replace(cache=_empty_cache(2 * len(self.view.cache) if len(old) < 2**20 else 64))
        self._n_cached = 0
        if len(old) < 2**20:
            for verdict in old:
                place = kernels.text_place(verdict["pattern"], verdict["label"], self.view.cache)
                self.view.cache[place] = verdict
            self._n_cached = len(old)

    def renumbered(self) -> None:
        """Labels have changed: forget what was cached under the old ones."""
        self._replace(cache=_empty_cache(64))
        self._n_cached = 0


def _empty_cache(size: int) -> NDArray[Any]:
    cache = np.zeros(size, kernels.VERDICT)
    cache["pattern"] = -1
    return cache


def _plain(value: Any) -> Any:
    """A raw value in a form that compares with others of its type; None for NULL."""
    if is_null(value):
        return None
    if isinstance(value, datetime):
        return microseconds_of(value)
    if isinstance(value, date):
        return microseconds_of(datetime(value.year, value.month, value.day))
    return value
