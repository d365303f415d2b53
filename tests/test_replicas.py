"""Shards under Spark's state store, without Spark: micro-batches, lost workers, failed attempts.

The store is PySpark's own stand-in for tests. Around it, this file plays Spark: it packs events,
brings each shard its rows, forgets workers, repeats attempts, and reads what came out.
"""

import copy
import random
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_spark import SCHEMA, draw, embedded

pytest.importorskip("pyspark")
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from germane.spark import replicas
from germane.spark.gate import RECENT, Gate
from germane.spark.layout import Layout
from germane.spark.packing import decode, murmur3, packer, spread
from germane.spark.replicas import Replica

LAYOUT = Layout(SCHEMA, "string", "string", "string", "string")
ARROW = {
    "number": pa.float64(), "string": pa.string(), "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
}  # fmt: skip
EVENTS = pa.schema(
    [
        ("_shard", pa.int32()), ("_home", pa.int32()), ("seq", pa.int64()), ("kind", pa.string()),
        ("id", pa.string()), ("context", pa.string()), ("condition", pa.string()),
        ("removed", pa.list_(pa.string())),
        *[(name, ARROW[type_]) for name, type_ in SCHEMA.items()],
    ]
)  # fmt: skip
INPUTS = ["messages", "updates", "profiles"]


def place(event, n_shards):
    """As ``spark.events`` places: a message everywhere, an update with its context."""
    key = event["id"]
    if event["kind"] == "subscribe" and event.get("context") is not None:
        key = event["context"]
    return sum(map(ord, str(key))) % n_shards


def table_of(events, n_shards):
    rows = []
    for event in events:
        home = 0 if event["kind"] == "message" else place(event, n_shards)
        shard = home if event["kind"] in ("update", "values") else None
        rows.append({**event, "_home": home, "_shard": shard})
    return pa.Table.from_pylist(rows, schema=EVENTS)


class Cluster:
    """Some shards, their store, and workers that come and go."""

    def __init__(self, n_shards, together, n_workers=2, images=None):
        self.keys = spread(n_shards)
        self.n_shards = n_shards
        self.pack = packer(LAYOUT, self.keys)
        self.together = together
        self.workers = [replicas.OrderedDict() for _ in range(n_workers)]
        self.worker = self.workers[0]
        self.tester = TwsTester(
            Replica("here", LAYOUT, self.keys, INPUTS, together, images=images),
            timeMode="EventTime",
            eventTimeExtractor=lambda row: 1 << 60,
        )
        self.clock = 0
        self.found, self.letters, self.counts = [], [], []

    def start(self, events):
        for key, rows in self._rows(events).items():
            for row in rows:
                self.tester.handle.setGroupingKey(key)
                with self._at_work():
                    self.tester.processor.handleInitialState((key,), row, None)

    def batch(self, parts, pick, fails=0.0):
        """A micro-batch, in several partitions; an attempt may fail after all it did."""
        rows = {}
        for part in parts:
            for key, packed in self._rows(part).items():
                rows.setdefault(key, []).extend(packed)
        for key in rows:
            while True:
                self.worker = pick.choice(self.workers)
                if pick.random() < 0.1:
                    self.worker.clear()
                before = copy.deepcopy(self._state())
                with self._at_work():
                    out = self.tester.test(key, rows[key])
                if pick.random() >= fails:
                    break
                self._restore(before)
            self._read(out)

    def batch_without_events(self):
        self.clock += 1
        with self._at_work():
            out = self.tester.setWatermark(self.clock)
        self._read(out)

    def _at_work(self):
        """The last worker that was chosen is this process."""
        return mock.patch.object(replicas, "COPIES", self.worker)

    def _rows(self, events):
        rows = {}
        for packed in self.pack(iter(table_of(events, self.n_shards).to_batches())):
            for key, data in zip(packed["shard"].to_pylist(), packed["events"], strict=True):
                rows.setdefault(key, []).append(Row(events=data.as_py()))
        return rows

    def _state(self):
        handle = self.tester.handle
        stores = [*handle.value_states.values(), *handle.map_states.values()]
        return [store.state for store in stores], handle._timers._key_to_timers

    def _restore(self, before):
        handle = self.tester.handle
        stores = [*handle.value_states.values(), *handle.map_states.values()]
        for store, state in zip(stores, before[0], strict=True):
            store.state = state
        handle._timers._key_to_timers = before[1]

    def _read(self, rows):
        for row in rows:
            if row.found is not None:
                for found in decode(row.found).to_pylist():
                    names = found["profiles"]
                    pairs = zip(names, found["contexts"] or [None] * len(names), strict=True)
                    self.found += [(found["seq"], found["message"], p, c) for p, c in pairs]
            if row.letters is not None:
                self.letters += decode(row.letters).to_pylist()
            if row.events is not None:
                self.counts.append(row)


