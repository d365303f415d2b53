"""What a CESQL expression is for one event: a value, and the first error on the way.

In: an expression, and an event's attributes as germane's messages hold them. Out: (value, error),
where error is None or one of the suite's words. Every operator is total. One that an operand's
error reaches returns the zero value of its type; one that fails by itself goes on with what the
specification says a failed cast, division or function returns.

Integers have 32 bits, and what leaves them is a "math" error. An integer becomes a boolean only
where BOOL is written: the suite wants a "cast" error from `NOT 10`. Cost: one visit per node, and
AND and OR stop as soon as they know.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from germane.language.cesql.expressions import (
    ARITHMETIC,
    Attribute,
    Binary,
    Call,
    Exists,
    Expression,
    In,
    Like,
    Literal,
    Logic,
    Unary,
    Value,
    type_of,
)
from germane.language.like import Pattern

__all__ = ["Result", "cast", "evaluate", "raw", "value_of"]

CAST, MATH, MISSING, FUNCTION = "cast", "math", "missingAttribute", "functionEvaluation"
LOWEST, HIGHEST = -(2**31), 2**31 - 1
ESCAPE = "\\"
OWN_ID = "ce.id"
"""Where messages whose `id` is not an attribute keep the event's own."""
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


class Result(NamedTuple):
    """A value, and an error or None."""

    value: Value
    error: str | None = None


def raw(message: Mapping[str, Any], name: str) -> Any:
    """An attribute as the message has it; `id` is the event's own id."""
    if name == "id":
        own = message.get(OWN_ID)
        return message.get("id") if own is None else own
    return message.get(name)


