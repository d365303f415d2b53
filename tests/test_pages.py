"""The pages in a real browser, on a real service: what a person does, and what an operator sees."""

import json
import os
import re
import shutil
import time
import warnings
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

for needed in ("playwright", "fastapi", "httpx"):
    pytest.importorskip(needed)

import httpx
from playwright.sync_api import expect, sync_playwright
from service_kit import in_thread

from germane.service.settings import Settings
from germane.service.supervisor import Supervisor, prepare
from germane.service.web import PAGES, read_pages

ROOT = Path(__file__).parent.parent
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
AXE = Path(os.environ.get("GERMANE_AXE", ROOT / "node_modules/axe-core/axe.min.js"))
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 860}
MANY = {"Content-Type": "application/cloudevents-batch+json"}
WAIT_MS = 60_000  # a busy machine is no failure
expect.set_options(timeout=WAIT_MS)
TOPICS = [("News", t) for t in ("Sports", "Culture")] + [
    ("Sports", "Baseball"), ("Sports", "Running"), ("Culture", "Music"), ("Culture", "Talks"),
]  # fmt: skip

pytestmark = [pytest.mark.xdist_group("pages"), pytest.mark.usefixtures("compiled")]
needs_browser = pytest.mark.skipif(not CHROMIUM, reason="NO BROWSER: apt-get install chromium")
needs_axe = pytest.mark.skipif(not AXE.exists(), reason="NO AXE: npm install --no-save axe-core")
if not CHROMIUM:
    warnings.warn("the pages are not tested: there is no chromium", stacklevel=1)


# what is sent ------------------------------------------------------------------------------------


def test_the_client_is_small():
    """Everything that the client loads before data, uncompressed."""
    parts = ["index.html", "css/base.css", "css/client.css", "icon.svg", "manifest.webmanifest"]
    modules = set()
    waiting = ["js/client.js"]
    while waiting:
        name = waiting.pop()
        if name not in modules:
            modules.add(name)
            lines = (PAGES / name).read_text(encoding="utf-8").splitlines()
            named = [line.split('"./')[1].split('"')[0] for line in lines if ' from "./' in line]
            waiting += [f"js/{each}" for each in named]
    total = sum((PAGES / name).stat().st_size for name in [*parts, *modules])
    assert len(modules) > 8
    assert total < 150_000, total
    shell = (PAGES / "sw.js").read_text(encoding="utf-8")
    kept = {
        f"js/{name}.js"
        for name in shell.split("...[")[1].split("]")[0].replace('"', "").split(", ")
    }
    assert kept == modules, "the service worker keeps other modules than the client loads"


def test_no_page_has_inline_script_style_or_markup_from_data():
    for name in read_pages():
        text = (PAGES / name).read_text(encoding="utf-8") if name.endswith((".html", ".js")) else ""
        if name.startswith("vendor/"):
            continue
        for forbidden in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
        ):
            assert forbidden not in text, f"{forbidden} in {name}"
        if name.endswith(".html"):
            assert " style=" not in text
            assert "<style" not in text
            assert "<script>" not in text
            assert " onclick=" not in text


# a service and a browser -------------------------------------------------------------------------


class Town:
    """A running service, and a person who has a token."""

    def __init__(self, folder):
        from service_kit import free_port

        settings = Settings(
            data=str(folder / "data"), port=free_port(), allow_sinks=("127.0.0.1/32",)
        )
        self.base = f"http://127.0.0.1:{settings.port}"
        self.root = prepare(settings)
        self.journal = (folder / "journal").open("wb")
        self.supervisor = Supervisor(settings, errors=self.journal)
        self.supervisor.start()
        self.http = httpx.Client(
            base_url=self.base, headers={"Authorization": f"Bearer {self.root}"}, timeout=120
        )
        self.ready()
        self.send("PUT", "/graphs/topic", {"edges": TOPICS})
        self.numbers = iter(range(1, 10**9))
        self.publish("Warming up", "Music")
        self.settled()

    def ready(self):
        end = time.monotonic() + 300
        while not self.supervisor.is_ready():
            assert time.monotonic() < end, "the service does not start"
            self.supervisor.watch()
            time.sleep(0.1)

    def send(self, method, path, body=None, headers=None):
        """A request; while the matcher compiles its kernels for the first time, again and again."""
        end = time.monotonic() + 300
        while True:
            answer = self.http.request(method, path, json=body, headers=headers)
            if answer.status_code != 503 or time.monotonic() > end:
                break
            time.sleep(0.2)
        assert answer.is_success, (path, answer.status_code, answer.text)
        return answer.json()

    def publish(self, title, topic, **data):
        """One message; its seq."""
        event = {
            "specversion": "1.0", "id": f"m{next(self.numbers)}", "source": "/town",
            "type": "news", "data": {"title": title, "topic": [topic], **data},
        }  # fmt: skip
        return self.send("POST", "/events", [event], MANY)["last"]

    def settled(self, headers=None):
        """Until the matcher has taken everything of a tenant."""
        last = self.send("GET", "/stats", headers=headers)["log"]["last"]
        while self.send("GET", "/stats", headers=headers)["position"] < last:
            time.sleep(0.05)

    def told(self, path, headers=None):
        """What the service says when everything has been taken: an answer waits but a moment."""
        self.settled(headers)
        return self.send("GET", path, headers=headers)

    def sent(self, method, path, body=None, headers=None):
        """A change, when it has been taken; its answer."""
        answer = self.send(method, path, body, headers)
        self.settled(headers)
        return answer

    def person(self, name, *conditions, **context):
        """Somebody with subscriptions and a context; a token."""
        if context:
            self.send("PATCH", f"/contexts/{name}", context)
        for condition in conditions:
            body = {"condition": condition, "subscriber": name, "context": name}
            self.send("POST", "/subscriptions", body)
        self.settled()
        return self.send("POST", "/tokens", {"role": "subscriber", "subject": name})["token"]

    def close(self):
        self.http.close()
        self.supervisor.stop()
        self.journal.close()


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    town = Town(tmp_path_factory.mktemp("pages"))
    yield town
    town.close()


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def pages(browser):
    """Opens pages; at the end nothing may have gone wrong in any of them."""
    contexts, wrong = [], []

    def opened(viewport=PHONE, **more):
        context = browser.new_context(viewport=viewport, **more)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: dialog.accept())

        def said(message):
            if message.type == "error" and "Failed to load resource" not in message.text:
                wrong.append(message.text)

        page.on("console", said)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not wrong


def box_of(locator):
    """Where something is on the screen; it may be drawn anew in the very moment."""
    end = time.monotonic() + WAIT_MS / 1000
    while True:
        expect(locator).to_be_visible()
        if box := locator.bounding_box():
            return box
        assert time.monotonic() < end, locator


def keep_toasts(page):
    """They stay until the next: a slow machine may come late to press what is in them."""
    page.add_init_script("""{
        const after = setTimeout;
        setTimeout = (f, ms, ...more) => after(f, ms === 8000 ? 1e9 : ms, ...more);
    }""")


def titles(page):
    return page.locator(".item h3").all_inner_texts()


def signed_in(page, town, token):
    page.goto(f"{town.base}/app/#token={token}")
    expect(page.locator("#state")).to_have_text("Live", timeout=WAIT_MS)


