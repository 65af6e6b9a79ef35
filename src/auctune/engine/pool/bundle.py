"""A run of a bundle: jobs that share a device from its file to its report, new or resumed."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from auctune.atomic_files import write_atomically
from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.engine.event_log import EventLog, read_events
from auctune.engine.pool.clock import Clock, WallClock
from auctune.engine.pool.device import PoolDevice
from auctune.engine.pool.epoch import PoolParams
from auctune.engine.pool.events import (
    VERSION,
    JobNoted,
    JobOutlook,
    OnEvent,
    PoolDirectory,
    PoolEnded,
    PoolEvent,
    PoolStarted,
    PoolState,
    check_version,
    event_record,
    read_event,
)
from auctune.engine.pool.pool import Pool
from auctune.engine.pool.report import PoolReport, make_report, write_report
from auctune.engine.workers.pool_jobs import PoolJobs
from auctune.sim.timeshare.bundle_file import BundleFile, read_bundle_file
from auctune.timeshare.named import make_estimator
from auctune.timeshare.thread import LearningThread, bundle_arrays
from auctune.train.base import check_device
from auctune.train.job_kinds import JobKinds
from auctune.train.preemptible import PreemptibleJob
from auctune.train.reproducible import deterministic, prepare_deterministic


@dataclass(frozen=True, slots=True, eq=False)
class BundleJob:
    """A job of a bundle.

    Attributes:
        thread: its target and quanta.
        make: returns a new one, always the same.
        settings: what it trains; JSON values that a resumed run must have too.
        rate: batches per quantum, or None if they are measured.
    """

    thread: LearningThread
    make: Callable[[], PreemptibleJob]
    settings: dict[str, Any]
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.rate is not None:
            check_positive(self.rate, "batches_per_unit", "a number > 0")


@dataclass(frozen=True, eq=False)
class Bundle:
    """Jobs and how they share the device.

    Attributes:
        jobs: one at least.
        params: settings of the pool.

    Raises:
        InputError: if there are no jobs, two of one id, or a rate is missing.
    """

    jobs: Sequence[BundleJob]
    params: PoolParams

    def __post_init__(self) -> None:
        bundle_arrays(self.threads)
        for index, job in enumerate(self.jobs):
            if self.params.quantum_seconds is None and job.rate is None:
                place = f"threads[{index}].batches_per_unit"
                raise InputError(place, "is missing", "a number > 0, as units have no length")

    @property
    def threads(self) -> list[LearningThread]:
        """The jobs, as allocators see them."""
        return [job.thread for job in self.jobs]

    def started(self) -> PoolStarted:
        """Return the first event of a run, which a resumed one must agree with."""
        jobs = [
            job.settings
            | {
                "id": job.thread.id,
                "start": job.thread.start,
                "deadline": job.thread.deadline,
                "threshold": job.thread.threshold,
            }
            for job in self.jobs
        ]
        return PoolStarted(VERSION, self.params.allocator.name, self.params.quantum_seconds, jobs)

    @cached_property
    def _jobs_by_id(self) -> dict[str, BundleJob]:
        return {job.thread.id: job for job in self.jobs}

    def make(self, job: str, settings: Mapping[str, Any]) -> PreemptibleJob:
        """Return a new job (`JobFactory`)."""
        return self._jobs_by_id[job].make()

    def release(self, job: str) -> None:
        """Do nothing: jobs of a bundle are loaded until its end."""


def run_bundle(
    bundle: Bundle,
    folder: Path,
    *,
    on_event: OnEvent | None = None,
    resume: bool = False,
    prepare: Callable[[], object] | None = None,
) -> PoolReport:
    """Run a bundle until its jobs are done or past their deadlines.

    Args:
        bundle: what is run.
        folder: of the run (`PoolDirectory`); new or empty, unless it is resumed.
        on_event: called with each event, if not None.
        resume: resume the run in `folder`.
        prepare: called once the folder is locked, before the jobs are made; None does nothing.

    Raises:
        InputError: if the folder holds a run already, or none to resume, or another one; if a job
            cannot be made, or is too large for the device.
        JobFailedError: if the code of a job raises an error.
        InfeasibleSharesError: if the allocator gives shares to jobs that are not active.
    """
    directory = PoolDirectory(folder)
    prepare_deterministic()
    with directory.open(resume=resume):
        if prepare is not None:
            prepare()
        with closing(EventLog(directory.event_log)) as log:
            identity = event_record(bundle.started())
            # They are compared before they are read (`read_stored_bundle`).
            del identity["inputs"]
            log.check_identity(identity)
            if not (log.events and log.events[-1]["type"] == "ended"):
                with deterministic(threads=bundle.params.cpu_threads):
                    _run(bundle, directory, log, on_event)
            report = make_report([read_event(record) for record in log.events])
            write_report(report, directory.root)
            return report


def _run(bundle: Bundle, directory: PoolDirectory, log: EventLog, on_event: OnEvent | None) -> None:
    def record(event: PoolEvent, outlooks: Sequence[JobOutlook]) -> None:
        log.append(event_record(event))
        if on_event is not None:
            on_event(event, outlooks)

    params = bundle.params
    seconds = params.quantum_seconds
    clock = Clock() if seconds is None else WallClock(seconds)
    jobs = PoolJobs(bundle, directory, params.memory_bytes, params.saved_every)
    state = PoolState.fold(map(read_event, log.events))
    pool = Pool(params, PoolDevice(jobs.handle), clock, state, record)
    pool.restore()
    new = [job for job in bundle.jobs if job.thread.id not in state.members]
    joined = [pool.load(job.thread, job.settings, job.rate) for job in new]
    if not log.events:
        pool.record(replace(bundle.started(), inputs=directory.input_digests()))
    for event in joined:
        pool.record(event)
    _record_notes(pool, log)
    for name, member in state.members.items():
        # A run that was killed between recording a quantum and writing a result.
        if member.is_done and not directory.result(name).exists():
            pool.export(name)
    starts = [thread.start for thread in bundle.threads]
    clock.start(state.moment if state.quanta else float(min(starts)))
    while pool.run_quantum():
        pass
    memory = pool.device.memory
    pool.record(
        PoolEnded(
            moment=clock.moment(),
            suspended=memory.suspended,
            resumed=memory.resumed,
            switch_seconds=memory.seconds,
            max_bytes=memory.max_bytes,
        )
    )


def _record_notes(pool: Pool, log: EventLog) -> None:
    """Record what jobs note on their data, once."""
    recorded = [(event["id"], event["text"]) for event in log.events if event["type"] == "noted"]
    for name, notes in pool.notes.items():
        for note in notes:
            if (name, note) not in recorded:
                pool.record(JobNoted(name, note))


def read_bundle(file: BundleFile, path: Path, beside: Path, cache: Path, every: float) -> Bundle:
    """Return the bundle of a file.

    Args:
        file: read and checked.
        path: of it, for errors.
        beside: folder that relative paths in it start from.
        cache: folder of base models that are built here.
        every: seconds between checkpoints of a job.

    Raises:
        InputError: naming the key.
    """
    pool = file.pool
    check_device(pool.device, "float32")
    kinds = JobKinds(pool.device, beside, cache, pool.gradient_checkpointing)
    jobs = []
    for index, entry in enumerate(file.thread):
        try:
            make = kinds.maker(entry.name, entry.kind, entry.seed, entry.settings)
            _check_json(entry.settings)
        except InputError as error:
            place = f"{path}: thread[{index}].{error.place}"
            raise InputError(place, error.found, error.expected) from None
        settings = {"kind": entry.kind, "seed": entry.seed, "settings": entry.settings}
        jobs.append(BundleJob(entry.learning(), make, settings, entry.batches_per_unit))
    params = PoolParams(
        allocator=file.allocator(),
        estimator=make_estimator(file.lara.estimator or "mixture", file.lara.gamma),
        quantum_seconds=pool.unit_seconds,
        memory_bytes=None if pool.memory_gb is None else int(pool.memory_gb * 1e9),
        cpu_threads=pool.cpu_threads,
        saved_every=every,
    )
    return Bundle(jobs, params)


def _check_json(settings: Mapping[str, Any]) -> None:
    """Settings are recorded as JSON, and compared when the run is resumed."""
    for key, value in settings.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            expected = "finite numbers, texts, and lists and tables of them"
            raise InputError(f"settings.{key}", str(value), expected) from None


def bundle_file(directory: PoolDirectory) -> Path:
    """Return where a run's copy of its bundle file is."""
    return directory.inputs / "bundle.toml"


