"""The types of attributes: declared, or fixed by first use.

In: names, and the types that conditions, messages and contexts need them to have. Out: one type
per name, and dense ids in order of first sight. Messages and contexts share one namespace: `place`
and `context.place` have the same type.

Two attributes of unknown type that are compared with each other (`time < context.last`) are
unified: a union-find forest keeps such classes, so that fixing one member fixes all.

Invariants: a type, once fixed, never changes; a class has at most one type, kept at its root; a
class whose members are compared never gets a type without an order. A `Draft` overlays the forest
and touches the schema only in `commit`, so a refused condition leaves no trace. Making a draft is
O(1); `type_of` of a settled name is one dict lookup; the rest is near-constant amortised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Protocol

from germane.model.draft import Draft
from germane.model.errors import UnknownAttribute
from germane.model.types import ORDERED, TYPES, check_name, check_type, listing

__all__ = ["ORDERED", "TYPES", "Schema"]

DECLARED = "the schema"


class Nodes(Protocol):
    """The names of a content graph's nodes."""

    def __contains__(self, name: object) -> bool: ...
    def nearest(self, name: str) -> list[str]: ...


class Schema:
    """Names, types and ids of attributes; closed when made from a mapping, else open.

    >>> schema = Schema({"price": "number"})
    >>> schema.type_of("price")
    'number'
    """

    __slots__ = (
        "_compared",
        "_ids",
        "_parent",
        "_size",
        "_types",
        "closed",
        "graphs",
        "known",
        "unified",
        "unsettled",
        "version",
    )

    def __init__(self, types: Mapping[str, str] | None = None) -> None:
        self.closed = types is not None
        self.graphs: Mapping[str, Nodes] = {}  # type of a category -> the nodes of its graph
        self.version = 0
        self.known: dict[str, str] = {}  # settled names; a name with a type may be missing
        self.unsettled: set[str] = set()  # names known to have no type yet
        self.unified: set[tuple[str, str]] = set()  # pairs known to be in one compared class
        self._ids: dict[str, int] = {}
        self._parent: dict[str, str] = {}  # the union-find forest; a root has no entry
        self._size: dict[str, int] = {}
        self._types: dict[str, tuple[str, str]] = {}  # root -> (type, where it was fixed)
        self._compared: dict[str, str] = {}  # root -> where its members were compared
        for name, type_ in (types or {}).items():
            self.declare(name, type_)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, by id."""
        return tuple(self._ids)

    def id_of(self, name: str) -> int:
        """The dense id of a name, given on first sight."""
        number = self._ids.get(name)
        if number is None:
            self.require(name)
            number = self._ids[name] = len(self._ids)
        return number

    def type_of(self, name: str) -> str | None:
        """The type of a name, or None while it is not fixed."""
        known = self.known.get(name)
        if known is not None:
            return known
        self.require(name)
        fixed = self._types.get(self.root(name))
        if fixed is None:
            if name in self._ids:
                self.unsettled.add(name)
            return None
        self.known[name] = fixed[0]
        return fixed[0]

    def where_of(self, name: str) -> str | None:
        """Where the type of a name was fixed, e.g. "profile 'p1'"."""
        fixed = self._types.get(self.root(name))
        return fixed[1] if fixed else None

    def draft(self, where: str) -> Draft:
        """An overlay for the uses of one condition or message; `where` names it in errors."""
        return Draft(self, where)

    def fix(self, name: str, type_: str, where: str) -> None:
        """Use `name` as a `type_`; raises `TypeMismatch` when it already is another."""
        if self.known.get(name) == type_:
            return
        draft = Draft(self, where)
        draft.fix(name, type_)
        draft.commit()

    def declare(self, name: str, type_: str) -> None:
        """Add an attribute of a known type; in a closed schema, the only way to add one."""
        check_name(name)
        check_type(type_)
        closed, self.closed = self.closed, False
        try:
            self.fix(name, type_, DECLARED)
        finally:
            self.closed = closed
        self._ids.setdefault(name, len(self._ids))

    def require(self, name: str) -> None:
        """Raise unless `name` may be used here."""
        check_name(name)
        if self.closed and name not in self._ids:
            near = self.nearest(name)
            hint = f" (did you mean {near!r}?)" if near else ""
            raise UnknownAttribute(
                f"unknown attribute {name!r}{hint}; the schema has {listing(self._ids)}"
            )

    def nearest(self, name: str) -> str | None:
        """The known name that looks most like `name`, if one does."""
        near = get_close_matches(name, self._ids, 1)
        return near[0] if near else None

    def root(self, name: str) -> str:
        """The representative of a name's class."""
        parent = self._parent
        root = name
        while root in parent:
            root = parent[root]
        while name != root:
            parent[name], name = root, parent[name]
        return root

    def root_facts(self, root: str) -> tuple[tuple[str, str] | None, str | None, int]:
        """(type and where), where compared, and size of a root's class; for drafts."""
        return self._types.get(root), self._compared.get(root), self._size.get(root, 1)

    def adopt(
        self,
        links: Mapping[str, str],
        types: Mapping[str, tuple[str, str]],
        compared: Mapping[str, str],
        sizes: Mapping[str, int],
        seen: Iterable[str],
    ) -> None:
        """Take over a draft's overlay; only `Draft.commit` calls this."""
        self._parent.update(links)
        self._types.update(types)
        if types:
            self.unsettled.clear()
        self._compared.update(compared)
        self._size.update(sizes)
        for name in seen:
            self._ids.setdefault(name, len(self._ids))
        self.version += 1

    def state(self) -> dict[str, Any]:
        """Plain data (dicts, lists, str, bool) from which `from_state` builds an equal schema."""
        return {
            "closed": self.closed,
            "names": list(self._ids),
            "parents": dict(self._parent),
            "sizes": dict(self._size),
            "types": {root: list(fixed) for root, fixed in self._types.items()},
            "compared": dict(self._compared),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Schema:
        """The schema that `state` describes."""
        schema = cls()
        schema.closed = bool(state["closed"])
        schema._ids = {name: number for number, name in enumerate(state["names"])}
        schema._parent = dict(state["parents"])
        schema._size = dict(state["sizes"])
        schema._types = {root: (fixed[0], fixed[1]) for root, fixed in state["types"].items()}
        schema._compared = dict(state["compared"])
        return schema

    def _check(self) -> None:
        assert sorted(self._ids.values()) == list(range(len(self._ids)))
        for name in (*self._parent, *self.known, *self._types):
            assert name in self._ids, name
        for root in (*self._types, *self._compared, *self._size):
            if root in self._parent:
                continue  # facts of a former root are no longer read
            fixed = self._types.get(root)
            assert fixed is None or root not in self._compared or fixed[0] in ORDERED
        for name in self.unsettled:
            assert self.root(name) not in self._types
        for a, b in self.unified:
            assert self.root(a) == self.root(b)
            assert self.root(a) in self._compared
        for name, type_ in self.known.items():
            assert self._types[self.root(name)][0] == type_