def test_large_answers_are_compressed_and_streams_are_not(town):
    large = town.http.get("/app/vendor/uplot.js")
    assert large.headers["content-encoding"] == "gzip"
    assert large.content == (PAGES / "vendor/uplot.js").read_bytes()
    assert "content-encoding" not in town.http.get("/me").headers
    plain = town.http.get("/app/vendor/uplot.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    with town.http.stream("GET", "/deliveries/stream") as stream:
        assert "content-encoding" not in stream.headers
        assert next(stream.iter_lines()) == ": germane"


# a person ----------------------------------------------------------------------------------------


@needs_browser
def test_subscribe_move_and_receive_live(town, pages):
    """By the guided editor, with a keyboard and a mouse, on a phone."""
    town.send("PATCH", "/contexts/ann", {"task": "work"})
    town.publish("Old concert", "Music")
    town.publish("Old game", "Baseball")
    token = town.person("ann")
    page = pages()
    signed_in(page, town, token)
    assert "token" not in page.url, "the token stays out of the address"
    page.click("text=New subscription")
    page.click("text=A topic")
    page.get_by_label("Line 1: what").select_option("it:topic")
    page.get_by_label("Line 1: value", exact=True).fill("Culture")
    expect(page.locator("#condition")).to_have_value("topic WITHIN 'Culture'")
    expect(page.locator("#verdict")).to_have_text("✓ Valid")
    expect(page.locator("h2", has_text="Would have brought")).to_contain_text("of the last")
    expect(page.locator(".examples")).to_contain_text("Old concert")
    expect(page.locator(".examples")).not_to_contain_text("Old game")
    page.fill("#condition", "topic WITHIN 'Culture' AND context.task = ")
    expect(page.locator("#verdict")).to_contain_text("expected")
    expect(page.get_by_role("button", name="Subscribe")).to_be_disabled()
    page.fill("#condition", "topic WITHIN 'Culture' AND context.task = 'leisure'")
    expect(page.get_by_label("Line 2: what")).to_have_value("me:task")
    page.get_by_role("button", name="Subscribe").click()
    expect(page.locator(".sub .title")).to_have_text("Culture, while my task is leisure")

    page.click("#tabs >> text=Inbox")
    town.publish("A talk at work", "Talks")
    town.settled()
    page.click("#tabs >> text=Now")
    page.get_by_role("button", name="leisure").click()
    expect(page.get_by_role("button", name="leisure")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#toast")).to_contain_text("leisure")
    page.click("#tabs >> text=Inbox")
    town.publish("A talk at leisure", "Talks")
    town.publish("A game at leisure", "Baseball")
    expect(page.locator(".item h3")).to_have_text(["A talk at leisure"])
    expect(page.locator(".item .why")).to_contain_text("Culture, while my task is leisure")
    page.click(".item h3 button")
    expect(page.locator(".steps li").first).to_contain_text("context.task = 'leisure'")
    assert town.told("/contexts/ann")["values"]["task"] == "leisure"


@needs_browser
def test_feedback_changes_what_comes_next(town, pages):
    """Kept and dismissed messages teach the agent; the person sees why, pins, mutes, erases."""
    token = town.person("lea", "topic WITHIN 'News'", task="leisure")
    page = pages()
    keep_toasts(page)
    signed_in(page, town, token)
    page.click("#tabs >> text=Subscriptions")
    page.get_by_label("Bring me that, too").check()
    expect(page.locator("#toast")).to_contain_text("Learned interests are used")
    page.click("#tabs >> text=Inbox")
    for number in range(4):
        town.publish(f"song {number}", "Music")
        town.publish(f"game {number}", "Baseball")
    expect(page.locator(".item")).to_have_count(8)
    for number in range(4):
        song, game = (
            page.locator(".item", has_text=f"{what} {number}") for what in ("song", "game")
        )
        song.get_by_role("button", name="Keep").click()
        expect(song.get_by_role("button", name="Kept")).to_be_visible()
        game.get_by_role("button", name="Less like this").click()
        expect(game).to_have_count(0)
    end = time.monotonic() + 120
    while town.send("GET", "/agents/lea")["feedback"] < 8:
        assert time.monotonic() < end
        time.sleep(0.1)
    [own] = [s for s in rows(town, "lea") if not s["id"].startswith("agent-")]
    town.send("DELETE", f"/subscriptions/{own['id']}")
    town.publish("Another game", "Baseball")
    town.publish("Another song", "Music")
    page.get_by_role("button", name="1 new", exact=True).click()
    first = page.locator(".item").first
    expect(first.locator("h3")).to_have_text("Another song")
    expect(first.locator(".why")).to_contain_text("because you kept 4 of 4 Music items")
    assert not page.locator(".item", has_text="Another game").count()

    page.click("#tabs >> text=Subscriptions")
    card = page.locator(".sub", has_text="Music")
    card.get_by_role("button", name="Never").click()
    expect(card.locator(".chip", has_text="muted")).to_be_visible()
    town.publish("A muted song", "Music")
    page.locator("#toast").get_by_role("button", name="Undo").click()
    expect(card.locator(".chip", has_text="muted")).to_have_count(0)
    town.publish("The last song", "Music")
    page.click("#tabs >> text=Inbox")
    expect(page.locator(".item h3").first).to_have_text("The last song")
    assert "A muted song" not in titles(page)
    page.click("#tabs >> text=Subscriptions")
    page.get_by_role("button", name="Erase all").click()
    expect(page.locator("main")).to_contain_text("From 0 pieces of feedback")
    assert rows(town, "lea") == []
    assert town.send("GET", "/agents/lea/export")["pieces"] == []


def rows(town, name):
    return town.told(f"/subscriptions?subscriber={name}")["subscriptions"]


@needs_browser
def test_nothing_moves_under_the_pointer(town, pages):
    """What arrives while the list is in use waits behind a button."""
    page = pages(DESKTOP)
    signed_in(page, town, town.person("pia", "topic WITHIN 'Music'"))
    town.publish("First song", "Music")
    page.locator(".item h3").hover()
    for title in ("Second song", "Third song"):
        town.publish(title, "Music")
    expect(page.locator(".newbar button")).to_have_text("2 new")
    assert titles(page) == ["First song"]
    page.mouse.move(2, 2)
    expect(page.locator(".item h3")).to_have_text(["Third song", "Second song", "First song"])
    page.locator(".item h3 button").nth(1).focus()
    town.publish("Fourth song", "Music")
    page.get_by_role("button", name="1 new", exact=True).click()
    expect(page.locator(".item h3").first).to_have_text("Fourth song")
    expect(page.locator(".item h3 button").first).to_be_focused()
    expect(page.locator(".newbar button")).to_be_hidden()


@needs_browser
def test_the_focus_stays_in_the_inbox_when_more_is_known(town, pages):
    """Names of subscriptions come after the messages, on a slow network much later."""
    page = pages()
    waiting, slow = [], [True]
    take = lambda route: waiting.append(route) if slow[0] else route.continue_()  # noqa: E731
    page.route("**/subscriptions?*", take)
    signed_in(page, town, town.person("ora", "topic WITHIN 'Music'"))
    town.publish("A song", "Music")
    keep = page.locator(".item").get_by_role("button", name="Keep")
    keep.focus()
    until(page, lambda: waiting)
    slow[0] = False
    for each in waiting:
        each.continue_()
    expect(page.locator(".item .why")).to_contain_text("Music")
    expect(keep).to_be_focused()


@needs_browser
def test_a_lost_connection_resumes_without_loss_or_doubles(town, pages):
    """Offline, then the api dies: every message is in the inbox once, in order."""
    token = town.person("ben", "topic WITHIN 'Sports'")
    page = pages()
    signed_in(page, town, token)
    town.publish("run 0", "Running")
    expect(page.locator(".item h3")).to_have_text(["run 0"])
    page.context.set_offline(True)
    page.evaluate("window.dispatchEvent(new Event('offline'))")
    for number in range(1, 6):
        town.publish(f"run {number}", "Running")
    town.settled()
    page.context.set_offline(False)
    expected = [f"run {number}" for number in range(5, -1, -1)]
    expect(page.locator(".item h3")).to_have_text(expected, timeout=WAIT_MS)

    town.supervisor.children["api"].process.kill()
    expect(page.locator("#state")).to_have_text("Reconnecting…", timeout=WAIT_MS)
    town.supervisor.children["api"].process.wait()
    town.ready()
    for number in range(6, 9):
        town.publish(f"run {number}", "Running")
    expected = [f"run {number}" for number in range(8, -1, -1)]
    expect(page.locator(".item h3")).to_have_text(expected, timeout=WAIT_MS)
    page.reload()
    expect(page.locator(".item h3")).to_have_text(expected)
    expect(page.locator("#state")).to_have_text("Live", timeout=WAIT_MS)
    town.publish("run 9", "Running")  # what came twice would be there before it
    expect(page.locator(".item h3")).to_have_text(["run 9", *expected])


@needs_browser
def test_it_opens_without_a_network_and_sends_feedback_later(town, pages):
    token = town.person("cleo", "topic WITHIN 'Music'")
    page = pages()
    keep_toasts(page)
    signed_in(page, town, token)
    town.publish("First song", "Music")
    town.publish("Second song", "Music")
    expect(page.locator(".item")).to_have_count(2)
    page.evaluate("navigator.serviceWorker.ready")
    page.wait_for_function(
        "caches.open('germane-shell').then(c => c.keys()).then(k => k.length > 10)"
    )
    page.context.set_offline(True)
    page.reload()
    expect(page.locator(".item h3")).to_have_text(["Second song", "First song"])
    page.locator(".item", has_text="First song").get_by_role("button", name="Keep").click()
    page.locator(".item", has_text="Second song").get_by_role("button", name="Dismiss").click()
    expect(page.locator(".item h3")).to_have_text(["First song"])
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".item")).to_have_count(2)
    page.get_by_role("button", name="Kept", exact=True).first.click()
    expect(page.locator(".item h3")).to_have_text(["First song"])


@needs_browser
def test_feedback_that_waited_says_when_and_where_it_was_given(town, pages):
    token = town.person("nina", "topic WITHIN 'Music'", task="leisure")
    page = pages()
    signed_in(page, town, token)
    town.publish("A song", "Music")
    expect(page.locator(".item")).to_have_count(1)
    expect(page.locator(".nowline")).to_contain_text("leisure")
    page.context.set_offline(True)
    pressed = time.time()
    page.get_by_role("button", name="Keep").click()
    expect(page.get_by_role("button", name="Kept", exact=True).last).to_be_visible()
    shown = time.time()
    town.send("PATCH", "/agents/nina/context", {"task": "work"})
    page.wait_for_timeout(6_000)
    page.context.set_offline(False)
    end = time.monotonic() + 120
    while not (pieces := town.send("GET", "/agents/nina/export")["pieces"]):
        assert time.monotonic() < end
        time.sleep(0.1)
    [(_, topics, context, kind, _, at)] = pieces
    assert (topics, kind, dict(context)["task"]) == (["Music"], "kept", "leisure")
    assert pressed - 1 <= at <= shown + 1


@needs_browser
def test_feedback_counts_though_the_clock_is_ahead(town, pages):
    token = town.person("olga", "topic WITHIN 'Music'", task="leisure")
    page = pages()
    page.add_init_script("const now = Date.now; Date.now = () => now() + 600_000;")
    signed_in(page, town, token)
    town.publish("A song", "Music")
    pressed = time.time()
    page.locator(".item").get_by_role("button", name="Keep").click()
    end = time.monotonic() + 120
    while not (pieces := town.send("GET", "/agents/olga/export")["pieces"]):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert pressed - 1 <= pieces[0][5] <= time.time() + 1


@needs_browser
def test_what_is_taken_back_is_told_to_the_agent(town, pages):
    """In the order of the presses, also when all of them waited for a network."""
    page = pages()
    keep_toasts(page)
    signed_in(page, town, town.person("uma", "topic WITHIN 'Music'"))
    sent = []

    def answered(response):
        if response.url.endswith("/feedback"):
            assert response.ok, response.text()
            sent.append(response.request.post_data_json["signal"])

    page.on("response", answered)
    town.publish("A song", "Music")
    item = page.locator(".item")
    expect(item).to_have_count(1)
    pressed = ["kept", "undone", "dismissed", "undone", "less", "undone"]

    def press():
        item.get_by_role("button", name="Keep").click()
        item.get_by_role("button", name="Kept").click()
        for name in ("Dismiss", "Less like this"):
            item.get_by_role("button", name=name).click()
            expect(item).to_have_count(0)
            page.locator("#toast").get_by_role("button", name="Undo").click()
            expect(item).to_have_count(1)

    press()
    until(page, lambda: sent == pressed)
    sent.clear()
    page.context.set_offline(True)
    press()
    assert sent == []
    page.context.set_offline(False)
    until(page, lambda: sent == pressed)


