"""The actors of a job on Ray: workers and a parameter server, kept from slot to slot.

Rows go from a site's store to the workers of the plan. From workers to the parameter server, and
from there to the driver, go gradients, losses, counts and the adapter's weights alone.

Ray is imported where it is used: a local cluster sets its environment before.
"""

import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from auctune.domain import InputError
from auctune.domain.dataset import DataSet
from auctune.edge.decision import SlotPlan
from auctune.edge.job import EdgeJob
from auctune.engine.edge.cluster import FreeResources, actor_resources
from auctune.engine.edge.inputs import EdgeTraining
from auctune.engine.edge.storage import StoredChunk
from auctune.train.data_parallel.batches import ChunkRows, Contribution, Floats, slot_batches
from auctune.train.data_parallel.reducer import AdapterReducer, AdapterState
from auctune.train.job import CurvePoint

_POLL_SECONDS = 0.1
# A job whose slot was lost has another soon, or there is no room for it for long.
_WARM_SLOTS = 3
# On a busy machine the first steps take longer than a slot too.
_MAX_STUCK_SLOTS = 4
# Threads of a parameter server beside the one that trains.
_CONTROL = "control"


class SlotCancelledError(Exception):
    """The slot's time is over."""


@dataclass(frozen=True, slots=True)
class RowProgress:
    """Progress of a job's slot: rows that are trained, and seconds since its first step."""

    rows: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadedChunks:
    """What a worker has loaded for a slot.

    Attributes:
        sizes: rows by chunk that have something to learn.
        num_crossed, num_bytes: chunks that came from other sites, and their bytes.
        base_digest: of the worker's base.
        num_validation_rows: rows to measure by.
    """

    sizes: dict[int, int]
    num_crossed: int
    num_bytes: int
    base_digest: str
    num_validation_rows: int


@dataclass(frozen=True, slots=True)
class WorkerRef:
    """A worker as its server sees it: its actor, its site, and the chunks that it trains."""

    actor: Any
    site: str
    chunks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotTask:
    """A slot for a parameter server.

    Attributes:
        state: from which it goes on; None before the first step.
        total_rows: of the whole job, over all epochs.
        workers: each chunk is one's.
        loading: references to each worker's `LoadedChunks`; none computes before all have them.
        is_last: whether the adapter is exported after it.
    """

    state: AdapterState | None
    total_rows: int
    workers: Sequence[WorkerRef]
    loading: Sequence[Any]
    is_last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotResult:
    """Result of a job's slot.

    Attributes:
        state: after it.
        samples: rows that were trained, over all epochs.
        losses: of its steps; rows and tokens since the job began.
        loss: mean over the tokens of its last epoch, as they were met; None if there were none.
        validation_loss, validation_accuracy: at its end; None without validation data.
        chunks_crossed, chunk_bytes: chunks that workers fetched from other sites.
        parameter_bytes: weights and gradients that crossed sites.
        seconds: from the first step to the last.
        adapter: files in PEFT's format by name, after the last slot; else None, as where training
            has diverged.
    """

    state: AdapterState
    samples: int
    losses: tuple[CurvePoint, ...]
    loss: float | None
    validation_loss: float | None
    validation_accuracy: float | None
    chunks_crossed: int
    chunk_bytes: int
    parameter_bytes: int
    seconds: float
    adapter: dict[str, bytes] | None


class Worker:
    """Computes gradients on the chunks that it holds.

    Args:
        training: of its job.
        site: where it is.
        device: of torch.
    """

    def __init__(self, training: EdgeTraining, site: str, device: str) -> None:
        # Only workers load torch and transformers.
        import torch

        from auctune.train.base import load_base
        from auctune.train.data_parallel.chunk_worker import ChunkWorker

        torch.set_num_threads(training.threads)
        base = load_base(
            training.base, cache=Path(training.cache), device=device, dtype=training.dtype
        )
        self._worker = ChunkWorker(base, training.config, threads=training.threads)
        self._site = site

    def ready(self) -> None:
        """Answer once the worker has started."""

    def first_state(self) -> AdapterState:
        """Return the state before the first step."""
        return AdapterState.first(self._worker.first_weights, self._worker.base_digest)

    def load_chunks(
        self, stored: Sequence[StoredChunk], validation: DataSet | None = None
    ) -> LoadedChunks:
        """Fetch the chunks of a slot, and rows to measure by; those held before go.

        Raises:
            InputError: if the rows to measure by cannot be used.
        """
        import ray

        contents: list[DataSet] = ray.get([one.content for one in stored])
        numbers = [one.chunk for one in stored]
        sizes = self._worker.load(dict(zip(numbers, contents, strict=True)), validation)
        away = [one for one in stored if one.origin != self._site]
        num_bytes = sum(one.num_bytes for one in away)
        num_validation_rows = self._worker.num_validation_rows
        return LoadedChunks(
            sizes, len(away), num_bytes, self._worker.base_digest, num_validation_rows
        )

    def compute(self, weights: Floats, parts: Sequence[ChunkRows]) -> list[Contribution]:
        """Return the gradients of micro-batches, in their order."""
        self._worker.set_weights(weights)
        return [self._worker.compute(part) for part in parts]

    def validate(self, weights: Floats, first: int, count: int) -> Contribution:
        """Return the loss and hits of some of the rows to measure by."""
        self._worker.set_weights(weights)
        return self._worker.validate(first, count)

    def export(self, weights: Floats) -> dict[str, bytes]:
        """Return the files of the adapter, loaded back by PEFT and checked on rows here."""
        self._worker.set_weights(weights)
        return self._worker.export()


