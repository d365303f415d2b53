"""Profiles: their texts in, their rows in the engine out.

A batch is registered condition by condition: one that does not parse or type is refused and
leaves nothing behind, the rest of the batch is registered. Compiled rows are added shape by
shape, in columns.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.context import Contexts, Ids, Strings, as_id
from germane.filter.compile import Names, compile_row
from germane.filter.messages import Messages
from germane.filter.tables import Tables
from germane.filter.texts import Texts
from germane.index.conjunctions import Conjunctions, Shape, longer
from germane.kernels import contexts as kernels
from germane.language import Condition, compile_condition
from germane.model import DuplicateProfile, GermaneError, InvalidValue, Schema, UnknownProfile
from germane.model.errors import BatchError


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
        tables: Tables,
        follow_strings: Callable[[], None],
    ) -> None:
        self.ids = Ids("profile")
        self.head: NDArray[np.int32] = np.full(16, -1, np.int32)  # profile row -> first row
        self.schema = schema
        self.strings = strings
        self.contexts = contexts
        self.conjunctions = conjunctions
        self.tables = tables
        self._follow_strings = follow_strings
        type_of = schema.type_of
        self._names = Names(
            message=lambda name: messages.slots_of(name, type_of(name)),
            context=lambda name: contexts.slots_of(name, type_of(name)),
            type_of=type_of,
            label=strings.add,
            texts=texts,
        )

    def add(self, ids: Sequence[Any], conditions: Sequence[Any], contexts: Sequence[Any]) -> None:
        """Register profiles; raises ``BatchError`` (or, for one, its error) after the others."""
        accepted: list[int] = []
        parsed: list[Condition] = []
        errors: list[tuple[int, Any, GermaneError]] = []
        listed = ids.tolist() if isinstance(ids, np.ndarray) else ids
        names = contexts.tolist() if isinstance(contexts, np.ndarray) else contexts
        seen: set[Any] = set()
        for i, (profile_id, text, context) in enumerate(
            zip(listed, conditions, names, strict=True)
        ):
            try:
                parsed.append(self._parse(profile_id, text, context, seen))
                accepted.append(i)
                seen.add(profile_id)
            except GermaneError as error:
                errors.append((i, profile_id, error))
        if accepted:
            self._register(ids, contexts, listed, names, accepted, parsed)
        if errors:
            raise errors[0][2] if len(listed) == 1 else BatchError(errors, len(accepted))

    def _parse(self, profile_id: Any, text: Any, context: Any, seen: set[Any]) -> Condition:
        as_id(profile_id, "a profile's id")
        if profile_id in seen or profile_id in self.ids:
            raise DuplicateProfile(
                f"profile {profile_id!r} is already subscribed; unsubscribe it first"
            )
        if context is not None:
            as_id(context, f"the context of profile {profile_id!r}")
        draft = self.schema.draft(f"profile {profile_id!r}")
        condition = compile_condition(text, draft)
        if context is None and condition.reads_context:
            raise InvalidValue(
                f"profile {profile_id!r} reads context.{min(condition.context_names)} but has no "
                "context; pass context=… or use constants only"
            )
        draft.commit()
        return condition

    def _register(
        self,
        ids: Sequence[Any],
        contexts: Sequence[Any],
        listed: Sequence[Any],
        names: Sequence[Any],
        accepted: list[int],
        parsed: list[Condition],
    ) -> None:
        if len(accepted) == len(listed) and isinstance(ids, np.ndarray):
            profile_rows = self.ids.add_many(ids)
        else:
            profile_rows = self.ids.add_many([listed[i] for i in accepted])
        self.head = longer(self.head, self.ids.n_rows, -1)
        self.head[profile_rows] = -1
        context_rows = np.full(len(accepted), -1, np.int32)
        if len(accepted) == len(listed) and isinstance(contexts, np.ndarray):
            context_rows[:] = self.contexts.ensure(contexts)
        else:
            linked = [k for k, i in enumerate(accepted) if names[i] is not None]
            if linked:
                owners = [names[accepted[k]] for k in linked]
                context_rows[linked] = self.contexts.ensure(owners)
        rows = self._add_rows(self._compile(parsed), profile_rows, context_rows)
        if len(rows):
            kernels.link(rows, self.contexts.head, self.conjunctions.rows)
            self.tables.add(rows)

    def _compile(
        self, parsed: list[Condition]
    ) -> dict[Shape, tuple[list[list[float]], list[int]]]:
        """Rows of all conditions by shape: (constants, position of the condition)."""
        while True:
            epoch = self.strings.epoch
            by_shape: dict[Shape, tuple[list[list[float]], list[int]]] = {}
            for k, condition in enumerate(parsed):
                conjunctions = condition.conjunctions
                if conjunctions is None:
                    conjunctions = ((condition.nnf,),)
                for literals in conjunctions:
                    shape, constants = compile_row(literals, self._names)
                    entry = by_shape.get(shape)
                    if entry is None:
                        entry = by_shape[shape] = ([], [])
                    entry[0].append(constants)
                    entry[1].append(k)
            if self.strings.epoch == epoch:
                self._follow_strings()
                return by_shape

    def _add_rows(
        self,
        by_shape: dict[Shape, tuple[list[list[float]], list[int]]],
        profile_rows: NDArray[np.int32],
        context_rows: NDArray[np.int32],
    ) -> NDArray[np.int32]:
        added = []
        for shape, (constants, positions) in by_shape.items():
            number = self.conjunctions.intern(shape)
            width = len(constants[0])
            matrix = np.array(constants, np.float64).reshape(len(constants), width)
            profiles = profile_rows[positions]
            rows = self.conjunctions.add_many(number, matrix, profiles, context_rows[positions])
            sibling = self.conjunctions.sibling
            if len(set(positions)) == len(positions):
                sibling[rows] = self.head[profiles]
                self.head[profiles] = rows
            else:
                for row, profile in zip(rows.tolist(), profiles.tolist(), strict=True):
                    sibling[row] = self.head[profile]
                    self.head[profile] = row
            added.append(rows)
        return np.concatenate(added) if added else np.empty(0, np.int32)

    def remove(self, profile_id: Any) -> None:
        """Unsubscribe a profile."""
        rows = np.array(self.rows_of(profile_id), np.int32)
        if len(rows):
            kernels.unlink(rows, self.contexts.head, self.conjunctions.rows)
            self.tables.remove(rows)
            self.conjunctions.remove(rows)
        self.head[self.ids.remove(profile_id)] = -1

    def rows_of(self, profile_id: Any) -> list[int]:
        """The conjunctions of a profile."""
        profile_row = self.ids.row(profile_id)
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
        reached = [row for profile_id in iter(self.ids) for row in self.rows_of(profile_id)]  # type: ignore[call-overload]
        assert sorted(reached) == sorted(live)
        for row in reached:
            context = int(self.conjunctions.rows.context[row])
            if context >= 0:
                chain = []
                linked = int(self.contexts.head[context])
                while linked >= 0:
                    chain.append(linked)
                    linked = int(self.conjunctions.rows.next[linked])
                assert row in chain