def too_wide(page):
    """Whether something has to be scrolled to sideways."""
    return page.evaluate("document.documentElement.scrollWidth - innerWidth") > 0


def until(page, holds):
    """Wait for what no locator shows, while the page goes on."""
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        page.wait_for_timeout(50)


@needs_browser
def test_offline_the_places_are_asked_for_once(town, pages):
    page = pages()
    signed_in(page, town, town.person("lou", task="work"))
    page.context.set_offline(True)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_request("**/graphs"):
        page.click("#tabs >> text=Now")
    page.wait_for_timeout(2000)
    assert len([url for url in asked if url.endswith("/graphs")]) == 1
    with page.expect_request("**/graphs"):
        page.context.set_offline(False)


@needs_browser
def test_what_senders_write_stays_text(town, pages):
    hostile = (
        "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    )
    token = town.person("dora", "topic WITHIN 'Talks'")
    page = pages()
    signed_in(page, town, token)
    town.publish(
        hostile, "Talks", summary=hostile, link="javascript:document.title='owned'", feed=hostile
    )
    expect(page.locator(".item h3")).to_have_text([hostile])
    page.click(".item h3 button")
    expect(page.locator(".item .body")).to_contain_text("onerror")
    assert page.locator("main img, main script, .item a").count() == 0
    assert page.title() == "Inbox · germane"
    policy = httpx.get(f"{town.base}/app/").headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "script-src 'self'" in policy


@needs_browser
def test_quiet_hours_digests_and_mutes(town, pages):
    token = town.person("emil", "topic WITHIN 'Music'")
    page = pages(DESKTOP)
    signed_in(page, town, token)
    page.click("#tabs >> text=Settings")
    page.check("text=Hold what arrives at night")
    page.fill("#from", "00:00")
    page.fill("#to", "23:59")
    page.select_option("#digest", label="A digest every hour")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#toast")).to_contain_text("Saved")
    wishes = town.told("/preferences/emil")["preferences"]
    assert wishes["quiet"]["from"] == "00:00"
    assert wishes["digest"] == {"seconds": 3600}
    town.publish("A song for later", "Music")
    town.settled()
    page.reload()
    expect(page.locator("main")).to_contain_text("1 message held for you")
    expect(page.locator("main")).to_contain_text("A song for later")
    page.click("#tabs >> text=Subscriptions")
    page.get_by_role("button", name="Mute").click()
    expect(page.locator(".sub .chip", has_text="muted")).to_be_visible()
    [row] = rows(town, "emil")
    assert row["muted"]


@needs_browser
def test_a_digest_that_was_set_elsewhere_is_kept(town, pages):
    token = town.person("nora", "topic WITHIN 'Music'")
    page = pages()
    for digest, words in (
        ({"seconds": 300}, "A digest every 5 minutes"),
        ({"seconds": 3600, "count": 20}, "A digest of 20 messages, or every hour"),
    ):
        town.sent("PUT", "/preferences/nora", {"digest": digest})
        signed_in(page, town, token)
        page.click("#tabs >> text=Settings")
        expect(page.locator("#digest option:checked")).to_have_text(words)
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#toast")).to_contain_text("Saved")
        assert town.told("/preferences/nora")["preferences"]["digest"] == digest
        page.goto("about:blank")


@needs_browser
def test_a_snooze_keeps_what_was_saved_before_it(town, pages):
    page = pages()
    signed_in(page, town, town.person("wim"))
    page.click("#tabs >> text=Settings")
    saved = {"digest": {"seconds": 3600}, "rate": {"limit": 5, "seconds": 60}}

    def wishes(but):
        found = town.told("/preferences/wim")["preferences"]
        return {name: value for name, value in found.items() if value and name != but}

    def press(name, words):
        page.get_by_role("button", name=name).click()
        expect(page.locator("#toast")).to_have_text(words)

    page.select_option("#digest", label="A digest every hour")
    page.fill("#rate", "5")
    press("Save", "Saved")
    press("Snooze", "Everything is held for an hour")
    assert wishes(but="snoozed_until") == saved
    expect(page.locator("#digest option:checked")).to_have_text("A digest every hour")
    expect(page.locator("#rate")).to_have_value("5")
    page.select_option("#digest", label="Each at once")
    press("Save", "Saved")
    press("Snoozed until", "Awake")
    assert wishes(but=None) == {"rate": saved["rate"]}, "what was let go of stays so"
    expect(page.locator("#digest option:checked")).to_have_text("Each at once")


@needs_browser
def test_two_people_on_one_device_do_not_mix(town, pages):
    first = town.person("fay", "topic WITHIN 'Music'")
    second = town.person("gus", "topic WITHIN 'Running'")
    page = pages()
    signed_in(page, town, first)
    town.publish("Fay's song", "Music")
    expect(page.locator(".item h3")).to_have_text(["Fay's song"])
    page.goto("about:blank")
    signed_in(page, town, second)
    expect(page.locator("main")).to_contain_text("Nothing here yet")
    page.goto("about:blank")
    page.goto(f"{town.base}/app/#token=gm_nonsense")
    expect(page.locator("main [role=alert]")).to_contain_text("not known here")


@needs_browser
def test_signing_out_leaves_nothing_of_a_person(town, pages):
    """Not in this tab, not in another one, not for who signs in next."""
    first = town.person("ria", "topic WITHIN 'Music'", task="family")
    second = town.person("sam", "topic WITHIN 'Running'", task="sport")
    page = pages()
    signed_in(page, town, first)
    town.publish("Ria's song", "Music")
    expect(page.locator(".item h3")).to_have_text(["Ria's song"])
    page.click("#tabs >> text=Now")
    page.fill("#place", "Ria's place")
    page.get_by_role("button", name="Set").first.click()
    expect(page.get_by_role("button", name="Ria's place")).to_be_visible()
    other = page.context.new_page()
    other.goto(f"{town.base}/app/")
    expect(other.locator(".item h3")).to_have_text(["Ria's song"])

    page.click("#tabs >> text=Settings")
    asked = []
    page.on("dialog", lambda dialog: asked.append(dialog.message))
    page.get_by_role("button", name="Sign out").click()
    for tab in (page, other):
        expect(tab.get_by_role("button", name="Sign in")).to_be_visible()
    assert "erased" in asked[0]
    for tab in (page, other):
        tab.click(".brand")
        for name in ("now", "inbox"):
            tab.evaluate(f"location.hash = '{name}'")
        expect(tab.get_by_role("button", name="Sign in")).to_be_visible()
        assert "Ria" not in tab.locator("body").inner_text()
        assert "family" not in tab.locator("body").inner_text()
    assert page.evaluate("localStorage.length") == 0
    page.fill("#token", second)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#state")).to_have_text("Live", timeout=WAIT_MS)
    expect(page.locator("main")).to_contain_text("Nothing here yet")
    expect(page.locator(".nowline")).to_contain_text("sport")
    page.click("#tabs >> text=Now")
    expect(page.get_by_role("button", name="sport")).to_have_attribute("aria-pressed", "true")
    assert "Ria" not in page.locator("body").inner_text()


@needs_browser
def test_an_address_that_cannot_be_decoded_leads_somewhere(town, pages):
    page = pages()
    signed_in(page, town, town.person("ute"))
    page.evaluate("location.hash = 'subscriptions/%'")
    expect(page.locator("main h1")).to_have_text("There is no such subscription")


@needs_browser
def test_a_revoked_token_is_told(town, pages):
    page = pages()
    page.route("**/deliveries/stream*", lambda route: route.fulfill(status=401, json={}))
    page.goto(f"{town.base}/app/#token={town.person('tea')}")
    expect(page.locator("main [role=alert]")).to_have_text("Your token was revoked.")
    page.reload()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    expect(page.locator("main [role=alert]")).to_have_count(0)


@needs_browser
def test_any_answer_may_tell_that_a_token_was_revoked(town, pages):
    page = pages()
    token = town.person("tim", task="work")
    page.route("**/contexts/tim", lambda route: route.fulfill(status=401, json={}))
    page.goto(f"{town.base}/app/#token={token}")
    expect(page.locator("main [role=alert]")).to_have_text("Your token was revoked.")
    assert page.evaluate("localStorage.length") == 0


@needs_browser
def test_an_operator_says_whose_inbox(town, pages):
    town.person("ivy", "topic WITHIN 'Talks'")
    page = pages()
    page.goto(f"{town.base}/app/#token={town.root}")
    page.get_by_label("Subscriber").fill("ivy")
    page.get_by_role("button", name="Open").click()
    expect(page.locator("#state")).to_have_text("Live", timeout=WAIT_MS)
    town.publish("A talk for Ivy", "Talks")
    expect(page.locator(".item h3")).to_have_text(["A talk for Ivy"])
    page.reload()
    expect(page.locator(".item h3")).to_have_text(["A talk for Ivy"])
    publisher = town.send("POST", "/tokens", {"role": "publisher"})["token"]
    page.goto("about:blank")
    page.goto(f"{town.base}/app/#token={publisher}")
    expect(page.locator("main [role=alert]")).to_contain_text("This is a publisher's token")


@needs_browser
def test_what_was_kept_stays(town, pages):
    """However much comes after it."""
    page = pages()
    signed_in(page, town, town.person("eve", "topic WITHIN 'Baseball'"))
    town.publish("A game to keep", "Baseball")
    page.get_by_role("button", name="Keep", exact=True).click()
    expect(page.locator(".item").get_by_role("button", name="Kept")).to_be_visible()
    events = [
        {"specversion": "1.0", "id": f"e{n}", "source": "/e", "type": "news",
         "data": {"title": f"game {n}", "topic": ["Baseball"]}} for n in range(700)
    ]  # fmt: skip
    town.send("POST", "/events", events, MANY)
    expect(page.locator(".newbar button")).to_have_text("700 new", timeout=3 * WAIT_MS)
    page.reload()
    page.get_by_role("button", name="Kept", exact=True).first.click()
    expect(page.locator(".item h3")).to_have_text(["A game to keep"])


@needs_browser
def test_offline_it_does_not_say_live(town, pages):
    page = pages()
    signed_in(page, town, town.person("abe", "topic WITHIN 'Music'"))
    page.context.set_offline(True)
    expect(page.locator("#state")).to_have_text("Offline: this is what you have")
    town.publish("A song meanwhile", "Music")
    page.context.set_offline(False)
    expect(page.locator("#state")).to_have_text("Live", timeout=WAIT_MS)
    expect(page.locator(".item h3")).to_have_text(["A song meanwhile"])


@needs_browser
def test_a_service_that_is_not_there_is_said_in_words(town, pages):
    page = pages()
    signed_in(page, town, town.person("bea", "topic WITHIN 'Music'"))
    town.publish("A song", "Music")
    expect(page.locator(".item")).to_have_count(1)
    asks = ("**/explanation", "**/preferences/*", "**/subscriptions/*")
    for each in asks:
        page.route(each, lambda route: route.abort())
    words = "germane cannot be reached"
    page.click(".item h3 button")
    expect(page.locator(".item .body")).to_contain_text(words)
    page.unroute(asks[0])
    expect(page.locator(".item .steps li").first).to_be_visible()  # by itself
    page.click("#tabs >> text=Settings")
    expect(page.locator("main .error")).to_contain_text(words)
    page.click("#tabs >> text=Subscriptions")
    page.get_by_role("button", name="Mute").click()
    expect(page.locator("#toast")).to_contain_text(words)
    page.route("**/subscriptions:test", lambda route: route.abort())
    page.click("text=New")
    page.fill("#condition", "topic WITHIN 'Music'")
    expect(page.locator("#verdict")).to_contain_text(words)
    page.unroute("**/subscriptions:test")
    expect(page.locator("#verdict")).to_have_text("✓ Valid")


@needs_browser
def test_conditions_survive_the_guide(town, pages):
    """Text -> lines -> text keeps the meaning; what lines cannot show is left alone."""
    page = pages()
    page.goto(f"{town.base}/app/")
    back = """async (texts) => {
        const { parse, write } = await import('/app/js/conditions.js');
        const back = (rows) => rows && write(rows).replace(/\\s+/g, ' ');
        return texts.map((text) => back(parse(text)));
    }"""
    same = [
        "type = 'talk' AND context.unread < 100 AND start < context.last",
        "DISTANCE(position, context.position) <= 800",
        "title LIKE '%it''s%' AND room IN ('A1', 'A2') AND phone IS NULL AND x IS NOT NULL",
        "price BETWEEN -3 AND context.limit",
        "NOT topic WITHIN ('Sports', 'Music')",
        "topic WITHIN 'Music' AND NOT context.task IN ('work', 'meeting')",
        'place CONTAINS context.place AND "data.time" > 5',
        "free = TRUE",
    ]
    too_much = [
        "a = 1 OR b = 2", "price < context.limit - 5", "ABS(price) > 3", "a = 1 AND", "'",
        "NOT a IS NULL", "document MATCHES 'book' COST < 10", "a = 1 AND (b = 2 OR c = 3)",
        "NOT (a = 1 AND b = 2)",
    ]  # fmt: skip
    assert page.evaluate(back, same) == same
    assert page.evaluate(back, too_much) == [None] * len(too_much)
    assert page.evaluate(back, ["a != 1", "NOT (topic WITHIN 'X')", " TRUE "]) == [
        "a <> 1", "NOT topic WITHIN 'X'", "",
    ]  # fmt: skip
    describe = """async (texts) => {
        const { describe } = await import('/app/js/conditions.js');
        return texts.map(describe);
    }"""
    near = "DISTANCE(position, context.position) <= "
    assert page.evaluate(describe, [f"{near}800", f"{near}context.reach"]) == [
        "within 800 m of me", "within my reach",
    ]  # fmt: skip


@needs_browser
def test_the_guide_speaks_plainly(town, pages):
    """Starters, lines and errors of the editor; words of a condition."""
    tenant = town.send("POST", "/tenants", {"name": "words"})  # its places are categories
    own = {"Authorization": f"Bearer {tenant['token']}"}
    town.send("PUT", "/graphs/topic", {"edges": TOPICS}, own)
    town.send("PUT", "/graphs/place", {"edges": [("Town", "Park"), ("Park", "Pond")]}, own)
    here = {"place": ["Park"], "position": [49.0, 11.0], "task": "work"}
    town.send("PATCH", "/contexts/olga", here, own)
    data = {"title": "At the pond", "topic": ["Music"], "place": ["Pond"], "position": [49.0, 11.0]}
    event = {"specversion": "1.0", "id": "1", "source": "/town", "type": "news", "data": data}
    town.send("POST", "/events", [event], {**MANY, **own})
    town.settled(own)
    person = {"role": "subscriber", "subject": "olga"}
    token = town.send("POST", "/tokens", person, own)["token"]
    page = pages()
    signed_in(page, town, token)
    page.goto(f"{town.base}/app/#subscriptions/new")
    page.click("text=At or inside the place where I am")
    expect(page.locator("#condition")).to_have_value("place WITHIN context.place")
    expect(page.locator("h2", has_text="Would have brought 1 of")).to_be_visible()
    expect(page.get_by_label("Line 1: how").locator("option:checked")).to_have_text(
        "is at or inside"
    )
    page.fill("#condition", "")
    page.click("text=For an area that contains the place where I am")
    expect(page.locator("#condition")).to_have_value("place CONTAINS context.place")
    page.fill("#condition", "")
    page.click("text=Near me")
    expect(page.locator(".guide .value")).to_contain_text("metres of me")
    for condition, words in (
        ("title WITHIN 'Music'", "“title” has no categories: WITHIN needs something that has"),
        ("topic WITHIN 'Musik'", "There is no “Musik”; did you mean Music?"),
        ("topic = ", "Something is missing at the end: expected a value."),
    ):
        page.fill("#condition", condition)
        expect(page.locator("#verdict")).to_contain_text(words)
        expect(page.locator("#verdict mark")).to_have_count(1)
        for technical in ("graphs=", "position", "^", "profile"):
            assert technical not in page.locator("#verdict").inner_text()
    page.goto(f"{town.base}/app/#subscriptions/s_nope")
    expect(page.locator("main h1")).to_have_text("There is no such subscription")
    said = page.evaluate(
        "import('/app/js/conditions.js').then(({ describe }) => describe"
        "(\"topic WITHIN 'Music' AND NOT context.task IN ('work', 'meeting')\"))"
    )
    assert said == "Music, while my task is not work or meeting"


@needs_browser
def test_lines_are_made_with_the_keyboard(town, pages):
    """What is drawn anew after each choice keeps the focus where it was."""
    town.publish("Five", "Music", price=5)
    page = pages()
    signed_in(page, town, town.person("kim"))
    page.click("text=New subscription")
    page.locator("#condition").focus()
    page.keyboard.type("price <= 3")
    what, how = (page.get_by_label(f"Line 1: {part}") for part in ("what", "how"))
    expect(what.locator("option", has_text="topic")).to_have_count(1)
    how.focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
        expect(how).to_be_focused()
    expect(page.locator("#condition")).to_have_value("price > 3")
    what.focus()
    page.keyboard.press("End")
    expect(what).to_be_focused()
    expect(page.locator("#condition")).to_have_value(re.compile("^context"))
    page.get_by_role("button", name="Remove line 1").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Add a line")).to_be_focused()


@needs_browser
def test_a_wrong_number_is_not_taken_for_another(town, pages):
    page = pages()
    here = {"position": [49.0, 11.0]}
    town.publish("A walk", "Running", position=[49.0, 11.0], pace=5, free=True)
    signed_in(page, town, town.person("nat", **here))
    page.goto(f"{town.base}/app/#subscriptions/new")
    page.click("text=Near me")
    page.get_by_role("button", name="And").click()
    page.get_by_label("Line 2: what").select_option("it:pace")
    page.get_by_role("button", name="And").click()
    page.get_by_label("Line 3: what").select_option("it:free")
    expect(page.locator("#verdict")).to_have_text("✓ Valid", timeout=WAIT_MS)
    subscribe = page.get_by_role("button", name="Subscribe")
    before = page.locator("#condition").input_value()
    for line, typed, words in (
        (1, "abc", "Line 1: “abc” is no distance; write one such as 250."),
        (1, "1,5", "Line 1: “1,5” is no distance; write one such as 1.5."),
        (1, "-5", "Line 1: “-5” is no distance; write one such as 5."),
        (1, "", "Line 1: say how many metres."),
        (2, "1,5", "Line 2: “1,5” is no number; write one such as 1.5."),
        (3, "yes", "Line 3: write true or false."),
    ):
        field = page.get_by_label(f"Line {line}: value", exact=True)
        right = field.input_value()
        field.fill(typed)
        expect(page.locator("#verdict")).to_have_text(words)
        expect(subscribe).to_be_disabled()
        expect(field).to_have_attribute("aria-invalid", "true")
        page.wait_for_timeout(500)
        expect(subscribe).to_be_disabled()
        expect(page.locator("#condition")).to_have_value(before)
        field.fill(right)
        expect(page.locator("#verdict")).to_have_text("✓ Valid")
    page.get_by_label("Line 2: value", exact=True).fill("-2.5")
    expect(page.locator("#condition")).to_have_value(before.replace("<= 0", "<= -2.5"))
    expect(subscribe).to_be_enabled()


@needs_browser
def test_lines_stay_while_the_text_is_half_typed(town, pages):
    page = pages()
    signed_in(page, town, town.person("lin"))
    page.goto(f"{town.base}/app/#subscriptions/new")
    page.fill("#condition", "topic WITHIN 'Music'")
    expect(page.get_by_label("Line 1: what")).to_have_value("it:topic")
    lines, more = page.locator(".rows"), "more than lines can show"
    for half in ("topic WITHIN 'Music' AND price <", "topic WITHIN '", "price <"):
        page.fill("#condition", half)
        expect(page.locator("#verdict")).to_have_class("error")
        expect(page.get_by_label("Line 1: what")).to_have_value("it:topic")
        expect(page.locator(".rows button").last).to_be_visible()
        assert more not in lines.inner_text()
    page.fill("#condition", "topic WITHIN 'Music' OR price < 5")
    expect(lines).to_contain_text(more, timeout=WAIT_MS)
    page.fill("#condition", "topic WITHIN 'Talks'")
    expect(page.get_by_label("Line 1: value", exact=True)).to_have_value("Talks")
    page.fill("#condition", "title = '🎷🎷🎷' AND topic WITHIN 'Musik'")
    expect(page.locator("#verdict mark")).to_have_text("'Musik'")


@needs_browser
def test_a_draft_waits_until_it_is_saved(town, pages):
    page = pages()
    signed_in(page, town, town.person("dan"))
    page.goto(f"{town.base}/app/#subscriptions/new")
    page.fill("#condition", "tpoic = 'Music'")
    expect(page.locator(".chip.warm")).to_contain_text("messages had “tpoic”")
    page.click("#tabs >> text=Inbox")
    page.click("text=New subscription")
    expect(page.locator("#condition")).to_have_value("tpoic = 'Music'")
    expect(page.locator("main")).to_contain_text("not saved yet")
    page.fill("#condition", "topic WITHIN 'Music'")
    page.get_by_role("button", name="Subscribe").click()
    expect(page.locator(".sub .title")).to_have_text("Music")
    page.click("text=New")
    expect(page.locator("main h1")).to_have_text("New subscription")
    expect(page.locator("#condition")).to_have_value("")


@needs_browser
def test_mute_and_snooze_outlast_an_edit_and_an_undone_end(town, pages):
    page = pages()
    token = town.person("max", "topic WITHIN 'Music'")
    [first] = rows(town, "max")
    wish = {"muted": True, "snoozed_until": "2099-01-01T00:00:00Z"}
    town.sent("PATCH", f"/subscriptions/{first['id']}", wish)
    keep_toasts(page)
    signed_in(page, town, token)
    page.click("#tabs >> text=Subscriptions")
    page.get_by_role("link", name="Edit").click()
    page.fill("#condition", "topic WITHIN 'Talks'")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".sub .title")).to_have_text("Talks")
    [edited] = rows(town, "max")
    page.get_by_role("link", name="Edit").click()
    page.get_by_role("button", name="End it").click()
    expect(page.locator("main")).to_contain_text("You have not asked for anything yet")
    page.locator("#toast").get_by_role("button", name="Undo").click()
    expect(page.locator(".sub .title")).to_have_text("Talks")
    [again] = rows(town, "max")
    for each in (edited, again):
        assert {name: each[name] for name in wish} == wish
    assert again["id"] == first["id"]


