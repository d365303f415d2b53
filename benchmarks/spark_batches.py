"""Batch jobs on Spark: `germane.spark` against what a user of Spark SQL would write.

    python -m benchmarks.spark_batches --profiles 500000

RQ, local Spark with two cores, a batch of messages at a time. Everybody has its profiles ready:
germane has prepared them, as one shard that all workers have, SQL has them cached, and exploded
into bins of the best attribute where it joins by bins (the numbers of bins are tried, the best
counts). All give the same two columns, a row a delivery. What is done with the rows is the same for
all, and there are two things: *used*, Spark counts them and sums up a column and a product, which
is also what answers are compared by; and *stored*, every row is handed to Spark's `noop` sink.
Beside these stands another form, a list of profiles a message, which SQL has to collect, handed to
the sink. The nested-loop join, one job of which takes minutes, runs on fewer messages. Before
anything is timed, the jobs of either side have run for as long: after a dozen jobs of germane's,
Java still spends as much on compiling as on the job, after a thousand a tenth of that. Then all
take turns of the same length, each of as many jobs as fit; nobody works while it is another's turn.
SQL and germane have a Spark each, of the same settings: the gigabytes that SQL keeps would make the
garbage of everybody in its Java dearer to collect.

What is compared is a job on messages that are cached already, from the call of `match` to its last
row: the driver's planning counts, reading messages from wherever they are does not. SQL's joins
take it for granted that no message is there twice; germane finds out, by a shuffle, unless it is
told. It is measured both ways: as it is, and *distinct*, where it is told.

Then, at larger batches, germane on Spark against the embedded filter on the same two cores: two
processes that have all profiles, each of which matches half of the messages, as the two workers do.
Both sides deliver in the same form, by turns, and there are three: a list of profiles a message
(what shards give to Spark, and `Deliveries.to_lists`), a row a delivery (`spark.match`, and
`Deliveries.to_arrow`), and rows that are used, as above (by Spark; by Arrow), which is how answers
are compared.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table

import germane
from germane import spark

from . import record
from .peers import bound_columns
from .rounds import Bar, console, ratio, show_bars
from .workloads import ATTRIBUTES, DOMAIN, N_ATTRIBUTES, rq

GERMANE, BINS, LOOPS = "germane.spark", "Spark SQL, bins", "Spark SQL, nested loops"
TOLD = f"{GERMANE}, distinct"
PROMISED = {GERMANE: False, TOLD: True}
USED, STORED, LISTS = "rows, used", "rows, stored", "lists, stored"
EMBEDDED, ONLY, ALONE = "embedded", "matched only", "Spark alone: shuffle"
WANTED = {BINS: 20.0, LOOPS: 200.0}
OVERHEAD = 0.6

Turn = Callable[[float], float]
"""Seconds -> messages a second."""


def messages_frame(session: Any, messages: np.ndarray) -> Any:
    """Messages as germane takes them, cached."""
    table = pa.table(
        {"seq": np.arange(len(messages)), "id": np.arange(len(messages))}
        | {name: messages[:, a] for a, name in enumerate(ATTRIBUTES)}
    )
    frame = session.createDataFrame(table).repartition(2).cache()
    frame.count()
    return frame


def noop(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def digest(deliveries: Any, message: str, profile: str) -> tuple[int, ...]:
    """Deliveries as three sums."""
    sums = ("count(*)", f"sum({profile})", f"sum({message} * ({profile} & 1048575))")
    return tuple(deliveries.selectExpr(*sums).first())


class Sql:
    """Profiles as columns of bounds, and the two joins."""

    def __init__(self, session: Any, work: Any, n_bins: int) -> None:
        from pyspark.sql import functions as fn

        self.session, self.work, self.n_bins = session, work, n_bins
        order = work.order
        columns = {name: pa.array(c) for name, c in bound_columns(work, order).items()}
        profiles = session.createDataFrame(pa.table(columns)).repartition(2)
        if n_bins:
            width = DOMAIN / n_bins
            first, last = (fn.floor(fn.col(c) / width).cast("int") for c in ("l0", "h0"))
            profiles = profiles.withColumn("bin", fn.explode(fn.sequence(first, last)))
            profiles = profiles.repartition(2, "bin").sortWithinPartitions("bin")
        self.profiles = profiles.cache()
        self.profiles.count()

    def join(self, messages: Any) -> Any:
        from pyspark.sql import functions as fn

        named = [fn.col(ATTRIBUTES[a]).alias(f"v{i}") for i, a in enumerate(self.work.order)]
        asked = messages.select(fn.col("seq").alias("message"), *named)
        inside = fn.lit(True)
        for a in range(N_ATTRIBUTES):
            inside &= fn.col(f"v{a}").between(fn.col(f"l{a}"), fn.col(f"h{a}"))
        if self.n_bins:
            width = DOMAIN / self.n_bins
            asked = asked.withColumn("mbin", fn.floor(fn.col("v0") / width).cast("int"))
            inside &= fn.col("bin") == fn.col("mbin")
        return self.profiles.join(fn.broadcast(asked), inside).select("message", "row")

    def lists(self, messages: Any) -> Any:
        from pyspark.sql import functions as fn

        return self.join(messages).groupBy("message").agg(fn.collect_list("row"))

    def close(self) -> None:
        self.profiles.unpersist()


def warm_up(jobs: Iterable[Callable[[], Any]], seconds: float) -> None:
    """All jobs, one after the other, for so long: workers load their shards, Java compiles."""
    start = time.perf_counter()
    for job in itertools.cycle(jobs):
        job()
        if time.perf_counter() - start > seconds:
            return


def timed(job: Callable[[], Any], n_messages: int, seconds: float = 0.0) -> float:
    """Messages a second of a job, repeated for so long; once at least."""
    start, n = time.perf_counter(), 0
    while not n or time.perf_counter() - start < seconds:
        job()
        n += 1
    return n * n_messages / (time.perf_counter() - start)


def in_turns(turns: dict[str, Turn], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Messages a second of each in each round."""
    rates: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(rounds):
        for name, turn in turns.items():
            rates[name].append(turn(seconds))
    return rates


