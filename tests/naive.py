"""The oracle: the semantics page as slow, obvious code.

In: conditions as text, contexts and messages as dicts, or all of them as one sequence of events.
Out: the sorted ids of the profiles whose condition is TRUE. Nothing is normalised, indexed,
folded or reordered: a condition is parsed to a tree, and the tree is evaluated as written, in
three-valued logic (True, False, None), once per profile and message. It shares no line with the
engine, so that the two can only agree by both being right.

Inside, a number is a float that is never NaN, a timestamp is an int of microseconds since 1970
UTC, a location is a pair (latitude, longitude), a category is a pair (graph, names of nodes), never
without names, and NULL is None. The type of a category is its graph itself, so two attributes are
categories of one graph iff they hold the same object.
"""

from __future__ import annotations

import math
import re
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from numbers import Integral, Real

import numpy as np
from naive_graphs import Edge, NaiveGraph

Type = str | NaiveGraph

EARTH_RADIUS_M = 6371008.8
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEYWORDS = frozenset(
    "AND OR NOT BETWEEN IN LIKE ESCAPE IS NULL TRUE FALSE WITHIN CONTAINS BOX".split()
)
COMPARISONS = ("=", "<>", "!=", "<", "<=", ">", ">=")
FIELDS = "seq kind id removed context condition address graph add remove links unlinks".split()


class NaiveError(ValueError):
    """A condition, a value or a call that the semantics refuse."""


