"""Conditions of one form, with other literals each, are what each of them says by itself."""

import random
from itertools import combinations, product

import numpy as np
import pytest
from naive import NaiveError, NaiveFilter

import germane

OPERATORS = ("=", "<", "<=", ">", ">=", "<>")
NUMBERS, TEXTS = ("1", "2", "3"), ("'u'", "'v'", "'w'")
VALUES = {"x": [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, None], "s": ["t", "u", "uu", "v", "w", None]}


def compare(conditions, name):
    """All in one filter, the oracle beside it; each form comes with all its literals."""
    f, oracle = germane.Filter(), NaiveFilter()
    f.subscribe_many(range(len(conditions)), conditions)
    for number, condition in enumerate(conditions):
        oracle.subscribe(number, condition)
    for value in VALUES[name]:
        message = {name: value}
        assert f.match(message) == oracle.match(message), message
    f._check()


@pytest.mark.parametrize(("name", "literals"), [("x", NUMBERS), ("s", TEXTS)])
@pytest.mark.parametrize("word", ["AND", "OR"])
def test_two_comparisons_of_an_attribute(word, name, literals):
    """In whatever order: a contradiction must not be the form of what comes after it."""
    forms = list(product(OPERATORS, OPERATORS))
    pairs = list(product(literals, literals))
    conditions = [
        f"{name} {a} {one} {word} {name} {b} {other}" for a, b in forms for one, other in pairs
    ]
    compare(conditions, name)
    compare(conditions[::-1], name)


@pytest.mark.parametrize("seed", range(4))
def test_three_comparisons_of_an_attribute(seed):
    draw = np.random.default_rng(seed)
    forms = [
        "x {} {} AND x {} {} AND x {} {}", "x {} {} AND x {} {} OR x {} {}",
        "x {} {} AND (x {} {} OR x {} {})", "NOT (x {} {} OR x {} {}) AND x {} {}",
        "x IN ({1}, {3}) AND x {4} {5}", "x BETWEEN {1} AND {3} AND x {4} {5}",
    ]  # fmt: skip
    conditions = []
    for form in forms:
        for operators in draw.permutation(list(product(OPERATORS, repeat=3)))[:12]:
            for literals in draw.permutation(list(product(NUMBERS, repeat=3)))[:12]:
                conditions.append(form.format(*np.column_stack([operators, literals]).ravel()))
    compare(conditions, "x")


def test_a_contradiction_is_nobodys_form():
    for first, second in combinations(["x = 4 AND x < 1", "x = 2 AND x < 5", "x = 3 AND x = 3"], 2):
        f = germane.Filter()
        f.subscribe("first", first)
        f.unsubscribe("first")
        f.subscribe("second", second)
        assert f.match({"x": 2.5}) == []
        assert f.match({"x": 2}) == ["second"] * (second == "x = 2 AND x < 5")


@pytest.mark.parametrize("numbers", [(2, 9), (9, 2), (1, 3)])
@pytest.mark.parametrize("bound", ["{} * context.a", "context.a * {} + 0", "0 + {} * context.a"])
def test_a_factor_in_one_row_and_a_literal_in_another(numbers, bound):
    """One row has the factor in its shape, the other tests the comparison as it stands."""
    for conditions in ("(y = 1 OR x <= context.b) AND x <= {}", "x <= {}"):
        f, oracle = germane.Filter(), NaiveFilter()
        for one in (f, oracle):
            one.update("c", {"a": 1, "b": 100})
            for number in numbers:
                one.subscribe(number, conditions.format(bound.format(number)), "c")
        for x in (0.5, 2, 2.5, 5, 9, 50):
            for y in (0, 1):
                assert f.match({"x": x, "y": y}) == oracle.match({"x": x, "y": y})


LEAVES = [
    "{a} {o} #", "{a} BETWEEN # AND #", "{a} IN (#, #)", "{a} {o} context.l",
    "{a} {o} context.l - #", "{a} {o} # * context.l", "{a} {o} # - context.l",
    "{a} IS NULL", "context.l {o} #", "s {o} @",
    "s LIKE @", "s IN (@, @)", "{a} > -#", "ABS({a}) < #", "{a} + # > #", "context.l IS NULL",
]  # fmt: skip
DRAWN = {"#": ["1", "2", "3", "2.5"], "@": ["'a'", "'b'", "'ab'", "'a%'"]}


def form(draw, depth=0):
    """A condition with # for numbers and @ for texts."""
    kind = draw.random()
    if depth < 3 and kind < 0.55:
        parts = [form(draw, depth + 1) for _ in range(draw.choice([2, 2, 3]))]
        word = draw.choice(["AND", "AND", "OR"])
        return f"({f' {word} '.join(parts)})"
    if depth < 3 and kind < 0.62:
        return f"NOT {form(draw, depth + 1)}"
    return draw.choice(LEAVES).format(a=draw.choice("xxy"), o=draw.choice(OPERATORS))


def filled(draw, text):
    return "".join(draw.choice(DRAWN[letter]) if letter in DRAWN else letter for letter in text)


@pytest.mark.parametrize("seed", range(200))
def test_forms_at_random(seed):
    """Six texts of each of three forms, in one filter."""
    draw = random.Random(seed)
    schema = {"x": "number", "y": "number", "s": "string", "l": "number"}
    f = germane.Filter(schema=schema, index=draw.choice(["scan", "agile"]))
    oracle = NaiveFilter(schema=schema)
    for one in (f, oracle):
        one.update("c", {"l": 1})
        one.update("d", {"l": 2.5})
    forms = [form(draw) for _ in range(3)]
    for number in range(18):
        condition, context = filled(draw, forms[number // 6]), draw.choice("cd")
        try:
            oracle.subscribe(number, condition, context)
        except NaiveError:
            with pytest.raises(germane.GermaneError):
                f.subscribe(number, condition, context)
            continue
        f.subscribe(number, condition, context)
    for _ in range(12):
        x, y = draw.choice([0, 1, 1.5, 2, 2.5, 3, 4, -2]), draw.choice([1, 2, 3])
        message = {"x": x, "y": y, "s": draw.choice(["a", "b", "ab", "aa"])}
        message = {name: value for name, value in message.items() if draw.random() < 0.85}
        assert f.match(message) == oracle.match(message)
