"""What a caller can say about batching: a strategy, a grouping, a latency, a bound on memory."""

from dataclasses import dataclass
from math import isfinite
from typing import Any

from germane.model import InvalidValue

UNBATCHED, FULL, FULL_MESSAGES, MINI, MINI_MESSAGES = (
    "unbatched/pix",
    "full/pix",
    "full/mix",
    "minib/pix",
    "minib/pix/mix",
)
STRATEGIES = (UNBATCHED, FULL, FULL_MESSAGES, MINI, MINI_MESSAGES)
"""Batching section 3.5: how messages are batched, whether profiles and messages are indexed."""
AUTO = "auto"
MIB = 2**20


@dataclass(frozen=True)
class _Counted:
    """A count, and the least and the most messages of a minibatch."""

    n: int
    least: int = 1
    most: int | None = None

    def __post_init__(self) -> None:
        _check_count("n", self.n)
        _check_sizes(self)


class FixedSize(_Counted):
    """Minibatches of ``n`` messages each."""


class FixedNumber(_Counted):
    """A batch is cut into ``n`` minibatches."""


@dataclass(frozen=True)
class ByValue:
    """A minibatch holds messages within one range of the first (and second) indexed attribute.

    ``first`` and ``second`` are the widths of the ranges, in the attribute's own unit. Without
    ``second`` this is the paper's *Val Att 1*; with an equal one *Val Att 2*; with a larger one
    *Val Att 2+*.
    """

    first: float
    second: float | None = None
    least: int = 1
    most: int | None = None

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            width = getattr(self, name)
            if width is None and name == "second":
                continue
            number = isinstance(width, int | float) and not isinstance(width, bool)
            if not number or not isfinite(width) or width <= 0:
                raise InvalidValue(f"{name} is the width of a range, above 0, not {width!r:.200}")
        _check_sizes(self)


Grouping = FixedSize | FixedNumber | ByValue


@dataclass(frozen=True)
class Batching:
    """How a filter works on batches.

    ``strategy`` is "auto" or one of the paper's; ``grouping`` says how minibatches are made (None:
    tuned while running); ``max_latency_ms`` is how long a message may wait and be worked on where
    a ``BatchControl`` makes the batches, and ``adaptive`` whether it waits only when it must;
    ``max_bytes`` bounds the memory of a batch's matches in ``match_chunks``.
    """

    strategy: str = AUTO
    grouping: Grouping | None = None
    max_latency_ms: float | None = None
    adaptive: bool = True
    max_bytes: int = 256 * MIB

    def __post_init__(self) -> None:
        if self.strategy not in (AUTO, *STRATEGIES):
            known = ", ".join(repr(name) for name in (AUTO, *STRATEGIES))
            raise InvalidValue(f"strategy is one of {known}, not {self.strategy!r:.200}")
        if self.grouping is not None and not isinstance(self.grouping, Grouping):
            raise InvalidValue(
                "grouping is FixedSize(n), FixedNumber(n) or ByValue(first, second), not "
                f"{self.grouping!r:.200}"
            )
        latency = self.max_latency_ms
        if latency is not None and not (
            isinstance(latency, int | float)
            and not isinstance(latency, bool)
            and isfinite(latency)
            and latency > 0
        ):
            raise InvalidValue(f"max_latency_ms is a time above 0, not {latency!r:.200}")
        if not isinstance(self.adaptive, bool):
            raise InvalidValue(f"adaptive is True or False, not {self.adaptive!r:.200}")
        _check_count("max_bytes", self.max_bytes)


def as_batching(value: Any) -> Batching:
    """Settings as a caller gives them; None for the defaults."""
    if value is None:
        return Batching()
    if not isinstance(value, Batching):
        raise InvalidValue(f"batching is a germane.Batching(…), not {value!r:.200}")
    return value


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidValue(f"{name} is a whole number above 0, not {value!r:.200}")


def _check_sizes(grouping: Any) -> None:
    _check_count("least", grouping.least)
    if grouping.most is not None:
        _check_count("most", grouping.most)
        if grouping.most < grouping.least:
            raise InvalidValue(f"most is {grouping.most}, below least, {grouping.least}")
