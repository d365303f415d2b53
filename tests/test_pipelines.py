"""Files that say what a pipeline is: how they are understood; every mistake is one clear line."""

from pathlib import Path

import pytest

import germane

pipelines = pytest.importorskip("germane.spark.pipelines")
EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"

SMALL = """
[pipeline]
checkpoint = "out/checkpoint"

[messages]
format = "json"
path = "in"
schema = "seq long, id string, price double"

[profiles]
format = "json"
path = "in"
schema = "id string, context string, condition string"
static = true

[sink]
kind = "console"
"""


@pytest.fixture
def read(tmp_path):
    """Write a file, with something replaced, and read it."""
    (tmp_path / "in").mkdir()

    def read(*changes, text=SMALL):
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        (tmp_path / "p.toml").write_text(text, encoding="utf-8")
        return pipelines.read(tmp_path / "p.toml")

    return read


# reading ---------------------------------------------------------------------------------------


def test_a_small_file_has_defaults(read, tmp_path):
    pipeline = read()
    assert (pipeline.mode, pipeline.per, pipeline.together) == ("stream", "delivery", False)
    assert (pipeline.shards, pipeline.trigger, pipeline.master) == (None, None, None)
    assert pipeline.checkpoint == str(tmp_path / "out" / "checkpoint")
    assert pipeline.inputs["messages"].path == str(tmp_path / "in")
    assert set(pipeline.inputs) == {"messages", "profiles"}


def test_all_keys_of_the_example_are_understood():
    pipeline = pipelines.read(EXAMPLES / "pipeline.toml")
    assert pipeline.trigger == {"processingTime": "5 seconds"}
    assert pipeline.shards == 2
    assert pipeline.inputs["messages"].options == {"maxFilesPerTrigger": "1"}
    assert pipeline.inputs["profiles"].static
    assert pipeline.inputs["contexts"].static
    assert not pipeline.inputs["updates"].static
    assert pipeline.settings == {"spark.sql.session.timeZone": "UTC"}


def test_keys_that_the_example_only_mentions_are_understood(read):
    """Its comments are true: each is a key that could be switched on."""
    lines = (EXAMPLES / "pipeline.toml").read_text().splitlines()
    mentioned = [line[2:] for line in lines if line.startswith("# ") and " = " in line]
    assert len(mentioned) >= 6
    sections = dict.fromkeys(("name", "together", "near", "per"), "pipeline") | {"master": "spark"}
    for line in mentioned:
        key = line.split(" ")[0]
        section = sections.get(key, "messages")
        line = line.replace("…", 'id = "key"')
        if section == "spark":
            read(text=f"{SMALL}\n[spark]\n{line}\n")
        else:
            read((f"[{section}]\n", f"[{section}]\n{line}\n"))


@pytest.mark.parametrize(
    ("trigger", "spark"),
    [
        ("{ available_now = true }", {"availableNow": True}),
        ('{ interval = "250 milliseconds" }', {"processingTime": "250 milliseconds"}),
    ],
)
def test_triggers(read, trigger, spark):
    pipeline = read(("[messages]", f"trigger = {trigger}\n[messages]"))
    assert pipeline.trigger == spark


def test_tables_may_be_written_with_dots(read):
    text = SMALL + '[spark.settings]\nspark.jars.packages = "a:b:1"\nspark.ui.enabled = true\n'
    assert read(text=text).settings == {"spark.jars.packages": "a:b:1", "spark.ui.enabled": "true"}


def test_the_environment_keeps_secrets(read, monkeypatch):
    sink = ('kind = "console"', 'kind = "sql"\nurl = "postgresql://me:${PASSWORD}@host/db"')
    with pytest.raises(germane.GermaneError, match=r"\[sink\] url: .* no variable PASSWORD"):
        read(sink)
    monkeypatch.setenv("PASSWORD", "hush")
    assert read(sink).sink["url"] == "postgresql://me:hush@host/db"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("sqlite:///a.db", "sqlite:///{here}/a.db"),
        ("sqlite:////var/a.db", "sqlite:////var/a.db"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("mysql+pymysql://u@h/d", "mysql+pymysql://u@h/d"),
    ],
)
def test_databases_in_files_are_beside_the_file(read, tmp_path, written, meant):
    pipeline = read(('kind = "console"', f'kind = "sql"\nurl = "{written}"'))
    assert pipeline.sink["url"] == meant.format(here=tmp_path)


@pytest.mark.parametrize("path", ["s3a://bucket/in", "hdfs:/in", "in/*.json", "/"])
def test_other_places_are_left_alone(read, path):
    assert read(('path = "in"', f'path = "{path}"')).inputs["messages"].path.endswith(path)


# mistakes --------------------------------------------------------------------------------------