class Malformed(NaiveError):
    """An event that goes to the dead letters; `reason` says in a word or two what is wrong."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


# ---------------------------------------------------------------------------------- parsing

TOKEN = re.compile(
    r"""
      (?P<space>  \s+ )
    | (?P<number> (?: \d+ (?: \. \d* )? | \. \d+ ) (?: [eE] [+-]? \d+ )? )
    | (?P<string> ' (?: [^'] | '' )* ' )
    | (?P<quoted> " (?: [^"] | "" )+ " )
    | (?P<word>   [^\W\d] \w* )
    | (?P<symbol> <> | != | <= | >= | [=<>()+\-*/,.] )
    """,
    re.VERBOSE,
)


def tokenize(text: str) -> list[tuple[str, str]]:
    """Pairs of kind and text; a keyword's kind is itself, in capitals, and so is a symbol's."""
    tokens, position = [], 0
    while position < len(text):
        found = TOKEN.match(text, position)
        if not found:
            raise NaiveError(f"cannot read {text[position:]!r} at {position}")
        kind, lexeme, position = found.lastgroup, found.group(), found.end()
        if kind == "word" and lexeme.upper() in KEYWORDS:
            kind = lexeme.upper()
        if kind == "symbol":
            kind = lexeme
        if kind != "space":
            tokens.append((kind, lexeme))
    return [*tokens, ("end", "")]


class Parser:
    """Recursive descent, one method per level of SQL's precedence, loosest first."""

    def __init__(self, text: str) -> None:
        self._tokens = tokenize(text)
        self._at = 0

    def parse(self) -> tuple:
        tree = self._or()
        self._take("end")
        return tree

    def _peek(self, *kinds: str) -> bool:
        return self._tokens[self._at][0] in kinds

    def _take(self, *kinds: str) -> str:
        kind, lexeme = self._tokens[self._at]
        if kind not in kinds:
            raise NaiveError(f"expected {' or '.join(kinds)}, found {lexeme!r}")
        self._at += 1
        return lexeme

    def _skip(self, kind: str) -> bool:
        if self._peek(kind):
            self._at += 1
            return True
        return False

    def _or(self) -> tuple:
        tree = self._and()
        while self._skip("OR"):
            tree = ("or", tree, self._and())
        return tree

    def _and(self) -> tuple:
        tree = self._not()
        while self._skip("AND"):
            tree = ("and", tree, self._not())
        return tree

    def _not(self) -> tuple:
        if self._skip("NOT"):
            return ("not", self._not())
        return self._predicate()

    def _predicate(self) -> tuple:
        """An operand, and at most one test after it: `a < b < c` is refused."""
        left = self._sum()
        if self._peek(*COMPARISONS):
            operator = self._take(*COMPARISONS)
            return ("compare", "<>" if operator == "!=" else operator, left, self._sum())
        if self._skip("IS"):
            negated = self._skip("NOT")
            self._take("NULL")
            return self._negate(negated, ("is null", left))
        negated = self._skip("NOT")
        if self._skip("BETWEEN"):
            low = self._sum()
            self._take("AND")
            return self._negate(negated, ("between", left, low, self._sum()))
        if self._skip("IN"):
            if self._skip("BOX"):
                return self._negate(negated, ("box", left, self._list()))
            return self._negate(negated, ("in", left, self._list()))
        if self._skip("LIKE"):
            pattern = self._string()
            escape = self._string() if self._skip("ESCAPE") else None
            return self._negate(negated, ("like", left, pattern, escape))
        if self._peek("WITHIN", "CONTAINS"):
            operator = self._take("WITHIN", "CONTAINS").lower()
            if left[0] not in ("message", "context"):
                raise NaiveError(f"{operator} after {left!r}, which is no attribute")
            return self._negate(negated, (operator, left, self._nodes()))
        if negated:
            self._take("BETWEEN", "IN", "LIKE", "WITHIN", "CONTAINS")
        return left

    @staticmethod
    def _negate(negated: bool, tree: tuple) -> tuple:
        return ("not", tree) if negated else tree

    def _list(self) -> tuple:
        self._take("(")
        items = [self._sum()]
        while self._skip(","):
            items.append(self._sum())
        self._take(")")
        return tuple(items)

    def _nodes(self) -> tuple:
        """What stands after WITHIN or CONTAINS: one string, a list of them, or an attribute."""
        if self._peek("word"):
            tree = self._word()
            if tree[0] in ("message", "context"):
                return tree
            raise NaiveError(f"{tree!r} is no attribute")
        if self._peek("quoted"):
            return ("message", self._name())
        nodes = []
        if self._skip("("):
            nodes.append(self._string())
            while self._skip(","):
                nodes.append(self._string())
            self._take(")")
        else:
            nodes.append(self._string())
        return ("literal", "category", (None, frozenset(nodes)))

    def _sum(self) -> tuple:
        tree = self._product()
        while self._peek("+", "-"):
            tree = ("arithmetic", self._take("+", "-"), tree, self._product())
        return tree

    def _product(self) -> tuple:
        tree = self._unary()
        while self._peek("*", "/"):
            tree = ("arithmetic", self._take("*", "/"), tree, self._unary())
        return tree

    def _unary(self) -> tuple:
        if self._skip("-"):
            return ("minus", self._unary())
        return self._primary()

    def _primary(self) -> tuple:
        if self._skip("("):
            tree = self._or()
            self._take(")")
            return tree
        if self._peek("number"):
            return ("literal", "number", float(self._take("number")))
        if self._peek("string"):
            return ("literal", "string", self._string())
        if self._peek("TRUE", "FALSE"):
            return ("literal", "boolean", self._take("TRUE", "FALSE").upper() == "TRUE")
        if self._peek("word"):
            return self._word()
        return ("message", self._name())

    def _word(self) -> tuple:
        """A function, a timestamp, an attribute of the context or of the message."""
        word = self._tokens[self._at][1]
        follower = self._tokens[self._at + 1][0]
        if word.upper() in ("ABS", "DISTANCE") and follower == "(":
            self._take("word")
            arguments = self._list()
            if len(arguments) != (1 if word.upper() == "ABS" else 2):
                raise NaiveError(f"{word} with {len(arguments)} arguments")
            return (word.lower(), *arguments)
        if word.upper() == "TIMESTAMP" and follower == "string":
            self._take("word")
            return ("literal", "timestamp", microseconds(datetime.fromisoformat(self._string())))
        if word == "context" and follower == ".":
            self._take("word")
            self._take(".")
            return ("context", self._name())
        return ("message", self._name())

    def _name(self) -> str:
        kind = self._tokens[self._at][0]
        lexeme = self._take("word", "quoted")
        return lexeme[1:-1].replace('""', '"') if kind == "quoted" else lexeme

    def _string(self) -> str:
        return self._take("string")[1:-1].replace("''", "'")


@lru_cache(maxsize=100_000)
def parse(condition: str) -> tuple:
    return Parser(condition).parse()


# ----------------------------------------------------------------------------------- values


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970 UTC, exactly; a datetime without a zone is in UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(microseconds=1)


