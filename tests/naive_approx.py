"""Two oracles for approximate XML patterns: the recurrence of the semantics page, and enumeration.

In: a pattern and a document as text, and two layers of costs, the subscriber's own and the
administrator's. Out: what it costs to place the pattern's root at each element. One oracle is the
page's recurrence, written down; the other tries every choice of `or`, every set of skipped
vertices and every placement of the rest. They share the parsing and the tables, no reckoning. At
the end are random tiny cases, small enough for the second.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, combinations, product
from xml.etree import ElementTree

from hypothesis import strategies as st

Words = tuple[str, ...]


def words(text: str) -> Words:
    return tuple(word.casefold() for word in re.findall(r"\w+", text))


def literal(text: str) -> Words:
    """The words of a literal. Without any it would be contained in every text: refused."""
    if not words(text):
        raise ValueError(f"no word in {text!r}")
    return words(text)


def contains(text: Words, part: Words) -> bool:
    """Do the words of `part` occur in `text`, one right after the other?"""
    return any(text[i : i + len(part)] == part for i in range(len(text)))


# ---------------------------------------------------------------------------------- patterns


@dataclass(frozen=True)
class Label:
    """A structure vertex; `inner` is the expression in its brackets, if it has any."""

    name: str
    inner: Expression | None = None


@dataclass(frozen=True)
class Value:
    words: Words


@dataclass(frozen=True)
class And:
    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Or:
    parts: tuple[Expression, ...]


Vertex = Label | Value
Expression = Label | Value | And | Or

TOKEN = re.compile(
    r"""
      (?P<space>   \s+ )
    | (?P<literal> " [^"]* " )
    | (?P<label>   @? [^\W\d] [\w.:-]* )
    | (?P<symbol>  [][()] )
    """,
    re.VERBOSE,
)


def tokenize(text: str) -> list[tuple[str, str]]:
    """Pairs of kind and text; `and` and `or`, in any case, and symbols are kinds of their own."""
    tokens, position = [], 0
    while position < len(text):
        found = TOKEN.match(text, position)
        if not found:
            raise ValueError(f"cannot read {text[position:]!r} at {position}")
        kind, lexeme, position = found.lastgroup, found.group(), found.end()
        if kind == "symbol" or lexeme.lower() in ("and", "or"):
            kind = lexeme.lower()
        if kind != "space":
            tokens.append((kind, lexeme))
    return [*tokens, ("end", "")]


class Parser:
    """Recursive descent, one method per rule; `and` binds tighter than `or`."""

    def __init__(self, text: str) -> None:
        self.tokens = tokenize(text)

    def accept(self, kind: str) -> str | None:
        """The text of the next token if it is of this kind, which is then consumed."""
        return self.tokens.pop(0)[1] if self.tokens[0][0] == kind else None

    def expect(self, kind: str) -> str:
        lexeme = self.accept(kind)
        if lexeme is None:
            raise ValueError(f"{kind} expected, not {self.tokens[0][1]!r}")
        return lexeme

    def pattern(self) -> Label:
        root = self.label()
        self.expect("end")
        return root

    def label(self) -> Label:
        name = self.expect("label")
        if self.accept("[") is None:
            return Label(name)
        inner = self.disjunction()
        self.expect("]")
        return Label(name, inner)

    def disjunction(self) -> Expression:
        parts = [self.conjunction()]
        while self.accept("or"):
            parts.append(self.conjunction())
        return Or(tuple(parts)) if len(parts) > 1 else parts[0]

    def conjunction(self) -> Expression:
        parts = [self.term()]
        while self.accept("and"):
            parts.append(self.term())
        return And(tuple(parts)) if len(parts) > 1 else parts[0]

    def term(self) -> Expression:
        if self.accept("("):
            inside = self.disjunction()
            self.expect(")")
            return inside
        quoted = self.accept("literal")
        return self.label() if quoted is None else Value(literal(quoted))


def parse_pattern(text: str) -> Label:
    return Parser(text).pattern()


# --------------------------------------------------------------------------------- documents


@dataclass
class Element:
    """An element or attribute; others are named by their position in the document's list."""

    label: str
    text: Words
    parent: int | None
    children: list[int] = field(default_factory=list)


def local(name: str) -> str:
    return name.rpartition("}")[2]


