"""Answers made smaller for who takes gzip. Not the stream: its events must not wait."""

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from germane.service.api.door import STREAM

LEAST_BYTES = 4_000
LEVEL = 4  # most of the gain, for little of the time


class Squeeze:
    """All paths but that of the stream: not every release of starlette leaves streams alone."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.small = GZipMiddleware(app, minimum_size=LEAST_BYTES, compresslevel=LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.app if scope.get("path") == STREAM else self.small
        await app(scope, receive, send)
