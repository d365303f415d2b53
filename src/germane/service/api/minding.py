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
from germane.service.api.bodies import LEARNED, body_of, graphs_of
from germane.service.api.problems import Problem
from germane.service.api.state import Api
from germane.service.log import Entry
from germane.service.tokens import OPERATOR, SUBSCRIBER, Holder
from germane.service.writing import ACTIVE, ENDED

FACETS = {"task": "task", "place": "place", "daypart": "time"}
"""Attributes of a context that are learned from, and what they are to an agent. ``daypart``, since
``time`` is a timestamp in CloudEvents."""
SITUATION = "situation"
NOTHING = "FALSE"  # what one asks for when it is forgotten
MOST_OTHERS, LONGEST = 3, 40  # other attributes that are learned from: words, and yes or no
MOST_ASKED = 500_000  # bytes of changes that the matcher is asked about
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
    state = msgspec.json.decode(row.state) if row else {}
    contexts = [f"{name}/{device}" for device in state.get("devices", ()) if device]
    for each in people(
        api, tenant, contexts
    ):  # what was subscribed for it ends with the next decision
        del state["devices"][each.removeprefix(f"{name}/")]
    return Kept(Agent(name, topics, places, state), bool(row.active) if row else False)


def people(api: Api, tenant: int, names: list[str]) -> set[str]:
    """Which names are those of somebody: no device of somebody else has a context of that name."""
    if not names:
        return set()
    k, p = tables.tokens, tables.subscribers
    found: set[str] = set()
    with api.engine.connect() as connection:
        for table, column in ((k, k.c.subject), (p, p.c.name), (t, t.c.subscriber)):
            chosen = sa.select(column).where(table.c.tenant == tenant, column.in_(names))
            if table is k:
                chosen = chosen.where(k.c.role == SUBSCRIBER)
            found.update(connection.execute(chosen).scalars())
    return found


def save(api: Api, tenant: int, name: str, kept: Kept | None) -> None:
    """Keep an agent, or none any more."""
    with tables.writing(api.engine) as connection:
        connection.execute(sa.delete(t).where(t.c.tenant == tenant, t.c.subscriber == name))
        if kept is not None:
            state = msgspec.json.encode(kept.agent.state()).decode()
            row = {"tenant": tenant, "subscriber": name, "active": kept.active, "state": state}
            connection.execute(sa.insert(t).values(row))
    _on.pop((id(api), tenant), None)


def forget(api: Api, tenant: int, name: str) -> None:
    """Forget what the tables have of somebody's agent beside its state.

    That is what ended subscriptions asked for, and what was said of deliveries. A row stays, and
    its id, since deliveries name it; it is one that matches nothing, should the log be played
    again. What SQLite deletes is overwritten (``tables``), but in its write-ahead log.
    """
    s, f, d = tables.subscriptions, tables.feedback, tables.deliveries
    number = api.subscriber_number(tenant, name)
    with tables.writing(api.engine) as connection:
        rows = connection.execute(
            sa.select(s.c.number, s.c.body).where(
                s.c.tenant == tenant, s.c.subscriber == number, s.c.state != ACTIVE,
                s.c.id.startswith(LEARNED),
            )
        ).all()  # fmt: skip
        for row in rows:
            body = msgspec.json.decode(row.body) | {"condition": NOTHING, "context": None}
            connection.execute(
                sa.update(s)
                .where(s.c.tenant == tenant, s.c.number == row.number)
                .values(body=msgspec.json.encode(body).decode(), reason=None, state=ENDED)
            )
        theirs = sa.select(d.c.id).where(d.c.tenant == tenant, d.c.subscriber == number)
        connection.execute(sa.delete(f).where(f.c.tenant == tenant, f.c.delivery.in_(theirs)))
    tables.begin_log_anew(api.engine)


def is_forgotten(body: dict[str, Any]) -> bool:
    """Whether a subscription was learned and is forgotten."""
    return body["condition"] == NOTHING and str(body["id"]).startswith(LEARNED)


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


def attributes(known: dict[str, Any]) -> dict[str, Any]:
    """What an agent calls a context, by the names that a context has."""
    names = {facet: name for name, facet in FACETS.items()}
    return {names.get(facet, facet): value for facet, value in known.items()}


async def context_of(api: Api, holder: Holder, context: str) -> dict[str, Any]:
    values, _ = await api.ask(holder, "context", id=context)
    return values or {}


async def refusals(
    api: Api, holder: Holder, changes: list[tuple[str, dict[str, Any]]]
) -> list[str | None]:
    """For each change of a context, why the matcher would not take it; None if it would.

    Also None where nobody knows: the matcher is away, or there is more than a question may hold.
    """
    unknown: list[str | None] = [None] * len(changes)
    if not changes or len(msgspec.json.encode(changes)) > MOST_ASKED:
        return unknown
    try:
        async with asyncio.timeout(api.patience_s):
            found, _ = await api.ask(holder, "changes", changes=changes)
    except (Problem, TimeoutError):
        return unknown
    return list(found)


# decisions ---------------------------------------------------------------------------------------


def id_of(name: str, learned: str) -> str:
    """The id of a learned subscription in the service."""
    return LEARNED + hashlib.sha256(f"{name}\0{learned}".encode()).hexdigest()[:20]


