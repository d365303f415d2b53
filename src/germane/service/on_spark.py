"""The matcher on Spark: the same log, the same tables, with the profiles spread over shards.

In: the log, as a stream (``source``). Out: the tables. Every shard takes all entries and matches
its share of the profiles (``shares``); this process, the driver, takes them too, with no profile in
its filter: it has the books, the contexts and the types, judges as the shards do, and writes what
they matched in one transaction with the positions, as the other matcher does. So positions are the
only truth about what was done: a stream starts at them, and its own checkpoint is scrap paper.

Where a shard's filter, or the driver's, breaks, the stretch is played by one whole filter, as the
other matcher would.
"""

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
import structlog

from germane.model import GermaneError
from germane.service import shares
from germane.service.clock import Clock, now
from germane.service.log import Log, LogError, Stored, read_up_to
from germane.service.matcher import POISON, RETRY_S, Matcher
from germane.service.settings import Settings
from germane.service.shares import Answer
from germane.service.source import of_spark, register
from germane.service.tenant import NOTHING, Dead, Share, Step, Tenant

ANSWERS = pa.schema(
    [
        ("share", pa.int32()), ("tenant", pa.int32()), ("after", pa.int64()), ("last", pa.int64()),
        ("seqs", pa.binary()), ("profiles", pa.binary()), ("dead", pa.binary()),
        ("figures", pa.binary()), ("fault", pa.string()),
    ]
)  # fmt: skip
MOST_EVENTS = 20_000
"""In a micro-batch, over all tenants."""
EVERYTHING = 1 << 62
NAP_S = 0.005
AWAKE_S = 25.0
"""Spark ends Python workers that had nothing to do for a minute, and their filters with them."""
SETTINGS = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.minBatchesToRetain": 2,
    "spark.sql.streaming.pollingDelay": "20ms",
    "spark.sql.streaming.stopTimeout": "10s",
}

journal = structlog.get_logger("matcher")


