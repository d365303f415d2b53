"""A table: the rows whose interval predicates are on the same message attributes, and their index.

New rows wait outside (swept like NOINDEX, so always right) until enough of them are there to be
worth an insertion, or a build. The table rebuilds its index when that pays: when probes have
wasted about as much as a build costs, on degraded zones, or because the observed selectivities
would choose other slots than those it was packed by.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.filter.balance import BLOCK_NS, Balance, Observed, Plan
from germane.index.rowindex import RowIndex, Rows

SETTLE_ROWS = 512
"""Rows that wait outside before they are worth an index."""
SAMPLE = 256
"""Recent messages that selectivities are estimated on."""
OBSERVE_EVERY = 16
CHECK_EVERY, CHECK_AT_LEAST_EVERY = 4096, 65_536
"""Messages between two looks at whether other slots have become more selective (2 ms each): the
longer the packing has held, the more."""
WORTH_PACKING = 0.25
"""The share of opened blocks that packing anew must save; what was wasted must pay for it too."""


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
        self.is_merged = False  # takes rows that have other attributes besides
        self.n_inside = 0
        self.n_waiting = 0
        self.n_expelled = 0
        self.builds = 0
        self.context_slots: set[int] = set()  # that its rows' intervals follow
        self.balance = Balance(len(attributes))
        self.points: NDArray[np.float64] = np.empty((SAMPLE, len(attributes)))
        self.n_points = 0
        self.build_ns = 0.0
        self._opened_at_build = 0
        self.n_probes = 0
        self._probes_at_build = 0
        self._next_check = 0
        self._fresh_rate = 0.0
        self.n_candidates = 0
        self._weighed_at = (0, 0, 0)  # messages, candidates, blocks opened

    def better_plan(self, updates: NDArray[np.float64], sweep_ns: float) -> Plan | None:
        """What to do from now on with the intervals that contexts bound, if it should change.

        ``updates`` of each slot's context values per message; the cost of sweeping all rows.
        """
        opened = getattr(self.index, "opened", 0)
        before, self._weighed_at = self._weighed_at, (self.n_probes, self.n_candidates, opened)
        n = max(self.n_probes - before[0], 1)
        zoned = getattr(self.index, "zoned", None)
        seen = Observed(
            updates,
            np.ones(len(updates), np.bool_) if zoned is None else zoned,
            (self.n_candidates - before[1]) / n,
            (opened - before[2]) / n,
            sweep_ns,
        )
        return self.balance.better_plan(seen, self.build_ns)

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
        measured = getattr(self.index, "selectivity", None)
        if measured is not None:
            self.balance.learn_selectivity(measured)
        if self.builds == 1:
            self.balance.forget()

    def observe(self, message: NDArray[np.float64]) -> None:
        """Remember a message for estimating selectivities."""
        self.n_probes += 1
        if self.n_points < SAMPLE or not self.n_probes % OBSERVE_EVERY:
            self.points[self.n_points % SAMPLE] = message[self.attributes]
            self.n_points += 1

    def observe_many(self, messages: NDArray[np.float64]) -> None:
        """Remember some messages of a batch."""
        n = len(messages)
        self.n_probes += n
        wanted = n if self.n_points < SAMPLE else -(-n // OBSERVE_EVERY)
        picked = messages[:: -(-n // min(wanted, SAMPLE)), self.attributes]
        places = np.arange(self.n_points, self.n_points + len(picked)) % SAMPLE
        self.points[places] = picked
        self.n_points += len(picked)

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
            "loose": [names[self.attributes[slot]] for slot in sorted(self.balance.plan.loose)],
            "changes_of_plan": self.balance.changes,
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
        elif opened - 1.5 * self._fresh_rate * probes > 2.0 * self.build_ns / BLOCK_NS:
            return True
        elif self.n_probes < self._next_check:
            return False
        self._next_check = self.n_probes + min(max(CHECK_EVERY, probes), CHECK_AT_LEAST_EVERY)
        gain = self._gain_of_packing()
        return gain > WORTH_PACKING and gain * opened > self.build_ns / BLOCK_NS

    def _gain_of_packing(self) -> float:
        gain = getattr(self.index, "gain_of_packing", None)
        return 0.0 if gain is None else float(gain(self.points[: min(self.n_points, SAMPLE)]))
