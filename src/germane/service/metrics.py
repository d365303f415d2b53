"""Prometheus metrics: counters of the api process, and gauges of the others from their table."""

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

from germane.service.gauges import BOUNDS_S

MATCHER = {
    "events": "Events that were matched or applied",
    "messages": "Messages that were matched",
    "deliveries": "Deliveries that were written",
    "rejected": "Events that became dead letters",
}


class Metrics:
    """What the api process counts itself."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.accepted = Counter(
            "germane_events_accepted", "Events on disk", ["tenant"], registry=self.registry
        )
        self.requests = Counter(
            "germane_requests", "Requests", ["method", "path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "germane_request_seconds", "Time of requests", ["path"], registry=self.registry
        )
        self.sse_clients = Gauge(
            "germane_sse_clients", "Open streams of deliveries", registry=self.registry
        )

    def text(self, others: "Others") -> bytes:
        """The metrics page."""
        registry = CollectorRegistry()
        registry.register(others)
        own: bytes = generate_latest(self.registry)
        return own + bytes(generate_latest(registry))


class Others:
    """What other processes have written into the table of gauges."""

    def __init__(
        self,
        matcher: dict[str, Any],
        courier: dict[str, Any],
        last_seq: int,
        outbox: dict[str, int],
    ) -> None:
        self.matcher = matcher
        self.courier = courier
        self.last_seq = last_seq
        self.outbox = outbox

    def collect(self) -> Iterator[Any]:
        """As the client library wants it."""
        yield GaugeMetricFamily("germane_log_last_seq", "Last event of the log", self.last_seq)
        for name, words in MATCHER.items():
            family = CounterMetricFamily(f"germane_{name}", words, labels=["tenant"])
            for tenant, figures in self.matcher.items():
                family.add_metric([tenant], figures[name])
            yield family
        for name, key, words in (
            ("germane_matcher_position", "position", "Last event that is in the tables"),
            ("germane_matcher_lag_events", "lag", "Events that wait to be matched"),
            ("germane_subscriptions", "subscriptions", "Active subscriptions"),
            ("germane_contexts", "contexts", "Contexts"),
            ("germane_matcher_busy_seconds", "busy_seconds", "Seconds spent in filters"),
        ):
            gauge = GaugeMetricFamily(name, words, labels=["tenant"])
            for tenant, figures in self.matcher.items():
                gauge.add_metric([tenant], figures[key])
            yield gauge
        yield self._latency()
        for state, n in self.outbox.items():
            yield GaugeMetricFamily(f"germane_outbox_{state}", f"Webhooks {state}", n)
        attempts = CounterMetricFamily(
            "germane_webhook_attempts", "Attempts to reach webhooks", labels=["outcome"]
        )
        for outcome, n in self.courier.get("attempts", {}).items():
            attempts.add_metric([outcome], n)
        yield attempts

    def _latency(self) -> Any:
        family = HistogramMetricFamily(
            "germane_accept_to_delivery_seconds",
            "From the door to the tables",
            labels=["tenant"],
        )
        for tenant, figures in self.matcher.items():
            total, buckets = 0, []
            for bound, n in zip((*BOUNDS_S, "+Inf"), figures["buckets"], strict=True):
                total += n
                buckets.append((str(bound), total))
            family.add_metric([tenant], buckets, figures["latency_sum_s"])
        return family
