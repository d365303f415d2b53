"""Predicates that need the text of strings: LIKE, message strings compared with each other, CESQL.

Everything else about strings is a comparison of labels. A text predicate on the message is
evaluated at most once a message, and only when a candidate's residual asks for it; one on a
context is evaluated once per (pattern, string) and cached; an expression of CESQL once per tuple of
the values it reads, as long as there are not too many of them.
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
from germane.language.cesql.evaluate import cast, evaluate, raw, value_of
from germane.language.cesql.expressions import Expression, attributes
from germane.language.cesql.grammar import parse
from germane.language.like import Pattern
from germane.model.timestamps import microseconds_of

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


MAX_VERDICTS = 65_536
"""Truths of expressions that are remembered."""


class Asked(NamedTuple):
    """An expression of CESQL, and the names it reads."""

    expression: Expression
    names: tuple[str, ...]
    strict: bool

    @classmethod
    def of(cls, text: str, strict: bool) -> "Asked":
        """The expression of a text that was read before."""
        expression = parse(text)
        return cls(expression, tuple(sorted(attributes(expression))), strict)

    def values(self, message: Mapping[str, Any]) -> tuple[Any, ...]:
        """What it reads of a message, types included: 1 is not TRUE."""
        found = [value_of(raw(message, name)) for name in self.names]
        return tuple((type(value), value) for value in found)

    def truth(self, message: Mapping[str, Any]) -> float:
        """1, 0, or NaN where it errs."""
        value, error = evaluate(self.expression, message)
        if not error and not self.strict:
            value, error = cast(value, bool)
        return math.nan if error or not isinstance(value, bool) else float(value)


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
        self.keys: list[tuple[Any, ...]] = []
        """("like" | "like cast", name, pattern, escape), ("cesql", text, strict) or (op, a, b)."""
        self._number: dict[tuple[Any, ...], int] = {}
        self._patterns: list[Pattern | None] = []
        self._asked: dict[int, Asked] = {}
        self.names: set[str] = set()  # of the message's attributes that are looked at
        self._verdicts: dict[tuple[Any, ...], float] = {}
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
            likes = key[0] in ("like", "like cast")
            self._patterns.append(Pattern.parse(key[2], key[3]) if likes else None)
            if key[0] == "cesql":
                self._asked[number] = Asked.of(*key[1:])
            self.names.update(name for name in self.names_of(key) if name is not None)
            self._replace(truth=longer(self.view.truth, len(self.keys), kernels.UNSEEN))
        return number

    def names_of(self, key: tuple[Any, ...]) -> tuple[str, ...]:
        """The attributes of the message that a text predicate reads."""
        if key[0] == "cesql":
            return self._asked[self._number[key]].names
        return key[1:2] if key[0] in ("like", "like cast") else key[1:3]

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
        if key[0] == "cesql":
            return self._verdict(number, self._asked[number], message)
        pattern = self._patterns[number]
        if pattern is not None:
            value = message.get(key[1])
            if key[0] == "like cast":
                value = value_of(raw(message, key[1]))
                value = None if value is None else cast(value, str).value
            return math.nan if is_null(value) else float(pattern.matches(str(value)))
        left, right = _plain(message.get(key[1])), _plain(message.get(key[2]))
        if left is None or right is None:
            return math.nan
        return float(COMPARE[key[0]](left, right))

    def _verdict(self, number: int, asked: Asked, message: Mapping[str, Any]) -> float:
        """Truth of an expression, known from a message with the same values or computed."""
        key = (number, asked.values(message))
        known = self._verdicts.get(key)
        if known is None:
            if len(self._verdicts) >= MAX_VERDICTS:
                self._verdicts.clear()
            known = self._verdicts[key] = asked.truth(message)
        return known

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
