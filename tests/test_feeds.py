"""Feeds become messages that a filter takes, or dead letters that say why; servers are spared."""

import gzip
import http.server
import threading
from datetime import UTC, datetime

import pytest

pytest.importorskip("feedparser")
pytest.importorskip("httpx")

import germane
from germane.agent import (
    Fetcher,
    Gazetteer,
    Names,
    Outline,
    Place,
    Reader,
    Seen,
    read_opml,
    write_opml,
)
from germane.agent import feeds as feeds_module
from germane.agent import fetcher as fetcher_module
from germane.agent.text import document_of, plain
from germane.approx.documents import parse

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
TOPICS = germane.ContentGraph.from_edges(
    [("Sports", "Baseball"), ("Baseball", "Red Sox"), ("News", "Weather"), ("News", "New York")]
)
PLACES = germane.ContentGraph.from_edges(
    [("World", "Massachusetts"), ("Massachusetts", "Massachusetts/Boston"), ("World", "Illinois"),
     ("Massachusetts", "Massachusetts/Springfield"), ("Illinois", "Illinois/Springfield")]
)  # fmt: skip
WORLD = Gazetteer(PLACES, [
    Place("Massachusetts", "Massachusetts"), Place("Illinois", "Illinois"),
    Place("Massachusetts/Boston", "Boston", (42.36, -71.06)),
    Place("Massachusetts/Springfield", "Springfield", (42.1, -72.59)),
    Place("Illinois/Springfield", "Springfield", (39.8, -89.65)),
])  # fmt: skip


def rss(*items, head=""):
    inside = "".join(f"<item>{item}</item>" for item in items)
    return f"<rss version='2.0' {head}><channel><title>T</title>{inside}</channel></rss>".encode()


@pytest.fixture
def reader():
    return Reader(TOPICS, WORLD)


def only(feed):
    assert len(feed.messages) == 1, feed.dead_letters
    return feed.messages[0]


# Entries -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        rss("<title>Red Sox win</title><link>https://e.org/1</link><guid>g1</guid>"
            "<pubDate>Mon, 16 Nov 2026 10:00:00 GMT</pubDate><category>Baseball</category>"),
        b"""<feed xmlns='http://www.w3.org/2005/Atom'><title>T</title><entry><id>g1</id>
        <title>Red Sox win</title><link href='https://e.org/1'/><category term='Baseball'/>
        <published>2026-11-16T10:00:00Z</published></entry></feed>""",
        b"""<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'
        xmlns='http://purl.org/rss/1.0/' xmlns:dc='http://purl.org/dc/elements/1.1/'>
        <channel rdf:about='c'><title>T</title></channel><item rdf:about='g1'>
        <title>Red Sox win</title><link>https://e.org/1</link><dc:subject>Baseball</dc:subject>
        <dc:date>2026-11-16T10:00:00Z</dc:date></item></rdf:RDF>""",
    ],
    ids=["rss", "atom", "rdf"],
)  # fmt: skip
def test_three_forms_give_one_message(reader, content):
    message = only(reader.read(content, "here", now=NOW))
    document = message.pop("document")
    assert message == {
        "id": "g1", "title": "Red Sox win", "topic": ["Baseball"], "link": "https://e.org/1",
        "published": datetime(2026, 11, 16, 10, tzinfo=UTC), "source": "T",
    }  # fmt: skip
    assert parse(document).labels[:2] == ["entry", "title"]


def test_a_message_reaches_who_subscribed(reader):
    f = germane.Filter(graphs={"topic": TOPICS, "place": PLACES})
    f.subscribe(
        "ann", "topic WITHIN 'Sports' AND place CONTAINS context.place AND "
        "published > TIMESTAMP '2026-11-15' AND document MATCHES 'entry[title[\"snow\"]]' COST < 1",
        context="ann",
    )  # fmt: skip
    f.update("ann", {"place": "Massachusetts/Boston"})
    message = only(reader.read(rss(
        "<title>Red Sox in the snow of Boston</title><pubDate>2026-11-16T10:00:00Z</pubDate>"
    ), "here", now=NOW))  # fmt: skip
    message.pop("id")
    assert f.match(message) == ["ann"]


@pytest.mark.parametrize(
    ("item", "topic"),
    [
        ("<title>x</title><category>Sports/Red Sox</category>", ["Sports", "Red Sox"]),
        ("<title>x</title><category>unheard of</category>", None),
        ("<title>Weather: red sox rained off</title>", ["Weather", "Red Sox"]),
        ("<title>x</title><description>New York in snow</description>", ["New York"]),
        ("<title>The new news</title>", ["News"]),
    ],
)
def test_topics_from_categories_and_words(reader, item, topic):
    assert only(reader.read(rss(item), "here")).get("topic") == topic