@needs_browser
def test_a_refused_place_is_told_and_not_offered(town, pages):
    tenant = town.send("POST", "/tenants", {"name": "places"})
    own = {"Authorization": f"Bearer {tenant['token']}"}
    town.sent("PUT", "/graphs/place", {"edges": [("Town", "Park"), ("Park", "Pond")]}, own)
    person = {"role": "subscriber", "subject": "pam"}
    token = town.send("POST", "/tokens", person, own)["token"]
    page = pages()
    signed_in(page, town, token)
    page.click("#tabs >> text=Now")
    page.fill("#place", "Nowhereville")
    page.press("#place", "Enter")
    expect(page.locator("#toast")).to_contain_text("There is no place “Nowhereville”")
    expect(page.locator("#place")).to_have_value("Nowhereville")
    page.reload()
    expect(page.locator("h2", has_text="Where are you?")).to_be_visible()
    assert page.get_by_role("button", name="Nowhereville").count() == 0
    page.fill("#place", "Pond")
    page.press("#place", "Enter")
    expect(page.get_by_role("button", name="Pond")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#place")).to_have_value("")


@needs_browser
def test_the_link_of_who_is_signed_in_erases_nothing(town, pages):
    """What was kept or dismissed stays when the link is opened again."""
    token = town.person("rosa", "topic WITHIN 'Music'")
    page = pages()
    signed_in(page, town, token)
    for title in ("First", "Second"):
        town.publish(title, "Music")
    page.locator(".item", has_text="First").get_by_role("button", name="Keep").click()
    page.locator(".item", has_text="Second").get_by_role("button", name="Dismiss").click()
    expect(page.locator(".item h3")).to_have_text(["First"])
    page.goto("about:blank")
    signed_in(page, town, token)
    assert "token" not in page.url
    town.publish("And another", "Music")
    expect(page.locator(".item h3")).to_have_text(["And another", "First"])
    expect(page.locator("button", has_text="Kept")).to_have_count(2)


@needs_browser
def test_a_link_signs_in_where_a_token_is_asked_for(town, pages):
    """The browser does not load a page anew for what is behind the #."""
    page = pages()
    page.goto(f"{town.base}/app/")
    expect(page.locator("h1")).to_have_text("What matters to you, now")
    signed_in(page, town, town.person("yara"))
    assert "token" not in page.url
    page.goto(f"{town.base}/app/console#token=gm_wrong")
    expect(page.locator(".error")).to_contain_text("not known")
    page.goto(f"{town.base}/app/console#token={town.root}")
    expect(page.locator("#tabs")).to_contain_text("Overview")


@needs_browser
def test_what_is_refused_when_it_is_saved_is_seen(town, pages):
    """The words stand by the condition, and the button is far below them on a phone."""
    page = pages({"width": 390, "height": 420})
    signed_in(page, town, town.person("zoe", "topic WITHIN 'News' OR topic WITHIN 'Sports'"))
    page.click("#tabs >> text=Subscriptions")
    page.get_by_role("link", name="Edit").click()
    page.click("summary >> text=Delivery")
    page.fill("#sink", "http://10.0.0.1/")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#verdict")).to_contain_text("not a public address")
    expect(page.locator("#verdict")).to_be_in_viewport(ratio=1)


@needs_browser
def test_settings_and_interests_come_when_the_network_does(town, pages):
    page = pages()
    signed_in(page, town, town.person("tove", "topic WITHIN 'Music'"))
    for section, words in (
        ("Settings", "Quiet hours"),
        ("Subscriptions", "Learned from you"),
    ):
        page.context.set_offline(True)
        page.click(f"#tabs >> text={section}")
        expect(page.locator("body")).to_contain_text("Offline")
        expect(page.locator("main")).not_to_contain_text(words)
        page.context.set_offline(False)
        expect(page.locator("main")).to_contain_text(words)


@needs_browser
def test_each_message_of_a_digest_says_why(town, pages):
    """Its own words, its own source and its own reason, when it is opened."""
    token = town.person("ulla", "topic WITHIN 'News'")
    town.send("PUT", "/preferences/ulla", {"digest": {"count": 2}})
    page = pages()
    signed_in(page, town, token)
    for topic in ("Music", "Baseball"):
        link = f"https://example.org/{topic}"
        town.publish(f"About {topic}", topic, link=link, summary=f"All of {topic}.")
    page.click(".item h3 button")
    expect(page.locator(".item h3")).to_have_text("2 messages in a digest")
    expect(page.locator(".item .steps")).to_have_count(0)
    for topic in ("Music", "Baseball"):
        part = page.locator(".item details", has_text=f"About {topic}")
        part.locator("summary").click()
        expect(part).to_contain_text(f"All of {topic}.")
        expect(part.locator(".steps li")).to_contain_text(topic)
        expect(part.locator("a")).to_have_attribute("href", f"https://example.org/{topic}")


@needs_browser
def test_what_depends_on_what_was_not_said_says_so(town, pages):
    """“Near me” of somebody whose position is not known brings nothing, and says why."""
    town.publish("Here", "Music", position=[48.1, 11.5])
    page = pages()
    signed_in(page, town, town.person("vera", task="work"))
    page.click("text=New subscription")
    page.get_by_role("button", name="Near me").click()
    chip = page.locator(".chip", has_text="Your position is not known")
    expect(chip).to_be_visible()
    line, cross = (box_of(page.locator(f".guide {what}")) for what in (".value", ".remove"))
    edge = cross["x"] + cross["width"]
    assert abs(line["x"] + line["width"] - edge) < 2, "the lines use the width that there is"
    page.fill("#condition", "context.task = 'leisure' OR context.unread > 5")
    expect(page.locator(".chip", has_text="Your unread is not known")).to_be_visible()
    expect(page.locator(".chip", has_text="Your task")).to_have_count(0)
    page.fill("#condition", "DISTANCE(position, context.position) <= 1000")
    expect(chip).to_be_visible()
    chip.get_by_role("link").click()
    expect(page.locator("h1")).to_have_text("You, now")
    town.send("PATCH", "/contexts/vera", {"position": [48.1, 11.5]})
    page.get_by_role("button", name="Forget it").wait_for()
    page.click("#tabs >> text=Subscriptions")
    page.get_by_role("link", name="New").click()
    expect(page.locator("#verdict")).to_have_text("✓ Valid")
    expect(page.locator("h2", has_text="Would have brought 1 of")).to_be_visible()
    expect(chip).to_have_count(0)


@needs_browser
def test_the_focus_stays_on_what_was_pressed(town, pages):
    page = pages()
    token = town.person("flo", "topic WITHIN 'Music'", "topic WITHIN 'Talks'")
    signed_in(page, town, token)
    page.click("#tabs >> text=Subscriptions")
    second = page.locator(".sub", has=page.locator(".title")).nth(1)
    second.get_by_role("button", name="Mute").click()
    expect(second.get_by_role("button", name="Muted")).to_be_focused()
    second.get_by_role("button", name="Snooze 1 h").click()
    expect(second.get_by_role("button", name="Wake")).to_be_focused()
    page.get_by_label("Bring me that, too").check()
    expect(page.locator("#toast")).to_contain_text("Learned interests are used")
    page.wait_for_timeout(500)
    expect(page.get_by_label("Bring me that, too")).to_be_focused()


@needs_browser
def test_what_is_dismissed_in_one_tab_is_gone_in_the_other(town, pages):
    page = pages()
    signed_in(page, town, town.person("teo", "topic WITHIN 'Talks'"))
    other = page.context.new_page()
    other.goto(f"{town.base}/app/")
    expect(other.locator("#state")).to_have_text("Live", timeout=WAIT_MS)
    town.publish("A talk", "Talks")
    for tab in (page, other):
        expect(tab.locator(".item h3")).to_have_text(["A talk"])
    page.get_by_role("button", name="Dismiss").click()
    expect(other.locator(".item")).to_have_count(0)


# an operator -------------------------------------------------------------------------------------


@needs_browser
def test_the_console_shows_figures_and_redrives(town, pages):
    town.person("hal", "topic WITHIN 'Running' AND pace < context.pace", pace=5)
    town.publish("Numbers", "Running", pace=4)
    town.publish("Broken", "Nowhere")  # no node of the graph
    town.settled()
    page = pages(DESKTOP)
    page.goto(f"{town.base}/app/console#token={town.root}")
    expect(page.locator(".tile", has_text="subscriptions").locator("b")).not_to_have_text("–")
    stats = town.send("GET", "/stats")
    tile = page.locator(".tile", has_text="subscriptions").locator("b")
    expect(tile).to_have_text(f"{stats['subscriptions']:,}")
    expect(page.locator(".chart canvas")).to_have_count(6)
    expect(page.locator("text=policy")).to_be_visible()

    page.click("#tabs >> text=Subscriptions")
    page.click("a:has-text('pace below my pace')")
    expect(page.locator("main")).to_contain_text("Why is this one cheap?")
    expect(page.locator(".reasons li").first).to_be_visible()
    expect(page.locator("main")).to_contain_text("1 of 2 messages since it was made (50 %)")

    page.click("#tabs >> text=Dead letters")
    row = page.locator("tbody tr", has_text="Nowhere").first
    expect(row).to_contain_text("unknown node")
    town.sent("PATCH", "/graphs/topic", {"links": [["News", "Nowhere"]]})
    before = town.send("GET", "/stats")["log"]["last"]
    row.get_by_role("button", name="Redrive").click()
    expect(page.locator("#toast")).to_contain_text("Sent again")
    assert town.send("GET", "/stats")["log"]["last"] > before
    page.click("#tabs >> text=Sinks")
    expect(page.locator("main")).to_contain_text("No subscription has a sink")


class Receiver(BaseHTTPRequestHandler):
    """A webhook whose path says how it behaves."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/slow":
            time.sleep(3.0)  # in time for the courier, which waits 10 s
        self.send_response({"/dead": 500, "/gone": 410}.get(self.path, 204))
        self.end_headers()

    def log_message(self, *args):
        pass


def sent_to(town, tenant, names, messages):
    """A tenant whose messages go to real webhooks."""
    tenant = town.send("POST", "/tenants", {"name": tenant})
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.daemon_threads = True
    in_thread(server.serve_forever)
    url = f"http://127.0.0.1:{server.server_port}"
    own = {"Authorization": f"Bearer {tenant['token']}"}
    for name in names:
        body = {"condition": "n > 0", "subscriber": name, "sink": f"{url}/{name}"}
        town.send("POST", "/subscriptions", body, own)
    events = [
        {"specversion": "1.0", "id": f"n{n}", "source": "/s", "type": "t", "data": {"n": n}}
        for n in range(1, messages + 1)
    ]
    town.send("POST", "/events", events, {**MANY, **own})
    return tenant


@needs_browser
def test_the_console_shows_slow_and_failing_sinks(town, pages):
    """Three real webhooks: one is well, one takes its time, one is broken."""
    tenant = sent_to(town, "sinks", ("well", "slow", "dead"), 60)  # three minutes for the slow one
    page = pages(DESKTOP, bypass_csp=AXE.exists())
    page.goto(f"{town.base}/app/console#token={tenant['token']}")
    page.click("#tabs >> text=Sinks")
    row = {name: page.locator("tbody tr", has_text=f"/{name}") for name in ("well", "slow", "dead")}
    expect(row["dead"].locator(".chip")).to_have_text("failing")
    expect(row["dead"]).to_contain_text("500")
    expect(row["well"].locator(".chip")).to_have_text("ok")
    expect(row["well"].locator("td").nth(2)).to_have_text("0")
    expect(row["slow"].locator("td").nth(2)).to_contain_text("oldest")
    later = "const now = Date.now; Date.now = () => now() + 30000;"
    page.add_init_script(later)  # as if half a minute had passed
    page.reload()
    expect(row["slow"].locator(".chip")).to_have_text("slow")
    assert not AXE.exists() or not violations(page)
    page.set_viewport_size(PHONE)
    until(page, lambda: not too_wide(page))
    row["dead"].get_by_role("button", name="now").click()
    expect(page.locator("#toast")).to_contain_text("Trying it now")


@needs_browser
def test_dead_letters_are_counted_come_back_and_go_one_by_one(town, pages):
    tenant = sent_to(town, "letters", ("gone",), 3)
    page = pages(DESKTOP)
    page.goto(f"{town.base}/app/console#token={tenant['token']}")
    tile = page.locator(".tile", has_text="dead letters")
    expect(tile.locator("b")).to_have_text("3")
    tile.click()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(3)
    rows.nth(2).locator("summary").click()

    box = box_of(rows.nth(0).get_by_role("button", name="Delete"))
    spot = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def click(moment):
        """By a clock of the page that is turned by hand."""
        page.evaluate("moment => { performance.now = () => moment; }", moment)
        page.mouse.click(*spot)

    click(moment=60_000)
    click(moment=60_250)  # a double click asks once
    asks = page.get_by_role("button", name="Delete for good?")
    expect(asks).to_be_focused()
    page.wait_for_timeout(4000)  # the list is read again: the question stays
    assert rows.count() == 3
    click(moment=65_000)
    expect(rows).to_have_count(2)
    expect(rows.nth(0).get_by_role("button", name="Delete")).to_be_focused()
    expect(asks).to_have_count(0)
    expect(page.locator("details[open]")).to_have_count(1)

    with page.expect_response("**:redrive"):
        rows.nth(0).get_by_role("button", name="Redrive").press("Enter")
    expect(page.locator("#toast")).to_contain_text("Sent again")
    page.wait_for_timeout(1000)
    expect(rows).to_have_count(2)  # refused again: it is here again
    expect(rows.nth(0)).to_contain_text("the sink is gone; resume it first")
    page.context.set_offline(True)
    expect(page.locator("#state")).to_contain_text("No figures since")
    expect(page.locator("#state")).to_contain_text("You are offline")
    expect(page.locator("main.old")).to_have_count(1)
    page.wait_for_timeout(4000)  # the list cannot be read again: what is shown stays
    expect(rows).to_have_count(2)
    page.context.set_offline(False)
    expect(page.locator("#state")).to_contain_text("as of")
    expect(page.locator("main.old")).to_have_count(0)


@needs_browser
def test_a_profile_has_one_account_of_its_cost(town, pages):
    far = "DISTANCE(position, context.position) <= 500"
    town.person("cora", far, f"topic WITHIN 'Culture' OR {far} OR {far[:-3]}700 AND NOT age < 5")
    town.person("cora", "topic WITHIN 'Culture'", position=[52.0, 13.0])
    page = pages(DESKTOP)
    page.goto(f"{town.base}/app/console#token={town.root}")
    asked = town.send("GET", "/subscriptions?subscriber=cora")["subscriptions"]
    said = {}
    for each in asked:
        page.goto(f"{town.base}/app/console#subscriptions/{each['id']}")
        page.wait_for_selector(f"pre:text-is({json.dumps(each['condition'])})")
        reasons = page.locator(".reasons li").all_inner_texts()
        said[each["condition"]] = (page.locator("main h2").last.inner_text(), *reasons)
        assert "outside the indexes" not in " ".join(reasons)
    title, *reasons = said[far]
    assert title == "Why is this one costly?"
    assert len(reasons) == 1, reasons
    assert reasons[0].startswith("It is tested at every message: nothing in there")
    title, *reasons = said["topic WITHIN 'Culture'"]
    assert title == "Why is this one cheap?"
    assert reasons[0].startswith("An index finds it"), reasons
    del said[far], said["topic WITHIN 'Culture'"]
    [(title, *reasons)] = said.values()
    assert title == "Why is this one costly?"
    assert reasons[0].startswith("Of 3 conjunctions, an index finds 1"), reasons
    assert reasons[1].startswith("2 conjunctions are tested at every message"), reasons


@needs_browser
@pytest.mark.parametrize("viewport", [PHONE, DESKTOP])
def test_the_api_is_described_without_anything_from_elsewhere(town, pages, viewport):
    page = pages(viewport)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    answer = page.goto(f"{town.base}/docs")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    expect(page.locator("h1")).to_contain_text("The API of germane")
    paths = town.send("GET", "/openapi.json")["paths"]
    expect(page.locator(".request")).to_have_count(sum(map(len, paths.values())))
    page.click("summary:has-text('/deliveries/{id}/explanation')")
    expect(page.locator(".request[open]")).to_contain_text("message optional")
    assert all(url.startswith((town.base, "data:")) for url in asked)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert httpx.get(f"{town.base}/redoc").status_code == 404


@needs_browser
def test_the_console_is_an_operators(town, pages):
    token = town.person("ida")
    page = pages(DESKTOP)
    page.goto(f"{town.base}/app/console#token={token}")
    expect(page.locator("[role=alert]")).to_contain_text("operator's token")


# the demo ----------------------------------------------------------------------------------------


@needs_browser
def test_the_demo_shows_who_gets_what_and_takes_wishes(town, pages):
    """The town of the demo, on a tenant of its own: walk, ask, receive on the phone beside."""
    pytest.importorskip("feedparser")
    from germane.cli.demo.town.stage import Stage

    tenant = town.send("POST", "/tenants", {"name": "demo"})
    own_token = {"Authorization": f"Bearer {tenant['token']}"}

    def step_until(subscription):
        """Go on until it brings you something: no further, or that would be old news."""
        for _ in range(400):
            stage.step()
            town.settled(own_token)
            got = town.send("GET", "/deliveries?subscriber=you&limit=1000", headers=own_token)
            if any(each["subscriptions"][:1] == [subscription] for each in got["deliveries"]):
                return
        raise AssertionError("nothing has come")

    def asked(condition):
        path = "/subscriptions?subscriber=you"
        found = town.told(path, headers=own_token)["subscriptions"]
        return next(each["id"] for each in found if condition in each["condition"])

    stage = Stage(town.base, tenant["token"], size=30)
    url = stage.set_up()
    while not stage.is_seen():
        time.sleep(0.1)
    page = pages({"width": 1440, "height": 1000}, bypass_csp=AXE.exists())
    page.goto(url)
    expect(page.locator("#people li")).to_have_count(6)
    expect(page.locator("#news > li")).not_to_have_count(0)
    phone = page.frame_locator("#phone")
    expect(phone.locator("#state")).to_have_text("Live", timeout=WAIT_MS)
    page.select_option("#walk", "Quay")
    expect(page.locator("#toast")).to_contain_text("Harbour")
    page.click("text=Whatever happens where I am")
    expect(page.locator("#asks [aria-pressed=true]")).to_have_count(1)
    step_until(asked("DISTANCE"))  # until something happens at the harbour
    expect(phone.locator(".item .why").first).to_contain_text("within 500 m of me")
    yours = page.locator("#news > li", has=page.locator(".who b", has_text="you")).first
    expect(yours).to_be_visible()
    yours.locator("summary").click()
    expect(yours.locator(".verdicts li").first).to_have_text("✓You“within 500 m of me”")
    expect(yours.locator(".verdicts .no").first).to_be_visible()
    expect(page.locator("#figures")).to_contain_text("37 people")
    page.fill("#said", "Pancakes <b>for all</b>")
    page.select_option("#about", "Weather")
    page.get_by_role("button", name="Say it").click()
    said = page.locator("#news > li", has_text="Pancakes <b>for all</b>")
    expect(said.locator(".verdicts li").first).to_have_text("✓You“within 500 m of me”")
    expect(page.locator("#said")).to_have_value("")
    expect(phone.locator(".item h3").first).to_have_text("Pancakes <b>for all</b>")
    page.click("text=Something of your own")  # the editor opens on the phone
    expect(phone.locator("main h1")).to_have_text("New subscription")
    phone.get_by_role("button", name="A topic").click()
    phone.get_by_label("Line 1: value", exact=True).fill("Weather")
    expect(phone.locator("#verdict")).to_have_text("✓ Valid")
    phone.get_by_role("button", name="Subscribe").click()
    expect(phone.locator(".sub .title", has_text="Weather")).to_be_visible()
    phone.locator("#tabs >> text=Inbox").click()
    own = phone.locator(".item .why", has_text="Weather")
    step_until(asked("'Weather'"))
    expect(own.first).to_be_visible()
    stage.close()
    if AXE.exists():  # the page as people see it, with news, names and a phone on it
        found = {}
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found[scheme] = violations(page)
            found[f"{scheme}, phone"] = violations(page.frames[1])
        assert not any(found.values()), json.dumps(found, indent=1)


@needs_browser
def test_the_demo_knows_what_came_before_it_was_opened(town, pages):
    """Who got older messages, and the last message of each; another link begins anew."""
    pytest.importorskip("feedparser")
    from germane.cli.demo.town.stage import Stage

    tenant = town.send("POST", "/tenants", {"name": "past"})
    own = {"Authorization": f"Bearer {tenant['token']}"}
    stage = Stage(town.base, tenant["token"], size=30)
    url = stage.set_up()
    for _ in range(100):
        stage.step()
    town.settled(own)
    page = pages({"width": 1440, "height": 1000})
    page.goto(url)
    expect(page.locator("#news .who", has_text="reached").first).to_be_visible()
    small = pages(PHONE)
    small.goto(url)
    with small.context.expect_page() as opened:
        small.get_by_role("button", name="Something of your own").click()
    expect(opened.value.locator("main h1")).to_have_text("New subscription")
    small.goto("about:blank")
    small.goto(url.replace(f"token={tenant['token']}", "token=gm_of_a_demo_that_has_ended"))
    expect(small.locator(".lead p")).to_contain_text("one that has ended")
    got = town.send("GET", "/deliveries?subscriber=fay&limit=1000", headers=own)["deliveries"]
    fay = page.locator("#people li", has_text="Fay")
    expect(fay.locator(".last")).to_contain_text(got[-1]["event"]["data"]["title"])
    every = town.send("GET", "/deliveries?limit=1000", headers=own)["deliveries"]
    reached = {each["event"]["data"]["title"] for each in every}
    for row in page.locator("#news > li").all():
        if row.locator(".title").inner_text() in reached:
            expect(row).not_to_contain_text("reached nobody")
        else:
            expect(row).to_contain_text("reached nobody")
    row = page.locator("#news > li", has_text=got[-1]["event"]["data"]["title"]).first
    row.locator("summary").click()
    expect(row.locator(".verdicts li").first).to_contain_text("Youasked for nothing yet")
    expect(row.locator(".verdicts li").nth(1).locator(".yes")).to_be_visible()

    phone = page.frame_locator("#phone")  # follows what is done beside it
    page.select_option("#walk", "Pond")
    expect(page.locator("#toast")).to_contain_text("You are at the")
    page.click("#map", position={"x": 30, "y": 30})
    expect(page.locator("#walk")).to_have_value("")
    page.select_option("#task", "work")
    expect(phone.locator(".nowline")).to_contain_text("work")
    here = town.told("/contexts/you", headers=own)["values"]["place"]
    expect(phone.locator(".nowline")).to_contain_text(here)
    page.locator("#asks button").first.press("Enter")
    expect(page.locator("#asks [aria-pressed=true]")).to_be_focused()
    stage.close()

    page.evaluate(f"window.before = true; location.hash = '{url.partition('#')[2]}'")
    page.wait_for_function("!window.before")
    expect(page.locator("#people li")).to_have_count(6)
    assert "token" not in page.url


@needs_browser
def test_the_demo_bears_any_message_and_holds_still_for_a_reader(town, pages):
    """Messages of other kinds than the town's; a list that waits; wishes that the phone changes."""
    pytest.importorskip("feedparser")
    from germane.cli.demo.town.stage import Stage

    tenant = town.send("POST", "/tenants", {"name": "any"})
    own = {"Authorization": f"Bearer {tenant['token']}"}
    stage = Stage(town.base, tenant["token"], size=30)
    url = stage.set_up()
    while not stage.is_seen():
        time.sleep(0.1)
    numbers = iter(range(1000))

    def publish(*datas):
        events = [
            {
                "specversion": "1.0",
                "id": f"o{next(numbers)}",
                "source": "/o",
                "type": "talk",
                **each,
            }
            for each in datas
        ]
        town.send("POST", "/events", events, {**MANY, **own})

    page = pages({"width": 1280, "height": 800})
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(url)
    rows = page.locator("#news > li")
    expect(rows).not_to_have_count(0)
    below = page.locator("#asks .primary")
    until(page, lambda: (box := box_of(below))["y"] + box["height"] < 800)
    odd = {"title": {"a": 1}, "position": "here", "topic": {"b": None}, "place": [None]}
    publish({"data": {"start": 16}}, {}, {"data": "words"}, {"data": odd}, {"subject": "Rain"})
    expect(rows.nth(0)).to_contain_text("Rain")
    expect(rows.nth(1)).to_contain_text('{"a":1}')
    expect(rows.nth(4)).to_contain_text("talk o0")
    page.wait_for_timeout(1000)  # frames of the map
    until(page, lambda: len([url for url in asked if "/events?" in url]) > 5)  # 4 are of the past
    polls = [url for url in asked if "/events?" in url]
    assert not any("limit=1000" in url for url in asked), asked
    assert all(int(url.split("limit=")[1].split("&")[0]) <= 50 for url in polls[-2:])

    rows.nth(2).locator("summary").click()
    where = box_of(rows.nth(2))["y"]
    open_one = page.locator("#news details[open] .title").inner_text()
    expect(rows.nth(2).locator(".verdicts")).to_contain_text("You", timeout=WAIT_MS)
    publish(*({"data": {"title": f"Later {n}"}} for n in range(20)))
    more = page.get_by_role("button", name="20 new: show")
    expect(more).to_be_visible()
    assert box_of(rows.nth(2))["y"] == where
    assert page.locator("#news details[open] .title").inner_text() == open_one
    more.click()
    expect(rows.nth(0)).to_contain_text("Later 19")
    expect(more).to_be_hidden()

    wish = page.locator("#asks button", has_text="Sports")
    sports = {"condition": "topic WITHIN 'Sports'", "subscriber": "you", "context": "you"}
    made = town.sent("POST", "/subscriptions", sports, own)  # as the phone does
    rows.nth(0).locator("summary").click()
    expect(rows.nth(0).locator(".verdicts li").first).not_to_contain_text("asked for nothing")
    expect(rows.nth(0).locator(".verdicts li").first).to_contain_text("You")
    expect(wish).to_have_attribute("aria-pressed", "true")
    rarely = "const every = setInterval; setInterval = (f, ms) => every(f, ms === 4000 ? 1e9 : ms);"
    page.add_init_script(rarely)  # what the phone does just before a press
    page.reload()
    expect(wish).to_have_attribute("aria-pressed", "true")
    town.sent("DELETE", f"/subscriptions/{made['id']}", headers=own)
    wish.click()
    expect(page.locator("#toast")).to_contain_text("It has ended already")
    expect(wish).to_have_attribute("aria-pressed", "false")
    made = town.sent("POST", "/subscriptions", sports, own)
    wish.click()
    expect(page.locator("#toast")).to_contain_text("You have asked for it already")
    expect(wish).to_have_attribute("aria-pressed", "true")
    active = town.told("/subscriptions?subscriber=you", headers=own)["subscriptions"]
    assert [each["id"] for each in active if each["state"] == "active"] == [made["id"]]
    wish.click()
    expect(page.locator("#toast")).to_contain_text("Ended")
    expect(wish).to_have_attribute("aria-pressed", "false")
    stage.close()


@needs_browser
def test_the_client_follows_a_context_that_is_changed_elsewhere(town, pages):
    page = pages()
    signed_in(page, town, town.person("mia", task="work"))
    page.click("#tabs >> text=Now")
    page.fill("#place", "Half a wo")
    town.send("PATCH", "/contexts/mia", {"task": "sport"})
    expect(page.get_by_role("button", name="sport")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#place")).to_have_value("Half a wo")
    expect(page.locator("#place")).to_be_focused()


@needs_browser
def test_the_clock_overrules_nobody(town, pages):
    """A time of day that was chosen on another device stays; what the clock said moves on."""
    noon = datetime(2026, 5, 4, 12, 30, tzinfo=UTC)
    page = pages(timezone_id="UTC")
    page.clock.install(time=noon)
    told = []
    page.on("request", lambda r: r.method == "PATCH" and told.append(r.post_data_json))
    signed_in(page, town, town.person("ute", task="work"))
    part = page.locator(".nowline").get_by_text
    expect(part("noon", exact=True)).to_be_visible()
    town.send("PATCH", "/contexts/ute", {"daypart": "evening"})  # by hand, on another device
    expect(part("evening", exact=True)).to_be_visible()
    for hours in (0, 2):  # within the same time of day, and when the next one begins
        page.clock.fast_forward(hours * 3600_000 + 65_000)
        with page.expect_response("**/contexts/ute"):
            pass
    expect(part("evening", exact=True)).to_be_visible()
    town.send("PATCH", "/contexts/ute", {"daypart": "afternoon"})  # as the clock says
    expect(part("afternoon", exact=True)).to_be_visible()
    page.reload()
    page.clock.fast_forward(4 * 3600_000)
    expect(part("evening", exact=True)).to_be_visible()
    assert told == [{"daypart": "noon"}, {"daypart": "evening"}]


@needs_browser
def test_a_backlog_asks_for_the_context_a_few_times(town, pages):
    token = town.person("vic", "topic WITHIN 'Running'", task="work")
    events = [
        {"specversion": "1.0", "id": f"v{n}", "source": "/v", "type": "news",
         "data": {"title": f"run {n}", "topic": ["Running"]}} for n in range(300)
    ]  # fmt: skip
    town.send("POST", "/events", events, MANY)
    town.settled()
    page = pages()
    asked = []
    page.on("request", lambda r: r.url.endswith("/contexts/vic") and asked.append(r.url))
    signed_in(page, town, token)
    expect(page.locator(".item h3").first).to_have_text("run 299", timeout=WAIT_MS)
    assert len(asked) < 100, len(asked)


# for everybody -----------------------------------------------------------------------------------


@needs_browser
@needs_axe
@pytest.mark.parametrize(("size", "scheme"), [("phone", "light"), ("desktop", "dark")])
def test_no_serious_violation_of_accessibility(town, pages, size, scheme):
    token = town.person("joy", "topic WITHIN 'Culture'", task="work", place="Home")
    page = pages(
        PHONE if size == "phone" else DESKTOP,
        color_scheme=scheme, bypass_csp=True, reduced_motion="reduce",
    )  # fmt: skip
    signed_in(page, town, token)
    title = f"Something to read on a {size}"
    town.publish(title, "Music", summary="A few words.", link="https://example.org/")
    expect(page.locator(".item h3").first).to_have_text(title)  # then the list is filled
    page.click(".item h3 button >> nth=0")
    expect(page.locator(".steps").first).to_be_visible()
    found = {"inbox": violations(page)}
    for name in ("now", "subscriptions", "subscriptions/new", "settings"):
        page.goto(f"{town.base}/app/#{name}")
        expect(page.locator("main h1")).to_be_visible()
        page.wait_for_timeout(600)
        found[name] = violations(page)
    page.goto(f"{town.base}/app/console#token={town.root}")
    expect(page.locator(".chart canvas").first).to_be_visible()
    found["console"] = violations(page)
    for name in ("subscriptions", "deadletters", "sinks"):
        page.goto(f"{town.base}/app/console#{name}")
        page.wait_for_timeout(600)
        found[f"console {name}"] = violations(page)
    page.goto(f"{town.base}/docs")
    page.click("summary >> nth=3")
    found["docs"] = violations(page)
    page.goto(f"{town.base}/app/demo")
    expect(page.locator("main h1")).to_be_visible()
    found["demo"] = violations(page)
    assert not any(found.values()), json.dumps(found, indent=1)


def violations(page):
    """Serious and critical findings of axe-core, with where they are."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [
        (each["id"], each["impact"], [node["html"][:160] for node in each["nodes"]][:4])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


@needs_browser
@pytest.mark.parametrize("width", [320, 768])
def test_nothing_is_cut_off_sideways(town, pages, width):
    long = "Incomprehensibilities" * 8
    token = town.person("kim", "topic WITHIN 'Talks' AND title LIKE '%hens%'", task="work")
    page = pages({"width": width, "height": 800})
    signed_in(page, town, token)
    town.publish(long, "Talks", place=long, feed=long)
    expect(page.locator(".item").first).to_be_visible()
    for name in ("inbox", "now", "subscriptions", "subscriptions/new", "settings"):
        page.goto(f"{town.base}/app/#{name}")
        page.wait_for_timeout(400)
        over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert over <= 0, (name, over)
    page.goto(f"{town.base}/app/console#token={town.root}")
    expect(page.locator(".chart canvas").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@needs_browser
def test_large_text_and_long_texts_leave_room(town, pages, browser):
    """With text of 200 % every tab is there, in full; a long title fills no screen."""
    condition = " OR ".join(f"title = 'Number {n} of many words'" for n in range(30))
    token = town.person("liz", f"topic WITHIN 'Talks' AND ({condition} OR title LIKE 'Words%')")
    flags = ["--no-sandbox", "--disable-dev-shm-usage", "--blink-settings=defaultFontSize=32"]
    large = browser.browser_type.launch(executable_path=CHROMIUM, args=flags)
    page = large.new_page(viewport=PHONE)
    signed_in(page, town, token)
    for _ in range(12):
        town.publish("Words " * 100, "Talks")
    expect(page.locator("#tabs .count")).to_have_text("12")
    tabs = page.locator("#tabs a").all()
    boxes = [box_of(tab) for tab in tabs]
    for tab, box in zip(tabs, boxes, strict=True):
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"] + 1
        assert tab.evaluate("e => e.scrollWidth <= e.clientWidth")
    count = box_of(page.locator("#tabs .count"))
    name = box_of(page.locator("#tabs a", has_text="Now").locator("span"))
    assert count["x"] + count["width"] <= name["x"]
    large.close()
    page = pages()
    signed_in(page, town, token)
    expect(page.locator(".item")).to_have_count(12)  # then the first one stays the first
    item = page.locator(".item h3 button").first
    shut = box_of(item)["height"]
    assert shut < 150
    item.click()
    expect(item).to_have_attribute("aria-expanded", "true")
    assert box_of(item)["height"] > shut
    page.click("#tabs >> text=Subscriptions")
    assert box_of(page.locator(".sub .title"))["height"] < 150


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fields_stand_out(town, pages, scheme):
    """Their borders 3 to 1 against what is around them, what they suggest 4.5 to 1."""
    page = pages(color_scheme=scheme)
    signed_in(page, town, town.person("gil"))
    page.click("#tabs >> text=Now")
    expect(page.locator("#place")).to_be_visible()
    border, ground, words, around = page.evaluate("""() => {
        const field = document.getElementById('place'); // now: it may be drawn anew
        const style = getComputedStyle(field);
        return [style.borderTopColor, style.backgroundColor,
            getComputedStyle(field, '::placeholder').color,
            getComputedStyle(field.closest('.card')).backgroundColor];
    }""")
    assert contrast(border, ground) >= 3
    assert contrast(border, around) >= 3
    assert contrast(words, ground) >= 4.5


def contrast(one, other):
    """Of two colours as a browser writes them, by WCAG."""

    def luminance(colour):
        parts = [int(part) / 255 for part in colour[4:-1].split(",")]
        low, slope = 0.03928, 12.92
        red, green, blue = (
            part / slope if part <= low else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)