def parse_document(text: str) -> list[Element]:
    """All elements in document order; attributes come after theirs and before its children."""
    elements: list[Element] = []

    def add(label: str, text: str, parent: int | None) -> int:
        elements.append(Element(label, words(text), parent))
        if parent is not None:
            elements[parent].children.append(len(elements) - 1)
        return len(elements) - 1

    def walk(node: ElementTree.Element, parent: int | None) -> None:
        pieces = [node.text, *(child.tail for child in node)]
        here = add(local(node.tag), " ".join(piece or "" for piece in pieces), parent)
        for name, value in node.attrib.items():
            add("@" + local(name), value, here)
        for child in node:
            walk(child, here)

    walk(ElementTree.fromstring(text), None)
    return elements


# ------------------------------------------------------------------------------------- costs


@dataclass
class Tables:
    """One layer of costs, as it is written: labels and literals are text.

    The keys of `defaults` are "skip" (structures), "skip_value" and "insert". All may be missing.
    """

    rename: dict[tuple[str, str], float] = field(default_factory=dict)
    rename_value: dict[tuple[str, str], float] = field(default_factory=dict)
    skip: dict[str, float] = field(default_factory=dict)
    skip_value: dict[str, float] = field(default_factory=dict)
    insert: dict[str, float] = field(default_factory=dict)
    defaults: dict[str, float] = field(default_factory=dict)


class Costs:
    """What the layers cost together.

    For each entry by itself: the subscriber's own, else the administrator's, else the subscriber's
    default, else the administrator's, else nothing for an insertion and infinity for the rest.
    """

    def __init__(self, own: Tables, admin: Tables) -> None:
        self.rename = {**admin.rename, **own.rename}
        self.skips = {**admin.skip, **own.skip}
        self.insert = {**admin.insert, **own.insert}
        self.defaults = {**admin.defaults, **own.defaults}
        self.rename_value, self.skip_value = {}, {}
        for layer in (admin, own):
            for (old, new), cost in layer.rename_value.items():
                self.rename_value[literal(old), literal(new)] = cost
            for text, cost in layer.skip_value.items():
                self.skip_value[literal(text)] = cost

    def ren(self, a: str, b: str) -> float:
        """To find label b where the pattern says a: one step, from a to b."""
        return 0 if a == b else self.rename.get((a, b), math.inf)

    def vren(self, value: Words, text: Words) -> float:
        """To find the value in this text, as it is or as the cheapest of its alternatives."""
        costs = [0] if contains(text, value) else []
        for (old, new), cost in self.rename_value.items():
            if old == value and contains(text, new):
                costs.append(cost)
        return min(costs, default=math.inf)

    def skip(self, vertex: Vertex) -> float:
        if isinstance(vertex, Value):
            default = self.defaults.get("skip_value", math.inf)
            return self.skip_value.get(vertex.words, default)
        return self.skips.get(vertex.name, self.defaults.get("skip", math.inf))

    def ins(self, label: str) -> float:
        return self.insert.get(label, self.defaults.get("insert", 0))


def combine(own: Tables | dict | None, admin: Tables | dict | None) -> Costs:
    """Each layer as tables, as the keyword arguments of tables, or as None, which is none."""
    return Costs(
        *(layer if isinstance(layer, Tables) else Tables(**(layer or {})) for layer in (own, admin))
    )


# ----------------------------------------------------------------- the first oracle: recurrence

Found = list[tuple[int, float]]


def cost_by_recurrence(
    pattern_text: str,
    document_text: str,
    own: Tables | dict | None = None,
    admin: Tables | dict | None = None,
) -> Found:
    """Pairs of an element's position and M(root, element), where that is finite, in order."""
    root, document, costs = (
        parse_pattern(pattern_text),
        parse_document(document_text),
        combine(own, admin),
    )

    @cache
    def M(q: Label, d: int) -> float:
        """q is placed at d."""
        return costs.ren(q.name, document[d].label) + below(q, d)

    @cache
    def B(c: Vertex, d: int) -> float:
        """c is placed somewhere below d, or skipped."""
        return min(A(c, d), costs.skip(c) + below(c, d))

    @cache
    def A(c: Vertex, d: int) -> float:
        """c is placed somewhere below d."""
        ways = []
        if isinstance(c, Value):
            ways.append(costs.vren(c.words, document[d].text))
        for x in document[d].children:
            if isinstance(c, Label):
                ways.append(M(c, x))
            ways.append(costs.ins(document[x].label) + A(c, x))
        return min(ways, default=math.inf)

    def below(q: Vertex, d: int) -> float:
        """All that hangs below q is placed below d."""
        return 0 if isinstance(q, Value) or q.inner is None else total(q.inner, d)

    def total(expression: Expression, d: int) -> float:
        if isinstance(expression, And):
            return sum(total(part, d) for part in expression.parts)
        if isinstance(expression, Or):
            return min(total(part, d) for part in expression.parts)
        return B(expression, d)

    everywhere = [(d, M(root, d)) for d in range(len(document))]
    return [(d, cost) for d, cost in everywhere if cost < math.inf]