@pytest.mark.parametrize(
    ("item", "place"),
    [
        ("<title>x</title><dc:coverage>Massachusetts</dc:coverage>", ["Massachusetts"]),
        ("<title>Boston</title><dc:coverage>Illinois</dc:coverage>", ["Illinois"]),
        ("<title>x</title><georss:point>42.3 -71.0</georss:point>", ["Massachusetts/Boston"]),
        ("<title>x</title><georss:point>0 0</georss:point>", None),
        ("<title>Boston, Massachusetts</title>", ["Massachusetts/Boston"]),
        ("<title>Springfield, Illinois</title>", ["Illinois/Springfield"]),
        ("<title>Springfield</title>", None),  # which one?
        ("<title>a boston terrier</title>", None),
    ],
)
def test_places(reader, item, place):
    head = ("xmlns:dc='http://purl.org/dc/elements/1.1/' "
            "xmlns:georss='http://www.georss.org/georss'")  # fmt: skip
    assert only(reader.read(rss(item, head=head), "here")).get("place") == place


def test_duplicates_by_guid_link_and_text_with_bounded_memory():
    reader = Reader(seen=Seen(most=9))
    long = "It is the same long story, told again and again in another feed."
    first = rss(f"<title>A</title><guid>1</guid><link>https://e.org/1</link><description>{long}"
                "</description>")  # fmt: skip
    assert len(reader.read(first, "x").messages) == 1
    assert reader.read(first, "x").duplicates == 1
    same_link = rss("<title>B</title><guid>2</guid><link>https://e.org/1</link>")
    assert reader.read(same_link, "y").duplicates == 1
    same_text = rss(f"<title>A</title><guid>3</guid><description>{long}</description>")
    assert reader.read(same_text, "z").duplicates == 1
    other_feed = rss("<title>C</title><guid>1</guid>")
    assert len(reader.read(other_feed, "z").messages) == 1
    again = Reader(seen=Seen(9, reader.seen.state()))
    assert again.read(first, "x").duplicates == 1
    for i in range(20):
        again.read(rss(f"<title>N{i}</title><guid>n{i}</guid>"), "x")
    assert len(again.seen) <= 9
    assert len(again.read(first, "x").messages) == 1  # forgotten


# Bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b" \n ", "empty"),
        (b"<!DOCTYPE html><html><body>Hi</body></html>", "HTML"),
        (b"\x00\xff\xfe\x01", "no feed"),
        (b"{}", "no feed"),
        (rss(), "without entries"),
        (rss("<author>nobody</author>"), "without title"),
        (b"x" * (feeds_module.MAX_BYTES + 1), "bytes"),
    ],
    ids=["empty", "blank", "html", "binary", "json", "none", "void", "gigantic"],
)
def test_what_is_no_feed_is_a_dead_letter(reader, content, reason):
    feed = reader.read(content, "here")
    assert not feed.messages
    assert reason in feed.dead_letters[0].reason
    assert len(feed.dead_letters[0].raw) <= feeds_module.RAW


def test_entities_are_not_expanded(reader):
    bomb = "".join(
        f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    content = f'<!DOCTYPE r [<!ENTITY a "{"x" * 1000}">{bomb}]>'.encode() + rss(
        "<title>&i;</title>"
    )
    feed = reader.read(content, "here")
    assert all(len(m["title"]) <= feeds_module.TITLE for m in feed.messages)


@pytest.mark.parametrize("year", ["1900", "3000", "0001", "9999"])
def test_dates_beyond_belief_are_none(reader, year):
    item = f"<title>x</title><pubDate>{year}-01-01T00:00:00Z</pubDate>"
    assert "published" not in only(reader.read(rss(item), "here", now=NOW))


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [("utf-8", "utf-8"), ("iso-8859-1", "iso-8859-1"), ("utf-16", "utf-16"),
     ("iso-8859-1", "utf-8"), ("utf-8", "no-such-encoding")],
)  # fmt: skip
def test_encodings_right_and_wrong(reader, encoding, declared):
    text = "<rss version='2.0'><channel><item><title>Zürich Straße</title></item></channel></rss>"
    content = f"<?xml version='1.0' encoding='{declared}'?>{text}".encode(encoding)
    feed = reader.read(content, "here")
    if encoding == declared:
        assert only(feed)["title"] == "Zürich Straße"
    assert feed.messages or feed.dead_letters


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<b>Snow</b><script>alert(1)</script> &amp; ice", "Snow & ice"),
        ("&lt;script&gt;alert(1)&lt;/script&gt;", "alert(1)"),
        ("&amp;lt;img src=x onerror=alert(1)&amp;gt;ok", "ok"),
        ("<img src=x onerror=alert(1)>ok", "ok"),
        ("a < b and b > c", "a < b and b > c"),
        ("AT&T & co", "AT&T & co"),
        ("right\u202eleft\x07", "rightleft"),
        ("<style>p{}</style><p>one</p><p>two</p>", "one two"),
        ("<script>never closed", ""),
    ],
)
def test_markup_becomes_text(markup, text):
    assert plain(markup, 100) == text


