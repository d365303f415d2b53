"""Tokens to tree: a Pratt parser.

In: the text of a condition or of an address. Out: a tree, or a `ConditionError` that says where,
what was expected, what was found, and what was perhaps meant.

Precedence, loosest first: OR, AND, NOT, comparisons (which do not chain), + and -, * and /, unary
minus. Invariants: no tree is deeper than `MAX_DEPTH`, so whoever walks one may recurse; and each
recursion of the parser stands for a parenthesis or for a level of the tree, so its own depth is
bounded by twice that. BETWEEN becomes two comparisons that share their operand; an operand that
holds a condition is refused, else nested BETWEENs would double the work at each level.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, NoReturn

from germane.language import lexer
from germane.language.lexer import AND, CLOSE, COMMA, COMPARE, END, LEAF, NOT, OPEN, OR, TRUTH
from germane.language.tree import (
    CONDITIONS,
    Abs,
    And,
    Arith,
    Compare,
    Const,
    Context,
    Distance,
    In,
    IsNull,
    Like,
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

# How tightly a token binds to what stands on its left. A name or a parenthesis right after a value
# binds tightest: it is TIMESTAMP '…', a function call, or a mistake worth a good message.
ON_OR, ON_AND, ON_NOT, ON_COMPARE, ON_PLUS, ON_STAR, ON_MINUS, ON_TOUCH = range(10, 90, 10)
POWER = [0] * 19
POWER[OR], POWER[AND] = ON_OR, ON_AND
POWER[lexer.PLUS], POWER[lexer.STAR] = ON_PLUS, ON_STAR
POWER[LEAF] = POWER[OPEN] = ON_TOUCH
for _kind in (COMPARE, NOT, lexer.BETWEEN, lexer.IN, lexer.LIKE, lexer.IS, lexer.REMOTE):
    POWER[_kind] = ON_COMPARE

NAMES = {"message": Message, "address": Context}
FUNCTIONS = ("ABS", "DISTANCE")
INFIX = ("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "IS", "WITHIN", "CONTAINS", "MATCHES")
_new: Callable[..., Any] = tuple.__new__


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
        raise ConditionError(
            f"a condition has at most {MAX_LENGTH:,} characters, this has {len(text):,}",
            text,
            MAX_LENGTH,
        )
    if not text.isascii():
        check_encodable(text)
    parser = Parser(text, lexer.tokenize(text, NAMES[names]))
    try:
        return parser.parse()
    except RecursionError:  # the caller's own stack was nearly full
        raise parser.too_deep(parser.index) from None


def check_encodable(text: str) -> None:
    """Refuse lone surrogates, which no column could store."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"{text[error.start]!r} is not a character"
        raise ConditionError(message, text, error.start) from None


