"""Types of a condition, checked against a schema's draft.

In: a tree, a draft, and the text for error messages. Out: the tree's type ("boolean"), the names it
reads, and a draft that knows what the condition teaches about its attributes. An attribute of
unknown type takes the type its place needs; two of them that are compared become one class.

Numbers go into arithmetic and ABS, strings into LIKE, locations into DISTANCE, booleans into AND,
OR and NOT; comparisons need two equal types that have an order; IS NULL takes anything. Cost: one
visit per node.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any, NamedTuple

from germane.language.parser import parse
from germane.language.tree import (
    Abs,
    And,
    Arith,
    Compare,
    Const,
    Context,
    Distance,
    In,
    InBox,
    IsNull,
    Like,
    Matches,
    Message,
    Negate,
    Node,
    Not,
    Or,
    Truth,
    Within,
)
from germane.model.draft import Draft
from germane.model.errors import (
    ConditionNameError,
    ConditionTypeError,
    TypeMismatch,
    UnknownAttribute,
)
from germane.model.types import ORDERED, listing

__all__ = ["Checker", "Read", "check", "read_condition"]


class Read(NamedTuple):
    """A condition that was read: its tree, and the names in it."""

    tree: Node
    message_names: Set[str]
    context_names: Set[str] = frozenset()


def read_condition(text: str, draft: Draft, names: str = "message") -> Read:
    """Parse and check a condition of our own dialect, or an address."""
    tree = parse(text, names)
    checker = Checker(draft, text)
    checker.condition(tree)
    return Read(tree, checker.message_names, checker.context_names)


def check(node: Node, draft: Draft, text: str) -> str:
    """The type of a condition, which is "boolean", or an error that says where it is not."""
    return Checker(draft, text).condition(node)


class Checker:
    """One run over one tree; afterwards it knows which names the tree reads."""

    __slots__ = ("context_names", "draft", "known", "message_names", "text")

    def __init__(self, draft: Draft, text: str) -> None:
        self.draft = draft
        self.known = draft.known
        self.text = text
        self.message_names: set[str] = set()
        self.context_names: set[str] = set()

    def condition(self, node: Node) -> str:
        """Check a node where only TRUE, FALSE or UNKNOWN can stand."""
        kind = type(node)
        if kind is Compare:
            return self.compare(node)  # type: ignore[arg-type]
        if isinstance(node, And | Or):
            for part in node.parts:
                if type(part) is Compare:
                    self.compare(part)
                else:
                    self.condition(part)
            return "boolean"
        if isinstance(node, Not):
            return self.condition(node.operand)
        return self.require(node, "boolean", "a condition")

    def type_of(self, node: Node) -> str | None:
        """The type of a node; None for an attribute whose type is not fixed."""
        kind = type(node)
        if kind is Const:
            return node[1]  # type: ignore[return-value]
        name: str = node[0]  # type: ignore[assignment]
        if kind is Message:
            self.message_names.add(name)
        elif kind is Context:
            self.context_names.add(name)
        else:
            return RULES[kind](self, node)
        return self.known.get(name) or self.attribute(name, node)

    def attribute(self, name: str, node: Node) -> str | None:
        """The type of an attribute that is not settled yet, or is unknown."""
        try:
            return self.draft.type_of(name)
        except UnknownAttribute:
            schema = self.draft.schema
            message = f"unknown attribute {name!r}; the schema has {listing(schema.names)}"
            raise ConditionNameError(
                message, self.text, node.at, "a known name", schema.nearest(name)
            ) from None

    def require(self, node: Node, wanted: str, role: str) -> str:
        """Check that a node has, or takes, the type that its place needs."""
        found = self.type_of(node)
        if found is None:
            self.fix(node, wanted)
        elif found != wanted:
            raise ConditionTypeError(
                f"{role} must be a {wanted}, but {self.describe(node, found)}",
                self.text,
                node.at,
                f"a {wanted}",
            )
        return wanted

    def compare(self, node: Compare) -> str:
        """`left op right`."""
        _, left, right, at = node
        type_left = self.type_of(left)
        type_right = right[1] if type(right) is Const else self.type_of(right)
        if type_left != type_right or type_left not in ORDERED:
            self.reconcile(left, type_left, right, type_right, at)
        return "boolean"

    def reconcile(
        self, left: Node, type_left: str | None, right: Node, type_right: str | None, at: int
    ) -> None:
        """Two sides of a comparison that are not plainly alike: teach the draft, or refuse."""
        for side, type_ in ((left, type_left), (right, type_right)):
            if type_ is not None and type_ not in ORDERED:
                raise ConditionTypeError(
                    f"a {type_} cannot be compared, and {self.describe(side, type_)}"
                    f"{_USE[type_.partition(':')[0]]}",
                    self.text,
                    side.at,
                )
        if type_left is None and type_right is None:
            assert isinstance(left, Message | Context)
            assert isinstance(right, Message | Context)
            self.draft.unify(left.name, right.name)
        elif type_left is None:
            self.fix(left, str(type_right))
        elif type_right is None:
            self.fix(right, type_left)
        elif type_left != type_right:
            raise ConditionTypeError(
                f"a {type_left} cannot be compared with a {type_right}: "
                f"{self.describe(left, type_left)}, {self.describe(right, type_right)}",
                self.text,
                at,
                f"two {type_left}s or two {type_right}s",
            )

    def fix(self, node: Node, type_: str) -> None:
        """Give an attribute of unknown type the type that its place needs."""
        assert isinstance(node, Message | Context)
        try:
            self.draft.fix(node.name, type_)
        except TypeMismatch as error:
            raise ConditionTypeError(str(error), self.text, node.at, f"a {type_}") from None

    def describe(self, node: Node, type_: str) -> str:
        """A clause like "'price' is a number (since profile 'p1')"."""
        if isinstance(node, Message | Context):
            where = self.draft.where_of(node.name)
            since = f" (since {where})" if where else ""
            prefix = "context." if isinstance(node, Context) else ""
            return f"{prefix + node.name!r} is a {type_}{since}"
        if isinstance(node, Const):
            shown = repr(node.value)
            return f"{shown if len(shown) < 40 else shown[:39] + '…'} is a {type_}"
        return f"this is a {type_}"


_USE = {
    "location": "; locations go into DISTANCE and IN BOX",
    "category": "; categories go into WITHIN and CONTAINS",
    "xml": "; documents go into MATCHES",
}


def _arith(checker: Checker, node: Arith) -> str:
    checker.require(node.left, "number", f"the left side of {node.op}")
    return checker.require(node.right, "number", f"the right side of {node.op}")


def _negate(checker: Checker, node: Negate) -> str:
    return checker.require(node.operand, "number", "what follows a minus")


def _abs(checker: Checker, node: Abs) -> str:
    return checker.require(node.operand, "number", "the argument of ABS")


def _distance(checker: Checker, node: Distance) -> str:
    checker.require(node.left, "location", "an argument of DISTANCE")
    checker.require(node.right, "location", "an argument of DISTANCE")
    return "number"


def _in(checker: Checker, node: In) -> str:
    found = checker.type_of(node.operand)
    for item in node.items:
        type_item = checker.type_of(item)
        if found != type_item or found not in ORDERED:
            checker.reconcile(node.operand, found, item, type_item, item.at)
            if found is None:  # the operand is an attribute, which just got a type
                found = checker.type_of(node.operand)
    return "boolean"


def _like(checker: Checker, node: Like) -> str:
    checker.require(node.operand, "string", "the operand of LIKE")
    return "boolean"


def _is_null(checker: Checker, node: IsNull) -> str:
    checker.type_of(node.operand)
    return "boolean"


def _within(checker: Checker, node: Within) -> str:
    """Both sides are of one graph; constants are its nodes."""
    sides = (*node.lower, *node.upper)
    attributes = [side for side in sides if type(side) is not Const]
    types = [checker.type_of(side) for side in attributes]
    type_ = next((type_ for type_ in types if type_ is not None), None)
    graph = checker.draft.schema.graphs.get(type_ or "")
    if graph is None:
        first = attributes[0]
        has = f"but {checker.describe(first, type_)}" if type_ else "and has no graph yet"
        raise ConditionTypeError(
            f"{node.word} takes a category, {has}: pass graphs={{{first[0]!r}: …}} to the filter",
            checker.text,
            first.at,
            "a category",
        )
    assert type_ is not None
    for side in attributes:
        checker.require(side, type_, f"a side of {node.word}")
    for side in sides:
        if type(side) is Const and side.value not in graph:
            raise ConditionNameError(
                f"unknown node {side.value!r:.200}",
                checker.text,
                side.at,
                "a node of the graph",
                next(iter(graph.nearest(str(side.value))), None),
            )
    return "boolean"


def _in_box(checker: Checker, node: InBox) -> str:
    checker.require(node.operand, "location", "the left side of IN BOX")
    return "boolean"


def _matches(checker: Checker, node: Matches) -> str:
    checker.require(node.operand, "xml", "the left side of MATCHES")
    return "boolean"


def _truth(checker: Checker, node: Truth) -> str:
    return "boolean"


RULES: dict[type, Callable[[Checker, Any], str]] = {
    Arith: _arith,
    Negate: _negate,
    Abs: _abs,
    Distance: _distance,
    In: _in,
    Like: _like,
    IsNull: _is_null,
    Within: _within,
    InBox: _in_box,
    Matches: _matches,
    Truth: _truth,
    Compare: Checker.compare,
    And: Checker.condition,
    Or: Checker.condition,
    Not: Checker.condition,
}
