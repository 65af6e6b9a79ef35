"""An edge zone's decisions: bids, quotes, slots, lost sites; what the actor's thread runs.

Each method leaves the zone whole, and notes what happened for the log (`take_events`).
"""

from typing import Any

from auctune.edge import EdgeJob, EdgeMenuLine, Eris
from auctune.run.edge.plain import job_record
from auctune.service.jobs.idempotency import idempotency_record
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.read_model import JobReadModel
from auctune.service.zones.core.zone import EventWriter, SlottedZone
from auctune.service.zones.edge import replanning
from auctune.service.zones.edge.bid import EdgeBid, MenuRequest
from auctune.service.zones.edge.decision import EdgeOutcome, accept_line, answer_record, decide
from auctune.service.zones.edge.job import EdgeJobState
from auctune.service.zones.edge.projection import PROJECTION, size_record
from auctune.service.zones.edge.state import EdgeModel, EdgeState
from auctune.service.zones.edge.supply import EdgeSupply


class EdgeZone(SlottedZone[EdgeJobState, EdgeBid]):
    """One zone, at its newest slot.

    Args:
        name: of the zone.
        supply: what it offers.
        memory: state and mechanism, as they stand.
        recorder: hands out numbers of events.
    """

    def __init__(
        self, name: str, supply: EdgeSupply, memory: EdgeModel, recorder: EventWriter
    ) -> None:
        super().__init__(name, supply.clock, memory, recorder)
        self.supply = supply
        self.memory = memory
        self.state: EdgeState = memory.state

    @property
    def eris(self) -> Eris:
        """The mechanism: asked here, and changed by events alone."""
        return self.memory.mechanism

    def uses_file(self, file: str) -> bool:
        """Whether a job that is not over needs a file, at whatever site."""
        requests = [one.request for one in self.pending_jobs.values()]
        requests += [job.request for job in self.admitted_jobs.values()]
        return super().uses_file(file) or any(file in one["sites"].values() for one in requests)

    def begin_slot(self, slot: int) -> None:
        """Note it."""
        self.record(EventType.SLOT_BEGAN, None, {"slot": slot})

    def decide(self, bid: EdgeBid) -> JobReadModel:
        """Decide on a bid, at once and for good; the job as it stands then.

        Raises:
            InputError: if it is no bid that this zone can decide on; nothing has happened then.
        """
        self.begin_slots()
        return self._decided(bid, self._body(bid))

    def preview(self, bid: EdgeBid) -> JobReadModel:
        """What `decide` would answer; nothing happens."""
        self.begin_slots()
        return PROJECTION.preview(self.name, self.clock.now(), bid.job, self._body(bid))

    def question(self, bid: EdgeBid) -> MenuRequest:
        """What a quote up to the deadline asks.

        Raises:
            InputError: as `decide`.
        """
        self.begin_slots()
        job, last = self.supply.job(bid, self.state.slot)
        return MenuRequest(self.eris.copy(), job, self.state.slot, last)

    def accept(self, bid: EdgeBid, line: EdgeMenuLine) -> JobReadModel | None:
        """Run and charge a line of an earlier menu as shown; none if that is not possible now."""
        self.begin_slots()
        if line.plan.slots[0].slot <= self.state.slot:
            return None
        job, last = self.supply.job(bid, self.state.slot)
        found = accept_line(self.eris, job, line, self.state.slot, bid.left())
        return None if found is None else self._decided(bid, self._words(bid, job, last, found))

    def pause(self, job: str) -> None:
        """Give a job's slots to come back, until it is resumed.

        Raises:
            InputError: if it is over, or paused already.
        """
        self.begin_slots()
        replanning.pause(self, job)

    def resume(self, job: str) -> bool:
        """Find a paused job a new plan at no charge; whether there was any.

        Raises:
            InputError: if it is over, or not paused.
        """
        self.begin_slots()
        return replanning.resume(self, job)

    def _decided(self, bid: EdgeBid, body: dict[str, Any]) -> JobReadModel:
        self.record(EventType.DECIDED, bid.job, body | {"reply": idempotency_record(bid.reply)})
        return self._latest_row()

    def _body(self, bid: EdgeBid) -> dict[str, Any]:
        slot = self.state.slot
        job, last = self.supply.job(bid, slot)
        found = decide(self.eris, job, last, slot, bid.left())
        return self._words(bid, job, last, found)

    def _words(self, bid: EdgeBid, job: EdgeJob, last: int, found: EdgeOutcome) -> dict[str, Any]:
        """The body of a decision: all that it was made of."""
        return {
            "owner": bid.owner,
            "request": bid.request,
            "training": bid.training.to_record(),
            "size": size_record(bid.facts),
            "facts": bid.facts.to_record(),
            "job": job_record(job),
            "last": last,
            **answer_record(found),
        }
