"""What the parser says when a condition is wrong.

In: the text, the position and the kind of the offending token. Out: a `ConditionError` with what
was expected, what was found, and the nearest word. Only refused conditions come here, so clarity
goes before speed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from germane.language import lexer
from germane.model.errors import ConditionError

__all__ = ["FUNCTIONS", "chained", "no_function", "too_deep", "too_long", "unexpected"]

FUNCTIONS = ("ABS", "DISTANCE")
OPERATORS = ("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "IS", "WITHIN", "CONTAINS", "MATCHES")
STARTS = ("NOT", "TRUE", "FALSE", "TIMESTAMP", *FUNCTIONS)
SIGNS = {"EQ": "=", "NE": "<>", "LT": "<", "LE": "<=", "GT": ">", "GE": ">=", "ISNULL": "IS NULL"}

_FOUND = re.compile(r"'[^']*'?|\"[^\"]*\"?|\w+|[<>=!]+|\S")


def unexpected(text: str, at: int, kind: int, expected: str) -> ConditionError:
    """A token that cannot stand where it stands."""
    match = _FOUND.match(text, at)
    found = match[0] if match else ""
    if kind == lexer.END:
        return ConditionError(f"expected {expected}, found the end", text, at, expected)
    if kind == lexer.NULL:
        message = "NULL equals nothing, not even NULL; test for it with IS NULL or IS NOT NULL"
        return ConditionError(message, text, at, expected, "IS NULL")
    if kind == lexer.COMPARE and text[:at].rstrip()[-1:] in tuple("=<>!"):
        message = f"two comparison operators in a row; expected {expected}"
        return ConditionError(message, text, at, expected, operator_before(text, at, found))
    if kind == lexer.RESERVED_WORD and found.upper() == "CONTEXT":
        message = f"expected {expected}, found 'context' without an attribute"
        return ConditionError(message, text, at, expected, "context.name")
    if kind == lexer.NOT:
        message = f"expected {expected}, found {found!r}; put NOT and its condition in parentheses"
        return ConditionError(message, text, at, expected)
    suggestion = None
    operand_wanted = expected.startswith(("a value", "a condition"))
    if kind in (lexer.MATCH, lexer.RESERVED_WORD) and operand_wanted:
        message = f"{found.upper()} is a reserved word; as a name, it stands in double quotes"
        return ConditionError(message, text, at, expected, f'"{found}"')
    if kind == lexer.LEAF and not operand_wanted:
        suggestion = SIGNS.get(found.upper()) or nearest(found, (*OPERATORS, "NULL", "ESCAPE"))
    if found == "+" and operand_wanted:
        message = f"expected {expected}, found '+'; a number needs no plus sign"
        return ConditionError(message, text, at, expected)
    return ConditionError(
        f"expected {expected}, found {shorten(found)}", text, at, expected, suggestion
    )


def operator_before(text: str, at: int, found: str) -> str | None:
    """The one operator that `= =` and the like stand for."""
    before = text[:at].rstrip()
    both = before[len(before.rstrip("=<>!")) :] + found
    return {"==": "=", "===": "=", "=<": "<=", "=>": ">=", "!==": "<>", "><": "<>"}.get(both)


def chained(text: str, at: int) -> ConditionError:
    """`a < b < c`."""
    return ConditionError(
        "comparisons do not chain; write a < b AND b < c, x BETWEEN a AND c, or use parentheses",
        text,
        at,
        "AND, OR or the end",
    )


def no_function(text: str, at: int, word: str) -> ConditionError:
    """`word(`, where no such function exists."""
    near = nearest(word, (*FUNCTIONS, *OPERATORS))
    known = " and ".join(FUNCTIONS)
    message = f"there is no function {word}; the functions are {known}"
    return ConditionError(message, text, at, "a function or an operator", near)


def too_deep(text: str, at: int, limit: int) -> ConditionError:
    """Nesting beyond what recursive code should follow."""
    return ConditionError(f"the condition is nested deeper than {limit} levels", text, at)


def too_long(text: str, limit: int) -> ConditionError:
    """More text than a person or a sane program writes."""
    message = f"a condition has at most {limit:,} characters, and this has {len(text):,}"
    return ConditionError(message, text, limit)


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that looks most like `word`, if one does."""
    near = get_close_matches(word.upper()[:40], list(candidates), 1)
    return near[0] if near else None


def shorten(found: str) -> str:
    """A token for an error message."""
    return repr(found if len(found) <= 40 else f"{found[:39]}…")
