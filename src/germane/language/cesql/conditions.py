"""A CESQL expression as a condition of germane's own tree.

In: an expression, and a draft of the schema. Out: a tree that is TRUE for exactly the messages for
which the expression is TRUE and errs nowhere.

An expression is TRUE, FALSE or an error, which our UNKNOWN stands for. Two things differ from SQL.
Errors decide: `a OR b` is an error if a is, whatever b. So each expression has two conditions, when
it is TRUE and when it is FALSE, and

    a OR b  is TRUE if a is, or if b is and a is no error;   FALSE if both are
    a AND b is TRUE if both are;   FALSE if a is, or if b is and a is no error
    NOT a   has the two exchanged

And values are cast, to the type of the other side, whatever type the event gave them. So attributes
are read as casts: `n = 5` is `INT(n) = 5`, where INT(n) is a column of the message like any other,
NULL where the cast fails. A cast to the type that the attribute has anyway is the attribute itself,
and shares its column and its index with our own dialect.

"a is no error" is mostly that a few casts are not NULL; `Meaning` carries them. An expression that
is not made of such comparisons (functions, arithmetic, two attributes of unknown types, XOR) stays
as it is, a `Cesql` node: exact, not indexed, evaluated only where all else is TRUE. Cost: linear in
the expression, but quadratic in the alternatives of an OR; past `MAX_SIZE`, it stays as it is.
"""

from __future__ import annotations

from typing import NamedTuple

from germane.language.cesql.evaluate import CASTS, ESCAPE, cast, escaped, evaluate
from germane.language.cesql.expressions import (
    Attribute,
    Binary,
    Call,
    Exists,
    Expression,
    In,
    Like,
    Logic,
    Unary,
    Value,
    attributes,
    type_of,
    walk,
)
from germane.language.cesql.grammar import parse
from germane.language.check import Read
from germane.language.tree import (
    And,
    Cast,
    Cesql,
    Compare,
    Const,
    IsNull,
    Message,
    Node,
    Not,
    Or,
    Truth,
)
from germane.language.tree import In as InList
from germane.language.tree import Like as LikeText
from germane.model.draft import Draft
from germane.model.errors import ConditionNameError, UnknownAttribute
from germane.model.types import listing

__all__ = ["to_condition"]

MAX_SIZE = 600
"""Literals of a condition; of more, it stays an expression."""
TYPES = {str: "string", int: "number", bool: "boolean"}
STRINGS = frozenset("source type subject specversion datacontenttype dataschema".split())
"""What CloudEvents itself says are strings; extensions may be anything."""
COMPARISONS = frozenset(("=", "!=", "<", "<=", ">", ">="))
Columns = frozenset[Message | Cast]


class Meaning(NamedTuple):
    """When an expression is TRUE and when it is FALSE; anything else is an error."""

    true: Node
    false: Node
    size: int
    if_true: Columns | None = None
    """Casts that are not NULL wherever it is TRUE, and that rule out an error; None: unknown."""
    if_false: Columns | None = None


def to_condition(text: str, draft: Draft) -> Read:
    """The condition of a CESQL text."""
    root = parse(text)
    translator = _Translator(text, draft)
    for node in walk(root):
        if isinstance(node, Attribute | Exists):
            translator.require(node)
    return Read(translator.whole(root), attributes(root))


def text_column(name: str, draft: Draft, text: str) -> Message | Cast:
    """An attribute as a string."""
    translator = _Translator(text, draft)
    node = Attribute(name, (0, 0))
    translator.require(node)
    return translator.column(node, str)


