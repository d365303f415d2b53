"""Learning at scale: the interests of everybody, from the tables of deliveries and feedback.

In: deliveries (``delivery``, ``user``, ``message``, ``topic``, ``context``) and feedback
(``delivery``, ``kind``, ``seconds``, ``at``), as Spark's DataFrames. Out: a row for each rule of
each user: ``user``, ``topic``, ``context``, ``probability``, ``liked``, ``seen``, ``kept``. A
user's pieces come together in one task and go through ``Interests`` in the order of their time and,
within a moment, of their deliveries' numbers, as online, whatever the order of the rows; so the
results are the same, bit for bit, on the same machine, and within 1e-9 anywhere.

A topic is a string or an array of them, also one of JSON as text; a context a map, a struct, or
JSON as text. Feedback of unknown kind, or without its delivery, is left out; messages without an id
are each another one.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from germane.agent.interests import Interests
from germane.agent.pieces import KINDS, Piece, facets_of, piece_of
from germane.category import ContentGraph
from germane.model import InvalidValue

__all__ = ["TOLERANCE", "interests_of", "learn"]

TOLERANCE = 1e-9
DELIVERED, SAID = ("delivery", "user", "message", "topic", "context"), ("delivery", "kind", "at")
LEARNED = pa.schema(
    [("user", pa.string()), ("topic", pa.string()), ("context", pa.map_(pa.string(), pa.string())),
     ("probability", pa.float64()), ("liked", pa.int32()), ("seen", pa.int32()),
     ("kept", pa.int32())]
)  # fmt: skip
IN_SQL = (
    "user string, topic string, context map<string,string>, probability double, liked int, "
    "seen int, kept int"
)


class _Links(NamedTuple):
    """A graph on its way to a worker."""

    names: tuple[str | None, ...]
    links: bytes


def learn(
    deliveries: Any, feedback: Any, topics: ContentGraph, places: ContentGraph | None = None
) -> Any:
    """The rules of all users, as a DataFrame."""
    for frame, name, wanted in (
        (deliveries, "deliveries", DELIVERED),
        (feedback, "feedback", SAID),
    ):
        missing = [column for column in wanted if column not in frame.columns]
        if missing:
            raise InvalidValue(f"{name} have no column {', '.join(missing)}: {frame.columns}")
    said = [*SAID, *(["seconds"] if "seconds" in feedback.columns else [])]
    pieces = deliveries.select(*DELIVERED).join(feedback.select(*said), "delivery")
    pieces = pieces.where(pieces["user"].isNotNull() & pieces["kind"].isin(*KINDS))
    function = _user_function(_packed(topics), None if places is None else _packed(places))
    return pieces.groupBy("user").applyInArrow(function, IN_SQL)


def _user_function(topics: _Links, places: _Links | None) -> Callable[[pa.Table], pa.Table]:
    """What a task does with the pieces of a user."""

    def of_user(table: pa.Table) -> pa.Table:
        graph = _unpacked(topics)
        trees = {} if places is None else {"place": _unpacked(places)}
        return _as_table(str(table.column("user")[0]), interests_of(table, graph, trees))

    return of_user


def interests_of(
    table: pa.Table, topics: ContentGraph, trees: Mapping[str, ContentGraph]
) -> Interests:
    """The interests of one user, from pieces in any order."""
    told = sorted(((_piece(row), row["delivery"]) for row in table.to_pylist()), key=_when)
    return Interests(topics, trees, (piece for piece, _ in told))


def _when(told: tuple[Piece, Any]) -> tuple[Any, ...]:
    """What orders the pieces of a user: time, delivery, then all there is of a piece.

    Deliveries are numbered as they come, so within a moment theirs is the order of what was done.
    """
    piece, delivery = told
    read = -1.0 if piece.seconds is None else piece.seconds
    rest = (piece.message, piece.kind, read, piece.topics, piece.context)
    return piece.at, *_numbered(delivery), *rest


def _numbered(delivery: Any) -> tuple[bool, int, str]:
    """The place of a delivery's id: numbers by their value, before other ids."""
    whole = isinstance(delivery, float) and delivery.is_integer()
    text = str(int(delivery) if whole else delivery)
    is_number = text.isascii() and text.removeprefix("-").isdigit()
    return not is_number, int(text) if is_number else 0, text


def _piece(row: Mapping[str, Any]) -> Piece:
    seconds = row.get("seconds")
    if seconds is not None and not 0 <= seconds < 1e6:  # also NaN, which pandas has for none
        seconds = None
    context = facets_of(_context(row["context"]))
    message = "" if row["message"] is None else str(row["message"])
    return piece_of(
        message, _topics(row["topic"]), context, row["kind"], seconds, _seconds(row["at"])
    )


def _seconds(at: Any) -> float:
    """A time as seconds since 1970."""
    if at is None:
        return 0.0
    seconds = float(at.timestamp()) if hasattr(at, "timestamp") else float(at)
    return 0.0 if math.isnan(seconds) else seconds  # pandas has NaN for none


def _topics(value: Any) -> Iterable[str]:
    """Topics of a message; what only begins as an array of JSON is a name: "[WIP]"."""
    if isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [value]
    return [value] if value and isinstance(value, str) else value or ()


def _context(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        value = json.loads(value)
    return dict(value or {})  # Arrow's maps are pairs


def _as_table(user: str, interests: Interests) -> pa.Table:
    rules = interests.table()
    columns = [
        [user] * len(rules), [rule.topic for rule in rules], [list(rule.cell) for rule in rules],
        [rule.probability for rule in rules], [rule.liked for rule in rules],
        [rule.seen for rule in rules], [rule.kept for rule in rules],
    ]  # fmt: skip
    arrays = [pa.array(values, field.type) for values, field in zip(columns, LEARNED, strict=True)]
    return pa.Table.from_arrays(arrays, schema=LEARNED)


def _packed(graph: ContentGraph) -> _Links:
    return _Links(tuple(graph.kept_names()), graph.links.tobytes())


@lru_cache(maxsize=4)
def _unpacked(packed: _Links) -> ContentGraph:
    return ContentGraph.from_links(packed.names, np.frombuffer(packed.links, np.int64))
