"""CESQL through `Filter`, against its oracle: any index, any form of messages, before and after."""

import json
import random
import re
from datetime import datetime

import naive_cesql
import pyarrow as pa
import pytest
from batchings import LONGER

import germane
from germane.language.subscriptions import as_condition

NAMES = ("source", "type", "subject", "ext", "n", "m", "flag", "other", "when")
TEXTS = ("a", "ab", "b", "A", "a%", "5", "05", "+5", "-3", "6", "true", "FALSE", "", "x_y", "a\\b")
PATTERNS = ("a%", "%b", "a_", "_", "%", "5", "tr%", "a\\%", "%\\_y", "a\\b", "", "%a%", "5%", "A")
FUNCTIONS = ("INT", "STRING", "BOOL", "LENGTH", "LOWER", "upper", "ABS", "TRIM")
NUMBERS = (0, 1, 5, -3, 6, 7, 2147483647, -2147483648)


def types_at_random(rng):
    """What each attribute is in one filter: germane gives an attribute one type."""
    kinds = {name: rng.choice(("string", "string", "integer", "boolean")) for name in NAMES}
    return kinds | {"source": "string", "type": "string", "subject": "string"}


def event_at_random(rng, kinds):
    make = {
        "string": lambda: rng.choice(TEXTS),
        "integer": lambda: rng.choice(NUMBERS),
        "boolean": lambda: rng.random() < 0.5,
    }
    return {name: make[kind]() for name, kind in kinds.items() if rng.random() < 0.75}


def quoted(rng, text):
    quote = rng.choice("'\"")
    return quote + text.replace(quote, "\\" + quote) + quote


def value_at_random(rng, depth):
    kind = rng.randrange(9 if depth > 0 else 5)
    if kind < 2:
        name = rng.choice(NAMES)
        return name.upper() if rng.random() < 0.1 else name
    if kind == 2:
        return quoted(rng, rng.choice(TEXTS))
    if kind == 3:
        return str(rng.choice(NUMBERS))
    if kind == 4:
        return rng.choice(("TRUE", "false"))
    a, b = value_at_random(rng, depth - 1), value_at_random(rng, depth - 1)
    if kind == 5:
        return f"({a} {rng.choice('+-*/%')} {b})"
    if kind == 6:
        return f"{rng.choice(FUNCTIONS)}({a})"
    if kind == 7:
        return rng.choice((f"CONCAT({a}, {b})", f"CONCAT_WS('', {a}, {b})", f"- {a}"))
    return rng.choice((f"LEFT({a}, {b})", f"RIGHT({a}, 1)", f"SUBSTRING({a}, {b})", f"({a})"))


def leaf_at_random(rng, depth):
    kind = rng.randrange(8)
    name = rng.choice(NAMES)
    a = name if rng.random() < 0.7 else value_at_random(rng, depth)
    if kind < 3:
        sign = rng.choice(("=", "=", "=", "!=", "<>", "<", "<=", ">", ">="))
        plain = rng.random() < 0.6
        b = value_at_random(rng, -1) if plain else value_at_random(rng, depth)
        return f"{a} {sign} {b}" if rng.random() < 0.85 else f"{b} {sign} {a}"
    if kind == 3:
        negated = rng.choice(("", "NOT "))
        return f"{a} {negated}LIKE {quoted(rng, rng.choice(PATTERNS))}"
    if kind == 4:
        items = [
            value_at_random(rng, -1 if rng.random() < 0.9 else 1) for _ in range(rng.randint(1, 4))
        ]
        if rng.random() < 0.7:
            items = [quoted(rng, rng.choice(TEXTS)) for _ in items]
        return f"{a} {rng.choice(('', 'NOT '))}IN ({', '.join(items)})"
    if kind == 5:
        return f"EXISTS {name}"
    if kind == 6:
        return name
    return value_at_random(rng, depth)


