"""A pipeline as a file: TOML in, a started stream or a finished batch job out.

``read`` checks everything that can be told without Spark, and gives a ``Pipeline``, which is plain
data; ``start`` and ``play_once`` hand it to ``stream`` and ``play``. Whatever is wrong with a file
is a ``PipelineError`` of one line, with the file, the section and the key.

Paths are relative to the file, ``${NAME}`` in a text is the environment's, and tables of options
may be written with dots (``kafka.bootstrap.servers = "…"``).
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from germane.model import GermaneError
from germane.spark.batch import play
from germane.spark.events import Inputs
from germane.spark.sessions import session as make_session
from germane.spark.sinks import Parquet, Sql, Write, console
from germane.spark.streams import PER, Query, stream

INPUTS = ("messages", "profiles", "contexts", "updates")
MODES = ("stream", "batch")
SINKS = {"parquet": ("path",), "sql": ("url", "table"), "console": ()}
STREAM_ONLY = ("checkpoint", "together", "near", "per", "name", "trigger")
FILES = ("parquet", "json", "csv", "orc", "text", "avro", "xml")
"""Formats of which a stream must be told the columns."""
_INTERVAL = re.compile(r"\d+ (milli|micro)?(second|minute|hour|day)s?")
_CAUSE = re.compile(r"^(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Value)\w*: .+", re.MULTILINE)
_TOPICS = ("subscribe", "subscribePattern", "assign")
_KAFKA_JAR = "org.apache.spark:spark-sql-kafka-0-10_2.13"


class PipelineError(GermaneError, ValueError):
    """What is wrong with a pipeline's file, in one line."""


@dataclass(frozen=True)
class Input:
    """Where the rows of an input come from, and how they become its columns."""

    format: str
    path: str | None = None
    schema: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    where: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    static: bool = False


@dataclass(frozen=True)
class Pipeline:
    """What a file says, checked."""

    file: str
    mode: str
    inputs: dict[str, Input]
    sink: dict[str, str]  # kind, and path, or url and table
    checkpoint: str | None = None
    shards: int | None = None
    together: bool = False
    near: list[str] = field(default_factory=list)
    per: str = "delivery"
    name: str | None = None
    trigger: dict[str, Any] | None = None  # as Spark wants it
    dead_letters: str | None = None
    master: str | None = None
    settings: dict[str, str] = field(default_factory=dict)


class Counts(NamedTuple):
    """What came of a batch job."""

    deliveries: int
    rejected: int


def read(path: str | Path) -> Pipeline:
    """Read and check a pipeline's file."""
    file = Path(path)
    try:
        sections = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise PipelineError(f"{file}: {error.strerror or error}") from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise PipelineError(f"{file}: not TOML: {error}") from error
    return _Reader(file).read(sections)


def open_session(pipeline: Pipeline) -> SparkSession:
    """A session as the file wants it, or the one that runs."""
    with _told(pipeline.file, "spark"):
        return make_session(pipeline.master, pipeline.name or "germane", dict(pipeline.settings))


def start(pipeline: Pipeline, session: SparkSession, once: bool = False) -> Query:
    """Start a stream; with ``once``, it ends when it has taken what is there."""
    frames = open_inputs(pipeline, session)
    assert pipeline.checkpoint is not None
    with _told(pipeline.file):
        return stream(
            **frames._asdict(),
            checkpoint=pipeline.checkpoint,
            sink=_sink(pipeline.sink),
            shards=pipeline.shards,
            per=pipeline.per,
            together=pipeline.together,
            near=pipeline.near,
            dead_letters=pipeline.dead_letters,
            trigger={"availableNow": True} if once else pipeline.trigger,
            name=pipeline.name,
        )


def play_once(pipeline: Pipeline, session: SparkSession) -> Counts:
    """Run a batch job, and write what it delivers."""
    with _told(pipeline.file):
        results = play(open_inputs(pipeline, session), pipeline.shards)
        results.found.cache()
        try:
            _write_new(pipeline.sink, results.deliveries)
            if pipeline.dead_letters:
                _write_new({"kind": "parquet", "path": pipeline.dead_letters}, results.rejected)
            return Counts(results.deliveries.count(), results.rejected.count())
        finally:
            results.found.unpersist()


