"""Background worker of a timeshare zone: the pool's commands and events, archives."""

import asyncio
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from auctune.device_profile import Profile
from auctune.domain import Money
from auctune.run.child import Hear, Message
from auctune.run.data.client import DataClient
from auctune.run.executor.orders import adapter_folder
from auctune.run.open_pool.folder import OpenPoolFolder
from auctune.run.open_pool.how import How
from auctune.run.open_pool.messages import PoolSettings
from auctune.run.open_pool.process import PoolProcess
from auctune.run.open_pool.wanted import WantedThread, Wish
from auctune.service.files.repository import FileRepository
from auctune.service.jobs.device_limits import step_seconds
from auctune.service.storage import Committer, Snapshots
from auctune.service.tasks import TaskSet
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.metered import MeteredEventType
from auctune.service.zones.core.snapshots import Snapshotter
from auctune.service.zones.core.supervisor import ProcessSupervisor
from auctune.service.zones.core.worker import (
    BackgroundJobs,
    ResultArchiver,
    WorkdirCleaner,
    run_every_slot,
)
from auctune.service.zones.timeshare.bid import charge_amount
from auctune.service.zones.timeshare.gateway import TimeshareGateway
from auctune.service.zones.timeshare.job import Phase, TimeshareEventType, TimeshareJob
from auctune.service.zones.timeshare.state import TimeshareState, saved_state
from auctune.service.zones.timeshare.zone import TimeshareZone


class TimeshareSaver:
    """Of one zone."""

    def seq(self, zone: TimeshareZone) -> int:
        """Of the newest event that the memory knows."""
        return zone.state.seq

    def prepare(self, zone: TimeshareZone) -> bool:
        """Nothing: who shares one pool is not many."""
        return True

    def save(self, zone: TimeshareZone) -> dict[str, Any]:
        """All that the zone remembers."""
        return saved_state(zone.state)


# The end of a job that has left the pool, once its adapter is archived.


def finish_job(zone: TimeshareZone, name: str, files: list[str]) -> bool:
    """End a job that left; false if it is over already.

    Args:
        zone: whose it is.
        name: its id.
        files: what came out of it; none: nothing.
    """
    job = zone.state.jobs.get(name)
    if job is None:
        return False
    assert job.left is not None
    if job.left.reason == How.REACHED and files:
        zone.record(EventType.FINISHED, name, {"files": files})
    else:
        zone.record(EventType.FAILED, name, {**_failure(job), "files": files})
    return True


def _failure(job: TimeshareJob) -> dict[str, Any]:
    assert job.left is not None
    how, param, refund = job.left.reason, None, False
    best = "" if job.best is None else f"; its best loss was {job.best:.6g}"
    if how == How.MISSED:
        code, param = "target_not_reached", "market.target_loss"
        message = f"target not reached by its deadline: {job.target_loss:g}{best}"
    elif how == How.SLOW:
        code, param = "step_too_long", "hyperparameters.batch_size"
        message = f"{job.left.why}, longer than a job may hold the pool{best}"
    elif how == How.ENDED:
        code, param = "cap_reached", "market.max_cost"
        message = f"its cost has reached max_cost before the target loss, {job.target_loss:g}{best}"
    else:
        # That what it learned cannot be handed out is no fault of its owner's.
        code, refund = "training_failed", True
        message = job.left.why or "what it has learned cannot be handed out"
    return {"code": code, "message": message, "param": param, "refund": refund}


# Commands to the pool: the jobs that it should run.

# How long it trains nobody knows, and what it keeps is by its loss in training.
_NOT_ITS_OWN = ("epochs", "schedule", "patience")


