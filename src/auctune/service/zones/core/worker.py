"""Base of the background workers of zones, their processes, and retries of work per job."""

import asyncio
import errno
import re
import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import orjson
import structlog

from auctune.domain import AuctuneError, InputError
from auctune.domain.epoch_metrics import metrics_csv
from auctune.engine.base_facts import BaseFacts, Report
from auctune.engine.data.client import DataClient
from auctune.engine.messages.base import Failed
from auctune.engine.runtime.channel import OnMessage
from auctune.engine.runtime.nodes import epoch_adapters
from auctune.engine.runtime.supervisor import SupervisorPolicy
from auctune.engine.unix_time import SlotClock
from auctune.service.accounts.budgets import BudgetLocks
from auctune.service.datasets.repairer import VendorGateway
from auctune.service.files.repository import FileRecord, FileRepository
from auctune.service.jobs.quotes import QuoteStore
from auctune.service.storage import Committer, Snapshots, Store
from auctune.service.storage.engine import StoreError
from auctune.service.storage.event_log import EventLog, EventType
from auctune.service.tasks import TaskSet
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.events import EpochCheckpoint
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.snapshots import Snapshotter
from auctune.service.zones.core.zone import EventWriter, Zone

_log = structlog.get_logger(__name__)

# A live process sends a heartbeat every second, but loading libraries blocks all its threads. One
# that is loading takes some time to react to a stop.
_POLICY = SupervisorPolicy(
    heartbeat_seconds=120.0, max_exits=5, retry_seconds=30.0, stop_seconds=20.0
)


class ManagedProcess(Protocol):
    """Worker process that a supervisor starts and ends."""

    def exit_reason(self) -> str: ...

    def kill(self) -> None: ...

    def stop(self, seconds: float = ...) -> None:
        """Have the process exit within so many seconds, or kill it."""
        ...


class ProcessSupervisor:
    """Keeps one process running; its calls, messages apart, run one after the other.

    A process that ends is restarted at once, and after further exits in a row with a backoff that
    doubles.

    Args:
        launch: starts a process whose messages go to the given callback; its last is None.
        on_message: called with each message, on a thread of the process.
        is_progress: whether a message reports work that was done; see `record_progress`.
        now: monotonic clock.
        labels: of its lines in the log.

    Attributes:
        last_exit: how the process ended last.
    """

    def __init__(
        self,
        launch: Callable[[OnMessage], ManagedProcess],
        on_message: OnMessage,
        is_progress: Callable[[Any], bool],
        now: Callable[[], float] = time.monotonic,
        **labels: str,
    ) -> None:
        self._launch, self._handle, self._now = launch, on_message, now
        self._log = _log.bind(**labels)
        self._guard = threading.Lock()
        self._is_stopped = False
        self._is_progress = is_progress
        self._process: ManagedProcess | None = None
        self._has_ended = False
        self._num_exits = 0
        self.last_exit = ""
        self._start_at = now()
        self._last_message_at = now()

    @property
    def is_crash_looping(self) -> bool:
        """Return whether the process is in a crash loop, so that its restart is delayed."""
        return self._num_exits >= _POLICY.max_exits

    def poll(self) -> bool:
        """Reap an ended or silent process, and start one that is due; return whether it did.

        May block until a killed process has ended.
        """
        with self._guard:
            now = self._now()
            if self._process is not None:
                if self._has_ended:
                    self._reap(self._process.exit_reason())
                elif now - self._last_message_at > _POLICY.heartbeat_seconds:
                    self._reap(f"was silent for {_POLICY.heartbeat_seconds:g} s")
            if self._process is not None or now < self._start_at or self._is_stopped:
                return False
            return self._start()

    def record_progress(self) -> None:
        """Reset the backoff: the process has done work that lasts."""
        self._num_exits = 0

    def kill(self, why: str) -> None:
        """Kill the process, which counts as an exit; `poll` starts the next one."""
        with self._guard:
            if self._process is not None:
                self._reap(why)

    def stop(self) -> None:
        """Stop the process, and start no other; what it has done is on disk."""
        with self._guard:
            self._is_stopped = True
            if self._process is not None:
                self._process.stop(_POLICY.stop_seconds)
                self._process = None

    def _start(self) -> bool:
        self._has_ended, self._last_message_at = False, self._now()
        try:
            self._process = self._launch(self._on_message)
        except OSError as error:
            self._record_exit(f"cannot be started ({error.strerror})")
            return False
        # The system has no thread left.
        except RuntimeError as error:
            self._record_exit(f"cannot be started ({error})")
            return False
        return True

    def _on_message(self, message: Any) -> None:
        # A process sends its last message before the next process is started.
        if message is None:
            self._has_ended = True
            return
        self._last_message_at = self._now()
        if self._is_progress(message):
            self.record_progress()
        if isinstance(message, Failed):
            self._log.warning("a zone's process failed", why=message.error.found)
        self._handle(message)

    def _reap(self, how: str) -> None:
        assert self._process is not None
        self._process.kill()
        self._process = None
        self._record_exit(how)

    def _record_exit(self, how: str) -> None:
        self._num_exits += 1
        self.last_exit = how
        backoff = _POLICY.backoff(self._num_exits)
        self._start_at = self._now() + backoff
        self._log.warning(
            "a zone's process ended", how=how, exits=self._num_exits, backoff_seconds=backoff
        )


