"""The oracle of CESQL: its specification as slow, obvious code.

In: a text and an event, a dict of strings, integers and booleans. Out: whether the event passes the
filter: the text's value is TRUE, a boolean, and nothing on the way was an error. A text is read
and evaluated at once, by one function per level of precedence, once per event; it shares no line
with the engine. Sections are those of the specification.
"""

import re

LOW, HIGH = -2147483648, 2147483647
TOKEN = re.compile(
    r"""(?P<string>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|(?P<word>\w+)
    |(?P<sign><=|>=|<>|!=|[-+*/%=<>(),])""",
    re.VERBOSE | re.DOTALL,
)


class Failed(Exception):
    """An error of any kind: a filter does not tell them apart (1.2)."""


def passes(text, event):
    """Whether an event passes the filter that a text is."""
    try:
        return Reading(text, event).whole() is True
    except Failed:
        return False


def to_string(value):  # 3.7
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def to_integer(value):
    if isinstance(value, bool):
        return 1 if value else 0
    if isinstance(value, int):
        return value
    if re.fullmatch("[+-]?[0123456789]+", value) is None:
        raise Failed
    return in_range(int(value))


def to_boolean(value):
    """Implicitly; the suite wants an error where an integer is negated."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int) or value.lower() not in ("true", "false"):
        raise Failed
    return value.lower() == "true"


def in_range(number):
    if number < LOW or number > HIGH:
        raise Failed
    return number


def cast_like(value, other):
    """A value as the type that another one has."""
    if isinstance(other, bool):
        return to_boolean(value)
    return to_integer(value) if isinstance(other, int) else to_string(value)


def equal(a, b):
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def like(text, pattern):  # 3.4.3, character by character
    if pattern == "":
        return text == ""
    if pattern[0] == "%":
        return any(like(text[i:], pattern[1:]) for i in range(len(text) + 1))
    if pattern[0] == "\\" and pattern[1:2] in ("%", "_"):
        return text[:1] == pattern[1] and like(text[1:], pattern[2:])
    if text == "":
        return False
    return (pattern[0] == "_" or pattern[0] == text[0]) and like(text[1:], pattern[1:])


class Reading:
    """Reads a text and evaluates it; where `dead`, it only reads (a short-circuited operand)."""

    def __init__(self, text, event):
        self.tokens = []
        for match in TOKEN.finditer(text):
            kind = match.lastgroup
            self.tokens.append((kind, match[0].upper() if kind == "word" else match[0], match[0]))
        self.at = 0
        self.event = event
        self.dead = 0

    def peek(self, *wanted):
        if self.at >= len(self.tokens) or self.tokens[self.at][0] == "string":
            return False
        return self.tokens[self.at][1] in wanted

    def take(self, *wanted):
        if self.peek(*wanted):
            self.at += 1
            return self.tokens[self.at - 1][1]
        return None

    def live(self, compute, *arguments):
        """What an operator computes; nothing, where its value is not wanted."""
        return None if self.dead else compute(*arguments)

    def whole(self):
        value = self.logic()
        assert self.at == len(self.tokens), self.tokens[self.at :]
        return value

    def logic(self):  # the loosest; left to right
        value = self.comparison()
        while word := self.take("AND", "OR", "XOR"):
            left = self.live(to_boolean, value)
            known = not self.dead and word != "XOR" and left is (word == "OR")
            self.dead += known
            right = self.comparison()
            self.dead -= known
            if known:
                value = left
            elif word == "XOR":
                value = self.live(lambda a, b: a != to_boolean(b), left, right)
            else:
                value = self.live(to_boolean, right)
        return value

    def comparison(self):
        value = self.sum()
        while sign := self.take("=", "!=", "<>", "<", "<=", ">", ">="):
            value = self.live(self.compare, sign, value, self.sum())
        return value

    def compare(self, sign, a, b):
        if sign in ("=", "!=", "<>"):
            return equal(cast_like(a, b), b) == (sign == "=")
        a, b = to_integer(a), to_integer(b)
        return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[sign]

    def sum(self):
        value = self.product()
        while sign := self.take("+", "-"):
            value = self.live(self.arithmetic, sign, value, self.product())
        return value

    def product(self):
        value = self.member()
        while sign := self.take("*", "/", "%"):
            value = self.live(self.arithmetic, sign, value, self.member())
        return value

    def arithmetic(self, sign, a, b):
        a, b = to_integer(a), to_integer(b)
        if sign == "+":
            return in_range(a + b)
        if sign == "-":
            return in_range(a - b)
        if sign == "*":
            return in_range(a * b)
        if b == 0:
            raise Failed
        whole = abs(a) // abs(b)
        whole = whole if (a >= 0) == (b > 0) else -whole
        return in_range(whole if sign == "/" else a - b * whole)

    def member(self):  # IN
        value = self.pattern()
        while True:
            start = self.at
            negated = bool(self.take("NOT"))
            if not self.take("IN"):
                self.at = start
                return value
            assert self.take("(")
            found, first = False, True
            while first or self.take(","):
                first = False
                known = found and not self.dead
                self.dead += known
                item = self.logic()
                if not self.dead:
                    found = equal(value, cast_like(item, value))
                self.dead -= known
            assert self.take(")")
            value = None if self.dead else found is not negated

    def pattern(self):  # LIKE
        value = self.unary()
        while True:
            start = self.at
            negated = bool(self.take("NOT"))
            if not self.take("LIKE"):
                self.at = start
                return value
            pattern = self.string()
            value = None if self.dead else like(to_string(value), pattern) is not negated

    def string(self):
        kind, _, text = self.tokens[self.at]
        assert kind == "string"
        self.at += 1
        return text[1:-1].replace("\\" + text[0], text[0])

    def unary(self):
        if self.take("NOT"):
            return self.live(lambda v: not to_boolean(v), self.unary())
        if self.take("-"):
            if self.at < len(self.tokens) and self.tokens[self.at][1] == str(HIGH + 1):
                self.at += 1
                return LOW
            return self.live(lambda v: in_range(-to_integer(v)), self.unary())
        if self.take("("):
            value = self.logic()
            assert self.take(")")
            return value
        if self.take("EXISTS"):
            self.at += 1
            return self.tokens[self.at - 1][2].lower() in self.event
        kind, word, text = self.tokens[self.at]
        if kind == "string":
            return self.string()
        assert kind == "word", text
        self.at += 1
        if word in ("TRUE", "FALSE"):
            return word == "TRUE"
        if text.isdigit():
            return int(text)
        if self.take("("):
            return self.call(word)
        return self.live(self.attribute, text.lower())

    def attribute(self, name):
        if name not in self.event:
            raise Failed
        return self.event[name]

    def call(self, name):
        arguments = []
        if not self.take(")"):
            arguments.append(self.logic())
            while self.take(","):
                arguments.append(self.logic())
            assert self.take(")")
        return self.live(function, name, arguments)


def function(name, arguments):  # 3.5
    first = arguments[0] if arguments else ""
    if name == "INT":
        return to_integer(first)
    if name == "STRING":
        return to_string(first)
    if name == "BOOL":
        if isinstance(first, int) and not isinstance(first, bool):
            return first != 0
        return to_boolean(first)
    if name == "ABS":
        return in_range(abs(to_integer(first)))
    text = to_string(first)
    if name == "LENGTH":
        return len(text)
    if name == "CONCAT":
        return "".join(to_string(each) for each in arguments)
    if name == "CONCAT_WS":
        return text.join(to_string(each) for each in arguments[1:])
    if name == "LOWER":
        return text.lower()
    if name == "UPPER":
        return text.upper()
    if name == "TRIM":
        return text.strip(" \t\n")
    number = to_integer(arguments[1])
    if name in ("LEFT", "RIGHT"):
        if number < 0:
            raise Failed
        if len(text) <= number:
            return text
        return text[:number] if name == "LEFT" else text[len(text) - number :]
    assert name == "SUBSTRING"
    length = to_integer(arguments[2]) if len(arguments) > 2 else len(text)
    if number > len(text) or number < -len(text) or length < 0:
        raise Failed
    if number == 0:
        return ""
    kept = text[number - 1 :] if number > 0 else text[number:]
    return kept[:length]


def holds(filter_, event):
    """Whether an event passes a filter of the Subscriptions API: TRUE or FALSE, never an error."""
    ((dialect, body),) = filter_.items()
    if dialect == "all":
        return all(holds(each, event) for each in body)
    if dialect == "any":
        return any(holds(each, event) for each in body)
    if dialect == "not":
        return not holds(body, event)
    if dialect == "sql":
        return passes(body, event)
    test = {"exact": str.__eq__, "prefix": str.startswith, "suffix": str.endswith}[dialect]
    return all(
        name in event and test(to_string(event[name]), value) for name, value in body.items()
    )
