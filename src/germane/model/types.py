"""The types that values have, and the words for attributes that disagree about them.

In: names and types as a caller wrote them. Out: errors that list what is possible, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from germane.model.errors import InvalidValue, TypeMismatch

__all__ = ["CATEGORY", "ORDERED", "TYPES", "XML", "check_name", "check_type", "listing", "mismatch"]

TYPES = ("number", "string", "boolean", "timestamp", "category", "location", "xml")

CATEGORY = "category"
"""Within a filter, the type of an attribute also names its graph: "category:topic"."""

XML = "xml"
"""Documents; the attribute `document` is of this type, unless something says otherwise."""

ORDERED = frozenset(("number", "string", "boolean", "timestamp"))
"""Types that may be compared with `=`, `<` and the like."""


def check_name(name: str) -> None:
    """Raise unless `name` is a non-empty str."""
    if not isinstance(name, str) or not name:
        raise InvalidValue(f"an attribute's name is a non-empty str, not {name!r}")


def check_type(type_: str) -> None:
    """Raise unless `type_` is one of `TYPES`."""
    of_graph = isinstance(type_, str) and type_.startswith(f"{CATEGORY}:")
    if not of_graph and type_ not in TYPES:
        raise InvalidValue(f"unknown type {type_!r}; the types are {', '.join(TYPES)}")


def listing(names: Iterable[str], limit: int = 12) -> str:
    """Names for an error message, cut when there are many."""
    known = sorted(names)
    shown = ", ".join(repr(name) for name in known[:limit])
    more = f" and {len(known) - limit} more" if len(known) > limit else ""
    return f"{shown}{more}" if known else "no attributes"


def mismatch(name: str, has: str, since: str, wants: str, where: str) -> TypeMismatch:
    """The error for two uses of one attribute that disagree."""
    return TypeMismatch(
        f"attribute {name!r} is a {has} since {since}; {where} uses it as a {wants}"
    )
