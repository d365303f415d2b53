"""A stream whose messages go only where they may be needed: what it delivers without that.

Micro-batches are routed, played on shards over PySpark's stand-in for the state store, and told of;
workers are lost, attempts fail, notices are damaged. The same events go to shards that see all.
"""

import random
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_pruning import ADDRESSES, CONDITIONS, TYPES

pytest.importorskip("pyspark")
import test_replicas
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from germane import Filter, GermaneError
from germane.spark import places, replicas, routing
from germane.spark.layout import Layout
from germane.spark.packing import decode, packer
from germane.spark.places import GROUPS, Near, save_places
from germane.spark.pruning import Placement
from germane.spark.replicas import Replica
from germane.spark.routing import Router

SCHEMA = TYPES | {"price": "number"}
LAYOUT = Layout(SCHEMA, "string", "string", "string", "string", addressed=True)
ARROW = {"number": pa.float64(), "string": pa.string(), "boolean": pa.bool_()}
EVENTS = pa.schema(
    [
        ("_shard", pa.int32()), ("_home", pa.int32()), ("seq", pa.int64()), ("kind", pa.string()),
        ("id", pa.string()), ("context", pa.string()), ("condition", pa.string()),
        ("removed", pa.list_(pa.string())), ("address", pa.string()),
        *[(name, ARROW[type_]) for name, type_ in SCHEMA.items()],
    ]
)  # fmt: skip
BAD = ["x >", "x BETWEEN 'a' AND 3"]
NEAR = ["x", "y"]


def table_of(events, n_shards):
    rows = []
    for event in events:
        home = 0 if event["kind"] == "message" else test_replicas.place(event, n_shards)
        shard = home if event["kind"] in ("update", "values") else None
        rows.append({**event, "_home": home, "_shard": shard})
    return pa.Table.from_pylist(rows, schema=EVENTS)


class Cluster(test_replicas.Cluster):
    """Shards that see everything; with a folder, only what may concern them."""

    def __init__(self, n_shards, contexts=(), folder=None, images=None):
        super().__init__(n_shards, together=True)
        self.pack = packer(LAYOUT, self.keys)
        self.workers = [replicas.OrderedDict(), replicas.OrderedDict()]
        self.folder, self.number = folder, 0
        self.near = None
        if folder is not None:
            self.near = Near(
                str(folder), n_shards, ("x", "y", "limit"), ("x", "y", "price", "flag")
            )
            place(self.near, contexts)
        name = "everywhere" if folder is None else str(folder)
        self.tester = TwsTester(
            Replica(name, LAYOUT, self.keys, test_replicas.INPUTS, True, None, images, self.near),
            timeMode="None",
        )

    def start(self, events):
        """As Spark would: places are joined to what is there before everything."""
        table = table_of(events, self.n_shards)
        if self.near is not None:
            table = Router(LAYOUT, self.near, 0).rehomed(table)
        for packed in self.pack(iter(table.to_batches())):
            for key, data in zip(packed["shard"].to_pylist(), packed["events"], strict=True):
                self.tester.handle.setGroupingKey(key)
                row = Row(events=data.as_py())
                with self._at_work():
                    self.tester.processor.handleInitialState((key,), row, None)

    def batch(self, parts, pick, fails=0.0):
        super().batch(
            parts if self.near is None else [[e for part in parts for e in part]], pick, fails
        )
        self.number += 1

    def _rows(self, events):
        table = table_of(events, self.n_shards)
        if self.near is None:
            packings = self.pack(iter(table.to_batches()))
        else:
            packings = [Router(LAYOUT, self.near, self.number).packed(table, self.keys)]
        rows = {}
        for packed in packings:
            for key, data in zip(packed["shard"].to_pylist(), packed["events"], strict=True):
                rows.setdefault(key, []).append(Row(events=data.as_py()))
        return rows

    def sent(self):
        return sum(row.messages for row in self.counts)


def place(near, contexts):
    """The file of places, as ``write_places`` has it."""
    names = [name for name, _ in contexts]
    columns = {a: np.array([v.get(a, np.nan) for _, v in contexts], float) for a in NEAR}
    placement = Placement.of(columns, NEAR, near.n_shards, GROUPS)
    save_places(near, pa.array(names, pa.string()), placement, placement.groups(columns))
    places.READ.clear()


