"""User agents over HTTP: feedback and contexts in, subscriptions and reasons out.

Thin: ``germane.agent.Agent`` learns and decides; ``minding`` keeps it and writes what it decided. A
person may have several devices, each with a context of its own (``ann/phone``): name it with
``?device=phone``; without one, the context is the person's (``ann``).
"""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query
from starlette.concurrency import run_in_threadpool

from germane.model import GermaneError
from germane.service import cloudevents
from germane.service.api import feeding, minding, models
from germane.service.api.door import Asker, Reader, State
from germane.service.api.minding import Kept, id_of
from germane.service.api.problems import Problem, not_there, of_germane
from germane.service.api.publishing import REFUSALS
from germane.service.api.state import Api
from germane.service.log import Entry
from germane.service.tokens import SUBSCRIBER, Holder

router = APIRouter(tags=["people"])
Subscriber = Annotated[str, Path(min_length=1, max_length=500, examples=["ann"])]
Topic = Annotated[str, Path(min_length=1, max_length=500, examples=["Music"])]
Values = Annotated[dict[str, Any], Body(examples=[{"task": "lunch", "place": "Campus"}])]
Device = Annotated[
    str, Query(max_length=100, pattern="^[^/]*$", description="Which device's context")
]
LIKED = 0.5  # topics of this probability are shown
SHOWN = 20  # interests


@router.get("/me", response_model=models.Me, responses=REFUSALS)
async def read_me(holder: Asker) -> Any:
    """Whose token this is."""
    return {"role": holder.role, "subject": holder.subject}


def _mine(holder: Holder, name: str) -> None:
    if holder.role == SUBSCRIBER and holder.subject != name:
        raise not_there(f"agent of {name!r}")


async def _now(api: Api, holder: Holder, kept: Kept, device: str) -> dict[str, Any]:
    """A context as an agent sees it."""
    context = kept.agent.context_id(device)
    return minding.facets(await minding.context_of(api, holder, context))


# requests ----------------------------------------------------------------------------------------


@router.get("/agents/{subscriber}", response_model=models.Interests, responses=REFUSALS)
async def read_agent(
    subscriber: Subscriber, holder: Reader, api: State, device: Device = ""
) -> Any:
    """What was learned of somebody that counts in the context of now, and why."""
    _mine(holder, subscriber)
    kept = await run_in_threadpool(minding.load, api, holder.tenant, subscriber)
    context = await _now(api, holder, kept, device)
    return _shown(kept, context)


def _shown(kept: Kept, context: dict[str, Any]) -> dict[str, Any]:
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
            {"id": id_of(agent.user, row.id), "condition": row.condition, "because": row.why}
            for row in (agent.subscriptions() if kept.active else ())
        ],
    }  # fmt: skip


@router.put("/agents/{subscriber}", response_model=models.Written, responses=REFUSALS)
async def switch_agent(
    subscriber: Subscriber, given: models.Switch, holder: Reader, api: State
) -> Any:
    """Let what was learned be subscribed to, or not."""
    _mine(holder, subscriber)
    async with minding.turn(holder.tenant, subscriber):
        kept = await run_in_threadpool(minding.load, api, holder.tenant, subscriber)
        agent = kept.agent
        entries = []
        if given.on:
            updates: dict[str, Any] = {}
            for device in {*agent.devices(), ""}:
                updates |= agent.move(await _now(api, holder, kept, device), device).update
            entries = [
                *(minding.subscribe(api, holder, subscriber, row) for row in agent.subscriptions()),
                *(
                    minding.patch(holder, context, {minding.SITUATION: values[minding.SITUATION]})
                    for context, values in updates.items()
                ),
            ]
        elif kept.active:
            entries = [minding.end(holder, subscriber, row.id) for row in agent.subscriptions()]
        kept.active = given.on
        seq, applied = await minding.append(api, holder, entries)
        await run_in_threadpool(minding.save, api, holder.tenant, subscriber, kept)
    return {"seq": seq, "applied": applied}


@router.patch("/agents/{subscriber}/context", response_model=models.Written, responses=REFUSALS)
async def move_agent(
    subscriber: Subscriber, values: Values, holder: Reader, api: State, device: Device = ""
) -> Any:
    """Change a context; what was learned follows between the same two messages."""
    _mine(holder, subscriber)
    async with minding.turn(holder.tenant, subscriber):
        context = f"{subscriber}/{device}" if device else subscriber
        change = [minding.patch(holder, context, values)]
        try:
            kept = await run_in_threadpool(minding.load, api, holder.tenant, subscriber)
        except Problem:  # without topics nothing is learned; the context changes all the same
            seq, applied = await minding.append(api, holder, change)
            return {"seq": seq, "applied": applied}
        after = {**await minding.context_of(api, holder, context), **values}
        try:
            changes = kept.agent.move(minding.facets(after), device)
        except GermaneError as error:  # too many devices
            raise of_germane(error) from None
        entries = minding.decided(api, holder, kept, changes, change)
        seq, applied = await minding.append(api, holder, entries)
        await run_in_threadpool(minding.save, api, holder.tenant, subscriber, kept)
    return {"seq": seq, "applied": applied}


