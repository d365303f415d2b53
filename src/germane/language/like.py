"""LIKE patterns: what they say, and whether a string matches.

In: a pattern that the language has checked, with its escape character. Out: its literal prefix, for
the indexes, and an exact test that costs O(text * pattern), whatever the pattern.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Pattern", "successor"]


class Pattern(NamedTuple):
    """A LIKE pattern cut at its %: parts of literal characters and None for _."""

    parts: tuple[tuple[str | None, ...], ...]

    @classmethod
    def parse(cls, pattern: str, escape: str | None) -> Pattern:
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
