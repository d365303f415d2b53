"""The door: who asks, how much, how large. Plain ASGI around the app, and what routes depend on."""

import time
from typing import Annotated, Any

import structlog
from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from germane.service.api.problems import Problem
from germane.service.api.state import Api
from germane.service.tokens import OPERATOR, PUBLISHER, ROOT, SUBSCRIBER, Holder

journal = structlog.get_logger("api")
STREAM = "/deliveries/stream"
CHALLENGE = {"WWW-Authenticate": "Bearer"}


def api_of(request: Request) -> Api:
    """The process that a request is in."""
    api: Api = request.app.state.api
    return api


def secret_of(request: Request) -> str:
    """The token that a request brings; empty if none."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        secret = request.query_params.get("access_token", "") if request.url.path == STREAM else ""
    return secret


async def holder_of(request: Request) -> Holder:
    """Who asks; 401 if nobody knows."""
    api, secret = api_of(request), secret_of(request)
    if not secret:
        raise Problem(
            401, "send a token: Authorization: Bearer gm_…", {"WWW-Authenticate": "Bearer"}
        )
    known, holder = api.tokens.known(secret)
    if not known:
        holder = await run_in_threadpool(api.tokens.holder, secret)
    if holder is None:
        raise Problem(401, "this token is not known, or revoked", CHALLENGE)
    api.allow(holder, "requests")
    return holder


def _only(*roles: str) -> Any:
    async def check(holder: Annotated[Holder, Depends(holder_of)]) -> Holder:
        if holder.role not in (*roles, OPERATOR, ROOT):
            raise Problem(
                403,
                f"a {holder.role}'s token does not open this: " + " or ".join((*roles, OPERATOR)),
            )
        return holder

    return check


async def _root(holder: Annotated[Holder, Depends(holder_of)]) -> Holder:
    if holder.role != ROOT:
        raise Problem(403, "only the first token, of role root, opens this")
    return holder


Asker = Annotated[Holder, Depends(holder_of)]
Publisher = Annotated[Holder, Depends(_only(PUBLISHER))]
Reader = Annotated[Holder, Depends(_only(SUBSCRIBER))]
Anyone = Annotated[Holder, Depends(_only(PUBLISHER, SUBSCRIBER))]
Operator = Annotated[Holder, Depends(_only())]
Root = Annotated[Holder, Depends(_root)]
State = Annotated[Api, Depends(api_of)]


class Door:
    """Counts, times and bounds requests; turns what goes wrong into an answer."""

    def __init__(self, app: ASGIApp, api: Api) -> None:
        self.app = app
        self.api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._check_length(scope)
            await self.app(scope, self._bounded(receive), counted)
        except Problem as problem:
            status = problem.status
            answer = JSONResponse(problem.body, problem.status, problem.headers)
            await answer(scope, receive, send)
        finally:
            route = scope.get("route")
            path = getattr(route, "path", "unknown")
            self.api.metrics.requests.labels(scope["method"], path, str(status)).inc()
            self.api.metrics.seconds.labels(path).observe(time.perf_counter() - started)
            if status >= 500 and path != "/ready":  # that is an answer, not an error
                journal.error("request", method=scope["method"], path=path, status=status)

    def _check_length(self, scope: Scope) -> None:
        """Refuse a body that says itself that it is too large."""
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit():
                if int(value) > self.api.settings.limits.body_bytes:
                    raise self._too_large()

    def _too_large(self) -> Problem:
        most = self.api.settings.limits.body_bytes
        return Problem(413, f"the body is larger than {most:,} bytes; send smaller batches")

    def _bounded(self, receive: Receive) -> Receive:
        """Refuse a body that turns out to be too large."""
        most, taken = self.api.settings.limits.body_bytes, 0

        async def bounded() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > most:
                raise self._too_large()
            return message

        return bounded
