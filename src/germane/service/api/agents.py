"""User agents over HTTP: feedback and contexts in, subscriptions and reasons out.

Thin: ``germane.agent.Agent`` learns and decides; here its state is kept in a table, so that it can
be erased, which the log cannot; and what it decides is appended to the log in one piece: first what
is subscribed, then the context with the situation that its subscriptions are guarded by, then what
ends. So between two messages a person's learned subscriptions change together with the context.
"""

import asyncio
import hashlib
from collections import defaultdict
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
from fastapi import APIRouter, Body, Path
from starlette.concurrency import run_in_threadpool

from germane import ContentGraph
from germane.agent import Agent, Changes
from germane.agent import Subscription as Learned
from germane.model import GermaneError
from germane.service import cloudevents, tables
from germane.service import log as logs
from germane.service.api import feeding, models
from germane.service.api.door import Asker, Reader, State
from germane.service.api.problems import Problem, not_there, of_germane
from germane.service.api.publishing import REFUSALS
from germane.service.api.state import Api
from germane.service.api.subscribing import body_of, graphs_of
from germane.service.log import Entry
from germane.service.tokens import SUBSCRIBER, Holder

router = APIRouter(tags=["people"])
Subscriber = Annotated[str, Path(min_length=1, max_length=500, examples=["ann"])]
Topic = Annotated[str, Path(min_length=1, max_length=500, examples=["Music"])]
Values = Annotated[dict[str, Any], Body(examples=[{"task": "lunch", "place": "Campus"}])]
FACETS = {"task": "task", "place": "place", "daypart": "time"}
"""Attributes of a context that are learned from, and what they are to an agent. ``daypart``, since
``time`` is a timestamp in CloudEvents."""
LIKED = 0.5  # topics of this probability are shown
SHOWN = 20  # interests
t = tables.agents
_turns: defaultdict[tuple[int, str], asyncio.Lock] = defaultdict(asyncio.Lock)


@router.get("/me", response_model=models.Me, responses=REFUSALS)
async def read_me(holder: Asker) -> Any:
    """Whose token this is."""
    return {"role": holder.role, "subject": holder.subject}


# what is kept ------------------------------------------------------------------------------------


class _Kept:
    """An agent between two requests."""

    def __init__(self, agent: Agent, active: bool) -> None:
        self.agent = agent
        self.active = active


def _load(api: Api, tenant: int, name: str) -> _Kept:
    graphs = graphs_of(api, tenant)
    if "topic" not in graphs:
        raise Problem(409, "interests are learned along a content graph: PUT /graphs/topic first")
    topics, places = (
        ContentGraph.from_edges([(a, b) for a, b in graphs[n]]) if n in graphs else None
        for n in ("topic", "place")
    )
    with api.engine.connect() as connection:
        row = connection.execute(
            sa.select(t).where(t.c.tenant == tenant, t.c.subscriber == name)
        ).first()
    assert topics is not None
    state = msgspec.json.decode(row.state) if row else None
    return _Kept(Agent(name, topics, places, state), bool(row.active) if row else False)


def _save(api: Api, tenant: int, name: str, kept: _Kept | None) -> None:
    with tables.writing(api.engine) as connection:
        connection.execute(sa.delete(t).where(t.c.tenant == tenant, t.c.subscriber == name))
        if kept is not None:
            state = msgspec.json.encode(kept.agent.state()).decode()
            row = {"tenant": tenant, "subscriber": name, "active": kept.active, "state": state}
            connection.execute(sa.insert(t).values(row))


def _mine(holder: Holder, name: str) -> None:
    if holder.role == SUBSCRIBER and holder.subject != name:
        raise not_there(f"agent of {name!r}")


def _id(name: str, learned: str) -> str:
    """The id of a learned subscription in the service."""
    return "agent-" + hashlib.sha256(f"{name}\0{learned}".encode()).hexdigest()[:20]


async def _context(api: Api, holder: Holder, name: str) -> dict[str, Any]:
    values, _ = await api.ask(holder, "context", id=name)
    return values or {}


def _facets(context: dict[str, Any]) -> dict[str, Any]:
    """What of a context an agent learns from; of several places, the first."""
    found = {}
    for name, facet in FACETS.items():
        value = context.get(name)
        if isinstance(value, list):
            value = value[0] if value else None
        if isinstance(value, str):
            found[facet] = value
    return found


# what is decided ---------------------------------------------------------------------------------


async def _do(
    api: Api, holder: Holder, kept: _Kept, changes: Changes, values: dict[str, Any] | None = None
) -> tuple[int, bool]:
    """Append what an agent decided, with a change of the context; the last seq, if applied."""
    name = kept.agent.user
    again = {row.id for row in changes.subscribe}
    entries = []
    if kept.active:
        entries += [_subscribe(api, holder, name, row) for row in changes.subscribe]
    patch = dict(values or {})
    if kept.active and name in changes.update:
        patch["situation"] = changes.update[name]["situation"]
    if patch:
        entries.append(_patch(holder, name, patch))
    if kept.active:
        entries += [_end(holder, name, i) for i in changes.unsubscribe if i not in again]
    return await _append(api, holder, entries)


