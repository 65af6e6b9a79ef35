"""Replay of an auction zone's log: its outcome as recorded, or under another mechanism.

Under another mechanism the bids, the owners' cancellations and the lost nodes are those of the
log, and all else follows from its own decisions: a plan is trained as it was made, pauses and
resumptions are ignored, and a bid that was over its owner's budget is over it again.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from auctune.domain import (
    Admission,
    Cell,
    Cluster,
    Commitment,
    Decision,
    Event,
    NodeLost,
    NodeReturned,
    Offered,
    PricesLearned,
    Reason,
    Released,
    Replanned,
    Schedule,
    SlotAdvanced,
    Task,
)
from auctune.domain.decision import MenuLine
from auctune.domain.money import ZERO, Money
from auctune.engine.records import cell_records
from auctune.replay.compare import Progress, ReplayInput, Tick, ZoneReplay, slot_of
from auctune.replay.verify import Body, Difference, LogVerifier, Rule, noop
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.auction.state import (
    AuctionDecided,
    AuctionEventType,
    AuctionModel,
    AuctionState,
    build_mechanism,
    empty_model,
    mechanism_event_data,
    window_rolls,
)
from auctune.service.zones.auction.zone import earliest_feasible_slot, over_budget, preview_decision
from auctune.service.zones.core.events import adapter
from auctune.service.zones.core.snapshots import decode_snapshot
from auctune.sim.comparison import Entry
from auctune.sim.tally import vendor_price


@dataclass(frozen=True, slots=True)
class AuctionOutcome:
    """Outcome of a range, in money unless stated otherwise.

    Attributes:
        num_bids, num_admitted, num_refunded: number of bids in the range, and of those admitted
            and refunded.
        welfare: bids less vendors' prices and operating costs, over jobs that were not refunded;
            costs of refunded and cancelled jobs count.
        revenue: payments that were kept.
        vendor_cost: vendors' prices.
        operating_cost: of all cells in which jobs ran, or will run.
        compute_used: share of the cluster's compute that is sold in the range's slots, bids from
            before the range included.
    """

    num_bids: int
    num_admitted: int
    num_refunded: int
    welfare: float
    revenue: Money
    vendor_cost: Money
    operating_cost: float
    compute_used: float


def recorded_outcome(
    events: Iterable[ZoneEvent],
    cluster: Cluster,
    first_slot: int,
    on_decision: Callable[[], None] = noop,
) -> AuctionOutcome:
    """Return the outcome as recorded, given all events of the zone.

    Events before `first_slot` only lead up to the range.
    """
    plans = _Plans(cluster, first_slot)
    for event, change in _with_changes(events, cluster, on_decision):
        plans.apply(event, change)
    return plans.outcome()


def outcome_under(
    mechanism: Admission,
    events: Iterable[ZoneEvent],
    cluster: Cluster,
    first_slot: int,
    on_decision: Callable[[], None] = noop,
) -> AuctionOutcome:
    """Return the outcome under another mechanism over the same cluster, as built.

    What was sold before the range stays as it was, and the mechanism learns from its bids.
    """
    plans = _Plans(cluster, first_slot)
    for event, change in _with_changes(events, cluster, on_decision):
        if isinstance(change, SlotAdvanced):
            plans.begin_slot(change)
            mechanism.advance(change.now)
        elif isinstance(change, PricesLearned):
            # It learns its own prices.
            continue
        elif slot_of(event) >= first_slot:
            _play(mechanism, plans, event, change)
        else:
            plans.apply(event, change)
            if isinstance(change, Offered):
                mechanism.advance(change.now)
            if change is not None:
                mechanism.apply(change)
    return plans.outcome()


def _with_changes(
    events: Iterable[ZoneEvent], cluster: Cluster, on_decision: Callable[[], None]
) -> Iterator[tuple[ZoneEvent, Event | None]]:
    """Yield each event, and what it means to the mechanism."""
    state = AuctionState(cluster=cluster)
    for event in events:
        yield event, state.mechanism_event(event)
        state.evolve(event)
        if event.type == EventType.DECIDED:
            on_decision()


def _play(mechanism: Admission, plans: "_Plans", event: ZoneEvent, change: Event | None) -> None:
    """Have another mechanism handle what came from outside."""
    if isinstance(change, Offered):
        mechanism.advance(change.now)
        if change.decision.reason is Reason.OVER_BUDGET:
            decision = change.decision
            mechanism.apply(change)
        else:
            decision = mechanism.offer(change.task, change.now)
        plans.admit(change.task, decision, is_counted=True)
    elif event.type == EventType.CANCELLED:
        if event.job is not None and event.job in plans:
            mechanism.release(*plans.cancel(event.job, event.slot))
    elif isinstance(change, NodeLost):
        running = plans.running(change.now)
        for moved in mechanism.lose_node(change.node, change.now, running):
            plans.replan(moved.task.id, moved.given_up, moved.found)
            if moved.refunded:
                plans.refund(moved.task.id)
    elif isinstance(change, NodeReturned):
        mechanism.apply(change)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A sold plan: its cells as they are now, past ones included; `is_counted`: in the range."""

    task: Task
    schedule: Schedule
    payment: Money
    cells: tuple[Cell, ...]
    is_counted: bool
    is_refunded: bool = False