def store_bundle_file(path: Path, directory: PoolDirectory) -> None:
    """Copy a bundle file into the directory of its run, with the folder that it was in.

    Raises:
        InputError: if the directory cannot be written.
    """
    try:
        directory.inputs.mkdir(parents=True, exist_ok=True)
        write_atomically(_beside_file(directory), str(path.resolve().parent).encode())
        # Written last: a directory without it holds no run.
        write_atomically(bundle_file(directory), path.read_bytes())
    except OSError as error:
        found = f"cannot be copied to ({error.strerror})"
        raise InputError(str(directory.inputs), found, "room for the run's bundle") from None


def read_stored_bundle(directory: PoolDirectory, cache: Path, every: float) -> Bundle:
    """Return the bundle of a run from the copy of its file; arguments as of `read_bundle`.

    Raises:
        InputError: if the directory holds no run; if an input is not as it was when the run began.
    """
    path = bundle_file(directory)
    for begun in read_events(directory.event_log)[:1]:
        check_version(begun, directory)
        directory.check_inputs(begun)
    if not path.is_file():
        found = "holds no run"
        raise InputError(str(directory.root), found, "the folder of a run that was started")
    beside = Path(_beside_file(directory).read_text())
    return read_bundle(read_bundle_file(path), path, beside, cache, every)


def _beside_file(directory: PoolDirectory) -> Path:
    return directory.inputs / "beside"
