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

of which those that are not known are left out: they are NULL. All text is plain (``text.plain``)
but ids, which are as they came; links are http or https. Nothing is fetched here.
"""

import hashlib
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from germane.agent.decoding import as_utf8, text_of
from germane.agent.gazetteer import Gazetteer
from germane.agent.names import Names
from germane.agent.text import document_of, one_line, plain
from germane.category import ContentGraph
from germane.model import GermaneError, InvalidValue

__all__ = ["DeadLetter", "Feed", "Reader", "Seen"]

MAX_BYTES = 5 << 20
MAX_ENTRIES = 2_000
MOST_TOPICS = 8
TITLE, TEXT, SHORT = 300, 50_000, 200  # characters
ID = 1_000  # characters; of a longer id, the first ones and a digest of all
OLDEST = datetime(1990, 1, 1, tzinfo=UTC)
AHEAD = timedelta(days=1)
ENOUGH_TEXT = 40  # characters that tell entries apart
RAW = 2_000  # characters of a dead letter
_ROOT = re.compile(rb"<(!doctype html|html|rss|feed|channel|[\w.-]{1,99}:rdf)\b")


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
    empty: bool = False  # a feed that has no entries now, as that of alerts on most days


class Seen:
    """Keys of entries that were taken; the ones that were not met for longest are forgotten.

    An entry's own keys tell it from all others. Stories are keys with the source that had them
    first: another source repeats a story, while the same one may tell two alike, of two events.
    """

    def __init__(self, most: int = 200_000, keys: Iterable[str] = ()) -> None:
        self._most = most
        parts = (key.partition(":") for key in keys)
        self._keys = {key: source for key, _, source in parts}

    def meet(self, keys: list[str], stories: Iterable[str] = (), source: str = "") -> bool:
        """Whether a key is known, or a story from another source; from now on, all are."""
        stories = list(stories)
        known = any(key in self._keys for key in keys)
        known = known or any(self._keys.get(key, source) != source for key in stories)
        for key in keys:
            self._keys[key] = self._keys.pop(key, "")  # the youngest
        for key in stories:
            self._keys[key] = self._keys.pop(key, source)
        while len(self._keys) > self._most:
            del self._keys[next(iter(self._keys))]
        return known

    def copy(self) -> "Seen":
        """Another one that knows the same."""
        other = Seen(self._most)
        other._keys = dict(self._keys)
        return other

    def become(self, other: "Seen") -> None:
        """Know what another one knows, and no more."""
        self._keys = dict(other._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def state(self) -> list[str]:
        """All keys, the oldest first: plain JSON, for the constructor."""
        return [f"{key}:{source}" if source else key for key, source in self._keys.items()]


class _About(NamedTuple):
    """What all entries of a feed have in common."""

    source: str
    title: str
    language: str
    base: str  # the address it was fetched from
    now: datetime


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
        """Messages of a feed's bytes; ``headers`` are those it came with, for its encoding.

        Links are relative to the header ``content-location``: the address that the feed is from.
        """
        feed = Feed()
        reason = _refusal(content)
        parsed: Any = None
        if reason is None:
            try:
                parsed = _parse(content, headers)
            except InvalidValue as error:
                reason = str(error)
            except Exception as error:  # whatever a parser of broken feeds may raise
                reason = f"the parser gave up: {type(error).__name__}: {error}"
        if parsed is not None:
            feed.title = plain(_text(parsed.feed, "title"), TITLE)
            if not parsed.entries:
                feed.empty = bool(parsed.version) and not _is_page(content)
                reason = _broken(parsed) if feed.empty else _no_feed(content, parsed)
        if reason is not None:
            feed.dead_letters.append(_letter(source, reason, content))
        if reason is not None or feed.empty:
            return feed
        about = _About(
            source=source,
            title=plain(_text(parsed.feed, "title"), SHORT),
            language=plain(_text(parsed.feed, "language"), 35),
            base=(headers or {}).get("content-location", ""),
            now=now or datetime.now(UTC),
        )
        for entry in parsed.entries[:MAX_ENTRIES]:
            self._take(feed, entry, about)
        if len(parsed.entries) > MAX_ENTRIES:
            more = len(parsed.entries) - MAX_ENTRIES
            reason = f"{more:,} entries after the first {MAX_ENTRIES:,} were left out"
            feed.dead_letters.append(DeadLetter(source, reason, ""))
        return feed

    def _take(self, feed: Feed, entry: Any, about: "_About") -> None:
        """Make one entry a message, a duplicate or a dead letter."""
        source = about.source
        try:
            message = self._message(entry, about)
        except Exception as error:  # feedparser's values are as odd as what it reads
            reason = f"an entry that cannot be read: {type(error).__name__}: {error}"
            feed.dead_letters.append(DeadLetter(source, reason, repr(entry)[:RAW]))
            return
        if message is None:
            reason = "an entry without title, text and link"
            feed.dead_letters.append(DeadLetter(source, reason, repr(entry)[:RAW]))
        elif self.seen.meet(_keys(message, source), _stories(message), _digest(source)):
            feed.duplicates += 1
        else:
            feed.messages.append(message)

    def _message(self, entry: Any, about: "_About") -> dict[str, Any] | None:
        title, text = plain(_text(entry, "title"), TITLE), plain(_body(entry), TEXT)
        link = _link(_joined(about.base, entry))
        if not (title or text or link):
            return None
        title = title or plain(text, 80) or link
        categories = [plain(term, SHORT) for term in _categories(entry)]
        author = plain(_text(entry, "author"), SHORT)
        position = _position(entry)
        parts = [("title", title), ("text", text), ("author", author)]
        message = {
            "id": _id(_text(entry, "id")) or link or _digest(*_folded(title, text)),
            "title": title,
            "document": document_of(parts + [("category", term) for term in categories]),
            "topic": self._topic(categories, title, text),
            "place": self._place(entry, position, title, text),
            "position": position,
            "published": _published(entry, about.now),
            "link": link,
            "source": about.title or about.source,
            "author": author,
            "language": about.language,
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
    known = {"content-type": "application/xml; charset=utf-8"}
    if headers and "content-language" in headers:
        known["content-language"] = headers["content-language"]
    # in a file object, since bytes could be taken for an address, or a path; markup is left as it
    # is, since ``plain`` makes text of it, in linear time
    return feedparser.parse(
        io.BytesIO(as_utf8(text_of(content, headers))),
        response_headers=known,
        sanitize_html=False,
        resolve_relative_uris=False,
    )


def _refusal(content: bytes) -> str | None:
    """Why bytes are not even looked at."""
    if not content.strip():
        return "empty"
    if len(content) > MAX_BYTES:
        return f"{len(content):,} bytes; a feed has at most {MAX_BYTES:,}"
    return None


def _no_feed(content: bytes, parsed: Any) -> str:
    """Why what was read is no feed."""
    if _is_page(content):
        return 'a page of HTML, and no feed; look for its <link rel="alternate">'
    problem = parsed.get("bozo_exception")
    return f"no feed: {problem}" if problem else "no feed that is known (RSS, Atom, RDF, CDF)"


def _is_page(content: bytes) -> bool:
    """Whether it is HTML; even with a version, since a page may declare the namespace of Atom."""
    root = _ROOT.search(content[:2_000].lower())
    return root is not None and root[1].endswith(b"html")


def _broken(parsed: Any) -> str | None:
    """Why a feed without entries may have had some; none if it is well-formed."""
    problem = parsed.get("bozo_exception")
    return f"a feed without entries, that is broken: {problem}" if problem else None


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


def _joined(base: str, entry: Any) -> str:
    """An entry's link, relative to where its feed is from; an id that is no address is no link."""
    link = _text(entry, "link").strip()
    if entry.get("guidislink") and link == _text(entry, "id").strip():
        return link
    try:
        return urljoin(base, link) if base and link else link
    except ValueError:
        return ""


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
        try:
            points = [(float(entry["geo_lat"]), float(entry["geo_long"]))]
        except ValueError:  # "42,36"
            return None
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


