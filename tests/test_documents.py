"""Approximate XML by example: the paper's, bad input, explanations, feedback, the command."""

import random

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import germane
from germane import ConditionError, Filter, InvalidValue, Transformations
from germane.approx.documents import parse
from germane.cli.app import app
from germane.filter.documents import MatchesEverything
from germane.language.patterns import parse_pattern

QUERY = """document MATCHES 'book[title["XML"] and author["Smith"]]' COST < 10"""
TABLE_1 = {
    "rename": {("book", "article"): 4, ("title", "abstract"): 4},
    "rename_value": {("XML", "RDF"): 7},
    "skip": {"title": 10},
    "skip_value": {"XML": 20},
}
FIGURE_3 = """<doc>
  <book>
    <abstract>RDF and its relation to XML</abstract>
    <author>Smith</author>
    <year>2005</year>
    <title>Storing RDF in a DB</title>
  </book>
  <article>
    <year>2005</year>
    <title>RDF in a DB</title>
    <author>Smith</author>
    <comment>not about XML</comment>
  </article>
</doc>"""
ARTICLE = "<article><title>RDF in a DB</title><author>Smith</author></article>"


@pytest.fixture
def paper():
    f = Filter(transformations=Transformations(**TABLE_1))
    f.subscribe("query 1", QUERY)
    return f


def test_the_papers_example(paper):
    assert paper.costs({"document": FIGURE_3}) == {"query 1": 4.0}
    assert paper.costs({"document": ARTICLE}) == {}
    paper.subscribe("wider", QUERY.replace("10", "12"))
    assert paper.costs({"document": ARTICLE}) == {"wider": 11.0}


def test_the_papers_example_step_by_step(paper):
    told = paper.explain("query 1", {"document": FIGURE_3})
    assert told.matched
    (step,) = told.steps
    assert step.left == 4.0
    assert step.detail.splitlines() == [
        "cost 4",
        "book found at /doc/book: 0",
        "├─ author found at /doc/book/author: 0",
        '│  └─ "smith" found at /doc/book/author: 0',
        "└─ title renamed to abstract at /doc/book/abstract: 4",
        '   └─ "xml" found at /doc/book/abstract: 0',
        "cost 11",
        "book renamed to article at /doc/article: 4",
        "├─ author found at /doc/article/author: 0",
        '│  └─ "smith" found at /doc/article/author: 0',
        "└─ title found at /doc/article/title: 0",
        '   └─ "xml" renamed to "rdf" at /doc/article/title: 7',
    ]
    away = paper.explain("query 1", {"document": "<cd><title>XML</title></cd>"})
    assert not away.matched
    assert "its root is nowhere" in str(away)
    skipped = Filter(transformations=Transformations(defaults={"skip_value": 2, "insert": 1}))
    skipped.subscribe("p", """document MATCHES 'a["x" and "y"]' COST < 4""")
    text = str(skipped.explain("p", {"document": "<a><b>x</b></a>"}))
    assert '"y" skipped: 2' in text
    assert "passed over b: 1" in text


def test_a_profile_of_every_kind_of_predicate():
    topic = germane.ContentGraph.from_edges([("Sports", "Baseball")])
    f = Filter(graphs={"topic": topic}, transformations=Transformations(**TABLE_1))
    f.subscribe(
        "p",
        QUERY + " AND topic WITHIN 'Sports' AND price BETWEEN 1 AND context.budget "
        "AND source LIKE 'lib%' AND context.unread < 10",
        context="ann",
    )
    message = {"document": FIGURE_3, "topic": "Baseball", "price": 5, "source": "library"}
    assert f.match(message) == []
    f.update("ann", {"budget": 7, "unread": 3})
    assert f.costs(message) == {"p": 4.0}
    assert f.costs({**message, "price": 8}) == {}
    assert f.costs({**message, "topic": []}) == {}
    assert f.costs({**message, "source": "shop"}) == {}
    f.update("ann", {"unread": 10})
    assert f.costs(message) == {}
    assert [s.truth for s in f.explain("p", message).steps].count(True) == 4


