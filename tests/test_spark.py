"""The pipeline on Spark gives the answers of the embedded filter and of the oracle."""

import json
import random
import shutil
from datetime import UTC, datetime, timedelta

import pytest
from naive import NaiveFilter

import germane

spark = pytest.importorskip("germane.spark")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]  # one session, one process

SCHEMA = {"x": "number", "y": "number", "s": "string", "b": "boolean", "t": "timestamp"}
TYPES = "x double, y double, s string, b boolean, t timestamp"
CONDITIONS = [
    "x > 3",
    "x >= context.x AND y < 7",
    "x BETWEEN context.y - 2 AND context.y + 2 OR s = 'a'",
    "s = context.s",
    "s LIKE 'b%' AND NOT b",
    "context.b AND y > 1",
    "t > context.t",
    "y IS NULL OR x = y",
    "x > 'text'",
    "x >",
    "",
]
MORNING = datetime(2026, 11, 16, tzinfo=UTC)


def draw_values(pick):
    values = {
        "x": pick.randrange(10) / 2,
        "y": float(pick.randrange(10)),
        "s": pick.choice(["a", "b", "bc", ""]),
        "b": pick.random() < 0.5,
        "t": MORNING + timedelta(minutes=pick.randrange(60)),
    }
    return {name: value for name, value in values.items() if pick.random() < 0.7}


def draw(seed, n=250):
    """(what is there before, events): profiles come back with other contexts, among much else."""
    pick = random.Random(seed)
    contexts = [f"c{i}" for i in range(6)]
    profiles = [f"p{i}" for i in range(12)]
    before = {
        "contexts": [(c, draw_values(pick)) for c in contexts[:4]],
        "profiles": [
            (p, pick.choice(CONDITIONS), pick.choice([*contexts, None])) for p in profiles[:6]
        ],
    }
    events, seq = [], 0
    for _ in range(n):
        seq += pick.randrange(1, 4)
        kind = pick.choices(["message", "update", "subscribe", "unsubscribe"], [5, 5, 2, 2])[0]
        event = {"seq": seq, "kind": kind}
        if kind == "message":
            event |= {"id": f"m{seq}", **draw_values(pick)}
        elif kind == "update":
            event |= {"id": pick.choice(contexts), **draw_values(pick)}
            if pick.random() < 0.2:
                event["removed"] = [n for n in SCHEMA if n not in event][:2]
        else:
            event["id"] = pick.choice(profiles)
            if kind == "subscribe":
                event["condition"] = pick.choice(CONDITIONS)
                event["context"] = pick.choice([*contexts, None])
        events.append(event)
    return before, events


def embedded(before, events):
    """What one filter, fed the same, delivers and rejects."""
    f = germane.Filter(schema=SCHEMA)
    oracle = NaiveFilter(schema=SCHEMA)
    refused = []
    for context, values in before["contexts"]:
        f.update(context, values)
        oracle.update(context, values)
    for profile, condition, context in before["profiles"]:
        try:
            f.subscribe(profile, condition, context)
            oracle.subscribe(profile, condition, context)
        except germane.GermaneError:
            refused.append((None, profile))
    done = f.process(events)
    expected, malformed = oracle.process(events)
    found = [
        (row["seq"], row["message"], profile, context)
        for row in done.to_lists().to_pylist()
        for profile, context in zip(
            row["profiles"], row["contexts"] or [None] * len(row["profiles"]), strict=True
        )
    ]
    assert sorted(row[:3] for row in found) == sorted(expected)
    assert sorted(r.position for r in done.rejected) == sorted(p for p, _ in malformed)
    refused += [(r.seq, r.event["id"]) for r in done.rejected]
    return sorted(found, key=str), sorted(refused, key=str)


