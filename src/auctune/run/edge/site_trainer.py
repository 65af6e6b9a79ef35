"""Trains slots of jobs at sites: places their rows, runs their actors, and saves what they trained.

Order: checkpoint, then outcome, then report. After a crash a reported slot is always trained, and a
trained slot is reported again rather than trained twice.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from auctune.domain import InputError
from auctune.domain.errors import CheckpointError
from auctune.run.edge.edge_folder import EdgeFolder, SlotOutcome
from auctune.run.edge.job_actors import JobActors, SlotWork
from auctune.run.edge.job_errors import SlotError, as_slot_error
from auctune.run.edge.messages import SlotRequest
from auctune.run.edge.resources import sites_alive, worker_gpus
from auctune.run.edge.slot_runner import JobBroken, SlotDone, SlotLost, SlotRunner
from auctune.run.edge.storage import ChunkStorage
from auctune.run.edge.training import assign_chunks
from auctune.train.data_parallel.reducer import AdapterState


@dataclass(frozen=True, slots=True)
class SlotTrained:
    """A job's slot that was trained and saved."""

    job: str
    outcome: SlotOutcome


@dataclass(frozen=True, slots=True)
class TrainerCallbacks:
    """Callbacks of a trainer.

    Attributes:
        on_site_lost: called with a site that is lost, at once.
        on_site_back: called with a site that is back.
        on_progress: called with the rows of the running slot that are trained, by job.
    """

    on_site_lost: Callable[[str], None]
    on_site_back: Callable[[str], None] = lambda _: None
    on_progress: Callable[[Mapping[str, int]], None] = lambda _: None


