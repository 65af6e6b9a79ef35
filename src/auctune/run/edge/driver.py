"""The driver: slot by slot it answers bids, trains what was planned, and saves.

A decision is on record before anything is placed by it, and a slot's checkpoint before the record
that it is trained. Whoever is killed when, a run goes on in the slot that it was in, with what is
not trained of it.

A site that is lost within a slot takes the slot of all jobs that it served with it: they are
planned anew for what is left, that slot's chunks too, from the next slot on, or refunded.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from auctune.atomic_files import write_atomically
from auctune.domain import InputError
from auctune.edge.decision import EdgeCommitment, EdgeReplanned
from auctune.edge.eris import Eris
from auctune.run.edge.checkpoints import Checkpoints
from auctune.run.edge.crew import Crew, SlotWork
from auctune.run.edge.crews import Broken, Crews, Finished, Torn, sites_alive
from auctune.run.edge.errors import EdgeRunError
from auctune.run.edge.folder import EdgeFolder
from auctune.run.edge.inputs import EdgeRunInputs
from auctune.run.edge.job_data import JobData
from auctune.run.edge.listener import EdgeListener
from auctune.run.edge.records import offered_event, site_lost_event, trained_event
from auctune.run.edge.resources import gpus_wanted
from auctune.run.edge.state import VERSION, EdgeRunState, JobRecord, SlotOutcome, without
from auctune.run.edge.storage import Storage
from auctune.run.event_log import EventLog


@dataclass(frozen=True, slots=True)
class Parts:
    """What a driver works with.

    Attributes:
        inputs: market, jobs, recipes.
        data: of each job.
        place: the run's folder.
        journal: open.
        listener: told of everything.
    """

    inputs: EdgeRunInputs
    data: Mapping[str, JobData]
    place: EdgeFolder
    journal: EventLog
    listener: EdgeListener


class EdgeDriver:
    """One run, new or resumed, on a Ray cluster to which this process is connected.

    Attributes:
        state: what it has come to.

    Raises:
        InputError: if the cluster lacks a site.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts, self._inputs = parts, parts.inputs
        self._market = parts.inputs.instance.market
        self._eris = Eris(self._market, parts.inputs.params)
        self.state = EdgeRunState(parts.inputs.instance, self._eris)
        self.state.replay(parts.journal.events)
        self._checkpoints = Checkpoints(parts.place)
        self._storage = Storage()
        self._data = parts.data
        self._found_lost: list[str] = []
        there = {site for site in self._market.site_ids if site not in self.state.lost}
        for site in sorted(there - sites_alive()):
            raise InputError("--ray", f"has no node of site {site!r}", "a node for each site")
        if not parts.journal.events:
            parts.journal.append({"type": "begun", "version": VERSION})
        for site in self.state.lost:
            self._storage.lose(site)
        self._crews = Crews(there, self._lose, self._went_on)
        self._sizes: dict[str, int] = {}

    def run(self) -> None:
        """Run what is left, to the end.

        Raises:
            EdgeRunError: if a job cannot be trained.
            CheckpointError: if a checkpoint is gone.
        """
        try:
            while self._goes_on():
                self._run_slot(self.state.slot)
            if not self.state.ended:
                self._note({"type": "ended"})
        finally:
            self._crews.close()

    def _goes_on(self) -> bool:
        if self.state.slot >= self._market.slots:
            return False
        to_come = len(self.state.jobs) < len(self._inputs.instance.jobs)
        return to_come or any(record.is_running for record in self.state.jobs.values())

    def _run_slot(self, slot: int) -> None:
        self._crews.look()
        if not any(slot in record.trained for record in self.state.jobs.values()):
            # Of a slot that was begun before, what is trained stands: the rest is torn, and planned
            # anew at its end.
            self._settle(slot, set())
        self._answer(slot)
        records = [record for record in self.state.jobs.values() if record.part(slot) is not None]
        self._parts.listener.slot_begun(slot, records)
        torn: set[str] = set()
        for record in records:
            self._prepare(record)
        for came in self._crews.run(lambda job: self._work(job, slot), [r.job.id for r in records]):
            match came:
                case Finished():
                    self._save(came, slot)
                case Torn(failed=False):
                    torn.add(came.job)
                case Torn():
                    raise EdgeRunError(f"job {came.job}: {came.why}")
                case Broken():
                    raise EdgeRunError(f"job {came.job} failed again and again: {came.why}")
        self._settle(slot + 1, torn)
        self._note({"type": "slot_done", "slot": slot})
        self._parts.listener.slot_done(slot)

    def _answer(self, slot: int) -> None:
        """Decide on the bids of a slot that have no answer yet."""
        for job in self._inputs.instance.in_order():
            if job.arrival == slot and job.id not in self.state.jobs:
                self._note(offered_event(slot, job.id, self._eris.offer(job, slot)))
                self._parts.listener.offered(self.state.jobs[job.id])

    def _prepare(self, record: JobRecord) -> None:
        """Place a job's data, and have a crew for it."""
        job, data = record.job, self._data[record.job.id]
        self._storage.place(job.id, list(job.chunks), data)
        if job.id not in self._crews.crews:
            device = self._inputs.device
            num_gpus = gpus_wanted(device, job.worker) if self._inputs.ray else 0.0
            self._crews.crews[job.id] = Crew(job, data.recipe, data.shape, device, num_gpus)

    def _work(self, job: str, slot: int) -> SlotWork:
        record, data = self.state.jobs[job], self._data[job]
        part = record.part(slot)
        assert part is not None
        dealt = data.by_destination(part, record.taken(slot))
        sizes = data.sizes([number for numbers in dealt.values() for number in numbers])
        self._sizes[job] = sum(sizes.values()) * record.job.epochs
        stored = {site: self._storage.of(job, numbers) for site, numbers in dealt.items()}
        state = self._checkpoints.read(job, _steps(record), data.first_weights)
        return SlotWork(part, stored, sizes, state)

    def _save(self, came: Finished, slot: int) -> None:
        """Write a checkpoint, then put on record that the slot is trained."""
        record, data, result = self.state.jobs[came.job], self._data[came.job], came.result
        part = record.part(slot)
        assert part is not None
        assert record.plan is not None
        self._checkpoints.write(came.job, result.state, _steps(record))
        data.maker.set_weights(result.state.weights)
        assert data.test is not None
        test_loss, accuracy = data.maker.evaluate(data.test)
        outcome = SlotOutcome(
            steps=result.state.steps,
            loss=result.loss,
            test_loss=test_loss,
            accuracy=accuracy,
            seconds=result.seconds,
            chunks_crossed=came.chunks,
            workers_away=sum(n for site, n in part.workers.items() if site != part.server),
            chunk_bytes=came.num_bytes,
            parameter_bytes=result.parameter_bytes,
        )
        if {one.slot for one in record.plan.slots} <= {*record.trained, slot}:
            self._hand_out(came.job)
        self._note(trained_event(slot, came.job, outcome))
        self._parts.listener.trained(record, slot)
        if record.is_done:
            self._storage.drop(came.job)

    def _hand_out(self, job: str) -> None:
        """Write what a job came to, by the names of its model's parameters."""
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **self._data[job].maker.named_weights())
        path = self._parts.place.weights(job)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, file.getvalue())

    def _lose(self, site: str) -> None:
        """A site is gone: its chunks are lent at once, its jobs wait for the end of the slot."""
        self._storage.lose(site)
        self._found_lost.append(site)
        self._parts.listener.noted(f"site {site} is gone")

    def _settle(self, now: int, torn: set[str]) -> None:
        """Plan anew what sites that are gone were to run from slot `now` on, and what was torn."""
        while self._found_lost:
            site = self._found_lost.pop(0)
            running = [
                EdgeCommitment(one.job, without(one.plan, now - 1)) if one.job.id in torn else one
                for one in self.state.commitments()
            ]
            found = self._replan(site, now, running)
            self._note(site_lost_event(site, now, found, torn))
            torn = set()
            hit = [self.state.jobs[one.job.id] for one in found]
            for record in hit:
                if record.refunded:
                    self._storage.drop(record.job.id)
            self._parts.listener.site_lost(site, hit)

    def _replan(self, site: str, now: int, running: list[EdgeCommitment]) -> list[EdgeReplanned]:
        if now < self._market.slots:
            return self._eris.lose_site(site, now, running)
        # The market is over: what is not trained is refunded.
        return [
            EdgeReplanned(one.job, now, one.plan.since(now), None)
            for one in running
            if sum(part.chunks for part in one.plan.slots) < one.job.num_chunks
        ]

    def _went_on(self, done: Mapping[str, int]) -> None:
        shares = {job: samples / self._sizes[job] for job, samples in done.items()}
        self._parts.listener.went_on(shares)

    def _note(self, event: dict[str, object]) -> None:
        """Put an event on record, then act on it."""
        self._parts.journal.append(event)
        self.state.apply(event)


def _steps(record: JobRecord) -> int:
    return max((outcome.steps for outcome in record.trained.values()), default=0)
