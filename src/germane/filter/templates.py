"""Conditions that differ only in their literals are compiled once.

Profiles come from forms and programs: hundreds of thousands of texts, a handful of templates. A
text is cut at its literals; what is left, with the kinds of the literals, names the template. The
first text of a template goes through the whole language; when every one of its literals ended up
as exactly one constant of the rows, untouched or negated, then so will those of the next text, and
that one only has its literals read. Anything that looks at a literal's value (folding, merging of
bounds, LIKE, IN, factors of context attributes) makes a template unfit, and it is compiled anew
each time.
"""

import re
import sys
from functools import lru_cache
from typing import NamedTuple

from germane.index.conjunctions import Shape

_CUT = re.compile(
    r"""('[^']*(?:''[^']*)*'
    |"[^"]*(?:""[^"]*)*"
    |(?<![\w.])(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))""",
    re.VERBOSE,
)
MAX_TEMPLATES = 16_384
MAX_TEXT = 4096


class Nodes(NamedTuple):
    """Where a constant that is a set of nodes comes from: positions in a text, or literals."""

    type: str  # of the category
    places: tuple[int, ...]


CHOSEN = -2
"""The position of what is there because of a literal's value: the tighter of two bounds, a factor
of a context attribute. Another text of the template may have something else there."""
Compiled = list[tuple[Shape, list[float], list[int | Nodes]]]
"""Rows of a condition: shape, constants, and the position in the text each constant came from."""
NUMBER, TEXT, NODE = range(3)
"""What a literal is."""


class Source(NamedTuple):
    """Where a constant of a row comes from: a literal (with a sign), or the same for all."""

    literal: int
    sign: float
    constant: float


class Template(NamedTuple):
    """What a text of this template compiles to, given its literals."""

    rows: list[tuple[Shape, list[Source | Nodes]]]
    reads_context: str  # the name of a context attribute it reads, or ""
    kinds: list[int]  # of its literals


Key = tuple[tuple[str, ...], tuple[bool, ...]]


def cut(text: str) -> tuple[Key, list[str]] | None:
    """A text's template and its literals; None where that is not attempted."""
    if len(text) > MAX_TEXT:
        return None
    pieces = _CUT.split(text)
    literals = pieces[1::2]
    kinds = tuple([literal[0] == "'" for literal in literals])
    if '"' in text and any(literal[0] == '"' for literal in literals):
        return None
    return (tuple(pieces[0::2]), kinds), literals


def shared(key: Key) -> Key:
    """A key to keep: templates that differ in the order of their parts share the parts."""
    return tuple(map(sys.intern, key[0])), key[1]


def learn(text: str, key: Key, rows: Compiled, reads_context: str) -> Template | None:
    """The template of a text that was compiled, if its literals can be traced."""
    places = {}
    values = []
    for number, found in enumerate(_CUT.finditer(text)):
        places[found.start()] = number
        values.append(found.group())
    used: set[int] = set()
    kinds = [int(is_text) for is_text in key[1]]
    traced = []
    for shape, constants, origins in rows:
        sources: list[Source | Nodes] = []
        for value, origin in zip(constants, origins, strict=True):
            if isinstance(origin, Nodes):
                literals = tuple(places[at] for at in origin.places)
                for literal in literals:
                    kinds[literal] = NODE
                used.update(literals)
                sources.append(Nodes(origin.type, literals))
                continue
            if origin == CHOSEN:
                return None
            if origin < 0:
                sources.append(Source(-1, 1.0, value))
                continue
            sign = 1.0
            if origin not in places and text[origin] == "-":
                origin += 1 + len(text[origin + 1 :]) - len(text[origin + 1 :].lstrip())
                sign = -1.0
            which = places.get(origin)
            if which is None:
                return None
            if not key[1][which] and sign * float(values[which]) != value:
                return None
            used.add(which)
            sources.append(_literal(which, sign))
        traced.append((shape, sources))
    if used != set(range(len(values))):
        return None
    return Template(traced, reads_context, kinds)


@lru_cache(1024)
def _literal(which: int, sign: float) -> Source:
    """A literal as a source: few of them, shared by all templates."""
    return Source(which, sign, 0.0)