def cut(events, pick, n):
    places = sorted(pick.sample(range(1, len(events)), n))
    return [events[a:b] for a, b in zip([0, *places], [*places, len(events)], strict=True)]


@pytest.fixture
def often(monkeypatch):
    """Snapshots as often as can be, so that they are tried."""
    monkeypatch.setattr(replicas, "MOST_DELTAS", 3)
    monkeypatch.setattr(replicas, "SPARE_DELTAS", 2)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6), n_shards=st.integers(1, 5), together=st.booleans(),
    n_batches=st.integers(1, 12), snapshots=st.booleans(), fails=st.sampled_from([0.0, 0.3]),
    images=st.booleans(),
)  # fmt: skip
@example(seed=1, n_shards=1, together=False, n_batches=11, snapshots=False, fails=0.3, images=False)
@example(seed=0, n_shards=1, together=True, n_batches=11, snapshots=False, fails=0.3, images=False)
def test_micro_batches(seed, n_shards, together, n_batches, snapshots, fails, images):
    """However the sequence is cut, whoever plays it: the embedded filter's deliveries."""
    pick = random.Random(seed)
    before, events = draw(seed, 120)
    expected, refused = embedded(before, events)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        cluster = Cluster(n_shards, together, images=folder if images else None)
        if snapshots:
            patch.setattr(replicas, "MOST_DELTAS", 3)
            patch.setattr(replicas, "SPARE_DELTAS", 2)
        subscribed = [
            {"seq": i - 100, "kind": "subscribe", "id": p, "condition": condition, "context": c}
            for i, (p, condition, c) in enumerate(before["profiles"])
        ]
        cluster.start(
            [{"seq": None, "kind": "values", "id": c, **v} for c, v in before["contexts"]]
        )
        for part in cut([*subscribed, *events], pick, n_batches):
            pick.shuffle(part)
            half = len(part) // 2
            cluster.batch([part[:half], part[half:]], pick, fails)
            for image in Path(folder).rglob("*-*"):
                if pick.random() < 0.1:  # a damaged one is no image
                    image.write_bytes(image.read_bytes()[: -pick.randrange(1, 2000)])
        cluster.batch_without_events()
    assert sorted(cluster.found, key=str) == expected
    names = sorted(((r["seq"], r["event"]) for r in cluster.letters), key=str)
    assert len(names) == len(refused)
    assert sorted(str(s if s is None or s > 0 else None) for s, _ in names) == sorted(
        str(s) for s, _ in refused
    )


def test_inputs_that_come_apart():
    """Updates a micro-batch behind their messages: nothing is matched too early."""
    before, events = draw(7, 200)
    expected, _ = embedded({"contexts": before["contexts"], "profiles": []}, events)
    cluster = Cluster(3, together=False)
    pick = random.Random(7)
    cluster.start([{"seq": None, "kind": "values", "id": c, **v} for c, v in before["contexts"]])
    parts = cut(events, pick, 9)
    late = []
    for part in parts:
        now = [e for e in part if e["kind"] != "update"]
        cluster.batch([late + now], pick)
        late = [e for e in part if e["kind"] == "update"]
    cluster.batch([late], pick)
    cluster.batch_without_events()
    assert sorted(cluster.found, key=str) == expected
    assert not [r for r in cluster.letters if "late" in r["reason"]]