@pytest.mark.parametrize(
    "column",
    [
        pa.array([FIGURE_3, None, "<broken>", ARTICLE]),
        pa.array([FIGURE_3, None, "<broken>", ARTICLE], pa.large_string()),
        pa.array([FIGURE_3.encode(), None, b"<broken>", ARTICLE.encode()]),
    ],
)
def test_columns_of_documents(paper, column):
    found = paper.match_many(pa.table({"document": column, "price": [1, 2, 3, 4]}))
    assert found.to_arrow().to_pylist() == [{"message": 0, "profile": "query 1", "cost": 4.0}]
    assert list(found.errors) == [2]
    assert "not well-formed" in str(found.errors[2])
    events = pa.table(
        {"seq": range(4), "kind": ["message"] * 4, "id": range(4), "document": column}
    )
    done = paper.process(events)
    assert done.to_arrow().to_pylist() == [
        {"seq": 0, "message": 0, "profile": "query 1", "cost": 4.0}
    ]
    assert [rejected.seq for rejected in done.rejected] == [2]


def test_subscriptions_between_messages_of_a_batch(paper):
    """A document meets the patterns that were there before it."""
    told = paper.process(
        [
            {"seq": 1, "kind": "message", "id": "a", "document": FIGURE_3},
            {"seq": 2, "kind": "subscribe", "id": "year", "context": None,
             "condition": """document MATCHES '@none or x' COST < 1"""},
            {"seq": 3, "kind": "subscribe", "id": "year", "context": None,
             "condition": """document MATCHES 'year["2005"]' COST < 1"""},
            {"seq": 4, "kind": "message", "id": "b", "document": FIGURE_3},
            {"seq": 5, "kind": "unsubscribe", "id": "query 1"},
            {"seq": 6, "kind": "message", "id": "c", "document": FIGURE_3},
        ]
    )  # fmt: skip
    assert told.by_message() == [["query 1"], ["query 1", "year"], ["year"]]
    assert [rejected.seq for rejected in told.rejected] == [2]


def test_own_transformations_come_first(paper):
    own = Transformations(rename_value={("xml", "rdf"): 1})
    paper.subscribe("mine", QUERY, transformations=own)
    assert paper.costs({"document": ARTICLE}) == {"mine": 5.0}
    paper.unsubscribe("mine")
    assert paper.costs({"document": ARTICLE}) == {}


# bad input ---------------------------------------------------------------------------------------

LAUGHS = """<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;&x;&x;">]><a>&y;</a>"""
OUTSIDE = """<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>"""


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("", "empty"),
        ("no xml", "not well-formed"),
        ("<a><b></a>", "not well-formed"),
        ("<a/><b/>", "not well-formed"),
        (b'<?xml version="1.0" encoding="utf-8"?><a>\xff</a>', "not well-formed"),
        (b'<?xml version="1.0" encoding="klingon"?><a/>', "not well-formed"),
        ("<a>\ud800</a>", "no text"),
        ("<a>\x00</a>", "not well-formed"),
        (LAUGHS, "entities"),
        (OUTSIDE, "entities"),
        ('<!DOCTYPE a [<!ENTITY x "ha">]><a k="&x;"/>', "entities"),
        ('<!DOCTYPE a SYSTEM "http://localhost:1/a.dtd"><a>&nbsp;</a>', "entities|not defined"),
        ("<a>&nbsp;</a>", "not well-formed"),
        ("<a>" * 10_000 + "</a>" * 10_000, "deep"),
        ("<a>" + "<b/>" * 100_001 + "</a>", "elements"),
        (b"<a>" + b" " * (10 << 20) + b"</a>", "bytes"),
        ("<a k='1' k='2'/>", "not well-formed"),
        (5, "text or bytes"),
    ],
)
def test_documents_that_are_refused(paper, document, reason):
    with pytest.raises(InvalidValue, match=reason):
        paper.match({"document": document})
    assert paper.costs({"document": FIGURE_3}) == {"query 1": 4.0}


def test_documents_that_are_taken():
    assert parse("<!DOCTYPE html><a>x</a>").texts == ["x"]
    assert parse('<?xml version="1.0" encoding="utf-16"?><a>ü</a>').texts == ["ü"]
    utf16 = '<?xml version="1.0" encoding="utf-16"?><a>ü</a>'.encode("utf-16")
    assert parse(utf16).texts == ["ü"]
    mixed = parse("<a>Ap&#102;<!-- no -->el <![CDATA[<b>]]><b>x</b>pie</a>")
    assert mixed.texts[0].split() == ["Apfel", "<b>", "pie"]
    named = parse('<n:a xmlns:n="urn:x" n:k="v" j="w"/>')
    assert (named.labels, named.parents) == (["a", "@k", "@j"], [-1, 0, 0])


