"""Events in: CloudEvents structured, binary and in batches; contexts by name."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Body, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from germane.model import GermaneError, InvalidValue
from germane.service import cloudevents
from germane.service.api import minding, models
from germane.service.api.door import Anyone, Publisher, State
from germane.service.api.problems import Problem, not_there
from germane.service.api.state import Api
from germane.service.clock import as_text
from germane.service.log import EVENTS, Entry
from germane.service.tokens import SUBSCRIBER, Holder

router = APIRouter(tags=["events"])
MOST_IN_ENTRY = 1_000
ONE, MANY = "application/cloudevents+json", "application/cloudevents-batch+json"
EXAMPLE = {
    "specversion": "1.0", "id": "t1", "source": "/talks", "type": "talk",
    "data": {"start": 16, "room": "A1"},
}  # fmt: skip
CHANGE = {
    "specversion": "1.0", "id": "u1", "source": "/phone", "type": "germane.context.patch",
    "subject": "ann", "data": {"last": 17},
}  # fmt: skip
EVENT = {
    "type": "object",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"const": "1.0"},
        "id": {"type": "string", "minLength": 1},
        "source": {"type": "string", "minLength": 1},
        "type": {"type": "string", "minLength": 1},
        "subject": {"type": "string", "minLength": 1},
        "time": {"type": "string", "format": "date-time"},
        "data": {},
    },
    "additionalProperties": True,
}
BODY = {
    "required": True,
    "content": {
        ONE: {"schema": EVENT, "example": EXAMPLE},
        MANY: {"schema": {"type": "array", "items": EVENT}, "example": [EXAMPLE, CHANGE]},
        "application/json": {"schema": {}, "example": EXAMPLE["data"]},
    },
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": models.Error} for code in (400, 401, 403, 404, 413, 415, 422, 429, 503, 507)
}


@router.post(
    "/events",
    status_code=202,
    response_model=models.Accepted,
    responses=REFUSALS,
    openapi_extra={"requestBody": BODY},
    summary="Publish one event or a batch",
)
async def publish(request: Request, holder: Publisher, api: State) -> Response:
    """Append CloudEvents to the log, all of them or none.

    `germane.context.patch` and `germane.context.put` change the context named by `subject`;
    everything else is a message.
    """
    body = await request.body()
    batch = _batch(request, body)
    limits = api.settings.limits
    if batch.n > limits.events:
        raise Problem(413, f"{batch.n:,} events in a batch; {limits.events:,} are the most")
    if (large := cloudevents.too_large(batch, limits.event_bytes)) is not None:
        raise Problem(413, f"event {large} has more than {limits.event_bytes:,} bytes")
    api.allow(holder, "events", batch.n)
    parts = cloudevents.split(batch, MOST_IN_ENTRY)
    if not parts:
        return JSONResponse({"accepted": 0, "first": None, "last": None}, 202)
    entries = [Entry(holder.tenant, EVENTS, part, n) for part, n in parts]
    seqs = await minding.follow(api, holder, batch, entries)
    api.metrics.accepted.labels(str(holder.tenant)).inc(batch.n)
    answer = {"accepted": batch.n, "first": seqs[0], "last": seqs[-1] + parts[-1][1] - 1}
    return Response(msgspec.json.encode(answer), 202, media_type="application/json")


def _batch(request: Request, body: bytes) -> cloudevents.Batch:
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    try:
        if kind == MANY:
            return cloudevents.admit(body, True)
        if kind == ONE:
            return cloudevents.admit(body, False)
        if "ce-specversion" in request.headers or "ce-type" in request.headers:
            return cloudevents.admit(cloudevents.from_binary(request.headers, body), False)
    except InvalidValue as error:
        raise Problem(400, str(error)) from None
    raise Problem(415, f"send {ONE}, {MANY}, or ce- headers, not {kind or 'nothing'!r}")


@router.get("/events/{seq}", response_model=models.LoggedEvent, responses=REFUSALS)
def read_event(
    seq: Annotated[int, Path(ge=1, le=models.SEQ)], holder: Publisher, api: State
) -> Any:
    """An event as it was logged."""
    found = api.event(holder.tenant, seq)
    if found is None:
        raise not_there(f"event {seq}")
    return {"seq": seq, "at": as_text(found[1]), "event": found[0]}


@router.get("/events", response_model=models.LoggedEvents, responses=REFUSALS)
def read_events(
    holder: Publisher,
    api: State,
    before: Annotated[int, Query(ge=1, le=models.SEQ)] = models.SEQ,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Any:
    """Messages and context changes, newest first."""
    return {"events": last_events(api, holder.tenant, before, limit)}


def last_events(
    api: Api, tenant: int, before: int, limit: int, messages_only: bool = False
) -> list[dict[str, Any]]:
    """Events before a seq, newest first."""
    found: list[dict[str, Any]] = []
    while len(found) < limit:
        entries = api.log.read_back(before, limit, tenant)
        if not entries:
            break
        before_now = before
        before = entries[-1].seq
        for entry in entries:
            if entry.kind != EVENTS:
                continue
            events = cloudevents.events_of(entry.body)
            for i in range(len(events) - 1, -1, -1):
                seq, event = entry.seq + i, events[i]
                if seq >= before_now or len(found) >= limit:
                    continue
                if messages_only and event["type"] in (cloudevents.PATCH, cloudevents.PUT):
                    continue
                found.append({"seq": seq, "at": as_text(entry.at), "event": event})
    return found


# contexts ----------------------------------------------------------------------------------------

ContextId = Annotated[models.Name, Path(examples=["ann"])]
Values = Annotated[dict[str, Any], Body(examples=[{"unread": 50, "last": 17}])]


def _mine(holder: Holder, id_: str) -> None:
    if holder.role == SUBSCRIBER and holder.subject != id_:
        raise not_there(f"context {id_!r}")


async def _change(api: Api, holder: Holder, id_: str, kind: str, values: Any) -> Any:
    _mine(holder, id_)
    event = {
        "specversion": "1.0", "id": "-", "source": f"/tokens/{holder.token}", "type": kind,
        "subject": id_, "data": values,
    }  # fmt: skip
    try:
        batch = cloudevents.change_of(event)
    except GermaneError as error:
        raise Problem(400, str(error)) from None
    api.allow(holder, "events")
    [seq] = await minding.follow(api, holder, batch, [Entry(holder.tenant, EVENTS, batch.body)])
    api.metrics.accepted.labels(str(holder.tenant)).inc()
    applied = await api.applied(holder.tenant, seq)
    if applied:
        reason = await run_in_threadpool(dead_reason, api, holder.tenant, seq)
        if reason is not None:
            raise Problem(422, reason, seq=seq)
    return JSONResponse({"seq": seq, "applied": applied}, 200 if applied else 202)


def dead_reason(api: Api, tenant: int, seq: int) -> str | None:
    """Why an event became a dead letter, if it did."""
    import sqlalchemy as sa

    from germane.service.tables import deadletters as t

    with api.engine.connect() as connection:
        return connection.execute(
            sa.select(t.c.reason)
            .where(t.c.tenant == tenant, t.c.seq == seq)
            .order_by(t.c.id.desc())
        ).scalar()


@router.get(
    "/contexts/{id:path}", response_model=models.Context, responses=REFUSALS, tags=["contexts"]
)
async def read_context(id: ContextId, holder: Anyone, api: State) -> Any:
    """The values of a context now."""
    _mine(holder, id)
    values, seq = await api.ask(holder, "context", id=id)
    if values is None:
        raise not_there(f"context {id!r}")
    return {"id": id, "values": values, "at_seq": seq}


@router.put(
    "/contexts/{id:path}", response_model=models.Written, responses=REFUSALS, tags=["contexts"]
)
async def put_context(id: ContextId, values: Values, holder: Anyone, api: State) -> Any:
    """Replace all values of a context."""
    return await _change(api, holder, id, cloudevents.PUT, values)


@router.patch(
    "/contexts/{id:path}", response_model=models.Written, responses=REFUSALS, tags=["contexts"]
)
async def patch_context(id: ContextId, values: Values, holder: Anyone, api: State) -> Any:
    """Set some values of a context; null removes one."""
    return await _change(api, holder, id, cloudevents.PATCH, values)


@router.delete(
    "/contexts/{id:path}", response_model=models.Written, responses=REFUSALS, tags=["contexts"]
)
async def delete_context(id: ContextId, holder: Anyone, api: State) -> Any:
    """Remove all values of a context."""
    return await _change(api, holder, id, cloudevents.PUT, {})
