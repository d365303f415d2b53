"""Deliveries out: polling, server-sent events, explanations, feedback, preferences."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
from fastapi import APIRouter, Header, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, StreamingResponse

from germane.model import GermaneError
from germane.service import holding, tables
from germane.service import log as logs
from germane.service.api import minding, models
from germane.service.api.door import Reader, State, secret_of
from germane.service.api.problems import Problem, not_there, of_germane
from germane.service.api.publishing import REFUSALS
from germane.service.api.state import Api
from germane.service.api.subscribing import explanation
from germane.service.clock import as_text, of_datetime
from germane.service.tokens import SUBSCRIBER, Holder

router = APIRouter(tags=["deliveries"])
t = tables.deliveries
BEAT_S = 15.0
PAGE = 200
Seq = Annotated[int, Path(ge=0, le=models.SEQ)]


def whose(api: Api, holder: Holder, subscriber: str | None) -> int | None:
    """Whose deliveries are asked for: a subscriber's number, -1 of nobody, None of everybody."""
    if holder.role == SUBSCRIBER:
        if subscriber not in (None, holder.subject):
            raise not_there(f"subscriber {subscriber!r}")
        subscriber = holder.subject
    if subscriber is None:
        return None
    number = api.subscriber_number(holder.tenant, subscriber)
    return -1 if number is None else number


def known(api: Api, holder: Holder, subscriber: str | None) -> int | None:
    """Whom to listen for; of somebody who never subscribed, for anybody."""
    number = whose(api, holder, subscriber)
    return None if number == -1 else number


def page(
    api: Api, holder: Holder, subscriber: str | None, after: int, limit: int
) -> list[dict[str, Any]]:
    """Deliveries after an id, ascending."""
    number = whose(api, holder, subscriber)
    wanted = [t.c.tenant == holder.tenant, t.c.id > after]
    if number is not None:
        wanted.append(t.c.subscriber == number)
    with api.engine.connect() as connection:
        rows = connection.execute(sa.select(t).where(*wanted).order_by(t.c.id).limit(limit)).all()
    return api.deliveries(holder.tenant, rows)


def last_id(api: Api, holder: Holder, subscriber: str | None) -> int:
    """The id of the last delivery; 0 if there is none."""
    number = whose(api, holder, subscriber)
    wanted = [t.c.tenant == holder.tenant]
    if number is not None:
        wanted.append(t.c.subscriber == number)
    with api.engine.connect() as connection:
        return int(connection.execute(sa.select(sa.func.max(t.c.id)).where(*wanted)).scalar() or 0)


