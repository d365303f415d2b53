"""The filter: composes language, context store, indexes and postfilter; the only composer."""

from germane.filter.deliveries import Deliveries, Rejected
from germane.filter.explain import Explanation, Step
from germane.filter.filter import Filter
from germane.filter.matches import Matches

__all__ = ["Deliveries", "Explanation", "Filter", "Matches", "Rejected", "Step"]