@router.delete("/agents/{subscriber}/context", response_model=models.Written, responses=REFUSALS)
async def leave_agent(
    subscriber: Subscriber, holder: Reader, api: State, device: Device = ""
) -> Any:
    """A device is no more: its context is emptied, and what was subscribed for it ends."""
    _mine(holder, subscriber)
    async with minding.turn(holder.tenant, subscriber):
        kept = await run_in_threadpool(minding.load, api, holder.tenant, subscriber)
        if device not in kept.agent.devices():
            raise not_there(f"device {device!r} of {subscriber!r}")
        changes = kept.agent.leave(device)
        emptied = minding.patch(holder, kept.agent.context_id(device), {}, cloudevents.PUT)
        entries = minding.decided(api, holder, kept, changes, [emptied])
        seq, applied = await minding.append(api, holder, entries)
        await run_in_threadpool(minding.save, api, holder.tenant, subscriber, kept)
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
    async with minding.turn(holder.tenant, subscriber):
        kept = await run_in_threadpool(minding.load, api, holder.tenant, subscriber)
        agent, device = kept.agent, given.device
        context = await _now(api, holder, kept, device)
        changes = [agent.move(context, device)] if agent.context(device) != context else []
        topics: list[str] = []
        for item in delivery["items"] if delivery["digest"] else [delivery]:
            data = (item["event"] or {}).get("data")
            message = {"id": str(item["seq"]), "topic": _topics(data)}
            topics += message["topic"]
            changes.append(agent.feedback(message, given.signal, given.seconds, device))
        for each in changes:
            await minding.append(api, holder, minding.decided(api, holder, kept, each))
        await run_in_threadpool(minding.save, api, holder.tenant, subscriber, kept)
    own = [id_ for id_ in delivery["subscriptions"] if not id_.startswith("agent-")]
    because = await run_in_threadpool(agent.explain, topics, device)
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
    async with minding.turn(holder.tenant, subscriber):
        kept = await run_in_threadpool(minding.load, api, holder.tenant, subscriber)
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
    async with minding.turn(holder.tenant, subscriber):
        kept = await run_in_threadpool(minding.load, api, holder.tenant, subscriber)
        kept.agent.undo()
        seq, applied = await _renew(api, holder, kept)
    return {"seq": seq, "applied": applied}


async def _renew(api: Api, holder: Holder, kept: Kept) -> tuple[int, bool]:
    """Bring the service to what an agent wants now, and keep the agent."""
    agent = kept.agent
    before = await run_in_threadpool(minding.load, api, holder.tenant, agent.user)
    old = {row.id: row for row in before.agent.subscriptions()}
    new = {row.id: row for row in agent.subscriptions()}
    entries: list[Entry] = []
    if kept.active:
        fresh = [r for i, r in new.items() if i not in old or old[i].condition != r.condition]
        entries += [minding.subscribe(api, holder, agent.user, row) for row in fresh]
        entries += [minding.end(holder, agent.user, i) for i in old if i not in new]
    seq, applied = await minding.append(api, holder, entries)
    await run_in_threadpool(minding.save, api, holder.tenant, agent.user, kept)
    return seq, applied


@router.get("/agents/{subscriber}/export", responses=REFUSALS)
async def export(subscriber: Subscriber, holder: Reader, api: State) -> dict[str, Any]:
    """All that was learned of somebody, in words and as data."""
    _mine(holder, subscriber)
    kept = await run_in_threadpool(minding.load, api, holder.tenant, subscriber)
    return {"on": kept.active, **kept.agent.export()}


@router.delete("/agents/{subscriber}", response_model=models.Written, responses=REFUSALS)
async def erase(subscriber: Subscriber, holder: Reader, api: State) -> Any:
    """Forget all that was learned of somebody, and end what came of it."""
    _mine(holder, subscriber)
    async with minding.turn(holder.tenant, subscriber):
        kept = await run_in_threadpool(minding.load, api, holder.tenant, subscriber)
        rows = kept.agent.subscriptions() if kept.active else []
        entries = [minding.end(holder, subscriber, row.id) for row in rows]
        seq, applied = await minding.append(api, holder, entries)
        await run_in_threadpool(minding.save, api, holder.tenant, subscriber, None)
    return {"seq": seq, "applied": applied}
