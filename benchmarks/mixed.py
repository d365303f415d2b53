"""One sequence of mixed events over Table 2: updates and messages, numbered, row by row.

`workloads.Events` groups the updates between two messages by attribute, as `update_many` wants
them. Here they are mixed, as they would arrive: as record batches for `process`, and as calls for
one event at a time. Both say the same as the steps they are made from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import engine
from .workloads import ATTRIBUTES, MESSAGES_PER_RUN, N_ATTRIBUTES, Contextual, Events, Step


class Replay:
    """The sequence from its beginning, with about so many updates before every message."""

    def __init__(self, work: Contextual, n_updates: float, seed: int) -> None:
        up = n_updates * MESSAGES_PER_RUN / work.n_profiles
        self.events = Events(work, [(0, up)], seed=seed)
        self._seed = seed
        self._n_rows = 0

    def take(self, n_messages: int) -> Rows:
        """The next messages and all updates before them."""
        first = self.events.n_messages
        steps = self.events.take(n_messages, max_updates=1 << 60)
        rng = np.random.default_rng([self._seed, 23, first])
        rows = Rows.mixed(steps, first, self._n_rows, rng)
        self._n_rows += len(rows.ids)
        return rows


@dataclass(frozen=True)
class Rows:
    """A stretch of the sequence; an update sets one attribute.

    Updates of one attribute keep the order in which they were drawn, so every message finds the
    same state as in the steps.
    """

    steps: list[Step]
    seqs: np.ndarray
    attributes: np.ndarray  # (row,): which one an update sets; −1 is a message
    ids: np.ndarray  # of the context or of the message
    values: np.ndarray  # (row,): what an update sets
    messages: np.ndarray  # (message, attribute)

    @classmethod
    def mixed(cls, steps: list[Step], message: int, seq: int, rng: np.random.Generator) -> Rows:
        attributes, ids, values = [], [], []
        for updates, _ in steps:
            columns = [ATTRIBUTES.index(name) for name, _, _ in updates]
            mixed = np.repeat(np.array(columns, dtype=np.int64), [len(c) for _, c, _ in updates])
            # Sorting the shuffled labels says where each attribute's next update goes.
            rng.shuffle(mixed)
            at = np.argsort(mixed, kind="stable")
            drawn_ids, drawn = np.empty(mixed.size, np.int64), np.empty(mixed.size)
            if updates:
                drawn_ids[at] = np.concatenate([contexts for _, contexts, _ in updates])
                drawn[at] = np.concatenate([new for _, _, new in updates])
            attributes += [mixed, [-1]]
            ids += [drawn_ids, [message]]
            values += [drawn, [np.nan]]
            message += 1
        n = sum(len(part) for part in ids)
        return cls(
            steps,
            np.arange(seq, seq + n, dtype=np.int64),
            np.concatenate(attributes),
            np.concatenate(ids).astype(np.int64),
            np.concatenate(values),
            np.stack([vector for _, vector in steps]),
        )

    def to_arrow(self) -> Any:
        """A record batch as `process` takes it: seq, kind, id and a column an attribute."""
        import pyarrow as pa

        is_message = self.attributes < 0
        kinds = pa.DictionaryArray.from_arrays(
            pa.array(is_message.astype(np.int8)), pa.array(["update", "message"])
        )
        columns = {"seq": pa.array(self.seqs), "kind": kinds.cast(pa.string())}
        columns["id"] = pa.array(self.ids)
        for a in range(N_ATTRIBUTES):
            set_here = self.attributes == a
            column = np.where(set_here, self.values, 0.0)
            column[is_message] = self.messages[:, a]
            columns[ATTRIBUTES[a]] = pa.array(column, mask=~(set_here | is_message))
        return pa.RecordBatch.from_pydict(columns)

    def in_calls(self, f: Any) -> list[tuple[Any, ...]]:
        """Arguments of `update` (context and mapping) or `match_rows` (a vector), in order."""
        vectors = iter(engine.arrange(f, self.messages))
        return [
            (next(vectors),) if a < 0 else (id_, {ATTRIBUTES[a]: value})
            for a, id_, value in zip(
                self.attributes.tolist(), self.ids.tolist(), self.values.tolist(), strict=True
            )
        ]
