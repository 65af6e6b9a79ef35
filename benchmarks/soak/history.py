"""The recorded history of a service: events, ledger entries and rows, by job."""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from sqlalchemy import func, select

from auctune.service.event_writer import read_job
from auctune.service.storage import EventLog, open_readonly
from auctune.service.storage.event_log import EVENT_COLUMNS, EventType, ZoneEvent, read_row
from auctune.service.storage.queries import JobReadModel, Status
from auctune.service.storage.tables import entries, events, jobs
from auctune.service.zones.core.snapshots import read_event
from auctune.service.zones.timeshare.state import TimeshareEventType

FINAL_EVENTS = (EventType.FINISHED, EventType.CANCELLED, EventType.FAILED)
_OPEN = (Status.VALIDATING, Status.QUEUED, Status.RUNNING)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """An entry of the ledger; the amount is in minor units."""

    seq: int
    job: str | None
    account: str
    amount: int


@dataclass
class JobHistory:
    """Everything recorded of a job.

    Attributes:
        job: its id.
        events: oldest first.
        entries: of the ledger, oldest first.
        row: of the table of jobs; `None` if there is none.
    """

    job: str
    events: list[ZoneEvent] = field(default_factory=list)
    entries: list[LedgerEntry] = field(default_factory=list)
    row: JobReadModel | None = None

    def events_of(self, *types: str) -> list[ZoneEvent]:
        """Return its events of some types."""
        return [event for event in self.events if event.type in types]

    def amounts(self, account: str) -> list[int]:
        """Return the amounts of its entries on an account and its subaccounts (`account:...`)."""
        return [
            entry.amount
            for entry in self.entries
            if entry.account == account or entry.account.startswith(f"{account}:")
        ]

    @property
    def zone(self) -> str:
        """Name of its zone."""
        return self.events[0].zone

    @property
    def owner(self) -> str:
        """User id."""
        return str(self.events[0].body["owner"])

    @property
    def token(self) -> str | None:
        """Name of the client's request that created it."""
        request = self.events[0].body.get("request", {})
        token: str | None = (request.get("metadata") or {}).get("token")
        return token

    @property
    def decision(self) -> ZoneEvent | None:
        """The decision, or `None` if there is none."""
        return next(iter(self.events_of(EventType.DECIDED)), None)

    @property
    def is_admitted(self) -> bool:
        """Whether the decision admitted it."""
        return self.decision is not None and self.decision.body["decision"]["admitted"]

    @property
    def is_refunded(self) -> bool:
        """Whether its last event refunds it."""
        return bool(self.events[-1].body.get("refund"))

    @property
    def end(self) -> ZoneEvent:
        """The event that ended it; of a rejected or open job the newest one."""
        return next((event for event in self.events if event.type in FINAL_EVENTS), self.events[-1])


@dataclass(frozen=True, slots=True)
class History:
    """Everything recorded by a service.

    Attributes:
        events: by zone, oldest first.
        entries: of the ledger, oldest first.
        jobs: by id.
    """

    events: dict[str, list[ZoneEvent]]
    entries: list[LedgerEntry]
    jobs: dict[str, JobHistory]


def read_history(data: Path) -> History:
    """Read a data folder, whether or not a service is running on it."""
    with open_readonly(data) as engine, engine.connect() as connection:
        log = EventLog(engine)
        by_zone = {zone: list(map(read_event, log.read_zone(zone))) for zone in log.zones()}
        columns = (entries.c.seq, entries.c.job, entries.c.account, entries.c.amount)
        ledger = connection.execute(select(*columns).order_by(entries.c.id))
        all_entries = [LedgerEntry(*row) for row in ledger]
        rows = [read_job(row) for row in connection.execute(select(jobs))]
    histories: defaultdict[str, JobHistory] = defaultdict(lambda: JobHistory(""))
    for event in (event for of_zone in by_zone.values() for event in of_zone):
        if event.job is not None:
            histories[event.job].events.append(event)
    for entry in all_entries:
        if entry.job is not None:
            histories[entry.job].entries.append(entry)
    for row in rows:
        histories[row.id].row = row
    for job, history in histories.items():
        history.job = job
    return History(by_zone, all_entries, dict(histories))


def count_jobs(data: Path) -> dict[str, int]:
    """Return the number of jobs by status."""
    with open_readonly(data) as engine, engine.connect() as connection:
        counted = select(jobs.c.status, func.count()).group_by(jobs.c.status)
        return {row[0]: row[1] for row in connection.execute(counted)}


def count_open_jobs(data: Path) -> int:
    """Return the number of jobs that have not ended, or are cancelled and not yet settled."""
    counts = count_jobs(data)
    ends = (EventType.CANCELLED.value, TimeshareEventType.SETTLED.value)
    chosen = EVENT_COLUMNS.where(events.c.type.in_(ends))
    with open_readonly(data) as engine, engine.connect() as connection:
        read = map(read_row, connection.execute(chosen))
        found = [(event.type, orjson.loads(event.body)) for event in read]
    num_held = sum("held" in body for _, body in found)
    num_settled: int = sum(event_type == TimeshareEventType.SETTLED for event_type, _ in found)
    return sum(counts.get(status, 0) for status in _OPEN) + num_held - num_settled


def count_events(data: Path) -> int:
    """Return the number of events of all zones."""
    with open_readonly(data) as engine, engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(events)).scalar_one()
