"""Feeds become messages that a filter takes, or dead letters that say why; servers are spared."""

import gc
import gzip
import http.server
import io
import json
import socket
import stat
import sys
import threading
import time
import unicodedata
import zlib
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

pytest.importorskip("feedparser")
pytest.importorskip("httpcore")

import httpcore

import germane
from germane.agent import (
    Fetcher,
    Gazetteer,
    Names,
    Outline,
    Place,
    Reader,
    Seen,
    decoding,
    exchange,
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
    same_story = rss("<title>A</title><guid>2</guid><link>https://e.org/1</link>")
    assert reader.read(same_story, "y").duplicates == 1
    other_story = rss("<title>B</title><guid>4</guid><link>https://e.org/1</link>")
    assert len(reader.read(other_story, "y").messages) == 1
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


def test_alerts_that_share_a_link_are_not_duplicates(reader):
    long = "A flood is expected along the river in the next hours; move to higher ground."
    alerts = rss(*(
        f"<title>Flood</title><guid isPermaLink='false'>{i}</guid><link>https://e.org/alerts</link>"
        f"<description>{long}</description>" for i in range(3)
    ))  # fmt: skip
    assert len(reader.read(alerts, "weather").messages) == 3
    assert reader.read(alerts, "weather").duplicates == 3
    assert reader.read(alerts, "elsewhere").duplicates == 3  # the same story
    kept = Reader(seen=Seen(keys=json.loads(json.dumps(reader.seen.state()))))
    more = alerts.replace(b">2<", b">4<")
    assert len(kept.read(more, "weather").messages) == 1
    assert kept.read(more, "elsewhere").duplicates == 3


def test_ids_that_are_new_at_every_fetch_repeat_nothing(reader):
    item = ("<title>Storm</title><guid isPermaLink='false'>{}</guid><link>https://e.org/1</link>"
            "<description>{}</description><pubDate>2026-11-16T{}:00:00Z</pubDate>")  # fmt: skip
    for said in (("a", "wind", 10), ("b", "rain", 10), ("c", "wind", 11)):  # others, each
        assert len(reader.read(rss(item.format(*said)), "x", now=NOW).messages) == 1
    for said in (("d", "wind", 10), ("e", "rain", 10), ("f", "wind", 11)):
        assert reader.read(rss(item.format(*said)), "x", now=NOW).duplicates == 1
    kept = Reader(seen=Seen(keys=json.loads(json.dumps(reader.seen.state()))))
    assert kept.read(rss(item.format("g", "rain", 10)), "x", now=NOW).duplicates == 1


@pytest.mark.parametrize(
    "ids",
    [
        ("aB3", "Ab3"), ("&lt;CAF1@mail.e.org&gt;", "&lt;CAF2@mail.e.org&gt;"),
        ("x" * 1_000 + "1", "x" * 1_000 + "2"), ("x" * 3_000 + "1", "x" * 3_000 + "2"),
        ("https://e.org/?a=1&amp;copy=2", "https://e.org/?a=1©=2"), ("a&amp;amp;b", "a&amp;b"),
    ],
    ids=["case", "tags", "long", "longer", "references", "twice"],
)  # fmt: skip
@pytest.mark.parametrize("broken", ["", "<br>"])
def test_ids_that_differ_tell_entries_apart(reader, ids, broken):
    item = "<title>{}</title><guid isPermaLink='false'>\n {}</guid><link>https://e.org/list</link>"
    content = rss(*(item.format(i, i_d) + broken for i, i_d in enumerate(ids)))
    feed = reader.read(content, "here")
    assert [message["title"] for message in feed.messages] == ["0", "1"]
    assert len({message["id"] for message in feed.messages}) == 2
    assert all(len(message["id"]) <= feeds_module.ID for message in feed.messages)
    assert reader.read(content, "here").duplicates == 2


def test_ids_are_as_they_came_but_for_control_characters(reader):
    guid = "\n tag:e.org,2026:?a=1&amp;copy=2 \u200b&lt;B@c&gt;&#x85;\t"
    message = only(reader.read(rss(f"<title>x</title><guid>{guid}</guid>"), "here"))
    assert message["id"] == "tag:e.org,2026:?a=1&copy=2 <B@c>"


def test_links_that_differ_in_case_tell_entries_apart(reader):
    item = "<title>{}</title><link>https://e.org/s/{}</link>"
    content = rss(item.format("One", "aB3"), item.format("Two", "Ab3"))
    assert [m["title"] for m in reader.read(content, "here").messages] == ["One", "Two"]
    shouted = rss(item.format("ONE", "aB3") + "<guid>1</guid>")
    assert reader.read(shouted, "elsewhere").duplicates == 1  # what is said has no case


def test_without_guids_the_link_tells(reader):
    first = rss("<title>A</title><link>https://e.org/1</link>")
    assert len(reader.read(first, "x").messages) == 1
    again = rss("<title>A, corrected</title><link>https://e.org/1</link>")
    assert reader.read(again, "x").duplicates == 1


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("/a", "https://e.org/a"), ("a?b=1", "https://e.org/feeds/a?b=1"),
        ("//o.org/a", "https://o.org/a"), ("https://o.org/", "https://o.org/"),
        ("javascript:alert(1)", None), ("data:text/html,x", None), ("http://[", None),
    ],
)  # fmt: skip
def test_links_are_relative_to_the_feeds_address(reader, link, expected):
    headers = {"content-location": "https://e.org/feeds/rss.xml"}
    atom = (f"<feed xmlns='http://www.w3.org/2005/Atom'><title>T</title><entry><id>1</id>"
            f"<title>x</title><link href='{link}'/></entry></feed>").encode()  # fmt: skip
    for content in (rss(f"<title>x</title><link>{link}</link><guid>1</guid>"), atom):
        message = only(Reader().read(content, "here", headers))
        assert (message["id"], message.get("link")) == ("1", expected)
    guid = only(reader.read(rss("<title>x</title><guid>1</guid>"), "here", headers))
    assert (guid["id"], "link" in guid) == ("1", False)