def test_too_late_is_a_dead_letter():
    cluster = Cluster(2, together=True)
    pick = random.Random(1)
    message = {"kind": "message", "x": 5.0}
    start = {"seq": 1, "kind": "subscribe", "id": "p", "condition": "x > context.x", "context": "c"}
    cluster.batch([[start, {"seq": 5, "id": "m5", **message}]], pick)
    update = {"seq": 3, "kind": "update", "id": "c", "x": 1.0}
    cluster.batch([[update, {"seq": 6, "id": "m6", **message}]], pick)
    assert cluster.found == []
    (letter,) = cluster.letters
    assert (letter["seq"], letter["kind"]) == (3, "update")
    assert "late: seq 3 came when events up to 5" in letter["reason"]


def test_the_same_event_twice_is_once():
    cluster = Cluster(3, together=True)
    pick = random.Random(1)
    start = {"seq": 1, "kind": "subscribe", "id": "p", "condition": "x > 1", "context": "c"}
    message = {"seq": 2, "kind": "message", "id": "m", "x": 5.0}
    cluster.batch([[start, message], [message]], pick)
    cluster.batch([[start, message, {**message, "seq": 3}]], pick)
    assert [row[0] for row in cluster.found] == [2, 3]
    assert cluster.letters == []


def test_without_seq_is_a_dead_letter():
    cluster = Cluster(3, together=False)
    pick = random.Random(1)
    start = {"seq": None, "kind": "subscribe", "id": "p", "condition": "x > 1", "context": "c"}
    cluster.batch([[start, {"seq": 2, "kind": "message", "id": "m", "x": 5.0}]], pick)
    cluster.batch_without_events()
    assert cluster.found == []
    assert [r["reason"] for r in cluster.letters] == ["the subscribe event has no seq, an integer"]


def test_steady_state_builds_nothing_again(often):
    """Workers that take turns catch up; only the first time of each does one build."""
    cluster = Cluster(2, together=True)
    workers = cluster.workers = [replicas.OrderedDict() for _ in range(2)]
    pick = random.Random(3)
    start = [
        {"seq": i, "kind": "subscribe", "id": f"p{i}", "condition": "x > context.x",
         "context": f"c{i % 7}"} for i in range(50)
    ]  # fmt: skip
    cluster.batch([start], random.Random(0))
    for turn in range(40):
        seq = 100 + 2 * turn
        update = {"seq": seq, "kind": "update", "id": f"c{turn % 7}", "x": float(turn % 9)}
        message = {"seq": seq + 1, "kind": "message", "id": f"m{turn}", "x": 5.0}
        cluster.workers = [workers[turn % 2]]
        pick.random = lambda: 1.0  # no worker is lost
        cluster.batch([[update, message]], pick)
    assert sum(row.rebuilt for row in cluster.counts) <= 2
    assert sum(row.caught_up for row in cluster.counts) > 10
    assert sum(row.snapshots for row in cluster.counts) > 5
    assert max(row.state_bytes for row in cluster.counts) < 60_000


