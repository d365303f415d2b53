"""Tokens to tree: a Pratt parser.

In: the text of a condition or of an address. Out: a tree, or a `ConditionError` that says where,
what was expected, what was found, and what was perhaps meant.

Precedence, loosest first: OR, AND, NOT, comparisons (which do not chain), + and -, * and /, unary
minus. Invariants: no tree is deeper than `MAX_DEPTH`, so whoever walks one may recurse; and each
frame of the parser stands for a parenthesis or for a level of the tree, so the parser's own
recursion is bounded too. Cost: linear in the tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from germane.language import complain, lexer
from germane.language.lexer import AND, CLOSE, COMMA, COMPARE, END, LEAF, NOT, OPEN, OR, TRUTH
from germane.language.predicates import PREDICATES, as_value, is_string
from germane.language.tree import (
    Abs,
    And,
    Arith,
    Compare,
    Const,
    Context,
    Distance,
    Message,
    Negate,
    Node,
    Not,
    Or,
    Truth,
    children,
)
from germane.model.errors import ConditionError, InvalidValue
from germane.model.timestamps import parse_timestamp

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "parse"]

MAX_LENGTH = 262_144
MAX_DEPTH = 200
MAX_FRAMES = 3 * MAX_DEPTH + 10

# How tightly a token binds to what stands on its left. A name or a parenthesis right after a value
# binds tightest: it is TIMESTAMP '…', a function call, or a mistake worth a good message.
ON_OR, ON_AND, ON_NOT, ON_COMPARE, ON_PLUS, ON_STAR, ON_MINUS, ON_TOUCH = range(10, 90, 10)
POWER = [0] * lexer.N_KINDS
POWER[OR], POWER[AND] = ON_OR, ON_AND
POWER[lexer.PLUS], POWER[lexer.STAR] = ON_PLUS, ON_STAR
POWER[LEAF] = POWER[OPEN] = ON_TOUCH
for _kind in (COMPARE, NOT, *PREDICATES):
    POWER[_kind] = ON_COMPARE

NAMES: dict[str, type[Message] | type[Context]] = {"message": Message, "address": Context}
_new: Callable[..., Any] = tuple.__new__  # a NamedTuple's own constructor takes twice as long


def parse(text: str, names: str = "message") -> Node:
    """The tree of a condition (`names="message"`) or of an address (`names="address"`).

    >>> parse("price < context.limit")
    Compare(op='<', left=Message(name='price', at=0), right=Context(name='limit', at=8), at=6)
    """
    if names not in NAMES:
        raise InvalidValue(f"names is 'message' or 'address', not {names!r}")
    if not isinstance(text, str):
        raise InvalidValue(f"a condition is a str, not {type(text).__name__}")
    if len(text) > MAX_LENGTH:
        raise complain.too_long(text, MAX_LENGTH)
    if not text.isascii():
        check_encodable(text)
    parser = Parser(text, lexer.tokenize(text, NAMES[names]))
    try:
        return parser.parse()
    except RecursionError:  # the caller's own stack was nearly full
        raise complain.too_deep(text, parser.ats[parser.index], MAX_DEPTH) from None
    except ConditionError as error:
        raise error.with_traceback(None) from None  # hundreds of frames would help nobody


def check_encodable(text: str) -> None:
    """Refuse lone surrogates, which no column could store."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"{text[error.start]!r} is not a character"
        raise ConditionError(message, text, error.start) from None