def open_inputs(pipeline: Pipeline, session: SparkSession) -> Inputs:
    """DataFrames of the inputs; what says the same of its source is read by one source.

    Spark asks each source how far it has come, one after the other: two of one log would be cut at
    two places of it.
    """
    frames: dict[str, DataFrame | None] = dict.fromkeys(INPUTS)
    sources: dict[Any, DataFrame] = {}
    for name, input_ in pipeline.inputs.items():
        streams = pipeline.mode == "stream" and not input_.static
        says = (streams, input_.format, input_.path, input_.schema, *sorted(input_.options.items()))
        with _told(pipeline.file, name):
            if says not in sources:
                sources[says] = _open(input_, session.readStream if streams else session.read)
            frames[name] = _as_columns(input_, sources[says])
    return Inputs(**frames)  # type: ignore[arg-type]  # messages and profiles are always there


# Spark -----------------------------------------------------------------------------------------


def _open(input_: Input, reader: Any) -> DataFrame:
    reader = reader.format(input_.format).options(**input_.options)
    if input_.schema:
        reader = reader.schema(input_.schema)
    frame: DataFrame = reader.load(input_.path) if input_.path else reader.load()
    return frame


def _as_columns(input_: Input, frame: DataFrame) -> DataFrame:
    if input_.where:
        frame = frame.where(input_.where)
    if input_.columns:
        frame = frame.selectExpr(*[f"{e} AS {_quoted(n)}" for n, e in input_.columns.items()])
    return frame


def _sink(told: dict[str, str]) -> Write:
    if told["kind"] == "sql":
        return Sql(told["url"], told.get("table", "deliveries"))
    return Parquet(told["path"]) if told["kind"] == "parquet" else console


def _write_new(sink: dict[str, str], rows: DataFrame) -> None:
    """Write the rows of a batch job; what an earlier one wrote is never mixed with them."""
    if sink["kind"] == "parquet":
        rows.write.mode("errorifexists").parquet(sink["path"])
    else:
        _sink(sink)(rows, 0)


def in_one_line(error: BaseException) -> str:
    """What went wrong, without the traces of Java and Python, and without Spark's codes."""
    text = str(error)
    if isinstance(error, Py4JJavaError):
        text = str(error.java_exception.getMessage() or error.java_exception)
    for cause in _CAUSE.findall(text):
        text = cause  # the last one is where it began
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = lines[0] if lines else type(error).__name__
    return re.sub(r"^\[[A-Z_.]+\] |\.? SQLSTATE: \w+|;$", "", said)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


@contextmanager
def _told(file: str, section: str | None = None) -> Iterator[None]:
    """Spark's words, and germane's, as one line that names the file and the section."""
    place = f"{file}: [{section}]" if section else file
    try:
        yield
    except PipelineError:
        raise
    except (GermaneError, PySparkException, Py4JError) as error:
        said = in_one_line(error)
        if "kafka" in said and "data source" in said:
            said = (
                "this Spark has no Kafka connector; under [spark.settings] say "
                f'spark.jars.packages = "{_KAFKA_JAR}:<the version of Spark>"'
            )
        raise PipelineError(f"{place}: {said}") from error


# the file --------------------------------------------------------------------------------------

Check = Callable[["_Reader", str, Any], Any]


