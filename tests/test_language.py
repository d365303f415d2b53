"""Conditions: what parses, what is refused and how, and that normal forms mean the same."""

from __future__ import annotations

import inspect
import math
import re
import sys
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from germane.language import MAX_DEPTH, MAX_LENGTH, compile_condition, parse, to_dnf, to_nnf
from germane.language.tree import (
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
from germane.model import (
    ConditionError,
    ConditionNameError,
    ConditionTypeError,
    InvalidValue,
    Schema,
    TypeMismatch,
    UnknownAttribute,
)

# Reading ------------------------------------------------------------------------------------


def show(node: Node) -> str:
    """A tree as a fully parenthesised text, so that tests can compare precedence."""
    match node:
        case Const():
            return repr(node.value)
        case Message():
            return node.name
        case Context():
            return f"context.{node.name}"
        case Arith() | Compare():
            return f"({show(node.left)} {node.op} {show(node.right)})"
        case Negate():
            return f"(-{show(node.operand)})"
        case Abs():
            return f"abs({show(node.operand)})"
        case Distance():
            return f"distance({show(node.left)}, {show(node.right)})"
        case In():
            items = ", ".join(map(show, node.items))
            return f"({show(node.operand)} {'not ' * node.negated}in [{items}])"
        case Like():
            escape = f" escape {node.escape!r}" if node.escape else ""
            negated = "not " * node.negated
            return f"({show(node.operand)} {negated}like {node.pattern!r}{escape})"
        case IsNull():
            return f"({show(node.operand)} is {'not ' * node.negated}null)"
        case Truth():
            return str(node.value).lower()
        case And() | Or():
            word = " and " if isinstance(node, And) else " or "
            return f"({word.join(map(show, node.parts))})"
        case Not():
            return f"(not {show(node.operand)})"
    raise AssertionError(node)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a = 1", "(a = 1.0)"),
        ("a != 1", "(a <> 1.0)"),
        ("a = 'it''s'", '(a = "it\'s")'),
        ("a<=.5e1", "(a <= 5.0)"),
        ("a < 1e999", "(a < inf)"),
        ("a < 5. or b", "((a < 5.0) or b)"),
        ("a OR b AND NOT c = d + e * -f", "(a or (b and (not (c = (d + (e * (-f)))))))"),
        ("a - b - c > 0", "(((a - b) - c) > 0.0)"),
        ("a / b * c > 0", "(((a / b) * c) > 0.0)"),
        ("- - a = 1", "((-(-a)) = 1.0)"),
        ("-a * b = 1", "(((-a) * b) = 1.0)"),
        ("not Not nOT a", "(not (not (not a)))"),
        ("(a or b) and c", "((a or b) and c)"),
        ("a and b and c or d or e", "((a and b and c) or d or e)"),
        ("a BETWEEN 1 AND 2 AND b", "(((a >= 1.0) and (a <= 2.0)) and b)"),
        ("a NOT BETWEEN b-1 AND 2", "((a < (b - 1.0)) or (a > 2.0))"),
        ("a IN (1, -2, b + 1)", "(a in [1.0, (-2.0), (b + 1.0)])"),
        ("a NOT IN ('x')", "(a not in ['x'])"),
        ("a LIKE 'x%' ESCAPE '!'", "(a like 'x%' escape '!')"),
        ("a NOT LIKE '!!' escape '!'", "(a not like '!!' escape '!')"),
        ("a IS NULL AND b IS NOT NULL", "((a is null) and (b is not null))"),
        ("(a > 1) = TRUE", "((a > 1.0) = True)"),
        ("(a > 1) IS NULL", "((a > 1.0) is null)"),
        ("TRUE AND false", "(true and false)"),
        ("a IN (TRUE)", "(a in [True])"),
        ("context.a < b", "(context.a < b)"),
        ("CONTEXT . a < b", "(context.a < b)"),
        ('context."odd ""name" = "AND"', '(context.odd "name = AND)'),
        ("context.and = 1", "(context.and = 1.0)"),
        ("abs(a) = abs", "(abs(a) = abs)"),
        ("DISTANCE(a, context.b) <= 5000", "(distance(a, context.b) <= 5000.0)"),
        ("timestamp = 1 AND distance = 2", "((timestamp = 1.0) and (distance = 2.0))"),
        ("t < TIMESTAMP '1970-01-01T00:00:01+00:00'", "(t < 1000000)"),
        ("größe > 1 and नमस्ते = 'x'", "((größe > 1.0) and (नमस्ते = 'x'))"),
        ("\u00a0a\u3000=\n1\t", "(a = 1.0)"),
        ("ıs = 1", "(ıs = 1.0)"),
    ],
)
def test_reads(text: str, tree: str) -> None:
    assert show(parse(text)) == tree


