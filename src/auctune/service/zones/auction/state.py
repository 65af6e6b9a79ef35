"""State of an auction zone: its jobs, events, state and rows.

Cells, tasks and arrays are recorded without loss.
"""

import base64
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import PlainSerializer, PlainValidator

from auctune.domain import (
    Admission,
    Cell,
    Cluster,
    Decision,
    EnergyForecast,
    Event,
    Money,
    NodeLost,
    NodeReturned,
    Offered,
    PricesLearned,
    Reason,
    Released,
    RepeatedEnergy,
    Replanned,
    SlotAdvanced,
    Task,
    round_money,
)
from auctune.engine.records import (
    CellsField,
    DecisionField,
    ScheduleField,
)
from auctune.engine.unix_time import SlotClock
from auctune.registry.mechanisms import build
from auctune.service.datasets.repairer import Repair
from auctune.service.ledger import energy_cost, vendor_cost
from auctune.service.storage.event_log import EventType, Record, ZoneEvent, job_of
from auctune.service.storage.queries import Effects, JobReadModel
from auctune.service.zones.core.events import (
    EventData,
    JobDecided,
    JobPaused,
    JobResumed,
    JobTrained,
    Size,
    SlotStarted,
    adapter,
)
from auctune.service.zones.core.job import GivenUp, PendingJob, Phase, Progress, SlotJob
from auctune.service.zones.core.projection import (
    COMMON_MESSAGES,
    EventMessage,
    JobRow,
    PrepaidProjection,
    PrepaidRow,
    replanned_message,
)
from auctune.service.zones.core.state import Reducer, SlotJobState, ZoneModel

# What a task costs in a slot follows from the supply.
TaskField = Annotated[
    Task,
    PlainSerializer(
        lambda task: adapter(Task).dump_python(task, mode="json", exclude={"operating_cost"})
    ),
]


# The repair of a job's data: vendor, price, due slot.


def decided_repair(task: Task, decision: Decision, references: Mapping[str, str]) -> Repair | None:
    """Return the repair that is part of an admission, or None if the data are clean."""
    assert decision.schedule is not None
    vendor = decision.schedule.vendor
    for quote in task.quotes:
        if quote.vendor == vendor:
            ready = task.arrival + quote.delay
            return Repair(vendor, quote.price, ready, references.get(vendor, ""))
    return None


# The open job: what was promised, and its progress.


@dataclass(kw_only=True)
class AuctionJob(SlotJob):
    """An admitted job of an auction zone.

    Attributes:
        task: as it was offered.
        cells: its current plan, past cells included.
        repair: of its data, or None if they are clean.
        failed_repairs: those that vendors failed at before it.
        repaired: id of the repaired file, or None.
    """

    task: Task
    decision: Decision
    cells: tuple[Cell, ...]
    repair: Repair | None = None
    failed_repairs: tuple[Repair, ...] = ()
    repaired: str | None = None

    @property
    def payment(self) -> Money:
        return self.decision.payment

    @property
    def vendor(self) -> str | None:
        return None if self.repair is None else self.repair.vendor

    @property
    def needs_repair(self) -> bool:
        """Return whether its data are still to be repaired."""
        return self.repair is not None and self.repaired is None

    @property
    def work_left(self) -> float:
        """Samples still to be trained; 0 once training is over, even if it ended early."""
        if self.phase is Phase.TRAINED:
            return 0.0
        return (1 - self.size.share_of(self.progress.rows, self.training.epochs)) * self.task.work

    @property
    def failed_vendors(self) -> set[str]:
        return {repair.vendor for repair in self.failed_repairs}

    def cells_from(self, slot: int) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells if cell.slot >= slot)

    @property
    def data_ready_slot(self) -> int:
        """The first slot that its data are ready for."""
        return self.task.arrival if self.repair is None else self.repair.ready


class AuctionEventType(StrEnum):
    """Types of events of auction zones only."""

    PRICES_UPDATED = "prices.updated"
    REPAIRED = "job.repaired"
    VENDOR_CHANGED = "job.vendor_changed"
    RELEASED = "job.released"
    REPLANNED = "job.replanned"
    NODE_LOST = "node.lost"
    NODE_RETURNED = "node.returned"


def _write_array(array: Any) -> Record:
    # Compressed bytes in base 64: numbers as text would be three times as large.
    packed = zlib.compress(np.ascontiguousarray(array).tobytes(), level=1)
    return {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "data": base64.b64encode(packed).decode(),
    }


def _read_array(record: Record) -> Any:
    data = zlib.decompress(base64.b64decode(record["data"]))
    # A copy: an array over bytes is read-only.
    return np.frombuffer(data, dtype=record["dtype"]).reshape(record["shape"]).copy()


