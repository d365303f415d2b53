"""WordNet's files -> synsets, and the order of a word's senses.

In: `data.noun`, `data.verb`, `data.adj`, `data.adv`, and the `index` of each. Out: one synset or
word at a time. Nothing is trusted: a line that is none of WordNet's is refused with its number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from germane.model.errors import InvalidValue

__all__ = ["Synset", "read_senses", "read_synsets"]

MAX_LINE = 100_000
"""WordNet's longest line has 12,972 characters."""
_MARKER = re.compile(r"\((?:a|p|ip)\)$")  # where an adjective may stand: "galore(ip)"


class Synset(NamedTuple):
    """Words of one meaning; ``parents`` are the offsets of its hypernyms."""

    offset: str
    words: list[str]
    parents: list[str]


def read_synsets(path: Path) -> Iterator[Synset]:
    """The synsets of a data file, in its order."""
    for number, line in _lines(path):
        try:
            yield _synset(line)
        except (IndexError, ValueError) as error:
            raise InvalidValue(
                f"{path.name}, line {number} is no synset of WordNet: {line.rstrip()!r:.80}; "
                "synsets are in data.noun, data.verb, data.adj and data.adv"
            ) from error


def read_senses(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The words of an index file, each with the offsets of its synsets, the usual sense first."""
    for number, line in _lines(path):
        fields = line.split()
        try:
            n = int(fields[2])
            if not 0 < n < len(fields):
                raise ValueError("no senses")
        except (IndexError, ValueError) as error:
            raise InvalidValue(
                f"{path.name}, line {number} is no word of WordNet: {line.rstrip()!r:.80}"
            ) from error
        yield fields[0].replace("_", " "), fields[-n:]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file after its licence, with their numbers."""
    number = 0
    try:
        with path.open(encoding="utf-8") as file:
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise InvalidValue(
                        f"{path.name}, line {number} has more than {MAX_LINE:,} characters, which "
                        "no line of WordNet has"
                    )
                if not line.startswith("  "):
                    yield number, line
    except OSError as error:
        raise InvalidValue(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidValue(f"{path.name} is no text after line {number}: {error}") from error


def _synset(line: str) -> Synset:
    fields = line.split(" ")
    kind = "a" if fields[2] == "s" else fields[2]
    n_words = int(fields[3], 16)
    at = 4 + 2 * n_words
    words = [word.replace("_", " ") for word in fields[4:at:2]]
    if kind == "a":
        words = [_MARKER.sub("", word) for word in words]
    if not 1 <= n_words <= 255 or not all(words) or kind not in ("n", "v", "a", "r"):
        raise ValueError("no synset")
    parents = []
    for i in range(int(fields[at])):
        pointer, target, part = fields[at + 1 + 4 * i : at + 4 + 4 * i]
        if pointer in ("@", "@i") and part == kind:
            parents.append(target)
    return Synset(fields[0], words, parents)
