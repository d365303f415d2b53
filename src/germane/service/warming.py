"""The filter's kernels, compiled or read from disk before somebody waits for them.

A kernel is compiled once an installation, when it is first called. What a first subscription, a
first update and a first message call (``begin``) is ready before the matcher says that it is: two
processes compile it, in about five seconds on two free processors; later starts read it from disk.
The rest (``PARTS``: indexes, batches, texts, graphs, places, documents, addresses) is compiled on
the side by a patient process, and read from disk by the matcher when it needs it.

    python -m germane.service.warming first|rest|<part>
"""

import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import structlog

from germane.filter.warming import compile_sweep, has_indexes, is_compiled
from germane.service import log as logs
from germane.service.log import Stored
from germane.service.tenant import Tenant

Events = list[dict[str, Any]]
journal = structlog.get_logger("matcher")


class Rehearsal:
    """A tenant that nobody sees, and its log."""

    def __init__(self) -> None:
        self.tenant = Tenant(0, "agile", lambda number, numbers: {})
        self.bodies: dict[int, str] = {}
        self.tenant.texts = lambda number, numbers: {n: self.bodies[n] for n in numbers}

    def _play(self, kind: str, bodies: Iterable[Any], n: int = 1) -> int:
        entries = []
        for i, body in enumerate(bodies):
            seq = self.tenant.seq + 1 + i * n
            entries.append(Stored(seq, 0, 0, kind, msgspec.json.encode(body), n))
        step = self.tenant.play(entries)
        if step.dead:
            raise ValueError(f"the rehearsal is wrong: {step.dead[0]}")
        for each in step.registered:
            self.bodies[each.subscription.number] = each.body
            if each.reason is not None:
                raise ValueError(f"the rehearsal is wrong: {each.reason}")
        return sum(len(matched.seqs) for matched in step.matched)

    def subscribe(self, conditions: list[str], n: int) -> None:
        """So many subscriptions, each with a context of its own."""
        first = len(self.bodies)
        self._play(
            logs.SUBSCRIBE,
            (
                {
                    "id": f"s{i}", "subscriber": f"c{i}", "context": f"c{i}",
                    "condition": conditions[i % len(conditions)],
                }
                for i in range(first, first + n)
            ),
        )  # fmt: skip

    def graph(self, attribute: str, others: list[str], links: list[tuple[str, str]]) -> None:
        """Give attributes a graph."""
        self._play(logs.GRAPH, [{"attribute": attribute, "attributes": others, "set": links}])

    def events(self, events: Events) -> int:
        """Messages and changes of contexts; how many deliveries there are."""
        return self._play(logs.EVENTS, [events], len(events))


def message(**data: Any) -> dict[str, Any]:
    """An event that is matched."""
    extra = {name: data.pop(name) for name in ("address",) if name in data}
    return {"type": "talk", "id": "m", "source": "/", "data": data, **extra}


def change(number: int, **data: Any) -> dict[str, Any]:
    """An event that changes a context."""
    return {"type": "germane.context.patch", "id": "u", "subject": f"c{number}", "data": data}


# what is rehearsed -------------------------------------------------------------------------------


def _begin(r: Rehearsal) -> int:
    r.subscribe(["type = 'talk' AND start < 17", "start < context.last"], 2)
    found = 0
    for _ in range(2):
        found += r.events([change(1, last=20, room="A"), message(start=16)])
        found += r.events([change(1, last=3), message(start=2), message(start=5)])
    r.subscribe(["context.unread < 100 AND type = 'talk' AND start < context.last"], 1)
    return found + r.events([change(2, unread=1, last=9), message(start=1), change(2, last=5)])


def _mixed(r: Rehearsal) -> int:
    conditions = [
        "type = 'talk' AND start < context.last",
        "price BETWEEN context.limit - 5 AND context.limit + 5 AND room LIKE 'A%'",
        "room IN ('A1', 'A2') OR ABS(price - context.limit) > 2",
        "topic = 't1' AND price < context.limit",
    ]
    n = 300
    r.subscribe(conditions, n)

    def event(i: int) -> dict[str, Any]:
        if i % 10:
            return change(i, last=i % 20, limit=float(i % 50))
        return message(start=i % 24, price=i % 50, room=f"A{i % 3}", topic=f"t{i % 3}")

    return sum(r.events([event(i) for i in range(n)]) for _ in range(12))


