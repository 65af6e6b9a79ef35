"""What a rented zone has come to: a fold over its events."""

from collections.abc import Callable
from dataclasses import dataclass, field

from auctune.domain import Money
from auctune.run.rental.order import JobTerms
from auctune.service.jobs.size import DataSize
from auctune.service.jobs.training import Training
from auctune.service.ledger.entry import rent
from auctune.service.zones.change import Change
from auctune.service.zones.event import Kind, ZoneEvent
from auctune.service.zones.fold import apply
from auctune.service.zones.job_row import Status
from auctune.service.zones.metered.event import MeteredKind
from auctune.service.zones.metered.meter import Meter
from auctune.service.zones.metered.progress import Progress
from auctune.service.zones.received import Received, receive
from auctune.service.zones.spot.event import SpotKind
from auctune.service.zones.spot.job_rows import closed_row, nothing_own, open_row
from auctune.service.zones.spot.rented_job import Phase, RentedJob

KEPT_SLOTS = 512


@dataclass
class SlotSeen:
    """A slot of the zone, for operators.

    Attributes:
        slot: its number.
        price: of a spot instance, in units of the on-demand price.
        available: spot instances.
        on_demand, spot: held in it, over all jobs.
    """

    slot: int
    price: float
    available: int
    on_demand: int = 0
    spot: int = 0


@dataclass
class SpotState:
    """Open jobs of a zone, and its newest slots.

    Attributes:
        seq: of the newest event applied.
        slot: the newest slot that began; -1 before the first.
        received: jobs that wait for a decision, by id.
        jobs: admitted jobs that are not over, by id.
        slots: the newest ones that began, by number.
    """

    seq: int = 0
    slot: int = -1
    received: dict[str, Received] = field(default_factory=dict)
    jobs: dict[str, RentedJob] = field(default_factory=dict)
    slots: dict[int, SlotSeen] = field(default_factory=dict)

    def apply(self, event: ZoneEvent) -> Change:
        """Take over what happened."""
        return apply(_HANDLERS, self, event)

    def _began(self, event: ZoneEvent) -> Change:
        body = event.body
        self.slot = body["slot"]
        self.slots[self.slot] = SlotSeen(self.slot, body["price"], body["available"])
        while len(self.slots) > KEPT_SLOTS:
            del self.slots[next(iter(self.slots))]
        return Change()

    def _received(self, event: ZoneEvent) -> Change:
        return receive(self.received, event, nothing_own())

    def _decided(self, event: ZoneEvent) -> Change:
        body = event.body
        waiting = self.received.pop(_id(event), None)
        seq = event.seq if waiting is None else waiting.seq
        created_at = event.at if waiting is None else waiting.created_at
        if not body["decision"]["admitted"]:
            return Change((closed_row(event, seq, created_at, Status.FAILED, None),))
        job = RentedJob(
            id=_id(event),
            seq=seq,
            owner=body["owner"],
            training=Training.from_record(body["training"]),
            size=DataSize(**body["size"]),
            created_at=created_at,
            request=body["request"],
            first=body["first"],
            terms=JobTerms.from_record(body["terms"]),
            policy=body["renting"]["policy"],
            forecast=body["renting"]["forecast"],
            unit_cost=body["unit_cost"],
            unit_price=body["unit_price"],
            decision=body["decision"],
            worth=body["worth"],
            meter=Meter(body["owner"], Money(body["held"])),
        )
        job.progress = Progress(total_rows=job.total_rows)
        self.jobs[job.id] = job
        return Change((open_row(job, event),), job.meter.begin())

    def _metered(self, event: ZoneEvent) -> Change:
        job, body = self.jobs[_id(event)], event.body
        entries = job.meter.charge(body["slot"], Money(body["amount"]))
        seen = self.slots.get(body["at"])
        if seen is not None:
            seen.on_demand += body["on_demand"]
            seen.spot += body["spot"]
        paid = rent(event.zone, Money(body["cost"]))
        return Change((open_row(job, event),), entries + paid)

    def _trained(self, event: ZoneEvent) -> Change:
        job, body = self.jobs[_id(event)], event.body
        assert body["number"] >= job.next_trained, body["number"]
        job.next_trained = body["number"] + 1
        job.progress = job.progress.after(body["result"])
        if job.phase is Phase.PLANNED:
            job.phase = Phase.TRAINING
        return Change((open_row(job, event),))

    def _ended(self, event: ZoneEvent) -> Change:
        job = self.jobs[_id(event)]
        job.phase, job.finish = Phase.TRAINED, event.body["finish"]
        job.worth = {**job.worth, "reached": event.body["worth"]}
        if event.body["note"]:
            job.notes.append(event.body["note"])
        return Change((open_row(job, event),))

    def _paused(self, event: ZoneEvent) -> Change:
        job = self.jobs[_id(event)]
        job.phase = Phase.PAUSED
        return Change((open_row(job, event),))

    def _resumed(self, event: ZoneEvent) -> Change:
        job = self.jobs[_id(event)]
        job.phase = Phase.TRAINING if job.progress.rows else Phase.PLANNED
        return Change((open_row(job, event),))

    def _noted(self, event: ZoneEvent) -> Change:
        job = self.jobs[_id(event)]
        job.notes.append(event.body["text"])
        return Change((open_row(job, event),))

    def _cancelled(self, event: ZoneEvent) -> Change:
        return self._close(event, Status.CANCELLED, refunded=False)

    def _finished(self, event: ZoneEvent) -> Change:
        return self._close(event, Status.SUCCEEDED, refunded=False)

    def _failed(self, event: ZoneEvent) -> Change:
        return self._close(event, Status.FAILED, refunded=event.body["refund"])

    def _close(self, event: ZoneEvent, status: Status, *, refunded: bool) -> Change:
        waiting = self.received.pop(_id(event), None)
        if waiting is not None:
            return Change((closed_row(event, waiting.seq, waiting.created_at, status, waiting),))
        job = self.jobs.pop(_id(event))
        entries = job.meter.end(refunded=refunded)
        return Change((closed_row(event, job.seq, job.created_at, status, job),), entries)


def _id(event: ZoneEvent) -> str:
    assert event.job is not None
    return event.job


_HANDLERS: dict[str, Callable[[SpotState, ZoneEvent], Change]] = {
    Kind.SLOT_BEGAN: SpotState._began,
    Kind.RECEIVED: SpotState._received,
    Kind.DECIDED: SpotState._decided,
    MeteredKind.METERED: SpotState._metered,
    Kind.TRAINED: SpotState._trained,
    SpotKind.ENDED: SpotState._ended,
    Kind.PAUSED: SpotState._paused,
    Kind.RESUMED: SpotState._resumed,
    Kind.JOB_NOTED: SpotState._noted,
    Kind.CANCELLED: SpotState._cancelled,
    Kind.FINISHED: SpotState._finished,
    Kind.FAILED: SpotState._failed,
}
