"""From what happened in a zone to the rows that are written, in one transaction a command."""

from collections.abc import Sequence
from decimal import Decimal

import orjson

from auctune.domain.money import STEP
from auctune.service.accounts.budgets import BudgetTracker
from auctune.service.store import tables
from auctune.service.store.committer import Committer
from auctune.service.store.event_log import checksum
from auctune.service.store.pages import JobRow as StoredJob
from auctune.service.store.unit import Unit
from auctune.service.zones.change import Change
from auctune.service.zones.event import ZoneEvent
from auctune.service.zones.job_row import JobRow, Status
from auctune.service.zones.recorder import Done

_STEPS = int(1 / STEP)


class LogRecorder:
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

    def record(self, happened: Sequence[tuple[ZoneEvent, Change]], done: Done) -> None:
        """Write events, and what they change, in the order of calls; then say so."""
        # A hole in the log would be a promise that nobody remembers.
        unit = Unit(done, is_vital=True)
        rows: dict[str, JobRow] = {}
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
                            "amount": to_steps(entry.amount),
                            "at": event.at,
                        }
                        for index, entry in enumerate(change.entries)
                    ),
                )
        if rows:
            unit.upsert(tables.jobs, *(job_record(row) for row in rows.values()))
        self._committer.submit(unit)


def to_steps(amount: Decimal) -> int:
    """Money as the database has it."""
    steps = amount * _STEPS
    assert steps == steps.to_integral_value()
    return int(steps)


def from_steps(steps: int) -> Decimal:
    """Money from the database."""
    return Decimal(steps) * STEP


def read_job(stored: StoredJob) -> JobRow:
    """A job from the database."""
    return JobRow(
        id=stored.id,
        zone=stored.zone,
        seq=stored.seq,
        owner=stored.owner,
        created_at=stored.created_at,
        status=Status(stored.status),
        body=orjson.loads(stored.body),
    )


def job_record(row: JobRow) -> dict[str, object]:
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
