"""Background worker of a timeshare zone: its pool, and the process that trains the pool's jobs."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import structlog

from auctune.device_profile import Profile
from auctune.domain import Money
from auctune.engine.messages.pool import PoolReply, PoolRequest
from auctune.engine.pool.clock import WallClock
from auctune.engine.pool.device import JobFailedError, PoolDevice
from auctune.engine.pool.epoch import PoolParams
from auctune.engine.pool.events import (
    ExitReason,
    JobLeft,
    JobOutlook,
    OpenPoolDirectory,
    PoolEvent,
    PoolState,
    QuantumTrained,
)
from auctune.engine.pool.pool import DesiredJob, DesiredStatus, OpenPool, load_kernels
from auctune.engine.runtime.channel import OnMessage
from auctune.engine.runtime.local import WorkerProcess, start_worker
from auctune.engine.runtime.nodes import NodeError, NodeSettings, adapter_folder, node_worker
from auctune.engine.runtime.requests import RequestWorker, WorkerEndedError
from auctune.service.jobs.device_limits import step_seconds
from auctune.service.storage.batch import StoreError
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.dependencies import ZoneDependencies
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.snapshots import read_event
from auctune.service.zones.core.supervisor import ProcessSupervisor
from auctune.service.zones.core.worker import ZoneWorker
from auctune.service.zones.timeshare.job import TimeshareJob
from auctune.service.zones.timeshare.pool import read_pool_state, record_event
from auctune.service.zones.timeshare.zone import TimeshareZone

T = TypeVar("T")

_log = structlog.get_logger(__name__)

# Not settings of a job in a pool: it trains until its target, and keeps its best training loss.
_UNUSED_SETTINGS = ("epochs", "schedule", "warmup_ratio", "patience")
# How often deadlines are checked that pass while no job trains, and whether a process is silent.
_IDLE_SECONDS = 1.0


class _InterruptedError(Exception):
    """The process that trains has ended, or the worker stops: the zone's log has what counts."""


