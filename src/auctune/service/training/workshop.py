"""Everything of a zone that takes time: its clock, its nodes, its vendors' work, its snapshots.

The desk decides; the workshop waits for slots, nodes and vendors, and tells the desk.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import structlog

from auctune.domain import AuctuneError, InputError
from auctune.run.data.client import DataClient
from auctune.run.executor.orders import adapter_folder
from auctune.service.background import Background
from auctune.service.executors import MakeExecutor
from auctune.service.files.library import Library
from auctune.service.jobs.submissions import Submissions
from auctune.service.open_zone import OpenZone
from auctune.service.repair.mending import Mending
from auctune.service.store import Committer, Snapshots
from auctune.service.training.foreman import Foreman
from auctune.service.training.leftovers import Leftovers
from auctune.service.zone import plans
from auctune.service.zone.event import Kind
from auctune.service.zone.open_job import OpenJob, Phase
from auctune.service.zone.snapshot import ZoneSaver, to_bytes
from auctune.service.zone.zone import Zone

_log = structlog.get_logger(__name__)

# Events after which a restart would have to fold so many: a second's work or so.
_SNAPSHOT_EVENTS = 20_000
# Work that fails is done again at the next tick; a disk that is full may have room by then.
_TRIES = 20


class Workshop:
    """Of one zone.

    Args:
        make_executor: of the nodes.
        work: folder of checkpoints and adapters.
        library: files.
        data: the data process.
        mending: has data mended.
        snapshots: reads and makes snapshots.
        committer: writes them.
        alarm: told if the zone cannot go on.
    """

    def __init__(
        self,
        make_executor: MakeExecutor,
        work: Path,
        library: Library,
        data: DataClient,
        mending: Mending,
        snapshots: Snapshots,
        committer: Committer,
        alarm: Callable[[Exception], None],
    ) -> None:
        self._make_executor = make_executor
        self._work = work
        self._library = library
        self._data = data
        self._mending = mending
        self._snapshots = snapshots
        self._committer = committer
        self._alarm = alarm
        self._background = Background()
        self._busy: set[str] = set()
        self._failures: Counter[str] = Counter()
        self._saver = ZoneSaver()
        self._snapshot_seq = 0

    def attach(self, zone: OpenZone, submissions: Submissions) -> None:
        """Say for which zone."""
        self._zone = zone
        self._submissions = submissions

    async def start(self) -> None:
        """Start the nodes, and take up what was under way."""
        self._loop = asyncio.get_running_loop()
        self._work.mkdir(parents=True, exist_ok=True)
        self._executor = self._make_executor(self._hear)
        self._foreman = Foreman(self._executor, self._work, self._library.blobs.path, self._trained)
        self._leftovers = Leftovers(self._work, self._zone.desk, self._foreman, self._busy)
        waiting = await self._ask(lambda zone: list(zone.state.received.values()))
        for one in waiting:
            self._submissions.decide_later(self._zone, one.id, one.owner, one.training, one.request)
        self._mending.resume(await self._ask(lambda zone: list(zone.state.jobs.values())))
        await self._ask(self._foreman.resume)
        self._background.begin(self._tick())

    async def stop(self) -> None:
        """Stop the nodes; what they trained in this slot is in their checkpoints."""
        await self._background.close()
        await self._mending.close()
        await asyncio.to_thread(self._executor.close)

    async def _tick(self) -> None:
        try:
            await self._tick_on()
        except Exception as error:
            # Without its clock a zone would sell what nobody trains.
            self._alarm(error)

    async def _tick_on(self) -> None:
        clock = self._zone.clock
        while True:
            await self._ask(self._foreman.tick)
            await self._take_up()
            await self._leftovers.drop()
            await self._snapshot()
            left = clock.ends(clock.slot()) - clock.now()
            await asyncio.sleep(max(0.01, min(left, 1.0)))

    def _hear(self, node: str, message: dict[str, Any]) -> None:
        """On the executor's thread."""
        if message["kind"] in ("trained", "failed", "unanswered", "noted", "lost", "back"):
            heard = self._zone.desk.ask(lambda zone: self._foreman.hear(zone, node, message))
            heard.add_done_callback(self._check_heard)

    def _check_heard(self, heard: "Future[None]") -> None:
        error = heard.exception()
        if error is not None and self._zone.desk.broken is None:
            self._alarm(error if isinstance(error, Exception) else RuntimeError(str(error)))

    def _trained(self, job: OpenJob) -> None:
        """On the desk's thread: a job's adapter is to be packed."""
        self._loop.call_soon_threadsafe(self._pack, job.id, job.owner)

    def _pack(self, job: str, owner: str) -> None:
        self._begin_once(job, self._finish(job, owner))

    async def _finish(self, job: str, owner: str) -> None:
        folder = self._foreman.folder(job)
        target = self._work / f"{job}.zip"
        await asyncio.wrap_future(self._data.archive(adapter_folder(folder), target, job))
        record = await self._library.keep(owner, f"{job}.zip", target)

        def finish(zone: Zone) -> bool:
            if job not in zone.state.jobs:
                return False
            zone.happen(Kind.FINISHED, job, {"files": [record.id]})
            return True

        if not await self._ask(finish):
            # It was cancelled meanwhile: nobody is to have it.
            await self._library.delete(record)

    async def _take_up(self) -> None:
        """Begin the work of vendors that were chosen, and what failed before."""

        def waiting(zone: Zone) -> tuple[list[OpenJob], list[OpenJob]]:
            jobs = zone.state.jobs.values()
            return (
                [job for job in jobs if job.is_raw],
                [job for job in jobs if job.phase is Phase.TRAINED],
            )

        to_repair, to_pack = await self._ask(waiting)
        for job in to_repair:
            self._begin_once(job.id, self._mending.mend(job))
        for job in to_pack:
            self._pack(job.id, job.owner)

    async def _snapshot(self) -> None:
        """Keep the zone's memory from time to time, when the next one would fold much."""

        def save(zone: Zone) -> tuple[int, dict[str, Any]] | None:
            if zone.state.seq - self._snapshot_seq < _SNAPSHOT_EVENTS:
                return None
            return zone.state.seq, self._saver.save(zone.state, zone.mechanism)

        def prepare(zone: Zone) -> bool:
            due = zone.state.seq - self._snapshot_seq >= _SNAPSHOT_EVENTS
            return not due or self._saver.prepare(zone.state)

        while not await self._ask(prepare):
            pass
        saved = await self._ask(save)
        if saved is None:
            return
        seq, memory = saved
        self._snapshot_seq = seq
        body = await asyncio.to_thread(to_bytes, memory)
        unit = await asyncio.to_thread(
            self._snapshots.unit, self._zone.name, seq, self._zone.clock.now(), body
        )
        self._committer.submit(unit)

    def _begin_once(self, job: str, work: Coroutine[Any, Any, None]) -> None:
        """Begin work for a job, unless some is under way."""
        if job in self._busy:
            work.close()
            return
        self._busy.add(job)

        async def run() -> None:
            try:
                await work
                del self._failures[job]
            except (AuctuneError, OSError) as error:
                await self._failed(job, error)
            finally:
                self._busy.discard(job)

        self._background.begin(run())

    async def _failed(self, job: str, error: Exception) -> None:
        """Work for a job failed: it is done again, unless that is no use."""
        self._failures[job] += 1
        _log.error("work for a job failed", job=job, reason=str(error))
        if isinstance(error, InputError) or self._failures[job] >= _TRIES:
            del self._failures[job]
            await self._ask(lambda zone: _give_up(zone, job, str(error)))

    async def _ask(self, run: Any) -> Any:
        return await self._zone.desk.ask_here(run)


def _give_up(zone: Zone, job: str, why: str) -> None:
    found = zone.state.jobs.get(job)
    if found is not None:
        plans.release(zone, found)
        zone.fail(job, "service_failed", why, None)
