"""What ``match_many`` returns: pairs of (message row, profile), in columns.

In: per message, the profile rows that matched. Out: the same by message, by profile (Batching,
Figure 5), or as an Arrow table; ids are looked up only where they are asked for.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.context import Ids
from germane.model import InvalidValue


class Matches:
    """Deliveries of a batch of messages, in message order, profiles in id order."""

    def __init__(self, offsets: NDArray[np.int64], profiles: NDArray[np.int32], ids: Ids) -> None:
        self._offsets = offsets
        self._profiles = profiles
        self._ids = ids
        self._names = np.empty(len(profiles), object)
        self._names[:] = ids.ids_of(profiles)

    def __len__(self) -> int:
        return len(self._profiles)

    @property
    def n_messages(self) -> int:
        """Messages in the batch."""
        return len(self._offsets) - 1

    def by_message(self) -> list[list[Any]]:
        """For each message, the ids of the profiles that it reaches, sorted."""
        names = self._names.tolist()
        bounds = self._offsets.tolist()
        return [names[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]

    def by_profile(self) -> dict[Any, list[int]]:
        """For each profile that is reached, the row numbers of its messages, ascending."""
        found: dict[Any, list[int]] = {}
        for name, message in zip(self._names.tolist(), self._messages().tolist(), strict=True):
            found.setdefault(name, []).append(message)
        return found

    def _messages(self) -> NDArray[np.int64]:
        counts = np.diff(self._offsets)
        return np.repeat(np.arange(len(counts)), counts)

    def to_arrow(self) -> Any:
        """An Arrow table with columns ``message`` (row number), ``profile`` and ``cost``.

        Profiles are int64 or strings; ids of both kinds, or beyond 64 bits, fit no column.
        """
        import pyarrow as pa

        names = self._names.tolist()
        integers = type(names[0]) is int if names else self._ids.are_integers
        try:
            profiles = pa.array(names, pa.int64() if integers else pa.string())
        except (pa.ArrowException, TypeError, OverflowError, UnicodeError) as error:
            raise InvalidValue(
                "these profiles' ids do not fit an Arrow column of int64 or of strings "
                f"({error}); use by_message() or by_profile(), or ids of one kind"
            ) from error
        return pa.table(
            {
                "message": pa.array(self._messages()),
                "profile": profiles,
                "cost": pa.array(np.zeros(len(self._profiles))),
            }
        )

    def __repr__(self) -> str:
        return f"Matches({len(self)} deliveries of {self.n_messages} messages)"
