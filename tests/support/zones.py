"""A zone over a made-up base and device, with a clock that is set and a log in memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from auctune.domain import Cluster, Node, NodeType, RepeatedEnergy
from auctune.domain.data_size import DataSize
from auctune.engine.messages.node import TaskResult
from auctune.engine.runtime.supervisor import Executor
from auctune.engine.unix_time import SlotClock
from auctune.files.device_profile import Mix, Origin, Profile, SweepPoint
from auctune.registry.mechanisms import build
from auctune.service.datasets.repairer import VendorOffer
from auctune.service.jobs.training import Training
from auctune.service.ledger import Entry
from auctune.service.storage.event_log import ZoneEvent
from auctune.service.storage.queries import Effects, JobReadModel
from auctune.service.zones.auction.state import AuctionModel, AuctionState
from auctune.service.zones.auction.worker import AuctionScheduler
from auctune.service.zones.auction.zone import AuctionZone, Bid, Supply
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.zone import AnyZone, OnDone
from support.scripted_node import trained_slot

SLOT_SECONDS = 10.0
SLOTS = 12
SAMPLE_TOKENS = 64.0
EPOCH = 1_000_000.0


def made_up_profile() -> Profile:
    """A device of 1,000 tokens a second, with memory for some tens of adapters of rank 8."""
    return Profile(
        origin=Origin("2031-05-04T09:00:00Z", "cpu", "none", 1, "none", "0", "float32", "no", {}),
        memory_gb=1.0,
        base_weights_gb=0.1,
        activations_gb=0.1,
        features={"layers.*.q_proj": 10_000},
        default_modules=("q_proj",),
        bytes_per_parameter=1000.0,
        step_seconds=0.01,
        token_seconds=0.001,
        micro_batch_tokens=100,
        base_load_seconds=1.0,
        task_load_seconds=0.1,
        checkpoint_seconds=0.1,
        suspend_seconds=0.1,
        tasks_per_slot=4,
        margin=0.1,
        sweep=(SweepPoint(100, 0.11),),
        mixes=(Mix(1, 100, 0.11, 0.11),),
    )


def made_up_supply(
    num_nodes: int = 2, slots: int = SLOTS, profile: Profile | None = None
) -> Supply:
    """Nodes of one kind, with energy that costs more in every third slot."""
    profile = profile or made_up_profile()
    kind = NodeType(
        profile.compute(SLOT_SECONDS, SAMPLE_TOKENS),
        profile.memory_gb,
        tuple(0.02 if slot % 3 == 0 else 0.01 for slot in range(slots)),
    )
    nodes = tuple(Node(f"n{index}", "kind") for index in range(num_nodes))
    cluster = Cluster(slots, SLOT_SECONDS, profile.base_memory_gb, {"kind": kind}, nodes)
    return Supply("made-up", cluster, {"kind": profile}, SAMPLE_TOKENS)


@dataclass
class SetClock:
    """Tells the time that it was set to."""

    time: float = EPOCH

    def __call__(self) -> float:
        return self.time


@dataclass
class MemoryLog:
    """A recorder that keeps all in memory: events as JSON, rows and entries as they are."""

    events: list[tuple[ZoneEvent, bytes]] = field(default_factory=list)
    rows: dict[str, JobReadModel] = field(default_factory=dict)
    entries: list[tuple[ZoneEvent, tuple[Entry, ...]]] = field(default_factory=list)
    seq: int = 0

    def next_seq(self) -> int:
        self.seq += 1
        return self.seq

    def record(self, happened: Sequence[tuple[ZoneEvent, Effects]], done: OnDone) -> None:
        for event, change in happened:
            self.events.append((event, orjson.dumps(event.body)))
            self.rows.update({row.id: row for row in change.rows})
            self.entries.append((event, change.entries))
        done(None)

    def read(self, after: int = 0) -> list[ZoneEvent]:
        return [_read(event, body) for event, body in self.events if event.seq > after]

    def balances(self) -> dict[str, Decimal]:
        sums: dict[str, Decimal] = {}
        for _, entries in self.entries:
            for entry in entries:
                sums[entry.account] = sums.get(entry.account, Decimal(0)) + entry.amount
        return sums


@dataclass
class OrdersKept(Executor):
    """An executor that trains nothing: a test answers what was ordered."""

    orders: dict[tuple[int, str], list[Any]] = field(default_factory=dict)
    given: list[tuple[int, str, str]] = field(default_factory=list)

    def train(self, slot: int, node: str, tasks: Sequence[Any], until: float | None = None) -> None:
        """Keep an order."""
        self.orders[slot, node] = list(tasks)
        self.given += [(slot, node, task.job.id) for task in tasks]

    def close(self) -> None:
        """Nothing is under way."""


Fresh = Callable[[], AuctionModel]


def fresh_of(supply: Supply, mechanism: str, settings: dict[str, str]) -> Fresh:
    """What makes an empty zone."""

    def fresh() -> AuctionModel:
        energy = RepeatedEnergy(supply.cluster)
        built = build(mechanism, supply.cluster, settings, energy=energy)
        return AuctionModel(AuctionState(cluster=supply.cluster), built)

    return fresh


class MadeUpZone:
    """A zone with its log, clock, orders and scheduler; `restart` makes all but the log anew."""

    def __init__(
        self,
        mechanism: str = "pdftsp",
        settings: dict[str, str] | None = None,
        num_nodes: int = 2,
        profile: Profile | None = None,
    ) -> None:
        self.supply = made_up_supply(num_nodes, profile=profile)
        self.now = SetClock()
        self.clock = SlotClock(EPOCH, SLOT_SECONDS, self.now)
        self.log = MemoryLog()
        self.fresh = fresh_of(self.supply, mechanism, settings or {})
        self._open(self.fresh())
        self.zone.record_created({"version": 1})
        self.zone.begin_slots()
        self.keep()

    def _open(self, model: AuctionModel) -> None:
        self.zone = AuctionZone("made-up", self.supply, model, self.clock, self.log)
        self.executor = OrdersKept()
        self.scheduler = AuctionScheduler(self.executor, Path("work"), Path)

    @property
    def trained(self) -> list[str]:
        """Ids of the jobs whose results are to be archived."""
        return [job.id for job in self.zone.state.jobs.values() if job.phase is Phase.TRAINED]

    def keep(self) -> None:
        self.log.record(self.zone.pop_events(), lambda error: None)

    def folded(self) -> AuctionModel:
        """The model that the log alone gives."""
        model = self.fresh()
        for event in self.log.read():
            model.apply(event)
        return model

    def restart(self) -> None:
        """Go on from the log."""
        self._open(self.folded())
        self.zone.begin_slots()
        self.scheduler.resume(self.zone)
        self.keep()

    def bid(
        self,
        job: str,
        amount: str = "10",
        *,
        rows: int = 40,
        slots: int = 6,
        rank: int = 8,
        share: float = 0.25,
        offers: tuple[VendorOffer, ...] = (),
        owner: str = "ann",
    ) -> Bid:
        """A bid of now, due in so many slots."""
        training = Training("file-a", rank=rank, share=share, repair=bool(offers))
        return Bid(
            job=job,
            owner=owner,
            training=training,
            size=DataSize(rows, 40.0),
            bid=Decimal(amount),
            deadline=self.clock.slot_end(self.clock.slot() + slots),
            offers=offers,
            request={"model": "made-up"},
        )

    def answer(self, slot: int, node: str, share: float = 1.0, state: str = "training") -> None:
        """A node answers an order: each task trained this share of what was missing."""
        orders = self.executor.orders.pop((slot, node))
        results = {}
        for order in orders:
            job = self.zone.state.jobs.get(order.job.id)
            before = 0 if job is None else job.progress.rows
            total = order.job.epochs * 40 if job is None else job.total_rows
            rows = max(before, min(total, before + int(share * (order.target - before))))
            done = "done" if rows >= total else state
            results[order.job.id] = TaskResult(
                rows=rows,
                total_rows=total,
                tokens=rows * 40,
                steps=rows // 8,
                state=done,
                losses=((rows // 8, rows, rows * 40, 1.0, 0.5),),
                validation=(),
                note="",
                exported=done == "done",
            )
        self.scheduler.on_message(self.zone, node, trained_slot(slot, results=results))
        self.keep()

    def pass_slots(self, count: int = 1) -> None:
        """Time goes on, and the clock says so."""
        self.now.time += count * SLOT_SECONDS
        self.scheduler.run_slot(self.zone)
        self.keep()

    def finish(self, job: str) -> None:
        if job in self.zone.state.jobs:
            self.zone.finish(job, [f"file-{job}"])
            self.keep()


def record(zone: AnyZone, kind: str, job: str | None, body: dict[str, Any]) -> None:
    """Record an event of which the body is given."""
    data = zone.model.state.decode(ZoneEvent(0, zone.name, 0, 0.0, kind, job, body))
    assert data is not None
    zone.record(data, job)


def _read(event: ZoneEvent, body: bytes) -> ZoneEvent:
    return ZoneEvent(
        event.seq, event.zone, event.slot, event.at, event.type, event.job, orjson.loads(body)
    )