async def _append(api: Api, holder: Holder, entries: list[Entry]) -> tuple[int, bool]:
    if not entries:
        return 0, True
    seq = (await api.append(entries))[-1]
    return seq, await api.applied(holder.tenant, seq)


def _subscribe(api: Api, holder: Holder, name: str, row: Learned) -> Entry:
    wanted = {"condition": row.condition, "subscriber": name, "context": name}
    given = models.NewSubscription.model_validate(wanted)
    body = body_of(holder, given, _id(name, row.id), api.settings.allow_sinks)
    return Entry(holder.tenant, logs.SUBSCRIBE, msgspec.json.encode(body))


def _end(holder: Holder, name: str, learned: str) -> Entry:
    body = msgspec.json.encode({"id": _id(name, learned)})
    return Entry(holder.tenant, logs.UNSUBSCRIBE, body)


def _patch(holder: Holder, name: str, values: dict[str, Any]) -> Entry:
    event = {
        "specversion": "1.0", "id": "-", "source": f"/tokens/{holder.token}",
        "type": cloudevents.PATCH, "subject": name, "data": values,
    }  # fmt: skip
    try:
        cloudevents.context_values(event)
        batch = cloudevents.admit(msgspec.json.encode(event), False)
    except (GermaneError, TypeError, ValueError) as error:
        raise Problem(400, str(error)) from None
    return Entry(holder.tenant, logs.EVENTS, batch.body)


# requests ----------------------------------------------------------------------------------------


@router.get("/agents/{subscriber}", response_model=models.Interests, responses=REFUSALS)
async def read_agent(subscriber: Subscriber, holder: Reader, api: State) -> Any:
    """What was learned of somebody that counts in the context of now, and why."""
    _mine(holder, subscriber)
    kept = await run_in_threadpool(_load, api, holder.tenant, subscriber)
    context = _facets(await _context(api, holder, subscriber))
    return _shown(kept, context)


def _shown(kept: _Kept, context: dict[str, Any]) -> dict[str, Any]:
    agent = kept.agent
    state = agent.state()
    chosen = {topic: "pinned" for topic, _ in state["pinned"]}
    chosen |= {topic: "muted" for topic, _ in state["muted"]}
    liked = agent.interests.liked_topics(context, LIKED)
    topics = [*chosen, *(topic for topic in liked if topic not in chosen)][:SHOWN]
    return {
        "on": kept.active,
        "feedback": len(agent.interests.pieces),
        "context": context,
        "interests": [
            {
                "topic": topic, "state": chosen.get(topic),
                "score": agent.interests.score(context, [topic]),
                "because": agent.explain([topic], context=context),
            }
            for topic in topics
        ],
        "subscriptions": [
            {"id": _id(agent.user, row.id), "condition": row.condition, "because": row.why}
            for row in (agent.subscriptions() if kept.active else ())
        ],
    }  # fmt: skip


@router.put("/agents/{subscriber}", response_model=models.Written, responses=REFUSALS)
async def switch_agent(
    subscriber: Subscriber, given: models.Switch, holder: Reader, api: State
) -> Any:
    """Let what was learned be subscribed to, or not."""
    _mine(holder, subscriber)
    async with _turns[holder.tenant, subscriber]:
        kept = await run_in_threadpool(_load, api, holder.tenant, subscriber)
        agent = kept.agent
        entries = []
        if given.on:
            changes = agent.move(_facets(await _context(api, holder, subscriber)))
            entries = [_subscribe(api, holder, subscriber, row) for row in agent.subscriptions()]
            situation = changes.update[subscriber]["situation"]
            entries.append(_patch(holder, subscriber, {"situation": situation}))
        elif kept.active:
            entries = [_end(holder, subscriber, row.id) for row in agent.subscriptions()]
        kept.active = given.on
        seq, applied = await _append(api, holder, entries)
        await run_in_threadpool(_save, api, holder.tenant, subscriber, kept)
    return {"seq": seq, "applied": applied}


@router.patch("/agents/{subscriber}/context", response_model=models.Written, responses=REFUSALS)
async def move_agent(subscriber: Subscriber, values: Values, holder: Reader, api: State) -> Any:
    """Change somebody's context; learned subscriptions follow between the same two messages."""
    _mine(holder, subscriber)
    async with _turns[holder.tenant, subscriber]:
        try:
            kept = await run_in_threadpool(_load, api, holder.tenant, subscriber)
        except Problem:  # without topics nothing is learned; the context changes all the same
            seq, applied = await _append(api, holder, [_patch(holder, subscriber, values)])
            return {"seq": seq, "applied": applied}
        after = {**await _context(api, holder, subscriber), **values}
        changes = kept.agent.move(_facets(after))
        seq, applied = await _do(api, holder, kept, changes, values)
        await run_in_threadpool(_save, api, holder.tenant, subscriber, kept)
    return {"seq": seq, "applied": applied}