def text_at_random(rng, depth=3):
    if depth == 0 or rng.random() < 0.3:
        return leaf_at_random(rng, 2)
    kind = rng.randrange(8)
    a, b = text_at_random(rng, depth - 1), text_at_random(rng, depth - 1)
    if kind == 0:
        return f"NOT ({a})"
    if kind == 1:
        return f"NOT {a}"
    if kind == 2:
        return f"({a}) XOR ({b})"
    if kind == 3:
        return f"{a} {rng.choice(('AND', 'OR', 'xor'))} {b}"  # precedence decides
    word = rng.choice(("AND", "and", "OR"))
    return (
        f"({a}) {word} ({b})"
        if rng.random() < 0.7
        else f"({a}) {word} ({b}) {word} {text_at_random(rng, 0)}"
    )


def filter_at_random(rng, depth=3):
    kind = rng.randrange(7) if depth else rng.randrange(4)
    if kind < 3:
        values = [text for text in TEXTS if text]
        names = rng.sample(NAMES, rng.randint(1, 2))
        return {("exact", "prefix", "suffix")[kind]: {name: rng.choice(values) for name in names}}
    if kind == 3:
        return {"sql": text_at_random(rng, 2)}
    if kind == 4:
        return {"not": filter_at_random(rng, depth - 1)}
    several = [filter_at_random(rng, depth - 1) for _ in range(rng.randint(1, 3))]
    return {"all" if kind == 5 else "any": several}


def work_at_random(rng, n_profiles, n_events):
    """Profiles (dialect, text), events, and for each event who gets it."""
    kinds = types_at_random(rng)
    texts = []
    for _ in range(n_profiles):
        if rng.random() < 0.7:
            texts.append(("cesql", text_at_random(rng)))
        else:
            texts.append(
                ("filters", json.dumps([filter_at_random(rng) for _ in range(rng.randint(0, 2))]))
            )
    events = [event_at_random(rng, kinds) for _ in range(n_events)]
    answers = [[i for i, given in enumerate(texts) if passes(given, event)] for event in events]
    return kinds, texts, events, answers


def passes(given, event):
    dialect, text = given
    if dialect == "cesql":
        return naive_cesql.passes(text, event)
    return all(naive_cesql.holds(each, event) for each in json.loads(text))


def as_table(events, kinds):
    arrow = {"string": pa.string(), "integer": pa.int64(), "boolean": pa.bool_()}
    columns = {n: pa.array([e.get(n) for e in events], arrow[k]) for n, k in kinds.items()}
    return pa.table(columns)


def subscribed(f, texts):
    dialects, conditions = zip(*texts, strict=True)
    f.subscribe_many(range(len(texts)), conditions, dialect=list(dialects))
    return f


INDEXES = ("scan", "eager", "partial", "gbu", "agile", "auto")


@pytest.mark.parametrize("seed", range(6 * LONGER))
def test_matches_are_the_oracles(seed, tmp_path, small_tables):
    rng = random.Random(seed)
    kinds, texts, events, answers = work_at_random(rng, 120, 60)
    settings = {"index": INDEXES[seed % len(INDEXES)]}
    if seed % 3 == 1:
        names = {"string": "string", "integer": "number", "boolean": "boolean"}
        settings["schema"] = {name: names[kind] for name, kind in kinds.items()}
    if seed % 4 == 1:
        settings["structure"] = "skiplist"
    f = subscribed(germane.Filter(**settings), texts)
    for event, answer in zip(events[:20], answers, strict=False):
        assert f.match(event) == answer, event
        explained = rng.randrange(len(texts))
        assert f.explain(explained, event).matched is (explained in answer)
    assert f.match_many(events).by_message() == answers
    f.save(tmp_path / "saved")
    f = germane.Filter.load(tmp_path / "saved")
    assert f.match_many(as_table(events, kinds)).by_message() == answers
    f._check()


