"""User agents over HTTP: feedback and contexts in, subscriptions and reasons out.

Thin: ``germane.agent.Agent`` learns and decides; ``minding`` keeps it and writes what it decided. A
person may have several devices, each with a context of its own (``ann/phone``): name it with
``?device=phone``; without one, the context is the person's (``ann``).
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
from fastapi import APIRouter, Body, Path, Query
from starlette.concurrency import run_in_threadpool

from germane.agent import Agent, Changes
from germane.model import GermaneError
from germane.service import cloudevents, holding, tables
from germane.service import log as logs
from germane.service.api import feeding, minding, models
from germane.service.api.door import Asker, Reader, State
from germane.service.api.minding import Kept, id_of
from germane.service.api.problems import Problem, not_there, of_germane
from germane.service.api.publishing import REFUSALS
from germane.service.api.state import Api
from germane.service.clock import SECOND, of_datetime
from germane.service.log import Entry
from germane.service.tokens import SUBSCRIBER, Holder

router = APIRouter(tags=["people"])
Subscriber = Annotated[models.Name, Path(examples=["ann"])]
Topic = Annotated[models.Name, Path(examples=["Music"])]
Values = Annotated[dict[str, Any], Body(examples=[{"task": "lunch", "place": "Campus"}])]
Device = Annotated[
    str, Query(max_length=100, pattern=models.DEVICE, description="Which device's context")
]
AHEAD_S = 60.0  # that a clock may be ahead
SHOWN = 20  # interests
UNDONE = "undone"
RELEVANT = {"kept": True, "less": False}  # what is said of a delivery itself, too


@router.get("/me", response_model=models.Me, responses=REFUSALS)
async def read_me(holder: Asker) -> Any:
    """Whose token this is."""
    return {"role": holder.role, "subject": holder.subject}


def _mine(holder: Holder, name: str) -> None:
    if holder.role == SUBSCRIBER and holder.subject != name:
        raise not_there(f"agent of {name!r}")


async def _check_device(api: Api, holder: Holder, name: str, device: str) -> None:
    """A device's context is its person's, though names may have the form of a device's."""
    if not device:
        return
    context = f"{name}/{device}"
    if len(context) > models.LONGEST_NAME:
        raise minding.too_long(context)
    taken = await run_in_threadpool(minding.people, api, holder.tenant, [context])
    if taken:
        raise Problem(422, f"{context!r} is a subscriber; call the device otherwise")


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
    await _check_device(api, holder, subscriber, device)
    kept = await run_in_threadpool(minding.load, api, holder.tenant, subscriber)
    context = await _now(api, holder, kept, device)
    return _shown(kept, context)


def _shown(kept: Kept, context: dict[str, Any]) -> dict[str, Any]:
    agent = kept.agent
    state = agent.state()
    chosen = {topic: "pinned" for topic, _ in state["pinned"]}
    chosen |= {topic: "muted" for topic, _ in state["muted"]}
    liked = agent.liked_topics(context)
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
        if given.on:
            before = minding.decided_before(kept)
            updates: dict[str, Any] = {}
            for device in {*agent.devices(), ""}:
                updates |= agent.move(await _now(api, holder, kept, device), device).update
            wanted = {row.id: row for row in agent.subscriptions()}
            entries = [
                *(minding.subscribe(api, holder, subscriber, row) for row in wanted.values()),
                *(
                    minding.patch(holder, context, {minding.SITUATION: values[minding.SITUATION]})
                    for context, values in updates.items()
                ),
                *(minding.end(holder, subscriber, each) for each in before if each not in wanted),
            ]
        else:
            entries = await minding.end_all(api, holder, kept)
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
    await _check_device(api, holder, subscriber, device)
    async with minding.turn(holder.tenant, subscriber):
        context = f"{subscriber}/{device}" if device else subscriber
        change = [minding.patch(holder, context, values)]
        [refused] = await minding.refusals(api, holder, [(context, values)])
        if refused is not None:
            raise Problem(422, refused)
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
    """Say what somebody did with a delivery: opened, kept, dismissed, "less like this".

    `undone` takes back the last of these that was said of it, but `opened`.
    What is sent again, since an answer was lost, counts once.
    """
    _mine(holder, subscriber)
    await _check_device(api, holder, subscriber, given.device)
    at = _seconds(given.at, api)
    row = await run_in_threadpool(feeding._row, api, holder, given.delivery)
    delivery = (await run_in_threadpool(api.deliveries, holder.tenant, [row]))[0]
    if delivery["subscriber"] != subscriber:
        raise not_there(f"delivery {given.delivery} of {subscriber!r}")
    if given.signal in RELEVANT:
        said = models.Feedback(relevant=RELEVANT[given.signal])
        if not await run_in_threadpool(_is_known, api, holder, given.delivery, said.relevant):
            await feeding.give_feedback(given.delivery, said, holder, api)
    async with minding.turn(holder.tenant, subscriber):
        kept = await run_in_threadpool(minding.load, api, holder.tenant, subscriber)
        agent, device = kept.agent, given.device
        context = await _now(api, holder, kept, device)
        try:
            changes = [agent.move(context, device)] if agent.context(device) != context else []
        except GermaneError as error:  # too many devices
            raise of_germane(error) from None
        messages = _messages(delivery)
        topics = [topic for message in messages for topic in message["topic"]]
        flags: list[Entry] = []
        if given.signal == UNDONE:
            with agent.one_action():
                changes += [agent.take_back(message, at) for message in messages]
            seqs = {int(message["id"]) for message in messages}
            flags = await run_in_threadpool(_taken_back, api, holder, agent, seqs)
        else:
            changes += _learn(agent, messages, given, at)
        decisions = [flags] + [minding.decided(api, holder, kept, each) for each in changes]
        for entries in decisions:
            await minding.append(api, holder, entries)
        await run_in_threadpool(minding.save, api, holder.tenant, subscriber, kept)
    own = [id_ for id_ in delivery["subscriptions"] if not id_.startswith("agent-")]
    because = await run_in_threadpool(agent.explain, topics, device)
    return {"feedback": len(agent.interests.pieces), "because": because, "own": own}