MISTAKES = [
    ("[messages]", "[mesages]", r"\[mesages\]: unknown section; did you mean messages\?"),
    ("[messages]", "[zebra]", r"\[zebra\]: unknown section; known are pipeline, messages"),
    ("[pipeline]", "updates = 1\n[pipeline]", "updates: is a section"),
    ("checkpoint", "chekpoint", r"\[pipeline\] chekpoint: unknown key; did you mean checkpoint\?"),
    ('checkpoint = "out/checkpoint"', "", r"\[pipeline\]: checkpoint is missing"),
    ("checkpoint =", "mode = 'steam'\ncheckpoint =", r"mode: must be one of stream, batch, not"),
    ("checkpoint =", "mode = 'batch'\ncheckpoint =", r"\[pipeline\] checkpoint: is for streams"),
    ("checkpoint =", "shards = 'two'\ncheckpoint =", r"shards: must be a whole number .* 'two'"),
    ("checkpoint =", "shards = true\ncheckpoint =", r"shards: must be a whole number .* True"),
    ("checkpoint =", "shards = 0\ncheckpoint =", r"shards: must be a whole number from 1 on"),
    ("checkpoint =", "together = 1\ncheckpoint =", r"together: must be true or false, not 1"),
    ("checkpoint =", "per = 'mesage'\ncheckpoint =", r"per: must be .* did you mean message\?"),
    ("checkpoint =", "trigger = 5\ncheckpoint =", r"trigger: must be \{ available_now"),
    ("checkpoint =", "trigger.interval = '5'\ncheckpoint =", r"trigger.interval: must be \{"),
    ('"out/checkpoint"', "7", r"\[pipeline\] checkpoint: must be a text, not 7"),
    ('format = "json"\n', "", r"\[messages\]: format is missing"),
    ('path = "in"\n', "", r"\[messages\]: path is missing"),
    ('path = "in"', 'path = "on"', r"\[messages\] path: .*on does not exist"),
    ('schema = "seq long, id string, price double"\n', "", r"\[messages\]: schema is missing"),
    ('path = "in"', 'path = "in"\nstatic = true', r"\[messages\] static: unknown key"),
    ('path = "in"', 'path = "in"\noptions = "x"', r"options: must be a table, not 'x'"),
    ('path = "in"', 'path = "in"\noptions = { a = [] }', r"options.a: must be a text, not \[\]"),
    ('kind = "console"', "", r"\[sink\]: kind is missing: parquet, sql, console"),
    ('kind = "console"', 'kind = "parket"', r"kind: .* did you mean parquet\?"),
    ('kind = "console"', 'kind = "parquet"', r"\[sink\]: path is missing"),
    ('kind = "console"', 'kind = "sql"', r"\[sink\]: url is missing"),
    ('kind = "console"', 'kind = "sql"\nurl = "a.db"', r"\[sink\] url: must be a database's URL"),
    ('kind = "console"', 'kind = "console"\npath = "x"', r"path: a sink of kind 'console'"),
    ('[sink]\nkind = "console"', "", r"the section \[sink\] is missing"),
    ("[sink]", "[sink", r"not TOML: .*line \d+"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES)
def test_a_mistake_is_one_line_with_its_place(read, tmp_path, old, new, said):
    with pytest.raises(germane.GermaneError, match=said) as error:
        read((old, new))
    assert str(error.value).startswith(f"{tmp_path / 'p.toml'}: ")
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there():
    with pytest.raises(germane.GermaneError, match=r"^nowhere.toml: No such file"):
        pipelines.read("nowhere.toml")


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "p.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(germane.GermaneError, match="not TOML"):
        pipelines.read(tmp_path / "p.toml")


# Kafka, without a broker -----------------------------------------------------------------------

KAFKA = """
[pipeline]
checkpoint = "out/checkpoint"
together = true

[messages]
format = "kafka"
where = "CAST(key AS STRING) = 'message'"

[messages.options]
kafka.bootstrap.servers = "one:9092,two:9092"
subscribe = "events"
startingOffsets = "earliest"
maxOffsetsPerTrigger = 50_000
kafka.security.protocol = "SASL_SSL"

[messages.columns]
seq = "offset"
id = "get_json_object(CAST(value AS STRING), '$.id')"
price = "CAST(get_json_object(CAST(value AS STRING), '$.price') AS DOUBLE)"

[profiles]
format = "parquet"
path = "in"
static = true

[sink]
kind = "console"
"""


class Recorder:
    """Stands for Spark's reader and for what it reads: remembers what it is asked for."""

    def __init__(self):
        self.asked = []

    def __getattr__(self, name):
        def note(*values, **named):
            self.asked.append((name, *values, *([named] if named else [])))
            return self

        return note


class Session:
    def __init__(self):
        self.read, self.readStream = Recorder(), Recorder()


def test_kafka_is_asked_for_what_the_file_says(read):
    session = Session()
    pipelines.open_inputs(read(text=KAFKA), session)
    assert session.readStream.asked == [
        ("format", "kafka"),
        (
            "options",
            {
                "kafka.bootstrap.servers": "one:9092,two:9092",
                "subscribe": "events",
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": "50000",
                "kafka.security.protocol": "SASL_SSL",
            },
        ),
        ("load",),
        ("where", "CAST(key AS STRING) = 'message'"),
        (
            "selectExpr",
            "offset AS `seq`",
            "get_json_object(CAST(value AS STRING), '$.id') AS `id`",
            "CAST(get_json_object(CAST(value AS STRING), '$.price') AS DOUBLE) AS `price`",
        ),
    ]
    assert [asked[0] for asked in session.read.asked] == ["format", "options", "load"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('kafka.bootstrap.servers = "one:9092,two:9092"\n', "", "kafka.bootstrap.servers is miss"),
        ('subscribe = "events"\n', "", "one of subscribe, subscribePattern, assign is missing"),
    ],
)
def test_what_kafka_needs_is_asked_for(read, old, new, said):
    with pytest.raises(germane.GermaneError, match=said):
        read((old, new), text=KAFKA)


def test_kafka_has_no_columns_of_its_own(read):
    begin, end = KAFKA.index("[messages.columns]"), KAFKA.index("[profiles]")
    with pytest.raises(germane.GermaneError, match=r"\[messages\]: columns is missing"):
        read(text=KAFKA[:begin] + KAFKA[end:])
