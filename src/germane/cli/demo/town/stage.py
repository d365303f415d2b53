"""The town on the service: everything that the demo says to it, over HTTP as any client would.

In: the address of a running service and the token of its root. ``set_up`` makes graphs, tokens,
contexts and subscriptions, and the address of the page; ``step`` moves the people and now and then
publishes a message. Contexts and messages go into one sequence, so that who gets a message is
decided by where everybody is before it.
"""

import itertools
import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

import httpx
import numpy as np

from germane.cli.demo.town import news, people, places
from germane.cli.demo.town.walking import Change, Walks

BUSY_S = 180.0
"""How long the service may say that it is busy: the first start compiles."""

STEP_S = 0.5
NEWS_EVERY = 5  # steps
MANY = {"Content-Type": "application/cloudevents-batch+json"}


class Stage:
    """A town, and the service that it speaks to."""

    def __init__(self, base: str, token: str, size: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self._http = httpx.Client(
            base_url=base, headers={"Authorization": f"Bearer {token}"}, timeout=120
        )
        self._token = token
        self._crowd = people.Crowd.generate(size, rng)
        self._walks = Walks(self._crowd, rng)
        self._news = news.events(news.read_feeds(), rng)
        self._steps = 0
        self._ids = itertools.count(1)
        self._last = 0  # seq

    def set_up(self) -> str:
        """Fill the service; the address of the demo page, with its tokens."""
        self._send("PUT", "/graphs/topic", {"edges": places.TOPIC_EDGES})
        self._send("PUT", "/graphs/place", {"edges": places.PLACE_EDGES})
        wanted = {"role": "subscriber", "subject": people.YOU}
        yours = self._send("POST", "/tokens", wanted)["token"]
        self._publish(self._changes(self._walks.begin()))
        self._subscribe()
        seq = self._publish([self._event("demo.map", _map(), None)])
        for _ in range(12):  # so that a backtest of a first subscription has something to show
            self._last = self._publish([next(self._news)])
        fragment = urlencode({"token": self._token, "you": yours, "map": seq})
        return f"{self._http.base_url}/app/demo#{fragment}"

    def step(self) -> None:
        """Half a second of town life."""
        events = list(self._changes(self._walks.step(STEP_S)))
        self._steps += 1
        if self._steps % NEWS_EVERY == 0:
            events.append(next(self._news))
        self._publish(events)

    def is_seen(self) -> bool:
        """Whether the service has matched what was set up."""
        return bool(self._send("GET", "/stats")["position"] >= self._last)

    def summary(self) -> str:
        """What the service did, in a line."""
        stats = self._send("GET", "/stats")
        p50, p99 = stats["latency_ms"]["p50"], stats["latency_ms"]["p99"]
        return (
            f"{stats['log']['last']:,} events, {stats['deliveries']:,} deliveries to "
            f"{stats['subscribers']:,} people; from the door to the inbox in {p50:.0f} ms "
            f"(median), {p99:.0f} ms (p99)."
        )

    def close(self) -> None:
        """Hang up."""
        self._http.close()

    def _subscribe(self) -> None:
        wanted = [
            {"condition": each.condition, "subscriber": each.id, "context": each.id}
            for each in people.NAMED
        ]
        for person, body in zip(people.NAMED, wanted, strict=True):
            self._send("PUT", f"/subscriptions/{person.id}", body)
        crowd = zip(self._crowd.ids, self._crowd.conditions, strict=True)
        many = [{"condition": c, "subscriber": name, "context": name} for name, c in crowd]
        if many:
            self._send("POST", "/subscriptions:batch", many)

    def _changes(self, changes: Iterable[Change]) -> Iterable[dict[str, Any]]:
        for context, values in changes:
            yield self._event("germane.context.patch", values, context)

    def _event(self, kind: str, data: Any, subject: str | None) -> dict[str, Any]:
        return {
            "specversion": "1.0", "id": f"town-{next(self._ids)}", "source": "/town",
            "type": kind, "data": data, **({"subject": subject} if subject else {}),
        }  # fmt: skip

    def _publish(self, events: Iterable[dict[str, Any]]) -> int:
        """Publish; the seq of the last one."""
        answer = self._send("POST", "/events", list(events), MANY)
        return int(answer["last"] or 0)

    def _send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Any:
        """Ask; again while the matcher is busy, as it is when it compiles its kernels."""
        end = time.monotonic() + BUSY_S
        while True:
            answer = self._http.request(method, path, json=body, headers=headers)
            if answer.status_code != 503 or time.monotonic() > end:
                break
            time.sleep(0.5)
        if answer.is_error:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json()


def _map() -> dict[str, Any]:
    """What the page has to know of the town, as the data of an event."""
    return {
        "width": places.WIDTH,
        "height": places.HEIGHT,
        "north": places.NORTH,
        "west": places.WEST,
        "metres": places.METRES,
        "districts": places.DISTRICTS,
        "people": [
            {"id": p.id, "label": p.label, "says": p.says, "subscription": p.id}
            for p in people.NAMED
        ],
    }
