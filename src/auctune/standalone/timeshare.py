"""`auctune timeshare run`: the jobs of a bundle to their ends, by a timeshare zone of the service.

The jobs never change: allocators see all of them from the first unit of time on. So a run begins
once all are decided on and loaded. Then, unit by unit:
 1. train what the allocator gives each job, and record it;
 2. end the jobs that have reached their targets, whose results are written, and those whose
    deadlines have passed.
Units are counted, or last as long by a clock that stands still while the run is stopped. A unit
that is not in the zone's log is trained again from the checkpoints. Nothing costs anything.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from auctune.domain import InputError
from auctune.domain.data_size import DataSize
from auctune.domain.money import ZERO
from auctune.engine.messages.pool import MemoryState
from auctune.engine.pool.bundle import Bundle, BundleJob
from auctune.engine.pool.clock import Clock, WallClock
from auctune.engine.pool.device import PoolDevice
from auctune.engine.pool.events import (
    ExitReason,
    JobLeft,
    JobNoted,
    JobOutlook,
    OnEvent,
    PoolDirectory,
    PoolEvent,
    PoolState,
    QuantumTrained,
)
from auctune.engine.pool.pool import Pool
from auctune.engine.pool.report import Figures, make_report, read_figures, write_report
from auctune.engine.unix_time import SlotClock
from auctune.engine.workers.pool_jobs import PoolJobs
from auctune.service.config.zone import TIMESHARE
from auctune.service.jobs.training import Training
from auctune.service.storage.event_log import VERSION as LOG_VERSION
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.core.zone import EventWriter
from auctune.service.zones.timeshare.gateway import (
    ForecastRequest,
    PoolPricing,
    forecast,
    forecast_data,
)
from auctune.service.zones.timeshare.state import (
    EstimateInputs,
    Features,
    PoolEnded,
    TimeshareBid,
    TimeshareEventType,
    TimeshareModel,
    empty_model,
)
from auctune.service.zones.timeshare.worker import read_pool_state, record_event
from auctune.service.zones.timeshare.zone import TimeshareZone
from auctune.standalone.folder import RunFolder, check_unchanged, file_digests
from auctune.standalone.zone import OWNER, ZoneRun, open_zone, read_created
from auctune.train.reproducible import deterministic, prepare_deterministic

ZONE = "timeshare"
"""Name of a bundle's zone in its log."""

# Units that are counted have no length: in the log they last a second.
_COUNTED_SECONDS = 1.0
# Rows are counted as they train.
_UNKNOWN_ROWS = DataSize(0, 0.0)

ReadBundle = Callable[[Path, Path], Bundle]
"""Reads a bundle from a run's copy of its file, and the folder that paths in it start from."""


class BundleFolder(RunFolder):
    """Folder of a run."""

    command: ClassVar[str] = "timeshare run"
    results: ClassVar[str] = "results"
    # Earlier releases had inputs beside the state.
    outputs: ClassVar[tuple[str, ...]] = ("results", "report.json", "report.html", "inputs")
    earlier_input: ClassVar[str] = "inputs/bundle.toml"


def run_bundle(
    bundle: Bundle, file: Path, folder: BundleFolder, on_event: OnEvent, *, fresh: bool = False
) -> Figures:
    """Run a bundle until its jobs are done or past their deadlines; return its report.

    Args:
        bundle: what is run.
        file: that it was read from.
        folder: new, empty, or (with `fresh`) of an earlier run.
        on_event: called with each event of the pool.
        fresh: delete an earlier run in the folder.

    Raises:
        InputError: if anything about the folder is wrong; if rows are missing; if a job cannot be
            made, or is too large for the device. Nothing is written then.
        JobFailedError: if the code of a job raises an error.
        InfeasibleSharesError: if the allocator gives shares to jobs that are not active.
    """
    _check_data(bundle, file)
    prepare_deterministic()
    with (
        folder.locked_new(fresh=fresh),
        deterministic(threads=bundle.params.cpu_threads),
    ):
        device = _open_device(bundle, folder)
        with folder.staged({"": file}) as staged:
            created = _created_record(bundle, file, staged)
            with _open_zone(created, staged) as zone:
                BundleRun(bundle, folder, zone, device, on_event).begin(created)
        with _open_zone(created, folder) as zone:
            return BundleRun(bundle, folder, zone, device, on_event).run()