BaseProfiles = Mapping[str, BaseFacts]
"""Measured facts of a zone's base, by node type."""


@dataclass(frozen=True, slots=True)
class DataDirs:
    """Folders of a service: its data, and the cache of bases that are built on this machine."""

    data: Path
    cache: Path

    def work(self, zone: str) -> Path:
        """Return the folder of a zone's checkpoints and adapters."""
        return self.data / "work" / zone

    @property
    def logs(self) -> Path:
        """Folder of the logs of worker processes."""
        return self.data / "logs"

    @property
    def profiles(self) -> Path:
        """Folder of measured device profiles."""
        return self.data / "profiles"


@dataclass(frozen=True, slots=True)
class ZoneDependencies:
    """Dependencies that all zones of a service share.

    `report` is called with the progress of loading, `on_fatal_error` if a zone cannot continue;
    `lock` is the descriptor of a lock that worker processes hold too.
    """

    store: Store
    dirs: DataDirs
    recorder: EventWriter
    committer: Committer
    files: FileRepository
    data: DataClient
    budgets: BudgetLocks
    quotes: QuoteStore
    report: Report
    on_fatal_error: Callable[[Exception], None]
    lock: int | None
    now: Callable[[], float]
    vendor_gateway: VendorGateway


_MAX_ATTEMPTS = 20
_MIN_SLEEP_SECONDS = 0.01
_RETRY_SECONDS = 1.0
# Out of file descriptors: the state of the zone is intact, and clients retry.
_TRANSIENT = (errno.EMFILE, errno.ENFILE)
_JOB_FILE = re.compile(r"(ftjob-[A-Za-z0-9]+)(\..*)?")


