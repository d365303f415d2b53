"""germane: a context-aware information filter.

Profiles are conditions over message attributes, compared with constants or with a subscriber's
own context. Contexts change all the time; every message reaches exactly the profiles that match
it now. Start with ``Filter``.
"""

from germane.approx.transformations import Transformations
from germane.batch import BatchControl, Batching, ByValue, FixedNumber, FixedSize
from germane.category import ContentGraph
from germane.filter import Deliveries, Explanation, Filter, Matches, Rejected
from germane.index.policy import Always, Auto, Fixed
from germane.model import (
    ConditionError,
    DuplicateProfile,
    GermaneError,
    InvalidValue,
    TypeMismatch,
    UnknownAttribute,
    UnknownContext,
    UnknownNode,
    UnknownProfile,
)
from germane.model.errors import BatchError

__version__ = "0.1.0"

__all__ = [
    "Always",
    "Auto",
    "BatchControl",
    "BatchError",
    "Batching",
    "ByValue",
    "ConditionError",
    "ContentGraph",
    "Deliveries",
    "DuplicateProfile",
    "Explanation",
    "Filter",
    "Fixed",
    "FixedNumber",
    "FixedSize",
    "GermaneError",
    "InvalidValue",
    "Matches",
    "Rejected",
    "Transformations",
    "TypeMismatch",
    "UnknownAttribute",
    "UnknownContext",
    "UnknownNode",
    "UnknownProfile",
]
