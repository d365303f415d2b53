"""Faults of the service: whatever is killed when, deliveries are those of the logged sequence.

    python -m tests.faults.service --rounds 200

A round: clients publish messages and context changes, subscribe and unsubscribe; meanwhile the
API, the matcher, the broker, or (with ``--matcher spark``) a shard's worker is killed at a random
moment, perhaps twice. Then the load ends, the service catches up, and three things are compared:
every answer of the API that said "accepted" is in the log where it said; what the oracle says of
the log is what was delivered, to each subscriber once and by the same subscriptions; and no
delivery that was seen before has gone. The oracle shares no line with the engine, and keeps its
state from round to round, as the service does.
"""

import argparse
import contextlib
import http.client
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import naive
import naive_cesql

from tests.faults import TESTS
from tests.faults.installation import (
    ANSWER_S,
    BATCH,
    CAUGHT_UP_S,
    Installation,
    Refused,
    nats_server,
)

RESULTS = Path(__file__).parent / "results"
ROUNDS_EACH = 20
"""Rounds that an installation lives."""
BUSY_EVENTS = 100
"""So much is published before anything is killed."""
PEOPLE = [f"person-{i}" for i in range(12)]
ROOMS = ("A1", "A2", "B1", "Hall")
KINDS = ("talk", "walk", "alarm")
CONDITIONS = (
    "price < context.low AND room = '{room}'",
    "type = '{kind}' AND price BETWEEN context.low - {n} AND context.low + {n}",
    "room IN ('{room}', 'Hall') AND context.mood = 'open'",
    "price > {n} + 60",
    "room LIKE 'A%' AND price < context.low AND NOT context.mood = 'closed'",
    "context.low IS NULL AND type = '{kind}'",
)
SQL = (
    "type = '{kind}' AND price > {n}",
    "room LIKE '{room}%' AND UPPER(type) != 'WALK'",
    "EXISTS room AND NOT EXISTS price OR price % 7 = 3",
)


class Wrong(Exception):
    """The service did not do what the oracle says."""


class Oracle:
    """The subscriptions and contexts of the logged sequence, and who gets what."""

    def __init__(self) -> None:
        self.filter = naive.NaiveFilter()
        self.sql: dict[str, str] = {}
        self.owner: dict[str, str] = {}
        self.contexts: dict[str, dict[str, Any]] = {}
        self.seq = 0

    def play(self, entries: list[Any]) -> dict[tuple[int, str], list[str]]:
        """What new entries deliver: (seq, subscriber) -> subscriptions."""
        found: dict[tuple[int, str], list[str]] = {}
        for entry in entries:
            if entry.seq != self.seq + 1:
                raise Wrong(f"the log goes from {self.seq} to {entry.seq}")
            body = json.loads(entry.body)
            if entry.kind == "events":
                for seq, event in enumerate(body, entry.seq):
                    for profile in self.event(event):
                        found.setdefault((seq, self.owner[profile]), []).append(profile)
            elif entry.kind == "subscribe":
                self.end(body["id"])
                self.begin(body)
            elif entry.kind == "unsubscribe":
                self.end(body["id"])
            self.seq = entry.seq + entry.n - 1
        return {key: sorted(profiles) for key, profiles in found.items()}

    def begin(self, body: dict[str, Any]) -> None:
        self.owner[body["id"]] = body["subscriber"]
        if body["condition"] is not None:
            self.filter.subscribe(body["id"], body["condition"], body["context"])
        else:
            self.sql[body["id"]] = body["filters"][0]["sql"]

    def end(self, id_: str) -> None:
        if self.owner.pop(id_, None) is not None and self.sql.pop(id_, None) is None:
            self.filter.unsubscribe(id_)

    def event(self, event: dict[str, Any]) -> list[str]:
        if event["type"] == "germane.context.patch":
            self.filter.update(event["subject"], event["data"])
            return []
        message = {**event["data"], "type": event["type"], "source": event["source"]}
        by_sql = [id_ for id_, text in self.sql.items() if naive_cesql.passes(text, message)]
        return [*self.filter.match(message), *by_sql]


