"""Commands of an edge zone."""

from auctune.edge import EdgeJob, EdgeMenuLine
from auctune.service.zones.core.events import SlotStarted
from auctune.service.zones.core.read_model import JobReadModel
from auctune.service.zones.core.zone import EventWriter, SlottedZone
from auctune.service.zones.edge import replanning
from auctune.service.zones.edge.decision import EdgeOutcome, accept_line, decide, outcome_fields
from auctune.service.zones.edge.events import EdgeDecided
from auctune.service.zones.edge.job import EdgeJobState
from auctune.service.zones.edge.projection import size_record
from auctune.service.zones.edge.state import EdgeModel
from auctune.service.zones.edge.supply import EdgeBid, EdgeSupply, MenuRequest


class EdgeZone(SlottedZone[EdgeJobState, EdgeBid]):
    """One zone, at its newest slot. Its mechanism is changed by recorded events only.

    Args:
        name: of the zone.
        supply: what it sells.
        model: state and mechanism.
        writer: numbers events.
    """

    def __init__(
        self, name: str, supply: EdgeSupply, model: EdgeModel, writer: EventWriter
    ) -> None:
        super().__init__(name, supply.clock, model, writer)
        self.supply = supply
        self.eris = model.mechanism
        self.state = model.state

    def uses_file(self, file: str) -> bool:
        requests = [one.request for one in self.pending_jobs.values()]
        requests += [job.request for job in self.admitted_jobs.values()]
        return super().uses_file(file) or any(file in one["sites"].values() for one in requests)

    def begin_slot(self, slot: int) -> None:
        self.record(SlotStarted(slot=slot))

    def question(self, bid: EdgeBid) -> MenuRequest:
        """Return the request for a menu up to the deadline of a bid.

        Raises:
            InputError: as `decide`.
        """
        self.begin_slots()
        job, last = self.supply.job(bid, self.state.slot)
        return MenuRequest(self.eris.copy(), job, self.state.slot, last)

    def accept(self, bid: EdgeBid, line: EdgeMenuLine) -> JobReadModel | None:
        """Admit a line of an earlier menu at its price; None if that is not possible now."""
        self.begin_slots()
        if line.plan.slots[0].slot <= self.state.slot:
            return None
        job, last = self.supply.job(bid, self.state.slot)
        found = accept_line(self.eris, job, line, self.state.slot, bid.remaining_budget())
        if found is None:
            return None
        return self._decided(bid, self._decision_data(bid, job, last, found))

    def pause(self, job: str) -> None:
        self.begin_slots()
        replanning.pause(self, job)

    def resume(self, job: str) -> bool:
        self.begin_slots()
        return replanning.resume(self, job)

    def _decide(self, bid: EdgeBid) -> EdgeDecided:
        slot = self.state.slot
        job, last = self.supply.job(bid, slot)
        return self._decision_data(
            bid, job, last, decide(self.eris, job, last, slot, bid.remaining_budget())
        )

    def _decision_data(
        self, bid: EdgeBid, job: EdgeJob, last: int, found: EdgeOutcome
    ) -> EdgeDecided:
        return EdgeDecided(
            owner=bid.owner,
            request=bid.request,
            training=bid.training,
            idempotency_key=bid.idempotency_key,
            size=size_record(bid.facts),
            facts=bid.facts,
            job=job,
            deadline_slot=last,
            **outcome_fields(found),
        )
