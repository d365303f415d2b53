"""Run the cells and write raw observations; nothing here interprets them.

All contestants of a cell answer the same events, in turns. A rival gets an event as node numbers,
content lists get it expanded, as in the paper; germane gets names: one event at a time as a dict,
or batches as Arrow tables. Making events is not on the clock, reading them is.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from germane import ContentGraph

from ..reproduction import Journal, Steps, as_scale, read_toml
from ..rounds import quiet
from ..searches import ContentLists, ContentListsCompiled, Unoptimised, UnoptimisedCompiled, _lists
from ..topics import WORDNET, Work, directory, places

HERE = Path(__file__).parent


def load_parameters(path: Path | None = None) -> dict[str, Any]:
    """The parameter file, as a dict."""
    return read_toml(path or HERE / "parameters.toml")


def wordnet() -> Path:
    """WordNet's nouns; `GERMANE_WORDNET` says where they are."""
    return Path(os.environ.get("GERMANE_WORDNET", WORDNET))


class ContentListsOfArrays(ContentListsCompiled):
    """Content lists, compiled, whose events come as arrays: nothing is converted on the clock."""

    def find_listed(self, listed: Any, places: Any) -> np.ndarray:
        self.epoch += 1
        n = _lists(
            listed, places, self.topic_at, self.topic_users,
            self.listed_at, self.listed, self.marks, self.epoch, self.out,
        )  # fmt: skip
        return np.sort(self.out[:n])


MATCHERS = {
    "unoptimised": Unoptimised,
    "unoptimised compiled": UnoptimisedCompiled,
    "content lists": ContentLists,
    "content lists compiled": ContentListsOfArrays,
}


@dataclass
class Entry:
    """A contestant at work: answers step i, an event or a batch of them."""

    name: str
    answer: Callable[[int], Any]
    rows: Callable[[int], Any]  # users of event i
    n_steps: int
    batch: int = 1
    times_ns: list[int] = field(default_factory=list)

    def turn(self, seconds: float) -> None:
        """Go on for so long, or to the end of the events; at least one step."""
        begin = time.perf_counter_ns()
        while len(self.times_ns) < self.n_steps:
            start = time.perf_counter_ns()
            self.answer(len(self.times_ns))
            end = time.perf_counter_ns()
            self.times_ns.append(end - start)
            if end - begin > seconds * 1e9:
                return

    def expected_s(self) -> float:
        """Seconds of an event, once everything is compiled."""
        self.answer(0)
        start = time.perf_counter()
        self.answer(0)
        return (time.perf_counter() - start) / self.batch


