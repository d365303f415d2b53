"""One request to a stranger's server, bounded in time and in bytes.

In: an http or https address, headers, and when all must be over. Out: ``Answer``: status, headers,
and the body of a feed, decoded; or ``Refused``, with the reason. Every read, write and handshake
may take until the deadline and no longer, so a server that sends a byte now and then gains nothing.
A body is identity, gzip or deflate, once, and decoded piece by piece up to its bound. Names are
resolved here, checked, and connected to as resolved; nothing is kept from one request to the next,
neither connections nor cookies. The one thing without a bound is the system's resolver.
"""

import socket
import ssl
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from germane.model import GermaneError
from germane.model.networks import is_public

__all__ = ["Answer", "Exchange", "Refused"]

STEP_S = 10.0  # of one read, one write, one handshake
PIECE = 65_536
ENCODINGS = "gzip, deflate"
PORTS = {"http": 80, "https": 443}
WITH_BODY = frozenset((200, 203, 226))
_SAFE = "%/:=&?~+!$,;'@()*[]|"  # in a path and a query, beside letters and digits


class Refused(Exception):
    """Why an address gave no feed."""


class Answer(NamedTuple):
    """What a server said; names of headers are lower case."""

    status: int
    headers: dict[str, str]
    content: bytes


class Target(NamedTuple):
    """An address, taken apart."""

    scheme: str
    host: str  # ASCII
    port: int
    path: str  # with the query

    @classmethod
    def of(cls, address: str) -> "Target":
        try:
            parts = urlsplit(address)
            port, host = parts.port, parts.hostname or ""
            if parts.scheme not in PORTS or not host:
                raise Refused(f"{address:.200} is no http or https address")
            host = host if host.isascii() else host.encode("idna").decode()
        except ValueError as error:  # also what IDNA refuses
            raise Refused(f"{address:.200} is no address: {error}") from error
        path = quote(parts.path or "/", _SAFE)
        path += f"?{quote(parts.query, _SAFE)}" if parts.query else ""
        return cls(parts.scheme, host, port or PORTS[parts.scheme], path)

    def name(self) -> str:
        """Host and port, as the header ``Host`` has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    def numbers(self, private: bool) -> list[str]:
        """The addresses of the host; all must be public ones, unless ``private``."""
        try:
            rows = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except (OSError, ValueError, OverflowError) as error:
            raise Refused(f"unknown host {self.host:.200}: {error}") from error
        numbers = list(dict.fromkeys(str(row[4][0]) for row in rows))
        if not private and not all(is_public(ip_address(n)) for n in numbers):
            raise Refused(f"{self.host:.200} is an address of a private network")
        return numbers


class Exchange:
    """Asks servers, one request at a time.

    >>> Exchange().ask("ftp://example.org/", {}, 1_000, time.monotonic() + 1)
    Traceback (most recent call last):
    germane.agent.exchange.Refused: ftp://example.org/ is no http or https address
    """

    def __init__(self, private: bool = False) -> None:
        """``private`` allows addresses of one's own network."""
        self._private = private
        self._tls: ssl.SSLContext | None = None

    def ask(self, address: str, headers: Mapping[str, str], most: int, end: float) -> Answer:
        """An answer with a body of at most so many bytes, before ``end`` (``time.monotonic``)."""
        target = Target.of(address)
        try:
            return self._ask(target, headers, most, end)
        except (Refused, GermaneError):
            raise
        except Exception as error:  # whatever a stranger may bring about, below
            if time.monotonic() >= end:
                raise Refused("not complete in time") from error
            raise Refused(f"{address:.200}: {type(error).__name__}: {error}"[:500]) from error

    def _ask(self, target: Target, headers: Mapping[str, str], most: int, end: float) -> Answer:
        core = _httpcore()
        if self._tls is None and target.scheme == "https":
            self._tls = core.default_ssl_context()
        sent = {"Host": target.name(), "Accept-Encoding": ENCODINGS, "Connection": "close"}
        network = _Network(core, end, target.numbers(self._private))
        url = core.URL(
            scheme=target.scheme.encode(),
            host=network.numbers[0].encode(),
            port=target.port,
            target=target.path.encode(),
        )
        with (
            core.ConnectionPool(ssl_context=self._tls, network_backend=network) as pool,
            pool.stream(
                "GET",
                url,
                headers={**sent, **headers},
                extensions={"sni_hostname": target.host, "timeout": _timeouts()},
            ) as answer,
        ):
            got = _headers(answer.headers)
            if answer.status not in WITH_BODY:
                return Answer(answer.status, got, b"")
            encoding = got.pop("content-encoding", "").strip().lower()
            return Answer(answer.status, got, _decoded(answer.iter_stream(), encoding, most))


