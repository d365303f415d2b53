"""A draft: the uses of attributes in one condition or message, not yet in the schema.

In: `fix` and `unify` calls, in the order of the text. Out: either `commit`, which moves everything
into the schema at once, or nothing at all when the draft is dropped.

A draft holds the changes as an overlay over the schema's union-find forest, and the list of calls
that made them. When the schema moved on between the draft and its commit, the calls are replayed
on a fresh draft, so two drafts that disagree never both succeed. Cost: O(1) to make, near-constant
per call, and a commit in proportion to the calls that taught something new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from germane.model.errors import TypeMismatch
from germane.model.types import ORDERED, check_type, mismatch

if TYPE_CHECKING:
    from germane.model.schema import Schema

__all__ = ["Draft"]


class Draft:
    """An overlay over a schema; see the module's docstring."""

    __slots__ = (
        "_calls",
        "_compared",
        "_links",
        "_sizes",
        "_types",
        "_version",
        "known",
        "schema",
        "where",
    )

    def __init__(self, schema: Schema, where: str) -> None:
        self.schema = schema
        self.where = where
        self.known = schema.known  # settled names, for callers in a hurry
        self._version = schema.version
        self._calls: list[tuple[str, str, str]] | None = None  # overlays exist once this does
        self._links: dict[str, str]
        self._types: dict[str, tuple[str, str]]
        self._compared: dict[str, str]
        self._sizes: dict[str, int]

    def type_of(self, name: str) -> str | None:
        """The type of a name as this draft sees it, or None while it is not fixed."""
        known = self.known.get(name)
        if known is not None:
            return known
        if self._calls is None and name in self.schema.unsettled:
            return None
        settled = self.schema.type_of(name)
        if settled is not None or self._calls is None:
            return settled
        fixed = self._types.get(self._root(name))
        return fixed[0] if fixed else None

    def where_of(self, name: str) -> str | None:
        """Where the type of a name was fixed."""
        fixed = self._facts(self._root(name))[0]
        return fixed[1] if fixed else None

    def fix(self, name: str, type_: str) -> None:
        """Use `name` as a `type_`."""
        if self.known.get(name) == type_:
            return
        check_type(type_)
        self.schema.require(name)
        root = self._root(name)
        fixed, compared, _ = self._facts(root)
        if fixed is not None:
            if fixed[0] != type_:
                raise mismatch(name, fixed[0], fixed[1], type_, self.where)
            return
        if compared is not None and type_ not in ORDERED:
            raise TypeMismatch(
                f"attribute {name!r} is compared in {compared}, "
                f"so {self.where} cannot use it as a {type_}, which has no order"
            )
        self._record("fix", name, type_)
        self._types[root] = (type_, self.where)

    def unify(self, a: str, b: str) -> None:
        """Compare two names: they have one type, of those with an order, now or later."""
        schema = self.schema
        if self._calls is None and (a, b) in schema.unified and a in schema.unsettled:
            return
        type_a, type_b = self.type_of(a), self.type_of(b)
        for name, type_ in ((a, type_a), (b, type_b)):
            if type_ is not None and type_ not in ORDERED:
                raise TypeMismatch(f"attribute {name!r} is a {type_}, which cannot be compared")
        if type_a is not None:
            self.fix(b, type_a)
        elif type_b is not None:
            self.fix(a, type_b)
        else:
            self._merge(a, b)

    def commit(self) -> None:
        """Move everything into the schema; raises, and moves nothing, if it disagrees by now."""
        calls = self._calls
        if calls is None:
            return
        if self.schema.version != self._version:
            fresh = Draft(self.schema, self.where)
            for verb, first, second in calls:
                fresh.fix(first, second) if verb == "fix" else fresh.unify(first, second)
            fresh.commit()
        else:
            seen = [name for verb, a, b in calls for name in ((a,) if verb == "fix" else (a, b))]
            self.schema.adopt(self._links, self._types, self._compared, self._sizes, seen)
        self._calls = None
        self._version = self.schema.version

    def _merge(self, a: str, b: str) -> None:
        root_a, root_b = self._root(a), self._root(b)
        _, compared_a, size_a = self._facts(root_a)
        _, compared_b, size_b = self._facts(root_b)
        if root_a == root_b and compared_a is not None:
            if self._calls is None:
                self.schema.unified.add((a, b))
            return
        self._record("unify", a, b)
        if size_a < size_b:
            root_a, root_b = root_b, root_a
        self._compared[root_a] = compared_a or compared_b or self.where
        if root_a != root_b:
            self._links[root_b] = root_a
            self._sizes[root_a] = size_a + size_b

    def _record(self, verb: str, first: str, second: str) -> None:
        if self._calls is None:
            self._calls = []
            self._links, self._types, self._compared, self._sizes = {}, {}, {}, {}
            self._version = self.schema.version
        self._calls.append((verb, first, second))

    def _root(self, name: str) -> str:
        root = self.schema.root(name)
        if self._calls is not None:
            links = self._links
            while root in links:
                root = links[root]
        return root

    def _facts(self, root: str) -> tuple[tuple[str, str] | None, str | None, int]:
        fixed, compared, size = self.schema.root_facts(root)
        if self._calls is not None:
            fixed = fixed or self._types.get(root)
            compared = compared or self._compared.get(root)
            size = self._sizes.get(root, size)
        return fixed, compared, size
