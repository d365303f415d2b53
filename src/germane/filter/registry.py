"""Profiles: their texts in, their rows in the engine out.

A batch is registered condition by condition: one that does not parse or type is refused and
leaves nothing behind, the rest of the batch is registered. Compiled rows are added shape by
shape, in columns.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from germane.approx.transformations import NONE, Transformations
from germane.category.covers import Named, nodes_named
from germane.category.sets import Categories
from germane.context import Contexts, Ids, Strings, as_id
from germane.context.ids import Rows
from germane.filter.compile import Names, compile_row
from germane.filter.documents import DocumentPatterns
from germane.filter.messages import Messages
from germane.filter.tables import Tables
from germane.filter.templates import (
    MAX_TEMPLATES,
    NODE,
    Compiled,
    Key,
    Nodes,
    Source,
    Template,
    cut,
    learn,
    shared,
)
from germane.filter.texts import Texts
from germane.index.conjunctions import Conjunctions, Shape, longer
from germane.kernels import contexts as kernels
from germane.language import GERMANE, as_dialect, compile_condition
from germane.model import (
    DuplicateProfile,
    GermaneError,
    InvalidValue,
    Schema,
    UnknownNode,
    UnknownProfile,
)
from germane.model.errors import BatchError

CHUNK = 4096
"""Profiles registered at a time: what they parse to is garbage soon, not a growing heap."""
MANY_SHAPES = 128
"""From here on more at a time: what a chunk costs goes with the shapes in it."""
MAX_TEXTS = 1024
"""Texts whose rows are remembered: subscribers often share one, each with their own context."""


class ProfileIds(Ids):
    """The profiles' ids, and whose they are."""

    def __init__(self, registry: "Registry") -> None:
        super().__init__("profile")
        self._registry = registry
        self._owners: NDArray[np.int32] | None = None  # of each row, once they are kept apart

    def _as_it_is(self) -> "ProfileIds":
        frozen = super()._as_it_is()
        assert isinstance(frozen, ProfileIds)
        frozen._owners = self.owners_of(np.arange(self.n_rows, dtype=np.int32))
        return frozen

    def owners_of(self, rows: Rows) -> NDArray[np.int32]:
        """The contexts' rows of profiles that have a conjunction; -1 for none."""
        if self._owners is not None:
            return self._owners[rows]
        first = self._registry.head[rows]
        return np.where(first >= 0, self._registry.conjunctions.owner[first], -1).astype(np.int32)

    @property
    def has_contexts(self) -> bool:
        """Whether any profile may have a context."""
        return bool(len(self._registry.contexts.ids))

    def contexts_of(self, rows: Rows) -> Any:
        """The contexts' ids of profiles that were matched, as an Arrow array; null for none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        ids = self._registry.contexts.ids
        if not self.has_contexts:
            return pa.nulls(len(rows))
        owners = self.owners_of(rows)
        named = ids.column(np.maximum(owners, 0))
        return named if (owners >= 0).all() else pc.if_else(pa.array(owners >= 0), named, None)


class Registry:
    """Which profiles there are, and their rows."""

    def __init__(
        self,
        schema: Schema,
        strings: Strings,
        messages: Messages,
        contexts: Contexts,
        conjunctions: Conjunctions,
        texts: Texts,
        categories: Categories,
        documents: DocumentPatterns,
        tables: Tables,
        follow_strings: Callable[[], None],
    ) -> None:
        self.ids = ProfileIds(self)
        self.head: NDArray[np.int32] = np.full(16, -1, np.int32)  # profile row -> first row
        self.schema = schema
        self.strings = strings
        self.contexts = contexts
        self.conjunctions = conjunctions
        self.tables = tables
        self._follow_strings = follow_strings
        self._templates: dict[Key, Template] = {}
        self._compiled: dict[tuple[str, str], tuple[Compiled, str]] = {}
        """Dialect and text -> rows, and a context name they read."""
        self._epoch = strings.epoch  # of the labels in them
        self._versions: list[int] | None = None  # of the graphs in them
        self.categories = categories
        self.documents = documents
        type_of = schema.type_of
        self._names = Names(
            message=lambda name: messages.slots_of(name, type_of(name)),
            cast=messages.slot_of_cast,
            context=lambda name: contexts.slots_of(name, type_of(name)),
            type_of=type_of,
            label=strings.add,
            category=categories.constant,
            graph=categories.graph_of,
            pattern=documents.key,
            texts=texts,
        )

    def add(
        self,
        ids: Sequence[Any],
        conditions: Sequence[Any],
        contexts: Sequence[Any],
        dialects: Sequence[Any],
        kept: Sequence[bool] | None = None,
    ) -> None:
        """Register profiles; raises ``BatchError`` (or, for one, its error) after the others.

        What is not ``kept`` is judged like the rest, and fixes types and makes its context known,
        but is no profile of this filter: it lives in another, which judges the same.
        """
        errors: list[tuple[int, Any, GermaneError]] = []
        if len(ids) > CHUNK:
            self.conjunctions.reserve(len(ids))
        start = 0
        while start < len(ids):
            size = CHUNK if len(self.conjunctions.shapes) <= MANY_SHAPES else 4 * CHUNK
            part = slice(start, start + size)
            texts = list(zip(dialects[part], conditions[part], strict=True))
            mine = None if kept is None else kept[part]
            self._add_chunk(start, ids[part], texts, contexts[part], mine, errors)
            start += size
        if errors:
            raise errors[0][2] if len(ids) == 1 else BatchError(errors, len(ids) - len(errors))

    def _add_chunk(
        self,
        start: int,
        ids: Sequence[Any],
        texts: list[tuple[Any, Any]],
        contexts: Sequence[Any],
        kept: Sequence[bool] | None,
        errors: list[tuple[int, Any, GermaneError]],
    ) -> None:
        accepted: list[int] = []
        compiled: list[Compiled] = []
        names: list[Any] = []
        owners: list[Any] = []
        seen: set[Any] = set()
        epoch = self.strings.epoch
        for i, (profile_id, text, context) in enumerate(
            zip(_listed(ids), texts, _listed(contexts), strict=True)
        ):
            try:
                name, owner = self._admit(profile_id, context, seen)
                compiled.append(self._compile(name, text, owner))
                accepted.append(i)
                names.append(name)
                owners.append(owner)
                seen.add(name)
            except GermaneError as error:
                errors.append((start + i, profile_id, error))
        if self.strings.epoch != epoch:
            # Strings were numbered anew on the way: all of them are known now, so once more.
            self._follow_strings()
            compiled = [
                self._compile(name, texts[i], owner)
                for name, i, owner in zip(names, accepted, owners, strict=True)
            ]
        context_rows = self._context_rows(owners)
        if kept is not None:
            mine = [k for k, i in enumerate(accepted) if kept[i]]
            accepted, names = [accepted[k] for k in mine], [names[k] for k in mine]
            compiled = [compiled[k] for k in mine]
            context_rows = context_rows[mine]
        if accepted:
            self.tables.follow_graphs()  # patterns may have come
            profile_rows = self.ids.add_many(names)
            self.head = longer(self.head, self.ids.n_rows, -1)
            self.head[profile_rows] = -1
            rows = self._add_rows(compiled, profile_rows, context_rows)
            if len(rows):
                kernels.link(rows, self.contexts.head, *self.conjunctions.view[:2])
                self.tables.add(rows)
                if self.categories.patterns.used:
                    self.documents.hold(self._patterns(rows).keys)

    def _admit(self, profile_id: Any, context: Any, seen: set[Any]) -> tuple[Any, Any]:
        """The ids of a new profile and of its context, checked."""
        profile_id = as_id(profile_id, "a profile's id")
        if profile_id in seen or profile_id in self.ids:
            raise DuplicateProfile(
                f"profile {profile_id!r} is already subscribed; unsubscribe it first"
            )
        if context is not None:
            context = as_id(context, "the id of a profile's context")
        return profile_id, context

    def _compile(self, profile_id: Any, given: tuple[Any, Any], context: Any) -> Compiled:
        """The rows of a condition: those of the same text, of its template, or from scratch."""
        dialect, text = as_dialect(given[0]), given[1]
        versions = self.categories.versions if self.categories else None
        if (
            self._epoch != self.strings.epoch
            or len(self._compiled) >= MAX_TEXTS
            or versions != self._versions
        ):
            self._compiled.clear()
            self._epoch = self.strings.epoch
            self._versions = versions
        if self.documents.own != NONE:  # what was compiled before is for everybody
            return self._compile_anew(profile_id, dialect, text, context)[0]
        same = self._compiled.get((dialect, text)) if isinstance(text, str) else None
        if same is not None:
            self._require_context(profile_id, context, same[1])
            return same[0]
        rows, reads = self._compile_anew(profile_id, dialect, text, context)
        if self._epoch == self.strings.epoch:
            self._compiled[dialect, text] = rows, reads
        return rows

    def _compile_anew(
        self, profile_id: Any, dialect: str, text: Any, context: Any
    ) -> tuple[Compiled, str]:
        found = cut(text) if isinstance(text, str) and dialect == GERMANE else None
        template = self._templates.get(found[0]) if found is not None else None
        if template is not None:
            assert found is not None
            self._require_context(profile_id, context, template.reads_context)
            with suppress(UnknownNode):  # the language says where
                return self._fill(template, found[1]), template.reads_context
        draft = self.schema.draft(f"profile {profile_id!r}")
        condition = compile_condition(text, draft, dialect=dialect)
        reads = min(condition.context_names, default="")
        self._require_context(profile_id, context, reads)
        draft.commit()
        conjunctions = condition.conjunctions
        if conjunctions is None:
            conjunctions = ((condition.nnf,),)
        rows = [compile_row(literals, self._names) for literals in conjunctions]
        if found is not None and len(self._templates) < MAX_TEMPLATES:
            rows = [(self.conjunctions.share(shape), a, b) for shape, a, b in rows]
            learnt = learn(text, found[0], rows, reads)
            if learnt is not None:
                self._templates[shared(found[0])] = learnt
        return rows, reads

    def check(self, text: Any, context: Any, dialect: Any) -> None:
        """Raise what is wrong with a condition; nothing is registered, no type is fixed."""
        dialect = as_dialect(dialect)
        found = cut(text) if isinstance(text, str) and dialect == GERMANE else None
        template = self._templates.get(found[0]) if found is not None else None
        if template is not None and NODE not in template.kinds:
            self._require_context("", context, template.reads_context)
            return
        draft = self.schema.draft("this condition")
        condition = compile_condition(text, draft, dialect=dialect)
        self._require_context("", context, min(condition.context_names, default=""))

    def _require_context(self, profile_id: Any, context: Any, reads: str) -> None:
        if context is None and reads:
            raise InvalidValue(
                f"profile {profile_id!r} reads context.{reads} but has no context; "
                "pass context=… or use constants only"
            )

    def _fill(self, template: Template, literals: list[str]) -> Compiled:
        """A template's rows with a text's literals."""
        if NODE in template.kinds:
            return self._fill_nodes(template, literals)
        add = self.strings.add
        values = [
            add(literal[1:-1].replace("''", "'")) if kind else float(literal)
            for literal, kind in zip(literals, template.kinds, strict=True)
        ]
        rows: Compiled = []
        for shape, sources in template.rows:
            plain = cast(list[Source], sources)
            constants = [
                sign * values[literal] if literal >= 0 else constant
                for literal, sign, constant in plain
            ]
            rows.append((shape, constants, []))
        return rows

    def _fill_nodes(self, template: Template, literals: list[str]) -> Compiled:
        """As ``_fill``, where some literals are nodes of graphs."""
        values: list[Any] = []
        for literal, kind in zip(literals, template.kinds, strict=True):
            text = literal[1:-1].replace("''", "'") if literal[0] == "'" else literal
            values.append(
                text if kind == NODE else self.strings.add(text) if kind else float(literal)
            )
        rows: Compiled = []
        for shape, sources in template.rows:
            constants = []
            for source in sources:
                if isinstance(source, Nodes):
                    names = [values[literal] for literal in source.places]
                    constants.append(self._names.constant(source.type, names))
                elif source.literal >= 0:
                    constants.append(source.sign * values[source.literal])
                else:
                    constants.append(source.constant)
            rows.append((shape, constants, []))
        return rows

    def _context_rows(self, contexts: Sequence[Any]) -> NDArray[np.int32]:
        rows = np.full(len(contexts), -1, np.int32)
        linked = [k for k, context in enumerate(contexts) if context is not None]
        if linked:
            rows[linked] = self.contexts.ensure([contexts[k] for k in linked])
        return rows

    def _add_rows(
        self,
        compiled: list[Compiled],
        profile_rows: NDArray[np.int32],
        context_rows: NDArray[np.int32],
    ) -> NDArray[np.int32]:
        """Add the rows of compiled conditions, shape by shape."""
        by_shape: dict[Shape, tuple[list[list[float]], list[int]]] = {}
        for k, rows in enumerate(compiled):
            for shape, constants, _ in rows:
                entry = by_shape.get(shape)
                if entry is None:
                    entry = by_shape[shape] = ([], [])
                entry[0].append(constants)
                entry[1].append(k)
        added = []
        for shape, (matrix_rows, positions) in by_shape.items():
            number = self.conjunctions.intern(shape)
            matrix = np.array(matrix_rows, np.float64)
            matrix = matrix.reshape(len(matrix_rows), len(matrix_rows[0]))
            profiles = profile_rows[positions]
            new = self.conjunctions.add_many(number, matrix, profiles, context_rows[positions])
            sibling = self.conjunctions.sibling
            if len(set(positions)) == len(positions):
                sibling[new] = self.head[profiles]
                self.head[profiles] = new
            else:
                for row, profile in zip(new.tolist(), profiles.tolist(), strict=True):
                    sibling[row] = self.head[profile]
                    self.head[profile] = row
            self.conjunctions.n_siblings += int((sibling[new] >= 0).sum())
            added.append(new)
        return np.concatenate(added) if added else np.empty(0, np.int32)

    def remove(self, profile_id: Any) -> None:
        """Unsubscribe a profile."""
        profile_id = as_id(profile_id, "a profile's id")
        rows = np.array(self.rows_of(profile_id), np.int32)
        if len(rows):
            if self.categories.patterns.used:
                self.documents.release(self._patterns(rows).keys)
            kernels.unlink(rows, self.contexts.head, *self.conjunctions.view[:2])
            self.tables.remove(rows)
            self.conjunctions.remove(rows)
            self.conjunctions.n_siblings -= len(rows) - 1
        self.head[self.ids.remove(profile_id)] = -1

    def price_anew(self, rows: NDArray[np.int32], own: Transformations) -> None:
        """Give the patterns of rows other prices."""
        self.documents.release(self._patterns(rows).keys)
        self.tables.remove(rows)
        places = self._patterns(rows).places
        pool = self.conjunctions.pool
        pool[places] = [self.documents.priced_anew(key, own) for key in pool[places].tolist()]
        self.tables.follow_graphs()
        self.tables.add(rows)
        self.documents.hold(self._patterns(rows).keys)

    def _patterns(self, rows: NDArray[np.int32]) -> Named:
        """The patterns that rows name, which are nodes of the flat graph."""
        return nodes_named(self.conjunctions, self.categories.flat, rows)

    def rows_of(self, profile_id: Any) -> list[int]:
        """The conjunctions of a profile."""
        profile_row = self.ids.row(as_id(profile_id, "a profile's id"))
        if profile_row < 0:
            raise UnknownProfile(f"no profile {profile_id!r} is subscribed")
        rows = []
        row = int(self.head[profile_row])
        while row >= 0:
            rows.append(row)
            row = int(self.conjunctions.sibling[row])
        return rows[::-1]

    @property
    def nbytes(self) -> int:
        """Bytes of arrays."""
        return self.ids.nbytes + self.head.nbytes

    def _check(self) -> None:
        live = set(self.conjunctions.live().tolist())
        reached = [row for profile_id in self.ids for row in self.rows_of(profile_id)]
        assert sorted(reached) == sorted(live)
        for row in reached:
            context = int(self.conjunctions.owner[row])
            if context >= 0:
                chain = []
                linked = int(self.contexts.head[context])
                while linked >= 0:
                    chain.append(linked)
                    linked = int(self.conjunctions.rows[linked]["next"])
                assert row in chain


def _listed(values: Sequence[Any]) -> Sequence[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else values
