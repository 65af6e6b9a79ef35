"""Turns events and their effects into the rows of one transaction, and notifies listeners."""

from collections.abc import Sequence
from decimal import Decimal

import orjson

from auctune.domain.money import STEP
from auctune.service.accounts.budgets import BudgetTracker
from auctune.service.accounts.limits import OPEN, JobQuota
from auctune.service.metrics import Metrics
from auctune.service.notifier import Notifier
from auctune.service.storage import tables
from auctune.service.storage.batch import WriteBatch
from auctune.service.storage.committer import Committer
from auctune.service.storage.event_log import checksum
from auctune.service.storage.queries import JobRow as StoredJob
from auctune.service.webhooks.dispatcher import JOB_ENDED
from auctune.service.zones.core.events import ZoneEvent
from auctune.service.zones.core.read_model import Effects, JobReadModel, Status
from auctune.service.zones.core.zone import EventWriter, OnDone

_STEPS = int(1 / STEP)


class LogWriter:
    """The log of a database, for zones.

    Args:
        committer: writes.
        spending: told of all entries.
    """

    def __init__(self, committer: Committer, spending: BudgetTracker) -> None:
        self._committer = committer
        self._spending = spending

    def next_seq(self) -> int:
        """The next number of the log."""
        return self._committer.next_seq()

    def record(self, happened: Sequence[tuple[ZoneEvent, Effects]], done: OnDone) -> None:
        """Write events, and what they change, in the order of calls; then say so."""
        # A hole in the log would be a promise that nobody remembers.
        unit = WriteBatch(done, is_vital=True)
        rows: dict[str, JobReadModel] = {}
        for event, change in happened:
            unit.insert(tables.events, _event(event))
            if event.body.get("reply") is not None:
                unit.upsert(tables.replies, _reply(event))
            # Only a job's last row would stay in any case.
            rows.update({row.id: row for row in change.rows})
            if change.entries:
                self._spending.record(change.entries, event.at, event.seq)
                first = self._committer.next_seq(len(change.entries))
                unit.insert(
                    tables.entries,
                    *(
                        {
                            "id": first + index,
                            "seq": event.seq,
                            "job": event.job,
                            "account": entry.account,
                            "amount": to_minor_units(entry.amount),
                            "at": event.at,
                        }
                        for index, entry in enumerate(change.entries)
                    ),
                )
        if rows:
            unit.upsert(tables.jobs, *(job_record(row) for row in rows.values()))
        self._committer.submit(unit)


def to_minor_units(amount: Decimal) -> int:
    """Money as the database has it."""
    steps = amount * _STEPS
    assert steps == steps.to_integral_value()
    return int(steps)


def from_minor_units(steps: int) -> Decimal:
    """Money from the database."""
    return Decimal(steps) * STEP


def read_job(stored: StoredJob) -> JobReadModel:
    """A job from the database."""
    return JobReadModel(
        id=stored.id,
        zone=stored.zone,
        seq=stored.seq,
        owner=stored.owner,
        created_at=stored.created_at,
        status=Status(stored.status),
        body=orjson.loads(stored.body),
    )


def job_record(row: JobReadModel) -> dict[str, object]:
    """A job as the database has it."""
    return {
        "id": row.id,
        "seq": row.seq,
        "zone": row.zone,
        "owner": row.owner,
        "created_at": row.created_at,
        "status": row.status.value,
        "body": orjson.dumps(row.body),
    }


def _event(event: ZoneEvent) -> dict[str, object]:
    kind, body = str(event.kind), orjson.dumps(event.body)
    return {
        "seq": event.seq,
        "zone": event.zone,
        "slot": event.slot,
        "at": event.at,
        "kind": kind,
        "job": event.job,
        "body": body,
        "checksum": checksum(event.seq, event.zone, event.slot, event.at, kind, event.job, body),
    }


def _reply(event: ZoneEvent) -> dict[str, object]:
    reply = event.body["reply"]
    return {
        "key_id": reply["key"],
        "token": reply["token"],
        "digest": reply["digest"],
        "job": event.job,
        "at": event.at,
    }


# A writer with listeners: quotas are updated with a decision, all others after its commit.


class PublishingWriter:
    """A recorder that updates quotas and metrics, and notifies subscribers.

    Args:
        log: writes the events.
        open_jobs: updated at once.
        metrics, notifier: updated once the events have been committed.
    """

    def __init__(
        self, log: EventWriter, open_jobs: JobQuota, metrics: Metrics, notifier: Notifier
    ) -> None:
        self._log = log
        self._open_jobs = open_jobs
        self._metrics = metrics
        self._notifier = notifier

    def next_seq(self) -> int:
        """Return the next sequence number of the log."""
        return self._log.next_seq()

    def record(self, happened: Sequence[tuple[ZoneEvent, Effects]], done: OnDone) -> None:
        """Write events and their effects; call `done` and the listeners after the commit."""
        for _, change in happened:
            self._open_jobs.update(change.rows)

        def kept(error: Exception | None) -> None:
            done(error)
            if error is None:
                self._metrics.observe_events(happened)
                self._notifier.publish(name for one in happened for name in _topics(*one))

        self._log.record(happened, kept)


def _topics(event: ZoneEvent, change: Effects) -> tuple[str, ...]:
    if event.job is None:
        return (event.zone,)
    was_open = any(row.status not in OPEN and row.seq < event.seq for row in change.rows)
    return (event.zone, event.job, JOB_ENDED) if was_open else (event.zone, event.job)
