"""What can go wrong, in words a person can act on.

In: a sentence, and for conditions the text and the position of the fault. Out: exceptions that
are also the `ValueError`, `KeyError` or `TypeError` a Python caller expects, and that survive
pickling (their `args` are their constructor's arguments).
"""

from __future__ import annotations

__all__ = [
    "BatchError",
    "ConditionError",
    "ConditionNameError",
    "ConditionTypeError",
    "DuplicateProfile",
    "GermaneError",
    "InvalidValue",
    "TypeMismatch",
    "UnknownAttribute",
    "UnknownContext",
    "UnknownProfile",
    "shown",
]

WINDOW = 60
"""Characters of a long line shown around the fault."""


class GermaneError(Exception):
    """The parent of every error this library raises on purpose."""


class ConditionError(GermaneError, ValueError):
    """A condition that does not parse; shows where, what was expected, and a likely remedy.

    >>> print(ConditionError("expected a value, found the end", "price >", 7))
    expected a value, found the end (at position 7)
      price >
             ^
    """

    def __init__(
        self,
        message: str,
        condition: str = "",
        position: int = 0,
        expected: str | None = None,
        suggestion: str | None = None,
    ) -> None:
        Exception.__init__(self, message, condition, position, expected, suggestion)
        self.message = message
        self.condition = condition
        self.position = position
        self.expected = expected
        self.suggestion = suggestion

    def __str__(self) -> str:
        hint = f"; did you mean {self.suggestion}?" if self.suggestion else ""
        if not self.condition.strip():  # there is nothing to point at
            return f"{self.message}{hint}"
        line, column = excerpt(self.condition, self.position)
        return f"{self.message}{hint} (at position {self.position})\n  {line}\n  {' ' * column}^"


class TypeMismatch(GermaneError, TypeError):
    """A value or an attribute is used as a type that it does not have."""


class InvalidValue(GermaneError, ValueError):
    """An argument that is malformed, whatever the state of the filter."""


class DuplicateProfile(GermaneError, ValueError):
    """A profile with this id is already registered."""


class _Unknown(GermaneError, KeyError):
    """A `KeyError` that prints its sentence plainly, not its repr."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class UnknownAttribute(_Unknown):
    """A name that a closed schema does not declare."""


class UnknownProfile(_Unknown):
    """No profile with this id is registered."""


class UnknownContext(_Unknown):
    """No context with this id is known."""


class UnknownNode(_Unknown):
    """A name that a content graph does not have."""


class ConditionTypeError(ConditionError, TypeMismatch):
    """A condition that parses, but compares or combines values of the wrong types."""


class ConditionNameError(ConditionError, UnknownAttribute):
    """A condition that reads an attribute which a closed schema does not declare."""


def excerpt(text: str, position: int) -> tuple[str, int]:
    """The line of `text` that holds `position`, cut to a window, and the column within it."""
    position = min(max(position, 0), len(text))
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    end = len(text) if end < 0 else end
    left, right = start, end
    if end - start > WINDOW:
        left = max(start, min(position - WINDOW // 2, end - WINDOW))
        right = min(end, left + WINDOW)
    before = "…" if left > start else ""
    after = "…" if right < end else ""
    line = "".join(c if c.isprintable() else " " for c in text[left:right])
    return f"{before}{line}{after}", len(before) + position - left


def shown(value: object, most: int = 200) -> str:
    """A value in an error, cut; also one that Python does not write out: an int of many digits."""
    try:
        return repr(value)[:most]
    except ValueError:
        size = f" of {value.bit_length():,} bits" if isinstance(value, int) else ""
        return f"{type(value).__name__}{size}"


class BatchError(GermaneError, ValueError):
    """Some entries of a batch were refused; all others were taken.

    `errors` lists (position in the batch, id, error); `accepted` counts the rest.
    """

    def __init__(self, errors: list[tuple[int, object, GermaneError]], accepted: int) -> None:
        Exception.__init__(self, errors, accepted)
        self.errors = errors
        self.accepted = accepted

    def __str__(self) -> str:
        told = "\n".join(
            f"- {shown(profile_id)} (entry {position}): {error}"
            for position, profile_id, error in self.errors[:5]
        )
        more = f"\n- and {len(self.errors) - 5} more in .errors" if len(self.errors) > 5 else ""
        return f"{len(self.errors)} refused, {self.accepted} accepted:\n{told}{more}"
