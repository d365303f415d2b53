"""A table: the rows whose interval predicates are on the same message attributes, and their index.

New rows wait outside (swept like NOINDEX, so always right) until enough of them are there to be
worth an insertion, or a build. The table rebuilds its index when that pays: when probes have
wasted about as much on degraded zones as a build costs, or when the observed selectivities
choose other slots than those it was packed by.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.index.rowindex import RowIndex, Rows

SETTLE_ROWS = 512
"""Rows that wait outside before they are worth an index."""
SAMPLE = 256
"""Recent messages that selectivities are estimated on."""
OBSERVE_EVERY = 16
CHECK_EVERY = 4096
CHANGE_NS = 2e6
"""The least price of changing between index and sweep."""
BLOCK_NS = 60.0
"""What opening a block costs."""


class Balance:
    """Whether an index that follows contexts earns what it costs: two costs, compared as time.

    Inside an index, rows cost what updates spend on carrying their intervals in; swept, they cost
    the sweep. Whatever is in force, the time it wastes against the other is summed up (never
    below zero), and when the sum has reached the price of changing over, it is time to: so the
    total is never much worse than that of the better one in hindsight.
    """

    def __init__(self) -> None:
        self.swept = False
        self.regret_ns = 0.0
        self.spent_ns = 0.0  # on carrying intervals in, since the last message
        self.revision_ns = 1500.0  # of one update, lately
        self.changes = 0

    def pays_to_change(self, n_updates: int, sweep_ns: float, build_ns: float) -> bool:
        """Look back at one message and the updates before it."""
        if self.swept:
            wasted = sweep_ns - n_updates * self.revision_ns
        else:
            wasted = self.spent_ns - sweep_ns
            if n_updates:
                self.revision_ns += 0.05 * (self.spent_ns / n_updates - self.revision_ns)
        self.spent_ns = 0.0
        self.regret_ns = max(0.0, self.regret_ns + wasted)
        price = build_ns if self.swept else build_ns / 2
        return self.regret_ns > max(price, CHANGE_NS)

    def change(self, swept: bool) -> None:
        """The rows were moved."""
        self.changes += swept != self.swept
        self.swept = swept
        self.regret_ns = 0.0


class Table:
    """One index, its rows, and what was observed of it."""

    def __init__(
        self, number: int, attributes: tuple[int, ...], make: Callable[[], RowIndex]
    ) -> None:
        self.number = number
        self.attributes = np.array(attributes, np.int32)
        self.required: NDArray[np.int32] = self.attributes
        self._make = make
        self.index: RowIndex | None = None
        self.n_inside = 0
        self.n_waiting = 0
        self.n_expelled = 0
        self.builds = 0
        self.context_slots: set[int] = set()  # that its rows' intervals follow
        self.balance = Balance()
        self.points: NDArray[np.float64] = np.empty((SAMPLE, len(attributes)))
        self.n_points = 0
        self.build_ns = 0.0
        self._opened_at_build = 0
        self.n_probes = 0
        self._probes_at_build = 0
        self._next_check = 0
        self._fresh_rate = 0.0

    def wants_settling(self) -> bool:
        """Whether enough rows wait for an index."""
        return self.n_waiting >= max(SETTLE_ROWS, self.n_inside // 64)

    def wants_build(self) -> bool:
        """Whether waiting rows are so many that all are packed anew."""
        return self.index is None or self.n_waiting * 2 > self.n_inside

    def build(self, rows: Rows, lows: Any, highs: Any, whole: Any, awake: Any) -> None:
        """Pack all rows anew."""
        start = time.perf_counter_ns()
        if self.index is None:
            self.index = self._make()
        observe = getattr(self.index, "observe", None)
        if observe is not None and self.n_points:
            observe(self.points[: min(self.n_points, SAMPLE)])
        self.index.build(rows, lows, highs, whole, awake)
        self.build_ns = float(time.perf_counter_ns() - start)
        self._opened_at_build = getattr(self.index, "opened", 0)
        self._probes_at_build = self.n_probes
        self._fresh_rate = 0.0
        self.builds += 1

    def observe(self, message: NDArray[np.float64]) -> None:
        """Remember a message for estimating selectivities."""
        self.n_probes += 1
        if self.n_points < SAMPLE or not self.n_probes % OBSERVE_EVERY:
            self.points[self.n_points % SAMPLE] = message[self.attributes]
            self.n_points += 1

    def excludes(self, message: NDArray[np.float64]) -> bool:
        """Whether a message lacks an attribute that every row of the table needs."""
        return bool(np.isnan(message[self.required]).any())

    def describe(self, names: list[str]) -> dict[str, Any]:
        """What a person would want to know of the table."""
        about = {} if self.index is None else self.index.describe(names)
        return {
            "attributes": [names[slot] for slot in self.attributes.tolist()],
            "inside": self.n_inside,
            "waiting": self.n_waiting,
            "expelled": self.n_expelled,
            "builds": self.builds,
            "follows_contexts_by": "sweep" if self.balance.swept else "index",
            "changes_between_them": self.balance.changes,
            **about,
        }

    def wants_packing(self) -> bool:
        """Whether to pack anew: zones are worn, or other slots have become more selective."""
        opened = getattr(self.index, "opened", None)
        probes = self.n_probes - self._probes_at_build
        if opened is None or probes < SAMPLE:
            return False
        opened -= self._opened_at_build
        if not self._fresh_rate:
            self._fresh_rate = max(opened, 1) / probes
            self._next_check = self.n_probes + CHECK_EVERY
            return self._order_is_stale()
        wasted = opened - 1.5 * self._fresh_rate * probes
        if wasted * BLOCK_NS > 2.0 * self.build_ns:
            return True
        if self.n_probes < self._next_check:
            return False
        self._next_check = self.n_probes + CHECK_EVERY
        return self._order_is_stale()

    def _order_is_stale(self) -> bool:
        stale = getattr(self.index, "order_is_stale", None)
        return stale is not None and bool(stale(self.points[: min(self.n_points, SAMPLE)]))