def test_texts_in_many_pieces_take_linear_time():
    """Each reference is a piece of its own."""
    assert parse("<a>" + "&amp;x " * 100_000 + "</a>").texts[0].count("x") == 100_000


def test_words_are_folded_and_whole():
    f = Filter()
    f.subscribe("p", """document MATCHES 'a["STRASSE nach Süden"]' COST < 1""")
    assert f.match({"document": "<a>Die Straße  nach SÜDEN.</a>"}) == ["p"]
    assert f.match({"document": "<a>Straßen nach Süden</a>"}) == []
    assert f.match({"document": "<a>Straße nach<b/>Süden</a>"}) == ["p"]
    assert f.match({"document": "<a>Straße <b>nach</b> Süden</a>"}) == []


def test_nothing_is_left_of_other_documents():
    """Numbers of words and labels are of a batch; batches differ."""
    f = Filter()
    f.subscribe("p", """document MATCHES 'a["x"]' COST < 1""")
    for document, expected in [("<a>x</a>", ["p"]), ("<b>x</b>", []), ("<a>y x</a>", ["p"])]:
        assert f.match({"document": document}) == expected
        listed = [{"document": d} for d in ("<c>y</c>", document, "<a/>")]
        assert f.match_many(listed).by_message() == [[], expected, []]


@pytest.mark.parametrize(
    ("pattern", "position", "message"),
    [
        ("", 0, "empty"),
        ("   ", 3, "empty"),
        ('"x"', 0, "begins with a label"),
        ("a[", 2, "found the end"),
        ("a[b", 1, "never closed"),
        ("a[b]]", 4, "the end of the pattern"),
        ("a]", 1, "the end of the pattern"),
        ("a[]", 2, "nothing in these brackets"),
        ("a[b c]", 4, "'and', 'or'"),
        ("a[b and]", 7, "a label or a value"),
        ("a[(b or c]", 9, "'and', 'or'"),
        ('a["x]', 2, "never closed"),
        ('a[""]', 2, "no word"),
        ('a["--"]', 2, "no word"),
        ("a['x']", 2, "straight double quotes"),
        ("a[b & c]", 4, "does not belong"),
        ("a[" * 60 + "b" + "]" * 60, 101, "deep"),
        ("a[" + " and ".join(["b"] * 300) + "]", None, "at most 100"),
        ("a" * 10_001, 0, "characters"),
    ],
)
def test_patterns_that_are_refused(pattern, position, message):
    with pytest.raises(ConditionError, match=message) as caught:
        parse_pattern(pattern)
    assert position is None or caught.value.position == position
    quoted = pattern.replace("'", "''")
    with pytest.raises(ConditionError, match=message):
        Filter().subscribe("p", f"document MATCHES '{quoted}' COST < 3")


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"rename": {("a", "b"): -1}}, "not negative"),
        ({"rename": {("a", "b"): float("nan")}}, "finite"),
        ({"skip": {"a": float("inf")}}, "finite"),
        ({"skip": {"a": True}}, "is a number"),
        ({"skip": {"a": "3"}}, "is a number"),
        ({"rename": {"a": 1}}, "pairs"),
        ({"rename": [("a", "b")]}, "no cost"),
        ({"rename_value": {("--", "b"): 1}}, "at least one word"),
        ({"insert": {"a b": 1}}, "without spaces"),
        ({"defaults": {"skips": 1}}, "no default"),
        ({"defaults": "cheap"}, "'paper' or maps"),
        ({"skip": ["a"]}, "maps names"),
    ],
)
def test_tables_that_are_refused(tables, message):
    with pytest.raises(InvalidValue, match=message):
        Transformations(**tables)


def test_a_pattern_that_matches_whatever_the_words_are_is_warned_of():
    f = Filter(transformations=Transformations(defaults="paper"))
    with pytest.warns(MatchesEverything, match="whatever the words"):
        f.subscribe("p", """document MATCHES 'a["x"]' COST < 6""")
    assert f.costs({"document": "<a>y</a>"}) == {"p": 5.0}


def test_documents_are_no_other_values(paper):
    with pytest.raises(germane.TypeMismatch, match="cannot be compared"):
        paper.subscribe("p", "document = 'x'")
    with pytest.raises(InvalidValue, match="contexts have not"):
        paper.update("ann", {"document": FIGURE_3})
    f = Filter()
    f.subscribe("p", "document = 'passport'")
    assert f.match({"document": "passport"}) == ["p"]
    with pytest.raises(germane.TypeMismatch, match="is a string"):
        f.subscribe("q", QUERY)


