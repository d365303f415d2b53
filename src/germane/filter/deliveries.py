"""What ``Filter.process`` returns: who got which message, by ``seq``; and what was rejected."""

from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.filter.matches import Matches, Rows, integer_names, profile_column
from germane.model import GermaneError


class Rejected(NamedTuple):
    """An event that was not taken, and why: a dead letter."""

    position: int  # among the events of the call, from 0
    seq: int | None
    reason: GermaneError
    event: Any  # as it came


class Deliveries:
    """Deliveries of one stretch of the sequence, in the order of ``seq``, profiles in id order."""

    def __init__(self) -> None:
        self.rejected: list[Rejected] = []
        self._runs: list[Matches] = []
        self._seqs: list[NDArray[np.int64]] = []
        self._ids: list[list[Any] | NDArray[np.int64]] = []  # of messages, a run's each
        self._ends: list[int] = []  # of runs, in messages

    def add(
        self, matches: Matches, seqs: NDArray[np.int64], ids: list[Any] | NDArray[np.int64]
    ) -> None:
        """Messages that were matched, with their places in the sequence and their ids."""
        self._runs.append(matches)
        self._seqs.append(seqs)
        self._ids.append(ids)
        self._ends.append(self.n_messages + len(ids))

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    @property
    def n_messages(self) -> int:
        """Messages that were matched."""
        return self._ends[-1] if self._ends else 0

    @property
    def seqs(self) -> NDArray[np.int64]:
        """The place in the sequence of each message."""
        return np.concatenate([np.empty(0, np.int64), *self._seqs])

    @property
    def message_ids(self) -> list[Any]:
        """The id of each message."""
        return [name for ids in self._ids for name in _listed(ids)]

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many profiles each message reaches."""
        return np.concatenate([np.empty(0, np.int64), *(run.counts for run in self._runs)])

    def rows(self, message: int) -> Rows:
        """The rows of the profiles that the i-th message reaches, in no order."""
        run = int(np.searchsorted(self._ends, message, side="right"))
        return self._runs[run].rows(message - (self._ends[run - 1] if run else 0))

    def by_message(self) -> list[list[Any]]:
        """For each message, the ids of the profiles that it reaches, sorted."""
        return [names for run in self._runs for names in run.by_message()]

    def by_profile(self) -> dict[Any, list[int]]:
        """For each profile that is reached, the ``seq`` of its messages, ascending."""
        found: dict[Any, list[int]] = {}
        for seq, names in zip(self.seqs.tolist(), self.by_message(), strict=True):
            for name in names:
                found.setdefault(name, []).append(seq)
        return found

    def to_arrow(self) -> Any:
        """An Arrow table with columns ``seq``, ``message`` (its id), ``profile`` and ``cost``."""
        import pyarrow as pa

        counts = self.counts
        messages = np.repeat(np.arange(self.n_messages), counts)
        return pa.table(
            {
                "seq": pa.array(np.repeat(self.seqs, counts)),
                "message": self._message_column().take(pa.array(messages)),
                "profile": profile_column(self._runs),
                "cost": pa.array(np.concatenate([np.empty(0), *(r.costs() for r in self._runs)])),
            }
        )

    def to_lists(self) -> Any:
        """An Arrow table of the messages that reach somebody, in columns.

        ``seq``, ``message`` (its id), ``profiles``, ``contexts`` and ``costs``: lists that go
        together, each in no order; a context is null where the profile has none, and so is the
        list of them where no profile of any message has one, or the list of costs where nothing
        costs anything.
        """
        import pyarrow as pa

        named = [_named(list(runs)) for _, runs in groupby(self._runs, key=lambda run: id(run.ids))]
        profiles = _joined([profiles for profiles, _ in named])
        contexts = [contexts for _, contexts in named]
        owned = any(part.null_count < len(part) for part in contexts)
        counts = self.counts
        reached = counts > 0
        ends = pa.array(np.concatenate(([0], np.cumsum(counts)[reached])), pa.int32())
        lists = pa.ListArray.from_arrays(ends, profiles)
        costs = pa.nulls(len(lists), pa.list_(pa.float64()))
        if any(run.is_priced for run in self._runs):
            listed = np.concatenate([run.costs_laid_out() for run in self._runs])
            costs = pa.ListArray.from_arrays(ends, pa.array(listed))
        return pa.table(
            {
                "seq": pa.array(self.seqs[reached]),
                "message": self._message_column().filter(pa.array(reached)),
                "profiles": lists,
                "contexts": pa.ListArray.from_arrays(ends, _joined(contexts))
                if owned
                else pa.nulls(len(lists), pa.list_(pa.string())),
                "costs": costs,
            }
        )

    def _message_column(self) -> Any:
        import pyarrow as pa

        if self._ids and all(isinstance(ids, np.ndarray) for ids in self._ids):
            return pa.array(np.concatenate(self._ids))
        names = self.message_ids
        integers = bool(names) and type(names[0]) is int
        return pa.array(names, pa.int64() if integers else pa.string())

    def __repr__(self) -> str:
        return (
            f"Deliveries({len(self)} of {self.n_messages} messages, "
            f"{len(self.rejected)} events rejected)"
        )


def _listed(ids: Any) -> list[Any]:
    listed: list[Any] = ids.tolist() if isinstance(ids, np.ndarray) else ids
    return listed


def _named(runs: list[Matches]) -> tuple[Any, Any]:
    """Profiles and contexts of all deliveries of runs under the same ids, as Arrow arrays."""
    import pyarrow as pa

    ids, total = runs[0].ids, sum(map(len, runs))
    if ids.are_small_integers and not ids.has_contexts:
        return pa.array(integer_names(runs, total)), pa.nulls(total)
    rows = np.concatenate([run.laid_out() for run in runs])
    if total < ids.n_rows:
        return ids.column(rows), ids.contexts_of(rows)
    contexts = ids.contexts_of(np.arange(ids.n_rows, dtype=np.int32))
    return ids.column(rows), contexts.take(pa.array(rows))


def _joined(parts: list[Any]) -> Any:
    """Arrow arrays one after the other; one that is all null may stand beside any other."""
    import pyarrow as pa

    kinds = {part.type for part in parts if part.null_count < len(part)} or {pa.string()}
    kind = kinds.pop()
    if len(parts) == 1:
        return parts[0].cast(kind)
    return pa.concat_arrays([part.cast(kind) for part in parts] or [pa.nulls(0, kind)])
