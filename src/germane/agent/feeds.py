"""Feeds -> messages: RSS, Atom, RDF, whatever ``feedparser`` reads; what is none, a dead letter.

In: bytes of a stranger, and where they came from. Out: ``Feed``: messages for the filter, and dead
letters that say what was wrong. A message is a dict of the attributes

    id          the entry's own, or its link, or a digest of what it says
    title       plain text
    document    ``<entry>`` with title, text, author and categories: well-formed XML, for patterns
    topic       nodes of the topic graph: its categories, else names found in title and text
    place       nodes of the place tree: dc:coverage, else GeoRSS, else names found in the text
    position    (latitude, longitude), where GeoRSS says it
    published   a datetime in UTC, unless nobody can believe it
    link, source, author, language

of which those that are not known are left out: they are NULL. All text is plain (``text.plain``),
links are http or https. Nothing is fetched here.
"""

import hashlib
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from germane.agent.gazetteer import Gazetteer
from germane.agent.names import Names
from germane.agent.text import document_of, plain
from germane.category import ContentGraph
from germane.model import GermaneError

__all__ = ["DeadLetter", "Feed", "Reader", "Seen"]

MAX_BYTES = 5 << 20
MAX_ENTRIES = 2_000
MOST_TOPICS = 8
TITLE, TEXT, SHORT = 300, 50_000, 200  # characters
OLDEST = datetime(1990, 1, 1, tzinfo=UTC)
AHEAD = timedelta(days=1)
ENOUGH_TEXT = 40  # characters that tell entries apart
RAW = 2_000  # characters of a dead letter


class DeadLetter(NamedTuple):
    """What could not become a message, and why."""

    source: str
    reason: str
    raw: str  # its beginning


@dataclass
class Feed:
    """What came of a feed."""

    title: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    duplicates: int = 0


class Seen:
    """Keys of entries that were taken; the ones that were not met for longest are forgotten."""

    def __init__(self, most: int = 200_000, keys: Iterable[str] = ()) -> None:
        self._most = most
        self._keys: dict[str, None] = dict.fromkeys(keys)

    def meet(self, keys: list[str]) -> bool:
        """Whether one of an entry's keys is known; from now on, all are."""
        known = any(key in self._keys for key in keys)
        for key in keys:
            self._keys.pop(key, None)
            self._keys[key] = None  # the youngest
        while len(self._keys) > self._most:
            del self._keys[next(iter(self._keys))]
        return known

    def __len__(self) -> int:
        return len(self._keys)

    def state(self) -> list[str]:
        """All keys, the oldest first: plain JSON, for the constructor."""
        return list(self._keys)