def _timeouts() -> dict[str, float]:
    return dict.fromkeys(("connect", "read", "write", "pool"), STEP_S)


def _headers(rows: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers with lower names; those that are there twice are joined."""
    found: dict[str, str] = {}
    for name, value in rows:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


# Bodies ------------------------------------------------------------------------------------------


def _decoded(chunks: Iterable[bytes], encoding: str, most: int) -> bytes:
    """A body of at most so many bytes, on the wire and decoded."""
    if encoding in ("", "identity"):
        pieces: Iterator[bytes] = iter(chunks)
    elif encoding in ("gzip", "x-gzip", "deflate"):
        pieces = _inflated(_bounded(chunks, most), encoding == "deflate")
    else:
        raise Refused(f"its encoding is {encoding!r:.100}; only gzip or deflate, once, is read")
    return b"".join(_bounded(pieces, most))


def _bounded(pieces: Iterable[bytes], most: int) -> Iterator[bytes]:
    n = 0
    for piece in pieces:
        n += len(piece)
        if n > most:
            raise Refused(f"more than {most:,} bytes")
        yield piece


def _inflated(chunks: Iterable[bytes], deflate: bool) -> Iterator[bytes]:
    """The text of gzip's members or of deflate, in small pieces; what follows is left out."""
    machine: Any = None
    for chunk in chunks:
        while chunk:
            if machine is None:
                machine = zlib.decompressobj(_window(chunk, deflate))
            elif machine.eof:
                if deflate or not chunk.startswith(b"\x1f"):
                    return
                machine = zlib.decompressobj(31)
            yield machine.decompress(chunk, PIECE)
            chunk = machine.unused_data if machine.eof else machine.unconsumed_tail
    while machine is not None and (rest := machine.decompress(b"", PIECE)):
        yield rest
    if machine is not None and not machine.eof:
        raise Refused("its body is cut off: what is compressed does not end")


def _window(start: bytes, deflate: bool) -> int:
    """What zlib must expect: gzip; or deflate, which some servers send without zlib's header."""
    if not deflate:
        return 31
    return 15 if start[0] & 15 == 8 and start[0] >> 4 <= 7 else -15


# Deadlines ---------------------------------------------------------------------------------------


@dataclass
class _Network:
    """httpcore's connections, each step of which ends before a deadline."""

    core: Any
    end: float
    numbers: list[str]  # of the host, tried in this order

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **rest: Any) -> Any:
        backend = self.core.SyncBackend()
        for number in self.numbers[:-1]:
            try:
                stream = backend.connect_tcp(number, port, _left(self, timeout), **rest)
            except (self.core.ConnectError, self.core.ConnectTimeout):
                continue
            return _Stream(self.core, self.end, stream)
        stream = backend.connect_tcp(self.numbers[-1], port, _left(self, timeout), **rest)
        return _Stream(self.core, self.end, stream)


@dataclass
class _Stream:
    """A connection; ``core`` and ``end`` as of its network."""

    core: Any
    end: float
    stream: Any

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return bytes(self.stream.read(max_bytes, _left(self, timeout)))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.stream.write(buffer, _left(self, timeout))

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> "_Stream":
        stream = self.stream.start_tls(ssl_context, server_hostname, _left(self, timeout))
        return _Stream(self.core, self.end, stream)

    def close(self) -> None:
        self.stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self.stream.get_extra_info(info)


def _left(step: _Network | _Stream, timeout: float | None) -> float:
    """Seconds that a step may take."""
    left = step.end - time.monotonic()
    if left <= 0:
        raise step.core.ReadTimeout("the deadline is over")
    return min(left, STEP_S if timeout is None else timeout)


def _httpcore() -> Any:
    try:
        import httpcore
    except ImportError as error:
        raise GermaneError("fetching needs httpcore: pip install 'germane[agent]'") from error
    return httpcore
