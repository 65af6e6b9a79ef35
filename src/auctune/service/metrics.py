"""Metrics for Prometheus.

They are totals, and by user only what requests have used: bids are sealed, so no metric describes
those of a single user, or a job.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily
from prometheus_client.registry import Collector

from auctune.service.accounts.limits import OpenJobs
from auctune.service.fair_queue import Use
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.storage.queries import Effects
from auctune.service.webhooks.dispatcher import TERMINAL_STATUS

# Clients may send any method, and label values are never freed.
_METHODS = frozenset(("GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"))
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


NOTHING_USED: Mapping[str, Use] = MappingProxyType({})


class Metrics:
    """Counters since the start of the service.

    Args:
        open_jobs: counts open jobs.
        used: what the requests of each user have used.
    """

    def __init__(self, open_jobs: OpenJobs, used: Mapping[str, Use] = NOTHING_USED) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_UseByUser(used))
        self._requests = Counter(
            "auctune_http_requests",
            "Requests by route, method and status.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "auctune_http_request_seconds",
            "Time to the end of the response, by route and method.",
            ("route", "method"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._events = Counter(
            "auctune_events", "Committed events.", ("zone", "type"), registry=self._registry
        )
        self._decisions = Counter(
            "auctune_decisions",
            "Decided bids: admitted, or the reason for the rejection.",
            ("zone", "outcome"),
            registry=self._registry,
        )
        self._endings = Counter(
            "auctune_jobs_ended",
            "Jobs that have ended after the response to their bid.",
            ("zone", "outcome"),
            registry=self._registry,
        )
        self._webhooks = Counter(
            "auctune_webhook_attempts",
            "Attempts to deliver webhooks: delivered, failed; and deliveries given up: dropped.",
            ("outcome",),
            registry=self._registry,
        )
        self._tokens = Counter(
            "auctune_tokens",
            "Tokens of prompts that were read, and of answers.",
            ("base", "part"),
            registry=self._registry,
        )
        self._steps = Gauge(
            "auctune_loop_step_seconds",
            "Longest CPU time for which a request held the event loop at once, by route.",
            ("route",),
            registry=self._registry,
        )
        self._longest: dict[str, float] = {}
        Gauge("auctune_jobs_open", "Open jobs.", registry=self._registry).set_function(
            lambda: open_jobs.count
        )

    def observe_request(self, route: str, method: str, status: int, seconds: float | None) -> None:
        """Count a request and its duration, which is None for a stream."""
        method = method if method in _METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        if seconds is not None:
            self._seconds.labels(route, method).observe(seconds)

    def observe_step(self, route: str, seconds: float) -> None:
        """Note for how long a request held the event loop at once, at most."""
        if seconds > self._longest.get(route, 0.0):
            self._longest[route] = seconds
            self._steps.labels(route).set(seconds)

    def forget_steps(self) -> None:
        """Begin anew with `observe_step`."""
        self._longest.clear()
        self._steps.clear()

    def observe_events(self, events: Sequence[tuple[ZoneEvent, Effects]]) -> None:
        for event, _ in events:
            self._events.labels(event.zone, str(event.type)).inc()
            if event.type == EventType.DECIDED:
                decision = event.body["decision"]
                outcome = "admitted" if decision["admitted"] else str(decision["reason"])
                self._decisions.labels(event.zone, outcome).inc()
            elif event.type in TERMINAL_STATUS:
                self._endings.labels(event.zone, TERMINAL_STATUS[event.type]).inc()

    def observe_webhook(self, outcome: str) -> None:
        """Count an attempt to deliver a webhook, or a delivery that was dropped."""
        self._webhooks.labels(outcome).inc()

    def observe_tokens(self, base: str, part: str, count: int) -> None:
        """Count tokens of a `prompt`, or of a `completion`."""
        self._tokens.labels(base, part).inc(count)

    def render(self) -> bytes:
        return generate_latest(self._registry)


class _UseByUser(Collector):
    """What the requests of each user have used."""

    def __init__(self, used: Mapping[str, Use]) -> None:
        self._used = used

    def collect(self) -> Iterator[CounterMetricFamily]:
        seconds = CounterMetricFamily(
            "auctune_used_seconds",
            "Time that requests have used, by user, and of what: loop, threads or processes.",
            labels=("user", "of"),
        )
        size = CounterMetricFamily(
            "auctune_used_bytes",
            "Bytes of bodies, by user, received (in) or sent (out).",
            labels=("user", "direction"),
        )
        for user, use in dict(self._used).items():
            seconds.add_metric((user, "loop"), use.loop_seconds)
            seconds.add_metric((user, "threads"), use.thread_seconds)
            seconds.add_metric((user, "processes"), use.process_seconds)
            size.add_metric((user, "in"), use.bytes_in)
            size.add_metric((user, "out"), use.bytes_out)
        yield seconds
        yield size
