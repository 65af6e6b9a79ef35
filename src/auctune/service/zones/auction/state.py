"""State of an auction zone, and the events of its mechanism as they are recorded."""

import base64
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import PlainSerializer, PlainValidator

from auctune.domain import (
    Admission,
    Cell,
    Cluster,
    EnergyForecast,
    Event,
    NodeLost,
    NodeReturned,
    Offered,
    PricesLearned,
    Released,
    RepeatedEnergy,
    Replanned,
    SlotAdvanced,
    round_money,
)
from auctune.domain.data_size import DataSize
from auctune.registry import build
from auctune.run.records import read_decision
from auctune.service.ledger import energy_cost, vendor_cost
from auctune.service.zones.auction.job import (
    AuctionEventType,
    AuctionJob,
    Repair,
    cluster_record,
    decided_repair,
    read_cells,
    read_cluster,
    read_task,
)
from auctune.service.zones.auction.projection import AuctionProjection
from auctune.service.zones.core.events import EventType, ZoneEvent, adapter, job_of
from auctune.service.zones.core.job import GivenUp, PendingJob, Phase, Progress
from auctune.service.zones.core.read_model import Effects
from auctune.service.zones.core.state import JOB_REDUCERS, Reducer, ZoneModel, ZoneState

Names = Annotated[set[str], PlainSerializer(sorted)]
"""Names of nodes; sorted in a snapshot."""