def _many(r: Rehearsal) -> int:
    """Enough for indexes, with batches of messages and contexts that leave their places."""
    n = 6_000
    r.subscribe(
        ["topic = 't1' AND price < context.limit - 45", "price BETWEEN 3 AND 3.5", "x > 395"], n
    )
    found = r.events([change(i, limit=float(i % 50)) for i in range(n)])
    for k in range(8):
        prices = [message(topic=f"t{i % 3}", price=float((i + k) % 60), x=i) for i in range(400)]
        found += r.events(prices)
        moves = [change(i, limit=float((7 * i + k) % 90)) for i in range(0, 3_000, 3)]
        found += r.events([*moves, prices[k], *moves[:9], prices[k + 1]])
    return found


def _graphs(r: Rehearsal) -> int:
    r.graph("topic", ["interests"], [("all", "sport"), ("sport", "ball"), ("all", "art")])
    r.subscribe(["topic WITHIN 'sport'", "topic WITHIN context.interests AND price < 5"], 40)
    found = r.events([change(i, interests=["sport"]) for i in range(40)])
    for _ in range(3):
        found += r.events([message(topic=["ball"], price=1), change(1, interests=["art"])])
        found += r.events([message(topic=["ball", "art"], price=i) for i in range(40)])
    return found


def _places(r: Rehearsal) -> int:
    r.subscribe(["DISTANCE(place, context.home) <= 5000", "price < 5 AND start > 1"], 40)
    found = r.events([change(i, home=[48.1, 11.5]) for i in range(40)])
    return found + sum(
        r.events([message(place=[48.1, 11.51], price=1, start=2), change(3, home=[50.0, 8.0])] * 20)
        for _ in range(2)
    )


def _documents(r: Rehearsal) -> int:
    r.subscribe(["document MATCHES 'book[title[\"XML\"]]' COST < 10"], 8)
    text = "<book><title>XML and all</title></book>"
    return sum(r.events([message(document=text)] * n) for n in (1, 20))


def _addresses(r: Rehearsal) -> int:
    r.subscribe(["price < 50"], 40)
    found = r.events([change(i, age=i, town=f"T{i % 3}") for i in range(40)])
    for text in ("age < 30", "age < 30 AND town = 'T1'", "town LIKE 'T%' OR age > 5"):
        found += r.events([message(price=1, address=text), message(price=2)])
    return found


PARTS: dict[str, Callable[[Rehearsal], int]] = {
    "begin": _begin,
    "mixed": _mixed,
    "many": _many,
    "graphs": _graphs,
    "places": _places,
    "documents": _documents,
    "addresses": _addresses,
}
NEEDS = {"documents": "lxml"}
"""Parts for packages that need not be installed; without them nobody uses the part."""


def rehearse(part: str) -> int:
    """Go through a part of what tenants do; how many deliveries there were."""
    return PARTS[part](Rehearsal())


# in processes ------------------------------------------------------------------------------------


def begin(say: Callable[[str], None] = lambda words: None) -> None:
    """Have ready what the first subscription and message need."""
    helper = None
    if not is_compiled():
        say("compiling kernels, the first time only")
        helper = start("first")
    try:
        r = Rehearsal()
        r.subscribe(["start < 17"], 1)  # beside the helper: it compiles the sweep
        if helper is not None:
            helper.wait()
        rehearse("begin")
    except Exception as error:  # then the first who come wait for their kernels
        journal.exception("not_rehearsed", part="begin", error=repr(error))


class Rest:
    """The other kernels: compiled by a process of its own, where they are not on disk."""

    def __init__(self) -> None:
        self._process = None if has_indexes() else start("rest")

    def wants_indexes(self) -> bool:
        """Whether the kernels of indexes and batches are still being compiled."""
        running = self._process is not None and self._process.poll() is None
        return running and not has_indexes()

    def close(self) -> None:
        """End it; what it has compiled stays."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


def start(what: str) -> "subprocess.Popen[bytes]":
    """A process that compiles; it ends with the one that has started it."""
    return subprocess.Popen(
        [sys.executable, "-m", "germane.service.warming", what], stdin=subprocess.DEVNULL
    )


def main(what: str) -> None:
    """Compile, and end."""
    from germane.service.processes import follow

    threading.Thread(target=follow, args=(os.getppid(),), daemon=True).start()
    if what == "first":
        compile_sweep()
        return
    if what == "rest":
        os.nice(19)
    for part in PARTS if what == "rest" else (what,):
        if part in NEEDS and importlib.util.find_spec(NEEDS[part]) is None:
            continue
        try:
            rehearse(part)
        except Exception as error:  # then those who use it first wait for their kernels
            journal.warning("not_rehearsed", part=part, error=repr(error))


if __name__ == "__main__":
    main(sys.argv[1])