def test_positions() -> None:
    tree = parse("  a = 1 AND context.b < 'x'")
    assert isinstance(tree, And)
    assert tree.at == 8
    first, second = tree.parts
    assert isinstance(first, Compare)
    assert isinstance(second, Compare)
    assert [first.left.at, first.at, first.right.at] == [2, 4, 6]
    assert [second.left.at, second.at, second.right.at] == [12, 22, 24]


def test_address_mode() -> None:
    assert show(parse("age < 30 AND \"x y\" = 'z'", "address")) == (
        "((context.age < 30.0) and (context.x y = 'z'))"
    )
    with pytest.raises(ConditionError, match="drop the prefix") as caught:
        parse("context.age < 30", "address")
    assert caught.value.suggestion == "age"
    with pytest.raises(InvalidValue):
        parse("a", "elsewhere")


# Refusing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "position", "message", "suggestion"),
    [
        ("", 0, "empty", None),
        (" \n ", 0, "empty", None),
        ("price BETWEN 1 AND 2", 6, "expected an operator, found 'BETWEN'", "BETWEEN"),
        ("a = 1 ADN b = 2", 6, "found 'ADN'", "AND"),
        ("a LKE 'x'", 2, "operator", "LIKE"),
        ("price >", 7, "expected a value, found the end", None),
        ("a < b < c", 6, "do not chain", None),
        ("a IS NULL = b", 10, "do not chain", None),
        ("a = NULL", 4, "IS NULL", "IS NULL"),
        ("a == 1", 3, "two comparison operators", "="),
        ("a => 1", 3, "two comparison operators", ">="),
        ("a.b = 1", 1, "double quotes", '"a.b"'),
        ("contxt.b = 1", 6, "prefix", "context.b"),
        ("context = 1", 0, "without an attribute", "context.name"),
        ("context. = 1", 8, "expected a name after", None),
        ('"" = 1', 0, "empty", None),
        ("topic WITHIN", 12, "a node in single quotes", None),
        ("topic WITHIN 3", 13, "a node in single quotes", None),
        ("topic WITHIN ('a', b)", 19, "a node in single quotes", None),
        ("topic WITHIN ('a'", 17, "in the list of WITHIN", None),
        ("3 WITHIN 'a'", 0, "an attribute on its left", None),
        ("a WITHIN 'b' WITHIN 'c'", 13, "do not chain", None),
        ("document MATCHES x COST < 3", 17, "a pattern in single quotes", None),
        ("document MATCHES 'x'", 20, "COST <", None),
        ("document MATCHES 'x' COST 3", 26, "'<' after COST", None),
        ("document MATCHES 'x' COST < y", 28, "a number after COST", None),
        ("document MATCHES 'x' COST < -3", 28, "a number after COST", None),
        ("document MATCHES 'x' COST < 0", 28, "never TRUE", None),
        ("context.a MATCHES 'x' COST < 3", 0, "an attribute of the message", None),
        ("cost < 5", 0, "reserved", '"cost"'),
        ("a = box", 4, "reserved", '"box"'),
        ("abz(a) = 1", 0, "no function ABZ", "ABS"),
        ('"abs"(a) = 1', 5, "expected an operator", None),
        ("a = 'abc", 4, "never closed", None),
        ('"abc = 1', 0, "never closed", None),
        ("a = ‘abc’", 4, "straight", None),
        ("a && b", 2, "AND", "AND"),
        ("a = 1;", 5, "semicolon", None),
        ("(a = 1", 6, "expected an operator or '\\)'", None),
        ("a = 1)", 5, "the end, found '\\)'", None),
        ("()", 1, "expected a condition", None),
        ("a IN ()", 6, "expected a value", None),
        ("a IN 1", 5, "list of values", None),
        ("a IN (1 2)", 8, "expected an operator", None),
        ("a LIKE b", 7, "pattern in single quotes", None),
        ("a LIKE 'x!' ESCAPE '!'", 7, "escape character", None),
        ("a LIKE 'x' ESCAPE '!!'", 18, "one character, not 2", None),
        ("a LIKE 'x' ESCAPE ''", 18, "one character, not 0", None),
        ("a LIKE 'x' ESCAPE", 17, "found the end", None),
        ("a BETWEEN 1 OR 2", 12, "upper bound", None),
        ("(a = 1) BETWEEN TRUE AND FALSE", 8, "not a condition", None),
        ("a IS 5", 5, "NULL or NOT NULL", None),
        ("a NOT b", 6, "BETWEEN, IN, LIKE, WITHIN, CONTAINS or MATCHES", None),
        ("a NOT IS NULL", 6, "BETWEEN, IN, LIKE, WITHIN, CONTAINS or MATCHES", None),
        ("a = NOT b", 4, "parentheses", None),
        ("a = +5", 4, "plus", None),
        ("5abc = 1", 1, "operator", None),
        ("a eq 5", 2, "operator", "="),
        ("DISTANCE(a) < 5", 10, "second location", None),
        ("t < TIMESTAMP 'yesterday'", 14, "ISO 8601", None),
        ("t < TIMESTAMP '2300-01-01T00:00:00.000001Z'", 14, "float64", None),
        ("a = '\ud800'", 5, "not a character", None),
        ("a = \x00", 4, "does not belong", None),
    ],
)
def test_refuses(text: str, position: int, message: str, suggestion: str | None) -> None:
    with pytest.raises(ConditionError, match=message) as caught:
        parse(text)
    error = caught.value
    assert (error.position, error.suggestion) == (position, suggestion)
    assert error.condition == text
    if text.strip():
        assert str(error).split("\n")[-1].strip() == "^"


