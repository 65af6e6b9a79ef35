"""Commands of a zone of kind `fcfs`: decisions, and the assignment of jobs to nodes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from auctune.domain import Money, Reason, round_money
from auctune.domain.data_size import DataSize
from auctune.domain.money import ZERO
from auctune.engine.unix_time import SlotClock
from auctune.service.jobs.training import ZoneBid
from auctune.service.storage.queries import JobReadModel
from auctune.service.zones.core.events import SlotStarted
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.zone import EventWriter, SlottedZone
from auctune_fcfs.state import FcfsDecided, FcfsDecision, FcfsJob, FcfsModel, FcfsStarted


@dataclass(frozen=True, slots=True, kw_only=True)
class FcfsBid(ZoneBid):
    """A bid.

    Attributes:
        size: of the data.
        limit: the price must be below it; `None` for any price.
        deadline: unix time.
        num_slots: estimated duration of the job alone on a node.
    """

    size: DataSize
    limit: Money | None
    deadline: float
    num_slots: int


class FcfsZone(SlottedZone[FcfsJob, FcfsBid]):
    """Commands of a zone.

    Args:
        name: of the zone.
        clock: of its slots.
        model: state of the zone.
        writer: of its events.
        price: money for 1,000 trained tokens.
        nodes: ids of the nodes.
    """

    def __init__(
        self,
        name: str,
        clock: SlotClock,
        model: FcfsModel,
        writer: EventWriter,
        price: Money,
        nodes: Sequence[str],
    ) -> None:
        super().__init__(name, clock, model, writer)
        self.state = model.state
        self.nodes = nodes
        self._price = price

    def begin_slot(self, slot: int) -> None:
        self.record(SlotStarted(slot=slot))

    def price(self, bid: FcfsBid) -> Money:
        """Return the price of a job."""
        tokens = bid.size.samples(bid.training.epochs, sample_tokens=1)
        return round_money(float(self._price) * tokens / 1000)

    def expected_finish(self, bid: FcfsBid) -> int:
        """Return the slot in which a job would finish if it joined the queue now."""
        self.begin_slots()
        return self.state.expected_finish(len(self.nodes), bid.num_slots)

    def accept(self, bid: FcfsBid, finish: int) -> JobReadModel | None:
        """Admit a job that was quoted to finish in a slot; `None` if it would now finish later."""
        if self.expected_finish(bid) > finish:
            return None
        return self.decide(replace(bid, limit=None))

    def _decide(self, bid: FcfsBid) -> FcfsDecided:
        price, left = self.price(bid), bid.remaining_budget()
        finish, last = self.expected_finish(bid), self.clock.last_slot_by(bid.deadline)
        reason = None
        if self.state.slot + bid.num_slots > last:
            reason = Reason.NO_FEASIBLE_SCHEDULE
        elif finish > last:
            reason = Reason.NO_CAPACITY
        elif bid.limit is not None and bid.limit <= price:
            reason = Reason.UNPROFITABLE
        elif left is not None and left < price:
            reason = Reason.OVER_BUDGET
        return FcfsDecided(
            owner=bid.owner,
            request=bid.request,
            training=bid.training,
            idempotency_key=bid.idempotency_key,
            size=bid.size,
            deadline=bid.deadline,
            num_slots=bid.num_slots,
            finish=finish,
            decision=FcfsDecision(
                admitted=reason is None,
                reason=reason,
                price=price,
                payment=price if reason is None else ZERO,
            ),
            earliest=finish if finish > last else None,
            budget_remaining=left if reason is Reason.OVER_BUDGET else None,
        )

    def assign_nodes(self) -> dict[str, FcfsJob]:
        """Start waiting jobs on free nodes; return the jobs that train now, by node."""
        free = self.state.free_nodes(self.nodes)
        for job in self.state.queue:
            # A node may have been removed from the settings.
            if free and job.node not in self.nodes:
                self.record(FcfsStarted(node=free.pop(0)), job.id)
        jobs = {job.node: job for job in self.state.queue}
        return {node: jobs[node] for node in self.nodes if node in jobs}

    def end_if_late(self, job: FcfsJob) -> None:
        """Fail a job without a slot before its deadline; refund it unless it is paused."""
        if self.has_slot_before(job.deadline):
            return
        if job.phase is Phase.PAUSED:
            why = "its deadline passed while it was paused"
            self.fail(job.id, "deadline_passed", why, None, refund=False)
        else:
            self.abandon(job.id, "it was not trained by its deadline")