class BackgroundJobs:
    """Background work of a zone, at most one task per job.

    Work that fails is retried when it is started again: a full disk may have room by then. After
    20 failures in a row, or an error that a retry cannot mend, the job is given up.

    Args:
        give_up: called with a job that is given up, and with the reason.
    """

    def __init__(self, give_up: Callable[[str, str], Awaitable[None]]) -> None:
        self.busy: set[str] = set()
        self._give_up = give_up
        self._failures: Counter[str] = Counter()
        self._tasks = TaskSet()

    def start_once(self, job: str, work: Coroutine[Any, Any, None]) -> None:
        """Start a task for a job, unless one is running."""
        if job in self.busy:
            work.close()
            return
        self.busy.add(job)
        self._tasks.spawn(self._run(job, work))

    async def close(self) -> None:
        await self._tasks.close()

    async def _run(self, job: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
            del self._failures[job]
        except StoreError as error:
            # Not the job's failure: the work is started again, also after a long outage.
            _log.warning("work for a job waits for the database", job=job, reason=str(error))
        except (AuctuneError, OSError) as error:
            await self._failed(job, error)
        finally:
            self.busy.discard(job)

    async def _failed(self, job: str, error: Exception) -> None:
        self._failures[job] += 1
        _log.error("work for a job failed", job=job, reason=str(error))
        if isinstance(error, InputError) or self._failures[job] >= _MAX_ATTEMPTS:
            del self._failures[job]
            # The text of an error of the system has a path of the server.
            reason = error.strerror if isinstance(error, OSError) else None
            await self._give_up(job, reason or str(error))


Z = TypeVar("Z", bound=Zone[Any, Any])
T = TypeVar("T")


class ZoneWorker(ABC, Generic[Z]):
    """Trains the jobs of a zone and archives their results, on the service's event loop.

    The zone's actor decides; its worker runs processes, waits for slots and files, and posts to
    the actor what happened. At the beginning of each slot, and every `poll_seconds`, it calls
    `_run_slot`, archives the results of trained jobs, removes the files of jobs that have ended,
    and takes a snapshot of the zone if one is due.

    Args:
        work: folder of checkpoints and results; entries named after a job belong to it.
    """

    poll_seconds: ClassVar[float] = 0.5

    def __init__(
        self,
        actor: ZoneActor[Z],
        clock: SlotClock,
        work: Path,
        dependencies: ZoneDependencies,
    ) -> None:
        self._actor, self._clock, self._work = actor, clock, work
        self._files, self._data = dependencies.files, dependencies.data
        self._lock, self._logs = dependencies.lock, dependencies.dirs.logs
        self._on_fatal_error = dependencies.on_fatal_error
        self._events = EventLog(dependencies.store.reader)
        self._tasks = TaskSet()
        self._jobs = BackgroundJobs(self._abandon)
        self._snapshotter = Snapshotter(
            actor, clock, Snapshots(dependencies.store.reader), dependencies.committer
        )

    async def _start_processes(self) -> None:
        """Start what must run before the first tick."""

    @abstractmethod
    async def _stop_processes(self) -> None:
        """Stop what trains; also called after a start that failed."""

    @abstractmethod
    async def _run_slot(self) -> None:
        """Have the current slot trained, if that has not begun."""

    @abstractmethod
    def _is_running(self, job: str) -> bool:
        """Return whether a process may use files of a job, even of one that has ended."""

    @abstractmethod
    def _result_folder(self, job: Any) -> Path | None:
        """Return the folder with the result of a trained job, or None if there is no result."""

    async def start(self) -> None:
        """Start training, and resume what was in progress."""
        self._loop = asyncio.get_running_loop()
        self._work.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        await self._start_processes()
        self._tasks.spawn(self._run())

    async def stop(self) -> None:
        """Stop training; what was trained is in the log or in checkpoints."""
        await self._tasks.close()
        await self._jobs.close()
        await self._stop_processes()

    async def _run(self) -> None:
        """Tick until the worker is stopped; without its ticker a zone would sell idle slots."""
        try:
            while True:
                pause = self.poll_seconds
                try:
                    await self._tick()
                except OSError as error:
                    if error.errno not in _TRANSIENT:
                        raise
                    _log.warning("too many open files", retry_seconds=_RETRY_SECONDS)
                    pause = _RETRY_SECONDS
                except StoreError as error:
                    _log.warning("a zone waits for the database", reason=str(error))
                    pause = _RETRY_SECONDS
                until_next_slot = self._clock.slot_end(self._clock.slot()) - self._clock.now()
                await asyncio.sleep(max(_MIN_SLEEP_SECONDS, min(pause, until_next_slot)))
        except Exception as error:
            self._on_fatal_error(error)

    async def _tick(self) -> None:
        await self._run_slot()
        for job in await self._actor.call(_trained_jobs):
            self._jobs.start_once(
                job.id, self._archive(job.id, job.owner, self._result_folder(job))
            )
        await self._clean_work_folder()
        await self._snapshotter.snapshot_if_due()

    def _post(self, run: Callable[[Z], T]) -> Future[T]:
        """Run a command on the actor, from any thread; its failure is fatal."""
        return self._actor.post(run, self._on_fatal_error)

    async def _abandon(self, job: str, why: str) -> None:
        await self._actor.call(lambda zone: zone.abandon(job, why))

    async def _archive(self, job: str, owner: str, folder: Path | None) -> None:
        """Archive a job's metrics and result into files of its owner, and finish the job.

        Files that an interrupted attempt has stored are not stored again.
        """
        if folder is None:
            await self._actor.call(lambda zone: zone.finish(job, []))
            return
        stored = await self._files.results(owner, job)

        async def store(name: str, write: Callable[[Path], Awaitable[Any]]) -> FileRecord:
            if name in stored:
                return stored[name]
            await write(self._work / name)
            return await self._files.import_result(owner, name, self._work / name)

        def pack(source: Path, name: str) -> Callable[[Path], Awaitable[Any]]:
            return lambda target: asyncio.wrap_future(
                self._data.archive(source, target, name, owner=owner)
            )

        def write_metrics(target: Path) -> Awaitable[None]:
            # Events that were recorded before the adapter was stored are on disk by now.
            return asyncio.to_thread(self._write_metrics, job, target)

        adapter = await store(f"{job}.zip", pack(folder, job))
        # First what OpenAI's API has, for programs that take the first file.
        files = [(await store(f"{job}.csv", write_metrics)).id, adapter.id]
        checkpoints = []
        for metrics, epoch in await asyncio.to_thread(epoch_adapters, folder.parent):
            packed = pack(epoch, f"{job}-step-{metrics.step}")
            record = await store(f"{job}.step-{metrics.step}.zip", packed)
            checkpoints.append(EpochCheckpoint(file=record.id, metrics=metrics))
        # A job that was cancelled meanwhile loses its files with its work folder.
        await self._actor.call(lambda zone: zone.finish(job, files, checkpoints))

    def _write_metrics(self, job: str, path: Path) -> None:
        events = self._events.read_job(job)
        bodies = (orjson.loads(one.body) for one in events if one.type == EventType.TRAINED)
        path.write_text(metrics_csv(body["result"] for body in bodies), encoding="utf-8")

    async def _clean_work_folder(self) -> None:
        """Remove the files of jobs that have ended: the result and the log hold all that lasts."""
        files = await asyncio.to_thread(_files_by_job, self._work)
        if not files:
            return

        def ended_jobs(zone: Z) -> list[str]:
            return [job for job in files if not (zone.is_open(job) or self._is_running(job))]

        ended = await self._actor.call(ended_jobs)
        # Checked last: background work for a job starts before the job ends.
        unused = {job: files[job] for job in ended if job not in self._jobs.busy}
        for job in unused:
            await self._delete_unlisted(job)
        await asyncio.to_thread(self._remove, unused)

    async def _delete_unlisted(self, job: str) -> None:
        """Delete the stored results of a job that ended without them."""
        for record in await self._files.unlisted_results(job):
            await self._files.delete(record)

    def _remove(self, files: dict[str, list[Path]]) -> None:
        for job, paths in files.items():
            if self._files.has_job(job):
                _delete(paths)
            else:
                # The database may be an older copy than the folder.
                for path in paths:
                    self._files.trash.take(path)


def _trained_jobs(zone: Zone[Any, Any]) -> list[Any]:
    return [job for job in zone.admitted_jobs.values() if job.phase is Phase.TRAINED]


def _files_by_job(folder: Path) -> dict[str, list[Path]]:
    files: dict[str, list[Path]] = {}
    for path in folder.iterdir():
        if (name := _JOB_FILE.fullmatch(path.name)) is not None:
            files.setdefault(name[1], []).append(path)
    return files


def _delete(paths: list[Path]) -> None:
    for path in paths:
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            # Retried at the next tick.
            _log.warning("a file of a job was not removed", path=path.name, reason=str(error))
