"""Commands of an auction zone: bids, quotes, slots, and the replanning of sold jobs.

Replanning, after a pause, a lost node or a failed repair, never changes a payment.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from auctune.domain import (
    Admission,
    Cell,
    Cluster,
    Decision,
    EnergyForecast,
    Event,
    InputError,
    Money,
    NodeLost,
    NodeReturned,
    Offered,
    PriceMenu,
    Quote,
    Reason,
    Released,
    Replanned,
    Schedule,
    Task,
)
from auctune.domain.data_size import DataSize
from auctune.domain.decision import MenuLine
from auctune.engine.unix_time import SlotClock, to_rfc3339
from auctune.files.device_profile import Profile, job_token_cost
from auctune.files.electricity import RepeatedPrices, read_prices, slot_costs
from auctune.service.config.auction import AuctionConfig, NodeTypeConfig
from auctune.service.datasets.repairer import Repair, VendorOffer
from auctune.service.jobs.training import Training, ZoneBid, check_adapter, check_batch
from auctune.service.storage.event_log import ZoneEvent
from auctune.service.storage.queries import Effects, JobReadModel
from auctune.service.zones.auction.state import (
    AcceptedLine,
    AuctionDecided,
    AuctionJob,
    AuctionModel,
    AuctionPaused,
    AuctionResumed,
    CellsReleased,
    CellsReplanned,
    JobRepaired,
    NodeDown,
    NodeUp,
    PlanRequest,
    VendorChanged,
    mechanism_event_data,
)
from auctune.service.zones.core.events import EventData
from auctune.service.zones.core.job import GivenUp, Phase, SpeedEstimator
from auctune.service.zones.core.zone import EventWriter, SlottedZone

Price = Callable[[int], float]
"""USD per MWh in a slot."""


class ZoneEnergy:
    """Energy forecast of a zone's settings: the cost of a slot at full load, by node type."""

    def __init__(self, costs: Mapping[str, Callable[[int], float]]) -> None:
        self._costs = costs

    def __call__(self, node_type: str, slot: int) -> float:
        return self._costs[node_type](slot)


def zone_energy(entry: AuctionConfig, epoch: float) -> EnergyForecast:
    """Return the energy forecast of a zone whose slot 0 begins at `epoch`."""
    price = _price(entry, epoch)
    return ZoneEnergy(
        {name: _cost(kind, price, entry.slot_seconds) for name, kind in entry.node_types.items()}
    )


def _price(entry: AuctionConfig, epoch: float) -> Price:
    given = entry.energy_price
    if not isinstance(given, str):
        return lambda _: given or 0.0
    try:
        prices, seconds = RepeatedPrices(read_prices(Path(given))), entry.slot_seconds
    except InputError as error:
        raise error if error.place.startswith(given) else error.within(given) from None
    return lambda slot: prices.mean(epoch + slot * seconds, epoch + (slot + 1) * seconds)