def frames(session, before, events, shuffled=None):
    """The same as DataFrames; rows in any order, since only ``seq`` counts."""
    names = list(SCHEMA)

    def rows(kind, *fields):
        chosen = [e for e in events if e["kind"] in kind]
        return [tuple(e.get(field) for field in fields) for e in chosen]

    messages = rows(["message"], "seq", "id", *names)
    updates = rows(["update"], "seq", "id", *names, "removed")
    profiles = rows(["subscribe", "unsubscribe"], "seq", "kind", "id", "condition", "context")
    profiles += [(None, None, p, condition, c) for p, condition, c in before["profiles"]]
    contexts = [(c, *(v.get(name) for name in names)) for c, v in before["contexts"]]
    for part in (messages, updates, profiles, contexts):
        (shuffled or random.Random(0)).shuffle(part)
    return {
        "messages": session.createDataFrame(messages, f"seq long, id string, {TYPES}"),
        "profiles": session.createDataFrame(
            profiles, "seq long, op string, id string, condition string, context string"
        ),
        "contexts": session.createDataFrame(contexts, f"id string, {TYPES}"),
        "updates": session.createDataFrame(
            updates, f"seq long, context string, {TYPES}, removed array<string>"
        ),
    }


@pytest.mark.parametrize(("seed", "shards"), [(1, 1), (2, 2), (3, 3), (4, 5), (5, 4)])
def test_the_same_answers(session, seed, shards):
    before, events = draw(seed)
    expected, refused = embedded(before, events)
    assert len(expected) > 40
    assert len(refused) > 10
    inputs = frames(session, before, events, random.Random(seed))
    found = spark.match(**inputs, shards=shards)
    assert found.columns == ["seq", "message", "profile", "context"]
    assert sorted(map(tuple, found.collect()), key=str) == expected
    letters = spark.play(spark.Inputs(**inputs), shards).rejected.collect()
    assert sorted(((r.seq, json.loads(r.event)["id"]) for r in letters), key=str) == refused
    assert all(r.reason for r in letters)


ADDRESSES = [None, None, "x > 2", "s = 'a' OR y < 5", "b", "x IS NULL", "x >", ""]


def addressed(before, events, seed):
    """The same events; some messages have an address, some of those a malformed one."""
    pick = random.Random(seed)
    drawn = [
        {**e, "address": pick.choice(ADDRESSES)} if e["kind"] == "message" else e for e in events
    ]
    return before, [{n: v for n, v in e.items() if v is not None} for e in drawn]


@pytest.mark.parametrize(("seed", "shards"), [(11, 1), (12, 3), (13, 4)])
def test_both_sides(session, tmp_path, seed, shards):
    """The sender's side counts as well as the recipient's, on whichever shard that is."""
    before, events = addressed(*draw(seed), seed)
    expected, refused = embedded(before, events)
    plain = embedded(before, [{n: v for n, v in e.items() if n != "address"} for e in events])[0]
    assert 20 < len(expected) < len(plain)
    inputs = frames(session, before, events, random.Random(seed))
    addresses = [(e["seq"], e.get("address")) for e in events if e["kind"] == "message"]
    column = session.createDataFrame(addresses, "seq long, address string")
    inputs["messages"] = inputs["messages"].join(column, "seq")
    assert sorted(map(tuple, spark.match(**inputs, shards=shards).collect()), key=str) == expected
    letters = spark.play(spark.Inputs(**inputs), shards).rejected.collect()
    assert sorted(((r.seq, json.loads(r.event)["id"]) for r in letters), key=str) == refused
    profiles = inputs["profiles"].where("seq IS NULL").drop("seq", "op")  # before everything
    ready = spark.prepare(
        inputs["messages"].drop("address"), profiles, inputs["contexts"], shards=shards,
        path=tmp_path,
    )  # fmt: skip
    messages = [e for e in events if e["kind"] == "message"]
    found = sorted(map(tuple, ready.match(inputs["messages"]).collect()), key=str)
    assert found == embedded(before, messages)[0]


