"""What germane itself writes under a checkpoint: ``germane/pipeline.json``, on any file system.

It says what a stream was started with, so that a second start can be refused if it does not fit,
and where a stream that was resharded goes on.
"""

import json
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from germane.model import GermaneError, InvalidValue
from germane.spark.layout import Layout
from germane.spark.sessions import require_classic

FORMAT = 1


class Pipeline(NamedTuple):
    """What a checkpoint was started with."""

    shards: int
    agreed: Layout
    stream: str  # a random word, which tells apart what two streams write to one place
    resumed_at: int | None = None  # resharded: the state at ``seq`` is under ``start_of``


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


def agree(session: SparkSession, checkpoint: str, now: Pipeline, any_shards: bool) -> Pipeline:
    """The pipeline of a checkpoint, written down at its first start; refuses what does not fit."""
    then = read_pipeline(session, checkpoint)
    if then is None:
        write_pipeline(session, checkpoint, now)
        return now
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
