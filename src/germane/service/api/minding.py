"""User agents between requests: kept in a table, and what they decide as entries of the log.

State is in a table of its own, so that it can be erased, which the log cannot. A decision is
written in one piece: first what is subscribed, then the context and the situation that guards its
learned subscriptions, then what ends; no message comes between. Whoever changes a context (the
person, a device, an application, by ``/agents``, ``/contexts`` or an event), the agent of that
person follows in the same piece (``follow``). Only events that stand behind a change in the same
batch of ``POST /events`` still meet the situation before it.
"""

import asyncio
import hashlib
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import sqlalchemy as sa
from starlette.concurrency import run_in_threadpool

from germane import ContentGraph
from germane.agent import Agent, Changes
from germane.agent import Subscription as Learned
from germane.model import GermaneError
from germane.service import cloudevents, tables
from germane.service import log as logs
from germane.service.api import models
from germane.service.api.bodies import body_of, graphs_of
from germane.service.api.problems import Problem
from germane.service.api.state import Api
from germane.service.log import Entry
from germane.service.tokens import OPERATOR, Holder

FACETS = {"task": "task", "place": "place", "daypart": "time"}
"""Attributes of a context that are learned from, and what they are to an agent. ``daypart``, since
``time`` is a timestamp in CloudEvents."""
SITUATION = "situation"
MOST_OTHERS, LONGEST = 3, 40  # other attributes that are learned from: words, and yes or no
KNOWN_S = 1.0  # for how long it is remembered whose agents are on
t = tables.agents
_turns: defaultdict[tuple[int, str], asyncio.Lock] = defaultdict(asyncio.Lock)
_on: dict[tuple[int, int], tuple[float, frozenset[str]]] = {}  # whose agents are on


class Kept:
    """An agent between two requests."""

    def __init__(self, agent: Agent, active: bool) -> None:
        self.agent = agent
        self.active = active


def turn(tenant: int, name: str) -> asyncio.Lock:
    """One request at a time changes an agent."""
    return _turns[tenant, name]


def load(api: Api, tenant: int, name: str) -> Kept:
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
    return Kept(Agent(name, topics, places, state), bool(row.active) if row else False)


def save(api: Api, tenant: int, name: str, kept: Kept | None) -> None:
    """Keep an agent, or none any more."""
    with tables.writing(api.engine) as connection:
        connection.execute(sa.delete(t).where(t.c.tenant == tenant, t.c.subscriber == name))
        if kept is not None:
            state = msgspec.json.encode(kept.agent.state()).decode()
            row = {"tenant": tenant, "subscriber": name, "active": kept.active, "state": state}
            connection.execute(sa.insert(t).values(row))
    _on.pop((id(api), tenant), None)


def _active(api: Api, tenant: int) -> frozenset[str]:
    """Whose agents are on."""
    at, names = _on.get((id(api), tenant), (-KNOWN_S, frozenset()))
    if time.monotonic() - at >= KNOWN_S:
        with api.engine.connect() as connection:
            found = connection.execute(
                sa.select(t.c.subscriber).where(t.c.tenant == tenant, t.c.active)
            )
            names = frozenset(found.scalars())
        _on[id(api), tenant] = time.monotonic(), names
    return names


# contexts ----------------------------------------------------------------------------------------


def facets(context: dict[str, Any]) -> dict[str, Any]:
    """What of a context an agent learns from; of several places, the first.

    Task, place and time of day; then a few other attributes that are words, or yes and no. What has
    figures in it, as times and addresses have, is no word: it would be another one all the time.
    """
    found: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, value in sorted(context.items()):
        if isinstance(value, list):
            value = value[0] if value else None
        if name in FACETS and isinstance(value, str):
            found[FACETS[name]] = value
        elif name not in FACETS and name not in (SITUATION, *FACETS.values()) and _is_word(value):
            others[name] = value
    return found | dict(list(others.items())[:MOST_OTHERS])


def _is_word(value: Any) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= LONGEST and not any(c.isdigit() for c in value)
    return isinstance(value, bool)


def _attributes(known: dict[str, Any]) -> dict[str, Any]:
    """What an agent calls a context, by the names that a context has."""
    names = {facet: name for name, facet in FACETS.items()}
    return {names.get(facet, facet): value for facet, value in known.items()}


async def context_of(api: Api, holder: Holder, context: str) -> dict[str, Any]:
    values, _ = await api.ask(holder, "context", id=context)
    return values or {}


# decisions ---------------------------------------------------------------------------------------


def id_of(name: str, learned: str) -> str:
    """The id of a learned subscription in the service."""
    return "agent-" + hashlib.sha256(f"{name}\0{learned}".encode()).hexdigest()[:20]


