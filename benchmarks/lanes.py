"""Lanes: strategies that process the same event sequence side by side, each with its own clock.

A lane owns a filter and its own replay of the sequence, so a fast strategy may get further than
a slow one in the same time. Making the events is never on the clock. A digest is kept for every
message, so lanes are compared on the messages that both have seen, warm-up included.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import engine
from .record import chain, digest
from .rounds import quiet
from .workloads import Events

CHUNK_S = 0.1
COUNTERS = (
    "messages",
    "updates",
    "index_updates",
    "escalations",
    "deescalations",
    "candidates",
    "postfiltered",
    "swept",
    "false_positives",
    "matches",
)


@dataclass
class Chunk:
    """A timed stretch: how many messages and updates, how long."""

    n_messages: int
    n_updates: int
    seconds: float


@dataclass
class Lane:
    """One strategy on its way through the sequence."""

    name: str
    filter: Any
    events: Events
    digests: list[int] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    _guess: int = 1

    @property
    def n_seen(self) -> int:
        """Messages so far, warm-up included."""
        return len(self.digests)

    def advance(self, n_messages: int) -> Chunk:
        """Process up to `n_messages` (fewer where updates are many) and time them."""
        steps = engine.prepared(self.filter, self.events.take(n_messages))
        seconds, answers = engine.play(self.filter, steps)
        self.digests.extend(digest(rows) for rows in answers)
        n_updates = sum(len(contexts) for updates, _ in steps for _, contexts, _ in updates)
        return Chunk(len(steps), n_updates, seconds)

    def chunk(self, max_messages: int) -> Chunk:
        """Process for about `CHUNK_S`, guessing from the last chunk how many messages that is."""
        chunk = self.advance(min(self._guess, max_messages))
        rate = chunk.n_messages / max(chunk.seconds, 1e-9)
        self._guess = max(1, min(4 * self._guess, int(rate * CHUNK_S)))
        return chunk

    def run(self, seconds: float, max_messages: int) -> list[Chunk]:
        """Process for about so long, at most so many messages; returns the chunks."""
        chunks: list[Chunk] = []
        spent, n = 0.0, 0
        while n < max_messages and (not chunks or spent < seconds):
            chunk = self.chunk(max_messages - n)
            spent += chunk.seconds
            n += chunk.n_messages
            chunks.append(chunk)
        return chunks

    def warm_up(self, seconds: float, n_messages: int) -> int:
        """The paper's warm-up (AGILE §6.1), cut short by a budget; the messages it took."""
        n = sum(chunk.n_messages for chunk in self.run(seconds, n_messages))
        self.counters = self.snapshot()
        return n

    def snapshot(self) -> dict[str, int]:
        stats = self.filter.stats()
        return {name: int(stats.get(name, 0)) for name in COUNTERS}

    def observed(self) -> dict[str, int]:
        """Counters since the warm-up."""
        now = self.snapshot()
        return {name: now[name] - self.counters.get(name, 0) for name in COUNTERS}


def race(
    lanes: list[Lane], seconds: float, max_messages: int = 1 << 60, n_rounds: int = 1
) -> dict[str, list[float]]:
    """Alternate chunk by chunk until every lane had its seconds (or messages) in every round.

    Returns messages a second for every lane and round; the chunks stay with the lanes.
    """
    rates: dict[str, list[float]] = {lane.name: [] for lane in lanes}
    with quiet():
        for _ in range(n_rounds):
            chunks: dict[str, list[Chunk]] = {lane.name: [] for lane in lanes}
            racing, turn = list(lanes), 0
            while racing:
                shift = turn % len(racing)
                for lane in racing[shift:] + racing[:shift]:
                    left = max_messages - sum(c.n_messages for c in chunks[lane.name])
                    chunks[lane.name].append(lane.chunk(left))
                racing = [
                    lane
                    for lane in racing
                    if sum(c.seconds for c in chunks[lane.name]) < seconds / n_rounds
                    and sum(c.n_messages for c in chunks[lane.name]) < max_messages
                ]
                turn += 1
            for lane in lanes:
                done = chunks[lane.name]
                rate = sum(c.n_messages for c in done) / sum(c.seconds for c in done)
                rates[lane.name].append(rate)
                lane.chunks += done
    return rates


def common_digest(lanes: list[Lane]) -> tuple[int, int, bool]:
    """Messages that all lanes have seen, the digest of their answers, and whether all agree."""
    n = min(lane.n_seen for lane in lanes)
    words = set()
    for lane in lanes:
        word = 0
        for answer in lane.digests[:n]:
            word = chain(word, answer)
        words.add(word)
    longest = max(lanes, key=lambda lane: lane.n_seen)
    agree = all(lane.digests == longest.digests[: lane.n_seen] for lane in lanes)
    return n, words.pop(), agree
