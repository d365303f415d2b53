"""Bytes of a stranger -> text that a parser of feeds reads in linear time.

In: bytes, and the headers they came with. Out: the text, in the encoding that its first bytes, its
headers or its declaration say, or else in one that fits; and UTF-8 for the parser, with a
declaration that is true, without references to what is no character, and from the first element
on: a document type would declare entities, which parsers expand without bound. What stands before
the first element is bounded all the same: no feed has much there. So are the attributes of an
element, since ``feedparser`` looks for each among all of them.
"""

import codecs
import re
from collections.abc import Mapping

from germane.model import InvalidValue

__all__ = ["as_utf8", "text_of"]

MAX_HEAD = 32_000  # characters before the first element: a document type with its entities
MAX_ATTRIBUTES = 250  # of one element, with its namespaces
DECLARATION = "<?xml version='1.0' encoding='utf-8'?>\n"
_STARTS = (
    (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_BE, "utf-16"), (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (b"\0\0\0<", "utf-32-be"), (b"<\0\0\0", "utf-32-le"),
    (b"\0<\0?", "utf-16-be"), (b"<\0?\0", "utf-16-le"),
)  # fmt: skip
_NO_ENCODINGS = frozenset(  # those of Python that no feed has, and that take long
    codecs.lookup(name).name  # as it is spelled there
    for name in ("idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "utf-7")
)
_WIDE = ("utf-16", "utf-32")
_DECLARED = re.compile(rb"\s{0,100}<\?xml[^>]{0,200}?encoding\s{0,9}=\s{0,9}[\"']([\w.:-]{1,40})")
_CHARSET = re.compile(r"charset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_REFERENCE = re.compile(r"&#(?:[xX]([0-9a-fA-F]+)|([0-9]+));?")
_RUN = re.compile(r"[A-Za-z0-9_.+-]{2000}")  # no word and no link; parsers look there for e-mail
_ELEMENT = re.compile(r"<[A-Za-z0-9_]")
_ASIDE = r"<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)"  # comments and instructions
_OUTSIDE = re.compile(_ASIDE + r"|<!|<[A-Za-z0-9_]", re.DOTALL)
_INSIDE = re.compile(_ASIDE + r"|\"[^\"]*(?:\"|\Z)|'[^']*(?:'|\Z)|[][<>]", re.DOTALL)
_ATTRIBUTE = r"[ \t\r\n]+[^ \t\r\n<>\"'=]+[ \t\r\n]*=[ \t\r\n]*(?:\"[^\"<]*\"|'[^'<]*')"
_CROWDED = re.compile(  # only there group 1 is: what looks like a tag in what is aside, is none
    rf"<(?:!--.*?(?:-->|\Z)|!\[CDATA\[.*?(?:\]\]>|\Z)|\?.*?(?:\?>|\Z)"
    rf"|([^ \t\r\n<>\"'=!?/]+)(?:{_ATTRIBUTE}){{{MAX_ATTRIBUTES + 1}}})",
    re.DOTALL,
)


def text_of(content: bytes, headers: Mapping[str, str] | None = None) -> str:
    """The text of a feed's bytes.

    >>> text_of(b"<?xml version='1.0' encoding='latin-1'?><a>Z\\xfcrich</a>")[-10:]
    'Zürich</a>'
    """
    start = next((name for start, name in _STARTS if content.startswith(start)), "")
    charset = _CHARSET.search((headers or {}).get("content-type", "")[:1_000])
    declared = _DECLARED.match(content)
    said = charset.group(1) if charset else "", declared.group(1).decode() if declared else ""
    for name in (start, *said, "utf-8", "cp1252"):
        text = _decode(content, name)
        if text is not None:
            return text
    return content.decode("latin-1")


def _decode(content: bytes, name: str) -> str | None:
    """Text, if bytes are in an encoding that is known, and that they can be in."""
    if not name:
        return None
    try:
        found = codecs.lookup("gb18030" if name.lower() == "gb2312" else name).name
        narrow = b"\0" not in content[:4]
        if found in _NO_ENCODINGS or (narrow and found.startswith(_WIDE)):
            return None
        return content.decode(found)
    except (LookupError, ValueError):
        return None


def as_utf8(text: str) -> bytes:
    """What a parser is given; raises ``InvalidValue`` if no parser should be.

    That is if the first element comes late, or if one has too many attributes.
    """
    text = text.lstrip("\ufeff\0 \t\r\n")
    if text.startswith("<?xml") and text.find("?>", 0, 1_000) > 0:
        text = text[text.find("?>") + 2 :]
    at = _first_element(text)
    n = sum(len(line.strip()) for line in text[:at].splitlines())
    if n > MAX_HEAD:
        raise InvalidValue(f"{n:,} characters before the first element; {MAX_HEAD:,} are the most")
    body = _RUN.sub("\\g<0>\u200b", _REFERENCE.sub(_fine, text[at:]))
    name = _crowded(body)
    if name:
        raise InvalidValue(f"<{name:.50}> has more than {MAX_ATTRIBUTES} attributes")
    return (DECLARATION + body).encode("utf-8", "replace")


def _first_element(text: str) -> int:
    """Where the first element begins that is in no comment and no declaration.

    Where these do not end, it is the first thing that looks like one. Every sign is looked at once.
    """
    at = depth = 0
    while found := (_INSIDE if depth else _OUTSIDE).search(text, at):
        sign, at = found[0], found.end()
        if sign in ("<!", "<", "["):
            depth += 1
        elif sign in (">", "]"):
            depth -= 1
        elif _ELEMENT.match(sign):
            return found.start()
    element = _ELEMENT.search(text)
    return element.start() if element else 0


def _crowded(body: str) -> str:
    """The first element with more attributes than any feed has; none: it is empty.

    This is exact for what is well-formed, and so for all that a strict parser sees: it stops at
    the first fault, and the loose one looks at attributes once.
    """
    return next((found[1] for found in _CROWDED.finditer(body) if found[1]), "")


def _fine(reference: re.Match[str]) -> str:
    """A reference as it is, or the sign for what is no character."""
    digits, base = (reference[1], 16) if reference[1] else (reference[2], 10)
    digits = digits.lstrip("0")
    code = int(digits, base) if 0 < len(digits) < 8 else 0
    no_text = code < 32 and code not in (9, 10, 13)
    if no_text or 0xD800 <= code < 0xE000 or code > 0x10FFFF or code in (0xFFFE, 0xFFFF):
        return "\ufffd"
    return reference[0]