class Load:
    """Clients that publish and subscribe until they are told to stop; what they were promised."""

    def __init__(self, service: Installation, seed: str, n_clients: int) -> None:
        self.service = service
        self.stopping = threading.Event()
        self.promised: list[tuple[int, list[str]]] = []  # first seq, ids of events
        self.counts: Counter[str] = Counter()
        self.errors: list[str] = []
        self.clients = [
            threading.Thread(target=self._work, args=(f"{seed}-{i}",), daemon=True)
            for i in range(n_clients)
        ]
        for client in self.clients:
            client.start()

    def stop(self) -> None:
        """End, with what is on its way."""
        self.stopping.set()
        for client in self.clients:
            client.join(CAUGHT_UP_S + ANSWER_S)
            if client.is_alive():
                raise Wrong("a request got no answer for minutes")
        if self.errors:
            raise Wrong(self.errors[0])

    def wait_until_busy(self) -> None:
        """Until much has been promised: else a slow machine had nothing to lose."""
        end = time.monotonic() + CAUGHT_UP_S
        while self.counts["events"] < BUSY_EVENTS and time.monotonic() < end and not self.errors:
            time.sleep(0.01)

    def _work(self, name: str) -> None:
        pick = random.Random(name)
        number = 0
        while not self.stopping.is_set():
            number += 1
            try:
                self._once(pick, f"{name}-{number}")
            except Refused as error:
                self.counts[f"status {error.status}"] += 1
                if error.status not in (429, 503, 507):
                    self.errors.append(f"the API refused what is right: {error}")
                    return
                time.sleep(0.02)
            except (OSError, http.client.HTTPException):
                self.counts["connections lost"] += 1
                time.sleep(0.02)
            time.sleep(pick.random() * 0.02)

    def _once(self, pick: random.Random, name: str) -> None:
        kind = pick.random()
        if kind < 0.12:
            self._subscribe(pick, f"s-{name}")
        elif kind < 0.17:
            with contextlib.suppress(Refused):  # it may be gone
                self.service.ask("DELETE", f"/subscriptions/s-{pick.randrange(60)}")
        else:
            events = [event_at_random(pick, f"{name}.{i}") for i in range(pick.randint(1, 25))]
            answer = self.service.ask("POST", "/events", events, BATCH)
            self.promised.append((answer["first"], [event["id"] for event in events]))
            self.counts["events"] += len(events)

    def _subscribe(self, pick: random.Random, id_: str) -> None:
        id_ = f"s-{pick.randrange(60)}" if pick.random() < 0.5 else id_
        self.service.ask("PUT", f"/subscriptions/{id_}", subscription_at_random(pick))
        self.counts["subscriptions"] += 1


def event_at_random(pick: random.Random, name: str) -> dict[str, Any]:
    """A message, or a change of a context."""
    event: dict[str, Any] = {"specversion": "1.0", "id": name, "source": "/load"}
    if pick.random() < 0.7:
        data: dict[str, Any] = {"low": pick.choice((pick.randint(0, 100), None))}
        if pick.random() < 0.5:
            data["mood"] = pick.choice(("open", "closed"))
        kind = {"type": "germane.context.patch", "subject": pick.choice(PEOPLE), "data": data}
        return event | kind
    data = {"price": pick.randint(0, 100), "room": pick.choice(ROOMS)}
    return event | {"type": pick.choice(KINDS), "data": {n: data[n] for n in sorted(data)}}


def subscription_at_random(pick: random.Random) -> dict[str, Any]:
    """Somebody's condition, in our language or in CESQL."""
    values = {"room": pick.choice(ROOMS), "kind": pick.choice(KINDS), "n": pick.randint(1, 20)}
    person = pick.choice(PEOPLE)
    if pick.random() < 0.75:
        return {"subscriber": person, "condition": pick.choice(CONDITIONS).format(**values)}
    return {"subscriber": person, "filters": [{"sql": pick.choice(SQL).format(**values)}]}