class SiteTrainer:
    """Trains at the sites of the cluster to which this process is connected.

    Args:
        folder: of checkpoints and results.
        sites: all that are used.
        device: of workers.
        callbacks: see `TrainerCallbacks`.
        own_gpus: whether Ray gives each worker GPUs of its own, as many as its `gpu` units.

    Attributes:
        lost: sites that have no node now.
    """

    def __init__(
        self,
        folder: EdgeFolder,
        sites: Collection[str],
        device: str,
        callbacks: TrainerCallbacks,
        *,
        own_gpus: bool = False,
    ) -> None:
        self._folder, self._device, self._own_gpus = folder, device, own_gpus
        self._callbacks = callbacks
        self._storage = ChunkStorage()
        alive = sites_alive()
        self.lost = set(sites) - alive
        for site in sorted(self.lost):
            self._storage.on_site_lost(site)
        self._runner = SlotRunner(set(sites) & alive, self._on_site_lost, callbacks.on_progress)

    def check_sites(self) -> None:
        """Report the sites that are lost, and those that are back."""
        self._runner.check_sites()
        for site in sorted(self.lost & sites_alive()):
            self.lost.discard(site)
            self._runner.add_site(site)
            self._storage.on_site_back(site)
            self._callbacks.on_site_back(site)

    def retain_only(self, jobs: Collection[str]) -> None:
        """Release all other jobs."""
        for job in [job for job in self._runner.actors if job not in jobs]:
            self._runner.drop(job)
        self._storage.retain_only(jobs)

    def prestart(self, requests: Sequence[SlotRequest], *, beside: bool = False) -> None:
        """Start the actors of the next slot, all of them or in the room beside the running one."""
        parts = {}
        for one in requests:
            # What there is no room for now there may be by its slot, which reports what is wrong.
            with suppress(SlotError, InputError):
                self._prepare(one)
                parts[one.job.id] = one.part
        if beside:
            self._runner.prestart_beside(parts)
        else:
            self._runner.prestart(parts)

    def run_slot(
        self,
        slot: int,
        requests: Sequence[SlotRequest],
        is_over: Callable[[str], bool] = lambda _: False,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Iterator[SlotTrained | SlotLost | JobBroken]:
        """Train a slot, and yield the result of each job as it comes.

        Args:
            slot: its number.
            requests: one a job.
            is_over: whether a job's time is over.
            meanwhile: called again and again.
        """
        todo: dict[str, SlotRequest] = {}
        states: dict[str, AdapterState | None] = {}
        for one in requests:
            job = one.job.id
            known = self._folder.read_outcome(job, slot, one.steps)
            if known is not None and known.chunks == _chunks_of(one):
                yield SlotTrained(job, known)
                continue
            try:
                self._prepare(one)
                states[job] = self._folder.read_checkpoint(job, one.steps)
            except SlotError as error:
                yield SlotLost.from_error(job, error)
            except InputError as error:
                yield JobBroken(job, str(error))
            except CheckpointError:
                # The message is for the job's owner, who is not to know the path.
                yield JobBroken(job, f"its checkpoint of {one.steps} steps is gone, or damaged")
            else:
                todo[job] = one

        def make_work(job: str) -> SlotWork:
            return self._work(todo[job], states[job])

        for found in self._runner.run(make_work, list(todo), is_over, meanwhile):
            if isinstance(found, SlotDone):
                yield self._save(slot, todo[found.job], found)
            else:
                yield found

    def num_rows(self, job: str) -> int:
        """Return the rows of a job at all sites, over all epochs."""
        return self._runner.actors[job].total_rows

    def close(self) -> None:
        """End all actors."""
        self._runner.close()

    def _prepare(self, request: SlotRequest) -> None:
        """Place a job's rows, and add its actors.

        Raises:
            InputError: if its rows cannot be used.
            SlotError: if there is no room for them now.
        """
        job, training = request.job, request.training
        self._storage.place(job, training)
        if job.id not in self._runner.actors:
            num_rows = training.num_rows or sum(self._storage.rows[job.id].values())
            num_gpus = worker_gpus(self._device, job.worker) if self._own_gpus else 0.0
            self._runner.actors[job.id] = JobActors(
                job, training, self._device, num_rows * job.epochs, num_gpus
            )

    def _work(self, request: SlotRequest, state: AdapterState | None) -> SlotWork:
        job = request.job
        assigned = assign_chunks(job, request.part, request.taken)
        return SlotWork(
            request.part,
            {site: self._storage.get(job.id, numbers) for site, numbers in assigned.items()},
            state,
            self._storage.validation.get(job.id),
            request.is_last,
        )

    def _save(self, slot: int, request: SlotRequest, done: SlotDone) -> SlotTrained | SlotLost:
        """Save a trained slot; what cannot be written is lost."""
        job, result, part = request.job.id, done.result, request.part
        outcome = SlotOutcome(
            before=request.steps,
            steps=result.state.steps,
            chunks=_chunks_of(request),
            samples=result.samples,
            tokens=result.state.tokens,
            losses=result.losses,
            first_loss=result.losses[0][3] if result.losses else None,
            loss=result.loss,
            validation_loss=result.validation_loss,
            seconds=result.seconds,
            workers_away=sum(n for site, n in part.workers.items() if site != part.server),
            chunks_crossed=result.chunks_crossed,
            chunk_bytes=result.chunk_bytes,
            parameter_bytes=result.parameter_bytes,
        )
        try:
            with as_slot_error():
                self._folder.write_checkpoint(job, result.state, request.steps)
                if result.adapter is not None:
                    self._folder.write_adapter(job, result.adapter)
                self._folder.write_outcome(job, slot, outcome)
        except SlotError as error:
            return SlotLost.from_error(job, error)
        return SlotTrained(job, outcome)

    def _on_site_lost(self, site: str) -> None:
        self.lost.add(site)
        self._storage.on_site_lost(site)
        self._callbacks.on_site_lost(site)


def _chunks_of(request: SlotRequest) -> tuple[int, ...]:
    assigned = assign_chunks(request.job, request.part, request.taken)
    return tuple(sorted(number for numbers in assigned.values() for number in numbers))
