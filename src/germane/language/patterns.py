"""Patterns of approximate XML: text -> tree.

In: `book[title["XML"] and (author["Smith"] or editor["Smith"])]`. Out: a tree of structures (a
label with what is below it), values (the words of a literal) and alternatives. `and` adds costs and
`or` takes the least, so the tree is kept as it is written but for parentheses: sums distribute over
minima and not the other way round, so a conjunctive normal form would change the costs. What is
within the same brackets is put into one order, so that patterns which say the same are the same.

Paper ApproXFilter, Table 2, with `or`, `@attribute` labels and literals of several words.
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

from germane.model.errors import ConditionError

__all__ = ["Either", "PatternNode", "Structure", "Value", "parse_pattern", "words_of"]

MAX_TEXT = 10_000
MAX_VERTICES = 100
MAX_DEPTH = 50
_TOKEN = re.compile(r'\s*(?:(?P<literal>"[^"]*")|(?P<label>@?[^\W\d][\w.:-]*)|(?P<mark>[\[\]()]))')
_WORD = re.compile(r"\w+")


class Structure(NamedTuple):
    """An element or attribute with a label; all of ``parts`` are below it."""

    label: str
    parts: tuple[PatternNode, ...]
    at: int


class Value(NamedTuple):
    """Words that stand in a text one after the other."""

    words: tuple[str, ...]
    at: int


class Either(NamedTuple):
    """The cheapest of some alternatives, all of whose parts count."""

    alternatives: tuple[tuple[PatternNode, ...], ...]
    at: int


PatternNode: TypeAlias = Structure | Value | Either


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text, in the form in which they are compared."""
    return tuple(word.casefold() for word in _WORD.findall(text))


def parse_pattern(text: str) -> Structure:
    """The tree of a pattern.

    >>> pattern = parse_pattern('book[title["XML"] and author["Smith"]]')
    >>> pattern.label, [part.label for part in pattern.parts]
    ('book', ['author', 'title'])
    """
    return _Parser(text).pattern()


def canonical(node: PatternNode) -> str:
    """The text of a node; equal for nodes that say the same."""
    if type(node) is Value:
        return '"' + " ".join(node.words) + '"'
    if type(node) is Structure:
        inside = " and ".join(map(canonical, node.parts))
        return f"{node.label}[{inside}]" if inside else node.label
    assert type(node) is Either
    alternatives = [" and ".join(map(canonical, parts)) for parts in node.alternatives]
    return f"({' or '.join(alternatives)})"


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > MAX_TEXT:
            raise ConditionError(
                f"a pattern has at most {MAX_TEXT:,} characters, not {len(text):,}", text[:80], 0
            )
        self.text = text
        self.at = 0
        self.n_vertices = 0
        self.kind = self.word = ""
        self.start = 0
        self.advance()

    def advance(self) -> None:
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            rest = self.text[self.at :]
            self.start = self.at + len(rest) - len(rest.lstrip())
            self.kind, self.word = "end", ""
            if rest.strip():
                self.stray()
            return
        self.kind = found.lastgroup or ""
        self.word = found.group(self.kind)
        self.start = found.start(self.kind)
        self.at = found.end()

    def stray(self) -> None:
        found = self.text[self.start]
        if found == '"':
            raise self.error("this literal is never closed", 'a closing quote "')
        if found in "'‘’“”„«»":
            raise self.error('values stand in straight double quotes "…"', 'a quote "')
        raise self.error(f"{found!r} does not belong in a pattern", "a label, a value or a bracket")

    def error(self, message: str, expected: str, at: int | None = None) -> ConditionError:
        return ConditionError(message, self.text, self.start if at is None else at, expected)

    def found(self) -> str:
        return "the end" if self.kind == "end" else repr(self.word)

    def pattern(self) -> Structure:
        if self.kind == "end":
            raise self.error("a pattern cannot be empty", "a label")
        if self.kind != "label":
            raise self.error(f"a pattern begins with a label, not {self.found()}", "a label")
        root = self.structure(0)
        if self.kind != "end":
            raise self.error(f"expected the end of the pattern, found {self.found()}", "the end")
        return root

    def structure(self, depth: int) -> Structure:
        label, at = self.word, self.start
        self.count()
        self.advance()
        parts: tuple[PatternNode, ...] = ()
        if (self.kind, self.word) == ("mark", "["):
            opened = self.start
            if depth >= MAX_DEPTH:
                raise self.error(f"a pattern is at most {MAX_DEPTH} deep", "less nesting")
            self.advance()
            if (self.kind, self.word) == ("mark", "]"):
                raise self.error("there is nothing in these brackets", "a label or a value")
            parts = self.alternatives(depth + 1)
            self.close("]", opened)
        return Structure(label, parts, at)

    def close(self, bracket: str, opened: int) -> None:
        if (self.kind, self.word) != ("mark", bracket):
            if self.kind == "end":
                message = f"the {self.text[opened]!r} is never closed"
                raise self.error(message, f"a closing {bracket!r}", opened)
            raise self.error(
                f"expected 'and', 'or' or {bracket!r}, found {self.found()}", repr(bracket)
            )
        self.advance()

    def alternatives(self, depth: int) -> tuple[PatternNode, ...]:
        """Parts joined by `or`: one Either, or the parts themselves."""
        at = self.start
        found = [self.conjunction(depth)]
        while self.kind == "label" and self.word.lower() == "or":
            self.advance()
            found.append(self.conjunction(depth))
        flat: list[tuple[PatternNode, ...]] = []
        for parts in found:
            inner = parts[0] if len(parts) == 1 else None
            flat += inner.alternatives if type(inner) is Either else (parts,)
        if len(flat) == 1:
            return flat[0]
        distinct = {tuple(map(canonical, parts)): parts for parts in flat}
        ordered = tuple(parts for _, parts in sorted(distinct.items()))
        return ordered[0] if len(ordered) == 1 else (Either(ordered, at),)

    def conjunction(self, depth: int) -> tuple[PatternNode, ...]:
        parts = list(self.part(depth))
        while self.kind == "label" and self.word.lower() == "and":
            self.advance()
            parts += self.part(depth)
        return tuple(sorted(parts, key=canonical))

    def part(self, depth: int) -> tuple[PatternNode, ...]:
        if self.kind == "literal":
            words, at = words_of(self.word), self.start
            if not words:
                raise self.error(f"there is no word in {self.word}", "a word")
            self.count()
            self.advance()
            return (Value(words, at),)
        if self.kind == "label" and self.word.lower() not in ("and", "or"):
            return (self.structure(depth),)
        if (self.kind, self.word) == ("mark", "("):
            opened = self.start
            if depth >= MAX_DEPTH:
                raise self.error(f"a pattern is at most {MAX_DEPTH} deep", "less nesting")
            self.advance()
            parts = self.alternatives(depth + 1)
            self.close(")", opened)
            return parts
        raise self.error(
            f"expected a label or a value in double quotes, found {self.found()}",
            "a label or a value",
        )

    def count(self) -> None:
        self.n_vertices += 1
        if self.n_vertices > MAX_VERTICES:
            raise self.error(
                f"a pattern has at most {MAX_VERTICES} labels and values", "a smaller pattern"
            )
