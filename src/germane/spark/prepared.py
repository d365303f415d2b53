"""``spark.prepare``: profiles compiled once, for many batch jobs.

A batch job that registers its profiles anew pays for them each time. ``prepare`` registers them on
their shards and saves each shard's filter, indexes included, as a file; ``Prepared.match`` sends
messages to the shards. A Python worker loads a shard when it first meets it, and keeps it. With
``updates``, the contexts change for that job alone: what was prepared stays as it was.

Where all shards together are small, and only messages come, each worker has all of them, as Spark
joins with a small table: a message then travels once, to whichever worker, and not to each shard.
"""

import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs
from pyspark.sql import DataFrame

from germane.approx.transformations import Transformations
from germane.category import ContentGraph
from germane.model import GermaneError, InvalidValue
from germane.spark import images
from germane.spark.batch import (
    Results,
    completed,
    found_batches,
    in_order,
    messages_in_order,
    play_shards,
)
from germane.spark.calls import map_in_arrow, repartition
from germane.spark.events import (
    Inputs,
    check_shards,
    layout,
    merge,
    merge_before,
    message_structs,
    with_parsed,
)
from germane.spark.graphs import described
from germane.spark.layout import EVENT, LETTER, SHARD, Layout
from germane.spark.seen import Seen
from germane.spark.sessions import is_remote
from germane.spark.shards import Shard

SAVED = "shard int, profiles bigint, bytes bigint, letters array<struct<seq: bigint, kind: string, reason: string, event: string>>"  # noqa: E501
EVERYWHERE_BYTES = 1 << 28
"""Bytes of all shards together up to which a worker has all of them."""
MOST_KEPT = 64
KEPT: "OrderedDict[tuple[str, int], Shard]" = OrderedDict()
"""Shards that this worker has loaded, the last used last."""


class Prepared(NamedTuple):
    """Profiles and contexts that are ready for messages."""

    path: str
    shards: int
    agreed: Layout
    profiles: int  # registered
    rejected: list[dict[str, Any]]  # dead letters
    nbytes: int  # of all shards, saved
    saved: tuple[int, ...]  # the shards that profiles or values were placed on

    def match(
        self, messages: DataFrame, updates: DataFrame | None = None, distinct: bool = False
    ) -> DataFrame:
        """Who gets which message, as ``spark.match`` has it.

        ``distinct`` is your promise that no ``seq`` is there twice, as is true of the offsets of a
        log. Where profiles are small, messages then need not be shuffled to find out: they are
        matched where they are, in the partitions that they have.
        """
        return self.play(messages, updates, distinct).deliveries

    def play(
        self, messages: DataFrame, updates: DataFrame | None = None, distinct: bool = False
    ) -> Results:
        """As ``match``, with the dead letters beside the deliveries."""
        inputs = Inputs(messages, None, None, updates)
        given = layout(inputs, graphs=self.agreed.graphs)
        for name, type_ in given.schema.items():
            if self.agreed.schema.get(name) != type_:
                known = self.agreed.schema.get(name, "not known")
                raise InvalidValue(
                    f"attribute {name!r} is a {type_}; when profiles were prepared it was {known}"
                )
        if self.agreed.ids == "bigint" and given.ids != "bigint":
            raise InvalidValue("ids were integers when profiles were prepared; now they are not")
        agreed = self.agreed._replace(
            message=given.message, addressed=given.addressed, document=given.document
        )
        messages, agreed = with_parsed(messages, agreed)
        inputs = inputs._replace(messages=messages)
        small = self.nbytes <= EVERYWHERE_BYTES and self.shards <= MOST_KEPT
        if small and updates is None:
            found = self._everywhere(messages, agreed, distinct)
        else:
            if updates is None:
                ordered = messages_in_order(messages, agreed, self.shards)
            else:
                ordered = in_order(merge(inputs, agreed, self.shards), self.shards)
            function = _play_function(self.path, self.saved, agreed, keeps=updates is None)
            found = ordered.mapInArrow(function, agreed.found_in_spark())
        return Results(found, agreed)

    def _everywhere(self, messages: DataFrame, agreed: Layout, distinct: bool) -> DataFrame:
        """What is found where every worker has all shards."""
        spread = message_structs(messages, agreed)
        if not distinct:
            spread = repartition(spread, self._n_tasks(messages.sparkSession), f"{EVENT}.seq")
        function = _everywhere_function(self.path, self.shards, self.saved, agreed)
        given = (self.path, agreed.message, agreed.addressed, agreed.document)  # all else is fixed
        return map_in_arrow(spread, EVENT, function, agreed.found_in_spark(), says=given)

    def _n_tasks(self, session: Any) -> int:
        """Tasks that messages are spread over where any will do; Connect does not tell the best."""
        if is_remote(session):
            return self.shards
        n_at_once: int = session.sparkContext.defaultParallelism
        return n_at_once


