"""Request side of a spot zone: jobs on instances that are rented by the slot."""

from dataclasses import asdict
from typing import Any

from auctune.domain import InputError, Money
from auctune.service.accounts.registry import Principal
from auctune.service.config.zone import SPOT
from auctune.service.datasets.repairer import DatasetQuote
from auctune.service.fair_queue import ESTIMATES
from auctune.service.jobs.quotes import Alternatives
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.terms import DEADLINE, JobValue, Terms, request_record
from auctune.service.jobs.training import Submission
from auctune.service.storage.queries import JobReadModel
from auctune.service.zones.core.gateway import EstimateGateway, GatewayContext, cap_of
from auctune.service.zones.core.job import Estimate
from auctune.service.zones.spot.state import EstimateInputs, SpotBid
from auctune.service.zones.spot.zone import SpotSupply, SpotZone, no_slot


class SpotGateway(EstimateGateway[SpotZone, SpotBid, EstimateInputs]):
    """Gateway of a spot zone.

    Args:
        context: dependencies that all kinds share.
        rental: supply of the zone.
    """

    kind = SPOT
    terms = Terms(
        required={"market.deadline": DEADLINE},
        unsupported=("market.target_loss", "market.sites", "market.repair"),
    )

    def __init__(self, context: GatewayContext[SpotZone, DatasetQuote], rental: SpotSupply) -> None:
        super().__init__(context, rental.base, rental.n_max * rental.max_jobs)
        self.rental = rental

    def _valued_record(
        self, who: Principal, request: JobRequest, value: JobValue, alternatives: Alternatives
    ) -> dict[str, Any]:
        record = request_record(request, who, value.amount, value.deadline, alternatives)
        return {**record, "zero_at": value.zero_at}

    def _check_cap(self, cap: Money, quoted: Estimate | None) -> None:
        if quoted is not None and cap < quoted.p90_cost:
            expected = f"at least {quoted.p90_cost}: a lower cap is likely to be exceeded"
            raise InputError("market.max_cost", f"{cap}", expected)

    async def _estimate(
        self, submission: Submission, data: DatasetQuote
    ) -> tuple[Estimate, EstimateInputs]:
        rental, training, value = self.rental, submission.training, _value(submission.record)
        rental.check(training, data.size)
        slot = self.clock.slot()
        pace = await self.actor.call(lambda zone: zone.pace)
        ready_at = self.clock.now() + pace.start_seconds
        slots = rental.slot_range(value.deadline, slot, ready_at)
        if not slots:
            raise no_slot(self.clock, slots.start)
        terms = rental.terms(training, data.size, value, slots, pace.speed)
        cap = cap_of(submission.record)
        estimate = await self._quoting.run(
            submission.owner,
            lambda: rental.estimate(terms, slots.start, slot, pace, cap),
            executor=ESTIMATES,
            # Pending jobs are limited by the number of open jobs.
            is_limited=not submission.is_pending,
        )
        inputs = EstimateInputs(
            slot=slot,
            first=slots.start,
            deadline=terms.deadline,
            hard_factor=terms.hard_factor,
            max_cost=estimate.p90_cost if cap is None else cap,
            **asdict(pace),
        )
        return estimate, inputs

    def _estimated_bid(
        self,
        submission: Submission,
        data: DatasetQuote,
        estimate: Estimate,
        inputs: EstimateInputs,
    ) -> SpotBid:
        cap = cap_of(submission.record)
        assert cap is not None
        return SpotBid(
            **self._bid_fields(submission),
            size=data.size,
            worth=_value(submission.record),
            cap=cap,
            estimate=estimate,
            estimate_inputs=inputs,
        )

    def _accept(self, zone: SpotZone, bid: SpotBid) -> JobReadModel | None:
        return zone.decide(bid) if zone.has_room else None

    def _view(self, zone: SpotZone) -> dict[str, Any]:
        zone.begin_slots()
        clock, slots = zone.clock, zone.state.slots.values()
        return {
            "unit_cost": zone.rental.unit_cost,
            "unit_price": zone.rental.unit_price,
            "slots": [{**vars(one), "begins_at": clock.slot_start(one.slot)} for one in slots],
        }


def _value(record: dict[str, Any]) -> JobValue:
    amount = record["bid"]
    return JobValue(
        None if amount is None else Money(amount), record["deadline"], record["zero_at"]
    )
