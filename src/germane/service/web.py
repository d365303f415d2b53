"""The pages that people use: client, operator's console, demo, the API's description. Static files,
and nothing else.

In: requests below ``/app/``, and for ``/docs``. Out: files of ``pages/``, each known by name when
the service starts, so that no path of a request ever reaches the file system. Every answer carries
a content security policy that allows this origin's own files only: no inline script, no inline
style, no foreign frame, no form that leaves. Files are checked for change by their digest; the
client's service worker keeps them for when there is no network.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

PAGES = Path(__file__).parent / "pages"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webmanifest": "application/manifest+json",
    ".LICENSE": "text/plain; charset=utf-8",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "manifest-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-src 'self'",  # the demo shows the client in a frame
        "frame-ancestors 'self'",
        "require-trusted-types-for 'script'",
        "trusted-types germane",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(self)",
    "Cache-Control": "no-cache",
}
SHORT = {"": "index.html", "console": "console.html", "demo": "demo.html"}


class Page(NamedTuple):
    """A file as it is sent."""

    body: bytes
    kind: str
    tag: str


def read_pages(folder: Path = PAGES) -> Mapping[str, Page]:
    """Every file that is served, by its name below ``/app/``."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in KINDS and path.is_file():
            body = path.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
            found[path.relative_to(folder).as_posix()] = Page(body, KINDS[path.suffix], tag)
    return MappingProxyType({**found, **{short: found[name] for short, name in SHORT.items()}})


def router() -> APIRouter:
    """Routes of the pages; they need no token, and tell nothing."""
    pages = read_pages()
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    @routes.get("/app")
    def start() -> Response:
        return RedirectResponse("/app/", status_code=307)

    @routes.get("/docs")
    def docs(request: Request) -> Response:
        return page("docs.html", request)

    @routes.get("/app/{name:path}")
    def page(name: str, request: Request) -> Response:
        found = pages.get(name)
        if found is None:
            return Response("There is no such page.", 404, HEADERS, "text/plain; charset=utf-8")
        headers = {**HEADERS, "ETag": found.tag}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        return Response(found.body, 200, headers, found.kind)

    return routes