class Reader:
    """Turns feeds into messages.

    >>> rss = b"<rss version='2.0'><channel><item><title>Red Sox win</title></item></channel></rss>"
    >>> reader = Reader(topics=ContentGraph.from_edges([("Baseball", "Red Sox")]))
    >>> [(m["title"], m["topic"]) for m in reader.read(rss, "example").messages]
    [('Red Sox win', ['Red Sox'])]
    """

    def __init__(
        self,
        topics: ContentGraph | None = None,
        places: Gazetteer | None = None,
        seen: Seen | None = None,
    ) -> None:
        self._topics = topics
        self._places = places
        self.seen = Seen() if seen is None else seen
        self._words = Names(_topic_names(topics)) if topics is not None else None

    def read(
        self,
        content: bytes,
        source: str,
        headers: Mapping[str, str] | None = None,
        now: datetime | None = None,
    ) -> Feed:
        """Messages of a feed's bytes; ``headers`` are those it came with, for its encoding."""
        feed = Feed()
        reason = _refusal(content)
        parsed: Any = None
        if reason is None:
            try:
                parsed = _parse(content, headers)
            except Exception as error:  # whatever a parser of broken feeds may raise
                reason = f"the parser gave up: {type(error).__name__}: {error}"
        if parsed is not None:
            feed.title = plain(_text(parsed.feed, "title"), TITLE)
            if not parsed.version and not parsed.entries:
                reason = _no_feed(content, parsed)
            elif not parsed.entries:
                reason = "a feed without entries"
        if reason is not None:
            feed.dead_letters.append(_letter(source, reason, content))
            return feed
        for entry in parsed.entries[:MAX_ENTRIES]:
            self._take(feed, entry, parsed, source, now or datetime.now(UTC))
        if len(parsed.entries) > MAX_ENTRIES:
            more = len(parsed.entries) - MAX_ENTRIES
            reason = f"{more:,} entries after the first {MAX_ENTRIES:,} were left out"
            feed.dead_letters.append(DeadLetter(source, reason, ""))
        return feed

    def _take(self, feed: Feed, entry: Any, parsed: Any, source: str, now: datetime) -> None:
        """Make one entry a message, a duplicate or a dead letter."""
        try:
            message = self._message(entry, parsed, source, now)
        except Exception as error:  # feedparser's values are as odd as what it reads
            reason = f"an entry that cannot be read: {type(error).__name__}: {error}"
            feed.dead_letters.append(DeadLetter(source, reason, repr(entry)[:RAW]))
            return
        if message is None:
            reason = "an entry without title, text and link"
            feed.dead_letters.append(DeadLetter(source, reason, repr(entry)[:RAW]))
        elif self.seen.meet(_keys(message, source)):
            feed.duplicates += 1
        else:
            feed.messages.append(message)

    def _message(
        self, entry: Any, parsed: Any, source: str, now: datetime
    ) -> dict[str, Any] | None:
        title, text = plain(_text(entry, "title"), TITLE), plain(_body(entry), TEXT)
        link = _link(_text(entry, "link"))
        if not (title or text or link):
            return None
        title = title or plain(text, 80) or link
        categories = [plain(term, SHORT) for term in _categories(entry)]
        author = plain(_text(entry, "author"), SHORT)
        position = _position(entry)
        parts = [("title", title), ("text", text), ("author", author)]
        message = {
            "id": plain(_text(entry, "id"), 1_000) or link or _digest(title, text),
            "title": title,
            "document": document_of(parts + [("category", term) for term in categories]),
            "topic": self._topic(categories, title, text),
            "place": self._place(entry, position, title, text),
            "position": position,
            "published": _published(entry, now),
            "link": link,
            "source": plain(_text(parsed.feed, "title"), SHORT) or source,
            "author": author,
            "language": plain(_text(parsed.feed, "language"), 35),
        }
        return {name: value for name, value in message.items() if value}

    def _topic(self, categories: list[str], title: str, text: str) -> list[str]:
        """Nodes of an entry's categories; what these do not say, its words may."""
        if self._topics is None or self._words is None:
            return []
        found: dict[str, None] = {}
        for term in categories:
            if term in self._topics.number:
                found[term] = None
            else:  # "Sports/Baseball", "sport: baseball"
                self._from_words(term, found)
        if not found:
            self._from_words(title, found)
        if not found:
            self._from_words(text, found)
        return list(found)[:MOST_TOPICS]

    def _from_words(self, text: str, found: dict[str, None]) -> None:
        assert self._words is not None
        for name in self._words.find(text):
            if len(name.nodes) == 1:  # else nobody knows which is meant
                found[name.nodes[0]] = None

    def _place(
        self, entry: Any, position: tuple[float, float] | None, title: str, text: str
    ) -> list[str]:
        if self._places is None:
            return []
        coverage = plain(_text(entry, "dc_coverage") or _text(entry, "coverage"), SHORT)
        if coverage:
            if coverage in self._places.graph.number:
                return [coverage]
            named = self._places.find(coverage)
            if named:
                return named
        if position is not None:
            near = self._places.near(*position)
            if near is not None:
                return [near]
        return self._places.find(title) or self._places.find(text)


def _topic_names(topics: ContentGraph) -> Iterable[tuple[str, str]]:
    """What topics are called: their names, of paths ("Top/Sports/Baseball") the last part."""
    for name in topics.number:
        yield name.rsplit("/", 1)[-1].replace("_", " ").split(" (")[0], name


def _parse(content: bytes, headers: Mapping[str, str] | None) -> Any:
    try:
        import feedparser
    except ImportError as error:
        raise GermaneError("feeds need feedparser: pip install 'germane[agent]'") from error
    # in a file object, since bytes could be taken for an address, or a path
    return feedparser.parse(io.BytesIO(content), response_headers=dict(headers or {}))


