"""The pages in a real browser, on a real service: what a person does, and what an operator sees."""

import json
import os
import shutil
import time
import warnings
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
WAIT_MS = 20_000  # a busy machine is no failure
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
            base_url=self.base, headers={"Authorization": f"Bearer {self.root}"}, timeout=60
        )
        self.ready()
        self.send("PUT", "/graphs/topic", {"edges": TOPICS})
        self.numbers = iter(range(1, 10**9))
        self.publish("Warming up", "Music")
        self.settled()

    def ready(self):
        end = time.monotonic() + 120
        while not self.supervisor.is_ready():
            assert time.monotonic() < end, "the service does not start"
            self.supervisor.watch()
            time.sleep(0.1)

    def send(self, method, path, body=None, headers=None):
        """A request; while the matcher compiles its kernels for the first time, again and again."""
        end = time.monotonic() + 120
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

    def settled(self):
        """Until the matcher has taken everything."""
        last = self.send("GET", "/stats")["log"]["last"]
        while self.send("GET", "/stats")["position"] < last:
            time.sleep(0.05)

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


def titles(page):
    return page.locator(".item h3").all_inner_texts()


def signed_in(page, town, token):
    page.goto(f"{town.base}/app/#token={token}")
    expect(page.locator("#state")).to_have_text("Live", timeout=WAIT_MS)


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
    assert "Old game" not in page.locator(".examples").inner_text()
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
    assert town.send("GET", "/contexts/ann")["values"]["task"] == "leisure"


@needs_browser
def test_feedback_changes_what_comes_next(town, pages):
    """Kept and dismissed messages teach the agent; the person sees why, pins, mutes, erases."""
    token = town.person("lea", "topic WITHIN 'News'", task="leisure")
    page = pages()
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
    end = time.monotonic() + 60
    while town.send("GET", "/agents/lea")["feedback"] < 8:
        assert time.monotonic() < end
        time.sleep(0.1)
    [own] = [s for s in rows(town, "lea") if not s["id"].startswith("agent-")]
    town.send("DELETE", f"/subscriptions/{own['id']}")
    town.publish("Another game", "Baseball")
    town.publish("Another song", "Music")
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
    return town.send("GET", f"/subscriptions?subscriber={name}")["subscriptions"]


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
    expect(page.locator(".item h3")).to_have_text(expected, timeout=60_000)

    town.supervisor.children["api"].process.kill()
    expect(page.locator("#state")).to_have_text("Reconnecting…", timeout=WAIT_MS)
    town.supervisor.children["api"].process.wait()
    town.ready()
    for number in range(6, 9):
        town.publish(f"run {number}", "Running")
    expected = [f"run {number}" for number in range(8, -1, -1)]
    expect(page.locator(".item h3")).to_have_text(expected, timeout=60_000)
    page.reload()
    expect(page.locator(".item h3")).to_have_text(expected)
    expect(page.locator("#state")).to_have_text("Live", timeout=60_000)
    time.sleep(0.5)
    assert titles(page) == expected


@needs_browser
def test_it_opens_without_a_network_and_sends_feedback_later(town, pages):
    token = town.person("cleo", "topic WITHIN 'Music'")
    page = pages()
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
    page.select_option("#digest", "3600")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#toast")).to_contain_text("Saved")
    wishes = town.send("GET", "/preferences/emil")["preferences"]
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
    [row] = town.send("GET", "/subscriptions?subscriber=emil")["subscriptions"]
    assert row["muted"]


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
    expect(page.locator("main")).to_contain_text("Why is this one costly?")
    expect(page.locator(".reasons li").first).to_be_visible()

    page.click("#tabs >> text=Dead letters")
    row = page.locator("tbody tr", has_text="Nowhere").first
    expect(row).to_contain_text("unknown node")
    town.send("PATCH", "/graphs/topic", {"links": [["News", "Nowhere"]]})
    town.settled()
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
            time.sleep(2.0)
        self.send_response(500 if self.path == "/dead" else 204)
        self.end_headers()

    def log_message(self, *args):
        pass


