"""The filter: composes language, context store, indexes and postfilter; the only composer."""

from germane.filter.explain import Explanation, Step
from germane.filter.filter import Filter
from germane.filter.matches import Matches

__all__ = ["Explanation", "Filter", "Matches", "Step"]
