"""The values that the stages exchange: errors, types, the schema and its drafts.

Start with `schema`: it decides what an attribute is, and `draft` how a condition may try its luck
without leaving a trace. `errors` holds every exception of the library.
"""

from __future__ import annotations

from germane.model.draft import Draft
from germane.model.errors import (
    ConditionError,
    ConditionNameError,
    ConditionTypeError,
    DuplicateProfile,
    GermaneError,
    InvalidValue,
    TypeMismatch,
    UnknownAttribute,
    UnknownContext,
    UnknownNode,
    UnknownProfile,
)
from germane.model.schema import Schema
from germane.model.types import ORDERED, TYPES

__all__ = [
    "ORDERED",
    "TYPES",
    "ConditionError",
    "ConditionNameError",
    "ConditionTypeError",
    "Draft",
    "DuplicateProfile",
    "GermaneError",
    "InvalidValue",
    "Schema",
    "TypeMismatch",
    "UnknownAttribute",
    "UnknownContext",
    "UnknownNode",
    "UnknownProfile",
]
