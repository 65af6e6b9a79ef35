"""Metrics for Prometheus.

They are totals: bids are sealed, so no metric describes a single user or job.
"""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from auctune.service.accounts.limits import JobQuota
from auctune.service.storage.events import EventType, ZoneEvent
from auctune.service.storage.read_model import Effects
from auctune.service.webhooks.dispatcher import TERMINAL_STATUS

# Clients may send any method, and label values are never freed.
_METHODS = frozenset(("GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"))
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    """Counters since the start of the service."""

    def __init__(self, open_jobs: JobQuota) -> None:
        self._registry = CollectorRegistry()
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
            "Attempts to deliver webhooks: delivered or failed; and deliveries dropped.",
            ("outcome",),
            registry=self._registry,
        )
        self._tokens = Counter(
            "auctune_tokens",
            "Tokens of prompts that were read, and of answers.",
            ("base", "part"),
            registry=self._registry,
        )
        Gauge("auctune_jobs_open", "Open jobs.", registry=self._registry).set_function(
            lambda: open_jobs.count
        )

    def observe_request(self, route: str, method: str, status: int, seconds: float | None) -> None:
        """Count a request and its duration, which is None for a stream."""
        method = method if method in _METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        if seconds is not None:
            self._seconds.labels(route, method).observe(seconds)

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