@pytest.mark.parametrize("seed", range(2 * LONGER))
@pytest.mark.parametrize("form", ["dicts", "arrow"])
def test_a_sequence_is_the_oracles(seed, form, small_tables):
    """Subscriptions of both dialects come and go among the messages."""
    rng = random.Random(1000 + seed)
    kinds, texts, events, _ = work_at_random(rng, 80, 80)
    kinds |= {"ce.id": "string"}
    sequence, subscribers, answers = [], {}, {}

    def subscribe(name, dialect, text):
        event = {"kind": "subscribe", "id": name, "condition": text, "dialect": dialect}
        sequence.append(event)
        subscribers[name] = ("cesql" if dialect is None else dialect, text)

    waiting = list(enumerate(texts))
    plain = f"subject = '{rng.choice(TEXTS)}'"  # means the same in our own dialect
    for event in events:
        for number, (dialect, text) in waiting[: rng.randint(0, 4)]:
            subscribe(f"p{number}", dialect, text)
            if number % 7 == 0:
                subscribe(f"q{number}", None, plain)
                subscribe(f"i{number}", "cesql", f"id = 'm{rng.randrange(80)}'")
            waiting.remove((number, (dialect, text)))
        if subscribers and rng.random() < 0.2:
            gone = rng.choice(sorted(subscribers))
            del subscribers[gone]
            sequence.append({"kind": "unsubscribe", "id": gone})
        name = f"m{len(answers)}"
        own = name
        if rng.random() < 0.3:
            own = f"m{rng.randrange(80)}"
            event = event | {"ce.id": own}
        sequence.append({"kind": "message", "id": name} | event)
        seen = event | {"id": own}
        answers[name] = sorted(p for p, given in subscribers.items() if passes(given, seen))
    for seq, event in enumerate(sequence):
        event["seq"] = seq
    f = germane.Filter()
    found = {name: [] for name in answers}
    size = rng.choice((7, 50, 1000))
    for start in range(0, len(sequence), size):
        part = sequence[start : start + size]
        deliveries = f.process(as_events(part, kinds) if form == "arrow" else part)
        assert not deliveries.rejected
        table = deliveries.to_arrow().to_pylist()
        for row in table:
            found[row["message"]].append(row["profile"])
    assert {name: sorted(profiles) for name, profiles in found.items()} == answers


def as_events(sequence, kinds):
    columns = as_table(sequence, kinds)
    for name in ("kind", "id", "condition", "dialect"):
        columns = columns.append_column(
            name, pa.array([e.get(name) for e in sequence], pa.string())
        )
    return columns.append_column("seq", pa.array([e["seq"] for e in sequence], pa.int64()))


# by example ---------------------------------------------------------------------------------------


def fits(text, event, dialect="cesql"):
    f = germane.Filter()
    f.subscribe("p", text, dialect=dialect)
    return f.match(event) == ["p"]


@pytest.mark.parametrize(
    ("text", "event", "wanted"),
    [
        ("true OR false AND false", {}, False),  # from left to right
        ("NOT a = b", {"a": False, "b": True}, True),  # (NOT a) = b
        ("1 + 2 * 3 = 7 AND 2 * 3 % 4 = 2", {}, True),
        ("4 -1 = 3", {}, True),
        ("n = 5", {"n": 5.0}, True),  # a number of ours that is an integer
        ("n = 5", {"n": 5.5}, False),
        ("n < 6", {"n": 5.5}, False),  # 5.5 is a string
        ("n = '5.5'", {"n": 5.5}, True),
        ("n = 3000000000", {"n": 3000000000}, None),  # no integer of 32 bits
        ("n = '3000000000'", {"n": 3000000000}, True),
        ("n + 1 > n", {"n": 2147483647}, False),  # overflows
        ("x", {"x": True}, True),
        ("x", {"x": "true"}, False),  # no boolean
        ("5", {}, False),
        ("x AND TRUE", {"x": "true"}, True),  # cast
        ("x AND TRUE", {"x": 1}, False),  # an integer is not
        ("BOOL(x)", {"x": 1}, True),
        ("a = 1 OR b = 2", {"b": 2}, False),  # the missing a decides
        ("b = 2 OR a = 1", {"b": 2}, True),
        ("NOT EXISTS a OR a = 1", {}, True),
        ("LEFT(a, 2) = 'ab'", {"a": "abc"}, True),
        ("a LIKE '50\\%'", {"a": "50%"}, True),
        ("a LIKE '50\\%'", {"a": "501"}, False),
        ("a IN ('abc', '5')", {"a": 5}, False),  # 'abc' is no integer
        ("a IN ('5', 'abc')", {"a": 5}, True),
        ("when = '2018-04-26T12:48:09Z'", {"when": datetime(2018, 4, 26, 12, 48, 9)}, True),
        ("place LIKE '%52.5%'", {"place": [52.5, 13.4]}, True),
        ("SOURCE = 'a'", {"source": "a"}, True),
        ("id = 'x'", {"id": "x"}, True),
        ("id = 'x'", {"ce.id": "x", "id": "y"}, True),
    ],
)
def test_what_differs_from_our_own(text, event, wanted):
    if wanted is None:
        with pytest.raises(germane.ConditionError):
            fits(text, event)
    else:
        assert fits(text, event) is wanted


