"""Batches of messages: how they are grouped, matched, tuned and timed (paper Batching).

``settings`` says what can be asked for; ``minibatches`` groups messages that are alike; ``probing``
runs a strategy of section 3.5 on one index; ``tuning`` finds the size of minibatches while running;
``latency`` says how many messages to wait for.
"""

from germane.batch.latency import BatchControl
from germane.batch.settings import Batching, ByValue, FixedNumber, FixedSize, Grouping

__all__ = ["BatchControl", "Batching", "ByValue", "FixedNumber", "FixedSize", "Grouping"]