class _Plans:
    """Plans by job, and what they cost and earn."""

    def __init__(self, cluster: Cluster, first_slot: int) -> None:
        self._types = {node.id: node.type for node in cluster.nodes}
        self._cluster = cluster
        self._energy: dict[str, dict[int, float]] = {
            name: dict(enumerate(kind.energy_cost)) for name, kind in cluster.node_types.items()
        }
        self._first_slot = self._last_slot = first_slot
        self._plans: dict[str, _Plan] = {}
        self._num_bids = 0

    def __contains__(self, job: str) -> bool:
        return job in self._plans

    def apply(self, event: ZoneEvent, change: Event | None) -> None:
        if isinstance(change, SlotAdvanced):
            self.begin_slot(change)
        elif isinstance(change, Offered):
            is_counted = slot_of(event) >= self._first_slot
            self.admit(change.task, change.decision, is_counted=is_counted)
        elif isinstance(change, Released):
            self.replan(change.task.id, change.cells, ())
        elif isinstance(change, Replanned):
            self.replan(change.task.id, change.given_up, change.found)
        elif event.type == EventType.FAILED and event.body["refund"]:
            self.refund(str(event.job))

    def begin_slot(self, event: SlotAdvanced) -> None:
        """Begin a slot, and extend the known energy costs."""
        self._last_slot = max(self._last_slot, event.now)
        for name, costs in event.energy_cost.items():
            last = event.now + self._cluster.slots
            self._energy[name].update(zip(range(last - len(costs), last), costs, strict=True))

    def admit(self, task: Task, decision: Decision, *, is_counted: bool) -> None:
        """Add the plan of a decision, if it admits the task."""
        self._num_bids += is_counted
        schedule = decision.schedule
        if schedule is not None:
            plan = _Plan(task, schedule, decision.payment, schedule.cells, is_counted)
            self._plans[task.id] = plan

    def replan(self, job: str, given_up: Iterable[Cell], found: tuple[Cell, ...]) -> None:
        plan, gone = self._plans[job], set(given_up)
        kept = tuple(cell for cell in plan.cells if cell not in gone)
        self._plans[job] = replace(plan, cells=tuple(sorted((*kept, *found))))

    def cancel(self, job: str, now: int) -> tuple[Task, tuple[Cell, ...]]:
        """Release the cells after a slot; return them and the task."""
        plan = self._plans[job]
        released = tuple(cell for cell in plan.cells if cell.slot > now)
        self.replan(job, released, ())
        return plan.task, released

    def refund(self, job: str) -> None:
        if job in self._plans:
            self._plans[job] = replace(self._plans[job], is_refunded=True)

    def running(self, now: int) -> list[Commitment]:
        return [
            Commitment(
                plan.task,
                Schedule(plan.cells, plan.schedule.vendor),
                self._remaining_work(plan, now),
            )
            for plan in self._plans.values()
            if not plan.is_refunded and any(cell.slot >= now for cell in plan.cells)
        ]

    def outcome(self) -> AuctionOutcome:
        counted = [plan for plan in self._plans.values() if plan.is_counted]
        kept = [plan for plan in counted if not plan.is_refunded]
        vendors = sum((vendor_price(plan.task, plan.schedule) for plan in counted), ZERO)
        costs = math.fsum(self._cost(plan.task, cell) for plan in counted for cell in plan.cells)
        bids = sum((plan.task.bid for plan in kept), ZERO)
        return AuctionOutcome(
            num_bids=self._num_bids,
            num_admitted=len(counted),
            num_refunded=len(counted) - len(kept),
            welfare=float(bids - vendors) - costs,
            revenue=sum((plan.payment for plan in kept), ZERO),
            vendor_cost=vendors,
            operating_cost=costs,
            compute_used=self._compute_used(),
        )

    def _compute_used(self) -> float:
        kinds = self._cluster.node_types
        slots = range(self._first_slot, self._last_slot + 1)
        all_nodes = math.fsum(kinds[node.type].compute for node in self._cluster.nodes)
        sold = math.fsum(
            plan.task.throughput[self._types[cell.node]]
            for plan in self._plans.values()
            for cell in plan.cells
            if cell.slot in slots
        )
        return sold / (all_nodes * len(slots))

    def _remaining_work(self, plan: _Plan, now: int) -> float:
        speeds = plan.task.throughput
        done = sum(speeds[self._types[cell.node]] for cell in plan.cells if cell.slot < now)
        return max(0.0, plan.task.work - done)

    def _cost(self, task: Task, cell: Cell) -> float:
        node_type = self._types[cell.node]
        share = task.throughput[node_type] / self._cluster.node_types[node_type].compute
        return share * self._energy[node_type].get(cell.slot, 0.0)


