"""Text to tokens: one compiled expression, one pass.

In: the text of a condition. Out: three parallel lists that end with an END token: kinds (small
ints), values, and positions. The leaves of the tree (names and literals) come out as finished
nodes, so the parser only has to place them; for every other token the value is its text.

TIMESTAMP, ABS, DISTANCE and ESCAPE are words only where they make sense, so they stay usable as
names; the parser recognises them. Cost: linear in the text, also for text that is no condition.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from itertools import accumulate
from typing import Any

from germane.language.tree import Const, Context, Message
from germane.model.errors import ConditionError

__all__ = ["KEYWORDS", "Tokens", "tokenize"]

END, LEAF, COMPARE, PLUS, STAR, OPEN, CLOSE, COMMA = range(8)
AND, OR, NOT, BETWEEN, IN, LIKE, IS, NULL, TRUTH, MATCH, RESERVED_WORD, COVER = range(8, 20)
N_KINDS = 20

KEYWORDS = {
    "AND": AND,
    "OR": OR,
    "NOT": NOT,
    "BETWEEN": BETWEEN,
    "IN": IN,
    "LIKE": LIKE,
    "IS": IS,
    "NULL": NULL,
    "TRUE": TRUTH,
    "FALSE": TRUTH,
    "WITHIN": COVER,
    "CONTAINS": COVER,
    "MATCHES": MATCH,
    "COST": RESERVED_WORD,
    "BOX": RESERVED_WORD,
    "CONTEXT": RESERVED_WORD,
}

SYMBOLS = {
    **dict.fromkeys(("=", "<>", "!=", "<", "<=", ">", ">="), COMPARE),
    **dict(zip("+-*/(),", (PLUS, PLUS, STAR, STAR, OPEN, CLOSE, COMMA), strict=True)),
}

# Each token takes the white space after it along, so lengths add up to positions. A word is
# anything that could be a name in some script; what is no identifier gets a better message than a
# stray character would. An unclosed quote swallows the rest, so that garbage full of quotes is
# still read in linear time.
_WORD = r"[^\x00-\x40\x5b-\x5e\x60\x7b-\x7f\s][^\x00-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f\s]*"
_QUOTED = r'"[^"]*(?:""[^"]*)*"(?!")'
_TOKEN: Callable[[str, int], list[str]] = re.compile(
    rf"""(?:(?i:context)\s*\.\s*(?:{_WORD}|{_QUOTED})
    |{_WORD}
    |<=|>=|<>|!=|[-+*/=<>(),]
    |(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?
    |'[^']*(?:''[^']*)*'(?!')
    |{_QUOTED}
    |['"][\s\S]*
    |\S)\s*""",
    re.VERBOSE,
).findall

FIXED, NAME, PREFIXED, NUMBER, STRING, STRAY = range(6)
"""What a token is made of; `classify` decides."""

SEEN_LENGTH, SEEN_TOKENS = 40, 8192
Tokens = tuple[list[int], list[Any], list[int]]
_new: Callable[..., Any] = tuple.__new__  # a NamedTuple's own constructor takes twice as long


def tokenize(text: str, names: type[Message] | type[Context]) -> Tokens:
    """The kinds, values and positions of the tokens; bare names become `names` nodes."""
    kinds: list[int] = []
    values: list[Any] = []
    start = len(text) - len(text.lstrip())
    raws = _TOKEN(text, start)
    ats = list(accumulate(map(len, raws), initial=start))
    for raw, at in zip(raws, ats, strict=False):  # the last position is that of END
        kind, made_of, value = _seen.get(raw) or remember(raw)
        if made_of:
            if made_of == NAME:
                value = _new(names, (value, at))
            elif made_of == NUMBER:
                value = _new(Const, (value, "number", at))
            elif made_of == STRING:
                value = _new(Const, (value, "string", at))
            elif made_of == STRAY:
                raise stray(value, text, at, bool(kinds) and kinds[-1] == LEAF)
            elif names is Context:
                raise prefixed_address(value, text, at)
            else:
                value = _new(Context, (value, at))
        kinds.append(kind)
        values.append(value)
    kinds.append(END)
    values.append("")
    return kinds, values, ats


_seen: dict[str, tuple[int, int, Any]] = {}


def remember(raw: str) -> tuple[int, int, Any]:
    """`classify` with a memory: conditions share their operators and most of their names."""
    entry = classify(raw)
    if len(raw) <= SEEN_LENGTH:
        if len(_seen) >= SEEN_TOKENS:
            _seen.clear()
        _seen[raw] = entry
    return entry


def classify(raw: str) -> tuple[int, int, Any]:
    """The kind of a token, what it is made of, and the value in it."""
    token = raw.rstrip()
    first = token[0]
    if token in SYMBOLS:
        return SYMBOLS[token], FIXED, "<>" if token == "!=" else token
    if first == "'":
        if len(token) < 2 or token[-1] != "'" or token.count("'") % 2:
            return END, STRAY, token
        return LEAF, STRING, token[1:-1].replace("''", "'")
    if first == '"':
        return named(token, NAME)
    if first in "0123456789" or (first == "." and len(token) > 1):
        return LEAF, NUMBER, float(token)
    if first.isascii() and not (first.isalpha() or first == "_"):
        return END, STRAY, token
    if "." in token:
        return named(token[token.index(".") + 1 :].lstrip(), PREFIXED)
    upper = token.upper()
    if upper in KEYWORDS and token.isascii():
        return KEYWORDS[upper], FIXED, upper
    return named(token, NAME)


def named(token: str, made_of: int) -> tuple[int, int, str]:
    """A name, plain or in double quotes."""
    if token[0] != '"':
        return (LEAF, made_of, token) if token.isidentifier() else (END, STRAY, token)
    name = token[1:-1].replace('""', '"')
    if not name or len(token) < 2 or token[-1] != '"' or token.count('"') % 2:
        return END, STRAY, token
    return LEAF, made_of, name


def prefixed_address(name: str, text: str, at: int) -> ConditionError:
    """The error for `context.name` in an address, whose bare names are the recipient's."""
    message = "in an address, bare names are the recipient's context: drop the prefix"
    return ConditionError(message, text, at, "a name without prefix", name)


_HINTS = {
    "&": ("conditions are joined with AND", "AND"),
    "|": ("conditions are joined with OR", "OR"),
    "!": ("a condition is negated with NOT", "NOT"),
    ";": ("a condition ends without a semicolon", None),
    "%": ("there is no remainder operator", None),
}


def stray(found: str, text: str, at: int, after_name: bool) -> ConditionError:
    """The error for text that is no token."""
    if found[0] == "'":
        return ConditionError("this string is never closed", text, at, "a closing quote '")
    if found.endswith('""') and found.count('"') == 2:
        return ConditionError("a name in double quotes cannot be empty", text, at, "a name")
    if found[0] == '"':
        return ConditionError("this name is never closed", text, at, 'a closing quote "')
    if found == "." and text[:at].rstrip()[-7:].lower() == "context":
        return ConditionError("expected a name after 'context.'", text, at + 1, "a name")
    if found == "." and after_name:
        return dotted(text, at)
    if any(mark in found for mark in "‘’“”„‚«»"):
        message = "strings stand in straight single quotes, names in straight double quotes"
        return ConditionError(message, text, at, "a straight quote")
    if not found.isascii():
        message = f"{found!r} is not a plain name; a name with odd characters stands in quotes"
        return ConditionError(message, text, at, "a name", f'"{found}"')
    sentence, suggestion = _HINTS.get(found, (f"{found!r} does not belong in a condition", None))
    return ConditionError(sentence, text, at, "a name, a value or an operator", suggestion)


def dotted(text: str, at: int) -> ConditionError:
    """The error for `a.b`: only `context` is a prefix."""
    start = at
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    end = at + 1
    while end < len(text) and (text[end].isalnum() or text[end] in "_."):
        end += 1
    first, rest = text[start:at], text[at + 1 : end]
    near = get_close_matches(first.lower(), ["context"], 1)
    suggestion = f"context.{rest}" if near else f'"{first}.{rest}"'
    return ConditionError(
        "only context. is a prefix; a name with a dot stands in double quotes",
        text,
        at,
        "a plain name",
        suggestion,
    )
