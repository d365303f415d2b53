"""Pruned shards deliver what one filter delivers: under updates, restarts and re-homing."""

import numpy as np
import pytest

pytest.importorskip("pyspark")

from germane import Filter
from germane.spark.pruning import Placement, Sieve, strays, z_order

TYPES = {"x": "number", "y": "number", "limit": "number", "name": "string", "flag": "boolean"}
FOLLOWED, ASKED = ["x", "y", "limit"], ["x", "y", "price", "flag"]
CONDITIONS = [
    "x BETWEEN context.x - 3 AND context.x + 3",
    "x > context.x AND y < 2 * context.y + 1 AND price < 40",
    "price < context.limit AND context.limit > 10",
    "price >= 10 AND price <= 60 - context.limit",
    "price IS NULL AND x < 5",
    "flag = TRUE OR y > 15",
    "name = 'a' AND x > 3",
    "price + x > context.y * 2",
    "NOT (x < context.x) AND y IS NOT NULL",
    "x > -0.5 * context.limit AND x < 12",
]
ADDRESSES = [
    None, None, "x > 8", "x BETWEEN 2 AND 4 AND limit > 20", "limit <> 7 OR y < 3", "name = 'b'",
    "name LIKE 'a%' AND x < 9", "x IS NULL", "NOT (y > 5)", "x + y > 20", "price = 3",
]  # fmt: skip


class Cluster:
    """Shards, their sieve, and whoever routes between them."""

    def __init__(self, contexts, profiles, n_shards, n_groups):
        self.contexts, self.profiles = contexts, profiles
        names = sorted(contexts)
        self.placement = Placement.of(self.columns(names), ["x", "y"], n_shards, n_groups)
        self.group = dict(zip(names, self.placement.groups(self.columns(names)), strict=True))
        self.filters = [Filter(schema=TYPES | {"price": "number"}) for _ in range(n_shards)]
        for name in names:
            self.home(name).update(name, contexts[name])
        for profile, (condition, context) in profiles.items():
            self.home(context).subscribe(profile, condition, context)
        self.sieve = Sieve(self.placement, FOLLOWED, ASKED)
        self.tighten()
        self.sent = self.messages = 0

    def columns(self, names):
        return {
            a: np.array([_number(self.contexts[n].get(a)) for n in names], float) for a in FOLLOWED
        }

    def shard(self, context):
        return 0 if context is None else int(self.placement.shards[self.group[context]])

    def home(self, context):
        return self.filters[self.shard(context)]

    def groups(self, f):
        ids = f._contexts.ids
        live = {ids.row(name): group for name, group in self.group.items() if ids.row(name) >= 0}
        return np.array([live.get(row, 0) for row in range(ids.n_rows)], np.int64)

    def tighten(self):
        for shard, f in enumerate(self.filters):
            self.sieve.summarise(shard, f, self.groups(f))

    def take(self, events):
        """A micro-batch: the sieve hears of all its updates before a message is sent."""
        opened = set()
        for event in events:
            if event["kind"] == "update":
                name = event["id"]
                held = self.contexts.setdefault(name, {})
                held.update({k: v for k, v in event.items() if k in TYPES})
                held.update(dict.fromkeys(event["removed"]))
                if name not in self.group:
                    self.group[name] = int(self.placement.groups(self.columns([name]))[0])
                for a in FOLLOWED:
                    if event.get(a) is not None:
                        group = np.array([self.group[name]])
                        self.sieve.follow(group, a, np.array([float(event[a])]))
            elif event["kind"] == "subscribe":
                opened.add(self.shard(event["context"]))
                self.profiles[event["id"]] = (event["condition"], event["context"])
        told = [[] for _ in self.filters]
        for event in events:
            if event["kind"] == "message":
                row = np.array([[_number(event.get(a)) for a in ASKED]], float)
                address = event.get("address")
                may = None if address is None else self.sieve.addressed(self.filters[0], address)
                wanted = self.sieve.shards_of(row, [may])[0]
                wanted[list(opened)] = True
                self.sent += int(wanted.sum())
                self.messages += 1
                for shard in np.flatnonzero(wanted).tolist():
                    told[shard].append(event)
            else:
                told[self.shard(event["id" if event["kind"] == "update" else "context"])].append(
                    event
                )
        found = set()
        for f, mine in zip(self.filters, told, strict=True):
            done = f.process(mine).to_arrow() if mine else None
            if done is not None:
                found |= set(zip(done["message"].to_pylist(), done["profile"].to_pylist()))  # noqa: B905
        for shard in opened:
            f = self.filters[shard]
            self.sieve.summarise(shard, f, self.groups(f))
        return found

    def restart(self, folder):
        """Filters are saved and loaded, the sieve is made anew."""
        for i, f in enumerate(self.filters):
            f.save(folder / f"{i}.germane")
            self.filters[i] = Filter.load(folder / f"{i}.germane")
        self.sieve = Sieve(self.placement, FOLLOWED, ASKED)
        self.tighten()

    def rehome(self):
        """Strays move; how many."""
        moved = 0
        for f in list(self.filters):
            groups = self.groups(f)
            rows = strays(self.placement, f, groups)[0].tolist()
            names = [f._contexts.ids.id_of(row) for row in rows]
            for name in names:
                if self.home(name) is not f:
                    continue  # it has left this one before
                mine = [p for p, (_, context) in self.profiles.items() if context == name]
                for profile in mine:
                    f.unsubscribe(profile)
                held = self.contexts[name]
                f.update(name, dict.fromkeys(held))
                self.group[name] = int(self.placement.groups(self.columns([name]))[0])
                self.home(name).update(name, held)
                for profile in mine:
                    self.home(name).subscribe(profile, self.profiles[profile][0], name)
                moved += 1
        self.tighten()
        return moved