_NO_PRICES = np.empty(0)
# Version of the log since which learned prices are; those of earlier ones are taken as they are.
_SAME_ON_ALL_PROCESSORS = 14
# Relative difference of prices that are the same but for rounding.
_ROUNDING = 1e-9


class AuctionVerifier(LogVerifier[AuctionState, Admission]):
    """Verifies an auction's log: decisions, price updates and new plans, by its mechanism.

    Args:
        model: before the first event.
        rolls: as of `window_rolls`.
    """

    count_names = ("decisions", "price_updates", "plans")

    def __init__(self, model: AuctionModel, *, rolls: bool = True) -> None:
        super().__init__(model)
        self._rolls = rolls
        # Slots and price updates of the mechanism that must come next in the log.
        self._updates: list[Event] = []
        # Newest event that has changed the mechanism while it was verified.
        self._mechanism_seq = 0

    def counts_of(self, event: ZoneEvent) -> Iterator[str]:
        if event.type == EventType.DECIDED:
            yield "decisions"
        elif event.type == AuctionEventType.PRICES_UPDATED:
            if event.version >= _SAME_ON_ALL_PROCESSORS:
                yield "price_updates"
        elif event.body.get("plan") is not None:
            yield "plans"

    def apply(self, event: ZoneEvent) -> None:
        if event.seq == self._mechanism_seq:
            self.state.evolve(event)
        else:
            super().apply(event)

    def expected_body(self, event: ZoneEvent) -> Body | None:
        if event.type == EventType.DECIDED:
            # Prices are updated before each bid.
            self._advance(event.slot)
        if event.type not in (EventType.SLOT_STARTED, AuctionEventType.PRICES_UPDATED):
            self.differences += self.missing()
        return super().expected_body(event)

    def missing(self) -> list[Difference]:
        updates, self._updates = self._updates, []
        slot = f"slot {self.state.slot}"
        kinds = (mechanism_event_data(update).type for update in updates)
        return [Difference(kind, slot, "(none)", "an event") for kind in kinds]

    def decided_body(self, event: ZoneEvent) -> Body | None:
        data, slot, mechanism = self.state.decode(event), event.slot, self.mechanism
        assert isinstance(data, AuctionDecided)
        task, recorded, line = data.task, data.decision, data.line
        self._mechanism_seq = event.seq
        if line is None:
            decision = preview_decision(mechanism, task, slot)
            mechanism.apply(Offered(task, recorded, slot))
        elif recorded.schedule is None:
            # The log has the price of a refused line only here.
            if task.budget is None or recorded.price is None or recorded.price <= task.budget:
                return None
            decision = over_budget(task, recorded.price)
            mechanism.apply(Offered(task, recorded, slot))
        else:
            chosen = MenuLine(line.deadline, recorded.payment, line.schedule)
            taken = mechanism.take(task, chosen, slot)
            if taken is None:
                return None
            decision = taken
        is_over = decision.reason is Reason.OVER_BUDGET
        earliest = None
        if self._rolls:
            earliest = earliest_feasible_slot(mechanism, task, decision, slot)
        budget = task.budget if is_over else None
        return replace(data, decision=decision, budget_remaining=budget, earliest=earliest).body()

    def _advance(self, slot: int) -> None:
        self._updates += self.mechanism.advance(slot)

    def _market_update(self, event: ZoneEvent) -> Body | None:
        if not self._updates:
            self._advance(event.body["slot"])
        if not self._updates or mechanism_event_data(self._updates[0]).type != event.type:
            return None
        self._mechanism_seq = event.seq
        update = self._updates.pop(0)
        if not isinstance(update, PricesLearned):
            return mechanism_event_data(update).body()
        recorded = self.state.mechanism_event(event)
        assert isinstance(recorded, PricesLearned)
        if event.version >= _SAME_ON_ALL_PROCESSORS:
            self.differences += _diff_prices(recorded, update)
        else:
            self.mechanism.apply(recorded)
        return event.body

    def _plan_changed(self, event: ZoneEvent) -> Body | None:
        if event.job not in self.state.jobs:
            return None
        wanted = event.body.get("plan")
        if wanted is None:
            return event.body
        change, mechanism = self.state.mechanism_event(event), self.mechanism
        assert isinstance(change, Released | Replanned)
        self._mechanism_seq = event.seq
        given_up = change.cells if isinstance(change, Released) else change.given_up
        mechanism.apply(Released(change.task, given_up))
        rest = replace(change.task, work=wanted["work"], quotes=())
        found = mechanism.plan_rest(rest, wanted["first"])
        if isinstance(change, Replanned):
            mechanism.apply(replace(change, given_up=()))
        return event.body | {"found": cell_records(found or ())}

    rules: ClassVar[Mapping[str, Rule]] = {
        EventType.SLOT_STARTED: _market_update,
        AuctionEventType.PRICES_UPDATED: _market_update,
        AuctionEventType.RELEASED: _plan_changed,
        AuctionEventType.REPLANNED: _plan_changed,
        EventType.PAUSED: _plan_changed,
        EventType.RESUMED: _plan_changed,
    }


