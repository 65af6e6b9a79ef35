"""What a rented zone has come to: a fold over its events."""

from collections.abc import Callable
from dataclasses import dataclass, field

from auctune.domain import Money
from auctune.domain.data_size import DataSize
from auctune.run.rental.order import JobTerms
from auctune.service.ledger import Entry, instance_cost
from auctune.service.zones.core.events import EventType, ZoneEvent, job_of
from auctune.service.zones.core.job import PendingJob, Phase, Progress
from auctune.service.zones.core.metered import Meter, MeteredEventType
from auctune.service.zones.core.read_model import Effects
from auctune.service.zones.core.state import JOB_REDUCERS, ZoneState, reduce
from auctune.service.zones.spot.bid import EstimateInputs
from auctune.service.zones.spot.job import CAP_REACHED, KEPT_JOBS, SpotEventType, SpotJobState
from auctune.service.zones.spot.projection import PROJECTION, SpotProjection

MAX_SLOTS = 512


@dataclass
class SlotStats:
    """A slot of the zone, for operators.

    Attributes:
        slot: its number.
        price: of a spot instance as it began, in units of the on-demand price.
        available: spot instances as it began, for each job.
        on_demand, spot: held in it, over all jobs.
    """

    slot: int
    price: float
    available: int
    on_demand: int = 0
    spot: int = 0


@dataclass
class SpotState(ZoneState[SpotJobState]):
    """Open jobs of a zone, and its newest slots.

    Attributes:
        slot: the newest slot that began; -1 before the first.
        slots: the newest ones that began, by number.
        starts: seconds that the newest processes took to start, the oldest first.
        speeds: of the newest jobs, likewise: work done, over what their instances' profile
            promised. Jobs that their cap ended count too: slow ones do not reach their end.
    """

    slot: int = -1
    slots: dict[int, SlotStats] = field(default_factory=dict)
    starts: list[float] = field(default_factory=list)
    speeds: list[float] = field(default_factory=list)

    def apply(self, event: ZoneEvent) -> Effects:
        """Take over what happened."""
        return reduce(_HANDLERS, self, event)

    @property
    def rows(self) -> SpotProjection:
        """Makes rows of its jobs."""
        return PROJECTION

    def admit(self, event: ZoneEvent, asked: PendingJob) -> SpotJobState:
        """A job that an event admits."""
        body = event.body
        job = SpotJobState(
            **vars(asked),
            size=DataSize.from_record(body["size"]),
            first=body["first"],
            terms=JobTerms.from_record(body["terms"]),
            speed=EstimateInputs.from_record(body["estimated"]).pace.speed,
            policy=body["renting"]["policy"],
            forecast=body["renting"]["forecast"],
            unit_cost=body["unit_cost"],
            unit_price=body["unit_price"],
            decision=body["decision"],
            worth=body["worth"],
            meter=Meter(asked.owner, Money(body["held"])),
        )
        job.progress = Progress(total_rows=job.total_rows)
        return job

    def admission_entries(self, job: SpotJobState) -> tuple[Entry, ...]:
        """Its cap is set aside."""
        return job.meter.begin()

    def settlement_entries(self, job: SpotJobState, *, refunded: bool) -> tuple[Entry, ...]:
        """What was not used is released, and what was may be refunded."""
        return job.meter.end(refunded=refunded)

    def _began(self, event: ZoneEvent) -> Effects:
        body = event.body
        self.slot = body["slot"]
        self.slots[self.slot] = SlotStats(self.slot, body["price"], body["available"])
        while len(self.slots) > MAX_SLOTS:
            del self.slots[next(iter(self.slots))]
        return Effects()

    def _metered(self, event: ZoneEvent) -> Effects:
        job, body = self.jobs[job_of(event)], event.body
        entries = job.meter.charge(body["slot"], Money(body["amount"]))
        job.hold(body["on_demand"] + body["spot"], body["share"])
        seen = self.slots.get(body["at"])
        if seen is not None:
            seen.on_demand += body["on_demand"]
            seen.spot += body["spot"]
        paid = instance_cost(event.zone, Money(body["cost"]))
        return Effects((self.rows.open(event, job),), entries + paid)

    def _trained(self, event: ZoneEvent) -> Effects:
        job, body = self.jobs[job_of(event)], event.body
        assert body["number"] >= job.next_trained, body["number"]
        job.next_trained = body["number"] + 1
        job.progress = job.progress.after(body["result"])
        if job.phase is Phase.PLANNED:
            job.phase = Phase.TRAINING
        return Effects((self.rows.open(event, job),))

    def _ended(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.phase, job.finish = Phase.TRAINED, event.body["finish"]
        self._learn_speed(job, 1.0)
        job.worth = {**job.worth, "reached": event.body["worth"]}
        if event.body["note"]:
            job.notes.append(event.body["note"])
        return Effects((self.rows.open(event, job),))

    def _failed(self, event: ZoneEvent) -> Effects:
        job = self.jobs.get(job_of(event))
        if job is not None and event.body["code"] == CAP_REACHED:
            self._learn_speed(job, job.progress.rows / job.total_rows)
        return super()._failed(event)

    def _ready(self, event: ZoneEvent) -> Effects:
        self.starts = [*self.starts, event.body["seconds"]][-KEPT_JOBS:]
        return Effects()

    def _learn_speed(self, job: SpotJobState, done: float) -> None:
        speed = job.speed_seen(done)
        if speed is not None:
            self.speeds = [*self.speeds, speed][-KEPT_JOBS:]

    def _paused(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.phase = Phase.PAUSED
        return Effects((self.rows.open(event, job),))

    def _resumed(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.phase = Phase.TRAINING if job.progress.rows else Phase.PLANNED
        return Effects((self.rows.open(event, job),))


_HANDLERS: dict[str, Callable[[SpotState, ZoneEvent], Effects]] = {
    **JOB_REDUCERS,
    EventType.SLOT_BEGAN: SpotState._began,
    MeteredEventType.METERED: SpotState._metered,
    EventType.TRAINED: SpotState._trained,
    EventType.FAILED: SpotState._failed,
    SpotEventType.READY: SpotState._ready,
    SpotEventType.ENDED: SpotState._ended,
    EventType.PAUSED: SpotState._paused,
    EventType.RESUMED: SpotState._resumed,
}
