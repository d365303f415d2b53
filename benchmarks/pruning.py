"""Shards that need not see a message: pruning by summaries against sending everything everywhere.

    python -m benchmarks.pruning

100,000 contexts around towns, each with a profile that asks for what is near it, on eight shards in
this process. A stream of micro-batches: contexts walk a little, messages are for somewhere, a part
of them addressed. Pruned, contexts are placed in Z-order, and a message goes to the shards whose
summaries may match (``germane.spark.pruning``), routing included in the time; otherwise contexts
are placed by hash and every shard sees every message. Deliveries are compared. One core does the
work of all shards in turn, so what is measured is the work, without Spark's own share of it.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pyarrow as pa
from rich.table import Table

import germane
from germane.spark.pruning import Placement, Sieve

from . import record
from .rounds import Bar, console, ratio, show_bars

CONDITION = (
    "x BETWEEN context.x - 0.5 AND context.x + 0.5 AND y BETWEEN context.y - 0.5 AND "
    "context.y + 0.5 AND price < context.limit"
)
ASKED = ["x", "y", "price"]
FOLLOWED = ["x", "y", "limit"]
CHECKED = 4  # micro-batches whose deliveries are compared


class World:
    """Contexts around towns, walks, and messages near somebody."""

    def __init__(self, n: int, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        towns = rng.uniform(0, 100, (60, 2))
        town = towns[rng.integers(0, 60, n)]
        self.values = {
            "x": town[:, 0] + rng.normal(0, 1, n),
            "y": town[:, 1] + rng.normal(0, 1, n),
            "limit": rng.uniform(0, 100, n),
        }
        self.n = n

    def batch(self, n_updates: int, n_messages: int, first: int) -> dict[str, Any]:
        rng = self.rng
        who = rng.integers(0, self.n, n_updates)
        step = rng.normal(0, 0.05, (n_updates, 2))
        at = rng.integers(0, self.n, n_messages)
        order = rng.permutation(n_updates + n_messages)
        nobody, nothing = np.zeros(n_updates, np.bool_), np.full(n_updates, np.nan)
        ids = np.arange(first, first + n_messages)
        parts = {
            "id": (who, ids),
            "is_message": (nobody, np.ones(n_messages, np.bool_)),
            "price": (nothing, rng.uniform(0, 100, n_messages)),
        }
        for i, name in enumerate(("x", "y")):
            held, near = self.values[name], rng.normal(0, 0.2, n_messages)
            parts[name] = (held[who] + step[:, i], held[at] + near)
        columns = {name: np.concatenate(both)[order] for name, both in parts.items()}
        for i in np.flatnonzero(~columns["is_message"]):  # the next walk begins where this one ends
            self.values["x"][columns["id"][i]] = columns["x"][i]
            self.values["y"][columns["id"][i]] = columns["y"][i]
        return columns


def as_events(batch: dict[str, Any], first: int) -> pa.Table:
    n = len(batch["id"])
    price = pa.array(batch["price"], mask=np.isnan(batch["price"]))
    kinds = np.where(batch["is_message"], "message", "update")
    x, y = batch["x"], batch["y"]
    some = batch["is_message"] & (batch["id"] % 5 == 0)
    addresses = [
        f"x BETWEEN {x[i] - 1:.3f} AND {x[i] + 1:.3f} AND limit > 50" if some[i] else None
        for i in range(n)
    ]
    return pa.table(
        {
            "seq": np.arange(first, first + n), "kind": kinds, "id": batch["id"], "x": x, "y": y,
            "price": price, "address": pa.array(addresses, pa.string()),
        }
    )  # fmt: skip


class Cluster:
    """Filters that share the contexts, by their places or by hash."""

    def __init__(self, world: World, n_shards: int, n_groups: int, pruned: bool) -> None:
        self.pruned, self.n_shards = pruned, n_shards
        self.placement = Placement.of(world.values, ["x", "y"], n_shards, n_groups)
        self.group = self.placement.groups(world.values)
        if not pruned:
            self.group = np.random.default_rng(0).integers(0, len(self.placement.shards), world.n)
        self.home = self.placement.shards[self.group]
        self.sieve = Sieve(self.placement, FOLLOWED, ASKED)
        self.filters, self.groups = [], []
        types = dict.fromkeys(["x", "y", "price", "limit"], "number")
        for shard in range(n_shards):
            f = germane.Filter(schema=types)
            mine = np.flatnonzero(self.home == shard)
            for name, values in world.values.items():
                f.update_many(mine, name, values[mine])
            f.subscribe_many(mine.tolist(), [CONDITION] * len(mine), mine.tolist())
            self.filters.append(f)
            self.groups.append(self.group[mine])
        self.tighten()
        self.contacted = self.needed = self.messages = 0

    def tighten(self) -> None:
        """Summaries as narrow as what shards hold now; between micro-batches, now and then."""
        for shard, f in enumerate(self.filters):
            self.sieve.summarise(shard, f, self.groups[shard])

    def take(self, table: pa.Table, batch: dict[str, Any]) -> list[Any]:
        """A micro-batch; what every shard delivers."""
        sent = np.zeros((len(batch["id"]), self.n_shards), np.bool_)
        updates, messages = ~batch["is_message"], batch["is_message"]
        who = batch["id"][updates]
        sent[np.flatnonzero(updates), self.home[who]] = True
        if self.pruned:
            for name in ("x", "y"):
                self.sieve.follow(self.group[who], name, batch[name][updates])
            values = np.stack([batch[name][messages] for name in ASKED], 1)
            known = table.column("address").to_pylist()
            f = self.filters[0]
            addresses = [
                None if known[i] is None else self.sieve.addressed(f, known[i])
                for i in np.flatnonzero(messages)
            ]
            sent[messages] = self.sieve.shards_of(values, addresses)
        else:
            sent[messages] = True
        told = [
            f.process(table.take(np.flatnonzero(sent[:, shard])))
            for shard, f in enumerate(self.filters)
        ]
        self.messages += int(messages.sum())
        self.contacted += int(sent[messages].sum())
        return told


def pairs(told: list[Any]) -> list[tuple[int, int]]:
    found = []
    for deliveries in told:
        arrow = deliveries.to_arrow()
        found += zip(arrow["message"].to_pylist(), arrow["profile"].to_pylist(), strict=True)
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, default=100_000)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--groups", type=int, default=16, help="of a shard")
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--messages", type=int, default=2_000, help="of a micro-batch")
    parser.add_argument("--updates", type=int, default=2_000)
    chosen = parser.parse_args()
    world = World(chosen.contexts, 1)
    clusters = [
        Cluster(world, chosen.shards, chosen.groups, pruned=pruned) for pruned in (True, False)
    ]
    needed, alike, first = 0, True, 0
    seconds: list[list[float]] = [[], []]
    for number in range(-2, chosen.batches):
        batch = world.batch(chosen.updates, chosen.messages, first)
        table = as_events(batch, first)
        first += table.num_rows
        told = []
        for i in (0, 1) if number % 2 else (1, 0):
            begin = time.perf_counter()
            told.append((i, clusters[i].take(table, batch)))
            if i == 0 and number % 8 == 7:
                clusters[0].tighten()
            if number >= 0:
                seconds[i].append(time.perf_counter() - begin)
        answers = dict(told)
        if number < CHECKED:
            alike &= pairs(answers[0]) == pairs(answers[1])
        needed += sum(len(set(t.to_arrow()["message"].to_pylist())) for t in answers[0])
        alike &= sum(map(len, answers[0])) == sum(map(len, answers[1]))
    pruned = clusters[0]
    gain = ratio([1 / s for s in seconds[0]], [1 / s for s in seconds[1]])
    table_out = Table("", "pruned", "everything everywhere")
    per = [cluster.contacted / cluster.messages for cluster in clusters]
    table_out.add_row("shards a message is sent to", *(f"{v:.2f}" for v in per))
    table_out.add_row("shards that deliver it", f"{needed / pruned.messages:.2f}", "")
    rates = [chosen.messages * len(s) / sum(s) for s in seconds]
    table_out.add_row("messages/s, all shards in turn", *(f"{v:,.0f}" for v in rates))
    table_out.add_row("updates that widened a summary", f"{pruned.sieve.widened:,}", "")
    console.print(table_out)
    console.print(f"deliveries agree: {alike}")
    bars = [
        Bar("shards contacted / needed", pruned.contacted / max(needed, 1), 2.0, at_least=False),
        Bar("throughput, pruned / everything everywhere", gain, 2.0),
    ]
    show_bars(bars)
    observed = {
        "seconds": seconds, "contacted": per, "needed": needed / pruned.messages,
        "answers_agree": alike, "widened": pruned.sieve.widened,
        "bars": [bar.as_dict() for bar in bars],
    }  # fmt: skip
    console.print(str(record.write("pruning", vars(chosen), observed)))


if __name__ == "__main__":
    main()
