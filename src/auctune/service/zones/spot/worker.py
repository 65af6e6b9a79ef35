"""Background worker of a spot zone: messages of jobs' processes, slots, snapshots.

It tells what its journal holds, and after every start all of it again; what is on record already is
passed over. All of it runs on the actor's thread.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

from auctune.domain import round_money
from auctune.run.data.client import DataClient
from auctune.run.rental.order import adapter_in
from auctune.service.config.spot import SpotConfig
from auctune.service.files.repository import FileRepository
from auctune.service.storage import Committer, Snapshots
from auctune.service.tasks import TaskSet
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.metered import MeteredEventType
from auctune.service.zones.core.snapshots import Snapshotter
from auctune.service.zones.core.worker import (
    BackgroundJobs,
    ResultArchiver,
    WorkdirCleaner,
    run_every_slot,
)
from auctune.service.zones.spot.decision import charge_amount, value_at
from auctune.service.zones.spot.gateway import SpotGateway
from auctune.service.zones.spot.job import CAP_REACHED, SpotEventType, SpotJobState
from auctune.service.zones.spot.processes import JobProcessPool
from auctune.service.zones.spot.snapshots import SpotSaver
from auctune.service.zones.spot.zone import SpotZone

Message = Mapping[str, Any]


def on_message(zone: SpotZone, name: str, message: Message) -> None:
    """Take over a message; one of a job that is over says nothing any more."""
    zone.begin_slots()
    job = zone.state.jobs.get(name)
    if job is None:
        return
    match message["kind"]:
        case "ready":
            zone.record(SpotEventType.READY, name, {"seconds": message["seconds"]})
        case "slot":
            _charge(zone, job, message)
        case "held":
            _charge(zone, job, {**message, "spot": 0, "missed": False, "price": None})
            _record_training(zone, job, message)
        case "slot_done":
            _record_training(zone, job, message)
        case "ended":
            _finish(zone, job, message)
        case "capped":
            next_slot, left = round_money(message["rate"] * job.unit_price), job.meter.remaining
            why = (
                f"the cap of {job.meter.cap} is reached: {left} of it is left, "
                f"and the next slot would cost {next_slot}"
            )
            zone.fail(name, CAP_REACHED, why, "market.max_cost", refund=False)
        case "failed":
            why = " ".join(str(message[part]) for part in ("place", "found") if message[part])
            zone.fail(name, "training_failed", why, None)
        case "noted" if message["text"] not in job.notes:
            zone.record(EventType.JOB_NOTED, name, {"text": message["text"]})


def _charge(zone: SpotZone, job: SpotJobState, message: Message) -> None:
    number = message["slot"]
    if job.meter.is_charged(number):
        return
    amount = charge_amount(message["paid"], job.unit_price, job.meter.remaining)
    at, share = job.first + number, 1.0
    if "since" in message:
        at = job.first + int(message["since"])
        share = message["until"] - message["since"]
    body = {
        "slot": number,
        "amount": str(amount),
        "cost": str(round_money(message["paid"] * job.unit_cost)),
        "at": at,
        "share": share,
        "price": message["price"],
        "on_demand": message["on_demand"],
        "spot": message["spot"],
        "missed": message["missed"],
    }
    zone.record(MeteredEventType.METERED, job.id, body)


def _record_training(zone: SpotZone, job: SpotJobState, message: Message) -> None:
    number = message["slot"]
    # A slot in which nothing was trained left nothing to go on from.
    if number < job.next_trained or message["rows"] in (None, job.progress.rows):
        return
    result = {
        "rows": message["rows"],
        "total_rows": job.total_rows,
        "tokens": message["tokens"],
        "steps": message["steps"],
        "losses": [[step, rows, rows, loss] for step, rows, loss in message["losses"]],
        "validation": [],
        "state": "suspended",
        "note": "",
    }
    body = {
        "node": zone.name,
        "slot": zone.state.slot,
        "seconds": zone.clock.slot_seconds,
        "number": number,
        "result": result,
    }
    zone.record(EventType.TRAINED, job.id, body)


def _finish(zone: SpotZone, job: SpotJobState, message: Message) -> None:
    if job.phase is Phase.TRAINED:
        return
    if message["state"] != "done":
        # Settings that let the weights go astray are not the market's failure.
        zone.fail(job.id, "training_failed", message["note"], None, refund=False)
        return
    done = zone.clock.slot_start(job.first) + message["finish"] * zone.clock.slot_seconds
    worth = value_at(job.worth, done)
    body = {name: message[name] for name in ("state", "note", "finish")}
    zone.record(
        SpotEventType.ENDED, job.id, body | {"worth": None if worth is None else str(worth)}
    )


# The worker.
#
# Each job under way has a process that rents and trains by itself, with a folder of its own; it is
# started again for as long as the job is not over, and stopped while it is paused.

_log = structlog.get_logger(__name__)

_DONE = "exit code 0"
# A job whose process ends so often without a slot more on record will not do better.
_MAX_CRASHES = 8
_LOOK_SECONDS = 0.5


class SpotWorker:
    """Of one zone.

    Args:
        zone: whose.
        entry: its settings.
        cache: folder of bases that are built on this machine.
        work: folder of the jobs' runs.
        logs: folder of the processes' logs.
        library: files.
        data: the data process.
        snapshots: makes them.
        committer: writes them.
        lock: descriptor of the lock that jobs' processes hold too.
        alarm: told if the zone cannot go on.
    """

    def __init__(
        self,
        zone: SpotGateway,
        entry: SpotConfig,
        cache: Path,
        work: Path,
        logs: Path,
        library: FileRepository,
        data: DataClient,
        snapshots: Snapshots,
        committer: Committer,
        lock: int | None,
        alarm: Callable[[Exception], None],
    ) -> None:
        self._zone = zone
        self._work = work
        self._packer = ResultArchiver(zone.actor, data, library)
        self._alarm = alarm
        self._deaths: Counter[str] = Counter()
        self._background = TaskSet()
        self._background_jobs = BackgroundJobs(zone.abandon)
        self._keeper = Snapshotter(zone.actor, zone.clock, SpotSaver(), snapshots, committer)
        self._processes = JobProcessPool(
            entry, zone.rental, cache, work, logs, library.blobs.path, lock, self._on_message
        )
        self._leftovers = WorkdirCleaner(
            work,
            zone.actor,
            self._processes.is_running,
            self._background_jobs.busy,
            library.has_job,
            library.trash,
        )

    async def start(self) -> None:
        """Take up what was under way."""
        self._loop = asyncio.get_running_loop()
        self._work.mkdir(parents=True, exist_ok=True)
        await self._zone.decide_pending()
        beating = run_every_slot(self._zone.clock, self._tick, _LOOK_SECONDS, self._alarm)
        self._background.spawn(beating)

    async def stop(self) -> None:
        """Stop the jobs' processes; what they trained is in their checkpoints."""
        await self._background.close()
        await self._background_jobs.close()
        await asyncio.to_thread(self._processes.close)

    async def _tick(self) -> None:
        jobs = await self._zone.call(_under_way)
        await asyncio.to_thread(self._processes.reconcile, jobs)
        for job in await self._zone.call(_trained):
            self._background_jobs.start_once(job.id, self._finish(job.id, job.owner))
        await self._leftovers.clean()
        await self._keeper.snapshot_if_due()

    def _on_message(self, job: str, message: dict[str, Any] | None) -> None:
        """On a thread of the job's process."""
        if message is None:
            self._loop.call_soon_threadsafe(self._ended, job)
            return
        if message["kind"] in ("alive", "stopped"):
            return
        if message["kind"] in ("slot", "slot_done", "held"):
            self._deaths.pop(job, None)

        def take(zone: SpotZone) -> None:
            on_message(zone, job, message)

        heard = self._zone.actor.submit(take)
        heard.add_done_callback(lambda done: self._check_heard(done.exception()))

    def _check_heard(self, error: BaseException | None) -> None:
        if error is not None and self._zone.actor.failure is None:
            self._alarm(error if isinstance(error, Exception) else RuntimeError(str(error)))

    def _ended(self, job: str) -> None:
        """A process has ended: by itself, as it was told to, or otherwise."""
        how = self._processes.reap(job)
        if how is None:
            return
        self._deaths[job] += 1
        # One that has done its work ends so too.
        say = _log.info if how == _DONE else _log.warning
        say("a job's process has ended", job=job, how=how)
        if self._deaths[job] >= _MAX_CRASHES:
            del self._deaths[job]
            self._background.spawn(
                self._zone.abandon(job, f"its process ended again and again ({how})")
            )

    async def _finish(self, job: str, owner: str) -> None:
        source, target = adapter_in(self._work / job), self._work / f"{job}.zip"
        await self._packer.archive(
            job, owner, source, target, lambda zone, file: zone.finish(job, file)
        )


def _under_way(zone: SpotZone) -> list[SpotJobState]:
    """Jobs that are to have a process."""
    zone.begin_slots()
    still = (Phase.PLANNED, Phase.TRAINING)
    return [job for job in zone.state.jobs.values() if job.phase in still]


def _trained(zone: SpotZone) -> list[SpotJobState]:
    return [job for job in zone.state.jobs.values() if job.phase is Phase.TRAINED]