def draw_values(pick):
    values = {
        "x": pick.gauss(8, 4), "y": float(pick.randrange(20)), "limit": float(pick.randrange(50)),
        "name": pick.choice(["a", "ab", "b"]),
    }  # fmt: skip
    return {name: value for name, value in values.items() if pick.random() < 0.8}


def draw(pick, n, n_contexts=30):
    """Contexts, profiles and events; few kinds of conditions, or a summary asks for nothing."""
    conditions = pick.sample(CONDITIONS, pick.randrange(1, 4))
    contexts = [(f"c{i}", draw_values(pick)) for i in range(n_contexts)]
    known = [f"c{i}" for i in range(n_contexts + 4)]
    profiles = [(f"p{i}", pick.choice(conditions), pick.choice(known)) for i in range(40)]
    profiles.append(("nobody's", "price > 30 AND x < 9", None))
    events, seq = [], 0
    for _ in range(n):
        seq += pick.randrange(1, 4)
        kind = pick.choices(["message", "update", "subscribe", "unsubscribe"], [12, 8, 1, 1])[0]
        event = {"seq": seq, "kind": kind}
        if kind == "message":
            event["id"] = f"m{seq}"
            drawn = {"x": pick.gauss(8, 5), "y": float(pick.randrange(20)),
                     "price": float(pick.randrange(70)), "flag": pick.random() < 0.5}  # fmt: skip
            event |= {name: value for name, value in drawn.items() if pick.random() < 0.85}
            event["address"] = pick.choice([*ADDRESSES, *(BAD if pick.random() < 0.3 else [None])])
        elif kind == "update":
            event |= {"id": pick.choice(known), **draw_values(pick)}
            event["removed"] = [a for a in TYPES if a not in event and pick.random() < 0.2]
        else:
            event["id"] = f"p{pick.randrange(44)}"
            if kind == "subscribe":
                event |= {"condition": pick.choice([*conditions, "x >"]),
                          "context": pick.choice([*known, None])}  # fmt: skip
        events.append(event)
    return contexts, profiles, events


def embedded(contexts, profiles, events):
    f = Filter(schema=SCHEMA)
    for name, values in contexts:
        f.update(name, values)
    f.subscribe_many(*map(list, zip(*[(p, c, o) for p, c, o in profiles], strict=True)))
    done = f.process(events)
    rows = done.to_lists().to_pylist() if len(done) else []
    return sorted(
        (
            (row["seq"], row["message"], profile, context)
            for row in rows
            for profile, context in zip(
                row["profiles"], row["contexts"] or [None] * len(row["profiles"]), strict=True
            )
        ),
        key=str,
    ), sorted(rejected.seq for rejected in done.rejected)


def before(contexts, profiles):
    values = [{"seq": None, "kind": "values", "id": c, **v} for c, v in contexts]
    return values, [
        {"seq": i - 100, "kind": "subscribe", "id": p, "condition": condition, "context": c}
        for i, (p, condition, c) in enumerate(profiles)
    ]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6), n_shards=st.integers(1, 5), n_batches=st.integers(1, 12),
    fails=st.sampled_from([0.0, 0.3]), loses=st.booleans(), twice=st.booleans(),
)  # fmt: skip
def test_routed_streams_deliver_what_others_do(seed, n_shards, n_batches, fails, loses, twice):
    pick = random.Random(seed)
    contexts, profiles, events = draw(pick, 150)
    expected, refused = embedded(contexts, profiles, events)
    values, subscribed = before(contexts, profiles)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(replicas, "MOST_DELTAS", 3)
        patch.setattr(replicas, "SPARE_DELTAS", 2)
        clusters = [Cluster(n_shards), Cluster(n_shards, contexts, Path(folder) / "near")]
        for cluster in clusters:
            cluster.start(values)
        taken = []
        for part in test_replicas.cut([*subscribed, *events], pick, n_batches):
            if twice and taken:  # some come again, and some too late
                again = pick.choices(taken, k=3)
                part = [*part, *again, {**again[0], "seq": again[0]["seq"] * 10 - 5001}]
            taken += [e for e in part if e["kind"] == "message"]
            pick.shuffle(part)
            half = len(part) // 2
            for cluster in clusters:
                cluster.batch([part[:half], part[half:]], pick, fails)
            if loses and pick.random() < 0.3:
                lose(Path(folder) / "near" / "notices", pick)
    everywhere, near = clusters
    assert sorted(near.found, key=str) == sorted(everywhere.found, key=str) == expected
    letters = [
        sorted((str(r["seq"]), r["reason"], r["event"]) for r in cluster.letters)
        for cluster in clusters
    ]
    assert letters[0] == letters[1]
    assert len(refused) <= len(letters[0])
    assert near.sent() <= everywhere.sent()


