"""For operators: graphs, dead letters, sinks, tokens, tenants, figures."""

from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
from fastapi import APIRouter, Path, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from germane.model import GermaneError
from germane.service import cloudevents, letters, tables, tokens
from germane.service import log as logs
from germane.service.api import models
from germane.service.api.door import Operator, Reader, Root, State
from germane.service.api.problems import Problem, not_there, of_germane
from germane.service.api.publishing import REFUSALS, dead_reason
from germane.service.api.state import Api
from germane.service.clock import SECOND, as_text
from germane.service.delivering import DEAD, GONE, WAITING
from germane.service.metrics import Others
from germane.service.tokens import Holder

router = APIRouter()
Attribute = Annotated[
    str, Path(min_length=1, max_length=200, pattern=models.NAMED, examples=["topic"])
]


# graphs ------------------------------------------------------------------------------------------


def _graph(row: Any, whole: bool) -> dict[str, Any]:
    edges = msgspec.json.decode(row.edges)
    return {
        "attribute": row.attribute,
        "attributes": msgspec.json.decode(row.attributes),
        "nodes": len({name for edge in edges for name in edge}),
        "edges": edges if whole else len(edges),
    }


def _graph_rows(api: Api, tenant: int) -> list[Any]:
    g = tables.graphs
    with api.engine.connect() as connection:
        query = sa.select(g).where(g.c.tenant == tenant).order_by(g.c.attribute)
        return list(connection.execute(query))


@router.get("/graphs", response_model=models.Graphs, responses=REFUSALS, tags=["graphs"])
def read_graphs(holder: Reader, api: State) -> Any:
    """Content graphs: which attributes hold nodes of what."""
    return {"graphs": [_graph(row, False) for row in _graph_rows(api, holder.tenant)]}


@router.get("/graphs/{attribute}", response_model=models.Graph, responses=REFUSALS, tags=["graphs"])
def read_graph(attribute: Attribute, holder: Reader, api: State) -> Any:
    """All links of a graph."""
    for row in _graph_rows(api, holder.tenant):
        if row.attribute == attribute:
            return _graph(row, True)
    raise not_there(f"graph {attribute!r}")


async def _change(api: Api, holder: Holder, body: dict[str, Any]) -> Any:
    seq = await api.append_one(holder, logs.GRAPH, body)
    applied = await api.applied(holder.tenant, seq, 30.0)
    if applied:
        reason = await run_in_threadpool(dead_reason, api, holder.tenant, seq)
        if reason is not None:
            raise Problem(422, reason, seq=seq)
    return JSONResponse({"seq": seq, "applied": applied}, 200 if applied else 202)


@router.put(
    "/graphs/{attribute}", response_model=models.Written, responses=REFUSALS, tags=["graphs"]
)
async def put_graph(
    attribute: Attribute, given: models.NewGraph, holder: Operator, api: State
) -> Any:
    """Give an attribute a content graph, or replace its links."""
    if attribute in cloudevents.TYPES or attribute in cloudevents.RESERVED:
        raise Problem(422, f"{attribute!r} is an attribute of every event, and no category")
    body = {"attribute": attribute, "attributes": given.attributes, "set": given.edges}
    return await _change(api, holder, body)


@router.patch(
    "/graphs/{attribute}", response_model=models.Written, responses=REFUSALS, tags=["graphs"]
)
async def patch_graph(
    attribute: Attribute, given: models.GraphChange, holder: Operator, api: State
) -> Any:
    """Add links to a graph, then remove some."""
    body = {"attribute": attribute, "links": given.links, "unlinks": given.unlinks}
    return await _change(api, holder, body)


# dead letters ------------------------------------------------------------------------------------

LetterId = Annotated[
    str, Path(pattern=r"^(e[0-9]{1,18}|d[0-9]{1,18}-[0-9]{1,9})$", examples=["e12"])
]