class PoolCommands:
    """Of one zone.

    Args:
        content: where the content of a file lies, by its id.
        pool: folder of the pool, from which paths start.
        price: of a second of the pool.
        profile: of the pool's device, by which a job's speed is estimated.
        unit_seconds: length of a unit.
    """

    def __init__(
        self,
        content: Callable[[str], Path],
        pool: Path,
        price: Money,
        profile: Profile,
        unit_seconds: float,
    ) -> None:
        self._content, self._pool, self._price = content, pool, price
        self._profile, self._unit_seconds = profile, unit_seconds

    def desired_threads(self, state: TimeshareState) -> tuple[WantedThread, ...]:
        """All jobs that are to be in the pool, and what they are to do."""
        return tuple(
            self._thread(job) for job in state.jobs.values() if job.phase is not Phase.LEFT
        )

    def _thread(self, job: TimeshareJob) -> WantedThread:
        settings = job.training.settings()
        lasting = {key: value for key, value in settings.items() if key not in _NOT_ITS_OWN}
        lasting["target_modules"] = list(lasting["target_modules"])
        # A data folder that is moved takes its pools along.
        lasting["data"] = os.path.relpath(self._content(job.training.data), self._pool)
        return WantedThread(
            id=job.id,
            deadline=job.deadline_unit,
            threshold=job.target_loss,
            lasting=lasting,
            batches_per_unit=self._unit_seconds
            / step_seconds(job.training, job.size, self._profile),
            wish=self._wish(job),
        )

    def _wish(self, job: TimeshareJob) -> Wish:
        if job.is_cap_reached and self._price:
            return Wish.END
        return Wish.REST if job.phase is Phase.PAUSED else Wish.LEARN


# Events of the pool: each of its journal is applied once, by its number.

NODE = "pool"
"""Where all jobs of such a zone are trained."""

Views = Mapping[str, Mapping[str, Any]]


class PoolEventHandler:
    """Of one zone's pool.

    Args:
        price: of a second of it.
    """

    def __init__(self, price: Money) -> None:
        self._price = price

    def on_event(
        self, zone: TimeshareZone, number: int, event: Mapping[str, Any], views: Views
    ) -> None:
        """Take over an event of the pool's journal, unless it is on record.

        Args:
            zone: whose pool it is.
            number: of the event.
            event: as `auctune.run.open_pool.state` says.
            views: of a unit's jobs; none where it is told again.
        """
        if number <= zone.state.journal_offset:
            return
        kind, job = event["type"], event.get("id")
        if kind == "unit":
            with zone.atomic():
                self._unit(zone, number, event, views)
        elif kind == "joined" and zone.state.charged_job(event["id"]) is not None:
            with zone.atomic():
                self._joined(zone, number, event)
        elif job not in zone.state.jobs:
            # Its owner ended it meanwhile.
            return
        elif kind == "left":
            best = event["best"]
            loss = None if best is None else best["loss"]
            body = {"how": event["how"], "why": event["why"], "best": loss}
            zone.record(TimeshareEventType.LEFT, job, {"number": number, **body})
        elif kind == "refused":
            why = f"{event['place']} {event['found']}".strip()
            zone.fail(job, "training_failed", why, None)
        elif kind == "noted":
            zone.record(EventType.JOB_NOTED, job, {"number": number, "text": event["text"]})

    def _joined(self, zone: TimeshareZone, number: int, event: Mapping[str, Any]) -> None:
        """A job was loaded, which takes the pool's time as training does."""
        job, unit, seconds = zone.state.charged_job(event["id"]), event["time"], event["seconds"]
        assert job is not None
        body = {"unit": unit, "rate": event["rate"], "memory": event["memory"]}
        zone.record(TimeshareEventType.JOINED, job.id, {"number": number, **body})
        if job.left is None and seconds:
            row = {"seconds": seconds, "batches": 0, "losses": math.nan}
            self._meter(zone, job, unit, row, 0.0, {})

    def _unit(
        self, zone: TimeshareZone, number: int, event: Mapping[str, Any], views: Views
    ) -> None:
        shares = dict(zip(event["names"], event["shares"], strict=True))
        unit = {"number": number, "unit": event["time"], "span": event["span"]}
        zone.record(TimeshareEventType.UNIT, None, {**unit, "shares": shares})
        for place, name in enumerate(event["names"]):
            job = zone.state.charged_job(name)
            if job is not None and job.left is None and event["seconds"][place]:
                row = {
                    key: event[key][place] for key in ("batches", "losses", "seconds", "learned")
                }
                self._trained(zone, job, event["time"], row, shares[name], views.get(name, {}))

    def _trained(
        self,
        zone: TimeshareZone,
        job: TimeshareJob,
        unit: int,
        row: Mapping[str, Any],
        share: float,
        view: Mapping[str, Any],
    ) -> None:
        loss = self._meter(zone, job, unit, row, share, view)
        if not row["batches"] or job.id in zone.state.cancelled:
            return
        steps = job.progress.steps + row["batches"]
        rows, tokens = row["learned"]
        result = {
            "rows": rows,
            "total_rows": 0,
            "tokens": tokens,
            "steps": steps,
            "state": "training",
            "losses": [] if loss is None else [[steps, rows, tokens, loss]],
            "validation": [],
            "note": "",
        }
        trained = {"node": NODE, "slot": unit, "seconds": row["seconds"], "result": result}
        zone.record(EventType.TRAINED, job.id, trained)

    def _meter(
        self,
        zone: TimeshareZone,
        job: TimeshareJob,
        unit: int,
        row: Mapping[str, Any],
        share: float,
        view: Mapping[str, Any],
    ) -> float | None:
        """Charge a job for seconds of the pool; returns its loss in them."""
        loss = row["losses"] if math.isfinite(row["losses"]) else None
        body = {
            "slot": job.meter.next_slot,
            "amount": str(charge_amount(row["seconds"], self._price, job.meter.remaining)),
            "cost": "0",
            "unit": unit,
            "seconds": row["seconds"],
            "batches": row["batches"],
            "loss": loss,
            "share": share,
            "finish": view.get("finish"),
            "verdict": view.get("verdict"),
        }
        zone.record(MeteredEventType.METERED, job.id, body)
        return loss


