"""Pieces of feedback: what a person did with a message, in which context."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from germane.model import InvalidValue

__all__ = ["KINDS", "Cell", "Piece", "cell_in", "facets_of", "piece_in", "piece_of"]

KINDS = ("opened", "kept", "dismissed", "less")
MOST_FACETS = 6
YES_NO = {"true": "True", "false": "False"}
PREFERRED = ("task", "place", "time")
READ_S = 20.0  # who reads so long likes it
OPENED = 0.8  # what opening says if nobody knows for how long
LESS = 2.0  # pieces that "less like this" counts for

Cell = tuple[tuple[str, str], ...]


class Piece(NamedTuple):
    """A piece of feedback."""

    message: str
    topics: tuple[str, ...]
    context: tuple[tuple[str, str], ...]  # facets and values, sorted
    kind: str  # one of KINDS
    seconds: float | None = None  # for how long it was read, if known
    at: float = 0.0  # seconds since 1970

    @property
    def liked(self) -> float:
        """From 0 to 1."""
        if self.kind == "opened":
            return OPENED if self.seconds is None else min(1.0, max(0.0, self.seconds) / READ_S)
        return 1.0 if self.kind == "kept" else 0.0

    @property
    def times(self) -> float:
        """How often it counts."""
        return LESS if self.kind == "less" else 1.0

    def row(self) -> list[Any]:
        """As plain JSON, for ``piece_in``."""
        context = [list(pair) for pair in self.context]
        return [self.message, list(self.topics), context, self.kind, self.seconds, self.at]


def piece_of(
    message: str,
    topics: Iterable[str],
    context: Mapping[str, Any] | Cell,
    kind: str,
    seconds: float | None = None,
    at: float = 0.0,
) -> Piece:
    """A piece of feedback, checked."""
    if kind not in KINDS:
        raise InvalidValue(f"feedback is {', '.join(KINDS)}, not {kind!r:.100}")
    if seconds is not None and not 0 <= _number(seconds, "time read") < 1e6:
        raise InvalidValue(f"time read is seconds from 0 to a million, not {seconds!r:.100}")
    names = tuple(sorted({str(topic) for topic in topics}))
    read = None if seconds is None else float(seconds)
    return Piece(str(message), names, facets_of(context), kind, read, _number(at, "a time"))


def _number(value: Any, what: str) -> float:
    """A number that JSON has, too."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        raise InvalidValue(f"{what} is a number of seconds, not {value!r:.100}")
    return found


def facets_of(context: Mapping[str, Any] | Cell) -> Cell:
    """What of a context is learned from: facets that are words or yes and no, sorted by name.

    Yes and no are True and False, also where tables of texts say true and false. Of more than
    MOST_FACETS, those are task, place and time, then the first by name.
    """
    if isinstance(context, tuple):
        return tuple((name, YES_NO.get(value, value)) for name, value in context)
    words = {
        str(name): YES_NO.get(str(value), str(value))
        for name, value in context.items()
        if isinstance(value, str | bool | np.bool_) and str(value)
    }
    first = [name for name in PREFERRED if name in words]
    names = [*first, *sorted(words.keys() - PREFERRED)][:MOST_FACETS]
    return tuple((name, words[name]) for name in sorted(names))


def piece_in(row: Sequence[Any]) -> Piece:
    """The piece that a ``row`` tells of, checked."""
    if len(row) != 6:
        raise InvalidValue(f"a piece of feedback has six parts, not {row!r:.200}")
    message, topics, context, kind, seconds, at = row
    return piece_of(message, topics, dict(cell_in(context)), kind, seconds, at)


def cell_in(pairs: Iterable[Sequence[str]]) -> Cell:
    """The cell that plain pairs tell of."""
    return facets_of(tuple((str(name), str(value)) for name, value in pairs))
