"""Progress lines during a soak, and the tables of its result."""

import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from rich.console import Console
from rich.table import Table

from auctune.service.event_writer import from_minor_units
from auctune.service.ledger import REVENUE
from auctune.service.storage.event_log import EventType
from soak.client import Client, ClientRecord
from soak.environment import Environment
from soak.history import History, JobHistory, count_events, count_jobs

_PROGRESS_SECONDS = 15.0
_MAX_VIOLATIONS, _MAX_CHARACTERS = 60, 600


class Progress(threading.Thread):
    """Prints a line of progress, and new violations, every 15 seconds.

    Args:
        environment: of the soak.
        clients: of the soak.
        until: end of the faults, by the monotonic clock.
    """

    def __init__(self, environment: Environment, clients: Sequence[Client], until: float) -> None:
        super().__init__(daemon=True)
        self._environment = environment
        self._clients = clients
        self._until = until
        self._last_fault = ""
        self._printed: set[str] = set()
        self._closed = threading.Event()

    def run(self) -> None:
        while not self._closed.wait(_PROGRESS_SECONDS):
            self._print()

    def on_fault(self, fault: str) -> None:
        """Name a fault in the lines that follow."""
        self._last_fault = f", last: {fault} {time.strftime('%H:%M:%S')}"

    def close(self) -> None:
        """Print a last line."""
        self._closed.set()
        self.join()
        self._print()

    def _print(self) -> None:
        records, data = [client.record for client in self._clients], self._environment.data
        remaining = max(0, round(self._until - time.monotonic()))
        num_requests = sum(len(record.requests) for record in records)
        num_jobs = sum(len(record.jobs) for record in records)
        violations = [one for record in records for one in record.violations]
        violations += self._environment.violations
        for violation in violations:
            if violation not in self._printed:
                self._printed.add(violation)
                print(f"VIOLATION: {violation[:400]}", file=sys.stderr)
        parts = (
            f"{remaining // 60:02d}:{remaining % 60:02d} remaining",
            f"{num_requests} requests, {num_jobs} jobs, {count_events(data)} events",
            f"{self._environment.fault_counts.total()} faults{self._last_fault}",
            " ".join(f"{count} {status}" for status, count in sorted(count_jobs(data).items())),
            *([f"{len(violations)} VIOLATIONS"] if violations else []),
        )
        print(" | ".join(parts), file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class SoakResult:
    """Result of a soak.

    Attributes:
        minutes: duration of bids and faults.
        seed: of all draws.
        history: recorded by the service.
        clients: records of all clients.
        fault_counts, missed_fault_counts: as of `Environment`.
        start_seconds: duration of each start of the service.
        num_results: adapters and networks that load.
        violations: found by the audit; empty if the soak has passed.
    """

    minutes: float
    seed: int
    history: History
    clients: Sequence[ClientRecord]
    fault_counts: Counter[str]
    missed_fault_counts: Counter[str]
    start_seconds: Sequence[float]
    num_results: int
    violations: Sequence[str]


def show(result: SoakResult, console: Console) -> None:
    """Print tables of jobs and faults, a summary, and violations."""
    faults = _faults(result.fault_counts, result.missed_fault_counts)
    for table in (_zones(result.history), _outcomes(result.history), faults):
        console.print(table)
    requests = [request for client in result.clients for request in client.requests]
    starts = result.start_seconds
    console.print(
        f"{result.minutes:g} minutes, seed {result.seed}: {len(requests)} requests for jobs, "
        f"{sum(one.num_unanswered for one in requests)} attempts without a response, "
        f"{sum(max(0, one.num_sent - 1) for one in requests)} retries; "
        f"{sum(map(len, result.history.events.values()))} events, "
        f"{len(result.history.entries)} entries; {result.num_results} results load; "
        f"{len(starts)} starts of the service, median {statistics.median(starts):.1f} s, "
        f"max {max(starts):.1f} s"
    )
    count = len(result.violations)
    for violation in result.violations[:_MAX_VIOLATIONS]:
        text = violation[:_MAX_CHARACTERS]
        console.print(text, style="red", soft_wrap=True, markup=False, highlight=False)
    if count > _MAX_VIOLATIONS:
        console.print(f"and {count - _MAX_VIOLATIONS} more")
    console.print(f"[red]{count} violations" if count else "log, ledger and clients agree")


def _zones(history: History) -> Table:
    columns = ("bids", "admitted", "finished", "failed", "refunded", "cancelled", "slots")
    table = Table("zone", *columns, "revenue", title="jobs")
    for zone in history.events:
        jobs = [job for job in history.jobs.values() if job.zone == zone]
        ends = Counter(job.end.type for job in jobs if job.is_admitted)
        counts = (
            len(jobs),
            sum(job.is_admitted for job in jobs),
            ends[EventType.FINISHED],
            ends[EventType.FAILED],
            sum(job.is_refunded for job in jobs),
            ends[EventType.CANCELLED],
            sum(len(job.events_of(EventType.TRAINED)) for job in jobs),
        )
        revenue = Decimal(from_minor_units(-sum(sum(job.amounts(REVENUE)) for job in jobs)))
        table.add_row(zone, *map(str, counts), str(revenue))
    return table


def _outcomes(history: History) -> Table:
    table = Table("zone", "outcome", "jobs", title="outcomes of jobs")
    counts = Counter((job.zone, _outcome(job)) for job in history.jobs.values())
    for (zone, outcome), count in sorted(counts.items()):
        table.add_row(zone, outcome, str(count))
    return table


def _outcome(job: JobHistory) -> str:
    if job.end.type == EventType.FAILED:
        return f"{job.end.body['code']}{', refunded' if job.is_refunded else ''}"
    if job.end.type == EventType.DECIDED:
        return f"rejected: {job.end.body['decision']['reason']}"
    return str(job.end.type).removeprefix("job.")


def _faults(injected: Counter[str], missed: Counter[str]) -> Table:
    table = Table("fault", "injected", "found nothing to break", title="faults")
    for name, _ in (injected + missed).most_common():
        table.add_row(name, str(injected[name]), str(missed[name]))
    return table
