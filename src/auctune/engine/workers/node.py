"""Worker of one node: loads the base once, then trains slot after slot as requested.

Its messages are those of `auctune.engine.messages.node`. In a slot it tokenizes the tasks' data,
loads each task from its newest checkpoint, trains all of them together to their targets, or as far
as time allows, and writes their checkpoints. An error of one task fails that task alone.

A task stays loaded until a slot that is not its own: nothing is read where its newest checkpoint is
the one that was written here. Checkpoints are written by threads, from copies, and training goes on
meanwhile: what is trained then is reported with the next checkpoint.

At most half of a slot goes into tokenizing, in equal shares: a task whose data need more trains in
a later slot, in which tokenizing continues, and the others train in this one. The tokens are kept
from one slot to the next.

It also trains the jobs of a pool. On a node of several devices it computes on the first one, and
leads the processes of the others; it ends when one of them does.
"""

import math
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auctune.domain import AuctuneError, InputError
from auctune.domain.errors import CheckpointError, OutOfMemoryError
from auctune.engine.messages.base import ErrorRecord, Preparing, Stop
from auctune.engine.messages.node import (
    NODE_MESSAGES,
    Measure,
    Measured,
    Measuring,
    NodeReady,
    NodeReply,
    NodeRequest,
    Noted,
    Ping,
    Pong,
    Progress,
    RequestFailed,
    TaskQuota,
    TaskResult,
    Trained,
    TrainSlotRequest,
)
from auctune.engine.messages.pool import PoolReply, PoolRequest, StartPool, TrainQuantum
from auctune.engine.pool.device import pool_failed
from auctune.engine.pool.events import OpenPoolDirectory
from auctune.engine.runtime.channel import ParentChannel
from auctune.engine.runtime.nodes import NodeSettings
from auctune.engine.runtime.training_lock import TrainingLock
from auctune.engine.unix_time import unix_time
from auctune.train.job import CurvePoint
from auctune.train.job import Progress as TaskProgress
from auctune.train.time_budget import (
    NO_TIME_LIMIT,
    ConditionalTimeBudget,
    ThroughputEstimator,
    TimeBudget,
)

if TYPE_CHECKING:
    from auctune.engine.workers.pool_jobs import PoolJobs

MESSAGES = NODE_MESSAGES
Parent = ParentChannel[NodeReply, NodeRequest]

# Progress is for people: a few lines a second are enough.
_REPORT_SECONDS = 0.2
# Of the time that is left of a slot.
_READING_SHARE = 0.5
_UNREAD = "its data take longer to tokenize than its share of a slot; it trains once that is done"


class StopRequestedError(Exception):
    """The parent has requested the worker to save its tasks and exit."""


class CancellableTime:
    """Time budget that ends as soon as the parent requests the worker to stop.

    Args:
        time_budget: until then.
        stop: once it is set, `StopRequestedError` is raised in place of the next round.
    """

    def __init__(self, time_budget: TimeBudget, stop: threading.Event) -> None:
        self._time_budget = time_budget
        self._stop = stop

    def max_rows(self) -> int | None:
        if self._stop.is_set():
            raise StopRequestedError
        return self._time_budget.max_rows()

    def record(self, rows: float) -> None:
        self._time_budget.record(rows)


@contextmanager
def enough_memory(what: str) -> Iterator[None]:
    """Raise `OutOfMemoryError` in place of what torch, CUDA or Python raise in this block."""
    from auctune.train.out_of_memory import free_cache, is_out_of_memory

    try:
        yield
        return
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
    # Only now are the frames gone that held on to memory.
    free_cache()
    raise OutOfMemoryError(f"out of memory while {what}")


