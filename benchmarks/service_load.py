"""The service under load, and the same load by PostgreSQL with the conditions as SQL.

    python -m benchmarks.service_load

100,000 subscriptions, each of a subscriber with a context of its own; 90 % context updates and 10 %
messages, about ten matches a message, over HTTP on loopback in CloudEvents batches. Events are
accepted (in the log, on disk), logged and matched; the rate counts until the last is matched. Then
the same at half the bar's rate, in small batches: how long from accepting a message to holding its
delivery in one's hands, by server-sent events. All on one machine, the load generator included:
bodies are made before, and sent over plain sockets.

PostgreSQL, the obvious way to do it oneself: conditions that differ in constants only, as columns
of a table with an index, contexts as another, a statement a message that joins them and inserts
deliveries, one transaction a batch. It is given the events decoded, without HTTP, in the order in
which the service has logged them; the numbers of deliveries of each message are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import record

BAR_EVENTS, BAR_P99_MS = 20_000.0, 100.0
BATCH, SMALL_BATCH = 1_000, 100
CONNECTIONS = 3
MESSAGES = 0.1
LIMIT = 100.0
"""Prices are below it, and a subscriber's own limit below a tenth of it, more or less."""


class Work:
    """Subscriptions, contexts and events, from a seed."""

    def __init__(self, n_profiles: int, n_events: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.n_topics = max(n_profiles // 100, 1)
        self.topics = rng.integers(0, self.n_topics, n_profiles)
        self.limits = rng.uniform(0, 2 * LIMIT / 10, n_profiles)
        self.is_message = rng.random(n_events) < MESSAGES
        self.who = rng.integers(0, n_profiles, n_events)  # whose context, of an update
        self.topic = rng.integers(0, self.n_topics, n_events)  # of a message
        price, limit = rng.uniform(0, LIMIT, n_events), rng.uniform(0, 2 * LIMIT / 10, n_events)
        self.value = np.round(np.where(self.is_message, price, limit), 3)

    def subscription(self, i: int) -> dict[str, Any]:
        """A subscription as the API takes it."""
        condition = f"topic = 't{self.topics[i]}' AND price < context.limit"
        return {"subscriber": f"u{i}", "condition": condition}

    def event(self, i: int) -> str:
        """An event as JSON."""
        head = f'{{"specversion":"1.0","id":"e{i}","source":"/load",'
        if self.is_message[i]:
            data = f'"data":{{"topic":"t{self.topic[i]}","price":{self.value[i]}}}'
            return f'{head}"type":"offer",{data}}}'
        data = f'"data":{{"limit":{self.value[i]}}}'
        return f'{head}"type":"germane.context.patch","subject":"u{self.who[i]}",{data}}}'

    def bodies(self, first: int, last: int, size: int) -> list[bytes]:
        """Batches of events, encoded."""
        return [
            f"[{','.join(self.event(i) for i in range(at, min(at + size, last)))}]".encode()
            for at in range(first, last, size)
        ]


class Service:
    """`germane serve`, and requests to it."""

    def __init__(self, folder: Path) -> None:
        from germane.service.settings import Settings
        from germane.service.supervisor import prepare

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        data = str(folder / "data")
        self.settings = Settings(data=data)
        self.token = prepare(self.settings)
        self.output = folder / "output"
        order = ["serve", "--data", data, "--port", str(self.port)]
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "germane.cli", *order], stdout=out, stderr=out
            )
        end = time.monotonic() + 90
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.ask("GET", "/ready")[0] == 200:
                    return
            time.sleep(0.1)
        raise SystemExit(f"the service does not start: {self.output.read_text()[-2000:]}")

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """One request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        return answer.status, json.loads(said) if said else None

    def request(self, body: bytes) -> bytes:
        """A whole request that publishes a batch."""
        return (
            f"POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.token}\r\n"
            "Content-Type: application/cloudevents-batch+json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode() + body

    def position(self) -> int:
        """Up to where everything is matched."""
        stats = self.ask("GET", "/stats")[1]
        return int(stats["position"])

    def close(self) -> None:
        """End it in order."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(60)