class TimeshareWorker(ZoneWorker[TimeshareZone]):
    """Worker of a timeshare zone: a thread runs its pool, a supervised process trains the jobs.

    Args:
        actor: actor of the zone.
        clock: slots of the zone, which are the pool's units.
        profile: profile of the pool's device, by which the speed of a job is estimated.
        settings: settings of the process.
        params: settings of the pool.
        dependencies: what all zones share.
    """

    poll_seconds: ClassVar[float] = 1.0

    def __init__(
        self,
        actor: ZoneActor[TimeshareZone],
        clock: SlotClock,
        profile: Profile,
        settings: NodeSettings,
        params: PoolParams,
        dependencies: ZoneDependencies,
    ) -> None:
        self._directory = OpenPoolDirectory(dependencies.dirs.work(actor.name))
        super().__init__(actor, clock, self._directory.results, dependencies)
        self._profile, self._params = profile, params
        self._process_spec = node_worker(settings, self._logs / f"{actor.name}.log")
        # Progress is a quantum that is recorded.
        self._supervisor = ProcessSupervisor(
            self._launch, lambda _: None, lambda _: False, zone=actor.name
        )
        self._requests: RequestWorker | None = None
        self._stopping = threading.Event()
        self._pool_clock = WallClock(clock.slot_seconds, clock.epoch, self._stopping, clock.now)
        # State of the pool after all events of the zone's log; None: it is to be read from there.
        self._state: PoolState | None = None
        self._thread = threading.Thread(
            target=self._run_pool, name=f"pool-{actor.name}", daemon=True
        )

    async def _start_processes(self) -> None:
        self._thread.start()

    async def _stop_processes(self) -> None:
        self._stopping.set()
        # A quantum ends with the batch at hand, and is recorded.
        await asyncio.to_thread(self._supervisor.stop)
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    async def _run_slot(self) -> None:
        if self._supervisor.is_crash_looping:
            await self._actor.call(_fail_overdue)

    def _is_running(self, job: str) -> bool:
        # The pool does not use the results that it has written.
        return False

    def _result_folder(self, job: TimeshareJob) -> Path | None:
        assert job.departure is not None
        return (
            None if job.departure.best is None else adapter_folder(self._directory.result(job.id))
        )

    def _run_pool(self) -> None:
        """Run the pool until the worker is stopped, anew each time its process is restarted."""
        pool: OpenPool | None = None
        requests: RequestWorker | None = None
        try:
            while not self._stopping.is_set():
                self._supervisor.poll()
                is_idle = True
                try:
                    if pool is None or requests is not self._requests:
                        requests = self._requests
                        pool = self._start_pool()
                    is_idle = not self._run_quantum(pool)
                except _InterruptedError:
                    pool = None
                except StoreError as error:
                    _log.warning("a pool waits for the database", reason=str(error))
                    pool = self._state = None
                except JobFailedError as error:
                    # Jobs may have trained in the quantum, which is not recorded.
                    self._supervisor.kill(str(error))
                    pool = None
                except Exception as error:
                    if self._actor.failure is not None:
                        raise
                    # A defect, as of an allocator, is one of this zone: the others go on.
                    _log.exception("a pool failed", zone=self._actor.name)
                    self._supervisor.kill(f"its pool failed ({type(error).__name__})")
                    pool = self._state = None
                if is_idle:
                    self._stopping.wait(_IDLE_SECONDS)
        except Exception as error:
            self._on_fatal_error(error)

    def _start_pool(self) -> OpenPool:
        if self._requests is None or self._requests.has_ended:
            raise _InterruptedError
        members, last = self._call(self._members)
        if self._state is None:
            load_kernels(self._params)
            self._state = self._read_state(members, last)
        for name in self._state.members.keys() - members.keys():
            # It was cancelled, or failed at its deadline, while there was no process.
            self._state.apply(JobLeft(name, ExitReason.CANCELLED, "", None))
        device = PoolDevice(self._send)
        pool = OpenPool(self._params, device, self._pool_clock, self._state, self._record)
        pool.start(self._directory.root)
        return pool

    def _read_state(self, members: dict[str, DesiredJob], last: int) -> PoolState:
        first = min((self._events.read_job(job, limit=1)[0].seq for job in members), default=None)
        rows = () if first is None else self._events.read_zone(self._actor.name, first - 1)
        settings = {name: job.settings for name, job in members.items()}
        events = map(read_event, rows)
        return read_pool_state(events, settings, last, self._pool_clock, self._clock)

    def _run_quantum(self, pool: OpenPool) -> bool:
        """Have jobs join and leave, and train a quantum; return whether there was work."""
        desired, seq, has_cancelled = self._call(self._desired_jobs)
        is_complete = pool.reconcile({job.id: job for job in desired})
        if has_cancelled:
            self._call(lambda zone: zone.settle_dropped(seq))
        return pool.run_quantum() or not is_complete

    def _record(self, event: PoolEvent, outlooks: Sequence[JobOutlook]) -> None:
        self._call(lambda zone: record_event(zone, event, outlooks))
        if isinstance(event, QuantumTrained):
            self._supervisor.record_progress()

    def _call(self, command: Callable[[TimeshareZone], T]) -> T:
        """Run a command on the actor, and wait until its events are on disk."""
        answer = self._actor.submit(command)
        while True:
            try:
                return answer.result(_IDLE_SECONDS)
            except TimeoutError:
                # The database may be away for long.
                if self._stopping.is_set():
                    raise _InterruptedError from None

    def _send(self, request: PoolRequest) -> PoolReply:
        assert self._requests is not None
        answer: Future[PoolReply] = self._requests.request(request)
        while True:
            try:
                return answer.result(_IDLE_SECONDS)
            except TimeoutError:
                # Kills a process that is silent.
                self._supervisor.poll()
            except (WorkerEndedError, NodeError):
                # A `NodeError`: it could not start.
                raise _InterruptedError from None

    def _launch(self, on_message: OnMessage) -> RequestWorker:
        def start(on_reply: OnMessage) -> WorkerProcess:
            def handle(message: Any) -> None:
                # First the supervisor: who waits for the reply finds that the process has ended.
                on_message(message)
                on_reply(message)

            return start_worker(self._process_spec, handle, lock=self._lock)

        self._requests = RequestWorker(start, lambda failed: NodeError(failed.error.found))
        return self._requests

    def _members(self, zone: TimeshareZone) -> tuple[dict[str, DesiredJob], int]:
        """Return the jobs that are in the pool, and the newest unit; -1 if there is none."""
        jobs = [job for job in zone.state.jobs.values() if job.has_joined and not job.departure]
        units = zone.state.units
        members = {job.id: self._desired_job(job, zone.price) for job in jobs}
        return members, units[-1]["unit"] if units else -1

    def _desired_jobs(self, zone: TimeshareZone) -> tuple[list[DesiredJob], int, bool]:
        """Return the jobs of the pool, the newest event, and whether jobs were cancelled."""
        state = zone.state
        jobs = [job for job in state.jobs.values() if job.phase is not Phase.TRAINED]
        desired = [self._desired_job(job, zone.price) for job in jobs]
        return desired, state.seq, bool(state.cancelled)

    def _desired_job(self, job: TimeshareJob, price: Money) -> DesiredJob:
        training = job.training.hyperparameters()
        settings = {key: value for key, value in training.items() if key not in _UNUSED_SETTINGS}
        settings["target_modules"] = list(settings["target_modules"])
        settings["data"] = str(self._files.blobs.path(job.training.data))
        if job.training.start_from is not None:
            settings["start_from"] = str(self._files.blobs.path(job.training.start_from))
            settings["start_digest"] = job.training.start_digest
        status = DesiredStatus.PAUSED if job.phase is Phase.PAUSED else DesiredStatus.RUNNING
        if job.is_cap_reached and price:
            status = DesiredStatus.STOPPED
        return DesiredJob(
            id=job.id,
            deadline=job.deadline_unit,
            threshold=job.target_loss,
            settings=settings,
            batches_per_quantum=self._clock.slot_seconds
            / step_seconds(job.training, job.size, self._profile),
            status=status,
        )


def _fail_overdue(zone: TimeshareZone) -> None:
    """Fail jobs whose deadlines pass without a pool; cancelled jobs are charged no more."""
    zone.settle_dropped(zone.state.seq)
    for job in list(zone.state.jobs.values()):
        if job.departure is None and job.deadline_unit <= zone.clock.slot():
            zone.fail(job.id, "service_failed", "the pool could not be run", None)
