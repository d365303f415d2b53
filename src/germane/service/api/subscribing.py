"""Subscriptions, in the shape of the CloudEvents Subscriptions API."""

import secrets
from functools import partial
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
from fastapi import APIRouter, Body, Path, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from germane.model import GermaneError
from germane.service import log as logs
from germane.service import tables
from germane.service.api import models
from germane.service.api.bodies import LEARNED, body_of, graphs_of
from germane.service.api.door import Reader, State
from germane.service.api.problems import Problem, not_there, of_germane
from germane.service.api.publishing import REFUSALS, dead_reason, last_events
from germane.service.api.state import Api
from germane.service.clock import as_text, of_datetime
from germane.service.explaining import explain_subscription, try_out
from germane.service.subscriptions import OWN, condition_of
from germane.service.tokens import SUBSCRIBER, Holder

router = APIRouter(tags=["subscriptions"])
SubscriptionId = Annotated[models.Id, Path(examples=["s_8f2c41d09a3b7e65"])]
t = tables.subscriptions


async def _check(api: Api, holder: Holder, body: dict[str, Any]) -> None:
    """Ask the filter whether it would take a subscription; its own condition first, so that
    positions are those of the text that was sent."""
    if body.get("condition"):
        own = (body["condition"], "germane")
        await api.ask(holder, "check", condition=own, context=body["context"])
    whole = condition_of(body)
    if whole.text != body.get("condition"):
        await api.ask(holder, "check", condition=whole, context=body["context"])


async def _write(api: Api, holder: Holder, body: dict[str, Any], status: int) -> Any:
    await _check(api, holder, body)
    seq = await api.append_one(holder, logs.SUBSCRIBE, body)
    applied = await api.applied(holder.tenant, seq)
    if applied:
        row = await run_in_threadpool(_find, api, holder, body["id"])
        if row is None or row["seq"] < seq:  # somebody else was faster
            reason = await run_in_threadpool(dead_reason, api, holder.tenant, seq)
            if reason is not None:
                raise Problem(409, reason, seq=seq)
        if row is not None:
            if row["state"] == "refused":
                raise Problem(422, str(row["reason"]), seq=seq)
            return JSONResponse(row, status)
    shown = {**_open(body), "muted": False, "snoozed_until": None, "seq": seq, "state": "pending"}
    return JSONResponse({**shown, "reason": None, "applied": False}, 202)


def _open(body: dict[str, Any]) -> dict[str, Any]:
    """A subscription as people see it."""
    return {name: value for name, value in body.items() if name != "replaces"}


def _shown(row: Any) -> dict[str, Any]:
    until = row.snoozed_until
    return {
        **_open(msgspec.json.decode(row.body)), "muted": row.muted, "seq": row.seq,
        "snoozed_until": None if until is None else as_text(until),
        "state": row.state, "reason": row.reason, "applied": True,
    }  # fmt: skip


def _find(api: Api, holder: Holder, id_: str) -> dict[str, Any] | None:
    """A subscription that the asker may see."""
    with api.engine.connect() as connection:
        row = connection.execute(
            sa.select(t)
            .where(t.c.tenant == holder.tenant, t.c.id == id_)
            .order_by(t.c.number.desc())
            .limit(1)
        ).first()
    if row is None or row.state == "ended":
        return None
    shown = _shown(row)
    if holder.role == SUBSCRIBER and shown["subscriber"] != holder.subject:
        return None
    return shown


def _mine(holder: Holder) -> str | None:
    """Whose subscriptions alone the asker may change; None is everybody's."""
    return holder.subject if holder.role == SUBSCRIBER else None


def found(api: Api, holder: Holder, id_: str) -> dict[str, Any]:
    """A subscription that the asker may see; 404 else."""
    shown = _find(api, holder, id_)
    if shown is None:
        raise not_there(f"subscription {id_!r}")
    return shown


@router.post(
    "/subscriptions", status_code=201, response_model=models.Subscription, responses=REFUSALS
)
async def subscribe(given: models.NewSubscription, holder: Reader, api: State) -> Any:
    """Subscribe; from the next message on, what matches is delivered."""
    body = body_of(holder, given, f"s_{secrets.token_hex(8)}", api.settings.allow_sinks)
    return await _write(api, holder, body, 201)


