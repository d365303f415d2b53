"""Shapes of requests and answers, for validation and for OpenAPI."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StringConstraints
from pydantic import Strict as Exactly

from germane.service.clock import as_text, of_datetime

Id = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f/?#]+$")]
LONGEST, LONGEST_NAME = 65_536, 500  # characters of a condition, of a name
NAMED = r"^[^\x00-\x1f]+$"
"""Of names: a store may refuse control characters, and what is in the log cannot be taken back."""
Name = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME, pattern=NAMED)]
DEVICE = r"^[^/\x00-\x1f]*$"
Words = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST)]
SEQ = 2**62
Facet = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Word = Annotated[str, StringConstraints(max_length=500, strict=True)]
Seconds = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False), Exactly()]
Moment = Seconds | datetime


def _of_the_calendar(moment: datetime) -> datetime:
    """A time that is one of the years 1 to 9999 in UTC, too."""
    try:
        as_text(of_datetime(moment))
    except OverflowError:
        raise ValueError(f"{moment.isoformat()} is no time of the years 1 to 9999 in UTC") from None
    return moment


def _writable(filters: Any) -> Any:
    """JSON of not too many levels, in whole characters."""
    level, depth = [filters], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise ValueError(f"filters are nested deeper than {DEEPEST} levels")
        parts = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for part in parts for each in part if isinstance(each, dict | list)]
    try:
        msgspec.json.encode(filters)
    except UnicodeEncodeError:
        raise ValueError("filters are Unicode, without lone surrogates") from None
    return filters


DEEPEST = 200
Time = Annotated[datetime, AfterValidator(_of_the_calendar)]
Filters = Annotated[list[dict[str, Any]], AfterValidator(_writable)]


class Strict(BaseModel):
    """A request's body: unknown names are refused, since they are likely mistakes."""

    model_config = ConfigDict(extra="forbid")


class Error(BaseModel):
    """What was wrong, and the remedy."""

    error: str = Field(examples=["expected a value, found the end (at position 7)"])
    position: int | None = Field(None, description="Where in the condition")


class Accepted(BaseModel):
    """Events are on disk, in this order."""

    accepted: int = Field(examples=[2])
    first: int | None = Field(examples=[17])
    last: int | None = Field(examples=[18])


class Written(BaseModel):
    """A change is on disk; `applied` says whether the matcher has taken it yet."""

    seq: int = Field(examples=[19])
    applied: bool = Field(examples=[True])


class LoggedEvent(BaseModel):
    """An event of the log."""

    seq: int
    at: str
    event: dict[str, Any]


class LoggedEvents(BaseModel):
    """Events, newest first."""

    events: list[LoggedEvent]


class Context(BaseModel):
    """A context as it was when the matcher had taken `at_seq`."""

    id: str = Field(examples=["ann"])
    values: dict[str, Any] = Field(examples=[{"unread": 50, "last": 17}])
    at_seq: int


class NewSubscription(Strict):
    """A subscription: CloudEvents Subscriptions API, plus `condition` and whose it is."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"condition": "type = 'talk' AND start < context.last", "subscriber": "ann"},
                {"types": ["talk"], "filters": [{"prefix": {"source": "/talks"}}]},
            ]
        },
    )
    condition: Words | None = Field(None, description="In germane's language")
    types: list[Words] | None = Field(None, max_length=100, description="Any of these types")
    source: Words | None = Field(None, description="Exactly this source")
    filters: Filters | None = Field(
        None, max_length=100, description="exact, prefix, suffix, all, any, not, sql: all must hold"
    )
    sink: Annotated[str, StringConstraints(max_length=2_000)] | None = Field(
        None, description="A webhook's URL; without one, deliveries are only in the feed"
    )
    protocol: Annotated[str, StringConstraints(pattern="^HTTP$")] = "HTTP"
    subscriber: Name | None = Field(None, description="Whose it is; of a subscriber's token, its")
    context: Name | None = Field(None, description="By default the one of the subscriber's name")
    urgent: bool = Field(False, description="Passes quiet hours, digests, snoozes and rates")
    expires: Time | None = None


class Subscription(BaseModel):
    """A subscription as it is."""

    id: str = Field(examples=["s_8f2c41d09a3b7e65"])
    subscriber: str
    context: str | None
    condition: str | None
    types: list[str] | None
    source: str | None
    filters: list[dict[str, Any]] | None
    sink: str | None
    protocol: str
    urgent: bool
    expires: str | None
    muted: bool
    snoozed_until: str | None
    seq: int
    state: str = Field(examples=["active"], description="active, refused, ended or pending")
    reason: str | None
    applied: bool


class Subscriptions(BaseModel):
    """A page of subscriptions."""

    subscriptions: list[Subscription]
    next: str | None


class SubscriptionChange(Strict):
    """Mute or snooze."""

    muted: bool | None = Field(None, examples=[True])
    snoozed_until: Time | None = None


class Batch(BaseModel):
    """Many subscriptions are on disk."""

    ids: list[str]
    first: int
    last: int


class Draft(Strict):
    """A condition to try on the last messages."""

    condition: Words | None = Field(None, examples=["type = 'talk' AND start < context.last"])
    types: list[Words] | None = None
    source: Words | None = None
    filters: Filters | None = None
    context: Name | None = Field(None, examples=["ann"])
    last: int = Field(1000, ge=1, le=20_000)


class Tried(BaseModel):
    """How many of the last messages would have come."""

    tested: int
    matched: int
    since: str | None = Field(description="When the oldest of them was accepted")
    examples: list[LoggedEvent]
    context: Context | None = Field(description="The context that was used: the one of now")


class Delivery(BaseModel):
    """A message, or a digest of several, for a subscriber."""

    id: int
    seq: int
    subscriber: str
    subscriptions: list[str]
    at: str = Field(description="When the message was accepted")
    released: str = Field(description="When the delivery became visible")
    why: str | None = Field(description="What it was held for: quiet, digest, snoozed, rate")
    event: dict[str, Any] | None = None
    digest: bool = False
    items: list[dict[str, Any]] | None = None
    feedback: bool | None = None


class Deliveries(BaseModel):
    """A page of deliveries; ask again with `after=next`."""

    deliveries: list[Delivery]
    next: int


class HeldDelivery(BaseModel):
    """A delivery that waits."""

    subscriber: str
    seq: int
    at: str
    due: str
    why: str
    event: dict[str, Any] | None


class HeldDeliveries(BaseModel):
    """What waits."""

    held: list[HeldDelivery]


class Feedback(Strict):
    """A subscriber's word on a delivery."""

    relevant: bool


