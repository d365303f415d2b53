"""A scene: a random sequence of events, how it is cut and streamed, and the right answers.

Events are those of ``test_spark.draw``: profiles that come back with other contexts, conditions
that are malformed, ends of what never began. Here some lack their seq or id or have a kind that
nobody knows, and some come twice.
"""

import random
from dataclasses import asdict, dataclass
from typing import Any

from test_spark import draw, embedded

Event = dict[str, Any]
FORMS = ("parquet", "json")
SINKS = ("parquet", "sql", "function")


@dataclass(frozen=True)
class Scene:
    """What is drawn from a seed; ``Scene.of`` fills in what is not chosen."""

    seed: int
    shards: int
    together: bool
    form: str
    sink: str
    n_events: int = 160
    n_parts: int = 6

    @classmethod
    def of(cls, seed: int, **chosen: Any) -> "Scene":
        """A scene; what is chosen does not change the rest."""
        pick = random.Random(f"scene {seed}")
        drawn = {
            "shards": pick.randint(1, 5),
            "together": pick.random() < 0.5,
            "form": pick.choice(FORMS),
            "sink": pick.choice(SINKS),
            "n_parts": pick.randint(4, 7),
        }
        return cls(seed, **{**drawn, **chosen})

    def events(self) -> list[Event]:
        """The whole sequence, in order; profiles from before everything are its beginning."""
        before, events = draw(self.seed, self.n_events)
        first = [
            {"seq": i - 100, "kind": "subscribe", "id": p, "condition": condition, "context": c}
            for i, (p, condition, c) in enumerate(before["profiles"])
        ]
        return first + _with_malformed(events, random.Random(f"malformed {self.seed}"))

    def contexts(self) -> list[tuple[str, dict[str, Any]]]:
        """Values before everything."""
        found: list[tuple[str, dict[str, Any]]] = draw(self.seed, self.n_events)[0]["contexts"]
        return found

    def parts(self) -> list[list[Event]]:
        """The sequence as it is published; some events come again in the part after theirs."""
        events, pick = self.events(), random.Random(f"parts {self.seed}")
        cuts = sorted(pick.sample(range(1, len(events)), self.n_parts - 1))
        parts = [events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True)]
        again: list[list[Event]] = [[]]
        for part in parts[:-1]:
            again.append([e for e in part if e["seq"] is not None and pick.random() < 0.05])
        return [part + old for part, old in zip(parts, again, strict=True)]

    def expected(self) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """(deliveries, dead letters): (seq, message, profile, context) and (seq, id), sorted."""
        before = {"contexts": self.contexts(), "profiles": []}
        deliveries, letters = embedded(before, self.events())
        return deliveries, letters

    def as_dict(self) -> dict[str, Any]:
        """For records and for the driver."""
        return asdict(self)


def _with_malformed(events: list[Event], pick: random.Random) -> list[Event]:
    """With events between that are nothing, one of them at the end."""
    mixed: list[Event] = []
    for event in events:
        mixed.append(event)
        if pick.random() < 0.06 or event is events[-1]:
            mixed.append(_malformed(event["seq"], pick))
    # A seq of its own for each, in the old order.
    for i, event in enumerate(mixed):
        if event["seq"] is not None:
            event["seq"] = 3 * i
    return mixed


def _malformed(seq: int, pick: random.Random) -> Event:
    kind = pick.choice(["message", "subscribe", "subscribe", "update"])
    event: Event = {"seq": seq, "kind": kind, "id": f"wrong{seq}"}
    if kind == "subscribe":
        event |= {"condition": "x > 1", "context": None}
    if pick.random() < 0.4:
        event["seq"] = None
    elif kind == "subscribe" and pick.random() < 0.5:
        event["kind"] = "resubscribe"
    else:
        event["id"] = None
    return event