@router.get("/subscriptions", response_model=models.Subscriptions, responses=REFUSALS)
def read_subscriptions(
    holder: Reader,
    api: State,
    subscriber: Annotated[models.Name | None, Query()] = None,
    after: Annotated[str, Query(max_length=200, pattern=r"^[^\x00-\x1f]*$")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Any:
    """Active and refused subscriptions, by id."""
    if holder.role == SUBSCRIBER:
        subscriber = holder.subject
    wanted = [t.c.tenant == holder.tenant, t.c.id > after, t.c.state != "ended"]
    if subscriber is not None:
        number = api.subscriber_number(holder.tenant, subscriber)
        wanted.append(t.c.subscriber == (-1 if number is None else number))
    newest = sa.select(sa.func.max(t.c.number)).where(*wanted).group_by(t.c.id).order_by(t.c.id)
    with api.engine.connect() as connection:
        numbers = list(connection.execute(newest.limit(limit)).scalars())
        rows = connection.execute(
            sa.select(t)
            .where(t.c.tenant == holder.tenant, t.c.number.in_(numbers))
            .order_by(t.c.id)
        ).all()
    shown = [_shown(row) for row in rows]
    return {"subscriptions": shown, "next": rows[-1].id if len(rows) == limit else None}


@router.get("/subscriptions/{id}", response_model=models.Subscription, responses=REFUSALS)
def read_subscription(id: SubscriptionId, holder: Reader, api: State) -> Any:
    """One subscription."""
    return found(api, holder, id)


@router.put("/subscriptions/{id}", response_model=models.Subscription, responses=REFUSALS)
async def put_subscription(
    id: SubscriptionId, given: models.NewSubscription, holder: Reader, api: State
) -> Any:
    """Make a subscription with this id, or replace it."""
    if id.startswith(LEARNED):  # or whether one is there would tell of somebody's contexts
        raise Problem(422, f"{id!r}: ids that begin with {LEARNED!r} are given by user agents")
    old = await run_in_threadpool(_owner, api, holder.tenant, id)
    if old is not None and holder.role == SUBSCRIBER and old != holder.subject:
        raise Problem(409, f"the id {id!r} is taken")
    body = body_of(holder, given, id, api.settings.allow_sinks)
    if holder.role == SUBSCRIBER:
        body["replaces"] = OWN
    return await _write(api, holder, body, 200)


def _owner(api: Api, tenant: int, id_: str) -> str | None:
    with api.engine.connect() as connection:
        body = connection.execute(
            sa.select(t.c.body)
            .where(t.c.tenant == tenant, t.c.id == id_, t.c.state != "ended")
            .order_by(t.c.number.desc())
        ).scalar()
    return None if body is None else str(msgspec.json.decode(body)["subscriber"])


@router.patch("/subscriptions/{id}", response_model=models.Subscription, responses=REFUSALS)
async def change_subscription(
    id: SubscriptionId, given: models.SubscriptionChange, holder: Reader, api: State
) -> Any:
    """Mute or snooze a subscription; what is not named stays."""
    shown = await run_in_threadpool(found, api, holder, id)
    change = {
        "subscription": id, "muted": shown["muted"], "snoozed_until": shown["snoozed_until"],
        "of": _mine(holder),
    }  # fmt: skip
    if given.muted is not None:
        change["muted"] = given.muted
    if "snoozed_until" in given.model_fields_set:
        until = given.snoozed_until
        change["snoozed_until"] = as_text(of_datetime(until)) if until else None
    seq = await api.append_one(holder, logs.SETTINGS, change)
    applied = await api.applied(holder.tenant, seq)
    reason = await run_in_threadpool(dead_reason, api, holder.tenant, seq) if applied else None
    if reason is not None:  # refused before, or ended meanwhile
        raise Problem(422, reason, seq=seq)
    shown = await run_in_threadpool(found, api, holder, id)
    return JSONResponse({**shown, "applied": applied}, 200 if applied else 202)


@router.delete("/subscriptions/{id}", response_model=models.Written, responses=REFUSALS)
async def unsubscribe(id: SubscriptionId, holder: Reader, api: State) -> Any:
    """End a subscription; from the next message on, nothing is delivered."""
    await run_in_threadpool(found, api, holder, id)
    seq = await api.append_one(holder, logs.UNSUBSCRIBE, {"id": id, "of": _mine(holder)})
    applied = await api.applied(holder.tenant, seq)
    if applied and await run_in_threadpool(dead_reason, api, holder.tenant, seq) is not None:
        raise not_there(f"subscription {id!r}")  # it ended meanwhile, or is somebody else's
    return JSONResponse({"seq": seq, "applied": applied}, 200 if applied else 202)


@router.post(
    "/subscriptions:batch", status_code=202, response_model=models.Batch, responses=REFUSALS
)
async def subscribe_many(
    given: Annotated[list[models.NewSubscription], Body(min_length=1, max_length=10_000)],
    holder: Reader,
    api: State,
) -> Any:
    """Subscribe many at once; what the filter refuses has a `reason` when it is read."""
    api.allow(holder, "events", len(given))
    bodies = [
        body_of(holder, each, f"s_{secrets.token_hex(8)}", api.settings.allow_sinks)
        for each in given
    ]
    entries = [
        logs.Entry(holder.tenant, logs.SUBSCRIBE, msgspec.json.encode(body)) for body in bodies
    ]
    seqs = await api.append(entries)
    return {"ids": [body["id"] for body in bodies], "first": seqs[0], "last": seqs[-1]}


@router.post("/subscriptions:test", response_model=models.Tried, responses=REFUSALS)
async def test_subscription(draft: models.Draft, holder: Reader, api: State) -> Any:
    """How many of the last messages a draft would have delivered, given the context of now."""
    mine = holder.subject if holder.role == SUBSCRIBER else None
    if mine is not None and draft.context not in (None, mine):
        raise not_there(f"context {draft.context!r}")
    body = draft.model_dump()
    try:
        condition = condition_of(body)
    except GermaneError as error:
        raise of_germane(error) from None
    context = None
    if draft.context is not None:
        values, seq = await api.ask(holder, "context", id=draft.context)
        context = {"id": draft.context, "values": values or {}, "at_seq": seq}
    graphs = await run_in_threadpool(graphs_of, api, holder.tenant)
    messages = await run_in_threadpool(
        last_events, api, holder.tenant, models.SEQ, draft.last, True
    )
    try:
        hits = await run_in_threadpool(try_out, condition, context, messages, graphs)
    except GermaneError as error:
        raise of_germane(error) from None
    examples = [messages[i] for i in hits[:10]]
    return {
        "tested": len(messages), "matched": len(hits), "examples": examples, "context": context,
        "since": messages[-1]["at"] if messages else None,
    }  # fmt: skip


@router.get(
    "/subscriptions/{id}/explanation", response_model=models.Explanation, responses=REFUSALS
)
async def explain(
    id: SubscriptionId,
    message: Annotated[int, Query(ge=1, le=models.SEQ)],
    holder: Reader,
    api: State,
) -> Any:
    """Why a message of the log reached this subscription, or what kept it away."""
    shown = await run_in_threadpool(found, api, holder, id)
    reached_only = holder.role == SUBSCRIBER  # what is addressed to others is theirs
    return await explanation(api, holder, message, [shown], reached_only)


async def explanation(
    api: Api, holder: Holder, seq: int, shown: list[dict[str, Any]], reached_only: bool = False
) -> dict[str, Any]:
    """Explain a message to some subscriptions, against the state that it met."""
    event = await run_in_threadpool(api.event, holder.tenant, seq)
    if event is None or event[0]["type"].startswith("germane.context."):
        raise not_there(f"message {seq}")
    now: dict[str, Any] = {}
    for body in shown:
        if body["context"] is not None and body["context"] not in now:
            now[body["context"]] = await api.ask(holder, "context", id=body["context"])
    graphs = await run_in_threadpool(graphs_of, api, holder.tenant)
    try:
        answer = await run_in_threadpool(
            explain_subscription, api.log, holder.tenant, seq, event[0], shown, now, graphs,
            partial(dead_among, api), reached_only,
        )  # fmt: skip
    except GermaneError as error:
        raise of_germane(error) from None
    if answer is None:
        raise not_there(f"message {seq}")
    return answer


def dead_among(api: Api, tenant: int, seqs: list[int]) -> set[int]:
    """Which of some events became dead letters."""
    if not seqs:
        return set()
    d = tables.deadletters
    with api.engine.connect() as connection:
        dead = connection.execute(
            sa.select(d.c.seq).where(d.c.tenant == tenant, d.c.seq.between(seqs[0], seqs[-1]))
        )
        return set(dead.scalars())


@router.get("/subscriptions/{id}/cost", responses=REFUSALS)
async def cost(id: SubscriptionId, holder: Reader, api: State) -> dict[str, Any]:
    """What a subscription is made of, and how often it matched."""
    await run_in_threadpool(found, api, holder, id)
    number = await run_in_threadpool(_number, api, holder.tenant, id)
    costs, _ = await api.ask(holder, "costs", number=number, limit=1)
    return {"id": id, **costs[0]}


def _number(api: Api, tenant: int, id_: str) -> int:
    with api.engine.connect() as connection:
        return int(
            connection.execute(
                sa.select(sa.func.max(t.c.number)).where(t.c.tenant == tenant, t.c.id == id_)
            ).scalar()
            or 0
        )