@router.get("/deadletters", responses=REFUSALS, tags=["dead letters"])
def read_deadletters(
    holder: Operator,
    api: State,
    kind: Annotated[str | None, Query(pattern="^(event|delivery)$")] = None,
    after: Annotated[
        str, Query(pattern=r"^([0-9]{1,18}|e[0-9]{1,18}|d[0-9]{1,18}-[0-9]{1,9})$")
    ] = "0",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """Events that were not taken, then deliveries that no webhook took; with reasons.

    `next` is the id of a full page's last one, for `after`.
    """
    if after.isdigit():  # all of an event, or of a delivery
        after = f"d{after}-{letters.LAST}" if kind == "delivery" else f"e{after}"
    found: list[dict[str, Any]] = []
    if kind != "delivery" and after[0] == "e":
        found = letters.events(api, holder.tenant, int(after[1:]), limit)
    if kind != "event" and len(found) < limit:
        begin = letters.parts(after) if after[0] == "d" else (0, letters.LAST)
        found += letters.deliveries(api, holder.tenant, begin, limit - len(found))
    return {"deadletters": found, "next": found[-1]["id"] if len(found) == limit else None}


def _letter(api: Api, tenant: int, id_: str) -> dict[str, Any]:
    found = letters.letter(api, tenant, id_)
    if found is None:
        raise not_there(f"dead letter {id_}")
    return found


@router.get("/deadletters/{id}", responses=REFUSALS, tags=["dead letters"])
def read_deadletter(id: LetterId, holder: Operator, api: State) -> dict[str, Any]:
    """One dead letter."""
    return _letter(api, holder.tenant, id)


@router.post("/deadletters/{id}:redrive", responses=REFUSALS, tags=["dead letters"])
async def redrive(
    id: LetterId, holder: Operator, api: State, given: models.Redrive | None = None
) -> dict[str, Any]:
    """Try again: an event is appended anew, corrected if it is given; a webhook is sent again."""
    letter = await run_in_threadpool(_letter, api, holder.tenant, id)
    if letter["kind"] == "delivery":
        delivery = await run_in_threadpool(
            letters.change_delivery, api.engine, holder.tenant, id, WAITING, api.clock
        )
        return {"delivery": delivery}
    try:
        event = (given.event if given else None) or letter["event"]
        entry = letters.entry_of(holder.tenant, event)
    except GermaneError as error:
        raise of_germane(error, 400) from None
    async with api.redriving:  # once, though it is asked for twice at a time
        letter = await run_in_threadpool(_letter, api, holder.tenant, id)
        if letter["redriven"] is not None:
            how = f"was appended again as {letter['redriven']}" if letter["redriven"] else "is gone"
            raise Problem(409, f"dead letter {id} {how}")
        [seq] = await api.append([entry])
        await run_in_threadpool(letters.driven, api.engine, holder.tenant, id, seq)
    return {"seq": seq}


@router.delete("/deadletters/{id}", responses=REFUSALS, tags=["dead letters"])
def delete_deadletter(id: LetterId, holder: Operator, api: State) -> dict[str, Any]:
    """Let go of a dead letter; an event stays in the log."""
    letter = _letter(api, holder.tenant, id)
    if letter["kind"] == "event":
        letters.driven(api.engine, holder.tenant, id, 0)
    else:
        letters.change_delivery(api.engine, holder.tenant, id, GONE, api.clock)
    return {"id": id}


# sinks -------------------------------------------------------------------------------------------


@router.get("/sinks", responses=REFUSALS, tags=["sinks"])
def read_sinks(holder: Operator, api: State) -> dict[str, Any]:
    """Webhooks: how they are, what waits for them since when, and how they failed last."""
    s, o, d = tables.sinks, tables.outbox, tables.deliveries
    with api.engine.connect() as connection:
        rows = connection.execute(
            sa.select(s).where(s.c.tenant == holder.tenant).order_by(s.c.id)
        ).all()
        first = (
            sa.select(o.c.sink, sa.func.min(o.c.delivery).label("id"))
            .where(o.c.tenant == holder.tenant, o.c.state == WAITING)
            .group_by(o.c.sink)
            .subquery()
        )
        oldest = dict(
            connection.execute(
                sa.select(first.c.sink, d.c.released)
                .join(d, d.c.id == first.c.id)
                .where(d.c.tenant == holder.tenant)
            ).all()
        )
        counts = connection.execute(
            sa.select(o.c.sink, o.c.state, sa.func.count())
            .where(o.c.tenant == holder.tenant, o.c.state.in_([WAITING, DEAD]))
            .group_by(o.c.sink, o.c.state)
        ).all()
    by_sink = {(sink, state): n for sink, state, n in counts}
    return {
        "sinks": [
            {
                "id": row.id, "url": row.url, "state": row.state, "failures": row.failures,
                "waiting": by_sink.get((row.id, WAITING), 0),
                "waiting_since": as_text(oldest[row.id]) if row.id in oldest else None,
                "dead": by_sink.get((row.id, DEAD), 0),
                "last_failure": {"at": as_text(row.failed), "reason": row.last_failure}
                if row.failed
                else None,
                "last_success": as_text(row.succeeded) if row.succeeded else None,
            }
            for row in rows
        ]
    }  # fmt: skip


@router.post("/sinks/{id}:resume", responses=REFUSALS, tags=["sinks"])
def resume_sink(
    id: Annotated[int, Path(ge=0, le=2**31 - 1)], holder: Operator, api: State
) -> dict[str, Any]:
    """Try a sink again now, though it failed or said that it is gone."""
    s, o = tables.sinks, tables.outbox
    with tables.writing(api.engine) as connection:
        changed = connection.execute(
            sa.update(s)
            .where(s.c.tenant == holder.tenant, s.c.id == id)
            .values(state="ok", failures=0)
        )
        if not changed.rowcount:
            raise not_there(f"sink {id}")
        connection.execute(
            sa.update(o)
            .where(o.c.tenant == holder.tenant, o.c.sink == id, o.c.state == WAITING)
            .values(due=api.clock())
        )
    return {"id": id, "state": "ok"}


# tokens and tenants ------------------------------------------------------------------------------


@router.get("/tokens", responses=REFUSALS, tags=["tokens"])
def read_tokens(holder: Operator, api: State) -> dict[str, Any]:
    """Tokens of the tenant, without their secrets."""
    t = tables.tokens
    with api.engine.connect() as connection:
        rows = connection.execute(
            sa.select(t).where(t.c.tenant == holder.tenant).order_by(t.c.created)
        ).all()
    return {
        "tokens": [
            {
                "id": row.id, "role": row.role, "subject": row.subject,
                "created": as_text(row.created),
                "revoked": as_text(row.revoked) if row.revoked else None,
            }
            for row in rows
        ]
    }  # fmt: skip


@router.post("/tokens", status_code=201, responses=REFUSALS, tags=["tokens"])
def make_token(given: models.NewToken, holder: Operator, api: State) -> dict[str, Any]:
    """Make a token; its secret is shown this once."""
    try:
        with tables.writing(api.engine) as connection:
            id_, secret = tokens.issue(
                connection, holder.tenant, given.role, given.subject, api.clock
            )
    except GermaneError as error:
        raise of_germane(error) from None
    return {"id": id_, "token": secret, "role": given.role, "subject": given.subject}


@router.delete("/tokens/{id}", responses=REFUSALS, tags=["tokens"])
def revoke_token(
    id: Annotated[str, Path(max_length=40, pattern=models.NAMED)], holder: Operator, api: State
) -> dict[str, Any]:
    """Revoke a token."""
    t = tables.tokens
    with tables.writing(api.engine) as connection:
        # Locked, so that two who hold the last two root tokens do not revoke each other's.
        wanted = (t.c.tenant == holder.tenant, t.c.role == tokens.ROOT, t.c.revoked.is_(None))
        roots = connection.execute(sa.select(t.c.id).where(*wanted).with_for_update()).scalars()
        _check_root(id, set(roots), holder)
        changed = connection.execute(
            sa.update(t)
            .where(t.c.tenant == holder.tenant, t.c.id == id, t.c.revoked.is_(None))
            .values(revoked=api.clock())
        )
    if not changed.rowcount:
        raise not_there(f"token {id!r}")
    api.tokens.forget()
    return {"id": id}


def _check_root(id_: str, roots: set[str], holder: Holder) -> None:
    """Nobody may lock everybody out."""
    if id_ not in roots:
        return
    if holder.role != tokens.ROOT:
        raise Problem(403, "only a token of role root revokes one of role root")
    if len(roots) == 1:
        raise Problem(409, "this is the last token of role root: nobody could get in again")


@router.get("/tenants", responses=REFUSALS, tags=["tenants"])
def read_tenants(holder: Root, api: State) -> dict[str, Any]:
    """All tenants."""
    t = tables.tenants
    with api.engine.connect() as connection:
        rows = connection.execute(sa.select(t).order_by(t.c.id)).all()
    return {
        "tenants": [
            {"id": row.id, "name": row.name, "created": as_text(row.created)} for row in rows
        ]
    }


@router.post("/tenants", status_code=201, responses=REFUSALS, tags=["tenants"])
def make_tenant(given: models.NewTenant, holder: Root, api: State) -> dict[str, Any]:
    """Make a tenant, with an operator's token that is shown this once."""
    try:
        with tables.writing(api.engine) as connection:
            number = tokens.make_tenant(connection, given.name, api.clock)
            _, secret = tokens.issue(connection, number, tokens.OPERATOR, None, api.clock)
    except GermaneError as error:
        raise of_germane(error, 409) from None
    return {"id": number, "name": given.name, "token": secret}


# figures -----------------------------------------------------------------------------------------


def _gauges(api: Api, process: str) -> dict[str, Any]:
    g = tables.gauges
    with api.engine.connect() as connection:
        body = connection.execute(sa.select(g.c.body).where(g.c.process == process)).scalar()
    found: dict[str, Any] = msgspec.json.decode(body) if body else {}
    return found


def _counts(api: Api, tenant: int) -> dict[str, int]:
    with api.engine.connect() as connection:

        def count(table: sa.Table, *wanted: Any) -> int:
            query = sa.select(sa.func.count()).select_from(table)
            return int(
                connection.execute(query.where(table.c.tenant == tenant, *wanted)).scalar() or 0
            )

        d, o, s = tables.deadletters, tables.outbox, tables.deliveries
        last = connection.execute(sa.select(sa.func.max(s.c.id)).where(s.c.tenant == tenant))
        return {
            "subscribers": count(tables.subscribers),
            "deliveries": int(last.scalar() or 0),
            "held": count(tables.held),
            "waiting": count(o, o.c.state == WAITING),
            "dead_webhooks": count(o, o.c.state == DEAD),
            "deadletters": count(d, d.c.redriven.is_(None)),
        }


def _bounds(api: Api, tenant: int) -> tuple[int, int]:
    """The first seq of a tenant that is kept, and its last one; (1, 0) if it has none."""
    oldest = api.log.read(0, 1, tenant)
    newest = api.log.read_back(api.log.bounds()[1] + 1, 1, tenant)
    return (oldest[0].seq, newest[0].last) if oldest and newest else (1, 0)


@router.get("/stats", responses=REFUSALS, tags=["figures"])
async def read_stats(holder: Operator, api: State) -> dict[str, Any]:
    """What the service holds and does for this tenant."""
    first, last = await run_in_threadpool(_bounds, api, holder.tenant)
    figures = (await run_in_threadpool(_gauges, api, "matcher")).get(str(holder.tenant), {})
    counts = await run_in_threadpool(_counts, api, holder.tenant)
    filter_stats, seq = await api.ask(holder, "stats")
    return {
        "log": {"first": first, "last": last}, "position": seq, "lag": figures.get("lag", 0),
        "subscriptions": filter_stats["profiles"], "contexts": filter_stats["contexts"], **counts,
        "rates": figures.get("rates"), "latency_ms": figures.get("latency_ms"),
        "filter": filter_stats,
    }  # fmt: skip


@router.get("/stats/history", responses=REFUSALS, tags=["figures"])
def read_history(
    holder: Operator, api: State, seconds: Annotated[int, Query(ge=1, le=3600)] = 600
) -> dict[str, Any]:
    """Rates, lag and latency, a point a second."""
    h = tables.history
    begin = api.clock() - seconds * SECOND
    with api.engine.connect() as connection:
        rows = connection.execute(
            sa.select(h).where(h.c.tenant == holder.tenant, h.c.at >= begin).order_by(h.c.at)
        ).all()
    return {
        "points": [
            {
                "at": as_text(row.at), "events": row.events, "messages": row.messages,
                "deliveries": row.deliveries, "lag": row.lag, "p50_ms": row.p50_ms,
                "p99_ms": row.p99_ms,
            }
            for row in rows
        ]
    }  # fmt: skip


@router.get("/stats/subscriptions", responses=REFUSALS, tags=["figures"])
async def read_costs(
    holder: Operator,
    api: State,
    order: Annotated[str, Query(pattern="^(matches|cost)$")] = "matches",
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> dict[str, Any]:
    """Which subscriptions match or cost most."""
    costs, _ = await api.ask(holder, "costs", order=order, limit=limit)
    bodies = await run_in_threadpool(_bodies, api, holder.tenant, [c["number"] for c in costs])
    return {
        "subscriptions": [
            {
                "id": bodies[c["number"]]["id"], "subscriber": bodies[c["number"]]["subscriber"],
                "condition": bodies[c["number"]]["condition"],
                **{k: v for k, v in c.items() if k != "number"},
            }
            for c in costs
            if c["number"] in bodies
        ]
    }  # fmt: skip


def _bodies(api: Api, tenant: int, numbers: list[int]) -> dict[int, Any]:
    s = tables.subscriptions
    with api.engine.connect() as connection:
        rows = connection.execute(
            sa.select(s.c.number, s.c.body).where(s.c.tenant == tenant, s.c.number.in_(numbers))
        ).all()
    return {row.number: msgspec.json.decode(row.body) for row in rows}


@router.get("/metrics", responses=REFUSALS, tags=["figures"])
def read_metrics(holder: Root, api: State) -> Response:
    """Prometheus metrics of the whole installation."""
    o = tables.outbox
    with api.engine.connect() as connection:
        rows = connection.execute(
            sa.select(o.c.state, sa.func.count())
            .where(o.c.state.in_([WAITING, DEAD]))
            .group_by(o.c.state)
        ).all()
    outbox = {WAITING: 0, DEAD: 0} | dict(rows)
    others = Others(_gauges(api, "matcher"), _gauges(api, "courier"), api.log.bounds()[1], outbox)
    return Response(api.metrics.text(others), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/health", tags=["figures"])
async def health() -> dict[str, str]:
    """Whether this process answers."""
    return {"status": "ok"}


@router.get("/ready", tags=["figures"], responses={503: {"description": "Not yet, or not now"}})
async def ready(api: State) -> Response:
    """Whether events are taken, and matched."""
    reply = await api.pulse.ask({"ask": "ready", "tenant": 1})
    if "error" in reply:
        return JSONResponse({"ready": False, "why": reply["error"]}, 503)
    return JSONResponse({"ready": True})
