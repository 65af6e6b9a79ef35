"""`auctune spot run`: a job on rented instances to its end, by a spot zone of the service.

The job's coordinator runs in this process, by its own clock: the model's, or a real one. Each of
its events is in the zone's log before anything is rented or trained by it. A run that was killed
goes on from the log and the newest checkpoint. Nobody charges the job: it pays the market itself,
and the zone has neither an estimate of it nor a price.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import TypeAdapter

from auctune.datasets import read_dataset
from auctune.domain import InputError
from auctune.domain.data_size import DataSize
from auctune.domain.money import ZERO
from auctune.engine.journal import read_journal
from auctune.engine.spot.job import SpotFolder, train_job
from auctune.engine.spot.job_config import SpotJobSpec
from auctune.engine.spot.state import VERSION as RUN_VERSION
from auctune.engine.spot.state import EventRecord, OnEvent, SlotRecord, SpotRunState, ignore_event
from auctune.engine.spot.traces import MarketTrace
from auctune.engine.unix_time import SlotClock
from auctune.service.config.zone import SPOT
from auctune.service.jobs.training import Training, ZoneBid
from auctune.service.storage import EventLog, open_readonly
from auctune.service.storage.event_log import VERSION, ZoneEvent
from auctune.service.zones.core.job import MeteredDecision, Phase
from auctune.service.zones.core.snapshots import read_event
from auctune.service.zones.core.zone import EventWriter
from auctune.service.zones.spot.state import (
    ReachedValue,
    SpotDecided,
    SpotEventType,
    SpotJobState,
    SpotModel,
    SpotSlotStarted,
    StrategyLabels,
    empty_model,
)
from auctune.service.zones.spot.zone import RentalZone
from auctune.sim.spot.job_file import JobFile, read_job_file
from auctune.sim.spot.trace import read_market
from auctune.spot.market import SpotMarket
from auctune.spot.play import PastSlot
from auctune.standalone.folder import RunFolder
from auctune.standalone.spot_inputs import PreparedJob, RunInputs, RunSettings, prepare_job
from auctune.standalone.spot_report import SpotRunReport, make_report, write_bill
from auctune.standalone.zone import OWNER, ZoneRun, open_zone, read_created

ZONE = "spot"
"""Name of a run's zone in its log."""

JOB = "job"
"""Id of the only job of a run."""

# Rows are counted by the workers.
_UNKNOWN_SIZE = DataSize(0, 0.0)
_SETTINGS = TypeAdapter(RunSettings)


class SpotRunFolder(RunFolder, SpotFolder):
    """Folder of a run; results are beside the state."""

    command: ClassVar[str] = "spot run"
    # Earlier releases had inputs beside the state.
    outputs: ClassVar[tuple[str, ...]] = ("adapter", "epochs", "bill.json", "inputs")
    earlier_input: ClassVar[str] = "inputs/settings.json"

    @property
    def report(self) -> Path:
        """The bill: allocations and payments of a run that has ended."""
        return self.root / "bill.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBid(ZoneBid):
    """The job of a run, which is admitted.

    Attributes:
        terms: the job as its policy sees it.
        labels: of policy and forecast.
    """

    terms: SpotJobSpec
    labels: StrategyLabels


class JobZone(RentalZone[RunBid]):
    """Spot zone of one job, which begins in its first slot.

    Args:
        trace: the market.
        clock, model, writer: as of `SlottedZone`.
    """

    def __init__(
        self, trace: MarketTrace, clock: SlotClock, model: SpotModel, writer: EventWriter
    ) -> None:
        super().__init__(ZONE, clock, model, writer)
        self._trace = trace

    def begin_slot(self, slot: int) -> None:
        price, available = self._trace.at(float(slot))
        self.record(SpotSlotStarted(slot=slot, price=price, available=available))

    def _decide(self, bid: RunBid) -> SpotDecided:
        begin = self.clock.slot_start(0)
        seconds = bid.terms.deadline * self.clock.slot_seconds
        return SpotDecided(
            owner=bid.owner,
            request=bid.request,
            training=bid.training,
            size=_UNKNOWN_SIZE,
            decision=MeteredDecision(admitted=True),
            budget_remaining=None,
            jobs=1,
            estimate_inputs=None,
            held=ZERO,
            first=0,
            ready_at=begin,
            terms=bid.terms,
            renting=bid.labels,
            unit_cost=0.0,
            unit_price=0.0,
            worth=ReachedValue(None, begin + seconds, begin + bid.terms.hard_factor * seconds),
        )

    def record_run_event(self, job: SpotJobState, event: EventRecord) -> None:
        """Record an event of the job's run; its adapter is there before its end is recorded."""
        super().record_run_event(job, event)
        if job.phase is Phase.TRAINED:
            self.finish(job.id, [])