@needs_browser
def test_the_console_shows_slow_and_failing_sinks(town, pages):
    """Three real webhooks: one is well, one takes its time, one is broken."""
    tenant = town.send("POST", "/tenants", {"name": "sinks"})
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.daemon_threads = True
    in_thread(server.serve_forever)
    url = f"http://127.0.0.1:{server.server_port}"
    own = {"Authorization": f"Bearer {tenant['token']}"}
    for name in ("well", "slow", "dead"):
        body = {"condition": "n > 0", "subscriber": name, "sink": f"{url}/{name}"}
        town.send("POST", "/subscriptions", body, own)
    events = [
        {"specversion": "1.0", "id": f"n{n}", "source": "/s", "type": "t", "data": {"n": n}}
        for n in range(1, 13)
    ]
    town.send("POST", "/events", events, {**MANY, **own})
    page = pages(DESKTOP, bypass_csp=AXE.exists())
    page.goto(f"{town.base}/app/console#token={tenant['token']}")
    page.click("#tabs >> text=Sinks")
    row = {name: page.locator("tbody tr", has_text=f"/{name}") for name in ("well", "slow", "dead")}
    expect(row["dead"].locator(".chip")).to_have_text("failing", timeout=30_000)
    expect(row["dead"]).to_contain_text("500")
    expect(row["well"].locator(".chip")).to_have_text("ok")
    expect(row["well"].locator("td").nth(2)).to_have_text("0", timeout=30_000)
    expect(row["slow"].locator("td").nth(2)).to_contain_text("oldest")
    later = "const now = Date.now; Date.now = () => now() + 30000;"
    page.add_init_script(later)  # as if half a minute had passed
    page.reload()
    expect(row["slow"].locator(".chip")).to_have_text("slow")
    assert not AXE.exists() or not violations(page)
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    row["dead"].get_by_role("button", name="now").click()
    expect(page.locator("#toast")).to_contain_text("Trying it now")


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
    for _ in range(400):  # until something happens at the harbour
        stage.step()
        if phone.locator(".item").count():
            break
    expect(phone.locator(".item .why").first).to_contain_text("within 500 m of me")
    expect(page.locator("#news .who b", has_text="you").first).to_be_visible()
    page.click("#news summary >> nth=0")
    expect(page.locator(".verdicts").first.locator("li")).to_have_count(6)
    expect(page.locator("#figures")).to_contain_text("37 people")
    page.click("text=Something of your own")  # the editor opens on the phone
    expect(phone.locator("main h1")).to_have_text("New subscription")
    phone.get_by_role("button", name="A topic").click()
    phone.get_by_label("Line 1: value", exact=True).fill("Weather")
    expect(phone.locator("#verdict")).to_have_text("✓ Valid")
    phone.get_by_role("button", name="Subscribe").click()
    expect(phone.locator(".sub .title", has_text="Weather")).to_be_visible()
    phone.locator("#tabs >> text=Inbox").click()
    own = phone.locator(".item .why", has_text="Weather")
    for _ in range(400):
        stage.step()
        if own.count():
            break
    expect(own.first).to_be_visible()
    stage.close()
    if AXE.exists():  # the page as people see it, with news, names and a phone on it
        found = {}
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found[scheme] = violations(page)
            found[f"{scheme}, phone"] = violations(page.frames[1])
        assert not any(found.values()), json.dumps(found, indent=1)


# for everybody -----------------------------------------------------------------------------------


@needs_browser
@needs_axe
@pytest.mark.parametrize(("size", "scheme"), [("phone", "light"), ("desktop", "dark")])
def test_no_serious_violation_of_accessibility(town, pages, size, scheme):
    token = town.person("joy", "topic WITHIN 'Culture'", task="work", place="Home")
    page = pages(PHONE if size == "phone" else DESKTOP, color_scheme=scheme, bypass_csp=True)
    signed_in(page, town, token)
    town.publish("Something to read", "Music", summary="A few words.", link="https://example.org/")
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