class ParameterServer:
    """Holds a job's weights, hands them out and adds gradients up.

    Args:
        training: of its job.
        site: where it is.
    """

    def __init__(self, training: EdgeTraining, site: str) -> None:
        self._training, self._site = training, site
        self._rows_done, self._running, self._cancelled = 0, -1, -1
        self._begun = math.inf

    def progress(self, call: int) -> RowProgress:
        """Return the progress of a call; called on another thread."""
        if call != self._running:
            return RowProgress()
        return RowProgress(self._rows_done, max(0.0, time.perf_counter() - self._begun))

    def cancel(self, call: int) -> None:
        """Cancel a call and those before; called on another thread, maybe before they begin."""
        self._cancelled = call

    def run(self, task: SlotTask, call: int = 0) -> SlotResult:
        """Train one slot's chunks.

        Args:
            task: the slot.
            call: number of the call, for `cancel`.

        Raises:
            SlotCancelledError: if it was cancelled.
            InputError: if the workers' bases differ.
        """
        import ray

        self._rows_done, self._begun = 0, math.inf
        self._running = call
        loaded = self._wait_for_chunks(task, call)
        sizes = {chunk: count for one in loaded for chunk, count in one.sizes.items()}
        state = task.state or ray.get(task.workers[0].actor.first_state.remote())
        _check_bases(task, loaded, state)
        config = self._training.config
        reducer = AdapterReducer(config, state, task.total_rows)
        self._begun, crossed = time.perf_counter(), 0
        losses: list[CurvePoint] = []
        last_epoch, last_targets = 0.0, 0
        batches = slot_batches(
            config.seed, config.batch_size, self._training.micro_batch, sizes, config.epochs
        )
        for batch in batches:
            if call <= self._cancelled:
                raise SlotCancelledError
            contributions, sent = self._gather(reducer.weights, task.workers, batch)
            crossed += sent
            num_rows = sum(part.num_rows for part in batch)
            loss, accuracy = reducer.reduce(contributions, num_rows)
            self._rows_done += num_rows
            losses.append((*reducer.counts, loss, accuracy))
            if batch[0].epoch == config.epochs - 1:
                last_epoch += sum(one.loss for one in contributions)
                last_targets += sum(one.num_targets for one in contributions)
            if not math.isfinite(loss):
                # It has diverged, and no step will mend it.
                last_epoch, last_targets = loss, 1
                break
        weights, adapter = reducer.weights, None
        validation_loss, validation_accuracy = None, None
        if num_rows := loaded[0].num_validation_rows:
            validation_loss, validation_accuracy = self._validate(task, weights, num_rows, call)
        if task.is_last and math.isfinite(last_epoch + (validation_loss or 0.0)):
            adapter = ray.get(_with_rows(task, sizes).export.remote(weights))
        return SlotResult(
            state=reducer.state(),
            samples=self._rows_done,
            losses=tuple(losses),
            loss=last_epoch / last_targets if last_targets else None,
            validation_loss=validation_loss,
            validation_accuracy=validation_accuracy,
            chunks_crossed=sum(one.num_crossed for one in loaded),
            chunk_bytes=sum(one.num_bytes for one in loaded),
            parameter_bytes=crossed,
            seconds=time.perf_counter() - self._begun,
            adapter=adapter,
        )

    def _validate(
        self, task: SlotTask, weights: Floats, num_rows: int, call: int
    ) -> tuple[float, float]:
        """Return the mean loss and accuracy on the first worker's rows to measure by.

        Raises:
            SlotCancelledError: if the slot is over before all are evaluated.
        """
        import ray

        shared, actor, size = ray.put(weights), task.workers[0].actor, self._training.micro_batch
        loss, hits, num_targets = 0.0, 0, 0
        for first in range(0, num_rows, size):
            if call <= self._cancelled:
                raise SlotCancelledError
            part: Contribution = ray.get(actor.validate.remote(shared, first, size))
            loss, hits = loss + part.loss, hits + part.hits
            num_targets += part.num_targets
        return loss / num_targets, hits / num_targets

    def _wait_for_chunks(self, task: SlotTask, call: int) -> list[LoadedChunks]:
        import ray

        # An actor keeps the order of one caller's calls, not that between two callers.
        waiting = list(task.loading)
        while waiting:
            if call <= self._cancelled:
                raise SlotCancelledError
            waiting = ray.wait(waiting, num_returns=len(waiting), timeout=_POLL_SECONDS)[1]
        loaded: list[LoadedChunks] = ray.get(list(task.loading))
        return loaded

    def _gather(
        self, weights: Floats, workers: Sequence[WorkerRef], batch: Sequence[ChunkRows]
    ) -> tuple[list[Contribution], int]:
        """Return all contributions in the batch's order, and the bytes that crossed sites.

        Weights cross once to each site, as nodes share what their store has; gradients each.
        """
        import ray

        shared = ray.put(weights)
        calls, answers = [], []
        for worker in workers:
            mine = [part for part in batch if part.chunk in worker.chunks]
            if mine:
                calls.append((worker, mine))
                answers.append(worker.actor.compute.remote(shared, mine))
        found: dict[ChunkRows, Contribution] = {}
        for (_, mine), contributions in zip(calls, ray.get(answers), strict=True):
            found |= zip(mine, contributions, strict=True)
        away = [(worker.site, len(mine)) for worker, mine in calls if worker.site != self._site]
        copies = len({site for site, _ in away}) + sum(count for _, count in away)
        return [found[part] for part in batch], copies * weights.nbytes