Array = Annotated[Any, PlainValidator(_read_array), PlainSerializer(_write_array)]


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Request to the mechanism for cells.

    Attributes:
        work: samples that they are to train.
        first: the first slot that they may be in.
    """

    work: float
    first: int


@dataclass(frozen=True, slots=True)
class AcceptedLine:
    """Line of a menu that its owner accepted."""

    deadline: int
    schedule: ScheduleField


@dataclass(frozen=True, slots=True, kw_only=True)
class AuctionSlotStarted(SlotStarted):
    """A slot began: `SlotAdvanced` of the mechanism.

    Attributes:
        energy_cost: by node type, of the slots that entered the horizon.
    """

    energy_cost: dict[str, list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesUpdated(EventData):
    """The mechanism updated its prices: its `PricesLearned`."""

    type = AuctionEventType.PRICES_UPDATED

    slot: int
    update: dict[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuctionDecided(JobDecided):
    """A bid was decided on: `Offered` of the mechanism.

    Attributes:
        offers: vendors' ids of their offers, by vendor.
        decision: of the mechanism, or over the budget.
        earliest: as of `earliest_feasible_slot`.
        line: of a menu, or None for a bid.
    """

    size: Size
    task: TaskField
    offers: dict[str, str] = field(default_factory=dict)
    decision: DecisionField
    budget_remaining: Money | None
    earliest: int | None
    line: AcceptedLine | None = None

    @property
    def is_admitted(self) -> bool:
        return self.decision.admitted

    @property
    def cells(self) -> tuple[Cell, ...]:
        return () if self.decision.schedule is None else self.decision.schedule.cells

    @property
    def vendor(self) -> str | None:
        return None if self.decision.schedule is None else self.decision.schedule.vendor


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRepaired(EventData):
    """A vendor delivered repaired data."""

    type = AuctionEventType.REPAIRED

    file: str
    report: Record
    size: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorChanged(EventData):
    """Another vendor repairs the data of a job, instead of the one that failed."""

    type = AuctionEventType.VENDOR_CHANGED

    failed: str
    why: str
    repair: Repair


@dataclass(frozen=True, slots=True, kw_only=True)
class CellsReleased(EventData):
    """Cells of a job were released: `Released` of the mechanism.

    Attributes:
        given_up, found: cells; none were found.
        plan: None if no cells were sought.
    """

    type = AuctionEventType.RELEASED

    given_up: CellsField
    found: CellsField = ()
    plan: PlanRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellsReplanned(EventData):
    """A job got other cells: `Replanned` of the mechanism."""

    type = AuctionEventType.REPLANNED

    given_up: CellsField
    found: CellsField
    why: str
    plan: PlanRequest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuctionPaused(JobPaused):
    """A job was paused, and released its cells; `given_up_for` is what they were worth."""

    given_up: CellsField
    found: CellsField = ()
    given_up_for: GivenUp | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuctionResumed(JobResumed):
    """A job was resumed, and got cells."""

    given_up: CellsField = ()
    found: CellsField
    plan: PlanRequest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDown(EventData):
    """A node was lost or drained by an operator: `NodeLost` of the mechanism."""

    type = AuctionEventType.NODE_LOST

    node: str
    why: str
    drained: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUp(EventData):
    """A node is sold again: `NodeReturned` of the mechanism."""

    type = AuctionEventType.NODE_RETURNED

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuctionRow(PrepaidRow):
    """Row of a job.

    Attributes:
        task: as it was offered.
        cells: the current plan.
        vendor: of the repair of its data, or None.
        repaired: id of the repaired file, or None.
    """

    decision: DecisionField | None = None
    task: TaskField | None = None
    cells: CellsField = ()
    vendor: str | None = None
    repaired: str | None = None


class AuctionProjection(PrepaidProjection[AuctionJob]):
    """Projection of an auction's jobs."""

    row: ClassVar[type[JobRow]] = AuctionRow
    reasons: ClassVar[Mapping[Reason, str]] = {
        Reason.NO_FEASIBLE_SCHEDULE: "no node could finish it by its deadline, even if all were "
        "free",
        Reason.NO_CAPACITY: "the free capacity cannot finish it by its deadline",
        Reason.UNPROFITABLE: "the bid is not above the price",
        Reason.OVER_BUDGET: "the price exceeds the remaining budget",
    }

    def __init__(self) -> None:
        self.messages = {
            **COMMON_MESSAGES,
            EventType.DECIDED: EventMessage(self.decision_message),
            AuctionEventType.REPAIRED: EventMessage(_repaired),
            AuctionEventType.VENDOR_CHANGED: EventMessage(_vendor_changed, "warn"),
            AuctionEventType.REPLANNED: EventMessage(replanned_message, "warn"),
        }

    def market(self, row: JobReadModel, clock: SlotClock) -> Record:
        body, task = row.body, row.body["task"]
        return {
            **self.market_fields(row),
            **self.price_fields(row, clock),
            "bid": task["bid"] if task else body["request"]["bid"],
            "plan": _plan(body, clock),
        }

    def finish(self, row: JobReadModel, clock: SlotClock) -> float | None:
        cells = row.body["cells"]
        return clock.slot_end(cells[-1]["slot"]) if cells else None