class ZoneLog:
    """A `RunLog` in the log of a run's zone.

    Args:
        zone: of the run.
    """

    def __init__(self, zone: ZoneRun[JobZone]) -> None:
        self._zone = zone
        self.events = _run_events(zone.by_job[JOB])
        # A resumed run is in the slot that it was in.
        slots = (one["observation"]["slot"] for one in self.events if "observation" in one)
        zone.clock.slot = max(slots, default=zone.clock.slot)

    def append(self, event: EventRecord) -> None:
        """Record an event; when this returns, it is on disk."""
        if "observation" in event:
            self._zone.clock.slot = event["observation"]["slot"]
        self._zone.call(partial(_append, event=event))
        self.events.append(event)


def run_spot(
    inputs: RunInputs,
    folder: SpotRunFolder,
    *,
    cache: Path,
    on_event: OnEvent,
    fresh: bool = False,
) -> SpotRunReport:
    """Run the job of some files, which are copied into the run's folder.

    Args:
        inputs: the files.
        folder: new, empty, or (with `fresh`) of an earlier run.
        cache: folder of bases that are built here.
        on_event: called with every event.
        fresh: delete an earlier run in the folder.

    Raises:
        InputError: if a file or anything about the folder is wrong, or as of `train_job`, which
            raises the other errors too; the run can be resumed after those.
    """
    with begin_spot(inputs, folder, cache=cache, fresh=fresh) as job:
        return run_job(job, folder, on_event=on_event)


def resume_spot(folder: SpotRunFolder, *, cache: Path, on_event: OnEvent) -> SpotRunReport:
    """Go on with an earlier run; one that has ended only writes its bill again.

    Raises:
        InputError: if there is no run in the folder, or its state is damaged, or as `run_spot`.
    """
    earlier = folder.earlier_report(lambda _: _read_earlier(folder))
    if earlier is not None:
        return earlier
    with folder.locked():
        inputs = read_inputs(folder)
        folder.clean_temp_files()
        return run_job(prepare_job(inputs, inputs, cache), folder, on_event=on_event)


def begin_spot(
    inputs: RunInputs, folder: SpotRunFolder, *, cache: Path, fresh: bool = False
) -> AbstractContextManager[PreparedJob]:
    """Begin the run of some files; see `begun_run`."""

    def prepare(staged: RunFolder) -> PreparedJob:
        # Errors name the user's file, not its copy.
        read_dataset(inputs.data)
        copies = inputs.with_files(lambda name: folder.inputs / staged.resolve(name).name)
        return prepare_job(inputs, copies, cache)

    settings = _SETTINGS.dump_python(inputs.settings, mode="json")
    return begun_run(folder, inputs.files, prepare, settings, fresh=fresh)


@contextmanager
def begun_run(
    folder: SpotRunFolder,
    files: Mapping[str, Path],
    prepare: Callable[[RunFolder], PreparedJob],
    settings: Mapping[str, Any],
    *,
    fresh: bool = False,
) -> Iterator[PreparedJob]:
    """Write the log of a new run, and lock its folder for a block; yield the job.

    An InputError in the block before anything was recorded of the job leaves no run.

    Args:
        folder: of the run.
        files: see `RunFolder.staged`.
        prepare: returns the job, given the folder that has the copies.
        settings: recorded, for `resume_spot`.
        fresh: delete an earlier run in the folder.

    Raises:
        InputError: if the folder cannot be used, or the job cannot be run.
    """
    with folder.locked_new(fresh=fresh):
        with folder.staged(files) as staged:
            job = prepare(staged)
            job.factory.check(job.config.job)
            _record_job(job, {"settings": settings, "inputs": staged.input_digests()}, staged)
        try:
            yield job
        except InputError:
            if not read_run_events(folder):
                shutil.rmtree(folder.state)
            raise


@contextmanager
def open_log(folder: SpotRunFolder) -> Iterator[ZoneLog]:
    """Open the log of a run in its folder."""
    created = read_created(folder, ZONE)
    with _open_zone(created, folder) as zone:
        yield ZoneLog(zone)


def run_job(
    job: PreparedJob, folder: SpotRunFolder, *, on_event: OnEvent = ignore_event, **options: Any
) -> SpotRunReport:
    """Run a job, new or resumed, to its end, and write its bill; `options` as of `train_job`."""
    with open_log(folder) as log:
        total_rows = train_job(
            job.config,
            job.policy,
            job.factory,
            folder,
            log,
            make_clock=job.make_clock,
            forecast=job.forecast,
            on_event=on_event,
            **options,
        )
    state = SpotRunState.fold(log.events)
    report = make_report(state, job.config.job, total_rows, folder.adapter)
    write_bill(folder.report, state, job.config.job, report)
    return report


def read_run_events(folder: SpotRunFolder) -> list[EventRecord]:
    """Return the events of a run's coordinator so far, without disturbing it."""
    with open_readonly(folder.state) as reader:
        return _run_events(map(read_event, EventLog(reader).read_zone(ZONE)))


