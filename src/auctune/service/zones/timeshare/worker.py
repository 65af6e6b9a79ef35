"""Background worker of a timeshare zone: its pool, and the process that trains the pool's jobs.

Events of the pool are events of the zone, and the pool's state follows from these: the zone's log
is the truth of what was trained, and a quantum that is not recorded is trained again.
"""

import asyncio
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import structlog

from auctune.domain import Money
from auctune.engine.messages.pool import PoolReply, PoolRequest, SliceResult
from auctune.engine.pool.clock import Clock, WallClock
from auctune.engine.pool.device import JobFailedError, PoolDevice
from auctune.engine.pool.epoch import PoolParams
from auctune.engine.pool.events import (
    ExitReason,
    JobJoined,
    JobLeft,
    JobNoted,
    JobOutlook,
    JobRejected,
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
from auctune.engine.unix_time import SlotClock
from auctune.files.device_profile import Profile
from auctune.service.jobs.training import step_seconds
from auctune.service.storage.engine import StoreError
from auctune.service.storage.event_log import ZoneEvent
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.events import JobNoted as JobNotedBody
from auctune.service.zones.core.events import JobTrained
from auctune.service.zones.core.job import MAX_SHORTFALL, SLOWER_THAN_SOLD, Phase, SlotResult
from auctune.service.zones.core.snapshots import read_event
from auctune.service.zones.core.worker import ProcessSupervisor, ZoneDependencies, ZoneWorker
from auctune.service.zones.timeshare.state import JobJoined as JobJoinedPool
from auctune.service.zones.timeshare.state import JobLeft as JobLeftPool
from auctune.service.zones.timeshare.state import (
    PoolNoted,
    TimeshareDecided,
    TimeshareJob,
    TimeshareMetered,
    TimeshareState,
    UnitTrained,
    charge_amount,
)
from auctune.service.zones.timeshare.zone import TimeshareZone

NODE = "pool"
"""Name of the node that trains the jobs of a timeshare zone."""


def record_event(
    zone: TimeshareZone, event: PoolEvent, outlooks: Sequence[JobOutlook] = ()
) -> None:
    """Record an event of the pool; `outlooks` are of a quantum's jobs."""
    number = zone.state.journal_offset + 1
    match event:
        case QuantumTrained():
            with zone.atomic():
                _quantum(zone, number, event, {one.id: one for one in outlooks})
        case JobJoined():
            job = zone.state.charged_job(event.id)
            if job is not None:
                with zone.atomic():
                    _joined(zone, number, event, job)
        case JobLeft() | JobRejected() | JobNoted():
            # A job may have been cancelled meanwhile.
            if event.id in zone.state.jobs:
                _changed(zone, number, event)


def read_pool_state(
    events: Iterable[ZoneEvent],
    settings: Mapping[str, dict[str, Any]],
    last: int,
    clock: Clock,
    slots: SlotClock,
) -> PoolState:
    """Return the state of a pool from the events of its zone.

    Args:
        events: all since the first of its jobs was decided on.
        settings: what the jobs train that have joined the pool and not left it, by id; other jobs
            are left out.
        last: number of the newest quantum; -1 if there is none.
        clock: by which the jobs' rates followed what they trained.
        slots: of the zone.
    """
    state, decode, rates = PoolState(), TimeshareState().decode, dict[str, float]()
    decided: dict[str, TimeshareDecided] = {}
    unit: UnitTrained | None = None
    moment = 0.0
    rows: dict[str, TimeshareMetered] = {}

    def apply_unit() -> None:
        # The rows of a unit follow it.
        if unit is not None and not state.members.keys().isdisjoint(unit.shares):
            quantum = _recorded_quantum(unit, moment, rows, state, rates, clock)
            state.apply(quantum)
            rates.update(zip(quantum.jobs, quantum.rates, strict=True))
        rows.clear()

    for event in events:
        job, is_member = event.job or "", event.job in settings
        match decode(event):
            case TimeshareDecided() as decision if is_member:
                decided[job] = decision
            case UnitTrained() as trained:
                apply_unit()
                unit = trained
                moment = (event.at - slots.epoch) / slots.slot_seconds
            case JobJoinedPool() as joined:
                # It may be followed by a charge for loading the job.
                apply_unit()
                unit = None
                if is_member:
                    rates[job] = joined.rate
                    state.apply(_joined_event(job, joined, decided[job], settings[job]))
            case TimeshareMetered() as row if is_member:
                rows[job] = row
            case _:
                pass
    apply_unit()
    state.last = last
    return state


def _joined_event(
    job: str, joined: JobJoinedPool, decided: TimeshareDecided, settings: dict[str, Any]
) -> JobJoined:
    return JobJoined(
        id=job,
        time=joined.unit,
        deadline=decided.deadline_unit,
        threshold=decided.decision.target_loss,
        settings=settings,
        rate=joined.rate,
        memory_bytes=int(joined.memory),
        seconds=0.0,
    )


def _recorded_quantum(
    unit: UnitTrained,
    moment: float,
    rows: Mapping[str, TimeshareMetered],
    state: PoolState,
    rates: Mapping[str, float],
    clock: Clock,
) -> QuantumTrained:
    """Return a quantum as its members had it, from the charges for it."""
    names = [name for name in unit.shares if name in state.members]
    found = [rows.get(name) for name in names]
    batches = [0 if row is None else row.batches for row in found]
    seconds = [0.0 if row is None else float(row.seconds) for row in found]
    new_rates = clock.update_rates(
        np.array([rates[name] for name in names]),
        np.array(batches, dtype=np.float64),
        np.array(seconds),
        np.array([state.members[name].batches == 0 for name in names]),
    )
    return QuantumTrained(
        time=unit.unit,
        moment=moment,
        span=float(unit.span),
        jobs=names,
        shares=[float(unit.shares[name]) for name in names],
        batches=batches,
        losses=[math.nan if row is None or row.loss is None else row.loss for row in found],
        seconds=seconds,
        rates=new_rates.tolist(),
        read=[(0, 0)] * len(names),
    )


def _changed(zone: TimeshareZone, number: int, event: JobLeft | JobRejected | JobNoted) -> None:
    match event:
        case JobLeft():
            loss = None if event.best is None else event.best[1]
            left = JobLeftPool(number=number, how=event.reason.value, why=event.why, best=loss)
            zone.record(left, event.id)
        case JobRejected():
            zone.fail(event.id, "training_failed", f"{event.place} {event.found}".strip(), None)
        case JobNoted():
            zone.record(PoolNoted(number=number, text=event.text), event.id)


def _joined(zone: TimeshareZone, number: int, event: JobJoined, job: TimeshareJob) -> None:
    """Record that a job was loaded; loading takes time of the pool, and is charged."""
    joined = JobJoinedPool(
        number=number, unit=event.time, rate=event.rate, memory=event.memory_bytes
    )
    zone.record(joined, job.id)
    if job.departure is None and event.seconds:
        _meter(zone, job, event.time, SliceResult(seconds=event.seconds))


def _quantum(
    zone: TimeshareZone, number: int, event: QuantumTrained, outlooks: Mapping[str, JobOutlook]
) -> None:
    shares = dict(zip(event.jobs, event.shares, strict=True))
    zone.record(UnitTrained(number=number, unit=event.time, span=event.span, shares=shares))
    accuracies = event.accuracies or [math.nan] * len(event.jobs)
    columns = (event.batches, event.losses, accuracies, event.seconds, event.read)
    for name, *values in zip(event.jobs, *columns, strict=True):
        job, row = zone.state.charged_job(name), SliceResult(*values)
        if job is not None and job.departure is None and row.seconds:
            _trained(zone, job, event.time, row, shares[name], outlooks.get(name))


def _trained(
    zone: TimeshareZone,
    job: TimeshareJob,
    unit: int,
    row: SliceResult,
    share: float,
    outlook: JobOutlook | None,
) -> None:
    loss = _meter(zone, job, unit, row, share, outlook)
    if not row.batches or job.id in zone.state.cancelled:
        return
    steps = job.progress.steps + row.batches
    rows, tokens = row.read
    result = SlotResult(
        rows=rows,
        total_rows=0,
        tokens=tokens,
        steps=steps,
        state="training",
        losses=() if loss is None else ((steps, rows, tokens, loss, _finite(row.accuracy)),),
    )
    trained = JobTrained(node=NODE, slot=unit, seconds=row.seconds, result=result)
    zone.record(trained, job.id)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _meter(
    zone: TimeshareZone,
    job: TimeshareJob,
    unit: int,
    row: SliceResult,
    share: float = 0.0,
    outlook: JobOutlook | None = None,
) -> float | None:
    """Charge a job for seconds of the pool; return its loss, or None if it is not finite."""
    loss = _finite(row.loss)
    sold, charged_seconds = row.batches * zone.batch_seconds(job), None
    if 0.0 < sold < (1.0 - MAX_SHORTFALL) * row.seconds:
        charged_seconds = sold
    seconds = row.seconds if charged_seconds is None else charged_seconds
    amount = charge_amount(seconds, zone.price, job.meter.remaining)
    at_wall_time = float(zone.price) * (job.curve.seconds + row.seconds)
    is_slowed = float(job.meter.charged + amount) < (1.0 - MAX_SHORTFALL) * at_wall_time
    if charged_seconds is not None and is_slowed and not job.was_slowed:
        zone.record(JobNotedBody(text=SLOWER_THAN_SOLD), job.id)
    metered = TimeshareMetered(
        slot=job.meter.next_slot,
        amount=amount,
        cost=Money(0),
        unit=unit,
        seconds=row.seconds,
        batches=row.batches,
        loss=loss,
        share=share,
        finish=None if outlook is None else outlook.finish,
        verdict=None if outlook is None else outlook.status.value,
        charged_seconds=charged_seconds,
    )
    zone.record(metered, job.id)
    return loss


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
