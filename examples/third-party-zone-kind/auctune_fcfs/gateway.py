"""Gateway of a zone of kind `fcfs`: bids, menus and the operator's view."""

import math
from typing import Any

from auctune.domain import Money
from auctune.files.device_profile import Profile, job_token_cost
from auctune.service.accounts.registry import Principal
from auctune.service.datasets.repairer import DatasetQuote
from auctune.service.jobs.quotes import Alternatives
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.terms import Terms, implied_cap
from auctune.service.jobs.training import Submission, check_adapter, check_batch
from auctune.service.storage.queries import JobReadModel
from auctune.service.zones.core.gateway import GatewayContext, MenuGateway
from auctune.service.zones.core.menu import OfferLine
from auctune.service.zones.core.sections import Column, JobName, Section, ZoneView
from auctune_fcfs.zone import FcfsBid, FcfsZone


class FcfsGateway(MenuGateway[FcfsZone, FcfsBid, DatasetQuote, int]):
    """Gateway of a zone; a line of its menus is the slot in which a job would finish.

    Args:
        context: dependencies that all kinds share.
        base: name of the base model.
        num_nodes: number of nodes.
        profile: of a node's device.
    """

    kind = "fcfs"
    terms = Terms(unsupported=("market.target_loss", "market.sites", "market.repair"))

    def __init__(
        self,
        context: GatewayContext[FcfsZone, DatasetQuote],
        base: str,
        num_nodes: int,
        profile: Profile,
    ) -> None:
        super().__init__(context, base, num_nodes)
        self._profile = profile
        self._max_adapter_gb = profile.memory_gb / num_nodes - profile.base_memory_gb

    def _record(self, who: Principal, request: JobRequest, alternatives: Alternatives) -> Any:
        # As for a quote, bid and deadline are optional: the price is fixed, and without a deadline
        # the horizon of the zone limits the wait.
        limit, deadline = implied_cap(request), self._quote_record(who, request)["deadline"]
        return self._priced_record(who, request, limit, deadline, alternatives)

    async def _bid(self, submission: Submission, data: DatasetQuote) -> FcfsBid:
        training, size = submission.training, data.size
        check_batch(training, size)
        check_adapter(training, self._profile, self._max_adapter_gb)
        batch = self._profile.batch(training, size)
        tokens_per_slot = self._profile.throughput(self.clock.slot_seconds, 1, batch, 1)
        work = size.samples(training.epochs, 1) * job_token_cost(training, size, [self._profile])
        limit = submission.record["bid"]
        return FcfsBid(
            **self._bid_fields(submission),
            size=size,
            limit=None if limit is None else Money(limit),
            deadline=submission.record["deadline"],
            num_slots=math.ceil(work / tokens_per_slot),
        )

    async def _menu(
        self, bid: FcfsBid, *, may_be_empty: bool = False
    ) -> tuple[OfferLine[int], ...]:
        def quote(zone: FcfsZone) -> tuple[OfferLine[int], ...]:
            finish = zone.expected_finish(bid)
            if finish > zone.clock.last_slot_by(bid.deadline):
                return ()
            start, slots = finish - bid.num_slots + 1, bid.num_slots
            return (OfferLine(finish, zone.price(bid), start, finish, slots, slots),)

        return await self.actor.call(quote)

    def _accept(self, zone: FcfsZone, bid: FcfsBid, plan: int) -> JobReadModel | None:
        return zone.accept(bid, plan)

    def _view(self, zone: FcfsZone, job_name: JobName) -> ZoneView:
        columns = (
            *map(Column, ("job", "user", "node")),
            Column("remaining slots", "number"),
            Column("payment"),
        )
        rows = tuple(
            (job_name(job.id), job.owner, job.node, job.remaining_slots, str(job.payment))
            for job in zone.state.queue
        )
        return ZoneView((Section("Queue", "Jobs in order of arrival.", columns, rows),))
