"""Comparisons that are words: BETWEEN, IN, LIKE, IS NULL, WITHIN and CONTAINS.

In: the parser, standing right after the word; the operand on its left; whether a NOT came before.
Out: a node. Each is one function in the table `PREDICATES`; a new word is a function and a line.

BETWEEN becomes two comparisons that share their operand. An operand that holds a condition is
refused, else nested BETWEENs would double the work of every walk at each level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from germane.language import lexer
from germane.language.patterns import parse_pattern
from germane.language.tree import (
    CONDITIONS,
    And,
    Compare,
    Const,
    Context,
    In,
    InBox,
    IsNull,
    Like,
    Matches,
    Message,
    Node,
    Or,
    Truth,
    Within,
    children,
)
from germane.model.errors import ConditionError

if TYPE_CHECKING:
    from germane.language.parser import Parser

__all__ = ["PREDICATES", "as_value", "is_string"]

CORNERS = (("south", 90), ("west", 180), ("north", 90), ("east", 180))
VALUE = 40
"""Operands bind tighter than any comparison, so that BETWEEN's AND is its own."""


def as_value(node: Node) -> Node:
    """TRUE and FALSE as an operand are constants, not conditions."""
    if type(node) is Truth and node.value is not None:
        return Const(node.value, "boolean", node.at)
    return node


def is_string(token: Any) -> bool:
    """Whether a token's value is a string literal."""
    return type(token) is Const and token.type == "string"


def between(parser: Parser, operand: Node, negated: bool, at: int, depth: int) -> Node:
    """x BETWEEN low AND high is x >= low AND x <= high."""
    if any(type(node) in CONDITIONS for node in walk(operand)):
        raise ConditionError("BETWEEN takes a value, not a condition", parser.text, at, "a value")
    low = as_value(parser.expression(VALUE, depth))
    if parser.kinds[parser.index] != lexer.AND:
        raise parser.unexpected("AND and the upper bound of BETWEEN")
    parser.index += 1
    high = as_value(parser.expression(VALUE, depth))
    if negated:
        return Or((Compare("<", operand, low, at), Compare(">", operand, high, at)), at)
    return And((Compare(">=", operand, low, at), Compare("<=", operand, high, at)), at)


def in_list(parser: Parser, operand: Node, negated: bool, at: int, depth: int) -> Node:
    """x IN (item, …), or x IN BOX(south, west, north, east)."""
    kinds, values = parser.kinds, parser.values
    if values[parser.index] == "BOX":
        return box(parser, operand, negated, at)
    if kinds[parser.index] != lexer.OPEN:
        raise parser.unexpected("'(' and a list of values after IN")
    parser.enter()
    items: list[Node] = []
    while True:
        index = parser.index
        if kinds[index] == lexer.LEAF and kinds[index + 1] in (lexer.COMMA, lexer.CLOSE):
            items.append(values[index])
            parser.index = index + 1
        else:
            items.append(as_value(parser.expression(VALUE, depth)))
        if kinds[parser.index] != lexer.COMMA:
            break
        parser.index += 1
    parser.leave("',' or ')' in the list of IN")
    return In(operand, tuple(items), negated, at)


def box(parser: Parser, operand: Node, negated: bool, at: int) -> Node:
    """x IN BOX(south, west, north, east), in degrees."""
    if not isinstance(operand, Message | Context):
        message = "IN BOX takes an attribute on its left"
        raise ConditionError(message, parser.text, operand.at, "an attribute")
    parser.index += 1
    if parser.kinds[parser.index] != lexer.OPEN:
        raise parser.unexpected("'(' and four numbers after BOX")
    parser.enter()
    corners: list[float] = []
    for number, (name, most) in enumerate(CORNERS):
        corner_at = parser.ats[parser.index]
        sign = 1.0
        if parser.values[parser.index] == "-":
            sign = -1.0
            parser.index += 1
        value = parser.values[parser.index]
        if type(value) is not Const or value.type != "number":
            raise parser.unexpected(f"a number, the {name} edge, in BOX(south, west, north, east)")
        degrees = sign * float(value.value)
        if not abs(degrees) <= most:
            message = f"the {name} edge of a BOX is between -{most} and {most} degrees"
            raise ConditionError(message, parser.text, corner_at, "degrees")
        if name == "north" and degrees < corners[0]:
            message = (
                f"the BOX is upside down: its north edge, {degrees:g}, is below its south edge"
            )
            raise ConditionError(message, parser.text, corner_at, "south, west, north, east")
        corners.append(degrees)
        parser.index += 1
        if number < 3:
            if parser.kinds[parser.index] != lexer.COMMA:
                raise parser.unexpected("',' and the next edge in BOX(south, west, north, east)")
            parser.index += 1
    parser.leave("')' after the east edge of BOX")
    south, west, north, east = corners
    return InBox(operand, south, west, north, east, negated, at)