def typed(raw: object) -> tuple[str, object]:
    """The type and the inner value of what a caller gave."""
    if isinstance(raw, bool | np.bool_):
        return "boolean", bool(raw)
    if isinstance(raw, Real):
        number = float(raw)
        return "number", None if math.isnan(number) else number
    if isinstance(raw, str):
        return "string", str(raw)
    if isinstance(raw, datetime):
        return "timestamp", microseconds(raw)
    if isinstance(raw, tuple | list) and len(raw) == 2:
        return "location", (float(raw[0]), float(raw[1]))
    raise NaiveError(f"no type for {raw!r}")


def category(raw: object, graph: NaiveGraph) -> tuple | None:
    """A node or a collection of nodes; an empty collection is NULL."""
    names = [raw] if isinstance(raw, str) else raw
    if not isinstance(names, list | tuple | set | frozenset):
        raise NaiveError(f"no nodes: {raw!r}")
    for name in names:
        if not isinstance(name, str) or name not in graph.nodes:
            raise NaiveError(f"unknown node {name!r}")
    return (graph, frozenset(names)) if names else None


class Types:
    """One namespace of attribute types, for messages and contexts together."""

    def __init__(self, schema: dict[str, Type] | None) -> None:
        self._known = dict(schema or {})
        self._same: list[tuple[str, str]] = []

    def copy(self) -> Types:
        twin = Types(self._known)
        twin._same = list(self._same)
        return twin

    def of(self, name: str) -> Type | None:
        return self._known.get(name)

    def fix(self, name: str, type_: Type) -> None:
        if isinstance(type_, NaiveGraph):
            if any(name in pair for pair in self._same):
                raise NaiveError(f"{name!r} is compared somewhere; categories do not compare")
            if self.of(name) == "category":  # declared, of a graph that nothing told so far
                del self._known[name]
        if self._known.setdefault(name, type_) != type_:
            raise NaiveError(f"{name!r} is a {self._known[name]}, not a {type_}")
        for pair in self._same:
            if name in pair:
                other = pair[pair[0] == name]
                if self.of(other) != type_:
                    self.fix(other, type_)

    def link(self, one: str, other: str) -> None:
        """Both have one type, whichever it turns out to be."""
        self._same.append((one, other))


def check(tree: tuple, types: Types, wanted: Type | None = None) -> Type | None:
    """The type of a tree, fixing attributes not seen before; None if nothing tells it yet."""
    type_ = _check(tree, types, wanted)
    if wanted and type_ != wanted:
        raise NaiveError(f"{tree!r} is a {type_}, not a {wanted}")
    return type_


def _check(tree: tuple, types: Types, wanted: Type | None) -> Type | None:
    match tree:
        case ("literal", type_, _):
            return type_
        case ("message" | "context", name):
            if wanted:
                types.fix(name, wanted)
            return types.of(name)
        case ("and" | "or", left, right):
            check(left, types, "boolean")
            check(right, types, "boolean")
        case ("not", operand):
            check(operand, types, "boolean")
        case ("is null", operand):
            check(operand, types)
        case ("compare", _, left, right):
            _check_alike((left, right), types)
        case ("between", operand, low, high):
            _check_alike((operand, low, high), types)
        case ("box", operand, _):
            check(operand, types, "location")
        case ("in", operand, items):
            _check_alike((operand, *items), types)
        case ("like", operand, pattern, escape):
            check(operand, types, "string")
            like_pattern(pattern, escape)
        case ("within" | "contains", left, right):
            _check_nodes(left, right, types)
        case ("arithmetic", _, *operands) | ("minus" | "abs", *operands):
            for operand in operands:
                check(operand, types, "number")
            return "number"
        case ("distance", one, other):
            check(one, types, "location")
            check(other, types, "location")
            return "number"
        case _:
            raise AssertionError(tree)
    return "boolean"


def _check_alike(operands: tuple, types: Types) -> None:
    """Whatever is compared has one type, and that type has an order."""
    type_ = next(filter(None, [check(operand, types) for operand in operands]), None)
    if type_ in ("location", "category") or isinstance(type_, NaiveGraph):
        raise NaiveError("locations and categories do not compare")
    for operand in operands:
        if type_:
            check(operand, types, type_)
        else:
            types.link(operands[0][1], operand[1])