def prepare(
    messages: DataFrame,
    profiles: DataFrame,
    contexts: DataFrame | None = None,
    updates: DataFrame | None = None,
    shards: int | None = None,
    path: str | Path | None = None,
    transformations: Transformations | None = None,
    graphs: Mapping[str, ContentGraph] | None = None,
) -> Prepared:
    """Register profiles once, for many batches of messages: ``prepare(…).match(messages)``.

    Of ``messages`` and ``updates`` only the columns are looked at. ``path`` is a directory that
    all executors see; by default a temporary one, which will do on one machine. Small sets of
    profiles, up to 256 MB when compiled, are in every worker; with ``shards=1`` they take longer
    to prepare, and jobs on them are up to a tenth shorter.
    """
    if "seq" in profiles.columns:
        raise InvalidValue("profiles that are prepared are there before everything: drop seq")
    inputs = Inputs(messages, profiles, contexts, updates)
    agreed = layout(inputs, transformations, described(graphs))
    n_shards = check_shards(shards, inputs.session)
    place = f"{path or tempfile.mkdtemp(prefix='germane-')}/{uuid4().hex}"
    before = merge_before(inputs, agreed, n_shards)
    assert before is not None
    told = in_order(before, n_shards).mapInArrow(_save_function(place, agreed), SAVED).collect()
    letters = [letter.asDict() for row in told for letter in row.letters]
    n_profiles, nbytes = (sum(row[name] for row in told) for name in ("profiles", "bytes"))
    saved = tuple(sorted(row["shard"] for row in told))
    return Prepared(place, n_shards, agreed, n_profiles, letters, nbytes, saved)


def _save_function(path: str, agreed: Layout) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def save(batches: Iterator[Any]) -> Iterator[Any]:
        shard = None
        letters: list[dict[str, Any]] = []
        for batch in batches:
            if not batch.num_rows:
                continue
            if shard is None:
                shard = Shard(batch.column(SHARD)[0].as_py(), agreed)
            letters += shard.play(completed(pa.Table.from_batches([batch]))).letters
        if shard is None:
            return
        files, folder = images.file_system(path)
        saved = f"{folder}/{shard.number}.shard"
        images.save(shard.filter, files, saved)
        told = [{name: letter[name] for name in LETTER} for letter in letters]
        yield pa.RecordBatch.from_pylist(
            [
                {
                    "shard": shard.number,
                    "profiles": len(shard.filter),
                    "bytes": files.get_file_info(saved).size,
                    "letters": told,
                }
            ],
            schema=_SAVED,
        )

    return save


_LETTER = pa.struct(
    [("seq", pa.int64()), ("kind", pa.string()), ("reason", pa.string()), ("event", pa.string())]
)
_SAVED = pa.schema(
    [
        ("shard", pa.int32()),
        ("profiles", pa.int64()),
        ("bytes", pa.int64()),
        ("letters", pa.list_(_LETTER)),
    ]
)


def _play_function(
    path: str, saved: tuple[int, ...], agreed: Layout, keeps: bool
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def play(batches: Iterator[Any]) -> Iterator[Any]:
        # A nested function travels with copies of the globals it names; this module's must stay.
        from germane.spark.prepared import play_prepared

        return play_prepared(batches, path, saved, agreed, keeps)

    return play


def play_prepared(
    batches: Iterator[Any], path: str, saved: tuple[int, ...], agreed: Layout, keeps: bool
) -> Iterator[Any]:
    """Messages through a shard that this worker has, or loads."""
    held: list[Shard] = []

    def shard_of(number: int) -> Shard:
        shard = KEPT.pop((path, number), None) or _load(path, number, saved, agreed)
        shard.filter.rewind()
        held.append(shard)
        return shard

    yield from play_shards(batches, agreed, shard_of)
    for shard in held if keeps else ():
        _keep(path, shard)


def _everywhere_function(
    path: str, n_shards: int, saved: tuple[int, ...], agreed: Layout
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def play(batches: Iterator[Any]) -> Iterator[Any]:
        from germane.spark.prepared import play_everywhere  # as above

        return play_everywhere(batches, path, n_shards, saved, agreed)

    return play


def play_everywhere(
    batches: Iterator[Any], path: str, n_shards: int, saved: tuple[int, ...], agreed: Layout
) -> Iterator[Any]:
    """Messages, in any order, through all shards; this worker has or loads them.

    What comes twice counts once, if it comes to the same task.
    """
    seen = Seen()
    for batch in batches:
        if not batch.num_rows:
            continue
        table = seen.take(completed(pa.Table.from_struct_array(batch.column(EVENT))))
        for number in range(n_shards):
            shard = KEPT.pop((path, number), None) or _load(path, number, saved, agreed)
            shard.filter.rewind()
            played = shard.play(table)
            _keep(path, shard)
            yield from found_batches(played, agreed)


def _keep(path: str, shard: Shard) -> None:
    KEPT[path, shard.number] = shard
    while len(KEPT) > MOST_KEPT:
        KEPT.popitem(last=False)


def _load(path: str, number: int, saved: tuple[int, ...], agreed: Layout) -> Shard:
    """A shard as it was prepared; without profiles, if none were placed there."""
    shard = Shard(number, agreed)
    if number not in saved:
        return shard
    files, folder = images.file_system(path)
    place = f"{folder}/{number}.shard"
    if files.get_file_info(place).type == pafs.FileType.NotFound:
        raise GermaneError(
            f"shard {number} was prepared in {path!r} and is not there any more, or not on this "
            "machine; prepare again, with a path that all executors see"
        )
    shard.filter = images.load(files, place)
    return shard
