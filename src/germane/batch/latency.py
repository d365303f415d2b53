"""How many messages to wait for: the latency of a batch, bounded (Batching section 7).

The model, for a steady arrival rate and batches of n:

    average queuing  = n / 2 / rate
    matching         = n * matching of a single message / speed-up
    average latency  = average queuing + matching;  maximum = 2 * average queuing + matching

``BatchControl`` is the paper's batch control as a pure state machine: arrivals and finished batches
go in, with the time at which they happened; out comes how many messages to match now, or how long
to wait. It has no clock and no thread of its own.

The bound. A message waits for the batch that is being matched when it arrives, then for its own
batch to be closed, then for its own matching. Batches are no larger than what is matched in half of
the allowed latency, so the first and the last part fit; a batch is closed so early that its oldest
message is still in time. This holds as long as messages do not arrive faster than they can be
matched; costs are learnt from finished batches and taken a little higher than they were.
"""

from collections import deque
from math import inf

from germane.batch.settings import Batching

MARGIN = 1.25
"""A batch is expected to take so much longer than those before it."""
FORGET = 0.05
RATE_OVER = 32
"""Arrivals that the rate is observed over."""


def average_queuing_s(n: float, rate: float) -> float:
    """How long a message waits for its batch of n to fill, on average."""
    return n / 2.0 / rate


def matching_s(n: float, single_s: float, speedup: float = 1.0) -> float:
    """How long a batch of n is matched."""
    return n * single_s / speedup


def average_latency_s(n: float, rate: float, single_s: float, speedup: float = 1.0) -> float:
    """From arrival to delivery, on average."""
    return average_queuing_s(n, rate) + matching_s(n, single_s, speedup)


def maximum_latency_s(n: float, rate: float, single_s: float, speedup: float = 1.0) -> float:
    """From arrival to delivery, for the first message of a batch."""
    return 2.0 * average_queuing_s(n, rate) + matching_s(n, single_s, speedup)


def batch_size(acceptable_s: float, rate: float, single_s: float, speedup: float = 1.0) -> int:
    """The largest batch whose maximum latency is acceptable; at least one message."""
    return max(int(acceptable_s / (1.0 / rate + single_s / speedup)), 1)


class BatchControl:
    """Decides when a batch is closed.

    With ``adaptive`` batching (the default) nothing waits on purpose: while traffic is low every
    message is matched at once, when a queue builds up it is taken as a batch, and so on until it
    is empty again. Otherwise messages are collected for as long as ``max_latency_ms`` allows, so
    that batches are as large, and matching as cheap, as they can be.

    >>> control = BatchControl(Batching(max_latency_ms=50))
    >>> control.arrive(0.0)
    >>> control.take(0.0)
    1
    >>> control.done(0.001, 1, 0.001)
    """

    def __init__(self, settings: Batching) -> None:
        self.settings = settings
        limit = settings.max_latency_ms
        self._limit_s = inf if limit is None else limit / 1000.0
        self._queue: deque[tuple[float, int]] = deque()  # (time, messages) that wait, oldest first
        self._n_waiting = 0
        self._costs: dict[int, float] = {}  # class of batch size -> seconds a message
        self._arrivals: deque[tuple[float, int]] = deque(maxlen=RATE_OVER)
        self.n_batches = 0
        self.n_messages = 0

    def arrive(self, now_s: float, n: int = 1) -> None:
        """Messages have come."""
        self._queue.append((now_s, n))
        self._arrivals.append((now_s, n))
        self._n_waiting += n

    @property
    def n_waiting(self) -> int:
        """Messages in the queue."""
        return self._n_waiting

    @property
    def rate(self) -> float:
        """Messages a second, lately; infinite while too few came to say."""
        if len(self._arrivals) < 2 or self._arrivals[-1][0] <= self._arrivals[0][0]:
            return inf
        came = sum(n for _, n in self._arrivals) - self._arrivals[0][1]
        return came / (self._arrivals[-1][0] - self._arrivals[0][0])

    def take(self, now_s: float) -> int:
        """How many of the oldest messages to match now; 0: wait."""
        if not self._n_waiting or self.wait_s(now_s) > 0.0:
            return 0
        n = min(self._n_waiting, self.largest())
        self._forget(n)
        return n

    def wait_s(self, now_s: float) -> float:
        """Seconds until a batch should be closed even if nothing more comes; 0: now."""
        if not self._n_waiting:
            return inf
        if self.settings.adaptive or self._limit_s == inf or self._n_waiting >= self.largest():
            return 0.0
        latest = self._queue[0][0] + self._limit_s - self.expected_s(self._n_waiting + 1)
        if now_s + 1.0 / self.rate >= latest:  # the next message would come too late
            return 0.0
        return latest - now_s

    def done(self, now_s: float, n: int, took_s: float) -> None:
        """A batch of n messages was matched."""
        self.n_batches += 1
        self.n_messages += n
        number = n.bit_length()
        cost, known = took_s / n, self._costs.get(number)
        if known is not None and cost < known:
            cost = known + FORGET * (cost - known)  # believe in what is slow at once
        self._costs[number] = cost

    def largest(self) -> int:
        """The most messages that a batch may have: what is matched in half of the latency."""
        if self._limit_s == inf:
            return 1 << 30
        if not self._costs:
            return 1
        half = self._limit_s / 2.0
        n = 1
        while n < 1 << 30 and self.expected_s(2 * n) <= half:
            n *= 2
        step = n // 2
        while step:
            if self.expected_s(n + step) <= half:
                n += step
            step //= 2
        return n

    def expected_s(self, n: int) -> float:
        """How long a batch of n will take: like batches of its size, or in proportion to others.

        A message of a larger batch does not cost more than one of a smaller batch.
        """
        if not self._costs:
            return 0.0
        number = n.bit_length()
        smaller = [cost for known, cost in self._costs.items() if known <= number]
        each = min(smaller) if smaller else max(self._costs.values())
        if number in self._costs:
            each = self._costs[number]
        elif not smaller:
            # Only larger batches are known: a small one costs at most what the least of them did.
            least = min(self._costs)
            return MARGIN * self._costs[least] * (1 << least)
        return MARGIN * each * n

    def _forget(self, n: int) -> None:
        """Take the n oldest messages off the queue."""
        self._n_waiting -= n
        while n:
            time_s, count = self._queue.popleft()
            if count > n:
                self._queue.appendleft((time_s, count - n))
                return
            n -= count

    def describe(self) -> dict[str, float]:
        """What was observed, and what follows from it."""
        return {
            "rate": self.rate,
            "largest": self.largest(),
            "waiting": self._n_waiting,
            "batches": self.n_batches,
            "messages": self.n_messages,
        }