class Explained(BaseModel):
    """Why one subscription matched, or what kept the message away."""

    id: str
    matched: bool
    condition: str
    steps: list[dict[str, Any]]
    text: str


class Explanation(BaseModel):
    """`state` is `at` if contexts are those at the message, `now` if they are today's."""

    seq: int
    state: str = Field(examples=["at"])
    now_seq: int | None = None
    context: dict[str, Any] | None
    subscriptions: list[Explained]


class Preferences(Strict):
    """How somebody wants deliveries."""

    quiet: dict[str, str] | None = Field(
        None, examples=[{"from": "22:00", "to": "07:00", "zone": "Europe/Berlin"}]
    )
    digest: dict[str, float] | None = Field(None, examples=[{"seconds": 3600, "count": 20}])
    rate: dict[str, float] | None = Field(None, examples=[{"limit": 10, "seconds": 60}])
    snoozed_until: Time | None = None


class SetPreferences(BaseModel):
    """Preferences as they are."""

    subscriber: str
    preferences: dict[str, Any]
    seq: int | None = None
    applied: bool | None = None


Edges = Annotated[list[tuple[Name, Name]], Field(max_length=1_000_000)]


class NewGraph(Strict):
    """A content graph: links from parents to children."""

    edges: Edges = Field(examples=[[["Sports", "Baseball"]]])
    attributes: list[Name] | None = Field(None, description="Others that hold nodes of this graph")


class GraphChange(Strict):
    """Links to add, then links to remove."""

    links: Edges = []
    unlinks: Edges = []


class Graph(BaseModel):
    """A content graph."""

    attribute: str
    attributes: list[str]
    nodes: int
    edges: int | list[tuple[str, str]]


class Graphs(BaseModel):
    """All content graphs of a tenant."""

    graphs: list[Graph]


class NewToken(Strict):
    """Whose token it will be."""

    role: Annotated[str, StringConstraints(pattern="^(publisher|subscriber|operator)$")]
    subject: Name | None = None


class NewTenant(Strict):
    """A tenant's name."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=NAMED)]


class Redrive(Strict):
    """The event as it should have been; without it, as it was."""

    event: dict[str, Any] | None = None


class Me(BaseModel):
    """Whose token it is."""

    role: str = Field(examples=["subscriber"])
    subject: str | None = Field(examples=["ann"])


class Interest(BaseModel):
    """A topic that somebody likes, or chose."""

    topic: str
    score: float = Field(description="The probability that a message of it is liked now")
    because: str
    state: str | None = Field(description="pinned, muted, or as it was learned")


class LearnedSubscription(BaseModel):
    """A subscription that an agent made."""

    id: str
    condition: str
    because: str


class Interests(BaseModel):
    """What an agent knows that counts now."""

    on: bool = Field(description="Whether it is subscribed to")
    feedback: int = Field(description="Pieces of feedback that were learned from")
    context: dict[str, Any]
    interests: list[Interest]
    subscriptions: list[LearnedSubscription]


class Switch(Strict):
    """Use what was learned, or not."""

    on: bool


class Signal(Strict):
    """What somebody did with a delivery."""

    delivery: int = Field(ge=1, le=SEQ)
    signal: Annotated[str, StringConstraints(pattern="^(opened|kept|dismissed|less|undone)$")]
    seconds: float | None = Field(None, ge=0, le=86_400, description="How long it was read")
    device: str = Field("", max_length=100, pattern=DEVICE, description="Whose context it was")
    context: dict[Facet, Word | StrictBool] | None = Field(
        None, max_length=20, description="The context it was said in; without it, that of now",
        examples=[{"task": "lunch", "daypart": "noon"}],
    )  # fmt: skip
    at: Moment | None = Field(
        None, description="When it was said: seconds since 1970, or ISO; without it, now",
        examples=[1_795_000_000.5, "2026-11-18T12:30:00Z"],
    )  # fmt: skip


class Told(BaseModel):
    """What became of a piece of feedback."""

    feedback: int
    because: str
    own: list[str] = Field(description="Subscriptions of one's own that had brought it")


class Choice(Strict):
    """Always, never, or as it is learned."""

    state: Annotated[str, StringConstraints(pattern="^(pinned|muted)$")] | None
