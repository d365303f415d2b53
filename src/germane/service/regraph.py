"""A filter with other graphs: its profiles and contexts, registered again around them.

Graphs are given to a filter when it is made. A tenant's come later, as events like any other, and
rarely; then a new filter takes over conditions, contexts and the types that attributes have.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from germane import ContentGraph, Filter
from germane.model import InvalidValue
from germane.model.types import CATEGORY
from germane.service.cloudevents import TYPES
from germane.service.subscriptions import condition_of


def new_filter(index: str, graphs: Mapping[str, ContentGraph] | None = None) -> Filter:
    """An empty filter that knows the attributes of CloudEvents."""
    f = Filter(index, graphs=graphs)
    for name, type_ in TYPES.items():
        f.declare(name, type_)
    return f


def edges_of(f: Filter, attribute: str) -> list[tuple[str, str]]:
    """The links of an attribute's graph."""
    return f.graph(attribute).edges()


def with_graphs(
    f: Filter,
    graphs: Mapping[str, ContentGraph],
    bodies: Mapping[int, str],
    keeps: Callable[[int], bool],
) -> Filter:
    """The same profiles (of all subscriptions, those that it keeps) and contexts; refused as a
    whole if any of them does not fit the graphs."""
    new = new_filter(f._index.name, graphs)
    for name, type_ in f.types.items():
        if name not in graphs and not type_.startswith(CATEGORY):
            new._schema.fix(name, type_, "before this graph")
    _take_contexts(new, f.contexts())
    profiles: list[tuple[int, Any, Any, str]] = []
    for number, text in bodies.items():
        body = msgspec.json.decode(text)
        condition = condition_of(body)
        profiles.append((number, condition.text, body.get("context"), condition.dialect))
    if profiles:
        numbers, texts, contexts, dialects = (list(part) for part in zip(*profiles, strict=True))
        new._profiles.add(numbers, texts, contexts, dialects, [keeps(n) for n in numbers])
    new._last_seq = f._last_seq
    return new


def _take_contexts(new: Filter, contexts: Any) -> None:
    n = contexts.num_rows
    if not n:
        return
    columns = {name: contexts[name] for name in contexts.column_names if name != "id"}
    events = pa.table(
        {
            "seq": np.arange(n),
            "kind": pa.array(["update"] * n).dictionary_encode(),
            "id": contexts["id"],
            **columns,
        }
    )
    found = new.process(events)
    if found.rejected:
        first = found.rejected[0]
        raise InvalidValue(
            f"context {first.event['id']!r} does not fit the graph: {first.reason}; change it first"
        )
    new.rewind()
