"""What germane itself writes under a checkpoint: ``germane/pipeline.json``, on any file system.

It says what a stream was started with, so that a second start can be refused if it does not fit,
and where a stream that was resharded goes on.
"""

import json
from typing import Any, NamedTuple
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from germane.model import GermaneError, InvalidValue
from germane.spark.layout import Layout
from germane.spark.sessions import require_classic

FORMAT = 2


class Pipeline(NamedTuple):
    """What a checkpoint was started with."""

    shards: int
    agreed: Layout
    stream: str  # a random word, which tells apart what two streams write to one place
    resumed_at: int | None = None  # resharded: the state at ``seq`` is under ``start_of``
    inputs: str = ""  # those that are streams, and whether they wait; empty: not known


class Files:
    """Hadoop's file system behind a path: local disks, HDFS, object stores."""

    def __init__(self, session: SparkSession, path: str) -> None:
        require_classic(session, "what germane keeps in files")
        jvm: Any = session.sparkContext._jvm
        context: Any = session.sparkContext._jsc
        self._jvm = jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._system = self._path(path).getFileSystem(context.hadoopConfiguration())

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        return bool(self._system.exists(self._path(path)))

    def names(self, folder: str) -> list[str]:
        """What is in a directory; nothing, if there is none."""
        if not self.exists(folder):
            return []
        return [about.getPath().getName() for about in self._system.listStatus(self._path(folder))]

    def rename(self, old: str, new: str) -> None:
        """Move a file or directory; the directory it goes to is made."""
        self._system.mkdirs(self._path(new).getParent())
        if not self._system.rename(self._path(old), self._path(new)):
            raise GermaneError(f"{old!r} could not be renamed to {new!r}")

    def read(self, path: str) -> bytes:
        """A small file."""
        stream = self._system.open(self._path(path))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def remove(self, path: str) -> None:
        """A file is no more."""
        self._system.delete(self._path(path), False)

    def write(self, path: str, data: bytes) -> None:
        """A small file, all of it or nothing."""
        stream = self._system.create(self._path(f"{path}.part"), True)
        try:
            stream.write(data)
        finally:
            stream.close()
        self.rename(f"{path}.part", path)


def start_of(checkpoint: str) -> str:
    """Where a resharded stream finds the state it starts from."""
    return f"{checkpoint}/germane/start"


def near_of(checkpoint: str, stream: str) -> str:
    """Where the places of contexts are, and what shards tell of their groups.

    By the stream's word: workers remember what they have read, also if a checkpoint is deleted.
    """
    return f"{checkpoint}/germane/near/{stream}"


def begun(session: SparkSession, checkpoint: str) -> int | None:
    """The micro-batch that a stream was at when it was stopped, if it had not ended it."""
    files = Files(session, checkpoint)
    logs = [files.names(f"{checkpoint}/{log}") for log in ("offsets", "commits")]
    planned, ended = (max((int(n) for n in names if n.isdigit()), default=-1) for names in logs)
    return planned if planned > ended else None


def starts(session: SparkSession, checkpoint: str) -> DataFrame:
    """A streaming input that brings no row, but something new with every start of the stream.

    Spark asks its inputs again only after a micro-batch, or if one has something new. A process
    that died with events waiting would otherwise leave them to wait for whatever comes next.
    """
    folder = f"{checkpoint}/germane/starts"
    Files(session, checkpoint).write(f"{folder}/{uuid4().hex}", b"started\n")
    return session.readStream.text(folder).where("false")


def read_pipeline(session: SparkSession, checkpoint: str) -> Pipeline | None:
    """What a checkpoint was started with; None if it was not."""
    path = _file(checkpoint)
    files = Files(session, checkpoint)
    if not files.exists(path):
        return None
    try:
        about = json.loads(files.read(path))
        if about.pop("format") != FORMAT:
            raise GermaneError(f"the checkpoint {checkpoint!r} is of another version of germane")
        return Pipeline(**{**about, "agreed": Layout(**about["agreed"])})
    except (KeyError, TypeError, ValueError) as error:
        raise GermaneError(f"{path!r} is damaged: {error!r:.200}") from error


def write_pipeline(session: SparkSession, checkpoint: str, pipeline: Pipeline) -> None:
    """Write down what a checkpoint is started with."""
    about = {"format": FORMAT, **pipeline._asdict(), "agreed": pipeline.agreed._asdict()}
    Files(session, checkpoint).write(_file(checkpoint), json.dumps(about, indent=1).encode())


def forget_pipeline(session: SparkSession, checkpoint: str) -> None:
    """What a checkpoint was to be started with, when it was not."""
    Files(session, checkpoint).remove(_file(checkpoint))


def agree(then: Pipeline | None, now: Pipeline, checkpoint: str, any_shards: bool) -> Pipeline:
    """What a checkpoint was started with, or is now; refuses what does not fit."""
    if then is None:
        return now
    if then.inputs not in ("", now.inputs):  # Spark would say that sources are missing
        raise InvalidValue(
            f"the checkpoint {checkpoint!r} was started with the streams {then.inputs}; "
            f"now they are {now.inputs}"
        )
    wanted = now.agreed._asdict() | ({} if any_shards else {"shards": now.shards})
    for of_inputs in ("owned", "addressed"):  # no state depends on these
        del wanted[of_inputs]
    known = then.agreed._asdict() | {"shards": then.shards}
    for what, value in wanted.items():
        if known[what] != value:
            hint = "; see germane reshard" if what == "shards" else ""
            raise InvalidValue(
                f"the checkpoint {checkpoint!r} was started with {what} = {known[what]!r:.200}, "
                f"now it is {value!r:.200}{hint}"
            )
    return then


def _file(checkpoint: str) -> str:
    return f"{checkpoint}/germane/pipeline.json"