def test_titles_of_strangers_hold_no_tags_and_links_no_scripts(reader):
    message = only(reader.read(rss(
        "<title>&lt;script&gt;alert(1)&lt;/script&gt;Hi &lt;b onclick=x&gt;you</title>"
        "<link>javascript:alert(1)</link><guid>7</guid>"
    ), "here"))  # fmt: skip
    assert "<" not in message["title"]
    assert "link" not in message


def test_documents_are_well_formed_whatever_the_text():
    nasty = "]]> <x> & \" ' " + "".join(map(chr, range(0x20))) + "\ud800\ufffe"
    assert parse(document_of([("title", plain(nasty, 1000))])).labels == ["entry", "title"]


def test_too_many_entries_are_said(reader, monkeypatch):
    monkeypatch.setattr(feeds_module, "MAX_ENTRIES", 3)
    feed = reader.read(rss(*(f"<title>{i}</title>" for i in range(5))), "here")
    assert len(feed.messages) == 3
    assert "2 entries after" in feed.dead_letters[0].reason


# Names and places --------------------------------------------------------------------------------


def test_the_longest_name_wins_and_is_not_looked_into():
    names = Names([("New York", "ny"), ("New York Yankees", "yankees"), ("York", "york")])
    found = names.find("The New York Yankees leave new york for York's walls")
    assert [f.nodes[0] for f in found] == ["yankees", "ny", "york"]


def test_names_against_a_plain_search():
    import random

    draw = random.Random(5)
    words = "ash bee cat dog elk fox gnu hen".split()
    pairs = {" ".join(draw.choices(words, k=draw.randint(1, 3))) for _ in range(25)}
    names = Names([(p, p) for p in sorted(pairs)])
    for _ in range(200):
        text = draw.choices(words, k=12)
        expected, at = [], 0
        while at < len(text):
            n = next((n for n in (3, 2, 1) if " ".join(text[at : at + n]) in pairs
                      and at + n <= len(text)), 0)  # fmt: skip
            if n:
                expected.append(" ".join(text[at : at + n]))
            at += n or 1
        assert [f.nodes[0] for f in names.find(" ".join(text))] == expected


def test_accents_plurals_and_stop_words():
    names = Names([("Zürich", "z"), ("Story", "s"), ("The", "the"), ("of", "of")])
    assert [f.nodes[0] for f in names.find("The stories of ZURICH")] == ["s", "z"]


def test_a_gazetteer_from_a_table(tmp_path):
    path = tmp_path / "places.csv"
    path.write_text("lat,lon,name,admin1,admin2,cc\n42.36,-71.06,Boston,Massachusetts,Suffolk,US\n")
    places = Gazetteer.read(path)
    assert places.find("in Boston") == ["US/Massachusetts/Suffolk/Boston"]
    assert places.near(42.4, -71.0) == "US/Massachusetts/Suffolk/Boston"
    assert places.near(52.0, 13.0) is None
    path.write_text("lat,lon,name,admin1,admin2,cc\n142.36,x,Boston,,,US\n")
    with pytest.raises(germane.InvalidValue, match="line 2"):
        Gazetteer.read(path)


# OPML --------------------------------------------------------------------------------------------


def test_opml_there_and_back():
    feeds = [Outline("https://e.org/a?x=1&y=2", "A & B", "News/World"),
             Outline("http://e.org/b", "<b>", "")]  # fmt: skip
    read = read_opml(write_opml(feeds))
    assert sorted(read) == sorted([feeds[0], feeds[1]._replace(title="")])