@pytest.mark.parametrize("first", range(6))
def test_a_profile_comes_back_home(session, first):
    """It was another shard's, then this one's, in one stretch of events: none lost, none twice."""
    order = [f"c{(first + i) % 6}" for i in range(6)]
    rows = []
    for i, context in enumerate(order):
        rows += [
            (3 * i, "subscribe", "p", "x > 0", context),
            (3 * i + 2, "unsubscribe", "p", None, None),
        ]
    profiles = session.createDataFrame(
        rows, "seq long, op string, id string, condition string, context string"
    )
    messages = session.createDataFrame(
        [(3 * i + 1, f"m{i}", 1.0) for i in range(6)], "seq long, id string, x double"
    )
    found = sorted(map(tuple, spark.match(messages, profiles, shards=3).collect()))
    assert found == [(3 * i + 1, f"m{i}", "p", context) for i, context in enumerate(order)]


def test_twice_before_everything_is_once(session):
    """Which of the two counts is not said; that one of them does, and all shards agree, is."""
    profiles = session.createDataFrame(
        [("p", f"c{i}", "x > 0") for i in range(8)], "id string, context string, condition string"
    )
    messages = session.createDataFrame([(1, "m", 1.0)], "seq long, id string, x double")
    assert len(spark.match(messages, profiles, shards=4).collect()) == 1
    assert len(spark.play(spark.Inputs(messages, profiles), 4).rejected.collect()) == 7


@pytest.mark.parametrize(("seed", "shards"), [(6, 3)])
def test_prepared_once(session, tmp_path, monkeypatch, seed, shards):
    """Profiles that are compiled once give the answers of a job that registers them.

    Messages go to any worker, which has all shards; or, where shards are large, to each shard.
    """
    before, events = draw(seed)
    events = [e for e in events if e["kind"] in ("message", "update")]
    inputs = frames(session, before, events)
    profiles = inputs["profiles"].drop("seq", "op")
    messages, updates, contexts = (inputs[n] for n in ("messages", "updates", "contexts"))
    ready = spark.prepare(messages, profiles, contexts, updates, shards=shards, path=tmp_path)
    refused = embedded(before, [])[1]
    assert sorted((None, json.loads(r["event"])["id"]) for r in ready.rejected) == sorted(refused)
    twice = messages.union(messages.where("seq % 3 = 0"))
    apart = messages.repartition(5)  # in no order, as they come
    for part, given, small, distinct in (
        (None, messages, 1 << 30, False),
        (updates, messages, 1 << 30, False),
        (None, twice, 1 << 30, False),  # updates were that job's alone
        (None, twice, 0, False),
        (None, apart, 1 << 30, True),
        (None, apart, 0, True),
        (updates, apart, 1 << 30, True),
    ):
        monkeypatch.setattr("germane.spark.prepared.EVERYWHERE_BYTES", small)
        found = sorted(map(tuple, ready.match(given, part, distinct).collect()), key=str)
        chosen = [e for e in events if part is not None or e["kind"] == "message"]
        assert found == embedded(before, chosen)[0]
        assert len(found) > 20
    with pytest.raises(germane.GermaneError, match="when profiles were prepared it was number"):
        ready.match(session.createDataFrame([], "seq long, id string, x string"))


def test_messages_that_are_distinct_stay_where_they_are(session):
    """No shuffle, unless the promise is missing; one that is broken in one partition harms none."""
    profiles = session.createDataFrame([("p", "x > 3")], "id string, condition string")
    rows = [(i % 20, f"m{i % 20}", float(i % 20)) for i in range(40)]
    twice = session.createDataFrame(rows, "seq long, id string, x double").coalesce(1)
    ready = spark.prepare(twice, profiles, shards=1)
    for distinct, shuffles in ((False, 1), (True, 0)):
        found = ready.match(twice, distinct=distinct)
        plan = found._jdf.queryExecution().executedPlan().toString()
        assert plan.count("Exchange") == shuffles
        assert sorted(row.seq for row in found.collect()) == list(range(4, 20))