class Line:
    """A connection that is kept: requests in, answers out, as bytes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def send(self, request: bytes) -> dict[str, Any]:
        """Publish, and wait for what was accepted."""
        self.socket.sendall(request)
        while b"\r\n\r\n" not in self.rest:
            self._more()
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        status = int(head[9:12])
        lengths = [x for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")]
        length = int(lengths[0].split(b":")[1])
        while len(self.rest) < length:
            self._more()
        body, self.rest = self.rest[:length], self.rest[length:]
        if status != 202:
            raise RuntimeError(f"{status}: {body[:300]!r}")
        return dict(json.loads(body))

    def _more(self) -> None:
        part = self.socket.recv(65536)
        if not part:
            raise ConnectionError("the API has hung up")
        self.rest += part


def subscribe(service: Service, work: Work) -> float:
    """Register everybody with their first limits; seconds until all of it is matched."""
    start = time.perf_counter()
    n = len(work.topics)
    last = 0
    for at in range(0, n, 10_000):
        part = [work.subscription(i) for i in range(at, min(at + 10_000, n))]
        status, said = service.ask("POST", "/subscriptions:batch", part)
        assert status == 202, (status, said)
        last = said["last"]
    line = Line(service.port)
    for at in range(0, n, BATCH):
        events = ",".join(
            f'{{"specversion":"1.0","id":"c{i}","source":"/load","type":"germane.context.patch",'
            f'"subject":"u{i}","data":{{"limit":{work.limits[i]}}}}}'
            for i in range(at, min(at + BATCH, n))
        )
        last = line.send(service.request(f"[{events}]".encode()))["last"]
    wait_for(service, last)
    return time.perf_counter() - start


def wait_for(service: Service, seq: int) -> None:
    """Wait until a seq is matched."""
    while service.position() < seq:
        time.sleep(0.02)


def throughput(service: Service, requests: list[bytes], n_events: int) -> dict[str, Any]:
    """Send batches as fast as they are accepted, over a few connections."""
    todo = iter(requests)
    lock, last, first = threading.Lock(), [0], [1 << 62]
    failures: list[str] = []

    def work() -> None:
        line = Line(service.port)
        while True:
            with lock:
                request = next(todo, None)
            if request is None:
                return
            try:
                answer = line.send(request)
            except (OSError, RuntimeError) as error:
                failures.append(str(error))
                return
            with lock:
                last[0], first[0] = max(last[0], answer["last"]), min(first[0], answer["first"])

    start = time.perf_counter()
    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    accepted = time.perf_counter() - start
    if failures:
        raise SystemExit(f"the API refused: {failures[0]}")
    wait_for(service, last[0])
    matched = time.perf_counter() - start
    return {
        "events": n_events, "accepted_s": accepted, "matched_s": matched, "first": first[0],
        "accepted_per_s": n_events / accepted, "matched_per_s": n_events / matched,
    }  # fmt: skip


class Ear:
    """Server-sent events of one subscriber: when each message arrived."""

    def __init__(self, service: Service, subscriber: str) -> None:
        self.arrived: dict[str, float] = {}
        self.socket = socket.create_connection(("127.0.0.1", service.port), timeout=300)
        self.socket.sendall(
            f"GET /deliveries/stream?subscriber={subscriber}&after=-1 HTTP/1.1\r\n"
            f"Host: 127.0.0.1\r\nAuthorization: Bearer {service.token}\r\n\r\n".encode()
        )
        self.socket.recv(65536)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        rest = b""
        with contextlib.suppress(OSError):
            while part := self.socket.recv(1 << 18):
                now = time.perf_counter()
                rest += part
                *whole, rest = rest.split(b"\n\n")
                for each in whole:
                    _, found, data = each.partition(b"data: ")
                    if found:
                        self.arrived[json.loads(data)["event"]["id"]] = now

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def latency(service: Service, work: Work, first: int, last: int, rate: float) -> dict[str, Any]:
    """Send small batches at a fixed rate; from sending and from acceptance to arrival, in ms.

    One message of a batch is also for a listener, who has a subscription of its own.
    """
    status, said = service.ask(
        "PUT", "/subscriptions/ear", {"subscriber": "ear", "condition": "heard < 1"}
    )
    assert status < 300, said
    ear = Ear(service, "ear")
    requests = []
    for number, at in enumerate(range(first, last, SMALL_BATCH)):
        listed = [work.event(i) for i in range(at, min(at + SMALL_BATCH, last))]
        listed[number % len(listed)] = (
            f'{{"specversion":"1.0","id":"h{number}","source":"/load","type":"offer",'
            f'"data":{{"topic":"t{number % work.n_topics}","price":50.0,"heard":0}}}}'
        )
        requests.append(service.request(f"[{','.join(listed)}]".encode()))
    sent, accepted = np.zeros(len(requests)), np.zeros(len(requests))
    start = time.perf_counter() + 0.1
    numbers = iter(range(len(requests)))
    lock = threading.Lock()

    def work_on() -> None:
        line = Line(service.port)
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            due = start + number * SMALL_BATCH / rate
            time.sleep(max(due - time.perf_counter(), 0.0))
            sent[number] = due  # what is sent late has waited
            line.send(requests[number])
            accepted[number] = time.perf_counter()

    threads = [threading.Thread(target=work_on) for _ in range(CONNECTIONS + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - start
    end = time.perf_counter() + 60
    while len(ear.arrived) < len(requests) and time.perf_counter() < end:
        time.sleep(0.05)
    ear.close()
    missing = len(requests) - len(ear.arrived)
    arrived = np.array([ear.arrived.get(f"h{i}", np.nan) for i in range(len(requests))])
    whole, after = (arrived - sent) * 1e3, np.maximum(arrived - accepted, 0.0) * 1e3
    quantiles = {
        f"{name}_p{q}_ms": float(np.nanpercentile(values, q))
        for name, values in (("sent", whole), ("accepted", after))
        for q in (50, 99)
    }
    return {
        "rate_per_s": (last - first) / took, "batches": len(requests), "missing": missing,
        **quantiles, "accepted_max_ms": float(np.nanmax(after)),
    }  # fmt: skip


def logged(service: Service, first_seq: int, n: int) -> Any:
    """The numbers of events in the order in which they were logged, from a seq on."""
    from germane.service.settings import open_log

    log = open_log(service.settings)
    numbers: list[int] = []
    while len(numbers) < n:
        for entry in log.read(first_seq + len(numbers) - 1, 50_000):
            numbers += [int(event["id"][1:]) for event in json.loads(entry.body)]
    log.close()
    return np.array(numbers[:n])


def delivered(service: Service, first_seq: int, n: int) -> Any:
    """How many deliveries each of some events has; read from the tables."""
    import sqlite3

    counts = np.zeros(n, np.int64)
    path = service.settings.folder / "service.db"
    with contextlib.closing(sqlite3.connect(path)) as tables:
        rows = tables.execute(
            "SELECT seq, count(*) FROM deliveries WHERE seq >= ? AND seq < ? GROUP BY seq",
            (first_seq, first_seq + n),
        )
        for seq, count in rows:
            counts[seq - first_seq] = count
    return counts


# PostgreSQL --------------------------------------------------------------------------------------


class Postgres:
    """A server of its own, and the load as statements."""

    def __init__(self, folder: Path) -> None:
        import psycopg

        homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        if not homes:
            raise FileNotFoundError("PostgreSQL is not installed")
        self.bin = homes[-1]
        self.folder = folder / "postgres"
        self.folder.mkdir()
        self.user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self.user:
            shutil.chown(self.folder, "postgres")
            for parent in (folder,):
                parent.chmod(0o755)
        self._run("initdb", "-D", str(self.folder / "data"), "-A", "trust", "-U", "postgres")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        options = (
            f"-p {port} -k {self.folder} -c listen_addresses=127.0.0.1 -c shared_buffers=512MB"
        )
        self._run(
            "pg_ctl", "-D", str(self.folder / "data"), "-w", "-l", str(self.folder / "log"),
            "-o", options, "start",
        )  # fmt: skip
        self.connection = psycopg.connect(
            f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
        )

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self.user, str(self.bin / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")

    def subscribe(self, work: Work) -> float:
        """Subscriptions and contexts as tables."""
        start = time.perf_counter()
        with self.connection.cursor() as cursor:
            cursor.execute(
                "CREATE TABLE contexts (id int PRIMARY KEY, low float8) WITH (fillfactor = 50);"
                "CREATE TABLE profiles (id int PRIMARY KEY, topic text, context int);"
                "CREATE TABLE log (seq bigint PRIMARY KEY, body text);"
                "CREATE TABLE deliveries (seq bigint, profile int);"
            )
            with cursor.copy("COPY contexts FROM STDIN") as copy:
                for row in enumerate(work.limits.tolist()):
                    copy.write_row(row)
            with cursor.copy("COPY profiles FROM STDIN") as copy:
                for i, topic in enumerate(work.topics.tolist()):
                    copy.write_row((i, f"t{topic}", i))
            cursor.execute("CREATE INDEX ON profiles (topic)")
        self.connection.commit()
        self.connection.autocommit = True
        self.connection.execute("VACUUM ANALYZE")
        self.connection.autocommit = False
        return time.perf_counter() - start

    def play(self, work: Work, order: Any, seconds: float) -> dict[str, Any]:
        """Batches until the time is up: events logged, contexts updated, messages joined."""
        start = time.perf_counter()
        at, n = 0, len(order)
        while at < n and time.perf_counter() - start < seconds:
            self._batch(work, order, at, min(at + BATCH, n))
            at = min(at + BATCH, n)
        took = time.perf_counter() - start
        return {"events": at, "seconds": took, "events_per_s": at / took}

    def _batch(self, work: Work, order: Any, first: int, last: int) -> None:
        with self.connection.transaction(), self.connection.pipeline():
            cursor = self.connection.cursor()
            bodies = [work.event(i) for i in order[first:last]]
            cursor.execute(
                "INSERT INTO log SELECT * FROM unnest(%s::bigint[], %s::text[])",
                (list(range(first, last)), bodies),
            )
            changed: dict[int, float] = {}
            for seq, i in enumerate(order[first:last].tolist(), first):
                if not work.is_message[i]:
                    changed[int(work.who[i])] = float(work.value[i])
                    continue
                self._update(cursor, changed)
                changed = {}
                cursor.execute(
                    "INSERT INTO deliveries SELECT %s, p.id FROM profiles p JOIN contexts c "
                    "ON c.id = p.context WHERE p.topic = %s AND %s < c.low",
                    (seq, f"t{work.topic[i]}", float(work.value[i])),
                    prepare=True,
                )
            self._update(cursor, changed)

    @staticmethod
    def _update(cursor: Any, changed: dict[int, float]) -> None:
        if changed:
            cursor.execute(
                "UPDATE contexts c SET low = v.low FROM unnest(%s::int[], %s::float8[]) "
                "AS v(id, low) WHERE c.id = v.id",
                (list(changed), list(changed.values())),
                prepare=True,
            )

    def delivered(self, n: int) -> Any:
        """How many deliveries each message has."""
        counts = np.zeros(n, np.int64)
        found = self.connection.execute("SELECT seq, count(*) FROM deliveries GROUP BY seq")
        for seq, count in found:
            counts[seq] = count
        self.connection.commit()
        return counts

    def close(self) -> None:
        """Stop the server."""
        self.connection.close()
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-m", "fast", "stop")


def main() -> int:
    """Measure both, compare, print, record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service_load", description=__doc__)
    parser.add_argument("--profiles", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=400_000, help="as fast as possible")
    parser.add_argument("--seconds", type=float, default=20.0, help="at half the bar's rate")
    parser.add_argument("--rate", type=float, default=BAR_EVENTS / 2)
    parser.add_argument("--postgres-seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-postgres", action="store_true")
    arguments = parser.parse_args()
    n_slow = int(arguments.rate * arguments.seconds)
    work = Work(arguments.profiles, arguments.events + n_slow, arguments.seed)
    folder = Path(tempfile.mkdtemp(prefix="germane-load-"))
    observed: dict[str, Any] = {}
    service = Service(folder)
    try:
        observed["subscribe_s"] = subscribe(service, work)
        print(
            f"{arguments.profiles:,} subscriptions in {observed['subscribe_s']:.1f} s", flush=True
        )
        requests = [service.request(b) for b in work.bodies(0, arguments.events, BATCH)]
        fast = observed["throughput"] = throughput(service, requests, arguments.events)
        print(f"accepted {fast['accepted_per_s']:,.0f}/s, matched {fast['matched_per_s']:,.0f}/s")
        counts = delivered(service, fast["first"], arguments.events)
        order = logged(service, fast["first"], arguments.events)
        n_messages = int(work.is_message[: arguments.events].sum())
        observed["matches_per_message"] = float(counts.sum() / n_messages)
        total = arguments.events + n_slow
        slow = observed["latency"] = latency(service, work, arguments.events, total, arguments.rate)
        print(json.dumps(slow, indent=1), flush=True)
    finally:
        service.close()
    if not arguments.no_postgres:
        rival(folder, work, arguments, observed, order, counts)
    shutil.rmtree(folder, ignore_errors=True)
    path = record.write("service_load", vars(arguments), observed)
    bars = {
        f"at least {BAR_EVENTS:,.0f} events/s": fast["matched_per_s"] >= BAR_EVENTS,
        f"p99 under {BAR_P99_MS:.0f} ms at half of it": slow["accepted_p99_ms"] < BAR_P99_MS
        and not slow["missing"],
    }
    for bar, holds in bars.items():
        print(f"{'pass' if holds else 'FAIL'}  {bar}")
    print(f"recorded in {path.relative_to(Path(__file__).parent.parent)}")
    return int(not all(bars.values()))


def rival(
    folder: Path,
    work: Work,
    arguments: argparse.Namespace,
    observed: dict[str, Any],
    order: Any,
    counts: Any,
) -> None:
    """The same load by PostgreSQL, and whether it delivers the same."""
    postgres = Postgres(folder)
    try:
        observed["postgres_subscribe_s"] = postgres.subscribe(work)
        theirs = observed["postgres"] = postgres.play(work, order, arguments.postgres_seconds)
        n = theirs["events"]
        same = bool((postgres.delivered(n) == counts[:n]).all())
        ratio = observed["throughput"]["matched_per_s"] / theirs["events_per_s"]
        observed |= {"ratio": ratio, "same_deliveries": same, "compared_events": n}
        print(
            f"PostgreSQL {theirs['events_per_s']:,.0f}/s: germane is {ratio:.1f} times as fast; "
            f"deliveries of {n:,} events: {'the same' if same else 'DIFFERENT'}"
        )
        if not same:
            raise SystemExit("the answers differ: there is no speed to report")
    finally:
        postgres.close()


if __name__ == "__main__":
    sys.exit(main())