@pytest.mark.parametrize(
    "content",
    [b"", b"<html/>", b"<!DOCTYPE x [<!ENTITY a 'b'>]><opml/>", b"<opml><body>", b"\xff\xfe"],
)
def test_bad_opml_is_refused(content):
    with pytest.raises(germane.InvalidValue, match="OPML"):
        read_opml(content)


def test_opml_leaves_out_what_cannot_be_fetched():
    outline = '<outline text="x" xmlUrl="%s"/>'
    body = outline % "file:///etc/passwd" + outline % "javascript:x" + outline % "https://e.org/"
    read = read_opml(f"<opml><body>{body}{body}</body></opml>".encode())
    assert [feed.address for feed in read] == ["https://e.org/"]


# The web -----------------------------------------------------------------------------------------


class _Server(http.server.BaseHTTPRequestHandler):
    """A host with feeds of all kinds; it remembers what it was asked."""

    asked = ()

    def do_GET(self):
        type(self).asked += ((self.path, dict(self.headers)),)
        feed = rss("<title>One</title><guid>1</guid>")
        if self.path == "/feed":
            if self.headers.get("If-None-Match") == '"v1"':
                return self._answer(304)
            return self._answer(200, feed, ETag='"v1"')
        if self.path == "/zipped":
            return self._answer(200, gzip.compress(feed), **{"Content-Encoding": "gzip"})
        if self.path.startswith("/loop"):
            other = "/loop2" if self.path == "/loop" else "/loop"
            return self._answer(302, Location=other)
        if self.path.startswith("/far"):
            return self._answer(302, Location=f"/far{int(self.path[4:] or 0) + 1}")
        if self.path == "/moved":
            return self._answer(301, Location="/feed")
        if self.path == "/file":
            return self._answer(302, Location="file:///etc/passwd")
        if self.path == "/busy":
            return self._answer(503, **{"Retry-After": "7200"})
        if self.path == "/gone":
            return self._answer(410)
        if self.path == "/huge":
            return self._answer(
                200, gzip.compress(b"x" * (6 << 20)), **{"Content-Encoding": "gzip"}
            )
        if self.path == "/page":
            return self._answer(200, b"<html><body>Hi</body></html>")
        return self._answer(404)

    def _answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def host():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


class _Clock:
    def __init__(self):
        self.now, self.slept = 1_800_000_000.0, []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock():
    _Server.asked = ()
    return _Clock()


@pytest.fixture
def fetcher(clock):
    made = Fetcher(private=True, clock=clock, sleep=clock.sleep)
    yield made
    made.close()


def test_only_changes_are_asked_for(host, fetcher, clock):
    assert len(fetcher.fetch(f"{host}/feed").messages) == 1
    assert fetcher.fetch(f"{host}/feed").messages == []  # not due: nobody is asked
    assert len(_Server.asked) == 1
    clock.now += 1_000
    kept = Fetcher(fetcher.reader, fetcher.state(), private=True, clock=clock, sleep=clock.sleep)
    feed = kept.fetch(f"{host}/feed")
    kept.close()
    assert (feed.messages, feed.dead_letters) == ([], [])
    assert _Server.asked[-1][1]["If-None-Match"] == '"v1"'
    assert _Server.asked[-1][1]["User-Agent"].startswith("germane/")


def test_compressed_feeds(host, fetcher):
    assert len(fetcher.fetch(f"{host}/zipped").messages) == 1


def test_a_host_is_asked_once_a_second(host, fetcher, clock):
    for path in ("feed", "zipped", "page"):
        fetcher.fetch(f"{host}/{path}")
    assert sum(clock.slept) == pytest.approx(2 * fetcher_module.HOST_DELAY_S)


def test_moved_for_good_is_remembered(host, fetcher, clock):
    assert len(fetcher.fetch(f"{host}/moved").messages) == 1
    clock.now += 1_000
    fetcher.fetch(f"{host}/moved")
    assert [path for path, _ in _Server.asked] == ["/moved", "/feed", "/feed"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [("loop", "circle"), ("far", "more than 5 redirects"), ("file", "no http"), ("huge", "bytes"),
     ("page", "HTML"), ("nothing", "404"), ("busy", "503"), ("gone", "410")],
)  # fmt: skip
def test_failures_are_said_and_waited_for(host, fetcher, path, reason):
    feed = fetcher.fetch(f"{host}/{path}")
    assert not feed.messages
    assert reason in feed.dead_letters[0].reason
    assert fetcher.due(f"{host}/{path}") > 800


