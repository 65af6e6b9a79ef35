"""How many jobs each user has open: those that wait for a decision, and those that are not over."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, func, select

from auctune.domain import AuctuneError
from auctune.service.store import tables
from auctune.service.zones.event import Kind
from auctune.service.zones.job_row import JobRow, Status

OPEN = (Status.VALIDATING, Status.QUEUED, Status.RUNNING)


class TooManyError(AuctuneError):
    """A user has as much of something as a user may have."""


class OpenJobs:
    """Open jobs by owner; for any number of threads.

    Args:
        limit: of each user.
        held: (owner, job) of all that are open.
    """

    def __init__(self, limit: int, held: Iterable[tuple[str, str]] = ()) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._open: dict[str, set[str]] = {}
        self._asked: dict[str, set[str]] = {}
        for owner, job in held:
            self._open.setdefault(owner, set()).add(job)

    @property
    def count(self) -> int:
        """Of all users."""
        with self._lock:
            return sum(map(len, self._open.values()))

    def open_jobs(self, owner: str) -> frozenset[str]:
        """Those of one user."""
        with self._lock:
            return frozenset(self._open.get(owner, ()))

    def update(self, rows: Iterable[JobRow]) -> None:
        """Take over how jobs stand."""
        with self._lock:
            for row in rows:
                if row.status in OPEN:
                    self._open.setdefault(row.owner, set()).add(row.id)
                elif (held := self._open.get(row.owner)) is not None:
                    held.discard(row.id)
                    if not held:
                        del self._open[row.owner]

    @contextmanager
    def reserve(self, owner: str, job: str) -> Iterator[None]:
        """Room for a job, taken until the end of the block, by when it is noted or refused.

        Raises:
            TooManyError: if there is none.
        """
        with self._lock:
            asked, held = self._asked.get(owner, set()), self._open.get(owner, set())
            # One that is noted already and not answered yet counts once.
            if len(held) + len(asked - held) >= self._limit:
                raise TooManyError(f"there are {self._limit} open jobs of yours already")
            self._asked.setdefault(owner, set()).add(job)
        try:
            yield
        finally:
            with self._lock:
                asked = self._asked[owner]
                asked.discard(job)
                if not asked:
                    del self._asked[owner]


def stored_bids(reader: Engine, since: float) -> list[tuple[str, float]]:
    """Return owner and unix time of bids, pauses and resumes on record since a time, by time."""
    events, jobs = tables.events.c, tables.jobs.c
    with reader.connect() as connection:
        # Events are in the order of their times, of which there is no index.
        newest = connection.execute(select(func.max(events.seq))).scalar()
        first, last = 0, 0 if newest is None else newest + 1
        while first < last:
            middle = (first + last) // 2
            chosen = select(events.seq, events.at).where(events.seq >= middle)
            row = connection.execute(chosen.order_by(events.seq).limit(1)).one()
            first, last = (row.seq + 1, last) if row.at < since else (first, middle)
        bids = select(jobs.owner, jobs.created_at).where(jobs.seq >= first)
        acts = (
            select(jobs.owner, events.at)
            .join(tables.jobs, jobs.id == events.job)
            .where(events.seq >= first, events.kind.in_((Kind.PAUSED, Kind.RESUMED)))
        )
        found = [*connection.execute(bids), *connection.execute(acts)]
    return sorted(((owner, at) for owner, at in found), key=lambda one: one[1])


def stored_open_jobs(reader: Engine) -> list[tuple[str, str]]:
    """(owner, job) of all jobs that are open on record."""
    table = tables.jobs
    chosen = select(table.c.owner, table.c.id).where(
        table.c.status.in_([status.value for status in OPEN])
    )
    with reader.connect() as connection:
        return [(row.owner, row.id) for row in connection.execute(chosen)]
