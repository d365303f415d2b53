"""All tables of a filter: which row is where, and what an update or a message does to them.

Row states: FREE, WAITING (swept until its table settles), INSIDE an index, EXPELLED (swept: its
context changes so often that an index does not help), POSTED (looked up by its categories, see
``category.postings``). ``outside`` is the bitmap of rows that are swept and awake.

The flow of an update (AGILE Fig. 8, ``update context``): the store's guards have said which
contexts disturb entries; those entries' new intervals are computed in one pass, carried into the
indexes as the strategy says, and the guards are laid anew around what the indexes now hold.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.category.postings import Postings
from germane.category.sets import Categories
from germane.context import Contexts
from germane.filter.assignment import Assignment, Merge
from germane.filter.balance import Plan
from germane.filter.intervals import Intervals
from germane.filter.recent import Recent
from germane.filter.table import Table
from germane.filter.texts import Texts
from germane.index.conjunctions import Conjunctions, longer
from germane.index.policy import Policy, Strategy
from germane.index.rowindex import ESCALATE, Rest, Rows
from germane.kernels import conjunctions as rowwise
from germane.kernels import contexts as kernels
from germane.kernels.conjunctions import WITHIN
from germane.kernels.lanes import LANES, SPARE
from germane.kernels.sweep import STRETCH, sharpen, sweep

FREE, WAITING, INSIDE, EXPELLED, POSTED = 0, 1, 2, 3, 4
SWEPT_PER_CANDIDATE = 32
"""Sweeping over a row that fails costs so many times less than testing a false positive."""
SWEEP_NS = 6.0
"""What sweeping over a row costs, until it has been measured."""
SETTLED_SWEEP = 4096
FEW_TABLES = 4
CARE_EVERY = 64
RATES_EVERY = 64
SHARPEN_EVERY = 16
SMALL = 4096
"""Below so many rows ``index='auto'`` sweeps: an index would cost more than it saves."""


_FIRST: Rows = np.zeros(1, np.int32)


class Tables:
    """Rows in tables, tables in step with contexts."""

    def __init__(
        self,
        conjunctions: Conjunctions,
        contexts: Contexts,
        texts: Texts,
        categories: Categories,
        strategy: Strategy,
        policy: Policy,
        structure: str,
    ) -> None:
        self.conjunctions = conjunctions
        self.contexts = contexts
        self.texts = texts
        self.categories = categories
        self.graphs = categories.places  # where kernels find content graphs
        self.postings = Postings(conjunctions, contexts, categories, strategy.mode == ESCALATE)
        self.posted_slots: set[int] = set()  # context slots that rows are posted by
        self.n_posted = 0
        self.strategy = strategy
        self.policy = policy
        self.assignment = Assignment(conjunctions, strategy, structure)
        self.tables = self.assignment.tables
        self.postponed = False  # new rows stay outside the indexes for a while
        self._fresh_updates = 0  # since the last message
        self.sweep_ns = SWEEP_NS
        self.state: NDArray[np.uint8] = np.zeros(16, np.uint8)
        self.table: NDArray[np.int16] = np.full(16, -1, np.int16)
        self.outside: NDArray[np.uint64] = np.zeros(1, np.uint64)
        self.n_outside = 0
        self.intervals = Intervals(conjunctions, contexts, strategy.partial)
        self.recent = Recent()
        self._countdown = 0
        self._posted_countdown = 0
        self._sweep_countdown = 0
        self._swept_since = 0  # a row was taken back, in batches
        self.n_candidates = 0
        self.n_false = 0
        self._any_plan = False  # other than to follow everything
        self.deescalations = 0
        self.n_postfiltered = 0
        self.n_swept = 0
        self._make_room(64)
        self._mask = np.zeros(STRETCH + 8, np.uint8)
        self._rates_at: dict[int, tuple[int, float]] = {}
        self.out: Rows = np.empty(16, np.int32)
        self._sample: Rows = np.empty(64, np.int32)
        self.failed: Rows = np.empty(16, np.int32)

    # rows come and go ------------------------------------------------------------------------

    def add(self, rows: Rows) -> None:
        """Take new rows (linked to their contexts): awake or not, waiting outside."""
        self.categories.refresh()  # the rows may have brought sets of nodes
        n = self.conjunctions.n_rows
        self.state = longer(self.state, n)
        self.table = longer(self.table, n, -1)
        self.outside = longer(self.outside, -(-n // LANES))
        self.reserve_buffers()
        shapes = self.conjunctions.shape[rows]
        if len(self.assignment.table_of_shape) < len(self.conjunctions.shapes):
            self._assign_new_shapes()
        numbers = np.array(self.assignment.table_of_shape, np.int16)[shapes]
        kernels.shut_guards(rows, *self.conjunctions.view, self.contexts.guards)
        if self.strategy.indexed and self.postings.groups:
            posted = self.postings.group_of_shape[shapes] >= 0
            self._post(rows[posted])
            rows, numbers = rows[~posted], numbers[~posted]
        self.table[rows] = numbers
        self.state[rows] = WAITING
        self.n_outside += len(rows)
        counts = np.bincount(numbers, minlength=len(self.tables))
        for table, count in zip(self.tables, counts.tolist(), strict=True):
            table.n_waiting += count
        self._wake(rows)

    def _post(self, rows: Rows) -> None:
        """Take rows that are looked up by their categories."""
        self.state[rows] = POSTED
        self.n_posted += len(rows)
        self.posted_slots = self.postings.context_slots
        self._wake(rows)
        self.postings.add(rows)

    def restore_posted(self) -> None:
        """Post rows anew whose state was loaded."""
        for shape in range(len(self.conjunctions.shapes) if self.strategy.indexed else 0):
            self.postings.assign(shape)
        rows = np.flatnonzero(self.state == POSTED).astype(np.int32)
        self.n_posted = len(rows)
        self.posted_slots = self.postings.context_slots
        if len(rows):
            self.postings.add(rows)

    def reserve_buffers(self) -> None:
        """Room for every row to be a candidate."""
        n = self.conjunctions.n_rows
        for name in ("out", "failed"):
            if len(getattr(self, name)) < n + SPARE:
                setattr(self, name, np.empty(n + SPARE + n // 64, np.int32))

    def _assign_new_shapes(self) -> None:
        """Choose tables for shapes that are new, and watch the context slots that they read."""
        for shape in range(len(self.assignment.table_of_shape), len(self.conjunctions.shapes)):
            merges = self.assignment.assign(shape)
            if self.strategy.indexed:
                self.postings.assign(shape)
            if merges:
                self._follow(merges)
        self._watch()

    def _follow(self, merges: list[Merge]) -> None:
        """Tables have become one: its rows wait for its index; the others have other numbers."""
        for merge in merges:
            self.table = merge.numbers[self.table]
            rows = np.flatnonzero(self.table == merge.into).astype(np.int32)
            self.state[rows] = WAITING
            merge.table.n_waiting = len(rows)
            rowwise.set_bits(rows, self.conjunctions.awake[rows] == 1, self.outside)
        self.n_outside = int((self.state == WAITING).sum() + (self.state == EXPELLED).sum())
        self._any_plan = any(table.balance.plan != Plan() for table in self.tables)
        self._rates_at.clear()
        self.intervals.forget_tables()
        if self.intervals.scopes is not None:
            self._rebuild_inside()

    def _watch(self) -> None:
        """Watch exactly the context slots that an index or a context-only predicate follows."""
        wanted = set(self.assignment.wake_slots)
        for table in self.tables if self.strategy.indexed else ():
            if not table.balance.swept:
                wanted |= self._followed_by(table)
        for slot in range(self.contexts.n_slots):
            if slot not in wanted:
                self.contexts.watched[slot] = False
            elif not self.contexts.watched[slot]:
                self.contexts.watched[slot] = True
                self.contexts.fit_grid(slot)
                self.contexts.guards[slot] = kernels.SHUT

    def _followed_by(self, table: Table) -> set[int]:
        """The context slots that bound what a table's index follows."""
        followed: set[int] = set()
        reads = self.intervals.reads()
        for slot, attribute in enumerate(table.attributes.tolist()):
            if slot not in table.balance.plan.loose:
                followed.update(reads.get(attribute, ()))
        return followed & table.context_slots

    def remove(self, rows: Rows) -> None:
        """Take rows out of their tables."""
        states = self.state[rows]
        posted = states == POSTED
        if posted.any():
            self.postings.remove(rows[posted])
            self.n_posted -= int(posted.sum())
            self.state[rows[posted]] = FREE
            rows, states = rows[~posted], states[~posted]
        for table in self.tables:
            mine = self.table[rows] == table.number
            inside = rows[mine & (states == INSIDE)]
            if len(inside):
                assert table.index is not None
                table.index.remove(inside)
                table.n_inside -= len(inside)
            table.n_waiting -= int((mine & (states == WAITING)).sum())
            table.n_expelled -= int((mine & (states == EXPELLED)).sum())
        rowwise.set_bits(rows, np.zeros(len(rows), np.bool_), self.outside)
        self.n_outside -= int((states != INSIDE).sum())
        self.state[rows] = FREE
        self.table[rows] = -1

    # contexts change -------------------------------------------------------------------------

    def count_updates(self, slot: int, n: int) -> None:
        """Remember how often a context slot changes."""
        self.recent.count(slot, n, self.contexts.n_slots)
        self._fresh_updates += n
        for table in self.tables:
            if slot in table.context_slots:
                table.balance.count(slot, n, bool(self.contexts.watched[slot]))

    def disturb(self, contexts: Rows, slot: int) -> None:
        """Carry changed context values into what was derived from them."""
        start = time.perf_counter_ns()
        if len(contexts) > 1:
            contexts = np.unique(contexts)  # only the last value of each can be seen
        store, view = self.contexts, self.conjunctions.view
        while True:
            n, n_sleepers = kernels.entries_of(
                contexts, slot, store.head, *view, store.values, *self._entries
            )
            if max(n, n_sleepers) <= len(self._sleepers):
                break
            self._make_room(max(n, n_sleepers))
        sleepers = self._sleepers[:n_sleepers]
        if n_sleepers:
            self._wake(sleepers)
        rows, forms = self._entries[0][:n], self._entries[1][:n]
        lows, highs = self._entries[2][:n], self._entries[3][:n]
        if self.strategy.indexed:
            self._revise(rows, forms, lows, highs)
        else:
            lows[:], highs[:] = -np.inf, np.inf
        kernels.lay_guards(
            contexts, rows, forms, lows, highs, sleepers, slot, *view,
            store.guards[slot], store.origin[slot], store.scale[slot],
        )  # fmt: skip
        # A compilation on the way would say nothing about what updates cost.
        spent = min(time.perf_counter_ns() - start, 1e6 + 20e3 * len(rows))
        for table in self.tables:
            if slot in table.context_slots:
                table.balance.spent_ns += spent
                if self._weighs and table.n_inside and table.balance.exceeds(table.build_ns):
                    self._adopt(table, Plan(swept=True))

    def _make_room(self, n: int) -> None:
        """Buffers for the entries that one column of updates disturbs."""
        self._sleepers = np.empty(n, np.int32)
        self._entries: tuple[Any, ...] = (
            np.empty(n, np.int32),
            np.empty(n, np.int32),
            np.empty(n),
            np.empty(n),
            self._sleepers,
        )

    def _revise(
        self,
        rows: Rows,
        forms: Rows,
        lows: NDArray[np.float64],
        highs: NDArray[np.float64],
    ) -> None:
        """Carry entries into the indexes; their intervals become the room they have now."""
        if len(self.tables) == 1 and 0 < self.tables[0].n_inside == self.conjunctions.n_live:
            slots, complete = self.intervals.slot_of_form(self.tables[0])
            if complete:
                self._revise_table(self.tables[0], rows, slots.take(forms), lows, highs)
                return
        inside = self.state[rows] == INSIDE
        numbers = self.table[rows]
        room_lows, room_highs = np.full(len(rows), -np.inf), np.full(len(rows), np.inf)
        for table in self.tables:
            if table.index is None or not table.n_inside:
                continue
            slots = self.intervals.slot_of_form(table)[0][forms]
            mine = inside & (numbers == table.number) & (slots >= 0)
            if mine.any():
                part_lows, part_highs = lows[mine], highs[mine]
                self._revise_table(table, rows[mine], slots[mine], part_lows, part_highs)
                room_lows[mine], room_highs[mine] = part_lows, part_highs
        lows[:], highs[:] = room_lows, room_highs

    def _revise_table(
        self,
        table: Table,
        rows: Rows,
        slots: Rows,
        lows: NDArray[np.float64],
        highs: NDArray[np.float64],
    ) -> None:
        assert table.index is not None
        scopes = self.intervals.scopes
        if scopes is not None:
            scopes.count(table.number, slots, lows)
            if scopes.due(table.number, table.n_inside):
                self._build(table)
            lows[:], highs[:] = scopes.clip(table.number, slots, lows, highs)
        expelled = table.index.revise(rows, slots, lows, highs, self.strategy.mode)
        if len(expelled):
            self._leave(table, expelled)

    def _tell_rates(self, table: Table) -> None:
        """Tell an index, now and then, how often its entries are updated per message, by slot."""
        told_at, told_total = self._rates_at.get(table.number, (-RATES_EVERY, 0.0))
        n_messages, total = self.recent.n_messages, self.recent.total
        if n_messages < told_at + RATES_EVERY and total < 2.0 * told_total:
            return
        self._rates_at[table.number] = (n_messages, total)
        per_message, reads = self.recent.per_message(), self.intervals.reads()
        rates = np.zeros(len(table.attributes))
        for slot, attribute in enumerate(table.attributes.tolist()):
            bounds = [s for s in reads.get(attribute, ()) if s < len(per_message)]
            rates[slot] = per_message[bounds].max(initial=0.0)
        assert table.index is not None
        table.index.expect(rates / max(len(self.contexts), 1))

    def _leave(self, table: Table, rows: Rows) -> None:
        """Rows that an index has put out are swept from now on."""
        self.state[rows] = EXPELLED
        table.n_inside -= len(rows)
        table.n_expelled += len(rows)
        self.n_outside += len(rows)
        rowwise.set_bits(rows, self.conjunctions.awake[rows] == 1, self.outside)

    def _wake(self, rows: Rows) -> None:
        """Evaluate context-only predicates of rows, and show the outcome to the indexes."""
        before = self.conjunctions.awake[rows].copy()
        view = self.conjunctions.view
        waiting, wanted = np.empty(len(rows), np.int32), rows
        while len(wanted):
            n = rowwise.evaluate_awake(
                wanted, *view, self.contexts.values, *self.texts.view, self.graphs, waiting
            )
            wanted = waiting[:n].copy()
            if n:
                self.texts.answer({})
        awake = self.conjunctions.awake[rows] == 1
        outside = (self.state[rows] == WAITING) | (self.state[rows] == EXPELLED)
        rowwise.set_bits(rows[outside], awake[outside], self.outside)
        flipped = (before != awake) & (self.state[rows] == INSIDE)
        if flipped.any():
            for number in np.unique(self.table[rows[flipped]]).tolist():
                mine = flipped & (self.table[rows] == number)
                index = self.tables[number].index
                assert index is not None
                index.set_awake(rows[mine], awake[mine])

    # messages --------------------------------------------------------------------------------

    def probe(self, message: NDArray[np.float64], raw: Any) -> Rows:
        """Rows that match a message, in a buffer that the next message uses again."""
        self.recent.n_messages += 1
        if self._fresh_updates or self._any_plan:
            self._weigh()
        self.texts.forget()
        rest = self.rest()
        n_found = 0
        many = len(self.tables) > FEW_TABLES
        for table in self.tables if self.strategy.indexed else ():
            if table.n_waiting or not table.n_probes % CARE_EVERY:
                self._maintain(table)
            if not table.n_inside or (many and table.excludes(message)):
                continue
            table.observe(message)
            out = self.out[n_found:] if n_found else self.out
            found, n_failed, n_waiting, begin, n = table.index.match(  # type: ignore[union-attr]
                message, rest, out, self.failed
            )
            self.n_candidates += n
            table.n_candidates += n
            self.n_postfiltered += len(out) - begin
            n_found += found
            if n_failed:
                self._learn(table, n_failed)
            if n_waiting:
                n_found, n_failed = self._postfilter(n_found, n_waiting, message, raw)
                rest = self.rest()
                if n_failed:
                    self._learn(table, n_failed)
        if self.n_posted:
            n_found = self._look_up(message, raw, n_found)
        if self.n_outside:
            n_found = self._sweep(message, raw, n_found)
        return self.out[:n_found]

    def _look_up(self, message: NDArray[np.float64], raw: Any, n_found: int) -> int:
        """Find the posted rows of a message; returns how many are found in all."""
        found = self.postings.match(message[None], _FIRST, self.rest())
        n = n_found + len(found.pairs)
        self.out[n_found:n] = found.pairs[:, 1]
        self.n_candidates += found.n_candidates
        failed = found.failed.copy()
        if len(found.waiting):
            self.failed[-len(found.waiting) :] = found.waiting[:, 1]
            n, _ = self._postfilter(n, len(found.waiting), message, raw)
        self.learn_posted(failed)
        return n

    def learn_posted(self, failed: Rows) -> None:
        """Post rows exactly that were named in vain, one in so many as the policy says."""
        every = self._interval()
        self.recent.false += len(failed)
        self.n_false += len(failed)
        if every and len(failed):
            rows, self._posted_countdown = _one_in(every, failed, self._posted_countdown)
            if len(rows):
                self.postings.deescalate(rows)
                self.deescalations += len(rows)

    def follow_graphs(self) -> None:
        """Graphs may have changed: so do lists, and the truth of predicates on contexts."""
        if self.postings.follow_graphs():
            live = self.conjunctions.live()
            reads = [any(code[0] == WITHIN for code in s.wakes) for s in self.conjunctions.shapes]
            rows = live[np.array(reads, np.bool_)[self.conjunctions.shape[live]]]
            if len(rows):
                self._wake(rows)

    # batches of messages ---------------------------------------------------------------------

    def begin_batch(self, messages: NDArray[np.float64]) -> None:
        """Count the messages of a batch, and bring the tables into the shape they want."""
        self.recent.n_messages += len(messages)
        if self._fresh_updates or self._any_plan:
            self._weigh(len(messages))
        self.texts.forget()
        for table in self.tables if self.strategy.indexed else ():
            self._maintain(table)
            if table.n_inside:
                table.observe_many(messages)

    def rows_inside(self, table: Table) -> Rows:
        """The rows that a table's index holds, awake or not."""
        inside = (self.table == table.number) & (self.state == INSIDE)
        return np.flatnonzero(inside).astype(np.int32)

    def test_pairs(
        self, pairs: NDArray[np.int32], messages: NDArray[np.float64], raw_of: Callable[[int], Any]
    ) -> NDArray[np.int32]:
        """The (message, row) pairs that match, of those that wait for a text of the message."""
        if not len(pairs):
            return pairs
        self.texts.clear_wanted()
        passed = [np.empty((0, 2), np.int32)]
        ordered = pairs[np.argsort(pairs[:, 0], kind="stable")]
        bounds = np.flatnonzero(np.diff(ordered[:, 0])) + 1
        for part in np.split(ordered, bounds):
            message = int(part[0, 0])
            self.texts.forget()
            self.failed[-len(part) :] = part[:, 1]
            n, _ = self._postfilter(0, len(part), messages[message], raw_of(message))
            found = np.full((n, 2), message, np.int32)
            found[:, 1] = self.out[:n]
            passed.append(found)
        self.texts.forget()
        return np.concatenate(passed)

    def learn_batch(
        self, table: Table | None, failed: Rows, n_tested: int, n_candidates: int
    ) -> None:
        """Learn from the rows that a batch found; without a table they were in no index."""
        self.n_candidates += n_candidates
        if n_tested:
            shapes = self.conjunctions.shapes
            sharpen(self.conjunctions.view[2], len(shapes), self.conjunctions.forms)
        if table is None:
            return
        table.n_candidates += n_candidates
        n = min(len(failed), len(self.failed))
        if n:
            self.failed[:n] = failed[:n]
            self._learn(table, n)

    def swept_batch(self, n_messages: int, took_ns: int) -> None:
        """A batch was matched with all rows outside: what that cost, and which to take back in."""
        swept = self.n_outside * n_messages
        self.n_swept += swept
        if swept >= SETTLED_SWEEP:
            self.sweep_ns += 0.05 * (min(took_ns / swept, 10.0 * SWEEP_NS) - self.sweep_ns)
        expelled = [t for t in self.tables if not t.balance.swept and t.n_expelled]
        every = self._interval() * SWEPT_PER_CANDIDATE if expelled else 0
        if every:
            self.recent.false += swept / SWEPT_PER_CANDIDATE
            due, self._swept_since = divmod(self._swept_since + swept, every)
            rows = np.flatnonzero(self.state == EXPELLED).astype(np.int32)
            due = min(due, len(rows))
            if due:
                self._readmit(rows[:: -(-len(rows) // due)])

    @property
    def _weighs(self) -> bool:
        """Whether the strategy chooses between index and sweep by what they cost."""
        return self.strategy.mode == ESCALATE and self.strategy.indexed

    def _weigh(self, n_messages: int = 1) -> None:
        """Change the plans of tables where that has come to pay."""
        self._fresh_updates = 0
        if not self._weighs:
            return
        for table in self.tables:
            balance = table.balance
            n_rows = table.n_expelled if balance.swept else table.n_inside
            if not n_rows or not table.context_slots:
                continue
            balance.n_messages += n_messages
            if not balance.is_due(table.build_ns):
                continue
            if not balance.swept:
                self._tell_rates(table)
            reads = self.intervals.reads()
            bounds = [reads.get(attribute, []) for attribute in table.attributes.tolist()]
            plan = table.better_plan(balance.rates(bounds), n_rows * self.sweep_ns)
            if plan is not None:
                self._adopt(table, plan)

    def _adopt(self, table: Table, plan: Plan) -> None:
        """Change over to a plan."""
        table.balance.change(plan)
        if plan.swept:
            rows = np.flatnonzero((self.table == table.number) & (self.state == INSIDE))
            rows = rows[np.array(self.assignment.bound_shape)[self.conjunctions.shape[rows]]]
            assert table.index is not None
            table.index.remove(rows.astype(np.int32))
            self._leave(table, rows.astype(np.int32))
        self.assignment.loosen(table)
        self._any_plan = any(other.balance.plan != Plan() for other in self.tables)
        self._watch()
        if not plan.swept:
            self._build(table)

    def _interval(self) -> int:
        """False positives per deescalation, by the policy; 0 for strategies that have none."""
        if self.strategy.mode != ESCALATE or not self.strategy.indexed:
            return 0
        self.recent.fade()
        return self.policy.interval(self.recent.total, self.recent.false)

    def _learn(self, table: Table, n_failed: int) -> None:
        """Count the false positives that escalated entries caused; deescalate if it is time."""
        every = self._interval()
        self.recent.false += n_failed
        self.n_false += n_failed
        if every:
            self._deescalate(table, self.failed[:n_failed], every)

    def rest(self) -> Rest:
        """What the postfilter reads besides the message; the same tuple while it holds."""
        view, values, texts = self.conjunctions.view, self.contexts.values, self.texts.view
        parts = self._parts
        if view is not parts[0] or values is not parts[1] or texts is not parts[2]:
            self._parts = (view, values, texts)
            self._rest = (*view, values, *texts, self.graphs)
        return self._rest

    _parts: tuple[Any, Any, Any] = (None, None, None)
    _rest: Rest

    def _postfilter(
        self, n_found: int, n_waiting: int, message: NDArray[np.float64], raw: Any
    ) -> tuple[int, int]:
        """Test the rows that wait at the end of ``failed``; (found in all, failed)."""
        failed: list[Rows] = []
        while n_waiting:
            self.texts.answer(raw)
            candidates = self.failed[-n_waiting:].copy()
            n_found, n_failed, n_waiting = rowwise.postfilter(
                candidates, n_found, message, *self.rest(), self.out, self.failed
            )
            failed.append(self.failed[:n_failed].copy())
        rows = np.concatenate(failed)
        self.failed[: len(rows)] = rows
        return n_found, len(rows)

    def _sweep(self, message: NDArray[np.float64], raw: Any, n_found: int) -> int:
        """Test the rows that no index holds; returns how many are found in all."""
        n_words = -(-self.conjunctions.n_rows // LANES)
        n_expelled = sum(t.n_expelled for t in self.tables if not t.balance.swept)
        every = self._interval() if n_expelled else 0
        if not self.recent.n_messages % SHARPEN_EVERY:
            shapes = self.conjunctions.shapes
            sharpen(self.conjunctions.view[2], len(shapes), self.conjunctions.forms)
        start = time.perf_counter_ns()
        passed, n_waiting, swept, n_sampled, self._sweep_countdown = sweep(
            self.outside[:n_words], *self.conjunctions.runs, message, *self.rest(), self._mask,
            every * SWEPT_PER_CANDIDATE, self._sweep_countdown,
            self.out[n_found:], self.failed, self._sample,
        )  # fmt: skip
        n_found += passed
        if swept >= SETTLED_SWEEP:
            took = (time.perf_counter_ns() - start) / swept
            self.sweep_ns += 0.05 * (min(took, 10.0 * SWEEP_NS) - self.sweep_ns)
        if n_expelled:
            self.recent.false += (swept - passed) / SWEPT_PER_CANDIDATE
        self.n_swept += swept
        self.n_candidates += swept
        if n_sampled:
            rows = np.unique(self._sample[:n_sampled])
            self._readmit(rows[self.state[rows] == EXPELLED])
        if n_waiting:
            self.failed[-n_waiting:] = self.failed[:n_waiting].copy()
            n_found, _ = self._postfilter(n_found, n_waiting, message, raw)
        return n_found

    # adaptation ------------------------------------------------------------------------------

    def _maintain(self, table: Table) -> None:
        """Settle waiting rows, and pack anew when that pays."""
        if table.balance.swept or self.postponed:
            return
        if table.n_waiting and table.wants_settling() and self._worth_indexing():
            self._settle(table)
        elif table.n_inside and table.wants_packing():
            self._build(table)

    def _worth_indexing(self) -> bool:
        return self.strategy.name != "auto" or self.conjunctions.n_live >= SMALL

    def _settle(self, table: Table) -> None:
        if not len(table.attributes):
            return
        if table.wants_build():
            self._build(table)
            return
        rows = np.flatnonzero((self.table == table.number) & (self.state == WAITING)).astype(
            np.int32
        )
        self._insert(table, rows)
        table.n_waiting -= len(rows)

    def _build(self, table: Table) -> None:
        rows = np.flatnonzero((self.table == table.number) & (self.state != FREE)).astype(np.int32)
        if self.intervals.scopes is not None:
            self.intervals.scopes.choose(table.number, *self.intervals.exact(table, rows))
        lows, highs = self.intervals.held(table, rows)
        table.build(
            rows, lows, highs, self.assignment.whole(rows), self.conjunctions.awake[rows] == 1
        )
        self.state[rows] = INSIDE
        table.n_inside, table.n_waiting, table.n_expelled = len(rows), 0, 0
        self._enter(rows)

    def _insert(self, table: Table, rows: Rows) -> None:
        assert table.index is not None
        lows, highs = self.intervals.held(table, rows)
        awake = self.conjunctions.awake[rows] == 1
        table.index.insert(rows, lows, highs, self.assignment.whole(rows), awake)
        self.state[rows] = INSIDE
        table.n_inside += len(rows)
        self._enter(rows)

    def _enter(self, rows: Rows) -> None:
        """Rows are in an index now: not swept, and any change of their contexts matters."""
        rowwise.set_bits(rows, np.zeros(len(rows), np.bool_), self.outside)
        self.n_outside = int((self.state == WAITING).sum() + (self.state == EXPELLED).sum())
        kernels.shut_guards(rows, *self.conjunctions.view, self.contexts.guards)

    def _deescalate(self, table: Table, failed: Rows, every: int) -> None:
        """AGILE Fig. 8, lines 5-7: one false positive in ``every`` has its row made exact."""
        rows, self._countdown = _one_in(every, failed, self._countdown)
        if not len(rows):
            return
        assert table.index is not None
        lows, highs = self.intervals.held(table, rows)
        table.index.deescalate(rows, lows, highs, self.assignment.whole(rows))
        self.deescalations += len(rows)
        kernels.shut_guards(rows, *self.conjunctions.view, self.contexts.guards)

    def _readmit(self, rows: Rows) -> None:
        """Take expelled rows back into their indexes."""
        for number in np.unique(self.table[rows]).tolist():
            table = self.tables[number]
            mine = rows[self.table[rows] == number]
            if table.balance.swept:
                continue
            self._insert(table, mine)
            table.n_expelled -= len(mine)
            self.deescalations += len(mine)

    def rebuild(self) -> None:
        """Make every index anew: the keys of strings have changed."""
        for table in self.tables:
            table.n_points = 0
        self._rebuild_inside()

    def _rebuild_inside(self) -> None:
        for table in self.tables:
            if table.index is not None and table.n_inside:
                self._build(table)

    @property
    def nbytes(self) -> int:
        """Bytes of arrays, indexes included."""
        own = (self.state, self.table, self.outside, self.out, self.failed)
        indexes = sum(t.index.nbytes + t.points.nbytes for t in self.tables if t.index is not None)
        return sum(array.nbytes for array in own) + indexes + self.postings.nbytes

    def _check(self) -> None:
        live = self.conjunctions.live()
        assert (self.state[live] != FREE).all()
        assert int((self.state != FREE).sum()) == len(live)
        assert self.n_posted == int((self.state[live] == POSTED).sum())
        self.postings._check()
        outside = live[(self.state[live] != INSIDE) & (self.state[live] != POSTED)]
        assert len(outside) == self.n_outside
        expected = np.zeros_like(self.outside)
        rowwise.set_bits(outside, self.conjunctions.awake[outside] == 1, expected)
        assert (expected == self.outside).all()
        for table in self.tables:
            mine = live[self.table[live] == table.number]
            assert table.n_waiting == int((self.state[mine] == WAITING).sum())
            assert table.n_expelled == int((self.state[mine] == EXPELLED).sum())
            inside = mine[self.state[mine] == INSIDE]
            assert table.n_inside == len(inside)
            if table.index is not None and len(inside):
                table.index._check(inside, *self.intervals.held(table, inside))


def _one_in(every: int, failed: Rows, countdown: int) -> tuple[Rows, int]:
    """One false positive in so many, each row once; how many to let pass next time."""
    first = min(countdown, every - 1)
    if first >= len(failed):
        return failed[:0], first - len(failed)
    return np.unique(failed[first::every]), every - 1 - (len(failed) - 1 - first) % every
