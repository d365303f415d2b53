"""``Fetcher``: gets feeds from the web and from folders, politely, and hands out new messages.

In: addresses (http, https) or folders of feed files. Out: ``Feed``s with messages that were not
there before, and dead letters. What is known of an address (its ETag, when it may be asked again,
how often it failed) is a plain dict that a caller may keep anywhere, as JSON.

Polite: a server is asked for what changed only (ETag, If-Modified-Since), one request a second and
host, under a name that says who asks; Retry-After is kept to; after a failure the wait doubles,
from 15 minutes to a day, with some jitter; an address that is gone for good is not asked again.
Careful: sizes, times and redirects are bounded (``exchange``); whatever one server answers, it
costs that feed only. A redirect for good is followed at once from then on, until it fails a few
times. What an address said of its feed's version is told to that address only.
"""

import random
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from germane.agent.exchange import Answer, Exchange, Refused
from germane.agent.feeds import MAX_BYTES, DeadLetter, Feed, Reader
from germane.model import InvalidValue

__all__ = ["Fetcher", "Source"]

AGENT = "germane/0.1 (feed fetcher; asks for changes only)"
ACCEPT = "application/atom+xml, application/rss+xml, application/xml;q=0.9, */*;q=0.5"
WHOLE_S = 30.0  # of a whole feed, with its redirects
MAX_REDIRECTS = 5
MOVED_TRIES = 3  # failures after which an address is asked for where it leads again
HOST_DELAY_S = 1.0
EVERY_S = 900.0
LONGEST_S = 86_400.0
FILES = (".xml", ".rss", ".atom", ".rdf", ".cdf", ".feed")
MAX_FILES = 10_000
_MOVED = frozenset((301, 302, 303, 307, 308))
_FOR_GOOD = frozenset((301, 308))


