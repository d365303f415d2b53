"""What events are, in whatever form they come: their kinds and fields, and runs of profiles."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from germane.context.values import is_null
from germane.language import compile_condition
from germane.model import GermaneError, InvalidValue, Schema
from germane.model.errors import BatchError, shown

if TYPE_CHECKING:
    from germane.filter.filter import Filter

MESSAGE, UPDATE, SUBSCRIBE, UNSUBSCRIBE, GRAPH = KINDS = (
    "message", "update", "subscribe", "unsubscribe", "graph",
)  # fmt: skip
LINKS = ("links", "unlinks")
FIELDS = (
    "seq", "kind", "id", "removed", "context", "condition", "dialect", "address", *LINKS,
)  # fmt: skip
"""Columns of events that are not attributes."""
LINKS_OF_GRAPHS = (
    "links and unlinks are those of a graph; what a {kind} event says there needs another name"
)


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


def change_graphs(
    f: "Filter", events: Sequence[Mapping[str, Any]]
) -> list[tuple[int, GermaneError]]:
    """Change the links of graphs, each named by its attribute; which were refused, and why."""
    refused = []
    for k, event in enumerate(events):
        try:
            links, unlinks = (event[n] if holds_links(event.get(n)) else () for n in LINKS)
            f.change_graph(event["id"], links, unlinks)
        except GermaneError as error:
            refused.append((k, error))
    return refused


def check_own_types(schema: Schema, address: Any, types: Mapping[str, str | None]) -> None:
    """Raise what is wrong with an address, given also the types that its message would fix."""
    draft = schema.draft("the message")
    for name, type_ in types.items():
        if type_ is not None:
            draft.fix(name, type_)
    compile_condition(address, draft, names="address")


def attributes(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event's own attributes."""
    return {name: value for name, value in event.items() if name not in FIELDS}


def holds_links(value: Any) -> bool:
    """Whether ``links`` or ``unlinks`` say anything: they are neither NULL nor empty."""
    try:
        return not is_null(value) and len(value) > 0
    except TypeError:  # it has no length, as a number has none
        return True


def names_of(removed: Any) -> list[str]:
    """The names that an update removes, checked."""
    if removed is None:
        return []
    if isinstance(removed, str | bytes | Mapping) or not isinstance(removed, Iterable):
        raise InvalidValue(f"removed is a list of attribute names, not {shown(removed)}")
    names = list(removed)
    for name in names:
        if not isinstance(name, str):
            raise InvalidValue(f"removed is a list of attribute names; {shown(name)} is none")
    return names
