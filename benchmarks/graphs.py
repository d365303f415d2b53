"""Content graphs: germane's matcher against the paper's other two, libraries, and itself.

    python -m benchmarks.graphs

Two graphs, users with 5 topics and 3 places, events with 3 and 2 (paper Notification, section 6),
one core. germane gets batches of events as Arrow tables of names, the peers node numbers, one event
at a time; content lists have their events expanded beforehand, as in the paper. Answers are
compared before anything is timed. Then the same at a million users and 600,000 topics, fixed plans
against the adaptive one on all data sets, and contexts that move.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import germane
from germane import ContentGraph

from . import record
from .rounds import Bar, Contestant, compete, console, ratio, show_bars
from .searches import LIBRARIES, PAPER, ContentLists, Peer
from .topics import WORDNET, Work, directory, places

GERMANE = "germane"
PLANS = {"adaptive": None, "topics first": "under", "places first": "over"}


def rates(work: Work, peers: tuple[type[Peer], ...], chosen: Any) -> dict[str, Any]:
    """Events a second of everybody, in turns."""
    console.print(f"building {work.name}: {work.n_users:,} users")
    f = work.filter()
    events = work.events(chosen.events, 1)
    table = work.table(events)
    found = f.match_many(table)
    topics, where = events[0].tolist(), events[1].tolist()
    entries = [Contestant(GERMANE, lambda n: repeat(f, table, n))]
    agree = True
    for kind in peers:
        console.print(f"building {kind.name}")
        peer = kind(work)
        for i in range(chosen.checked):
            expected = np.unique(peer.find(topics[i], where[i]))
            agree &= np.array_equal(expected, np.sort(found.rows(i)))
        entries.append(Contestant(peer.name, one_by_one(peer, topics, where)))
    compete(entries, chosen.rounds, chosen.turn)
    return {
        "work": work.name,
        "rates": {entry.name: entry.rates() for entry in entries},
        "matches": len(found) / chosen.events,
        "candidates": f.stats()["candidates"] / max(f.stats()["messages"], 1),
        "answers_agree": agree,
        "bytes": f.nbytes,
    }


def repeat(f: Any, table: Any, n: int) -> None:
    """Match n events, a batch at a time."""
    for begin in range(0, n, len(table)):
        f.match_many(table.slice(0, n - begin))


def one_by_one(peer: Peer, topics: list[Any], where: list[Any]) -> Any:
    if isinstance(peer, ContentLists):
        listed = [np.array(sorted(peer.expand(t))) for t in topics[:2000]]
        if type(peer) is ContentLists:
            listed = [set(nodes.tolist()) for nodes in listed]

        def by_lists(n: int) -> None:
            for i in range(n):
                peer.find_listed(listed[i % len(listed)], where[i % len(listed)])

        return by_lists

    def by_nodes(n: int) -> None:
        for i in range(n):
            peer.find(topics[i % len(topics)], where[i % len(topics)])

    return by_nodes


def plans(work: Work, chosen: Any) -> dict[str, Any]:
    """The adaptive plan against the two fixed ones."""
    f = work.filter()
    events = work.events(chosen.events, 2)
    table = work.table(events)
    entries, digests = [], set()
    for name, plan in PLANS.items():
        f._tables.postings.plan = plan
        part = table.slice(0, chosen.checked)
        digests.add(tuple(record.digest(row) for row in f.match_many(part).by_message()))

        def work_of(n: int, plan: Any = plan) -> None:
            f._tables.postings.plan = plan
            repeat(f, table, n)

        entries.append(Contestant(name, work_of, max_units=chosen.events))
    compete(entries, chosen.rounds, chosen.turn)
    return {
        "work": work.name,
        "users": work.n_users,
        "rates": {entry.name: entry.rates() for entry in entries},
        "answers_agree": len(digests) == 1,
    }


def moves(place: ContentGraph, n: int, seed: int) -> dict[str, float]:
    """Contexts that move about inside the subtree that they are indexed by, and out of it."""
    rng = np.random.default_rng([seed, 9])
    f = germane.Filter(graphs={"place": place})
    ids = np.arange(n)
    names = np.array(place.names, object)
    countries = place.view.above_n == 2
    country = np.flatnonzero(countries)[place.view.below[countries].argmax()]
    inside = [place.number[x] for x in place.descendants(place.names[country])]
    f.update_many(ids, "place", names[rng.choice(inside, n)].tolist())
    f.subscribe_many(ids, ["place CONTAINS context.place"] * n, ids)
    for _ in range(12):  # everybody escalates, in the end to the country
        f.update_many(ids, "place", names[rng.choice(inside, n)].tolist())
    escalations = f._tables.postings.escalations
    took = []
    for _ in range(5):
        where = names[rng.choice(inside, n)].tolist()
        start = time.perf_counter()
        f.update_many(ids, "place", where)
        took.append(n / (time.perf_counter() - start))
    return {
        "rate": float(np.median(took)),
        "escalations": f._tables.postings.escalations - escalations,
        "n": n,
    }


def closure(n_topics: int, seed: int) -> dict[str, float]:
    """What the closure of a large graph costs."""
    graph = ContentGraph.from_edges(directory(n_topics, seed))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    graph._build()
    return {
        "nodes": len(graph),
        "links": graph.n_edges,
        "seconds": time.perf_counter() - start,
        "closure_mb": (graph.view.above.nbytes + graph.view.above_at.nbytes) / 1e6,
        "grown_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3,
    }


def show(found: dict[str, Any]) -> None:
    table = Table("who", "events/s", "times as fast as", title=found["work"])
    first = next(iter(found["rates"]))
    for name, values in found["rates"].items():
        times = ratio(found["rates"][first], values)
        table.add_row(name, f"{np.median(values):,.0f}", f"{times:,.2f}")
    console.print(table)


def main(arguments: list[str] | None = None) -> int:
    """Run, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--topics", type=int, default=44_506)
    parser.add_argument("--places", type=int, default=6_905)
    parser.add_argument("--many-users", type=int, default=1_000_000)
    parser.add_argument("--many-topics", type=int, default=600_000)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--checked", type=int, default=50, help="events whose answers are compared")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turn", type=float, default=1.0, help="seconds a turn")
    parser.add_argument("--moves", type=int, default=1_000_000)
    parser.add_argument("--wordnet", type=Path, default=WORDNET)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)

    topic = ContentGraph.from_edges(directory(chosen.topics, chosen.seed))
    place = ContentGraph.from_edges(places(chosen.places))
    world = ContentGraph.from_edges(places())
    small = Work("the paper's size", topic, place, chosen.users, chosen.seed)
    main_run = rates(small, (*PAPER, *LIBRARIES), chosen)
    show(main_run)
    observed: dict[str, Any] = {
        "main": main_run,
        "closure": closure(chosen.many_topics, chosen.seed),
    }
    console.print(observed["closure"])
    observed["moves"] = moves(world, chosen.moves, chosen.seed)
    console.print(observed["moves"])
    works = [small, Work("near the root", topic, place, chosen.users, chosen.seed, skewed=True)]
    if chosen.wordnet.exists():
        nouns = ContentGraph.read(chosen.wordnet)
        works.append(Work("WordNet and the world", nouns, world, chosen.users, chosen.seed))
    observed["plans"] = []
    for work in works:
        observed["plans"].append(plans(work, chosen))
        show(observed["plans"][-1])
    large = ContentGraph.from_edges(directory(chosen.many_topics, chosen.seed))
    most = Work("a million users", large, world, chosen.many_users, chosen.seed)
    observed["large"] = rates(most, (), chosen)
    show(observed["large"])
    bars = judge(observed)
    show_bars(bars)
    observed["bars"] = [bar.as_dict() for bar in bars]
    path = record.write("graphs", {**vars(chosen), "wordnet": chosen.wordnet.name}, observed)
    console.print(f"record: {os.path.relpath(path)}")
    agree = [main_run["answers_agree"], *(p["answers_agree"] for p in observed["plans"])]
    return 0 if all(agree) else 1


