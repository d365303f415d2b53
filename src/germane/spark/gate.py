"""When an event is due: the order of ``seq`` over micro-batches and inputs.

A micro-batch brings events of several inputs, none of which need be as far as the others. An event
is due once every input has come as far as it, or once every input has been asked again since it
came: then nothing earlier is on its way. Until then it is held. With ``together``, micro-batches
are cut through all inputs at one place of the sequence, and whatever comes is due.

An event that comes when a later one was due is late, unless its ``seq`` was seen: then it came
twice. All shards see the same marks, so all of them draw the same line.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

RECENT = 1 << 14
"""How many of the last ``seq`` are remembered, to tell what came twice from what came late."""
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
            for event in events.filter(pc.is_null(events.column("seq"))).to_pylist()
        ]
        events = self._in_order(events.filter(pc.is_valid(events.column("seq"))))
        events = self._without_late(events, refused)
        line = self._line(ceiling)
        seqs = events.column("seq").to_numpy()
        n_due = 0 if line is None else int(np.searchsorted(seqs, line, side="right"))
        if line is not None:
            self.frontier = line if self.frontier is None else max(line, self.frontier)
        self.held = events.slice(n_due) if n_due < len(seqs) else None
        taken = seqs[:n_due] if passed is None else np.union1d(seqs[:n_due], passed)
        self.recent = np.concatenate([self.recent, taken])[-RECENT:]
        return Due(events.slice(0, n_due), refused)

    def _line(self, ceiling: int | None) -> int | None:
        """Up to where events are due now; ``ceiling`` is how far earlier batches went."""
        if self.together:
            return self.ceiling
        if len(self.reached) < len(self.inputs):
            return ceiling
        least = min(self.reached.values())
        return least if ceiling is None else max(least, ceiling)

    def _in_order(self, events: pa.Table) -> pa.Table:
        """With what was held, in the order of ``seq``, each once."""
        if self.resumed_at is not None:
            events = events.filter(pc.greater(events.column("seq"), self.resumed_at))
        if self.held is not None:
            events = pa.concat_tables([self.held, events.cast(self.held.schema)])
        seqs = events.column("seq").to_numpy()
        if len(seqs) > 1 and not (np.diff(seqs) > 0).all():
            _, first = np.unique(seqs, return_index=True)
            events = events.take(pa.array(first))
        return events

    def _without_late(self, events: pa.Table, refused: list[tuple[dict[str, Any], str]]) -> Any:
        if self.frontier is None or not events.num_rows:
            return events
        seqs = events.column("seq").to_numpy()
        n_late = int(np.searchsorted(seqs, self.frontier, side="right"))
        if not n_late:
            return events
        twice = np.isin(seqs[:n_late], self.recent)
        for i in np.flatnonzero(~twice).tolist():
            event = events.slice(i, 1).to_pylist()[0]
            refused.append((event, LATE.format(seq=event["seq"], frontier=self.frontier)))
        return events.slice(n_late)

    # state -----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], pa.Table | None]:
        """What to keep until the next micro-batch."""
        about = {
            "reached": self.reached,
            "ceiling": self.ceiling,
            "frontier": self.frontier,
            "recent": self.recent.tolist(),
        }
        return about, self.held

    def restore(self, about: dict[str, Any], held: pa.Table | None) -> None:
        """Go on where ``state`` was taken."""
        self.reached, self.ceiling = about["reached"], about["ceiling"]
        self.frontier = about["frontier"]
        self.recent = np.array(about["recent"], np.int64)
        self.held = held
