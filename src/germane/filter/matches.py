"""What ``match_many`` returns: pairs of (message row, profile), in columns.

In: per message, the profile rows that matched. Out: the same by message, by profile (Batching,
Figure 5), or as an Arrow table; ids are looked up and sorted only where they are asked for, and
kept apart before a profile's row is used again.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from germane.context.ids import column_of
from germane.filter.registry import ProfileIds
from germane.kernels.batches import lay_out
from germane.kernels.deliveries import name_rows
from germane.model import GermaneError

Rows = NDArray[np.int32]


class FoundRows(Protocol):
    """Profile rows of each message: ``parts[part[m]][starts[m] : starts[m] + counts[m]]``."""

    @property
    def parts(self) -> list[Rows]: ...
    @property
    def part(self) -> NDArray[np.int32]: ...
    @property
    def starts(self) -> NDArray[np.int64]: ...
    @property
    def counts(self) -> NDArray[np.int64]: ...
    @property
    def total(self) -> int: ...


class Matches:
    """Deliveries of a batch of messages, in message order, profiles in id order."""

    def __init__(
        self,
        found: FoundRows,
        ids: ProfileIds,
        first: int = 0,
        errors: Mapping[int, GermaneError] | None = None,
    ) -> None:
        self._found = found
        self._ids = ids
        self._first = first  # number of the first message
        self.errors = dict(errors) if errors else {}
        """Messages of the batch that were refused, by their number."""
        self._priced: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None
        ids.watch(self)

    def __len__(self) -> int:
        return self._found.total

    @property
    def n_messages(self) -> int:
        """Messages in the batch."""
        return len(self._found.counts)

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many profiles each message reaches."""
        return self._found.counts

    @property
    def ids(self) -> ProfileIds:
        """The profiles' ids, as they were when the messages were matched."""
        return self._ids

    @property
    def nbytes(self) -> int:
        """Bytes of the matches."""
        return sum(part.nbytes for part in self._found.parts)

    def rows(self, message: int) -> Rows:
        """The rows of the profiles that the i-th message reaches, in no order."""
        found = self._found
        if not found.counts[message]:
            return np.empty(0, np.int32)
        start = found.starts[message]
        rows: Rows = found.parts[found.part[message]][start : start + found.counts[message]]
        return rows

    def laid_out(self) -> Rows:
        """The profile rows of all messages, one message after the other, each in no order."""
        if self.n_messages == 1:
            return self.rows(0)
        out: Rows = np.empty(int(self._found.counts.sum()), np.int32)
        self._lay_out(out)
        return out

    def _lay_out(self, out: NDArray[Any]) -> None:
        for part, members, places in self._by_part():
            lay_out(part, members, self._found.starts, self._found.counts, places, out)

    def write_integers(self, out: NDArray[np.int64]) -> None:
        """Write the ids of all deliveries, laid out, which must be small integers."""
        if self._ids.are_rows:
            self._lay_out(out)
            return
        names = self._ids.integers
        for part, members, places in self._by_part():
            name_rows(part, members, self._found.starts, self._found.counts, places, names, out)

    def _by_part(self) -> Iterator[tuple[Rows, NDArray[np.int64], NDArray[np.int64]]]:
        """Each part, the messages whose rows it has, and where all messages are laid out."""
        found = self._found
        places = np.cumsum(found.counts) - found.counts
        order = np.argsort(found.part, kind="stable")
        ends = np.searchsorted(found.part[order], np.arange(len(found.parts)), side="right")
        begin = 0
        for part, end in zip(found.parts, ends.tolist(), strict=True):
            yield part, order[begin:end], places
            begin = end

    def split(self, max_bytes: int) -> Iterator["Matches"]:
        """The same in parts of whole messages, each with at most so many bytes of matches."""
        counts = self._found.counts
        if self.nbytes <= max_bytes:
            yield self
            return
        begin = 0
        while begin < len(counts):
            held = np.cumsum(counts[begin:]) * 4
            end = begin + max(int(np.searchsorted(held, max_bytes, side="right")), 1)
            part = Matches(
                _cut(self, begin, end),
                self._ids,
                self._first + begin,
                {i: e for i, e in self.errors.items() if begin <= i - self._first < end},
            )
            if self._priced is not None:
                keys, costs = self._priced
                mine = slice(*np.searchsorted(keys, np.array([begin, end]) << 32).tolist())
                part._priced = keys[mine] - (begin << 32), costs[mine]
            yield part
            begin = end

    def priced(
        self,
        messages: NDArray[np.int64],
        profiles: NDArray[np.int64],
        costs: NDArray[np.float64],
    ) -> None:
        """Deliveries, as (message, profile row), cost something."""
        there = np.flatnonzero(costs)
        keys = (messages[there] << 32) | profiles[there]
        order = np.argsort(keys)
        self._priced = keys[order], costs[there][order]

    def costs(self) -> NDArray[np.float64]:
        """The cost of each delivery, by message, profiles in id order."""
        if not self.is_priced:
            return np.zeros(len(self))
        rows = [self._ids.rows_in_order(self.rows(i)) for i in range(self.n_messages)]
        return self._costs_of(np.concatenate(rows))

    @property
    def is_priced(self) -> bool:
        """Whether any delivery costs something."""
        return self._priced is not None and bool(len(self._priced[0]))

    def costs_laid_out(self) -> NDArray[np.float64]:
        """The cost of each delivery, in the order of ``laid_out``."""
        return self._costs_of(self.laid_out()) if self.is_priced else np.zeros(len(self))

    def _costs_of(self, rows: Rows) -> NDArray[np.float64]:
        """The costs of rows, message after message."""
        assert self._priced is not None
        keys, costs = self._priced
        numbers = np.repeat(np.arange(self.n_messages), self.counts)
        wanted = (numbers << 32) | rows
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        found: NDArray[np.float64] = np.where(keys[places] == wanted, costs[places], 0.0)
        return found

    def freeze(self, ids: Any) -> None:
        """Use these ids from now on: a row is about to be used by another profile."""
        self._ids = ids

    def _named(self, message: int) -> list[Any]:
        return self._ids.in_order(self.rows(message).copy())

    def by_message(self) -> list[list[Any]]:
        """For each message, the ids of the profiles that it reaches, sorted."""
        return [self._named(i) for i in range(self.n_messages)]

    def by_profile(self) -> dict[Any, list[int]]:
        """For each profile that is reached, the row numbers of its messages, ascending."""
        found: dict[Any, list[int]] = {}
        for message in range(self.n_messages):
            for name in self._named(message):
                found.setdefault(name, []).append(self._first + message)
        return found

    def to_arrow(self) -> Any:
        """An Arrow table with columns ``message`` (row number), ``profile`` and ``cost``.

        Profiles are int64 or strings; ids of both kinds, or beyond 64 bits, fit no column.
        """
        import pyarrow as pa

        numbers = np.arange(self._first, self._first + self.n_messages)
        return pa.table(
            {
                "message": pa.array(np.repeat(numbers, self.counts)),
                "profile": profile_column([self]),
                "cost": pa.array(self.costs()),
            }
        )

    def __repr__(self) -> str:
        return f"Matches({len(self)} deliveries of {self.n_messages} messages)"


