"""An explanation in one line: the predicates that decided, with the values they saw."""

from typing import Any

from germane.cli.demo.marks import Marks

Step = tuple[str, bool | None, Any, Any]

_OPERATORS = (" <= ", " >= ", " <> ", " != ", " < ", " > ", " = ")


def why(explanation: Any, marks: Marks) -> str:
    """For a delivery, the predicates that read the context, or all if none does."""
    steps: list[Step] = [tuple(step) for step in explanation.steps]
    true = [step for step in steps if step[1] is True]
    personal = [step for step in true if "context." in step[0]]
    return marks.dot.join(_with_values(step) for step in personal or true)


def why_not(explanation: Any) -> str:
    """For a message that was not delivered, the first predicate that is not TRUE."""
    for step in explanation.steps:
        if step[1] is not True:
            verdict = "is false" if step[1] is False else "is unknown"
            return f"{_with_values(tuple(step))} {verdict}"
    return str(explanation)


def _with_values(step: Step) -> str:
    """`price < context.limit` with 79 and 85 becomes `price (79) < limit (85)`."""
    text, _, left, right = step
    for operator in _OPERATORS:
        before, found, after = text.partition(operator)
        if found:
            text = _side(before, left) + operator + _side(after, right)
            break
    return text.replace("context.", "")


def _side(text: str, value: Any) -> str:
    shown = _shown(value)
    return text if text in (shown, repr(value)) else f"{text} ({shown})"


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