def resume_bundle(folder: BundleFolder, read: ReadBundle, on_event: OnEvent) -> Figures:
    """Go on with an earlier run; one that has ended only writes its report again.

    Raises:
        InputError: if there is no run in the folder, or its state is damaged.
        JobFailedError, InfeasibleSharesError: as `run_bundle`.
        CheckpointError: if a job cannot be restored.
    """
    earlier = folder.earlier_report(read_figures)
    if earlier is not None:
        return earlier
    prepare_deterministic()
    with folder.locked():
        created = read_created(folder, ZONE)
        folder.check_inputs(created)
        folder.clean_temp_files()
        bundle = read(folder.resolve(""), Path(created["folder"]))
        if bundle.params.allocator.name != created["allocator"]:
            found = (
                f"{bundle.params.allocator.name}, where the run began with {created['allocator']}"
            )
            raise InputError("allocator", found, "the release with which the run was started")
        device = _open_device(bundle, folder)
        with (
            deterministic(threads=bundle.params.cpu_threads),
            _open_zone(created, folder) as zone,
        ):
            run = BundleRun(bundle, folder, zone, device, on_event)
            if not run.has_ended:
                expected = "the rows with which the run was started"
                check_unchanged(_data_digests(bundle), created["data"], expected)
                run.restore()
            return run.run()


def _open_device(bundle: Bundle, folder: BundleFolder) -> PoolDevice:
    params = bundle.params
    directory = PoolDirectory(folder.root)
    return PoolDevice(PoolJobs(bundle, directory, params.memory_bytes, params.saved_every).handle)


def _created_record(bundle: Bundle, file: Path, staged: RunFolder) -> dict[str, Any]:
    """Return the body of the first event of a bundle's zone: all that the run follows from."""
    params = bundle.params
    return {
        "version": LOG_VERSION,
        "kind": TIMESHARE,
        "price_per_second": str(ZERO),
        "allocator": params.allocator.name,
        "unit_seconds": params.quantum_seconds,
        "folder": str(file.resolve().parent),
        # A whole second: times of units that are counted are exact.
        "epoch": time.time() // 1,
        "slot_seconds": params.quantum_seconds or _COUNTED_SECONDS,
        "inputs": staged.input_digests(),
        "data": _data_digests(bundle),
    }


def _check_data(bundle: Bundle, file: Path) -> None:
    """Check that the files of rows are there, before anything starts."""
    for index, job in enumerate(bundle.jobs):
        if job.lora is not None and not job.lora.data.is_file():
            place = f"{file}: thread[{index}].settings.data"
            raise InputError(place, f"there is no file {str(job.lora.data)!r}", "a file of rows")


def _data_digests(bundle: Bundle) -> dict[str, str]:
    """Return the SHA-256 of each file of rows that is there, where it stays, by its path."""
    loras = [job.lora for job in bundle.jobs if job.lora is not None]
    paths = {path for one in loras for path in (one.data, one.validation) if path is not None}
    return file_digests({str(path): path for path in sorted(paths) if path.is_file()})


def _open_zone(
    created: Mapping[str, Any], folder: RunFolder
) -> AbstractContextManager[ZoneRun[TimeshareZone]]:
    """Open the zone of a bundle, as its log in a folder has it."""

    def make(model: TimeshareModel, clock: SlotClock, writer: EventWriter) -> TimeshareZone:
        return TimeshareZone(ZONE, model, clock, writer, ZERO)

    return open_zone(ZONE, created, folder.state, lambda: empty_model(created), make)