def matches(
    pattern: str,
    document: str,
    threshold: float,
    own: Tables | dict | None = None,
    admin: Tables | dict | None = None,
) -> float | None:
    """The document's cost, which is the least of its elements', if it is below the threshold."""
    found = cost_by_recurrence(pattern, document, own, admin)
    cost = min((cost for _, cost in found), default=math.inf)
    return cost if cost < threshold else None


# ---------------------------------------------------------------- the second oracle: enumeration

Tree = tuple[Vertex, list["Tree"]]  # a vertex and its children, without `or`


def choices(expression: Expression | None) -> list[list[Tree]]:
    """All ways to choose one part of every `or`: for each, the trees that the expression is."""
    if expression is None:
        return [[]]
    if isinstance(expression, Or):
        return [trees for part in expression.parts for trees in choices(part)]
    if isinstance(expression, And):
        ways = product(*(choices(part) for part in expression.parts))
        return [list(chain.from_iterable(way)) for way in ways]
    inner = None if isinstance(expression, Value) else expression.inner
    return [[(expression, trees)] for trees in choices(inner)]


def flat(tree: Tree, parent: int | None = None, start: int = 0) -> list[tuple[Vertex, int | None]]:
    """The vertices of a tree, each with the position of its parent in this list."""
    vertex, children = tree
    vertices = [(vertex, parent)]
    for child in children:
        vertices += flat(child, start, start + len(vertices))
    return vertices


def subsets(items: range) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(items, n) for n in range(len(items) + 1))


def path(document: list[Element], top: int, low: int) -> list[int] | None:
    """The elements below `top` down to `low`, the lowest first; None if `low` is not below it."""
    steps = []
    while low != top:
        steps.append(low)
        low = document[low].parent
        if low is None:
            return None
    return steps


def cost_by_enumeration(
    pattern_text: str,
    document_text: str,
    own: Tables | dict | None = None,
    admin: Tables | dict | None = None,
) -> Found:
    """The same as `cost_by_recurrence`, for tiny cases: the cheapest of all there is to try."""
    document, costs = parse_document(document_text), combine(own, admin)
    best: dict[int, float] = {}
    for (tree,) in choices(parse_pattern(pattern_text)):
        vertices = flat(tree)
        for skipped in subsets(range(1, len(vertices))):
            skips = sum(costs.skip(vertices[i][0]) for i in skipped)
            if skips == math.inf:
                continue
            for images, cost in embeddings(vertices, set(skipped), document, costs):
                best[images[0]] = min(best.get(images[0], math.inf), skips + cost)
    return sorted((d, cost) for d, cost in best.items() if cost < math.inf)


def embeddings(
    vertices: list[tuple[Vertex, int | None]],
    skipped: set[int],
    document: list[Element],
    costs: Costs,
) -> Iterator[tuple[dict[int, int], float]]:
    """All placements of the vertices that are not skipped, with what renames and insertions cost.

    A placement says for the position of a vertex the position of an element.
    """
    kept = [i for i in range(len(vertices)) if i not in skipped]
    options = []  # for each vertex that is kept: pairs of an element and the cost of the rename
    for i in kept:
        vertex, _ = vertices[i]
        if isinstance(vertex, Value):
            renames = [costs.vren(vertex.words, element.text) for element in document]
        else:
            renames = [costs.ren(vertex.name, element.label) for element in document]
        options.append([(d, cost) for d, cost in enumerate(renames) if cost < math.inf])

    for placement in product(*options):
        images = {i: d for i, (d, _) in zip(kept, placement, strict=True)}
        cost = sum(rename for _, rename in placement)
        for i in kept[1:]:
            vertex, parent = vertices[i]
            while parent in skipped:
                _, parent = vertices[parent]
            steps = path(document, images[parent], images[i])
            if isinstance(vertex, Label):
                steps = steps[1:] if steps else None  # not the same element; its image is no insert
            if steps is None:
                break
            cost += sum(costs.ins(document[step].label) for step in steps)
        else:
            yield images, cost


