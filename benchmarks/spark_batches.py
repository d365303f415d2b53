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
Java still spends as much on compiling as on the job, after some hundred a tenth of that. Then all
take turns of the same length, each of as many jobs as fit; nobody works while it is another's turn.
SQL and germane have a Spark each, of the same settings: the gigabytes that SQL keeps would make the
garbage of everybody in its Java dearer to collect.

What is compared is a job on messages that are cached already, from the call of `match` to its last
row: the driver's planning counts, reading messages from wherever they are does not.

Then, at larger batches, germane on Spark against the embedded filter on the same two cores: two
processes with half of the profiles each, which both match all messages, as the two shards do. Both
sides deliver in the same form, and there are three: a list of profiles a message (what shards give
to Spark, and `Deliveries.to_lists`), a row a delivery (`spark.match`, and `Deliveries.to_arrow`),
and rows that are used, as above (by Spark; by Arrow), which is how answers are compared.
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
USED, STORED, LISTS = "rows, used", "rows, stored", "lists, stored"
EMBEDDED, ONLY, ALONE = "embedded", "matched only", "Spark alone: fan out, shuffle, sort"
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
    sums[GERMANE] = digest(ready.match(messages), "seq", "profile")
    jobs: dict[str, Callable[[], Any]] = {
        f"{GERMANE}, {USED}": lambda: digest(ready.match(messages), "seq", "profile"),
        f"{GERMANE}, {STORED}": lambda: noop(ready.match(messages).select("seq", "profile")),
        f"{GERMANE}, {LISTS}": lambda: noop(ready.play(messages).found),
    }
    warm_up(jobs.values(), chosen.warm_seconds)

    def told(name: str) -> Turn:
        def turn(seconds: float) -> float:
            pipe.send((name, seconds))
            return float(pipe.recv())

        return turn

    turns: dict[str, Turn] = {name: partial(timed, job, chosen.batch) for name, job in jobs.items()}
    rates = in_turns(turns | {name: told(name) for name in names}, chosen.rounds, chosen.turn)
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


def _embedded(part: int, chosen: Any, gate: Any, out: Any) -> None:
    """Half of the profiles in a process of its own; both match the same messages at once."""
    work = rq(chosen.profiles, chosen.seed)
    f = germane.Filter(schema=dict.fromkeys(ATTRIBUTES, "number"))
    ids = np.arange(chosen.profiles)[part::2]
    conditions = work.conditions()[part::2]
    f.subscribe_many(ids, conditions)
    drawn = work.messages(chosen.large_batch, chosen.seed + 2)
    table = pa.table(
        {"seq": np.arange(len(drawn)), "kind": ["message"] * len(drawn),
         "id": np.arange(len(drawn))}
        | {name: drawn[:, a] for a, name in enumerate(ATTRIBUTES)}
    )  # fmt: skip
    for round_ in range(2 + chosen.large_rounds):
        for name, form in FORMS.items():
            gate.wait()
            f.rewind()
            start = time.perf_counter()
            found = f.process(table)
            answer = form(found) if form is not None else None
            took = time.perf_counter() - start
            if round_ > 1:
                out.put((part, name, took, answer if form is use else None))


def embedded(chosen: Any) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    gate, out = context.Barrier(2), context.Queue()
    workers = [context.Process(target=_embedded, args=(p, chosen, gate, out)) for p in range(2)]
    for worker in workers:
        worker.start()
    told = [out.get() for _ in range(2 * len(FORMS) * chosen.large_rounds)]
    for worker in workers:
        worker.join()
    rates = {}
    for name in FORMS:
        per = [[t for p, kind, t, _ in told if (p, kind) == (part, name)] for part in range(2)]
        rates[name] = [chosen.large_batch / max(pair) for pair in zip(*per, strict=True)]
    halves = {p: answer for p, _, _, answer in told if answer}
    sums = [sum(both) for both in zip(*halves.values(), strict=True)]
    return {"rates": rates, "sums": sums}


def overhead(session: Any, work: Any, ready: Any, chosen: Any) -> dict[str, Any]:
    console.print(f"embedded, two processes, {chosen.large_batch:,} messages a batch")
    alone = embedded(chosen)
    messages = messages_frame(session, work.messages(chosen.large_batch, chosen.seed + 2))
    sums = list(digest(ready.match(messages), "seq", "profile"))
    only = messages.selectExpr("*", "explode(sequence(0, 1)) _k").repartitionById(2, "_k")
    jobs = {
        f"{GERMANE}, {LISTS}": lambda: noop(ready.play(messages).found),
        f"{GERMANE}, {STORED}": lambda: noop(ready.match(messages)),
        f"{GERMANE}, {USED}": lambda: digest(ready.match(messages), "seq", "profile"),
        ALONE: lambda: noop(only.sortWithinPartitions("seq")),
    }
    warm_up(jobs.values(), chosen.warm_seconds / 4)  # Java has compiled most of it before
    turns: dict[str, Turn] = {
        name: partial(timed, job, chosen.large_batch) for name, job in jobs.items()
    }
    rates = {**alone["rates"], **in_turns(turns, chosen.large_rounds, chosen.turn)}
    return {"rates": rates, "answers_agree": sums == alone["sums"]}


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
    parser.add_argument("--warm-seconds", type=float, default=90.0, help="of each side")
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
    whole = spark.prepare(one, profiles, shards=1)
    prepared_s = time.perf_counter() - start
    console.print(f"prepared {whole.profiles:,} profiles in {prepared_s:.1f} s")
    sql = against_sql(session, work, whole, chosen)
    show(f"RQ, batches of {chosen.batch:,}", sql["rates"])
    halves = spark.prepare(one, profiles, shards=2)
    large = overhead(session, work, halves, chosen)
    show(f"RQ, batches of {chosen.large_batch:,}, two cores", large["rates"])
    session.stop()
    bars = [
        Bar(
            f"{GERMANE} / {name}, {form}",
            ratio(sql["rates"][f"{GERMANE}, {form}"], sql["rates"][f"{name}, {form}"]),
            wanted,
        )
        for name, wanted in WANTED.items()
        for form in (USED, STORED, LISTS)
        if f"{name}, {form}" in sql["rates"]
    ]
    for form in (USED, STORED, LISTS):
        rates = large["rates"]
        share = ratio(rates[f"{GERMANE}, {form}"], rates[f"{EMBEDDED}, {form}"])
        bars.append(Bar(f"{GERMANE} / {EMBEDDED}, {form}", share, OVERHEAD))
    show_bars(bars)
    observed = {"prepared_s": prepared_s, "sql": sql, "large": large,
                "bars": [bar.as_dict() for bar in bars]}  # fmt: skip
    path = record.write("spark_batches", vars(chosen), observed)
    console.print(f"record: {os.path.relpath(path)}")
    return 0 if sql["answers_agree"] and large["answers_agree"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