class NodeWorker:
    """Training worker of a node.

    Args:
        settings: the base and how it computes.
        parent: of the process.
    """

    def __init__(self, settings: NodeSettings, parent: Parent) -> None:
        # torch takes seconds to import; only workers do.
        import torch

        from auctune.engine.runtime.devices import node_devices
        from auctune.train.adapter_files import KEPT_EPOCHS
        from auctune.train.base import load_base
        from auctune.train.tiny import tiny_folder
        from auctune.train.trainer import MultiLoraTrainer

        torch.set_num_threads(settings.threads)
        self._parent, self._settings = parent, settings
        self._reported = 0.0
        cache = Path(settings.cache)
        if settings.base == "tiny":
            what = "building the tiny base (once on this machine)"
            tiny_folder(cache, progress=partial(self._report_preparing, what))
        self._resources = ExitStack()
        load = partial(
            load_base, settings.base, cache=cache, device=settings.device, dtype=settings.dtype
        )
        self.base, self._devices = self._resources.enter_context(
            node_devices(settings, self._end, load)
        )
        self._throughput = ThroughputEstimator(unix_time)
        self._training_lock = TrainingLock(cache)
        self._pool: PoolJobs | None = None
        self._trainer = MultiLoraTrainer(
            self.base,
            backend=settings.backend,
            checkpointing=settings.gradient_checkpointing,
            mode="exact" if settings.mode == "exact" else "fused",
            token_budget=settings.token_budget,
            kept_epochs=KEPT_EPOCHS,
            devices=self._devices,
        )

    def _end(self, error: Exception) -> None:
        """End this process: without one of its devices it may wait forever within a pass.

        The parent starts it again.
        """
        try:
            raise error
        except Exception:
            traceback.print_exc()
            self._parent.exit(1)

    def run(self) -> None:
        """Serve requests until the parent requests a stop."""
        with self._resources:
            self._serve()

    def _serve(self) -> None:
        from auctune.train.profile import origin_of

        self._parent.send(
            NodeReady(
                base_digest=self.base.digest,
                architecture=self.base.architecture,
                context_tokens=self.base.context_tokens,
                origin=origin_of(self.base, **self._options).key,
            )
        )
        while not isinstance(request := self._parent.inbox.get(), Stop):
            try:
                self._handle(request)
            except StopRequestedError:
                return
            except AuctuneError as error:
                id_ = request.id if isinstance(request, TrainSlotRequest) else ""
                self._parent.send(RequestFailed(error=ErrorRecord.of(error), request=id_))

    def _handle(self, request: NodeRequest) -> None:
        match request:
            case Ping():
                self._parent.send(Pong())
            case Measure():
                self._unload(self._trainer.loaded)
                self._measure()
            case TrainSlotRequest():
                try:
                    with self._training_lock.hold():
                        self._train_slot(request)
                except BaseException:
                    # What was trained since the last checkpoints is nobody's.
                    self._unload(self._trainer.loaded)
                    raise
            case _ if isinstance(request, PoolRequest):
                self._unload(self._trainer.loaded)
                self._parent.send(self._handle_pool_request(request))

    @property
    def _options(self) -> dict[str, Any]:
        """Settings of the trainer that the speed and memory of a device depend on."""
        settings = self._settings
        return {
            "backend": settings.backend,
            "gradient_checkpointing": settings.gradient_checkpointing,
            "devices": self._devices,
        }

    def _measure(self) -> None:
        from auctune.train.profile import Effort, measure_profile

        try:
            profile = measure_profile(
                self.base,
                effort=Effort(seconds=self._settings.measure_seconds),
                report=self._report_measuring,
                **self._options,
            )
        finally:
            # The adapters that it measured with.
            self._devices.clear()
        self._parent.send(Measured(profile=profile.to_json()))

    def _report_preparing(self, what: str, share: float) -> None:
        now = time.monotonic()
        if now - self._reported >= _REPORT_SECONDS or share in (0.0, 1.0):
            self._reported = now
            self._parent.send(Preparing(what=what, share=share))

    def _report_measuring(self, what: str, share: float) -> None:
        self._parent.send(Measuring(what=what, share=share))

    def _handle_pool_request(self, request: PoolRequest) -> PoolReply:
        from auctune.train.reproducible import deterministic

        if isinstance(request, StartPool):
            self._pool = self._make_pool(request)
        assert self._pool is not None, "no pool was started"
        trains = isinstance(request, TrainQuantum)
        try:
            with self._training_lock.hold() if trains else nullcontext(), deterministic():
                return self._pool.handle(request)
        except AuctuneError as error:
            # The log has the paths that a job's owner is not to know.
            traceback.print_exc()
            return pool_failed(error)

    def _make_pool(self, request: StartPool) -> "PoolJobs":
        from auctune.engine.workers.pool_jobs import LoraJobs, PoolJobs
        from auctune.train.preemptible import LoraJobFactory

        checkpointing = self._settings.gradient_checkpointing
        return PoolJobs(
            LoraJobs(LoraJobFactory(self.base, request.max_step_seconds, checkpointing)),
            OpenPoolDirectory(Path(request.folder)),
            request.memory_bytes,
            request.saved_every,
            should_stop=self._parent.stop_requested.is_set,
        )

    def _train_slot(self, request: TrainSlotRequest) -> None:
        started = time.monotonic()
        tasks, until = request.tasks, request.until
        held = {task.job.id for task in tasks if self._trainer.holds(task.job, task.folder)}
        self._unload(self._trainer.loaded - held)
        read, unread = self._read_all(request.id, tasks, until)
        loaded_steps, refused = self._load_all(request.id, [one for one in tasks if one in read])
        loaded = [task for task in tasks if task.job.id in loaded_steps]
        budget = NO_TIME_LIMIT if until is None else self._throughput.until(until, len(loaded))
        report = partial(self._report, request.id)
        cancellable = CancellableTime(budget, self._parent.stop_requested)
        try:
            self._trainer.train(_targets(loaded), report, cancellable)
        except StopRequestedError:
            self._save(loaded)
            raise
        progress, unsaved = self._save(loaded, until)
        saved_at = unix_time()
        results = {}
        for task in loaded:
            name = task.job.id
            if name in unsaved:
                continue
            try:
                with enough_memory("writing its adapter"):
                    results[name] = self._result(task, loaded_steps[name], progress[name])
            except OutOfMemoryError as error:
                # Its checkpoint is complete: the next worker that loads it writes the adapter.
                unsaved[name] = ErrorRecord.of(error)
            except OSError as error:
                unsaved[name] = _later("its adapter cannot be written", error)
        ended = {name for name, result in results.items() if result.state != "training"}
        self._unload({*unsaved, *ended} & self._trainer.loaded)
        self._parent.send(
            Trained(
                request=request.id,
                slot=request.slot,
                seconds=time.monotonic() - started,
                saved_at=saved_at,
                results=results,
                refused=unread | refused | unsaved,
            )
        )

    def _unload(self, names: Iterable[str]) -> None:
        for name in names:
            self._trainer.unload(name)

    def _read_all(
        self, request: str, tasks: Sequence[TaskQuota], until: float | None
    ) -> tuple[list[TaskQuota], dict[str, ErrorRecord]]:
        """Tokenize data; return the tasks whose data are complete, and the errors of others.

        Small files come first, and what they leave of their shares goes to the others.
        """
        self._trainer.forget_files(task.job for task in tasks)
        began = unix_time()
        end = math.inf if until is None else began + _READING_SHARE * (until - began)
        read: list[TaskQuota] = []
        errors: dict[str, ErrorRecord] = {}
        for index, task in enumerate(sorted(tasks, key=_num_bytes)):
            now = unix_time()
            share = now + (end - now) / (len(tasks) - index)
            try:
                with enough_memory("tokenizing its data"):
                    is_read = self._trainer.read(task.job, partial(self._has_time, share))
                if is_read:
                    read.append(task)
                else:
                    self._note(request, task, _UNREAD)
            except AuctuneError as error:
                errors[task.job.id] = ErrorRecord.of(error)
        return read, errors

    def _note(self, request: str, task: TaskQuota, text: str) -> None:
        self._parent.send(Noted(request=request, task=task.job.id, text=text))

    def _has_time(self, end: float) -> bool:
        return unix_time() < end and not self._parent.stop_requested.is_set()

    def _load_all(
        self, request: str, tasks: Iterable[TaskQuota]
    ) -> tuple[dict[str, int], dict[str, ErrorRecord]]:
        """Load tasks; return the steps of those that could be loaded, and the errors of others."""
        steps: dict[str, int] = {}
        refused: dict[str, ErrorRecord] = {}
        for task in tasks:
            name = task.job.id
            try:
                with enough_memory("loading its adapter"):
                    notes = () if name in self._trainer.loaded else self._load(task)
            except AuctuneError as error:
                refused[name] = ErrorRecord.of(error)
                continue
            except OSError as error:
                refused[name] = _later("a checkpoint cannot be read", error)
                continue
            for text in notes:
                self._note(request, task, text)
            steps[name] = self._trainer.progress(name).steps
        return steps, refused

    def _load(self, task: TaskQuota) -> tuple[str, ...]:
        """Load a task; from its first row, if all its checkpoints are damaged."""
        from auctune.files.atomic import remove_folder
        from auctune.train.attempts import check_attempt
        from auctune.train.checkpoint import CHECKPOINTS, DamagedCheckpointError

        try:
            return self._trainer.load(task.job, task.folder).warnings
        except DamagedCheckpointError as error:
            if task.attempt is not None:
                check_attempt(task.folder, task.attempt)
            remove_folder(task.folder / CHECKPOINTS)
            again = self._trainer.load(task.job, task.folder).warnings
            return (f"{error}; trained again from its first row", *again)

    def _save(
        self, tasks: Sequence[TaskQuota], until: float | None = None
    ) -> tuple[dict[str, "_Saved"], dict[str, ErrorRecord]]:
        """Write the tasks' checkpoints, while their training goes on.

        Args:
            tasks: that are loaded.
            until: unix time at which the slot ends; `None`: nothing is trained meanwhile.

        Returns:
            What the checkpoints hold, and the errors of those that could not be written.
        """
        errors: dict[str, ErrorRecord] = {}
        saved: dict[str, _Saved] = {}
        began = time.monotonic()
        # A GPU's are copied at once; on a CPU a second copy of all tasks would take memory that
        # is sold.
        size = len(tasks) if self.base.device.type == "cuda" else 1
        for first in range(0, len(tasks), max(1, size)):
            self._save_together(tasks[first : first + size], until, saved, errors)
        if tasks:
            self._throughput.record_save(len(tasks), time.monotonic() - began)
        return saved, errors

    def _save_together(
        self,
        tasks: Sequence[TaskQuota],
        until: float | None,
        saved: dict[str, "_Saved"],
        errors: dict[str, ErrorRecord],
    ) -> None:
        writes: dict[str, Future[Path]] = {}
        with ThreadPoolExecutor(len(tasks)) as threads:
            for task in tasks:
                name = task.job.id
                saved[name] = _Saved(self._trainer.progress(name), self._trainer.curve(name))
                try:
                    with enough_memory("writing its checkpoint"):
                        write = self._trainer.snapshot(name, task.number, task.attempt)
                except OutOfMemoryError as error:
                    errors[name] = ErrorRecord.of(error)
                else:
                    writes[name] = threads.submit(write)
            if until is not None:
                goes_on = partial(self._is_writing, list(writes.values()))
                budget = ConditionalTimeBudget(self._throughput, goes_on, until)
                targets = _targets(task for task in tasks if task.job.id in writes)
                # Not reported before it is saved.
                self._trainer.train(targets, lambda _: None, budget)
        for name, writing in writes.items():
            try:
                with enough_memory("writing its checkpoint"):
                    writing.result()
            except (CheckpointError, OutOfMemoryError) as error:
                errors[name] = ErrorRecord.of(error)
            except OSError as error:
                errors[name] = _later("a checkpoint cannot be written", error)

    def _is_writing(self, writes: Sequence[Future[Path]]) -> bool:
        return not (self._parent.stop_requested.is_set() or all(one.done() for one in writes))

    def _result(self, quota: TaskQuota, loaded: int, saved: "_Saved") -> TaskResult:
        progress = saved.progress
        known = min(quota.known_steps, loaded)
        state, note = progress.state, progress.note
        if state == "done" and (error := self._export(quota)):
            state, note = "failed", error
        return TaskResult(
            rows=progress.rows,
            total_rows=progress.total_rows,
            tokens=progress.tokens,
            steps=progress.steps,
            state=state,
            losses=tuple(point for point in saved.curve if point[0] > known),
            validation=progress.validation,
            note=note,
            exported=state == "done",
        )

    def _export(self, quota: TaskQuota) -> str:
        """Write and verify the adapter; return what is wrong with it, or an empty text.

        Diverged weights may overflow where the loss did not yet: that fails their task only.
        """
        from auctune.train.export import ExportError

        quota.adapter.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._trainer.export(quota.job.id, quota.adapter)
        except ExportError as error:
            return f"not handed out: {error}"
        return ""

    def _report(self, request: str, progress: TaskProgress) -> None:
        now = time.monotonic()
        if now - self._reported < _REPORT_SECONDS and progress.state == "training":
            return
        self._reported = now
        self._parent.send(
            Progress(
                request=request,
                task=progress.job,
                rows=progress.rows,
                total_rows=progress.total_rows,
                tokens=progress.tokens,
                loss=progress.loss,
                tokens_per_second=progress.tokens_per_second,
                memory_gb=progress.memory_gb,
            )
        )


@dataclass(frozen=True, slots=True)
class _Saved:
    """What a task's checkpoint holds: its progress, and all points of its loss curve."""

    progress: TaskProgress
    curve: Sequence[CurvePoint]


def _targets(tasks: Iterable[TaskQuota]) -> dict[str, int]:
    return {task.job.id: task.target for task in tasks}


def _num_bytes(task: TaskQuota) -> int:
    """Return the size of a task's data; files that are gone are reported when they are read."""
    paths = [task.job.data] if task.job.validation is None else [task.job.data, task.job.validation]
    return sum(path.stat().st_size for path in paths if path.exists())


def main(parent: Parent, argument: dict[str, Any]) -> None:
    """Serve a node; the argument is its `NodeSettings`."""
    try:
        worker = NodeWorker(NodeSettings(**argument), parent)
    except InputError as error:
        parent.send(RequestFailed(error=ErrorRecord.of(error)))
        parent.exit(1)
    worker.run()


def _later(what: str, error: OSError) -> ErrorRecord:
    """Return the error of a task that a disk does not take or give something of now.

    The log has its path; nothing is wrong with the task.
    """
    traceback.print_exception(error)
    return replace(ErrorRecord.of(AuctuneError(f"{what} now ({error.strerror})")), unreadable=True)