@pytest.mark.parametrize("state", ["whole", "damaged", "lost"])
def test_an_image_spares_registering(often, tmp_path, monkeypatch, state):
    """A worker that knows nothing loads the snapshot's filter, or does without."""
    cluster = Cluster(2, together=True, images=str(tmp_path))
    pick = random.Random(0)
    pick.random = lambda: 1.0
    cluster.workers = [replicas.OrderedDict()]
    start = [
        {"seq": i, "kind": "subscribe", "id": f"p{i}", "condition": "x > context.x",
         "context": f"c{i % 7}"} for i in range(20)
    ]  # fmt: skip
    cluster.batch([start], pick)
    for turn in range(8):
        seq = 100 + 20 * turn
        updates = [
            {"seq": seq + i, "kind": "update", "id": f"c{i}", "x": float((turn * i) % 9)}
            for i in range(7)
        ]
        again = [
            {"seq": seq + 8, "kind": "unsubscribe", "id": f"p{turn}"},
            {"seq": seq + 9, "kind": "subscribe", "id": f"p{turn}", "condition": "x < context.x",
             "context": f"c{turn % 5}"},
        ]  # fmt: skip
        cluster.batch([updates + again], pick)
    images = [path for path in tmp_path.rglob("*-*") if path.is_file()]
    assert 2 <= len(images) <= 4
    for image in images:
        if state == "damaged":
            image.write_bytes(image.read_bytes()[:-100])
        elif state == "lost":
            image.unlink()
    cluster.workers = [replicas.OrderedDict()]
    found, find = [], replicas.Images.find
    monkeypatch.setattr(replicas.Images, "find", lambda *a: found.append(find(*a)) or found[-1])
    cluster.batch([[{"seq": 999, "kind": "message", "id": "m", "x": 4.0}]], pick)
    assert [image is not None for image in found] == [state == "whole"] * 2
    centres = {f"c{i}": float((7 * i) % 9) for i in range(7)}
    homes = {f"p{i}": (f"c{i % 5}", False) if i < 8 else (f"c{i % 7}", True) for i in range(20)}
    expected = [
        (999, "m", p, c)
        for p, (c, above) in homes.items()
        if (centres[c] < 4.0 if above else centres[c] > 4.0)
    ]
    assert sorted(cluster.found) == sorted(expected)
    assert 0 < len(expected) < 20


def test_keys_spread_over_partitions():
    """Spark's hash of ints, from its documentation of ``hash``, and one partition each."""
    assert murmur3(0) == 933211791
    assert murmur3(1) == -559580957
    for n in (1, 2, 3, 7, 64):
        assert sorted(murmur3(key) % n for key in spread(n)) == list(range(n))


def test_a_gate_with_one_input_never_holds():
    gate = Gate(["messages"], together=False)
    due = gate.admit(table_of([{"seq": 4, "kind": "message", "id": "m"}], 1), [{"messages": 4}])
    assert due.events.num_rows == 1
    assert gate.held is None


def messages(*seqs):
    return table_of([{"seq": seq, "kind": "message", "id": f"m{seq}"} for seq in seqs], 1)


def restored(gate):
    """What another worker has of it."""
    other = Gate(gate.inputs, gate.together, gate.resumed_at)
    about, held = gate.state()
    other.restore(about, held)
    return other


@settings(max_examples=100, deadline=None)
@given(seqs=st.lists(st.integers(0, 2**62), max_size=300), step=st.sampled_from([1, 300, 2**31]))
@example(seqs=[], step=1)
@example(seqs=[2**62, 0], step=1)
def test_what_a_gate_remembers_comes_back(seqs, step):
    gate = Gate(["messages"], together=True)
    gate.recent = np.array([seq - seq % step for seq in seqs], np.int64)
    assert np.array_equal(restored(gate).recent, gate.recent)


def test_a_gate_remembers_all_of_the_last_two_micro_batches():
    """One that is read again is known, however large it is, also after one without events."""
    gate = Gate(["messages"], together=True)
    many = range(3 * RECENT)
    gate.admit(messages(*many), [{"messages": many[-1]}])
    gate = restored(gate)
    gate.admit(messages(), [])
    gate.admit(messages(many[-1] + 1), [{"messages": many[-1] + 1}])
    gate = restored(gate)
    again = gate.admit(messages(*many), [{"messages": many[-1]}])
    assert again.events.num_rows == 0
    assert again.refused == []
    for i in range(2):
        gate.admit(messages(many[-1] + 2 + i), [{"messages": many[-1] + 2 + i}])
    assert len(gate.recent) == RECENT