class Cell:
    """Users and events of one size, and everybody who answers them."""

    def __init__(self, work: Work, budget: dict[str, Any]) -> None:
        self.work, self.budget = work, budget
        self.events = work.events(budget["batch"] * budget["batches"], 1)
        self.table = work.table(self.events)
        start = time.perf_counter()
        self.filter = work.filter()
        self.build_s = time.perf_counter() - start

    def entry(self, contestant: dict[str, Any]) -> Entry:
        if "matcher" in contestant:
            return self._rival(contestant)
        return self._germane(contestant)

    def _rival(self, contestant: dict[str, Any]) -> Entry:
        peer = MATCHERS[contestant["matcher"]](self.work)
        n = self.budget["events"]
        compiled = contestant["matcher"].endswith("compiled")
        topics, where = (list(x[:n]) if compiled else x[:n].tolist() for x in self.events)
        find = peer.find
        if isinstance(peer, ContentLists):
            listed = [peer.expand(nodes) for nodes in self.events[0][:n].tolist()]
            topics = [np.array(sorted(s)) for s in listed] if compiled else listed
            find = peer.find_listed

        def answer(i: int) -> Any:
            return find(topics[i], where[i])

        return Entry(contestant["name"], answer, answer, n)

    def _germane(self, contestant: dict[str, Any]) -> Entry:
        f, postings, plan = self.filter, self.filter._tables.postings, contestant.get("plan")
        size = self.budget["batch"]
        if contestant.get("batched"):
            batches = [self.table.slice(at, size) for at in range(0, len(self.table), size)]

            def answer_batch(i: int) -> Any:
                postings.plan = plan
                return f.match_many(batches[i])

            @cache
            def checked() -> Any:
                postings.plan = plan
                return f.match_many(self.table.slice(0, self.budget["checked_events"]))

            def rows(i: int) -> Any:
                return checked().rows(i)

            return Entry(contestant["name"], answer_batch, rows, len(batches), size)
        events = self.table.slice(0, self.budget["events"]).to_pylist()

        def answer(i: int) -> Any:
            postings.plan = plan
            return f.match(events[i])

        return Entry(contestant["name"], answer, answer, len(events))

    def observe(self, contestants: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """A line for every contestant, in their order; those who take too long have no times."""
        entries, skipped = {}, {}
        for contestant in contestants:
            name, most = contestant["name"], contestant.get("up_to", self.work.n_users)
            if self.work.n_users > most:
                skipped[name] = f"not run with more than {most:,} users"
                continue
            entry = self.entry(contestant)
            expected = entry.expected_s()
            if expected > self.budget["longest_event_s"]:
                skipped[name] = f"an event takes {expected:.2g} s"
            else:
                entries[name] = entry
        self._race(list(entries.values()))
        expected_rows = self._checked(next(iter(reversed(entries.values()))))
        for contestant in contestants:
            name = contestant["name"]
            if name in skipped:
                yield {"contestant": name, "skipped": skipped[name], "times_ns": []}
                continue
            entry = entries[name]
            agree = all(map(np.array_equal, self._checked(entry), expected_rows))
            yield {
                "contestant": name,
                "batch": entry.batch,
                "times_ns": entry.times_ns,
                "compared_events": len(expected_rows),
                "answers_agree": agree,
            }

    def _race(self, entries: list[Entry]) -> None:
        draw, rounds = random.Random(1), self.budget["rounds"]
        with quiet():
            for _ in range(rounds):
                for entry in draw.sample(entries, len(entries)):
                    entry.turn(self.budget["cell_seconds"] / rounds)

    def _checked(self, entry: Entry) -> list[np.ndarray]:
        return [np.unique(entry.rows(i)) for i in range(self.budget["checked_events"])]

    def model(self) -> dict[str, Any]:
        """Sizes of the event model, and what content lists make of them."""
        work, n = self.work, self.budget["sampled_users"]
        self.filter._tables.postings.plan = None
        return {
            "users": work.n_users,
            "topics": len(work.topic),
            "topic_links": work.topic.n_edges,
            "places": len(work.place),
            "topic_factor": longer(work.topic, self.events[0][:n]),
            "place_factor": longer(work.place, work.places[:n]),
            "matches": len(self.filter.match_many(self.table)) / len(self.table),
            "filter_bytes": self.filter.nbytes,
            "build_s": self.build_s,
        }


def longer(graph: ContentGraph, nodes: np.ndarray) -> float:
    """How many times as many nodes there are in lists with everything above."""
    view = graph.view
    before = after = 0
    for row in nodes.tolist():
        before += len(set(row))
        above = [view.above[view.above_at[n] : view.above_at[n] + view.above_n[n]] for n in row]
        after += len(np.unique(np.concatenate(above)))
    return after / before


@dataclass(frozen=True)
class Point:
    """Sizes of a cell, and the figures that show it."""

    users: int
    topics: int
    shown_in: tuple[str, ...]


def points(parameters: dict[str, Any]) -> list[Point]:
    """The sizes of Figures 6 and 7, each once."""
    shown: dict[tuple[int, int], list[str]] = {}
    for name, experiment in parameters["experiments"].items():
        for topics in experiment["topics"]:
            for users in experiment["users"]:
                shown.setdefault((users, topics), []).append(name)
    return [Point(*size, shown_in=tuple(names)) for size, names in shown.items()]


def run(
    scale: float | None = None,
    out: Path = Path("out/graphs"),
    seed: int = 1,
    progress: Any = None,
    *,
    parameters: dict[str, Any] | None = None,
    beyond: bool = True,
) -> None:
    """Run all experiments at a scale, then draw the page.

    `progress` is a rich `Progress` or None; `beyond` adds what is larger than the paper.
    """
    from .page import page

    parameters = parameters or load_parameters()
    scale = as_scale(scale, parameters)
    journal = Journal(out, scale)
    chosen, larger = points(parameters), parameters["beyond"] if beyond else []
    steps = Steps(progress, "Notification", len(chosen) + len(larger) + 1)
    topic_graph = cache(lambda n: ContentGraph.from_edges(directory(n, seed)))
    place = ContentGraph.from_edges(places(max(1, round(parameters["cities"] * scale))))

    def users(n: int) -> int:
        return max(parameters["least_users"], round(n * scale))

    def observe(work: Work, head: dict[str, Any]) -> None:
        steps.say(f"{work.n_users:,} users, {len(work.topic):,} topics")
        cell = Cell(work, parameters["budget"])
        head = {"profiles": users(parameters["profiles"]), "seed": seed} | head
        head |= {"users": work.n_users, "topics": len(work.topic)}
        journal.write("models", head | cell.model())
        for line in cell.observe(parameters["contestants"]):
            journal.write("cells", head | line)
        steps.done()

    for point in chosen:
        topic = topic_graph(max(2, round(point.topics * scale)))
        head = {"shown_in": point.shown_in, "point": [point.users, point.topics]}
        observe(Work("paper", topic, place, users(point.users), seed), head)
    world = ContentGraph.from_edges(places()) if larger else place
    for entry in larger:
        head = {"shown_in": ["beyond"], "name": entry["name"]}
        if entry["topics"] != "wordnet":
            topic = topic_graph(max(2, round(entry["topics"] * scale)))
        elif wordnet().exists():
            topic = ContentGraph.read(wordnet())
        else:
            journal.write("absent", head)
            steps.done()
            continue
        observe(Work(entry["name"], topic, world, users(entry["users"]), seed), head)
    steps.say("page")
    page(Path(out), parameters=parameters)
    steps.done()
