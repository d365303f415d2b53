"""What deliveries must be, given what is in the log: the oracle plays the logged sequence.

In: a log. Out: for each tenant, (seq of a message, subscriber) -> ids of the subscriptions that
match it, and the seqs that are dead letters. It shares no line with the service but the log itself:
bodies are read as JSON here, and matched by `naive.py`.
"""

from __future__ import annotations

import json
from datetime import datetime

import naive

ENVELOPE = {"type", "source", "subject", "time", "dataschema"}
NAMES = {"id", "seq", "kind", "removed", "context", "condition", "address", "links", "unlinks"}


class Tenant:
    """One tenant's filter, slowly."""

    def __init__(self) -> None:
        self.filter = naive.NaiveFilter()
        for name in ("type", "source", "subject", "dataschema", "ce.id"):
            self.filter._types.fix(name, "string")
        self.filter._types.fix("time", "timestamp")
        self.subscriptions: dict[str, tuple[str, str]] = {}  # id -> profile, subscriber
        self.deliveries: dict[tuple[int, str], list[str]] = {}
        self.dead: set[int] = set()
        self.refused: set[str] = set()  # ids of subscriptions

    def play(self, seq: int, kind: str, body: dict) -> None:
        try:
            if kind == "events":
                self._event(seq, body)
            elif kind == "subscribe":
                self._subscribe(seq, body)
            elif kind == "unsubscribe":
                if body["id"] in self.refused:
                    self.refused.discard(body["id"])
                    return
                profile, _ = self.subscriptions.pop(body["id"])
                self.filter.unsubscribe(profile)
        except (naive.NaiveError, KeyError):
            self.dead.add(seq)

    def _event(self, seq: int, event: dict) -> None:
        if event["type"].startswith("germane.context."):
            values = dict(event["data"])
            if NAMES & values.keys():
                raise naive.NaiveError("a name that is taken")
            if event["type"].endswith("put"):
                known = self.filter._contexts.get(event["subject"], {})
                values = {**dict.fromkeys(known), **values}
            self.filter.update(event["subject"], values)
            return
        found = self.filter.match(attributes(event))
        owners = {profile: (id_, who) for id_, (profile, who) in self.subscriptions.items()}
        for profile in found:
            id_, subscriber = owners[profile]
            self.deliveries.setdefault((seq, subscriber), []).append(id_)

    def _subscribe(self, seq: int, body: dict) -> None:
        old = self.subscriptions.pop(body["id"], None)
        if old is not None:
            self.filter.unsubscribe(old[0])
        try:
            self.filter.subscribe(str(seq), body["condition"] or "TRUE", body["context"])
        except naive.NaiveError:
            self.refused.add(body["id"])
            return
        self.refused.discard(body["id"])
        self.subscriptions[body["id"]] = (str(seq), body["subscriber"])


def attributes(event: dict) -> dict:
    found = {"ce.id": event["id"]}
    for name, value in event.items():
        if name == "time":
            found["time"] = datetime.fromisoformat(value)
        elif name not in ("specversion", "id", "datacontenttype", "data"):
            found[name] = value
    data = event.get("data")
    for name, value in (data if isinstance(data, dict) else {}).items():
        if isinstance(value, str | int | float | bool):
            taken = name in ENVELOPE or name in NAMES or name in found
            found[f"data.{name}" if taken else name] = value
    return found


def play(log, tenant: int | None = None) -> dict[int, Tenant]:
    """All tenants of a log, or one, played from its beginning to its end."""
    tenants: dict[int, Tenant] = {}
    after = 0
    while entries := log.read(after, 10_000, tenant):
        for entry in entries:
            played = tenants.setdefault(entry.tenant, Tenant())
            body = json.loads(entry.body)
            for i, each in enumerate(body if entry.kind == "events" else [body]):
                played.play(entry.seq + i, entry.kind, each)
        after = entries[-1].last
    return {number: _sorted(tenant) for number, tenant in tenants.items()}


def _sorted(tenant: Tenant) -> Tenant:
    tenant.deliveries = {key: sorted(ids) for key, ids in tenant.deliveries.items()}
    return tenant