def value_of(value: Any) -> Value | None:
    """A message's value as one of CESQL's three types; None where there is none.

    What is neither a string, a boolean nor an integer of 32 bits is a string.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if hasattr(value, "dtype"):  # numpy's scalars
        if value.dtype.kind == "M":
            value = value.astype("datetime64[us]")
        return value_of(None if value != value else value.item())
    if isinstance(value, int | float | Decimal):
        return _number(value)
    if isinstance(value, date):
        return None if value != value else _moment(value)
    return json.dumps(value, default=str, ensure_ascii=False)


def _number(value: Any) -> Value | None:
    if value != value:
        return None
    if LOWEST <= value <= HIGHEST and value == int(value):
        return int(value)
    return str(int(value)) if abs(value) < 1e21 and value == int(value) else str(value)


def _moment(value: date) -> str:
    """RFC 3339."""
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    text = value.isoformat()
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def cast(value: Value, wanted: type, explicit: bool = False) -> Result:
    """A value as another type."""
    if type(value) is wanted:
        return Result(value)
    if wanted is str:
        return Result(str(value).lower() if isinstance(value, bool) else str(value))
    if wanted is int:
        if not isinstance(value, str):
            return Result(int(value))
        if _INTEGER.fullmatch(value) and LOWEST <= _int(value) <= HIGHEST:
            return Result(_int(value))
        return Result(0, CAST)
    if isinstance(value, str):
        word = value.lower()
        return Result(word == "true", None if word in ("true", "false") else CAST)
    return Result(bool(value)) if explicit else Result(False, CAST)


def _int(digits: str) -> int:
    """The integer of a string of digits; of a long one, one that is too large."""
    plain = digits.lstrip("+-").lstrip("0")
    return int(digits) if len(plain) <= 10 else HIGHEST + 1


def evaluate(node: Expression, event: Mapping[str, Any]) -> Result:
    """What an expression is for an event.

    >>> from germane.language.cesql import parse
    >>> evaluate(parse("hop < ttl"), {"hop": "5", "ttl": 10})
    Result(value=True, error=None)
    """
    return EVALUATE[type(node)](node, event)


def _zero(node: Expression, error: str | None) -> Result:
    return Result((type_of(node) or bool)(), error)


def _literal(node: Literal, event: Mapping[str, Any]) -> Result:
    return Result(node.value)


def _attribute(node: Attribute, event: Mapping[str, Any]) -> Result:
    value = value_of(raw(event, node.name))
    return Result(False, MISSING) if value is None else Result(value)


def _exists(node: Exists, event: Mapping[str, Any]) -> Result:
    return Result(value_of(raw(event, node.name)) is not None)


def _unary(node: Unary, event: Mapping[str, Any]) -> Result:
    operand = evaluate(node.operand, event)
    if operand.error:
        return _zero(node, operand.error)
    if node.op == "NOT":
        value, error = cast(operand.value, bool)
        return Result(not value, error)
    value, error = cast(operand.value, int)
    return _fits(-value, error)  # type: ignore[operator]


def _fits(value: int, error: str | None) -> Result:
    """An integer, if it is one of 32 bits."""
    return Result(value, error) if LOWEST <= value <= HIGHEST else Result(0, error or MATH)


def _logic(node: Logic, event: Mapping[str, Any]) -> Result:
    decisive = node.op == "OR"
    for part in node.parts:
        found = evaluate(part, event)
        if found.error:
            return Result(False, found.error)
        value, error = cast(found.value, bool)
        if error:
            return Result(False, error)
        if value is decisive:
            return Result(decisive)
    return Result(not decisive)


def _binary(node: Binary, event: Mapping[str, Any]) -> Result:
    left = evaluate(node.left, event)
    if left.error:
        return _zero(node, left.error)
    right = evaluate(node.right, event)
    if right.error:
        return _zero(node, right.error)
    if node.op in ("=", "!="):
        value, error = cast(left.value, type(right.value))
        return Result((value == right.value) is (node.op == "="), error)
    wanted = bool if node.op == "XOR" else int
    a, error_a = cast(left.value, wanted)
    b, error_b = cast(right.value, wanted)
    error = error_a or error_b
    if node.op == "XOR":
        return Result(a is not b, error)
    assert isinstance(a, int)
    assert isinstance(b, int)
    return _arith(node.op, a, b, error) if node.op in ARITHMETIC else _order(node.op, a, b, error)


def _order(op: str, a: int, b: int, error: str | None) -> Result:
    if op in ("<", ">="):
        return Result((a < b) is (op == "<"), error)
    return Result((a > b) is (op == ">"), error)


def _arith(op: str, a: int, b: int, error: str | None) -> Result:
    if op in "/%" and b == 0:
        return Result(0, error or MATH)
    if op in "/%":
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return _fits(quotient if op == "/" else a - quotient * b, error)
    return _fits(a + b if op == "+" else a - b if op == "-" else a * b, error)


def _like(node: Like, event: Mapping[str, Any]) -> Result:
    operand = evaluate(node.operand, event)
    if operand.error:
        return _zero(node, operand.error)
    text = str(cast(operand.value, str).value)
    return Result(_pattern(node.pattern).matches(text) is not node.negated)


@lru_cache(4096)
def _pattern(pattern: str) -> Pattern:
    return Pattern.parse(escaped(pattern), ESCAPE)


def escaped(pattern: str) -> str:
    """A pattern whose every backslash escapes: CESQL has it do so before % and _ alone."""
    return re.sub(r"\\(?![%_])", r"\\\\", pattern)


def _in(node: In, event: Mapping[str, Any]) -> Result:
    operand = evaluate(node.operand, event)
    if operand.error:
        return _zero(node, operand.error)
    for item in node.items:
        found = evaluate(item, event)
        if found.error:
            return _zero(node, found.error)
        value, error = cast(found.value, type(operand.value))
        if error:
            return _zero(node, error)
        if value == operand.value:
            return Result(not node.negated)
    return Result(node.negated)


def _call(node: Call, event: Mapping[str, Any]) -> Result:
    values = []
    for argument in node.arguments:
        found = evaluate(argument, event)
        if found.error:
            return _zero(node, found.error)
        values.append(found.value)
    if node.name in CASTS:
        return cast(values[0], CASTS[node.name], explicit=True)
    wanted = TAKES.get(node.name, (str,) * len(values))
    error = None
    for i, value in enumerate(values):
        values[i], wrong = cast(value, wanted[i])
        error = error or wrong
    value, own = FUNCTIONS[node.name](*values)
    return Result(value, error or own)


def _left(text: str, n: int) -> Result:
    return Result(text, FUNCTION) if n < 0 else Result(text[:n])


def _right(text: str, n: int) -> Result:
    return Result(text, FUNCTION) if n < 0 else Result(text[max(len(text) - n, 0) :])


def _substring(text: str, at: int, n: int = HIGHEST) -> Result:
    if abs(at) > len(text) or n < 0:
        return Result("", FUNCTION)
    if at == 0:
        return Result("")
    begin = at - 1 if at > 0 else len(text) + at
    return Result(text[begin : begin + n])


def _abs(value: int) -> Result:
    return Result(HIGHEST, MATH) if value == LOWEST else Result(abs(value))


CASTS: dict[str, type] = {"INT": int, "BOOL": bool, "STRING": str}
TAKES: dict[str, tuple[type, ...]] = {
    "LEFT": (str, int),
    "RIGHT": (str, int),
    "SUBSTRING": (str, int, int),
    "ABS": (int,),
}
FUNCTIONS: dict[str, Callable[..., Result]] = {
    "LENGTH": lambda text: Result(len(text)),
    "CONCAT": lambda *texts: Result("".join(texts)),
    "CONCAT_WS": lambda between, *texts: Result(between.join(texts)),
    "LOWER": lambda text: Result(text.lower()),
    "UPPER": lambda text: Result(text.upper()),
    "TRIM": lambda text: Result(_trimmed(text)),
    "LEFT": _left,
    "RIGHT": _right,
    "SUBSTRING": _substring,
    "ABS": _abs,
}
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def _trimmed(text: str) -> str:
    """Without Unicode's white space at both ends (Python's strip also takes control characters)."""
    return text.strip(_SPACE)


EVALUATE: dict[type, Callable[[Any, Mapping[str, Any]], Result]] = {
    Literal: _literal,
    Attribute: _attribute,
    Exists: _exists,
    Unary: _unary,
    Logic: _logic,
    Binary: _binary,
    Like: _like,
    In: _in,
    Call: _call,
}