class Scene:
    """An installation and its oracle, from round to round."""

    def __init__(self, folder: Path, log: str, matcher: str = "embedded") -> None:
        self.log, self.matcher = log, matcher
        options = ("--matcher", "spark", "--shards", "2") if matcher == "spark" else ()
        self.service = Installation(folder, log, options)
        self.oracle = Oracle()
        self.last_delivery = 0
        self.seen: dict[tuple[int, str], list[str]] = {}
        self.n_rounds = 0
        pick = random.Random("first")
        for i in range(40):
            self.service.ask("PUT", f"/subscriptions/s-{i}", subscription_at_random(pick))

    def play(self, seed: int) -> dict[str, Any]:
        """One round; raises `Wrong`."""
        pick = random.Random(f"service {seed}")
        roles = ["api", "matcher"] + (["broker"] if self.log == "nats" else [])
        roles += ["shard", "matcher"] if self.matcher == "spark" else []
        faults = [pick.choice(roles) for _ in range(pick.choice((1, 1, 1, 2)))]
        start = time.monotonic()
        load = Load(self.service, f"{seed}", pick.choice((2, 3, 4)))
        struck = []
        try:
            load.wait_until_busy()
            for role in faults:
                time.sleep(pick.uniform(0.05, 0.9))
                if self.service.kill(role):
                    struck.append(role)
                if role == "broker":
                    time.sleep(pick.choice((0.0, 0.1, 0.5)))
                    assert self.service.broker is not None
                    self.service.broker.start()
            time.sleep(pick.uniform(0.1, 0.6))
        finally:
            load.stop()
        self.service.catch_up()
        counts = load.counts + Counter({f"kills of {role}": struck.count(role) for role in struck})
        counts["deliveries"] = self.compare(load.promised)
        self.n_rounds += 1
        return {
            "seed": seed, "log": self.log, "faults": struck, "counts": dict(counts),
            "seconds": round(time.monotonic() - start, 1),
        }  # fmt: skip

    def compare(self, promised: list[tuple[int, list[str]]]) -> int:
        """What was promised, logged and delivered; how many deliveries are new."""
        entries = self.service.logged(self.oracle.seq)
        ids: dict[int, str] = {}
        for entry in entries:
            if entry.kind == "events":
                for seq, event in enumerate(json.loads(entry.body), entry.seq):
                    ids[seq] = event["id"]
        for first, names in promised:
            logged = [ids.get(first + i) for i in range(len(names))]
            if logged != names:
                raise Wrong(f"accepted at {first}: {names}, but the log has {logged}")
        doubled = [name for name, n in Counter(ids.values()).items() if n > 1]
        if doubled:
            raise Wrong(f"published once, logged twice: {doubled}")
        wanted = self.oracle.play(entries)
        found: dict[tuple[int, str], list[str]] = {}
        for delivery in self.service.deliveries(self.last_delivery):
            key = (delivery["seq"], delivery["subscriber"])
            if key in found or key in self.seen:
                raise Wrong(f"delivered twice: {key}")
            if delivery["id"] <= self.last_delivery:
                raise Wrong(f"delivery {delivery['id']} comes after {self.last_delivery}")
            self.last_delivery = delivery["id"]
            found[key] = sorted(delivery["subscriptions"])
        if found != wanted:
            lost = sorted(wanted.keys() - found.keys())[:5]
            much = sorted(found.keys() - wanted.keys())[:5]
            other = [k for k in wanted.keys() & found.keys() if wanted[k] != found[k]][:5]
            raise Wrong(f"lost {lost}, invented {much}, by other subscriptions {other}")
        if self.n_rounds % 5 == 4 and self.last_delivery:
            again = {(d["seq"], d["subscriber"]) for d in self.service.deliveries(0)}
            if again != self.seen.keys() | found.keys():
                raise Wrong("deliveries that were seen before have gone")
        self.seen |= found
        return len(found)

    def close(self) -> None:
        """End the installation."""
        self.service.close()


def main() -> int:
    """Play rounds until one goes wrong, or all are played."""
    arguments = _arguments()
    logs = [name for name in arguments.logs.split(",") if name != "nats" or nats_server()]
    scratch = Path(tempfile.mkdtemp(prefix="germane-service-"))
    path = arguments.record or RESULTS / f"service-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    rounds: list[dict[str, Any]] = []
    if path.exists():
        rounds = json.loads(path.read_text())["rounds"]
    error = None
    scene: Scene | None = None
    end = time.monotonic() + arguments.seconds
    try:
        for number in range(len(rounds), len(rounds) + arguments.rounds):
            if time.monotonic() > end:
                break
            if scene is None or scene.n_rounds >= ROUNDS_EACH:
                if scene is not None:
                    scene.close()
                log = logs[number // ROUNDS_EACH % len(logs)]
                scene = Scene(scratch / f"{number}", log, arguments.matcher)
            done = scene.play(arguments.seed * 100_000 + number)
            rounds.append(done)
            told = ", ".join(f"{name} {n}" for name, n in sorted(done["counts"].items()))
            print(
                f"{number + 1:>4}  right  {done['seconds']:5.1f} s  {done['log']}: {told}",
                flush=True,
            )
            _record(path, arguments, rounds, None)
    except Exception:
        error = traceback.format_exc()
        print(f"{len(rounds) + 1:>4}  WRONG\n{error}\nfiles are in {scratch}")
        _record(path, arguments, rounds, error)
    finally:
        if scene is not None:
            scene.close()
    if error is None:
        shutil.rmtree(scratch)
    print(f"{len(rounds)} rounds right; recorded in {path}")
    return int(error is not None)


def _record(
    path: Path, arguments: argparse.Namespace, rounds: list[dict[str, Any]], error: str | None
) -> None:
    total: Counter[str] = Counter()
    for done in rounds:
        total.update(done["counts"])
    git = ["git", "-C", str(TESTS), "rev-parse", "--short=12", "HEAD"]
    record = {
        "arguments": {name: getattr(arguments, name) for name in ("seed", "logs", "matcher")},
        "commit": subprocess.run(git, capture_output=True, text=True).stdout.strip(),
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version()},
        "rounds_right": len(rounds),
        "error": error,
        "seconds": round(sum(done["seconds"] for done in rounds)),
        "totals": dict(sorted(total.items())),
        "rounds": rounds,
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.service", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=7200, help="no round begins after that")
    parser.add_argument("--logs", default="sqlite,nats")
    parser.add_argument("--matcher", default="embedded", choices=("embedded", "spark"))
    parser.add_argument("--record", type=Path, help="a file of results to go on with")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
