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
from typing import Any

from germane.language.tree import Const, Context, Message, Node
from germane.model.errors import ConditionError

__all__ = ["KEYWORDS", "RESERVED", "Tokens", "tokenize"]

END, LEAF, COMPARE, PLUS, STAR, OPEN, CLOSE, COMMA = range(8)
AND, OR, NOT, BETWEEN, IN, LIKE, IS, NULL, TRUTH, REMOTE, RESERVED_WORD = range(8, 19)

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
    "WITHIN": REMOTE,
    "CONTAINS": REMOTE,
    "MATCHES": REMOTE,
    "COST": RESERVED_WORD,
    "BOX": RESERVED_WORD,
    "CONTEXT": RESERVED_WORD,
}
RESERVED = frozenset(KEYWORDS)

SYMBOLS = {
    **{op: COMPARE for op in ("=", "<>", "!=", "<", "<=", ">", ">=")},
    **{"+": PLUS, "-": PLUS, "*": STAR, "/": STAR, "(": OPEN, ")": CLOSE, ",": COMMA},
}
FIXED = {**SYMBOLS, **KEYWORDS, **{word.lower(): kind for word, kind in KEYWORDS.items()}}
"""Tokens known by their whole text; keywords in mixed case take a second look."""

# A word is anything that could be a name in some script; what is not an identifier is refused with
# a better message than a stray character would get. An unclosed quote swallows the rest of the
# text, so that garbage full of quotes is still read in linear time.
_WORD = r"[^\x00-\x40\x5b-\x5e\x60\x7b-\x7f\s][^\x00-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f\s]*"
_PREFIX = r"(?i:context)\s*\.\s*"
CONTEXT, WORD, NUMBER, STRING, CONTEXT_QUOTED, QUOTED, SYMBOL, STRAY = range(1, 9)
_TOKEN: Callable[[str], Any] = re.compile(
    rf"""{_PREFIX}({_WORD})
    |({_WORD})
    |((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |'([^']*(?:''[^']*)*)'(?!')
    |{_PREFIX}"([^"]*(?:""[^"]*)*)"(?!")
    |"([^"]*(?:""[^"]*)*)"(?!")
    |(<=|>=|<>|!=|[-+*/=<>(),])
    |(['"][\s\S]*|\S)""",
    re.VERBOSE,
).finditer

Tokens = tuple[list[int], list[Any], list[int]]
_new: Callable[..., Any] = tuple.__new__  # a NamedTuple's own constructor takes twice as long


def tokenize(text: str, names: type[Message] | type[Context]) -> Tokens:
    """The kinds, values and positions of the tokens; bare names become `names` nodes."""
    kinds: list[int] = []
    values: list[Any] = []
    ats: list[int] = []
    ascii_only = text.isascii()
    fixed = FIXED.get
    for match in _TOKEN(text):
        value = match[0]
        at = match.start()
        kind = fixed(value)
        if kind is None:
            kind = LEAF
            group = match.lastindex
            if group == WORD:
                upper = value.upper()
                if upper in RESERVED and value.isascii():
                    kind, value = KEYWORDS[upper], upper
                else:
                    if not ascii_only:
                        check_identifier(value, text, at)
                    value = _new(names, (value, at))
            elif group == CONTEXT:
                name = match[CONTEXT]
                if not ascii_only:
                    check_identifier(name, text, match.start(CONTEXT))
                value = context(name, text, at, names)
            elif group == NUMBER:
                value = _new(Const, (float(value), "number", at))
            elif group == STRING:
                value = _new(Const, (match[STRING].replace("''", "'"), "string", at))
            elif group == STRAY:
                raise stray(value, text, at, bool(values) and type(values[-1]) is names)
            else:
                value = quoted(match[group], text, at, names, group == CONTEXT_QUOTED)
        kinds.append(kind)
        values.append(value)
        ats.append(at)
    kinds.append(END)
    values.append("")
    ats.append(len(text))
    return kinds, values, ats


def context(name: str, text: str, at: int, names: type[Message] | type[Context]) -> Node:
    """`context.name`; an address has no such prefix, since its bare names are the recipient's."""
    if names is Context:
        raise ConditionError(
            "in an address, bare names are the recipient's context: drop the prefix",
            text,
            at,
            suggestion=name,
        )
    node: Context = _new(Context, (name, at))
    return node


def quoted(
    raw: str, text: str, at: int, names: type[Message] | type[Context], prefixed: bool
) -> Node:
    """A name in double quotes, with or without the prefix."""
    name = raw.replace('""', '"')
    if not name:
        raise ConditionError("a name in double quotes cannot be empty", text, at, "a name")
    return context(name, text, at, names) if prefixed else names(name, at)


def check_identifier(word: str, text: str, at: int) -> None:
    """Refuse words that are no identifiers, most often typographic quotes and operators."""
    if word.isidentifier():
        return
    bad = next(i for i in range(len(word)) if not f"a{word[: i + 1]}".isidentifier() or i == 0)
    if any(mark in word for mark in "‘’“”„‚«»"):
        raise ConditionError(
            "strings stand in straight single quotes, names in straight double quotes",
            text,
            at + bad,
            "a straight quote",
        )
    raise ConditionError(
        f"{word!r} is not a plain name; write it in double quotes",
        text,
        at + bad,
        "a name",
        f'"{word}"',
    )


_HINTS = {
    "&": ("conditions are joined with AND", "AND"),
    "|": ("conditions are joined with OR", "OR"),
    "!": ("a condition is negated with NOT", "NOT"),
    ";": ("a condition ends without a semicolon", None),
    "%": ("there is no remainder operator", None),
}


def stray(found: str, text: str, at: int, after_name: bool) -> ConditionError:
    """The error for a character that starts no token."""
    if found[0] == "'":
        return ConditionError("this string is never closed", text, at, "a closing quote '")
    if found[0] == '"':
        return ConditionError("this name is never closed", text, at, 'a closing quote "')
    if found == "." and text[:at].rstrip()[-7:].lower() == "context":
        return ConditionError("expected a name after 'context.'", text, at + 1, "a name")
    if found == "." and after_name:
        return dotted(text, at)
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
