"""The workers of a job and its parameter server, kept from slot to slot."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field
from functools import partial

from auctune.edge.decision import SlotPlan
from auctune.edge.job import EdgeJob
from auctune.engine.edge.inputs import EdgeTraining
from auctune.engine.edge.sites import FreeResources, Sites
from auctune.engine.edge.slot_run import PlacedWorker, SlotRun, SlotTask
from auctune.engine.edge.storage import StoredChunk
from auctune.engine.elastic.errors import read_failure
from auctune.engine.elastic.gradient_worker import gradient_worker
from auctune.engine.elastic.reducer import reducer_worker
from auctune.engine.messages.base import Array
from auctune.engine.runtime.requests import RequestWorker
from auctune.engine.runtime.worker import WorkerSpec
from auctune.train.checkpoint import Checkpoint

# A job whose slot was lost has another soon, or there is no room for it for long.
_WARM_SLOTS = 3
# On a busy machine the first steps take longer than a slot too.
_MAX_STUCK_SLOTS = 4


@dataclass
class JobWorkers:
    """One job's workers.

    Attributes:
        job, training: whose.
        device: of torch.
        sites: where they run.
        workers: by site.
        server: the parameter server, or None.
    """

    job: EdgeJob
    training: EdgeTraining
    device: str
    sites: Sites
    workers: dict[str, list[RequestWorker]] = field(default_factory=dict)
    server: RequestWorker | None = None
    _server_site: str = ""
    _run: SlotRun | None = None
    # Slots in a row that were lost though all workers had started.
    _num_stuck: int = 0
    # Slots of others that workers of a lost slot may still wait for their next one.
    _warm_slots_left: int = 0

    def release(self, part: SlotPlan | None = None, free: FreeResources | None = None) -> None:
        """End the workers that a slot does not need.

        Args:
            part: the slot, or None if it has no slot.
            free: where workers of a lost slot may wait for the next one, or None: nowhere.
        """
        if part is None and free is not None and self._warm_slots_left and self.reserve(free):
            return
        needed = {} if part is None else part.workers
        for site, workers in list(self.workers.items()):
            _end(workers[needed.get(site, 0) :])
            self.workers[site] = workers[: needed.get(site, 0)]
        if part is None:
            self._cancel_run()
        self.workers = {site: workers for site, workers in self.workers.items() if workers}
        if part is None or part.server != self._server_site:
            self._end_server()

    def drop_sites(self, alive: Collection[str]) -> None:
        """End the workers at other sites, and the server, which may have passed a lost slot's first
        steps; workers keep nothing."""
        for site in set(self.workers) - set(alive):
            _end(self.workers.pop(site))
        self._cancel_run()
        self._end_server()

    def close(self, timeout: float) -> None:
        """End all workers, and wait so many seconds for what still fetches their arrays."""
        run = self._run
        self.release()
        if run is not None:
            wait([run.result], timeout)

    def cancel(self, *, was_running: bool) -> None:
        """Cancel the overdue slot, but keep its workers for the next one, also those that still
        start: new ones would be as late again.

        If all had started in `_MAX_STUCK_SLOTS` such slots in a row, all end.

        Args:
            was_running: whether the workers had what they need.
        """
        every = [*(one for here in self.workers.values() for one in here)]
        every += [self.server] if self.server else []
        self._num_stuck += was_running and not any(one.is_starting for one in every)
        if self._run is not None:
            self._run.cancel()
        if self._num_stuck == _MAX_STUCK_SLOTS:
            self._num_stuck = 0
            self.release()
            return
        self._warm_slots_left = _WARM_SLOTS

    def age(self) -> None:
        """Count a slot of other jobs."""
        self._warm_slots_left = max(0, self._warm_slots_left - 1)

    def mark_trained(self) -> None:
        """Note that its slot was trained."""
        self._run = None
        self._num_stuck = self._warm_slots_left = 0

    def start(
        self,
        part: SlotPlan,
        stored: Mapping[str, Sequence[StoredChunk]],
        state: Checkpoint | None,
        total_rows: int,
        *,
        number: int,
        validation: Array | None = None,
        is_last: bool = False,
    ) -> SlotRun:
        """Start what is missing, and the slot.

        Args:
            part: workers and server.
            stored: chunks by the site that trains them.
            state, total_rows, number, validation, is_last: as of `SlotTask`.
        """
        self.ensure_started(part)
        assert self.server is not None
        task = SlotTask(
            training=self.training,
            state=state,
            total_rows=total_rows,
            workers=[
                PlacedWorker(worker, site, chunks[index :: len(self.workers[site])])
                for site, chunks in stored.items()
                for index, worker in enumerate(self.workers[site])
            ],
            server=self.server,
            server_site=self._server_site,
            number=number,
            validation=validation,
            is_last=is_last,
        )
        self._run = SlotRun(task, self.sites.fetch, self._run)
        return self._run

    def ensure_started(self, part: SlotPlan, free: FreeResources | None = None) -> None:
        """Start the workers that a slot needs and that are missing, without waiting for them.

        Those that have ended are replaced.

        Args:
            part: the slot.
            free: resources that may be used, or None: the slot's own are free.

        Raises:
            InputError: if a site cannot have such a worker.
            OSError, RuntimeError: if one cannot be started.
        """
        worker = gradient_worker(self.training.worker_settings(self.device))
        for site, count in part.workers.items():
            here = self.workers.setdefault(site, [])
            for ended in [one for one in here if one.has_ended]:
                ended.kill()
                here.remove(ended)
            while len(here) < count and _is_free(free, site, self.job.worker):
                here.append(self._start(site, self.job.worker, worker))
        if self.server is not None and self.server.has_ended:
            self._end_server()
        if self.server is None and _is_free(free, part.server, self.job.server):
            server = reducer_worker(self.training.config)
            self.server = self._start(part.server, self.job.server, server)
            self._server_site = part.server

    def reserve(self, free: FreeResources, *, force: bool = False) -> bool:
        """Take what its workers hold, as far as that is free; return whether all of it was."""
        needs = [(site, self.job.worker) for site, here in self.workers.items() for _ in here]
        if self.server is not None:
            needs.append((self._server_site, self.job.server))
        fits = [free.reserve(site, units, force=force) for site, units in needs]
        return all(fits)

    def _start(self, site: str, needs: Mapping[str, float], worker: WorkerSpec) -> RequestWorker:
        return RequestWorker(partial(self.sites.start, site, needs, worker), read_failure)

    def _cancel_run(self) -> None:
        """Cancel the slot's run, whose server ends: no other run is to wait for it."""
        if self._run is not None:
            self._run.cancel()
            self._run = None

    def _end_server(self) -> None:
        if self.server is not None:
            _end([self.server])
            self.server = None


def _end(workers: Iterable[RequestWorker]) -> None:
    for worker in workers:
        worker.kill()


def _is_free(free: FreeResources | None, site: str, needs: Mapping[str, float]) -> bool:
    return free is None or free.reserve(site, needs)