@pytest.mark.parametrize("nbytes", [1 << 30, 0])
def test_what_was_prepared_and_is_gone_is_missed(session, tmp_path, monkeypatch, nbytes):
    """Not taken for profiles that nobody has; a shard without any has no file."""
    monkeypatch.setattr("germane.spark.prepared.EVERYWHERE_BYTES", nbytes)
    profiles = session.createDataFrame([("p", "x > 3")], "id string, condition string")
    messages = session.createDataFrame([(1, "m", 4.0)], "seq long, id string, x double")
    ready = spark.prepare(messages, profiles, shards=3, path=tmp_path)
    assert ready.match(messages).count() == 1
    moved = spark.prepare(messages, profiles, shards=3, path=tmp_path / "more")
    shutil.rmtree(tmp_path / "more")
    with pytest.raises(Exception, match="is not there any more, or not on this machine"):
        moved.match(messages).count()


def test_integer_ids_stay_integers(session):
    messages = session.createDataFrame([(1, 10, 5)], "seq long, id long, x int")
    profiles = session.createDataFrame(
        [(7, "x > 3", 1), (8, "x > context.limit", 2)], "id int, condition string, context long"
    )
    contexts = session.createDataFrame([(2, 4)], "id long, limit int")
    found = spark.match(messages, profiles, contexts=contexts)
    assert sorted(map(tuple, found.collect())) == [(1, 10, 7, 1), (1, 10, 8, 2)]
    assert [kind for _, kind in found.dtypes] == ["bigint", "bigint", "int", "bigint"]


@pytest.mark.parametrize("ids", ["string", "long"])
@pytest.mark.parametrize("owned", [False, True])
def test_spark_knows_that_profiles_are_not_null(session, ids, owned):
    """Else it looks for nulls, and notes them, in every row."""
    messages = session.createDataFrame([], f"seq long, id {ids}, x double")
    owner = f", context {ids}" if owned else ""
    profiles = session.createDataFrame([], f"id {ids}, condition string{owner}")
    found = spark.match(messages, profiles, shards=1)
    nullable = {field.name: field.nullable for field in found.schema.fields}
    assert not nullable["seq"]
    assert not nullable["profile"]


def test_without_seq_there_is_no_message(session):
    messages = session.createDataFrame([(None, "m", 5.0)], "seq long, id string, x double")
    profiles = session.createDataFrame([("p", "x > 3")], "id string, condition string")
    assert spark.match(messages, profiles).collect() == []
    (letter,) = spark.play(spark.Inputs(messages, profiles), 3).rejected.collect()
    assert (letter.seq, letter.kind) == (None, "message")
    assert "seq" in letter.reason


def test_attributes_are_the_columns(session):
    messages = session.createDataFrame([(1, "m", 5.0)], "seq long, id string, price double")
    profiles = session.createDataFrame(
        [("good", "price > 3"), ("bad", "prise > 3")], "id string, condition string"
    )
    assert [row.profile for row in spark.match(messages, profiles).collect()] == ["good"]
    (letter,) = spark.play(spark.Inputs(messages, profiles)).rejected.collect()
    assert "did you mean price?" in letter.reason


