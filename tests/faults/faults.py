"""What goes wrong. Each fault takes a stream that runs and has settled, and leaves it so.

``AT_ONCE`` can also strike in the first micro-batch, where shards take what was there before.

A fault publishes parts of the scene itself, so that something is under way when it strikes, and
says in ``play.counts`` what it has done.
"""

import random
import time
from collections.abc import Callable

from tests.faults import checkpoint
from tests.faults.play import Play
from tests.faults.process import Failed, kill
from tests.faults.sinks import ORDER

Fault = Callable[[Play, random.Random], None]
BATCH_S = 180
"""A micro-batch has begun, or ended, by then."""
CUTS = ("any time", "at once", "computing", "writing", "written", "done")
"""Where in a micro-batch a driver is killed."""


def kill_workers(play: Play, pick: random.Random) -> None:
    """Python workers die while they compute: their tasks are tried again.

    The first is one that was asked to stand still in a task, so that something is hit however
    quick a micro-batch is; the others die wherever they are.
    """
    lost = play.driver.n_lost_tasks()
    for _ in range(min(pick.randint(1, 2), play.n_left)):
        before = checkpoint.planned(play.root)
        play.driver.order_still(pick.choice(("before", "after")))
        play.publish()
        play.driver.ask("settle")
        _wait_until_planned(play, before + 1)
        still = play.driver.standing_still(BATCH_S, lambda: checkpoint.running(play.root))
        for worker in still:
            play.counts["workers killed"] += kill(worker)
        play.driver.end_order()
        if pick.random() < 0.5:  # a task has four attempts
            time.sleep(pick.random() * pick.choice((0.0, 0.05, 0.4)))  # a batch may be quick
            play.counts["workers killed"] += _kill_one_at_work(play, pick)
        _settled_by_now(play)
    play.counts["tasks lost"] += play.driver.n_lost_tasks() - lost


def move_shards(play: Play, pick: random.Random) -> None:
    """Idle workers die between micro-batches, some or all: copies of shards are gone or stale."""
    for _ in range(pick.randint(2, 3)):
        workers = play.driver.workers()
        n_killed = pick.choice([1, max(1, len(workers) // 2), len(workers)])
        for worker in pick.sample(workers, min(n_killed, len(workers))):
            play.counts["idle workers killed"] += kill(worker)
        if pick.random() < 0.25:
            play.counts["daemons killed"] += kill(pick.choice(play.driver.daemons()))
        play.publish()
        play.settle_somehow()


def kill_driver(play: Play, pick: random.Random) -> None:
    """The process dies in a micro-batch; another goes on, perhaps with more cores or fewer."""
    before = checkpoint.planned(play.root)
    cut = pick.choice(CUTS) if play.n_left else "any time"
    play.publish()
    play.driver.ask("settle")
    _wait_for_cut(play, cut, before + 1, pick)
    play.driver.kill()
    play.counts["kills of the driver"] += 1
    play.counts["kills in a batch"] += checkpoint.running(play.root)
    play.change_driver()
    play.start()
    play.settle_somehow()


def damage_state(play: Play, pick: random.Random) -> None:
    """A file of the state store is damaged while the stream is down: an error, or no matter."""
    play.stop()
    damage = checkpoint.damage_newest(play.root, pick)
    play.counts[f"{damage.file.suffix} files damaged: {damage.what}"] += 1
    play.publish()
    play.start()
    try:
        play.settle()
    except Failed as error:
        play.counts["damage refused"] += 1
        play.note(error)
        play.check()
        _must_be_clear(str(error), damage)
        damage.repair()
        play.start()
        play.settle()
    else:
        play.counts["damage survived"] += 1
        play.check()


def repeat_batch(play: Play, pick: random.Random) -> None:
    """The last micro-batch was done, but its end was not written down: it runs again."""
    play.stop()
    checkpoint.forget_last_commit(play.root)
    play.counts["batches repeated"] += 1
    if pick.random() < 0.5:
        for worker in play.driver.workers():
            play.counts["idle workers killed"] += kill(worker)
    if pick.random() < 0.5:
        play.publish()
    play.start()
    play.settle()


def break_sink(play: Play, pick: random.Random) -> None:
    """The sink raises when it has written a part of a micro-batch; the stream starts again."""
    order = play.root / ORDER
    order.write_text(str(pick.choice([0.0, 0.3, 0.5, 0.9, 1.0])))
    while order.exists() and play.n_left:
        play.publish()
        try:
            play.settle()
        except Failed as error:
            if "Broken" not in str(error):
                raise
            play.counts["sinks broken"] += 1
            play.check()
            play.start()
            play.settle()
    order.unlink(missing_ok=True)


FAULTS: dict[str, Fault] = {
    "workers": kill_workers,
    "shards": move_shards,
    "driver": kill_driver,
    "state": damage_state,
    "repeat": repeat_batch,
    "sink": break_sink,
}
AT_ONCE = ("workers", "driver", "sink")


def _kill_one_at_work(play: Play, pick: random.Random) -> bool:
    """Kill a worker that is on a processor, if there is one before the micro-batch ends."""
    busy = play.driver.at_work(5, lambda: checkpoint.running(play.root))
    return bool(busy) and kill(pick.choice(busy))


def _settled_by_now(play: Play) -> None:
    """Take the answer to the last "settle"; if all attempts at a task were killed, start again."""
    try:
        play.driver.answer()
    except Failed as error:
        play.forgive(error)
    play.settle_somehow()


def _wait_for_cut(play: Play, cut: str, batch: int, pick: random.Random) -> None:
    """Let a micro-batch come to some point, then a little more."""
    play.counts[f"cut {cut}"] += 1
    if cut == "any time":
        time.sleep(pick.random() * 2)
        return
    _wait_until_planned(play, batch)

    def done() -> bool:
        return checkpoint.committed(play.root) >= batch

    def begun() -> bool:
        return done() or _any(play, "out/_writing/**/*.parquet", "out/*.part", "out.db-journal")

    def written() -> bool:
        return done() or _any(play, f"out/*/batch={batch}", f"out/{batch}-*.whole")

    if cut == "computing":
        play.driver.at_work(BATCH_S, lambda: not done())
    elif cut == "writing":
        checkpoint.wait_for(begun, BATCH_S)
    elif cut == "written":
        checkpoint.wait_for(written, BATCH_S)
    elif cut == "done":
        checkpoint.wait_for(done, BATCH_S)
    time.sleep(pick.choice([0, pick.random() * 0.02, pick.random() * 0.5]))


def _any(play: Play, *patterns: str) -> bool:
    """Whether the sink has such files."""
    try:
        return any(any(play.root.glob(pattern)) for pattern in patterns)
    except FileNotFoundError:  # a directory that went away meanwhile
        return False


def _wait_until_planned(play: Play, batch: int) -> None:
    checkpoint.wait_for(lambda: checkpoint.planned(play.root) >= batch, BATCH_S)


def _must_be_clear(error: str, damage: checkpoint.Damage) -> None:
    """An error names the file, or says that the state store could not be read."""
    words = (damage.file.name, "state store", "STATE_STORE", "StateStore", "changelog", "corrupt")
    assert any(word in error for word in words), error
