"""XML documents as arrays: parsed once, words and labels numbered within their batch.

In: XML, text or bytes. Out: `Documents`: elements in the order of the text, an attribute being a
child labelled `@name` before the element's own children; of each its label, its parent and the
words of its own text. Names are local: namespaces are dropped.

Nothing is fetched and no entity is expanded but XML's own five; sizes, depth and numbers have
limits. What is refused raises `InvalidValue`, with the reason.
"""

from __future__ import annotations

import re
import threading
from array import array
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from germane.kernels.documents import cut_at_marks
from germane.model import InvalidValue

__all__ = ["MAX_BYTES", "Arrays", "Documents", "Flat", "parse"]

MAX_BYTES = 10 << 20
MAX_DEPTH = 200
MAX_ELEMENTS = 100_000
MARK = "\x00"
"""Stands between texts; XML cannot hold it."""
_TOKENS = re.compile(r"\w+|\x00")


class Flat(NamedTuple):
    """What a document says, element by element."""

    labels: list[str]
    parents: list[int]
    texts: list[str]


class _Target:
    """Takes a document from the parser, start by start and end by end."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.labels: list[str] = []
        self.parents: list[int] = []
        self.texts: list[Any] = []  # text, or a list of its pieces
        self.path: list[int] = []
        self.has_doctype = False

    def start(self, tag: str, attributes: Any) -> None:
        labels, path = self.labels, self.path
        number = len(labels)
        if number >= MAX_ELEMENTS:
            raise InvalidValue(f"the document has more than {MAX_ELEMENTS:,} elements")
        self.parents.append(path[-1] if path else -1)
        labels.append(tag if tag[0] != "{" else tag[tag.index("}") + 1 :])
        self.texts.append("")
        path.append(number)
        if len(path) > MAX_DEPTH:
            raise InvalidValue(f"the document is more than {MAX_DEPTH} elements deep")
        if attributes:
            for name, value in attributes.items():
                self.parents.append(number)
                labels.append("@" + (name if name[0] != "{" else name[name.index("}") + 1 :]))
                self.texts.append(value)
            if len(labels) > MAX_ELEMENTS:
                raise InvalidValue(f"the document has more than {MAX_ELEMENTS:,} elements")

    def end(self, tag: str) -> None:
        path = self.path
        path.pop()
        if path and self.texts[path[-1]]:
            self.data(" ")  # an element parts the words around it

    def data(self, text: str) -> None:
        texts, number = self.texts, self.path[-1]
        before = texts[number]
        if not before:
            texts[number] = text
        elif type(before) is list:
            before.append(text)
        else:
            texts[number] = [before, text]

    def doctype(self, *_: Any) -> None:
        self.has_doctype = True

    def close(self) -> tuple[Flat, bool]:
        """What was said, and whether there was a DOCTYPE."""
        texts = [text if type(text) is str else "".join(text) for text in self.texts]
        said = Flat(self.labels, self.parents, texts), self.has_doctype
        self.reset()
        return said


class _Parsers(threading.local):
    """Parsers of bytes and of text; lxml is imported when the first document comes."""

    def __init__(self) -> None:
        try:
            from lxml import etree
        except ModuleNotFoundError as error:
            raise InvalidValue(
                "XML documents need lxml; install it with: pip install 'germane[xml]'"
            ) from error
        options: dict[str, Any] = {
            "resolve_entities": False,
            "no_network": True,
            "load_dtd": False,
            "dtd_validation": False,
            "huge_tree": False,
        }
        self.etree: Any = etree
        self.target = _Target()
        options["target"] = self.target
        self.of_bytes = etree.XMLParser(**options)
        self.of_text = etree.XMLParser(encoding="utf-8", **options)
        del options["target"]
        self.of_trees = etree.XMLParser(**options)


class Documents:
    """The documents of a batch; numbered as they come."""

    def __init__(self) -> None:
        self._labels: list[list[str]] = []
        self._parents: list[list[int]] = []
        self._texts: list[list[str]] = []
        self._arrays: Arrays | None = None

    def __len__(self) -> int:
        return len(self._labels)

    def add(self, document: Any) -> int:
        """Parse a document; its number."""
        flat = parse(document)
        self._labels.append(flat.labels)
        self._parents.append(flat.parents)
        self._texts.append(flat.texts)
        self._arrays = None
        return len(self._labels) - 1

    def arrays(self) -> Arrays:
        """All documents, flat."""
        if self._arrays is None:
            self._arrays = Arrays(self._labels, self._parents, self._texts)
        return self._arrays


class Arrays:
    """Documents, flat: of document d, the elements ``at[d] : at[d + 1]``."""

    def __init__(
        self, labels: list[list[str]], parents: list[list[int]], texts: list[list[str]]
    ) -> None:
        self.at: NDArray[np.int64] = np.zeros(len(labels) + 1, np.int64)
        np.cumsum([len(own) for own in labels], out=self.at[1:])
        known: dict[str, int] = {}
        number = known.setdefault
        self.label = _integers([number(x, len(known)) for own in labels for x in own])
        self.parent = _integers(chain.from_iterable(parents))
        self.labels = list(known)
        # One search for all words of the batch, marks between texts.
        joined = MARK.join([*chain.from_iterable(texts), ""])
        numbers: dict[str, int] = {MARK: 0}
        number = numbers.setdefault
        coded = _integers([number(token, len(numbers)) for token in _TOKENS.findall(joined)])
        self.word_at: NDArray[np.int64] = np.zeros(len(self.label) + 1, np.int64)
        words = np.empty(len(coded), np.int32)
        n = cut_at_marks(coded, words, self.word_at)
        folded: dict[str, int] = {}
        same = [folded.setdefault(t.casefold(), len(folded)) for t in list(numbers)[1:]]
        self.word: NDArray[np.int32] = np.array(same, np.int32)[words[:n] - 1]
        self.words = list(folded)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        own = (self.at, self.label, self.parent, self.word_at, self.word)
        return sum(array.nbytes for array in own)


def _integers(values: Iterable[int]) -> NDArray[np.int32]:
    return np.frombuffer(array("i", values), np.int32)


def parse(document: Any) -> Flat:
    """What a document says; it may have been parsed before, and be a mapping of ``Flat``."""
    if isinstance(document, Mapping):
        return _checked(document)
    parsers = _parsers()
    etree = parsers.etree
    if isinstance(document, str):
        if len(document) > MAX_BYTES:
            raise _too_large(len(document))
        try:
            data, parser = document.encode(), parsers.of_text
        except UnicodeEncodeError as error:
            raise InvalidValue(f"the document is no text: {error.reason}") from None
    elif isinstance(document, bytes | bytearray | memoryview):
        data, parser = bytes(document), parsers.of_bytes
    else:
        raise InvalidValue(f"a document is XML, text or bytes, not {document!r:.100}")
    if len(data) > MAX_BYTES:
        raise _too_large(len(data))
    parsers.target.reset()
    try:
        flat, has_doctype = etree.fromstring(data, parser)
        if has_doctype:  # it may name entities, which a target never sees
            root = etree.fromstring(data, parsers.of_trees)
            entity = next(root.iter(etree.Entity), None)
            if entity is not None:
                raise InvalidValue(f"entities are not expanded, and there is {entity.text}")
    except (etree.LxmlError, ValueError, LookupError) as error:
        if isinstance(error, InvalidValue):
            raise
        if "xmlAddEntity" in str(error):
            raise InvalidValue("the document declares entities, which are not expanded") from None
        raise InvalidValue(f"not well-formed XML: {error}") from None
    return cast(Flat, flat)


def _checked(said: Mapping[str, Any]) -> Flat:
    """What another ``parse`` said; where it failed, ``raw`` is the document."""
    if said.get("labels") is None and isinstance(said.get("raw"), str | bytes):
        return parse(said["raw"])
    labels: Any = said.get("labels")
    parents: Any = said.get("parents")
    texts: Any = said.get("texts")
    is_whole = (
        all(isinstance(part, list) for part in (labels, parents, texts))
        and 0 < len(labels) == len(parents) == len(texts) <= MAX_ELEMENTS
        and all(type(text) is str and MARK not in text for text in chain(labels, texts))
        and parents[0] == -1
        and all(type(p) is int and 0 <= p <= i for i, p in enumerate(parents[1:]))
        and sum(map(len, chain(labels, texts))) <= MAX_BYTES
    )
    if not is_whole:
        raise InvalidValue("a document that was parsed before has lists of labels, parents, texts")
    depth = [1]
    for parent in parents[1:]:
        depth.append(depth[parent] + 1)
    if max(depth) > MAX_DEPTH + 1:  # an attribute is below its element
        raise InvalidValue(f"the document is more than {MAX_DEPTH} elements deep")
    return Flat(labels, parents, texts)


def _too_large(size: int) -> InvalidValue:
    return InvalidValue(f"the document has {size:,} bytes; the limit is {MAX_BYTES:,}")


@lru_cache(1)
def _parsers() -> _Parsers:
    return _Parsers()