def _id(text: str) -> str:
    """An entry's own id, as it is: it may look like a tag, and case may be all it differs by."""
    text = one_line(text)
    digest = f"…{_digest(text)}"
    return text if len(text) <= ID else text[: ID - len(digest)] + digest


def _digest(*texts: str) -> str:
    return hashlib.blake2b("\n".join(texts).encode("utf-8", "replace"), digest_size=12).hexdigest()


def _folded(*texts: str) -> list[str]:
    """What is said, as it is compared: without case, which ids and links are not."""
    return [text.casefold() for text in texts]


def _keys(message: Mapping[str, Any], source: str) -> list[str]:
    """What tells an entry from others: its id in its feed; its link, where that is its id.

    Some feeds make up new ids all the time: what has the same link, text and date, too, is known.
    """
    keys = [_digest("id", source, message["id"])]
    if message["id"] == message.get("link"):
        keys.append(_digest("link", message["link"]))
    if "link" in message and "published" in message:
        said = _folded(message["title"], message["document"])
        at = message["published"].isoformat()
        keys.append(_digest("entry", source, message["link"], *said, at))
    return keys


def _stories(message: Mapping[str, Any]) -> list[str]:
    """What other feeds repeat: a link with its title, and a text."""
    stories = []
    title, document = _folded(message["title"], message["document"])
    if "link" in message:
        stories.append(_digest("story", message["link"], title))
    if len(message["document"]) > ENOUGH_TEXT + len("<entry><title></title></entry>"):
        stories.append(_digest("text", title, document))
    return stories
