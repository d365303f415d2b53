"""Why, and what if: one subscription against messages of the log, in a filter of its own.

In: a message, subscriptions, the log. Out: the predicates that decided, against the context that
the message met: it is rebuilt from the log up to that seq. Where the log does not reach back so far
the context of now is used, and the answer says so. Cost: reading the tenant's part of the log;
entries that do not name the context are not decoded.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from germane import ContentGraph, Filter
from germane.model import GermaneError
from germane.service import log as logs
from germane.service.cloudevents import PATCH, PUT, context_values, events_of, message_attributes
from germane.service.log import Log
from germane.service.regraph import new_filter
from germane.service.subscriptions import Condition, condition_of
from germane.service.values import plain

PART = 20_000
MOST = 20_000_000
"""Events of the log that are looked through for one explanation."""

Dead = Callable[[int, list[int]], set[int]]
"""(tenant, seqs) -> those that became dead letters."""


class Past:
    """Contexts and graphs of a tenant as they were before a seq."""

    def __init__(self, contexts: set[str]) -> None:
        self.contexts: dict[str, dict[str, Any]] = {id_: {} for id_ in contexts}
        self.graphs: dict[str, set[tuple[str, str]]] = {}  # those that share a graph share the set

    def edges(self) -> dict[str, list[Any]]:
        """Attribute -> edges; attributes that share a graph share the list."""
        lists = {id(edges): sorted(edges) for edges in self.graphs.values()}
        return {name: lists[id(edges)] for name, edges in self.graphs.items()}


def past_of(log: Log, tenant: int, seq: int, contexts: set[str], dead: Dead) -> Past | None:
    """The state before a seq; None if the log does not reach back to the beginning."""
    first, _ = log.bounds()
    if first > 1 or seq > MOST:
        return None
    past = Past(contexts)
    marks = [msgspec.json.encode(id_)[1:-1] for id_ in contexts]
    changes: list[tuple[int, Any]] = []
    after = 0
    while after < seq - 1:
        entries = log.read(after, PART, tenant)
        if not entries or entries[0].seq >= seq:
            break
        for entry in entries:
            if entry.seq >= seq:
                break
            if entry.kind == logs.GRAPH:
                changes.append((entry.seq, msgspec.json.decode(entry.body)))
            elif entry.kind == logs.EVENTS and (
                b"\\" in entry.body or any(mark in entry.body for mark in marks)
            ):
                for number, event in enumerate(events_of(entry.body), entry.seq):
                    if number < seq and event["type"] in (PATCH, PUT):
                        if event["subject"] in past.contexts:
                            changes.append((number, event))
        after = entries[-1].last
    refused = dead(tenant, [number for number, _ in changes])
    for number, change in changes:
        if number not in refused:
            _apply(past, change)
    return past


def _apply(past: Past, change: dict[str, Any]) -> None:
    if "attribute" in change:
        name = change["attribute"]
        if "set" in change:
            names = (name, *(change.get("attributes") or ()))
            edges = {(a, b) for a, b in change["set"]}
            past.graphs |= dict.fromkeys(names, edges)
        else:
            edges = past.graphs[name]
            edges |= {(a, b) for a, b in change.get("links") or ()}
            edges -= {(a, b) for a, b in change.get("unlinks") or ()}
        return
    values = past.contexts[change["subject"]]
    if change["type"] == PUT:
        values.clear()
    # What a list means is decided by the filter: here it is kept as it came.
    for name, value in change["data"].items():
        if value is None:
            values.pop(name, None)
        else:
            values[name] = value


def explain_subscription(
    log: Log,
    tenant: int,
    seq: int,
    event: Mapping[str, Any],
    shown: list[dict[str, Any]],
    now: Mapping[str, tuple[Any, int]],
    graphs: Mapping[str, list[Any]],
    dead: Dead,
    reached_only: bool = False,
) -> dict[str, Any] | None:
    """Explain a message to some subscriptions, as ``GET …/explanation`` answers.

    None, if it is asked for ``reached_only``, and the message is addressed to others.
    """
    past = past_of(log, tenant, seq, set(now), dead)
    if past is not None:
        contexts, edges = past.contexts, past.edges()
    else:
        contexts = {id_: values or {} for id_, (values, _) in now.items()}
        edges = dict(graphs)
    answer: dict[str, Any] = {
        "seq": seq,
        "state": "now" if past is None else "at",
        "now_seq": max((at for _, at in now.values()), default=None) if past is None else None,
        "context": next(iter(contexts.values()), None),
        "subscriptions": [],
    }
    address, reached = event.get("address"), False
    for body in shown:
        values = contexts.get(body["context"]) if body["context"] is not None else None
        f = _alone(condition_of(body), body["context"], values, edges)
        reaches = address is None or _reached(f, body["context"], address)
        answer["subscriptions"].append(_explain(f, body, event, edges, seq, reaches))
        reached |= reaches
    return answer if reached or not reached_only else None


def _explain(
    f: Filter,
    body: dict[str, Any],
    event: Mapping[str, Any],
    graphs: Mapping[str, list[Any]],
    seq: int,
    reached: bool,
) -> dict[str, Any]:
    found = f.explain(0, message_attributes(event, graphs))
    steps = [
        {"text": s.text, "truth": s.truth, "left": plain(s.left), "right": plain(s.right)}
        for s in found.steps
    ]
    matched, text = found.matched, found.text.replace("profile 0", f"subscription {body['id']}")
    if event.get("address") is not None:
        matched &= reached
        steps.append({"text": f"address: {event['address']}", "truth": reached})
    if body["seq"] > seq:
        matched = False
        steps.append({"text": "subscribed before the message", "truth": False})
        text += f"\n  it was made later (seq {body['seq']}) than the message (seq {seq})"
    return {
        "id": body["id"], "matched": matched, "condition": condition_of(body).text,
        "steps": steps, "text": text,
    }  # fmt: skip


def _reached(f: Filter, context: str | None, address: str) -> bool:
    try:
        return context is not None and context in f.recipients(address)
    except GermaneError:
        return False


def _alone(
    condition: Condition,
    context: str | None,
    values: Mapping[str, Any] | None,
    graphs: Mapping[str, list[Any]],
) -> Filter:
    """A filter with one profile, number 0, and its context."""
    made: dict[int, ContentGraph] = {}
    for edges in graphs.values():
        if id(edges) not in made:
            made[id(edges)] = ContentGraph.from_edges([(a, b) for a, b in edges])
    f = new_filter("scan", {name: made[id(edges)] for name, edges in graphs.items()})
    f.subscribe(0, condition.text, context, dialect=condition.dialect)
    if context is not None:
        f.update(context, {})
        for name, value in context_values({"data": values or {}}, graphs).items():
            try:
                f.update(context, {name: value})
            except GermaneError:
                continue  # a value that the tenant's filter did not take either
    return f


def try_out(
    condition: Condition,
    context: Mapping[str, Any] | None,
    messages: list[dict[str, Any]],
    graphs: Mapping[str, list[Any]],
) -> list[int]:
    """Which of some messages a draft would have delivered."""
    who = context["id"] if context else None
    f = _alone(condition, who, context["values"] if context else None, graphs)
    attributes = [message_attributes(each["event"], graphs) for each in messages]
    found = f.match_many(attributes)
    hits = [i for i, n in enumerate(found.counts.tolist()) if n]
    addresses = [messages[i]["event"].get("address") for i in hits]
    reached = {each: each is None or _reached(f, who, each) for each in set(addresses)}
    return [i for i, address in zip(hits, addresses, strict=True) if reached[address]]