@pytest.mark.parametrize(
    "text",
    [
        "type = 'x' AND source LIKE 'a%'",
        "type IN ('x', 'y') AND EXISTS subject AND NOT EXISTS ext",
        "n < 5 AND n >= -5 AND flag",
        "ext = 'a' OR other = 'b' OR ext = 'c'",
        "ext IN ('a', 'b')",
        "n IN (1, 2, 3)",
        "INT(n) = 5",
    ],
)
def test_is_indexed_whole(text):
    f = germane.Filter()
    f.subscribe("p", text, dialect="cesql")
    assert all(shape.forms and not shape.program for shape in f._conjunctions.shapes)


def test_what_can_be_indexed_is_and_the_rest_is_asked_of_candidates_alone():
    f = germane.Filter()
    f.subscribe("p", "type = 'x' AND UPPER(subject) = 'A' AND n < 5", dialect="cesql")
    (shape,) = f._conjunctions.shapes
    assert len(shape.forms) == 3  # type, subject, INT(n)
    asked = f._texts.view.truth[0]
    assert f.match({"type": "y", "subject": "a", "n": 1}) == []
    assert f._texts.view.truth[0] == asked
    assert not f._texts._verdicts
    assert f.match_many([{"type": "x", "subject": "a", "n": i % 2} for i in range(50)]).n_messages
    assert len(f._texts._verdicts) == 1


def test_both_dialects_share_a_column():
    f = germane.Filter()
    f.subscribe("ours", "type = 'x' AND ext = 'a'")
    f.subscribe("theirs", "type = 'x' AND ext = 'a'", dialect="cesql")
    assert len(f._conjunctions.shapes) == 1
    assert f.attributes == ["type", "ext"]
    assert f.match({"type": "x", "ext": "a"}) == ["ours", "theirs"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = ", "found the end"),
        ("a = 'x", "does not end"),
        ("a = 'x''y'", "quote within a string"),
        ("a LIKE 5", "a pattern in quotes"),
        ("FOO(a)", "no function"),
        ("UPER(a) = 'A'", "did you mean UPPER"),
        ("LEFT(a)", "does not take 1 argument"),
        ("a_b = 1", "letters and digits"),
        ("context.x = 1", "cannot stand here"),
        ("a IN ()", "found ')'"),
        ("EXISTS 5", "an attribute after EXISTS"),
        ("a NOT = 5", "LIKE or IN"),
        ("2147483648 = n", "32 bits"),
        ("(" * 500 + "a" + ")" * 500, "nested deeper"),
        ("NOT " * 5000 + "a", "nested deeper"),
        ("a" + " = 1" * 5000, "nested deeper"),
        ("", "found the end"),
    ],
)
def test_errors_say_where_and_what(text, words):
    f = germane.Filter()
    for call in (f.check, lambda text, dialect: f.subscribe("p", text, dialect=dialect)):
        with pytest.raises(germane.ConditionError, match=re.escape(words)):
            call(text, dialect="cesql")
    assert not len(f)


@pytest.mark.parametrize(
    "text",
    [
        "{}", "[1]", "[{}]", '[{"exact": {}}]', '[{"exact": {"a": ""}}]', '[{"exact": {"a": 5}}]',
        '[{"any": []}]', '[{"near": {"a": "b"}}]', '[{"sql": 5}]', "[", '[{"not": []}]',
        '[{"exact": {"a": "b"}, "prefix": {"a": "b"}}]', "[" * 5000,
        '[{"not": ' * 100 + '{"exact": {"a": "b"}}' + "}" * 100 + "]",
    ],
)  # fmt: skip
def test_filters_that_are_none(text):
    with pytest.raises(germane.GermaneError):
        germane.Filter().check(text, dialect="filters")