class _Reader:
    """Turns sections into a ``Pipeline``; every complaint names its place."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.folder = file.resolve().parent

    def wrong(self, place: str, said: str) -> PipelineError:
        return PipelineError(f"{self.file}: {place}: {said}")

    def read(self, sections: dict[str, Any]) -> Pipeline:
        for name, section in sections.items():
            if name not in _SECTIONS:
                raise self.wrong(f"[{name}]", f"unknown section{_near(name, _SECTIONS)}")
            if not isinstance(section, dict):
                raise self.wrong(name, f"is a section: write [{name}] on a line of its own")
        for name in ("pipeline", "messages", "profiles", "sink"):
            if name not in sections:
                raise PipelineError(f"{self.file}: the section [{name}] is missing")
        about = self._section("pipeline", sections)
        spark = self._section("spark", sections)
        letters = self._section("dead_letters", sections)
        mode = self._mode(about)
        inputs = {n: self._input(n, mode, sections) for n in INPUTS if n in sections}
        return Pipeline(
            str(self.file),
            inputs=inputs,
            sink=self._sink(self._section("sink", sections)),
            dead_letters=letters.get("path"),
            **about,
            **spark,
        )

    def _section(self, name: str, sections: dict[str, Any]) -> dict[str, Any]:
        """A section's values, checked one by one."""
        known = _SECTIONS[name]
        values = {}
        for key, value in sections.get(name, {}).items():
            if key not in known:
                raise self.wrong(f"[{name}] {key}", f"unknown key{_near(key, known)}")
            values[key] = known[key](self, f"[{name}] {key}", value)
        return values

    def _mode(self, about: dict[str, Any]) -> str:
        mode: str = about.setdefault("mode", "stream")
        if mode == "stream" and "checkpoint" not in about:
            raise self.wrong("[pipeline]", "checkpoint is missing: a folder that a stream owns")
        for key in STREAM_ONLY if mode == "batch" else ():
            if key in about:
                raise self.wrong(f"[pipeline] {key}", 'is for streams; here, mode = "batch"')
        return mode

    def _input(self, name: str, mode: str, sections: dict[str, Any]) -> Input:
        values = self._section(name, sections)
        if "format" not in values:
            raise self.wrong(f"[{name}]", "format is missing: parquet, json, csv, kafka, …")
        if name == "contexts":  # the values before everything
            values["static"] = True
        input_ = Input(**values)
        if input_.format in FILES and not input_.path:
            raise self.wrong(f"[{name}]", f"path is missing: where the {input_.format} files are")
        self._exists(f"[{name}] path", input_.path)
        streams = mode == "stream" and not input_.static
        if streams and input_.format in FILES and not input_.schema:
            raise self.wrong(
                f"[{name}]",
                'schema is missing: a stream of files needs it, such as "seq long, id string"',
            )
        if input_.format == "kafka":
            self._kafka(name, input_)
        return input_

    def _exists(self, place: str, path: str | None) -> None:
        if path and not _is_uri(path) and not re.search(r"[*?\[{]", path):
            if not Path(path).exists():
                raise self.wrong(place, f"{path} does not exist")

    def _kafka(self, name: str, input_: Input) -> None:
        place = f"[{name}] options"
        if "kafka.bootstrap.servers" not in input_.options:
            raise self.wrong(place, "kafka.bootstrap.servers is missing: host:port, …")
        if not any(topic in input_.options for topic in _TOPICS):
            raise self.wrong(place, f"one of {', '.join(_TOPICS)} is missing: which topic to read")
        if not input_.columns:
            raise self.wrong(
                f"[{name}]",
                "columns is missing: Kafka's rows are key, value, offset, …; say what they hold",
            )

    def _sink(self, values: dict[str, Any]) -> dict[str, str]:
        if "kind" not in values:
            raise self.wrong("[sink]", f"kind is missing: {', '.join(SINKS)}")
        kind = values["kind"]
        for key in values:
            if key not in ("kind", *SINKS[kind]):
                raise self.wrong(f"[sink] {key}", f"a sink of kind {kind!r} does not have it")
        if SINKS[kind] and SINKS[kind][0] not in values:
            raise self.wrong("[sink]", f"{SINKS[kind][0]} is missing: where deliveries go")
        return values


def _near(name: str, known: Iterable[str]) -> str:
    """The nearest known name, else all of them."""
    names = list(known)
    near = get_close_matches(name, names, 1)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(names)}"


