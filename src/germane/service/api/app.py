"""The app: routes put together, problems as JSON, and an end that lets streams go."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

import germane
from germane.service import web
from germane.service.api import agents, feeding, operating, publishing, subscribing
from germane.service.api.door import Door
from germane.service.api.problems import Problem
from germane.service.api.squeezing import Squeeze
from germane.service.api.state import Api
from germane.service.log import LogError

journal = structlog.get_logger("api")
ABOUT = """
Who should get this message, given how everyone is right now?

Publish CloudEvents, change contexts, subscribe with conditions over both, and receive deliveries
by server-sent events, by polling or by webhook. Send `Authorization: Bearer gm_…`.
"""


def create_app(api: Api) -> FastAPI:
    """The HTTP API of an installation."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        api.closing = True
        api.bell.ring_all()
        api.line.close()
        api.pulse.close()

    app = FastAPI(
        title="germane", version=germane.__version__, description=ABOUT, lifespan=lifespan,
        docs_url=None, redoc_url=None,  # those load scripts from elsewhere; see `web`
    )  # fmt: skip
    app.state.api = api
    parts = (publishing, subscribing, feeding, agents, operating)
    for router in (*(part.router for part in parts), web.router()):
        app.include_router(router)
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(sa.exc.DBAPIError, _store)
    app.add_exception_handler(LogError, _log)
    app.add_middleware(Squeeze)
    app.add_middleware(Door, api=api)
    app.openapi_schema = _with_security(app.openapi())
    return app


def _with_security(schema: dict[str, Any]) -> dict[str, Any]:
    schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    schema["security"] = [{"token": []}]
    for path in ("/health", "/ready"):
        schema["paths"][path]["get"]["security"] = []
    return schema


async def _problem(request: Request, problem: Any) -> JSONResponse:
    return JSONResponse(problem.body, problem.status, problem.headers)


async def _invalid(request: Request, error: Any) -> JSONResponse:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    words = f"{where}: {first['msg']}".encode(errors="replace").decode()  # it may quote surrogates
    return JSONResponse({"error": words}, 400 if first["type"] == "json_invalid" else 422)


async def _http(request: Request, error: Any) -> JSONResponse:
    return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)


async def _log(request: Request, error: Any) -> JSONResponse:
    """The log cannot be read now."""
    journal.error("log", error=str(error))
    return JSONResponse({"error": "the log is away; try again in a moment"}, 503)


async def _store(request: Request, error: Any) -> JSONResponse:
    """The tables cannot be read or written now."""
    words = str(error.orig)
    journal.error("store", error=words)
    if "full" in words:
        return JSONResponse({"error": "the disk is full; make room"}, 507)
    return JSONResponse({"error": "the store is away; try again in a moment"}, 503)