# The worker.
#
# The actor decides; the worker tells the pool who is wanted, and the actor what the pool says.

_log = structlog.get_logger(__name__)

# It is done with what it has handed out.
_POOL_IS_AT: frozenset[str] = frozenset()

_LOOK_SECONDS = 1.0


class TimeshareWorker:
    """Of one zone.

    Args:
        zone: whose.
        profile: of the pool's device.
        settings: of the pool's process, but for what its zone has heard.
        logs: folder of the process's log.
        library: files.
        data: the data process.
        snapshots: reads and makes snapshots.
        committer: writes them.
        lock: descriptor of the lock that the process holds too; none: there is none.
        alarm: told if the zone cannot go on.
    """

    def __init__(
        self,
        zone: TimeshareGateway,
        profile: Profile,
        settings: PoolSettings,
        logs: Path,
        library: FileRepository,
        data: DataClient,
        snapshots: Snapshots,
        committer: Committer,
        lock: int | None,
        alarm: Callable[[Exception], None],
    ) -> None:
        self._zone, self._settings, self._logs = zone, settings, logs
        self._packer = ResultArchiver(zone.actor, data, library)
        self._lock, self._alarm = lock, alarm
        self._place = OpenPoolFolder(Path(settings.folder))
        self._hearing = PoolEventHandler(zone.price)
        self._orders = PoolCommands(
            library.blobs.path, self._place.root, zone.price, profile, zone.clock.slot_seconds
        )
        self._background = TaskSet()
        self._background_jobs = BackgroundJobs(zone.abandon)
        self._keeper = Snapshotter(zone.actor, zone.clock, TimeshareSaver(), snapshots, committer)
        self._leftovers = WorkdirCleaner(
            self._place.results,
            zone.actor,
            _POOL_IS_AT.__contains__,
            self._background_jobs.busy,
            library.has_job,
            library.trash,
        )
        self._pool = ProcessSupervisor(zone.name, self._launch, self._on_message, _has_trained)
        self._process: PoolProcess | None = None
        self._after = 0
        self._said: tuple[WantedThread, ...] | None = None
        self._said_seq = 0

    async def start(self) -> None:
        """Start the pool, and take up what was under way."""
        self._place.results.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        await self._zone.decide_pending()
        beating = run_every_slot(self._zone.clock, self._tick, _LOOK_SECONDS, self._alarm)
        self._background.spawn(beating)

    async def stop(self) -> None:
        """Stop the pool; what it trained is in its journal."""
        await self._background.close()
        await self._background_jobs.close()
        await asyncio.to_thread(self._pool.stop)

    async def _tick(self) -> None:
        self._after = await self._zone.call(lambda zone: zone.state.journal_offset)
        if await asyncio.to_thread(self._pool.poll):
            self._said = None
        wanted, seq, cancelled = await self._zone.call(self._wanted)
        is_new = wanted != self._said or cancelled > self._said_seq
        if is_new and self._process is not None:
            self._process.want(wanted, seq)
            self._said, self._said_seq = wanted, seq
        if self._pool.is_crash_looping:
            await self._zone.call(_give_up_late)
        await self._archive_all()
        await self._leftovers.clean()
        await self._keeper.snapshot_if_due()

    def _wanted(self, zone: TimeshareZone) -> tuple[tuple[WantedThread, ...], int, int]:
        """Return who is wanted, by which event, and the newest cancellation to be settled."""
        state = zone.state
        cancelled = max((one.seq for one in state.cancelled.values()), default=0)
        return self._orders.desired_threads(state), state.seq, cancelled

    def _launch(self, hear: Hear) -> PoolProcess:
        settings = replace(self._settings, after=self._after)
        log = self._logs / f"{self._zone.name}.log"
        self._process = PoolProcess(settings, hear, lock=self._lock, log=log)
        return self._process

    def _on_message(self, message: Message) -> None:
        """On a thread of the pool's process."""
        if message["kind"] == "failed":
            _log.error("the pool failed", zone=self._zone.name, why=message["found"])
        if message["kind"] == "followed":
            seq = message["seq"]
            self._zone.actor.post(lambda zone: zone.settle_dropped(seq), self._alarm)
        if message["kind"] != "event":
            return
        number, event, views = message["number"], message["event"], message["views"]
        self._zone.actor.post(
            lambda zone: self._hearing.on_event(zone, number, event, views), self._alarm
        )

    async def _archive_all(self) -> None:
        def left(zone: TimeshareZone) -> list[TimeshareJob]:
            return [job for job in zone.state.jobs.values() if job.phase is Phase.LEFT]

        for job in await self._zone.call(left):
            assert job.left is not None
            self._background_jobs.start_once(
                job.id, self._finish(job.id, job.owner, has_result=job.left.best is not None)
            )

    async def _finish(self, job: str, owner: str, *, has_result: bool) -> None:
        if not has_result:
            await self._zone.call(lambda zone: finish_job(zone, job, []))
            return
        target = self._place.results / f"{job}.zip"
        source = adapter_folder(self._place.result(job))
        await self._packer.archive(
            job, owner, source, target, lambda zone, file: finish_job(zone, job, [file])
        )


def _has_trained(message: Message) -> bool:
    return bool(message["kind"] == "event" and message["event"]["type"] == "unit")


def _give_up_late(zone: TimeshareZone) -> None:
    """Fail jobs whose deadlines pass while there is no pool; cancelled ones cost no more."""
    zone.settle_dropped(zone.state.seq)
    for job in list(zone.state.jobs.values()):
        if job.left is None and job.deadline_unit <= zone.clock.slot():
            zone.fail(job.id, "service_failed", "the pool could not be run", None)