class SparkMatcher(Matcher):
    """The driver of a stream over the log."""

    holds = NOTHING

    def __init__(
        self,
        settings: Settings,
        log: Log,
        engine: sa.Engine,
        clock: Clock = now,
        session: Any = None,
    ) -> None:
        super().__init__(settings, log, engine, clock)
        self.shards = settings.shards or os.cpu_count() or 1
        self.session = session
        self.query: Any = None
        self._lock = threading.RLock()  # tenants are touched by one thread at a time
        self._closed = False
        self._renew = False  # start the stream again: shards must be told something
        self._place = settings.folder / "spark"
        self._awake_at = time.monotonic()

    # the stream ----------------------------------------------------------------------------------

    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Work until somebody says stop; what was begun is finished."""
        self._clear()
        self.open()
        if self.session is None:
            from germane import spark

            self.session = spark.session(
                f"local[{self.shards},4]", "germane serve", self._of_session()
            )
        register(self.session)
        self.start()
        journal.info("matcher_ready", seen=self.seen, shards=self.shards, spark=True)
        while not (self.stopping or stop()):
            with self._lock:
                try:
                    if time.monotonic() >= self._next_tick:
                        self._look()
                    self.tick(busy=False)
                except (LogError, sa.exc.DBAPIError) as error:
                    journal.error("log_away", error=str(error))
                if self.questions is not None:
                    self.questions.answer(self)
            self._watch()
            self._stay_awake()
            time.sleep(NAP_S)
        self.close()

    def start(self) -> None:
        """Start a stream at the positions."""
        with self._lock:
            self._look()
            after = {"0": self.seen} | {str(n): t.seq for n, t in self.tenants.items()}
            poison = {n: sorted(t.poison) for n, t in self.tenants.items() if t.poison}
            self._renew = False
        frame = (
            self.session.readStream.format("germane-entries")
            .option("path", self.settings.data)
            .option("log", self.settings.log)
            .option("copies", self.shards)
            .option("startingAfter", json.dumps(after))
            .option("maxEventsPerTrigger", MOST_EVENTS)
            .load()
        )
        answers = frame.mapInArrow(
            answering(self.settings.to_json(), self.shards, poison), of_spark(ANSWERS)
        )
        place = self._place / uuid4().hex
        self.query = (
            answers.writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", str(place))
            .start()
        )

    def _of_session(self) -> dict[str, Any]:
        return SETTINGS | {"spark.sql.warehouse.dir": str(self._place / "warehouse")}

    def _batch(self, answers: Any, batch: int) -> None:
        """What Spark calls with a micro-batch."""
        given = [Answer(**row) for row in answers.toArrow().to_pylist()]
        self._awake_at = time.monotonic()
        with self._lock:
            if given and not self._closed:
                self.take(given)

    def _watch(self) -> None:
        """Start the stream again if it ended, or if shards must be told something."""
        if self.query.isActive and not self._renew:
            return
        if self.query.isActive:
            self.query.stop()
        else:
            journal.error("stream_ended", error=str(self.query.exception())[:2000])
            time.sleep(RETRY_S[0])
        try:
            self.start()
        except (LogError, sa.exc.DBAPIError) as error:  # it is tried again
            journal.error("log_away", error=str(error))

    def _stay_awake(self) -> None:
        if time.monotonic() - self._awake_at > AWAKE_S:
            self._awake_at = time.monotonic()
            frame = self.session.range(0, self.shards, 1, self.shards)
            frame.mapInArrow(same, "id bigint").count()

    def close(self) -> None:
        """End the stream; what has begun to be written is written."""
        with self._lock:
            self._closed = True
        if self.query is not None:
            self.query.stop()
        self.save_all()

    def _clear(self) -> None:
        """Remove what earlier streams, and shares of another number of shards, have left."""
        shutil.rmtree(self._place, ignore_errors=True)
        wanted = {
            shares.folder_of(self.settings, Share(k, self.shards)) for k in range(self.shards)
        }
        wanted.add(shares.folder_of(self.settings, NOTHING))
        for folder in self.settings.snapshots.glob("share-*"):
            if folder not in wanted:
                shutil.rmtree(folder, ignore_errors=True)

    def _trim(self) -> None:
        """Nothing: a share that is lost may have to begin with the first entry."""

    def _look(self) -> None:
        """See what is new in the log; have every tenant, also one that was just given up."""
        for number, last in self.log.tenants(self.seen).items():
            self.pending[number] = last
            self.seen = max(self.seen, last)
        for number in self.pending:
            self._tenant(number)

    # a micro-batch -------------------------------------------------------------------------------

    def take(self, answers: list[Answer]) -> None:
        """Write what the shards say of some entries, in one transaction with the positions."""
        ordered = sorted(answers, key=lambda answer: (answer.tenant, answer.share))
        steps: list[tuple[Tenant, Step]] = []
        try:
            for number, told in groupby(ordered, lambda answer: answer.tenant):
                made = self._step(number, list(told))
                if made is not None:
                    steps.append(made)
            self._write(steps)
        except BaseException:
            for number in {answer.tenant for answer in answers}:
                self.tenants.pop(number, None)  # it may be ahead of its position
            raise
        for tenant, step in steps:
            if tenant.share != NOTHING:
                self.tenants[tenant.number] = self._load(tenant.number)
                self._renew |= any(letter.kind == POISON for letter in step.dead)

    def _step(self, number: int, told: list[Answer]) -> tuple[Tenant, Step] | None:
        """What a tenant's entries did: the driver's part, and the matches of all shards."""
        tenant, started = self._tenant(number), time.perf_counter()
        after, last = told[0].after, told[0].last
        if last <= tenant.seq:
            return None  # it was written before
        if tenant.seq < after and not read_up_to(self.log, tenant.seq, after, number, 1):
            tenant.seq = after  # a new one, which has nothing up to there
        if after != tenant.seq or [(a.share, a.after, a.last) for a in told] != [
            (k, after, last) for k in range(self.shards)
        ]:
            raise GermaneError(f"shards of tenant {number} are not at {tenant.seq}: {told!r:.500}")
        entries = read_up_to(self.log, after, last, number, EVERYTHING)
        step = self._merged(tenant, entries, told)
        if step is None:
            tenant, step = self._play_whole(number, entries)
        self.gauges.played(number, step, time.perf_counter() - started)
        return tenant, step

    def _merged(self, tenant: Tenant, entries: list[Stored], told: list[Answer]) -> Step | None:
        """None if a filter broke."""
        faults = [answer.fault for answer in told if answer.fault]
        seqs, profiles = (
            np.concatenate([np.frombuffer(data, np.int64) for data in column])
            for column in ([a.seqs for a in told], [a.profiles for a in told])
        )
        order = np.lexsort((profiles, seqs))
        try:
            step = None if faults else tenant.play(entries, (seqs[order], profiles[order]))
        except Exception as error:
            faults, step = [repr(error)], None
        if step is None:
            journal.error("batch_failed", tenant=tenant.number, seq=entries[0].seq, error=faults[0])
            return None
        tenant.figures = [json.loads(answer.figures) for answer in told]
        known = {(letter.seq, letter.kind) for letter in step.dead}
        for answer in told:  # what only the shard of a profile can know
            for seq, kind, reason in json.loads(answer.dead):
                if (seq, kind) not in known:
                    known.add((seq, kind))
                    step.dead.append(Dead(seq, kind, reason))
        return step

    def _play_whole(self, number: int, entries: list[Stored]) -> tuple[Tenant, Step]:
        """As the matcher with one filter does it, which finds out what breaks filters."""
        whole = Matcher(self.settings, self.log, self.engine, self.clock)
        whole._tenant(number)
        step = whole._play(number, entries)
        return whole.tenants[number], step


def answering(
    settings: str, shards: int, poison: dict[int, list[int]]
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What a task does with the entries of a micro-batch: rows of ``ANSWERS``, one a tenant."""

    def answer(batches: Iterator[Any]) -> Iterator[Any]:
        rows = [row for batch in batches for row in batch.to_pylist()]
        answers = answers_of(rows, Settings.from_json(settings), shards, poison)
        if answers:
            yield pa.RecordBatch.from_pylist([each._asdict() for each in answers], ANSWERS)

    return answer


def answers_of(
    rows: list[dict[str, Any]], settings: Settings, shards: int, poison: dict[int, list[int]]
) -> list[Answer]:
    """What a share says of entries, given as rows of ``source.ENTRIES``."""
    answers = []
    rows = sorted(rows, key=lambda row: (row["tenant"], row["seq"]))
    for number, given in groupby(rows, lambda row: row["tenant"]):
        of_tenant = list(given)
        entries = [
            Stored(row["seq"], row["at"], number, row["kind"], row["body"], row["n"])
            for row in of_tenant
        ]
        first = of_tenant[0]
        share, avoided = Share(first["share"], shards), frozenset(poison.get(number, ()))
        answers.append(shares.play(settings, share, number, first["after"], entries, avoided))
    return answers


def same(batches: Iterator[Any]) -> Iterator[Any]:
    """Something to do for a worker."""
    yield from batches
