"""Subscriptions as the log keeps them, and a tenant's graphs as the store has them."""

from typing import Any

from germane.model import GermaneError
from germane.service import tables
from germane.service.api import models
from germane.service.api.problems import Problem, of_germane
from germane.service.api.state import Api
from germane.service.clock import as_text, of_datetime
from germane.service.sinks import check_url
from germane.service.subscriptions import condition_of
from germane.service.tokens import SUBSCRIBER, Holder

LEARNED = "agent-"
"""What the ids of learned subscriptions begin with."""


def body_of(
    holder: Holder, given: models.NewSubscription, id_: str, allowed: tuple[str, ...]
) -> dict[str, Any]:
    """A subscription as the log keeps it; raises what is wrong with it."""
    mine = holder.subject if holder.role == SUBSCRIBER else None
    if mine is not None and (given.subscriber or mine) != mine:
        raise Problem(403, "a subscriber's token subscribes its own subject only")
    subscriber = mine or given.subscriber
    if subscriber is None:
        raise Problem(422, "say whose subscription it is: 'subscriber'")
    context = given.context if "context" in given.model_fields_set else subscriber
    if mine is not None and context not in (None, mine):
        raise Problem(403, "a subscriber's token reads its own context only")
    try:
        if given.sink is not None:
            check_url(given.sink, allowed)
        body = given.model_dump(mode="json", exclude={"subscriber", "context", "expires"})
        condition_of(body)
    except GermaneError as error:
        raise of_germane(error) from None
    expires = as_text(of_datetime(given.expires)) if given.expires else None
    return {"id": id_, "subscriber": subscriber, "context": context, **body, "expires": expires}


def graphs_of(api: Api, tenant: int) -> dict[str, list[Any]]:
    """Attribute -> edges of the tenant's graphs now; attributes that share one share the list."""
    return tables.edges(api.engine, tenant)
