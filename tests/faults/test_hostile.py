"""The service among hostile clients, bad webhooks, a full disk and clocks that jump."""

import errno
import json
import os
import random
import subprocess
import tempfile
import threading
import time
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service's packages are not installed")
pytest.importorskip("schemathesis")
if not Path("/proc/self/task").exists():
    pytest.skip("processes are found by /proc", allow_module_level=True)

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.faults.installation import ANSWER_S, BATCH, Installation, Refused, patiently

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("service"),
    pytest.mark.usefixtures("compiled"),
]
LONGER = 50 if os.environ.get("GERMANE_CAMPAIGN") else 1
MERGE = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    made = Installation(
        tmp_path_factory.mktemp("hostile") / "service", options=("--allow-sink", "127.0.0.0/8")
    )
    yield made
    made.close()


def operations():
    """All operations of the OpenAPI but the stream, which never ends."""
    import schemathesis

    from germane.service import tables
    from germane.service.api.app import create_app
    from germane.service.api.state import Api
    from germane.service.settings import Settings
    from germane.service.supervisor import prepare

    with tempfile.TemporaryDirectory() as folder:
        chosen = Settings(data=folder)
        prepare(chosen)
        engine = tables.open_store(chosen.store_url)
        document = create_app(Api(chosen, None, engine)).openapi()
        engine.dispose()
    found = schemathesis.openapi.from_dict(document).get_all_operations()
    listed = [each.ok() for each in found]
    return [each for each in listed if each.path != "/deliveries/stream"]


def test_openapi_without_server_errors(service):
    """Whatever the document allows, and some that it does not: the answer is no server error."""
    found = operations()
    assert len(found) >= 40
    for operation in found:
        play(operation, service)


def play(operation, service):
    @seed(1)
    @settings(
        max_examples=5 * LONGER, deadline=None, database=None,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate],
    )  # fmt: skip
    @given(case=operation.as_strategy())
    def ask(case):
        if case.query and "wait" in case.query:
            case.query["wait"] = 0.01
        answer = patiently(
            lambda: case.call(
                base_url=f"http://127.0.0.1:{service.settings.port}",
                headers={"Authorization": f"Bearer {service.token}"},
                timeout=ANSWER_S,
            ),
            lambda answer: (answer.status_code, answer.content),
        )
        assert answer.status_code < 500, (case.as_curl_command(), answer.text)

    ask()


# fuzzed events, conditions, patches ---------------------------------------------------------------

VALUES = (
    None, True, 0, -1, 5, 1e300, 10**30, -(2**63), "", "x", "a" * 5000, "\u0000", "💥", "NaN", [],
    {}, [1, 2], [91, 181], {"lat": 1, "lon": 2}, {"lat": "x"}, ["a", "b"], [[[]]],
    "2026-01-01T00:00:00Z", "<a><b/></a>", "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>",
)  # fmt: skip
NAMES = (
    *"price room low mood time id seq kind context condition dialect document address".split(),
    *("data", "é", "", "x" * 300, "context.low", "links"),
)
WORDS = (
    *"price room context.low context AND OR NOT ( ) = < >= 5 'A1' ' LIKE IN BETWEEN".split(),
    *"ABS( DISTANCE( WITHIN , - 1e999 TIMESTAMP MATCHES COST % XOR EXISTS é".split(),
    *('"', "IS NULL", "\\", "\u0000"),
)


def object_at_random(pick):
    return {pick.choice(NAMES): pick.choice(VALUES) for _ in range(pick.randint(0, 5))}


def event_at_random(pick):
    event = {"specversion": "1.0", "id": f"f{pick.random()}", "source": "/fuzz", "type": "fuzz"}
    event["data"] = object_at_random(pick)
    for _ in range(pick.choice((0, 0, 1, 2))):
        name = pick.choice(("time", "subject", "type", "expirytime", "urgent", "address", "ext",
                            "datacontenttype", "data_base64", "specversion", "id"))  # fmt: skip
        event[name] = pick.choice(VALUES)
    if pick.random() < 0.3:
        event |= {"type": "germane.context.patch", "subject": pick.choice(("ann", "bob", ""))}
    return event