@router.get("/deliveries", response_model=models.Deliveries, responses=REFUSALS)
async def read_deliveries(
    holder: Reader,
    api: State,
    after: Annotated[int, Query(ge=-1, le=models.SEQ, description="-1: from now on")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    wait: Annotated[float, Query(ge=0, le=30, description="Seconds to wait for one")] = 0.0,
    subscriber: Annotated[models.Name | None, Query()] = None,
) -> Any:
    """Deliveries after an id, oldest first."""
    if after < 0:
        after = await run_in_threadpool(last_id, api, holder, subscriber)
    found = await run_in_threadpool(page, api, holder, subscriber, after, limit)
    if not found and wait:
        number = await run_in_threadpool(known, api, holder, subscriber)
        async with api.bell.watch(holder.tenant, number) as rung:
            end = asyncio.get_running_loop().time() + wait
            while not found and (left := end - asyncio.get_running_loop().time()) > 0:
                found = await run_in_threadpool(page, api, holder, subscriber, after, limit)
                if not found:
                    await rung(left)
    return JSONResponse({"deliveries": found, "next": found[-1]["id"] if found else after})


@router.get(
    "/deliveries/stream",
    responses={
        **REFUSALS,
        200: {
            "content": {
                "text/event-stream": {
                    "schema": {"type": "string"},
                    "example": 'id: 5\nevent: delivery\ndata: {"id": 5, "seq": 17}\n\n',
                }
            }
        },
    },
    response_class=StreamingResponse,
)
async def stream(
    request: Request,
    holder: Reader,
    api: State,
    subscriber: Annotated[models.Name | None, Query()] = None,
    after: Annotated[int | None, Query(ge=-1, le=models.SEQ)] = None,
    last_event_id: Annotated[str | None, Header()] = None,
    access_token: Annotated[str | None, Query(max_length=200)] = None,
) -> StreamingResponse:
    """Deliveries as they come, as server-sent events; `Last-Event-ID` resumes."""
    if last_event_id is not None:
        if not last_event_id.isascii() or not last_event_id.isdigit() or len(last_event_id) > 18:
            raise Problem(400, f"Last-Event-ID is a delivery's id, not {last_event_id!r:.50}")
        after = int(last_event_id)
    if after is None or after < 0:
        after = await run_in_threadpool(last_id, api, holder, subscriber)
    else:
        await run_in_threadpool(whose, api, holder, subscriber)
    return StreamingResponse(
        _events(api, secret_of(request), holder, subscriber, after),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def _next(
    api: Api, secret: str, holder: Holder, subscriber: str | None, after: int
) -> list[dict[str, Any]] | None:
    """A page of a stream; None if the token was revoked meanwhile."""
    found = page(api, holder, subscriber, after, PAGE)
    # Looked at afterwards: what came behind a revocation is not in the page of who is let in.
    return None if api.tokens.holder(secret) is None else found


async def _events(
    api: Api, secret: str, holder: Holder, subscriber: str | None, after: int
) -> AsyncIterator[bytes]:
    api.metrics.sse_clients.inc()
    try:
        number = await run_in_threadpool(known, api, holder, subscriber)
        async with api.bell.watch(holder.tenant, number) as rung:
            yield b": germane\n\n"
            while not api.closing:
                found = await run_in_threadpool(_next, api, secret, holder, subscriber, after)
                if found is None:
                    return
                for each in found:
                    data = msgspec.json.encode(each)
                    yield b"id: %d\nevent: delivery\ndata: %s\n\n" % (each["id"], data)
                    after = each["id"]
                if not found and not await rung(BEAT_S):
                    yield b": still here\n\n"
    finally:
        api.metrics.sse_clients.dec()


@router.get("/deliveries/held", response_model=models.HeldDeliveries, responses=REFUSALS)
def read_held(
    holder: Reader,
    api: State,
    subscriber: Annotated[models.Name | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Any:
    """Deliveries that wait for the end of quiet hours, a digest, a snooze or room in a rate."""
    h = tables.held
    number = whose(api, holder, subscriber)
    wanted = [h.c.tenant == holder.tenant]
    if number is not None:
        wanted.append(h.c.subscriber == number)
    with api.engine.connect() as connection:
        rows = connection.execute(sa.select(h).where(*wanted).order_by(h.c.seq).limit(limit)).all()
    people = api.names(tables.subscribers, "name", holder.tenant, {r.subscriber for r in rows})
    events = [api.event(holder.tenant, row.seq) for row in rows]
    return {
        "held": [
            {
                "subscriber": people[row.subscriber], "seq": row.seq, "at": as_text(row.at),
                "due": as_text(row.due), "why": row.why, "event": event[0] if event else None,
            }
            for row, event in zip(rows, events, strict=True)
        ]
    }  # fmt: skip


def _row(api: Api, holder: Holder, id_: int) -> Any:
    """A delivery that the asker may see."""
    number = whose(api, holder, None)
    with api.engine.connect() as connection:
        row = connection.execute(
            sa.select(t).where(t.c.tenant == holder.tenant, t.c.id == id_)
        ).first()
    if row is None or (number is not None and row.subscriber != number):
        raise not_there(f"delivery {id_}")
    return row


@router.get("/deliveries/{id}", response_model=models.Delivery, responses=REFUSALS)
def read_delivery(id: Seq, holder: Reader, api: State) -> Any:
    """One delivery."""
    return JSONResponse(api.deliveries(holder.tenant, [_row(api, holder, id)])[0])


@router.post("/deliveries/{id}/feedback", response_model=models.Written, responses=REFUSALS)
async def give_feedback(id: Seq, given: models.Feedback, holder: Reader, api: State) -> Any:
    """Say whether a delivery was relevant; user agents learn from it, approximate patterns too."""
    row = await run_in_threadpool(_row, api, holder, id)
    delivery = (await run_in_threadpool(api.deliveries, holder.tenant, [row]))[0]
    items = delivery["items"] if delivery["digest"] else [delivery]
    matched = [[each, item["event"]] for item in items for each in item["subscriptions"]]
    body = {"delivery": id, "relevant": given.relevant, "matched": matched}
    seq = await api.append_one(holder, logs.FEEDBACK, body)
    applied = await api.applied(holder.tenant, seq)
    return JSONResponse({"seq": seq, "applied": applied}, 200 if applied else 202)


@router.get("/deliveries/{id}/explanation", response_model=models.Explanation, responses=REFUSALS)
async def explain_delivery(
    id: Seq,
    holder: Reader,
    api: State,
    message: Annotated[int | None, Query(ge=1, description="Which message of a digest")] = None,
) -> Any:
    """Why a message was delivered: the predicates, against the context that it met."""
    row = await run_in_threadpool(_row, api, holder, id)
    profiles = msgspec.json.decode(row.profiles)
    seq = row.seq
    if row.why == holding.DIGEST:
        seq = message or seq
        profiles = next((numbers for s, _, numbers in profiles if s == seq), None)
        if profiles is None:
            raise not_there(f"message {seq} in delivery {id}")
    bodies = await run_in_threadpool(_bodies, api, holder.tenant, profiles)
    return await explanation(api, holder, seq, bodies)


def _bodies(api: Api, tenant: int, numbers: list[int]) -> list[dict[str, Any]]:
    s = tables.subscriptions
    with api.engine.connect() as connection:
        rows = connection.execute(
            sa.select(s.c.seq, s.c.body).where(s.c.tenant == tenant, s.c.number.in_(numbers))
        ).all()
    bodies = [{**msgspec.json.decode(row.body), "seq": row.seq} for row in rows]
    return [body for body in bodies if not minding.is_forgotten(body)]


# preferences -------------------------------------------------------------------------------------

Subscriber = Annotated[models.Name, Path(examples=["ann"])]


def _mine(holder: Holder, subscriber: str) -> None:
    if holder.role == SUBSCRIBER and holder.subject != subscriber:
        raise not_there(f"subscriber {subscriber!r}")


@router.get(
    "/preferences/{subscriber:path}",
    response_model=models.SetPreferences,
    responses=REFUSALS,
    tags=["preferences"],
)
def read_preferences(subscriber: Subscriber, holder: Reader, api: State) -> Any:
    """How somebody wants deliveries."""
    _mine(holder, subscriber)
    s = tables.subscribers
    with api.engine.connect() as connection:
        found = connection.execute(
            sa.select(s.c.preferences).where(s.c.tenant == holder.tenant, s.c.name == subscriber)
        ).scalar()
    return {"subscriber": subscriber, "preferences": msgspec.json.decode(found) if found else {}}


@router.put(
    "/preferences/{subscriber:path}",
    response_model=models.SetPreferences,
    responses=REFUSALS,
    tags=["preferences"],
)
async def put_preferences(
    subscriber: Subscriber, given: models.Preferences, holder: Reader, api: State
) -> Any:
    """Say how somebody wants deliveries; replaces what was said before."""
    _mine(holder, subscriber)
    values = {k: v for k, v in given.model_dump().items() if v is not None}
    if given.snoozed_until is not None:
        values["snoozed_until"] = as_text(of_datetime(given.snoozed_until))
    for name in ("digest", "rate"):
        for part in ("count", "limit"):
            number = values.get(name, {}).get(part)
            if number is not None and float(number).is_integer():
                values[name][part] = int(number)
    try:
        holding.preferences(values)
    except GermaneError as error:
        raise of_germane(error) from None
    body = {"subscriber": subscriber, "preferences": values}
    seq = await api.append_one(holder, logs.SETTINGS, body)
    applied = await api.applied(holder.tenant, seq)
    return JSONResponse({**body, "seq": seq, "applied": applied}, 200 if applied else 202)