@router.post("/agents/{subscriber}/feedback", response_model=models.Told, responses=REFUSALS)
async def teach_agent(
    subscriber: Subscriber, given: models.Signal, holder: Reader, api: State
) -> Any:
    """Say what somebody did with a delivery: opened, kept, dismissed, "less like this"."""
    _mine(holder, subscriber)
    row = await run_in_threadpool(feeding._row, api, holder, given.delivery)
    delivery = (await run_in_threadpool(api.deliveries, holder.tenant, [row]))[0]
    if delivery["subscriber"] != subscriber:
        raise not_there(f"delivery {given.delivery} of {subscriber!r}")
    if given.signal in ("kept", "less"):
        said = models.Feedback(relevant=given.signal == "kept")
        await feeding.give_feedback(given.delivery, said, holder, api)
    async with _turns[holder.tenant, subscriber]:
        kept = await run_in_threadpool(_load, api, holder.tenant, subscriber)
        context = _facets(await _context(api, holder, subscriber))
        agent = kept.agent
        changes = [agent.move(context)] if agent.context() != context else []
        topics: list[str] = []
        for item in delivery["items"] if delivery["digest"] else [delivery]:
            data = (item["event"] or {}).get("data")
            message = {"id": str(item["seq"]), "topic": _topics(data)}
            topics += message["topic"]
            changes.append(agent.feedback(message, given.signal, given.seconds))
        for each in changes:
            await _do(api, holder, kept, each)
        await run_in_threadpool(_save, api, holder.tenant, subscriber, kept)
    own = [id_ for id_ in delivery["subscriptions"] if not id_.startswith("agent-")]
    because = await run_in_threadpool(agent.explain, topics)
    return {"feedback": len(agent.interests.pieces), "because": because, "own": own}


def _topics(data: Any) -> list[str]:
    found = data.get("topic") if isinstance(data, dict) else None
    return [found] if isinstance(found, str) else [str(topic) for topic in found or ()]


@router.put(
    "/agents/{subscriber}/topics/{topic:path}", response_model=models.Written, responses=REFUSALS
)
async def choose_topic(
    subscriber: Subscriber, topic: Topic, given: models.Choice, holder: Reader, api: State
) -> Any:
    """Always have a topic, never, or (null) as it is learned."""
    _mine(holder, subscriber)
    async with _turns[holder.tenant, subscriber]:
        kept = await run_in_threadpool(_load, api, holder.tenant, subscriber)
        agent = kept.agent
        try:
            agent.release(topic)
            if given.state is not None:
                (agent.pin if given.state == "pinned" else agent.mute)(topic)
        except GermaneError as error:
            raise of_germane(error) from None
        seq, applied = await _renew(api, holder, kept)
    return {"seq": seq, "applied": applied}


@router.post("/agents/{subscriber}/undo", response_model=models.Written, responses=REFUSALS)
async def undo(subscriber: Subscriber, holder: Reader, api: State) -> Any:
    """Take back the last feedback or choice."""
    _mine(holder, subscriber)
    async with _turns[holder.tenant, subscriber]:
        kept = await run_in_threadpool(_load, api, holder.tenant, subscriber)
        kept.agent.undo()
        seq, applied = await _renew(api, holder, kept)
    return {"seq": seq, "applied": applied}


async def _renew(api: Api, holder: Holder, kept: _Kept) -> tuple[int, bool]:
    """Bring the service to what an agent wants now, and keep the agent."""
    agent = kept.agent
    before = await run_in_threadpool(_load, api, holder.tenant, agent.user)
    old = {row.id: row for row in before.agent.subscriptions()}
    new = {row.id: row for row in agent.subscriptions()}
    entries: list[Entry] = []
    if kept.active:
        fresh = [r for i, r in new.items() if i not in old or old[i].condition != r.condition]
        entries += [_subscribe(api, holder, agent.user, row) for row in fresh]
        entries += [_end(holder, agent.user, i) for i in old if i not in new]
    seq, applied = await _append(api, holder, entries)
    await run_in_threadpool(_save, api, holder.tenant, agent.user, kept)
    return seq, applied


@router.get("/agents/{subscriber}/export", responses=REFUSALS)
async def export(subscriber: Subscriber, holder: Reader, api: State) -> dict[str, Any]:
    """All that was learned of somebody, in words and as data."""
    _mine(holder, subscriber)
    kept = await run_in_threadpool(_load, api, holder.tenant, subscriber)
    return {"on": kept.active, **kept.agent.export()}


@router.delete("/agents/{subscriber}", response_model=models.Written, responses=REFUSALS)
async def erase(subscriber: Subscriber, holder: Reader, api: State) -> Any:
    """Forget all that was learned of somebody, and end what came of it."""
    _mine(holder, subscriber)
    async with _turns[holder.tenant, subscriber]:
        kept = await run_in_threadpool(_load, api, holder.tenant, subscriber)
        rows = kept.agent.subscriptions() if kept.active else []
        entries = [_end(holder, subscriber, row.id) for row in rows]
        seq, applied = await _append(api, holder, entries)
        await run_in_threadpool(_save, api, holder.tenant, subscriber, None)
    return {"seq": seq, "applied": applied}
