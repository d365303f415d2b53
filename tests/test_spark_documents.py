"""Documents on Spark: parsed once, matched on every shard, with the embedded filter's costs."""

import json
import random

import pyarrow as pa
import pytest
from naive_approx import matches
from test_documents import ARTICLE, FIGURE_3, TABLE_1
from test_stream import NOW

import germane
from germane import Transformations
from germane.approx import documents as parsing

spark = pytest.importorskip("germane.spark")
from germane.spark.events import event_columns
from germane.spark.layout import Layout
from germane.spark.packing import decode, packer
from germane.spark.shards import Shard

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]
PATTERN = 'book[title["XML"] and author["Smith"]]'
DOCUMENTS = [
    FIGURE_3, ARTICLE, "<book><title>XML</title><author>Smith</author></book>",
    "<book><abstract>xml</abstract><author>J. Smith</author></book>", "<other/>", None,
    "<book>", "<!DOCTYPE b [<!ENTITY e 'x'>]><b>&e;</b>",
]  # fmt: skip
THRESHOLDS = [3, 5, 10, 12]
SCHEMA = {"price": "number", "limit": "number", "document": "xml"}
TABLES = Transformations(**TABLE_1)


def draw(seed, n=60):
    """Contexts, profiles, and messages with documents, some of them malformed."""
    pick = random.Random(seed)
    contexts = [(f"c{i}", float(pick.randrange(5))) for i in range(5)]
    profiles = [
        (f"p{i}", f"c{i % 5}" if i % 3 else None,
         f"document MATCHES '{PATTERN}' COST < {pick.choice(THRESHOLDS)}"
         + (" AND price > context.limit" if i % 3 else " OR price = 3"))
        for i in range(12)
    ]  # fmt: skip
    messages = [
        (seq, f"m{seq}", float(pick.randrange(6)), pick.choice(DOCUMENTS), "limit < 3")
        for seq in range(n)
    ]
    return contexts, profiles, messages


def embedded(contexts, profiles, messages, addressed=False):
    """(deliveries with costs, seqs of what is rejected) of one filter; costs are the oracle's."""
    f = germane.Filter(schema=SCHEMA, transformations=TABLES)
    for name, limit in contexts:
        f.update(name, {"limit": limit})
    f.subscribe_many([p for p, _, _ in profiles], [c for _, _, c in profiles],
                     [o for _, o, _ in profiles])  # fmt: skip
    events = [
        {"seq": seq, "kind": "message", "id": name, "price": price,
         **({} if document is None else {"document": document}),
         **({"address": address} if addressed else {})}
        for seq, name, price, document, address in messages
    ]  # fmt: skip
    done = f.process(events)
    owners = {p: o for p, o, _ in profiles}
    found = [
        (row["seq"], row["message"], row["profile"], owners[row["profile"]], row["cost"])
        for row in done.to_arrow().to_pylist()
    ]
    texts = {seq: document for seq, _, _, document, _ in messages}
    asked = {p: int(c.split("COST < ")[1].split()[0]) for p, _, c in profiles}
    for seq, _, profile, owner, cost in found:
        known = texts[seq] and matches(PATTERN, texts[seq], asked[profile], admin=TABLE_1)
        assert cost == known or (owner is None and cost == 0.0)
    assert {cost for *_, cost in found} >= {0.0, 4.0, 11.0}
    return sorted(found, key=str), sorted(r.seq for r in done.rejected)


@pytest.fixture(scope="module")
def work():
    return draw(3)


def frames(session, work):
    contexts, profiles, messages = work
    return {
        "messages": session.createDataFrame(
            messages, "seq long, id string, price double, document string, address string"
        ),
        "profiles": session.createDataFrame(
            profiles, "id string, context string, condition string"
        ),
        "contexts": session.createDataFrame(contexts, "id string, limit double"),
    }