def _refusal(content: bytes) -> str | None:
    """Why bytes are not even looked at."""
    if not content.strip():
        return "empty"
    if len(content) > MAX_BYTES:
        return f"{len(content):,} bytes; a feed has at most {MAX_BYTES:,}"
    return None


def _no_feed(content: bytes, parsed: Any) -> str:
    """Why what was read is no feed."""
    start = content[:2_000].lower()
    if b"<html" in start or b"<!doctype html" in start:
        return 'a page of HTML, and no feed; look for its <link rel="alternate">'
    problem = parsed.get("bozo_exception")
    return f"no feed: {problem}" if problem else "no feed that is known (RSS, Atom, RDF, CDF)"


def _letter(source: str, reason: str, content: bytes) -> DeadLetter:
    return DeadLetter(source, reason[:RAW], content[:RAW].decode("utf-8", "replace"))


def _text(mapping: Any, name: str) -> str:
    value = mapping.get(name)
    return value if isinstance(value, str) else ""


def _body(entry: Any) -> str:
    """The longest of what an entry says."""
    texts = [_text(part, "value") for part in entry.get("content") or [] if hasattr(part, "get")]
    return max([*texts, _text(entry, "summary"), _text(entry, "description")], key=len)


def _categories(entry: Any) -> list[str]:
    tags = [tag for tag in entry.get("tags") or [] if hasattr(tag, "get")]
    terms = [_text(tag, "term") or _text(tag, "label") for tag in tags]
    return list(dict.fromkeys(term.strip() for term in terms if term.strip()))[: 2 * MOST_TOPICS]


def _link(address: str) -> str:
    """An address that a browser may follow; else none."""
    address = address.strip()
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    fine = parts.scheme in ("http", "https") and bool(parts.hostname) and len(address) < 2_000
    return address if fine and not any(c in address for c in " <>\"'\n\r\t") else ""


def _position(entry: Any) -> tuple[float, float] | None:
    """Latitude and longitude of GeoRSS or W3C's geo; of a line or an area, the middle."""
    where = entry.get("where")
    points: list[tuple[float, float]] = []
    if hasattr(where, "get") and where.get("coordinates"):
        points = [(y, x) for x, y in _pairs(where["coordinates"])]
    elif _text(entry, "geo_lat") and _text(entry, "geo_long"):
        points = [(float(entry["geo_lat"]), float(entry["geo_long"]))]
    if not points:
        return None
    latitude, longitude = (sum(values) / len(points) for values in zip(*points, strict=True))
    if not (abs(latitude) <= 90 and abs(longitude) <= 180):
        return None
    return round(latitude, 6), round(longitude, 6)


def _pairs(coordinates: Any) -> list[tuple[float, float]]:
    """All (x, y) of coordinates that may be nested."""
    if coordinates and isinstance(coordinates[0], int | float):
        return [(float(coordinates[0]), float(coordinates[1]))]
    return [pair for part in coordinates for pair in _pairs(part)]


def _published(entry: Any, now: datetime) -> datetime | None:
    """When an entry came out; nothing where that is beyond belief, as 1900 or 3000."""
    for name in ("published_parsed", "updated_parsed", "created_parsed"):
        moment = dict.get(entry, name)  # its own get takes one date for another, and warns
        if moment is None:
            continue
        try:
            year, month, day, hour, minute, second = (int(part) for part in moment[:6])
            at = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
        except (TypeError, ValueError, OverflowError):
            continue
        if OLDEST <= at <= now + AHEAD:
            return at
    return None


def _digest(*texts: str) -> str:
    return hashlib.blake2b("\n".join(texts).casefold().encode(), digest_size=12).hexdigest()


def _keys(message: Mapping[str, Any], source: str) -> list[str]:
    """What tells an entry from others: its id in its feed, its link, what it says."""
    keys = [_digest("id", source, message["id"])]
    if "link" in message:
        keys.append(_digest("link", message["link"]))
    if len(message["document"]) > ENOUGH_TEXT + len("<entry><title></title></entry>"):
        keys.append(_digest("text", message["title"], message["document"]))
    return keys