@dataclass(kw_only=True)
class AuctionState(ZoneState[AuctionJob]):
    """State of an auction zone.

    Attributes:
        cluster: the supply.
        slot: the newest slot that began; -1 before the first.
        lost: nodes that are not sold: their process is lost, or an operator drained them.
        drained: those among them that an operator drained.
        energy: by node type, money at full load for each slot from `energy_first` on.
        energy_first: slot of the first entry of `energy`.
    """

    projection: ClassVar[AuctionProjection] = AuctionProjection()

    jobs: dict[str, AuctionJob] = field(default_factory=dict)
    cluster: Annotated[Cluster, PlainValidator(read_cluster), PlainSerializer(cluster_record)]
    slot: int = -1
    lost: Names = field(default_factory=set)
    drained: Names = field(default_factory=set)
    energy: dict[str, list[float]] = field(default_factory=dict)
    energy_first: int = 0

    def __post_init__(self) -> None:
        if not self.energy:
            kinds = self.cluster.node_types
            self.energy = {name: list(kind.energy_cost) for name, kind in kinds.items()}
        self._types = {node.id: node.type for node in self.cluster.nodes}

    def mechanism_events(self, event: ZoneEvent) -> Iterator[Event]:
        change = to_mechanism_event(event, self)
        if change is not None:
            yield change

    def cells_of(self, slot: int) -> dict[str, list[AuctionJob]]:
        """Jobs that have a cell in a slot, by node, in the order in which they were admitted."""
        found: dict[str, list[AuctionJob]] = {}
        for job in self.jobs.values():
            for cell in job.cells:
                if cell.slot == slot:
                    found.setdefault(cell.node, []).append(job)
        return found

    def node_type(self, node: str) -> str:
        """The type of a node."""
        return self._types[node]

    def operating_cost(self, job: AuctionJob, cell: Cell) -> float:
        """Money for the energy that a job takes in a cell."""
        kind = self._types[cell.node]
        share = job.task.throughput[kind] / self.cluster.node_types[kind].compute
        offset = cell.slot - self.energy_first
        costs = self.energy[kind]
        return share * (costs[offset] if 0 <= offset < len(costs) else 0.0)

    def admit(self, event: ZoneEvent, pending: PendingJob) -> AuctionJob:
        body, decision = event.body, read_decision(event.body["decision"])
        task = read_task(body["task"])
        assert decision.schedule is not None
        job = AuctionJob(
            **vars(pending),
            task=task,
            decision=decision,
            cells=decision.schedule.cells,
            size=DataSize.from_record(body["size"]),
            repair=decided_repair(task, decision, body.get("offers", {})),
        )
        job.progress = Progress(total_rows=job.total_rows)
        return job

    def _began(self, event: ZoneEvent) -> Effects:
        self.slot = event.body["slot"]
        for name, entered in event.body["energy_cost"].items():
            costs = self.energy[name]
            if len(entered) >= self.cluster.slots:
                costs.clear()
            costs += entered
            # A window of past slots is enough for results that come late.
            del costs[: -2 * self.cluster.slots]
            self.energy_first = self.slot + self.cluster.slots - len(costs)
        return Effects()

    def _repaired(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.repaired = event.body["file"]
        job.size = DataSize.from_record(event.body["size"])
        job.progress = replace(job.progress, total_rows=job.total_rows)
        assert job.repair is not None
        return Effects(
            (self.projection.open(event, job),), vendor_cost(job.repair.vendor, job.repair.price)
        )

    def _vendor_changed(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        job.failed_vendors += (event.body["failed"],)
        job.repair = adapter(Repair).validate_python(event.body["repair"])
        return self.show(event, job)

    def _trained(self, event: ZoneEvent) -> Effects:
        job, result = self.jobs[job_of(event)], event.body["result"]
        job.progress = job.progress.after(result)
        job.last_reported_slot = event.body["slot"]
        job.out_of_memory.clear()
        if result["state"] == "done":
            job.phase = Phase.TRAINED
        elif job.phase is Phase.PLANNED:
            job.phase = Phase.TRAINING
        cell = Cell(event.body["slot"], event.body["node"])
        cost = round_money(self.operating_cost(job, cell))
        return Effects((self.projection.open(event, job),), energy_cost(cost))

    def _replanned(self, event: ZoneEvent) -> Effects:
        job = self.jobs[job_of(event)]
        gone = set(read_cells(event.body["given_up"]))
        kept = tuple(cell for cell in job.cells if cell not in gone)
        job.cells = tuple(sorted((*kept, *read_cells(event.body["found"]))))
        if event.kind == EventType.RESUMED:
            job.continue_phase(has_trained=bool(job.progress.rows))
        return self.show(event, job)

    def _paused(self, event: ZoneEvent) -> Effects:
        self._replanned(event)
        job, given_up = self.jobs[job_of(event)], event.body["given_up_for"]
        job.given_up = None if given_up is None else adapter(GivenUp).validate_python(given_up)
        return super()._paused(event)

    def _node_lost(self, event: ZoneEvent) -> Effects:
        self.lost.add(event.body["node"])
        if event.body["drained"]:
            self.drained.add(event.body["node"])
        return Effects()

    def _node_returned(self, event: ZoneEvent) -> Effects:
        self.lost.discard(event.body["node"])
        self.drained.discard(event.body["node"])
        return Effects()

    reducers: ClassVar[Mapping[str, Reducer]] = {
        **JOB_REDUCERS,
        EventType.SLOT_BEGAN: _began,
        AuctionEventType.REPAIRED: _repaired,
        AuctionEventType.VENDOR_CHANGED: _vendor_changed,
        EventType.TRAINED: _trained,
        AuctionEventType.RELEASED: _replanned,
        AuctionEventType.REPLANNED: _replanned,
        EventType.PAUSED: _paused,
        EventType.RESUMED: _replanned,
        AuctionEventType.NODE_LOST: _node_lost,
        AuctionEventType.NODE_RETURNED: _node_returned,
    }


AuctionModel = ZoneModel[AuctionState, Admission]


def empty_model(opened: Mapping[str, Any], energy: EnergyForecast | None = None) -> AuctionModel:
    """Return the model of a zone in which nothing is sold.

    Args:
        opened: body of the event that created the zone.
        energy: what slots cost that are not recorded yet, or None to repeat the first window.
    """
    cluster = read_cluster(opened["cluster"])
    forecast = RepeatedEnergy(cluster) if energy is None else energy
    mechanism = build(opened["mechanism"], cluster, opened["settings"], energy=forecast)
    return ZoneModel(AuctionState(cluster=cluster), mechanism)


# Events of the mechanism, recorded bit for bit. An array is its compressed bytes in base 64:
# numbers as text would be three times as large.


def prices_record(event: PricesLearned) -> dict[str, Any]:
    """Return the body of the event."""
    return {
        "slot": event.now,
        "lesson": {name: _write(array) for name, array in event.lesson.items()},
    }


def read_prices(body: dict[str, Any]) -> PricesLearned:
    """Return the event that `prices_record` wrote."""
    return PricesLearned(
        body["slot"], {name: _read(record) for name, record in body["lesson"].items()}
    )


def _write(array: Any) -> dict[str, Any]:
    packed = zlib.compress(np.ascontiguousarray(array).tobytes(), level=1)
    return {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "data": base64.b64encode(packed).decode(),
    }


def _read(record: dict[str, Any]) -> Any:
    data = zlib.decompress(base64.b64decode(record["data"]))
    # A copy, as what is read from bytes cannot be written to.
    return np.frombuffer(data, dtype=record["dtype"]).reshape(record["shape"]).copy()


def event_type_of(event: Event) -> EventType | AuctionEventType:
    """Return the recorded type of an event that the mechanism emitted."""
    return (
        EventType.SLOT_BEGAN if isinstance(event, SlotAdvanced) else AuctionEventType.PRICES_LEARNED
    )


def market_record(event: Event) -> dict[str, Any]:
    """Return the body of such an event."""
    if isinstance(event, SlotAdvanced):
        energy = {name: list(costs) for name, costs in event.energy_cost.items()}
        return {"slot": event.now, "energy_cost": energy}
    assert isinstance(event, PricesLearned)
    return prices_record(event)


def to_mechanism_event(event: ZoneEvent, state: AuctionState) -> Event | None:
    """Return what a recorded event means to the mechanism, or None.

    Args:
        event: of the zone.
        state: as it was before the event.
    """
    body = event.body
    match event.kind:
        case EventType.SLOT_BEGAN:
            costs = {name: tuple(row) for name, row in body["energy_cost"].items()}
            return SlotAdvanced(body["slot"], costs)
        case AuctionEventType.PRICES_LEARNED:
            return read_prices(body)
        case EventType.DECIDED:
            return Offered(read_task(body["task"]), read_decision(body["decision"]), event.slot)
        case (
            AuctionEventType.RELEASED
            | EventType.PAUSED
            | AuctionEventType.REPLANNED
            | EventType.RESUMED
        ):
            assert event.job is not None
            task = state.jobs[event.job].task
            given_up, found = read_cells(body["given_up"]), read_cells(body["found"])
            if not found:
                return Released(task, given_up)
            return Replanned(task, event.slot, given_up, found, refunded=False)
        case AuctionEventType.NODE_LOST if body["node"] not in state.lost:
            return NodeLost(body["node"], event.slot)
        case AuctionEventType.NODE_RETURNED:
            return NodeReturned(body["node"], event.slot)
    return None
