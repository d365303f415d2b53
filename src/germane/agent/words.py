"""What an agent writes: the names of situations, conditions, and reasons in words."""

from collections.abc import Sequence

from germane.agent.interests import Rule
from germane.agent.pieces import Cell

__all__ = ["SITUATION", "condition", "in_words", "reason", "situation"]

SITUATION = "situation"


def situation(facets: Cell) -> str:
    """A context in a word: what guards its subscriptions. No two contexts have the same.

    What separates its parts, and those of an id, is written %XX inside of them.
    """
    parts = (f"{_escaped(name, '%,? ')} {_escaped(value, '%,?')}" for name, value in facets)
    return ", ".join(parts) or "anywhere"


def _escaped(text: str, signs: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in signs else c for c in text)


def condition(named: str, topics: Sequence[str], without: Sequence[str], nearby: bool) -> str:
    """Messages of topics, while the context's situation has this name."""
    parts = [f"context.{SITUATION} = {_quoted(named)}", f"topic WITHIN {_listed(topics)}"]
    if without:
        parts.append(f"NOT topic WITHIN {_listed(without)}")
    if nearby:
        parts.append("(place IS NULL OR place CONTAINS context.place)")
    return " AND ".join(parts)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _listed(topics: Sequence[str]) -> str:
    names = ", ".join(_quoted(topic) for topic in topics)
    return names if len(topics) == 1 else f"({names})"


def reason(rule: Rule) -> str:
    """What the person did, by a rule."""
    did = "kept" if rule.kept == rule.liked else "kept or read" if rule.kept else "read"
    return f"{did} {rule.liked} of {rule.seen} {rule.topic} items{in_words(rule.cell)}"


def in_words(cell: Cell) -> str:
    """A cell in words, each after a space."""
    words = []
    for name, value in cell:
        if name == "task":
            words.append(f"at {value}")
        elif name == "time":
            words.append(f"at {value}" if value in ("noon", "night") else f"in the {value}")
        elif name == "place":
            words.append(f"in {value.rsplit('/', 1)[-1]}")
        else:
            words.append(f"when {name} is {value}")
    return "".join(f" {word}" for word in words)
