"""The HTTP API on a real server: publish, subscribe, receive; who may what; bad input."""

import json
import os
import random
import shutil
import socket
import subprocess
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
import service_oracle
from service_kit import (
    CONDITIONS,
    change,
    free_port,
    in_thread,
    message,
    pairs,
    random_event,
    wait_until,
)

from germane.service import tables, tokens
from germane.service.settings import Limits, Settings, open_log

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.usefixtures("compiled")]
MANY = "application/cloudevents-batch+json"
ONE = "application/cloudevents+json"


class Service:
    """Api, matcher and courier in threads of this process."""

    def __init__(self, folder) -> None:
        import asyncio

        import uvicorn

        from germane.service.api.app import create_app
        from germane.service.api.state import Api
        from germane.service.courier import Courier
        from germane.service.matcher import Matcher
        from germane.service.questions import Questions
        from germane.service.reader import Reader

        self.settings = Settings(
            data=str(folder), port=free_port(), allow_sinks=("127.0.0.1/32",), attempts=3,
            limits=Limits(body_bytes=200_000, events=500, event_bytes=20_000),
        )  # fmt: skip
        self.log = open_log(self.settings)
        self.engine = tables.open_store(self.settings.store_url)
        with tables.writing(self.engine) as connection:
            tenant = tokens.make_tenant(connection, "default")
            self.root = tokens.issue(connection, tenant, tokens.ROOT, None)[1]
        self.matcher = Matcher(self.settings, self.log, self.engine)
        self.matcher.questions = Questions(self.settings.socket)
        self.courier = Courier(self.settings, self.engine, Reader(self.log, self.engine))
        self.api = Api(self.settings, self.log, self.engine)
        self.api.patience_s = 60.0  # a busy machine is no failure
        config = uvicorn.Config(
            create_app(self.api), "127.0.0.1", self.settings.port, log_config=None,
            timeout_graceful_shutdown=2,
        )  # fmt: skip
        self.server = uvicorn.Server(config)
        self.threads = [
            in_thread(self.matcher.run),
            in_thread(self.server.run),
            in_thread(lambda: asyncio.run(self.courier.run())),
        ]
        self.url = f"http://127.0.0.1:{self.settings.port}"
        wait_until(self.is_ready)

    def is_ready(self) -> bool:
        with suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/ready", timeout=60).status_code == 200
        return False

    def client(self, token=None) -> httpx.Client:
        return httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {token or self.root}"},
            timeout=120,
        )  # fmt: skip

    def close(self) -> None:
        self.matcher.stopping = self.courier.stopping = True
        self.server.should_exit = True
        for thread in self.threads:
            thread.join(60)
        self.matcher.questions.close()
        self.log.close()
        self.engine.dispose()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    made = Service(tmp_path_factory.mktemp("service"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def root(service):
    return service.client()


@pytest.fixture
def tenant(service, root):
    """A new tenant's operator."""
    made = root.post("/tenants", json={"name": f"t{random.getrandbits(60)}"}).json()
    client = service.client(made["token"])
    client.number = made["id"]
    return client


def token_of(service, operator, role, subject=None):
    body = {"role": role, **({"subject": subject} if subject else {})}
    return service.client(operator.post("/tokens", json=body).json()["token"])


def publish(client, *events):
    answer = client.post("/events", content=json.dumps(events), headers={"Content-Type": MANY})
    assert answer.status_code == 202, answer.text
    return answer.json()


def received(client, n, **params):
    """The first n deliveries, waited for."""
    found, after, end = [], 0, time.monotonic() + 120  # kernels may have to be compiled
    while len(found) < n and time.monotonic() < end:
        page = client.get("/deliveries", params={"after": after, "wait": 5, **params}).json()
        found += page["deliveries"]
        after = page["next"]
    return found


# the way of an event -----------------------------------------------------------------------------


def test_publish_subscribe_receive(tenant):
    made = tenant.post(
        "/subscriptions", json={"subscriber": "ann", "condition": "start < context.last"}
    )
    assert made.status_code == 201
    id_ = made.json()["id"]
    assert tenant.patch("/contexts/ann", json={"last": 17, "x": 1}).json()["applied"]
    event = message("t1", start=16)
    seq = publish(tenant, event)["first"]
    [delivery] = received(tenant, 1)
    assert delivery["event"] == event
    assert (delivery["seq"], delivery["subscriber"]) == (seq, "ann")
    assert delivery["subscriptions"] == [id_]
    assert tenant.get(f"/deliveries/{delivery['id']}").json() == delivery
    context = tenant.get("/contexts/ann").json()
    assert context["values"] == {"last": 17, "x": 1}
    assert tenant.put("/contexts/ann", json={"last": 1}).json()["applied"]
    assert tenant.get("/contexts/ann").json()["values"] == {"last": 1}
    assert tenant.delete(f"/subscriptions/{id_}").json()["applied"]
    assert tenant.get(f"/subscriptions/{id_}").status_code == 404


def test_three_modes_of_cloudevents(tenant):
    tenant.post("/subscriptions", json={"subscriber": "ann", "types": ["talk"]})
    event = message("t1", start=16)
    tenant.post("/events", content=json.dumps(event), headers={"Content-Type": ONE})
    publish(tenant, event, event)
    headers = {"ce-specversion": "1.0", "ce-id": "t1", "ce-source": "/test", "ce-type": "talk"}
    answer = tenant.post("/events", json={"start": 16}, headers=headers)
    assert answer.status_code == 202
    found = received(tenant, 4)
    assert [each["event"]["data"] for each in found] == [{"start": 16}] * 4
    xml = {**headers, "content-type": "application/xml"}
    assert tenant.post("/events", content=b"<a/>", headers=xml).status_code == 202
    assert received(tenant, 5)[4]["event"]["data"] == "<a/>"
    raw = {**headers, "content-type": "application/octet-stream"}
    assert tenant.post("/events", content=b"\xff\x00", headers=raw).status_code == 202
    assert received(tenant, 6)[5]["event"]["data_base64"] == "/wA="


@pytest.mark.skipif(shutil.which("curl") is None, reason="NOT TESTED: there is no curl")
def test_the_lines_of_the_readme(service, tenant):
    """The three lines of the first page publish, subscribe and receive."""
    page = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("curl ")]
    assert len(lines) == 3
    secret = tenant.headers["Authorization"].split()[1]

    def run(line):
        done = subprocess.run(
            ["bash", "-c", line.replace("localhost:8000", service.url)],
            env={**os.environ, "TOKEN": secret}, capture_output=True, check=True, text=True,
        )  # fmt: skip
        return json.loads(done.stdout)

    for line in lines[:2]:
        run(line)
    [delivery] = wait_until(lambda: run(lines[2])["deliveries"])
    assert delivery["event"]["data"] == {"start": 16}


@pytest.mark.parametrize("seed", range(2))
def test_random_sequences_against_the_oracle(service, tenant, seed):
    """What is in the tables is what the oracle says of the log, whatever came over HTTP."""
    choose, people, ids = random.Random(seed), ["ann", "bob"], []
    for _ in range(40):
        draw = choose.random()
        if draw < 0.3:
            body = {"subscriber": choose.choice(people), "condition": choose.choice(CONDITIONS)}
            answer = tenant.post("/subscriptions", json=body)
            assert answer.status_code in (201, 422)
            ids += [answer.json()["id"]] if answer.status_code == 201 else []
        elif draw < 0.35 and ids:
            assert tenant.delete(f"/subscriptions/{ids.pop()}").status_code == 200
        elif draw < 0.5:
            values = {"limit": choose.randrange(10)}
            assert tenant.patch("/contexts/ann", json=values).status_code in (200, 422)
        else:
            events = [random_event(choose, people) for _ in range(choose.randint(1, 30))]
            last = publish(tenant, *events)["last"]
    wait_until(lambda: service.api.position(tenant.number) >= last)
    expected = service_oracle.play(service.log, tenant.number)[tenant.number]
    assert pairs(service.engine, tenant.number) == expected.deliveries
    assert len(expected.deliveries) > 5
    letters = tenant.get("/deadletters", params={"kind": "event", "limit": 1000}).json()
    assert {letter["seq"] for letter in letters["deadletters"]} == expected.dead


def test_filters_of_the_subscriptions_api(tenant):
    """Each dialect against Python on a handful of events; a missing attribute is not equal."""
    events = [
        {**message(str(i)), "subject": subject} if subject else message(str(i))
        for i, subject in enumerate(["a/b", "a%b", "xb", "", "it's"])
    ]
    texts = [event.get("subject") for event in events]
    cases = [
        ({"exact": {"subject": "xb"}}, lambda s: s == "xb"),
        ({"exact": {"subject": "it's", "type": "talk"}}, lambda s: s == "it's"),
        ({"prefix": {"subject": "a%"}}, lambda s: bool(s) and s.startswith("a%")),
        ({"suffix": {"subject": "b"}}, lambda s: bool(s) and s.endswith("b")),
        ({"not": {"suffix": {"subject": "b"}}}, lambda s: not (bool(s) and s.endswith("b"))),
        (
            {"any": [{"exact": {"subject": "xb"}}, {"not": {"prefix": {"subject": "a"}}}]},
            lambda s: s == "xb" or not (bool(s) and s.startswith("a")),
        ),
        (
            {"not": {"all": [{"prefix": {"subject": "a"}}, {"suffix": {"subject": "%b"}}]}},
            lambda s: not (bool(s) and s.startswith("a") and s.endswith("%b")),
        ),
        ({"exact": {"id": "2"}}, lambda s: s == "xb"),
    ]  # fmt: skip
    ids = {}
    for number, (filters, _) in enumerate(cases):
        body = {"subscriber": f"p{number}", "filters": [filters]}
        answer = tenant.post("/subscriptions", json=body)
        assert answer.status_code == 201, answer.text
        ids[f"p{number}"] = number
    publish(tenant, *events)
    expected = sorted(
        (f"p{number}", events[i]["id"])
        for number, (_, holds) in enumerate(cases)
        for i, text in enumerate(texts)
        if holds(text)
    )
    found = received(tenant, len(expected))
    assert sorted((each["subscriber"], each["event"]["id"]) for each in found) == expected


def test_sse_and_resume(service, tenant):
    tenant.post("/subscriptions", json={"subscriber": "ann", "condition": "n > 0"})
    publish(tenant, *[message(str(i), n=1) for i in range(3)])
    received(tenant, 3)

    def stream(n, **headers):
        found = []
        with service.client(tenant.headers["Authorization"].split()[1]) as client:
            params = {} if headers else {"after": 0}
            with client.stream("GET", "/deliveries/stream", headers=headers, params=params) as s:
                assert s.headers["content-type"].startswith("text/event-stream")
                for line in s.iter_lines():
                    if line.startswith("id: "):
                        found.append(int(line[4:]))
                    if len(found) == n:
                        break
        return found

    assert stream(3) == [1, 2, 3]
    late = threading.Timer(0.3, lambda: publish(tenant, message("late", n=1)))
    late.start()
    assert stream(3, **{"Last-Event-ID": "1"}) == [2, 3, 4]
    assert tenant.get("/deliveries/stream", headers={"Last-Event-ID": "x"}).status_code == 400


def test_a_stream_ends_with_its_token(service, tenant):
    """What comes after the revocation does not go to whoever still listens."""
    made = tenant.post("/tokens", json={"role": "subscriber", "subject": "ann"}).json()
    found = []
    with service.client(made["token"]) as ann:
        assert ann.post("/subscriptions", json={"condition": "n > 0"}).status_code == 201
        publish(tenant, message("before", n=1))
        with ann.stream("GET", "/deliveries/stream", params={"after": 0}) as stream:
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    found.append(json.loads(line[6:])["event"]["id"])
                    if len(found) > 1:
                        break
                    assert tenant.delete(f"/tokens/{made['id']}").status_code == 200
                    publish(tenant, message("after", n=1))
    assert found == ["before"]


def test_explanations_are_of_the_state_that_was(tenant):
    id_ = tenant.post(
        "/subscriptions", json={"subscriber": "ann", "condition": "n < context.limit"}
    ).json()["id"]
    tenant.patch("/contexts/ann", json={"limit": 5})
    publish(tenant, message("m1", n=3))
    tenant.patch("/contexts/ann", json={"limit": 1})
    missed = publish(tenant, message("m2", n=3))["first"]
    [delivery] = received(tenant, 1)
    why = tenant.get(f"/deliveries/{delivery['id']}/explanation").json()
    assert why["state"] == "at"
    assert why["context"] == {"limit": 5}
    [about] = why["subscriptions"]
    assert about["matched"]
    assert about["id"] == id_
    assert any("limit" in step["text"] and step["truth"] for step in about["steps"])
    why = tenant.get(f"/subscriptions/{id_}/explanation", params={"message": missed}).json()
    assert why["context"] == {"limit": 1}
    assert not why["subscriptions"][0]["matched"]
    early = tenant.post("/subscriptions", json={"subscriber": "ann", "condition": "n > 0"}).json()
    why = tenant.get(f"/subscriptions/{early['id']}/explanation", params={"message": missed})
    assert "made later" in why.json()["subscriptions"][0]["text"]


def test_times_that_an_offset_takes_out_of_the_calendar(tenant):
    """They are taken, so they are shown, too."""
    far, early = "9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00+23:00"
    condition = "time > context.since"
    body = {"subscriber": "ann", "condition": condition}
    assert tenant.post("/subscriptions", json=body).status_code == 201
    assert tenant.patch("/contexts/ann", json={"since": early}).status_code == 200
    shown = tenant.get("/contexts/ann")
    assert shown.status_code == 200, shown.text
    assert shown.json()["values"] == {"since": "0000-12-31T01:00:00.000000Z"}
    publish(tenant, {**message(), "time": far})
    [delivery] = received(tenant, 1)
    why = tenant.get(f"/deliveries/{delivery['id']}/explanation")
    assert why.status_code == 200, why.text
    assert why.json()["subscriptions"][0]["steps"][0]["left"] == "10000-01-01T22:59:59.000000Z"


def test_refused_subscriptions_are_corrected_and_ended(service, tenant):
    """Each id is there once, whatever it was before; what was refused can be let go of."""
    wrong, right = ({"subscriber": "ann", "condition": c} for c in ("n < 'x' AND n > 3", "n > 3"))
    batch = tenant.post("/subscriptions:batch", json=[right, wrong, wrong, right]).json()
    wait_until(lambda: service.api.position(tenant.number) >= batch["last"])

    def listed(limit):
        found, after = [], ""
        while after is not None:
            params = {"limit": limit, "after": after}
            page = tenant.get("/subscriptions", params=params).json()
            found += [(each["id"], each["state"]) for each in page["subscriptions"]]
            after = page["next"]
        return found

    def check(**states):
        ids = dict(zip("abcd", batch["ids"], strict=True))
        expected = sorted((ids[name], state) for name, state in states.items())
        for limit in (1, 2, 3, 10):
            assert listed(limit) == expected

    _, b, c, _ = batch["ids"]
    check(a="active", b="refused", c="refused", d="active")
    assert tenant.patch(f"/subscriptions/{b}", json={"muted": True}).status_code == 422
    put = tenant.put(f"/subscriptions/{b}", json=right)
    assert (put.status_code, put.json()["state"]) == (200, "active")
    check(a="active", b="active", c="refused", d="active")
    service.matcher.save_all()  # refused ones are in the snapshot, too
    assert tenant.delete(f"/subscriptions/{c}").json()["applied"]
    check(a="active", b="active", d="active")
    assert tenant.delete(f"/subscriptions/{b}").json()["applied"]
    check(a="active", d="active")
    assert tenant.get(f"/subscriptions/{b}").status_code == 404
    assert tenant.delete(f"/subscriptions/{c}").status_code == 404
    reasons = [each["what"] for each in tenant.get("/deadletters").json()["deadletters"]]
    assert reasons == ["settings"]  # of the mute


def test_two_who_want_one_id(service, tenant):
    """One of them has it, and the other hears of it, also where both ask at once."""
    ann, bob = (token_of(service, tenant, "subscriber", name) for name in ("ann", "bob"))
    wishes = {"ann": (ann, "type = 'talk'"), "bob": (bob, "type = 'note'")}
    for number in range(12):
        answers = {}

        def put(name, id_=f"x{number}", answers=answers):
            client, condition = wishes[name]
            body = {"condition": condition}
            answers[name] = client.put(f"/subscriptions/{id_}", json=body)

        threads = [in_thread(lambda name=name: put(name)) for name in wishes]
        for thread in threads:
            thread.join(120)
        assert sorted(answer.status_code for answer in answers.values()) == [200, 409]
        for name, answer in answers.items():
            shown = wishes[name][0].get(f"/subscriptions/x{number}")
            assert shown.status_code == (200 if answer.is_success else 404)
            assert answer.is_success or "taken" in answer.json()["error"]
            assert "replaces" not in answer.text + shown.text
    owner = "ann" if answers["ann"].is_success else "bob"
    client = wishes[owner][0]
    again = client.put("/subscriptions/x11", json={"condition": "n > 0"})
    assert (again.status_code, again.json()["condition"]) == (200, "n > 0")
    other = {"subscriber": "eve", "condition": "n > 1"}  # an operator may give it to others
    assert tenant.put("/subscriptions/x11", json=other).json()["subscriber"] == "eve"
    assert client.get("/subscriptions/x11").status_code == 404


def test_drafts_are_tried_on_the_last_messages(tenant):
    publish(tenant, *[message(str(i), n=i) for i in range(50)], change("ann", limit=45))
    body = {"condition": "n >= context.limit", "context": "ann", "last": 20}

    def tried_when_moved():
        tried = tenant.post("/subscriptions:test", json=body).json()
        return tried if tried["context"]["values"] else None

    tried = wait_until(tried_when_moved)
    assert (tried["tested"], tried["matched"]) == (20, 5)
    assert {each["event"]["data"]["n"] for each in tried["examples"]} == set(range(45, 50))
    wrong = tenant.post("/subscriptions:test", json={"condition": "n >="})
    assert wrong.status_code == 422
    assert wrong.json()["position"] == 4


def test_what_is_addressed_to_others_is_not_shown(service, tenant):
    """Not in deliveries, and neither by a draft nor by an explanation."""
    ann, bob = (token_of(service, tenant, "subscriber", name) for name in ("ann", "bob"))
    ids = {}
    for client, team in ((ann, "dev"), (bob, "hr")):
        values = {"team": team}
        name = client.get("/me").json()["subject"]
        assert client.put(f"/contexts/{name}", json=values).json()["applied"]
        made = client.post("/subscriptions", json={"condition": "salary > 1"})
        ids[name] = made.json()["id"]
    memo = {**message("m", "memo", salary=99_999), "address": "team = 'hr'"}
    seq = publish(tenant, memo)["first"]
    open_to_all = publish(tenant, message("n", "note", salary=2))["first"]
    assert [each["seq"] for each in received(bob, 2)] == [seq, open_to_all]
    assert [each["seq"] for each in received(ann, 1)] == [open_to_all]

    def draft(client, **more):
        body = {"condition": "salary > 1", **more}
        tried = client.post("/subscriptions:test", json=body).json()
        assert tried["matched"] == len(tried["examples"])
        return [each["seq"] for each in tried["examples"]]

    assert draft(ann, context="ann") == draft(ann) == draft(tenant) == [open_to_all]
    assert draft(tenant, context="ann") == [open_to_all]
    assert draft(bob, context="bob") == draft(tenant, context="bob") == [open_to_all, seq]

    def explained(client, name, number):
        path = f"/subscriptions/{ids[name]}/explanation"
        return client.get(path, params={"message": number})

    refused = explained(ann, "ann", seq)
    assert refused.status_code == 404
    assert refused.json() == {"error": f"there is no message {seq}"}
    assert explained(ann, "ann", open_to_all).json()["subscriptions"][0]["matched"]
    assert explained(bob, "bob", seq).json()["subscriptions"][0]["matched"]
    [about] = explained(tenant, "ann", seq).json()["subscriptions"]  # an operator may see it
    assert not about["matched"]
    assert about["steps"][-1] == {"text": "address: team = 'hr'", "truth": False}


def test_feedback_and_preferences(tenant):
    tenant.post("/subscriptions", json={"subscriber": "ann", "condition": "n > 0"})
    publish(tenant, message(n=1))
    [delivery] = received(tenant, 1)
    path = f"/deliveries/{delivery['id']}"
    assert delivery["feedback"] is None
    assert tenant.post(f"{path}/feedback", json={"relevant": False}).json()["applied"]
    assert tenant.get(path).json()["feedback"] is False
    wishes = {"digest": {"count": 2}}
    assert tenant.put("/preferences/ann", json=wishes).json()["applied"]
    assert tenant.get("/preferences/ann").json()["preferences"] == wishes
    first = publish(tenant, message("a", n=1))["first"]
    held = wait_until(lambda: tenant.get("/deliveries/held").json()["held"])
    assert (held[0]["why"], held[0]["seq"]) == ("digest", first)
    publish(tenant, message("b", n=1))
    digest = received(tenant, 2)[1]
    assert digest["digest"]
    assert [item["event"]["id"] for item in digest["items"]] == ["a", "b"]
    why = tenant.get(f"/deliveries/{digest['id']}/explanation", params={"message": first}).json()
    assert why["seq"] == first


def test_graphs(tenant):
    body = {"edges": [["Sports", "Baseball"]], "attributes": ["interests"]}
    assert tenant.put("/graphs/topic", json=body).json()["applied"]
    assert tenant.patch("/graphs/topic", json={"links": [["Sports", "Golf"]]}).json()["applied"]
    graph = tenant.get("/graphs/topic").json()
    assert sorted(graph["edges"]) == [["Sports", "Baseball"], ["Sports", "Golf"]]
    condition = "topic WITHIN context.interests"
    tenant.post("/subscriptions", json={"subscriber": "ann", "condition": condition})
    tenant.patch("/contexts/ann", json={"interests": ["Sports"]})
    publish(tenant, message(topic=["Golf"]))
    [delivery] = received(tenant, 1)
    why = tenant.get(f"/deliveries/{delivery['id']}/explanation").json()
    assert why["subscriptions"][0]["matched"]
    refused = tenant.patch("/graphs/place", json={"links": [["a", "b"]]})
    assert refused.status_code == 422


def test_a_graph_is_one_under_all_its_names(service, tenant):
    """Whichever name changes it, tables, explanations and the filter have the same."""
    put = lambda name, *edges, **more: tenant.put(  # noqa: E731
        f"/graphs/{name}", json={"edges": edges, **more}
    )

    def check(*rows):
        shown = tenant.get("/graphs").json()["graphs"]
        assert [(each["attribute"], each["attributes"]) for each in shown] == list(rows)
        held = tables.edges(service.engine, tenant.number)
        tenant_now = service.matcher.tenants[tenant.number]
        assert held.keys() == tenant_now.books.graphs.keys()
        for name, edges in held.items():
            assert sorted(map(tuple, edges)) == sorted(tenant_now.filter.graph(name).edges())

    assert put("topic", ["Top", "A"], attributes=["interests"]).json()["applied"]
    links = {"links": [["Top", "B"]]}
    assert tenant.patch("/graphs/interests", json=links).json()["applied"]
    check(("topic", ["interests"]))
    assert tenant.get("/graphs/topic").json()["edges"] == [["Top", "A"], ["Top", "B"]]
    condition = "topic WITHIN context.interests"
    body = {"subscriber": "ann", "condition": condition}
    assert tenant.post("/subscriptions", json=body).status_code == 201
    tenant.patch("/contexts/ann", json={"interests": ["Top"]})
    publish(tenant, message(topic=["B"]))
    [delivery] = received(tenant, 1)
    why = tenant.get(f"/deliveries/{delivery['id']}/explanation")
    assert why.status_code == 200, why.text
    assert why.json()["subscriptions"][0]["matched"]
    assert tenant.delete(f"/subscriptions/{delivery['subscriptions'][0]}").json()["applied"]
    tenant.delete("/contexts/ann")
    assert put("interests", ["Top", "C"]).json()["applied"]  # it has one of its own now
    check(("interests", []), ("topic", []))
    assert put("topic", ["Top", "D"], attributes=["likes", "tags"]).json()["applied"]
    assert put("place", ["World", "Here"], attributes=["topic"]).json()["applied"]
    check(("interests", []), ("likes", ["tags"]), ("place", ["topic"]))
    assert tenant.patch("/graphs/tags", json=links).json()["applied"]
    assert put("topic", ["World", "There"], attributes=["place"]).json()["applied"]
    check(("interests", []), ("likes", ["tags"]), ("topic", ["place"]))


# webhooks ----------------------------------------------------------------------------------------


class Hook:
    """A webhook that answers as it is told."""

    def __init__(self, answers=(), default=204) -> None:
        self.seen, answers = [], list(answers)
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.seen.append((time.monotonic(), json.loads(body), dict(self.headers)))
                self.send_response(answers.pop(0) if answers else default)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        in_thread(self.server.serve_forever)

    def wait(self, n):
        wait_until(lambda: len(self.seen) >= n)
        return [event for _, event, _ in self.seen]


def test_webhooks_are_tried_again_and_apart(tenant, monkeypatch):
    monkeypatch.setattr("germane.service.courier.FIRST_S", 0.1)
    good, shaky, dead = Hook(), Hook([500, 503]), Hook(default=500)
    for hook in (good, shaky, dead):
        body = {"subscriber": "ann", "condition": "n > 0", "sink": hook.url}
        assert tenant.post("/subscriptions", json=body).status_code == 201
    publish(tenant, message("a", n=1))
    [event] = good.wait(1)
    assert event["type"] == "germane.delivery"
    assert event["data"]["event"]["id"] == "a"
    assert len(event["data"]["subscriptions"]) == 3
    assert [e["id"] for e in shaky.wait(3)] == [shaky.seen[0][1]["id"]] * 3
    dead.wait(3)
    of_deliveries = {"params": {"kind": "delivery"}}
    letters = wait_until(lambda: tenant.get("/deadletters", **of_deliveries).json()["deadletters"])
    assert (letters[0]["sink"], letters[0]["attempts"]) == (dead.url, 3)
    assert "500" in letters[0]["reason"]
    expected = {good.url: "ok", shaky.url: "ok", dead.url: "failing"}

    def states_as_expected():  # a sink has its answer before the store has
        states = {sink["url"]: sink for sink in tenant.get("/sinks").json()["sinks"]}
        found = {url: sink["state"] for url, sink in states.items()}
        return states if found == expected else None

    states = wait_until(states_as_expected)
    assert "500" in states[dead.url]["last_failure"]["reason"]
    n = len(dead.seen)
    assert tenant.post(f"/deadletters/{letters[0]['id']}:redrive").json() == {"delivery": 1}
    assert len(dead.wait(n + 1)) > n


def test_a_sink_that_is_gone(tenant):
    gone = Hook(default=410)
    body = {"subscriber": "ann", "condition": "n > 0", "sink": gone.url}
    tenant.post("/subscriptions", json=body)
    publish(tenant, message("a", n=1))
    gone.wait(1)

    def sink_with(n_dead):
        [sink] = tenant.get("/sinks").json()["sinks"]
        return sink if (sink["state"], sink["dead"]) == ("gone", n_dead) else None

    wait_until(lambda: sink_with(n_dead=1))
    for name in "bc":  # it hears of nothing more, until an operator says so
        publish(tenant, message(name, n=1))
    sink = wait_until(lambda: sink_with(n_dead=3))
    assert sink["waiting"] == 0
    assert len(gone.seen) == 1
    tenant.post(f"/sinks/{sink['id']}:resume")
    publish(tenant, message("d", n=1))
    assert [event["data"]["event"]["id"] for event in gone.wait(2)] == ["a", "d"]


class Drip:
    """A webhook that answers with a line of headers now and then, and never ends."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/"
        self.connections = []
        in_thread(self._accept)
        in_thread(self._drip)

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
            except OSError:
                return
            self.connections.append(connection)

    def _drip(self):
        while self.socket.fileno() >= 0:
            for connection in self.connections:
                with suppress(OSError):
                    connection.sendall(b"X-Line: of many\r\n")
            time.sleep(0.2)

    def close(self):
        self.socket.close()
        for connection in self.connections:
            connection.close()


@pytest.fixture
def drip():
    made = Drip()
    yield made
    made.close()


def subscribe_sinks(client, *urls):
    for url in urls:
        body = {"subscriber": "ann", "condition": "n > 0", "sink": url}
        assert client.post("/subscriptions", json=body).status_code == 201


def test_an_answer_that_never_ends_is_a_failure(tenant, drip, monkeypatch):
    monkeypatch.setattr("germane.service.courier.LINES", 2)
    monkeypatch.setattr("germane.service.courier.TOTAL_S", 1.0)
    good = Hook()
    subscribe_sinks(tenant, *[f"{drip.url}{i}" for i in range(4)], good.url)
    publish(tenant, message("a", n=1))
    assert good.wait(1)

    def some_are_late():  # the store has it later than the next sink has a line
        failures = [sink["last_failure"] for sink in tenant.get("/sinks").json()["sinks"]]
        return any(f and "no answer in 1 s" in f["reason"] for f in failures)

    wait_until(some_are_late)


def test_one_tenant_cannot_take_all_lines(service, root, tenant, drip, monkeypatch):
    monkeypatch.setattr("germane.service.courier.LINES", 8)
    monkeypatch.setattr("germane.service.courier.LINES_OF_TENANT", 4)
    monkeypatch.setattr("germane.service.courier.TOTAL_S", 60.0)
    subscribe_sinks(tenant, *[f"{drip.url}{i}" for i in range(12)])
    publish(tenant, message("a", n=1))
    wait_until(lambda: len(drip.connections) >= 4)
    good, other = Hook(), root.post("/tenants", json={"name": f"o{random.getrandbits(60)}"}).json()
    with service.client(other["token"]) as client:
        subscribe_sinks(client, good.url)
        publish(client, message("a", n=1))
        assert good.wait(1)
    assert len(drip.connections) == 4


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1/", "http://169.254.169.254/latest/meta-data", "http://[::1]/",
        "http://[::ffff:10.0.0.1]/", "http://192.168.1.1:8080/", "ftp://example.org/",
        "https://user:secret@example.org/", "https:///nowhere", "file:///etc/passwd",
        "http://0.0.0.0/", "http://100.64.0.1/", "http://exa mple.org/",
    ],
)  # fmt: skip
def test_sinks_that_are_refused(tenant, url):
    answer = tenant.post("/subscriptions", json={"subscriber": "ann", "types": ["t"], "sink": url})
    assert answer.status_code == 422, answer.text


def test_names_of_private_addresses_are_refused_when_they_are_used():
    from germane.service import sinks

    with pytest.raises(sinks.Forbidden, match="public"):
        sinks.resolve("http://localhost/", ())
    assert sinks.resolve("http://localhost:81/", ("127.0.0.0/8", "::1/128")).port == 81


# who may what ------------------------------------------------------------------------------------


def test_without_a_token(service):
    for path in ("/deliveries", "/stats", "/contexts/ann", "/metrics"):
        assert httpx.get(service.url + path).status_code == 401
        wrong = {"Authorization": "Bearer gm_wrong"}
        assert httpx.get(service.url + path, headers=wrong).status_code == 401
    assert httpx.get(service.url + "/health").status_code == 200


def test_roles(service, tenant):
    publisher = token_of(service, tenant, "publisher")
    ann = token_of(service, tenant, "subscriber", "ann")
    bob = token_of(service, tenant, "subscriber", "bob")
    publish(publisher, message(n=1))
    assert publisher.get("/deliveries").status_code == 403
    assert publisher.post("/subscriptions", json={"types": ["t"]}).status_code == 403
    assert ann.post("/events", content="[]", headers={"Content-Type": MANY}).status_code == 403
    for path in ("/stats", "/tokens", "/deadletters", "/sinks"):
        assert ann.get(path).status_code == publisher.get(path).status_code == 403
    assert tenant.get("/tenants").status_code == tenant.get("/metrics").status_code == 403
    mine = ann.post("/subscriptions", json={"condition": "n > 0"}).json()
    assert (mine["subscriber"], mine["context"]) == ("ann", "ann")
    assert ann.post("/subscriptions", json={"subscriber": "bob", "types": ["t"]}).status_code == 403
    assert ann.post("/subscriptions", json={"context": "bob", "types": ["t"]}).status_code == 403
    publish(publisher, message(n=1))
    [delivery] = received(ann, 1)
    path = f"/deliveries/{delivery['id']}"
    for attempt in (
        bob.get(f"/subscriptions/{mine['id']}"),
        bob.delete(f"/subscriptions/{mine['id']}"),
        bob.patch(f"/subscriptions/{mine['id']}", json={"muted": True}),
        bob.get(f"/subscriptions/{mine['id']}/explanation", params={"message": delivery["seq"]}),
        bob.get(f"/subscriptions/{mine['id']}/cost"),
        bob.get(path), bob.get(f"{path}/explanation"),
        bob.post(f"{path}/feedback", json={"relevant": True}),
        bob.get("/deliveries", params={"subscriber": "ann"}),
        bob.get("/deliveries/held", params={"subscriber": "ann"}),
        bob.get("/deliveries/stream", params={"subscriber": "ann"}),
        bob.get("/contexts/ann"), bob.patch("/contexts/ann", json={"x": 1}),
        bob.get("/preferences/ann"), bob.put("/preferences/ann", json={}),
        bob.post("/subscriptions:test", json={"condition": "n > 0", "context": "ann"}),
    ):  # fmt: skip
        assert attempt.status_code == 404, attempt.request.url
    assert bob.put(f"/subscriptions/{mine['id']}", json={"types": ["t"]}).status_code == 409
    assert bob.get("/deliveries").json()["deliveries"] == []
    assert bob.get("/subscriptions").json()["subscriptions"] == []


def test_a_second_tenant_sees_nothing_of_the_first(service, root, tenant):
    made = root.post("/tenants", json={"name": f"o{random.getrandbits(60)}"}).json()
    other = service.client(made["token"])
    mine = tenant.post(
        "/subscriptions", json={"subscriber": "ann", "condition": "secretword = 'x'"}
    ).json()
    tenant.patch("/contexts/ann", json={"secretvalue": 7})
    seq = publish(tenant, message(secretword="x"))["first"]
    received(tenant, 1)
    for attempt in (
        other.get(f"/subscriptions/{mine['id']}"), other.get(f"/events/{seq}"),
        other.delete(f"/subscriptions/{mine['id']}"), other.get("/deliveries/1"),
        other.get("/contexts/ann"), other.get("/graphs/topic"),
        other.get(f"/subscriptions/{mine['id']}/explanation", params={"message": seq}),
    ):  # fmt: skip
        assert attempt.status_code == 404
    for path in ("/subscriptions", "/deliveries", "/deadletters", "/sinks", "/stats", "/graphs",
                 "/events", "/stats/subscriptions", "/tokens", "/stats/history"):  # fmt: skip
        answer = other.get(path)
        assert answer.status_code == 200, path
        assert "secret" not in answer.text
    assert other.get("/stats").json()["log"] == {"first": 1, "last": 0}  # not how much others do
    # Types, names and hints of errors come from one's own tenant only.
    wrong = other.post("/subscriptions", json={"subscriber": "x", "condition": "secretwor ="})
    assert "secretword" not in wrong.text
    assert other.post(
        "/subscriptions", json={"subscriber": "ann", "condition": "secretword > 5"}
    ).status_code == 201  # fmt: skip
    tried = other.post("/subscriptions:test", json={"condition": "secretword = 'x'"}).json()
    assert tried["tested"] == 0
    publish(other, message(secretword="y"))
    assert len(tenant.get("/deliveries").json()["deliveries"]) == 1


def test_tokens_are_hashed_and_can_be_revoked(service, tenant):
    made = tenant.post("/tokens", json={"role": "publisher"}).json()
    client = service.client(made["token"])
    publish(client, message())
    folder = service.settings.folder
    stored = b"".join(beside.read_bytes() for beside in folder.glob("service.db-wal"))
    stored += (folder / "service.db").read_bytes()  # after it: what it had may have been carried on
    assert made["token"].encode() not in stored
    assert tokens.digest(made["token"]).encode() in stored
    assert tenant.delete(f"/tokens/{made['id']}").status_code == 200
    assert client.get("/events").status_code == 401
    assert made["token"] not in tenant.get("/tokens").text


def test_nobody_locks_everybody_out(service, root):
    """Only root revokes root, and never the last of its tokens."""
    operator = token_of(service, root, "operator")
    [id_] = [t["id"] for t in root.get("/tokens").json()["tokens"] if t["role"] == "root"]
    assert operator.delete(f"/tokens/{id_}").status_code == 403
    assert root.delete(f"/tokens/{id_}").status_code == 409
    with tables.writing(service.engine) as connection:
        second, secret = tokens.issue(connection, 1, tokens.ROOT, None)
    assert operator.delete(f"/tokens/{second}").status_code == 403
    assert root.delete(f"/tokens/{second}").status_code == 200
    assert service.client(secret).get("/tenants").status_code == 401
    assert root.delete(f"/tokens/{id_}").status_code == 409
    assert root.get("/tenants").status_code == 200


def test_tokens_of_other_tenants_are_not_there(service, root, tenant):
    [first] = [t["id"] for t in root.get("/tokens").json()["tokens"] if t["role"] == "root"][:1]
    assert tenant.delete(f"/tokens/{first}").status_code == 404


def test_a_question_that_is_too_large_is_said_to_be(service, tenant, monkeypatch):
    monkeypatch.setattr("germane.service.api.state.LONGEST", 10_000)
    body = {"subscriber": "ann", "filters": [{"exact": {"type": "x" * 20_000}}]}
    answer = tenant.post("/subscriptions", json=body)
    assert answer.status_code == 413, answer.text
    assert "10,000 are the most" in answer.json()["error"]


def test_rates_are_limited(service, tenant, monkeypatch):
    from dataclasses import replace

    slow = replace(service.settings, limits=replace(service.settings.limits, events_per_second=5))
    monkeypatch.setattr(service.api, "settings", slow)
    client = token_of(service, tenant, "publisher")
    moment = time.monotonic()
    monkeypatch.setattr("germane.service.api.state.time", SimpleNamespace(monotonic=lambda: moment))
    codes = []
    for _ in range(4):
        answer = client.post(
            "/events", content=json.dumps([message()] * 4), headers={"Content-Type": MANY}
        )
        codes.append(answer.status_code)
    assert codes[:2] == [202, 202]
    assert codes[-1] == 429
    assert int(answer.headers["Retry-After"]) >= 1


# bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"", ONE, 400), (b"{", ONE, 400), (b"[]", ONE, 400), (b"{}", ONE, 400),
        (b"null", MANY, 400),
        (b"{}", MANY, 400), (b"[{}]", MANY, 400), (b"[]", MANY, 202), (b"\xff\xfe", ONE, 400),
        (b'{"specversion":"0.3","id":"1","source":"/","type":"t"}', ONE, 400),
        (b'{"specversion":"1.0","id":"","source":"/","type":"t"}', ONE, 400),
        (b'{"specversion":"1.0","id":1,"source":"/","type":"t"}', ONE, 400),
        (b'{"specversion":"1.0","id":"1","source":"/","type":"t","time":"noon"}', ONE, 400),
        (b'{"specversion":"1.0","id":"1","source":"/","type":"t","data":"\\ud800"}', ONE, 400),
        (b'{"specversion":"1.0","id":"1","source":"/","type":"t","data":' + b"[" * 5000, ONE, 400),
        (b'{"specversion":"1.0","id":"1","source":"/","type":"germane.context.patch"}', ONE, 400),
        (b'{"specversion":"1.0","id":"1","source":"/","type":"germane.context.patch",'
         b'"subject":"a","data":[1]}', ONE, 400),
        (b'{"specversion":"1.0","id":"1","source":"/","type":"germane.context.x"}', ONE, 400),
        (b"{}", "text/plain", 415), (b"{}", "application/json", 415),
        (b'{"specversion":"1.0","id":"1","source":"/","type":"t","data":"' + b"x" * 30_000 + b'"}',
         ONE, 413),
        (b"x" * 300_000, ONE, 413),
    ],
)  # fmt: skip
def test_bad_events(tenant, body, kind, status):
    answer = tenant.post("/events", content=body, headers={"Content-Type": kind})
    assert answer.status_code == status, answer.text
    assert status == 202 or answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/preferences/a%00b", {"digest": {"seconds": 60}}),
        ("GET", "/preferences/a%00b", None),
        ("PUT", "/graphs/a%00", {"edges": [["x", "y"]]}),
        ("PATCH", "/graphs/a%1f", {"links": [["x", "y"]]}),
        ("PUT", "/contexts/a%00", {"n": 1}),
        ("PUT", "/agents/%0Aann", {"on": True}),
        ("PUT", "/agents/ann%00", {"on": True}),
        ("PUT", "/agents/ann/topics/a%00", {"state": "pinned"}),
        ("PATCH", "/agents/ann/context?device=a%00", {"task": "x"}),
        ("GET", "/deliveries?subscriber=%00", None),
        ("GET", "/deliveries/held?subscriber=%00", None),
        ("GET", "/subscriptions?subscriber=%00", None),
        ("GET", "/subscriptions?after=%00", None),
        ("DELETE", "/tokens/a%00", None),
        ("DELETE", "/subscriptions/a%00", None),
    ],
)  # fmt: skip
def test_names_without_control_characters(tenant, method, path, body):
    """A store that does not take them would stop the matcher at an event that stays in the log."""
    assert tenant.put("/graphs/topic", json={"edges": [["Top", "A"]]}).is_success
    answer = tenant.request(method, path, json=body)
    assert answer.status_code == 422, answer.text


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", '{"a": [NaN]}'])
def test_numbers_that_json_does_not_have(tenant, value):
    """They would be written as null, which removes a value."""
    assert tenant.put("/graphs/topic", json={"edges": [["Top", "A"]]}).is_success
    assert tenant.put("/contexts/ann", json={"limit": 5}).json()["applied"]
    headers, body = {"Content-Type": "application/json"}, f'{{"limit": {value}}}'
    for method, path in (("PATCH", "/contexts/ann"), ("PUT", "/contexts/ann"),
                         ("PATCH", "/agents/ann/context")):  # fmt: skip
        answer = tenant.request(method, path, content=body, headers=headers)
        assert answer.status_code == 400, answer.text
    assert tenant.get("/contexts/ann").json()["values"] == {"limit": 5}


def _nested(filters, depth):
    return '{"not":' * depth + filters + "}" * depth


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        *(
            (method, path, f'{{{more}"{name}": "{moment}"}}')
            for method, path, name, more in (
                ("PUT", "/preferences/ann", "snoozed_until", ""),
                ("POST", "/subscriptions", "expires", '"subscriber": "a", "condition": "TRUE", '),
            )
            for moment in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")
        ),
        *(
            ("POST", path, f'{{{more}"filters": [{filters}]}}')
            for path, more in (
                ("/subscriptions", '"subscriber": "a", '), ("/subscriptions:test", "")
            )
            for filters in (
                '{"exact": {"type": "\\ud800"}}', '{"exact": {"\\udc00": "x"}}',
                '{"\\ud800": 1}', f'{{"all": {"[" * 900}{"]" * 900}}}',
                *(_nested('{"exact": {"type": "t"}}', depth) for depth in (60, 150, 199, 250, 900)),
            )
        ),
        ("POST", "/subscriptions", '{"\\ud800": 1}'),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_refused(tenant, method, path, body):
    answer = tenant.request(
        method, path, content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]


@pytest.mark.parametrize("body", [b"\xff", b'"\xff"', b"{", b"[" * 5000])
def test_a_binary_event_that_is_no_json(tenant, body):
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
    for kind in ({}, {"Content-Type": "application/json"}):
        answer = tenant.post("/events", content=body, headers={**headers, **kind})
        assert answer.status_code == 400, answer.text


def test_a_large_body_is_refused_everywhere(tenant):
    answer = tenant.put("/contexts/ann", json={"x": "y" * 300_000})
    assert answer.status_code == 413


def test_a_body_without_a_length_is_bounded(tenant):
    def endless():
        for _ in range(400):
            yield b"[" * 1000

    answer = tenant.post("/events", content=endless(), headers={"Content-Type": MANY})
    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/subscriptions", {"subscriber": "a", "condition": "n <"}, 422),
        ("POST", "/subscriptions", {"subscriber": "a", "condition": ""}, 422),
        ("POST", "/subscriptions", {"subscriber": "a", "filters": [{"exakt": {"a": "b"}}]}, 422),
        ("POST", "/subscriptions", {"subscriber": "a", "filters": [{"exact": {}}]}, 422),
        ("POST", "/subscriptions", {"subscriber": "a", "filters": [{"all": []}]}, 422),
        ("POST", "/subscriptions", {"subscriber": "a", "filters": [{"not": [1]}]}, 422),
        ("POST", "/subscriptions", {"condition": "n < 5"}, 422),
        ("POST", "/subscriptions", {"subscriber": "a", "unknown": 1}, 422),
        ("POST", "/subscriptions", [1], 422),
        ("POST", "/subscriptions:test", {"condition": "n < 'x' + 1"}, 422),
        ("GET", "/subscriptions/none", None, 404),
        ("GET", "/deliveries/99999", None, 404),
        ("GET", "/deliveries/-1", None, 422),
        ("GET", "/deliveries?limit=0", None, 422),
        ("GET", "/events/0", None, 422),
        ("GET", "/events/999999999", None, 404),
        ("GET", "/contexts/nobody", None, 404),
        ("PATCH", "/contexts/ann", {"seq": 1}, 400),
        ("PATCH", "/contexts/ann", [1], 422),
        ("PUT", "/preferences/ann", {"quiet": {"from": "9", "to": "x"}}, 422),
        ("PUT", "/graphs/type", {"edges": [["a", "b"]]}, 422),
        ("PUT", "/graphs/topic", {"edges": [["a"]]}, 422),
        ("POST", "/tokens", {"role": "root"}, 422),
        ("POST", "/tokens", {"role": "subscriber"}, 422),
        ("GET", "/deadletters/e1", None, 404),
        ("GET", "/deadletters/x", None, 422),
        ("POST", "/sinks/7:resume", None, 404),
        ("GET", "/nowhere", None, 404),
    ],
)  # fmt: skip
def test_bad_requests(tenant, method, path, body, status):
    answer = tenant.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]


def test_dead_events_are_driven_again(tenant):
    tenant.post("/subscriptions", json={"subscriber": "ann", "condition": "n > 0"})
    publish(tenant, message("bad", n="word"))
    letters = wait_until(lambda: tenant.get("/deadletters").json()["deadletters"])
    assert "number" in letters[0]["reason"]
    assert letters[0]["event"]["id"] == "bad"
    fixed = {"event": message("good", n=1)}
    assert tenant.post(f"/deadletters/{letters[0]['id']}:redrive", json=fixed).json()["seq"]
    assert received(tenant, 1)[0]["event"]["id"] == "good"
    assert tenant.get("/deadletters").json()["deadletters"] == []


def test_a_dead_event_is_not_replaced_by_what_cannot_be_written(tenant):
    tenant.post("/subscriptions", json={"subscriber": "ann", "condition": "n > 1"})
    publish(tenant, message(n="a word"))
    [letter] = wait_until(lambda: tenant.get("/deadletters").json()["deadletters"])
    path = f"/deadletters/{letter['id']}:redrive"
    event = json.dumps({"event": message(n="\ud800")})
    answer = tenant.post(path, content=event, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert tenant.post(path, json={"event": message(n=5)}).status_code == 200


def test_a_dead_event_is_driven_again_once(tenant):
    tenant.post("/subscriptions", json={"subscriber": "ann", "condition": "n > 0"})
    publish(tenant, message("bad", n="word"))
    found = wait_until(lambda: tenant.get("/deadletters").json()["deadletters"])
    path, fixed = f"/deadletters/{found[0]['id']}", {"event": message("good", n=1)}
    answers = []
    threads = [
        in_thread(lambda: answers.append(tenant.post(f"{path}:redrive", json=fixed)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.join(120)
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
    [seq] = [answer.json()["seq"] for answer in answers if answer.is_success]
    again = tenant.post(f"{path}:redrive", json=fixed)
    assert (again.status_code, str(seq) in again.json()["error"]) == (409, True)
    assert tenant.delete(path).status_code == 200
    assert tenant.get(path).json()["redriven"] == seq
    publish(tenant, message("last", n=1))
    assert [each["event"]["id"] for each in received(tenant, 2)] == ["good", "last"]


def test_pages_of_dead_letters_lose_none(tenant):
    """Also where one delivery is dead at several sinks, and where events end in mid-page."""
    gone = [Hook(default=410) for _ in range(2)]
    for hook in gone:
        body = {"subscriber": "ann", "condition": "n > 0", "sink": hook.url}
        assert tenant.post("/subscriptions", json=body).status_code == 201
    for number in range(3):
        publish(tenant, message(str(number), n=1), message("bad", n="word"))

    def all_of_them():
        found = tenant.get("/deadletters").json()["deadletters"]
        return found if len(found) >= 9 else None

    everything = wait_until(all_of_them)
    ids = [letter["id"] for letter in everything]
    assert len(set(ids)) == 9

    def walk(after="0", **params):
        found = []
        while after is not None:
            params["after"] = after
            page = tenant.get("/deadletters", params=params).json()
            found += [letter["id"] for letter in page["deadletters"]]
            after = page["next"]
        return found

    for limit in range(1, 11):
        assert walk(limit=limit) == ids
        assert walk(limit=limit, kind="event") == ids[:3]
        assert walk(limit=limit, kind="delivery") == ids[3:]
    assert walk(after=ids[4]) == ids[5:]
    assert walk(after="2") == ids[2:]
    assert walk(after="1", kind="delivery") == ids[5:]


def test_figures(service, root, tenant):
    tenant.post("/subscriptions", json={"subscriber": "ann", "condition": "n > 0"})
    publish(tenant, *[message(str(i), n=1) for i in range(5)])
    received(tenant, 5)
    [about] = tenant.get("/stats/subscriptions").json()["subscriptions"]
    assert (about["matches"], about["condition"]) == (5, "n > 0")
    stats = tenant.get("/stats").json()
    assert (stats["subscriptions"], stats["deliveries"]) == (1, 5)
    line = f'germane_deliveries_total{{tenant="{tenant.number}"}} 5.0'

    def text_with_deliveries():
        text = root.get("/metrics").text
        return text if line in text else None

    text = wait_until(text_with_deliveries)
    assert "germane_accept_to_delivery_seconds_bucket" in text
    assert tenant.get("/stats/history").json()["points"]


def test_a_full_disk_is_507_and_recovers(service, tenant, monkeypatch):
    from germane.service.log import LogFull

    real = service.log._write

    def full(entries):
        raise LogFull("the disk is full")

    monkeypatch.setattr(service.log, "_write", full)
    answer = tenant.post("/events", content="[]", headers={"Content-Type": MANY})
    assert answer.status_code == 202  # nothing to write
    body = json.dumps([message()])
    answer = tenant.post("/events", content=body, headers={"Content-Type": MANY})
    assert answer.status_code == 507
    assert tenant.get("/deliveries").status_code == 200
    monkeypatch.setattr(service.log, "_write", real)
    publish(tenant, message())


def test_openapi_is_complete(service):
    schema = httpx.get(f"{service.url}/openapi.json").json()
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            assert operation.get("description") or operation.get("summary"), (method, path)
            assert operation["responses"], (method, path)
    assert "example" in json.dumps(schema["paths"]["/events"]["post"]["requestBody"])