def judge(observed: dict[str, Any]) -> list[Bar]:
    found = observed["main"]["rates"]
    best = max((kind.name for kind in LIBRARIES), key=lambda name: np.median(found[name]))
    bars = [
        Bar(f"germane / {name}", ratio(found[GERMANE], found[name]), wanted)
        for name, wanted in (
            ("unoptimised search", 500.0), ("unoptimised search, compiled", 500.0),
            ("content lists", 30.0), ("content lists, compiled", 30.0), (best, 50.0),
        )
    ]  # fmt: skip
    large = ratio(observed["large"]["rates"][GERMANE], found[GERMANE])
    bars.append(Bar("a million users / 100,000 users", large, 0.5))
    bars.append(Bar("5 s / closure of 600,000 topics", 5.0 / observed["closure"]["seconds"], 1.0))
    bars.append(Bar("150 MB / the closure", 150.0 / observed["closure"]["closure_mb"], 1.0))
    for told in observed["plans"]:
        fixed = [told["rates"][name] for name in list(PLANS)[1:]]
        better = max(fixed, key=lambda values: float(np.median(values)))
        share = ratio(told["rates"]["adaptive"], better)
        bars.append(Bar(f"adaptive / better fixed plan, {told['work']}", share, 1 / 1.5))
    bars.append(Bar("moves a second / a million", observed["moves"]["rate"] / 1e6, 1.0))
    return bars


if __name__ == "__main__":
    raise SystemExit(main())