def _cost(kind: NodeTypeConfig, price: Price, slot_seconds: float) -> Callable[[int], float]:
    power = kind.power_kw
    if power is None:
        return lambda _: kind.energy_cost
    return lambda slot: slot_costs(power, np.array([price(slot)]), slot_seconds).seen[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid(ZoneBid):
    """Bid in an auction zone, with vendors' offers if the data need repair."""

    size: DataSize
    bid: Money
    deadline: float
    offers: tuple[VendorOffer, ...] = ()


@dataclass(frozen=True, slots=True)
class Supply:
    """Supply of an auction zone: slots of its nodes.

    Attributes:
        cluster: nodes, and the first window of slots.
        sample_tokens: tokens of a sample, the unit of work, of the job that profiles are measured
            with.
    """

    base: str
    cluster: Cluster
    profiles: Mapping[str, Profile]
    sample_tokens: float

    def token_cost(self, training: Training, size: DataSize) -> float:
        """Return what a token of a job is sold as, on the node type where it costs most."""
        used = self.cluster.used_types
        profiles = [one for name, one in self.profiles.items() if name in used]
        return job_token_cost(training, size, profiles)

    def work(self, training: Training, size: DataSize) -> float:
        """Return the work of a job, in samples."""
        return size.samples(training.epochs, self.sample_tokens) * self.token_cost(training, size)

    def task(self, bid: Bid, clock: SlotClock, first: int, last: int) -> Task:
        """Return a bid as the mechanism sees it, to run from slot `first` to `last` at most.

        Raises:
            InputError: if the deadline leaves no slot, no node can hold or run the job, or a
                setting fits no device or its data.
        """
        deadline = min(clock.last_slot_by(bid.deadline), last)
        if deadline < first:
            raise InputError(
                "market.deadline",
                "leaves no whole slot",
                f"{to_rfc3339(clock.slot_end(first))}, when the next slot ends, or later",
            )
        training, size = bid.training, bid.size
        check_batch(training, size)
        kinds = [self.cluster.node_types[node.type] for node in self.cluster.nodes]
        room = max(kind.memory_gb for kind in kinds) - self.cluster.base_memory_gb
        memory = max(check_adapter(training, one, room) for one in self.profiles.values())
        return Task(
            id=bid.job,
            arrival=first,
            deadline=deadline,
            work=self.work(training, size),
            memory_gb=memory,
            bid=bid.bid,
            throughput={
                name: profile.throughput(
                    self.cluster.slot_seconds,
                    self.sample_tokens,
                    profile.batch(training, size),
                    training.share,
                )
                for name, profile in self.profiles.items()
            },
            quotes=tuple(
                Quote(offer.vendor, offer.price, clock.slots_for(offer.seconds))
                for offer in bid.offers
            ),
            owner=bid.owner,
            budget=bid.remaining_budget(),
        )


_WAITS = "no node has room for it before its deadline; it waits until a lost node is back"
_TOO_LATE = (Reason.NO_CAPACITY, Reason.NO_FEASIBLE_SCHEDULE)


def earliest_feasible_slot(
    mechanism: Admission, task: Task, decision: Decision, now: int
) -> int | None:
    """Return the earliest slot by whose end a task could finish that misses its deadline.

    Found by bisection up to the market's last slot: what can finish by a deadline can finish by
    every later one. The mechanism is not changed.
    """
    if decision.reason not in _TOO_LATE:
        return None
    market = mechanism.state()
    last = market.first_slot + len(market.compute_price) - 1

    def can_be_done(deadline: int) -> bool:
        return mechanism.preview(replace(task, deadline=deadline), now).reason not in _TOO_LATE

    low, high = task.deadline + 1, last
    if low > high or not can_be_done(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if can_be_done(middle):
            high = middle
        else:
            low = middle + 1
    return low


T = TypeVar("T")


class AuctionZone(SlottedZone[AuctionJob, Bid]):
    """One zone, at its newest slot. Mechanism and state change by the same functions as in replays.

    Each command leaves the mechanism, the state and the log consistent.
    """

    def __init__(
        self,
        name: str,
        supply: Supply,
        model: AuctionModel,
        clock: SlotClock,
        writer: EventWriter,
    ) -> None:
        super().__init__(name, clock, model, writer)
        self.supply = supply
        self.mechanism = model.mechanism
        self.state = model.state
        self.speed = SpeedEstimator()

    def _apply(self, event: ZoneEvent, data: EventData) -> Effects:
        # The mechanism was changed just before; now that is recorded.
        effects = self.state.evolve(event, data)
        self.model.num_applied += 1
        self._has_unrecorded_change = False
        return effects

    def files_in_use(self) -> set[str]:
        repaired = {job.repaired for job in self.state.jobs.values() if job.repaired is not None}
        return super().files_in_use() | repaired

    def apply_to_mechanism(self, event: Event) -> None:
        """Apply an event to the mechanism; `record` must follow."""
        self._has_unrecorded_change = True
        self.mechanism.apply(event)

    def begin_slot(self, slot: int) -> None:
        self._advance(slot)

    def decide(self, bid: Bid) -> JobReadModel:
        self.begin_slots()
        self._advance(self.state.slot)
        task = self.task(bid)
        decision = self._within_budget(task)
        if decision is None:
            decision = self._book(lambda slot: self.mechanism.offer(task, slot))
        return self._decided(bid, self._decision_data(bid, task, decision))

    def _decide(self, bid: Bid) -> AuctionDecided:
        self._advance(self.state.slot)
        task = self.task(bid)
        decision = preview_decision(self.mechanism, task, self.state.slot)
        return self._decision_data(bid, task, decision)

    def quote(self, bid: Bid) -> PriceMenu:
        """Return prices by finish time, whatever the bid."""
        self.begin_slots()
        # Otherwise each quote would learn due prices by itself, in a copy, until the next bid.
        self._advance(self.state.slot)
        return self.mechanism.quote(self.task(bid), self.state.slot)

    def accept(self, bid: Bid, line: MenuLine) -> JobReadModel | None:
        """Admit a line of an earlier menu at its price; None if that is not possible now."""
        self.begin_slots()
        if line.schedule.start <= self.state.slot:
            return None
        self._advance(self.state.slot)
        task = self.task(bid)
        if task.budget is not None and line.price > task.budget:
            decision: Decision | None = self._reject(task, over_budget(task, line.price))
        else:
            decision = self._book(lambda slot: self.mechanism.take(task, line, slot))
            if decision is None:
                self._has_unrecorded_change = False
        if decision is None:
            return None
        return self._decided(bid, self._decision_data(bid, task, decision, line))

    def pause(self, job: str) -> None:
        self.begin_slots()
        paused = self.pausable_job(job)
        cells = paused.cells_from(self.state.slot + 1)
        self.apply_to_mechanism(Released(paused.task, cells))
        self.record(AuctionPaused(given_up=cells, given_up_for=self._worth(paused, cells)), job)

    def resume(self, job: str) -> bool:
        """Plan a paused job at no charge; return whether there were cells.

        Its cells may not cost more than those given up.
        """
        self.begin_slots()
        paused = self.resumable_job(job)
        found, request = self._plan_rest(paused)
        if found is None:
            return False
        if paused.given_up is not None:
            price = self._price(paused, found, paused.work_left)
            assert price is not None
            paused.given_up.check(price, paused.work_left)
        self._apply_plan(paused, found)
        self.record(AuctionResumed(found=found, plan=request), job)
        return True

    def end_if_late(self, job: AuctionJob) -> None:
        """End a paused job whose deadline has passed.

        It is not refunded: its owner gave up the cells that would have been in time.
        """
        if self.state.slot > job.task.deadline:
            why = "its deadline passed while it was paused"
            self.fail(job.id, "deadline_passed", why, None, refund=False)

    def release_capacity(self, job: AuctionJob) -> None:
        cells = job.cells_from(self.state.slot + 1)
        if cells:
            self.apply_to_mechanism(Released(job.task, cells))
            self.record(CellsReleased(given_up=cells), job.id)

    def replan(self, job: AuctionJob, why: str, *, at_work: float = 0.0) -> None:
        """Plan the remaining work of a job from the next slot on.

        A job without cells waits for lost nodes while they could still finish it, and is refunded
        otherwise. The current slot will still train `at_work` samples.
        """
        given_up = job.cells_from(self.state.slot + 1)
        if given_up:
            self.apply_to_mechanism(Released(job.task, given_up))
        found, request = self._plan_rest(job, at_work)
        if found is not None:
            self._apply_plan(job, found)
            self.record(
                CellsReplanned(given_up=given_up, found=found, why=why, plan=request), job.id
            )
            return
        waits = self._can_wait(job, at_work)
        if given_up or not waits:
            self.record(CellsReleased(given_up=given_up, plan=request), job.id)
        if not waits:
            message = f"{why}; no slots are left for it before its deadline"
            self.fail(job.id, "deadline_missed", message, None)
        else:
            self.note(job.id, _WAITS)

    def _can_wait(self, job: AuctionJob, at_work: float) -> bool:
        """Return whether a lost node could finish a job if it were back in the next slot."""
        speeds = [
            job.task.throughput[self.state.node_type(node)]
            for node in self.state.lost - self.state.drained
        ]
        first = max(self.state.slot + 1, job.data_ready_slot)
        slots = job.task.deadline - first + 1
        return slots * max(speeds, default=0.0) >= job.work_left - at_work

    def lose_node(self, node: str, why: str) -> None:
        self.begin_slots()
        if node not in self.state.lost:
            self._remove_node(node, why, first=self.state.slot, drained=False)

    def drain_node(self, node: str, why: str) -> None:
        """Take a node off the market after the current slot, until it is returned."""
        self.begin_slots()
        if node not in self.state.lost:
            self._remove_node(node, why, first=self.state.slot + 1, drained=True)
        elif node not in self.state.drained:
            # It is lost already; once drained, it stays off the market after its recovery.
            self.record(NodeDown(node=node, why=why, drained=True))

    def return_node(self, node: str) -> None:
        self.begin_slots()
        if node in self.state.lost:
            self.apply_to_mechanism(NodeReturned(node, self.state.slot))
            self.record(NodeUp(node=node))

    def waits_for(self, job: str, repair: Repair) -> bool:
        """Return whether a job is open and still waits for this repair."""
        found = self.state.jobs.get(job)
        return found is not None and found.needs_repair and found.repair == repair

    def complete_repair(
        self, job: str, repair: Repair, file: str, size: DataSize, report: dict[str, Any]
    ) -> bool:
        """Record a repair and pay the vendor; return False if the job no longer waits for it."""
        if not self.waits_for(job, repair):
            return False
        size = replace(size, validation=self.state.jobs[job].size.validation)
        self.record(JobRepaired(file=file, report=report, size=size), job)
        return True

    def switch_vendor(
        self, job: str, failed: Repair, why: str, offers: Sequence[VendorOffer]
    ) -> None:
        """Have another vendor repair a job's data: the cheapest one that keeps its deadline.

        The job keeps its cells if the data are repaired in time for them, and is replanned
        otherwise. If there is no such vendor, it is refunded.
        """
        self.begin_slots()
        if not self.waits_for(job, failed):
            return
        waiting, first = self.state.jobs[job], self.state.slot + 1
        repairs = [
            Repair(one.vendor, one.price, first + self.clock.slots_for(one.seconds), one.reference)
            for one in sorted(offers, key=lambda one: (one.price, one.seconds, one.vendor))
        ]
        if repairs and _keeps_cells(waiting, repairs[0], self.state.slot):
            repair: Repair | None = repairs[0]
        else:
            repair = self._replan_repaired(waiting, why, repairs)
        if repair is not None:
            self.record(VendorChanged(failed=failed.vendor, why=why, repair=repair), job)

    def task(self, bid: Bid) -> Task:
        """Return the task of a bid, from the next slot on.

        On nodes slower than their profile it has more work, and so more slots.
        """
        last = self.state.slot + self.supply.cluster.slots - 1
        task = self.supply.task(bid, self.clock, self.state.slot + 1, last)
        return replace(task, work=task.work / self.speed.speed)

    def _advance(self, slot: int) -> None:
        self._has_unrecorded_change = True
        for event in self.mechanism.advance(slot):
            self.record(mechanism_event_data(event))
        self._has_unrecorded_change = False

    def _book(self, decide: Callable[[int], T]) -> T:
        """Run a decision that the mechanism books; an InputError has changed nothing."""
        self._has_unrecorded_change = True
        try:
            return decide(self.state.slot)
        except InputError:
            self._has_unrecorded_change = False
            raise

    def _decision_data(
        self, bid: Bid, task: Task, decision: Decision, line: MenuLine | None = None
    ) -> AuctionDecided:
        return AuctionDecided(
            owner=bid.owner,
            request=bid.request,
            training=bid.training,
            idempotency_key=bid.idempotency_key,
            size=bid.size,
            task=task,
            offers={offer.vendor: offer.reference for offer in bid.offers if offer.reference},
            decision=decision,
            budget_remaining=task.budget if decision.reason is Reason.OVER_BUDGET else None,
            earliest=self._earliest(task, decision),
            line=None if line is None else AcceptedLine(line.deadline, line.schedule),
        )

    def _earliest(self, task: Task, decision: Decision) -> int | None:
        return earliest_feasible_slot(self.mechanism, task, decision, self.state.slot)

    def _within_budget(self, task: Task) -> Decision | None:
        """Return the rejection of a bid whose price is above the budget, or None."""
        if task.budget is None:
            return None
        decision = preview_decision(self.mechanism, task, self.state.slot)
        return self._reject(task, decision) if decision.reason is Reason.OVER_BUDGET else None

    def _reject(self, task: Task, decision: Decision) -> Decision:
        self.apply_to_mechanism(Offered(task, decision, self.state.slot))
        return decision

    def _remove_node(self, node: str, why: str, *, first: int, drained: bool) -> None:
        slot = self.state.slot
        self.apply_to_mechanism(NodeLost(node, slot))
        self.record(NodeDown(node=node, why=why, drained=drained))
        hit = [job for job in self.state.jobs.values() if _has_cells_on(node, job, first)]
        for job in sorted(hit, key=lambda job: job.task.deadline):
            at_work = 0.0
            if job.last_reported_slot < slot and not job.needs_repair:
                gone = node if first == slot else ""
                at_work = self._samples(
                    job, (cell for cell in job.cells if cell.slot == slot and cell.node != gone)
                )
            reason = f"node {node} {'was drained' if drained else 'was lost'}"
            self.replan(job, reason, at_work=at_work)

    def _replan_repaired(
        self, job: AuctionJob, why: str, repairs: Sequence[Repair]
    ) -> Repair | None:
        """Replan a job after the first of some repairs that leaves cells, or refund it."""
        given_up, request = job.cells_from(self.state.slot + 1), None
        self.apply_to_mechanism(Released(job.task, given_up))
        for repair in repairs:
            found, request = self._plan_rest(job, ready=repair.ready)
            if found is not None:
                self._apply_plan(job, found)
                self.record(
                    CellsReplanned(given_up=given_up, found=found, why=why, plan=request), job.id
                )
                return repair
        self.record(CellsReleased(given_up=given_up, plan=request), job.id)
        message = f"{why}; no other vendor could repair the data in time"
        self.fail(job.id, "vendor_failed", message, None)
        return None

    def _plan_rest(
        self, job: AuctionJob, at_work: float = 0.0, ready: int | None = None
    ) -> tuple[tuple[Cell, ...] | None, PlanRequest | None]:
        """Return cells for the remaining work of a job, and the request to the mechanism.

        Both are None if the job's deadline leaves no cells or no request was made. The current slot
        will still train `at_work` samples; `ready` is the first slot with repaired data, if not as
        agreed.
        """
        first = max(self.state.slot + 1, job.data_ready_slot if ready is None else ready)
        work = job.work_left - at_work
        if work <= 0 < at_work:
            return (), None
        if first > job.task.deadline or work <= 0:
            return None, None
        rest = replace(job.task, work=work, quotes=())
        return self.mechanism.plan_rest(rest, first), PlanRequest(work, first)

    def _apply_plan(self, job: AuctionJob, found: tuple[Cell, ...]) -> None:
        first = self.state.slot + 1
        self.apply_to_mechanism(Replanned(job.task, first, (), found, refunded=False))

    def _worth(self, job: AuctionJob, cells: tuple[Cell, ...]) -> GivenUp | None:
        """Return the worth of cells that a job gives up, or None without cells or prices."""
        if not cells:
            return None
        slot = self.state.slot
        at_work = self._samples(
            job, (cell for cell in job.cells if cell.slot == slot > job.last_reported_slot)
        )
        work = min(max(0.0, job.work_left - at_work), self._samples(job, cells))
        price = None if work <= 0 else self._price(job, cells, work)
        return None if price is None else GivenUp(price, work)

    def _price(self, job: AuctionJob, cells: tuple[Cell, ...], work: float) -> Money | None:
        """Return what a job would pay for cells now, or None if the mechanism charges the bid."""
        rest = replace(job.task, work=work, quotes=())
        plan = self.mechanism.price_plan(rest, Schedule(cells), self.state.slot)
        assert plan is not None
        return plan.price

    def _samples(self, job: AuctionJob, cells: Iterable[Cell]) -> float:
        return sum(job.task.throughput[self.state.node_type(cell.node)] for cell in cells)


def _has_cells_on(node: str, job: AuctionJob, first: int) -> bool:
    if job.phase in (Phase.PAUSED, Phase.TRAINED):
        return False
    return any(cell.node == node for cell in job.cells_from(first))


def _keeps_cells(job: AuctionJob, repair: Repair, slot: int) -> bool:
    """Return whether a repair is in time for all cells of a job from a slot on, if it has any."""
    return all(cell.slot >= repair.ready for cell in job.cells_from(slot))


def preview_decision(mechanism: Admission, task: Task, slot: int) -> Decision:
    """Return the decision on a bid, by its owner's budget too; changes nothing."""
    decision = mechanism.preview(task, slot)
    if task.budget is not None and decision.payment > task.budget:
        return over_budget(task, decision.payment)
    return decision


def over_budget(task: Task, price: Money) -> Decision:
    """Return the rejection of a bid whose price is over its owner's budget."""
    return Decision(task.id, admitted=False, price=price, reason=Reason.OVER_BUDGET)
