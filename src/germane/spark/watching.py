"""A shard's own eye on its groups: when what others know of them does not cover them any more.

In: the events that changed a shard's state. Out: what to tell of its groups, or nothing. An update
that stays within its group's intervals, as they were told last, concerns nobody else. One that does
not, or a subscription, makes the shard sum up its groups anew, as narrow as they are then.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from germane.filter import Filter
from germane.filter.events import SUBSCRIBE, UPDATE
from germane.spark.layout import HOME
from germane.spark.notices import Arrays, Notice
from germane.spark.places import Near, as_floats
from germane.spark.pruning import Sieve, strays
from germane.spark.routing import GroupsOf

MOST_LEAVING = 1024


class Watch:
    """The groups of one shard, and what was told of them in which micro-batch."""

    def __init__(self, near: Near, number: int) -> None:
        self.near, self.number = near, number
        self.told: int | None = None
        self.moved: int | None = None
        self._of = GroupsOf(near, {})
        self._sieve: Sieve = near.sieve()
        self._groups: NDArray[np.int64] = np.empty(0, np.int64)  # by context row

    def recall(self, notice: Notice | None) -> None:
        """Go on from what was told, perhaps by another worker."""
        known = notice is not None and self._sieve.hear(self.number, notice.arrays)
        self.told = notice.batch if notice is not None and known else None

    def regroup(self, moved: int | None, groups: dict[Any, int]) -> None:
        """Contexts have moved."""
        self.moved, self._of = moved, GroupsOf(self.near, groups)
        self._groups = np.empty(0, np.int64)
        self.told = None

    def look(self, f: Filter, changes: list[pa.Table]) -> Arrays | None:
        """What to tell after these changes; None if what was told still holds."""
        news = self.told is None
        for table in changes:
            kinds = table.column("kind")
            here = pc.equal(table.column(HOME), self.number)
            news |= bool(pc.any(pc.and_(pc.equal(kinds, SUBSCRIBE), here)).as_py())
            news |= self._left(table.filter(pc.equal(kinds, UPDATE)))
        if not news:
            return None
        self._sieve.summarise(self.number, f, self._groups_by_row(f))
        return self._sieve.told(self.number)

    def _left(self, updates: pa.Table) -> bool:
        """Whether updates leave the intervals of their groups."""
        groups = self._of.of_events(updates)
        n = 0
        for name in self.near.followed:
            values = as_floats(updates.column(name))
            known = ~np.isnan(values)
            n += self._sieve.follow(groups[known], name, values[known])
        return n > 0

    def leaving(self, f: Filter) -> dict[Any, int]:
        """Contexts that stand far outside of their group, and the groups they belong to now."""
        rows, now = strays(self.near.placement(), f, self._groups_by_row(f))
        ids: Any = f._contexts.ids
        return {ids.id_of(row): int(now[row]) for row in rows[:MOST_LEAVING].tolist()}

    def _groups_by_row(self, f: Filter) -> NDArray[np.int64]:
        """Rows of contexts are never used again, so groups are only added."""
        ids: Any = f._contexts.ids
        if len(self._groups) < ids.n_rows:
            stranger = self.near.stranger(self.number)
            rows = range(len(self._groups), ids.n_rows)
            found = (self._of.of(ids.id_of(row)) for row in rows)
            new = [stranger if group is None else group for group in found]
            self._groups = np.concatenate([self._groups, np.array(new, np.int64)])
        return self._groups