def subscribe(api: Api, holder: Holder, name: str, row: Learned) -> Entry:
    wanted = {"condition": row.condition, "subscriber": name, "context": row.context}
    given = models.NewSubscription.model_validate(wanted)
    decides = holder._replace(role=OPERATOR, subject=None)  # the agent, whoever asks
    body = body_of(decides, given, id_of(name, row.id), api.settings.allow_sinks)
    return Entry(holder.tenant, logs.SUBSCRIBE, msgspec.json.encode(body))


def end(holder: Holder, name: str, learned: str) -> Entry:
    body = msgspec.json.encode({"id": id_of(name, learned)})
    return Entry(holder.tenant, logs.UNSUBSCRIBE, body)


def patch(
    holder: Holder, context: str, values: dict[str, Any], kind: str = cloudevents.PATCH
) -> Entry:
    """A change of a context."""
    event = {
        "specversion": "1.0", "id": "-", "source": f"/tokens/{holder.token}", "type": kind,
        "subject": context, "data": values,
    }  # fmt: skip
    try:
        cloudevents.context_values(event)
        batch = cloudevents.admit(msgspec.json.encode(event), False)
    except (GermaneError, TypeError, ValueError) as error:
        raise Problem(400, str(error)) from None
    return Entry(holder.tenant, logs.EVENTS, batch.body)


def decided(
    api: Api, holder: Holder, kept: Kept, changes: Changes, change: Iterable[Entry] = ()
) -> list[Entry]:
    """What an agent decided, around a change of its context."""
    if not kept.active:
        return list(change)
    name, again = kept.agent.user, {row.id for row in changes.subscribe}
    return [
        *(subscribe(api, holder, name, row) for row in changes.subscribe),
        *change,
        *(
            patch(holder, context, {SITUATION: values[SITUATION]})
            for context, values in changes.update.items()
        ),
        *(end(holder, name, each) for each in changes.unsubscribe if each not in again),
    ]


async def append(api: Api, holder: Holder, entries: list[Entry]) -> tuple[int, bool]:
    """Write a decision; the last seq, and whether it is applied already."""
    if not entries:
        return 0, True
    seq = (await api.append(entries))[-1]
    return seq, await api.applied(holder.tenant, seq)


async def follow(
    api: Api, holder: Holder, batch: cloudevents.Batch, entries: list[Entry]
) -> list[int]:
    """Append events; agents that are on follow changes of their contexts. The events' seqs."""
    subjects = sorted(each for each in batch.subjects if each is not None)
    active = await run_in_threadpool(_active, api, holder.tenant) if subjects else frozenset()
    owners = {each: owner for each in subjects if (owner := _owner(each, active)) is not None}
    events = cloudevents.events_of(batch.body) if owners else []
    owners = {each: owner for each, owner in owners.items() if _matters(events, each)}
    if not owners:
        return await api.append(entries)
    names = sorted({name for name, _ in owners.values()})
    async with AsyncExitStack() as stack:
        for name in names:
            await stack.enter_async_context(turn(holder.tenant, name))
        before, after = [], []
        agents = {n: await run_in_threadpool(load, api, holder.tenant, n) for n in names}
        for subject, (name, device) in owners.items():
            kept = agents[name]
            if not kept.active or (device and device not in kept.agent.devices()):
                continue
            known = facets(_after(_attributes(kept.agent.context(device)), events, subject))
            moved = decided(api, holder, kept, kept.agent.move(known, device))
            before += [each for each in moved if each.kind == logs.SUBSCRIBE]
            after += [each for each in moved if each.kind != logs.SUBSCRIBE]
        seqs = await api.append([*before, *entries, *after])
        for name in names:
            await run_in_threadpool(save, api, holder.tenant, name, agents[name])
    return seqs[len(before) : len(before) + len(entries)]


def _owner(subject: str, active: frozenset[str]) -> tuple[str, str] | None:
    """Whose context it is, and which device's."""
    if subject in active:
        return subject, ""
    name, slash, device = subject.rpartition("/")
    return (name, device) if slash and name in active else None


def _matters(events: list[Any], subject: str) -> bool:
    """Whether events may change what an agent knows of a context; a position, say, does not."""
    return any(
        event["type"] == cloudevents.PUT
        or any(n in FACETS or v is None or _is_word(v) for n, v in event["data"].items())
        for event in events
        if event.get("subject") == subject and event["type"] in (cloudevents.PUT, cloudevents.PATCH)
    )


def _after(context: dict[str, Any], events: list[Any], subject: str) -> dict[str, Any]:
    """A context after some events."""
    for event in events:
        if event.get("subject") != subject:
            continue
        if event["type"] == cloudevents.PUT:
            context = dict(event["data"])
        elif event["type"] == cloudevents.PATCH:
            context = {**context, **event["data"]}
    return context
