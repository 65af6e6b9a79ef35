"""Logs jobs to Weights & Biases, as the `integrations` of their requests say.

A row of the table `meta` marks a job with integrations. It is written with the job's first event
and removed once the job is over and its runs are complete. A run is made with the job's first
metrics, and has them from the first step on: whatever ends it, also a restart of the service, it is
made anew under the same id.

Errors of W&B are retried, and never concern the job. One process has all runs, with the key in its
environment: W&B's package and its own child process take 100 MB, a run in them half a megabyte.
"""

import asyncio
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

import orjson
import structlog
from sqlalchemy import Engine

from auctune.domain import AuctuneError
from auctune.domain.epoch_metrics import step_metrics
from auctune.engine.runtime.channel import OnMessage
from auctune.engine.runtime.local import AsyncWorker, WorkerProcess
from auctune.service.accounts.limits import OPEN
from auctune.service.config.wandb import WandbConfig
from auctune.service.fair_queue import FairQueue
from auctune.service.integrations.worker import (
    RUN_MESSAGES,
    EndRun,
    LogSteps,
    RunEnded,
    RunReply,
    RunRequest,
    StartRun,
)
from auctune.service.storage import Committer, EventLog, Queries, WriteBatch, tables
from auctune.service.storage.committer import durable
from auctune.service.storage.event_log import EventType, Record
from auctune.service.storage.queries import JobReadModel, read_values
from auctune.service.tasks import Notifier, TaskSet

WORKER = "auctune.service.integrations.worker"
END_SECONDS = 600.0
"""Time to send what is left of a run."""


class RunError(AuctuneError):
    """A run could not be logged."""


class OpenRun:
    """A run in the process."""

    def __init__(self, process: "WandbProcess", number: int) -> None:
        self._process = process
        self._number = number
        self._ended: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def log(self, steps: Sequence[Record]) -> None:
        """Log metrics of steps; raise `RunError` if the run has failed."""
        if self._ended.done():
            raise RunError(self._ended.result() or "the run has ended")
        if steps:
            self._process.send(LogSteps(id=self._number, steps=steps))

    async def end(self, exit_code: int) -> None:
        """End the run, and wait until it is complete.

        Raises:
            RunError: if it failed.
        """
        self._process.send(EndRun(id=self._number, exit_code=exit_code))
        try:
            async with asyncio.timeout(END_SECONDS):
                error = await self._ended
        except TimeoutError:
            error = f"a run was not complete within {END_SECONDS:.0f} s"
            self._process.end(error)
        if error is not None:
            raise RunError(error)

    def set_ended(self, error: str | None) -> None:
        if not self._ended.done():
            self._ended.set_result(error)


class WandbProcess:
    """The process, from its first open run to its last; for one event loop.

    Args:
        environment: what differs from this process's environment.
        log: file for its standard error.
        module: that it runs.
    """

    def __init__(self, environment: Mapping[str, str], log: Path, module: str = WORKER) -> None:
        self._environment = environment
        self._log = log
        self._module = module
        self._ids = count(1)
        self._runs: dict[int, OpenRun] = {}
        self._process: AsyncWorker | None = None
        self._endings: WeakSet[AsyncWorker] = WeakSet()

    @property
    def pid(self) -> int | None:
        """Process id, None while there is no process."""
        return None if self._process is None else self._process.pid

    @contextmanager
    def open(self, folder: Path, options: dict[str, Any], *, is_kept: bool) -> Iterator[OpenRun]:
        """Hold a run open until the end of the block; one that has not ended is shown as failed.

        Arguments as of `StartRun`.
        """
        if self._process is None:
            self._process = AsyncWorker(self._start, self._receive, self.end)
        number = next(self._ids)
        run = self._runs[number] = OpenRun(self, number)
        self.send(StartRun(id=number, folder=folder, is_kept=is_kept, options=options))
        try:
            yield run
        finally:
            self.send(EndRun(id=number, exit_code=1))
            del self._runs[number]
            if not self._runs:
                self.end("it has no runs")

    def send(self, message: RunRequest) -> None:
        if self._process is not None:
            self._process.send(message)

    def end(self, why: str) -> None:
        """End the process; its runs fail."""
        process, self._process = self._process, None
        if process is None:
            return
        for run in self._runs.values():
            run.set_ended(f"the process of W&B ended: {why}")
        process.kill()
        self._endings.add(process)

    async def close(self) -> None:
        self.end("the service stops")
        await asyncio.gather(*(one.closed() for one in self._endings))

    def _start(self, on_message: OnMessage) -> WorkerProcess:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        return WorkerProcess(
            self._module,
            None,
            on_message,
            RUN_MESSAGES,
            log=self._log,
            environment=self._environment,
        )

    def _receive(self, message: RunReply) -> None:
        if isinstance(message, RunEnded) and message.id in self._runs:
            self._runs[message.id].set_ended(message.error)


