"""CloudEvents 1.0: checked at the door, and turned into what the filter takes.

In: the body of a request. Out: the bytes of a JSON array of events (``admit``), as the log keeps
them; and later, of the same bytes, messages and context changes (``read``): attributes by name.
The door decodes envelopes only, so that an event costs about a microsecond there.
"""

from collections.abc import Mapping
from datetime import datetime
from math import isfinite
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from germane.model import InvalidValue

PATCH, PUT = "germane.context.patch", "germane.context.put"
TYPES = {
    "type": "string", "source": "string", "subject": "string", "time": "timestamp",
    "dataschema": "string", "datacontenttype": "string", "specversion": "string",
    "ce.id": "string",
}  # fmt: skip
"""Attributes that every filter knows, so that they need not be there to have a type."""
ENVELOPE = frozenset(TYPES)
CARRIED = frozenset(("id", "data", "data_base64"))
RESERVED = frozenset("id seq kind removed context condition dialect address links unlinks".split())
"""Names that events of a filter use themselves."""
RULES = frozenset(("address", "expirytime", "urgent"))
"""Extensions that say how a message is delivered."""

Text = Annotated[str, Meta(min_length=1, max_length=10_000)]


class Envelope(msgspec.Struct):
    """What every CloudEvent must have; the rest is looked at when it is matched."""

    specversion: Literal["1.0"]
    id: Text
    source: Text
    type: Text
    subject: Text | None = None
    time: datetime | None = None
    expirytime: datetime | None = None
    address: Annotated[str, Meta(max_length=65_536)] | None = None
    urgent: bool | None = None
    data: msgspec.Raw = msgspec.Raw()


_ONE = msgspec.json.Decoder(Envelope)
_MANY = msgspec.json.Decoder(list[Envelope])
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_ANY = msgspec.json.Decoder()


class Batch(NamedTuple):
    """Events as the log keeps them."""

    body: bytes  # a JSON array
    n: int
    changes_contexts: bool
    subjects: frozenset[str | None]  # the contexts that are changed


def admit(body: bytes, many: bool) -> Batch:
    """Check the envelopes of one event or of a batch; raise ``InvalidValue`` for the first bad one.

    >>> admit(b'{"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}', False).n
    1
    """
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise InvalidValue(f"the body is not UTF-8: {error}") from None
    try:
        events = _MANY.decode(body) if many else [_ONE.decode(body)]
        _ANY.decode(body)  # what is only carried must be readable, too
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidValue(f"not a CloudEvent 1.0 in JSON: {error}") from None
    subjects = set()
    for number, event in enumerate(events):
        if event.type.startswith("germane.context."):
            _check_change(event, number)
            subjects.add(event.subject)
    if not many:
        body = b"[" + body + b"]"
    return Batch(body, len(events), bool(subjects), frozenset(subjects))


def _check_change(event: Envelope, number: int) -> None:
    if event.type not in (PATCH, PUT):
        raise InvalidValue(f"event {number}: {event.type!r} is none of {PATCH!r} and {PUT!r}")
    if event.subject is None:
        raise InvalidValue(f"event {number}: {event.type} names its context in 'subject'")
    if bytes(event.data).lstrip()[:1] != b"{":
        raise InvalidValue(f"event {number}: the data of {event.type} is a JSON object")


def change_of(event: dict[str, Any]) -> Batch:
    """A context change as the log keeps it; raises what is wrong with it."""
    context_values(event)
    if not _is_finite(event["data"]):
        raise InvalidValue("a context has no NaN and no infinite values; null removes one")
    try:
        return admit(msgspec.json.encode(event), False)
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError) as error:
        raise InvalidValue(str(error)) from None


