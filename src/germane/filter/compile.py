"""Conjunctions of the language -> shapes and constants of the engine.

In: the literals of one conjunction (or, past the cap, a whole condition). Out: a ``Shape`` with
its constants. A comparison of one message attribute with a constant or with a bound that is
linear in one context attribute becomes an interval predicate, at most one per attribute; what
reads only the context becomes the context-only program; the rest is the residual program.

Exactness: a linear bound is compiled as factor * x + constant only where that is, operation for
operation, what the condition says; anything else stays a program. No algebra.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from germane.filter.templates import CHOSEN, Nodes
from germane.filter.texts import Texts
from germane.index.conjunctions import Form, Shape
from germane.kernels import conjunctions as op
from germane.language import tree
from germane.language.like import Pattern, successor
from germane.model.types import XML

READS = frozenset((tree.Message, tree.Cast))
"""Leaves that are attributes of the message."""
FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
ARITHMETIC = {"+": op.ADD, "-": op.SUBTRACT, "*": op.MULTIPLY, "/": op.DIVIDE}
COMPARISON = {
    "=": op.EQUAL,
    "<>": op.UNEQUAL,
    "<": op.LESS,
    "<=": op.LESS_EQUAL,
    ">": op.GREATER,
    ">=": op.GREATER_EQUAL,
}


class Side(NamedTuple):
    """One side of an interval: constant, or factor * context + constant."""

    constant: float
    open: bool = False
    context: int = -1
    factor: float = 1.0
    text: bool = False
    at: int = -1  # where its constant stands in the condition, or CHOSEN


LOWEST, HIGHEST = Side(-math.inf), Side(math.inf)


class Names(NamedTuple):
    """How names and strings become slots and labels."""

    message: Callable[[str], tuple[int, ...]]
    cast: Callable[[str, str], tuple[int, ...]]  # name, type -> its slot
    context: Callable[[str], tuple[int, ...]]
    type_of: Callable[[str], str | None]
    label: Callable[[str], float]
    category: Callable[[str, list[str]], float]  # type, names of nodes -> key
    graph: Callable[[str], int]  # type -> graph
    pattern: Callable[[str, float], float]  # text, threshold -> key
    texts: Texts

    def constant(self, type_: str, literals: list[str]) -> float:
        """The key of literals of a category, or of a pattern and its threshold."""
        if type_ == XML:
            return self.pattern(literals[0], float(literals[1]))
        return self.category(type_, literals)

    def slots(self, node: tree.Message | tree.Cast) -> tuple[int, ...]:
        """The slots of an attribute of the message, as it is or cast."""
        if type(node) is tree.Cast:
            return self.cast(node.name, node.type)
        return self.message(node.name)


def compile_row(
    literals: Iterable[tree.Node], names: Names
) -> tuple[Shape, list[float], list[int | Nodes]]:
    """One conjunction: a shape, its constants, and where in the text each constant stands."""
    return _Compiler(names).conjunction(literals)


def reads(node: tree.Node) -> tuple[bool, bool]:
    """Whether a node reads the message, and whether it reads the context."""
    message = context = False
    stack = [node]
    while stack:
        node = stack.pop()
        kind = type(node)
        if kind in READS or kind is tree.Cesql:
            message = True
        elif kind is tree.Context:
            context = True
        else:
            stack.extend(tree.children(node))
    return message, context


class _Compiler:
    def __init__(self, names: Names) -> None:
        self.names = names
        self.intervals: dict[int, tuple[Side, Side]] = {}
        self.null_only: set[int] = set()
        self.residual: list[tree.Node] = []
        self.waking: list[tree.Node] = []
        self.constants: list[float] = []
        self.texts: list[bool] = []
        self.origins: list[int | Nodes] = []

    def conjunction(
        self, literals: Iterable[tree.Node]
    ) -> tuple[Shape, list[float], list[int | Nodes]]:
        for literal in literals:
            if not self._as_interval(literal):
                self._as_program(literal)
        forms = []
        # In the order of slots, so that AND is commutative: the same shape either way round.
        for slot, (low, high) in sorted(self.intervals.items()):
            flags = (
                (op.LOW_CONTEXT if low.context >= 0 else 0)
                | (op.HIGH_CONTEXT if high.context >= 0 else 0)
                | (op.LOW_OPEN if low.open else 0)
                | (op.HIGH_OPEN if high.open else 0)
            )
            forms.append(
                Form(
                    slot, flags, max(low.context, 0), max(high.context, 0), low.factor, high.factor
                )
            )
            self.constants += (low.constant, high.constant)
            self.texts += (low.text, high.text)
            self.origins += (low.at, high.at)
        for slot in sorted(self.null_only):
            forms.append(Form(slot, op.ONLY_NULL))
            self.constants += (0.0, 0.0)
            self.texts += (False, False)
            self.origins += (-1, -1)
        program = self._code(self.residual)
        wakes = self._code(self.waking)
        shape = Shape(tuple(forms), program, wakes, tuple(self.texts))
        return shape, self.constants, self.origins

    # intervals -------------------------------------------------------------------------------

    def _as_interval(self, literal: tree.Node) -> bool:
        kind = type(literal)
        if kind is tree.Compare:
            return self._compare(literal)  # type: ignore[arg-type]
        if kind is tree.IsNull:
            return self._is_null(literal)  # type: ignore[arg-type]
        if kind is tree.Like:
            return self._like(literal)  # type: ignore[arg-type]
        if kind is tree.InBox:
            return self._in_box(literal)  # type: ignore[arg-type]
        return False

    def _compare(self, literal: tree.Compare) -> bool:
        operation, left, right = literal.op, literal.left, literal.right
        if operation == "<>":
            return False
        if type(left) not in READS:
            if type(right) not in READS:
                return False
            left, right, operation = right, left, FLIPPED[operation]
        side = self._side(right)
        if side is None:
            return False
        slot = self.names.slots(left)[0]  # type: ignore[arg-type]
        if operation == "=":
            return self._restrict(slot, side, side)
        if operation in "<=":
            return self._restrict(slot, LOWEST, side._replace(open=operation == "<"))
        return self._restrict(slot, side._replace(open=operation == ">"), HIGHEST)

    def _is_null(self, literal: tree.IsNull) -> bool:
        if type(literal.operand) not in READS:
            return False
        slot = self.names.slots(literal.operand)[0]  # type: ignore[arg-type]
        if literal.negated:
            return self._restrict(slot, LOWEST, HIGHEST)
        if slot in self.intervals:
            return False
        self.null_only.add(slot)
        return True

    def _like(self, literal: tree.Like) -> bool:
        if literal.negated or type(literal.operand) not in READS:
            return False
        slot = self.names.slots(literal.operand)[0]  # type: ignore[arg-type]
        pattern = Pattern.parse(literal.pattern, literal.escape)
        label = self.names.label
        prefix = pattern.prefix
        if pattern.is_literal:
            side = Side(label(prefix), text=True)
            return self._restrict(slot, side, side)
        if not prefix:
            return pattern.is_prefix and self._restrict(slot, LOWEST, HIGHEST)
        above = successor(prefix)
        high = HIGHEST if above is None else Side(label(above), open=True, text=True)
        fits = self._restrict(slot, Side(label(prefix), text=True), high)
        return fits and pattern.is_prefix

    def _in_box(self, literal: tree.InBox) -> bool:
        if literal.negated or type(literal.operand) is not tree.Message:
            return False
        if literal.west > literal.east or self.null_only:
            return False
        latitude, longitude = self.names.message(literal.operand.name)
        if {latitude, longitude} & self.intervals.keys():
            return False
        self._restrict(latitude, Side(literal.south), Side(literal.north))
        return self._restrict(longitude, Side(literal.west), Side(literal.east))

    def _restrict(self, slot: int, low: Side, high: Side) -> bool:
        """Intersect what is known of an attribute; False where one interval cannot say it."""
        if slot in self.null_only:
            return False
        known = self.intervals.get(slot)
        if known is None:
            self.intervals[slot] = (low, high)
            return True
        both_low = _tighter(known[0], low, LOWEST)
        both_high = _tighter(known[1], high, HIGHEST)
        if both_low is None or both_high is None:
            return False
        self.intervals[slot] = (both_low, both_high)
        return True

    def _side(self, node: tree.Node) -> Side | None:
        """A bound, where it is a constant or linear in one context attribute."""
        kind = type(node)
        if kind is tree.Const:
            return Side(self._key(node), text=node.type == "string", at=node.at)  # type: ignore[arg-type, union-attr]
        product = self._product(node)
        if product is not None:
            return Side(0.0, False, *product, at=CHOSEN if _is_scaled(node) else -1)
        if kind is not tree.Arith or node.op not in "+-":  # type: ignore[union-attr]
            return None
        left, right, sign = node.left, node.right, 1.0 if node.op == "+" else -1.0  # type: ignore[union-attr]
        if type(right) is tree.Const:
            product, constant, at = self._product(left), sign * float(right.value), right.at
            if sign < 0.0:
                at = node.at
        elif type(left) is tree.Const:
            product, constant, at = self._product(right), float(left.value), left.at
            product = product and (product[0], sign * product[1])
        else:
            return None
        if product is None:
            return None
        at = CHOSEN if _is_scaled(left) or _is_scaled(right) else at
        return Side(constant, False, *product, at=at)

    def _product(self, node: tree.Node) -> tuple[int, float] | None:
        """(slot, factor) of a context attribute, negated or times a constant."""
        kind = type(node)
        if kind is tree.Context:
            return self.names.context(node.name)[0], 1.0  # type: ignore[union-attr]
        if kind is tree.Negate:
            inner = node.operand  # type: ignore[union-attr]
            return (
                (self.names.context(inner.name)[0], -1.0) if type(inner) is tree.Context else None
            )
        if kind is tree.Arith and node.op == "*":  # type: ignore[union-attr]
            a, b = node.left, node.right  # type: ignore[union-attr]
            if type(a) is tree.Const:
                a, b = b, a
            if type(a) is tree.Context and type(b) is tree.Const:
                return self.names.context(a.name)[0], float(b.value)
        return None

    def _key(self, node: tree.Const) -> float:
        if node.type == "string":
            return self.names.label(node.value)  # type: ignore[arg-type]
        return float(node.value)

    # programs --------------------------------------------------------------------------------

    def _as_program(self, literal: tree.Node) -> None:
        message, context = reads(literal)
        (self.waking if context and not message else self.residual).append(literal)

    def _code(self, literals: list[tree.Node]) -> tuple[tuple[int, int, int], ...]:
        code: list[tuple[int, int, int]] = []
        for i, literal in enumerate(literals):
            self._emit(literal, code)
            if i:
                code.append((op.AND, 0, 0))
        return tuple(code)

    def _constant(self, value: float, text: bool = False, at: int | Nodes = -1) -> int:
        self.constants.append(value)
        self.texts.append(text)
        self.origins.append(at)
        return len(self.constants) - 1

    def _emit(self, node: tree.Node, code: list[tuple[int, int, int]]) -> None:
        EMIT[type(node)](self, node, code)

    def _emit_const(self, node: tree.Const, code: list[Any]) -> None:
        number = self._constant(self._key(node), node.type == "string", node.at)
        code.append((op.CONSTANT, number, 0))

    def _emit_message(self, node: tree.Message, code: list[Any]) -> None:
        code.extend((op.MESSAGE, slot, 0) for slot in self.names.message(node.name))

    def _emit_cast(self, node: tree.Cast, code: list[Any]) -> None:
        code.extend((op.MESSAGE, slot, 0) for slot in self.names.slots(node))

    def _emit_cesql(self, node: tree.Cesql, code: list[Any]) -> None:
        self._emit_text(("cesql", node.text, node.strict), code)
        if node.negated:
            code.append((op.NOT, 0, 0))

    def _emit_context(self, node: tree.Context, code: list[Any]) -> None:
        slots = self.names.context(node.name)
        code.extend((op.CONTEXT, slot, 0) for slot in slots)
        if not slots:  # nobody has it
            n = 2 if self.names.type_of(node.name) == "location" else 1
            code.extend((op.TRUTH, -1, 0) for _ in range(n))

    def _emit_arith(self, node: tree.Arith, code: list[Any]) -> None:
        self._emit(node.left, code)
        self._emit(node.right, code)
        code.append((ARITHMETIC[node.op], 0, 0))

    def _emit_negate(self, node: tree.Negate, code: list[Any]) -> None:
        self._emit(node.operand, code)
        code.append((op.NEGATE, 0, 0))

    def _emit_abs(self, node: tree.Abs, code: list[Any]) -> None:
        self._emit(node.operand, code)
        code.append((op.ABSOLUTE, 0, 0))

    def _emit_distance(self, node: tree.Distance, code: list[Any]) -> None:
        self._emit(node.left, code)
        self._emit(node.right, code)
        code.append((op.DISTANCE, 0, 0))

    def _emit_compare(self, node: tree.Compare, code: list[Any]) -> None:
        self._emit_comparison(node.op, node.left, node.right, code)

    def _emit_comparison(
        self, operation: str, left: tree.Node, right: tree.Node, code: list[Any]
    ) -> None:
        if type(left) is tree.Message and type(right) is tree.Message:
            if self.names.type_of(left.name) in (None, "string"):
                self._emit_text((operation, left.name, right.name), code)
                return
        self._emit(left, code)
        self._emit(right, code)
        code.append((COMPARISON[operation], 0, 0))

    def _emit_text(self, key: tuple[Any, ...], code: list[Any]) -> None:
        number = self.names.texts.number(key)
        code.append((op.MESSAGE_TEXT, self._constant(float(number)), 0))

    def _emit_in(self, node: tree.In, code: list[Any]) -> None:
        for i, item in enumerate(node.items):
            self._emit_comparison("=", node.operand, item, code)
            if i:
                code.append((op.OR, 0, 0))
        if node.negated:
            code.append((op.NOT, 0, 0))

    def _emit_like(self, node: tree.Like, code: list[Any]) -> None:
        operand = node.operand
        if type(operand) is tree.Message:
            self._emit_text(("like", operand.name, node.pattern, node.escape), code)
        elif type(operand) is tree.Cast:
            self._emit_text(("like cast", operand.name, node.pattern, node.escape), code)
        elif type(operand) is tree.Context:
            slots = self.names.context(operand.name)
            if slots:
                number = self.names.texts.number(("like", None, node.pattern, node.escape))
                code.append((op.CONTEXT_TEXT, self._constant(float(number)), slots[0]))
            else:  # nobody has it
                code.append((op.TRUTH, -1, 0))
        else:
            matches = Pattern.parse(node.pattern, node.escape).matches(operand.value)  # type: ignore[union-attr, arg-type]
            code.append((op.TRUTH, int(matches), 0))
        if node.negated:
            code.append((op.NOT, 0, 0))

    def _emit_is_null(self, node: tree.IsNull, code: list[Any]) -> None:
        before = len(code)
        self._emit(node.operand, code)
        if isinstance(node.operand, tree.Message | tree.Context):
            del code[before + 1 :]  # of a location, the latitude
        code.append((op.IS_NULL, 0, 0))
        if node.negated:
            code.append((op.NOT, 0, 0))

    def _emit_within(self, node: tree.Within, code: list[Any]) -> None:
        sides = (node.lower, node.upper)
        attribute = next(side[0] for side in sides if type(side[0]) is not tree.Const)
        type_ = self.names.type_of(attribute.name)  # type: ignore[union-attr]
        assert type_ is not None
        for side in sides:
            if type(side[0]) is tree.Const:
                key = self.names.category(type_, [str(item.value) for item in side])  # type: ignore[union-attr]
                origin = Nodes(type_, tuple(item.at for item in side))
                code.append((op.CONSTANT, self._constant(key, at=origin), 0))
            else:
                self._emit(side[0], code)
        code.append((op.WITHIN, self.names.graph(type_), int(node.word == "CONTAINS")))
        if node.negated:
            code.append((op.NOT, 0, 0))

    def _emit_in_box(self, node: tree.InBox, code: list[Any]) -> None:
        sides: list[list[Any]] = [[], []]
        both: list[Any] = []
        self._emit(node.operand, both)
        half = len(both) // 2
        for side, part in zip(sides, (both[:half], both[half:]), strict=True):
            side += part
        joined = op.AND if node.west <= node.east else op.OR
        for number, (side, low, high, join) in enumerate(
            (
                (sides[0], node.south, node.north, op.AND),
                (sides[1], node.west, node.east, joined),
            )
        ):
            for operation, bound in ((op.GREATER_EQUAL, low), (op.LESS_EQUAL, high)):
                code += side
                code.append((op.CONSTANT, self._constant(bound), 0))
                code.append((operation, 0, 0))
            code.append((join, 0, 0))
            if number:
                code.append((op.AND, 0, 0))
        if node.negated:
            code.append((op.NOT, 0, 0))

    def _emit_matches(self, node: tree.Matches, code: list[Any]) -> None:
        """As categories: the document's patterns are WITHIN this one."""
        self._emit(node.operand, code)
        key = self.names.pattern(node.pattern, node.threshold)
        origin = Nodes(XML, (node.pattern_at, node.threshold_at))
        code.append((op.CONSTANT, self._constant(key, at=origin), 0))
        code.append((op.WITHIN, self.names.graph(XML), 0))
        if node.negated:
            code.append((op.NOT, 0, 0))

    def _emit_truth(self, node: tree.Truth, code: list[Any]) -> None:
        code.append((op.TRUTH, -1 if node.value is None else int(node.value), 0))

    def _emit_parts(self, node: tree.And | tree.Or, code: list[Any]) -> None:
        for i, part in enumerate(node.parts):
            self._emit(part, code)
            if i:
                code.append((op.AND if type(node) is tree.And else op.OR, 0, 0))

    def _emit_not(self, node: tree.Not, code: list[Any]) -> None:
        self._emit(node.operand, code)
        code.append((op.NOT, 0, 0))


