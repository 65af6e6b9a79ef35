"""Slots of jobs at open sites: through their crews, into checkpoints, and told to the owner.

A checkpoint is on disk before what came of its slot is, and that before anybody hears of it: who is
killed when, a slot that is told is trained, and one that was trained is told again and not trained
twice.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from auctune.atomic_files import write_atomically
from auctune.domain import InputError
from auctune.domain.errors import CheckpointError
from auctune.run.edge.checkpoints import Checkpoints
from auctune.run.edge.crew import Crew, SlotWork
from auctune.run.edge.crews import Broken, Crews, Finished, Torn, sites_alive
from auctune.run.edge.job_data import JobData
from auctune.run.edge.resources import gpus_wanted
from auctune.run.edge.storage import Storage
from auctune.run.edge.trouble import TroubleError, troubles
from auctune.run.open_sites.folder import OpenSitesFolder, SiteOutcome
from auctune.run.open_sites.messages import SiteOrder
from auctune.run.open_sites.site_data import read_job_data
from auctune.train.edge.descent import TrainingState

Say = Callable[..., None]
"""Sends a message to the owner: its kind, and what it holds."""


class Floor:
    """What trains at the sites, on the cluster to which this process is connected.

    Args:
        place: of checkpoints and models.
        sites: all there are.
        device: of workers.
        say: tells the owner.
        own_gpus: whether Ray gives each worker GPUs of its own, as many as its `gpu` units.

    Attributes:
        lost: sites that have no node now.
    """

    def __init__(
        self,
        place: OpenSitesFolder,
        sites: Collection[str],
        device: str,
        say: Say,
        *,
        own_gpus: bool = False,
    ) -> None:
        self._place, self._device, self._say = place, device, say
        self._own_gpus = own_gpus
        self._checkpoints = Checkpoints(place.run)
        self._storage = Storage()
        self._data: dict[str, JobData] = {}
        there = sites_alive()
        self.lost = set(sites) - there
        for site in self.lost:
            self._storage.lose(site)
        self._crews = Crews(set(sites) & there, self._lose, lambda _: None)

    def look(self) -> None:
        """See which sites are gone, and which are there again."""
        self._crews.look()
        for site in sorted(self.lost & sites_alive()):
            self.lost.discard(site)
            self._crews.find(site)
            self._storage.find(site)
            self._say("back", site=site)

    def forget_but(self, jobs: Collection[str]) -> None:
        """Let go of all that are not among these jobs."""
        for job in [job for job in self._data if job not in jobs]:
            del self._data[job]
            self._storage.drop(job)
            if (crew := self._crews.crews.pop(job, None)) is not None:
                crew.release(None)

    def prepare(self, orders: Sequence[SiteOrder]) -> None:
        """Have the actors of a slot that comes next, as far as there is room for them."""
        self._crews.prepare({order.job.id: order.part for order in self._those_ready(orders)})

    def expect(self, orders: Sequence[SiteOrder]) -> None:
        """The same, as far as there is room beside a slot that goes on."""
        self._crews.expect({order.job.id: order.part for order in self._those_ready(orders)})

    def run_slot(
        self,
        slot: int,
        orders: Sequence[SiteOrder],
        is_over: Callable[[str], bool],
        meanwhile: Callable[[], None],
    ) -> None:
        """Train a slot.

        Args:
            slot: its number.
            orders: one a job.
            is_over: whether a job's time is over.
            meanwhile: called again and again.
        """
        todo = {}
        for order in orders:
            try:
                if not self._tell_again(slot, order) and self._is_ready(order):
                    todo[order.job.id] = order
            except TroubleError as error:
                self._tear(slot, order.job.id, error)
        states = states_of(todo.values(), self._data, self._checkpoints, self._say)

        def work(job: str) -> SlotWork:
            return self._work(todo[job], states[job])

        for came in self._crews.run(work, list(states), is_over, meanwhile):
            match came:
                case Finished():
                    self._save_or_tear(slot, todo[came.job], came)
                case Torn():
                    self._say(
                        "torn",
                        job=came.job,
                        slot=slot,
                        why=came.why,
                        out_of_memory=came.out_of_memory,
                    )
                case Broken():
                    self._say("broken", job=came.job, why=came.why)

    def close(self) -> None:
        """End all actors."""
        self._crews.close()

    def _tell_again(self, slot: int, order: SiteOrder) -> bool:
        """Whether a slot was trained before; it is told then."""
        found = self._place.kept(order.job.id, slot, order.steps)
        if found is not None:
            self._tell(order.job.id, slot, found)
        return found is not None

    def _those_ready(self, orders: Sequence[SiteOrder]) -> list[SiteOrder]:
        ready = []
        for order in orders:
            # What there is no room for now there may be by its slot.
            with suppress(TroubleError):
                if self._is_ready(order):
                    ready.append(order)
        return ready

    def _is_ready(self, order: SiteOrder) -> bool:
        """Read a job's data and place them, and have a crew for it; whether they can be used.

        Raises:
            TroubleError: if there is no room for them now.
        """
        job = order.job
        try:
            if job.id not in self._data:
                with troubles():
                    self._data[job.id] = read_job_data(job, order.terms)
            data = self._data[job.id]
            self._storage.place(job.id, list(job.chunks), data)
        except InputError as error:
            self._say("broken", job=job.id, why=str(error))
            return False
        if job.id not in self._crews.crews:
            num_gpus = gpus_wanted(self._device, job.worker) if self._own_gpus else 0.0
            crew = Crew(job, data.recipe, data.shape, self._device, num_gpus)
            self._crews.crews[job.id] = crew
        return True

    def _work(self, order: SiteOrder, state: TrainingState) -> SlotWork:
        job, data = order.job.id, self._data[order.job.id]
        dealt = self._dealt(order)
        sizes = data.sizes([number for numbers in dealt.values() for number in numbers])
        stored = {site: self._storage.of(job, numbers) for site, numbers in dealt.items()}
        return SlotWork(order.part, stored, sizes, state)

    def _save_or_tear(self, slot: int, order: SiteOrder, came: Finished) -> None:
        """What cannot be written was not trained."""
        try:
            with troubles():
                self._save(slot, order, came)
        except TroubleError as error:
            self._tear(slot, order.job.id, error)

    def _tear(self, slot: int, job: str, error: TroubleError) -> None:
        why, out_of_memory = str(error), error.out_of_memory
        self._say("torn", job=job, slot=slot, why=why, out_of_memory=out_of_memory)

    def _save(self, slot: int, order: SiteOrder, came: Finished) -> None:
        job, data, result = order.job.id, self._data[order.job.id], came.result
        self._checkpoints.write(job, result.state, order.steps)
        data.maker.set_weights(result.state.weights)
        test_loss, accuracy = (None, None) if data.test is None else data.maker.evaluate(data.test)
        trained = [number for numbers in self._dealt(order).values() for number in numbers]
        outcome = SiteOutcome(
            before=order.steps,
            steps=result.state.steps,
            samples=sum(data.sizes(trained).values()) * order.job.epochs,
            first_loss=result.first_loss,
            loss=result.loss,
            test_loss=test_loss,
            accuracy=accuracy,
            seconds=result.seconds,
            chunks_crossed=came.chunks,
            chunk_bytes=came.num_bytes,
            parameter_bytes=result.parameter_bytes,
        )
        if order.is_last:
            write_model(self._place.model(job), data, order, outcome)
        self._place.keep(job, slot, outcome)
        self._tell(job, slot, outcome)

    def _dealt(self, order: SiteOrder) -> dict[str, list[int]]:
        """Chunks of a slot by the site that trains them."""
        taken = Counter(dict(order.taken))
        return self._data[order.job.id].by_destination(order.part, taken)

    def _tell(self, job: str, slot: int, outcome: SiteOutcome) -> None:
        plain = {name: getattr(outcome, name) for name in outcome.__slots__}
        self._say("trained", job=job, slot=slot, outcome=plain)

    def _lose(self, site: str) -> None:
        self.lost.add(site)
        self._storage.lose(site)
        self._say("lost", site=site)


def states_of(
    orders: Iterable[SiteOrder],
    data: Mapping[str, JobData],
    checkpoints: Checkpoints,
    say: Say,
) -> dict[str, TrainingState]:
    """Where jobs go on, by job; one whose checkpoint is gone is broken, and no other with it."""
    states = {}
    for order in orders:
        job, steps = order.job.id, order.steps
        try:
            states[job] = checkpoints.read(job, steps, data[job].first_weights)
        except CheckpointError:
            # Its owner is told so, who is not to know where it lay.
            say("broken", job=job, why=f"its checkpoint of {steps} steps is gone, or damaged")
    return states


def write_model(folder: Path, data: JobData, order: SiteOrder, outcome: SiteOutcome) -> None:
    """Write what a job came to: weights by the names of its model's parameters, and a receipt."""
    from safetensors.numpy import save

    folder.mkdir(parents=True, exist_ok=True)
    terms, shape = order.terms, data.shape
    receipt: dict[str, Any] = {
        "job": order.job.id,
        "model": terms.model,
        "image": list(shape.image),
        "classes": shape.num_classes,
        "epochs": order.job.epochs,
        "samples": sum(len(chunk) for chunk in data.chunks),
        "chunks": dict(order.job.chunks),
        "batch_size": terms.batch_size,
        "learning_rate": terms.learning_rate,
        "momentum": terms.momentum,
        "seed": terms.seed,
        "steps": outcome.steps,
        "loss": outcome.loss,
        "validation_loss": outcome.test_loss,
        "validation_accuracy": outcome.accuracy,
    }
    weights = save(data.maker.named_weights(), {"format": "pt", "model": terms.model})
    write_atomically(folder / "model.safetensors", weights)
    write_atomically(folder / "receipt.json", json.dumps(receipt, indent=2).encode() + b"\n")
