"""Everything of a timeshare zone that takes time: its pool, packing, its snapshots.

The desk decides; the workshop tells the pool who is wanted, and the desk what the pool says.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import structlog

from auctune.device_profile import Profile
from auctune.run.child import Hear, Message
from auctune.run.data.client import DataClient
from auctune.run.executor.orders import adapter_folder
from auctune.run.open_pool.folder import OpenPoolFolder
from auctune.run.open_pool.messages import PoolSettings
from auctune.run.open_pool.process import PoolProcess
from auctune.run.open_pool.wanted import WantedThread
from auctune.service.files.repository import FileRepository
from auctune.service.storage import Committer, Snapshots
from auctune.service.tasks import TaskSet
from auctune.service.zones.chores import Chores
from auctune.service.zones.heartbeat import beat
from auctune.service.zones.keeping import Keeper
from auctune.service.zones.leftovers import Leftovers
from auctune.service.zones.packing import Packer
from auctune.service.zones.process_keeper import ProcessKeeper
from auctune.service.zones.timeshare.ending import end_job
from auctune.service.zones.timeshare.hearing import Hearing
from auctune.service.zones.timeshare.open_job import Phase, TargetJob
from auctune.service.zones.timeshare.open_timeshare import OpenTimeshare
from auctune.service.zones.timeshare.orders import Orders
from auctune.service.zones.timeshare.saver import TimeshareSaver
from auctune.service.zones.timeshare.zone import TimeshareZone

_log = structlog.get_logger(__name__)

# It is done with what it has handed out.
_POOL_IS_AT: frozenset[str] = frozenset()

_LOOK_SECONDS = 1.0


class TimeshareWorkshop:
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
        zone: OpenTimeshare,
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
        self._packer = Packer(zone.desk, data, library)
        self._lock, self._alarm = lock, alarm
        self._place = OpenPoolFolder(Path(settings.folder))
        self._hearing = Hearing(zone.price)
        self._orders = Orders(
            library.blobs.path, self._place.root, zone.price, profile, zone.clock.slot_seconds
        )
        self._background = TaskSet()
        self._chores = Chores(zone.abandon)
        self._keeper = Keeper(zone.desk, zone.clock, TimeshareSaver(), snapshots, committer)
        self._leftovers = Leftovers(
            self._place.results,
            zone.desk,
            _POOL_IS_AT.__contains__,
            self._chores.busy,
            library.has_job,
            library.trash,
        )
        self._pool = ProcessKeeper(zone.name, self._launch, self._on_message, _has_trained)
        self._process: PoolProcess | None = None
        self._after = 0
        self._said: tuple[WantedThread, ...] | None = None
        self._said_seq = 0

    async def start(self) -> None:
        """Start the pool, and take up what was under way."""
        self._place.results.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        await self._zone.decide_pending()
        beating = beat(self._zone.clock, self._tick, _LOOK_SECONDS, self._alarm)
        self._background.spawn(beating)

    async def stop(self) -> None:
        """Stop the pool; what it trained is in its journal."""
        await self._background.close()
        await self._chores.close()
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
            self._zone.desk.post(lambda zone: zone.settle_dropped(seq), self._alarm)
        if message["kind"] != "event":
            return
        number, event, views = message["number"], message["event"], message["views"]
        self._zone.desk.post(
            lambda zone: self._hearing.on_event(zone, number, event, views), self._alarm
        )

    async def _archive_all(self) -> None:
        def left(zone: TimeshareZone) -> list[TargetJob]:
            return [job for job in zone.state.jobs.values() if job.phase is Phase.LEFT]

        for job in await self._zone.call(left):
            assert job.left is not None
            self._chores.start_once(
                job.id, self._finish(job.id, job.owner, has_result=job.left.best is not None)
            )

    async def _finish(self, job: str, owner: str, *, has_result: bool) -> None:
        if not has_result:
            await self._zone.call(lambda zone: end_job(zone, job, []))
            return
        target = self._place.results / f"{job}.zip"
        source = adapter_folder(self._place.result(job))
        await self._packer.archive(
            job, owner, source, target, lambda zone, file: end_job(zone, job, [file])
        )


def _has_trained(message: Message) -> bool:
    return bool(message["kind"] == "event" and message["event"]["type"] == "unit")


def _give_up_late(zone: TimeshareZone) -> None:
    """Fail jobs whose deadlines pass while there is no pool; cancelled ones cost no more."""
    zone.settle_dropped(zone.state.seq)
    for job in list(zone.state.jobs.values()):
        if job.left is None and job.deadline_unit <= zone.clock.slot():
            zone.fail(job.id, "service_failed", "the pool could not be run", None)