def read_job(folder: SpotRunFolder) -> JobFile:
    """Return the job of a run, also of an earlier release.

    Raises:
        InputError: if the folder holds no run, or its copy of the job's file is damaged.
    """
    if folder.is_earlier():
        return read_job_file(folder.root / "inputs" / "job.toml")
    return read_inputs(folder).read_job()


def read_inputs(folder: SpotRunFolder) -> RunInputs:
    """Return the copied inputs of a run.

    Raises:
        InputError: if one is not as it was when the run began.
    """
    created = read_created(folder, ZONE)
    folder.check_inputs(created)
    files: dict[str, Any] = {"prices": None, **folder.copies}
    return RunInputs(**files, settings=_SETTINGS.validate_python(created["settings"]))


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A run at the start of its current slot.

    Attributes:
        file: the job's.
        policy, forecast: as `NAME[:KEY=VALUE...]`.
        start: slot of the market in which the job began.
        history: the market up to the present slot; from the job's start on as the run saw it.
        past: the finished slots, with what was done and paid.
    """

    file: JobFile
    policy: str
    forecast: str
    start: int
    history: SpotMarket
    past: tuple[PastSlot, ...]


def read_snapshot(folder: SpotRunFolder) -> RunSnapshot:
    """Read how far a run has come, without disturbing it.

    Raises:
        InputError: if the folder holds no run, or one whose deadline is over.
    """
    root = str(folder.root)
    if not folder.log.exists():
        raise InputError(root, "holds no run", "the folder of a run that was started")
    inputs, state = read_inputs(folder), SpotRunState.fold(read_run_events(folder))
    if state.ended is not None or state.overtime_started is not None:
        raise InputError(root, "holds a run that is over", "one that has slots to come")
    if not state.slots:
        raise InputError(root, "holds a run without a slot", "one that has begun")
    file, settings = inputs.read_job(), inputs.settings
    market = read_market(inputs.recipe(file))
    return RunSnapshot(
        file=file,
        policy=settings.policy,
        forecast=settings.forecast,
        start=settings.start,
        history=_history(market.between(0, settings.start), state.slots, market),
        past=tuple(
            PastSlot(
                record.observation,
                record.allocation,
                following.observation.progress,
                record.paid,
                record.preempted,
            )
            for record, following in pairwise(state.slots)
        ),
    )


def _history(before: SpotMarket, slots: Sequence[SlotRecord], market: SpotMarket) -> SpotMarket:
    return SpotMarket(
        np.concatenate((before.price, [one.observation.price for one in slots])),
        np.concatenate((before.available, [one.observation.available for one in slots])),
        market.on_demand_price,
        market.slot_seconds,
    )


def _record_job(job: PreparedJob, inputs: Mapping[str, Any], folder: RunFolder) -> None:
    """Create the log of a run: its zone's first event has all that the run follows from."""
    terms, training = SpotJobSpec.of(job.config.job), job.config.workers.job
    created = {
        "version": VERSION,
        "kind": SPOT,
        **inputs,
        "trace": job.factory.trace.first(terms.deadline),
        "epoch": time.time(),
        "slot_seconds": job.slot_seconds,
    }
    bid = RunBid(
        job=JOB,
        owner=OWNER,
        training=Training(
            **training.hyperparameters(), data="data", start_digest=training.start_digest
        ),
        terms=terms,
        labels=job.labels,
    )
    with _open_zone(created, folder) as zone:
        zone.call(lambda zone: zone.record_created(created))
        zone.call(partial(JobZone.decide, bid=bid))


def _open_zone(
    created: Mapping[str, Any], folder: RunFolder
) -> AbstractContextManager[ZoneRun[JobZone]]:
    """Open the zone of a run, as its log in a folder has it."""
    trace = MarketTrace.read(created["trace"])

    def make(model: SpotModel, clock: SlotClock, writer: EventWriter) -> JobZone:
        return JobZone(trace, clock, model, writer)

    return open_zone(ZONE, created, folder.state, lambda: empty_model(created), make)


def _append(zone: JobZone, event: EventRecord) -> None:
    zone.begin_slots()
    zone.record_run_event(zone.admitted_jobs[JOB], event)


def _run_events(events: Iterable[ZoneEvent]) -> list[EventRecord]:
    return [event.body["event"] for event in events if event.type == SpotEventType.RUN_EVENT]


def _read_earlier(folder: SpotRunFolder) -> SpotRunReport:
    """Return the report of a run that ended under an earlier release, whose log was a journal.

    Raises:
        ValueError: if an event is not as this release reads it.
    """
    events = read_journal(folder.journal)
    if not events or events[0]["version"] != RUN_VERSION:
        raise ValueError("a journal of another version")
    state = SpotRunState.fold(events)
    if state.ended is None:
        raise ValueError("a journal without an end")
    return make_report(state, read_job(folder).spot_job(), max(1, state.rows), folder.adapter)
