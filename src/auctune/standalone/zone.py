"""A zone without a service: its log in a run's folder, its actor called synchronously, its clock.

All that a command shows follows from the events of the log, which it reads once they are committed:
a resumed run begins with those that it has.
"""

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from auctune.engine.unix_time import SlotClock
from auctune.service.accounts.budgets import BudgetTracker
from auctune.service.accounts.limits import OpenJobs
from auctune.service.accounts.registry import AccountRegistry
from auctune.service.event_writer import LogWriter
from auctune.service.logging import MinimumLevel
from auctune.service.metrics import Metrics
from auctune.service.storage import (
    Committer,
    EventLog,
    Snapshots,
    Store,
    open_readonly,
    open_store,
)
from auctune.service.storage.event_log import ZoneEvent
from auctune.service.tasks import Notifier
from auctune.service.zones.core.actor import ZoneActor, ZoneUnavailableError
from auctune.service.zones.core.snapshots import created_event, read_event, replay_until
from auctune.service.zones.core.state import ZoneModel
from auctune.service.zones.core.zone import AnyZone
from auctune.standalone.folder import RunFolder

OWNER = "local"
"""Owner of all jobs of a run."""

_OUTAGE_SECONDS = 1.0

T = TypeVar("T")
M = TypeVar("M", bound=ZoneModel[Any, Any])
Z = TypeVar("Z", bound=AnyZone)


@dataclass(frozen=True, slots=True)
class _LogicalSlots(SlotClock):
    """Slots of a run, however short: unix time has a resolution of some 1e-7 s only."""

    reached: Callable[[], int]

    def slot(self) -> int:
        return self.reached()


class LogicalClock:
    """Clock of a run: it is always the time that the run has reached.

    Attributes:
        slot: that time, in slots; most runs are at the beginning of one.
        slots: the clock as its zone sees it.
    """

    def __init__(self, epoch: float, slot_seconds: float) -> None:
        self.slot: float = 0
        self.slots: SlotClock = _LogicalSlots(
            epoch,
            slot_seconds,
            now=lambda: epoch + self.slot * slot_seconds,
            reached=lambda: int(self.slot),
        )


class ZoneRun(Generic[Z]):
    """A zone, and its events so far; for one thread.

    Args:
        zone: restored from the log.
        clock: of the zone.
        store: with its log.
        writer: of the log.

    Attributes:
        by_job: events about each job, in the order of the jobs' first events.
        about_none: the other events.
        on_event: called with each new event, in order, once it is committed.
    """

    def __init__(self, zone: Z, clock: LogicalClock, store: Store, writer: LogWriter) -> None:
        self.clock = clock
        self.by_job: dict[str, list[ZoneEvent]] = {}
        self.about_none: list[ZoneEvent] = []
        self.on_event: Callable[[ZoneEvent], None] = _ignore
        self._log = EventLog(store.reader)
        self._seq = 0
        self._follow(zone.name)
        self._writer = writer
        self._actor = ZoneActor(zone, writer)

    def call(self, run: Callable[[Z], T]) -> T:
        """Run a command on the zone; return its answer once its events are on disk.

        Raises:
            StoreError: if the log cannot be written, for a second or for good.
        """
        submitted = self._actor.submit(run)
        while not wait([submitted], _OUTAGE_SECONDS).done:
            # The committer retries for as long as a service runs; a run is resumed instead.
            if (outage := self._writer.outage) is not None:
                raise outage
        try:
            answer = submitted.result()
        except ZoneUnavailableError as error:
            # Its message is for users of a service, who may not see the reason.
            raise error.__cause__ or error from None
        self._follow(self._actor.name)
        return answer

    def close(self) -> None:
        self._actor.close()

    def _follow(self, zone: str) -> None:
        for event in map(read_event, self._log.read_zone(zone, self._seq)):
            self._seq = event.seq
            events = self.about_none if event.job is None else self.by_job.setdefault(event.job, [])
            events.append(event)
            self.on_event(event)


_NO_SERVICE_LOG = MinimumLevel(logging.CRITICAL)


@contextmanager
def open_log(folder: Path) -> Iterator[tuple[Store, LogWriter]]:
    """Open the log in a run's state folder, and own it until the context ends; yield its writer.

    What a service writes to its own log meanwhile, a run has as notes and errors.

    Raises:
        InputError: if it is damaged, or of another release.
    """
    with _NO_SERVICE_LOG, open_store(folder) as store, Committer(store) as committer:
        quota = OpenJobs(sys.maxsize)
        accounts = AccountRegistry(store.reader, committer)
        budgets = BudgetTracker(accounts, lambda: 0.0, store.reader)
        yield store, LogWriter(committer, budgets, quota, Metrics(quota), Notifier())


@contextmanager
def open_zone(
    name: str,
    created: Mapping[str, Any],
    state: Path,
    empty: Callable[[], M],
    make: Callable[[M, SlotClock, LogWriter], Z],
) -> Iterator[ZoneRun[Z]]:
    """Open the zone of a run, as the log in its state folder has it.

    Args:
        name: of the zone.
        created: body of its first event, which may be yet to be recorded.
        state: folder of the log.
        empty: makes the model of a zone without events.
        make: makes the zone of a model, a clock and a writer.

    Raises:
        InputError: if the log is damaged, or of another release.
    """
    clock = LogicalClock(created["epoch"], created["slot_seconds"])
    with open_log(state) as (store, writer):
        model, _ = replay_until(name, empty, EventLog(store.reader), Snapshots(store.reader))
        with closing(ZoneRun(make(model, clock.slots, writer), clock, store, writer)) as run:
            yield run


def read_created(folder: RunFolder, zone: str) -> dict[str, Any]:
    """Return the settings that a run's zone was created with, by the log in its folder.

    Raises:
        InputError: if it is damaged, of another release, or of another command's run.
    """
    with open_readonly(folder.state) as reader:
        created = created_event(zone, EventLog(reader))
    if created is None:
        raise folder.of_another_command()
    return created.body


def _ignore(_: ZoneEvent) -> None:
    """Ignore an event."""