def lose(folder, pick):
    """Damaged: as good as none. All lost: everybody gets everything again."""
    notices = sorted(folder.glob("shard*")) if folder.exists() else []
    if notices and pick.random() < 0.5:
        notice = pick.choice(notices)
        notice.write_bytes(notice.read_bytes()[: pick.randrange(200)])
    else:
        shutil.rmtree(folder, ignore_errors=True)


NEARBY = "x BETWEEN context.x - 3 AND context.x + 3 AND y > context.y - 3 AND y < context.y + 3"


def corners(folder, condition=NEARBY):
    """Four corners, each on its shard; everybody asks for what is near."""
    contexts = [
        (f"c{i}", {"x": 100.0 * (i % 2) + i / 100, "y": 100.0 * (i // 2 % 2), "limit": 5.0})
        for i in range(40)
    ]
    cluster = Cluster(4, contexts, folder)
    values, subscribed = before(contexts, [(f"p{i}", condition, f"c{i}") for i in range(40)])
    pick = random.Random(0)
    pick.random = lambda: 1.0  # no worker is lost
    cluster.start(values)
    cluster.batch([subscribed], pick)
    return cluster, pick


def test_far_away_shards_are_left_alone(tmp_path):
    cluster, pick = corners(tmp_path)
    message = {"kind": "message", "x": 100.2, "y": 0.0}
    cluster.batch([[{"seq": 1, "id": "m1", **message}]], pick)
    assert {row[2] for row in cluster.found} == {f"p{i}" for i in range(40) if i % 4 == 1}
    assert cluster.sent() == 1
    cluster.batch([[{"seq": 2, "id": "m2", **message, "x": 50.0}]], pick)
    assert cluster.sent() == 1  # nobody is near
    # Within its own corner nobody hears of a move; a shard tells of one who leaves.
    told = sum(row.notices for row in cluster.counts)
    cluster.batch([[{"seq": 4, "kind": "update", "id": "c0", "y": 0.0}]], pick)
    assert sum(row.notices for row in cluster.counts) == told
    away = {"seq": 5, "kind": "update", "id": "c0", "x": 100.2}
    cluster.batch([[away, {"seq": 6, "id": "m6", **message}]], pick)
    assert (6, "m6", "p0", "c0") in cluster.found
    assert sum(row.notices for row in cluster.counts) == told + 1
    assert cluster.sent() == 3
    # It was offered: in the next micro-batch it moves, and one shard is enough again.
    homes = [row.contexts for row in cluster.counts[-4:]]
    cluster.batch([[{"seq": 7, "id": "m7", **message}]], pick)
    assert (7, "m7", "p0", "c0") in cluster.found
    assert sum(row.profiles for row in cluster.counts[-4:]) == 40
    assert [row.profiles for row in cluster.counts[-4:]].count(11) == 1
    assert [row.contexts for row in cluster.counts[-4:]] != homes
    sent = cluster.sent()
    cluster.batch([[{"seq": 8, "id": "m8", **message}]], pick)
    assert (8, "m8", "p0", "c0") in cluster.found
    assert cluster.sent() == sent + 1
    # From now on its updates, and its profiles, are at home there.
    again = {"seq": 9, "kind": "unsubscribe", "id": "p0"}
    cluster.batch([[again, {"seq": 10, "id": "m10", **message}]], pick)
    assert (10, "m10", "p0", "c0") not in cluster.found
    assert sum(row.profiles for row in cluster.counts[-4:]) == 39
    assert cluster.letters == []
    # Two shards delivered m6, one each of the others.
    assert sum(row.reached for row in cluster.counts) == 6


def test_what_is_asked_moves_along(tmp_path):
    """In the micro-batch of a move, the new group may ask what only the old one did."""
    cluster, pick = corners(tmp_path)
    also = {"seq": 1, "kind": "subscribe", "id": "q", "condition": "price > 5", "context": "c0"}
    cluster.batch([[also, {"seq": 2, "kind": "update", "id": "c0", "x": 100.2}]], pick)
    message = {"kind": "message", "x": 50.0, "y": 50.0, "price": 9.0}
    cluster.batch([[{"seq": 3, "id": "m3", **message}]], pick)
    cluster.batch([[{"seq": 4, "id": "m4", **message}]], pick)
    assert cluster.found == [(3, "m3", "q", "c0"), (4, "m4", "q", "c0")]
    assert [row.profiles for row in cluster.counts[-4:]].count(12) == 1


def test_an_address_spares_shards(tmp_path):
    cluster, pick = corners(tmp_path, "price > 5")
    message = {"kind": "message", "price": 9.0}
    cluster.batch([[{"seq": 1, "id": "m1", **message}]], pick)
    assert cluster.sent() == 4
    cluster.batch([[{"seq": 2, "id": "m2", **message, "address": "x > 50 AND y > 50"}]], pick)
    assert cluster.sent() == 5
    assert {row[2] for row in cluster.found if row[0] == 2} == {f"p{i}" for i in range(3, 40, 4)}
    cluster.batch([[{"seq": 3, "id": "m3", **message, "address": "x >"}]], pick)
    assert [letter["seq"] for letter in cluster.letters] == [3]


def test_addresses_are_looked_at_while_it_pays(tmp_path, monkeypatch):
    """Those that spare nobody are left after a few; malformed ones are dead letters anyway."""
    monkeypatch.setattr(routing, "LOOKED_AT", 3)
    cluster, pick = corners(tmp_path, "price > 5")
    looked_at = []
    monkeypatch.setattr(Router, "_reach", counted(Router._reach, looked_at))
    narrow, wide = "x > 50 AND y > 50", "x >= 0"

    def send(first, addresses):
        looked_at.clear()
        sent = cluster.sent()
        message = {"kind": "message", "price": 9.0}
        numbered = enumerate(addresses, first)
        events = [{"seq": s, "id": f"m{s}", **message, "address": a} for s, a in numbered]
        cluster.batch([events], pick)
        return len(looked_at), cluster.sent() - sent

    assert send(10, [f"{narrow} AND limit > -{i}" for i in range(8)]) == (8, 8)
    assert send(20, [f"{wide} AND limit > -{i}" for i in range(8)]) == (3, 32)
    assert send(30, [*[f"{wide} AND limit > -{i}" for i in range(7)], "x >"])[0] == 3
    assert [letter["seq"] for letter in cluster.letters] == [37]
    assert {row[0] for row in cluster.found} == {*range(10, 18), *range(20, 28), *range(30, 37)}
    assert sum(row[0] < 20 for row in cluster.found) == 8 * 10
    assert sum(row[0] >= 20 for row in cluster.found) == 15 * 40


def counted(function, calls):
    def call(*args):
        calls.append(args)
        return function(*args)

    return call


def test_a_lost_notice_is_noticed(tmp_path):
    """An older one in its place would keep messages away; the shard knows what it told."""
    cluster, pick = corners(tmp_path)
    cluster.batch([[{"seq": 5, "kind": "update", "id": "c0", "x": 100.2}]], pick)
    told = max((tmp_path / "notices").glob("shard*"), key=lambda p: p.name.rpartition("-")[2])
    told.unlink()
    with pytest.raises(GermaneError, match="has lost a file"):
        cluster.batch([[{"seq": 6, "kind": "message", "id": "m", "x": 1.0}]], pick)


def test_what_a_row_says():
    """Rows for shards say which notice was used, and shard 0 hears of all that passes it by."""
    with tempfile.TemporaryDirectory() as folder:
        cluster, _ = corners(Path(folder))
        message = {"seq": 9, "kind": "message", "id": "m", "x": 100.2, "y": 100.0}
        rows = cluster._rows([message])
        tables = [decode(rows[key][0].events) for key in cluster.keys]
        assert [t.num_rows for t in tables].count(1) == 1
        from germane.spark.routing import route_of

        assert {route_of(t).heard for t in tables} == {0}
        assert [route_of(t).passed.tolist() for t in tables] == [[9], [], [], []]