def like(parser: Parser, operand: Node, negated: bool, at: int, depth: int) -> Node:
    """x LIKE 'pattern' [ESCAPE 'e']."""
    pattern_at = parser.ats[parser.index]
    pattern = string(parser, "a pattern in single quotes after LIKE")
    escape = None
    word = parser.values[parser.index]
    if isinstance(word, Message | Context) and word.name.upper() == "ESCAPE":
        parser.index += 1
        escape_at = parser.ats[parser.index]
        escape = string(parser, "one character in single quotes after ESCAPE")
        if len(escape) != 1:
            message = f"ESCAPE takes one character, not {len(escape)}"
            raise ConditionError(message, parser.text, escape_at, "one character")
        if pattern.replace(escape * 2, "").endswith(escape):
            message = f"the pattern ends with its escape character {escape!r}"
            raise ConditionError(message, parser.text, pattern_at, "a character to escape")
    return Like(operand, pattern, escape, negated, at)


def is_null(parser: Parser, operand: Node, negated: bool, at: int, depth: int) -> Node:
    """x IS [NOT] NULL."""
    if parser.kinds[parser.index] == lexer.NOT:
        parser.index += 1
        negated = True
    if parser.kinds[parser.index] != lexer.NULL:
        raise parser.unexpected("NULL after IS NOT" if negated else "NULL or NOT NULL after IS")
    parser.index += 1
    return IsNull(operand, negated, at)


def cover(parser: Parser, operand: Node, negated: bool, at: int, depth: int) -> Node:
    """x WITHIN y, x CONTAINS y: y is a node, a list of nodes, or an attribute."""
    word = parser.values[parser.index - 1]
    if not isinstance(operand, Message | Context):
        message = f"{word} takes an attribute on its left"
        raise ConditionError(message, parser.text, operand.at, "an attribute")
    expected = f"a node in single quotes, a list of them, or an attribute after {word}"
    first = parser.values[parser.index]
    items: list[Node] = []
    if parser.kinds[parser.index] == lexer.LEAF:
        parser.index += 1
        items.append(first)
    elif parser.kinds[parser.index] == lexer.OPEN:
        parser.enter()
        while True:
            item_at = parser.ats[parser.index]
            items.append(Const(string(parser, expected), "string", item_at))
            if parser.kinds[parser.index] != lexer.COMMA:
                break
            parser.index += 1
        parser.leave(f"',' or ')' in the list of {word}")
    if not items or not (is_string(items[0]) or isinstance(items[0], Message | Context)):
        parser.index -= bool(items)
        raise parser.unexpected(expected)
    left, right = (operand,), tuple(items)
    if word == "CONTAINS":
        return Within(right, left, word, negated, at)
    return Within(left, right, word, negated, at)


def matches(parser: Parser, operand: Node, negated: bool, at: int, depth: int) -> Node:
    """x MATCHES 'pattern' COST < number."""
    if not isinstance(operand, Message):
        message = "MATCHES takes an attribute of the message on its left"
        raise ConditionError(message, parser.text, operand.at, "an attribute of the message")
    pattern_at = parser.ats[parser.index]
    pattern = string(parser, "a pattern in single quotes after MATCHES")
    parse_pattern(pattern)  # says what is wrong with it
    if str(parser.values[parser.index]).upper() != "COST":
        raise parser.unexpected("COST < and a number after the pattern")
    parser.index += 1
    if parser.values[parser.index] != "<":
        raise parser.unexpected("'<' after COST")
    parser.index += 1
    threshold_at = parser.ats[parser.index]
    threshold = parser.values[parser.index]
    if type(threshold) is not Const or threshold.type != "number":
        raise parser.unexpected("a number after COST <")
    parser.index += 1
    limit = float(threshold.value)
    if limit == 0 or limit == math.inf:
        message = "the threshold of COST is finite"
        if not limit:
            message = "costs are not negative, so COST < 0 is never TRUE"
        raise ConditionError(message, parser.text, threshold_at, "a number above 0")
    return Matches(operand, pattern, limit, negated, at, pattern_at, threshold_at)


def string(parser: Parser, expected: str) -> str:
    """The value of the string literal that must stand here."""
    node = parser.values[parser.index]
    if not is_string(node):
        raise parser.unexpected(expected)
    parser.index += 1
    text: str = node.value
    return text


def walk(root: Node) -> Iterator[Node]:
    """All nodes of a tree, without recursion."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(children(node))


PREDICATES: dict[int, Callable[[Parser, Node, bool, int, int], Node]] = {
    lexer.BETWEEN: between,
    lexer.IN: in_list,
    lexer.LIKE: like,
    lexer.IS: is_null,
    lexer.COVER: cover,
    lexer.MATCH: matches,
}