def _plan(body: Record, clock: SlotClock) -> Record | None:
    cells, decision = body["cells"], body["decision"]
    if not cells or decision is None or decision["schedule"] is None:
        return None
    return {
        "cells": [{**cell, "begins_at": clock.slot_start(cell["slot"])} for cell in cells],
        "vendor": body["vendor"],
        "start": clock.slot_start(cells[0]["slot"]),
        "finish": clock.slot_end(cells[-1]["slot"]),
    }


def _repaired(body: Mapping[str, Any]) -> str:
    return f"The data were repaired; {body['size']['rows']} rows remain"


def _vendor_changed(body: Mapping[str, Any]) -> str:
    return f"{body['why']}; {body['repair']['vendor']} repairs them instead, at no charge"


Names = Annotated[set[str], PlainSerializer(sorted)]
"""Names of nodes; sorted in a snapshot."""


@dataclass(kw_only=True)
class AuctionState(SlotJobState[AuctionJob]):
    """State of an auction zone.

    Attributes:
        cluster: the supply.
        lost: nodes that are not sold: their process is lost, or an operator drained them.
        drained: those among them that an operator drained.
        energy: by node type, money at full load for each slot from `energy_first` on.
        energy_first: slot of the first entry of `energy`.
    """

    projection: ClassVar[AuctionProjection] = AuctionProjection()

    jobs: dict[str, AuctionJob] = field(default_factory=dict)
    cluster: Cluster
    lost: Names = field(default_factory=set)
    drained: Names = field(default_factory=set)
    energy: dict[str, list[float]] = field(default_factory=dict)
    energy_first: int = 0

    def __post_init__(self) -> None:
        if not self.energy:
            kinds = self.cluster.node_types
            self.energy = {name: list(kind.energy_cost) for name, kind in kinds.items()}
        self._types = {node.id: node.type for node in self.cluster.nodes}

    def mechanism_events(self, event: ZoneEvent, data: EventData) -> Iterator[Event]:
        match data:
            case AuctionSlotStarted():
                costs = {name: tuple(row) for name, row in data.energy_cost.items()}
                yield SlotAdvanced(data.slot, costs)
            case PricesUpdated():
                yield PricesLearned(data.slot, data.update)
            case AuctionDecided():
                yield Offered(data.task, data.decision, event.slot)
            case CellsReleased() | CellsReplanned() | AuctionPaused() | AuctionResumed():
                task = self.jobs[job_of(event)].task
                if data.found:
                    yield Replanned(task, event.slot, data.given_up, data.found, refunded=False)
                else:
                    yield Released(task, data.given_up)
            case NodeDown() if data.node not in self.lost:
                yield NodeLost(data.node, event.slot)
            case NodeUp():
                yield NodeReturned(data.node, event.slot)

    def mechanism_event(self, event: ZoneEvent) -> Event | None:
        """Return what a recorded event means to the mechanism, or None."""
        data = self.decode(event)
        return None if data is None else next(self.mechanism_events(event, data), None)

    def cells_of(self, slot: int) -> dict[str, list[AuctionJob]]:
        """Jobs that have a cell in a slot, by node, in the order in which they were admitted."""
        found: dict[str, list[AuctionJob]] = {}
        for job in self.jobs.values():
            for cell in job.cells:
                if cell.slot == slot:
                    found.setdefault(cell.node, []).append(job)
        return found

    def node_type(self, node: str) -> str:
        return self._types[node]

    def operating_cost(self, job: AuctionJob, cell: Cell) -> float:
        kind = self._types[cell.node]
        share = job.task.throughput[kind] / self.cluster.node_types[kind].compute
        offset = cell.slot - self.energy_first
        costs = self.energy[kind]
        return share * (costs[offset] if 0 <= offset < len(costs) else 0.0)

    def admit(self, event: ZoneEvent, data: AuctionDecided, pending: PendingJob) -> AuctionJob:
        schedule = data.decision.schedule
        assert schedule is not None
        job = AuctionJob(
            **vars(pending),
            task=data.task,
            decision=data.decision,
            cells=schedule.cells,
            size=data.size,
            repair=decided_repair(data.task, data.decision, data.offers),
        )
        job.progress = Progress(total_rows=job.total_rows)
        return job

    def _slot_began(self, _event: ZoneEvent, data: AuctionSlotStarted) -> Effects:
        self.slot = data.slot
        for name, entered in data.energy_cost.items():
            costs = self.energy[name]
            if len(entered) >= self.cluster.slots:
                costs.clear()
            costs += entered
            # A window of past slots is enough for results that come late.
            del costs[: -2 * self.cluster.slots]
            self.energy_first = self.slot + self.cluster.slots - len(costs)
        return Effects()

    def _repaired(self, event: ZoneEvent, data: JobRepaired) -> Effects:
        job = self.jobs[job_of(event)]
        job.repaired, job.size = data.file, data.size
        job.progress = replace(job.progress, total_rows=job.total_rows)
        assert job.repair is not None
        entries = vendor_cost(job.repair.vendor, job.repair.price)
        return Effects((self.projection.open(event, job),), entries)

    def _vendor_changed(self, event: ZoneEvent, data: VendorChanged) -> Effects:
        job = self.jobs[job_of(event)]
        assert job.repair is not None
        job.failed_repairs += (job.repair,)
        job.repair = data.repair
        return self.show(event, job)

    def _trained(self, event: ZoneEvent, data: JobTrained) -> Effects:
        shown = super()._trained(event, data)
        cost = self.operating_cost(self.jobs[job_of(event)], Cell(data.slot, data.node))
        return Effects(shown.rows, energy_cost(round_money(cost)))

    def _replanned(
        self,
        event: ZoneEvent,
        data: CellsReleased | CellsReplanned | AuctionPaused | AuctionResumed,
    ) -> Effects:
        job = self.jobs[job_of(event)]
        kept = (cell for cell in job.cells if cell not in data.given_up)
        job.cells = tuple(sorted((*kept, *data.found)))
        if isinstance(data, AuctionResumed):
            job.continue_phase(has_trained=bool(job.progress.rows))
        return self.show(event, job)

    def _job_paused(self, event: ZoneEvent, data: AuctionPaused) -> Effects:
        self._replanned(event, data)
        self.jobs[job_of(event)].given_up = data.given_up_for
        return self._paused(event, data)

    def _node_down(self, _event: ZoneEvent, data: NodeDown) -> Effects:
        self.lost.add(data.node)
        if data.drained:
            self.drained.add(data.node)
        return Effects()

    def _node_up(self, _event: ZoneEvent, data: NodeUp) -> Effects:
        self.lost.discard(data.node)
        self.drained.discard(data.node)
        return Effects()

    reducers: ClassVar[Mapping[type[EventData], Reducer]] = {
        **SlotJobState.reducers,
        AuctionSlotStarted: _slot_began,
        PricesUpdated: SlotJobState._unchanged,
        AuctionDecided: SlotJobState._decided,
        JobRepaired: _repaired,
        VendorChanged: _vendor_changed,
        JobTrained: _trained,
        CellsReleased: _replanned,
        CellsReplanned: _replanned,
        AuctionPaused: _job_paused,
        AuctionResumed: _replanned,
        NodeDown: _node_down,
        NodeUp: _node_up,
    }