def test_an_xml_base_counts(reader):
    atom = b"""<feed xmlns='http://www.w3.org/2005/Atom' xml:base='/blog/'><entry><id>1</id>
    <title>x</title><link href='a'/></entry></feed>"""
    headers = {"content-location": "https://e.org/feed"}
    assert only(reader.read(atom, "here", headers))["link"] == "https://e.org/blog/a"


@pytest.mark.parametrize("latitude", ["abc", "42,36", "", "nan", "1e999", "91"])
def test_positions_that_are_none_are_left_out(reader, latitude):
    head = "xmlns:geo='http://www.w3.org/2003/01/geo/wgs84_pos#'"
    item = f"<title>x</title><geo:lat>{latitude}</geo:lat><geo:long>-71.0</geo:long>"
    assert "position" not in only(reader.read(rss(item, head=head), "here"))
    fine = only(reader.read(rss(item.replace(f"lat>{latitude}<", "lat>42.5<"), head=head), "there"))
    assert fine["position"] == (42.5, -71.0)


# Bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b" \n ", "empty"),
        (b"<!DOCTYPE html><html><body>Hi</body></html>", "HTML"),
        (b"\x00\xff\xfe\x01", "no feed"),
        (b"{}", "no feed"),
        (b"<html xmlns:a='http://www.w3.org/2005/Atom'><body>Hi</body></html>", "HTML"),
        (rss("<author>nobody</author>"), "without title"),
        (b"x" * (feeds_module.MAX_BYTES + 1), "bytes"),
    ],
    ids=["empty", "blank", "html", "binary", "json", "xhtml", "void", "gigantic"],
)
def test_what_is_no_feed_is_a_dead_letter(reader, content, reason):
    feed = reader.read(content, "here")
    assert not feed.messages
    assert reason in feed.dead_letters[0].reason
    assert len(feed.dead_letters[0].raw) <= feeds_module.RAW


NONE_NOW = [
    rss(), b"<feed xmlns='http://www.w3.org/2005/Atom'><title>T</title></feed>",
    b"<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' "
    b"xmlns='http://purl.org/rss/1.0/'><channel rdf:about='c'><title>T</title></channel></rdf:RDF>",
    rss().replace(b"</title>", b"</title><description><![CDATA[<html>]]></description>"),
]  # fmt: skip


@pytest.mark.parametrize("content", NONE_NOW, ids=["rss", "atom", "rdf", "html inside"])
def test_a_feed_that_is_empty_now_is_no_dead_letter(reader, content):
    """There is nothing that could not become a message."""
    feed = reader.read(content, "here")
    assert (feed.title, feed.messages, feed.dead_letters, feed.empty) == ("T", [], [], True)


def test_a_feed_that_may_have_had_entries_says_so(reader):
    feed = reader.read(rss()[:-30], "here")
    assert feed.empty
    assert "without entries, that is broken" in feed.dead_letters[0].reason


@pytest.mark.parametrize(
    "sign", ["&#xD800;", "&#55296;", "&#x110000;", "&#0;", "&#" + "9" * 5000 + ";"]
)
@pytest.mark.parametrize("broken", ["", "<br>"])
def test_references_to_no_character_cost_that_character(reader, sign, broken):
    items = (
        f"<title>a{sign}b</title><guid>1</guid>",
        f"<title>c{broken}</title><guid>2{sign}</guid>",
        f"<title>d</title><description><![CDATA[{sign}]]></description><link>http://e/{sign}</link>",
    )
    feed = reader.read(rss(*items), "here")
    assert [message["title"] for message in feed.messages] == ["a\ufffdb", "c", "d"]
    json.dumps(feed.messages, ensure_ascii=False).encode()


NASTY = [
    "<!--", "<?", "<!", "<![CDATA[", "<a ", "<a b='", "<a b=\">\" ", "</", "</a ", "<svg>", "<a/",
    "&lt;!--", "&amp;lt;!--", "&#", "&", "<a<", "<script>", "<item>", "\n",
]  # fmt: skip


