"""XML on its way to shards: parsed once, before messages fan out.

In: a column of documents, text or bytes. Out: the same as a struct, what the document says element
by element and the document itself. A shard takes the former; one that cannot be parsed travels as
it is, and the shard that answers for its message finds out why once more.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from germane.approx.documents import parse
from germane.model import GermaneError

SQL = "struct<labels: array<string>, parents: array<int>, texts: array<string>, raw: {raw}>"
_ARROW = {"string": pa.string(), "binary": pa.binary()}


def parsed_type(raw: str) -> pa.DataType:
    """The struct for documents that are strings, or binary."""
    texts = pa.list_(pa.string())
    fields = [("labels", texts), ("parents", pa.list_(pa.int32())), ("texts", texts)]
    return pa.struct([*fields, ("raw", _ARROW[raw])])


def parsed(column: Any, raw: str) -> Any:
    """A column of documents, parsed."""
    return pa.array([_parsed(document) for document in column.to_pylist()], parsed_type(raw))


def as_it_came(value: Any) -> Any:
    """A document that travelled, as the text it was; any other value as it is."""
    raw = value["raw"] if isinstance(value, dict) and "raw" in value else value
    return raw.decode(errors="replace") if isinstance(raw, bytes) else raw


def parser(name: str, raw: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What a task does with messages: batches of them in, with their documents parsed out."""

    def parse_all(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            at = batch.schema.get_field_index(name)
            yield batch.set_column(at, name, parsed(batch.column(at), raw))

    return parse_all


def _parsed(document: Any) -> dict[str, Any] | None:
    if document is None:
        return None
    try:
        return {**parse(document)._asdict(), "raw": document}
    except GermaneError:
        return {"raw": document}