def local_session(chosen: Any) -> Any:
    memory = {"spark.driver.memory": chosen.driver_memory}
    return spark.session(master="local[2,4]", settings=memory)


def draw(work: Any, chosen: Any) -> np.ndarray:
    drawn: np.ndarray = work.messages(chosen.batch, chosen.seed + 1)
    return drawn


def sql_side(pipe: Any, chosen: Any) -> None:
    """A process with a Spark of its own: does the jobs of SQL that it is told, one at a time."""
    session, work = local_session(chosen), rq(chosen.profiles, chosen.seed)
    drawn = draw(work, chosen)
    messages = messages_frame(session, drawn)
    few = messages_frame(session, drawn[: chosen.loop_messages])
    sums, tried = {}, {}
    for n_bins in chosen.bins:
        sql = Sql(session, work, n_bins)
        sums[f"{BINS}, {n_bins}"] = digest(sql.join(messages), "message", "row")
        tried[n_bins] = timed(lambda sql=sql: noop(sql.join(messages)), chosen.batch)
        console.print(f"  {n_bins} bins: {tried[n_bins]:,.0f} messages/s")
        sql.close()
    bins, loops = Sql(session, work, max(tried, key=tried.__getitem__)), Sql(session, work, 0)
    few_sums = digest(loops.join(few), "message", "row")
    n, n_few = chosen.batch, chosen.loop_messages
    jobs = {
        f"{BINS}, {USED}": (lambda: digest(bins.join(messages), "message", "row"), n),
        f"{BINS}, {STORED}": (lambda: noop(bins.join(messages)), n),
        f"{BINS}, {LISTS}": (lambda: noop(bins.lists(messages)), n),
        f"{LOOPS}, {USED}": (lambda: digest(loops.join(few), "message", "row"), n_few),
        f"{LOOPS}, {STORED}": (lambda: noop(loops.join(few)), n_few),
    }
    warm_up([job for job, _ in jobs.values()], chosen.warm_seconds)
    pipe.send((sums, few_sums, tried, list(jobs)))
    while (asked := pipe.recv()) is not None:
        name, seconds = asked
        pipe.send(timed(*jobs[name], seconds))
    session.stop()


