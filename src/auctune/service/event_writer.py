"""Write events and their effects in one transaction, and notify listeners."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import orjson

from auctune.domain.money import STEP
from auctune.service.accounts.budgets import BudgetAlert, BudgetTracker
from auctune.service.accounts.limits import OPEN, OpenJobs
from auctune.service.integrations.wandb_logger import NEW_RUNS, mark_runs
from auctune.service.metrics import Metrics
from auctune.service.storage import Row, tables
from auctune.service.storage.committer import Committer, WriteBatch
from auctune.service.storage.engine import StoreError
from auctune.service.storage.event_log import VERSION, EventType, ZoneEvent, checksum
from auctune.service.storage.queries import Effects, JobReadModel, Status, metadata_rows
from auctune.service.tasks import Notifier
from auctune.service.webhooks.dispatcher import WEBHOOK_EVENTS
from auctune.service.zones.core.zone import OnDone

STORAGE_CHARGED = "storage:"
"""Prefix of the names in the table `meta` of how far users' storage has been charged."""

_STEPS = int(1 / STEP)


class LogWriter:
    """Writes events to the log of a database.

    Spending and open jobs are updated at once, as the next decision depends on them; metrics and
    subscribers after the commit.
    """

    def __init__(
        self,
        committer: Committer,
        spending: BudgetTracker,
        open_jobs: OpenJobs,
        metrics: Metrics,
        notifier: Notifier,
    ) -> None:
        self._committer = committer
        self._spending = spending
        self._open_jobs = open_jobs
        self._metrics = metrics
        self._notifier = notifier

    @property
    def outage(self) -> StoreError | None:
        """Why nothing is written now, or None."""
        return self._committer.outage

    def next_seq(self) -> int:
        return self._committer.next_seq()

    def record(self, happened: Sequence[tuple[ZoneEvent, Effects]], done: OnDone) -> None:
        """Write events of one zone and their effects, in the order of calls.

        `done` is called after the commit, or with the error that prevented it.
        """

        def written(error: Exception | None) -> None:
            done(error)
            if error is None:
                self._metrics.observe_events(happened)
                self._notifier.publish(topic for one in happened for topic in _topics(*one))
                if alerts:
                    self._spending.alerts.committed(alerts)
                    self._notifier.publish([WEBHOOK_EVENTS])
                if has_new_runs:
                    self._notifier.publish([NEW_RUNS])

        # Vital: the zone's state already includes these events.
        batch = WriteBatch(written, is_vital=True)
        # Of several rows of a job only the last one counts.
        rows = {row.id: row for _, change in happened for row in change.rows}
        alerts: list[BudgetAlert] = []
        for event, change in happened:
            self._open_jobs.update(change.rows)
            batch.insert(tables.events, _event_row(event))
            if event.body.get("idempotency_key") is not None:
                batch.upsert(tables.idempotency_keys, _key_row(event))
            if event.type == EventType.STORAGE_USED:
                batch.upsert(tables.meta, _storage_row(event))
            if change.entries:
                alerts += self._spending.record(event, change.entries, _api_key(event, rows))
                first = self._committer.next_seq(len(change.entries))
                batch.insert(
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
        if alerts:
            batch.upsert(tables.meta, *(alert.row() for alert in alerts))
        new = [row for event, change in happened for row in change.rows if row.seq == event.seq]
        has_new_runs = mark_runs(batch, new)
        if rows:
            batch.upsert(tables.jobs, *(job_record(row) for row in rows.values()))
        for row in new:
            of_row = metadata_rows(row.seq, row.owner, row.body["request"].get("metadata"))
            batch.insert(tables.job_metadata, *of_row)
        self._committer.submit(batch)


def to_minor_units(amount: Decimal) -> int:
    """Return an amount of money as it is stored: a whole number of the smallest unit."""
    steps = amount * _STEPS
    assert steps == steps.to_integral_value()
    return int(steps)


def from_minor_units(steps: int) -> Decimal:
    """Return a stored amount of money."""
    return Decimal(steps) * STEP


def read_job(row: Row) -> JobReadModel:
    """Return a job from its row in the database."""
    return JobReadModel(
        id=row.id,
        zone=row.zone,
        seq=row.seq,
        owner=row.owner,
        created_at=row.created_at,
        status=Status(row.status),
        body=orjson.loads(row.body),
    )


def job_record(row: JobReadModel) -> dict[str, object]:
    """Return the row of a job in the database."""
    return {
        "id": row.id,
        "seq": row.seq,
        "zone": row.zone,
        "owner": row.owner,
        "created_at": row.created_at,
        "status": row.status.value,
        "body": orjson.dumps(row.body),
    }


def _api_key(event: ZoneEvent, rows: Mapping[str, JobReadModel]) -> str | None:
    """Return the id of the key that an event's charge is for, if that is recorded."""
    # A charge for a job comes with its row, of the same event or of another.
    record = event.body if event.job is None else rows[event.job].body["request"]
    key: str | None = record.get("key")
    return key


def _event_row(event: ZoneEvent) -> dict[str, object]:
    row: dict[str, Any] = {
        "seq": event.seq,
        "zone": event.zone,
        "slot": event.slot,
        "at": event.at,
        "type": str(event.type),
        "job": event.job,
        "body": orjson.dumps(event.body),
        "version": VERSION,
    }
    return {**row, "checksum": checksum(**row)}


def _key_row(event: ZoneEvent) -> dict[str, object]:
    key = event.body["idempotency_key"]
    return {
        "key_id": key["key"],
        "token": key["token"],
        "digest": key["digest"],
        "job": event.job,
        "at": event.at,
    }


def _storage_row(event: ZoneEvent) -> dict[str, str]:
    # In the transaction of the charge: no period is charged twice, and no rest is lost.
    charged = {name: event.body[name] for name in ("until", "carried")}
    return {
        "name": STORAGE_CHARGED + event.body["user"],
        "value": orjson.dumps(charged).decode(),
    }


def _topics(event: ZoneEvent, change: Effects) -> tuple[str, ...]:
    if event.job is None:
        return (event.zone,)
    has_ended = any(row.status not in OPEN and row.seq < event.seq for row in change.rows)
    return (event.zone, event.job, WEBHOOK_EVENTS) if has_ended else (event.zone, event.job)
