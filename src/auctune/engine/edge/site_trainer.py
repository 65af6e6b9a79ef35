"""Trains slots of jobs at sites: has their rows read, runs their workers, and saves the results.

Jobs are isolated: no call waits for one job. Order: checkpoint, then outcome, then report. After a
crash a reported slot is always trained, and a trained slot is reported again rather than trained
twice.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from auctune.domain import InputError
from auctune.domain.errors import AuctuneError, CheckpointError
from auctune.engine.edge.edge_folder import EdgeFolder, SlotOutcome
from auctune.engine.edge.job_workers import JobWorkers
from auctune.engine.edge.records import SlotRequest
from auctune.engine.edge.sites import Sites
from auctune.engine.edge.slot_run import RowProgress, SlotResult, SlotRun
from auctune.engine.edge.storage import ChunkStorage, assign_chunks
from auctune.engine.elastic.errors import SlotError, as_slot_error
from auctune.engine.messages.sites import JobFailed, SlotEnd, SlotLost, SlotTrained
from auctune.train.adapter_files import write_adapter_files
from auctune.train.checkpoint import Checkpoint

_POLL_SECONDS = 0.5
# A lost site is known by then; of a cluster if Ray was configured to check often.
_NOTICE_SECONDS = 5.0
_MAX_ATTEMPTS = 3
_CLOSE_SECONDS = 5.0


@dataclass(slots=True)
class _Attempt:
    """An attempt at a job's slot.

    Attributes:
        request: the slot.
        state: from which it goes on.
        run: of the slot; None while it does not run.
        number: of attempts, with this one.
        error: with which it ended, until the next one.
        num_sites: that were alive when it failed.
        noticed_by: when a lost site has been reported.
    """

    request: SlotRequest
    state: Checkpoint | None
    run: SlotRun | None = None
    number: int = 1
    error: AuctuneError | None = None
    num_sites: int = 0
    noticed_by: float = 0.0


def _ignore(*_: object) -> None:
    pass


class SiteTrainer:
    """Trains at sites.

    Args:
        folder: of checkpoints and results.
        sites: all that are used.
        device: of workers.
        on_site_lost: called with a site that is lost, at once.
        on_site_recovered: called with a site that has recovered.
        on_progress: called with the rows of the running slot that are trained, by job.
    """

    def __init__(
        self,
        folder: EdgeFolder,
        sites: Sites,
        device: str,
        *,
        on_site_lost: Callable[[str], None] = _ignore,
        on_site_recovered: Callable[[str], None] = _ignore,
        on_progress: Callable[[Mapping[str, int]], None] = _ignore,
    ) -> None:
        self._folder, self._device = folder, device
        self._on_site_lost, self._on_site_recovered = on_site_lost, on_site_recovered
        self._on_progress = on_progress
        self._sites = sites
        self._alive = sites.alive()
        self._storage = ChunkStorage(folder, sites, self._alive)
        self._workers: dict[str, JobWorkers] = {}

    @property
    def lost(self) -> set[str]:
        """Sites that are lost now."""
        return {*self._sites.names - self._alive}

    def check_sites(self) -> None:
        """Report the sites that are lost, and those that have recovered."""
        self._check_lost()
        for site in sorted(self.lost & self._sites.alive()):
            self._alive.add(site)
            self._storage.on_site_recovered(site)
            self._on_site_recovered(site)

    def retain_only(self, jobs: Collection[str]) -> None:
        """Release all other jobs."""
        for job in self._workers.keys() - set(jobs):
            self._workers.pop(job).release()
        self._storage.retain_only(jobs)

    def num_rows(self, job: str) -> int:
        """Return the rows of a job at all sites, over all epochs."""
        workers = self._workers[job]
        return (workers.training.num_rows or self._storage.num_rows(job)) * workers.job.epochs

    def close(self) -> None:
        """End all workers."""
        for workers in self._workers.values():
            workers.close(_CLOSE_SECONDS)

    def prestart(self, requests: Sequence[SlotRequest], *, beside: bool = False) -> None:
        """Have the data of the next slot read, and start its workers.

        Args:
            requests: of the slot.
            beside: whether a slot is running: then only the room beside it is used.
        """
        able = []
        for one in requests:
            # What there is no room for now there may be by its slot, which reports what is wrong.
            with suppress(SlotError, InputError):
                self._workers_of(one)
                self._storage.load(one.job, one.training)
                able.append(one)
        free = None
        if beside:
            free = self._sites.free()
            for workers in self._workers.values():
                workers.reserve(free, force=True)
        else:
            self._make_room(able)
        for one in able:
            with suppress(SlotError, InputError), as_slot_error():
                self._workers[one.job.id].ensure_started(one.part, free)

    def run_slot(
        self,
        slot: int,
        requests: Sequence[SlotRequest],
        is_over: Callable[[str], bool] = lambda _: False,
        meanwhile: Callable[[], None] = _ignore,
    ) -> Iterator[SlotEnd]:
        """Train a slot, and yield the result of each job as it comes.

        Args:
            slot: its number.
            requests: one a job.
            is_over: whether a job's time is over.
            meanwhile: called again and again.
        """
        running: dict[str, _Attempt] = {}
        for one in requests:
            job = one.job.id
            known = self._folder.read_outcome(job, slot, one.steps)
            if known is not None and known.chunks == _chunks_of(one):
                yield SlotTrained(job, known)
                continue
            self._workers_of(one)
            try:
                running[job] = _Attempt(one, self._folder.read_checkpoint(job, one.steps))
            except CheckpointError:
                # The message is for the job's owner, who is not to know the path.
                yield JobFailed(job, f"its checkpoint of {one.steps} steps is gone, or damaged")
        self._make_room([one.request for one in running.values()])
        for job in self._workers.keys() - running.keys():
            self._workers[job].age()
        while running:
            for job, attempt in list(running.items()):
                found = self._advance(slot, attempt, is_over)
                if found is not None:
                    del running[job]
                    yield found
            self._report_progress(running)
            self._wait(running)
            meanwhile()

    def _workers_of(self, request: SlotRequest) -> JobWorkers:
        """Return the workers of a job, none of which may have been started."""
        job = request.job
        if job.id not in self._workers:
            self._workers[job.id] = JobWorkers(job, request.training, self._device, self._sites)
        return self._workers[job.id]

    def _make_room(self, requests: Sequence[SlotRequest]) -> None:
        """Have all jobs release what they do not need before any takes more.

        Workers of a lost slot stay where there is room beside.
        """
        free = self._sites.free()
        parts = {one.job.id: one.part for one in requests}
        for one in requests:
            free.reserve_slot(one.job, one.part)
        for job, workers in self._workers.items():
            workers.release(parts.get(job), free)

    def _advance(self, slot: int, one: _Attempt, is_over: Callable[[str], bool]) -> SlotEnd | None:
        """Do what a job's slot needs next; return how it ended, or None if it goes on."""
        job, part, workers = one.request.job.id, one.request.part, self._workers[one.request.job.id]
        if one.run is not None and one.run.result.done():
            result = self._collect(one, one.run)
            if result is not None:
                return self._save(slot, one.request, result)
            if isinstance(one.error, InputError):
                workers.release()
                return JobFailed(job, str(one.error))
        if not {part.server, *part.workers} <= self._alive:
            # What waits for a site that is gone may wait for ever.
            workers.drop_sites(self._alive)
            return SlotLost(job, "a site that was to train it is gone", failed=False)
        if one.error is None and one.run is None:
            try:
                self._start(one)
            except InputError as error:
                return JobFailed(job, str(error))
            except SlotError as error:
                workers.release()
                return SlotLost(
                    job, str(error), out_of_memory=error.out_of_memory, rows_lost=error.rows_lost
                )
        if is_over(job):
            late = None
            if one.error is None:
                workers.cancel(was_running=one.run is not None)
                late = RowProgress() if one.run is None else one.run.progress
            else:
                workers.release()
            return SlotLost(job, "it was not finished in time", failed=False, late=late)
        # The lost site may have had no part but its chunks: then others read them.
        is_noticed = len(self._alive) != one.num_sites or time.monotonic() >= one.noticed_by
        if one.error is not None and is_noticed:
            workers.release()
            if one.number == _MAX_ATTEMPTS:
                if isinstance(one.error, SlotError) and one.error.out_of_memory:
                    return SlotLost(job, str(one.error), out_of_memory=True)
                return JobFailed(job, str(one.error))
            # A store may have ended, and its chunks with it.
            self._storage.drop(job)
            one.number, one.error = one.number + 1, None
        return None

    def _start(self, one: _Attempt) -> None:
        """Start a job's workers, and its slot once its data are read.

        Raises:
            InputError, SlotError: if that is not possible.
        """
        request, job = one.request, one.request.job
        workers = self._workers[job.id]
        with as_slot_error():
            workers.ensure_started(request.part)
            if not self._storage.load(job, request.training):
                return
            assigned = assign_chunks(job, request.part, request.taken)
            one.run = workers.start(
                request.part,
                {site: self._storage.get(job.id, numbers) for site, numbers in assigned.items()},
                one.state,
                self.num_rows(job.id),
                number=request.number,
                validation=self._storage.validation(job.id),
                is_last=request.is_last,
            )

    def _collect(self, one: _Attempt, run: SlotRun) -> SlotResult | None:
        """Return the result of a slot that has ended; None if it failed."""
        one.run = None
        try:
            result = run.result.result()
        except AuctuneError as error:
            one.error, one.num_sites = error, len(self._alive)
            one.noticed_by = time.monotonic() + _NOTICE_SECONDS
            return None
        self._workers[one.request.job.id].mark_trained()
        return result

    def _save(self, slot: int, request: SlotRequest, result: SlotResult) -> SlotTrained | SlotLost:
        """Save a trained slot; what cannot be written is lost."""
        job, part = request.job.id, request.part
        outcome = SlotOutcome(
            before=request.steps,
            steps=result.state.state["steps"],
            chunks=_chunks_of(request),
            samples=result.samples,
            tokens=result.state.state["tokens"],
            losses=result.losses,
            first_loss=result.losses[0][3] if result.losses else None,
            loss=result.loss,
            validation_loss=result.validation_loss,
            validation_accuracy=result.validation_accuracy,
            seconds=result.seconds,
            workers_away=sum(n for site, n in part.workers.items() if site != part.server),
            chunks_crossed=result.chunks_crossed,
            chunk_bytes=result.chunk_bytes,
            parameter_bytes=result.parameter_bytes,
        )
        try:
            with as_slot_error():
                self._folder.write_checkpoint(job, result.state, request.steps)
                if result.kept is not None:
                    self._folder.write_epoch(job, request.number, result.kept)
                if result.adapter is not None:
                    write_adapter_files(self._folder.adapter(job), result.adapter)
                self._folder.write_outcome(job, slot, outcome)
        except SlotError as error:
            return SlotLost(job, str(error), out_of_memory=error.out_of_memory)
        return SlotTrained(job, outcome)

    def _wait(self, running: Mapping[str, _Attempt]) -> None:
        """Wait until something may have changed."""
        awaited: list[Future[Any]] = []
        for job, one in running.items():
            awaited += self._storage.pending(job) if one.run is None else [one.run.result]
        if awaited:
            wait(awaited, _POLL_SECONDS, return_when=FIRST_COMPLETED)
        elif running:
            time.sleep(_POLL_SECONDS)
        self._check_lost()

    def _check_lost(self) -> None:
        for site in sorted(self._alive - self._sites.alive()):
            self._alive.discard(site)
            self._storage.on_site_lost(site)
            self._on_site_lost(site)

    def _report_progress(self, running: Mapping[str, _Attempt]) -> None:
        done = {job: one.run.progress.rows for job, one in running.items() if one.run is not None}
        if done:
            self._on_progress(done)


def _chunks_of(request: SlotRequest) -> tuple[int, ...]:
    assigned = assign_chunks(request.job, request.part, request.taken)
    return tuple(sorted(number for numbers in assigned.values() for number in numbers))