EMIT: dict[type, Callable[[_Compiler, Any, list[Any]], None]] = {
    tree.Const: _Compiler._emit_const,
    tree.Message: _Compiler._emit_message,
    tree.Cast: _Compiler._emit_cast,
    tree.Cesql: _Compiler._emit_cesql,
    tree.Context: _Compiler._emit_context,
    tree.Arith: _Compiler._emit_arith,
    tree.Negate: _Compiler._emit_negate,
    tree.Abs: _Compiler._emit_abs,
    tree.Distance: _Compiler._emit_distance,
    tree.Compare: _Compiler._emit_compare,
    tree.In: _Compiler._emit_in,
    tree.Like: _Compiler._emit_like,
    tree.IsNull: _Compiler._emit_is_null,
    tree.Within: _Compiler._emit_within,
    tree.InBox: _Compiler._emit_in_box,
    tree.Matches: _Compiler._emit_matches,
    tree.Truth: _Compiler._emit_truth,
    tree.And: _Compiler._emit_parts,
    tree.Or: _Compiler._emit_parts,
    tree.Not: _Compiler._emit_not,
}


def _is_scaled(node: tree.Node) -> bool:
    """Whether a literal becomes a factor, which is part of the shape."""
    return type(node) is tree.Arith and node.op == "*"


def _tighter(a: Side, b: Side, unbounded: Side) -> Side | None:
    """The tighter of two sides; None when only the context's values could tell.

    Where constants decide, the one that stays is CHOSEN: the same words with other constants may
    keep the other one.
    """
    if b == unbounded or a == b:
        return a
    if a == unbounded:
        return b
    if a.context >= 0 or b.context >= 0 or a.text != b.text:
        return None
    if a.constant == b.constant:
        stays = a if a.open else b
    elif unbounded is LOWEST:
        stays = a if a.constant > b.constant else b
    else:
        stays = a if a.constant < b.constant else b
    return stays._replace(at=CHOSEN)
