"""Pieces of feedback: what a person did with a message, in which context."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from germane.model import InvalidValue

__all__ = ["KINDS", "Cell", "Piece", "facets_of", "piece_of"]

KINDS = ("opened", "kept", "dismissed", "less")
MOST_FACETS = 6
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
    if seconds is not None and not 0 <= seconds < 1e6:
        raise InvalidValue(f"time read is seconds from 0 to a million, not {seconds!r:.100}")
    names = tuple(sorted({str(topic) for topic in topics}))
    return Piece(str(message), names, facets_of(context), kind, seconds, float(at))


def facets_of(context: Mapping[str, Any] | Cell) -> Cell:
    """What of a context is learned from: its first facets that are words or yes and no, sorted."""
    if isinstance(context, tuple):
        return context
    words = {
        str(name): str(value)
        for name, value in context.items()
        if isinstance(value, str | bool) and str(value)
    }
    return tuple(sorted(words.items())[:MOST_FACETS])
