"""The actors of jobs: a server and workers a job, placed by resources, kept from slot to slot where
the plan keeps them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from auctune.edge.decision import SlotPlan
from auctune.edge.job import EdgeJob
from auctune.run.edge.actors import Crossed, Member, ParameterServer, StoredChunk, Worker
from auctune.run.edge.resources import wanted
from auctune.run.edge.room import Room
from auctune.train.edge.descent import TrainingState
from auctune.train.edge.images import ImageShape
from auctune.train.edge.recipe import Recipe

# A job whose slot came to nothing has others soon, or there is no room for it for long.
_RESTS = 3
# On a busy machine the first steps take longer than a slot too.
_STUCK = 4


@dataclass(frozen=True, slots=True)
class SlotWork:
    """A job's slot as given to a crew.

    Attributes:
        part: workers and server.
        stored: chunks by the site that trains them.
        sizes: samples by chunk.
        state: from which it goes on.
    """

    part: SlotPlan
    stored: dict[str, list[StoredChunk]]
    sizes: dict[int, int]
    state: TrainingState


@dataclass
class Crew:
    """One job's actors.

    Attributes:
        job: whose.
        recipe, shape, device: what they compute with.
        num_gpus: that Ray gives each worker; 0: it sees all of its machine.
        workers: by site.
    """

    job: EdgeJob
    recipe: Recipe
    shape: ImageShape
    device: str
    num_gpus: float = 0.0
    workers: dict[str, list[Any]] = field(default_factory=dict)
    _server: Any = None
    _server_site: str = ""
    # Refer to the first answers of actors that may be starting still.
    _starting: list[Any] = field(default_factory=list)
    _turn: int = 0
    # Slots in a row that came to nothing though all actors had started.
    _num_stuck: int = 0
    # Slots of others that it may sit out with the actors of one that came to nothing.
    _rests: int = 0

    def release(self, part: SlotPlan | None, room: Room | None = None) -> None:
        """End the actors that a slot has no use for.

        Args:
            part: the slot; none: it has no use for any.
            room: where actors of a slot that came to nothing may wait for the next one; none:
                nowhere.
        """
        if part is None and room is not None and self._rests and self._fits(room):
            return
        workers = {} if part is None else part.workers
        for site, actors in self.workers.items():
            _end(actors[workers.get(site, 0) :])
            del actors[workers.get(site, 0) :]
        self.workers = {site: actors for site, actors in self.workers.items() if actors}
        if part is None or part.server != self._server_site:
            self._end_server()

    def leave(self, sites: Collection[str]) -> None:
        """End the actors that are not at these sites, and the server, which a torn slot has gone
        on from: workers keep nothing."""
        for site in set(self.workers) - set(sites):
            _end(self.workers.pop(site))
        self._end_server()

    def rest(self) -> None:
        """Let go of a slot whose time is over. Its actors, also those that start still, stay for
        the next one: started anew they would be as late again.

        What is stuck is not: if all had started in several such slots in a row, all end.
        """
        self._num_stuck += self._has_started()
        if self._num_stuck == _STUCK:
            self._num_stuck = 0
            self.release(None)
            return
        self._rests = _RESTS
        self._server.leave.remote(self._turn)

    def sit_out(self) -> None:
        """A slot of others begins."""
        self._rests = max(0, self._rests - 1)

    def done(self) -> None:
        """Its slot was trained."""
        self._num_stuck = self._rests = 0

    def start(self, work: SlotWork) -> tuple[Any, list[Any]]:
        """Start what is missing, and the slot.

        Returns:
            References to its `SlotResult`, and to what each worker was sent.
        """
        self.acquire(work.part)
        self._turn += 1
        members, fetched = [], []
        for site, stored in work.stored.items():
            actors = self.workers[site]
            for index, actor in enumerate(actors):
                mine = stored[index :: len(actors)]
                fetched.append(actor.hold.remote(mine))
                members.append(Member(actor, site, tuple(one.chunk for one in mine)))
        result = self._server.run.remote(
            work.state, members, work.sizes, self.job.epochs, fetched, self._turn
        )
        return result, fetched

    def samples_done(self) -> Any:
        """Refers to the samples passed in the slot that goes on."""
        return self._server.samples_done.remote()

    def acquire(self, part: SlotPlan, room: Room | None = None) -> None:
        """Start the actors that a slot needs and that are missing; does not wait for them.

        Args:
            part: the slot.
            room: takes no more than this has; none: the slot's own is there.
        """
        for site, count in part.workers.items():
            actors = self.workers.setdefault(site, [])
            while len(actors) < count and _is_free(room, site, self.job.worker):
                actors.append(self._start_worker(site))
        if self._server is None and _is_free(room, part.server, self.job.server):
            self._start_server(part.server)

    def occupy(self, room: Room) -> None:
        """Take what it holds."""
        self._fits(room, is_owed=True)

    def _fits(self, room: Room, *, is_owed: bool = False) -> bool:
        """Take what it holds, as far as that is free; whether all of it was."""
        needs = [(site, self.job.worker) for site, actors in self.workers.items() for _ in actors]
        if self._server is not None:
            needs.append((self._server_site, self.job.server))
        fits = [room.take(site, units, is_owed=is_owed) for site, units in needs]
        return all(fits)

    def _start_worker(self, site: str) -> Any:
        import ray

        make = ray.remote(Worker).options(
            num_cpus=0,
            num_gpus=self.num_gpus,
            max_restarts=0,
            resources=wanted(site, self.job.worker),
        )
        actor = make.remote(self.recipe, self.shape, site, self.device)
        self._starting.append(actor.has_started.remote())
        return actor

    def _start_server(self, site: str) -> None:
        import ray

        # A second thread says how far the first is.
        make = ray.remote(ParameterServer).options(
            num_cpus=0,
            max_restarts=0,
            max_concurrency=2,
            resources=wanted(site, self.job.server),
        )
        self._server, self._server_site = make.remote(self.recipe, site), site
        self._starting.append(self._server.samples_done.remote())

    def _has_started(self) -> bool:
        """Whether all actors have; those that have ended count as well."""
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


def _is_free(room: Room | None, site: str, needs: Mapping[str, float]) -> bool:
    return room is None or room.take(site, needs)


def total(fetched: list[Crossed]) -> Crossed:
    """What all workers together were sent."""
    return Crossed(sum(one.chunks for one in fetched), sum(one.num_bytes for one in fetched))