def _is_finite(value: Any) -> bool:
    """Whether all numbers in it can be written in JSON; others would become null."""
    if isinstance(value, dict | list):
        return all(map(_is_finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or isfinite(value)


def from_binary(headers: Mapping[str, str], body: bytes) -> bytes:
    """An event in binary mode as a JSON object: ``ce-`` headers are attributes."""
    from urllib.parse import unquote

    event: dict[str, Any] = {
        name[3:].lower(): unquote(value)
        for name, value in headers.items()
        if name.lower().startswith("ce-")
    }
    if event.get("urgent") in ("true", "false"):
        event["urgent"] = event["urgent"] == "true"
    kind = headers.get("content-type", "").split(";")[0].strip().lower()
    if kind:
        event["datacontenttype"] = kind
    if body and (kind in ("", "application/json") or kind.endswith("+json")):
        try:
            _ANY.decode(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise InvalidValue(f"the body is not JSON: {error}") from None
        event["data"] = msgspec.Raw(body)
    elif body:
        try:
            event["data"] = body.decode()
        except UnicodeDecodeError:
            from base64 import b64encode

            event["data_base64"] = b64encode(body).decode()
    return msgspec.json.encode(event)


def split(batch: Batch, most: int) -> list[tuple[bytes, int]]:
    """A batch as bodies of at most so many events each."""
    if batch.n <= most:
        return [(batch.body, batch.n)] if batch.n else []
    events = _RAWS.decode(batch.body)
    parts = [events[i : i + most] for i in range(0, len(events), most)]
    return [(b"[" + b",".join(bytes(e) for e in part) + b"]", len(part)) for part in parts]


def too_large(batch: Batch, most: int) -> int | None:
    """The number of an event with more bytes than that, if there is one."""
    if len(batch.body) <= most:
        return None
    for number, event in enumerate(_RAWS.decode(batch.body)):
        if len(bytes(event)) > most:
            return number
    return None


# what an event is to the filter ----------------------------------------------------------------


def events_of(body: bytes) -> list[dict[str, Any]]:
    """The events of an entry of the log."""
    events: list[dict[str, Any]] = _ANY.decode(body)
    return events


def message_attributes(event: Mapping[str, Any], graphs: Any = ()) -> dict[str, Any]:
    """The attributes of a message; ``graphs`` are those that may hold lists of nodes.

    >>> message_attributes({"id": "1", "type": "talk", "data": {"room": "A", "time": 5, "x": {}}})
    {'type': 'talk', 'ce.id': '1', 'room': 'A', 'data.time': 5}
    """
    found: dict[str, Any] = {}
    for name, value in event.items():
        if name in CARRIED or name in RULES or value is None:
            continue
        if name == "time":
            value = msgspec.convert(value, datetime)
        found[f"ce.{name}" if name in RESERVED else name] = value
    found["ce.id"] = event["id"]
    data = event.get("data")
    if type(data) is dict:
        for name, value in data.items():
            if value is None or not _holds(name, value, graphs) or not name:
                continue
            taken = name in ENVELOPE or name in RESERVED or name in found
            found[f"data.{name}" if taken else name] = value
    elif type(data) is str and "xml" in str(event.get("datacontenttype", "")):
        found["document"] = data
    return found


def context_values(event: Mapping[str, Any], graphs: Any = ()) -> dict[str, Any]:
    """What a context change sets, and (as None) removes."""
    taken = RESERVED.intersection(event["data"])
    if taken:
        raise InvalidValue(f"a context has no attribute {min(taken)!r}: the name is taken")
    return {
        name: value
        for name, value in event["data"].items()
        if name and (value is None or _holds(name, value, graphs))
    }


def _holds(name: str, value: Any, graphs: Any) -> bool:
    """Whether a member of ``data`` is a value of an attribute; others are only carried."""
    kind = type(value)
    if kind is float or kind is str or kind is int or kind is bool:
        return True
    if kind is list:
        if name in graphs:
            return True
        return len(value) == 2 and all(type(v) in (int, float) for v in value)
    return kind is dict and value.keys() == {"lat", "lon"}
