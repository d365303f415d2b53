"""Where contexts live when those that are alike share a shard: a table of ids and groups in a file.

In: the contexts before everything, and the attributes by which they are near each other. Out: for
every context a group, a stretch of the Z-order of their values (``pruning.Placement``), and with it
a shard. The file is written once, by the driver; every Python worker that needs it reads it once.
A context that comes later stays where its hash puts it, in that shard's group of strangers.
"""

import io
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from germane.model import InvalidValue
from germane.spark.events import quoted
from germane.spark.images import file_system
from germane.spark.layout import Layout
from germane.spark.pruning import Column, Placement, Sieve

GROUPS = 16
"""Of a shard; strangers and profiles without a context have one more each."""
MOST_READ = 8
READ: "OrderedDict[str, Any]" = OrderedDict()
"""Groups by id, and placements, of the files that this worker has read."""


class Near(NamedTuple):
    """What whoever routes and all shards know of pruning."""

    folder: str
    n_shards: int
    followed: tuple[str, ...]  # attributes of contexts of which groups have intervals
    asked: tuple[str, ...]  # attributes of messages that are looked at

    def sieve(self) -> Sieve:
        """A sieve that has heard of nobody."""
        numbers = np.arange(self.n_shards, dtype=np.int32)
        shards = np.concatenate([np.repeat(numbers, GROUPS), numbers])
        return Sieve(Placement((), (), np.zeros(0, np.int64), shards), self.followed, self.asked)

    def stranger(self, shard: int) -> int:
        """The group of a shard's contexts that were not placed."""
        return self.n_shards * GROUPS + shard

    def places(self) -> dict[Any, int]:
        """The group of every context that was placed."""
        found: dict[Any, int] | None = READ.pop(self.folder, None)
        if found is None:
            files, folder = file_system(self.folder)
            with files.open_input_file(f"{folder}/places.parquet") as file:
                table = pq.read_table(file)
            columns = (table.column(name).to_pylist() for name in ("id", "place"))
            found = dict(zip(*columns, strict=True))
        READ[self.folder] = found
        while len(READ) > MOST_READ:
            READ.popitem(last=False)
        return found

    def placement(self) -> Placement:
        """How contexts were placed: where one with other values would be."""
        key = f"{self.folder}\nplacement"
        if key not in READ:
            files, folder = file_system(self.folder)
            with files.open_input_stream(f"{folder}/placement") as stream:
                data = io.BytesIO(stream.read())
            with np.load(data, allow_pickle=False) as arrays:
                names = tuple(arrays["attributes"].tolist())
                shards = np.repeat(np.arange(self.n_shards, dtype=np.int32), GROUPS)
                READ[key] = Placement(names, tuple(arrays["cuts"]), arrays["ends"], shards)
        found: Placement = READ[key]
        return found

    def frame(self, session: SparkSession) -> DataFrame:
        """``_key``, the id of a context that was placed, and ``_place``, its shard."""
        table = session.read.parquet(f"{self.folder}/places.parquet")
        return table.selectExpr("id AS _key", f"CAST(place DIV {GROUPS} AS int) AS _place")

    def placed(
        self, session: SparkSession, agreed: Layout, contexts: DataFrame | None
    ) -> DataFrame:
        """As ``frame``; contexts are placed now, if they were not before."""
        files, folder = file_system(self.folder)
        if files.get_file_info(f"{folder}/places.parquet").type == pafs.FileType.NotFound:
            assert contexts is not None
            write_places(self, agreed.near, contexts, agreed.ids)
        return self.frame(session)


def followed_and_asked(agreed: Layout, inputs: dict[str, DataFrame]) -> dict[str, Any]:
    """The attributes that a ``Near`` is about, among the columns of inputs."""
    types = agreed.schema
    messages = set(inputs["messages"].columns)
    contexts = {
        n for name in ("contexts", "updates") if name in inputs for n in inputs[name].columns
    }
    return {
        "followed": tuple(n for n in types if n in contexts and types[n] == "number"),
        "asked": tuple(n for n in types if n in messages and types[n] in ("number", "boolean")),
    }


def check_near(near: Any, agreed: Layout, contexts: DataFrame | None) -> list[str]:
    """Attributes by which contexts are placed: numbers that contexts have."""
    if contexts is None:
        raise InvalidValue("near places contexts by their values: give contexts=…")
    columns = contexts.columns
    names = [near] if isinstance(near, str) else list(near)
    for name in names:
        if name not in columns or agreed.schema.get(name) != "number":
            numbers = [n for n in columns if agreed.schema.get(n) == "number"]
            raise InvalidValue(
                f"near={name!r:.200} is no number of contexts; there are {', '.join(numbers)}"
                if numbers
                else f"near={name!r:.200}: contexts have no numbers to be placed by"
            )
    if not names or len(set(names)) < len(names):
        raise InvalidValue("near names attributes of contexts, one or more, each once")
    return names


def write_places(near: Near, names: list[str], contexts: DataFrame, ids: str) -> None:
    """Place contexts by some of their values: columns ``id`` and these."""
    columns = [f"CAST({quoted(name)} AS double) AS _{i}" for i, name in enumerate(names)]
    told = contexts.selectExpr(f"CAST(id AS {ids}) AS id", *columns).where("id IS NOT NULL")
    table = told.dropDuplicates(["id"]).toArrow()
    values = {name: as_floats(table.column(f"_{i}")) for i, name in enumerate(names)}
    placement = Placement.of(values, names, near.n_shards, GROUPS)
    save_places(near, table.column("id"), placement, placement.groups(values))


def save_places(near: Near, ids: Any, placement: Placement, groups: NDArray[np.int64]) -> None:
    """Write the files that ``Near`` reads."""
    places = pa.table({"id": ids, "place": pa.array(groups)})
    files, folder = file_system(near.folder)
    files.create_dir(folder, recursive=True)
    about = io.BytesIO()
    np.savez(
        about, attributes=np.array(placement.attributes), cuts=np.array(placement.cuts),
        ends=placement.ends,
    )  # fmt: skip
    with files.open_output_stream(f"{folder}/placement") as out:
        out.write(about.getvalue())
    with files.open_output_stream(f"{folder}/places.part") as out:
        pq.write_table(places, out)
    files.move(f"{folder}/places.part", f"{folder}/places.parquet")


def as_floats(column: Any) -> Column:
    """An Arrow column of numbers or booleans; NaN is NULL."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    found: NDArray[np.float64] = pc.cast(column, pa.float64()).to_numpy()
    return found