# ------------------------------------------------------------------------- random tiny cases

LABELS = ["a", "b", "c", "d"]
ALL_LABELS = [*LABELS, "@k"]
ROOTS = st.sampled_from(["a", "b", "a", "c", "a", "d", "a", "@k"])  # often the document's, too
ANYWHERE = st.sampled_from(ALL_LABELS)
LITERALS = ["x", "y", "z", "X", "x y", "Y x", "x y z", "z, z"]
TEXTS = ["", "x", "y", "z", "X y", "x-y z", "y x", "z z", " x, y; Z ", "yx", "x y x z"]
COSTS = st.sampled_from([1, 0.5, 2, 3, 1.5, 5, 0])
THRESHOLDS = st.sampled_from([0.5, 1, 1.5, 2, 3, 4, 6, 10, 100])


@st.composite
def pattern_texts(draw, vertices: int = 5) -> str:
    """A root and at most this many vertices, the root among them."""

    def vertex(n: int) -> str:
        """One vertex with all the other n - 1 below it."""
        if n == 1 and draw(st.integers(0, 2)):
            return f'"{draw(st.sampled_from(LITERALS))}"'
        return label(n)

    def label(n: int, names: st.SearchStrategy[str] = ANYWHERE) -> str:
        name = draw(names)
        return name if n == 1 else f"{name}[{expression(n - 1)}]"

    def expression(n: int) -> str:
        if n == 1 or not draw(st.integers(0, 2)):
            return vertex(n)
        left = draw(st.integers(1, n - 1))
        connective = draw(st.sampled_from(["and", "or", "and", "OR", "And"]))
        both = f"{expression(left)} {connective} {expression(n - left)}"
        return f"({both})" if draw(st.booleans()) else both

    return label(vertices - draw(st.integers(0, vertices - 1)), ROOTS)


@st.composite
def document_texts(draw, elements: int = 7) -> str:
    """At most this many elements, and one attribute each at most, with texts anywhere."""
    text = st.sampled_from(TEXTS)

    def element(n: int) -> str:
        """One element with all the other n - 1 below it."""
        name, inside, n = draw(st.sampled_from(LABELS)), draw(text), n - 1
        attribute = "" if draw(st.integers(0, 3)) else f' k="{draw(text)}"'
        while n:
            child = draw(st.integers(1, n))
            inside, n = inside + element(child) + draw(text), n - child
        return f"<{name}{attribute}>{inside}</{name}>"

    return element(elements - draw(st.integers(0, elements - 1)))


def layers() -> st.SearchStrategy[dict]:
    """The keyword arguments of `Tables`, of which some or all may be missing."""

    def pairs(names: list[str]) -> st.SearchStrategy[tuple[str, str]]:
        name = st.sampled_from(names)
        return st.tuples(name, name).filter(lambda pair: words(pair[0]) != words(pair[1]))

    def table(keys: st.SearchStrategy, size: int) -> st.SearchStrategy[dict]:
        """No two keys that differ only in case: they would be one."""
        entries = st.lists(
            st.tuples(keys, COSTS),
            min_size=size // 3,
            max_size=size,
            unique_by=lambda entry: str(entry[0]).casefold(),
        )
        return entries.map(dict)

    return st.fixed_dictionaries(
        {
            "rename": table(pairs(ALL_LABELS), 6),
            "defaults": table(st.sampled_from(["skip", "skip_value", "insert"]), 3),
        },
        optional={
            "rename_value": table(pairs(LITERALS), 5),
            "skip": table(st.sampled_from(ALL_LABELS), 3),
            "skip_value": table(st.sampled_from(LITERALS), 3),
            "insert": table(st.sampled_from(ALL_LABELS), 3),
        },
    ) | st.just({})


def cases() -> st.SearchStrategy[tuple[str, str, float, dict, dict]]:
    """The text of a pattern and of a document, a threshold, and the two layers of costs."""
    return st.tuples(pattern_texts(), document_texts(), THRESHOLDS, layers(), layers())