def _number(value):
    return np.nan if value is None else float(value)


def draw_values(rng, every):
    values = {
        "x": float(rng.normal(8, 4)), "y": float(rng.integers(0, 20)),
        "limit": float(rng.integers(0, 50)), "name": str(rng.choice(["a", "ab", "b"])),
    }  # fmt: skip
    if every:
        return values
    chosen = [name for name in values if rng.random() < 0.4]
    return {name: None if rng.random() < 0.15 else values[name] for name in chosen}


def draw_event(rng, seq, conditions):
    what = rng.random()
    if what < 0.45:
        values = draw_values(rng, False)
        removed = [name for name, value in values.items() if value is None]
        there = {name: value for name, value in values.items() if value is not None}
        name = f"c{rng.integers(0, 34)}"
        return {"seq": seq, "kind": "update", "id": name, "removed": removed, **there}
    if what < 0.5:
        condition = str(rng.choice(conditions))
        return {"seq": seq, "kind": "subscribe", "id": f"new{seq}", "condition": condition,
                "context": f"c{rng.integers(0, 30)}"}  # fmt: skip
    message = {"seq": seq, "kind": "message", "id": seq}
    drawn = {"x": rng.normal(8, 5), "y": rng.integers(0, 20), "price": rng.integers(0, 70)}
    for name, value in (drawn | {"flag": bool(rng.random() < 0.5)}).items():
        if rng.random() < 0.85:
            message[name] = value if name == "flag" else float(value)
    address = ADDRESSES[rng.integers(0, len(ADDRESSES))]
    return (
        message | ({"address": address} if address else {}) | {"name": str(rng.choice(["a", "b"]))}
    )