def spoil(pick, body):
    """Bytes that are perhaps no JSON any more."""
    spoilt = bytearray(body)
    for _ in range(pick.choice((0, 0, 1, 3))):
        if spoilt:
            spoilt[pick.randrange(len(spoilt))] = pick.randrange(256)
    return bytes(spoilt[: pick.choice((len(spoilt), pick.randrange(len(spoilt) + 1)))])


def send(service, method, path, body, kind):
    return patiently(lambda: send_once(service, method, path, body, kind), lambda answer: answer)


def send_once(service, method, path, body, kind):
    connection = HTTPConnection("127.0.0.1", service.settings.port, timeout=ANSWER_S)
    try:
        headers = {"Authorization": f"Bearer {service.token}", **kind}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_fuzz_leaves_it_well(service):
    """No 5xx, and afterwards everybody still gets exactly what is theirs."""
    service.ask("PUT", "/subscriptions/well", {"subscriber": "well", "condition": "well = 1"})
    pick = random.Random(7)
    for number in range(150 * LONGER):
        kind = number % 5
        body = json.dumps([event_at_random(pick) for _ in range(pick.randint(1, 4))]).encode()
        told = ("POST", "/events", spoil(pick, body) if kind else body, BATCH)
        if kind == 3:
            text = " ".join(pick.choice(WORDS) for _ in range(pick.randint(1, 9)))
            part = pick.choice(
                ({"condition": text}, {"filters": [{"sql": text}]}, object_at_random(pick))
            )
            new = json.dumps({"subscriber": "fuzz", **part}).encode()
            told = ("POST", pick.choice(("/subscriptions", "/subscriptions:test")), new, MERGE)
        elif kind == 4:
            patch = json.dumps(object_at_random(pick)).encode()
            told = (pick.choice(("PATCH", "PUT")), "/contexts/ann", spoil(pick, patch), MERGE)
        status, said = send(service, *told)
        assert status < 500, (told, said)
    event = {"specversion": "1.0", "id": "well-1", "source": "/s", "type": "t", "data": {"well": 1}}
    service.ask("POST", "/events", [event], BATCH)
    service.catch_up()
    mine = service.get("/deliveries?subscriber=well")["deliveries"]
    assert [delivery["event"]["id"] for delivery in mine] == ["well-1"]


# webhooks -----------------------------------------------------------------------------------------


class Hook:
    """A webhook: what it got, and how it behaves."""

    def __init__(self, status=204, silent=False):
        self.got, self.ended = [], threading.Event()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if silent:
                    hook.ended.wait(600)
                hook.got.append(json.loads(body))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"


def test_slow_and_dead_webhooks_delay_nobody(service):
    good, slow, broken = Hook(), Hook(silent=True), Hook(status=500)
    dead = "http://127.0.0.1:9/hook"  # nobody listens
    for name, url in (
        ("good", good.url),
        ("slow", slow.url),
        ("broken", broken.url),
        ("dead", dead),
    ):
        subscription = {"subscriber": name, "condition": "hooked = 1", "sink": url}
        service.ask("PUT", f"/subscriptions/{name}", subscription)
    n = 20
    events = [
        {"specversion": "1.0", "id": f"h{i}", "source": "/s", "type": "t", "data": {"hooked": 1}}
        for i in range(n)
    ]
    service.ask("POST", "/events", events, BATCH)
    end = time.monotonic() + 120
    while len(good.got) < n and time.monotonic() < end:  # the slow one says nothing meanwhile
        time.sleep(0.05)
    ids = [each["data"]["event"]["id"] for each in good.got]
    assert sorted(ids) == sorted(f"h{i}" for i in range(n))
    assert len(slow.got) == 0
    end = time.monotonic() + 120
    while True:
        sinks = {sink["url"]: sink for sink in service.get("/sinks")["sinks"]}
        failed = sinks[dead]["last_failure"] and sinks[broken.url]["last_failure"]
        if failed and not sinks[good.url]["waiting"]:
            break
        assert time.monotonic() < end, sinks
        time.sleep(0.1)
    assert sinks[dead]["last_failure"]["reason"]
    assert "500" in sinks[broken.url]["last_failure"]["reason"]
    assert sinks[slow.url]["waiting"] == n
    slow.ended.set()
    for name in ("good", "slow", "broken", "dead"):
        service.ask("DELETE", f"/subscriptions/{name}")