class Parser:
    """One run over the tokens of one condition."""

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
            self.unexpected("an operator or the end")
        if len(self.kinds) > MAX_DEPTH:  # a shorter text has no deeper tree
            self.check_depth(node)
        return node

    def expression(self, power: int, depth: int) -> Node:
        """An operand, and every operator after it that binds tighter than `power`."""
        index = self.index
        kinds = self.kinds
        if kinds[index] == LEAF:
            left: Node = self.values[index]
            self.index = index + 1
        else:
            left = self.prefix(power, depth)
        while True:
            index = self.index
            kind = kinds[index]
            binds = POWER[kind]
            if binds <= power:
                return left
            if binds == ON_COMPARE:
                if kind == COMPARE:
                    left = self.comparison(left, index, depth)
                else:
                    left = self.predicate(left, kind, depth)
                if POWER[kinds[self.index]] == ON_COMPARE:
                    self.chained()
            elif binds == ON_AND or binds == ON_OR:
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

    def prefix(self, power: int, depth: int) -> Node:
        """What may start an operand, besides names and literals."""
        index = self.index
        kind = self.kinds[index]
        if kind == OPEN:
            self.index = index + 1
            return self.closed(depth)
        if kind == TRUTH:
            self.index = index + 1
            return Truth(self.values[index].upper() == "TRUE", self.ats[index])
        if kind == NOT and power < ON_COMPARE:
            return self.chain(Not, ON_NOT, depth)
        if kind == lexer.PLUS and self.values[index] == "-":
            return self.chain(Negate, ON_MINUS, depth)
        return self.unexpected("a value" if power >= ON_COMPARE else "a condition")

    def chain(self, wrap: type[Not] | type[Negate], power: int, depth: int) -> Node:
        """NOT NOT … or - - …, however many, in one step."""
        start = self.index
        word = self.values[start].upper()
        while self.values[self.index] in (word, word.lower()) and self.kinds[self.index] != LEAF:
            self.index += 1
        end = self.index
        if end - start > MAX_DEPTH:
            raise self.too_deep(start + MAX_DEPTH)
        node = self.expression(power, self.deeper(depth, 2))
        for index in range(end - 1, start - 1, -1):
            node = wrap(node, self.ats[index])
        return node

    def closed(self, depth: int) -> Node:
        """An expression up to its closing parenthesis; the opening one was read."""
        start = self.index - 1
        self.parentheses += 1
        if self.parentheses > MAX_DEPTH:
            raise self.too_deep(start)
        node = self.expression(0, self.deeper(depth, 2))
        if self.kinds[self.index] != CLOSE:
            self.unexpected("an operator or ')'")
        self.index += 1
        self.parentheses -= 1
        return node

    def comparison(self, left: Node, index: int, depth: int) -> Node:
        """`left op right`; a plain name or literal on the right takes a short cut."""
        kinds = self.kinds
        after = index + 1
        if kinds[after] == LEAF and POWER[kinds[after + 1]] < ON_COMPARE:
            right: Node = self.values[after]
            self.index = index + 2
        else:
            self.index = after
            if kinds[after] == COMPARE:
                self.doubled(index)
            right = value(self.expression(ON_COMPARE, self.deeper(depth, 2)))
        if type(left) is Truth:
            left = value(left)
        op = self.values[index]
        if op == "!=":
            op = "<>"
        node: Compare = _new(Compare, (op, left, right, self.ats[index]))
        return node

    def predicate(self, left: Node, kind: int, depth: int) -> Node:
        """`left [NOT] BETWEEN …`, and the other comparisons that are words."""
        at = self.ats[self.index]
        negated = kind == NOT
        if negated:
            self.index += 1
            kind = self.kinds[self.index]
            if kind == lexer.IS or kind not in PREDICATES:
                self.unexpected("BETWEEN, IN or LIKE after NOT")
        if kind == lexer.REMOTE:
            raise self.remote(left)
        self.index += 1
        return PREDICATES[kind](self, value(left), negated, at, self.deeper(depth, 2))

    def between(self, operand: Node, negated: bool, at: int, depth: int) -> Node:
        """x BETWEEN low AND high is x >= low AND x <= high."""
        if any(type(node) in CONDITIONS for node in walk(operand)):
            raise ConditionError("BETWEEN takes a value, not a condition", self.text, at, "a value")
        low = value(self.expression(ON_COMPARE, depth))
        if self.kinds[self.index] != AND:
            self.unexpected("AND and the upper bound of BETWEEN")
        self.index += 1
        high = value(self.expression(ON_COMPARE, depth))
        if negated:
            return Or((Compare("<", operand, low, at), Compare(">", operand, high, at)), at)
        return And((Compare(">=", operand, low, at), Compare("<=", operand, high, at)), at)

    def in_list(self, operand: Node, negated: bool, at: int, depth: int) -> Node:
        """x IN (item, …)."""
        if self.kinds[self.index] != OPEN:
            self.unexpected("'(' and a list of values after IN")
        items = []
        while not items or self.kinds[self.index] == COMMA:
            self.index += 1
            items.append(value(self.expression(ON_COMPARE, depth)))
        if self.kinds[self.index] != CLOSE:
            self.unexpected("',' or ')' in the list of IN")
        self.index += 1
        return In(operand, tuple(items), negated, at)

    def like(self, operand: Node, negated: bool, at: int, depth: int) -> Node:
        """x LIKE 'pattern' [ESCAPE 'e']."""
        pattern_at = self.ats[self.index]
        pattern = self.string("a pattern in single quotes after LIKE")
        escape = None
        word = self.values[self.index]
        if isinstance(word, Message | Context) and word.name.upper() == "ESCAPE":
            self.index += 1
            escape_at = self.ats[self.index]
            escape = self.string("one character in single quotes after ESCAPE")
            if len(escape) != 1:
                raise ConditionError(
                    f"ESCAPE takes one character, not {len(escape)}", self.text, escape_at
                )
            literal = pattern.replace(escape * 2, "")
            if literal.endswith(escape):
                raise ConditionError(
                    f"the pattern ends with its escape character {escape!r}", self.text, pattern_at
                )
        return Like(operand, pattern, escape, negated, at)

    def is_null(self, operand: Node, negated: bool, at: int, depth: int) -> Node:
        """x IS [NOT] NULL."""
        if self.kinds[self.index] == NOT:
            self.index += 1
            negated = True
        if self.kinds[self.index] != lexer.NULL:
            self.unexpected("NULL after IS" if negated else "NULL or NOT NULL after IS")
        self.index += 1
        return IsNull(operand, negated, at)

    def touching(self, left: Node, kind: int, depth: int) -> Node:
        """A name or '(' right after a value: TIMESTAMP '…', a function, or a mistake."""
        index = self.index
        word = ""
        if isinstance(left, Message | Context) and self.text.startswith(left.name, left.at):
            word = left.name.upper()
        if kind == LEAF:
            if word == "TIMESTAMP" and is_string(self.values[index]):
                self.index += 1
                return self.timestamp(self.values[index].value, self.ats[index], left.at)
            self.unexpected("an operator")
        if not word:
            self.unexpected("an operator")
        if word not in FUNCTIONS:
            raise ConditionError(
                f"there is no function {word}; the functions are {' and '.join(FUNCTIONS)}",
                self.text,
                left.at,
                "a function",
                nearest(word, FUNCTIONS),
            )
        self.index += 1
        if word == "ABS":
            return Abs(value(self.closed(depth + 1)), left.at)
        first = value(self.expression(ON_COMPARE, self.deeper(depth, 2)))
        if self.kinds[self.index] != COMMA:
            self.unexpected("',' and a second location")
        self.index += 1
        return Distance(first, value(self.closed(depth + 1)), left.at)

    def timestamp(self, literal: str, literal_at: int, at: int) -> Node:
        """TIMESTAMP 'literal'."""
        try:
            return Const(parse_timestamp(literal), "timestamp", at)
        except InvalidValue as error:
            raise ConditionError(str(error), self.text, literal_at, "a timestamp") from None

    def string(self, expected: str) -> str:
        """The value of a string literal, which must stand here."""
        node = self.values[self.index]
        if not is_string(node):
            self.unexpected(expected)
        self.index += 1
        text: str = node.value
        return text

    def check_depth(self, root: Node) -> None:
        """Refuse trees deeper than `MAX_DEPTH`; level by level, without recursion."""
        level: list[Node] = [root]
        for _ in range(MAX_DEPTH):
            level = [child for node in level for child in children(node)]
            if not level:
                return
        raise ConditionError(TOO_DEEP, self.text, level[0].at)