_log = structlog.get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

NEW_RUNS = "jobs with integrations"
"""Topic of notifications of new jobs with integrations; no zone and no job has such a name."""

MAX_RUNS = 256
"""Runs that are open at once, about half a megabyte each; users share them."""
MAX_ATTEMPTS = 8
INITIAL_BACKOFF_SECONDS = 5.0
BACKOFF_FACTOR = 4

_MARK = "wandb.open:"
_PAGE = 200
_READERS = 2
_PAUSE_SECONDS = 1.0
_MAX_TAG = 64


def mark_runs(batch: WriteBatch, rows: Iterable[JobReadModel]) -> bool:
    """Mark the new jobs among these that have integrations; return whether there are any."""
    jobs = [
        row.id for row in rows if row.status in OPEN and row.body["request"].get("integrations")
    ]
    batch.upsert(tables.meta, *({"name": _MARK + job, "value": ""} for job in jobs))
    return bool(jobs)


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of a job: its id at W&B, and the arguments of `WandbRun`."""

    id: str
    job: str
    owner: str
    options: Record


class WandbLogger:
    """Reads the log and logs jobs.

    Args:
        config: of W&B.
        folder: of the files of runs.
        log: file for the standard error of the child process.
        module: of the child process.
    """

    def __init__(
        self,
        config: WandbConfig,
        folder: Path,
        log: Path,
        reader: Engine,
        committer: Committer,
        notifier: Notifier,
        module: str = WORKER,
    ) -> None:
        self._config = config
        self._folder = folder
        self._reader = reader
        self._queries, self._events = Queries(reader), EventLog(reader)
        self._committer = committer
        self._notifier = notifier
        environment = config.environment() if config.is_enabled else {}
        self._process = WandbProcess(environment, log, module)
        self._slots = FairQueue("runs", MAX_RUNS)
        self._reads = asyncio.Semaphore(_READERS)
        self._background = TaskSet()
        # A task that is done stays until its job's mark is gone.
        self._jobs: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        if self._config.is_enabled:
            self._background.spawn(self._follow_marks())

    async def close(self) -> None:
        """Stop; open runs are made anew after the next start."""
        await self._background.close()
        for task in self._jobs.values():
            task.cancel()
        await asyncio.gather(*self._jobs.values(), return_exceptions=True)
        await self._process.close()

    async def forget(self, job: str) -> None:
        """Stop logging a job, and delete the files of its runs."""
        task = self._jobs.get(job)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._remove_mark(job)
        for folder in self._folder.glob(f"{job}*"):
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _follow_marks(self) -> None:
        with self._notifier.subscribe(NEW_RUNS) as changed:
            while True:
                changed.clear()
                try:
                    marked = await asyncio.to_thread(read_values, self._reader, _MARK)
                except Exception:
                    _log.exception("reading jobs with integrations failed")
                else:
                    for job in [one for one in self._jobs if one not in marked]:
                        if self._jobs[job].done():
                            del self._jobs[job]
                    for job in marked.keys() - self._jobs.keys():
                        self._jobs[job] = asyncio.create_task(self._log_job(job))
                    await changed.wait()
                # Bids may arrive by the hundreds.
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _log_job(self, job: str) -> None:
        """Log all runs of a job, and remove its mark."""
        try:
            row = await self._read(self._queries.job, job)
            assert row is not None
            runs = self._runs(job, row.owner, orjson.loads(row.body))
            await asyncio.gather(*map(self._log_run, runs))
            await self._remove_mark(job)
        except Exception:
            _log.exception("logging a job to W&B failed until the next start", job=job)

    async def _remove_mark(self, job: str) -> None:
        await durable(self._committer, WriteBatch().remove(tables.meta, {"name": _MARK + job}))

    def _runs(self, job: str, owner: str, body: Record) -> Sequence[_Run]:
        request, training = body["request"], body["training"]
        default_tags = ("finetune", request["model"], job)
        runs = []
        for number, integration in enumerate(request.get("integrations") or (), 1):
            wandb = integration["wandb"]
            id_ = job if number == 1 else f"{job}-{number}"
            tags = [*wandb["tags"], *(f"auctune/{tag}"[:_MAX_TAG] for tag in default_tags)]
            options = {
                "project": wandb["project"],
                "job": id_,
                "name": wandb["name"] or job,
                "entity": wandb["entity"] or self._config.entity,
                "tags": list(dict.fromkeys(tags)),
                "config": {"model": request["model"], **training},
            }
            runs.append(_Run(id_, job, owner, options))
        return runs

    async def _log_run(self, run: _Run) -> None:
        """Log a run; after the last attempt that failed, log a warning."""
        facts = {"job": run.job, "user": run.owner}
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                await self._attempt(run)
            # Whatever fails concerns this run alone.
            except Exception as error:
                reason = _without_names(str(error), run)
                wait = INITIAL_BACKOFF_SECONDS * BACKOFF_FACTOR ** (attempt - 1)
                if attempt == MAX_ATTEMPTS:
                    _log.warning("job not logged to W&B", reason=reason, attempt=attempt, **facts)
                    return
                _log.info(
                    "logging a job to W&B failed",
                    reason=reason,
                    attempt=attempt,
                    retry_seconds=wait,
                    **facts,
                )
                await asyncio.sleep(wait)
            else:
                _log.info("job logged to W&B", attempt=attempt, **facts)
                return

    async def _attempt(self, run: _Run) -> None:
        """Log a job from its first step to its end; no run is made if nothing is trained."""
        after, opened = 0, None
        async with AsyncExitStack() as held:
            changed = held.enter_context(self._notifier.subscribe(run.job))
            while True:
                changed.clear()
                # The status before the events: those of a job that is over are complete.
                row = await self._read(self._queries.job, run.job)
                events = await self._read(self._events.read_job, run.job, after, _PAGE)
                steps = [
                    metrics
                    for event in events
                    if event.type == EventType.TRAINED
                    for metrics in step_metrics(orjson.loads(event.body)["result"])
                ]
                if steps and opened is None:
                    await held.enter_async_context(self._slots.place(run.owner))
                    folder, is_kept = self._folder / run.id, self._config.offline
                    process = self._process.open(folder, run.options, is_kept=is_kept)
                    opened = held.enter_context(process)
                if opened is not None:
                    opened.log(steps)
                if events:
                    after = events[-1].seq
                if len(events) < _PAGE:
                    assert row is not None
                    if row.status not in OPEN:
                        break
                    await changed.wait()
            if opened is not None:
                await opened.end(0 if row.status == "succeeded" else 1)

    async def _read(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        # After a start all open jobs are read; requests must not wait for them.
        async with self._reads:
            return await asyncio.to_thread(read, *args, **kwargs)


def _without_names(reason: str, run: _Run) -> str:
    """Return an error without the names that the user chose: the log would keep them."""
    names = (run.options[name] for name in ("project", "name", "entity"))
    for name in names:
        if name is not None and name != run.id:
            reason = reason.replace(name, "...")
    return reason
