"""Why a profile matched, or what kept it away: read off the rows that the engine tests.

The truth of every predicate comes from the same kernels that match messages; this module only
puts compiled predicates back into words, with the values on both sides.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.category.sets import Categories
from germane.context import Contexts, Strings
from germane.filter.documents import DocumentPatterns
from germane.filter.messages import Messages
from germane.filter.texts import Texts
from germane.index.conjunctions import Conjunctions, Shape
from germane.kernels import conjunctions as op
from germane.model import Schema
from germane.model.types import CATEGORY, XML

BINARY = {
    op.ADD: "+", op.SUBTRACT: "-", op.MULTIPLY: "*", op.DIVIDE: "/", op.EQUAL: "=",
    op.UNEQUAL: "<>", op.LESS: "<", op.LESS_EQUAL: "<=", op.GREATER: ">",
    op.GREATER_EQUAL: ">=", op.AND: "AND", op.OR: "OR", op.WITHIN: "WITHIN",
}  # fmt: skip
UNARY = {
    op.NEGATE: "-{}", op.ABSOLUTE: "ABS({})", op.NOT: "NOT {}", op.IS_NULL: "({} IS NULL)",
}  # fmt: skip
TRUTH = {True: "TRUE", False: "FALSE", None: "UNKNOWN"}


class Step(NamedTuple):
    """One predicate of a conjunction: its text, its truth, and the values on both sides."""

    text: str
    truth: bool | None
    left: Any
    right: Any
    detail: str = ""  # more lines

    def __str__(self) -> str:
        mark = {True: "✓", False: "✗", None: "?"}[self.truth]
        sides = f"   [{self.left!r} against {self.right!r}]" if self.right is not None else ""
        if self.right is None and self.left is not None:
            sides = f"   [{self.left!r}]"
        lines = [f"{mark} {self.text}: {TRUTH[self.truth]}{sides}", *self.detail.splitlines()]
        return "\n      ".join(lines)


class Explanation(NamedTuple):
    """All conjunctions of a profile, each with its predicates."""

    profile: Any
    context: Any
    conjunctions: tuple[tuple[Step, ...], ...]

    @property
    def matched(self) -> bool:
        """Whether some conjunction is TRUE."""
        return any(all(step.truth is True for step in steps) for steps in self.conjunctions)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The predicates that decided: of a TRUE conjunction, else of the one nearest to it."""
        if not self.conjunctions:
            return (Step("FALSE", False, None, None),)
        return min(self.conjunctions, key=lambda steps: sum(s.truth is not True for s in steps))

    @property
    def text(self) -> str:
        """A few lines for a person."""
        who = f"profile {self.profile!r}"
        if self.context is not None:
            who += f" (context {self.context!r})"
        lines = [f"{who} {'matches' if self.matched else 'does not match'}"]
        shown = (self.steps,) if self.matched or not self.conjunctions else self.conjunctions
        for number, steps in enumerate(shown, 1):
            if len(shown) > 1:
                lines.append(f"  alternative {number} of {len(shown)}:")
            lines += [f"  {step}" for step in steps] or ["  ✓ no condition"]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text


class _Piece(NamedTuple):
    """What some instructions of a program, the last of them included, leave on the stack."""

    text: str
    begin: int
    end: int
    type: str | None = None  # of an attribute
    constant: float | None = None  # of a constant that is no string
    parts: tuple["_Piece", ...] = ()  # of an AND
    pattern: tuple[str, int] | None = None  # the attribute, and the pattern it should match


