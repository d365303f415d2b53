"""``Fetcher``: gets feeds from the web and from folders, politely, and hands out new messages.

In: addresses (http, https) or folders of feed files. Out: ``Feed``s with messages that were not
there before, and dead letters. What is known of an address (its ETag, when it may be asked again,
how often it failed) is a plain dict that a caller may keep anywhere, as JSON.

Polite: a server is asked for what changed only (ETag, If-Modified-Since), one request a second and
host, under a name that says who asks; Retry-After is kept to; after a failure the wait doubles,
from 15 minutes to a day, with some jitter; an address that is gone for good is not asked again.
Careful: sizes, times and redirects are bounded, and a stranger's address leads to no private
network: names are resolved here, checked, and connected to as resolved.
"""

import ipaddress
import random
import socket
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from germane.agent.feeds import MAX_BYTES, DeadLetter, Feed, Reader
from germane.model import GermaneError, InvalidValue

__all__ = ["Fetcher", "Source"]

AGENT = "germane/0.1 (feed fetcher; asks for changes only)"
ACCEPT = "application/atom+xml, application/rss+xml, application/xml;q=0.9, */*;q=0.5"
TIMEOUT_S, WHOLE_S = 10.0, 30.0  # of one read, of a whole feed
MAX_REDIRECTS = 5
HOST_DELAY_S = 1.0
EVERY_S = 900.0
LONGEST_S = 86_400.0
FILES = (".xml", ".rss", ".atom", ".rdf", ".cdf", ".feed")
MAX_FILES = 10_000
_MOVED = frozenset((301, 302, 303, 307, 308))
_FOR_GOOD = frozenset((301, 308))


class _Refused(Exception):
    """Why an address gave no feed."""


@dataclass
class Source:
    """What is known of an address."""

    address: str
    moved: str = ""  # for good, to here
    etag: str = ""
    modified: str = ""
    failures: int = 0
    due: float = 0.0  # seconds since 1970 when it may be asked again
    gone: bool = False
    reason: str = ""  # of the last failure