def jobs_of_germane(ready: Any, messages: Any, *columns: str) -> dict[str, Callable[[], Any]]:
    """Every form, with and without the promise; rows are stored with these columns."""
    jobs: dict[str, Callable[[], Any]] = {}
    for name, told in PROMISED.items():
        match = partial(ready.match, messages, distinct=told)
        play = partial(ready.play, messages, distinct=told)
        jobs[f"{name}, {USED}"] = lambda m=match: digest(m(), "seq", "profile")
        jobs[f"{name}, {STORED}"] = lambda m=match: noop(m().select(*columns))
        jobs[f"{name}, {LISTS}"] = lambda p=play: noop(p().found)
    return jobs


def against_sql(session: Any, work: Any, ready: Any, chosen: Any) -> dict[str, Any]:
    """Batches of some thousand messages, in turns."""
    pipe, other = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=sql_side, args=(other, chosen))
    process.start()
    other.close()  # so that its end is noticed
    sums, few_sums, tried, names = pipe.recv()
    drawn = draw(work, chosen)
    messages = messages_frame(session, drawn)
    few = messages_frame(session, drawn[: chosen.loop_messages])
    for name, told in PROMISED.items():
        sums[name] = digest(ready.match(messages, distinct=told), "seq", "profile")
    jobs = jobs_of_germane(ready, messages, "seq", "profile")  # as SQL's joins
    warm_up(jobs.values(), chosen.warm_seconds)

    def ask(name: str, seconds: float) -> float:
        pipe.send((name, seconds))
        return float(pipe.recv())

    turns: dict[str, Turn] = {name: partial(timed, job, chosen.batch) for name, job in jobs.items()}
    turns |= {name: partial(ask, name) for name in names}
    rates = in_turns(turns, chosen.rounds, chosen.turn)
    pipe.send(None)
    process.join()
    agree = few_sums == digest(ready.match(few), "seq", "profile")
    agree = agree and len(set(sums.values())) == 1
    return {"rates": rates, "bins": tried, "sums": sums, "answers_agree": agree}


# embedded on two cores -------------------------------------------------------------------------


def use(found: Any) -> tuple[int, ...]:
    """What ``digest`` computes, by Arrow."""
    rows = found.to_arrow()
    product = pc.multiply(rows["seq"], pc.bit_wise_and(rows["profile"], 1048575))
    return rows.num_rows, pc.sum(rows["profile"]).as_py(), pc.sum(product).as_py()


FORMS: dict[str, Callable[[Any], Any] | None] = {
    f"{EMBEDDED}, {LISTS}": lambda found: found.to_lists(),
    f"{EMBEDDED}, {STORED}": lambda found: found.to_arrow(),
    f"{EMBEDDED}, {USED}": use,
    f"{EMBEDDED}, {ONLY}": None,
}


def _embedded(part: int, pipe: Any, chosen: Any) -> None:
    """A process with all profiles: matches its half of the messages, in the form it is told."""
    work = rq(chosen.profiles, chosen.seed)
    f = germane.Filter(schema=dict.fromkeys(ATTRIBUTES, "number"))
    f.subscribe_many(np.arange(chosen.profiles), work.conditions())
    drawn = work.messages(chosen.large_batch, chosen.seed + 2)
    seqs = np.arange(len(drawn))[part::2]
    table = pa.table(
        {"seq": seqs, "kind": ["message"] * len(seqs), "id": seqs}
        | {name: drawn[seqs, a] for a, name in enumerate(ATTRIBUTES)}
    )
    while (name := pipe.recv()) is not None:
        f.rewind()
        found, form = f.process(table), FORMS[name]
        answer = form(found) if form is not None else None
        pipe.send(answer if form is use else None)


