"""State of a spot zone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from auctune.service.ledger import instance_cost
from auctune.service.storage.events import ZoneEvent, job_of
from auctune.service.storage.read_model import Effects
from auctune.service.zones.core.events import EventData, JobFailed, JobPaused
from auctune.service.zones.core.job import PendingJob, Phase, Progress
from auctune.service.zones.core.metered import Meter
from auctune.service.zones.core.state import Reducer, SlottedState, ZoneModel
from auctune.service.zones.spot.events import (
    ProcessReady,
    RunEventRecorded,
    SpotDecided,
    SpotMetered,
    SpotSlotStarted,
    SpotTrained,
    TrainingCompleted,
)
from auctune.service.zones.spot.job import CAP_REACHED, KEPT_JOBS, SpotJobState
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
class SpotState(SlottedState[SpotJobState]):
    """State of a spot zone.

    Attributes:
        slots: the newest slots, by number.
        starts: seconds that the newest processes took to start, the oldest first.
        speeds: of the newest jobs, the oldest first: work done relative to what their instances'
            profile promised. Jobs that reached their cap count too: slow ones do not finish.
    """

    projection: ClassVar[SpotProjection] = SpotProjection()

    jobs: dict[str, SpotJobState] = field(default_factory=dict)
    slots: dict[int, SlotStats] = field(default_factory=dict)
    starts: list[float] = field(default_factory=list)
    speeds: list[float] = field(default_factory=list)

    def admit(self, event: ZoneEvent, data: SpotDecided, pending: PendingJob) -> SpotJobState:
        inputs = data.estimate_inputs
        job = SpotJobState(
            **vars(pending),
            size=data.size,
            first=data.first,
            terms=data.terms,
            speed=1.0 if inputs is None else inputs.pace.speed,
            policy=data.renting["policy"],
            forecast=data.renting["forecast"],
            unit_cost=data.unit_cost,
            unit_price=data.unit_price,
            decision=data.decision,
            worth=data.worth,
            meter=Meter(pending.owner, data.held),
        )
        job.progress = Progress(total_rows=job.total_rows)
        return job

    def _began(self, _event: ZoneEvent, data: SpotSlotStarted) -> Effects:  # type: ignore[override]
        self.slot = data.slot
        self.slots[self.slot] = SlotStats(self.slot, data.price, data.available)
        while len(self.slots) > MAX_SLOTS:
            del self.slots[next(iter(self.slots))]
        return Effects()

    def _metered(self, event: ZoneEvent, data: SpotMetered) -> Effects:
        job = self.jobs[job_of(event)]
        entries = job.meter.charge(data.slot, data.amount)
        job.count_instances(data.on_demand, data.spot, data.share, data.preempted)
        stats = self.slots.get(data.at)
        if stats is not None:
            stats.on_demand += data.on_demand
            stats.spot += data.spot
        paid = instance_cost(event.zone, data.cost)
        return Effects((self.projection.open(event, job),), entries + paid)

    def _trained(self, event: ZoneEvent, data: SpotTrained) -> Effects:
        job = self.jobs[job_of(event)]
        assert data.number >= job.next_trained, data.number
        job.next_trained = data.number + 1
        job.progress = job.progress.after(data.result)
        if job.phase is Phase.PLANNED:
            job.phase = Phase.TRAINING
        entries = () if data.refund is None else job.meter.give_back(data.refund)
        return Effects((self.projection.open(event, job),), entries)

    def _paused(self, event: ZoneEvent, data: JobPaused) -> Effects:
        self.jobs[job_of(event)].was_paused = True
        return super()._paused(event, data)

    def _completed(self, event: ZoneEvent, data: TrainingCompleted) -> Effects:
        job = self.jobs[job_of(event)]
        job.phase, job.finish = Phase.TRAINED, data.finish
        self._learn_speed(job, 1.0)
        job.worth = {**job.worth, "reached": None if data.worth is None else str(data.worth)}
        if data.note:
            job.notes.append(data.note)
        return self.show(event, job)

    def _failed(self, event: ZoneEvent, data: JobFailed) -> Effects:
        job = self.jobs.get(job_of(event))
        if job is not None and data.code == CAP_REACHED:
            rows, epochs = job.progress.rows, job.training.epochs
            self._learn_speed(job, job.size.share_of(rows, epochs))
        return super()._failed(event, data)

    def _ready(self, _event: ZoneEvent, data: ProcessReady) -> Effects:
        self.starts = [*self.starts, data.seconds][-KEPT_JOBS:]
        return Effects()

    def _run_event(self, _event: ZoneEvent, _data: RunEventRecorded) -> Effects:
        return Effects()

    def _learn_speed(self, job: SpotJobState, done: float) -> None:
        speed = job.speed_seen(done)
        if speed is not None:
            self.speeds = [*self.speeds, speed][-KEPT_JOBS:]

    reducers: ClassVar[Mapping[type[EventData], Reducer]] = {
        **SlottedState.reducers,
        SpotSlotStarted: _began,
        SpotDecided: SlottedState._decided,
        SpotMetered: _metered,
        SpotTrained: _trained,
        JobFailed: _failed,
        JobPaused: _paused,
        ProcessReady: _ready,
        RunEventRecorded: _run_event,
        TrainingCompleted: _completed,
    }


SpotModel = ZoneModel[SpotState, None]


def empty_model(_opened: Mapping[str, Any]) -> SpotModel:
    """Return the model of a zone without jobs."""
    return ZoneModel(SpotState(), None)