def _is_uri(path: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", path) is not None


# values: what each key must be, and what becomes of it -----------------------------------------


def _text(reader: _Reader, place: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise reader.wrong(place, f"must be a text, not {value!r:.80}")

    def found(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise reader.wrong(place, f"the environment has no variable {match[1]}")
        return os.environ[match[1]]

    return re.sub(r"\$\{(\w+)\}", found, value)


def _path(reader: _Reader, place: str, value: Any) -> str:
    text = _text(reader, place, value)
    return text if _is_uri(text) else str(reader.folder / text)


def _url(reader: _Reader, place: str, value: Any) -> str:
    text = _text(reader, place, value)
    if "://" not in text:
        raise reader.wrong(place, f"must be a database's URL, such as sqlite:///a.db, not {text!r}")
    scheme, _, rest = text.partition(":///")
    if scheme.startswith("sqlite") and rest and rest != ":memory:":
        return f"{scheme}:///{reader.folder / rest}"
    return text


def _flag(reader: _Reader, place: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise reader.wrong(place, f"must be true or false, not {value!r:.80}")
    return value


def _number(reader: _Reader, place: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise reader.wrong(place, f"must be a whole number from 1 on, not {value!r:.80}")
    return value


def _one_of(*choices: str) -> Check:
    def check(reader: _Reader, place: str, value: Any) -> str:
        if value not in choices:
            hint = _near(str(value), choices) if isinstance(value, str) else ""
            raise reader.wrong(
                place, f"must be one of {', '.join(choices)}, not {value!r:.80}{hint}"
            )
        return str(value)

    return check


def _texts(reader: _Reader, place: str, value: Any) -> dict[str, str]:
    """A table of texts; one that was written with dots is flat again."""
    if not isinstance(value, dict):
        raise reader.wrong(place, f"must be a table, not {value!r:.80}")
    flat: dict[str, str] = {}
    for key, inner in value.items():
        if isinstance(inner, dict):
            flat |= {f"{key}.{k}": v for k, v in _texts(reader, f"{place}.{key}", inner).items()}
        elif isinstance(inner, bool):
            flat[key] = str(inner).lower()
        elif isinstance(inner, int | float):
            flat[key] = str(inner)
        else:
            flat[key] = _text(reader, f"{place}.{key}", inner)
    return flat


def _names(reader: _Reader, place: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(n, str) for n in value):
        raise reader.wrong(place, f"must be a list of attributes, not {value!r:.80}")
    return [*value]


def _trigger(reader: _Reader, place: str, value: Any) -> dict[str, Any]:
    wanted = 'must be { available_now = true } or { interval = "5 seconds" }'
    if not isinstance(value, dict) or len(value) != 1:
        raise reader.wrong(place, f"{wanted}, not {value!r:.80}")
    ((key, inner),) = value.items()
    if key == "available_now" and inner is True:
        return {"availableNow": True}
    if key == "interval" and isinstance(inner, str) and _INTERVAL.fullmatch(inner):
        return {"processingTime": inner}
    raise reader.wrong(f"{place}.{key}", f"{wanted}, not {inner!r:.80}")


_INPUT: dict[str, Check] = {
    "format": _text, "path": _path, "schema": _text, "options": _texts, "where": _text,
    "columns": _texts,
}  # fmt: skip
_SECTIONS: dict[str, dict[str, Check]] = {
    "pipeline": {
        "mode": _one_of(*MODES), "checkpoint": _path, "shards": _number, "together": _flag,
        "near": _names,
        "per": _one_of(*PER), "name": _text, "trigger": _trigger,
    },
    "messages": _INPUT,
    "profiles": {**_INPUT, "static": _flag},
    "contexts": _INPUT,
    "updates": _INPUT,
    "sink": {"kind": _one_of(*SINKS), "path": _path, "url": _url, "table": _text},
    "dead_letters": {"path": _path},
    "spark": {"master": _text, "settings": _texts},
}  # fmt: skip