@pytest.mark.parametrize(
    ("messages", "profiles", "updates", "said"),
    [
        (
            "seq long, x double",
            "id string, condition string",
            None,
            "messages need .*id is missing",
        ),
        ("seq long, id string", "id string", None, "profiles need .*condition is missing"),
        ("seq long, id double", "id string, condition string", None, "ids are strings or integers"),
        (
            "seq long, id string, x double",
            "id string, condition string",
            "seq long, context string, x string",
            "'x' is a number in messages but a string in updates",
        ),
        ("seq long, id string, x binary", "id string, condition string", None, "'x' .* is binary"),
        ("seq long, id string, kind int", "id string, condition string", None, "called 'kind'"),
        ("seq long, id string, links int", "id string, condition string", None, "called 'links'"),
        (
            "seq long, id string, x int",
            "id string, condition string",
            "seq long, context string, unlinks string",
            "called 'unlinks'",
        ),
        ("seq long, id string, document int", "id string, condition string", None, "document"),
        ("seq long, id string, address int", "id string, condition string", None, "address"),
    ],
)
def test_wrong_columns_are_refused_at_once(session, messages, profiles, updates, said):
    made = [
        None if columns is None else session.createDataFrame([], columns)
        for columns in (messages, profiles, updates)
    ]
    with pytest.raises(germane.GermaneError, match=said):
        spark.match(made[0], made[1], updates=made[2])


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "2"])
def test_a_wrong_number_of_shards_is_refused(session, wrong):
    messages = session.createDataFrame([], "seq long, id string")
    profiles = session.createDataFrame([], "id string, condition string")
    with pytest.raises(germane.GermaneError, match="shards is a number"):
        spark.match(messages, profiles, shards=wrong)


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_events_that_come_twice_are_judged_once(session, shards):
    """Also where the shard that judges is not the one where the profile was."""
    messages = session.createDataFrame([(9, "m", 2.0)], "seq long, id string, x double")
    rows = [
        (1, "subscribe", "p", "c0", "x > 1"), (2, "unsubscribe", "p", None, None),
        (3, "subscribe", "p", "c1", "x > 1"), (4, "unsubscribe", "p", None, None),
        (5, "subscribe", "p", "c2", "x > 1"), (6, "subscribe", "p", "c3", "x > 1"),
    ]  # fmt: skip
    columns = "seq long, op string, id string, context string, condition string"
    profiles = session.createDataFrame([row for row in rows for _ in range(2)], columns)
    played = spark.play(spark.Inputs(messages, profiles), shards)
    assert [tuple(row) for row in played.deliveries.collect()] == [(9, "m", "p", "c2")]
    assert [row.seq for row in played.rejected.collect()] == [6]


def test_names_that_spark_would_read_as_more_than_names(session):
    names = ["a.b", "a`b", "a%2Eb", "a b", "100%", "*", "größe", "Über"]
    columns = ", ".join(f"`{name.replace('`', '``')}` double" for name in names)
    values = [float(i) for i in range(len(names))]
    messages = session.createDataFrame([(1, "m", *values)], f"seq long, id string, {columns}")
    contexts = session.createDataFrame([("c", *values)], f"id string, {columns}")
    profiles = session.createDataFrame(
        [(name, "c", f'"{name}" = {i} AND "{name}" = context."{name}"')
         for i, name in enumerate(names)],
        "id string, context string, condition string",
    )  # fmt: skip
    ready = spark.prepare(messages, profiles, contexts, shards=2)
    for found in (spark.match(messages, profiles, contexts, shards=2), ready.match(messages)):
        assert sorted(row.profile for row in found.collect()) == sorted(names)
    nothing = session.createDataFrame([(None, "m", 1.0)], "seq long, id string, `a.b` double")
    (letter,) = spark.play(spark.Inputs(nothing, profiles, contexts), 1).rejected.collect()
    assert json.loads(letter.event)["a.b"] == 1.0
    documents = messages.selectExpr("*", "'<a/>' AS document")
    with pytest.raises(germane.InvalidValue, match=r"rename 'a\.b'"):
        spark.match(documents, profiles, contexts, shards=1)


def test_ids_of_contexts_have_the_widest_type(session):
    messages = session.createDataFrame([(1, "m", 2.0)], "seq long, id string, x double")
    contexts = session.createDataFrame([(1, 1.0)], "id int, y double")
    profiles = session.createDataFrame(
        [("p", 2**40, "x > 1"), ("q", 1, "x > context.y")],
        "id string, context long, condition string",
    )
    found = spark.match(messages, profiles, contexts, shards=2)
    assert sorted((r.profile, r.context) for r in found.collect()) == [("p", 2**40), ("q", 1)]


@pytest.mark.parametrize("kind", ["double", "decimal(5,2)", "timestamp", "string", "boolean"])
def test_a_seq_that_is_no_integer_is_refused(session, kind):
    messages = session.createDataFrame([], f"seq {kind}, id string, x double")
    profiles = session.createDataFrame([], "id string, condition string")
    with pytest.raises(germane.InvalidValue, match=r"'seq' of messages is .*cast it to bigint"):
        spark.match(messages, profiles)
    with pytest.raises(germane.InvalidValue, match="'seq'"):
        spark.prepare(messages, profiles)