@pytest.mark.parametrize("seed", range(16))
def test_pruned_shards_deliver_what_one_filter_delivers(seed, tmp_path):
    rng = np.random.default_rng(seed)
    # Few kinds of conditions: a summary of all kinds asks for nothing in particular.
    conditions = rng.choice(CONDITIONS, int(rng.integers(1, 4)), replace=False)
    contexts = {f"c{i}": draw_values(rng, rng.random() < 0.8) for i in range(30)}
    profiles = {
        f"p{i}": (str(rng.choice(conditions)), f"c{rng.integers(0, 30)}") for i in range(60)
    } | {"nobody's": ("price > 30 AND x < 9", None)}
    one = Filter(schema=TYPES | {"price": "number"})
    for name, held in contexts.items():
        one.update(name, held)
    for profile, (condition, context) in profiles.items():
        one.subscribe(profile, condition, context)
    held = {name: dict(values) for name, values in contexts.items()}
    cluster = Cluster(held, dict(profiles), int(rng.integers(1, 6)), int(rng.integers(1, 5)))
    seq = 0
    for _ in range(8):
        events = []
        for _ in range(int(rng.integers(1, 40))):
            seq += 1
            events.append(draw_event(rng, seq, conditions))
        done = one.process(events).to_arrow()
        wanted = set(zip(done["message"].to_pylist(), done["profile"].to_pylist(), strict=True))
        assert cluster.take(events) == wanted
        what = rng.random()
        if what < 0.2:
            cluster.tighten()
        elif what < 0.4:
            cluster.restart(tmp_path)
        elif what < 0.8:
            cluster.rehome()


def test_far_away_shards_are_left_alone():
    """Contexts in four corners, each on its shard: a message in one concerns that one."""
    contexts = {
        f"c{i}": {"x": 100.0 * (i % 2) + i / 100, "y": 100.0 * (i // 2 % 2), "limit": 5.0}
        for i in range(40)
    }
    near = "x BETWEEN context.x - 3 AND context.x + 3 AND y > context.y - 3 AND y < context.y + 3"
    profiles = {f"p{i}": (near, f"c{i}") for i in range(40)}
    cluster = Cluster(contexts, profiles, 4, 2)
    found = cluster.take([{"seq": 1, "kind": "message", "id": 1, "x": 100.2, "y": 0.0}])
    assert {profile for _, profile in found} == {f"p{i}" for i in range(40) if i % 4 == 1}
    assert cluster.sent == 1
    cluster.take([{"seq": 2, "kind": "message", "id": 2, "x": 50.0, "y": 0.0}])
    assert cluster.sent == 1  # nobody is near
    cluster.take(
        [{"seq": 3, "kind": "message", "id": 3, "x": 100.2, "y": 0.0, "address": "y > 50"}]
    )
    assert cluster.sent == 1  # those who are near are not meant
    # One wanders across: within its own corner nobody hears of it, then its group grows.
    widened = cluster.sieve.widened
    cluster.take([{"seq": 4, "kind": "update", "id": "c0", "y": 0.0, "removed": []}])
    assert cluster.sieve.widened == widened
    found = cluster.take(
        [
            {"seq": 5, "kind": "update", "id": "c0", "x": 100.2, "removed": []},
            {"seq": 6, "kind": "message", "id": 6, "x": 100.2, "y": 0.0},
        ]
    )
    assert "p0" in {profile for _, profile in found}
    assert cluster.sieve.widened == widened + 1
    before = cluster.sent
    assert cluster.rehome() == 1
    found = cluster.take([{"seq": 7, "kind": "message", "id": 7, "x": 100.2, "y": 0.0}])
    assert "p0" in {profile for _, profile in found}
    assert cluster.sent == before + 1  # one shard is enough again


def test_z_order_keeps_neighbours_together():
    cuts = [np.arange(1.0, 8.0)] * 2
    x, y = (side.ravel().astype(float) for side in np.meshgrid(np.arange(8), np.arange(8)))
    code = z_order([x, y], cuts)
    assert sorted(code.tolist()) == list(range(64))
    quarter = code // 16
    for q in range(4):
        assert np.ptp(x[quarter == q]) == np.ptp(y[quarter == q]) == 3
    assert z_order([np.array([np.nan])], [cuts[0]]).tolist() == [0]