class BundleRun:
    """One run, new or resumed.

    Args:
        bundle: what is run.
        folder: of the run.
        zone: of the run.
        device: on which the jobs train.
        on_event: called with each event of the pool.
    """

    def __init__(
        self,
        bundle: Bundle,
        folder: BundleFolder,
        zone: ZoneRun[TimeshareZone],
        device: PoolDevice,
        on_event: OnEvent,
    ) -> None:
        seconds = bundle.params.quantum_seconds
        self._bundle, self._folder, self._zone, self._on_event = bundle, folder, zone, on_event
        self._clock = Clock() if seconds is None else WallClock(seconds)
        self._pool = Pool(bundle.params, device, self._clock, self._read_state(), self._record)
        zone.clock.slot = self._pool.state.moment

    @property
    def has_ended(self) -> bool:
        """Return whether all that is left is to write the report."""
        return self._zone.about_none[-1].type == TimeshareEventType.POOL_ENDED

    def begin(self, created: Mapping[str, Any]) -> None:
        """Create the zone, decide on all jobs, and load them; errors as `run_bundle`."""
        self._zone.call(lambda zone: zone.record_created(created))
        for job in self._bundle.jobs:
            self._zone.call(partial(_decide, job=job))
        for job in self._bundle.jobs:
            self._pool.record(self._pool.load(job.thread, job.settings, job.rate))
        self._record_notes(self._pool.state.members)

    def restore(self) -> None:
        """Load the jobs that have not ended, as the log has them; errors as `resume_bundle`."""
        jobs = self._open_jobs()
        self._pool.restore(jobs)
        self._record_notes(jobs)

    def run(self) -> Figures:
        """Train the loaded jobs to their ends, and write the report; errors as `run_bundle`."""
        if not self.has_ended:
            self._train()
        figures = self._make_report()
        write_report(figures, self._folder.root)
        return figures

    def _train(self) -> None:
        pool, starts = self._pool, [thread.start for thread in self._bundle.threads]
        self._clock.start(pool.state.moment if pool.state.quanta else float(min(starts)))
        # The run may have been killed before it had ended them.
        self._end_jobs(pool.state.last + 1)
        while pool.run_quantum():
            self._end_jobs(pool.state.last + 1)
        self._end_jobs(math.inf)
        memory = pool.device.memory
        ended = PoolEnded(
            suspended=memory.suspended,
            resumed=memory.resumed,
            seconds=memory.seconds,
            max_bytes=memory.max_bytes,
        )
        self._zone.call(lambda zone: zone.record(ended))

    def _end_jobs(self, unit: float) -> None:
        """End the jobs that are done, and those whose deadlines have passed when a unit begins."""
        for name in self._open_jobs():
            member = self._pool.state.members[name]
            if member.is_done:
                if not self._folder.result(name).exists():
                    self._pool.export(name)
                left = JobLeft(name, ExitReason.TARGET_REACHED, "", member.best)
                self._end_job(left, [f"{self._folder.results}/{name}"])
            elif member.thread.deadline <= unit:
                self._end_job(JobLeft(name, ExitReason.DEADLINE_MISSED, "", None), [])

    def _end_job(self, left: JobLeft, files: list[str]) -> None:
        # It stays a member of the pool, whose allocator sees all jobs of the bundle.
        def end(zone: TimeshareZone) -> None:
            record_event(zone, left)
            zone.finish(left.id, files)

        self._zone.call(end)

    def _open_jobs(self) -> list[str]:
        return self._zone.call(lambda zone: [*zone.admitted_jobs])

    def _record(self, event: PoolEvent, outlooks: Sequence[JobOutlook]) -> None:
        if isinstance(event, QuantumTrained):
            self._zone.clock.slot = event.moment
        self._zone.call(lambda zone: record_event(zone, event, outlooks))
        self._on_event(event, outlooks)

    def _record_notes(self, jobs: Iterable[str]) -> None:
        """Record what jobs note on their data, once."""
        known = {(event.job, event.body["text"]) for event in self._notes()}
        for name in jobs:
            for text in self._pool.notes[name]:
                if (name, text) not in known:
                    self._pool.record(JobNoted(name, text))

    def _notes(self) -> list[ZoneEvent]:
        return [event for event in self._events() if event.type == EventType.NOTE_ADDED]

    def _events(self) -> list[ZoneEvent]:
        """Return all events of the zone, in their order."""
        about_jobs = (event for events in self._zone.by_job.values() for event in events)
        return sorted([*about_jobs, *self._zone.about_none], key=lambda event: event.seq)

    def _read_state(self) -> PoolState:
        units = self._zone.call(lambda zone: zone.state.units)
        settings = {job.thread.id: job.settings for job in self._bundle.jobs}
        last, slots = units[-1]["unit"] if units else -1, self._zone.clock.slots
        return read_pool_state(self._events(), settings, last, self._clock, slots)

    def _make_report(self) -> Figures:
        params, ended = self._bundle.params, self._zone.about_none[-1]
        return make_report(
            self._read_state(),
            params.allocator.name,
            params.quantum_seconds,
            MemoryState(**ended.body),
            [f"{event.job}: {event.body['text']}" for event in self._notes()],
        )


def _decide(zone: TimeshareZone, job: BundleJob) -> None:
    """Decide on a job of the bundle: it is admitted."""
    thread, slots, training = job.thread, zone.clock, _training(job)
    request = ForecastRequest(
        owner=OWNER,
        features=Features.of(training, _UNKNOWN_ROWS),
        target_loss=thread.threshold,
        cap=ZERO,
        first_unit=thread.start,
        deadline_unit=thread.deadline,
    )
    pricing = PoolPricing(ZERO, slots.epoch, slots.slot_seconds)
    # Within the unit: it may be shorter than unix time can tell.
    deadline = slots.slot_start(thread.deadline) + slots.slot_seconds / 2
    zone.decide(
        TimeshareBid(
            job=thread.id,
            owner=OWNER,
            training=training,
            request={
                "max_cost": str(ZERO),
                "deadline": deadline,
                "target_loss": thread.threshold,
                **job.settings,
            },
            size=_UNKNOWN_ROWS,
            target_loss=thread.threshold,
            cap=ZERO,
            deadline_unit=thread.deadline,
            estimate=forecast(request, pricing, forecast_data(zone.state)),
            estimate_inputs=EstimateInputs(zone.state.seq, thread.start),
        )
    )


def _training(job: BundleJob) -> Training:
    """Return the settings of an adapter's training; of other jobs the zone knows none."""
    lora = job.lora
    if lora is None:
        return Training(data="", schedule="constant")
    return Training(
        **lora.hyperparameters(),
        data=str(lora.data),
        start_from=None if lora.start_from is None else str(lora.start_from),
        start_digest=lora.start_digest,
    )
