"""The actors of a job: a server and workers, placed by resources, kept from slot to slot where the
plan keeps them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from auctune.edge.decision import SlotPlan
from auctune.edge.job import EdgeJob
from auctune.run.edge.actors import ParameterServer, SlotTask, StoredChunk, Worker, WorkerRef
from auctune.run.edge.resources import FreeResources, actor_resources
from auctune.run.edge.training import EdgeTraining
from auctune.train.data_parallel.reducer import AdapterState

# A job whose slot was lost has another soon, or there is no room for it for long.
_WARM_SLOTS = 3
# On a busy machine the first steps take longer than a slot too.
_MAX_STUCK_SLOTS = 4


@dataclass(frozen=True, slots=True)
class SlotWork:
    """A job's slot for its actors.

    Attributes:
        part: workers and server.
        stored: chunks by the site that trains them.
        state: from which it goes on; None before the first step.
        validation: reference to rows to measure by, or None.
        is_last: whether the adapter is exported after it.
    """

    part: SlotPlan
    stored: dict[str, list[StoredChunk]]
    state: AdapterState | None
    validation: Any = None
    is_last: bool = False


@dataclass
class JobActors:
    """One job's actors.

    Attributes:
        job, training: whose.
        device: of torch.
        total_rows: of the whole job, over all epochs.
        num_gpus: that Ray gives each worker; 0: it sees all of its machine.
        workers: by site.
    """

    job: EdgeJob
    training: EdgeTraining
    device: str
    total_rows: int
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

    def release(self, part: SlotPlan | None, free: FreeResources | None = None) -> None:
        """End the actors that a slot does not need.

        Args:
            part: the slot, or None if it has no slot.
            free: where actors of a lost slot may wait for the next one, or None: nowhere.
        """
        if part is None and free is not None and self._warm_slots_left and self._fits(free):
            return
        workers = {} if part is None else part.workers
        for site, actors in self.workers.items():
            _end(actors[workers.get(site, 0) :])
            del actors[workers.get(site, 0) :]
        self.workers = {site: actors for site, actors in self.workers.items() if actors}
        if part is None or part.server != self._server_site:
            self._end_server()

    def drop_sites(self, alive: Collection[str]) -> None:
        """End the actors at other sites, and the server, which may have passed a lost slot's first
        steps; workers keep nothing."""
        for site in set(self.workers) - set(alive):
            _end(self.workers.pop(site))
        self._end_server()

    def cancel(self) -> None:
        """Cancel the overdue slot, but keep its actors for the next one, also those that still
        start: new ones would be as late again.

        If all had started in `_MAX_STUCK_SLOTS` such slots in a row, all end.
        """
        self._num_stuck += self._has_started()
        if self._num_stuck == _MAX_STUCK_SLOTS:
            self._num_stuck = 0
            self.release(None)
            return
        self._warm_slots_left = _WARM_SLOTS
        self._server.cancel.remote(self._call)

    def age(self) -> None:
        """Count a slot of other jobs."""
        self._warm_slots_left = max(0, self._warm_slots_left - 1)

    def mark_trained(self) -> None:
        """Note that its slot was trained."""
        self._num_stuck = self._warm_slots_left = 0

    def start(self, work: SlotWork) -> Any:
        """Start what is missing, and the slot; return a reference to its `SlotResult`."""
        self.ensure_started(work.part)
        self._call += 1
        workers, loading = [], []
        for site, stored in work.stored.items():
            actors = self.workers[site]
            for index, actor in enumerate(actors):
                mine = stored[index :: len(actors)]
                loading.append(actor.load_chunks.remote(mine))
                workers.append(WorkerRef(actor, site, tuple(one.chunk for one in mine)))
        task = SlotTask(work.state, workers, loading, work.validation, work.is_last)
        return self._server.run.remote(task, self._call)

    def rows_done(self) -> Any:
        """Return a reference to the rows trained in the running slot."""
        return self._server.rows_done.remote()

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

    def reserve(self, free: FreeResources) -> None:
        """Take what its actors hold."""
        self._fits(free, force=True)

    def _fits(self, free: FreeResources, *, force: bool = False) -> bool:
        """Take what its actors hold, as far as that is free; return whether all of it was."""
        needs = [(site, self.job.worker) for site, actors in self.workers.items() for _ in actors]
        if self._server is not None:
            needs.append((self._server_site, self.job.server))
        fits = [free.reserve(site, units, force=force) for site, units in needs]
        return all(fits)

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

        # A second thread reports the progress of the first.
        make = ray.remote(ParameterServer).options(
            num_cpus=0,
            max_restarts=0,
            max_concurrency=2,
            resources=actor_resources(site, self.job.server),
        )
        self._server = make.remote(self.training, site, self.total_rows)
        self._server_site = site
        self._starting.append(self._server.rows_done.remote())

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
