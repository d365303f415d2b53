"""When to deescalate, and how each strategy treats an update (AGILE sections 4 and 5.5).

A policy turns what was counted lately into an interval FP: one false positive in FP triggers a
deescalation of the row that caused it.
"""

from dataclasses import dataclass
from typing import NamedTuple

from germane.index.rowindex import EAGER, ESCALATE, LOCAL
from germane.model import InvalidValue

C = 3000.0
"""The constant of the paper's ``auto`` policy."""


@dataclass(frozen=True)
class Always:
    """Every false positive deescalates."""

    def interval(self, updates: float, false_positives: float) -> int:
        """False positives per deescalation."""
        return 1


@dataclass(frozen=True)
class Fixed:
    """One false positive in ``n`` deescalates; the paper's good value is 1000."""

    n: int

    def __post_init__(self) -> None:
        if not isinstance(self.n, int) or isinstance(self.n, bool) or self.n < 1:
            raise InvalidValue(f"Fixed takes a positive whole number, not {self.n!r}")

    def interval(self, updates: float, false_positives: float) -> int:
        """False positives per deescalation."""
        return self.n


@dataclass(frozen=True)
class Auto:
    """FP = C * updates / false positives: rare when updates abound, frequent when they do not."""

    def interval(self, updates: float, false_positives: float) -> int:
        """False positives per deescalation."""
        return max(1, int(C * updates / max(false_positives, 1.0)))


Policy = Always | Fixed | Auto


def as_policy(policy: object) -> Policy:
    """A policy from what callers write."""
    if isinstance(policy, Always | Fixed | Auto):
        return policy
    if policy == "always":
        return Always()
    if policy == "auto":
        return Auto()
    raise InvalidValue(f"policy is 'always', germane.Fixed(n) or 'auto', not {policy!r}")


class Strategy(NamedTuple):
    """How an index follows the contexts."""

    name: str
    mode: int
    indexed: bool = True
    partial: bool = False


STRATEGIES = {
    "scan": Strategy("scan", EAGER, indexed=False),
    "eager": Strategy("eager", EAGER),
    "partial": Strategy("partial", EAGER, partial=True),
    "gbu": Strategy("gbu", LOCAL),
    "agile": Strategy("agile", ESCALATE),
    "auto": Strategy("auto", ESCALATE),
}


def as_strategy(name: object) -> Strategy:
    """A strategy by its name."""
    strategy = STRATEGIES.get(name) if isinstance(name, str) else None
    if strategy is None:
        raise InvalidValue(f"index is one of {', '.join(map(repr, STRATEGIES))}, not {name!r}")
    return strategy