def _diff_prices(recorded: PricesLearned, found: PricesLearned) -> Iterator[Difference]:
    """Compare arrays by value: how the log has compressed them depends on the machine's zlib.

    Processors differ in the last bits of powers and exponentials.
    """
    slot = f"slot {recorded.now}"
    if found.now != recorded.now:
        yield Difference("prices.updated: slot", slot, recorded.now, found.now)
    for name in sorted(found.update.keys() | recorded.update.keys()):
        what = f"prices.updated: {name}"
        old, new = recorded.update.get(name, _NO_PRICES), found.update.get(name, _NO_PRICES)
        if new.shape != old.shape:
            yield Difference(what, slot, f"shape {old.shape}", f"shape {new.shape}")
        elif num_other := np.count_nonzero(~np.isclose(old, new, _ROUNDING, 0, equal_nan=True)):
            yield Difference(what, slot, f"{old.size:,} values", f"{num_other:,} values differ")


class AuctionReplay(ZoneReplay[AuctionOutcome]):
    """Replay of an auction's log."""

    rows = (
        ("bids", "num_bids", ","),
        ("admitted", "num_admitted", ","),
        ("refunded", "num_refunded", ","),
        ("welfare", "welfare", ",.4f"),
        ("revenue", "revenue", ",.4f"),
        ("vendor cost", "vendor_cost", ",.4f"),
        ("operating cost", "operating_cost", ",.4f"),
        ("compute used", "compute_used", ".1%"),
    )

    def __init__(self, source: ReplayInput) -> None:
        super().__init__(source)
        self._cluster = adapter(Cluster).validate_python(source.log.opened["cluster"])

    @property
    def mechanism(self) -> str:
        return str(self.log.opened["mechanism"])

    @property
    def basis(self) -> str:
        return self.mechanism

    def check(self, entry: Entry) -> None:
        self._build(entry)

    def verifier(self) -> AuctionVerifier:
        """Return a verifier at the newest snapshot before the range, or at the first event."""
        log = self.log

        def empty() -> AuctionModel:
            return empty_model(log.opened)

        found = self.source.snapshots.load_latest(
            log.zone, lambda body: decode_snapshot(empty, body), until=log.last_seq_before
        )
        model = empty() if found is None else found.state
        return AuctionVerifier(model, rolls=window_rolls(log.opened))

    def recorded_outcome(self, progress: Progress) -> AuctionOutcome:
        tick = self._begin("as recorded", progress)
        return recorded_outcome(self.log.events(), self._cluster, self.log.first_slot, tick)

    def outcome_under(self, entry: Entry, progress: Progress) -> AuctionOutcome:
        tick = self._begin(entry.label, progress)
        return outcome_under(
            self._build(entry), self.log.events(), self._cluster, self.log.first_slot, tick
        )

    def _begin(self, label: str, progress: Progress) -> Tick:
        return progress(label, self.log.count(EventType.DECIDED)) or noop

    def _build(self, entry: Entry) -> Admission:
        return build_mechanism(self.log.opened, entry.mechanism, entry.settings)