AuctionModel = ZoneModel[AuctionState, Admission]


def empty_model(opened: Mapping[str, Any], energy: EnergyForecast | None = None) -> AuctionModel:
    """Return the model of a zone in which nothing is sold, given the event that created it.

    `energy` is what slots cost that are not recorded yet, or None to repeat the first window.
    """
    mechanism = build_mechanism(opened, opened["mechanism"], opened["settings"], energy)
    cluster = adapter(Cluster).validate_python(opened["cluster"])
    return ZoneModel(AuctionState(cluster=cluster), mechanism)


def build_mechanism(
    opened: Mapping[str, Any],
    name: str,
    settings: Mapping[str, str],
    energy: EnergyForecast | None = None,
) -> Admission:
    """Return a mechanism for the empty market of a zone, otherwise as `empty_model`."""
    cluster = adapter(Cluster).validate_python(opened["cluster"])
    if energy is None and window_rolls(opened):
        energy = RepeatedEnergy(cluster)
    return build(name, cluster, settings, energy=energy)


def window_rolls(opened: Mapping[str, Any]) -> bool:
    """Return whether a zone's window of slots moves on; without a service it is all the market."""
    rolls: bool = opened.get("rolls", True)
    return rolls


def mechanism_event_data(event: Event) -> AuctionSlotStarted | PricesUpdated:
    """Return the recorded data of an event that the mechanism emitted by itself."""
    if isinstance(event, SlotAdvanced):
        energy = {name: list(costs) for name, costs in event.energy_cost.items()}
        return AuctionSlotStarted(slot=event.now, energy_cost=energy)
    assert isinstance(event, PricesLearned)
    return PricesUpdated(slot=event.now, update=dict(event.update))