def _check_nodes(left: tuple, right: tuple, types: Types) -> None:
    """Both sides are of one graph: that of whichever side has one already."""
    attributes = [side for side in (left, right) if side[0] != "literal"]
    known = [types.of(name) for _, name in attributes]
    graph = next((type_ for type_ in known if isinstance(type_, NaiveGraph)), None)
    if graph is None:
        raise NaiveError(f"{left[1]!r} has no content graph")
    for attribute in attributes:
        check(attribute, types, graph)
    if right[0] == "literal" and not right[2][1] <= graph.nodes:
        raise NaiveError(f"unknown nodes {right[2][1] - graph.nodes}")


def uses_context(tree: object) -> bool:
    if not isinstance(tree, tuple):
        return False
    return tree[:1] == ("context",) or any(uses_context(branch) for branch in tree)


# ------------------------------------------------------------------------------- evaluation


def evaluate(tree: tuple, message: dict, context: dict) -> object:
    """The value of a tree: True, False, or a value; None for UNKNOWN and NULL alike."""
    match tree:
        case ("literal", _, value):
            return value
        case ("message", name):
            return message.get(name)
        case ("context", name):
            return context.get(name)
        case ("and", left, right):
            return all3([evaluate(left, message, context), evaluate(right, message, context)])
        case ("or", left, right):
            return any3([evaluate(left, message, context), evaluate(right, message, context)])
        case ("not", operand):
            return not3(evaluate(operand, message, context))
        case ("is null", operand):
            return evaluate(operand, message, context) is None
        case ("compare", operator, left, right):
            return compare(
                operator, evaluate(left, message, context), evaluate(right, message, context)
            )
        case ("between", operand, low, high):
            value = evaluate(operand, message, context)
            return all3(
                [
                    compare(">=", value, evaluate(low, message, context)),
                    compare("<=", value, evaluate(high, message, context)),
                ]
            )
        case ("box", operand, corners):
            place = evaluate(operand, message, context)
            south, west, north, east = (evaluate(edge, {}, {}) for edge in corners)
            if place is None:
                return None
            latitude, longitude = place
            if west <= east:
                across = west <= longitude <= east
            else:
                across = longitude >= west or longitude <= east
            return south <= latitude <= north and across
        case ("in", operand, items):
            value = evaluate(operand, message, context)
            return any3([compare("=", value, evaluate(item, message, context)) for item in items])
        case ("like", operand, pattern, escape):
            value = evaluate(operand, message, context)
            if value is None:
                return None
            return like_pattern(pattern, escape).fullmatch(value) is not None
        case ("within", left, right):
            return covers(evaluate(right, message, context), evaluate(left, message, context))
        case ("contains", left, right):
            return covers(evaluate(left, message, context), evaluate(right, message, context))
        case ("arithmetic", operator, left, right):
            return calculate(
                operator, evaluate(left, message, context), evaluate(right, message, context)
            )
        case ("minus", operand):
            value = evaluate(operand, message, context)
            return None if value is None else -value
        case ("abs", operand):
            value = evaluate(operand, message, context)
            return None if value is None else abs(value)
        case ("distance", one, other):
            return distance(evaluate(one, message, context), evaluate(other, message, context))
    raise AssertionError(tree)


def all3(values: list) -> bool | None:
    if any(value is False for value in values):
        return False
    return None if any(value is None for value in values) else True


def any3(values: list) -> bool | None:
    if any(value is True for value in values):
        return True
    return None if any(value is None for value in values) else False


def not3(value: bool | None) -> bool | None:
    return None if value is None else not value


def compare(operator: str, left: object, right: object) -> bool | None:
    if left is None or right is None:
        return None
    match operator:
        case "=":
            return left == right
        case "<>":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
    raise AssertionError(operator)


def covers(above: tuple | None, below: tuple | None) -> bool | None:
    """Does some node of the one cover some node of the other? A literal has no graph of its own."""
    if above is None or below is None:
        return None
    graph = above[0] or below[0]
    return any(graph.covers(a, b) for a in above[1] for b in below[1])