class Parser:
    """One run over the tokens of one condition; predicates get it to read their operands."""

    __slots__ = ("ats", "index", "kinds", "parentheses", "text", "values")

    def __init__(self, text: str, tokens: lexer.Tokens) -> None:
        self.text = text
        self.kinds, self.values, self.ats = tokens
        self.index = 0
        self.parentheses = 0

    def parse(self) -> Node:
        """The whole condition."""
        if self.kinds[0] == END:
            raise ConditionError("the condition is empty", self.text, 0, "a condition")
        node = self.expression(0, 1)
        if self.kinds[self.index] != END:
            raise self.unexpected("an operator or the end")
        if len(self.kinds) > MAX_DEPTH:  # a shorter text has no deeper tree
            self.check_depth(node)
        return node

    def expression(self, power: int, depth: int) -> Node:
        """An operand, and every operator after it that binds tighter than `power`."""
        index = self.index
        kinds = self.kinds
        kind = kinds[index]
        left: Node
        if kind == LEAF:
            left = self.values[index]
            self.index = index + 1
        elif depth > MAX_FRAMES:
            raise complain.too_deep(self.text, self.ats[index], MAX_DEPTH)
        elif kind == OPEN:
            self.enter()
            left = self.expression(0, depth + 1)
            self.leave("an operator or ')'")
        else:
            left = self.prefix(kind, power, depth)
        while True:
            index = self.index
            kind = kinds[index]
            binds = POWER[kind]
            if binds <= power:
                return left
            if binds == ON_COMPARE:
                if kind == COMPARE:
                    op = self.values[index]
                    if kinds[index + 1] == LEAF and POWER[kinds[index + 2]] < ON_COMPARE:
                        right: Node = self.values[index + 1]  # the common case, no recursion
                        self.index = index + 2
                    else:
                        self.index = index + 1
                        right = as_value(self.expression(ON_COMPARE, depth + 1))
                    if type(left) is Truth:
                        left = as_value(left)
                    left = _new(Compare, (op, left, right, self.ats[index]))
                else:
                    negated = self.negated(kind)
                    build = PREDICATES[kinds[self.index - 1]]
                    left = build(self, as_value(left), negated, self.ats[index], depth + 2)
                if POWER[kinds[self.index]] == ON_COMPARE:
                    raise complain.chained(self.text, self.ats[self.index])
            elif binds <= ON_AND:  # AND or OR
                parts = [left]
                while kinds[self.index] == kind:
                    self.index += 1
                    parts.append(self.expression(binds, depth + 1))
                left = (And if binds == ON_AND else Or)(tuple(parts), self.ats[index])
            elif binds == ON_TOUCH:
                left = self.touching(left, kind, depth)
            else:
                self.index = index + 1
                right = self.expression(binds, depth + 1)
                left = Arith(self.values[index], left, right, self.ats[index])

    def prefix(self, kind: int, power: int, depth: int) -> Node:
        """What may start an operand, besides names, literals and parentheses."""
        start = self.index
        if kind == TRUTH:
            self.index = start + 1
            return Truth(self.values[start].upper() == "TRUE", self.ats[start])
        wrap: type[Not] | type[Negate]
        if kind == NOT and power < ON_COMPARE:
            wrap, binds = Not, ON_NOT
        elif kind == lexer.PLUS and self.values[start] == "-":
            wrap, binds = Negate, ON_MINUS
        else:
            raise self.unexpected("a condition" if power < ON_COMPARE else "a value")
        values = self.values
        while self.kinds[self.index] == kind and values[self.index] != "+":
            self.index += 1
        end = self.index
        if end - start > MAX_DEPTH:
            raise complain.too_deep(self.text, self.ats[start + MAX_DEPTH], MAX_DEPTH)
        node = self.expression(binds, depth + 2)
        for index in range(end - 1, start - 1, -1):
            node = wrap(node, self.ats[index])
        return node

    def negated(self, kind: int) -> bool:
        """Step over `[NOT] predicate`; whether there was a NOT."""
        negated = kind == NOT
        if negated:
            self.index += 1
            kind = self.kinds[self.index]
        if kind not in PREDICATES or (negated and kind == lexer.IS):
            raise self.unexpected("BETWEEN, IN, LIKE, WITHIN, CONTAINS or MATCHES after NOT")
        self.index += 1
        return negated

    def enter(self) -> None:
        """Step over '('."""
        self.parentheses += 1
        if self.parentheses > MAX_DEPTH:
            raise complain.too_deep(self.text, self.ats[self.index], MAX_DEPTH)
        self.index += 1

    def leave(self, expected: str) -> None:
        """Step over ')'."""
        if self.kinds[self.index] != CLOSE:
            raise self.unexpected(expected)
        self.parentheses -= 1
        self.index += 1

    def touching(self, left: Node, kind: int, depth: int) -> Node:
        """A name or '(' right after a value: TIMESTAMP '…', a function, or a mistake."""
        word = ""
        if isinstance(left, Message | Context) and self.text.startswith(left.name, left.at):
            word = left.name.upper()
        if kind == LEAF and word == "TIMESTAMP" and is_string(self.values[self.index]):
            self.index += 1
            return self.timestamp(self.values[self.index - 1], left.at)
        if kind == LEAF or not word:
            raise self.unexpected("an operator")
        if word not in complain.FUNCTIONS:
            raise complain.no_function(self.text, left.at, word)
        self.enter()
        node = as_value(self.expression(0, depth + 2))
        if word == "DISTANCE":
            if self.kinds[self.index] != COMMA:
                raise self.unexpected("',' and a second location")
            self.index += 1
            node = Distance(node, as_value(self.expression(0, depth + 2)), left.at)
        else:
            node = Abs(node, left.at)
        self.leave("an operator or ')'")
        return node

    def timestamp(self, literal: Const, at: int) -> Node:
        """TIMESTAMP 'literal'."""
        try:
            return Const(parse_timestamp(str(literal.value)), "timestamp", at)
        except InvalidValue as error:
            raise ConditionError(str(error), self.text, literal.at, "a timestamp") from None

    def check_depth(self, root: Node) -> None:
        """Refuse trees deeper than `MAX_DEPTH`; level by level, without recursion."""
        level: list[Node] = [root]
        for _ in range(MAX_DEPTH):
            level = [child for node in level for child in children(node)]
            if not level:
                return
        raise complain.too_deep(self.text, level[0].at, MAX_DEPTH)

    def unexpected(self, expected: str) -> ConditionError:
        """The error for a token that cannot stand here."""
        return complain.unexpected(
            self.text, self.ats[self.index], self.kinds[self.index], expected
        )