def _learn(
    agent: Agent, messages: list[dict[str, Any]], given: models.Signal, at: float
) -> list[Changes]:
    """Learn from what was done with messages, where that is not known yet; one action to undo."""
    said = None if given.context is None else minding.facets(minding.attributes(given.context))
    kind, seconds, told_at = given.signal, given.seconds, None if given.at is None else at
    fresh = [m for m in messages if not agent.was_told(m, kind, seconds, said, told_at)]
    with agent.one_action():
        return [agent.feedback(m, kind, seconds, given.device, said, at) for m in fresh]


def _messages(delivery: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of a delivery, as an agent has them."""
    items = delivery["items"] if delivery["digest"] else [delivery]
    return [
        {"id": str(item["seq"]), "topic": _topics((item["event"] or {}).get("data"))}
        for item in items
    ]


def _seconds(at: models.Moment | None, api: Api) -> float:
    """When something was said, in seconds since 1970; it cannot be later than now."""
    now = api.clock() / SECOND
    if at is None:
        return now
    said = of_datetime(at) / SECOND if isinstance(at, datetime) else at
    if not 0 <= said <= now + AHEAD_S:
        raise Problem(422, f"at: {at} is not between 1970 and now; without it, it is now")
    return said


def _is_known(api: Api, holder: Holder, delivery: int, relevant: bool) -> bool:
    """Whether the last that was said of a delivery is the same."""
    f = tables.feedback
    with api.engine.connect() as connection:
        found = connection.execute(
            sa.select(f.c.relevant).where(f.c.tenant == holder.tenant, f.c.delivery == delivery)
        ).scalar()
    return found is not None and bool(found) == relevant


def _topics(data: Any) -> list[str]:
    found = data.get("topic") if isinstance(data, dict) else None
    if isinstance(found, list):
        return [str(topic) for topic in found]
    return [found] if isinstance(found, str) else []  # anything else names no topic


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
            with agent.one_action():
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
        before = Counter(kept.agent.interests.pieces)
        kept.agent.undo()
        undone = before - Counter(kept.agent.interests.pieces)
        messages = {int(piece.message) for piece in undone if piece.kind in RELEVANT}
        taken_back = await run_in_threadpool(_taken_back, api, holder, kept.agent, messages)
        seq, applied = await _renew(api, holder, kept, taken_back)
    return {"seq": seq, "applied": applied}


def _taken_back(api: Api, holder: Holder, agent: Agent, messages: set[int]) -> list[Entry]:
    """Have deliveries of some messages say what is left of what was said of them, or nothing."""
    d, f, p = tables.deliveries, tables.feedback, tables.subscribers
    if not messages:
        return []
    with api.engine.connect() as connection:
        rows = connection.execute(
            sa.select(d, f.c.relevant)
            .join(f, (f.c.tenant == d.c.tenant) & (f.c.delivery == d.c.id))
            .join(p, (p.c.tenant == d.c.tenant) & (p.c.number == d.c.subscriber))
            .where(d.c.tenant == holder.tenant, p.c.name == agent.user)
        ).all()
    entries = []
    for row in rows:
        seqs = {row.seq}
        if row.why == holding.DIGEST:
            seqs = {seq for seq, _, _ in msgspec.json.decode(row.profiles)}
        if seqs.isdisjoint(messages):
            continue
        names = {str(seq) for seq in seqs}
        left = [x.kind for x in agent.interests.pieces if x.message in names and x.kind in RELEVANT]
        relevant = RELEVANT[left[-1]] if left else None
        if relevant != row.relevant:
            body = {"delivery": row.id, "relevant": relevant, "matched": []}
            entries.append(Entry(holder.tenant, logs.FEEDBACK, msgspec.json.encode(body)))
    return entries


async def _renew(
    api: Api, holder: Holder, kept: Kept, more: Iterable[Entry] = ()
) -> tuple[int, bool]:
    """Bring the service to what an agent wants now, and keep the agent."""
    agent = kept.agent
    before = await run_in_threadpool(minding.load, api, holder.tenant, agent.user)
    old = minding.decided_before(before)
    new = {row.id: row for row in agent.subscriptions()}
    entries = list(more)
    if kept.active:
        fresh = [row for each, row in new.items() if old.get(each) != row.condition]
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
    """Forget all that was learned of somebody, and end what came of it.

    Where it is not `applied` yet, ask again: what has just ended is forgotten only then.
    """
    _mine(holder, subscriber)
    async with minding.turn(holder.tenant, subscriber):
        kept = await run_in_threadpool(minding.load, api, holder.tenant, subscriber)
        contexts = [kept.agent.context_id(device) for device in kept.agent.devices()]
        entries = await minding.end_all(api, holder, kept)
        entries += [minding.patch(holder, each, {minding.SITUATION: None}) for each in contexts]
        seq, applied = await minding.append(api, holder, entries)
        await run_in_threadpool(minding.save, api, holder.tenant, subscriber, None)
        await run_in_threadpool(minding.forget, api, holder.tenant, subscriber)
    return {"seq": seq, "applied": applied}