def calculate(operator: str, left: float | None, right: float | None) -> float | None:
    """One operation in float64; NULL for NaN and for a division by zero; infinities stay."""
    if left is None or right is None:
        return None
    match operator:
        case "+":
            result = left + right
        case "-":
            result = left - right
        case "*":
            result = left * right
        case "/":
            result = left / right if right != 0.0 else math.nan
    return None if math.isnan(result) else result


@lru_cache
def like_pattern(pattern: str, escape: str | None) -> re.Pattern:
    """`%` is any run, `_` one character; after the escape character, any character is itself."""
    if escape is not None and len(escape) != 1:
        raise NaiveError(f"ESCAPE takes one character, not {escape!r}")
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            literal = next(characters, None)
            if literal is None:
                raise NaiveError(f"the pattern {pattern!r} ends in its escape character")
            parts.append(re.escape(literal))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL)


def distance(one: tuple | None, other: tuple | None) -> float | None:
    """Haversine, in metres."""
    if one is None or other is None:
        return None
    (lat1, lon1), (lat2, lon2) = map(math.radians, one), map(math.radians, other)
    h = (
        math.sin((lat2 - lat1) / 2) ** 2
        + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    )
    return 2 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(h)))


# ------------------------------------------------------------------------------- the filter


class NaiveFilter:
    """Every profile against every message. A refused call changes nothing.

    `graphs` names the attributes that are categories; two of them may share a graph. The filter
    works on copies of the graphs.
    """

    def __init__(
        self,
        schema: dict[str, str] | None = None,
        graphs: dict[str, NaiveGraph] | None = None,
    ) -> None:
        self._graphs = deepcopy(graphs or {})
        self._types = Types(schema)
        for name, graph in self._graphs.items():
            self._types.fix(name, graph)
        self._profiles: dict[str, tuple[tuple, str | None]] = {}
        self._contexts: dict[str, dict] = {}
        self._last_seq: int | None = None

    def subscribe(self, id: str, condition: str, context: str | None = None) -> None:
        if id in self._profiles:
            raise NaiveError(f"profile {id!r} is subscribed already")
        tree = parse(condition)
        if context is None and uses_context(tree):
            raise NaiveError(f"profile {id!r} has no context")
        types = self._types.copy()
        check(tree, types, "boolean")
        self._types = types
        self._profiles[id] = tree, context

    def unsubscribe(self, id: str) -> None:
        if id not in self._profiles:
            raise NaiveError(f"no profile {id!r}")
        del self._profiles[id]

    def update(self, context: str, values: dict[str, object]) -> None:
        """Set attributes; None (and NaN) removes. A context exists from its first update."""
        inner = self._read(values)
        self._contexts.setdefault(context, {}).update(inner)

    def change(self, graph: str, add: list[Edge] = (), remove: list[Edge] = ()) -> None:
        """First add links, then remove links, in the graph of the attribute of this name."""
        if graph not in self._graphs:
            raise NaiveError(f"no graph {graph!r}")
        if not is_edges(add) or not is_edges(remove):
            raise NaiveError("links are pairs (parent, child) of strings")
        changed = self._graphs[graph]
        unknown = names_in(remove) - names_in(add) - changed.nodes
        if unknown:
            raise NaiveError(f"unknown nodes {unknown}")
        changed.add(add)
        changed.remove(remove)

    def match(self, message: dict[str, object]) -> list[str]:
        inner = self._read(message)
        return sorted(id for id in self._profiles if self._truth(id, inner) is True)

    def truth(self, id: str, message: dict[str, object]) -> bool | None:
        return self._truth(id, self._read(message))

    def why(self, id: str, message: dict[str, object]) -> list[tuple[tuple, bool | None]]:
        """Every predicate of the condition with its truth value; the whole condition first."""
        inner = self._read(message)
        tree, context = self._profiles[id]
        return [
            (branch, evaluate(branch, inner, self._contexts.get(context, {})))
            for branch in [tree, *predicates(tree)]
        ]

    def process(self, events: list) -> tuple[list[tuple], list[tuple[int, str]]]:
        """One event after the other: deliveries as (seq, message id, profile id), in order, and
        the malformed events as (position, reason). A malformed event changes nothing."""
        deliveries, rejected = [], []
        for position, event in enumerate(events):
            try:
                deliveries += self._play(event)
            except Malformed as error:
                rejected.append((position, error.reason))
        return deliveries, rejected

    def _play(self, event: dict) -> list[tuple]:
        """The deliveries of one event. A seq is used up even if the rest of its event is bad."""
        if not isinstance(event, dict):
            raise Malformed("no event")
        seq, id = event.get("seq"), event.get("id")
        if not is_seq(seq):
            raise Malformed("seq")
        if self._last_seq is not None and seq <= self._last_seq:
            return []
        self._last_seq = seq
        if event.get("kind") not in ("message", "update", "subscribe", "unsubscribe", "graph"):
            raise Malformed("kind")
        if event["kind"] == "graph":  # it has no id
            self._play_graph(event)
            return []
        if id is None:
            raise Malformed("id")
        if event.get("links") or event.get("unlinks"):
            raise Malformed("links of no graph")
        if event["kind"] == "message":
            return [(seq, id, profile) for profile in self._play_message(event)]
        if event["kind"] == "update":
            self._play_update(event)
        elif event["kind"] == "subscribe":
            self._play_subscribe(event)
        elif id not in self._profiles:
            raise Malformed("unknown profile")
        else:
            self.unsubscribe(id)
        return []

    def _play_message(self, event: dict) -> list[str]:
        try:
            reached = self.match(attributes(event))
        except ValueError as error:
            raise Malformed("value") from error
        if event.get("address") is None:
            return reached
        try:  # its names are the recipient's, as a message's are in a condition
            tree = parse(event["address"])
            check(tree, self._types.copy(), "boolean")
        except ValueError as error:
            raise Malformed("address") from error
        if uses_context(tree):
            raise Malformed("address")
        contexts = {id: self._profiles[id][1] for id in reached}
        return [
            id
            for id, context in contexts.items()
            if context is not None and evaluate(tree, self._contexts.get(context, {}), {}) is True
        ]

    def _play_update(self, event: dict) -> None:
        """NULL, and so NaN, leaves an attribute as it is: only `removed` removes."""
        try:
            inner = self._read(attributes(event))
        except ValueError as error:
            raise Malformed("value") from error
        context = self._contexts.setdefault(event["id"], {})
        context.update({name: value for name, value in inner.items() if value is not None})
        for name in event.get("removed") or []:
            context[name] = None

    def _play_subscribe(self, event: dict) -> None:
        if event["id"] in self._profiles:
            raise Malformed("duplicate profile")
        if not isinstance(event.get("condition"), str):
            raise Malformed("condition")
        try:
            self.subscribe(event["id"], event["condition"], event.get("context"))
        except ValueError as error:
            raise Malformed("condition") from error

    def _play_graph(self, event: dict) -> None:
        graph = event.get("graph")
        if not isinstance(graph, str) or graph not in self._graphs:
            raise Malformed("graph")
        try:
            self.change(graph, event.get("add") or [], event.get("remove") or [])
        except NaiveError as error:
            raise Malformed("links") from error

    def _truth(self, id: str, inner: dict) -> bool | None:
        tree, context = self._profiles[id]
        return evaluate(tree, inner, self._contexts.get(context, {}))

    def _read(self, values: dict[str, object]) -> dict:
        types, inner = self._types.copy(), {}
        for name, raw in values.items():
            inner[name] = None
            graph = types.of(name)
            if raw is not None and isinstance(graph, NaiveGraph):
                inner[name] = category(raw, graph)
            elif raw is not None:
                type_, inner[name] = typed(raw)
                types.fix(name, type_)
        self._types = types
        return inner


def is_seq(raw: object) -> bool:
    return isinstance(raw, Integral) and not isinstance(raw, bool) and -(2**63) <= int(raw) < 2**63


def attributes(event: dict) -> dict[str, object]:
    return {name: value for name, value in event.items() if name not in FIELDS}


def is_edges(raw: object) -> bool:
    return isinstance(raw, list | tuple) and all(
        isinstance(edge, list | tuple) and [type(name) for name in edge] == [str, str]
        for edge in raw
    )


def names_in(edges: list[Edge]) -> set[str]:
    return {name for edge in edges for name in edge}


def predicates(tree: tuple) -> list[tuple]:
    if tree[0] in ("and", "or", "not"):
        return [leaf for branch in tree[1:] for leaf in predicates(branch)]
    return [tree]