def test_filters_escape_what_is_a_pattern():
    assert fits('[{"prefix": {"a": "5%_\\\\"}}]', {"a": "5%_\\x"}, "filters")
    assert not fits('[{"prefix": {"a": "5%_"}}]', {"a": "5xyz"}, "filters")
    assert fits('[{"suffix": {"a": "_%"}}]', {"a": "x_%"}, "filters")


def test_a_subscription_as_a_condition():
    text, dialect = as_condition(
        [{"suffix": {"subject": ".png"}}], ["talk", "walk"], "/a", "price < context.limit"
    )
    f = germane.Filter()
    f.update("ann", {"limit": 5})
    f.subscribe("p", text, context="ann", dialect=dialect)
    event = {"type": "walk", "source": "/a", "subject": "x.png", "price": 4}
    assert f.match(event) == ["p"]
    for change in ({"type": "run"}, {"source": "/b"}, {"subject": "x"}, {"price": 6}):
        assert f.match(event | change) == []
    with pytest.raises(germane.InvalidValue, match="has no context"):
        f.check(text, dialect=dialect)
    assert as_condition(condition="a = 1") == ("a = 1", "germane")
    assert as_condition([{"sql": "a = 1"}]) == ("a = 1", "cesql")


def test_no_other_dialects():
    f = germane.Filter()
    for call in (f.check, lambda text, dialect: f.subscribe("p", text, dialect=dialect)):
        with pytest.raises(germane.InvalidValue, match="a dialect is one of"):
            call("a = 1", dialect="klingon")
    rejected = f.process(
        [{"seq": 1, "kind": "subscribe", "id": "p", "condition": "a = 1", "dialect": "klingon"}]
    ).rejected
    assert len(rejected) == 1


def test_a_closed_schema_refuses_what_it_does_not_have():
    f = germane.Filter(schema={"price": "number"})
    with pytest.raises(germane.UnknownAttribute, match="prize"):
        f.check("prize = 5", dialect="cesql")
    f.check("price = 5 AND EXISTS id", dialect="cesql")


@pytest.mark.parametrize("seed", range(3))
def test_what_nobody_reads_may_be_left_out(seed):
    rng = random.Random(seed)
    _, texts, events, answers = work_at_random(rng, 4, 40)
    f = subscribed(germane.Filter(), texts)
    f.subscribe("own", "subject = other")
    reads = f.reads
    assert {"subject", "other"} <= reads
    some = [{n: v for n, v in event.items() if n in reads} for event in events]
    found = germane.Filter()
    subscribed(found, texts)
    assert found.match_many(some).by_message() == answers


def test_subscriptions_of_the_service():
    """An sql filter that errs is FALSE, so its `not` is TRUE; attributes are compared as text."""
    condition_of = pytest.importorskip("germane.service.subscriptions").condition_of
    f = germane.Filter()
    f.update("ann", {"low": 5})
    for name, body in {
        "not sql": {"filters": [{"not": {"sql": "missing = 1"}}]},
        "any": {"filters": [{"any": [{"sql": "missing = 1"}, {"exact": {"n": "5"}}]}]},
        "slash": {"filters": [{"exact": {"room": "a\\b"}}, {"sql": "EXISTS n"}]},
        "both": {"filters": [{"sql": "n = 5"}], "condition": "price < context.low"},
        "all": {},
    }.items():
        condition = condition_of(body)
        f.subscribe(name, condition.text, context="ann", dialect=condition.dialect)
    event = {"n": 5, "room": "a\\b", "price": 4}
    assert f.match(event) == ["all", "any", "both", "not sql", "slash"]
    assert f.match({"n": 6, "room": "ab", "price": 4}) == ["all", "not sql"]
    with pytest.raises(germane.GermaneError):
        condition_of({"filters": [{"near": {}}]})


def test_every_attribute_of_an_event_is_there_for_the_service():
    attributes_of = pytest.importorskip("germane.service.cloudevents").message_attributes
    event = {"specversion": "1.0", "id": "7", "source": "/s", "type": "t", "data": {"n": 5}}
    text = "EXISTS specversion AND EXISTS id AND EXISTS type AND EXISTS SOURCE AND id = 7 AND n = 5"
    assert fits(text, attributes_of(event))
    assert fits(
        "datacontenttype LIKE '%json'", attributes_of(event | {"datacontenttype": "a/json"})
    )