class _Translator:
    def __init__(self, text: str, draft: Draft) -> None:
        self.text = text
        self.draft = draft

    def require(self, node: Attribute | Exists) -> None:
        """Refuse an attribute that a closed schema does not have."""
        if node.name == "id":  # every message has one
            return
        try:
            self.draft.type_of(node.name)
        except UnknownAttribute:
            schema = self.draft.schema
            message = f"unknown attribute {node.name!r}; the schema has {listing(schema.names)}"
            raise ConditionNameError(
                message, self.text, node.span[0], "a known name", schema.nearest(node.name)
            ) from None

    def whole(self, root: Expression) -> Node:
        """The condition of a filter: an expression that is no boolean is never TRUE."""
        type_ = type_of(root)
        if type_ is None:
            assert isinstance(root, Attribute)
            column = self.column(root, bool)
            if type(column) is not Message:
                return And((self.boolean(root).true, self.as_it_is(root, True)), root.span[0])
        elif type_ is not bool:
            return Truth(False, root.span[0])
        return self.meaning(root).true

    def meaning(self, node: Expression) -> Meaning:
        """When an expression, cast to a boolean, is TRUE and when it is FALSE."""
        if not attributes(node):
            return self.constant(node)
        if isinstance(node, Attribute):
            return self.boolean(node)
        if isinstance(node, Exists):
            return self.exists(node)
        if isinstance(node, Unary) and node.op == "NOT":
            true, false, size, if_true, if_false = self.meaning(node.operand)
            return Meaning(false, true, size, if_false, if_true)
        found: Meaning | None = None
        if isinstance(node, Logic):
            found = self.logic(node)
        elif isinstance(node, Binary) and node.op in COMPARISONS:
            found = self.compare(node)
        elif isinstance(node, Like):
            found = self.like(node)
        elif isinstance(node, In):
            found = self.in_list(node)
        if found is None or found.size > MAX_SIZE:
            return self.residual(node)
        return found

    # leaves ------------------------------------------------------------------------------------

    def constant(self, node: Expression) -> Meaning:
        value, error = evaluate(node, {})
        if not error:
            value, error = cast(value, bool)
        at = node.span[0]
        if error:
            return Meaning(Truth(False, at), Truth(False, at), 1)
        return Meaning(Truth(value is True, at), Truth(value is False, at), 1, *_NOTHING)

    def column(self, node: Attribute, wanted: type) -> Message | Cast:
        """An attribute as a type: itself where it has that type anyway."""
        name, at = node.name, node.span[0]
        if name != "id" and wanted is not int:
            found = self.draft.type_of(name)
            if found is None and wanted is str and name in STRINGS:
                self.draft.fix(name, "string")
                found = "string"
            if found == TYPES[wanted]:
                return Message(name, at)
        return Cast(name, TYPES[wanted], at)

    def known_type(self, node: Expression) -> type | None:
        """The type of an expression, also of an attribute if the schema knows it."""
        if isinstance(node, Attribute) and node.name != "id":
            found = self.draft.type_of(node.name)
            return {"string": str, "boolean": bool}.get(found or "")
        return type_of(node)

    def boolean(self, node: Attribute) -> Meaning:
        column, at = self.column(node, bool), node.span[0]
        return _leaf(Compare("=", column, Const(True, "boolean", at), at), column)

    def exists(self, node: Exists) -> Meaning:
        at = node.span[0]
        own = node.name == "id"
        column = Cast("id", "string", at) if own else Message(node.name, at)
        return Meaning(IsNull(column, True, at), IsNull(column, False, at), 1, *_NOTHING)

    def compare(self, node: Binary) -> Meaning | None:
        """A comparison of attributes with constants, or of two attributes as integers."""
        wanted = self.known_type(node.right) if node.op in ("=", "!=") else int
        if wanted is None:
            return None
        at = node.span[0]
        sides: list[Message | Cast | Const] = []
        for side in (node.left, node.right):
            operand = _under_cast(side, wanted)
            if isinstance(operand, Attribute):
                sides.append(self.column(operand, wanted))
            elif attributes(side):
                return None
            else:
                value, error = evaluate(side, {})
                if not error:
                    value, error = cast(value, wanted)
                if error:
                    return Meaning(Truth(False, at), Truth(False, at), 1)
                sides.append(_const(value, at))
        columns = [side for side in sides if not isinstance(side, Const)]
        if len(columns) > 1 and wanted is str:
            return None
        left, right = sides
        op = "<>" if node.op == "!=" else node.op
        return _leaf(Compare(op, left, right, at), *columns)

    def like(self, node: Like) -> Meaning | None:
        operand = _under_cast(node.operand, str)
        if not isinstance(operand, Attribute):
            return None
        column, at = self.column(operand, str), node.span[0]
        found = _leaf(LikeText(column, escaped(node.pattern), ESCAPE, False, at), column)
        return _negated(found) if node.negated else found

    def in_list(self, node: In) -> Meaning | None:
        """A list of constants, each cast to the type of the attribute before it."""
        if not isinstance(node.operand, Attribute) or any(attributes(i) for i in node.items):
            return None
        constants = [evaluate(item, {}) for item in node.items]
        if any(constant.error for constant in constants):
            return None
        at = node.span[0]
        wanted = self.known_type(node.operand)
        column = self.column(node.operand, wanted or str)
        values = [cast(constant.value, wanted or str) for constant in constants]
        if wanted is not None:
            if any(value.error for value in values):
                return None
            items = tuple(_const(value.value, at) for value in values)
            found = _leaf(InList(column, items, False, at), column)
            return _negated(found) if node.negated else found
        # Of whatever type the attribute is, its text is that of an item, cast to that type.
        texts = {str(value.value): None for value in values}
        plain = True
        for type_ in (int, bool):
            casts = [cast(constant.value, type_) for constant in constants]
            fit = [str(cast(other.value, str).value) for other in casts if not other.error]
            plain &= not fit or (len(fit) == len(casts) and texts.keys() >= set(fit))
            texts |= dict.fromkeys(fit)
        listed = InList(column, tuple(Const(text, "string", at) for text in texts), False, at)
        whole = self.residual(node)
        if node.negated:
            whole = _negated(whole)
        # Where all items or none can be cast, and are written as they would be, that is all.
        whole = whole._replace(true=listed if plain else And((listed, whole.true), at))
        return _negated(whole) if node.negated else whole

    def as_it_is(self, node: Expression, strict: bool = False) -> Cesql:
        begin, end = node.span
        return Cesql(self.text[begin:end], strict, False, begin)

    def residual(self, node: Expression) -> Meaning:
        """An expression that is evaluated; where nothing is skipped, its attributes exist."""
        whole, at = self.as_it_is(node), node.span[0]
        negated = whole._replace(negated=True)
        if any(isinstance(part, Logic | In | Exists) for part in walk(node)):
            return Meaning(whole, negated, 1)
        there = tuple(self.exists(Exists(name, node.span)).true for name in attributes(node))
        there = tuple(sorted(there, key=str))
        size = 1 + len(there)
        return Meaning(And((*there, whole), at), And((*there, negated), at), size)

    # AND, OR -----------------------------------------------------------------------------------

    def logic(self, node: Logic) -> Meaning:
        """AND; and OR as the AND of what is FALSE instead."""
        parts = [self.meaning(part) for part in node.parts]
        if node.op == "OR":
            parts = [_negated(part) for part in parts]
        all_true = And(tuple(part.true for part in parts), node.span[0])
        some_false: list[Node] = []
        before: Columns | None = frozenset()  # that are not NULL if all parts so far are TRUE
        so_far: list[Node] = []
        size = total = 0
        for part in parts:
            guards = so_far
            if before is not None:
                given = part.if_false or frozenset()
                guards = [IsNull(c, True, c.at) for c in sorted(before - given, key=str)]
            some_false.append(_all((*guards, part.false)))
            size += part.size + (total if before is None else len(guards))
            so_far = [*so_far, part.true]
            total += part.size
            if size > MAX_SIZE:
                return self.residual(node)
            before = None if before is None or part.if_true is None else before | part.if_true
        first = parts[0].if_true
        alike = first is not None and first == parts[0].if_false
        if alike:
            alike = all(
                part.if_true is not None and part.if_true == part.if_false and part.if_true <= first  # type: ignore[operator]
                for part in parts
            )
        false = Or(tuple(some_false), node.span[0])
        found = Meaning(all_true, false, size, before, first if alike else None)
        return _negated(found) if node.op == "OR" else found


_NOTHING: tuple[Columns, Columns] = (frozenset(), frozenset())


def _negated(meaning: Meaning) -> Meaning:
    true, false, size, if_true, if_false = meaning
    return Meaning(false, true, size, if_false, if_true)


def _leaf(condition: Node, *columns: Message | Cast) -> Meaning:
    """A condition of our language that is UNKNOWN where one of its columns is NULL."""
    needs = frozenset(column._replace(at=0) for column in columns)
    return Meaning(condition, Not(condition, condition.at), 1, needs, needs)


def _under_cast(node: Expression, wanted: type) -> Expression:
    """What is below an explicit cast to the type that is wanted anyway."""
    if isinstance(node, Call) and wanted is not bool and CASTS.get(node.name) is wanted:
        return node.arguments[0]
    return node


def _const(value: Value, at: int) -> Const:
    type_ = TYPES[type(value)]
    return Const(float(value) if type_ == "number" else value, type_, at)


def _all(parts: tuple[Node, ...]) -> Node:
    return parts[0] if len(parts) == 1 else And(parts, parts[0].at)
