"""When an event is due: the order of ``seq`` over micro-batches and inputs.

A micro-batch brings events of several inputs, none of which need be as far as the others. An event
is due once every input has come as far as it, or has been asked again since it came and had nothing
at all: then nothing earlier is on its way. An input that brings something may have more, since what
a micro-batch takes of it may be limited. Until then the event is held. With ``together``,
micro-batches are cut through all inputs at one place of the sequence, and whatever comes is due.

An event that comes when a later one was due is late, unless its ``seq`` was seen: then it came
twice. All shards see the same marks, and are asked again in the same micro-batches (``waits``), so
all of them draw the same line, also those that hold nothing.
"""

import zlib
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from germane.filter.columns import row_of, rows_of

RECENT = 1 << 14
"""How many of the last ``seq`` are remembered, to tell what came twice from what came late; of the
last two micro-batches that brought any, all are."""
LATE = "late: seq {seq} came when events up to {frontier} had been taken"
NO_SEQ = "the {kind} event has no seq, an integer"


class Due(NamedTuple):
    """Events to take now, in order, and those that cannot be taken any more, with reasons."""

    events: pa.Table
    refused: list[tuple[dict[str, Any], str]]


class Gate:
    """How far a shard is in the sequence."""

    def __init__(self, inputs: list[str], together: bool, resumed_at: int | None = None) -> None:
        self.inputs = inputs
        self.resumed_at = resumed_at  # what is not later was taken by another stream
        self.together = together or len(inputs) == 1
        self.reached: dict[str, int] = {}
        self.ceiling: int | None = None  # the highest seq of all that came in earlier batches
        self.frontier: int | None = None  # up to here, events have been due
        self.recent: NDArray[np.int64] = np.empty(0, np.int64)
        self.n_latest = 0  # of them, of the last micro-batch that brought any
        self.held: pa.Table | None = None

    def admit(
        self, events: pa.Table, marks: list[dict[str, int]], passed: NDArray[np.int64] | None = None
    ) -> Due:
        """Take in what a micro-batch brought; what is due now.

        ``passed`` are the ``seq`` of messages that were not sent here.
        """
        ceiling = self.ceiling
        for mark in marks:
            for name, seq in mark.items():
                self.reached[name] = max(seq, self.reached.get(name, seq))
        if self.reached:
            self.ceiling = max(self.reached.values())
        refused = [
            (event, NO_SEQ.format(kind=event["kind"]))
            for event in rows_of(events.filter(pc.is_null(events.column("seq"))))
        ]
        events = self._in_order(events.filter(pc.is_valid(events.column("seq"))))
        events = self._without_late(events, refused)
        line = self._line(ceiling, {name for mark in marks for name in mark})
        seqs = events.column("seq").to_numpy()
        n_due = 0 if line is None else int(np.searchsorted(seqs, line, side="right"))
        if line is not None:
            self.frontier = line if self.frontier is None else max(line, self.frontier)
        self.held = events.slice(n_due) if n_due < len(seqs) else None
        taken = seqs[:n_due] if passed is None else np.union1d(seqs[:n_due], passed)
        if len(taken):
            kept = max(RECENT, self.n_latest + len(taken))
            self.recent = np.concatenate([self.recent, taken])[-kept:]
            self.n_latest = len(taken)
        return Due(events.slice(0, n_due), refused)

    @property
    def waits(self) -> bool:
        """Whether a micro-batch without events would make something due, here or elsewhere."""
        return self.ceiling is not None and (self.frontier is None or self.frontier < self.ceiling)

    def _line(self, ceiling: int | None, brought: set[str]) -> int | None:
        """Up to where events are due now; ``ceiling`` is how far earlier batches went.

        ``brought`` are the inputs that had something in this micro-batch.
        """
        if self.together:
            return self.ceiling
        lines = [self.reached[name] if name in brought else ceiling for name in self.inputs]
        known = [line for line in lines if line is not None]
        return min(known) if len(known) == len(lines) else None

    def _in_order(self, events: pa.Table) -> pa.Table:
        """With what was held, in the order of ``seq``, each once."""
        if self.resumed_at is not None:
            events = events.filter(pc.greater(events.column("seq"), self.resumed_at))
        if self.held is not None:  # by name: columns may come in another order after a restart
            events = pa.concat_tables([self.held, events], promote_options="permissive")
        seqs = events.column("seq").to_numpy()
        if len(seqs) < 2 or (np.diff(seqs) > 0).all():
            return events
        _, first = np.unique(seqs, return_index=True)
        if len(first) < len(seqs):  # all shards must choose the same, in whatever order they come
            keys = [(name, "ascending") for name in ("seq", "kind", "id")]
            events = events.take(pc.sort_indices(events, keys))
            _, first = np.unique(events.column("seq").to_numpy(), return_index=True)
        return events.take(pa.array(first))

    def _without_late(self, events: pa.Table, refused: list[tuple[dict[str, Any], str]]) -> Any:
        if self.frontier is None or not events.num_rows:
            return events
        seqs = events.column("seq").to_numpy()
        n_late = int(np.searchsorted(seqs, self.frontier, side="right"))
        if not n_late:
            return events
        twice = np.isin(seqs[:n_late], self.recent)
        for i in np.flatnonzero(~twice).tolist():
            event = row_of(events, i)
            refused.append((event, LATE.format(seq=event["seq"], frontier=self.frontier)))
        return events.slice(n_late)

    # state -----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], pa.Table | None]:
        """What to keep until the next micro-batch."""
        about = {
            "reached": self.reached,
            "ceiling": self.ceiling,
            "frontier": self.frontier,
            "recent": _packed(self.recent),
            "n_latest": self.n_latest,
        }
        return about, self.held

    def restore(self, about: dict[str, Any], held: pa.Table | None) -> None:
        """Go on where ``state`` was taken."""
        self.reached, self.ceiling = about["reached"], about["ceiling"]
        self.frontier = about["frontier"]
        self.recent = _unpacked(about["recent"])
        self.n_latest = about["n_latest"]
        self.held = held


def _packed(seqs: NDArray[np.int64]) -> bytes:
    """Numbers that hardly differ from their neighbours, as few bytes."""
    if not len(seqs):
        return b""
    steps = np.diff(seqs)
    least, most = steps.min(initial=0), steps.max(initial=0)
    fits = (k for k in "bhi" if np.iinfo(k).min <= least and most <= np.iinfo(k).max)
    kind = np.dtype(next(fits, "q"))
    return zlib.compress(seqs[:1].tobytes() + kind.char.encode() + steps.astype(kind).tobytes(), 1)


def _unpacked(data: bytes) -> NDArray[np.int64]:
    """What was ``_packed``."""
    if not data:
        return np.empty(0, np.int64)
    plain = zlib.decompress(data)
    first, kind, steps = plain[:8], plain[8:9].decode(), plain[9:]
    return np.cumsum(np.append(np.frombuffer(first, np.int64), np.frombuffer(steps, kind)))
