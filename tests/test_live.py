"""What is shown of a running stream, and how it is stopped; streams are made up."""

import signal

import pytest

pytest.importorskip("rich")

from rich.console import Console

from germane.cli import live


class Counts(dict):
    def asDict(self):
        return dict(self)


def progress(batch, done=True, **counts):
    """Spark's report of a micro-batch, as far as it is read."""
    return {
        "batchId": batch,
        "durationMs": {"triggerExecution": 500} | ({"addBatch": 400} if done else {}),
        "observedMetrics": {"germane": Counts(counts)} if done else {},
        "stateOperators": [{"numShufflePartitions": 2}],
        "sources": [{"metrics": {"numFilesOutstanding": "3"}}, {"metrics": None}],
    }


class Query:
    """A stream that has reported some micro-batches by each time it is asked."""

    def __init__(self, *reports, idle=False):
        self.reports, self.seen, self.stopped = reports, 0, False
        self.status = {"isTriggerActive": not idle}

    def awaitTermination(self, timeout):
        self.seen += 1
        return self.stopped or self.seen >= len(self.reports)

    @property
    def recentProgress(self):
        return self.reports[min(self.seen, len(self.reports)) - 1]

    @property
    def lastProgress(self):
        return self.recentProgress[-1] if self.recentProgress else None

    def stop(self):
        self.stopped = True


def test_a_message_counts_once_though_all_shards_see_it():
    beat = live.Beat.of(progress(4, events=2 * 10 + 5, messages=2 * 10, deliveries=7, held=None))
    assert (beat.batch, beat.events, beat.messages, beat.deliveries) == (4, 15, 10, 7)
    assert (beat.held, beat.waiting, beat.seconds) == (0, 3, 0.5)
    assert beat.line() == (
        "batch 4 · 30 events/s · 10 messages · 7 deliveries · 0 rejected · 0 shards rebuilt"
        " · 0 held · lag 0.5 s and 3 to read"
    )


def test_each_micro_batch_is_shown_once_and_idleness_is_not():
    first, second, third = (progress(n, events=1, messages=0) for n in range(3))
    idle = progress(1, done=False)
    query = Query([], [first], [first, idle], [first, idle], [first, idle, second, third], [third])
    shown = []
    totals = live.follow(query, shown.append)
    assert [beat.batch for beat in shown] == [0, 1, 2]
    assert (totals.n_batches, totals.counts["events"]) == (3, 3)


@pytest.mark.parametrize(
    ("idle", "wanted", "batches"), [(True, 1, 0), (False, 1, 2), (False, 2, 0)]
)
def test_a_wish_to_stop_waits_for_the_micro_batch(idle, wanted, batches):
    reports = [[], [], [progress(0)], [progress(0), progress(1)]] + 9 * [[progress(1)]]
    query = Query(*reports, idle=idle)
    stop = live.Stop()
    shown = []

    def show(beat):
        shown.append(beat)
        if wanted == 1 and not idle:
            stop.wanted = 1

    if idle or wanted > 1:
        stop.wanted = wanted
    live.follow(query, show, stop)
    assert query.stopped
    assert len(shown) == batches


def test_ctrl_c_becomes_a_wish(capsys):
    before = signal.getsignal(signal.SIGINT)
    with live.stopping(Console()) as stop:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert stop.wanted == 2
    assert signal.getsignal(signal.SIGINT) is before
    assert capsys.readouterr().out.count("Stopping") == 1
