"""The actors of jobs: a server and workers a job, placed by resources, kept from slot to slot where
the plan keeps them.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from auctune.edge.job import EdgeJob
from auctune.edge.plan import SlotPlan
from auctune.run.edge.actors import Crossed, Member, ParameterServer, StoredChunk, Worker
from auctune.run.edge.resources import wanted
from auctune.train.edge.descent import TrainingState
from auctune.train.edge.images import ImageShape
from auctune.train.edge.recipe import Recipe


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
        workers: by site.
    """

    job: EdgeJob
    recipe: Recipe
    shape: ImageShape
    device: str
    workers: dict[str, list[Any]] = field(default_factory=dict)
    _server: Any = None
    _server_site: str = ""

    def release(self, part: SlotPlan | None) -> None:
        """End the actors that a slot has no use for; none: all."""
        import ray

        wanted_here = part.workers if part is not None else {}
        for site, actors in self.workers.items():
            for actor in actors[wanted_here.get(site, 0) :]:
                ray.kill(actor)
            del actors[wanted_here.get(site, 0) :]
        self.workers = {site: actors for site, actors in self.workers.items() if actors}
        if self._server is not None and (part is None or part.server != self._server_site):
            ray.kill(self._server)
            self._server = None

    def leave(self, sites: Collection[str]) -> None:
        """End the actors that are not at these sites, and the server, which a torn slot has gone
        on from: workers keep nothing."""
        import ray

        for site in set(self.workers) - set(sites):
            for actor in self.workers.pop(site):
                ray.kill(actor)
        if self._server is not None:
            ray.kill(self._server)
            self._server = None

    def start(self, work: SlotWork) -> tuple[Any, list[Any]]:
        """Start what is missing, and the slot.

        Returns:
            References to its `SlotResult`, and to what each worker was sent.
        """
        self.acquire(work.part)
        members, fetched = [], []
        for site, stored in work.stored.items():
            actors = self.workers[site]
            for index, actor in enumerate(actors):
                mine = stored[index :: len(actors)]
                fetched.append(actor.hold.remote(mine))
                members.append(Member(actor, site, tuple(one.chunk for one in mine)))
        result = self._server.run.remote(work.state, members, work.sizes, self.job.epochs, fetched)
        return result, fetched

    def samples_done(self) -> Any:
        """Refers to the samples passed in the slot that goes on."""
        return self._server.samples_done.remote()

    def acquire(self, part: SlotPlan) -> None:
        """Start the actors that a slot needs and that are missing; does not wait for them."""
        import ray

        for site, count in part.workers.items():
            actors = self.workers.setdefault(site, [])
            make = ray.remote(Worker).options(
                num_cpus=0, max_restarts=0, resources=wanted(site, self.job.worker)
            )
            while len(actors) < count:
                actors.append(make.remote(self.recipe, self.shape, site, self.device))
        if self._server is None:
            # A second thread says how far the first is.
            make = ray.remote(ParameterServer).options(
                num_cpus=0,
                max_restarts=0,
                max_concurrency=2,
                resources=wanted(part.server, self.job.server),
            )
            self._server, self._server_site = make.remote(self.recipe, part.server), part.server


def total(fetched: list[Crossed]) -> Crossed:
    """What all workers together were sent."""
    return Crossed(sum(one.chunks for one in fetched), sum(one.num_bytes for one in fetched))
