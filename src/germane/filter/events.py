"""What events are, in whatever form they come: their kinds and fields, and runs of profiles."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from germane.model import GermaneError, InvalidValue
from germane.model.errors import BatchError

if TYPE_CHECKING:
    from germane.filter.filter import Filter

MESSAGE, UPDATE, SUBSCRIBE, UNSUBSCRIBE, GRAPH = KINDS = (
    "message", "update", "subscribe", "unsubscribe", "graph",
)  # fmt: skip
FIELDS = (
    "seq", "kind", "id", "removed", "context", "condition", "dialect", "address",
    "links", "unlinks",
)  # fmt: skip
"""Columns of events that are not attributes."""


def subscribe(
    f: "Filter", ids: list[Any], conditions: list[Any], contexts: list[Any], dialects: list[Any]
) -> list[tuple[int, GermaneError]]:
    """Subscribe a run of profiles; which were refused, and why."""
    try:
        f.subscribe_many(ids, conditions, contexts, dialects)
    except BatchError as errors:
        return [(k, error) for k, _, error in errors.errors]
    except GermaneError as error:
        return [(0, error)]
    return []


def unsubscribe(f: "Filter", ids: list[Any]) -> list[tuple[int, GermaneError]]:
    """Unsubscribe a run of profiles; which were refused, and why."""
    refused = []
    for k, profile_id in enumerate(ids):
        try:
            f.unsubscribe(profile_id)
        except GermaneError as error:
            refused.append((k, error))
    return refused


def change_graphs(f: "Filter", events: list[Mapping[str, Any]]) -> list[tuple[int, GermaneError]]:
    """Change the links of graphs, each named by its attribute; which were refused, and why."""
    refused = []
    for k, event in enumerate(events):
        try:
            f.change_graph(event["id"], event.get("links") or (), event.get("unlinks") or ())
        except GermaneError as error:
            refused.append((k, error))
    return refused


def attributes(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event's own attributes."""
    return {name: value for name, value in event.items() if name not in FIELDS}


def names_of(removed: Any) -> list[str]:
    """The names that an update removes, checked."""
    if removed is None:
        return []
    if isinstance(removed, str | bytes | Mapping) or not isinstance(removed, Iterable):
        raise InvalidValue(f"removed is a list of attribute names, not {removed!r:.200}")
    names = list(removed)
    for name in names:
        if not isinstance(name, str):
            raise InvalidValue(f"removed is a list of attribute names; {name!r:.200} is none")
    return names