def is_linear(job, n):
    """Whether 16 times as much takes clearly less than 256 times as long, in one of five tries.

    Whatever else the machine does makes single tries look worse than they are, never better. What
    other tests left in memory is kept from the collector, which would look through it only while
    the longer of the two runs.
    """

    def took(size):
        gc.collect()
        gc.freeze()
        try:
            start = time.thread_time()
            job(size)
            return time.thread_time() - start
        finally:
            gc.unfreeze()

    took(n // 16)
    return any(took(n) < 64 * max(took(n // 16), 0.0025) for _ in range(5))


@pytest.mark.parametrize("nasty", NASTY)
def test_text_of_nasty_markup_is_linear(nasty):
    assert is_linear(lambda n: plain(nasty * (n // len(nasty)), 1_000), 400_000)


@pytest.mark.parametrize("nasty", [*NASTY, "a"])
def test_reading_nasty_feeds_is_linear(reader, nasty):
    from xml.sax.saxutils import escape

    def read(n):
        fill = nasty * (n // len(nasty))
        reader.read(fill.encode() + rss("<title>x</title>"), "here")
        for inside in (fill, escape(fill), f"<![CDATA[{fill}]]>"):
            item = f"<title>x</title><description>{inside}</description><author>{inside}</author>"
            reader.read(rss(item), "here")

    assert is_linear(read, 50_000)


def test_a_long_head_is_refused(reader):
    content = b"<!DOCTYPE rss [" + b"\n<!ENTITY a 'b'" * 3_000 + b">]>" + rss("<title>x</title>")
    assert "before the first element" in reader.read(content, "here").dead_letters[0].reason


def crowd(n, form="a{}='x'"):
    """A start tag with so many attributes."""
    return f"<b {' '.join(form.format(i) for i in range(n))}>"


MOST = decoding.MAX_ATTRIBUTES


@pytest.mark.parametrize("form", ["a{}='x'", 'a{} =\n"x > y"', "xmlns:a{}='x{}'", "é{}='&lt;'"])
@pytest.mark.parametrize(
    "before", ["", "<!-- > -->", "<![CDATA[<c d='>]]>", "<?c d='?>", "<c d='>'/>"]
)
def test_an_element_has_so_many_attributes_and_no_more(reader, form, before):
    """``feedparser`` takes quadratic time for those of one element."""
    form = form.replace("{}", "{0}")
    item = f"<title>One</title><guid>1</guid>{before}{{}}</b>"
    for n in (MOST + 1, 100_000):
        feed = reader.read(rss(item.format(crowd(n, form))), "here")
        assert [letter.reason for letter in feed.dead_letters] == [
            f"<b> has more than {MOST} attributes"
        ]
    assert only(reader.read(rss(item.format(crowd(MOST, form))), "here"))["title"] == "One"


@pytest.mark.parametrize(
    "aside",
    ["<![CDATA[{}]]>", "<!--{}-->", "<?x {}?>", "<![CDATA[--><!--]]><!--<![CDATA[{}-->", "<c/>{}"],
)
def test_attributes_of_what_is_no_element_do_not_count(reader, aside):
    many = crowd(2 * MOST)
    if aside == "<c/>{}":  # what follows a tag is text
        many = (crowd(20) + many.removeprefix("<b") + "</b>") * 100
    item = f"<title>One</title><description>{aside.format(many)}</description>"
    assert only(reader.read(rss(item), "here"))["title"] == "One"


def test_attributes_are_counted_in_linear_time():
    def look(n):
        for nasty in (*NASTY, "<a b='c' ", " ", "<a b='>", "<a " + "a='b' " * MOST, "<a", "a = "):
            for start in ("", "<a b", "<a b='"):
                decoding._crowded(start + nasty * (n // len(nasty)))

    assert is_linear(look, 400_000)


def test_entities_are_not_expanded(reader):
    bomb = "".join(
        f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    content = f'<!DOCTYPE r [<!ENTITY a "{"x" * 1000}">{bomb}]>'.encode() + rss(
        "<title>&i;</title>"
    )
    feed = reader.read(content, "here")
    assert all(len(m["title"]) <= feeds_module.TITLE for m in feed.messages)


SUBSETS = {
    "plain": '<!DOCTYPE rss [<!ENTITY a "{}">]>',
    "lines": '<!DOCTYPE rss [\n<!ENTITY a "{}">\n]>',
    "element": '<!DOCTYPE rss [<!ENTITY b "<i>">\n<!ENTITY a "{}">]>',
    "brackets": '<!DOCTYPE rss [<!ENTITY c "]>">\n<!ENTITY a "{}">]>',
    "comment": '<!DOCTYPE rss [<!-- isn\'t "]> <rss> -->\n<!ENTITY a "{}">]>',
    "instruction": '<!DOCTYPE rss [<?x "]> <rss> ?>\n<!ENTITY a "{}">]>',
    "twice": '<!DOCTYPE rss>\n<!DOCTYPE rss [\n<!ENTITY a "{}">\n]>',
    "no end": '<!DOCTYPE rss [\n<!ENTITY a "{}">\n<!ENTITY c "]>',
    "alone": '<!ENTITY a "{}">',
    "behind a comment": '<!-- <rss> -->\n<!DOCTYPE rss [\n<!ENTITY a "{}">\n]>',
}


@pytest.mark.parametrize("subset", SUBSETS.values(), ids=SUBSETS)
def test_a_feeds_own_entities_take_no_memory(reader, subset):
    import tracemalloc

    item = f"<title>One</title><guid>1</guid><description>{'&a;' * 3_000}</description>"
    content = subset.format("x y " * 5_000).encode() + rss(item)
    tracemalloc.start()
    feed = reader.read(content, "here")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [message["title"] for message in feed.messages] == ["One"]
    assert peak < 10 << 20


@pytest.mark.parametrize("start", ["", "<!DOCTYPE a [", "<!DOCTYPE a [<!ENTITY b '"])
def test_heads_are_looked_through_in_linear_time(start):
    def look(n):
        for nasty in (*NASTY, "<!DOCTYPE a [", '"', "]", "<!>"):
            decoding._first_element(start + nasty * (n // len(nasty)))

    assert is_linear(look, 100_000)


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
        ("a<!-- b > c -->d<!-->e<!-- never closed", "ade"),
        ("<a title='x > y'>one</a> 1 <2", "one 1 <2"),
        ("<a title='x>one</a> two", "one two"),
        ("<iframe src='x'/>one<iframe>two</iframe>", "onetwo"),
        ("one<object classid='x'> two", "one two"),
        ("<SCRIPT>if (a < b) '<p>'</sCript >one", "one"),
        ("<svg><script></svg></script>one</svg>two", "two"),
        ("<?php x ?>one<!DOCTYPE html>two</ p>", "onetwo"),
        ("<![CDATA[one <b>two</b>]]>", "one two"),
        ("&#" + "9" * 5_000 + ";one", "\ufffdone"),
        ("I </3 you", "I </3 you"),
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


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("proper", [False, True])
def test_names_are_found_however_their_marks_are_written(form, proper):
    called = ["Zürich", "Rich", "पुणे", "दिल्ली", "パリ", "Đà Nẵng", "กรุงเทพ"]
    names = Names([(unicodedata.normalize("NFC", name), name) for name in called], proper)
    text = unicodedata.normalize(form, "Đà Nẵng, Zürich, नई दिल्ली, पुणे और パリ กรุงเทพ")
    found = names.find(text)
    assert [f.nodes[0] for f in found] == ["Đà Nẵng", "Zürich", "दिल्ली", "पुणे", "パリ", "กรุงเทพ"]
    assert [unicodedata.normalize("NFC", text[f.begin : f.end]) for f in found] == [
        unicodedata.normalize("NFC", f.nodes[0]) for f in found
    ]
    others = unicodedata.normalize(form, "पाणा पुणो पणा दल्ल दुल्लु バリ กรงเทพ")
    assert names.find(others) == []


def test_words_of_marks_are_found_in_linear_time():
    names = Names([("Zürich", "z")])
    nasty = ("a\u0301", "\u0301", "ि", "क्", "a'\u0301")
    assert is_linear(lambda n: [names.find(sign * (n // len(sign))) for sign in nasty], 100_000)


def test_a_gazetteer_from_a_table(tmp_path):
    path = tmp_path / "places.csv"
    path.write_text("lat,lon,name,admin1,admin2,cc\n42.36,-71.06,Boston,Massachusetts,Suffolk,US\n")
    places = Gazetteer.read(path)
    assert places.find("in Boston") == ["US/Massachusetts/Suffolk/Boston"]
    assert places.near(42.4, -71.0) == "US/Massachusetts/Suffolk/Boston"
    assert places.near(52.0, 13.0) is None
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert Gazetteer.read(path).find("in Boston") == ["US/Massachusetts/Suffolk/Boston"]
    path.write_text("lat,lon,name,admin1,admin2,cc\n142.36,x,Boston,,,US\n")
    with pytest.raises(germane.InvalidValue, match="line 2"):
        Gazetteer.read(path)


@pytest.mark.parametrize("declared", ["utf-16", "UTF-16LE", "utf-32", "u16", "ucs-2"])
@pytest.mark.parametrize("end", ["", " "])
def test_who_can_read_its_declaration_knows_that_a_feed_is_not_wide(reader, declared, end):
    item = "<title>Zürich</title><guid>1</guid>"
    content = f"<?xml version='1.0' encoding='{declared}'?>".encode()
    content += rss("@").replace(b"@", item.encode()) + end.encode()
    assert only(reader.read(content, "here"))["title"] == "Zürich"
    headers = {"content-type": f"application/xml; charset={declared}"}
    assert only(reader.read(content, "there", headers))["title"] == "Zürich"


@pytest.mark.parametrize(
    "declared", ["unicode_escape", "unicode-escape", "raw-unicode-escape", "utf-7", "UTF7"]
)
def test_encodings_of_python_are_none_of_feeds(reader, declared):
    content = f"<?xml version='1.0' encoding='{declared}'?>".encode()
    content += rss("<title>a\\u00e9b +AOk- \\x41</title>")
    assert only(reader.read(content, "here"))["title"] == "a\\u00e9b +AOk- \\x41"


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


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_entities_in_opml_are_refused_in_every_encoding(encoding):
    declared = f"<?xml version='1.0' encoding='{encoding}'?>"
    body = '<opml><body><outline text="Zürich" xmlUrl="https://e.org/a"/></body></opml>'
    assert read_opml((declared + body).encode(encoding)) == [Outline("https://e.org/a", "Zürich")]
    for start in (declared, ""):
        nasty = start + '<!DOCTYPE opml [<!ENTITY a "x">]>' + body.replace("Zürich", "&a;")
        with pytest.raises(germane.InvalidValue, match="OPML"):
            read_opml(nasty.encode(encoding))


def test_opml_leaves_out_what_cannot_be_fetched():
    outline = '<outline text="x" xmlUrl="%s"/>'
    body = outline % "file:///etc/passwd" + outline % "javascript:x" + outline % "https://e.org/"
    read = read_opml(f"<opml><body>{body}{body}</body></opml>".encode())
    assert [feed.address for feed in read] == ["https://e.org/"]


def test_feeds_inside_a_feeds_outline_are_read():
    inner = '<outline text="B" xmlUrl="https://e.org/b"/>'
    outer = f'<outline text="A" xmlUrl="https://e.org/a">{inner}</outline>'
    read = read_opml(f"<opml><body>{outer}</body></opml>".encode())
    assert read == [Outline("https://e.org/a", "A"), Outline("https://e.org/b", "B", "A")]


def test_opml_that_is_written_can_be_read():
    nasty = "a" + "".join(map(chr, range(0x20))) + "\ud800\ufffeb"
    written = write_opml([Outline("https://e.org/", nasty, nasty)], nasty)
    assert read_opml(written) == [Outline("https://e.org/", "a b", "a b")]


def test_too_many_feeds_are_said(monkeypatch):
    monkeypatch.setattr("germane.agent.opml.MAX_FEEDS", 2)
    feeds = [Outline(f"https://e.org/{i}") for i in range(3)]
    assert len(read_opml(write_opml(feeds[:2]))) == 2
    with pytest.raises(germane.InvalidValue, match="more than 2 feeds"):
        read_opml(write_opml(feeds))


# The web -----------------------------------------------------------------------------------------


class _Server(http.server.BaseHTTPRequestHandler):
    """A host with feeds of all kinds; it remembers what it was asked."""

    asked = ()
    answers: ClassVar = {}  # path -> status, body, headers; for one test

    def do_GET(self):
        type(self).asked += ((self.path, dict(self.headers)),)
        if self.path in self.answers:
            status, body, headers = self.answers[self.path]
            return self._answer(status, body, **headers)
        if self.path.startswith("/drip"):
            return self._drip(self.path == "/drip-head")
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

    def _drip(self, head):
        """A byte now and then, of a header or of a body, for two minutes."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX: " if head else b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(2400):
            try:
                self.wfile.write(b"x")
            except OSError:
                return
            time.sleep(0.05)

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
    _Server.asked, _Server.answers = (), {}
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


@pytest.mark.parametrize(("wbits", "name"), [(31, "gzip"), (15, "deflate"), (-15, "deflate")])
def test_encodings_that_are_asked_for(host, fetcher, wbits, name):
    machine = zlib.compressobj(wbits=wbits)
    body = machine.compress(rss("<title>One</title>")) + machine.flush()
    _Server.answers = {"/x": (200, body, {"Content-Encoding": name})}
    assert only(fetcher.fetch(f"{host}/x"))["title"] == "One"
    assert _Server.asked[-1][1]["Accept-Encoding"] == "gzip, deflate"


def test_members_of_gzip_are_one_body(host, fetcher):
    feed = rss("<title>One</title>")
    body = gzip.compress(feed[:20]) + gzip.compress(b"") + gzip.compress(feed[20:]) + b"more"
    _Server.answers = {"/x": (200, body, {"Content-Encoding": "gzip"})}
    assert only(fetcher.fetch(f"{host}/x"))["title"] == "One"


def test_a_body_is_the_same_however_it_comes_in_pieces():
    body = gzip.compress(b"one") + gzip.compress(b"") + gzip.compress(b"two") + b"more"
    for at in range(len(body)):
        assert exchange._decoded([body[:at], b"", body[at:]], "gzip", 1_000) == b"onetwo"


@pytest.mark.parametrize(("wbits", "name"), [(31, "gzip"), (15, "deflate"), (-15, "deflate")])
def test_a_compressed_body_that_is_cut_off_is_refused(host, fetcher, clock, wbits, name):
    feed = rss("<title>One</title><guid>1</guid>", *[f"<title>{n}</title>" for n in range(99)])
    machine = zlib.compressobj(wbits=wbits)
    body = machine.compress(feed) + machine.flush()
    for end in range(1, len(body)):
        with pytest.raises(exchange.Refused, match="cut off"):
            exchange._decoded([body[:end]], name, len(feed))
    headers = {"Content-Encoding": name, "ETag": '"cut"'}
    _Server.answers = {"/x": (200, body[:-1], headers)}
    cut = fetcher.fetch(f"{host}/x")
    assert (cut.messages, len(cut.dead_letters)) == ([], 1)
    assert "cut off" in cut.dead_letters[0].reason
    clock.now += 1_000
    _Server.answers = {"/x": (200, body, headers)}
    assert len(fetcher.fetch(f"{host}/x").messages) == 100
    assert "If-None-Match" not in _Server.asked[-1][1]


def test_a_member_of_gzip_that_is_cut_off_is_refused():
    body = gzip.compress(b"one") + gzip.compress(b"two")
    with pytest.raises(exchange.Refused, match="cut off"):
        exchange._decoded([body[:-1]], "gzip", 1_000)


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "zstd", "gzip, identity", "\xb2"])
def test_other_encodings_are_not_read(host, fetcher, encoding):
    bomb = gzip.compress(gzip.compress(bytes(50 << 20), 1), 1)
    _Server.answers = {"/x": (200, bomb, {"Content-Encoding": encoding})}
    assert "encoding" in fetcher.fetch(f"{host}/x").dead_letters[0].reason


def test_a_bomb_of_gzip_takes_little_memory(host, fetcher):
    import tracemalloc

    bomb = gzip.compress(bytes(200 << 20), 1)
    _Server.answers = {"/x": (200, bomb, {"Content-Encoding": "gzip"})}
    tracemalloc.start()
    letter = fetcher.fetch(f"{host}/x").dead_letters[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "more than" in letter.reason
    assert peak < 6 * feeds_module.MAX_BYTES


@pytest.mark.parametrize("path", ["drip-head", "drip-body"])
def test_a_slow_drip_is_cut_off(host, fetcher, monkeypatch, path):
    monkeypatch.setattr(fetcher_module, "WHOLE_S", 0.5)
    start = time.monotonic()
    assert "not complete" in fetcher.fetch(f"{host}/{path}").dead_letters[0].reason
    assert time.monotonic() - start < 60


@pytest.mark.parametrize(
    "location",
    ["http://[", "http://127.0.0.1:99999/", "http://xn--/", "javascript:alert(1)", "http://",
     "http://\xe9..x/", "http://127.0.0.1:x/", "//", "http://%zz\x7f/"],
)  # fmt: skip
def test_redirects_to_nowhere_are_dead_letters(host, fetcher, location):
    _Server.answers = {"/x": (302, b"", {"Location": location})}
    assert fetcher.fetch(f"{host}/x").dead_letters[0].reason
    assert len(fetcher.fetch(f"{host}/feed").messages) == 1


def test_addresses_that_are_none_are_dead_letters(fetcher):
    for address in ("http://[", "http://127.0.0.1:99999/", "http://xn--/", "https:"):
        assert fetcher.fetch(address).dead_letters[0].reason


@pytest.mark.parametrize("wish", ["\xb2", "-1", "soon", "9" * 400, "Mon, 99 Nov 99999 10:00 GMT"])
def test_strange_wishes_to_be_left_alone(host, fetcher, wish):
    _Server.answers = {"/x": (503, b"", {"Retry-After": wish})}
    assert "503" in fetcher.fetch(f"{host}/x").dead_letters[0].reason
    assert 800 < fetcher.due(f"{host}/x") < 1_000


@pytest.mark.parametrize("version", ['"\xe9t"', '"a\tb"'])
def test_versions_that_cannot_be_sent_back_are_not_kept(host, fetcher, clock, version):
    _Server.answers = {"/x": (200, rss("<title>One</title>"), {"ETag": version})}
    assert len(fetcher.fetch(f"{host}/x").messages) == 1
    [row] = fetcher.state()
    assert row["etag"] == ""
    old = {**row, "etag": version, "due": 0.0}
    again = Fetcher(fetcher.reader, [old], private=True, clock=clock, sleep=clock.sleep)
    assert again.fetch(f"{host}/x").duplicates == 1
    assert "If-None-Match" not in _Server.asked[-1][1]


@pytest.mark.parametrize(
    "row", [[], "x", {}, {"address": 1}, {"address": "x", "nice": 1}, {"address": "x", "due": "?"}]
)
def test_sources_that_are_none_are_refused(row):
    with pytest.raises(germane.InvalidValue, match="source"):
        Fetcher(sources=[row])


def test_cookies_are_not_kept(host, fetcher, clock):
    _Server.answers = {
        "/x": (200, rss("<title>One</title>"), {"Set-Cookie": "who=me; Path=/; Max-Age=99999"})
    }
    fetcher.fetch(f"{host}/x")
    clock.now += 1_000
    fetcher.fetch(f"{host}/x")
    fetcher.fetch(host.replace("127.0.0.1", "localhost") + "/x")
    assert len(_Server.asked) == 3
    assert not any("Cookie" in headers for _, headers in _Server.asked)


def test_gone_by_a_redirect_for_now_is_not_gone_for_good(host, fetcher):
    _Server.answers = {"/a": (302, b"", {"Location": "/gone"})}
    assert "410" in fetcher.fetch(f"{host}/a").dead_letters[0].reason
    assert fetcher.due(f"{host}/a") < 1_000
    _Server.answers = {"/b": (301, b"", {"Location": "/gone"})}
    fetcher.fetch(f"{host}/b")
    assert fetcher.due(f"{host}/b") == float("inf")


@pytest.mark.parametrize("status", [404, 410, 500])
def test_an_address_that_moved_is_asked_again_where_it_was(host, fetcher, clock, status):
    feed = rss("<title>One</title>")
    _Server.answers = {"/a": (301, b"", {"Location": "/b"}), "/b": (200, feed, {})}
    assert len(fetcher.fetch(f"{host}/a").messages) == 1
    _Server.answers = {"/a": (200, rss("<title>Two</title>"), {}), "/b": (status, b"", {})}
    found = []
    for _ in range(fetcher_module.MOVED_TRIES + 1):
        clock.now += fetcher_module.LONGEST_S
        found += fetcher.fetch(f"{host}/a").messages
    assert [message["title"] for message in found] == ["Two"]


def test_a_version_is_told_to_whom_it_is_from(host, fetcher, clock):
    feed = rss("<title>One</title>")
    other = host.replace("127.0.0.1", "localhost")
    _Server.answers = {"/a": (200, feed, {"ETag": '"a"', "Last-Modified": "yesterday"})}
    assert len(fetcher.fetch(f"{host}/a").messages) == 1
    _Server.answers = {"/a": (302, b"", {"Location": f"{other}/b"}), "/b": (304, b"", {})}
    clock.now += 1_000
    assert "304" in fetcher.fetch(f"{host}/a").dead_letters[0].reason
    _Server.answers["/b"] = (200, feed, {"ETag": '"b"'})
    clock.now += 2_000
    assert fetcher.fetch(f"{host}/a").duplicates == 1
    clock.now += 1_000
    _Server.answers["/b"] = (304, b"", {})
    assert fetcher.fetch(f"{host}/a").dead_letters == []
    sent = [(path, headers.get("If-None-Match")) for path, headers in _Server.asked]
    assert sent == [
        ("/a", None), ("/a", '"a"'), ("/b", None), ("/a", '"a"'), ("/b", None), ("/a", None),
        ("/b", '"b"'),
    ]  # fmt: skip


def test_relative_links_of_fetched_feeds(host, fetcher):
    feed = rss("<title>One</title><link>one?a=1</link>")
    _Server.answers = {"/x": (302, b"", {"Location": "/deep/feed"}), "/deep/feed": (200, feed, {})}
    assert only(fetcher.fetch(f"{host}/x"))["link"] == f"{host}/deep/one?a=1"


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


@pytest.mark.parametrize("content", [*NONE_NOW, rss()[:-30]])
def test_an_empty_feed_is_asked_again_as_soon_as_another(host, fetcher, clock, content):
    address = f"{host}/alerts"
    _Server.answers = {"/alerts": (200, content, {"ETag": '"none"'})}
    for _ in range(9):
        assert fetcher.fetch(address).messages == []
        assert fetcher.due(address) == fetcher_module.EVERY_S
        clock.now += fetcher_module.EVERY_S
    assert _Server.asked[-1][1]["If-None-Match"] == '"none"'
    _Server.answers = {"/alerts": (200, rss("<title>Tornado</title>"), {})}
    assert len(fetcher.fetch(address).messages) == 1


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


@pytest.mark.parametrize(
    "number",
    ["64:ff9b::7f00:1", "2002:7f00:1::1", "::7f00:1", "::ffff:127.0.0.1", "ff02::1", "224.0.0.1",
     "239.1.2.3", "100.64.0.1", "fec0::1", "::ffff:0:7f00:1"],
)  # fmt: skip
def test_addresses_that_lead_elsewhere_are_not_reached(number, clock):
    careful = Fetcher(clock=clock, sleep=clock.sleep)
    host = f"[{number}]" if ":" in number else number
    assert "private" in careful.fetch(f"http://{host}/").dead_letters[0].reason
    careful.close()


@pytest.fixture
def dialled(monkeypatch):
    """Numbers that were tried; those that are no loopback address raise what a test wants."""
    tried, errors = [], {}
    real = httpcore.SyncBackend.connect_tcp

    def connect(self, host, port, *rest, **more):
        tried.append(host)
        if host in errors:
            raise errors[host]
        return real(self, host, port, *rest, **more)

    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", connect)
    return tried, errors


@pytest.fixture
def named(monkeypatch):
    """A host of this name, with these numbers."""
    real, numbers = socket.getaddrinfo, []

    def found(host, port, *rest, **more):
        if host != "two.example":
            return real(host, port, *rest, **more)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (n, port)) for n in numbers]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    return numbers


@pytest.mark.parametrize("error", [httpcore.ConnectError, httpcore.ConnectTimeout])
def test_all_numbers_of_a_host_are_tried_in_turn(host, fetcher, dialled, named, error):
    tried, errors = dialled
    named += ["2001:db8::1", "2001:db8::1", "192.0.2.1", "127.0.0.1", "192.0.2.2"]
    errors |= {"2001:db8::1": error("not here"), "192.0.2.1": error("nor here")}
    address = host.replace("127.0.0.1", "two.example")
    assert only(fetcher.fetch(f"{address}/feed"))["title"] == "One"
    assert tried == ["2001:db8::1", "192.0.2.1", "127.0.0.1"]
    assert _Server.asked[-1][1]["Host"] == address.removeprefix("http://")


def test_where_no_number_answers_the_last_one_says_why(fetcher, dialled, named):
    tried, errors = dialled
    named += ["192.0.2.1", "192.0.2.2"]
    errors |= {n: httpcore.ConnectError(f"{n} is silent") for n in named}
    (letter,) = fetcher.fetch("http://two.example/").dead_letters
    assert "192.0.2.2 is silent" in letter.reason
    assert tried == ["192.0.2.1", "192.0.2.2"]


def test_numbers_are_tried_until_the_deadline(dialled, named, monkeypatch):
    tried, errors = dialled
    named += ["192.0.2.1", "192.0.2.2"]
    errors |= {n: httpcore.ConnectTimeout() for n in named}
    moments = iter([0.0, 10.0])  # before the first number, and before the second
    clock = SimpleNamespace(monotonic=lambda: next(moments, 10.0))
    monkeypatch.setattr(exchange, "time", clock)
    with pytest.raises(exchange.Refused, match="not complete in time"):
        exchange.Exchange(private=True).ask("http://two.example/", {}, 1_000, 5.0)
    assert tried == ["192.0.2.1"]


def test_one_private_number_is_one_too_many(clock, dialled, named):
    named += ["8.8.8.8", "127.0.0.1"]
    careful = Fetcher(clock=clock, sleep=clock.sleep)
    assert "private" in careful.fetch("http://two.example/").dead_letters[0].reason
    assert dialled[0] == []


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


# Handing out -------------------------------------------------------------------------------------


def lost(fetcher, address):
    """Fetch, and lose what comes."""
    found = []

    def lose(feed):
        found.extend(m["title"] for m in feed.messages)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), fetcher.handed_out(address) as feed:
        lose(feed)
    return found


def taken(fetcher, address):
    with fetcher.handed_out(address) as feed:
        return [m["title"] for m in feed.messages]


def test_what_is_lost_is_still_new(host, fetcher, clock):
    seen = fetcher.reader.seen
    address = f"{host}/feed"
    assert lost(fetcher, address) == ["One"]
    assert (fetcher.state(), seen.state(), fetcher.due(address)) == ([], [], 0.0)
    assert taken(fetcher, address) == ["One"]
    assert "If-None-Match" not in _Server.asked[-1][1]
    assert taken(fetcher, address) == []  # not due
    known, sources = seen.state(), fetcher.state()
    clock.now += 1_000
    both = rss("<title>One</title><guid>1</guid>", "<title>Two</title><guid>2</guid>")
    _Server.answers = {"/feed": (200, both, {"ETag": '"v2"'})}
    for _ in range(2):
        assert lost(fetcher, address) == ["Two"]
        assert (fetcher.state(), seen.state()) == (sources, known)
    assert taken(fetcher, address) == ["Two"]
    assert _Server.asked[-1][1]["If-None-Match"] == '"v1"'
    assert len(seen) > len(known)


def test_what_is_lost_of_one_source_costs_no_other(host, fetcher, tmp_path):
    (tmp_path / "a.xml").write_bytes(rss("<title>A</title><guid>a</guid>"))
    assert taken(fetcher, f"{host}/feed") == ["One"]
    assert lost(fetcher, str(tmp_path)) == ["A"]
    assert lost(fetcher, f"{host}/feed") == []  # not due
    assert [source["address"] for source in fetcher.state()] == [f"{host}/feed"]
    assert taken(fetcher, str(tmp_path)) == ["A"]
    assert taken(fetcher, str(tmp_path)) == []


def test_a_fetch_that_fails_leaves_all_as_it_was(host, fetcher, monkeypatch):
    monkeypatch.setattr(fetcher.reader, "read", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError), fetcher.handed_out(f"{host}/feed"):
        pass
    assert fetcher.state() == []


def test_what_is_seen_is_copied_and_taken_back():
    seen = Seen(most=2, keys=["a", "b:source"])
    other = seen.copy()
    assert other.meet(["c"]) is False
    assert (other.state(), seen.state()) == (["b:source", "c"], ["a", "b:source"])
    other.become(seen)
    seen.meet(["d"])
    assert other.state() == ["a", "b:source"]


# Commands ----------------------------------------------------------------------------------------


def test_the_command_prints_what_is_new_and_remembers(tmp_path):
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


@pytest.fixture
def fetch_command(tmp_path):
    typer_testing = pytest.importorskip("typer.testing")
    from germane.cli.app import app

    state = tmp_path / "state.json"
    feeds = tmp_path / "feeds"
    feeds.mkdir()
    (feeds / "a.xml").write_bytes(rss("<title>One</title><guid>1</guid>"))

    def run(*arguments):
        return typer_testing.CliRunner().invoke(app, ["fetch", "--state", str(state), *arguments])

    return run, str(feeds), state


def test_a_wrong_source_is_said_before_the_first_is_read(fetch_command, tmp_path):
    run, feeds, state = fetch_command
    done = run(feeds, str(tmp_path / "nope"))
    assert (done.exit_code, done.stdout, state.exists()) == (2, "", False)
    assert "nope" in done.output
    assert json.loads(run(feeds).stdout)["title"] == "One"


def test_state_is_written_though_another_source_fails(fetch_command, monkeypatch):
    run, feeds, state = fetch_command
    real = Fetcher.fetch
    monkeypatch.setattr(
        Fetcher, "fetch", lambda self, address: real(self, address) if address == feeds else 1 / 0
    )
    assert run(feeds, "https://e.org/").exit_code == 1
    assert json.loads(state.read_text())["seen"]
    monkeypatch.undo()
    assert run(feeds).stdout == ""


class _Full(io.StringIO):
    """An output that takes a first message, and then no more."""

    def flush(self):
        if "Two" in self.getvalue():
            raise OSError("no space left")


def test_what_could_not_be_printed_is_new_the_next_time(fetch_command, tmp_path, monkeypatch):
    from germane.cli.app import app

    run, feeds, state = fetch_command
    more = tmp_path / "more"
    more.mkdir()
    for name in ("Two", "Three"):
        (more / f"{name}.xml").write_bytes(rss(f"<title>{name}</title><guid>{name}</guid>"))
    monkeypatch.setattr(sys, "stdout", _Full())
    arguments = ["fetch", feeds, str(more), "--state", str(state)]
    assert app(arguments, standalone_mode=False) == 2
    monkeypatch.undo()
    assert [row["address"] for row in json.loads(state.read_text())["sources"]] == [feeds]
    printed = run(feeds, str(more)).stdout.splitlines()
    assert [json.loads(line)["title"] for line in printed] == ["Three", "Two"]
    assert run(feeds, str(more)).stdout == ""


def test_a_state_is_written_as_a_whole_or_not_at_all(fetch_command, monkeypatch):
    run, feeds, state = fetch_command
    assert run(feeds).exit_code == 0
    before, real = state.read_bytes(), Path.write_text
    (Path(feeds) / "b.xml").write_bytes(rss("<title>Two</title><guid>2</guid>"))

    def half(self, text, *rest, **more):
        real(self, text[: len(text) // 2], *rest, **more)
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", half)
    done = run(feeds)
    assert (done.exit_code, state.read_bytes()) == (2, before)
    assert "no space left" in done.stderr
    monkeypatch.undo()
    assert sorted(path.name for path in state.parent.iterdir()) == ["feeds", "state.json"]
    assert json.loads(run(feeds).stdout)["title"] == "Two"


def test_a_state_stays_where_it_is_and_whose_it_is(fetch_command, tmp_path):
    run, feeds, state = fetch_command
    whole = tmp_path / "elsewhere" / "kept.json"
    whole.parent.mkdir()
    state.symlink_to(whole)
    assert run(feeds).exit_code == 0
    whole.chmod(0o600)
    assert run(feeds).exit_code == 0
    assert state.is_symlink()
    assert stat.S_IMODE(whole.stat().st_mode) == 0o600
    assert json.loads(whole.read_text())["seen"]
    assert [path.name for path in whole.parent.iterdir()] == ["kept.json"]


@pytest.mark.parametrize("by_link", [False, True])
def test_a_folder_of_state_that_is_not_there_is_said_first(fetch_command, tmp_path, by_link):
    run, feeds, state = fetch_command
    missing = tmp_path / "missing" / "kept.json"
    if by_link:
        state.symlink_to(missing)
    done = run(feeds) if by_link else run(feeds, "--state", str(missing))
    state = state if by_link else missing
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"{state}: there is no folder {missing.parent}; make it first\n"
    assert not missing.parent.exists()


def test_a_strange_server_costs_one_feed(fetch_command, host, clock):
    run, feeds, _ = fetch_command
    _Server.answers = {"/x": (302, b"", {"Location": "http://["})}
    done = run(f"{host}/x", "http://127.0.0.1:99999/", "http://xn--/", feeds, "--private")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["title"] == "One"
    assert len(done.stderr.splitlines()) == 3


@pytest.mark.parametrize(
    "text",
    ["[]", "no JSON", '{"seen": 1}', '{"seen": [1]}', '{"sources": {}}', '{"sources": [1]}',
     '{"sources": [{"address": "x", "nice": 1}]}', "\xff"],
)  # fmt: skip
def test_a_bad_state_is_said_with_the_files_name(fetch_command, text):
    run, feeds, state = fetch_command
    state.write_bytes(text.encode("latin-1"))
    done = run(feeds)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "state.json" in done.stderr


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