@dataclass
class Source:
    """What is known of an address."""

    address: str
    moved: str = ""  # for good, to here
    etag: str = ""
    modified: str = ""
    version_of: str = ""  # the address that sent these two
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
        self.sources = {source.address: source for source in map(_source, sources)}
        self._exchange = Exchange(private)
        self._clock, self._sleep = clock, sleep
        self._draw = random.Random(seed)
        self._asked: dict[str, float] = {}  # host -> when
        self._read: dict[Path, tuple[int, int]] = {}  # files, as they were

    def state(self) -> list[dict[str, Any]]:
        """What is known of all addresses, as plain JSON."""
        return [asdict(source) for source in self.sources.values()]

    def due(self, address: str) -> float:
        """Seconds until an address may be asked; never is infinite."""
        source = self.sources.get(address)
        if source is None:
            return 0.0
        return float("inf") if source.gone else max(0.0, source.due - self._clock())

    def check(self, address: str) -> None:
        """Raise unless an address is of the web, or a file or folder that is there."""
        if not _is_web(address) and not Path(address).exists():
            raise InvalidValue(f"{address!r:.200} is no http address, file or folder")

    def fetch(self, address: str) -> Feed:
        """What is new at an address or in a folder; nothing if it is not due."""
        if self.due(address) > 0:
            return Feed()
        source = self.sources.setdefault(address, Source(address))
        return self._fetch(source) if _is_web(address) else self._folder(source)

    @contextmanager
    def handed_out(self, address: str) -> Iterator[Feed]:
        """What is new there; where the block fails that it is for, it is still new after it."""
        if self.due(address) > 0:
            yield Feed()
            return
        seen, read, source = self.reader.seen.copy(), dict(self._read), self.sources.get(address)
        before = None if source is None else replace(source)
        try:
            yield self.fetch(address)
        except BaseException:
            self.reader.seen.become(seen)
            self._read = read
            if before is None:
                self.sources.pop(address, None)
            else:
                self.sources[address] = before
            raise

    def close(self) -> None:
        """Nothing: between fetches nothing is open; for callers that close what they made."""

    # the web ---------------------------------------------------------------------------------

    def _fetch(self, source: Source) -> Feed:
        now = self._clock()
        try:
            answer, address, for_good = self._follow(source)
            self._judge(answer, source, for_good)
        except Refused as error:
            self._wait(source, str(error), now)
            return Feed(dead_letters=[DeadLetter(source.address, str(error), "")])
        feed = Feed()
        if answer.status != 304:
            headers = {**answer.headers, "content-location": address}
            moment = datetime.fromtimestamp(now, UTC)
            feed = self.reader.read(answer.content, source.address, headers, moment)
            if feed.dead_letters and not (feed.messages or feed.duplicates or feed.empty):
                self._wait(source, feed.dead_letters[0].reason, now)
                return feed
            source.etag = _printable(answer.headers.get("etag", ""))
            source.modified = _printable(answer.headers.get("last-modified", ""))
            source.version_of = address
        if for_good and address != source.address:
            source.moved = address
        source.failures, source.reason, source.due = 0, "", now + EVERY_S
        return feed

    def _wait(self, source: Source, reason: str, now: float) -> None:
        """The next try comes later with every failure; a server's own wish may be later still."""
        wait = min(EVERY_S * 2.0 ** min(source.failures, 20), LONGEST_S)
        wait *= self._draw.uniform(0.9, 1.1)
        source.due = max(source.due, now + wait)
        source.failures += 1
        source.reason = reason[:500]
        if source.failures >= MOVED_TRIES:
            source.moved = ""

    def _follow(self, source: Source) -> tuple[Answer, str, bool]:
        """The answer at the end of all redirects, its address, and whether all are for good."""
        end = time.monotonic() + WHOLE_S
        address, for_good = source.moved or source.address, True
        seen: set[str] = set()
        for _ in range(MAX_REDIRECTS + 1):
            if address in seen:
                raise Refused(f"redirects in a circle, at {address:.200}")
            seen.add(address)
            answer = self._ask(address, source, end)
            if answer.status not in _MOVED or not answer.headers.get("location"):
                return answer, address, for_good
            for_good &= answer.status in _FOR_GOOD
            address = _joined(address, answer.headers["location"])
        raise Refused(f"more than {MAX_REDIRECTS} redirects, the last to {address:.200}")

    def _judge(self, answer: Answer, source: Source, for_good: bool) -> None:
        """Refuse answers that are no feed."""
        if answer.status in (200, 203, 226, 304):
            return
        if answer.status == 410 and source.moved:  # what led there may lead elsewhere by now
            source.moved = ""
            raise Refused(f"the server answers 410; {source.address:.200} is asked again")
        if answer.status == 410 and for_good:
            source.gone = True
            raise Refused("410: gone for good; it is not asked again")
        wait = _retry_after(answer.headers.get("retry-after", ""), self._clock())
        if wait:
            source.due = self._clock() + min(wait, LONGEST_S)
        raise Refused(f"the server answers {answer.status}")

    def _ask(self, address: str, source: Source, end: float) -> Answer:
        """One request; for changes only, where the version that is known came from."""
        self._space(_host(address))
        headers = {"User-Agent": AGENT, "Accept": ACCEPT}
        known = address == source.version_of
        if known and source.etag:
            headers["If-None-Match"] = source.etag
        if known and source.modified:
            headers["If-Modified-Since"] = source.modified
        answer = self._exchange.ask(address, headers, MAX_BYTES, end)
        if answer.status == 304 and len(headers) == 2:
            raise Refused("the server answers 304 (not changed), and was not asked for changes")
        return answer

    def _space(self, host: str) -> None:
        """Wait until a host may be asked again."""
        now = self._clock()
        wait = self._asked.get(host, 0.0) + HOST_DELAY_S - now
        if wait > 0:
            self._sleep(min(wait, HOST_DELAY_S))
        self._asked[host] = now + max(wait, 0.0)

    # folders ---------------------------------------------------------------------------------

    def _folder(self, source: Source) -> Feed:
        """All feed files of a folder that changed, or one file, as one feed."""
        self.check(source.address)
        where = Path(source.address)
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


def _is_web(address: str) -> bool:
    return address.lower().startswith(("http:", "https:"))


def _host(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _joined(address: str, location: str) -> str:
    try:
        return urljoin(address, location)
    except ValueError as error:
        raise Refused(f"redirects to {location!r:.200}, which is no address: {error}") from error


def _printable(version: str) -> str:
    """An ETag or a date that can be sent back as it came; else none."""
    return version if version.isascii() and version.isprintable() and len(version) < 1_000 else ""


def _source(row: Any) -> Source:
    """What is known of an address, as ``Fetcher.state`` gave it."""
    kinds: dict[str, Any] = {each.name: each.type for each in fields(Source)}
    if not isinstance(row, dict) or not isinstance(row.get("address"), str):
        raise InvalidValue(f"{row!r:.200} is no source; a source is a dict with an address")
    for name, value in row.items():
        if name not in kinds:
            raise InvalidValue(f"source {row['address']!r:.200} has an unknown field {name!r:.50}")
        fine = isinstance(value, (int, float) if kinds[name] is float else kinds[name])
        if not fine:
            raise InvalidValue(f"source {row['address']!r:.200}: {name} is {value!r:.100}")
    source = Source(**row)
    source.etag, source.modified = _printable(source.etag), _printable(source.modified)
    return source


def _retry_after(text: str, now: float) -> float:
    """Seconds that a server wants to be left alone."""
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (IndexError, TypeError, ValueError, OverflowError):
        return 0.0
