"""CESQL's text to an expression.

In: a text. Out: an expression, or a `ConditionError` that says where and why not; its `kind` is
the suite's word, "parse" or "missingFunction".

Precedence, tightest first: NOT and unary minus; LIKE; IN; `* / %`; `+ -`; comparisons; and AND, OR
and XOR together, all from left to right: `a OR b AND c` is `(a OR b) AND c`, where SQL and our own
dialect mean something else. Keywords, functions and attributes in any case. No expression is nested
deeper than `MAX_DEPTH`. Cost: linear in the text.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from germane.language.cesql.expressions import (
    RETURNS,
    VARIADIC,
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
    children,
    exists,
)
from germane.language.complain import nearest, shorten, too_deep, too_long
from germane.language.parser import MAX_LENGTH, check_encodable
from germane.model.errors import ConditionError, InvalidValue

__all__ = ["CesqlError", "parse"]

MAX_DEPTH = 150
KEYWORDS = frozenset("AND OR XOR NOT LIKE EXISTS IN TRUE FALSE".split())
LOGIC, COMPARE, PLUS, STAR, IN, LIKE, PREFIX = range(1, 8)
POWER = {
    **dict.fromkeys(("AND", "OR", "XOR"), LOGIC),
    **dict.fromkeys(("=", "!=", "<>", "<", "<=", ">", ">="), COMPARE),
    **dict.fromkeys("+-", PLUS),
    **dict.fromkeys("*/%", STAR),
}
_TOKEN = re.compile(
    r"""\s*(?:(?P<word>[A-Za-z0-9_]+)
    |(?P<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")
    |(?P<sign><=|>=|<>|!=|[-+*/%=<>(),])
    |(?P<end>\Z)
    |(?P<stray>\S))""",
    re.VERBOSE | re.DOTALL,
)


class CesqlError(ConditionError):
    """A text that is no CESQL; `kind` is the suite's word for it."""

    kind = "parse"


class MissingFunction(CesqlError):
    """A call of a function that there is not, or not with so many arguments."""

    kind = "missingFunction"


class Token(NamedTuple):
    """A word, a text, a sign or the end."""

    kind: str
    value: str  # words in upper case where they are keywords
    begin: int
    end: int


def parse(text: str) -> Expression:
    """The expression of a text.

    >>> parse("EXISTS subject")
    Exists(name='subject', span=(0, 14))
    """
    if not isinstance(text, str):
        raise InvalidValue(f"a condition is a str, not {type(text).__name__}")
    if len(text) > MAX_LENGTH:
        raise too_long(text, MAX_LENGTH)
    check_encodable(text)
    parser = _Parser(text)
    node = parser.expression(LOGIC, 0)
    if parser.token.kind != "end":
        raise parser.unexpected("an operator or the end")
    check_depth(node, text)
    return node


def check_depth(root: Expression, text: str) -> None:
    """Refuse what is nested too deeply for those who walk it by recursion."""
    level: list[Expression] = [root]
    depth = 0
    while level:
        if depth > MAX_DEPTH:
            raise too_deep(text, level[0].span[0], MAX_DEPTH)
        level = [child for node in level for child in children(node)]
        depth += 1


def tokenize(text: str) -> list[Token]:
    """The tokens of a text; the last is its end."""
    tokens: list[Token] = []
    at = 0
    while not tokens or tokens[-1].kind != "end":
        match = _TOKEN.match(text, at)
        assert match is not None
        kind, value = str(match.lastgroup), match[str(match.lastgroup)]
        begin, at = match.span(kind)
        if kind == "stray":
            what = "a string that does not end" if value in "'\"" else f"{value!r}"
            raise CesqlError(f"{what} cannot stand here", text, begin)
        if kind == "word" and value.upper() in KEYWORDS:
            kind, value = "key", value.upper()
        tokens.append(Token(kind, value, begin, at))
    return tokens


class _Parser:
    """One run over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.index = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def take(self, *values: str) -> Token | None:
        """The next token if it is one of these keywords or signs."""
        token = self.token
        if token.kind in ("key", "sign") and token.value in values:
            self.index += 1
            return token
        return None

    def need(self, value: str, why: str) -> Token:
        token = self.take(value)
        if token is None:
            raise self.unexpected(f"{value!r} {why}")
        return token

    def unexpected(self, expected: str) -> CesqlError:
        token = self.token
        found = "the end" if token.kind == "end" else shorten(token.value)
        near = nearest(token.value, KEYWORDS) if token.kind == "word" else None
        hint = "; a quote within a string is written \\'" if token.kind == "text" else ""
        message = f"expected {expected}, found {found}{hint}"
        return CesqlError(message, self.text, token.begin, expected, near)

    def span(self, begin: int) -> tuple[int, int]:
        """From a position to the end of the last token."""
        return begin, self.tokens[self.index - 1].end

    def expression(self, power: int, depth: int) -> Expression:
        """An expression whose operators bind at least as tightly as `power`."""
        if depth > MAX_DEPTH:
            raise too_deep(self.text, self.token.begin, MAX_DEPTH)
        begin = self.token.begin
        left = self.prefix(depth)
        while True:
            before = left
            left = self.suffix(left, begin, power, depth)
            if left is before:
                return left

    def suffix(self, left: Expression, begin: int, power: int, depth: int) -> Expression:
        """`left` with one more operator to its right; `left` itself if there is none."""
        token = self.token
        if power <= LIKE and token.kind == "key" and token.value in ("NOT", "LIKE", "IN"):
            return self.predicate(left, begin, power, depth)
        binds = POWER.get(token.value, 0) if token.kind in ("key", "sign") else 0
        if binds < power or not binds:
            return left
        self.index += 1
        right = self.expression(binds + 1, depth + 1)
        op, span = "!=" if token.value == "<>" else token.value, self.span(begin)
        if op not in ("AND", "OR"):
            return Binary(op, left, right, span)
        if isinstance(left, Logic) and left.op == op and left.span[0] == begin:
            return Logic(op, (*left.parts, right), span)
        return Logic(op, (left, right), span)

    def predicate(self, left: Expression, begin: int, power: int, depth: int) -> Expression:
        """`left [NOT] LIKE 'pattern'` or `left [NOT] IN (…)`."""
        start = self.index
        negated = self.take("NOT") is not None
        word = self.take("LIKE", "IN")
        if word is None:
            raise self.unexpected("LIKE or IN after NOT")
        if power > (LIKE if word.value == "LIKE" else IN):
            self.index = start
            return left
        if word.value == "LIKE":
            if self.token.kind != "text":
                raise self.unexpected("a pattern in quotes after LIKE")
            pattern = unquoted(self.token.value)
            self.index += 1
            return Like(left, pattern, negated, self.span(begin))
        self.need("(", "and the values after IN")
        items = self.arguments(depth, "the values of IN")
        return In(left, items, negated, self.span(begin))

    def prefix(self, depth: int) -> Expression:
        """What an expression begins with."""
        token = self.token
        begin = token.begin
        self.index += 1
        if token.kind == "text":
            return Literal(unquoted(token.value), self.span(begin))
        if token.kind == "word":
            return self.word(token, depth)
        if token.value in ("TRUE", "FALSE"):
            return Literal(token.value == "TRUE", self.span(begin))
        if token.value == "NOT":
            operand = self.expression(PREFIX, depth + 1)
            return Unary("NOT", operand, self.span(begin))
        if token.value in ("-", "+") and token.kind == "sign":
            return self.signed(token, depth)
        if token.value == "EXISTS":
            if self.token.kind != "word" or self.token.value.isdigit():
                raise self.unexpected("an attribute after EXISTS")
            self.index += 1
            return Exists(self.name(self.tokens[self.index - 1]), self.span(begin))
        if token.value == "(" and token.kind == "sign":
            inner = self.expression(LOGIC, depth + 1)
            self.need(")", "to close the parenthesis")
            return inner
        self.index -= 1
        raise self.unexpected("a value, an attribute, NOT, EXISTS or '('")

    def signed(self, sign: Token, depth: int) -> Expression:
        """A literal with its sign, or minus something."""
        token = self.token
        if token.kind == "word" and token.value.isdigit() and token.begin == sign.end:
            self.index += 1
            return self.integer(f"{sign.value}{token.value}", sign.begin)
        if sign.value == "+":
            raise self.unexpected("digits after '+'")
        operand = self.expression(PREFIX, depth + 1)
        return Unary("-", operand, self.span(sign.begin))

    def word(self, token: Token, depth: int) -> Expression:
        """An integer, a call or an attribute."""
        if token.value.isdigit():
            return self.integer(token.value, token.begin)
        if self.take("("):
            name = token.value.upper()
            arguments = () if self.take(")") else self.arguments(depth, f"the arguments of {name}")
            if not exists(name, len(arguments)):
                raise no_function(self.text, token, name, len(arguments))
            return Call(name, arguments, self.span(token.begin))
        return Attribute(self.name(token), self.span(token.begin))

    def name(self, token: Token) -> str:
        """The attribute that a word names."""
        if "_" in token.value:
            message = f"{token.value!r} is no attribute: names are letters and digits"
            raise CesqlError(message, self.text, token.begin, "letters and digits")
        return token.value.lower()

    def integer(self, digits: str, begin: int) -> Literal:
        """An integer literal, of 32 bits."""
        if len(digits) > 11 or not -(2**31) <= int(digits) < 2**31:
            message = f"{shorten(digits)} is no integer of 32 bits"
            raise CesqlError(message, self.text, begin, "-2147483648 to 2147483647")
        return Literal(int(digits), self.span(begin))

    def arguments(self, depth: int, what: str) -> tuple[Expression, ...]:
        """Expressions with commas between them, and a closing parenthesis."""
        items = [self.expression(LOGIC, depth + 1)]
        while self.take(","):
            items.append(self.expression(LOGIC, depth + 1))
        self.need(")", f"or ',' after {what}")
        return tuple(items)


def unquoted(text: str) -> str:
    """The value of a string literal: only its own quote is escaped, patterns need the rest."""
    return text[1:-1].replace("\\" + text[0], text[0])


def no_function(text: str, at: Token, name: str, arity: int) -> MissingFunction:
    known = {each for each, _ in RETURNS} | set(VARIADIC)
    if name in known:
        message = f"{name} does not take {arity} argument{'s' * (arity != 1)}"
        return MissingFunction(message, text, at.begin)
    message = f"there is no function {shorten(name)}; there are {', '.join(sorted(known))}"
    near: Any = nearest(name, known)
    return MissingFunction(message, text, at.begin, "a function", near)