class _Reader:
    """Puts one row's predicates into words."""

    def __init__(
        self,
        row: int,
        conjunctions: Conjunctions,
        contexts: Contexts,
        messages: Messages,
        schema: Schema,
        strings: Strings,
        texts: Texts,
        categories: Categories,
        documents: DocumentPatterns,
    ) -> None:
        self.row = row
        self.documents = documents
        self.conjunctions = conjunctions
        self.shape: Shape = conjunctions.shapes[conjunctions.shape[row]]
        self.messages = messages.attributes
        self.sources = messages.sources
        self.slots = contexts.slots
        self.contexts = [""] * contexts.n_slots
        for name, slots in contexts.slots.items():
            for slot in slots:
                self.contexts[slot] = name
        self.schema = schema
        self.strings = strings
        self.texts = texts
        self.categories = categories

    def value(self, key: float, type_: str | None) -> Any:
        """A key as the value it stands for."""
        if key != key:
            return None
        if type_ == "string":
            try:
                return self.strings.text(key)
            except KeyError:
                return None
        if type_ is not None and type_.startswith(CATEGORY):
            names = self.categories.names(type_, key)
            return names[0] if len(names) == 1 else names
        if type_ == "boolean":
            return bool(key)
        if type_ == "timestamp":
            try:
                return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=key)).isoformat()
            except OverflowError:
                return str(np.datetime64(int(key), "us"))
        return int(key) if abs(key) < 1e15 and key == int(key) else float(key)

    def literal(self, key: float, type_: str | None) -> str:
        """A constant as a condition would write it."""
        if abs(key) == np.inf:
            return "infinity" if key > 0 else "-infinity"
        value = self.value(key, type_)
        if type_ == "string":
            return _quoted(str(value))
        if type_ == "timestamp":
            return f"TIMESTAMP '{value}'"
        return str(value).upper() if type_ == "boolean" else str(value)

    def bound(self, form: int, side: int) -> str:
        """One bound of an interval predicate."""
        f = self.shape.forms[form]
        constant = self.conjunctions.constant(self.row, 2 * form + side)
        type_ = self.sources[f.attribute][1]
        if not f.flags & (op.LOW_CONTEXT, op.HIGH_CONTEXT)[side]:
            return self.literal(constant, type_)
        name = f"context.{self.contexts[(f.low_context, f.high_context)[side]]}"
        factor = (f.low_factor, f.high_factor)[side]
        if factor != 1.0:
            name = f"-{name}" if factor == -1.0 else f"{name} * {self.literal(factor, 'number')}"
        if constant == 0.0:
            return name
        sign = "+" if constant > 0 else "-"
        return f"{name} {sign} {self.literal(abs(constant), 'number')}"

    def form_text(self, form: int) -> str:
        """An interval predicate."""
        f = self.shape.forms[form]
        name = self.messages[f.attribute]
        if f.flags & op.ONLY_NULL:
            return f"{name} IS NULL"
        low, high = self.bound(form, 0), self.bound(form, 1)
        if low == high and not f.flags & (op.LOW_OPEN | op.HIGH_OPEN):
            return f"{name} = {low}"
        parts = []
        if low != "-infinity":
            parts.append(f"{name} {'>' if f.flags & op.LOW_OPEN else '>='} {low}")
        if high != "infinity":
            parts.append(f"{name} {'<' if f.flags & op.HIGH_OPEN else '<='} {high}")
        return " AND ".join(parts) or f"{name} IS NOT NULL"

    def program_texts(self, code: tuple[tuple[int, int, int], ...]) -> list[_Piece]:
        """The conjuncts of a program."""
        stack: list[_Piece] = []
        self.code = code
        for at, (operation, first, second) in enumerate(code):
            if operation in BINARY:
                right, left = stack.pop(), stack.pop()
                stack.append(self._binary(operation, left, right, at + 1))
            elif operation in UNARY:
                inner = stack.pop()
                text = UNARY[operation].format(inner.text)
                stack.append(_Piece(text, inner.begin, at + 1, pattern=inner.pattern))
            elif operation == op.DISTANCE:
                *_, start, _, end, _ = stack
                del stack[-4:]
                text = f"DISTANCE({start.text}, {end.text})"
                stack.append(_Piece(text, start.begin, at + 1))
            else:
                stack.append(self._leaf(at, operation, first, second))
        found = []
        while stack:
            piece = stack.pop()
            if piece.parts:
                stack += piece.parts
                continue
            text = piece.text[1:-1] if piece.text.startswith("(") else piece.text
            found.append(piece._replace(text=text))
        return found[::-1]

    def _binary(self, operation: int, left: _Piece, right: _Piece, end: int) -> _Piece:
        if operation == op.WITHIN:
            return self._within(left, right, end)
        sides = [left.text, right.text]
        for i, (side, other) in enumerate(((left, right), (right, left))):
            if side.constant is not None and other.type in ("boolean", "timestamp"):
                sides[i] = self.literal(side.constant, other.type)
        text = f"({sides[0]} {BINARY[operation]} {sides[1]})"
        parts = (left, right) if operation == op.AND else ()
        return _Piece(text, left.begin, end, parts=parts)

    def _within(self, left: _Piece, right: _Piece, end: int) -> _Piece:
        """A predicate on categories."""
        type_ = left.type or right.type
        assert type_ is not None
        if type_ == XML:
            assert right.constant is not None
            number = int(right.constant)
            text = _quoted(self.documents.patterns.vertex(number).text)
            threshold = self.documents.patterns.threshold(number)
            text = f"({left.text} MATCHES {text} COST < {threshold:g})"
            return _Piece(text, left.begin, end, pattern=(left.text, number))
        texts = []
        for side in (left, right):
            text = side.text
            if side.constant is not None:
                nodes = [_quoted(name) for name in self.categories.names(type_, side.constant)]
                text = nodes[0] if len(nodes) == 1 else f"({', '.join(nodes)})"
            texts.append(text)
        if self.code[end - 1][2]:
            return _Piece(f"({texts[1]} CONTAINS {texts[0]})", left.begin, end)
        return _Piece(f"({texts[0]} WITHIN {texts[1]})", left.begin, end)

    def _leaf(self, at: int, operation: int, first: int, second: int) -> _Piece:
        if operation in (op.MESSAGE, op.CONTEXT):
            if operation == op.MESSAGE:
                return _Piece(self.messages[first], at, at + 1, self.sources[first][1])
            name = self.contexts[first]
            return _Piece(f"context.{name}", at, at + 1, self.schema.type_of(name))
        if operation == op.TRUTH:
            return _Piece({1: "TRUE", 0: "FALSE"}.get(first, "UNKNOWN"), at, at + 1)
        constant = self.conjunctions.constant(self.row, first)
        if operation == op.CONSTANT:
            if self.shape.texts[first]:
                return _Piece(self.literal(constant, "string"), at, at + 1)
            return _Piece(self.literal(constant, "number"), at, at + 1, constant=constant)
        text = self._text(self.texts.keys[int(constant)], operation, second)
        return _Piece(text, at, at + 1)

    def _text(self, key: tuple[Any, ...], operation: int, slot: int) -> str:
        """A text predicate."""
        if key[0] == "cesql":
            return f"({key[1]})"
        if key[0] not in ("like", "like cast"):
            return f"({key[1]} {key[0]} {key[2]})"
        name = f"STRING({key[1]})" if key[0] == "like cast" else key[1]
        name = name if operation == op.MESSAGE_TEXT else f"context.{self.contexts[slot]}"
        quoted = key[2].replace("'", "''")
        if not key[3]:
            return f"({name} LIKE '{quoted}')"
        escape = key[3].replace("'", "''")
        return f"({name} LIKE '{quoted}' ESCAPE '{escape}')"

    def read(
        self,
        code: tuple[tuple[int, int, int], ...],
        message: Mapping[str, Any],
        owner: NDArray[np.float64],
    ) -> dict[str, Any] | None:
        """The attribute values that a predicate read, by name."""
        found: dict[str, Any] = {}
        for operation, first, second in code:
            if operation == op.MESSAGE:
                source = self.sources[first][0]
                found[source] = message.get(source)
            elif operation == op.MESSAGE_TEXT:
                key = self.texts.keys[int(self.conjunctions.constant(self.row, first))]
                for name in self.texts.names_of(key):
                    found[name] = message.get(name)
            elif operation in (op.CONTEXT, op.CONTEXT_TEXT):
                name = self.contexts[first if operation == op.CONTEXT else second]
                type_ = self.schema.type_of(name)
                values = [self.value(owner[slot], type_) for slot in self.slots[name]]
                whole = len(values) == 1 or values[0] is None
                found[f"context.{name}"] = values[0] if whole else tuple(values)
        return found or None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def explain_row(
    row: int,
    vector: NDArray[np.float64],
    message: Mapping[str, Any],
    conjunctions: Conjunctions,
    contexts: Contexts,
    messages: Messages,
    schema: Schema,
    strings: Strings,
    texts: Texts,
    categories: Categories,
    documents: DocumentPatterns,
) -> tuple[Step, ...]:
    """The predicates of one row, each with its truth for a message now."""
    reader = _Reader(
        row, conjunctions, contexts, messages, schema, strings, texts, categories, documents
    )
    rows, owner, shapes, forms, code_pool, pool = conjunctions.view
    values = contexts.values
    shape = shapes[rows[row]["shape"]]
    first = int(shape["first"])
    bounds = (first, rows, owner, forms, pool, values)
    steps = []
    for form, f in enumerate(reader.shape.forms):
        value = vector[f.attribute]
        low = op.low_bound(row, first + form, *bounds)
        high = op.high_bound(row, first + form, *bounds)
        truth: bool | None = bool(op.holds(value, row, first + form, *bounds))
        name, type_ = reader.sources[f.attribute]
        if f.flags & op.ONLY_NULL:
            steps.append(Step(reader.form_text(form), truth, message.get(name), None))
            continue
        if not truth and (value != value or low != low or high != high):
            truth = None
        ends = [reader.value(end, type_) for end in (low, high) if abs(end) != np.inf]
        right = ends[0] if len(set(ends)) == 1 else (tuple(ends) or None)
        steps.append(Step(reader.form_text(form), truth, message.get(name), right))
    texts.forget()
    for code, start in (
        (reader.shape.wakes, int(shape["wakes"])),
        (reader.shape.program, int(shape["program"])),
    ):
        for piece in reader.program_texts(code):
            text, begin, end = piece.text, piece.begin, piece.end
            a, b = start + begin, start + end
            result = op.UNSEEN
            while result == op.UNSEEN:
                result = op.run(
                    a,
                    b,
                    row,
                    vector,
                    rows,
                    owner,
                    code_pool,
                    pool,
                    values,
                    *texts.view,
                    categories.places,
                )
                if result == op.UNSEEN:
                    texts.answer(message)
            known = None if result != result else bool(result)
            if piece.pattern is not None:
                value = message.get(piece.pattern[0])
                cost, detail = documents.explain(piece.pattern[1], value)
                steps.append(Step(text, known, cost, None, detail))
                continue
            nobody = np.full(len(values), np.nan)
            known_values = values[:, owner[row]] if owner[row] >= 0 else nobody
            read = reader.read(code[begin:end], message, known_values)
            steps.append(Step(text, known, read, None))
    return tuple(steps)