def subscribe(api: Api, holder: Holder, name: str, row: Learned) -> Entry:
    wanted = {"condition": row.condition, "subscriber": name, "context": row.context}
    if (n := len(row.condition)) > models.LONGEST:
        raise Problem(
            422, f"what is liked and pinned makes a condition of {n:,} characters; "
            f"{models.LONGEST:,} are the most: release() a topic first",
        )  # fmt: skip
    if len(row.context or "") > models.LONGEST_NAME:
        raise too_long(row.context or "")
    given = models.NewSubscription.model_validate(wanted)
    decides = holder._replace(role=OPERATOR, subject=None)  # the agent, whoever asks
    body = body_of(decides, given, id_of(name, row.id), api.settings.allow_sinks)
    return Entry(holder.tenant, logs.SUBSCRIBE, msgspec.json.encode(body))


def too_long(context: str) -> Problem:
    """A name of a person and one of a device that are too long together."""
    return Problem(
        422, f"the context {context!r:.100} has a name of {len(context)} characters; "
        f"{models.LONGEST_NAME} characters are the most",
    )  # fmt: skip


def end(holder: Holder, name: str, learned: str) -> Entry:
    return _end(holder, id_of(name, learned))


def _end(holder: Holder, id_: str) -> Entry:
    return Entry(holder.tenant, logs.UNSUBSCRIBE, msgspec.json.encode({"id": id_}))


def decided_before(kept: Kept) -> dict[str, str]:
    """What an agent that is on subscribed to, whatever it would with the graphs of now.

    Learned ids -> conditions.
    """
    return dict(kept.agent.state()["standing"]) if kept.active else {}


async def end_all(api: Api, holder: Holder, kept: Kept) -> list[Entry]:
    """End all learned subscriptions that somebody has, also those that no agent knows of."""
    last = await run_in_threadpool(api.log.read_back, models.SEQ, 1, holder.tenant)
    caught_up = not last or await api.applied(holder.tenant, last[0].last)
    ids = await run_in_threadpool(_standing, api, holder.tenant, kept.agent.user)
    if not caught_up:  # the table does not have the latest
        ids |= {id_of(kept.agent.user, each) for each in decided_before(kept)}
    return [_end(holder, each) for each in sorted(ids)]


def _standing(api: Api, tenant: int, name: str) -> set[str]:
    """Ids of the learned subscriptions of somebody that are active."""
    s, number = tables.subscriptions, api.subscriber_number(tenant, name)
    with api.engine.connect() as connection:
        found = connection.execute(
            sa.select(s.c.id).where(
                s.c.tenant == tenant, s.c.subscriber == number, s.c.state == ACTIVE,
                s.c.id.startswith(LEARNED),
            )
        )  # fmt: skip
        return set(found.scalars())


def patch(
    holder: Holder, context: str, values: dict[str, Any], kind: str = cloudevents.PATCH
) -> Entry:
    """A change of a context."""
    event = {
        "specversion": "1.0", "id": "-", "source": f"/tokens/{holder.token}", "type": kind,
        "subject": context, "data": values,
    }  # fmt: skip
    try:
        batch = cloudevents.change_of(event)
    except GermaneError as error:
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
    events = await _taken(api, holder, events, owners)
    owners = {each: owner for each, owner in owners.items() if _matters(events, each)}
    if not owners:
        return await api.append(entries)
    names = sorted({name for name, _ in owners.values()})
    async with AsyncExitStack() as stack:
        for name in names:
            await stack.enter_async_context(turn(holder.tenant, name))
        decisions: list[tuple[str, Entry]] = []
        stuck: set[str] = set()
        agents = {n: await run_in_threadpool(load, api, holder.tenant, n) for n in names}
        for subject, (name, device) in owners.items():
            kept = agents[name]
            if not kept.active or (device and device not in kept.agent.devices()):
                continue
            known = facets(_after(attributes(kept.agent.context(device)), events, subject))
            try:
                moved = decided(api, holder, kept, kept.agent.move(known, device))
            except Problem:  # what one person pinned refuses nobody's events; theirs is not moved
                stuck.add(name)
            else:
                decisions += [(name, each) for each in moved]
        moves = [each for name, each in decisions if name not in stuck]
        before = [each for each in moves if each.kind == logs.SUBSCRIBE]
        after = [each for each in moves if each.kind != logs.SUBSCRIBE]
        seqs = await api.append([*before, *entries, *after])
        for name in agents.keys() - stuck:
            await run_in_threadpool(save, api, holder.tenant, name, agents[name])
    return seqs[len(before) : len(before) + len(entries)]


async def _taken(
    api: Api, holder: Holder, events: list[Any], owners: Iterable[str]
) -> list[dict[str, Any]]:
    """The changes of some contexts, without those that will be dead letters."""
    changes = [event for event in events if _changes(event) and event.get("subject") in owners]
    asked = [(event["subject"], event["data"]) for event in changes]
    refused = await refusals(api, holder, asked)
    return [each for each, reason in zip(changes, refused, strict=True) if reason is None]


def _changes(event: dict[str, Any]) -> bool:
    return event["type"] in (cloudevents.PUT, cloudevents.PATCH)


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
        if event.get("subject") == subject and _changes(event)
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