class Fetcher:
    """Fetches feeds, each when it is due."""

    def __init__(
        self,
        reader: Reader | None = None,
        sources: Iterable[dict[str, Any]] = (),
        private: bool = False,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        seed: int = 0,
    ) -> None:
        """``sources`` are those of ``state``; ``private`` allows addresses of one's own network."""
        self.reader = Reader() if reader is None else reader
        self.sources = {row["address"]: Source(**row) for row in sources}
        self._private = private
        self._clock, self._sleep = clock, sleep
        self._draw = random.Random(seed)
        self._asked: dict[str, float] = {}  # host -> when
        self._read: dict[Path, tuple[int, int]] = {}  # files, as they were
        self._client: Any = None

    def state(self) -> list[dict[str, Any]]:
        """What is known of all addresses, as plain JSON."""
        return [asdict(source) for source in self.sources.values()]

    def due(self, address: str) -> float:
        """Seconds until an address may be asked; never is infinite."""
        source = self.sources.get(address)
        if source is None:
            return 0.0
        return float("inf") if source.gone else max(0.0, source.due - self._clock())

    def fetch(self, address: str) -> Feed:
        """What is new at an address or in a folder; nothing if it is not due."""
        if self.due(address) > 0:
            return Feed()
        source = self.sources.setdefault(address, Source(address))
        if urlsplit(address).scheme in ("http", "https"):
            return self._fetch(source)
        return self._folder(source)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    # the web ---------------------------------------------------------------------------------

    def _fetch(self, source: Source) -> Feed:
        now = self._clock()
        try:
            answer = self._get(source)
        except _Refused as error:
            return self._failed(source, str(error), now)
        if answer is None:  # nothing has changed
            source.failures, source.reason, source.due = 0, "", now + EVERY_S
            return Feed()
        content, headers = answer
        moment = datetime.fromtimestamp(now, UTC)
        feed = self.reader.read(content, source.address, headers, moment)
        if feed.dead_letters and not feed.messages and not feed.duplicates:
            self._wait(source, feed.dead_letters[0].reason, now)
        else:
            source.etag, source.modified = headers.get("etag", ""), headers.get("last-modified", "")
            source.failures, source.reason, source.due = 0, "", now + EVERY_S
        return feed

    def _failed(self, source: Source, reason: str, now: float) -> Feed:
        self._wait(source, reason, now)
        return Feed(dead_letters=[DeadLetter(source.address, reason, "")])

    def _wait(self, source: Source, reason: str, now: float) -> None:
        """The next try comes later with every failure; a server's own wish may be later still."""
        wait = min(EVERY_S * 2.0 ** min(source.failures, 20), LONGEST_S)
        wait *= self._draw.uniform(0.9, 1.1)
        source.due = max(source.due, now + wait)
        source.failures += 1
        source.reason = reason[:500]

    def _get(self, source: Source) -> tuple[bytes, dict[str, str]] | None:
        """Bytes and headers; None if the server says that nothing has changed."""
        httpx = _httpx()
        if self._client is None:
            self._client = httpx.Client(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False)
        address, for_good = source.moved or source.address, True
        seen: set[str] = set()
        for _ in range(MAX_REDIRECTS + 1):
            if address in seen:
                raise _Refused(f"redirects in a circle, at {address}")
            seen.add(address)
            try:
                status, headers, content = self._ask(address, source)
            except httpx.HTTPError as error:
                raise _Refused(f"{address}: {type(error).__name__}: {error}"[:500]) from error
            if status in _MOVED and headers.get("location"):
                address = urljoin(address, headers["location"])
                for_good &= status in _FOR_GOOD
                continue
            self._judge(status, headers, source)
            if for_good and address != source.address:
                source.moved = address
            return None if status == 304 else (content, headers)
        raise _Refused(f"more than {MAX_REDIRECTS} redirects, the last to {address:.200}")

    def _judge(self, status: int, headers: dict[str, str], source: Source) -> None:
        """Refuse answers that are no feed."""
        if status in (200, 203, 226, 304):
            return
        if status == 410:
            source.gone = True
            raise _Refused("410: gone for good; it is not asked again")
        wait = _retry_after(headers.get("retry-after", ""), self._clock())
        if wait:
            source.due = self._clock() + min(wait, LONGEST_S)
        raise _Refused(f"the server answers {status}")

    def _ask(self, address: str, source: Source) -> tuple[int, dict[str, str], bytes]:
        """One request: status, headers, and the body if it is a feed's."""
        parts = urlsplit(address)
        host = parts.hostname
        if parts.scheme not in ("http", "https") or not host:
            raise _Refused(f"{address:.200} is no http or https address")
        self._space(host)
        target, extensions = self._resolved(address, parts)
        headers = {"User-Agent": AGENT, "Accept": ACCEPT, "Host": parts.netloc.rpartition("@")[2]}
        if source.etag:
            headers["If-None-Match"] = source.etag
        if source.modified:
            headers["If-Modified-Since"] = source.modified
        end = time.monotonic() + WHOLE_S
        with self._client.stream("GET", target, headers=headers, extensions=extensions) as answer:
            got = {name.lower(): value for name, value in answer.headers.items()}
            if answer.status_code not in (200, 203, 226):
                return answer.status_code, got, b""
            content = bytearray()
            for chunk in answer.iter_bytes(65_536):
                content += chunk
                if len(content) > MAX_BYTES:
                    raise _Refused(f"more than {MAX_BYTES:,} bytes")
                if time.monotonic() > end:
                    raise _Refused(f"not complete after {WHOLE_S:g} s")
            got.pop("content-encoding", None)  # it is decoded
            return answer.status_code, got, bytes(content)

    def _space(self, host: str) -> None:
        """Wait until a host may be asked again."""
        now = self._clock()
        wait = self._asked.get(host, 0.0) + HOST_DELAY_S - now
        if wait > 0:
            self._sleep(min(wait, HOST_DELAY_S))
        self._asked[host] = now + max(wait, 0.0)

    def _resolved(self, address: str, parts: Any) -> tuple[str, dict[str, str]]:
        """The address with a checked number for its host; the name is kept for TLS."""
        host = parts.hostname
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise _Refused(f"unknown host {host:.200}: {error}") from error
        numbers = [str(row[4][0]) for row in rows]
        fine = [n for n in numbers if self._private or ipaddress.ip_address(n).is_global]
        if not fine or len(fine) != len(numbers):
            raise _Refused(f"{host:.200} is an address of a private network")
        number = f"[{fine[0]}]" if ":" in fine[0] else fine[0]
        target = parts._replace(netloc=f"{number}:{port}", fragment="").geturl()
        return target, {"sni_hostname": host}

    # folders ---------------------------------------------------------------------------------

    def _folder(self, source: Source) -> Feed:
        """All feed files of a folder that changed, or one file, as one feed."""
        where = Path(source.address)
        if not where.exists():
            raise InvalidValue(f"{source.address!r:.200} is no http address, file or folder")
        paths = [where]
        if where.is_dir():
            paths = sorted(p for p in where.rglob("*") if p.suffix.lower() in FILES)[:MAX_FILES]
        merged = Feed(title=where.name)
        for path in paths:
            self._file(path, merged)
        return merged

    def _file(self, path: Path, merged: Feed) -> None:
        """Add a file to a feed, unless it is as it was."""
        try:
            about = path.lstat()
            if not stat.S_ISREG(about.st_mode):
                raise OSError("no regular file")
            if self._read.get(path) == (about.st_mtime_ns, about.st_size):
                return
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            merged.dead_letters.append(DeadLetter(str(path), f"cannot be read: {error}", ""))
            return
        self._read[path] = about.st_mtime_ns, about.st_size
        moment = datetime.fromtimestamp(self._clock(), UTC)
        feed = self.reader.read(content, str(path), None, moment)
        merged.messages += feed.messages
        merged.dead_letters += feed.dead_letters
        merged.duplicates += feed.duplicates


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise GermaneError("fetching needs httpx: pip install 'germane[agent]'") from error
    return httpx


def _retry_after(text: str, now: float) -> float:
    """Seconds that a server wants to be left alone."""
    if text.isdigit() and len(text) < 10:
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return 0.0
