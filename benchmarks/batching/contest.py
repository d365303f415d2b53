"""A contest: contestants with the same messages in batches of one size, turn by turn.

Every contestant starts at the first message of the stream and gets as far as its time allows, so
answers are compared on the messages that all have seen. Taking digests is not on the clock.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import germane

from ..record import chain, digest
from ..rounds import quiet

COUNTERS = ("messages", "batches", "minibatches", "union_rows", "tested", "matches")
STAGES = ("group", "probe", "message_index", "postfilter", "deliver")


@dataclass(frozen=True)
class Contestant:
    """A strategy with one grouping, as the parameters write it."""

    name: str
    strategy: str
    grouping: dict[str, Any] | None = None  # {"fixed_size": n} or {"by_value": [width, …]}
    tuned: bool = False
    up_to: int = 1 << 30
    only: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.name} {self.grouping}" if self.grouping else self.name

    def enters(self, batch_size: int) -> bool:
        """Whether it is run at a batch size."""
        return batch_size <= self.up_to and (not self.only or batch_size in self.only)

    def batching(self) -> Any:
        """The setting of a filter."""
        if self.grouping is None:
            return germane.Batching(strategy=self.strategy)
        if "fixed_size" in self.grouping:
            grouping = germane.FixedSize(self.grouping["fixed_size"])
        else:
            grouping = germane.ByValue(*self.grouping["by_value"])
        return germane.Batching(strategy=self.strategy, grouping=grouping)


def contestants(entries: list[dict[str, Any]]) -> list[Contestant]:
    """Contestants of a list of the parameters, one for every setting of a grouping."""
    found = []
    for entry in entries:
        own = {key: entry[key] for key in ("tuned", "up_to") if key in entry}
        own["only"] = tuple(entry.get("only", ()))
        kinds = [kind for kind in ("fixed_size", "by_value") if kind in entry]
        groupings = [{kind: setting} for kind in kinds for setting in entry[kind]]
        for grouping in groupings or [None]:
            found.append(Contestant(entry["name"], entry["strategy"], grouping, **own))
    return found


@dataclass
class Turn:
    """A timed stretch."""

    n_messages: int = 0
    n_batches: int = 0
    seconds: float = 0.0

    def as_row(self) -> list[float]:
        return [self.n_messages, self.n_batches, round(self.seconds, 6)]


@dataclass
class Player:
    """A contestant on its way through the messages, with a filter that others may share."""

    contestant: Contestant
    filter: Any
    messages: np.ndarray  # in the order of the filter's attributes
    n_batch: int  # messages in a call
    n_checked: int
    streamed: bool
    warm: bool  # a batch that is not timed comes first, where the filter was set anew
    digests: list[int] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    stage_ns: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STAGES, 0))
    decided: dict[str, Any] = field(default_factory=dict)
    _next: int = 0
    _new: bool = True

    @property
    def spent(self) -> float:
        return sum(turn.seconds for turn in self.turns)

    def play(
        self, seconds: float, least: int = 1, most: int = 1 << 60, longest: float = float("inf")
    ) -> Turn:
        """Batches for about so long, but so many at least (unless too long) and at the most."""
        self._take_over()
        before = self.filter.stats()["batching"]
        turn = Turn()
        while turn.n_batches < most and (
            turn.seconds < (longest if turn.n_batches < least else seconds)
        ):
            turn.seconds += self._batch()
            turn.n_messages += self.n_batch
            turn.n_batches += 1
        self._observe(before, self.filter.stats()["batching"])
        return turn

    def _take_over(self) -> None:
        """Set the filter as this contestant wants it, and let its buffers grow."""
        wanted = self.contestant.batching()
        if self.filter.batching != wanted:
            self.filter.batching = wanted
            self._new = True
        if self._new and self.warm:
            self._batch()
        self._new = False

    def _batch(self) -> float:
        if self._next + self.n_batch > len(self.messages):
            self._next = 0
        batch = self.messages[self._next : self._next + self.n_batch]
        start = time.perf_counter()
        if self.streamed:
            found = []
            for part in self.filter.match_chunks(batch):
                if not found:
                    found.append(part)
        else:
            found = [self.filter.match_many(batch)]
        took = time.perf_counter() - start
        self._check(found[0])
        self._next += self.n_batch
        return took

    def _check(self, matches: Any) -> None:
        """Digests of the first messages of the stream, when they come by for the first time."""
        left = self.n_checked - len(self.digests)
        if self._next == len(self.digests):
            n = min(left, matches.n_messages)
            self.digests.extend(digest(matches.rows(i)) for i in range(n))

    def _observe(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        for name in COUNTERS:
            self.counters[name] += int(now.get(name, 0)) - int(before.get(name, 0))
        for stage in STAGES:
            spent = now["stage_ns"].get(stage, 0) - before["stage_ns"].get(stage, 0)
            self.stage_ns[stage] += int(spent)
        self.decided = {name: str(now[name]) for name in ("strategy", "grouping", "last", "sizes")}

    def forget(self) -> None:
        """Counters start again: what came before was the warm-up."""
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.stage_ns = dict.fromkeys(STAGES, 0)


def contest(players: list[Player], seconds: float, n_rounds: int) -> None:
    """Turns in an order drawn anew in every round, until everybody had its seconds.

    A player whose single batch takes longer than all its turns together has one. Those who tune
    themselves have all turns: any one of their batches may be a trial.
    """
    draw = random.Random(1)
    with quiet():
        for _ in range(n_rounds):
            for player in draw.sample(players, len(players)):
                if player.contestant.tuned or player.spent < seconds:
                    player.turns.append(player.play(seconds / n_rounds))


def agreement(players: list[Player]) -> tuple[int, int, bool]:
    """Messages whose answers were compared, their digest, and whether all players agree."""
    longest: list[int] = max((player.digests for player in players), key=len, default=[])
    n = min((len(player.digests) for player in players), default=0)
    word = 0
    for answer in longest[:n]:
        word = chain(word, answer)
    agree = all(player.digests == longest[: len(player.digests)] for player in players)
    return n, word, agree