@pytest.mark.parametrize("text", [None, 5, b"a = 1"])
def test_refuses_what_is_no_text(text: Any) -> None:
    with pytest.raises(InvalidValue, match=type(text).__name__):
        parse(text)


def nested(kind: str, n: int) -> str:
    """A condition of about n levels."""
    return {
        "parentheses": "(" * n + "a" + ")" * n,
        "not": "NOT " * n + "a",
        "not()": "NOT (" * n + "a" + ")" * n,
        "minus": "-" * n + "a = 1",
        "minus()": "-(" * n + "a" + ")" * n + " = 1",
        "sum": "1" + "+1" * n + " = a",
        "sum()": "(1+" * n + "1" + ")" * n + " = a",
        "and()": "a AND (b OR (" * (n // 2) + "a" + "))" * (n // 2),
        "compare()": "a = (" * n + "b" + ")" * n,
        "abs": "ABS(" * n + "a" + ")" * n + " = 1",
        "in": "a IN ((" * (n // 2) + "b" + "))" * (n // 2),
        "between": "a BETWEEN TRUE AND (" * (n // 2) + "b" + ")" * (n // 2),
    }[kind]


KINDS = (
    *("parentheses", "not", "not()", "minus", "minus()", "sum", "sum()"),
    *("and()", "compare()", "abs", "in", "between"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_nesting(kind: str) -> None:
    condition = compile_condition(nested(kind, MAX_DEPTH - 4), Schema().draft("profile 'p'"))
    assert depth(condition.tree) <= MAX_DEPTH
    for n in (2 * MAX_DEPTH, 2_000, 20_000):
        with pytest.raises(ConditionError, match="nested deeper than 200"):
            parse(nested(kind, n))


def depth(node: Node) -> int:
    return 1 + max(map(depth, children(node)), default=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_stack_is_no_excuse(kind: str) -> None:
    text = nested(kind, MAX_DEPTH - 4)

    def compile_below(frames: int) -> str:
        if frames > 0:
            return compile_below(frames - 1)
        try:
            compile_condition(text, Schema().draft("profile 'p'"))
        except ConditionError:
            return "refused"
        return "fine"

    free = sys.getrecursionlimit() - len(inspect.stack(0))
    assert compile_below(free - 650) == "fine"
    for left in range(60, 500, 55):
        assert compile_below(free - left) in ("fine", "refused")


def test_long_texts() -> None:
    with pytest.raises(ConditionError, match="at most 262,144"):
        parse("a = 1 AND " * MAX_LENGTH)
    begin = time.process_time()
    wide = "a = 1 AND " * 26_000 + "a = 1"
    assert len(parse(wide).parts) == 26_001  # type: ignore[union-attr]
    for garbage in ("'" * 200_001, '"' * 200_001, "context " * 30_000, "((a=1)and" * 20_000):
        with pytest.raises(ConditionError):
            parse(garbage)
    assert time.process_time() - begin < 10


TOKENS = (
    "a b context.c price 'x' '' 1 2.5 .5 1e9 = <> != < <= > >= + - * / ( ) , AND OR NOT IN LIKE "
    "BETWEEN IS NULL TRUE FALSE ABS( DISTANCE( TIMESTAMP '2026-01-01' ESCAPE WITHIN MATCHES COST "
    'BOX "odd name" context context. . " ; % é ‘ \x00 CONTAINS == ((( ))) NOT( 1/0'
).split(" ")


def must_parse_or_refuse(text: str) -> None:
    for names in ("message", "address"):
        refused: ConditionError | None = None
        try:
            compile_condition(text, Schema().draft("profile 'p'"), names)
        except ConditionError as error:
            refused = error
        if refused is not None:
            assert 0 <= refused.position <= len(text)
            assert str(refused)


@given(st.lists(st.sampled_from(TOKENS), max_size=25).map(" ".join))
def test_garbage_of_tokens(text: str) -> None:
    must_parse_or_refuse(text)


@given(st.text(max_size=60))
def test_garbage_of_characters(text: str) -> None:
    must_parse_or_refuse(text)
    must_parse_or_refuse(f"a = 1 AND {text}")
    must_parse_or_refuse(f"a = '{text}")


# Typing -------------------------------------------------------------------------------------

TYPED = {
    "n": "number",
    "s": "string",
    "b": "boolean",
    "t": "timestamp",
    "p": "location",
    "c": "category",
    "x": "xml",
}


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("n = 'x'", 2, "number cannot be compared with a string"),
        ("s < 5", 2, "string cannot be compared with a number"),
        ("t < 5", 2, "timestamp"),
        ("n = t", 2, "timestamp"),
        ("b = 1", 2, "boolean"),
        ("n + s > 1", 4, "right side of \\+ must be a number, but 's' is a string"),
        ("-b = 1", 1, "minus"),
        ("ABS('x') = 1", 4, "ABS"),
        ("ABS(n > 1) = 1", 6, "ABS"),
        ("n LIKE 'x'", 0, "LIKE must be a string"),
        ("n IN (1, 'x')", 9, "number cannot be compared with a string"),
        ("n", 0, "a condition must be a boolean, but 'n' is a number"),
        ("'x'", 0, "a condition must be a boolean"),
        ("n + 1", 2, "a condition must be a boolean"),
        ("n AND b", 0, "boolean"),
        ("NOT n", 4, "boolean"),
        ("p = context.p", 0, "location cannot be compared"),
        ("c = 'x'", 0, "WITHIN"),
        ("x = 'x'", 0, "MATCHES"),
        ("DISTANCE(p, n) < 1", 12, "DISTANCE must be a location"),
        ("(n > 1) = 1", 8, "boolean cannot be compared with a number"),
    ],
)
def test_types(text: str, position: int, message: str) -> None:
    with pytest.raises(ConditionTypeError, match=message) as caught:
        compile_condition(text, Schema(TYPED).draft("profile 'p'"))
    assert caught.value.position == position
    assert isinstance(caught.value, TypeMismatch)


@pytest.mark.parametrize(
    "text",
    [
        "p IS NULL AND c IS NOT NULL AND x IS NULL AND (n + 1) IS NULL",
        "DISTANCE(p, context.p) <= n",
        "b AND NOT context.b AND b < TRUE AND (n > 1) = b",
        "t > TIMESTAMP '2026-01-01' AND s > 'x'",
        "n BETWEEN context.n - 5 AND ABS(n) * 2",
    ],
)
def test_types_that_fit(text: str) -> None:
    compile_condition(text, Schema(TYPED).draft("profile 'p'"))


def test_unknown_names_in_a_closed_schema() -> None:
    schema = Schema({"price": "number", "place": "location"})
    with pytest.raises(ConditionNameError, match="'place', 'price'") as caught:
        compile_condition("price > 1 AND context.prce < 2", schema.draft("profile 'p'"))
    assert (caught.value.position, caught.value.suggestion) == (14, "price")
    assert isinstance(caught.value, UnknownAttribute)
    with pytest.raises(ConditionNameError):
        compile_condition("zzz IS NULL", schema.draft("profile 'p'"))


def test_conditions_teach_the_schema() -> None:
    schema = Schema()
    draft = schema.draft("profile 'p1'")
    compile_condition("time < context.last AND active AND price > 5 AND x IN (y, 'z')", draft)
    draft.commit()
    assert {name: schema.type_of(name) for name in schema.names} == {
        "time": None,
        "last": None,
        "active": "boolean",
        "price": "number",
        "x": "string",
        "y": "string",
    }
    schema.fix("last", "timestamp", "context 'ann'")
    assert schema.type_of("time") == "timestamp"
    with pytest.raises(ConditionTypeError, match=r"since profile 'p1'.*"):
        compile_condition("price = 'high'", schema.draft("profile 'p2'"))
    with pytest.raises(ConditionTypeError, match="since context 'ann'"):
        compile_condition("time > 5", schema.draft("profile 'p3'"))


def test_disagreement_within_one_condition() -> None:
    schema = Schema()
    with pytest.raises(ConditionTypeError):
        compile_condition("a = b AND a > 1 AND b = 'x'", schema.draft("profile 'p'"))
    with pytest.raises(ConditionTypeError, match="compared"):
        compile_condition("a = b AND DISTANCE(a, c) < 1", schema.draft("profile 'p'"))
    assert schema.names == ()


def test_names_read() -> None:
    condition = compile_condition("a = 1 AND context.b > c", Schema().draft("profile 'p'"))
    assert condition.message_names == {"a", "c"}
    assert condition.context_names == {"b"}
    assert condition.reads_context
    address = compile_condition("a = 1", Schema().draft("a message"), "address")
    assert (address.message_names, address.context_names) == (frozenset(), {"a"})
    assert not compile_condition("a = 1", Schema().draft("profile 'p'")).reads_context


# Normal forms -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "nnf"),
    [
        ("b", "(b = True)"),
        ("NOT context.b", "(context.b = False)"),
        ("NOT (n < 1 OR NOT b)", "((n >= 1.0) and (b = True))"),
        ("NOT (n IN (1, 2) AND s LIKE 'x')", "((n not in [1.0, 2.0]) or (s not like 'x'))"),
        ("NOT n IS NULL", "(n is not null)"),
        ("n > -5", "(n > -5.0)"),
        ("n > context.n - (2 * 3 + 4)", "(n > (context.n - 10.0))"),
        ("n > 1 + context.n + 2", "(n > ((1.0 + context.n) + 2.0))"),
        ("n > 1 / 0", "false"),
        ("NOT n > 1 / 0", "false"),
        ("n > 1e999 - 1e999", "false"),
        ("n > 1e308 * 10", "(n > inf)"),
        ("n IN (1 / 0, 2, 2)", "(n = 2.0)"),
        ("n NOT IN (1 / 0, 2)", "false"),
        ("1 IN (n, 1)", "true"),
        ("n NOT IN (3)", "(n <> 3.0)"),
        ("1 < 2 AND b", "(b = True)"),
        ("1 > 2 AND b", "false"),
        ("'a' < 'b' OR b", "true"),
        ("TRUE", "true"),
        ("NOT TRUE OR b AND FALSE", "false"),
        ("(1 / 0) IS NULL", "true"),
        ("(n + 1 / 0) IS NOT NULL", "false"),
        ("n BETWEEN 1 AND 2 AND (b AND (n > 3 AND s = 'x'))", None),
        ("(n > 1) = TRUE", "(n > 1.0)"),
        ("(n > 1) <> TRUE", "(n <= 1.0)"),
        ("FALSE = (n > 1)", "(n <= 1.0)"),
        ("NOT (n > 1) IS NULL", "((n > 1.0) is not null)"),
        ("(NOT n > 1) = b", "((not (n > 1.0)) = b)"),
    ],
)
def test_nnf(text: str, nnf: str | None) -> None:
    condition = compile_condition(text, Schema(TYPED).draft("profile 'p'"))
    if nnf is None:
        assert isinstance(condition.nnf, And)
        assert len(condition.nnf.parts) == 5
    else:
        assert show(condition.nnf) == nnf


def dnf(text: str) -> list[list[str]] | None:
    conjunctions = compile_condition(text, Schema().draft("profile 'p'")).conjunctions
    return None if conjunctions is None else [list(map(show, c)) for c in conjunctions]


def test_dnf() -> None:
    assert dnf("FALSE") == []
    assert dnf("TRUE") == [[]]
    assert dnf("a > 1 AND b") == [["(a > 1.0)", "(b = True)"]]
    assert dnf("a IN (1, 2) AND b") == [["(a = 1.0)", "(b = True)"], ["(a = 2.0)", "(b = True)"]]
    assert dnf("a NOT IN (1, 2)") == [["(a not in [1.0, 2.0])"]]
    assert dnf("a > 1 AND (b OR c AND d)") == [
        ["(a > 1.0)", "(b = True)"],
        ["(a > 1.0)", "(c = True)", "(d = True)"],
    ]


def test_dnf_never_blows_up() -> None:
    assert len(dnf(" AND ".join(f"(a{i} OR b{i})" for i in range(6))) or ()) == 64
    begin = time.process_time()
    assert dnf(" AND ".join(f"(a{i} OR b{i})" for i in range(7))) is None
    assert dnf(" AND ".join(f"(a{i} OR b{i})" for i in range(5_000))) is None
    items = ", ".join(map(str, range(20_000)))
    kept = compile_condition(f"a IN ({items}) AND b", Schema().draft("profile 'p'")).conjunctions
    assert kept is not None
    assert [type(literal) for literal in kept[0]] == [In, Compare]
    assert len(dnf("a IN (1, 2, 3) AND " + "b = 1 AND " * 20_000 + "c") or ()) == 3
    assert time.process_time() - begin < 10
    assert to_dnf(to_nnf(parse("a OR b OR c")), cap=2) is None


# A small evaluator of three-valued logic: None is NULL and UNKNOWN. It follows the tree as it is
# written, and so decides what the normal forms must mean.

TESTS: dict[str, Any] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def evaluate(node: Node, message: dict[str, Any], context: dict[str, Any]) -> Any:
    def go(node: Node) -> Any:
        return evaluate(node, message, context)

    match node:
        case Const() | Truth():
            return node.value
        case Message():
            return message.get(node.name)
        case Context():
            return context.get(node.name)
        case Arith():
            return arithmetic(node.op, go(node.left), go(node.right))
        case Negate() | Abs():
            value = go(node.operand)
            return value if value is None else -value if isinstance(node, Negate) else abs(value)
        case Compare():
            left, right = go(node.left), go(node.right)
            return None if left is None or right is None else TESTS[node.op](left, right)
        case In():
            operand = go(node.operand)
            items = [go(item) for item in node.items]
            known = [None if None in (operand, item) else operand == item for item in items]
            found = True if True in known else None if None in known else False
            return found if found is None else found is not node.negated
        case Like():
            value = go(node.operand)
            return None if value is None else like(value, node) is not node.negated
        case IsNull():
            return (go(node.operand) is None) is not node.negated
        case And():
            values = [go(part) for part in node.parts]
            return False if False in values else None if None in values else True
        case Or():
            values = [go(part) for part in node.parts]
            return True if True in values else None if None in values else False
        case Not():
            value = go(node.operand)
            return None if value is None else not value
    raise AssertionError(node)


def arithmetic(op: str, left: Any, right: Any) -> Any:
    if left is None or right is None or (op == "/" and right == 0):
        return None
    value = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "/": lambda: left / right,
    }[op]()
    return None if math.isnan(value) else value


def like(value: str, node: Like) -> bool:
    assert node.escape is None
    pattern = re.escape(node.pattern).replace("%", ".*").replace("_", ".")
    return re.fullmatch(pattern, value, re.DOTALL) is not None


ROWS = {"n": "number", "m": "number", "s": "string", "b": "boolean"}


def attribute(*names: str) -> st.SearchStrategy[str]:
    return st.sampled_from([*names, *(f"context.{name}" for name in names)])


numbers = st.recursive(
    attribute("n", "m") | st.sampled_from(["0", "1", "2", ".5", "1e999", "-1"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({' '.join(t)})"),
        inner.map(lambda x: f"-{x}"),
        inner.map(lambda x: f"ABS({x})"),
    ),
    max_leaves=3,
)
strings = attribute("s") | st.sampled_from(["'x'", "'xy'", "''"])
operators = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])


def predicates(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    negation = st.sampled_from(["", "NOT "])
    lists = st.lists(values, min_size=1, max_size=3).map(", ".join)
    return st.one_of(
        st.tuples(values, operators, values).map(" ".join),
        st.tuples(values, negation, lists).map(lambda t: f"{t[0]} {t[1]}IN ({t[2]})"),
        st.tuples(values, negation).map(lambda t: f"{t[0]} IS {t[1]}NULL"),
        st.tuples(values, negation, values, values).map(
            lambda t: f"{t[0]} {t[1]}BETWEEN {t[2]} AND {t[3]}"
        ),
    )


literals = st.one_of(
    predicates(numbers),
    predicates(strings),
    predicates(attribute("b") | st.sampled_from(["TRUE", "FALSE"])),
    attribute("b"),
    st.sampled_from(["TRUE", "FALSE"]),
    st.tuples(strings, st.sampled_from([" LIKE 'x%'", " NOT LIKE '_'"])).map("".join),
)


def combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    enclosed = inner.map(lambda x: f"({x})")
    joined = st.tuples(enclosed, st.sampled_from([" AND ", " OR "]), enclosed, enclosed)
    return st.one_of(
        joined.map(lambda t: t[1].join((t[0], t[2], t[3]))),
        joined.map(lambda t: t[0] + t[1] + t[2]),
        enclosed.map(lambda x: f"NOT {x}"),
        st.tuples(enclosed, operators, enclosed).map(" ".join),
        st.tuples(enclosed, operators, st.sampled_from(["TRUE", "FALSE", "b"])).map(" ".join),
        enclosed.map(lambda x: f"{x} IS NULL"),
        st.tuples(enclosed, enclosed).map(lambda t: f"{t[0]} IN ({t[1]}, TRUE)"),
    )


conditions = st.recursive(literals, combine, max_leaves=8)
rows = st.fixed_dictionaries(
    {},
    optional={
        "n": st.sampled_from([0.0, 0.5, 1.0, 2.0, -1.0, math.inf]),
        "m": st.sampled_from([0.0, 1.0, 2.0]),
        "s": st.sampled_from(["", "x", "xy"]),
        "b": st.booleans(),
    },
)


@given(conditions, st.lists(st.tuples(rows, rows), min_size=1, max_size=5))
@example("NOT (n > 1 / 0) OR (n IN (m, 1)) IS NULL", [({}, {})])
def test_normal_forms_mean_the_same(text: str, cases: list[tuple[Any, Any]]) -> None:
    condition = compile_condition(text, Schema(ROWS).draft("profile 'p'"))
    assert_normal(condition.nnf)
    for message, context in cases:
        delivered = evaluate(condition.tree, message, context) is True
        assert (evaluate(condition.nnf, message, context) is True) == delivered
        if condition.conjunctions is not None:
            assert len(condition.conjunctions) <= 64
            assert delivered == any(
                all(evaluate(literal, message, context) is True for literal in conjunction)
                for conjunction in condition.conjunctions
            )


def assert_normal(nnf: Node) -> None:
    """AND and OR by turns over literals, and TRUE or FALSE only alone."""
    if isinstance(nnf, And | Or):
        assert len(nnf.parts) > 1
        for part in nnf.parts:
            assert not isinstance(part, type(nnf) | Truth)
            assert_normal(part)
    else:
        assert isinstance(nnf, Compare | In | Like | IsNull | Truth)
        assert not (isinstance(nnf, Truth) and nnf.value is None)
