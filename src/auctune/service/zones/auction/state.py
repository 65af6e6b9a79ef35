"""State of an auction zone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

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
from auctune.registry import build
from auctune.service.ledger import energy_cost, vendor_cost
from auctune.service.storage.events import ZoneEvent, job_of
from auctune.service.storage.read_model import Effects
from auctune.service.zones.auction.events import (
    AuctionDecided,
    AuctionPaused,
    AuctionResumed,
    AuctionSlotStarted,
    CellsReleased,
    CellsReplanned,
    JobRepaired,
    NodeDown,
    NodeUp,
    PricesUpdated,
    VendorChanged,
)
from auctune.service.zones.auction.job import (
    AuctionJob,
    cluster_record,
    decided_repair,
    read_cluster,
)
from auctune.service.zones.auction.projection import AuctionProjection
from auctune.service.zones.core.events import EventData, JobTrained
from auctune.service.zones.core.job import PendingJob, Progress
from auctune.service.zones.core.state import Reducer, SlotJobState, ZoneModel

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
    cluster: Annotated[Cluster, PlainValidator(read_cluster), PlainSerializer(cluster_record)]
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
                yield PricesLearned(data.slot, data.lesson)
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

    def _began(self, _event: ZoneEvent, data: AuctionSlotStarted) -> Effects:  # type: ignore[override]
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

    def _paused(self, event: ZoneEvent, data: AuctionPaused) -> Effects:  # type: ignore[override]
        self._replanned(event, data)
        self.jobs[job_of(event)].given_up = data.given_up_for
        return super()._paused(event, data)

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
        AuctionSlotStarted: _began,
        PricesUpdated: SlotJobState._unchanged,
        AuctionDecided: SlotJobState._decided,
        JobRepaired: _repaired,
        VendorChanged: _vendor_changed,
        JobTrained: _trained,
        CellsReleased: _replanned,
        CellsReplanned: _replanned,
        AuctionPaused: _paused,
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
    return ZoneModel(AuctionState(cluster=read_cluster(opened["cluster"])), mechanism)


def build_mechanism(
    opened: Mapping[str, Any],
    name: str,
    settings: Mapping[str, str],
    energy: EnergyForecast | None = None,
) -> Admission:
    """Return a mechanism for the empty market of a zone, otherwise as `empty_model`."""
    cluster = read_cluster(opened["cluster"])
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
    return PricesUpdated(slot=event.now, lesson=dict(event.lesson))