class _Cut:
    """A run of messages out of what was found, with its own copy of the rows."""

    def __init__(self, parts: list[Rows], counts: NDArray[np.int64]) -> None:
        self.parts = parts
        self.counts = counts
        self.part: NDArray[np.int32] = np.zeros(len(counts), np.int32)
        self.starts: NDArray[np.int64] = np.cumsum(counts) - counts
        self.total = int(counts.sum())


def _cut(matches: Matches, begin: int, end: int) -> _Cut:
    rows = [matches.rows(i) for i in range(begin, end)]
    return _Cut([np.concatenate([np.empty(0, np.int32), *rows])], matches.counts[begin:end])


def integer_names(runs: list[Matches], total: int) -> NDArray[np.int64]:
    """Ids of all deliveries of some matches whose ids are small integers, laid out."""
    named: NDArray[np.int64] = np.empty(total, np.int64)
    begin = 0
    for run in runs:
        run.write_integers(named[begin : begin + len(run)])
        begin += len(run)
    return named


def profile_column(runs: list[Matches]) -> Any:
    """Ids of all deliveries of some matches, in order, as an Arrow array."""
    import pyarrow as pa

    if all(run._ids.are_small_integers for run in runs):
        counts = np.concatenate([np.empty(0, np.int64), *(run.counts for run in runs)])
        named = integer_names(runs, int(counts.sum()))
        ends = np.cumsum(counts).tolist()
        for begin, end in zip([0, *ends], ends, strict=False):
            named[begin:end].sort()  # numpy's own is three times as fast as a compiled loop
        return pa.array(named)
    names = [name for run in runs for ids in run.by_message() for name in ids]
    integers = type(names[0]) is int if names else all(run._ids.are_integers for run in runs)
    remedy = "use by_message() or by_profile(), or ids of one kind"
    return column_of(names, integers, "profile", remedy)
