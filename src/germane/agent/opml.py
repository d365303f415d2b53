"""Lists of feeds: OPML in and out.

In: bytes of OPML, as readers export it. Out: ``Outline`` rows: address, title and folder; and the
way back. Entities and document types are refused, and so are lists with too many feeds; addresses
are http or https.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple
from xml.etree import ElementTree

from germane.agent.decoding import text_of
from germane.agent.feeds import _link
from germane.agent.text import characters, plain
from germane.model import InvalidValue

__all__ = ["Outline", "read_opml", "write_opml"]

MAX_BYTES = 4 << 20
MAX_FEEDS = 20_000
MAX_DEPTH = 50


class Outline(NamedTuple):
    """A feed in a list."""

    address: str
    title: str = ""
    folder: str = ""  # names of folders, with / between


def read_opml(content: bytes) -> list[Outline]:
    """Feeds of a list, each once; what has no address that can be fetched is left out.

    >>> read_opml(b'<opml><body><outline text="News" xmlUrl="https://example.org/a"/></body></opml>')
    [Outline(address='https://example.org/a', title='News', folder='')]
    """
    if len(content) > MAX_BYTES:
        raise InvalidValue(f"OPML of {len(content):,} bytes; at most {MAX_BYTES:,} are read")
    text = text_of(content)  # what is looked through is what is parsed, whatever its encoding
    if "\0" in text:  # a parser might see another encoding there
        raise InvalidValue("no OPML: bytes of no encoding that is said")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InvalidValue("OPML with a document type or entities is not read")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise InvalidValue(f"no OPML: {error}") from error
    if root.tag.lower() != "opml":
        raise InvalidValue(f"no OPML: its root is <{root.tag:.50}>")
    found: dict[str, Outline] = {}
    body = root.find("body")
    todo = deque((child, "", 1) for child in (body if body is not None else ()))
    while todo:
        element, folder, depth = todo.popleft()
        title = plain(element.get("title") or element.get("text") or "", 200)
        address = _link(element.get("xmlUrl") or element.get("xmlurl") or "")
        if address:
            found.setdefault(address, Outline(address, title, folder))
        if len(found) > MAX_FEEDS:
            raise InvalidValue(f"OPML of more than {MAX_FEEDS:,} feeds; split the list")
        if depth < MAX_DEPTH:
            inside = "/".join(filter(None, (folder, title)))
            todo += [(child, inside, depth + 1) for child in element]
    return list(found.values())


def write_opml(feeds: Iterable[Outline], title: str = "Feeds") -> bytes:
    """OPML of feeds, with their folders."""
    root = ElementTree.Element("opml", version="2.0")
    ElementTree.SubElement(ElementTree.SubElement(root, "head"), "title").text = characters(title)
    folders = {"": ElementTree.SubElement(root, "body")}
    for feed in (Outline(*map(characters, feed)) for feed in feeds):
        path = ""
        for name in filter(None, feed.folder.split("/")):
            above, path = folders[path], f"{path}/{name}" if path else name
            if path not in folders:
                folders[path] = ElementTree.SubElement(above, "outline", text=name, title=name)
        name = feed.title or feed.address
        ElementTree.SubElement(
            folders[path], "outline", type="rss", text=name, title=name, xmlUrl=feed.address
        )
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))
