"""Commands of an edge zone."""

from typing import Any

from pydantic_core import to_jsonable_python

from auctune.edge import EdgeJob, EdgeMenuLine
from auctune.run.edge.plain import job_record
from auctune.service.jobs.idempotency import idempotency_record
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.read_model import JobReadModel
from auctune.service.zones.core.zone import EventWriter, SlottedZone
from auctune.service.zones.edge import replanning
from auctune.service.zones.edge.bid import EdgeBid, MenuRequest
from auctune.service.zones.edge.decision import EdgeOutcome, accept_line, answer_record, decide
from auctune.service.zones.edge.job import EdgeJobState
from auctune.service.zones.edge.projection import size_record
from auctune.service.zones.edge.state import EdgeModel
from auctune.service.zones.edge.supply import EdgeSupply


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
        self.record(EventType.SLOT_BEGAN, None, {"slot": slot})

    def decide(self, bid: EdgeBid) -> JobReadModel:
        self.begin_slots()
        return self._decided(bid, self._body(bid))

    def preview(self, bid: EdgeBid) -> JobReadModel:
        self.begin_slots()
        projection = self.state.projection
        return projection.preview(self.name, self.clock.now(), bid.job, self._body(bid))

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
        found = accept_line(self.eris, job, line, self.state.slot, bid.left())
        return (
            None
            if found is None
            else self._decided(bid, self._decision_body(bid, job, last, found))
        )

    def pause(self, job: str) -> None:
        self.begin_slots()
        replanning.pause(self, job)

    def resume(self, job: str) -> bool:
        self.begin_slots()
        return replanning.resume(self, job)

    def _decided(self, bid: EdgeBid, body: dict[str, Any]) -> JobReadModel:
        self.record(EventType.DECIDED, bid.job, body | {"reply": idempotency_record(bid.reply)})
        return self._latest_row()

    def _body(self, bid: EdgeBid) -> dict[str, Any]:
        slot = self.state.slot
        job, last = self.supply.job(bid, slot)
        found = decide(self.eris, job, last, slot, bid.left())
        return self._decision_body(bid, job, last, found)

    def _decision_body(
        self, bid: EdgeBid, job: EdgeJob, last: int, found: EdgeOutcome
    ) -> dict[str, Any]:
        """Return the body of a decision's event: all that the decision was made from."""
        return {
            "owner": bid.owner,
            "request": bid.request,
            "training": to_jsonable_python(bid.training),
            "size": size_record(bid.facts),
            "facts": to_jsonable_python(bid.facts),
            "job": job_record(job),
            "last": last,
            **answer_record(found),
        }
