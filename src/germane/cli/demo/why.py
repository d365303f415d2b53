"""An explanation in one line: the predicates that decided, with the values they saw."""

import re
from datetime import datetime
from typing import Any

from germane.cli.demo.marks import Marks
from germane.filter.explain import Explanation, Step

_COMPARISON = re.compile(r" (<=|>=|<>|<|>|=) ")

_FLAG = re.compile(r"(my \w+) \(True\) = TRUE")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.+]+")
_BAND = re.compile(r" >= (.+) AND \S+ <= (.+)$")


def why(explanation: Explanation, marks: Marks) -> str:
    """For a delivery, the predicates that read the context, or all if none does."""
    personal = [step for step in explanation.steps if "context." in step.text]
    return marks.dot.join(_with_values(step) for step in personal or explanation.steps)


def why_not(explanation: Explanation) -> str:
    """For a message that was not delivered, the first predicate that is not TRUE."""
    for step in explanation.steps:
        if step.truth is not True:
            return f"{_with_values(step)} is {'unknown' if step.truth is None else 'false'}"
    return explanation.text


def _with_values(step: Step) -> str:
    """`price < context.limit` with 79 and 85 becomes `price (79) < my limit (85)`."""
    if isinstance(step.left, dict):
        text = _named(step.text, step.left)
    else:
        text = _compared(step)
    return _FLAG.sub(r"\1 is true", text.replace("context.", "my "))


def _named(text: str, values: dict[str, Any]) -> str:
    """Put each value behind its name."""
    names = sorted(values, key=len, reverse=True)
    pattern = r"(?<![\w.'])(" + "|".join(map(re.escape, names)) + r")(?![\w'])"
    return re.sub(pattern, lambda name: f"{name[0]} ({_shown(values[name[0]])})", text)


def _compared(step: Step) -> str:
    """Put the message's value behind its name, and each bound's value behind the bound."""
    bounds = iter(step.right if isinstance(step.right, tuple) else (step.right, step.right))
    sides: list[str] = []
    for comparison in step.text.split(" AND "):
        if not _COMPARISON.search(comparison):
            return step.text
        name, operator, bound = _COMPARISON.split(comparison, maxsplit=1)
        value = next(bounds)
        name = name if sides else f"{name} ({_shown(step.left)})"
        bound = f"{bound} ({_shown(value)})" if "context." in bound else bound
        sides.append(f"{name} {operator} {bound}")
    return _BAND.sub(r" BETWEEN \1 AND \2", " AND ".join(sides))


def _shown(value: Any) -> str:
    """As a person would write it; an explanation gives a bound that is a time as text."""
    if isinstance(value, str) and _TIME.fullmatch(value):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return f"{value:%a %H:%M %Z}"
    if isinstance(value, float):
        return f"{value:.15g}" if value.is_integer() else f"{value:.4g}"
    return "NULL" if value is None else str(value)