def _check_bases(task: SlotTask, loaded: Sequence[LoadedChunks], state: AdapterState) -> None:
    """Check that all workers adapt the base that the job began with."""
    for worker, one in zip(task.workers, loaded, strict=True):
        if one.base_digest != state.base_digest:
            found = f"of digest {one.base_digest[:12]} at site {worker.site}"
            expected = f"{state.base_digest[:12]}, with which the job began"
            raise InputError("base", found, expected)


def _with_rows(task: SlotTask, sizes: Mapping[int, int]) -> Any:
    """Return the actor of the first worker that has rows, or else of the first one."""
    able = (one for one in task.workers if any(sizes[chunk] for chunk in one.chunks))
    return next(able, task.workers[0]).actor


@dataclass
class JobActors:
    """One job's actors, placed by resources.

    Attributes:
        job, training: whose.
        device: of torch.
        num_gpus: that Ray gives each worker; 0: it sees all of its machine.
        workers: by site.
    """

    job: EdgeJob
    training: EdgeTraining
    device: str
    num_gpus: float = 0.0
    workers: dict[str, list[Any]] = field(default_factory=dict)
    _server: Any = None
    _server_site: str = ""
    # References to the first answers of actors that may be starting still.
    _starting: list[Any] = field(default_factory=list)
    _call: int = 0
    # Slots in a row that were lost though all actors had started.
    _num_stuck: int = 0
    # Slots of others that actors of a lost slot may still wait for their next one.
    _warm_slots_left: int = 0

    def release(self, part: SlotPlan | None = None, free: FreeResources | None = None) -> None:
        """End the actors that a slot does not need.

        Args:
            part: the slot, or None if it has no slot.
            free: where actors of a lost slot may wait for the next one, or None: nowhere.
        """
        if part is None and free is not None and self._warm_slots_left and self.reserve(free):
            return
        needed = {} if part is None else part.workers
        for site, actors in list(self.workers.items()):
            _end(actors[needed.get(site, 0) :])
            self.workers[site] = actors[: needed.get(site, 0)]
        self.workers = {site: actors for site, actors in self.workers.items() if actors}
        if part is None or part.server != self._server_site:
            self._end_server()

    def drop_sites(self, alive: Collection[str]) -> None:
        """End the actors at other sites, and the server, which may have passed a lost slot's first
        steps; workers keep nothing."""
        for site in set(self.workers) - set(alive):
            _end(self.workers.pop(site))
        self._end_server()

    def cancel(self, *, was_running: bool) -> None:
        """Cancel the overdue slot, but keep its actors for the next one, also those that still
        start: new ones would be as late again.

        If all had started in `_MAX_STUCK_SLOTS` such slots in a row, all end.

        Args:
            was_running: whether the actors had what they need.
        """
        self._num_stuck += was_running and self._has_started()
        if self._num_stuck == _MAX_STUCK_SLOTS:
            self._num_stuck = 0
            self.release()
            return
        self._warm_slots_left = _WARM_SLOTS
        if was_running:
            self._control("cancel", self._call)

    def age(self) -> None:
        """Count a slot of other jobs."""
        self._warm_slots_left = max(0, self._warm_slots_left - 1)

    def mark_trained(self) -> None:
        """Note that its slot was trained."""
        self._num_stuck = self._warm_slots_left = 0

    def start(
        self,
        part: SlotPlan,
        stored: Mapping[str, Sequence[StoredChunk]],
        state: AdapterState | None,
        total_rows: int,
        *,
        validation: Any = None,
        is_last: bool = False,
    ) -> Any:
        """Start what is missing, and the slot; return a reference to its `SlotResult`.

        Args:
            part: workers and server.
            stored: chunks by the site that trains them.
            state, total_rows, is_last: as of `SlotTask`.
            validation: reference to rows to measure by, or None.
        """
        self.ensure_started(part)
        self._call += 1
        workers: list[WorkerRef] = []
        loading = []
        for site, chunks in stored.items():
            actors = self.workers[site]
            for index, actor in enumerate(actors):
                mine = chunks[index :: len(actors)]
                loading.append(actor.load_chunks.remote(mine, None if workers else validation))
                workers.append(WorkerRef(actor, site, tuple(one.chunk for one in mine)))
        task = SlotTask(
            state=state,
            total_rows=total_rows,
            workers=workers,
            loading=loading,
            is_last=is_last,
        )
        return self._server.run.remote(task, self._call)

    def progress(self) -> Any:
        """Return a reference to the `RowProgress` of the running slot."""
        return self._control("progress", self._call)

    def ensure_started(self, part: SlotPlan, free: FreeResources | None = None) -> None:
        """Start the actors that a slot needs and that are missing, without waiting for them.

        Args:
            part: the slot.
            free: resources that may be used, or None: the slot's own are free.
        """
        for site, count in part.workers.items():
            actors = self.workers.setdefault(site, [])
            while len(actors) < count and _is_free(free, site, self.job.worker):
                actors.append(self._start_worker(site))
        if self._server is None and _is_free(free, part.server, self.job.server):
            self._start_server(part.server)

    def reserve(self, free: FreeResources, *, force: bool = False) -> bool:
        """Take what its actors hold, as far as that is free; return whether all of it was."""
        needs = [(site, self.job.worker) for site, actors in self.workers.items() for _ in actors]
        if self._server is not None:
            needs.append((self._server_site, self.job.server))
        fits = [free.reserve(site, units, force=force) for site, units in needs]
        return all(fits)

    def _control(self, method: str, *arguments: Any) -> Any:
        options = getattr(self._server, method).options(concurrency_group=_CONTROL)
        return options.remote(*arguments)

    def _start_worker(self, site: str) -> Any:
        import ray

        make = ray.remote(Worker).options(
            num_cpus=0,
            num_gpus=self.num_gpus,
            max_restarts=0,
            resources=actor_resources(site, self.job.worker),
        )
        actor = make.remote(self.training, site, self.device)
        self._starting.append(actor.ready.remote())
        return actor

    def _start_server(self, site: str) -> None:
        import ray

        # Slots are trained one at a time: one that was cancelled ends before the next begins.
        make = ray.remote(concurrency_groups={_CONTROL: 1})(ParameterServer).options(
            num_cpus=0,
            max_restarts=0,
            resources=actor_resources(site, self.job.server),
        )
        self._server, self._server_site = make.remote(self.training, site), site
        self._starting.append(self.progress())

    def _has_started(self) -> bool:
        """Return whether all actors have started; those that have ended count as well."""
        import ray

        if self._starting:
            references = self._starting
            self._starting = ray.wait(references, num_returns=len(references), timeout=0)[1]
        return not self._starting

    def _end_server(self) -> None:
        if self._server is not None:
            _end([self._server])
            self._server = None


def _end(actors: Iterable[Any]) -> None:
    import ray

    for actor in actors:
        ray.kill(actor)


def _is_free(free: FreeResources | None, site: str, needs: Mapping[str, float]) -> bool:
    return free is None or free.reserve(site, needs)