# a full disk --------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 48 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    order = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(place)]
    try:
        done = subprocess.run(order, capture_output=True, text=True)
        reason = done.stderr
    except OSError as error:
        reason, done = str(error), None
    if done is None or done.returncode:
        pytest.skip(f"no small disk can be mounted here, A FULL DISK IS NOT TESTED: {reason}")
    yield place
    subprocess.run(["umount", str(place)], check=False)


def fill(filler):
    """Write a file until nothing more fits, but for a page; the service writes meanwhile."""
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        file.truncate(max(file.tell() - 4096, 0))


def test_a_full_disk_is_507_and_passes(small_disk):
    service = Installation(small_disk / "service")
    try:
        service.ask("PUT", "/subscriptions/s", {"subscriber": "ann", "condition": "n >= 0"})
        filler = small_disk / "filler"
        fill(filler)
        taken, status = [], 202
        for i in range(400):
            event = {"specversion": "1.0", "id": f"d{i}", "source": "/s", "type": "t"}
            event |= {"data": {"n": i, "text": "x" * 20_000}}
            try:
                service.ask("POST", "/events", [event], BATCH)
                taken.append(f"d{i}")
            except Refused as refused:
                status = refused.status
                break
        assert status == 507, status
        filler.unlink()
        end = time.monotonic() + 120
        statuses = set()
        while time.monotonic() < end:
            try:
                service.ask("POST", "/events", [event | {"id": "last"}], BATCH)
                break
            except Refused as refused:
                statuses.add(refused.status)
                time.sleep(0.2)
        assert statuses <= {503, 507}
        service.catch_up()
        found = [each["event"]["id"] for each in service.deliveries(0)]
        assert found == [*taken, "last"]
    finally:
        service.close()


# clocks -------------------------------------------------------------------------------------------


def test_clocks_that_jump_lose_nothing(tmp_path):
    """Backwards and forwards by days, among messages: nothing is lost, doubled or out of order."""
    from germane.service import tables
    from germane.service.log import Entry
    from germane.service.matcher import Matcher
    from germane.service.settings import Settings, open_log
    from germane.service.supervisor import prepare

    chosen = Settings(data=str(tmp_path / "data"))
    prepare(chosen)
    pick = random.Random(3)
    moment = [1_700_000_000_000_000]

    def clock():
        return moment[0]

    log, engine = open_log(chosen), tables.open_store(chosen.store_url)
    log._clock = clock
    matcher = Matcher(chosen, log, engine, clock)
    matcher.open()
    preferences = {"subscriber": "held", "preferences": {"digest": {"seconds": 3600}}}
    entries = [("settings", preferences)]
    for name in ("now", "held"):
        body = {"id": name, "subscriber": name, "context": None, "condition": "n >= 0"}
        entries.append(("subscribe", body))
    log.append([Entry(1, kind, json.dumps(body).encode()) for kind, body in entries])
    sent = []
    for i in range(60):
        moment[0] += int(pick.choice((1, 60, 7200, -7200, 86_400, -86_400 * 3)) * 1e6)
        event = {"specversion": "1.0", "id": f"c{i}", "source": "/s", "type": "t", "data": {"n": i}}
        log.append([Entry(1, "events", json.dumps([event]).encode())])
        sent.append(log.bounds()[1])
        while matcher.round():
            pass
        matcher.release_due()
    moment[0] += int(86_400 * 10 * 1e6)
    while matcher.release_due():
        pass
    with engine.connect() as connection:
        rows = connection.execute(tables.deliveries.select().order_by(tables.deliveries.c.id)).all()
    by_person: dict[int, list[int]] = {}
    for row in rows:
        profiles = json.loads(row.profiles)
        digest = bool(profiles) and isinstance(profiles[0], list)
        seqs = [each[0] for each in profiles] if digest else [row.seq]
        by_person.setdefault(row.subscriber, []).extend(seqs)
    log.close()
    engine.dispose()
    assert [sorted(seqs) for seqs in by_person.values()] == [sent, sent]