@pytest.mark.parametrize("addressed", [False, True])
def test_batch(session, work, addressed):
    expected, rejected = embedded(*work, addressed)
    assert len(rejected) > 5
    inputs = frames(session, work)
    if not addressed:
        inputs["messages"] = inputs["messages"].drop("address")
    else:  # documents may be bytes as well
        inputs["messages"] = inputs["messages"].selectExpr(
            "seq", "id", "price", "CAST(document AS binary) AS document", "address"
        )
    found = spark.match(**inputs, shards=3, transformations=TABLES)
    assert found.columns == ["seq", "message", "profile", "context", "cost"]
    assert sorted(map(tuple, found.collect()), key=str) == expected
    letters = spark.play(spark.Inputs(**inputs), 3, TABLES).rejected.collect()
    assert sorted(r.seq for r in letters) == rejected
    assert {json.loads(r.event)["document"][:2] for r in letters} == {"<b", "<!"}
    ready = spark.prepare(**inputs, shards=2, transformations=TABLES)
    assert sorted(map(tuple, ready.match(inputs["messages"]).collect()), key=str) == expected


def test_stream(session, work, tmp_path):
    expected, rejected = embedded(*work, addressed=True)
    inputs = frames(session, work)
    inputs["messages"].coalesce(1).write.parquet(str(tmp_path / "messages"))
    reader = session.readStream.schema(inputs["messages"].schema)
    inputs["messages"] = reader.parquet(str(tmp_path / "messages"))
    query = spark.stream(
        **inputs, checkpoint=tmp_path / "checkpoint", sink=tmp_path / "out", shards=3,
        trigger=NOW, transformations=TABLES,
    )  # fmt: skip
    query.awaitTermination()
    columns = ("seq", "message", "profile", "context", "cost")
    found = session.read.parquet(str(tmp_path / "out")).select(*columns).collect()
    assert sorted(map(tuple, found), key=str) == expected
    letters = query.dead_letters().collect()
    assert sorted(r.seq for r in letters) == rejected
    assert all("<" in json.loads(r.event)["document"] for r in letters)


def test_shards_do_not_parse(monkeypatch):
    """What was packed is taken without a parser; what was malformed is tried again."""
    agreed = Layout({"document": "xml"}, "string", "string", "string", "string",
                    document="string", transformations=TABLES.as_dict())  # fmt: skip
    rows = [
        {"_home": 0, "seq": seq, "kind": "message", "id": f"m{seq}", "document": text}
        for seq, text in enumerate(DOCUMENTS[:6])
    ]
    names = list(event_columns(agreed))
    table = pa.Table.from_pylist([{n: row.get(n) for n in names} for row in rows])
    columns = {
        n: table[n] if table[n].type != pa.null() else pa.nulls(6, pa.string()) for n in names
    }
    packed = next(iter(packer(agreed, [0])(iter(pa.table(columns).to_batches()))))
    shard = Shard(0, agreed)
    shard.filter.subscribe("p", f"document MATCHES '{PATTERN}' COST < 12")
    monkeypatch.setattr(parsing, "_parsers", lambda: pytest.fail("parsed again"))
    played = shard.play(decode(packed.column("events")[0].as_py()))
    assert [row["seq"] for table in played.found for row in table.to_pylist()] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"labels": ["a"], "parents": [-1], "texts": []},
        {"labels": ["a", "b"], "parents": [-1, 1], "texts": ["", ""]},
        {"labels": ["a", "b"], "parents": [-1, -1], "texts": ["", ""]},
        {"labels": ["a"], "parents": [-1], "texts": ["x\x00y"]},
        {"labels": ["a"] * 300, "parents": range(-1, 299), "texts": [""] * 300},
        {"labels": ["a"] * 300, "parents": list(range(-1, 299)), "texts": [""] * 300},
        {"labels": None, "raw": 5},
    ],
)
def test_what_was_not_parsed_here_is_checked(said):
    with pytest.raises(germane.InvalidValue):
        parsing.parse(said)


def test_what_was_parsed_is_taken_as_it_is():
    for document in DOCUMENTS[:5]:
        flat = parsing.parse(document)
        assert parsing.parse({**flat._asdict(), "raw": document}) == flat