def test_tables_as_files_and_frames(tmp_path):
    table = Transformations(**TABLE_1, defaults="paper")
    assert Transformations.from_dict(table.as_dict()) == table
    path = tmp_path / "prices.yaml"
    path.write_text(
        "rename:\n- [book, article, 4]\n- [title, abstract, 4]\nrename_value:\n- [XML, RDF, 7]\n"
        "skip: {title: 10}\nskip_value: {XML: 20}\ndefaults: paper\n"
    )
    assert Transformations.read(path) == table
    frame = pa.table(
        {
            "kind": ["rename", "rename", "rename_value", "skip", "skip_value"],
            "from": ["book", "title", "XML", "title", "XML"],
            "to": ["article", "abstract", "RDF", None, None],
            "cost": [4, 4, 7, 10, 20],
        }
    )
    assert Transformations.from_table(frame, "paper") == table
    assert Transformations.from_table(frame.to_pandas(), "paper") == table
    for text, message in [
        ("[1]", "mapping"), ("skips: {}", "unknown table"), ("a: [", "while parsing"),
        ("rename: [[a]]", r"\[from, to, cost\]"), ("skip: {a: -1}", "not negative"),
    ]:  # fmt: skip
        path.write_text(text)
        with pytest.raises(InvalidValue, match=message):
            Transformations.read(path)


def test_patterns_come_and_go(monkeypatch):
    """Definitions that nobody holds are swept, and their numbers used again."""
    monkeypatch.setattr("germane.approx.patterns.FEW", 8)
    f = Filter()
    f.subscribe("stays", """document MATCHES 'a["x0"]' COST < 1""")
    for i in range(300):
        f.subscribe("p", f"""document MATCHES 'a["x{i}"]' COST < 1""")
        expected = ["p", "stays"] if i == 0 else ["p"]
        assert f.match({"document": f"<a>x{i}</a>"}) == expected
        f.unsubscribe("p")
        f.process([])
        f.update("ann", {"n": i})
    assert f._documents.patterns.capacity < 40
    assert f.match({"document": "<a>x0</a>"}) == ["stays"]
    f._check()
    f._documents.patterns._check()


# feedback ----------------------------------------------------------------------------------------


def library(seed, n):
    """Documents, and whether a simulated user wants them: books about XML, whatever the title is
    called, and not articles."""
    rng = random.Random(seed)
    for _ in range(n):
        kind = rng.choice(["book", "article"])
        place = rng.choice(["title", "abstract", "heading"])
        word = rng.choice(["XML", "XML", "SGML", "cooking"])
        text = f"<{kind}><{place}>All about {word}</{place}></{kind}>"
        yield text, kind == "book" and word == "XML"


def precision(f, seed, n, says):
    delivered = wanted = 0
    for document, relevant in library(seed, n):
        if f.match({"document": document}):
            delivered += 1
            wanted += relevant
            if says:
                f.feedback("user", {"document": document}, relevant)
    return wanted / delivered, wanted


def test_feedback_improves_precision():
    prices = Transformations(
        rename={("book", "article"): 2, ("title", "abstract"): 2, ("title", "heading"): 2},
        rename_value={("xml", "sgml"): 2},
    )
    f = Filter(transformations=prices)
    f.subscribe("user", """document MATCHES 'book[title["XML"]]' COST < 5""")
    before, found_before = precision(f, 1, 400, says=False)
    precision(f, 2, 100, says=True)
    after, found_after = precision(f, 1, 400, says=False)
    assert before < 0.45
    assert after > 0.95
    assert found_after == found_before  # and nothing that was wanted is lost
    assert f.feedback("user", {"document": "<x/>"}, False) is False


def test_feedback_stays_within_bounds_and_with_its_profile(paper, tmp_path):
    paper.subscribe("other", QUERY)
    for _ in range(20):
        paper.feedback("query 1", {"document": FIGURE_3}, relevant=True)
    assert paper.costs({"document": FIGURE_3}) == {"other": 4.0, "query 1": 1.0}
    paper.save(tmp_path / "f")
    again = Filter.load(tmp_path / "f")
    for _ in range(20):
        again.feedback("query 1", {"document": FIGURE_3}, relevant=False)
    assert again.costs({"document": FIGURE_3}) == {"other": 4.0}
    with pytest.raises(germane.UnknownProfile):
        again.feedback("nobody", {"document": FIGURE_3}, True)


# the command -------------------------------------------------------------------------------------


