"""Markup of strangers -> plain text, and plain text -> a well-formed document.

In: titles and bodies as feeds have them: HTML, HTML in HTML, text with stray signs, scripts. Out:
text without tags, control characters and runs of white space, not longer than asked for. Scripts
and styles go with all they contain. It is still text, to be escaped wherever it is shown: "a < b"
stays what it is.
"""

import re
from html import unescape
from html.parser import HTMLParser
from xml.sax.saxutils import escape

__all__ = ["document_of", "plain"]

MAX_MARKUP = 1 << 20  # characters that are looked at
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,1000}>|<!--.{0,10000}?-->|<!\[CDATA\[|\]\]>", re.DOTALL)
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DIRECTIONS = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_HIDDEN = frozenset(("script", "style", "template", "noscript", "iframe", "object", "svg", "math"))
_BREAKS = frozenset("p br div li tr td th h1 h2 h3 h4 h5 h6 blockquote pre dt dd".split())


class _Text(HTMLParser):
    """Gathers the text between tags."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._hidden: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in _HIDDEN:
            self._hidden.append(tag)
        elif tag in _BREAKS:
            self.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._hidden:
            del self._hidden[self._hidden.index(tag) :]
        elif tag in _BREAKS:
            self.parts.append(" ")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)


def plain(markup: str, most: int) -> str:
    """The text of markup, in at most so many characters.

    >>> plain("<b>Snow</b> &amp; ice<script>alert(1)</script>", 100)
    'Snow & ice'
    """
    text = markup[:MAX_MARKUP]
    if "<" in text or "&" in text:
        parser = _Text()
        parser.feed(text)
        parser.close()
        text = "".join(parser.parts)
        if "&" in text or "<" in text:  # it was escaped twice
            text = _TAG.sub(" ", unescape(text))
    text = _DIRECTIONS.sub("", _NO_XML.sub(" ", text))
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def document_of(parts: list[tuple[str, str]]) -> str:
    """A well-formed document of elements and their texts.

    >>> document_of([("title", "a < b")])
    '<entry><title>a &lt; b</title></entry>'
    """
    inside = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in parts if text)
    return f"<entry>{inside}</entry>"
