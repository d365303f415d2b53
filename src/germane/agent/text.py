"""Markup of strangers -> plain text, and plain text -> a well-formed document.

In: titles and bodies as feeds have them: HTML, HTML in HTML, text with stray signs, scripts. Out:
text without tags, control characters and runs of white space, not longer than asked for. Scripts
and styles go with all they contain. It is still text, to be escaped wherever it is shown: "a < b"
stays what it is. The time is linear in the length, whatever the markup.
"""

import re
from html import unescape
from xml.sax.saxutils import escape

__all__ = ["characters", "document_of", "one_line", "plain"]

MAX_MARKUP = 1 << 20  # characters that are looked at
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,1000}>|<!\[CDATA\[|\]\]>")
_OPEN = re.compile(r"<(?:[!?/]|(?=[a-zA-Z]))")
_NAME = re.compile(r"[a-zA-Z][^\s/>]*")
_INSIDE = re.compile(r""">|=\s*["']""")  # what matters in a tag
_LONG = re.compile(r"&#(?:[0-9]{8,}|[xX][0-9a-fA-F]{8,});?")
_RAW = {name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style")}
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DIRECTIONS = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_HIDDEN = frozenset(("script", "style", "template", "noscript", "svg", "math"))
_BREAKS = frozenset("p br div li tr td th h1 h2 h3 h4 h5 h6 blockquote pre dt dd".split())


class _Text:
    """Walks through markup once, and gathers the text between tags.

    What was found nowhere behind a place is not looked for again, and a tag whose quotes swallow
    all the rest makes quotes count no longer: so the time is linear in the length.
    """

    def __init__(self, markup: str) -> None:
        self._markup = markup
        self._parts: list[str] = []
        self._hidden = ""  # the outermost element whose text does not count
        self._missing: set[str] = set()
        self._quotes = True

    def gather(self) -> str:
        at, markup = 0, self._markup
        while (start := markup.find("<", at)) >= 0:
            self._data(markup[at:start])
            at = self._step(start)
        self._data(markup[at:])
        return "".join(self._parts)

    def _step(self, start: int) -> int:
        """Take what begins with a <; return where it ends."""
        markup = self._markup
        if markup.startswith("<!--", start):
            end = self._find("-->", start + 2)
            return len(markup) if end < 0 else end + 3
        if markup.startswith("<![CDATA[", start):
            return start + len("<![CDATA[")
        opened = _OPEN.match(markup, start)
        end = self._find(">", start) if opened else -1
        if end < 0 or opened is None:
            self._data("<")
            return start + 1
        if opened[0] != "<":
            if opened[0] == "</":
                self._close(markup[start + 2 : min(end, start + 20)].split(None, 1))
            return end + 1
        name = _NAME.match(markup, start + 1)
        assert name is not None
        return self._open(name[0].lower(), self._end_of_tag(name.end(), end))

    def _open(self, name: str, end: int) -> int:
        """Take a start tag that ends there; return where the text goes on."""
        if name in _BREAKS and not self._hidden:
            self._parts.append(" ")
        if name not in _HIDDEN or self._markup[end - 2] == "/":
            return end
        self._hidden = self._hidden or name
        if name not in _RAW:
            return end
        close = _RAW[name].search(self._markup, end)
        return close.start() if close else len(self._markup)

    def _close(self, words: list[str]) -> None:
        name = words[0].lower() if words else ""
        if name == self._hidden:
            self._hidden = ""
        elif name in _BREAKS and not self._hidden:
            self._parts.append(" ")

    def _end_of_tag(self, at: int, first: int) -> int:
        """Where a tag ends: at the first > outside of quotes, else at the first."""
        while self._quotes:
            found = _INSIDE.search(self._markup, at)
            if found is None:
                self._quotes = False
                break
            if found[0] == ">":
                return found.end()
            close = self._find(found[0][-1], found.end())
            at = found.end() if close < 0 else close + 1
        return first + 1

    def _find(self, what: str, start: int) -> int:
        found = -1 if what in self._missing else self._markup.find(what, start)
        if found < 0:
            self._missing.add(what)
        return found

    def _data(self, text: str) -> None:
        if text and not self._hidden:
            self._parts.append(_unescape(text))


def plain(markup: str, most: int) -> str:
    """The text of markup, in at most so many characters.

    >>> plain("<b>Snow</b> &amp; ice<script>alert(1)</script>", 100)
    'Snow & ice'
    """
    text = markup[:MAX_MARKUP]
    if "<" in text or "&" in text:
        text = _Text(text).gather()
        if "&" in text or "<" in text or "]]>" in text:  # it was escaped twice
            text = _TAG.sub(" ", _without_comments(_unescape(text)))
    text = one_line(text)
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def one_line(text: str) -> str:
    """Text without control characters and runs of white space; what looks like markup stays."""
    return " ".join(_DIRECTIONS.sub("", _NO_XML.sub(" ", text)).split())


def characters(text: str) -> str:
    """Text without what XML cannot hold."""
    return _NO_XML.sub(" ", text)


def _unescape(text: str) -> str:
    """Text without references to characters; longer numbers than any has are none."""
    return unescape(_LONG.sub("\ufffd", text)) if "&" in text else text


def _without_comments(text: str) -> str:
    parts, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 2)) >= 0:
        parts.append(text[at:start])
        at = end + 3
    return " ".join([*parts, text[at:]])


def document_of(parts: list[tuple[str, str]]) -> str:
    """A well-formed document of elements and their texts.

    >>> document_of([("title", "a < b")])
    '<entry><title>a &lt; b</title></entry>'
    """
    inside = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in parts if text)
    return f"<entry>{inside}</entry>"