def test_the_command(tmp_path):
    files = {"p.txt": 'book[title["XML"] and author["Smith"]]', "d.xml": FIGURE_3}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "t.yaml").write_text("rename: [[book, article, 4], [title, abstract, 4]]\n")
    arguments = ["approx", "check", str(tmp_path / "p.txt"), str(tmp_path / "d.xml")]
    priced = [*arguments, "--transformations", str(tmp_path / "t.yaml")]
    told = CliRunner().invoke(app, priced)
    assert told.exit_code == 0
    assert "title renamed to abstract at /doc/book/abstract: 4" in told.output
    assert CliRunner().invoke(app, [*priced, "--threshold", "4"]).exit_code == 1
    (tmp_path / "p.txt").write_text("book[title")
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 2
    assert "never closed" in told.output


@pytest.mark.parametrize(
    "documents",
    [
        ["<a/>", "text"], ["text", "<a/>"], ["<a>", "text"], ["<a>", "<a/>", "text"], ["<a>"],
        [None], [b"<a/>", b"text"], [b"text", b"<a/>", None], [b"<a>"],
    ],
)  # fmt: skip
def test_a_column_of_documents_means_what_the_same_dicts_mean(documents):
    """Found by playing a service's log again, cut in another way: `document` was a string where it
    came in columns, XML where it came in dicts."""
    events = [
        {"seq": i, "kind": "message", "id": str(i), "document": text}
        for i, text in enumerate(documents)
    ]
    filters = germane.Filter(), germane.Filter()
    rejected = [
        [r.seq for r in f.process(given).rejected]
        for f, given in zip(filters, (events, pa.Table.from_pylist(events)), strict=True)
    ]
    assert rejected[0] == rejected[1]
    types = [f._schema.type_of("document") for f in filters]
    assert types[0] == types[1]


@pytest.mark.parametrize("name", ["document", "page"])
@pytest.mark.parametrize(
    "type_",
    [pa.binary(), pa.large_binary(), pa.binary(4), pa.dictionary(pa.int32(), pa.binary())],
    ids=str,
)
def test_bytes_in_a_column_are_documents(name, type_):
    column = pa.array([b"text", b"<a/>", None, b"<b/>"])
    column = column.dictionary_encode() if pa.types.is_dictionary(type_) else column.cast(type_)
    events = {"seq": range(4), "kind": ["message"] * 4, "id": range(4)}
    filters = germane.Filter(), germane.Filter()
    for given, f in zip(
        ({name: column}, [{name: value} for value in column.to_pylist()]), filters, strict=True
    ):
        batch = pa.table(given) if isinstance(given, dict) else given
        assert list(f.match_many(batch).errors) == [0]
        assert f.types == {name: "xml"}
        f.subscribe("p", f"{name} MATCHES 'b' COST < 1")
        assert f.match_many(batch).by_message() == [[], [], [], ["p"]]
    f = germane.Filter()
    done = f.process(pa.table({**events, name: column}))
    assert ([r.seq for r in done.rejected], f.types) == ([0], {name: "xml"})


def test_bytes_where_documents_cannot_be_are_refused_one_by_one():
    f = germane.Filter()
    f.subscribe("p", "document < context.limit", "ann")  # so it has an order
    for column in (pa.array([b"<a/>", None]), pa.array(["<a/>", None])):
        assert list(f.match_many(pa.table({"document": column})).errors) == [0]
    assert not f.types


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("name", ["document", "page"])
@pytest.mark.parametrize("value", ["<a/>", b"<a/>", "text"])
@pytest.mark.parametrize("arrow", [False, True])
def test_an_update_that_holds_a_document_sets_nothing(arrow, value, name, typed):
    f = Filter()
    if typed:
        f.match({name: b"<a/>"})
    before = dict(f.types)
    f.subscribe("p", "price < context.limit", "ann")
    events = [
        {"seq": 0, "kind": "update", "id": "ann", "limit": 5, name: value},
        {"seq": 1, "kind": "message", "id": "m", "price": 1},
    ]
    names = events[0] | events[1]
    table = pa.table({n: [event.get(n) for event in events] for n in names})
    done = f.process(table if arrow else events)
    holds = typed or isinstance(value, bytes) or (name == "document" and value == "<a/>")
    assert [r.seq for r in done.rejected] == [0] * holds
    assert len(done) == (not holds)
    fixed = {} if holds else {name: "string"}
    assert f.types == before | fixed | {"limit": "number", "price": "number"}
