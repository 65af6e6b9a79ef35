"""What is on record of each job: its events, its entries, its row."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from sqlalchemy import Connection, func, select

from auctune.service.event_writer import read_job
from auctune.service.storage import EventLog, open_readonly
from auctune.service.storage.events import EventType, ZoneEvent
from auctune.service.storage.read_model import JobReadModel, Status
from auctune.service.storage.tables import entries, events, jobs
from auctune.service.zones.core.snapshots import read_event
from auctune.service.zones.timeshare.events import TimeshareEventType

OVER = (EventType.FINISHED, EventType.CANCELLED, EventType.FAILED)


@dataclass(frozen=True, slots=True)
class Booked:
    """An entry of the ledger, in steps of money."""

    seq: int
    job: str | None
    account: str
    amount: int


@dataclass
class Story:
    """A job on record.

    Attributes:
        job: its id.
        events: about it, oldest first.
        booked: of the ledger, oldest first.
        row: as readers see it; none: it has none.
    """

    job: str
    events: list[ZoneEvent] = field(default_factory=list)
    booked: list[Booked] = field(default_factory=list)
    row: JobReadModel | None = None

    def of(self, *kinds: str) -> list[ZoneEvent]:
        """Its events of some kinds."""
        return [event for event in self.events if event.type in kinds]

    def amounts(self, account: str) -> list[int]:
        """What was booked for it on an account, or on all that begin with `account` and a colon."""
        return [
            one.amount
            for one in self.booked
            if one.account == account or one.account.startswith(f"{account}:")
        ]

    @property
    def decision(self) -> ZoneEvent | None:
        """What was decided on it; none: nothing."""
        found = self.of(EventType.DECIDED)
        return found[0] if found else None

    @property
    def is_admitted(self) -> bool:
        """Whether it was taken."""
        return self.decision is not None and self.decision.body["decision"]["admitted"]

    @property
    def token(self) -> str | None:
        """What its owner calls it."""
        body = self.events[0].body
        found: str | None = (body.get("request", {}).get("metadata") or {}).get("token")
        return found

    @property
    def owner(self) -> str:
        """User id."""
        return str(self.events[0].body["owner"])

    @property
    def last(self) -> ZoneEvent:
        """The event that ended it; of a job that is not over, its newest one."""
        return next((event for event in self.events if event.type in OVER), self.events[-1])

    @property
    def is_refunded(self) -> bool:
        """Whether its last event says so."""
        return bool(self.events[-1].body.get("refund"))


@dataclass(frozen=True, slots=True)
class Log:
    """All that is on record.

    Attributes:
        events: of all zones, by zone, oldest first.
        booked: all entries, in their order.
        stories: by job.
    """

    events: dict[str, list[ZoneEvent]]
    booked: list[Booked]
    stories: dict[str, Story]


def read_log(data: Path) -> Log:
    """The log in a data folder, whether or not a service is at work in it."""
    with open_readonly(data) as engine:
        log = EventLog(engine)
        happened = {zone: list(map(read_event, log.read_zone(zone))) for zone in log.zones()}
        with engine.connect() as connection:
            booked = list(_booked(connection))
            rows = {row.id: row for row in _rows(connection)}
    stories: defaultdict[str, Story] = defaultdict(lambda: Story(""))
    for event in (event for one in happened.values() for event in one):
        if event.job is not None:
            story = stories[event.job]
            story.job = event.job
            story.events.append(event)
    for one in booked:
        if one.job is not None:
            stories[one.job].booked.append(one)
    for name, row in rows.items():
        stories[name].job, stories[name].row = name, row
    return Log(happened, booked, dict(stories))


def jobs_by_status(data: Path) -> dict[str, int]:
    """How many jobs there are of each status."""
    with open_readonly(data) as engine, engine.connect() as connection:
        counted = select(jobs.c.status, func.count()).group_by(jobs.c.status)
        return {row[0]: row[1] for row in connection.execute(counted)}


def num_open(data: Path) -> int:
    """Return how many jobs are not over, or are cancelled and not settled."""
    counts = jobs_by_status(data)
    num_open: int = sum(
        counts.get(status, 0) for status in (Status.VALIDATING, Status.QUEUED, Status.RUNNING)
    )
    ends = (EventType.CANCELLED.value, TimeshareEventType.SETTLED.value)
    chosen = select(events.c.type, events.c.body).where(events.c.type.in_(ends))
    with open_readonly(data) as engine, engine.connect() as connection:
        found = [(kind, orjson.loads(body)) for kind, body in connection.execute(chosen)]
    num_held = sum("held" in body for _, body in found)
    num_settled: int = sum(kind == TimeshareEventType.SETTLED for kind, _ in found)
    return num_open + num_held - num_settled


def num_events(data: Path) -> int:
    """How long the log is."""
    with open_readonly(data) as engine, engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(events)).scalar_one()


def _booked(connection: Connection) -> Iterator[Booked]:
    columns = (entries.c.seq, entries.c.job, entries.c.account, entries.c.amount)
    for row in connection.execute(select(*columns).order_by(entries.c.id)):
        yield Booked(*row)


def _rows(connection: Connection) -> Iterator[JobReadModel]:
    yield from map(read_job, connection.execute(select(jobs)))
