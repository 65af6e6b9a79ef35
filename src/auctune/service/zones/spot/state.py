"""State of a spot zone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from auctune.domain import Money
from auctune.domain.data_size import DataSize
from auctune.run.rental.order import JobTerms
from auctune.service.ledger import instance_cost
from auctune.service.zones.core.events import EventType, ZoneEvent, adapter, job_of
from auctune.service.zones.core.job import PendingJob, Phase, Progress
from auctune.service.zones.core.metered import Meter, MeteredEventType
from auctune.service.zones.core.read_model import Effects
from auctune.service.zones.core.state import JOB_REDUCERS, Reducer, ZoneModel, ZoneState
from auctune.service.zones.spot.bid import EstimateInputs
from auctune.service.zones.spot.job import CAP_REACHED, KEPT_JOBS, SpotEventType, SpotJobState
from auctune.service.zones.spot.projection import SpotProjection

MAX_SLOTS = 512


@dataclass
class SlotStats:
    """Market and use of one slot, for operators.

    Attributes:
        slot: number.
        price: of a spot instance when it began, relative to the on-demand price.
        available: spot instances per job when it began.
        on_demand, spot: instances held in it, over all jobs.
    """

    slot: int
    price: float
    available: int
    on_demand: int = 0
    spot: int = 0


@dataclass(kw_only=True)
class SpotState(ZoneState[SpotJobState]):
    """State of a spot zone.

    Attributes:
        slot: the newest slot that began; -1 before the first.
        slots: the newest slots, by number.
        starts: seconds that the newest processes took to start, the oldest first.
        speeds: of the newest jobs, the oldest first: work done relative to what their instances'
            profile promised. Jobs that reached their cap count too: slow ones do not finish.
    """

    projection: ClassVar[SpotProjection] = SpotProjection()

    jobs: dict[str, SpotJobState] = field(default_factory=dict)
    slot: int = -1
    slots: dict[int, SlotStats] = field(default_factory=dict)
    starts: list[float] = field(default_factory=list)
    speeds: list[float] = field(default_factory=list)

    def admit(self, event: ZoneEvent, pending: PendingJob) -> SpotJobState:
        body = event.body
        job = SpotJobState(
            **vars(pending),
            size=DataSize.from_record(body["size"]),
            first=body["first"],
            terms=adapter(JobTerms).validate_python(body["terms"]),
            speed=adapter(EstimateInputs).validate_python(body["estimated"]).pace.speed,
            policy=body["renting"]["policy"],
            forecast=body["renting"]["forecast"],
            unit_cost=body["unit_cost"],
            unit_price=body["unit_price"],
            decision=body["decision"],
            worth=body["worth"],
            meter=Meter(pending.owner, Money(body["held"])),
        )
        job.progress = Progress(total_rows=job.total_rows)
        return job

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
        return Effects((self.projection.open(event, job),), entries + paid)

    def _trained(self, event: ZoneEvent) -> Effects:
        job, body = self.jobs[job_of(event)], event.body
        assert body["number"] >= job.next_trained, body["number"]
        job.next_trained = body["number"] + 1
        job.progress = job.progress.after(body["result"])
        if job.phase is Phase.PLANNED:
            job.phase = Phase.TRAINING
        return self.show(event, job)

    def _ended(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.phase, job.finish = Phase.TRAINED, event.body["finish"]
        self._learn_speed(job, 1.0)
        job.worth = {**job.worth, "reached": event.body["worth"]}
        if event.body["note"]:
            job.notes.append(event.body["note"])
        return self.show(event, job)

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

    def _resumed(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.continue_phase(has_trained=bool(job.progress.rows))
        return self.show(event, job)

    reducers: ClassVar[Mapping[str, Reducer]] = {
        **JOB_REDUCERS,
        EventType.SLOT_BEGAN: _began,
        MeteredEventType.METERED: _metered,
        EventType.TRAINED: _trained,
        EventType.FAILED: _failed,
        SpotEventType.READY: _ready,
        SpotEventType.ENDED: _ended,
        EventType.RESUMED: _resumed,
    }


SpotModel = ZoneModel[SpotState, None]


def empty_model(_opened: Mapping[str, Any]) -> SpotModel:
    """Return the model of a zone without jobs."""
    return ZoneModel(SpotState(), None)
