"""Why a profile matched, or what kept it away: read off the rows that the engine tests.

The truth of every predicate comes from the same kernels that match messages; this module only
puts compiled predicates back into words, with the values on both sides.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.context import Contexts, Strings
from germane.filter.messages import Messages
from germane.filter.texts import Texts
from germane.index.conjunctions import Conjunctions, Shape
from germane.kernels import conjunctions as op
from germane.model import Schema

BINARY = {
    op.ADD: "+", op.SUBTRACT: "-", op.MULTIPLY: "*", op.DIVIDE: "/", op.EQUAL: "=",
    op.UNEQUAL: "<>", op.LESS: "<", op.LESS_EQUAL: "<=", op.GREATER: ">",
    op.GREATER_EQUAL: ">=", op.AND: "AND", op.OR: "OR",
}  # fmt: skip
TRUTH = {True: "TRUE", False: "FALSE", None: "UNKNOWN"}


class Step(NamedTuple):
    """One predicate of a conjunction: its text, its truth, and the values on both sides."""

    text: str
    truth: bool | None
    left: Any
    right: Any

    def __str__(self) -> str:
        mark = {True: "✓", False: "✗", None: "?"}[self.truth]
        sides = f"   [{self.left!r} against {self.right!r}]" if self.right is not None else ""
        if self.right is None and self.left is not None:
            sides = f"   [{self.left!r}]"
        return f"{mark} {self.text}: {TRUTH[self.truth]}{sides}"


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
    ) -> None:
        self.row = row
        self.conjunctions = conjunctions
        self.shape: Shape = conjunctions.shapes[conjunctions.shape[row]]
        self.messages = messages.attributes
        self.contexts = [""] * contexts.n_slots
        for name, slots in contexts.slots.items():
            for slot in slots:
                self.contexts[slot] = name
        self.schema = schema
        self.strings = strings
        self.texts = texts

    def value(self, key: float, type_: str | None) -> Any:
        """A key as the value it stands for."""
        if key != key:
            return None
        if type_ == "string":
            try:
                return self.strings.text(key)
            except KeyError:
                return None
        if type_ == "boolean":
            return bool(key)
        if type_ == "timestamp":
            return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=key)).isoformat()
        return int(key) if abs(key) < 1e15 and key == int(key) else float(key)

    def literal(self, key: float, type_: str | None) -> str:
        """A constant as a condition would write it."""
        if abs(key) == np.inf:
            return "infinity" if key > 0 else "-infinity"
        value = self.value(key, type_)
        if type_ == "string":
            return "'" + str(value).replace("'", "''") + "'"
        if type_ == "timestamp":
            return f"TIMESTAMP '{value}'"
        return str(value).upper() if type_ == "boolean" else str(value)

    def bound(self, form: int, side: int) -> str:
        """One bound of an interval predicate."""
        f = self.shape.forms[form]
        constant = self.conjunctions.constant(self.row, 2 * form + side)
        type_ = self.schema.type_of(self.messages[f.attribute])
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

    def program_texts(self, code: tuple[tuple[int, int, int], ...]) -> list[tuple[str, int, int]]:
        """The conjuncts of a program: (text, first and last instruction)."""
        stack: list[tuple[str, int, int, bool]] = []
        for at, (operation, first, second) in enumerate(code):
            if operation in BINARY:
                right, left = stack.pop(), stack.pop()
                text = f"({left[0]} {BINARY[operation]} {right[0]})"
                stack.append((text, left[1], at + 1, operation == op.AND))
            elif operation in (op.NEGATE, op.ABSOLUTE, op.NOT, op.IS_NULL):
                inner = stack.pop()
                pattern = {
                    op.NEGATE: "-{}", op.ABSOLUTE: "ABS({})", op.NOT: "NOT {}",
                    op.IS_NULL: "({} IS NULL)",
                }[operation]  # fmt: skip
                stack.append((pattern.format(inner[0]), inner[1], at + 1, False))
            elif operation == op.DISTANCE:
                names = [stack.pop() for _ in range(4)]
                text = f"DISTANCE({names[3][0]}, {names[1][0]})"
                stack.append((text, names[3][1], at + 1, False))
            else:
                stack.append((self._leaf(operation, first, second), at, at + 1, False))
        return [(text.removeprefix("(").removesuffix(")") if text.startswith("(") else text, a, b)
                for text, a, b, _ in stack]  # fmt: skip

    def _leaf(self, operation: int, first: int, second: int) -> str:
        if operation == op.MESSAGE:
            return self.messages[first]
        if operation == op.CONTEXT:
            return f"context.{self.contexts[first]}"
        if operation == op.TRUTH:
            return {1: "TRUE", 0: "FALSE"}.get(first, "UNKNOWN")
        constant = self.conjunctions.constant(self.row, first)
        if operation == op.CONSTANT:
            return self.literal(constant, "string" if self.shape.texts[first] else "number")
        text = self.texts.keys[int(constant)]
        if text[0] != "like":
            return f"({text[1]} {text[0]} {text[2]})"
        name = text[1] if operation == op.MESSAGE_TEXT else f"context.{self.contexts[second]}"
        escape = f" ESCAPE '{text[3]}'" if text[3] else ""
        pattern = text[2].replace("'", "''")
        return f"({name} LIKE '{pattern}'{escape})"


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
) -> tuple[Step, ...]:
    """The predicates of one row, each with its truth for a message now."""
    reader = _Reader(row, conjunctions, contexts, messages, schema, strings, texts)
    rows, shapes, forms, code_pool, pool = conjunctions.view
    values = contexts.values
    shape = shapes[rows[row]["shape"]]
    first = int(shape["first"])
    bounds = (first, rows, forms, pool, values)
    steps = []
    for form, f in enumerate(reader.shape.forms):
        value = vector[f.attribute]
        low = op.low_bound(row, first + form, *bounds)
        high = op.high_bound(row, first + form, *bounds)
        truth: bool | None = bool(op.holds(value, row, first + form, *bounds))
        name = reader.messages[f.attribute]
        type_ = schema.type_of(name)
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
        for text, begin, end in reader.program_texts(code):
            a, b = start + begin, start + end
            result = op.UNSEEN
            while result == op.UNSEEN:
                result = op.run(a, b, row, vector, rows, code_pool, pool, values, *texts.view)
                if result == op.UNSEEN:
                    texts.answer(message)
            known = None if result != result else bool(result)
            steps.append(Step(text, known, _read_values(code, begin, end, reader, vector, values,
                              int(rows[row]["context"])), None))  # fmt: skip
    return tuple(steps)


def _read_values(
    code: tuple[tuple[int, int, int], ...],
    begin: int,
    end: int,
    reader: _Reader,
    vector: NDArray[np.float64],
    values: NDArray[np.float64],
    context: int,
) -> dict[str, Any] | None:
    """The attribute values that a predicate read, by name."""
    found: dict[str, Any] = {}
    for operation, first, second in code[begin:end]:
        if operation == op.MESSAGE:
            name = reader.messages[first]
            found[name] = reader.value(vector[first], reader.schema.type_of(name))
        elif operation in (op.CONTEXT, op.CONTEXT_TEXT):
            slot = first if operation == op.CONTEXT else second
            name = reader.contexts[slot]
            key = values[slot, context]
            found[f"context.{name}"] = reader.value(key, reader.schema.type_of(name))
    return found or None