def test_waits_double_up_to_a_day_and_a_server_may_ask_for_more(host, fetcher, clock):
    waits = []
    for _ in range(9):
        fetcher.fetch(f"{host}/nothing")
        waits.append(fetcher.due(f"{host}/nothing"))
        clock.now += waits[-1]
    assert waits[0] == pytest.approx(900, rel=0.1)
    assert all(b > 1.5 * a for a, b in zip(waits[:6], waits[1:6], strict=False))
    assert waits[-1] <= 1.1 * fetcher_module.LONGEST_S
    fetcher.fetch(f"{host}/busy")
    assert fetcher.due(f"{host}/busy") == pytest.approx(7200, rel=0.01)
    fetcher.fetch(f"{host}/gone")
    assert fetcher.due(f"{host}/gone") == float("inf")


def test_private_networks_are_not_reached(host, clock):
    careful = Fetcher(clock=clock, sleep=clock.sleep)
    for address in (
        f"{host}/feed",
        "http://localhost/",
        "http://[::1]/",
        "http://169.254.169.254/",
    ):
        assert "private" in careful.fetch(address).dead_letters[0].reason
    assert _Server.asked == ()
    careful.close()


def test_nobody_there(fetcher):
    assert fetcher.fetch("http://127.0.0.1:9/").dead_letters[0].reason


# Folders -----------------------------------------------------------------------------------------


def test_a_folder_is_a_feed(tmp_path, fetcher):
    (tmp_path / "a.xml").write_bytes(rss("<title>One</title><guid>1</guid>"))
    (tmp_path / "b.rss").write_bytes(rss("<title>Two</title><guid>2</guid>"))
    (tmp_path / "c.xml").write_bytes(b"<html></html>")
    (tmp_path / "notes.txt").write_bytes(b"no feed")
    (tmp_path / "d.xml").symlink_to("/etc/hostname")
    feed = fetcher.fetch(str(tmp_path))
    assert [m["title"] for m in feed.messages] == ["One", "Two"]
    assert len(feed.dead_letters) == 2
    again = fetcher.fetch(str(tmp_path))
    assert (again.messages, again.duplicates) == ([], 0)  # unchanged files are not read
    (tmp_path / "a.xml").write_bytes(
        rss("<title>One</title><guid>1</guid>", "<title>Three</title><guid>3</guid>")
    )
    later = fetcher.fetch(str(tmp_path))
    assert ([m["title"] for m in later.messages], later.duplicates) == (["Three"], 1)
    with pytest.raises(germane.InvalidValue, match="no http"):
        fetcher.fetch(str(tmp_path / "nowhere"))


# Commands ----------------------------------------------------------------------------------------


def test_the_command_prints_what_is_new_and_remembers(tmp_path):
    import json

    typer_testing = pytest.importorskip("typer.testing")
    from germane.cli.app import app

    feeds = tmp_path / "feeds"
    feeds.mkdir()
    (feeds / "a.xml").write_bytes(
        rss("<title>Red Sox</title><guid>1</guid><pubDate>2026-11-16T10:00:00Z</pubDate>")
    )
    (tmp_path / "topics.csv").write_text("parent,child\nBaseball,Red Sox\n")
    arguments = ["fetch", str(feeds), "--topics", str(tmp_path / "topics.csv"),
                 "--state", str(tmp_path / "state.json")]  # fmt: skip
    runner = typer_testing.CliRunner()
    done = runner.invoke(app, arguments)
    assert done.exit_code == 0, done.output
    message = json.loads(done.stdout)
    assert (message["topic"], message["published"]) == (["Red Sox"], "2026-11-16T10:00:00Z")
    assert runner.invoke(app, arguments).stdout == ""
    (feeds / "b.xml").write_bytes(b"<html></html>")
    worse = runner.invoke(app, arguments)
    assert worse.exit_code == 1
    assert "page of HTML" in worse.output
    assert runner.invoke(app, ["fetch"]).exit_code == 2
    assert runner.invoke(app, ["fetch", str(tmp_path / "nowhere")]).exit_code == 2


def test_the_suite_counts_what_became_of_documents(tmp_path):
    from benchmarks.feeds import play

    (tmp_path / "good.xml").write_bytes(rss("<title>One</title>", "<title>Two</title>"))
    (tmp_path / "bad.xml").write_bytes(b"no feed")
    (tmp_path / "encoded.xml").write_bytes(rss("<title>Z?rich</title>").replace(b"?", b"\xfc"))
    counted = play(tmp_path)
    assert counted["documents"] == 3
    assert counted["crashes"] == []
    assert counted["outcomes"]["dead letter"] >= 1
    assert counted["messages"] >= 2