class Embedded:
    """Two processes with a filter each."""

    def __init__(self, chosen: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipes = []
        for part in range(2):
            pipe, other = multiprocessing.Pipe()
            context.Process(target=_embedded, args=(part, other, chosen), daemon=True).start()
            other.close()  # so that its end is noticed
            self.pipes.append(pipe)

    def job(self, name: str) -> list[Any]:
        """A batch, half of it by each."""
        for pipe in self.pipes:
            pipe.send(name)
        return [pipe.recv() for pipe in self.pipes]

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.send(None)


def overhead(session: Any, work: Any, ready: Any, chosen: Any) -> dict[str, Any]:
    """Larger batches, in turns with embedded filters."""
    console.print(f"embedded, two processes, {chosen.large_batch:,} messages a batch")
    alone = Embedded(chosen)
    halves = alone.job(f"{EMBEDDED}, {USED}")
    messages = messages_frame(session, work.messages(chosen.large_batch, chosen.seed + 2))
    sums = digest(ready.match(messages), "seq", "profile")
    jobs = {name: partial(alone.job, name) for name in FORMS}
    jobs |= jobs_of_germane(ready, messages, "*")  # four columns, as embedded
    jobs[ALONE] = lambda: noop(messages.repartition(2, "seq"))
    warm_up(jobs.values(), chosen.warm_seconds / 4)  # Java has compiled most of it before
    turns: dict[str, Turn] = {
        name: partial(timed, job, chosen.large_batch) for name, job in jobs.items()
    }
    rates = in_turns(turns, chosen.large_rounds, chosen.turn)
    alone.close()
    agree = list(sums) == [sum(both) for both in zip(*halves, strict=True)]
    return {"rates": rates, "answers_agree": agree}


def show(title: str, rates: dict[str, list[float]]) -> None:
    table = Table("what", "messages/s", "times the first", title=title)
    first = next(iter(rates))
    for name, found in rates.items():
        times = float(np.median(found) / np.median(rates[first]))
        table.add_row(name, f"{np.median(found):,.0f}", f"{times:.3f}")
    console.print(table)


def main(arguments: list[str] | None = None) -> int:
    """Run, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--profiles", type=int, default=500_000)
    parser.add_argument("--batch", type=int, default=5_000)
    parser.add_argument("--loop-messages", type=int, default=500)
    parser.add_argument("--large-batch", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large-rounds", type=int, default=5)
    parser.add_argument("--warm-seconds", type=float, default=180.0, help="of each side")
    parser.add_argument("--turn", type=float, default=2.0, help="seconds a turn, at least")
    parser.add_argument("--bins", type=int, nargs="*", default=[100, 400, 1600])
    parser.add_argument("--driver-memory", default="8g")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)

    session = local_session(chosen)
    work = rq(chosen.profiles, chosen.seed)
    profiles = session.createDataFrame(
        pa.table({"id": np.arange(chosen.profiles), "condition": work.conditions()})
    ).repartition(2)
    one = messages_frame(session, work.messages(1, chosen.seed))
    start = time.perf_counter()
    ready = spark.prepare(one, profiles, shards=1)
    prepared_s = time.perf_counter() - start
    console.print(f"prepared {ready.profiles:,} profiles in {prepared_s:.1f} s")
    sql = against_sql(session, work, ready, chosen)
    show(f"RQ, batches of {chosen.batch:,}", sql["rates"])
    large = overhead(session, work, ready, chosen)
    show(f"RQ, batches of {chosen.large_batch:,}, two cores", large["rates"])
    session.stop()
    bars = [
        Bar(
            f"{ours} / {name}, {form}",
            ratio(part["rates"][f"{ours}, {form}"], part["rates"][f"{name}, {form}"]),
            wanted,
        )
        for part, peers in ((sql, WANTED), (large, {EMBEDDED: OVERHEAD}))
        for name, wanted in peers.items()
        for ours in PROMISED
        for form in (USED, STORED, LISTS)
        if f"{name}, {form}" in part["rates"]
    ]
    show_bars(bars)
    observed = {"prepared_s": prepared_s, "sql": sql, "large": large,
                "bars": [bar.as_dict() for bar in bars]}  # fmt: skip
    path = record.write("spark_batches", vars(chosen), observed)
    console.print(f"record: {os.path.relpath(path)}")
    return 0 if sql["answers_agree"] and large["answers_agree"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
