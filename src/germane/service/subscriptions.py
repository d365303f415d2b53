"""Subscriptions in the shape of the CloudEvents Subscriptions API, as one condition.

In: ``source``, ``types``, ``filters`` and ``condition`` of a subscription. Out: the text of one
condition and its dialect, as ``Filter.subscribe`` takes them.
"""

import json
from typing import Any, NamedTuple

from germane.language.subscriptions import as_condition, read_filters
from germane.model import Schema

OWN = "own"
"""What a subscriber may replace: ``replaces`` of a subscription that is logged."""


class Condition(NamedTuple):
    """A condition's text, and the language that it is written in."""

    text: str
    dialect: str = "germane"  # or cesql, or filters


def condition_of(subscription: dict[str, Any]) -> Condition:
    """All that a subscription asks of a message; raises what is wrong with its filters."""
    filters = subscription.get("filters") or []
    if filters:
        read_filters(json.dumps(filters), Schema().draft("this subscription"))
    types, source = subscription.get("types"), subscription.get("source")
    text, dialect = as_condition(filters, types, source, subscription.get("condition"))
    return Condition("TRUE") if text == "[]" else Condition(text, dialect)