@settings(max_examples=100, deadline=None)
@given(
    owners=st.lists(st.sampled_from(INPUTS), min_size=1, max_size=40),
    limits=st.lists(st.tuples(*[st.integers(1, 9)] * 3), min_size=1, max_size=5),
)
@example(owners=["updates", "messages", "messages", "updates"], limits=[(1, 9, 9)])
def test_inputs_with_limits_lose_nothing(owners, limits):
    """However unevenly inputs catch up: a micro-batch brings a part of what each has."""
    left = {name: [seq for seq, of in enumerate(owners) if of == name] for name in INPUTS}
    gate, due, number = Gate(INPUTS, together=False), [], 0
    while any(left.values()) or gate.waits:
        came = {name: left[name][:n] for name, n in zip(INPUTS, limits[number], strict=True)}
        left = {name: left[name][len(came[name]) :] for name in INPUTS}
        marks = [{name: seqs[-1]} for name, seqs in came.items() if seqs]
        taken = gate.admit(messages(*(seq for seqs in came.values() for seq in seqs)), marks)
        assert taken.refused == []
        due += taken.events.column("seq").to_pylist()
        gate, number = restored(gate), (number + 1) % len(limits)
    assert due == list(range(len(owners)))


def test_all_shards_choose_the_same_of_two_events_with_one_seq():
    """In whatever order they come: else one has a message that another has not."""
    message = {"seq": 3, "kind": "message", "id": "m"}
    others = [{"seq": 3, "kind": "update", "id": "c"}, {"seq": 3, "kind": "unsubscribe", "id": "p"}]
    later = {"seq": 4, "kind": "update", "id": "c"}
    for events in ([message, *others, later], [later, *reversed(others), message]):
        due = Gate(INPUTS, together=True).admit(table_of(events, 1), [{"messages": 4}])
        assert due.events.column("kind").to_pylist() == ["message", "update"]
        assert due.events.column("seq").to_pylist() == [3, 4]


def test_what_was_held_fits_columns_in_another_order():
    """An input with its columns in another order after a restart."""
    gate = Gate(INPUTS, together=False)
    assert gate.admit(messages(1, 2), [{"messages": 2}]).events.num_rows == 0
    gate = restored(gate)
    other = messages(3).select(list(reversed(EVENTS.names)))
    due = gate.admit(other, [dict.fromkeys(INPUTS, 3)])
    assert due.events.column("id").to_pylist() == ["m1", "m2", "m3"]


def test_shards_that_hold_nothing_draw_the_same_line():
    """What is late for one shard is late for the others, which saw no event."""
    cluster = Cluster(2, together=False)
    pick = random.Random(1)
    homes = {place({"id": f"c{i}", "kind": "update"}, 2): f"c{i}" for i in range(4)}
    message = {"seq": 1, "kind": "message", "id": "m", "x": 1.0}
    cluster.batch([[message]], pick)
    cluster.batch([[{"seq": 9, "kind": "update", "id": homes[0], "x": 1.0}]], pick)
    cluster.batch_without_events()
    late = [{"seq": 5 + i, "kind": "update", "id": homes[i], "x": 2.0} for i in homes]
    cluster.batch([late], pick)
    assert sorted(letter["seq"] for letter in cluster.letters) == [5, 6]


def test_a_worker_collects_everything_now_and_then(monkeypatch):
    from germane.spark import daemon

    asked = []
    monkeypatch.setattr(daemon.gc, "collect", lambda generation: asked.append(generation) or 0)
    tidy = daemon.Tidy()
    for _ in range(2 * daemon.WHOLE):
        tidy.collect()
    assert asked == 2 * [*[1] * (daemon.WHOLE - 1), 2]