@pytest.mark.parametrize("shards", [1, 2])
def test_an_op_that_is_none_is_refused(session, shards):
    messages = session.createDataFrame([(9, "m", 2.0)], "seq long, id string, x double")
    profiles = session.createDataFrame(
        [(0, None, "n", "x IS NULL"), (None, "values", "v", None)]
        + [(i, op, "z", None) for i, op in enumerate(("message", "update", "graph", "delete"), 1)],
        "seq long, op string, id string, condition string",
    )
    played = spark.play(spark.Inputs(messages, profiles), shards)
    assert played.deliveries.collect() == []
    assert sorted(row.seq or 0 for row in played.rejected.collect()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("shards", [1, 3])
def test_of_one_seq_the_message_counts_on_all_shards(session, shards):
    """Whatever else has that seq: else some shards have the message and others have not."""
    profiles = session.createDataFrame(
        [(f"p{i}", f"c{i}", "x > 0 AND context.x IS NULL") for i in range(8)],
        "id string, context string, condition string",
    )
    messages = session.createDataFrame([(1, "m", 1.0)], "seq long, id string, x double")
    rows = [(1, f"c{i}", 1.0) for i in range(8)]
    updates = session.createDataFrame(rows, "seq long, context string, x double")
    played = spark.play(spark.Inputs(messages, profiles, updates=updates), shards)
    found = sorted(row.profile for row in played.deliveries.collect())
    assert found == [f"p{i}" for i in range(8)]


def test_times_without_a_zone_are_those_of_utc(session):
    """As in the embedded filter, wherever the session thinks it is, and at hours that it skips."""
    kept = session.conf.get("spark.sql.session.timeZone")
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        messages = session.sql(
            "SELECT 1L AS seq, 'm' AS id, timestamp_ntz '2026-03-08 02:30:00.123456' AS t,"
            " date '2026-11-18' AS d, timestamp '2026-11-18 12:00:00Z' AS z,"
            " date '0001-01-01' AS a, timestamp_ntz '9999-12-31 23:59:59' AS b"
        )
        wanted = {
            "t = TIMESTAMP '2026-03-08 02:30:00.123456'": True,
            "d = TIMESTAMP '2026-11-18 00:00:00'": True,
            "d = context.d": True,
            "z = TIMESTAMP '2026-11-18 12:00:00'": True,
            "a = TIMESTAMP '0001-01-01 00:00:00'": True,
            "b = TIMESTAMP '9999-12-31 23:59:59'": True,
            "t > TIMESTAMP '2026-03-08 02:30:01'": False,
            "d <> context.d": False,
        }
        profiles = session.createDataFrame(
            [(condition, "c", condition) for condition in wanted],
            "id string, context string, condition string",
        )
        contexts = session.sql("SELECT 'c' AS id, timestamp_ntz '2026-11-18 00:00:00' AS d")
        ready = spark.prepare(messages, profiles, contexts, shards=1)
        for found in (spark.match(messages, profiles, contexts), ready.match(messages)):
            assert {row.profile for row in found.collect()} == {c for c in wanted if wanted[c]}
    finally:
        session.conf.set("spark.sql.session.timeZone", kept)


def test_names_that_differ_in_capitals_are_different(session):
    """For the filter; Spark does not tell them apart."""
    messages = session.createDataFrame([(1, "m", 1.0)], "seq long, id string, Price double")
    contexts = session.createDataFrame([("c", 2.0, 3.0)], "id string, price double, SEQ double")
    profiles = session.createDataFrame(
        [("p", "c", "Price = 1 AND context.price = 2 AND context.SEQ = 3 AND price IS NULL")],
        "id string, context string, condition string",
    )
    ready = spark.prepare(messages, profiles, contexts, shards=1)
    for found in (spark.match(messages, profiles, contexts, shards=2), ready.match(messages)):
        assert [row.profile for row in found.collect()] == ["p"]
