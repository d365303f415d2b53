"""The index of category predicates: rows by the nodes that they name, in every graph they use.

In: rows whose conjunctions have `attribute WITHIN nodes` or `attribute CONTAINS nodes`, nodes that
stand in the condition or in the context. Out: candidates of messages, tested, as (message, row)
pairs. Rows with the same predicates (attributes and sides) are one group, and each group decides
for each message which graph to start from: the one that names the fewest rows (paper Notification,
section 3.3, with the choice it left open). Kernels: ``kernels.postings``.

A context's row is posted where the context is. When it moves, it is posted at the nearest node that
covers both places (AGILE's escalation: from then on, moves below that node cost nothing); when that
has named it in vain often enough, it is posted exactly again. Under CONTAINS that takes a forest,
where what is above a place is above or below whatever else covers it; elsewhere each move posts it
exactly.

Invariants: at all times each live row is posted, under each form of its group, at nodes that cover
what it names now, if that is not NULL. Lists may name rows that are not there any more.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.category.covers import Cover, covers_of
from germane.category.lists import FIRST_ROOM, NO_SIEVE, Form, Group, Lists, Sketches, on_lines
from germane.category.searches import WAYS, Searches
from germane.category.sets import Categories
from germane.context import Contexts
from germane.index.conjunctions import Conjunctions, longer
from germane.index.rowindex import Rest, Rows
from germane.kernels import entries, lookups, postings
from germane.kernels.entries import (
    ANYTHING,
    FROM_CONTEXT,
    MANY,
    NOWHERE,
    OVER,
    PER_ROW,
    STEP,
    UNDER,
)
from germane.kernels.verifications import (
    N_CANDIDATES,
    N_FAILED,
    N_OUT,
    N_STATE,
    N_WAITING,
    SPAN,
)

SIDES = ("under", "over")
ADAPTIVE = -1
STALE = 1024
"""Entries that may be left behind before the lists are built anew, besides half of all."""
BATCH, GROWN = 64, 8
"""A batch of so many messages lays lists anew that have grown by one in so many rows."""
READS = 4
"""Messages a row after which lists are laid anew; a row takes about what slices save a message."""
NO_GROUP = -1


class Found(NamedTuple):
    """What messages found."""

    pairs: NDArray[np.int32]  # (message, row)
    waiting: NDArray[np.int32]  # pairs that wait for a text
    failed: Rows  # rows that are posted too wide
    n_candidates: int


class Postings:
    """All groups, in step with contexts and graphs."""

    def __init__(
        self,
        conjunctions: Conjunctions,
        contexts: Contexts,
        categories: Categories,
        escalates: bool,
    ) -> None:
        self.conjunctions = conjunctions
        self.contexts = contexts
        self.categories = categories
        self.escalates = escalates
        self.plan: str | None = None
        """For experiments: "under" or "over" is tried first in every group, not the cheapest."""
        self.matcher = "closure"
        """For experiments: "search" or "lists", the paper's other two (``category.searches``)."""
        self.groups: list[Group] = []
        self.group_of_shape: NDArray[np.int32] = np.zeros(0, np.int32)
        self.escalations = 0
        self.moves = 0
        self._versions = [graph.version for graph in categories.graphs]
        self._by_forms: dict[tuple[tuple[int, int, int], ...], int] = {}
        self._state = np.zeros(N_STATE, np.int64)
        self._seen: NDArray[np.uint64] = np.zeros(0, np.uint64)  # rows, as bits; clear at rest
        self._candidates: Rows = np.zeros(FIRST_ROOM, np.int32)
        self._spans: NDArray[Any] = np.zeros(FIRST_ROOM, SPAN)
        self._moved: NDArray[np.int32] = np.zeros((2, 0), np.int32)
        self._path: Rows = np.zeros(0, np.int32)
        self._pairs: NDArray[np.int32] = np.zeros((FIRST_ROOM, 2), np.int32)
        self._waiting: NDArray[np.int32] = np.zeros((FIRST_ROOM, 2), np.int32)
        self._failed: Rows = np.zeros(FIRST_ROOM, np.int32)

    # shapes and rows -------------------------------------------------------------------------

    def assign(self, shape: int) -> bool:
        """Whether rows of the next shape are looked up by categories."""
        program = self.conjunctions.shapes[shape].program
        covers, pure = covers_of(program)
        group = NO_GROUP
        if covers:
            by_form: dict[tuple[int, int, int], Cover] = {}
            for cover in covers:
                by_form.setdefault(cover.form, cover)
            forms = tuple(sorted(by_form))
            known = self._by_forms.get(forms)
            group = self._new_group(forms) if known is None else known
            about = self.conjunctions.shapes[shape]
            whole = pure and len(covers) == len(forms) and not about.forms
            self._describe(self.groups[group], shape, [by_form[f] for f in forms], whole)
        self.group_of_shape = np.append(self.group_of_shape, np.int32(group))
        return bool(covers)

    def _new_group(self, forms: tuple[tuple[int, int, int], ...]) -> int:
        number = self._by_forms[forms] = len(self.groups)
        self.groups.append(Group(number, forms))
        for form in self.groups[-1].forms:
            form.empty(len(self.categories.graphs[form.graph]))
        return number

    def _describe(self, group: Group, shape: int, covers: list[Cover], pure: bool) -> None:
        """Note where rows of a shape have their nodes."""
        if shape >= len(group.pure):
            room = shape + 1 + shape // 2
            group.source_kind = longer(group.source_kind, room)
            group.source_at = longer(group.source_at, room)
            group.pure = longer(group.pure, room)
        for j, cover in enumerate(covers):
            group.source_kind[shape, j] = cover.source_kind
            group.source_at[shape, j] = cover.source_at
            form = group.forms[j]
            if cover.source_kind == FROM_CONTEXT:
                form.context_slots.add(cover.source_at)
            else:
                form.from_constants = True
            group.about[j, lookups.SOURCE] = form.source
        group.pure[shape] = pure
        group.all_pure &= pure
        group.sleeps |= bool(self.conjunctions.shapes[shape].wakes)

    @property
    def context_slots(self) -> set[int]:
        """The context slots that rows are posted by."""
        return {slot for g in self.groups for form in g.forms for slot in form.context_slots}

    def add(self, rows: Rows) -> None:
        """Post new rows."""
        self._reserve()
        of_row = self.group_of_shape[self.conjunctions.shape[rows]]
        for group in self.groups:
            mine = rows[of_row == group.number]
            if len(mine):
                group.searches = None
                group.n_rows += len(mine)
                sieves = [form.sieved_by for form in group.forms]
                if 2 * len(mine) > group.n_rows or sieves != group.sieves():
                    self._build(group)
                else:
                    self._post(group, mine)
                    group.n_added += len(mine)
                    self._tidy(group)

    def remove(self, rows: Rows) -> None:
        """Rows go; what the lists have of them is swept up later."""
        of_row = self.group_of_shape[self.conjunctions.shape[rows]]
        for group in self.groups:
            n = int((of_row == group.number).sum())
            if n:
                group.searches = None
            group.n_rows -= n
            group.n_stale += n

    def _reserve(self) -> None:
        n = len(self.conjunctions.rows)
        if self._moved.shape[1] <= n:
            self._seen = np.zeros(n // 64 + 1, np.uint64)
            self._moved = np.empty((2, n + 1), np.int32)  # rows, and where they go
        for group in self.groups:
            if group.home.shape[1] < n:
                n_forms, known = group.home.shape
                home, wide = np.full((n_forms, n), NOWHERE, np.int32), np.zeros((n_forms, n), bool)
                home[:, :known], wide[:, :known] = group.home, group.wide
                group.home, group.wide = home, wide
        for form in (form for group in self.groups for form in group.forms):
            if form.from_constants and len(form.named) < n * PER_ROW:
                form.named = on_lines(form.named, n * PER_ROW)
        n_nodes = max((len(graph) for graph in self.categories.graphs), default=0)
        if len(self._path) < n_nodes + 1:
            self._path = np.empty(n_nodes + 1, np.int32)

    def _rows_of(self, group: Group) -> Rows:
        live = self.conjunctions.live()
        mine: Rows = live[self.group_of_shape[self.conjunctions.shape[live]] == group.number]
        return mine

    def _build(self, group: Group) -> None:
        """Post all rows of a group anew; those that were posted wider stay so."""
        rows = self._rows_of(group)
        home, was_wide = group.home.copy(), group.wide.copy()
        placed = [self._placed(group, j, rows) for j in range(len(group.forms))]
        for j, (form, sieve) in enumerate(zip(group.forms, group.sieves(), strict=True)):
            form.sieved_by = group.about[j, lookups.SIEVED_BY] = sieve
            form.empty(len(self.categories.graphs[form.graph]))
            form.sketched = True
            whose, nodes = placed[j]
            wide = was_wide[j, whose] & (home[j, whose] >= 0) & (group.home[j, whose] >= 0)
            graph = self.categories.graphs[form.graph]
            wide &= form.side == UNDER or graph.is_forest  # it may have been one before
            wide[wide] = graph._covers(home[j, whose[wide]], nodes[wide])
            nodes[wide] = home[j, whose[wide]]
            group.home[j, whose[wide]], group.wide[j, whose[wide]] = nodes[wide], True
            apart = wide if form.side == OVER else np.zeros_like(wide)
            sketches = self._sketches(group, j, whose)
            form.exact.lay(whose[~apart], sketches[~apart], nodes[~apart], graph.view)
            form.wide.lay(whose[apart], sketches[apart], nodes[apart], graph.view)
            form.in_forest = graph.is_forest
            self._count(form, nodes)
        group.n_stale = group.n_added = group.n_read = 0
        group.builds += 1
        group.point()

    def _post(self, group: Group, rows: Rows) -> None:
        """Post rows exactly, under all forms."""
        placed = [self._placed(group, j, rows) for j in range(len(group.forms))]
        for j, (whose, nodes) in enumerate(placed):
            self._enter(group, j, whose, nodes)

    def _tidy(self, group: Group) -> None:
        """Lists have grown: build them anew if much was left behind, and show them to kernels."""
        if group.n_stale > STALE + sum(form.n_entries for form in group.forms) // 2:
            self._build(group)
        group.point()

    def _post_form(self, group: Group, j: int, rows: Rows) -> None:
        self._enter(group, j, *self._placed(group, j, rows))

    def _enter(
        self, group: Group, j: int, whose: Rows, nodes: Rows, lists: Lists | None = None
    ) -> None:
        """Append rows to the lists of a form, the exact ones unless others are given."""
        form = group.forms[j]
        (lists or form.exact).post(whose, self._sketches(group, j, whose), nodes)
        self._count(form, nodes)

    def _sketches(self, group: Group, j: int, rows: Rows) -> Sketches:
        """What the sieve of a form wants of rows."""
        by = group.forms[j].sieved_by
        sketches = np.empty((len(rows), 0 if by == NO_SIEVE else STEP - 1), np.int32)
        if by != NO_SIEVE:
            entries.sketch(
                rows, by, self.conjunctions.rows, group.source_kind, group.forms[by].named, sketches
            )
            group.forms[j].sketched &= not (sketches == ANYTHING).any()
        return sketches

    def _named(self, group: Group, j: int, rows: Rows) -> tuple[NDArray[np.float64], Rows, Rows]:
        """The keys of rows under a form, and (row, node) of all their nodes."""
        keys = np.empty(len(rows))
        view = self.conjunctions.view
        entries.keys_of(
            rows, j, group.source_kind, group.source_at, view.rows, view.owner, view.pool,
            self.contexts.values, keys,
        )  # fmt: skip
        graph = group.forms[j].graph
        self.categories.refresh()
        nodes, whose = np.empty(len(rows), np.int32), np.empty(len(rows), np.int32)
        while True:
            n = entries.flatten(keys, rows, graph, self.categories.places, nodes, whose)
            if n <= len(nodes):
                break
            nodes, whose = np.empty(n, np.int32), np.empty(n, np.int32)
        return keys, whose[:n], nodes[:n]

    def _placed(self, group: Group, j: int, rows: Rows) -> tuple[Rows, Rows]:
        """(row, node) of rows under a form; ``home`` is noted."""
        keys, whose, nodes = self._named(group, j, rows)
        form = group.forms[j]
        if form.from_constants:
            entries.name(rows, keys, form.graph, self.categories.places, form.named)
        group.home[j, rows] = NOWHERE
        group.home[j, whose] = nodes
        several = whose[1:][whose[1:] == whose[:-1]]
        group.home[j, several] = MANY
        group.wide[j, rows] = False
        return whose, nodes

    def _count(self, form: Form, nodes: Rows) -> None:
        form.n_entries += len(nodes)
        if form.side == OVER:
            view = self.categories.graphs[form.graph].view
            entries.count_posted(nodes, view.above_at, view.above_n, view.above, form.posted)

    # contexts and graphs ---------------------------------------------------------------------

    def follow(self, contexts: Rows, slot: int) -> None:
        """Contexts have another value in a slot."""
        for group in self.groups:
            for j, form in enumerate(group.forms):
                if slot in form.context_slots and group.n_rows:
                    self._follow(group, j, contexts, slot)

    def _follow(self, group: Group, j: int, contexts: Rows, slot: int) -> None:
        form, store = group.forms[j], self.contexts
        group.searches = None
        moved, target = self._moved
        n, n_null = entries.follow(
            contexts, slot, j, form.graph, self.escalates, store.head, self.conjunctions.rows,
            store.values, self.group_of_shape, group.number, group.source_kind, group.source_at,
            self.categories.places, form.side, group.home[j], group.wide[j], moved, target,
        )  # fmt: skip
        group.n_stale += n_null
        if not n:
            return
        moved, target = moved[:n], target[:n]
        wider = target != NOWHERE
        if wider.any():
            rows, nodes = moved[wider], target[wider]
            self._enter(group, j, rows, nodes, form.wide if form.side == OVER else form.exact)
            self.escalations += len(rows)
        if not wider.all():
            self._post_form(group, j, moved[~wider])
            self.moves += int((~wider).sum())
        group.n_stale += n
        self._tidy(group)

    def deescalate(self, rows: Rows) -> None:
        """Post rows exactly again, where the context is now."""
        of_row = self.group_of_shape[self.conjunctions.shape[rows]]
        for group in self.groups:
            mine = rows[of_row == group.number]
            if len(mine):
                for j, form in enumerate(group.forms):
                    if form.context_slots:
                        self._post_form(group, j, mine)
                group.n_stale += len(mine)
                self._tidy(group)

    def follow_graphs(self) -> bool:
        """Build groups anew whose graphs have changed; whether any has."""
        versions = [graph.version for graph in self.categories.graphs]
        changed = {i for i, v in enumerate(versions) if v != self._versions[i]}
        if not changed:
            return False
        self._versions = versions
        self.categories.refresh()
        self._reserve()
        for group in self.groups:
            if any(form.graph in changed for form in group.forms):
                group.searches = None
                self._build(group)
        return True

    # messages --------------------------------------------------------------------------------

    def match(self, vectors: NDArray[np.float64], members: NDArray[np.int32], rest: Rest) -> Found:
        """The pairs of some messages; what waits for texts and what was found in vain, too."""
        state = self._state
        state[N_OUT] = state[N_FAILED] = 0
        state[N_WAITING] = state[N_CANDIDATES] = 0
        for group in self.groups:
            if group.n_rows:
                order = members
                if len(members) > 1:
                    first = vectors[members, group.forms[0].attribute]
                    order = members[np.argsort(first, kind="stable")]
                self._settle(group, len(members))
                self._match_group(group, vectors, order, rest)
        n_out, n_waiting = int(state[N_OUT]), int(state[N_WAITING])
        return Found(
            self._pairs[:n_out], self._waiting[:n_waiting],
            self._failed[: int(state[N_FAILED])], int(state[N_CANDIDATES]),
        )  # fmt: skip

    def _settle(self, group: Group, n_messages: int) -> None:
        """Lay lists anew that have grown by much, or that many messages have read as they are."""
        if group.settled:
            return
        group.n_read += n_messages
        grown = n_messages >= BATCH and group.n_added * GROWN > group.n_rows
        if grown or group.n_read > READS * (group.n_rows + STALE):
            self._build(group)

    def _match_group(
        self, group: Group, vectors: NDArray[np.float64], order: Rows, rest: Rest
    ) -> None:
        plan = ADAPTIVE
        if self.plan is not None:
            sides = [form.side for form in group.forms]
            wanted = SIDES.index(self.plan)
            plan = sides.index(wanted) if wanted in sides else 0
        certain, proven = group.certain(), group.proven()
        done = 0
        while True:
            if self.matcher == "closure":
                done = postings.match_postings(
                    order, done, vectors, group.about, group.lists, self.group_of_shape,
                    group.number, group.source_kind, group.source_at, group.pure, certain,
                    proven, group.n_stale == 0 and not group.sleeps, group.all_pure, plan,
                    self._seen, self._candidates, self._spans, self._path, rest, self._pairs,
                    self._failed, self._waiting, self._state, group.chosen,
                )  # fmt: skip
            else:
                done = self.searches_of(group).match(
                    order, done, vectors, plan, group.pure, self._seen, self._candidates, rest,
                    self._pairs, self._waiting, self._state,
                )  # fmt: skip
            if done == len(order):
                return
            room = 2 * len(self._pairs)
            self._pairs = longer(self._pairs, room)
            self._waiting = longer(self._waiting, room)
            # No message has more candidates than there is room for pairs.
            self._candidates = np.empty(len(self._pairs), np.int32)
            self._spans = np.empty(len(self._pairs), SPAN)

    def searches_of(self, group: Group) -> Searches:
        """The paper's other matcher for a group, up to date."""
        if group.searches is None or group.searches.way != WAYS[self.matcher]:
            rows = self._rows_of(group)
            group.searches = Searches(
                self.matcher,
                group.about,
                [self.categories.graphs[form.graph] for form in group.forms],
                [self._named(group, j, rows)[1:] for j in range(len(group.forms))],
                len(self.conjunctions.rows),
            )
        return group.searches

    # for people ------------------------------------------------------------------------------

    def describe(self, names: list[str]) -> list[dict[str, Any]]:
        """What a person would want to know of each group."""
        return [
            {
                "rows": group.n_rows,
                "forms": [
                    f"{names[form.attribute]} {('WITHIN', 'CONTAINS')[form.side]}"
                    for form in group.forms
                ],
                "entries": [form.n_entries for form in group.forms],
                "chosen": group.chosen.tolist(),
                "builds": group.builds,
            }
            for group in self.groups
        ]

    @property
    def nbytes(self) -> int:
        """Bytes of arrays."""
        own = (self._seen, self._candidates, self._path, self._pairs, self._waiting)
        groups = sum(
            group.home.nbytes + sum(form.nbytes for form in group.forms) for group in self.groups
        )
        return sum(array.nbytes for array in own) + groups

    def _check(self) -> None:
        """Each live row is posted at nodes that cover its own."""
        for group in self.groups:
            rows = self._rows_of(group)
            assert len(rows) == group.n_rows
            sieves = group.about[:, lookups.SIEVED_BY].tolist()
            for j, form in enumerate(group.forms):
                graph = self.categories.graphs[form.graph]
                home, wide = group.home[j].copy(), group.wide[j].copy()
                whose, nodes = self._placed(group, j, rows)
                group.home[j], group.wide[j] = home, wide
                step = 1 if form.sieved_by == NO_SIEVE else STEP
                lists = form.exact.as_sets(step), form.wide.as_sets(step)
                sketches = self._sketches(group, j, whose).tolist()
                named = zip(whose.tolist(), nodes.tolist(), sketches, strict=True)
                for row, node, sketch in named:
                    at = home[row]
                    if at == MANY:
                        assert (row, *sketch) in lists[0][node]
                        continue
                    assert at >= 0
                    pair = np.array([at], np.int32), np.array([node], np.int32)
                    assert graph._covers(*pair)[0]
                    assert form.side == UNDER or at == node or (wide[row] and graph.is_forest)
                    apart = int(form.side == OVER and wide[row])
                    assert (row, *sketch) in lists[apart].get(int(at), ())
                if group.about[j, lookups.SLICED]:
                    for kept in (form.exact, form.wide):
                        enter, leave = graph.view.enter, graph.view.leave
                        passed = np.cumsum(np.bincount(enter, kept.count, len(enter) + 1))
                        known = form.posted > 0
                        assert (kept.until == passed[leave - 1])[known].all()
                        assert (kept.at + kept.count == passed[enter])[known].all()
                assert not form.sieve[:-1].any()
                assert not form.marks[:-1].any()
            assert [form.sieved_by for form in group.forms] == sieves
